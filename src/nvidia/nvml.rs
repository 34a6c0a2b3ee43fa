//! NVML, the driver's management library: what it says of the driver and of each GPU. What a GPU does not have is left out; a
//! GPU that does not answer is told with the library's reason.

mod library;

use super::calling::calling;
use super::{Refused, cuda_version};
use crate::version::CudaVersion;
use library::{Device, HEAT, Library, NvmlError, POWER_BRAKE, WARMTH};
use serde::{Deserialize, Serialize};

/// What NVML says.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct Nvml {
    /// The version of the driver in the kernel.
    pub driver: Option<String>,
    /// The version of the library itself.
    pub library: Option<String>,
    /// The newest CUDA that the driver runs by itself.
    pub cuda: Option<CudaVersion>,
    /// How many GPUs the driver was told to leave alone.
    pub excluded: u32,
    /// Whether GPUs of confidential computing accept work; none if there are none.
    pub accepts_work: Option<bool>,
    /// Why NVML says nothing of the GPUs.
    pub refused: Option<Refused>,
    /// The GPUs, in its order.
    pub gpus: Vec<NvmlGpu>,
    /// How GPUs reach each other, each pair once.
    pub ways: Vec<Way>,
}

/// What NVML says of a GPU.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct NvmlGpu {
    /// Bus address, `0000:17:00.0`; none where the GPU does not even say that.
    #[cfg_attr(feature = "schemas", schemars(regex(pattern = r"^[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}[.][0-9a-f]$")))]
    pub address: Option<String>,
    /// The name of the GPU.
    pub name: Option<String>,
    /// The fault for which it does not answer.
    pub refused: Option<Refused>,
    /// The driver keeps it ready when nobody uses it.
    pub persistence: Option<bool>,
    /// A screen is attached, or shows something of it.
    pub display: Option<bool>,
    /// Who may compute on it.
    pub compute_mode: Option<ComputeMode>,
    /// How many processes compute on it.
    pub processes: Option<usize>,
    /// Its division into instances (MIG).
    pub mig: Option<Mig>,
    /// Its memory's error correction.
    pub ecc: Option<Ecc>,
    /// Rows of its memory that others stand in for.
    pub remapped_rows: Option<RemappedRows>,
    /// Pages of its memory that are no longer used, on GPUs that do not remap rows.
    pub retired_pages: Option<RetiredPages>,
    /// What the driver wants done to recover it.
    pub recovery: Option<Recovery>,
    /// What slows it down.
    pub slowdown: Vec<Slowdown>,
    /// The temperature of the chip, in degrees Celsius.
    pub temperature: Option<u32>,
    /// What it draws, in milliwatts.
    pub power: Option<Power>,
    /// Its place in a fabric of NVLinks.
    pub fabric: Option<Fabric>,
    /// How many NVLinks are up and down.
    pub nvlinks: Option<Links>,
}

/// Who may compute on a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum ComputeMode {
    /// Any number of processes.
    Default,
    /// One process at a time.
    Exclusive,
    /// No process.
    Prohibited,
}

/// A GPU's division into instances (MIG).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct Mig {
    /// The GPU is divided into instances.
    pub enabled: bool,
    /// It will be after the next reset.
    pub pending: bool,
    /// How many instances programs can compute on.
    pub instances: u32,
}

/// Error correction of a GPU's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct Ecc {
    /// Error correction is on.
    pub enabled: bool,
    /// It will be on after the next reset.
    pub pending: bool,
    /// Errors that could not be corrected since the driver was loaded.
    pub uncorrected: Option<u64>,
    /// Errors that could not be corrected in the life of the GPU.
    pub uncorrected_ever: Option<u64>,
}

/// Rows of memory that others stand in for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct RemappedRows {
    /// Rows remapped for errors that could be corrected.
    pub corrected: u32,
    /// Rows remapped for errors that could not be corrected.
    pub uncorrected: u32,
    /// More rows will be remapped after the next reset.
    pub pending: bool,
    /// A row could not be remapped: no spare row was left.
    pub failed: bool,
}

