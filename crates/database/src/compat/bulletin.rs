//! NVIDIA's security bulletins: below which release of its branch a driver is known to be vulnerable.

use super::{Database, SourceId};
use crate::version::DriverVersion;
use serde::{Deserialize, Serialize};

/// A security bulletin about drivers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bulletin {
    /// Its title for readers: `NVIDIA GPU Display Drivers, October 2025`.
    pub title: String,
    /// The month of its publication, `2025-10`.
    pub published: String,
    /// Its number at `nvidia.custhelp.com/app/answers/detail/a_id/`, if a source states it.
    #[serde(default)]
    pub number: Option<u32>,
    /// The vulnerabilities, `CVE-2025-23280`.
    pub vulnerabilities: Vec<String>,
    /// The first releases with the fixes, one per branch.
    pub fixed: Vec<DriverVersion>,
    /// The sources.
    pub sources: Vec<SourceId>,
}

impl Bulletin {
    /// The release of the driver's branch that has the fixes, if this driver lacks them.
    pub fn missing_from(&self, driver: DriverVersion) -> Option<DriverVersion> {
        self.fixed.iter().copied().find(|fixed| fixed.branch == driver.branch && driver < *fixed)
    }
}

impl Database {
    /// The bulletins whose fixes a driver lacks, newest first, each with the release of its branch that has them.
    pub fn vulnerabilities_of(&self, driver: DriverVersion) -> impl Iterator<Item = (&Bulletin, DriverVersion)> {
        self.bulletins.iter().filter_map(move |bulletin| Some((bulletin, bulletin.missing_from(driver)?)))
    }
}

#[cfg(test)]
mod tests {
    use crate::compat::known;
    use crate::version::DriverVersion;

    #[test]
    fn a_driver_lacks_the_fixes_of_its_branch_only() {
        let months = |version: &str| {
            let driver: DriverVersion = version.parse().expect("a version");
            known().vulnerabilities_of(driver).map(|(bulletin, _)| bulletin.published.clone()).collect::<Vec<_>>()
        };
        assert_eq!(months("570.195.03"), ["2026-01"]);
        assert_eq!(months("570.133.20"), ["2026-01", "2025-10", "2025-07"]);
        assert_eq!(months("580.159.03"), ["2026-09"]);
        assert_eq!(months("580.178.04"), [""; 0]);
        assert_eq!(months("470.256.02"), [""; 0], "no bulletin names it: its end of life is told instead");
    }
}
