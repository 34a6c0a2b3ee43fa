//! How much is read of what strangers give: the limit of each kind of file, and of all files of a
//! look together. A tree, an archive or a pasted text costs whoever made it nothing (a sparse file
//! has no blocks), so that size alone must cost its reader nothing.

use super::{System, hooks};
use serde::{Deserialize, Serialize};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Bytes of a configuration file, or of another file for people. The largest real ones have some
/// hundred kilobytes.
pub const MAX_CONFIG: u64 = 1 << 20;
/// Bytes of a file that programs write: dpkg's list of the files of a package, the loader's cache,
/// `modules.dep`, `/etc/passwd` of a university. The largest real ones have a few megabytes.
pub const MAX_RECORD: u64 = 8 << 20;
/// Bytes of gpusetup's journal: some hundred runs, each with its plan.
pub const MAX_JOURNAL: u64 = 32 << 20;
/// Bytes of the lists of a package manager; those of a distribution have up to a hundred megabytes.
pub const MAX_LIST: u64 = 256 << 20;
/// Bytes of a plan, of facts and of a lock file. Read, JSON takes many times its length;
/// [`MAX_JSON_WEIGHT`] limits that.
pub(crate) const MAX_JSON: u64 = 16 << 20;
/// Values in such a file, where an object counts for eight: each value takes about a hundred bytes
/// of memory.
pub(crate) const MAX_JSON_WEIGHT: usize = 1 << 20;
/// The same of a configuration, which is kept with its blanks and comments: each value takes some
/// hundred bytes of memory.
pub(crate) const MAX_CONFIG_WEIGHT: usize = 1 << 15;
/// Bytes of a kernel log. What it says is kept once, however often it says it.
pub const MAX_LOG: u64 = 16 << 20;
/// Bytes of a text that somebody pastes. Of a longer text the end counts: errors come last.
pub const MAX_PASTE: u64 = 1 << 20;
/// Bytes of the output of `lspci`; `lspci -vvv` of a server with all its bridges prints some
/// hundred kilobytes.
pub const MAX_LSPCI: u64 = 4 << 20;
/// Devices on a PCI bus that somebody lists, and GPUs in a file of facts. A server with virtual
/// functions of all its network cards has some thousand devices.
pub const MAX_DEVICES: usize = 8192;
/// Bytes of a file with keys or certificates.
pub const MAX_KEY: u64 = 4 << 20;
/// Bytes that a program may print. `rpm -qa` with all files of all packages prints some tens of
/// megabytes.
pub(crate) const MAX_OUTPUT: u64 = 128 << 20;
/// Bytes of what a container engine says of an image; real ones have some kilobytes.
pub const MAX_DESCRIPTION: u64 = 4 << 20;
/// Names in a folder, and their bytes with what each takes in memory. `/proc/PID/fd` of a busy
/// server is the longest real one.
pub(crate) const MAX_NAMES: usize = 1 << 18;
/// See [`MAX_NAMES`].
pub(crate) const MAX_NAME_BYTES: usize = 24 << 20;
/// Bytes of all files of a tree that a look reads whole, each as often as it is read. Of a usual
/// host they are about one megabyte.
pub const MAX_LOOK: u64 = 16 << 20;
/// The same of this host, which may have the modules of many kernels: only root wrote these files.
const MAX_LOOK_HERE: u64 = 64 << 20;
/// The same of the home of one person, whose files are those of shells: nobody's home uses up what
/// there is for the others.
pub const MAX_HOME: u64 = 256 << 10;
/// What a file of a tree counts for at least, however short it is: opening it takes time, too.
const LEAST_COST: u64 = 1 << 10;
/// The same in `/sys`, which has several short files for each device of a large machine.
const LEAST_COST_IN_SYS: u64 = 64;
/// Bytes of a file whose checksum a look takes: plans name the state of small files only.
pub(crate) const MAX_SUMMED: u64 = 256 << 20;
/// The time of a processor that all looks at a tree may take which one command makes: for finding
/// files, and for what is searched, summed or unpacked and not kept. It is measured
/// ([`work`](super::work)), because bytes do not tell it: one of xz takes from 0.7 to 39 ns, one of
/// zstd from 0.4 to 11, and a name behind many links takes milliseconds. Ten kernels' images of
/// zstd, each of 200 MB that become 400, take some five seconds.
pub(crate) const MAX_WORK: Duration = Duration::from_millis(7500);
/// The part of it that is for finding files alone: without it, nothing that comes after large files
/// would be found. An ordinary host takes some ten milliseconds of it.
pub(crate) const FOR_NAMES: Duration = Duration::from_millis(500);
/// The same of all files of one person's home, which takes less than a millisecond.
pub(crate) const MAX_WORK_AT_HOME: Duration = Duration::from_millis(100);
/// Bytes of memory that a decoder of xz may take: `xz -9` needs 65 MiB.
pub const DECODER_MEMORY: u64 = 80 << 20;
/// How many files that were left out a look names, because of each limit.
pub const MAX_NAMED: usize = 20;

