//! What the GPUs of this machine report about pieces of their state, asked only for a plan that
//! sets them.

use super::Facts;
use gpusetup_nvidia::{Answer, DeviceReadings, DeviceState, has_stand_ins, survey};
use gpusetup_system::System;
use gpusetup_text::paths::SETTINGS_UNIT;

/// The key in gpusetup's unit that has the states as JSON. systemd ignores sections that begin with
/// `X-`.
pub const STATES_KEY: &str = "States=";

/// The states that gpusetup's unit sets at each boot; none without the unit. Every user may read
/// it.
pub fn states_at_boot(system: &System) -> Option<Vec<DeviceState>> {
    let text = system.read_text(SETTINGS_UNIT).ok().flatten()?;
    let json = text
        .lines()
        .find_map(|line| line.strip_prefix(STATES_KEY))?;
    serde_json::from_str(json).ok()
}

/// What each GPU reports about these pieces of state; none if the driver does not run, or does not
/// answer.
pub fn gpu_states(system: &System, facts: &Facts, states: &[DeviceState]) -> Vec<DeviceReadings> {
    // A client of a driver that is not loaded would load it.
    let runs = system.is_live() && facts.driver_is_loaded() == Some(true);
    if states.is_empty() || !(runs || has_stand_ins()) {
        return Vec::new();
    }
    match survey(states) {
        Answer::Is(Ok(readings)) => readings,
        Answer::Is(Err(_)) | Answer::Failed(_) | Answer::NotAsked(_) => Vec::new(),
    }
}
