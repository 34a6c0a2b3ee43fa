//! Checks that a toolkit compiles: a small program is compiled, linked and started from a login
//! shell, as a user would do it. That nvcc prints its version proves little: it also needs a C++
//! host compiler, and headers that work with those of the C library.

use gpusetup_host::Facts;
use gpusetup_operation::Run;
use std::collections::BTreeSet;

/// The check as a shell script: a login shell selects nvcc and the host compiler.
const SCRIPT: &str = include_str!("compile/check.sh");
/// The script's `$0`.
const NAME: &str = "compile-check";
/// The program's output when it started, and computed or found no GPU.
const STARTED: &str = "compile check: the program started";
/// The program's output when it found a GPU but could not compute on it.
const NO_RESULT: &str = "compile check: the program cannot compute";
/// Seconds. Compiling takes two to five seconds per architecture, minutes on an emulated machine.
const LIMIT: u64 = 900;

/// The command that checks `nvcc`, a name or a path, for the GPUs of a host. If no GPU is known,
/// nvcc uses its default architecture.
pub fn argv(nvcc: &str, facts: &Facts) -> Vec<String> {
    let capabilities: BTreeSet<_> = facts
        .gpus
        .iter()
        .filter_map(|g| g.compute_capability)
        .collect();
    let targets = capabilities.into_iter().map(|capability| {
        let sm = capability.sm();
        format!("-gencode=arch={},code={sm}", sm.replace("sm_", "compute_"))
    });
    ["/bin/sh", "-c", SCRIPT, NAME, nvcc]
        .into_iter()
        .map(str::to_owned)
        .chain(targets)
        .collect()
}

/// The operation that runs the check.
pub fn operation(nvcc: &str, facts: &Facts) -> Run {
    Run {
        limit: LIMIT,
        ..Run::ask(argv(nvcc, facts), Some(STARTED.to_owned()))
    }
}

/// The line that the compiled program printed, if it started; it also says whether the program
/// could compute.
pub fn started(output: &str) -> Option<&str> {
    output
        .lines()
        .find(|line| line.starts_with(STARTED) || line.starts_with(NO_RESULT))
}

/// Why a compile failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// The host has no C++ compiler.
    NoCompiler,
    /// nvcc is configured to use a host compiler that compiles C++ but does not link the C++
    /// library.
    LinksC,
    /// The host compiler is newer than nvcc supports.
    NewCompiler,
    /// The C library is newer than the toolkit's headers.
    NewLibrary,
    /// nvcc does not compile for the architecture of a GPU.
    Architecture,
    /// A part of the toolkit is missing.
    Incomplete,
}

impl Cause {
    /// The cause, from the output of nvcc and the host compiler.
    pub fn of(output: &str) -> Option<Self> {
        const SIGNS: [(&str, Cause); 14] = [
            ("cc1plus", Cause::NoCompiler),
            ("unsupported GNU version", Cause::NewCompiler),
            ("exception specification is incompatible", Cause::NewLibrary),
            ("Unsupported gpu architecture", Cause::Architecture),
            (
                "is not defined for option 'gpu-architecture'",
                Cause::Architecture,
            ),
            ("cuda_runtime.h: No such file", Cause::Incomplete),
            ("crt/host_config.h: No such file", Cause::Incomplete),
            ("cannot find -lcudart", Cause::Incomplete),
            ("cicc: not found", Cause::Incomplete),
            ("cmath: No such file", Cause::NoCompiler),
            ("cstdio: No such file", Cause::NoCompiler),
            ("cannot find -lstdc++", Cause::NoCompiler),
            ("undefined reference to `std::", Cause::LinksC),
            (
                "Failed to preprocess host compiler properties",
                Cause::NoCompiler,
            ),
        ];
        SIGNS
            .iter()
            .find(|(sign, _)| output.contains(sign))
            .map(|(_, cause)| *cause)
    }

    /// Whether the cause is the host's compiler or C library, and not the toolkit.
    pub fn is_of_the_host(self) -> bool {
        matches!(
            self,
            Self::NoCompiler | Self::LinksC | Self::NewCompiler | Self::NewLibrary
        )
    }

    /// The cause and the remedy, in one sentence.
    pub fn sentence(self) -> &'static str {
        match self {
            Self::NoCompiler => "g++ is missing: install g++ (gcc-c++ on RPM systems)",
            Self::LinksC => {
                "nvcc is configured to use gcc, which does not link the C++ library: use g++ instead"
            }
            Self::NewCompiler => {
                "the host's gcc is newer than this CUDA supports: install an older g++ as well, or choose a newer CUDA"
            }
            Self::NewLibrary => {
                "the host's C library (glibc) is newer than this CUDA's headers support: choose a newer CUDA"
            }
            Self::Architecture => {
                "this CUDA does not support the architecture of a GPU of this host: choose another CUDA"
            }
            Self::Incomplete => "a part of the toolkit is missing: install the toolkit again",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_compilers_say_names_the_cause() {
        let outputs = [
            (
                "gcc: fatal error: cannot execute 'cc1plus': posix_spawnp: No such file or directory\ncompilation terminated.\n\
              nvcc fatal   : Failed to preprocess host compiler properties.",
                Cause::NoCompiler,
            ),
            (
                "gcc-13: fatal error: cannot execute 'cc1plus': execvp: No such file or directory",
                Cause::NoCompiler,
            ),
            (
                "/x/crt/host_config.h:143:2: error: #error -- unsupported GNU version! gcc versions later than 13 are not supported!",
                Cause::NewCompiler,
            ),
            (
                "/usr/include/x86_64-linux-gnu/bits/mathcalls.h(79): error: exception specification is incompatible with that of previous function \"cospi\"",
                Cause::NewLibrary,
            ),
            (
                "nvcc fatal   : Unsupported gpu architecture 'compute_35'",
                Cause::Architecture,
            ),
            (
                "check.cudafe1.cpp:(.text+0x52): undefined reference to `std::__throw_length_error(char const*)'",
                Cause::LinksC,
            ),
        ];
        for (text, cause) in outputs {
            assert_eq!(Cause::of(text), Some(cause), "{text}");
        }
        assert_eq!(Cause::of("compile check: compiled and linked"), None);
    }

    #[test]
    fn a_program_that_started_is_told_from_one_that_was_only_compiled() {
        let line = "compile check: the program started; cudaGetDeviceCount: no CUDA-capable device is detected (100)";
        assert_eq!(
            started(&format!("compile check: compiled and linked\n{line}\n")),
            Some(line)
        );
        assert!(
            started("compile check: the program cannot compute; cudaMalloc: busy (46)\n").is_some()
        );
        assert_eq!(
            started("compile check: compiled and linked\nSegmentation fault\n"),
            None
        );
    }
}
