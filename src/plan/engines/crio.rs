//! A file beside CRI-O's configuration, with NVIDIA's runtime.

use super::merge::{comments_first, remove, table, table_mut};
use crate::host::{ConfigError, NVIDIA_RUNTIME, toml_document};
use toml_edit::{Item, Table, value};

/// The text of the file with the runtime at this path; what another tool wrote there stays.
///
/// # Errors
///
/// If the file is no TOML.
pub fn merged(text: Option<&str>, runtime: &str) -> Result<String, ConfigError> {
    let (comments, rest) = comments_first(text.unwrap_or("# Written by gpusetup.\n"))?;
    let runtimes = ["crio", "runtime", "runtimes"];
    if table(&toml_document(rest)?, &runtimes).is_some_and(|all| all.contains_key(NVIDIA_RUNTIME)) {
        return Ok(rest.to_owned());
    }
    let end = if rest.is_empty() || rest.ends_with('\n') { "" } else { "\n" };
    let mut doc = toml_document(&format!("{rest}{end}"))?;
    let mut ours = Table::new();
    ours.insert("runtime_path", value(runtime));
    ours.insert("runtime_type", value("oci"));
    table_mut(&mut doc, &runtimes)?.insert(NVIDIA_RUNTIME, Item::Table(ours));
    Ok(format!("{comments}{doc}"))
}

/// The path of NVIDIA's runtime among the keys.
const OURS: [&str; 4] = ["crio", "runtime", "runtimes", NVIDIA_RUNTIME];

/// The text without the runtime; none if nothing but comments stays.
///
/// # Errors
///
/// If the file is no TOML.
pub fn without_ours(text: &str) -> Result<Option<String>, ConfigError> {
    let mut doc = toml_document(text)?;
    remove(&mut doc, &OURS);
    let after = doc.to_string();
    Ok((!comments_first(&after)?.1.is_empty()).then_some(after))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATH: &str = "/usr/bin/nvidia-container-runtime";

    #[test]
    fn a_new_file_has_the_runtime() {
        let text = merged(None, PATH).expect("mergeable");
        assert_eq!(
            text,
            format!(
                "# Written by gpusetup.\n[crio.runtime.runtimes.nvidia]\nruntime_path = \"{PATH}\"\nruntime_type = \"oci\"\n"
            )
        );
        assert_eq!(merged(Some(&text), PATH).as_deref(), Ok(text.as_str()));
        assert_eq!(without_ours(&text), Ok(None));
    }

    #[test]
    fn what_another_tool_wrote_stays() {
        let theirs = "[crio]\n\n  [crio.runtime]\n    default_runtime = \"nvidia\"\n\n    [crio.runtime.runtimes]\n\n      [crio.runtime.runtimes.nvidia]\n        runtime_path = \"/usr/bin/nvidia-container-runtime\"\n        runtime_type = \"oci\"\n";
        assert_eq!(merged(Some(theirs), PATH).as_deref(), Ok(theirs));
        let other = "[crio.runtime]\nlog_level = \"info\" # ours";
        let after = merged(Some(other), PATH).expect("mergeable");
        assert!(after.starts_with(other) && after.contains("[crio.runtime.runtimes.nvidia]"), "{after}");
        assert!(merged(Some("[crio"), PATH).is_err());
        assert_eq!(without_ours(&after), Ok(Some(format!("{other}\n"))));
    }
}
