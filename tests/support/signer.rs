//! Keys made for a test that sign repositories, and databases in which they may.

#![allow(dead_code)] // each test program uses its part

use crate::host::{machine, text};
use std::fs;
use std::path::{Path, PathBuf};

/// Signs, until it is dropped.
pub struct Signer {
    home: tempfile::TempDir,
    /// As gpg takes it: the time that it believes in.
    time: Vec<String>,
    pub fingerprint: String,
}

impl Signer {
    pub fn new(name: &str) -> Self {
        Self::at(name, &[], "never")
    }

    /// One whose key is good for a day, years ago.
    pub fn expired() -> Self {
        Self::at("expired", &["--faked-system-time", "20220101T000000"], "1d")
    }

    fn at(name: &str, time: &[&str], until: &str) -> Self {
        let home = tempfile::tempdir().expect("a folder");
        let time = time.iter().map(|word| (*word).to_owned()).collect();
        let mut signer = Self {
            home,
            time,
            fingerprint: String::new(),
        };
        signer.gpg(&[
            "--passphrase",
            "",
            "--cert-digest-algo",
            "SHA512",
            "--quick-generate-key",
            name,
            "rsa2048",
            "sign",
            until,
        ]);
        let listed = signer.gpg(&["--with-colons", "--list-keys"]);
        let line = listed
            .lines()
            .find(|line| line.starts_with("fpr:"))
            .expect("a fingerprint");
        signer.fingerprint = line.split(':').nth(9).expect("its field").to_owned();
        signer
    }

    pub fn gpg(&self, arguments: &[&str]) -> String {
        let time: Vec<&str> = self.time.iter().map(String::as_str).collect();
        let own = [
            "--batch",
            "--yes",
            "--quiet",
            "--homedir",
            text(self.home.path()),
        ];
        machine("gpg", &[&own[..], &time, arguments].concat())
            .succeeds()
            .out
    }

    pub fn public_key(&self) -> String {
        self.gpg(&["--armor", "--export"])
    }

    /// Signs the lists of an rpm repository.
    pub fn sign_lists(&self, repository: &Path) {
        let lists = repository.join("repodata/repomd.xml");
        self.gpg(&[
            "--armor",
            "--digest-algo",
            "SHA512",
            "--detach-sign",
            text(&lists),
        ]);
    }

    /// Signs rpm packages.
    pub fn sign_packages(&self, packages: &[PathBuf]) {
        let name = format!("_gpg_name {}", self.fingerprint);
        let home = format!("_gpg_path {}", text(self.home.path()));
        let own = [
            "-D",
            "__gpg /usr/bin/gpg",
            "-D",
            &name,
            "-D",
            &home,
            "--addsign",
        ];
        machine(
            "rpmsign",
            &[
                &own[..],
                &packages.iter().map(|p| text(p)).collect::<Vec<_>>(),
            ]
            .concat(),
        )
        .succeeds();
    }
}

impl Drop for Signer {
    fn drop(&mut self) {
        machine(
            "gpgconf",
            &["--homedir", text(self.home.path()), "--kill", "all"],
        );
    }
}

/// A key of the database: its id and its fingerprint.
#[derive(Clone, Copy)]
pub struct Pinned {
    /// Its id.
    pub id: &'static str,
    /// Its fingerprint.
    pub fingerprint: &'static str,
}

/// A database in which these keys may sign the repositories that the pinned key signs.
pub fn database(folder: &Path, pinned: Pinned, fingerprints: &[&str]) -> PathBuf {
    let database = folder.join(fingerprints.concat());
    fs::create_dir_all(&database).expect("made");
    for part in ["compat", "manifests"] {
        let from = Path::new(env!("CARGO_MANIFEST_DIR")).join(part);
        machine("cp", &["-r", text(&from), text(&database)]).succeeds();
    }
    let file = database.join("compat/repositories.yaml");
    let Pinned { id, fingerprint } = pinned;
    let mut facts =
        fs::read_to_string(&file)
            .expect("there")
            .replacen(fingerprint, fingerprints[0], 1);
    for (n, more) in fingerprints.iter().enumerate().skip(1) {
        let key = format!(
            "signing_keys:\n  - {{ id: \"more{n}\", file: \"more{n}.pub\", fingerprint: \"{more}\", sources: [\"cuda-repo-management\"] }}\n"
        );
        facts = facts.replacen("signing_keys:\n", &key, 1).replace(
            &format!("keys: [\"{id}\"]"),
            &format!("keys: [\"{id}\", \"more{n}\"]"),
        );
    }
    fs::write(&file, facts).expect("written");
    database
}
