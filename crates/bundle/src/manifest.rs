//! `bundle.json`: what a bundle holds, each file with its size and its sum. It is what a signature
//! is made over, and nothing of a bundle is believed that it does not name.

use super::BundleError;
use gpusetup_database::compat::{DatabaseId, PackageManager};
use gpusetup_database::sum::{sha256, short};
use gpusetup_host::SystemId;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The name of the manifest's format, with its number.
pub(crate) const SCHEMA: &str = "gpusetup.bundle/1";
/// Its name in a bundle.
pub(crate) const MANIFEST: &str = "bundle.json";
/// The name of minisign's signature over it.
pub(crate) const SIGNATURE: &str = "bundle.json.minisig";
/// The database's name, in the compact form of the gpusetup beside it.
pub(crate) const DATABASE: &str = "database.bin";
/// The program's name.
pub const PROGRAM: &str = "gpusetup";
/// The folder of plans.
pub(crate) const PLANS: &str = "plans";
/// The folder of artifacts: below it as in a cache.
pub(crate) const ARTIFACTS: &str = "artifacts";
/// The folder of packages: below it a repository for each system.
pub(crate) const PACKAGES: &str = "packages";

/// No manifest is longer, in bytes: a hundred thousand files would fit.
pub(crate) const MAX_BYTES: u64 = 16 << 20;

/// What a bundle holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct Manifest {
    /// The name and version of this format.
    #[cfg_attr(feature = "schemas", schemars(extend("const" = SCHEMA)))]
    pub(crate) schema: String,
    /// The version of gpusetup that made it, and is in it.
    pub(crate) tool: String,
    /// When it was made, in UTC.
    #[cfg_attr(
        feature = "schemas",
        schemars(regex(pattern = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z$"))
    )]
    pub(crate) created: String,
    /// The database in it, which its plans were made with.
    pub database: DatabaseId,
    /// The plans in the bundle.
    pub(crate) plans: Vec<PlanId>,
    /// The repositories of packages in the bundle, one for each system.
    pub(crate) packages: Vec<Repository>,
    /// Every file of the bundle but this one and its signature, by its path.
    pub files: BTreeMap<String, Entry>,
}

/// A plan, as a person tells it from others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub(crate) struct PlanId {
    /// Its path in the bundle.
    #[cfg_attr(
        feature = "schemas",
        schemars(regex(pattern = r"^plans/[0-9a-f]{16}[.]json$"))
    )]
    pub(crate) file: String,
    /// The fingerprint of the plan.
    #[cfg_attr(
        feature = "schemas",
        schemars(with = "gpusetup_database::sum::Sha256Text")
    )]
    pub(crate) fingerprint: String,
    /// What was chosen, for a person.
    pub(crate) choice: String,
    /// The system it was made for.
    pub(crate) system: SystemId,
}

/// The packages of one system, with what they depend on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct Repository {
    /// The folder in the bundle.
    #[cfg_attr(
        feature = "schemas",
        schemars(regex(pattern = r"^packages/[A-Za-z0-9._-]+$"))
    )]
    pub(crate) folder: String,
    /// The system that the packages are for.
    pub(crate) system: SystemId,
    /// The package manager that reads the repository.
    pub(crate) manager: PackageManager,
    /// The version of each package, by its name.
    pub(crate) offers: BTreeMap<String, String>,
}

/// A file of a bundle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct Entry {
    /// The size in bytes.
    pub(crate) size: u64,
    /// The SHA-256 of the file.
    #[cfg_attr(
        feature = "schemas",
        schemars(with = "gpusetup_database::sum::Sha256Text")
    )]
    pub(crate) sha256: String,
}

impl Entry {
    /// Whether bytes that have this sum, and are so many, are those.
    pub(crate) fn is(&self, came: &(String, u64)) -> bool {
        (&self.sha256, self.size) == (&came.0, came.1)
    }
}

/// The folder of a system's packages.
pub(crate) fn folder(system: &SystemId) -> String {
    let name = format!("{} {} {}", system.os, system.version, system.arch);
    let name = name.replace(
        |c: char| !c.is_ascii_alphanumeric() && !"._ ".contains(c),
        "_",
    );
    format!("{PACKAGES}/{}", name.replace(' ', "-"))
}

/// What a manifest of any version has. The rest is passed over.
#[derive(Deserialize)]
struct Head {
    schema: Option<String>,
}

impl Manifest {
    /// Reads one, and believes none that names what no bundle has.
    pub(crate) fn read(bytes: &[u8]) -> Result<Self, BundleError> {
        use BundleError::Manifest as Wrong;
        let head: Head = serde_json::from_slice(bytes).map_err(|e| Wrong(e.to_string()))?;
        match head.schema.as_deref() {
            Some(SCHEMA) => {}
            Some(other) => return Err(BundleError::Schema(other.to_owned())),
            None => return Err(Wrong("it has no schema".to_owned())),
        }
        let manifest: Self = serde_json::from_slice(bytes).map_err(|e| Wrong(e.to_string()))?;
        if let Some(name) = manifest.files.keys().find(|name| !is_ours(name)) {
            return Err(Wrong(format!(
                "it names {name:?}, which is no part of a bundle"
            )));
        }
        let folders = manifest
            .packages
            .iter()
            .map(|r| (&r.folder, folder(&r.system)));
        if let Some((folder, _)) = folders.clone().find(|(folder, right)| *folder != right) {
            return Err(Wrong(format!(
                "it names {folder:?}, which is no folder of packages"
            )));
        }
        let plans = manifest.plans.iter().map(|p| &p.file);
        if let Some(lost) = plans
            .chain([&DATABASE.to_owned(), &PROGRAM.to_owned()])
            .find(|file| !manifest.files.contains_key(*file))
        {
            return Err(Wrong(format!("it has no sum of {lost}")));
        }
        Ok(manifest)
    }

