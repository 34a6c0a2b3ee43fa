//! Makes a plan from a request and facts: the choice, the steps in order, the totals and the
//! fingerprint.

use super::context::{StepContext, reboot_for};
use super::{
    Act, Plan, SCHEMA, State, Step, StepId, Totals, Warning, add_on, companions, containers,
    driver, environment, estimate, fabric, fixes, gpu_settings, machines, mig_step, module_options,
    nouveau, prerequisites, repository, requested, sign_modules, staying, toolkit, unsuited,
    updates, vendors, verify, vgpu_licence,
};
use gpusetup_database::compat::{Database, DatabaseId, PackageRepository, ReleaseLimit};
use gpusetup_database::sum::Sum;
use gpusetup_database::version::dotted;
use gpusetup_host::{Facts, MachineKind, Origin, Toolkit};
use gpusetup_operation::{AddRepository, Download, Operation, Reboot, RepositoryKey};
use gpusetup_recipes::{describe_block, one_driver, unblock_remedy, worst_block};
use gpusetup_resolve::{
    Card, ChosenDriver, Conflict, Install, KnownHost, Method, Request, Resolution, Selection,
    ToolkitMethod, is_over, of_another_system, summary,
};
use gpusetup_system::day::database_age;
use gpusetup_system::limits::Limit;
use gpusetup_text::ids::CheckId;
use gpusetup_text::text::{bytes, count};
use serde::Serialize;
use std::borrow::{Borrow, Cow};
use std::collections::BTreeSet;
use std::path::Path;

/// The size that the driver's firmware adds to each initramfs, as measured by users (pop-os/pop
/// issue 3593: +132 MiB).
const GROWTH: u64 = 132 << 20;

/// The plan for a host.
///
/// # Errors
///
/// If nothing fits, or the host first requires manual action, such as enrolling a key. Hints
/// include obstacles to the suggested alternatives.
pub fn plan(database: &Database, facts: Facts, request: Request) -> Result<Plan, Conflict> {
    let host = KnownHost::new(database, &facts);
    let tried = |request: &Request| unblocked(&host, request, KnownHost::choose).ok();
    let can_be_planned = |request: &Request| tried(request).is_some();
    let chosen = unblocked(&host, &request, |host, request| {
        host.resolve(request, &can_be_planned)
    })
    .map_err(|conflict| {
        let gives = |asked: &Request| Some(summary(&tried(asked)?.selection()));
        let conflict = fabric::with_packages(&request, conflict, gives);
        let conflict = vendors::with_enabled(&request, conflict, tried);
        without_blocked(&host, conflict).for_request(&request)
    })?;
    let context = StepContext::new(&host, &request, &chosen);
    let (first, mut warnings) = prerequisites::prerequisites(&context);
    warnings.extend(prerequisites::of_engine(&context));
    warnings.extend(warn(database, &context));
    let toolkit = |asked: &Request| {
        let chosen = tried(asked)?;
        chosen
            .cuda
            .as_ref()
            .filter(|_| chosen.not_run().is_none())
            .map(|cuda| cuda.version())
    };
    let driver = |asked: &Request| {
        let chosen = tried(asked)?;
        // What NVSwitches need would have to be installed by hand.
        let companions = StepContext::new(&host, asked, &chosen).companions;
        let is_whole = companions.is_none_or(|all| all.unavailable().next().is_none());
        chosen
            .driver
            .as_ref()
            .filter(|_| is_whole)
            .map(|driver| driver.version)
    };
    let mut add = |id: CheckId, text: Option<String>| {
        warnings.extend(text.map(|text| Warning {
            check: id.into(),
            text,
        }))
    };
    // The option that helps follows its warning.
    add(
        CheckId::GS801,
        fabric::complete_instead(database, &context, driver),
    );
    add(
        CheckId::GS707,
        staying::not_run(database, &context, toolkit),
    );
    for further in &context.further {
        // Another toolkit instead of one that was named is no help.
        add(
            CheckId::GS707,
            staying::not_run(database, further, |_| None),
        );
    }
    add(
        CheckId::GS513,
        fixes::missing_in_toolkit(database, &request, &chosen, toolkit),
    );
    for further in &chosen.further {
        add(
            CheckId::GS513,
            fixes::missing_in_toolkit(database, &request, &further.chosen, |_| None),
        );
    }
    let of_driver = chosen
        .driver
        .as_ref()
        .and_then(|chosen| fixes::missing(database, &request, chosen, driver));
    add(CheckId::GS513, of_driver);
    // Equal GPUs give equal warnings; one is enough.
    let mut said = BTreeSet::new();
    warnings.retain(|warning| said.insert((warning.check.clone(), warning.text.clone())));
    let steps = in_order(&context, database, first);
    let selection = chosen.selection();
    let default = toolkit::why_default(&context);
    let Resolution {
        mut reasons,
        rejected,
        python,
        ..
    } = chosen;
    reasons.extend(default);
    let plan = Plan::of(database, facts, request, steps, warnings);
    Ok(Plan {
        selection,
        reasons,
        rejected,
        python,
        ..plan
    }
    .summed())
}

