//! The compatibility database: what works with what (`compat/`), and what can be downloaded (`manifests/`). These types define
//! both the YAML files and the compact form in the binary. Only [`load`] opens files, and nothing here makes decisions;
//! `resolve` does.

mod add_on;
mod bulletin;
mod check;
mod companion;
mod component;
mod export;
mod gpu_name;
mod index;
mod load;
mod machine;
mod problem;
mod python;
mod query;
mod repository;
mod short_name;
mod tally;

pub use add_on::{
    AddOn, AddOnArtifact, AddOnId, AddOnIdError, AddOnRange, CallForm, Layout, Place, VersionCall, VersionCode,
};
pub use bulletin::Bulletin;
pub use check::check;
pub use companion::{Companion, CompanionId, CompanionIdError, CompanionPackage, VersionRule};
pub use component::{Component, ComponentArchive, ComponentNeed, ComponentRelease, ReleasedComponent, short};
pub use export::Export;
pub use gpu_name::{Ambiguous, is_brand};
pub use index::{ArchiveRow, MACHINES, Published, PublishedAddOn, PublishedToolkit, cuda_arch};
pub use load::{LoadError, Misshapen, files, load, parse, release_keys};
pub use machine::{Instance, Provider, System};
pub use problem::Problem;
pub use python::{Brought, CondaPackage, PythonInstall, PythonPackage};
pub use query::{build_label, framework_and_version, named_cuda, package_of, without_label};
pub use repository::{NeededRepository, OF_TOOLKIT, PackageRepository, SigningKey, ToolkitPackages};
pub use tally::Tally;

use crate::version::{AddOnVersion, ComputeCapability, CudaVersion, DriverVersion};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The database of this project, for tests.
#[cfg(test)]
fn known() -> &'static Database {
    static KNOWN: std::sync::LazyLock<Database> = std::sync::LazyLock::new(|| {
        load(std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")))
            .expect("the project's facts are valid")
    });
    &KNOWN
}

/// A key of [`Database::sources`]; every fact names the sources that publish it.
pub type SourceId = String;

/// The whole database.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Database {
    /// The day of the latest change, `2026.11.20`.
    pub version: String,
    /// The day after which `gpusetup db update` refuses it, `2027-03-01`: a signature never expires. Only a packed database has one.
    pub expires: Option<String>,
    /// SHA-256, in lower-case hexadecimal, over all files in the order of their names.
    pub sha256: String,
    /// The sources of the facts.
    pub sources: Vec<Source>,
    /// Compute capabilities, oldest first.
    pub architectures: Vec<Architecture>,
    /// GPUs by PCI id; the entry for all boards of a device precedes those for single boards.
    pub gpus: Vec<Gpu>,
    /// Virtual GPUs, by PCI id.
    pub virtual_gpus: Vec<VirtualGpus>,
    /// NVSwitch bridges.
    pub nvswitches: Vec<NvSwitch>,
    /// Instance types of cloud providers.
    pub instances: Vec<Instance>,
    /// NVIDIA's systems and boards.
    pub systems: Vec<System>,
    /// The boards on which NVSwitches connect GPUs, and what their hosts need.
    pub fabrics: Vec<Fabric>,
    /// Packages tied to the driver (companions).
    pub companions: Vec<Companion>,
    /// NVIDIA's security bulletins, newest first.
    pub bulletins: Vec<Bulletin>,
    /// GPU error numbers in the kernel log.
    pub xids: Vec<Xid>,
    /// The NVSwitch driver's error numbers.
    pub sxids: Vec<Sxid>,
    /// Driver branches, newest first.
    pub driver_branches: Vec<DriverBranch>,
    /// Driver releases, newest first.
    pub drivers: Vec<DriverRelease>,
    /// CUDA releases, newest first.
    pub cuda: Vec<CudaRelease>,
    /// Artifacts of CUDA releases, newest first.
    pub cuda_artifacts: Vec<CudaArtifact>,
    /// The toolkit components that can be downloaded separately.
    pub components: Vec<Component>,
    /// Dependencies between components.
    pub component_needs: Vec<ComponentNeed>,
    /// Component archives of CUDA releases, newest first.
    pub component_releases: Vec<ComponentRelease>,
    /// Libraries that are installed into a toolkit; those that plans include by default come first.
    pub add_ons: Vec<AddOn>,
    /// The requirements of their releases, by add-on and then newest first.
    pub add_on_ranges: Vec<AddOnRange>,
    /// Archives of their releases, by add-on and then newest first.
    pub add_on_artifacts: Vec<AddOnArtifact>,
    /// Host compilers that nvcc does not support.
    pub compiler_limits: Vec<CompilerLimit>,
    /// Distributions: package names and the contents of their repositories.
    pub distributions: Vec<Distribution>,
    /// Repositories that can be added to a host.
    pub package_repositories: Vec<PackageRepository>,
    /// The keys that sign them.
    pub signing_keys: Vec<SigningKey>,
    /// The CUDA and cuDNN versions that frameworks are built with.
    pub frameworks: Vec<Framework>,
    /// Systems listed in NVIDIA's installation guides, newest CUDA first.
    pub cuda_guides: Vec<CudaGuide>,
    /// User-space drivers for older kernel modules, newest CUDA first.
    pub forward_compatibility: Vec<ForwardCompatibility>,
    /// Package names before and after a release that changed them.
    pub renames: Vec<Rename>,
    /// Services that use GPUs or their instances.
    pub mig_clients: Vec<MigClient>,
    /// GPU instances (MIG) that GPUs can be partitioned into.
    pub mig_profiles: Vec<MigProfile>,
    /// Subjects on which whole sources differ.
    pub disagreements: Vec<Disagreement>,
    /// All of it arranged for searches.
    #[serde(skip)]
    index: index::Indexed,
}

