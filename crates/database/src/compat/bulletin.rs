//! NVIDIA's security bulletins: below which release of its branch a driver is known to be
//! vulnerable, and below which release a CUDA toolkit, NVIDIA's container toolkit or a companion
//! such as DCGM is.

use super::{CompanionId, Database, SourceId};
use crate::version::{AddOnVersion, CudaVersion, DriverVersion};
use serde::{Deserialize, Serialize};

/// A security bulletin about drivers, CUDA toolkits, NVIDIA's container toolkit or companions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bulletin {
    /// Its title for readers: `NVIDIA GPU Display Drivers, October 2025`.
    pub title: String,
    /// The month of its publication, `2025-10`.
    pub(crate) published: String,
    /// Its number at `nvidia.custhelp.com/app/answers/detail/a_id/`, if a source states it.
    #[serde(default)]
    pub number: Option<u32>,
    /// The vulnerabilities, `CVE-2025-23280`.
    pub vulnerabilities: Vec<String>,
    /// The first drivers with the fixes, one per branch; none in a bulletin about something else.
    #[serde(default)]
    pub fixed: Vec<DriverVersion>,
    /// The first CUDA toolkit with the fixes, `13.1`.
    #[serde(default)]
    pub(crate) fixed_toolkit: Option<CudaVersion>,
    /// The first release of NVIDIA's container toolkit with the fixes, `1.17.8`.
    #[serde(default)]
    pub(crate) fixed_container_toolkit: Option<AddOnVersion>,
    /// The first release of a companion with the fixes.
    #[serde(default)]
    pub fixed_companion: Option<FixedCompanion>,
    pub(crate) sources: Vec<SourceId>,
}

/// The first release of a companion with the fixes of a bulletin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FixedCompanion {
    /// Its id: `dcgm`.
    pub id: CompanionId,
    /// The release, `4.5.3`.
    pub(crate) version: AddOnVersion,
}

impl Bulletin {
    /// The release of the driver's branch that has the fixes, if this driver lacks them.
    pub fn missing_from(&self, driver: DriverVersion) -> Option<DriverVersion> {
        self.fixed
            .iter()
            .copied()
            .find(|fixed| fixed.branch == driver.branch && driver < *fixed)
    }

    /// The first CUDA release that has the fixes, if this toolkit lacks them.
    pub fn missing_from_toolkit(&self, toolkit: CudaVersion) -> Option<CudaVersion> {
        self.fixed_toolkit.filter(|fixed| toolkit < *fixed)
    }

    /// The first release of NVIDIA's container toolkit that has the fixes, if this one lacks them.
    pub fn missing_from_container_toolkit(&self, toolkit: AddOnVersion) -> Option<AddOnVersion> {
        self.fixed_container_toolkit
            .filter(|fixed| toolkit < *fixed)
    }

    /// The first release of a companion that has the fixes, if this one lacks them.
    pub fn missing_from_companion(
        &self,
        id: CompanionId,
        version: AddOnVersion,
    ) -> Option<AddOnVersion> {
        let fixed = self.fixed_companion.filter(|fixed| fixed.id == id)?;
        (version < fixed.version).then_some(fixed.version)
    }

    /// The first releases with the fixes: `drivers 570.195.03, 580.95.05`, `CUDA 13.1`.
    pub fn fixes(&self, database: &Database) -> String {
        let drivers: Vec<_> = self.fixed.iter().map(ToString::to_string).collect();
        let mut all = match drivers.as_slice() {
            [] => Vec::new(),
            [only] => vec![format!("driver {only}")],
            several => vec![format!("drivers {}", several.join(", "))],
        };
        all.extend(self.fixed_toolkit.map(|v| format!("CUDA {v}")));
        let toolkit = self.fixed_container_toolkit;
        all.extend(toolkit.map(|v| format!("NVIDIA Container Toolkit {v}")));
        all.extend(self.fixed_companion.map(|fixed| {
            let known = database.companions.iter().find(|c| c.id == fixed.id);
            let title = known.map_or(fixed.id.as_str(), |known| known.title.as_str());
            format!("{title} {}", fixed.version)
        }));
        all.join(", ")
    }

    /// Where it is published.
    pub fn source_ids(&self) -> &[SourceId] {
        &self.sources
    }
}

impl Database {
    /// The bulletins whose fixes a driver lacks, newest first, each with the release of its branch
    /// that has them.
    pub fn vulnerabilities_of(
        &self,
        driver: DriverVersion,
    ) -> impl Iterator<Item = (&Bulletin, DriverVersion)> {
        self.bulletins
            .iter()
            .filter_map(move |bulletin| Some((bulletin, bulletin.missing_from(driver)?)))
    }

