//! An archive's entries: what may be in it, and where that goes. Everything is written flat, under
//! numbers, into the staging folder: nothing that an archive says is a path on the disk before all
//! of it has proved to be harmless.

use super::files::{self, Flusher, Layout};
use super::links::stays_within;
use super::wheel::{self, WheelError};
use crate::{Limit, Placement};
use gpusetup_system::Directory;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, Cursor, Read};
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};
use std::rc::Rc;
use tar::{Entry, EntryType};

/// Bytes that may stand between the bytes of one file and those of the next: names are in there,
/// and are kept in memory.
const MAX_BETWEEN: u64 = 1 << 20;
/// Bytes that an entry takes beside its file's: its header, a long name, padding.
const BESIDE: u64 = 4096;

/// The deepest file of a toolkit has 14 folders above it. Each is compared with all names of the
/// archive.
const MAX_DEPTH: usize = 100;

/// What is wrong with an archive.
#[derive(Debug)]
pub(crate) enum Wrong {
    /// It cannot be read, or its files not be written.
    Io(io::Error),
    /// It holds what no archive of a toolkit should: the entry, and what is wrong with that.
    Refused(PathBuf, String),
}

impl From<io::Error> for Wrong {
    fn from(e: io::Error) -> Self {
        Self::Io(e)
    }
}

impl From<WheelError> for Wrong {
    fn from(e: WheelError) -> Self {
        match e {
            WheelError::Io(e) => Self::Io(e),
            WheelError::File { name, what } => Self::Refused(name.into(), what.to_owned()),
        }
    }
}

/// What an archive may still yield.
#[derive(Default)]
struct Meter {
    /// Before the next file.
    between: Cell<Option<u64>>,
    rest: Cell<u64>,
    /// It came to its end.
    ended: Cell<bool>,
    /// More came than may.
    exceeded: Cell<bool>,
}

struct Metered<R> {
    inner: R,
    meter: Rc<Meter>,
}

impl<R: Read> Read for Metered<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let meter = &self.meter;
        let n = self.inner.read(buffer)?;
        meter
            .ended
            .set(meter.ended.get() || (n == 0 && !buffer.is_empty()));
        let (rest, between) = (meter.rest.get().checked_sub(n as u64), meter.between.get());
        let between = between.map(|left| left.checked_sub(n as u64));
        match (rest, between) {
            (Some(rest), None) => meter.rest.set(rest),
            (Some(rest), Some(Some(left))) => {
                meter.rest.set(rest);
                meter.between.set(Some(left));
            }
            _ => {
                meter.exceeded.set(true);
                return Err(io::Error::other("more is in it than may be"));
            }
        }
        Ok(n)
    }
}

/// Unpacks what has a place into the folder `staging`, and reads to the end: the final path on the
/// host of everything, with the name of its file in the folder.
pub(crate) fn unpack(
    from: impl Read,
    into: &[Placement],
    limit: Limit,
    staging: &Directory,
    flusher: &Flusher,
) -> Result<BTreeMap<PathBuf, String>, Wrong> {
    let meter = Rc::new(Meter::default());
    meter.rest.set(
        limit
            .bytes
            .saturating_add(limit.files.saturating_mul(BESIDE)),
    );
    let (mut from, mut start) = (from, Vec::new());
    from.by_ref()
        .take(wheel::MAGIC.len() as u64)
        .read_to_end(&mut start)?;
    let is_wheel = start == wheel::MAGIC;
    let unpacking = Unpacking {
        into,
        staging,
        flusher,
        // The outermost folder of a tar archive carries the version.
        left_out: if is_wheel { 0 } else { 1 },
        staged: BTreeMap::new(),
        links: BTreeMap::new(),
        origin: BTreeMap::new(),
    };
    let metered = Metered {
        inner: Cursor::new(start).chain(from),
        meter: meter.clone(),
    };
    let read = match is_wheel {
        true => read_wheel(metered, &meter, limit, unpacking),
        false => read(metered, &meter, limit, unpacking),
    };
    match read {
        Err(Wrong::Io(_)) if meter.exceeded.get() => Err(too_much(Path::new(""), limit)),
        read => read,
    }
}