/// The systems listed in NVIDIA's installation guide for a CUDA series.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CudaGuide {
    /// The series.
    pub cuda: CudaVersion,
    /// Whether `systems` is the guide's full list; if not, a missing system proves nothing.
    pub complete: bool,
    /// The listed systems.
    pub systems: Vec<GuideSystem>,
    /// The sources.
    pub sources: Vec<SourceId>,
}

/// A system in a guide.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GuideSystem {
    /// `ID` of os-release.
    pub id: String,
    /// The version, with the point release that NVIDIA tested.
    pub version: String,
    /// The machine architecture, as CUDA's artifacts call it.
    pub arch: String,
    /// The kernel version.
    #[serde(default)]
    pub kernel: Option<String>,
    /// The default gcc.
    #[serde(default)]
    pub gcc: Option<String>,
    /// The C library.
    #[serde(default)]
    pub glibc: Option<String>,
}

/// A package with the user-space driver of a newer branch, for kernel modules of an older one (forward compatibility).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ForwardCompatibility {
    /// The CUDA series whose programs it enables.
    pub cuda: CudaVersion,
    /// The package, `cuda-compat-13-0`.
    pub package: String,
    /// The branch of its user-space driver, if published.
    #[serde(default)]
    pub driver_branch: Option<u16>,
    /// The supported branches of kernel modules.
    pub base_branches: Vec<u16>,
    /// The sources.
    pub sources: Vec<SourceId>,
}

/// The role of a package or a module.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// The open kernel modules, under the name that DKMS uses.
    OpenDkmsModule,
}

/// A change of a package name in NVIDIA's own repositories.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rename {
    /// The role of the package.
    pub role: Role,
    /// The package manager, if names differ by package manager.
    #[serde(default)]
    pub package_manager: Option<PackageManager>,
    /// The old name; `{branch}` stands for the driver's branch.
    pub before: String,
    /// The first driver release with the new name.
    pub from: DriverVersion,
    /// The new name.
    pub after: String,
    /// The sources.
    pub sources: Vec<SourceId>,
}

/// A MIG profile: a kind of GPU instance.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MigProfile {
    /// The GPUs that offer it.
    pub gpus: Vec<PciDevice>,
    /// The boards that offer it, if boards with the same device id differ: the last four digits of their subsystem ids.
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
    pub disagreement: Option<String>,
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
    /// The sources.
    pub sources: Vec<SourceId>,
}

/// What a service has to do with the instances of GPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MigRole {
    /// It keeps the GPUs ready, and in use: their MIG mode does not change while it runs. At boot it starts before instances are created.
    Keeper,
    /// Joined GPUs are not reset without it. At boot it starts before instances are created.
    Fabric,
    /// It keeps GPUs in use: their MIG mode does not change while it runs. At boot it starts after instances are created.
    User,
    /// It starts programs that use GPUs. At boot it starts after instances are created.
    Runtime,
    /// It lists the instances for others, and is started again when they change. At boot it starts after they are created.
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

/// Where a GPU instance can be: it occupies `size` placement slots of the GPU, from one of `starts` on. Most GPUs have as many
/// slots as memory slices.
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

/// A framework with requirements on CUDA and cuDNN.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Framework {
    /// The name in requests and for pip: `torch`.
    pub name: String,
    /// The usual name: `PyTorch`.
    pub title: String,
    /// Other names.
    #[serde(default)]
    pub aliases: Vec<String>,
    /// The framework whose CUDA version it must match, as `torch` is for its extensions. A request has to name both.
    #[serde(default)]
    pub beside: Option<String>,
    /// Packages that are released with it and need the same: `torchvision` for `torch`.
    #[serde(default)]
    pub siblings: Vec<String>,
    /// How pip installs it; releases before every `from` have none.
    #[serde(default)]
    pub install: Vec<PythonPackage>,
    /// Its conda packages, if the project publishes some.
    #[serde(default)]
    pub conda: Vec<CondaPackage>,
    /// Its releases, newest first.
    pub releases: Vec<FrameworkRelease>,
}

/// A release of a framework, or a whole series.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FrameworkRelease {
    /// The version; `2.9` is every 2.9.x.
    pub version: String,
    /// The builds: first the one that a plain `pip install` gets, or that the project's guide shows first.
    pub builds: Vec<FrameworkBuild>,
    /// The oldest glibc that its wheels on PyPI support, by machine architecture. Omitted up to 2.17, which every system has.
    #[serde(default)]
    pub glibc_min: BTreeMap<String, String>,
    /// The machine architectures for which PyPI has no wheels with CUDA. Builds for them come from the project's own index.
    #[serde(default)]
    pub cpu_only: Vec<String>,
    /// The sources.
    pub sources: Vec<SourceId>,
}

