//! The install script, which gets the release's address and its list of keys.

use crate::{Result, project};
use std::fs;
use std::path::Path;

/// Writes it.
pub fn write(home: Option<&str>, keys: Option<&str>, out: &Path) -> Result<()> {
    let mut text =
        fs::read_to_string(project().join("install.sh")).map_err(|e| format!("install.sh: {e}"))?;
    let base = home.map(|home| format!("{home}/releases"));
    // A list of keys has blanks, and no quotes.
    let keys = keys.map(|list| format!("'{list}'"));
    for (line, value) in [("releases=", base), ("keys=", keys)] {
        let old = format!("\n{line}\n");
        if text.matches(&old).count() != 1 {
            return Err(format!("install.sh has no line `{line}`"));
        }
        text = text.replace(&old, &format!("\n{line}{}\n", value.unwrap_or_default()));
    }
    super::write(&out.join("install.sh"), text.as_bytes())
}
