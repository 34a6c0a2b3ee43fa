//! Reads pieces of state of every GPU in one child process: NVML takes seconds to start without a
//! persistence daemon.

use super::codes::NOT_SUPPORTED;
use super::library::Library;
use super::state::{DeviceState, Reading, reading};
use crate::ask::{Question, ask, limit, own};
use crate::{Answer, Refused};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// A GPU, and what it reports about pieces of its state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct DeviceReadings {
    /// Its bus address, `0000:17:00.0`.
    pub gpu: String,
    /// Its name, as nvidia-smi prints it.
    pub name: Option<String>,
    /// What it reports about each piece of state that was asked about.
    pub states: Vec<StateReading>,
}

/// What a GPU reports about a piece of its state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct StateReading {
    /// The state that was asked about, with the value that it should have.
    pub of: DeviceState,
    /// What the GPU reports. None if the driver refused to answer.
    pub reading: Option<Reading>,
    /// Why the driver refused to answer.
    pub refused: Option<Refused>,
}

impl StateReading {
    /// Whether the GPU does not have the feature.
    pub fn is_unsupported(&self) -> bool {
        self.refused
            .as_ref()
            .is_some_and(|refused| refused.code == Some(NOT_SUPPORTED))
    }

    /// Whether the GPU is known to have the value that was asked about, or will have it after the
    /// next reset. None if the driver does not report that.
    pub fn holds(&self) -> Option<bool> {
        self.reading
            .as_ref()?
            .chosen()
            .map(|chosen| *chosen == self.of)
    }
}

/// What every GPU of this machine reports about these pieces of state.
pub fn survey(states: &[DeviceState]) -> Answer<Result<Vec<DeviceReadings>, Refused>> {
    let Ok(states) = serde_json::to_string(states) else {
        return Answer::default();
    };
    let question = Question::new(crate::Query::Device, ["libnvidia-ml.so.1"]);
    ask(own(), &question.with([states]).limit(limit(LIMIT)))
}

/// Sixteen GPUs that are initialised one after the other.
const LIMIT: Duration = Duration::from_secs(120);

/// The child's answer. None if the states are not valid.
pub(crate) fn answer(library: &str, states: &str) -> Option<Result<Vec<DeviceReadings>, Refused>> {
    let states: Vec<DeviceState> = serde_json::from_str(states).ok()?;
    Some(readings(library, &states))
}

fn readings(library: &str, states: &[DeviceState]) -> Result<Vec<DeviceReadings>, Refused> {
    let nvml = super::asked("nvmlInit_v2", || Library::open(library))?;
    let count = super::asked("nvmlDeviceGetCount_v2", || nvml.count())?;
    let mut all = Vec::new();
    for index in 0..count {
        // A GPU that is lost must not hide the others.
        let Ok(device) = super::asked("nvmlDeviceGetHandleByIndex_v2", || nvml.device(index))
        else {
            continue;
        };
        let Ok(gpu) = super::asked("nvmlDeviceGetPciInfo_v3", || device.address()) else {
            continue;
        };
        let name = super::asked("nvmlDeviceGetName", || device.name()).ok();
        let each = states.iter().map(|of| {
            let (reading, refused) = match reading(&device, of) {
                Ok(reading) => (Some(reading), None),
                Err(refused) => (None, Some(refused)),
            };
            StateReading {
                of: of.clone(),
                reading,
                refused,
            }
        });
        all.push(DeviceReadings {
            gpu,
            name,
            states: each.collect(),
        });
    }
    Ok(all)
}
