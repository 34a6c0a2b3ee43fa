//! Carrying a plan out, operation by operation.

use super::account::{provisional, save};
use super::act::{Work, carry_out};
use super::boot::boot_id;
use super::config::RunConfig;
use super::events::noting;
use super::journal::{At, Event, Journal};
use super::keys::fetch_keys;
use super::network::{not_interrupted, with_network};
use super::news::{News, OnNews};
use super::prefetched::Prefetched;
use super::rollback::{remove_set_aside, take_back_torn};
use super::{Failure, bundled, preflight, reserve};
use gpusetup_database::sum::sha256;
use gpusetup_fetch::{FetchError, FetchRequest, fetch, is_cached};
use gpusetup_host::Enrolment;
use gpusetup_host::firmware::enrolment;
use gpusetup_operation::undo::Backups;
use gpusetup_operation::{Download, Operation, Reboot, Standing};
use gpusetup_plan::{Begun, Plan, State, StepId};
use gpusetup_system::System;
use gpusetup_text::paths::{BACKUPS, PLAN, RESULT};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// Operations carried out.
    pub(crate) done: usize,
    /// The host must boot before the rest.
    pub reboot_required: bool,
    /// Somebody must be at the console during that boot, and enrol a key.
    pub needs_console: bool,
}

impl Outcome {
    const fn of(done: usize) -> Self {
        Self {
            done,
            reboot_required: false,
            needs_console: false,
        }
    }
}

/// An apply boots a host this often at most: whatever a third boot is to bring about, two did not.
const REBOOTS: usize = 2;

/// Carries a plan out, or resumes it where an earlier run of the same plan stopped. Everything is
/// fetched and verified before the first change.
///
/// # Errors
///
/// With the exit code of its cause: what was done is in the journal, and the next run resumes
/// there.
pub fn apply(
    on: &System,
    plan: &Plan,
    mut config: RunConfig,
    tell: OnNews,
) -> Result<Outcome, Failure> {
    let tell: OnNews = &mut noting(on, tell);
    let mut journal = Journal::open(on)?;
    // The same plan again, ended or not: what it did is not done twice. But the state of a GPU does
    // not last as long as files do.
    let same = journal.newest_apply().filter(|a| {
        a.plan.fingerprint() == plan.fingerprint() && (!a.finished || gpus_stand(on, plan))
    });
    let left = same
        .as_ref()
        .map_or_else(|| plan.clone(), |same| remaining(plan, &same.done));
    let earlier: Vec<_> = same
        .iter()
        .flat_map(|a| &a.reboots)
        .map(|(at, b)| (*at, b.map(str::to_owned)))
        .collect();
    // An enrolment may be answered wrongly as often as somebody likes to try.
    let reboots = journal.open_apply().map_or(0, |o| {
        let own = o
            .reboots
            .iter()
            .filter(|(at, _)| !o.plan.needs_console(*at));
        o.earlier_reboots + own.count()
    });
    let source = bundled::package_source(plan, &config);
    config.brought = source.folder().map(Path::to_owned);
    preflight::check(on, &left, &source)?;
    bundled::check(on, &left, &config)?;
    preflight::can_be_had(on, &left, &config)?;
    if left.is_converged() && same.is_none_or(|a| a.finished) {
        return Ok(Outcome::of(0));
    }
    let backups = Backups::new(BACKUPS.into(), journal.intents());
    reserve::create(on, &left)?;
    tell(&News::Begins);
    begin(on, &mut journal, plan, config.brought.clone()).inspect_err(|_| reserve::release(on))?;
    // Noted before the downloads, which take minutes: a machine whose power goes then goes on
    // behind the next boot.
    let mut work = Work {
        journal,
        lent: gpusetup_operation::Work::new(backups),
        prefetched: Prefetched::default(),
    };
    let carried = carry(on, &left, &config, &mut work, (&earlier, reboots), tell);
    let Work {
        mut journal,
        prefetched,
        ..
    } = work;
    if !carried
        .as_ref()
        .is_ok_and(|outcome| outcome.reboot_required)
    {
        reserve::release(on);
    }
    if carried.is_err() {
        // What was unpacked for later is not to be found by anybody; where that fails, the next run
        // does it.
        drop(prefetched);
        let _ = take_back_torn(on, &mut journal, tell);
    }
    carried
}

