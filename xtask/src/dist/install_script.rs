//! The install script, which gets the release's address and keys.

use crate::{Result, project};
use std::fs;
use std::path::Path;

/// Writes it.
pub fn write(home: Option<&str>, keys: Option<&str>, signatures: u8, out: &Path) -> Result<()> {
    let mut text = fs::read_to_string(project().join("install.sh")).map_err(|e| format!("install.sh: {e}"))?;
    let base = home.map(|home| format!("{home}/releases"));
    let needed = signatures.to_string();
    let values = [("releases=", base.as_deref()), ("keys=", keys), ("needed=1", Some(needed.as_str()))];
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
