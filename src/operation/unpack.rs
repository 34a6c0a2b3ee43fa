//! `unpack`: a verified archive's folders into place. Everything is unpacked beside its target first; only when the whole
//! archive has proved to be what it should be is anything moved in.

use super::Placement;
use super::undo::{Backups, Undo, missing_parents};
use crate::sum::hex;
use crate::system::{Node, System};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
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

/// The folder beside the targets that an archive is unpacked in first.
pub fn staging(on: &System, into: &[Placement]) -> PathBuf {
    let first = into.first().map_or(Path::new("/"), |p| &p.to);
    first.ancestors().find(|a| on.is_directory(a)).unwrap_or(Path::new("/")).join(".gpusetup-unpack")
}

/// Unpacks what has a place into a folder beside its targets, and verifies the archive on the way.
pub fn stage(on: &System, archive: &Path, sha256: &str, into: &[Placement]) -> Result<Staged, UnpackError> {
    let failed = |source| UnpackError::Io { archive: archive.to_owned(), source };
    let staging = staging(on, into);
    // Left by a run that was killed; nobody else is at work here.
    on.remove_tree(&staging).map_err(failed)?;
    let outside = on.locate(&staging).map_err(failed)?;
    let (name, beside) = (outside.file_name().unwrap_or_default(), outside.parent().unwrap_or(Path::new("/")));
    let folder = tempfile::Builder::new().prefix(name).rand_bytes(0).tempdir_in(beside).map_err(failed)?;
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
                Err(e) if e.kind() == io::ErrorKind::CrossesDevices => on.put(staging, target)?,
                moved => moved?,
            }
        }
        let folders: BTreeSet<_> = self.entries.keys().filter_map(|t| t.parent()).collect();
        folders.into_iter().try_for_each(|folder| on.sync_around(folder))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sum::sha256;

    struct Host {
        on: System,
        _dir: tempfile::TempDir,
    }

    /// A host with an archive of these entries: path, kind, link target, mode.
    fn host(entries: &[(&str, tar::EntryType, &str, u32)]) -> (Host, String) {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let on = System::at(dir.path());
        let mut tar = tar::Builder::new(liblzma::write::XzEncoder::new(Vec::new(), 1));
        for (path, kind, link, mode) in entries {
            let mut header = tar::Header::new_gnu();
            let body: &[u8] = if kind.is_file() { b"library" } else { b"" };
            // Written by hand: tar's own setters refuse some of what has to be refused here.
            header.as_gnu_mut().expect("gnu").name[..path.len()].copy_from_slice(path.as_bytes());
            header.as_gnu_mut().expect("gnu").linkname[..link.len()].copy_from_slice(link.as_bytes());
            header.set_entry_type(*kind);
            header.set_size(body.len() as u64);
            header.set_mode(*mode);
            header.set_cksum();
            tar.append(&header, body).expect("appended");
        }
        let bytes = tar.into_inner().and_then(liblzma::write::XzEncoder::finish).expect("packed");
        on.make_directories("/usr/local/cuda-12.8/lib64", 0o755).expect("made");
        on.write("/a.tar.xz", &bytes, 0o600).expect("written");
        (Host { on, _dir: dir }, sha256(&bytes))
    }

    fn into() -> Vec<Placement> {
        vec![Placement { from: "lib".into(), to: "/usr/local/cuda-12.8/lib64".into() }]
    }

    fn unpacked(host: &Host, sum: &str) -> Result<Vec<Undo>, UnpackError> {
        let staged = stage(&host.on, Path::new("/a.tar.xz"), sum, &into())?;
        let undo = staged.intend(&host.on, &mut Backups::new("/b".into(), 0)).expect("noted");
        staged.commit(&host.on).expect("moved in");
        Ok(undo)
    }

    fn there(host: &Host) -> Vec<String> {
        host.on.list("/usr/local/cuda-12.8/lib64").expect("listed")
    }

    const FILE: tar::EntryType = tar::EntryType::Regular;
    const LINK: tar::EntryType = tar::EntryType::Symlink;

    #[test]
    fn links_stay_links_and_everybody_may_read() {
        let (host, sum) = host(&[
            ("x/", tar::EntryType::Directory, "", 0o700),
            ("x/lib/libx.so.1.2", FILE, "", 0o700),
            ("x/lib/libx.so.1", LINK, "libx.so.1.2", 0o777),
            ("x/elsewhere/y", FILE, "", 0o644),
        ]);
        let undo = unpacked(&host, &sum).expect("a good archive");
        assert_eq!(there(&host), ["libx.so.1", "libx.so.1.2"]);
        let node = |name: &str| host.on.node(format!("/usr/local/cuda-12.8/lib64/{name}")).expect("seen");
        assert!(matches!(node("libx.so.1.2"), Node::File { mode: 0o755, .. }));
        assert_eq!(node("libx.so.1"), Node::Link { target: "libx.so.1.2".into() });
        for way in undo.iter().rev() {
            assert_eq!(way.perform(&host.on).expect("undone"), [""; 0]);
        }
        assert!(there(&host).is_empty());
    }

    #[test]
    fn what_no_library_needs_is_refused_and_nothing_is_moved_in() {
        for (entry, what) in [
            (("x/lib/../../../etc/f", FILE, "", 0o644), "leads out"),
            (("/lib/f", FILE, "", 0o644), "leads out"),
            (("x/lib/f", FILE, "", 0o4755), "mode"),
            (("x/lib/f", LINK, "/etc/passwd", 0o777), "leads elsewhere"),
            (("x/lib/f", LINK, "../f", 0o777), "leads elsewhere"),
            (("x/lib/f", tar::EntryType::Char, "", 0o644), "neither"),
            (("x/lib/f", tar::EntryType::Link, "x/lib/g", 0o644), "neither"),
            (("x/lib/good", FILE, "", 0o644), "twice"),
        ] {
            let (host, sum) = host(&[("x/lib/good", FILE, "", 0o644), entry]);
            let error = unpacked(&host, &sum).expect_err(what).to_string();
            assert!(error.contains(what), "{error}");
            assert!(there(&host).is_empty(), "{what}: {:?}", there(&host));
        }
    }

    #[test]
    fn an_altered_archive_is_told_from_a_broken_one() {
        let (host, sum) = host(&[("x/lib/f", FILE, "", 0o644)]);
        let mut bytes = host.on.read("/a.tar.xz").expect("read");
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        host.on.write("/a.tar.xz", &bytes, 0o600).expect("written");
        assert!(matches!(unpacked(&host, &sum), Err(UnpackError::Altered { .. })));
        assert!(there(&host).is_empty());
    }
}
