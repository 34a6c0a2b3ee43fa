//! The evidence of the checks: the facts, and the output of the host's own programs. It is gathered
//! once. What could not be read is recorded with the reason.

mod apt;
mod bus;
mod cluster;
mod companions;
mod containers;
mod driver;
mod initramfs;
mod loader;
mod machine;
mod mig;
mod module;
mod python;
mod rivals;
mod settings;
mod toolkit;

pub use apt::{Apt, Repository, RepositoryKey};
pub use bus::Bus;
pub use cluster::{Cluster, Kubernetes, Scheduler, Slurm, StartedAgent};
pub use companions::CompanionState;
pub use containers::{Asked, Coherent, Containers, DockerDaemon, Given, OldCdiReader};
pub use driver::{FabricManager, FailedBuild, SignedModules};
pub use loader::Cached;
pub use machine::{Hybrid, MachineState, Wsl};
pub use mig::{BootLayout, BootLayouts};
pub use python::{
    BuiltFor, EnvironmentKind, EnvironmentPackage, FoundBy, LoadedLibrary, PythonEnvironment,
    RequiredPackage,
};
pub use rivals::{Denial, FORCED, Image};
pub use settings::GpuSettings;
pub use toolkit::Shells;

use super::device;
use super::kernel_log::{self, Said};
use super::probe::{Probe, Probes};
use driver::{
    dkms, fabric_manager, failed_builds, hmm_disabled, key_is_enrolled, missing_packages,
    module_before_boot, signed_modules, signer, unlinked_headers,
};
use gpusetup_causes::Remedy;
use gpusetup_database::compat::{
    AddOn, AddOnId, Bulletin, Companion, CompanionId, CudaRelease, Database, Distribution, Engine,
    Framework, JetPack, Platform, Sxid, VersionRule, Xid,
};
use gpusetup_database::version::{AddOnVersion, CudaVersion, DriverVersion};
use gpusetup_host::{Block, Facts, Origin, add_left_out, container_host};
use gpusetup_nvidia::{Answer, Convolution, Cuda, Nvml};
use gpusetup_resolve::{
    Card, Joined, Supply, distribution, known_card, own_platform, package_beside,
};
use gpusetup_system::{Ended, Output, Program, System, in_parallel};
use loader::{cached, forward_compatible, loader_directories, resolved};
use rivals::{denied, images};
use serde::{Deserialize, Serialize};
use std::cell::LazyCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;
use toolkit::{
    compiled, newest_gcc, nvcc, oldest_drivers, other_toolkits, set_for_everybody, shells,
};

/// Inputs other than the host itself.
#[derive(Debug, Clone, Default)]
pub struct EvidenceSources {
    /// The kernel's log, if it is not to be read from the host.
    pub kernel_log: Option<String>,
    /// The day, `2026-11-20`, if not today.
    pub today: Option<String>,
    /// A host without a GPU is no problem.
    pub accepts_no_gpu: bool,
    /// The scheduler that the host is to be ready for.
    pub ready: Option<Scheduler>,
    /// Parts that are not read, because reading them showed a bug: names of probes, and ids of
    /// checks.
    pub left_out: BTreeSet<String>,
}

