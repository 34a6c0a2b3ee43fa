//! The write-ahead journal: what is about to happen is on the disk, with the way back, before it happens. Each record is
//! a line with a sum of its own; a last line that a power cut tore is recognised and cut off. What stands where is a fold
//! over the records; there is no second file to disagree with them.

use crate::operation::undo::Undo;
use crate::plan::Plan;
use crate::sum::sha256;
use crate::system::{System, is_absent};
use serde::{Deserialize, Serialize};
use std::io;
use std::path::{Path, PathBuf};

/// The journal's place on the host.
pub const PATH: &str = "/var/lib/gpusetup/journal";
/// The version of its records; one that is newer is refused, not misread.
pub const VERSION: u32 = 1;

/// One record.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Event {
    /// A run begins: everything that follows, up to the next one, carries out this plan.
    Run {
        /// [`VERSION`].
        version: u32,
        /// The plan.
        plan: Box<Plan>,
    },
    /// An operation found the host as it wants it: it is not ours, and is never undone.
    Kept {
        /// Step and operation, each counted from 0.
        at: (usize, usize),
    },
    /// An operation is about to be carried out.
    Intent {
        /// Step and operation.
        at: (usize, usize),
        /// The way back, in the order in which things will be made.
        undo: Vec<Undo>,
        /// The boot in which this is.
        boot: Option<String>,
    },
    /// It was carried out.
    Done {
        /// Step and operation.
        at: (usize, usize),
    },
    /// It was taken back.
    Undone {
        /// Step and operation.
        at: (usize, usize),
        /// Paths left because somebody changed them since.
        left: Vec<PathBuf>,
    },
    /// It failed.
    Failed {
        /// Step and operation.
        at: (usize, usize),
        /// Why.
        why: String,
    },
}

/// Where an operation of the newest run stands.
#[derive(Debug, Clone, PartialEq)]
pub enum Progress {
    /// Not begun, or taken back.
    Pending,
    /// The host was so before: not ours.
    Kept,
    /// Begun, and neither done nor taken back: gpusetup stopped here.
    Torn(Vec<Undo>),
    /// Done.
    Done(Vec<Undo>),
}

/// Why a journal cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The file cannot be read or written.
    #[error("cannot use the journal {PATH}: {0}")]
    Io(#[from] io::Error),
    /// A record that is not the last one is not what was written.
    #[error("record {0} of the journal {PATH} was altered")]
    Altered(usize),
    /// It was written by a newer gpusetup.
    #[error("the journal {PATH} was written by a newer gpusetup (version {0}; this one reads {VERSION})")]
    Newer(u32),
}

/// The journal, read.
#[derive(Debug, Default)]
pub struct Journal {
    events: Vec<Event>,
}

impl Journal {
    /// Reads it; none is an empty one.
    pub fn open(on: &System) -> Result<Self, JournalError> {
        let bytes = match on.read(PATH) {
            Ok(bytes) => bytes,
            Err(e) if is_absent(&e) => return Ok(Self::default()),
            Err(e) => return Err(e.into()),
        };
        let whole = &bytes[..whole_lines(&bytes)];
        let lines: Vec<_> = whole.split(|b| *b == b'\n').filter(|l| !l.is_empty()).collect();
        let mut journal = Self::default();
        for (n, line) in lines.iter().enumerate() {
            match record(line) {
                Ok(Event::Run { version, .. }) if version > VERSION => return Err(JournalError::Newer(version)),
                Ok(event) => journal.events.push(event),
                // A newer version may have records that are not known here; its first line says so.
                Err(Some(version)) if version > VERSION => return Err(JournalError::Newer(version)),
                Err(_) if n + 1 == lines.len() => {}
                Err(_) => return Err(JournalError::Altered(n + 1)),
            }
        }
        Ok(journal)
    }

    /// Appends a record; it is on the disk when this returns.
    pub fn note(&mut self, on: &System, event: Event) -> Result<(), JournalError> {
        let json = serde_json::to_string(&event).map_err(io::Error::from)?;
        let line = format!("{} {json}\n", &sha256(&json)[..16]);
        if let Some(folder) = Path::new(PATH).parent() {
            on.make_directories(folder, 0o700)?;
        }
        on.append_line(PATH, &line, 0o600)?;
        self.events.push(event);
        Ok(())
    }

    /// The plan of the newest run.
    pub fn plan(&self) -> Option<&Plan> {
        self.events.iter().rev().find_map(|e| if let Event::Run { plan, .. } = e { Some(plan.as_ref()) } else { None })
    }

