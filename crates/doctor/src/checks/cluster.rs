//! Whether a host is ready to be a node of Kubernetes or Slurm. The checks apply to `doctor
//! --ready` alone.

use super::containers::unreadable;
use crate::{Answer, Case, Cluster, Kubernetes, Slurm, StartedAgent, Verdict};
use gpusetup_causes::Remedy;
use gpusetup_host::{BrokenConfig, form_of};
use gpusetup_packages::ByHand;
use gpusetup_text::text::quoted_path;
use std::collections::BTreeSet;

const RESTART: &str = "sudo systemctl restart slurmd";

fn kubernetes<'a>(case: &'a Case) -> Result<&'a Kubernetes, Verdict> {
    match &case.seen.cluster {
        Some(Cluster::Kubernetes(of)) => Ok(of),
        _ => Err(Verdict::skip("only `doctor --ready k8s` checks this")),
    }
}

fn slurm<'a>(case: &'a Case) -> Result<&'a Slurm, Verdict> {
    match &case.seen.cluster {
        Some(Cluster::Slurm(of)) => Ok(of),
        _ => Err(Verdict::skip("only `doctor --ready slurm` checks this")),
    }
}

/// Whether pods get the GPUs.
pub(crate) fn pods(case: &Case) -> Verdict {
    let of = match kubernetes(case) {
        Ok(of) => of,
        Err(skip) => return skip,
    };
    let verdict = pods_of(case, of).unwrap_or_else(Verdict::pass);
    let lists = [
        ("agent", of.agent.as_slice()),
        ("container runtimes", &of.runtimes),
        ("configured in", &of.configured),
    ];
    let lists = lists.into_iter().filter(|(_, list)| !list.is_empty());
    let verdict = lists.fold(verdict, |verdict, (what, list)| {
        verdict.evidence(format!("{what}: {}", list.join(", ")))
    });
    match &of.classes {
        Answer::Is(classes) => verdict.evidence(format!("runtime classes: {}", listed(classes))),
        Answer::Failed(why) | Answer::NotAsked(why) => {
            verdict.evidence(format!("runtime classes unknown: {why}"))
        }
    }
}

const SET_UP: &str = "sudo gpusetup apply --profile container-host";

fn pods_of(case: &Case, of: &Kubernetes) -> Option<Verdict> {
    no_checked_runtime(case, of)
        .or_else(|| wrong_configuration(case, of))
        .or_else(|| unconfigured(case, of))
        .or_else(|| missing_program(case, of))
        .or_else(|| no_runtime_class(of))
}

/// The command that installs a package on this host, if its package manager is known.
fn installing(case: &Case, package: fn(&ByHand) -> Option<&str>) -> Option<String> {
    let manager = case.seen.facts.os.package_manager?;
    let package = package(&gpusetup_packages::of(manager).by_hand)?;
    Some(gpusetup_causes::install(manager, &[package]))
}

/// The titles of the engines that run pods: those that bring a kubelet, or those that one needs.
fn engines<'a>(case: &Case<'a>, bring_kubelet: bool) -> Vec<&'a str> {
    let all = case.database.engines.iter();
    all.filter(|engine| {
        let form = form_of(engine);
        form.runs_pods && form.finds_runtimes == bring_kubelet
    })
    .map(|engine| engine.title.as_str())
    .collect()
}

fn no_checked_runtime(case: &Case, of: &Kubernetes) -> Option<Verdict> {
    if of.agent.is_none() {
        let bring_one = engines(case, true).join(" or ");
        let cause = format!("no kubelet, {bring_one} is installed: this host is no node yet");
        let verdict = Verdict::fail(cause);
        const HOW: &str = "install Kubernetes and join the cluster: \
                           https://kubernetes.io/docs/setup/production-environment/tools/kubeadm/install-kubeadm/";
        return Some(verdict.advise(HOW, [""; 0]));
    }
    if let Some(agent @ ("k0s" | "microk8s")) = of.agent.as_deref() {
        return Some(Verdict::skip(format!(
            "{agent} runs the pods with its own containerd, which is not checked"
        )));
    }
    if of.runtimes.is_empty() {
        let runtimes = engines(case, false).join(" nor ");
        let verdict = Verdict::fail(format!("neither {runtimes} is installed: no pod can run"));
        let install = installing(case, |by_hand| by_hand.containerd);
        return Some(verdict.advise("install a container runtime", install));
    }
    if of.configured.is_empty() && of.runtimes.iter().any(|name| name == "cri-dockerd") {
        return Some(Verdict::skip(
            "cri-dockerd runs the pods in Docker, whose runtimes are not checked",
        ));
    }
    None
}

