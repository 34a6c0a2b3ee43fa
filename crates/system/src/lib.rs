//! All access to the outside: the files below a root directory, processes, the clock. Every path is
//! a path as seen from inside the host (`/etc/modprobe.d`), wherever the root is. Nothing here
//! knows about GPUs or plans.
//!
//! A host may be a tree that belongs to another user, who may change it at the same time. So every
//! path starts at a descriptor of the root directory and never leaves it. Files are checked after
//! they are opened, not by name before. Writes go to a new file, or to one that only gpusetup uses.
//! Only regular files and directories are ever opened.
//!
//! No other module opens a file by its name, starts a process or reads the environment; clippy
//! enforces this.

// clippy.toml lists what only `gpusetup-system` may call.
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]
#![allow(clippy::disallowed_methods)]

mod beneath;
pub mod bug;
pub mod certificate;
mod cores;
mod crash;
pub mod day;
mod directory;
mod editable;
pub mod enter;
pub mod environment;
pub mod hooks;
pub mod input;
pub mod interrupt;
pub mod limits;
pub mod network;
pub mod output;
pub mod private;
mod program;
mod summed;
pub mod trust;
mod usage;
mod work;
pub mod zst;

pub use cores::{cores, in_parallel, on_all_cores};
pub use directory::Directory;
pub use editable::Editable;
pub use program::{
    Ended, Log, Output, Program, Progress, keep_inherited_files_from_children, own_program,
    process_name,
};
pub(crate) use summed::refuse_holes;
pub use summed::{
    LEAST_OF_HOLES, PART_OF_DATA, consists_of_holes, copy_summed, digest, digest_of_file, digest_on,
};
pub use work::{Metered, thread_time};

use limits::Limit;
use rustix::fs::{CWD, FileType, Mode, OFlags, StatVfsMountFlags, fstat, fstatvfs, openat};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The suffix of a file that is being written.
pub const UNFINISHED: &str = ".gpusetup-new";

/// A host: this machine, or a tree with another machine's files.
#[derive(Debug, Clone)]
pub struct System {
    root: PathBuf,
    /// The root directory, open with `O_PATH`.
    place: Arc<Result<OwnedFd, Errno>>,
    /// The budget of a look; none while a host is changed.
    look: Option<Arc<limits::ReadBudget>>,
    /// What is left of the processor's time for all looks at a tree, in nanoseconds.
    work: Arc<limits::Work>,
    /// Whether programs of a tree may be run.
    runs_programs: bool,
}

/// The node at a path; a link at its end is not followed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Node {
    /// Nothing exists there.
    Absent,
    /// A regular file.
    File {
        /// The SHA-256 of its bytes.
        #[cfg_attr(
            feature = "schemas",
            schemars(with = "gpusetup_database::sum::Sha256Text")
        )]
        sha256: String,
        /// The permission bits of the file, as a number: 420 is 0644.
        mode: u32,
        /// The owning user.
        uid: u32,
        /// The owning group.
        gid: u32,
    },
    /// A symbolic link.
    Link {
        /// The target as stored in the link.
        target: PathBuf,
    },
    /// A directory.
    Directory,
    /// A device, a socket or a pipe.
    Other,
}

/// Free space and mount flags of a file system.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct Space {
    /// The requested path; if it does not exist, the values are those of its nearest existing
    /// ancestor.
    pub path: PathBuf,
    /// Bytes that a process of root can still write.
    pub free_bytes: u64,
    /// The file system is mounted read-only.
    pub read_only: bool,
    /// The file system is mounted `noexec`.
    pub no_exec: bool,
    /// The id of the file system; paths with the same id share the space.
    pub file_system: u64,
}

/// Identifies a file and its content: any write changes the time of its last change, which no
/// program can set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// The file system's device number.
    pub device: u64,
    /// The inode.
    pub inode: u64,
    /// The size in bytes.
    pub size: u64,
    /// The time of the last write: seconds since 1970, and nanoseconds.
    pub modified: (i64, i64),
    /// The time of the last change of any kind.
    pub(crate) changed: (i64, i64),
}

