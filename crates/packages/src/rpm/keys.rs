//! Keys that rpm trusts. They are in its record of packages, and each is trusted for packages of
//! every repository.

use crate::added::{NewRepository, Note};
use crate::manager::words;
use gpusetup_system::{Program, System};
use std::io;
use std::path::{Path, PathBuf};

/// Lists them as `gpg-pubkey-VERSION-RELEASE`. The version is the end of the fingerprint, or all of
/// it since rpm 6.
const LIST: [&str; 5] = [
    "rpm",
    "-q",
    "gpg-pubkey",
    "--qf",
    "%{NAME}-%{VERSION}-%{RELEASE}\\n",
];

/// The file of a key, by its fingerprint.
pub(crate) fn path(fingerprint: &str) -> PathBuf {
    format!("/etc/pki/rpm-gpg/RPM-GPG-KEY-gpusetup-{fingerprint}").into()
}

/// The commands that have rpm trust the keys of a repository.
pub(crate) fn import(new: &NewRepository) -> Vec<Vec<String>> {
    new.keys.iter().map(|path| import_file(path)).collect()
}

fn import_file(path: &Path) -> Vec<String> {
    let mut argv = words("rpm --import");
    argv.push(path.display().to_string());
    argv
}

/// Which of the keys with these fingerprints rpm trusts.
pub(crate) fn trusted(system: &System, fingerprints: &[&str]) -> io::Result<Vec<Note>> {
    // It fails if there is none, and says so in other words than the format's.
    let output = system.run(&Program::new(LIST))?;
    let known = output.text.lines().filter(|line| version(line).is_some());
    let notes = known.filter_map(|name| {
        let fingerprint = fingerprints
            .iter()
            .find(|fingerprint| is_of(name, fingerprint))?;
        let remove = words("rpm -e")
            .into_iter()
            .chain([name.to_owned()])
            .collect();
        Some(Note {
            make: import_file(&path(fingerprint)),
            remove,
        })
    });
    Ok(notes.collect())
}

/// The version in `gpg-pubkey-VERSION-RELEASE`.
fn version(name: &str) -> Option<&str> {
    let (version, _) = name.strip_prefix("gpg-pubkey-")?.split_once('-')?;
    (version.len() >= 8 && version.bytes().all(|b| b.is_ascii_hexdigit())).then_some(version)
}

fn is_of(name: &str, fingerprint: &str) -> bool {
    version(name).is_some_and(|version| {
        fingerprint
            .to_ascii_lowercase()
            .ends_with(&version.to_ascii_lowercase())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_known_by_the_end_of_its_fingerprint() {
        let fingerprint = "610C7B14E068A878070DA4E99CD0A493D42D0685";
        for name in [
            "gpg-pubkey-d42d0685-62589a51",
            "gpg-pubkey-610c7b14e068a878070da4e99cd0a493d42d0685-62589a51",
        ] {
            assert!(is_of(name, fingerprint), "{name}");
        }
        for name in [
            "gpg-pubkey-d42d0686-62589a51",
            "gpg-pubkey-0685-62589a51",
            "gpg-pubkey-d42d0685",
            "package gpg-pubkey is not installed",
        ] {
            assert!(!is_of(name, fingerprint), "{name}");
        }
    }
}
