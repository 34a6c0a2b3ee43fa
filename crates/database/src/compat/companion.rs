//! Packages that go with the driver and that some hosts need beside it: Fabric Manager, IMEX and the like. One is a row of data: what
//! it is for, which version it must have, what its packages and units are called. Which hosts need it stands in the rows of what
//! makes them need it ([`Fabric::needs`]), and which repositories have it in their drivers' ([`DriverOffer::companions`]).
//!
//! [`Fabric::needs`]: super::Fabric::needs
//! [`DriverOffer::companions`]: super::DriverOffer::companions

use super::short_name::short_name;
use super::{Database, DriverOffer, PackageManager, SourceId};
use crate::version::DriverVersion;
use serde::{Deserialize, Serialize};

short_name! {
    /// The short name of a companion: `fabric-manager`.
    CompanionId: most 24, also b"-", pattern "^[a-z0-9-]{1,24}$", described "A companion of the driver, `imex`.";
    /// A text that is no name of a companion.
    CompanionIdError: "`{0}` is no name of a companion: 1 to 24 small letters, digits and dashes"
}

impl CompanionId {
    /// The companion whose running service doctor checks.
    pub const FABRIC_MANAGER: Self = Self::of(b"fabric-manager");
    /// `db export` prints it, like Fabric Manager, under a separate key, which scripts read.
    pub(super) const IMEX: Self = Self::of(b"imex");
}

/// A package that goes with the driver.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Companion {
    /// Its name in the other files: `imex`.
    pub id: CompanionId,
    /// What people call it: `IMEX`.
    pub title: String,
    /// What it is for: `shares memory between the hosts of an NVLink domain`.
    pub purpose: String,
    /// The beginning of a sentence that its title ends: `CUDA needs`.
    pub who_needs: String,
    /// Which version it must have.
    pub version: VersionRule,
    /// What its package is called in NVIDIA's own repositories.
    #[serde(default)]
    pub packages: Vec<CompanionPackage>,
    /// The systemd units that run it, `nvidia-imex.service`; none for what another program starts.
    #[serde(default)]
    pub units: Vec<String>,
    /// The companion whose archives stand for its own: NVIDIA publishes both with the same drivers.
    #[serde(default)]
    pub published_with: Option<CompanionId>,
    /// Where this is published.
    pub sources: Vec<SourceId>,
}

/// How the version of a companion follows from the driver's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum VersionRule {
    /// It is the driver's, to the last digit.
    Driver,
    /// It is any of the driver's branch.
    Branch,
    /// It has nothing to do with the driver's.
    Own,
}

impl VersionRule {
    /// Whether a companion of this version goes with the driver.
    pub fn accepts(self, companion: DriverVersion, driver: DriverVersion) -> bool {
        match self {
            Self::Driver => companion == driver,
            Self::Branch => companion.branch == driver.branch,
            Self::Own => true,
        }
    }
}

/// What the package of a companion is called.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CompanionPackage {
    /// Where names differ by package manager: of which one.
    #[serde(default)]
    pub package_manager: Option<PackageManager>,
    /// The first driver release of the name; none for the oldest name. `580.00` is the whole branch.
    #[serde(default)]
    pub from: Option<DriverVersion>,
    /// The name; `{branch}` stands for the driver's branch.
    pub name: String,
    /// Where this is published.
    pub sources: Vec<SourceId>,
}

impl CompanionPackage {
    /// The name beside a driver.
    fn beside(&self, driver: DriverVersion) -> String {
        self.name.replace("{branch}", &driver.branch.to_string())
    }
}

impl Companion {
    /// What its package is called in NVIDIA's own repositories for this driver; none where no source says it.
    pub fn package(&self, manager: Option<PackageManager>, driver: DriverVersion) -> Option<String> {
        let is_meant = |p: &&CompanionPackage| {
            (p.package_manager.is_none() || p.package_manager == manager) && p.from.is_none_or(|from| driver >= from)
        };
        self.packages.iter().filter(is_meant).max_by_key(|p| p.from).map(|p| p.beside(driver))
    }

