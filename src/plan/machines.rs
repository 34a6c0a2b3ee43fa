//! Machines that get their driver another way, where a plan without it or another command is the right way, and machines whose
//! plans need a word more: Grace, laptops with two GPUs, external GPUs, DGX OS.

use super::Warning;
use super::context::StepContext;
use crate::causes::{self, Remedy};
use crate::compat::{Database, Platform, PlatformDriver};
use crate::host::{Facts, Gpu, MachineKind};
use crate::ids::CheckId;
use crate::resolve::{Change, Conflict, Hint, JetsonBoard, KnownHost, Request, own_platform, own_way_here};

/// Refuses hosts on which gpusetup does not install drivers, and toolkits on systems that are an image.
pub fn not_our_driver(host: &KnownHost, request: &Request) -> Result<(), Conflict> {
    let (database, facts) = (host.database, host.facts);
    if let Some(platform) = own_platform(database, facts) {
        not_on_platform(platform, host, request)?;
    }
    let without = || Hint::plan(causes::WITHOUT_DRIVER, Change::Toolkit);
    match facts.machine.kind {
        MachineKind::Wsl2 if request.driver.is_wanted() => {
            Err(Conflict::blocked(CheckId::GS906, causes::WSL2).hint(without()))
        }
        MachineKind::Jetson if request.driver.is_wanted() => Err(jetson(database, facts, without())),
        _ if own_platform(database, facts).is_none() => not_on_image(facts, request),
        _ => Ok(()),
    }
}

/// Refuses drivers and toolkits on an image of a system that the database does not know. A container on one can have a toolkit.
fn not_on_image(facts: &Facts, request: &Request) -> Result<(), Conflict> {
    let wants_driver = request.driver.is_wanted();
    if !facts.os.immutable || (facts.machine.kind == MachineKind::Container && !wants_driver) {
        return Ok(());
    }
    let conflict = Conflict::blocked(CheckId::GS908, causes::IMMUTABLE);
    Err(match wants_driver {
        true => conflict.hint(causes::OWN_TOOLS),
        false => conflict.hint(causes::toolkit_in_container(None).to_string()),
    })
}

fn not_on_platform(platform: &Platform, host: &KnownHost, request: &Request) -> Result<(), Conflict> {
    let (name, why) = (&platform.name, &platform.why);
    let sentence = match platform.driver {
        PlatformDriver::Vendor => return Ok(()),
        PlatformDriver::Unavailable if !request.driver.is_wanted() => return Ok(()),
        PlatformDriver::Unavailable => format!("there is no NVIDIA driver for {name}: {why}"),
        PlatformDriver::Image => format!("{} ({name}: {why})", causes::IMMUTABLE),
    };
    let mut conflict = Conflict::blocked(CheckId::GS908, sentence);
    if request.driver.is_wanted() {
        conflict = conflict.hint(own_way_here(platform, host.database, host.facts).to_string());
    }
    Err(match platform.driver {
        PlatformDriver::Unavailable if host.distribution.is_none() => conflict,
        PlatformDriver::Unavailable => conflict.hint(Hint::plan(causes::WITHOUT_DRIVER, Change::Toolkit)),
        PlatformDriver::Image | PlatformDriver::Vendor => conflict.hint(toolkit_way(platform).to_string()),
    })
}

/// The way to a toolkit on an image.
fn toolkit_way(platform: &Platform) -> Remedy {
    match &platform.toolkit {
        Some(command) => causes::own_toolkit(command),
        None => causes::toolkit_in_container(platform.container.as_deref()),
    }
}

/// Refuses the driver of a Jetson, and says what JetPack has.
fn jetson(database: &Database, facts: &Facts, without: Hint) -> Conflict {
    let board = JetsonBoard::of(database, facts);
    let Some(board) = board.filter(|board| board.system.is_some() || !board.may_use_sbsa()) else {
        return Conflict::blocked(CheckId::GS907, causes::JETSON).hint(without);
    };
    let conflict = Conflict::blocked(CheckId::GS907, format!("{}: this is {}", causes::JETSON, board.named()));
    if board.uses_sbsa() {
        return conflict.hint(without);
    }
    board.toolkits().into_iter().fold(conflict, |conflict, remedy| conflict.hint(remedy.to_string()))
}

/// What a plan for such a machine needs to say.
pub fn warnings(database: &Database, context: &StepContext) -> Vec<Warning> {
    let all = [
        (CheckId::GS909, memory_mode(database, context)),
        (CheckId::GS912, two_gpus(context)),
        (CheckId::GS913, outside(context)),
        (CheckId::GS914, vendors_driver(database, context)),
    ];
    let said = all.into_iter().filter_map(|(id, text)| Some((id, text?)));
    said.map(|(id, text)| Warning { check: id.into(), text }).collect()
}

/// The parameter of the nvidia module for the memory of superchips.
const MEMORY_MODE: &str = "NVreg_CoherentGPUMemoryMode";

/// Drivers from 580 on can manage the memory of superchips themselves, and do from 615 on (release notes of NVIDIA HPC SDK 26.11).
fn memory_mode(database: &Database, context: &StepContext) -> Option<String> {
    let driver = context.chosen.driver.as_ref()?;
    let is_superchip = |gpu: &&Gpu| {
        let known = gpu.device().and_then(|id| database.gpu(id, gpu.subsystem.as_deref()));
        known.and_then(|gpu| gpu.form.as_ref()).is_some_and(|form| form.starts_with("superchip"))
    };
    let gpu = context.facts.gpus.iter().find(is_superchip)?;
    let requested = context.request.settings.module_options.iter().any(|option| option.is_same("nvidia", MEMORY_MODE));
    let set = context.facts.module_options.iter().any(|set| set.module == "nvidia" && set.name == MEMORY_MODE);
    let branch = driver.branch.branch;
    if requested || set || !(580..615).contains(&branch) {
        return None;
    }
    let name = gpu.name.as_deref().unwrap_or("the GPU");
    Some(format!(
        "branch {branch} counts the memory of {name} as memory of the host (NUMA mode). On a Kubernetes node, have the driver manage \
         it: sudo gpusetup apply --module-option nvidia.{MEMORY_MODE}=driver"
    ))
}

/// Without a desktop nothing draws, and both GPUs are as on other hosts.
fn two_gpus(context: &StepContext) -> Option<String> {
    let facts = context.facts;
    let changes = context.chosen.driver.as_ref().is_some_and(|driver| !driver.is_kept());
    if !changes || !facts.is_hybrid() || facts.desktop.is_none() {
        return None;
    }
    let has_prime = context.distribution.is_some_and(|known| !known.hybrid_packages.is_empty());
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
    let (first, driver) = (context.facts.external_gpus.first()?, context.chosen.driver.as_ref()?);
    Some(format!(
        "the GPU at {first} is in a case on Thunderbolt or USB4: connect it before boot. Stop the programs that use it before it is \
         unplugged: driver {} does not give it back while they run",
        driver.version
    ))
}

fn vendors_driver(database: &Database, context: &StepContext) -> Option<String> {
    let driver = context.chosen.driver.as_ref().filter(|driver| !driver.is_kept())?;
    let platform =
        own_platform(database, context.facts).filter(|platform| platform.driver == PlatformDriver::Vendor)?;
    let own = own_way_here(platform, database, context.facts);
    Some(format!("{}: driver {} may not be the one that belongs to it; {own}", platform.why, driver.version))
}
