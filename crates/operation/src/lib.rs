//! The fifteen operations that steps are made of, a file each. An operation is data: it is printed,
//! hashed, journalled, carried out and undone, and each of these is written once, here, for all
//! steps. Operations know nothing of GPUs' models.

// clippy.toml lists what only `gpusetup-system` may call.
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

pub mod add_repository;
pub mod copy_file;
mod device;
pub mod download;
pub mod edit_file;
pub mod enroll_key;
pub mod hold;
pub mod link;
pub mod packages;
pub mod program;
mod reboot;
pub mod remove;
mod restore;
mod run;
pub mod runfile;
mod service;
mod shell;
pub mod undo;
pub mod unpack;
pub mod valid;
mod write_file;

pub use add_repository::{AddRepository, RepositoryKey};
pub use copy_file::CopyFile;
pub use device::Device;
pub use download::Download;
pub use edit_file::{EditFile, LineEdit};
pub use enroll_key::EnrollKey;
pub use hold::Hold;
pub use link::Link;
pub use packages::Packages;
pub use reboot::Reboot;
pub use remove::Remove;
pub use run::{Run, Verified};
pub use service::Service;
pub use unpack::{Limit, Placement, Unpack};
pub use write_file::WriteFile;

use gpusetup_database::compat::PackageManager;
use gpusetup_system::System;
use gpusetup_text::paths::HELD;
use serde::{Deserialize, Serialize};
use std::io;
use std::path::PathBuf;

/// One change of the host, or one question to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
#[serde(tag = "op", rename_all = "kebab-case")]
pub enum Operation {
    /// Puts a file there.
    WriteFile(WriteFile),
    /// Copies a file of the user's.
    CopyFile(CopyFile),
    /// Removes or changes lines of a file.
    EditFile(EditFile),
    /// Puts a symbolic link there.
    Link(Link),
    /// Removes a file, a link or a tree.
    Remove(Remove),
    /// Fetches a file into the cache and verifies it.
    Download(Download),
    /// Unpacks a verified archive.
    Unpack(Unpack),
    /// Runs a program.
    Run(Run),
    /// Adds a repository to the package manager's.
    AddRepository(AddRepository),
    /// Installs and removes packages.
    Packages(Packages),
    /// Holds packages at their version, or releases them.
    Hold(Hold),
    /// Enables or disables a unit.
    Service(Service),
    /// Sets a piece of a GPU's state.
    Device(Device),
    /// Prepares the enrolment of a key that signs kernel modules.
    EnrollKey(EnrollKey),
    /// Reboots the host.
    Reboot(Reboot),
}

/// How the host stands to an operation, before it is carried out and after.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// Nothing is left to do.
    Satisfied,
    /// It has to be done.
    Needed,
    /// Something is in the way that gpusetup must not move.
    Conflict(String),
}

impl Standing {
    fn satisfied_if(is: bool) -> Self {
        if is { Self::Satisfied } else { Self::Needed }
    }
}

/// How many things an operation adds, changes and removes on the host.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Files, links, packages and trees added.
    pub add: u32,
    /// Things changed.
    pub change: u32,
    /// Things removed.
    pub remove: u32,
    /// Reboots.
    pub reboots: u32,
}

macro_rules! from {
    ($($operation:ident),+) => {
        $(impl From<$operation> for Operation {
            fn from(operation: $operation) -> Self {
                Self::$operation(operation)
            }
        })+
    };
}

from!(
    AddRepository,
    WriteFile,
    CopyFile,
    EditFile,
    Link,
    Remove,
    Download,
    Unpack,
    Run,
    Packages,
    Hold,
    Service,
    Device,
    EnrollKey,
    Reboot
);

/// Whether a name is that of a tree which an operation makes for a moment, beside what it unpacks
/// or removes.
pub fn is_leftover(name: &str) -> bool {
    let aside = [remove::ASIDE, remove::DISCARDED];
    name.starts_with(unpack::STAGING)
        || name.starts_with('.') && aside.iter().any(|ending| name.ends_with(ending))
}

impl Operation {
    /// How the host stands to it. `planned`: the planner found that it is done, where only the
    /// planner can tell.
    ///
    /// # Errors
    ///
    /// If the host cannot be asked.
    pub fn stands(&self, on: &System, planned: bool) -> io::Result<Standing> {
        match self {
            Self::WriteFile(file) => file.stands(on),
            Self::CopyFile(copy) => copy.stands(on),
            Self::EditFile(edit) => edit.stands(on),
            Self::Link(link) => link.stands(on),
            Self::Remove(remove) => remove.stands(on),
            // It was fetched and verified before the first change.
            Self::Download(_) => Ok(Standing::Satisfied),
            Self::Unpack(_) => Ok(Standing::satisfied_if(planned)),
            Self::Run(run) => Ok(run.stands(on, planned)),
            Self::AddRepository(repository) => repository.stands(on),
            Self::Packages(wanted) => packages::stand(on, wanted),
            Self::Hold(hold) => hold.stands(on),
            Self::Service(service) => service.stands(on, planned),
            Self::Device(device) => device.stands(on, planned),
            Self::EnrollKey(key) => key.stands(on),
            Self::Reboot(_) => Ok(Standing::Needed),
        }
    }