/// The same refusal without the suggestions that are refused, too, but with what blocks them, and
/// with the limits of those that are not.
fn without_blocked(host: &KnownHost, mut conflict: Conflict) -> Conflict {
    let mut said = BTreeSet::new();
    conflict.hints.retain(|hint| {
        let Some(request) = hint.asks() else {
            return true;
        };
        match unblocked(host, request, KnownHost::choose) {
            Err(blocked) => {
                said.extend(blocks(host, request, &blocked));
                false
            }
            Ok(chosen) => {
                said.extend(limits(host, request, &chosen));
                true
            }
        }
    });
    if conflict.hints.iter().all(|hint| hint.asks().is_none()) {
        conflict.alternative = None;
    }
    said.into_iter().fold(conflict, Conflict::hint)
}

/// What would fit, and why it is refused all the same.
fn blocks(host: &KnownHost, request: &Request, blocked: &Conflict) -> Option<String> {
    let chosen = summary(&host.choose(request).ok()?.selection());
    let what = if chosen.is_empty() {
        "the suggestion"
    } else {
        &chosen
    };
    Some(format!("{what} fits, but is blocked, too: {blocked}"))
}

/// The limits of a plan that is suggested.
fn limits<'a>(host: &KnownHost<'a, '_>, request: &Request, chosen: &Resolution<'a>) -> Vec<String> {
    let doubtful = |warning: &Warning| {
        [CheckId::GS103, CheckId::GS713]
            .iter()
            .any(|id| warning.check == *id)
    };
    let warnings = warn(host.database, &StepContext::new(host, request, chosen));
    let doubtful = warnings.into_iter().filter(doubtful);
    doubtful
        .map(|warning| format!("the alternative has a limit: {}", warning.text))
        .collect()
}

/// Resolves a request, and refuses the result if manual action is required before the installation.
fn unblocked<'a, 'f, Chosen: Borrow<Resolution<'a>>>(
    host: &KnownHost<'a, 'f>,
    request: &Request,
    choose: impl Fn(&KnownHost<'a, 'f>, &Request) -> Result<Chosen, Conflict>,
) -> Result<Chosen, Conflict> {
    let facts = host.facts;
    machines::not_our_driver(host, request)?;
    fabric::not_unreachable(request)?;
    not_another_systems(host, request)?;
    let chosen = choose(host, request)?;
    let resolution = chosen.borrow();
    not_mixed(facts, resolution)?;
    vendors::not_two_vendors(facts, resolution)?;
    not_over_another(facts, request, resolution)?;
    for further in &resolution.further {
        not_over_another(facts, &further.request, &further.chosen)?;
    }
    wholly_read(facts)?;
    not_a_virtual_machines(facts, request, resolution)?;
    sign_modules::not_unsigned(facts, host.distribution, request, resolution)?;
    if resolution.driver.is_some() {
        gpu_settings::not_refused(facts, request)?;
        module_options::not_set_elsewhere(facts, request)?;
        updates::not_without_holds(facts, request)?;
        vgpu_licence::not_without_guest_driver(facts, request, resolution)?;
        mig_step::not_refused(host.database, facts, request)?;
    }
    let context = StepContext::new(host, request, resolution);
    prerequisites::not_without_tools(&context)?;
    fabric::not_without_fabric(host.database, &context)?;
    fabric::not_without_peers(&context)?;
    requested::not_without_source(host.database, &context)?;
    unsuited::not_unsuited(&context)?;
    containers::not_refused(&context)?;
    Ok(chosen)
}

