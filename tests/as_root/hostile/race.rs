//! Races: a second process exchanges two names in a loop while gpusetup opens them.

use super::bench::{Bench, EVIL, NOBODY, give};
use super::model::Model;
use super::outside::Outside;
use super::plans;
use std::ffi::CString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::Path;

/// The second process.
struct Swapper(libc::pid_t);

impl Swapper {
    /// Starts the exchange, as the user nobody. It ends when this is dropped.
    fn start(one: &Path, other: &Path) -> Self {
        let [one, other] = [one, other]
            .map(|path| CString::new(path.as_os_str().as_bytes()).expect("no zero in it"));
        // SAFETY: the child makes system calls and nothing else: it takes no lock and asks for no
        // memory.
        let pid = unsafe { libc::fork() };
        assert!(pid >= 0, "a process");
        if pid == 0 {
            // SAFETY: both names live as long as this process.
            unsafe {
                libc::setresgid(NOBODY, NOBODY, NOBODY);
                libc::setresuid(NOBODY, NOBODY, NOBODY);
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                loop {
                    let (here, exchange) = (libc::AT_FDCWD, libc::RENAME_EXCHANGE);
                    libc::syscall(
                        libc::SYS_renameat2,
                        here,
                        one.as_ptr(),
                        here,
                        other.as_ptr(),
                        exchange,
                    );
                }
            }
        }
        Self(pid)
    }
}

impl Drop for Swapper {
    fn drop(&mut self) {
        // SAFETY: it is our child, and nobody else has waited for it.
        unsafe {
            libc::kill(self.0, libc::SIGKILL);
            libc::waitpid(self.0, std::ptr::null_mut(), 0);
        }
    }
}

/// Delays every lookup of a path by 200 µs, as a busy machine or a network file system would.
/// Without it only microseconds lie between a check and the use of a name.
const SLOWLY: [&str; 7] = [
    "strace",
    "-f",
    "-qqq",
    "-o/dev/null",
    "--seccomp-bpf",
    "-etrace=statx,newfstatat,readlink,readlinkat,openat,openat2",
    "-einject=statx,newfstatat,readlink,readlinkat,openat,openat2:delay_exit=200",
];

/// One round in this many is delayed.
const EVERY_SLOW: usize = 4;

