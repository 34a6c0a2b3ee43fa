//! Known vulnerabilities: what NVIDIA's security bulletins say of what is installed.

use super::no_driver_of_its_own;
use crate::{Area, Case, Verdict};
use gpusetup_causes::Remedy;
use gpusetup_database::compat::{BranchKind, Bulletin, DriverBranch};
use gpusetup_host::{InstalledCompanion, MachineKind, Toolkit};

/// What is installed, and what it lacks, if anything.
struct Judged {
    what: Vec<String>,
    lacks: Option<(String, Remedy)>,
}

/// The host's driver, every CUDA toolkit, NVIDIA's container toolkit, and companions such as DCGM.
/// A host without the fixes works, so this warns only.
pub(crate) fn has_fixes(case: &Case) -> Verdict {
    let companions = case.seen.facts.companions.iter();
    let of_driver = driver(case)
        .into_iter()
        .chain(companions.filter_map(|found| companion(case, found)));
    let parts = [
        (Area::Driver, of_driver.collect()),
        (Area::Containers, Vec::from_iter(container_toolkit(case))),
        (Area::Toolkit, toolkits(case)),
    ];
    // A finding about a toolkit alone is not one about the driver.
    let area = parts
        .iter()
        .find(|(_, judged)| judged.iter().any(|one| one.lacks.is_some()))
        .map_or(Area::Driver, |(area, _)| *area);
    let judged: Vec<_> = parts.into_iter().flat_map(|(_, judged)| judged).collect();
    if judged.is_empty() {
        return Verdict::skip("neither a driver of this host nor a toolkit is installed");
    }
    let (mut causes, mut texts, mut commands) = (Vec::new(), Vec::new(), Vec::new());
    let mut saw = Vec::new();
    for Judged { what, lacks } in judged {
        saw.extend(what);
        if let Some((cause, remedy)) = lacks {
            causes.push(cause);
            texts.push(remedy.text);
            commands.extend(remedy.commands);
        }
    }
    let verdict = match causes.is_empty() {
        true => Verdict::pass(),
        false => Verdict::warn(causes.join("; ")).remedy(Remedy {
            text: texts.join("; "),
            commands,
        }),
    };
    saw.into_iter()
        .fold(verdict.of_area(area), Verdict::evidence)
}

/// NVIDIA still maintains the driver's branch. A host works without that, so this warns only.
pub(crate) fn is_maintained(case: &Case) -> Verdict {
    let (Some(driver), Some(today)) = (&case.seen.facts.driver, &case.seen.day) else {
        return Verdict::skip("no driver is installed");
    };
    if let Some(skip) = no_driver_of_its_own(case) {
        return skip;
    }
    let Some(branch) = case.database.branch(driver.version.branch) else {
        let why = format!("driver branch {} is not known", driver.version.branch);
        return Verdict::skip(why);
    };
    let end = branch
        .end_of_life
        .as_deref()
        .map(|end| format!(", until {end}"));
    let seen = format!("branch {}{}", branch.branch, end.unwrap_or_default());
    if !branch.is_over(today) {
        return Verdict::pass().evidence(seen);
    }
    let cause = gpusetup_causes::branch_is_over(branch);
    match maintained(case, today) {
        Some(other) => Verdict::warn(cause).remedy(gpusetup_causes::maintained_branch(other)),
        None => Verdict::warn(format!(
            "{cause}; no newer branch supports all GPUs of this host and has drivers for {}",
            case.seen.facts.machine.arch
        )),
    }
    .evidence(seen)
}

/// The branch that NVIDIA maintains longest, of those that support all GPUs of the host and have
/// releases for its architecture.
fn maintained<'a>(case: &Case<'a>, today: &str) -> Option<&'a DriverBranch> {
    let cards: Vec<_> = case.cards.iter().flatten().collect();
    let arch = &case.seen.facts.machine.arch;
    let branches = case.database.driver_branches.iter().filter(|branch| {
        let number = branch.branch;
        matches!(branch.kind, BranchKind::LongTerm | BranchKind::Production)
            && !branch.is_over(today)
            && cards.iter().all(|card| card.is_served_by(number))
            && case.database.has_drivers_for(number, arch)
    });
    branches.max_by_key(|branch| branch.end_of_life.as_deref())
}

