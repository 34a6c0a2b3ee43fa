//! The gallery of sick hosts: clones of a real host that the real tools have made ill, each with a
//! healthy twin that looks like it. `gpusetup doctor` must say what is wrong, all of it, nothing
//! else, and what to do first. `tests/run` runs this: it takes root, and minutes.
//!
//! A case is a few lines of shell in `gallery/`, told in the words of `gallery/words.sh`. A check
//! of which no host is sick, or that has no healthy twin, fails the test. `GPUSETUP_CASE=words`
//! runs only the cases of whose title these are a part.

mod around;
mod case;
mod cluster;
mod cuda;
mod driver;
mod kernel;
mod libraries;
mod log;
mod machines;
mod python;
mod several;

use crate::host::{Host, Kept, Ran, bench, machine, script, store, text, timed};
use crate::nvidia;
use crate::schema;
use crate::stack::{installed, planned};
use case::{Case, Finding, Several, Stage, differs};
use gpusetup::causes::elsewhere;
use gpusetup::doctor::CHECKS;
use std::collections::BTreeMap;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{LazyLock, Mutex, OnceLock};
use std::time::{Duration, Instant, SystemTime};

const WORDS: &str = include_str!("gallery/words.sh");

fn cases() -> Vec<&'static Case> {
    [
        driver::CASES,
        kernel::CASES,
        log::CASES,
        cuda::CASES,
        libraries::CASES,
        around::CASES,
        cluster::CASES,
        machines::CASES,
        python::CASES,
    ]
    .into_iter()
    .flatten()
    .collect()
}

#[test]
#[ignore = "needs root and a throw-away host: tests/run runs it"]
fn doctor_finds_what_is_wrong_and_nothing_else() {
    for case in cases().iter().filter(|c| c.is_sick()) {
        assert_eq!(
            case.own().count(),
            1,
            "{}: one illness, one finding, and what follows from it",
            case.what
        );
    }
    let wanted = std::env::var("GPUSETUP_CASE").unwrap_or_default();
    let all = cases();
    let single: Vec<_> = all.iter().filter(|c| c.what.contains(&wanted)).collect();
    let several: Vec<_> = several::CASES
        .iter()
        .filter(|c| c.what.contains(&wanted))
        .collect();
    let stages = stages();
    let diagnosed = timed("cases", || {
        at_once(&single, |n, case| examine_one(stages, n, case))
    });
    let together = timed("several illnesses", || {
        at_once(&several, |n, case| examine_several(stages, n, case, &all))
    });
    let wrong: Vec<_> = diagnosed
        .iter()
        .chain(&together)
        .filter_map(|w| w.as_ref())
        .collect();
    for wrong in &wrong {
        println!("{wrong}");
    }
    let uncovered = table(&single);
    tell(&single, &diagnosed, &together);
    assert!(
        wrong.is_empty(),
        "{} hosts were not diagnosed right",
        wrong.len()
    );
    assert!(
        !wanted.is_empty() || uncovered.is_empty(),
        "no sick host, or no healthy twin: {uncovered:?}"
    );
}

#[test]
#[ignore = "needs root and a throw-away host: tests/run runs it"]
fn a_program_that_hangs_costs_its_limit_and_no_more() {
    let [host, other] = ["gallery-hangs", "gallery-waits"].map(|name| {
        let host = stages().of(Stage::Sound).clone_as(name);
        running(&host);
        host
    });
    // What doctor takes here and now, beside whatever else runs.
    let usual = takes(&other, &[]);
    // Nor is an initramfs unpacked that must be sound by its age.
    tell_host(
        &host,
        "for name in nvidia-smi nvidia-persistenced lsinitramfs; do hangs /usr/bin/$name; done",
    );
    let quick = takes(&host, &[]);
    tell_host(&host, "hangs /usr/local/cuda-12.4/bin/nvcc");
    // The driver's library starts it for every program that asks for GPUs, also for the one of the
    // compile check.
    tell_host(&other, "hangs /usr/bin/nvidia-modprobe");
    let (slow, slower) = std::thread::scope(|scope| {
        let slower = scope.spawn(|| takes(&other, &[]));
        (
            takes(&host, &["GS709 fail"]),
            slower.join().expect("no panic beside"),
        )
    });
    // The limits are 5, 20 and 60 seconds, and 5 to come to an end.
    for (took, most) in [(quick, 10), (slow, 35), (slower, 80)] {
        assert!(
            took < usual + Duration::from_secs(most),
            "{took:?}, usually {usual:?}"
        );
    }
    let [quick, slow, slower] = [quick, slow, slower].map(|took| took.as_secs_f64());
    println!(
        "  programs hang: {quick:.1} s; nvcc hangs: {slow:.1} s; nvidia-modprobe hangs: {slower:.1} s"
    );
}