/// Pages of memory that are no longer used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct RetiredPages {
    /// Pages retired for several single-bit errors.
    pub single_bit: usize,
    /// Pages retired for a double-bit error.
    pub double_bit: usize,
    /// More pages will be retired when the driver is loaded again.
    pub pending: bool,
}

/// What the driver wants done with a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Recovery {
    /// Nothing is to be done.
    None,
    /// Reset the GPU.
    Reset,
    /// Reboot the host.
    Reboot,
    /// End what uses it together with other GPUs, then reset it.
    DrainP2p,
    /// Give it nothing new to do, and reset it when it is done.
    DrainAndReset,
}

/// What slows a GPU down, and should not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Slowdown {
    /// It is too hot for its hardware.
    Heat,
    /// It, or its memory, is hotter than the driver wants it.
    Warmth,
    /// Its power supply asks it to.
    PowerBrake,
}

/// What a GPU draws, in milliwatts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct Power {
    /// Milliwatts drawn now.
    pub draw: u32,
    /// Milliwatts that it may draw at most.
    pub limit: u32,
}

/// A GPU's place in a fabric of NVLinks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct Fabric {
    /// How far it has come.
    pub state: FabricState,
    /// NVML's number for what went wrong; 0 is nothing, and means something only when it has come to the end.
    pub status: u32,
}

/// How far a GPU has come into its fabric.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum FabricState {
    /// Nobody has asked it in.
    NotStarted,
    /// It is being asked in.
    InProgress,
    /// It came to an end, good or bad.
    Completed,
}

/// A GPU's NVLinks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct Links {
    /// NVLinks that are up.
    pub active: u32,
    /// NVLinks that are down, or lead nowhere.
    pub inactive: u32,
}

/// How two GPUs reach each other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct Way {
    /// One GPU, by its place in the list of GPUs.
    pub from: u32,
    /// The other GPU, by its place in the list.
    pub to: u32,
    /// What lies between: `board`, `switch`, `switches`, `host-bridge`, `node`, `system`.
    #[cfg_attr(feature = "schemas", schemars(extend("enum" = ["board", "switch", "switches", "host-bridge", "node", "system"])))]
    pub over: String,
}

impl NvmlGpu {
    /// Something that was set or found takes a reset to come about.
    pub fn awaits_reset(&self) -> bool {
        self.mig.is_some_and(|m| m.enabled != m.pending)
    }

    /// What to call it in a sentence.
    pub fn shown(&self) -> &str {
        self.address.as_deref().unwrap_or("without an address")
    }
}

/// Asks the library at this path, or of this name. Never fails: what was refused is part of the answer.
pub fn answer(library: &str) -> Nvml {
    calling("nvmlInit_v2");
    let nvml = match Library::open(library) {
        Ok(nvml) => nvml,
        Err(e) => return Nvml { refused: Some(refused("nvmlInit_v2", &e)), ..Nvml::default() },
    };
    let mut told = Nvml {
        driver: asked("nvmlSystemGetDriverVersion", || nvml.driver()).ok(),
        library: asked("nvmlSystemGetNVMLVersion", || nvml.version()).ok(),
        cuda: asked("nvmlSystemGetCudaDriverVersion_v2", || nvml.cuda()).ok().and_then(cuda_version),
        excluded: asked("nvmlGetExcludedDeviceCount", || nvml.excluded()).unwrap_or(0),
        ..Nvml::default()
    };
    let count = match asked("nvmlDeviceGetCount_v2", || nvml.count()) {
        Ok(count) => count,
        Err(refused) => return Nvml { refused: Some(refused), ..told },
    };
    let devices: Vec<_> = (0..count).map(|i| asked("nvmlDeviceGetHandleByIndex_v2", || nvml.device(i))).collect();
    told.accepts_work = devices.iter().flatten().next().and_then(|_| accepts_work(&nvml));
    for device in &devices {
        told.gpus.push(match device {
            Ok(device) => gpu(device),
            Err(refused) => NvmlGpu { refused: Some(refused.clone()), ..NvmlGpu::default() },
        });
    }
    for (to, device) in (0..).zip(&devices) {
        for (from, other) in (0..to).zip(&devices) {
            if let (Ok(device), Ok(other)) = (device, other) {
                told.ways.extend(way(other, device).map(|over| Way { from, to, over: over.to_owned() }));
            }
        }
    }
    told
}

