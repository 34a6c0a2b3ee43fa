//! Reads and sets pieces of a GPU's state. Each kind of state is a variant of [`DeviceState`]: a
//! further kind needs a variant, an arm in each `match` below, and the functions of NVML in
//! `functions.rs`.

use super::library::{Device, Library};
use super::mig::{self, MigPlace, smi};
use super::{ComputeMode, asked, compute_mode, opened};
use crate::ask::{Question, ask, limit, own};
use crate::{Answer, Refused};
use gpusetup_text::text::quoted;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// A piece of a GPU's state, with its value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum DeviceState {
    /// Persistence mode is on.
    Persistence(bool),
    /// Error correction of its memory is on, after the next reset.
    Ecc(bool),
    /// The power limit, in milliwatts.
    PowerLimit(u32),
    /// The clocks of the GPU are locked to this range; none if they are not locked.
    GpuClocks(Option<Clocks>),
    /// The clocks of its memory are locked to this range; none if they are not locked.
    MemoryClocks(Option<Clocks>),
    /// The compute mode.
    ComputeMode(ComputeMode),
    /// Accounting of its processes is on.
    Accounting(bool),
    /// MIG is on, after the next reset at the latest.
    MigMode(bool),
    /// MIG is on now, which no reset waits for. Until then, the GPU and those of the others that
    /// wait are reset together.
    MigActive {
        /// MIG is on.
        on: bool,
        /// The other GPUs, by bus address.
        others: Vec<String>,
    },
    /// The GPU has these GPU instances and no others.
    MigInstances(Vec<MigPlace>),
}

/// A range of clocks, in MHz.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
#[serde(deny_unknown_fields)]
pub struct Clocks {
    /// The lowest clock.
    pub least: u32,
    /// The highest clock.
    pub most: u32,
}

/// What a GPU reports about a piece of its state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct Reading {
    /// The state now. None if the driver does not report it, as for locked clocks.
    pub now: Option<DeviceState>,
    /// The state after the next reset, if it differs.
    pub after_reset: Option<DeviceState>,
    /// The least and the most value that the GPU accepts, in the unit of the state. None if there
    /// is no range.
    pub range: Option<(u32, u32)>,
}

/// The child's question: read a piece of state, or set it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verb {
    Read,
    Set,
}

impl Verb {
    const ALL: [(Self, &'static str); 2] = [(Self::Read, "read"), (Self::Set, "set")];

    fn as_str(self) -> &'static str {
        Self::ALL
            .iter()
            .find(|(verb, _)| *verb == self)
            .map_or("", |(_, name)| name)
    }
}

/// Without a persistence daemon a GPU is initialised for each client, which takes some seconds.
const LIMIT: Duration = Duration::from_secs(90);

impl DeviceState {
    /// Reads the same piece of state of a GPU, named by its bus address or UUID. The value of
    /// `self` does not matter.
    pub fn read(&self, gpu: &str) -> Answer<Result<Reading, Refused>> {
        self.ask(Verb::Read, gpu)
    }

    /// Sets it, and reads it again.
    pub fn set(&self, gpu: &str) -> Answer<Result<Reading, Refused>> {
        self.ask(Verb::Set, gpu)
    }

    fn ask(&self, verb: Verb, gpu: &str) -> Answer<Result<Reading, Refused>> {
        let state = match serde_json::to_string(self) {
            Ok(state) => state,
            Err(e) => return Answer::NotAsked(e.to_string()),
        };
        let question = Question::new(crate::Query::Device, [crate::NVML]);
        ask(
            own(),
            &question
                .with([gpu, verb.as_str(), &state])
                .limit(limit(LIMIT)),
        )
    }

    /// The state before any setting: what the driver starts with, for states that it does not
    /// report.
    pub fn unset(&self) -> Option<Self> {
        match self {
            Self::GpuClocks(_) => Some(Self::GpuClocks(None)),
            Self::MemoryClocks(_) => Some(Self::MemoryClocks(None)),
            Self::Persistence(_)
            | Self::Ecc(_)
            | Self::PowerLimit(_)
            | Self::ComputeMode(_)
            | Self::Accounting(_)
            | Self::MigMode(_)
            | Self::MigActive { .. }
            | Self::MigInstances(_) => None,
        }
    }

    /// Whether it is kept when the host reboots: the GPU stores it.
    pub fn outlives_reboots(&self) -> bool {
        matches!(self, Self::Ecc(_) | Self::MigMode(_))
    }

    /// Whether a change of a GPU's state, cut off at any moment, can leave this state.
    pub fn is_between(&self, before: &Self, after: &Self) -> bool {
        match (self, before, after) {
            (Self::MigInstances(now), Self::MigInstances(before), Self::MigInstances(after)) => {
                mig::is_between(now, before, after)
            }
            _ => self == before || self == after,
        }
    }

