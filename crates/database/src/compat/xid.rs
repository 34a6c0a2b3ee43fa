//! Errors that the driver writes to the kernel's log.

use super::SourceId;
use serde::{Deserialize, Serialize};

/// An Xid: the number of a GPU error that the driver reports in the kernel log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Xid {
    /// The number.
    pub xid: u16,
    /// Its name in the driver.
    pub name: String,
    /// The meaning, in one sentence.
    pub means: String,
    /// The immediate action that NVIDIA recommends.
    pub action: XidAction,
    /// The assumed parts, and why.
    #[serde(default)]
    pub(crate) assumed: Option<String>,
    /// The sources.
    pub sources: Vec<SourceId>,
}

/// An SXid: the number of an NVSwitch error that the driver reports in the kernel log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sxid {
    /// The number.
    pub sxid: u32,
    /// Its name in the driver, without the common prefix.
    pub name: String,
    /// The sources.
    pub sources: Vec<SourceId>,
}

/// The recommended action for an [`Xid`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum XidAction {
    /// Nothing, by itself.
    Nothing,
    /// Restart the program and look for the error there.
    RestartApplication,
    ResetGpu,
    /// Reboot the host.
    Reboot,
    /// Check cables, slots and power.
    CheckHardware,
    /// Update the driver or firmware.
    Update,
    /// Do what the message itself names.
    AsLogged,
    /// Follow one of NVIDIA's procedures.
    Workflow,
    /// Contact NVIDIA or the vendor.
    AskNvidia,
}