fn in_order(context: &StepContext, database: &Database, first: Step) -> Vec<Step> {
    let mut steps = Vec::with_capacity(16 + database.add_ons.len());
    let blacklist = nouveau::blacklist_nouveau(context);
    let options = module_options::module_options(context, blacklist.state == State::Needed);
    let options_reboot = module_options::why_reboot(context, &options);
    // Build tools may come from it too.
    steps.extend(repository::add_repository(context, database));
    steps.extend([first, options, blacklist]);
    let signing = sign_modules::sign_modules(context);
    let console = signing.iter().any(|step| step.id == StepId::Reboot);
    steps.extend(signing);
    let driver = context.chosen.driver.as_ref().filter(|d| !d.is_kept());
    // The reboot for the key frees the GPU, too.
    let rival = !context.facts.machine.is_tree && !console && nouveau::rival_is_loaded(context);
    // The runfile fails if another driver uses the GPU. Packages install anyway; their modules load
    // at the next boot.
    let early = driver.is_some_and(|d| d.install.method() == Method::Runfile) && rival;
    // Fabric Manager refuses a driver of another version, so the new one has to be loaded before it
    // starts.
    let replaced = driver.is_some_and(|driver| is_replaced(context, driver));
    let late = driver.is_some() && (rival && !early || replaced);
    if early {
        steps.push(reboot(
            "the runfile fails while another driver uses the GPU",
        ));
    }
    steps.push(driver::install_driver(context));
    steps.push(toolkit::install_cuda(context));
    steps.extend(add_on::install(context, &database.add_ons));
    steps.extend(toolkit::install_further(context));
    steps.push(toolkit::fix_symlinks(context));
    steps.push(environment::ldconfig(context));
    steps.push(environment::environment(context));
    if late {
        let why = if rival {
            "another driver uses the GPU until then"
        } else {
            "the driver before is loaded until then"
        };
        steps.push(reboot(why));
    }
    steps.extend(
        companions::set_up_companions(context)
            .into_iter()
            .chain(companions::without_peers(context)),
    );
    steps.extend(containers::install_engine(context));
    steps.extend(containers::container_toolkit(context));
    let settings_reboot =
        gpu_settings::why_reboot(context).or(options_reboot.filter(|_| !early && !late));
    steps.extend([
        vgpu_licence::vgpu_licence(context),
        updates::updates(context),
    ]);
    // A reset for a change of MIG mode takes settings away.
    steps.extend(mig_step::partition_gpus(context, database));
    steps.push(gpu_settings::gpu_settings(context));
    steps.extend(settings_reboot.map(|why| reboot(&why)));
    steps.retain(|step| step.state != State::Skipped || step.id.kind().is_news(context.request));
    let converged = steps.iter().all(|s| s.state != State::Needed);
    steps.push(verify::verify(context, converged));
    steps
}

/// Whether another version of the driver is loaded, and units or kernel modules that need the new
/// one are started.
fn is_replaced(context: &StepContext, driver: &ChosenDriver) -> bool {
    let starts = context.companions.as_ref().is_some_and(|companions| {
        companions.units().next().is_some() || companions.own_modules().next().is_some()
    });
    let loaded = context.facts.loaded_modules.as_deref().unwrap_or_default();
    let is_other = |version: &String| *version != driver.version.to_string();
    starts
        && loaded
            .iter()
            .any(|module| module.name == "nvidia" && module.version.as_ref().is_some_and(is_other))
}

fn reboot(why: &str) -> Step {
    reboot_for(why, Reboot::default())
}

/// Refuses a runfile over packages, or packages over a runfile: that breaks hosts.
fn not_mixed(facts: &Facts, chosen: &Resolution) -> Result<(), Conflict> {
    let (Some(installed), Some(driver)) = (&facts.driver, &chosen.driver) else {
        return Ok(());
    };
    one_driver(facts, driver)?;
    let (by, remedy) = match (installed.origin, driver.install) {
        (
            Origin::Dpkg | Origin::Rpm,
            Install::Runfile(_) | Install::CudaRunfile(_) | Install::File,
        ) => (
            "packages",
            "use packages (--method packages), or remove the driver's packages first".to_owned(),
        ),
        (Origin::Runfile, Install::Packages(_) | Install::Repository(..)) => (
            "NVIDIA's runfile",
            format!(
                "{}; or use the runfile (--method runfile)",
                gpusetup_causes::remove_runfile()
            ),
        ),
        _ => return Ok(()),
    };
    let sentence = format!(
        "driver {} was installed from {by}, but {} would be installed differently; two installations break each other",
        installed.version, driver.version
    );
    Err(Conflict::blocked(CheckId::GS401, sentence).hint(remedy))
}