/// What a build of a framework needs from the host besides the driver.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FrameworkNeeds {
    /// The toolkit's libraries.
    #[default]
    Libraries,
    /// The whole toolkit: it is compiled on the host.
    Compiler,
    /// Nothing: it contains the CUDA libraries that it uses.
    Driver,
}

/// A build of a framework.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FrameworkBuild {
    /// The CUDA series it is built with; if no source names one, the first it runs with.
    pub cuda: CudaVersion,
    /// The first CUDA series it runs with. It then runs with every newer one of the same major version. Without this value, it
    /// runs only with the one it is built with.
    #[serde(default)]
    pub cuda_min: Option<CudaVersion>,
    /// The first CUDA release whose nvcc and ptxas it accepts, if that is newer.
    #[serde(default)]
    pub nvcc_min: Option<CudaVersion>,
    /// What it needs from the host.
    #[serde(default)]
    pub needs: FrameworkNeeds,
    /// The machine architectures it is published for; empty for all.
    #[serde(default)]
    pub architectures: Vec<String>,
    /// The cuDNN version it is built with.
    #[serde(default)]
    pub cudnn: Option<AddOnVersion>,
    /// The first cuDNN it runs with, with the same rule as for CUDA. Without this value, it gets the minor version it is built
    /// with.
    #[serde(default)]
    pub cudnn_min: Option<AddOnVersion>,
    /// The lowest compute capability that it has kernels for.
    #[serde(default)]
    pub lowest_capability: Option<ComputeCapability>,
    /// The compute capability of its newest kernels, if it has no PTX: it does not run on GPUs of later major versions.
    #[serde(default)]
    pub highest_capability: Option<ComputeCapability>,
    /// Major versions in between without kernels or PTX.
    #[serde(default)]
    pub without_kernels_for: Vec<u8>,
    /// Single compute capabilities without kernels: those for 10.0a do not run on 10.3.
    #[serde(default)]
    pub without_capabilities: Vec<ComputeCapability>,
    /// What does not work on some of the GPUs it has kernels for.
    #[serde(default)]
    pub cautions: Vec<Caution>,
    /// A note for readers.
    #[serde(default)]
    pub note: Option<String>,
}

/// A warning for users of newer GPUs, shown before a build is installed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Caution {
    /// The lowest compute capability that it applies to.
    pub from: ComputeCapability,
    /// A sentence without a full stop, such as `kernels are compiled at the first start`.
    pub text: String,
}

impl FrameworkBuild {
    /// The first CUDA series it runs with.
    pub fn first_cuda(&self) -> CudaVersion {
        self.cuda_min.unwrap_or(self.cuda).series()
    }

    /// The first toolkit it works with, including the compiler.
    pub fn first_toolkit(&self) -> CudaVersion {
        self.nvcc_min.unwrap_or(self.first_cuda()).max(self.first_cuda())
    }

    /// Whether it runs with this CUDA series.
    pub fn takes(&self, cuda: CudaVersion) -> bool {
        match self.cuda_min {
            Some(min) => cuda.major == min.major && cuda.series() >= min.series(),
            None => cuda.series() == self.cuda.series(),
        }
    }

    /// Whether its kernels run on a GPU.
    pub fn has_kernels_for(&self, gpu: ComputeCapability) -> bool {
        self.lowest_capability.is_none_or(|lowest| gpu >= lowest)
            && self.highest_capability.is_none_or(|highest| gpu.major <= highest.major)
            && !self.without_kernels_for.contains(&gpu.major)
            && !self.without_capabilities.contains(&gpu)
    }

    /// Whether it is published for a machine architecture.
    pub fn is_for(&self, architecture: &str) -> bool {
        self.architectures.is_empty() || self.architectures.iter().any(|a| a == architecture)
    }

    /// The first cuDNN it runs with, if it uses cuDNN and a source names a version.
    pub fn first_cudnn(&self) -> Option<AddOnVersion> {
        self.cudnn_min.or(self.cudnn)
    }
}

/// A subject on which whole sources differ, beyond a single fact.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Disagreement {
    /// The subject.
    pub about: String,
    /// What each source says.
    pub differ: String,
    /// Which value was used, and why.
    pub taken: String,
    /// The sources.
    pub sources: Vec<SourceId>,
}

/// A source of facts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// The short name used in facts.
    pub id: SourceId,
    /// A title for readers.
    pub title: String,
    /// Its address, or how to find it.
    pub location: String,
    /// How the source knows its facts.
    #[serde(default)]
    pub known: Known,
    /// Whether it is a list of GPUs supported by NVIDIA's drivers.
    #[serde(default)]
    pub lists_gpus: bool,
}

/// The quality of a source, best first.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Known {
    /// Read from the artifact itself: a header, a wheel's metadata, a package index, a list shipped with a driver.
    Measured,
    /// Documented by the maker.
    Published,
    /// Reported by others: issues, packagers, copies of documentation.
    #[default]
    Reported,
    /// Inferred from facts about other releases. No source has this value; records state it in `assumed`.
    Assumed,
}

