//! The areas that checks belong to. A report begins with a line for each.

use gpusetup_text::ids::CheckId;
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

    /// The area of a check.
    pub fn of(id: CheckId) -> Self {
        use CheckId as C;
        match id {
            C::GS203
            | C::GS503
            | C::GS509
            | C::GS802
            | C::GS901
            | C::GS902
            | C::GS903
            | C::GS904
            | C::GS905
            | C::GS909
            | C::GS912
            | C::GS913 => Self::Gpu,
            C::GS101
            | C::GS102
            | C::GS104
            | C::GS106
            | C::GS201
            | C::GS202
            | C::GS301
            | C::GS504 => Self::Kernel,
            C::GS701 | C::GS704 | C::GS705 | C::GS707 | C::GS709 => Self::Toolkit,
            C::GS702 | C::GS703 | C::GS708 | C::GS710 => Self::AddOns,
            C::GS716 | C::GS717 | C::GS718 | C::GS719 | C::GS720 => Self::Python,
            C::GS803 | C::GS810 | C::GS811 | C::GS812 | C::GS813 => Self::Containers,
            C::GS404 | C::GS603 | C::GS608 => Self::Packages,
            _ => Self::Driver,
        }
    }

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