/// Refuses NVIDIA's repository where the one that is enabled is for another system: its packages
/// are built for other kernels and libraries, and a second source of the same vendor would compete
/// with it.
fn not_another_systems(host: &KnownHost, request: &Request) -> Result<(), Conflict> {
    let of_toolkit =
        request.toolkit_method == ToolkitMethod::Repository && request.cuda.is_wanted();
    let is_requested =
        of_toolkit || request.method == Method::Repository && request.driver.is_wanted();
    let other =
        of_another_system(host.database, host.distribution, host.facts).filter(|_| is_requested);
    let Some(other) = other else { return Ok(()) };
    Err(Conflict::blocked(CheckId::GS404, other.cause(host.facts))
        .hint(other.remedy(host.facts).to_string()))
}

/// Refuses to unpack archives over a toolkit of another origin or release, or to run a runfile over
/// archives: leftovers of one would count as part of the other.
fn not_over_another(facts: &Facts, request: &Request, chosen: &Resolution) -> Result<(), Conflict> {
    let Some(cuda) = chosen.cuda.as_ref().filter(|c| !c.is_kept()) else {
        return Ok(());
    };
    let (version, series) = (cuda.release.version, cuda.release.version.series());
    let path = request.prefix.join(series.directory());
    let is_other = |t: &Toolkit| match cuda.packages {
        Some(_) => t.origin != Origin::Dpkg,
        None => matches!(t.origin, Origin::Dpkg | Origin::Archives) || !chosen.parts.is_empty(),
    };
    let apart = |t: &&Toolkit| t.path == path && is_other(t);
    let Some(there) = facts.toolkits.iter().find(apart) else {
        return Ok(());
    };
    let (path, is) = (path.display(), there.version);
    let sentence = format!(
        "{path} already contains CUDA {is}; {version} would be installed over it in another way"
    );
    let keep = match (cuda.packages, there.origin, chosen.parts.is_empty()) {
        (Some(_), ..) => "keep it without --toolkit-method",
        (None, Origin::Dpkg, _) => "keep it with --toolkit-method repository",
        (None, _, true) => "keep it with --components",
        (None, _, false) => "keep it without --components",
    };
    let hint = if is == version {
        keep.to_owned()
    } else {
        format!("keep the installed toolkit: --cuda {is}")
    };
    let upgrade = (there.origin == Origin::Dpkg && cuda.packages.is_none())
        .then_some("or upgrade its packages: --toolkit-method repository");
    Err(upgrade
        .into_iter()
        .fold(
            Conflict::blocked(CheckId::GS714, sentence).hint(hint),
            Conflict::hint,
        )
        .hint(format!("or remove it: gpusetup uninstall --cuda {series}")))
}

/// Whether a driver is installed, not kept.
fn installs_driver(chosen: &Resolution) -> bool {
    chosen.driver.as_ref().is_some_and(|d| !d.is_kept())
}

/// Refuses a host of which only a part was read: whatever is not known of it could change the plan.
fn wholly_read(facts: &Facts) -> Result<(), Conflict> {
    let Some(one) = facts.left_out(Limit::Whole).next() else {
        return Ok(());
    };
    let conflict = Conflict::blocked(CheckId::GS608, gpusetup_causes::partly_read(&one.said()));
    Err(conflict.hint(gpusetup_causes::make_smaller(&one.path(), one.limit).to_string()))
}

/// Refuses to install a driver for a GPU that is passed through to a virtual machine.
fn not_a_virtual_machines(
    facts: &Facts,
    request: &Request,
    chosen: &Resolution,
) -> Result<(), Conflict> {
    let handed_over = |g: &&gpusetup_host::Gpu| {
        g.bound_to.as_deref() == Some("vfio-pci")
            && !request.leaves_out(g)
            && installs_driver(chosen)
    };
    let Some(gpu) = facts.gpus.iter().find(handed_over) else {
        return Ok(());
    };
    Err(
        Conflict::blocked(CheckId::GS203, gpusetup_causes::held_for_vm(&gpu.address))
            .hint(format!(
                "leave it out of the plan: --leave-out {}",
                gpu.address
            ))
            .hint(gpusetup_causes::give_back(&gpu.address).to_string()),
    )
}

/// From this age in days on, a plan warns of its database.
const OLD: u64 = 60;

