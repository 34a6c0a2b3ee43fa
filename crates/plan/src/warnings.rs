//! What a plan warns of. A warning that names an option which helps is added in `build.rs`.

use super::context::StepContext;
use super::{
    Warning, containers, fabric, gpu_settings, machines, sign_modules, unsuited, untouched_driver,
};
use gpusetup_database::compat::{Database, PackageRepository};
use gpusetup_database::version::dotted;
use gpusetup_host::{MachineKind, Origin};
use gpusetup_recipes::{describe_block, unblock_remedy, worst_block};
use gpusetup_resolve::{
    ChosenDriver, ChosenToolkit, Conflict, Hint, Install, Method, TargetGpu, known_gpu,
    of_another_system,
};
use gpusetup_system::day::database_age;
use gpusetup_system::limits::Limit;
use gpusetup_text::ids::CheckId;
use gpusetup_text::text::{bytes, count};
use std::collections::BTreeSet;
use std::path::Path;

/// The size that the driver's firmware adds to each initramfs, as measured by users (pop-os/pop
/// issue 3593: +132 MiB).
const GROWTH: u64 = 132 << 20;

/// From this age in days on, a plan warns of its database.
const OLD: u64 = 60;

pub(crate) fn warnings(database: &Database, context: &StepContext) -> Vec<Warning> {
    let mut warnings = Vec::from_iter(old_database(database, context));
    warnings.extend(Warning::each(
        CheckId::GS301,
        sign_modules::warning(context),
    ));
    if let Some(driver) = &context.chosen.driver {
        warnings.extend(driver_warnings(database, context, driver));
    }
    warnings.extend(Warning::each(
        CheckId::GS503,
        unlisted_cards(database, context),
    ));
    warnings.extend(Warning::each(
        CheckId::GS805,
        unsuited::on_other_gpus(context),
    ));
    warnings.extend(Warning::each(
        CheckId::GS713,
        context.chosen.cautions.clone(),
    ));
    warnings.extend(context.chosen.without_toolkit.as_ref().map(no_toolkit));
    if let Some(other) = of_another_system(database, context.distribution, context.facts) {
        let (cause, remedy) = (other.cause(context.facts), other.remedy(context.facts));
        warnings.push(Warning::new(CheckId::GS404, format!("{cause}; {remedy}")));
    }
    warnings.extend(gpu_settings::warnings(context));
    warnings.extend(Warning::each(
        CheckId::GS501,
        untouched_driver::loaded_before(context),
    ));
    warnings.extend(machines::warnings(database, context));
    warnings.extend(Warning::each(CheckId::GS712, without_gpu(context)));
    warnings.extend(Warning::each(
        CheckId::GS512,
        cards_of_other_machines(context),
    ));
    for cuda in context.chosen.toolkits().filter(|c| !c.is_kept()) {
        warnings.extend(Warning::each(
            CheckId::GS711,
            not_in_guide(database, context, cuda),
        ));
        warnings.extend(Warning::each(
            CheckId::GS705,
            too_old_compiler(context, cuda),
        ));
    }
    warnings.extend(Warning::each(CheckId::GS803, containers::warnings(context)));
    let left_out = context.facts.left_out(Limit::File);
    let left_out = left_out.map(|one| gpusetup_causes::left_out(&one.describe()));
    warnings.extend(Warning::each(CheckId::GS608, left_out));
    let unreadable = context.facts.unreadable_gpus().map(|gpu| {
        format!(
            "a GPU is left out of the plan, because its model is not known: {}",
            gpu.why
        )
    });
    warnings.extend(Warning::each(CheckId::GS511, unreadable));
    let gpus = context.facts.gpus.iter();
    let held = gpus.filter(|gpu| gpu.bound_to.as_deref() == Some("vfio-pci"));
    let held = held.map(|gpu| {
        format!(
            "{}; the plan does not change that",
            gpusetup_causes::held_for_vm(&gpu.address)
        )
    });
    warnings.extend(Warning::each(CheckId::GS203, held));
    warnings
}

fn old_database(database: &Database, context: &StepContext) -> Option<Warning> {
    let age = database_age(&database.version, &context.request.today);
    (age > OLD).then(|| {
        let text = format!(
            "the database is {} old: newer drivers, CUDA releases and GPUs are missing in it; {}",
            count(age, "day"),
            gpusetup_causes::newer_database()
        );
        Warning::new(CheckId::GS607, text)
    })
}

