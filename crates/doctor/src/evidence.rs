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

pub use apt::Repository;
pub(crate) use apt::{Apt, RepositoryKey};
pub(crate) use bus::Bus;
pub use cluster::Scheduler;
pub(crate) use cluster::{Cluster, Kubernetes, Slurm, StartedAgent};
pub(crate) use companions::CompanionState;
pub(crate) use containers::{Asked, Coherent, Containers, DockerDaemon, Given, OldCdiReader};
pub(crate) use driver::{FabricManager, FailedBuild, SignedModules};
pub(crate) use loader::{LoaderCacheEntry, forward_compatible};
pub(crate) use machine::MachineState;
#[cfg(test)]
pub(crate) use machine::{Hybrid, Wsl};
#[cfg(test)]
pub(crate) use mig::BootLayout;
pub(crate) use mig::BootLayouts;
pub use python::{BuiltFor, PythonEnvironment};
pub(crate) use python::{
    EnvironmentKind, EnvironmentPackage, FoundBy, LoadedLibrary, RequiredPackage,
};
pub(crate) use rivals::{BlacklistEntry, FORCED, InitramfsContents};
pub(crate) use settings::GpuSettings;
pub(crate) use toolkit::{Shells, newest_gcc};

use super::device;
use super::kernel_log::{self, KernelEvent};
use super::probe::{Probe, Probes};
use driver::{
    dkms, fabric_manager, failed_builds, hmm_disabled, key_is_enrolled, missing_packages,
    module_before_boot, signed_modules, signer, unlinked_headers,
};
use gpusetup_database::compat::{AddOn, AddOnId, Database};
use gpusetup_database::version::{AddOnVersion, CudaVersion};
use gpusetup_host::{Facts, ModuleBlock, add_left_out, container_host};
use gpusetup_nvidia::{Answer, Convolution, Cuda, GpuTable};
use gpusetup_resolve::{distribution, known_gpu};
use gpusetup_system::{Ended, Output, Program, System, in_parallel};
use loader::{cached, loader_directories, resolved};
use rivals::{denied, images};
use serde::{Deserialize, Serialize};
use std::cell::LazyCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;
use toolkit::{compiled, nvcc, other_toolkits, removed_toolkits, set_for_everybody, shells};

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

impl EvidenceSources {
    /// The day on which a host is looked at.
    fn day(&self) -> String {
        self.today.clone().unwrap_or_else(gpusetup_system::today)
    }
}

/// What was seen of a host.
// A new field must be an `Answer` or an option with `serde(default)`, so that an older file does
// not claim that something is missing.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(rename = "Evidence", deny_unknown_fields)
)]
#[serde(deny_unknown_fields)]
pub struct Seen {
    /// Only the facts are known; the other fields are empty.
    #[serde(skip)]
    pub only_facts: bool,
    /// A host without a GPU is no problem.
    #[serde(skip)]
    pub accepts_no_gpu: bool,
    /// The facts of the host.
    pub facts: Facts,
    /// The day on which it was seen, `2026-11-20`.
    #[serde(default)]
    pub day: Option<String>,
    /// The directory that contains the toolkits.
    pub prefix: PathBuf,
    /// The default toolkit, `PREFIX/cuda`, with links resolved. None if that is missing or
    /// dangling.
    pub default_toolkit: Option<PathBuf>,
    /// The kernel's messages about the driver and the GPUs since the last boot.
    pub kernel_log: Answer<Vec<KernelEvent>>,
    /// nvidia-smi is installed.
    pub has_smi: bool,
    /// The driver's packages that are not installed; read only if nvidia-smi is missing.
    pub missing_packages: Vec<String>,
    /// nvidia-modprobe is installed, which creates missing devices on demand.
    pub has_modprobe: bool,
    /// Where another host compiler is set for all users: the file and its line.
    pub host_compiler: Option<(PathBuf, String)>,
    /// The driver's devices, `nvidia-uvm`. None if no kernel runs (a tree).
    pub devices: Option<Vec<String>>,
    /// Fabric Manager: the version that it reports, and whether it runs.
    pub fabric_manager: Answer<FabricManager>,
    /// How the installed companions run that users ask for, such as DCGM.
    #[serde(default)]
    pub companions: Answer<Vec<CompanionState>>,
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
    pub denied: Vec<BlacklistEntry>,
    /// What keeps the driver's own modules from being loaded. None in reports that do not have it.
    #[serde(default)]
    pub blocked: Option<Vec<ModuleBlock>>,
    /// The relevant contents of each kernel's initramfs, by kernel.
    pub images: BTreeMap<String, Answer<InitramfsContents>>,
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
    pub cached: Vec<LoaderCacheEntry>,
    /// Where LD_LIBRARY_PATH is set for all users: the file and its line.
    pub library_paths: Vec<(PathBuf, String)>,
    /// Where variables of all users name a toolkit's directory that is not there: the file, its
    /// line and the directory.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub removed_toolkits: Vec<(PathBuf, String, PathBuf)>,
    /// The version that each cuDNN reports when it is loaded by its SONAME.
    pub cudnn: BTreeMap<String, Answer<AddOnVersion>>,
    /// The same for other add-ons.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub add_ons: BTreeMap<String, Answer<AddOnVersion>>,
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
    /// How GPU memory is counted, if the GPUs share the CPU's memory.
    pub coherent: Option<Coherent>,
    /// What only some machines have. None on the others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<MachineState>,
    /// NVML's answer.
    #[serde(default)]
    pub nvml: Answer<GpuTable>,
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
    /// Probes that failed because of a bug in gpusetup: name and object. Reports of 0.1 name checks
    /// instead.
    pub broken: BTreeMap<String, String>,
}

