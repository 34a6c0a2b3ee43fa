//! The properties of a form of engines. Each form has one [`EngineBehaviour`] value in its own file with
//! everything specific to it; no other code depends on the form of an engine.

use super::documents::{ConfigError, NVIDIA_RUNTIME, Runtimes};
use super::edit::Target;
use super::units::Start;
use super::{BrokenConfig, InstalledEngine};
use gpusetup_database::compat::Engine;
use gpusetup_database::version::AddOnVersion;
use gpusetup_system::System;
use std::path::{Path, PathBuf};

/// A form of engines.
pub struct EngineBehaviour {
    /// How containers get GPUs.
    pub gpus: GpuAccess,
    /// Whether Kubernetes runs pods with it.
    pub runs_pods: bool,
    /// The arguments with which its program reports the runtimes of the running daemon, in JSON,
    /// and its cgroup driver.
    pub daemon_info: Option<&'static [&'static str]>,
    /// Whether it looks for NVIDIA's runtime when it starts, and then writes its configuration.
    pub finds_runtimes: bool,
    /// Whether containers get the devices of CDI specifications while it has no runtime of
    /// NVIDIA's.
    pub falls_back_to_cdi: bool,
    /// Whether NVIDIA's runtime gets the settings of its default one, which any of its files may
    /// have.
    pub(crate) inherits_default: bool,
    /// What users have to know, beside a plan that sets it up.
    pub note: Option<&'static str>,
    /// Whether a configuration keeps it from serving Kubernetes.
    pub serves_no_pods: fn(&str) -> bool,
    /// Whether its containers keep running while it restarts with this configuration.
    pub keeps_containers: fn(&str) -> bool,
    /// Whether a configuration tells it not to use CDI.
    pub refuses_cdi: fn(&str) -> bool,
    /// The files that it reads, in its order, without those that they import.
    pub(super) files: fn(&System, &Engine, &[Start]) -> Vec<PathBuf>,
    /// The runtimes in one of its files.
    pub(super) read: Read,
    /// The same for one of [`Self::files`], if that is of another kind.
    pub(super) read_options: Option<Read>,
    /// The options that name the place of the file that gpusetup writes, and that file.
    pub(super) place: Place,
    /// Whether it joins what several files say of one runtime.
    pub(super) joins_files: bool,
    /// Whether it starts with the runtimes of its file and of its command line together.
    pub(super) joins_options: bool,
    /// The runtimes that need no definition. None if it starts with a default that nothing defines.
    pub(super) stock_runtimes: Option<&'static [&'static str]>,
    /// Why a runtime without a program gives pods no GPUs.
    pub(super) without_program: Option<&'static str>,
    /// What else keeps it from starting with its files.
    pub(super) refused: Option<Refused>,
    /// Adds NVIDIA's runtime. None for engines whose files gpusetup never writes.
    pub(super) merge: Option<Merge>,
    /// Takes the runtime out again.
    pub(super) unmerge: Option<Unmerge>,
}

/// How containers of an engine get GPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GpuAccess {
    /// By the option `--gpus`, or by a runtime.
    Flag,
    /// By a runtime of pods.
    Runtime,
    /// By a CDI specification alone.
    Cdi,
}

/// Reads a file. The second text is that of the engine's main file, whose format counts for files
/// that name none. The error is why this version of the engine does not start with the file.
pub(super) type Read = fn(&str, &str, Option<AddOnVersion>) -> Result<Runtimes, ConfigError>;

/// Adds the runtime to the text of the engine's file: the file that is written, and its text. None
/// if nothing is to be written.
pub(super) type Merge =
    fn(&Target, &Path, Option<&str>) -> Result<Option<(PathBuf, String)>, BrokenConfig>;

/// The text without what a merge added to an earlier one; none if nothing is left.
pub(super) type Unmerge = fn(&str, &str) -> Result<Option<String>, ConfigError>;

/// Asks an installed engine, with this program and these units, about its file.
pub(super) type Refused = fn(&System, &InstalledEngine, &Path, &[Start]) -> Option<String>;

/// See [`EngineBehaviour::place`].
pub(super) type Place = for<'e> fn(&'e Engine) -> Option<(&'e [String], &'e Path)>;

impl EngineBehaviour {
    pub(super) const fn new(
        gpus: GpuAccess,
        files: fn(&System, &Engine, &[Start]) -> Vec<PathBuf>,
        read: Read,
    ) -> Self {
        Self {
            gpus,
            runs_pods: false,
            daemon_info: None,
            finds_runtimes: false,
            falls_back_to_cdi: false,
            inherits_default: false,
            note: None,
            serves_no_pods: |_| false,
            keeps_containers: |_| false,
            refuses_cdi: |_| false,
            files,
            read,
            read_options: None,
            place: |_| None,
            joins_files: false,
            joins_options: false,
            stock_runtimes: None,
            without_program: None,
            refused: None,
            merge: None,
            unmerge: None,
        }
    }

    /// The program of the runtime `nvidia` in a file; none if the file has no such runtime.
    pub fn nvidia_runtime(&self, text: &str) -> Option<Option<String>> {
        (self.read)(text, text, None)
            .ok()?
            .programs
            .remove(NVIDIA_RUNTIME)
    }

    /// Whether a file defines the runtime `nvidia`.
    pub(crate) fn has_nvidia_runtime(&self, text: &str) -> bool {
        self.nvidia_runtime(text).is_some()
    }
}
