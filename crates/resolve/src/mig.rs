//! How a request partitions the GPUs (MIG).

use serde::{Deserialize, Serialize};

/// The partition of every GPU that can be partitioned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
#[serde(deny_unknown_fields)]
pub struct MigRequest {
    /// The layout, `3g.20gb,2g.10gb,1g.5gb`; `none` is MIG without instances, `off` no MIG.
    pub layout: String,
    /// The gpusetup that restores it at every boot, by its absolute path. None if none is installed
    /// where only root can write.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// Whether services that use the GPUs may be stopped.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stops_users: bool,
    /// Units that run and keep the GPUs in use: they stop while GPUs are reset, and start again
    /// afterwards.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keepers: Vec<String>,
    /// Units that run, use the GPUs and may not be stopped.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub users: Vec<String>,
    /// Units that list the instances for others: they are started again when those change.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub listers: Vec<String>,
}

impl MigRequest {
    /// This layout, before anything is known of the host.
    pub fn of(layout: String) -> Self {
        Self {
            layout,
            program: None,
            stops_users: false,
            keepers: Vec::new(),
            users: Vec::new(),
            listers: Vec::new(),
        }
    }
}