/// Everything that the checks use.
// Fields from the database are not stored: `Evidence::with` adds them. A new field must be an
// `Answer` or an option with `serde(default)`, so that an older file does not claim that something
// is missing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
#[serde(deny_unknown_fields)]
pub struct Evidence {
    /// Only the facts are known; the other fields are empty.
    #[serde(skip)]
    pub only_facts: bool,
    /// A host without a GPU is no problem.
    #[serde(skip)]
    pub accepts_no_gpu: bool,
    /// The facts of the host.
    pub facts: Facts,
    /// The host's distribution, if it is in the database.
    #[serde(skip)]
    pub distribution: Option<Distribution>,
    /// The directory that contains the toolkits.
    pub prefix: PathBuf,
    /// The default toolkit, `PREFIX/cuda`, with links resolved. None if that is missing or
    /// dangling.
    pub default_toolkit: Option<PathBuf>,
    /// The database's entry for each GPU, in the order of the facts, or why there is none.
    #[serde(skip)]
    pub cards: Vec<Result<Card, String>>,
    /// The kernel's messages about the driver and the GPUs since the last boot.
    pub kernel_log: Answer<Vec<Said>>,
    /// The database's entries for Xids in the log.
    #[serde(skip)]
    pub xids: Vec<Xid>,
    /// The database's entries for NVSwitch errors (SXids) in the log.
    #[serde(skip)]
    pub sxids: Vec<Sxid>,
    /// nvidia-smi is installed.
    pub has_smi: bool,
    /// The driver's packages that are not installed; read only if nvidia-smi is missing.
    pub missing_packages: Vec<String>,
    /// nvidia-modprobe is installed, which creates missing devices on demand.
    pub has_modprobe: bool,
    /// The newest gcc that each toolkit's nvcc supports, if known.
    #[serde(skip)]
    pub newest_gcc: BTreeMap<PathBuf, u16>,
    /// Where another host compiler is set for all users: the file and its line.
    pub host_compiler: Option<(PathBuf, String)>,
    /// The driver's devices, `nvidia-uvm`. None if no kernel runs (a tree).
    pub devices: Option<Vec<String>>,
    /// Fabric Manager: the version that it reports, and whether it runs.
    pub fabric_manager: Answer<FabricManager>,
    /// How the installed companions run that users ask for, such as DCGM.
    #[serde(default)]
    pub companions: Answer<Vec<CompanionState>>,
    /// The database's entries for them.
    #[serde(skip)]
    pub requested_companions: Vec<Companion>,
    /// NVIDIA's modules in DKMS: the versions of each source tree, by its name.
    pub dkms: BTreeMap<String, Vec<String>>,
    /// The last failed DKMS build, by kernel.
    #[serde(default)]
    pub failed_builds: BTreeMap<String, FailedBuild>,
    /// Installed headers that their kernel has no link to, by kernel.
    pub unlinked_headers: BTreeMap<String, PathBuf>,
    /// Versions of gcc that are installed as `gcc-N`, such as `gcc-12`.
    pub compilers: Vec<u16>,
    /// Kernel modules that the host's configuration blacklists.
    pub denied: Vec<Denial>,
    /// What keeps the driver's own modules from being loaded. None in reports that do not have it.
    #[serde(default)]
    pub blocked: Option<Vec<Block>>,
    /// The relevant contents of each kernel's initramfs, by kernel.
    pub images: BTreeMap<String, Answer<Image>>,
    /// The signer of the nvidia module of the kernel that boots next; none if it is unsigned. Asked
    /// only with Secure Boot.
    pub signer: Answer<Option<String>>,
    /// Whether the key that signed it is enrolled in the firmware or shim. None if it is not this
    /// host's own key.
    #[serde(default)]
    pub key_is_enrolled: Option<bool>,
    /// Signed modules of the distribution that could take the place of the driver's own.
    #[serde(default)]
    pub signed_modules: Option<SignedModules>,
    /// If the loaded module is not the driver's: whether the driver's module was installed before
    /// the last boot.
    #[serde(default)]
    pub module_before_boot: Option<bool>,
    /// The version that each toolkit's `nvcc --version` reports, by the toolkit's directory.
    pub nvcc: BTreeMap<PathBuf, Answer<CudaVersion>>,
    /// The output of a small program that each toolkit compiled, by the toolkit's directory.
    #[serde(default)]
    pub compiled: BTreeMap<PathBuf, Answer<String>>,
    /// The nvcc that shells find.
    pub shells: Answer<Shells>,
    /// Files that put another toolkit before the default one, each with what it does as a clause.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub other_toolkits: Vec<(PathBuf, String)>,
    /// The directories that the loader searches, with links resolved.
    pub loader_directories: BTreeSet<PathBuf>,
    /// The loader's cache, with the state of each entry's file.
    pub cached: Vec<Cached>,
    /// The libcudas in it that belong to compatibility packages for this driver and these GPUs.
    #[serde(skip)]
    pub forward_compatible: BTreeSet<PathBuf>,
    /// The database's entry for Fabric Manager.
    #[serde(skip)]
    pub fabric_companion: Option<Companion>,
    /// The companions that the host's NVSwitches need.
    #[serde(skip)]
    pub needed_companions: Vec<Companion>,
    /// How to get those of them that gpusetup or a repository of the host has.
    #[serde(skip)]
    pub companion_remedies: Vec<(CompanionId, Remedy)>,
    /// Where LD_LIBRARY_PATH is set for all users: the file and its line.
    pub library_paths: Vec<(PathBuf, String)>,
    /// The version that each cuDNN reports when it is loaded by its SONAME.
    pub cudnn: BTreeMap<String, Answer<AddOnVersion>>,
    /// The same for other add-ons.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub add_ons: BTreeMap<String, Answer<AddOnVersion>>,
    /// The add-ons in the database.
    #[serde(skip)]
    pub known_add_ons: Vec<AddOn>,
    /// The database's container engines.
    #[serde(skip)]
    pub known_engines: Vec<Engine>,
    /// NVIDIA's repositories in apt's configuration.
    pub apt: Apt,
    /// How the GPUs are connected on the PCI bus.
    pub bus: Bus,
    /// The host's container engines.
    pub containers: Containers,
    /// What the host has of the scheduler that it is to be ready for. None if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<Cluster>,
    /// The GPUs that were passed to this container. None if this is not a running container.
    #[serde(default)]
    pub given: Option<Given>,
    /// Python environments with a framework or libraries of NVIDIA.
    #[serde(default)]
    pub python: Answer<Vec<PythonEnvironment>>,
    /// The frameworks in the database.
    #[serde(skip)]
    pub known_frameworks: Vec<Framework>,
    /// The oldest driver that runs programs of each CUDA series, `12.8`.
    #[serde(skip)]
    pub oldest_driver_of_series: BTreeMap<String, DriverVersion>,
    /// How GPU memory is counted, if the GPUs share the CPU's memory.
    pub coherent: Option<Coherent>,
    /// What only some machines have. None on the others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<MachineState>,
    /// The system's own way to a driver in the database, if it has one.
    #[serde(skip)]
    pub platform: Option<Platform>,
    /// The JetPack of a Jetson, if it is known.
    #[serde(skip)]
    pub jetpack: Option<JetPack>,
    /// NVML's answer.
    #[serde(default)]
    pub nvml: Answer<Nvml>,
    /// The answer of CUDA's driver library.
    #[serde(default)]
    pub cuda: Answer<Cuda>,
    /// The result of a small convolution with each cuDNN, by SONAME.
    #[serde(default)]
    pub convolution: BTreeMap<String, Answer<Convolution>>,
    /// The programs that have the GPUs' devices open, if a GPU waits for a reset.
    #[serde(default)]
    pub holders: Vec<String>,
    /// The persistence daemon runs. None for a tree.
    #[serde(default)]
    pub persistenced: Option<bool>,
    /// The layouts of GPU instances (MIG) that every boot restores. None if there are none, or if
    /// the driver does not answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot_layouts: Option<BootLayouts>,
    /// The unit of the persistence daemon is installed.
    #[serde(default)]
    pub has_persistence_unit: bool,
    /// The settings that gpusetup applied to the GPUs, and what they report. None if there are
    /// none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settings: Option<GpuSettings>,
    /// Heterogeneous memory (HMM) is disabled in CUDA's kernel module. None if the module is not
    /// loaded.
    #[serde(default)]
    pub hmm_disabled: Option<bool>,
    /// NVIDIA's security bulletins in the database, newest first.
    #[serde(skip)]
    pub bulletins: Vec<Bulletin>,
    /// The newest CUDA that the installed driver's branch supports natively, if known.
    #[serde(skip)]
    pub branch_cuda: Option<CudaVersion>,
    /// The oldest driver that runs each toolkit's programs, if known.
    #[serde(skip)]
    pub oldest_driver: BTreeMap<PathBuf, DriverVersion>,
    /// Probes that failed because of a bug in gpusetup: name and object. Reports of 0.1 name checks
    /// instead.
    pub broken: BTreeMap<String, String>,
}