impl Identity {
    /// From the kernel's metadata. For an open file it does not depend on what its name now refers
    /// to.
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
    /// The host whose root directory is `root`. If that is not a directory, every path of the host
    /// is absent.
    pub fn at(root: impl Into<PathBuf>) -> Self {
        let root = root.into();
        let place = Arc::new(place(&root));
        Self {
            root,
            place,
            look: None,
            work: Arc::new(limits::Work::of_offline_root()),
            runs_programs: false,
        }
    }

    /// The same host to be changed: programs of a tree may be run, which nothing that only looks
    /// may do. A tree's programs are its author's, and gpusetup usually is root.
    pub fn to_be_changed(&self) -> Self {
        Self {
            look: None,
            runs_programs: true,
            ..self.clone()
        }
    }

    /// Whether the host's programs may be run: this machine's always, a tree's only while it is
    /// changed. A build for tests can be told that a tree stands for this machine
    /// (`GPUSETUP_STANDS_FOR_HOST`).
    pub fn runs_programs(&self) -> bool {
        self.runs_programs
            || self.is_live()
            || hooks::env_override("GPUSETUP_STANDS_FOR_HOST").is_some()
    }

    /// This machine.
    pub fn live() -> Self {
        Self::at("/")
    }

    /// Whether the host is the running machine and not a tree.
    pub fn is_live(&self) -> bool {
        self.root == Path::new("/")
    }

    /// The root directory as given: for messages, and for programs that are started in it.
    pub fn root(&self) -> &Path {
        &self.root
    }

