//! A layer of an image: the names of its files that matter here, and of those that it removes from
//! the layers below.

use super::tar_entries::{Entries, filled, invalid};
use gpusetup_database::sum::hex;
use gpusetup_system::zst;
use gpusetup_system::{LEAST_OF_HOLES, PART_OF_DATA, consists_of_holes, interrupt};
use sha2::{Digest, Sha256};
use std::cell::Cell;
use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, BufRead, BufReader, Read, Take};
use std::os::unix::fs::MetadataExt;
use std::rc::Rc;
use tar::EntryType;

/// zstd may look back so far, as a power of two in bytes: as far as `zstd --ultra -22`.
const WINDOW: u32 = 27;
/// The same of what is packed again within something packed: both windows take memory.
const WINDOW_WITHIN: u32 = 26;
/// Bytes of all files that are read, and of all that comes out of them. No image has as many, and
/// reading them takes minutes. A file with data in a sixtieth of it and holes in between does not
/// count as sparse, and could have any length.
const MAX_READ: u64 = 256 << 30;
/// Bytes of all files with almost no data that are too short to be refused each as sparse.
const MAX_EMPTY: u64 = 2 << 30;
/// Bytes that may come out of packed data before it counts how many went in.
const MAX_UNPACKED: u64 = 1 << 30;
/// Bytes that may come out of each packed byte beyond that. Layers have two to five for one, empty
/// disk images some hundred.
const MAX_RATIO: u64 = 64;
/// No path of Linux is longer, in bytes.
const MAX_PATH: usize = 4096;
/// What is kept of an archive: descriptions, and the names of files with what each takes in memory.
const MAX_KEPT: u64 = 32 << 20;
/// What a kept name takes in memory besides its bytes.
const COST_OF_NAME: u64 = 64;

/// What was read of an archive or a folder, what came out of it, and what is kept of it: one budget
/// for all of its layers, and for what is packed in them once more.
#[derive(Debug, Default)]
pub(crate) struct Budget {
    read: Cell<u64>,
    empty: Cell<u64>,
    unpacked: Cell<u64>,
    kept: Cell<u64>,
}

impl Budget {
    /// A file, which counts as read up to the length that it has now. A sparse one could have any.
    pub(crate) fn of(&self, file: File) -> io::Result<Take<File>> {
        let meta = file.metadata()?;
        let length = meta.len();
        self.read.set(self.read.get().saturating_add(length));
        if length <= LEAST_OF_HOLES && meta.blocks() * 512 < length / PART_OF_DATA {
            self.empty.set(self.empty.get() + length);
        }
        if self.empty.get() > MAX_EMPTY || consists_of_holes(&file)? {
            return Err(invalid("it is a sparse file"));
        }
        within_all(self.read.get())?;
        Ok(file.take(length))
    }

    pub(crate) fn keep(&self, bytes: u64) {
        self.kept.set(self.kept.get() + bytes);
    }

    pub(crate) fn is_spent(&self) -> bool {
        self.kept.get() > MAX_KEPT
    }
}

fn within_all(bytes: u64) -> io::Result<()> {
    if bytes <= MAX_READ {
        return Ok(());
    }
    let why = format!(
        "it has more than {} GiB, which no image has",
        MAX_READ >> 30
    );
    Err(io::Error::new(io::ErrorKind::FileTooLarge, why))
}

/// What comes out of packed data, up to a limit.
struct Metered<'a, R> {
    from: R,
    budget: &'a Budget,
}