fn driver_warnings(
    database: &Database,
    context: &StepContext,
    driver: &ChosenDriver,
) -> Vec<Warning> {
    let is_container = context.facts.machine.kind == MachineKind::Container;
    let is_unknown = driver.install.method() == Method::Packages
        && !driver.is_kept()
        && context.distribution.is_none();
    let all = [
        (CheckId::GS510, past_end_of_life(context, driver)),
        (CheckId::GS411, needs_repository(context, driver)),
        (CheckId::GS603, small_boot(context)),
        (
            CheckId::GS410,
            is_unknown.then(|| gpusetup_causes::unknown_packages(&context.facts.os.name)),
        ),
        (
            CheckId::GS911,
            is_container.then(|| gpusetup_causes::CONTAINER.to_owned()),
        ),
        (CheckId::GS103, new_kernel(context, driver)),
        (CheckId::GS204, blocked_modules(context, driver)),
        (CheckId::GS409, over_unknown_driver(context, driver)),
        (CheckId::GS104, another_kernel_next(context)),
    ];
    let by_hand = context
        .companions
        .iter()
        .flat_map(|companions| fabric::by_hand(database, context, driver, companions));
    all.into_iter()
        .filter_map(|(check, text)| Some(Warning::new(check, text?)))
        .chain(Warning::each(CheckId::GS801, by_hand))
        .collect()
}

fn past_end_of_life(context: &StepContext, driver: &ChosenDriver) -> Option<String> {
    driver
        .branch
        .is_over(&context.request.today)
        .then(|| gpusetup_causes::branch_is_over(driver.branch))
}

/// The warning about a repository that the chosen one needs, and that is not enabled.
fn needs_repository(context: &StepContext, driver: &ChosenDriver) -> Option<String> {
    let Install::Repository(
        offer,
        PackageRepository {
            needs: Some(needs), ..
        },
    ) = driver.install
    else {
        return None;
    };
    let (name, other, enable) = (&offer.repository.name, &needs.name, &needs.enable);
    (!context.facts.has_enabled(&needs.seen_as)).then(|| {
        format!("packages of {name} may need {other}, which is not enabled on this host: {enable}")
    })
}

fn small_boot(context: &StepContext) -> Option<String> {
    let facts = context.facts;
    let boot = facts.space.iter().find(|s| s.path == Path::new("/boot"));
    let kernels = facts.kernels.installed.iter();
    let images = kernels.filter(|k| k.initramfs.is_some()).count() as u64;
    let boot =
        boot.filter(|b| context.chosen.installs_driver() && b.free_bytes < images * GROWTH)?;
    let (free, growth) = (bytes(boot.free_bytes), bytes(GROWTH));
    Some(format!(
        "/boot has only {free} free. If the driver's firmware is included, each of {images} initramfs images grows \
         by up to {growth}; {}",
        gpusetup_causes::unused_kernels(facts.os.package_manager)
    ))
}

fn new_kernel(context: &StepContext, driver: &ChosenDriver) -> Option<String> {
    let kernel = context.facts.kernel()?;
    let why = unlikely_to_build(driver, kernel)?;
    let when = if context.facts.kernels.next_boot.is_some() {
        "boots next"
    } else {
        "runs"
    };
    Some(format!("kernel {kernel} {when}, but {why}"))
}

fn blocked_modules(context: &StepContext, driver: &ChosenDriver) -> Option<String> {
    let is_loaded = context.facts.driver_is_loaded();
    let blocks = &context.facts.blocked_modules;
    let worst = worst_block(blocks, is_loaded)?;
    let is_down = driver.is_kept() && is_loaded == Some(false);
    let remedy = unblock_remedy(blocks, context.facts, is_down);
    Some(format!("{}; {remedy}", describe_block(worst)))
}

fn over_unknown_driver(context: &StepContext, driver: &ChosenDriver) -> Option<String> {
    let there = context.facts.driver.as_ref();
    let there = there.filter(|there| there.origin == Origin::Unknown && !driver.is_kept())?;
    let cause = gpusetup_causes::unknown_origin(there.version, &there.evidence);
    Some(format!(
        "{cause}; {} would be installed over it. {}",
        driver.version,
        gpusetup_causes::REMOVE_UNKNOWN_FIRST
    ))
}

fn another_kernel_next(context: &StepContext) -> Option<String> {
    let kernels = &context.facts.kernels;
    let (running, next) = (kernels.running.as_deref()?, kernels.next_boot.as_deref()?);
    (running != next).then(|| {
        format!(
            "kernel {running} is running, but {next} boots next: the modules are built for {next}"
        )
    })
}

