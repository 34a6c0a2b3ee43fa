//! The real host of the tests: a clone of a Debian root, what it is installed from, and ways to ask
//! it something. It must not know what gpusetup does, so that what it answers is the host's own
//! word.

#![allow(dead_code)] // each test program uses its part

pub mod tree;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Instant;

/// What may differ between two clones that are alike: gpusetup's own records, logs and caches, the
/// package manager's lists and backups, and what tells one clone from another.
pub const RECORDS: &[&str] = &[
    "proc",
    "dev",
    "sys",
    "run",
    "etc/resolv.conf",
    "etc/apt/apt.conf.d/99archive",
    "var/lib/gpusetup",
    "var/log",
    "var/cache",
    "var/lib/apt",
    "var/lib/dpkg/status-old",
];

/// What all hosts share, made once.
pub struct Bench {
    /// The root that hosts are clones of.
    pub base: PathBuf,
    /// The downloads.
    pub artifacts: PathBuf,
    /// A database that says that they are on our server.
    pub database: PathBuf,
    server: Server,
}

/// The bench; the first call may take minutes.
pub fn bench() -> &'static Bench {
    static BENCH: OnceLock<Bench> = OnceLock::new();
    BENCH.get_or_init(|| {
        let base = timed("base root", || PathBuf::from(script("base", &[])));
        let artifacts = timed("artifacts", || PathBuf::from(script("artifacts", &[])));
        let server = Server::of(&artifacts);
        // Several programs of tests run at once, and each has a server.
        let database = store()
            .join("databases")
            .join(std::process::id().to_string());
        remove(&database);
        script(
            "database",
            &[text(&artifacts), &server.url, text(&database)],
        );
        Bench {
            base,
            artifacts,
            database,
            server,
        }
    })
}

/// Files of a directory on loopback, until it is dropped.
pub struct Server {
    /// The address.
    pub url: String,
    requests: Arc<Mutex<Vec<String>>>,
    // It ends with its standard input, so with this process however that ends.
    _process: (Child, ChildStdin),
}

impl Server {
    /// Requests since the last call, `/file 200`.
    pub fn requests(&self) -> Vec<String> {
        std::mem::take(&mut *self.requests.lock().expect("no panic beside"))
    }

    /// Serves a directory.
    pub fn of(directory: &Path) -> Self {
        let mut server = Command::new(script_path("serve"))
            .arg(directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the server starts");
        let mut lines = BufReader::new(server.stdout.take().expect("piped"))
            .lines()
            .map_while(Result::ok);
        let url = lines.next().expect("the server says its address");
        let requests = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&requests);
        std::thread::spawn(move || {
            lines.for_each(|line| log.lock().expect("no panic beside").push(line))
        });
        let input = server.stdin.take().expect("piped");
        Self {
            url,
            requests,
            _process: (server, input),
        }
    }
}

impl Bench {
    /// See [`Server::requests`].
    pub fn requests(&self) -> Vec<String> {
        self.server.requests()
    }

    /// The size of a download in bytes.
    pub fn size(&self, artifact: &str) -> u64 {
        self.artifacts
            .join(artifact)
            .metadata()
            .expect("the artifact is there")
            .len()
    }
}

/// A clone of the base root, or of another host. It is taken away in the end, but kept when a test
/// fails.
pub struct Host {
    dir: PathBuf,
}

impl Host {
    /// A fresh host: an A100 under nouveau, and nothing of NVIDIA's.
    pub fn new(name: &str) -> Self {
        Self::of(name, &bench().base)
    }

    /// Another host in this one's state. This one must not change while the other is there.
    pub fn clone_as(&self, name: &str) -> Self {
        Self::of(name, &self.root())
    }

    /// A host of another root than the bench's.
    pub fn of(name: &str, root: &Path) -> Self {
        let dir = clones().join(name);
        script("drop", &[text(&dir)]);
        script("clone", &[text(&dir), text(root)]);
        Self { dir }
    }

    /// Its root directory.
    pub fn root(&self) -> PathBuf {
        self.dir.join("root")
    }

