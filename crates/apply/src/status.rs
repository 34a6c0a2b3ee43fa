//! What `gpusetup status` reports: `result.json`, checked against the journal. A run that was
//! killed, or whose disk was full, leaves a result that is missing or older than the journal. Then
//! the journal says how the run ended.

use super::Failure;
use super::journal::{At, Event, Journal};
use super::result::{self, Ending, RunResult, StepResult, StepState};
use gpusetup_plan::{Plan, State};
use gpusetup_system::System;
use gpusetup_text::paths::{JOURNAL, RESULT};
use std::collections::BTreeSet;

/// How the last run ended, given what `result.json` says; none if nothing was ever applied.
pub fn status(on: &System, written: Option<RunResult>) -> Result<Option<RunResult>, Failure> {
    let mut result = by_journal(on, written)?;
    // Of an apply that came to its end nobody notes that the host has booted since.
    for done in result.iter_mut().filter(|r| r.state == Ending::Done) {
        done.reboot_required &= !has_booted_since(on, RESULT);
    }
    Ok(result)
}

/// Whether the host has booted since a file was written.
fn has_booted_since(on: &System, path: &str) -> bool {
    let text = on
        .read_text("/proc/stat")
        .ok()
        .flatten()
        .unwrap_or_default();
    let booted: Option<i64> = text
        .lines()
        .find_map(|line| line.strip_prefix("btime ")?.trim().parse().ok());
    booted
        .zip(on.modified(path))
        .is_some_and(|(booted, written)| booted > written)
}

fn by_journal(on: &System, written: Option<RunResult>) -> Result<Option<RunResult>, Failure> {
    let journal = Journal::open(on)?;
    let history = History::of(journal.events());
    let Some((state, why)) = history.ending else {
        return Ok(written);
    };
    let fingerprint = history.progress.as_ref().map(|p| p.plan.fingerprint());
    // A run writes its result last, so the result is at least as new as the journal.
    let mut result = match written {
        Some(written)
            if !written.is_provisional()
                && (!is_newer_than_result(on)
                    || written.fingerprint == fingerprint && agree(written.state, state)) =>
        {
            written
        }
        other => {
            let started = other
                .filter(|r| r.fingerprint == fingerprint)
                .map(|r| r.started);
            RunResult::of_journal(
                state,
                why.map(str::to_owned),
                fingerprint.clone(),
                started,
                noted_at(on),
            )
        }
    };
    if let Some(progress) = history
        .progress
        .filter(|_| result.fingerprint == fingerprint)
    {
        result.steps = progress.steps();
    }
    Ok(Some(result))
}

/// Whether the result and the journal report the same end. The result also knows the signal, or
/// what stopped a run between two operations.
fn agree(written: Ending, journalled: Ending) -> bool {
    let are_open = { [written, journalled] }
        .iter()
        .all(|state| matches!(state, Ending::Failed | Ending::Interrupted));
    written == journalled || are_open
}

fn is_newer_than_result(on: &System) -> bool {
    match (on.identity(JOURNAL), on.identity(RESULT)) {
        (Ok(journal), Ok(result)) => journal.modified > result.modified,
        _ => false,
    }
}

/// When the journal's last record was written, in UTC.
fn noted_at(on: &System) -> String {
    let seconds = on.modified(JOURNAL).unwrap_or_default();
    result::utc(jiff::Timestamp::from_second(seconds).unwrap_or_default())
}

/// What the journal's records add up to.
#[derive(Default)]
struct History<'a> {
    /// How the last run ended, and why if it failed; none if there was no run.
    ending: Option<(Ending, Option<&'a str>)>,
    /// How far the newest apply came, unless it was rolled back or is being rolled back.
    progress: Option<Progress<'a>>,
}

