//! Compares two file trees: what is there, its kind, mode, owner, and content or target. Times do not count.

use std::collections::BTreeSet;
use std::fs::{self, Metadata};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Where two trees differ, a line for each path: `added`, `removed` or `changed`. `ignored` are paths below the root, with
/// all below them; one that ends in `*` stands for all that begin so.
pub fn differences(before: &Path, after: &Path, ignored: &[&str]) -> Vec<String> {
    let mut lines = Vec::new();
    compare(before, after, Path::new(""), ignored, &mut lines);
    lines
}

fn compare(before: &Path, after: &Path, at: &Path, ignored: &[&str], lines: &mut Vec<String>) {
    let names: BTreeSet<_> = entries(&before.join(at)).into_iter().chain(entries(&after.join(at))).collect();
    for name in names {
        let path = at.join(name);
        if ignored.iter().any(|ignored| is_ignored(&path, ignored)) {
            continue;
        }
        let (old, new) = (before.join(&path), after.join(&path));
        match (fs::symlink_metadata(&old), fs::symlink_metadata(&new)) {
            (Ok(was), Ok(is)) => {
                if let Some(what) = change(&old, &was, &new, &is) {
                    lines.push(format!("changed {what}: {}", path.display()));
                }
                if was.is_dir() && is.is_dir() {
                    compare(before, after, &path, ignored, lines);
                }
            }
            (Ok(_), Err(_)) => lines.push(format!("removed: {}", path.display())),
            _ => lines.push(format!("added: {}", path.display())),
        }
    }
}

fn entries(directory: &Path) -> Vec<PathBuf> {
    fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| PathBuf::from(entry.file_name())).collect()
}

fn is_ignored(path: &Path, ignored: &str) -> bool {
    match ignored.strip_suffix('*') {
        Some(beginning) => path.to_string_lossy().starts_with(beginning),
        None => path == Path::new(ignored),
    }
}

fn change(old: &Path, was: &Metadata, new: &Path, is: &Metadata) -> Option<&'static str> {
    let kind = |of: &Metadata| (of.is_dir(), of.is_file(), of.is_symlink(), of.file_type().is_char_device());
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

/// A file that a clone never wrote has the size and the time of the original: most need not be read.
fn same_content(old: &Path, was: &Metadata, new: &Path, is: &Metadata) -> bool {
    let stamp = |of: &Metadata| (of.size(), of.mtime(), of.mtime_nsec());
    stamp(was) == stamp(is) || (was.size() == is.size() && fs::read(old).ok() == fs::read(new).ok())
}
