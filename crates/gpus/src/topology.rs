//! How GPUs reach each other, processors and network adapters: NVML's answers, and the bus below
//! /sys.

use gpusetup_nvidia::{GpuReading, GpuTable, LinkEnd, TopologyLevel};
use gpusetup_system::System;
use serde::{Deserialize, Serialize};
use std::path::{Component, Path};

/// A way over the PCI bus, from the fastest to the slowest. The words are those of `nvidia-smi topo
/// -m`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "UPPERCASE")]
pub enum PciWay {
    /// Over at most one PCIe switch, or on one board.
    Pix,
    /// Over several PCIe switches.
    Pxb,
    /// Over a host bridge: the processor's PCIe root.
    Phb,
    /// Between host bridges of one NUMA node.
    Node,
    /// Between NUMA nodes.
    Sys,
}

impl PciWay {
    /// The word of `nvidia-smi topo -m`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pix => "PIX",
            Self::Pxb => "PXB",
            Self::Phb => "PHB",
            Self::Node => "NODE",
            Self::Sys => "SYS",
        }
    }
}

/// How two GPUs are connected.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct Connection {
    /// One GPU, by its number.
    pub from: usize,
    /// The other GPU, by its number.
    pub to: usize,
    /// NVLinks between them, directly or by NVSwitches.
    pub nvlinks: usize,
    /// The way over the PCI bus.
    pub pci: Option<PciWay>,
}

/// What is nearest to a GPU.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct Locality {
    /// The processors: `0-31,64-95`.
    pub cpus: Option<String>,
    /// The NUMA node.
    pub numa_node: Option<u32>,
}

/// A network adapter for RDMA.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct Nic {
    /// Its name: `mlx5_0`.
    pub name: String,
    /// The way from each GPU, in the GPUs' order.
    pub ways: Vec<Option<PciWay>>,
}

/// How each pair of GPUs is connected. GPUs that do not answer are left out.
pub(crate) fn connections(table: &GpuTable) -> Vec<Connection> {
    let gpus = table.gpus.iter().enumerate();
    let answering = gpus.filter(|(_, gpu)| gpu.refused.is_none());
    let mut all = Vec::new();
    for (to, other) in answering.clone() {
        for (from, gpu) in answering.clone().take_while(|(from, _)| *from < to) {
            let mut pairs = table.ways.iter();
            let pair = pairs.find(|pair| (pair.from as usize, pair.to as usize) == (from, to));
            all.push(Connection {
                from,
                to,
                nvlinks: nvlinks_between(gpu, other),
                pci: pair.map(|pair| pair.over.into()),
            });
        }
    }
    all
}

impl From<TopologyLevel> for PciWay {
    fn from(level: TopologyLevel) -> Self {
        match level {
            TopologyLevel::Board | TopologyLevel::Switch => Self::Pix,
            TopologyLevel::Switches => Self::Pxb,
            TopologyLevel::HostBridge => Self::Phb,
            TopologyLevel::Node => Self::Node,
            TopologyLevel::System => Self::Sys,
        }
    }
}

/// NVLinks from one GPU to the other; on boards with NVSwitches, as many as both have to switches.
fn nvlinks_between(one: &GpuReading, other: &GpuReading) -> usize {
    let [own, others] = [one, other].map(|gpu| {
        let links = gpu.nvlinks.iter().flatten();
        links.filter(|link| link.active)
    });
    let direct = own
        .clone()
        .filter(|link| link.address.is_some() && link.address == other.address)
        .count();
    if direct > 0 {
        return direct;
    }
    let [own, others] = [own, others].map(|links| {
        let to_switches = links.filter(|link| link.leads_to == Some(LinkEnd::Switch));
        to_switches.count()
    });
    own.min(others)
}

const DEVICES: &str = "/sys/bus/pci/devices";
const ADAPTERS: &str = "/sys/class/infiniband";

