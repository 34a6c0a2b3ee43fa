//! Companions that the user asks for, such as DCGM: what cannot be installed is refused, with the
//! reason.

use super::context::{StepContext, skipped};
use super::{Step, StepId};
use gpusetup_database::compat::{Companion, Database};
use gpusetup_host::MachineKind;
use gpusetup_resolve::{ChosenDriver, CompanionSource, Conflict, Hint, Method, Request};
use gpusetup_text::text::all_of;

/// The step of a plan without a driver; none if nothing is requested.
pub(crate) fn without_driver(context: &StepContext) -> Option<Step> {
    let requested = context
        .known_companions
        .iter()
        .filter(|of| context.request.companions.contains(&of.id));
    let titles: Vec<_> = requested.map(|of| of.title.as_str()).collect();
    let title = format!("Set up {}", all_of(&titles));
    (!titles.is_empty()).then(|| skipped(StepId::InstallCompanions, title, no_driver(context)))
}

/// Why a plan without a driver sets up nothing beside it.
pub(crate) fn no_driver(context: &StepContext) -> &'static str {
    match context.facts.machine.kind {
        MachineKind::Container => "this plan chooses no driver: that of a container is its host's",
        _ => "this plan chooses no driver",
    }
}

/// The suggestion to leave out a companion that the user asks for.
pub(crate) fn without(context: &StepContext, of: &Companion) -> Hint {
    let mut smaller = context.request.clone();
    smaller.companions.remove(&of.id);
    Hint::asking("without it", smaller)
}

/// Refuses a requested companion that no repository has which gpusetup can use on this host.
pub(crate) fn not_without_source(
    database: &Database,
    context: &StepContext,
) -> Result<(), Conflict> {
    let is_host = context.facts.machine.kind != MachineKind::Container;
    let missing = context
        .companions
        .as_ref()
        .filter(|_| is_host)
        .and_then(|all| all.refused().next());
    let Some((of, driver)) = missing.zip(context.chosen.driver.as_ref()) else {
        return Ok(());
    };
    let (title, id) = (&of.title, of.id);
    let supply = (driver.version, context.chosen.oldest_gpu());
    let supply = CompanionSource::of(of, database, context.distribution, context.facts, supply);
    let oldest = of.oldest_driver().filter(|oldest| driver.version < *oldest);
    let by_hand = match &supply {
        Some(supply @ CompanionSource::WithDriver(_)) => {
            Some(supply.remedy(of, context.facts).to_string())
        }
        _ => None,
    };
    let with_driver = by_hand.as_ref().map(|_| {
        let asked = Request {
            method: Method::Repository,
            ..context.request.clone()
        };
        Hint::asking("with a driver from that repository", asked)
    });
    let why = match (supply, oldest) {
        (Some(CompanionSource::NotOffered(name)), _) => gpusetup_causes::not_offered(&name),
        (Some(CompanionSource::OfAnotherSystem(why, remedy)), _) => format!("{why}; {remedy}"),
        (Some(CompanionSource::WithDriver(_)), _) => format!(
            "NVIDIA's repository for {} has it, but gpusetup adds that only for a driver from it, and driver {} {}",
            context.facts.os.name,
            driver.version,
            origin(driver)
        ),
        (Some(CompanionSource::NotAddable(folders)), _) => format!(
            "gpusetup knows packages of it for {}, and none of these repositories is for {}",
            folders.join(", "),
            context.facts.os.name
        ),
        (_, Some(oldest)) => format!(
            "it needs driver branch {} or newer, not {}",
            oldest.branch, driver.version
        ),
        (_, None) => format!("no package of it is known for {}", context.facts.os.name),
    };
    let conflict = Conflict::request(format!("{title} cannot be installed (--with {id}): {why}"));
    let conflict = by_hand.into_iter().fold(conflict, Conflict::hint);
    Err(with_driver
        .into_iter()
        .fold(conflict, Conflict::hint)
        .hint(without(context, of)))
}

/// Where a driver comes from, after its version.
fn origin(driver: &ChosenDriver) -> &'static str {
    match driver.install.method() {
        _ if driver.is_kept() => "is installed already",
        Method::Runfile => "comes from the runfile",
        Method::Auto | Method::Packages | Method::Repository => "comes from other packages",
    }
}