/// A race: which two names are exchanged, and which command runs meanwhile.
pub struct Story {
    pub name: &'static str,
    arguments: Vec<&'static str>,
    /// Creates both names in the given directory.
    set: fn(&Path),
    swapped: [&'static str; 2],
}

/// The outcome of a race.
#[derive(Default)]
pub struct Races {
    pub rounds: usize,
    pub wins: usize,
    pub troubles: Vec<String>,
}

impl Story {
    /// Runs this many rounds, or fewer if `until_won` and one is won.
    pub fn run(&self, bench: &Bench, host: &Model, rounds: usize, until_won: bool) -> Races {
        let area = bench.path("race");
        let mut races = Races::default();
        while races.rounds < rounds && !(until_won && races.wins > 0) {
            let _ = fs::remove_dir_all(&area);
            host.make(&area);
            let mut outside = Outside::make(&area.join("outside"));
            (self.set)(&area);
            outside.remember();
            let [one, other] = self.swapped.map(|path| area.join(path));
            let swapper = Swapper::start(&one, &other);
            let slowly = races.rounds % EVERY_SLOW == 0;
            let ran = bench.run_under(if slowly { &SLOWLY } else { &[] }, &area, &self.arguments);
            drop(swapper);
            races.rounds += 1;
            let unpacked = fs::read_to_string(area.join("tree/usr/local/x-1.0/lib64/libx.so.1.2"))
                .unwrap_or_default();
            let evil = area.join("tree").join(&EVIL[1..]).exists() || unpacked == "evil";
            races.wins += usize::from(evil || !outside.harm(false).is_empty());
            races.troubles.extend(
                ran.trouble()
                    .map(|trouble| format!("{}: {trouble}: {}", self.name, ran.output)),
            );
        }
        let _ = fs::remove_dir_all(&area);
        races
    }
}

const APPLY: [&str; 8] = [
    "apply",
    "--root",
    "{}/tree",
    "--yes",
    "--accept-eula",
    "--offline",
    "--lock-timeout",
    "0",
];

fn apply(what: &[&'static str]) -> Vec<&'static str> {
    [&APPLY, what].concat()
}

/// Creates a directory that nobody owns.
fn theirs(area: &Path, folder: &str) {
    fs::create_dir_all(area.join(folder)).expect("made");
    give(&area.join(folder));
}

/// Creates a link to a path outside the tree. The same path exists inside the tree too: code that
/// resolves names first and opens the result later needs both.
fn out_of_the_tree(area: &Path, from: &str, to: &str) {
    let to = area.join("outside").join(to);
    let within = area
        .join("tree")
        .join(to.strip_prefix("/").expect("absolute"));
    fs::create_dir_all(if to.is_dir() {
        &within
    } else {
        within.parent().expect("in a folder")
    })
    .expect("made");
    symlink(to, area.join(from)).expect("linked");
}

/// A directory of the tree, whose parent is nobody's, and beside it a link out of the tree.
fn folder_and_link(area: &Path, folder: &str) {
    let above = folder.rsplit_once('/').expect("a path").0;
    fs::create_dir_all(area.join(folder)).expect("made");
    theirs(area, above);
    out_of_the_tree(area, &format!("{above}/swapped"), "folder");
}

/// A file of the tree, whose directory is nobody's, and beside it a link to a file outside.
fn file_and_link(area: &Path, file: &str) {
    let folder = file.rsplit_once('/').expect("a path").0;
    theirs(area, folder);
    fs::write(area.join(file), "").expect("written");
    out_of_the_tree(area, &format!("{folder}/swapped"), "file");
}

fn plans(area: &Path, put: impl Fn(&Path, &Path)) {
    theirs(area, "att");
    fs::copy(area.join("in/evil.json"), area.join("att/evil.json")).expect("copied");
    give(&area.join("att/evil.json"));
    put(&area.join("in/good.json"), &area.join("att/plan.json"));
    put(&area.join("att/evil.json"), &area.join("att/swapped"));
}

/// All races.
pub fn stories() -> Vec<Story> {
    vec![
        Story {
            name: "links to plans",
            arguments: apply(&["{}/att/plan.json"]),
            set: |area| plans(area, |from, to| symlink(from, to).expect("linked")),
            swapped: ["att/plan.json", "att/swapped"],
        },
        Story {
            name: "plans",
            arguments: apply(&["{}/att/plan.json"]),
            set: |area| {
                plans(area, |from, to| assert!(fs::copy(from, to).is_ok()));
                give(&area.join("att/swapped"));
            },
            swapped: ["att/plan.json", "att/swapped"],
        },
        Story {
            name: "bundles",
            arguments: apply(&["--bundle", "{}/att/bundle.tar.zst"]),
            set: |area| {
                theirs(area, "att");
                fs::copy(
                    area.join("in/good.tar.zst"),
                    area.join("att/bundle.tar.zst"),
                )
                .expect("copied");
                fs::copy(area.join("in/evil.tar.zst"), area.join("att/swapped")).expect("copied");
                give(&area.join("att/swapped"));
            },
            swapped: ["att/bundle.tar.zst", "att/swapped"],
        },
        Story {
            name: "bundles that are folders",
            arguments: apply(&["--bundle", "{}/att/bundle"]),
            set: |area| {
                theirs(area, "att");
                for (plan, folder) in [
                    ("in/good.json", "att/bundle"),
                    ("in/evil.json", "att/swapped"),
                ] {
                    plans::bundle_folder(
                        &fs::read_to_string(area.join(plan)).expect("there"),
                        &area.join(folder),
                    );
                }
                for path in [
                    "",
                    "bundle.json",
                    "plans",
                    "plans/plan.json",
                    "database.bin",
                    "gpusetup",
                ] {
                    give(&area.join("att/swapped").join(path));
                }
            },
            swapped: ["att/bundle", "att/swapped"],
        },
        Story {
            name: "the folder that a file is written to",
            arguments: apply(&["{}/in/good.json"]),
            set: |area| folder_and_link(area, "tree/etc/modprobe.d"),
            swapped: ["tree/etc/modprobe.d", "tree/etc/swapped"],
        },
        Story {
            name: "the folder that an archive is unpacked into",
            arguments: apply(&["{}/in/plan.json"]),
            set: |area| folder_and_link(area, "tree/usr/local/x-1.0"),
            swapped: ["tree/usr/local/x-1.0", "tree/usr/local/swapped"],
        },
        Story {
            name: "the journal's folder",
            arguments: apply(&["{}/in/good.json"]),
            set: |area| folder_and_link(area, "tree/var/lib/gpusetup"),
            swapped: ["tree/var/lib/gpusetup", "tree/var/lib/swapped"],
        },
        Story {
            name: "the folder of logs",
            arguments: apply(&["{}/in/good.json"]),
            set: |area| folder_and_link(area, "tree/var/log/gpusetup"),
            swapped: ["tree/var/log/gpusetup", "tree/var/log/swapped"],
        },
        Story {
            name: "the log of what happens",
            arguments: apply(&["{}/in/good.json"]),
            set: |area| file_and_link(area, "tree/var/log/gpusetup/events.jsonl"),
            swapped: [
                "tree/var/log/gpusetup/events.jsonl",
                "tree/var/log/gpusetup/swapped",
            ],
        },
        Story {
            name: "the lock",
            arguments: apply(&["{}/in/good.json"]),
            set: |area| file_and_link(area, "tree/run/gpusetup.lock"),
            swapped: ["tree/run/gpusetup.lock", "tree/run/swapped"],
        },
        Story {
            name: "a download that arrives",
            arguments: CREATE.to_vec(),
            set: |area| file_and_link(area, &(cached(area, "archive.tar.xz") + ".part")),
            swapped: ["cache/archive.tar.xz.part", "cache/swapped"],
        },
        Story {
            name: "a download that was verified",
            arguments: apply(&["{}/in/plan.json"]),
            set: |area| {
                let file = cached(area, "archive.tar.xz");
                let folder = file.rsplit_once('/').expect("a path").0.to_owned();
                theirs(area, &folder);
                let shared = area.with_file_name("pub");
                fs::copy(shared.join("archive.tar.xz"), area.join(&file)).expect("copied");
                fs::copy(
                    shared.join("evil.tar.xz"),
                    area.join(&folder).join("swapped"),
                )
                .expect("copied");
            },
            swapped: ["cache/archive.tar.xz", "cache/swapped"],
        },
    ]
}

/// The race that commit e836608 does not lose: it refuses a cache directory that another user owns.
/// It loses all others.
pub const NEVER_WON: &str = "a download that was verified";

/// Creates a bundle, with downloads in the tree's cache.
pub const CREATE: [&str; 9] = [
    "bundle",
    "create",
    "--plan",
    "{}/in/plan.json",
    "--offline",
    "--root",
    "{}/tree",
    "-o",
    "{}/made",
];

/// The path of a download in the tree's cache. `cache` becomes a short name for its directory.
fn cached(area: &Path, name: &str) -> String {
    let path = format!(
        "tree{}",
        plans::cached(&area.with_file_name("pub").join(name))
    );
    let folder = Path::new(&path).parent().expect("in a folder");
    fs::create_dir_all(area.join(folder)).expect("made");
    symlink(folder, area.join("cache")).expect("linked");
    path
}