/// A compute capability.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Architecture {
    /// The number, `"9.0"`.
    pub compute_capability: ComputeCapability,
    /// The architecture, `Hopper`.
    pub name: String,
    /// The first CUDA series that targets it, if known.
    #[serde(default)]
    pub first_cuda: Option<CudaVersion>,
    /// The last CUDA series that targets it; none if the newest still does.
    #[serde(default)]
    pub last_cuda: Option<CudaVersion>,
    /// The first driver branch, if known.
    #[serde(default)]
    pub first_driver_branch: Option<u16>,
    /// The last driver branch; none if the newest still supports it.
    #[serde(default)]
    pub last_driver_branch: Option<u16>,
    /// Kernel module flavours that support it.
    pub modules: Vec<ModuleFlavour>,
    /// The embedded platform whose driver NVIDIA ships differently (`Jetson AGX Orin`).
    #[serde(default)]
    pub embedded: Option<String>,
    /// For an embedded platform: the first CUDA series whose server toolkits (sbsa) support it; none if no such series does.
    #[serde(default)]
    pub sbsa_from: Option<CudaVersion>,
    /// The only machine architecture that its GPUs are built into, if there is just one.
    #[serde(default)]
    pub only_on: Option<String>,
    /// A note for readers.
    #[serde(default)]
    pub note: Option<String>,
    /// How sources differ, and which value was used.
    #[serde(default)]
    pub disagreement: Option<String>,
    /// The sources.
    pub sources: Vec<SourceId>,
}

/// The two flavours of kernel modules in a driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum ModuleFlavour {
    /// Dual MIT/GPL licence, for GPUs with a GSP (Turing and newer).
    Open,
    /// NVIDIA's own licence, for all GPUs up to Hopper.
    Proprietary,
}

impl ModuleFlavour {
    /// The flavour required by GPUs that this one does not support.
    pub fn other(self) -> Self {
        match self {
            Self::Open => Self::Proprietary,
            Self::Proprietary => Self::Open,
        }
    }
}

/// A GPU on the PCI bus. The vendor is always NVIDIA, 10de.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gpu {
    /// PCI device id, four lower-case hexadecimal digits.
    pub device: PciDevice,
    /// The subsystem id of the only board this entry describes, `10de:1463`; none for every other board of the device.
    #[serde(default)]
    pub subsystem: Option<String>,
    /// The marketing name.
    pub name: String,
    /// The chip, `GA100`.
    pub chip: String,
    /// The name of the chip, `GA100`.
    pub architecture: String,
    /// None for chips that cannot compute, and for announced ones without a published number.
    #[serde(default)]
    pub compute_capability: Option<ComputeCapability>,
    /// Kernel module flavours that support it.
    pub modules: Vec<ModuleFlavour>,
    /// The last driver branch that supports it; none is "current". A string if it is not a current branch number (`173.14`).
    #[serde(default)]
    pub last_driver_branch: Option<String>,
    /// The oldest driver branch whose published GPU list contains it.
    #[serde(default)]
    pub first_driver_branch: Option<u16>,
    /// The newest older branch whose list is known to lack it. The branches in between were not checked.
    #[serde(default)]
    pub absent_from_branch: Option<u16>,
    /// The first release of each branch that lists it, oldest first, up to a branch that lists it from its first release on. A
    /// branch that is missing in between does not list it. Empty if not every list was read.
    #[serde(default)]
    pub listed_from: Vec<DriverVersion>,
    /// `GeForce`, `Tesla/Data Center`, …
    #[serde(default)]
    pub line: Option<String>,
    /// `PCIe`, `SXM4`, …
    #[serde(default)]
    pub form: Option<String>,
    /// The machine architecture it is built into, if it is not a separate board: `aarch64` for Grace.
    #[serde(default)]
    pub only_on: Option<String>,
    /// The name that usually means this board when several boards share it: `H100`.
    #[serde(default)]
    pub known_as: Option<String>,
    /// The board's memory, in GB as NVIDIA counts it.
    #[serde(default)]
    pub memory_gb: Option<u16>,
    /// Whether it is a laptop GPU.
    #[serde(default)]
    pub mobile: bool,
    /// Whether it can be partitioned into GPU instances (MIG).
    #[serde(default)]
    pub mig: bool,
    /// How sources differ, and which value was used.
    #[serde(default)]
    pub disagreement: Option<String>,
    /// The sources.
    pub sources: Vec<SourceId>,
}

/// A PCI device id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PciDevice(pub u16);

/// The virtual GPUs (vGPU) that guests see instead of a GPU. They have its device id and separate subsystem ids.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VirtualGpus {
    /// The PCI device id of the GPU.
    pub device: PciDevice,
    /// The subsystem ids; their vendor is NVIDIA.
    pub subsystems: Vec<PciDevice>,
    /// The sources.
    pub sources: Vec<SourceId>,
}

/// An NVSwitch bridge; its host needs what the fabric of its generation requires.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NvSwitch {
    /// PCI device id.
    pub device: PciDevice,
    /// Its name.
    pub name: String,
    /// The generation, starting with 1 (DGX-2).
    pub generation: u8,
    /// The sources.
    pub sources: Vec<SourceId>,
}

