//! The host that an image is checked against.
use gpusetup_database::compat::{Database, TargetGpu};
use gpusetup_database::version::DriverVersion;
use gpusetup_host::{Facts, GpuAccess, MachineKind, container_host, form_of, toml_document};
use gpusetup_system::System;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Host {
    pub driver: Option<HostDriver>,
    /// Empty if they are not known.
    pub gpus: Vec<TargetGpu>,
    /// The processors, as images call them: `amd64`.
    pub architecture: Option<String>,
    /// Its driver cannot be seen: it is a root filesystem of WSL2, in which Windows mounts the
    /// driver at every start.
    pub hides_driver: bool,
    /// Where another driver would come from, as an instruction. None if gpusetup can install one.
    pub driver_from: Option<String>,
    pub starters: Starters,
}

/// A host and the facts by which images are judged on it.
#[derive(Clone, Copy)]
pub(crate) struct Context<'a> {
    pub(crate) host: &'a Host,
    pub(crate) database: &'a Database,
}

/// The instruction for a driver on a machine where gpusetup installs none. Systems whose own tools
/// install it are left to the caller.
pub fn driver_from(facts: &Facts) -> Option<String> {
    match facts.machine.kind {
        MachineKind::Wsl2 => Some(gpusetup_causes::WSL2.to_owned()),
        MachineKind::Jetson => Some(gpusetup_causes::JETSON.to_owned()),
        MachineKind::Container => Some(gpusetup_causes::CONTAINER.to_owned()),
        MachineKind::Physical | MachineKind::Virtual => facts
            .os
            .immutable
            .then(|| gpusetup_causes::IMMUTABLE.to_owned()),
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostDriver {
    /// As it was named: a version, or a branch.
    pub name: String,
    /// The releases that it may be, oldest first: one, or all of the branch.
    pub releases: Vec<DriverVersion>,
}

/// The engines of a host, by whether they check what an image demands (`NVIDIA_REQUIRE_CUDA`). Only
/// the hook of NVIDIA Container Toolkit does, in its mode `legacy`; what starts containers by a CDI
/// specification does not.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Starters {
    /// Through the hook.
    pub(crate) checking: Vec<String>,
    /// By CDI.
    pub(crate) not_checking: Vec<String>,
    /// Neither the container toolkit nor a CDI specification is there: no container gets a GPU yet.
    pub(crate) lacks_toolkit: bool,
    /// The configuration has `disable-require`, with which the hook passes no demand on
    /// (nvidia-container-toolkit, cmd/nvidia-container-runtime-hook/main.go).
    pub(crate) ignores_demands: bool,
}

pub(crate) const TOOLKIT_CONFIG: &str = "/etc/nvidia-container-runtime/config.toml";

/// The toolkit's hook: Docker looks for it by this name (moby, daemon/nvidia_linux.go), and the GPU
/// Operator installs it in a separate folder.
const HOOKS: [&str; 3] = [
    "/usr/bin/nvidia-container-runtime-hook",
    "/usr/local/bin/nvidia-container-runtime-hook",
    "/usr/local/nvidia/toolkit/nvidia-container-runtime-hook",
];

impl Starters {
    /// Of the engines of a host, as they start containers without further settings. Without the
    /// toolkit, as they would with its newest version.
    pub fn of(system: &System, database: &Database) -> Self {
        let host = container_host(system, database, None);
        let has_specification = !host.specifications.is_empty();
        let config = system
            .read_text(TOOLKIT_CONFIG)
            .ok()
            .flatten()
            .unwrap_or_default();
        let config = toml_document(&config).unwrap_or_default();
        let toolkit = database.container_toolkit();
        let has_toolkit = host.toolkit.is_some() || HOOKS.iter().any(|hook| system.exists(hook));
        let installed = host.toolkit.as_ref().and_then(|toolkit| toolkit.version);
        let runtime_uses_cdi = !has_toolkit
            || toolkit
                .zip(installed)
                .is_some_and(|(known, version)| version >= known.runtime_by_cdi);
        let mut all = Self {
            lacks_toolkit: !has_toolkit && !has_specification && !host.engines.is_empty(),
            ignores_demands: config
                .get("disable-require")
                .and_then(toml_edit::Item::as_bool)
                .unwrap_or(false),
            ..Self::default()
        };
        for found in &host.engines {
            let Some(engine) = database.engine(found.id) else {
                continue;
            };
            let flag_uses_cdi = engine
                .gpus_by_cdi
                .zip(found.version)
                .is_some_and(|(first, version)| version >= first);
            let mut configs = engine.configs().filter_map(|path| host.file(path).ok()?);
            let is_told_not_to = configs.any(|file| (form_of(engine).refuses_cdi)(&file.text));
            let uses_cdi = match form_of(engine).gpus {
                // The hook of older toolkits is called for every container that asks for GPUs.
                GpuAccess::Cdi => host.left_over.is_empty(),
                GpuAccess::Flag if is_told_not_to => false,
                GpuAccess::Flag => {
                    flag_uses_cdi && (host.refreshes_cdi || has_specification || !has_toolkit)
                }
                GpuAccess::Runtime => runtime_uses_cdi,
            };
            let list = if uses_cdi {
                &mut all.not_checking
            } else {
                &mut all.checking
            };
            list.push(engine.title.clone());
        }
        all
    }
}
