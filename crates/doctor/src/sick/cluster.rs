//! Hosts that are to become nodes of Kubernetes or Slurm, sick ones and sound ones.

use super::*;
use crate::evidence::{Cluster, Kubernetes, Slurm, StartedAgent};
use std::collections::BTreeSet;

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn node() -> Kubernetes {
    Kubernetes {
        agent: Some("kubelet".to_owned()),
        runtimes: vec!["containerd".to_owned()],
        configured: vec!["/etc/containerd/conf.d/99-nvidia.toml".to_owned()],
        missing_programs: Vec::new(),
        no_pods_by: None,
        started: None,
        driver_container: false,
        classes: Answer::Is(set(&["nvidia"])),
    }
}

fn slurm_node() -> Slurm {
    Slurm {
        has_slurmd: true,
        known: Answer::Is(set(&["/dev/nvidia0"])),
        devices: Answer::Is(set(&["/dev/nvidia0"])),
        constrains: Some(true),
        has_task_plugin: true,
        cgroups_disabled: false,
        folder: None,
    }
}

fn verdict(
    id: CheckId,
    cluster: Option<Cluster>,
    change: impl Fn(&mut Seen),
) -> (Status, String, Vec<String>) {
    super::verdict(id, |seen| {
        seen.containers.has_toolkit = true;
        seen.cluster = cluster.clone();
        change(seen);
    })
}

fn of_kubernetes(id: CheckId, change: impl Fn(&mut Kubernetes)) -> (Status, String, Vec<String>) {
    let mut of = node();
    change(&mut of);
    verdict(id, Some(Cluster::Kubernetes(of)), |_| ())
}

fn of_slurm(id: CheckId, change: impl Fn(&mut Slurm)) -> (Status, String, Vec<String>) {
    let mut of = slurm_node();
    change(&mut of);
    verdict(id, Some(Cluster::Slurm(of)), |_| ())
}

#[test]
fn nobody_who_does_not_ask_gets_an_answer() {
    for id in [
        CheckId::GS810,
        CheckId::GS811,
        CheckId::GS812,
        CheckId::GS813,
    ] {
        assert_eq!(verdict(id, None, |_| ()).0, Status::Skip, "{id}");
    }
    assert_eq!(of_kubernetes(CheckId::GS812, |_| ()).0, Status::Skip);
    assert_eq!(of_slurm(CheckId::GS810, |_| ()).0, Status::Skip);
}

#[test]
fn pods_get_the_gpus() {
    let pods = |change: fn(&mut Kubernetes)| of_kubernetes(CheckId::GS810, change);
    assert_eq!(pods(|_| ()).0, Status::Pass);
    assert_eq!(
        pods(|of| of.classes = Answer::Failed("no kubectl".into())).0,
        Status::Pass,
        "the cluster was not asked"
    );
    let (status, cause, commands) = pods(|of| of.agent = None);
    assert!(
        status == Status::Fail && cause.contains("no kubelet"),
        "{cause}"
    );
    assert_eq!(commands, [""; 0], "kubeadm may be missing, too");
    for own in ["k0s", "microk8s"] {
        let of = Kubernetes {
            agent: Some(own.to_owned()),
            configured: Vec::new(),
            ..node()
        };
        let (status, cause, _) = verdict(CheckId::GS810, Some(Cluster::Kubernetes(of)), |_| ());
        assert!(status == Status::Skip && cause.starts_with(own), "{cause}");
    }
    let (status, cause, _) = pods(|of| of.runtimes.clear());
    assert!(
        status == Status::Fail && cause.contains("containerd"),
        "{cause}"
    );
    let (status, cause, commands) = pods(|of| of.configured.clear());
    assert!(
        status == Status::Fail && cause.contains("containerd is not configured"),
        "{cause}"
    );
    assert_eq!(commands, ["sudo gpusetup apply --profile container-host"]);
    let disabled = |of: &mut Kubernetes| {
        of.configured.clear();
        of.no_pods_by = Some("/etc/containerd/config.toml".to_owned());
    };
    let (status, cause, commands) = pods(disabled);
    assert!(
        status == Status::Fail && cause.contains("config.toml disables its plugin cri"),
        "{cause}"
    );
    assert_eq!(commands[0], "sudoedit /etc/containerd/config.toml");
    let (_, cause, _) = pods(|of| {
        of.runtimes.push("crio".to_owned());
        of.configured.clear();
        of.no_pods_by = Some("/etc/containerd/config.toml".to_owned());
    });
    assert!(
        cause.contains("containerd and crio is not configured"),
        "CRI-O serves the pods: {cause}"
    );
    let (status, cause, commands) =
        pods(|of| of.missing_programs = vec!["/usr/bin/nvidia-container-runtime".to_owned()]);
    assert!(
        status == Status::Fail && cause.contains("99-nvidia.toml names, does not exist"),
        "{cause}"
    );
    assert_eq!(commands, ["sudo gpusetup apply --profile container-host"]);
    let (status, cause, commands) = pods(|of| of.classes = Answer::Is(Default::default()));
    assert!(
        status == Status::Warn && cause.contains("no runtime class"),
        "{cause}"
    );
    assert!(
        commands[0].ends_with("| kubectl apply -f -"),
        "{commands:?}"
    );
    let outside =
        |e: &mut Seen| e.containers.runtime_outside_path = Some("/usr/libexec/crio/crun".into());
    let (status, cause, commands) =
        verdict(CheckId::GS810, Some(Cluster::Kubernetes(node())), outside);
    assert!(
        status == Status::Fail && cause.contains("CRI-O's is /usr/libexec/crio/crun"),
        "{cause}"
    );
    assert_eq!(commands, ["sudo gpusetup apply --profile container-host"]);
    let mut bare = node();
    bare.configured.clear();
    let operators = |e: &mut Seen| e.containers.has_toolkit = false;
    let (status, cause, _) = verdict(CheckId::GS810, Some(Cluster::Kubernetes(bare)), operators);
    assert!(
        status == Status::Warn && cause.contains("GPU Operator"),
        "{cause}"
    );
}

