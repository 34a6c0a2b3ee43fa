//! Bundles: everything that plans need, for hosts without a network. A folder or one `.tar.zst`
//! with artifacts, the distribution's packages as a repository, the plans, the database and
//! gpusetup itself. `bundle.json` names every file with its sum; a bundle is believed by it alone,
//! each file when it is used, and `bundle.json` by its signature where a key is given.

// clippy.toml lists what only `gpusetup-system` may call.
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod bring;
mod create;
pub mod database;
mod form;
mod manifest;
mod repository;
mod verify;

pub use create::{BundleSize, Contents, is_archive};
pub use form::BundleStorage;
pub(crate) use manifest::{MANIFEST, SIGNATURE};
pub use manifest::{Manifest, PROGRAM, Repository};
pub use repository::{added_repositories, closure, needed_packages};
pub use verify::{Findings, verify};

use crate::database::store;
use gpusetup_database::compat::Database;
use gpusetup_host::{Facts, SystemId};
use gpusetup_operation::add_repository::RepositoryError;
use gpusetup_operation::packages::PackagesError;
use gpusetup_operation::{Download, Operation};
use gpusetup_packages::is_among;
use gpusetup_plan::{Plan, PlanError};
use gpusetup_system::input::InputError;
use gpusetup_system::trust::Trust;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

/// Why a bundle cannot be made or used.
#[derive(Debug, thiserror::Error)]
pub enum BundleError {
    /// There is no bundle.
    #[error("{} is not a bundle: it has no {MANIFEST}, or that is not the first file in it", .0.display())]
    NoBundle(PathBuf),
    /// What was named cannot be read, or is of somebody who is not trusted.
    #[error(transparent)]
    Input(#[from] InputError),
    /// A file cannot be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// What the system says about it.
        source: io::Error,
    },
    /// Bytes of it cannot be read.
    #[error("it cannot be read, it may be cut off or damaged: {0}")]
    Read(io::Error),
    /// What was read cannot be written.
    #[error("it cannot be written: {0}")]
    Write(io::Error),
    /// The archive is none, or was cut off.
    #[error("{} is no .tar.zst, or it is cut off or damaged: {source}", path.display())]
    Damaged {
        /// The file or directory.
        path: PathBuf,
        /// What the system says about it.
        source: io::Error,
    },
    /// The manifest is none of ours.
    #[error("its {MANIFEST} cannot be used: {0}")]
    Manifest(String),
    /// It would fill the memory.
    #[error("its plans are larger than any")]
    TooLarge,
    /// It is to be signed, and is not.
    #[error("it is not signed: it has no {SIGNATURE}")]
    Unsigned,
    /// It is signed by somebody else, or altered.
    #[error("its {SIGNATURE} is refused: {0}")]
    Signature(String),
    /// Something that no bundle has in it.
    #[error("it holds {0}, which is no part of a bundle")]
    Strange(String),
    /// Files that are not what the manifest says.
    #[error("{} {} missing or not what {MANIFEST} says", .0.join(", "), if .0.len() == 1 { "is" } else { "are" })]
    Altered(Vec<String>),
    /// Its manifest has another schema.
    #[error("the schema of its {MANIFEST} is {0}; this gpusetup reads {ours}", ours = manifest::SCHEMA)]
    Schema(String),
    /// Its database is in another gpusetup's form.
    #[error("only the gpusetup in it, {0}, can read its database: this is another build, {ours}", ours = env!("CARGO_PKG_VERSION"))]
    OtherProgram(String),
    /// Packages cannot be had.
    #[error(transparent)]
    Packages(#[from] PackagesError),
    /// A repository that a plan adds cannot be used.
    #[error(transparent)]
    Repository(#[from] RepositoryError),
    /// Packages of a system that this host is not.
    #[error("{0}")]
    Elsewhere(String),
    /// The gpusetup that would go along does not start on a host that the bundle is for.
    #[error(
        "{} needs glibc {}.{} and would not start on {host}, which has glibc {glibc}",
        program.display(), needed.0, needed.1
    )]
    Unstartable {
        /// The program.
        program: PathBuf,
        /// What it needs.
        needed: (u32, u32),
        /// The host's system.
        host: String,
        /// What that has.
        glibc: String,
    },
    /// Packages that a plan installs, and that the package manager did not bring.
    #[error("the package manager has brought no {}, which a plan installs", .0.join(", no "))]
    NotBrought(Vec<String>),
    /// Somebody stopped it.
    #[error("interrupted")]
    Interrupted,
}

impl BundleError {
    fn io(path: &Path) -> impl FnOnce(io::Error) -> Self + use<> {
        let path = path.to_owned();
        move |source| Self::Io { path, source }
    }

    fn damaged(path: &Path) -> impl Fn(io::Error) -> Self + use<> {
        let path = path.to_owned();
        move |source| Self::Damaged {
            path: path.clone(),
            source,
        }
    }

