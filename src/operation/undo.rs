//! The way back from an operation: what stood before, kept where a power cut cannot take it. Undoing twice, or undoing
//! what never happened, does no harm; what somebody else has changed since is left, and named.

use super::{packages, program, service};
use crate::compat::PackageManager;
use crate::system::{Node, Program, System};
use serde::{Deserialize, Serialize};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How one thing is taken back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "undo", rename_all = "kebab-case")]
pub enum Undo {
    /// A path gets back what stood there.
    Path {
        /// The path.
        path: PathBuf,
        /// What stood there.
        before: Node,
        /// The copy of its bytes, for a file.
        backup: Option<PathBuf>,
        /// What the operation leaves there, where that is known before: anything else is somebody's later work.
        after: Option<Node>,
    },
    /// A directory that was made on the way goes, unless something is in it by then.
    Directory {
        /// Which.
        path: PathBuf,
    },
    /// A program takes it back.
    Program {
        /// It and its arguments.
        argv: Vec<String>,
    },
    /// Packages that were added since go.
    Packages {
        /// Whose.
        manager: PackageManager,
        /// Those that were there.
        before: Vec<String>,
    },
    /// A unit gets back the state that it had.
    Unit {
        /// Which.
        unit: String,
        /// Whether it was enabled.
        enabled: bool,
    },
    /// A tree that was not there goes, with all that is in it.
    Tree {
        /// Which.
        path: PathBuf,
    },
}

/// Where copies of files go while a run may still be undone.
#[derive(Debug)]
pub struct Backups {
    folder: PathBuf,
    next: usize,
}

impl Backups {
    /// Copies below `folder`, numbered from `next` on: no number is used twice in a journal's life.
    pub fn new(folder: PathBuf, next: usize) -> Self {
        Self { folder, next }
    }

    /// What is needed to give `path` back as it stands now. `after` is what will stand there, where that is known.
    pub fn save(&mut self, on: &System, path: &Path, after: Option<Node>) -> io::Result<Undo> {
        let before = on.node(path)?;
        let mut backup = None;
        if matches!(before, Node::File { .. }) {
            let copy = self.folder.join(self.next.to_string());
            self.next += 1;
            on.make_directories(&self.folder, 0o700)?;
            on.write(&copy, &on.read(path)?, 0o600)?;
            backup = Some(copy);
        }
        Ok(Undo::Path { path: path.to_owned(), before, backup, after })
    }
}

/// The ways back from making the directories above `path`, outermost first, as undo must take them in reverse.
pub fn missing_parents(on: &System, path: &Path) -> Vec<Undo> {
    let mut missing: Vec<_> = path
        .ancestors()
        .skip(1)
        .take_while(|p| !on.exists(p))
        .map(|p| Undo::Directory { path: p.to_owned() })
        .collect();
    missing.reverse();
    missing
}

impl Undo {
    /// Takes it back; returns the path that was left because somebody changed it since.
    pub fn perform(&self, on: &System) -> io::Result<Option<PathBuf>> {
        match self {
            Self::Path { path, before, backup, after } => {
                on.remove_unfinished(path)?;
                let now = on.node(path)?;
                if now == *before {
                    return Ok(None);
                }
                if after.as_ref().is_some_and(|after| *after != now) {
                    return Ok(Some(path.clone()));
                }
                give_back(on, path, before, backup.as_deref())
            }
            Self::Directory { path } => match on.remove(path) {
                Err(e) if e.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(Some(path.clone())),
                removed => removed.map(|()| None),
            },
            Self::Program { argv } => {
                // What was never installed has no uninstaller, and needs none.
                if argv.first().is_some_and(|p| p.starts_with('/') && !on.exists(p)) {
                    return Ok(None);
                }
                let output = on.run(&Program::new(argv.clone()).limit(Duration::from_secs(1800)).undisturbed())?;
                program::judge(&argv.join(" "), &output, None).map_err(io::Error::other).map(|()| None)
            }
            Self::Packages { manager, before } => packages::take_back(on, *manager, before).map(|()| None),
            Self::Unit { unit, enabled } => service::set(on, unit, *enabled).map_err(io::Error::other).map(|()| None),
            Self::Tree { path } => on.remove_tree(path).map(|()| None),
        }
    }
}

fn give_back(on: &System, path: &Path, before: &Node, backup: Option<&Path>) -> io::Result<Option<PathBuf>> {
    match (before, backup) {
        (Node::File { mode, uid, gid, .. }, Some(copy)) => {
            on.write(path, &on.read(copy)?, *mode)?;
            on.own(path, *uid, *gid)?;
            Ok(None)
        }
        (Node::Link { target }, _) => on.link(path, target).map(|()| None),
        (Node::Absent, _) => match on.remove(path) {
            Err(e) if e.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(Some(path.to_owned())),
            removed => removed.map(|()| None),
        },
        // A directory or a device that stood there is nothing that an operation replaces.
        (Node::File { .. } | Node::Directory | Node::Other, _) => Ok(Some(path.to_owned())),
    }
}
