//! The undo of an operation: what stood before, kept where a power cut cannot take it. Undoing
//! twice, or undoing what never happened, does no harm; what somebody else has changed since is
//! left, and named.

use gpusetup_database::compat::PackageManager;
use gpusetup_nvidia::DeviceState;
use gpusetup_system::{Node, System};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

/// Ends the name of a folder that was moved aside.
pub(crate) const ASIDE: &str = ".gpusetup-removed";

/// Where a folder that is to be removed goes until the apply has come to its end: beside itself, so
/// that it is one rename there and back, however many files are in it.
pub(crate) fn aside(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}{ASIDE}"))
}

/// How one thing is undone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "undo", rename_all = "kebab-case")]
pub enum Undo {
    /// A path gets back what stood there.
    Path {
        path: PathBuf,
        /// What stood there.
        before: Node,
        /// The copy of its bytes, for a file.
        backup: Option<PathBuf>,
        /// What the operation leaves there, where that is known before: anything else is somebody's
        /// later work.
        after: Option<Node>,
    },
    /// A directory that was made on the way goes, unless something is in it by then.
    Directory {
        /// The file or directory.
        path: PathBuf,
    },
    /// A program takes it back.
    Program {
        /// It and its arguments.
        argv: Vec<String>,
    },
    /// Packages that were added go, and those that were removed come back.
    Packages(Transaction),
    /// Packages that were released are held again, or the reverse.
    Hold {
        manager: PackageManager,
        packages: Vec<String>,
        /// Whether they were held.
        held: bool,
    },
    /// What the package manager noted about a repository that was added goes, keys and locks, and
    /// what it had noted before comes back.
    Notes {
        manager: PackageManager,
        /// The repository's name.
        repository: String,
        /// The fingerprints of its keys.
        keys: Vec<String>,
        /// The commands that remove the notes that were there before: those stay.
        before: Vec<Vec<String>>,
        /// The commands that make the notes again that the operation removes.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        again: Vec<Vec<String>>,
    },
    /// A unit gets back the state that it had.
    Unit {
        /// The systemd unit.
        unit: String,
        /// Whether it was enabled.
        enabled: bool,
    },
    /// A unit is restarted if it runs, after everything else was undone.
    Restart {
        /// The systemd unit.
        unit: String,
    },
    /// A GPU gets a piece of its state back.
    Device {
        /// The GPU, by its bus address or its UUID.
        gpu: String,
        /// The state that it had.
        before: DeviceState,
        /// The state that the operation leaves: any other is somebody's later work.
        after: DeviceState,
    },
    /// A request to enrol a key is withdrawn; a key that is enrolled by then is named.
    Enrolment {
        /// The common name of its certificate.
        name: String,
        /// The SHA-256 of its certificate.
        sha256: String,
    },
    /// A tree that was not there goes, with all that is in it.
    Tree {
        /// The file or directory.
        path: PathBuf,
    },
    /// A tree that was moved aside comes back, until the apply that removes it has come to its end.
    Aside {
        /// Where it was.
        path: PathBuf,
        aside: PathBuf,
    },
    /// A tree that a program removes for good.
    Gone {
        /// The file or directory.
        path: PathBuf,
    },
}

/// What a transaction of the package manager did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transaction {
    pub(crate) manager: PackageManager,
    /// The packages that were there; empty once it is known what was added.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) before: Vec<String>,
    /// What was added, once it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) added: Option<Vec<String>>,
    /// Packages of it that were there as dependencies only: a package manager that is asked for one
    /// by name marks it as wanted by a person, and would keep it for ever.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) automatic: Vec<String>,
    /// Files that were not there, that programs of these packages make, and that no package owns.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) unowned: Vec<PathBuf>,
    /// What was removed, with its version.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) removed: BTreeMap<String, String>,
    /// The packages of the driver that was there. Once it is known, those that were changed to
    /// another version.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) driver: BTreeMap<String, Versions>,
}

/// The version of a package before a transaction, and after it, once that is known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Versions {
    pub(crate) before: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) after: Option<String>,
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

    /// What is needed to give `path` back as it stands now. `after` is what will stand there, where
    /// that is known.
    pub(crate) fn save(
        &mut self,
        on: &System,
        path: &Path,
        after: Option<Node>,
    ) -> io::Result<Undo> {
        let before = on.node(path)?;
        let mut backup = None;
        if matches!(before, Node::File { .. }) {
            let copy = self.folder.join(self.next.to_string());
            self.next += 1;
            on.make_directories(&self.folder, 0o700)?;
            on.copy(&mut on.open(path)?, &copy, 0o600)?;
            backup = Some(copy);
        }
        Ok(Undo::Path {
            path: path.to_owned(),
            before,
            backup,
            after,
        })
    }

    /// The same for a file that is open, whose text this is: whatever stands at its path by now is
    /// not read.
    pub(crate) fn save_text(
        &mut self,
        on: &System,
        path: &Path,
        text: &str,
        before: Node,
        after: Node,
    ) -> io::Result<Undo> {
        let copy = self.folder.join(self.next.to_string());
        self.next += 1;
        on.make_directories(&self.folder, 0o700)?;
        on.write(&copy, text.as_bytes(), 0o600)?;
        Ok(Undo::Path {
            path: path.to_owned(),
            before,
            backup: Some(copy),
            after: Some(after),
        })
    }
}

/// The ways back from making the directories above `path`, outermost first, as undo must take them
/// in reverse.
pub(crate) fn missing_parents(on: &System, path: &Path) -> Vec<Undo> {
    let mut missing: Vec<_> = path
        .ancestors()
        .skip(1)
        .take_while(|p| !on.exists(p))
        .map(|p| Undo::Directory { path: p.to_owned() })
        .collect();
    missing.reverse();
    missing
}
