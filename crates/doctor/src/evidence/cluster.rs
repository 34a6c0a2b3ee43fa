//! Evidence about the scheduler that a host is to be ready for: Kubernetes or Slurm. It is gathered
//! only if somebody asks for it.

use super::{Answer, ask, ask_or, names, text};
use gpusetup_database::compat::{Database, Engine};
use gpusetup_gpus::cluster;
use gpusetup_host::{ContainerHost, InstalledEngine, form_of, runtimes_by_file};
use gpusetup_nvidia::GpuTable;
use gpusetup_system::System;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A scheduler.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
#[serde(rename_all = "kebab-case")]
pub enum Scheduler {
    /// Kubernetes.
    #[cfg_attr(feature = "cli", value(name = "k8s"))]
    Kubernetes,
    /// Slurm.
    Slurm,
}

/// What a host has of the scheduler.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Cluster {
    /// Of Kubernetes.
    Kubernetes(Kubernetes),
    /// Of Slurm.
    Slurm(Slurm),
}

/// What a host has of Kubernetes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
#[serde(deny_unknown_fields)]
pub struct Kubernetes {
    /// The program that makes it a node: `kubelet`, `k3s`, `rke2`, `k0s`, `microk8s`.
    pub(crate) agent: Option<String>,
    /// Container runtimes that pods can run in: `containerd`, `crio`, `cri-dockerd`, or the agent's
    /// own.
    pub(crate) runtimes: Vec<String>,
    /// The configuration files that name NVIDIA's runtime or enable CDI, as the container runtime
    /// reads them.
    pub(crate) configured: Vec<String>,
    /// The programs of NVIDIA's runtime that these files name and that do not exist.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) missing_programs: Vec<String>,
    /// containerd's configuration file, if it disables the plugin that serves pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) no_pods_by: Option<String>,
    /// What K3s or RKE2 wrote when it last started; none if it has not started, or in older
    /// evidence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) started: Option<StartedAgent>,
    /// The root of the GPU Operator's driver container is mounted.
    pub(crate) driver_container: bool,
    /// The runtime classes of the cluster.
    pub(crate) classes: Answer<BTreeSet<String>>,
}

/// K3s or RKE2, which look for NVIDIA's runtime when they start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
#[serde(deny_unknown_fields)]
pub(crate) struct StartedAgent {
    /// The configuration file of its containerd, which it writes then.
    pub(crate) wrote: PathBuf,
    /// Its unit, `k3s-agent.service`; none if it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) unit: Option<String>,
}

/// What a host has of Slurm.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
#[serde(deny_unknown_fields)]
pub struct Slurm {
    /// slurmd is installed.
    pub(crate) has_slurmd: bool,
    /// The device files that `slurmd -G` prints.
    pub(crate) known: Answer<BTreeSet<String>>,
    /// The device files that the driver's GPUs and MIG devices have.
    pub(crate) devices: Answer<BTreeSet<String>>,
    /// cgroup.conf has `ConstrainDevices=yes`. None if there is no slurm.conf to read, as on nodes
    /// that fetch it.
    pub(crate) constrains: Option<bool>,
    /// slurm.conf names the task plugin that this needs.
    pub(crate) has_task_plugin: bool,
    /// cgroup.conf has `CgroupPlugin=disabled`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) cgroups_disabled: bool,
    /// The folder of its configuration; none in older evidence, or if there is no slurm.conf.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) folder: Option<PathBuf>,
}

/// Looks for a scheduler. `host` starts the programs of container engines, and is asked only for
/// Kubernetes.
pub(crate) fn cluster<'h>(
    system: &System,
    database: &Database,
    host: impl FnOnce() -> &'h ContainerHost,
    nvml: &Answer<GpuTable>,
    scheduler: Scheduler,
) -> Cluster {
    match scheduler {
        Scheduler::Kubernetes => Cluster::Kubernetes(kubernetes(system, database, host())),
        Scheduler::Slurm => Cluster::Slurm(slurm(system, nvml)),
    }
}

const FOLDERS: [&str; 5] = [
    "/usr/bin",
    "/usr/local/bin",
    "/usr/sbin",
    "/usr/local/sbin",
    "/opt/bin",
];

