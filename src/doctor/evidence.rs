//! What the checks look at: the facts, and what only asking the host's own programs tells. Gathered once; what could not
//! be seen is kept as such, with the reason.

mod apt;
mod bus;
mod containers;
mod driver;
mod initramfs;
mod loader;
mod module;
mod rivals;
mod toolkit;

pub use apt::{Apt, Repository, RepositoryKey};
pub use bus::Bus;
pub use containers::{Asked, CdiSpec, Coherent, Containers, Given};
pub use driver::{FabricManager, FailedBuild};
pub use loader::Cached;
pub use rivals::{Denial, FORCED, Image};
pub use toolkit::Shells;

use super::device;
use super::kernel_log::{self, Said};
use super::sense::{Sense, Senses};
use crate::compat::{AddOn, AddOnId, Companion, CompanionId, Database, Distribution, Sxid, Xid};
use crate::host::Facts;
use crate::nvidia::{Answer, Convolution, Cuda, Nvml};
use crate::resolve::{Card, distribution, known_card};
use crate::system::{Ended, Program, System};
use crate::version::{AddOnVersion, CudaVersion, DriverVersion};
use driver::{
    dkms, fabric_manager, failed_builds, hmm_disabled, key_is_enrolled, missing_packages, module_before_boot, signer,
    unlinked_headers,
};
use loader::{cached, forward_compatible, loader_directories, resolved};
use rivals::{denied, images};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;
use toolkit::{compiled, newest_gcc, nvcc, oldest_drivers, set_for_everybody, shells};

/// What is looked at beside the host itself.
#[derive(Debug, Clone, Default)]
pub struct EvidenceSources {
    /// The kernel's log, where it is given instead of read from the host.
    pub kernel_log: Option<String>,
    /// The day, `2026-11-20`, where it is not today's.
    pub today: Option<String>,
    /// A host without a GPU is sound.
    pub accepts_no_gpu: bool,
}

