//! Companions: packages tied to the driver that some hosts need besides it, such as Fabric Manager
//! and IMEX. Each is a row of data: its purpose, its version rule, the names of its packages and
//! units. The hosts that need it follow from the rows of the hardware ([`Fabric::needs`]), and the
//! repositories that have it from their driver offers ([`DriverOffer::companions`]). Others are
//! installed only if the user asks for them, such as DCGM.
//!
//! [`Fabric::needs`]: super::Fabric::needs
//! [`DriverOffer::companions`]: super::DriverOffer::companions

use super::short_name::short_name;
use super::{
    Artifact, Database, DriverOffer, DriverVariant, ModuleFlavour, PackageManager, Repository,
    SourceId, cuda_arch,
};
use crate::version::{ComputeCapability, DriverVersion};
use serde::{Deserialize, Serialize};

short_name! {
    /// The short name of a companion: `fabric-manager`.
    CompanionId: most 24, also b"-", pattern "^[a-z0-9-]{1,24}$", described "A companion of the driver, `imex`.";
    CompanionIdError: "`{0}` is not a companion's name: use 1 to 24 lower-case letters, digits and dashes"
}

impl CompanionId {
    /// The companion whose running service doctor checks.
    pub const FABRIC_MANAGER: Self = Self::of(b"fabric-manager");
    /// Like Fabric Manager, `db export` prints it under a separate key that scripts read.
    pub(super) const IMEX: Self = Self::of(b"imex");
}

/// A package tied to the driver.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Companion {
    /// The name used in other files: `imex`.
    pub id: CompanionId,
    /// The usual name: `IMEX`.
    pub title: String,
    /// The purpose, as a verb phrase: `shares memory between the hosts of an NVLink domain`.
    pub purpose: String,
    /// The start of a sentence that ends in the title: `CUDA needs`.
    pub who_needs: String,
    /// Whether it is installed only if the user asks for it by its name; no hardware needs it.
    #[serde(default)]
    pub on_request: bool,
    /// What makes it unnecessary on hosts where that works.
    #[serde(default)]
    pub instead_of: Option<Substitute>,
    /// The version that it must have.
    pub version: VersionRule,
    /// What it needs of the driver besides its version.
    #[serde(default)]
    pub driver: DriverNeeds,
    /// The kernel module that every boot loads: `nvidia-fs`. Without packages, it is one of the
    /// driver's own.
    #[serde(default)]
    pub kernel_module: Option<String>,
    /// The names of its package in NVIDIA's own repositories.
    #[serde(default)]
    pub packages: Vec<CompanionPackage>,
    /// Packages that its packages depend on and nothing else does. They are removed with it.
    #[serde(default)]
    pub(crate) depends: Vec<String>,
    /// Packages of its older generation, which conflict with its own. They are removed before it is
    /// installed.
    #[serde(default)]
    pub(crate) replaces: Vec<String>,
    /// The repository that has it, if its version does not depend on the driver's. Others are in
    /// the driver's repository.
    #[serde(default)]
    pub repository: Option<Repository>,
    /// The lines of GPUs that its documentation names, `GeForce`; empty if it names none.
    #[serde(default)]
    pub gpu_lines: Vec<String>,
    /// A program of it, which shows that it is installed.
    #[serde(default)]
    pub program: Option<String>,
    /// Its systemd units, `nvidia-imex.service`; empty if another program starts it.
    #[serde(default)]
    pub units: Vec<String>,
    /// A file in which the user names the hosts that it connects; without it, its units cannot
    /// start.
    #[serde(default)]
    pub peers: Option<String>,
    /// Where the files of its archive go, which NVIDIA publishes for each driver. It serves drivers
    /// that are not from packages.
    #[serde(default)]
    pub archive: Vec<ArchivedFile>,
    /// The companion whose archives prove that this one exists: NVIDIA publishes both for the same
    /// drivers.
    #[serde(default)]
    pub published_with: Option<CompanionId>,
    /// The sources.
    pub sources: Vec<SourceId>,
}

/// Where a file or a folder of a companion's archive goes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArchivedFile {
    /// The path in the archive, below its outermost folder.
    pub from: String,
    /// The path on the host.
    pub to: String,
}

/// What a companion needs of the driver.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DriverNeeds {
    /// The first driver with its module, if that is one of the driver's own; `470.00` is the whole
    /// branch.
    #[serde(default)]
    pub from: Option<DriverVersion>,
    /// The flavour of the kernel modules; none if it works with both.
    #[serde(default)]
    pub modules: Option<ModuleFlavour>,
    /// Whether the driver must be from packages, because the companion's packages depend on them.
    #[serde(default)]
    pub packaged: bool,
}