/// Gathers the evidence of a host.
pub fn gather(
    system: &System,
    database: &Database,
    facts: Facts,
    prefix: &Path,
    sources: &EvidenceSources,
) -> Evidence {
    let system = &system.looked_at();
    let probes = Probes::without(&sources.left_out);
    // The log comes first: a broken driver hangs its clients, and has usually logged the reason.
    let kernel_log = probes.run(Probe::KernelLog, || match &sources.kernel_log {
        Some(text) => kernel_log::heard(text),
        None => kernel_log::of_host(system),
    });
    let denied = probes.run(Probe::Denials, || Some(denied(system)));
    let blocked = denied.as_ref().map(|_| facts.blocked_modules.clone());
    let denied = denied.unwrap_or_default();
    let signer = probes.run(Probe::Signer, || signer(system, &facts));
    let main = database
        .add_on(AddOnId::CUDNN)
        .map(|cudnn| main_libraries(&facts, cudnn))
        .unwrap_or_default();
    // The slow ones wait for other programs, so they run in parallel.
    let told = || probes.run(Probe::Libraries, || device::told(system, &facts, &main));
    let images = || probes.run(Probe::Images, || images(system, &facts, &denied));
    let add_ons = || {
        probes.run(Probe::AddOnVersions, || {
            add_on_versions(system, database, &facts)
        })
    };
    let (images, add_ons, (nvcc, compiled), told) = std::thread::scope(|scope| {
        let told = in_parallel(scope, &told);
        let images = in_parallel(scope, &images);
        let add_ons = in_parallel(scope, &add_ons);
        let nvcc: BTreeMap<_, _> = probes.run(Probe::Nvcc, || {
            let with_nvcc = facts.toolkits.iter().filter(|t| t.has_nvcc);
            with_nvcc
                .map(|t| (t.path.clone(), nvcc(system, &t.path)))
                .collect()
        });
        let compiled = probes.run(Probe::Compiled, || compiled(system, &facts, &nvcc));
        (
            images.join().unwrap_or_default(),
            add_ons.join().unwrap_or_default(),
            (nvcc, compiled),
            told.join(),
        )
    });
    let (cudnn, add_ons) = add_ons;
    let dkms = probes.run(Probe::Dkms, || dkms(system));
    let told = told.unwrap_or_default();
    // It starts the program of each engine.
    let container_host = LazyCell::new(|| container_host(system, database, None));
    let distribution = distribution(database, &facts);
    let has_smi =
        system.exists("/usr/bin/nvidia-smi") || system.exists("/usr/local/bin/nvidia-smi");
    let missing_packages = probes.run(Probe::DriverPackages, || {
        if has_smi {
            Vec::new()
        } else {
            missing_packages(system, &facts, distribution)
        }
    });
    Evidence {
        only_facts: false,
        accepts_no_gpu: sources.accepts_no_gpu,
        distribution: None,
        prefix: prefix.to_owned(),
        default_toolkit: Some(prefix.join("cuda"))
            .filter(|p| system.is_directory(p))
            .map(|p| resolved(system, &p)),
        cards: Vec::new(),
        kernel_log,
        xids: Vec::new(),
        sxids: Vec::new(),
        has_smi,
        missing_packages,
        has_modprobe: system.exists("/usr/bin/nvidia-modprobe"),
        oldest_driver: BTreeMap::new(),
        branch_cuda: None,
        bulletins: Vec::new(),
        boot_layouts: probes.run(Probe::Libraries, || {
            mig::boot_layouts(system, database, &facts)
        }),
        persistenced: system
            .is_live()
            .then(|| system.exists("/run/nvidia-persistenced/socket")),
        has_persistence_unit: ["/etc", "/usr/lib", "/lib"].iter().any(|d| {
            system.exists(Path::new(d).join("systemd/system/nvidia-persistenced.service"))
        }),
        settings: probes.run(Probe::Settings, || settings::settings(system, &facts)),
        hmm_disabled: hmm_disabled(system),
        newest_gcc: BTreeMap::new(),
        host_compiler: probes.run(Probe::HostCompiler, || {
            set_for_everybody(system, &["NVCC_CCBIN=", "-ccbin"])
                .into_iter()
                .next()
        }),
        devices: system.is_live().then(|| {
            names(system, "/dev")
                .filter(|n| n.starts_with("nvidia"))
                .collect()
        }),
        fabric_manager: probes.run(Probe::FabricManager, || {
            fabric_manager(system, &facts, database)
        }),
        companions: probes.run(Probe::Companions, || {
            companions::states(system, &facts, database)
        }),
        requested_companions: Vec::new(),
        failed_builds: probes.run(Probe::DkmsLogs, || failed_builds(system, &dkms)),
        dkms,
        unlinked_headers: probes.run(Probe::Headers, || unlinked_headers(system, &facts)),
        compilers: compilers(system),
        key_is_enrolled: probes.run(Probe::SigningKey, || {
            key_is_enrolled(system, &facts, &signer)
        }),
        signed_modules: probes.run(Probe::SigningKey, || {
            signed_modules(system, &facts, distribution)
        }),
        module_before_boot: probes.run(Probe::ModuleAge, || module_before_boot(system, &facts)),
        signer,
        shells: probes.run(Probe::Shells, || shells(system, &facts)),
        other_toolkits: probes.run(Probe::Shells, || other_toolkits(system, &facts, prefix)),
        loader_directories: probes.run(Probe::LoaderDirectories, || loader_directories(system)),
        forward_compatible: BTreeSet::new(),
        fabric_companion: None,
        needed_companions: Vec::new(),
        companion_remedies: Vec::new(),
        cached: probes.run(Probe::LoaderCache, || cached(system, &facts)),
        library_paths: probes.run(Probe::LibraryPaths, || {
            set_for_everybody(system, &["LD_LIBRARY_PATH="])
        }),
        denied,
        blocked,
        images,
        apt: probes.run(Probe::Apt, || {
            apt::apt(
                system,
                &sources.today.clone().unwrap_or_else(gpusetup_system::today),
            )
        }),
        bus: probes.run(Probe::Bus, || bus::bus(system, &facts, database)),
        containers: probes.run(Probe::Containers, || {
            containers::containers(system, database, &container_host)
        }),
        cluster: probes.run(Probe::Cluster, || {
            sources.ready.map(|of| {
                cluster::cluster(
                    system,
                    &facts,
                    database,
                    || LazyCell::force(&container_host),
                    of,
                )
            })
        }),
        given: probes.run(Probe::Given, || containers::given(system, &facts)),
        python: probes.run(Probe::Python, || {
            Answer::Is(python::environments(system, &facts, database))
        }),
        known_frameworks: Vec::new(),
        oldest_driver_of_series: BTreeMap::new(),
        coherent: probes.run(Probe::Coherent, || {
            containers::coherent(system, &facts, database)
        }),
        machine: probes.run(Probe::Machine, || machine::machine(system, &facts)),
        platform: None,
        jetpack: None,
        cudnn,
        add_ons,
        known_add_ons: Vec::new(),
        known_engines: Vec::new(),
        nvcc,
        compiled,
        nvml: told.nvml,
        cuda: told.cuda,
        convolution: told.convolution,
        holders: told.holders,
        facts,
        broken: probes.failed(),
    }
    .with(database)
    .with_left_out(system)
}

