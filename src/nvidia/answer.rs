//! The child process that loads a library and prints what it says.

use super::{cuda, cudnn, nvml};
use clap::ValueEnum;
use serde::Serialize;

/// The exit status of a child that could not get as far as the library.
pub const CANNOT_ASK: u8 = 3;

/// What a child asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Library {
    /// The driver's management library: everything it says of the GPUs.
    Nvml,
    /// CUDA's driver library: whether it starts, and computes on every GPU.
    Cuda,
    /// cuDNN: its version.
    Cudnn,
    /// cuDNN, and CUDA's driver library: whether a small convolution is right.
    Convolution,
}

/// The child's part: prints what a library says. The number is the exit status.
#[allow(clippy::print_stderr)]
pub fn answer(about: Library, libraries: &[String]) -> u8 {
    let (first, second) = match libraries {
        [first] => (first.as_str(), "libcuda.so.1"),
        [first, second] => (first.as_str(), second.as_str()),
        _ => return CANNOT_ASK,
    };
    match about {
        Library::Nvml => say(&nvml::answer(first)),
        Library::Cuda => say(&cuda::answer(first)),
        Library::Cudnn => match cudnn::version(first) {
            Ok(version) => say(&version),
            Err(refused) => {
                eprintln!("{}", refused.says);
                1
            }
        },
        Library::Convolution => say(&cudnn::convolution(first, second)),
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