fn warn(database: &Database, context: &StepContext) -> Vec<Warning> {
    let mut warnings = Vec::new();
    let mut say = |check: CheckId, text: String| {
        warnings.push(Warning {
            check: check.into(),
            text,
        })
    };
    let age = database_age(&database.version, &context.request.today);
    if age > OLD {
        let text = format!(
            "the database is {} old: newer drivers, CUDA releases and GPUs are missing in it; {}",
            count(age, "day"),
            gpusetup_causes::newer_database()
        );
        say(CheckId::GS607, text);
    }
    if let Some(text) = sign_modules::warning(context) {
        say(CheckId::GS301, text);
    }
    if let Some(driver) = &context.chosen.driver {
        if is_over(driver, &context.request.today) {
            let life = driver.branch.end_of_life.as_deref().unwrap_or("years ago");
            say(
                CheckId::GS510,
                format!(
                    "driver branch {} is past its end of life ({life}) and gets no more fixes",
                    driver.branch.branch
                ),
            );
        }
        if let Install::Repository(
            offer,
            PackageRepository {
                needs: Some(needs), ..
            },
        ) = driver.install
            && !context.facts.has_enabled(&needs.seen_as)
        {
            let (name, other, enable) = (&offer.repository.name, &needs.name, &needs.enable);
            let text = format!(
                "packages of {name} may need {other}, which is not enabled on this host: {enable}"
            );
            say(CheckId::GS411, text);
        }
        let boot = context
            .facts
            .space
            .iter()
            .find(|s| s.path == Path::new("/boot"));
        let images = context
            .facts
            .kernels
            .installed
            .iter()
            .filter(|k| k.initramfs.is_some())
            .count() as u64;
        if let Some(boot) =
            boot.filter(|b| installs_driver(context.chosen) && b.free_bytes < images * GROWTH)
        {
            let (free, growth) = (bytes(boot.free_bytes), bytes(GROWTH));
            say(
                CheckId::GS603,
                format!(
                    "/boot has only {free} free. If the driver's firmware is included, each of {images} initramfs images grows \
                     by up to {growth}; {}",
                    gpusetup_causes::unused_kernels(context.facts.os.package_manager)
                ),
            );
        }
        if driver.install.method() == Method::Packages
            && !driver.is_kept()
            && context.distribution.is_none()
        {
            say(
                CheckId::GS410,
                gpusetup_causes::unknown_packages(&context.facts.os.name),
            );
        }
        if context.facts.machine.kind == MachineKind::Container {
            say(CheckId::GS911, gpusetup_causes::CONTAINER.to_owned());
        }
        if let Some((kernel, text)) = context
            .facts
            .kernel()
            .and_then(|k| Some((k, unlikely_to_build(driver, k)?)))
        {
            let when = if context.facts.kernels.next_boot.is_some() {
                "boots next"
            } else {
                "runs"
            };
            say(
                CheckId::GS103,
                format!("kernel {kernel} {when}, but {text}"),
            );
        }
        let is_loaded = context.facts.driver_is_loaded();
        let blocks = &context.facts.blocked_modules;
        if let Some(worst) = worst_block(blocks, is_loaded) {
            let remedy = unblock_remedy(
                blocks,
                context.facts,
                driver.is_kept() && is_loaded == Some(false),
            );
            say(
                CheckId::GS204,
                format!("{}; {remedy}", describe_block(worst)),
            );
        }
        let unknown = context
            .facts
            .driver
            .as_ref()
            .filter(|there| there.origin == Origin::Unknown && !driver.is_kept());
        if let Some(there) = unknown {
            let cause = gpusetup_causes::unknown_origin(there.version, &there.evidence);
            say(
                CheckId::GS409,
                format!(
                    "{cause}; {} would be installed over it. {}",
                    driver.version,
                    gpusetup_causes::REMOVE_UNKNOWN_FIRST
                ),
            );
        }
        let kernel = context.facts.kernels.running.as_deref();
        if let (Some(running), Some(next)) = (kernel, context.facts.kernels.next_boot.as_deref())
            && running != next
        {
            say(
                CheckId::GS104,
                format!(
                    "kernel {running} is running, but {next} boots next: the modules are built for {next}"
                ),
            );
        }
        if let Some(companions) = &context.companions {
            fabric::by_hand(database, context, driver, companions)
                .into_iter()
                .for_each(|text| say(CheckId::GS801, text));
        }
    }
    if let Some(driver) = context
        .chosen
        .driver
        .as_ref()
        .filter(|driver| !driver.is_kept())
    {
        let cards = &context.chosen.cards;
        let not_yet = cards.iter().filter_map(|card| not_listed_yet(card, driver));
        let never = cards
            .iter()
            .filter(|card| !card.is_listed)
            .map(|card| unlisted(card, driver));
        not_yet
            .chain(never)
            .for_each(|text| say(CheckId::GS503, text));
    }
    for text in unsuited::on_other_gpus(context) {
        say(CheckId::GS805, text);
    }
    for caution in &context.chosen.cautions {
        say(CheckId::GS713, caution.clone());
    }
    if let Some(other) = of_another_system(database, context.distribution, context.facts) {
        say(
            CheckId::GS404,
            format!(
                "{}; {}",
                other.cause(context.facts),
                other.remedy(context.facts)
            ),
        );
    }
    let unsupported = gpu_settings::warnings(context);
    unsupported
        .into_iter()
        .for_each(|warning| warnings.push(warning));
    let mut say = |check: CheckId, text: String| {
        warnings.push(Warning {
            check: check.into(),
            text,
        })
    };
    if let Some(text) = staying::loaded_before(context) {
        say(CheckId::GS501, text);
    }
    warnings.extend(machines::warnings(database, context));
    let mut say = |check: CheckId, text: String| {
        warnings.push(Warning {
            check: check.into(),
            text,
        })
    };
    if let Some(text) = without_gpu(context) {
        say(CheckId::GS712, text);
    }
    for card in context
        .chosen
        .cards
        .iter()
        .filter(|_| context.chosen.driver.is_none())
    {
        let arch = context.facts.machine.arch.as_str();
        if let Some(machine) = card.only_on.as_deref().filter(|machine| *machine != arch) {
            let name = &card.name;
            say(
                CheckId::GS512,
                format!(
                    "{name} exists only in {machine} machines; on {arch} this toolkit can only compile for it"
                ),
            );
        }
    }
    for cuda in context.chosen.toolkits().filter(|c| !c.is_kept()) {
        let (os, arch) = (
            &context.facts.os,
            gpusetup_resolve::cuda_arch(&context.facts.machine.arch),
        );
        let version = cuda.release.version;
        // Rebuilds of RHEL count as RHEL.
        let rhel = os.like.iter().any(|l| l == "rhel").then_some("rhel");
        let ids: Vec<_> = rhel.into_iter().chain([os.id.as_str()]).collect();
        if let Some(guide) = database.guide_without(version, arch, &ids, &os.version) {
            let (of, name) = (guide.cuda, &os.name);
            let text = if of == version.series() {
                format!("NVIDIA's installation guide for CUDA {of} does not list {name} on {arch}")
            } else {
                format!(
                    "CUDA {version} may not support {name} on {arch}: NVIDIA's installation guide for CUDA {of}, the nearest that \
                     gpusetup knows, does not list it"
                )
            };
            say(CheckId::GS711, text);
        }
        let gcc = context
            .facts
            .gcc_major()
            .filter(|have| cuda.release.gcc_min.is_some_and(|least| *have < least));
        if let (Some(have), Some(least)) = (gcc, cuda.release.gcc_min) {
            let text = format!(
                "nvcc of CUDA {version} needs gcc {least} or newer, but the system's gcc is {have}"
            );
            say(CheckId::GS705, text);
        }
    }
    for text in containers::warnings(context) {
        say(CheckId::GS803, text);
    }
    for one in context.facts.left_out(Limit::File) {
        say(CheckId::GS608, gpusetup_causes::left_out(&one.said()));
    }
    for unreadable in context.facts.unreadable_gpus() {
        say(
            CheckId::GS511,
            format!(
                "a GPU is left out of the plan, because its model is not known: {}",
                unreadable.why
            ),
        );
    }
    for gpu in context
        .facts
        .gpus
        .iter()
        .filter(|g| g.bound_to.as_deref() == Some("vfio-pci"))
    {
        say(
            CheckId::GS203,
            format!(
                "{}; the plan does not change that",
                gpusetup_causes::held_for_vm(&gpu.address)
            ),
        );
    }
    warnings
}

