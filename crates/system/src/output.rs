//! Output files and directories named by the caller.

use super::beneath;
use super::trust::caller;
use rustix::fs::{Mode, OFlags, openat};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// Creates a new file with these permission bits, independent of the umask.
pub fn create(path: &Path, mode: u32) -> io::Result<File> {
    let file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(path)?;
    file.set_permissions(PermissionsExt::from_mode(mode))?;
    Ok(file)
}

/// Creates a directory and its missing parents.
pub fn make_directories(path: &Path) -> io::Result<()> {
    std::fs::create_dir_all(path)
}

/// Renames a file or a directory, replacing a file with that name.
pub fn rename(from: &Path, to: &Path) -> io::Result<()> {
    std::fs::rename(from, to)
}

/// Removes a file, or a directory with its contents. A missing one is a success.
pub fn clear(path: &Path) -> io::Result<()> {
    let removed = match path.symlink_metadata() {
        Ok(meta) if meta.is_dir() => std::fs::remove_dir_all(path),
        Ok(_) => std::fs::remove_file(path),
        Err(e) => Err(e),
    };
    match removed {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
        _ => Ok(()),
    }
}

/// Whether a name is taken, even by a broken link.
pub fn is_taken(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

/// Waits until everything written so far to the directory's file system is on disk.
pub fn sync_file_system(directory: &Path) -> io::Result<()> {
    Ok(rustix::fs::syncfs(File::open(directory)?)?)
}

/// Writes a file and replaces its content. For root, links and files of other users are refused and
/// nothing blocks: in a folder that others may write to, they could redirect root's write to any
/// file, or hang it. The user who called `sudo` counts as root here.
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if !rustix::process::geteuid().is_root() || beneath::is_descriptor(path) {
        return std::fs::write(path, bytes);
    }
    let users = caller();
    let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let mut file = match beneath::by_trusted_links(path, &|link| users.contains(&link.st_uid))? {
        (place, None) => File::from(beneath::reopen_named(place.as_fd(), path, flags)?),
        (folder, Some(name)) => {
            let flags = flags | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
            File::from(openat(folder, name, flags, Mode::from_raw_mode(0o666))?)
        }
    };
    let meta = file.metadata()?;
    if !meta.is_file() || meta.nlink() != 1 || !users.contains(&meta.uid()) {
        return Err(io::Error::other(
            "it is not a regular file of this user, or it has a second hard link",
        ));
    }
    file.set_len(0)?;
    file.write_all(bytes)
}