fn has(system: &System, program: &str) -> bool {
    FOLDERS
        .iter()
        .any(|folder| system.exists(Path::new(folder).join(program)))
}

/// Whether a snap with this command is installed. The command is a link to snapd's program.
fn has_snap(system: &System, command: &str) -> bool {
    system
        .link_target(Path::new("/snap/bin").join(command))
        .is_some()
}

fn kubernetes(system: &System, database: &Database, host: &ContainerHost) -> Kubernetes {
    let agent = ["kubelet", "k3s", "rke2", "k0s"]
        .into_iter()
        .find(|program| has(system, program));
    let agent = agent.or_else(|| has_snap(system, "microk8s").then_some("microk8s"));
    // These bring containerd, and use no other one.
    let own = agent.filter(|agent| *agent != "kubelet");
    let all = host.engines.iter();
    let runs_pods: Vec<_> = all
        .filter_map(|found| Some((database.engine(found.id)?, found)))
        .filter(|(engine, _)| form_of(engine).runs_pods)
        .collect();
    let shared = runs_pods
        .iter()
        .filter(|(engine, _)| !form_of(engine).finds_runtimes)
        .map(|(engine, _)| engine.id.as_str());
    let in_docker = ["cri-dockerd"].into_iter().filter(|name| has(system, name));
    let runtimes = shared.chain(in_docker).chain(own);
    let (mut no_pods_by, mut configured, mut missing) = (None, Vec::new(), Vec::new());
    let used = runs_pods
        .iter()
        .filter(|(engine, _)| own.is_none_or(|agent| agent == engine.id.as_str()));
    for (engine, found) in used.clone() {
        for (file, read) in runtimes_by_file(system, engine, found.version) {
            let runtimes = read.unwrap_or_default();
            let disables =
                no_pods_by.is_none() && (form_of(engine).serves_no_pods)(&text(system, &file));
            let file = file.display().to_string();
            let mut programs = runtimes.nvidias().peekable();
            let gives_gpus = runtimes.enables_cdi || programs.peek().is_some();
            configured.extend(gives_gpus.then(|| file.clone()));
            // One without a path is looked for when it starts.
            missing.extend(
                programs
                    .filter(|program| program.starts_with('/') && !system.exists(program))
                    .map(str::to_owned),
            );
            no_pods_by = no_pods_by.or(disables.then_some(file));
        }
    }
    missing.dedup();
    Kubernetes {
        agent: agent.map(str::to_owned),
        runtimes: runtimes.map(str::to_owned).collect(),
        no_pods_by,
        started: { used }
            .find(|(engine, _)| form_of(engine).finds_runtimes)
            .and_then(|(engine, found)| started(system, engine, found)),
        missing_programs: missing,
        configured,
        driver_container: !names(system, "/run/nvidia/driver/usr")
            .collect::<Vec<_>>()
            .is_empty(),
        classes: classes(system, agent),
    }
}

fn started(system: &System, engine: &Engine, found: &InstalledEngine) -> Option<StartedAgent> {
    let wrote = engine.configs().find(|file| system.exists(file))?;
    Some(StartedAgent {
        wrote: wrote.to_path_buf(),
        unit: found.units.first().cloned(),
    })
}

/// The runtime classes, as the kubelet may read them.
fn classes(system: &System, agent: Option<&str>) -> Answer<BTreeSet<String>> {
    const CLASSES: &str = "/apis/node.k8s.io/v1/runtimeclasses";
    const KUBELET: &str = "/etc/kubernetes/kubelet.conf";
    let limit = Duration::from_secs(10);
    let answer = match agent {
        Some("k3s") => ask(system, ["k3s", "kubectl", "get", "--raw", CLASSES], limit),
        Some("rke2") => ask(
            system,
            [
                "/var/lib/rancher/rke2/bin/kubectl",
                "--kubeconfig",
                "/etc/rancher/rke2/rke2.yaml",
                "get",
                "--raw",
                CLASSES,
            ],
            limit,
        ),
        Some(own @ ("k0s" | "microk8s")) => return Answer::NotAsked(format!("{own} is not asked")),
        Some(_) => ask(
            system,
            ["kubectl", "--kubeconfig", KUBELET, "get", "--raw", CLASSES],
            limit,
        ),
        None => return Answer::NotAsked("this host is no node".to_owned()),
    };
    answer.and_then(|text| {
        names_of_classes(&text)
            .ok_or_else(|| "kubectl printed no list of runtime classes".to_owned())
    })
}

