//! An open directory. Operations on its names happen in that very directory, whatever its path
//! refers to by then. A name that is a link is never followed.

use super::is_absent;
use super::trust::is_ours;
use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, ResolveFlags, Stat, fstat, linkat, mkdirat, openat,
    openat2, readlinkat, renameat, statat, symlinkat, unlinkat,
};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata, Permissions};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The most nested directories held open during removal; each takes a descriptor.
const MAX_LEVELS: usize = 400;

/// An open directory.
#[derive(Debug)]
pub struct Directory(File);

impl From<File> for Directory {
    fn from(open: File) -> Self {
        Self(open)
    }
}

impl From<OwnedFd> for Directory {
    fn from(fd: OwnedFd) -> Self {
        Self(File::from(fd))
    }
}

impl Directory {
    /// Creates a new file for reading and writing; fails if it exists.
    pub fn create_new(&self, name: impl AsRef<OsStr>, mode: u32) -> io::Result<File> {
        let flags =
            OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = File::from(openat(
            &self.0,
            name.as_ref(),
            flags,
            Mode::from_raw_mode(mode),
        )?);
        // The umask applied when the file was created.
        file.set_permissions(Permissions::from_mode(mode))?;
        Ok(file)
    }

    /// Opens a file that gpusetup keeps; creates it if missing. It must be a regular file with this
    /// single name, owned by root or the current user. A symbolic or hard link could redirect the
    /// writes to any file.
    pub(super) fn open_own(&self, name: &OsStr, mode: u32, append: bool) -> io::Result<File> {
        let mut flags =
            OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
        flags.set(OFlags::APPEND, append);
        let opened = openat(
            &self.0,
            name,
            flags | OFlags::CLOEXEC,
            Mode::from_raw_mode(mode),
        )
        .map_err(|e| match e {
            Errno::LOOP | Errno::NXIO => refused(name, "is not a regular file"),
            e => e.into(),
        })?;
        let stat = fstat(&opened)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(refused(name, "is not a regular file"));
        }
        if stat.st_nlink > 1 {
            return Err(refused(name, "has a second hard link"));
        }
        if !is_ours(stat.st_uid) {
            return Err(refused(name, &format!("is owned by user {}", stat.st_uid)));
        }
        Ok(File::from(opened))
    }

    /// The metadata of a name; a link is not followed.
    pub(super) fn stat(&self, name: &OsStr) -> io::Result<Stat> {
        Ok(statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW)?)
    }

    /// The target of a link, as stored.
    pub(super) fn link_target(&self, name: &OsStr) -> io::Result<PathBuf> {
        Ok(PathBuf::from(OsString::from_vec(
            readlinkat(&self.0, name, Vec::new())?.into_bytes(),
        )))
    }

    /// Creates a link.
    pub fn symlink(&self, target: &Path, name: impl AsRef<OsStr>) -> io::Result<()> {
        Ok(symlinkat(target, &self.0, name.as_ref())?)
    }

    /// Creates a hard link to a file in this directory.
    pub fn hard_link(&self, name: impl AsRef<OsStr>, second: impl AsRef<OsStr>) -> io::Result<()> {
        Ok(linkat(
            &self.0,
            name.as_ref(),
            &self.0,
            second.as_ref(),
            AtFlags::empty(),
        )?)
    }

    /// Creates a hard link to an open file: that very file, whatever its first name refers to now.
    pub(super) fn link_open(&self, open: &File, name: &OsStr) -> io::Result<()> {
        let first = format!("/proc/self/fd/{}", open.as_raw_fd());
        Ok(linkat(CWD, first, &self.0, name, AtFlags::SYMLINK_FOLLOW)?)
    }

    /// Moves a name to another directory, or within this one, and replaces a file or link there.
    pub(crate) fn rename(
        &self,
        name: impl AsRef<OsStr>,
        to: &Self,
        to_name: impl AsRef<OsStr>,
    ) -> io::Result<()> {
        Ok(renameat(&self.0, name.as_ref(), &to.0, to_name.as_ref())?)
    }

    /// Opens a file for reading; a link is not followed, and only a regular file is opened.
    pub fn open(&self, name: impl AsRef<OsStr>) -> io::Result<File> {
        let flags =
            OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let opened = openat(&self.0, name.as_ref(), flags, Mode::empty())?;
        match FileType::from_raw_mode(fstat(&opened)?.st_mode) {
            FileType::RegularFile => Ok(File::from(opened)),
            _ => Err(refused(name.as_ref(), "is not a regular file")),
        }
    }

    /// Its owner and permissions.
    pub fn metadata(&self) -> io::Result<Metadata> {
        self.0.metadata()
    }

    /// Creates a directory in this one and opens it.
    pub(super) fn create_directory(&self, name: &OsStr, mode: u32) -> io::Result<Self> {
        mkdirat(&self.0, name, Mode::from_raw_mode(mode))?;
        let made = self.open_directory(name)?;
        made.0.set_permissions(Permissions::from_mode(mode))?;
        Ok(made)
    }

    /// Opens a directory in this one; a link is not followed.
    pub fn open_directory(&self, name: impl AsRef<OsStr>) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(openat(&self.0, name.as_ref(), flags, Mode::empty())?.into())
    }

    /// Removes a file, a link or an empty directory.
    pub(super) fn remove(&self, name: &OsStr) -> io::Result<()> {
        let is_directory = FileType::from_raw_mode(self.stat(name)?.st_mode) == FileType::Directory;
        let flags = if is_directory {
            AtFlags::REMOVEDIR
        } else {
            AtFlags::empty()
        };
        Ok(unlinkat(&self.0, name, flags)?)
    }

    /// Removes a file or a link. A missing one is a success.
    pub(super) fn remove_file_if_there(&self, name: &OsStr) -> io::Result<()> {
        match unlinkat(&self.0, name, AtFlags::empty()) {
            Err(Errno::NOENT) => Ok(()),
            removed => Ok(removed?),
        }
    }

    /// Opens a subdirectory on the same mount: a file system mounted there belongs to somebody
    /// else.
    fn open_own_directory(&self, name: &OsStr) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mounted = || {
            io::Error::new(
                io::ErrorKind::ResourceBusy,
                format!("something is mounted on {}", name.display()),
            )
        };
        match openat2(&self.0, name, flags, Mode::empty(), ResolveFlags::NO_XDEV) {
            Ok(opened) => Ok(opened.into()),
            Err(Errno::XDEV) => Err(mounted()),
            // Before Linux 5.6 a mount is recognised by its file system.
            Err(Errno::NOSYS | Errno::PERM) => {
                let opened = self.open_directory(name)?;
                if fstat(&opened.0)?.st_dev == fstat(&self.0)?.st_dev {
                    Ok(opened)
                } else {
                    Err(mounted())
                }
            }
            Err(e) => Err(e.into()),
        }
    }

    /// Removes a directory with its contents, or any other node. Links in it are removed, not
    /// followed, and mounts are not entered.
    pub(super) fn remove_tree(&self, name: &OsStr) -> io::Result<()> {
        let is_gone = || self.stat(name).is_err_and(|e| is_absent(&e));
        if is_gone() {
            return Ok(());
        }
        let mut moved = 0;
        loop {
            let before = moved;
            match self.remove_levels(name, MAX_LEVELS, None, &mut moved) {
                // Directories nested too deeply have been moved to the outermost one.
                Err(e) if e.kind() == io::ErrorKind::DirectoryNotEmpty && moved > before => {}
                Err(_) if is_gone() => return Ok(()),
                removed => return removed,
            }
        }
    }

    /// The same, down to `levels` nested directories; deeper ones are moved into `outermost` and
    /// counted.
    fn remove_levels(
        &self,
        name: &OsStr,
        levels: usize,
        outermost: Option<&Self>,
        moved: &mut usize,
    ) -> io::Result<()> {
        match unlinkat(&self.0, name, AtFlags::empty()) {
            // For a directory Linux answers EISDIR, POSIX and some file systems EPERM.
            Err(Errno::ISDIR | Errno::PERM) => {}
            removed => return Ok(removed?),
        }
        if let Some(outermost) = outermost.filter(|_| levels == 0) {
            loop {
                *moved += 1;
                match self.rename(name, outermost, format!(".gpusetup-deep-{moved}")) {
                    // The name is taken.
                    Err(e)
                        if matches!(
                            Errno::from_io_error(&e),
                            Some(Errno::NOTEMPTY | Errno::EXIST | Errno::NOTDIR)
                        ) => {}
                    renamed => return renamed,
                }
            }
        }
        let directory = self.open_own_directory(name)?;
        for entry in Dir::read_from(&directory.0)? {
            let entry = entry?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name != "." && name != ".." {
                directory.remove_levels(
                    name,
                    levels - 1,
                    Some(outermost.unwrap_or(&directory)),
                    moved,
                )?;
            }
        }
        drop(directory);
        Ok(unlinkat(&self.0, name, AtFlags::REMOVEDIR)?)
    }

    /// Waits until the names in it are on disk.
    pub(super) fn sync(&self) -> io::Result<()> {
        self.0.sync_all()
    }

    /// Waits until everything written so far to its file system is on disk.
    pub(super) fn sync_file_system(&self) -> io::Result<()> {
        Ok(rustix::fs::syncfs(&self.0)?)
    }
}

fn refused(name: &OsStr, why: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidInput,
        format!("{} {why}", name.display()),
    )
}
