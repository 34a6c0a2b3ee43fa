//! Reads the GPUs from NVML, each once. Calls that take long or disturb a GPU are left out: measuring
//! PCIe throughput (20 ms a call), listing supported clocks, validating the infoROM.

use super::library::{Device, Field, Library, NvmlError, ProcessEntry, Threshold};
use super::table::{
    Absent, Clock, ClockLimit, ClockReadings, EccReading, ErrorCounts, Fabric, FabricState,
    GpuPair, GpuProcess, GpuReading, GpuTable, LinkEnd, MemoryReading, MigDevice, MigReading,
    MigShare, NvLink, PcieLink, PowerReading, ProcessKind, Recovery, RemappedRows, RetiredPages,
    Temperature, TopologyLevel, Utilization, VgpuLicence, Virtualization,
};
use super::{asked, compute_mode, is_fault, opened};
use crate::calling::calling;
use crate::{Refused, cuda_version};
use gpusetup_database::gpu_guide::GpuField;
use gpusetup_database::version::ComputeCapability;
use nvml_wrapper_sys::bindings::field_id::{
    NVML_FI_DEV_GET_GPU_RECOVERY_ACTION, NVML_FI_DEV_MEMORY_TEMP, NVML_FI_DEV_NVLINK_GET_SPEED,
};
use std::collections::BTreeMap;

/// More GPUs than a host has, and more MIG devices than a GPU: a limit in case the library's count
/// is wrong.
const MAX_DEVICE_COUNT: u32 = 64;

/// Asks the library with this path or name. Never fails: a refused call is part of the answer.
pub(crate) fn table(library: &str) -> GpuTable {
    let nvml = match opened(library) {
        Ok(nvml) => nvml,
        Err(refused) => {
            return GpuTable {
                refused: Some(refused),
                ..GpuTable::default()
            };
        }
    };
    let mut table = GpuTable {
        driver: asked("nvmlSystemGetDriverVersion", || nvml.driver()).ok(),
        cuda: asked("nvmlSystemGetCudaDriverVersion_v2", || nvml.cuda())
            .ok()
            .and_then(cuda_version),
        excluded: asked("nvmlGetExcludedDeviceCount", || nvml.excluded()).unwrap_or(0),
        ..GpuTable::default()
    };
    let count = match asked("nvmlDeviceGetCount_v2", || nvml.count()) {
        Ok(count) => count,
        Err(refused) => {
            return GpuTable {
                refused: Some(refused),
                ..table
            };
        }
    };
    let devices: Vec<_> = (0..count.min(MAX_DEVICE_COUNT))
        .map(|i| asked("nvmlDeviceGetHandleByIndex_v2", || nvml.device(i)))
        .collect();
    if devices.iter().any(Result::is_ok) {
        table.confidential_computing = asked("nvmlSystemGetConfComputeSettings", || {
            nvml.is_confidential()
        })
        .ok();
        if table.confidential_computing == Some(true) {
            table.accepts_work = asked("nvmlSystemGetConfComputeGpusReadyState", || {
                nvml.accepts_work()
            })
            .ok();
        }
    }
    let mut names = ProcessNames {
        library: &nvml,
        known: BTreeMap::new(),
    };
    table.gpus = devices
        .iter()
        .map(|device| match device {
            Ok(device) => gpu(device, &mut names),
            Err(refused) => GpuReading {
                refused: Some(refused.clone()),
                ..GpuReading::default()
            },
        })
        .collect();
    table.ways = pairs(&devices);
    table
}

/// The names of processes. One that uses several GPUs is asked for once.
struct ProcessNames<'a> {
    library: &'a Library,
    known: BTreeMap<u32, Option<String>>,
}

impl ProcessNames<'_> {
    fn of(&mut self, pid: u32) -> Option<String> {
        let known = self.known.entry(pid);
        let name = known.or_insert_with(|| {
            asked("nvmlSystemGetProcessName", || {
                self.library.process_name(pid)
            })
            .ok()
        });
        name.clone().filter(|name| !name.is_empty())
    }
}