/// The names in a list of the API: `{"items": [{"metadata": {"name": "nvidia"}}]}`.
fn names_of_classes(json: &str) -> Option<BTreeSet<String>> {
    let list: serde_json::Value = serde_json::from_str(json).ok()?;
    Some(
        list.get("items")?
            .as_array()?
            .iter()
            .filter_map(|item| Some(item.pointer("/metadata/name")?.as_str()?.to_owned()))
            .collect(),
    )
}

fn slurm(system: &System, nvml: &Answer<GpuTable>) -> Slurm {
    if !has(system, "slurmd") {
        return Slurm::default();
    }
    let known = gres_of_slurmd(system);
    let folder = folder_of_slurm(system);
    let [conf, cgroup] = ["slurm.conf", "cgroup.conf"].map(|file| {
        folder
            .as_ref()
            .map(|folder| lines_of(system, folder, file))
            .unwrap_or_default()
    });
    let plugins = setting(&conf, "TaskPlugin").unwrap_or_default();
    let constrains = setting(&cgroup, "ConstrainDevices").unwrap_or_default();
    Slurm {
        has_slurmd: true,
        known,
        devices: devices(system, nvml),
        constrains: folder
            .as_ref()
            .map(|_| ["yes", "true", "1"].contains(&constrains.to_ascii_lowercase().as_str())),
        folder,
        cgroups_disabled: setting(&cgroup, "CgroupPlugin").as_deref() == Some("disabled"),
        has_task_plugin: plugins
            .split(',')
            .any(|plugin| plugin.trim().trim_start_matches("task/") == "cgroup"),
    }
}

/// The folder of slurm.conf: that of the file in slurmd's options, or one of those that packages
/// and Slurm's own build have.
fn folder_of_slurm(system: &System) -> Option<PathBuf> {
    let usual = ["/etc/slurm", "/etc/slurm-llnl", "/usr/local/etc"].map(PathBuf::from);
    let mut folders = folder_in_options(system).into_iter().chain(usual);
    folders.find(|folder| system.exists(folder.join("slurm.conf")))
}

/// The folder of `SLURMD_OPTIONS="-f /opt/slurm.conf"`, in the files that Slurm's unit reads.
fn folder_in_options(system: &System) -> Option<PathBuf> {
    let files =
        ["/etc/sysconfig/slurmd", "/etc/default/slurmd"].map(|file| text(system, Path::new(file)));
    files
        .iter()
        .filter_map(|text| {
            let options = text
                .lines()
                .filter_map(|line| line.trim().strip_prefix("SLURMD_OPTIONS="))
                .next_back()?;
            let mut words = options.trim_matches(['"', '\'']).split_whitespace();
            words.find(|word| *word == "-f")?;
            let file = words
                .next()
                .map(Path::new)
                .filter(|file| file.is_absolute() && file.ends_with("slurm.conf"))?;
            file.parent().map(Path::to_path_buf)
        })
        .next_back()
}

/// The device files that slurmd reads, or its complaint.
fn gres_of_slurmd(system: &System) -> Answer<BTreeSet<String>> {
    ask_or(
        system,
        ["slurmd", "-G"],
        Duration::from_secs(10),
        |output| complaint(&output.text).map_or_else(|| output.last_lines(1), str::to_owned),
    )
    .and_then(|text| Ok(files_of(&text)))
}

/// The last message of slurmd's own; libraries of it write warnings of their own to the same place.
fn complaint(text: &str) -> Option<&str> {
    let own = text.lines().filter(|line| line.starts_with("slurmd"));
    [" fatal: ", " error: "]
        .into_iter()
        .find_map(|level| own.clone().rfind(|line| line.contains(level)))
        .map(str::trim)
}

