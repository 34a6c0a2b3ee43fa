//! What the GPUs of this machine report about pieces of their state, asked only for a plan that sets them.

use super::Facts;
use crate::nvidia::{Answer, DeviceReadings, DeviceState, has_stand_ins, survey};
use crate::system::System;

/// What each GPU reports about these pieces of state; none if the driver does not run, or does not answer.
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
