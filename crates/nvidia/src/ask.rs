//! Asks a library in a child process. The child prints the name of each function before it calls
//! it, so that a hang can be located. Its last line is the answer.

use super::Answer;
use super::answer::{CANNOT_ASK, Query};
use super::calling::CALLING;
use clap::ValueEnum;
use gpusetup_database::compat::{AddOn, VersionCall};
use gpusetup_database::version::AddOnVersion;
use gpusetup_system::{Ended, Output, Program, System, hooks};
use serde::de::DeserializeOwned;
use std::path::Path;
use std::time::Duration;

/// The hidden subcommand that the child runs.
pub const SUBCOMMAND: &str = "ask";

/// A question, with the time limit for its answer.
#[derive(Debug)]
pub struct Question {
    about: Query,
    /// The library and its arguments, see [`super::answer()`].
    arguments: Vec<String>,
    limit: Duration,
}

impl Question {
    /// A question about the first of these libraries; the others are its dependencies.
    pub fn new<S: AsRef<str>>(about: Query, libraries: impl IntoIterator<Item = S>) -> Self {
        let arguments = libraries
            .into_iter()
            .map(|l| stand_in(l.as_ref()).unwrap_or_else(|| l.as_ref().to_owned()));
        Self {
            about,
            arguments: arguments.collect(),
            limit: Duration::from_secs(30),
        }
    }

    /// Adds arguments that are no libraries.
    pub(crate) fn with<S: Into<String>>(mut self, arguments: impl IntoIterator<Item = S>) -> Self {
        self.arguments.extend(arguments.into_iter().map(Into::into));
        self
    }

    /// Sets the time limit; the default is 30 s.
    pub fn limit(self, limit: Duration) -> Self {
        Self { limit, ..self }
    }
}

/// The running gpusetup, even if its file was replaced since.
pub fn own() -> &'static Path {
    Path::new("/proc/self/exe")
}

/// A library's answer, asked in a child process.
pub fn ask<T: DeserializeOwned>(gpusetup: &Path, question: &Question) -> Answer<T> {
    let about = question
        .about
        .to_possible_value()
        .map(|v| v.get_name().to_owned())
        .unwrap_or_default();
    let own = [gpusetup.display().to_string(), SUBCOMMAND.to_owned(), about].into_iter();
    let program = Program::new(own.chain(question.arguments.clone())).limit(question.limit);
    // Without these CUDA would cache compiled kernels in HOME, and not number the GPUs by bus
    // address.
    let program = program
        .env("CUDA_CACHE_DISABLE", "1")
        .env("CUDA_DEVICE_ORDER", "PCI_BUS_ID");
    match System::live().run(&program) {
        Ok(output) => heard(question, &output),
        Err(e) => Answer::NotAsked(e.to_string()),
    }
}

fn heard<T: DeserializeOwned>(question: &Question, output: &Output) -> Answer<T> {
    let library = question
        .arguments
        .first()
        .map_or("the library", String::as_str);
    let last = output
        .text
        .lines()
        .rev()
        .find_map(|line| line.strip_prefix(CALLING))
        .unwrap_or("loading");
    match output.ended {
        Ended::Status(0) => match serde_json::from_str(&output.last_lines(1)) {
            Ok(answer) => Answer::Is(answer),
            Err(_) => Answer::Failed(format!(
                "{library} did not answer: {}",
                output.last_lines(1)
            )),
        },
        Ended::Status(status) if status == i32::from(CANNOT_ASK) => {
            Answer::NotAsked(output.last_lines(1))
        }
        Ended::Status(_) => Answer::Failed(output.last_lines(1)),
        Ended::TimedOut => Answer::Failed(format!(
            "{library} did not return from {last} within {} s",
            question.limit.as_secs()
        )),
        ended @ Ended::Signal(_) => {
            Answer::Failed(format!("{library} crashed in {last} ({ended})"))
        }
    }
}