/// Looks at a host.
pub fn gather(
    system: &System,
    database: &Database,
    facts: Facts,
    prefix: &Path,
    sources: &EvidenceSources,
) -> Seen {
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
    let programs = ask_programs(system, database, &facts, &probes, &denied);
    let driver = driver_seen(system, database, &facts, &probes, &signer);
    // It starts the program of each engine.
    let container_host = LazyCell::new(|| container_host(system, database, None));
    let mut seen = Seen {
        only_facts: false,
        accepts_no_gpu: sources.accepts_no_gpu,
        prefix: prefix.to_owned(),
        default_toolkit: Some(prefix.join("cuda"))
            .filter(|p| system.is_directory(p))
            .map(|p| resolved(system, &p)),
        kernel_log,
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
        host_compiler: probes.run(Probe::HostCompiler, || {
            set_for_everybody(system, &["NVCC_CCBIN=", "-ccbin"])
                .into_iter()
                .next()
        }),
        signer,
        shells: probes.run(Probe::Shells, || shells(system, &facts)),
        other_toolkits: probes.run(Probe::Shells, || other_toolkits(system, &facts, prefix)),
        loader_directories: probes.run(Probe::LoaderDirectories, || loader_directories(system)),
        cached: probes.run(Probe::LoaderCache, || cached(system, &facts)),
        library_paths: probes.run(Probe::LibraryPaths, || {
            set_for_everybody(system, &["LD_LIBRARY_PATH="])
        }),
        removed_toolkits: probes.run(Probe::LibraryPaths, || removed_toolkits(system)),
        denied,
        blocked,
        images: programs.images,
        apt: probes.run(Probe::Apt, || apt::apt(system, &sources.day())),
        day: Some(sources.day()),
        bus: probes.run(Probe::Bus, || bus::bus(system, &facts, database)),
        containers: probes.run(Probe::Containers, || {
            containers::containers(system, database, &container_host)
        }),
        cluster: probes.run(Probe::Cluster, || {
            sources.ready.map(|of| {
                cluster::cluster(
                    system,
                    database,
                    || LazyCell::force(&container_host),
                    &programs.libraries.nvml,
                    of,
                )
            })
        }),
        given: probes.run(Probe::Given, || containers::given(system, &facts)),
        python: probes.run(Probe::Python, || {
            Answer::Is(python::environments(system, &facts, database))
        }),
        coherent: probes.run(Probe::Coherent, || {
            containers::coherent(system, &facts, database)
        }),
        machine: probes.run(Probe::Machine, || machine::machine(system, &facts)),
        cudnn: programs.add_ons.0,
        add_ons: programs.add_ons.1,
        nvcc: programs.nvcc,
        compiled: programs.compiled,
        nvml: programs.libraries.nvml,
        cuda: programs.libraries.cuda,
        convolution: programs.libraries.convolution,
        holders: programs.libraries.holders,
        facts,
        broken: probes.failed(),
        ..driver
    };
    seen.complete(database);
    // What was too large to be read.
    add_left_out(&mut seen.facts.unreadable, system);
    seen
}