/// Files that keep the container runtime from running pods.
fn wrong_configuration(case: &Case, of: &Kubernetes) -> Option<Verdict> {
    if let Some(broken) = case
        .seen
        .containers
        .broken
        .iter()
        .find(|broken| runs_pods(case, of, broken))
    {
        return Some(unreadable(case, broken).and_run([SET_UP]));
    }
    if let (Some(file), [runtime]) = (&of.no_pods_by, of.runtimes.as_slice()) {
        let cause =
            format!("{runtime} serves no pods: {file} disables its plugin cri (disabled_plugins)");
        let text =
            format!("take cri out of disabled_plugins, restart {runtime}, then configure it");
        let (edit, restart) = (
            format!("sudoedit {file}"),
            format!("sudo systemctl restart {runtime}"),
        );
        let commands = [edit, restart, SET_UP.to_owned()];
        return Some(Verdict::fail(cause).advise(text, commands));
    }
    if !case.seen.containers.has_toolkit && of.configured.is_empty() {
        let cause = "NVIDIA Container Toolkit is not installed on the host: pods get GPUs only once the GPU Operator has installed its own";
        return Some(Verdict::warn(cause).advise("without the GPU Operator, install it", [SET_UP]));
    }
    if let Some(runtime) = case
        .seen
        .containers
        .unusable_runtimes
        .iter()
        .find(|runtime| runs_pods(case, of, runtime))
    {
        let (engine, path, cause) = (
            &runtime.engine,
            quoted_path(&runtime.path),
            runtime.why.clone(),
        );
        let commands = [
            format!("sudoedit {path}"),
            format!("sudo systemctl restart {engine}"),
        ];
        let verdict = Verdict::fail(cause).evidence(runtime.path.display().to_string());
        return Some(verdict.advise(format!("correct the file, then restart {engine}"), commands));
    }
    None
}

fn unconfigured(case: &Case, of: &Kubernetes) -> Option<Verdict> {
    if !of.configured.is_empty() {
        return None;
    }
    let agent = of.agent.as_deref();
    if let Some(agent) = agent.filter(|agent| finds_runtimes(case, agent)) {
        return Some(found_at_start(agent, of.started.as_ref()));
    }
    let cause = format!(
        "NVIDIA Container Toolkit is installed, but {} is not configured to use it",
        of.runtimes.join(" and ")
    );
    Some(Verdict::fail(cause).advise("configure the container runtime", [SET_UP]))
}

fn missing_program(case: &Case, of: &Kubernetes) -> Option<Verdict> {
    if let Some(program) = of.missing_programs.first() {
        let cause = format!(
            "{program}, which {} names, does not exist: no pod of this runtime starts",
            of.configured.join(", ")
        );
        let text = "install NVIDIA Container Toolkit; if its program is in another folder, correct the path in the file";
        return Some(Verdict::fail(cause).advise(text, [SET_UP]));
    }
    if let Some(program) = &case.seen.containers.runtime_outside_path {
        let cause = format!(
            "NVIDIA's runtime finds neither runc nor crun, and CRI-O's is {}: no pod of this runtime starts",
            program.display()
        );
        return Some(
            Verdict::fail(cause).advise("name CRI-O's in NVIDIA's configuration", [SET_UP]),
        );
    }
    None
}