/// How long doctor takes, who finds this.
fn takes(host: &Host, found: &[&str]) -> Duration {
    let start = Instant::now();
    let ran = doctor(host, true, &["--json"]);
    let took = start.elapsed();
    let short: Vec<_> = beside_old_versions(findings(&ran, ""), |_| false)
        .into_iter()
        .map(|f| f.short)
        .collect();
    assert_eq!(short, found, "{}", ran.out);
    took
}

fn stages() -> &'static Stages {
    static STAGES: OnceLock<Stages> = OnceLock::new();
    STAGES.get_or_init(|| timed("hosts to start from", Stages::make))
}

/// The hosts that cases begin with.
struct Stages(BTreeMap<Stage, Kept>);

impl Stages {
    /// All of them; the first time that is as long as an apply of the whole stack.
    fn make() -> Self {
        let planned = planned();
        let installed = installed(&planned);
        let made = |from: &Kept, stage: Stage| {
            let key = format!(
                "{planned}\n{WORDS}\n{}\n{}",
                Stage::Sound.script(),
                stage.script()
            );
            Kept::host(
                stage.name(),
                &key,
                || from.clone_as("gallery-new"),
                |host| tell_host(host, stage.script()),
            )
        };
        let sound = made(&installed, Stage::Sound);
        let bare = Kept::host(
            "bare",
            &format!("{}{WORDS}", text(&bench().base)),
            || Host::new("gallery-new"),
            |host| {
                tell_host(host, Stage::Bare.script());
            },
        );
        let mut all: BTreeMap<_, _> = [Stage::Nouveau, Stage::Nova, Stage::Splash, Stage::Slurm]
            .map(|stage| (stage, made(&sound, stage)))
            .into();
        all.insert(Stage::Sound, sound);
        all.insert(Stage::Bare, bare);
        Self(all)
    }

    fn of(&self, stage: Stage) -> &Kept {
        &self.0[&stage]
    }
}

/// Runs a case's script in a host.
fn tell_host(host: &Host, script: &str) {
    host.sh(&format!("{WORDS}\n{script}")).succeeds();
}

/// Makes a host one that runs, with NVIDIA's libraries as if there were more GPUs than any case
/// has.
fn running(host: &Host) {
    script(
        "../as_root/gallery/running",
        &[text(&host.root()), env!("CARGO_BIN_EXE_gpusetup")],
    );
    let live = host.root().join("live");
    let answers = std::fs::read_to_string(live.join("answers")).unwrap_or_default();
    std::fs::create_dir_all(live.join("libraries")).expect("made");
    nvidia::put(&live.join("libraries"), &format!("{answers}count=8\n"));
}

/// Programs that compile checks made in this run, by what they were made of (`gallery/nvcc`).
static COMPILED: LazyLock<PathBuf> = LazyLock::new(|| {
    let folder = store().join("compiled");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir(&folder).expect("made");
    // The check compiles as nobody.
    std::fs::set_permissions(&folder, Permissions::from_mode(0o1777)).expect("ours");
    folder
});

/// Has a host that runs not compile again what another host with the same compilers compiled,
/// unless its nvcc is ill.
fn compiles_once(stages: &Stages, host: &Host) {
    static SOUND: OnceLock<(u64, SystemTime)> = OnceLock::new();
    let path = |host: &Host| host.path("/usr/local/cuda-12.4/bin/nvcc");
    let is = |host: &Host| {
        path(host)
            .symlink_metadata()
            .ok()
            .map(|m| (m.len(), m.modified().expect("ext4 has it")))
    };
    let sound = SOUND.get_or_init(|| {
        is(&stages.of(Stage::Sound).clone_as("gallery-nvcc")).expect("it has nvcc")
    });
    if is(host) != Some(*sound) {
        return;
    }
    let nvcc = path(host);
    std::fs::rename(&nvcc, nvcc.with_file_name("nvcc-real")).expect("renamed");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/as_root/gallery/nvcc");
    std::fs::copy(script, &nvcc).expect("copied");
    let folder = host.path("/live/compiled");
    std::fs::create_dir(&folder).expect("made");
    machine("mount", &["--bind", text(&COMPILED), text(&folder)]).succeeds();
}

