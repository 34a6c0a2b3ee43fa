//! `device`: sets a piece of a GPU's state through NVML, and keeps the previous state for undo. In
//! a tree there is no GPU: nothing is set there.

use super::undo::Undo;
use super::valid::Valid;
use super::{Action, Counts, Notify, OperationError, Standing, Work, valid};
use gpusetup_nvidia::codes::{GPU_LOST, NOT_FOUND, NOT_LOADED, NOT_SUPPORTED};
use gpusetup_nvidia::{Answer, DeviceState, Reading, Refused, has_stand_ins, reset};
use gpusetup_system::System;
use gpusetup_text::text::quoted;
use serde::{Deserialize, Serialize};
use std::io;
use std::path::Path;

/// Sets a piece of a GPU's state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
#[serde(deny_unknown_fields)]
pub struct Device {
    /// The GPU, by its bus address or its UUID.
    pub gpu: String,
    /// The state that it gets.
    pub state: DeviceState,
    /// A GPU that does not support it is left as it is; otherwise that is a conflict.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub if_supported: bool,
}

impl Device {
    fn outside(&self, range: (u32, u32)) -> String {
        let Self { gpu, state, .. } = self;
        let (name, value, range) = (state.name(), state.value(), state.shown_range(range));
        let query = match state {
            DeviceState::PowerLimit(_) => "-d POWER",
            _ => "-d SUPPORTED_CLOCKS",
        };
        format!(
            "GPU {gpu} accepts {range} as {name}, not {value}; nvidia-smi -i {gpu} -q {query} shows what it accepts"
        )
    }

    /// Sets it.
    pub fn set(&self, on: &System) -> io::Result<()> {
        if !has_devices(on) {
            return Ok(());
        }
        if let DeviceState::MigActive { others, .. } = &self.state {
            reset_waiting(on, std::iter::once(&self.gpu).chain(others))?;
        }
        let reading = self
            .ask(self.state.set(&self.gpu))?
            .map_err(|refused| self.refused(&refused))?;
        match reading.chosen() {
            Some(chosen) if *chosen != self.state => Err(io::Error::other(format!(
                "GPU {} accepted it, and reports {} as {}",
                self.gpu,
                chosen.value(),
                self.state.name()
            ))),
            _ => Ok(()),
        }
    }

    fn ask(
        &self,
        answer: Answer<Result<Reading, Refused>>,
    ) -> io::Result<Result<Reading, Refused>> {
        match answer {
            Answer::Is(answer) => Ok(answer),
            Answer::Failed(why) | Answer::NotAsked(why) => {
                Err(io::Error::other(format!("GPU {}: {why}", self.gpu)))
            }
        }
    }

    fn refused(&self, refused: &Refused) -> io::Error {
        io::Error::other(format!(
            "GPU {}, {}: {refused}",
            self.gpu,
            self.state.name()
        ))
    }
}

impl Action for Device {
    fn preflight(&self, on: &System) -> io::Result<Standing> {
        // A driver that is yet to be installed does not answer.
        self.stands(on, false).or(Ok(Standing::Needed))
    }

    fn perform(&self, on: &System, _: &mut Work, _: Notify) -> Result<(), OperationError> {
        Ok(self.set(on)?)
    }

    fn stands(&self, on: &System, planned: bool) -> io::Result<Standing> {
        if !has_devices(on) {
            return Ok(Standing::Satisfied);
        }
        Ok(match self.ask(self.state.read(&self.gpu))? {
            Err(refused) if refused.code == Some(NOT_SUPPORTED) => match self.if_supported {
                true => Standing::Satisfied,
                false => Standing::Conflict(format!(
                    "GPU {} does not support {}",
                    self.gpu,
                    self.state.name()
                )),
            },
            Err(refused) => return Err(self.refused(&refused)),
            Ok(Reading {
                range: Some(range), ..
            }) if !self.state.is_within(range) => Standing::Conflict(self.outside(range)),
            Ok(reading) => Standing::satisfied_if(
                reading
                    .chosen()
                    .map_or(planned, |chosen| *chosen == self.state),
            ),
        })
    }

    fn intend(&self, on: &System, _: &mut Work) -> Result<Vec<Undo>, OperationError> {
        if !has_devices(on) {
            return Ok(Vec::new());
        }
        // Undo restores the mode, and resets the GPU for it if needed.
        if matches!(self.state, DeviceState::MigActive { .. }) {
            return Ok(Vec::new());
        }
        let reading = self
            .ask(self.state.read(&self.gpu))?
            .map_err(|refused| self.refused(&refused))?;
        let before = reading.chosen().cloned().or_else(|| self.state.unset());
        let undo = before.map(|before| Undo::Device {
            gpu: self.gpu.clone(),
            before,
            after: self.state.clone(),
        });
        Ok(undo.into_iter().collect())
    }

