//! What some package managers can and others cannot, or need not. A manager has one of these, or none.

use super::Versions;
use crate::system::System;
use std::collections::BTreeSet;
use std::io;

/// What a simulated transaction prints can be read. The managers without it remove nothing to install something unless they are
/// told to, and refuse by themselves to touch what is locked.
#[derive(Debug)]
pub struct Simulation {
    /// What the output says.
    pub read: fn(&str) -> Simulated,
    /// What the manager holds as it is, for an administrator.
    pub held: fn(&System) -> io::Result<BTreeSet<String>>,
}

/// What a transaction would do.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Simulated {
    /// Packages that would come or change, with their new versions.
    pub coming: Versions,
    /// Packages that would go.
    pub removed: Vec<String>,
    /// All of both, in the order in which they are named.
    pub changed: Vec<String>,
}

/// It notes which packages are there only because others need them, and forgets it when one is installed by name. The managers
/// without it leave the reason of a package that is there already as it is.
#[derive(Debug)]
pub struct AutomaticMarks {
    /// The file of the marks.
    pub file: &'static str,
    /// The packages that its text marks.
    pub read: fn(&str) -> BTreeSet<String>,
    /// Marks packages, whose names follow.
    pub mark: &'static str,
}

/// It is told of versions in a file, all at once. It would refuse to bring the dependencies of a package that is named in a
/// version which is not its candidate. The managers without it take versions on the command line.
#[derive(Debug)]
pub struct Preferences {
    /// The host's own file.
    pub own: &'static str,
    /// The options that have another file read instead.
    pub options: fn(file: &str) -> Vec<String>,
    /// The text of such a file, with what the host's own file says behind it.
    pub text: fn(&Versions, own: &str) -> String,
    /// Shows packages that the lists have; names follow, each in one version. It may fail where it knows some of them only.
    pub show: &'static str,
    /// The names and versions that are shown.
    pub shown: fn(&str) -> BTreeSet<(&str, &str)>,
}

/// It leaves packages half installed when it is cut off, and does nothing before it was let finish.
#[derive(Debug)]
pub struct Interruption {
    /// Whether it was cut off.
    pub is_left: fn(&System) -> io::Result<bool>,
    /// Finishes, with an administrator's changes kept.
    pub finish: &'static str,
    /// Removes packages that were cut off while they were unpacked; their names follow.
    pub remove: &'static str,
    /// What a person runs if that does not help.
    pub by_hand: &'static str,
}
