//! The one door to the outside: the files below a root directory, processes, the clock. Every path is a path as the
//! host itself would say it (`/etc/modprobe.d`), wherever the root is. Nothing here knows of GPUs or plans.

mod cores;
mod crash;
pub mod hooks;
pub mod input;
pub mod interrupt;
pub mod link;
pub mod network;
mod program;
mod summed;
pub mod trust;

pub use cores::{cores, on_all_cores};
pub use program::{Ended, Output, Program, Progress, process_name};
pub use summed::{copy_summed, digest, digest_on};

use rustix::fs::{StatVfsMountFlags, statvfs};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Component, Path, PathBuf};

/// A host: this machine, or the tree of one.
#[derive(Debug, Clone)]
pub struct System {
    root: PathBuf,
}

/// What stands at a path; a link at its end is not followed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Node {
    /// Nothing.
    Absent,
    /// A regular file.
    File {
        /// Its bytes, as SHA-256 in lower-case hexadecimal.
        sha256: String,
        /// Its permissions.
        mode: u32,
        /// Its owner.
        uid: u32,
        /// Its group.
        gid: u32,
    },
    /// A symbolic link.
    Link {
        /// Its target, as written.
        target: PathBuf,
    },
    /// A directory.
    Directory,
    /// A device, a socket or a pipe.
    Other,
}

/// A file system's room and manners.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Space {
    /// The path that was asked about (its nearest ancestor that exists was looked at).
    pub path: PathBuf,
    /// Bytes that a process of root's may still write.
    pub free_bytes: u64,
    /// Nothing can be written there.
    pub read_only: bool,
    /// Nothing there can be executed.
    pub no_exec: bool,
    /// Tells file systems apart.
    pub file_system: u64,
}

/// What tells a file from every other, and from itself when somebody has written to it: nobody can set the time of its last
/// change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// The file system.
    pub device: u64,
    /// The file on it.
    pub inode: u64,
    /// Bytes.
    pub size: u64,
    /// When its bytes were last written: seconds since 1970, and nanoseconds.
    pub modified: (i64, i64),
    /// When it was last changed in any way.
    pub changed: (i64, i64),
}

impl Identity {
    /// What a file is, by what the kernel says of it: of an open one it is the same whatever its name comes to mean.
    pub fn of(meta: &fs::Metadata) -> Self {
        Self {
            device: meta.dev(),
            inode: meta.ino(),
            size: meta.size(),
            modified: (meta.mtime(), meta.mtime_nsec()),
            changed: (meta.ctime(), meta.ctime_nsec()),
        }
    }
}

impl System {
    /// The host whose root directory is `root`.
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// This machine.
    pub fn live() -> Self {
        Self::at("/")
    }

    /// Whether the host is the running machine, and no tree of another.
    pub fn is_live(&self) -> bool {
        self.root == Path::new("/")
    }

    /// The root directory.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Where `path` is seen from outside, its directories' links resolved as the host itself would after a chroot. The
    /// last component is not followed.
    pub fn locate(&self, path: &Path) -> io::Result<PathBuf> {
        let (directories, last) = match path.file_name() {
            Some(last) => (path.parent().unwrap_or(Path::new("/")), last.to_owned()),
            None => return Ok(self.root.clone()),
        };
        Ok(self.root.join(self.resolve(directories)?).join(last))
    }

    /// Like [`Self::locate`], with a link at the end followed too.
    pub fn locate_target(&self, path: &Path) -> io::Result<PathBuf> {
        Ok(self.root.join(self.resolve(path)?))
    }

    /// `path` without links, as the host would say it but relative to its root.
    fn resolve(&self, path: &Path) -> io::Result<PathBuf> {
        // As many as Linux itself follows.
        const MAX_LINKS: usize = 40;
        let mut todo = components(path);
        todo.reverse();
        let (mut at, mut links) = (PathBuf::new(), 0);
        while let Some(part) = todo.pop() {
            if part == ".." {
                at.pop();
                continue;
            }
            let next = at.join(&part);
            let Ok(target) = fs::read_link(self.root.join(&next)) else {
                at = next;
                continue;
            };
            links += 1;
            if links > MAX_LINKS {
                return Err(io::Error::other(format!("too many links in {}", path.display())));
            }
            if target.is_absolute() {
                at = PathBuf::new();
            }
            todo.extend(components(&target).into_iter().rev());
        }
        Ok(at)
    }

