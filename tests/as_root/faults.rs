//! What goes wrong while gpusetup is at work: disks, the network, packages, another gpusetup,
//! signals. Every run ends in its time with the exit code that the contract gives it, says so in
//! `result.json` where that can be written, and leaves nothing that `resume` or a second `apply`
//! does not finish, and `rollback` does not undo. `tests/run` runs this: it takes root, and
//! minutes.

use crate::faulty::{Fault, Faulty};
use crate::host::tree::differences;
use crate::host::{Host, RECORDS, Ran, machine, text, timed};
use crate::short;
use gpusetup::compat::AddOnId;
use gpusetup::operation::{Operation, Placement, Unpack, WriteFile};
use gpusetup::plan::{Step, StepId};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// What nobody should have to wait longer for, when nothing is to be waited for.
const SOON: u64 = 60;

/// A host with packages of our own, and what the plan makes of it.
struct Bench {
    name: &'static str,
    base: Host,
    done: Host,
    good: Served,
    rounds: AtomicUsize,
}

/// The plan, with a server of its own.
struct Served {
    server: Faulty,
    plan: PathBuf,
    _folder: tempfile::TempDir,
}

impl Served {
    fn apply(&self) -> [&str; 4] {
        ["apply", text(&self.plan), "--yes", "--accept-eula"]
    }
}

impl Bench {
    fn new(name: &'static str) -> Self {
        let base = Host::new(&format!("{name}-base"));
        // What the first one does when it is configured is what a test wants.
        let script = "[ ! -e /run/postinst ] || . /run/postinst";
        short::offer(
            &base,
            &[short::deb("short", script), short::deb("slow", SLOW)],
        );
        let good = served(&base, Fault::Nothing);
        let done = base.clone_as(&format!("{name}-done"));
        done.gpusetup_plain(&good.apply()).succeeds();
        Self {
            name,
            base,
            done,
            good,
            rounds: AtomicUsize::new(0),
        }
    }

    fn host(&self) -> Host {
        let n = self.rounds.fetch_add(1, Ordering::Relaxed);
        self.base.clone_as(&format!("{}-{n}", self.name))
    }

    /// What a fault left can be finished, or undone and done again.
    fn is_mended(&self, host: &Host, served: &Served, finish: bool) {
        if finish {
            let ran = host.gpusetup_plain(&["resume", "--yes"]).succeeds();
            if ran.out.starts_with("Nothing to resume") {
                // It never came to the first change.
                host.gpusetup_plain(&served.apply()).succeeds();
            }
            assert_eq!(
                differences(&self.done.root(), &host.root(), RECORDS),
                [""; 0],
                "finished"
            );
        }
        host.gpusetup_plain(&["rollback", "--yes"]).succeeds();
        self.is_untouched(host);
        if !finish {
            host.gpusetup_plain(&served.apply()).succeeds();
            assert_eq!(
                differences(&self.done.root(), &host.root(), RECORDS),
                [""; 0],
                "applied again"
            );
        }
    }

    fn is_untouched(&self, host: &Host) {
        assert_eq!(
            differences(&self.base.root(), &host.root(), RECORDS),
            [""; 0],
            "{}",
            host.root().display()
        );
    }
}

/// The script of a package that is installed for as long as the test wants.
const SLOW: &str = "touch /run/middle; while [ -e /run/slow ]; do sleep 0.1; done";

/// A run must end in its time with one of these codes.
fn ends(running: Child, codes: &[i32], limit: u64) -> Ran {
    let began = Instant::now();
    let ran = Ran::of(running.wait_with_output().expect("it ends"));
    let took = began.elapsed().as_secs();
    assert!(
        codes.iter().any(|c| ran.code == Some(*c)),
        "{codes:?}: {ran:?}"
    );
    assert!(took <= limit, "it took {took} s of {limit}: {}", ran.err);
    ran
}

