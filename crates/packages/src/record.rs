//! The record of installed packages, if it is a file that can be read without the host's programs.
//! rpm's is a database that only rpm can read.

use super::Versions;
use gpusetup_system::System;
use std::collections::BTreeSet;
use std::io::{self, Read};

/// The file that lists the installed packages.
#[derive(Debug)]
pub struct RecordFile {
    /// Its path.
    pub path: &'static str,
    /// Parses it.
    pub scan: Scan,
    /// Changes that are not written to it yet.
    pub journal: Journal,
}

/// Parses a record and returns the versions of the wanted packages.
pub(crate) type Scan = fn(&mut dyn Read, wanted: &dyn Fn(&str) -> bool) -> io::Result<Installed>;

/// A folder of changes that the package manager merges into its record when it finishes. Remaining
/// changes show an interruption.
#[derive(Debug)]
pub struct Journal {
    /// The folder.
    pub folder: &'static str,
    /// Whether a file of this name is a change.
    pub is_change: fn(&str) -> bool,
    /// The package that a change is about.
    pub package: fn(&str) -> Option<&str>,
    /// The maximum size of a change in bytes.
    pub longest: u64,
}

/// The content of a record.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Installed {
    /// The wanted packages that are installed.
    pub versions: Versions,
    /// Those of them that an administrator has put on hold.
    pub held: BTreeSet<String>,
    /// All packages whose installation or configuration is not finished.
    pub unfinished: Vec<String>,
}

impl RecordFile {
    /// All installed packages.
    pub fn installed(&self, system: &System) -> io::Result<Versions> {
        Ok((self.scan)(&mut system.open(self.path)?, &|_| true)?.versions)
    }
}

/// A package's version without epoch and packager's revision: `535.261.03` of
/// `535.261.03-1~deb12u1`.
pub fn upstream(version: &str) -> &str {
    let version = version.split_once(':').map_or(version, |(_, v)| v);
    version.rsplit_once('-').map_or(version, |(v, _)| v)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_stripped_of_what_packagers_add() {
        assert_eq!(upstream("2:580.95.05-0ubuntu0.24.04.1"), "580.95.05");
        assert_eq!(upstream("9.10.2.21-1"), "9.10.2.21");
        assert_eq!(upstream("1.0"), "1.0");
    }
}