/// Everything that the checks look at on the host.
// What the database says of it is not kept in a file: `Evidence::with` adds it again. A field that comes later is an `Answer` or
// an option with `serde(default)`: a file from before it must not come to say that something is missing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
#[serde(deny_unknown_fields)]
pub struct Evidence {
    /// There is nothing but the facts, in which the rest of this does not show.
    #[serde(skip)]
    pub only_facts: bool,
    /// A host without a GPU is sound.
    #[serde(skip)]
    pub accepts_no_gpu: bool,
    /// The facts of the host.
    pub facts: Facts,
    /// The host's distribution, where the database knows it.
    #[serde(skip)]
    pub distribution: Option<Distribution>,
    /// The directory that toolkits are in.
    pub prefix: PathBuf,
    /// The default toolkit, `PREFIX/cuda`, links resolved; none when that leads nowhere.
    pub default_toolkit: Option<PathBuf>,
    /// What the database says of each GPU, in the order of the facts; the sentence says why nothing.
    #[serde(skip)]
    pub cards: Vec<Result<Card, String>>,
    /// What the kernel said of driver and GPUs since the last boot.
    pub kernel_log: Answer<Vec<Said>>,
    /// What the database says of the Xids in it.
    #[serde(skip)]
    pub xids: Vec<Xid>,
    /// What the database says of the NVSwitches' errors in it.
    #[serde(skip)]
    pub sxids: Vec<Sxid>,
    /// nvidia-smi is where the driver puts it.
    pub has_smi: bool,
    /// The driver's packages that did not come along; looked for where nvidia-smi is missing.
    pub missing_packages: Vec<String>,
    /// nvidia-modprobe is there, which makes devices that are missing when a program asks for them.
    pub has_modprobe: bool,
    /// For each toolkit, the newest gcc that its nvcc takes, where that is known.
    #[serde(skip)]
    pub newest_gcc: BTreeMap<PathBuf, u16>,
    /// Where another host compiler is set for everybody: the file, and its line.
    pub host_compiler: Option<(PathBuf, String)>,
    /// Devices of the driver, `nvidia-uvm`; none where no kernel runs.
    pub devices: Option<Vec<String>>,
    /// Fabric Manager: the version that it says, and whether it runs.
    pub fabric_manager: Answer<FabricManager>,
    /// NVIDIA's modules in DKMS's care: the versions of each tree, by its name.
    pub dkms: BTreeMap<String, Vec<String>>,
    /// What DKMS could not build last, by kernel.
    #[serde(default)]
    pub failed_builds: BTreeMap<String, FailedBuild>,
    /// Headers that lie there and that their kernel has no link to, by kernel.
    pub unlinked_headers: BTreeMap<String, PathBuf>,
    /// Versions of gcc that can be called by their number, `gcc-12`.
    pub compilers: Vec<u16>,
    /// Kernel modules that the host's configuration keeps out.
    pub denied: Vec<Denial>,
    /// What is in each kernel's initramfs, by kernel.
    pub images: BTreeMap<String, Answer<Image>>,
    /// Who signed the nvidia module of the kernel that boots next; none is nobody. Asked only where it matters.
    pub signer: Answer<Option<String>>,
    /// Whether the firmware or shim knows the key that signed it; none where it is not this host's own.
    #[serde(default)]
    pub key_is_enrolled: Option<bool>,
    /// Where another module is loaded than the driver's: whether the driver's own was there before the running kernel booted.
    #[serde(default)]
    pub module_before_boot: Option<bool>,
    /// What each toolkit's `nvcc --version` says, by the toolkit's directory.
    pub nvcc: BTreeMap<PathBuf, Answer<CudaVersion>>,
    /// What each toolkit's compile of a small program came to, by the toolkit's directory: what the program said.
    #[serde(default)]
    pub compiled: BTreeMap<PathBuf, Answer<String>>,
    /// Which nvcc shells find.
    pub shells: Answer<Shells>,
    /// The directories that the loader looks in, links resolved.
    pub loader_directories: BTreeSet<PathBuf>,
    /// The loader's cache, with what became of each entry.
    pub cached: Vec<Cached>,
    /// Of its libcudas, those of compatibility packages that are for this driver and these GPUs.
    #[serde(skip)]
    pub forward_compatible: BTreeSet<PathBuf>,
    /// What the database says of Fabric Manager.
    #[serde(skip)]
    pub fabric_companion: Option<Companion>,
    /// Where LD_LIBRARY_PATH is set for everybody: the file, and its line.
    pub library_paths: Vec<(PathBuf, String)>,
    /// What each SONAME of cuDNN, loaded as a program would, says its version is.
    pub cudnn: BTreeMap<String, Answer<AddOnVersion>>,
    /// The same of other add-ons.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub add_ons: BTreeMap<String, Answer<AddOnVersion>>,
    /// The add-ons that the database knows.
    #[serde(skip)]
    pub known_add_ons: Vec<AddOn>,
    /// NVIDIA's repositories, as apt has them.
    pub apt: Apt,
    /// How the GPUs are joined on the PCI bus.
    pub bus: Bus,
    /// What starts containers on the host.
    pub containers: Containers,
    /// What this container was given of the host's GPUs; none where this is no container that runs.
    #[serde(default)]
    pub given: Option<Given>,
    /// How the GPUs' memory is counted, where they share the processor's.
    pub coherent: Option<Coherent>,
    /// What the driver's management library says.
    #[serde(default)]
    pub nvml: Answer<Nvml>,
    /// What CUDA's driver library says.
    #[serde(default)]
    pub cuda: Answer<Cuda>,
    /// What came of a small convolution by each SONAME of cuDNN.
    #[serde(default)]
    pub convolution: BTreeMap<String, Answer<Convolution>>,
    /// Who has the GPUs' devices open, where a GPU waits to be reset.
    #[serde(default)]
    pub holders: Vec<String>,
    /// The persistence daemon runs; none where nothing does.
    #[serde(default)]
    pub persistenced: Option<bool>,
    /// The unit of the persistence daemon is installed.
    #[serde(default)]
    pub has_persistence_unit: bool,
    /// CUDA's kernel module was told to do without the kernel's heterogeneous memory; none where it is not loaded.
    #[serde(default)]
    pub hmm_disabled: Option<bool>,
    /// The newest CUDA that the installed driver's branch runs by itself, where that is known.
    #[serde(skip)]
    pub branch_cuda: Option<CudaVersion>,
    /// For each toolkit, the oldest driver that runs its programs, where that is known.
    #[serde(skip)]
    pub oldest_driver: BTreeMap<PathBuf, DriverVersion>,
    /// Senses that failed because of a mistake in gpusetup, by name, with what they looked at. Reports of 0.1 name checks.
    pub broken: BTreeMap<String, String>,
}