impl Evidence {
    /// The evidence in a file of facts: everything that needs the host itself is `NotAsked`.
    pub fn of_facts(
        facts: Facts,
        database: &Database,
        prefix: &Path,
        sources: &EvidenceSources,
    ) -> Self {
        fn unsaid<T>() -> Answer<T> {
            Answer::NotAsked(NOT_IN_FACTS.to_owned())
        }
        let kernel_log = sources
            .kernel_log
            .as_deref()
            .map_or_else(unsaid, kernel_log::heard);
        Self {
            only_facts: true,
            accepts_no_gpu: sources.accepts_no_gpu,
            distribution: None,
            prefix: prefix.to_owned(),
            default_toolkit: None,
            cards: Vec::new(),
            kernel_log,
            xids: Vec::new(),
            sxids: Vec::new(),
            has_smi: false,
            missing_packages: Vec::new(),
            has_modprobe: false,
            newest_gcc: BTreeMap::new(),
            host_compiler: None,
            devices: None,
            fabric_manager: unsaid(),
            companions: unsaid(),
            requested_companions: Vec::new(),
            dkms: BTreeMap::new(),
            failed_builds: BTreeMap::new(),
            unlinked_headers: BTreeMap::new(),
            compilers: Vec::new(),
            denied: Vec::new(),
            blocked: None,
            images: BTreeMap::new(),
            key_is_enrolled: None,
            signed_modules: None,
            module_before_boot: None,
            signer: unsaid(),
            nvcc: BTreeMap::new(),
            compiled: BTreeMap::new(),
            shells: unsaid(),
            other_toolkits: Vec::new(),
            loader_directories: BTreeSet::new(),
            cached: Vec::new(),
            forward_compatible: BTreeSet::new(),
            fabric_companion: None,
            needed_companions: Vec::new(),
            companion_remedies: Vec::new(),
            library_paths: Vec::new(),
            cudnn: BTreeMap::new(),
            add_ons: BTreeMap::new(),
            known_add_ons: Vec::new(),
            known_engines: Vec::new(),
            apt: Apt::default(),
            bus: Bus::default(),
            containers: Containers::default(),
            cluster: None,
            given: None,
            python: unsaid(),
            known_frameworks: Vec::new(),
            oldest_driver_of_series: BTreeMap::new(),
            coherent: None,
            machine: None,
            platform: None,
            jetpack: None,
            nvml: unsaid(),
            cuda: unsaid(),
            convolution: BTreeMap::new(),
            holders: Vec::new(),
            persistenced: None,
            boot_layouts: None,
            has_persistence_unit: false,
            settings: None,
            hmm_disabled: None,
            branch_cuda: None,
            bulletins: Vec::new(),
            oldest_driver: BTreeMap::new(),
            facts,
            broken: BTreeMap::new(),
        }
        .with(database)
    }

