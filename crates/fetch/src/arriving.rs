//! A file that is still arriving, read by others while it does: whoever sums it up or unpacks it
//! follows the download at its heels, from memory that the kernel has it in anyway, and no byte is
//! read from the disk a second time.
//!
//! What is read here is not verified yet: a reader comes to its end only when all of it was, and
//! nothing may be put into use before.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// A file that is arriving; its clones are the same.
#[derive(Debug, Clone, Default)]
pub struct Arriving {
    shared: Arc<(Mutex<State>, Condvar)>,
}

#[derive(Debug, Default)]
struct State {
    /// Where the bytes are; none before the first.
    file: Option<Arc<File>>,
    /// From the beginning to here nothing is missing.
    have: u64,
    /// Counts the beginnings: a reader of an earlier one cannot continue.
    round: u64,
    end: Option<End>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Complete,
    /// And is what it should be.
    Verified,
    /// No more will come.
    Abandoned,
}

/// Why a file cannot be read to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Stopped {
    /// What was read is no part of what comes now.
    #[error("the download began again")]
    Restarted,
    /// No more will come.
    #[error("the download was given up")]
    Abandoned,
}

impl Arriving {
    /// A reader from the beginning. It waits for bytes that are not there yet, ends where the file
    /// does and was verified, and fails with [`Stopped`] where the download was given up or began
    /// again.
    pub fn reader(&self) -> Arrived {
        self.reader_to(End::Verified)
    }

    /// One for who verifies: it ends where the file does.
    pub(super) fn unverified(&self) -> Arrived {
        self.reader_to(End::Complete)
    }

    fn reader_to(&self, end: End) -> Arrived {
        let round = self.state().round;
        Arrived {
            arriving: self.clone(),
            round,
            at: 0,
            end,
        }
    }

    /// It begins, in this file, of which so many bytes are there already. Whoever reads what was
    /// there before is stopped; none is who has not read a byte yet.
    pub(crate) fn begins(&self, file: Arc<File>, have: u64) {
        self.change(|state| {
            let round = state.round + u64::from(state.file.is_some());
            *state = State {
                file: Some(file),
                have,
                round,
                end: None,
            };
        });
    }

    /// So many bytes of the beginning are there now.
    pub(crate) fn has(&self, have: u64) {
        self.change(|state| state.have = have);
    }

    pub(super) fn is_complete(&self) {
        self.change(|state| state.end = Some(End::Complete));
    }

    /// All of it is there, and is what it should be.
    pub(crate) fn is_verified(&self) {
        self.change(|state| state.end = Some(End::Verified));
    }

    /// No more will come. What was verified stays so.
    pub fn abandon(&self) {
        self.change(|state| {
            state.end = state
                .end
                .filter(|end| *end == End::Verified)
                .or(Some(End::Abandoned))
        });
    }