/// What other programs answer, or libraries in them.
struct FromPrograms {
    libraries: device::Readings,
    images: BTreeMap<String, Answer<InitramfsContents>>,
    /// Those of cuDNN, and the others'.
    add_ons: (Versions, Versions),
    nvcc: BTreeMap<PathBuf, Answer<CudaVersion>>,
    compiled: BTreeMap<PathBuf, Answer<String>>,
}

/// They are waited for, so they run in parallel.
fn ask_programs(
    system: &System,
    database: &Database,
    facts: &Facts,
    probes: &Probes,
    denied: &[BlacklistEntry],
) -> FromPrograms {
    let main = database
        .add_on(AddOnId::CUDNN)
        .map(|cudnn| main_libraries(facts, cudnn))
        .unwrap_or_default();
    let libraries = || probes.run(Probe::Libraries, || device::told(system, facts, &main));
    let images = || probes.run(Probe::Images, || images(system, facts, denied));
    let add_ons = || {
        probes.run(Probe::AddOnVersions, || {
            add_on_versions(system, database, facts)
        })
    };
    std::thread::scope(|scope| {
        let libraries = in_parallel(scope, &libraries);
        let images = in_parallel(scope, &images);
        let add_ons = in_parallel(scope, &add_ons);
        let nvcc: BTreeMap<_, _> = probes.run(Probe::Nvcc, || {
            let with_nvcc = facts.toolkits.iter().filter(|t| t.has_nvcc);
            with_nvcc
                .map(|t| (t.path.clone(), nvcc(system, &t.path)))
                .collect()
        });
        let compiled = probes.run(Probe::Compiled, || compiled(system, facts, &nvcc));
        FromPrograms {
            images: images.join().unwrap_or_default(),
            add_ons: add_ons.join().unwrap_or_default(),
            nvcc,
            compiled,
            libraries: libraries.join().unwrap_or_default(),
        }
    })
}

/// The driver, its modules and its services; nothing else is filled in.
fn driver_seen(
    system: &System,
    database: &Database,
    facts: &Facts,
    probes: &Probes,
    signer: &Answer<Option<String>>,
) -> Seen {
    let dkms = probes.run(Probe::Dkms, || dkms(system));
    let distribution = distribution(database, facts);
    let has_smi =
        system.exists("/usr/bin/nvidia-smi") || system.exists("/usr/local/bin/nvidia-smi");
    Seen {
        has_smi,
        missing_packages: probes.run(Probe::DriverPackages, || {
            if has_smi {
                Vec::new()
            } else {
                missing_packages(system, facts, distribution)
            }
        }),
        has_modprobe: system.exists("/usr/bin/nvidia-modprobe"),
        devices: system.is_live().then(|| {
            names(system, "/dev")
                .filter(|n| n.starts_with("nvidia"))
                .collect()
        }),
        fabric_manager: probes.run(Probe::FabricManager, || {
            fabric_manager(system, facts, database)
        }),
        companions: probes.run(Probe::Companions, || {
            companions::states(system, facts, database)
        }),
        failed_builds: probes.run(Probe::DkmsLogs, || failed_builds(system, &dkms)),
        dkms,
        unlinked_headers: probes.run(Probe::Headers, || unlinked_headers(system, facts)),
        compilers: compilers(system),
        key_is_enrolled: probes.run(Probe::SigningKey, || key_is_enrolled(system, facts, signer)),
        signed_modules: probes.run(Probe::SigningKey, || {
            signed_modules(system, facts, distribution)
        }),
        module_before_boot: probes.run(Probe::ModuleAge, || module_before_boot(system, facts)),
        ..Seen::default()
    }
}

