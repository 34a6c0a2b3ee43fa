//! A download that has not come to its end: the file beside its target, and a note of what server
//! it came from, so that the next run can ask that server for the rest of the very same file.

use super::arriving::Arriving;
use crate::cache::{BEGUN, with_ending};
use gpusetup_system::{Identity, System};
use gpusetup_text::text::bytes as in_words;
use rustix::fs::{FallocateFlags, fallocate, fstatvfs};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Where bytes came from, by which a server tells whether it still has the same.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct DownloadOrigin {
    /// The address.
    pub(crate) url: String,
    /// A strong ETag, or else the time of the last change, as the server wrote it.
    pub(crate) validator: Option<String>,
}

/// How many bytes a file may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Length {
    /// Exactly so many, where that was published.
    pub(crate) size: Option<u64>,
    /// So many at most.
    pub(crate) most: u64,
}

/// A file whose size was not published may not take the last of its file system: this stays free,
/// or a sixteenth of a small one.
const MARGIN: u64 = 64 << 20;

/// What the next run has to know.
#[derive(Debug, Serialize, Deserialize)]
struct Note {
    origin: DownloadOrigin,
    /// So many bytes of the beginning are there, where behind them are others; else as many as the
    /// file is long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    have: Option<u64>,
}

/// Whoever reads what arrives is woken for so many bytes at once: a wire that brings a gigabyte a
/// second would wake it a hundred thousand times else.
const WORTH_WAKING: u64 = 1 << 20;

/// A part that several connections write to.
pub(super) type Shared = Arc<Mutex<Part>>;

pub(super) fn lock(part: &Shared) -> MutexGuard<'_, Part> {
    part.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The file.
#[derive(Debug)]
pub(super) struct Part {
    file: Arc<File>,
    on: System,
    note: PathBuf,
    arriving: Arriving,
    /// From the beginning to here nothing is missing.
    have: u64,
    /// So much of that is known to who reads it.
    announced: u64,
    /// What was written behind that, from where to where.
    out_of_order: Vec<(u64, u64)>,
    /// Before it grows beyond this, the free space is checked; none for a file whose size was
    /// published, and found room.
    room_until: Option<u64>,
    /// Where what is there came from.
    pub(crate) origin: DownloadOrigin,
}

impl Part {
    /// Opens it, with what an earlier run left of it, and lets `arriving` begin. More bytes than
    /// there may be are no beginning.
    pub(crate) fn open(
        on: &System,
        path: &Path,
        length: Length,
        arriving: &Arriving,
    ) -> io::Result<Self> {
        let file = on.open_own(path, 0o600)?;
        let note = with_ending(path, BEGUN);
        let left = on
            .read(&note)
            .ok()
            .and_then(|text| serde_json::from_slice::<Note>(&text).ok());
        let there = file.metadata()?.len();
        let have = left
            .as_ref()
            .and_then(|note| note.have)
            .map_or(there, |have| have.min(there));
        let have = if have > length.most { 0 } else { have };
        let origin = left.map(|note| note.origin).unwrap_or_default();
        let mut part = Self {
            file: Arc::new(file),
            on: on.clone(),
            note,
            arriving: arriving.clone(),
            have: 0,
            announced: 0,
            out_of_order: Vec::new(),
            room_until: if length.size.is_none() { Some(0) } else { None },
            origin,
        };
        part.cut_to(have)?;
        part.arriving.begins(Arc::clone(&part.file), have);
        Ok(part)
    }

    /// How many bytes of the beginning are there.
    pub(crate) fn have(&self) -> u64 {
        self.have
    }

    /// How many bytes are there in all.
    pub(crate) fn amount(&self) -> u64 {
        self.have
            + self
                .out_of_order
                .iter()
                .map(|(from, to)| to - from)
                .sum::<u64>()
    }

    /// Throws away what is there: it is no beginning of what is wanted.
    pub(crate) fn begin_anew(&mut self) -> io::Result<()> {
        self.origin = DownloadOrigin::default();
        // First this, so that nobody takes the end for an end.
        self.arriving.begins(Arc::clone(&self.file), 0);
        self.cut_to(0)
    }

    /// Takes room for all of it, so that a disk that is too full is known now. Its length stays
    /// what was written.
    pub(crate) fn reserve(&self, size: u64) -> io::Result<()> {
        if self.room_until.is_some() {
            self.leaves_room(size.saturating_sub(self.amount()))?;
        }
        match fallocate(&*self.file, FallocateFlags::KEEP_SIZE, 0, size.max(1)) {
            // It is a courtesy: preflight has looked whether there is room.
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => Ok(()),
            reserved => reserved.map_err(io::Error::from),
        }
    }

    /// Whether enough of the file system stays free when so many bytes more are written.
    fn leaves_room(&self, more: u64) -> io::Result<()> {
        let system = fstatvfs(&*self.file)?;
        let margin = MARGIN.min(system.f_blocks.saturating_mul(system.f_frsize) / 16);
        let free = system.f_bavail.saturating_mul(system.f_frsize);
        if free >= margin.saturating_add(more) {
            return Ok(());
        }
        let why = format!(
            "No space left: its size was not published, and it would leave less than {} free; name a folder on a larger file \
             system with --cache",
            in_words(margin)
        );
        Err(io::Error::new(io::ErrorKind::StorageFull, why))
    }

