//! Container engines, and the parts of the driver that they pass to containers.

use super::{Answer, ask, text};
use gpusetup_database::compat::{Database, Engine};
use gpusetup_database::version::AddOnVersion;
use gpusetup_host::{
    BrokenConfig, CdiSpec, ContainerHost, Facts, InstalledEngine, MachineKind, cdi_specs, form_of,
    misnamed_cdi_specs, program_exists, runtimes_by_file, undefined_default,
};
use gpusetup_system::{System, environment};
use gpusetup_text::paths::STARTED_AT_BOOT;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Container engines and their configuration for GPUs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct Containers {
    /// Engines that are installed: `docker`, `podman`, `docker (snap)`. Older evidence has `crio` for
    /// `cri-o`, and `nerdctl`.
    pub(crate) engines: Vec<String>,
    /// Their configuration files that they cannot read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) broken: Vec<BrokenConfig>,
    /// Runtimes of NVIDIA's that give pods no GPUs: the file, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) unusable_runtimes: Vec<BrokenConfig>,
    /// CRI-O is installed, and no file that it reads has a runtime of NVIDIA's.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) crio_lacks_runtime: bool,
    /// NVIDIA's container toolkit is installed.
    pub(crate) has_toolkit: bool,
    /// Its version, as `nvidia-ctk --version` or, in a tree, the record of packages has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) toolkit_version: Option<AddOnVersion>,
    /// docker is a snap without its own container toolkit.
    pub(crate) bare_snap: bool,
    /// The error in docker's daemon.json, in older evidence: now it is in `broken`.
    pub(crate) daemon_json: Option<String>,
    /// Configured runtimes for GPU containers that are not installed: the configuration file and
    /// the program.
    pub(crate) lost_runtimes: Vec<(PathBuf, String)>,
    /// The runc or crun of CRI-O, `/usr/libexec/crio/crun`, if the toolkit's runtime finds none to
    /// hand containers to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) runtime_outside_path: Option<PathBuf>,
    /// CDI specifications for NVIDIA's devices.
    pub(crate) specs: Vec<CdiSpec>,
    /// Files beside them that engines do not read because of their names: `/etc/cdi/nvidia.yml`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) misnamed_specs: Vec<PathBuf>,
    /// Every boot starts a unit of the container toolkit that writes a specification.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) writes_spec_at_boot: bool,
    /// Engines that give GPUs to containers by CDI, and do not read a specification that is there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) old_cdi_readers: Vec<OldCdiReader>,
    /// What the running docker daemon reports. None if it is not asked, or does not answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) daemon: Option<DockerDaemon>,
}

/// The running docker daemon, where containers with GPUs are set up.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub(crate) struct DockerDaemon {
    /// NVIDIA's runtimes in daemon.json that it does not know.
    pub(crate) unknown_runtimes: Vec<String>,
    /// The cgroup driver, `systemd` or `cgroupfs`.
    pub(crate) cgroup_driver: String,
    /// NVIDIA's devices have links in /dev/char, which systemd needs for the device rules of
    /// containers.
    pub(crate) has_char_links: bool,
}

/// An engine that does not read specifications of a version of CDI.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub(crate) struct OldCdiReader {
    /// Its usual name, `Podman`.
    pub(crate) engine: String,
    /// Its version.
    pub(crate) version: AddOnVersion,
    /// The first version that does; none if no known one does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) first: Option<AddOnVersion>,
    /// The version of CDI. Older evidence is about 0.7.0 alone.
    #[serde(default = "first_reported")]
    pub(crate) cdi: AddOnVersion,
}

fn first_reported() -> AddOnVersion {
    AddOnVersion {
        major: 0,
        minor: 7,
        patch: Some(0),
        build: None,
    }
}

/// The GPUs that this container requests, and those that it has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct Given {
    /// The driver's devices exist.
    pub(crate) devices: bool,
    /// Whether it requests GPUs.
    pub(crate) asked: Asked,
    /// The driver capabilities that it requests (`compute`, `utility`, `all`), if set.
    pub(crate) capabilities: Option<BTreeSet<String>>,
}

