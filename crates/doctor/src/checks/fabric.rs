//! The fabric between GPUs: NVSwitches and Fabric Manager.

use super::nvml::{inside_fabric, outside_fabric};
use crate::{Answer, Case, Verdict};
use gpusetup_causes::Remedy;
use gpusetup_database::compat::{Companion, CompanionId};
use gpusetup_database::version::DriverVersion;
use gpusetup_host::InstalledCompanion;
use gpusetup_operation::{Operation, Service};
use gpusetup_resolve::fits;
use gpusetup_text::text::counted;

/// Fabric Manager on hosts with NVSwitches, and the fabric state of each GPU, because the switches
/// may be visible only to another machine.
pub(crate) fn manager(case: &Case) -> Verdict {
    if !is_supported(case) {
        // Its version is that of a driver that is to be replaced.
        return Verdict::skip("the driver does not support a GPU of this host");
    }
    let verdicts = service(case)
        .into_iter()
        .chain(companions(case))
        .chain(fabric(case));
    Verdict::worst(verdicts)
        .unwrap_or_else(|| Verdict::skip("the host has no NVSwitch, or no driver is installed"))
}

/// Whether the installed driver supports every GPU, as far as is known.
fn is_supported(case: &Case) -> bool {
    let Some(driver) = &case.seen.facts.driver else {
        return true;
    };
    case.cards
        .iter()
        .flatten()
        .all(|card| card.is_virtual || card.is_served_by(driver.version.branch))
}

/// What Fabric Manager logs when it does not start, and what that means.
const IN_LOG: [(&str, &str); 2] = [
    (
        "match with driver version",
        "the loaded driver has another version: reboot if the driver was updated",
    ),
    (
        "NV_WARN_NOTHING_TO_DO",
        "it found no NVSwitch: with NVLink 5, nvlsm is not installed or the modules mlx5_ib and ib_umad are not loaded",
    ),
];

fn meaning(line: &str) -> Option<&'static str> {
    IN_LOG
        .iter()
        .find(|(said, _)| line.contains(said))
        .map(|(_, means)| *means)
}

/// The companions beside Fabric Manager: nvlsm, or IMEX on the hosts of a rack.
fn companions(case: &Case) -> Vec<Verdict> {
    let installed = &case.seen.facts.companions;
    // Facts of older gpusetup versions list none.
    let is_known = !case.seen.only_facts || !installed.is_empty();
    let Some(driver) = case.seen.facts.driver.as_ref().filter(|_| is_known) else {
        return Vec::new();
    };
    let others = case
        .needed_companions()
        .filter(|companion| companion.id != CompanionId::FABRIC_MANAGER);
    others
        .map(|companion| {
            let found = installed.iter().find(|found| found.id == companion.id);
            judged(case, companion, found, driver.version)
        })
        .collect()
}

fn judged(
    case: &Case,
    companion: &Companion,
    found: Option<&InstalledCompanion>,
    driver: DriverVersion,
) -> Verdict {
    let (needed, title) = (
        gpusetup_causes::companion(companion, driver),
        &companion.title,
    );
    let verdict = match found {
        None => {
            let cause = format!("{needed}, but it is not installed");
            lacking(case, companion, driver, cause)
        }
        Some(found) if !fits(found, companion, driver) => {
            let version = found.version.as_deref().unwrap_or_default();
            let cause = format!("{needed}, but {version} is installed");
            lacking(case, companion, driver, cause)
        }
        Some(InstalledCompanion { enabled: false, .. }) => match &companion.peers {
            Some(file) => Verdict::warn(gpusetup_causes::name_peers(
                companion,
                file,
                "--profile driver",
            )),
            None => Verdict::fail(format!("{title} is installed but not started at boot")).repair(
                "start the service",
                companion.units.iter().map(|unit| start(unit.clone())),
            ),
        },
        Some(found) => Verdict::pass().evidence(format!(
            "{title} {}",
            found.version.as_deref().unwrap_or_default()
        )),
    };
    // Programs of one host compute without it.
    if companion.peers.is_some() {
        verdict.at_most_a_warning()
    } else {
        verdict
    }
}