    /// As it is written.
    pub(crate) fn text(&self) -> Vec<u8> {
        // Maps in it are sorted, and text and numbers always serialise.
        let mut text = serde_json::to_vec_pretty(self).unwrap_or_default();
        text.push(b'\n');
        text
    }

    /// What tells this bundle from every other.
    pub(crate) fn id(&self) -> String {
        short(&sha256(self.text())).to_owned()
    }

    /// Bytes of all its files.
    pub fn size(&self) -> u64 {
        self.files
            .values()
            .map(|e| e.size)
            .fold(0, u64::saturating_add)
    }

    /// The repository for a host.
    pub(crate) fn repository(&self, system: &SystemId) -> Option<&Repository> {
        self.packages.iter().find(|r| r.system == *system)
    }
}

/// The path of an artifact of this sum.
pub(crate) fn artifact(sha256: &str, file: &str) -> String {
    format!("{ARTIFACTS}/{}/{file}", short(sha256))
}

/// Whether a file of a bundle may have this path: nowhere but below the bundle, in no hidden
/// folder, and plain in a terminal.
pub(crate) fn is_ours(path: &str) -> bool {
    const MAX_PARTS: usize = 5;
    let parts: Vec<_> = path.split('/').collect();
    let known = match parts.as_slice() {
        [one] => [DATABASE, PROGRAM].contains(one),
        [first, ..] => [PLANS, ARTIFACTS, PACKAGES].contains(first),
        [] => false,
    };
    known
        && parts.len() <= MAX_PARTS
        && parts.iter().all(|part| {
            !part.is_empty()
                && !part.starts_with('.')
                && part.len() < 200
                && part
                    .chars()
                    .all(|c| c.is_ascii_alphanumeric() || "._+-~%:@=,^".contains(c))
        })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A manifest of these files beside those that every bundle has.
    pub(crate) fn naming(files: &[(&str, &str)]) -> Manifest {
        let entry = |text: &str| Entry {
            size: text.len() as u64,
            sha256: sha256(text),
        };
        let always = [(DATABASE, "facts"), (PROGRAM, "program")];
        Manifest {
            schema: SCHEMA.to_owned(),
            tool: "0.1.0".to_owned(),
            created: "2026-11-21T12:00:00Z".to_owned(),
            database: DatabaseId {
                version: "2026.11.20".to_owned(),
                sha256: sha256("db"),
            },
            plans: Vec::new(),
            packages: Vec::new(),
            files: always
                .iter()
                .chain(files)
                .map(|(name, text)| ((*name).to_owned(), entry(text)))
                .collect(),
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let manifest = naming(&[(
            "artifacts/0123456789abcdef/cuda_12.4.1_550.54.15_linux.run",
            "run",
        )]);
        assert_eq!(
            Manifest::read(&manifest.text()).expect("a manifest"),
            manifest
        );
        assert_eq!(manifest.id().len(), 16);
    }

    #[test]
    fn a_path_that_leads_elsewhere_is_refused() {
        for path in [
            "/etc/passwd",
            "../x",
            "plans/../../x",
            "plans/.hidden",
            "plans//x",
            "plans/a b",
            "plans/\u{1b}[2J",
            "elsewhere/x",
            "bundle.json",
            "",
            "packages/a/b/c/d/e",
        ] {
            let refused = Manifest::read(&naming(&[(path, "x")]).text());
            assert!(
                matches!(refused, Err(BundleError::Manifest(_))),
                "{path:?}: {refused:?}"
            );
        }
        for path in [
            "packages/debian-12-x86_64/libc6_2.36-9+deb12u10_amd64.deb",
            "packages/a/g%2b%2b_4%3a12.2.0-3_amd64.deb",
        ] {
            assert!(
                Manifest::read(&naming(&[(path, "x")]).text()).is_ok(),
                "{path}"
            );
        }
    }

    #[test]
    fn another_form_is_refused() {
        let mut manifest = naming(&[]);
        manifest.schema = "gpusetup.bundle/2".to_owned();
        assert!(
            Manifest::read(&manifest.text())
                .expect_err("newer")
                .to_string()
                .contains("gpusetup.bundle/1")
        );
        let mut manifest = naming(&[]);
        manifest.files.remove(PROGRAM);
        assert!(
            Manifest::read(&manifest.text()).is_err(),
            "a bundle without a program"
        );
        assert!(Manifest::read(b"{}").is_err() && Manifest::read(b"\x00").is_err());
    }
}
