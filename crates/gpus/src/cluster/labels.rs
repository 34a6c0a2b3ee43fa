//! Labels of a Kubernetes node, with the names and values of NVIDIA's GPU Feature Discovery:
//! <https://github.com/NVIDIA/k8s-device-plugin/tree/main/docs/gpu-feature-discovery>, compared
//! with its source at 1b826acc6af3.

use gpusetup_database::compat::Database;
use gpusetup_database::version::{ComputeCapability, CudaVersion};
use gpusetup_host::{Facts, Gpu};
use gpusetup_nvidia::{GpuTable, MigDevice, MigShare, Virtualization};
use std::collections::BTreeMap;
use std::fmt::Display;

/// How MIG devices are offered to pods, in the words of NVIDIA's device plugin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
pub enum MigStrategy {
    /// Whole GPUs only.
    #[default]
    None,
    /// Devices of one kind, in the place of GPUs.
    Single,
    /// A resource for each kind of device.
    Mixed,
}

impl MigStrategy {
    fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Single => "single",
            Self::Mixed => "mixed",
        }
    }
}

/// The host that becomes a node.
#[derive(Debug, Clone, Copy)]
pub struct Node<'a> {
    /// Its facts.
    pub facts: &'a Facts,
    /// What its driver reports. None if it was not asked: names and capabilities are then those of
    /// the database.
    pub table: Option<&'a GpuTable>,
    /// The name of the machine in its firmware, `DGXH100`.
    pub machine: Option<&'a str>,
}

struct NodeGpu<'a> {
    name: &'a str,
    /// The name is that of one product.
    is_product: bool,
    memory_mebibytes: Option<u64>,
    capability: Option<ComputeCapability>,
    /// MIG devices. None if MIG is off.
    devices: Option<&'a [MigDevice]>,
}

/// The labels by their names. Nothing without a GPU.
pub fn labels(node: &Node, database: &Database, strategy: MigStrategy) -> BTreeMap<String, String> {
    let gpus = node.gpus();
    let mut labels = Labels::default();
    if gpus.is_empty() {
        return labels.0;
    }
    node.versions(database, &mut labels);
    labels.add("gpu.machine", value(node.machine.unwrap_or("unknown")));
    if let Some(mode) = node.mode() {
        labels.add("gpu.mode", mode);
    }
    if let Some(has_mig) = node.has_mig(database) {
        labels.add("mig.capable", has_mig);
    }
    labels.add("mps.capable", false);
    labels.add("vgpu.present", node.is_guest());
    if let Some(clique) = node.clique() {
        labels.add("gpu.clique", clique);
    }
    of_gpus(&gpus, database, &mut labels);
    if strategy != MigStrategy::None {
        labels.add("mig.strategy", strategy.as_str());
    }
    match strategy {
        MigStrategy::None => {}
        MigStrategy::Single => single(&gpus, &mut labels),
        MigStrategy::Mixed => mixed(&gpus, &mut labels),
    }
    labels.0
}

/// Whether the facts name one product. The database has several names for boards that share a PCI
/// id (`NVIDIA A16 / NVIDIA A2`), and only a description for a compute capability.
pub fn is_product(gpu: &Gpu) -> bool {
    gpu.device().is_some() && gpu.name.as_ref().is_some_and(|name| !name.contains(" / "))
}

#[derive(Default)]
struct Labels(BTreeMap<String, String>);

impl Labels {
    fn add(&mut self, name: &str, value: impl Display) {
        self.0
            .insert(format!("nvidia.com/{name}"), value.to_string());
    }

    /// The labels that every resource has; without a product, if it is not known.
    fn resource(
        &mut self,
        resource: &str,
        product: Option<String>,
        count: usize,
        replicas: u32,
        sharing: &str,
    ) {
        if let Some(product) = product {
            self.add(&format!("{resource}.product"), product);
        }
        self.add(&format!("{resource}.count"), count);
        self.add(&format!("{resource}.replicas"), replicas);
        self.add(&format!("{resource}.sharing-strategy"), sharing);
    }

    fn share(&mut self, resource: &str, share: &MigShare) {
        self.add(&format!("{resource}.memory"), share.memory_mebibytes);
        self.add(
            &format!("{resource}.multiprocessors"),
            share.multiprocessors,
        );
        self.add(&format!("{resource}.slices.gi"), share.gpu_slices);
        self.add(&format!("{resource}.slices.ci"), share.compute_slices);
        self.add(&format!("{resource}.engines.copy"), share.copy_engines);
        self.add(&format!("{resource}.engines.decoder"), share.decoders);
        self.add(&format!("{resource}.engines.encoder"), share.encoders);
        self.add(&format!("{resource}.engines.jpeg"), share.jpeg_decoders);
        self.add(&format!("{resource}.engines.ofa"), share.optical_flow);
    }
}

