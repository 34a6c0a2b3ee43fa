//! GPUs, by their PCI ids, and their architectures.

use super::SourceId;
use crate::text::Text;
use crate::version::{ComputeCapability, CudaVersion, DriverVersion};
use serde::{Deserialize, Serialize};

/// A compute capability.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Architecture {
    /// The number, `"9.0"`.
    pub compute_capability: ComputeCapability,
    /// The architecture, `Hopper`.
    pub name: String,
    /// What NVIDIA's GPU Feature Discovery calls it in node labels, if that is not its name in
    /// small letters.
    #[serde(default)]
    pub node_label: Option<String>,
    /// The first CUDA series that targets it, if known.
    #[serde(default)]
    pub first_cuda: Option<CudaVersion>,
    /// The last CUDA series that targets it; none if the newest still does.
    #[serde(default)]
    pub last_cuda: Option<CudaVersion>,
    /// The first driver branch, if known.
    #[serde(default)]
    pub first_driver_branch: Option<u16>,
    /// The last driver branch; none if the newest still supports it.
    #[serde(default)]
    pub last_driver_branch: Option<u16>,
    /// Kernel module flavours that support it.
    pub modules: Vec<ModuleFlavour>,
    /// The embedded platform whose driver NVIDIA ships differently (`Jetson AGX Orin`).
    #[serde(default)]
    pub embedded: Option<String>,
    /// For an embedded platform: the first CUDA series whose server toolkits (sbsa) support it;
    /// none if no such series does.
    #[serde(default)]
    pub sbsa_from: Option<CudaVersion>,
    /// The only machine architecture that its GPUs are built into, if there is just one.
    #[serde(default)]
    pub only_on: Option<String>,
    /// A note for readers.
    #[serde(default)]
    pub(crate) note: Option<String>,
    /// How sources differ, and which value was used.
    #[serde(default)]
    pub disagreement: Option<String>,
    /// The sources.
    pub sources: Vec<SourceId>,
}

/// The two flavours of kernel modules in a driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum ModuleFlavour {
    /// Dual MIT/GPL licence, for GPUs with a GSP (Turing and newer).
    Open,
    /// NVIDIA's own licence, for all GPUs up to Hopper.
    Proprietary,
}

impl ModuleFlavour {
    /// The flavour required by GPUs that this one does not support.
    pub fn other(self) -> Self {
        match self {
            Self::Open => Self::Proprietary,
            Self::Proprietary => Self::Open,
        }
    }
}

/// A GPU on the PCI bus. The vendor is always NVIDIA, 10de.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gpu {
    /// PCI device id, four lower-case hexadecimal digits.
    pub device: PciDevice,
    /// The subsystem id of the only board this entry describes, `10de:1463`; none for every other
    /// board of the device.
    #[serde(default)]
    pub subsystem: Option<Text>,
    /// The marketing name.
    pub name: Text,
    /// The chip, `GA100`.
    pub chip: Text,
    /// The name of the chip, `GA100`.
    pub architecture: Text,
    /// None for chips that cannot compute, and for announced ones without a published number.
    #[serde(default)]
    pub compute_capability: Option<ComputeCapability>,
    /// Kernel module flavours that support it.
    pub modules: Vec<ModuleFlavour>,
    /// The last driver branch that supports it; none is "current". A string if it is not a current
    /// branch number (`173.14`).
    #[serde(default)]
    pub last_driver_branch: Option<Text>,
    /// The oldest driver branch whose published GPU list contains it.
    #[serde(default)]
    pub first_driver_branch: Option<u16>,
    /// The newest older branch whose list is known to lack it. The branches in between were not
    /// checked.
    #[serde(default)]
    pub absent_from_branch: Option<u16>,
    /// The first release of each branch that lists it, oldest first, up to a branch that lists it
    /// from its first release on. A branch that is missing in between does not list it. Empty if
    /// not every list was read.
    #[serde(default)]
    pub listed_from: Vec<DriverVersion>,
    /// `GeForce`, `Tesla/Data Center`, …
    #[serde(default)]
    pub line: Option<Text>,
    /// `PCIe`, `SXM4`, …
    #[serde(default)]
    pub form: Option<Text>,
    /// The machine architecture it is built into, if it is not a separate board: `aarch64` for
    /// Grace.
    #[serde(default)]
    pub only_on: Option<Text>,
    /// The name that usually means this board when several boards share it: `H100`.
    #[serde(default)]
    pub known_as: Option<Text>,
    /// The board's memory, in GB as NVIDIA counts it.
    #[serde(default)]
    pub memory_gb: Option<u16>,
    /// Whether it is a laptop GPU.
    #[serde(default)]
    pub mobile: bool,
    /// Whether it can be partitioned into GPU instances (MIG).
    #[serde(default)]
    pub mig: bool,
    /// How sources differ, and which value was used.
    #[serde(default)]
    pub(crate) disagreement: Option<Text>,
    /// The sources.
    pub sources: Vec<SourceId>,
}

impl Gpu {
    /// What distinguishes it from the other entries: its device, and its subsystem if it has one.
    pub(super) fn key(&self) -> String {
        match &self.subsystem {
            Some(subsystem) => format!("{} {subsystem}", self.device),
            None => self.device.to_string(),
        }
    }
}

/// A PCI device id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PciDevice(pub u16);

/// The virtual GPUs (vGPU) that guests see instead of a GPU. They have its device id and separate
/// subsystem ids.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VirtualGpus {
    /// The PCI device id of the GPU.
    pub device: PciDevice,
    /// The subsystem ids; their vendor is NVIDIA.
    pub subsystems: Vec<PciDevice>,
    pub(crate) sources: Vec<SourceId>,
}