fn too_much(path: &Path, limit: Limit) -> Wrong {
    let (files, bytes) = (limit.files, limit.bytes);
    Wrong::Refused(
        path.to_owned(),
        format!("more than the {files} files and {bytes} bytes that it may hold"),
    )
}

fn read<R: Read>(
    from: Metered<R>,
    meter: &Meter,
    limit: Limit,
    mut unpacking: Unpacking,
) -> Result<BTreeMap<PathBuf, String>, Wrong> {
    let (mut tar, mut left) = (tar::Archive::new(from), limit);
    let mut all = tar.entries()?;
    loop {
        meter.between.set(Some(MAX_BETWEEN));
        let Some(entry) = all.next() else { break };
        let mut entry = entry?;
        meter.between.set(None);
        let seen = Seen::of(&mut entry)?;
        left.take(&seen)
            .ok_or_else(|| too_much(&seen.path, limit))?;
        unpacking.add(&seen, &mut entry)?;
        // What nobody wanted: what is read behind it is a header.
        io::copy(&mut entry, &mut io::sink())?;
    }
    if meter.ended.get() {
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it ends before its end").into());
    }
    meter.between.set(None);
    only_zeroes(tar.into_inner())?;
    unpacking.checked()
}

fn read_wheel<R: Read>(
    mut from: Metered<R>,
    meter: &Meter,
    limit: Limit,
    mut unpacking: Unpacking,
) -> Result<BTreeMap<PathBuf, String>, Wrong> {
    let mut left = limit;
    loop {
        meter.between.set(Some(MAX_BETWEEN));
        let Some(mut file) = wheel::next_file(&mut from)? else {
            break;
        };
        meter.between.set(None);
        let seen = Seen {
            path: PathBuf::from(&file.name),
            kind: if file.is_folder() {
                EntryKind::Folder
            } else {
                EntryKind::File
            },
            link: PathBuf::new(),
            size: file.size,
            mode: 0o644,
            layout: Layout::Plain,
        };
        seen.stays_inside()?;
        left.take(&seen)
            .ok_or_else(|| too_much(&seen.path, limit))?;
        let added = unpacking.add(&seen, &mut file);
        let read = added.and_then(|()| Ok(io::copy(&mut file, &mut io::sink())?));
        read.map_err(|e| match e {
            Wrong::Io(e) if e.kind() == io::ErrorKind::InvalidData => seen.refused(&e.to_string()),
            e => e,
        })?;
    }
    // The list of what was read.
    meter.between.set(None);
    io::copy(&mut from, &mut io::sink())?;
    unpacking.checked()
}

/// Behind the mark of a tar's end there may be padding, and nothing else.
fn only_zeroes(mut rest: impl Read) -> io::Result<()> {
    let mut block = vec![0; 1 << 16];
    loop {
        match rest.read(&mut block)? {
            0 => return Ok(()),
            n if block[..n].iter().all(|b| *b == 0) => {}
            _ => {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidData,
                    "something stands behind its end",
                ));
            }
        }
    }
}

impl Limit {
    /// Counts an entry; none where it is one too many.
    fn take(&mut self, seen: &Seen) -> Option<()> {
        self.files = self.files.checked_sub(1)?;
        self.bytes = self.bytes.checked_sub(seen.size)?;
        Some(())
    }
}

#[derive(Clone, Copy, PartialEq)]
enum EntryKind {
    Folder,
    File,
    Link,
    HardLink,
    /// Says something of the entries behind it.
    Remark,
}

/// An entry, as far as it may be in an archive.
struct Seen {
    path: PathBuf,
    kind: EntryKind,
    /// Of a link, where it leads.
    link: PathBuf,
    /// Bytes of its file.
    size: u64,
    mode: u32,
    layout: Layout,
}