/// Asks one GPU. Once a fault was reported, nothing more is asked: each call to a lost GPU takes
/// until its time-out.
struct Questions<'a> {
    device: &'a Device<'a>,
    fault: Option<Refused>,
    absent: Vec<Absent>,
}

impl<'a> Questions<'a> {
    /// None if the GPU or this driver does not report the field.
    fn ask<T>(
        &mut self,
        field: GpuField,
        function: &str,
        ask: impl FnOnce(&'a Device<'a>) -> Result<T, NvmlError>,
    ) -> Option<T> {
        if self.fault.is_some() {
            return None;
        }
        match asked(function, || ask(self.device)) {
            Ok(value) => Some(value),
            Err(refused) if is_fault(&refused) => {
                self.fault = Some(refused);
                None
            }
            Err(refused) => {
                if !self.absent.iter().any(|absent| absent.field == field) {
                    self.absent.push(Absent { field, refused });
                }
                None
            }
        }
    }

    /// A detail of a field: that it is missing is not worth a word.
    fn detail<T>(
        &mut self,
        function: &str,
        ask: impl FnOnce(&'a Device<'a>) -> Result<T, NvmlError>,
    ) -> Option<T> {
        if self.fault.is_some() {
            return None;
        }
        asked(function, || ask(self.device))
            .map_err(|refused| self.fault = self.fault.take().or(Some(refused).filter(is_fault)))
            .ok()
    }
}

fn gpu(device: &Device<'_>, names: &mut ProcessNames<'_>) -> GpuReading {
    let q = &mut Questions {
        device,
        fault: None,
        absent: Vec::new(),
    };
    let identity = identity(q);
    let mut reading = GpuReading {
        fan_percent: q.ask(GpuField::Fan, "nvmlDeviceGetFanSpeed", Device::fan),
        power: power(q),
        memory: q.ask(GpuField::Memory, "nvmlDeviceGetMemoryInfo_v2", memory),
        utilization: q.ask(
            GpuField::Utilization,
            "nvmlDeviceGetUtilizationRates",
            utilization,
        ),
        performance_state: q.ask(
            GpuField::PerformanceState,
            "nvmlDeviceGetPerformanceState",
            Device::performance,
        ),
        clocks: clocks(q),
        clock_limits: q
            .ask(
                GpuField::ClockLimits,
                "nvmlDeviceGetCurrentClocksThrottleReasons",
                Device::slowdown,
            )
            .map(clock_limits),
        compute_mode: q
            .ask(
                GpuField::ComputeMode,
                "nvmlDeviceGetComputeMode",
                Device::compute_mode,
            )
            .and_then(compute_mode),
        display_attached: q.ask(
            GpuField::Display,
            "nvmlDeviceGetDisplayMode",
            Device::has_screen,
        ),
        display_active: q.ask(
            GpuField::Display,
            "nvmlDeviceGetDisplayActive",
            Device::is_shown,
        ),
        persistence: q.ask(
            GpuField::Persistence,
            "nvmlDeviceGetPersistenceMode",
            Device::is_persistent,
        ),
        accounting: q.ask(
            GpuField::Accounting,
            "nvmlDeviceGetAccountingMode",
            Device::is_accounting,
        ),
        processes: processes(q, names),
        ecc: ecc(q),
        remapped_rows: q.ask(
            GpuField::RemappedRows,
            "nvmlDeviceGetRemappedRows",
            remapped_rows,
        ),
        retired_pages: retired_pages(q),
        mig: mig(q),
        pcie: pcie(q),
        nvlinks: nvlinks(q),
        fabric: q
            .ask(GpuField::Fabric, "nvmlDeviceGetGpuFabricInfo", fabric)
            .flatten(),
        clique: q
            .detail("nvmlDeviceGetGpuFabricInfo", Device::clique)
            .flatten()
            .map(|(cluster, clique)| clique_id(cluster, clique)),
        virtualization: q
            .ask(
                GpuField::Virtualization,
                "nvmlDeviceGetVirtualizationMode",
                Device::virtualization,
            )
            .and_then(virtualization),
        ..identity
    };
    let fields = fields(q);
    reading.recovery = fields.recovery;
    reading.temperature = temperature(q, fields.memory_celsius);
    if reading.virtualization == Some(Virtualization::Vgpu) {
        reading.licence = q
            .ask(
                GpuField::Licence,
                "nvmlDeviceGetGridLicensableFeatures_v4",
                licence,
            )
            .flatten();
    }
    reading.refused = q.fault.take();
    reading.absent = std::mem::take(&mut q.absent);
    reading
}