impl Seen {
    /// What a file of facts shows: everything that needs the host itself is `NotAsked`.
    pub fn from_facts(facts: Facts, prefix: &Path, sources: &EvidenceSources) -> Self {
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
            day: Some(sources.day()),
            facts,
            prefix: prefix.to_owned(),
            kernel_log,
            fabric_manager: unsaid(),
            companions: unsaid(),
            signer: unsaid(),
            shells: unsaid(),
            python: unsaid(),
            nvml: unsaid(),
            cuda: unsaid(),
            ..Self::default()
        }
    }

    /// Replaces the kernel's log.
    pub fn with_kernel_log(mut self, text: &str) -> Self {
        self.kernel_log = kernel_log::heard(text);
        self
    }

    /// Completes what was read from a report: GPUs that nobody knew when the facts were written get
    /// a name, and the error of an older report a file.
    pub(crate) fn complete(&mut self, database: &Database) {
        self.containers.add_older_error(database);
        for gpu in self.facts.gpus.iter_mut().filter(|gpu| gpu.name.is_none()) {
            if let Ok(card) = known_gpu(database, gpu) {
                (gpu.name, gpu.compute_capability) = (Some(card.name), card.capability);
            }
        }
    }
}

/// The version that the library of each SONAME reports.
type Versions = BTreeMap<String, Answer<AddOnVersion>>;

/// The versions of cuDNN and of the other add-ons, each loaded as a program would load it.
fn add_on_versions(system: &System, database: &Database, facts: &Facts) -> (Versions, Versions) {
    let (mut cudnn, mut others) = (Versions::new(), Versions::new());
    for add_on in &database.add_ons {
        let all = if add_on.id == AddOnId::CUDNN {
            &mut cudnn
        } else {
            &mut others
        };
        for soname in main_libraries(facts, add_on) {
            let version = match system.is_live() {
                true => device::add_on_version(add_on, &soname),
                false => loader::add_on_version(system, facts, &soname),
            };
            all.insert(soname, version);
        }
    }
    (cudnn, others)
}

/// The SONAMEs of an add-on's main library on the host.
fn main_libraries(facts: &Facts, add_on: &AddOn) -> Vec<String> {
    let sonames = facts
        .files_of(add_on.id)
        .flat_map(|c| &c.files)
        .filter_map(|f| f.soname.clone());
    sonames
        .filter(|soname| {
            soname
                .strip_prefix(&add_on.library)
                .is_some_and(|end| end.starts_with(".so."))
        })
        .collect::<BTreeSet<_>>()
        .into_iter()
        .collect()
}

/// Why a check is skipped that needs more than the facts.
pub(crate) const NOT_IN_FACTS: &str = "a file of facts does not say it";

/// The names in a directory; empty if it cannot be read, which the facts already report.
fn names(system: &System, directory: impl AsRef<Path>) -> impl Iterator<Item = String> {
    system.list(directory).unwrap_or_default().into_iter()
}

fn text(system: &System, path: impl AsRef<Path>) -> String {
    system.read_text(path).ok().flatten().unwrap_or_default()
}

/// Why programs of a tree are not run: they are untrusted, and gpusetup usually runs as root.
pub(crate) const OF_A_TREE: &str = "skipped below --root: it would run a program of the tree";

/// The output of a program of this machine. Programs of a tree are never run.
fn ask<'a>(
    system: &System,
    argv: impl IntoIterator<Item = &'a str>,
    limit: Duration,
) -> Answer<String> {
    ask_or(system, argv, limit, |output| output.last_lines(1))
}

/// The same, with the reason for a failure taken from the output by `why`.
fn ask_or<'a>(
    system: &System,
    argv: impl IntoIterator<Item = &'a str>,
    limit: Duration,
    why: impl Fn(&Output) -> String,
) -> Answer<String> {
    if !system.is_live() {
        return Answer::NotAsked(OF_A_TREE.to_owned());
    }
    let program = Program::new(argv).env("HOME", "/nonexistent").limit(limit);
    let name = program.name().to_owned();
    match system.run(&program) {
        Err(e) => Answer::NotAsked(format!("{name}: {e}")),
        Ok(output) => match output.ended {
            Ended::Status(0) => Answer::Is(output.text),
            ended => Answer::Failed(format!("{name} ended with {ended}: {}", why(&output))),
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
