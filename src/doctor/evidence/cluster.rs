//! Evidence about the scheduler that a host is to be ready for: Kubernetes or Slurm. It is gathered only if somebody asks for it.

use super::containers::configurations;
use super::{Answer, ask, ask_or, names, text};
use crate::cluster;
use crate::compat::{Database, EngineForm};
use crate::gpus::{patience, why_silent};
use crate::host::{Facts, Runtimes};
use crate::nvidia::{self, GpuTable, Library, Question, own};
use crate::plan::serves_no_pods;
use crate::system::{Output, System};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A scheduler.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Scheduler {
    /// Kubernetes.
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
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
#[serde(deny_unknown_fields)]
pub struct Kubernetes {
    /// The program that makes it a node: `kubelet`, `k3s`, `rke2`.
    pub agent: Option<String>,
    /// Container runtimes that pods can run in: `containerd`, `crio`, or the agent's own.
    pub runtimes: Vec<String>,
    /// The configuration files that name NVIDIA's runtime or enable CDI.
    pub configured: Vec<String>,
    /// The programs of NVIDIA's runtime that these files name and that do not exist.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing_programs: Vec<String>,
    /// containerd's configuration file, if it disables the plugin that serves pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_pods_by: Option<String>,
    /// The root of the GPU Operator's driver container is mounted.
    pub driver_container: bool,
    /// The runtime classes of the cluster.
    pub classes: Answer<BTreeSet<String>>,
}

/// What a host has of Slurm.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
#[serde(deny_unknown_fields)]
pub struct Slurm {
    /// slurmd is installed.
    pub has_slurmd: bool,
    /// The device files that `slurmd -G` prints.
    pub known: Answer<BTreeSet<String>>,
    /// The device files that the driver's GPUs and MIG devices have.
    pub devices: Answer<BTreeSet<String>>,
    /// cgroup.conf has `ConstrainDevices=yes`. None if there is no slurm.conf to read, as on nodes that fetch it.
    pub constrains: Option<bool>,
    /// slurm.conf names the task plugin that this needs.
    pub has_task_plugin: bool,
    /// The folder of its configuration; none in older evidence, or if there is no slurm.conf.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<PathBuf>,
}

/// Looks for a scheduler.
pub fn cluster(system: &System, facts: &Facts, database: &Database, scheduler: Scheduler) -> Cluster {
    match scheduler {
        Scheduler::Kubernetes => Cluster::Kubernetes(kubernetes(system, database)),
        Scheduler::Slurm => Cluster::Slurm(slurm(system, facts)),
    }
}

const FOLDERS: [&str; 4] = ["/usr/bin", "/usr/local/bin", "/usr/sbin", "/opt/bin"];

fn has(system: &System, program: &str) -> bool {
    FOLDERS.iter().any(|folder| system.exists(Path::new(folder).join(program)))
}

fn kubernetes(system: &System, database: &Database) -> Kubernetes {
    let agent = ["kubelet", "k3s", "rke2"].into_iter().find(|program| has(system, program));
    let mut runtimes: Vec<_> =
        ["containerd", "crio"].into_iter().filter(|program| has(system, program)).map(str::to_owned).collect();
    // These bring containerd.
    runtimes.extend(agent.filter(|agent| *agent != "kubelet").map(str::to_owned));
    // Docker does not run pods.
    let files = configurations(system, database).into_iter().filter(|(form, _)| *form != EngineForm::DaemonJson);
    let (mut files_read, mut configured, mut missing) = (Vec::new(), Vec::new(), Vec::new());
    for (form, file) in files {
        let runtimes = Runtimes::of(form, &text(system, &file)).unwrap_or_default();
        let file = file.display().to_string();
        configured.extend(gives_gpus(&runtimes).then(|| file.clone()));
        missing.extend(runtime_programs(&runtimes).filter(|program| !system.exists(program)).map(str::to_owned));
        files_read.push(file);
    }
    missing.dedup();
    Kubernetes {
        agent: agent.map(str::to_owned),
        runtimes,
        no_pods_by: files_read.into_iter().find(|file| serves_no_pods(&text(system, file))),
        missing_programs: missing,
        configured,
        driver_container: !names(system, "/run/nvidia/driver/usr").collect::<Vec<_>>().is_empty(),
        classes: classes(system, agent),
    }
}

/// Whether a configuration gives containers GPUs.
fn gives_gpus(runtimes: &Runtimes) -> bool {
    runtimes.enables_cdi || nvidias(runtimes).next().is_some()
}

/// The programs of NVIDIA's runtimes in a configuration that are named by their path.
fn runtime_programs(runtimes: &Runtimes) -> impl Iterator<Item = &str> {
    nvidias(runtimes).filter(|program| program.starts_with('/'))
}

fn nvidias(runtimes: &Runtimes) -> impl Iterator<Item = &str> {
    let programs = runtimes.programs.values().flatten().map(String::as_str);
    programs.filter(|program| program.contains("nvidia-container-runtime"))
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
        Some(_) => ask(system, ["kubectl", "--kubeconfig", KUBELET, "get", "--raw", CLASSES], limit),
        None => return Answer::NotAsked("this host is no node".to_owned()),
    };
    answer
        .and_then(|text| names_of_classes(&text).ok_or_else(|| "kubectl printed no list of runtime classes".to_owned()))
}

