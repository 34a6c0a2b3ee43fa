//! Which files a folder or a pattern in an engine's configuration stands for.

use gpusetup_database::compat::Engine;
use gpusetup_packages::pattern_matches;
use gpusetup_system::{Node, System};
use std::path::{Component, Path, PathBuf};

/// How deep folders of configuration files are looked into.
const MAX_DEPTH: usize = 8;

/// The files in a folder of an engine's configuration, and in the folders there if the engine reads
/// them, too.
pub(super) fn parts(system: &System, engine: &Engine, folder: &Path) -> Vec<PathBuf> {
    let deepest = if engine.nested_parts { MAX_DEPTH } else { 0 };
    files_in(system, folder, deepest)
}

fn files_in(system: &System, folder: &Path, deepest: usize) -> Vec<PathBuf> {
    let paths = system
        .list(folder)
        .unwrap_or_default()
        .into_iter()
        .map(|name| folder.join(name));
    let files = paths.flat_map(|path| match system.node(&path) {
        Ok(Node::Directory) if deepest > 0 => files_in(system, &path, deepest - 1),
        Ok(Node::Directory) => Vec::new(),
        _ => vec![path],
    });
    files.collect()
}

/// The paths that a pattern stands for, in the order of their names:
/// `/etc/containerd/conf.d/*.toml`. A path without `*` stands for itself, whether it exists or not.
pub(super) fn matching(system: &System, pattern: &Path) -> Vec<PathBuf> {
    let mut found = vec![PathBuf::new()];
    for part in pattern.components() {
        let text = part.as_os_str().to_string_lossy();
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                for path in &mut found {
                    path.pop();
                }
            }
            _ if text.contains('*') => {
                found = found
                    .iter()
                    .flat_map(|folder| named(system, folder, &text))
                    .collect()
            }
            _ => found.iter_mut().for_each(|path| path.push(part)),
        }
    }
    found
}

/// What a folder has with a name of this pattern.
fn named(system: &System, folder: &Path, pattern: &str) -> Vec<PathBuf> {
    let names = system.list(folder).unwrap_or_default().into_iter();
    names
        .filter(|name| pattern_matches(pattern.as_bytes(), name.as_bytes()))
        .map(|name| folder.join(name))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::{tree, write};
    use super::*;

    #[test]
    fn a_pattern_stands_for_the_files_with_such_names() {
        let (_dir, system) = tree();
        for path in [
            "/etc/a/2.toml",
            "/etc/a/1.toml",
            "/etc/a/1.bak",
            "/etc/b/1.toml",
        ] {
            write(&system, path, b"", 0o644);
        }
        let found = |pattern: &str| matching(&system, Path::new(pattern));
        assert_eq!(
            found("/etc/a/*.toml"),
            [Path::new("/etc/a/1.toml"), Path::new("/etc/a/2.toml")]
        );
        assert_eq!(
            found("/etc/*/1.toml"),
            [Path::new("/etc/a/1.toml"), Path::new("/etc/b/1.toml")]
        );
        assert_eq!(found("/etc/a/../c/./x.toml"), [Path::new("/etc/c/x.toml")]);
        assert!(found("/etc/c/*.toml").is_empty());
    }
}
