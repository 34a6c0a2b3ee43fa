//! A file beside CRI-O's configuration, with NVIDIA's runtime.

use super::merge::{comments_first, copy, remove, table, table_mut};
use gpusetup_host::{ConfigError, NVIDIA_RUNTIME, toml_document};
use toml_edit::{DocumentMut, Item, Table, TableLike, value};

/// The settings with which CRI-O starts containers.
const SETTINGS: [&str; 2] = ["crio", "runtime"];

/// Settings of a runtime that are about its own program.
const OF_PROGRAM: [&str; 5] = [
    "runtime_path",
    "runtime_type",
    "runtime_config_path",
    "platform_runtime_paths",
    "inherit_default_runtime",
];

/// The text of the file with the runtime at this path; what another tool wrote there stays. `files`
/// are the texts of all files that CRI-O reads, in its order, and `own` the names of the runtimes
/// that it may choose itself.
///
/// # Errors
///
/// If the file is no TOML.
pub fn merged(
    text: Option<&str>,
    runtime: &str,
    files: &[&str],
    own: &[&str],
) -> Result<String, ConfigError> {
    let (comments, rest) = comments_first(text.unwrap_or("# Written by gpusetup.\n"))?;
    let runtimes = ["crio", "runtime", "runtimes"];
    if table(&toml_document(rest)?, &runtimes).is_some_and(|all| all.contains_key(NVIDIA_RUNTIME)) {
        return Ok(rest.to_owned());
    }
    let end = if rest.is_empty() || rest.ends_with('\n') {
        ""
    } else {
        "\n"
    };
    let mut doc = toml_document(&format!("{rest}{end}"))?;
    table_mut(&mut doc, &runtimes)?.insert(
        NVIDIA_RUNTIME,
        Item::Table(runtime_like_default(files, own, runtime)),
    );
    Ok(format!("{comments}{doc}"))
}

/// NVIDIA's runtime with the settings that the default runtime has here. Without its
/// `monitor_path`, CRI-O looks for conmon in $PATH, and does not start if it is elsewhere.
fn runtime_like_default(files: &[&str], own: &[&str], runtime: &str) -> Table {
    let files: Vec<_> = files
        .iter()
        .filter_map(|text| toml_document(text).ok())
        .collect();
    let mut ours = Table::new();
    ours.insert("runtime_path", value(runtime));
    ours.insert("runtime_type", value("oci"));
    let settings = default_runtime(&files, own)
        .into_iter()
        .flat_map(|default| default.iter());
    settings
        .filter(|(key, _)| !OF_PROGRAM.contains(key))
        .for_each(|(key, item)| copy(key, item, &mut ours));
    ours
}

/// The table of the default runtime, or else that of runc or crun, as for `nvidia-ctk runtime
/// configure`. A table in a later file replaces that of an earlier one.
fn default_runtime<'f>(files: &'f [DocumentMut], own: &[&str]) -> Option<&'f dyn TableLike> {
    let named = files
        .iter()
        .rev()
        .find_map(|doc| table(doc, &SETTINGS)?.get("default_runtime")?.as_str());
    let names = named
        .into_iter()
        .chain(own.iter().copied())
        .chain(["runc", "crun"]);
    let mut found = names.filter_map(|name| {
        let path = [&SETTINGS[..], &["runtimes", name]].concat();
        files.iter().rev().find_map(|doc| table(doc, &path))
    });
    found.find(|runtime| is_oci(*runtime))
}

/// Whether conmon monitors its containers, as those of NVIDIA's runtime.
fn is_oci(runtime: &dyn TableLike) -> bool {
    runtime
        .get("runtime_type")
        .and_then(Item::as_str)
        .is_none_or(|kind| matches!(kind, "" | "oci"))
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
        let text = merged(None, PATH, &[], &[]).expect("mergeable");
        assert_eq!(
            text,
            format!(
                "# Written by gpusetup.\n[crio.runtime.runtimes.nvidia]\nruntime_path = \"{PATH}\"\nruntime_type = \"oci\"\n"
            )
        );
        assert_eq!(
            merged(Some(&text), PATH, &[], &[]).as_deref(),
            Ok(text.as_str())
        );
        assert_eq!(without_ours(&text), Ok(None));
    }

    #[test]
    fn what_another_tool_wrote_stays() {
        let theirs = "[crio]\n\n  [crio.runtime]\n    default_runtime = \"nvidia\"\n\n    [crio.runtime.runtimes]\n\n      [crio.runtime.runtimes.nvidia]\n        runtime_path = \"/usr/bin/nvidia-container-runtime\"\n        runtime_type = \"oci\"\n";
        assert_eq!(merged(Some(theirs), PATH, &[], &[]).as_deref(), Ok(theirs));
        let other = "[crio.runtime]\nlog_level = \"info\" # ours";
        let after = merged(Some(other), PATH, &[], &[]).expect("mergeable");
        assert!(
            after.starts_with(other) && after.contains("[crio.runtime.runtimes.nvidia]"),
            "{after}"
        );
        assert!(merged(Some("[crio"), PATH, &[], &[]).is_err());
        assert_eq!(without_ours(&after), Ok(Some(format!("{other}\n"))));
    }

    /// The file of CRI-O's packages.
    const OF_PACKAGE: &str = r#"[crio.image]