impl<'a> History<'a> {
    fn of(events: &'a [Event]) -> Self {
        let (mut history, mut runs) = (Self::default(), 0);
        for event in events {
            history.ending = match event {
                Event::Run { .. } | Event::RollingBack { .. } => Some((Ending::Interrupted, None)),
                Event::Failed { why, .. } => Some((Ending::Failed, Some(why))),
                Event::Reboot { at, .. } => {
                    let console = history
                        .progress
                        .as_ref()
                        .is_some_and(|progress| progress.plan.needs_console(*at));
                    Some((
                        if console {
                            Ending::NeedsConsole
                        } else {
                            Ending::RebootRequired
                        },
                        None,
                    ))
                }
                Event::Finished {} => Some((Ending::Done, None)),
                Event::RolledBack {} => Some((Ending::RolledBack, None)),
                Event::Kept { .. }
                | Event::Intent { .. }
                | Event::Done { .. }
                | Event::Undone { .. } => history.ending,
            };
            match event {
                Event::Run { plan, .. } => {
                    let earlier = history
                        .progress
                        .filter(|p| p.plan.fingerprint() == plan.fingerprint());
                    history.progress = Some(Progress::resuming(earlier, plan, runs));
                    runs += 1;
                }
                Event::RollingBack { .. } | Event::RolledBack {} => history.progress = None,
                event => history.progress.iter_mut().for_each(|p| p.note(event)),
            }
        }
        history
    }
}

/// How far an apply came, over all its runs.
struct Progress<'a> {
    plan: &'a Plan,
    /// The first run of this apply, counted from 0 in the journal.
    first: usize,
    /// Operations that the host satisfies.
    passed: BTreeSet<At>,
    /// Every operation before this one was passed in the last run: downloads and verifications
    /// leave no record of their own.
    reached: At,
    /// The operation that the last run failed at, or was carrying out when it was killed.
    stopped_at: Option<At>,
    finished: bool,
}

impl<'a> Progress<'a> {
    fn resuming(earlier: Option<Self>, plan: &'a Plan, run: usize) -> Self {
        let (first, passed) = earlier.map_or_else(
            || (run, BTreeSet::new()),
            |earlier| (earlier.first, earlier.passed),
        );
        Self {
            plan,
            first,
            passed,
            reached: (0, 0),
            stopped_at: None,
            finished: false,
        }
    }

    fn note(&mut self, event: &Event) {
        match event {
            Event::Kept { at } | Event::Done { at } => {
                self.passed.insert(*at);
                self.reached = *at;
                self.stopped_at = None;
            }
            Event::Intent { at, .. } => self.stopped_at = Some(*at),
            Event::Failed { at, .. } => (self.reached, self.stopped_at) = (*at, Some(*at)),
            Event::Reboot { at, .. } => (self.reached, self.stopped_at) = (*at, None),
            Event::Undone { run, at, .. } if *run >= self.first => {
                self.passed.remove(at);
            }
            Event::Finished {} => self.finished = true,
            Event::Undone { .. }
            | Event::Run { .. }
            | Event::RollingBack { .. }
            | Event::RolledBack {} => {}
        }
    }

    fn steps(&self) -> Vec<StepResult> {
        let states = self.plan.steps.iter().enumerate();
        states
            .map(|(n, step)| StepResult {
                id: step.id,
                state: self.state(n, step.state),
            })
            .collect()
    }

    fn state(&self, step: usize, planned: State) -> StepState {
        let operations = self.plan.steps[step].operations.iter().enumerate();
        let mut passes = operations.map(|(n, act)| {
            let at = (step, n);
            act.satisfied || self.passed.contains(&at) || at < self.reached
        });
        match planned {
            State::Skipped => StepState::Skipped,
            _ if self.finished || passes.all(|passed| passed) => StepState::Done,
            // Archives are unpacked ahead of their turn: only the first step that is not done can
            // have stopped the run.
            _ if self.stopped_at.is_some_and(|at| at.0 == step) && self.is_done_before(step) => {
                StepState::Failed
            }
            _ => StepState::Pending,
        }
    }

