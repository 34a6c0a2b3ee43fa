//! Rollback: undoes the last apply, or all of them, newest first; and what a run that was killed
//! had begun.

use super::account::provisional;
use super::events::noting;
use super::journal::{At, Event, Journal, Made};
use super::news::{News, OnNews};
use super::{Failure, reserve};
use gpusetup_operation::undo::Undo;
use gpusetup_operation::{Operation, Run, remove};
use gpusetup_system::System;
use std::path::Path;

/// Undoes what a run before this one began and did not end: it was killed, or the power was cut.
/// What is half there cannot be told from what is there, so this comes before any look at the host.
///
/// # Errors
///
/// If the journal cannot be read, or a half-done operation cannot be undone.
pub fn recover(on: &System, tell: OnNews) -> Result<(), Failure> {
    let tell: OnNews = &mut noting(on, tell);
    let mut journal = Journal::open(on)?;
    remove_set_aside(on, &journal)?;
    if !journal.torn().is_empty() {
        reserve::release(on);
    }
    take_back_torn(on, &mut journal, tell).map(|_| ())
}

/// What is rolled back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RollbackScope {
    /// The last apply.
    Last,
    /// Everything that gpusetup ever did here.
    All,
}

/// What would be rolled back, in that order, each in a line.
pub fn to_take_back(on: &System, reach: RollbackScope) -> Result<Vec<String>, Failure> {
    let journal = Journal::open(on)?;
    Ok(within(&journal, reach)
        .iter()
        .filter_map(|made| made.operation.map(Operation::describe))
        .collect())
}

/// Whether there is anything to roll back: something that was made and still stands, an apply that
/// has not come to its end, or a rollback that has not.
pub fn anything_to_take_back(on: &System, reach: RollbackScope) -> Result<bool, Failure> {
    let journal = Journal::open(on)?;
    Ok(is_anything(&journal, reach))
}

fn is_anything(journal: &Journal, reach: RollbackScope) -> bool {
    journal.rolling_back().is_some()
        || journal.open_apply().is_some()
        || !within(journal, reach).is_empty()
}

fn within(journal: &Journal, reach: RollbackScope) -> Vec<Made<'_>> {
    // A rollback that was begun resumes with the runs that it began with.
    match reach {
        RollbackScope::All if journal.rolling_back().is_none() => journal.all_made(),
        RollbackScope::All | RollbackScope::Last => journal.last_apply(),
    }
}

/// Rolls back what was done, newest first; what was left because somebody changed it since, or
/// because it is gone for good.
///
/// # Errors
///
/// If the journal cannot be read, or an operation cannot be undone: what was undone until then
/// stays so.
pub fn rollback(on: &System, reach: RollbackScope, tell: OnNews) -> Result<Vec<String>, Failure> {
    let tell: OnNews = &mut noting(on, tell);
    let mut journal = Journal::open(on)?;
    remove_set_aside(on, &journal)?;
    if !is_anything(&journal, reach) {
        return Ok(Vec::new());
    }
    // From here on it may be needed.
    reserve::release(on);
    let mut made: Vec<_> = within(&journal, reach)
        .into_iter()
        .map(Owned::from)
        .collect();
    if journal.rolling_back().is_some() {
        // The one that was being undone when the rollback stopped is among them.
        made.iter_mut().for_each(|owned| owned.cut_off = true);
    } else {
        let mut runs: Vec<_> = made.iter().map(|m| m.run).collect();
        runs.dedup();
        journal.note(on, Event::RollingBack { runs })?;
    }
    // Without room for a result, the journal tells how it ended.
    let _ = provisional(on, None);
    let left = take_back(on, &mut journal, made, &mut |operation| {
        tell(&News::Undone(operation))
    })?;
    journal.note(on, Event::RolledBack {})?;
    Ok(left)
}

pub(super) fn take_back_torn(
    on: &System,
    journal: &mut Journal,
    tell: OnNews,
) -> Result<Vec<String>, Failure> {
    let torn = journal.torn().into_iter().map(Owned::from).collect();
    take_back(on, journal, torn, &mut |operation| {
        tell(&News::Recovering(operation))
    })
}

/// Deletes the folders that were moved aside, now that nothing wants them back.
pub(super) fn remove_set_aside(on: &System, journal: &Journal) -> Result<(), Failure> {
    journal.condemned().iter().try_for_each(|aside| {
        remove::discard(on, aside)
            .map_err(|e| Failure::Step(format!("cannot remove {}: {e}", aside.display())))
    })
}

/// What is to be rolled back, apart from the journal that notes it.
struct Owned {
    run: usize,
    at: At,
    operation: Option<Operation>,
    undo: Vec<Undo>,
    /// It, or an earlier undo of it, was begun, and its end is not known.
    cut_off: bool,
}

impl From<Made<'_>> for Owned {
    fn from(made: Made) -> Self {
        Self {
            run: made.run,
            at: made.at,
            operation: made.operation.cloned(),
            undo: made.undo.to_vec(),
            cut_off: made.torn,
        }
    }
}