    fn describe(&self) -> String {
        if let DeviceState::MigActive { .. } = self.state {
            return format!("reset GPU {} if its MIG mode waits for that", self.gpu);
        }
        format!(
            "set {} of GPU {} to {}",
            self.state.name(),
            self.gpu,
            self.state.value()
        )
    }

    fn shell(&self) -> String {
        if let Some(script) = self.state.script(&quoted(&self.gpu)) {
            return script;
        }
        let arguments: Vec<_> = self
            .state
            .smi()
            .iter()
            .map(|argument| quoted(argument).to_string())
            .collect();
        let otherwise = if self.if_supported { " || true" } else { "" };
        format!(
            "nvidia-smi -i {} {}{otherwise}\n",
            quoted(&self.gpu),
            arguments.join(" ")
        )
    }

    fn counts(&self) -> Counts {
        Counts {
            change: 1,
            ..Counts::default()
        }
    }

    fn by_hand(&self) -> Option<String> {
        Some(format!("sudo {}", self.shell().trim_end()))
    }

    fn valid(&self, _: &Path) -> Valid {
        let Self {
            gpu: name,
            state,
            if_supported: _,
        } = self;
        valid::gpu(name)?;
        state
            .others()
            .iter()
            .try_for_each(|other| valid::gpu(other))
    }
}

/// Gives a GPU its previous state back; true if the state is left, because somebody changed it
/// since or because the driver does not answer. A state that a reboot ends needs no driver to end.
/// `cut_off`: the change, or an earlier undo of it, was begun and its end is not known, so a state
/// in between is nobody else's.
pub(crate) fn give_back(
    on: &System,
    gpu: &str,
    before: &DeviceState,
    after: &DeviceState,
    cut_off: bool,
) -> io::Result<bool> {
    if !has_devices(on) {
        return Ok(true);
    }
    let reading = match before.read(gpu) {
        Answer::Is(Ok(reading)) => reading,
        Answer::Is(Err(refused)) if is_gone(&refused) => return Ok(before.outlives_reboots()),
        // A driver that is broken, or of another version than its library, must not keep the rest
        // from being undone.
        Answer::Is(Err(_)) | Answer::Failed(_) | Answer::NotAsked(_) => return Ok(true),
    };
    let device = Device {
        gpu: gpu.to_owned(),
        state: before.clone(),
        if_supported: false,
    };
    let left = match reading.chosen() {
        Some(now) if now == before => false,
        Some(now) if now != after && !(cut_off && now.is_between(before, after)) => true,
        _ => device.set(on).map(|()| false)?,
    };
    if matches!(before, DeviceState::MigMode(_)) {
        // Without a reset, the mode is the previous one after a reboot.
        let _ = reset_waiting(on, std::iter::once(&device.gpu));
    }
    Ok(left)
}

/// Resets those of these GPUs whose MIG mode waits for a reset.
fn reset_waiting<'a>(on: &System, gpus: impl Iterator<Item = &'a String>) -> io::Result<()> {
    let mode = DeviceState::MigMode(true);
    let waiting = gpus.filter(|gpu| {
        matches!(
            mode.read(gpu),
            Answer::Is(Ok(Reading {
                after_reset: Some(_),
                ..
            }))
        )
    });
    let waiting: Vec<_> = waiting.cloned().collect();
    if waiting.is_empty() {
        return Ok(());
    }
    // The kernel offers it for devices that can be reset: in virtual machines they often cannot.
    let unresettable = waiting.iter().find(|gpu| {
        let address = gpu.to_ascii_lowercase();
        !on.exists(format!("/sys/bus/pci/devices/{address}/reset"))
    });
    if let Some(gpu) = unresettable {
        return Err(io::Error::other(format!(
            "the MIG mode of GPU {gpu} waits for a reset, which this machine does not offer: the host must be rebooted"
        )));
    }
    reset(&waiting).map_err(|why| {
        io::Error::other(format!(
            "the MIG mode of GPU {} waits for a reset: {why}",
            waiting.join(", ")
        ))
    })
}

/// Whether the driver was unloaded or removed, or the GPU was removed or lost.
fn is_gone(refused: &Refused) -> bool {
    matches!(refused.code, None | Some(NOT_FOUND | NOT_LOADED | GPU_LOST))
}

/// Whether there are GPUs whose state can be set.
fn has_devices(on: &System) -> bool {
    on.is_live() || has_stand_ins()
}
