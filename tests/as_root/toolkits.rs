//! Several toolkits side by side on a real host: two more runfiles with a real nvcc each beside the
//! one that the stack has, removal of one, and the switch of the default, which is cut off by
//! SIGKILL at random times. The seed is printed; `GPUSETUP_SEED` sets it.

use crate::host::tree::differences;
use crate::host::{Host, bench, text, timed};
use crate::killed::{Fractions, alone, killed, seed, when_free};
use crate::stack::{installed, planned};
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

const SERIES: [&str; 3] = ["12.4", "11.8", "13.4"];

/// The switches that are cut off.
const ROUNDS: usize = 200;
/// After as many the journal is taken away: it has every plan, and is read in each round.
const OF_A_JOURNAL: usize = 20;

/// What guides have people write, and lines that stay.
const BASHRC: &str = "# mine\nexport PATH=/usr/local/cuda-11.8/bin${PATH:+:${PATH}}\nif true; then\n  export CUDA_HOME=/usr/local/cuda-11.8\nfi\nalias old=/usr/local/cuda-11.8/bin/nvcc\n";
const EDITED: &str = "# mine\nif true; then\n  :\nfi\nalias old=/usr/local/cuda-11.8/bin/nvcc\n";

#[test]
#[ignore = "needs root and a throw-away host: tests/run runs it"]
fn three_toolkits_compile_and_two_do_after_one_is_removed() {
    let host = installed(&planned()).clone_as("three-toolkits");
    let wish = [
        "--profile",
        "toolkit",
        "--cudnn",
        "none",
        "--cuda",
        "12.4",
        "--cuda",
        "11.8",
        "--cuda",
        "13.4",
    ];
    timed("apply", || {
        host.gpusetup(&[&["apply", "--yes", "--accept-eula"], &wish[..]].concat())
            .succeeds()
    });
    assert_eq!(host.ask("readlink /usr/local/cuda"), "cuda-12.4");
    timed("three compile", || {
        SERIES.iter().for_each(|series| compiles(&host, series))
    });
    let again = host.gpusetup(&[&["plan", "--exit-code"], &wish[..]].concat());
    assert_eq!(again.code, Some(0), "{}", again.out);
    are_listed(&host, &SERIES);
    let before = host.clone_as("three-toolkits-before");
    let user = 1000;
    for (home, owner) in [("/root", 0), ("/home/ann", user)] {
        let file = host.path(&format!("{home}/.bashrc"));
        fs::create_dir_all(file.parent().expect("a home")).expect("made");
        fs::write(&file, BASHRC).expect("written");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).expect("set");
        chown(&file, Some(owner), Some(owner)).expect("root may");
    }
    chown(host.path("/home/ann"), Some(user), Some(user)).expect("root may");
    host.ask("echo ann:x:1000:1000::/home/ann:/bin/bash >>/etc/passwd");
    let shown = host
        .gpusetup(&["uninstall", "--cuda", "11.8", "--dry-run"])
        .succeeds()
        .out;
    assert!(
        shown.contains("- export PATH=/usr/local/cuda-11.8/bin"),
        "{shown}"
    );
    timed("uninstall", || {
        host.gpusetup(&["uninstall", "--cuda", "11.8", "--yes"])
            .succeeds()
    });
    assert!(!host.path("/usr/local/cuda-11.8").exists());
    for (home, owner) in [("/root", 0), ("/home/ann", user)] {
        let file = host.path(&format!("{home}/.bashrc"));
        assert_eq!(fs::read_to_string(&file).expect("there"), EDITED);
        let meta = fs::metadata(&file).expect("there");
        let uid = std::os::unix::fs::MetadataExt::uid(&meta);
        assert_eq!((meta.permissions().mode() & 0o7777, uid), (0o600, owner));
    }
    timed("two compile", || {
        ["12.4", "13.4"]
            .iter()
            .for_each(|series| compiles(&host, series))
    });
    assert_eq!(host.ask("readlink /usr/local/cuda"), "cuda-12.4");
    are_listed(&host, &["12.4", "13.4"]);
    // Another toolkit becomes the default, for a login shell too.
    host.gpusetup(&["use", "cuda", "13.4", "--yes"]).succeeds();
    assert!(by_login(&host).contains("release 13.4"));
    host.gpusetup(&["rollback", "--yes"]).succeeds();
    assert!(by_login(&host).contains("release 12.4"));
    let left = differences(
        &before.path("/usr/local/cuda-12.4"),
        &host.path("/usr/local/cuda-12.4"),
        &[],
    );
    assert_eq!(left, [""; 0], "the other toolkits are as they were");
    let pruned = timed("prune", || {
        host.gpusetup(&["prune", "--yes", "--json"])
            .succeeds()
            .json()
    });
    assert!(pruned["bytes"].as_u64() > Some(100_000_000), "{pruned}");
    timed("uninstall", || {
        host.gpusetup(&["uninstall", "--cuda", "12.4", "--yes"])
            .succeeds()
    });
    // Its own uninstaller removed it for good, so the link stays with the toolkit that is there.
    let back = host.gpusetup(&["rollback", "--yes"]).succeeds();
    assert!(
        back.err.contains("not brought back: /usr/local/cuda-12.4"),
        "{}",
        back.err
    );
    assert!(
        !back.out.contains("cuda-uninstaller"),
        "it was not undone: {}",
        back.out
    );
    assert_eq!(host.ask("readlink /usr/local/cuda"), "cuda-13.4");
    timed("uninstall", || {
        host.gpusetup(&["uninstall", "--cuda", "13", "--yes"])
            .succeeds()
    });
    assert_eq!(
        host.ask("ls -d /usr/local/cuda* || true"),
        "",
        "the link goes with the last toolkit"
    );
}