    /// The bytes of a file; links are followed.
    pub fn read(&self, path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.open(path)?.read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// The text of a file, or none when there is no such file. What is no UTF-8 becomes U+FFFD.
    pub fn read_text(&self, path: impl AsRef<Path>) -> io::Result<Option<String>> {
        match self.read(path) {
            Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
            Err(e) if is_absent(&e) => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// An open file, for reading; links are followed. A pipe or a device is refused: whoever opens or reads one may wait
    /// for ever.
    pub fn open(&self, path: impl AsRef<Path>) -> io::Result<File> {
        let at = self.locate_target(path.as_ref())?;
        // A pipe that nobody writes to is opened at once this way, and then refused; for a file it changes nothing.
        let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(at)?;
        let kind = file.metadata()?.file_type();
        if kind.is_file() || kind.is_dir() {
            return Ok(file);
        }
        Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file"))
    }

    /// The names in a directory, sorted; none when there is no such directory.
    pub fn list(&self, directory: impl AsRef<Path>) -> io::Result<Vec<String>> {
        let entries = match fs::read_dir(self.locate_target(directory.as_ref())?) {
            Ok(entries) => entries,
            Err(e) if is_absent(&e) => return Ok(Vec::new()),
            Err(e) => return Err(e),
        };
        let mut names = Vec::new();
        for entry in entries {
            names.push(entry?.file_name().to_string_lossy().into_owned());
        }
        names.sort();
        Ok(names)
    }

    /// Whether anything is there; links are followed.
    pub fn exists(&self, path: impl AsRef<Path>) -> bool {
        self.locate_target(path.as_ref()).is_ok_and(|p| p.symlink_metadata().is_ok())
    }

    /// Whether a directory is there; links are followed.
    pub fn is_directory(&self, path: impl AsRef<Path>) -> bool {
        self.locate_target(path.as_ref()).is_ok_and(|p| p.is_dir())
    }

    /// What a file is now; links are followed.
    pub fn identity(&self, path: impl AsRef<Path>) -> io::Result<Identity> {
        Ok(Identity::of(&self.locate_target(path.as_ref())?.metadata()?))
    }

    /// The target of a link, as written; none for anything else.
    pub fn link_target(&self, path: impl AsRef<Path>) -> Option<PathBuf> {
        fs::read_link(self.locate(path.as_ref()).ok()?).ok()
    }

    /// When a file was last written, in seconds since 1970; links are followed.
    pub fn modified(&self, path: impl AsRef<Path>) -> Option<i64> {
        Some(self.locate_target(path.as_ref()).ok()?.metadata().ok()?.mtime())
    }

    /// When a regular file came to be what and where it is, in seconds since 1970; none for anything else.
    pub fn changed(&self, path: impl AsRef<Path>) -> Option<i64> {
        let meta = self.locate(path.as_ref()).ok()?.symlink_metadata().ok()?;
        meta.is_file().then(|| meta.ctime())
    }

    /// What stands at `path`.
    pub fn node(&self, path: impl AsRef<Path>) -> io::Result<Node> {
        let at = self.locate(path.as_ref())?;
        let meta = match at.symlink_metadata() {
            Ok(meta) => meta,
            Err(e) if is_absent(&e) => return Ok(Node::Absent),
            Err(e) => return Err(e),
        };
        Ok(match meta.file_type() {
            t if t.is_symlink() => Node::Link { target: fs::read_link(&at)? },
            t if t.is_dir() => Node::Directory,
            t if t.is_file() => Node::File {
                sha256: digest(File::open(&at)?)?,
                mode: meta.permissions().mode() & 0o7777,
                uid: meta.uid(),
                gid: meta.gid(),
            },
            _ => Node::Other,
        })
    }

    /// The room on the file system that `path` is on, or would be.
    pub fn space(&self, path: impl AsRef<Path>) -> io::Result<Space> {
        let mut at = self.locate_target(path.as_ref())?;
        while !at.exists() && at.pop() {}
        let s = statvfs(&at)?;
        Ok(Space {
            path: path.as_ref().to_owned(),
            free_bytes: s.f_bavail.saturating_mul(s.f_frsize),
            read_only: s.f_flag.contains(StatVfsMountFlags::RDONLY),
            no_exec: s.f_flag.contains(StatVfsMountFlags::NOEXEC),
            file_system: fs::metadata(&at)?.dev(),
        })
    }

    /// Puts a file at `path`, replacing what is there in one rename; it is on the disk when this returns.
    pub fn write(&self, path: impl AsRef<Path>, bytes: &[u8], mode: u32) -> io::Result<()> {
        let at = self.locate(path.as_ref())?;
        let new = sibling(&at);
        remove_if_there(&new)?;
        crash::point();
        let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&new)?;
        file.write_all(bytes)?;
        // The umask took its part when the file was made.
        file.set_permissions(fs::Permissions::from_mode(mode))?;
        file.sync_all()?;
        crash::point();
        fs::rename(&new, &at)?;
        crash::point();
        sync_directory(&at)
    }

    /// Appends to a file behind its first `length` bytes, cuts off what was behind them, and waits for the disk.
    pub fn append(&self, path: impl AsRef<Path>, length: u64, bytes: &[u8], mode: u32) -> io::Result<()> {
        let at = self.locate(path.as_ref())?;
        let mut file = OpenOptions::new().create(true).append(true).mode(mode).open(&at)?;
        crash::point();
        file.set_len(length)?;
        // Half of it is what a power cut may leave.
        let (half, rest) = bytes.split_at(bytes.len() / 2);
        file.write_all(half)?;
        crash::point();
        file.write_all(rest)?;
        file.sync_all()?;
        crash::point();
        sync_directory(&at)
    }

    /// Waits until everything written so far to the file system of `path` is on the disk.
    pub fn sync_around(&self, path: impl AsRef<Path>) -> io::Result<()> {
        Ok(rustix::fs::syncfs(File::open(self.locate_target(path.as_ref())?)?)?)
    }

    /// Waits until everything that was written is on the disk.
    pub fn sync(&self) {
        rustix::fs::sync();
        crash::point();
    }

    /// Removes what a write or a link at `path` left beside it when it was killed.
    pub fn remove_unfinished(&self, path: impl AsRef<Path>) -> io::Result<()> {
        remove_if_there(&sibling(&self.locate(path.as_ref())?))
    }

    /// Gives what stands at `path` to a user and a group; a link itself, not what it leads to.
    pub fn own(&self, path: impl AsRef<Path>, uid: u32, gid: u32) -> io::Result<()> {
        let at = self.locate(path.as_ref())?;
        let meta = at.symlink_metadata()?;
        // Nothing to do for whoever may not: a file made again by its owner is theirs.
        if (meta.uid(), meta.gid()) == (uid, gid) {
            return Ok(());
        }
        std::os::unix::fs::lchown(&at, Some(uid), Some(gid))
    }

    /// Puts a link at `path`, replacing what is there in one rename.
    pub fn link(&self, path: impl AsRef<Path>, target: &Path) -> io::Result<()> {
        let at = self.locate(path.as_ref())?;
        let new = sibling(&at);
        remove_if_there(&new)?;
        crash::point();
        symlink(target, &new)?;
        crash::point();
        fs::rename(&new, &at)?;
        crash::point();
        sync_directory(&at)
    }

    /// Puts a copy of the file or link `from`, a path as seen from outside, at `path`, replacing what is there in one
    /// rename.
    pub fn put(&self, from: &Path, path: impl AsRef<Path>) -> io::Result<()> {
        if let Ok(target) = fs::read_link(from) {
            return self.link(path, &target);
        }
        let at = self.locate(path.as_ref())?;
        let new = sibling(&at);
        remove_if_there(&new)?;
        crash::point();
        fs::copy(from, &new)?;
        crash::point();
        fs::rename(&new, &at)
    }

    /// Moves what stands at `from` to `to`, in the same folder, in one rename.
    pub fn rename(&self, from: impl AsRef<Path>, to: impl AsRef<Path>) -> io::Result<()> {
        let (from, to) = (self.locate(from.as_ref())?, self.locate(to.as_ref())?);
        crash::point();
        fs::rename(&from, &to)?;
        crash::point();
        sync_directory(&to)
    }

    /// Makes a directory and those above it that are not there; returns the ones made, outermost first.
    pub fn make_directories(&self, path: impl AsRef<Path>, mode: u32) -> io::Result<Vec<PathBuf>> {
        let (mut missing, mut at) = (Vec::new(), path.as_ref());
        while !self.exists(at) {
            missing.push(at.to_owned());
            match at.parent() {
                Some(parent) => at = parent,
                None => break,
            }
        }
        missing.reverse();
        for directory in &missing {
            let outside = self.locate(directory)?;
            crash::point();
            fs::create_dir(&outside)?;
            fs::set_permissions(&outside, fs::Permissions::from_mode(mode))?;
            sync_directory(&outside)?;
        }
        Ok(missing)
    }

    /// Removes a file, a link or an empty directory; absence is success.
    pub fn remove(&self, path: impl AsRef<Path>) -> io::Result<()> {
        let at = self.locate(path.as_ref())?;
        crash::point();
        let removed = match at.symlink_metadata() {
            Ok(meta) if meta.is_dir() => fs::remove_dir(&at),
            Ok(_) => fs::remove_file(&at),
            Err(e) => Err(e),
        };
        match removed {
            Err(e) if !is_absent(&e) => Err(e),
            Err(_) => Ok(()),
            Ok(()) => sync_directory(&at),
        }
    }

    /// Removes a directory with all that is in it; absence is success. Links in it are removed, not followed.
    pub fn remove_tree(&self, path: impl AsRef<Path>) -> io::Result<()> {
        let at = self.locate(path.as_ref())?;
        crash::point();
        match fs::remove_dir_all(&at) {
            Err(e) if !is_absent(&e) => Err(e),
            _ => {
                crash::point();
                Ok(())
            }
        }
    }
}

/// An error with what it stems from.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(deeper) = cause {
        text = format!("{text}: {deeper}");
        cause = deeper.source();
    }
    text
}