/// What is left of the processor's time, in nanoseconds.
#[derive(Debug)]
pub(super) struct Work {
    most: u64,
    left: AtomicU64,
}

impl Work {
    /// What there is for all looks at a tree.
    pub(super) fn of_offline_root() -> Self {
        Self::of(hooks::milliseconds("GPUSETUP_MAX_WORK_MS").unwrap_or(MAX_WORK))
    }

    fn of(most: Duration) -> Self {
        let most = nanoseconds(most);
        Self {
            most,
            left: AtomicU64::new(most),
        }
    }

    /// Whether files may still be found.
    pub(super) fn is_left_for_names(&self) -> bool {
        self.left.load(Ordering::Relaxed) > 0
    }

    /// Whether files may still be gone through: all but a small part of the time is for that.
    pub(super) fn is_left_for_bytes(&self) -> bool {
        self.left.load(Ordering::Relaxed) > nanoseconds(FOR_NAMES).min(self.most / 15)
    }

    #[cfg(test)]
    pub(super) fn left(&self) -> u64 {
        self.left.load(Ordering::Relaxed)
    }

    /// So much of it was taken.
    pub(super) fn take(&self, time: u64) {
        // It cannot fail: there is always a rest.
        let rest = |left: u64| Some(left.saturating_sub(time));
        let _ = self
            .left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, rest);
    }
}

/// A time as it is counted.
pub(super) fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// The limit that kept something from being read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Limit {
    /// That of a file, a folder or somebody's home: the rest was read.
    File,
    /// That of all files together: nothing was read after it. Or that of a file on which everything
    /// depends.
    Whole,
}

/// A file or folder that was not read because of a limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOut {
    /// The file or folder.
    pub path: PathBuf,
    /// Which limit it exceeds, in words.
    pub why: String,
    /// Which limit it exceeds; none for somebody's own file, which matters to few.
    pub limit: Option<Limit>,
}

/// What is left of a look's budget, and what it left out.
#[derive(Debug)]
pub(super) struct ReadBudget {
    most: u64,
    left: AtomicU64,
    /// What is left for a home, whose files others wrote on a live host, too; none for a host, all
    /// looks at which share what is left.
    of_home: Option<Work>,
    left_out: Mutex<Vec<LeftOut>>,
}

impl ReadBudget {
    fn of(most: u64, of_home: Option<Work>) -> Arc<Self> {
        Arc::new(Self {
            most,
            left: AtomicU64::new(most),
            of_home,
            left_out: Mutex::default(),
        })
    }

    fn spend(&self, bytes: u64) {
        let rest = |left: u64| Some(left.saturating_sub(bytes));
        // It cannot fail: there is always a rest.
        let _ = self
            .left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, rest);
    }

    /// Keeps the first ones of each limit: none hides the others.
    fn note(&self, path: &Path, why: &io::Error, limit: Option<Limit>) {
        let mut all = self.left_out.lock().unwrap_or_else(PoisonError::into_inner);
        let same: Vec<_> = all.iter().filter(|one| one.limit == limit).collect();
        if same.len() < MAX_NAMED && !same.iter().any(|one| one.path == path) {
            all.push(LeftOut {
                path: path.to_owned(),
                why: why.to_string(),
                limit,
            });
        }
    }
}

