//! NVML, the driver's management library: its report on the driver and on each GPU. Features that a
//! GPU lacks are left out. A GPU that does not respond is reported with the library's reason.

pub mod codes;
mod functions;
mod library;
mod mig;
mod read;
mod settings;
mod state;
mod survey;
pub mod table;

pub(crate) use read::table as read_table;
pub(crate) use state::answer as state;
pub use state::{Clocks, DeviceState, Reading};
pub(crate) use survey::answer as surveyed;
pub use survey::{DeviceReadings, StateReading, survey};

use super::calling::calling;
use super::{Refused, cuda_version};
use gpusetup_database::version::CudaVersion;
use library::{Device, HEAT, Library, NvmlError, POWER_BRAKE, WARMTH};
use serde::{Deserialize, Serialize};

pub(crate) use mig::read as read_mig;
pub use mig::smi;
pub use mig::{MigGpu, MigHost, MigInstance, MigMode, MigPlace, MigProfileInfo};

/// NVML's report.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct Nvml {
    /// The version of the loaded driver.
    pub driver: Option<String>,
    /// The version of the library itself.
    pub library: Option<String>,
    /// The newest CUDA that the driver supports natively.
    pub cuda: Option<CudaVersion>,
    /// The number of GPUs that the driver is configured to exclude.
    pub excluded: u32,
    /// Whether GPUs in confidential-computing mode accept work. None if there are no such GPUs.
    pub accepts_work: Option<bool>,
    /// Why NVML cannot report on the GPUs.
    pub refused: Option<Refused>,
    /// The GPUs, in NVML's order.
    pub gpus: Vec<NvmlGpu>,
    /// The connection between GPUs, each pair once.
    pub ways: Vec<Way>,
}

/// NVML's report on a GPU.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct NvmlGpu {
    /// Bus address, `0000:17:00.0`. None if the GPU does not report even that.
    #[cfg_attr(
        feature = "schemas",
        schemars(regex(pattern = r"^[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}[.][0-9a-f]$"))
    )]
    pub address: Option<String>,
    /// The name of the GPU.
    pub name: Option<String>,
    /// The fault because of which it does not respond.
    pub refused: Option<Refused>,
    /// Persistence mode: the driver keeps it initialised when it is not in use.
    pub persistence: Option<bool>,
    /// A display is attached or active.
    pub display: Option<bool>,
    /// The compute mode.
    pub compute_mode: Option<ComputeMode>,
    /// How many processes compute on it.
    pub processes: Option<usize>,
    /// Its MIG mode and instances.
    pub mig: Option<Mig>,
    /// Its memory's error correction.
    pub ecc: Option<Ecc>,
    /// Rows of its memory that spare rows replace.
    pub remapped_rows: Option<RemappedRows>,
    /// Pages of its memory that are no longer used, on GPUs that do not remap rows.
    pub retired_pages: Option<RetiredPages>,
    /// The recovery action that the driver requests.
    pub recovery: Option<Recovery>,
    /// The reasons why it is throttled.
    pub slowdown: Vec<Slowdown>,
    /// The temperature of the chip, in degrees Celsius.
    pub temperature: Option<u32>,
    /// Its power draw, in milliwatts.
    pub power: Option<Power>,
    /// Its state in an NVLink fabric.
    pub fabric: Option<Fabric>,
    /// How many NVLinks are up and down.
    pub nvlinks: Option<Links>,
}

/// The compute mode: which processes a GPU accepts.
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

/// A GPU's MIG mode and instances.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct Mig {
    /// MIG is on.
    pub enabled: bool,
    /// MIG will be on after the next reset.
    pub pending: bool,
    /// The number of MIG instances.
    pub instances: u32,
}

/// Error correction of a GPU's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct Ecc {
    /// Error correction is on.
    pub enabled: bool,
    /// It will be on after the next reset.
    pub pending: bool,
    /// Uncorrectable errors since the driver was loaded.
    pub uncorrected: Option<u64>,
    /// Uncorrectable errors in the lifetime of the GPU.
    pub uncorrected_ever: Option<u64>,
}

