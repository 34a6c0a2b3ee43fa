//! The low-level runtimes, runc and crun, which NVIDIA's runtime starts. It does not find those of
//! CRI-O's own packages.

use super::configuration::Configuration;
use crate::engine_config::{ConfigError, toml_document};
use gpusetup_database::compat::{ContainerToolkit, Engine};
use gpusetup_system::System;
use std::path::{Path, PathBuf};
use toml_edit::Item;

/// The table with the list in the toolkit's configuration, and its key there.
pub const LOW_LEVEL_RUNTIMES: [&str; 2] = ["nvidia-container-runtime", "runtimes"];

/// The list of low-level runtimes in the toolkit's configuration; none if it is not set.
///
/// # Errors
///
/// If the file is no TOML.
pub fn low_level_runtimes(text: &str) -> Result<Option<Vec<String>>, ConfigError> {
    let [table, key] = LOW_LEVEL_RUNTIMES;
    let doc = toml_document(text)?;
    let list = doc
        .get(table)
        .and_then(|table| table.get(key))
        .and_then(Item::as_array);
    Ok(list.map(|all| {
        all.iter()
            .filter_map(|name| name.as_str())
            .map(str::to_owned)
            .collect()
    }))
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
    let is_found = |name: &String| match name.contains('/') {
        true => system.exists(name),
        false => known
            .folders
            .iter()
            .any(|folder| system.exists(Path::new(folder).join(name))),
    };
    if candidates.iter().any(is_found) {
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
    use gpusetup_data::embedded;

    const CONFIG: &str = "/etc/nvidia-container-runtime/config.toml";
    /// The file of CRI-O's own packages.
    const OF_PACKAGE: &str = "[crio.runtime]\ndefault_runtime = \"crun\"\n\
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
            ("/etc/crio/crio.conf.d/10-crio.conf", OF_PACKAGE),
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
            outside(&[("/etc/crio/crio.conf.d/10-crio.conf", OF_PACKAGE)]),
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