    /// What it does, in a line for a person.
    pub fn describe(&self) -> String {
        match self {
            Self::WriteFile(file) => file.describe(),
            Self::CopyFile(copy) => copy.describe(),
            Self::EditFile(edit) => edit.describe(),
            Self::Link(link) => link.describe(),
            Self::Remove(remove) => remove.describe(),
            Self::Download(download) => download.describe(),
            Self::Unpack(unpack) => unpack.describe(),
            Self::Run(run) => run.describe(),
            Self::AddRepository(repository) => repository.describe(),
            Self::Packages(packages) => packages.describe(),
            Self::Hold(hold) => hold.describe(),
            Self::Service(service) => service.describe(),
            Self::Device(device) => device.describe(),
            Self::EnrollKey(key) => key.describe(),
            Self::Reboot(reboot) => reboot.describe(),
        }
    }

    /// The lines of a POSIX shell script that do it. Each stops the script when it fails (`set
    /// -e`).
    pub fn shell(&self) -> String {
        match self {
            Self::WriteFile(file) => file.shell(),
            Self::CopyFile(copy) => copy.shell(),
            Self::EditFile(edit) => edit.shell(),
            Self::Link(link) => link.shell(),
            Self::Remove(remove) => remove.shell(),
            Self::Download(download) => download.shell(),
            Self::Unpack(unpack) => unpack.shell(),
            Self::Run(run) => run.shell(),
            Self::AddRepository(repository) => repository.shell(),
            Self::Packages(packages) => packages.shell(),
            Self::Hold(hold) => hold.shell(),
            Self::Service(service) => service.shell(),
            Self::Device(device) => device.shell(),
            Self::EnrollKey(key) => key.shell(),
            Self::Reboot(reboot) => reboot.shell(),
        }
    }

    /// One command for a person to copy.
    pub fn by_hand(&self) -> String {
        let command = match self {
            Self::WriteFile(file) => file.by_hand(),
            Self::Packages(packages) => packages.by_hand(),
            // One line each in a script too.
            Self::Link(_)
            | Self::Remove(_)
            | Self::Run(_)
            | Self::Service(_)
            | Self::Device(_)
            | Self::EnrollKey(_) => Some(format!("sudo {}", self.shell().trim_end())),
            Self::Reboot(_) => Some("sudo reboot".to_owned()),
            Self::AddRepository(_)
            | Self::CopyFile(_)
            | Self::EditFile(_)
            | Self::Download(_)
            | Self::Unpack(_)
            | Self::Hold(_) => None,
        };
        // What would fill a screen is easier done by gpusetup itself.
        command.unwrap_or_else(|| "sudo gpusetup doctor --fix".to_owned())
    }

    /// The paths that it writes to, as far as it says.
    pub fn touched(&self) -> Vec<PathBuf> {
        match self {
            Self::WriteFile(WriteFile { path, .. })
            | Self::CopyFile(CopyFile { path, .. })
            | Self::EditFile(EditFile { path, .. })
            | Self::Link(Link { path, .. })
            | Self::Remove(Remove { path }) => vec![path.clone()],
            Self::Run(run) => run.creates.iter().chain(&run.changes).cloned().collect(),
            Self::AddRepository(repository) => repository.folders(),
            Self::Packages(_) => vec!["/usr".into()],
            Self::Hold(_) => vec![HELD.into()],
            Self::Service(_) => vec!["/etc".into()],
            Self::Download(_)
            | Self::Unpack(_)
            | Self::Device(_)
            | Self::EnrollKey(_)
            | Self::Reboot(_) => Vec::new(),
        }
    }

    /// How much it adds, changes and removes.
    pub fn counts(&self) -> Counts {
        match self {
            Self::WriteFile(file) => file.counts(),
            Self::CopyFile(copy) => copy.counts(),
            Self::EditFile(edit) => edit.counts(),
            Self::Link(link) => link.counts(),
            Self::Remove(remove) => remove.counts(),
            Self::Download(download) => download.counts(),
            Self::Unpack(unpack) => unpack.counts(),
            Self::Run(run) => run.counts(),
            Self::AddRepository(repository) => repository.counts(),
            Self::Packages(packages) => packages.counts(),
            Self::Hold(hold) => hold.counts(),
            Self::Service(service) => service.counts(),
            Self::Device(device) => device.counts(),
            Self::EnrollKey(key) => key.counts(),
            Self::Reboot(reboot) => reboot.counts(),
        }
    }

    /// The package manager that must not be at work meanwhile.
    pub fn locks(&self) -> Option<PackageManager> {
        match self {
            Self::AddRepository(repository) => Some(repository.manager),
            Self::Packages(packages) => Some(packages.manager),
            Self::Hold(hold) => Some(hold.manager),
            Self::Run(run) => run.locks,
            Self::WriteFile(_)
            | Self::CopyFile(_)
            | Self::EditFile(_)
            | Self::Link(_)
            | Self::Remove(_)
            | Self::Download(_)
            | Self::Unpack(_)
            | Self::Service(_)
            | Self::Device(_)
            | Self::EnrollKey(_)
            | Self::Reboot(_) => None,
        }
    }

    /// Whether the package manager downloads something: it alone knows how much, with all
    /// dependencies.
    pub fn installs_packages(&self) -> bool {
        matches!(self, Self::Packages(packages) if !packages.install.is_empty())
    }
}

#[cfg(test)]
mod tests;
