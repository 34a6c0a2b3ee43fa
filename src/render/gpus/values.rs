//! The values of fields as texts.

use crate::gpu_guide::GpuField;
use crate::nvidia::{
    ClockLimit, ClockReadings, ComputeMode, EccReading, ErrorCounts, Fabric, FabricState,
    GpuReading, MemoryReading, MigReading, NvLink, PcieLink, PowerReading, Recovery, Refused,
    Temperature, VgpuLicence, Virtualization, codes,
};
use crate::text::count;

/// A value, or what stands for none.
pub(crate) fn or_nothing(value: Option<String>) -> String {
    value.unwrap_or_else(|| "-".to_owned())
}

/// `on` or `off`.
fn on(is_on: bool) -> &'static str {
    if is_on { "on" } else { "off" }
}

/// The name without the maker's.
pub(crate) fn short_name(name: &str) -> String {
    name.strip_prefix("NVIDIA ").unwrap_or(name).to_owned()
}

fn watts(milliwatts: u32) -> u32 {
    milliwatts / 1000
}

/// `43/400 W`.
pub(crate) fn short_power(power: PowerReading) -> String {
    match power.limit_milliwatts {
        Some(limit) => format!("{}/{} W", watts(power.draw_milliwatts), watts(limit)),
        None => format!("{} W", watts(power.draw_milliwatts)),
    }
}

const MEBIBYTE: u64 = 1 << 20;
const GIBIBYTE: u64 = 1 << 30;

/// `512 MiB`.
pub(crate) fn mebibytes(bytes: u64) -> String {
    format!("{} MiB", bytes / MEBIBYTE)
}

fn gibibytes(bytes: u64) -> String {
    format!("{:.1}", bytes as f64 / GIBIBYTE as f64)
}

/// `0.4/40.0 GiB`.
pub(crate) fn short_memory(memory: MemoryReading) -> String {
    format!(
        "{}/{} GiB",
        gibibytes(memory.used_bytes),
        gibibytes(memory.total_bytes)
    )
}

/// `P0`.
pub(crate) fn state(number: u32) -> String {
    // NVML's number for a state that is not known.
    if number >= 32 {
        "unknown".to_owned()
    } else {
        format!("P{number}")
    }
}

/// The uncorrected errors since the driver was loaded, or `off`.
pub(crate) fn short_ecc(ecc: EccReading) -> String {
    if ecc.enabled {
        or_nothing(ecc.volatile.uncorrected.map(|count| count.to_string()))
    } else {
        "off".to_owned()
    }
}

/// `off`, or `on, 7`.
pub(crate) fn short_mig(mig: &MigReading) -> String {
    if mig.enabled {
        format!("on, {}", mig.devices.len())
    } else {
        "off".to_owned()
    }
}

pub(crate) fn compute_mode(mode: ComputeMode) -> &'static str {
    match mode {
        ComputeMode::Default => "default",
        ComputeMode::Exclusive => "exclusive",
        ComputeMode::Prohibited => "prohibited",
    }
}

/// `no`, `attached`, `active`.
pub(crate) fn display(gpu: &GpuReading) -> Option<String> {
    let word = match (gpu.display_attached, gpu.display_active) {
        (None, None) => return None,
        (_, Some(true)) => "active",
        (Some(true), _) => "attached",
        _ => "no",
    };
    Some(word.to_owned())
}

/// Why a field has no value.
pub(crate) fn why_absent(refused: &Refused) -> String {
    match refused.code {
        // Functions for one of several things (links) call it an invalid argument.
        Some(codes::INVALID_ARGUMENT | codes::NOT_SUPPORTED) => {
            "this GPU does not support it".to_owned()
        }
        Some(codes::NO_PERMISSION) => "this user may not see it".to_owned(),
        Some(codes::NO_FUNCTION) => "this driver is too old to report it".to_owned(),
        Some(codes::NO_DATA) => "there is no data".to_owned(),
        // The library has no such function.
        None if refused.says.contains("symbol") => "this driver is too old to report it".to_owned(),
        _ => refused.to_string(),
    }
}