/// Bytes in lower-case hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// Whether an error only says that there is no such file.
pub fn is_absent(e: &io::Error) -> bool {
    matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

fn components(path: &Path) -> Vec<OsString> {
    path.components()
        .filter(|c| matches!(c, Component::Normal(_) | Component::ParentDir))
        .map(|c| c.as_os_str().to_owned())
        .collect()
}

fn sibling(path: &Path) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(".gpusetup-new");
    path.with_file_name(name)
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(e) if !is_absent(&e) => Err(e),
        _ => Ok(()),
    }
}

fn sync_directory(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), |directory| File::open(directory)?.sync_all())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_stay_below_the_root() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let host = System::at(dir.path());
        host.make_directories("/usr/local/cuda-12.8", 0o755).expect("made");
        host.link("/usr/local/cuda", Path::new("/usr/local/cuda-12.8")).expect("linked");
        host.link("/up", Path::new("../../../etc")).expect("linked");
        host.write("/usr/local/cuda/version.json", b"{}", 0o644).expect("written");
        assert_eq!(host.read("/usr/local/cuda-12.8/version.json").expect("read"), b"{}");
        assert!(dir.path().join("usr/local/cuda-12.8/version.json").is_file());
        assert_eq!(host.locate(Path::new("/up/passwd")).expect("found"), dir.path().join("etc/passwd"));
        assert_eq!(host.node("/usr/local/cuda").expect("seen"), Node::Link { target: "/usr/local/cuda-12.8".into() });
        host.link("/loop", Path::new("loop")).expect("linked");
        assert!(host.read("/loop/x").is_err());
    }

    #[test]
    fn a_written_file_has_the_mode_that_was_asked_for() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let host = System::at(dir.path());
        assert_eq!(host.make_directories("/a/b", 0o755).expect("made"), [PathBuf::from("/a"), PathBuf::from("/a/b")]);
        host.write("/a/b/f", b"x", 0o666).expect("written");
        assert!(matches!(host.node("/a/b/f").expect("seen"), Node::File { mode: 0o666, .. }));
        assert_eq!(host.list("/a/b").expect("listed"), ["f"]);
        host.remove("/a/b/f").expect("removed");
        host.remove("/a/b/f").expect("absence is success");
        assert_eq!(host.node("/a/b/f").expect("seen"), Node::Absent);
        host.remove_tree("/a").expect("removed");
        assert_eq!(host.node("/a").expect("seen"), Node::Absent);
        assert!(host.space("/a/b/c").expect("asked").free_bytes > 0);
    }
}