/// Notes that a run begins, before it changes anything.
fn begin(
    on: &System,
    journal: &mut Journal,
    plan: &Plan,
    packages: Option<PathBuf>,
) -> Result<(), Failure> {
    journal.note(
        on,
        Event::Run {
            version: super::journal::VERSION,
            plan: Box::new(plan.clone()),
            packages,
        },
    )?;
    save(on, PLAN, plan).map_err(|e| Failure::Blocked(format!("cannot write {}: {e}", PLAN)))?;
    provisional(on, Some(plan))
        .map_err(|e| Failure::Blocked(format!("cannot write {}: {e}", RESULT)))
}

/// Fetches what is needed, then does step by step what is left of a plan. `reboots`: those that it
/// asked for, each with the boot before it, and how many there were in all.
fn carry(
    on: &System,
    left: &Plan,
    config: &RunConfig,
    work: &mut Work,
    (earlier, reboots): (&[(At, Option<String>)], usize),
    tell: OnNews,
) -> Result<Outcome, Failure> {
    bundled::bring(on, left, config, tell)?;
    fetch_keys(on, left, config, tell)?;
    let mut done = downloads(on, left, config, work, tell)?;
    for (s, step) in left.steps.iter().enumerate() {
        if step.state != State::Skipped {
            tell(&News::Step(step));
        }
        for (o, act) in step.operations.iter().enumerate() {
            let (at, operation) = ((s, o), &act.operation);
            not_interrupted()?;
            if let Operation::Reboot(Reboot { enrolls }) = operation {
                let goes_on = match enrolls {
                    Some(certificate) => is_enrolled(on, work, at, certificate)?,
                    None => {
                        let mut asked = earlier.iter().rev();
                        let asked = asked.find(|(asked, _)| *asked == at);
                        let before = asked.map(|(_, before)| before);
                        was_booted(on, work, at, (before, reboots), &step.why)?
                    }
                };
                if !goes_on {
                    return Ok(Outcome {
                        reboot_required: true,
                        needs_console: enrolls.is_some(),
                        ..Outcome::of(done)
                    });
                }
                tell(&News::Kept(operation));
                continue;
            }
            let standing = operation
                .stands(on, act.satisfied)
                .map_err(|e| Failure::Step(e.to_string()))?;
            match standing {
                Standing::Satisfied => {
                    if !matches!(operation, Operation::Download(_)) {
                        work.journal.note(on, Event::Kept { at })?;
                    }
                    tell(&News::Kept(operation));
                }
                Standing::Conflict(why) => return Err(Failure::Blocked(why)),
                Standing::Needed
                    if !config.attended && matches!(operation, Operation::EnrollKey(_)) =>
                {
                    return Err(Failure::Blocked(not_prepared(
                        operation,
                        act.satisfied || !earlier.is_empty(),
                    )));
                }
                Standing::Needed => {
                    if let Err(failure) = carry_out(on, work, at, operation, config, tell) {
                        return Err(failed(on, work, at, failure, tell)?);
                    }
                    done += usize::from(!operation.asks());
                    tell(&News::Done(operation));
                }
            }
        }
    }
    work.journal.note(on, Event::Finished {})?;
    remove_set_aside(on, &work.journal)?;
    bundled::remove_brought_packages(on, &config.package_source())?;
    Ok(Outcome::of(done))
}

/// Whether a key is enrolled; if not, a reboot is noted.
fn is_enrolled(on: &System, work: &mut Work, at: At, certificate: &Path) -> Result<bool, Failure> {
    let boot = boot_id(on);
    match stands_enrolled(on, certificate)? {
        Enrolment::Enrolled => Ok(true),
        Enrolment::Requested => {
            work.journal.note(on, Event::Reboot { at, boot })?;
            Ok(false)
        }
        Enrolment::Absent => Err(Failure::Blocked(gpusetup_causes::not_enrolled(certificate))),
    }
}