/// The warning about a driver that was requested by its version although its list lacks the GPU, or
/// was not read.
fn not_listed_yet(card: &Card, driver: &ChosenDriver) -> Option<String> {
    let (name, version) = (&card.name, driver.version);
    if let Some(sure) = card.sure_branch.filter(|sure| driver.branch.branch < *sure) {
        return Some(format!(
            "whether driver {version} supports {name} is not known: branch {sure} is the first that is known to list it"
        ));
    }
    let first = card.listed_later(version)?;
    Some(format!(
        "driver {version} does not list {name}; {first} is the next release that does"
    ))
}

/// The warning about a GPU that no driver lists, and what to check.
fn unlisted(card: &Card, driver: &ChosenDriver) -> String {
    format!(
        "no NVIDIA driver lists {}; driver {} was chosen by the GPU's architecture alone. Look for its id in that driver's \
         supported-gpus.json, and run gpusetup doctor after the installation",
        card.name, driver.version
    )
}

/// The warning if a toolkit was chosen although no GPU is known.
fn without_gpu(context: &StepContext) -> Option<String> {
    if !context.chosen.cards.is_empty() || context.chosen.cuda.as_ref().is_none_or(|c| c.is_kept())
    {
        return None;
    }
    let why = match context.facts.machine.kind {
        MachineKind::Wsl2 => "WSL2 does not show the GPU's model",
        _ => "no GPU is known here",
    };
    Some(format!(
        "{why}, so CUDA may be too new or too old for your GPU; name it (--gpu \"gtx 1060\")"
    ))
}

