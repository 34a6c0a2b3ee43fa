//! The attacks that succeeded on commit e836608, a function each. The function returns whether the
//! attack succeeds.

use super::bench::{Bench, NOBODY, Ran, give, wait};
use super::model::Model;
use super::outside::Outside;
use super::plans::{self, run, write_file};
use super::race::{CREATE, stories};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// An attack: the finding it belongs to, a title, and the function that tries it.
pub struct Attack {
    pub finding: &'static str,
    pub what: &'static str,
    pub succeeds: fn(&Bench) -> bool,
}

const fn attack(finding: &'static str, what: &'static str, succeeds: fn(&Bench) -> bool) -> Attack {
    Attack {
        finding,
        what,
        succeeds,
    }
}

/// All attacks.
pub const ATTACKS: &[Attack] = &[
    attack("R1", "the lock is a link", |b| {
        written_through(b, "run/gpusetup.lock", &ROLLBACK)
    }),
    attack("R1", "the journal is a link", |b| {
        written_through(b, "var/lib/gpusetup/journal", &APPLY)
    }),
    attack("R1", "a program's log is a link", |b| {
        written_through(b, "var/log/gpusetup/step-2-1.log", &APPLY)
    }),
    attack("R1", "the log of what happens is a link", |b| {
        written_through(b, "var/log/gpusetup/events.jsonl", &APPLY)
    }),
    attack("R1", "a download that arrives is a link", |b| {
        written_through(b, &cached(b, ".part"), &APPLY)
    }),
    attack("R1", "its note is a link", |b| {
        written_through(b, &cached(b, ".part.begun-new"), &APPLY)
    }),
    attack("R1", "the note of its sum is a link", |b| {
        written_through(b, &cached(b, ".verified-new"), &APPLY)
    }),
    attack("R2", "facts run the tree's program", |b| {
        program_escapes(b, &["facts"])
    }),
    attack("R2", "plan runs the tree's program", |b| {
        program_escapes(b, &["plan", "--gpu", "h100"])
    }),
    attack("R2", "doctor runs the tree's program", |b| {
        program_escapes(b, &["doctor"])
    }),
    attack("R2", "doctor --fix --dry-run runs it", |b| {
        program_escapes(b, &["doctor", "--fix", "--dry-run", "--yes"])
    }),
    attack("R3", "a plan is exchanged for nobody's", |b| {
        raced(b, "links to plans")
    }),
    attack("R4", "facts put a line into a script", |b| {
        said_of_facts(b, "Ubuntu\ntouch injected\n#", &["--format", "sh"])
            .lines()
            .any(|line| line == "touch injected")
    }),
    attack("R4", "facts speak to the terminal", |b| {
        said_of_facts(b, "Ubuntu\u{1b}[2J", &[]).contains('\u{1b}')
    }),
    attack("R5", "a folder is exchanged for a link", |b| {
        raced(b, "the folder that a file is written to")
    }),
    attack(
        "R6",
        "on a live host a log is nobody's link",
        log_of_nobodys,
    ),
    attack("R7", "a bundle is nobody's", |b| {
        nobodys_bundle(b, |area, evil| {
            fs::write(area, plans::bundle_archive(evil)).expect("written");
            give(area);
        })
    }),
    attack("R7", "a bundle that is a folder is nobody's", |b| {
        nobodys_bundle(b, |area, evil| {
            plans::bundle_folder(evil, area);
            for path in [
                "plans/plan.json",
                "plans",
                "bundle.json",
                "database.bin",
                "gpusetup",
                "",
            ] {
                give(&area.join(path));
            }
        })
    }),
    attack(
        "R8",
        "a bundle is gathered in nobody's cache",
        nobodys_cache,
    ),
    attack("R14", "a plan that is a pipe is waited for", plan_is_a_pipe),
    attack(
        "R15",
        "a program without words panics",
        program_without_words,
    ),
    attack("R16", "completions into a closed pipe panic", |b| {
        broken_pipe(b, &["completions", "bash"])
    }),
    attack("R17", "a deep path takes minutes", deep_path),
    attack(
        "R18",
        "a journal removes the whole tree",
        journal_removes_all,
    ),
];

const APPLY: [&str; 9] = [
    "apply",
    "{}/in/plan.json",
    "--root",
    "{}/tree",
    "--yes",
    "--accept-eula",
    "--offline",
    "--lock-timeout",
    "0",
];
const ROLLBACK: [&str; 4] = ["rollback", "--yes", "--root", "{}/tree"];

/// A directory that holds the host. Dropping this removes it.
struct Area<'a> {
    bench: &'a Bench,
    path: PathBuf,
}