/// What never changes; nothing else is filled in.
fn identity(q: &mut Questions<'_>) -> GpuReading {
    GpuReading {
        address: q.ask(
            GpuField::Address,
            "nvmlDeviceGetPciInfo_v3",
            Device::address,
        ),
        name: q.ask(GpuField::Name, "nvmlDeviceGetName", Device::name),
        uuid: q.ask(GpuField::Uuid, "nvmlDeviceGetUUID", Device::uuid),
        minor: q.detail("nvmlDeviceGetMinorNumber", Device::minor),
        compute_capability: q
            .detail("nvmlDeviceGetCudaComputeCapability", Device::capability)
            .and_then(capability),
        serial: q.ask(GpuField::Serial, "nvmlDeviceGetSerial", Device::serial),
        vbios: q.ask(GpuField::Vbios, "nvmlDeviceGetVbiosVersion", Device::vbios),
        inforom: q.ask(
            GpuField::Inforom,
            "nvmlDeviceGetInforomImageVersion",
            Device::inforom,
        ),
        ..GpuReading::default()
    }
}

/// What is asked with one call of `nvmlDeviceGetFieldValues`.
#[derive(Default)]
struct Fields {
    recovery: Option<Recovery>,
    memory_celsius: Option<u32>,
}

fn fields(q: &mut Questions<'_>) -> Fields {
    const WANTED: [u32; 2] = [NVML_FI_DEV_GET_GPU_RECOVERY_ACTION, NVML_FI_DEV_MEMORY_TEMP];
    let wanted = WANTED.map(|id| Field { id, scope: 0 });
    let Some(values) = q.ask(GpuField::Recovery, "nvmlDeviceGetFieldValues", |d| {
        d.fields(&wanted)
    }) else {
        return Fields::default();
    };
    let [recovery, degrees] = [0, 1].map(|n| {
        let value = values.get(n).copied().flatten();
        value.and_then(|value| u32::try_from(value).ok())
    });
    Fields {
        recovery: recovery.and_then(recovery_of),
        // GPUs without such a sensor report 0.
        memory_celsius: degrees.filter(|degrees| *degrees > 0),
    }
}

fn temperature(q: &mut Questions<'_>, memory_celsius: Option<u32>) -> Option<Temperature> {
    let gpu_celsius = q.ask(
        GpuField::Temperature,
        "nvmlDeviceGetTemperature",
        Device::temperature,
    )?;
    let mut threshold = |of| {
        q.detail("nvmlDeviceGetTemperatureThreshold", |d| d.threshold(of))
            .filter(|t| *t > 0)
    };
    Some(Temperature {
        gpu_celsius,
        memory_celsius,
        highest_operating_celsius: threshold(Threshold::Operating),
        highest_memory_celsius: threshold(Threshold::Memory),
        slowdown_celsius: threshold(Threshold::Slowdown),
        shutdown_celsius: threshold(Threshold::Shutdown),
        margin_celsius: q.detail("nvmlDeviceGetMarginTemperature", Device::margin),
    })
}

fn power(q: &mut Questions<'_>) -> Option<PowerReading> {
    let draw_milliwatts = q.ask(GpuField::Power, "nvmlDeviceGetPowerUsage", Device::power)?;
    let range = q.detail(
        "nvmlDeviceGetPowerManagementLimitConstraints",
        Device::power_range,
    );
    Some(PowerReading {
        draw_milliwatts,
        limit_milliwatts: q.detail("nvmlDeviceGetEnforcedPowerLimit", Device::most_power),
        default_limit_milliwatts: q.detail(
            "nvmlDeviceGetPowerManagementDefaultLimit",
            Device::usual_power,
        ),
        lowest_limit_milliwatts: range.map(|(least, _)| least),
        highest_limit_milliwatts: range.map(|(_, most)| most),
    })
}

