//! The settings that gpusetup's unit sets at each boot, and what the GPUs report about them. The
//! unit has them as data, which every user may read.

use gpusetup_host::{Facts, gpu_states, states_at_boot};
use gpusetup_nvidia::{DeviceReadings, DeviceState};
use gpusetup_system::System;
use gpusetup_text::paths::{SETTINGS_UNIT, SETTINGS_WANTED};
use serde::{Deserialize, Serialize};

/// The settings of a host's GPUs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct GpuSettings {
    /// The states that the unit sets.
    pub(crate) states: Vec<DeviceState>,
    /// Whether the unit is enabled.
    pub(crate) enabled: bool,
    /// What each GPU that the unit sets reports; empty if the driver does not answer.
    pub(crate) gpus: Vec<DeviceReadings>,
}

/// The settings; none if gpusetup has no unit here.
pub(crate) fn settings(system: &System, facts: &Facts) -> Option<GpuSettings> {
    let text = system.read_text(SETTINGS_UNIT).ok().flatten()?;
    let states = states_at_boot(system)?;
    // A unit that names GPUs sets only those.
    let gpus = gpu_states(system, facts, &states)
        .into_iter()
        .filter(|of| !text.contains(" -i ") || text.contains(&format!(" -i {} ", of.gpu)))
        .collect();
    Some(GpuSettings {
        states,
        enabled: system.link_target(SETTINGS_WANTED).is_some(),
        gpus,
    })
}
