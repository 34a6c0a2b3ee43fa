//! Commands for GPUs that are assumed (`--gpu`): as they are, they would plan for those of the
//! machine that they are typed on.

use gpusetup_text::text::quoted;

/// The options that name these GPUs, each with a blank before it: ` --gpu l4 --gpu 'rtx 3090'`.
pub fn options(gpus: &[String]) -> String {
    gpus.iter()
        .map(|gpu| format!(" --gpu {}", quoted(gpu)))
        .collect()
}

/// The command for these GPUs: `gpusetup plan` gets the options that name them.
pub fn command(text: &str, gpus: &[String]) -> String {
    text.replacen(
        "gpusetup plan",
        &format!("gpusetup plan{}", options(gpus)),
        1,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_that_plan_name_the_gpus() {
        let gpus = ["l4", "rtx 3090"].map(str::to_owned);
        assert_eq!(
            command("gpusetup plan --cuda 12", &gpus),
            "gpusetup plan --gpu l4 --gpu 'rtx 3090' --cuda 12"
        );
        assert_eq!(command("sudo ldconfig", &gpus), "sudo ldconfig");
        assert_eq!(command("gpusetup plan", &[]), "gpusetup plan");
    }
}
