//! `download`: a file fetched into the cache and verified. The fetching itself is done before the
//! first change, by `fetch`.

use super::shell::make_folder;
use super::valid::Valid;
use super::{Action, Counts, Standing, valid};
use gpusetup_system::System;
use gpusetup_text::text::{public_address, quoted, quoted_path};
use serde::{Deserialize, Serialize};
use std::io;
use std::path::{Path, PathBuf};

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

impl Action for Download {
    /// It was fetched and verified before the first change.
    fn stands(&self, _: &System, _: bool) -> io::Result<Standing> {
        Ok(Standing::Satisfied)
    }

    fn describe(&self) -> String {
        format!("download {}", public_address(&self.url))
    }

    fn shell(&self) -> String {
        let (sum, to) = (&self.sha256, quoted_path(&self.to));
        format!(
            "{}echo \"{sum}  \"{to} | sha256sum -c --status 2>/dev/null || curl -fL --retry 3 -o {to} {}\n\
             echo \"{sum}  \"{to} | sha256sum -c\n",
            make_folder(&self.to),
            quoted(&self.url)
        )
    }

    fn counts(&self) -> Counts {
        Counts::default()
    }

    fn valid(&self, cache: &Path) -> Valid {
        let Self {
            url: from,
            sha256,
            size: bytes,
            to,
        } = self;
        valid::url(from)?;
        valid::checksum(sha256)?;
        bytes.iter().try_for_each(|bytes| valid::size(*bytes))?;
        valid::within(to, cache)
    }
}
