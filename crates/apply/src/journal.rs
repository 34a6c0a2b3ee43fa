//! The write-ahead journal: each change and its undo are on the disk before it happens. Each record
//! is a line with a checksum of it and of the record before it; a last line that a power cut tore
//! is recognised and cut off. What stands where is a fold over the records; there is no second file
//! to disagree with them.

use super::result::{self, Ending};
use gpusetup_database::sum::sha256;
use gpusetup_fetch::cache::BUNDLES;
use gpusetup_operation::Operation;
use gpusetup_operation::undo::Undo;
use gpusetup_operation::valid::path;
use gpusetup_plan::Plan;
use gpusetup_system::limits::MAX_JOURNAL;
use gpusetup_system::{System, is_absent};
use gpusetup_text::paths::{BACKUPS, JOURNAL, PLAN, RESULT};
use serde::{Deserialize, Serialize};
use std::io;
use std::path::{Path, PathBuf};

/// The version of its records; one that is newer is refused, not misread. Since version 3, the
/// checksum of a record covers that of the record before it.
pub(crate) const VERSION: u32 = 3;

/// One record.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) enum Event {
    /// A run begins: everything that follows, up to the next one, carries out this plan.
    Run {
        version: u32,
        plan: Box<Plan>,
        /// The folder that the packages of its bundle are in, where it comes from one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        packages: Option<PathBuf>,
    },
    /// An operation found the host as it wants it: it is not ours, and is never undone.
    Kept {
        /// Step and operation, each counted from 0.
        at: At,
    },
    /// An operation is about to be carried out.
    Intent {
        /// Step and operation.
        at: At,
        /// The undo, in the order in which things will be made.
        undo: Vec<Undo>,
        boot: Option<String>,
    },
    /// It was carried out.
    Done {
        /// Step and operation.
        at: At,
    },
    /// It was rolled back.
    Undone {
        /// Of which run, counted from 0 in this journal: a later run may roll back what an earlier
        /// one left.
        run: usize,
        /// Step and operation.
        at: At,
        /// What was left because somebody changed it since, or because it is gone for good.
        left: Vec<String>,
    },
    Failed {
        /// Step and operation.
        at: At,
        /// What went wrong, as the end of a sentence.
        why: String,
    },
    /// The host must boot before the rest.
    Reboot {
        /// Step and operation.
        at: At,
        /// The boot before it.
        boot: Option<String>,
    },
    /// The run came to its end, with everything done.
    Finished {},
    /// The last apply is being rolled back.
    RollingBack {
        /// Its runs, counted from 0.
        runs: Vec<usize>,
    },
    /// It was rolled back, except for what others changed since.
    RolledBack {},
}

/// An operation's place in a plan: step and operation, each counted from 0.
pub(crate) type At = (usize, usize);

/// An apply: one run or several, each of which resumed the one before.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Apply<'a> {
    /// The plan of the last of them.
    pub(crate) plan: &'a Plan,
    /// The folder that the packages of its bundle are in, where it comes from one.
    pub(crate) packages: Option<&'a Path>,
    /// What of that plan was done.
    pub(crate) done: Vec<At>,
    /// The reboots that it asked for, each with the boot before it.
    pub(crate) reboots: Vec<(At, Option<&'a str>)>,
    /// Reboots that earlier plans of this apply asked for.
    pub(crate) earlier_reboots: usize,
    /// It came to its end.
    pub(crate) finished: bool,
}

/// Something that a run did, or began, and that was not rolled back.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Made<'a> {
    /// Which run, counted from 0 in this journal.
    pub(crate) run: usize,
    /// Where in that run's plan.
    pub(crate) at: At,
    /// The operation; none where the run's plan has none at that place.
    pub(crate) operation: Option<&'a Operation>,
    pub(crate) undo: &'a [Undo],
    /// It was begun, and no end is recorded: gpusetup stopped here, or it failed and could not be
    /// rolled back.
    pub(crate) torn: bool,
}

/// A run: what it made and still stands, in the order in which it was made.
struct Run<'a> {
    made: Vec<Made<'a>>,
    plan: &'a Plan,
    finished: bool,
}