impl System {
    /// The same host for a look, which reads [`MAX_LOOK`] bytes in all. A look within a look shares
    /// its budget.
    pub fn looked_at(&self) -> Self {
        let most = if self.is_live() {
            MAX_LOOK_HERE
        } else {
            MAX_LOOK
        };
        Self {
            look: Some(
                self.look
                    .clone()
                    .unwrap_or_else(|| ReadBudget::of(most, None)),
            ),
            ..self.clone()
        }
    }

    /// The same look for a home, whose files somebody other than root wrote. It has a separate
    /// budget, [`MAX_HOME`], and of the tree's work no more than [`MAX_WORK_AT_HOME`].
    pub fn at_home(&self) -> Self {
        let look = self
            .look
            .as_ref()
            .map(|_| ReadBudget::of(MAX_HOME, Some(Work::of(MAX_WORK_AT_HOME))));
        Self {
            look,
            ..self.clone()
        }
    }

    /// How many bytes this look has read.
    pub fn spent(&self) -> u64 {
        self.look
            .as_ref()
            .map_or(0, |look| look.most - look.left.load(Ordering::Relaxed))
    }

    /// What this look left out so far because of its limits; the first ones, if it is much.
    pub fn left_out(&self) -> Vec<LeftOut> {
        let all = |look: &Arc<ReadBudget>| {
            look.left_out
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .clone()
        };
        self.look.as_ref().map(all).unwrap_or_default()
    }

    /// Notes that a look leaves out some of what a file or folder has.
    pub fn leave_out(&self, path: impl AsRef<Path>, why: &str) {
        self.refused(path.as_ref(), why.to_owned(), Some(Limit::File));
    }

    /// The same of somebody's own files: most of what is said of the host does not depend on them.
    pub fn pass_over(&self, path: impl AsRef<Path>, why: &str) {
        self.refused(path.as_ref(), why.to_owned(), None);
    }

    /// What there is of a processor's time for what is looked at: of a home, then of a tree. Of
    /// this host there is no end of it.
    pub(super) fn works(&self) -> impl Iterator<Item = &Work> {
        let of_home = self.look.as_ref().and_then(|look| look.of_home.as_ref());
        let of_offline_root = (self.look.is_some() && !self.is_live()).then_some(&*self.work);
        of_home.into_iter().chain(of_offline_root)
    }

    /// Whether only root wrote what is looked at: what the kernel tells of a large machine is in
    /// many short files.
    fn is_roots(&self) -> bool {
        self.is_live() && self.look.as_ref().is_none_or(|look| look.of_home.is_none())
    }

    /// Notes that a look leaves out a file on which everything depends.
    pub fn leave_out_all(&self, path: impl AsRef<Path>, why: &str) {
        self.refused(path.as_ref(), why.to_owned(), Some(Limit::Whole));
    }

    /// How much of a file of this kind may be read now.
    pub(super) fn room(&self, most: u64) -> u64 {
        self.look
            .as_ref()
            .map_or(most, |look| most.min(look.left.load(Ordering::Relaxed)))
    }

    /// How many bytes of names a folder may have now.
    pub(super) fn room_for_names(&self) -> usize {
        let room = if self.is_roots() {
            u64::MAX
        } else {
            self.room(u64::MAX)
        };
        usize::try_from(room).unwrap_or(usize::MAX)
    }

    /// So much was read of a file or folder.
    pub(super) fn spend(&self, path: &Path, bytes: u64) {
        let least = match path.starts_with("/sys") {
            true => LEAST_COST_IN_SYS,
            false => LEAST_COST,
        };
        if let Some(look) = &self.look {
            look.spend(if self.is_roots() {
                bytes
            } else {
                bytes.max(least)
            });
        }
    }

    /// The names of a folder were read, which have so many bytes.
    pub(super) fn spend_names(&self, folder: &Path, bytes: usize) {
        // What /proc has of a busy server is no stranger's.
        if !self.is_roots() {
            self.spend(folder, bytes as u64);
        }
    }