/// Compiles and links a program with a kernel; what it prints without a GPU is not of interest
/// here.
fn compiles(host: &Host, series: &str) {
    fs::write(
        host.path("/root/t.cu"),
        "#include <cstdio>\n__global__ void k() {}\nint main() { k<<<1, 1>>>(); puts(\"started\"); }\n",
    )
    .expect("the host takes a file");
    let nvcc = format!("/usr/local/cuda-{series}/bin/nvcc");
    assert!(
        host.ask(&format!("{nvcc} --version"))
            .contains(&format!("release {series}"))
    );
    assert_eq!(
        host.ask(&format!(
            "cd /root && {nvcc} -arch=sm_80 -o t t.cu && ./t && rm t t.cu"
        )),
        "started"
    );
}

fn are_listed(host: &Host, series: &[&str]) {
    let list = host.gpusetup(&["list", "--json"]).succeeds().json();
    let toolkits = list["toolkits"].as_array().expect("toolkits");
    assert_eq!(toolkits.len(), series.len(), "{list}");
    for toolkit in toolkits {
        let path = toolkit["path"].as_str().expect("a path");
        assert_eq!(
            (toolkit["installed_by"].as_str(), toolkit["way"].as_str()),
            (Some("gpusetup"), Some("runfile"))
        );
        assert_eq!(toolkit["default"], path == "/usr/local/cuda-12.4");
        let used: u64 = host
            .ask(&format!("du -sx --block-size=1 {path} | cut -f1"))
            .parse()
            .expect("a number");
        assert_eq!(toolkit["bytes"].as_u64(), Some(used), "{path}");
    }
}

fn by_login(host: &Host) -> String {
    host.ask("env -i HOME=/root sh -lc 'nvcc --version'")
}

/// With the system's real alternatives.
#[test]
#[ignore = "needs root and a throw-away host: tests/run runs it"]
fn a_switch_among_alternatives_is_the_systems() {
    let host = Host::new("alternatives");
    pretend(&host);
    let register = |series: &str, priority: u8| {
        host.ask(&format!(
            "update-alternatives --quiet --install /usr/local/cuda cuda /usr/local/cuda-{series} {priority}"
        ))
    };
    register("12.4", 124);
    register("11.8", 118);
    let query = || host.ask("update-alternatives --query cuda");
    let chosen = |series: &str| query().contains(&format!("\nValue: /usr/local/cuda-{series}\n"));
    let knows =
        |series: &str| query().contains(&format!("\nAlternative: /usr/local/cuda-{series}\n"));
    // One that is registered, and one that is not.
    for (series, is_registered) in [("11.8", true), ("13.4", false)] {
        host.gpusetup_plain(&["use", "cuda", series, "--yes"])
            .succeeds();
        assert!(chosen(series), "{}", query());
        assert!(by_login(&host).starts_with(&format!("release {series},")));
        host.gpusetup_plain(&["rollback", "--yes"]).succeeds();
        assert!(chosen("12.4"), "{}", query());
        assert_eq!(knows(series), is_registered, "{}", query());
    }
    host.gpusetup_plain(&["uninstall", "--cuda", "12.4", "--yes"])
        .succeeds();
    assert!(
        chosen("13.4") && !knows("12.4"),
        "the newest, although it was no alternative: {}",
        query()
    );
    assert!(
        host.gpusetup_plain(&["rollback", "--yes"])
            .err
            .contains("not brought back: /usr/local/cuda-12.4")
    );
}

