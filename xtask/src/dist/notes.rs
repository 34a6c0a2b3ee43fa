//! The release's notes: its part of the changelog.

use crate::{Result, project};
use std::fs;
use std::path::Path;

/// Writes them.
pub fn write(version: &str, out: &Path) -> Result<()> {
    let text = fs::read_to_string(project().join("CHANGELOG.md"))
        .map_err(|e| format!("CHANGELOG.md: {e}"))?;
    let notes = part(&text, version).or_else(|| part(&text, "Unreleased"));
    let notes = notes.ok_or_else(|| format!("CHANGELOG.md has no part for {version}"))?;
    super::write(
        &out.join("NOTES.md"),
        format!("# gpusetup {version}\n\n{notes}\n").as_bytes(),
    )
}

/// What is below the heading of a version, up to the next.
fn part<'t>(text: &'t str, version: &str) -> Option<&'t str> {
    let heading = |part: &&str| {
        part.lines()
            .next()
            .is_some_and(|line| line.split(' ').next() == Some(version))
    };
    let part = text.split("\n## ").skip(1).find(heading)?;
    Some(part.split_once('\n').map_or("", |(_, rest)| rest).trim())
}

#[cfg(test)]
mod tests {
    use super::part;

    #[test]
    fn a_version_has_its_own_part() {
        let text = "# Changelog\n\n## Unreleased\n\n- a\n\n## 0.2.0 (2026-12-01)\n\n- b\n- c\n\n## 0.1.0\n\n- d\n";
        assert_eq!(part(text, "Unreleased"), Some("- a"));
        assert_eq!(part(text, "0.2.0"), Some("- b\n- c"));
        assert_eq!(part(text, "0.1.0"), Some("- d"));
        assert_eq!(part(text, "0.1"), None);
    }
}
