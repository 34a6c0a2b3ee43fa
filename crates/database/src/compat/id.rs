//! Which database something was made with.

use super::Database;
use serde::{Deserialize, Serialize};

/// The version and content of a database.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct DatabaseId {
    /// Its version, `2026.11.20`.
    pub version: String,
    /// The SHA-256 of its content.
    #[cfg_attr(feature = "schemas", schemars(with = "crate::sum::Sha256Text"))]
    pub sha256: String,
}

impl DatabaseId {
    /// The id of a database.
    pub fn of(database: &Database) -> Self {
        Self {
            version: database.version.clone(),
            sha256: database.sha256.clone(),
        }
    }
}
