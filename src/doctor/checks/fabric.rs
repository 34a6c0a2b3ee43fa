//! What joins GPUs.

use super::nvml::{inside_fabric, outside_fabric};
use crate::causes;
use crate::compat::VersionRule;
use crate::doctor::{Answer, Evidence, Verdict};
use crate::operation::{Operation, Service};
use crate::packages;

/// Fabric Manager where there are switches, and what the GPUs themselves say of their fabric: switches may be where only
/// another machine sees them.
pub fn manager(seen: &Evidence) -> Verdict {
    let none = || Verdict::skip("there is no NVSwitch, or no driver for it");
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
        Verdict::warn(format!("{count} GPUs are not in their fabric: they do not reach others by NVLink"))
    } else {
        Verdict::fail(format!("{count} GPUs are not in their fabric: CUDA says \"system not yet initialized\" (802)"))
    };
    let verdict = outside.into_iter().fold(verdict, |v, (at, how)| v.saw(format!("{at}: fabric {how}")));
    let logs = seen.fabric_units().map(|unit| format!("journalctl -u {unit} -n 50"));
    Some(verdict.advise(
        format!("start {}, and see what it says; in a virtual machine the host has to", seen.fabric_title()),
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
        return Some(Verdict::skip(format!("the database does not describe {title}")).saw(switches));
    };
    let needed = causes::companion(companion, version);
    let install = |cause: String| {
        let (which, versions) = match companion.version {
            VersionRule::Driver => (format!(" {version}, to the last digit"), format!("{version}*")),
            VersionRule::Branch => (format!(" of branch {}", version.branch), format!("{}.*", version.branch)),
            VersionRule::Own => (String::new(), "*".to_owned()),
        };
        // Other repositories have other names for it.
        let name = companion.package(facts.os.package_manager, version);
        let manager = facts.os.package_manager.map(packages::of).filter(|manager| manager.by_hand.globs_versions);
        let bring = name
            .zip(manager)
            .map(|(name, manager)| format!("sudo {} '{}'", manager.by_hand.install, manager.exactly(&name, &versions)));
        Verdict::fail(cause).alone().advise(
            format!("install {title}{which} (the name is NVIDIA's repository's), and start it"),
            bring.into_iter().chain(seen.fabric_start()),
        )
    };
    let verdict = match &seen.fabric_manager {
        Answer::NotAsked(why) => Verdict::skip(why.clone()),
        Answer::Failed(why) => install(format!("{needed}, and {why}")),
        Answer::Is(manager) if !companion.version.accepts(manager.version, version) => {
            install(format!("{needed}, and {} is installed", manager.version))
        }
        Answer::Is(manager) if manager.active == Some(false) => Verdict::fail(format!(
            "{title} is installed and does not run: CUDA says \"system not yet initialized\" (802)"
        ))
        .repair("start it", companion.units.iter().map(|unit| start(unit.clone()))),
        Answer::Is(manager) => Verdict::pass().saw(format!("{title} {}", manager.version)),
    };
    Some(verdict.saw(switches))
}
