//! Files that the caller names to have something written to them.

use super::beneath;
use super::trust::caller;
use rustix::fs::{Mode, OFlags, openat};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Writes a file, whatever was in it. Where root does, no link of somebody else's is followed, no file of theirs is written to, and
/// nothing is waited for: in a folder that others may write to they could have root write to any file, or hang. The user who
/// called `sudo` is nobody else.
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
        return Err(io::Error::other("it is no regular file of this user with this name alone"));
    }
    file.set_len(0)?;
    file.write_all(bytes)
}
