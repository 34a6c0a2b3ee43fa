//! How packages are fetched with everything that they depend on, and made into a repository for other hosts.

use std::path::{Path, PathBuf};

/// How a manager fetches packages for a host on which nothing is installed, in a folder and nowhere else.
#[derive(Debug)]
pub struct Fetcher {
    /// The program, and what keeps it to the folder; for a release of its system.
    pub argv: fn(work: &Path, release: &str) -> Vec<String>,
    /// The folders that it needs there.
    pub folders: &'static [&'static str],
    /// The file there that says what is installed: nothing.
    pub record: Option<&'static str>,
    /// What has it fetch its lists first.
    pub refresh: Option<&'static str>,
    /// What has it enable a module's stream, whose name follows.
    pub enable_stream: Option<&'static str>,
    /// What has it fetch packages, whose names follow.
    pub install: &'static str,
    /// How packages in folders of this host are found, which it does not copy by itself.
    pub local: Option<LocalPackages>,
    /// How the names of packages end. They come to `archives` below the folder.
    pub ending: &'static str,
    /// How they are made into a repository.
    pub index: Index,
}

/// How a manager tells which packages it would take from folders of this host.
#[derive(Debug)]
pub struct LocalPackages {
    /// What has it list packages instead of fetching them.
    pub list: &'static str,
    /// Where a package is, and what the manager calls its file, if a line tells of one in a folder.
    pub find: fn(&str) -> Option<(PathBuf, &str)>,
}

/// The lists of a repository.
#[derive(Debug)]
pub enum Index {
    /// gpusetup writes them.
    Written(WrittenIndex),
    /// A program makes them.
    Made(MadeIndex),
}

/// Lists of what packages say of themselves.
#[derive(Debug)]
pub struct WrittenIndex {
    /// Prints what a package says of itself; its file follows.
    pub describe: &'static str,
    /// Its name and version in that.
    pub name_and_version: fn(&str) -> (&str, &str),
    /// What its file is called in the repository, by what the manager called it.
    pub file_name: fn(&str) -> String,
    /// Its entry in the list: what it says of itself, and the name, size and checksum of its file.
    pub entry: fn(description: &str, file: &str, size: u64, sum: &str) -> String,
    /// The files of the lists, with their names, by the entries in order and the time at which they are made.
    pub files: fn(entries: String, created: &str) -> [(&'static str, String); 2],
}

/// Lists that are made from a folder of packages.
#[derive(Debug)]
pub struct MadeIndex {
    /// Prints a line `NAME VERSION` for each package; their files follow.
    pub names: &'static [&'static str],
    /// Makes the lists below a folder, which follows. None for managers that take a folder of packages as it is.
    pub make: Option<&'static str>,
    /// The folder of the lists below that.
    pub lists: &'static str,
}

/// What a manager needs in a folder of packages before it installs from there.
#[derive(Debug)]
pub struct FolderFiles {
    /// Folders.
    pub folders: &'static [&'static str],
    /// A file that names the folder to it.
    pub source: &'static str,
    /// The text of that.
    pub text: fn(&Path) -> String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compat::PackageManager;

    #[test]
    fn a_manager_is_kept_to_its_folder() {
        let argv = |kind| (crate::packages::of(kind).fetcher.argv)(Path::new("/var/cache/w"), "9.6").join(" ");
        let apt = argv(PackageManager::Apt);
        assert!(
            apt.contains("Dir::State::status=/var/cache/w/status") && apt.contains("Dir::Cache=/var/cache/w"),
            "{apt}"
        );
        let dnf = argv(PackageManager::Dnf);
        assert!(dnf.contains("--installroot=/var/cache/w/root --releasever=9.6"), "{dnf}");
        let tdnf = argv(PackageManager::Tdnf);
        let all = "--downloadonly --downloaddir=/var/cache/w/archives";
        assert!(tdnf.starts_with("tdnf -y --installroot=/var/cache/w/root") && tdnf.ends_with(all), "{tdnf}");
        let zypper = argv(PackageManager::Zypper);
        assert!(zypper.starts_with("zypper --non-interactive --root /var/cache/w/root"), "{zypper}");
    }
}
