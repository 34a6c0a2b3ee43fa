//! The file of layouts, in the format of NVIDIA's mig-parted (`version: v1`).

use super::geometry::Geometry;
use super::layout::{Layout, LayoutError};
use super::plan::Wanted;
use gpusetup_database::compat::PciDevice;
use gpusetup_database::yaml;
use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;
use std::fmt::{self, Write};

/// The most entries of a configuration that are read.
const MAX_ENTRIES: usize = 1024;

/// A file of layouts: configurations by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LayoutFile {
    configurations: BTreeMap<String, Vec<Entry>>,
}

/// What a configuration says of some GPUs.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Entry {
    /// The boards that it is for; empty for all.
    #[serde(default)]
    device_filter: Boards,
    /// The GPUs, by index or UUID.
    devices: Devices,
    /// Whether MIG is on.
    pub mig_enabled: bool,
    /// The number of instances of each profile.
    #[serde(default)]
    pub mig_devices: Option<BTreeMap<String, u32>>,
}

/// Why a file has no layout for a host.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FileError {
    /// It is not a file of layouts.
    #[error("{0}")]
    Form(String),
    /// A part of it contradicts itself.
    #[error("the configuration {configuration:?} {problem}")]
    Entry {
        /// Its name.
        configuration: String,
        /// What is wrong.
        problem: String,
    },
    /// It has no configuration of this name, or several and none was named.
    #[error("{asked}; the file has: {known}")]
    Name {
        /// What was asked for.
        asked: String,
        /// The names in the file.
        known: String,
    },
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Boards(Vec<Board>);

/// A device id, and a subsystem id where boards with that device id differ: `0x233010DE`,
/// `0x233010DE:0x16C110DE`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Board {
    device: PciDevice,
    subsystem: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Devices {
    All,
    Listed(Vec<NamedGpu>),
}

/// A GPU that an entry lists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NamedGpu {
    /// Its index, as nvidia-smi counts.
    Index(u64),
    /// Its UUID. mig-parted knows indexes only, and they change when a GPU is added, removed or
    /// lost.
    Uuid(String),
}

impl NamedGpu {
    /// Whether it is this GPU.
    pub fn is(&self, index: usize, uuid: Option<&str>) -> bool {
        match self {
            Self::Index(listed) => usize::try_from(*listed) == Ok(index),
            Self::Uuid(listed) => uuid.is_some_and(|uuid| uuid.eq_ignore_ascii_case(listed)),
        }
    }
}

impl fmt::Display for NamedGpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Index(index) => write!(f, "GPU {index}"),
            Self::Uuid(uuid) => f.write_str(uuid),
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Whole {
    version: String,
    mig_configs: BTreeMap<String, Vec<Entry>>,
}

impl LayoutFile {
    /// Reads a file.
    ///
    /// # Errors
    ///
    /// If it does not have the format, or contradicts itself.
    pub fn read(text: &str) -> Result<Self, FileError> {
        let whole: Whole = yaml::read(text).map_err(|e| {
            let problem = e.problem;
            FileError::Form(match e.line {
                0 => problem,
                line => format!("{problem} (line {line}, column {})", e.column),
            })
        })?;
        if whole.version != "v1" {
            return Err(FileError::Form(format!(
                "its version is {:?}; gpusetup reads v1",
                whole.version
            )));
        }
        if whole.mig_configs.is_empty() {
            return Err(FileError::Form(
                "it has no configurations: mig-configs is empty".to_owned(),
            ));
        }
        for (configuration, entries) in &whole.mig_configs {
            let problem = match entries.as_slice() {
                [] => Some("has no entries".to_owned()),
                entries if entries.len() > MAX_ENTRIES => {
                    Some(format!("has more than {MAX_ENTRIES} entries"))
                }
                entries => entries.iter().find_map(Entry::problem),
            };
            if let Some(problem) = problem {
                return Err(FileError::Entry {
                    configuration: configuration.clone(),
                    problem,
                });
            }
        }
        Ok(Self {
            configurations: whole.mig_configs,
        })
    }

    /// The names of the configurations.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.configurations.keys().map(String::as_str)
    }

    /// The configuration with this name; without one, the only configuration.
    ///
    /// # Errors
    ///
    /// If there is no such configuration.
    pub fn named(&self, name: Option<&str>) -> Result<(&str, &[Entry]), FileError> {
        let found = match name {
            Some(name) => self.configurations.get_key_value(name),
            None if self.configurations.len() == 1 => self.configurations.first_key_value(),
            None => None,
        };
        found
            .map(|(name, entries)| (name.as_str(), entries.as_slice()))
            .ok_or_else(|| FileError::Name {
                asked: match name {
                    Some(name) => format!("no configuration is called {name:?}"),
                    None => "the name of a configuration is needed".to_owned(),
                },
                known: self.names().collect::<Vec<_>>().join(", "),
            })
    }
}