impl<R: Read> Read for Metered<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.from.read(buffer)?;
        let unpacked = self.budget.unpacked.get() + read as u64;
        self.budget.unpacked.set(unpacked);
        if unpacked > MAX_UNPACKED + MAX_RATIO.saturating_mul(self.budget.read.get()) {
            let gib = MAX_UNPACKED >> 30;
            let why = format!(
                "it unpacks to more than {gib} GiB, and to more than {MAX_RATIO} times its size"
            );
            return Err(invalid(why));
        }
        within_all(unpacked)?;
        Ok(read)
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Layer {
    pub(crate) files: Vec<String>,
    /// Files and folders of lower layers that it removes with everything below them, as [`sorted`]
    /// gives them.
    pub(crate) removed: Vec<String>,
    /// What may be in the place of a folder of lower layers, as [`hashes`], sorted. Names would
    /// take more memory.
    pub(crate) others: Vec<u64>,
    /// The SHA-256 of its tar archive, by which the image's configuration names it (`diff_ids`).
    pub(crate) sum: String,
}

/// The folders of a sortable path, and at last itself.
fn hashes(path: &str) -> impl Iterator<Item = u64> {
    let mut hasher = DefaultHasher::new();
    path.split('\0').map(move |part| {
        part.hash(&mut hasher);
        hasher.finish()
    })
}

/// Whether a folder may have this name. Most files have a suffix that no folder has, and need not
/// be kept: `.py`.
fn may_be_folder(name: &str) -> bool {
    name.rsplit_once('.').is_none_or(|(_, end)| {
        end.contains('/') || !end.starts_with(|c: char| c.is_ascii_alphabetic())
    })
}

/// These files and folders, of which the empty one is everything: none below another, sortable and
/// sorted.
pub(crate) fn sorted(paths: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut all: Vec<_> = paths.into_iter().map(|path| sortable(&path)).collect();
    all.sort_unstable();
    all.dedup_by(|path, before| is_in(path, before));
    all
}

/// A path whose separators come before every other character.
fn sortable(path: &str) -> String {
    path.replace('/', "\0")
}

/// Whether a sortable path is this folder or below it.
fn is_in(path: &str, folder: &str) -> bool {
    folder.is_empty()
        || path
            .strip_prefix(folder)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('\0'))
}

struct Hashed<R> {
    from: R,
    sum: Sha256,
}

impl<R: Read> Read for Hashed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        // Between entries would be too seldom: one may have any length.
        if interrupt::heard().is_some() {
            return Err(io::Error::other("interrupted"));
        }
        let read = self.from.read(buffer)?;
        self.sum.update(&buffer[..read]);
        Ok(read)
    }
}

impl Layer {
    /// Whether it removes this file of lower layers.
    pub(crate) fn removes(&self, file: &str) -> bool {
        let file = sortable(file);
        let before = self
            .removed
            .partition_point(|path| *path <= file)
            .checked_sub(1);
        before.is_some_and(|at| is_in(&file, &self.removed[at]))
            || hashes(&file).any(|hash| self.others.binary_search(&hash).is_ok())
    }

    pub(crate) fn removes_nothing(&self) -> bool {
        self.removed.is_empty() && self.others.is_empty()
    }

    /// Reads a layer: a tar archive, which may be packed with gzip or zstd.
    pub(crate) fn read(
        from: impl Read,
        budget: &Budget,
        is_within: bool,
        is_wanted: fn(&str) -> bool,
    ) -> io::Result<Rc<Self>> {
        let mut content = Hashed {
            from: unpacked(BufReader::new(from), budget, is_within)?.0,
            sum: Sha256::new(),
        };
        let mut entries = Entries::new(&mut content);
        let (mut files, mut removed, mut others, mut total) =
            (Vec::new(), Vec::new(), Vec::new(), 0);
        while let Some(entry) = entries.next_entry()? {
            let name = &entry.name;
            if name.len() > MAX_PATH || name.contains('\0') {
                continue;
            }
            // Or another name of one.
            let is_file = matches!(
                entry.kind,
                EntryType::Regular | EntryType::Continuous | EntryType::Link
            );
            let mut cost = cost(name);
            match removed_by(name) {
                Some(path) => removed.push(path),
                None if is_file && is_wanted(name) => files.push(name.clone()),
                None if entry.kind.is_dir() || is_file && !may_be_folder(name) => continue,
                None => {
                    others.extend(hashes(&sortable(name)).last());
                    cost = size_of::<u64>() as u64;
                }
            }
            total += cost;
            if total > MAX_KEPT.saturating_sub(budget.kept.get()) {
                return Err(invalid("it has more names than an image"));
            }
        }
        budget.keep(total);
        others.sort_unstable();
        Ok(Rc::new(Self {
            files,
            removed: sorted(removed),
            others,
            sum: hex(&content.sum.finalize()),
        }))
    }
}

