//! Where facts come from, and files that can be downloaded.

use super::SourceId;
use crate::text::Text;
use serde::{Deserialize, Serialize};

/// A subject on which whole sources differ, beyond a single fact.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Disagreement {
    /// The subject.
    pub(crate) about: String,
    /// What each source says.
    pub(crate) differ: String,
    /// Which value was used, and why.
    pub(crate) taken: String,
    pub(crate) sources: Vec<SourceId>,
}

/// A source of facts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// The short name used in facts.
    pub id: SourceId,
    /// A title for readers.
    pub title: String,
    /// Its address, or how to find it.
    pub location: String,
    /// How the source knows its facts.
    #[serde(default)]
    pub(crate) known: SourceQuality,
    /// Whether it is a list of GPUs supported by NVIDIA's drivers.
    #[serde(default)]
    pub(crate) lists_gpus: bool,
}

/// The quality of a source, best first.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum SourceQuality {
    /// Read from the artifact itself: a header, a wheel's metadata, a package index, a list shipped
    /// with a driver.
    Measured,
    /// Documented by the maker.
    Published,
    /// Reported by others: issues, packagers, copies of documentation.
    #[default]
    Reported,
    /// Inferred from facts about other releases. No source has this value; records state it in
    /// `assumed`.
    Assumed,
}

/// A file that can be downloaded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Artifact {
    /// The architecture: `x86_64`, `sbsa`, `aarch64`, `ppc64le`, …
    pub arch: Text,
    /// The name of the file.
    pub file: Text,
    /// Its URL; none if only the name is known.
    #[serde(default)]
    pub url: Option<Text>,
    /// The SHA-256 in lower-case hexadecimal. A file without one is never used.
    #[serde(default)]
    pub sha256: Option<Text>,
    /// The size in bytes.
    #[serde(default)]
    pub size: Option<u64>,
    /// The number of independent sources for this checksum.
    #[serde(default)]
    pub agree: u8,
    /// A note for readers: a name that is only expected, …
    #[serde(default)]
    pub note: Option<Text>,
    /// How sources differ, and which value was used.
    #[serde(default)]
    pub disagreement: Option<Text>,
    /// The sources.
    pub sources: Vec<SourceId>,
}