    /// Whether a value is in the range that a GPU accepts.
    pub fn is_within(&self, (least, most): (u32, u32)) -> bool {
        match self {
            Self::PowerLimit(limit) => (least..=most).contains(limit),
            Self::GpuClocks(Some(clocks)) | Self::MemoryClocks(Some(clocks)) => {
                clocks.least <= clocks.most && least <= clocks.least && clocks.most <= most
            }
            _ => true,
        }
    }

    /// The other GPUs that it concerns, by bus address.
    pub fn others(&self) -> &[String] {
        if let Self::MigActive { others, .. } = self {
            others
        } else {
            &[]
        }
    }

    /// Its name in a sentence: "the power limit".
    pub fn name(&self) -> &'static str {
        match self {
            Self::Persistence(_) => "persistence mode",
            Self::Ecc(_) => "error correction (ECC)",
            Self::PowerLimit(_) => "the power limit",
            Self::GpuClocks(_) => "the GPU clocks",
            Self::MemoryClocks(_) => "the memory clocks",
            Self::ComputeMode(_) => "the compute mode",
            Self::Accounting(_) => "accounting",
            Self::MigMode(_) => "MIG mode",
            Self::MigActive { .. } => "MIG mode without a pending reset",
            Self::MigInstances(_) => "the MIG instances",
        }
    }

    /// Its value in a sentence: "300 W".
    pub fn value(&self) -> String {
        match self {
            Self::Persistence(on)
            | Self::Ecc(on)
            | Self::Accounting(on)
            | Self::MigMode(on)
            | Self::MigActive { on, .. } => if *on { "on" } else { "off" }.to_owned(),
            Self::MigInstances(places) if places.is_empty() => "none".to_owned(),
            Self::MigInstances(places) => {
                let each: Vec<_> = places
                    .iter()
                    .map(|place| format!("{} at {}", place.profile, place.start))
                    .collect();
                each.join(", ")
            }
            Self::PowerLimit(milliwatts) => format!("{} W", watts(*milliwatts)),
            Self::GpuClocks(None) | Self::MemoryClocks(None) => "not locked".to_owned(),
            Self::GpuClocks(Some(clocks)) | Self::MemoryClocks(Some(clocks)) => clocks.to_string(),
            Self::ComputeMode(mode) => mode.as_str().to_owned(),
        }
    }

    /// The option of gpusetup that requests it, without the dashes.
    pub fn option(&self) -> &'static str {
        match self {
            Self::Persistence(_) => "persistence",
            Self::Ecc(_) => "ecc",
            Self::PowerLimit(_) => "power-limit",
            Self::GpuClocks(_) => "gpu-clocks",
            Self::MemoryClocks(_) => "memory-clocks",
            Self::ComputeMode(_) => "compute-mode",
            Self::Accounting(_) => "accounting",
            Self::MigMode(_) | Self::MigActive { .. } | Self::MigInstances(_) => "mig",
        }
    }

    /// The value of that option.
    pub fn option_value(&self) -> String {
        match self {
            Self::PowerLimit(milliwatts) => watts(*milliwatts),
            Self::GpuClocks(None) | Self::MemoryClocks(None) => "default".to_owned(),
            Self::GpuClocks(Some(clocks)) | Self::MemoryClocks(Some(clocks)) => clocks.argument(),
            Self::Persistence(_)
            | Self::Ecc(_)
            | Self::ComputeMode(_)
            | Self::Accounting(_)
            | Self::MigMode(_)
            | Self::MigActive { .. }
            | Self::MigInstances(_) => self.value(),
        }
    }

    /// A range of its values in a sentence: "100 to 400 W".
    pub fn shown_range(&self, (least, most): (u32, u32)) -> String {
        match self {
            Self::PowerLimit(_) => format!("{} to {} W", watts(least), watts(most)),
            _ => format!("{least} to {most} MHz"),
        }
    }

    /// The arguments of `nvidia-smi` that set it, without those that choose the GPU.
    pub fn smi(&self) -> Vec<String> {
        let switch = |on: bool| u8::from(on).to_string();
        let (option, value) = match self {
            Self::Persistence(on) => ("-pm", Some(switch(*on))),
            Self::Ecc(on) => ("-e", Some(switch(*on))),
            Self::PowerLimit(milliwatts) => ("-pl", Some(watts(*milliwatts))),
            Self::GpuClocks(clocks) => (
                if clocks.is_some() { "-lgc" } else { "-rgc" },
                clocks.map(Clocks::argument),
            ),
            Self::MemoryClocks(clocks) => (
                if clocks.is_some() { "-lmc" } else { "-rmc" },
                clocks.map(Clocks::argument),
            ),
            Self::ComputeMode(mode) => ("-c", Some(mode.smi().to_owned())),
            Self::Accounting(on) => ("-am", Some(switch(*on))),
            Self::MigMode(on) => ("-mig", Some(switch(*on))),
            // These take several commands.
            Self::MigActive { .. } | Self::MigInstances(_) => return Vec::new(),
        };
        [option.to_owned()].into_iter().chain(value).collect()
    }
}

