//! Work on what a look does not keep: finding files, and going through bytes that it searches, sums
//! or unpacks. A small tree can make much of it: a file of holes, one that unpacks to a thousand
//! times its size, one that a thousand links lead to, a chain of links with long targets. Neither
//! bytes nor steps tell how much it is, so the processor's time is measured
//! ([`MAX_WORK`](super::limits::MAX_WORK)).

use super::limits::{Limit, Work, nanoseconds};
use super::{System, digest, refuse_holes};
use rustix::time::{ClockId, clock_gettime};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const ENOUGH: &str = "finding, searching, summing and unpacking the files before it took as much work as a look may take";

/// The processor's time that this thread has taken. What else the machine does is not in it.
pub fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// The same in nanoseconds.
fn taken() -> u64 {
    nanoseconds(thread_time())
}

/// Counts the time in which a file is gone through, from its opening on: what its readers do
/// between two reads, too. Several readers of one file, one around the other, share a meter, which
/// counts their time once.
#[derive(Debug, Clone)]
pub struct Meter {
    system: System,
    path: PathBuf,
    /// The time of this thread until which everything was counted.
    counted: Arc<AtomicU64>,
}

impl Meter {
    /// What is read `from` the file, or out of it.
    pub fn of<R>(&self, from: R) -> Metered<R> {
        Metered {
            from,
            meter: self.clone(),
        }
    }

    /// Fails when a look has done enough.
    fn check(&self) -> io::Result<()> {
        match self.system.works().all(Work::is_left_for_bytes) {
            true => Ok(()),
            false => Err(self
                .system
                .refused(&self.path, ENOUGH.to_owned(), Some(Limit::File))),
        }
    }

    fn count(&self) {
        if self.system.is_counted() {
            let now = taken();
            // Less than before only where another thread goes on.
            self.system
                .took(now.saturating_sub(self.counted.swap(now, Ordering::Relaxed)));
        }
    }
}

/// A reader whose time counts as work. It fails when a look has done enough.
#[derive(Debug)]
pub struct Metered<R> {
    from: R,
    meter: Meter,
}

impl<R> Metered<R> {
    /// The meter, for a reader around this one.
    pub fn meter(&self) -> Meter {
        self.meter.clone()
    }
}

impl<R: Read> Read for Metered<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.meter.check()?;
        let read = self.from.read(into);
        self.meter.count();
        read
    }
}

impl<R: Seek> Seek for Metered<R> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.from.seek(to)
    }
}

impl System {
    /// Whether a look's time is counted.
    fn is_counted(&self) -> bool {
        self.works().next().is_some()
    }

    fn took(&self, time: u64) {
        self.works().for_each(|work| work.take(time));
    }

    /// Counts the time that it takes to `find` the file at `path`. Refuses it when the looks have
    /// done enough: nothing is found then.
    pub(super) fn finding<T>(
        &self,
        path: &Path,
        find: impl FnOnce() -> io::Result<T>,
    ) -> io::Result<T> {
        if !self.is_counted() {
            return find();
        }
        if !self.works().all(Work::is_left_for_names) {
            return Err(self.refused(path, ENOUGH.to_owned(), Some(Limit::Whole)));
        }
        let began = taken();
        let found = find();
        self.took(taken().saturating_sub(began));
        found
    }

    /// Counts the time of other work on a file: on its text, which was read.
    ///
    /// # Errors
    ///
    /// If the looks have done enough.
    pub fn working<T>(&self, path: impl Into<PathBuf>, work: impl FnOnce() -> T) -> io::Result<T> {
        let meter = self.meter(path);
        meter.check()?;
        let done = work();
        meter.count();
        Ok(done)
    }

    /// The meter of a file, which this thread goes through from now on.
    pub fn meter(&self, path: impl Into<PathBuf>) -> Meter {
        let now = if self.is_counted() { taken() } else { 0 };
        Meter {
            system: self.clone(),
            path: path.into(),
            counted: Arc::new(AtomicU64::new(now)),
        }
    }

    /// Opens a file that is searched, and not kept.
    pub fn open_metered(&self, path: impl AsRef<Path>) -> io::Result<Metered<File>> {
        let path = path.as_ref();
        // Opening it counts by itself.
        let file = self.open(path)?;
        let meter = self.meter(path);
        meter.check()?;
        Ok(meter.of(file))
    }