/// The warnings about GPUs that the list of the driver that is installed lacks.
fn unlisted_cards(database: &Database, context: &StepContext) -> Vec<String> {
    let driver = context.chosen.driver.as_ref();
    let Some(driver) = driver.filter(|driver| !driver.is_kept()) else {
        return Vec::new();
    };
    let gpus = &context.chosen.gpus;
    let not_yet = gpus.iter().filter_map(|card| not_listed_yet(card, driver));
    let never = gpus.iter().filter(|card| !card.is_listed);
    not_yet
        .chain(never.map(|card| {
            let ids = ids_of(database, context, card);
            unlisted(card, &ids, driver)
        }))
        .collect()
}

/// The warnings about GPUs for which a toolkit without a driver can only compile.
fn cards_of_other_machines(context: &StepContext) -> Vec<String> {
    if context.chosen.driver.is_some() {
        return Vec::new();
    }
    let arch = context.facts.machine.arch.as_str();
    let gpus = context.chosen.gpus.iter();
    let only = gpus.filter_map(|card| Some((&card.name, card.only_on.as_deref()?)));
    only.filter(|(_, machine)| *machine != arch)
        .map(|(name, machine)| {
            format!(
                "{name} exists only in {machine} machines; on {arch} this toolkit can only compile for it"
            )
        })
        .collect()
}

/// The warning if NVIDIA's installation guide does not list the distribution.
fn not_in_guide(
    database: &Database,
    context: &StepContext,
    cuda: &ChosenToolkit,
) -> Option<String> {
    let (os, version) = (&context.facts.os, cuda.release.version);
    let arch = gpusetup_resolve::cuda_arch(&context.facts.machine.arch);
    // Rebuilds of RHEL count as RHEL.
    let rhel = os.like.iter().any(|l| l == "rhel").then_some("rhel");
    let ids: Vec<_> = rhel.into_iter().chain([os.id.as_str()]).collect();
    let guide = database.guide_without(version, arch, &ids, &os.version)?;
    let (of, name) = (guide.cuda, &os.name);
    Some(if of == version.series() {
        format!("NVIDIA's installation guide for CUDA {of} does not list {name} on {arch}")
    } else {
        format!(
            "CUDA {version} may not support {name} on {arch}: NVIDIA's installation guide for CUDA {of}, the nearest that \
             gpusetup knows, does not list it"
        )
    })
}

/// The warning that the plan has no toolkit, which nobody asked for and none of which fits.
fn no_toolkit(conflict: &Conflict) -> Warning {
    let mut text = format!("the plan has no CUDA toolkit: {}", conflict.sentence);
    for hint in &conflict.hints {
        if let Hint::Words(words) = hint {
            text += &format!("; {words}");
        }
    }
    Warning::new(conflict.check.unwrap_or(CheckId::GS712), text)
}

fn too_old_compiler(context: &StepContext, cuda: &ChosenToolkit) -> Option<String> {
    let (have, least) = (context.facts.gcc_major()?, cuda.release.gcc_min?);
    let version = cuda.release.version;
    (have < least).then(|| {
        format!("nvcc of CUDA {version} needs gcc {least} or newer, but the system's gcc is {have}")
    })
}

/// The warning about a driver that was requested by its version although its list lacks the GPU, or
/// was not read.
fn not_listed_yet(card: &TargetGpu, driver: &ChosenDriver) -> Option<String> {
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

/// The ids of the host's GPUs that are such a GPU: other ids of the same name may well be listed.
fn ids_of(database: &Database, context: &StepContext, card: &TargetGpu) -> String {
    let gpus = context.facts.gpus.iter();
    let same =
        gpus.filter(|gpu| known_gpu(database, gpu).is_ok_and(|known| known.name == card.name));
    let ids: BTreeSet<_> = same.map(|gpu| gpu.pci_id.as_str()).collect();
    ids.into_iter().collect::<Vec<_>>().join(", ")
}

/// The warning about a GPU that no driver lists, and what to check.
fn unlisted(card: &TargetGpu, ids: &str, driver: &ChosenDriver) -> String {
    format!(
        "no NVIDIA driver lists {} [{ids}]; driver {} was chosen by the GPU's architecture alone. Look for its id in that \
         driver's supported-gpus.json, and run gpusetup doctor after the installation",
        card.name, driver.version
    )
}

/// The warning if a toolkit was chosen although no GPU is known.
fn without_gpu(context: &StepContext) -> Option<String> {
    if !context.chosen.gpus.is_empty() || context.chosen.cuda.as_ref().is_none_or(|c| c.is_kept()) {
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
    let limit = driver.branch.release_limits.iter().find(|limit| {
        driver.version <= limit.up_to
            && driver.modules == limit.modules
            && dotted(kernel) >= dotted(&limit.from)
    });
    if let Some(limit) = limit {
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