/// Why a journal cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The file cannot be read or written.
    #[error("cannot use the journal {JOURNAL}: {0}")]
    Io(#[from] io::Error),
    /// A record is not what was written, or the one before it is missing, and no power cut left it
    /// so.
    #[error("record {0} of the journal {JOURNAL} was altered, or the one before it was removed")]
    Altered(usize),
    /// Records at its end are missing, and no power cut took them.
    #[error(
        "the journal {JOURNAL} ends too early: {PLAN} and {RESULT} report more than its records do"
    )]
    Incomplete,
    /// A record is whole, and says what gpusetup never notes.
    #[error("record {0} of the journal {JOURNAL} makes no sense: {1}")]
    Senseless(usize, String),
    /// It was written by a newer gpusetup.
    #[error(
        "the journal {JOURNAL} was written by a newer gpusetup (version {0}; this one reads {VERSION}): use that gpusetup, \
         which `tool` in {RESULT} names"
    )]
    Newer(u32),
}

/// The journal, read.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    events: Vec<Event>,
    /// The bytes of the records that are whole: what is behind them was torn by a power cut, and is
    /// cut off.
    length: u64,
    chain: Chain,
}

/// The checksums of the records so far.
#[derive(Debug, Default)]
struct Chain {
    /// That of the last record; empty before the first.
    last: String,
    /// Whether one covers the record before it, as those of older versions do not.
    is_linked: bool,
}

impl Chain {
    /// The checksum of a record that follows.
    fn sum_of(&self, json: &str) -> String {
        sha256(format!("{}{json}", self.last))[..16].to_owned()
    }

    fn push(&mut self, sum: String) {
        // That of the first record is the same in all versions.
        self.is_linked |= !self.last.is_empty();
        self.last = sum;
    }

    /// Whether a record with this checksum follows; if so, it is the last now.
    fn accepts(&mut self, sum: &str, json: &str) -> bool {
        if sum == self.sum_of(json) {
            self.push(sum.to_owned());
            return true;
        }
        let is_older = !self.is_linked && sum == Self::default().sum_of(json);
        if is_older {
            self.last = sum.to_owned();
        }
        is_older
    }
}

/// What runs leave beside the journal.
struct Traces {
    /// Whether a plan was saved, after the first record of its run.
    has_plan: bool,
    /// The fingerprint of the plan that was carried out to its end, in the result written after the
    /// last record.
    done: Option<String>,
}

impl Traces {
    fn of(on: &System) -> Self {
        let result = result::status(on)
            .ok()
            .flatten()
            .filter(|result| result.state == Ending::Done);
        Self {
            has_plan: on.exists(PLAN),
            done: result.and_then(|result| result.fingerprint),
        }
    }
}

impl Journal {
    /// Reads it; none is an empty one.
    pub(crate) fn open(on: &System) -> Result<Self, JournalError> {
        // Read first: a run may be adding records.
        let traces = Traces::of(on);
        let bytes = match on.read_up_to(JOURNAL, MAX_JOURNAL) {
            Ok(bytes) => bytes,
            Err(e) if is_absent(&e) => return Ok(Self::default()),
            Err(e) => return Err(e.into()),
        };
        let mut journal = Self::default();
        let lines: Vec<_> = bytes.split_inclusive(|b| *b == b'\n').collect();
        for (n, line) in lines.iter().enumerate() {
            let read = line
                .strip_suffix(b"\n")
                .ok_or(None)
                .and_then(|line| record(line, &mut journal.chain));
            match read {
                Ok(Event::Run { version, .. }) if version > VERSION => {
                    return Err(JournalError::Newer(version));
                }
                Ok(event) => {
                    event
                        .valid()
                        .map_err(|why| JournalError::Senseless(n + 1, why))?;
                    journal.events.push(event);
                }
                // A newer version may have records that are not known here; its first line says so.
                Err(Some(version)) if version > VERSION => {
                    return Err(JournalError::Newer(version));
                }
                Err(_) if n + 1 == lines.len() && is_torn(line) => break,
                Err(_) => return Err(JournalError::Altered(n + 1)),
            }
            journal.length += line.len() as u64;
        }
        if journal.lacks_records_of(&traces) {
            Err(JournalError::Incomplete)
        } else {
            Ok(journal)
        }
    }