/// The same, and the result tells so.
fn ends_and_tells(host: &Host, running: Child, code: i32, limit: u64) -> Ran {
    let ran = ends(running, &[code], limit);
    let result = host.gpusetup_plain(&["status", "--json"]).succeeds().json();
    let state = if code > 128 { "interrupted" } else { "failed" };
    assert_eq!(
        (&result["exit_code"], &result["state"]),
        (&Value::from(code), &Value::from(state)),
        "{}",
        ran.err
    );
    ran
}

/// An archive that is large enough to fill a small disk, and to be seen while it is unpacked; made
/// once.
fn archive() -> &'static Path {
    static ARCHIVE: OnceLock<PathBuf> = OnceLock::new();
    ARCHIVE.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("faults");
        fs::create_dir_all(folder.join("x/lib")).expect("made");
        fs::write(folder.join("x/lib/noise"), noise(4 << 20)).expect("written");
        fs::write(folder.join("x/lib/zeroes"), vec![0; 8 << 20]).expect("written");
        short::archive(&folder)
    })
}

fn served(host: &Host, fault: Fault) -> Served {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let server = Faulty::of(archive(), fault);
    let plan = short::saved(
        folder.path(),
        &short::plan(host, steps(&server.url, archive())),
    );
    Served {
        server,
        plan,
        _folder: folder,
    }
}

/// A package, a program that can be made to wait, what needs room, and what comes behind it.
fn steps(url: &str, archive: &Path) -> Vec<Step> {
    let unpack = Operation::Unpack(Unpack {
        archive: short::cached(archive),
        sha256: short::sum(archive),
        into: vec![Placement {
            from: "lib".into(),
            to: "/usr/local/cuda-9.9/lib".into(),
        }],
        limit: None,
    });
    let file = |path: &str, content: &str| {
        Operation::WriteFile(WriteFile {
            path: path.into(),
            content: content.into(),
            mode: 0o644,
            merged_from: None,
        })
    };
    let copy = ["/bin/cp", "-a", "/usr/share/doc/tar", "/usr/local/cuda-9.9"];
    vec![
        short::step(
            StepId::Environment,
            vec![file("/etc/profile.d/first.sh", "first\n")],
        ),
        short::step(StepId::Prerequisites, vec![short::packages(&["short"])]),
        short::step(StepId::InstallDriver, vec![waits("gate")]),
        short::step(
            StepId::InstallCuda,
            vec![
                short::download(url, archive),
                short::run(&copy, &["/usr/local/cuda-9.9"], &[]),
            ],
        ),
        short::step(
            StepId::InstallAddOn(AddOnId::CUDNN),
            vec![unpack, waits("behind")],
        ),
        short::step(StepId::Ldconfig, vec![file("/etc/issue", "ours\n")]),
    ]
}

/// A program that waits where a gate stands, until that is gone: time to let something go wrong.
fn waits(gate: &str) -> Operation {
    let script = format!(
        "[ ! -e /run/{gate} ] || {{ touch /run/middle; while [ -e /run/{gate} ]; do sleep 0.1; done; }}"
    );
    short::run(&["/bin/sh", "-c", &script], &[], &[])
}

/// Bytes that cannot be packed.
fn noise(length: usize) -> Vec<u8> {
    let mut state = 1_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[3]
    };
    (0..length).map(|_| next()).collect()
}

