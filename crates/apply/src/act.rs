//! Carries one operation of a plan out, with the journal.

use super::Failure;
use super::boot::boot_id;
use super::config::RunConfig;
use super::journal::{At, Event, Journal, JournalError};
use super::network::with_network;
use super::news::{News, OnNews};
use super::prefetched::Prefetched;
use gpusetup_operation::packages::PackagesError;
use gpusetup_operation::undo::Undo;
use gpusetup_operation::{Completion, Notice, Operation, OperationError};
use gpusetup_packages::locks;
use gpusetup_recipes::compile;
use gpusetup_system::{Log, System};
use gpusetup_text::paths::LOGS;
use std::io;
use std::path::Path;

/// What a run works with.
pub(crate) struct Work {
    /// What is intended and what was done.
    pub(crate) journal: Journal,
    /// What operations borrow.
    pub(crate) lent: gpusetup_operation::Work,
    /// What is unpacked already.
    pub(crate) prefetched: Prefetched,
}

/// Carries an operation out; how to undo it is in the journal before the host is touched.
pub(crate) fn carry_out(
    on: &System,
    work: &mut Work,
    at: At,
    operation: &Operation,
    config: &RunConfig,
    tell: OnNews,
) -> Result<(), Failure> {
    let failed = |e| failure(operation, e);
    work.lent.log = Some(log_file(on, at)?);
    work.lent.package_source = config.package_source();
    if let Some(manager) = operation.locks() {
        locks::wait(on, manager, config.lock_timeout, &mut |holder, since| {
            tell(&News::Waiting {
                what: &format!("the package manager, which is locked by {holder}"),
                since,
            });
        })
        .map_err(Failure::Later)?;
    }
    if operation.asks() {
        let asked = operation.perform(on, &mut work.lent, &mut |n| notice(operation, n, tell));
        return asked.map_err(|e| Failure::Verification(with_cause(&e.to_string())));
    }
    let mut undo = work.prepare(on, at, operation, tell)?;
    undo.extend(operation.intend(on, &mut work.lent).map_err(failed)?);
    work.intend(on, at, undo.clone())?;
    with_network(config, tell, |tell| {
        operation
            .perform(on, &mut work.lent, &mut |n| notice(operation, n, tell))
            .map_err(|e| {
                let unreachable = is_unreachable(&e);
                (failed(e), unreachable)
            })
    })?;
    match operation.completion() {
        Completion::Durable => {}
        Completion::Sync => on.sync(),
        Completion::Observe => work
            .observe(on, at, undo)
            .map_err(|e| failed(OperationError::Io(e)))?,
    }
    work.journal.note(on, Event::Done { at })?;
    Ok(())
}

fn notice(operation: &Operation, notice: Notice, tell: OnNews) {
    match notice {
        Notice::Working(since, bytes) => tell(&News::Working {
            operation,
            since,
            bytes,
        }),
        Notice::Password(password) => tell(&News::Password(password)),
    }
}

fn failure(operation: &Operation, e: OperationError) -> Failure {
    match e {
        OperationError::Io(e) => Failure::Step(format!("{}: {e}", operation.describe())),
        OperationError::Program(e) => e.into(),
        OperationError::Unpack(e) => e.into(),
        OperationError::Repository(e) => e.into(),
        OperationError::Packages(e) => e.into(),
    }
}

fn is_unreachable(e: &OperationError) -> bool {
    matches!(
        e,
        OperationError::Packages(PackagesError::Network {
            unreachable: true,
            ..
        })
    )
}

impl Work {
    /// Notes how to undo what is about to be done.
    fn intend(&mut self, on: &System, at: At, undo: Vec<Undo>) -> Result<(), JournalError> {
        self.journal.note(
            on,
            Event::Intent {
                at,
                undo,
                boot: boot_id(on),
            },
        )
    }

    /// Has what the operation needs made, unless it was made while it was fetched.
    fn prepare(
        &mut self,
        on: &System,
        at: At,
        operation: &Operation,
        tell: OnNews,
    ) -> Result<Vec<Undo>, Failure> {
        if let Some((path, staged)) = self.prefetched.take(at) {
            self.lent.staged = Some(staged);
            return Ok(vec![Undo::Tree { path }]);
        }
        let undo = operation.preparation(on);
        if !undo.is_empty() {
            self.intend(on, at, undo.clone())?;
            operation
                .prepare(on, &mut self.lent, &mut |n| notice(operation, n, tell))
                .map_err(|e| failure(operation, e))?;
        }
        Ok(undo)
    }

    /// Notes how to undo it as is known now that the work is done, and on the disk.
    fn observe(&mut self, on: &System, at: At, undo: Vec<Undo>) -> io::Result<()> {
        on.sync();
        let undo = undo
            .into_iter()
            .map(|undo| undo.learned(on))
            .collect::<io::Result<_>>()?;
        self.intend(on, at, undo).map_err(io::Error::other)
    }
}

/// What a program that asked said, behind the cause where a compiler has named it.
fn with_cause(output: &str) -> String {
    compile::Cause::of(output).map_or_else(
        || output.to_owned(),
        |cause| format!("{}\n{output}", cause.sentence()),
    )
}

/// A separate log for each operation, under the host's root.
fn log_file(on: &System, (step, operation): At) -> Result<Log, Failure> {
    let io = |e: std::io::Error| Failure::Step(format!("cannot write below {LOGS}: {e}"));
    on.make_directories(LOGS, 0o750).map_err(io)?;
    let path = Path::new(LOGS).join(format!("step-{}-{}.log", step + 1, operation + 1));
    on.append_to(path, 0o640).map(Log::new).map_err(io)
}