/// Why the driver's modules may not build for a kernel; none if they should. A distribution patches
/// its packages for its kernels.
fn unlikely_to_build(driver: &ChosenDriver, kernel: &str) -> Option<String> {
    let branch = driver.branch.branch;
    let (newest, why) = match driver.install {
        Install::Kept(..) => return None,
        Install::Packages(offer) | Install::Repository(offer, _) => (
            &offer.newest_kernel,
            format!("the packages of branch {branch} are patched only for kernels up to"),
        ),
        Install::Runfile(_) | Install::CudaRunfile(_) | Install::File => (
            &driver.branch.newest_kernel,
            format!("branch {branch} is known to build only up to kernel"),
        ),
    };
    if let Some(newest) = newest
        .as_deref()
        .filter(|newest| dotted(kernel) > dotted(newest))
    {
        return Some(format!(
            "{why} {newest}: its modules may not build without patches"
        ));
    }
    if driver.install.method() != Method::Runfile {
        return None;
    }
    let too_old = |limit: &&ReleaseLimit| {
        driver.version <= limit.up_to
            && driver.modules == limit.modules
            && dotted(kernel) >= dotted(&limit.from)
    };
    if let Some(limit) = driver.branch.release_limits.iter().find(too_old) {
        return Some(format!(
            "the {} modules of {} do not build on kernel {} and newer",
            driver.modules, driver.version, limit.from
        ));
    }
    let limit = driver
        .branch
        .kernel_limits
        .iter()
        .find(|limit| limit.excludes(kernel))?;
    Some(format!(
        "the modules of branch {branch} do not build on {} kernels {} and newer without patches",
        limit.distribution, limit.from
    ))
}

/// The sum of the known sizes of the steps; none if no positive size is known and at least one is
/// missing.
fn total(steps: &[Step], of: fn(&Step) -> Option<u64>) -> Option<u64> {
    let known = steps.iter().filter_map(of).sum();
    (known > 0 || steps.iter().all(|step| of(step).is_some())).then_some(known)
}

fn totals(steps: &[Step]) -> Totals {
    let (download_bytes, disk_bytes) = (
        total(steps, |s| s.download_bytes),
        total(steps, |s| s.disk_bytes),
    );
    let at_least = steps
        .iter()
        .any(|s| s.download_bytes.is_none() || s.disk_bytes.is_none());
    let estimate_seconds = estimate::total(steps);
    let mut totals = Totals {
        download_bytes,
        disk_bytes,
        at_least,
        estimate_seconds,
        ..Totals::default()
    };
    for step in steps {
        for act in step.operations.iter().filter(|a| !a.satisfied) {
            let counts = act.operation.counts();
            totals.add += counts.add;
            totals.change += counts.change;
            totals.remove += counts.remove;
            totals.reboots += counts.reboots;
        }
    }
    totals
}

/// The facts about the host that the fingerprint covers.
#[derive(Serialize)]
struct Identity<'a> {
    arch: &'a str,
    os: (&'a str, &'a str),
    gpus: Vec<(&'a str, &'a str)>,
}

