//! The areas that checks belong to. A report begins with a line for each.

use serde::Serialize;

/// A part of the stack, from the hardware up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Area {
    /// The GPUs themselves.
    Gpu,
    /// The kernel and the modules built for it.
    Kernel,
    /// The driver, its services and its libraries.
    Driver,
    /// CUDA toolkits.
    Toolkit,
    /// cuDNN and other add-ons.
    AddOns,
    /// Python environments and their frameworks.
    Python,
    /// GPUs in containers and in the jobs of a cluster.
    Containers,
    /// The package manager.
    Packages,
}

impl Area {
    /// All, in the order of a report.
    pub const ALL: [Self; 8] = [
        Self::Gpu,
        Self::Kernel,
        Self::Driver,
        Self::Toolkit,
        Self::AddOns,
        Self::Python,
        Self::Containers,
        Self::Packages,
    ];

    /// The name in a report.
    pub fn title(self) -> &'static str {
        match self {
            Self::Gpu => "GPU",
            Self::Kernel => "Kernel",
            Self::Driver => "Driver",
            Self::Toolkit => "CUDA",
            Self::AddOns => "cuDNN",
            Self::Python => "Python",
            Self::Containers => "Containers",
            Self::Packages => "Packages",
        }
    }
}