fn fabric(case: &Case) -> Option<Verdict> {
    let (outside, inside) = (outside_fabric(case), inside_fabric(case));
    if outside.is_empty() {
        return (inside > 0)
            .then(|| Verdict::pass().evidence(format!("{inside} GPUs are in their fabric")));
    }
    let count = outside.len();
    let computes = matches!(&case.seen.cuda, Answer::Is(cuda) if cuda.computes());
    let verdict = if computes {
        Verdict::warn(format!(
            "{count} GPUs are not in their fabric: they cannot reach other GPUs by NVLink"
        ))
    } else {
        Verdict::fail(format!(
            "{count} GPUs are not in their fabric: CUDA fails with \"system not yet initialized\" (802)"
        ))
    };
    let verdict = outside.into_iter().fold(verdict, |v, (at, how)| {
        v.evidence(format!("{at}: fabric {how}"))
    });
    let logs = case
        .fabric_units()
        .map(|unit| format!("journalctl -u {unit} -n 50"));
    Some(verdict.advise(
        format!(
            "start {} and read its log; for a virtual machine, do this on the host",
            case.fabric_title()
        ),
        case.fabric_start().chain(logs),
    ))
}

/// A companion that is to be installed in the version that the driver needs.
fn lacking(case: &Case, companion: &Companion, driver: DriverVersion, cause: String) -> Verdict {
    let Remedy { text, commands } = case.companion_remedy(companion, driver);
    let start = gpusetup_causes::start_companion(companion);
    Verdict::fail(cause)
        .root_cause()
        .advise(text, commands.into_iter().chain(start))
}

fn start(unit: String) -> Operation {
    Operation::Service(Service {
        unit,
        enabled: true,
        restart: false,
    })
}

fn service(case: &Case) -> Option<Verdict> {
    let facts = &case.seen.facts;
    let driver = facts.driver.as_ref().filter(|_| {
        let mut needed = case.needed_companions();
        !facts.nvswitches.is_empty() || needed.any(|of| of.id == CompanionId::FABRIC_MANAGER)
    })?;
    let switches = counted(facts.nvswitches.len() as u64, "NVSwitch", "NVSwitches");
    let (version, title) = (driver.version, case.fabric_title());
    let Some(companion) = case.fabric_companion() else {
        return Some(Verdict::skip(format!("{title} is not in the database")).evidence(switches));
    };
    let needed = gpusetup_causes::companion(companion, version);
    let verdict = match &case.seen.fabric_manager {
        Answer::NotAsked(why) => Verdict::skip(why.clone()),
        Answer::Failed(why) => lacking(case, companion, version, format!("{needed}, but {why}")),
        Answer::Is(manager) if !companion.version.accepts(manager.version, version) => {
            let cause = format!("{needed}, but {} is installed", manager.version);
            lacking(case, companion, version, cause)
        }
        Answer::Is(manager) if manager.active == Some(false) => {
            let known = manager
                .log
                .iter()
                .rev()
                .find_map(|line| Some((line, meaning(line)?)));
            let why = known
                .map(|(_, means)| format!("{means}. Until it runs, "))
                .unwrap_or_default();
            let verdict = Verdict::fail(format!(
                "{title} is installed but does not run: {why}CUDA fails with \"system not yet initialized\" (802)"
            ));
            let logged = known.map(|(line, _)| line).or(manager.log.last());
            let verdict = logged.into_iter().fold(verdict, |verdict, line| {
                verdict.evidence(format!("its log: {line}"))
            });
            verdict.repair(
                "start the service",
                companion.units.iter().map(|unit| start(unit.clone())),
            )
        }
        Answer::Is(manager) => Verdict::pass().evidence(format!("{title} {}", manager.version)),
    };
    Some(verdict.evidence(switches))
}
