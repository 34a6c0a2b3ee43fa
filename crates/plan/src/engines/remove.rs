//! The configuration files of engines without NVIDIA's runtime.

use super::{containerd, crio, daemon_json};
use gpusetup_database::compat::EngineForm;
use gpusetup_host::{ConfigError, has_nvidia_runtime};

/// A file of others that gpusetup changed, as it was before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Original {
    /// Its text; none if it did not exist.
    pub text: Option<String>,
    /// Nobody has changed it since.
    pub unchanged: bool,
}

/// What becomes of a file that has NVIDIA's runtime, or had it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Restored {
    /// It stays as it is.
    Same,
    /// It has the runtime, and gpusetup did not write it.
    Theirs,
    /// It gets this text.
    Text(String),
    /// It is removed: gpusetup made it.
    Gone,
}

/// What becomes of a file: what it was before gpusetup changed it, or, if it has changed since,
/// what others wrote.
///
/// # Errors
///
/// If the file has changed and cannot be read.
pub fn restored(
    form: EngineForm,
    text: &str,
    original: Option<&Original>,
) -> Result<Restored, ConfigError> {
    let has_runtime = has_nvidia_runtime(form, text);
    let Some(Original {
        text: before,
        unchanged,
    }) = original.filter(|_| has_runtime)
    else {
        return Ok(if has_runtime {
            Restored::Theirs
        } else {
            Restored::Same
        });
    };
    let earlier = before.as_deref().unwrap_or_default();
    let after = match form {
        _ if *unchanged => before.clone(),
        EngineForm::DaemonJson => daemon_json::without_ours(text, earlier)?,
        EngineForm::Crio => crio::without_ours(text)?,
        EngineForm::Containerd => containerd::without_ours(text, earlier)?,
        EngineForm::Detects | EngineForm::Cdi => return Ok(Restored::Same),
    };
    Ok(match after.or_else(|| before.clone()) {
        Some(after) if after == text => Restored::Same,
        Some(after) => Restored::Text(after),
        None => Restored::Gone,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const OURS: &str =
        r#"{"debug": true, "runtimes": {"nvidia": {"path": "/usr/bin/nvidia-container-runtime"}}}"#;

    fn docker(text: &str, before: Option<&str>, unchanged: bool) -> Restored {
        let original = Original {
            text: before.map(str::to_owned),
            unchanged,
        };
        restored(EngineForm::DaemonJson, text, Some(&original)).expect("JSON")
    }

    #[test]
    fn a_file_becomes_what_it_was_or_loses_only_the_runtime() {
        let before = "{\"debug\":   true}";
        assert_eq!(
            docker(OURS, Some(before), true),
            Restored::Text(before.to_owned())
        );
        assert_eq!(
            docker(OURS, Some(before), false),
            Restored::Text("{\"debug\": true}".to_owned())
        );
        assert_eq!(docker(OURS, None, true), Restored::Gone);
        assert_eq!(
            docker(OURS, None, false),
            Restored::Text("{\"debug\": true}".to_owned())
        );
        assert_eq!(
            docker(before, Some(OURS), true),
            Restored::Same,
            "the runtime is gone already"
        );
        assert_eq!(
            restored(EngineForm::DaemonJson, OURS, None),
            Ok(Restored::Theirs)
        );
        assert_eq!(
            restored(EngineForm::DaemonJson, before, None),
            Ok(Restored::Same)
        );
    }
}