/// A kind of board on which NVSwitches connect GPUs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fabric {
    /// The NVSwitch generation, as in [`NvSwitch::generation`].
    pub generation: u8,
    /// The hosts that have it.
    pub name: String,
    /// The companions that the host needs besides the driver.
    pub needs: Vec<CompanionId>,
    /// Companions that run on other machines here, although hosts with other NVSwitches need them.
    #[serde(default)]
    pub elsewhere: Vec<CompanionId>,
    /// The GPUs on these boards.
    pub gpus: Vec<PciDevice>,
    /// The number of GPUs on a board. Boards with fewer may have no NVSwitches.
    pub gpus_per_board: usize,
    /// A text in the vital product data of the InfiniBand devices that manage the NVSwitches. If set, the switches are not on
    /// the PCI bus, and all boards with these GPUs have them.
    #[serde(default)]
    pub vital_product_data: Option<String>,
    /// Kernel modules that must be loaded.
    #[serde(default)]
    pub kernel_modules: Vec<String>,
    /// The sources.
    pub sources: Vec<SourceId>,
}

/// An Xid: the number of a GPU error that the driver reports in the kernel log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Xid {
    /// The number.
    pub xid: u16,
    /// Its name in the driver.
    pub name: String,
    /// The meaning, in one sentence.
    pub means: String,
    /// The immediate action that NVIDIA recommends.
    pub action: XidAction,
    /// The assumed parts, and why.
    #[serde(default)]
    pub assumed: Option<String>,
    /// The sources.
    pub sources: Vec<SourceId>,
}

/// An SXid: the number of an NVSwitch error that the driver reports in the kernel log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sxid {
    /// The number.
    pub sxid: u32,
    /// Its name in the driver, without the common prefix.
    pub name: String,
    /// The sources.
    pub sources: Vec<SourceId>,
}

/// The recommended action for an [`Xid`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum XidAction {
    /// Nothing, by itself.
    Nothing,
    /// Restart the program and look for the error there.
    RestartApplication,
    /// Reset the GPU.
    ResetGpu,
    /// Reboot the host.
    Reboot,
    /// Check cables, slots and power.
    CheckHardware,
    /// Update the driver or firmware.
    Update,
    /// Do what the message itself names.
    AsLogged,
    /// Follow one of NVIDIA's procedures.
    Workflow,
    /// Contact NVIDIA or the vendor.
    AskNvidia,
}

/// The support class of a driver branch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BranchKind {
    /// Long-term support branch.
    LongTerm,
    /// Production branch.
    Production,
    /// New feature branch.
    NewFeature,
    /// Kept for GPUs that newer branches no longer support.
    Legacy,
    /// No source states it.
    Unknown,
}

impl BranchKind {
    /// As it is written in the database.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::LongTerm => "long-term",
            Self::Production => "production",
            Self::NewFeature => "new-feature",
            Self::Legacy => "legacy",
            Self::Unknown => "unknown",
        }
    }
}

/// A driver branch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DriverBranch {
    /// The number of the branch, `580`.
    pub branch: u16,
    /// The support class.
    pub kind: BranchKind,
    /// The month (`2026-06`) or day when support ends, if published.
    #[serde(default)]
    pub end_of_life: Option<String>,
    /// The day of its latest known release.
    #[serde(default)]
    pub latest_release: Option<String>,
    /// The newest CUDA series that it runs natively.
    #[serde(default)]
    pub max_cuda: Option<CudaVersion>,
    /// The oldest kernel that its release notes require, `"3.10"`.
    #[serde(default)]
    pub oldest_kernel: Option<String>,
    /// The newest kernel series on which its last release was seen to build without patches, `"6.9"`.
    #[serde(default)]
    pub newest_kernel: Option<String>,
    /// Distribution kernels whose backports break its build although the kernel series did not change.
    #[serde(default)]
    pub kernel_limits: Vec<KernelLimit>,
    /// Older releases that do not build on kernels on which its last release builds.
    #[serde(default)]
    pub release_limits: Vec<ReleaseLimit>,
    /// The kernel module flavours in it.
    pub modules: Vec<ModuleFlavour>,
    /// The flavour its installer chooses if both would work.
    pub default_modules: ModuleFlavour,
    /// A note for readers.
    #[serde(default)]
    pub note: Option<String>,
    /// How sources differ, and which value was used.
    #[serde(default)]
    pub disagreement: Option<String>,
    /// The assumed parts, and why they could not be measured.
    #[serde(default)]
    pub assumed: Option<String>,
    /// The sources.
    pub sources: Vec<SourceId>,
}

/// The first kernel of a distribution on which the modules of a branch's last release do not build without patches.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KernelLimit {
    /// The distribution's part of the kernel release, without its minor release: `el9`.
    pub distribution: String,
    /// The first kernel on which the build fails, `"5.14.0-570"`.
    pub from: String,
    /// The sources.
    pub sources: Vec<SourceId>,
}

/// The first kernel series on which the modules of a branch's older releases do not build without patches.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReleaseLimit {
    /// The last affected release.
    pub up_to: DriverVersion,
    /// The affected flavour of its modules.
    pub modules: ModuleFlavour,
    /// The first kernel series on which the build fails, `"7.2"`.
    pub from: String,
    /// The sources.
    pub sources: Vec<SourceId>,
}

/// NVIDIA's label for a driver release.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Maturity {
    /// For everyone.
    Production,
    /// For everyone, from a legacy branch.
    Legacy,
    /// For data centres.
    Datacenter,
    /// From a new feature branch.
    NewFeature,
    /// A beta.
    Beta,
    /// For Vulkan developers.
    VulkanBeta,
    /// Never released separately, only inside a CUDA runfile.
    CudaRunfileOnly,
    /// No source states it.
    Unknown,
}

