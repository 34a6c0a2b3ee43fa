//! `unpack`: a verified archive's folders into place. Everything is unpacked beside its target
//! first; only when the whole archive has proved to be what it should be is anything moved in.
//! Reading (with the sum, where nobody knows it yet), unpacking, writing and waiting for the disk
//! have a thread each.

mod blocks;
mod decode;
mod entries;
mod files;
mod links;
mod pipe;
#[cfg(test)]
mod tests;
mod wheel;

use super::undo::{Backups, Undo, missing_parents};
use super::valid::Valid;
use super::{Action, Completion, Counts, Notice, Notify, OperationError, Standing, Work, valid};
use entries::Wrong;
use files::Flusher;
use gpusetup_fetch::cache;
use gpusetup_system::{Directory, Identity, Node, System, digest_on, interrupt};
use gpusetup_text::text::quoted_path;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Unpacks a verified archive's folders into place, links kept as links, everything readable by
/// all.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
#[serde(deny_unknown_fields)]
pub struct Unpack {
    /// The archive in the cache.
    pub archive: PathBuf,
    /// The SHA-256 of the archive.
    #[cfg_attr(
        feature = "schemas",
        schemars(with = "gpusetup_database::sum::Sha256Text")
    )]
    pub sha256: String,
    /// What of it goes where; a tar archive's outermost folder is left out of the names.
    pub into: Vec<Placement>,
    /// How much may be in it; without, as much as its size makes likely.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<Limit>,
}

impl Action for Unpack {
    fn stands(&self, _: &System, planned: bool) -> io::Result<Standing> {
        Ok(Standing::satisfied_if(planned))
    }

    fn preparation(&self, on: &System) -> Vec<Undo> {
        vec![Undo::Tree {
            path: staging(on, &self.sha256, &self.into),
        }]
    }

    fn prepare(&self, on: &System, work: &mut Work, notify: Notify) -> Result<(), OperationError> {
        let Self {
            archive,
            sha256,
            into,
            limit,
        } = self;
        let began = Instant::now();
        let progress = &mut |have, all| {
            notify(Notice::Working(began.elapsed(), Some((have, Some(all)))));
        };
        let staging = staging(on, sha256, into);
        work.staged = Some(stage(
            on, archive, sha256, into, *limit, &staging, progress,
        )?);
        Ok(())
    }

    fn intend(&self, on: &System, work: &mut Work) -> Result<Vec<Undo>, OperationError> {
        Ok(match &work.staged {
            Some(staged) => staged.intend(on, &mut work.backups)?,
            None => Vec::new(),
        })
    }

    fn perform(&self, on: &System, work: &mut Work, _: Notify) -> Result<(), OperationError> {
        match work.staged.take() {
            Some(staged) => Ok(staged.commit(on)?),
            None => Err(io::Error::other("the archive was not unpacked").into()),
        }
    }

    fn completion(&self) -> Completion {
        Completion::Sync
    }

    fn describe(&self) -> String {
        let name = Path::new(self.archive.file_name().unwrap_or_default()).display();
        // What goes below another place is in there.
        let to: Vec<_> = self
            .into
            .iter()
            .filter(|p| {
                !(self
                    .into
                    .iter()
                    .any(|o| o.to != p.to && p.to.starts_with(&o.to)))
            })
            .map(|p| p.to.display().to_string())
            .collect();
        format!("unpack {name} into {}", to.join(", "))
    }

    fn shell(&self) -> String {
        let archive = quoted_path(&self.archive);
        let places: String = self.into.iter().map(Placement::shell).collect();
        let is_wheel = self
            .archive
            .extension()
            .is_some_and(|ending| ending == wheel::ENDING);
        let unpack = match is_wheel {
            true => format!("unzip -q {archive} -d \"$staging\""),
            false => {
                format!("tar -xf {archive} -C \"$staging\" --strip-components=1 --no-same-owner")
            }
        };
        format!(
            "echo \"{}  \"{archive} | sha256sum -c\n\
             staging=$(mktemp -d -p /var/cache)\n\
             {unpack}\n\
             chmod -R u=rwX,go=rX \"$staging\"\n\
             {places}rm -rf \"$staging\"\n",
            self.sha256
        )
    }