impl<'a> Node<'a> {
    /// The model that the labels describe, if the GPUs are of several.
    pub fn model_of_several(&self) -> Option<&'a str> {
        let gpus = self.gpus();
        let model = described(&gpus)?.name;
        gpus.iter().any(|gpu| gpu.name != model).then_some(model)
    }

    fn gpus(&self) -> Vec<NodeGpu<'a>> {
        let Some(table) = self.table else {
            let each = self.facts.gpus.iter().map(|gpu| NodeGpu {
                name: gpu.name.as_deref().unwrap_or(""),
                is_product: is_product(gpu),
                memory_mebibytes: None,
                capability: gpu.compute_capability,
                devices: None,
            });
            return each.collect();
        };
        let each = table
            .gpus
            .iter()
            .filter(|gpu| gpu.refused.is_none())
            .map(|gpu| NodeGpu {
                name: gpu.name.as_deref().unwrap_or(""),
                is_product: true,
                memory_mebibytes: gpu
                    .memory
                    .map(|memory| memory.total_bytes >> 20)
                    .filter(|size| *size > 0),
                capability: gpu.compute_capability,
                devices: gpu
                    .mig
                    .as_ref()
                    .filter(|mig| mig.enabled)
                    .map(|mig| mig.devices.as_slice()),
            });
        each.collect()
    }

    /// The driver, and the newest CUDA that it runs. Each under its old name, too.
    fn versions(&self, database: &Database, labels: &mut Labels) {
        let installed = self.facts.driver.as_ref().map(|driver| driver.version);
        let reported = self.table.and_then(|table| table.driver.clone());
        if let Some(driver) = reported.or_else(|| installed.map(|version| version.to_string())) {
            let mut numbers = driver.split('.');
            for (name, old) in [("major", "major"), ("minor", "minor"), ("revision", "rev")] {
                let number = value(numbers.next().unwrap_or_default());
                labels.add(&format!("cuda.driver-version.{name}"), &number);
                labels.add(&format!("cuda.driver.{old}"), &number);
            }
            labels.add("cuda.driver-version.full", value(&driver));
        }
        let cuda: Option<CudaVersion> = self.table.map_or_else(
            || database.branch(installed?.branch)?.max_cuda,
            |table| table.cuda,
        );
        if let Some(cuda) = cuda {
            for (name, number) in [("major", cuda.major), ("minor", cuda.minor)] {
                labels.add(&format!("cuda.runtime-version.{name}"), number);
                labels.add(&format!("cuda.runtime.{name}"), number);
            }
            labels.add(
                "cuda.runtime-version.full",
                format_args!("{}.{}", cuda.major, cuda.minor),
            );
        }
    }

    /// What the PCI class of all GPUs says: VGA controllers draw, 3D controllers compute. None if
    /// one was only named: nobody has read its class.
    fn mode(&self) -> Option<&'static str> {
        if self.table.is_none() && self.facts.gpus.iter().any(|gpu| gpu.assumed) {
            return None;
        }
        let mut classes = self.facts.gpus.iter().map(|gpu| gpu.class.as_str());
        let first = classes.next();
        Some(
            match first.filter(|class| classes.all(|other| other == *class)) {
                Some("0300") => "graphics",
                Some("0302") => "compute",
                _ => "unknown",
            },
        )
    }

    /// Whether a GPU can be cut into instances. None if that is not known, because a GPU was named
    /// by its generation only, or is newer than the database.
    fn has_mig(&self, database: &Database) -> Option<bool> {
        if let Some(table) = self.table {
            return Some(table.gpus.iter().any(|gpu| gpu.mig.is_some()));
        }
        let all: Vec<_> = self
            .facts
            .gpus
            .iter()
            .map(|gpu| {
                gpu.name.as_ref()?;
                Some(
                    database
                        .mig_profiles(gpu.device()?, gpu.subsystem.as_deref())
                        .next()
                        .is_some(),
                )
            })
            .collect();
        if all.contains(&Some(true)) {
            Some(true)
        } else {
            all.into_iter().min().flatten()
        }
    }

    fn is_guest(&self) -> bool {
        self.table.is_some_and(|table| {
            table
                .gpus
                .iter()
                .any(|gpu| gpu.virtualization == Some(Virtualization::Vgpu))
        })
    }

    /// The NVLink domain, if all GPUs in one are in the same.
    fn clique(&self) -> Option<&'a str> {
        let mut all = self
            .table?
            .gpus
            .iter()
            .filter_map(|gpu| gpu.clique.as_deref());
        let first = all.next()?;
        all.all(|other| other == first).then_some(first)
    }
}

/// The labels of whole GPUs. A node with several models has those of the one of which there are the
/// most; the discovery takes any of them. Whole GPUs come before those that are cut into MIG
/// devices, and known ones before others.
fn of_gpus(gpus: &[NodeGpu], database: &Database, labels: &mut Labels) {
    let Some(gpu) = described(gpus) else { return };
    // Those that are cut cannot be shared.
    let replicas = u32::from(gpu.devices.is_none());
    labels.resource(
        "gpu",
        gpu.is_product.then(|| value(gpu.name)),
        alike(gpus, gpu),
        replicas,
        "none",
    );
    if let Some(size) = gpu.memory_mebibytes {
        labels.add("gpu.memory", size);
    }
    if let Some(capability) = gpu.capability {
        labels.add("gpu.family", family(database, capability));
        labels.add("gpu.compute.major", capability.major);
        labels.add("gpu.compute.minor", capability.minor);
    }
}

