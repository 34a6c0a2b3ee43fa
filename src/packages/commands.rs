//! How the package managers are called. What differs between them is a row of this table, in the file of each manager.

use std::path::Path;

/// The commands of a package manager, as words between blanks. Names of packages follow at the end.
#[derive(Debug)]
pub struct Commands {
    /// Fetches the lists of packages. None for managers that do so themselves.
    pub refresh: Option<&'static str>,
    /// Says what an installation would do.
    pub simulate_install: &'static str,
    /// Installs, without recommended packages.
    pub install: &'static str,
    /// Installs for a person to copy: files that were lost are installed again too.
    pub reinstall: &'static str,
    /// Says what a removal would do.
    pub simulate_remove: &'static str,
    /// Removes, with configuration files where the manager knows the difference.
    pub remove: &'static str,
    /// Lists every package as `STATUS NAME VERSION`.
    pub list: &'static [&'static str],
    /// Stands between a name and a version.
    pub separator: &'static str,
    /// Enables a module's stream, whose name follows.
    pub enable_stream: Option<&'static str>,
    /// Files that it locks, in that order.
    pub locks: &'static [&'static str],
    /// A file with the number of the process that is at work; libzypp's is empty or 0 between.
    pub process: Option<&'static str>,
    /// The words behind the program's name that make it install from a folder and nothing else.
    pub from_folder: fn(&Path) -> Vec<String>,
}

impl Commands {
    /// A package in one version, as the manager takes it on its command line.
    pub fn exactly(&self, name: &str, version: &str) -> String {
        format!("{name}{}{version}", self.separator)
    }
}

/// The words of a command.
pub fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}
