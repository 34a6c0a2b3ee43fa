//! Carrying a plan out, and taking the last apply back.

use super::journal::{At, Event, Journal, Made};
use super::result::{self, save};
use super::{Failure, preflight};
use crate::fetch::{Wanted, fetch, is_cached};
use crate::operation::undo::{Backups, Undo};
use crate::operation::{Operation, Standing, file, packages, program, service, unpack};
use crate::plan::{Plan, State, Step};
use crate::system::{System, interrupt};
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
    /// An operation that a run before this one began, and did not end, is taken back first.
    Recovering(&'a Operation),
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
    save(on, result::PLAN, plan).map_err(|e| Failure::Blocked(format!("cannot write {}: {e}", result::PLAN)))?;
    for (s, step) in plan.steps.iter().enumerate() {
        if step.state != State::Skipped {
            tell(&News::Step(step));
        }
        for (o, act) in step.operations.iter().enumerate() {
            let (at, operation) = ((s, o), &act.operation);
            not_interrupted()?;
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
                        // A program that was ended because we are to stop failed for that reason and no other.
                        let failure = not_interrupted().err().unwrap_or(failure);
                        journal.note(on, Event::Failed { at, why: failure.to_string() })?;
                        // Half of an operation is nothing that the next run could tell from all of it.
                        take_back_torn(on, &mut journal, tell)?;
                        return Err(failure);
                    }
                    done += usize::from(!matches!(operation, Operation::Run { asks: true, .. }));
                    tell(&News::Done(operation));
                }
            }
        }
    }
    journal.note(on, Event::Finished {})?;
    Ok(Outcome { done, reboot_required: false })
}

fn not_interrupted() -> Result<(), Failure> {
    interrupt::heard().map_or(Ok(()), |signal| Err(Failure::Interrupted(signal)))
}