    fn counts(&self) -> Counts {
        Counts {
            add: 1,
            ..Counts::default()
        }
    }

    fn valid(&self, cache: &Path) -> Valid {
        let Self {
            archive,
            sha256,
            into,
            limit,
        } = self;
        valid::within(archive, cache)?;
        valid::checksum(sha256)?;
        limit
            .iter()
            .try_for_each(|limit| valid::size(limit.bytes))?;
        into.iter().try_for_each(Placement::valid)
    }
}

/// What of an archive goes where.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
#[serde(deny_unknown_fields)]
pub struct Placement {
    /// A folder or a file in the archive, `lib`; `.` is all that no placement before it takes.
    pub from: PathBuf,
    /// Where it goes, `/usr/local/cuda-12.8/lib64`.
    pub to: PathBuf,
}

impl Placement {
    fn valid(&self) -> Valid {
        valid::relative(&self.from)?;
        valid::path(&self.to)
    }

    /// The lines of a script that move it out of `$staging`.
    fn shell(&self) -> String {
        let from = quoted_path(&self.from);
        let to = quoted_path(&self.to);
        let parent = quoted_path(self.to.parent().unwrap_or(Path::new("/")));
        if self.from == Path::new(".") {
            return format!("mkdir -p {to}\ncp -a \"$staging\"/. {to}/\n");
        }
        // What has its place is taken away, so that `.` is the rest.
        format!(
            "if [ -d \"$staging\"/{from} ]; then\n    mkdir -p {to}\n    cp -a \"$staging\"/{from}/. {to}/\nelif [ -e \"$staging\"/{from} ]; then\n    mkdir -p {parent}\n    cp -a \"$staging\"/{from} {to}\nfi\nrm -rf \"${{staging:?}}\"/{from}\n"
        )
    }
}

/// How much an archive may hold: what says more is made to fill a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
#[serde(deny_unknown_fields)]
pub struct Limit {
    /// Files, folders and links together.
    pub(crate) files: u64,
    /// Bytes of all its files.
    pub(crate) bytes: u64,
}

/// What an archive may hold that says nothing of it: NVIDIA's unpack to two or three times their
/// size, a runfile to twice. A bomb has a thousand and more.
const LIKELY_RATIO: u64 = 20;
/// So much even a small one may hold: a page of text packs better than a library.
const LIKELY_BYTES: u64 = 64 << 20;
/// A whole toolkit has some twenty thousand.
const LIKELY_FILES: u64 = 100_000;

/// Why an archive is refused.
#[derive(Debug, thiserror::Error)]
pub enum UnpackError {
    /// It cannot be read, or its files cannot be written.
    #[error("cannot unpack {}: {source}", archive.display())]
    Io {
        /// The archive.
        archive: PathBuf,
        /// What the system says about it.
        source: io::Error,
    },
    /// It holds what no archive of a library should.
    #[error("{} is refused: {what}{}", archive.display(), in_brackets(entry))]
    Refused {
        /// The archive.
        archive: PathBuf,
        /// The entry in it.
        entry: PathBuf,
        /// What is wrong with that.
        what: String,
    },
    /// It is not the file that was verified.
    #[error("{} is not what it should be: its SHA-256 is {found}, not {wanted}", archive.display())]
    Altered {
        /// The archive.
        archive: PathBuf,
        /// The SHA-256 that the file has, in hexadecimal digits.
        found: String,
        /// What it should be.
        wanted: String,
    },
}

/// An entry as it stands behind a sentence; nothing where the archive as a whole is wrong.
fn in_brackets(entry: &Path) -> String {
    if entry.as_os_str().is_empty() {
        String::new()
    } else {
        format!(" ({entry:?})")
    }
}

/// An archive in its staging folder, which goes with this.
#[derive(Debug)]
pub struct Staged {
    folder: Staging,
    /// What was unpacked: the final path on the host, and the name of the file in the staging
    /// folder.
    entries: BTreeMap<PathBuf, String>,
}

