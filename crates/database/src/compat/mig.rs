//! GPU instances (MIG): profiles, where they fit, and the services in the way.

use super::{Database, PciDevice, SourceId};
use serde::{Deserialize, Serialize};

/// A MIG profile: a kind of GPU instance.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MigProfile {
    /// The GPUs that offer it.
    pub gpus: Vec<PciDevice>,
    /// The boards that offer it, if boards with the same device id differ: the last four digits of
    /// their subsystem ids.
    #[serde(default)]
    pub subsystems: Vec<PciDevice>,
    /// `1g.10gb+me`.
    pub name: String,
    /// The profile id that `nvidia-smi mig -lgip` prints, if known.
    #[serde(default)]
    pub id: Option<u32>,
    /// The number of SM slices.
    pub compute_slices: u8,
    /// The number of memory slices, if published.
    #[serde(default)]
    pub memory_slices: Option<u8>,
    /// Where an instance can be on the GPU, as `nvidia-smi mig -lgipp` prints it, if known.
    #[serde(default)]
    pub placement: Option<MigPlacement>,
    /// The most instances of this profile on one GPU.
    pub instances: u8,
    /// The media engines of an instance, if published.
    #[serde(default)]
    pub engines: Option<MediaEngines>,
    /// The first driver branch that offers it, if the GPU is older than that.
    #[serde(default)]
    pub first_driver_branch: Option<u16>,
    /// How sources differ, and which value was used.
    #[serde(default)]
    pub(crate) disagreement: Option<String>,
    /// What was concluded instead of read, and why.
    #[serde(default)]
    pub assumed: Option<String>,
    /// The sources.
    pub sources: Vec<SourceId>,
}

/// A service that uses GPUs or their instances.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MigClient {
    /// The systemd unit.
    pub unit: String,
    /// What it has to do with instances.
    pub role: MigRole,
    pub(crate) sources: Vec<SourceId>,
}

impl Database {
    /// The services that use GPUs or their instances, and the container engines.
    pub fn gpu_services(&self) -> impl Iterator<Item = (&str, MigRole)> {
        let named = self.mig_clients.iter();
        let engines = self.engines.iter().flat_map(|engine| &engine.units);
        named
            .map(|client| (client.unit.as_str(), client.role))
            .chain(engines.map(|unit| (unit.as_str(), MigRole::Runtime)))
    }
}

/// What a service has to do with the instances of GPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MigRole {
    /// It keeps the GPUs ready, and in use: their MIG mode does not change while it runs. At boot
    /// it starts before instances are created.
    Keeper,
    /// Joined GPUs are not reset without it. At boot it starts before instances are created.
    Fabric,
    /// It keeps GPUs in use: their MIG mode does not change while it runs. At boot it starts after
    /// instances are created.
    User,
    /// It starts programs that use GPUs. At boot it starts after instances are created.
    Runtime,
    /// It lists the instances for others, and is started again when they change. At boot it starts
    /// after they are created.
    Lister,
}

impl MigRole {
    /// Whether it keeps GPUs in use.
    pub fn holds_gpus(self) -> bool {
        matches!(self, Self::Keeper | Self::User)
    }

    /// Whether it starts before instances are created at boot.
    pub fn starts_first(self) -> bool {
        matches!(self, Self::Keeper | Self::Fabric)
    }
}

/// Where a GPU instance can be: it occupies `size` placement slots of the GPU, from one of `starts`
/// on. Most GPUs have as many slots as memory slices.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MigPlacement {
    /// The slots that an instance can start at, from 0, ascending.
    pub starts: Vec<u8>,
    /// The number of slots.
    pub size: u8,
}

/// The number of media engines of each kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MediaEngines {
    /// Video decoders (NVDEC).
    pub decoders: u8,
    /// Video encoders (NVENC).
    pub encoders: u8,
    /// JPEG decoders (NVJPG).
    pub jpeg: u8,
    /// Optical-flow accelerators (OFA).
    pub ofa: u8,
}
