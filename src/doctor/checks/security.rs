//! Known vulnerabilities: what NVIDIA's security bulletins say of what is installed.

use super::no_driver_of_its_own;
use crate::causes;
use crate::compat::Bulletin;
use crate::doctor::{Evidence, Verdict};
use crate::host::{MachineKind, Toolkit};

/// The host's driver, every CUDA toolkit, and NVIDIA's container toolkit. A host without the fixes works, so this warns only.
pub fn has_fixes(seen: &Evidence) -> Verdict {
    let toolkits = seen.facts.toolkits.iter().filter(|_| seen.facts.machine.kind != MachineKind::Jetson);
    let verdicts = driver(seen).into_iter().chain(container_toolkit(seen));
    let verdicts = verdicts.chain(toolkits.map(|found| toolkit(seen, found)));
    Verdict::worst(verdicts)
        .unwrap_or_else(|| Verdict::skip("neither a driver of this host nor a toolkit is installed"))
}

fn driver(seen: &Evidence) -> Option<Verdict> {
    let driver = seen.facts.driver.as_ref().filter(|_| no_driver_of_its_own(seen).is_none())?.version;
    let mut missing = seen.bulletins.iter().filter_map(|bulletin| Some((bulletin, bulletin.missing_from(driver)?)));
    // The newest names the newest release.
    let verdict = missing.next().map_or_else(Verdict::pass, |(newest, fixed)| {
        Verdict::warn(causes::vulnerable(driver, newest, fixed)).helped(causes::fixed_driver(fixed))
    });
    Some(verdict.saw(format!("driver {driver}")))
}

fn container_toolkit(seen: &Evidence) -> Option<Verdict> {
    let version = seen.containers.toolkit_version?;
    let missing = |bulletin| Some((bulletin, Bulletin::missing_from_container_toolkit(bulletin, version)?));
    let verdict = seen.bulletins.iter().find_map(missing).map_or_else(Verdict::pass, |(newest, fixed)| {
        let remedy = causes::fixed_container_toolkit(fixed, seen.facts.os.package_manager);
        Verdict::warn(causes::vulnerable_container_toolkit(version, newest, fixed)).helped(remedy)
    });
    Some(verdict.saw(format!("NVIDIA Container Toolkit {version}")))
}

fn toolkit(seen: &Evidence, found: &Toolkit) -> Verdict {
    let (version, path) = (found.version, found.path.display());
    let missing = |bulletin| Some((bulletin, Bulletin::missing_from_toolkit(bulletin, version)?));
    let verdict = seen.bulletins.iter().find_map(missing).map_or_else(Verdict::pass, |(newest, fixed)| {
        let text = format!("install CUDA {fixed} or newer if your GPUs and programs allow it");
        Verdict::warn(causes::vulnerable_toolkit(version, newest, fixed))
            .advise(text, [format!("gpusetup plan --cuda {fixed}")])
    });
    verdict.saw(format!("CUDA {version} in {path}"))
}
