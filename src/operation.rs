//! The nine operations that steps are made of. An operation is data: it is printed, hashed, journalled, carried out and
//! undone, and whoever needs one of these writes it once, here, for all steps. What a GPU is, operations do not know.

pub mod file;
pub mod locks;
pub mod packages;
pub mod program;
pub mod runfile;
pub mod service;
pub mod shell;
pub mod supply;
pub mod undo;
pub mod unpack;
pub mod valid;

pub use packages::Packages;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// One change of the host, or one thing asked of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Operation {
    /// Puts a file there, with these bytes and this mode, owned by root. Directories above it are made.
    WriteFile {
        /// Where.
        path: PathBuf,
        /// Its whole text.
        content: String,
        /// Its permissions.
        mode: u32,
    },
    /// Puts a link there. A file that stands there is replaced only when it is a copy of what the link leads to.
    Link {
        /// Where.
        path: PathBuf,
        /// What it points to, as written in it.
        target: PathBuf,
        /// The SONAME that the ELF file at the end of the chain must have.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        soname: Option<String>,
    },
    /// Removes a file, a link, or a directory with all that is in it.
    Remove {
        /// What.
        path: PathBuf,
    },
    /// Fetches a file into the cache and verifies it. Nothing unverified is ever there under its name.
    Download {
        /// Where it is published.
        url: String,
        /// Its sum, in lower-case hexadecimal.
        sha256: String,
        /// Its size in bytes, where known: no more is ever read.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        size: Option<u64>,
        /// Where it goes.
        to: PathBuf,
    },
    /// Unpacks a verified archive's folders into place, links kept as links, everything readable by all.
    Unpack {
        /// The file in the cache.
        archive: PathBuf,
        /// Its sum.
        sha256: String,
        /// What of it goes where; the archive's outermost folder is left out of the names.
        into: Vec<Placement>,
        /// How much may be in it; without, as much as its size makes likely.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        limit: Option<Limit>,
    },
    /// Runs a program: argv and never a shell.
    Run {
        /// The program and its arguments.
        argv: Vec<String>,
        /// Variables beside the fixed environment that every child gets.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        environment: BTreeMap<String, String>,
        /// Files of the cache that it executes, with their sums: they are verified right before, and run from a folder of their
        /// own ([`runfile::folder`]).
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        verified: Vec<Verified>,
        /// Trees that it makes. Those that were not there before are removed again by undo; one that was is not ours.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        creates: Vec<PathBuf>,
        /// Files and links that it may change: they are saved before, and put back by undo.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        changes: Vec<PathBuf>,
        /// Trees that it removes, for good: undo can only name them. Once they are gone there is nothing left to run.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        removes: Vec<PathBuf>,
        /// What takes it back, run before `creates` and `changes` are put right.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        undo: Vec<String>,
        /// It only asks, and changes nothing: there is nothing to undo.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        asks: bool,
        /// A text that its output must hold.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        expects: Option<String>,
        /// Seconds after which it is ended.
        limit: u64,
    },
    /// Installs and removes packages in one transaction of the package manager.
    Packages(Packages),
    /// Enables or disables a unit, and starts or stops it where systemd runs.
    Service {
        /// The unit.
        unit: String,
        /// Whether it is to run, now and at every boot.
        enabled: bool,
    },
    /// Boots the host again. The plan goes on behind it.
    Reboot {},
}

/// How the host stands to an operation, before it is carried out and after.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// It is so already.
    Satisfied,
    /// It is to be done.
    Needed,
    /// Something is in the way that is not ours to move.
    Conflict(String),
}

/// What of an archive goes where.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Placement {
    /// A folder or a file in the archive, `lib`; `.` is all that no placement before it takes.
    pub from: PathBuf,
    /// Where it goes, `/usr/local/cuda-12.8/lib64`.
    pub to: PathBuf,
}

/// How much an archive may hold: what says more is made to fill a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limit {
    /// Files, folders and links.
    pub files: u64,
    /// Bytes of all its files.
    pub bytes: u64,
}