fn memory(device: &Device<'_>) -> Result<MemoryReading, NvmlError> {
    let (total_bytes, used_bytes, reserved_bytes) = device.memory()?;
    Ok(MemoryReading {
        total_bytes,
        used_bytes,
        reserved_bytes,
    })
}

fn utilization(device: &Device<'_>) -> Result<Utilization, NvmlError> {
    let (gpu_percent, memory_percent) = device.utilization()?;
    Ok(Utilization {
        gpu_percent,
        memory_percent,
    })
}

fn clocks(q: &mut Questions<'_>) -> Option<ClockReadings> {
    let graphics = Clock {
        now_megahertz: q.ask(GpuField::Clocks, "nvmlDeviceGetClockInfo", |d| d.clock(0))?,
        highest_megahertz: highest_clock(q, 0),
    };
    let [sm, memory, video] = [1, 2, 3].map(|kind| {
        let now_megahertz = q.detail("nvmlDeviceGetClockInfo", |d| d.clock(kind))?;
        Some(Clock {
            now_megahertz,
            highest_megahertz: highest_clock(q, kind),
        })
    });
    Some(ClockReadings {
        graphics: Some(graphics),
        sm,
        memory,
        video,
    })
}

fn highest_clock(q: &mut Questions<'_>, kind: u32) -> Option<u32> {
    q.detail("nvmlDeviceGetMaxClockInfo", |d| d.highest_clock(kind))
}

/// <https://docs.nvidia.com/deploy/nvml-api/group__nvmlClocksEventReasons.html>.
fn clock_limits(reasons: u64) -> Vec<ClockLimit> {
    const ALL: [(u64, ClockLimit); 9] = [
        (0x1, ClockLimit::Idle),
        (0x2, ClockLimit::Setting),
        (0x4, ClockLimit::PowerCap),
        (0x8, ClockLimit::HardwareSlowdown),
        (0x10, ClockLimit::SyncBoost),
        (0x20, ClockLimit::SoftwareThermal),
        (0x40, ClockLimit::HardwareThermal),
        (0x80, ClockLimit::PowerBrake),
        (0x100, ClockLimit::Display),
    ];
    ALL.into_iter()
        .filter(|(bit, _)| reasons & bit != 0)
        .map(|(_, limit)| limit)
        .collect()
}

fn processes(q: &mut Questions<'_>, names: &mut ProcessNames<'_>) -> Option<Vec<GpuProcess>> {
    let compute = q.ask(
        GpuField::Processes,
        "nvmlDeviceGetComputeRunningProcesses_v3",
        Device::compute_processes,
    )?;
    let graphics = q
        .detail(
            "nvmlDeviceGetGraphicsRunningProcesses_v3",
            Device::graphics_processes,
        )
        .unwrap_or_default();
    let mut all: Vec<GpuProcess> = Vec::new();
    let each = compute.iter().map(|p| (p, ProcessKind::Compute));
    for (entry, kind) in each.chain(graphics.iter().map(|p| (p, ProcessKind::Graphics))) {
        let one = process(entry, kind, names);
        match all.iter_mut().find(|p| {
            (p.pid, p.gpu_instance, p.compute_instance)
                == (one.pid, one.gpu_instance, one.compute_instance)
        }) {
            Some(known) if known.kind == kind => {}
            Some(known) => known.kind = ProcessKind::ComputeAndGraphics,
            None => all.push(one),
        }
    }
    Some(all)
}

fn process(entry: &ProcessEntry, kind: ProcessKind, names: &mut ProcessNames<'_>) -> GpuProcess {
    let [gpu_instance, compute_instance] = [entry.gpu_instance, entry.compute_instance]
        .map(|id| Some(id).filter(|id| *id != u32::MAX));
    GpuProcess {
        pid: entry.pid,
        name: names.of(entry.pid),
        kind,
        memory_bytes: Some(entry.bytes).filter(|bytes| *bytes != u64::MAX),
        gpu_instance,
        compute_instance,
    }
}

