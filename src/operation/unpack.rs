//! `unpack`: a verified archive's folders into place. Everything is unpacked beside its target first; only when the whole
//! archive has proved to be what it should be is anything moved in.

use super::Placement;
use super::undo::{Backups, Undo, missing_parents};
use crate::sum::hex;
use crate::system::{Node, System};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Component, Path, PathBuf};

/// Why an archive is refused.
#[derive(Debug, thiserror::Error)]
pub enum UnpackError {
    /// It cannot be read, or its files cannot be written.
    #[error("cannot unpack {}: {source}", archive.display())]
    Io {
        /// Which.
        archive: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It holds what no archive of a library should.
    #[error("{} is refused: {what} ({})", archive.display(), entry.display())]
    Refused {
        /// Which.
        archive: PathBuf,
        /// The entry in it.
        entry: PathBuf,
        /// What is wrong with that.
        what: &'static str,
    },
    /// It is not the file that was verified.
    #[error("{} is not what it should be: its SHA-256 is {found}, not {wanted}", archive.display())]
    Altered {
        /// Which.
        archive: PathBuf,
        /// Its sum.
        found: String,
        /// What it should be.
        wanted: String,
    },
}

/// An archive in its staging folder.
pub struct Staged {
    folder: tempfile::TempDir,
    /// What was unpacked: the final path on the host, and the file in the staging folder.
    entries: BTreeMap<PathBuf, PathBuf>,
}

/// Reads everything that passes into a sum.
struct Summed<R> {
    inner: R,
    sum: Sha256,
}

impl<R: Read> Read for Summed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.inner.read(buffer)?;
        self.sum.update(&buffer[..n]);
        Ok(n)
    }
}

/// Unpacks what has a place into a folder beside its targets, and verifies the archive on the way.
pub fn stage(on: &System, archive: &Path, sha256: &str, into: &[Placement]) -> Result<Staged, UnpackError> {
    let failed = |source| UnpackError::Io { archive: archive.to_owned(), source };
    let first = into.first().map(|p| p.to.clone()).unwrap_or_default();
    let beside = first.ancestors().find(|a| on.is_directory(a)).unwrap_or(Path::new("/"));
    let beside = on.locate_target(beside).map_err(failed)?;
    let folder = tempfile::Builder::new().prefix(".gpusetup-").tempdir_in(beside).map_err(failed)?;
    let mut staged = Staged { folder, entries: BTreeMap::new() };
    let mut file = Summed { inner: on.open(archive).map_err(failed)?, sum: Sha256::new() };
    let unpacked = read_entries(&mut file, archive, into, &mut staged);
    // What tar did not read belongs to the sum as well; a wrong sum explains every other error.
    io::copy(&mut file, &mut io::sink()).map_err(failed)?;
    let found = hex(&file.sum.finalize());
    if found != sha256 {
        return Err(UnpackError::Altered { archive: archive.to_owned(), found, wanted: sha256.to_owned() });
    }
    unpacked.map(|()| staged)
}

fn read_entries(
    file: &mut Summed<File>,
    archive: &Path,
    into: &[Placement],
    staged: &mut Staged,
) -> Result<(), UnpackError> {
    let failed = |source| UnpackError::Io { archive: archive.to_owned(), source };
    let mut tar = tar::Archive::new(liblzma::read::XzDecoder::new_multi_decoder(file));
    for entry in tar.entries().map_err(failed)? {
        let mut entry = entry.map_err(failed)?;
        let path = entry.path().map_err(failed)?.into_owned();
        let refuse = |what| Err(UnpackError::Refused { archive: archive.to_owned(), entry: path.clone(), what });
        if path.components().any(|c| !matches!(c, Component::Normal(_) | Component::CurDir)) {
            return refuse("a path that leads out of it");
        }
        // Its outermost folder carries the version.
        let inner: PathBuf = path.components().filter(|c| matches!(c, Component::Normal(_))).skip(1).collect();
        let kind = entry.header().entry_type();
        let mode = entry.header().mode().map_err(failed)?;
        if mode & 0o7000 != 0 {
            return refuse("a mode beyond the plain permissions");
        }
        let Some(target) = placed(&inner, into) else { continue };
        if kind.is_dir() {
            continue;
        }
        let staging = staged.folder.path().join(staged.entries.len().to_string());
        if kind.is_symlink() {
            let link = entry.link_name().map_err(failed)?.unwrap_or_default().into_owned();
            // Links of libraries are to their neighbours.
            if link.components().count() != 1 || !matches!(link.components().next(), Some(Component::Normal(_))) {
                return refuse("a link that leads elsewhere");
            }
            symlink(link, &staging).map_err(failed)?;
        } else if kind.is_file() {
            let readable = if mode & 0o111 == 0 { 0o644 } else { 0o755 };
            let mut out =
                fs::OpenOptions::new().write(true).create_new(true).mode(readable).open(&staging).map_err(failed)?;
            io::copy(&mut entry, &mut out).map_err(failed)?;
            out.set_permissions(fs::Permissions::from_mode(readable)).map_err(failed)?;
            out.flush().map_err(failed)?;
        } else {
            return refuse("neither a file, a folder nor a link");
        }
        if staged.entries.insert(target, staging).is_some() {
            return refuse("a file that is there twice");
        }
    }
    Ok(())
}

/// Where an entry goes; none for one that no placement wants.
fn placed(inner: &Path, into: &[Placement]) -> Option<PathBuf> {
    into.iter().find_map(|p| {
        let rest = inner.strip_prefix(&p.from).ok()?;
        Some(if rest.as_os_str().is_empty() { p.to.clone() } else { p.to.join(rest) })
    })
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
                return Err(io::Error::other(format!("{} is a folder", target.display())));
            }
            let outside = on.locate(target)?;
            match fs::rename(staging, &outside) {
                // The target's folder may be a link to another file system.
                Err(e) if e.kind() == io::ErrorKind::CrossesDevices => move_over(staging, &outside)?,
                moved => moved?,
            }
        }
        Ok(())
    }
}

fn move_over(from: &Path, to: &Path) -> io::Result<()> {
    match fs::read_link(from) {
        Ok(target) => symlink(target, to),
        Err(_) => fs::copy(from, to).map(|_| ()),
    }
}