/// A driver release and its artifacts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DriverRelease {
    /// The version.
    pub version: DriverVersion,
    /// The release day.
    #[serde(default)]
    pub date: Option<String>,
    /// NVIDIA's label.
    pub maturity: Maturity,
    /// The published files.
    pub artifacts: Vec<DriverArtifact>,
}

/// The kind of a driver download.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DriverVariant {
    /// The runfile.
    Full,
    /// The runfile without 32-bit libraries.
    NoCompat32,
    /// For vGPU guests.
    Grid,
    /// For vGPU guests on Google Cloud.
    GridGcp,
    /// A plain archive.
    RedistArchive,
    /// Inside a CUDA runfile.
    ExtractedFromCudaRunfile,
    /// A companion of this driver.
    Companion(CompanionId),
}

/// A file of a driver release.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DriverArtifact {
    /// The kind.
    pub variant: DriverVariant,
    /// The file.
    pub artifact: Artifact,
}

/// A file that can be downloaded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Artifact {
    /// The architecture: `x86_64`, `sbsa`, `aarch64`, `ppc64le`, …
    pub arch: String,
    /// The name of the file.
    pub file: String,
    /// Its URL; none if only the name is known.
    #[serde(default)]
    pub url: Option<String>,
    /// The SHA-256 in lower-case hexadecimal. A file without one is never used.
    #[serde(default)]
    pub sha256: Option<String>,
    /// The size in bytes.
    #[serde(default)]
    pub size: Option<u64>,
    /// The number of independent sources for this checksum.
    #[serde(default)]
    pub agree: u8,
    /// A note for readers: a name that is only expected, …
    #[serde(default)]
    pub note: Option<String>,
    /// How sources differ, and which value was used.
    #[serde(default)]
    pub disagreement: Option<String>,
    /// The sources.
    pub sources: Vec<SourceId>,
}

/// A CUDA release and its requirements.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CudaRelease {
    /// The release.
    pub version: CudaVersion,
    /// The month or day of the release.
    #[serde(default)]
    pub date: Option<String>,
    /// The oldest driver that runs its programs (since 11 by minor-version compatibility).
    pub minimum_driver: DriverVersion,
    /// The driver it was built with, required for PTX and its newest features.
    #[serde(default)]
    pub native_driver: Option<DriverVersion>,
    /// The lowest compute capability that it targets.
    pub lowest_capability: ComputeCapability,
    /// The highest compute capability that it targets.
    pub highest_capability: ComputeCapability,
    /// The major version of the oldest gcc that its nvcc accepts.
    #[serde(default)]
    pub gcc_min: Option<u16>,
    /// The major version of the newest gcc that its nvcc accepts.
    #[serde(default)]
    pub gcc_max: Option<u16>,
    /// The newest clang that its nvcc accepts, `"19"` or `"3.9"`.
    #[serde(default)]
    pub clang_max: Option<String>,
    /// The oldest C library that its programs run on, `"2.27"`.
    #[serde(default)]
    pub glibc_min: Option<String>,
    /// The first C library that its headers do not compile with.
    #[serde(default)]
    pub glibc_breaks_from: Option<String>,
    /// The same on aarch64, if it is older there: glibc 2.38 declares vector types that nvcc before 12.5 does not know.
    #[serde(default)]
    pub glibc_breaks_from_sbsa: Option<String>,
    /// The version that `nvcc --version` prints, `12.8.93`.
    #[serde(default)]
    pub nvcc: Option<String>,
    /// A note for readers.
    #[serde(default)]
    pub note: Option<String>,
    /// The assumed parts, and why they could not be measured.
    #[serde(default)]
    pub assumed: Option<String>,
    /// The sources.
    pub sources: Vec<SourceId>,
}

impl CudaRelease {
    /// The first glibc that its headers do not compile with, on `sbsa`, `x86_64` or `ppc64le`.
    pub fn first_breaking_glibc(&self, arch: &str) -> Option<&str> {
        let of_arch = self.glibc_breaks_from_sbsa.as_deref().filter(|_| arch == "sbsa");
        of_arch.or(self.glibc_breaks_from.as_deref())
    }
}

/// A runfile of a CUDA release.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CudaArtifact {
    /// The release.
    pub version: CudaVersion,
    /// The driver inside; none since 13.4.
    #[serde(default)]
    pub bundled_driver: Option<DriverVersion>,
    /// The file.
    pub artifact: Artifact,
}

/// A host compiler that some CUDA releases do not support.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CompilerLimit {
    /// `gcc` or `clang`.
    pub compiler: String,
    /// The unsupported versions, in the source's notation: `"12:"` is 12 and newer, `":4"` up to 4.
    pub excluded: String,
    /// The CUDA releases, in the same notation.
    pub cuda: String,
    /// The only machine architecture affected; none for all.
    #[serde(default)]
    pub arch: Option<String>,
    /// The sources.
    pub sources: Vec<SourceId>,
}