/// What doctor says: from inside, as on any host that runs, or from outside of a tree.
fn doctor(host: &Host, runs: bool, arguments: &[&str]) -> Ran {
    if !runs {
        let verb: Vec<_> = ["doctor"].iter().chain(arguments).copied().collect();
        let mut ran = host.gpusetup_plain(&verb);
        // Commands for a tree run in it; the table has what runs there.
        let root = text(&host.root()).to_owned();
        ran.out = ran
            .out
            .replace(&format!("chroot {root} "), "")
            .replace(&format!(" --root {root}"), "");
        return ran;
    }
    let root = host.root();
    let stand_ins = nvidia::stand_ins(Path::new("/live/libraries"));
    let command = [
        text(&root),
        "env",
        &stand_ins,
        "/live/bin/gpusetup",
        "doctor",
        "--kernel-log",
        "/live/log",
    ];
    machine(
        "chroot",
        &command.iter().chain(arguments).copied().collect::<Vec<_>>(),
    )
}

/// With `KEEP_REPORTS=DIR`: what doctor saw, anonymised, for `tests/golden/reports.tar.zst`.
fn keep_report(host: &Host, runs: bool, what: &str, arguments: &[&str]) {
    let Some(folder) = std::env::var_os("KEEP_REPORTS") else {
        return;
    };
    let report = host.root().join("report.tar.zst");
    let path = if runs {
        "/report.tar.zst"
    } else {
        text(&report)
    };
    let ran = doctor(host, runs, &[&["--report", path], arguments].concat());
    let name: String = what
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
        .collect();
    let kept = Path::new(&folder).join(format!("{name}.tar.zst"));
    std::fs::copy(&report, &kept).unwrap_or_else(|e| panic!("{what}: {e}: {}{}", ran.out, ran.err));
}

/// The findings of a report, apart from what passed or did not apply.
fn findings(ran: &Ran, kernel: &str) -> Vec<Finding> {
    let report = ran.json();
    assert_eq!(schema::mistakes("doctor.json", &report), [""; 0]);
    let checks = report["checks"].as_array().expect("checks");
    checks
        .iter()
        .filter_map(|check| Finding::of(check, kernel))
        .collect()
}

/// The checks that warn of every host here: its driver and its toolkit are Debian's and an old one,
/// which NVIDIA does not maintain any more.
const OLD: [&str; 2] = ["GS510", "GS513"];

/// The findings of a host that are not of its age, except the ones that a case is about.
fn beside_old_versions(
    mut findings: Vec<Finding>,
    is_about: impl Fn(&str) -> bool,
) -> Vec<Finding> {
    let of_age = OLD.into_iter().filter(|id| !is_about(id));
    let of_age: Vec<_> = of_age.map(|id| format!("{id} warn")).collect();
    findings.retain(|finding| !of_age.contains(&finding.short));
    findings
}

/// What is wrong with the diagnosis of one host, if anything.
fn examine_one(stages: &Stages, n: usize, case: &Case) -> Option<String> {
    let host = stages.of(case.from).clone_as(&format!("gallery-{n}"));
    tell_host(&host, case.script);
    let kernel = host
        .newest_kernel()
        .unwrap_or_else(|| "no kernel".to_owned());
    if case.runs {
        running(&host);
        compiles_once(stages, &host);
    }
    let ran = doctor(&host, case.runs, &[&["--json"], case.arguments].concat());
    keep_report(&host, case.runs, case.what, case.arguments);
    let found = beside_old_versions(findings(&ran, &kernel), |id| case.is_about(id));
    differs(case.what, case.found, case.first, &found, &ran.out)
}