/// What serves the purpose of a companion without it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Substitute {
    /// Kernel and driver share the memory of GPUs with RDMA adapters by DMA-BUF.
    DmaBuf,
}

/// How a companion's version depends on the driver's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum VersionRule {
    /// It equals the driver's version.
    Driver,
    /// Any version of the driver's branch.
    Branch,
    /// It does not depend on the driver's version.
    Own,
}

impl VersionRule {
    /// Whether a companion of this version fits the driver.
    pub fn accepts(self, companion: DriverVersion, driver: DriverVersion) -> bool {
        match self {
            Self::Driver => companion == driver,
            Self::Branch => companion.branch == driver.branch,
            Self::Own => true,
        }
    }
}

/// The name of a companion's package.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CompanionPackage {
    /// The package manager, if names differ by package manager.
    #[serde(default)]
    pub package_manager: Option<PackageManager>,
    /// The first driver release with this name; none for the oldest name. `580.00` is the whole
    /// branch.
    #[serde(default)]
    pub(crate) from: Option<DriverVersion>,
    /// The compute capability that all GPUs of the host have at least, if older GPUs need another
    /// package.
    #[serde(default)]
    pub(crate) least_capability: Option<ComputeCapability>,
    /// The name; `{branch}` stands for the driver's branch.
    pub name: String,
    /// Packages that it recommends and that are installed with it.
    #[serde(default)]
    pub(crate) with: Vec<String>,
    pub(crate) sources: Vec<SourceId>,
}

impl CompanionPackage {
    /// The name for a driver.
    fn name_for(&self, driver: DriverVersion) -> String {
        self.name.replace("{branch}", &driver.branch.to_string())
    }
}

impl Companion {
    /// The name of its package in NVIDIA's own repositories for this driver; none if no source
    /// states it.
    pub fn package(
        &self,
        manager: Option<PackageManager>,
        driver: DriverVersion,
    ) -> Option<String> {
        self.packages_for(manager, driver, None).into_iter().next()
    }

    /// The same with the packages that are installed with it, for a host whose oldest GPU has this
    /// compute capability. Empty if no source states one.
    pub fn packages_for(
        &self,
        manager: Option<PackageManager>,
        driver: DriverVersion,
        oldest: Option<ComputeCapability>,
    ) -> Vec<String> {
        let meant = self.packages.iter().filter(|p| {
            (p.package_manager.is_none() || p.package_manager == manager)
                && p.from.is_none_or(|from| driver >= from)
                && p.least_capability
                    .zip(oldest)
                    .is_none_or(|(least, have)| have >= least)
        });
        meant
            .max_by_key(|p| p.from)
            .map(|p| {
                [p.name_for(driver)]
                    .into_iter()
                    .chain(p.with.iter().cloned())
                    .collect()
            })
            .unwrap_or_default()
    }

    /// Whether it is one of the driver's own kernel modules, which no package has to be installed
    /// for.
    pub fn is_part_of_driver(&self) -> bool {
        self.packages.is_empty() && self.kernel_module.is_some()
    }

    /// The file with which gpusetup has every boot load its kernel module.
    pub fn module_file(&self) -> Option<String> {
        self.kernel_module
            .as_ref()
            .map(|_| format!("/etc/modules-load.d/gpusetup-{}.conf", self.id))
    }

    /// The oldest driver that has its module, or for which a package is known; none if the first
    /// package has no bound.
    pub fn oldest_driver(&self) -> Option<DriverVersion> {
        self.driver
            .from
            .or_else(|| self.packages.iter().map(|p| p.from).min().flatten())
    }

    /// Whether this is the name of its package for some driver in NVIDIA's own repositories.
    pub fn is_package(&self, name: &str) -> bool {
        self.packages
            .iter()
            .any(|p| match p.name.split_once("{branch}") {
                None => name == p.name,
                Some((before, after)) => {
                    let branch = name
                        .strip_prefix(before)
                        .and_then(|rest| rest.strip_suffix(after));
                    branch.is_some_and(|branch| {
                        !branch.is_empty() && branch.bytes().all(|b| b.is_ascii_digit())
                    })
                }
            })
    }

    /// Whether this is a package of its older generation.
    pub fn is_former(&self, name: &str) -> bool {
        self.replaces.iter().any(|former| former == name)
    }

    /// Whether this package belongs to it, or came with it.
    pub fn has_part(&self, name: &str) -> bool {
        let mut others = self
            .packages
            .iter()
            .flat_map(|p| &p.with)
            .chain(&self.depends)
            .chain(&self.replaces);
        self.is_package(name) || others.any(|other| other == name)
    }
}

impl Database {
    /// The companion with this id.
    pub fn companion(&self, id: CompanionId) -> Option<&Companion> {
        self.companions.iter().find(|c| c.id == id)
    }

