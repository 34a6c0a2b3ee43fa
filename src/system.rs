//! The one door to the outside: the files below a root directory, processes, the clock. Every path is a path as the
//! host itself would say it (`/etc/modprobe.d`), wherever the root is. Nothing here knows of GPUs or plans.
//!
//! A host may be a tree whose owner is somebody else, and at work at the same time. So every path starts at a descriptor of
//! the root directory and never leads out of it; files are judged when they are open, not by their names before; what is
//! written is a new file, or one that gpusetup alone has; and only regular files and directories are ever opened.
//!
//! Nothing outside of this module opens a file by its name, starts a process or reads the environment: clippy sees to it.

#![allow(clippy::disallowed_methods)]

mod beneath;
mod cores;
mod crash;
mod directory;
pub mod enter;
pub mod environment;
pub mod hooks;
pub mod input;
pub mod interrupt;
pub mod network;
pub mod output;
mod program;
mod summed;
pub mod trust;

pub use cores::{cores, on_all_cores};
pub use directory::Directory;
pub use program::{
    Ended, Log, Output, Program, Progress, keep_inherited_files_from_children, own_program, process_name,
};
pub use summed::{copy_summed, digest, digest_of_file, digest_on};

use rustix::fs::{CWD, FileType, Mode, OFlags, StatVfsMountFlags, fstat, fstatvfs, openat};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A file that is read whole has at most so many bytes: the largest are a journal and a loader's cache, of some megabytes.
const MOST_READ: u64 = 256 << 20;

/// Ends the name of a file that is being written.
pub const UNFINISHED: &str = ".gpusetup-new";

/// A host: this machine, or the tree of one.
#[derive(Debug, Clone)]
pub struct System {
    root: PathBuf,
    /// The root directory, open as a place.
    place: Arc<Result<OwnedFd, Errno>>,
}

/// What stands at a path; a link at its end is not followed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Node {
    /// Nothing is there.
    Absent,
    /// A regular file.
    File {
        /// The SHA-256 of its bytes.
        #[cfg_attr(feature = "schemas", schemars(with = "crate::sum::Sha256Text"))]
        sha256: String,
        /// The permission bits of the file, as a number: 420 is 0644.
        mode: u32,
        /// The user who owns it.
        uid: u32,
        /// The group that owns it.
        gid: u32,
    },
    /// A symbolic link.
    Link {
        /// The target, as it is written in the link.
        target: PathBuf,
    },
    /// A directory.
    Directory,
    /// A device, a socket or a pipe.
    Other,
}