/// Rows of memory that spare rows replace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct RemappedRows {
    /// Rows remapped for correctable errors.
    pub corrected: u32,
    /// Rows remapped for uncorrectable errors.
    pub uncorrected: u32,
    /// More rows will be remapped after the next reset.
    pub pending: bool,
    /// A row could not be remapped: no spare row was left.
    pub failed: bool,
}

/// Pages of memory that are no longer used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct RetiredPages {
    /// Pages retired for several single-bit errors.
    pub single_bit: usize,
    /// Pages retired for a double-bit error.
    pub double_bit: usize,
    /// More pages will be retired when the driver is loaded again.
    pub pending: bool,
}

/// The recovery action that the driver requests for a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Recovery {
    /// No action.
    None,
    /// Reset the GPU.
    Reset,
    /// Reboot the host.
    Reboot,
    /// Stop peer-to-peer work with other GPUs, then reset it.
    DrainP2p,
    /// Give it no new work, and reset it when it is idle.
    DrainAndReset,
}

/// A reason for throttling that indicates a problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Slowdown {
    /// It is too hot for its hardware.
    Heat,
    /// The GPU or its memory is above its target temperature.
    Warmth,
    /// The power supply requests it (power brake).
    PowerBrake,
}

/// A GPU's power draw, in milliwatts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct Power {
    /// Milliwatts drawn now.
    pub draw: u32,
    /// The power limit in milliwatts.
    pub limit: u32,
}

/// A GPU's state in an NVLink fabric.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct Fabric {
    /// The state of its registration.
    pub state: FabricState,
    /// NVML's error code; 0 is success. Valid only in state `Completed`.
    pub status: u32,
}

/// The state of a GPU's registration in its fabric.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum FabricState {
    /// The registration has not started.
    NotStarted,
    /// The registration is in progress.
    InProgress,
    /// The registration succeeded or failed.
    Completed,
}

/// A GPU's NVLinks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct Links {
    /// NVLinks that are up.
    pub(crate) active: u32,
    /// NVLinks that are down or not connected.
    pub(crate) inactive: u32,
}

/// The connection between two GPUs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct Way {
    /// One GPU, by its index in the list of GPUs.
    pub from: u32,
    /// The other GPU, by its index in the list.
    pub to: u32,
    /// The connection: `board`, `switch`, `switches`, `host-bridge`, `node`, `system`.
    #[cfg_attr(feature = "schemas", schemars(extend("enum" = ["board", "switch", "switches", "host-bridge", "node", "system"])))]
    pub over: String,
}

impl NvmlGpu {
    /// Whether a change of the MIG mode waits for a reset.
    pub fn awaits_reset(&self) -> bool {
        self.mig.is_some_and(|m| m.enabled != m.pending)
    }

    /// Its name in a sentence: the bus address, or a fallback.
    pub fn shown(&self) -> &str {
        self.address.as_deref().unwrap_or("without an address")
    }
}

/// Asks the library with this path or name. Never fails: a refused call is part of the answer.
pub(crate) fn answer(library: &str) -> Nvml {
    let nvml = match opened(library) {
        Ok(nvml) => nvml,
        Err(refused) => {
            return Nvml {
                refused: Some(refused),
                ..Nvml::default()
            };
        }
    };
    let mut told = Nvml {
        driver: asked("nvmlSystemGetDriverVersion", || nvml.driver()).ok(),
        library: asked("nvmlSystemGetNVMLVersion", || nvml.version()).ok(),
        cuda: asked("nvmlSystemGetCudaDriverVersion_v2", || nvml.cuda())
            .ok()
            .and_then(cuda_version),
        excluded: asked("nvmlGetExcludedDeviceCount", || nvml.excluded()).unwrap_or(0),
        ..Nvml::default()
    };
    let count = match asked("nvmlDeviceGetCount_v2", || nvml.count()) {
        Ok(count) => count,
        Err(refused) => {
            return Nvml {
                refused: Some(refused),
                ..told
            };
        }
    };
    let devices: Vec<_> = (0..count)
        .map(|i| asked("nvmlDeviceGetHandleByIndex_v2", || nvml.device(i)))
        .collect();
    told.accepts_work = devices
        .iter()
        .flatten()
        .next()
        .and_then(|_| accepts_work(&nvml));
    for device in &devices {
        told.gpus.push(match device {
            Ok(device) => gpu(device),
            Err(refused) => NvmlGpu {
                refused: Some(refused.clone()),
                ..NvmlGpu::default()
            },
        });
    }
    told.ways = ways(&devices);
    told
}