/// Said for all GPUs alike; where there is none it is of no matter.
fn accepts_work(nvml: &Library) -> Option<bool> {
    asked("nvmlSystemGetConfComputeSettings", || nvml.is_confidential()).ok().filter(|is_on| *is_on)?;
    asked("nvmlSystemGetConfComputeGpusReadyState", || nvml.accepts_work()).ok()
}

fn asked<T>(function: &str, ask: impl FnOnce() -> Result<T, NvmlError>) -> Result<T, Refused> {
    calling(function);
    ask().map_err(|e| refused(function, &e))
}

fn refused(call: &str, e: &NvmlError) -> Refused {
    // Where there is no library, or not the one that is wanted, nobody has said a number.
    let code = e.code().and_then(|code| i32::try_from(code).ok());
    Refused { call: call.to_owned(), code, says: e.to_string() }
}

/// Questions to one GPU; it notes the first answer that tells of a fault.
struct Questions<'a> {
    device: &'a Device<'a>,
    fault: Option<Refused>,
}

impl<'a> Questions<'a> {
    /// None where the GPU or this driver does not have it.
    fn ask<T>(&mut self, function: &str, ask: impl FnOnce(&'a Device<'a>) -> Result<T, NvmlError>) -> Option<T> {
        asked(function, || ask(self.device))
            .map_err(|refused| {
                if is_fault(&refused) {
                    self.fault.get_or_insert(refused);
                }
            })
            .ok()
    }
}

/// The numbers of power that is not connected, interrupts that do not come, a damaged infoROM, a lost GPU, one that must be
/// reset, and a library of another driver: <https://docs.nvidia.com/deploy/nvml-api/group__nvmlDeviceEnumvs.html>.
fn is_fault(refused: &Refused) -> bool {
    matches!(refused.code, Some(8 | 11 | 14 | 15 | 16 | 18))
}

fn gpu(device: &Device) -> NvmlGpu {
    let mut q = Questions { device, fault: None };
    let mut told = NvmlGpu {
        address: q.ask("nvmlDeviceGetPciInfo_v3", Device::address),
        name: q.ask("nvmlDeviceGetName", Device::name),
        persistence: q.ask("nvmlDeviceGetPersistenceMode", Device::is_persistent),
        display: display(&mut q),
        compute_mode: q.ask("nvmlDeviceGetComputeMode", Device::compute_mode).and_then(compute_mode),
        processes: q.ask("nvmlDeviceGetComputeRunningProcesses_v3", Device::processes),
        mig: mig(&mut q),
        ecc: ecc(&mut q),
        remapped_rows: q.ask("nvmlDeviceGetRemappedRows", remapped_rows),
        retired_pages: retired_pages(&mut q),
        recovery: q.ask("nvmlDeviceGetFieldValues", recovery).flatten(),
        slowdown: q
            .ask("nvmlDeviceGetCurrentClocksThrottleReasons", Device::slowdown)
            .map(slowdown)
            .unwrap_or_default(),
        temperature: q.ask("nvmlDeviceGetTemperature", Device::temperature),
        power: power(&mut q),
        fabric: q.ask("nvmlDeviceGetGpuFabricInfo", fabric).flatten(),
        nvlinks: q.ask("nvmlDeviceGetNvLinkState", nvlinks).flatten(),
        refused: None,
    };
    told.refused = q.fault;
    told
}

fn display(q: &mut Questions) -> Option<bool> {
    let active = q.ask("nvmlDeviceGetDisplayActive", Device::is_shown);
    let attached = q.ask("nvmlDeviceGetDisplayMode", Device::has_screen);
    active.into_iter().chain(attached).reduce(|one, other| one || other)
}

fn compute_mode(mode: u32) -> Option<ComputeMode> {
    match mode {
        0 => Some(ComputeMode::Default),
        // Of a thread, as old drivers had it, and of a process.
        1 | 3 => Some(ComputeMode::Exclusive),
        2 => Some(ComputeMode::Prohibited),
        _ => None,
    }
}