    fn place(&self) -> io::Result<BorrowedFd<'_>> {
        self.place
            .as_ref()
            .as_ref()
            .map(AsFd::as_fd)
            .map_err(|e| (*e).into())
    }

    /// Opens a path with `O_PATH`: nothing is opened for reading or writing, and nothing blocks.
    fn found(&self, path: &Path, follow: bool) -> io::Result<OwnedFd> {
        let flags = if follow {
            OFlags::PATH
        } else {
            OFlags::PATH | OFlags::NOFOLLOW
        };
        self.finding(path, || beneath::open(self.place()?, path, flags))
    }

    /// Opens the directory that contains `path`; returns it and the last component.
    fn parent<'a>(&self, path: &'a Path) -> io::Result<(Directory, &'a OsStr)> {
        let no_name = || {
            io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("{} does not name a file", path.display()),
            )
        };
        let name = path.file_name().ok_or_else(no_name)?;
        Ok((
            self.directory(path.parent().unwrap_or(Path::new("/")))?,
            name,
        ))
    }

    /// The same; none if that directory does not exist.
    fn parent_if_there<'a>(&self, path: &'a Path) -> io::Result<Option<(Directory, &'a OsStr)>> {
        match self.parent(path) {
            Err(e) if is_absent(&e) => Ok(None),
            parent => parent.map(Some),
        }
    }

    /// Opens a directory; links are followed.
    pub fn directory(&self, path: impl AsRef<Path>) -> io::Result<Directory> {
        Ok(self.opened_directory(path.as_ref())?.into())
    }

    fn opened_directory(&self, path: &Path) -> io::Result<OwnedFd> {
        self.finding(path, || {
            beneath::open(self.place()?, path, OFlags::RDONLY | OFlags::DIRECTORY)
        })
    }

    /// `path` with its links resolved, as seen from inside the host; components that do not exist
    /// stay as written.
    pub fn canonical(&self, path: impl AsRef<Path>) -> io::Result<PathBuf> {
        let path = path.as_ref();
        Ok(Path::new("/").join(self.finding(path, || beneath::canonical(self.place()?, path))?))
    }

    /// The metadata of a file; links are followed. The file need not be readable.
    pub fn metadata(&self, path: impl AsRef<Path>) -> io::Result<fs::Metadata> {
        File::from(self.found(path.as_ref(), true)?).metadata()
    }

    /// The bytes of a configuration file or of something as small; links are followed.
    pub fn read(&self, path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
        self.read_up_to(path, limits::MAX_CONFIG)
    }

    /// The bytes of a file whose kind has a separate limit ([`limits`]); links are followed.
    pub fn read_up_to(&self, path: impl AsRef<Path>, most: u64) -> io::Result<Vec<u8>> {
        let path = path.as_ref();
        let (file, room) = (self.open(path)?, self.room(most));
        let length = file.metadata()?.len();
        // A longer file is not read at all. The files of /proc have no length before they are read.
        let read = if room == 0 || length > room {
            None
        } else {
            input::limited(file, room)?
        };
        let bytes = read.ok_or_else(|| self.too_large(path, length, most))?;
        self.spend(path, bytes.len() as u64);
        Ok(bytes)
    }

    /// The text of a configuration file or of something as small, or none if it does not exist.
    /// Invalid UTF-8 becomes U+FFFD.
    pub fn read_text(&self, path: impl AsRef<Path>) -> io::Result<Option<String>> {
        self.read_text_up_to(path, limits::MAX_CONFIG)
    }

    /// The same of a file whose kind has a separate limit.
    pub fn read_text_up_to(&self, path: impl AsRef<Path>, most: u64) -> io::Result<Option<String>> {
        match self.read_up_to(path, most) {
            Ok(bytes) => Ok(Some(lossy_text(bytes))),
            Err(e) if is_absent(&e) => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Opens a file for reading; links are followed. A pipe or a device is refused and never
    /// opened, because opening or reading it may block for ever.
    pub fn open(&self, path: impl AsRef<Path>) -> io::Result<File> {
        let place = self.found(path.as_ref(), true)?;
        if !is_file_or_directory(&place)? {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "it is not a regular file",
            ));
        }
        // Has no effect on a regular file, but if the name was replaced meanwhile, opening must not
        // block.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
        let opened = match beneath::reopen(place.as_fd(), flags) {
            // There is no /proc in some chroots.
            Err(Errno::NOENT) => beneath::open(self.place()?, path.as_ref(), flags)?,
            opened => opened?,
        };
        if is_file_or_directory(&opened)? {
            return Ok(File::from(opened));
        }
        Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "it is not a regular file",
        ))
    }

    /// The names in a directory, sorted; empty if it does not exist.
    pub fn list(&self, directory: impl AsRef<Path>) -> io::Result<Vec<String>> {
        let directory = directory.as_ref();
        match self.opened_directory(directory) {
            Err(e) if is_absent(&e) => Ok(Vec::new()),
            opened => opened
                .and_then(|opened| self.finding(directory, || self.names_in(opened, directory))),
        }
    }

    fn names_in(&self, opened: OwnedFd, directory: &Path) -> io::Result<Vec<String>> {
        let (mut names, mut bytes, room) = (Vec::new(), 0, self.room_for_names());
        for entry in rustix::fs::Dir::new(opened)? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            if name != "." && name != ".." {
                bytes += name.len() + size_of::<String>();
                names.push(name);
            }
            if names.len() > limits::MAX_NAMES || bytes > limits::MAX_NAME_BYTES.min(room) {
                let limit = if bytes > room {
                    Limit::Whole
                } else {
                    Limit::File
                };
                // They were read, and many links may lead to them.
                self.spend_names(directory, bytes);
                let why = format!("it has more than {} names", names.len() - 1);
                return Err(self.refused(directory, why, Some(limit)));
            }
        }
        self.spend_names(directory, bytes);
        names.sort();
        Ok(names)
    }

    /// Whether the path exists; links are followed.
    pub fn exists(&self, path: impl AsRef<Path>) -> bool {
        self.found(path.as_ref(), true).is_ok()
    }

    /// Whether the path is a directory; links are followed.
    pub fn is_directory(&self, path: impl AsRef<Path>) -> bool {
        self.metadata(path).is_ok_and(|meta| meta.is_dir())
    }

    /// The current state of a file; links are followed.
    pub fn identity(&self, path: impl AsRef<Path>) -> io::Result<Identity> {
        Ok(Identity::of(&self.metadata(path)?))
    }

    /// The target of a link, as written; none for anything else.
    pub fn link_target(&self, path: impl AsRef<Path>) -> Option<PathBuf> {
        beneath::target(self.found(path.as_ref(), false).ok()?.as_fd()).ok()
    }

    /// The time a file was last written, in seconds since 1970; links are followed.
    pub fn modified(&self, path: impl AsRef<Path>) -> Option<i64> {
        Some(self.metadata(path).ok()?.mtime())
    }

    /// The time a regular file was last written or moved, in seconds since 1970; none for anything
    /// else.
    pub fn changed(&self, path: impl AsRef<Path>) -> Option<i64> {
        let meta = File::from(self.found(path.as_ref(), false).ok()?)
            .metadata()
            .ok()?;
        meta.is_file().then(|| meta.ctime())
    }

    /// The node at `path`.
    pub fn node(&self, path: impl AsRef<Path>) -> io::Result<Node> {
        let place = match self.found(path.as_ref(), false) {
            Err(e) if is_absent(&e) => return Ok(Node::Absent),
            found => found?,
        };
        let stat = fstat(&place)?;
        Ok(match FileType::from_raw_mode(stat.st_mode) {
            FileType::Symlink => Node::Link {
                target: beneath::target(place.as_fd())?,
            },
            FileType::Directory => Node::Directory,
            FileType::RegularFile
                if self.look.is_some() && stat.st_size as u64 > limits::MAX_SUMMED =>
            {
                return Err(self.too_large(path.as_ref(), stat.st_size as u64, limits::MAX_SUMMED));
            }
            FileType::RegularFile => Node::File {
                sha256: self.sum_of(
                    path.as_ref(),
                    File::from(beneath::reopen(place.as_fd(), OFlags::RDONLY)?),
                )?,
                mode: stat.st_mode & 0o7777,
                uid: stat.st_uid,
                gid: stat.st_gid,
            },
            _ => Node::Other,
        })
    }

    /// The space on the file system that `path` is on, or would be on.
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

    /// Writes a file at `path` and replaces an existing one in a single rename. When this returns,
    /// the file is on disk.
    pub fn write(&self, path: impl AsRef<Path>, bytes: &[u8], mode: u32) -> io::Result<()> {
        let put = |directory: &Directory, new: &OsStr| {
            let mut file = directory.create_new(new, mode)?;
            file.write_all(bytes)?;
            file.sync_all()
        };
        self.replaced(path.as_ref(), put)?.sync()
    }

    /// The same without waiting for the disk: after a power cut the file may be the old one, or
    /// empty.
    pub fn write_soon(&self, path: impl AsRef<Path>, bytes: &[u8], mode: u32) -> io::Result<()> {
        let put =
            |directory: &Directory, new: &OsStr| directory.create_new(new, mode)?.write_all(bytes);
        self.replaced(path.as_ref(), put).map(|_| ())
    }

    /// Writes a file at `path` that belongs to this user and group, with the guarantees of
    /// [`Self::write`]: at no time does another owner's file stand there.
    pub fn write_owned(
        &self,
        path: impl AsRef<Path>,
        bytes: &[u8],
        mode: u32,
        owner: (u32, u32),
    ) -> io::Result<()> {
        self.copy_owned(&mut &*bytes, path, mode, owner)
    }

    /// Copies a file to `path` in the same way.
    pub fn copy_owned(
        &self,
        from: &mut dyn Read,
        path: impl AsRef<Path>,
        mode: u32,
        (uid, gid): (u32, u32),
    ) -> io::Result<()> {
        let put = |directory: &Directory, new: &OsStr| {
            let mut file = directory.create_new(new, 0o600)?;
            io::copy(from, &mut file)?;
            let meta = file.metadata()?;
            // An unprivileged user has nothing to do here: a file that the owner creates again is
            // already theirs.
            if (meta.uid(), meta.gid()) != (uid, gid) {
                std::os::unix::fs::fchown(&file, Some(uid), Some(gid))?;
            }
            file.set_permissions(fs::Permissions::from_mode(mode))?;
            file.sync_all()
        };
        self.replaced(path.as_ref(), put)?.sync()
    }

    /// Copies a file to `path`, with the guarantees of [`Self::write`].
    pub fn copy(&self, from: &mut dyn Read, path: impl AsRef<Path>, mode: u32) -> io::Result<()> {
        let put = |directory: &Directory, new: &OsStr| {
            let mut file = directory.create_new(new, mode)?;
            io::copy(from, &mut file)?;
            file.sync_all()
        };
        self.replaced(path.as_ref(), put)?.sync()
    }

    /// Creates a temporary node beside `path` with `put`, then moves it there; returns the
    /// directory.
    fn replaced(
        &self,
        path: &Path,
        put: impl FnOnce(&Directory, &OsStr) -> io::Result<()>,
    ) -> io::Result<Directory> {
        let (directory, name) = self.parent(path)?;
        let new = unfinished(name);
        directory.remove_file_if_there(&new)?;
        crash::point();
        let done = put(&directory, &new).and_then(|()| {
            crash::point();
            directory.rename(&new, &directory, name)
        });
        if done.is_err() {
            // A full disk keeps no half of it, and a folder that is in the way no copy beside it.
            let _ = directory.remove_file_if_there(&new);
        }
        done.map(|()| directory)
    }

    /// Creates a new file for reading and writing; fails if it exists.
    pub fn create_new(&self, path: impl AsRef<Path>, mode: u32) -> io::Result<File> {
        let (directory, name) = self.parent(path.as_ref())?;
        directory.create_new(name, mode)
    }

    /// Opens a file that gpusetup keeps, for reading and writing; creates it if missing. A link, a
    /// file with a second hard link and a file of another owner are refused: each could redirect
    /// the writes to another file.
    pub fn open_own(&self, path: impl AsRef<Path>, mode: u32) -> io::Result<File> {
        let (directory, name) = self.parent(path.as_ref())?;
        directory.open_own(name, mode, false)
    }

    /// The same, in append mode.
    pub fn append_to(&self, path: impl AsRef<Path>, mode: u32) -> io::Result<File> {
        let (directory, name) = self.parent(path.as_ref())?;
        directory.open_own(name, mode, true)
    }

    /// Appends to such a file after its first `length` bytes, cuts off anything beyond them, and
    /// waits for the disk.
    pub fn append(
        &self,
        path: impl AsRef<Path>,
        length: u64,
        bytes: &[u8],
        mode: u32,
    ) -> io::Result<()> {
        let (directory, name) = self.parent(path.as_ref())?;
        let mut file = directory.open_own(name, mode, true)?;
        crash::point();
        file.set_len(length)?;
        // A power cut may leave half of the bytes.
        let (half, rest) = bytes.split_at(bytes.len() / 2);
        file.write_all(half)?;
        crash::point();
        file.write_all(rest)?;
        file.sync_all()?;
        directory.sync()
    }

    /// Gives an open file the additional name `path`. False if the file system does not support
    /// that.
    pub fn link_open(&self, open: &File, path: impl AsRef<Path>) -> io::Result<bool> {
        let (directory, name) = self.parent(path.as_ref())?;
        Ok(directory.link_open(open, name).is_ok())
    }

    /// Waits until everything written so far to the file system of a directory is on disk.
    pub fn sync_around(&self, directory: impl AsRef<Path>) -> io::Result<()> {
        self.directory(directory)?.sync_file_system()
    }

    /// Waits until everything written so far is on disk.
    pub fn sync(&self) {
        rustix::fs::sync();
    }

    /// Removes the temporary file that an interrupted write or link at `path` left beside it.
    pub fn remove_unfinished(&self, path: impl AsRef<Path>) -> io::Result<()> {
        let Some((directory, name)) = self.parent_if_there(path.as_ref())? else {
            return Ok(());
        };
        directory.remove_file_if_there(&unfinished(name))
    }

    /// Creates a link at `path` and replaces what is there in a single rename.
    pub fn link(&self, path: impl AsRef<Path>, target: &Path) -> io::Result<()> {
        self.replaced(path.as_ref(), |directory, new| {
            directory.symlink(target, new)
        })?
        .sync()
    }

    /// Moves `from` to `to` in a single rename.
    pub fn rename(&self, from: impl AsRef<Path>, to: impl AsRef<Path>) -> io::Result<()> {
        let ((directory, name), (to, to_name)) =
            (self.parent(from.as_ref())?, self.parent(to.as_ref())?);
        crash::point();
        directory.rename(name, &to, to_name)?;
        to.sync()
    }

    /// Moves a file out of an open directory to `path` and replaces a file or link there. A file
    /// from another file system is copied.
    pub fn take_from(
        &self,
        directory: &Directory,
        name: &OsStr,
        path: impl AsRef<Path>,
    ) -> io::Result<()> {
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

    /// Creates a directory and its missing parents; returns the created ones, outermost first.
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

    /// Creates a new directory and opens it.
    pub fn create_directory(&self, path: impl AsRef<Path>, mode: u32) -> io::Result<Directory> {
        let (parent, name) = self.parent(path.as_ref())?;
        crash::point();
        parent.create_directory(name, mode)
    }

    /// Removes a file, a link or an empty directory. A missing one is a success.
    pub fn remove(&self, path: impl AsRef<Path>) -> io::Result<()> {
        let Some((directory, name)) = self.parent_if_there(path.as_ref())? else {
            return Ok(());
        };
        crash::point();
        match directory.remove(name) {
            Err(e) if !is_absent(&e) => Err(e),
            Err(_) => Ok(()),
            Ok(()) => directory.sync(),
        }
    }

    /// The first mount point at or below a directory, if there is one.
    pub fn mounted_below(&self, path: impl AsRef<Path>) -> io::Result<Option<PathBuf>> {
        let below =
            fs::canonicalize(&self.root)?.join(beneath::canonical(self.place()?, path.as_ref())?);
        let mounts = System::live()
            .read_text_up_to("/proc/self/mountinfo", limits::MAX_RECORD)?
            .unwrap_or_default();
        let mut places = mounts
            .lines()
            .filter_map(|line| line.split(' ').nth(4))
            .map(|place| PathBuf::from(unescaped(place)));
        Ok(places.find(|place| place.starts_with(&below)))
    }

    /// Removes a directory and its contents. A missing one is a success. Links in it are removed,
    /// not followed. The root itself is never removed.
    pub fn remove_tree(&self, path: impl AsRef<Path>) -> io::Result<()> {
        let Some((directory, name)) = self.parent_if_there(path.as_ref())? else {
            return Ok(());
        };
        crash::point();
        directory.remove_tree(name)
    }
}