/// What a name takes in memory.
pub(crate) fn cost(name: &str) -> u64 {
    name.len() as u64 + COST_OF_NAME
}

/// The file of lower layers that a file of this name removes, or the folder that it empties of
/// them.
fn removed_by(name: &str) -> Option<String> {
    let (folder, file) = name.rsplit_once('/').unwrap_or(("", name));
    match file.strip_prefix(".wh.")? {
        ".wh..opq" => Some(folder.to_owned()),
        file if folder.is_empty() => Some(file.to_owned()),
        file => Some(format!("{folder}/{file}")),
    }
}

/// What is in a file, and whether that is packed; `is_within` if the file is within something
/// packed.
pub(crate) fn unpacked<'a>(
    mut from: impl BufRead + 'a,
    budget: &'a Budget,
    is_within: bool,
) -> io::Result<(Box<dyn Read + 'a>, bool)> {
    // A buffer may hold less than this at first.
    let mut start = [0; 4];
    let read = filled(&mut from, &mut start)?;
    let all = io::Cursor::new(start).take(read as u64).chain(from);
    let window = if is_within { WINDOW_WITHIN } else { WINDOW };
    let decoder: Box<dyn Read + 'a> = match start {
        [0x1f, 0x8b, ..] => Box::new(flate2::bufread::MultiGzDecoder::new(all)),
        [0x28, 0xb5, 0x2f, 0xfd] => Box::new(zst::Decoder::with_buffer(all)?.window(window)?),
        _ => return Ok((Box::new(all), false)),
    };
    Ok((
        Box::new(Metered {
            from: decoder,
            budget,
        }),
        true,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn what_is_removed_goes_with_everything_below_it() {
        let removes = |paths: &[&str]| Layer {
            removed: sorted(paths.iter().map(|p| (*p).to_owned())),
            ..Layer::default()
        };
        let layer = removes(&["a/b", "a/b/c", "a-b", "x/y z", "a/b.d/e"]);
        assert_eq!(layer.removed.len(), 4, "one is below another: {layer:?}");
        for file in ["a/b", "a/b/c/d", "a/b.d/e", "a-b/c", "x/y z/0"] {
            assert!(layer.removes(file), "{file}");
        }
        for file in ["a/b.d", "a/bc", "a", "a-bc", "x/y", "zzz"] {
            assert!(!layer.removes(file), "{file}");
        }
        assert!(removes(&["", "a"]).removes("anything/at/all"));
        assert!(!removes(&[]).removes("a"));
    }

    /// Each file is below the length from which on holes are looked for.
    #[test]
    fn files_have_a_limit_together() {
        for (data, most, says) in [
            (1 << 20, MAX_READ, "more than 256 GiB"),
            (1, MAX_EMPTY, "sparse"),
        ] {
            let mut file = tempfile::tempfile().expect("a file");
            file.write_all(&vec![1; data])
                .and_then(|()| file.sync_all())
                .expect("written");
            file.set_len(LEAST_OF_HOLES).expect("longer");
            let budget = Budget::default();
            let read = || {
                budget
                    .of(file.try_clone().expect("the same file"))
                    .map(drop)
            };
            (0..most / LEAST_OF_HOLES).for_each(|_| read().expect("within the limit"));
            assert!(
                read().expect_err("more").to_string().contains(says),
                "{says}"
            );
        }
    }
}
