//! Downloads packages with their dependencies, and makes a repository of them for other hosts.

use std::path::{Path, PathBuf};

/// How a manager downloads packages, for a host without any packages, into a work folder only.
#[derive(Debug)]
pub struct Fetcher {
    /// The program and the options that restrict it to the work folder, for a release of its
    /// system.
    pub argv: fn(work: &Path, release: &str) -> Vec<String>,
    /// The folders that it needs in the work folder.
    pub folders: &'static [&'static str],
    /// The empty record of installed packages in the work folder.
    pub record: Option<&'static str>,
    /// Arguments to download its lists first.
    pub refresh: Option<&'static str>,
    /// Arguments to enable a module's stream, whose name is appended.
    pub enable_stream: Option<&'static str>,
    /// Arguments to download packages, whose names are appended.
    pub install: &'static str,
    /// How to find packages in folders of this host, which the manager does not copy.
    pub local: Option<LocalPackages>,
    /// The suffix of package files. They are saved to `archives` in the work folder.
    pub ending: &'static str,
    /// How to make a repository of them.
    pub index: PackageIndex,
}

/// How a manager lists the packages that it would use from folders of this host.
#[derive(Debug)]
pub struct LocalPackages {
    /// The option to list packages instead of downloading them.
    pub list: &'static str,
    /// Parses a line: the package's path and the manager's name for its file, if it is in a folder.
    pub find: fn(&str) -> Option<(PathBuf, &str)>,
}

/// How the lists of a repository are made.
#[derive(Debug)]
pub enum PackageIndex {
    /// By gpusetup.
    Written(WrittenIndex),
    /// By a program.
    Made(MadeIndex),
}

/// Lists made from the packages' own descriptions.
#[derive(Debug)]
pub struct WrittenIndex {
    /// The command that prints a package's description; its file is appended.
    pub describe: &'static str,
    /// Parses name and version from the description.
    pub name_and_version: fn(&str) -> (&str, &str),
    /// The file's name in the repository, from the manager's name for it.
    pub file_name: fn(&str) -> String,
    /// The package's entry in the list: its description, and the name, size and checksum of its
    /// file.
    pub entry: fn(description: &str, file: &str, size: u64, sum: &str) -> String,
    /// The names and contents of the list files, from the sorted entries and the time of creation.
    pub files: fn(entries: String, created: &str) -> [(&'static str, String); 2],
}

/// Lists made by a program from a folder of packages.
#[derive(Debug)]
pub struct MadeIndex {
    /// The command that prints a line `NAME VERSION` for each package; their files are appended.
    pub names: &'static [&'static str],
    /// The command that makes the lists in a folder, which is appended. None for managers that need
    /// no lists.
    pub make: Option<&'static str>,
    /// The subfolder of the lists.
    pub lists: &'static str,
}

/// What a manager needs in a folder of packages to install from it.
#[derive(Debug)]
pub struct FolderFiles {
    /// Subfolders.
    pub folders: &'static [&'static str],
    /// The file that names the folder as a source.
    pub source: &'static str,
    /// The text of that file.
    pub text: fn(&Path) -> String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpusetup_database::compat::PackageManager;

    #[test]
    fn a_manager_is_kept_to_its_folder() {
        let argv =
            |kind| (crate::of(kind).fetcher.argv)(Path::new("/var/cache/w"), "9.6").join(" ");
        let apt = argv(PackageManager::Apt);
        assert!(
            apt.contains("Dir::State::status=/var/cache/w/status")
                && apt.contains("Dir::Cache=/var/cache/w"),
            "{apt}"
        );
        let dnf = argv(PackageManager::Dnf);
        assert!(
            dnf.contains("--installroot=/var/cache/w/root --releasever=9.6"),
            "{dnf}"
        );
        let tdnf = argv(PackageManager::Tdnf);
        let all = "--downloadonly --downloaddir=/var/cache/w/archives";
        assert!(
            tdnf.starts_with("tdnf -y --installroot=/var/cache/w/root") && tdnf.ends_with(all),
            "{tdnf}"
        );
        let zypper = argv(PackageManager::Zypper);
        assert!(
            zypper.starts_with("zypper --non-interactive --root /var/cache/w/root"),
            "{zypper}"
        );
    }
}
