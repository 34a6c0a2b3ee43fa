//! The package managers, a file each: how they are called, what they lock and print, what is installed and by whom, what a
//! host's repositories offer, and how packages are fetched for another host.
//!
//! What differs between them is in one value of [`Manager`], which [`of`] has; nothing outside asks which manager it is.
//! What two managers share is in a file that says so: `rpm`, `ini`, `repositories`, `record`. A new manager is a variant of
//! [`PackageManager`], a file with its `MANAGER`, and a row in the table below.
//!
//! What is offered is read from the files that the package manager has already downloaded. No program is started and nothing is
//! downloaded, so a tree that belongs to strangers can be asked as safely as the live host. The answers are those of
//! `apt-cache policy`, `dnf repoquery --available` and `zypper search --details`. What cannot be understood is [`Unknown`],
//! never a guess.

mod abilities;
mod apt;
mod asked;
mod dnf;
mod fetcher;
mod glob;
mod ini;
pub mod locks;
mod manager;
pub mod messages;
mod owners;
mod record;
mod records;
mod repositories;
mod rpm;
pub mod supply;
mod tdnf;
mod zypper;

pub use abilities::{AutomaticMarks, Interruption, Preferences, Simulated, Simulation};
pub use apt::{AptSource, apt_sources};
pub use asked::{is_among, is_asked_for};
pub use fetcher::{Fetcher, FolderFiles, Index, LocalPackages, MadeIndex, WrittenIndex};
pub use manager::{ByHand, EachFile, KernelHeaders, Manager, behind_program, words};
pub use owners::owners;
pub use record::{Installed, Journal, RecordFile, Scan, upstream};
pub use repositories::Repositories;

use crate::compat::PackageManager;
use crate::system::{System, input};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::path::{Path, PathBuf};

/// Makes the table of all managers: each variant with the value in its file. A host's manager is the first whose program is there.
macro_rules! managers {
    ($($kind:ident => $row:path,)+) => {
        /// All of them, in the order in which a host is asked for them.
        pub const ALL: &[PackageManager] = &[$(PackageManager::$kind),+];

        /// What is known of a manager.
        pub fn of(manager: PackageManager) -> &'static Manager {
            match manager {
                $(PackageManager::$kind => &$row,)+
            }
        }
    };
}

// dpkg can be installed on Fedora and rpm on Debian: what counts is the tool that resolves dependencies.
managers! {
    Apt => apt::MANAGER,
    Zypper => zypper::MANAGER,
    // Beside tdnf, dnf is an optional program with a separate history.
    Tdnf => tdnf::MANAGER,
    Dnf => dnf::MANAGER,
}

/// What is assumed of a host whose manager is not known.
pub const ASSUMED: PackageManager = PackageManager::Apt;

/// What is known of a host's manager, or of the one that is assumed.
pub fn of_host(manager: Option<PackageManager>) -> &'static Manager {
    of(manager.unwrap_or(ASSUMED))
}

/// The manager of a host, by its programs.
pub fn find(is_there: impl Fn(&str) -> bool) -> Option<PackageManager> {
    ALL.iter().copied().find(|manager| of(*manager).programs.iter().any(|program| is_there(program)))
}

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
    (of(manager).offered_versions)(system, names, locked)
}

/// Whether a line of the enabled repositories is one that a mark means: a part of its address, or what the manager takes for
/// its name.
pub fn is_meant(line: &str, mark: &str, manager: Option<PackageManager>) -> bool {
    if mark.contains('/') {
        return line.contains(mark);
    }
    match manager {
        Some(manager) => (of(manager).is_meant)(line, mark),
        None => rpm::repositories::is_meant(line, mark),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repository_is_known_by_its_components_its_name_or_its_address() {
        let (apt, dnf) = (Some(PackageManager::Apt), Some(PackageManager::Dnf));
        for (line, mark, manager, want) in [
            ("http://deb.debian.org/debian bookworm non-free", "non-free", apt, true),
            ("http://deb.debian.org/debian bookworm non-free-firmware", "non-free", apt, false),
            ("http://security.debian.org bullseye-security non-free", "bullseye-security non-free", apt, true),
            ("http://deb.debian.org/debian bullseye non-free", "bullseye-security non-free", apt, false),
            ("https://mirrors.example/metalink?repo=epel-9&arch=$basearch epel", "epel", dnf, true),
            (
                "https://yum.example/repo/OracleLinux/OL9/developer/EPEL/$basearch/ ol9_developer_EPEL",
                "epel",
                dnf,
                true,
            ),
            ("https://dl.example/pub/rocky/9/BaseOS/x86_64/os baseos", "epel", dnf, false),
            ("https://cuda.example/compute/cuda/repos/rhel9/x86_64/ cuda", "example/compute/cuda/repos", dnf, true),
        ] {
            assert_eq!(is_meant(line, mark, manager), want, "{line}: {mark}");
        }
    }
}