fn ecc(q: &mut Questions<'_>) -> Option<EccReading> {
    let (enabled, pending) = q.ask(GpuField::Ecc, "nvmlDeviceGetEccMode", Device::ecc)?;
    let [volatile, aggregate] = [false, true].map(|ever| {
        if !enabled {
            return ErrorCounts::default();
        }
        let [corrected, uncorrected] = [true, false].map(|corrected| {
            q.detail("nvmlDeviceGetTotalEccErrors", |d| {
                d.memory_errors(corrected, ever)
            })
        });
        ErrorCounts {
            corrected,
            uncorrected,
        }
    });
    Some(EccReading {
        enabled,
        pending,
        volatile,
        aggregate,
    })
}

fn retired_pages(q: &mut Questions<'_>) -> Option<RetiredPages> {
    let ask = "nvmlDeviceGetRetiredPagesPendingStatus";
    let pending = q.ask(GpuField::RetiredPages, ask, Device::awaits_retirement)?;
    let [single_bit, double_bit] = [false, true].map(|double| {
        q.detail("nvmlDeviceGetRetiredPages_v2", |d| d.retired_pages(double))
            .unwrap_or(0)
    });
    Some(RetiredPages {
        single_bit,
        double_bit,
        pending,
    })
}

fn mig(q: &mut Questions<'_>) -> Option<MigReading> {
    let (enabled, pending) = q.ask(GpuField::Mig, "nvmlDeviceGetMigMode", Device::mig)?;
    let most = if enabled {
        q.detail("nvmlDeviceGetMaxMigDeviceCount", Device::most_instances)
    } else {
        None
    };
    let devices = (0..most.unwrap_or(0).min(MAX_DEVICE_COUNT))
        .filter_map(|i| {
            asked("nvmlDeviceGetMigDeviceHandleByIndex", || {
                q.device.mig_device(i)
            })
            .ok()
        })
        .map(|device| mig_device(&device))
        .collect();
    Some(MigReading {
        enabled,
        pending,
        devices,
    })
}

fn mig_device(device: &Device<'_>) -> MigDevice {
    let ids = asked("nvmlDeviceGetGpuInstanceId", || device.instance_ids()).ok();
    MigDevice {
        name: asked("nvmlDeviceGetName", || device.name()).ok(),
        uuid: asked("nvmlDeviceGetUUID", || device.uuid()).ok(),
        gpu_instance: ids.map(|(instance, _)| instance),
        compute_instance: ids.map(|(_, instance)| instance),
        memory: asked("nvmlDeviceGetMemoryInfo_v2", || memory(device)).ok(),
        share: asked("nvmlDeviceGetAttributes_v2", || device.attributes())
            .ok()
            .map(|all| MigShare {
                memory_mebibytes: all.memorySizeMB,
                multiprocessors: all.multiprocessorCount,
                gpu_slices: all.gpuInstanceSliceCount,
                compute_slices: all.computeInstanceSliceCount,
                copy_engines: all.sharedCopyEngineCount,
                decoders: all.sharedDecoderCount,
                encoders: all.sharedEncoderCount,
                jpeg_decoders: all.sharedJpegCount,
                optical_flow: all.sharedOfaCount,
            }),
    }
}

fn capability((major, minor): (i32, i32)) -> Option<ComputeCapability> {
    format!("{major}.{minor}").parse().ok()
}

/// `7b968a6d-c8aa-45e1-9e07-e1e51be99c31.1`.
fn clique_id(cluster: [u8; 16], clique: u32) -> String {
    let mut text = String::new();
    for (index, byte) in cluster.iter().enumerate() {
        // Hyphens stand before these bytes of a UUID.
        if [4, 6, 8, 10].contains(&index) {
            text.push('-');
        }
        text += &format!("{byte:02x}");
    }
    format!("{text}.{clique}")
}