    fn lacks_records_of(&self, traces: &Traces) -> bool {
        match &traces.done {
            _ if self.events.is_empty() => traces.has_plan,
            Some(done) => {
                self.open_apply()
                    .is_some_and(|open| open.plan.fingerprint() == *done)
                    && !self.has_finished(done)
            }
            None => false,
        }
    }

    /// Whether a run of the plan with this fingerprint ever came to its end.
    fn has_finished(&self, fingerprint: &str) -> bool {
        let mut is_its_run = false;
        self.events.iter().any(|event| match event {
            Event::Run { plan, .. } => {
                is_its_run = plan.fingerprint() == fingerprint;
                false
            }
            Event::Finished {} => is_its_run,
            _ => false,
        })
    }

    /// Appends a record; it is on the disk when this returns.
    pub(crate) fn note(&mut self, on: &System, event: Event) -> Result<(), JournalError> {
        // What would be refused when it is read must not be begun: nobody could take it back.
        event
            .valid()
            .map_err(|why| JournalError::Senseless(self.events.len() + 1, why))?;
        let json = serde_json::to_string(&event).map_err(io::Error::from)?;
        let sum = self.chain.sum_of(&json);
        let line = format!("{sum} {json}\n");
        if let Some(folder) = Path::new(JOURNAL).parent() {
            on.make_directories(folder, 0o700)?;
        }
        on.append(JOURNAL, self.length, line.as_bytes(), 0o600)?;
        self.length += line.len() as u64;
        self.chain.push(sum);
        self.events.push(event);
        Ok(())
    }

    /// Every record, oldest first.
    pub(super) fn events(&self) -> &[Event] {
        &self.events
    }

