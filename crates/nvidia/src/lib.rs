//! Calls NVIDIA's own libraries: the driver's management library (NVML), CUDA's driver library,
//! cuDNN. Each is called in a child process with a time limit, because a broken driver hangs or
//! kills its callers. Only [`DeviceState::set`] and [`reset()`] change the host. The side effects
//! of any client remain: nvidia-modprobe creates device files and loads CUDA's kernel module.
//!
//! The only place with `unsafe`, which calls of foreign code need.

// clippy.toml lists what only `gpusetup-system` may call.
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod add_on;
mod answer;
mod ask;
mod calling;
mod cuda;
mod cudnn;
mod nvml;
mod reset;

pub use answer::{Query, answer};
pub use ask::{Question, SUBCOMMAND, ask, ask_version, has_stand_ins, limit, own};
pub use cuda::{Cuda, CudaGpu, KERNEL, Kernel};
pub use cudnn::Convolution;
pub use nvml::table::{
    Clock, ClockLimit, ClockReadings, ComputeMode, EccReading, ErrorCounts, Fabric, FabricState,
    GpuPair, GpuProcess, GpuReading, GpuTable, LinkEnd, MemoryReading, MigDevice, MigReading,
    MigShare, NvLink, PcieLink, PowerReading, ProcessKind, Recovery, RemappedRows, RetiredPages,
    Temperature, TopologyLevel, VgpuLicence, Virtualization,
};
pub use nvml::{
    Clocks, DeviceReadings, DeviceState, MigGpu, MigHost, MigInstance, MigMode, MigPlace,
    MigProfileInfo, Reading, StateReading, codes, smi, survey,
};

pub use reset::reset;

use gpusetup_database::version::CudaVersion;
use gpusetup_system::System;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// The driver's management library.
pub const NVML: &str = "libnvidia-ml.so.1";

/// The answer of a program, a library or a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(rename = "Answer_{T}", deny_unknown_fields)
)]
#[serde(rename_all = "kebab-case")]
pub enum Answer<T> {
    /// The answer.
    Is(T),
    /// Asking failed, for this reason: that is a finding.
    Failed(String),
    /// It was not asked, for this reason: that is not a finding.
    NotAsked(String),
}

impl<T> Answer<T> {
    /// What the answer means; an answer without a meaning has failed, for this reason.
    pub fn and_then<U>(self, meaning: impl FnOnce(T) -> Result<U, String>) -> Answer<U> {
        match self {
            Self::Is(answer) => meaning(answer).map_or_else(Answer::Failed, Answer::Is),
            Self::Failed(why) => Answer::Failed(why),
            Self::NotAsked(why) => Answer::NotAsked(why),
        }
    }
}

impl<T> Default for Answer<T> {
    fn default() -> Self {
        Self::NotAsked("it was not checked".to_owned())
    }
}

/// A call that a library refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct Refused {
    /// The function, `cuInit`; for a missing or incomplete library, the attempted action.
    pub call: String,
    /// The library's error code. None if there is no library.
    pub code: Option<i32>,
    /// The library's message.
    pub says: String,
}

impl Refused {
    /// Whether NVML says with this that a GPU is faulty: power, interrupts, infoROM, lost, reset
    /// required.
    pub fn is_of_faulty_gpu(&self) -> bool {
        matches!(
            self.code,
            Some(
                codes::NO_POWER
                    | codes::NO_INTERRUPTS
                    | codes::BAD_INFOROM
                    | codes::GPU_LOST
                    | codes::RESET_REQUIRED
            )
        )
    }
}

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.code {
            Some(code) => write!(f, "{}: {} ({code})", self.call, self.says),
            None => write!(f, "{}: {}", self.call, self.says),
        }
    }
}

/// The version that NVML and CUDA encode as a number: 12080 is 12.8.
fn cuda_version(number: i32) -> Option<CudaVersion> {
    let number = u16::try_from(number).ok().filter(|n| *n >= 1000)?;
    Some(CudaVersion {
        major: number / 1000,
        minor: number % 1000 / 10,
        patch: None,
    })
}

/// The path of a loaded library, as the loader chose it: it shows whether a library is the driver's
/// or a stub.
fn loaded_from(name: &str) -> Option<std::path::PathBuf> {
    let maps = System::live().read_text("/proc/self/maps").ok()??;
    let mut paths = maps
        .lines()
        .filter_map(|line| line.find('/').map(|at| Path::new(&line[at..])));
    let path = paths.find(|path| {
        path.file_name()
            .is_some_and(|n| n.to_string_lossy().starts_with(name))
    });
    path.map(Path::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuda_codes_its_version_in_one_number() {
        let text = |n| cuda_version(n).map(|v| v.to_string());
        assert_eq!(text(12080).as_deref(), Some("12.8"));
        assert_eq!(text(13000).as_deref(), Some("13.0"));
        assert_eq!((text(0), text(-1), text(i32::MAX)), (None, None, None));
    }
}