/// The device files of the driver's GPUs.
fn devices(system: &System, nvml: &Answer<GpuTable>) -> Answer<BTreeSet<String>> {
    nvml.clone().and_then(|table| {
        let lines = cluster::gres(system, &table)?;
        Ok(lines.iter().flat_map(|line| line.files()).collect())
    })
}

/// The device files that `slurmd -G` prints: `… Count=1 Index=0 ID=7696487 File=/dev/nvidia0
/// Cores=0 …`.
fn files_of(text: &str) -> BTreeSet<String> {
    let of_gpus = text.lines().filter(|line| line.contains("Name=gpu"));
    let files = of_gpus.filter_map(|line| {
        line.split_whitespace()
            .find_map(|word| word.strip_prefix("File="))
    });
    files
        .flat_map(|files| files.split(','))
        .flat_map(cluster::gres::each_file)
        .collect()
}

/// The lines of one of Slurm's files, with those of the files that it includes in their place.
/// Relative paths are in Slurm's folder: <https://slurm.schedmd.com/slurm.conf.html>.
fn lines_of(system: &System, folder: &Path, file: &str) -> Vec<String> {
    let mut lines = Vec::new();
    add_lines(system, folder, file, &mut BTreeSet::new(), &mut lines);
    lines
}

/// Adds the lines of a file that is not among the `read` ones yet, and of those that it includes.
fn add_lines(
    system: &System,
    folder: &Path,
    file: &str,
    read: &mut BTreeSet<PathBuf>,
    lines: &mut Vec<String>,
) {
    const MAX_CONFIG_LINES: usize = 64;
    let path = folder.join(file);
    if read.len() == MAX_CONFIG_LINES || !read.insert(path.clone()) {
        return;
    }
    for line in joined(&text(system, path)) {
        match included(&line) {
            Some(file) => {
                let cluster = setting(lines, "ClusterName")
                    .unwrap_or_default()
                    .to_lowercase();
                add_lines(system, folder, &file.replace("%c", &cluster), read, lines);
            }
            None => lines.push(line),
        }
    }
}

/// The lines without comments, each with those that continue it: a line is continued if it ends
/// with a backslash.
fn joined(text: &str) -> Vec<String> {
    let (mut lines, mut line) = (Vec::new(), String::new());
    for part in text
        .lines()
        .map(|part| part.split('#').next().unwrap_or_default())
    {
        match part
            .trim_end()
            .strip_suffix('\\')
            .filter(|rest| !rest.ends_with('\\'))
        {
            Some(rest) => line += rest,
            None => lines.push(std::mem::take(&mut line) + part),
        }
    }
    lines.push(line);
    lines
}

/// The file of a line `Include FILE`.
fn included(line: &str) -> Option<&str> {
    let (word, rest) = line.split_once(char::is_whitespace)?;
    rest.split_whitespace()
        .next()
        .filter(|_| word.eq_ignore_ascii_case("include"))
}

