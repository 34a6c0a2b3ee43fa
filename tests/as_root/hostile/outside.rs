//! The files outside the tree, which gpusetup must neither write nor read.

use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, utimensat};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The content of these files. It must not appear in gpusetup's output.
pub const SECRET: &str = "secret-0b7e41f2";

/// A directory beside the tree.
pub struct Outside {
    folder: PathBuf,
    before: BTreeMap<PathBuf, Trait>,
}

/// Metadata that shows whether a file was written (`changed` cannot be forged) or read.
#[derive(PartialEq)]
struct Trait {
    mode: u32,
    owner: (u32, u32),
    size: u64,
    written: (i64, i64),
    changed: (i64, i64),
    read: (i64, i64),
}

/// The times of all files before an attack, in seconds since 1970: old enough to differ from any
/// access.
const LONG_AGO: i64 = 1_000_000_000;

impl Outside {
    /// Creates a file and a directory with files. There is no file named `new`.
    pub fn make(folder: &Path) -> Self {
        let _ = fs::remove_dir_all(folder);
        fs::create_dir_all(folder.join("folder/sub")).expect("made");
        for name in ["file", "folder/f", "folder/sub/g"] {
            fs::write(folder.join(name), format!("precious\n{SECRET}\n")).expect("written");
            fs::set_permissions(folder.join(name), fs::Permissions::from_mode(0o640))
                .expect("ours");
        }
        Self {
            folder: folder.to_owned(),
            before: BTreeMap::new(),
        }
    }

    /// Records the current state.
    pub fn remember(&mut self) {
        let mut paths = BTreeSet::new();
        list(&self.folder, &mut paths);
        let long_ago = Timespec {
            tv_sec: LONG_AGO,
            tv_nsec: 0,
        };
        let times = Timestamps {
            last_access: long_ago,
            last_modification: long_ago,
        };
        for path in &paths {
            utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW).expect("ours");
        }
        self.before = paths
            .into_iter()
            .map(|path| (path.clone(), look(&path).expect("it is there")))
            .collect();
    }

    /// What happened to the files since then. `linked`: a path in the tree is a hard link to one of
    /// them. Then reading it is allowed, and removing that path changes the link count.
    pub fn harm(&self, linked: bool) -> BTreeSet<&'static str> {
        let mut harm = BTreeSet::new();
        for (path, before) in &self.before {
            let Some(now) = look(path) else {
                harm.insert("removed");
                continue;
            };
            let whole = |t: &Trait| (t.mode, t.owner, t.size, t.written);
            if whole(before) != whole(&now) || !linked && before.changed != now.changed {
                harm.insert("changed");
            }
            if !linked && before.read != now.read {
                harm.insert("read");
            }
        }
        let mut now = BTreeSet::new();
        list(&self.folder, &mut now);
        if now.iter().any(|path| !self.before.contains_key(path)) {
            harm.insert("created");
        }
        harm
    }
}

fn look(path: &Path) -> Option<Trait> {
    let meta = path.symlink_metadata().ok()?;
    Some(Trait {
        mode: meta.mode(),
        owner: (meta.uid(), meta.gid()),
        size: meta.size(),
        written: (meta.mtime(), meta.mtime_nsec()),
        changed: (meta.ctime(), meta.ctime_nsec()),
        read: (meta.atime(), meta.atime_nsec()),
    })
}

fn list(path: &Path, all: &mut BTreeSet<PathBuf>) {
    all.insert(path.to_owned());
    if path.symlink_metadata().is_ok_and(|meta| meta.is_dir()) {
        fs::read_dir(path)
            .expect("listed")
            .flatten()
            .for_each(|entry| list(&entry.path(), all));
    }
}
