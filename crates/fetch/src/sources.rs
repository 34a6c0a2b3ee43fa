//! Where artifacts are fetched from.

use gpusetup_text::mirrors::Mirrors;
use std::path::PathBuf;

/// Where artifacts are fetched from.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    /// What stands in for the addresses that the database names.
    pub mirrors: Mirrors,
    /// Never use the network.
    pub offline: bool,
    /// Certificates (PEM) that are trusted beside the host's own.
    pub ca_cert: Option<PathBuf>,
}
