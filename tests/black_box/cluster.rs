//! What schedulers and monitoring get of a host: labels for Kubernetes, `gres.conf` read by the
//! real slurmd, gauges read by the real node exporter. The driver is a library that stands in for
//! NVML (`tests/support/nvidia/`).

use crate::common::{Ran, Tree, program};
use crate::nvidia;
use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

struct Host {
    tree: Tree,
    libraries: tempfile::TempDir,
}

impl Host {
    fn saying(answers: &str) -> Self {
        let tree = Tree::ubuntu_24_04()
            .gpu("0000:17:00.0", "20b0", Some("nvidia"))
            .gpu("0000:18:00.0", "20b0", Some("nvidia"));
        let libraries = tempfile::tempdir().expect("a temporary directory");
        nvidia::put(libraries.path(), answers);
        tree.write("sys/class/dmi/id/product_name", "PowerEdge XE8545\n");
        for (processor, address) in ["0000:17:00.0", "0000:18:00.0"].iter().enumerate() {
            let topology = format!("sys/devices/system/cpu/cpu{processor}/topology");
            tree.write(
                &format!("{topology}/physical_package_id"),
                &format!("{processor}\n"),
            );
            tree.write(
                &format!("{topology}/core_cpus_list"),
                &format!("{processor}\n"),
            );
            tree.write(
                &format!("sys/bus/pci/devices/{address}/local_cpulist"),
                &format!("{processor}\n"),
            );
        }
        Self { tree, libraries }
    }

    fn run(&self, arguments: &[&str]) -> Ran {
        let stand_ins = nvidia::stand_ins(self.libraries.path());
        let (variable, libraries) = stand_ins.split_once('=').expect("NAME=VALUE");
        let mut command = program();
        command
            .env(variable, libraries)
            .env("GPUSETUP_PATIENCE", "5")
            .args(["facts", "--root"]);
        Ran::of(
            command
                .arg(self.tree.path())
                .args(arguments)
                .output()
                .expect("gpusetup runs"),
        )
    }

    fn labels(&self, arguments: &[&str]) -> BTreeMap<String, String> {
        let ran = self.run(&[&["--format", "labels"], arguments].concat());
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{}", ran.out);
        labels(&ran.out)
    }

    fn gres(&self) -> String {
        let ran = self.run(&["--format", "gres"]);
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{}", ran.out);
        ran.out
    }
}

/// The labels without `nvidia.com/`; each must be one that Kubernetes takes.
fn labels(text: &str) -> BTreeMap<String, String> {
    let is_outer = |c: Option<char>| c.is_none_or(|c| c.is_ascii_alphanumeric());
    let each = text.lines().map(|line| {
        let (name, value) = line.split_once('=').expect("NAME=VALUE");
        let name = name.strip_prefix("nvidia.com/").expect("NVIDIA's label");
        assert!(
            name.chars()
                .all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c)),
            "{line}"
        );
        assert!(
            value
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
                && value.len() <= 63,
            "{line}"
        );
        assert!(
            is_outer(value.chars().next()) && is_outer(value.chars().last()),
            "{line}"
        );
        (name.to_owned(), value.to_owned())
    });
    each.collect()
}

fn expected(lines: &str) -> BTreeMap<String, String> {
    lines
        .lines()
        .map(|line| line.trim().split_once('=').expect("NAME=VALUE"))
        .map(|(n, v)| (n.into(), v.into()))
        .collect()
}

/// The names are those that the discovery's own test of a node without MIG expects, but for the
/// time.
const TWO_A100: &str = "cuda.driver-version.full=580.95.05
    cuda.driver-version.major=580
    cuda.driver-version.minor=95
    cuda.driver-version.revision=05
    cuda.driver.major=580
    cuda.driver.minor=95
    cuda.driver.rev=05
    cuda.runtime-version.full=13.0
    cuda.runtime-version.major=13
    cuda.runtime-version.minor=0
    cuda.runtime.major=13
    cuda.runtime.minor=0
    gpu.compute.major=8
    gpu.compute.minor=0
    gpu.count=2
    gpu.family=ampere
    gpu.machine=PowerEdge-XE8545
    gpu.memory=40960
    gpu.mode=compute
    gpu.product=NVIDIA-A100-SXM4-40GB
    gpu.replicas=1
    gpu.sharing-strategy=none
    mig.capable=true
    mps.capable=false
    vgpu.present=false";