/// A file of the cache and what it must be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Verified {
    /// The file.
    pub path: PathBuf,
    /// Its sum.
    pub sha256: String,
}

impl Operation {
    /// A program that changes nothing: an answer is asked of the host.
    pub fn ask<S: Into<String>>(argv: impl IntoIterator<Item = S>, answer: Option<String>) -> Self {
        let mut run = Self::run(argv, 60);
        if let Self::Run { asks, expects, .. } = &mut run {
            (*asks, *expects) = (true, answer);
        }
        run
    }

    /// A program that changes the host, for `limit` seconds at most; what it makes, changes and removes is said by the
    /// methods beside this one.
    pub fn run<S: Into<String>>(argv: impl IntoIterator<Item = S>, limit: u64) -> Self {
        Self::Run {
            argv: argv.into_iter().map(Into::into).collect(),
            environment: BTreeMap::new(),
            verified: Vec::new(),
            creates: Vec::new(),
            changes: Vec::new(),
            removes: Vec::new(),
            undo: Vec::new(),
            asks: false,
            expects: None,
            limit,
        }
    }

    /// It executes this file of the cache.
    pub fn executing(mut self, path: PathBuf, sha256: String) -> Self {
        if let Self::Run { verified, .. } = &mut self {
            verified.push(Verified { path, sha256 });
        }
        self
    }

    /// It makes these trees.
    pub fn creating(mut self, trees: impl IntoIterator<Item = PathBuf>) -> Self {
        if let Self::Run { creates, .. } = &mut self {
            creates.extend(trees);
        }
        self
    }

    /// It may change these files and links.
    pub fn changing(mut self, paths: impl IntoIterator<Item = PathBuf>) -> Self {
        if let Self::Run { changes, .. } = &mut self {
            changes.extend(paths);
        }
        self
    }

    /// It removes these trees, for good.
    pub fn removing(mut self, trees: impl IntoIterator<Item = PathBuf>) -> Self {
        if let Self::Run { removes, .. } = &mut self {
            removes.extend(trees);
        }
        self
    }

    /// This program takes it back.
    pub fn undone_by<S: Into<String>>(mut self, argv: impl IntoIterator<Item = S>) -> Self {
        if let Self::Run { undo, .. } = &mut self {
            undo.extend(argv.into_iter().map(Into::into));
        }
        self
    }

    /// Whether the package manager downloads something: it alone knows how much, with all dependencies.
    pub fn installs_packages(&self) -> bool {
        matches!(self, Self::Packages(packages) if !packages.install.is_empty())
    }

    /// What it does, in a line for a person.
    pub fn describe(&self) -> String {
        let list = |words: &[String]| words.join(", ");
        match self {
            Self::WriteFile { path, .. } => format!("write {}", path.display()),
            Self::Link { path, target, .. } => format!("link {} -> {}", path.display(), target.display()),
            Self::Remove { path } => format!("remove {}", path.display()),
            Self::Download { url, .. } => format!("download {url}"),
            Self::Unpack { archive, into, .. } => {
                let name = Path::new(archive.file_name().unwrap_or_default()).display();
                // What goes below another place is in there.
                let within = |p: &&Placement| into.iter().any(|o| o.to != p.to && p.to.starts_with(&o.to));
                let to: Vec<_> = into.iter().filter(|p| !within(p)).map(|p| p.to.display().to_string()).collect();
                format!("unpack {name} into {}", to.join(", "))
            }
            Self::Run { argv, .. } => format!("run {}", program::described(argv)),
            Self::Packages(p) if p.remove.is_empty() => format!("install {}", list(&p.install)),
            Self::Packages(p) if p.install.is_empty() => format!("remove {}", list(&p.remove)),
            Self::Packages(p) => format!("install {}; remove {}", list(&p.install), list(&p.remove)),
            Self::Service { unit, enabled: true } => format!("enable {unit}"),
            Self::Service { unit, enabled: false } => format!("disable {unit}"),
            Self::Reboot {} => "reboot".to_owned(),
        }
    }
}