/// Whether the host was booted since the reboot was asked for; if not, a reboot is noted. `before`:
/// the boot in which it was. `reboots`: how many there were in all.
fn was_booted(
    on: &System,
    work: &mut Work,
    at: At,
    (before, reboots): (Option<&Option<String>>, usize),
    why: &str,
) -> Result<bool, Failure> {
    let boot = boot_id(on);
    match before {
        Some(before) if *before != boot => Ok(true),
        None if reboots >= REBOOTS => {
            let why =
                format!("the host was booted {reboots} times and still needs a reboot: {why}");
            let event = Event::Failed {
                at,
                why: why.clone(),
            };
            work.journal.note(on, event)?;
            Err(Failure::Step(why))
        }
        _ => {
            work.journal.note(on, Event::Reboot { at, boot })?;
            Ok(false)
        }
    }
}

/// Notes that an operation failed, undoes what it did, and returns why it failed.
fn failed(
    on: &System,
    work: &mut Work,
    at: At,
    failure: Failure,
    tell: OnNews,
) -> Result<Failure, Failure> {
    // A program that was ended because we are to stop failed for that reason and no other.
    let failure = not_interrupted().err().unwrap_or(failure);
    // The disk may be full, and noting that takes room.
    reserve::release(on);
    let event = Event::Failed {
        at,
        why: failure.to_string(),
    };
    work.journal.note(on, event)?;
    // Half of an operation is nothing that the next run could tell from all of it.
    take_back_torn(on, &mut work.journal, tell)?;
    Ok(failure)
}

/// Why an enrolment cannot be prepared. `before`: an earlier run prepared it, and shim has it no
/// more.
fn not_prepared(operation: &Operation, before: bool) -> String {
    match operation {
        Operation::EnrollKey(key) if before => gpusetup_causes::not_enrolled(&key.certificate),
        _ => gpusetup_causes::nobody_to_enrol(),
    }
}

/// How the firmware stands to a certificate on the host.
fn stands_enrolled(on: &System, certificate: &Path) -> Result<Enrolment, Failure> {
    let der = on
        .read(certificate)
        .map_err(|e| Failure::Step(format!("{}: {e}", certificate.display())))?;
    Ok(enrolment(on, &sha256(der)))
}

/// What an earlier run left to do: what it did is satisfied now. Whether it still stands is looked
/// at where that can be seen.
fn remaining(plan: &Plan, done: &[At]) -> Plan {
    let mut plan = plan.clone();
    for (s, step) in plan.steps.iter_mut().enumerate() {
        for (o, act) in step.operations.iter_mut().enumerate() {
            act.satisfied |= done.contains(&(s, o));
        }
        if step.state == State::Needed && step.operations.iter().all(|a| a.satisfied) {
            step.state = State::Satisfied;
        }
    }
    plan
}

/// Whether the GPUs have the state that a plan gives them.
fn gpus_stand(on: &System, plan: &Plan) -> bool {
    plan.acts().all(|act| match &act.operation {
        Operation::Device(_) => act
            .operation
            .stands(on, true)
            .is_ok_and(|standing| standing == Standing::Satisfied),
        _ => true,
    })
}

/// What was begun and has not come to its end.
#[derive(Debug)]
pub enum Unfinished {
    /// An apply of this plan.
    Apply {
        plan: Box<Plan>,
        /// The folder that the packages of its bundle are in, where it comes from one.
        packages: Option<PathBuf>,
    },
    Rollback,
}

impl Unfinished {
    /// Whether it does nothing but partition GPUs, which another such plan may replace.
    pub fn only_partitions(&self) -> bool {
        matches!(self, Self::Apply { plan, .. } if plan.steps.iter().all(|step| step.id == StepId::Mig))
    }

