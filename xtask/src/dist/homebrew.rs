//! The Homebrew formula, with the page, the version and the checksums of a release.

use super::{packaging, write};
use crate::Result;
use gpusetup_database::sum::sha256;
use std::fs;
use std::path::Path;

/// The architectures that Homebrew knows on Linux.
const ARCHITECTURES: [&str; 2] = ["x86_64", "aarch64"];

/// Writes it, if the release has a page and both archives.
pub fn write_formula(version: &str, home: Option<&str>, out: &Path) -> Result<()> {
    let Some(home) = home else { return Ok(()) };
    let mut text = packaging("homebrew/gpusetup.rb")?
        .replace("@HOME@", home)
        .replace("@VERSION@", version);
    for architecture in ARCHITECTURES {
        let archive = out.join(format!("gpusetup-{version}-{architecture}-linux.tar.gz"));
        let Ok(bytes) = fs::read(&archive) else {
            return Ok(());
        };
        text = text.replace(&format!("@SHA256-{architecture}@"), &sha256(&bytes));
    }
    let (_, formula) = text.split_once('\n').unwrap_or_default();
    write(&out.join("gpusetup.rb"), formula.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_formula_follows_the_release() {
        let folder = std::env::temp_dir().join(format!("gpusetup-formula-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("made");
        for (architecture, text) in [("x86_64", "one"), ("aarch64", "two")] {
            write_formula("1.2.3", Some("https://e.org/g"), &folder).expect("nothing to do yet");
            assert!(!folder.join("gpusetup.rb").exists());
            fs::write(
                folder.join(format!("gpusetup-1.2.3-{architecture}-linux.tar.gz")),
                text,
            )
            .expect("written");
        }
        write_formula("1.2.3", Some("https://e.org/g"), &folder).expect("written");
        let formula = fs::read_to_string(folder.join("gpusetup.rb")).expect("there");
        fs::remove_dir_all(&folder).expect("removed");
        assert!(
            formula.starts_with("class Gpusetup < Formula\n") && !formula.contains('@'),
            "{formula}"
        );
        for (architecture, text) in [("x86_64", "one"), ("aarch64", "two")] {
            let url = format!(
                "https://e.org/g/releases/download/v1.2.3/gpusetup-1.2.3-{architecture}-linux.tar.gz"
            );
            let both = format!(
                "    url \"{url}\"\n    sha256 \"{}\"\n",
                sha256(text.as_bytes())
            );
            assert!(formula.contains(&both), "{formula}");
        }
    }
}
