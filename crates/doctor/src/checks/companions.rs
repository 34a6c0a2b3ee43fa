//! What users ask for beside the driver: DCGM's service runs, the kernel modules of GPUDirect
//! Storage and GPUDirect RDMA are loaded and built for the driver.

use crate::evidence::CompanionState;
use crate::{Answer, Case, Verdict};
use gpusetup_database::compat::{Companion, ModuleFlavour};
use gpusetup_host::InstalledCompanion;
use gpusetup_operation::{Operation, Service};

/// What DCGM's host engine logs when it does not start, and what that means.
const IN_LOG: [(&str, &str); 2] = [
    (
        "already running with pid",
        "another host engine of DCGM runs already",
    ),
    (
        "Failed to start DCGM Server",
        "its port (5555) is in use, or it could not reach the driver",
    ),
];

/// Whether the installed ones run.
pub(crate) fn run(case: &Case) -> Verdict {
    let Answer::Is(states) = &case.seen.companions else {
        return Verdict::skip("it is not known how they run");
    };
    let verdicts = case.seen.facts.companions.iter().filter_map(|found| {
        let of = case.requested_companion(found.id)?;
        Some(judged(
            case,
            of,
            found,
            states.iter().find(|state| state.id == of.id),
        ))
    });
    Verdict::worst(verdicts).unwrap_or_else(|| {
        Verdict::skip("none of DCGM, GPUDirect Storage and nvidia-peermem is installed")
    })
}

fn judged(
    case: &Case,
    of: &Companion,
    found: &InstalledCompanion,
    state: Option<&CompanionState>,
) -> Verdict {
    let verdict = idle_unit(of, found, state)
        .or_else(|| built_for_another(case, of, found, state))
        .or_else(|| idle_module(case, of, found))
        .unwrap_or_else(Verdict::pass);
    let version = found
        .version
        .as_ref()
        .map(|version| format!(" {version}"))
        .unwrap_or_default();
    let starts = if found.enabled {
        ""
    } else {
        ", not started at boot"
    };
    verdict.evidence(format!("{}{version}{starts}", of.title))
}

/// A service that boots start, or that failed. One that nobody enabled need not run: exporters of
/// metrics have DCGM built in.
fn idle_unit(
    of: &Companion,
    found: &InstalledCompanion,
    state: Option<&CompanionState>,
) -> Option<Verdict> {
    let state = state?;
    let unit = state
        .unit
        .as_deref()
        .filter(|unit| *unit == "failed" || found.enabled && *unit != "active")?;
    let known = state.log.iter().rev().find_map(|line| {
        let (_, means) = IN_LOG.iter().find(|(said, _)| line.contains(said))?;
        Some((line, *means))
    });
    let why = known
        .map(|(_, means)| format!(": {means}"))
        .unwrap_or_default();
    let verdict = Verdict::warn(format!(
        "{} is installed, but its service is {unit}{why}",
        of.title
    ));
    let logged = known.map(|(line, _)| line).or(state.log.last());
    let verdict = logged.into_iter().fold(verdict, |verdict, line| {
        verdict.evidence(format!("its log: {line}"))
    });
    Some(verdict.repair(
        "start the service",
        of.units.iter().map(|unit| {
            Operation::Service(Service {
                unit: unit.clone(),
                enabled: true,
                restart: false,
            })
        }),
    ))
}

/// A kernel module that was built with the sources of another driver.
fn built_for_another(
    case: &Case,
    of: &Companion,
    found: &InstalledCompanion,
    state: Option<&CompanionState>,
) -> Option<Verdict> {
    let (module, driver) = (
        of.kernel_module.as_deref()?,
        case.seen.facts.driver.as_ref()?.version,
    );
    let built_for = state?.built_for.filter(|built_for| *built_for != driver)?;
    let (kernel, version) = (
        case.seen.facts.kernels.running.as_deref()?,
        found.version.as_deref().unwrap_or("VERSION"),
    );
    let tree = format!("{module}/{version} -k {kernel} --force");
    let verdict = Verdict::fail(format!(
        "{module} was built for driver {built_for}, but {driver} is installed: what reads files into GPUs may fail or crash the kernel"
    ));
    Some(verdict.advise(
        "build the module again; if the driver was not loaded yet, do it before the reboot",
        [
            format!("sudo dkms build {tree}"),
            format!("sudo dkms install {tree}"),
            format!("sudo modprobe --remove {module}"),
            format!("sudo modprobe {module}"),
        ],
    ))
}

/// A kernel module that boots load, but that is not there.
fn idle_module(case: &Case, of: &Companion, found: &InstalledCompanion) -> Option<Verdict> {
    let module = of.kernel_module.as_deref().filter(|_| found.enabled)?;
    let loaded = case.seen.facts.loaded_modules.as_ref()?;
    if loaded
        .iter()
        .any(|loaded| loaded.name == module.replace('-', "_"))
    {
        return None;
    }
    let flavour = case.seen.facts.driver.as_ref()?.modules;
    let verdict = match (of.driver.modules, flavour) {
        (Some(ModuleFlavour::Open), Some(ModuleFlavour::Proprietary)) => {
            let cause = format!(
                "{module} is not loaded: it needs the open kernel modules, and the driver has the proprietary ones"
            );
            let command = "gpusetup plan --profile driver --modules open --upgrade";
            Verdict::warn(cause).advise(
                "use the open kernel modules if the GPUs support them",
                [command],
            )
        }
        _ => Verdict::warn(format!("{module} is not loaded, although boots load it")).advise(
            "load it; the message says why it fails",
            [format!("sudo modprobe {module}")],
        ),
    };
    Some(verdict)
}
