//! A directory tree in memory, written to disk for each attack.

use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

#[derive(Clone)]
enum Node {
    Directory,
    File(Arc<[u8]>),
    Link(PathBuf),
}

/// The content of a directory: relative paths, each with its permissions.
#[derive(Clone, Default)]
pub struct Model(BTreeMap<PathBuf, (Node, u32)>);

impl Model {
    /// Reads a directory.
    pub fn read(folder: &Path) -> Self {
        let mut model = Self::default();
        model.gather(folder, Path::new(""));
        model
    }

    fn gather(&mut self, from: &Path, name: &Path) {
        let path = from.join(name);
        let meta = path.symlink_metadata().expect("it is there");
        let kind = meta.file_type();
        let node = match kind {
            k if k.is_symlink() => Node::Link(fs::read_link(&path).expect("a link")),
            k if k.is_dir() => Node::Directory,
            _ => Node::File(fs::read(&path).expect("readable").into()),
        };
        if name != Path::new("") {
            self.0
                .insert(name.to_owned(), (node, meta.permissions().mode() & 0o7777));
        }
        for entry in kind
            .is_dir()
            .then(|| fs::read_dir(&path))
            .into_iter()
            .flatten()
            .flatten()
            .flatten()
        {
            self.gather(from, &name.join(entry.file_name()));
        }
    }

    /// Writes everything to a directory.
    pub fn make(&self, folder: &Path) {
        fs::create_dir_all(folder).expect("made");
        for (name, (node, mode)) in &self.0 {
            let path = folder.join(name);
            match node {
                Node::Directory => fs::create_dir(&path).expect("made"),
                Node::File(bytes) => fs::write(&path, bytes).expect("written"),
                Node::Link(target) => symlink(target, &path).expect("linked"),
            }
            if !matches!(node, Node::Link(_)) {
                fs::set_permissions(&path, fs::Permissions::from_mode(*mode)).expect("ours");
            }
        }
    }

    /// Adds a file and its parent directories.
    pub fn with(mut self, path: &str, bytes: impl AsRef<[u8]>) -> Self {
        let path = PathBuf::from(path);
        for folder in path.ancestors().skip(1).filter(|f| *f != Path::new("")) {
            self.0
                .entry(folder.to_owned())
                .or_insert((Node::Directory, 0o755));
        }
        self.0
            .insert(path, (Node::File(bytes.as_ref().into()), 0o644));
        self
    }

    /// Adds the content of another; its files win.
    pub fn under(mut self, other: Self) -> Self {
        self.0.extend(other.0);
        self
    }

    /// The content of a subdirectory.
    pub fn below(&self, folder: &Path) -> Self {
        let below = self
            .0
            .iter()
            .filter_map(|(path, node)| Some((path.strip_prefix(folder).ok()?, node)));
        Self(
            below
                .filter(|(path, _)| *path != Path::new(""))
                .map(|(p, n)| (p.to_owned(), n.clone()))
                .collect(),
        )
    }

    /// Whether the path is a directory.
    pub fn is_directory(&self, path: &Path) -> bool {
        matches!(self.0.get(path), Some((Node::Directory, _)))
    }

    /// Whether the path can be created: every parent is a directory or does not exist.
    pub fn has_room(&self, path: &Path) -> bool {
        path.ancestors().skip(1).all(|above| {
            self.0
                .get(above)
                .is_none_or(|(node, _)| matches!(node, Node::Directory))
        })
    }

    /// Resolves the links in a path, except for its last component. The first component is the root
    /// directory for absolute links.
    pub fn resolve(&self, path: &Path) -> Option<PathBuf> {
        let mut todo: VecDeque<_> = names(path).into();
        let root = PathBuf::from(todo.pop_front()?);
        let (mut at, mut links) = (root.clone(), 0);
        while let Some(name) = todo.pop_front() {
            if name == ".." {
                if at != root {
                    at.pop();
                }
                continue;
            }
            at.push(name);
            if let (Some((Node::Link(target), _)), false) = (self.0.get(&at), todo.is_empty()) {
                links += 1;
                if links > 40 {
                    return None;
                }
                at.pop();
                if target.is_absolute() {
                    at.clone_from(&root);
                }
                names(target)
                    .into_iter()
                    .rev()
                    .for_each(|name| todo.push_front(name));
            }
        }
        Some(at)
    }
}

fn names(path: &Path) -> Vec<String> {
    let name = |c: Component| match c {
        Component::Normal(name) => name.to_str().map(str::to_owned),
        Component::ParentDir => Some("..".to_owned()),
        _ => None,
    };
    path.components().filter_map(name).collect()
}
