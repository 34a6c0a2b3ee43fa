//! Evidence about the companions that users ask for: whether their services run, and for which
//! driver their kernel modules were built.

use super::driver::end_of_log;
use super::{Answer, ask, names, text};
use gpusetup_database::compat::{Companion, CompanionId, Database};
use gpusetup_database::version::DriverVersion;
use gpusetup_host::Facts;
use gpusetup_system::System;
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::time::Duration;

/// How an installed companion runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
#[serde(deny_unknown_fields)]
pub struct CompanionState {
    /// Its short name, `dcgm`.
    pub(crate) id: CompanionId,
    /// What systemd says of its units: `active`, `inactive`, `failed`. None if it has none, or
    /// systemd does not run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) unit: Option<String>,
    /// The end of their log since the last boot, if they are not active.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) log: Vec<String>,
    /// The driver that DKMS built its kernel module for. None if no log says that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) built_for: Option<DriverVersion>,
}

/// Those of the database that are installed and that no hardware needs.
pub(crate) fn states(
    system: &System,
    facts: &Facts,
    database: &Database,
) -> Answer<Vec<CompanionState>> {
    let found = facts
        .companions
        .iter()
        .filter_map(|found| database.companion(found.id).filter(|of| of.on_request));
    Answer::Is(found.map(|of| state(system, facts, of)).collect())
}

fn state(system: &System, facts: &Facts, of: &Companion) -> CompanionState {
    let states: Vec<_> = of
        .units
        .iter()
        .filter_map(|unit| is_active(system, unit))
        .collect();
    let unit = states
        .iter()
        .find(|state| *state != "active")
        .or(states.first())
        .cloned();
    let is_idle = unit.as_ref().is_some_and(|state| state != "active");
    let log = of
        .units
        .iter()
        .filter(|_| is_idle)
        .flat_map(|unit| end_of_log(system, unit))
        .collect();
    let built_for = of
        .kernel_module
        .as_ref()
        .and_then(|module| built_for(system, facts, module));
    CompanionState {
        id: of.id,
        unit,
        log,
        built_for,
    }
}

/// What `systemctl is-active` prints; it fails for any other state than `active`.
fn is_active(system: &System, unit: &str) -> Option<String> {
    match ask(
        system,
        ["systemctl", "is-active", unit],
        Duration::from_secs(10),
    ) {
        Answer::Is(text) => Some(text.trim().to_owned()),
        // "systemctl ended with status 3: failed"
        Answer::Failed(why) => why.rsplit(": ").next().map(|state| state.trim().to_owned()),
        Answer::NotAsked(_) => None,
    }
}

/// The driver whose sources DKMS's log of the build for the running kernel names.
fn built_for(system: &System, facts: &Facts, module: &str) -> Option<DriverVersion> {
    let tree = Path::new("/var/lib/dkms").join(module);
    let build = Path::new(facts.kernels.running.as_deref()?)
        .join(&facts.machine.arch)
        .join("log/make.log");
    let logs = names(system, &tree).map(|version| text(system, tree.join(version).join(&build)));
    logs.filter_map(|log| driver_in(&log)).max()
}

/// "Picking NVIDIA driver sources from NVIDIA_SRC_DIR=/usr/src/nvidia-580.95.05/nvidia. If that
/// does not meet …"
fn driver_in(log: &str) -> Option<DriverVersion> {
    const SOURCES: &str = "NVIDIA_SRC_DIR=/usr/src/";
    let path = &log[log.find(SOURCES)? + SOURCES.len()..];
    let folder = path
        .split(|ch: char| ch == '/' || ch.is_whitespace())
        .next()?;
    folder.rsplit('-').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_names_the_driver_that_it_is_for() {
        let driver = |log: &str| driver_in(log).map(|version| version.to_string());
        let picked = "DKMS make.log for nvidia-fs-2.28.4\nPicking NVIDIA driver sources from NVIDIA_SRC_DIR=/usr/src/nvidia-580.95.05/nvidia. If that does not meet\n";
        assert_eq!(driver(picked).as_deref(), Some("580.95.05"));
        assert_eq!(
            driver("NVIDIA_SRC_DIR=/usr/src/nvidia-srv-570.211.01/nvidia").as_deref(),
            Some("570.211.01")
        );
        for other in [
            "",
            "NVIDIA_SRC_DIR=NVIDIA_DRIVER_MISSING",
            "NVIDIA_SRC_DIR=/usr/src/",
            "NVIDIA_SRC_DIR=/usr/src/nvidia-current/x",
        ] {
            assert_eq!(driver(other), None, "{other}");
        }
    }
}