/// The value of a setting in lines of Slurm's, whose names ignore case. The last one counts.
fn setting(lines: &[String], name: &str) -> Option<String> {
    let pairs = lines.iter().filter_map(|line| line.split_once('='));
    let of = pairs.filter(|(key, _)| key.trim().eq_ignore_ascii_case(name));
    of.map(|(_, value)| value.trim().to_owned()).next_back()
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpusetup_data::embedded;
    use gpusetup_host::container_host;

    /// A node with these files, and containerd in this version.
    fn node(containerd: &str, files: &[(&str, &str)]) -> Kubernetes {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let system = System::at(dir.path());
        let record = format!(
            "Package: containerd.io\nStatus: install ok installed\nVersion: {containerd}-1\n\n"
        );
        let own = [
            ("/usr/bin/kubelet", ""),
            ("/usr/bin/containerd", ""),
            ("/var/lib/dpkg/status", record.as_str()),
        ];
        for (path, text) in own.iter().chain(files) {
            system
                .make_directories(Path::new(path).parent().expect("a folder"), 0o755)
                .expect("made");
            system.write(path, text.as_bytes(), 0o755).expect("written");
        }
        let database = embedded();
        kubernetes(
            &system,
            &database,
            &container_host(&system, &database, None),
        )
    }

    const MAIN: &str = "/etc/containerd/config.toml";

    /// NVIDIA's runtime under the names of this plugin of containerd.
    fn of_plugin(head: &str, plugin: &str) -> String {
        let table = format!("plugins.\"{plugin}\".containerd.runtimes.nvidia.options");
        format!("{head}[{table}]\nBinaryName = \"/usr/bin/nvidia-container-runtime\"\n")
    }

    #[test]
    fn files_count_as_containerd_reads_them() {
        let [second, third] = ["io.containerd.grpc.v1.cri", "io.containerd.cri.v1.runtime"];
        for (version, head, plugin, is_read) in [
            ("1.7.27", "version = 2\n", second, true),
            ("1.7.27", "", "cri", true),
            ("2.1.1", "version = 2\n", second, true),
            ("2.1.1", "version = 3\n", third, true),
            ("2.3.0", "version = 4\n", third, true),
            ("1.7.27", "version = 3\n", third, false),
            ("1.7.27", "version = 2\n", third, false),
            ("1.7.27", "", second, false),
            ("2.1.1", "version = 3\n", second, false),
            ("2.1.1", "version = 4\n", third, false),
        ] {
            let found = node(version, &[(MAIN, of_plugin(head, plugin).as_str())]);
            assert_eq!(
                !found.configured.is_empty(),
                is_read,
                "{version} {head}{plugin}"
            );
        }
    }

    #[test]
    fn a_file_that_nothing_imports_does_not_count() {
        let beside = of_plugin("version = 3\n", "io.containerd.cri.v1.runtime");
        let with = |main: &str| {
            let part = "/etc/containerd/conf.d/99-nvidia.toml";
            node("2.1.1", &[(MAIN, main), (part, beside.as_str())])
                .configured
                .len()
        };
        assert_eq!(
            with("version = 3\nimports = [\"/etc/containerd/conf.d/*.toml\"]\n"),
            1
        );
        assert_eq!(with("version = 3\n"), 0);
        let crio = "[crio.runtime.runtimes.nvidia]\nruntime_path = \"/usr/bin/nvidia-container-runtime\"\n";
        let part = ("/etc/crio/crio.conf.d/99-nvidia.toml", crio);
        assert_eq!(
            node("2.1.1", &[part]).configured,
            [""; 0],
            "CRI-O is not installed"
        );
        assert_eq!(
            node("2.1.1", &[part, ("/usr/bin/crio", "")]).configured,
            [part.0]
        );
    }

    #[test]
    fn slurm_prints_its_files() {
        let said = "slurmd-n: Gres Name=gpu Type=a100 Count=2 Index=0 ID=7696487 File=/dev/nvidia[0-1] Cores=0 CoreCnt=2 (null)\n\
                    slurmd-n: Gres Name=gpu Type=a100_1g.5gb Count=1 ID=7 File=/dev/nvidia2,/dev/nvidia-caps/nvidia-cap12 (null)\n\
                    slurmd-n: Gres Name=craynetwork Count=4 ID=1 (null)\n";
        let files = [
            "/dev/nvidia-caps/nvidia-cap12",
            "/dev/nvidia0",
            "/dev/nvidia1",
            "/dev/nvidia2",
        ];
        assert_eq!(files_of(said), files.map(str::to_owned).into());
        assert_eq!(files_of("slurmd: error"), BTreeSet::new());
    }

    #[test]
    fn a_complaint_is_slurmds_own() {
        let said = "slurmd-n: error: Waiting for gres.conf file /dev/nvidia0\n\
                    slurmd-n: fatal: can't stat gres.conf file /dev/nvidia0: No such file or directory\n\
                    * hwloc will now ignore this invalid topology information and continue.\n";
        let fatal =
            "slurmd-n: fatal: can't stat gres.conf file /dev/nvidia0: No such file or directory";
        assert_eq!(complaint(said), Some(fatal));
        assert_eq!(
            complaint("slurmd: error: no such node\n* hwloc\n"),
            Some("slurmd: error: no such node")
        );
        assert_eq!(
            complaint("* hwloc 2.9.0 received invalid information from the operating system.\n"),
            None
        );
    }

    #[test]
    fn settings_of_slurm_ignore_case_and_comments() {
        let conf = "#ConstrainDevices=no\nconstraindevices = yes # all\nTaskPlugin=task/affinity,task/cgroup\n";
        assert_eq!(
            setting(&joined(conf), "ConstrainDevices").as_deref(),
            Some("yes")
        );
        assert_eq!(setting(&joined(conf), "ConstrainCores"), None);
    }

    #[test]
    fn slurms_folder_is_found() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let system = System::at(dir.path());
        let write = |path: &str, text: &str| {
            system
                .make_directories(Path::new(path).parent().expect("a folder"), 0o755)
                .expect("made");
            system.write(path, text.as_bytes(), 0o644).expect("written");
        };
        assert_eq!(folder_of_slurm(&system), None);
        for (path, text, folder) in [
            ("/usr/local/etc/slurm.conf", "", "/usr/local/etc"),
            ("/etc/slurm/slurm.conf", "", "/etc/slurm"),
            (
                "/etc/default/slurmd",
                "# SLURMD_OPTIONS=-f /x/slurm.conf\n",
                "/etc/slurm",
            ),
            ("/opt/s/slurm.conf", "", "/etc/slurm"),
            (
                "/etc/default/slurmd",
                "SLURMD_OPTIONS=\"-L /l -f /opt/s/slurm.conf\"\n",
                "/opt/s",
            ),
        ] {
            write(path, text);
            assert_eq!(
                folder_of_slurm(&system).as_deref(),
                Some(Path::new(folder)),
                "{path}"
            );
        }
    }

    #[test]
    fn slurm_includes_files_and_continues_lines() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let system = System::at(dir.path());
        let write = |path: &str, text: &str| {
            system
                .make_directories(Path::new(path).parent().expect("a folder"), 0o755)
                .expect("made");
            system.write(path, text.as_bytes(), 0o644).expect("written");
        };
        let plugin = |text: &str| {
            write("/etc/slurm/slurm.conf", text);
            setting(
                &lines_of(&system, Path::new("/etc/slurm"), "slurm.conf"),
                "TaskPlugin",
            )
            .unwrap_or_default()
        };
        write("/etc/slurm/extra.conf", "TaskPlugin=task/cgroup\n");
        write("/opt/of-hpc.conf", "include extra.conf\n");
        for include in [
            "include /etc/slurm/extra.conf",
            "Include\textra.conf # all",
            "INCLUDE /opt/of-hpc.conf",
        ] {
            assert_eq!(plugin(&format!("{include}\n")), "task/cgroup", "{include}");
        }
        assert_eq!(
            plugin("ClusterName=HPC\nInclude /opt/of-%c.conf\n"),
            "task/cgroup"
        );
        assert_eq!(
            plugin("Include extra.conf\nTaskPlugin=task/none\n"),
            "task/none",
            "the last one counts"
        );
        assert_eq!(
            plugin("#Include extra.conf\nIncludes extra.conf\nInclude\n"),
            ""
        );
        assert_eq!(
            plugin("Include slurm.conf\nTaskPlugin=task/none\n"),
            "task/none",
            "it includes itself"
        );
        assert_eq!(
            plugin("TaskPlugin=task/affinity,\\\ntask/cgroup\n"),
            "task/affinity,task/cgroup"
        );
        assert_eq!(
            plugin("TaskPlugin=task/affinity,\\ \ntask/cgroup"),
            "task/affinity,task/cgroup"
        );
        assert_eq!(
            plugin("TaskPlugin=task/cgroup\\"),
            "task/cgroup",
            "the file ends"
        );
    }

    #[test]
    fn runtime_classes_are_read() {
        assert_eq!(
            names_of_classes("{\"items\":[{\"metadata\":{\"name\":\"nvidia\"}},{}]}"),
            Some(["nvidia".to_owned()].into())
        );
        assert_eq!(names_of_classes("error"), None);
    }
}