    /// Adds what was too large to be read.
    fn with_left_out(mut self, system: &System) -> Self {
        add_left_out(&mut self.facts.unreadable, system);
        self
    }

    /// Adds the fields that come from the database.
    pub fn with(mut self, database: &Database) -> Self {
        self.known_add_ons = database.add_ons.clone();
        self.known_engines = database.engines.clone();
        self.containers.add_older_error(database);
        self.known_frameworks = database.frameworks.clone();
        self.bulletins = database.bulletins.clone();
        let oldest =
            |release: &CudaRelease| (release.version.series().to_string(), release.minimum_driver);
        self.oldest_driver_of_series = database.cuda.iter().map(oldest).collect();
        let facts = &mut self.facts;
        self.distribution = distribution(database, facts).cloned();
        self.platform = own_platform(database, facts).cloned();
        let l4t = facts
            .machine
            .board
            .as_ref()
            .and_then(|board| board.l4t.as_deref());
        self.jetpack = l4t.and_then(|l4t| database.jetpack(l4t)).cloned();
        self.cards = facts
            .gpus
            .iter()
            .map(|g| known_card(database, g).map_err(|conflict| conflict.to_string()))
            .collect();
        // A newer database may have a GPU that was unknown when the facts were written.
        for (gpu, card) in facts.gpus.iter_mut().zip(&self.cards) {
            if let (None, Ok(card)) = (&gpu.name, card) {
                (gpu.name, gpu.compute_capability) = (Some(card.name.clone()), card.capability);
            }
        }
        self.fabric_companion = database.companion(CompanionId::FABRIC_MANAGER).cloned();
        self.requested_companions = database
            .companions
            .iter()
            .filter(|of| of.on_request)
            .cloned()
            .collect();
        let joined = Joined::of(database, facts);
        self.needed_companions = joined
            .iter()
            .flat_map(|joined| joined.needs(database))
            .cloned()
            .collect();
        self.companion_remedies = companion_remedies(database, facts, &self.needed_companions);
        self.forward_compatible =
            forward_compatible(database, facts.driver.as_ref(), &self.cards, &self.cached);
        let toolkits = facts.toolkits.iter();
        self.newest_gcc = toolkits
            .filter_map(|t| Some((t.path.clone(), newest_gcc(database, t.version)?)))
            .collect();
        self.branch_cuda = facts
            .driver
            .as_ref()
            .and_then(|d| database.branch(d.version.branch)?.max_cuda);
        self.oldest_driver = oldest_drivers(database, facts);
        let number = |said: &Said| {
            if let Said::Xid { number, .. } = said {
                Some(*number)
            } else {
                None
            }
        };
        let told = if let Answer::Is(said) = &self.kernel_log {
            said.as_slice()
        } else {
            &[]
        };
        let numbers: BTreeSet<_> = told.iter().filter_map(number).collect();
        self.xids = numbers
            .into_iter()
            .filter_map(|n| database.xid(n).cloned())
            .collect();
        let number = |said: &Said| {
            if let Said::SwitchFault { number, .. } = said {
                Some(*number)
            } else {
                None
            }
        };
        let numbers: BTreeSet<_> = told.iter().filter_map(number).collect();
        self.sxids = numbers
            .into_iter()
            .filter_map(|n| database.sxid(n).cloned())
            .collect();
        self
    }