/// The same of one with several illnesses; there it's the text for a person that says what is
/// first.
fn examine_several(stages: &Stages, n: usize, case: &Several, all: &[&Case]) -> Option<String> {
    let named = |what: &&str| {
        *all.iter()
            .find(|c| c.what == *what)
            .unwrap_or_else(|| panic!("there is no {what}"))
    };
    let parts: Vec<_> = case.of.iter().map(named).collect();
    let from = parts
        .iter()
        .map(|p| p.from)
        .find(|s| *s != Stage::Sound)
        .unwrap_or(Stage::Sound);
    let host = stages.of(from).clone_as(&format!("gallery-several-{n}"));
    for part in &parts {
        tell_host(&host, part.script);
    }
    tell_host(&host, case.script);
    let kernel = host
        .newest_kernel()
        .unwrap_or_else(|| "no kernel".to_owned());
    running(&host);
    compiles_once(stages, &host);
    let ran = doctor(&host, true, &["--json"]);
    let shown = doctor(&host, true, &["--color", "never"]);
    keep_report(&host, true, case.what, &[]);
    let found = beside_old_versions(findings(&ran, &kernel), |_| false);
    let wrong = differs(case.what, case.found, case.first, &found, &ran.out);
    // A line of the text may be broken; its words are not.
    let words = |text: &str| {
        text.split_whitespace()
            .collect::<Vec<_>>()
            .join(" ")
            .replace(&*kernel, "KERNEL")
    };
    let (id, command) = case.first.split_once(": ").expect("ID: command");
    let first = shown
        .out
        .split_once("First ")
        .map(|(_, rest)| words(rest))
        .unwrap_or_default();
    let right = first.starts_with(&format!("{id}: ")) && first.contains(&words(command));
    wrong.or_else(|| (!right).then(|| format!("{}: the text says first {first:?}", case.what)))
}

/// Some at once: gpusetup waits for programs and disks part of the time. A case that breaks off is
/// wrong too.
fn at_once<T: Sync>(
    cases: &[T],
    work: impl Fn(usize, &T) -> Option<String> + Sync,
) -> Vec<Option<String>> {
    let (next, results) = (AtomicUsize::new(0), Mutex::new(vec![None; cases.len()]));
    let workers = std::thread::available_parallelism().map_or(2, usize::from) + 1;
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some((n, case)) = Some(next.fetch_add(1, Ordering::Relaxed))
                    .and_then(|n| Some((n, cases.get(n)?)))
                {
                    let result = catch_unwind(AssertUnwindSafe(|| work(n, case)));
                    let result = result
                        .unwrap_or_else(|_| Some(format!("case {n} broke off, as said above")));
                    results.lock().expect("no panic beside")[n] = result;
                }
            });
        }
    });
    results.into_inner().expect("no panic beside")
}

/// Prints the table of ids, each with its check, or why there is none, and the cases that show it;
/// the checks that are not covered.
fn table(cases: &[&&Case]) -> Vec<&'static str> {
    let mut uncovered = Vec::new();
    let shown = |id: &str, sick: bool| {
        let about: Vec<_> = cases
            .iter()
            .filter(|c| c.is_about(id) && c.is_sick() == sick)
            .collect();
        let kind = if sick { "sick" } else { "healthy" };
        about
            .iter()
            .for_each(|case| println!("           {kind:7}  {}", case.what));
        about.is_empty()
    };
    println!();
    for check in CHECKS {
        println!("  {}  {}", check.id, check.title());
        if shown(check.id.as_str(), true) | shown(check.id.as_str(), false) {
            uncovered.push(check.id.as_str());
        }
    }
    for (id, place) in elsewhere(gpusetup_data::causes()) {
        println!("  {id}  {}: {place}", id.title());
        shown(id.as_str(), true);
        shown(id.as_str(), false);
    }
    uncovered
}

fn tell(single: &[&&Case], diagnosed: &[Option<String>], together: &[Option<String>]) {
    let right = |sick: bool| {
        let of = single
            .iter()
            .zip(diagnosed)
            .filter(|(c, _)| c.is_sick() == sick);
        (
            of.clone().count(),
            of.filter(|(_, wrong)| wrong.is_none()).count(),
        )
    };
    let ((sick, sick_right), (healthy, healthy_right)) = (right(true), right(false));
    let (several, several_right) = (
        together.len(),
        together.iter().filter(|w| w.is_none()).count(),
    );
    println!(
        "\n  {sick} sick hosts, {sick_right} diagnosed right; {healthy} healthy twins, {healthy_right} without alarm; \
         {several} hosts with several illnesses, {several_right} with the right thing first\n"
    );
}