fn pcie(q: &mut Questions<'_>) -> Option<PcieLink> {
    let (generation, width) = q.ask(
        GpuField::Pcie,
        "nvmlDeviceGetCurrPcieLinkGeneration",
        Device::pcie,
    )?;
    let highest = q.detail("nvmlDeviceGetMaxPcieLinkGeneration", Device::highest_pcie);
    Some(PcieLink {
        generation,
        width,
        highest_generation: highest.map(|(generation, _)| generation),
        highest_width: highest.map(|(_, width)| width),
        replays: q.detail("nvmlDeviceGetPcieReplayCounter", Device::pcie_replays),
    })
}

/// None if the GPU has no NVLinks.
fn nvlinks(q: &mut Questions<'_>) -> Option<Vec<NvLink>> {
    let states = q.ask(GpuField::NvLinks, "nvmlDeviceGetNvLinkState", link_states)?;
    let count = u32::try_from(states.len()).unwrap_or(0);
    let wanted: Vec<_> = (0..count)
        .map(|link| Field {
            id: NVML_FI_DEV_NVLINK_GET_SPEED,
            scope: link,
        })
        .collect();
    let speeds = q
        .detail("nvmlDeviceGetFieldValues", |d| d.fields(&wanted))
        .unwrap_or_default();
    Some(
        (0..)
            .zip(states)
            .map(|(link, active)| {
                let (kind, address) = match active {
                    true => {
                        calling("nvmlDeviceGetNvLinkRemoteDeviceType");
                        let (kind, address) = q.device.link_end(link);
                        (kind.ok().and_then(link_end), address.ok())
                    }
                    false => (None, None),
                };
                let megabytes_per_second = speeds
                    .get(link as usize)
                    .copied()
                    .flatten()
                    .filter(|speed| active && *speed > 0);
                NvLink {
                    link,
                    active,
                    megabytes_per_second,
                    leads_to: kind,
                    address,
                }
            })
            .collect(),
    )
}

fn link_end(kind: u32) -> Option<LinkEnd> {
    match kind {
        0 => Some(LinkEnd::Gpu),
        1 => Some(LinkEnd::Processor),
        2 => Some(LinkEnd::Switch),
        _ => None,
    }
}

fn virtualization(mode: u32) -> Option<Virtualization> {
    match mode {
        0 => Some(Virtualization::None),
        1 => Some(Virtualization::Passthrough),
        2 => Some(Virtualization::Vgpu),
        3 => Some(Virtualization::HostVgpu),
        4 => Some(Virtualization::HostVsga),
        _ => None,
    }
}

fn licence(device: &Device<'_>) -> Result<Option<VgpuLicence>, NvmlError> {
    Ok(device.licence()?.map(|licence| VgpuLicence {
        product: licence.product,
        licensed: licence.is_licensed,
        ends: licence
            .ends
            .map(|(year, month, day)| format!("{year:04}-{month:02}-{day:02}")),
    }))
}

/// The connections between GPUs, each pair once.
fn pairs(devices: &[Result<Device<'_>, Refused>]) -> Vec<GpuPair> {
    let mut pairs = Vec::new();
    for (to, device) in (0..).zip(devices) {
        for (from, other) in (0..to).zip(devices) {
            if let (Ok(device), Ok(other)) = (device, other) {
                let level = topology_level(other, device);
                pairs.extend(level.map(|over| GpuPair { from, to, over }));
            }
        }
    }
    pairs
}

/// <https://docs.nvidia.com/deploy/nvml-api/group__nvmlDeviceEnumvs.html>,
/// `nvmlGpuTopologyLevel_t`.
fn topology_level(from: &Device, to: &Device) -> Option<TopologyLevel> {
    calling("nvmlDeviceGetTopologyCommonAncestor");
    match from.common_ancestor(to).ok()? {
        0 => Some(TopologyLevel::Board),
        10 => Some(TopologyLevel::Switch),
        20 => Some(TopologyLevel::Switches),
        30 => Some(TopologyLevel::HostBridge),
        40 => Some(TopologyLevel::Node),
        50 => Some(TopologyLevel::System),
        _ => None,
    }
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

/// <https://docs.nvidia.com/deploy/a100-gpu-mem-error-mgmt/error-recovery-and-response-flags.html>;
/// older drivers lack it.
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