    /// A path of its own, as seen from outside.
    pub fn path(&self, path: &str) -> PathBuf {
        self.root().join(path.trim_start_matches('/'))
    }

    /// Runs gpusetup from outside, told of this root and the bench's database.
    pub fn gpusetup(&self, arguments: &[&str]) -> Ran {
        let (verb, rest) = arguments.split_first().expect("a verb");
        let root = self.root();
        gpusetup(
            [
                *verb,
                "--root",
                text(&root),
                "--database",
                text(&bench().database),
            ]
            .into_iter()
            .chain(rest.iter().copied()),
        )
    }

    /// The same, with the database that gpusetup carries: reading another takes longer than all
    /// else.
    pub fn gpusetup_plain(&self, arguments: &[&str]) -> Ran {
        let (verb, rest) = arguments.split_first().expect("a verb");
        gpusetup(
            [*verb, "--root", text(&self.root())]
                .into_iter()
                .chain(rest.iter().copied()),
        )
    }

    /// Runs gpusetup inside, where this is the live host.
    pub fn gpusetup_inside(&self, arguments: &[&str]) -> Ran {
        let program = self.path("/run/gpusetup-inside");
        if !program.exists() {
            std::fs::write(&program, "").expect("the host takes a file");
            machine(
                "mount",
                &["--bind", env!("CARGO_BIN_EXE_gpusetup"), text(&program)],
            )
            .succeeds();
        }
        machine(
            "chroot",
            &[&[text(&self.root()), "/run/gpusetup-inside"], arguments].concat(),
        )
    }

    /// The same again, cut off as by SIGKILL at this touch of the world; whether it was, or came to
    /// its end before.
    pub fn gpusetup_dies(&self, at: usize, arguments: &[&str]) -> bool {
        let (verb, rest) = arguments.split_first().expect("a verb");
        let mut command = Command::new(env!("CARGO_BIN_EXE_gpusetup"));
        command
            .args([verb, "--root", text(&self.root())])
            .args(rest);
        let ran = Ran::with(&mut command, &[("GPUSETUP_DIE_AT", &at.to_string())]);
        // A signal leaves no exit code.
        match ran.code {
            None => true,
            Some(_) => {
                ran.succeeds();
                false
            }
        }
    }

    /// Starts gpusetup, with the database that it carries, and does not wait for it.
    pub fn gpusetup_starts(&self, arguments: &[&str]) -> Child {
        self.gpusetup_starts_with(arguments, &[])
    }

    /// The same, with these variables in its environment.
    pub fn gpusetup_starts_with(&self, arguments: &[&str], environment: &[(&str, &str)]) -> Child {
        let (verb, rest) = arguments.split_first().expect("a verb");
        let mut command = Command::new(env!("CARGO_BIN_EXE_gpusetup"));
        command
            .args([verb, "--root", text(&self.root())])
            .args(rest);
        clean(&mut command, environment)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("gpusetup starts")
    }

    /// Runs gpusetup under another program.
    pub fn gpusetup_under(&self, other: &[&str], arguments: &[&str]) -> Ran {
        let (verb, rest) = arguments.split_first().expect("a verb");
        let mut command = Command::new(other[0]);
        command
            .args(&other[1..])
            .args([
                env!("CARGO_BIN_EXE_gpusetup"),
                verb,
                "--root",
                text(&self.root()),
            ])
            .args(rest);
        Ran::by(&mut command)
    }

    /// Whether a process runs in it, or for it.
    pub fn is_at_work(&self) -> bool {
        let root = self.root();
        let concerns = |process: PathBuf| {
            let words = std::fs::read(process.join("cmdline")).unwrap_or_default();
            // chroot, and what has yet to become it, only names the root.
            std::fs::read_link(process.join("root")).is_ok_and(|r| r == root)
                || words
                    .split(|b| *b == 0)
                    .any(|word| word == root.as_os_str().as_encoded_bytes())
        };
        std::fs::read_dir("/proc")
            .expect("Linux has it")
            .flatten()
            .any(|process| concerns(process.path()))
    }