/// What the fingerprint covers of a step, in the same form as the step.
#[derive(Serialize)]
struct CoveredStep<'a> {
    id: &'a StepId,
    title: &'a str,
    why: &'a str,
    state: State,
    operations: Vec<CoveredAct<'a>>,
    download_bytes: Option<u64>,
    disk_bytes: Option<u64>,
}

#[derive(Serialize)]
struct CoveredAct<'a> {
    #[serde(flatten)]
    operation: Cow<'a, Operation>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    satisfied: bool,
}

impl<'a> CoveredStep<'a> {
    fn of(step: &'a Step) -> Self {
        // Derived values are computed again whenever a plan is read.
        let Step {
            id,
            title,
            why,
            state,
            operations,
            download_bytes,
            disk_bytes,
            room: _,
            licensed: _,
            idle_driver: _,
            estimate_seconds: _,
        } = step;
        Self {
            id,
            title,
            why,
            state: *state,
            operations: operations.iter().map(CoveredAct::of).collect(),
            download_bytes: *download_bytes,
            disk_bytes: *disk_bytes,
        }
    }
}

impl<'a> CoveredAct<'a> {
    fn of(act: &'a Act) -> Self {
        let operation = match &act.operation {
            Operation::Download(Download {
                url: _,
                sha256,
                size,
                to,
            }) => Cow::Owned(Operation::Download(Download {
                url: String::new(),
                sha256: sha256.clone(),
                size: *size,
                to: to.clone(),
            })),
            // A key is what its fingerprint says, wherever it comes from. The address is written to
            // the host.
            Operation::AddRepository(repository) => {
                Cow::Owned(Operation::AddRepository(AddRepository {
                    keys: repository
                        .keys
                        .iter()
                        .map(|key| RepositoryKey {
                            content: None,
                            ..key.clone()
                        })
                        .collect(),
                    ..repository.clone()
                }))
            }
            operation => Cow::Borrowed(operation),
        };
        Self {
            operation,
            satisfied: act.satisfied,
        }
    }
}

fn identity(facts: &Facts) -> Identity<'_> {
    Identity {
        arch: &facts.machine.arch,
        os: (&facts.os.id, &facts.os.version),
        gpus: facts
            .gpus
            .iter()
            .map(|g| (g.address.as_str(), g.pci_id.as_str()))
            .collect(),
    }
}

impl Plan {
    /// A plan with these steps and an empty selection, without totals.
    pub(super) fn of(
        database: &Database,
        host: Facts,
        request: Request,
        steps: Vec<Step>,
        warnings: Vec<Warning>,
    ) -> Self {
        Self {
            schema: SCHEMA.to_owned(),
            tool: env!("CARGO_PKG_VERSION").to_owned(),
            database: DatabaseId::of(database),
            selection: Selection::default(),
            reasons: Vec::new(),
            rejected: Vec::new(),
            python: Vec::new(),
            totals: Totals::default(),
            host,
            request,
            steps,
            warnings,
        }
    }

    /// The plan for a host that needs nothing.
    pub fn of_nothing(database: &Database, host: Facts, request: Request) -> Self {
        Self::of(database, host, request, Vec::new(), Vec::new()).summed()
    }

    /// The plan with its totals computed.
    pub(super) fn summed(self) -> Self {
        let mut plan = self.with_needs().with_room_judged();
        plan.totals = totals(&plan.steps);
        plan
    }

    /// SHA-256 of everything in the plan that defines what is done and on which host; an edited
    /// plan has a different one. Download URLs are not included, because the checksums of the files
    /// are; those of added repositories are. It is computed each time: of the plans for a fleet
    /// only those that are saved need one.
    pub fn fingerprint(&self) -> String {
        let steps: Vec<_> = self.steps.iter().map(CoveredStep::of).collect();
        let content = (
            &self.database,
            identity(&self.host),
            &self.request,
            &self.selection,
            &steps,
        );
        let mut sum = Sum::default();
        // Serialising cannot fail: maps are sorted, and the rest is text and numbers.
        serde_json::to_writer(&mut sum, &content).unwrap_or_default();
        sum.finish()
    }

    /// Whether it installs something under an NVIDIA licence.
    pub fn brings_nvidias(&self) -> bool {
        self.steps
            .iter()
            .any(|step| step.licensed && step.state == State::Needed)
    }

    /// Whether there is nothing to do.
    pub fn is_converged(&self) -> bool {
        self.steps.iter().all(|s| s.state != State::Needed)
    }
}
