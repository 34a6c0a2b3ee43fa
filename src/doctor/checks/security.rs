//! Known vulnerabilities: what NVIDIA's security bulletins say of what is installed.

use super::no_driver_of_its_own;
use crate::causes::{self, Remedy};
use crate::compat::Bulletin;
use crate::doctor::{Evidence, Verdict};
use crate::host::{InstalledCompanion, MachineKind, Toolkit};

/// What is installed, and what it lacks, if anything.
struct Judged {
    what: String,
    lacks: Option<(String, Remedy)>,
}

/// The host's driver, every CUDA toolkit, NVIDIA's container toolkit, and companions such as DCGM. A host without the fixes works, so this warns only.
pub fn has_fixes(seen: &Evidence) -> Verdict {
    let toolkits = seen.facts.toolkits.iter().filter(|_| seen.facts.machine.kind != MachineKind::Jetson);
    let judged: Vec<_> = { driver(seen).into_iter() }
        .chain(container_toolkit(seen))
        .chain(seen.facts.companions.iter().filter_map(|found| companion(seen, found)))
        .chain(toolkits.map(|found| toolkit(seen, found)))
        .collect();
    if judged.is_empty() {
        return Verdict::skip("neither a driver of this host nor a toolkit is installed");
    }
    let (mut causes, mut texts, mut commands) = (Vec::new(), Vec::new(), Vec::new());
    let mut saw = Vec::new();
    for Judged { what, lacks } in judged {
        saw.push(what);
        if let Some((cause, remedy)) = lacks {
            causes.push(cause);
            texts.push(remedy.text);
            commands.extend(remedy.commands);
        }
    }
    let verdict = match causes.is_empty() {
        true => Verdict::pass(),
        false => Verdict::warn(causes.join("; ")).helped(Remedy { text: texts.join("; "), commands }),
    };
    saw.into_iter().fold(verdict, Verdict::saw)
}

fn driver(seen: &Evidence) -> Option<Judged> {
    let driver = seen.facts.driver.as_ref().filter(|_| no_driver_of_its_own(seen).is_none())?.version;
    // The newest names the newest release.
    let missing = |bulletin| Some((bulletin, Bulletin::missing_from(bulletin, driver)?));
    let lacks = { seen.bulletins.iter().find_map(missing) }
        .map(|(newest, fixed)| (causes::vulnerable(driver, newest, fixed), causes::fixed_driver(fixed)));
    Some(Judged { what: format!("driver {driver}"), lacks })
}

fn container_toolkit(seen: &Evidence) -> Option<Judged> {
    let version = seen.containers.toolkit_version?;
    let missing = |bulletin| Some((bulletin, Bulletin::missing_from_container_toolkit(bulletin, version)?));
    let lacks = seen.bulletins.iter().find_map(missing).map(|(newest, fixed)| {
        let remedy = causes::fixed_container_toolkit(fixed, seen.facts.os.package_manager);
        (causes::vulnerable_container_toolkit(version, newest, fixed), remedy)
    });
    Some(Judged { what: format!("NVIDIA Container Toolkit {version}"), lacks })
}

/// A companion whose versions are apart from the driver's, if a bulletin is about it.
fn companion(seen: &Evidence, found: &InstalledCompanion) -> Option<Judged> {
    let is_concerned = |bulletin: &Bulletin| bulletin.fixed_companion.is_some_and(|fixed| fixed.id == found.id);
    let of = seen.requested_companions.iter().find(|of| of.id == found.id)?;
    seen.bulletins.iter().find(|bulletin| is_concerned(bulletin))?;
    let version = found.version.as_ref()?.parse().ok()?;
    let missing = |bulletin| Some((bulletin, Bulletin::missing_from_companion(bulletin, found.id, version)?));
    let lacks = seen.bulletins.iter().find_map(missing).map(|(newest, fixed)| {
        let (package, manager) = (found.package.as_deref(), seen.facts.os.package_manager);
        (causes::vulnerable_companion(of, version, newest, fixed), causes::fixed_companion(of, package, fixed, manager))
    });
    Some(Judged { what: format!("{} {version}", of.title), lacks })
}

fn toolkit(seen: &Evidence, found: &Toolkit) -> Judged {
    let (version, path) = (found.version, found.path.display());
    let missing = |bulletin| Some((bulletin, Bulletin::missing_from_toolkit(bulletin, version)?));
    let lacks = seen
        .bulletins
        .iter()
        .find_map(missing)
        .map(|(newest, fixed)| (causes::vulnerable_toolkit(version, newest, fixed), causes::fixed_toolkit(fixed)));
    Judged { what: format!("CUDA {version} in {path}"), lacks }
}
