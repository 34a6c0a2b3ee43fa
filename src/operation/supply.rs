//! Where packages come from: the repositories that a host is set up with, or a folder of it that a bundle's packages were
//! brought to. How each package manager is told so stands here.

use crate::compat::PackageManager;
use std::path::{Path, PathBuf};

/// A command with more words right behind its program's name.
pub(super) fn behind_program(mut argv: Vec<String>, more: impl IntoIterator<Item = String>) -> Vec<String> {
    argv.splice(1..1, more);
    argv
}

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

/// The file in the folder that names it to apt.
pub const SOURCE: &str = "sources.list";

/// That file's text. The folder's packages were verified by whoever brought them: there is no key that apt could know.
pub fn source(folder: &Path) -> String {
    // In a source's line a blank ends a word; apt reads it as a percent code.
    let path = folder.display().to_string().replace('%', "%25").replace(' ', "%20");
    format!("deb [trusted=yes] file:{path} ./\n")
}

impl Supply {
    /// `argv` with the words behind the program's name that make it install from here alone.
    pub fn applied_to(&self, manager: PackageManager, argv: Vec<String>) -> Vec<String> {
        let Self::Folder(folder) = self else { return argv };
        let at = |name: &str| folder.join(name).display().to_string();
        let more = match manager {
            PackageManager::Apt => [
                format!("Dir::Etc::sourcelist={}", at(SOURCE)),
                "Dir::Etc::sourceparts=-".to_owned(),
                format!("Dir::State::lists={}", at("lists")),
                format!("Dir::Cache::archives={}", at("archives")),
                "Dir::Cache::pkgcache=".to_owned(),
                "Dir::Cache::srcpkgcache=".to_owned(),
                "Acquire::Languages=none".to_owned(),
                // A host without a network often has no right time either.
                "Acquire::Check-Date=false".to_owned(),
                // Its own user may not enter the folder, and everything in it is verified.
                "APT::Sandbox::User=root".to_owned(),
            ]
            .into_iter()
            .flat_map(|option| ["-o".to_owned(), option])
            .collect(),
            PackageManager::Dnf => vec![
                "--disablerepo=*".to_owned(),
                format!("--repofrompath=gpusetup,file://{}", folder.display()),
                "--setopt=gpusetup.gpgcheck=0".to_owned(),
                // Whoever made the bundle chose the module's stream; there is no list of modules in it.
                "--setopt=gpusetup.module_hotfixes=1".to_owned(),
                format!("--setopt=cachedir={}", at("lists")),
            ],
            // It keeps lists in its own cache, and forgets there what an earlier bundle had in this folder.
            PackageManager::Tdnf => vec![
                "--disablerepo=*".to_owned(),
                format!("--repofrompath=gpusetup,file://{}", folder.display()),
                "--enablerepo=gpusetup".to_owned(),
                "--setopt=gpusetup.gpgcheck=0".to_owned(),
                "--refresh".to_owned(),
            ],
            PackageManager::Zypper => vec![
                "--no-gpg-checks".to_owned(),
                "--reposd-dir".to_owned(),
                at("repos"),
                "--cache-dir".to_owned(),
                at("lists"),
                "--plus-repo".to_owned(),
                format!("dir:{}", folder.display()),
            ],
        };
        behind_program(argv, more)
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
