//! Hosts as small trees, made by the tests that look at them, and the program run on them as a user
//! runs it.
#![allow(dead_code)] // each test program uses its part

use serde_json::Value;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// The library that the installer in CUDA's runfiles loads.
const LIBXML2: &str = "usr/lib/libxml2.so.2";

/// A tree with as much of a host as gpusetup reads.
pub struct Tree(tempfile::TempDir);

impl Tree {
    /// A host of this os-release, with a kernel, its headers and an initramfs.
    pub fn new(release: &str, kernel: &str, gcc: u16) -> Self {
        let tree = Self(tempfile::tempdir().expect("a temporary directory"));
        tree.write("etc/os-release", release);
        tree.write(&format!("lib/modules/{kernel}/modules.builtin"), "");
        tree.write(&format!("usr/src/linux-headers-{kernel}/Makefile"), "");
        tree.write(&format!("usr/src/linux-headers-{kernel}/.config"), "");
        tree.link(
            &format!("lib/modules/{kernel}/build"),
            &format!("/usr/src/linux-headers-{kernel}"),
        );
        tree.write(
            &format!("boot/config-{kernel}"),
            &format!("CONFIG_CC_VERSION_TEXT=\"gcc-{gcc} (X) {gcc}.2.0\"\n"),
        );
        tree.write(&format!("boot/initrd.img-{kernel}"), "initramfs");
        tree.write(&format!("usr/bin/gcc-{gcc}"), "");
        tree.link("usr/bin/gcc", &format!("gcc-{gcc}"));
        tree.write(LIBXML2, "");
        fs::create_dir_all(tree.path().join("usr/local")).expect("made");
        fs::create_dir_all(tree.path().join("sys/bus/pci/devices")).expect("made");
        tree.arch(62)
    }

    pub fn ubuntu_24_04() -> Self {
        let release =
            "PRETTY_NAME=\"Ubuntu 24.04.3 LTS\"\nID=ubuntu\nID_LIKE=debian\nVERSION_ID=\"24.04\"\n";
        let tree = Self::new(release, "6.8.0-64-generic", 13);
        tree.write("usr/bin/apt-get", "");
        tree.write("usr/sbin/update-initramfs", "");
        let sources = "Types: deb\nURIs: http://archive/ubuntu/\nSuites: noble\nComponents: main restricted universe multiverse\n";
        tree.write("etc/apt/sources.list.d/ubuntu.sources", sources);
        tree
    }

    pub fn debian_12() -> Self {
        let release =
            "PRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\nID=debian\nVERSION_ID=\"12\"\n";
        let tree = Self::new(release, "6.1.0-25-amd64", 12);
        tree.write("usr/bin/apt-get", "");
        tree.write("usr/sbin/update-initramfs", "");
        tree.write(
            "etc/apt/sources.list",
            "deb http://archive/debian bookworm main non-free-firmware\n",
        );
        tree
    }

    pub fn rocky_9() -> Self {
        let release = "PRETTY_NAME=\"Rocky Linux 9.6\"\nID=\"rocky\"\nID_LIKE=\"rhel centos fedora\"\nVERSION_ID=\"9.6\"\n";
        let tree = Self::new(release, "5.14.0-570.el9.x86_64", 11);
        tree.write("usr/bin/dnf", "");
        tree.write("usr/bin/dracut", "");
        tree
    }

    /// A host without a compiler, headers and libxml2: of this os-release, with this package
    /// manager's program.
    pub fn fresh(release: &str, kernel: &str, program: &str) -> Self {
        let tree = Self::new(release, kernel, 13);
        for file in [
            format!("lib/modules/{kernel}/build"),
            "usr/bin/gcc".to_owned(),
            LIBXML2.to_owned(),
        ] {
            fs::remove_file(tree.path().join(file)).expect("a file");
        }
        tree.write(program, "");
        tree.write("usr/bin/dracut", "");
        tree
    }

    pub fn azure_linux_3() -> Self {
        let release =
            "PRETTY_NAME=\"Microsoft Azure Linux 3.0\"\nID=azurelinux\nVERSION_ID=\"3.0\"\n";
        Self::fresh(release, "6.6.134.1-2.azl3", "usr/bin/tdnf")
    }

    /// Debian's unstable, whose os-release has no VERSION_ID, with glibc 2.43 and this gcc as the
    /// default.
    pub fn debian_sid(gcc: u16) -> Self {
        let release =
            "PRETTY_NAME=\"Debian GNU/Linux forky/sid\"\nID=debian\nVERSION_CODENAME=forky\n";
        let tree = Self::new(release, "7.2.13+deb14-amd64", gcc);
        fs::remove_file(tree.path().join(LIBXML2)).expect("a file");
        tree.write("usr/bin/apt-get", "");
        tree.write("usr/sbin/update-initramfs", "");
        tree.write(
            "etc/apt/sources.list",
            "deb http://archive/debian sid main contrib non-free\n",
        );
        tree.glibc("2.43-7")
    }

    /// With a C library, by its package's version.
    pub fn glibc(self, version: &str) -> Self {
        let package = format!("Package: libc6\nStatus: install ok installed\nVersion: {version}\n");
        self.write("var/lib/dpkg/status", &package);
        self
    }

    /// With g++ of a gcc, which becomes the default one where that gcc is.
    pub fn gxx(self, major: u16) -> Self {
        self.write(&format!("usr/bin/gcc-{major}"), "");
        self.write(&format!("usr/bin/g++-{major}"), "");
        self.write(
            &format!("usr/libexec/gcc/x86_64-linux-gnu/{major}/cc1plus"),
            "",
        );
        self.write(&format!("usr/include/c++/{major}/cmath"), "");
        if fs::read_link(self.path().join("usr/bin/gcc"))
            .is_ok_and(|to| to.ends_with(format!("gcc-{major}")))
        {
            self.link("usr/bin/g++", &format!("g++-{major}"));
        }
        self
    }