/// Waits for something that another process brings about.
fn until(what: &str, so: impl Fn() -> bool) {
    let began = Instant::now();
    while !so() {
        assert!(
            began.elapsed() < Duration::from_secs(120),
            "{what} did not come about"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Starts an apply, and waits until its program waits for the gate to go.
fn starts_to_the_middle(host: &Host, arguments: &[&str]) -> Child {
    fs::write(host.path("/run/gate"), "").expect("written");
    let running = host.gpusetup_starts(arguments);
    until("the middle", || host.path("/run/middle").exists());
    running
}

fn opens_the_gate(host: &Host) {
    fs::remove_file(host.path("/run/gate")).expect("it stood");
}

/// A file system of its own in a folder's place, with what was in it.
fn small(host: &Host, folder: &str, size: &str) {
    let (at, elsewhere) = (host.path(folder), host.path("/mnt"));
    fs::create_dir_all(&at).expect("made");
    machine(
        "mount",
        &[
            "-t",
            "tmpfs",
            "-o",
            &format!("mode=755,size={size}"),
            "small",
            text(&elsewhere),
        ],
    )
    .succeeds();
    machine(
        "cp",
        &["-a", &format!("{}/.", at.display()), text(&elsewhere)],
    )
    .succeeds();
    machine("mount", &["--move", text(&elsewhere), text(&at)]).succeeds();
}

fn remount(host: &Host, folder: &str, options: &str) {
    machine(
        "mount",
        &[
            "-o",
            &format!("remount,{options}"),
            text(&host.path(folder)),
        ],
    )
    .succeeds();
}

/// Writes until nothing more goes in.
fn fill(file: &Path) {
    let _ = fs::write(file, noise(1 << 20));
    // The last bytes of the last block too.
    while fs::OpenOptions::new()
        .append(true)
        .open(file)
        .and_then(|mut f| std::io::Write::write_all(&mut f, b"x"))
        .is_ok()
    {}
}

/// Runs all cases of a kind, some at once: most of their time they wait.
fn all<T: Sync>(cases: &[T], try_one: impl Fn(&T) + Sync) {
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    try_one(case);
                }
            });
        }
    });
    println!("  {} of {}", cases.len(), cases.len());
}

#[test]
#[ignore = "needs root and a throw-away host: tests/run runs it"]
fn a_disk_that_fills_up_or_turns_read_only() {
    let bench = Bench::new("disk");
    // The place, its size, what happens in the middle, the exit code; none where the result cannot
    // be written: then it is the journal that fails, or what comes next.
    type Case = (&'static str, &'static str, fn(&Host), Option<i32>);
    let cases: [Case; 6] = [
        // Less than the installer copies, less than the archive holds: the plan believes that it
        // needs nothing.
        ("/usr/local", "16k", |_| {}, Some(7)),
        ("/usr/local", "2m", |_| {}, Some(7)),
        (
            "/usr/local",
            "100m",
            |host| remount(host, "/usr/local", "ro"),
            Some(7),
        ),
        ("/var/cache/gpusetup", "1m", |_| {}, Some(5)),
        (
            "/var/lib/gpusetup",
            "1m",
            |host| fill(&host.path("/var/lib/gpusetup/full")),
            None,
        ),
        (
            "/var/lib/gpusetup",
            "1m",
            |host| remount(host, "/var/lib/gpusetup", "ro"),
            None,
        ),
    ];
    timed("disks", || {
        all(&cases, |(folder, size, happens, code)| {
            for finish in [true, false] {
                let host = bench.host();
                small(&host, folder, size);
                let running = if folder.contains("cache") {
                    host.gpusetup_starts(&bench.good.apply())
                } else {
                    let running = starts_to_the_middle(&host, &bench.good.apply());
                    happens(&host);
                    opens_the_gate(&host);
                    running
                };
                let ran = match code {
                    Some(code) => ends_and_tells(&host, running, *code, SOON),
                    None => ends(running, &[5, 7], SOON),
                };
                assert!(
                    ran.err.contains("No space left") || ran.err.contains("Read-only"),
                    "{folder}: {}",
                    ran.err
                );
                let status = host.gpusetup_plain(&["status"]).succeeds().out;
                assert!(!status.contains("apply finished"), "{status}");
                // Somebody makes room.
                remount(&host, folder, "rw,size=200m");
                let _ = fs::remove_file(host.path(folder).join("full"));
                bench.is_mended(&host, &bench.good, finish);
            }
        });
    });
}

