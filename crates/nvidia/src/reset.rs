//! Resets GPUs with nvidia-smi: NVML has no function for it.

use super::ask::{limit, stand_in};
use gpusetup_system::{Program, System};
use std::time::Duration;

/// Each GPU is reset and initialised again, one after the other.
const LIMIT: Duration = Duration::from_secs(300);

/// Resets GPUs of this machine, named by bus address, in one command: GPUs that NVLink joins may
/// have to be reset together.
///
/// # Errors
///
/// What nvidia-smi printed.
pub fn reset(gpus: &[String]) -> Result<(), String> {
    let program = stand_in("nvidia-smi").unwrap_or_else(|| "nvidia-smi".to_owned());
    let argv = [
        program,
        "--gpu-reset".to_owned(),
        "-i".to_owned(),
        gpus.join(","),
    ];
    match System::live().run(&Program::new(argv).limit(limit(LIMIT)).undisturbed()) {
        Ok(output) if output.succeeded() => Ok(()),
        Ok(output) => Err(format!(
            "nvidia-smi --gpu-reset: {}",
            output.last_lines(2).replace('\n', " ")
        )),
        Err(e) => Err(format!("cannot run nvidia-smi: {e}")),
    }
}