    /// Runs a shell script in it, with nothing in the environment that a fresh login would not
    /// have, but for `KERNEL`.
    pub fn sh(&self, script: &str) -> Ran {
        let mut command = Command::new("chroot");
        command.arg(self.root()).args(["/bin/sh", "-euc", script]);
        Ran::with(
            &mut command,
            &[("KERNEL", &self.newest_kernel().unwrap_or_default())],
        )
    }

    /// What a script says on standard output. It must succeed.
    pub fn ask(&self, script: &str) -> String {
        self.sh(script).succeeds().out.trim().to_owned()
    }

    /// The newest kernel that has an image.
    pub fn kernel(&self) -> String {
        self.newest_kernel().expect("a kernel is installed")
    }

    /// The same; none in a container. Headers have a folder in /lib/modules too, and may be those
    /// of a newer kernel.
    pub fn newest_kernel(&self) -> Option<String> {
        let numbers = |release: &String| {
            let parts = release.split(|c: char| !c.is_ascii_digit());
            parts
                .filter_map(|part| part.parse().ok())
                .collect::<Vec<u64>>()
        };
        let files = std::fs::read_dir(self.path("/boot")).ok()?.flatten();
        let names = files.filter_map(|file| file.file_name().into_string().ok());
        names
            .filter_map(|name| name.strip_prefix("vmlinuz-").map(str::to_owned))
            .max_by_key(numbers)
    }

    /// What a reboot would bring about: the driver that is installed now has the GPU.
    pub fn reboots(&self) {
        self.ask("cd /sys/bus/pci/devices/*/ && ln -sfn ../../../../bus/pci/drivers/nvidia driver");
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the host is kept: {}", self.dir.display());
        } else {
            script("drop", &[text(&self.dir)]);
        }
    }
}

/// Where the clones of this test go: tests run at once, and more than one has a host `again`. A
/// thread without a test's name is one that a test started, or the only one, and its hosts have
/// names that no other test of this program uses.
fn clones() -> PathBuf {
    let thread = std::thread::current();
    let test = thread
        .name()
        .filter(|name| *name != "main")
        .map(str::to_owned);
    let test = test.unwrap_or_else(|| std::process::id().to_string());
    // A colon would end the path of a layer.
    store()
        .join("clones")
        .join(test.rsplit("::").next().unwrap_or_default())
}

/// A host that takes long to make, kept between runs: it stays as it is, and its clones are used.
pub struct Kept {
    root: PathBuf,
}

impl Kept {
    /// The host of this name, which is made again when `key` changed.
    pub fn host(
        name: &str,
        key: &str,
        from: impl FnOnce() -> Host,
        make: impl FnOnce(&Host),
    ) -> Self {
        if std::fs::read_to_string(Self::key_file(name))
            .ok()
            .as_deref()
            == Some(key)
        {
            return Self {
                root: store().join("kept").join(name).join("root"),
            };
        }
        Self::made(name, key, from, make)
    }

    /// The same, always made again.
    pub fn made(
        name: &str,
        key: &str,
        from: impl FnOnce() -> Host,
        make: impl FnOnce(&Host),
    ) -> Self {
        let (dir, key_file) = (store().join("kept").join(name), Self::key_file(name));
        std::fs::create_dir_all(store().join("kept")).expect("made");
        let _ = std::fs::remove_file(&key_file);
        let host = from();
        make(&host);
        remove(&dir);
        script("drop", &[text(&host.dir), "kept"]);
        std::fs::rename(&host.dir, &dir).expect("one file system");
        std::mem::forget(host);
        std::fs::write(key_file, key).expect("written");
        Self {
            root: dir.join("root"),
        }
    }

    /// Where it is said what it was made of.
    fn key_file(name: &str) -> PathBuf {
        store().join("kept").join(format!("{name}.key"))
    }

    /// A host in its state.
    pub fn clone_as(&self, name: &str) -> Host {
        Host::of(name, &self.root)
    }
}

