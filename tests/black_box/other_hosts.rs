//! A plan that was made for another host is refused by `apply`, with what differs and a command
//! that plans for this one, and nothing is touched. Each property is in a table here; what the rule
//! is made of is tested in `crates/plan/src/other_host.rs`.

use crate::common::{Ran, Tree, is_root, run};
use std::fs;
use std::path::{Path, PathBuf};

pub fn text(path: &Path) -> &str {
    path.to_str().expect("paths of the tests are UTF-8")
}

pub fn host() -> Tree {
    Tree::ubuntu_24_04()
        .gpu("0000:17:00.0", "20b2", None)
        .gxx(13)
}

/// A saved plan.
pub fn planned(folder: &Path, tree: &Tree, more: &[&str]) -> PathBuf {
    let file = folder.join("plan.json");
    let ran = tree.run(
        &[
            &[
                "plan",
                "--profile",
                "toolkit",
                "--cuda",
                "12.8.1",
                "--out",
                text(&file),
            ],
            more,
        ]
        .concat(),
    );
    assert_eq!(ran.code, 0, "{}", ran.err);
    file
}

fn apply(tree: &Tree, plan: &Path) -> Ran {
    tree.run(&["apply", text(plan), "--yes", "--accept-eula", "--offline"])
}

/// Makes another host of a tree, and how that is said.
type Case = (fn(&Tree), &'static str);

const SECURE_BOOT: &str =
    "sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c";

const CASES: [Case; 14] = [
    (
        |t| {
            t.write(
                "etc/os-release",
                "PRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\nID=debian\nVERSION_ID=\"12\"\n",
            )
        },
        "made for Ubuntu 24.04 on x86_64; this host is Debian 12 on x86_64",
    ),
    (
        |t| {
            t.write(
                "etc/os-release",
                "PRETTY_NAME=\"Ubuntu 22.04.5 LTS\"\nID=ubuntu\nID_LIKE=debian\nVERSION_ID=\"22.04\"\n",
            )
        },
        "made for Ubuntu 24.04 on x86_64; this host is Ubuntu 22.04 on x86_64",
    ),
    (
        |t| {
            drop(fs::remove_file(t.path().join("bin/sh")));
            t.write("lib/ld-linux-aarch64.so.1", "");
        },
        "made for Ubuntu 24.04 on x86_64; this host is Ubuntu 24.04 on aarch64",
    ),
    (
        |t| t.write("lib/modules/6.8.0-99-generic/modules.builtin", ""),
        "made for kernel 6.8.0-64-generic; this host boots 6.8.0-99-generic",
    ),
    (
        |t| t.write("run/.containerenv", ""),
        "made for a physical machine; this host is a container",
    ),
    (
        |t| t.write("usr/lib/wsl/lib/libcuda.so", ""),
        "made for a physical machine; this host is WSL2",
    ),
    (
        |t| {
            t.write(
                "etc/nv_tegra_release",
                "# R36 (release), REVISION: 4.3, GCID: 1, BOARD: generic, EABI: aarch64\n",
            )
        },
        "made for a physical machine; this host is a Jetson",
    ),
    (
        |t| t.write("run/ostree-booted", ""),
        "made for a system with a writable /usr; this host is an image-based system",
    ),
    (
        |t| t.write(SECURE_BOOT, "\u{6}\0\0\0\u{1}"),
        "made for a host with an unknown state of Secure Boot; this host has Secure Boot enabled",
    ),
    (
        |t| {
            t.write("var/lib/dpkg/status", "Package: libnvidia-compute-535\nStatus: install ok installed\nArchitecture: amd64\nVersion: 535.230.02-0ubuntu1\n\n");
            t.write("var/lib/dpkg/info/libnvidia-compute-535:amd64.list", "/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.535.230.02\n/usr/lib/x86_64-linux-gnu/libcuda.so.535.230.02\n");
            t.write("usr/lib/x86_64-linux-gnu/libcuda.so.535.230.02", "");
            t.write("usr/lib/x86_64-linux-gnu/libnvidia-ml.so.535.230.02", "");
        },
        "made for a host without an NVIDIA driver; this host has driver 535.230.02",
    ),
    (
        |t| {
            t.write(
                "usr/local/cuda-11.2/version.json",
                r#"{"cuda": {"name": "CUDA SDK", "version": "11.2.2"}}"#,
            );
            t.write("usr/local/cuda-11.2/bin/nvcc", "");
        },
        "made for a host without CUDA 11.2; this host has CUDA 11.2",
    ),
    (
        |t| drop(fs::remove_file(t.path().join("usr/bin/gcc"))),
        "made for a host with gcc 13",
    ),
    (
        |t| {
            drop(fs::remove_dir_all(
                t.path().join("sys/bus/pci/devices/0000:17:00.0"),
            ))
        },
        " at 0000:17:00.0; this host has no NVIDIA GPU",
    ),
    (
        |t| t.write("sys/bus/pci/devices/0000:17:00.0/device", "0x1c03\n"),
        "GTX 1060",
    ),
];

#[test]
fn a_plan_for_another_host_is_refused() {
    if !is_root() {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let made = host();
    let plan = planned(folder.path(), &made, &[]);
    // No file of it is here, so the same host is refused for that, and before anything is done.
    let same = apply(&made, &plan);
    assert!(
        same.code == 5 && same.err.contains("is not in the cache")
            || same.err.contains("are not in the cache"),
        "{}",
        same.err
    );
    for (change, sentence) in CASES {
        let here = host();
        change(&here);
        let ran = apply(&here, &plan);
        assert!(
            ran.code == 5 && ran.err.replace("\n       ", " ").contains(sentence),
            "{sentence}: {} {}",
            ran.code,
            ran.err
        );
        assert!(ran.err.contains("plan.json was made for"), "{}", ran.err);
        let command = ran
            .err
            .lines()
            .find_map(|line| line.strip_prefix("try: "))
            .expect("a command");
        let root = format!("gpusetup plan --root {} ", here.path().display());
        assert!(
            command.starts_with(&root)
                && command.ends_with("--profile toolkit --cuda 12.8.1 --out FILE"),
            "{command}"
        );
        assert!(
            !here.path().join("var/lib/gpusetup/journal").exists(),
            "{sentence}"
        );
    }
}

#[test]
fn plans_for_new_installations_are_not_for_every_host() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("plan.json");
    let stock = |os: &str, gpu: &str| {
        let ran = run(&[
            "plan",
            "--os",
            os,
            "--gpu",
            gpu,
            "--profile",
            "driver",
            "--out",
            text(&file),
        ]);
        assert_eq!(ran.code, 0, "{}", ran.err);
        let next = ran
            .out
            .lines()
            .find(|line| line.starts_with("Next: "))
            .expect("a command")
            .to_owned();
        (next, fs::read_to_string(&file).expect("written"))
    };
    let (next, plan) = stock("ubuntu-24.04:aarch64", "gh200");
    let release = plan
        .split("linux-headers-")
        .nth(1)
        .and_then(|rest| rest.split('"').next())
        .expect("headers");
    let place = format!(
        "{}  # on a new installation of Ubuntu 24.04 on aarch64 with kernel {release}",
        text(&file)
    );
    assert!(next.ends_with(&place), "{next}");
    let here = run(&[
        "plan",
        "--gpu",
        "t4",
        "--profile",
        "toolkit",
        "--out",
        text(&folder.path().join("here.json")),
    ]);
    assert!(
        here.code != 0
            || here
                .out
                .contains("here.json  # on this host, with these GPUs\n"),
        "{}",
        here.out
    );
    if !is_root() {
        return;
    }
    // A tree is no running host, whatever else fits.
    stock("ubuntu-24.04", "10de:20b2");
    let tree = Tree::ubuntu_24_04();
    let ran = apply(&tree, &file);
    let stderr = ran.err.replace("\n       ", " ");
    assert!(
        ran.code == 5 && stderr.contains("made for a running host; this host is a tree (--root)"),
        "{stderr}"
    );
    assert!(
        stderr.contains("because: it was made for "),
        "everything that differs is named: {stderr}"
    );
}

#[test]
fn a_host_without_a_gpu_is_told_so_and_one_that_is_not_served_is_refused() {
    if !is_root() {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let bare = || Tree::ubuntu_24_04().gxx(13);
    let plan = planned(folder.path(), &bare(), &["--gpu", "10de:20b2"]);
    let ran = apply(&bare(), &plan);
    let note = "note: this host has no NVIDIA GPU; ";
    assert!(
        ran.err.contains(note) && ran.err.contains("in the cache"),
        "{}",
        ran.err
    );
    let served = apply(&bare().gpu("0000:65:00.0", "2330", None), &plan);
    assert!(
        !served.err.contains(note) && served.err.contains("in the cache"),
        "{}",
        served.err
    );
    let plan = planned(
        folder.path(),
        &bare(),
        &["--gpu", "10de:20b2", "--cuda", "13.0.2"],
    );
    let ran = apply(&bare().gpu("0000:65:00.0", "1db1", None), &plan);
    let stderr = ran.err.replace("\n       ", " ");
    assert!(
        ran.code == 5
            && stderr.contains("this host has Tesla V100")
            && stderr.contains("CUDA 13.0.2"),
        "{stderr}"
    );
}