    /// Remembers where its bytes come from.
    pub(crate) fn comes_from(&mut self, origin: DownloadOrigin) -> io::Result<()> {
        if self.origin != origin {
            self.origin = origin;
            self.remember()?;
        }
        Ok(())
    }

    /// Puts bytes where they belong.
    pub(crate) fn write(&mut self, bytes: &[u8], at: u64) -> io::Result<()> {
        let end = at + bytes.len() as u64;
        if self.room_until.is_some_and(|until| end > until) {
            self.leaves_room(bytes.len() as u64)?;
            self.room_until = Some(end + WORTH_WAKING);
        }
        if at > self.have && self.out_of_order.is_empty() {
            // From now on its length does not tell what is there.
            self.out_of_order.push((at, at));
            self.remember()?;
        }
        self.file.write_all_at(bytes, at)?;
        if at == self.have && self.out_of_order.is_empty() {
            self.have = end;
        } else {
            (self.have, self.out_of_order) =
                joined(self.have, std::mem::take(&mut self.out_of_order), (at, end));
        }
        if self.have >= self.announced + WORTH_WAKING {
            self.tell();
        }
        Ok(())
    }

    fn tell(&mut self) {
        self.announced = self.have;
        self.arriving.has(self.have);
    }

    /// Notes how far it has come, where its length does not tell.
    pub(crate) fn remember(&self) -> io::Result<()> {
        let note = Note {
            origin: self.origin.clone(),
            have: (!self.out_of_order.is_empty()).then_some(self.have),
        };
        self.on
            .write_soon(&self.note, &serde_json::to_vec(&note)?, 0o600)
    }

    /// Leaves nothing but a beginning, for the next attempt, and gives back the room that was taken
    /// for the rest.
    pub(crate) fn keep_beginning(&mut self) -> io::Result<()> {
        self.tell();
        if self.out_of_order.is_empty() {
            self.file.set_len(self.have)
        } else {
            self.cut_to(self.have)
        }
    }

    /// Puts its note away: it is no part any more.
    pub(crate) fn forget(&self) -> io::Result<()> {
        self.on.remove(&self.note)
    }

    /// What the file is now, whatever its name means.
    pub(crate) fn identity(&self) -> io::Result<Identity> {
        Ok(Identity::of(&self.file.metadata()?))
    }

    fn cut_to(&mut self, have: u64) -> io::Result<()> {
        self.file.set_len(have)?;
        (self.have, self.announced, self.out_of_order) = (have, have, Vec::new());
        self.remember()
    }
}

/// What is there once one more piece is: the end of the beginning, and the pieces behind it.
fn joined(have: u64, mut pieces: Vec<(u64, u64)>, new: (u64, u64)) -> (u64, Vec<(u64, u64)>) {
    pieces.push(new);
    pieces.sort_unstable();
    let mut all: Vec<(u64, u64)> = vec![(0, have)];
    for (from, to) in pieces {
        match all.last_mut() {
            Some(last) if from <= last.1 => last.1 = last.1.max(to),
            _ => all.push((from, to)),
        }
    }
    let have = all.remove(0).1;
    (have, all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(size: u64) -> Length {
        Length {
            size: Some(size),
            most: size,
        }
    }

    fn reopened(root: &Path, size: u64) -> Part {
        let path = Path::new("/f.part");
        Part::open(&System::at(root), path, of(size), &Arriving::default()).expect("opened")
    }

    fn part(size: u64) -> (Part, tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let part = reopened(dir.path(), size);
        let path = dir.path().join("f.part");
        (part, dir, path)
    }

    #[test]
    fn pieces_join_whatever_their_order() {
        assert_eq!(joined(0, vec![], (0, 5)), (5, vec![]));
        assert_eq!(joined(5, vec![(10, 20)], (20, 30)), (5, vec![(10, 30)]));
        assert_eq!(
            joined(5, vec![(10, 20), (40, 50)], (5, 10)),
            (20, vec![(40, 50)])
        );
        assert_eq!(joined(20, vec![(40, 50)], (20, 40)), (50, vec![]));
    }

    #[test]
    fn after_a_kill_only_the_beginning_is_gone_on_with() {
        let (mut part, dir, path) = part(100);
        part.reserve(100).expect("room");
        part.write(b"01234", 0).expect("written");
        assert_eq!(
            path.metadata().expect("there").len(),
            5,
            "reserved is not written"
        );
        part.write(b"far away", 50).expect("written");
        assert_eq!((part.have(), part.amount()), (5, 13));
        // Killed here: the file is as long as its last byte, and has a hole.
        let again = reopened(dir.path(), 100);
        assert_eq!(
            (again.have(), path.metadata().expect("there").len()),
            (5, 5)
        );
    }

    #[test]
    fn where_it_came_from_is_known_to_the_next_run() {
        let (mut part, dir, _) = part(100);
        let origin = DownloadOrigin {
            url: "http://m/x".into(),
            validator: Some("\"1\"".into()),
        };
        part.comes_from(origin.clone()).expect("noted");
        part.write(b"01234", 0).expect("written");
        let again = reopened(dir.path(), 100);
        assert_eq!((&again.origin, again.have()), (&origin, 5));
        // More than there can be is no beginning.
        assert_eq!(reopened(dir.path(), 4).have(), 0);
    }
}
