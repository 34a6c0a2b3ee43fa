//! Attacks on gpusetup when it works as root where others have been, or are at work: below a tree of theirs, on their plans and
//! bundles, in folders that they may write. `tests/run` makes a part of them. All of them, which takes a quarter of an hour on two cores:
//!
//! ```text
//! GPUSETUP_HOSTILE=full unshare --mount --propagation private \
//!     cargo test --test as_root -- --ignored --nocapture --test-threads=1 hostile::
//! ```
//!
//! That they can succeed is shown by an older gpusetup, which they do harm through. `GPUSETUP_BINARY` names the program that is
//! attacked, and with `GPUSETUP_EXPECT=won` the tests fail when an attack is *not* won that is known to be:
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

use bench::{Bench, sum};
use placement::{Placement, Scenario};
use std::collections::BTreeSet;
use std::time::Instant;

/// Whether all attacks are made, or a part of them.
fn is_full() -> bool {
    std::env::var("GPUSETUP_HOSTILE").is_ok_and(|how| how == "full")
}

/// Whether the program that is attacked is one that they succeed on.
fn are_to_be_won() -> bool {
    std::env::var("GPUSETUP_EXPECT").is_ok_and(|what| what == "won")
}

/// Placements in a sample.
const SAMPLE: usize = 700;

/// Rounds of races in a sample, and in full.
const ROUNDS: (usize, usize) = (240, 10_000);

fn scenarios(bench: &Bench) -> Vec<Scenario> {
    const TREE: [&str; 2] = ["--root", "{}/tree"];
    const WRITES: [&str; 5] = ["--root", "{}/tree", "--yes", "--lock-timeout", "0"];
    let applied = ["apply", "{}/in/plan.json", "--offline"];
    let fresh = &bench.host;
    let after = |what: &[&str], code| bench.after(fresh, &[what, &WRITES].concat(), code);
    let (done, failed) = (after(&applied, 0), after(&["apply", "{}/in/fail.json", "--offline"], 7));
    let waiting = after(&["apply", "{}/in/reboot.json", "--offline", "--reboot", "external"], 0)
        .with("tree/proc/sys/kernel/random/boot_id", "22222222-2222-2222-2222-222222222222\n")
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
        writes("apply, with a reboot", &["apply", "{}/in/reboot.json", "--offline", "--reboot", "external"], fresh),
        writes("apply, from a bundle", &["apply", "--bundle", "{}/in/bundle"], fresh),
        writes("resume", &["resume"], &waiting),
        writes("resume what failed", &["resume"], &failed),
        writes("rollback", &["rollback"], &done),
        writes("rollback of what failed", &["rollback"], &failed),
        writes("uninstall", &["uninstall"], &done),
        writes("uninstall --cuda", &["uninstall", "--cuda", "12.4"], &done),
    ];
    all.push(Scenario { name: "bundle create", host: fresh.clone(), arguments: race::CREATE.to_vec() });
    all.push(bench.update());
    all
}

#[test]
#[ignore = "needs root and strace: tests/run runs it"]
fn nothing_in_a_tree_leads_out_of_it() {
    let bench = Bench::new();
    let scenarios = scenarios(&bench);
    let all: Vec<Vec<Placement>> = scenarios.iter().map(|scenario| scenario.placements(&bench)).collect();
    for (scenario, all) in scenarios.iter().zip(&all) {
        let paths: BTreeSet<_> = all.iter().map(|placement| &placement.path).collect();
        println!("  {:<24} {:>4} paths, {:>5} placements", scenario.name, paths.len(), all.len());
        assert!(paths.len() > 2, "strace saw {} at work", scenario.name);
    }
    let mut all: Vec<Placement> = all.into_iter().flatten().collect();
    println!("  {} placements in all", all.len());
    // The same part every time, of all of them.
    all.sort_by_key(|placement| sum(placement.describe().as_bytes()));
    if !is_full() {
        all.truncate(SAMPLE);
    }
    let began = Instant::now();
    let tally = placement::attack(&bench, &all);
    for (command, (count, escaped)) in &tally.commands {
        println!("  {command:<24} {count:>5} placements, {escaped} escapes");
    }
    println!("  harm: {:?}", tally.harms);
    println!("{} placements, {} escapes, {:.0} s", all.len(), tally.escapes.len(), began.elapsed().as_secs_f64());
    if are_to_be_won() {
        assert!(!tally.escapes.is_empty(), "this gpusetup is known to follow links");
    } else {
        assert_eq!(tally.escapes, [""; 0]);
    }
}

#[test]
#[ignore = "needs root: tests/run runs it"]
fn no_race_is_won() {
    let bench = Bench::new();
    let stories = race::stories();
    let rounds = if is_full() { ROUNDS.1 } else { ROUNDS.0 }.div_ceil(stories.len());
    let (mut all, mut wins, mut lost, mut troubles) = (0, 0, Vec::new(), Vec::new());
    for story in &stories {
        let began = Instant::now();
        let races = story.run(&bench, &bench.host, rounds, false);
        let seconds = began.elapsed().as_secs_f64();
        println!("  {:<42} {:>5} rounds, {:>4} won, {seconds:.0} s", story.name, races.rounds, races.wins);
        all += races.rounds;
        wins += races.wins;
        if races.wins == 0 {
            lost.push(story.name);
        }
        troubles.extend(races.troubles);
    }
    println!("{all} rounds, {wins} won");
    if are_to_be_won() {
        assert!(!lost.iter().any(|name| race::KNOWN.contains(name)), "these were not won: {lost:?}");
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
        println!("  {:<4} {:<42} {}", attack.finding, attack.what, if won { "won" } else { "lost" });
        if won != are_to_be_won() {
            unexpected.push(attack.what);
        }
    }
    assert_eq!(unexpected, [""; 0]);
}