impl Seen {
    fn of<R: Read>(entry: &mut Entry<R>) -> Result<Self, Wrong> {
        let mut seen = Self {
            path: entry.path()?.into_owned(),
            kind: EntryKind::File,
            link: entry.link_name()?.unwrap_or_default().into_owned(),
            size: entry.size(),
            mode: 0o644,
            layout: Layout::Plain,
        };
        seen.kind = match entry.header().entry_type() {
            EntryType::Regular => EntryKind::File,
            EntryType::GNUSparse => {
                seen.layout = Layout::Holes;
                EntryKind::File
            }
            EntryType::Directory => EntryKind::Folder,
            EntryType::Symlink => EntryKind::Link,
            EntryType::Link => EntryKind::HardLink,
            EntryType::XGlobalHeader => EntryKind::Remark,
            _ => return Err(seen.refused("neither a file, a folder nor a link")),
        };
        if seen.kind == EntryKind::File {
            seen.take_stretches(entry)?;
        }
        seen.stays_inside()?;
        let mode = entry.header().mode()?;
        if matches!(seen.kind, EntryKind::File | EntryKind::HardLink) && mode & 0o7000 != 0 {
            return Err(seen.refused("a mode beyond the plain permissions"));
        }
        // Everybody may read a library, whoever packed it under which umask.
        seen.mode = if mode & 0o111 == 0 { 0o644 } else { 0o755 };
        Ok(seen)
    }

    /// Refuses a path that leads out of the archive, or through more folders than anybody has.
    fn stays_inside(&self) -> Result<(), Wrong> {
        if !self
            .path
            .components()
            .all(|c| matches!(c, Component::Normal(_) | Component::CurDir))
        {
            return Err(self.refused("a path that leads out of it"));
        }
        match self.path.components().count() > MAX_DEPTH {
            true => Err(Wrong::Refused(
                PathBuf::new(),
                format!("a path through more than {MAX_DEPTH} folders"),
            )),
            false => Ok(()),
        }
    }

    /// In archives of the POSIX form a file with holes has its name and its size beside it.
    fn take_stretches<R: Read>(&mut self, entry: &mut Entry<R>) -> Result<(), Wrong> {
        let mut sparse = BTreeMap::new();
        for record in entry.pax_extensions()?.into_iter().flatten() {
            let record = record?;
            if let Some(key) = record
                .key()
                .ok()
                .and_then(|k| k.strip_prefix("GNU.sparse."))
            {
                sparse.insert(key.to_owned(), record.value_bytes().to_vec());
            }
        }
        if sparse.is_empty() {
            return Ok(());
        }
        let text = |key: &str| sparse.get(key).and_then(|v| std::str::from_utf8(v).ok());
        let size = text("realsize").and_then(|t| t.parse().ok());
        match (text("major"), text("minor"), sparse.get("name"), size) {
            (Some("1"), Some("0"), Some(name), Some(size)) => {
                self.path = PathBuf::from(OsString::from_vec(name.clone()));
                (self.size, self.layout) = (size, Layout::Stretches(size));
                Ok(())
            }
            _ => Err(self.refused("a file with holes of a form that is not known")),
        }
    }

    fn refused(&self, what: &str) -> Wrong {
        Wrong::Refused(self.path.clone(), what.to_owned())
    }
}

/// Where something in an archive goes, and the folder that it may lead to as a link; none where
/// nobody wants it. So many outermost folders are left out of its path.
fn place(path: &Path, left_out: usize, into: &[Placement]) -> Option<(PathBuf, PathBuf)> {
    let inner: PathBuf = path
        .components()
        .filter(|c| matches!(c, Component::Normal(_)))
        .skip(left_out)
        .collect();
    into.iter()
        .filter(|_| !inner.as_os_str().is_empty())
        .find_map(|p| {
            // What no placement before it took.
            let rest = if p.from == Path::new(".") {
                &inner
            } else {
                inner.strip_prefix(&p.from).ok()?
            };
            Some(match rest.as_os_str().is_empty() {
                true => (p.to.clone(), p.to.parent()?.to_owned()),
                false => (p.to.join(rest), p.to.clone()),
            })
        })
}

