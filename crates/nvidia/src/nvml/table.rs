//! What NVML reports on the driver and on each GPU. Every quantity has its unit in its name. Features
//! that a GPU lacks are left out; a GPU that does not respond has the library's reason.

use crate::Refused;
use gpusetup_database::gpu_guide::GpuField;
use gpusetup_database::version::{ComputeCapability, CudaVersion};
use serde::{Deserialize, Serialize};

/// NVML's report.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct GpuTable {
    /// The version of the loaded driver.
    pub driver: Option<String>,
    /// The newest CUDA that the driver supports natively.
    pub cuda: Option<CudaVersion>,
    /// The number of GPUs that the driver is configured to exclude.
    pub excluded: u32,
    /// Confidential computing is on. None if the driver does not know it.
    pub confidential_computing: Option<bool>,
    /// Whether GPUs in confidential-computing mode accept work. None if there are no such GPUs.
    pub accepts_work: Option<bool>,
    /// Why NVML cannot report on the GPUs.
    pub refused: Option<Refused>,
    /// The GPUs, in NVML's order.
    pub gpus: Vec<GpuReading>,
    /// The PCI connection between GPUs, each pair once.
    pub ways: Vec<GpuPair>,
}

/// NVML's answers for one GPU.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct GpuReading {
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
    /// The identifier that stays with the GPU, `GPU-…`.
    pub uuid: Option<String>,
    /// The number of its device file: N of `/dev/nvidiaN`. It need not be its index.
    pub minor: Option<u32>,
    /// The compute capability.
    pub compute_capability: Option<ComputeCapability>,
    /// The number on the board's label.
    pub serial: Option<String>,
    /// The version of the board's firmware.
    pub vbios: Option<String>,
    /// The version of the infoROM image.
    pub inforom: Option<String>,
    /// Temperatures and the board's own thresholds.
    pub temperature: Option<Temperature>,
    /// The intended speed of the fan, in percent.
    pub fan_percent: Option<u32>,
    /// Power draw and limits.
    pub power: Option<PowerReading>,
    /// Memory of the GPU.
    pub memory: Option<MemoryReading>,
    /// How busy it is.
    pub utilization: Option<Utilization>,
    /// The performance state: 0 is the fastest.
    pub performance_state: Option<u32>,
    /// Clocks, now and at most.
    pub clocks: Option<ClockReadings>,
    /// What lowers its clocks.
    pub clock_limits: Option<Vec<ClockLimit>>,
    /// The compute mode.
    pub compute_mode: Option<ComputeMode>,
    /// A display is attached.
    pub display_attached: Option<bool>,
    /// A display is active: memory is allocated for it.
    pub display_active: Option<bool>,
    /// Persistence mode is on.
    pub persistence: Option<bool>,
    /// Accounting mode is on.
    pub accounting: Option<bool>,
    /// The processes on it.
    pub processes: Option<Vec<GpuProcess>>,
    /// Error correction of its memory.
    pub ecc: Option<EccReading>,
    /// Rows of its memory that spare rows replace.
    pub remapped_rows: Option<RemappedRows>,
    /// Pages of its memory that are no longer used, on GPUs that do not remap rows.
    pub retired_pages: Option<RetiredPages>,
    /// MIG mode and devices.
    pub mig: Option<MigReading>,
    /// The PCIe link.
    pub pcie: Option<PcieLink>,
    /// NVLinks by their numbers.
    pub nvlinks: Option<Vec<NvLink>>,
    /// Its state in an NVLink fabric.
    pub fabric: Option<Fabric>,
    /// The NVLink domain of several hosts that it belongs to: the UUID of the cluster, a point, and
    /// the number of the clique.
    pub clique: Option<String>,
    /// The recovery action that the driver requests.
    pub recovery: Option<Recovery>,
    /// How it is virtualised.
    pub virtualization: Option<Virtualization>,
    /// The licence of a vGPU guest.
    pub licence: Option<VgpuLicence>,
    /// What it does not report, and why.
    pub absent: Vec<Absent>,
}

/// A field that a GPU does not report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct Absent {
    /// The field.
    pub field: GpuField,
    /// NVML's refusal.
    pub refused: Refused,
}

/// Temperatures, in degrees Celsius. A GPU reports its thresholds, or the margin to the highest
/// one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct Temperature {
    /// The temperature of the chip.
    pub gpu_celsius: u32,
    /// The temperature of the memory.
    pub memory_celsius: Option<u32>,
    /// The highest temperature of the chip for normal operation: above it the driver lowers the
    /// clocks.
    pub highest_operating_celsius: Option<u32>,
    /// The highest temperature of the memory for normal operation.
    pub highest_memory_celsius: Option<u32>,
    /// From this temperature on the hardware lowers the clocks.
    pub slowdown_celsius: Option<u32>,
    /// At this temperature the GPU switches itself off.
    pub shutdown_celsius: Option<u32>,
    /// How far the GPU is below its highest temperature for normal operation.
    pub margin_celsius: Option<i32>,
}