/// Whether a container requests GPUs, by `NVIDIA_VISIBLE_DEVICES`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Asked {
    /// The variable is not set.
    Unsaid,
    /// It requests none (`void`, `none`, or empty). The container toolkit sets `void` itself when
    /// it passes GPUs by CDI.
    Nothing,
    /// It requests some or all.
    Gpus,
}

/// How GPU memory is counted on a host whose GPUs share the CPU's memory.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct Coherent {
    /// A kubelet is installed.
    pub(crate) has_kubelet: bool,
    /// `NVreg_CoherentGPUMemoryMode` of the loaded driver, else as set for the next boot; empty if
    /// it is not set.
    pub(crate) mode: String,
}

impl Containers {
    /// Moves the error in docker's daemon.json to the other files' errors.
    pub(super) fn add_older_error(&mut self, database: &Database) {
        let engine = database.engines.iter().find(|engine| {
            let config = engine.config.as_deref();
            config.is_some_and(|path| path.ends_with("/daemon.json"))
        });
        let error = engine.zip(self.daemon_json.take());
        self.broken.splice(
            ..0,
            error.into_iter().map(|(engine, why)| BrokenConfig {
                engine: engine.id,
                path: engine.config.clone().unwrap_or_default().into(),
                why,
                line: None,
            }),
        );
    }
}

/// The container engines of the host.
pub(crate) fn containers(system: &System, database: &Database, host: &ContainerHost) -> Containers {
    if host.engines.is_empty() && host.snaps.is_empty() {
        return Containers::default();
    }
    let installed: Vec<_> = host
        .engines
        .iter()
        .filter_map(|found| Some((database.engine(found.id)?, found)))
        .collect();
    let names = installed.iter().map(|(engine, _)| engine.id.to_string());
    let snaps = host.snaps.iter().map(|id| format!("{id} (snap)"));
    let has_toolkit =
        ["nvidia-ctk", "nvidia-container-runtime-hook"].map(|name| program_exists(system, name));
    let has_toolkit = has_toolkit.contains(&true);
    let specs = cdi_specs(system, database);
    Containers {
        engines: names.chain(snaps).collect(),
        broken: broken(system, host, &installed),
        unusable_runtimes: unusable_runtimes(host),
        crio_lacks_runtime: installed.iter().any(|(engine, _)| {
            form_of(engine).falls_back_to_cdi
                && host.runtimes.iter().all(|of| of.engine != engine.id)
        }),
        has_toolkit,
        daemon: installed
            .iter()
            .filter(|_| has_toolkit)
            .find_map(|(engine, _)| daemon(system, engine, host)),
        toolkit_version: host.toolkit.as_ref().and_then(|toolkit| toolkit.version),
        bare_snap: is_bare_snap(system, database, host),
        daemon_json: None,
        lost_runtimes: lost_runtimes(system, &installed),
        // The GPU Operator's toolkit has another configuration.
        runtime_outside_path: host.runtime_outside_path.clone().filter(|_| has_toolkit),
        writes_spec_at_boot: writes_spec_at_boot(system, database),
        old_cdi_readers: old_cdi_readers(database, host, &specs),
        misnamed_specs: misnamed_cdi_specs(system),
        specs,
    }
}

/// The configuration files with which an engine does not start. A plan defines NVIDIA's runtime if
/// it is the default; without a plan nothing does.
fn broken(
    system: &System,
    host: &ContainerHost,
    installed: &[(&Engine, &InstalledEngine)],
) -> Vec<BrokenConfig> {
    let undefined = installed
        .iter()
        .filter_map(|(engine, _)| undefined_default(system, engine))
        .filter(|broken| !host.broken.contains(broken));
    host.broken.iter().cloned().chain(undefined).collect()
}

