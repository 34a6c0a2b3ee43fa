//! Attacks on gpusetup while it runs as root on data that other users control: a tree (`--root`), a
//! plan, a bundle, a cache.
//!
//! - Placements: every path that gpusetup opens, found by strace, is replaced by links, FIFOs,
//!   devices and directories.
//! - Races: a second process exchanges two names while gpusetup opens them.
//! - Replays: every attack that succeeded on commit e836608.
//!
//! `tests/run` runs a sample. The full run takes about half an hour on two idle cores:
//!
//! ```text
//! GPUSETUP_HOSTILE=full unshare --mount --propagation private \
//!     cargo test --test as_root -- --ignored --nocapture --test-threads=1 hostile::
//! ```
//!
//! `GPUSETUP_CASE='db update: store'` runs every placement whose description contains these words.
//!
//! The attacks must succeed on the code of commit e836608, or they prove nothing. `GPUSETUP_BINARY`
//! names the program to attack; with `GPUSETUP_EXPECT=won` the tests fail when an attack does *not*
//! succeed:
//!
//! ```text
//! git worktree add target/e836608 e836608
//! (cd target/e836608 && cargo build)
//! GPUSETUP_BINARY=$PWD/target/e836608/target/debug/gpusetup GPUSETUP_EXPECT=won unshare --mount --propagation private \
//!     cargo test --test as_root -- --ignored --nocapture --test-threads=1 hostile::
//! ```

mod bench;
mod model;
mod outside;
mod placement;
mod plans;
mod race;
mod replay;
mod trace;

use crate::sampled;
use bench::{Bench, sum};
use placement::{Placement, Scenario};
use std::collections::BTreeSet;
use std::time::Instant;

/// Whether to run every attack instead of a sample.
fn is_full() -> bool {
    std::env::var("GPUSETUP_HOSTILE").is_ok_and(|how| how == "full")
}

/// Whether the attacked program is known to be vulnerable, so that every attack must succeed.
fn is_vulnerable() -> bool {
    std::env::var("GPUSETUP_EXPECT").is_ok_and(|what| what == "won")
}

/// Placements, if not all of them.
fn placements() -> usize {
    sampled(100, 500)
}

/// Rounds of each race, if not all of them.
fn rounds() -> usize {
    sampled(3, 10)
}
/// Rounds that are enough to win a race that can be won.
const ROUNDS_UNTIL_WON: usize = 400;
/// Rounds of all races together in the full run.
const ROUNDS_IN_FULL: usize = 10_000;

fn scenarios(bench: &Bench) -> Vec<Scenario> {
    const TREE: [&str; 2] = ["--root", "{}/tree"];
    const WRITES: [&str; 5] = ["--root", "{}/tree", "--yes", "--lock-timeout", "0"];
    let applied = ["apply", "{}/in/plan.json", "--accept-eula", "--offline"];
    let fresh = &bench.host;
    let after = |what: &[&str], code| bench.after(fresh, &[what, &WRITES].concat(), code);
    let (done, failed) = (
        after(&applied, 0),
        after(
            &["apply", "{}/in/fail.json", "--accept-eula", "--offline"],
            7,
        ),
    );
    let waiting = after(
        &[
            "apply",
            "{}/in/reboot.json",
            "--accept-eula",
            "--offline",
            "--reboot",
            "external",
        ],
        0,
    )
    .with(
        "tree/proc/sys/kernel/random/boot_id",
        "22222222-2222-2222-2222-222222222222\n",
    )
    .with("tree/var/lib/gpusetup/gpusetup", "a copy of the program");
    let reads = |name, what: &[&'static str], host: &model::Model| Scenario {
        name,
        host: host.clone(),
        arguments: [what, &TREE].concat(),
    };
    let writes = |name, what: &[&'static str], host: &model::Model| Scenario {
        name,
        host: host.clone(),
        arguments: [what, &WRITES].concat(),
    };
    let mut all = vec![
        reads("facts", &["facts"], fresh),
        reads("plan", &["plan", "--out", "{}/made.json"], fresh),
        reads("doctor", &["doctor"], &done),
        reads("status", &["status"], &done),
        reads("reboot-required", &["reboot-required"], &waiting),
        reads("cache verify", &["cache", "verify"], &done),
        writes("doctor --fix", &["doctor", "--fix"], &done),
        writes("apply", &applied, fresh),
        writes("apply again", &applied, &failed),
        writes(
            "apply, with a reboot",
            &[
                "apply",
                "{}/in/reboot.json",
                "--accept-eula",
                "--offline",
                "--reboot",
                "external",
            ],
            fresh,
        ),
        writes(
            "apply, from a bundle",
            &["apply", "--accept-eula", "--bundle", "{}/in/bundle"],
            fresh,
        ),
        writes("resume", &["resume"], &waiting),
        writes("resume what failed", &["resume"], &failed),
        writes("rollback", &["rollback"], &done),
        writes("rollback of what failed", &["rollback"], &failed),
        writes("uninstall", &["uninstall"], &done),
        writes("uninstall --cuda", &["uninstall", "--cuda", "12.4"], &done),
    ];
    all.push(Scenario {
        name: "bundle create",
        host: fresh.clone(),
        arguments: race::CREATE.to_vec(),
    });
    all.push(bench.update());
    all
}

