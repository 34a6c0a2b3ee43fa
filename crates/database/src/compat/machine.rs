//! Machines that people name instead of their GPUs: the instance types of cloud providers, and
//! NVIDIA's systems and boards.

use super::{PciDevice, SourceId};
use crate::version::ComputeCapability;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A cloud provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Provider {
    /// Amazon EC2.
    Aws,
    /// Microsoft Azure.
    Azure,
    /// Google Compute Engine.
    Google,
    /// Lambda's cloud.
    Lambda,
    /// Oracle Cloud Infrastructure.
    Oci,
}

impl Provider {
    /// Its usual name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Aws => "AWS",
            Self::Azure => "Azure",
            Self::Google => "Google",
            Self::Lambda => "Lambda",
            Self::Oci => "OCI",
        }
    }
}

/// An instance type with NVIDIA GPUs: `p4d.24xlarge`, `a2-highgpu-8g`, `Standard_ND96asr_v4`,
/// `BM.GPU.H100.8`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Instance {
    /// The name as the provider spells it. Azure ignores case.
    pub name: String,
    /// Who offers it.
    pub provider: Provider,
    /// Its GPUs, which are all alike.
    pub gpu: PciDevice,
    /// How many GPUs the guest sees. A part of a GPU counts as one.
    pub count: u8,
    /// The machine architecture; `x86_64` unless given.
    #[serde(default)]
    pub arch: Option<String>,
    /// The guest sees virtual GPUs, each a part of a GPU or a whole one. They need NVIDIA's vGPU
    /// guest driver.
    #[serde(default)]
    pub part: bool,
    /// What no source says, and why it was chosen: `2901 or 2909, which have the same name`.
    #[serde(default)]
    pub assumed: Option<String>,
    /// Where this is published.
    pub(crate) sources: Vec<SourceId>,
}

/// A system or a board of NVIDIA's: `DGX H100`, `GB200 NVL72`, `Jetson AGX Orin`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct System {
    /// NVIDIA's name for it.
    pub name: String,
    /// Other names for the same.
    #[serde(default)]
    pub aliases: Vec<String>,
    /// Its GPUs, which are all alike. The GPUs of Jetson boards before Thor are not on a PCI bus.
    #[serde(default)]
    pub gpu: Option<PciDevice>,
    /// The compute capability of a GPU without a PCI id.
    #[serde(default)]
    pub compute_capability: Option<ComputeCapability>,
    /// How many GPUs one host has: a compute tray of an NVL72 rack is a host.
    pub count: u8,
    /// The machine architecture; `x86_64` unless given.
    #[serde(default)]
    pub arch: Option<String>,
    /// The NVSwitches on the PCI bus of a host. From the fourth generation on, none are.
    #[serde(default)]
    pub(crate) nvswitches: u8,
    /// The driver comes with the board's own software, so gpusetup cannot install one.
    #[serde(default)]
    pub boards: bool,
    /// What no source says, and why it was chosen.
    #[serde(default)]
    pub(crate) assumed: Option<String>,
    /// Where this is published.
    pub(crate) sources: Vec<SourceId>,
}

impl Instance {
    /// The machine architecture, `aarch64`.
    pub fn arch(&self) -> &str {
        self.arch.as_deref().unwrap_or("x86_64")
    }
}

impl System {
    /// The machine architecture, `aarch64`.
    pub(crate) fn arch(&self) -> &str {
        self.arch.as_deref().unwrap_or("x86_64")
    }

    /// All names of it.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        std::iter::once(&self.name)
            .chain(&self.aliases)
            .map(String::as_str)
    }
}

impl fmt::Display for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Aws => "aws",
            Self::Azure => "azure",
            Self::Google => "google",
            Self::Lambda => "lambda",
            Self::Oci => "oci",
        })
    }
}
