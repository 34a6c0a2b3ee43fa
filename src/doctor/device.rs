//! What only NVIDIA's own libraries tell: the driver's management library (NVML), CUDA's driver library, cuDNN. Each is asked
//! in a process of its own, with a time limit: a sick driver hangs or ends whoever calls it. Nothing that changes the host is
//! called; what any client brings about (device files that nvidia-modprobe makes, CUDA's own kernel module) is.
//!
//! The one place with `unsafe`: foreign code cannot be called without it.

mod child;
mod cuda;
mod cudnn;
mod nvml;

pub use child::{Library, SUBCOMMAND, answer, ask_in_child};
pub use cuda::{Cuda, CudaGpu, KERNEL, Kernel};
pub use cudnn::{Convolution, decoded};
pub use nvml::{
    ComputeMode, Ecc, Fabric, FabricState, Links, Mig, Nvml, NvmlGpu, Power, Recovery, RemappedRows, RetiredPages,
    Slowdown, Way,
};

use super::Answer;
use crate::host::{Facts, MachineKind, holders};
use crate::system::System;
use crate::version::{CudaVersion, CudnnVersion};
use child::{Question, own};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

/// A call that a library refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused {
    /// The function, `cuInit`; of a library that was not found or is not whole, what was tried.
    pub call: String,
    /// The library's own number for it; none where there is no library to say one.
    pub code: Option<i32>,
    /// The library's own word for it.
    pub says: String,
}

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.code {
            Some(code) => write!(f, "{}: {} ({code})", self.call, self.says),
            None => write!(f, "{}: {}", self.call, self.says),
        }
    }
}

/// What the libraries of a host said, and what belongs to their answers.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Told {
    /// NVML.
    pub nvml: Answer<Nvml>,
    /// CUDA's driver library.
    pub cuda: Answer<Cuda>,
    /// A small convolution by each cuDNN, by SONAME.
    pub convolution: BTreeMap<String, Answer<Convolution>>,
    /// Who has the GPUs' devices open; looked up only where they are in somebody's way.
    pub holders: Vec<String>,
}

impl Told {
    /// Nobody was asked, for this reason.
    pub fn nothing(why: &str, cudnn: &[String]) -> Self {
        Self {
            nvml: Answer::NotAsked(why.to_owned()),
            cuda: Answer::NotAsked(why.to_owned()),
            convolution: cudnn.iter().map(|soname| (soname.clone(), Answer::NotAsked(why.to_owned()))).collect(),
            holders: Vec::new(),
        }
    }
}

/// Asks NVML and CUDA side by side, then cuDNN where CUDA computes.
pub fn told(system: &System, facts: &Facts, cudnn: &[String]) -> Told {
    if let Some(why) = silent(system, facts) {
        return Told::nothing(&why, cudnn);
    }
    // Without a persistence daemon each GPU is brought up anew for whoever asks, some seconds a piece.
    let each = Duration::from_secs(5) * u32::try_from(facts.gpus.len()).unwrap_or(1).max(1);
    let limit = |seconds| child::limit(Duration::from_secs(seconds) + each);
    let (nvml, cuda) = std::thread::scope(|scope| {
        let nvml = Question::new(Library::Nvml, ["libnvidia-ml.so.1"]).limit(limit(10));
        let nvml = scope.spawn(move || child::ask::<Nvml>(own(), &nvml));
        let cuda = Question::new(Library::Cuda, ["libcuda.so.1"]).limit(limit(30));
        let cuda: Answer<Cuda> = child::ask(own(), &cuda);
        (nvml.join().unwrap_or_else(|_| Answer::NotAsked("it was not asked".to_owned())), cuda)
    });
    let computes = matches!(&cuda, Answer::Is(cuda) if cuda.computes());
    let convolution = cudnn.iter().map(|soname| {
        if !computes {
            return (soname.clone(), Answer::NotAsked("CUDA itself does not compute".to_owned()));
        }
        let question = Question::new(Library::Convolution, [soname, "libcuda.so.1"]).limit(limit(60));
        (soname.clone(), child::ask(own(), &question))
    });
    let convolution = convolution.collect();
    let in_the_way = matches!(&nvml, Answer::Is(nvml) if nvml.gpus.iter().any(NvmlGpu::awaits_reset));
    let holders = if in_the_way { holders(system).iter().map(ToString::to_string).collect() } else { Vec::new() };
    Told { nvml, cuda, convolution, holders }
}

/// Why nobody is asked, if so.
fn silent(system: &System, facts: &Facts) -> Option<String> {
    if child::has_stand_ins() {
        return None;
    }
    if !system.is_live() {
        return Some("the driver of a tree does not run".to_owned());
    }
    let cached = facts.loader_cache.iter().flat_map(|c| &c.entries);
    let has_library = cached.into_iter().any(|(soname, _)| soname == "libnvidia-ml.so.1" || soname == "libcuda.so.1");
    let has_device = system.exists("/dev/nvidiactl");
    // A container may have been given the GPUs without the libraries, which is worth a word.
    let given = facts.machine.kind == MachineKind::Container && has_device;
    if facts.driver.is_none() && !has_library && !given {
        return Some("no NVIDIA driver is installed".to_owned());
    }
    match facts.machine.kind {
        // Theirs is on no bus, and behind devices of other names.
        MachineKind::Wsl2 | MachineKind::Jetson => {}
        MachineKind::Container if !has_device => return Some("the container was given no GPU".to_owned()),
        _ if facts.gpus.is_empty() && !has_device => return Some("there is no NVIDIA GPU".to_owned()),
        _ => {}
    }
    // A client would have nvidia-modprobe load it, which changes the host.
    let own_kernel = matches!(facts.machine.kind, MachineKind::Physical | MachineKind::Virtual);
    let loaded = facts.loaded_modules.as_ref().is_none_or(|all| all.iter().any(|m| m.name == "nvidia"));
    (own_kernel && !loaded).then(|| "the nvidia module is not loaded".to_owned())
}

/// What the library that this machine's loader finds for `soname` (or the one at a path) answers, by a child.
pub fn cudnn_version(soname: &str) -> Answer<CudnnVersion> {
    // Loading reads some hundred megabytes, cold.
    ask_in_child(own(), soname, Duration::from_secs(30))
}

/// 12080 is 12.8, in NVML and in CUDA.
fn cuda_version(number: i32) -> Option<CudaVersion> {
    let number = u16::try_from(number).ok().filter(|n| *n >= 1000)?;
    Some(CudaVersion { major: number / 1000, minor: number % 1000 / 10, patch: None })
}

/// Where a library that is loaded lies: the loader's choice, which tells a driver's own from a stub.
fn loaded_from(name: &str) -> Option<std::path::PathBuf> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let paths = maps.lines().filter_map(|line| line.find('/').map(|at| Path::new(&line[at..])));
    let is_it = |path: &&Path| path.file_name().is_some_and(|n| n.to_string_lossy().starts_with(name));
    paths.into_iter().find(is_it).map(Path::to_owned)
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
