//! Where packages come from: the repositories that a host is set up with, or a folder of it that a bundle's packages were
//! brought to.

use super::manager::behind_program;
use crate::compat::PackageManager;
use std::path::{Path, PathBuf};

/// Where packages come from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Supply {
    /// The repositories that the host is set up with.
    #[default]
    Repositories,
    /// A folder of the host, and nothing else: no list, no source and no cache of the host's is read or written. What is in it
    /// was held against the bundle's sums, and nobody else may write there.
    Folder(PathBuf),
}

impl Supply {
    /// `argv` with the words behind the program's name that make it install from here alone.
    pub fn applied_to(&self, manager: PackageManager, argv: Vec<String>) -> Vec<String> {
        let Self::Folder(folder) = self else { return argv };
        behind_program(argv, (super::of(manager).from_folder)(folder))
    }

    /// The folder, where it is one.
    pub fn folder(&self) -> Option<&Path> {
        if let Self::Folder(folder) = self { Some(folder) } else { None }
    }

    /// Whether these are the host's own repositories, which can be asked for newer lists, and have lists of modules.
    pub fn is_the_hosts(&self) -> bool {
        *self == Self::Repositories
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(manager: PackageManager, supply: &Supply) -> Vec<String> {
        supply.applied_to(manager, ["PROGRAM", "-y", "install", "dkms"].map(str::to_owned).to_vec())
    }

    #[test]
    fn a_folder_is_all_that_a_manager_is_told_of() {
        let folder = Supply::Folder("/var/cache/b".into());
        for manager in [PackageManager::Apt, PackageManager::Dnf, PackageManager::Tdnf, PackageManager::Zypper] {
            let own = told(manager, &folder);
            assert_eq!(told(manager, &Supply::Repositories), ["PROGRAM", "-y", "install", "dkms"]);
            // The program, what it is told of the folder, and all the rest as ever.
            assert!(
                own.len() > 4 && own[0] == "PROGRAM" && own[own.len() - 3..] == ["-y", "install", "dkms"],
                "{own:?}"
            );
        }
        let all = told(PackageManager::Apt, &folder).join(" ");
        for option in [
            "-o Dir::Etc::sourcelist=/var/cache/b/sources.list",
            "-o Dir::Etc::sourceparts=-",
            "-o Dir::State::lists=/var/cache/b/lists",
        ] {
            assert!(all.contains(option), "{option}: {all}");
        }
        let dnf = told(PackageManager::Dnf, &folder);
        assert_eq!(dnf[1..3], ["--disablerepo=*", "--repofrompath=gpusetup,file:///var/cache/b"]);
        let zypper = told(PackageManager::Zypper, &folder);
        assert!(zypper.iter().position(|w| w == "install") > zypper.iter().position(|w| w == "dir:/var/cache/b"));
    }
}