    /// Whether it is the bundle that is not what it should be, and nothing around it.
    pub fn is_the_bundles(&self) -> bool {
        match self {
            Self::NoBundle(_)
            | Self::Read(_)
            | Self::Damaged { .. }
            | Self::Manifest(_)
            | Self::Schema(_)
            | Self::TooLarge
            | Self::Unsigned
            | Self::Signature(_)
            | Self::Strange(_)
            | Self::Altered(_) => true,
            Self::Input(_)
            | Self::Io { .. }
            | Self::Write(_)
            | Self::OtherProgram(_)
            | Self::Packages(_)
            | Self::Repository(_)
            | Self::Elsewhere(_)
            | Self::Unstartable { .. }
            | Self::NotBrought(_)
            | Self::Interrupted => false,
        }
    }
}

/// The manifest of a bundle; with a key, only one that is signed by it.
pub fn manifest(form: &BundleStorage, key: Option<&str>) -> Result<Manifest, BundleError> {
    let head = form.head()?;
    if let Some(key) = key {
        form::signed(&head, key)?;
    }
    Manifest::read(&head.manifest)
}

/// A bundle, opened: its manifest, and the few small files that are needed before a plan is chosen.
#[derive(Debug)]
pub struct Bundle {
    /// Where it is.
    pub form: BundleStorage,
    /// What it holds.
    pub manifest: Manifest,
    small: BTreeMap<String, Vec<u8>>,
}

impl Bundle {
    /// Opens the one at `path` if it belongs to somebody who is trusted; with a key, the text of a
    /// minisign public key, only one that is signed by it.
    ///
    /// # Errors
    ///
    /// If it cannot be read, others may write to it, or its signature is not of the key.
    pub fn open(path: &Path, key: Option<&str>, trust: &Trust) -> Result<Self, BundleError> {
        let form = BundleStorage::open(path, trust)?;
        let manifest = manifest(&form, key)?;
        let small = bring::small(&form, &manifest)?;
        Ok(Self {
            form,
            manifest,
            small,
        })
    }

    /// The database in it, which its plans were made with: this program's own, `built_in`, if it is
    /// the same.
    pub fn database(&self, built_in: fn() -> Database) -> Result<Database, BundleError> {
        let built_in = built_in();
        if built_in.sha256 == self.manifest.database.sha256 {
            return Ok(built_in);
        }
        let bytes = self
            .small
            .get(manifest::DATABASE)
            .map(Vec::as_slice)
            .unwrap_or_default();
        store::from_compact(bytes)
            .ok_or_else(|| BundleError::OtherProgram(self.manifest.tool.clone()))
    }

    /// Its plans, each with its path in it.
    pub fn plans(&self) -> Result<Vec<(&str, Plan)>, BundleError> {
        let plans = self.manifest.plans.iter().map(|id| {
            let bytes = self.small.get(&id.file).map(Vec::as_slice);
            match Plan::read(bytes.unwrap_or_default()) {
                Ok(plan) if plan.fingerprint() == id.fingerprint => Ok((id.file.as_str(), plan)),
                Ok(_) | Err(PlanError::Altered) => Err(BundleError::Altered(vec![id.file.clone()])),
                Err(e) => Err(BundleError::Manifest(format!("{}: {e}", id.file))),
            }
        });
        plans.collect()
    }

    /// The path in it of what a download fetches.
    fn artifact(&self, sha256: &str, to: &Path) -> Option<String> {
        let name = to.file_name()?.to_str()?;
        let path = manifest::artifact(sha256, name);
        self.manifest
            .files
            .get(&path)
            .filter(|e| e.sha256 == sha256)
            .map(|_| path)
    }

    /// What an operation of a host's plan needs that is not in it.
    pub fn lacks(&self, operation: &Operation, host: &Facts) -> Vec<String> {
        match operation {
            Operation::Download(Download { sha256, to, .. })
                if self.artifact(sha256, to).is_none() =>
            {
                vec![
                    to.file_name()
                        .unwrap_or_default()
                        .to_string_lossy()
                        .into_owned(),
                ]
            }
            Operation::AddRepository(repository) => {
                let without = repository.keys.iter().filter(|key| key.content.is_none());
                without
                    .map(|key| format!("the signing key {}", key.file))
                    .collect()
            }
            Operation::Packages(wanted) if !wanted.install.is_empty() => {
                let system = SystemId::of(host);
                let Some(repository) = self.manifest.repository(&system) else {
                    return vec![format!("packages of {system}")];
                };
                let missing = wanted
                    .install
                    .iter()
                    .filter(|asked| !is_among(asked, &repository.offers));
                missing.map(|name| format!("the package {name}")).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Whether it has the packages that a plan installs.
    pub fn has_packages_for(&self, plan: &Plan) -> bool {
        self.repository(plan).is_some()
    }

    /// The packages in it for a host: names and versions.
    pub fn offers(&self, host: &Facts) -> Option<&BTreeMap<String, String>> {
        self.manifest
            .repository(&SystemId::of(host))
            .map(|r| &r.offers)
    }

    /// The folder of a host's cache that its packages are brought to.
    pub fn folder(&self, cache: &Path) -> PathBuf {
        cache
            .join(gpusetup_fetch::cache::BUNDLES)
            .join(self.manifest.id())
    }
}