impl Entry {
    fn problem(&self) -> Option<String> {
        match &self.mig_devices {
            None if self.mig_enabled => Some(
                "has mig-enabled: true without mig-devices; write mig-devices: {} for no instances"
                    .to_owned(),
            ),
            Some(devices) if !self.mig_enabled && !devices.is_empty() => {
                Some("has mig-devices, but mig-enabled: false".to_owned())
            }
            // As mig-parted has it: a profile may be there zero times, but not all of them.
            Some(devices) if !devices.is_empty() && devices.values().all(|count| *count == 0) => {
                let names: Vec<_> = devices.keys().map(String::as_str).collect();
                Some(format!(
                    "has no instances of {}; write mig-devices: {{}} for no instances",
                    names.join(", ")
                ))
            }
            _ => None,
        }
    }

    /// Whether it is for a GPU: its index, UUID, device id and subsystem (`10de:1450`).
    pub fn is_for(
        &self,
        index: usize,
        uuid: Option<&str>,
        device: Option<PciDevice>,
        subsystem: Option<&str>,
    ) -> bool {
        let listed = match &self.devices {
            Devices::All => true,
            Devices::Listed(all) => all.iter().any(|listed| listed.is(index, uuid)),
        };
        listed
            && (self.device_filter.0.is_empty()
                || self.device_filter.0.iter().any(|board| {
                    device == Some(board.device)
                        && board
                            .subsystem
                            .as_deref()
                            .is_none_or(|id| subsystem == Some(id))
                }))
    }

    /// What it makes of a GPU that can be partitioned so.
    ///
    /// # Errors
    ///
    /// If one of the names is not a profile of the GPU.
    pub fn wanted(&self, geometry: &Geometry) -> Result<Wanted, LayoutError> {
        match &self.mig_devices {
            Some(devices) if self.mig_enabled => {
                let counted = devices
                    .iter()
                    .map(|(profile, count)| (profile.as_str(), *count));
                let counted = counted.filter(|(_, count)| *count > 0);
                Layout::counted(geometry, counted).map(Wanted::Layout)
            }
            _ => Ok(Wanted::Off),
        }
    }

    /// The GPUs that it lists.
    pub fn listed(&self) -> &[NamedGpu] {
        match &self.devices {
            Devices::All => &[],
            Devices::Listed(all) => all,
        }
    }
}

impl<'de> Deserialize<'de> for Boards {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct OneOrMore;
        impl<'de> Visitor<'de> for OneOrMore {
            type Value = Boards;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an id of a GPU, such as \"0x20B010DE\", or a list of them")
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<Boards, E> {
                if text.is_empty() {
                    Ok(Boards::default())
                } else {
                    Ok(Boards(vec![board(text).map_err(E::custom)?]))
                }
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Boards, A::Error> {
                let mut all = Vec::new();
                while let Some(text) = list.next_element::<String>()? {
                    all.push(board(&text).map_err(A::Error::custom)?);
                }
                Ok(Boards(all))
            }
        }
        d.deserialize_any(OneOrMore)
    }
}

/// The two 16-bit numbers in `0x20B010DE`.
fn halves(id: &str) -> Option<(u16, u32)> {
    let digits = id
        .strip_prefix("0x")
        .or_else(|| id.strip_prefix("0X"))
        .filter(|digits| digits.len() <= 8)?;
    let number = u32::from_str_radix(digits, 16).ok()?;
    Some((u16::try_from(number >> 16).ok()?, number & 0xffff))
}

fn board(text: &str) -> Result<Board, String> {
    let (device, subsystem) = text
        .split_once(':')
        .map_or((text, None), |(device, board)| (device, Some(board)));
    let wrong = || format!("{text:?} is not an id such as \"0x20B010DE\": device, then vendor");
    let (device, vendor) = halves(device).ok_or_else(wrong)?;
    if vendor != 0x10de {
        return Err(format!(
            "{text:?} is not an id of NVIDIA's: these end in 10DE"
        ));
    }
    let subsystem = match subsystem {
        None => None,
        Some(id) => {
            let (device, vendor) = halves(id).ok_or_else(wrong)?;
            Some(format!("{vendor:04x}:{device:04x}"))
        }
    };
    Ok(Board {
        device: PciDevice(device),
        subsystem,
    })
}

