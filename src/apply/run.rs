//! Carrying a plan out, and taking the newest run back.

use super::journal::{Event, Journal, Progress};
use super::{Failure, preflight};
use crate::fetch::{Wanted, fetch, is_cached};
use crate::operation::undo::Backups;
use crate::operation::{Operation, Standing, file, packages, program, service, unpack};
use crate::plan::{Plan, Step};
use crate::system::System;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Where copies of what was replaced are.
const BACKUPS: &str = "/var/lib/gpusetup/backup";
/// Where everything that programs say goes.
const LOGS: &str = "/var/log/gpusetup";

/// What happens, as it happens.
#[derive(Debug)]
pub enum News<'a> {
    /// A step begins.
    Step(&'a Step),
    /// Something of it is done, which took more than a moment: bytes of all, where it is a download.
    Working {
        /// What.
        operation: &'a Operation,
        /// For how long.
        since: Duration,
        /// Bytes, and of how many.
        bytes: Option<(u64, Option<u64>)>,
    },
    /// An operation was carried out.
    Done(&'a Operation),
    /// The host was so already.
    Kept(&'a Operation),
    /// An operation was taken back.
    Undone(&'a Operation),
}

/// Is told what happens.
pub type Teller<'a> = &'a mut dyn FnMut(&News);

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// Operations carried out.
    pub done: usize,
    /// The host must boot before the rest.
    pub reboot_required: bool,
}

/// Carries a plan out. Everything is fetched and verified before the first change.
pub fn apply(on: &System, plan: &Plan, tell: Teller) -> Result<Outcome, Failure> {
    preflight::check(on, plan)?;
    let mut done = downloads(on, plan, tell)?;
    if plan.is_converged() {
        return Ok(Outcome { done, reboot_required: false });
    }
    let mut journal = Journal::open(on)?;
    let mut backups = Backups::new(BACKUPS.into(), journal.intents());
    journal.note(on, Event::Run { version: super::journal::VERSION, plan: Box::new(plan.clone()) })?;
    for (s, step) in plan.steps.iter().enumerate() {
        tell(&News::Step(step));
        for (o, act) in step.operations.iter().enumerate() {
            let (at, operation) = ((s, o), &act.operation);
            if matches!(operation, Operation::Reboot {}) {
                return Ok(Outcome { done, reboot_required: true });
            }
            match stands(on, operation, act.satisfied)? {
                Standing::Satisfied => {
                    if !matches!(operation, Operation::Download { .. }) {
                        journal.note(on, Event::Kept { at })?;
                    }
                    tell(&News::Kept(operation));
                }
                Standing::Conflict(why) => return Err(Failure::Blocked(why)),
                Standing::Needed => {
                    if let Err(failure) = carry_out(on, &mut journal, &mut backups, at, operation, tell) {
                        journal.note(on, Event::Failed { at, why: failure.to_string() })?;
                        return Err(failure);
                    }
                    done += usize::from(!matches!(operation, Operation::Run { asks: true, .. }));
                    tell(&News::Done(operation));
                }
            }
        }
    }
    Ok(Outcome { done, reboot_required: false })
}

fn downloads(on: &System, plan: &Plan, tell: Teller) -> Result<usize, Failure> {
    let mut done = 0;
    for act in plan.steps.iter().flat_map(|s| &s.operations).filter(|a| !a.satisfied) {
        let Operation::Download { url, sha256, size, to } = &act.operation else { continue };
        let wanted = Wanted { url, sha256, size: *size, to };
        if is_cached(on, &wanted) {
            continue;
        }
        let began = std::time::Instant::now();
        fetch(on, &wanted, &mut |bytes| {
            tell(&News::Working { operation: &act.operation, since: began.elapsed(), bytes: Some((bytes, *size)) });
        })?;
        tell(&News::Done(&act.operation));
        done += 1;
    }
    Ok(done)
}

/// How the host stands to an operation now, whatever the plan thought.
fn stands(on: &System, operation: &Operation, planned: bool) -> Result<Standing, Failure> {
    let so = |is: bool| Ok(if is { Standing::Satisfied } else { Standing::Needed });
    let io = |e: std::io::Error| Failure::Step(e.to_string());
    match operation {
        Operation::WriteFile { path, content, mode } => file::file_stands(on, path, content, *mode).map_err(io),
        Operation::Link { path, target, .. } => file::link_stands(on, path, target).map_err(io),
        Operation::Remove { path } => so(!on.exists(path)),
        // It was fetched and verified before the first change.
        Operation::Download { .. } => so(true),
        Operation::Unpack { .. } => so(planned),
        Operation::Run { asks: true, .. } => so(false),
        Operation::Run { creates, .. } => so(planned && program::trees_stand(on, creates)),
        Operation::Packages { manager, install, remove, .. } => {
            packages::stand(on, *manager, install, remove).map_err(io)
        }
        Operation::Service { unit, enabled } => so(service::is_enabled(on, unit).map_err(io)? == *enabled),
        Operation::Reboot {} => so(false),
    }
}

fn carry_out(
    on: &System,
    journal: &mut Journal,
    backups: &mut Backups,
    at: (usize, usize),
    operation: &Operation,
    tell: Teller,
) -> Result<(), Failure> {
    let io = |e: std::io::Error| Failure::Step(format!("{}: {e}", operation.describe()));
    let boot = None;
    let log = log_file(on, at)?;
    let mut working = |since| tell(&News::Working { operation, since, bytes: None });
    match operation {
        Operation::WriteFile { .. } | Operation::Link { .. } => {
            let undo = file::intend(on, operation, backups).map_err(io)?;
            journal.note(on, Event::Intent { at, undo, boot })?;
            file::perform(on, operation).map_err(io)?;
        }
        Operation::Unpack { archive, sha256, into } => {
            let staged = unpack::stage(on, archive, sha256, into)?;
            let undo = staged.intend(on, backups).map_err(io)?;
            journal.note(on, Event::Intent { at, undo, boot })?;
            staged.commit(on).map_err(io)?;
        }
        Operation::Run { asks, .. } => {
            if !asks {
                let undo = program::intend(on, operation, backups).map_err(io)?;
                journal.note(on, Event::Intent { at, undo, boot })?;
            }
            let ran = program::perform(on, operation, Some(log), &mut working);
            ran.map_err(|e| if *asks { Failure::Verification(e.to_string()) } else { Failure::from(e) })?;
            if *asks {
                return Ok(());
            }
        }
        Operation::Packages { manager, install, remove, stream } => {
            let undo = packages::intend(on, *manager).map_err(io)?;
            journal.note(on, Event::Intent { at, undo, boot })?;
            packages::perform(on, *manager, install, remove, stream.as_deref(), Some(log), &mut working)?;
        }
        Operation::Service { unit, enabled } => {
            let undo = vec![crate::operation::undo::Undo::Unit { unit: unit.clone(), enabled: !enabled }];
            journal.note(on, Event::Intent { at, undo, boot })?;
            service::set(on, unit, *enabled)?;
        }
        Operation::Remove { path } => {
            let undo = vec![backups.save(on, path, None).map_err(io)?];
            journal.note(on, Event::Intent { at, undo, boot })?;
            on.remove(path).map_err(io)?;
        }
        Operation::Download { .. } | Operation::Reboot {} => return Ok(()),
    }
    journal.note(on, Event::Done { at })?;
    Ok(())
}

/// A log of its own for each operation, below the host's root.
fn log_file(on: &System, (step, operation): (usize, usize)) -> Result<PathBuf, Failure> {
    let io = |e: std::io::Error| Failure::Step(format!("cannot write below {LOGS}: {e}"));
    on.make_directories(LOGS, 0o750).map_err(io)?;
    on.locate(&Path::new(LOGS).join(format!("step-{}-{}.log", step + 1, operation + 1))).map_err(io)
}

/// Takes the newest run back, last first; the paths that were left because somebody changed them since.
pub fn rollback(on: &System, tell: Teller) -> Result<Vec<PathBuf>, Failure> {
    let mut journal = Journal::open(on)?;
    let Some(plan) = journal.plan().cloned() else { return Ok(Vec::new()) };
    let mut all_left = Vec::new();
    for (s, step) in plan.steps.iter().enumerate().rev() {
        for (o, act) in step.operations.iter().enumerate().rev() {
            let (Progress::Done(undo) | Progress::Torn(undo)) = journal.progress((s, o)) else { continue };
            let mut left = Vec::new();
            for way in undo.iter().rev() {
                let undone = way.perform(on);
                left.extend(undone.map_err(|e| Failure::Step(format!("undoing {}: {e}", act.operation.describe())))?);
            }
            journal.note(on, Event::Undone { at: (s, o), left: left.clone() })?;
            tell(&News::Undone(&act.operation));
            all_left.extend(left);
        }
    }
    Ok(all_left)
}