    /// With programs for another machine: 62 is x86_64, 183 aarch64, 21 ppc64le.
    pub fn arch(self, machine: u8) -> Self {
        let mut header = b"\x7fELF\x02\x01\x01".to_vec();
        header.resize(18, 0);
        header.extend([machine, 0]);
        self.write_bytes("bin/sh", &header);
        self
    }

    /// With a GPU, by device id.
    pub fn gpu(self, address: &str, device: &str, driver: Option<&str>) -> Self {
        let folder = format!("sys/bus/pci/devices/{address}");
        for (name, value) in [
            ("vendor", "0x10de"),
            ("device", &format!("0x{device}")),
            ("class", "0x030200"),
        ] {
            self.write(&format!("{folder}/{name}"), &format!("{value}\n"));
        }
        if let Some(driver) = driver {
            self.link(
                &format!("{folder}/driver"),
                &format!("../../../../bus/pci/drivers/{driver}"),
            );
        }
        self
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// Commands for this tree, as they would be typed on a machine with its files.
    pub fn typed_in_it(&self, text: &str) -> String {
        let path = self.path().display();
        text.replace(&format!(" --root {path}"), "")
            .replace(&format!("chroot {path} "), "")
            .replace(&path.to_string(), "")
    }

    pub fn write(&self, path: &str, text: &str) {
        self.write_bytes(path, text.as_bytes());
    }

    fn write_bytes(&self, path: &str, bytes: &[u8]) {
        let path = self.path().join(path);
        fs::create_dir_all(path.parent().expect("below the tree")).expect("made");
        fs::write(path, bytes).expect("written");
    }

    pub fn link(&self, path: &str, target: &str) {
        let path = self.path().join(path);
        fs::create_dir_all(path.parent().expect("below the tree")).expect("made");
        symlink(target, path).expect("linked");
    }

    /// Runs gpusetup with `--root` of this tree.
    pub fn run(&self, arguments: &[&str]) -> Ran {
        let root = self.path().display().to_string();
        let all: Vec<&str> = arguments.iter().copied().chain(["--root", &root]).collect();
        run(&all)
    }
}

/// What a run said, and its exit code.
pub struct Ran {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Ran {
    pub fn of(output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("gpusetup writes UTF-8");
        Self {
            code: output.status.code().expect("no signal"),
            out: text(output.stdout),
            err: text(output.stderr),
        }
    }

    /// What a run with this exit code refused: the error with its reasons and what it suggests,
    /// without the notes before it.
    pub fn refusal(&self, code: i32) -> &str {
        assert_eq!(self.code, code, "{}{}", self.out, self.err);
        let error = self.err.find("error: ");
        &self.err[error.unwrap_or_else(|| panic!("no refusal: {}", self.err))..]
    }

    /// The first line of it.
    pub fn refused(&self, code: i32) -> &str {
        self.refusal(code).lines().next().expect("a line")
    }

    /// The JSON on standard output, of a run that succeeded.
    pub fn json(&self) -> Value {
        assert_eq!(self.code, 0, "{}", self.err);
        serde_json::from_str(&self.out).expect("one JSON object and nothing else")
    }
}

pub fn program() -> Command {
    let mut command = Command::new(PathBuf::from(env!("CARGO_BIN_EXE_gpusetup")));
    // What the machine has set must not reach the tests.
    command
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .stdin(Stdio::null());
    // Branches end their lives while these tests do not.
    command.env("GPUSETUP_TODAY", "2026-11-20");
    command
}

/// The same as root: whoever is not root is so among themselves.
pub fn program_as_root() -> Command {
    let program = program();
    if is_root() {
        return program;
    }
    let mut command = Command::new("unshare");
    command
        .args(["--user", "--map-root-user"])
        .arg(program.get_program())
        .env_clear();
    command.envs(
        program
            .get_envs()
            .filter_map(|(name, value)| Some((name, value?))),
    );
    command.stdin(Stdio::null());
    command
}

/// Only root changes a tree; `tests/run` runs the tests of that as root.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

pub fn run(arguments: &[&str]) -> Ran {
    Ran::of(program().args(arguments).output().expect("gpusetup runs"))
}

pub fn run_with_input(arguments: &[&str], input: &str) -> Ran {
    use std::io::Write;
    let mut child = program()
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("gpusetup runs");
    // One that refuses its arguments reads nothing.
    let _ = child
        .stdin
        .take()
        .expect("piped")
        .write_all(input.as_bytes());
    Ran::of(child.wait_with_output().expect("it ends"))
}

/// The texts of a plan's warnings, of one check.
pub fn warnings(plan: &Value, check: &str) -> Vec<String> {
    let all = plan["warnings"].as_array().expect("a list").iter();
    all.filter(|w| w["check"] == check)
        .filter_map(|w| w["text"].as_str())
        .map(str::to_owned)
        .collect()
}

/// The text at this JSON pointer.
pub fn text<'a>(json: &'a Value, path: &str) -> &'a str {
    json.pointer(path)
        .and_then(Value::as_str)
        .unwrap_or_else(|| panic!("{path} is no text in {json:#}"))
}

/// How many of something a test tries: `few` in a sample, as `tests/run` without `--all` takes it.
pub fn sampled(few: usize, many: usize) -> usize {
    match std::env::var("GPUSETUP_TESTS") {
        Ok(which) if which == "sample" => few,
        _ => many,
    }
}