#[test]
fn labels_are_those_of_gpu_feature_discovery() {
    assert_eq!(Host::saying("count=2\n").labels(&[]), expected(TWO_A100));
}

/// Both GPUs are cut into two devices; the driver knows three of them as 1g.5gb or all as it is
/// told.
fn cut(third: &str) -> Host {
    let names: String = (999..1003)
        .map(|device| {
            let profile = if device == 1002 { third } else { "1g.5gb" };
            format!("{device}.name=NVIDIA A100-SXM4-40GB MIG {profile}\n")
        })
        .collect();
    Host::saying(&format!("count=2\n0.mig=1 1 3\n1.mig=1 1 4\n{names}"))
}

#[test]
fn mig_devices_take_the_place_of_gpus_or_are_resources() {
    let alike = cut("1g.5gb");
    let labels = alike.labels(&["--mig-strategy", "single"]);
    let of = |labels: &BTreeMap<String, String>, name: &str| {
        labels.get(name).cloned().unwrap_or_default()
    };
    for (name, value) in [
        ("mig.strategy", "single"),
        ("gpu.product", "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb"),
        ("gpu.count", "7"),
        ("gpu.replicas", "1"),
        ("gpu.memory", "4864"),
        ("gpu.multiprocessors", "14"),
        ("gpu.slices.gi", "1"),
        ("gpu.engines.copy", "1"),
        ("gpu.engines.decoder", "0"),
    ] {
        assert_eq!(of(&labels, name), value, "{name}: {labels:#?}");
    }
    let mixed = cut("2g.10gb+me").labels(&["--mig-strategy", "mixed"]);
    for (name, value) in [
        ("mig.strategy", "mixed"),
        ("gpu.product", "NVIDIA-A100-SXM4-40GB"),
        ("gpu.count", "2"),
        ("gpu.replicas", "0"),
        ("mig-1g.5gb.product", "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb"),
        ("mig-1g.5gb.count", "6"),
        ("mig-2g.10gb.me.count", "1"),
        (
            "mig-2g.10gb.me.product",
            "NVIDIA-A100-SXM4-40GB-MIG-2g.10gb.me",
        ),
    ] {
        assert_eq!(of(&mixed, name), value, "{name}: {mixed:#?}");
    }
    // Devices of two kinds cannot stand for GPUs, nor can GPUs of which only some are cut.
    for host in [
        cut("2g.10gb"),
        Host::saying("count=2\n0.mig=1 1 3\n"),
        Host::saying("count=2\nmig=1 1 0\n"),
    ] {
        let labels = host.labels(&["--mig-strategy", "single"]);
        assert_eq!(
            of(&labels, "gpu.product"),
            "NVIDIA-A100-SXM4-40GB-MIG-INVALID",
            "{labels:#?}"
        );
        assert_eq!(
            (
                of(&labels, "gpu.count"),
                of(&labels, "gpu.sharing-strategy")
            ),
            ("0".into(), String::new())
        );
    }
    assert!(
        !Host::saying("count=2\n")
            .labels(&["--mig-strategy", "single"])
            .contains_key("gpu.slices.gi")
    );
}