impl<'de> Deserialize<'de> for Devices {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct AllOrList;
        impl<'de> Visitor<'de> for AllOrList {
            type Value = Devices;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("`all`, or a list of GPUs by index or UUID")
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<Devices, E> {
                if text == "all" {
                    Ok(Devices::All)
                } else {
                    Err(E::custom(
                        "`all` or a list of GPUs by index or UUID is expected",
                    ))
                }
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Devices, A::Error> {
                let mut all = Vec::new();
                while let Some(listed) = list.next_element()? {
                    all.push(listed);
                }
                Ok(Devices::Listed(all))
            }
        }
        d.deserialize_any(AllOrList)
    }
}

impl<'de> Deserialize<'de> for NamedGpu {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct IndexOrUuid;
        impl Visitor<'_> for IndexOrUuid {
            type Value = NamedGpu;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the index of a GPU, or its UUID")
            }
            fn visit_u64<E: Error>(self, index: u64) -> Result<NamedGpu, E> {
                Ok(NamedGpu::Index(index))
            }
            fn visit_i64<E: Error>(self, index: i64) -> Result<NamedGpu, E> {
                let index = u64::try_from(index)
                    .map_err(|_| E::custom(format!("{index} is not the index of a GPU")))?;
                Ok(NamedGpu::Index(index))
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<NamedGpu, E> {
                match is_uuid(text) {
                    true => Ok(NamedGpu::Uuid(text.to_owned())),
                    false => Err(E::custom(format!(
                        "{text:?} is neither the index of a GPU nor its UUID (GPU-...)"
                    ))),
                }
            }
        }
        d.deserialize_any(IndexOrUuid)
    }
}

/// Whether a text has the form of a GPU's UUID, as nvidia-smi prints it.
fn is_uuid(text: &str) -> bool {
    text.len() <= 80
        && text.strip_prefix("GPU-").is_some_and(|text| {
            !text.is_empty() && text.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-')
        })
}

/// How a GPU is partitioned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GpuLayout {
    /// Which one. None for all GPUs with this device id.
    pub(crate) gpu: Option<NamedGpu>,
    /// PCI device id, if known.
    pub(crate) device: Option<PciDevice>,
    /// MIG is on.
    pub(crate) enabled: bool,
    /// The number of instances of each profile.
    pub(crate) instances: BTreeMap<String, u32>,
}

/// A configuration of GPUs in the format. GPUs that are alike share an entry.
pub(crate) fn export(name: &str, gpus: &[GpuLayout]) -> String {
    let mut out = format!("version: v1\nmig-configs:\n  {}:\n", quoted(name));
    let mut entries: Vec<Vec<&GpuLayout>> = Vec::new();
    for gpu in gpus {
        let alike = entries.iter_mut().find(|alike| {
            let first = alike[0];
            (first.enabled, &first.instances, first.device)
                == (gpu.enabled, &gpu.instances, gpu.device)
        });
        match alike {
            Some(alike) => alike.push(gpu),
            None => entries.push(vec![gpu]),
        }
    }
    entries.iter().for_each(|alike| out += &entry(alike));
    out
}

fn entry(alike: &[&GpuLayout]) -> String {
    let gpu = alike[0];
    let each = alike.iter().map(|gpu| match &gpu.gpu {
        Some(NamedGpu::Index(index)) => Some(index.to_string()),
        Some(NamedGpu::Uuid(uuid)) => Some(quoted(uuid)),
        None => None,
    });
    let each: Option<Vec<_>> = each.collect();
    let devices = each.map_or_else(|| "all".to_owned(), |each| format!("[{}]", each.join(", ")));
    let mut out = String::new();
    let mut start = "    - ";
    if let Some(PciDevice(device)) = gpu.device {
        let _ = writeln!(out, "{start}device-filter: [\"0x{device:04X}10DE\"]");
        start = "      ";
    }
    let _ = writeln!(out, "{start}devices: {devices}");
    let _ = writeln!(out, "      mig-enabled: {}", gpu.enabled);
    if gpu.enabled && gpu.instances.is_empty() {
        out += "      mig-devices: {}\n";
    } else if gpu.enabled {
        out += "      mig-devices:\n";
        for (profile, count) in &gpu.instances {
            let _ = writeln!(out, "        {}: {count}", quoted(profile));
        }
    }
    out
}

/// A text in double quotes.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