/// The version that an add-on's library of this machine reports, asked by this gpusetup within this
/// time. The loader chooses the library, as for any program; stand-ins are not used.
pub fn ask_version(
    gpusetup: &Path,
    of: &AddOn,
    soname: &str,
    limit: Duration,
) -> Answer<AddOnVersion> {
    let VersionCall { function, form, .. } = &of.version_call;
    let arguments = vec![
        soname.to_owned(),
        function.clone(),
        form.as_str().to_owned(),
    ];
    ask::<Vec<u32>>(
        gpusetup,
        &Question {
            about: Query::AddOn,
            arguments,
            limit,
        },
    )
    .and_then(|numbers| {
        let version = told(&of.version_call, &numbers);
        version.ok_or_else(|| format!("{soname} reported no valid version: {numbers:?}"))
    })
}

fn told(call: &VersionCall, numbers: &[u32]) -> Option<AddOnVersion> {
    match *numbers {
        [number] => call.decoded(number),
        [major, minor, patch] if (major, minor) != (0, 0) => Some(AddOnVersion {
            major: major.try_into().ok()?,
            minor: minor.try_into().ok()?,
            patch: Some(patch.try_into().ok()?),
            build: None,
        }),
        _ => None,
    }
}

/// In a build for tests, the library that the environment sets as a replacement for NVIDIA's:
/// `GPUSETUP_STAND_INS=libcuda.so.1=/some/where/libcuda.so.1:libnvidia-ml.so.1=…`.
pub(super) fn stand_in(library: &str) -> Option<String> {
    let all = hooks::env_override("GPUSETUP_STAND_INS")?;
    let found = all
        .split(':')
        .find_map(|one| one.strip_prefix(library)?.strip_prefix('='));
    // If some libraries are replaced, the machine's own must not answer for the others.
    Some(found.unwrap_or("/nonexistent").to_owned())
}

/// Whether stand-ins replace NVIDIA's libraries.
pub fn has_stand_ins() -> bool {
    hooks::env_override("GPUSETUP_STAND_INS").is_some()
}

/// The time limit for an answer; in a build for tests the environment may shorten it
/// (`GPUSETUP_PATIENCE`, in seconds).
pub fn limit(limit: Duration) -> Duration {
    hooks::seconds("GPUSETUP_PATIENCE").unwrap_or(limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hear(ended: Ended, text: &str) -> Answer<u32> {
        let question = Question::new(Query::Cuda, ["libcuda.so.1"]).limit(Duration::from_secs(7));
        heard(
            &question,
            &Output {
                ended,
                text: text.to_owned(),
            },
        )
    }

    #[test]
    fn whatever_becomes_of_a_child_is_told() {
        assert_eq!(
            hear(Ended::Status(0), "calling cuInit\nwarning: x\n\n42\n"),
            Answer::Is(42)
        );
        let failed = |answer| {
            if let Answer::Failed(why) = answer {
                why
            } else {
                format!("{answer:?}")
            }
        };
        assert_eq!(
            failed(hear(Ended::Status(0), "\u{1f4a5}")),
            "libcuda.so.1 did not answer: \u{1f4a5}"
        );
        assert_eq!(
            failed(hear(Ended::Status(0), "")),
            "libcuda.so.1 did not answer: "
        );
        let hung = failed(hear(
            Ended::TimedOut,
            "calling cuInit\ncalling cuCtxSynchronize\n",
        ));
        assert_eq!(
            hung,
            "libcuda.so.1 did not return from cuCtxSynchronize within 7 s"
        );
        let ended = failed(hear(Ended::Signal(11), "calling cuInit\n"));
        assert_eq!(ended, "libcuda.so.1 crashed in cuInit (ended by signal 11)");
        assert!(failed(hear(Ended::Signal(6), "")).contains("in loading"));
        assert_eq!(
            hear(Ended::Status(3), "no library\n"),
            Answer::NotAsked("no library".into())
        );
    }
}
