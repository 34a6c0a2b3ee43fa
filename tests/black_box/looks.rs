//! What only looks at a tree, and every dry run, runs no program of the tree: each program that
//! gpusetup may start stands in it and notes that it ran.

use crate::common::{Ran, Tree, program_as_root};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

/// The folders in which programs are found.
const FOLDERS: [&str; 6] = [
    "usr/local/sbin",
    "usr/local/bin",
    "usr/sbin",
    "usr/bin",
    "sbin",
    "bin",
];

/// Every program that gpusetup starts on a host.
const PROGRAMS: [&str; 62] = [
    "apt-cache",
    "apt-get",
    "apt-key",
    "apt-mark",
    "bash",
    "cc",
    "chroot",
    "containerd",
    "createrepo_c",
    "crio",
    "curl",
    "depmod",
    "dkms",
    "dmesg",
    "dnf",
    "docker",
    "dockerd",
    "dpkg",
    "dpkg-query",
    "dracut",
    "env",
    "fuser",
    "g++",
    "gcc",
    "getent",
    "gpg",
    "grub-mkconfig",
    "grub2-mkconfig",
    "grubby",
    "journalctl",
    "kmod",
    "kubectl",
    "ldconfig",
    "lspci",
    "make",
    "mkinitramfs",
    "modinfo",
    "modprobe",
    "mokutil",
    "nerdctl",
    "nvidia-ctk",
    "nvidia-installer",
    "nvidia-smi",
    "nvidia-uninstall",
    "openssl",
    "podman",
    "python3",
    "rpm",
    "rpmkeys",
    "sh",
    "slurmd",
    "sudo",
    "systemctl",
    "tdnf",
    "uname",
    "update-alternatives",
    "update-grub",
    "update-initramfs",
    "useradd",
    "yum",
    "zypp-refresh",
    "zypper",
];

/// A program without libraries that creates `/RAN`.
fn planted() -> Vec<u8> {
    // open("/RAN", O_WRONLY | O_CREAT, 0666); exit(0). The path stands behind the code.
    let (machine, code): (u16, &[u8]) = match std::env::consts::ARCH {
        "x86_64" => (
            62,
            b"\x48\x8d\x3d\x1a\0\0\0\xbe\x41\0\0\0\xba\xb6\x01\0\0\xb8\x02\0\0\0\x0f\x05\x31\xff\xb8\x3c\0\0\0\x0f\x05/RAN\0",
        ),
        // The same by openat and AT_FDCWD.
        "aarch64" => (
            183,
            b"\x60\x0c\x80\x92\x01\x01\0\x10\x22\x08\x80\x52\xc3\x36\x80\x52\x08\x07\x80\xd2\x01\0\0\xd4\0\0\x80\xd2\xa8\x0b\x80\xd2\x01\0\0\xd4/RAN\0",
        ),
        other => panic!("there is no program for {other}"),
    };
    let (header, start) = (120_u64, 0x40_0000_u64);
    let mut elf = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x02\0".to_vec();
    elf.extend(machine.to_le_bytes());
    elf.extend(1_u32.to_le_bytes());
    elf.extend([start + header, 64, 0].iter().flat_map(|n| n.to_le_bytes()));
    elf.extend(0_u32.to_le_bytes());
    elf.extend(
        [64_u16, 56, 1, 64, 0, 0]
            .iter()
            .flat_map(|n| n.to_le_bytes()),
    );
    elf.extend([1_u32, 5].iter().flat_map(|n| n.to_le_bytes()));
    let size = header + code.len() as u64;
    elf.extend(
        [0, start, start, size, size, 0x1000]
            .iter()
            .flat_map(|n| n.to_le_bytes()),
    );
    elf.extend(code);
    elf
}

fn plant(tree: &Tree, programs: impl Fn(&str) -> bool) {
    let programs: Vec<_> = PROGRAMS.into_iter().filter(|name| programs(name)).collect();
    for path in FOLDERS
        .iter()
        .flat_map(|folder| programs.iter().map(move |name| format!("{folder}/{name}")))
    {
        let path = tree.path().join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        fs::write(&path, planted()).expect("written");
        fs::set_permissions(&path, Permissions::from_mode(0o755)).expect("set");
    }
    let nvcc = tree.path().join("usr/local/cuda-12.4/bin/nvcc");
    fs::create_dir_all(nvcc.parent().expect("a folder")).expect("made");
    fs::write(&nvcc, planted()).expect("written");
    fs::set_permissions(&nvcc, Permissions::from_mode(0o755)).expect("set");
}

