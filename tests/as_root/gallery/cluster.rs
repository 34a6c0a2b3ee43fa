//! Hosts that are to become nodes of Kubernetes or Slurm.

use super::case::{Case, Stage, sick, twin};

const K8S: &[&str] = &["--ready", "k8s"];
const SLURM: &[&str] = &["--ready", "slurm"];

pub const CASES: &[Case] = &[
    // GS810, GS811: Kubernetes.
    sick(
        "containerd of a Kubernetes node does not know NVIDIA's runtime",
        "node; : >/etc/containerd/config.toml",
        &["GS810 fail"],
        "GS810: sudo gpusetup apply --profile container-host",
    )
    .ready(K8S),
    sick(
        "containerd of a Kubernetes node serves no pods, as its package from Docker comes",
        "node; echo 'disabled_plugins = [\"cri\"]' >/etc/containerd/config.toml",
        &["GS810 fail"],
        "GS810: sudoedit /etc/containerd/config.toml",
    )
    .ready(K8S),
    sick(
        "the GPU Operator's driver container beside the host's driver",
        "node; mkdir -p /run/nvidia/driver/usr/bin",
        &["GS811 fail"],
        "GS811: helm upgrade gpu-operator",
    )
    .ready(K8S),
    twin("a node whose containerd knows NVIDIA's runtime", &["GS810", "GS811"], "node").ready(K8S),
    // GS812, GS813: Slurm. Its slurmd is Debian's.
    sick(
        "Slurm knows one GPU less than the driver",
        "slurm; sed -i 's/0-7/0-6/' /etc/slurm/gres.conf; sed -i s/gpu:8/gpu:7/ /etc/slurm/slurm.conf",
        &["GS812 fail"],
        "GS812: gpusetup facts --format gres",
    )
    .on(Stage::Slurm)
    .ready(SLURM),
    sick(
        "Slurm lets every job use every GPU",
        "slurm; sed -i /ConstrainDevices/d /etc/slurm/cgroup.conf",
        &["GS813 warn"],
        "GS813: sudo touch /etc/slurm/cgroup.conf",
    )
    .on(Stage::Slurm)
    .ready(SLURM),
    twin("a node of Slurm that knows its GPUs", &["GS812", "GS813"], "slurm").on(Stage::Slurm).ready(SLURM),
];
