//! What lies outside of the tree, and must stay as it is: nobody may write it, and nobody read it.

use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, utimensat};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Stands in each of these files: who finds it in what gpusetup says has been shown a secret.
pub const SECRET: &str = "secret-0b7e41f2";

/// A folder beside the tree.
pub struct Outside {
    folder: PathBuf,
    before: BTreeMap<PathBuf, Trait>,
}

/// What the kernel says of a file. Nobody can set when it was last changed; when it was last read tells whether it was.
#[derive(PartialEq)]
struct Trait {
    mode: u32,
    owner: (u32, u32),
    size: u64,
    written: (i64, i64),
    changed: (i64, i64),
    read: (i64, i64),
}

/// Long ago: what is read or written later is told from it, however coarse the clock is.
const LONG_AGO: i64 = 1_000_000_000;

impl Outside {
    /// A file, a folder with files in it, and nothing called `new`.
    pub fn make(folder: &Path) -> Self {
        let _ = fs::remove_dir_all(folder);
        fs::create_dir_all(folder.join("folder/sub")).expect("made");
        for name in ["file", "folder/f", "folder/sub/g"] {
            fs::write(folder.join(name), format!("precious\n{SECRET}\n")).expect("written");
            fs::set_permissions(folder.join(name), fs::Permissions::from_mode(0o640)).expect("ours");
        }
        Self { folder: folder.to_owned(), before: BTreeMap::new() }
    }

    /// Remembers it as it is now.
    pub fn remember(&mut self) {
        let mut paths = BTreeSet::new();
        list(&self.folder, &mut paths);
        let long_ago = Timespec { tv_sec: LONG_AGO, tv_nsec: 0 };
        let times = Timestamps { last_access: long_ago, last_modification: long_ago };
        for path in &paths {
            utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW).expect("ours");
        }
        self.before = paths.into_iter().map(|path| (path.clone(), look(&path).expect("it is there"))).collect();
    }

    /// What has become of it since. `linked`: a name in the tree is a hard link to a file here, so that reading it is no
    /// escape, and removing that name changes the count of its names.
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
        fs::read_dir(path).expect("listed").flatten().for_each(|entry| list(&entry.path(), all));
    }
}
