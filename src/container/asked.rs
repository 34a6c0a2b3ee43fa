//! A command line or a container of a file: its request for GPUs, and everything else.

use super::flags::Flag;
use super::request::Request;
use super::shell_words::Word;
use std::collections::BTreeMap;

/// What a request is written for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    /// The wrapper that NVIDIA replaced, whose variable is `NV_GPU`.
    NvidiaDocker,
    /// Docker.
    Docker,
    /// Podman.
    Podman,
    /// nerdctl.
    Nerdctl,
    /// Apptainer, or Singularity.
    Apptainer,
    /// A file: Compose's or Kubernetes'.
    File,
}

impl Engine {
    /// The engine that a program belongs to.
    pub fn named(program: &str) -> Option<Self> {
        match program.rsplit('/').next().unwrap_or(program) {
            "nvidia-docker" => Some(Self::NvidiaDocker),
            "docker" => Some(Self::Docker),
            "podman" | "podman-remote" => Some(Self::Podman),
            "nerdctl" => Some(Self::Nerdctl),
            "apptainer" | "singularity" => Some(Self::Apptainer),
            _ => None,
        }
    }
}

/// A command line without its request for GPUs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandLine {
    /// `sudo` and variables.
    pub before: Vec<Word>,
    /// The program.
    pub engine: Engine,
    /// Options of the program itself, before `run`.
    pub global: Vec<Word>,
    /// `run`, `create` or `container run`.
    pub verb: Vec<Word>,
    /// The other options.
    pub flags: Vec<Flag>,
    /// How many of them are before the GPUs.
    pub at: usize,
    /// The image.
    pub image: Option<Word>,
    /// The same for Apptainer, if its command line was read: an address or a file, which may be no image for the others.
    pub apptainers_image: Option<Word>,
    /// What the container runs.
    pub arguments: Vec<Word>,
    /// What belongs to the engine or file and has no place in another.
    pub left_out: Vec<String>,
}

impl CommandLine {
    /// What runs in place of the image's entrypoint, if the request says so: nothing for `--entrypoint ''`. The last option counts.
    pub fn entrypoint(&self) -> Option<&Flag> {
        self.flags.iter().rfind(|flag| flag.name == ENTRYPOINT)
    }

    /// Whether the container gets all variables of the caller: Apptainer's does, and Podman's with `--env-host`.
    pub fn passes_environment(&self) -> bool {
        let passes = |flag: &Flag| flag.name == "--env-host" && flag.value.as_deref() != Some("false");
        self.engine == Engine::Apptainer || self.flags.iter().any(passes)
    }

    /// Whether an option sets or passes on this variable.
    pub fn names_variable(&self, name: &str) -> bool {
        self.flags.iter().filter_map(Flag::variable).any(|(named, _)| named == name)
    }

    /// The whole command that runs in place of the image's entrypoint, if the request names it: what other programs call it.
    pub fn whole_command(&self) -> Option<Vec<Word>> {
        let program = self.entrypoint()?.value_word();
        let program = Some(program).filter(|word| !word.text.is_empty());
        Some(program.into_iter().chain(self.arguments.iter().cloned()).collect())
    }
}

/// The option that replaces the image's entrypoint.
pub const ENTRYPOINT: &str = "--entrypoint";

/// What was read: the rest of the command line, the request, its form, and what is to be said about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// The rest.
    pub line: CommandLine,
    /// The request.
    pub request: Request,
    /// The name of the form in which it was made.
    pub from: &'static str,
    /// What the form does that may surprise.
    pub notes: Vec<String>,
    /// The form is not written as the engine reads it.
    pub is_mistaken: bool,
}

/// The variables that are set for the command, by their names.
pub type Variables = BTreeMap<String, String>;

/// Whether a variable is one by which an image refuses drivers and GPUs.
pub fn is_requirement(name: &str) -> bool {
    name.starts_with("NVIDIA_REQUIRE_") || name == "NVIDIA_DISABLE_REQUIRE"
}

/// The names in `NVIDIA_DRIVER_CAPABILITIES`; none if it is empty, which is as if it were not set.
pub fn capabilities(value: &str) -> Option<Vec<String>> {
    let names: Vec<_> = value.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect();
    (!names.is_empty()).then_some(names)
}
