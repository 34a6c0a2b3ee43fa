//! Carries one operation of a plan out, with the journal.

use super::Failure;
use super::boot::boot_id;
use super::config::RunConfig;
use super::journal::{At, Event, Journal, JournalError};
use super::network::with_network;
use super::news::{News, OnNews};
use super::prefetched::Prefetched;
use gpusetup_operation::packages::PackagesError;
use gpusetup_operation::undo::{Backups, Undo};
use gpusetup_operation::{Operation, Unpack, packages, unpack};
use gpusetup_packages::locks;
use gpusetup_recipes::compile;
use gpusetup_system::{Log, System};
use gpusetup_text::paths::LOGS;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

/// What a run works with.
pub struct Work {
    /// What is intended and what was done.
    pub journal: Journal,
    /// Copies of what is replaced.
    pub backups: Backups,
    /// What is unpacked already.
    pub ahead: Prefetched,
}

/// Carries an operation out; how to undo it is in the journal before the host is touched.
pub fn carry_out(
    on: &System,
    work: &mut Work,
    at: At,
    operation: &Operation,
    config: &RunConfig,
    tell: OnNews,
) -> Result<(), Failure> {
    let io = |e: io::Error| Failure::Step(format!("{}: {e}", operation.describe()));
    let log = log_file(on, at)?;
    if let Some(manager) = operation.locks() {
        locks::wait(on, manager, config.lock_timeout, &mut |holder, since| {
            tell(&News::Waiting {
                what: &format!("the package manager, which is locked by {holder}"),
                since,
            });
        })
        .map_err(Failure::Later)?;
    }
    let mut working = |since, bytes| {
        tell(&News::Working {
            operation,
            since,
            bytes,
        })
    };
    match operation {
        Operation::WriteFile(file) => {
            let undo = file.intend(on, &mut work.backups).map_err(io)?;
            work.intend(on, at, undo)?;
            file.perform(on).map_err(io)?;
        }
        Operation::CopyFile(copy) => {
            let undo = copy.intend(on, &mut work.backups).map_err(io)?;
            work.intend(on, at, undo)?;
            copy.perform(on).map_err(io)?;
        }
        Operation::EditFile(edit) => {
            let undo = edit.intend(on, &mut work.backups).map_err(io)?;
            work.intend(on, at, undo)?;
            edit.perform(on).map_err(io)?;
        }
        Operation::Link(link) => {
            let undo = link.intend(on, &mut work.backups).map_err(io)?;
            work.intend(on, at, undo)?;
            link.perform(on).map_err(io)?;
        }
        Operation::Remove(remove) => {
            let undo = remove.intend(on, &mut work.backups).map_err(io)?;
            work.intend(on, at, undo)?;
            remove.perform(on).map_err(io)?;
        }
        Operation::Unpack(unpack) => work.unpack(on, at, unpack, &mut working, io)?,
        Operation::Run(run) if run.asks => {
            let asked = run.perform(on, Some(log), &mut |since| working(since, None));
            return asked.map_err(|e| Failure::Verification(with_cause(&e.to_string())));
        }
        Operation::Run(run) => {
            let undo = run.intend(on, &mut work.backups).map_err(io)?;
            work.intend(on, at, undo.clone())?;
            run.perform(on, Some(log), &mut |since| working(since, None))?;
            work.settle(on, at, undo).map_err(io)?;
        }
        Operation::AddRepository(repository) => {
            let undo = repository.intend(on, &mut work.backups)?;
            work.intend(on, at, undo)?;
            let working = &mut |since| working(since, None);
            repository.perform(on, &config.supply(), Some(log), working)?;
        }
        Operation::Packages(wanted) => {
            let mut undo = vec![Undo::Packages(packages::intend(on, wanted).map_err(io)?)];
            // It is put back first: the packages of the other stream are hidden.
            if let Some(state) = packages::stream_state(wanted) {
                undo.push(work.backups.save(on, &state, None).map_err(io)?);
            }
            work.intend(on, at, undo.clone())?;
            with_network(config, tell, |tell| {
                let working = &mut |since| {
                    tell(&News::Working {
                        operation,
                        since,
                        bytes: None,
                    })
                };
                packages::perform(on, wanted, &config.supply(), Some(log.clone()), working).map_err(
                    |e| {
                        let unreachable = matches!(
                            e,
                            PackagesError::Network {
                                unreachable: true,
                                ..
                            }
                        );
                        (e.into(), unreachable)
                    },
                )
            })?;
            work.settle(on, at, undo).map_err(io)?;
        }
        Operation::Hold(hold) => {
            work.intend(on, at, hold.intend(on).map_err(io)?)?;
            hold.perform(on)?;
        }
        Operation::Service(service) => {
            work.intend(on, at, service.intend(on).map_err(io)?)?;
            service.perform(on)?;
        }
        Operation::Device(device) => {
            work.intend(on, at, device.intend(on).map_err(io)?)?;
            device.perform(on).map_err(io)?;
        }
        Operation::EnrollKey(key) => {
            let mut undo = key.intend_key(on);
            if !undo.is_empty() {
                work.intend(on, at, undo.clone())?;
                key.make_key(on, log.clone())?;
            }
            undo.extend(key.intend(on).map_err(io)?);
            work.intend(on, at, undo)?;
            key.perform(on, log, &mut |password| tell(&News::Password(password)))?;
        }
        Operation::Download(_) | Operation::Reboot(_) => return Ok(()),
    }
    // "Done" must not be on the disk before what was done is; links and files that we made
    // ourselves are.
    if matches!(
        operation,
        Operation::Unpack(_) | Operation::Hold(_) | Operation::Service(_)
    ) {
        on.sync();
    }
    work.journal.note(on, Event::Done { at })?;
    Ok(())
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

    /// Notes how to undo it as is known now that the work is done, and on the disk: an undo, months
    /// later, can then tell what came of it from what others did since.
    fn settle(&mut self, on: &System, at: At, undo: Vec<Undo>) -> io::Result<()> {
        on.sync();
        let undo = undo
            .into_iter()
            .map(|undo| undo.learned(on))
            .collect::<io::Result<_>>()?;
        self.intend(on, at, undo).map_err(io::Error::other)
    }

    fn unpack(
        &mut self,
        on: &System,
        at: At,
        Unpack {
            archive,
            sha256,
            into,
            limit,
        }: &Unpack,
        working: &mut dyn FnMut(Duration, Option<(u64, Option<u64>)>),
        io: impl Fn(io::Error) -> Failure,
    ) -> Result<(), Failure> {
        let (staging, staged) = match self.ahead.take(at) {
            Some((staging, staged)) => (staging, Some(staged)),
            None => (unpack::staging(on, sha256, into), None),
        };
        let mut undo = vec![Undo::Tree {
            path: staging.clone(),
        }];
        let staged = match staged {
            Some(staged) => staged,
            None => {
                self.intend(on, at, undo.clone())?;
                let began = Instant::now();
                let progress = &mut |have, all| working(began.elapsed(), Some((have, Some(all))));
                unpack::stage(on, archive, sha256, into, *limit, &staging, progress)?
            }
        };
        undo.extend(staged.intend(on, &mut self.backups).map_err(&io)?);
        self.intend(on, at, undo)?;
        staged.commit(on).map_err(io)
    }
}

/// What a program that asked said, behind the cause where a compiler has named it.
fn with_cause(said: &str) -> String {
    compile::Cause::of(said).map_or_else(
        || said.to_owned(),
        |cause| format!("{}\n{said}", cause.sentence()),
    )
}

/// A log of its own for each operation, below the host's root.
fn log_file(on: &System, (step, operation): At) -> Result<Log, Failure> {
    let io = |e: std::io::Error| Failure::Step(format!("cannot write below {LOGS}: {e}"));
    on.make_directories(LOGS, 0o750).map_err(io)?;
    let path = Path::new(LOGS).join(format!("step-{}-{}.log", step + 1, operation + 1));
    on.append_to(path, 0o640).map(Log::new).map_err(io)
}