/// The names in a list of the API: `{"items": [{"metadata": {"name": "nvidia"}}]}`.
fn names_of_classes(json: &str) -> Option<BTreeSet<String>> {
    let list: serde_json::Value = serde_json::from_str(json).ok()?;
    let name = |item: &serde_json::Value| Some(item.pointer("/metadata/name")?.as_str()?.to_owned());
    Some(list.get("items")?.as_array()?.iter().filter_map(name).collect())
}

fn slurm(system: &System, facts: &Facts) -> Slurm {
    if !has(system, "slurmd") {
        return Slurm::default();
    }
    let known = gres_of_slurmd(system);
    let folder = ["/etc/slurm", "/etc/slurm-llnl"].into_iter().find(|f| system.exists(format!("{f}/slurm.conf")));
    let setting =
        |file: &str, name: &str| folder.and_then(|folder| setting(&text(system, format!("{folder}/{file}")), name));
    let plugins = setting("slurm.conf", "TaskPlugin").unwrap_or_default();
    let constrains = setting("cgroup.conf", "ConstrainDevices").unwrap_or_default();
    Slurm {
        has_slurmd: true,
        known,
        devices: devices(system, facts),
        constrains: folder.map(|_| ["yes", "true", "1"].contains(&constrains.to_ascii_lowercase().as_str())),
        folder: folder.map(PathBuf::from),
        has_task_plugin: plugins.split(',').any(|plugin| plugin.trim().trim_start_matches("task/") == "cgroup"),
    }
}

/// The device files that slurmd reads, or its complaint.
fn gres_of_slurmd(system: &System) -> Answer<BTreeSet<String>> {
    let why = |output: &Output| complaint(&output.text).map_or_else(|| output.last_lines(1), str::to_owned);
    ask_or(system, ["slurmd", "-G"], Duration::from_secs(10), why).and_then(|text| Ok(files_of(&text)))
}

/// The last message of slurmd's own; libraries of it write warnings of their own to the same place.
fn complaint(text: &str) -> Option<&str> {
    let of = |level: &str| text.lines().rfind(|line| line.starts_with("slurmd") && line.contains(level));
    of(" fatal: ").or_else(|| of(" error: ")).map(str::trim)
}

/// The device files of the driver's GPUs.
fn devices(system: &System, facts: &Facts) -> Answer<BTreeSet<String>> {
    if let Some(why) = why_silent(system, facts) {
        return Answer::NotAsked(why);
    }
    let question = Question::new(Library::GpuTable, [nvidia::NVML]).limit(patience(facts, 10));
    nvidia::ask::<GpuTable>(own(), &question).and_then(|table| {
        let lines = cluster::gres(system, &table)?;
        Ok(lines.iter().flat_map(|line| line.files()).collect())
    })
}

