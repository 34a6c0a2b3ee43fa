//! Whose files are: a file that nobody else can change may be used as it is, under a second name and without a copy.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;

/// Whether nobody but root, or whoever runs this, can write to a file, or let themselves.
pub fn is_ours_alone(meta: &Metadata) -> bool {
    let me = rustix::process::geteuid().as_raw();
    [0, me].contains(&meta.uid()) && meta.mode() & 0o022 == 0
}
