//! Machines that get their driver another way, where a plan without it or another command is the
//! right way, and machines whose plans need a word more: Grace, laptops with two GPUs, external
//! GPUs, DGX OS.

use super::Warning;
use super::context::{StepContext, exists};
use gpusetup_causes::Remedy;
use gpusetup_database::compat::{Database, Platform, PlatformDriver};
use gpusetup_host::{Facts, Gpu, MachineKind};
use gpusetup_resolve::{
    Change, Conflict, Hint, JetsonBoard, KnownHost, NO_KNOWN_WAY, Request, installed_by_hand,
    is_power9, linux_driver_in_wsl2, own_platform, power9_setup, removal_by_hand,
    vendor_driver_here,
};
use gpusetup_text::ids::CheckId;
use gpusetup_text::paths::{PERSISTENCE_UNITS, PERSISTENCE_WANTED};

/// Refuses hosts on which gpusetup does not install drivers, and toolkits on systems that are an
/// image.
pub(crate) fn not_our_driver(host: &KnownHost, request: &Request) -> Result<(), Conflict> {
    let (database, facts) = (host.database, host.facts);
    if let Some(platform) = own_platform(database, facts) {
        not_on_platform(platform, host, request)?;
    }
    let without = Hint::plan(gpusetup_causes::WITHOUT_DRIVER, Change::Toolkit);
    match facts.machine.kind {
        MachineKind::Wsl2 if request.driver.is_wanted() => {
            Err(Conflict::blocked(CheckId::GS906, gpusetup_causes::WSL2).hint(without))
        }
        MachineKind::Jetson if request.driver.is_wanted() => Err(jetson(host, request, without)),
        _ if own_platform(database, facts).is_none() => not_on_image(facts, request),
        _ => Ok(()),
    }
}

/// Refuses drivers and toolkits on an image of a system that the database does not know. A
/// container on one can have a toolkit.
fn not_on_image(facts: &Facts, request: &Request) -> Result<(), Conflict> {
    let wants_driver = request.driver.is_wanted();
    if !facts.os.immutable || (facts.machine.kind == MachineKind::Container && !wants_driver) {
        return Ok(());
    }
    let conflict = Conflict::blocked(CheckId::GS908, gpusetup_causes::IMMUTABLE);
    Err(match wants_driver {
        true => conflict.hint(format!("{NO_KNOWN_WAY}; a toolkit belongs in a container")),
        false => conflict.hint(gpusetup_causes::toolkit_in_container(None).to_string()),
    })
}

fn not_on_platform(
    platform: &Platform,
    host: &KnownHost,
    request: &Request,
) -> Result<(), Conflict> {
    let (name, why) = (&platform.name, &platform.why);
    let sentence = match platform.driver {
        PlatformDriver::Vendor => return Ok(()),
        PlatformDriver::Unavailable if !request.driver.is_wanted() => return Ok(()),
        PlatformDriver::Unavailable => format!("there is no NVIDIA driver for {name}: {why}"),
        PlatformDriver::Image => format!("{} ({name}: {why})", gpusetup_causes::IMMUTABLE),
    };
    let mut conflict = Conflict::blocked(CheckId::GS908, sentence);
    if request.driver.is_wanted() {
        conflict =
            conflict.hint(vendor_driver_here(platform, host.database, host.facts).to_string());
    }
    Err(match platform.driver {
        PlatformDriver::Unavailable if host.distribution.is_none() => conflict,
        PlatformDriver::Unavailable => {
            conflict.hint(Hint::plan(gpusetup_causes::WITHOUT_DRIVER, Change::Toolkit))
        }
        PlatformDriver::Image | PlatformDriver::Vendor => {
            conflict.hint(toolkit_way(platform).to_string())
        }
    })
}

/// The way to a toolkit on an image.
fn toolkit_way(platform: &Platform) -> Remedy {
    match &platform.toolkit {
        Some(command) => gpusetup_causes::own_toolkit(command),
        None => gpusetup_causes::toolkit_in_container(platform.container.as_deref()),
    }
}

