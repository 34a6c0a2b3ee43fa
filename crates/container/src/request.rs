//! A request for GPUs, as every form means it, and its forms.

use serde::Serialize;

/// More GPUs than any host has.
pub(crate) const MAX_GPUS: u32 = 256;

/// The driver capabilities that Docker takes from `--gpus`.
pub(crate) const CAPABILITIES: [&str; 6] = [
    "compute", "compat32", "graphics", "utility", "video", "display",
];

/// Those that `NVIDIA_DRIVER_CAPABILITIES` knows beside them.
const OF_VARIABLE: [&str; 2] = ["all", "ngx"];

/// What a container asks of the host's GPUs and driver.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct Request {
    /// Which GPUs.
    pub gpus: Gpus,
    /// The parts of the driver that it asks for (`compute`, `utility`, `all`), in the order they
    /// were named. Null if it leaves that to the engine or the image.
    pub capabilities: Option<Vec<String>>,
}

/// Which GPUs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Gpus {
    /// All of the host.
    All,
    /// None, but the driver's libraries and programs (`NVIDIA_VISIBLE_DEVICES=none`).
    DriverOnly,
    /// A number of them; the engine chooses which.
    Count(u32),
    /// These, each a GPU's index (`0`), a MIG instance's (`1:0`), or a UUID (`GPU-…`, `MIG-…`).
    Devices(Vec<String>),
}

/// A form of a request for GPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Serialize)]
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
    /// A Compose file with `deploy.resources.reservations.devices`.
    Compose,
    /// A pod with `resources.limits`.
    Kubernetes,
}

impl Form {
    /// All forms as they are printed, each with its name on the command line and in JSON, its name
    /// for people, and what it does not have for every request.
    pub const ALL: [(Self, &str, &str, &str); 6] = [
        (
            Self::Docker,
            "docker",
            "Docker 19.03 or newer",
            "--gpus has no word",
        ),
        (
            Self::Runtime,
            "runtime",
            "Docker, any version, with the runtime nvidia",
            "",
        ),
        (Self::Cdi, "cdi", "Docker with CDI", "CDI has no device"),
        (
            Self::Podman,
            "podman",
            "Podman 4.1 or newer",
            "CDI has no device",
        ),
        (
            Self::Compose,
            "compose",
            "Compose",
            "a reservation has no word",
        ),
        (
            Self::Kubernetes,
            "kubernetes",
            "Kubernetes",
            "Kubernetes has no word",
        ),
    ];

    /// Its name on the command line and in JSON.
    pub fn name(self) -> &'static str {
        Self::ALL[self as usize].1
    }

    /// Its name for people.
    pub fn title(self) -> &'static str {
        Self::ALL[self as usize].2
    }
}

/// A request in one form.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct Written {
    /// The form.
    pub form: Form,
    /// The command line, its options for GPUs alone, or the file. Null if the form cannot express
    /// the request.
    pub text: Option<String>,
    /// What the form cannot express. If it is empty, the text asks for exactly the same.
    pub differences: Vec<String>,
    /// What else the text needs.
    pub notes: Vec<String>,
}

/// A request for GPUs and its forms.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct Translated {
    /// `gpusetup.container/1`.
    #[cfg_attr(feature = "schemas", schemars(extend("const" = "gpusetup.container/1")))]
    pub(crate) schema: &'static str,
    /// The form that was read: `nvidia-docker`, or the name of one of the forms.
    pub from: &'static str,
    /// The request.
    pub request: Request,
    /// Why the forms have only the options for GPUs, and not the whole command line. Null if they
    /// have it.
    pub request_only: Option<&'static str>,
    /// What the form that was read does that may surprise.
    pub notes: Vec<&'static str>,
    /// The forms.
    pub forms: Vec<Written>,
}

/// Whether this names a GPU or a MIG instance: an index (`0`) or UUID (`GPU-fef8089b…`), or a MIG
/// instance's GPU and number (`1:0`) or UUID (`MIG-…`; with drivers before 470 `MIG-GPU-…/1/0`).
pub fn is_device(word: &str) -> bool {
    match (
        word.strip_prefix("GPU-"),
        word.strip_prefix("MIG-"),
        word.split_once(':'),
    ) {
        (Some(id), ..) => is_uuid(id) && !id.contains('/'),
        (_, Some(id), _) => is_uuid(id.strip_prefix("GPU-").unwrap_or(id)),
        (.., Some((gpu, instance))) => is_number(gpu) && is_number(instance),
        _ => is_number(word),
    }
}

fn is_number(text: &str) -> bool {
    text.parse::<u32>()
        .is_ok_and(|number| number.to_string() == text)
}