/// A file system's room and manners.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct Space {
    /// The path that was asked about (its nearest ancestor that exists was looked at).
    pub path: PathBuf,
    /// Bytes that a process of root's may still write.
    pub free_bytes: u64,
    /// The file system is mounted read-only.
    pub read_only: bool,
    /// The file system is mounted `noexec`.
    pub no_exec: bool,
    /// The id of the file system: paths with the same one share the space.
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
    /// The host whose root directory is `root`. Where that is no directory, everything on this host is absent.
    pub fn at(root: impl Into<PathBuf>) -> Self {
        let root = root.into();
        let place = Arc::new(place(&root));
        Self { root, place }
    }

    /// This machine.
    pub fn live() -> Self {
        Self::at("/")
    }

    /// Whether the host is the running machine, and no tree of another.
    pub fn is_live(&self) -> bool {
        self.root == Path::new("/")
    }

    /// The root directory, as it was named: for messages, and for programs that are started in it.
    pub fn root(&self) -> &Path {
        &self.root
    }

    fn place(&self) -> io::Result<BorrowedFd<'_>> {
        self.place.as_ref().as_ref().map(AsFd::as_fd).map_err(|e| (*e).into())
    }

    /// What a path leads to, as a mere place: nothing is opened for reading or writing, and nobody waits.
    fn found(&self, path: &Path, follow: bool) -> io::Result<OwnedFd> {
        let flags = if follow { OFlags::PATH } else { OFlags::PATH | OFlags::NOFOLLOW };
        beneath::open(self.place()?, path, flags)
    }

    /// The directory that `path` is in, open, and its last component.
    fn parent<'a>(&self, path: &'a Path) -> io::Result<(Directory, &'a OsStr)> {
        let no_name = || io::Error::new(io::ErrorKind::InvalidInput, format!("{} names no file", path.display()));
        let name = path.file_name().ok_or_else(no_name)?;
        Ok((self.directory(path.parent().unwrap_or(Path::new("/")))?, name))
    }

    /// The same; none where that directory is not there.
    fn parent_if_there<'a>(&self, path: &'a Path) -> io::Result<Option<(Directory, &'a OsStr)>> {
        match self.parent(path) {
            Err(e) if is_absent(&e) => Ok(None),
            parent => parent.map(Some),
        }
    }

    /// A directory, open; links are followed.
    pub fn directory(&self, path: impl AsRef<Path>) -> io::Result<Directory> {
        Ok(beneath::open(self.place()?, path.as_ref(), OFlags::RDONLY | OFlags::DIRECTORY)?.into())
    }

    /// `path` without links, as the host itself would say it; what does not exist stays as it is written.
    pub fn canonical(&self, path: impl AsRef<Path>) -> io::Result<PathBuf> {
        Ok(Path::new("/").join(beneath::canonical(self.place()?, path.as_ref())?))
    }

    /// What the inode of a file says; links are followed. The file need not be readable.
    pub fn metadata(&self, path: impl AsRef<Path>) -> io::Result<fs::Metadata> {
        File::from(self.found(path.as_ref(), true)?).metadata()
    }

    /// The bytes of a file; links are followed.
    pub fn read(&self, path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
        contents(self.open(path)?)
    }

    /// The text of a file, or none when there is no such file. What is no UTF-8 becomes U+FFFD.
    pub fn read_text(&self, path: impl AsRef<Path>) -> io::Result<Option<String>> {
        match self.read(path) {
            Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
            Err(e) if is_absent(&e) => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// An open file, for reading; links are followed. A pipe or a device is refused, and never opened: whoever opens or
    /// reads one may wait for ever.
    pub fn open(&self, path: impl AsRef<Path>) -> io::Result<File> {
        let place = self.found(path.as_ref(), true)?;
        if !is_file_or_directory(&place)? {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
        }
        // For a file this changes nothing; another that came in its place must not keep us.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
        let opened = match beneath::reopen(place.as_fd(), flags) {
            // There is no /proc, as in some chroots.
            Err(Errno::NOENT) => beneath::open(self.place()?, path.as_ref(), flags)?,
            opened => opened?,
        };
        if is_file_or_directory(&opened)? {
            return Ok(File::from(opened));
        }
        Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"))
    }

    /// The names in a directory, sorted; none when there is no such directory.
    pub fn list(&self, directory: impl AsRef<Path>) -> io::Result<Vec<String>> {
        let opened = match beneath::open(self.place()?, directory.as_ref(), OFlags::RDONLY | OFlags::DIRECTORY) {
            Err(e) if is_absent(&e) => return Ok(Vec::new()),
            opened => opened?,
        };
        let mut names = Vec::new();
        for entry in rustix::fs::Dir::new(opened)? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            if name != "." && name != ".." {
                names.push(name);
            }
        }
        names.sort();
        Ok(names)
    }

    /// Whether anything is there; links are followed.
    pub fn exists(&self, path: impl AsRef<Path>) -> bool {
        self.found(path.as_ref(), true).is_ok()
    }

    /// Whether a directory is there; links are followed.
    pub fn is_directory(&self, path: impl AsRef<Path>) -> bool {
        self.metadata(path).is_ok_and(|meta| meta.is_dir())
    }

    /// What a file is now; links are followed.
    pub fn identity(&self, path: impl AsRef<Path>) -> io::Result<Identity> {
        Ok(Identity::of(&self.metadata(path)?))
    }

    /// The target of a link, as written; none for anything else.
    pub fn link_target(&self, path: impl AsRef<Path>) -> Option<PathBuf> {
        beneath::target(self.found(path.as_ref(), false).ok()?.as_fd()).ok()
    }

    /// When a file was last written, in seconds since 1970; links are followed.
    pub fn modified(&self, path: impl AsRef<Path>) -> Option<i64> {
        Some(self.metadata(path).ok()?.mtime())
    }

    /// When a regular file came to be what and where it is, in seconds since 1970; none for anything else.
    pub fn changed(&self, path: impl AsRef<Path>) -> Option<i64> {
        let meta = File::from(self.found(path.as_ref(), false).ok()?).metadata().ok()?;
        meta.is_file().then(|| meta.ctime())
    }

    /// What stands at `path`.
    pub fn node(&self, path: impl AsRef<Path>) -> io::Result<Node> {
        let place = match self.found(path.as_ref(), false) {
            Err(e) if is_absent(&e) => return Ok(Node::Absent),
            found => found?,
        };
        let stat = fstat(&place)?;
        Ok(match FileType::from_raw_mode(stat.st_mode) {
            FileType::Symlink => Node::Link { target: beneath::target(place.as_fd())? },
            FileType::Directory => Node::Directory,
            FileType::RegularFile => Node::File {
                sha256: digest_of_file(File::from(beneath::reopen(place.as_fd(), OFlags::RDONLY)?))?,
                mode: stat.st_mode & 0o7777,
                uid: stat.st_uid,
                gid: stat.st_gid,
            },
            _ => Node::Other,
        })
    }

    /// The room on the file system that `path` is on, or would be.
    pub fn space(&self, path: impl AsRef<Path>) -> io::Result<Space> {
        let asked = self.canonical(path.as_ref())?;
        let nearest = asked.ancestors().find_map(|at| self.found(at, true).ok());
        let nearest = nearest.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
        let s = fstatvfs(&nearest)?;
        Ok(Space {
            path: path.as_ref().to_owned(),
            free_bytes: s.f_bavail.saturating_mul(s.f_frsize),
            read_only: s.f_flag.contains(StatVfsMountFlags::RDONLY),
            no_exec: s.f_flag.contains(StatVfsMountFlags::NOEXEC),
            file_system: File::from(nearest).metadata()?.dev(),
        })
    }

    /// Puts a file at `path`, replacing what is there in one rename; it is on the disk when this returns.
    pub fn write(&self, path: impl AsRef<Path>, bytes: &[u8], mode: u32) -> io::Result<()> {
        let put = |directory: &Directory, new: &OsStr| {
            let mut file = directory.create_new(new, mode)?;
            file.write_all(bytes)?;
            file.sync_all()
        };
        self.replaced(path.as_ref(), put)?.sync()
    }

    /// The same without waiting for the disk: after a power cut the old file may be there, or an empty one.
    pub fn write_soon(&self, path: impl AsRef<Path>, bytes: &[u8], mode: u32) -> io::Result<()> {
        let put = |directory: &Directory, new: &OsStr| directory.create_new(new, mode)?.write_all(bytes);
        self.replaced(path.as_ref(), put).map(|_| ())
    }

    /// Puts a copy of a file at `path`, as [`Self::write`] does.
    pub fn copy(&self, from: &mut dyn Read, path: impl AsRef<Path>, mode: u32) -> io::Result<()> {
        let put = |directory: &Directory, new: &OsStr| {
            let mut file = directory.create_new(new, mode)?;
            io::copy(from, &mut file)?;
            file.sync_all()
        };
        self.replaced(path.as_ref(), put)?.sync()
    }

    /// Has something new put beside `path`, then moves it there; the directory that it is in.
    fn replaced(&self, path: &Path, put: impl FnOnce(&Directory, &OsStr) -> io::Result<()>) -> io::Result<Directory> {
        let (directory, name) = self.parent(path)?;
        let new = unfinished(name);
        directory.remove_file_if_there(&new)?;
        crash::point();
        put(&directory, &new)?;
        crash::point();
        directory.rename(&new, &directory, name)?;
        Ok(directory)
    }

    /// A file that was not there, for reading and writing.
    pub fn create_new(&self, path: impl AsRef<Path>, mode: u32) -> io::Result<File> {
        let (directory, name) = self.parent(path.as_ref())?;
        directory.create_new(name, mode)
    }

    /// A file that gpusetup keeps, for reading and writing: made when it is not there. One that is a link, has a second name
    /// or another owner is refused: somebody could have put it there to have another file written.
    pub fn open_own(&self, path: impl AsRef<Path>, mode: u32) -> io::Result<File> {
        let (directory, name) = self.parent(path.as_ref())?;
        directory.open_own(name, mode, false)
    }

    /// The same, with everything written to its end.
    pub fn append_to(&self, path: impl AsRef<Path>, mode: u32) -> io::Result<File> {
        let (directory, name) = self.parent(path.as_ref())?;
        directory.open_own(name, mode, true)
    }

    /// Appends to a file of ours behind its first `length` bytes, cuts off what was behind them, and waits for the disk.
    pub fn append(&self, path: impl AsRef<Path>, length: u64, bytes: &[u8], mode: u32) -> io::Result<()> {
        let (directory, name) = self.parent(path.as_ref())?;
        let mut file = directory.open_own(name, mode, true)?;
        crash::point();
        file.set_len(length)?;
        // Half of it is what a power cut may leave.
        let (half, rest) = bytes.split_at(bytes.len() / 2);
        file.write_all(half)?;
        crash::point();
        file.write_all(rest)?;
        file.sync_all()?;
        directory.sync()
    }

    /// Gives an open file the name `path` too. False where the file system cannot.
    pub fn link_open(&self, open: &File, path: impl AsRef<Path>) -> io::Result<bool> {
        let (directory, name) = self.parent(path.as_ref())?;
        Ok(directory.link_open(open, name).is_ok())
    }

    /// Waits until everything written so far to the file system of a directory is on the disk.
    pub fn sync_around(&self, directory: impl AsRef<Path>) -> io::Result<()> {
        self.directory(directory)?.sync_file_system()
    }

    /// Waits until everything that was written is on the disk.
    pub fn sync(&self) {
        rustix::fs::sync();
    }

    /// Removes what a write or a link at `path` left beside it when it was killed.
    pub fn remove_unfinished(&self, path: impl AsRef<Path>) -> io::Result<()> {
        let Some((directory, name)) = self.parent_if_there(path.as_ref())? else { return Ok(()) };
        directory.remove_file_if_there(&unfinished(name))
    }

    /// Gives what stands at `path` to a user and a group; a link itself, not what it leads to.
    pub fn own(&self, path: impl AsRef<Path>, uid: u32, gid: u32) -> io::Result<()> {
        let (directory, name) = self.parent(path.as_ref())?;
        let stat = directory.stat(name)?;
        // Nothing to do for whoever may not: a file made again by its owner is theirs.
        if (stat.st_uid, stat.st_gid) == (uid, gid) {
            return Ok(());
        }
        crash::point();
        directory.own(name, uid, gid)
    }

    /// Puts a link at `path`, replacing what is there in one rename.
    pub fn link(&self, path: impl AsRef<Path>, target: &Path) -> io::Result<()> {
        self.replaced(path.as_ref(), |directory, new| directory.symlink(target, new))?.sync()
    }

    /// Moves what stands at `from` to `to` in one rename.
    pub fn rename(&self, from: impl AsRef<Path>, to: impl AsRef<Path>) -> io::Result<()> {
        let ((directory, name), (to, to_name)) = (self.parent(from.as_ref())?, self.parent(to.as_ref())?);
        crash::point();
        directory.rename(name, &to, to_name)?;
        to.sync()
    }

    /// Moves a file out of an open directory to `path`, replacing a file or link there. One that comes from another file
    /// system is copied.
    pub fn take_from(&self, directory: &Directory, name: &OsStr, path: impl AsRef<Path>) -> io::Result<()> {
        let (to, to_name) = self.parent(path.as_ref())?;
        crash::point();
        match directory.rename(name, &to, to_name) {
            Err(e) if e.kind() == io::ErrorKind::CrossesDevices => {}
            moved => return moved,
        }
        let stat = directory.stat(name)?;
        if FileType::from_raw_mode(stat.st_mode) == FileType::Symlink {
            return self.link(path, &directory.link_target(name)?);
        }
        self.copy(&mut directory.open(name)?, path, stat.st_mode & 0o7777)
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
            let (parent, name) = self.parent(directory)?;
            crash::point();
            parent.create_directory(name, mode)?;
            parent.sync()?;
        }
        Ok(missing)
    }

    /// Makes a directory that was not there, and opens it.
    pub fn create_directory(&self, path: impl AsRef<Path>, mode: u32) -> io::Result<Directory> {
        let (parent, name) = self.parent(path.as_ref())?;
        crash::point();
        parent.create_directory(name, mode)
    }

    /// Removes a file, a link or an empty directory; absence is success.
    pub fn remove(&self, path: impl AsRef<Path>) -> io::Result<()> {
        let Some((directory, name)) = self.parent_if_there(path.as_ref())? else { return Ok(()) };
        crash::point();
        match directory.remove(name) {
            Err(e) if !is_absent(&e) => Err(e),
            Err(_) => Ok(()),
            Ok(()) => directory.sync(),
        }
    }

    /// A place at or below a directory that something is mounted on, if there is one.
    pub fn mounted_below(&self, path: impl AsRef<Path>) -> io::Result<Option<PathBuf>> {
        let below = fs::canonicalize(&self.root)?.join(beneath::canonical(self.place()?, path.as_ref())?);
        let mounts = System::live().read_text("/proc/self/mountinfo")?.unwrap_or_default();
        let mut places =
            mounts.lines().filter_map(|line| line.split(' ').nth(4)).map(|place| PathBuf::from(unescaped(place)));
        Ok(places.find(|place| place.starts_with(&below)))
    }

    /// Removes a directory with all that is in it; absence is success. Links in it are removed, not followed. The root
    /// itself is never removed.
    pub fn remove_tree(&self, path: impl AsRef<Path>) -> io::Result<()> {
        let Some((directory, name)) = self.parent_if_there(path.as_ref())? else { return Ok(()) };
        crash::point();
        directory.remove_tree(name)
    }
}