/// The programs of NVIDIA's runtimes that do not exist, with the files that name them.
fn lost_runtimes(
    system: &System,
    installed: &[(&Engine, &InstalledEngine)],
) -> Vec<(PathBuf, String)> {
    let mut lost = Vec::new();
    for (engine, found) in installed {
        for (file, read) in runtimes_by_file(system, engine, found.version) {
            let runtimes = read.unwrap_or_default();
            let programs = runtimes.nvidias().filter(|p| !program_exists(system, p));
            lost.extend(programs.map(|program| (file.clone(), program.to_owned())));
        }
    }
    lost
}

/// Whether an engine is only a snap, which does not see the host's toolkit and contains none.
fn is_bare_snap(system: &System, database: &Database, host: &ContainerHost) -> bool {
    let snaps = host
        .snaps
        .iter()
        .filter(|id| host.engines.iter().all(|found| found.id != **id));
    let mut snaps = snaps.filter_map(|id| database.engine(*id)?.snap.as_ref());
    snaps.any(|snap| !system.exists(&snap.toolkit))
}

/// NVIDIA's runtimes that give pods no GPUs.
fn unusable_runtimes(host: &ContainerHost) -> Vec<BrokenConfig> {
    let faulty = host.runtimes.iter().filter_map(|runtime| {
        let why = format!(
            "the runtime {} gives pods no GPUs: {}",
            runtime.name,
            runtime.fault.as_ref()?
        );
        Some(BrokenConfig {
            engine: runtime.engine,
            path: runtime.path.clone(),
            why,
            line: None,
        })
    });
    faulty.collect()
}

/// Whether a unit of the container toolkit that writes a CDI specification is enabled, and not
/// masked.
fn writes_spec_at_boot(system: &System, database: &Database) -> bool {
    let units = database
        .container_toolkit()
        .into_iter()
        .flat_map(|toolkit| &toolkit.cdi_units);
    let mut services = units.filter(|unit| unit.ends_with(".service"));
    services.any(|unit| {
        let [started, own] = [STARTED_AT_BOOT, "/etc/systemd/system"]
            .map(|folder| system.link_target(Path::new(folder).join(unit)));
        let is_masked = own.is_some_and(|to| to == Path::new("/dev/null"));
        started.is_some() && !is_masked
    })
}

/// Other engines have the toolkit's runtime, too.
fn old_cdi_readers(
    database: &Database,
    host: &ContainerHost,
    specs: &[CdiSpec],
) -> Vec<OldCdiReader> {
    let versions: BTreeSet<AddOnVersion> = specs
        .iter()
        .filter_map(|spec| spec.version.as_ref()?.parse().ok())
        .collect();
    let known = host
        .engines
        .iter()
        .filter_map(|found| Some((database.engine(found.id)?, found.version?)));
    let mut old = Vec::new();
    for (engine, version) in known.filter(|(engine, version)| engine.needs_cdi(*version)) {
        let refused = versions.iter().filter(|cdi| engine.refuses(version, **cdi));
        old.extend(refused.map(|cdi| OldCdiReader {
            engine: engine.title.clone(),
            version,
            first: engine.reads(*cdi),
            cdi: *cdi,
        }));
    }
    old
}

/// What the running daemon of an engine reports; it is not started for that.
fn daemon(system: &System, engine: &Engine, host: &ContainerHost) -> Option<DockerDaemon> {
    let program = std::iter::once(engine.id.as_str());
    let argv = program.chain(form_of(engine).daemon_info?.iter().copied());
    let Answer::Is(text) = ask(system, argv, Duration::from_secs(20)) else {
        return None;
    };
    let (runtimes, cgroup_driver) = reported(&text)?;
    let named = host.runtimes.iter().filter(|of| of.engine == engine.id);
    Some(DockerDaemon {
        unknown_runtimes: named
            .map(|runtime| runtime.name.clone())
            .filter(|name| !runtimes.contains(name))
            .collect(),
        cgroup_driver,
        has_char_links: system.exists(CONTROL_LINK),
    })
}

