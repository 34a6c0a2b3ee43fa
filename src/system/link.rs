//! Second names of files: a file that nobody else can change may be used under another name as it is, without a copy.

use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Whether nobody but root, or whoever runs this, can write to a file, nor let themselves.
pub fn is_ours_alone(meta: &Metadata) -> bool {
    let me = rustix::process::geteuid().as_raw();
    [0, me].contains(&meta.uid()) && meta.mode() & 0o022 == 0
}

/// Gives an open file a second name. False where that cannot be, or where its first name is another file's by now.
pub fn second_name(open: &File, first: &Path, second: &Path) -> io::Result<bool> {
    if fs::hard_link(first, second).is_err() {
        return Ok(false);
    }
    let (meta, linked) = (open.metadata()?, second.symlink_metadata()?);
    let same = (linked.dev(), linked.ino()) == (meta.dev(), meta.ino());
    if !same {
        fs::remove_file(second)?;
    }
    Ok(same)
}