fn opened(library: &str) -> Result<Library, Refused> {
    asked("nvmlInit_v2", || Library::open(library))
}

/// The connections between GPUs, each pair once.
fn ways(devices: &[Result<Device<'_>, Refused>]) -> Vec<Way> {
    let mut ways = Vec::new();
    for (to, device) in (0..).zip(devices) {
        for (from, other) in (0..to).zip(devices) {
            if let (Ok(device), Ok(other)) = (device, other) {
                ways.extend(way(other, device).map(|over| Way {
                    from,
                    to,
                    over: over.to_owned(),
                }));
            }
        }
    }
    ways
}

/// Reported for all GPUs together; irrelevant if there are none.
fn accepts_work(nvml: &Library) -> Option<bool> {
    asked("nvmlSystemGetConfComputeSettings", || {
        nvml.is_confidential()
    })
    .ok()
    .filter(|is_on| *is_on)?;
    asked("nvmlSystemGetConfComputeGpusReadyState", || {
        nvml.accepts_work()
    })
    .ok()
}

fn asked<T>(function: &str, ask: impl FnOnce() -> Result<T, NvmlError>) -> Result<T, Refused> {
    calling(function);
    ask().map_err(|e| refused(function, &e))
}

fn refused(call: &str, e: &NvmlError) -> Refused {
    // A missing or wrong library has no error code.
    let code = e.code().and_then(|code| i32::try_from(code).ok());
    Refused {
        call: call.to_owned(),
        code,
        says: e.to_string(),
    }
}

/// Asks one GPU, and remembers the first answer that reports a fault.
struct Questions<'a> {
    device: &'a Device<'a>,
    fault: Option<Refused>,
}

impl<'a> Questions<'a> {
    /// None if the GPU or this driver does not support it.
    fn ask<T>(
        &mut self,
        function: &str,
        ask: impl FnOnce(&'a Device<'a>) -> Result<T, NvmlError>,
    ) -> Option<T> {
        asked(function, || ask(self.device))
            .map_err(|refused| {
                if is_fault(&refused) {
                    self.fault.get_or_insert(refused);
                }
            })
            .ok()
    }
}

/// The error codes for missing power, missing interrupts, a damaged infoROM, a lost GPU, a required
/// reset, and a library of another driver:
/// <https://docs.nvidia.com/deploy/nvml-api/group__nvmlDeviceEnumvs.html>.
fn is_fault(refused: &Refused) -> bool {
    matches!(refused.code, Some(8 | 11 | 14 | 15 | 16 | 18))
}

