//! Work on bytes that a look does not keep: those that it searches, sums or unpacks. A small file can make much of it: one of holes,
//! one that unpacks to a thousand times its size, one that a thousand links lead to. So each byte is counted when it is gone
//! through, however often ([`MAX_WORK`](super::limits::MAX_WORK)).

use super::limits::Limit;
use super::{System, digest_of_file};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// What a byte of a checksum counts for: a processor without instructions for SHA-256 sums 300 MB in a second.
const SUMMED: u64 = 2;
/// What a file counts for at least, however few bytes of it are searched: finding and opening it takes time, too.
const LEAST_WORK: u64 = 64 << 10;

/// What the bytes of a compressed file count for.
#[derive(Debug, Clone, Copy)]
pub struct Price {
    /// A byte that is read.
    pub packed: u64,
    /// A byte that comes out.
    pub unpacked: u64,
}

impl Price {
    /// Of xz and LZMA, which go through some 50 MB of packed bytes in a second.
    pub const XZ: Self = Self { packed: 8, unpacked: 2 };
    /// Of everything else.
    pub const OTHER: Self = Self { packed: 2, unpacked: 1 };
}

/// A reader whose bytes count as work. It fails when a look has done enough.
#[derive(Debug)]
pub struct Metered<R> {
    from: R,
    system: System,
    path: PathBuf,
    /// What each byte counts for.
    pub price: u64,
}

impl<R: Read> Read for Metered<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.from.read(into)?;
        self.system.work(&self.path, self.price.saturating_mul(read as u64))?;
        Ok(read)
    }
}

impl<R: Seek> Seek for Metered<R> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.from.seek(to)
    }
}

impl System {
    /// Counts work on a file, in bytes that cost nothing but to be read. Refuses it when the look has done enough.
    pub fn work(&self, path: &Path, bytes: u64) -> io::Result<()> {
        const ENOUGH: &str =
            "searching, summing and unpacking the files before it took as much work as a look may take";
        match self.may_work(bytes) {
            true => Ok(()),
            false => Err(self.refused(path, ENOUGH.to_owned(), Some(Limit::File))),
        }
    }

    /// What is read `from` a file and not kept.
    pub fn metered<R>(&self, path: impl Into<PathBuf>, price: u64, from: R) -> Metered<R> {
        Metered { from, system: self.clone(), path: path.into(), price }
    }

    /// Opens a file that is searched, and not kept.
    pub fn open_metered(&self, path: impl AsRef<Path>) -> io::Result<Metered<File>> {
        let path = path.as_ref();
        let file = self.open(path)?;
        self.work(path, LEAST_WORK)?;
        Ok(self.metered(path, 1, file))
    }

    /// The SHA-256 of a file; links are followed.
    pub fn sum(&self, path: impl AsRef<Path>) -> io::Result<String> {
        let path = path.as_ref();
        self.sum_of(path, self.open(path)?)
    }

    /// The same of an open file. All of it counts before any of it is read: half a file has no sum.
    pub(super) fn sum_of(&self, path: &Path, file: File) -> io::Result<String> {
        self.work(path, SUMMED.saturating_mul(file.metadata()?.len()).max(LEAST_WORK))?;
        digest_of_file(file)
    }
}

#[cfg(test)]
mod tests {
    use super::super::limits::MAX_WORK;
    use super::*;

    #[test]
    fn what_is_gone_through_is_counted_as_often_as_it_is() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let system = System::at(dir.path()).looked_at();
        for name in ["file", "large"] {
            File::create(dir.path().join(name)).and_then(|file| file.set_len(1 << 20)).expect("a sparse file");
        }
        let price = MAX_WORK >> 22;
        let read = || io::copy(&mut system.metered("/file", price, system.open("/file")?), &mut io::sink());
        let whole = (0..10).filter(|_| read().is_ok()).count();
        assert!((3..=4).contains(&whole), "{whole}");
        File::options().write(true).open(dir.path().join("large")).and_then(|f| f.set_len(MAX_WORK)).expect("longer");
        let why = system.sum("/large").expect_err("too much").to_string();
        assert!(why.contains("as much work as a look may take"), "{why}");
        let left_out: Vec<_> = system.left_out().into_iter().map(|one| (one.path, one.limit)).collect();
        assert_eq!(left_out, ["/file", "/large"].map(|path| (path.into(), Some(Limit::File))));
        assert!(System::at(dir.path()).sum("/file").is_ok(), "who changes a host goes on");
    }

    #[test]
    fn many_short_files_are_work_too() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        std::fs::write(dir.path().join("file"), "x").expect("written");
        let system = System::at(dir.path()).looked_at();
        system.work(Path::new("/"), MAX_WORK - 10 * LEAST_WORK).expect("not yet enough");
        assert_eq!((0..20).filter(|_| system.open_metered("/file").is_ok()).count(), 10);
    }
}