#[test]
fn k3s_finds_the_runtime_when_it_starts() {
    let mut bare = node();
    (bare.agent, bare.runtimes) = (
        Some("k3s".to_owned()),
        vec!["containerd".to_owned(), "k3s".to_owned()],
    );
    bare.configured.clear();
    let (status, cause, _) = verdict(
        CheckId::GS810,
        Some(Cluster::Kubernetes(bare.clone())),
        |_| (),
    );
    assert_eq!(status, Status::Pass, "it has not started yet: {cause}");
    let wrote = "/var/lib/rancher/k3s/agent/etc/containerd/config.toml".into();
    bare.started = Some(StartedAgent {
        wrote,
        unit: Some("k3s-agent.service".to_owned()),
    });
    let (status, cause, commands) = verdict(
        CheckId::GS810,
        Some(Cluster::Kubernetes(bare.clone())),
        |_| (),
    );
    assert!(
        status == Status::Warn && cause.contains("is installed, but k3s has not found it"),
        "{cause}"
    );
    assert_eq!(commands, ["sudo systemctl restart k3s-agent.service"]);
    let operators = |e: &mut Seen| e.containers.has_toolkit = false;
    let (status, cause, _) = verdict(CheckId::GS810, Some(Cluster::Kubernetes(bare)), operators);
    assert!(
        status == Status::Warn && cause.contains("GPU Operator"),
        "{cause}"
    );
}

#[test]
fn a_container_runtime_that_does_not_start_runs_no_pods() {
    let broken = |e: &mut Seen| {
        let why = "line 2, column 9: invalid table header".to_owned();
        let engine = "containerd".parse().expect("an id");
        e.containers.broken = vec![BrokenConfig {
            engine,
            path: "/etc/containerd/config.toml".into(),
            why,
            line: Some(2),
        }];
    };
    let (status, cause, commands) =
        verdict(CheckId::GS810, Some(Cluster::Kubernetes(node())), broken);
    assert!(
        status == Status::Fail
            && cause.contains("containerd cannot read /etc/containerd/config.toml"),
        "{cause}"
    );
    assert_eq!(
        commands[1..],
        [
            "sudo systemctl restart containerd",
            "sudo gpusetup apply --profile container-host"
        ]
    );
    let k3s = Kubernetes {
        agent: Some("k3s".to_owned()),
        ..node()
    };
    assert_eq!(
        verdict(CheckId::GS810, Some(Cluster::Kubernetes(k3s)), broken).0,
        Status::Pass,
        "it has its own"
    );
}

#[test]
fn pods_in_docker_are_not_judged() {
    let mut docker = node();
    docker.runtimes.push("cri-dockerd".to_owned());
    let judged = |of: &Kubernetes| {
        verdict(
            CheckId::GS810,
            Some(Cluster::Kubernetes(of.clone())),
            |_| (),
        )
        .0
    };
    assert_eq!(judged(&docker), Status::Pass, "containerd is configured");
    docker.configured.clear();
    docker.no_pods_by = Some("/etc/containerd/config.toml".to_owned());
    assert_eq!(judged(&docker), Status::Skip);
}