    /// The newest bulletin about drivers, if it names newer branches and not this driver's, whose
    /// fixes nobody published then.
    pub fn bulletin_without(&self, driver: DriverVersion) -> Option<&Bulletin> {
        let newest = self
            .bulletins
            .iter()
            .find(|bulletin| !bulletin.fixed.is_empty())?;
        let is_named = newest
            .fixed
            .iter()
            .any(|fixed| fixed.branch == driver.branch);
        (!is_named
            && newest
                .fixed
                .iter()
                .any(|fixed| fixed.branch > driver.branch))
        .then_some(newest)
    }

    /// Whether no bulletin names fixes that a driver lacks.
    pub fn has_fixes(&self, driver: DriverVersion) -> bool {
        self.vulnerabilities_of(driver).next().is_none() && self.bulletin_without(driver).is_none()
    }

    /// The bulletins whose fixes a toolkit lacks, newest first, each with the first release that
    /// has them.
    pub fn vulnerabilities_of_toolkit(
        &self,
        toolkit: CudaVersion,
    ) -> impl Iterator<Item = (&Bulletin, CudaVersion)> {
        self.bulletins
            .iter()
            .filter_map(move |bulletin| Some((bulletin, bulletin.missing_from_toolkit(toolkit)?)))
    }
}

#[cfg(test)]
mod tests {
    use crate::compat::known;
    use crate::version::{CudaVersion, DriverVersion};

    #[test]
    fn a_driver_lacks_the_fixes_of_its_branch_only() {
        let months = |version: &str| {
            let driver: DriverVersion = version.parse().expect("a version");
            known()
                .vulnerabilities_of(driver)
                .map(|(bulletin, _)| bulletin.published.clone())
                .collect::<Vec<_>>()
        };
        assert_eq!(months("570.195.03"), ["2026-01"]);
        assert_eq!(months("570.133.20"), ["2026-01", "2025-10", "2025-07"]);
        assert_eq!(months("580.159.03"), ["2026-09"]);
        assert_eq!(months("580.178.04"), [""; 0]);
        assert_eq!(
            months("470.256.02"),
            [""; 0],
            "no bulletin names it: its end of life is told instead"
        );
    }

    #[test]
    fn a_branch_between_those_of_the_newest_bulletin_has_no_fixes() {
        let month = |version: &str| {
            let driver: DriverVersion = version.parse().expect("a version");
            known()
                .bulletin_without(driver)
                .map(|bulletin| bulletin.published.as_str())
        };
        assert_eq!(
            (month("590.48.01"), month("580.178.04"), month("580.65.06")),
            (Some("2026-09"), None, None)
        );
        assert_eq!(month("999.1.1"), None, "it is newer than the bulletin");
    }

    #[test]
    fn a_toolkit_lacks_the_fixes_of_all_bulletins_that_name_a_newer_one() {
        let months = |version: &str| {
            let toolkit: CudaVersion = version.parse().expect("a version");
            known()
                .vulnerabilities_of_toolkit(toolkit)
                .map(|(bulletin, _)| bulletin.published.clone())
                .collect::<Vec<_>>()
        };
        assert_eq!(
            months("13.1"),
            [""; 0],
            "a toolkit that does not say which update it is"
        );
        assert_eq!(months("13.0.3"), ["2026-01"]);
        assert_eq!(months("12.8.1"), ["2026-01", "2025-09", "2025-05"]);
        assert_eq!(
            months("12.6.1"),
            ["2026-01", "2025-09", "2025-05", "2025-02", "2024-10"]
        );
        assert_eq!(
            months("12.6.2"),
            ["2026-01", "2025-09", "2025-05", "2025-02"]
        );
    }

    #[test]
    fn a_container_toolkit_lacks_the_fixes_that_came_after_it() {
        let count = |version: &str| {
            let version = version.parse().expect("a version");
            known()
                .bulletins
                .iter()
                .filter(|bulletin| bulletin.missing_from_container_toolkit(version).is_some())
                .count()
        };
        assert_eq!(
            ["1.19.1", "1.17.8", "1.17.7", "1.16.2", "1.16.1"].map(count),
            [0, 1, 2, 5, 6]
        );
    }

    #[test]
    fn a_companion_lacks_the_fixes_of_its_own_bulletins_only() {
        let count = |id: &str, version: &str| {
            let (id, version) = (
                id.parse().expect("an id"),
                version.parse().expect("a version"),
            );
            known()
                .bulletins
                .iter()
                .filter(|bulletin| bulletin.missing_from_companion(id, version).is_some())
                .count()
        };
        assert_eq!(
            ["4.5.3", "4.5.2", "3.1.7", "3.1.6", "2.3.1"].map(|version| count("dcgm", version)),
            [0, 1, 1, 2, 3]
        );
        assert_eq!(count("gds", "2.3.1"), 0);
    }
}
