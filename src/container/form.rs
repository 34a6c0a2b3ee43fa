//! The forms of a request, and what their writers share.

use super::asked::CommandLine;
use super::flags::Flag;
use super::request::Gpus;
use serde::Serialize;
use std::fmt;
use std::str::FromStr;

/// A form of a request for GPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Form {
    /// `docker run --gpus …`
    Docker,
    /// `docker run --runtime=nvidia -e NVIDIA_VISIBLE_DEVICES=…`
    Runtime,
    /// `docker run --device nvidia.com/gpu=…`
    Cdi,
    /// `podman run --device nvidia.com/gpu=…`
    Podman,
    /// `nerdctl run --gpus …`
    Nerdctl,
    /// A Compose file with `deploy.resources.reservations.devices`.
    Compose,
    /// A Compose file with `gpus`.
    ComposeGpus,
    /// A Compose file with `runtime: nvidia`.
    ComposeRuntime,
    /// A pod with `resources.limits`.
    Kubernetes,
    /// `apptainer run --nv …`
    Apptainer,
    /// `srun --gpus=… --container-image=…` (pyxis).
    Slurm,
}

impl Form {
    /// All forms, as they are printed.
    pub const ALL: [Self; 11] = [
        Self::Docker,
        Self::Runtime,
        Self::Cdi,
        Self::Podman,
        Self::Nerdctl,
        Self::Compose,
        Self::ComposeGpus,
        Self::ComposeRuntime,
        Self::Kubernetes,
        Self::Apptainer,
        Self::Slurm,
    ];

    /// Its name on the command line and in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Docker => "docker",
            Self::Runtime => "runtime",
            Self::Cdi => "cdi",
            Self::Podman => "podman",
            Self::Nerdctl => "nerdctl",
            Self::Compose => "compose",
            Self::ComposeGpus => "compose-gpus",
            Self::ComposeRuntime => "compose-runtime",
            Self::Kubernetes => "kubernetes",
            Self::Apptainer => "apptainer",
            Self::Slurm => "slurm",
        }
    }

    /// Its name for people.
    pub fn title(self) -> &'static str {
        match self {
            Self::Docker => "Docker 19.03 or newer",
            Self::Runtime => "Docker, any version, with the runtime nvidia",
            Self::Cdi => "Docker with CDI",
            Self::Podman => "Podman 4.1 or newer",
            Self::Nerdctl => "nerdctl 0.9 or newer",
            Self::Compose => "Compose",
            Self::ComposeGpus => "Compose with the newer key gpus",
            Self::ComposeRuntime => "Compose with the runtime nvidia",
            Self::Kubernetes => "Kubernetes",
            Self::Apptainer => "Apptainer",
            Self::Slurm => "Slurm with pyxis",
        }
    }
}

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Form {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let form = Self::ALL.into_iter().find(|form| form.as_str() == text);
        form.ok_or_else(|| format!("{text:?} is no form"))
    }
}

/// A request in one form.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct Written {
    /// The form.
    pub form: Form,
    /// The command line for a shell, or the file. Null if the form cannot express the request.
    pub text: Option<String>,
    /// What the form cannot express. If it is empty, the text asks for exactly the same.
    pub differences: Vec<String>,
    /// What else the text needs.
    pub notes: Vec<String>,
}

impl Written {
    /// Nothing yet.
    pub fn new(form: Form) -> Self {
        Self { form, text: None, differences: Vec::new(), notes: Vec::new() }
    }

    /// Adds what the form cannot express.
    pub fn differs(&mut self, what: impl Into<String>) {
        self.differences.push(what.into());
    }
}

/// Why a MIG profile is no device.
pub fn no_profile(written: &mut Written) -> Option<String> {
    written.differs(
        "only Kubernetes asks for MIG devices by their profile; name one that `nvidia-smi -L` lists: 0:1, MIG-…",
    );
    None
}

/// The value of `NVIDIA_VISIBLE_DEVICES`. It has no words for a number of GPUs: those that Docker picks are named.
pub fn visible(gpus: &Gpus, written: &mut Written) -> Option<String> {
    match gpus {
        Gpus::All => Some("all".to_owned()),
        Gpus::DriverOnly => Some("none".to_owned()),
        Gpus::Devices(_) | Gpus::Count(_) => Some(names(gpus, written)?.join(",")),
        Gpus::Profiles(_) | Gpus::Shares(_) => no_profile(written),
    }
}

/// The names of the devices.
pub fn names(gpus: &Gpus, written: &mut Written) -> Option<Vec<String>> {
    match gpus {
        Gpus::All => Some(vec!["all".to_owned()]),
        Gpus::Devices(devices) => Some(devices.iter().map(ToString::to_string).collect()),
        Gpus::Count(count) => {
            written.differs(format!(
                "a number of GPUs cannot be asked for, so they are named: those that `docker run --gpus {count}` picks"
            ));
            Some((0..*count).map(|index| index.to_string()).collect())
        }
        Gpus::DriverOnly => None,
        Gpus::Profiles(_) | Gpus::Shares(_) => no_profile(written).map(|_| Vec::new()),
    }
}

/// Names the options that only Docker's relatives have. Variables have a place in every form, and the options in `kept` in this one.
pub fn leave_out_flags(line: &CommandLine, kept: &[&str], written: &mut Written) {
    let mut names: Vec<&str> = Vec::new();
    let is_left_out = |flag: &&Flag| flag.variable().is_none() && !kept.contains(&flag.name.as_str());
    for flag in line.flags.iter().filter(is_left_out) {
        if !names.contains(&flag.name.as_str()) {
            names.push(&flag.name);
        }
    }
    if !names.is_empty() {
        written.differs(format!("left out, carry them over yourself: {}", names.join(", ")));
    }
}

/// The variables that options set and whose values are known.
pub fn variables<'a>(line: &'a CommandLine, written: &mut Written) -> Vec<(&'a str, &'a str)> {
    let mut known = Vec::new();
    for (name, value) in variables_of_shell_too(line, written) {
        match value {
            Some(value) => known.push((name, value)),
            None => without_value(name, written),
        }
    }
    known
}

/// The same, and those without a value, which have that of the shell.
pub fn variables_of_shell_too<'a>(line: &'a CommandLine, written: &mut Written) -> Vec<(&'a str, Option<&'a str>)> {
    let mut named = Vec::new();
    for flag in &line.flags {
        match flag.variable() {
            Some(variable) if !flag.is_replaced => named.push(variable),
            Some((name, _)) => without_value(name, written),
            None => {}
        }
    }
    named
}

/// Names a variable whose value is that of the shell, and which the form cannot take from there.
pub fn without_value(name: &str, written: &mut Written) {
    written.differs(format!("left out, because the shell knows its value: the variable {name}"));
}
