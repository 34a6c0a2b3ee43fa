//! Asking a library in a child process: how it is started, and what became of it. The child prints what it is about to call,
//! so that a hang has a name; its last line is the answer.

use super::Answer;
use super::answer::{CANNOT_ASK, Library};
use super::calling::CALLING;
use crate::compat::{AddOn, VersionCall};
use crate::system::{Ended, Output, Program, System, hooks};
use crate::version::AddOnVersion;
use clap::ValueEnum;
use serde::de::DeserializeOwned;
use std::path::Path;
use std::time::Duration;

/// The hidden subcommand that the child runs.
pub const SUBCOMMAND: &str = "ask";

/// A question, and how long an answer is waited for.
#[derive(Debug)]
pub struct Question {
    about: Library,
    /// The library; what stands behind it, [`super::answer()`] says.
    arguments: Vec<String>,
    limit: Duration,
}

impl Question {
    /// The question about the first of these libraries; the others are what it needs.
    pub fn new<S: AsRef<str>>(about: Library, libraries: impl IntoIterator<Item = S>) -> Self {
        let arguments = libraries.into_iter().map(|l| stand_in(l.as_ref()).unwrap_or_else(|| l.as_ref().to_owned()));
        Self { about, arguments: arguments.collect(), limit: Duration::from_secs(30) }
    }

    /// With this limit instead of 30 s.
    pub fn limit(self, limit: Duration) -> Self {
        Self { limit, ..self }
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
    let program = Program::new(own.chain(question.arguments.clone())).limit(question.limit);
    // What CUDA compiles for the GPU is kept below HOME otherwise; and its numbering is then the bus's.
    let program = program.env("CUDA_CACHE_DISABLE", "1").env("CUDA_DEVICE_ORDER", "PCI_BUS_ID");
    match System::live().run(&program) {
        Ok(output) => heard(question, &output),
        Err(e) => Answer::NotAsked(e.to_string()),
    }
}

fn heard<T: DeserializeOwned>(question: &Question, output: &Output) -> Answer<T> {
    let library = question.arguments.first().map_or("the library", String::as_str);
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

/// What an add-on's library of this machine says its version is, asked by this gpusetup and within this time. Which one programs
/// get is the loader's to say: nothing stands in for it.
pub fn ask_version(gpusetup: &Path, of: &AddOn, soname: &str, limit: Duration) -> Answer<AddOnVersion> {
    let VersionCall { function, form, .. } = &of.version_call;
    let arguments = vec![soname.to_owned(), function.clone(), form.as_str().to_owned()];
    match ask::<Vec<u32>>(gpusetup, &Question { about: Library::AddOn, arguments, limit }) {
        Answer::Is(numbers) => match told(&of.version_call, &numbers) {
            Some(version) => Answer::Is(version),
            None => Answer::Failed(format!("{soname} gave no version: {numbers:?}")),
        },
        Answer::Failed(why) => Answer::Failed(why),
        Answer::NotAsked(why) => Answer::NotAsked(why),
    }
}

/// The version that these numbers are.
fn told(call: &VersionCall, numbers: &[u32]) -> Option<AddOnVersion> {
    let part = |n: u32| u16::try_from(n).ok();
    match *numbers {
        [number] => call.decoded(number),
        [major, minor, patch] if (major, minor) != (0, 0) => {
            Some(AddOnVersion { major: part(major)?, minor: part(minor)?, patch: Some(part(patch)?), build: None })
        }
        _ => None,
    }
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
        assert_eq!(hear(Ended::Status(3), "no library\n"), Answer::NotAsked("no library".into()));
    }
}
