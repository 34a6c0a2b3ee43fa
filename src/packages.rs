//! The package managers, a file each: how they are called, what they lock and print, and what a host's repositories offer.
//!
//! What is offered is read from the files that the package manager has already downloaded. No program is started and nothing is
//! downloaded, so a tree that belongs to strangers can be asked as safely as the live host. The answers are those of
//! `apt-cache policy`, `dnf repoquery --available` and `zypper search --details`. What cannot be understood is [`Unknown`],
//! never a guess.

mod apt;
mod commands;
mod dnf;
mod glob;
pub mod ini;
pub mod locks;
pub mod messages;
mod records;
mod rpm;
pub mod supply;
mod tdnf;
mod zypper;

pub use apt::{SOURCE as APT_SOURCE, source as apt_source, stanza};
pub use commands::{Commands, words};

use crate::compat::PackageManager;
use crate::system::{System, input};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::path::{Path, PathBuf};

/// Versions of packages, by their names.
pub type Versions = BTreeMap<String, String>;

/// Why it is not known what the repositories offer.
#[derive(Debug, thiserror::Error)]
pub enum Unknown {
    /// The package manager never downloaded its lists, or they were removed.
    #[error("the lists of packages were never downloaded")]
    NotFetched,
    /// Repositories were added, changed or removed after the lists were downloaded.
    #[error("the lists of packages are older than the list of repositories")]
    Outdated,
    /// A file that cannot be read, or that says something not supported here.
    #[error("{}: {why}", path.display())]
    NotUnderstood {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
}

impl Unknown {
    fn at(path: impl AsRef<Path>, why: impl Display) -> Self {
        Self::NotUnderstood { path: path.as_ref().to_owned(), why: why.to_string() }
    }
}

/// The version of each package that would be installed, for those of `names` that can be installed. A version in `locked`
/// comes first if it can still be had.
pub fn offered_versions(
    system: &System,
    manager: PackageManager,
    names: &BTreeSet<&str>,
    locked: &Versions,
) -> Result<Versions, Unknown> {
    match manager {
        PackageManager::Apt => apt::offered_versions(system, names, locked),
        PackageManager::Dnf => dnf::offered_versions(system, names, locked),
        // How it names the folders of its lists is not known here.
        PackageManager::Tdnf => Err(Unknown::NotFetched),
        PackageManager::Zypper => zypper::offered_versions(system, names, locked),
    }
}

/// The commands of a manager.
pub fn commands(manager: PackageManager) -> &'static Commands {
    match manager {
        PackageManager::Apt => &apt::COMMANDS,
        PackageManager::Dnf => &dnf::COMMANDS,
        PackageManager::Tdnf => &tdnf::COMMANDS,
        PackageManager::Zypper => &zypper::COMMANDS,
    }
}

/// A text file of the configuration; empty if it does not exist.
fn configuration(system: &System, path: &Path) -> Result<String, Unknown> {
    const LIMIT: u64 = 1 << 20;
    let file = match system.open(path) {
        Ok(file) => file,
        Err(e) if crate::system::is_absent(&e) => return Ok(String::new()),
        Err(e) => return Err(Unknown::at(path, e)),
    };
    let bytes = input::limited(file, LIMIT).map_err(|e| Unknown::at(path, e))?;
    let bytes = bytes.ok_or_else(|| Unknown::at(path, "it is larger than 1 MiB"))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// For fuzzing: reads a text as each file that is read here.
#[cfg(fuzzing)]
pub fn read_anything(text: &str) {
    apt::read_anything(text);
    rpm::read_anything(text);
    zypper::read_anything(text);
    let _ = ini::sections(text);
}