#[test]
fn labels_of_a_described_host_are_the_databases() {
    let tree = Tree::ubuntu_24_04().gpu("0000:17:00.0", "20b0", None);
    let ran = tree.run(&["facts", "--format", "labels"]);
    assert_eq!(ran.code, 0, "{}", ran.out);
    insta::assert_snapshot!(ran.err, @"the driver was not asked (a tree has no running driver): names are the database's; memory, MIG devices and the NVLink domain are left out");
    let labels = labels(&ran.out);
    let of = |name: &str| labels.get(name).map(String::as_str);
    assert_eq!(
        of("gpu.product"),
        Some("NVIDIA-A100-SXM4-40GB"),
        "{labels:#?}"
    );
    assert_eq!(
        (of("gpu.count"), of("gpu.family"), of("mig.capable")),
        (Some("1"), Some("ampere"), Some("true"))
    );
    assert_eq!(
        (of("gpu.memory"), of("cuda.driver-version.full")),
        (None, None)
    );
    assert_eq!(of("gpu.mode"), Some("compute"), "the class is on the bus");
    // A generation has GPUs with MIG and others.
    let hopper = Tree::ubuntu_24_04().run(&["facts", "--gpu", "sm_90", "--format", "labels"]);
    assert!(
        hopper.code == 0 && !hopper.out.contains("mig.capable"),
        "{}{}",
        hopper.out,
        hopper.err
    );
    let none = Tree::ubuntu_24_04().run(&["facts", "--format", "labels"]);
    assert_eq!((none.code, none.out.as_str()), (9, ""), "{}", none.err);
    let skipped = Tree::ubuntu_24_04().run(&["facts", "--format", "labels", "--if-no-gpu", "skip"]);
    assert_eq!(
        (skipped.code, skipped.out.as_str()),
        (0, ""),
        "{}",
        skipped.err
    );
    insta::assert_snapshot!(skipped.err, @"this host has no NVIDIA GPU: nothing to print (--if-no-gpu skip)");
    let two = Tree::ubuntu_24_04().run(&[
        "facts",
        "--gpu",
        "t4,a100-sxm4-40gb,t4",
        "--format",
        "labels",
    ]);
    assert_eq!(two.code, 0, "{}", two.out);
    insta::assert_snapshot!(two.err, @"
    the driver was not asked (the GPUs are described): names are the database's; memory, MIG devices and the NVLink domain are left out
    the GPUs are of several models: the labels nvidia.com/gpu.* describe those of one, Tesla T4
    ");
    let gres = Tree::ubuntu_24_04().run(&["facts", "--format", "gres"]);
    let elsewhere = "try: gpusetup facts --format gres  # on the machine that runs this tree\n";
    assert!(
        gres.code == 2 && gres.err.contains(elsewhere),
        "{}",
        gres.err
    );
}

#[test]
fn labels_of_gpus_that_are_only_named_leave_out_what_nobody_has_seen() {
    for (gpu, product) in [
        ("10de:20b2:10de:1463", Some("NVIDIA-A100-SXM4-80GB")),
        // Two boards, and none at all.
        ("10de:20b2", None),
        ("sm_80", None),
    ] {
        let ran = Tree::ubuntu_24_04().run(&["facts", "--format", "labels", "--gpu", gpu]);
        let labels = labels(&ran.out);
        let of = |name: &str| labels.get(name).map(String::as_str);
        assert_eq!(
            (ran.code, of("gpu.product"), of("gpu.mode")),
            (0, product, None),
            "{gpu}: {}",
            ran.err
        );
        assert_eq!(
            (of("gpu.count"), of("gpu.family")),
            (Some("1"), Some("ampere")),
            "{gpu}"
        );
        assert_eq!(
            ran.err.contains("nvidia.com/gpu.product is left out"),
            product.is_none(),
            "{}",
            ran.err
        );
    }
}

#[test]
fn labels_leave_out_what_the_database_does_not_know() {
    let unknown = "07:00.0 3D controller [0302]: NVIDIA Corporation Device [10de:ffff] (rev a1)\n";
    let a100 = "08:00.0 3D controller [0302]: NVIDIA Corporation GA100 [A100 SXM4 40GB] [10de:20b0] (rev a1)\n";
    let labels_of = |lspci: &str| {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let file = folder.path().join("lspci");
        fs::write(&file, lspci).expect("written");
        let file = file.to_str().expect("UTF-8");
        let ran = Tree::ubuntu_24_04().run(&["facts", "--format", "labels", "--lspci", file]);
        assert_eq!(ran.code, 0, "{}", ran.err);
        (labels(&ran.out), ran.err)
    };
    let (alone, said) = labels_of(unknown);
    insta::assert_snapshot!(said, @"
    the driver was not asked (the GPUs are described): names are the database's; memory, MIG devices and the NVLink domain are left out
    the database does not know the GPU 10de:ffff: its model is not among the labels
    ");
    assert_eq!(
        alone.get("gpu.count").map(String::as_str),
        Some("1"),
        "{alone:#?}"
    );
    assert_eq!(
        alone.get("mig.capable"),
        None,
        "whether it has MIG is not known"
    );
    // The known one is described, though the other one is first.
    let (both, said) = labels_of(&format!("{unknown}{a100}"));
    insta::assert_snapshot!(said, @"
    the driver was not asked (the GPUs are described): names are the database's; memory, MIG devices and the NVLink domain are left out
    the database does not know the GPU 10de:ffff: its model is not among the labels
    the GPUs are of several models: the labels nvidia.com/gpu.* describe those of one, NVIDIA A100-SXM4-40GB
    ");
    let of = |name: &str| both.get(name).map(String::as_str);
    assert_eq!(
        (of("gpu.product"), of("mig.capable")),
        (Some("NVIDIA-A100-SXM4-40GB"), Some("true")),
        "{both:#?}"
    );
}

/// The lines of a `gres.conf` that are no comments.
fn devices(gres: &str) -> String {
    let mut lines: Vec<_> = gres.lines().collect();
    lines.retain(|line| !line.starts_with('#'));
    lines.join("\n")
}

/// What the real slurmd reads of a `gres.conf`, whose device files are others.
fn read_by_slurmd(gres: &str, devices: &[&str]) -> Vec<String> {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let at = folder.path();
    fs::create_dir_all(at.join("dev/nvidia-caps")).expect("made");
    for device in devices {
        // slurmd takes only files of devices.
        symlink("/dev/null", at.join(device)).expect("linked");
    }
    fs::write(
        at.join("gres.conf"),
        gres.replace("/dev/", &format!("{}/dev/", at.display())),
    )
    .expect("written");
    // The comment says what slurm.conf needs.
    let node = gres
        .lines()
        .find_map(|line| line.strip_prefix("#   NodeName=... "))
        .expect("the line of slurm.conf");
    let slurm = format!(
        "ClusterName=t\nSlurmctldHost=localhost\nGresTypes=gpu\nNodeName=n CPUs=2 {node}\n"
    );
    fs::write(at.join("slurm.conf"), slurm).expect("written");
    let slurmd = Command::new("/usr/sbin/slurmd")
        .arg("-G")
        .arg("-f")
        .arg(at.join("slurm.conf"))
        .args(["-N", "n"])
        .output();
    let ran = slurmd.expect("slurmd is there");
    let stderr = String::from_utf8(ran.stderr).expect("text");
    assert!(ran.status.success(), "{stderr}\n{gres}");
    assert!(
        !stderr.contains("WARNING") && !stderr.contains("error"),
        "{stderr}\n{gres}"
    );
    stderr
        .lines()
        .map(|line| line.replace(&at.display().to_string(), ""))
        .collect()
}

#[test]
fn slurm_reads_the_gpus() {
    let gres = Host::saying("count=2\n0.minor=1\n1.minor=0\n").gres();
    let read = read_by_slurmd(&gres, &["dev/nvidia0", "dev/nvidia1"]);
    assert_eq!(read.len(), 2, "{read:#?}");
    let part = |line: &str, name: &str| {
        line.split(' ')
            .find_map(|word| word.strip_prefix(name))
            .map(str::to_owned)
            .unwrap_or_default()
    };
    for (line, (file, cores)) in read
        .iter()
        .zip([("/dev/nvidia1", "0"), ("/dev/nvidia0", "1")])
    {
        assert_eq!(part(line, "Type="), "nvidia_a100-sxm4-40gb", "{line}");
        assert_eq!(
            (part(line, "File=").as_str(), part(line, "Cores=").as_str()),
            (file, cores),
            "{line}"
        );
    }
    let linked = Host::saying("count=2\nlinks=4 4\nlinks_to=gpu\n").gres();
    insta::assert_snapshot!(devices(&linked), @"
    Name=gpu Type=nvidia_a100-sxm4-40gb File=/dev/nvidia0 Cores=0 Links=-1,4
    Name=gpu Type=nvidia_a100-sxm4-40gb File=/dev/nvidia1 Cores=1 Links=4,-1
    ");
    read_by_slurmd(&linked, &["dev/nvidia0", "dev/nvidia1"]);
}

#[test]
fn slurm_reads_mig_devices() {
    let host = cut("1g.5gb");
    let without = host.run(&["--format", "gres"]);
    assert_eq!(without.code, 5, "{}", without.out);
    assert!(
        without
            .err
            .contains("mig-minors does not list the MIG device MIG-"),
        "{}",
        without.err
    );
    let mut minors = String::new();
    let mut devices = vec!["dev/nvidia0".to_owned(), "dev/nvidia1".to_owned()];
    for gpu in 0..2 {
        for instance in 7..12 {
            let minor = gpu * 100 + instance * 9;
            minors += &format!(
                "gpu{gpu}/gi{instance}/access {minor}\ngpu{gpu}/gi{instance}/ci0/access {}\n",
                minor + 1
            );
            devices.extend(
                [minor, minor + 1].map(|minor| format!("dev/nvidia-caps/nvidia-cap{minor}")),
            );
        }
    }
    host.tree.write(
        "proc/driver/nvidia-caps/mig-minors",
        &format!("config 1\nmonitor 2\n{minors}"),
    );
    let gres = host.gres();
    let first = "Name=gpu Type=nvidia_a100_1g.5gb MultipleFiles=/dev/nvidia0,/dev/nvidia-caps/nvidia-cap63,/dev/nvidia-caps/nvidia-cap64 Cores=0\n";
    assert!(gres.contains(first), "{gres}");
    let devices: Vec<_> = devices.iter().map(String::as_str).collect();
    assert_eq!(read_by_slurmd(&gres, &devices).len(), 7, "{gres}");
}

#[test]
fn a_hostile_name_stays_a_value() {
    let host = Host::saying("count=1\nname=A100 File=/dev/sda #\u{1b}[31m,\"\\\n");
    let gres = host.gres();
    insta::assert_snapshot!(devices(&gres), @"Name=gpu Type=a100_filedevsda_31m File=/dev/nvidia0 Cores=0");
    assert_eq!(
        host.labels(&[]).get("gpu.product").map(String::as_str),
        Some("A100-Filedevsda-31m")
    );
}

/// What `doctor --ready` finds in a tree, and its exit code.
fn ready(tree: &Tree, check: &str, scheduler: &str) -> (i32, String) {
    let ran = tree.run(&["doctor", check, "--ready", scheduler]);
    let found = ran.out.find("\n[").map_or("", |at| &ran.out[at..]);
    (ran.code, tree.typed_in_it(found))
}

/// A node with NVIDIA Container Toolkit and these files.
fn node(files: &[(&str, &str)]) -> Tree {
    let tree = Tree::debian_12().gpu("0000:17:00.0", "20b2", None);
    tree.write("usr/bin/nvidia-ctk", "");
    files.iter().for_each(|(path, text)| tree.write(path, text));
    tree
}

#[test]
fn a_node_whose_container_runtime_does_not_start_is_not_ready() {
    let config = ("etc/containerd/config.toml", "version = 3\n[plugins\n");
    let tree = node(&[("usr/bin/kubelet", ""), ("usr/bin/containerd", ""), config]);
    let (code, said) = ready(&tree, "GS810", "k8s");
    assert_eq!(code, 20);
    insta::assert_snapshot!(said, @"
    [XX] Containers  1 problem

    [XX] GS810 containerd cannot read /etc/containerd/config.toml: line 2, column 9:
               unclosed table, expected `]`
         saw   /etc/containerd/config.toml
         saw   agent: kubelet
         saw   container runtimes: containerd
         saw   runtime classes unknown: skipped below --root: it would run a program
               of the tree
         fix   correct the file, then restart containerd
                 sudo cat -n /etc/containerd/config.toml
                 sudo gpusetup apply --profile container-host

    1 problem, 0 warnings, 0 passed, 0 not applicable (-v lists them).
    ");
    tree.write("usr/bin/cri-dockerd", "");
    let (code, said) = ready(&tree, "GS810", "k8s");
    assert_eq!(code, 0);
    insta::assert_snapshot!(said, @"
    [--] Containers  not checked

    [--] GS810 not checked, cri-dockerd runs the pods in Docker, whose runtimes are
               not checked
         saw   agent: kubelet
         saw   container runtimes: containerd, cri-dockerd
         saw   runtime classes unknown: skipped below --root: it would run a program
               of the tree

    No problems found: 0 checks passed, 1 not applicable (-v lists them).
    ");
}

#[test]
fn k3s_is_ready_if_it_has_not_started_without_the_toolkit() {
    let tree = node(&[
        ("usr/local/bin/k3s", ""),
        ("etc/systemd/system/k3s-agent.service", ""),
    ]);
    let (code, said) = ready(&tree, "GS810", "k8s");
    // It has not started.
    assert_eq!(code, 0);
    insta::assert_snapshot!(said, @"
    [ok] Containers

    [ok] GS810 Pods of Kubernetes get the GPUs
         saw   k3s looks for NVIDIA's runtime when it starts
         saw   agent: k3s
         saw   container runtimes: k3s
         saw   runtime classes unknown: skipped below --root: it would run a program
               of the tree

    No problems found: 1 check passed, 0 not applicable (-v lists them).
    ");
    tree.write(
        "var/lib/rancher/k3s/agent/etc/containerd/config.toml",
        "version = 3\n",
    );
    let (_, said) = ready(&tree, "GS810", "k8s");
    // In a tree nothing can be restarted, so there is no command.
    insta::assert_snapshot!(said, @"
    [!!] Containers  1 warning

    [!!] GS810 NVIDIA Container Toolkit is installed, but k3s has not found it: it
               looks for it only when it starts
         saw   /var/lib/rancher/k3s/agent/etc/containerd/config.toml has no runtime
               of NVIDIA's
         saw   agent: k3s
         saw   container runtimes: k3s
         saw   runtime classes unknown: skipped below --root: it would run a program
               of the tree
         fix   restart it; its containers keep running

    0 problems, 1 warning, 0 passed, 0 not applicable (-v lists them).
    ");
}

#[test]
fn nodes_of_k0s_and_microk8s_are_not_judged() {
    let k0s = node(&[
        ("usr/local/bin/k0s", ""),
        ("etc/systemd/system/k0sworker.service", ""),
    ]);
    let microk8s = node(&[]);
    microk8s.link("snap/bin/microk8s", "/usr/bin/snap");
    for (tree, agent) in [(k0s, "k0s"), (microk8s, "microk8s")] {
        let (code, output) = ready(&tree, "GS810", "k8s");
        assert!(
            code == 0
                && output.contains(&format!("{agent} runs the pods"))
                && !output.contains("kubeadm"),
            "{output}"
        );
    }
}

#[test]
fn a_missing_slurmd_does_not_follow_from_a_missing_driver() {
    let stdout = node(&[]).run(&["doctor", "--ready", "slurm"]).out;
    assert!(
        stdout.contains("GS501") && stdout.contains("apt-get install slurmd"),
        "{stdout}"
    );
}

#[test]
fn slurm_of_its_own_build_is_found() {
    let tree = node(&[
        ("usr/local/sbin/slurmd", ""),
        ("usr/local/etc/slurm.conf", "TaskPlugin=task/cgroup\n"),
    ]);
    let (_, said) = ready(&tree, "GS813", "slurm");
    insta::assert_snapshot!(said, @r"
    [!!] Containers  1 warning

    [!!] GS813 cgroup.conf lacks ConstrainDevices=yes: every job can use every GPU
               of the node
         fix   confine jobs to their devices: set ConstrainDevices=yes in
               cgroup.conf
                 sudo touch /usr/local/etc/cgroup.conf
                 sudo sed -i '/^[[:space:]]*ConstrainDevices[[:space:]]*=/Id' /usr/local/etc/cgroup.conf
                 printf '\nConstrainDevices=yes\n' | sudo tee -a /usr/local/etc/cgroup.conf

    Note    chroot runs a program of the tree, as root: only for a tree whose
            programs you trust
    0 problems, 1 warning, 0 passed, 0 not applicable (-v lists them).
    ");
}

#[test]
fn slurms_files_include_others() {
    let tree = node(&[
        ("usr/sbin/slurmd", ""),
        ("etc/slurm/slurm.conf", "Include tasks.conf\n"),
        (
            "etc/slurm/tasks.conf",
            "TaskPlugin=task/affinity,\\\ntask/cgroup\n",
        ),
        ("etc/slurm/cgroup.conf", "ConstrainDevices=yes\n"),
    ]);
    let (code, said) = ready(&tree, "GS813", "slurm");
    assert_eq!(code, 0);
    insta::assert_snapshot!(said, @"
    [ok] Containers

    [ok] GS813 Slurm confines jobs to their GPUs

    No problems found: 1 check passed, 0 not applicable (-v lists them).
    ");
    tree.write(
        "etc/slurm/cgroup.conf",
        "ConstrainDevices=yes\nCgroupPlugin=disabled\n",
    );
    let (_, said) = ready(&tree, "GS813", "slurm");
    insta::assert_snapshot!(said, @"
    [!!] Containers  1 warning

    [!!] GS813 cgroup.conf has CgroupPlugin=disabled, so jobs are not confined to
               their GPUs
         fix   remove the line, or set it to autodetect
                 sudo sudoedit /etc/slurm/cgroup.conf

    Note    chroot runs a program of the tree, as root: only for a tree whose
            programs you trust
    0 problems, 1 warning, 0 passed, 0 not applicable (-v lists them).
    ");
}

/// The real node exporter, with only its textfile collector.
struct NodeExporter(Child, u16);

impl NodeExporter {
    fn start(folder: &Path) -> Self {
        let port = TcpListener::bind("127.0.0.1:0")
            .expect("a port")
            .local_addr()
            .expect("bound")
            .port();
        let mut command = Command::new("/usr/bin/prometheus-node-exporter");
        command.args(["--collector.disable-defaults", "--collector.textfile"]);
        command.arg(format!(
            "--collector.textfile.directory={}",
            folder.display()
        ));
        command.arg(format!("--web.listen-address=127.0.0.1:{port}"));
        let exporter = Self(
            command
                .stderr(Stdio::null())
                .spawn()
                .expect("the node exporter starts"),
            port,
        );
        for _ in 0..100 {
            if TcpStream::connect(("127.0.0.1", port)).is_ok() {
                return exporter;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        panic!("the node exporter does not answer");
    }

    fn metrics(&self) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.1)).expect("it answers");
        stream
            .write_all(b"GET /metrics HTTP/1.0\r\n\r\n")
            .expect("asked");
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("answered");
        text
    }
}

impl Drop for NodeExporter {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_node_exporter_reads_the_gauges() {
    let host = Host::saying("count=2\n");
    host.tree.write(
        "etc/os-release",
        "ID=ubuntu\nVERSION_ID=\"24.04\"\nPRETTY_NAME=\"A \\\"quoted\\\" name\"\n",
    );
    let folder = tempfile::tempdir().expect("a temporary directory");
    let facts = host.run(&["--format", "node-exporter"]);
    assert_eq!((facts.code, facts.err.as_str()), (0, ""), "{}", facts.out);
    fs::write(folder.path().join("gpusetup-facts.prom"), &facts.out).expect("written");
    let doctor = host.tree.run(&["doctor", "--format", "prometheus"]);
    fs::write(folder.path().join("gpusetup-doctor.prom"), &doctor.out).expect("written");
    let metrics = NodeExporter::start(folder.path()).metrics();
    for sample in [
        "node_textfile_scrape_error 0",
        "gpusetup_nvswitches 0",
        "gpusetup_gpu_info{address=\"0000:17:00.0\",bound_to=\"nvidia\",compute_capability=\"8.0\",name=\"NVIDIA A100-SXM4-40GB\",pci_id=\"10de:20b0\"} 1",
        "os=\"A \\\"quoted\\\" name\"",
        "gpusetup_check{id=\"GS501\"} 2",
    ] {
        assert!(
            metrics.contains(sample),
            "{sample} is missing:\n{metrics}\n{}",
            facts.out
        );
    }
}
