//! An answer about an image on a host, with its reasons.

use super::driver_change::{self, Obstacle};
use super::host::Host;
use crate::compat::Database;
use crate::version::{CudaVersion, DriverVersion};
use serde::Serialize;

/// Whether a host runs an image, the best answer first.
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

/// An answer, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judgement {
    /// The answer.
    pub answer: ImageAnswer,
    /// The facts that decide, in sentences.
    pub reasons: Vec<String>,
    /// Commands that would make it run.
    pub commands: Vec<String>,
}

impl Judgement {
    /// With this reason.
    pub fn new(answer: ImageAnswer, reason: String) -> Self {
        Self { answer, reasons: vec![reason], commands: Vec::new() }
    }

    /// With a command more.
    pub fn command(mut self, command: String) -> Self {
        self.commands.push(command);
        self
    }

    /// Says what helps on this host against this obstacle.
    pub fn add_help(
        &mut self,
        obstacle: Obstacle,
        cuda: Option<CudaVersion>,
        driver: Option<DriverVersion>,
        host: &Host,
        database: &Database,
    ) {
        let help = driver_change::help(obstacle, cuda, driver, host, database);
        self.reasons.extend(help.text);
        self.commands.extend(help.command);
    }
}
