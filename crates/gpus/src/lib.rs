//! The GPUs of this machine as NVML reports them now, with a judgement of each reading and its
//! source: `facts --gpus`.

// clippy.toml lists what only `gpusetup-system` may call.
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

pub mod cluster;
pub mod judge;
pub mod topology;

use gpusetup_database::compact::built_in;
use gpusetup_database::gpu_guide::{GpuField, GpuGuide, GpuRule, Judgement};
use gpusetup_database::version::CudaVersion;
use gpusetup_host::{Facts, MachineKind};
use gpusetup_nvidia::{
    Answer, GpuReading, GpuTable, MigHost, NVML, Query, Question, ask, has_stand_ins, own,
};
use gpusetup_system::System;
use gpusetup_text::text::made_visible;
use serde::Serialize;
use std::time::Duration;
use topology::{Connection, Locality, Nic};

/// What `facts --gpus --json` prints.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct GpuReport {
    /// `gpusetup.gpus/1`.
    #[cfg_attr(feature = "schemas", schemars(extend("const" = SCHEMA)))]
    pub(crate) schema: &'static str,
    /// The version of gpusetup.
    pub(crate) tool: &'static str,
    /// The version of the loaded driver.
    pub driver: Option<String>,
    /// The newest CUDA that the driver supports natively.
    pub cuda: Option<CudaVersion>,
    /// The number of GPUs that the driver is configured to exclude.
    pub excluded: u32,
    /// Confidential computing is on. None if the driver does not know it.
    pub confidential_computing: Option<bool>,
    /// Whether GPUs in confidential-computing mode accept work. None if there are no such GPUs.
    pub accepts_work: Option<bool>,
    /// The worst judgement of all GPUs.
    pub(crate) judgement: Judgement,
    /// The GPUs, in NVML's order.
    pub gpus: Vec<JudgedGpu>,
    /// What is not ok, the most urgent first, each with all GPUs that it concerns.
    pub findings: Vec<Finding>,
    /// How each pair of GPUs is connected.
    pub connections: Vec<Connection>,
    /// Network adapters for RDMA, and how each GPU reaches them.
    pub nics: Vec<Nic>,
}

/// The name and version of the form of [`GpuReport`].
pub(crate) const SCHEMA: &str = "gpusetup.gpus/1";

/// A GPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct JudgedGpu {
    /// Its number, as in nvidia-smi.
    pub index: usize,
    /// The worst judgement of its fields.
    pub judgement: Judgement,
    /// What it reports.
    pub reading: GpuReading,
    /// The judgement of each field that is judged.
    pub judgements: Vec<FieldJudgement>,
    /// The processors and the NUMA node that are nearest to it.
    pub locality: Locality,
}

/// The judgement of a field.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct FieldJudgement {
    /// The field.
    pub field: GpuField,
    /// The judgement.
    pub judgement: Judgement,
    /// What is wrong. None if it is ok.
    pub says: Option<String>,
    /// Where NVIDIA says what is normal.
    pub source: String,
}

/// Something that is not ok.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct Finding {
    /// The condition.
    pub(crate) rule: GpuRule,
    /// The field.
    pub(crate) field: GpuField,
    /// The judgement.
    pub judgement: Judgement,
    /// The GPUs that it concerns, by bus address; by number, if a GPU does not tell its address.
    pub gpus: Vec<String>,
    /// What is wrong.
    pub says: String,
    /// What to do.
    pub remedy: String,
    /// Commands that help, for all these GPUs.
    pub commands: Vec<String>,
    /// Where NVIDIA says so.
    pub(crate) source: String,
}

/// What the table shows, and how it judges it.
pub fn guide() -> GpuGuide {
    built_in(include_bytes!(concat!(env!("OUT_DIR"), "/gpu-fields.bin")))
}

/// How long the driver may take to answer for all GPUs: these seconds, and some for each GPU.
/// Without a persistence daemon each is initialised again for every client.
pub fn patience(facts: &Facts, seconds: u64) -> Duration {
    let each = Duration::from_secs(5) * u32::try_from(facts.gpus.len()).unwrap_or(1).max(1);
    gpusetup_nvidia::limit(Duration::from_secs(seconds) + each)
}

