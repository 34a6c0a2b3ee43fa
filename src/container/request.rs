//! A request for GPUs, as every form means it.

use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// More GPUs than any host has.
pub const MOST_GPUS: u32 = 256;

/// What a container asks of the host's GPUs and driver.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct Request {
    /// Which GPUs.
    pub gpus: Gpus,
    /// The parts of the driver that it asks for (`compute`, `utility`, `all`), in the order they were named. Null if it leaves that to the
    /// engine or the image.
    pub capabilities: Option<Vec<String>>,
    /// `NVIDIA_REQUIRE_CUDA` and the other variables by which an image refuses drivers and GPUs.
    pub requirements: BTreeMap<String, String>,
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
    /// These.
    Devices(Vec<Device>),
    /// MIG instances by their profile, as Kubernetes asks for them: the profile and how many.
    Profiles(BTreeMap<String, u32>),
    /// Shares of GPUs, which several containers use at the same time, as Kubernetes asks for them: how many.
    Shares(u32),
}

/// A GPU or a MIG instance, as a person names it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Device {
    /// A GPU's index, as `nvidia-smi -L` lists it.
    Index(u32),
    /// A MIG instance: the GPU's index and the number of the instance on it, `1:0`.
    Instance(u32, u32),
    /// A GPU by its UUID, or the beginning of it: `GPU-fef8089b`.
    Uuid(String),
    /// A MIG instance by its UUID, `MIG-…`; with drivers before 470 `MIG-GPU-…/1/0`.
    InstanceUuid(String),
}

/// A word that names no GPU.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} names no GPU: an index (0), a UUID (GPU-…) or a MIG device (1:0, MIG-…) is expected")]
pub struct NoDevice(pub String);

impl FromStr for Device {
    type Err = NoDevice;

    fn from_str(word: &str) -> Result<Self, NoDevice> {
        let number = |text: &str| match text.bytes().all(|b| b.is_ascii_digit()) {
            true => text.parse().ok(),
            false => None,
        };
        // A UUID or the beginning of one; an old MIG UUID has two numbers behind slashes.
        let is_uuid =
            |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_hexdigit() || b"-/GPU".contains(&b));
        let read = || {
            if let Some(rest) = word.strip_prefix("GPU-") {
                let is_whole = is_uuid(rest) && !rest.contains(['/', 'G', 'P', 'U']);
                return is_whole.then(|| Self::Uuid(word.to_owned()));
            }
            if let Some(rest) = word.strip_prefix("MIG-") {
                return is_uuid(rest).then(|| Self::InstanceUuid(word.to_owned()));
            }
            match word.split_once(':') {
                Some((gpu, instance)) => Some(Self::Instance(number(gpu)?, number(instance)?)),
                None => number(word).map(Self::Index),
            }
        };
        read().ok_or_else(|| NoDevice(word.to_owned()))
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Index(index) => index.fmt(f),
            Self::Instance(gpu, instance) => write!(f, "{gpu}:{instance}"),
            Self::Uuid(uuid) | Self::InstanceUuid(uuid) => uuid.fmt(f),
        }
    }
}

impl Serialize for Device {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

#[cfg(feature = "schemas")]
impl schemars::JsonSchema for Device {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Device".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "string",
            "description": "A GPU's index (`0`), a MIG instance's (`1:0`), or a UUID (`GPU-…`, `MIG-…`)",
        })
    }
}

impl Device {
    /// Whether it is a part of a GPU.
    pub fn is_instance(&self) -> bool {
        matches!(self, Self::Instance(..) | Self::InstanceUuid(_))
    }
}

impl Request {
    /// All GPUs, and whatever parts of the driver the engine gives.
    pub fn of(gpus: Gpus) -> Self {
        Self { gpus, capabilities: None, requirements: BTreeMap::new() }
    }
}

impl Gpus {
    /// The value of `NVIDIA_VISIBLE_DEVICES`, whose devices may be CDI names. None if it asks for no GPUs and no driver.
    ///
    /// # Errors
    ///
    /// If a part of it names no GPU.
    pub fn of_variable(value: &str) -> Result<Option<Self>, NoDevice> {
        let words: Vec<_> = value.split(',').map(str::trim).filter(|word| !word.is_empty()).collect();
        let names: Vec<_> = words.iter().map(|word| cdi_name(word).unwrap_or(word)).collect();
        match names.as_slice() {
            [] => Ok(None),
            names if names.contains(&"void") => Ok(None),
            names if names.contains(&"all") => Ok(Some(Self::All)),
            ["none"] => Ok(Some(Self::DriverOnly)),
            names => Self::of_names(names).map(Some),
        }
    }