    /// Whether it does nothing but make a toolkit the default one, which another such plan may
    /// replace.
    pub fn only_switches(&self) -> bool {
        let Self::Apply { plan, .. } = self else {
            return false;
        };
        !plan.request.cuda.is_wanted()
            && plan.steps.iter().all(|step| {
                matches!(
                    step.id,
                    StepId::FixSymlinks | StepId::Ldconfig | StepId::Environment | StepId::Verify
                )
            })
    }
}

/// What `resume` continues.
///
/// # Errors
///
/// If the journal cannot be read.
pub fn unfinished(on: &System) -> Result<Option<Unfinished>, Failure> {
    let journal = Journal::open(on)?;
    if journal.rolling_back().is_some() {
        return Ok(Some(Unfinished::Rollback));
    }
    Ok(journal.open_apply().map(|open| Unfinished::Apply {
        plan: Box::new(open.plan.clone()),
        packages: open.packages.map(Path::to_owned),
    }))
}

/// The last apply that was not rolled back, whether it came to its end or not.
///
/// # Errors
///
/// If the journal cannot be read.
pub fn begun(on: &System) -> Result<Option<Begun>, Failure> {
    Ok(Journal::open(on)?.newest_apply().map(|newest| Begun {
        plan: newest.plan.clone(),
        left: remaining(newest.plan, &newest.done),
    }))
}

/// Whether the host has still to boot before the last apply can go on.
pub fn waits_for_boot(on: &System) -> Result<bool, Failure> {
    Ok(Journal::open(on)?
        .waits_for_boot()
        .is_some_and(|before| before == boot_id(on).as_deref()))
}

