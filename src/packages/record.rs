//! The record of installed packages, where it is a file that is read without a program of the host's. rpm's is a database that
//! only rpm reads.

use super::Versions;
use crate::system::System;
use std::io::{self, Read};

/// A file that says what is installed.
#[derive(Debug)]
pub struct RecordFile {
    /// Where it is.
    pub path: &'static str,
    /// Reads it.
    pub scan: Scan,
    /// What belongs to it and was not written to it yet.
    pub journal: Journal,
}

/// Reads a record, and keeps the versions of packages that are wanted.
pub type Scan = fn(&mut dyn Read, wanted: &dyn Fn(&str) -> bool) -> io::Result<Installed>;

/// A folder of changes that the package manager merges into its record when it ends. One that is left there says that it did not.
#[derive(Debug)]
pub struct Journal {
    /// The folder.
    pub folder: &'static str,
    /// Whether a file of this name is a change.
    pub is_change: fn(&str) -> bool,
    /// The package that a change is about.
    pub package: fn(&str) -> Option<&str>,
    /// More bytes than any change has.
    pub longest: u64,
}

/// What a record says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Installed {
    /// Wanted packages that are installed.
    pub versions: Versions,
    /// Packages that the manager has not finished with, wanted or not.
    pub unfinished: Vec<String>,
}

impl RecordFile {
    /// All packages that are installed.
    pub fn installed(&self, system: &System) -> io::Result<Versions> {
        Ok((self.scan)(&mut system.open(self.path)?, &|_| true)?.versions)
    }
}

/// A package's version without the epoch and the packager's revision: `535.261.03` of `535.261.03-1~deb12u1`.
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
