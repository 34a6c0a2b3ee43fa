//! Warnings about a driver that stays: a toolkit whose programs it does not run (GS707), and kernel
//! modules of another version that are loaded until the next boot (GS501).

use super::Warning;
use super::context::StepContext;
use gpusetup_database::compat::Database;
use gpusetup_database::version::{CudaVersion, DriverVersion, Want};
use gpusetup_host::{Facts, MachineKind, Toolkit};
use gpusetup_resolve::{Request, Resolution};
use gpusetup_text::ids::CheckId;

/// The warning if the driver that is there, and stays, does not run the toolkit. `gives` is the
/// toolkit that a request gets, if the driver runs it.
pub(crate) fn not_run(
    database: &Database,
    context: &StepContext,
    gives: impl Fn(&Request) -> Option<CudaVersion>,
) -> Option<String> {
    let (driver, cuda) = context.chosen.not_run()?;
    let release = cuda.release;
    let any = Request {
        cuda: Want::Best,
        ..context.request.clone()
    };
    let another = gives(&any).filter(|version| {
        version.to_string().parse().is_ok_and(|cuda| {
            let exact = Request {
                cuda,
                ..any.clone()
            };
            gives(&exact).is_some()
        })
    });
    let another = another.map(|version| format!("; --cuda {version} gets one that it runs"));
    let forward = database.forward_compatibility(release.version, driver.branch.branch);
    let forward = forward.filter(|_| context.chosen.gpus.iter().all(|card| card.data_center));
    let package =
        forward.map(|found| format!("; or they run with NVIDIA's package {}", found.package));
    Some(format!(
        "the driver {} stays, and programs of CUDA {} do not run on it: they need driver {} or newer{}{}",
        driver.version,
        release.version,
        release.minimum_driver,
        another.unwrap_or_default(),
        package.unwrap_or_default()
    ))
}

/// The warnings about Python packages whose own CUDA the driver that stays does not run.
pub(crate) fn packages_not_run(chosen: &Resolution) -> Vec<String> {
    let each = chosen.packages_not_run().map(|(package, needs, have)| {
        format!(
            "the driver {have} stays, and {} does not run on it: its CUDA {} needs driver {needs} or newer",
            package.framework, package.cuda
        )
    });
    each.collect()
}

/// The oldest driver that runs an installed toolkit's programs, and the host's, if that is older.
/// WSL2's is not known.
pub(crate) fn too_old(
    database: &Database,
    facts: &Facts,
    toolkit: &Toolkit,
) -> Option<(DriverVersion, DriverVersion)> {
    let least = database.oldest_driver(toolkit.version)?;
    let have = facts
        .driver
        .as_ref()
        .filter(|_| facts.machine.kind != MachineKind::Wsl2)?
        .version;
    (have < least).then_some((least, have))
}

/// The warning if the toolkit that becomes the default is one whose programs the host's driver does
/// not run.
pub(crate) fn default_not_run(
    database: &Database,
    facts: &Facts,
    toolkit: &Toolkit,
) -> Option<Warning> {
    let (least, have) = too_old(database, facts, toolkit)?;
    let text = format!(
        "programs of CUDA {} do not run on driver {have}: they need driver {least} or newer",
        toolkit.version
    );
    Some(Warning::new(CheckId::GS707, text))
}

/// The warning if the kernel modules of another version than the installed driver's are loaded, and
/// the plan leaves the driver as it is.
pub(crate) fn loaded_before(context: &StepContext) -> Option<String> {
    let machine = &context.facts.machine;
    let is_host = machine.kind != MachineKind::Container && !machine.is_offline_root;
    let stays = context
        .chosen
        .driver
        .as_ref()
        .is_none_or(|driver| driver.is_kept());
    let installed = context
        .facts
        .driver
        .as_ref()
        .filter(|_| is_host && stays)?
        .version;
    let loaded: DriverVersion = context
        .facts
        .loaded_driver()?
        .parse()
        .ok()
        .filter(|loaded| *loaded != installed)?;
    Some(format!(
        "driver {installed} is installed, but the kernel modules of {loaded} are loaded: CUDA programs fail until the next boot \
         (sudo reboot)"
    ))
}