/// What a program said.
#[derive(Debug)]
pub struct Ran {
    /// Its exit code.
    pub code: Option<i32>,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
}

impl Ran {
    /// Runs a command with no input and a clean environment.
    pub fn by(command: &mut Command) -> Self {
        Self::with(command, &[])
    }

    fn with(command: &mut Command, environment: &[(&str, &str)]) -> Self {
        Self::of(
            clean(command, environment)
                .output()
                .expect("the program starts"),
        )
    }

    /// What a program said that came to its end.
    pub fn of(output: std::process::Output) -> Self {
        Self {
            code: output.status.code(),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Panics, with all that was said, unless the exit code is this one.
    pub fn exits(self, code: i32) -> Self {
        assert_eq!(
            self.code,
            Some(code),
            "standard output:\n{}\nstandard error:\n{}",
            self.out,
            self.err
        );
        self
    }

    /// Exit code 0.
    pub fn succeeds(self) -> Self {
        self.exits(0)
    }

    /// Standard output as JSON.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.out)
            .unwrap_or_else(|error| panic!("{error}: {}\n{}", self.out, self.err))
    }
}

/// Gives a command no input and nothing of our environment.
fn clean<'a>(command: &'a mut Command, environment: &[(&str, &str)]) -> &'a mut Command {
    command
        .env_clear()
        .envs(environment.iter().copied())
        .env(
            "PATH",
            "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        )
        .envs([
            ("HOME", "/root"),
            ("LANG", "C.UTF-8"),
            ("DEBIAN_FRONTEND", "noninteractive"),
        ])
        .stdin(Stdio::null())
}

/// Runs gpusetup as it is, under the umask of a hardened server: what it installs must be readable
/// all the same.
pub fn gpusetup<'a>(arguments: impl IntoIterator<Item = &'a str>) -> Ran {
    let hardened = [
        "-c",
        "umask 077 && exec \"$0\" \"$@\"",
        env!("CARGO_BIN_EXE_gpusetup"),
    ];
    Ran::by(Command::new("sh").args(hardened).args(arguments))
}

/// Runs a program of this machine.
pub fn machine(program: &str, arguments: &[&str]) -> Ran {
    Ran::by(Command::new(in_path(program)).args(arguments))
}

/// The file of a program: [`clean`] changes PATH, and tests/run lets only some programs be found.
fn in_path(program: &str) -> PathBuf {
    let path = std::env::var_os("PATH").expect("a PATH");
    let mut found = std::env::split_paths(&path).map(|folder| folder.join(program));
    found
        .find(|file| file.is_file())
        .unwrap_or_else(|| panic!("{program} is not in PATH"))
}

/// Does a part of a test and prints how long it took.
pub fn timed<T>(part: &str, work: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let result = work();
    println!("  {part}: {:.1} s", start.elapsed().as_secs_f64());
    result
}

/// Where everything of the tests is kept between runs.
pub fn store() -> PathBuf {
    // CARGO_TARGET_TMPDIR is target/tmp.
    Path::new(env!("CARGO_TARGET_TMPDIR"))
        .parent()
        .expect("it lies in the target directory")
        .join("host")
}

pub fn script_path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/host")
        .join(name)
}

/// Runs one of the scripts here, or beside here; its standard error passes through, its last line
/// is the answer.
pub fn script(name: &str, arguments: &[&str]) -> String {
    let target = store();
    let output = Command::new(script_path(name))
        .args(arguments)
        .env(
            "CARGO_TARGET_DIR",
            target.parent().expect("it lies in the target directory"),
        )
        .stderr(Stdio::inherit())
        .output()
        .expect("the script starts");
    assert!(output.status.success(), "tests/host/{name} failed");
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .last()
        .unwrap_or_default()
        .to_owned()
}

fn remove(directory: &Path) {
    if directory.exists() {
        std::fs::remove_dir_all(directory).expect("an old directory can be removed");
    }
}

/// A path as text: the tests make no other.
pub fn text(path: &Path) -> &str {
    path.to_str().expect("paths of the tests are UTF-8")
}