    /// Refuses a file of this length, where one of its kind may have `most` bytes.
    pub(super) fn too_large(&self, path: &Path, length: u64, most: u64) -> io::Error {
        let (why, limit) = match self
            .look
            .as_ref()
            .filter(|_| length <= most && self.room(most) < most)
        {
            Some(look) if look.of_home.is_some() && length > look.most => (
                format!(
                    "it is larger than {}, the limit for a home",
                    size(look.most)
                ),
                Limit::File,
            ),
            Some(look) => {
                let why = format!(
                    "with what was read before it, it has more than {}, the limit",
                    size(look.most)
                );
                (why, Limit::Whole)
            }
            None => (
                format!(
                    "it is larger than {}, the limit for such a file",
                    size(most)
                ),
                Limit::File,
            ),
        };
        self.refused(path, why, Some(limit))
    }

    /// Refuses a file or folder because of a limit, and notes that.
    pub(super) fn refused(&self, path: &Path, why: String, limit: Option<Limit>) -> io::Error {
        let why = io::Error::new(io::ErrorKind::FileTooLarge, why);
        if let Some(look) = &self.look {
            look.note(path, &why, limit);
        }
        why
    }
}

fn size(bytes: u64) -> String {
    if bytes >= 1 << 20 {
        format!("{} MiB", bytes >> 20)
    } else {
        format!("{} KiB", bytes >> 10)
    }
}

/// Whether a JSON text has no more values than [`MAX_JSON_WEIGHT`].
pub(crate) fn is_light_json(text: &[u8]) -> bool {
    weight(text, 0) <= MAX_JSON_WEIGHT
}

/// Whether a configuration in JSON or TOML has no more values than [`MAX_CONFIG_WEIGHT`].
pub fn is_light_config(text: &str) -> bool {
    weight(text.as_bytes(), 8) <= MAX_CONFIG_WEIGHT
}

