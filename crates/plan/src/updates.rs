//! The step that holds the packages of the kernel and the driver, or lets them be updated with the
//! system. unattended-upgrades leaves held packages alone, too.

use super::companions;
use super::context::{StepContext, skipped, step};
use super::{Act, Step, StepId};
use gpusetup_host::Facts;
use gpusetup_operation::{Hold, Operation, Packages};
use gpusetup_resolve::{Conflict, Request, Updates};
use gpusetup_text::ids::CheckId;

const TITLE: &str = "Choose how the kernel and the driver are updated";

/// The step that holds or releases them. What an earlier apply held stays so with a new driver.
pub(crate) fn updates(context: &StepContext) -> Step {
    let (Some(driver), Some(manager)) = (&context.chosen.driver, context.facts.os.package_manager)
    else {
        return skipped(StepId::Updates, TITLE, "this plan installs no driver");
    };
    let was_held = context.facts.updates_held == Some(true) && !driver.is_kept();
    let (Some(updates), Some(holds)) = (
        context
            .request
            .settings
            .updates
            .or(was_held.then_some(Updates::Hold)),
        &gpusetup_packages::of(manager).holds,
    ) else {
        return skipped(StepId::Updates, TITLE, "it was not requested");
    };
    let held = updates == Updates::Hold;
    let satisfied = driver.is_kept() && context.facts.updates_held == Some(held);
    let mut names: Vec<_> = holds
        .kernels
        .iter()
        .map(|pattern| (*pattern).to_owned())
        .collect();
    // What NVSwitches need keeps the driver's version, however the kernel is updated.
    let with_driver = companions::is_packaged(driver) && (held || !context.holds_driver());
    if with_driver && held {
        names.extend(companions::driver_packages(context, driver).iter().cloned());
    }
    let hold = Hold {
        manager,
        packages: names,
        driver: with_driver.then_some(driver.version),
        held,
    };
    let why = match held {
        true => {
            "an update of one without the other can leave the host without a working driver until it reboots"
        }
        false => "they get security fixes with the system",
    };
    let tool = holds
        .tool
        .filter(|_| held && companions::holds_nothing(context.facts));
    let tool = tool.map(|name| Packages::to_install(manager, vec![name.to_owned()]));
    let operations = tool.map(Operation::from).into_iter().chain([hold.into()]);
    let acts = operations
        .map(|operation| Act {
            operation,
            satisfied,
        })
        .collect();
    step(StepId::Updates, TITLE, why, acts)
}

/// Refuses to hold packages with a package manager that cannot be told to.
pub(crate) fn not_without_holds(facts: &Facts, request: &Request) -> Result<(), Conflict> {
    let can = facts
        .os
        .package_manager
        .is_some_and(|manager| gpusetup_packages::of(manager).holds.is_some());
    if can || request.settings.updates.is_none() {
        return Ok(());
    }
    let sentence = format!(
        "gpusetup cannot hold packages on {} (--updates)",
        facts.os.name
    );
    Err(Conflict::blocked(CheckId::GS521, sentence)
        .hint("leave --updates out, and lock the kernel's and the driver's packages by hand"))
}
