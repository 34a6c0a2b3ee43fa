//! A repository that is added to a host: its files, in the manager's format, and the command that
//! fetches its lists.

use gpusetup_system::System;
use std::io;
use std::path::PathBuf;

/// A repository to add, and what may come from it.
#[derive(Debug, Clone, Copy)]
pub struct NewRepository<'a> {
    /// The name of its files: letters, digits, dashes and underscores.
    pub name: &'a str,
    /// Its address, without a slash at its end.
    pub url: &'a str,
    /// Whether its lists have no signature, only its packages.
    pub unsigned_lists: bool,
    /// What its list says of itself, if the manager takes packages from it by that:
    /// `o=NVIDIA,l=NVIDIA CUDA`.
    pub release: Option<&'a str>,
    /// Patterns of the packages that may come from it in the driver's branch.
    pub packages: &'a [String],
    /// Patterns of the packages that may come from it in any version.
    pub any_version: &'a [String],
    /// Patterns of packages that may not, although they match.
    pub except: &'a [String],
    /// The driver's branch.
    pub branch: u16,
    /// The files of the keys that sign it.
    pub keys: &'a [PathBuf],
}

/// Something that a manager keeps about a repository outside of the repository's files: a trusted
/// key, or a lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// The command that makes it.
    pub make: Vec<String>,
    /// The command that removes it.
    pub remove: Vec<String>,
}

/// Finds the notes about a repository of this name, signed by keys with these fingerprints.
pub(crate) type FindNotes = fn(&System, name: &str, fingerprints: &[&str]) -> io::Result<Vec<Note>>;

/// Locks that keep some versions of packages of one repository away.
#[derive(Debug)]
pub struct RepositoryLocks {
    /// Finds those of all repositories that gpusetup added.
    pub all: fn(&System) -> io::Result<Vec<Note>>,
    /// A line of a script that removes those of a repository, by its name.
    pub removal: fn(name: &str) -> String,
}

/// A folder of a host, and the options that have the manager read another one instead.
pub type Folder = (&'static str, fn(&str) -> Vec<String>);

/// How a manager takes another repository.
#[derive(Debug)]
pub struct RepositoryFormat {
    /// The path of a key, by its fingerprint.
    pub key: fn(fingerprint: &str) -> PathBuf,
    /// The paths of its other files, by its name.
    pub paths: fn(name: &str) -> Vec<PathBuf>,
    /// The texts of these files, in the same order.
    pub texts: fn(&NewRepository) -> Vec<String>,
    /// The host's folders of such files, each with the options that have the manager read another
    /// folder instead.
    pub folders: &'static [Folder],
    /// The commands that make notes about it, each one note, once its files are there.
    pub notes: fn(&NewRepository) -> Vec<Vec<String>>,
    /// The notes that the manager has.
    pub noted: FindNotes,
    /// Its locks, if the manager keeps packages of a repository away with locks.
    pub locks: Option<RepositoryLocks>,
    /// Whether its files or notes say which branch comes from it, so that new ones change the
    /// branch.
    pub has_branch: bool,
    /// The command that fetches the lists of this repository alone, by its name, and fails if the
    /// keys do not sign them.
    pub refresh: fn(name: &str) -> Vec<String>,
}

impl RepositoryFormat {
    /// Every path of a repository with this name and these keys, keys first.
    pub fn all_paths<'k>(
        &self,
        name: &str,
        fingerprints: impl IntoIterator<Item = &'k str>,
    ) -> Vec<PathBuf> {
        fingerprints
            .into_iter()
            .map(self.key)
            .chain((self.paths)(name))
            .collect()
    }
}

/// The first line of files that are written: whose they are, and what removes them.
pub(crate) const HEADER: &str =
    "# Written by gpusetup; `gpusetup uninstall` removes it with what was installed from it.\n";
