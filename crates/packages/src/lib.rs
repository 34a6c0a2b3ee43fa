//! The package managers, one file each: their commands, locks and messages, what is installed,
//! which package owns a file, what the host's repositories offer, and how packages are downloaded
//! for another host.
//!
//! All differences between managers are in a [`Manager`] value, returned by [`of`]; no code outside
//! depends on the kind of manager. Code shared by several managers is in `rpm`, `ini`,
//! `repositories` and `record`. To add a manager, add a variant to [`PackageManager`], a file with
//! its `MANAGER`, and a row in the table below.
//!
//! Offers are read from the lists that the package manager has already downloaded. No program is
//! started and nothing is downloaded, so an untrusted tree can be read as safely as the live host.
//! The results are those of `apt-cache policy`, `dnf repoquery --available` and `zypper search
//! --details`. Input that is not understood is [`Unknown`], never a guess.

// clippy.toml lists what only `gpusetup-system` may call.
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod abilities;
mod added;
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
pub mod package_source;
mod record;
mod records;
mod repositories;
mod rpm;
mod tdnf;
mod zypper;

pub use abilities::{Holds, Interruption, Preferences, Simulated};

pub use added::{NewRepository, Note, RepositoryFormat};
pub use apt::{AptSource, apt_sources};
pub use asked::{is_among, is_asked_for};
pub use fetcher::{Fetcher, LocalPackages, MadeIndex, PackageIndex, WrittenIndex};

pub use glob::pattern_matches;
pub use manager::{ByHand, KernelHeaders, Manager, behind_program, words};

pub use owners::owners;
pub use record::{Installed, Journal, RecordFile, upstream};

pub use repositories::Repositories;

use gpusetup_database::compat::PackageManager;
use gpusetup_system::System;
use gpusetup_text::paths::HELD;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::path::{Path, PathBuf};

/// Makes the table of all managers: each variant with the value in its file. A host's manager is
/// the first whose program exists.
macro_rules! managers {
    ($($kind:ident => $row:path,)+) => {
        /// All managers, in the order in which they are looked for on a host.
        pub const ALL: &[PackageManager] = &[$(PackageManager::$kind),+];

        /// The properties of a manager.
        pub fn of(manager: PackageManager) -> &'static Manager {
            match manager {
                $(PackageManager::$kind => &$row,)+
            }
        }
    };
}

// dpkg can be installed on Fedora and rpm on Debian: the tool that resolves dependencies decides.
managers! {
    Apt => apt::MANAGER,
    Zypper => zypper::MANAGER,
    // On systems with tdnf, dnf is optional and has a separate history.
    Tdnf => tdnf::MANAGER,
    Dnf => dnf::MANAGER,
}

/// The manager assumed if the host's manager is not known.
pub const ASSUMED: PackageManager = PackageManager::Apt;

/// The properties of the host's manager, or of the assumed one.
pub fn of_host(manager: Option<PackageManager>) -> &'static Manager {
    of(manager.unwrap_or(ASSUMED))
}

/// The names that a kernel's initramfs may have in `/boot`.
pub fn initramfs_names(release: &str) -> impl Iterator<Item = String> {
    ALL.iter()
        .map(|manager| of(*manager).initramfs.replace("{release}", release))
}

/// The manager of a host, found by its programs.
pub fn find(is_there: impl Fn(&str) -> bool) -> Option<PackageManager> {
    ALL.iter().copied().find(|manager| {
        of(*manager)
            .programs
            .iter()
            .any(|program| is_there(program))
    })
}

/// Versions of packages by name.
pub type Versions = BTreeMap<String, String>;

/// Why the repositories' offers are not known.
#[derive(Debug, thiserror::Error)]
pub enum Unknown {
    /// The package manager never downloaded its lists, or they were removed.
    #[error("the package lists were never downloaded")]
    NotFetched,
    /// Repositories were added, changed or removed after the lists were downloaded.
    #[error("the package lists are older than the list of repositories")]
    Outdated,
    /// A file cannot be read, or contains something not supported here.
    #[error("{}: {why}", path.display())]
    NotUnderstood {
        /// The file.
        path: PathBuf,
        /// The problem.
        why: String,
    },
}

impl Unknown {
    fn at(path: impl AsRef<Path>, why: impl Display) -> Self {
        Self::NotUnderstood {
            path: path.as_ref().to_owned(),
            why: why.to_string(),
        }
    }
}

/// The version that would be installed of each package in `names`, if it can be installed. A
/// version in `locked` is preferred if it is still available.
pub fn offered_versions(
    system: &System,
    manager: PackageManager,
    names: &BTreeSet<&str>,
    locked: &Versions,
) -> Result<Versions, Unknown> {
    (of(manager).offered_versions)(system, names, locked)
}

/// The dependencies of packages in these versions, as the manager's lists have them: `a, b (>= 1)`.
/// Packages that no list has in that version are missing; so are all of a manager whose lists are
/// not read for them.
pub fn dependencies(
    system: &System,
    manager: PackageManager,
    versions: &Versions,
) -> Result<BTreeMap<String, String>, Unknown> {
    of(manager)
        .dependencies
        .map_or_else(|| Ok(BTreeMap::new()), |read| read(system, versions))
}

/// Whether a line of the enabled repositories matches a mark: part of its URL (if the mark has a
/// slash), or its name by the manager's rules.
pub fn is_meant(line: &str, mark: &str, manager: Option<PackageManager>) -> bool {
    if mark.contains('/') {
        return line.contains(mark);
    }
    match manager {
        Some(manager) => (of(manager).is_meant)(line, mark),
        None => rpm::repositories::is_meant(line, mark),
    }
}

/// The packages that gpusetup holds at their version, as it noted.
pub fn held_by_gpusetup(system: &System) -> std::io::Result<BTreeSet<String>> {
    Ok(system
        .read_text(HELD)?
        .unwrap_or_default()
        .lines()
        .map(str::to_owned)
        .collect())
}

/// The text of a configuration file; empty if it does not exist.
fn configuration(system: &System, path: &Path) -> Result<String, Unknown> {
    Ok(system
        .read_text(path)
        .map_err(|e| Unknown::at(path, e))?
        .unwrap_or_default())
}

/// For fuzzing: parses a text as each kind of file that is read here.
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
            (
                "http://deb.debian.org/debian bookworm non-free",
                "non-free",
                apt,
                true,
            ),
            (
                "http://deb.debian.org/debian bookworm non-free-firmware",
                "non-free",
                apt,
                false,
            ),
            (
                "http://security.debian.org bullseye-security non-free",
                "bullseye-security non-free",
                apt,
                true,
            ),
            (
                "http://deb.debian.org/debian bullseye non-free",
                "bullseye-security non-free",
                apt,
                false,
            ),
            (
                "https://mirrors.example/metalink?repo=epel-9&arch=$basearch epel",
                "epel",
                dnf,
                true,
            ),
            (
                "https://yum.example/repo/OracleLinux/OL9/developer/EPEL/$basearch/ ol9_developer_EPEL",
                "epel",
                dnf,
                true,
            ),
            (
                "https://dl.example/pub/rocky/9/BaseOS/x86_64/os baseos",
                "epel",
                dnf,
                false,
            ),
            (
                "https://cuda.example/compute/cuda/repos/rhel9/x86_64/ cuda",
                "example/compute/cuda/repos",
                dnf,
                true,
            ),
        ] {
            assert_eq!(is_meant(line, mark, manager), want, "{line}: {mark}");
        }
    }
}