/// Asks NVML, in a child process.
pub fn read(facts: &Facts) -> Answer<GpuTable> {
    match ask::<GpuTable>(
        own(),
        &Question::new(Query::Nvml, [NVML]).limit(patience(facts, 10)),
    ) {
        Answer::Is(table) => Answer::Is(made_visible(table)),
        other => other,
    }
}

/// Asks NVML how the GPUs are partitioned, in a child process.
pub fn partitions() -> Answer<MigHost> {
    // Each GPU may have to be initialised first.
    let question =
        Question::new(Query::Mig, [NVML]).limit(gpusetup_nvidia::limit(Duration::from_secs(120)));
    match ask::<MigHost>(own(), &question) {
        Answer::Is(host) => Answer::Is(made_visible(host)),
        other => other,
    }
}

/// The report on these readings.
pub fn report(system: &System, table: GpuTable) -> GpuReport {
    let guide = guide();
    let addresses: Vec<_> = table.gpus.iter().map(|gpu| gpu.address.clone()).collect();
    let connections = topology::connections(&table);
    let (localities, nics) = topology::of_bus(system, &addresses);
    let hits: Vec<_> = table
        .gpus
        .iter()
        .map(|gpu| judge::hits(&guide, &table, gpu))
        .collect();
    let findings = judge::findings(&guide, &table, &hits);
    let gpus: Vec<_> = table
        .gpus
        .into_iter()
        .zip(hits)
        .zip(localities)
        .enumerate()
        .map(|(index, ((reading, hits), locality))| {
            let judgements = judge::judgements(&guide, &reading, &hits);
            let judgement = judgements
                .iter()
                .map(|one| one.judgement)
                .max()
                .unwrap_or(Judgement::Ok);
            JudgedGpu {
                index,
                judgement,
                reading,
                judgements,
                locality,
            }
        })
        .collect();
    GpuReport {
        schema: SCHEMA,
        tool: env!("CARGO_PKG_VERSION"),
        driver: table.driver,
        cuda: table.cuda,
        excluded: table.excluded,
        confidential_computing: table.confidential_computing,
        accepts_work: table.accepts_work,
        judgement: gpus
            .iter()
            .map(|gpu| gpu.judgement)
            .max()
            .unwrap_or(Judgement::Ok),
        gpus,
        findings,
        connections,
        nics,
    }
}

/// Why NVIDIA's libraries are not asked on this host, if so.
pub fn why_silent(system: &System, facts: &Facts) -> Option<String> {
    if has_stand_ins() {
        return None;
    }
    if !system.is_live() {
        return Some("a tree has no running driver".to_owned());
    }
    let cached = facts.loader_cache.iter().flat_map(|c| &c.entries);
    let has_library = cached
        .into_iter()
        .any(|(soname, _)| soname == NVML || soname == "libcuda.so.1");
    let has_device = system.exists("/dev/nvidiactl");
    // A container may have the GPUs without the libraries, which is a finding.
    let given = facts.machine.kind == MachineKind::Container && has_device;
    if facts.driver.is_none() && !has_library && !given {
        return Some("no NVIDIA driver is installed".to_owned());
    }
    match facts.machine.kind {
        // Their GPU is not on the PCI bus, and its devices have other names.
        MachineKind::Wsl2 | MachineKind::Jetson => {}
        MachineKind::Container if !has_device => {
            return Some("the container has no GPU".to_owned());
        }
        _ if facts.gpus.is_empty() && !has_device => {
            return Some("there is no NVIDIA GPU".to_owned());
        }
        _ => {}
    }
    // A client would make nvidia-modprobe load it, which changes the host.
    let own_kernel = matches!(
        facts.machine.kind,
        MachineKind::Physical | MachineKind::Virtual
    );
    let loaded = facts.driver_is_loaded() != Some(false);
    (own_kernel && !loaded).then(|| "the nvidia module is not loaded".to_owned())
}