/// A distribution release: its package names and what its repositories offer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Distribution {
    /// `ID` of os-release.
    pub id: String,
    /// `VERSION_ID` of os-release: only up to the first dot if the distribution counts that way (`"9"` for Rocky 9.6),
    /// otherwise whole (`"24.04"`). `"*"` stands for every release without a record.
    pub version: String,
    /// The name for readers.
    pub name: String,
    /// The package manager.
    pub package_manager: PackageManager,
    /// The initramfs tool of a standard installation.
    pub initramfs: InitramfsTool,
    /// The C library, `"2.36"`.
    #[serde(default)]
    pub glibc: Option<String>,
    /// The major version of the default gcc.
    #[serde(default)]
    pub gcc: Option<u16>,
    /// The headers of one kernel; `{release}` stands for `uname -r`, `{flavour}` for the part after its last dash, and
    /// `{version}` for the part before.
    pub headers: Vec<String>,
    /// The meta-packages that follow the distribution's kernels, by the ending of the kernel's release (`-generic`,
    /// `-cloud-amd64`). The one with an empty ending applies to all others.
    #[serde(default)]
    pub header_metas: Vec<HeaderMeta>,
    /// Whether its repositories keep only the headers of the newest kernels.
    #[serde(default)]
    pub drops_old_headers: bool,
    /// The package with libxml2.so.2, which the installer in CUDA's runfiles loads. None if no package has it, or if it is
    /// unknown.
    #[serde(default)]
    pub libxml2: Option<String>,
    /// The packages with modules of one kernel that a driver's modules depend on, if the kernel's own package lacks them; named
    /// with the same placeholders as the headers.
    #[serde(default)]
    pub kernel_modules: Vec<String>,
    /// The packages with modules of one kernel that NVSwitches need ([`Fabric::kernel_modules`]), if the kernel's own package lacks
    /// them; named in the same way.
    #[serde(default)]
    pub fabric_modules: Vec<String>,
    /// DKMS, and the packages needed to build a module with it.
    pub build_tools: Vec<String>,
    /// Repositories with some of these packages that are not enabled by default.
    #[serde(default)]
    pub extra_repositories: Vec<ExtraRepository>,
    /// The default C++ compiler with the headers of its library.
    #[serde(default)]
    pub gxx: Option<String>,
    /// The package of gcc in one major version; `{major}` stands for it. None if only the default one is packaged.
    #[serde(default)]
    pub gcc_package: Option<String>,
    /// The package of the C++ compiler, in the same form.
    #[serde(default)]
    pub gxx_package: Option<String>,
    /// The major versions that both exist for, oldest first; empty if no source states them.
    #[serde(default)]
    pub gccs: Vec<u16>,
    /// For a record that stands for releases the database does not know: the release whose package names it uses.
    #[serde(default)]
    pub named_as: Option<String>,
    /// NVIDIA driver packages in its repositories, preferred ones first.
    #[serde(default)]
    #[serde(serialize_with = "export::offers")]
    pub drivers: Vec<DriverOffer>,
    /// The repository that gpusetup can add for companions that the driver's repository lacks: the id of a
    /// [`PackageRepository`].
    #[serde(default)]
    pub companion_repository: Option<String>,
    /// A host on which only the system was installed; none if no source states its kernel.
    #[serde(default)]
    pub stock: Option<StockSystem>,
    /// A note for readers.
    #[serde(default)]
    pub note: Option<String>,
    /// The sources.
    pub sources: Vec<SourceId>,
}

/// What a host has on which a distribution was installed and nothing else. It serves plans without a host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StockSystem {
    /// The kernel, as printed by `uname -r`, by machine architecture as printed by `uname -m`.
    pub kernels: BTreeMap<String, String>,
    /// `VERSION_ID` of the release that has these kernels, where it has more than the record's version: `"9.6"`.
    #[serde(default)]
    pub release: Option<String>,
    /// Other names of the distribution: `al` for Amazon Linux.
    #[serde(default)]
    pub aliases: Vec<String>,
    /// The enabled repositories, one line each as in the host's facts: address, suite and components.
    pub repositories: Vec<String>,
    /// The sources of the kernels.
    pub sources: Vec<SourceId>,
}

impl Distribution {
    /// The packages with the headers of a kernel, `uname -r`.
    pub fn headers_of(&self, release: &str, arch: &str) -> impl Iterator<Item = String> {
        let own = self.header_meta(release, arch).map(|meta| &meta.headers).filter(|own| !own.is_empty());
        own.unwrap_or(&self.headers).iter().map(|name| of_kernel(name, release))
    }

    /// The packages with modules of a kernel, `uname -r`, that a driver's modules depend on.
    pub fn modules_of(&self, release: &str, arch: &str) -> impl Iterator<Item = String> {
        let own = self.header_meta(release, arch).map(|meta| &meta.kernel_modules).filter(|own| !own.is_empty());
        own.unwrap_or(&self.kernel_modules).iter().map(|name| of_kernel(name, release))
    }

    /// The packages with modules of a kernel that NVSwitches need.
    pub fn fabric_modules_of(&self, release: &str) -> impl Iterator<Item = String> {
        self.fabric_modules.iter().map(|name| of_kernel(name, release))
    }

    /// The record of the headers meta-package for such a kernel.
    pub fn following(&self, release: &str, arch: &str) -> Option<String> {
        self.header_meta(release, arch).map(|meta| of_kernel(&meta.package, release))
    }