/// The device files that `slurmd -G` prints: `… Count=1 Index=0 ID=7696487 File=/dev/nvidia0 Cores=0 …`.
fn files_of(text: &str) -> BTreeSet<String> {
    let of_gpus = text.lines().filter(|line| line.contains("Name=gpu"));
    let files = of_gpus.filter_map(|line| line.split_whitespace().find_map(|word| word.strip_prefix("File=")));
    files.flat_map(|files| files.split(',')).flat_map(cluster::gres::each_file).collect()
}

/// The value of a setting in one of Slurm's files, whose names ignore case. The last one counts.
fn setting(text: &str, name: &str) -> Option<String> {
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default());
    let pairs = lines.filter_map(|line| line.split_once('='));
    let of = pairs.filter(|(key, _)| key.trim().eq_ignore_ascii_case(name));
    of.map(|(_, value)| value.trim().to_owned()).next_back()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slurm_prints_its_files() {
        let said = "slurmd-n: Gres Name=gpu Type=a100 Count=2 Index=0 ID=7696487 File=/dev/nvidia[0-1] Cores=0 CoreCnt=2 (null)\n\
                    slurmd-n: Gres Name=gpu Type=a100_1g.5gb Count=1 ID=7 File=/dev/nvidia2,/dev/nvidia-caps/nvidia-cap12 (null)\n\
                    slurmd-n: Gres Name=craynetwork Count=4 ID=1 (null)\n";
        let files = ["/dev/nvidia-caps/nvidia-cap12", "/dev/nvidia0", "/dev/nvidia1", "/dev/nvidia2"];
        assert_eq!(files_of(said), files.map(str::to_owned).into());
        assert_eq!(files_of("slurmd: error"), BTreeSet::new());
    }

    #[test]
    fn a_complaint_is_slurmds_own() {
        let said = "slurmd-n: error: Waiting for gres.conf file /dev/nvidia0\n\
                    slurmd-n: fatal: can't stat gres.conf file /dev/nvidia0: No such file or directory\n\
                    * hwloc will now ignore this invalid topology information and continue.\n";
        let fatal = "slurmd-n: fatal: can't stat gres.conf file /dev/nvidia0: No such file or directory";
        assert_eq!(complaint(said), Some(fatal));
        assert_eq!(complaint("slurmd: error: no such node\n* hwloc\n"), Some("slurmd: error: no such node"));
        assert_eq!(complaint("* hwloc 2.9.0 received invalid information from the operating system.\n"), None);
    }

    #[test]
    fn settings_of_slurm_ignore_case_and_comments() {
        let conf = "#ConstrainDevices=no\nconstraindevices = yes # all\nTaskPlugin=task/affinity,task/cgroup\n";
        assert_eq!(setting(conf, "ConstrainDevices").as_deref(), Some("yes"));
        assert_eq!(setting(conf, "ConstrainCores"), None);
    }

    #[test]
    fn a_runtimes_configuration_says_whether_it_gives_gpus() {
        let read = |text: &str| Runtimes::of(EngineForm::Containerd, text).expect("TOML");
        let table = "[plugins.cri.containerd.runtimes.nvidia.options]\n";
        let program = "BinaryName = \"/usr/bin/nvidia-container-runtime\" # NVIDIA's\n";
        assert!(gives_gpus(&read(&format!("{table}{program}"))));
        assert!(gives_gpus(&read("[plugins.cri]\nenable_cdi = true # for GPUs\n")));
        assert!(!gives_gpus(&read(&format!("{table}# {program}[plugins.x]\nenable_cdi = false\n"))));
        let inline = "[plugins.cri.containerd]\nruntimes = {nvidia = {options = {BinaryName = \"/usr/bin/nvidia-container-runtime\"}}, runc = {}}\n";
        for text in [format!("{table}{program}"), inline.to_owned()] {
            let read = read(&text);
            assert_eq!(runtime_programs(&read).collect::<Vec<_>>(), ["/usr/bin/nvidia-container-runtime"], "{text}");
        }
        assert_eq!(
            names_of_classes("{\"items\":[{\"metadata\":{\"name\":\"nvidia\"}},{}]}"),
            Some(["nvidia".to_owned()].into())
        );
        assert_eq!(names_of_classes("error"), None);
    }
}
