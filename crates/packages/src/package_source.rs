//! Where packages come from: the host's configured repositories, or a folder with a bundle's
//! packages.

use super::manager::behind_program;
use gpusetup_database::compat::PackageManager;
use std::path::{Path, PathBuf};

/// Where packages come from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum PackageSource {
    /// The host's configured repositories.
    #[default]
    Repositories,
    /// Only a folder of the host: none of the host's lists, sources and caches is read or written.
    /// Its files were checked against the bundle's checksums, and nobody else can write there.
    Folder(PathBuf),
}

impl PackageSource {
    /// `argv` with the options, after the program's name, that make it install only from here.
    pub fn applied_to(&self, manager: PackageManager, argv: Vec<String>) -> Vec<String> {
        let Self::Folder(folder) = self else {
            return argv;
        };
        behind_program(argv, (super::of(manager).from_folder)(folder))
    }

    /// The folder, if it is one.
    pub fn folder(&self) -> Option<&Path> {
        if let Self::Folder(folder) = self {
            Some(folder)
        } else {
            None
        }
    }

    /// Whether these are the host's own repositories, whose lists can be refreshed and which have
    /// lists of modules.
    pub fn is_the_hosts(&self) -> bool {
        *self == Self::Repositories
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn applied(manager: PackageManager, package_source: &PackageSource) -> Vec<String> {
        package_source.applied_to(
            manager,
            ["PROGRAM", "-y", "install", "dkms"]
                .map(str::to_owned)
                .to_vec(),
        )
    }

    #[test]
    fn a_folder_is_all_that_a_manager_is_told_of() {
        let folder = PackageSource::Folder("/var/cache/b".into());
        for manager in [
            PackageManager::Apt,
            PackageManager::Dnf,
            PackageManager::Tdnf,
            PackageManager::Zypper,
        ] {
            let own = applied(manager, &folder);
            assert_eq!(
                applied(manager, &PackageSource::Repositories),
                ["PROGRAM", "-y", "install", "dkms"]
            );
            // The program, the options for the folder, and the unchanged rest.
            assert!(
                own.len() > 4
                    && own[0] == "PROGRAM"
                    && own[own.len() - 3..] == ["-y", "install", "dkms"],
                "{own:?}"
            );
        }
        let all = applied(PackageManager::Apt, &folder).join(" ");
        for option in [
            "-o Dir::Etc::sourcelist=/var/cache/b/sources.list",
            "-o Dir::Etc::sourceparts=-",
            "-o Dir::State::lists=/var/cache/b/lists",
        ] {
            assert!(all.contains(option), "{option}: {all}");
        }
        let dnf = applied(PackageManager::Dnf, &folder);
        assert_eq!(
            dnf[1..3],
            [
                "--disablerepo=*",
                "--repofrompath=gpusetup,file:///var/cache/b"
            ]
        );
        let zypper = applied(PackageManager::Zypper, &folder);
        assert!(
            zypper.iter().position(|w| w == "install")
                > zypper.iter().position(|w| w == "dir:/var/cache/b")
        );
    }
}