    /// The devices of these names, each of them once.
    ///
    /// # Errors
    ///
    /// If one of them names no GPU.
    pub fn of_names<S: AsRef<str>>(names: &[S]) -> Result<Self, NoDevice> {
        let mut devices = Vec::new();
        for name in names {
            let device: Device = name.as_ref().trim().parse()?;
            if !devices.contains(&device) {
                devices.push(device);
            }
        }
        Ok(Self::Devices(devices))
    }

    /// In words.
    pub fn described(&self) -> String {
        let list = |all: &[Device]| all.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        match self {
            Self::All => "all GPUs".to_owned(),
            Self::DriverOnly => "no GPU, only the driver's libraries and programs".to_owned(),
            Self::Count(1) => "one GPU".to_owned(),
            Self::Count(count) => format!("{count} GPUs"),
            Self::Devices(devices) => match (devices.len(), devices.iter().all(Device::is_instance)) {
                (1, true) => format!("MIG device {}", list(devices)),
                (_, true) => format!("MIG devices {}", list(devices)),
                (1, false) => format!("GPU {}", list(devices)),
                (_, false) => format!("GPUs {}", list(devices)),
            },
            Self::Shares(1) => "a share of a GPU".to_owned(),
            Self::Shares(count) => format!("{count} shares of GPUs"),
            Self::Profiles(profiles) => {
                let one = |(profile, count): (&String, &u32)| format!("{count} MIG device(s) of the profile {profile}");
                profiles.iter().map(one).collect::<Vec<_>>().join(", ")
            }
        }
    }
}

/// The name in `nvidia.com/gpu=NAME`, or in `runtime.nvidia.com/gpu=NAME`, which NVIDIA's runtime makes up while it starts a container.
/// Specifications may name devices by their type and index: `gpu0`, `mig1:0`.
pub fn cdi_name(word: &str) -> Option<&str> {
    let word = word.strip_prefix("runtime.").unwrap_or(word);
    let name = word.strip_prefix("nvidia.com/gpu=")?;
    let of_type = |kind: &str| name.strip_prefix(kind).filter(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    Some(of_type("gpu").or_else(|| of_type("mig")).unwrap_or(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_devices_are_read_as_they_are_written() {
        let names =
            ["0", "13", "1:0", "GPU-fef8089b", "MIG-c7384736-a75d-5afc-978f-d2f1294409fd", "MIG-GPU-b8ea3855/1/0"];
        for name in names {
            assert_eq!(name.parse::<Device>().map(|d| d.to_string()).as_deref(), Ok(name));
        }
        for other in
            ["", "-1", "+1", "0:", ":0", "GPU-", "gpu0", "GPU-x y", "MIG-", "$GPU", "all", "99999999999", "1:0:0"]
        {
            assert!(other.parse::<Device>().is_err(), "{other:?}");
        }
    }

    #[test]
    fn the_variable_has_words_for_all_for_none_and_for_nothing() {
        let read = |text: &str| Gpus::of_variable(text).expect("read");
        assert_eq!((read("all"), read("0,all")), (Some(Gpus::All), Some(Gpus::All)));
        assert_eq!(read("none"), Some(Gpus::DriverOnly));
        assert_eq!((read("void"), read(""), read(" , ")), (None, None, None));
        let two = Gpus::Devices(vec![Device::Index(2), Device::Index(3)]);
        assert_eq!((read("2, 3,2"), read("nvidia.com/gpu=2,nvidia.com/gpu=gpu3")), (Some(two.clone()), Some(two)));
        assert_eq!(read("nvidia.com/gpu=all"), Some(Gpus::All));
        assert_eq!(read("nvidia.com/gpu=mig1:0"), Some(Gpus::Devices(vec![Device::Instance(1, 0)])));
        assert!(Gpus::of_variable("0,$ID").is_err());
    }
}