impl DeviceState {
    /// The lines of a script that set it, if one call of nvidia-smi does not. `gpu` is quoted.
    pub fn script(&self, gpu: &str) -> Option<String> {
        let places = match self {
            Self::MigInstances(places) => places,
            Self::MigActive { on, others } => return Some(reset_unless_active(gpu, *on, others)),
            _ => return None,
        };
        // The commands that remove instances fail if there is none.
        let mut out: String = smi::remove(&gpu, &[])
            .map(|command| format!("{command} || true\n"))
            .concat();
        let mut places: Vec<_> = places.iter().collect();
        places.sort_by_key(|place| (std::cmp::Reverse(place.size), place.start));
        let each = places
            .into_iter()
            .map(|place| quoted(&smi::instance(place.id, &place.profile, Some(place.start))));
        out.extend(
            smi::create(&gpu, &each.collect::<Vec<_>>()).map(|command| format!("{command}\n")),
        );
        Some(out)
    }
}

/// The line of a script that resets a GPU whose mode waits for that, together with others. `gpu` is
/// quoted.
fn reset_unless_active(gpu: &str, on: bool, others: &[String]) -> String {
    let wanted = if on { "Enabled" } else { "Disabled" };
    let all: Vec<_> = std::iter::once(gpu.to_owned())
        .chain(others.iter().map(|other| quoted(other)))
        .collect();
    format!(
        "[ \"$(nvidia-smi -i {gpu} --query-gpu=mig.mode.current --format=csv,noheader)\" = {wanted} ] || nvidia-smi --gpu-reset -i {}\n",
        all.join(",")
    )
}

impl Reading {
    /// The state that the GPU has after the next reset, or now if none is pending.
    pub fn chosen(&self) -> Option<&DeviceState> {
        self.after_reset.as_ref().or(self.now.as_ref())
    }
}

impl Clocks {
    fn argument(self) -> String {
        format!("{},{}", self.least, self.most)
    }
}

impl std::fmt::Display for Clocks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.least == self.most {
            true => write!(f, "{} MHz", self.most),
            false => write!(f, "{}-{} MHz", self.least, self.most),
        }
    }
}

impl ComputeMode {
    /// Its name, as options and messages have it.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Exclusive => "exclusive-process",
            Self::Prohibited => "prohibited",
        }
    }

    /// Its name for `nvidia-smi -c`.
    fn smi(self) -> &'static str {
        match self {
            Self::Default => "DEFAULT",
            Self::Exclusive => "EXCLUSIVE_PROCESS",
            Self::Prohibited => "PROHIBITED",
        }
    }

    fn number(self) -> u32 {
        match self {
            Self::Default => 0,
            Self::Prohibited => 2,
            Self::Exclusive => 3,
        }
    }
}

/// Milliwatts as watts, with the decimals that there are: `300`, `82.5`.
fn watts(milliwatts: u32) -> String {
    (f64::from(milliwatts) / 1000.0).to_string()
}

/// The child's answer: reads a GPU's state, or sets it and reads it again. None if the arguments
/// are not valid.
pub(crate) fn answer(
    library: &str,
    gpu: &str,
    verb: &str,
    state: &str,
) -> Option<Result<Reading, Refused>> {
    let (verb, _) = Verb::ALL.into_iter().find(|(_, name)| *name == verb)?;
    let state: DeviceState = serde_json::from_str(state).ok()?;
    Some(answered(library, gpu, verb, &state))
}

fn answered(library: &str, gpu: &str, verb: Verb, state: &DeviceState) -> Result<Reading, Refused> {
    let nvml = opened(library)?;
    if verb == Verb::Set {
        set(&named(&nvml, gpu)?, state)?;
    }
    // Without persistence mode, GPUs whose memory is the system's get a new handle.
    reading(&named(&nvml, gpu)?, state)
}

fn named<'a>(nvml: &'a Library, gpu: &str) -> Result<Device<'a>, Refused> {
    if gpu.starts_with("GPU-") {
        asked("nvmlDeviceGetHandleByUUID", || nvml.device_by_uuid(gpu))
    } else {
        asked("nvmlDeviceGetHandleByPciBusId_v2", || nvml.device_at(gpu))
    }
}