fn take_back(
    on: &System,
    journal: &mut Journal,
    made: Vec<Owned>,
    tell: &mut dyn FnMut(&Operation),
) -> Result<Vec<String>, Failure> {
    let (mut all_left, mut derived, mut folders) = (Vec::new(), Vec::new(), Vec::new());
    let lost: Vec<_> = made
        .iter()
        .flat_map(|owned| &owned.undo)
        .filter_map(|way| way.lost(on))
        .cloned()
        .collect();
    for owned in made {
        if owned.restarts() {
            derived.push(owned);
            continue;
        }
        let (mut left, mut is_any_undone) = (Vec::new(), owned.undo.is_empty());
        for way in owned.undo.iter().rev() {
            if let Some(path) = way.follows(&lost) {
                left.push(path.display().to_string());
                continue;
            }
            let stays = if owned.cut_off {
                way.perform_after_cut(on)
            } else {
                way.perform(on)
            };
            let stays = stays.map_err(|e| owned.failed(&e))?;
            is_any_undone |= stays.is_empty() || matches!(way, Undo::Packages(_));
            if matches!(way, Undo::Directory { .. }) {
                folders.extend(stays.iter().cloned());
            }
            left.extend(stays);
        }
        if !left.is_empty() && owned.derives() {
            derived.push(owned);
            continue;
        }
        let tell: &mut dyn FnMut(&Operation) = if is_any_undone {
            &mut *tell
        } else {
            &mut |_| {}
        };
        owned.is_undone(on, journal, left.clone(), tell)?;
        all_left.extend(left);
    }
    // What is made of other files (the loader's cache, an initramfs), and was made again since, is
    // made once more, of files that are now as they were. Daemons read them again.
    for owned in derived {
        let mut left = Vec::new();
        for way in owned
            .undo
            .iter()
            .filter(|way| matches!(way, Undo::Restart { .. }))
        {
            left.extend(way.perform(on).map_err(|e| owned.failed(&e))?);
        }
        left.extend(owned.make_again(on)?);
        all_left.extend(left.iter().cloned());
        owned.is_undone(on, journal, left, tell)?;
    }
    // A folder that something was in may have gone since, with the tree that it is in.
    all_left.retain(|path| !folders.contains(path) || on.exists(path));
    Ok(all_left)
}

impl Owned {
    /// Whether a program made it out of other files: running it again makes it again.
    fn derives(&self) -> bool {
        matches!(&self.operation, Some(Operation::Run(Run { verified, creates, changes, removes, .. }))
            if verified.is_empty() && creates.is_empty() && removes.is_empty() && !changes.is_empty())
    }

    /// Runs the program that made it again, and returns what stays as it is: one of NVIDIA's needs
    /// the driver and its own packages, which may be gone by now.
    fn make_again(&self, on: &System) -> Result<Vec<String>, Failure> {
        let Some(Operation::Run(run)) = &self.operation else {
            return Ok(Vec::new());
        };
        let Err(e) = run.execute(on, None, &mut |_| {}) else {
            return Ok(Vec::new());
        };
        if !is_nvidias(run) {
            return Err(self.failed(&e));
        }
        let stays = run.changes.iter().filter(|path| on.exists(path));
        Ok(stays.map(|path| path.display().to_string()).collect())
    }

    /// Whether it restarts a unit: that comes after everything that the unit reads.
    fn restarts(&self) -> bool {
        self.undo
            .iter()
            .any(|way| matches!(way, Undo::Restart { .. }))
    }

    fn failed(&self, why: &dyn std::error::Error) -> Failure {
        let what = self
            .operation
            .as_ref()
            .map_or("an operation".to_owned(), Operation::describe);
        Failure::Step(format!("undoing {what}: {why}"))
    }

    fn is_undone(
        &self,
        on: &System,
        journal: &mut Journal,
        left: Vec<String>,
        tell: &mut dyn FnMut(&Operation),
    ) -> Result<(), Failure> {
        journal.note(
            on,
            Event::Undone {
                run: self.run,
                at: self.at,
                left,
            },
        )?;
        if let Some(operation) = &self.operation {
            tell(operation);
        }
        Ok(())
    }
}

/// Whether the program is one of NVIDIA's: `nvidia-ctk cdi generate`.
fn is_nvidias(run: &Run) -> bool {
    let name = run
        .argv
        .first()
        .and_then(|program| Path::new(program).file_name());
    name.is_some_and(|name| name.to_string_lossy().starts_with("nvidia-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_of_nvidias_that_is_gone_does_not_stop_a_rollback() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let on = System::at(dir.path());
        on.make_directories("/etc/cdi", 0o755).expect("made");
        on.write("/etc/cdi/nvidia.yaml", b"of a later driver", 0o644)
            .expect("written");
        let taken_back = |program: &str| {
            let run = Run::new([program, "cdi", "generate"], 120)
                .changing(["/etc/cdi/nvidia.yaml".into()]);
            // The folder is not empty, so something stays.
            let undo = vec![Undo::Directory {
                path: "/etc/cdi".into(),
            }];
            let operation = Some(Operation::Run(run));
            let made = Owned {
                run: 1,
                at: (0, 0),
                operation,
                undo,
                cut_off: false,
            };
            take_back(&on, &mut Journal::default(), vec![made], &mut |_| {})
        };
        assert_eq!(
            taken_back("/usr/bin/nvidia-ctk").expect("undone"),
            ["/etc/cdi/nvidia.yaml"]
        );
        assert!(
            taken_back("/usr/sbin/ldconfig").is_err(),
            "the loader's cache would be of other files"
        );
    }
}
