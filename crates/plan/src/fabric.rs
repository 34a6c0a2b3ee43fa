//! Warnings about what NVSwitches need and gpusetup does not set up (GS801): without it CUDA fails,
//! although nvidia-smi looks healthy.

use super::context::StepContext;
use super::fixes;
use super::needed::Companions;
use gpusetup_causes::Remedy;
use gpusetup_database::compat::{Companion, CompanionId, Database, Fabric, VersionRule};
use gpusetup_database::version::{DriverVersion, Want};
use gpusetup_host::MachineKind;
use gpusetup_resolve::{
    ChosenDriver, CompanionSource, Conflict, ConflictKind, Hint, Method, NvSwitchHost, Request,
    has_own_repository,
};
use gpusetup_text::ids::CheckId;
use gpusetup_text::text::all_of;
use std::net::IpAddr;

/// What the user has to install or configure, a sentence or two each.
pub(crate) fn by_hand(
    database: &Database,
    context: &StepContext,
    driver: &ChosenDriver,
    all: &Companions,
) -> Vec<String> {
    let Some(joined) = all
        .joined
        .filter(|_| context.facts.machine.kind != MachineKind::Container)
    else {
        return Vec::new();
    };
    let (following, separate): (Vec<_>, Vec<_>) = all
        .unavailable()
        .partition(|of| of.version != VersionRule::Own);
    let mut texts = Vec::new();
    if !following.is_empty() {
        texts.push(with_driver(
            database, context, driver, joined, &following, &separate,
        ));
    } else if let Some(text) = besides(database, context, driver, &separate) {
        texts.push(format!("{}: {text}", joined.sentence()));
    }
    // The host itself has the GPUs that were assumed.
    let options = Request {
        assumed_gpus: Vec::new(),
        ..context.request.clone()
    }
    .options();
    texts.extend(
        all.unconfigured()
            .map(|(companion, file)| gpusetup_causes::name_peers(companion, file, &options)),
    );
    texts
}

/// Companions in the driver's version, which come with no package of this driver.
fn with_driver(
    database: &Database,
    context: &StepContext,
    driver: &ChosenDriver,
    joined: NvSwitchHost,
    following: &[&Companion],
    separate: &[&Companion],
) -> String {
    let (manager, facts) = (context.facts.os.package_manager, context.facts);
    let mut names = following
        .iter()
        .filter_map(|of| of.package(manager, driver.version));
    let is_there = has_own_repository(database, context.distribution, facts)
        && names.all(|name| {
            facts
                .offered
                .as_ref()
                .is_none_or(|all| all.contains_key(&name))
        });
    let place = if is_there {
        "repository"
    } else {
        "repositories; no enabled one has it"
    };
    let mut sentences = Vec::from_iter(run_elsewhere(database, joined.fabric));
    sentences.extend(following.iter().map(|of| {
        let package = of.package(manager, driver.version);
        let place = package
            .map(|name| format!(" (package {name} in NVIDIA's {place})"))
            .unwrap_or_default();
        gpusetup_causes::companion(of, driver.version) + &place
    }));
    let mut text = format!("{}: {}", joined.sentence(), sentences.join(". "));
    let names: Vec<_> = separate
        .iter()
        .map(|of| package(context, driver, of))
        .collect();
    if !names.is_empty() {
        text += &format!(", with {} from NVIDIA's repository", names.join(", "));
    }
    let install = following
        .iter()
        .map(|of| gpusetup_causes::install_companion(of, driver.version, manager));
    if let Some(install) = install.collect::<Option<Vec<_>>>().filter(|_| is_there) {
        let others = separate
            .iter()
            .filter_map(|of| remedy(database, context, of));
        let others = others.flat_map(|remedy| remedy.commands);
        let start = following
            .iter()
            .flat_map(|of| gpusetup_causes::start_companion(of));
        let commands: Vec<_> = install.into_iter().chain(others).chain(start).collect();
        text += &format!(". After the driver: {}", commands.join("; "));
    }
    if following
        .iter()
        .any(|of| of.id == CompanionId::FABRIC_MANAGER)
    {
        text += &format!(". {}", gpusetup_causes::UNTIL_FABRIC_RUNS);
    }
    text
}