fn no_runtime_class(of: &Kubernetes) -> Option<Verdict> {
    let Answer::Is(classes) = &of.classes else {
        return None;
    };
    if classes.contains("nvidia") {
        return None;
    }
    let cause = "the cluster has no runtime class \"nvidia\": pods that name it are refused, and others get GPUs only if the runtime is the default or uses CDI";
    const CREATE: &str = "printf 'apiVersion: node.k8s.io/v1\\nkind: RuntimeClass\\nmetadata: {name: nvidia}\\nhandler: nvidia\\n' | kubectl apply -f -";
    Some(Verdict::warn(cause).advise("create it once for the cluster", [CREATE]))
}

/// Whether pods run in the container runtime that this file is of.
fn runs_pods(case: &Case, of: &Kubernetes, broken: &BrokenConfig) -> bool {
    let Some(engine) = case.known_engine(broken.engine.as_str()) else {
        return false;
    };
    let form = form_of(engine);
    match of
        .agent
        .as_deref()
        .filter(|agent| finds_runtimes(case, agent))
    {
        Some(agent) => agent == engine.id.as_str(),
        None => form.runs_pods && !form.finds_runtimes,
    }
}

/// Whether an agent looks for NVIDIA's runtime itself, as K3s and RKE2 do.
fn finds_runtimes(case: &Case, agent: &str) -> bool {
    let engine = case.known_engine(agent);
    engine.is_some_and(|engine| form_of(engine).finds_runtimes)
}

/// What K3s or RKE2 know of NVIDIA's runtime, which they look for when they start.
fn found_at_start(agent: &str, started: Option<&StartedAgent>) -> Verdict {
    let Some(StartedAgent { wrote, unit }) = started else {
        return Verdict::pass()
            .evidence(format!("{agent} looks for NVIDIA's runtime when it starts"));
    };
    let cause = format!(
        "NVIDIA Container Toolkit is installed, but {agent} has not found it: it looks for it only when it starts"
    );
    let unit = unit.as_deref().unwrap_or(agent);
    let verdict =
        Verdict::warn(cause).evidence(format!("{} has no runtime of NVIDIA's", wrote.display()));
    verdict.advise(
        "restart it; its containers keep running",
        [format!("sudo systemctl restart {unit}")],
    )
}

/// Whether only one of the host and the GPU Operator has the driver.
pub(crate) fn one_driver(case: &Case) -> Verdict {
    let of = match kubernetes(case) {
        Ok(of) => of,
        Err(skip) => return skip,
    };
    let installed = case.seen.facts.driver.as_ref().map(|driver| driver.version);
    match (of.driver_container, installed) {
        (true, Some(version)) => Verdict::fail(format!(
            "the GPU Operator's driver container is mounted at /run/nvidia/driver, and driver {version} is installed on the host: \
             each replaces the other's kernel modules"
        ))
        .advise(
            "keep one of them: tell the operator to leave the driver to the host, then reboot; or remove the host's",
            [
                "helm upgrade gpu-operator nvidia/gpu-operator --namespace gpu-operator --reuse-values --set driver.enabled=false",
                "sudo gpusetup uninstall --driver",
            ],
        ),
        (true, None) => Verdict::pass().evidence("the driver is the GPU Operator's (/run/nvidia/driver)"),
        (false, Some(version)) => Verdict::pass()
            .evidence(format!("driver {version} is the host's; the GPU Operator leaves its own out on such a node")),
        (false, None) => Verdict::pass().evidence("no driver yet: the GPU Operator can install one"),
    }
}

