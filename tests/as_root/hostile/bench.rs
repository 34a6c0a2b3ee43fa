//! Where the attacks run: a tmpfs, with the attacked program and the hosts it works on.

use super::model::Model;
use super::placement::Scenario;
use super::plans;
use crate::common::Tree;
use sha2::{Digest, Sha256};
use std::fs::{self, File};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// The attacking user.
pub const NOBODY: u32 = 65534;

/// A command that takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(30);

/// The file that an attacker's plan writes.
pub const EVIL: &str = "/etc/modprobe.d/evil.conf";

/// A tmpfs with everything that the attacks share.
pub struct Bench {
    folder: tempfile::TempDir,
    /// The untouched host in `tree/`, and plans and bundles for it in `in/`.
    pub host: Model,
}

/// How a command ended, and its output.
pub struct Ran {
    status: Option<ExitStatus>,
    /// Standard output and standard error.
    pub output: String,
}

impl Ran {
    /// A failure that no attacker may cause.
    pub fn trouble(&self) -> Option<&'static str> {
        match self.status {
            None => Some("hung"),
            Some(status) if status.signal().is_some() => Some("died"),
            Some(status) if status.code() == Some(101) || self.output.contains("panicked at") => {
                Some("panicked")
            }
            Some(_) => None,
        }
    }

    /// From an exit status (none: it was killed after the time limit) and its output.
    pub fn new(status: Option<ExitStatus>, output: Vec<u8>) -> Self {
        Self {
            status,
            output: String::from_utf8_lossy(&output).into_owned(),
        }
    }

    /// The exit code, unless a signal ended it.
    pub fn code(&self) -> Option<i32> {
        self.status.and_then(|status| status.code())
    }
}