/// The whole value of a field. None if the GPU does not report it, or if other lines show it.
pub(crate) fn of(gpu: &GpuReading, field: GpuField) -> Option<String> {
    match field {
        GpuField::Response => gpu.refused.as_ref().map(ToString::to_string),
        GpuField::Name => gpu.name.clone(),
        GpuField::Address => gpu.address.clone(),
        GpuField::Uuid => gpu.uuid.clone(),
        GpuField::Serial => gpu.serial.clone(),
        GpuField::Vbios => gpu.vbios.clone(),
        GpuField::Inforom => gpu.inforom.clone(),
        GpuField::Temperature => gpu.temperature.as_ref().map(temperature),
        GpuField::Fan => gpu.fan_percent.map(|percent| format!("{percent} %")),
        GpuField::Power => gpu.power.map(power),
        GpuField::Memory => gpu.memory.map(memory),
        GpuField::Utilization => {
            gpu.utilization.map(|u| format!("GPU {} %, memory {} %", u.gpu_percent, u.memory_percent))
        }
        GpuField::PerformanceState => gpu.performance_state.map(state),
        GpuField::Clocks => gpu.clocks.as_ref().map(clocks),
        GpuField::ClockLimits => gpu.clock_limits.as_deref().map(clock_limits),
        GpuField::ComputeMode => gpu.compute_mode.map(|mode| compute_mode(mode).to_owned()),
        GpuField::Display => display(gpu),
        GpuField::Persistence => gpu.persistence.map(|is_on| on(is_on).to_owned()),
        GpuField::Accounting => gpu.accounting.map(|is_on| on(is_on).to_owned()),
        GpuField::Processes => gpu.processes.as_ref().map(|all| all.len().to_string()),
        GpuField::Ecc => gpu.ecc.map(ecc),
        GpuField::RemappedRows => gpu.remapped_rows.map(|rows| {
            let pending = if rows.pending { ", more at the next reset" } else { "" };
            let failed = if rows.failed { ", one could not be remapped" } else { "" };
            let (corrected, uncorrected) = (rows.corrected, rows.uncorrected);
            format!("{corrected} for corrected errors, {uncorrected} for uncorrected errors{pending}{failed}")
        }),
        GpuField::RetiredPages => gpu.retired_pages.map(|pages| {
            let pending = if pages.pending { ", more when the driver is loaded again" } else { "" };
            format!("{} for single-bit errors, {} for double-bit errors{pending}", pages.single_bit, pages.double_bit)
        }),
        GpuField::Mig => gpu.mig.as_ref().map(mig),
        GpuField::Pcie => gpu.pcie.map(pcie),
        GpuField::NvLinks => gpu.nvlinks.as_deref().map(nvlinks),
        GpuField::Fabric => gpu.fabric.map(fabric),
        GpuField::Recovery => gpu.recovery.map(|action| recovery(action).to_owned()),
        GpuField::Virtualization => gpu.virtualization.map(|mode| virtualization(mode).to_owned()),
        GpuField::Licence => gpu.licence.as_ref().map(licence),
        // The head of the table and the matrix tell them.
        GpuField::ConfidentialComputing | GpuField::Topology => None,
    }
}

