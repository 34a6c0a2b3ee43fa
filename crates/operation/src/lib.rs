//! The operations that steps are made of, a file each. An operation is data: it is printed,
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

use add_repository::RepositoryError;
use gpusetup_database::compat::PackageManager;
use gpusetup_packages::package_source::PackageSource;
use gpusetup_system::{Log, System};
use packages::PackagesError;
use program::ProgramError;
use serde::{Deserialize, Serialize};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;
use undo::{Backups, Undo};
use unpack::{Staged, UnpackError};
use valid::Valid;

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

/// The closed list of operations: each has its doc comment, its type and its file.
macro_rules! operations {
    ($($(#[$doc:meta])* $operation:ident),+) => {
        /// One change of the host, or one question to it.
        #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
        #[cfg_attr(
            feature = "schemas",
            derive(schemars::JsonSchema),
            schemars(deny_unknown_fields)
        )]
        #[serde(tag = "op", rename_all = "kebab-case")]
        pub enum Operation {
            $($(#[$doc])* $operation($operation),)+
        }

        $(impl From<$operation> for Operation {
            fn from(operation: $operation) -> Self {
                Self::$operation(operation)
            }
        })+

        /// Asks the operation that it is.
        macro_rules! each {
            ($operation_of:expr, $of:ident => $answer:expr) => {
                match $operation_of {
                    $(Operation::$operation($of) => $answer,)+
                }
            };
        }
    };
}

operations!(
    /// Puts a file there.
    WriteFile,
    /// Copies a file of the user's.
    CopyFile,
    /// Removes or changes lines of a file.
    EditFile,
    /// Puts a symbolic link there.
    Link,
    /// Removes a file, a link or a tree.
    Remove,
    /// Fetches a file into the cache and verifies it.
    Download,
    /// Unpacks a verified archive.
    Unpack,
    /// Runs a program.
    Run,
    /// Adds a repository to the package manager's.
    AddRepository,
    /// Installs and removes packages.
    Packages,
    /// Holds packages at their version, or releases them.
    Hold,
    /// Enables or disables a unit.
    Service,
    /// Sets a piece of a GPU's state.
    Device,
    /// Prepares the enrolment of a key that signs kernel modules.
    EnrollKey,
    /// Reboots the host.
    Reboot
);

/// What an operation is asked; its file answers.
pub(crate) trait Action {
    /// See [`Operation::stands`].
    fn stands(&self, on: &System, planned: bool) -> io::Result<Standing>;

    /// What would be in its way, as far as that is known before the first step.
    fn preflight(&self, _: &System) -> io::Result<Standing> {
        Ok(Standing::Satisfied)
    }

    /// How to undo what [`Self::prepare`] makes; empty if there is nothing to prepare.
    fn preparation(&self, _: &System) -> Vec<Undo> {
        Vec::new()
    }

    /// Makes what must be there before [`Self::intend`] can tell how to undo the rest.
    fn prepare(&self, _: &System, _: &mut Work, _: Notify) -> Result<(), OperationError> {
        Ok(())
    }

    /// How to undo it, to be kept before it is done.
    fn intend(&self, _: &System, _: &mut Work) -> Result<Vec<Undo>, OperationError> {
        Ok(Vec::new())
    }

    fn perform(&self, _: &System, _: &mut Work, _: Notify) -> Result<(), OperationError> {
        Ok(())
    }

    /// What has to happen between doing it and noting that it is done.
    fn completion(&self) -> Completion {
        Completion::Durable
    }

    /// Whether it only asks, and changes nothing.
    fn asks(&self) -> bool {
        false
    }

    /// See [`Operation::describe`].
    fn describe(&self) -> String;

    /// See [`Operation::shell`].
    fn shell(&self) -> String;

    /// A command for a person to copy; none if that would fill a screen.
    fn by_hand(&self) -> Option<String> {
        None
    }

    /// See [`Operation::touched`].
    fn touched(&self) -> Vec<PathBuf> {
        Vec::new()
    }

    /// See [`Operation::counts`].
    fn counts(&self) -> Counts;

    /// See [`Operation::locks`].
    fn locks(&self) -> Option<PackageManager> {
        None
    }

    /// See [`Operation::valid`].
    fn valid(&self, cache: &Path) -> Valid;
}

/// What a run lends an operation.
#[derive(Debug)]
pub struct Work {
    /// Copies of what is replaced.
    pub(crate) backups: Backups,
    /// Where packages come from.
    pub package_source: PackageSource,
    /// Where programs write what they say.
    pub log: Option<Log>,
    /// The archive of the operation, unpacked but not moved in.
    pub staged: Option<Staged>,
}

impl Work {
    /// Work with these copies, on the host's own repositories.
    pub fn new(backups: Backups) -> Self {
        Self {
            backups,
            package_source: PackageSource::default(),
            log: None,
            staged: None,
        }
    }
}

/// What an operation reports while it is carried out.
#[derive(Debug)]
pub enum Notice<'a> {
    /// For how long it is at work, and bytes of how many, for an archive.
    Working(Duration, Option<(u64, Option<u64>)>),
    /// The one-time password of an enrolment: for the person who is there, and for no file.
    Password(&'a str),
}

/// Hears what an operation reports.
pub(crate) type Notify<'a> = &'a mut dyn FnMut(Notice);

/// What has to happen once an operation was carried out: "done" must not be on the disk before what
/// was done is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Completion {
    /// It is on the disk.
    Durable,
    /// It has to be written to the disk.
    Sync,
    /// The same, and what came of it tells how to undo it: an undo, months later, can then tell it
    /// from what others did since.
    Observe,
}

/// Why an operation was not carried out.
#[derive(Debug, thiserror::Error)]
pub enum OperationError {
    /// The host could not be read or written.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// A program.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// An archive.
    #[error(transparent)]
    Unpack(#[from] UnpackError),
    /// A repository.
    #[error(transparent)]
    Repository(#[from] RepositoryError),
    /// A transaction of the package manager.
    #[error(transparent)]
    Packages(#[from] PackagesError),
}

/// Whether a name is that of a tree which an operation makes for a moment, beside what it unpacks
/// or removes.
pub fn is_leftover(name: &str) -> bool {
    let aside = [undo::ASIDE, remove::DISCARDED];
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
        each!(self, operation => operation.stands(on, planned))
    }

    /// What would be in its way, as far as that is known before the first step.
    pub fn preflight(&self, on: &System) -> io::Result<Standing> {
        each!(self, operation => operation.preflight(on))
    }

    /// How to undo what [`Self::prepare`] makes; empty if there is nothing to prepare.
    pub fn preparation(&self, on: &System) -> Vec<Undo> {
        each!(self, operation => operation.preparation(on))
    }

    /// Makes what must be there before [`Self::intend`].
    pub fn prepare(
        &self,
        on: &System,
        work: &mut Work,
        notify: Notify,
    ) -> Result<(), OperationError> {
        each!(self, operation => operation.prepare(on, work, notify))
    }

    /// How to undo it, to be kept before it is done.
    pub fn intend(&self, on: &System, work: &mut Work) -> Result<Vec<Undo>, OperationError> {
        each!(self, operation => operation.intend(on, work))
    }

    /// Carries it out on the host; `notify` hears how far it is.
    pub fn perform(
        &self,
        on: &System,
        work: &mut Work,
        notify: Notify,
    ) -> Result<(), OperationError> {
        each!(self, operation => operation.perform(on, work, notify))
    }

    /// What has to happen between doing it and noting that it is done.
    pub fn completion(&self) -> Completion {
        each!(self, operation => operation.completion())
    }

    /// Whether it only asks, and changes nothing.
    pub fn asks(&self) -> bool {
        each!(self, operation => operation.asks())
    }

    /// What it does, in a line for a person.
    pub fn describe(&self) -> String {
        each!(self, operation => operation.describe())
    }

    /// The lines of a POSIX shell script that do it. Each stops the script when it fails (`set
    /// -e`).
    pub fn shell(&self) -> String {
        each!(self, operation => operation.shell())
    }

    /// One command for a person to copy.
    pub fn by_hand(&self) -> String {
        // What would fill a screen is easier done by gpusetup itself.
        each!(self, operation => operation.by_hand())
            .unwrap_or_else(|| "sudo gpusetup doctor --fix".to_owned())
    }

    /// The paths that it writes to, as far as it says.
    pub fn touched(&self) -> Vec<PathBuf> {
        each!(self, operation => operation.touched())
    }

    /// How much it adds, changes and removes.
    pub fn counts(&self) -> Counts {
        each!(self, operation => operation.counts())
    }

    /// The package manager that must not be at work meanwhile.
    pub fn locks(&self) -> Option<PackageManager> {
        each!(self, operation => operation.locks())
    }

    /// Whether it can be carried out at all, downloads being kept in `cache`.
    pub fn valid(&self, cache: &Path) -> Valid {
        each!(self, operation => operation.valid(cache))
    }

    /// Whether the package manager downloads something: it alone knows how much, with all
    /// dependencies.
    pub fn installs_packages(&self) -> bool {
        matches!(self, Self::Packages(packages) if !packages.install.is_empty())
    }
}

#[cfg(test)]
mod tests;