#[test]
#[ignore = "needs root and a throw-away host: tests/run runs it"]
fn a_file_that_not_even_root_may_change_and_a_user_who_is_not_root() {
    let bench = Bench::new("denied");
    for finish in [true, false] {
        let host = bench.host();
        host.ask("cp -a /etc/issue /etc/issue.new && mv /etc/issue.new /etc/issue && chattr +i /etc/issue");
        let ran = ends_and_tells(&host, host.gpusetup_starts(&bench.good.apply()), 7, SOON);
        assert!(
            ran.err.contains("/etc/issue") && ran.err.contains("not permitted"),
            "{}",
            ran.err
        );
        host.ask("chattr -i /etc/issue");
        bench.is_mended(&host, &bench.good, finish);
    }
    let host = bench.host();
    // By another process: a child that a thread of this one starts meanwhile would still have the
    // copy open for writing.
    machine(
        "cp",
        &[
            env!("CARGO_BIN_EXE_gpusetup"),
            text(&host.path("/run/gpusetup")),
        ],
    )
    .succeeds();
    let ran = machine(
        "chroot",
        &[
            "--userspec=65534:65534",
            text(&host.root()),
            "/run/gpusetup",
            "apply",
            "--yes",
            "--accept-eula",
        ],
    )
    .exits(5);
    assert!(ran.err.contains("only root"), "{}", ran.err);
    bench.is_untouched(&host);
}

#[test]
#[ignore = "needs root and a throw-away host: tests/run runs it"]
fn a_network_that_fails() {
    let bench = Bench::new("network");
    // A fault, the exit code, the seconds in which it must end.
    let cases = [
        // Four times a minute of silence, and the pauses between.
        (Fault::Stall(1000), 6, 300),
        (Fault::Cut(0), 6, SOON),
        (Fault::Cut(1), 6, SOON),
        (Fault::Cut(100_000), 6, SOON),
        (Fault::CutOnce(4_000_000), 0, SOON),
        (Fault::Slow(100_000), 0, SOON),
        (Fault::Status("404 Not Found"), 6, SOON),
        (Fault::Status("403 Forbidden"), 6, SOON),
        (Fault::Status("500 Internal Server Error"), 6, SOON),
        (Fault::Short(5), 6, SOON),
        (Fault::Long(5), 6, SOON),
        (Fault::Flipped(2_000_000), 10, SOON),
    ];
    timed("networks", || {
        all(&cases, |(fault, code, limit)| {
            let (host, served) = (bench.host(), served(&bench.base, fault.clone()));
            let running = host.gpusetup_starts(&served.apply());
            if *code == 0 {
                ends(running, &[0], *limit);
            } else {
                ends_and_tells(&host, running, *code, *limit);
                bench.is_untouched(&host);
                served.server.set(Fault::Nothing);
            }
            bench.is_mended(&host, &served, true);
        });
    });
}

#[test]
#[ignore = "needs root and a throw-away host: tests/run runs it"]
fn packages_are_fetched_by_the_callers_proxy() {
    let (host, folder) = (
        Host::new("proxy"),
        tempfile::tempdir().expect("a temporary folder"),
    );
    fs::write(
        host.path("/etc/apt/sources.list"),
        "deb [trusted=yes] http://nobody.invalid/ ./\n",
    )
    .expect("written");
    let steps = vec![short::step(
        StepId::Prerequisites,
        vec![short::packages(&["short"])],
    )];
    let plan = short::saved(folder.path(), &short::plan(&host, steps));
    let proxy = [("http_proxy", "http://127.0.0.1:9")];
    let ran = ends(
        host.gpusetup_starts_with(&["apply", text(&plan), "--yes", "--accept-eula"], &proxy),
        &[6],
        SOON,
    );
    // Nobody listens there, which is what shows that it was asked.
    let log = host.ask("cat /var/log/gpusetup/*/* /var/log/gpusetup/*.log 2>/dev/null || true");
    assert!(log.contains("127.0.0.1:9"), "{log}\n{}", ran.err);
}