/// Opens a root directory with `O_PATH`. A path that leads to this machine's own root by another
/// name is refused as a tree, because changes "in the tree" would change the machine.
fn place(root: &Path) -> Result<OwnedFd, Errno> {
    let open = |path: &Path| {
        openat(
            CWD,
            path,
            OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
        )
    };
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

/// Decodes a path from the kernel's list of mounts, where `\\040` is a blank.
fn unescaped(place: &str) -> std::ffi::OsString {
    let (mut bytes, mut rest) = (Vec::new(), place.as_bytes());
    while let Some((first, more)) = rest.split_first() {
        let digits = more
            .get(..3)
            .filter(|_| *first == b'\\')
            .and_then(|digits| std::str::from_utf8(digits).ok());
        let (byte, after) = match digits.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => (byte, &more[3..]),
            None => (*first, more),
        };
        bytes.push(byte);
        rest = after;
    }
    std::os::unix::ffi::OsStringExt::from_vec(bytes)
}

/// Text in which invalid UTF-8 becomes U+FFFD; valid text is not copied.
pub(crate) fn lossy_text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into_owned())
}

/// The same, in no more memory than the bytes take: a question mark stands for a byte that is no
/// UTF-8.
pub fn text_in_place(mut bytes: Vec<u8>) -> String {
    let mut from = 0;
    while let Err(e) = str::from_utf8(&bytes[from..]) {
        from += e.valid_up_to();
        bytes[from] = b'?';
    }
    lossy_text(bytes)
}

