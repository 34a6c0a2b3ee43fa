//! minisign keys made for a test, what they sign, and lists of them.

#![allow(dead_code)] // each test program uses its part

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Keys `a` to `e`.
pub struct Keyring {
    folder: tempfile::TempDir,
}

impl Keyring {
    pub fn new() -> Self {
        let ring = Self {
            folder: tempfile::tempdir().expect("a folder"),
        };
        for name in ["a", "b", "c", "d", "e"] {
            let (public, secret) = (ring.path(name, "pub"), ring.path(name, "key"));
            minisign(&[
                "-G".as_ref(),
                "-W".as_ref(),
                "-p".as_ref(),
                &public,
                "-s".as_ref(),
                &secret,
            ]);
        }
        ring
    }

    /// `pub` or `key` of a name.
    pub fn path(&self, name: &str, kind: &str) -> PathBuf {
        self.folder.path().join(format!("{name}.{kind}"))
    }

    pub fn public(&self, name: &str) -> String {
        let text = fs::read_to_string(self.path(name, "pub")).expect("made");
        text.lines().last().expect("a key").to_owned()
    }

    /// Signs a file with these keys, under its name.
    pub fn sign(&self, file: &Path, by: &[&str]) {
        self.sign_as(file, by, None);
    }

    /// The same with a comment of its own.
    pub fn sign_as(&self, file: &Path, by: &[&str], comment: Option<&str>) {
        let one = self.path("one", "minisig");
        let signed = by.iter().map(|name| {
            let secret = self.path(name, "key");
            let own = [
                "-S".as_ref(),
                "-s".as_ref(),
                secret.as_path(),
                "-m".as_ref(),
                file,
                "-x".as_ref(),
                &one,
            ];
            let comment = comment.map_or(Vec::new(), |comment| {
                vec![Path::new("-t"), Path::new(comment)]
            });
            minisign(&[&own[..], &comment].concat());
            fs::read_to_string(&one).expect("signed")
        });
        let all: String = signed.collect();
        fs::write(format!("{}.minisig", file.display()), all).expect("written");
    }

    /// A list of keys, two of which must sign.
    pub fn list(&self, version: u32, keys: &[&str]) -> String {
        let keys: Vec<_> = keys.iter().map(|name| self.public(name)).collect();
        format!("gpusetup.keys/1 {version} 2 {}\n", keys.join(" "))
    }

    /// The same with signatures.
    pub fn signed_list(&self, version: u32, keys: &[&str], by: &[&str]) -> String {
        let (line, file) = (
            self.list(version, keys),
            self.folder.path().join(format!("release-keys-{version}")),
        );
        fs::write(&file, &line).expect("written");
        self.sign(&file, by);
        line + &fs::read_to_string(format!("{}.minisig", file.display())).expect("signed")
    }
}

fn minisign(words: &[&Path]) {
    let done = Command::new("minisign")
        .args(words)
        .output()
        .expect("minisign runs: tests/run installs it");
    assert!(
        done.status.success(),
        "{words:?}: {}",
        String::from_utf8_lossy(&done.stderr)
    );
}
