//! Carrying a plan out and taking it back. Everything is journalled before it happens.

// clippy.toml lists what only `gpusetup-system` may call.
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod account;
mod act;
pub mod boot;
mod bundled;
mod config;
mod events;
mod installed;
pub mod journal;
mod keys;
mod lock;
mod network;
mod news;
mod originals;
mod prefetched;
mod preflight;
mod reserve;
pub mod result;
mod rollback;
mod run;
mod status;
mod unused;

pub use account::Account;
pub use config::RunConfig;
pub use installed::OwnInstallations;
pub use lock::Lock;
pub use news::News;

pub use originals::originals;
pub use preflight::not_in_cache;
pub use rollback::{RollbackScope, anything_to_take_back, recover, rollback, to_take_back};
pub use run::{Unfinished, apply, begun, unfinished, waits_for_boot};

pub use status::status;
pub use unused::{Pruned, Unused, UnusedKind, remove_unused, unused};

use gpusetup_bundle::BundleError;
use gpusetup_fetch::FetchError;
use gpusetup_operation::add_repository::RepositoryError;
use gpusetup_operation::packages::PackagesError;
use gpusetup_operation::program::ProgramError;
use gpusetup_operation::unpack::UnpackError;
use gpusetup_system::private::Untrusted;
use gpusetup_text::exit::Exit;
use journal::JournalError;

/// Why a run ended before its end.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// A person must do something first.
    #[error("{0}")]
    Blocked(String),
    /// What is to be installed can no longer be had.
    #[error("{0}")]
    Gone(String),
    /// The network; it may work later.
    #[error("{0}")]
    Later(String),
    /// An operation failed.
    #[error("{0}")]
    Step(String),
    /// Everything is installed, and the host says otherwise.
    #[error("installed, but it does not work: {0}")]
    Verification(String),
    /// A file is not what it should be.
    #[error("{0}")]
    Integrity(String),
    /// Somebody stopped it by this signal.
    #[error("interrupted by signal {0}; what was done so far is in the journal")]
    Interrupted(u8),
}

impl Failure {
    /// The exit code that the contract gives it.
    pub fn exit(&self) -> Exit {
        match self {
            Self::Gone(_) => Exit::NothingFits,
            Self::Blocked(_) => Exit::Blocked,
            Self::Later(_) => Exit::Later,
            Self::Step(_) => Exit::StepFailed,
            Self::Verification(_) => Exit::NotWorking,
            Self::Integrity(_) => Exit::Integrity,
            Self::Interrupted(signal) => Exit::Signal(*signal),
        }
    }
}

impl From<BundleError> for Failure {
    fn from(e: BundleError) -> Self {
        match e {
            BundleError::Packages(e) => e.into(),
            BundleError::Repository(e) => e.into(),
            e if e.is_the_bundles() => Self::Integrity(format!("the bundle cannot be used: {e}")),
            e => Self::Blocked(format!("the bundle cannot be used: {e}")),
        }
    }
}

impl From<FetchError> for Failure {
    fn from(e: FetchError) -> Self {
        match e {
            FetchError::Network { .. } | FetchError::Unreachable { .. } => {
                Self::Later(e.to_string())
            }
            FetchError::Rejected { .. } | FetchError::TooLong { .. } => {
                Self::Integrity(e.to_string())
            }
            FetchError::Write { .. } => Self::Blocked(e.to_string()),
        }
    }
}

impl From<UnpackError> for Failure {
    fn from(e: UnpackError) -> Self {
        match e {
            UnpackError::Io { .. } => Self::Step(e.to_string()),
            UnpackError::Refused { .. } | UnpackError::Altered { .. } => {
                Self::Integrity(e.to_string())
            }
        }
    }
}

impl From<ProgramError> for Failure {
    fn from(e: ProgramError) -> Self {
        match e {
            ProgramError::Altered { .. } => Self::Integrity(e.to_string()),
            ProgramError::Start { .. }
            | ProgramError::Failed { .. }
            | ProgramError::Unexpected { .. } => Self::Step(e.to_string()),
        }
    }
}

impl From<RepositoryError> for Failure {
    fn from(e: RepositoryError) -> Self {
        match e {
            RepositoryError::Key { .. } => Self::Integrity(e.to_string()),
            RepositoryError::Lists { .. } => Self::Step(e.to_string()),
            RepositoryError::Io { .. } => Self::Blocked(e.to_string()),
            RepositoryError::Program(e) => e.into(),
        }
    }
}

impl From<PackagesError> for Failure {
    fn from(e: PackagesError) -> Self {
        match e {
            PackagesError::WouldRemove { .. }
            | PackagesError::Held { .. }
            | PackagesError::OtherDriver { .. }
            | PackagesError::Lacking(_) => Self::Blocked(e.to_string()),
            PackagesError::Strangers { .. } => Self::Gone(e.to_string()),
            PackagesError::Network { .. } | PackagesError::Unequal { .. } => {
                Self::Later(e.to_string())
            }
            PackagesError::Unchanged(_) => Self::Step(e.to_string()),
            PackagesError::Program(e) => e.into(),
        }
    }
}

impl From<Untrusted> for Failure {
    fn from(e: Untrusted) -> Self {
        Self::Blocked(
            e.hint()
                .map_or_else(|| e.to_string(), |hint| format!("{e}; {hint}")),
        )
    }
}

impl From<JournalError> for Failure {
    fn from(e: JournalError) -> Self {
        match e {
            JournalError::Io(_) => Self::Blocked(e.to_string()),
            JournalError::Altered(_)
            | JournalError::Incomplete
            | JournalError::Newer(_)
            | JournalError::Senseless(..) => Self::Integrity(e.to_string()),
        }
    }
}