/// Toolkits of which only nvcc is there, and tells its release.
fn pretend(host: &Host) {
    for series in SERIES {
        let nvcc = host.path(&format!("/usr/local/cuda-{series}/bin/nvcc"));
        fs::create_dir_all(nvcc.parent().expect("a folder")).expect("made");
        fs::create_dir_all(host.path(&format!("/usr/local/cuda-{series}/lib64"))).expect("made");
        fs::write(
            &nvcc,
            format!("#!/bin/sh\necho release {series}, V{series}.1\n"),
        )
        .expect("written");
        fs::set_permissions(&nvcc, fs::Permissions::from_mode(0o755)).expect("set");
    }
}

#[test]
#[ignore = "needs root and a throw-away host: tests/run runs it"]
fn a_switch_that_is_killed_is_whole_or_was_none() {
    bench();
    let seed = seed();
    println!("  seed {seed}");
    let host = Host::new("switched");
    pretend(&host);
    let began = Instant::now();
    host.gpusetup_plain(&["use", "cuda", SERIES[0], "--yes"])
        .succeeds();
    host.gpusetup_plain(&["use", "cuda", SERIES[1], "--yes"])
        .succeeds();
    let mut whole = began.elapsed() / 2;
    let (ended, missing) = (AtomicBool::new(false), AtomicBool::new(false));
    let link = host.path("/usr/local/cuda");
    let (mut switched, mut fractions) = (0, Fractions::of(seed));
    timed("kills", || {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !ended.load(Ordering::Relaxed) {
                    if fs::read_link(&link).is_err() {
                        missing.store(true, Ordering::Relaxed);
                    }
                }
            });
            for round in 0..ROUNDS {
                if round % OF_A_JOURNAL == 0 {
                    fs::remove_dir_all(host.path("/var/lib/gpusetup")).expect("removed");
                }
                let before = fs::read_link(&link).expect("a link");
                let wanted = SERIES[round % SERIES.len()];
                killed(
                    &host,
                    &["use", "cuda", wanted, "--yes"],
                    whole.mul_f64(fractions.next()),
                );
                let ran = when_free(&host, &["resume", "--yes"]);
                alone(&host);
                let now = fs::read_link(&link).expect("a link");
                let wanted = format!("cuda-{wanted}");
                // It died before the journal knew of it, so before the first change, or after the
                // last.
                let is_old = ran.out.starts_with("Nothing to resume") && now == before;
                assert!(
                    is_old || now.to_str() == Some(&wanted),
                    "round {round}: {} {now:?}",
                    ran.out
                );
                switched += usize::from(!is_old);
                // On a busy machine a switch takes longer: about half of them are to come to their
                // end.
                whole = whole.mul_f64(if is_old { 1.05 } else { 0.95 });
                agree(&host, text(&now));
            }
            ended.store(true, Ordering::Relaxed);
        });
    });
    assert!(
        !missing.load(Ordering::Relaxed),
        "the link was missing for a moment"
    );
    println!("  {switched} of {ROUNDS} switches came to their end");
    assert!(switched > ROUNDS / 4, "{switched}");
    host.gpusetup_plain(&["prune", "--yes"]).succeeds();
}

/// The link, the loader's path and PATH lead to one toolkit.
fn agree(host: &Host, toolkit: &str) {
    let loader =
        fs::read_to_string(host.path("/etc/ld.so.conf.d/gpusetup-cuda.conf")).expect("there");
    assert!(loader.ends_with("/usr/local/cuda/lib64\n"), "{loader}");
    let series = toolkit.strip_prefix("cuda-").expect("a toolkit");
    assert!(
        by_login(host).starts_with(&format!("release {series},")),
        "{toolkit}"
    );
}