    /// The SHA-256 of a file; links are followed.
    pub fn sum(&self, path: impl AsRef<Path>) -> io::Result<String> {
        let path = path.as_ref();
        self.sum_of(path, self.open(path)?)
    }

    /// The same of an open file. A sparse file is refused, because it could have any length.
    pub(super) fn sum_of(&self, path: &Path, file: File) -> io::Result<String> {
        refuse_holes(&file)?;
        digest(self.meter(path).of(file))
    }
}

#[cfg(test)]
mod tests {
    use super::super::limits::{FOR_NAMES, MAX_WORK, MAX_WORK_AT_HOME};
    use super::*;
    use std::os::unix::fs::symlink;

    fn left(system: &System) -> u64 {
        system.work.left()
    }

    fn left_out(system: &System) -> Vec<(PathBuf, Option<Limit>)> {
        system
            .left_out()
            .into_iter()
            .map(|one| (one.path, one.limit))
            .collect()
    }

    #[test]
    fn what_is_gone_through_is_counted_until_it_is_enough() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        std::fs::write(dir.path().join("file"), [7; 1000]).expect("written");
        let system = System::at(dir.path()).looked_at();
        let read = || io::copy(&mut system.open_metered("/file")?, &mut io::sink());
        assert_eq!(read().expect("read"), 1000);
        let before = left(&system);
        assert!((1..nanoseconds(MAX_WORK)).contains(&before), "{before}");
        system.took(before - nanoseconds(FOR_NAMES));
        for error in [
            read().map(|_| ()),
            system.sum("/file").map(|_| ()),
            system.working("/file", || ()),
        ] {
            let why = error.expect_err("too much").to_string();
            assert!(why.contains("as much work as a look may take"), "{why}");
        }
        assert_eq!(left_out(&system), [("/file".into(), Some(Limit::File))]);
        assert!(
            system.exists("/file") && system.read("/file").is_ok(),
            "files are still found"
        );
        // All looks at a host share it.
        let again = System {
            look: None,
            ..system.clone()
        }
        .looked_at();
        assert!(again.open_metered("/file").is_err());
        again.took(nanoseconds(MAX_WORK));
        assert!(
            !again.exists("/file") && again.list("/").is_err() && again.canonical("/file").is_err()
        );
        let whole = ["/file", "/"].map(|path| (path.into(), Some(Limit::Whole)));
        assert_eq!(left_out(&again)[1..], whole, "nothing is read after them");
        assert!(
            again.to_be_changed().sum("/file").is_ok(),
            "who changes a host goes on"
        );
    }

    #[test]
    fn readers_around_each_other_are_counted_once() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        File::create(dir.path().join("file"))
            .and_then(|file| file.set_len(64 << 20))
            .expect("a sparse file");
        let system = System::at(dir.path()).looked_at();
        let began = taken();
        let file = system.open("/file").expect("there");
        let meter = system.meter("/file");
        io::copy(&mut meter.of(meter.of(meter.of(file))), &mut io::sink()).expect("read");
        let (took, all) = (nanoseconds(MAX_WORK) - left(&system), taken() - began);
        assert!((all / 2..=all).contains(&took), "{took} of {all}");
    }

    #[test]
    fn finding_files_behind_long_links_is_work() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        std::fs::create_dir(dir.path().join("z")).expect("made");
        let mut last = ".".to_owned();
        for n in 0..30 {
            let link = format!("l{n}");
            symlink("z/../".repeat(800) + &last, dir.path().join(&link)).expect("linked");
            last = link;
        }
        let system = System::at(dir.path()).looked_at();
        let home = system.at_home();
        let tried = (0..100_000)
            .take_while(|_| home.canonical(format!("/{last}/z")).is_ok())
            .count();
        assert!(tried < 1000 && home.left_out().len() == 1, "{tried}");
        assert!(system.exists(format!("/{last}/z")) && system.left_out().is_empty());
        let taken = nanoseconds(MAX_WORK) - left(&system);
        assert!(
            taken >= nanoseconds(MAX_WORK_AT_HOME),
            "a home's is the tree's, too: {taken}"
        );
    }
}