    /// The title of Fabric Manager.
    pub fn fabric_title(&self) -> String {
        self.fabric_companion.as_ref().map_or_else(
            || CompanionId::FABRIC_MANAGER.to_string(),
            |c| c.title.clone(),
        )
    }

    /// How to get a companion of this driver.
    pub fn companion_remedy(&self, of: &Companion, driver: DriverVersion) -> Remedy {
        let known = self.companion_remedies.iter().find(|(id, _)| *id == of.id);
        let by_hand = || gpusetup_causes::get_companion(of, driver, self.facts.os.package_manager);
        known.map_or_else(by_hand, |(_, remedy)| remedy.clone())
    }

    /// The names of Fabric Manager's units for commands, `nvidia-fabricmanager`.
    pub fn fabric_units(&self) -> impl Iterator<Item = &str> {
        let units = self.fabric_companion.iter().flat_map(|c| &c.units);
        units.map(|unit| unit.strip_suffix(".service").unwrap_or(unit))
    }

    /// The commands that start Fabric Manager.
    pub fn fabric_start(&self) -> impl Iterator<Item = String> {
        self.fabric_units()
            .map(|unit| format!("sudo systemctl enable --now {unit}"))
    }

    /// The engine with this id, or with this program: older evidence names `crio`.
    pub fn known_engine(&self, name: &str) -> Option<&Engine> {
        let is_it = |engine: &&Engine| {
            let mut programs = engine.programs.iter().map(Path::new);
            engine.id.as_str() == name || programs.any(|program| program.ends_with(name))
        };
        self.known_engines.iter().find(is_it)
    }

