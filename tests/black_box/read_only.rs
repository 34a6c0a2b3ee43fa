//! Commands that only look at a tree start none of its programs, as the kernel saw it: whoever made
//! the tree would run them with the rights of whoever looks, mostly root's.

use crate::common::Tree;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

/// What gpusetup asks on a host that runs, and whatever those would start.
const PROGRAMS: [&str; 28] = [
    "bin/bash",
    "bin/dash",
    "lib64/ld-linux-x86-64.so.2",
    "sbin/ldconfig",
    "sbin/modinfo",
    "usr/bin/apt-cache",
    "usr/bin/apt-mark",
    "usr/bin/dmesg",
    "usr/bin/dpkg",
    "usr/bin/dpkg-query",
    "usr/bin/journalctl",
    "usr/bin/lsinitramfs",
    "usr/bin/lsinitrd",
    "usr/bin/nv-fabricmanager",
    "usr/bin/nvidia-modprobe",
    "usr/bin/nvidia-smi",
    "usr/bin/python3",
    "usr/bin/rpm",
    "usr/bin/sh",
    "usr/bin/systemctl",
    "usr/bin/unmkinitramfs",
    "usr/sbin/dkms",
    "usr/sbin/ldconfig",
    "usr/sbin/modinfo",
    "usr/bin/mokutil",
    "usr/local/cuda-12.8/bin/nvcc",
    "usr/bin/nvcc",
    "usr/bin/env",
];

/// A host on which every check has something to look at.
fn tree() -> Tree {
    const KERNEL: &str = "6.8.0-64-generic";
    let tree = Tree::ubuntu_24_04().gpu("0000:17:00.0", "20b0", Some("nouveau"));
    let package = |name: &str, version: &str| {
        format!(
            "Package: {name}\nStatus: install ok installed\nArchitecture: amd64\nVersion: {version}\n\n"
        )
    };
    let packages = [
        "dpkg",
        "libnvidia-compute-580",
        "nvidia-kernel-open-580",
        "nvidia-fabricmanager-580",
    ];
    let status: String = packages
        .iter()
        .map(|name| package(name, "580.95.05-0ubuntu1"))
        .collect();
    tree.write("var/lib/dpkg/status", &status);
    let switch = "sys/bus/pci/devices/0000:c3:00.0";
    for (name, value) in [
        ("vendor", "0x10de"),
        ("device", "0x1af1"),
        ("class", "0x068000"),
    ] {
        tree.write(&format!("{switch}/{name}"), value);
    }
    tree.write(
        &format!("lib/modules/{KERNEL}/updates/dkms/nvidia.ko"),
        "no module",
    );
    tree.write(
        &format!("lib/modules/{KERNEL}/modules.dep"),
        "updates/dkms/nvidia.ko:\n",
    );
    let secure_boot = "sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c";
    tree.write(secure_boot, "\u{6}\0\0\0\u{1}");
    tree.write(
        "usr/local/cuda-12.8/version.json",
        r#"{"cuda": {"name": "CUDA SDK", "version": "12.8.1"}}"#,
    );
    tree.link("usr/local/cuda", "cuda-12.8");
    tree.write("usr/lib/x86_64-linux-gnu/libcudnn.so.9.10.2", "no library");
    tree.link(
        "usr/lib/x86_64-linux-gnu/libcudnn.so.9",
        "libcudnn.so.9.10.2",
    );
    // apt's lists, of which its cache is asked on a host that runs.
    let lists = "var/lib/apt/lists/archive_ubuntu_dists_noble_restricted_binary-amd64_Packages";
    tree.write(
        lists,
        "Package: nvidia-headless-580-open\nArchitecture: amd64\nVersion: 580.95.05-0ubuntu1\n",
    );
    tree.write(
        "etc/profile.d/cuda.sh",
        "export PATH=$(find /usr/local -name bin):$PATH\n",
    );
    for program in PROGRAMS {
        tree.write(program, "#!/bin/sh\ntouch /ran\n");
        let path = tree.path().join(program);
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("ours");
    }
    tree
}

/// The programs that a command started, or tried to, besides itself.
fn started(tree: &Tree, command: &[&str]) -> Vec<String> {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let trace = folder.path().join("trace");
    let status = Command::new("strace")
        .args([
            "-f",
            "-qq",
            "-e",
            "trace=execve,execveat,chroot,pivot_root",
            "-e",
            "signal=none",
            "-o",
        ])
        .arg(&trace)
        .arg(env!("CARGO_BIN_EXE_gpusetup"))
        .args(command)
        .arg("--root")
        .arg(tree.path())
        .env_clear()
        .output()
        .expect("strace is installed");
    let code = status.status.code().expect("it ends");
    assert!(
        [0, 4, 5, 20].contains(&code),
        "{command:?}: {code} {}",
        String::from_utf8_lossy(&status.stderr)
    );
    let text = fs::read_to_string(&trace).expect("written");
    let calls: Vec<_> = text.lines().map(str::to_owned).collect();
    assert!(
        calls[0].contains("execve(") && calls[0].contains("gpusetup"),
        "strace saw it start: {calls:?}"
    );
    calls[1..].to_vec()
}

#[test]
fn doctor_starts_no_program_of_a_tree() {
    let tree = tree();
    let report = tree.path().join("report.tar.zst");
    let report = report.to_str().expect("UTF-8");
    let commands: [&[&str]; 3] = [
        &["doctor"],
        &["doctor", "--fix", "--dry-run"],
        &["doctor", "--json", "--report", report],
    ];
    for command in commands {
        assert_eq!(started(&tree, command), [""; 0], "{command:?}");
    }
    assert!(!tree.path().join("ran").exists());
    let found = tree.run(&["doctor", "-v"]);
    let skipped = found.out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        skipped.contains("skipped below --root: it would run a program of the tree"),
        "{}",
        found.out
    );
}

#[test]
fn planning_starts_no_program_of_a_tree() {
    let tree = tree();
    let lock = tempfile::tempdir().expect("a temporary folder");
    let lock = lock.path().join("lock.json");
    let lock = [
        "plan",
        "--profile",
        "toolkit",
        "--lock",
        lock.to_str().expect("UTF-8"),
    ];
    for command in [
        &["facts"][..],
        &["plan"],
        &["plan", "--gpu", "h100"],
        &lock,
        &["explain", "cuda", "12.8"],
    ] {
        assert_eq!(started(&tree, command), [""; 0], "{command:?}");
    }
}