/// A host with a driver, a toolkit and container engines, all of whose programs note that they run.
fn host() -> Tree {
    let tree = Tree::debian_12().gpu("0000:17:00.0", "20b2", None);
    plant(&tree, |_| true);
    let packages = [
        "nvidia-driver",
        "libcuda1",
        "nvidia-container-toolkit",
        "cuda-toolkit-12-4",
    ];
    let package =
        |name| format!("Package: {name}\nStatus: install ok installed\nVersion: 550.54.15-1\n\n");
    tree.write("var/lib/dpkg/status", &packages.map(package).concat());
    tree.write(
        "var/lib/dpkg/info/cuda-toolkit-12-4.list",
        "/usr/local/cuda-12.4\n/usr/local/cuda-12.4/version.json\n",
    );
    tree.write(
        "usr/local/cuda-12.4/version.json",
        "{\"cuda\": {\"version\": \"12.4.1\"}}",
    );
    tree.write("etc/docker/daemon.json", "{}");
    tree
}

fn run(tree: &Tree, arguments: &str) -> Ran {
    let mut command = program_as_root();
    Ran::of(
        command
            .args(arguments.split(' '))
            .arg("--root")
            .arg(tree.path())
            .output()
            .expect("gpusetup runs"),
    )
}

fn has_run(tree: &Tree) -> bool {
    tree.path().join("RAN").exists()
}

const LOOKS: [&str; 27] = [
    "facts",
    "facts --json",
    "list",
    "list --json",
    "plan",
    "plan --profile container-host",
    "plan --profile toolkit --cuda 12.4",
    "plan --json",
    "plan --exit-code",
    "plan --format sh",
    "plan --format cloud-init",
    "explain",
    "explain cuda 12.4",
    "doctor",
    "doctor -v",
    "doctor --json",
    "doctor --fix --dry-run",
    "status",
    "status --json",
    "reboot-required",
    "prune --dry-run",
    "use cuda 12.4 --dry-run",
    "uninstall --dry-run",
    "uninstall --all --dry-run",
    "uninstall --driver --dry-run --json",
    "uninstall --cuda 12.4 --dry-run",
    "uninstall --container-toolkit --dry-run",
];

#[test]
fn no_look_and_no_dry_run_runs_a_program_of_a_tree() {
    let tree = host();
    for look in LOOKS {
        let ran = run(&tree, look);
        assert!(
            !has_run(&tree),
            "{look}: a program of the tree ran\n{}",
            ran.err
        );
        // 1 is the answer of `reboot-required`.
        assert!(
            ran.code != 101 && (ran.code != 1 || look == "reboot-required"),
            "{look}: {}\n{}",
            ran.code,
            ran.err
        );
    }
    // The answer comes from dpkg's own record, and what is not in it is said to be unknown.
    let removal = run(&tree, "uninstall --driver --dry-run --json");
    assert_eq!(removal.code, 0, "{}", removal.err);
    let warnings = removal.json()["warnings"].to_string();
    assert!(
        removal.out.contains("libcuda1") && warnings.contains("is not known"),
        "{warnings}"
    );
    // What changes the tree runs them: the test would see it.
    let changed = run(&tree, "uninstall --driver --yes");
    assert!(has_run(&tree), "{}: {}", changed.code, changed.err);
}

#[test]
fn what_only_rpm_knows_is_said_to_be_unknown() {
    let tree = Tree::rocky_9().gpu("0000:17:00.0", "20b2", None);
    // Its package manager is the first that is found.
    plant(&tree, |name| !["apt-get", "zypper", "tdnf"].contains(&name));
    for what in ["--all", "--driver", "--container-toolkit"] {
        let ran = run(&tree, &format!("uninstall {what} --dry-run"));
        assert!(!has_run(&tree), "{what}");
        assert_eq!(ran.code, 5, "{what}: {}", ran.err);
        assert!(
            ran.err.contains("in a database that only rpm reads"),
            "{}",
            ran.err
        );
    }
}

#[test]
fn a_tree_whose_programs_cannot_be_contained_is_not_changed() {
    let tree = host();
    // Without the capability to make namespaces, as in most containers.
    let mut command = std::process::Command::new("setpriv");
    let inner = program_as_root();
    command.args(["--bounding-set", "-sys_admin", "--inh-caps", "-sys_admin"]);
    if inner.get_program() == "unshare" {
        // Whoever is not root is root among themselves first.
        command = std::process::Command::new("unshare");
        command.args([
            "--user",
            "--map-root-user",
            "setpriv",
            "--bounding-set",
            "-sys_admin",
            "--inh-caps",
            "-sys_admin",
        ]);
    }
    command
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .arg(env!("CARGO_BIN_EXE_gpusetup"));
    command
        .args(["uninstall", "--driver", "--yes", "--root"])
        .arg(tree.path());
    let ran = Ran::of(command.output().expect("setpriv runs"));
    assert!(!has_run(&tree));
    assert_eq!(ran.code, 5, "{}", ran.err);
    assert!(
        ran.err
            .contains("the namespaces that contain it cannot be made"),
        "{}",
        ran.err
    );
    assert!(ran.err.contains("gpusetup plan --root"), "{}", ran.err);
}