#[test]
#[ignore = "needs root and a throw-away host: tests/run runs it"]
fn a_package_that_fails_or_hangs() {
    let bench = Bench::new("packages");
    // What it does when it is configured, the time that a transaction gets, the time in which all
    // must end.
    let cases = [
        ("exit 3", "600", SOON),
        ("sleep 600", "5", SOON),
        ("trap '' HUP TERM; sleep 600 & wait", "5", SOON),
    ];
    timed("packages", || {
        all(&cases, |(script, time, limit)| {
            for finish in [true, false] {
                let host = bench.host();
                fs::write(host.path("/run/postinst"), script).expect("written");
                let running = host.gpusetup_starts_with(
                    &bench.good.apply(),
                    &[("GPUSETUP_PACKAGES_LIMIT", time)],
                );
                let ran = ends_and_tells(&host, running, 7, *limit);
                assert!(
                    ran.err.contains("apt-get") && !ran.err.contains("undoing"),
                    "{}",
                    ran.err
                );
                assert_eq!(
                    host.ask(
                        "dpkg --audit; dpkg-query -W -f '${Status}' short 2>/dev/null || true"
                    ),
                    ""
                );
                fs::remove_file(host.path("/run/postinst")).expect("it stood");
                bench.is_mended(&host, &bench.good, finish);
            }
        });
    });
}

#[test]
#[ignore = "needs root and a throw-away host: tests/run runs it"]
fn a_dependency_that_is_named_to_apt_stays_one_after_a_rollback() {
    let (host, folder) = (
        Host::new("automatic"),
        tempfile::tempdir().expect("a temporary folder"),
    );
    short::offer(&host, &[short::deb("short", ""), short::deb("slow", "")]);
    host.ask("apt-get -qq -y install short && apt-mark auto short");
    let automatic = host.ask("apt-mark showauto");
    let steps = vec![short::step(
        StepId::Prerequisites,
        vec![short::packages(&["short", "slow"])],
    )];
    let plan = short::saved(folder.path(), &short::plan(&host, steps));
    host.gpusetup_plain(&["apply", text(&plan), "--yes", "--accept-eula"])
        .succeeds();
    assert_eq!(
        host.ask("apt-mark showmanual short slow"),
        "short\nslow",
        "apt marks whatever is named to it"
    );
    host.gpusetup_plain(&["rollback", "--yes"]).succeeds();
    assert_eq!(host.ask("apt-mark showauto"), automatic);
    assert_eq!(
        host.ask("dpkg-query -W -f '${db:Status-Status}' short"),
        "installed"
    );
}

#[test]
#[ignore = "needs root and a throw-away host: tests/run runs it"]
fn a_package_manager_that_somebody_else_has() {
    let bench = Bench::new("locked");
    for (timeout, code) in [("1", 6), ("100", 0)] {
        let host = bench.host();
        let gate = host.path("/run/slow");
        fs::write(&gate, "").expect("the host takes a file");
        let mut apt = Command::new("chroot");
        apt.arg(host.root())
            .args(["apt-get", "-qq", "-y", "install", "slow"])
            .env("DEBIAN_FRONTEND", "noninteractive");
        let mut apt = apt
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("apt starts");
        until("the package", || host.path("/run/middle").exists());
        let mut arguments = bench.good.apply().to_vec();
        arguments.extend(["--lock-timeout", timeout]);
        let running = host.gpusetup_starts(&arguments);
        let ran = if code == 6 {
            let ran = ends_and_tells(&host, running, 6, SOON);
            fs::remove_file(&gate).expect("it stood");
            ran
        } else {
            let events = host.path("/var/log/gpusetup/events.jsonl");
            until("the wait", || {
                fs::read_to_string(&events).is_ok_and(|text| text.contains("\"waiting\""))
            });
            fs::remove_file(&gate).expect("it stood");
            ends(running, &[0], SOON)
        };
        assert!(
            ran.err
                .contains(&format!("locked by apt-get (process {}", apt.id())),
            "{}",
            ran.err
        );
        assert!(apt.wait().expect("it ended").success());
        assert_eq!(
            host.ask("dpkg-query -W -f '${db:Status-Status}' slow"),
            "installed",
            "apt was not disturbed"
        );
        host.ask("apt-get -qq -y purge slow");
        bench.is_mended(&host, &bench.good, true);
    }
}

