//! Compares two file trees: what is there, its kind, mode, owner, and content or target. Times do
//! not count.

use std::collections::BTreeSet;
use std::fs::{self, Metadata};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Where two trees differ, a line for each path: `added`, `removed` or `changed`. `ignored` are
/// paths below the root, with all below them; one that ends in `*` stands for all that begin so.
pub fn differences(before: &Path, after: &Path, ignored: &[&str]) -> Vec<String> {
    let mut comparison = Comparison {
        before,
        after,
        ignored,
        layers: Layers::of(before, after),
        lines: Vec::new(),
    };
    comparison.compare(Path::new(""));
    comparison.lines
}

struct Comparison<'a> {
    before: &'a Path,
    after: &'a Path,
    ignored: &'a [&'a str],
    layers: Layers,
    lines: Vec<String>,
}

impl Comparison<'_> {
    fn compare(&mut self, at: &Path) {
        if self.layers.share(at) {
            return;
        }
        let (before, after) = (self.before.join(at), self.after.join(at));
        let names: BTreeSet<_> = entries(&before)
            .into_iter()
            .chain(entries(&after))
            .collect();
        for name in names {
            let path = at.join(name);
            if self
                .ignored
                .iter()
                .any(|ignored| is_ignored(&path, ignored))
            {
                continue;
            }
            let (old, new) = (self.before.join(&path), self.after.join(&path));
            match (fs::symlink_metadata(&old), fs::symlink_metadata(&new)) {
                (Ok(was), Ok(is)) => {
                    if let Some(what) = change(&old, &was, &new, &is) {
                        self.lines
                            .push(format!("changed {what}: {}", path.display()));
                    }
                    if was.is_dir() && is.is_dir() {
                        self.compare(&path);
                    }
                }
                (Ok(_), Err(_)) => self.lines.push(format!("removed: {}", path.display())),
                _ => self.lines.push(format!("added: {}", path.display())),
            }
        }
    }
}

/// The layers that two clones do not share. A directory in none of them is the same one in both
/// clones, with all below it: most of a root need not be read. `tests/host/clone` says which layers
/// a clone has; other trees are a layer themselves.
struct Layers {
    own: Vec<PathBuf>,
    /// What is mounted below the roots is in no layer; these are paths below the root of either.
    mounts: Vec<PathBuf>,
}

impl Layers {
    fn of(before: &Path, after: &Path) -> Self {
        let (a, b) = (layers(before), layers(after));
        let own = a
            .iter()
            .filter(|l| !b.contains(l))
            .chain(b.iter().filter(|l| !a.contains(l)))
            .cloned()
            .collect();
        Self {
            own,
            mounts: mounts(before).into_iter().chain(mounts(after)).collect(),
        }
    }

    fn share(&self, at: &Path) -> bool {
        self.own.iter().all(|layer| !is_or_was_there(layer, at))
            && !self
                .mounts
                .iter()
                .any(|mount| mount.starts_with(at) || at.starts_with(mount))
    }
}

/// The layers of a clone's root, the uppermost first.
fn layers(root: &Path) -> Vec<PathBuf> {
    let lower_file = root.with_file_name("lower");
    match fs::read_to_string(lower_file) {
        Ok(lower) => std::iter::once(root.with_file_name("upper"))
            .chain(lower.trim().split(':').map(PathBuf::from))
            .collect(),
        Err(_) => vec![root.to_owned()],
    }
}

/// Whether a layer has something at this path, be it the mark of a removal; or a directory above it
/// that was moved there, or that hides the layers below.
fn is_or_was_there(layer: &Path, at: &Path) -> bool {
    if fs::symlink_metadata(layer.join(at)).is_ok() {
        return true;
    }
    let marked = |path: &Path| {
        ["trusted.overlay.redirect", "trusted.overlay.opaque"]
            .iter()
            .any(|name| {
                let mut value = [0_u8; 4096];
                // An error that is not the lack of the mark leaves it open.
                !matches!(
                    rustix::fs::lgetxattr(path, *name, &mut value),
                    Err(rustix::io::Errno::NODATA | rustix::io::Errno::NOENT)
                )
            })
    };
    at.ancestors()
        .skip(1)
        .filter(|above| !above.as_os_str().is_empty())
        .any(|above| {
            let path = layer.join(above);
            fs::symlink_metadata(&path).is_ok_and(|found| !found.is_dir() || marked(&path))
        })
}

/// The places below a root where something else is mounted.
fn mounts(root: &Path) -> Vec<PathBuf> {
    let all = fs::read_to_string("/proc/self/mounts").expect("Linux has it");
    // The kernel writes a blank in a path as \040.
    let places = all
        .lines()
        .filter_map(|line| line.split(' ').nth(1))
        .map(|place| place.replace("\\040", " "));
    let below = places.filter_map(|place| {
        Path::new(&place)
            .strip_prefix(root)
            .ok()
            .map(Path::to_owned)
    });
    below
        .filter(|place| !place.as_os_str().is_empty())
        .collect()
}

fn entries(directory: &Path) -> Vec<PathBuf> {
    fs::read_dir(directory)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| PathBuf::from(entry.file_name()))
        .collect()
}

fn is_ignored(path: &Path, ignored: &str) -> bool {
    match ignored.strip_suffix('*') {
        Some(beginning) => path.to_string_lossy().starts_with(beginning),
        None => path == Path::new(ignored),
    }
}

fn change(old: &Path, was: &Metadata, new: &Path, is: &Metadata) -> Option<&'static str> {
    let kind = |of: &Metadata| {
        (
            of.is_dir(),
            of.is_file(),
            of.is_symlink(),
            of.file_type().is_char_device(),
        )
    };
    if kind(was) != kind(is) {
        Some("in kind")
    } else if !was.is_symlink() && was.mode() != is.mode() {
        Some("in mode")
    } else if (was.uid(), was.gid()) != (is.uid(), is.gid()) {
        Some("in owner")
    } else if was.is_symlink() && fs::read_link(old).ok() != fs::read_link(new).ok() {
        Some("in target")
    } else if was.is_file() && !same_content(old, was, new, is) {
        Some("in content")
    } else {
        None
    }
}

/// A file that a clone never wrote has the size and the time of the original: most need not be
/// read.
fn same_content(old: &Path, was: &Metadata, new: &Path, is: &Metadata) -> bool {
    let stamp = |of: &Metadata| (of.size(), of.mtime(), of.mtime_nsec());
    stamp(was) == stamp(is) || (was.size() == is.size() && fs::read(old).ok() == fs::read(new).ok())
}