    /// The database's entry for an add-on.
    pub fn add_on(&self, id: AddOnId) -> Option<&AddOn> {
        self.known_add_ons.iter().find(|a| a.id == id)
    }

    /// The title of an add-on; its id if it is not in the database.
    pub fn title_of(&self, id: AddOnId) -> String {
        self.add_on(id)
            .map_or_else(|| id.to_string(), |a| a.title.clone())
    }

    /// Replaces the kernel's log.
    pub fn with_kernel_log(mut self, text: &str, database: &Database) -> Self {
        self.kernel_log = kernel_log::heard(text);
        self.with(database)
    }
}

/// How to get each of these companions, as far as gpusetup or a repository of the host has it.
fn companion_remedies(
    database: &Database,
    facts: &Facts,
    needed: &[Companion],
) -> Vec<(CompanionId, Remedy)> {
    let distribution = distribution(database, facts);
    let packaged = facts
        .driver
        .as_ref()
        .filter(|driver| driver.origin != Origin::Runfile);
    let remedy = |of: &Companion| match of.version {
        VersionRule::Own => {
            let driver = facts.driver.as_ref()?.version;
            Some(
                Supply::of(
                    of,
                    database,
                    distribution,
                    facts,
                    (driver, facts.oldest_gpu()),
                )?
                .remedy(of, facts),
            )
        }
        VersionRule::Driver | VersionRule::Branch => {
            package_beside(distribution, facts, of, packaged?.version)?;
            Some(gpusetup_causes::apply_companion(of))
        }
    };
    needed
        .iter()
        .filter_map(|of| Some((of.id, remedy(of)?)))
        .collect()
}