    fn runs(&self) -> Vec<Run<'_>> {
        let mut runs: Vec<Run> = Vec::new();
        for event in &self.events {
            match (event, runs.len()) {
                (Event::Run { plan, .. }, _) => runs.push(Run {
                    made: Vec::new(),
                    plan,
                    finished: false,
                }),
                (Event::Undone { run, at, .. }, _) => {
                    if let Some(run) = runs.get_mut(*run) {
                        run.made.retain(|m| m.at != *at);
                    }
                }
                (_, 0) => {}
                (event, count) => runs[count - 1].add(event, count - 1),
            }
        }
        runs
    }

    /// What the last apply made and still stands, newest first. An apply that stopped or failed,
    /// and was then run again until it came to its end, is one.
    pub(crate) fn last_apply(&self) -> Vec<Made<'_>> {
        let mut all: Vec<Made> = Vec::new();
        let runs = self.runs();
        if let Some(only) = self.rolling_back() {
            let chosen = runs
                .iter()
                .enumerate()
                .rev()
                .filter(|(n, _)| only.contains(n));
            return chosen
                .flat_map(|(_, run)| run.made.iter().rev().copied())
                .collect();
        }
        // One that has not come to its end is the last, even if it did nothing yet: those before it
        // are others.
        let open = self.open_apply().is_some();
        for run in runs.iter().rev() {
            if run.finished && (open || !all.is_empty()) {
                break;
            }
            all.extend(run.made.iter().rev());
        }
        all
    }

    /// Everything that was ever made and still stands, newest first.
    pub(crate) fn all_made(&self) -> Vec<Made<'_>> {
        let runs = self.runs();
        runs.iter()
            .rev()
            .flat_map(|run| run.made.iter().rev().copied())
            .collect()
    }

    /// The folders that were moved aside to be removed, where nothing can want them back: what
    /// removed them came to its end.
    pub(crate) fn condemned(&self) -> Vec<PathBuf> {
        if self.open_apply().is_some() || self.rolling_back().is_some() {
            return Vec::new();
        }
        self.all_made()
            .iter()
            .flat_map(|made| made.undo)
            .filter_map(|undo| match undo {
                Undo::Aside { aside, .. } => Some(aside.clone()),
                _ => None,
            })
            .collect()
    }

    /// The apply that has not come to its end, if the last one has not.
    pub(crate) fn open_apply(&self) -> Option<Apply<'_>> {
        self.newest_apply().filter(|a| !a.finished)
    }

    /// The last apply that was not rolled back.
    pub(crate) fn newest_apply(&self) -> Option<Apply<'_>> {
        // Runs of one plan are one; the first of them.
        let (mut open, mut count, mut first) = (None::<Apply>, 0, 0);
        for event in &self.events {
            if let Event::Run { plan, packages, .. } = event {
                let packages = packages.as_deref();
                count += 1;
                open = Some(match open.take() {
                    Some(before) if before.plan.fingerprint() == plan.fingerprint() => Apply {
                        finished: false,
                        packages,
                        ..before
                    },
                    before => {
                        first = count - 1;
                        Apply {
                            plan,
                            packages,
                            done: Vec::new(),
                            reboots: Vec::new(),
                            earlier_reboots: before
                                .filter(|a| !a.finished)
                                .map_or(0, |a| a.earlier_reboots + a.reboots.len()),
                            finished: false,
                        }
                    }
                });
                continue;
            }
            let Some(now) = &mut open else { continue };
            match event {
                Event::Done { at } => now.done.push(*at),
                Event::Undone { run, at, .. } if *run >= first => now.done.retain(|d| d != at),
                Event::Reboot { at, boot } => now.reboots.push((*at, boot.as_deref())),
                Event::Finished {} => now.finished = true,
                Event::RolledBack {} => open = None,
                Event::Run { .. }
                | Event::Kept { .. }
                | Event::Intent { .. }
                | Event::Undone { .. }
                | Event::Failed { .. }
                | Event::RollingBack { .. } => {}
            }
        }
        open
    }

    /// The runs whose rollback has begun and not ended.
    pub(crate) fn rolling_back(&self) -> Option<&[usize]> {
        match self
            .events
            .iter()
            .rev()
            .find(|e| !matches!(e, Event::Undone { .. }))
        {
            Some(Event::RollingBack { runs }) => Some(runs),
            _ => None,
        }
    }

    /// The boot before the reboot that the last run asked for, if it ended so.
    pub(crate) fn waits_for_boot(&self) -> Option<Option<&str>> {
        match self.events.last() {
            Some(Event::Reboot { boot, .. }) => Some(boot.as_deref()),
            _ => None,
        }
    }

    /// What was begun and is neither done nor rolled back, newest first.
    pub(crate) fn torn(&self) -> Vec<Made<'_>> {
        self.runs()
            .iter()
            .rev()
            .flat_map(|r| r.made.iter().rev().copied().collect::<Vec<_>>())
            .filter(|m| m.torn)
            .collect()
    }

    /// How many intents were ever noted: backups are numbered behind it.
    pub(crate) fn intents(&self) -> usize {
        self.events
            .iter()
            .map(|e| {
                if let Event::Intent { undo, .. } = e {
                    undo.len()
                } else {
                    0
                }
            })
            .sum()
    }
}

/// Whether a power cut can have left a last line like this: its end, the newline, is the last that
/// is written, and blocks that did not reach the disk are zeroes. Anything else is a record that
/// was altered.
fn is_torn(line: &[u8]) -> bool {
    !line.ends_with(b"\n") || line.contains(&0)
}

impl Event {
    /// Whether it is such as gpusetup notes: whoever could write the journal could have it undo
    /// anything.
    fn valid(&self) -> Result<(), String> {
        match self {
            Self::Run { plan, packages, .. } => {
                plan.valid()?;
                let all = plan.request.cache.join(BUNDLES);
                match packages {
                    Some(folder) if folder.parent() != Some(&all) => {
                        Err(format!("{folder:?} holds no packages"))
                    }
                    Some(folder) => path(folder),
                    None => Ok(()),
                }
            }
            Self::Intent { undo, .. } => undo
                .iter()
                .try_for_each(|undo| undo.valid(Path::new(BACKUPS))),
            Self::Kept { .. }
            | Self::Done { .. }
            | Self::Undone { .. }
            | Self::Failed { .. }
            | Self::Reboot { .. }
            | Self::Finished {}
            | Self::RollingBack { .. }
            | Self::RolledBack {} => Ok(()),
        }
    }
}

/// What a record of another gpusetup has at least.
#[derive(Deserialize)]
struct Version {
    version: u32,
}