/// A staging folder, open; it is removed with this.
#[derive(Debug)]
struct Staging {
    on: System,
    path: PathBuf,
    open: Directory,
}

impl Drop for Staging {
    fn drop(&mut self) {
        // What stays is in the journal, and removed by the next run.
        let _ = self.on.remove_tree(&self.path);
    }
}

/// Begins the name of a folder that an archive is unpacked in first.
pub(crate) const STAGING: &str = ".gpusetup-unpack-";

/// The folder beside the targets that an archive of this sum is unpacked in first.
pub fn staging(on: &System, sha256: &str, into: &[Placement]) -> PathBuf {
    let first = into.first().map_or(Path::new("/"), |p| &p.to);
    let parent = first
        .ancestors()
        .find(|a| on.is_directory(a))
        .unwrap_or(Path::new("/"));
    // Others may be unpacked at the same time.
    parent.join(format!("{STAGING}{}", sha256.get(..12).unwrap_or(sha256)))
}

/// Unpacks what has a place of a file in the cache into the folder `staging`, and verifies the
/// archive on the way, unless it is known to be what it was when it was verified. `progress` hears
/// how many bytes of how many were read.
pub fn stage(
    on: &System,
    archive: &Path,
    sha256: &str,
    into: &[Placement],
    limit: Option<Limit>,
    staging: &Path,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Staged, UnpackError> {
    let failed = |source| UnpackError::Io {
        archive: archive.to_owned(),
        source,
    };
    // Opened once: what is looked at is what is read.
    let file = on.open(archive).map_err(failed)?;
    let before = Identity::of(&file.metadata().map_err(failed)?);
    let known = cache::is_noted(on, archive, &before, sha256);
    let limit = limit.unwrap_or_else(|| likely(before.size));
    let mut read = |bytes| progress(bytes, before.size);
    let (unpacked, found) = unpack(on, &file, !known, into, limit, staging, &mut read);
    let after = Identity::of(&file.metadata().map_err(failed)?);
    let other = if after != before {
        Some("not known: it was written to while it was read".to_owned())
    } else {
        found.clone().filter(|found| *found != sha256)
    };
    // A wrong sum explains every other error.
    if let Some(found) = other {
        return Err(UnpackError::Altered {
            archive: archive.to_owned(),
            found,
            wanted: sha256.to_owned(),
        });
    }
    if found.is_some() {
        // A folder that cannot be written costs the next one the reading, and no more.
        drop(cache::note_of(on, archive, sha256, after));
    }
    unpacked.map_err(|wrong| explained(archive, wrong))
}

/// The same of bytes that somebody else verifies, who is to be asked before anything is moved in;
/// so many are to come.
pub fn stage_from(
    on: &System,
    archive: &Path,
    from: impl Read + Send,
    size: Option<u64>,
    into: &[Placement],
    limit: Option<Limit>,
    staging: &Path,
) -> Result<Staged, UnpackError> {
    let limit = limit.unwrap_or_else(|| likely(size.unwrap_or(0)));
    unpack(on, from, false, into, limit, staging, &mut |_| {})
        .0
        .map_err(|wrong| explained(archive, wrong))
}

fn explained(archive: &Path, wrong: Wrong) -> UnpackError {
    let archive = archive.to_owned();
    match wrong {
        Wrong::Io(source) => UnpackError::Io { archive, source },
        Wrong::Refused(entry, what) => UnpackError::Refused {
            archive,
            entry,
            what,
        },
    }
}

/// What an archive of this size may hold.
fn likely(size: u64) -> Limit {
    Limit {
        files: LIKELY_FILES,
        bytes: size.saturating_mul(LIKELY_RATIO).max(LIKELY_BYTES),
    }
}

/// Unpacks it, and its sum where that is wanted: of all of it, even when it cannot be unpacked.
fn unpack(
    on: &System,
    from: impl Read + Send,
    summed: bool,
    into: &[Placement],
    limit: Limit,
    staging: &Path,
    progress: &mut dyn FnMut(u64),
) -> (Result<Staged, Wrong>, Option<String>) {
    let read = &AtomicU64::new(0);
    let (packed_in, packed) = pipe::pipe();
    let (plain_in, plain) = pipe::pipe();
    let (flusher, written) = Flusher::new();
    std::thread::scope(|scope| {
        let reading = scope.spawn(move || {
            let (mut from, mut sum) = (from, summed.then(Sha256::new));
            packed_in.send(&mut from, |block| {
                read.fetch_add(block.len() as u64, Ordering::Relaxed);
                sum.iter_mut().for_each(|sum| sum.update(block));
            });
            // Nobody waits for more; of a sum that is wanted all of it is part.
            drop(packed_in);
            sum.map(|sum| digest_on(sum, from)).transpose()
        });
        scope.spawn(move || match decode::decoder(packed) {
            Ok(decoder) => plain_in.send(decoder, |_| {}),
            Err(e) => plain_in.fail(e),
        });
        let flushing = scope.spawn(move || Flusher::flush(&written));
        let staged = in_folder(on, staging, |folder| {
            let watched = Watched {
                from: plain,
                tell: || progress(read.load(Ordering::Relaxed)),
            };
            entries::unpack(watched, into, limit, folder, &flusher)
        });
        drop(flusher);
        let (flushed, sum) = (
            flushing
                .join()
                .unwrap_or_else(|_| Err(io::Error::other("one of its threads broke off"))),
            reading
                .join()
                .unwrap_or_else(|_| Err(io::Error::other("its reading broke off"))),
        );
        let staged = staged.and_then(|staged| flushed.map(|()| staged).map_err(Wrong::Io));
        match sum {
            Ok(sum) => (staged, sum),
            Err(e) => (staged.and(Err(e.into())), None),
        }
    })
}

/// Bytes that end as soon as gpusetup is told to stop, and tell that they go on.
struct Watched<R, F> {
    from: R,
    tell: F,
}

impl<R: Read, F: FnMut()> Read for Watched<R, F> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if interrupt::heard().is_some() {
            return Err(io::Error::other("gpusetup was told to stop"));
        }
        (self.tell)();
        self.from.read(buffer)
    }
}