/// Power, in milliwatts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct PowerReading {
    /// Drawn now.
    pub draw_milliwatts: u32,
    /// The limit now.
    pub limit_milliwatts: Option<u32>,
    /// The limit if nobody sets another.
    pub default_limit_milliwatts: Option<u32>,
    /// The lowest limit that can be set.
    pub lowest_limit_milliwatts: Option<u32>,
    /// The highest limit that can be set.
    pub highest_limit_milliwatts: Option<u32>,
}

/// Memory, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct MemoryReading {
    /// All of it.
    pub total_bytes: u64,
    /// Allocated by programs.
    pub used_bytes: u64,
    /// Reserved by the driver. None if the driver does not report it apart.
    pub reserved_bytes: Option<u64>,
}

/// How busy a GPU was in its last sample period of up to a second, in percent of that time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct Utilization {
    /// A kernel ran.
    pub gpu_percent: u32,
    /// Memory was read or written.
    pub memory_percent: u32,
}

/// A clock, in megahertz.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct Clock {
    /// The clock now.
    pub now_megahertz: u32,
    /// The highest clock.
    pub highest_megahertz: Option<u32>,
}

/// The clocks of a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct ClockReadings {
    /// The graphics clock.
    pub graphics: Option<Clock>,
    /// Streaming multiprocessors.
    pub sm: Option<Clock>,
    /// The memory's clock.
    pub memory: Option<Clock>,
    /// Video encoder and decoder.
    pub video: Option<Clock>,
}

/// A reason why clocks are lower than they could be: NVML's "clocks event reasons".
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum ClockLimit {
    /// Nothing runs.
    Idle,
    /// Somebody set application or locked clocks.
    Setting,
    /// The power limit is reached.
    PowerCap,
    /// The hardware slows down: for heat, for the power brake, or while clocks change.
    HardwareSlowdown,
    /// It keeps to the clocks of the slowest GPU of its group.
    SyncBoost,
    /// The driver slows down a GPU above its highest temperature for normal operation.
    SoftwareThermal,
    /// The hardware slows down a GPU that is too hot.
    HardwareThermal,
    /// The power supply asks for it.
    PowerBrake,
    /// A display needs these clocks.
    Display,
}

/// What a process does on a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum ProcessKind {
    /// It computes.
    Compute,
    /// It draws.
    Graphics,
    /// It does both.
    ComputeAndGraphics,
}

/// A process on a GPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct GpuProcess {
    /// Its number.
    pub pid: u32,
    /// Its name. None if the caller may not see it.
    pub name: Option<String>,
    /// What it does.
    pub kind: ProcessKind,
    /// Its GPU memory, in bytes. None if it is not known.
    pub memory_bytes: Option<u64>,
    /// The GPU instance that it runs on, with MIG.
    pub gpu_instance: Option<u32>,
    /// The compute instance that it runs on, with MIG.
    pub compute_instance: Option<u32>,
}

/// Counts of memory errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct ErrorCounts {
    /// Corrected ones.
    pub corrected: Option<u64>,
    /// Uncorrected ones.
    pub uncorrected: Option<u64>,
}

/// Error correction of a GPU's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct EccReading {
    /// It is on.
    pub enabled: bool,
    /// It will be on after the next reboot or reset.
    pub pending: bool,
    /// Errors since the driver was loaded.
    pub volatile: ErrorCounts,
    /// Errors in the lifetime of the GPU.
    pub aggregate: ErrorCounts,
}

/// MIG mode and devices.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct MigReading {
    /// MIG is on.
    pub enabled: bool,
    /// MIG will be on after the next reset.
    pub pending: bool,
    /// The MIG devices.
    pub devices: Vec<MigDevice>,
}

/// A MIG device.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct MigDevice {
    /// Its name, with the profile: `NVIDIA A100-SXM4-40GB MIG 1g.5gb`.
    pub name: Option<String>,
    /// Its identifier, `MIG-…`.
    pub uuid: Option<String>,
    /// The number of its GPU instance.
    pub gpu_instance: Option<u32>,
    /// The number of its compute instance.
    pub compute_instance: Option<u32>,
    /// Its memory.
    pub memory: Option<MemoryReading>,
    /// Its share of the GPU.
    pub share: Option<MigShare>,
}