impl<'a> Area<'a> {
    fn of(bench: &'a Bench, host: &Model) -> Self {
        let path = bench.path("replay");
        host.make(&path);
        Self { bench, path }
    }

    fn tree(&self, path: &str) -> PathBuf {
        let path = self.path.join("tree").join(path.trim_start_matches('/'));
        fs::create_dir_all(path.parent().expect("below the tree")).expect("made");
        path
    }

    fn run(&self, arguments: &[&str]) -> Ran {
        self.bench.run(&self.path, arguments)
    }

    /// Writes a plan of these operations.
    fn plan(&self, operations: Vec<String>) -> PathBuf {
        let path = self.path.join("in/made.json");
        let good = fs::read_to_string(self.path.join("in/good.json")).expect("there");
        fs::write(&path, plans::with_steps(&good, &[("repair", operations)])).expect("written");
        path
    }
}

impl Drop for Area<'_> {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

fn cached(bench: &Bench, ending: &str) -> String {
    plans::cached(&bench.path("pub/archive.tar.xz")) + ending
}

/// Whether gpusetup writes through a link in the tree.
fn written_through(bench: &Bench, path: &str, arguments: &[&str]) -> bool {
    let area = Area::of(bench, &bench.host);
    let mut outside = Outside::make(&area.path.join("outside"));
    symlink(area.path.join("outside/file"), area.tree(path)).expect("linked");
    outside.remember();
    area.run(arguments);
    !outside.harm(false).is_empty()
}

/// Whether a read-only command runs a program of the tree, which then escapes from its chroot.
fn program_escapes(bench: &Bench, arguments: &[&str]) -> bool {
    let area = Area::of(bench, &bench.host);
    let marker = area.path.join("escaped");
    fs::write(area.tree("escape"), marker.to_str().expect("UTF-8")).expect("written");
    // apt-cache was only run if the package lists were newer than the list of repositories.
    fs::write(area.tree("var/lib/apt/lists/x_Packages"), "Package: x\n").expect("written");
    area.run(&[arguments, &["--root", "{}/tree"]].concat());
    marker.exists()
}

fn raced(bench: &Bench, name: &str) -> bool {
    let stories = stories();
    let story = stories
        .iter()
        .find(|story| story.name == name)
        .expect("a story");
    let rounds = if super::is_vulnerable() {
        super::ROUNDS_UNTIL_WON
    } else {
        super::rounds()
    };
    story.run(bench, &bench.host, rounds, true).wins > 0
}

/// The output of `plan` for facts with this OS name.
fn said_of_facts(bench: &Bench, name: &str, more: &[&str]) -> String {
    let area = Area::of(bench, &bench.host);
    let facts = area.run(&["facts", "--json", "--root", "{}/tree"]).output;
    let mut facts: Value = serde_json::from_str(&facts).unwrap_or_else(|e| panic!("{e}: {facts}"));
    facts["os"]["name"] = name.into();
    fs::write(area.path.join("facts.json"), facts.to_string()).expect("written");
    area.run(&[&["plan", "--facts", "{}/facts.json"], more].concat())
        .output
}

/// Runs gpusetup on the tree as on a live host: in a chroot, without `--root`.
fn live(area: &Area, arguments: &[&str]) -> Ran {
    let root = area.path.join("tree");
    let program = area.bench.path("gpusetup");
    fs::copy(&program, root.join("gpusetup")).expect("copied");
    let needs = Command::new("ldd")
        .arg(&program)
        .output()
        .expect("ldd starts");
    for word in String::from_utf8_lossy(&needs.stdout)
        .split_whitespace()
        .filter(|word| word.starts_with('/'))
    {
        let to = area.tree(word);
        fs::copy(word, to).expect("copied");
    }
    fs::create_dir_all(root.join("dev")).expect("made");
    fs::write(root.join("dev/null"), "").expect("written");
    let output = area.path.join("said");
    let file = fs::File::create(&output).expect("made");
    let mut command = Command::new("chroot");
    command
        .arg(&root)
        .arg("/gpusetup")
        .args(arguments)
        .env_clear()
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
    command
        .stdin(Stdio::null())
        .stdout(file.try_clone().expect("a file"))
        .stderr(file);
    let status = wait(
        &mut command.spawn().expect("chroot starts"),
        Duration::from_secs(15),
    );
    Ran::new(status, fs::read(output).expect("made"))
}

