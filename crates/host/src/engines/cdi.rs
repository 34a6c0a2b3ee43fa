//! CDI specifications: what they describe, and why engines do not read them.

use gpusetup_database::compat::Database;
use gpusetup_database::version::{AddOnVersion, DriverVersion};
use gpusetup_database::yaml;
use gpusetup_nvidia::Answer;
use gpusetup_system::System;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The folders of CDI specifications, in ascending priority.
const CDI_FOLDERS: [&str; 2] = ["/etc/cdi", "/var/run/cdi"];

/// A CDI specification of NVIDIA's devices that engines read.
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

/// A CDI specification of devices for containers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct CdiSpec {
    /// The file of the specification.
    pub path: PathBuf,
    /// The version of CDI that it is written in, `0.5.0`. None in older evidence, or if it cannot
    /// be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The devices it describes, `nvidia.com/gpu=0`.
    pub devices: BTreeSet<String>,
    /// The version of the driver whose files it mounts, by their names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver: Option<DriverVersion>,
    /// Files that it mounts into containers but that do not exist; or why engines cannot read it.
    pub missing: Answer<Vec<PathBuf>>,
}

/// The fields of a CDI specification that are read here:
/// <https://github.com/cncf-tags/container-device-interface/blob/main/SPEC.md>.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    #[serde(default)]
    cdi_version: Option<String>,
    kind: String,
    #[serde(default)]
    devices: Vec<Device>,
    #[serde(default)]
    container_edits: Edits,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Device {
    name: String,
    #[serde(default)]
    container_edits: Edits,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Edits {
    #[serde(default)]
    mounts: Option<Vec<Mount>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Mount {
    host_path: PathBuf,
}

/// The keys of each part of a specification in the versions up to 1.1.0; in other parts they are
/// free. <https://github.com/cncf-tags/container-device-interface/blob/main/specs-go/config.go>
const KEYS: [(&str, &[&str]); 8] = [
    (
        "",
        &[
            "cdiVersion",
            "kind",
            "annotations",
            "devices",
            "containerEdits",
        ],
    ),
    ("devices", &["name", "annotations", "containerEdits"]),
    (
        "containerEdits",
        &[
            "env",
            "deviceNodes",
            "netDevices",
            "hooks",
            "mounts",
            "intelRdt",
            "additionalGids",
        ],
    ),
    (
        "deviceNodes",
        &[
            "path",
            "hostPath",
            "type",
            "major",
            "minor",
            "fileMode",
            "permissions",
            "uid",
            "gid",
        ],
    ),
    ("netDevices", &["hostInterfaceName", "name"]),
    ("hooks", &["hookName", "path", "args", "env", "timeout"]),
    ("mounts", &["hostPath", "containerPath", "options", "type"]),
    (
        "intelRdt",
        &[
            "closID",
            "l3CacheSchema",
            "memBwSchema",
            "schemata",
            "enableMonitoring",
            "enableCMT",
            "enableMBM",
        ],
    ),
];

/// The specifications of NVIDIA's devices.
pub fn cdi_specs(system: &System, database: &Database) -> Vec<CdiSpec> {
    CDI_FOLDERS
        .iter()
        .flat_map(|folder| specs_in(system, database, folder))
        .collect()
}

/// Those that engines read.
pub(super) fn specifications(
    system: &System,
    database: &Database,
) -> BTreeMap<PathBuf, CdiSpecification> {
    let specs = cdi_specs(system, database);
    specs
        .into_iter()
        .filter_map(|spec| {
            let cdi = spec.version?.parse().ok()?;
            let devices = spec.devices;
            Some((spec.path, CdiSpecification { cdi, devices }))
        })
        .collect()
}

/// Files that describe NVIDIA's devices, and that engines do not read because of their names.
pub fn misnamed_cdi_specs(system: &System) -> Vec<PathBuf> {
    CDI_FOLDERS
        .into_iter()
        .flat_map(|folder| files_in(system, folder))
        .filter(|path| {
            path.extension().is_some_and(|end| end == "yml")
                && text(system, path).contains("nvidia.com/")
        })
        .collect()
}

fn files_in(system: &System, folder: &str) -> Vec<PathBuf> {
    let names = system.list(folder).unwrap_or_default();
    names
        .iter()
        .map(|name| Path::new(folder).join(name))
        .collect()
}

fn text(system: &System, path: &Path) -> String {
    system.read_text(path).ok().flatten().unwrap_or_default()
}

fn specs_in(system: &System, database: &Database, folder: &str) -> Vec<CdiSpec> {
    files_in(system, folder)
        .into_iter()
        .filter_map(|path| {
            let end = path.extension()?;
            if end != "yaml" && end != "json" {
                return None;
            }
            let name = path.file_name()?.to_string_lossy().into_owned();
            let text = text(system, &path);
            let spec = spec(system, database, path, &text);
            // Other vendors' devices do not matter here. A file that cannot be read may not even name
            // them.
            let is_ours =
                text.contains("nvidia.com/") || spec.devices.is_empty() && name.contains("nvidia");
            is_ours.then_some(spec)
        })
        .collect()
}

fn spec(system: &System, database: &Database, path: PathBuf, text: &str) -> CdiSpec {
    let (version, spec) = match parsed(database, text) {
        Ok(read) => read,
        Err(why) => {
            let devices = BTreeSet::new();
            return CdiSpec {
                path,
                version: None,
                devices,
                driver: None,
                missing: Answer::Failed(why),
            };
        }
    };
    let devices = spec
        .devices
        .iter()
        .map(|d| format!("{}={}", spec.kind, d.name))
        .collect();
    let edits = [&spec.container_edits]
        .into_iter()
        .chain(spec.devices.iter().map(|d| &d.container_edits));
    let mounts: BTreeSet<_> = edits
        .flat_map(|e| e.mounts.iter().flatten())
        .map(|m| &m.host_path)
        .collect();
    let driver = mounts.iter().find_map(|path| driver_of(path));
    let missing: Vec<_> = mounts
        .into_iter()
        .filter(|path| !system.exists(path))
        .cloned()
        .collect();
    CdiSpec {
        path,
        version: Some(version.to_string()),
        devices,
        driver,
        missing: Answer::Is(missing),
    }
}

fn first_line(e: yaml::Mistake) -> String {
    e.to_string().lines().next().unwrap_or_default().to_owned()
}

/// A specification with its version, or why engines do not read it: pkg/cdi/spec.go of the library
/// of CDI.
fn parsed(database: &Database, text: &str) -> Result<(AddOnVersion, Spec), String> {
    // JSON is YAML too.
    let spec: Spec = yaml::read_texts(text).map_err(first_line)?;
    let version = released(database, spec.cdi_version.as_deref())?;
    let all: Value = yaml::read_texts(text).map_err(first_line)?;
    if let Some(key) = unknown_key("", &all) {
        return Err(format!("it has the key {key}, which CDI does not have"));
    }
    if !is_kind(&spec.kind) {
        return Err(format!(
            "its kind {} is not a vendor and a class, as in nvidia.com/gpu",
            spec.kind
        ));
    }
    if spec.devices.is_empty() {
        return Err("it has no devices".to_owned());
    }
    Ok((version, spec))
}

/// The first key in a part of a specification that CDI does not have there.
fn unknown_key<'v>(part: &str, value: &'v Value) -> Option<&'v str> {
    match value {
        Value::Array(all) => all.iter().find_map(|inner| unknown_key(part, inner)),
        Value::Object(all) => {
            let (_, known) = KEYS.iter().find(|(of, _)| *of == part)?;
            all.iter().find_map(|(key, inner)| {
                // The library ignores case.
                match known.iter().any(|name| name.eq_ignore_ascii_case(key)) {
                    true => unknown_key(key, inner),
                    false => Some(key.as_str()),
                }
            })
        }
        _ => None,
    }
}