/// The values of a text, by its brackets and commas outside of strings, and by its dots, each of
/// which has this weight: one in a key of TOML makes a table.
fn weight(text: &[u8], dot: usize) -> usize {
    let (mut weight, mut in_string, mut escaped, mut in_comment) = (0_usize, false, false, false);
    for byte in text {
        match byte {
            b'\n' => (in_comment, escaped) = (false, false),
            _ if in_comment => {}
            b'#' if !in_string => in_comment = true,
            _ if escaped => escaped = false,
            b'\\' => escaped = in_string,
            b'"' => in_string = !in_string,
            b'{' if !in_string => weight += 8,
            b'[' | b',' if !in_string => weight += 1,
            b'.' if !in_string => weight += dot,
            _ => {}
        }
    }
    weight
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, File};

    #[test]
    fn files_that_are_too_large_cost_nothing_and_are_named() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let system = System::at(dir.path()).looked_at();
        let large = dir.path().join("large");
        File::create(&large)
            .and_then(|file| file.set_len(MAX_CONFIG + 1))
            .expect("a sparse file");
        fs::write(dir.path().join("small"), "x").expect("written");
        assert_eq!(
            system.read("/large").expect_err("too large").kind(),
            io::ErrorKind::FileTooLarge
        );
        assert_eq!(system.room(u64::MAX), MAX_LOOK, "it was not read");
        assert_eq!(
            system
                .read_up_to("/large", MAX_RECORD)
                .expect("for its kind it is small")
                .len() as u64,
            MAX_CONFIG + 1
        );
        assert_eq!(
            system
                .left_out()
                .iter()
                .map(|one| one.path.as_path())
                .collect::<Vec<_>>(),
            [Path::new("/large")]
        );
        // Many that are small enough are too large together.
        File::create(&large)
            .and_then(|file| file.set_len(MAX_CONFIG))
            .expect("a sparse file");
        let read = (0..100).filter(|_| system.read("/large").is_ok()).count() as u64;
        assert_eq!(read, (MAX_LOOK - MAX_CONFIG - 1) / MAX_CONFIG);
        let why = system
            .looked_at()
            .read("/large")
            .expect_err("the same look")
            .to_string();
        assert!(why.contains("16 MiB, the limit"), "{why}");
        assert!(
            System::at(dir.path()).read("/large").is_ok(),
            "who changes a host reads on"
        );
    }

    #[test]
    fn what_people_wrote_uses_up_no_budget_but_its_own() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        fs::write(dir.path().join("small"), "x").expect("written");
        let system = System::at(dir.path()).looked_at();
        let people = system.at_home();
        let read = (0..MAX_HOME / LEAST_COST + 10)
            .filter(|_| people.read("/small").is_ok())
            .count() as u64;
        assert_eq!((read, people.left_out().len()), (MAX_HOME / LEAST_COST, 1));
        assert_eq!(people.spent(), MAX_HOME);
        assert!(system.read("/small").is_ok() && system.left_out().is_empty());
    }

    #[test]
    fn a_file_that_is_larger_than_a_home_may_be_says_so() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        File::create(dir.path().join("large"))
            .and_then(|file| file.set_len(MAX_HOME + 1))
            .expect("a sparse file");
        let home = System::at(dir.path()).looked_at().at_home();
        let why = home.read("/large").expect_err("too large").to_string();
        assert_eq!(why, "it is larger than 256 KiB, the limit for a home");
        home.spend(Path::new("/"), 1);
        File::create(dir.path().join("large"))
            .and_then(|file| file.set_len(MAX_HOME))
            .expect("a sparse file");
        let why = home
            .read("/large")
            .expect_err("not much is left")
            .to_string();
        assert_eq!(
            why,
            "with what was read before it, it has more than 256 KiB, the limit"
        );
    }

    #[test]
    fn what_people_wrote_has_its_price_on_a_live_host_too() {
        let system = System::live().looked_at();
        let home = system.at_home();
        for on in [&system, &home] {
            on.spend(Path::new("/home/ann/empty"), 0);
            on.spend_names(Path::new("/home/ann"), 5000);
        }
        assert_eq!((system.spent(), home.spent()), (0, LEAST_COST + 5000));
    }

    #[test]
    fn none_of_what_is_left_out_hides_another_limit() {
        let system = System::at("/nonexistent").looked_at();
        (0..100).for_each(|n| system.pass_over(format!("/home/{n}"), "large"));
        (0..100).for_each(|n| system.leave_out(format!("/etc/{n}"), "large"));
        let of = |limit| {
            system
                .left_out()
                .iter()
                .filter(|one| one.limit == limit)
                .count()
        };
        assert_eq!(
            (of(None), of(Some(Limit::File)), of(Some(Limit::Whole))),
            (MAX_NAMED, MAX_NAMED, 0)
        );
    }

    #[test]
    fn short_files_have_their_price() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        fs::write(dir.path().join("small"), "x").expect("written");
        let system = System::at(dir.path()).looked_at();
        let read = (0..MAX_LOOK / LEAST_COST + 10)
            .filter(|_| system.read("/small").is_ok())
            .count() as u64;
        assert_eq!(read, MAX_LOOK / LEAST_COST);
        assert_eq!(system.left_out().len(), 1);
    }

    #[test]
    fn a_folder_with_too_many_names_is_refused() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let system = System::at(dir.path()).looked_at();
        let long = "x".repeat(200);
        let count = MAX_LOOK as usize / 64 / 200;
        (0..100)
            .for_each(|n| drop(File::create(dir.path().join(format!("{long}{n}"))).expect("made")));
        let listed = (0..count).filter(|_| system.list("/").is_ok()).count();
        assert!(
            listed < count && system.left_out().len() == 1,
            "{listed} of {count}"
        );
        assert_eq!(
            system.room(u64::MAX),
            0,
            "those that were refused were read, too"
        );
    }

    #[test]
    fn json_is_weighed_by_its_values() {
        assert!(is_light_json(br#"{"a": [1, 2], "b": ",,,{{\",[["}"#));
        assert!(!is_light_json("[],".repeat(MAX_JSON_WEIGHT).as_bytes()));
        assert!(!is_light_json(
            "{}".repeat(MAX_JSON_WEIGHT / 8 + 1).as_bytes()
        ));
        assert!(is_light_json(
            format!("\"{}\"", ",".repeat(2 * MAX_JSON_WEIGHT)).as_bytes()
        ));
        assert!(is_light_json("1.5 ".repeat(MAX_JSON_WEIGHT).as_bytes()));
        let keys = |n: usize| format!("x{}=1\n", ".a".repeat(n));
        assert!(is_light_config(&keys(100)) && !is_light_config(&keys(MAX_CONFIG_WEIGHT)));
        assert!(is_light_config(
            &"# It has. Many. Dots.\n".repeat(MAX_CONFIG_WEIGHT)
        ));
    }
}