fn downloads(on: &System, plan: &Plan, tell: Teller) -> Result<usize, Failure> {
    let mut done = 0;
    for act in plan.steps.iter().flat_map(|s| &s.operations).filter(|a| !a.satisfied) {
        let Operation::Download { url, sha256, size, to } = &act.operation else { continue };
        let wanted = Wanted { url, sha256, size: *size, to };
        if is_cached(on, &wanted) {
            continue;
        }
        not_interrupted()?;
        let began = std::time::Instant::now();
        fetch(on, &wanted, &mut |bytes| {
            tell(&News::Working { operation: &act.operation, since: began.elapsed(), bytes: Some((bytes, *size)) });
        })
        .map_err(|e| not_interrupted().err().unwrap_or(e.into()))?;
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
    let boot = on.read_text("/proc/sys/kernel/random/boot_id").ok().flatten().map(|id| id.trim().to_owned());
    let log = log_file(on, at)?;
    let mut working = |since| tell(&News::Working { operation, since, bytes: None });
    match operation {
        Operation::WriteFile { .. } | Operation::Link { .. } => {
            let undo = file::intend(on, operation, backups).map_err(io)?;
            journal.note(on, Event::Intent { at, undo, boot })?;
            file::perform(on, operation).map_err(io)?;
        }
        Operation::Unpack { archive, sha256, into } => {
            let mut undo = vec![Undo::Tree { path: unpack::staging(on, into) }];
            journal.note(on, Event::Intent { at, undo: undo.clone(), boot: boot.clone() })?;
            let staged = unpack::stage(on, archive, sha256, into)?;
            undo.extend(staged.intend(on, backups).map_err(io)?);
            journal.note(on, Event::Intent { at, undo, boot })?;
            staged.commit(on).map_err(io)?;
        }
        Operation::Run { asks, creates, .. } => {
            if !asks {
                let undo = program::intend(on, operation, backups).map_err(io)?;
                journal.note(on, Event::Intent { at, undo, boot })?;
            }
            let ran = program::perform(on, operation, Some(log), &mut working);
            ran.map_err(|e| if *asks { Failure::Verification(e.to_string()) } else { Failure::from(e) })?;
            if *asks {
                return Ok(());
            }
            // "Done" must not be on the disk before what was done is.
            creates
                .iter()
                .filter(|tree| on.is_directory(tree))
                .try_for_each(|tree| on.sync_around(tree))
                .map_err(io)?;
        }
        Operation::Packages { manager, install, remove, stream } => {
            let undo = packages::intend(on, *manager).map_err(io)?;
            journal.note(on, Event::Intent { at, undo, boot })?;
            packages::perform(on, *manager, install, remove, stream.as_deref(), Some(log), &mut working)?;
        }
        Operation::Service { unit, enabled } => {
            let undo = vec![Undo::Unit { unit: unit.clone(), enabled: !enabled }];
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

/// Takes back what a run before this one began and did not end: it was killed, or the power was cut. What is half there
/// cannot be told from what is there, so this comes before any look at the host.
pub fn recover(on: &System, tell: Teller) -> Result<(), Failure> {
    take_back_torn(on, &mut Journal::open(on)?, tell).map(|_| ())
}

/// Takes the last apply back, last first; the paths that were left because somebody changed them since.
pub fn rollback(on: &System, tell: Teller) -> Result<Vec<PathBuf>, Failure> {
    let mut journal = Journal::open(on)?;
    let made = journal.last_apply().into_iter().map(Owned::from).collect();
    take_back(on, &mut journal, made, &mut |operation| tell(&News::Undone(operation)))
}

fn take_back_torn(on: &System, journal: &mut Journal, tell: Teller) -> Result<Vec<PathBuf>, Failure> {
    let torn = journal.torn().into_iter().map(Owned::from).collect();
    take_back(on, journal, torn, &mut |operation| tell(&News::Recovering(operation)))
}

/// What is to be taken back, apart from the journal that notes it.
struct Owned {
    run: usize,
    at: At,
    operation: Option<Operation>,
    undo: Vec<Undo>,
}

impl From<Made<'_>> for Owned {
    fn from(made: Made) -> Self {
        Self { run: made.run, at: made.at, operation: made.operation.cloned(), undo: made.undo.to_vec() }
    }
}

fn take_back(
    on: &System,
    journal: &mut Journal,
    made: Vec<Owned>,
    tell: &mut dyn FnMut(&Operation),
) -> Result<Vec<PathBuf>, Failure> {
    let mut all_left = Vec::new();
    for Owned { run, at, operation, undo } in made {
        let mut left = Vec::new();
        for way in undo.iter().rev() {
            let what = || operation.as_ref().map_or("an operation".to_owned(), Operation::describe);
            left.extend(way.perform(on).map_err(|e| Failure::Step(format!("undoing {}: {e}", what())))?);
        }
        journal.note(on, Event::Undone { run, at, left: left.clone() })?;
        if let Some(operation) = &operation {
            tell(operation);
        }
        all_left.extend(left);
    }
    Ok(all_left)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apply::result::{Account, Ending, status};
    use crate::apply::sample::plan_of;

    fn host() -> (System, tempfile::TempDir) {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let on = System::at(dir.path());
        ["/etc", "/var/lib", "/var/log", "/usr/local"].iter().for_each(|folder| {
            on.make_directories(folder, 0o755).expect("made");
        });
        (on, dir)
    }

    fn file(path: &str) -> Operation {
        Operation::WriteFile { path: path.into(), content: "ours\n".into(), mode: 0o644 }
    }

    /// A link that cannot be made as long as its end has another SONAME.
    fn refused_link() -> Operation {
        Operation::Link { path: "/usr/local/x".into(), target: "y".into(), soname: Some("libx.so.1".into()) }
    }

    #[test]
    fn an_apply_that_failed_and_was_run_again_is_taken_back_as_one() {
        let (on, _dir) = host();
        let failed = apply(&on, &plan_of(vec![file("/etc/a"), refused_link()]), &mut |_| {});
        assert!(matches!(failed, Err(Failure::Step(_))), "{failed:?}");
        assert!(on.exists("/etc/a"), "what was done stays, to go on with");
        apply(&on, &plan_of(vec![file("/etc/a"), file("/etc/b")]), &mut |_| {}).expect("mended");
        assert!(rollback(&on, &mut |_| {}).expect("taken back").is_empty());
        assert!(!on.exists("/etc/a") && !on.exists("/etc/b"));
        assert!(rollback(&on, &mut |_| {}).expect("nothing left").is_empty());
    }

    #[test]
    fn what_a_killed_run_began_is_taken_back_before_anything_else() {
        let (on, _dir) = host();
        let mut journal = Journal::open(&on).expect("readable");
        let plan = Box::new(plan_of(vec![file("/etc/a")]));
        journal.note(&on, Event::Run { version: super::super::journal::VERSION, plan }).expect("noted");
        let tree = Undo::Tree { path: "/usr/local/cuda-12.8".into() };
        let undo = vec![
            Undo::Path { path: "/etc/a".into(), before: crate::system::Node::Absent, backup: None, after: None },
            tree,
        ];
        journal.note(&on, Event::Intent { at: (0, 0), undo, boot: None }).expect("noted");
        on.make_directories("/usr/local/cuda-12.8/bin", 0o755).expect("made");
        on.write("/etc/.a.gpusetup-new", b"half", 0o644).expect("written");
        let mut told = 0;
        recover(&on, &mut |news| told += usize::from(matches!(news, News::Recovering(_)))).expect("recovered");
        assert_eq!((told, on.list("/etc").expect("listed").len()), (1, 0));
        assert!(!on.exists("/usr/local/cuda-12.8"));
        recover(&on, &mut |_| panic!("once is enough")).expect("nothing to do");
    }

    #[test]
    fn a_file_in_the_way_is_found_before_the_first_change() {
        let (on, _dir) = host();
        on.make_directories("/etc/b", 0o755).expect("made");
        let blocked = apply(&on, &plan_of(vec![file("/etc/a"), file("/etc/b")]), &mut |_| {});
        assert!(matches!(&blocked, Err(Failure::Blocked(why)) if why.contains("/etc/b")), "{blocked:?}");
        assert!(!on.exists("/etc/a") && !on.exists("/var/lib/gpusetup"));
    }

    #[test]
    fn a_cache_that_others_may_write_is_refused() {
        let (on, _dir) = host();
        on.make_directories("/var/cache/gpusetup", 0o777).expect("made");
        let to = PathBuf::from("/var/cache/gpusetup/ab/x.run");
        let download = Operation::Download { url: "http://127.0.0.1:9/x".into(), sha256: "00".into(), size: None, to };
        let blocked = apply(&on, &plan_of(vec![download]), &mut |_| {});
        assert!(matches!(&blocked, Err(Failure::Blocked(why)) if why.contains("/var/cache/gpusetup")), "{blocked:?}");
    }

    #[test]
    fn the_result_tells_the_step_that_failed() {
        let (on, _dir) = host();
        let plan = plan_of(vec![file("/etc/a")]);
        let mut account = Account::open();
        account.plan(&plan);
        account.begins(plan.steps[0].id);
        account.close(&on, Ending::Failed, Some((7, "no room".to_owned()))).expect("written");
        let told = status(&on).expect("readable").expect("there");
        assert_eq!((told.exit_code, told.error.as_deref()), (7, Some("no room")));
        assert_eq!(told.steps[0].state.as_str(), "failed");
        assert!(told.sentence().contains("no room"), "{}", told.sentence());
    }
}