fn mig(q: &mut Questions) -> Option<Mig> {
    let (enabled, pending) = q.ask("nvmlDeviceGetMigMode", Device::mig)?;
    let most = q.ask("nvmlDeviceGetMaxMigDeviceCount", Device::most_instances).unwrap_or(0);
    let is_there = |i: &u32| asked("nvmlDeviceGetMigDeviceHandleByIndex", || q.device.instance(*i)).is_ok();
    let instances = (0..most).filter(is_there).map(|_| 1).sum();
    Some(Mig { enabled, pending, instances })
}

fn ecc(q: &mut Questions) -> Option<Ecc> {
    let (enabled, pending) = q.ask("nvmlDeviceGetEccMode", Device::ecc)?;
    let mut count = |ever| q.ask("nvmlDeviceGetTotalEccErrors", |d| d.uncorrected(ever));
    Some(Ecc { enabled, pending, uncorrected: count(false), uncorrected_ever: count(true) })
}

fn remapped_rows(device: &Device) -> Result<RemappedRows, NvmlError> {
    let [corrected, uncorrected, pending, failed] = device.remapped_rows()?;
    Ok(RemappedRows { corrected, uncorrected, pending: pending != 0, failed: failed != 0 })
}

fn retired_pages(q: &mut Questions) -> Option<RetiredPages> {
    let pending = q.ask("nvmlDeviceGetRetiredPagesPendingStatus", Device::awaits_retirement)?;
    let mut count = |double| q.ask("nvmlDeviceGetRetiredPages_v2", |d| d.retired_pages(double)).unwrap_or(0);
    Some(RetiredPages { single_bit: count(false), double_bit: count(true), pending })
}

/// <https://docs.nvidia.com/deploy/a100-gpu-mem-error-mgmt/error-recovery-and-response-flags.html>; older drivers do not say.
fn recovery(device: &Device) -> Result<Option<Recovery>, NvmlError> {
    Ok(match device.recovery()? {
        Some(0) => Some(Recovery::None),
        Some(1) => Some(Recovery::Reset),
        Some(2) => Some(Recovery::Reboot),
        Some(3) => Some(Recovery::DrainP2p),
        Some(4) => Some(Recovery::DrainAndReset),
        _ => None,
    })
}

/// The hardware's general slowdown is left out: it is also told while clocks change.
fn slowdown(reasons: u64) -> Vec<Slowdown> {
    let each = [(HEAT, Slowdown::Heat), (WARMTH, Slowdown::Warmth), (POWER_BRAKE, Slowdown::PowerBrake)];
    each.into_iter().filter(|(reason, _)| reasons & reason != 0).map(|(_, slowdown)| slowdown).collect()
}

fn power(q: &mut Questions) -> Option<Power> {
    Some(Power {
        draw: q.ask("nvmlDeviceGetPowerUsage", Device::power)?,
        limit: q.ask("nvmlDeviceGetEnforcedPowerLimit", Device::most_power)?,
    })
}

/// None where the GPU is of no fabric.
fn fabric(device: &Device) -> Result<Option<Fabric>, NvmlError> {
    let (state, status) = device.fabric()?;
    let state = match state {
        1 => FabricState::NotStarted,
        2 => FabricState::InProgress,
        3 => FabricState::Completed,
        _ => return Ok(None),
    };
    Ok(Some(Fabric { state, status }))
}

/// None where the GPU has none.
fn nvlinks(device: &Device) -> Result<Option<Links>, NvmlError> {
    /// More than any GPU has so far; NVML refuses numbers that are too great for it.
    const MOST: u32 = 36;
    let states: Vec<_> = (0..MOST).map_while(|link| device.is_linked(link).ok()).collect();
    let active = states.iter().filter(|is_active| **is_active).map(|_| 1).sum();
    let inactive = states.iter().filter(|is_active| !**is_active).map(|_| 1).sum();
    Ok(Some(Links { active, inactive }).filter(|_| !states.is_empty()))
}

fn way(from: &Device, to: &Device) -> Option<&'static str> {
    calling("nvmlDeviceGetTopologyCommonAncestor");
    Some(match from.way_to(to).ok()? {
        0 => "board",
        10 => "switch",
        20 => "switches",
        30 => "host-bridge",
        40 => "node",
        50 => "system",
        _ => return None,
    })
}