fn log_of_nobodys(bench: &Bench) -> bool {
    let area = Area::of(bench, &bench.host);
    let plan = area.plan(vec![run(
        &["/usr/bin/program", "say", "* * * * * root /bin/evil"],
        "",
    )]);
    fs::copy(plan, area.tree("root/plan.json")).expect("copied");
    fs::create_dir_all(area.tree("etc/cron.d")).expect("made");
    fs::create_dir_all(area.tree("var/log/gpusetup")).expect("made");
    for folder in ["var/log", "var/log/gpusetup"] {
        give(&area.tree(folder));
    }
    let log = area.tree("var/log/gpusetup/step-1-1.log");
    symlink("/etc/cron.d/evil", &log).expect("linked");
    std::os::unix::fs::lchown(&log, Some(NOBODY), Some(NOBODY)).expect("given");
    live(
        &area,
        &[
            "apply",
            "/root/plan.json",
            "--yes",
            "--accept-eula",
            "--offline",
            "--lock-timeout",
            "0",
        ],
    );
    area.tree("etc/cron.d/evil").exists()
}

fn nobodys_bundle(bench: &Bench, make: impl Fn(&Path, &str)) -> bool {
    let area = Area::of(bench, &bench.host);
    let evil = fs::read_to_string(area.path.join("in/evil.json")).expect("there");
    make(&area.path.join("theirs.tar.zst"), &evil);
    area.run(&[
        "apply",
        "--bundle",
        "{}/theirs.tar.zst",
        "--root",
        "{}/tree",
        "--yes",
        "--accept-eula",
        "--lock-timeout",
        "0",
    ]);
    area.tree(super::bench::EVIL).exists()
}

fn nobodys_cache(bench: &Bench) -> bool {
    let area = Area::of(bench, &bench.host);
    let mut outside = Outside::make(&area.path.join("outside"));
    let part = area.tree(&cached(bench, ".part"));
    symlink(area.path.join("outside/file"), &part).expect("linked");
    for folder in part.ancestors().skip(1).take(2) {
        give(folder);
    }
    outside.remember();
    area.run(&CREATE);
    !outside.harm(false).is_empty()
}

/// Whether gpusetup ignores SIGTERM while it waits for a FIFO.
fn plan_is_a_pipe(bench: &Bench) -> bool {
    let area = Area::of(bench, &bench.host);
    let made = Command::new("mkfifo")
        .arg(area.path.join("in/pipe"))
        .status()
        .expect("mkfifo starts");
    assert!(made.success());
    let arguments = [
        "apply",
        "{}/in/pipe",
        "--root",
        "{}/tree",
        "--yes",
        "--accept-eula",
    ];
    let mut running = bench
        .gpusetup(&area.path, &arguments)
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    std::thread::sleep(Duration::from_secs(3));
    let pid = rustix::process::Pid::from_child(&running);
    let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
    wait(&mut running, Duration::from_secs(5)).is_none()
}

fn program_without_words(bench: &Bench) -> bool {
    let area = Area::of(bench, &bench.host);
    let plan = area.plan(vec![run(&[], "")]);
    fs::copy(plan, area.tree("root/plan.json")).expect("copied");
    live(
        &area,
        &[
            "apply",
            "/root/plan.json",
            "--yes",
            "--accept-eula",
            "--offline",
            "--lock-timeout",
            "0",
        ],
    )
    .trouble()
        == Some("panicked")
}

/// Whether gpusetup panics when its standard output is a closed pipe.
fn broken_pipe(bench: &Bench, arguments: &[&str]) -> bool {
    let area = Area::of(bench, &bench.host);
    let mut command = bench.gpusetup(&area.path, arguments);
    let mut running = command
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    drop(running.stdout.take());
    wait(&mut running, Duration::from_secs(15)).and_then(|status| status.code()) == Some(101)
}

fn deep_path(bench: &Bench) -> bool {
    let area = Area::of(bench, &bench.host);
    let path = "/d".repeat(1990);
    area.plan(vec![write_file(&path, "x")]);
    let apply = [
        "apply",
        "{}/in/made.json",
        "--root",
        "{}/tree",
        "--yes",
        "--accept-eula",
        "--offline",
        "--lock-timeout",
        "0",
    ];
    area.run(&apply).trouble() == Some("hung")
}

fn journal_removes_all(bench: &Bench) -> bool {
    let host = bench.after(&bench.host, &APPLY, 0);
    let area = Area::of(bench, &host);
    let path = area.tree("var/lib/gpusetup/journal");
    let journal = fs::read_to_string(&path).expect("there");
    let (before, last) = journal.trim_end().rsplit_once('\n').expect("records");
    let record = |json: &str| format!("{} {json}\n", &super::bench::sum(json.as_bytes())[..16]);
    let intent = record(
        r#"{"event":"intent","at":[0,2],"undo":[{"undo":"tree","path":"/../.."}],"boot":null}"#,
    );
    let done = record(r#"{"event":"done","at":[0,2]}"#);
    fs::write(&path, format!("{before}\n{intent}{done}{last}\n")).expect("written");
    area.run(&ROLLBACK);
    !area.tree("etc/os-release").exists()
}
