//! Files that the caller names to have something written to them.

use super::beneath;
use super::trust::is_ours;
use rustix::fs::{Mode, OFlags, openat};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::Path;

/// Writes a file, whatever was in it. Where root does, no link of somebody else's is followed, and nothing is waited for: in a folder
/// that others may write to they could have root write to any file, or hang.
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if !rustix::process::geteuid().is_root() {
        return std::fs::write(path, bytes);
    }
    let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let mut file = match beneath::by_trusted_links(path, &|link| is_ours(link.st_uid))? {
        (place, None) => File::from(beneath::reopen(place.as_fd(), flags)?),
        (folder, Some(name)) => {
            let flags = flags | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
            File::from(openat(folder, name, flags, Mode::from_raw_mode(0o666))?)
        }
    };
    if file.metadata()?.is_file() {
        file.set_len(0)?;
    }
    file.write_all(bytes)
}