    /// The records of the newest run.
    fn run(&self) -> &[Event] {
        let start = self.events.iter().rposition(|e| matches!(e, Event::Run { .. })).unwrap_or(0);
        &self.events[start..]
    }

    /// Where an operation of the newest run stands.
    pub fn progress(&self, at: (usize, usize)) -> Progress {
        self.run().iter().fold(Progress::Pending, |now, event| match (event, now) {
            (Event::Kept { at: a }, _) if *a == at => Progress::Kept,
            (Event::Intent { at: a, undo, .. }, _) if *a == at => Progress::Torn(undo.clone()),
            (Event::Done { at: a }, Progress::Torn(undo)) if *a == at => Progress::Done(undo),
            (Event::Undone { at: a, .. }, _) if *a == at => Progress::Pending,
            (_, now) => now,
        })
    }

    /// How many intents were ever noted: backups are numbered behind it.
    pub fn intents(&self) -> usize {
        self.events.iter().map(|e| if let Event::Intent { undo, .. } = e { undo.len() } else { 0 }).sum()
    }
}

/// The record in a line; what it is not, with the version where at least that can be read.
fn record(line: &[u8]) -> Result<Event, Option<u32>> {
    let text = std::str::from_utf8(line).map_err(|_| None)?;
    let (sum, json) = text.split_once(' ').ok_or(None)?;
    if sum != &sha256(json)[..16] {
        return Err(None);
    }
    serde_json::from_str(json).map_err(|_| {
        let value: serde_json::Value = serde_json::from_str(json).ok()?;
        value.get("version")?.as_u64().and_then(|v| u32::try_from(v).ok())
    })
}

/// The length of the lines that have their end.
pub fn whole_lines(bytes: &[u8]) -> usize {
    bytes.iter().rposition(|b| *b == b'\n').map_or(0, |at| at + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: (usize, usize) = (1, 2);

    fn intent() -> Event {
        let undo = vec![Undo::Tree { path: "/usr/local/cuda-12.8".into() }];
        Event::Intent { at: AT, undo, boot: None }
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
        on.read(PATH).expect("it is there")
    }

    #[test]
    fn progress_is_a_fold_over_the_records() {
        let (on, _dir) = host();
        let undo = vec![Undo::Tree { path: "/usr/local/cuda-12.8".into() }];
        written(&on, &[intent()]);
        assert_eq!(Journal::open(&on).expect("readable").progress(AT), Progress::Torn(undo.clone()));
        written(&on, &[Event::Done { at: AT }]);
        let journal = Journal::open(&on).expect("readable");
        assert_eq!((journal.progress(AT), journal.progress((0, 0))), (Progress::Done(undo), Progress::Pending));
        written(&on, &[Event::Undone { at: AT, left: Vec::new() }, Event::Kept { at: (0, 0) }]);
        let journal = Journal::open(&on).expect("readable");
        assert_eq!((journal.progress(AT), journal.progress((0, 0))), (Progress::Pending, Progress::Kept));
    }

    #[test]
    fn a_torn_last_record_is_dropped_wherever_it_was_cut() {
        let (on, _dir) = host();
        let first = written(&on, &[intent()]).len();
        let both = written(&on, &[Event::Done { at: AT }]);
        for cut in first..both.len() {
            on.write(PATH, &both[..cut], 0o600).expect("written");
            let mut journal = Journal::open(&on).expect("readable");
            assert!(matches!(journal.progress(AT), Progress::Torn(_)), "cut at {cut}");
            // What is appended next must not be glued to the torn piece.
            journal.note(&on, Event::Done { at: AT }).expect("noted");
            assert_eq!(on.read(PATH).expect("there"), both, "cut at {cut}");
        }
    }

    #[test]
    fn an_altered_record_is_told_and_not_believed() {
        let (on, _dir) = host();
        let text = String::from_utf8(written(&on, &[intent(), Event::Done { at: AT }])).expect("text");
        on.write(PATH, text.replacen("cuda-12.8", "cuda-12.9", 1).as_bytes(), 0o600).expect("written");
        assert!(matches!(Journal::open(&on), Err(JournalError::Altered(1))));
    }

    #[test]
    fn a_newer_journal_is_refused() {
        let (on, _dir) = host();
        on.make_directories("/var/lib/gpusetup", 0o700).expect("made");
        let json = "{\"event\":\"run\",\"version\":2,\"plan\":{},\"more\":1}";
        on.write(PATH, format!("{} {json}\n", &sha256(json)[..16]).as_bytes(), 0o600).expect("written");
        assert!(matches!(Journal::open(&on), Err(JournalError::Newer(2))));
    }
}