/// Does it in a folder of its own, that only root can look into.
fn in_folder(
    on: &System,
    staging: &Path,
    work: impl FnOnce(&Directory) -> Result<BTreeMap<PathBuf, String>, Wrong>,
) -> Result<Staged, Wrong> {
    // Left by a run that was killed; nobody else is at work here.
    on.remove_tree(staging)?;
    let open = on.create_directory(staging, 0o700)?;
    let folder = Staging {
        on: on.clone(),
        path: staging.to_owned(),
        open,
    };
    let entries = work(&folder.open)?;
    Ok(Staged { folder, entries })
}

impl Staged {
    /// The ways back from moving it in.
    pub fn intend(&self, on: &System, backups: &mut Backups) -> io::Result<Vec<Undo>> {
        let mut back: Vec<Undo> = Vec::new();
        for target in self.entries.keys() {
            for parent in missing_parents(on, target) {
                if !back.contains(&parent) {
                    back.push(parent);
                }
            }
            back.push(backups.save(on, target, None)?);
        }
        Ok(back)
    }

    /// Moves it in, file by file; what stands there with the same bytes is replaced all the same.
    pub fn commit(self, on: &System) -> io::Result<()> {
        for (target, staging) in &self.entries {
            if let Some(parent) = target.parent() {
                on.make_directories(parent, 0o755)?;
            }
            if on.node(target)? == Node::Directory {
                return Err(io::Error::other(format!(
                    "{} is a folder",
                    target.display()
                )));
            }
            // The target's folder may be a link to another file system: then it is copied.
            on.take_from(&self.folder.open, OsStr::new(staging), target)?;
        }
        let folders: BTreeSet<_> = self.entries.keys().filter_map(|t| t.parent()).collect();
        // Once for each file system.
        let mut synced = BTreeSet::new();
        for folder in folders {
            if synced.insert(on.metadata(folder)?.dev()) {
                on.sync_around(folder)?;
            }
        }
        Ok(())
    }
}
