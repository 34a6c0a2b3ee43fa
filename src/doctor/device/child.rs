//! The process that asks a library: how it is started, what became of it, and its own part. It says what it is about to call,
//! so that whoever waits knows where it hangs; its last line is the answer.

use super::{cuda, cudnn, nvml};
use crate::doctor::Answer;
use crate::system::{Ended, Output, Program, System, hooks};
use crate::version::CudnnVersion;
use clap::ValueEnum;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::ffi::{CString, c_char};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::time::Duration;

/// The hidden subcommand that the child runs.
pub const SUBCOMMAND: &str = "ask";

/// The exit status of a child that could not get as far as the library.
const CANNOT_ASK: u8 = 3;

/// Stands before the name of a function that is about to be called.
const CALLING: &str = "calling ";

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

/// A question, and how long an answer is waited for.
pub struct Question<'a> {
    about: Library,
    libraries: Vec<String>,
    root: Option<&'a Path>,
    limit: Duration,
}

impl<'a> Question<'a> {
    pub fn new<S: AsRef<str>>(about: Library, libraries: impl IntoIterator<Item = S>) -> Self {
        // Which cuDNN programs get is the loader's to say.
        let other = |library: &str| stand_in(library).filter(|_| about != Library::Cudnn);
        let libraries = libraries.into_iter().map(|l| other(l.as_ref()).unwrap_or_else(|| l.as_ref().to_owned()));
        Self { about, libraries: libraries.collect(), root: None, limit: Duration::from_secs(30) }
    }

    pub fn limit(self, limit: Duration) -> Self {
        Self { limit, ..self }
    }

    /// By a library of the tree, and everything else of the tree's own.
    fn inside(self, root: Option<&'a Path>) -> Self {
        Self { root, ..self }
    }
}

/// This gpusetup, whatever became of its file since.
pub fn own() -> &'static Path {
    Path::new("/proc/self/exe")
}

/// What a library said to a child.
pub fn ask<T: DeserializeOwned>(gpusetup: &Path, question: &Question) -> Answer<T> {
    let about = question.about.to_possible_value().map(|v| v.get_name().to_owned()).unwrap_or_default();
    let own = [gpusetup.display().to_string(), SUBCOMMAND.to_owned(), about].into_iter();
    let tree = question.root.map(|root| ["--root".to_owned(), root.display().to_string()]).into_iter().flatten();
    let program = Program::new(own.chain(question.libraries.clone()).chain(tree)).limit(question.limit);
    // What CUDA compiles for the GPU is kept below HOME otherwise; and its numbering is then the bus's.
    let program = program.env("CUDA_CACHE_DISABLE", "1").env("CUDA_DEVICE_ORDER", "PCI_BUS_ID");
    match System::live().run(&program) {
        Ok(output) => heard(question, &output),
        Err(e) => Answer::NotAsked(e.to_string()),
    }
}

fn heard<T: DeserializeOwned>(question: &Question, output: &Output) -> Answer<T> {
    let library = question.libraries.first().map_or("the library", String::as_str);
    let last = output.text.lines().rev().find_map(|line| line.strip_prefix(CALLING)).unwrap_or("loading");
    match output.ended {
        Ended::Status(0) => match serde_json::from_str(&output.last_lines(1)) {
            Ok(answer) => Answer::Is(answer),
            Err(_) => Answer::Failed(format!("{library} gave no answer: {}", output.last_lines(1))),
        },
        Ended::Status(status) if status == i32::from(CANNOT_ASK) => Answer::NotAsked(output.last_lines(1)),
        Ended::Status(_) => Answer::Failed(output.last_lines(1)),
        Ended::TimedOut => {
            Answer::Failed(format!("{library} did not come back from {last} within {} s", question.limit.as_secs()))
        }
        ended @ Ended::Signal(_) => {
            Answer::Failed(format!("{library} ended the process that asked it, in {last} ({ended})"))
        }
    }
}

/// What a cuDNN says its version is, asked by this gpusetup and within this time.
pub fn ask_in_child(gpusetup: &Path, system: &System, soname: &str, limit: Duration) -> Answer<CudnnVersion> {
    if !system.is_live() && !rustix::process::geteuid().is_root() {
        return Answer::NotAsked("only root may run something in the tree".to_owned());
    }
    // The child starts elsewhere.
    let root = std::path::absolute(system.root()).unwrap_or_else(|_| system.root().to_owned());
    let root = Some(&*root).filter(|_| !system.is_live());
    let question = Question::new(Library::Cudnn, [soname]).limit(limit).inside(root);
    match ask::<u32>(gpusetup, &question) {
        Answer::Is(number) => match cudnn::decoded(number) {
            Some(version) => Answer::Is(version),
            None => Answer::Failed(format!("{soname} gave no version: {number}")),
        },
        Answer::Failed(why) => Answer::Failed(why),
        Answer::NotAsked(why) => Answer::NotAsked(why),
    }
}