/// Looks at a host.
pub fn gather(
    system: &System,
    database: &Database,
    facts: Facts,
    prefix: &Path,
    sources: &EvidenceSources,
) -> Evidence {
    let senses = Senses::default();
    // Before anything else is asked: a sick driver hangs whoever asks, and the log has mostly said why.
    let kernel_log = senses.at(Sense::KernelLog, || match &sources.kernel_log {
        Some(text) => Answer::Is(kernel_log::parse(text)),
        None => match kernel_log::read(system) {
            Answer::Is(text) => Answer::Is(kernel_log::parse(&text)),
            Answer::Failed(why) => Answer::Failed(why),
            Answer::NotAsked(why) => Answer::NotAsked(why),
        },
    });
    let denied = senses.at(Sense::Denials, || denied(system));
    let signer = senses.at(Sense::Signer, || signer(system, &facts));
    let main = database.add_on(AddOnId::CUDNN).map(|cudnn| main_libraries(&facts, cudnn)).unwrap_or_default();
    // The slow ones wait for other programs, each for its own.
    let (images, add_ons, (nvcc, compiled), told) = std::thread::scope(|scope| {
        let told = scope.spawn(|| senses.at(Sense::Libraries, || device::told(system, &facts, &main)));
        let images = scope.spawn(|| senses.at(Sense::Images, || images(system, &facts, &denied)));
        let add_ons = scope.spawn(|| senses.at(Sense::AddOnVersions, || add_on_versions(system, database, &facts)));
        let nvcc: BTreeMap<_, _> = senses.at(Sense::Nvcc, || {
            let with_nvcc = facts.toolkits.iter().filter(|t| t.has_nvcc);
            with_nvcc.map(|t| (t.path.clone(), nvcc(system, &t.path))).collect()
        });
        let compiled = senses.at(Sense::Compiled, || compiled(system, &facts, &nvcc));
        // Neither breaks off: that was seen to inside.
        (images.join().unwrap_or_default(), add_ons.join().unwrap_or_default(), (nvcc, compiled), told.join())
    });
    let (cudnn, add_ons) = add_ons;
    let dkms = senses.at(Sense::Dkms, || dkms(system));
    let told = told.unwrap_or_default();
    let distribution = distribution(database, &facts);
    let has_smi = system.exists("/usr/bin/nvidia-smi") || system.exists("/usr/local/bin/nvidia-smi");
    let missing_packages = senses.at(Sense::DriverPackages, || {
        if has_smi { Vec::new() } else { missing_packages(system, &facts, distribution) }
    });
    Evidence {
        only_facts: false,
        accepts_no_gpu: sources.accepts_no_gpu,
        distribution: None,
        prefix: prefix.to_owned(),
        default_toolkit: Some(prefix.join("cuda")).filter(|p| system.is_directory(p)).map(|p| resolved(system, &p)),
        cards: Vec::new(),
        kernel_log,
        xids: Vec::new(),
        sxids: Vec::new(),
        has_smi,
        missing_packages,
        has_modprobe: system.exists("/usr/bin/nvidia-modprobe"),
        oldest_driver: BTreeMap::new(),
        branch_cuda: None,
        persistenced: system.is_live().then(|| system.exists("/run/nvidia-persistenced/socket")),
        has_persistence_unit: ["/etc", "/usr/lib", "/lib"]
            .iter()
            .any(|d| system.exists(Path::new(d).join("systemd/system/nvidia-persistenced.service"))),
        hmm_disabled: hmm_disabled(system),
        newest_gcc: BTreeMap::new(),
        host_compiler: senses
            .at(Sense::HostCompiler, || set_for_everybody(system, &["NVCC_CCBIN=", "-ccbin"]).into_iter().next()),
        devices: system.is_live().then(|| names(system, "/dev").filter(|n| n.starts_with("nvidia")).collect()),
        fabric_manager: senses.at(Sense::FabricManager, || fabric_manager(system, &facts, database)),
        failed_builds: senses.at(Sense::DkmsLogs, || failed_builds(system, &dkms)),
        dkms,
        unlinked_headers: senses.at(Sense::Headers, || unlinked_headers(system, &facts)),
        compilers: compilers(system),
        key_is_enrolled: senses.at(Sense::SigningKey, || key_is_enrolled(system, &facts, &signer)),
        module_before_boot: senses.at(Sense::ModuleAge, || module_before_boot(system, &facts)),
        signer,
        shells: senses.at(Sense::Shells, || shells(system, &facts)),
        loader_directories: senses.at(Sense::LoaderDirectories, || loader_directories(system)),
        forward_compatible: BTreeSet::new(),
        fabric_companion: None,
        cached: senses.at(Sense::LoaderCache, || cached(system, &facts)),
        library_paths: senses.at(Sense::LibraryPaths, || set_for_everybody(system, &["LD_LIBRARY_PATH="])),
        denied,
        images,
        apt: senses.at(Sense::Apt, || {
            let now = || jiff::Timestamp::now().strftime("%Y-%m-%d").to_string();
            apt::apt(system, &sources.today.clone().unwrap_or_else(now))
        }),
        bus: senses.at(Sense::Bus, || bus::bus(system, &facts, database)),
        containers: senses.at(Sense::Containers, || containers::containers(system)),
        given: senses.at(Sense::Given, || containers::given(system, &facts)),
        coherent: senses.at(Sense::Coherent, || containers::coherent(system, &facts, database)),
        cudnn,
        add_ons,
        known_add_ons: Vec::new(),
        nvcc,
        compiled,
        nvml: told.nvml,
        cuda: told.cuda,
        convolution: told.convolution,
        holders: told.holders,
        facts,
        broken: senses.failed(),
    }
    .with(database)
}