    fn change(&self, how: impl FnOnce(&mut State)) {
        how(&mut self.state());
        self.shared.1.notify_all();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Every change is one assignment: a thread that panicked beside it leaves nothing half
        // done.
        self.shared.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The file, and up to where it can be read from `at`; none at its end.
    fn wait(&self, round: &mut u64, at: u64, until: End) -> io::Result<Option<(Arc<File>, u64)>> {
        let mut state = self.state();
        loop {
            if at == 0 {
                *round = state.round;
            }
            match (&state.file, state.end) {
                _ if state.round != *round => return Err(io::Error::other(Stopped::Restarted)),
                (_, Some(End::Abandoned)) => return Err(io::Error::other(Stopped::Abandoned)),
                (Some(file), _) if state.have > at => {
                    return Ok(Some((Arc::clone(file), state.have)));
                }
                (_, Some(end)) if end == until || end == End::Verified => return Ok(None),
                (_, Some(_) | None) => {}
            }
            state = self
                .shared
                .1
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Reads a file that is arriving.
#[derive(Debug)]
pub struct Arrived {
    arriving: Arriving,
    round: u64,
    at: u64,
    end: End,
}

impl Arrived {
    /// Waits whether the file that was read to its end begins again; false if it will not.
    pub(super) fn begins_anew(&self) -> bool {
        let mut state = self.arriving.state();
        loop {
            match state.end {
                _ if state.round != self.round => return true,
                Some(End::Verified | End::Abandoned) => return false,
                Some(End::Complete) | None => {}
            }
            state = self
                .arriving
                .shared
                .1
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Read for Arrived {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if into.is_empty() {
            return Ok(0);
        }
        let Some((file, have)) = self.arriving.wait(&mut self.round, self.at, self.end)? else {
            return Ok(0);
        };
        let most = usize::try_from(have - self.at)
            .unwrap_or(usize::MAX)
            .min(into.len());
        let n = file.read_at(&mut into[..most], self.at)?;
        if n == 0 {
            if self.arriving.state().round != self.round {
                return Err(io::Error::other(Stopped::Restarted));
            }
            return Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "somebody has shortened the download",
            ));
        }
        self.at += n as u64;
        Ok(n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::thread;

    fn file(bytes: &[u8]) -> Arc<File> {
        let mut file = tempfile::tempfile().expect("a temporary file");
        file.write_all(bytes).expect("written");
        Arc::new(file)
    }

    #[test]
    fn a_reader_follows_and_ends_where_the_file_does() {
        let (arriving, file) = (Arriving::default(), file(b""));
        let mut reader = arriving.reader();
        let reads = thread::spawn(move || {
            let mut all = Vec::new();
            reader.read_to_end(&mut all).map(|_| all)
        });
        arriving.begins(Arc::clone(&file), 0);
        let mut written = Vec::new();
        for n in 0..1000_u32 {
            let bytes = n.to_le_bytes();
            file.write_all_at(&bytes, written.len() as u64)
                .expect("written");
            written.extend(bytes);
            arriving.has(written.len() as u64);
        }
        arriving.is_verified();
        assert_eq!(reads.join().expect("no panic").expect("read"), written);
    }

    #[test]
    fn nothing_beyond_the_frontier_is_read() {
        let arriving = Arriving::default();
        arriving.begins(file(b"there....not yet"), 5);
        let (mut reader, mut block) = (arriving.reader(), [0; 99]);
        assert_eq!(reader.read(&mut block).expect("what is there"), 5);
        arriving.abandon();
        assert!(
            reader
                .read(&mut block)
                .is_err_and(|e| e.to_string().contains("given up"))
        );
    }

    #[test]
    fn who_has_read_of_another_beginning_is_told() {
        let arriving = Arriving::default();
        let (mut early, mut idle) = (arriving.reader(), arriving.reader());
        arriving.begins(file(b"old"), 3);
        let mut block = [0; 3];
        assert_eq!(early.read(&mut block).expect("the first"), 3);
        arriving.begins(file(b"new"), 3);
        arriving.is_verified();
        assert!(
            early
                .read(&mut block)
                .is_err_and(|e| e.to_string().contains("again"))
        );
        let mut all = String::new();
        idle.read_to_string(&mut all).expect("it had read nothing");
        assert_eq!(all, "new");
    }

    #[test]
    fn a_reader_does_not_end_before_it_is_known_what_it_read() {
        let arriving = Arriving::default();
        arriving.begins(file(b"all"), 3);
        arriving.is_complete();
        let mut all = String::new();
        arriving
            .unverified()
            .read_to_string(&mut all)
            .expect("for who verifies it ends here");
        arriving.abandon();
        let refused = arriving
            .reader()
            .read_to_string(&mut all)
            .expect_err("it was not verified");
        assert!(
            refused.get_ref().is_some_and(|why| why.is::<Stopped>()),
            "{refused}"
        );
    }

    #[test]
    fn a_whole_file_stays_whole() {
        let file = Arc::into_inner(file(b"all")).expect("nobody else has it");
        let (arriving, size) = (Arriving::default(), file.metadata().expect("a size").len());
        arriving.begins(Arc::new(file), size);
        arriving.is_verified();
        arriving.abandon();
        let mut all = String::new();
        arriving
            .reader()
            .read_to_string(&mut all)
            .expect("it is there");
        assert_eq!(all, "all");
    }
}
