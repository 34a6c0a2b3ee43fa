//! Images of containers, as far as they say something of GPUs: their configuration, and what the
//! names of their files show. Nothing is pulled, unpacked or run.

use super::contents::Contents;
use gpusetup_system::input::InputError;
use gpusetup_system::limits::{MAX_DESCRIPTION, is_light_config};
use gpusetup_system::{Program, System};
use gpusetup_text::text::public_address;
use serde_json::Value;
use std::collections::BTreeMap;

/// What the description of an image says about GPUs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Image {
    /// Its names in an archive, `nvidia/cuda:12.4.1-base-ubuntu22.04`.
    pub(crate) names: Vec<String>,
    /// The beginning of its ID in an archive, as engines list it: `c0ffee254729`.
    pub(crate) id: Option<String>,
    /// Of its environment.
    pub(crate) variables: BTreeMap<String, String>,
    pub(crate) labels: BTreeMap<String, String>,
    /// The operating system, `linux`.
    pub(crate) system: Option<String>,
    /// The processors, `amd64`.
    pub(crate) architecture: Option<String>,
    /// Where the description came from: a file, or an engine.
    pub(crate) from: String,
    /// What its layers have. None if they were not read: engines do not show them.
    pub(crate) contents: Option<Contents>,
}

/// Why an image cannot be read: `path` is its archive or folder.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    #[error(transparent)]
    Input(#[from] InputError),
    #[error("cannot read {path}: {why}")]
    Read { path: String, why: String },
    #[error("{path} is no image: {why}")]
    NoImage { path: String, why: String },
    #[error("{path} is damaged: {why}")]
    Damaged { path: String, why: String },
    /// In a sentence.
    #[error("{0}")]
    NoSuchImage(String),
    #[error("no container engine of this host has the image {0}")]
    Unknown(String),
    #[error("interrupted by signal {0}")]
    Interrupted(u8),
}

/// The part of a configuration that is about GPUs. Docker's engine writes `Config`, files have
/// `config`.
pub(crate) fn of_config(value: &Value, from: String) -> Image {
    let [variables, labels] = ["Env", "Labels"].map(|name| {
        value
            .pointer(&format!("/config/{name}"))
            .or(value.pointer(&format!("/Config/{name}")))
    });
    let variables = variables.and_then(Value::as_array).into_iter().flatten();
    let labels = labels.and_then(Value::as_object).into_iter().flatten();
    let [system, architecture] =
        [("os", "Os"), ("architecture", "Architecture")].map(|(lower, upper)| {
            let word = value.get(lower).or(value.get(upper))?.as_str()?;
            (!word.is_empty()).then(|| word.to_owned())
        });
    Image {
        variables: variables
            .filter_map(|entry| {
                entry
                    .as_str()?
                    .split_once('=')
                    .map(|(name, value)| (name.to_owned(), value.to_owned()))
            })
            .collect(),
        labels: labels
            .filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())))
            .collect(),
        system,
        architecture,
        from,
        ..Image::default()
    }
}

/// The engines that may have an image.
const ENGINES: [(&str, &str); 3] = [
    ("docker", "/usr/bin/docker"),
    ("podman", "/usr/bin/podman"),
    ("nerdctl", "/usr/local/bin/nerdctl"),
];

/// Reads an image that an engine of this host has, under this name.
pub fn in_engine(system: &System, name: &str) -> Result<Image, ImageError> {
    // An engine in a tree has no daemon, and its images are not this host's.
    let engines = ENGINES
        .into_iter()
        .filter(|(_, program)| system.is_live() && system.exists(program));
    for (engine, program) in engines {
        let inspect =
            Program::new([program, "image", "inspect", "--", name]).output_up_to(MAX_DESCRIPTION);
        let Ok(output) = system.run(&inspect) else {
            continue;
        };
        let is_answer = output.succeeded() && is_light_config(&output.text);
        let Some(start) = output.text.find('[').filter(|_| is_answer) else {
            continue;
        };
        let mut values =
            serde_json::Deserializer::from_str(&output.text[start..]).into_iter::<Value>();
        let Some(Ok(Value::Array(all))) = values.next() else {
            continue;
        };
        if let Some(first) = all.first() {
            return Ok(of_config(first, engine.to_owned()));
        }
    }
    Err(ImageError::Unknown(public_address(name).into_owned()))
}
