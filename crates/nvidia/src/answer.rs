//! The child process that loads a library and prints its answer.

use super::{add_on, cuda, cudnn, nvml};
use clap::ValueEnum;
use gpusetup_database::compat::CallForm;
use serde::Serialize;

/// The exit status of a child that failed before it loaded the library.
pub(crate) const CANNOT_ASK: u8 = 3;

/// The question that a child asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Query {
    /// NVML: what it reports about the driver and every GPU.
    Nvml,
    /// NVML: a piece of a GPU's state, read or set. The arguments after the library are the GPU,
    /// `read` or `set`, and the state; or only a list of states, which are read from every GPU.
    Device,
    /// NVML: how the GPUs are partitioned (MIG).
    Mig,
    /// CUDA's driver library: whether it starts, and computes on every GPU.
    Cuda,
    /// An add-on: its version. The arguments after the library are the function and its calling
    /// convention.
    AddOn,
    /// cuDNN, and CUDA's driver library: whether a small convolution is correct.
    Convolution,
}

/// Runs in the child: prints a library's answer. Returns the exit status.
pub fn answer(about: Query, arguments: &[String]) -> u8 {
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match (about, arguments.as_slice()) {
        (Query::Nvml, [library]) => say(&nvml::read_table(library)),
        (Query::Device, [library, states]) => {
            nvml::surveyed(library, states).map_or(CANNOT_ASK, |readings| say(&readings))
        }
        (Query::Device, [library, gpu, verb, state]) => {
            nvml::state(library, gpu, verb, state).map_or(CANNOT_ASK, |reading| say(&reading))
        }
        (Query::Mig, [library]) => say(&nvml::read_mig(library)),
        (Query::Cuda, [library]) => say(&cuda::answer(library)),
        (Query::AddOn, [library, function, form]) => version(library, function, form),
        (Query::Convolution, [cudnn]) => say(&cudnn::convolution(cudnn, "libcuda.so.1")),
        (Query::Convolution, [cudnn, cuda]) => say(&cudnn::convolution(cudnn, cuda)),
        _ => CANNOT_ASK,
    }
}

#[allow(clippy::print_stderr)]
fn version(library: &str, function: &str, form: &str) -> u8 {
    let Some(form) = CallForm::of_name(form) else {
        return CANNOT_ASK;
    };
    match add_on::version(library, function, form) {
        Ok(numbers) => say(&numbers),
        Err(refused) => {
            eprintln!("{}", refused.says);
            1
        }
    }
}

#[allow(clippy::print_stdout, clippy::print_stderr)]
fn say(answer: &impl Serialize) -> u8 {
    match serde_json::to_string(answer) {
        Ok(text) => {
            println!("\n{text}");
            0
        }
        Err(e) => {
            eprintln!("{e}");
            1
        }
    }
}
