//! The step that holds the packages of the kernel and the driver, or lets them be updated with the system. unattended-upgrades leaves
//! held packages alone, too.

use super::context::{StepContext, skipped, step};
use super::{Act, Step, StepId};
use crate::host::Facts;
use crate::ids::CheckId;
use crate::operation::Hold;
use crate::packages;
use crate::resolve::{Conflict, Request, Updates};

const TITLE: &str = "Choose how the kernel and the driver are updated";

/// The step that holds or releases them.
pub fn updates(context: &StepContext) -> Step {
    let Some(updates) = context.request.settings.updates else {
        return skipped(StepId::Updates, TITLE, "it was not requested");
    };
    let (Some(driver), Some(manager)) = (&context.chosen.driver, context.facts.os.package_manager) else {
        return skipped(StepId::Updates, TITLE, "this plan installs no driver");
    };
    let held = updates == Updates::Hold;
    let operation = Hold { manager, branch: driver.version.branch.to_string(), held };
    let why = match held {
        true => "an update of one without the other can leave the host without a working driver until it reboots",
        false => "they get security fixes with the system",
    };
    let satisfied = driver.is_kept() && context.facts.updates_held == Some(held);
    step(StepId::Updates, TITLE, why, vec![Act { operation: operation.into(), satisfied }])
}

/// Refuses to hold packages with a package manager that cannot be told to.
pub fn not_without_holds(facts: &Facts, request: &Request) -> Result<(), Conflict> {
    let can = facts.os.package_manager.is_some_and(|manager| packages::of(manager).holding.is_some());
    if can || request.settings.updates.is_none() {
        return Ok(());
    }
    let sentence = format!("gpusetup cannot hold packages on {} (--updates)", facts.os.name);
    Err(Conflict::blocked(CheckId::GS521, sentence)
        .hint("leave --updates out, and lock the kernel's and the driver's packages by hand"))
}
