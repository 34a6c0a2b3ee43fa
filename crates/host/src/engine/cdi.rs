//! CDI specifications: which files in their folders name devices of NVIDIA's, which ones, and the
//! version of CDI of each.

use gpusetup_database::version::AddOnVersion;
use gpusetup_database::yaml;
use gpusetup_system::System;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The folders of CDI specifications, in ascending priority.
pub const CDI_FOLDERS: [&str; 2] = ["/etc/cdi", "/var/run/cdi"];

/// A CDI specification of NVIDIA's devices.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct CdiSpecification {
    /// The version of CDI that it is written in.
    pub cdi: AddOnVersion,
    /// The devices that it names: `nvidia.com/gpu=0`.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub devices: BTreeSet<String>,
}

/// Whether a CDI specification names devices of NVIDIA's.
pub fn has_cdi_specification(system: &System) -> bool {
    of_nvidia(system).next().is_some()
}

/// The files in the folders of CDI specifications that name devices of NVIDIA's, with their texts.
fn of_nvidia(system: &System) -> impl Iterator<Item = (PathBuf, String)> {
    let names = |folder: &str| system.list(folder).unwrap_or_default();
    let files = CDI_FOLDERS.into_iter().flat_map(move |folder| {
        names(folder)
            .into_iter()
            .map(move |name| Path::new(folder).join(name))
    });
    files.filter_map(|path| {
        let text = system
            .read_text(&path)
            .ok()
            .flatten()
            .filter(|text| text.contains("nvidia.com/"))?;
        Some((path, text))
    })
}

/// The CDI specifications of NVIDIA's devices whose version can be read.
pub(super) fn specifications(system: &System) -> BTreeMap<PathBuf, CdiSpecification> {
    let is_one = |path: &PathBuf| {
        path.extension()
            .is_some_and(|end| end == "yaml" || end == "json")
    };
    let files = of_nvidia(system).filter(|(path, _)| is_one(path));
    files
        .filter_map(|(path, text)| Some((path, specification(&text)?)))
        .collect()
}

/// What is read here of a specification:
/// <https://github.com/cncf-tags/container-device-interface/blob/main/SPEC.md>.
fn specification(text: &str) -> Option<CdiSpecification> {
    #[derive(Deserialize)]
    struct Specification {
        #[serde(rename = "cdiVersion")]
        version: String,
        kind: String,
        #[serde(default)]
        devices: Vec<Device>,
    }
    #[derive(Deserialize)]
    struct Device {
        name: String,
    }
    let read: Specification = yaml::read_texts(text).ok()?;
    let devices = read
        .devices
        .iter()
        .map(|device| format!("{}={}", read.kind, device.name))
        .collect();
    Some(CdiSpecification {
        cdi: cdi_version(&read.version)?,
        devices,
    })
}

/// The version in a `cdiVersion`. The library of CDI leaves a leading v out.
pub fn cdi_version(version: &str) -> Option<AddOnVersion> {
    version.strip_prefix('v').unwrap_or(version).parse().ok()
}

#[cfg(test)]
mod tests {
    use super::super::container_host;
    use super::super::tests::{tree, write};
    use gpusetup_data::embedded;

    #[test]
    fn specifications_are_seen_with_their_version_and_devices() {
        let (_dir, system) = tree();
        let text =
            b"cdiVersion: 0.7.0\nkind: nvidia.com/gpu\ndevices:\n- name: \"0\"\n- name: all\n  containerEdits: {}\n";
        write(&system, "/etc/cdi/nvidia.yaml", text, 0o644);
        write(
            &system,
            "/var/run/cdi/x.json",
            br#"{"cdiVersion": "v1.1.0", "kind": "nvidia.com/gpu"}"#,
            0o644,
        );
        write(
            &system,
            "/etc/cdi/other.yaml",
            b"cdiVersion: 0.5.0\nkind: vendor.example/x\n",
            0o644,
        );
        write(
            &system,
            "/etc/cdi/torn.yaml",
            b"cdiVersion: [\nkind: nvidia.com/gpu\n",
            0o644,
        );
        let found = container_host(&system, &embedded(), None).specifications;
        let shown: Vec<_> = found
            .iter()
            .map(|(path, spec)| format!("{} {} {:?}", path.display(), spec.cdi, spec.devices))
            .collect();
        let expected = r#"/etc/cdi/nvidia.yaml 0.7.0 {"nvidia.com/gpu=0", "nvidia.com/gpu=all"}"#;
        assert_eq!(shown, [expected, "/var/run/cdi/x.json 1.1.0 {}"]);
    }
}