/// Refuses the driver of a Jetson, and says what JetPack has. A host of containers has its toolkits
/// in them.
fn jetson(host: &KnownHost, request: &Request, without: Hint) -> Conflict {
    let board = JetsonBoard::of(host.database, host.facts);
    let Some(board) = board.filter(|board| board.system.is_some() || !board.may_use_sbsa()) else {
        return Conflict::blocked(CheckId::GS907, gpusetup_causes::JETSON).hint(without);
    };
    let conflict = Conflict::blocked(
        CheckId::GS907,
        format!("{}: this is {}", gpusetup_causes::JETSON, board.named()),
    );
    if board.uses_sbsa() || request.settings.containers.is_some() && !request.cuda.is_wanted() {
        return conflict.hint(without);
    }
    board
        .toolkits()
        .into_iter()
        .fold(conflict, |conflict, remedy| {
            conflict.hint(remedy.to_string())
        })
}

/// What a plan for such a machine needs to say.
pub(crate) fn warnings(database: &Database, context: &StepContext) -> Vec<Warning> {
    let all = [
        (CheckId::GS905, power9(database, context)),
        (CheckId::GS906, linux_driver(context.facts)),
        (CheckId::GS906, not_in_wsl2(database, context)),
        (CheckId::GS909, memory_mode(database, context)),
        (CheckId::GS912, two_gpus(context)),
        (CheckId::GS913, outside(context)),
        (CheckId::GS914, vendors_driver(database, context)),
    ];
    let applicable = all.into_iter().filter_map(|(id, text)| Some((id, text?)));
    let applicable = applicable.chain(
        not_run_by_jetpack(database, context)
            .into_iter()
            .map(|text| (CheckId::GS707, text)),
    );
    applicable
        .map(|(id, text)| Warning::new(id, text))
        .collect()
}

/// CUDA does not start on POWER9 before it is set up. Where the daemon starts at boot with a driver
/// that stays, it is.
fn power9(database: &Database, context: &StepContext) -> Option<String> {
    let (facts, driver) = (context.facts, context.chosen.driver.as_ref()?);
    if !is_power9(facts) || driver.is_kept() && exists(facts, PERSISTENCE_WANTED) {
        return None;
    }
    let has_unit = PERSISTENCE_UNITS.iter().any(|path| exists(facts, path));
    let setup = power9_setup(database, facts, has_unit);
    Some(format!(
        "on POWER9, CUDA starts only if nvidia-persistenced puts the GPUs' memory online, and udev does not; after the \
         installation, {setup}"
    ))
}

/// A driver for Linux in WSL2, which programs would load instead of that of Windows.
fn linux_driver(facts: &Facts) -> Option<String> {
    let driver = installed_by_hand(facts).filter(|_| facts.machine.kind == MachineKind::Wsl2)?;
    let (cause, remove) = (linux_driver_in_wsl2(driver), removal_by_hand(facts, driver));
    Some(format!("{cause}; remove it: {remove} && sudo ldconfig"))
}

/// GPUs that programs in WSL2 cannot use.
fn not_in_wsl2(database: &Database, context: &StepContext) -> Option<String> {
    let known = database
        .wsl2_gpus
        .first()
        .filter(|_| context.facts.machine.kind == MachineKind::Wsl2)?;
    let gpus = context
        .chosen
        .gpus
        .iter()
        .filter(|card| !known.include(card.capability, card.line.as_deref()));
    let mut names: Vec<_> = gpus.map(|card| card.name.as_str()).collect();
    names.dedup();
    (!names.is_empty()).then(|| {
        format!(
            "WSL2 supports {}, not {}: here, a toolkit can only compile for it",
            known.text,
            names.join(" or ")
        )
    })
}

/// Toolkits that the driver of a Jetson does not run.
fn not_run_by_jetpack(database: &Database, context: &StepContext) -> Vec<String> {
    let Some(board) = JetsonBoard::of(database, context.facts) else {
        return Vec::new();
    };
    let gpu = context.chosen.oldest_gpu();
    context
        .chosen
        .toolkits()
        .filter_map(|cuda| board.not_run(cuda.version(), gpu))
        .collect()
}