#[test]
fn one_driver_is_enough() {
    assert_eq!(of_kubernetes(CheckId::GS811, |_| ()).0, Status::Pass);
    let both = Kubernetes {
        driver_container: true,
        ..node()
    };
    let (status, cause, commands) = verdict(
        CheckId::GS811,
        Some(Cluster::Kubernetes(both.clone())),
        |_| (),
    );
    assert!(
        status == Status::Fail && cause.contains("/run/nvidia/driver"),
        "{cause}"
    );
    assert!(commands[0].contains("driver.enabled=false"), "{commands:?}");
    let operators = |e: &mut Seen| e.facts.driver = None;
    assert_eq!(
        verdict(CheckId::GS811, Some(Cluster::Kubernetes(both)), operators).0,
        Status::Pass
    );
}

#[test]
fn slurm_has_every_gpu_and_no_other() {
    let gres = |change: fn(&mut Slurm)| of_slurm(CheckId::GS812, change);
    assert_eq!(gres(|_| ()).0, Status::Pass);
    let (status, cause, commands) = gres(|of| of.known = Answer::Is(Default::default()));
    assert!(
        status == Status::Fail && cause.contains("does not know") && cause.contains("/dev/nvidia0"),
        "{cause}"
    );
    assert!(
        commands[0].starts_with("gpusetup facts --format gres"),
        "{commands:?}"
    );
    let (_, cause, _) = gres(|of| of.known = Answer::Is(set(&["/dev/nvidia0", "/dev/nvidia1"])));
    assert!(
        cause.ends_with("no GPUs of this host: /dev/nvidia1"),
        "{cause}"
    );
    let (_, cause, _) = gres(|of| of.known = Answer::Is(set(&["/dev/nvidia1"])));
    assert!(
        cause.ends_with("/dev/nvidia1 instead of /dev/nvidia0"),
        "{cause}"
    );
    let (status, cause, _) = gres(|of| of.known = Answer::Failed("can't stat".into()));
    assert!(
        status == Status::Fail && cause.contains("can't stat"),
        "{cause}"
    );
    let (status, _, _) = gres(|of| of.devices = Answer::NotAsked("no driver".into()));
    assert_eq!(status, Status::Skip);
    assert_eq!(gres(|of| *of = Slurm::default()).0, Status::Fail);
}

#[test]
fn jobs_see_only_their_gpus() {
    let confined = |change: fn(&mut Slurm)| of_slurm(CheckId::GS813, change);
    assert_eq!(confined(|_| ()).0, Status::Pass);
    assert_eq!(
        confined(|of| of.constrains = None).0,
        Status::Skip,
        "the node fetches its configuration"
    );
    let (status, cause, commands) = confined(|of| of.constrains = Some(false));
    assert!(
        status == Status::Warn && cause.contains("ConstrainDevices=yes"),
        "{cause}"
    );
    assert!(
        commands[1].contains("ConstrainDevices[[:space:]]*=/Id"),
        "an older line goes first: {commands:?}"
    );
    let both = |of: &mut Slurm| {
        (of.constrains, of.has_task_plugin) = (Some(false), false);
        of.folder = Some("/etc/slurm-llnl".into());
    };
    let (status, cause, commands) = of_slurm(CheckId::GS813, both);
    assert!(
        status == Status::Warn
            && cause.contains("ConstrainDevices=yes")
            && cause.contains("task/cgroup"),
        "{cause}"
    );
    assert!(
        commands
            .iter()
            .all(|command| !command.contains("/etc/slurm/")),
        "{commands:?}"
    );
    assert!(
        commands.contains(&"grep -n TaskPlugin /etc/slurm-llnl/slurm.conf".to_owned()),
        "{commands:?}"
    );
    let (status, cause, commands) = confined(|of| of.cgroups_disabled = true);
    assert!(
        status == Status::Warn && cause.contains("CgroupPlugin=disabled"),
        "{cause}"
    );
    assert_eq!(
        commands,
        [
            "sudoedit /etc/slurm/cgroup.conf",
            "sudo systemctl restart slurmd"
        ]
    );
    let (status, cause, commands) = confined(|of| of.has_task_plugin = false);
    assert!(
        status == Status::Warn && cause.contains("task/cgroup"),
        "{cause}"
    );
    assert!(
        !commands
            .iter()
            .any(|command| command.contains("cgroup.conf")),
        "that file is right: {commands:?}"
    );
}
