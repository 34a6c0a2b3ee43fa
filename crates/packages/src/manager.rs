//! The properties of a package manager. Each manager has one [`Manager`] value in its own file with
//! everything specific to it; no other code depends on the kind of manager.

use super::abilities::{AutomaticMarks, Holds, Interruption, Preferences, Simulation};
use super::added::RepositoryFormat;
use super::fetcher::{Fetcher, FolderFiles};
use super::repositories::Repositories;
use super::{RecordFile, Unknown, Versions};
use gpusetup_system::System;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;

/// A package manager. Commands are words separated by spaces; the names of packages are appended.
#[derive(Debug)]
pub struct Manager {
    /// Files that show that it is installed.
    pub(crate) programs: &'static [&'static str],
    /// The name of a kernel's initramfs in `/boot`; `{release}` stands for `uname -r`.
    pub initramfs: &'static str,
    /// The program that keeps the record of installed packages: dpkg or rpm.
    pub record: &'static str,
    /// That record, if it can be read as a file.
    pub record_file: Option<RecordFile>,
    /// Lists the files of the installed packages.
    pub(crate) each_file: EachFile,
    /// The files that name its repositories.
    pub repositories: &'static [Repositories],
    /// Whether a line of [`Repositories`] is the repository that a mark without a slash names.
    pub(crate) is_meant: fn(line: &str, mark: &str) -> bool,
    /// How it takes another repository; none if gpusetup cannot add one.
    pub added: Option<RepositoryFormat>,
    /// Downloads the package lists. None for managers that do so automatically.
    pub refresh: Option<&'static str>,
    /// Simulates an installation.
    pub simulate_install: &'static str,
    /// Installs, without recommended packages.
    pub install: &'static str,
    /// Installs older versions of packages that are installed.
    pub downgrade: &'static str,
    /// Simulates a removal.
    pub simulate_remove: &'static str,
    /// Removes, including configuration files if the manager can do so.
    pub remove: &'static str,
    /// Lists every package as `STATUS NAME VERSION`.
    pub list: &'static [&'static str],
    /// The separator between name and version.
    pub(crate) separator: &'static str,
    /// Enables a module's stream, whose name is appended.
    pub enable_stream: Option<&'static str>,
    /// The file that names the enabled stream of `{module}`.
    pub stream_state: Option<&'static str>,
    /// Files that it locks, in this order.
    pub(crate) locks: &'static [&'static str],
    /// A file with the id of the running process; libzypp's is empty or 0 when none is running.
    pub(crate) process: Option<&'static str>,
    /// The options, after the program's name, that make it install only from a folder.
    pub(crate) from_folder: fn(&Path) -> Vec<String>,
    /// What it needs in that folder in addition to packages and their lists.
    pub folder_files: Option<FolderFiles>,
    /// How it downloads packages for such a folder.
    pub fetcher: Fetcher,
    /// Changes a read-only command so that it writes no cache.
    pub without_cache: fn(Vec<String>) -> Vec<String>,
    /// See [`Simulation`].
    pub simulation: Option<Simulation>,
    /// See [`AutomaticMarks`].
    pub automatic: Option<AutomaticMarks>,
    /// See [`Holds`].
    pub holds: Option<Holds>,
    /// See [`Preferences`].
    pub preferences: Option<Preferences>,
    /// See [`Interruption`].
    pub interruption: Option<Interruption>,
    /// The folder from which it executes package scripts; none if that is a temporary folder.
    pub scripts: Option<&'static str>,
    /// How its lists show the kernel that a header package is for. None if they are not read, or do
    /// not show it.
    pub headers: Option<KernelHeaders>,
    /// See [`super::offered_versions`].
    pub(crate) offered_versions:
        fn(&System, &BTreeSet<&str>, &Versions) -> Result<Versions, Unknown>,
    /// See [`super::dependencies`]. None if they are not read.
    pub(crate) dependencies: Option<Dependencies>,
    /// Commands that users are advised to run.
    pub by_hand: ByHand,
}

/// How package lists show which kernel a header package is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KernelHeaders {
    /// The kernel's release is in the package's name.
    ByName,
    /// The kernel's release is the package's version followed by the architecture.
    ByVersion,
}

/// Reads what the lists say that packages in some versions depend on, by name.
pub(crate) type Dependencies = fn(&System, &Versions) -> Result<BTreeMap<String, String>, Unknown>;

/// Calls a function with the name of each installed package and each of its files.
pub(crate) type EachFile = fn(&System, &mut dyn FnMut(&str, &str)) -> io::Result<()>;

/// Commands that are printed for users to copy, which plans do not use. The caller adds `sudo`.
#[derive(Debug)]
pub struct ByHand {
    /// Installs packages.
    pub install: &'static str,
    /// Installs newer versions of packages that are installed.
    pub upgrade: &'static str,
    /// Removes packages.
    pub remove: &'static str,
    /// Installs packages again, so that lost files are restored.
    pub reinstall: &'static str,
    /// The package of the C++ compiler.
    pub cxx: &'static str,
    /// The package of containerd, of slurmd, and of Python's `venv` where that is not Python's own.
    /// None where the distributions have none.
    pub containerd: Option<&'static str>,
    pub slurmd: Option<&'static str>,
    pub venv: Option<&'static str>,
    /// The package of Python's headers, which compiling its extensions needs.
    pub python_headers: &'static str,
    /// Whether it accepts a version that ends in `*`.
    pub globs_versions: bool,
    /// Downloads the package lists.
    pub refresh: &'static str,
    /// Names the package that a file belongs to.
    pub owner: &'static str,
    /// Removes unused kernels.
    pub remove_old_kernels: &'static str,
    /// The commands that add a parameter to the kernel's command line.
    pub add_kernel_parameter: fn(&str) -> Vec<String>,
}

impl Manager {
    /// A package in one version, as written on the manager's command line.
    pub fn exactly(&self, name: &str, version: &str) -> String {
        format!("{name}{}{version}", self.separator)
    }
}

/// The commands that add a parameter to the kernel's command line in GRUB; `rebuild` is the
/// distribution's own command.
pub(crate) fn edit_grub(parameter: &str, rebuild: &str) -> Vec<String> {
    let edit = format!("sudo sed -i 's/^GRUB_CMDLINE_LINUX=\"/&{parameter} /' /etc/default/grub");
    vec![edit, format!("sudo {rebuild}")]
}

/// The path of what is in a folder, as an argument of a command.
pub(crate) fn path_in(folder: &Path, name: &str) -> String {
    folder.join(name).display().to_string()
}

/// Splits a command into words.
pub fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

/// A command with more words directly after the program's name.
pub fn behind_program(
    mut argv: Vec<String>,
    more: impl IntoIterator<Item = String>,
) -> Vec<String> {
    argv.splice(1..1, more);
    argv
}