/// An error together with its sources.
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

/// Whether an error only means that the file does not exist.
pub fn is_absent(e: &io::Error) -> bool {
    matches!(
        e.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

/// The name of a file while it is being written.
fn unfinished(name: &OsStr) -> OsString {
    let mut unfinished = OsString::from(".");
    unfinished.push(name);
    unfinished.push(UNFINISHED);
    unfinished
}

/// The day in UTC: `2026-11-29`. A build for tests can be told another (`GPUSETUP_TODAY`).
pub fn today() -> String {
    if let Some(day) = hooks::env_override("GPUSETUP_TODAY") {
        return day;
    }
    jiff::Timestamp::now().strftime("%Y-%m-%d").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_put_in_its_place_leaves_nothing_beside_it() {
        let root = tempfile::tempdir().expect("a folder");
        std::fs::create_dir_all(root.path().join("etc/taken/by")).expect("made");
        let system = System::at(root.path());
        system
            .write("/etc/taken", b"text", 0o644)
            .expect_err("a folder is in the way");
        assert_eq!(system.list("/etc").expect("there"), ["taken"]);
    }

    #[test]
    fn links_stay_below_the_root() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let host = System::at(dir.path());
        host.make_directories("/usr/local/cuda-12.8", 0o755)
            .expect("made");
        host.link("/usr/local/cuda", Path::new("/usr/local/cuda-12.8"))
            .expect("linked");
        host.link("/up", Path::new("../../../etc")).expect("linked");
        host.write("/usr/local/cuda/version.json", b"{}", 0o644)
            .expect("written");
        assert_eq!(
            host.read("/usr/local/cuda-12.8/version.json")
                .expect("read"),
            b"{}"
        );
        assert!(
            dir.path()
                .join("usr/local/cuda-12.8/version.json")
                .is_file()
        );
        assert_eq!(
            host.canonical("/up/passwd").expect("found"),
            Path::new("/etc/passwd")
        );
        assert_eq!(
            host.node("/usr/local/cuda").expect("seen"),
            Node::Link {
                target: "/usr/local/cuda-12.8".into()
            }
        );
        host.link("/loop", Path::new("loop")).expect("linked");
        assert!(host.read("/loop/x").is_err());
    }

    #[test]
    fn a_written_file_has_the_mode_that_was_asked_for() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let host = System::at(dir.path());
        assert_eq!(
            host.make_directories("/a/b", 0o755).expect("made"),
            [PathBuf::from("/a"), PathBuf::from("/a/b")]
        );
        host.write("/a/b/f", b"x", 0o666).expect("written");
        assert!(matches!(
            host.node("/a/b/f").expect("seen"),
            Node::File { mode: 0o666, .. }
        ));
        assert_eq!(host.list("/a/b").expect("listed"), ["f"]);
        host.remove("/a/b/f").expect("removed");
        host.remove("/a/b/f")
            .expect("removing a missing file succeeds");
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
        rustix::fs::mknodat(
            CWD,
            in_tree("pipe"),
            FileType::Fifo,
            Mode::RUSR | Mode::WUSR,
            0,
        )
        .expect("made");
        fs::create_dir(in_tree("folder")).expect("made");
        for name in ["link", "relative", "second-name", "pipe", "folder"] {
            assert!(
                host.open_own(Path::new("/").join(name), 0o600).is_err(),
                "{name}"
            );
            assert!(
                host.append_to(Path::new("/").join(name), 0o600).is_err(),
                "{name}"
            );
            assert!(
                host.append(Path::new("/").join(name), 0, b"x", 0o600)
                    .is_err(),
                "{name}"
            );
        }
        host.append("/new", 0, b"ours", 0o600)
            .expect("the file does not exist yet");
        host.append("/new", 2, b"r own", 0o600)
            .expect("the file is gpusetup's own");
        assert_eq!(host.read("/new").expect("read"), b"our own");
        // Whatever replaces one of these files, the victim is not changed.
        for name in ["link", "relative", "second-name"] {
            host.write(Path::new("/").join(name), b"ours", 0o600)
                .expect("replaced");
        }
        assert_eq!(fs::read(&victim).expect("there"), b"precious");
        assert!(host.link_target("/link").is_none());
    }

    #[test]
    fn the_machines_own_root_is_no_tree() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        std::os::unix::fs::symlink("/", dir.path().join("tree")).expect("linked");
        let host = System::at(dir.path().join("tree"));
        assert!(
            !host.is_live() && !host.exists("/etc"),
            "changes there would change the machine"
        );
        assert!(System::at("//").is_live() && System::at("//").exists("/etc"));
    }

    #[test]
    fn a_tree_of_any_depth_is_removed() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let on = System::at(dir.path());
        let deep = dir.path().join("tree").join("d/".repeat(1500));
        fs::create_dir_all(&deep)
            .and_then(|()| fs::write(deep.join("f"), ""))
            .expect("made");
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
        host.remove_tree("/a/../a").expect("an ordinary folder");
        assert!(!host.exists("/a"));
    }
}