fn downloads(
    on: &System,
    plan: &Plan,
    config: &RunConfig,
    work: &mut Work,
    tell: OnNews,
) -> Result<usize, Failure> {
    let mut done = 0;
    for act in plan.acts().filter(|a| !a.satisfied) {
        let Operation::Download(Download {
            url,
            sha256,
            size,
            to,
        }) = &act.operation
        else {
            continue;
        };
        let wanted = FetchRequest {
            url,
            sha256,
            size: *size,
            to,
        };
        if is_cached(on, &wanted) {
            continue;
        }
        not_interrupted()?;
        let began = Instant::now();
        with_network(config, tell, |tell| {
            let progress = &mut |bytes| {
                tell(&News::Working {
                    operation: &act.operation,
                    since: began.elapsed(),
                    bytes: Some((bytes, *size)),
                });
            };
            let Work {
                journal,
                prefetched,
                ..
            } = &mut *work;
            prefetched
                .fetch(on, journal, plan, &wanted, |arriving| {
                    fetch(on, &wanted, &config.sources, progress, arriving)
                })
                .map_err(|e| (e, false))?
                .map_err(|e| {
                    let unreachable = matches!(e, FetchError::Unreachable { .. });
                    (not_interrupted().err().unwrap_or(e.into()), unreachable)
                })
        })?;
        tell(&News::Done(&act.operation));
        done += 1;
    }
    Ok(done)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Account;
    use crate::result::{Ending, status};
    use crate::{RollbackScope, recover, rollback};
    use gpusetup_fetch::Sources;
    use gpusetup_operation::EnrollKey;
    use gpusetup_operation::Link;
    use gpusetup_operation::Remove;
    use gpusetup_operation::WriteFile;
    use gpusetup_operation::undo::Undo;
    use gpusetup_plan::sample::plan_of;
    use std::time::Duration;

    fn host() -> (System, tempfile::TempDir) {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let on = System::at(dir.path());
        ["/etc", "/var/lib", "/var/log", "/usr/local"]
            .iter()
            .for_each(|folder| {
                on.make_directories(folder, 0o755).expect("made");
            });
        (on, dir)
    }

    fn file(path: &str) -> Operation {
        Operation::WriteFile(WriteFile {
            path: path.into(),
            content: "ours\n".into(),
            mode: 0o644,
            merged_from: None,
        })
    }

    /// A link that cannot be made as long as its end has another SONAME.
    fn refused_link() -> Operation {
        Operation::Link(Link {
            path: "/usr/local/x".into(),
            target: "y".into(),
            soname: Some("libx.so.1".into()),
        })
    }

    #[test]
    fn an_apply_that_failed_and_was_run_again_is_taken_back_as_one() {
        let (on, _dir) = host();
        let failed = apply(
            &on,
            &plan_of(vec![file("/etc/a"), refused_link()]),
            RunConfig::default(),
            &mut |_| {},
        );
        assert!(matches!(failed, Err(Failure::Step(_))), "{failed:?}");
        assert!(on.exists("/etc/a"), "what was done stays, for the next run");
        let events = on
            .read_text("/var/log/gpusetup/events.jsonl")
            .expect("readable")
            .expect("there");
        let line: serde_json::Value =
            serde_json::from_str(events.lines().nth(1).expect("two things")).expect("JSON");
        assert_eq!(
            (&line["event"], &line["what"]),
            (&"done".into(), &"write /etc/a".into())
        );
        apply(
            &on,
            &plan_of(vec![file("/etc/a"), file("/etc/b")]),
            RunConfig::default(),
            &mut |_| {},
        )
        .expect("applied");
        assert!(
            rollback(&on, RollbackScope::Last, &mut |_| {})
                .expect("rolled back")
                .is_empty()
        );
        assert!(!on.exists("/etc/a") && !on.exists("/etc/b"));
        assert!(
            rollback(&on, RollbackScope::Last, &mut |_| {})
                .expect("nothing left")
                .is_empty()
        );
    }

    #[test]
    fn an_apply_that_did_not_come_to_its_first_change_is_gone_on_with_and_takes_nothing_back() {
        let (on, _dir) = host();
        carry(&on, &plan_of(vec![file("/etc/a")])).expect("done");
        let to = PathBuf::from("/var/cache/gpusetup/ab/x.run");
        // Nobody listens there.
        let url = "file:///nowhere".to_owned();
        let download = Operation::Download(Download {
            url,
            sha256: sha256("x"),
            size: None,
            to,
        });
        assert!(carry(&on, &plan_of(vec![download, file("/etc/b")])).is_err());
        assert!(matches!(
            unfinished(&on).expect("readable"),
            Some(Unfinished::Apply { .. })
        ));
        rollback(&on, RollbackScope::Last, &mut |_| {}).expect("rolled back");
        assert!(
            on.exists("/etc/a"),
            "the apply before it came to its end, and is another"
        );
        assert!(unfinished(&on).expect("readable").is_none());
        rollback(&on, RollbackScope::Last, &mut |_| {}).expect("now that one");
        assert!(!on.exists("/etc/a"));
    }

    #[test]
    fn what_a_killed_run_began_is_taken_back_before_anything_else() {
        let (on, _dir) = host();
        let mut journal = Journal::open(&on).expect("readable");
        let plan = Box::new(plan_of(vec![file("/etc/a")]));
        journal
            .note(
                &on,
                Event::Run {
                    version: super::super::journal::VERSION,
                    plan,
                    packages: None,
                },
            )
            .expect("noted");
        let tree = Undo::Tree {
            path: "/usr/local/cuda-12.8".into(),
        };
        let undo = vec![
            Undo::Path {
                path: "/etc/a".into(),
                before: gpusetup_system::Node::Absent,
                backup: None,
                after: None,
            },
            tree,
        ];
        journal
            .note(
                &on,
                Event::Intent {
                    at: (0, 0),
                    undo,
                    boot: None,
                },
            )
            .expect("noted");
        on.make_directories("/usr/local/cuda-12.8/bin", 0o755)
            .expect("made");
        on.write("/etc/.a.gpusetup-new", b"half", 0o644)
            .expect("written");
        let mut recovered = 0;
        recover(&on, &mut |news| {
            recovered += usize::from(matches!(news, News::Recovering(_)))
        })
        .expect("recovered");
        assert_eq!((recovered, on.list("/etc").expect("listed").len()), (1, 0));
        assert!(!on.exists("/usr/local/cuda-12.8"));
        recover(&on, &mut |_| panic!("once is enough")).expect("nothing to do");
    }

    #[test]
    fn a_run_that_was_killed_is_not_taken_for_done() {
        let (on, _dir) = host();
        carry(&on, &plan_of(vec![file("/etc/a")])).expect("done");
        // What gpusetup writes behind it never came to be.
        let killed = status(&on).expect("readable").expect("there");
        assert_eq!((killed.state, killed.exit_code), (Ending::Interrupted, 137));
        rollback(&on, RollbackScope::Last, &mut |_| {}).expect("rolled back");
        assert_eq!(
            status(&on).expect("readable").expect("there").state,
            Ending::Interrupted
        );
    }

    fn boots(on: &System, id: &str) {
        on.make_directories("/proc/sys/kernel/random", 0o755)
            .expect("made");
        on.write("/proc/sys/kernel/random/boot_id", id.as_bytes(), 0o644)
            .expect("written");
    }

    fn carry(on: &System, plan: &Plan) -> Result<bool, Failure> {
        apply(on, plan, RunConfig::default(), &mut |_| {}).map(|outcome| outcome.reboot_required)
    }

    #[test]
    fn the_rest_comes_after_the_boot_and_not_before() {
        let (on, _dir) = host();
        boots(&on, "first");
        let plan = plan_of(vec![
            file("/etc/a"),
            Operation::Reboot(Reboot::default()),
            file("/etc/b"),
        ]);
        assert!(carry(&on, &plan).expect("so far"));
        assert!(
            waits_for_boot(&on).expect("readable") && on.exists("/etc/a") && !on.exists("/etc/b")
        );
        assert!(
            carry(&on, &plan).expect("nothing has changed"),
            "in the same boot there is nothing to resume"
        );
        assert!(!on.exists("/etc/b"));
        boots(&on, "second");
        assert!(!waits_for_boot(&on).expect("readable"));
        let Some(Unfinished::Apply { plan: left, .. }) = unfinished(&on).expect("readable") else {
            panic!("it has not come to its end")
        };
        assert!(!carry(&on, &left).expect("to its end"));
        assert!(on.exists("/etc/b") && unfinished(&on).expect("readable").is_none());
        rollback(&on, RollbackScope::Last, &mut |_| {}).expect("rolled back");
        assert!(
            !on.exists("/etc/a") && !on.exists("/etc/b"),
            "both sides of the boot are one apply"
        );
    }

    /// Puts a certificate into one of shim's variables, or takes the variable away.
    fn shim(on: &System, name: &str, certificates: &[&[u8]]) {
        use gpusetup_host::firmware::VARIABLES;
        use gpusetup_host::sample::variable;
        let path = format!("{VARIABLES}/{name}-605dab50-e046-4300-abb6-3dd810dd8b23");
        on.make_directories(VARIABLES, 0o755).expect("made");
        match certificates {
            [] => on.remove(path).expect("removed"),
            some => on.write(path, &variable(some), 0o600).expect("written"),
        }
    }

    #[test]
    fn a_key_is_enrolled_at_the_console_or_the_rest_does_not_come() {
        let (on, _dir) = host();
        boots(&on, "first");
        on.write("/etc/key.der", b"ours", 0o644).expect("written");
        let enroll = Operation::EnrollKey(EnrollKey {
            certificate: "/etc/key.der".into(),
            makes: None,
        });
        let reboot = Operation::Reboot(Reboot {
            enrolls: Some("/etc/key.der".into()),
        });
        let plan = plan_of(vec![enroll, reboot, file("/etc/b")]);
        let run = || apply(&on, &plan, RunConfig::default(), &mut |_| {});
        assert!(matches!(run(), Err(Failure::Blocked(why)) if why.contains("unattended")));
        shim(&on, "MokNew", &[b"ours"]);
        let waits = run().expect("it is prepared");
        assert!(
            waits.reboot_required && waits.needs_console && waits_for_boot(&on).expect("readable")
        );
        // Nobody came: shim has dropped the request.
        shim(&on, "MokNew", &[]);
        boots(&on, "second");
        let refused = run().expect_err("it is not enrolled").to_string();
        assert!(
            refused.contains("/etc/key.der was not enrolled") && !on.exists("/etc/b"),
            "{refused}"
        );
        for boot in ["third", "fourth", "fifth"] {
            shim(&on, "MokNew", &[b"ours"]);
            assert!(
                run().is_ok_and(|waits| waits.needs_console),
                "somebody may try as often as they like"
            );
            shim(&on, "MokNew", &[]);
            boots(&on, boot);
        }
        shim(&on, "MokListRT", &[b"vendor", b"ours"]);
        assert_eq!(run().expect("to its end"), Outcome::of(1));
        assert!(on.exists("/etc/b") && unfinished(&on).expect("readable").is_none());
        let left = rollback(&on, RollbackScope::Last, &mut |_| {}).expect("rolled back");
        assert!(
            left.is_empty() && !on.exists("/etc/b"),
            "gpusetup did not ask for it: {left:?}"
        );
    }

    #[test]
    fn a_link_that_leads_nowhere_is_removed() {
        let (on, _dir) = host();
        on.link("/usr/local/cuda", Path::new("cuda-12.4"))
            .expect("linked");
        let plan = plan_of(vec![Operation::Remove(Remove {
            path: "/usr/local/cuda".into(),
        })]);
        assert!(!carry(&on, &plan).expect("done"));
        assert_eq!(on.link_target("/usr/local/cuda"), None);
        rollback(&on, RollbackScope::Last, &mut |_| {}).expect("rolled back");
        assert_eq!(
            on.link_target("/usr/local/cuda").as_deref(),
            Some(Path::new("cuda-12.4"))
        );
    }

    #[test]
    fn two_boots_are_all_that_an_apply_gets() {
        let (on, _dir) = host();
        // Each a separate plan, as `apply` makes each time: the host never reaches the wanted
        // state.
        for (n, boot) in ["one", "two"].iter().enumerate() {
            boots(&on, boot);
            assert!(
                carry(
                    &on,
                    &plan_of(vec![
                        file(&format!("/etc/{n}")),
                        Operation::Reboot(Reboot::default())
                    ])
                )
                .expect("so far")
            );
        }
        boots(&on, "three");
        let refused = carry(
            &on,
            &plan_of(vec![file("/etc/2"), Operation::Reboot(Reboot::default())]),
        );
        assert!(
            matches!(&refused, Err(Failure::Step(why)) if why.contains("booted 2 times")),
            "{refused:?}"
        );
    }

    #[test]
    fn a_rollback_that_was_cut_off_goes_on_with_the_same_apply() {
        let (on, _dir) = host();
        for path in ["/etc/a", "/etc/b"] {
            carry(&on, &plan_of(vec![file(path)])).expect("done");
        }
        let mut journal = Journal::open(&on).expect("readable");
        journal
            .note(&on, Event::RollingBack { runs: vec![1] })
            .expect("noted");
        journal
            .note(
                &on,
                Event::Undone {
                    run: 1,
                    at: (0, 0),
                    left: Vec::new(),
                },
            )
            .expect("noted");
        on.remove("/etc/b").expect("removed");
        assert!(matches!(
            unfinished(&on).expect("readable"),
            Some(Unfinished::Rollback)
        ));
        rollback(&on, RollbackScope::Last, &mut |_| {}).expect("to its end");
        assert!(on.exists("/etc/a"), "the apply before it is another");
        assert!(unfinished(&on).expect("readable").is_none());
        rollback(&on, RollbackScope::Last, &mut |_| {}).expect("now that one");
        assert!(!on.exists("/etc/a"));
    }

    #[test]
    fn the_network_is_waited_for_where_nobody_could_look_after_it() {
        let config = RunConfig {
            network_timeout: Duration::from_secs(60),
            ..RunConfig::default()
        };
        let (mut tries, mut waits) = (0, Vec::new());
        let mut tell = |news: &News| {
            waits.extend(if let News::Waiting { what, .. } = news {
                Some((*what).to_owned())
            } else {
                None
            })
        };
        let reached = with_network(&config, &mut tell, |_| {
            tries += 1;
            if tries == 1 {
                Err((Failure::Later("cannot reach x".into()), true))
            } else {
                Ok(())
            }
        });
        assert!(
            reached.is_ok() && waits == ["the network: cannot reach x"],
            "{waits:?}"
        );
        let refuses = |config: RunConfig, unreachable| {
            with_network(&config, &mut |_| {}, |_| {
                Err((Failure::Later("no".into()), unreachable))
            })
            .is_err()
        };
        assert!(
            refuses(RunConfig::default(), true) && refuses(config, false),
            "somebody is there, or waiting is no use"
        );
    }

    #[test]
    fn a_file_in_the_way_is_found_before_the_first_change() {
        let (on, _dir) = host();
        on.make_directories("/etc/b", 0o755).expect("made");
        let blocked = apply(
            &on,
            &plan_of(vec![file("/etc/a"), file("/etc/b")]),
            RunConfig::default(),
            &mut |_| {},
        );
        assert!(
            matches!(&blocked, Err(Failure::Blocked(why)) if why.contains("/etc/b")),
            "{blocked:?}"
        );
        assert!(!on.exists("/etc/a") && !on.exists("/var/lib/gpusetup"));
    }

    #[test]
    fn a_cache_that_others_may_write_is_refused() {
        let (on, _dir) = host();
        on.make_directories("/var/cache/gpusetup", 0o777)
            .expect("made");
        let to = PathBuf::from("/var/cache/gpusetup/ab/x.run");
        let download = Operation::Download(Download {
            url: "http://127.0.0.1:9/x".into(),
            sha256: "00".into(),
            size: None,
            to,
        });
        let blocked = apply(
            &on,
            &plan_of(vec![download]),
            RunConfig::default(),
            &mut |_| {},
        );
        assert!(
            matches!(&blocked, Err(Failure::Blocked(why)) if why.contains("/var/cache/gpusetup")),
            "{blocked:?}"
        );
    }

    #[test]
    fn what_cannot_be_had_without_a_network_is_named_before_the_first_change() {
        let (on, _dir) = host();
        let to = PathBuf::from("/var/cache/gpusetup/ab/x.run");
        let url = "http://127.0.0.1:9/x".to_owned();
        let download = Operation::Download(Download {
            url,
            sha256: sha256("x"),
            size: None,
            to: to.clone(),
        });
        let plan = plan_of(vec![download, file("/etc/a")]);
        let offline = || RunConfig {
            sources: Sources {
                offline: true,
                ..Sources::default()
            },
            ..RunConfig::default()
        };
        let refused = apply(&on, &plan, offline(), &mut |_| {});
        assert!(
            matches!(&refused, Err(Failure::Blocked(why)) if why.contains("http://127.0.0.1:9/x")),
            "{refused:?}"
        );
        assert!(!on.exists("/var/lib/gpusetup"), "nothing was begun");
        on.make_directories("/var/cache/gpusetup/ab", 0o700)
            .expect("made");
        on.write(&to, b"x", 0o600).expect("written");
        apply(&on, &plan, offline(), &mut |_| {}).expect("what is in the cache is there");
        assert!(on.exists("/etc/a"));
    }

    #[test]
    fn the_result_tells_the_step_that_failed() {
        let (on, _dir) = host();
        let plan = plan_of(vec![file("/etc/a")]);
        let mut account = Account::open();
        account.plan(&plan);
        account.begins(plan.steps[0].id);
        account
            .close(&on, Ending::Failed, Some((7, "no room".to_owned())))
            .expect("written");
        let failed = status(&on).expect("readable").expect("there");
        assert_eq!(
            (failed.exit_code, failed.error.as_deref()),
            (7, Some("no room"))
        );
        assert_eq!(failed.steps[0].state.as_str(), "failed");
        assert!(
            failed.sentence().contains("no room"),
            "{}",
            failed.sentence()
        );
    }
}