    /// Whether this is its package for some driver, by what NVIDIA's own repositories call it.
    pub fn is_package(&self, name: &str) -> bool {
        let is_named = |pattern: &str| match pattern.split_once("{branch}") {
            None => name == pattern,
            Some((before, after)) => {
                let branch = name.strip_prefix(before).and_then(|rest| rest.strip_suffix(after));
                branch.is_some_and(|branch| !branch.is_empty() && branch.bytes().all(|b| b.is_ascii_digit()))
            }
        };
        self.packages.iter().any(|p| is_named(&p.name))
    }
}

impl Database {
    /// The companion of a name.
    pub fn companion(&self, id: CompanionId) -> Option<&Companion> {
        self.companions.iter().find(|c| c.id == id)
    }

    /// What people call a companion; of one that the database does not know, its id.
    pub fn companion_title(&self, id: CompanionId) -> String {
        self.companion(id).map_or_else(|| id.to_string(), |c| c.title.clone())
    }

    /// Every driver that a repository offers.
    pub fn offers(&self) -> impl Iterator<Item = &DriverOffer> {
        self.distributions.iter().flat_map(|d| &d.drivers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compat::known;

    #[test]
    fn an_id_is_a_checked_text() {
        let id = |text: &str| text.parse::<CompanionId>().map(|id| id.to_string());
        assert_eq!(id("fabric-manager"), Ok("fabric-manager".to_owned()));
        assert_eq!("fabric-manager".parse(), Ok(CompanionId::FABRIC_MANAGER));
        for wrong in ["", "Fabric-Manager", "fabric manager", "a-name-of-twenty-five-let"] {
            assert!(id(wrong).is_err_and(|e| e.to_string().starts_with(&format!("`{wrong}` is no name"))), "{wrong}");
        }
    }

    #[test]
    fn a_package_is_named_by_manager_and_driver() {
        let driver = |text: &str| text.parse::<DriverVersion>().expect("a version");
        for (id, manager, version, name) in [
            ("fabric-manager", PackageManager::Apt, "575.57.08", Some("nvidia-fabricmanager-575")),
            ("fabric-manager", PackageManager::Apt, "580.65.06", Some("nvidia-fabricmanager")),
            ("fabric-manager", PackageManager::Dnf, "570.211.01", Some("nvidia-fabric-manager")),
            ("fabric-manager", PackageManager::Dnf, "595.71.05", Some("nvidia-fabricmanager")),
            ("fabric-manager", PackageManager::Zypper, "595.71.05", None),
            ("imex", PackageManager::Apt, "570.211.01", Some("nvidia-imex-570")),
            ("imex", PackageManager::Dnf, "580.65.06", Some("nvidia-imex")),
            ("nvlsm", PackageManager::Zypper, "570.211.01", Some("nvlsm")),
        ] {
            let companion = known().companion(id.parse().expect("an id")).expect("known");
            assert_eq!(companion.package(Some(manager), driver(version)).as_deref(), name, "{id} {manager} {version}");
        }
    }

    #[test]
    fn a_package_is_recognized_by_its_name_of_any_branch() {
        let manager = known().companion(CompanionId::FABRIC_MANAGER).expect("known");
        for (name, is) in [
            ("nvidia-fabricmanager", true),
            ("nvidia-fabricmanager-535", true),
            ("nvidia-fabricmanager-dev", false),
            ("nvidia-fabricmanager-", false),
            ("nvidia-imex", false),
        ] {
            assert_eq!(manager.is_package(name), is, "{name}");
        }
    }

    #[test]
    fn a_rule_compares_versions() {
        let (driver, other, older) = ("580.95.05", "580.82.07", "575.57.08");
        let accepts = |rule: VersionRule, version: &str| {
            rule.accepts(version.parse().expect("a version"), driver.parse().expect("a version"))
        };
        assert_eq!([driver, other, older].map(|v| accepts(VersionRule::Driver, v)), [true, false, false]);
        assert_eq!([driver, other, older].map(|v| accepts(VersionRule::Branch, v)), [true, true, false]);
        assert_eq!([driver, other, older].map(|v| accepts(VersionRule::Own, v)), [true, true, true]);
    }
}
