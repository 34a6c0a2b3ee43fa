//! Warnings about what NVSwitches need and gpusetup does not set up (GS801): without it CUDA fails, although nvidia-smi looks
//! healthy.

use super::context::StepContext;
use super::needed::Companions;
use crate::causes;
use crate::compat::{Companion, CompanionId, Database, Fabric, VersionRule};
use crate::host::MachineKind;
use crate::resolve::ChosenDriver;

/// What the user has to install or configure, a sentence or two each.
pub fn by_hand(database: &Database, context: &StepContext, driver: &ChosenDriver, all: &Companions) -> Vec<String> {
    if context.facts.machine.kind == MachineKind::Container {
        return Vec::new();
    }
    let (following, separate): (Vec<_>, Vec<_>) = all.unavailable().partition(|of| of.version != VersionRule::Own);
    let mut texts = Vec::new();
    if !following.is_empty() {
        texts.push(with_driver(database, context, driver, all, &following, &separate));
    } else if let Some(text) = besides(context, driver, &separate) {
        texts.push(format!("{}: {text}", all.joined.sentence()));
    }
    texts.extend(all.unconfigured().map(|(companion, file)| causes::name_peers(companion, file)));
    texts
}

/// Companions in the driver's version, which come with no package of this driver.
fn with_driver(
    database: &Database,
    context: &StepContext,
    driver: &ChosenDriver,
    all: &Companions,
    following: &[&Companion],
    separate: &[&Companion],
) -> String {
    let manager = context.facts.os.package_manager;
    let needed = |of: &&Companion| {
        let package = of.package(manager, driver.version);
        let place = package.map(|name| format!(" (package {name} in NVIDIA's repository)")).unwrap_or_default();
        causes::companion(of, driver.version) + &place
    };
    let sentences = run_elsewhere(database, all.joined.fabric).into_iter().chain(following.iter().map(needed));
    let sentences: Vec<_> = sentences.collect();
    let mut text = format!("{}: {}", all.joined.sentence(), sentences.join(". "));
    let names: Vec<_> = separate.iter().map(|of| package(context, driver, of)).collect();
    if !names.is_empty() {
        text += &format!(", with {} from NVIDIA's repository", names.join(", "));
    }
    let install = following.iter().map(|of| causes::install_companion(of, driver.version, manager));
    if let Some(install) = install.collect::<Option<Vec<_>>>() {
        let start = following.iter().flat_map(|of| causes::start_companion(of));
        let commands: Vec<_> = install.into_iter().chain(start).collect();
        text += &format!(". After the driver: {}", commands.join("; "));
    }
    if following.iter().any(|of| of.id == CompanionId::FABRIC_MANAGER) {
        text += &format!(". {}", causes::UNTIL_FABRIC_RUNS);
    }
    text
}

/// Companions with a separate version, whose repository is not enabled.
fn besides(context: &StepContext, driver: &ChosenDriver, separate: &[&Companion]) -> Option<String> {
    let first = separate.first()?;
    let names: Vec<_> = separate.iter().map(|of| package(context, driver, of)).collect();
    let repository = first.repository.as_ref().map_or("NVIDIA's repository", |of| of.name.as_str());
    let (who, names) = (causes::companion(first, driver.version), names.join(", "));
    let until = causes::UNTIL_FABRIC_RUNS;
    Some(format!(
        "{who} (package {names}). {repository} has it, but is not enabled on this host: enable it, then plan again. {until}"
    ))
}

fn package(context: &StepContext, driver: &ChosenDriver, of: &Companion) -> String {
    of.package(context.facts.os.package_manager, driver.version).unwrap_or_else(|| of.title.clone())
}

/// What the machines with these NVSwitches run, if that is not this host.
fn run_elsewhere(database: &Database, fabric: &Fabric) -> Option<String> {
    let titles: Vec<_> = fabric.elsewhere.iter().map(|id| database.companion_title(*id)).collect();
    let verb = if titles.len() > 1 { "run" } else { "runs" };
    (!titles.is_empty()).then(|| format!("{} {verb} there, not on this host", titles.join(" and ")))
}