/// Whether Slurm has every GPU, and nothing else.
pub(crate) fn gres(case: &Case) -> Verdict {
    let of = match slurm(case) {
        Ok(of) => of,
        Err(skip) => return skip,
    };
    if !of.has_slurmd {
        let verdict = Verdict::fail("slurmd is not installed: this host is no node of Slurm yet")
            .caused_only_by(&[]);
        let install = installing(case, |by_hand| by_hand.slurmd);
        return verdict.advise("install it in the version of the controller", install);
    }
    let devices = match &of.devices {
        Answer::Is(devices) => devices,
        Answer::Failed(why) | Answer::NotAsked(why) => {
            return Verdict::skip(format!("the GPUs' device files are not known: {why}"));
        }
    };
    let write = [
        format!(
            "gpusetup facts --format gres | sudo tee {}/gres.conf",
            folder(of)
        ),
        RESTART.to_owned(),
    ];
    let known = match &of.known {
        Answer::Is(known) => known,
        Answer::Failed(why) => {
            let verdict = Verdict::fail(format!(
                "slurmd cannot read its configuration of GPUs: {why}"
            ));
            return verdict.advise(
                "write gres.conf again, and compare slurm.conf with its first lines",
                write,
            );
        }
        Answer::NotAsked(why) => return Verdict::skip(format!("slurmd was not asked: {why}")),
    };
    let missing: BTreeSet<_> = devices.difference(known).cloned().collect();
    let gone: BTreeSet<_> = known.difference(devices).cloned().collect();
    let cause = match (missing.is_empty(), gone.is_empty()) {
        (true, true) => return Verdict::pass().evidence(format!("slurmd -G: {}", listed(known))),
        (false, true) => format!(
            "Slurm does not know these device files of GPUs: {}",
            listed(&missing)
        ),
        (true, false) => format!(
            "Slurm counts on device files that are no GPUs of this host: {}",
            listed(&gone)
        ),
        (false, false) => format!(
            "Slurm counts on {} instead of {}",
            listed(&gone),
            listed(&missing)
        ),
    };
    Verdict::fail(cause).advise(
        "write gres.conf, and compare slurm.conf with its first lines",
        write,
    )
}

/// Whether jobs see only their own GPUs.
pub(crate) fn confined(case: &Case) -> Verdict {
    let of = match slurm(case) {
        Ok(of) => of,
        Err(skip) => return skip,
    };
    let folder = folder(of);
    if of.cgroups_disabled && of.constrains.is_some() {
        let verdict = Verdict::warn(
            "cgroup.conf has CgroupPlugin=disabled, so jobs are not confined to their GPUs",
        );
        let commands = [format!("sudoedit {folder}/cgroup.conf"), RESTART.to_owned()];
        return verdict.advise("remove the line, or set it to autodetect", commands);
    }
    let cause = match (of.constrains, of.has_task_plugin) {
        (None, _) => {
            return Verdict::skip(
                "slurm.conf is neither in /etc/slurm, /etc/slurm-llnl or /usr/local/etc nor named in SLURMD_OPTIONS",
            );
        }
        (Some(true), true) => return Verdict::pass(),
        (Some(false), true) => {
            "cgroup.conf lacks ConstrainDevices=yes: every job can use every GPU of the node"
        }
        (Some(false), false) => {
            "cgroup.conf lacks ConstrainDevices=yes, and slurm.conf task/cgroup in TaskPlugin: every job can use every GPU of the node"
        }
        (Some(true), false) => {
            "slurm.conf lacks task/cgroup in TaskPlugin, so ConstrainDevices has no effect: every job can use every GPU of the node"
        }
    };
    let verdict = Verdict::warn(cause);
    const PLUGIN: &str = "TaskPlugin=task/affinity,task/cgroup in slurm.conf";
    let look = format!("grep -n TaskPlugin {folder}/slurm.conf");
    let verdict = match (of.constrains, of.has_task_plugin) {
        (Some(true), _) => {
            verdict.advise(format!("confine jobs to their devices: {PLUGIN}"), [look])
        }
        (_, true) => verdict.remedy(gpusetup_causes::constrain_devices(&folder)),
        (_, false) => {
            let Remedy { text, commands } = gpusetup_causes::constrain_devices(&folder);
            verdict
                .advise(format!("{text}, and {PLUGIN}"), commands)
                .and_run([look])
        }
    };
    verdict.and_run([RESTART])
}

/// The folder of Slurm's configuration.
fn folder(of: &Slurm) -> String {
    of.folder.as_ref().map_or_else(
        || gpusetup_causes::SLURM.to_owned(),
        |folder| quoted_path(folder),
    )
}

fn listed(all: &BTreeSet<String>) -> String {
    if all.is_empty() {
        return "none".to_owned();
    }
    all.iter()
        .map(String::as_str)
        .collect::<Vec<_>>()
        .join(", ")
}