signature_policy = "/etc/crio/policy.json"

[crio.runtime]
default_runtime = "crun"

[crio.runtime.runtimes.crun]
runtime_path = "/usr/libexec/crio/crun"
runtime_root = "/run/crun"
monitor_path = "/usr/libexec/crio/conmon"
allowed_annotations = [
    "io.containers.trace-syscall",
]

[crio.runtime.runtimes.runc]
runtime_path = "/usr/libexec/crio/runc"
runtime_root = "/run/runc"
monitor_path = "/usr/libexec/crio/conmon"
"#;

    #[test]
    fn the_runtime_has_the_settings_of_the_default_one() {
        let with = |files: &[&str]| merged(None, PATH, files, &["crun"]).expect("mergeable");
        let ours = format!(
            "[crio.runtime.runtimes.nvidia]\nruntime_path = \"{PATH}\"\nruntime_type = \"oci\"\nruntime_root = \"/run/crun\"\n\
             monitor_path = \"/usr/libexec/crio/conmon\"\nallowed_annotations = [\n    \"io.containers.trace-syscall\",\n]\n"
        );
        assert!(
            with(&[OF_PACKAGE]).ends_with(&ours),
            "{}",
            with(&[OF_PACKAGE])
        );
        assert_eq!(without_ours(&with(&[OF_PACKAGE])), Ok(None));
        let later = "[crio.runtime.runtimes.crun]\nmonitor_path = \"/opt/conmon\" # ours\n";
        assert!(
            with(&[OF_PACKAGE, later]).ends_with("monitor_path = \"/opt/conmon\"\n"),
            "it replaces the table"
        );
        let runc = with(&[OF_PACKAGE, "[crio.runtime]\ndefault_runtime = \"runc\"\n"]);
        assert!(runc.contains("runtime_root = \"/run/runc\""), "{runc}");
        let unnamed = OF_PACKAGE.replace("default_runtime = \"crun\"\n", "");
        assert!(
            with(&[&unnamed]).contains("runtime_root = \"/run/crun\""),
            "CRI-O chooses it itself"
        );
        let of_runc = "[crio.runtime.runtimes.runc]\nmonitor_path = \"/opt/conmon\"\n";
        assert!(
            with(&[of_runc]).ends_with("monitor_path = \"/opt/conmon\"\n"),
            "the default one has no table"
        );
    }

    #[test]
    fn settings_of_another_program_or_monitor_are_not_taken() {
        let with = |files: &[&str]| merged(None, PATH, files, &["crun"]).expect("mergeable");
        let kata = "[crio.runtime]\ndefault_runtime = \"kata\"\n[crio.runtime.runtimes.kata]\nruntime_type = \"vm\"\n\
                    privileged_without_host_devices = true\n";
        assert_eq!(with(&[kata]), with(&[]));
        let more = "[crio.runtime.runtimes.runc]\ninherit_default_runtime = true\n\
                    platform_runtime_paths = {\"linux/arm64\" = \"/usr/bin/crun\"}\n\
                    [crio.runtime.runtimes.runc.default_annotations]\n\"a.example/b\" = \"c\"\n";
        let text = with(&[more]);
        assert!(
            text.contains("default_annotations = {") && text.contains("\"a.example/b\" = \"c\""),
            "{text}"
        );
        assert!(
            !text.contains("inherit_default_runtime") && !text.contains("crun"),
            "{text}"
        );
        assert_eq!(
            with(&["[crio"]),
            with(&[]),
            "the plan refuses a file that CRI-O cannot read"
        );
    }
}
