//! How this gpusetup was installed: by the install script, whose receipt lists the files, or by a
//! package manager.

use crate::packages::{self, owners};
use crate::system::System;
use std::collections::BTreeSet;
use std::io;
use std::path::{Component, Path, PathBuf};

/// The place of the receipt below the prefix.
pub(crate) const RECEIPT: &str = "share/gpusetup/receipt";
/// The place of the program below the prefix.
pub(crate) const PROGRAM: &str = "bin/gpusetup";
/// The name of its package.
const NAME: &str = "gpusetup";
/// The first line of a receipt.
const FORM: &str = "gpusetup.receipt/1";

/// How it was installed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Installation {
    /// By install.sh, below a prefix.
    Script {
        /// The folder that has `bin/gpusetup`.
        prefix: PathBuf,
        /// What was installed.
        receipt: Receipt,
    },
    /// By something that has its own commands.
    Managed {
        /// Its name.
        by: &'static str,
        /// Its command for a newer version.
        update: String,
        /// Its command for removal.
        remove: String,
    },
    /// Nothing tells.
    Unknown,
}

/// What the install script installed. The text has lines `version 0.1.0`, `from ADDRESS` and `file
/// PATH` after the first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Receipt {
    pub(crate) version: String,
    /// The address of the releases, or the folder with the files of one.
    pub(crate) from: String,
    /// The files, below the prefix.
    pub(crate) files: BTreeSet<String>,
}

impl Receipt {
    /// Reads a receipt; none if it is not one, or names a file elsewhere.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        if lines.next() != Some(FORM) {
            return None;
        }
        let mut receipt = Self::default();
        for line in lines {
            match line.split_once(' ')? {
                ("version", version) => receipt.version = version.to_owned(),
                ("from", from) => receipt.from = from.to_owned(),
                ("file", file) if is_below(file) => drop(receipt.files.insert(file.to_owned())),
                _ => return None,
            }
        }
        Some(receipt)
    }

    pub(crate) fn text(&self) -> String {
        let files: String = self
            .files
            .iter()
            .map(|file| format!("file {file}\n"))
            .collect();
        format!(
            "{FORM}\nversion {}\nfrom {}\n{files}",
            self.version, self.from
        )
    }
}

/// Whether a path leads to a place below the folder that it begins in.
pub(crate) fn is_below(path: &str) -> bool {
    !path.is_empty()
        && Path::new(path)
            .components()
            .all(|part| matches!(part, Component::Normal(_)))
}

/// What installs programs without a record that is read here, by a part of the program's path: its
/// name, and its commands.
const BY_PLACE: [(&str, &str, &str, &str); 3] = [
    (
        "/nix/store/",
        "Nix",
        "nix profile upgrade gpusetup",
        "nix profile remove gpusetup",
    ),
    (
        "/Cellar/",
        "Homebrew",
        "brew upgrade gpusetup",
        "brew uninstall gpusetup",
    ),
    (
        "/.cargo/bin/",
        "cargo",
        "cargo install gpusetup",
        "cargo uninstall gpusetup",
    ),
];

/// How the program at this path was installed.
///
/// # Errors
///
/// If the records of the package manager cannot be read.
pub(crate) fn of(system: &System, program: &Path) -> io::Result<Installation> {
    let prefix = program.parent().and_then(Path::parent);
    if let Some(prefix) = prefix.filter(|prefix| program == prefix.join(PROGRAM)) {
        let text = system.read_text(prefix.join(RECEIPT))?;
        if let Some(receipt) = text.and_then(|text| Receipt::read(&text)) {
            return Ok(Installation::Script {
                prefix: prefix.to_owned(),
                receipt,
            });
        }
    }
    if let Some(manager) = packages::find(|path| system.exists(path)) {
        let paths = BTreeSet::from([program.to_owned()]);
        if owners(system, manager, &paths)?
            .values()
            .flatten()
            .any(|package| package == NAME)
        {
            let by_hand = &packages::of(manager).by_hand;
            return Ok(Installation::Managed {
                by: by_hand.install.split(' ').next().unwrap_or_default(),
                update: format!("sudo {} {NAME}", by_hand.upgrade),
                remove: format!("sudo {} {NAME}", by_hand.remove),
            });
        }
    }
    let path = program.to_string_lossy();
    let by_place = BY_PLACE.into_iter().find(|(part, ..)| path.contains(part));
    Ok(
        by_place.map_or(Installation::Unknown, |(_, by, update, remove)| {
            Installation::Managed {
                by,
                update: update.to_owned(),
                remove: remove.to_owned(),
            }
        }),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_receipt_names_files_below_its_prefix() {
        let text = "gpusetup.receipt/1\nversion 0.1.0\nfrom https://e.org/releases\nfile bin/gpusetup\nfile share/gpusetup/receipt\n";
        let receipt = Receipt::read(text).expect("a receipt");
        assert_eq!(receipt.text(), text);
        for wrong in [
            "file ../etc/passwd",
            "file /etc/passwd",
            "file ",
            "file a/../../b",
            "what else",
            "file",
        ] {
            assert_eq!(
                Receipt::read(&format!("gpusetup.receipt/1\n{wrong}\n")),
                None,
                "{wrong}"
            );
        }
        assert_eq!(Receipt::read("another file\n"), None);
    }

    #[test]
    fn its_place_and_the_records_tell_who_installed_it() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let system = System::at(dir.path());
        let put = |path: &str, text: &str| {
            system
                .make_directories(Path::new(path).parent().expect("a parent"), 0o755)
                .expect("made");
            system.write(path, text.as_bytes(), 0o644).expect("written");
        };
        let by = |path: &str| match of(&system, Path::new(path)).expect("readable") {
            Installation::Managed { by, .. } => by.to_owned(),
            Installation::Script { prefix, receipt } => {
                format!("{} {}", prefix.display(), receipt.version)
            }
            Installation::Unknown => "unknown".to_owned(),
        };
        put(
            "/opt/g/share/gpusetup/receipt",
            "gpusetup.receipt/1\nversion 0.1.0\nfrom /mnt\n",
        );
        put("/usr/bin/apt-get", "");
        put(
            "/var/lib/dpkg/info/gpusetup.list",
            "/.\n/usr\n/usr/bin\n/usr/bin/gpusetup\n",
        );
        assert_eq!(by("/opt/g/bin/gpusetup"), "/opt/g 0.1.0");
        assert_eq!(by("/opt/g/elsewhere/gpusetup"), "unknown");
        assert_eq!(by("/usr/bin/gpusetup"), "apt-get");
        assert_eq!(by("/usr/local/bin/gpusetup"), "unknown");
        assert_eq!(by("/home/me/.cargo/bin/gpusetup"), "cargo");
        assert_eq!(by("/nix/store/abc-gpusetup-0.1.0/bin/gpusetup"), "Nix");
        assert_eq!(
            by("/home/linuxbrew/.linuxbrew/Cellar/gpusetup/0.1.0/bin/gpusetup"),
            "Homebrew"
        );
    }
}
