//! An answer about an image on a host, with its reasons.

use serde::Serialize;

/// Whether a host runs an image, the best answer first.
// The same for a condition of an image: whether it lets the image run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum ImageAnswer {
    /// Nothing in the image is CUDA, as far as its configuration and the names of its files show.
    NeedsNoCuda,
    /// The driver runs it.
    Runs,
    /// The driver runs it with the newer libraries that are in the image (cuda-compat).
    RunsWithForwardCompatibility,
    /// That depends on what is not known.
    Unknown,
    /// It is refused, or does not work.
    DoesNotRun,
}

#[derive(Debug, Clone)]
pub struct Judgement {
    pub answer: ImageAnswer,
    /// The facts that decide, in sentences.
    pub reasons: Vec<String>,
    /// Commands that would make it run.
    pub commands: Vec<String>,
}

impl Judgement {
    pub fn new(answer: ImageAnswer, reason: impl Into<String>) -> Self {
        Self { answer, reasons: vec![reason.into()], commands: Vec::new() }
    }

    pub fn unknown(reason: impl Into<String>) -> Self {
        Self::new(ImageAnswer::Unknown, reason)
    }

    pub fn command(mut self, command: String) -> Self {
        self.commands.push(command);
        self
    }
}