/// The option with which a plan gets a driver that comes with what is missing, if one does. `gives`
/// is the driver that a request gets with everything that it needs.
pub(crate) fn complete_instead(
    database: &Database,
    context: &StepContext,
    gives: impl Fn(&Request) -> Option<DriverVersion>,
) -> Option<String> {
    let is_host = context.facts.machine.kind != MachineKind::Container;
    let companions = context.companions.as_ref().filter(|_| is_host)?;
    let missing: Vec<_> = companions
        .unavailable()
        .map(|of| of.title.as_str())
        .collect();
    let driver = context
        .chosen
        .driver
        .as_ref()
        .filter(|_| !missing.is_empty())?;
    let (option, version) = fixes::first_given(
        fixes::other_requests(database, context.request, driver),
        gives,
    )?;
    Some(format!(
        "{option} gets driver {version} with {}",
        all_of(&missing)
    ))
}

/// Companions with a separate version that no repository of the host has.
fn besides(
    database: &Database,
    context: &StepContext,
    driver: &ChosenDriver,
    separate: &[&Companion],
) -> Option<String> {
    let first = separate.first()?;
    let names: Vec<_> = separate
        .iter()
        .map(|of| package(context, driver, of))
        .collect();
    let who = gpusetup_causes::companion(first, driver.version);
    let remedy = remedy(database, context, first)
        .map(|remedy| format!(": {remedy}"))
        .unwrap_or_default();
    let until = gpusetup_causes::UNTIL_FABRIC_RUNS;
    Some(format!(
        "{who} (package {}){remedy}. {until}",
        names.join(", ")
    ))
}

/// How to get a companion whose version does not depend on the driver's.
fn remedy(database: &Database, context: &StepContext, of: &Companion) -> Option<Remedy> {
    let has = (
        context.chosen.driver.as_ref()?.version,
        context.chosen.oldest_gpu(),
    );
    let supply = CompanionSource::of(of, database, context.distribution, context.facts, has);
    Some(
        supply
            .filter(|_| of.version == VersionRule::Own)?
            .remedy(of, context.facts),
    )
}

/// Refuses to install a driver from a runfile if something is missing without which CUDA fails: the
/// plan would end well, with GPUs that no program can use. A driver that is named with its whole
/// version or as a file is taken all the same, with a warning.
pub(crate) fn not_without_fabric(
    database: &Database,
    context: &StepContext,
) -> Result<(), Conflict> {
    let driver = context
        .chosen
        .driver
        .as_ref()
        .filter(|driver| driver.install.method() == Method::Runfile);
    let request = context.request;
    let driver = driver.filter(|driver| {
        !driver.is_kept()
            && request.driver_file.is_none()
            && !request.driver.is_exactly(driver.version)
    });
    let Some((driver, companions)) = driver.zip(context.companions.as_ref()) else {
        return Ok(());
    };
    let Some(joined) = companions.joined else {
        return Ok(());
    };
    let missing: Vec<_> = companions
        .unavailable()
        .filter(|of| of.peers.is_none() && context.facts.machine.kind != MachineKind::Container)
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let needs: Vec<_> = missing
        .iter()
        .map(|of| gpusetup_causes::companion(of, driver.version))
        .collect();
    let sentence = format!(
        "{}: {}. Driver {} comes from the runfile, and gpusetup cannot install that beside it: CUDA would fail with error 802 (system not \
         yet initialized)",
        joined.sentence(),
        needs.join("; "),
        driver.version
    );
    let remedies = missing
        .iter()
        .filter_map(|of| remedy(database, context, of));
    let conflict = remedies.fold(
        Conflict::blocked(CheckId::GS801, sentence),
        |conflict, remedy| conflict.hint(remedy.to_string()),
    );
    let Ok(exactly) = driver.version.to_string().parse() else {
        return Err(conflict);
    };
    let exactly = Request {
        driver: exactly,
        ..context.request.clone()
    };
    Err(conflict.hint(Hint::asking("and install the rest by hand", exactly)))
}