    fn is_done_before(&self, step: usize) -> bool {
        let states = self.plan.steps[..step].iter().enumerate();
        states
            .map(|(n, s)| self.state(n, s.state))
            .all(|s| matches!(s, StepState::Done | StepState::Skipped))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account::{Account, provisional};
    use gpusetup_operation::Operation;
    use gpusetup_operation::Reboot;
    use gpusetup_operation::Remove;
    use gpusetup_plan::sample::plan_of;

    fn host() -> (System, tempfile::TempDir) {
        let dir = tempfile::tempdir().expect("a temporary directory");
        (System::at(dir.path()), dir)
    }

    /// A plan of three steps that remove one file each.
    fn plan() -> Plan {
        let mut plan = plan_of(vec![Operation::Remove(Remove { path: "/f".into() })]);
        let step = plan.steps[0].clone();
        plan.steps.extend([step.clone(), step]);
        plan
    }

    fn run() -> Event {
        Event::Run {
            version: crate::journal::VERSION,
            plan: Box::new(plan()),
            packages: None,
        }
    }

    fn intent(at: At) -> Event {
        Event::Intent {
            at,
            undo: Vec::new(),
            boot: None,
        }
    }

    /// What `status` reports when a run left its provisional result, and these records.
    fn reported(events: Vec<Event>) -> RunResult {
        let (on, _dir) = host();
        provisional(&on, Some(&plan())).expect("written");
        let mut journal = Journal::open(&on).expect("readable");
        events
            .into_iter()
            .for_each(|event| journal.note(&on, event).expect("noted"));
        let written = result::status(&on).expect("readable");
        status(&on, written)
            .expect("readable")
            .expect("there was a run")
    }

    fn states(result: &RunResult) -> Vec<&str> {
        result
            .steps
            .iter()
            .map(|step| step.state.as_str())
            .collect()
    }

    #[test]
    fn a_run_that_was_killed_while_it_resumed_has_done_what_both_did() {
        let failed = Event::Failed {
            at: (1, 0),
            why: "no room".to_owned(),
        };
        let first = vec![
            run(),
            intent((0, 0)),
            Event::Done { at: (0, 0) },
            intent((1, 0)),
            failed.clone(),
        ];
        let before = reported(first.clone());
        assert_eq!(
            (before.state, states(&before)),
            (Ending::Failed, vec!["done", "failed", "to come"])
        );
        assert_eq!(before.error.as_deref(), Some("no room"));
        let undone = Event::Undone {
            run: 0,
            at: (1, 0),
            left: Vec::new(),
        };
        let resumed = reported([first, vec![undone, run()]].concat());
        assert_eq!(
            (resumed.state, states(&resumed)),
            (Ending::Interrupted, vec!["done", "to come", "to come"])
        );
        let killed = reported(vec![
            run(),
            Event::Kept { at: (0, 0) },
            intent((1, 0)),
            Event::Done { at: (1, 0) },
            intent((2, 0)),
        ]);
        assert_eq!(states(&killed), ["done", "done", "failed"]);
        let ended = reported(vec![run(), Event::Done { at: (0, 0) }, Event::Finished {}]);
        assert_eq!(
            (ended.state, states(&ended)),
            (Ending::Done, vec!["done"; 3])
        );
    }

    #[test]
    fn a_reboot_that_needs_somebody_is_an_end() {
        let mut plan = plan();
        let reboot = Operation::Reboot(Reboot {
            enrolls: Some("/key.der".into()),
        });
        plan.steps[1].operations[0].operation = reboot;
        let begins = Event::Run {
            version: crate::journal::VERSION,
            plan: Box::new(plan),
            packages: None,
        };
        let waits = |at| reported(vec![begins.clone(), Event::Reboot { at, boot: None }]);
        let console = waits((1, 0));
        assert_eq!(
            (console.state, console.exit_code, console.reboot_required),
            (Ending::NeedsConsole, 5, true)
        );
        assert!(console.state.is_last() && console.sentence().contains("someone at the console"));
        assert_eq!(
            (waits((0, 0)).state, Ending::RebootRequired.is_last()),
            (Ending::RebootRequired, false)
        );
    }

    #[test]
    fn a_rollback_that_was_killed_reports_no_steps() {
        let reported = reported(vec![
            run(),
            Event::Done { at: (0, 0) },
            Event::RollingBack { runs: vec![0] },
        ]);
        assert_eq!(
            (reported.state, reported.steps.len(), reported.fingerprint),
            (Ending::Interrupted, 0, None)
        );
    }

    #[test]
    fn a_reboot_is_required_until_the_host_has_booted() {
        let (on, _dir) = host();
        let mut account = Account::open();
        account.requires_reboot();
        account.close(&on, Ending::Done, None).expect("written");
        on.make_directories("/proc", 0o755).expect("made");
        let required = |booted: i64| {
            on.write(
                "/proc/stat",
                format!("cpu 1 2\nbtime {booted}\n").as_bytes(),
                0o644,
            )
            .expect("written");
            let written = result::status(&on).expect("readable");
            status(&on, written)
                .expect("readable")
                .expect("there was a run")
                .reboot_required
        };
        let written = on.modified(RESULT).expect("it stands");
        assert!(required(written - 3600) && !required(written + 60));
    }
}
