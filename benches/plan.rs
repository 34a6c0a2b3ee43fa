//! How long a person waits for a plan, as a whole process: `cargo bench --bench plan`. Prints the
//! median of many cold starts beside two others of the same run, since machines differ: a process
//! that does nothing, and the start alone of the interpreter that distribution helpers are written
//! for.
//!
//! As root on Debian it also times the live host with all of Debian's lists, where `plan` and
//! `facts` read what the repositories offer, beside python-apt, which such helpers ask, and
//! `apt-cache policy`.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const RUNS: usize = 101;
/// Set in the mount namespace that has Debian's full lists.
const WITH_LISTS: &str = "GPUSETUP_BENCH_LISTS";

/// What a distribution's helper in Python does: it opens apt's cache and asks for each package.
const PEER: &str = "import sys, apt
cache = apt.Cache()
for name in sys.argv[1:]:
    if name in cache and cache[name].candidate:
        print(name, cache[name].candidate.version)";
/// The driver packages of Debian that gpusetup asks for.
const NAMES: [&str; 9] = [
    "nvidia-kernel-dkms",
    "nvidia-open-kernel-dkms",
    "nvidia-tesla-535-kernel-dkms",
    "libnvidia-tesla-535-cuda1",
    "libnvidia-tesla-535-ml1",
    "libcuda1",
    "libnvidia-ml1",
    "nvidia-smi",
    "nvidia-modprobe",
];

fn main() {
    if std::env::var_os(WITH_LISTS).is_some() {
        return live();
    }
    let gpusetup = env!("CARGO_BIN_EXE_gpusetup");
    let plan = [gpusetup, "plan", "--gpu", "h100", "--json"];
    run(&plan);
    // Of all children so far, so this comes before the others.
    let megabytes = largest_child_kilobytes() as f64 / 1024.0;
    let nothing = ["/bin/true"];
    let interpreter = ["python3", "-c", "pass"];
    let [plan, nothing, interpreter] = medians([&plan, &nothing, &interpreter]);
    println!(
        "plan --gpu h100 --json   {:>7.2} ms   {megabytes:.1} MB at most",
        milliseconds(plan)
    );
    println!("a process doing nothing  {:>7.2} ms", milliseconds(nothing));
    println!(
        "python3 -c pass          {:>7.2} ms",
        milliseconds(interpreter)
    );
    println!(
        "the plan takes {:.2} of the interpreter's start alone",
        plan.as_secs_f64() / interpreter.as_secs_f64()
    );
    with_lists();
}

/// The live host with the full lists of Debian 12, which this machine may lack: fetched into the
/// target directory once, and mounted over the host's own where nobody else sees it.
fn with_lists() {
    if !rustix::process::geteuid().is_root() || !Path::new("/etc/debian_version").exists() {
        println!("the live host with full lists is left out: it takes root, on Debian");
        return;
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("bench-apt");
    let own = std::env::current_exe().expect("this program");
    fetch(&folder);
    let script = "for of in etc:/etc/apt lists:/var/lib/apt/lists cache:/var/cache/apt; do mount --bind \"$1/${of%%:*}\" \"${of#*:}\"; done
        exec \"$2\"";
    let mut command = Command::new("unshare");
    command
        .args([
            "--mount",
            "--propagation",
            "private",
            "sh",
            "-euc",
            script,
            "sh",
        ])
        .arg(&folder)
        .arg(own);
    let error = command.env(WITH_LISTS, "1").exec();
    panic!("unshare: {error}");
}

/// Fetches the lists, unless they are there.
fn fetch(folder: &Path) {
    let path = |name: &str| -> PathBuf { folder.join(name) };
    if path("done").exists() {
        return;
    }
    for name in [
        "etc/sources.list.d",
        "etc/apt.conf.d",
        "etc/preferences.d",
        "lists/partial",
        "cache/archives/partial",
    ] {
        std::fs::create_dir_all(path(name)).expect("made");
    }
    let signed =
        "[signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian";
    let sources = ["bookworm", "bookworm-updates"]
        .map(|s| format!("deb {signed} {s} main contrib non-free non-free-firmware\n"));
    std::fs::write(path("etc/sources.list"), sources.concat()).expect("written");
    let options = [
        ("Dir::Etc", "etc"),
        ("Dir::State::lists", "lists"),
        ("Dir::Cache", "cache"),
    ];
    let mut apt = Command::new("apt-get");
    apt.args(options.map(|(key, name)| format!("-o{key}={}", path(name).display())));
    // As a host has them that is no container: not compressed.
    apt.args([
        "-oAPT::Sandbox::User=root",
        "-oAcquire::GzipIndexes=false",
        "-qq",
        "update",
    ]);
    assert!(
        apt.status().expect("apt-get starts").success(),
        "the lists cannot be fetched"
    );
    std::fs::write(path("done"), "").expect("written");
}

fn live() {
    let gpusetup = env!("CARGO_BIN_EXE_gpusetup");
    let plan = [gpusetup, "plan", "--gpu", "h100", "--root", "/", "--json"];
    let facts = [gpusetup, "facts", "--json"];
    let policy = [&["apt-cache", "policy"][..], &NAMES].concat();
    let python = [&["/usr/bin/python3", "-c", PEER][..], &NAMES].concat();
    let output = Command::new(gpusetup)
        .args(&facts[1..])
        .output()
        .expect("it starts")
        .stdout;
    let output = String::from_utf8_lossy(&output);
    assert!(
        output.contains("nvidia-kernel-dkms") && output.contains("535."),
        "gpusetup found the lists: {output}"
    );
    println!("on the live host, with Debian's full lists:");
    let has_python = Command::new(python[0])
        .args(["-c", "import apt"])
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|s| s.success());
    let peer = if has_python { &python } else { &policy };
    // They write their cache the first time.
    for argv in [&policy, peer] {
        run(argv);
    }
    let [plan, facts, policy, peer] = medians([&plan, &facts, &policy, peer]);
    println!("plan --gpu h100          {:>7.2} ms", milliseconds(plan));
    println!("facts --json             {:>7.2} ms", milliseconds(facts));
    println!("apt-cache policy         {:>7.2} ms", milliseconds(policy));
    match has_python {
        true => println!("python-apt, the same     {:>7.2} ms", milliseconds(peer)),
        false => println!("python3-apt is not installed: apt-cache stands in for it"),
    }
    println!(
        "the plan takes {:.2} of what the peer takes to ask alone",
        plan.as_secs_f64() / peer.as_secs_f64()
    );
}

/// Medians of each, taken in turns so that whatever else the machine does meets all alike.
fn medians<const N: usize>(commands: [&[&str]; N]) -> [Duration; N] {
    let mut times: [Vec<Duration>; N] = std::array::from_fn(|_| Vec::new());
    for _ in 0..RUNS {
        for (command, times) in commands.iter().zip(&mut times) {
            times.push(run(command));
        }
    }
    times.map(|mut times| {
        times.sort();
        times[RUNS / 2]
    })
}

fn run(argv: &[&str]) -> Duration {
    let began = Instant::now();
    let ended = Command::new(argv[0])
        .args(&argv[1..])
        .stdout(Stdio::null())
        .stderr(Stdio::inherit())
        .status();
    let took = began.elapsed();
    assert!(ended.expect("it starts").success(), "{argv:?} failed");
    took
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

fn largest_child_kilobytes() -> i64 {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the kernel fills the structure that it is given.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_CHILDREN, usage.as_mut_ptr());
        usage.assume_init()
    };
    usage.ru_maxrss
}