impl Evidence {
    /// What a file of facts shows, and no more: everything that only the host itself would tell is not asked.
    pub fn of_facts(facts: Facts, database: &Database, prefix: &Path, sources: &EvidenceSources) -> Self {
        fn unsaid<T>() -> Answer<T> {
            Answer::NotAsked(NOT_IN_FACTS.to_owned())
        }
        let kernel_log = sources.kernel_log.as_deref().map_or_else(unsaid, |t| Answer::Is(kernel_log::parse(t)));
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
            dkms: BTreeMap::new(),
            failed_builds: BTreeMap::new(),
            unlinked_headers: BTreeMap::new(),
            compilers: Vec::new(),
            denied: Vec::new(),
            images: BTreeMap::new(),
            key_is_enrolled: None,
            module_before_boot: None,
            signer: unsaid(),
            nvcc: BTreeMap::new(),
            compiled: BTreeMap::new(),
            shells: unsaid(),
            loader_directories: BTreeSet::new(),
            cached: Vec::new(),
            forward_compatible: BTreeSet::new(),
            fabric_companion: None,
            library_paths: Vec::new(),
            cudnn: BTreeMap::new(),
            add_ons: BTreeMap::new(),
            known_add_ons: Vec::new(),
            apt: Apt::default(),
            bus: Bus::default(),
            containers: Containers::default(),
            given: None,
            coherent: None,
            nvml: unsaid(),
            cuda: unsaid(),
            convolution: BTreeMap::new(),
            holders: Vec::new(),
            persistenced: None,
            has_persistence_unit: false,
            hmm_disabled: None,
            branch_cuda: None,
            oldest_driver: BTreeMap::new(),
            facts,
            broken: BTreeMap::new(),
        }
        .with(database)
    }

    /// The same host, with what this database says of it.
    pub fn with(mut self, database: &Database) -> Self {
        self.known_add_ons = database.add_ons.clone();
        let facts = &mut self.facts;
        self.distribution = distribution(database, facts).cloned();
        self.cards =
            facts.gpus.iter().map(|g| known_card(database, g).map_err(|conflict| conflict.to_string())).collect();
        // A newer database may know a GPU that was unknown when the facts were written.
        for (gpu, card) in facts.gpus.iter_mut().zip(&self.cards) {
            if let (None, Ok(card)) = (&gpu.name, card) {
                (gpu.name, gpu.compute_capability) = (Some(card.name.clone()), card.capability);
            }
        }
        self.fabric_companion = database.companion(CompanionId::FABRIC_MANAGER).cloned();
        self.forward_compatible = forward_compatible(database, facts.driver.as_ref(), &self.cards, &self.cached);
        let toolkits = facts.toolkits.iter();
        self.newest_gcc = toolkits.filter_map(|t| Some((t.path.clone(), newest_gcc(database, t.version)?))).collect();
        self.branch_cuda = facts.driver.as_ref().and_then(|d| database.branch(d.version.branch)?.max_cuda);
        self.oldest_driver = oldest_drivers(database, facts);
        let number = |said: &Said| if let Said::Xid { number, .. } = said { Some(*number) } else { None };
        let told = if let Answer::Is(said) = &self.kernel_log { said.as_slice() } else { &[] };
        let numbers: BTreeSet<_> = told.iter().filter_map(number).collect();
        self.xids = numbers.into_iter().filter_map(|n| database.xid(n).cloned()).collect();
        let number = |said: &Said| if let Said::SwitchFault { number, .. } = said { Some(*number) } else { None };
        let numbers: BTreeSet<_> = told.iter().filter_map(number).collect();
        self.sxids = numbers.into_iter().filter_map(|n| database.sxid(n).cloned()).collect();
        self
    }

    /// What people call Fabric Manager.
    pub fn fabric_title(&self) -> String {
        self.fabric_companion.as_ref().map_or_else(|| CompanionId::FABRIC_MANAGER.to_string(), |c| c.title.clone())
    }

    /// The units of Fabric Manager as commands have them, `nvidia-fabricmanager`.
    pub fn fabric_units(&self) -> impl Iterator<Item = &str> {
        let units = self.fabric_companion.iter().flat_map(|c| &c.units);
        units.map(|unit| unit.strip_suffix(".service").unwrap_or(unit))
    }

    /// The commands that start Fabric Manager.
    pub fn fabric_start(&self) -> impl Iterator<Item = String> {
        self.fabric_units().map(|unit| format!("sudo systemctl enable --now {unit}"))
    }

    /// What the database says of an add-on.
    pub fn add_on(&self, id: AddOnId) -> Option<&AddOn> {
        self.known_add_ons.iter().find(|a| a.id == id)
    }

    /// What people call an add-on; of one that the database does not know, its id.
    pub fn title_of(&self, id: AddOnId) -> String {
        self.add_on(id).map_or_else(|| id.to_string(), |a| a.title.clone())
    }

    /// The same host, with this as its kernel's log.
    pub fn with_kernel_log(mut self, text: &str, database: &Database) -> Self {
        self.kernel_log = Answer::Is(kernel_log::parse(text));
        self.with(database)
    }
}