/// The record in a line that follows others; what it is not, with the version where at least that
/// can be read.
fn record(line: &[u8], chain: &mut Chain) -> Result<Event, Option<u32>> {
    let text = std::str::from_utf8(line).map_err(|_| None)?;
    let (sum, json) = text.split_once(' ').ok_or(None)?;
    if !chain.accepts(sum, json) {
        return Err(None);
    }
    serde_json::from_str(json).map_err(|_| {
        // Whatever else it has is passed over: a record of millions of values takes no memory.
        serde_json::from_str::<Version>(json)
            .ok()
            .map(|of| of.version)
    })
}

impl<'a> Run<'a> {
    fn add(&mut self, event: &'a Event, run: usize) {
        match event {
            Event::Intent { at, undo, .. } => {
                let operation = self
                    .plan
                    .steps
                    .get(at.0)
                    .and_then(|s| s.operations.get(at.1))
                    .map(|a| &a.operation);
                // A second intent has learned more than the first.
                self.made.retain(|m| m.at != *at);
                self.made.push(Made {
                    run,
                    at: *at,
                    operation,
                    undo,
                    torn: true,
                });
            }
            Event::Done { at } => self
                .made
                .iter_mut()
                .filter(|m| m.at == *at)
                .for_each(|m| m.torn = false),
            Event::Finished {} => self.finished = true,
            Event::Run { .. }
            | Event::Kept { .. }
            | Event::Undone { .. }
            | Event::Failed { .. }
            | Event::Reboot { .. }
            | Event::RollingBack { .. }
            | Event::RolledBack {} => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account::{Account, save};
    use gpusetup_operation::Remove;
    use gpusetup_plan::sample::plan_of;

    const AT: At = (0, 0);

    fn run() -> Event {
        let plan = Box::new(plan_of(vec![Operation::Remove(Remove {
            path: "/f".into(),
        })]));
        Event::Run {
            version: VERSION,
            plan,
            packages: None,
        }
    }

    fn intent(path: &str) -> Event {
        Event::Intent {
            at: AT,
            undo: vec![Undo::Tree { path: path.into() }],
            boot: None,
        }
    }

    fn host() -> (System, tempfile::TempDir) {
        let dir = tempfile::tempdir().expect("a temporary directory");
        (System::at(dir.path()), dir)
    }

    fn written(on: &System, events: &[Event]) -> Vec<u8> {
        let mut journal = Journal::open(on).expect("readable");
        for event in events {
            journal.note(on, event.clone()).expect("noted");
        }
        on.read(JOURNAL).expect("it is there")
    }

    /// The trees that `last_apply` names, with a mark for torn ones.
    fn last(events: &[Event]) -> Vec<String> {
        let (on, _dir) = host();
        written(&on, events);
        let journal = Journal::open(&on).expect("readable");
        let tree = |m: &Made| match &m.undo[0] {
            Undo::Tree { path } => format!("{}{}", path.display(), if m.torn { "?" } else { "" }),
            other => panic!("{other:?}"),
        };
        journal.last_apply().iter().map(tree).collect()
    }

    #[test]
    fn what_stands_is_a_fold_over_the_records() {
        let undone = Event::Undone {
            run: 0,
            at: AT,
            left: Vec::new(),
        };
        assert_eq!(last(&[run(), intent("/a")]), ["/a?"]);
        assert_eq!(last(&[run(), intent("/a"), Event::Done { at: AT }]), ["/a"]);
        assert_eq!(
            last(&[run(), intent("/a"), Event::Done { at: AT }, undone]),
            [""; 0]
        );
        assert_eq!(
            last(&[run(), Event::Kept { at: AT }, Event::Finished {}]),
            [""; 0]
        );
        assert_eq!(
            last(&[run(), intent("/a"), intent("/b")]),
            ["/b?"],
            "the second intent knows more"
        );
    }

    #[test]
    fn an_apply_that_was_run_again_until_its_end_is_one() {
        let done = || Event::Done { at: AT };
        let failed = || Event::Failed {
            at: AT,
            why: "no room".into(),
        };
        let first = [run(), intent("/a"), done(), Event::Finished {}];
        let second = [
            run(),
            intent("/b"),
            done(),
            failed(),
            run(),
            intent("/c"),
            done(),
            Event::Finished {},
        ];
        let both = [&first[..], &second[..]].concat();
        assert_eq!(
            last(&both),
            ["/c", "/b"],
            "and not what an earlier apply made"
        );
        let undone = |run| Event::Undone {
            run,
            at: AT,
            left: Vec::new(),
        };
        assert_eq!(
            last(&[&both[..], &[undone(2), undone(1)]].concat()),
            ["/a"],
            "then comes the one before"
        );
    }

    #[test]
    fn a_plan_that_is_run_again_behind_its_end_is_open_again() {
        let (on, _dir) = host();
        let open = |events: &[Event]| {
            written(&on, events);
            Journal::open(&on)
                .expect("readable")
                .open_apply()
                .map(|a| a.done.len())
        };
        let done = || Event::Done { at: AT };
        assert_eq!(
            open(&[run(), intent("/a"), done(), Event::Finished {}]),
            None
        );
        assert_eq!(open(&[run()]), Some(1), "with what it did before");
        assert_eq!(open(&[Event::Finished {}]), None);
    }

    #[test]
    fn a_torn_last_record_is_dropped_wherever_it_was_cut() {
        let (on, _dir) = host();
        let first = written(&on, &[run(), intent("/a")]).len();
        let both = written(&on, &[Event::Done { at: AT }]);
        // A power cut may also leave a block as zeroes: the last, or one before it.
        let zeroes =
            |from: usize, to: usize| [&both[..from], &vec![0; to - from], &both[to..]].concat();
        let torn = |cut: usize| {
            [
                both[..cut].to_vec(),
                zeroes(cut, both.len()),
                zeroes(cut, both.len() - 1),
                zeroes(first, cut + 1),
            ]
        };
        for (cut, bytes) in (first..both.len() - 1).flat_map(|cut| torn(cut).map(|b| (cut, b))) {
            on.write(JOURNAL, &bytes, 0o600).expect("written");
            let mut journal = Journal::open(&on).expect("readable");
            assert_eq!(journal.torn().len(), 1, "cut at {cut}");
            // What is appended next must not be glued to the torn piece.
            journal.note(&on, Event::Done { at: AT }).expect("noted");
            assert_eq!(on.read(JOURNAL).expect("there"), both, "cut at {cut}");
        }
    }

    #[test]
    fn an_altered_record_is_told_and_not_believed() {
        let (on, _dir) = host();
        let text = String::from_utf8(written(&on, &[run(), intent("/a"), Event::Done { at: AT }]))
            .expect("text");
        on.write(
            JOURNAL,
            text.replacen("\"/a\"", "\"/b\"", 1).as_bytes(),
            0o600,
        )
        .expect("written");
        assert!(matches!(Journal::open(&on), Err(JournalError::Altered(2))));
    }

    #[test]
    fn a_removed_record_is_noticed() {
        let (on, _dir) = host();
        let text = String::from_utf8(written(
            &on,
            &[
                run(),
                intent("/a"),
                Event::Done { at: AT },
                Event::Finished {},
            ],
        ));
        let text = text.expect("text");
        let lines: Vec<_> = text.split_inclusive('\n').collect();
        for gone in 0..lines.len() - 1 {
            let left = [&lines[..gone], &lines[gone + 1..]].concat().concat();
            on.write(JOURNAL, left.as_bytes(), 0o600).expect("written");
            let refused = Journal::open(&on);
            assert!(
                matches!(refused, Err(JournalError::Altered(n)) if n == gone + 1),
                "{gone}: {refused:?}"
            );
        }
    }

    #[test]
    fn records_of_older_versions_are_read_until_a_newer_one() {
        let (on, _dir) = host();
        let older = |event: &Event| {
            let json = serde_json::to_string(event).expect("text");
            format!("{} {json}\n", &sha256(&json)[..16])
        };
        let first = [run(), intent("/a"), Event::Done { at: AT }]
            .iter()
            .map(older)
            .collect::<String>();
        on.make_directories("/var/lib/gpusetup", 0o700)
            .expect("made");
        on.write(JOURNAL, first.as_bytes(), 0o600).expect("written");
        let both = written(&on, &[Event::Finished {}]);
        assert_eq!(Journal::open(&on).expect("readable").events().len(), 4);
        let after = [&both[..], older(&run()).as_bytes()].concat();
        on.write(JOURNAL, &after, 0o600).expect("written");
        assert!(matches!(Journal::open(&on), Err(JournalError::Altered(5))));
    }

    #[test]
    fn a_journal_with_less_than_its_run_left_is_refused() {
        let (on, _dir) = host();
        let whole = written(
            &on,
            &[
                run(),
                intent("/a"),
                Event::Done { at: AT },
                Event::Finished {},
            ],
        );
        let Event::Run { plan, .. } = run() else {
            panic!("a run")
        };
        let cut = |bytes: &[u8]| {
            on.write(JOURNAL, bytes, 0o600).expect("written");
            Journal::open(&on)
        };
        let first = whole.iter().position(|byte| *byte == b'\n').expect("lines") + 1;
        assert!(
            cut(&[]).is_ok() && cut(&whole[..300]).is_ok(),
            "a power cut in the first record"
        );
        save(&on, PLAN, &plan).expect("saved");
        assert!(cut(&whole[..first]).is_ok(), "a run that was killed");
        let mut account = Account::open();
        account.plan(&plan);
        account.close(&on, Ending::Done, None).expect("written");
        for length in [0, 300, first, whole.len() - 1] {
            let refused = cut(&whole[..length]);
            assert!(
                matches!(refused, Err(JournalError::Incomplete)),
                "{length}: {refused:?}"
            );
        }
        let again = cut(&whole).map(|_| written(&on, &[run()])).expect("whole");
        assert!(
            cut(&again).is_ok(),
            "a second run of the same plan has written no result yet"
        );
    }

    #[test]
    fn a_last_record_whose_bits_have_flipped_is_not_taken_for_a_torn_one() {
        let (on, _dir) = host();
        let first = written(&on, &[run()]).len();
        let whole = written(&on, &[intent("/a")]);
        for at in first..whole.len() - 1 {
            let mut bytes = whole.clone();
            bytes[at] ^= 1;
            on.write(JOURNAL, &bytes, 0o600).expect("written");
            let refused = Journal::open(&on);
            assert!(
                matches!(refused, Err(JournalError::Altered(2))),
                "byte {at}: {refused:?}"
            );
        }
    }

    #[test]
    fn what_gpusetup_never_notes_is_neither_read_nor_written() {
        let (on, _dir) = host();
        let intent = |undo| Event::Intent {
            at: AT,
            undo: vec![undo],
            boot: None,
        };
        let outside = Event::Run {
            version: VERSION,
            plan: Box::new(plan_of(vec![Operation::Remove(Remove {
                path: "/f".into(),
            })])),
            packages: Some("/etc".into()),
        };
        let senseless = [
            intent(Undo::Tree {
                path: "/../..".into(),
            }),
            intent(Undo::Tree { path: "/".into() }),
            intent(Undo::Program { argv: Vec::new() }),
            outside,
        ];
        for event in senseless {
            let first = written(&on, &[run()]);
            let json = serde_json::to_string(&event).expect("text");
            let line = format!("{} {json}\n", &sha256(&json)[..16]);
            on.write(JOURNAL, &[&first, line.as_bytes()].concat(), 0o600)
                .expect("written");
            assert!(
                matches!(Journal::open(&on), Err(JournalError::Senseless(2, _))),
                "{event:?}"
            );
            on.write(JOURNAL, &first, 0o600).expect("written");
            let noted = Journal::open(&on).expect("readable").note(&on, event);
            assert!(
                matches!(noted, Err(JournalError::Senseless(2, _))),
                "{noted:?}"
            );
            on.remove(JOURNAL).expect("removed");
        }
    }

    #[test]
    fn a_newer_journal_is_refused() {
        let (on, _dir) = host();
        on.make_directories("/var/lib/gpusetup", 0o700)
            .expect("made");
        let newer = VERSION + 1;
        let json = format!("{{\"event\":\"run\",\"version\":{newer},\"plan\":{{}},\"more\":1}}");
        on.write(
            JOURNAL,
            format!("{} {json}\n", &sha256(&json)[..16]).as_bytes(),
            0o600,
        )
        .expect("written");
        assert!(
            matches!(Journal::open(&on), Err(JournalError::Newer(version)) if version == newer)
        );
    }
}