/// The GPU that the labels describe: one of the model of which there are the most, whole if any is.
fn described<'g, 'a>(gpus: &'g [NodeGpu<'a>]) -> Option<&'g NodeGpu<'a>> {
    let whole = gpus.iter().filter(|gpu| gpu.devices.is_none());
    // Of equal ones the first: `max_by_key` takes the last.
    whole
        .rev()
        .max_by_key(|gpu| (!gpu.name.is_empty(), alike(gpus, gpu)))
        .or(gpus.first())
}

/// How many have the model of this one.
fn alike(gpus: &[NodeGpu], gpu: &NodeGpu) -> usize {
    gpus.iter().filter(|other| other.name == gpu.name).count()
}

/// MIG devices in the place of GPUs; if they are not all alike, labels that no pod asks for.
fn single(gpus: &[NodeGpu], labels: &mut Labels) {
    let partitioned: Vec<_> = gpus
        .iter()
        .filter_map(|gpu| Some((gpu, gpu.devices?)))
        .collect();
    let Some((first, _)) = partitioned.first() else {
        return;
    };
    let kinds = kinds(gpus);
    let is_whole = partitioned.len() == gpus.len()
        && partitioned.iter().all(|(_, devices)| !devices.is_empty());
    let mut each = kinds.iter();
    match (each.next().filter(|_| is_whole), each.next()) {
        (Some((profile, kind)), None) => {
            labels.resource(
                "gpu",
                Some(joined(&[kind.gpu, "MIG", profile])),
                kind.count,
                1,
                "none",
            );
            if let Some(share) = &kind.share {
                labels.share("gpu", share);
            }
        }
        _ => {
            labels.resource(
                "gpu",
                Some(joined(&[first.name, "MIG", "INVALID"])),
                0,
                0,
                "",
            );
            labels.add("gpu.memory", 0);
        }
    }
}

/// A resource for each kind of MIG device.
fn mixed(gpus: &[NodeGpu], labels: &mut Labels) {
    for (profile, kind) in kinds(gpus) {
        let resource = format!("mig-{profile}");
        labels.resource(
            &resource,
            Some(joined(&[kind.gpu, "MIG", &profile])),
            kind.count,
            1,
            "none",
        );
        if let Some(share) = &kind.share {
            labels.share(&resource, share);
        }
    }
}

/// MIG devices of one profile.
struct MigResource<'a> {
    /// The name of the first GPU that has one.
    gpu: &'a str,
    count: usize,
    share: Option<MigShare>,
}

fn kinds<'a>(gpus: &[NodeGpu<'a>]) -> BTreeMap<String, MigResource<'a>> {
    let mut kinds = BTreeMap::new();
    for gpu in gpus {
        for device in gpu.devices.into_iter().flatten() {
            let Some(profile) = profile(device) else {
                continue;
            };
            let kind = kinds.entry(profile).or_insert(MigResource {
                gpu: gpu.name,
                count: 0,
                share: device.share,
            });
            kind.count += 1;
        }
    }
    kinds
}

/// `1g.5gb` in `NVIDIA A100-SXM4-40GB MIG 1g.5gb`. Names of resources have no `+`.
fn profile(device: &MigDevice) -> Option<String> {
    let (_, profile) = device.name.as_deref()?.rsplit_once("MIG ")?;
    Some(value(&profile.replace('+', ".")))
}

fn joined(parts: &[&str]) -> String {
    let parts: Vec<_> = parts
        .iter()
        .map(|part| value(part))
        .filter(|part| !part.is_empty())
        .collect();
    value(&parts.join("-"))
}

/// A text as the value of a label: letters, digits, `-`, `_` and `.`, with hyphens for spaces.
/// Kubernetes takes no more than 63 characters, of which the first and the last are letters or
/// digits.
fn value(text: &str) -> String {
    let kept: String = text
        .chars()
        .filter(|c| c.is_ascii_alphanumeric() || "-_. ".contains(*c))
        .collect();
    let joined: String = kept
        .split_whitespace()
        .collect::<Vec<_>>()
        .join("-")
        .chars()
        .take(63)
        .collect();
    joined
        .trim_matches(|c: char| !c.is_ascii_alphanumeric())
        .to_owned()
}

fn family(database: &Database, capability: ComputeCapability) -> String {
    let known = database.architecture(capability);
    let own = known.map(|known| {
        known
            .node_label
            .clone()
            .unwrap_or_else(|| known.name.to_ascii_lowercase())
    });
    own.map_or_else(|| "undefined".to_owned(), |name| value(&name))
}