/// The link of /dev/nvidiactl.
const CONTROL_LINK: &str = "/dev/char/195:255";

/// The names of runtimes and the cgroup driver; warnings can be beside them.
fn reported(text: &str) -> Option<(BTreeSet<String>, String)> {
    let line = text.lines().find(|line| line.starts_with('{'))?;
    let (runtimes, cgroup_driver) = line.rsplit_once(' ')?;
    let runtimes: serde_json::Map<String, serde_json::Value> =
        serde_json::from_str(runtimes).ok()?;
    Some((
        runtimes.into_iter().map(|(name, _)| name).collect(),
        cgroup_driver.to_owned(),
    ))
}

/// The GPUs of this container. None if this is not a running container.
pub(crate) fn given(system: &System, facts: &Facts) -> Option<Given> {
    if facts.machine.kind != MachineKind::Container || !system.is_live() {
        return None;
    }
    let first = system.read("/proc/1/environ").unwrap_or_default();
    let [visible, driver] = ["NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES"]
        .map(|name| environment::variable(name).or_else(|| variable(&first, name)));
    Some(Given {
        devices: system.exists("/dev/nvidiactl"),
        asked: asked(visible.as_deref()),
        capabilities: driver.map(|all| capabilities(&all)),
    })
}

/// A variable of an environment as in /proc: `NAME=VALUE`, each with a zero byte at the end.
fn variable(environment: &[u8], name: &str) -> Option<String> {
    environment.split(|byte| *byte == 0).find_map(|entry| {
        let value = entry.strip_prefix(name.as_bytes())?.strip_prefix(b"=")?;
        Some(String::from_utf8_lossy(value).into_owned())
    })
}

fn asked(visible: Option<&str>) -> Asked {
    match visible.map(str::trim) {
        None => Asked::Unsaid,
        Some("" | "void" | "none") => Asked::Nothing,
        Some(_) => Asked::Gpus,
    }
}

fn capabilities(text: &str) -> BTreeSet<String> {
    text.split(',')
        .map(str::trim)
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
        .collect()
}

/// Read only on hosts whose GPUs share memory with the CPU: GH200, GB200, GB300.
pub(crate) fn coherent(system: &System, facts: &Facts, database: &Database) -> Option<Coherent> {
    const KUBELET: [&str; 5] = [
        "/var/lib/kubelet",
        "/usr/bin/kubelet",
        "/usr/local/bin/kubelet",
        "/var/lib/rancher/k3s",
        "/var/lib/rancher/rke2",
    ];
    let mut known = facts
        .gpus
        .iter()
        .filter_map(|gpu| database.gpu(gpu.device()?, gpu.subsystem.as_deref()));
    known.find(|gpu| {
        let form = gpu.form.as_ref();
        form.is_some_and(|form| form.starts_with("superchip"))
    })?;
    let loaded =
        parameter(&text(system, "/proc/driver/nvidia/params")).filter(|_| system.is_live());
    let mode = loaded
        .filter(|m| !m.is_empty())
        .or_else(|| configured(facts).map(str::to_owned))
        .unwrap_or_default();
    Some(Coherent {
        has_kubelet: KUBELET.iter().any(|p| system.exists(p)),
        mode,
    })
}

/// `CoherentGPUMemoryMode: "driver"`, as the loaded driver reports it.
fn parameter(params: &str) -> Option<String> {
    let line = params
        .lines()
        .find_map(|l| l.strip_prefix("CoherentGPUMemoryMode:"))?;
    Some(line.trim().trim_matches('"').to_owned())
}