fn is_uuid(text: &str) -> bool {
    !text.is_empty()
        && text
            .bytes()
            .all(|b| b.is_ascii_hexdigit() || b"-/".contains(&b))
}

impl Gpus {
    /// The value of `NVIDIA_VISIBLE_DEVICES`, whose devices may be CDI names. None if it asks for
    /// no GPUs and no driver.
    pub(super) fn from_variable(value: &str) -> Result<Option<Self>, Unreadable> {
        let words: Vec<_> = value
            .split(',')
            .map(str::trim)
            .filter(|word| !word.is_empty())
            .collect();
        match words.as_slice() {
            [] => Ok(None),
            words if words.contains(&"void") => Ok(None),
            ["none"] => Ok(Some(Self::DriverOnly)),
            words => {
                Self::from_names(words.iter().map(|word| cdi_name(word).unwrap_or(word))).map(Some)
            }
        }
    }

    /// The devices of these names, each of them once.
    pub(super) fn from_names<'a>(names: impl Iterator<Item = &'a str>) -> Result<Self, Unreadable> {
        let mut devices = Vec::new();
        for name in names {
            if name != "all" && !is_device(name) {
                let expected =
                    "an index (0), a UUID (GPU-...) or a MIG device (1:0, MIG-...) is expected";
                return Err(Unreadable::new(format!(
                    "{name:?} names no GPU: {expected}"
                )));
            }
            if devices.len() > MAX_GPUS as usize {
                return Err(Unreadable::new(
                    "the command line names more GPUs than any host has",
                ));
            }
            if !devices.iter().any(|device| device == name) {
                devices.push(name.to_owned());
            }
        }
        Ok(if devices.iter().any(|name| name == "all") {
            Self::All
        } else {
            Self::Devices(devices)
        })
    }

    /// Whether one of them is a part of a GPU.
    pub(super) fn has_instance(&self) -> bool {
        let Self::Devices(devices) = self else {
            return false;
        };
        devices
            .iter()
            .any(|name| name.starts_with("MIG-") || name.contains(':'))
    }

    /// In words.
    pub fn described(&self) -> String {
        match self {
            Self::All => "all GPUs".to_owned(),
            Self::DriverOnly => "no GPU, only the libraries and programs of the driver".to_owned(),
            Self::Count(1) => "one GPU".to_owned(),
            Self::Count(count) => format!("{count} GPUs"),
            Self::Devices(devices) => {
                let kind = if self.has_instance() {
                    "MIG device"
                } else {
                    "GPU"
                };
                format!(
                    "{kind}{} {}",
                    if devices.len() == 1 { "" } else { "s" },
                    devices.join(", ")
                )
            }
        }
    }
}

/// The names in a list of driver capabilities, all of which the container toolkit knows; none if it
/// is empty, which is as if it were not there.
pub(crate) fn capabilities(list: &str) -> Result<Option<Vec<String>>, Unreadable> {
    let names: Vec<_> = list
        .split(',')
        .map(str::trim)
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
        .collect();
    let known = [&CAPABILITIES[..], &OF_VARIABLE].concat();
    if let Some(name) = names.iter().find(|name| !known.contains(&name.as_str())) {
        let says = format!("the NVIDIA driver has no capability {name:?}");
        return refused(says, &format!("it has {}", known.join(", ")));
    }
    Ok((!names.is_empty()).then_some(names))
}

/// The name in `nvidia.com/gpu=NAME`, or in `runtime.nvidia.com/gpu=NAME`, which NVIDIA's runtime
/// makes up while it starts a container. Specifications may name devices by their type and index:
/// `gpu0`, `mig1:0`.
pub(crate) fn cdi_name(word: &str) -> Option<&str> {
    let word = word.strip_prefix("runtime.").unwrap_or(word);
    let name = word.strip_prefix("nvidia.com/gpu=")?;
    let number = name.strip_prefix("gpu").or(name.strip_prefix("mig"));
    let number = number.filter(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    Some(number.unwrap_or(name))
}

/// Why a command line cannot be translated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreadable {
    /// In a sentence.
    pub says: String,
    /// What would help.
    pub hint: Option<String>,
    /// A command that would help.
    pub attempt: Option<String>,
}

impl Unreadable {
    pub(super) fn new(says: impl Into<String>) -> Self {
        Self {
            says: says.into(),
            hint: None,
            attempt: None,
        }
    }

    pub(super) fn hint(self, hint: impl Into<String>) -> Self {
        Self {
            hint: Some(hint.into()),
            ..self
        }
    }
}

/// A command line that is refused for this reason, with what would help.
pub(super) fn refused<T>(says: impl Into<String>, hint: &str) -> Result<T, Unreadable> {
    Err(Unreadable::new(says).hint(hint))
}