#[test]
#[ignore = "needs root and strace: tests/run runs it"]
fn nothing_in_a_tree_leads_out_of_it() {
    let bench = Bench::new();
    let scenarios = scenarios(&bench);
    let all: Vec<Vec<Placement>> = scenarios
        .iter()
        .map(|scenario| scenario.placements(&bench))
        .collect();
    for (scenario, all) in scenarios.iter().zip(&all) {
        let paths: BTreeSet<_> = all.iter().map(|placement| &placement.path).collect();
        println!(
            "  {:<24} {:>4} paths, {:>5} placements",
            scenario.name,
            paths.len(),
            all.len()
        );
        assert!(paths.len() > 2, "strace saw no path of {}", scenario.name);
    }
    let mut all: Vec<Placement> = all.into_iter().flatten().collect();
    println!("  {} placements in all", all.len());
    // By hash, so that a sample is always the same and covers all commands.
    all.sort_by_key(|placement| sum(placement.describe().as_bytes()));
    match std::env::var("GPUSETUP_CASE") {
        Ok(words) => all.retain(|placement| placement.describe().contains(&words)),
        Err(_) if is_full() => {}
        Err(_) => all.truncate(placements()),
    }
    assert!(!all.is_empty(), "there is no such placement");
    let began = Instant::now();
    let tally = placement::attack(&bench, &all);
    for (command, (count, escaped)) in &tally.commands {
        println!("  {command:<24} {count:>5} placements, {escaped} escapes");
    }
    println!("  harm: {:?}", tally.harms);
    println!(
        "{} placements, {} escapes, {:.0} s",
        all.len(),
        tally.escapes.len(),
        began.elapsed().as_secs_f64()
    );
    if is_vulnerable() {
        assert!(
            !tally.escapes.is_empty(),
            "the attacked program is known to follow links"
        );
    } else {
        assert_eq!(tally.escapes, [""; 0]);
    }
}

#[test]
#[ignore = "needs root: tests/run runs it"]
fn no_race_is_won() {
    let bench = Bench::new();
    let stories = race::stories();
    let rounds_of_each = match (is_full(), is_vulnerable()) {
        (true, _) => ROUNDS_IN_FULL.div_ceil(stories.len()),
        (false, true) => ROUNDS_UNTIL_WON,
        (false, false) => rounds(),
    };
    let (mut all, mut wins, mut lost, mut troubles) = (0, 0, Vec::new(), Vec::new());
    for story in &stories {
        let began = Instant::now();
        let rounds = if story.name == race::NEVER_WON && !is_full() {
            rounds()
        } else {
            rounds_of_each
        };
        let races = story.run(&bench, &bench.host, rounds, is_vulnerable() && !is_full());
        let seconds = began.elapsed().as_secs_f64();
        println!(
            "  {:<42} {:>5} rounds, {:>4} won, {seconds:.0} s",
            story.name, races.rounds, races.wins
        );
        all += races.rounds;
        wins += races.wins;
        if races.wins == 0 {
            lost.push(story.name);
        }
        troubles.extend(races.troubles);
    }
    println!("{all} rounds, {wins} won");
    if is_vulnerable() {
        lost.retain(|name| *name != race::NEVER_WON);
        assert_eq!(lost, [""; 0], "these were not won");
    } else {
        assert_eq!((wins, troubles), (0, Vec::new()));
    }
}

#[test]
#[ignore = "needs root: tests/run runs it"]
fn no_attack_succeeds_that_once_did() {
    let bench = Bench::new();
    let mut unexpected = Vec::new();
    for attack in replay::ATTACKS {
        let won = (attack.succeeds)(&bench);
        println!(
            "  {:<4} {:<42} {}",
            attack.finding,
            attack.what,
            if won { "won" } else { "lost" }
        );
        if won != is_vulnerable() {
            unexpected.push(attack.what);
        }
    }
    assert_eq!(unexpected, [""; 0]);
}