fn temperature(t: &Temperature) -> String {
    let own = [
        degrees("", Some(t.gpu_celsius)),
        degrees("memory ", t.memory_celsius),
        t.margin_celsius.map(|margin| format!("margin {margin} C")),
        degrees("highest in operation ", t.highest_operating_celsius),
        degrees("highest of memory ", t.highest_memory_celsius),
        degrees("slowdown ", t.slowdown_celsius),
        degrees("shutdown ", t.shutdown_celsius),
    ];
    own.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn degrees(label: &str, value: Option<u32>) -> Option<String> {
    value.map(|value| format!("{label}{value} C"))
}

fn power(power: PowerReading) -> String {
    let of = |label: &str, value: Option<u32>| {
        value.map(|value| format!(", {label} {} W", watts(value)))
    };
    let range = power
        .lowest_limit_milliwatts
        .zip(power.highest_limit_milliwatts);
    let range = range
        .map(|(least, most)| format!(", can be set from {} to {} W", watts(least), watts(most)));
    let parts = [
        of("limit", power.limit_milliwatts),
        of("default", power.default_limit_milliwatts),
        range,
    ];
    format!(
        "{} W{}",
        watts(power.draw_milliwatts),
        parts.into_iter().flatten().collect::<String>()
    )
}

fn memory(memory: MemoryReading) -> String {
    let reserved = memory
        .reserved_bytes
        .map(|bytes| format!(", {} reserved", mebibytes(bytes)))
        .unwrap_or_default();
    format!(
        "{} of {} used{reserved}",
        mebibytes(memory.used_bytes),
        mebibytes(memory.total_bytes)
    )
}

fn clocks(clocks: &ClockReadings) -> String {
    let all = [
        ("graphics", clocks.graphics),
        ("SM", clocks.sm),
        ("memory", clocks.memory),
        ("video", clocks.video),
    ];
    let known = all.into_iter().filter_map(|(label, clock)| {
        let clock = clock?;
        let highest = clock
            .highest_megahertz
            .map(|highest| format!(" of {highest}"))
            .unwrap_or_default();
        Some(format!("{label} {}{highest} MHz", clock.now_megahertz))
    });
    known.collect::<Vec<_>>().join(", ")
}

fn clock_limits(limits: &[ClockLimit]) -> String {
    if limits.is_empty() {
        return "nothing".to_owned();
    }
    limits
        .iter()
        .map(|limit| match limit {
            ClockLimit::Idle => "nothing runs",
            ClockLimit::Setting => "clocks that were set",
            ClockLimit::PowerCap => "the power limit",
            ClockLimit::HardwareSlowdown => "the hardware",
            ClockLimit::SyncBoost => "other GPUs of its group",
            ClockLimit::SoftwareThermal => "heat (driver)",
            ClockLimit::HardwareThermal => "heat (hardware)",
            ClockLimit::PowerBrake => "the power supply",
            ClockLimit::Display => "a display",
        })
        .collect::<Vec<_>>()
        .join(", ")
}

fn ecc(ecc: EccReading) -> String {
    let pending = if ecc.pending == ecc.enabled {
        String::new()
    } else {
        format!(", {} after a reboot", on(ecc.pending))
    };
    format!(
        "{}{pending}{}{}",
        on(ecc.enabled),
        error_counts("volatile", ecc.volatile),
        error_counts("aggregate", ecc.aggregate)
    )
}

fn error_counts(label: &str, counts: ErrorCounts) -> String {
    let (corrected, uncorrected) = (counts.corrected, counts.uncorrected);
    let parts = [("corrected", corrected), ("uncorrected", uncorrected)];
    let known: Vec<_> = parts
        .iter()
        .filter_map(|(word, count)| Some(format!("{} {word}", (*count)?)))
        .collect();
    if known.is_empty() {
        String::new()
    } else {
        format!("; {label}: {}", known.join(", "))
    }
}

fn mig(mig: &MigReading) -> String {
    let pending = if mig.pending == mig.enabled {
        String::new()
    } else {
        format!(", {} after a reset", on(mig.pending))
    };
    let devices: Vec<_> = mig
        .devices
        .iter()
        .map(|device| {
            let ids = device.gpu_instance.zip(device.compute_instance);
            let ids = ids
                .map(|(gpu, compute)| format!(" (GPU instance {gpu}, compute instance {compute})"));
            let name = device.name.as_deref().unwrap_or("MIG device");
            // The name of the GPU stands before that of the profile.
            let profile = name
                .rsplit_once("MIG ")
                .map_or(name, |(_, profile)| profile);
            let used = device.memory.map(|m| {
                format!(
                    ", {} of {} used",
                    mebibytes(m.used_bytes),
                    mebibytes(m.total_bytes)
                )
            });
            format!(
                "{profile}{}{}",
                ids.unwrap_or_default(),
                used.unwrap_or_default()
            )
        })
        .collect();
    let devices = if devices.is_empty() {
        String::new()
    } else {
        format!(": {}", devices.join("; "))
    };
    format!("{}{pending}{devices}", on(mig.enabled))
}

fn pcie(link: PcieLink) -> String {
    let highest = link.highest_generation.zip(link.highest_width);
    let highest = highest
        .map(|(generation, width)| format!(" (at most {generation} x{width})"))
        .unwrap_or_default();
    let replays = link
        .replays
        .map(|n| format!(", {}", count(n.into(), "replay")))
        .unwrap_or_default();
    format!(
        "generation {} x{}{highest}{replays}",
        link.generation, link.width
    )
}

fn nvlinks(links: &[NvLink]) -> String {
    let up: Vec<_> = links.iter().filter(|link| link.active).collect();
    let mut speeds: Vec<_> = up
        .iter()
        .filter_map(|link| link.megabytes_per_second)
        .collect();
    speeds.sort_unstable();
    speeds.dedup();
    let speed = match speeds.as_slice() {
        [] => String::new(),
        [one] => format!(", {one} MB/s each"),
        [slowest, .., fastest] => format!(", {slowest} to {fastest} MB/s"),
    };
    let down = links
        .iter()
        .filter(|link| !link.active)
        .map(|link| link.link.to_string());
    let down: Vec<_> = down.collect();
    let down = if down.is_empty() || up.is_empty() {
        String::new()
    } else {
        format!("; down: {}", down.join(", "))
    };
    format!("{} of {} up{speed}{down}", up.len(), links.len())
}

fn fabric(fabric: Fabric) -> String {
    match (fabric.state, fabric.status) {
        (FabricState::NotStarted, _) => "not started".to_owned(),
        (FabricState::InProgress, _) => "in progress".to_owned(),
        (FabricState::Completed, 0) => "completed".to_owned(),
        (FabricState::Completed, status) => format!("failed (NVML error {status})"),
    }
}

fn recovery(action: Recovery) -> &'static str {
    match action {
        Recovery::None => "none",
        Recovery::Reset => "reset the GPU",
        Recovery::Reboot => "reboot the host",
        Recovery::DrainP2p => "stop peer-to-peer work, then reset",
        Recovery::DrainAndReset => "no new work, then reset",
    }
}

fn virtualization(mode: Virtualization) -> &'static str {
    match mode {
        Virtualization::None => "none",
        Virtualization::Passthrough => "passthrough to this virtual machine",
        Virtualization::Vgpu => "vGPU guest",
        Virtualization::HostVgpu => "vGPU host",
        Virtualization::HostVsga => "vSGA host",
    }
}

fn licence(licence: &VgpuLicence) -> String {
    let ends = licence
        .ends
        .as_ref()
        .map(|day| format!(" until {day}"))
        .unwrap_or_default();
    format!(
        "{}: {}{ends}",
        licence.product,
        if licence.licensed {
            "licensed"
        } else {
            "not licensed"
        }
    )
}