/// The parameter of the nvidia module for the memory of superchips.
const MEMORY_MODE: &str = "NVreg_CoherentGPUMemoryMode";

/// Drivers from 580 on can manage the memory of superchips themselves, and do from 615 on (release
/// notes of NVIDIA HPC SDK 26.11).
fn memory_mode(database: &Database, context: &StepContext) -> Option<String> {
    let driver = context.chosen.driver.as_ref()?;
    let mut gpus = context.facts.gpus.iter();
    let gpu = gpus.find(|gpu| is_superchip(database, gpu))?;
    let requested = context
        .request
        .settings
        .module_options
        .iter()
        .any(|option| option.is_same("nvidia", MEMORY_MODE));
    let set = context
        .facts
        .module_options
        .iter()
        .any(|set| set.module == "nvidia" && set.name == MEMORY_MODE);
    let branch = driver.branch.branch;
    if requested || set || !(580..615).contains(&branch) {
        return None;
    }
    let name = gpu.name.as_deref().unwrap_or("the GPU");
    let asked = Request {
        assumed_gpus: Vec::new(),
        ..context.request.clone()
    }
    .options();
    let option = format!("--module-option nvidia.{MEMORY_MODE}=driver");
    let command = ["sudo gpusetup apply", asked.as_str(), option.as_str()]
        .into_iter()
        .filter(|part| !part.is_empty());
    Some(format!(
        "branch {branch} counts the memory of {name} as memory of the host (NUMA mode). On a Kubernetes node, have the driver manage \
         it: {}",
        command.collect::<Vec<_>>().join(" ")
    ))
}

/// Without a desktop nothing draws, and both GPUs are as on other hosts.
fn two_gpus(context: &StepContext) -> Option<String> {
    let facts = context.facts;
    let changes = context
        .chosen
        .driver
        .as_ref()
        .is_some_and(|driver| !driver.is_kept());
    if !changes || !facts.is_hybrid() || facts.desktop.is_none() {
        return None;
    }
    let has_prime = context
        .distribution
        .is_some_and(|known| !known.hybrid_packages.is_empty());
    let choose = if has_prime {
        "sudo prime-select on-demand, then __NV_PRIME_RENDER_OFFLOAD=1 __GLX_VENDOR_LIBRARY_NAME=nvidia PROGRAM"
    } else {
        "__NV_PRIME_RENDER_OFFLOAD=1 __GLX_VENDOR_LIBRARY_NAME=nvidia PROGRAM"
    };
    Some(format!(
        "this laptop has two GPUs: the desktop stays on the one in the processor, and programs choose NVIDIA's: {choose}"
    ))
}

fn outside(context: &StepContext) -> Option<String> {
    let (first, driver) = (
        context.facts.external_gpus.first()?,
        context.chosen.driver.as_ref()?,
    );
    Some(format!(
        "the GPU at {first} is in a case on Thunderbolt or USB4: connect it before boot. Stop the programs that use it before it is \
         unplugged: driver {} does not give it back while they run",
        driver.version
    ))
}

fn vendors_driver(database: &Database, context: &StepContext) -> Option<String> {
    let driver = context
        .chosen
        .driver
        .as_ref()
        .filter(|driver| !driver.is_kept())?;
    let platform = own_platform(database, context.facts)
        .filter(|platform| platform.driver == PlatformDriver::Vendor)?;
    let own = vendor_driver_here(platform, database, context.facts);
    Some(format!(
        "{}: driver {} may not be the one that belongs to it; {own}",
        platform.why, driver.version
    ))
}

fn is_superchip(database: &Database, gpu: &Gpu) -> bool {
    gpu.device()
        .and_then(|id| database.gpu(id, gpu.subsystem.as_deref()))
        .and_then(|gpu| gpu.form.as_ref())
        .is_some_and(|form| form.starts_with("superchip"))
}
