//! CRI-O, which gets a file beside its configuration.

use super::BrokenConfig;
use super::configuration::Configuration;
use super::documents::{ConfigError, NVIDIA_RUNTIME, Runtimes, toml_document};
use super::edit::Target;
use super::form::{EngineBehaviour, GpuAccess};
use super::low_level::low_level_runtimes;
use super::merge::{comments_first, copy, remove, table, table_mut};
use super::places;
use gpusetup_database::compat::{ContainerToolkit, Engine};
use gpusetup_system::System;
use std::path::{Path, PathBuf};
use toml_edit::{DocumentMut, Item, Table, TableLike, value};

/// How CRI-O is configured.
pub(crate) static FORM: EngineBehaviour = EngineBehaviour {
    runs_pods: true,
    falls_back_to_cdi: true,
    inherits_default: true,
    place,
    merge: Some(merge),
    unmerge: Some(|text, _| without_ours(text)),
    ..EngineBehaviour::new(GpuAccess::Runtime, places::with_parts, |text, _, _| {
        Runtimes::from_toml(text)
    })
};

fn place(engine: &Engine) -> Option<(&[String], &Path)> {
    let file = engine.drop_in.as_ref()?;
    Some((&engine.start_options.parts, Path::new(file)))
}

fn merge(
    target: &Target,
    path: &Path,
    text: Option<&str>,
) -> Result<Option<(PathBuf, String)>, BrokenConfig> {
    if target.runtime_in().is_some() {
        return Ok(None);
    }
    let own = target.engine.own_default_runtimes(target.version);
    match merged(text, target.runtime, &target.texts(), &own) {
        Ok(content) => Ok(Some((path.to_owned(), content))),
        Err(e) => Err(target.broken(path, &e)),
    }
}

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
fn merged(
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
fn without_ours(text: &str) -> Result<Option<String>, ConfigError> {
    let mut doc = toml_document(text)?;
    remove(&mut doc, &OURS);
    let after = doc.to_string();
    Ok((!comments_first(&after)?.1.is_empty()).then_some(after))
}

/// The runc or crun of CRI-O, `/usr/libexec/crio/crun`, if the toolkit's runtime finds none at all.
/// None if another toolkit's is used, such as the GPU Operator's, or if the toolkit's configuration
/// cannot be read.
pub(super) fn runtime_outside_path(
    system: &System,
    toolkit: &ContainerToolkit,
    engine: &Engine,
    read: &Configuration,
) -> Option<PathBuf> {
    let known = toolkit.low_level.as_ref()?;
    let text = system.read_text(&known.config).ok()?.unwrap_or_default();
    let candidates = low_level_runtimes(&text)
        .ok()?
        .unwrap_or_else(|| known.names.clone());
    if candidates.iter().any(|name| match name.contains('/') {
        true => system.exists(name),
        false => known
            .folders
            .iter()
            .any(|folder| system.exists(Path::new(folder).join(name))),
    }) {
        return None;
    }
    let program = read
        .program_named(engine, &known.names)
        .filter(|_| !read.has_other_toolkit(&toolkit.runtime));
    program.map(Path::to_path_buf)
}

#[cfg(test)]
mod tests {
    use super::super::container_host;
    use super::super::tests::{tree, write};
    use super::*;
    use gpusetup_data::embedded;

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

    #[test]
    fn crios_runtimes_are_read() {
        let text = format!(
            "[crio.runtime]\ndefault_runtime = \"nvidia\"\n[crio.runtime.runtimes.nvidia]\nruntime_path = \"{PATH}\" # NVIDIA's\n"
        );
        let found = Runtimes::from_toml(&text).expect("readable");
        assert_eq!(
            (
                found.programs["nvidia"].as_deref(),
                found.default.as_deref()
            ),
            (Some(PATH), Some("nvidia"))
        );
        assert!(FORM.has_nvidia_runtime(&text) && !FORM.has_nvidia_runtime("[crio"));
        assert_eq!(
            Runtimes::from_toml("# runtime_path = \"x\"\n[crio]\n"),
            Ok(Runtimes::default())
        );
    }

    const CONFIG: &str = "/etc/nvidia-container-runtime/config.toml";
    /// The file of CRI-O's own packages.
    const WITH_BOTH: &str = "[crio.runtime]\ndefault_runtime = \"crun\"\n\
                              [crio.runtime.runtimes.crun]\nruntime_path = \"/usr/libexec/crio/crun\"\n\
                              [crio.runtime.runtimes.runc]\nruntime_path = \"/usr/libexec/crio/runc\"\n";

    /// CRI-O's program that NVIDIA's runtime does not find on a host with these files.
    fn outside(files: &[(&str, &str)]) -> Option<String> {
        let (_dir, system) = tree();
        files
            .iter()
            .for_each(|(path, text)| write(&system, path, text.as_bytes(), 0o755));
        container_host(&system, &embedded(), None)
            .runtime_outside_path
            .map(|path| path.display().to_string())
    }

    /// The same for CRI-O's own packages and these files.
    fn of_packages(more: &[(&str, &str)]) -> Option<String> {
        let own = [
            ("/usr/bin/crio", ""),
            ("/etc/crio/crio.conf.d/10-crio.conf", WITH_BOTH),
            ("/usr/libexec/crio/crun", ""),
            ("/usr/libexec/crio/runc", ""),
        ];
        outside(&[&own[..], more].concat())
    }

    /// The same with this list in the toolkit's configuration.
    fn with_list(names: &str, more: &[(&str, &str)]) -> Option<String> {
        let text = format!("[nvidia-container-runtime]\nruntimes = [{names}]\n");
        of_packages(&[&[(CONFIG, text.as_str())][..], more].concat())
    }

    #[test]
    fn crios_own_packages_have_runtimes_outside_of_path() {
        let [crun, runc] = ["crun", "runc"].map(|name| Some(format!("/usr/libexec/crio/{name}")));
        assert_eq!(of_packages(&[]), crun);
        assert_eq!(with_list("\"docker-runc\", \"runc\", \"crun\"", &[]), crun);
        assert_eq!(with_list("\"/opt/gone\", \"runc\"", &[]), crun);
        assert_eq!(
            of_packages(&[(CONFIG, "[nvidia-container-runtime]\nmode = \"cdi\"\n")]),
            crun
        );
        let default = |name: &str| {
            let text = format!("[crio.runtime]\ndefault_runtime = \"{name}\"\n");
            of_packages(&[("/etc/crio/crio.conf.d/20.conf", text.as_str())])
        };
        assert_eq!(default("runc"), runc);
        assert_eq!(default("kata"), runc, "NVIDIA's runtime needs runc or crun");
    }

    #[test]
    fn a_runtime_that_is_found_is_enough() {
        let [runc, youki] = [("/usr/sbin/runc", ""), ("/usr/local/bin/youki", "")];
        assert_eq!(of_packages(&[runc]), None);
        assert_eq!(with_list("\"/usr/libexec/crio/runc\"", &[]), None);
        assert_eq!(with_list("\"youki\"", &[youki]), None);
        assert!(
            with_list("\"youki\"", &[runc]).is_some(),
            "it is not in the list"
        );
        assert_eq!(
            of_packages(&[(CONFIG, "[nvidia-container-runtime\n")]),
            None,
            "NVIDIA's runtime cannot read it"
        );
    }

    #[test]
    fn another_toolkit_and_another_engine_do_not_count() {
        let nvidia = |folder: &str| {
            let text = format!(
                "[crio.runtime.runtimes.nvidia]\nruntime_path = \"{folder}/nvidia-container-runtime\"\n"
            );
            of_packages(&[("/etc/crio/crio.conf.d/99-nvidia.toml", text.as_str())])
        };
        assert!(nvidia("/usr/bin").is_some());
        assert_eq!(
            nvidia("/usr/local/nvidia/toolkit"),
            None,
            "the GPU Operator's"
        );
        assert_eq!(
            outside(&[("/etc/crio/crio.conf.d/10-crio.conf", WITH_BOTH)]),
            None,
            "CRI-O is not installed"
        );
        assert_eq!(
            outside(&[("/usr/bin/crio", "")]),
            None,
            "its program is not known"
        );
    }
}
