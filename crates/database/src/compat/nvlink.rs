//! The NVLinks of boards, and the NVSwitches that join them.

use super::{CompanionId, PciDevice, SourceId};
use serde::{Deserialize, Serialize};

/// What joins the NVLinks of GPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum JoinedBy {
    /// A bridge that somebody puts on two or more boards.
    Bridge,
    /// The board that carries the GPUs, link by link.
    Board,
    /// NVSwitches on the board that carries the GPUs.
    Switch,
    /// NVSwitches of a rack.
    Rack,
}

impl JoinedBy {
    /// `NVSwitches`.
    pub fn title(self) -> &'static str {
        match self {
            Self::Bridge => "a bridge",
            Self::Board => "the carrier board",
            Self::Switch => "NVSwitches",
            Self::Rack => "the NVSwitches of a rack",
        }
    }
}

/// The NVLinks that boards connect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NvLinks {
    /// The boards.
    pub gpus: Vec<PciDevice>,
    /// The number of links of a GPU; 0 if a source says that it has none.
    pub links: u8,
    /// The generation, starting with 1 (Pascal); none without links.
    #[serde(default)]
    pub generation: Option<u8>,
    /// What joins them, depending on the host.
    #[serde(default)]
    pub joined_by: Vec<JoinedBy>,
    /// How sources differ, and which value was used.
    #[serde(default)]
    pub(crate) disagreement: Option<String>,
    /// What was concluded instead of read, and how.
    #[serde(default)]
    pub assumed: Option<String>,
    /// The sources.
    pub sources: Vec<SourceId>,
}

/// An NVSwitch bridge; its host needs what the fabric of its generation requires.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NvSwitch {
    /// PCI device id.
    pub(crate) device: PciDevice,
    /// Its name.
    pub name: String,
    /// The generation, starting with 1 (DGX-2).
    pub generation: u8,
    pub(crate) sources: Vec<SourceId>,
}

/// A kind of board on which NVSwitches connect GPUs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fabric {
    /// The NVSwitch generation, as in [`NvSwitch::generation`].
    pub generation: u8,
    /// The hosts that have it.
    pub name: String,
    /// The companions that the host needs besides the driver.
    pub needs: Vec<CompanionId>,
    /// Companions that run on other machines here, although hosts with other NVSwitches need them.
    #[serde(default)]
    pub elsewhere: Vec<CompanionId>,
    /// The GPUs on these boards.
    pub gpus: Vec<PciDevice>,
    /// The number of GPUs on a board. Boards with fewer may have no NVSwitches.
    pub gpus_per_board: usize,
    /// Those of the GPUs that also come in hosts of one GPU, without NVSwitches.
    #[serde(default)]
    pub unjoined_if_single: Vec<PciDevice>,
    /// A text in the vital product data of the InfiniBand devices that manage the NVSwitches. If
    /// set, the switches are not on the PCI bus, and all boards with these GPUs have them.
    #[serde(default)]
    pub vital_product_data: Option<String>,
    /// Kernel modules that must be loaded.
    #[serde(default)]
    pub kernel_modules: Vec<String>,
    pub(crate) sources: Vec<SourceId>,
}