/// The child's part: prints what a library says. The number is the exit status.
#[allow(clippy::print_stderr)]
pub fn answer(about: Library, libraries: &[String], root: Option<&Path>) -> u8 {
    if let Some(root) = root {
        let e = enter(root, about, libraries);
        eprintln!("cannot run in {}: {e}", root.display());
        return CANNOT_ASK;
    }
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

/// Says what is called next. The line is out before the call is made, which may be the last.
pub fn calling(function: &str) {
    let mut out = io::stdout().lock();
    let _ = writeln!(out, "{CALLING}{function}").and_then(|()| out.flush());
}

/// Goes on as the same program inside the tree, by a file that is open already: everything it then loads, the C library
/// first, is the tree's own. Returns only when that fails.
fn enter(root: &Path, about: Library, libraries: &[String]) -> io::Error {
    match try_enter(root, about, libraries) {
        Ok(never) => match never {},
        Err(e) => e,
    }
}

fn try_enter(root: &Path, about: Library, libraries: &[String]) -> io::Result<std::convert::Infallible> {
    let this = File::open(own())?;
    rustix::process::chroot(root)?;
    rustix::process::chdir("/")?;
    let about = about.to_possible_value().map(|v| v.get_name().to_owned()).unwrap_or_default();
    let words = ["gpusetup", SUBCOMMAND, &about].into_iter().chain(libraries.iter().map(String::as_str));
    let arguments = words.map(CString::new).collect::<Result<Vec<_>, _>>()?;
    let mut argv: Vec<*const c_char> = arguments.iter().map(|a| a.as_ptr()).collect();
    argv.push(std::ptr::null());
    let environment: [*const c_char; 1] = [std::ptr::null()];
    // SAFETY: the strings outlive the call, and both lists end with a null.
    unsafe { libc::fexecve(this.as_raw_fd(), argv.as_ptr(), environment.as_ptr()) };
    Err(io::Error::last_os_error())
}

/// In a build for tests, the library that the environment puts in the place of NVIDIA's:
/// `GPUSETUP_STAND_INS=libcuda.so.1=/some/where/libcuda.so.1:libnvidia-ml.so.1=…`.
fn stand_in(library: &str) -> Option<String> {
    let all = hooks::told("GPUSETUP_STAND_INS")?;
    let found = all.split(':').find_map(|one| one.strip_prefix(library)?.strip_prefix('='));
    // Where some stand in, the machine's own must not answer for the others.
    Some(found.unwrap_or("/nonexistent").to_owned())
}

/// Whether libraries stand in for NVIDIA's.
pub fn has_stand_ins() -> bool {
    hooks::told("GPUSETUP_STAND_INS").is_some()
}

/// How long an answer is waited for; in a build for tests the environment may be less patient (`GPUSETUP_PATIENCE`, in
/// seconds).
pub fn limit(limit: Duration) -> Duration {
    hooks::seconds("GPUSETUP_PATIENCE").unwrap_or(limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hear(ended: Ended, text: &str) -> Answer<u32> {
        let question = Question::new(Library::Cuda, ["libcuda.so.1"]).limit(Duration::from_secs(7));
        heard(&question, &Output { ended, text: text.to_owned() })
    }

    #[test]
    fn whatever_becomes_of_a_child_is_told() {
        assert_eq!(hear(Ended::Status(0), "calling cuInit\nwarning: x\n\n42\n"), Answer::Is(42));
        let failed = |answer| if let Answer::Failed(why) = answer { why } else { format!("{answer:?}") };
        assert_eq!(failed(hear(Ended::Status(0), "\u{1f4a5}")), "libcuda.so.1 gave no answer: \u{1f4a5}");
        assert_eq!(failed(hear(Ended::Status(0), "")), "libcuda.so.1 gave no answer: ");
        let hung = failed(hear(Ended::TimedOut, "calling cuInit\ncalling cuCtxSynchronize\n"));
        assert_eq!(hung, "libcuda.so.1 did not come back from cuCtxSynchronize within 7 s");
        let ended = failed(hear(Ended::Signal(11), "calling cuInit\n"));
        assert_eq!(ended, "libcuda.so.1 ended the process that asked it, in cuInit (ended by signal 11)");
        assert!(failed(hear(Ended::Signal(6), "")).contains("in loading"));
        assert_eq!(hear(Ended::Status(3), "cannot run in /x: no\n"), Answer::NotAsked("cannot run in /x: no".into()));
    }
}