/// What a MIG device has of its GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct MigShare {
    /// Memory, in mebibytes.
    pub memory_mebibytes: u64,
    /// Streaming multiprocessors.
    pub multiprocessors: u32,
    /// Slices of its GPU instance.
    pub gpu_slices: u32,
    /// Slices of its compute instance.
    pub compute_slices: u32,
    /// Copy engines.
    pub copy_engines: u32,
    /// Video decoders.
    pub decoders: u32,
    /// Video encoders.
    pub encoders: u32,
    /// JPEG decoders.
    pub jpeg_decoders: u32,
    /// Optical-flow accelerators.
    pub optical_flow: u32,
}

/// A PCIe link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct PcieLink {
    /// The generation now.
    pub generation: u32,
    /// The number of lanes now.
    pub width: u32,
    /// The highest generation of this GPU in this system.
    pub highest_generation: Option<u32>,
    /// The largest number of lanes of this GPU in this system.
    pub highest_width: Option<u32>,
    /// How often packets were sent again.
    pub replays: Option<u32>,
}

/// What an NVLink leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum LinkEnd {
    /// Another GPU.
    Gpu,
    /// An NVSwitch.
    Switch,
    /// A processor.
    Processor,
}

/// An NVLink.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct NvLink {
    /// Its number on this GPU.
    pub link: u32,
    /// It is up.
    pub active: bool,
    /// Its speed, in megabytes a second.
    pub megabytes_per_second: Option<u64>,
    /// What it leads to.
    pub leads_to: Option<LinkEnd>,
    /// The bus address of that.
    pub address: Option<String>,
}

/// How a GPU is virtualised.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Virtualization {
    /// It is not.
    None,
    /// The whole GPU is passed through to this virtual machine.
    Passthrough,
    /// This virtual machine has a share of it: a vGPU.
    Vgpu,
    /// This host shares it among virtual machines.
    HostVgpu,
    /// This host shares it for graphics (vSGA).
    HostVsga,
}

/// The licence of a vGPU guest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct VgpuLicence {
    /// The licensed product.
    pub product: String,
    /// The licence is valid.
    pub licensed: bool,
    /// The day on which it ends, `2027-02-01`. None if it does not end or is not known.
    pub ends: Option<String>,
}

/// The compute mode: which processes a GPU accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum ComputeMode {
    /// Any number of processes.
    Default,
    /// One process at a time.
    #[value(name = "exclusive-process", alias = "exclusive_process")]
    Exclusive,
    /// No process.
    Prohibited,
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

/// The PCI connection between two GPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct GpuPair {
    /// One GPU, by its index in the list of GPUs.
    pub from: u32,
    /// The other GPU, by its index in the list.
    pub to: u32,
    /// What connects them.
    pub over: TopologyLevel,
}

/// The nearest thing that two GPUs have in common, as NVML distinguishes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum TopologyLevel {
    /// A board with several GPUs.
    Board,
    /// One PCI switch.
    Switch,
    /// Several PCI switches.
    Switches,
    /// A PCI host bridge.
    HostBridge,
    /// A NUMA node.
    Node,
    /// The system.
    System,
}

impl GpuTable {
    /// Without what tells a board, or what somebody runs on it, from another: serial numbers, UUIDs
    /// and the names of processes.
    pub fn without_identities(mut self) -> Self {
        for gpu in &mut self.gpus {
            (gpu.uuid, gpu.serial, gpu.clique) = (None, None, None);
            for process in gpu.processes.iter_mut().flatten() {
                process.name = None;
            }
            for device in gpu.mig.iter_mut().flat_map(|mig| &mut mig.devices) {
                device.uuid = None;
            }
        }
        self
    }
}

impl GpuReading {
    /// Its name in a sentence: the bus address, or a fallback.
    pub fn shown(&self) -> &str {
        self.address.as_deref().unwrap_or("without an address")
    }

    /// Whether a change of the MIG mode waits for a reset.
    pub fn awaits_reset(&self) -> bool {
        self.mig
            .as_ref()
            .is_some_and(|mig| mig.enabled != mig.pending)
    }

    /// Whether a display is attached or active, which keeps the GPU initialised.
    pub fn has_display(&self) -> bool {
        [self.display_attached, self.display_active].contains(&Some(true))
    }

    /// How many processes compute on it. None if the driver does not list them.
    pub fn compute_processes(&self) -> Option<usize> {
        let processes = self.processes.as_ref()?;
        Some(
            processes
                .iter()
                .filter(|process| process.kind != ProcessKind::Graphics)
                .count(),
        )
    }
}
