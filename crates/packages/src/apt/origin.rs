//! The properties of the repository that a list belongs to.

use super::super::Unknown;
use super::super::records::{Budget, each_record, open};
use super::sources::ListFile;
use super::stanza;
use gpusetup_system::{System, is_absent};
use std::io;
use std::path::Path;

/// A list's repository, or dpkg's record of installed packages.
#[derive(Debug, Default)]
pub(crate) struct ReleaseOrigin {
    /// `Suite`: `stable`, `bookworm-backports`; `now` for installed packages.
    pub(crate) archive: Option<String>,
    /// `bookworm`.
    pub(crate) codename: Option<String>,
    /// `12.11`.
    pub(crate) version: Option<String>,
    /// `Debian`.
    pub(crate) origin: Option<String>,
    /// `Debian-Security`.
    pub(crate) label: Option<String>,
    /// `main`.
    pub(crate) component: Option<String>,
    /// `amd64` or `all`.
    pub(crate) architecture: Option<String>,
    /// The server.
    pub(crate) site: Option<String>,
    /// The default priority of its versions.
    pub(crate) priority: i32,
    /// It is dpkg's record: nothing can be downloaded from it.
    pub(crate) is_status: bool,
}

impl ReleaseOrigin {
    /// dpkg's record of installed packages.
    pub(crate) fn status() -> Self {
        let now = Some("now".to_owned());
        Self {
            archive: now.clone(),
            component: now,
            priority: 100,
            is_status: true,
            ..Self::default()
        }
    }

    /// The repository of a list, from its `InRelease` or `Release`. Without these, only the server
    /// is known.
    pub(crate) fn of(
        system: &System,
        folder: &Path,
        index: &ListFile,
        budget: &Budget,
    ) -> Result<Self, Unknown> {
        let mut origin = Self {
            component: index.component.clone(),
            architecture: Some(index.architecture.clone()).filter(|a| !a.is_empty()),
            site: Some(index.site.clone()),
            priority: 500,
            ..Self::default()
        };
        for kind in ["InRelease", "Release"] {
            let path = folder.join(format!("{}{kind}", index.release));
            match open(system, &path, budget) {
                Ok(file) => {
                    each_record(file, b"\n\n", |stanza| {
                        origin.read(stanza);
                        Ok(())
                    })
                    .map_err(|e: io::Error| Unknown::at(&path, e))?;
                    break;
                }
                Err(e) if is_absent(&e) => {}
                Err(e) => return Err(Unknown::at(&path, e)),
            }
        }
        Ok(origin)
    }

    /// Reads the stanza that describes the repository; other stanzas belong to its signature.
    fn read(&mut self, stanza: &[u8]) {
        let field = |name: &str| {
            Some(stanza::text(stanza, name).into_owned()).filter(|text| !text.is_empty())
        };
        let is_it = ["Suite", "Codename", "Date", "SHA256"]
            .iter()
            .any(|name| stanza::field(stanza, name).is_some());
        if !is_it || stanza.starts_with(b"-----BEGIN PGP SIGNATURE") {
            return;
        }
        (self.archive, self.codename, self.version) =
            (field("Suite"), field("Codename"), field("Version"));
        (self.origin, self.label) = (field("Origin"), field("Label"));
        let switches = ["ButAutomaticUpgrades", "NotAutomatic"]
            .map(|name| field(name).is_some_and(|text| stanza::switch(&text) == Some(true)));
        self.priority = match switches {
            [true, _] => 100,
            [false, true] => 1,
            [false, false] => 500,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signed_release_is_read() {
        let mut origin = ReleaseOrigin {
            priority: 500,
            ..ReleaseOrigin::default()
        };
        let text = "-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA256\n\nOrigin: Debian Backports\nSuite: stable-backports\n\
                    Codename: bookworm-backports\nNotAutomatic: yes\nButAutomaticUpgrades: yes\nSHA256:\n a 1 main/x\n\
                    -----BEGIN PGP SIGNATURE-----\n\niQ==\n";
        text.split("\n\n")
            .for_each(|stanza| origin.read(stanza.as_bytes()));
        assert_eq!(origin.archive.as_deref(), Some("stable-backports"));
        assert_eq!(origin.origin.as_deref(), Some("Debian Backports"));
        assert_eq!(origin.priority, 100);
        origin.read(b"Suite: experimental\nNotAutomatic: yes\n");
        assert_eq!(origin.priority, 1);
    }
}
