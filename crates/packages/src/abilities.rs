//! Optional abilities of package managers. A manager has each of them or not.

use super::Versions;
use super::glob::pattern_matches;
use super::record::upstream;
use gpusetup_database::version::DriverVersion;
use gpusetup_system::System;
use std::collections::BTreeSet;
use std::io;

/// The output of a simulated transaction can be parsed. Managers without this ability never remove
/// packages to install others unless requested, and refuse to change locked packages themselves.
#[derive(Debug)]
pub struct Simulation {
    /// Parses the output.
    pub read: fn(&str) -> Simulated,
    /// The packages that an administrator has put on hold.
    pub held: fn(&System) -> io::Result<BTreeSet<String>>,
}

/// The changes of a simulated transaction.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Simulated {
    /// Packages that would be installed or changed, with their new versions.
    pub coming: Versions,
    /// Packages that would be removed.
    pub removed: Vec<String>,
    /// All of these packages, in the order of the output.
    pub changed: Vec<String>,
}

/// The manager marks packages that were installed as dependencies, and removes the mark when such a
/// package is installed by name. Managers without this ability do not change the reason for an
/// installed package.
#[derive(Debug)]
pub struct AutomaticMarks {
    /// The file with the marks.
    pub file: &'static str,
    /// Parses the marked packages from its text.
    pub read: fn(&str) -> BTreeSet<String>,
    /// The command that marks packages, whose names are appended.
    pub mark: &'static str,
}

/// Packages can be held at their version, so that no update changes them. The names of packages are
/// appended to the commands.
#[derive(Debug)]
pub struct Holds {
    /// Holds installed packages.
    pub hold: &'static str,
    /// Releases them.
    pub release: &'static str,
    /// The held packages.
    pub held: fn(&System) -> io::Result<BTreeSet<String>>,
    /// The package with these commands, if the manager's own lacks them.
    pub tool: Option<&'static str>,
    /// Patterns of the names of the kernel's packages.
    pub kernels: &'static [&'static str],
    /// A command of a shell that lists the installed packages, each as `NAME VERSION`.
    pub list: &'static str,
}

impl Holds {
    /// Whether a package is a kernel's.
    pub fn is_kernel(&self, name: &str) -> bool {
        self.kernels
            .iter()
            .any(|pattern| pattern_matches(pattern.as_bytes(), name.as_bytes()))
    }

    /// Whether a package is a kernel's or this driver's.
    pub fn concerns(&self, name: &str, version: &str, driver: DriverVersion) -> bool {
        self.is_kernel(name) || upstream(version).parse().ok() == Some(driver)
    }
}

/// Versions are requested in a file: with versions on its command line, the manager does not
/// install dependencies in versions that are not their candidates. Managers without this ability
/// take versions on the command line.
#[derive(Debug)]
pub struct Preferences {
    /// The host's own file.
    pub own: &'static str,
    /// The options that make it read another file instead.
    pub options: fn(file: &str) -> Vec<String>,
    /// The text of such a file, followed by the text of the host's own file.
    pub text: fn(&Versions, own: &str) -> String,
    /// The command that shows packages from the lists; names are appended, each with a version. It
    /// may fail if some are unknown.
    pub show: &'static str,
    /// Parses the names and versions from its output.
    pub shown: fn(&str) -> BTreeSet<(&str, &str)>,
}

/// An interrupted manager leaves packages half installed, and does nothing else until it has
/// finished them.
#[derive(Debug)]
pub struct Interruption {
    /// Whether it was interrupted.
    pub is_left: fn(&System) -> io::Result<bool>,
    /// The command that finishes, keeping changed configuration files.
    pub finish: &'static str,
    /// The command that removes packages whose unpacking was interrupted; their names are appended.
    pub remove: &'static str,
    /// The command for users if that does not help.
    pub by_hand: &'static str,
}