/// What the libraries by each SONAME say their versions are.
type Versions = BTreeMap<String, Answer<AddOnVersion>>;

/// What cuDNN and the other add-ons say, each loaded as a program would load it.
fn add_on_versions(system: &System, database: &Database, facts: &Facts) -> (Versions, Versions) {
    let (mut cudnn, mut others) = (Versions::new(), Versions::new());
    for add_on in &database.add_ons {
        let version = |soname: &str| match system.is_live() {
            true => device::add_on_version(add_on, soname),
            false => loader::add_on_version(system, facts, soname),
        };
        let all = if add_on.id == AddOnId::CUDNN { &mut cudnn } else { &mut others };
        all.extend(main_libraries(facts, add_on).into_iter().map(|soname| (soname.clone(), version(&soname))));
    }
    (cudnn, others)
}

/// The SONAMEs of an add-on's main library on the host.
fn main_libraries(facts: &Facts, add_on: &AddOn) -> Vec<String> {
    let sonames = facts.files_of(add_on.id).flat_map(|c| &c.files).filter_map(|f| f.soname.clone());
    let is_main = |soname: &String| soname.strip_prefix(&add_on.library).is_some_and(|end| end.starts_with(".so."));
    sonames.filter(is_main).collect::<BTreeSet<_>>().into_iter().collect()
}

/// Why a check is skipped that the facts alone do not answer.
pub const NOT_IN_FACTS: &str = "a file of facts does not say it";

/// The names in a directory; none where it cannot be read, which the facts have said already.
fn names(system: &System, directory: impl AsRef<Path>) -> impl Iterator<Item = String> {
    system.list(directory).unwrap_or_default().into_iter()
}

fn text(system: &System, path: impl AsRef<Path>) -> String {
    system.read_text(path).ok().flatten().unwrap_or_default()
}

/// Why nothing is asked of a tree's programs: whoever made the tree would run what they like, and mostly as root.
pub const OF_A_TREE: &str = "skipped below --root: it would run a program of the tree";

/// What a program of this machine says. Those of a tree are never run.
fn ask<const N: usize>(system: &System, argv: [&str; N], limit: Duration) -> Answer<String> {
    if !system.is_live() {
        return Answer::NotAsked(OF_A_TREE.to_owned());
    }
    match system.run(&Program::new(argv).env("HOME", "/nonexistent").limit(limit)) {
        Err(e) => Answer::NotAsked(format!("{}: {e}", argv[0])),
        Ok(output) => match output.ended {
            Ended::Status(0) => Answer::Is(output.text),
            ended => Answer::Failed(format!("{} ended with {ended}: {}", argv[0], output.last_lines(1))),
        },
    }
}

/// Versions of gcc in /usr/bin.
fn compilers(system: &System) -> Vec<u16> {
    names(system, "/usr/bin").filter_map(|n| n.strip_prefix("gcc-")?.parse().ok()).collect()
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
        system.make_directories("/etc/profile.d", 0o755).expect("made");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            tree.path().join("etc/profile.d/a.sh"),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR,
            0,
        )
        .expect("a pipe");
        system.write("/etc/profile.d/b.sh", b"export LD_LIBRARY_PATH=/x\n", 0o644).expect("written");
        let found = set_for_everybody(&system, &["LD_LIBRARY_PATH="]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(system.read("/etc/profile.d/a.sh").is_err_and(|e| e.to_string().contains("not a regular file")));
    }
}