/// Opens a root directory as a place. A path that leads to this machine's own root by another name is no tree: what is done
/// "in the tree" would be done to the machine.
fn place(root: &Path) -> Result<OwnedFd, Errno> {
    let open = |path: &Path| openat(CWD, path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
    let place = open(root)?;
    if root != Path::new("/") {
        let (it, own) = (fstat(&place)?, fstat(open(Path::new("/"))?)?);
        if (it.st_dev, it.st_ino) == (own.st_dev, own.st_ino) {
            return Err(Errno::LOOP);
        }
    }
    Ok(place)
}

fn is_file_or_directory(open: &OwnedFd) -> io::Result<bool> {
    let kind = FileType::from_raw_mode(fstat(open)?.st_mode);
    Ok(matches!(kind, FileType::RegularFile | FileType::Directory))
}

/// A path as the kernel's list of mounts has it, where `\\040` is a blank.
fn unescaped(place: &str) -> std::ffi::OsString {
    let (mut bytes, mut rest) = (Vec::new(), place.as_bytes());
    while let Some((first, more)) = rest.split_first() {
        let digits = more.get(..3).filter(|_| *first == b'\\').and_then(|digits| std::str::from_utf8(digits).ok());
        let (byte, after) = match digits.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => (byte, &more[3..]),
            None => (*first, more),
        };
        bytes.push(byte);
        rest = after;
    }
    std::os::unix::ffi::OsStringExt::from_vec(bytes)
}

