//! One operation of a plan: how the host stands to it, and how it is carried out by the journal.

use super::Failure;
use super::ahead::Ahead;
use super::boot::boot_id;
use super::config::RunConfig;
use super::journal::{At, Event, Journal};
use super::network::with_network;
use super::news::{News, Teller};
use crate::operation::packages::PackagesError;
use crate::operation::undo::{Backups, Undo};
use crate::operation::{Operation, Standing, file, locks, packages, program, service, unpack};
use crate::paths::LOGS;
use crate::plan::compile;
use crate::system::{Log, Node, System};
use std::path::Path;
use std::time::Instant;

/// What a run works with.
pub struct Work {
    /// What is intended and what was done.
    pub journal: Journal,
    /// Copies of what is replaced.
    pub backups: Backups,
    /// What is unpacked already.
    pub ahead: Ahead,
}

/// How the host stands to an operation now, whatever the plan thought.
pub fn stands(on: &System, operation: &Operation, planned: bool) -> Result<Standing, Failure> {
    let so = |is: bool| Ok(if is { Standing::Satisfied } else { Standing::Needed });
    let io = |e: std::io::Error| Failure::Step(e.to_string());
    match operation {
        Operation::WriteFile { path, content, mode } => file::file_stands(on, path, content, *mode).map_err(io),
        Operation::Link { path, target, .. } => file::link_stands(on, path, target).map_err(io),
        // A link that leads nowhere is there all the same.
        Operation::Remove { path } => so(on.node(path).map_err(io)? == Node::Absent),
        // It was fetched and verified before the first change.
        Operation::Download { .. } => so(true),
        Operation::Unpack { .. } => so(planned),
        Operation::Run { asks: true, .. } => so(false),
        Operation::Run { argv, removes, .. } if program::is_through(on, argv, removes) => so(true),
        Operation::Run { creates, .. } => so(planned && program::trees_stand(on, creates)),
        Operation::Packages(wanted) => packages::stand(on, wanted).map_err(io),
        Operation::Service { unit, enabled } => so(service::stands(on, unit, *enabled).map_err(io)?),
        Operation::Reboot {} => so(false),
    }
}

/// Carries an operation out; its way back is in the journal before the host is touched.
pub fn carry_out(
    on: &System,
    work: &mut Work,
    at: (usize, usize),
    operation: &Operation,
    config: &RunConfig,
    tell: Teller,
) -> Result<(), Failure> {
    let io = |e: std::io::Error| Failure::Step(format!("{}: {e}", operation.describe()));
    let boot = boot_id(on);
    let Work { journal, backups, ahead } = work;
    let log = log_file(on, at)?;
    if let Some(manager) = packages::needed_by(operation) {
        locks::wait(on, manager, config.lock_timeout, &mut |holder, since| {
            tell(&News::Waiting { what: &format!("the package manager, which is locked by {holder}"), since });
        })
        .map_err(Failure::Later)?;
    }
    match operation {
        Operation::WriteFile { .. } | Operation::Link { .. } | Operation::Remove { .. } => {
            let undo = file::intend(on, operation, backups).map_err(io)?;
            journal.note(on, Event::Intent { at, undo, boot })?;
            file::perform(on, operation).map_err(io)?;
        }
        Operation::Unpack { archive, sha256, into, limit } => {
            let (staging, staged) = ahead
                .take(at)
                .map_or_else(|| (unpack::staging(on, sha256, into), None), |(staging, staged)| (staging, Some(staged)));
            let mut undo = vec![Undo::Tree { path: staging.clone() }];
            let staged = match staged {
                Some(staged) => staged,
                None => {
                    journal.note(on, Event::Intent { at, undo: undo.clone(), boot: boot.clone() })?;
                    let began = Instant::now();
                    let working = &mut |have, all| {
                        tell(&News::Working { operation, since: began.elapsed(), bytes: Some((have, Some(all))) });
                    };
                    unpack::stage(on, archive, sha256, into, *limit, &staging, working)?
                }
            };
            undo.extend(staged.intend(on, backups).map_err(io)?);
            journal.note(on, Event::Intent { at, undo, boot })?;
            staged.commit(on).map_err(io)?;
        }
        Operation::Run { asks, .. } => {
            let undo = if *asks { Vec::new() } else { program::intend(on, operation, backups).map_err(io)? };
            if !asks {
                journal.note(on, Event::Intent { at, undo: undo.clone(), boot: boot.clone() })?;
            }
            let working = &mut |since| tell(&News::Working { operation, since, bytes: None });
            let ran = program::perform(on, operation, Some(log), working);
            ran.map_err(|e| if *asks { Failure::Verification(with_cause(&e.to_string())) } else { Failure::from(e) })?;
            if *asks {
                return Ok(());
            }
            settle(on, journal, at, undo, boot).map_err(io)?;
        }
        Operation::Packages(wanted) => {
            let undo = vec![Undo::Packages(packages::intend(on, wanted).map_err(io)?)];
            journal.note(on, Event::Intent { at, undo: undo.clone(), boot: boot.clone() })?;
            with_network(config, tell, |tell| {
                let working = &mut |since| tell(&News::Working { operation, since, bytes: None });
                packages::perform(on, wanted, &config.supply(), Some(log.clone()), working).map_err(|e| {
                    let unreachable = matches!(e, PackagesError::Network { unreachable: true, .. });
                    (e.into(), unreachable)
                })
            })?;
            settle(on, journal, at, undo, boot).map_err(io)?;
        }
        Operation::Service { unit, enabled } => {
            // One that only did not run was enabled before.
            let before = service::is_enabled(on, unit).map_err(io)?;
            let undo = vec![Undo::Unit { unit: unit.clone(), enabled: before }];
            journal.note(on, Event::Intent { at, undo, boot })?;
            service::set(on, unit, *enabled)?;
        }
        Operation::Download { .. } | Operation::Reboot {} => return Ok(()),
    }
    // "Done" must not be on the disk before what was done is; links and files that we made ourselves are.
    if matches!(operation, Operation::Unpack { .. } | Operation::Service { .. }) {
        on.sync();
    }
    journal.note(on, Event::Done { at })?;
    Ok(())
}

/// What a program that asked said, behind the cause where a compiler has named it.
fn with_cause(said: &str) -> String {
    compile::Cause::of(said).map_or_else(|| said.to_owned(), |cause| format!("{}\n{said}", cause.sentence()))
}

/// Notes the way back as it is known now that the work is done, and on the disk, so that an undo, months later, can tell what
/// came of it from what others did since.
fn settle(on: &System, journal: &mut Journal, at: At, undo: Vec<Undo>, boot: Option<String>) -> std::io::Result<()> {
    on.sync();
    let undo = undo.into_iter().map(|way| way.learned(on)).collect::<std::io::Result<_>>()?;
    journal.note(on, Event::Intent { at, undo, boot }).map_err(std::io::Error::other)
}

/// A log of its own for each operation, below the host's root.
fn log_file(on: &System, (step, operation): (usize, usize)) -> Result<Log, Failure> {
    let io = |e: std::io::Error| Failure::Step(format!("cannot write below {LOGS}: {e}"));
    on.make_directories(LOGS, 0o750).map_err(io)?;
    let path = Path::new(LOGS).join(format!("step-{}-{}.log", step + 1, operation + 1));
    on.append_to(path, 0o640).map(Log::new).map_err(io)
}
