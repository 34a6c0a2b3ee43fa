//! The fabric between GPUs: NVSwitches and Fabric Manager.

use super::nvml::{inside_fabric, outside_fabric};
use crate::causes;
use crate::compat::VersionRule;
use crate::doctor::{Answer, Evidence, Verdict};
use crate::operation::{Operation, Service};
use crate::packages;

/// Fabric Manager on hosts with NVSwitches, and the fabric state of each GPU, because the switches may be visible only to
/// another machine.
pub fn manager(seen: &Evidence) -> Verdict {
    let none = || Verdict::skip("the host has no NVSwitch, or no driver is installed");
    Verdict::worst(service(seen).into_iter().chain(fabric(seen))).unwrap_or_else(none)
}

fn fabric(seen: &Evidence) -> Option<Verdict> {
    let (outside, inside) = (outside_fabric(seen), inside_fabric(seen));
    if outside.is_empty() {
        return (inside > 0).then(|| Verdict::pass().saw(format!("{inside} GPUs are in their fabric")));
    }
    let count = outside.len();
    let computes = matches!(&seen.cuda, Answer::Is(cuda) if cuda.computes());
    let verdict = if computes {
        Verdict::warn(format!("{count} GPUs are not in their fabric: they cannot reach other GPUs by NVLink"))
    } else {
        Verdict::fail(format!(
            "{count} GPUs are not in their fabric: CUDA fails with \"system not yet initialized\" (802)"
        ))
    };
    let verdict = outside.into_iter().fold(verdict, |v, (at, how)| v.saw(format!("{at}: fabric {how}")));
    let logs = seen.fabric_units().map(|unit| format!("journalctl -u {unit} -n 50"));
    Some(verdict.advise(
        format!("start {} and read its log; for a virtual machine, do this on the host", seen.fabric_title()),
        seen.fabric_start().chain(logs),
    ))
}

fn start(unit: String) -> Operation {
    Operation::Service(Service { unit, enabled: true })
}

fn service(seen: &Evidence) -> Option<Verdict> {
    let facts = &seen.facts;
    let driver = facts.driver.as_ref().filter(|_| !facts.nvswitches.is_empty())?;
    let switches = format!("{} NVSwitches", facts.nvswitches.len());
    let (version, title) = (driver.version, seen.fabric_title());
    let Some(companion) = &seen.fabric_companion else {
        return Some(Verdict::skip(format!("{title} is not in the database")).saw(switches));
    };
    let needed = causes::companion(companion, version);
    let install = |cause: String| {
        let (which, versions) = match companion.version {
            VersionRule::Driver => (format!(" {version} (exactly)"), format!("{version}*")),
            VersionRule::Branch => (format!(" of branch {}", version.branch), format!("{}.*", version.branch)),
            VersionRule::Own => (String::new(), "*".to_owned()),
        };
        // The package has other names in other repositories.
        let name = companion.package(facts.os.package_manager, version);
        let manager = facts.os.package_manager.map(packages::of).filter(|manager| manager.by_hand.globs_versions);
        let bring = name
            .zip(manager)
            .map(|(name, manager)| format!("sudo {} '{}'", manager.by_hand.install, manager.exactly(&name, &versions)));
        Verdict::fail(cause).alone().advise(
            format!("install {title}{which} and start it (package name as in NVIDIA's repository)"),
            bring.into_iter().chain(seen.fabric_start()),
        )
    };
    let verdict = match &seen.fabric_manager {
        Answer::NotAsked(why) => Verdict::skip(why.clone()),
        Answer::Failed(why) => install(format!("{needed}, but {why}")),
        Answer::Is(manager) if !companion.version.accepts(manager.version, version) => {
            install(format!("{needed}, but {} is installed", manager.version))
        }
        Answer::Is(manager) if manager.active == Some(false) => Verdict::fail(format!(
            "{title} is installed but does not run: CUDA fails with \"system not yet initialized\" (802)"
        ))
        .repair("start the service", companion.units.iter().map(|unit| start(unit.clone()))),
        Answer::Is(manager) => Verdict::pass().saw(format!("{title} {}", manager.version)),
    };
    Some(verdict.saw(switches))
}
