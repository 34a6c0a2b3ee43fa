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
    for (name, value) in [("releases", &base), ("keys", &release.keys)] {
        let value = value.as_deref().unwrap_or_default();
        if !value.chars().all(|c| c.is_ascii_alphanumeric() || "+/=,:._-~".contains(c)) {
            return Err(format!("`{value}` has characters that the install script cannot have"));
        }
        let empty = format!("\n{name}=\n");
        if text.matches(&empty).count() != 1 {
            return Err(format!("install.sh has no line `{name}=`"));
        }
        text = text.replace(&empty, &format!("\n{name}={value}\n"));
    }
    super::write(&out.join("install.sh"), text.as_bytes())
}
