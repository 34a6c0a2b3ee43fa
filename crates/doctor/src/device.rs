//! Asks the NVIDIA libraries of the examined host, or says why they are not asked.

use gpusetup_database::compat::AddOn;
use gpusetup_database::version::AddOnVersion;
use gpusetup_gpus::{patience, read, why_silent};
use gpusetup_host::{Facts, holders};
use gpusetup_nvidia::{
    Answer, Convolution, Cuda, GpuReading, GpuTable, Query, Question, ask, ask_version, own,
};
use gpusetup_system::{System, in_parallel};
use std::collections::BTreeMap;
use std::time::Duration;

/// The answers of a host's libraries.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Readings {
    pub(crate) nvml: Answer<GpuTable>,
    /// CUDA's driver library.
    pub(crate) cuda: Answer<Cuda>,
    /// The result of a small convolution with each cuDNN, by SONAME.
    pub(crate) convolution: BTreeMap<String, Answer<Convolution>>,
    /// The programs that have the GPUs' devices open; read only if a GPU waits for a reset.
    pub(crate) holders: Vec<String>,
}

impl Readings {
    /// No library was asked, for this reason.
    pub(crate) fn nothing(why: &str, cudnn: &[String]) -> Self {
        Self {
            nvml: Answer::NotAsked(why.to_owned()),
            cuda: Answer::NotAsked(why.to_owned()),
            convolution: cudnn
                .iter()
                .map(|soname| (soname.clone(), Answer::NotAsked(why.to_owned())))
                .collect(),
            holders: Vec::new(),
        }
    }
}

/// Asks NVML and CUDA in parallel, then cuDNN if CUDA computes.
pub(crate) fn told(system: &System, facts: &Facts, cudnn: &[String]) -> Readings {
    if let Some(why) = why_silent(system, facts) {
        return Readings::nothing(&why, cudnn);
    }
    let nvml = || read(facts).and_then(|table| Ok(table.without_identities()));
    let (nvml, cuda) = std::thread::scope(|scope| {
        let nvml = in_parallel(scope, &nvml);
        let cuda = Question::new(Query::Cuda, ["libcuda.so.1"]).limit(patience(facts, 30));
        let cuda: Answer<Cuda> = ask(own(), &cuda);
        (
            nvml.join()
                .unwrap_or_else(|| Answer::NotAsked("it was not asked".to_owned())),
            cuda,
        )
    });
    let computes = matches!(&cuda, Answer::Is(cuda) if cuda.computes());
    let convolution = cudnn.iter().map(|soname| {
        if !computes {
            return (
                soname.clone(),
                Answer::NotAsked("CUDA itself does not compute".to_owned()),
            );
        }
        let question =
            Question::new(Query::Convolution, [soname, "libcuda.so.1"]).limit(patience(facts, 60));
        (soname.clone(), ask(own(), &question))
    });
    let convolution = convolution.collect();
    let in_the_way =
        matches!(&nvml, Answer::Is(nvml) if nvml.gpus.iter().any(GpuReading::awaits_reset));
    let holders = if in_the_way {
        holders(system).iter().map(ToString::to_string).collect()
    } else {
        Vec::new()
    };
    Readings {
        nvml,
        cuda,
        convolution,
        holders,
    }
}

/// The version of the library that this machine's loader finds for `soname` (or at a path), asked
/// in a child process.
pub(crate) fn add_on_version(add_on: &AddOn, soname: &str) -> Answer<AddOnVersion> {
    // Loading reads some hundred megabytes from a cold disk.
    ask_version(own(), add_on, soname, Duration::from_secs(30))
}