/// The version that the library of each SONAME reports.
type Versions = BTreeMap<String, Answer<AddOnVersion>>;

/// The versions of cuDNN and of the other add-ons, each loaded as a program would load it.
fn add_on_versions(system: &System, database: &Database, facts: &Facts) -> (Versions, Versions) {
    let (mut cudnn, mut others) = (Versions::new(), Versions::new());
    for add_on in &database.add_ons {
        let version = |soname: &str| match system.is_live() {
            true => device::add_on_version(add_on, soname),
            false => loader::add_on_version(system, facts, soname),
        };
        let all = if add_on.id == AddOnId::CUDNN {
            &mut cudnn
        } else {
            &mut others
        };
        all.extend(
            main_libraries(facts, add_on)
                .into_iter()
                .map(|soname| (soname.clone(), version(&soname))),
        );
    }
    (cudnn, others)
}

/// The SONAMEs of an add-on's main library on the host.
fn main_libraries(facts: &Facts, add_on: &AddOn) -> Vec<String> {
    let sonames = facts
        .files_of(add_on.id)
        .flat_map(|c| &c.files)
        .filter_map(|f| f.soname.clone());
    let is_main = |soname: &String| {
        soname
            .strip_prefix(&add_on.library)
            .is_some_and(|end| end.starts_with(".so."))
    };
    sonames
        .filter(is_main)
        .collect::<BTreeSet<_>>()
        .into_iter()
        .collect()
}

/// Why a check is skipped that needs more than the facts.
pub const NOT_IN_FACTS: &str = "a file of facts does not say it";

/// The names in a directory; empty if it cannot be read, which the facts already report.
fn names(system: &System, directory: impl AsRef<Path>) -> impl Iterator<Item = String> {
    system.list(directory).unwrap_or_default().into_iter()
}

fn text(system: &System, path: impl AsRef<Path>) -> String {
    system.read_text(path).ok().flatten().unwrap_or_default()
}

/// Why programs of a tree are not run: they are untrusted, and gpusetup usually runs as root.
pub const OF_A_TREE: &str = "skipped below --root: it would run a program of the tree";

/// The output of a program of this machine. Programs of a tree are never run.
fn ask<const N: usize>(system: &System, argv: [&str; N], limit: Duration) -> Answer<String> {
    ask_or(system, argv, limit, |output| output.last_lines(1))
}

/// The same, with the reason for a failure taken from the output by `why`.
fn ask_or<const N: usize>(
    system: &System,
    argv: [&str; N],
    limit: Duration,
    why: impl Fn(&Output) -> String,
) -> Answer<String> {
    if !system.is_live() {
        return Answer::NotAsked(OF_A_TREE.to_owned());
    }
    match system.run(&Program::new(argv).env("HOME", "/nonexistent").limit(limit)) {
        Err(e) => Answer::NotAsked(format!("{}: {e}", argv[0])),
        Ok(output) => match output.ended {
            Ended::Status(0) => Answer::Is(output.text),
            ended => Answer::Failed(format!("{} ended with {ended}: {}", argv[0], why(&output))),
        },
    }
}

/// Versions of gcc in /usr/bin.
fn compilers(system: &System) -> Vec<u16> {
    names(system, "/usr/bin")
        .filter_map(|n| n.strip_prefix("gcc-")?.parse().ok())
        .collect()
}

/// For fuzzing.
#[cfg(fuzzing)]
pub fn read_anything(text: &str) {
    rivals::read_anything(text);
    toolkit::read_anything(text);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pipes_and_devices_hold_nobody_up() {
        let tree = tempfile::tempdir().expect("a temporary directory");
        let system = System::at(tree.path());
        system
            .make_directories("/etc/profile.d", 0o755)
            .expect("made");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            tree.path().join("etc/profile.d/a.sh"),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR,
            0,
        )
        .expect("a pipe");
        system
            .write("/etc/profile.d/b.sh", b"export LD_LIBRARY_PATH=/x\n", 0o644)
            .expect("written");
        let found = set_for_everybody(&system, &["LD_LIBRARY_PATH="]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(
            system
                .read("/etc/profile.d/a.sh")
                .is_err_and(|e| e.to_string().contains("not a regular file"))
        );
    }
}