#[test]
#[ignore = "needs root and a throw-away host: tests/run runs it"]
fn two_at_once() {
    let bench = Bench::new("two");
    let host = bench.host();
    let first = starts_to_the_middle(&host, &bench.good.apply());
    for verb in [
        &bench.good.apply()[..],
        &["resume", "--yes"],
        &["rollback", "--yes"],
    ] {
        let second = host.gpusetup_plain(verb).exits(6);
        assert!(
            second
                .err
                .contains(&format!("process {} since 20", first.id())),
            "{}",
            second.err
        );
    }
    opens_the_gate(&host);
    ends(first, &[0], SOON);
    bench.is_mended(&host, &bench.good, true);

    // What a killed one started is at work like itself; and nobody takes what it left for done.
    let host = bench.host();
    let mut killed = starts_to_the_middle(&host, &bench.good.apply());
    killed.kill().expect("it was ours to kill");
    killed.wait().expect("ended");
    host.gpusetup_plain(&["resume", "--yes"]).exits(6);
    opens_the_gate(&host);
    until("its end", || !host.is_at_work());
    let status = host.gpusetup_plain(&["status"]).succeeds().out;
    assert!(status.contains("was interrupted"), "{status}");
    bench.is_mended(&host, &bench.good, true);
}

#[test]
#[ignore = "needs root and a throw-away host: tests/run runs it"]
fn a_signal_in_each_phase() {
    let bench = Bench::new("signal");
    let part = format!("{}.part", short::cached(archive()).display());
    // It is unpacked while it arrives, before there is a toolkit's folder.
    let unpacked = format!(
        "/usr/local/.gpusetup-unpack-{}",
        &short::sum(archive())[..12]
    );
    // The phase, what tells that it has begun, and what the server does.
    let phases = [
        ("a slow download", part.as_str(), Fault::Slow(20_000)),
        ("a silent download", &part, Fault::Stall(1000)),
        ("packages", "/run/middle", Fault::Nothing),
        ("a program", "/run/middle", Fault::Nothing),
        ("unpack", &unpacked, Fault::Nothing),
    ];
    timed("signals", || {
        all(&phases, |(phase, begun, fault)| {
            let served = served(&bench.base, fault.clone());
            for (signal, code) in [("INT", 130), ("TERM", 143), ("HUP", 143)] {
                let host = bench.host();
                served.server.set(fault.clone());
                match *phase {
                    "packages" => {
                        fs::write(host.path("/run/postinst"), "touch /run/middle; sleep 3")
                            .expect("written");
                    }
                    "a program" => fs::write(host.path("/run/gate"), "").expect("written"),
                    // A signal that comes late finds something to stop still.
                    "unpack" => fs::write(host.path("/run/behind"), "").expect("written"),
                    _ => {}
                }
                let running = host.gpusetup_starts(&served.apply());
                until(phase, || host.path(begun).exists());
                machine("kill", &[&format!("-{signal}"), &running.id().to_string()]).succeeds();
                ends_and_tells(&host, running, code, SOON);
                if *phase == "packages" {
                    let state = host.ask("dpkg-query -W -f '${db:Status-Status}' short");
                    assert_eq!(state, "installed", "apt was let finish");
                }
                for left in ["/run/gate", "/run/behind", "/run/postinst"] {
                    let _ = fs::remove_file(host.path(left));
                }
                served.server.set(Fault::Nothing);
                bench.is_mended(&host, &served, signal != "HUP");
            }
        });
    });
}