/// Refuses addresses by which no other host can reach this one.
pub(crate) fn not_unreachable(request: &Request) -> Result<(), Conflict> {
    let Some(address) = request
        .imex_peers
        .iter()
        .find(|address| match address.to_canonical() {
            IpAddr::V6(v6) if v6.is_unicast_link_local() => true,
            other => other.is_loopback() || other.is_unspecified() || other.is_multicast(),
        })
    else {
        return Ok(());
    };
    let sentence =
        format!("other hosts do not reach this one by the address {address} (--imex-peers)");
    Err(Conflict::request(sentence)
        .hint("name an address of each host that all of them reach, such as 10.0.0.1"))
}

/// Refuses to name the hosts of an NVLink domain if what connects them cannot be installed with
/// this driver.
pub(crate) fn not_without_peers(context: &StepContext) -> Result<(), Conflict> {
    let is_host = context.facts.machine.kind != MachineKind::Container;
    let missing = context
        .companions
        .as_ref()
        .filter(|_| is_host)
        .and_then(Companions::unconnected);
    let Some((of, driver)) = missing.zip(context.chosen.driver.as_ref()) else {
        return Ok(());
    };
    let (title, version) = (&of.title, driver.version);
    let sentence = format!(
        "{title} cannot be set up (--imex-peers): gpusetup knows no {title} that it can install with driver {version} {}",
        match driver.install.method() {
            Method::Runfile => "from the runfile",
            Method::Auto | Method::Packages | Method::Repository => "from these packages",
        }
    );
    let without = Request {
        imex_peers: Vec::new(),
        ..context.request.clone()
    };
    Err(Conflict::request(sentence)
        .check(CheckId::GS801)
        .hint(Hint::asking("without it", without)))
}

/// Suggests packages if a runfile was refused by the rules above, or for its unsigned modules.
/// `gives` says what a request gets, if it gets anything.
pub(crate) fn with_packages(
    request: &Request,
    mut conflict: Conflict,
    gives: impl Fn(&Request) -> Option<String>,
) -> Conflict {
    let is_of_plan = matches!(conflict.kind, ConflictKind::Blocked | ConflictKind::Request);
    let is_refused = is_of_plan
        && [CheckId::GS301, CheckId::GS801]
            .iter()
            .any(|id| conflict.check == Some(*id));
    let methods = [Method::Auto, Method::Repository]
        .into_iter()
        .filter(|method| *method != request.method);
    let others = methods.map(|method| Request {
        method,
        ..request.clone()
    });
    // Of the driver that was named, the modules may not be signed.
    let is_named =
        conflict.check == Some(CheckId::GS301) && matches!(request.driver, Want::Meeting(_));
    let any = is_named.then(|| Request {
        driver: Want::Best,
        method: Method::Auto,
        ..request.clone()
    });
    let packaged = others.chain(any).filter(|_| is_refused).find_map(|asked| {
        let gives = format!("fits: {}", gives(&asked)?);
        Some(Hint::asking("", asked).giving(gives))
    });
    conflict.hints.splice(0..0, packaged);
    conflict
}

fn package(context: &StepContext, driver: &ChosenDriver, of: &Companion) -> String {
    of.package(context.facts.os.package_manager, driver.version)
        .unwrap_or_else(|| of.title.clone())
}

/// What the machines with these NVSwitches run, if that is not this host.
fn run_elsewhere(database: &Database, fabric: &Fabric) -> Option<String> {
    let titles: Vec<_> = fabric
        .elsewhere
        .iter()
        .map(|id| database.companion_title(*id))
        .collect();
    let verb = if titles.len() > 1 { "run" } else { "runs" };
    (!titles.is_empty()).then(|| format!("{} {verb} there, not on this host", all_of(&titles)))
}
