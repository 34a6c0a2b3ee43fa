//! The way back from an operation: what stood before, kept where a power cut cannot take it. Undoing twice, or undoing
//! what never happened, does no harm; what somebody else has changed since is left, and named.

use super::file::nothing_is_mounted_below;
use super::{packages, program, service};
use crate::compat::PackageManager;
use crate::system::{Node, Program, System};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
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
    /// Packages that were added go, and those that were removed come back.
    Packages(Transaction),
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
    /// A tree that was moved aside comes back, until the apply that removes it has come to its end.
    Aside {
        /// Where it was.
        path: PathBuf,
        /// Where it is.
        aside: PathBuf,
    },
    /// A tree that a program removes for good.
    Gone {
        /// Which.
        path: PathBuf,
    },
}

/// What a transaction of the package manager did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transaction {
    /// Whose.
    pub manager: PackageManager,
    /// The packages that were there; empty once it is known what was added.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub before: Vec<String>,
    /// What was added, once it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub added: Option<Vec<String>>,
    /// Packages of it that were there as dependencies only: a package manager that is asked for one by name marks it as wanted by
    /// a person, and would keep it for ever.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub automatic: Vec<String>,
    /// Files that were not there, that programs of these packages make, and that no package owns.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unowned: Vec<PathBuf>,
    /// What was removed, with its version.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub removed: BTreeMap<String, String>,
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
            on.copy(&mut on.open(path)?, &copy, 0o600)?;
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
    /// Takes it back; names what stays as it is, because somebody changed it since or because it is gone for good.
    pub fn perform(&self, on: &System) -> io::Result<Vec<String>> {
        let left = match self {
            Self::Packages(done) => return packages::take_back(on, done),
            Self::Path { path, before, backup, after } => {
                put_right(on, path, before, backup.as_deref(), after.as_ref())?.then_some(path)
            }
            Self::Directory { path } => remove_empty(on, path)?.then_some(path),
            Self::Program { argv } => {
                // What was never installed has no uninstaller, and needs none.
                if argv.first().is_none_or(|p| !p.starts_with('/') || on.exists(p)) {
                    let output = on.run(&Program::new(argv.clone()).limit(Duration::from_secs(1800)).undisturbed())?;
                    program::judge(&argv.join(" "), &output, None).map_err(io::Error::other)?;
                }
                None
            }
            Self::Unit { unit, enabled } => {
                service::set(on, unit, *enabled).map_err(io::Error::other)?;
                None
            }
            Self::Tree { path } => {
                nothing_is_mounted_below(on, path)?;
                on.remove_tree(path)?;
                None
            }
            Self::Aside { path, aside } => match (on.exists(path), on.exists(aside)) {
                (false, true) => {
                    on.rename(aside, path)?;
                    None
                }
                (true, false) => None,
                (true, true) | (false, false) => Some(path),
            },
            Self::Gone { path } => (!on.exists(path)).then_some(path),
        };
        Ok(left.into_iter().map(|path| path.display().to_string()).collect())
    }

    /// With what stands there now as what the operation left there: anything else is from now on somebody's later work.
    pub fn learned(self, on: &System) -> io::Result<Self> {
        Ok(match self {
            Self::Path { path, before, backup, after: None } => {
                let after = Some(on.node(&path)?);
                Self::Path { path, before, backup, after }
            }
            Self::Packages(intended) => Self::Packages(packages::learned(on, intended)?),
            other => other,
        })
    }
}

/// Gives a path back what stood there; true when it was left instead.
fn put_right(on: &System, path: &Path, before: &Node, backup: Option<&Path>, after: Option<&Node>) -> io::Result<bool> {
    on.remove_unfinished(path)?;
    let now = on.node(path)?;
    if now == *before {
        return Ok(false);
    }
    // Whose a file is says who runs us, and which group its folder hands on: no change of anybody's.
    let same = |after: &Node| match (after, &now) {
        (Node::File { sha256: a, mode: m, .. }, Node::File { sha256: b, mode: n, .. }) => (a, m) == (b, n),
        (after, now) => after == now,
    };
    if after.is_some_and(|after| !same(after)) {
        return Ok(true);
    }
    match (before, backup) {
        (Node::File { mode, uid, gid, .. }, Some(copy)) => {
            on.copy(&mut on.open(copy)?, path, *mode)?;
            on.own(path, *uid, *gid)?;
            Ok(false)
        }
        (Node::Link { target }, _) => on.link(path, target).map(|()| false),
        (Node::Absent, _) => remove_empty(on, path),
        // A directory or a device that stood there is nothing that an operation replaces.
        (Node::File { .. } | Node::Directory | Node::Other, _) => Ok(true),
    }
}

/// Removes a file, a link or a directory that has nothing in it; true when it was left because it has.
fn remove_empty(on: &System, path: &Path) -> io::Result<bool> {
    match on.remove(path) {
        Err(e) if e.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(true),
        removed => removed.map(|()| false),
    }
}
