//! Images of containers, as far as they say something of GPUs: their configuration, and what the names of their files show. Nothing
//! is pulled, unpacked or run.

use super::contents::Contents;
use crate::system::input::InputError;
use crate::system::{Program, System};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

/// What the description of an image says about GPUs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Image {
    /// Its first name in an archive with names, `nvidia/cuda:12.4.1-base-ubuntu22.04`.
    pub name: Option<String>,
    /// The beginning of its ID in an archive, as engines list it: `c0ffee254729`.
    pub id: Option<String>,
    /// Its other names there.
    pub other_names: Vec<String>,
    /// Its environment.
    pub variables: BTreeMap<String, String>,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// The operating system that it is for, `linux`.
    pub system: Option<String>,
    /// The processors that it is for, `amd64`.
    pub architecture: Option<String>,
    /// Where the description came from: a file, or an engine.
    pub from: String,
    /// What its layers have. None if they were not read: engines do not show them.
    pub contents: Option<Contents>,
}

/// Why an image cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// The file or folder cannot be read.
    #[error(transparent)]
    Input(#[from] InputError),
    /// The archive cannot be read.
    #[error("cannot read {path}: {why}")]
    Read {
        /// The archive.
        path: String,
        /// The reason.
        why: io::Error,
    },
    /// It is something else, or it is damaged.
    #[error("{path} is no image: {why}")]
    NoImage {
        /// The file, folder or engine.
        path: String,
        /// The reason.
        why: String,
    },
    /// A part of it has another checksum.
    #[error("{path} is damaged: {what} has another checksum")]
    Damaged {
        /// The file or folder.
        path: String,
        /// The part.
        what: String,
    },
    /// The archive ends too early, lacks a part, or its compressed data is wrong.
    #[error("{path} is damaged: {why}")]
    CutOff {
        /// The archive.
        path: String,
        /// The reason.
        why: io::Error,
    },
    /// A part of its description is no JSON.
    #[error("{path} is damaged: {what} is no JSON: {why}")]
    NoJson {
        /// The file or folder.
        path: String,
        /// The part.
        what: String,
        /// The reason.
        why: serde_json::Error,
    },
    /// A layer is something else, or it is damaged.
    #[error("{path} is damaged: its layer {layer} cannot be read: {why}")]
    Layer {
        /// The file or folder.
        path: String,
        /// The layer, as the manifest names it.
        layer: String,
        /// The reason.
        why: String,
    },
    /// No image of an archive has this name.
    #[error("{path} has no image {name}: it has {}", all.join(", "))]
    NoSuchImage {
        /// The file or folder.
        path: String,
        /// The name.
        name: String,
        /// The names that it has.
        all: Vec<String>,
    },
    /// No engine of this host has it.
    #[error("no container engine of this host has the image {0}")]
    Unknown(String),
    /// A signal arrived.
    #[error("interrupted by signal {0}")]
    Interrupted(u8),
}

/// The part of a configuration that is about GPUs. Docker's engine writes `Config`, files have `config`.
pub fn of_config(value: &Value, from: String) -> Image {
    let inner = |name: &str| {
        [format!("/config/{name}"), format!("/Config/{name}")].iter().find_map(|place| value.pointer(place))
    };
    let variables = inner("Env").and_then(Value::as_array).into_iter().flatten();
    let variable =
        |entry: &Value| entry.as_str()?.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
    let labels = inner("Labels").and_then(Value::as_object).into_iter().flatten();
    let label = |(name, value): (&String, &Value)| Some((name.clone(), value.as_str()?.to_owned()));
    let word = |name: [&str; 2]| {
        let word = name.iter().find_map(|name| value.get(name)).and_then(Value::as_str);
        word.filter(|word| !word.is_empty()).map(str::to_owned)
    };
    Image {
        variables: variables.filter_map(variable).collect(),
        labels: labels.filter_map(label).collect(),
        system: word(["os", "Os"]),
        architecture: word(["architecture", "Architecture"]),
        from,
        ..Image::default()
    }
}

/// The engines that may have an image.
const ENGINES: [(&str, &str); 3] =
    [("docker", "/usr/bin/docker"), ("podman", "/usr/bin/podman"), ("nerdctl", "/usr/local/bin/nerdctl")];

/// Reads an image that an engine of this host has, under this name.
///
/// # Errors
///
/// If none has it.
pub fn in_engine(system: &System, name: &str) -> Result<Image, ImageError> {
    // An engine in a tree has no daemon, and its images are not this host's.
    let engines = ENGINES.into_iter().filter(|(_, program)| system.is_live() && system.exists(program));
    for (engine, program) in engines {
        let inspect = Program::new([program, "image", "inspect", "--", name]).limit(Duration::from_secs(60));
        let Ok(output) = system.run(&inspect) else { continue };
        let Some(start) = output.text.find('[').filter(|_| output.succeeded()) else { continue };
        let mut values = serde_json::Deserializer::from_str(&output.text[start..]).into_iter::<Value>();
        let Some(Ok(Value::Array(all))) = values.next() else { continue };
        if let Some(first) = all.first() {
            return Ok(of_config(first, engine.to_owned()));
        }
    }
    Err(ImageError::Unknown(name.to_owned()))
}
