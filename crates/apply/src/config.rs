//! How a run works: where files and packages come from, and how long it waits.

use gpusetup_bundle::Bundle;
use gpusetup_fetch::Sources;
use gpusetup_packages::package_source::PackageSource;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// How a run works.
#[derive(Debug, Clone)]
pub struct RunConfig {
    /// How long to wait for another program's lock on the package manager.
    pub lock_timeout: Duration,
    /// How long to wait for the network. Zero if somebody is there who can look why it is down.
    pub network_timeout: Duration,
    /// Whether somebody is there who sees what is shown: a one-time password, for example.
    pub attended: bool,
    /// Where artifacts come from.
    pub sources: Sources,
    /// The bundle that everything comes from, packages too; no network is used then.
    pub bundle: Option<Arc<Bundle>>,
    /// The directory of the host that the bundle's packages were copied to, by this run or by the
    /// one that it resumes.
    pub brought: Option<PathBuf>,
}

impl Default for RunConfig {
    fn default() -> Self {
        Self {
            lock_timeout: Duration::from_secs(900),
            network_timeout: Duration::ZERO,
            attended: false,
            sources: Sources::default(),
            bundle: None,
            brought: None,
        }
    }
}

impl RunConfig {
    /// Where packages come from, once those of a bundle were copied to the host.
    pub(crate) fn package_source(&self) -> PackageSource {
        self.brought
            .clone()
            .map_or(PackageSource::Repositories, PackageSource::Folder)
    }
}