fn driver(case: &Case) -> Option<Judged> {
    let driver = case
        .seen
        .facts
        .driver
        .as_ref()
        .filter(|_| no_driver_of_its_own(case).is_none())?
        .version;
    // The newest names the newest release.
    let mut bulletins = case.database.bulletins.iter();
    let lacks = bulletins
        .find_map(|bulletin| Some((bulletin, Bulletin::missing_from(bulletin, driver)?)))
        .map(|(newest, fixed)| {
            (
                gpusetup_causes::vulnerable(driver, newest, fixed),
                gpusetup_causes::fixed_driver(fixed),
            )
        });
    Some(Judged {
        what: vec![format!("driver {driver}")],
        lacks,
    })
}

fn container_toolkit(case: &Case) -> Option<Judged> {
    let version = case.seen.containers.toolkit_version?;
    let lacks = case
        .database
        .bulletins
        .iter()
        .find_map(|bulletin| {
            Some((
                bulletin,
                Bulletin::missing_from_container_toolkit(bulletin, version)?,
            ))
        })
        .map(|(newest, fixed)| {
            let remedy =
                gpusetup_causes::fixed_container_toolkit(fixed, case.seen.facts.os.package_manager);
            (
                gpusetup_causes::vulnerable_container_toolkit(version, newest, fixed),
                remedy,
            )
        });
    Some(Judged {
        what: vec![format!("NVIDIA Container Toolkit {version}")],
        lacks,
    })
}

/// A companion whose versions are apart from the driver's, if a bulletin is about it.
fn companion(case: &Case, found: &InstalledCompanion) -> Option<Judged> {
    let of = case.requested_companion(found.id)?;
    case.database.bulletins.iter().find(|bulletin| {
        bulletin
            .fixed_companion
            .is_some_and(|fixed| fixed.id == found.id)
    })?;
    let version = found.version.as_ref()?.parse().ok()?;
    let lacks = case
        .database
        .bulletins
        .iter()
        .find_map(|bulletin| {
            Some((
                bulletin,
                Bulletin::missing_from_companion(bulletin, found.id, version)?,
            ))
        })
        .map(|(newest, fixed)| {
            let (package, manager) = (found.package.as_deref(), case.seen.facts.os.package_manager);
            (
                gpusetup_causes::vulnerable_companion(of, version, newest, fixed),
                gpusetup_causes::fixed_companion(of, package, fixed, manager),
            )
        });
    Some(Judged {
        what: vec![format!("{} {version}", of.title)],
        lacks,
    })
}

/// The toolkits: those that lack the same fixes together.
fn toolkits(case: &Case) -> Vec<Judged> {
    if case.seen.facts.machine.kind == MachineKind::Jetson {
        return Vec::new();
    }
    let mut alike: Vec<(_, Vec<&Toolkit>)> = Vec::new();
    for found in &case.seen.facts.toolkits {
        let lacks = case.database.bulletins.iter().find_map(|bulletin| {
            Some((
                bulletin,
                Bulletin::missing_from_toolkit(bulletin, found.version)?,
            ))
        });
        match alike.iter_mut().find(|(of, _)| *of == lacks) {
            Some((_, others)) => others.push(found),
            None => alike.push((lacks, vec![found])),
        }
    }
    alike
        .into_iter()
        .map(|(lacks, found)| Judged {
            what: found
                .iter()
                .map(|found| format!("CUDA {} in {}", found.version, found.path.display()))
                .collect(),
            lacks: lacks.map(|(newest, fixed)| {
                let versions: Vec<_> = found.iter().map(|found| found.version).collect();
                (
                    gpusetup_causes::vulnerable_toolkits(&versions, newest, fixed),
                    gpusetup_causes::fixed_toolkit(fixed),
                )
            }),
        })
        .collect()
}
