//! Asks the NVIDIA libraries of the examined host, or says why they are not asked.

use crate::compat::AddOn;
use crate::host::{Facts, MachineKind, holders};
use crate::nvidia::{
    self, Answer, Convolution, Cuda, Library, Nvml, NvmlGpu, Question, ask, ask_version, has_stand_ins, own,
};
use crate::system::System;
use crate::version::AddOnVersion;
use std::collections::BTreeMap;
use std::time::Duration;

/// The answers of a host's libraries.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Readings {
    /// NVML.
    pub nvml: Answer<Nvml>,
    /// CUDA's driver library.
    pub cuda: Answer<Cuda>,
    /// The result of a small convolution with each cuDNN, by SONAME.
    pub convolution: BTreeMap<String, Answer<Convolution>>,
    /// The programs that have the GPUs' devices open; read only if a GPU waits for a reset.
    pub holders: Vec<String>,
}

impl Readings {
    /// No library was asked, for this reason.
    pub fn nothing(why: &str, cudnn: &[String]) -> Self {
        Self {
            nvml: Answer::NotAsked(why.to_owned()),
            cuda: Answer::NotAsked(why.to_owned()),
            convolution: cudnn.iter().map(|soname| (soname.clone(), Answer::NotAsked(why.to_owned()))).collect(),
            holders: Vec::new(),
        }
    }
}

/// Asks NVML and CUDA in parallel, then cuDNN if CUDA computes.
pub fn told(system: &System, facts: &Facts, cudnn: &[String]) -> Readings {
    if let Some(why) = silent(system, facts) {
        return Readings::nothing(&why, cudnn);
    }
    // Without a persistence daemon each GPU is initialised again for every client, which takes some seconds per GPU.
    let each = Duration::from_secs(5) * u32::try_from(facts.gpus.len()).unwrap_or(1).max(1);
    let limit = |seconds| nvidia::limit(Duration::from_secs(seconds) + each);
    let (nvml, cuda) = std::thread::scope(|scope| {
        let nvml = Question::new(Library::Nvml, ["libnvidia-ml.so.1"]).limit(limit(10));
        let nvml = scope.spawn(move || ask::<Nvml>(own(), &nvml));
        let cuda = Question::new(Library::Cuda, ["libcuda.so.1"]).limit(limit(30));
        let cuda: Answer<Cuda> = ask(own(), &cuda);
        (nvml.join().unwrap_or_else(|_| Answer::NotAsked("it was not asked".to_owned())), cuda)
    });
    let computes = matches!(&cuda, Answer::Is(cuda) if cuda.computes());
    let convolution = cudnn.iter().map(|soname| {
        if !computes {
            return (soname.clone(), Answer::NotAsked("CUDA itself does not compute".to_owned()));
        }
        let question = Question::new(Library::Convolution, [soname, "libcuda.so.1"]).limit(limit(60));
        (soname.clone(), ask(own(), &question))
    });
    let convolution = convolution.collect();
    let in_the_way = matches!(&nvml, Answer::Is(nvml) if nvml.gpus.iter().any(NvmlGpu::awaits_reset));
    let holders = if in_the_way { holders(system).iter().map(ToString::to_string).collect() } else { Vec::new() };
    Readings { nvml, cuda, convolution, holders }
}

/// Why no library of a host is asked, if so.
pub fn silent(system: &System, facts: &Facts) -> Option<String> {
    if has_stand_ins() {
        return None;
    }
    if !system.is_live() {
        return Some("a tree has no running driver".to_owned());
    }
    let cached = facts.loader_cache.iter().flat_map(|c| &c.entries);
    let has_library = cached.into_iter().any(|(soname, _)| soname == "libnvidia-ml.so.1" || soname == "libcuda.so.1");
    let has_device = system.exists("/dev/nvidiactl");
    // A container may have the GPUs without the libraries, which is a finding.
    let given = facts.machine.kind == MachineKind::Container && has_device;
    if facts.driver.is_none() && !has_library && !given {
        return Some("no NVIDIA driver is installed".to_owned());
    }
    match facts.machine.kind {
        // Their GPU is not on the PCI bus, and its devices have other names.
        MachineKind::Wsl2 | MachineKind::Jetson => {}
        MachineKind::Container if !has_device => return Some("the container has no GPU".to_owned()),
        _ if facts.gpus.is_empty() && !has_device => return Some("there is no NVIDIA GPU".to_owned()),
        _ => {}
    }
    // A client would make nvidia-modprobe load it, which changes the host.
    let own_kernel = matches!(facts.machine.kind, MachineKind::Physical | MachineKind::Virtual);
    let loaded = facts.driver_is_loaded() != Some(false);
    (own_kernel && !loaded).then(|| "the nvidia module is not loaded".to_owned())
}

/// The version of the library that this machine's loader finds for `soname` (or at a path), asked in a child process.
pub fn add_on_version(add_on: &AddOn, soname: &str) -> Answer<AddOnVersion> {
    // Loading reads some hundred megabytes from a cold disk.
    ask_version(own(), add_on, soname, Duration::from_secs(30))
}