fn set(device: &Device, state: &DeviceState) -> Result<(), Refused> {
    match *state {
        DeviceState::Persistence(on) => asked("nvmlDeviceSetPersistenceMode", || {
            device.set_persistence(on)
        }),
        DeviceState::Ecc(on) => asked("nvmlDeviceSetEccMode", || device.set_ecc(on)),
        DeviceState::PowerLimit(limit) => asked("nvmlDeviceSetPowerManagementLimit", || {
            device.set_power_limit(limit)
        }),
        DeviceState::GpuClocks(Some(clocks)) => asked("nvmlDeviceSetGpuLockedClocks", || {
            device.lock_gpu_clocks(clocks)
        }),
        DeviceState::GpuClocks(None) => asked("nvmlDeviceResetGpuLockedClocks", || {
            device.unlock_gpu_clocks()
        }),
        DeviceState::MemoryClocks(Some(clocks)) => asked("nvmlDeviceSetMemoryLockedClocks", || {
            device.lock_memory_clocks(clocks)
        }),
        DeviceState::MemoryClocks(None) => asked("nvmlDeviceResetMemoryLockedClocks", || {
            device.unlock_memory_clocks()
        }),
        DeviceState::ComputeMode(mode) => asked("nvmlDeviceSetComputeMode", || {
            device.set_compute_mode(mode.number())
        }),
        DeviceState::Accounting(on) => {
            asked("nvmlDeviceSetAccountingMode", || device.set_accounting(on))
        }
        DeviceState::MigMode(on) => mig::set_mode(device, on),
        // A reset needs nvidia-smi, and that no program has the GPU open.
        DeviceState::MigActive { .. } => Ok(()),
        DeviceState::MigInstances(ref places) => mig::set_instances(device, places),
    }
}

/// What a GPU reports about a piece of its state.
pub(super) fn reading(device: &Device, of: &DeviceState) -> Result<Reading, Refused> {
    let is = |now| {
        Ok(Reading {
            now: Some(now),
            after_reset: None,
            range: None,
        })
    };
    match of {
        DeviceState::Persistence(_) => is(DeviceState::Persistence(asked(
            "nvmlDeviceGetPersistenceMode",
            || device.is_persistent(),
        )?)),
        DeviceState::Ecc(_) => {
            let (now, then) = asked("nvmlDeviceGetEccMode", || device.ecc())?;
            let after_reset = (now != then).then_some(DeviceState::Ecc(then));
            Ok(Reading {
                now: Some(DeviceState::Ecc(now)),
                after_reset,
                range: None,
            })
        }
        DeviceState::PowerLimit(_) => {
            let limit = asked("nvmlDeviceGetPowerManagementLimit", || device.power_limit())?;
            let range = asked("nvmlDeviceGetPowerManagementLimitConstraints", || {
                device.power_range()
            })
            .ok();
            Ok(Reading {
                now: Some(DeviceState::PowerLimit(limit)),
                after_reset: None,
                range,
            })
        }
        DeviceState::GpuClocks(_) => {
            let memory = asked("nvmlDeviceGetSupportedMemoryClocks", || {
                device.memory_clocks()
            })?;
            let fastest = memory.iter().copied().max().unwrap_or_default();
            let clocks = asked("nvmlDeviceGetSupportedGraphicsClocks", || {
                device.gpu_clocks(fastest)
            })?;
            Ok(Reading {
                now: None,
                after_reset: None,
                range: extent(&clocks),
            })
        }
        DeviceState::MemoryClocks(_) => {
            let clocks = asked("nvmlDeviceGetSupportedMemoryClocks", || {
                device.memory_clocks()
            })?;
            Ok(Reading {
                now: None,
                after_reset: None,
                range: extent(&clocks),
            })
        }
        DeviceState::ComputeMode(_) => {
            let mode = asked("nvmlDeviceGetComputeMode", || device.compute_mode())?;
            Ok(Reading {
                now: compute_mode(mode).map(DeviceState::ComputeMode),
                after_reset: None,
                range: None,
            })
        }
        DeviceState::MigMode(_) => {
            let (now, then) = asked("nvmlDeviceGetMigMode", || device.mig())?;
            let after_reset = (now != then).then_some(DeviceState::MigMode(then));
            Ok(Reading {
                now: Some(DeviceState::MigMode(now)),
                after_reset,
                range: None,
            })
        }
        DeviceState::MigActive { others, .. } => {
            let (now, _) = asked("nvmlDeviceGetMigMode", || device.mig())?;
            is(DeviceState::MigActive {
                on: now,
                others: others.clone(),
            })
        }
        DeviceState::MigInstances(like) => {
            is(DeviceState::MigInstances(mig::instances(device, like)?))
        }
        DeviceState::Accounting(_) => is(DeviceState::Accounting(asked(
            "nvmlDeviceGetAccountingMode",
            || device.is_accounting(),
        )?)),
    }
}

fn extent(clocks: &[u32]) -> Option<(u32, u32)> {
    Some((clocks.iter().copied().min()?, clocks.iter().copied().max()?))
}
