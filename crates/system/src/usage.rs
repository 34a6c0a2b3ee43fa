//! The disk space that a directory takes.

use super::System;
use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The bytes in a block of `stat`, whatever the file system's own blocks are.
const BLOCK: u64 = 512;

/// The disk space of a file or a directory with all that is in it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// The bytes that are known to be used.
    pub bytes: u64,
    /// Something could not be looked at, so that it is more.
    pub at_least: bool,
}

impl System {
    /// The disk space of `path` with all that is in it, as `du -x` counts it: links are not
    /// followed, a file with several names counts once, and other file systems are left out.
    pub fn usage(&self, path: impl Into<PathBuf>) -> Usage {
        let (mut sum, mut seen, mut device) = (Usage::default(), BTreeSet::new(), None);
        let mut open = vec![path.into()];
        while let Some(at) = open.pop() {
            let Ok(meta) = self.own_metadata(&at) else {
                sum.at_least = true;
                continue;
            };
            if *device.get_or_insert(meta.dev()) != meta.dev()
                || meta.nlink() > 1 && !seen.insert(meta.ino())
            {
                continue;
            }
            sum.bytes += meta.blocks() * BLOCK;
            if meta.is_dir() {
                match self.list(&at) {
                    Ok(names) => open.extend(names.into_iter().map(|name| at.join(name))),
                    Err(_) => sum.at_least = true,
                }
            }
        }
        sum
    }

    /// The metadata of `path` itself; a link is not followed.
    fn own_metadata(&self, path: &Path) -> io::Result<std::fs::Metadata> {
        File::from(self.found(path, false)?).metadata()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_with_two_names_counts_once_and_a_link_is_not_followed() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let on = System::at(dir.path());
        on.make_directories("/t/lib", 0o755).expect("made");
        let empty = on.usage("/t");
        on.write("/t/lib/a", &[7; 100_000], 0o644).expect("written");
        on.write("/other", &[7; 100_000], 0o644).expect("written");
        on.link("/t/b", Path::new("/other")).expect("linked");
        let one = on.usage("/t");
        std::fs::hard_link(dir.path().join("t/lib/a"), dir.path().join("t/lib/c")).expect("linked");
        let two = on.usage("/t");
        assert!(
            (100_000..130_000).contains(&(one.bytes - empty.bytes)),
            "{empty:?} {one:?}"
        );
        assert!(
            two.bytes - one.bytes < 100_000 && !two.at_least,
            "{one:?} {two:?}"
        );
        assert!(on.usage("/gone").at_least);
    }
}