/// SHA-256 in hexadecimal.
pub fn sum(bytes: &[u8]) -> String {
    Sha256::digest(bytes)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// The program to attack.
fn attacked() -> PathBuf {
    std::env::var_os("GPUSETUP_BINARY")
        .map_or_else(|| env!("CARGO_BIN_EXE_gpusetup").into(), PathBuf::from)
}

fn tool(program: &str, arguments: &[&str]) {
    let done = Command::new(program)
        .args(arguments)
        .output()
        .unwrap_or_else(|e| panic!("{program}: {e}"));
    assert!(
        done.status.success(),
        "{program} {arguments:?}: {}",
        String::from_utf8_lossy(&done.stderr)
    );
}

fn text(path: &Path) -> &str {
    path.to_str().expect("paths of the tests are UTF-8")
}

/// Makes the attacking user the owner.
pub fn give(path: &Path) {
    chown(path, Some(NOBODY), Some(NOBODY)).expect("root gives");
}

impl Drop for Bench {
    fn drop(&mut self) {
        let _ = Command::new("umount")
            .args(["--lazy", text(self.folder.path())])
            .status();
    }
}

impl Bench {
    /// Mounts the tmpfs and prepares programs, downloads, the host and its plans.
    pub fn new() -> Self {
        rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
        let folder = tempfile::Builder::new()
            .prefix("hostile-")
            .tempdir()
            .expect("a temporary folder");
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("ours");
        // strictatime: every read of a file outside the tree must be visible.
        tool(
            "mount",
            &[
                "-t",
                "tmpfs",
                "-o",
                "size=3g,mode=755,strictatime",
                "hostile",
                text(folder.path()),
            ],
        );
        let mut bench = Self {
            folder,
            host: Model::default(),
        };
        // Without debug information it starts faster, and copies of it take less space.
        tool(
            "strip",
            &["-o", text(&bench.path("gpusetup")), text(&attacked())],
        );
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/as_root/hostile/program.c");
        tool(
            "cc",
            &[
                "-static",
                "-Os",
                "-s",
                "-o",
                text(&bench.path("program")),
                text(&source),
            ],
        );
        fs::create_dir(bench.path("pub")).expect("made");
        fs::copy(bench.path("program"), bench.path("pub/program.run")).expect("copied");
        bench.archive("archive.tar.xz", "library");
        bench.archive("evil.tar.xz", "evil");
        bench.host = bench.tree();
        bench.host = bench.with_plans();
        bench
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn archive(&self, name: &str, library: &str) {
        let folder = tempfile::tempdir().expect("a temporary folder");
        for (path, content) in [("lib/libx.so.1.2", library), ("include/x.h", "header")] {
            let path = folder.path().join("x").join(path);
            fs::create_dir_all(path.parent().expect("in a folder")).expect("made");
            fs::write(path, content).expect("written");
        }
        tool(
            "tar",
            &[
                "-cJf",
                text(&self.path("pub").join(name)),
                "-C",
                text(folder.path()),
                "x",
            ],
        );
    }

    /// Ubuntu with an A100, a driver and a toolkit. All its programs are program.c.
    fn tree(&self) -> Model {
        const KERNEL: &str = "6.8.0-64-generic";
        let tree = Tree::ubuntu_24_04().gpu("0000:17:00.0", "20b2", None);
        fs::remove_file(tree.path().join("bin/sh")).expect("there");
        fs::remove_file(tree.path().join("usr/bin/apt-get")).expect("there");
        for name in [
            "bin/sh",
            "sbin/ldconfig",
            "usr/bin/apt-get",
            "usr/bin/apt-cache",
            "usr/bin/dpkg-query",
        ] {
            tree.link(name, "/usr/bin/program");
        }
        let files = [
            ("etc/default/grub", "GRUB_CMDLINE_LINUX=\"\"\n"),
            ("etc/ld.so.cache", "cache"),
            ("etc/ld.so.conf", "include /etc/ld.so.conf.d/*.conf\n"),
            ("etc/ld.so.conf.d/other.conf", "/usr/local/lib\n"),
            ("etc/modprobe.d/other.conf", "blacklist pcspkr\n"),
            ("etc/apt/sources.list.d/old.sources", "Types: deb\n"),
            (
                "etc/apt/sources.list.d/cuda.list",
                "deb [signed-by=/usr/share/keyrings/k.gpg] https://x/ /\n",
            ),
            ("usr/share/keyrings/k.gpg", "key"),
            (
                "var/lib/dpkg/status",
                "Package: base-files\nStatus: install ok installed\nVersion: 13\n",
            ),
            ("var/lib/dpkg/info/base-files.list", "/.\n/etc\n"),
            (
                "var/lib/apt/lists/archive_ubuntu_dists_noble_main_binary-amd64_Packages",
                "Package: gcc\nVersion: 13\n",
            ),
            (
                "proc/sys/kernel/random/boot_id",
                "11111111-1111-1111-1111-111111111111\n",
            ),
            ("proc/sys/kernel/osrelease", "6.8.0-64-generic\n"),
            ("proc/cpuinfo", "processor : 0\n"),
            ("proc/modules", "nvidia 1 0 - Live 0x0\n"),
            ("proc/mounts", "/dev/sda / ext4 rw 0 0\n"),
            (
                "usr/local/cuda-12.4/version.json",
                "{\"cuda\": {\"version\": \"12.4.1\"}}\n",
            ),
            ("usr/local/cuda-12.4/bin/nvcc", "x"),
            ("usr/local/cuda-12.4/lib64/libcudart.so.12.4.127", "x"),
            ("usr/lib/x86_64-linux-gnu/libcuda.so.550.54.15", "x"),
            ("usr/lib/x86_64-linux-gnu/libcudnn.so.9.1.0", "x"),
            ("var/log/dpkg.log", "nothing\n"),
            ("run/utmp", ""),
        ];
        files
            .iter()
            .for_each(|(path, content)| tree.write(path, content));
        tree.link(
            "usr/lib/x86_64-linux-gnu/libcuda.so.1",
            "libcuda.so.550.54.15",
        );
        tree.write(&format!("lib/modules/{KERNEL}/updates/dkms/nvidia.ko"), "x");
        let program = tree.path().join("usr/bin/program");
        fs::copy(self.path("program"), &program).expect("copied");
        let area = self.path("tree");
        Model::read(tree.path()).make(&area.join("tree"));
        let model = Model::read(&area);
        fs::remove_dir_all(&area).expect("removed");
        model
    }

    /// A plan that gpusetup prints for the host.
    pub fn printed(&self) -> String {
        let area = self.path("planned");
        self.host.make(&area);
        let ran = self.run(
            &area,
            &[
                "plan", "--root", "{}/tree", "--driver", "none", "--cuda", "12.4", "--json",
            ],
        );
        fs::remove_dir_all(&area).expect("removed");
        let object = ran.output.find('{').and_then(|at| {
            ran.output[at..]
                .rfind('}')
                .map(|end| &ran.output[at..=at + end])
        });
        object
            .unwrap_or_else(|| panic!("no plan: {}", ran.output))
            .to_owned()
    }

    /// Adds plans and bundles to the host.
    fn with_plans(&self) -> Model {
        use plans::{cached, download, link, remove, run, unpack, write_file};
        let printed = self.printed();
        let (archive, program) = (
            self.path("pub/archive.tar.xz"),
            self.path("pub/program.run"),
        );
        let installer = cached(&program);
        let verified = format!(
            r#""verified":[{{"path":"{installer}","sha256":"{}"}}],"#,
            sum(&fs::read(&program).expect("made"))
        );
        let files = || {
            vec![
                download(&archive),
                download(&program),
                write_file("/etc/modprobe.d/good.conf", "blacklist nouveau"),
                unpack(
                    &archive,
                    &[
                        ("lib", "/usr/local/x-1.0/lib64"),
                        ("include", "/usr/local/x-1.0/include"),
                    ],
                ),
                link("/usr/local/x", "x-1.0"),
                remove("/etc/apt/sources.list.d/old.sources"),
                write_file("/etc/ld.so.conf.d/x.conf", "/usr/local/x/lib64"),
            ]
        };
        let programs = || {
            vec![
                run(
                    &[
                        "/usr/bin/program",
                        "make",
                        "/usr/local/by-installer",
                        &installer,
                    ],
                    &(verified.clone() + r#""creates":["/usr/local/by-installer"],"#),
                ),
                run(
                    &["/usr/bin/program", "make", "/usr/local/made"],
                    r#""creates":["/usr/local/made"],"changes":["/etc/ld.so.cache"],"#,
                ),
            ]
        };
        let fails = || vec![run(&["/usr/bin/program", "fail"], "")];
        let reboot = || vec![r#"{"op":"reboot"}"#.to_owned()];
        let whole = plans::with_steps(
            &printed,
            &[("fix-symlinks", files()), ("repair", programs())],
        );
        let booted = plans::with_steps(
            &printed,
            &[
                ("fix-symlinks", files()),
                ("reboot", reboot()),
                ("repair", programs()),
            ],
        );
        let failing =
            plans::with_steps(&printed, &[("fix-symlinks", files()), ("repair", fails())]);
        let evil = plans::with_steps(
            &printed,
            &[("repair", vec![write_file(EVIL, "install x /bin/evil")])],
        );
        let good = plans::with_steps(
            &printed,
            &[(
                "repair",
                vec![write_file("/etc/modprobe.d/good.conf", "options x")],
            )],
        );
        self.host
            .clone()
            .with("in/plan.json", &whole)
            .with("in/reboot.json", booted)
            .with("in/fail.json", failing)
            .with("in/evil.json", &evil)
            .with("in/good.json", &good)
            .with("in/good.tar.zst", plans::bundle_archive(&good))
            .with("in/evil.tar.zst", plans::bundle_archive(&evil))
            .with("in/bundle.tar.zst", plans::bundle_archive(&whole))
            .and(
                |area| plans::bundle_folder(&whole, &area.join("in/bundle")),
                self,
            )
    }

    /// `db update` when an older database is already installed.
    pub fn update(&self) -> Scenario {
        const UPDATE: [&str; 8] = [
            "db",
            "update",
            "--key",
            "{}/in/key.pub",
            "--from",
            "{}/in/db.tar.xz",
            "--database-store",
            "{}/store",
        ];
        let area = self.path("update");
        fs::create_dir_all(area.join("facts")).expect("made");
        for folder in ["compat", "manifests"] {
            let from = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
            tool("cp", &["-r", text(&from), text(&area.join("facts"))]);
        }
        let file = |name: &str| area.join(name).display().to_string();
        tool(
            "minisign",
            &["-G", "-W", "-p", &file("key.pub"), "-s", &file("key")],
        );
        let pack = |version: &str| {
            fs::write(
                area.join("facts/compat/version.yaml"),
                format!("version: \"{version}\"\n"),
            )
            .expect("written");
            let ran = self.run(&area, &["db", "pack", "{}/facts", "--out", "{}/db.tar.xz"]);
            assert_eq!(ran.code(), Some(0), "{}", ran.output);
            tool(
                "minisign",
                &["-S", "-m", &file("db.tar.xz"), "-s", &file("key")],
            );
            ["key.pub", "db.tar.xz", "db.tar.xz.minisig"]
                .into_iter()
                .fold(Model::default(), |all, name| {
                    all.with(
                        &format!("in/{name}"),
                        fs::read(area.join(name)).expect("made"),
                    )
                })
        };
        let (older, newer) = (self.after(&pack("2030.1.1"), &UPDATE, 0), pack("2030.2.1"));
        fs::remove_dir_all(&area).expect("removed");
        Scenario {
            name: "db update",
            host: older.under(newer),
            arguments: UPDATE.to_vec(),
        }
    }

    /// The host after a command, which must end with this exit code.
    pub fn after(&self, host: &Model, arguments: &[&str], code: i32) -> Model {
        let area = self.path("after");
        host.make(&area);
        let ran = self.run(&area, arguments);
        assert_eq!(ran.code(), Some(code), "{arguments:?}: {}", ran.output);
        let model = Model::read(&area);
        fs::remove_dir_all(&area).expect("removed");
        model
    }

    /// Runs gpusetup; `{}` in the arguments is replaced by `area`.
    pub fn run(&self, area: &Path, arguments: &[&str]) -> Ran {
        self.run_under(&[], area, arguments)
    }

    /// The same, started by another program.
    pub fn run_under(&self, starter: &[&str], area: &Path, arguments: &[&str]) -> Ran {
        let mut command = self.gpusetup_under(starter, area, arguments);
        let output = area.with_extension("said");
        let file = File::create(&output).expect("made");
        command
            .stdout(file.try_clone().expect("a file"))
            .stderr(file);
        let status = wait(&mut command.spawn().expect("it starts"), PATIENCE);
        Ran::new(status, fs::read(output).expect("made"))
    }

    /// A command with a clean environment.
    pub fn gpusetup(&self, area: &Path, arguments: &[&str]) -> Command {
        self.gpusetup_under(&[], area, arguments)
    }

    /// The same, started by another program.
    pub fn gpusetup_under(&self, starter: &[&str], area: &Path, arguments: &[&str]) -> Command {
        let gpusetup = self.path("gpusetup");
        let mut words = starter.iter().copied().chain([text(&gpusetup)]);
        let mut command = Command::new(words.next().expect("a program"));
        command
            .args(words)
            .args(arguments.iter().map(|a| a.replace("{}", text(area))));
        command
            .env_clear()
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .current_dir(area);
        command.stdin(Stdio::null()).process_group(0);
        command
    }
}

/// Waits for a child, and kills its process group after the time limit.
pub fn wait(child: &mut Child, limit: Duration) -> Option<ExitStatus> {
    let began = Instant::now();
    loop {
        if let Some(status) = child.try_wait().expect("a child") {
            return Some(status);
        }
        if began.elapsed() > limit {
            let group = rustix::process::Pid::from_child(child);
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
            let _ = child.wait();
            return None;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

impl Model {
    /// Adds what a function creates on disk.
    fn and(self, make: impl FnOnce(&Path), bench: &Bench) -> Self {
        let area = bench.path("added");
        self.make(&area);
        make(&area);
        let model = Self::read(&area);
        fs::remove_dir_all(&area).expect("removed");
        model
    }
}