/// Whether a kind is a vendor and a class: `nvidia.com/gpu`.
fn is_kind(kind: &str) -> bool {
    kind.split_once('/').is_some_and(|(vendor, class)| {
        [vendor, class].iter().all(|name| {
            name.starts_with(|c: char| c.is_ascii_alphabetic())
                && name.ends_with(|c: char| c.is_ascii_alphanumeric())
                && name
                    .chars()
                    .all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.'))
        })
    })
}

/// The version of CDI of a specification, if it is a released one: engines refuse the others.
fn released(database: &Database, version: Option<&str>) -> Result<AddOnVersion, String> {
    let Some(version) = version else {
        return Err("it has no cdiVersion".to_owned());
    };
    // The library of CDI leaves a leading v out.
    let number = version.strip_prefix('v').unwrap_or(version);
    number
        .parse()
        .ok()
        .filter(|version| {
            database
                .container_toolkit()
                .is_none_or(|known| known.knows_cdi(*version))
        })
        .ok_or_else(|| format!("its cdiVersion {version} is no version of CDI that gpusetup knows"))
}

/// The driver that a library is of: `libcuda.so.580.95.05`. A Jetson has `libcuda.so.1.1`, and the
/// GPU Operator a driver in a container.
fn driver_of(library: &Path) -> Option<DriverVersion> {
    const IN_CONTAINER: &str = "/run/nvidia/driver";
    let name = library.file_name()?.to_str()?;
    let version = ["libcuda.so.", "libnvidia-ml.so."]
        .iter()
        .find_map(|start| name.strip_prefix(start))?;
    let driver: DriverVersion = version.parse().ok()?;
    (driver.branch >= 100 && !library.starts_with(IN_CONTAINER)).then_some(driver)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpusetup_data::embedded;

    /// The specification of a file with this name and text in /etc/cdi; none if it is not about
    /// NVIDIA's devices.
    fn read(name: &str, text: &str) -> Option<CdiSpec> {
        let tree = tempfile::tempdir().expect("a temporary directory");
        let system = System::at(tree.path());
        system.make_directories("/etc/cdi", 0o755).expect("made");
        system
            .write(Path::new("/etc/cdi").join(name), text.as_bytes(), 0o644)
            .expect("written");
        cdi_specs(&system, &embedded()).pop()
    }

    fn why(name: &str, text: &str) -> Option<Answer<Vec<PathBuf>>> {
        read(name, text).map(|spec| spec.missing)
    }

    fn failed(why: &str) -> Option<Answer<Vec<PathBuf>>> {
        Some(Answer::Failed(why.to_owned()))
    }

    const REST: &str = "kind: nvidia.com/gpu\ndevices:\n- name: all\n  containerEdits:\n    deviceNodes:\n    - path: /dev/x\n";

    #[test]
    fn specifications_that_no_engine_reads_are_named() {
        assert_eq!(why("a.yaml", REST), failed("it has no cdiVersion"));
        for version in ["1.2.0", "9.9.9", "0.7", "new"] {
            let expected =
                format!("its cdiVersion {version} is no version of CDI that gpusetup knows");
            assert_eq!(
                why("a.yaml", &format!("cdiVersion: {version}\n{REST}")),
                failed(&expected)
            );
        }
        for version in ["0.3.0", "v0.7.0", "1.1.0"] {
            assert_eq!(
                why("a.yaml", &format!("cdiVersion: {version}\n{REST}")),
                Some(Answer::Is(Vec::new()))
            );
        }
        assert!(matches!(
            why("nvidia.yaml", "cdiVersion: [\n"),
            Some(Answer::Failed(_))
        ));
        assert_eq!(
            why("amd.yaml", "cdiVersion: [\n"),
            None,
            "it may be of another vendor"
        );
    }

    #[test]
    fn what_the_library_of_cdi_refuses_is_refused() {
        let with = |more: &str| why("nvidia.yaml", &format!("cdiVersion: 0.5.0\n{more}"));
        assert_eq!(
            with(&format!("{REST}foo: bar\n")),
            failed("it has the key foo, which CDI does not have")
        );
        let in_mount =
            format!("{REST}containerEdits:\n  mounts:\n  - hostPath: /x\n    source: /x\n");
        assert_eq!(
            with(&in_mount),
            failed("it has the key source, which CDI does not have")
        );
        let free = format!("{REST}Annotations:\n  a.example/b: c\n");
        assert_eq!(
            with(&free),
            Some(Answer::Is(Vec::new())),
            "keys of annotations are free, and case does not matter"
        );
        for devices in ["devices: []\n", ""] {
            assert_eq!(
                with(&format!("kind: nvidia.com/gpu\n{devices}")),
                failed("it has no devices")
            );
        }
        for kind in [
            "nvidia",
            "nvidia.com/",
            "/gpu",
            "nvidia.com/gpu/x",
            "9.com/gpu",
            "nvidia.com/gpu-",
        ] {
            let expected =
                format!("its kind {kind} is not a vendor and a class, as in nvidia.com/gpu");
            assert_eq!(
                with(&REST.replace("nvidia.com/gpu", kind)),
                failed(&expected)
            );
        }
    }

    #[test]
    fn a_file_with_a_wrong_name_is_seen() {
        let tree = tempfile::tempdir().expect("a temporary directory");
        let system = System::at(tree.path());
        system.make_directories("/etc/cdi", 0o755).expect("made");
        for name in ["nvidia.yml", "nvidia.yaml", "README"] {
            system
                .write(Path::new("/etc/cdi").join(name), REST.as_bytes(), 0o644)
                .expect("written");
        }
        assert_eq!(
            misnamed_cdi_specs(&system),
            [PathBuf::from("/etc/cdi/nvidia.yml")]
        );
    }
}