fn gpu(device: &Device) -> NvmlGpu {
    let mut q = Questions {
        device,
        fault: None,
    };
    let mut told = NvmlGpu {
        address: q.ask("nvmlDeviceGetPciInfo_v3", Device::address),
        name: q.ask("nvmlDeviceGetName", Device::name),
        persistence: q.ask("nvmlDeviceGetPersistenceMode", Device::is_persistent),
        display: display(&mut q),
        compute_mode: q
            .ask("nvmlDeviceGetComputeMode", Device::compute_mode)
            .and_then(compute_mode),
        processes: q.ask("nvmlDeviceGetComputeRunningProcesses_v3", Device::processes),
        mig: mig(&mut q),
        ecc: ecc(&mut q),
        remapped_rows: q.ask("nvmlDeviceGetRemappedRows", remapped_rows),
        retired_pages: retired_pages(&mut q),
        recovery: q.ask("nvmlDeviceGetFieldValues", recovery).flatten(),
        slowdown: q
            .ask(
                "nvmlDeviceGetCurrentClocksThrottleReasons",
                Device::slowdown,
            )
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
    active
        .into_iter()
        .chain(attached)
        .reduce(|one, other| one || other)
}

fn compute_mode(mode: u32) -> Option<ComputeMode> {
    match mode {
        0 => Some(ComputeMode::Default),
        // The modes for a thread, as in old drivers, and for a process.
        1 | 3 => Some(ComputeMode::Exclusive),
        2 => Some(ComputeMode::Prohibited),
        _ => None,
    }
}

fn mig(q: &mut Questions) -> Option<Mig> {
    let (enabled, pending) = q.ask("nvmlDeviceGetMigMode", Device::mig)?;
    let most = q
        .ask("nvmlDeviceGetMaxMigDeviceCount", Device::most_instances)
        .unwrap_or(0);
    let instances = (0..most)
        .filter(|i| {
            asked("nvmlDeviceGetMigDeviceHandleByIndex", || {
                q.device.instance(*i)
            })
            .is_ok()
        })
        .map(|_| 1)
        .sum();
    Some(Mig {
        enabled,
        pending,
        instances,
    })
}

fn ecc(q: &mut Questions) -> Option<Ecc> {
    let (enabled, pending) = q.ask("nvmlDeviceGetEccMode", Device::ecc)?;
    let mut count = |ever| q.ask("nvmlDeviceGetTotalEccErrors", |d| d.uncorrected(ever));
    Some(Ecc {
        enabled,
        pending,
        uncorrected: count(false),
        uncorrected_ever: count(true),
    })
}

fn remapped_rows(device: &Device) -> Result<RemappedRows, NvmlError> {
    let [corrected, uncorrected, pending, failed] = device.remapped_rows()?;
    Ok(RemappedRows {
        corrected,
        uncorrected,
        pending: pending != 0,
        failed: failed != 0,
    })
}

fn retired_pages(q: &mut Questions) -> Option<RetiredPages> {
    let pending = q.ask(
        "nvmlDeviceGetRetiredPagesPendingStatus",
        Device::awaits_retirement,
    )?;
    let [single_bit, double_bit] = [false, true].map(|double| {
        q.ask("nvmlDeviceGetRetiredPages_v2", |d| d.retired_pages(double))
            .unwrap_or(0)
    });
    Some(RetiredPages {
        single_bit,
        double_bit,
        pending,
    })
}

/// <https://docs.nvidia.com/deploy/a100-gpu-mem-error-mgmt/error-recovery-and-response-flags.html>;
/// older drivers lack it.
fn recovery(device: &Device) -> Result<Option<Recovery>, NvmlError> {
    Ok(device.recovery()?.and_then(recovery_of))
}

fn recovery_of(action: u32) -> Option<Recovery> {
    match action {
        0 => Some(Recovery::None),
        1 => Some(Recovery::Reset),
        2 => Some(Recovery::Reboot),
        3 => Some(Recovery::DrainP2p),
        4 => Some(Recovery::DrainAndReset),
        _ => None,
    }
}

/// The hardware's general slowdown is left out: it is also reported while clocks change.
fn slowdown(reasons: u64) -> Vec<Slowdown> {
    let each = [
        (HEAT, Slowdown::Heat),
        (WARMTH, Slowdown::Warmth),
        (POWER_BRAKE, Slowdown::PowerBrake),
    ];
    each.into_iter()
        .filter(|(reason, _)| reasons & reason != 0)
        .map(|(_, slowdown)| slowdown)
        .collect()
}

fn power(q: &mut Questions) -> Option<Power> {
    Some(Power {
        draw: q.ask("nvmlDeviceGetPowerUsage", Device::power)?,
        limit: q.ask("nvmlDeviceGetEnforcedPowerLimit", Device::most_power)?,
    })
}

/// None if the GPU belongs to no fabric.
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

/// Which NVLinks are up, by number. An error if the GPU has none.
fn link_states(device: &Device) -> Result<Vec<bool>, NvmlError> {
    /// More than any GPU has so far; NVML refuses numbers that are too large.
    const MAX_NVLINKS: u32 = 36;
    let first = device.is_linked(0)?;
    Ok([first]
        .into_iter()
        .chain((1..MAX_NVLINKS).map_while(|link| device.is_linked(link).ok()))
        .collect())
}

/// None if the GPU has no NVLinks.
fn nvlinks(device: &Device) -> Result<Option<Links>, NvmlError> {
    let states = link_states(device).unwrap_or_default();
    let active = states
        .iter()
        .filter(|is_active| **is_active)
        .map(|_| 1)
        .sum();
    let inactive = states
        .iter()
        .filter(|is_active| !**is_active)
        .map(|_| 1)
        .sum();
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
