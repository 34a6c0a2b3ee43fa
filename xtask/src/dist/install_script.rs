//! The install script, which gets the release's address and keys.

use super::Release;
use crate::{Result, project};
use std::fs;
use std::path::Path;

/// Writes it.
pub fn write(release: &Release, out: &Path) -> Result<()> {
    let text = fs::read_to_string(project().join("install.sh")).map_err(|e| format!("install.sh: {e}"))?;
    let base = release.home.as_ref().map(|home| format!("{home}/releases"));
    let mut text = text;
    let needed = release.signatures.to_string();
    let values =
        [("releases=", base.as_deref()), ("keys=", release.keys.as_deref()), ("needed=1", Some(needed.as_str()))];
    for (line, value) in values {
        let old = format!("\n{line}\n");
        if text.matches(&old).count() != 1 {
            return Err(format!("install.sh has no line `{line}`"));
        }
        let name = line.trim_end_matches('1');
        text = text.replace(&old, &format!("\n{name}{}\n", value.unwrap_or_default()));
    }
    super::write(&out.join("install.sh"), text.as_bytes())
}