/// The bytes of an open file.
pub fn contents(file: File) -> io::Result<Vec<u8>> {
    let too_large = || io::Error::new(io::ErrorKind::FileTooLarge, format!("it is larger than {MOST_READ} bytes"));
    input::limited(file, MOST_READ)?.ok_or_else(too_large)
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

/// The name of a file while it is written.
fn unfinished(name: &OsStr) -> OsString {
    let mut unfinished = OsString::from(".");
    unfinished.push(name);
    unfinished.push(UNFINISHED);
    unfinished
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
        assert_eq!(host.canonical("/up/passwd").expect("found"), Path::new("/etc/passwd"));
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

    #[test]
    fn a_kept_file_is_ours_alone() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        fs::create_dir(dir.path().join("tree")).expect("made");
        let host = System::at(dir.path().join("tree"));
        let victim = dir.path().join("victim");
        let in_tree = |name: &str| dir.path().join("tree").join(name);
        fs::write(&victim, b"precious").expect("written");
        std::os::unix::fs::symlink(&victim, in_tree("link")).expect("linked");
        std::os::unix::fs::symlink("../victim", in_tree("relative")).expect("linked");
        fs::hard_link(&victim, in_tree("second-name")).expect("linked");
        rustix::fs::mknodat(CWD, in_tree("pipe"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("made");
        fs::create_dir(in_tree("folder")).expect("made");
        for name in ["link", "relative", "second-name", "pipe", "folder"] {
            assert!(host.open_own(Path::new("/").join(name), 0o600).is_err(), "{name}");
            assert!(host.append_to(Path::new("/").join(name), 0o600).is_err(), "{name}");
            assert!(host.append(Path::new("/").join(name), 0, b"x", 0o600).is_err(), "{name}");
        }
        host.append("/new", 0, b"ours", 0o600).expect("nothing is in the way");
        host.append("/new", 2, b"r own", 0o600).expect("it is ours");
        assert_eq!(host.read("/new").expect("read"), b"our own");
        // What is put in the place of any of them leaves the victim alone.
        for name in ["link", "relative", "second-name"] {
            host.write(Path::new("/").join(name), b"ours", 0o600).expect("replaced");
        }
        assert_eq!(fs::read(&victim).expect("there"), b"precious");
        assert!(host.link_target("/link").is_none());
    }

    #[test]
    fn the_machines_own_root_is_no_tree() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        std::os::unix::fs::symlink("/", dir.path().join("tree")).expect("linked");
        let host = System::at(dir.path().join("tree"));
        assert!(!host.is_live() && !host.exists("/etc"), "what is done there would be done to the machine");
        assert!(System::at("//").is_live() && System::at("//").exists("/etc"));
    }

    #[test]
    fn a_tree_of_any_depth_is_removed() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let on = System::at(dir.path());
        let deep = dir.path().join("tree").join("d/".repeat(1500));
        fs::create_dir_all(&deep).and_then(|()| fs::write(deep.join("f"), "")).expect("made");
        fs::create_dir_all(dir.path().join("tree/.gpusetup-deep-1/x")).expect("made");
        fs::write(dir.path().join("tree/.gpusetup-deep-2"), "").expect("made");
        on.remove_tree("/tree").expect("removed");
        assert_eq!(on.list("/").expect("listed"), [""; 0]);
    }

    #[test]
    fn the_root_is_never_removed() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let host = System::at(dir.path());
        host.make_directories("/a/b", 0o755).expect("made");
        for root in ["/", "/..", "/a/..", "/a/../.."] {
            assert!(host.remove_tree(root).is_err(), "{root}");
        }
        assert!(host.exists("/a/b"));
        host.remove_tree("/a/../a").expect("a folder like any other");
        assert!(!host.exists("/a"));
    }
}