    /// The archive of a companion in the version of this driver; none if no checksum of one is
    /// known.
    pub fn companion_archive(
        &self,
        id: CompanionId,
        driver: DriverVersion,
        machine: &str,
    ) -> Option<&Artifact> {
        let arch = cuda_arch(machine);
        let mut artifacts = self.driver(driver)?.artifacts.iter();
        let found = artifacts
            .find(|a| a.variant == DriverVariant::Companion(id) && a.artifact.arch == arch)?;
        Some(&found.artifact).filter(|artifact| artifact.is_verifiable())
    }

    /// The usual name of a companion; its id if the database does not know it.
    pub fn companion_title(&self, id: CompanionId) -> String {
        self.companion(id)
            .map_or_else(|| id.to_string(), |c| c.title.clone())
    }

    /// Every driver offered by a repository.
    pub(crate) fn offers(&self) -> impl Iterator<Item = &DriverOffer> {
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
        for wrong in [
            "",
            "Fabric-Manager",
            "fabric manager",
            "a-name-of-twenty-five-let",
        ] {
            assert!(
                id(wrong).is_err_and(|e| e
                    .to_string()
                    .starts_with(&format!("`{wrong}` is not a companion's name"))),
                "{wrong}"
            );
        }
    }

    #[test]
    fn a_package_is_named_by_manager_and_driver() {
        let driver = |text: &str| text.parse::<DriverVersion>().expect("a version");
        for (id, manager, version, name) in [
            (
                "fabric-manager",
                PackageManager::Apt,
                "575.57.08",
                Some("nvidia-fabricmanager-575"),
            ),
            (
                "fabric-manager",
                PackageManager::Apt,
                "580.65.06",
                Some("nvidia-fabricmanager"),
            ),
            (
                "fabric-manager",
                PackageManager::Dnf,
                "570.211.01",
                Some("nvidia-fabric-manager"),
            ),
            (
                "fabric-manager",
                PackageManager::Dnf,
                "595.71.05",
                Some("nvidia-fabricmanager"),
            ),
            (
                "fabric-manager",
                PackageManager::Zypper,
                "595.71.05",
                Some("nvidia-fabricmanager"),
            ),
            ("fabric-manager", PackageManager::Zypper, "570.211.01", None),
            (
                "imex",
                PackageManager::Apt,
                "570.211.01",
                Some("nvidia-imex-570"),
            ),
            (
                "imex",
                PackageManager::Dnf,
                "580.65.06",
                Some("nvidia-imex"),
            ),
            ("nvlsm", PackageManager::Zypper, "570.211.01", Some("nvlsm")),
        ] {
            let companion = known()
                .companion(id.parse().expect("an id"))
                .expect("known");
            assert_eq!(
                companion.package(Some(manager), driver(version)).as_deref(),
                name,
                "{id} {manager} {version}"
            );
        }
    }

    #[test]
    fn a_package_depends_on_the_oldest_gpu_of_the_host() {
        let dcgm = known()
            .companion("dcgm".parse().expect("an id"))
            .expect("known");
        for (driver, oldest, cuda) in [
            ("470.256.02", "8.0", Some(11)),
            ("570.211.01", "8.0", Some(12)),
            ("580.95.05", "8.0", Some(13)),
            ("580.95.05", "7.5", Some(13)),
            ("580.95.05", "7.0", Some(12)),
            ("440.118.02", "7.0", None),
        ] {
            let oldest = Some(oldest.parse().expect("a capability"));
            let names = dcgm.packages_for(
                Some(PackageManager::Apt),
                driver.parse().expect("a version"),
                oldest,
            );
            let name = cuda.map(|cuda| format!("datacenter-gpu-manager-4-cuda{cuda}"));
            assert_eq!(names.first(), name.as_ref(), "{driver} {oldest:?}");
        }
        assert_eq!(dcgm.oldest_driver(), "450.00".parse().ok());
    }

    #[test]
    fn a_package_is_recognized_by_its_name_of_any_branch() {
        let manager = known()
            .companion(CompanionId::FABRIC_MANAGER)
            .expect("known");
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
            rule.accepts(
                version.parse().expect("a version"),
                driver.parse().expect("a version"),
            )
        };
        assert_eq!(
            [driver, other, older].map(|v| accepts(VersionRule::Driver, v)),
            [true, false, false]
        );
        assert_eq!(
            [driver, other, older].map(|v| accepts(VersionRule::Branch, v)),
            [true, true, false]
        );
        assert_eq!(
            [driver, other, older].map(|v| accepts(VersionRule::Own, v)),
            [true, true, true]
        );
    }
}