    /// The meta-package for the headers of such a kernel. The longest ending wins: -cloud-amd64 before -amd64 before none; then
    /// the one for the kernel's series.
    pub fn header_meta(&self, release: &str, arch: &str) -> Option<&HeaderMeta> {
        let is_of_series = |series: &String| release.strip_prefix(series.as_str()).is_some_and(|r| r.starts_with('.'));
        let is_its = |m: &&HeaderMeta| {
            release.ends_with(&m.kernel)
                && m.arch.as_deref().is_none_or(|wanted| wanted == arch)
                && m.series.as_ref().is_none_or(is_of_series)
        };
        self.header_metas.iter().filter(is_its).max_by_key(|m| (m.kernel.len(), m.series.is_some()))
    }
}

/// The name of a kernel's package: `kernel-devel-{release}`.
fn of_kernel(name: &str, release: &str) -> String {
    let (version, flavour) = release.rsplit_once('-').unwrap_or((release, ""));
    name.replace("{release}", release).replace("{version}", version).replace("{flavour}", flavour)
}

/// A repository that must be enabled first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExtraRepository {
    /// Its name for readers, `EPEL`.
    pub name: String,
    /// The packages found only there.
    pub packages: Vec<String>,
    /// Marks of an enabled repository, as in [`Repository::seen_as`]; one is enough.
    pub seen_as: Vec<String>,
    /// The command that enables it; `{version}` and `{arch}` stand for the host's values.
    pub enable: String,
    /// The sources.
    pub sources: Vec<SourceId>,
}

/// Package managers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum PackageManager {
    /// apt-get and dpkg.
    Apt,
    /// dnf and rpm.
    Dnf,
    /// tdnf and rpm. Its commands are dnf's, but not all of its options: it ignores `--setopt=tsflags=test` and installs.
    Tdnf,
    /// zypper and rpm.
    Zypper,
}

/// The tools that build an initramfs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum InitramfsTool {
    /// Debian's and Ubuntu's.
    UpdateInitramfs,
    /// Red Hat's, SUSE's and newer Ubuntu's.
    Dracut,
    /// Arch Linux's.
    Mkinitcpio,
}

/// A meta-package of kernel headers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeaderMeta {
    /// The ending of the kernel's release.
    pub kernel: String,
    /// The only series it follows, `"6.8"`; none for every series without a separate one.
    #[serde(default)]
    pub series: Option<String>,
    /// The machine architecture (`x86_64`, `aarch64`, `ppc64le`); none for all.
    #[serde(default)]
    pub arch: Option<String>,
    /// The package. If only the package of one kernel version avoids a kernel upgrade, it is named with the placeholders of the
    /// headers.
    pub package: String,
    /// The headers of one such kernel, if their name differs from that of the distribution's other kernels.
    #[serde(default)]
    pub headers: Vec<String>,
    /// The same for [`Distribution::kernel_modules`].
    #[serde(default)]
    pub kernel_modules: Vec<String>,
}

/// A driver offered by a repository.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DriverOffer {
    /// The branch.
    pub branch: u16,
    /// The version last seen there; none if no source states it.
    #[serde(default)]
    pub version: Option<DriverVersion>,
    /// The flavour.
    pub modules: ModuleFlavour,
    /// The machine architectures.
    pub archs: Vec<String>,
    /// The repository.
    pub repository: Repository,
    /// The packages for a host that only computes: the kernel modules, then libcuda, then the rest. The first two have the same
    /// version.
    pub packages: Vec<String>,
    /// The packages for a host with a desktop, with graphics. Empty if `packages` serves both.
    #[serde(default)]
    pub desktop_packages: Vec<String>,
    /// The packages, in the same repository, of companions whose version follows the driver's. A host that needs any other such
    /// companion cannot use this offer.
    #[serde(default)]
    pub companions: BTreeMap<CompanionId, String>,
    /// The newest kernel series on which the packages build, `"7.0"`. None if they follow the distribution's kernels.
    #[serde(default)]
    pub newest_kernel: Option<String>,
    /// The name of its kernel module, if it is not `nvidia`: Debian's is `nvidia-current`.
    #[serde(default)]
    pub kernel_module: Option<String>,
    /// The module stream to enable first (dnf), `nvidia-driver:580-dkms`.
    #[serde(default)]
    pub module_stream: Option<String>,
    /// The sources.
    pub sources: Vec<SourceId>,
}

impl DriverOffer {
    /// The packages for a host with or without a desktop.
    pub fn packages_for(&self, desktop: bool) -> &[String] {
        if desktop && !self.desktop_packages.is_empty() { &self.desktop_packages } else { &self.packages }
    }

    /// Those of the packages that have the driver's version: its kernel modules and libraries.
    pub fn versioned_packages(&self, desktop: bool) -> &[String] {
        let all = self.packages_for(desktop);
        &all[..all.len().min(2)]
    }
}

/// A package repository, and how to detect that a host has it enabled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Repository {
    /// The name for readers: `Debian non-free`, `NVIDIA's network repository`.
    pub name: String,
    /// Marks of an enabled repository; one is enough. For apt a component of the distribution's own archive, `non-free`, or a
    /// suite and a component; otherwise part of the repository's name or address. Empty: always enabled.
    #[serde(default)]
    pub seen_as: Vec<String>,
    /// The repository that gpusetup can add if it is not enabled: the id of a [`PackageRepository`].
    #[serde(default)]
    pub adds: Option<String>,
}