/// What was unpacked so far.
struct Unpacking<'a> {
    into: &'a [Placement],
    /// So many outermost folders are no part of the names in [`Self::into`].
    left_out: usize,
    staging: &'a Directory,
    flusher: &'a Flusher,
    staged: BTreeMap<PathBuf, String>,
    links: BTreeMap<PathBuf, PathBuf>,
    /// Each with its path in the archive and the folder that it may lead to as a link.
    origin: BTreeMap<PathBuf, (PathBuf, PathBuf)>,
}

impl Unpacking<'_> {
    fn add(&mut self, seen: &Seen, from: &mut impl Read) -> Result<(), Wrong> {
        let Some((target, within)) = place(&seen.path, self.left_out, self.into) else {
            return Ok(());
        };
        // What a link leads to in the place of a folder has a placement itself; the link would
        // replace the host's folder.
        let replaces_folder =
            seen.kind == EntryKind::Link && self.into.iter().any(|p| p.to == target);
        if matches!(seen.kind, EntryKind::Folder | EntryKind::Remark) || replaces_folder {
            return Ok(());
        }
        if self.staged.contains_key(&target) {
            return Err(seen.refused("a file that is there twice"));
        }
        let name = self.staged.len().to_string();
        match seen.kind {
            EntryKind::Link => {
                if seen.link.as_os_str().is_empty() {
                    return Err(seen.refused("a link to nothing"));
                }
                self.staging.symlink(&seen.link, &name)?;
                self.links.insert(target.clone(), seen.link.clone());
            }
            EntryKind::HardLink => {
                let (file, _) = place(&seen.link, self.left_out, self.into).unwrap_or_default();
                // To a file of this archive that was unpacked from it: what else stands on the host
                // is not for it to name.
                match self
                    .staged
                    .get(&file)
                    .filter(|_| !self.links.contains_key(&file))
                {
                    Some(file) => self.staging.hard_link(file, &name)?,
                    None => return Err(seen.refused("a hard link to what is not before it")),
                }
            }
            _ => files::write(
                self.staging,
                (&name, seen.mode),
                seen.size,
                &seen.layout,
                from,
                self.flusher,
            )?,
        }
        self.origin
            .insert(target.clone(), (seen.path.clone(), within));
        self.staged.insert(target, name);
        Ok(())
    }

    /// What only all of it together shows.
    fn checked(self) -> Result<BTreeMap<PathBuf, String>, Wrong> {
        for (target, (path, within)) in &self.origin {
            let refused = |what: &str| Err(Wrong::Refused(path.clone(), what.to_owned()));
            if target
                .ancestors()
                .skip(1)
                .any(|above| self.staged.contains_key(above))
            {
                return refused("a path through what is no folder");
            }
            if self.links.contains_key(target) && !stays_within(&self.links, target, within) {
                return refused("a link that leads elsewhere");
            }
        }
        if self.staged.is_empty() {
            return Err(Wrong::Io(io::Error::new(
                io::ErrorKind::InvalidData,
                "nothing that is wanted is in it",
            )));
        }
        Ok(self.staged)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_placement_takes_goes_where_the_rest_goes() {
        let into = [
            ("lib", "/t/targets/lib"),
            ("LICENSE", "/t/share/LICENSE"),
            (".", "/t"),
        ]
        .map(|(from, to)| Placement {
            from: from.into(),
            to: to.into(),
        });
        for (inner, target, within) in [
            (
                "lib/stubs/libx.so",
                "/t/targets/lib/stubs/libx.so",
                "/t/targets/lib",
            ),
            ("LICENSE", "/t/share/LICENSE", "/t/share"),
            ("bin/nvcc", "/t/bin/nvcc", "/t"),
            ("library", "/t/library", "/t"),
        ] {
            let placed = place(
                &Path::new("cuda_x-linux-x86_64-1.2-archive").join(inner),
                1,
                &into,
            );
            assert_eq!(placed, Some((target.into(), within.into())), "{inner}");
        }
    }
}
