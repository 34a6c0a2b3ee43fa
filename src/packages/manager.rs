//! What is known of a package manager. Each has one value of [`Manager`], in its own file: what differs between them is there,
//! and nobody else asks which one it is.

use super::abilities::{AutomaticMarks, Interruption, Preferences, Simulation};
use super::fetcher::{Fetcher, FolderFiles};
use super::repositories::Repositories;
use super::{RecordFile, Unknown, Versions};
use crate::system::System;
use std::collections::BTreeSet;
use std::io;
use std::path::Path;

/// A package manager. Commands are words between blanks; names of packages follow at the end.
#[derive(Debug)]
pub struct Manager {
    /// The files that show that it is there.
    pub programs: &'static [&'static str],
    /// What keeps the record of installed packages, by name: dpkg or rpm.
    pub record: &'static str,
    /// That record, where it can be read as a file.
    pub record_file: Option<RecordFile>,
    /// What tells whose the files of the installed packages are.
    pub each_file: EachFile,
    /// The files that name its repositories.
    pub repositories: &'static [Repositories],
    /// Whether a line of [`Repositories`] is the repository that a word without a slash means.
    pub is_meant: fn(line: &str, mark: &str) -> bool,
    /// Fetches the lists of packages. None for managers that do so themselves.
    pub refresh: Option<&'static str>,
    /// Says what an installation would do.
    pub simulate_install: &'static str,
    /// Installs, without recommended packages.
    pub install: &'static str,
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
    /// What it needs in that folder beside packages and their lists.
    pub folder_files: Option<FolderFiles>,
    /// How it fetches packages for such a folder.
    pub fetcher: Fetcher,
    /// A command that only looks, kept from writing a cache: nothing is changed by a look.
    pub without_cache: fn(Vec<String>) -> Vec<String>,
    /// See [`Simulation`].
    pub simulation: Option<Simulation>,
    /// See [`AutomaticMarks`].
    pub automatic: Option<AutomaticMarks>,
    /// See [`Preferences`].
    pub preferences: Option<Preferences>,
    /// See [`Interruption`].
    pub interruption: Option<Interruption>,
    /// The folder from which it executes the scripts of packages; none if that is one for temporary files.
    pub scripts: Option<&'static str>,
    /// How its lists tell which kernel a package of headers is for. None if they are not read, or do not tell.
    pub headers: Option<KernelHeaders>,
    /// See [`super::offered_versions`].
    pub offered_versions: fn(&System, &BTreeSet<&str>, &Versions) -> Result<Versions, Unknown>,
    /// What a person is advised to run.
    pub by_hand: ByHand,
}

/// How lists of packages tell which kernel headers are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KernelHeaders {
    /// The kernel's release is in the package's name.
    ByName,
    /// The kernel's release is the package's version, with the architecture behind it.
    ByVersion,
}

/// Calls a function with the name of every installed package and a file of it.
pub type EachFile = fn(&System, &mut dyn FnMut(&str, &str)) -> io::Result<()>;

/// What is printed for a person to copy, where plans have something else, or nothing. Whoever prints it adds `sudo`.
#[derive(Debug)]
pub struct ByHand {
    /// Installs.
    pub install: &'static str,
    /// Installs what is there already too, so that files that were lost come back.
    pub reinstall: &'static str,
    /// The package of the C++ compiler.
    pub cxx: &'static str,
    /// It takes a version that ends in `*`.
    pub globs_versions: bool,
    /// Fetches the lists of packages.
    pub refresh: &'static str,
    /// Removes kernels that are not used.
    pub remove_old_kernels: &'static str,
    /// The commands that add a word to the kernel's command line.
    pub add_kernel_parameter: fn(&str) -> Vec<String>,
}

impl Manager {
    /// A package in one version, as the manager takes it on its command line.
    pub fn exactly(&self, name: &str, version: &str) -> String {
        format!("{name}{}{version}", self.separator)
    }
}

/// Has GRUB's scripts add a word to the kernel's command line; the last command is the distribution's own.
pub fn edit_grub(parameter: &str, rebuild: &str) -> Vec<String> {
    let edit = format!("sudo sed -i 's/^GRUB_CMDLINE_LINUX=\"/&{parameter} /' /etc/default/grub");
    vec![edit, format!("sudo {rebuild}")]
}

/// The words of a command.
pub fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

/// A command with more words right behind its program's name.
pub fn behind_program(mut argv: Vec<String>, more: impl IntoIterator<Item = String>) -> Vec<String> {
    argv.splice(1..1, more);
    argv
}