/// What is nearest to GPUs with these addresses, and the network adapters. Nothing where the bus is
/// not to be seen.
pub(crate) fn of_bus(system: &System, addresses: &[Option<String>]) -> (Vec<Locality>, Vec<Nic>) {
    let folders: Vec<_> = addresses
        .iter()
        .map(|address| address.as_ref().map(|a| Path::new(DEVICES).join(a)))
        .collect();
    let gpus: Vec<_> = folders
        .iter()
        .map(|folder| folder.as_ref().and_then(|f| place(system, f)))
        .collect();
    let mut names = system.list(ADAPTERS).unwrap_or_default();
    names.sort_by_key(|name| (name.len(), name.clone()));
    (
        folders
            .iter()
            .map(|folder| {
                let cpus = folder
                    .as_ref()
                    .and_then(|f| line(system, &f.join("local_cpulist")))
                    .filter(|cpus| !cpus.is_empty());
                Locality {
                    cpus,
                    numa_node: folder.as_ref().and_then(|f| numa_node(system, f)),
                }
            })
            .collect(),
        names
            .into_iter()
            .filter_map(|name| {
                let own = place(system, &Path::new(ADAPTERS).join(&name).join("device"))?;
                let ways = gpus
                    .iter()
                    .map(|gpu| Some(gpu.as_ref()?.way_to(&own)))
                    .collect();
                Some(Nic { name, ways })
            })
            .collect(),
    )
}

/// The first line of a file.
fn line(system: &System, path: &Path) -> Option<String> {
    Some(
        system
            .read_text(path)
            .ok()??
            .lines()
            .next()?
            .trim()
            .to_owned(),
    )
}

/// The kernel writes -1 if the node is not known.
fn numa_node(system: &System, device: &Path) -> Option<u32> {
    line(system, &device.join("numa_node"))?.parse().ok()
}

/// Where a device is on the bus.
struct Place {
    /// The host bridge, the bridges above the device, and the device itself: `pci0000:00`,
    /// `0000:00:01.0`, `0000:17:00.0`.
    parts: Vec<String>,
    numa_node: Option<u32>,
}

fn place(system: &System, device: &Path) -> Option<Place> {
    let path = system.canonical(device).ok()?;
    let names = path.components().filter_map(|c| {
        if let Component::Normal(name) = c {
            name.to_str()
        } else {
            None
        }
    });
    let parts: Vec<_> = names
        .skip_while(|name| !name.starts_with("pci"))
        .map(str::to_owned)
        .collect();
    (parts.len() > 1).then(|| Place {
        parts,
        numa_node: numa_node(system, device),
    })
}

impl Place {
    fn way_to(&self, other: &Self) -> PciWay {
        let common = self
            .parts
            .iter()
            .zip(&other.parts)
            .take_while(|(one, other)| one == other)
            .count();
        let longest = self.parts.len().max(other.parts.len());
        match common {
            0 if self.numa_node.is_some() && self.numa_node == other.numa_node => PciWay::Node,
            0 => PciWay::Sys,
            1 => PciWay::Phb,
            // A switch has a port above, and one below for each device.
            _ if longest - common <= 2 => PciWay::Pix,
            _ => PciWay::Pxb,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(text: &str, numa_node: Option<u32>) -> Place {
        Place {
            parts: text.split('/').map(str::to_owned).collect(),
            numa_node,
        }
    }

    #[test]
    fn ways_have_the_words_of_nvidia_smi() {
        let gpu = place(
            "pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:00.0/0000:03:00.0",
            Some(0),
        );
        for (other, node, way) in [
            (
                "pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:01.0/0000:04:00.0",
                Some(0),
                "PIX",
            ),
            (
                "pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:01.0/0000:04:00.0/0000:05:00.0/0000:06:00.0",
                Some(0),
                "PXB",
            ),
            ("pci0000:00/0000:00:02.0/0000:07:00.0", Some(0), "PHB"),
            ("pci0000:40/0000:40:02.0/0000:41:00.0", Some(0), "NODE"),
            ("pci0000:40/0000:40:02.0/0000:41:00.0", Some(1), "SYS"),
            ("pci0000:40/0000:40:02.0/0000:41:00.0", None, "SYS"),
        ] {
            assert_eq!(gpu.way_to(&place(other, node)).as_str(), way, "{other}");
        }
    }
}
