//! `download`: a file fetched into the cache and verified. The fetching itself is done before the
//! first change, by `fetch`.

use super::Counts;
use super::shell::make_folder;
use gpusetup_text::text::{public_address, quoted, quoted_path};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Fetches a file into the cache and verifies it. Nothing unverified is ever there under its name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
#[serde(deny_unknown_fields)]
pub struct Download {
    /// Where it is published.
    pub url: String,
    /// The SHA-256 of the file.
    #[cfg_attr(
        feature = "schemas",
        schemars(with = "gpusetup_database::sum::Sha256Text")
    )]
    pub sha256: String,
    /// Its size in bytes, where known: no more is ever read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// The file in the cache.
    pub to: PathBuf,
}

impl Download {
    /// What it does, in a line.
    pub fn describe(&self) -> String {
        format!("download {}", public_address(&self.url))
    }

    /// The lines of a script that do it.
    pub fn shell(&self) -> String {
        let (sum, to) = (&self.sha256, quoted_path(&self.to));
        format!(
            "{}echo \"{sum}  \"{to} | sha256sum -c --status 2>/dev/null || curl -fL --retry 3 -o {to} {}\n\
             echo \"{sum}  \"{to} | sha256sum -c\n",
            make_folder(&self.to),
            quoted(&self.url)
        )
    }

    /// What it adds and changes on the host: nothing; the cache is not counted.
    pub fn counts(&self) -> Counts {
        Counts::default()
    }
}