/// `options nvidia NVreg_CoherentGPUMemoryMode=driver`, as the next start of the driver reads it.
fn configured(facts: &Facts) -> Option<&str> {
    let set = facts.module_options.iter().rev();
    set.filter(|option| option.module == "nvidia")
        .find(|option| option.name == "NVreg_CoherentGPUMemoryMode")
        .map(|option| option.value.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpusetup_data::embedded;
    use gpusetup_host::container_host;

    fn containers(system: &System, database: &Database) -> Containers {
        let host = container_host(system, database, None);
        super::containers(system, database, &host)
    }

    #[test]
    fn a_container_says_what_it_asks_for() {
        let environment =
            b"PATH=/bin\0NVIDIA_VISIBLE_DEVICES=all\0NVIDIA_DRIVER_CAPABILITIES=utility, compute\0";
        assert_eq!(
            asked(variable(environment, "NVIDIA_VISIBLE_DEVICES").as_deref()),
            Asked::Gpus
        );
        assert_eq!(
            (asked(None), asked(Some("void")), asked(Some(""))),
            (Asked::Unsaid, Asked::Nothing, Asked::Nothing)
        );
        let all =
            variable(environment, "NVIDIA_DRIVER_CAPABILITIES").map(|text| capabilities(&text));
        assert_eq!(all, Some(["compute", "utility"].map(str::to_owned).into()));
        assert_eq!(variable(environment, "NVIDIA"), None);
    }

    fn write(system: &System, path: &str, text: &str) {
        system
            .make_directories(Path::new(path).parent().expect("a folder"), 0o755)
            .expect("made");
        system.write(path, text.as_bytes(), 0o644).expect("written");
    }

    #[test]
    fn engines_are_seen_with_what_they_were_told() {
        let tree = tempfile::tempdir().expect("a temporary directory");
        let (system, database) = (System::at(tree.path()), embedded());
        let write = |path: &str, text: &str| write(&system, path, text);
        write("/etc/docker/daemon.json", "{ not JSON");
        let none = containers(&system, &database);
        assert_eq!(none, Containers::default(), "no engine, no word");
        write("/usr/bin/dockerd", "");
        assert_eq!(
            containers(&system, &database).broken.len(),
            1,
            "docker.io without docker-cli"
        );
        let runtimes = r#"{"runtimes": {"nvidia": {"path": "nvidia-container-runtime"}, "crun": {"path": "/usr/bin/crun"}}}"#;
        write("/etc/docker/daemon.json", runtimes);
        let of_containerd = "[plugins.cri.containerd.runtimes.nvidia.options]\n  BinaryName = \"/usr/bin/nvidia-container-runtime\"\n";
        write("/usr/bin/containerd", "");
        write("/etc/containerd/config.toml", of_containerd);
        let lost = containers(&system, &database).lost_runtimes;
        let programs: Vec<_> = lost.iter().map(|(_, program)| program.as_str()).collect();
        assert_eq!(
            programs,
            [
                "nvidia-container-runtime",
                "/usr/bin/nvidia-container-runtime"
            ]
        );
        write("/usr/bin/nvidia-container-runtime", "");
        assert_eq!(containers(&system, &database).lost_runtimes, []);
        let mount = |library: &str| {
            format!(
                "---\ncdiVersion: 0.5.0\nkind: nvidia.com/gpu\ndevices:\n- name: \"0\"\n  containerEdits:\n    deviceNodes:\n    - path: /dev/nvidia0\n\
                 containerEdits:\n  env:\n  - NVIDIA_VISIBLE_DEVICES=void\n  mounts:\n  - containerPath: /usr/lib/{library}\n    hostPath: /usr/lib/{library}\n    options: [ro]\n"
            )
        };
        write("/usr/lib/libcuda.so.580.95.05", "");
        write("/etc/cdi/nvidia.yaml", &mount("libcuda.so.580.95.05"));
        write("/etc/cdi/other.yaml", "kind: vendor.example/x\n");
        write(
            "/var/run/cdi/old.json",
            r#"{"cdiVersion": "0.5.0", "kind": "nvidia.com/gpu", "devices": [{"name": "all", "containerEdits": {"mounts": [{"hostPath": "/gone"}]}}]}"#,
        );
        write("/var/run/cdi/torn.yaml", "kind: nvidia.com/gpu\ndevices: [");
        let specs = containers(&system, &database).specs;
        assert_eq!(specs.len(), 3, "{specs:?}");
        assert_eq!(specs[0].missing, Answer::Is(Vec::new()));
        assert_eq!(specs[0].devices, ["nvidia.com/gpu=0".to_owned()].into());
        assert_eq!(specs[0].version.as_deref(), Some("0.5.0"));
        assert_eq!(specs[1].missing, Answer::Is(vec!["/gone".into()]));
        assert!(matches!(specs[2].missing, Answer::Failed(_)));
    }

    #[test]
    fn crios_programs_count_beside_the_toolkit() {
        let tree = tempfile::tempdir().expect("a temporary directory");
        let (system, database) = (System::at(tree.path()), embedded());
        let outside = || containers(&system, &database).runtime_outside_path;
        write(&system, "/usr/bin/crio", "");
        let of_package =
            "[crio.runtime.runtimes.crun]\nruntime_path = \"/usr/libexec/crio/crun\"\n";
        write(&system, "/etc/crio/crio.conf.d/10-crio.conf", of_package);
        assert_eq!(outside(), None, "the toolkit is not installed");
        write(&system, "/usr/bin/nvidia-ctk", "");
        assert_eq!(outside(), Some("/usr/libexec/crio/crun".into()));
        write(&system, "/usr/bin/runc", "");
        assert_eq!(outside(), None);
    }

    #[test]
    fn files_that_keep_an_engine_from_starting_are_named() {
        let tree = tempfile::tempdir().expect("a temporary directory");
        let (system, database) = (System::at(tree.path()), embedded());
        let write = |path: &str, text: &str| write(&system, path, text);
        for program in ["crio", "containerd", "dockerd"] {
            write(&format!("/usr/bin/{program}"), "");
        }
        write(
            "/var/lib/dpkg/status",
            "Package: containerd\nStatus: install ok installed\nVersion: 1.7.27-1\n\n",
        );
        let broken = || {
            let broken = containers(&system, &database).broken;
            broken
                .into_iter()
                .map(|broken| broken.path.display().to_string())
                .collect::<Vec<_>>()
        };
        for daemon in ["{", r#"{"default-runtime": "nvidia"}"#] {
            write("/etc/docker/daemon.json", daemon);
            assert_eq!(broken(), ["/etc/docker/daemon.json"], "{daemon}");
        }
        write("/etc/docker/daemon.json", "{}");
        let (main, part, of_crio) = (
            "/etc/containerd/config.toml",
            "/etc/containerd/conf.d/a.toml",
            "/etc/crio/crio.conf.d/a.conf",
        );
        write(of_crio, "[crio.runtime\n");
        write(main, "version = 3\n");
        assert_eq!(
            broken(),
            [main, of_crio],
            "containerd 1.7 does not read version 3"
        );
        write(main, "version = 2\nimports = [\"conf.d/*.toml\"]\n");
        write(part, "[x");
        assert_eq!(broken(), [part, of_crio]);
    }

    #[test]
    fn crio_without_a_runtime_of_nvidias_is_seen() {
        let tree = tempfile::tempdir().expect("a temporary directory");
        let (system, database) = (System::at(tree.path()), embedded());
        let lacks = || containers(&system, &database).crio_lacks_runtime;
        write(&system, "/usr/bin/podman", "");
        assert!(!lacks(), "CRI-O is not installed");
        write(&system, "/usr/bin/crio", "");
        assert!(lacks());
        let table =
            "[crio.runtime.runtimes.gpu]\nruntime_path = \"/usr/bin/nvidia-container-runtime\"\n";
        write(&system, "/etc/crio/crio.conf", table);
        assert!(!lacks());
    }

    #[test]
    fn k3s_is_an_engine() {
        let tree = tempfile::tempdir().expect("a temporary directory");
        let (system, database) = (System::at(tree.path()), embedded());
        write(&system, "/opt/bin/k3s", "");
        write(&system, "/usr/bin/nvidia-ctk", "");
        let found = containers(&system, &database);
        assert_eq!(
            (found.engines, found.has_toolkit),
            (vec!["k3s".to_owned()], true)
        );
    }

    #[test]
    fn an_engine_that_no_version_of_reads_a_specification_is_named() {
        let tree = tempfile::tempdir().expect("a temporary directory");
        let (system, database) = (System::at(tree.path()), embedded());
        let write = |path: &str, text: &str| write(&system, path, text);
        write("/usr/bin/podman", "");
        write(
            "/var/lib/dpkg/status",
            "Package: podman\nStatus: install ok installed\nVersion: 5.4.2+ds1-2\n\n",
        );
        let first = |version: &str| {
            let devices = "devices: [{name: all}]";
            write(
                "/etc/cdi/nvidia.yaml",
                &format!("cdiVersion: {version}\nkind: nvidia.com/gpu\n{devices}\n"),
            );
            let old = containers(&system, &database).old_cdi_readers;
            old.into_iter()
                .map(|reader| reader.first.map(|first| first.to_string()))
                .collect::<Vec<_>>()
        };
        assert_eq!(first("1.1.0"), [None]);
        assert_eq!(first("1.0.0"), [Some("5.5.0".to_owned())]);
        assert_eq!(first("0.8.0"), []);
    }

    #[test]
    fn a_unit_that_writes_a_specification_at_boot_is_seen() {
        let tree = tempfile::tempdir().expect("a temporary directory");
        let (system, database) = (System::at(tree.path()), embedded());
        write(&system, "/usr/bin/podman", "");
        let writes = || containers(&system, &database).writes_spec_at_boot;
        assert!(!writes());
        system
            .make_directories(STARTED_AT_BOOT, 0o755)
            .expect("made");
        let unit = Path::new("/usr/lib/systemd/system/nvidia-cdi-refresh.service");
        system
            .link(
                Path::new(STARTED_AT_BOOT).join("nvidia-cdi-refresh.service"),
                unit,
            )
            .expect("linked");
        assert!(writes());
        system
            .link(
                "/etc/systemd/system/nvidia-cdi-refresh.service",
                Path::new("/dev/null"),
            )
            .expect("linked");
        assert!(!writes(), "it is masked");
    }

    #[test]
    fn the_report_of_a_daemon_is_read() {
        // Of Docker 28.2.2, but for the warning.
        let text = "WARNING: No swap limit support\n{\"io.containerd.runc.v2\":{\"path\":\"runc\"},\"nvidia\":{\"path\":\"nvidia-container-runtime\"},\"runc\":{\"path\":\"runc\"}} systemd\n";
        let (runtimes, driver) = reported(text).expect("a report");
        assert_eq!(
            (runtimes.len(), runtimes.contains("nvidia"), driver.as_str()),
            (3, true, "systemd")
        );
        for other in ["", "Cannot connect to the Docker daemon", "{} ", "{"] {
            assert!(
                reported(other).is_none_or(|(runtimes, _)| runtimes.is_empty()),
                "{other:?}"
            );
        }
    }

    #[test]
    fn the_mode_of_memory_is_read_where_it_is_set() {
        assert_eq!(
            parameter("ResmanDebugLevel: 4294967295\nCoherentGPUMemoryMode: \"driver\"\n")
                .as_deref(),
            Some("driver")
        );
        let mut facts = crate::sick::sound().facts;
        for (module, value) in [
            ("nvidia", "numa"),
            ("nvidia", "driver"),
            ("nvidia_uvm", "x"),
        ] {
            facts.module_options.push(gpusetup_host::SetOption {
                module: module.into(),
                name: "NVreg_CoherentGPUMemoryMode".into(),
                value: value.into(),
                by: "/etc/modprobe.d/nvidia.conf".into(),
                line: None,
            });
        }
        assert_eq!(configured(&facts), Some("driver"), "the last one counts");
    }
}
