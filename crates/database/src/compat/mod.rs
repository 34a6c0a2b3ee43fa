//! The compatibility database: what works with what (`compat/`), and what can be downloaded (`manifests/`). These are
//! its types, which are at once the shape of the YAML files and of the compact form in the binary. Pure: no file is
//! opened here except by [`load`], and nothing here decides anything; `resolve` does.

mod add_on;
mod check;
mod companion;
mod component;
mod export;
mod gpu_name;
mod load;
mod machine;
mod problem;
mod query;
mod short_name;
mod tally;

pub use add_on::{
    AddOn, AddOnArtifact, AddOnId, AddOnIdError, AddOnRange, CallForm, Layout, Place, VersionCall, VersionCode,
};
pub use check::check;
pub use companion::{Companion, CompanionId, CompanionIdError, CompanionPackage, VersionRule};
pub use component::{Component, ComponentArchive, ComponentNeed, ComponentRelease, ReleasedComponent, short};
pub use export::Export;
pub use gpu_name::Ambiguous;
pub use load::{LoadError, Misshapen, files, load, parse};
pub use machine::{Instance, Provider, System};
pub use problem::Problem;
pub use query::framework_and_version;
pub use tally::Tally;

use crate::version::{AddOnVersion, ComputeCapability, CudaVersion, DriverVersion};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// This project's own facts.
#[cfg(test)]
fn known() -> &'static Database {
    static KNOWN: std::sync::LazyLock<Database> = std::sync::LazyLock::new(|| {
        load(std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")))
            .expect("the project's facts are right")
    });
    &KNOWN
}

/// A key of [`Database::sources`]: every fact names where it is published.
pub type SourceId = String;

/// Everything gpusetup knows of the field.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Database {
    /// The day of the newest change, `2026.11.20`.
    pub version: String,
    /// SHA-256, in lower-case hexadecimal, over all files in the order of their names.
    pub sha256: String,
    /// Where facts come from.
    pub sources: Vec<Source>,
    /// Compute capabilities, oldest first.
    pub architectures: Vec<Architecture>,
    /// GPUs in the order of PCI id, the entry for every board of a device before those for one board.
    pub gpus: Vec<Gpu>,
    /// Virtual GPUs, in the order of PCI id.
    pub virtual_gpus: Vec<VirtualGpus>,
    /// NVSwitch bridges.
    pub nvswitches: Vec<NvSwitch>,
    /// Instance types of cloud providers.
    pub instances: Vec<Instance>,
    /// NVIDIA's systems and boards.
    pub systems: Vec<System>,
    /// How NVSwitches join GPUs, and what hosts need for that.
    pub fabrics: Vec<Fabric>,
    /// Packages that go with the driver.
    pub companions: Vec<Companion>,
    /// Numbers of GPU errors in the kernel log.
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
    /// The parts of toolkits that can be had alone.
    pub components: Vec<Component>,
    /// What components need of each other.
    pub component_needs: Vec<ComponentNeed>,
    /// Component archives of CUDA releases, newest first.
    pub component_releases: Vec<ComponentRelease>,
    /// Libraries that go into a toolkit, those that plans have by default first.
    pub add_ons: Vec<AddOn>,
    /// What their releases need, by add-on and then newest first.
    pub add_on_ranges: Vec<AddOnRange>,
    /// Archives of their releases, by add-on and then newest first.
    pub add_on_artifacts: Vec<AddOnArtifact>,
    /// Host compilers that nvcc refuses.
    pub compiler_limits: Vec<CompilerLimit>,
    /// Distributions: package names and what their repositories offer.
    pub distributions: Vec<Distribution>,
    /// What frameworks are built with.
    pub frameworks: Vec<Framework>,
    /// Systems that NVIDIA's installation guides list, newest CUDA first.
    pub cuda_guides: Vec<CudaGuide>,
    /// User-space drivers for older kernel modules, newest CUDA first.
    pub forward_compatibility: Vec<ForwardCompatibility>,
    /// What packages were called before a release, and from it on.
    pub renames: Vec<Rename>,
    /// GPU instances that cards can be cut into.
    pub mig_profiles: Vec<MigProfile>,
    /// On what whole sources differ.
    pub disagreements: Vec<Disagreement>,
}

/// The systems that NVIDIA's installation guide of a CUDA series lists.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CudaGuide {
    /// The series.
    pub cuda: CudaVersion,
    /// All that it lists is here; where not, absence says nothing.
    pub complete: bool,
    /// What it lists.
    pub systems: Vec<GuideSystem>,
    /// Where this is published.
    pub sources: Vec<SourceId>,
}

/// A system that a guide lists.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GuideSystem {
    /// `ID` of os-release.
    pub id: String,
    /// Its version, up to the point release that was tried.
    pub version: String,
    /// The machine architecture, as CUDA's artifacts call it.
    pub arch: String,
    /// The kernel.
    #[serde(default)]
    pub kernel: Option<String>,
    /// The default gcc.
    #[serde(default)]
    pub gcc: Option<String>,
    /// The C library.
    #[serde(default)]
    pub glibc: Option<String>,
}

/// A package that brings the user-space driver of a newer branch to kernel modules of an older one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ForwardCompatibility {
    /// The CUDA series whose programs it lets run.
    pub cuda: CudaVersion,
    /// `cuda-compat-13-0`.
    pub package: String,
    /// The branch of the user-space driver in it, where published.
    #[serde(default)]
    pub driver_branch: Option<u16>,
    /// The branches of kernel modules that it works with.
    pub base_branches: Vec<u16>,
    /// Where this is published.
    pub sources: Vec<SourceId>,
}

/// What a package or a module is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// The open kernel modules, by the name that DKMS knows them by.
    OpenDkmsModule,
}

/// A change of name, in NVIDIA's own repositories.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rename {
    /// Of what.
    pub role: Role,
    /// Where names differ by package manager: of which one.
    #[serde(default)]
    pub package_manager: Option<PackageManager>,
    /// The name up to then; `{branch}` stands for the driver's branch.
    pub before: String,
    /// The first driver release of the new name.
    pub from: DriverVersion,
    /// The name since.
    pub after: String,
    /// Where this is published.
    pub sources: Vec<SourceId>,
}

/// A kind of GPU instance.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MigProfile {
    /// The cards that have it.
    pub gpus: Vec<PciDevice>,
    /// `1g.10gb+me`.
    pub name: String,
    /// Slices of the SMs.
    pub compute_slices: u8,
    /// Slices of the memory, where published.
    #[serde(default)]
    pub memory_slices: Option<u8>,
    /// The most that one card can have of it.
    pub instances: u8,
    /// The first driver branch that offers it, where it came later than the card.
    #[serde(default)]
    pub first_driver_branch: Option<u16>,
    /// On what sources differ, and what was taken.
    #[serde(default)]
    pub disagreement: Option<String>,
    /// Where this is published.
    pub sources: Vec<SourceId>,
}

/// A framework that brings its own wishes for CUDA and cuDNN.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Framework {
    /// What a user calls it, and pip: `torch`.
    pub name: String,
    /// What people call it: `PyTorch`.
    pub title: String,
    /// Other names.
    #[serde(default)]
    pub aliases: Vec<String>,
    /// The framework whose CUDA its own has to match: what `torch` is to an extension of it. A request has to name both.
    #[serde(default)]
    pub beside: Option<String>,
    /// Its releases, newest first.
    pub releases: Vec<FrameworkRelease>,
}

/// A release of a framework, or all of a series.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FrameworkRelease {
    /// `2.9` is every 2.9.x.
    pub version: String,
    /// What it is built with; the first is what a plain `pip install` gets.
    pub builds: Vec<FrameworkBuild>,
    /// The oldest glibc that its wheels on PyPI load with, by machine architecture. Left out up to 2.17, which every system has.
    #[serde(default)]
    pub glibc_min: BTreeMap<String, String>,
    /// The machine architectures whose wheels on PyPI have no CUDA. Builds for them come from the project's own index.
    #[serde(default)]
    pub cpu_only: Vec<String>,
    /// Where this is published.
    pub sources: Vec<SourceId>,
}

/// What a build of a framework needs from the host beside the driver.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FrameworkNeeds {
    /// The toolkit's libraries.
    #[default]
    Libraries,
    /// The whole toolkit: it is compiled on the host.
    Compiler,
    /// Nothing: it brings the parts of CUDA that it uses.
    Driver,
}

/// A build of a framework.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FrameworkBuild {
    /// The CUDA series that it is made with; if no source names one, the first that it runs with.
    pub cuda: CudaVersion,
    /// The first CUDA series that it runs with. It then runs with every newer one of the same major version, too; without this, with the
    /// one that it is made with.
    #[serde(default)]
    pub cuda_min: Option<CudaVersion>,
    /// The first CUDA release whose nvcc and ptxas it accepts, if that is newer.
    #[serde(default)]
    pub nvcc_min: Option<CudaVersion>,
    /// What it needs from the host.
    #[serde(default)]
    pub needs: FrameworkNeeds,
    /// The machine architectures that it is published for; empty for all.
    #[serde(default)]
    pub architectures: Vec<String>,
    /// The cuDNN that it is made with.
    #[serde(default)]
    pub cudnn: Option<AddOnVersion>,
    /// The first cuDNN that it runs with, as for CUDA; without this, it gets the minor version that it is made with.
    #[serde(default)]
    pub cudnn_min: Option<AddOnVersion>,
    /// The lowest compute capability that it has kernels for.
    #[serde(default)]
    pub lowest_capability: Option<ComputeCapability>,
    /// The capability of its newest kernels, where it has no PTX: a GPU of a later major version does not run them.
    #[serde(default)]
    pub highest_capability: Option<ComputeCapability>,
    /// Major versions between these two that it has neither kernels nor PTX for.
    #[serde(default)]
    pub without_kernels_for: Vec<u8>,
    /// The same of single capabilities: kernels for 10.0a do not run on 10.3.
    #[serde(default)]
    pub without_capabilities: Vec<ComputeCapability>,
    /// What does not work on some of the GPUs that it has kernels for.
    #[serde(default)]
    pub cautions: Vec<Caution>,
    /// What a reader should know.
    #[serde(default)]
    pub note: Option<String>,
}

/// What a user of newer GPUs should know of a build before it is installed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Caution {
    /// The lowest compute capability that it is about.
    pub from: ComputeCapability,
    /// A sentence without an end, such as `kernels are compiled at the first start`.
    pub text: String,
}

impl FrameworkBuild {
    /// The first CUDA series that it runs with.
    pub fn first_cuda(&self) -> CudaVersion {
        self.cuda_min.unwrap_or(self.cuda).series()
    }

    /// The first toolkit that serves it, with its compiler.
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

    /// Whether a GPU runs its kernels.
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

    /// The first cuDNN that it runs with, if it uses cuDNN and a source names a version.
    pub fn first_cudnn(&self) -> Option<AddOnVersion> {
        self.cudnn_min.or(self.cudnn)
    }
}

/// Something on which whole sources differ, rather than on one fact.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Disagreement {
    /// On what.
    pub about: String,
    /// What each says.
    pub differ: String,
    /// What was taken, and why.
    pub taken: String,
    /// The sources.
    pub sources: Vec<SourceId>,
}

/// Where facts are published.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// The short name that facts use.
    pub id: SourceId,
    /// What it is, for a person.
    pub title: String,
    /// Its address or how to find it.
    pub location: String,
    /// How it came by what it says.
    #[serde(default)]
    pub known: Known,
    /// Whether it is a list of the GPUs that NVIDIA's drivers know.
    #[serde(default)]
    pub lists_gpus: bool,
}

/// How a fact is known, strongest first.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Known {
    /// Read from the artifact itself: a header, a wheel's metadata, a package index, a list that a driver ships.
    Measured,
    /// Documented by those who make it.
    Published,
    /// Told by others: issues, packagers, copies of documentation.
    #[default]
    Reported,
    /// Concluded from facts about other releases. No source is ever this; records say it in `assumed`.
    Assumed,
}

/// One compute capability.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Architecture {
    /// The number, `"9.0"`.
    pub compute_capability: ComputeCapability,
    /// The family, `Hopper`.
    pub name: String,
    /// The first CUDA series that targets it, where known.
    #[serde(default)]
    pub first_cuda: Option<CudaVersion>,
    /// The last one; none means that the newest still does.
    #[serde(default)]
    pub last_cuda: Option<CudaVersion>,
    /// The first driver branch, where known.
    #[serde(default)]
    pub first_driver_branch: Option<u16>,
    /// The last driver branch; none means that the newest still does.
    #[serde(default)]
    pub last_driver_branch: Option<u16>,
    /// Kernel module flavours that run it.
    pub modules: Vec<ModuleFlavour>,
    /// An embedded platform whose driver NVIDIA ships another way (`Jetson AGX Orin`).
    #[serde(default)]
    pub embedded: Option<String>,
    /// Of an embedded platform: the first CUDA series whose toolkits for servers (sbsa) serve it; none is no such series.
    #[serde(default)]
    pub sbsa_from: Option<CudaVersion>,
    /// The machine architecture that all its GPUs are built into, where it is one.
    #[serde(default)]
    pub only_on: Option<String>,
    /// What a reader should know.
    #[serde(default)]
    pub note: Option<String>,
    /// On what sources differ, and what was taken.
    #[serde(default)]
    pub disagreement: Option<String>,
    /// Where this is published.
    pub sources: Vec<SourceId>,
}

/// The two sets of kernel modules that a driver may come with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum ModuleFlavour {
    /// Dual MIT/GPL, for GPUs with a GSP (Turing and newer).
    Open,
    /// NVIDIA's own licence, for every GPU up to Hopper.
    Proprietary,
}

impl ModuleFlavour {
    /// What a GPU needs that this one does not run.
    pub fn other(self) -> Self {
        match self {
            Self::Open => Self::Proprietary,
            Self::Proprietary => Self::Open,
        }
    }
}

/// A GPU on the PCI bus. The vendor is always NVIDIA's, 10de.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gpu {
    /// PCI device id, four lower-case hexadecimal digits.
    pub device: PciDevice,
    /// The one board that this entry is about, `10de:1463`; none is every other board of the device.
    #[serde(default)]
    pub subsystem: Option<String>,
    /// The marketing name.
    pub name: String,
    /// The chip, `GA100`.
    pub chip: String,
    /// The family, `Ampere`.
    pub architecture: String,
    /// None for chips that cannot compute, and for announced ones whose number is not published.
    #[serde(default)]
    pub compute_capability: Option<ComputeCapability>,
    /// Kernel module flavours that run it.
    pub modules: Vec<ModuleFlavour>,
    /// The last driver branch that knows it; none is "current". Text where it is no branch number of today (`173.14`).
    #[serde(default)]
    pub last_driver_branch: Option<String>,
    /// The oldest driver branch whose list of GPUs, as NVIDIA ships it, has it.
    #[serde(default)]
    pub first_driver_branch: Option<u16>,
    /// The newest older branch whose list was read and lacks it: between the two nobody looked.
    #[serde(default)]
    pub absent_from_branch: Option<u16>,
    /// The first release of each branch that lists it, oldest first, up to a branch that lists it from its first release
    /// on. A branch between them that is missing does not list it. Empty if not every list was read.
    #[serde(default)]
    pub listed_from: Vec<DriverVersion>,
    /// `GeForce`, `Tesla/Data Center`, …
    #[serde(default)]
    pub line: Option<String>,
    /// `PCIe`, `SXM4`, …
    #[serde(default)]
    pub form: Option<String>,
    /// The machine architecture that it is built into, if it is not a separate board: Grace's is `aarch64`.
    #[serde(default)]
    pub only_on: Option<String>,
    /// What people mean by this name alone, of several boards that have it: `H100`.
    #[serde(default)]
    pub known_as: Option<String>,
    /// Memory of the board, in GB as NVIDIA counts it.
    #[serde(default)]
    pub memory_gb: Option<u16>,
    /// For laptops.
    #[serde(default)]
    pub mobile: bool,
    /// Can be partitioned into GPU instances.
    #[serde(default)]
    pub mig: bool,
    /// On what sources differ, and what was taken.
    #[serde(default)]
    pub disagreement: Option<String>,
    /// Where this is published.
    pub sources: Vec<SourceId>,
}

/// A PCI device id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PciDevice(pub u16);

/// The virtual GPUs (vGPU) that guests see in place of a GPU. They have its device id, and subsystems of their own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VirtualGpus {
    /// The PCI device id of the GPU.
    pub device: PciDevice,
    /// The subsystem ids, whose vendor is NVIDIA.
    pub subsystems: Vec<PciDevice>,
    /// Where this is published.
    pub sources: Vec<SourceId>,
}

/// A bridge of NVIDIA's that joins GPUs; a host that has one needs what the fabric of its generation does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NvSwitch {
    /// PCI device id.
    pub device: PciDevice,
    /// What it is.
    pub name: String,
    /// The generation, from 1 (DGX-2) on.
    pub generation: u8,
    /// Where this is published.
    pub sources: Vec<SourceId>,
}

/// GPUs that NVSwitches join.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fabric {
    /// The generation of the NVSwitches, as [`NvSwitch::generation`].
    pub generation: u8,
    /// What hosts have it.
    pub name: String,
    /// What the host needs beside the driver.
    pub needs: Vec<CompanionId>,
    /// What runs on other machines, though hosts with other NVSwitches need it.
    #[serde(default)]
    pub elsewhere: Vec<CompanionId>,
    /// The GPUs that boards with these NVSwitches have.
    pub gpus: Vec<PciDevice>,
    /// How many of them a board has. Fewer may be on boards without NVSwitches.
    pub gpus_per_board: usize,
    /// What the vital product data of an InfiniBand device contains that manages the NVSwitches. Then they are not on the PCI
    /// bus, and all boards of these GPUs have them.
    #[serde(default)]
    pub vital_product_data: Option<String>,
    /// Kernel modules that must be loaded.
    #[serde(default)]
    pub kernel_modules: Vec<String>,
    /// Where this is published.
    pub sources: Vec<SourceId>,
}

/// A number that the driver gives a GPU's error in the kernel log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Xid {
    /// The number.
    pub xid: u16,
    /// Its name in the driver.
    pub name: String,
    /// What it says, in a sentence.
    pub means: String,
    /// What NVIDIA says to do at once.
    pub action: XidAction,
    /// Which of this is assumed, and why.
    #[serde(default)]
    pub assumed: Option<String>,
    /// Where this is published.
    pub sources: Vec<SourceId>,
}

/// A number that the driver gives an NVSwitch's error in the kernel log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sxid {
    /// The number.
    pub sxid: u32,
    /// Its name in the driver, without the prefix that all have.
    pub name: String,
    /// Where this is published.
    pub sources: Vec<SourceId>,
}

/// What is to be done about an [`Xid`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum XidAction {
    /// Nothing, on its own.
    Nothing,
    /// Start the program again, and look for the fault there.
    RestartApplication,
    /// Reset the GPU.
    ResetGpu,
    /// Boot the host.
    Reboot,
    /// Look at cables, slots and power.
    CheckHardware,
    /// Update driver or firmware.
    Update,
    /// Go through a procedure of NVIDIA's.
    Workflow,
    /// Ask NVIDIA, or who sold it.
    AskNvidia,
}

/// How long NVIDIA cares for a driver branch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BranchKind {
    /// Long-term support branch.
    LongTerm,
    /// Production branch.
    Production,
    /// New feature branch.
    NewFeature,
    /// Kept alive only for GPUs that newer branches dropped.
    Legacy,
    /// No source says which.
    Unknown,
}

/// A driver branch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DriverBranch {
    /// The number of the branch, `580`.
    pub branch: u16,
    /// How long it is cared for.
    pub kind: BranchKind,
    /// The month (`2026-06`) or day in which its life ends, where published.
    #[serde(default)]
    pub end_of_life: Option<String>,
    /// The day of its last release known.
    #[serde(default)]
    pub latest_release: Option<String>,
    /// The newest CUDA series that it runs natively.
    #[serde(default)]
    pub max_cuda: Option<CudaVersion>,
    /// The oldest kernel that its release notes ask for, `"3.10"`.
    #[serde(default)]
    pub oldest_kernel: Option<String>,
    /// The newest kernel series that its last release was seen to build on without patches, `"6.9"`.
    #[serde(default)]
    pub newest_kernel: Option<String>,
    /// Kernels of distributions that changed what it builds on without changing the series.
    #[serde(default)]
    pub kernel_limits: Vec<KernelLimit>,
    /// Releases that do not build on kernels that its last release builds on.
    #[serde(default)]
    pub release_limits: Vec<ReleaseLimit>,
    /// Kernel module flavours that it comes with.
    pub modules: Vec<ModuleFlavour>,
    /// What its installer takes when both would do.
    pub default_modules: ModuleFlavour,
    /// What a reader should know.
    #[serde(default)]
    pub note: Option<String>,
    /// On what sources differ, and what was taken.
    #[serde(default)]
    pub disagreement: Option<String>,
    /// Which of this is assumed, and why it could not be measured.
    #[serde(default)]
    pub assumed: Option<String>,
    /// Where this is published.
    pub sources: Vec<SourceId>,
}

/// From which kernel of a distribution on the modules of a branch's last release do not build without patches.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KernelLimit {
    /// The distribution's part of a kernel release, without its minor release: `el9`.
    pub distribution: String,
    /// The first kernel that fails, `"5.14.0-570"`.
    pub from: String,
    /// Where this is published.
    pub sources: Vec<SourceId>,
}

/// From which kernel series on the modules of a branch's older releases do not build without patches.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReleaseLimit {
    /// The last release that this holds for.
    pub up_to: DriverVersion,
    /// The flavour of its modules.
    pub modules: ModuleFlavour,
    /// The first kernel series that fails, `"7.2"`.
    pub from: String,
    /// Where this is published.
    pub sources: Vec<SourceId>,
}

/// What NVIDIA calls a driver release.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Maturity {
    /// For everybody.
    Production,
    /// For everybody, of a legacy branch.
    Legacy,
    /// For data centres.
    Datacenter,
    /// Of a new feature branch.
    NewFeature,
    /// For trying out.
    Beta,
    /// For Vulkan developers.
    VulkanBeta,
    /// Never released alone, only inside a CUDA runfile.
    CudaRunfileOnly,
    /// No source says.
    Unknown,
}

/// A driver release and its artifacts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DriverRelease {
    /// The version.
    pub version: DriverVersion,
    /// The day.
    #[serde(default)]
    pub date: Option<String>,
    /// What NVIDIA calls it.
    pub maturity: Maturity,
    /// The files that NVIDIA publishes of it.
    pub artifacts: Vec<DriverArtifact>,
}

/// What a driver download holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DriverVariant {
    /// The runfile.
    Full,
    /// The runfile without 32-bit libraries.
    NoCompat32,
    /// For vGPU guests.
    Grid,
    /// For vGPU guests at Google.
    GridGcp,
    /// A plain archive of the files.
    RedistArchive,
    /// Inside a CUDA runfile.
    ExtractedFromCudaRunfile,
    /// A companion that goes with this driver.
    Companion(CompanionId),
}

/// A file of a driver release.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DriverArtifact {
    /// What it holds.
    pub variant: DriverVariant,
    /// The file.
    pub artifact: Artifact,
}

/// A file that can be downloaded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Artifact {
    /// `x86_64`, `sbsa`, `aarch64`, `ppc64le`, …
    pub arch: String,
    /// The name of the file.
    pub file: String,
    /// Where it is; none where it is known only by name.
    #[serde(default)]
    pub url: Option<String>,
    /// Lower-case hexadecimal. Without it nothing of the file is ever run.
    #[serde(default)]
    pub sha256: Option<String>,
    /// Bytes.
    #[serde(default)]
    pub size: Option<u64>,
    /// How many independent sources give this sum.
    #[serde(default)]
    pub agree: u8,
    /// What a reader should know: a name that is only expected, …
    #[serde(default)]
    pub note: Option<String>,
    /// On what sources differ, and what was taken.
    #[serde(default)]
    pub disagreement: Option<String>,
    /// Where this is published.
    pub sources: Vec<SourceId>,
}

/// What a CUDA release needs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CudaRelease {
    /// The release.
    pub version: CudaVersion,
    /// The month or day.
    #[serde(default)]
    pub date: Option<String>,
    /// The oldest driver that runs its programs (for 11 and newer by minor-version compatibility).
    pub minimum_driver: DriverVersion,
    /// The driver that it was made with: what PTX and its newest features need.
    #[serde(default)]
    pub native_driver: Option<DriverVersion>,
    /// The lowest compute capability it targets.
    pub lowest_capability: ComputeCapability,
    /// The highest.
    pub highest_capability: ComputeCapability,
    /// The oldest gcc that its nvcc takes, by major version.
    #[serde(default)]
    pub gcc_min: Option<u16>,
    /// The newest gcc that its nvcc takes, by major version.
    #[serde(default)]
    pub gcc_max: Option<u16>,
    /// The newest clang that its nvcc takes, `"19"` or `"3.9"`.
    #[serde(default)]
    pub clang_max: Option<String>,
    /// The oldest C library that its programs run on, `"2.27"`.
    #[serde(default)]
    pub glibc_min: Option<String>,
    /// The C library from which on its headers do not compile.
    #[serde(default)]
    pub glibc_breaks_from: Option<String>,
    /// The same on aarch64, if it is an older one there: glibc 2.38 declares vector types that nvcc before 12.5 does not know.
    #[serde(default)]
    pub glibc_breaks_from_sbsa: Option<String>,
    /// What `nvcc --version` calls it, `12.8.93`.
    #[serde(default)]
    pub nvcc: Option<String>,
    /// What a reader should know.
    #[serde(default)]
    pub note: Option<String>,
    /// Which of this is assumed, and why it could not be measured.
    #[serde(default)]
    pub assumed: Option<String>,
    /// Where this is published.
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
    /// The driver inside; none from 13.4 on.
    #[serde(default)]
    pub bundled_driver: Option<DriverVersion>,
    /// The file.
    pub artifact: Artifact,
}

/// A host compiler that some CUDA releases refuse.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CompilerLimit {
    /// `gcc` or `clang`.
    pub compiler: String,
    /// The versions that do not work, in the notation of the source: `"12:"` is 12 and newer, `":4"` up to 4.
    pub excluded: String,
    /// The CUDA releases, likewise.
    pub cuda: String,
    /// The one machine architecture this is about.
    #[serde(default)]
    pub arch: Option<String>,
    /// Where this is published.
    pub sources: Vec<SourceId>,
}

/// A distribution release: what packages are called there, and what its repositories offer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Distribution {
    /// `ID` of os-release.
    pub id: String,
    /// `VERSION_ID` of os-release up to its first dot where the distribution counts so (`"9"` for Rocky 9.6), whole
    /// for the others (`"24.04"`); `"*"` is every release without a record.
    pub version: String,
    /// The name for a person.
    pub name: String,
    /// The package manager.
    pub package_manager: PackageManager,
    /// The initramfs tool of a standard install.
    pub initramfs: InitramfsTool,
    /// The C library, `"2.36"`.
    #[serde(default)]
    pub glibc: Option<String>,
    /// The default gcc, by major version.
    #[serde(default)]
    pub gcc: Option<u16>,
    /// The kernel headers of one kernel; `{release}` stands for `uname -r`, `{flavour}` for what is behind its last dash, and
    /// `{version}` for what is before that.
    pub headers: Vec<String>,
    /// The meta-packages that follow the distribution's kernels, by a text that ends the kernel's release
    /// (`-generic`, `-cloud-amd64`); the one with an empty ending is for all others.
    #[serde(default)]
    pub header_metas: Vec<HeaderMeta>,
    /// Its repositories keep the headers of the newest kernels only.
    #[serde(default)]
    pub drops_old_headers: bool,
    /// The package with libxml2.so.2, which the installer in CUDA's runfiles loads. None where no package has it, or nobody knows.
    #[serde(default)]
    pub libxml2: Option<String>,
    /// The packages with modules of one kernel that a driver's modules load with, where the kernel's own package leaves them out;
    /// named as the headers are.
    #[serde(default)]
    pub kernel_modules: Vec<String>,
    /// DKMS, and what building a module takes beside it.
    pub build_tools: Vec<String>,
    /// Repositories that are not enabled by default and have some of these packages.
    #[serde(default)]
    pub extra_repositories: Vec<ExtraRepository>,
    /// The default C++ compiler, with its library's headers.
    #[serde(default)]
    pub gxx: Option<String>,
    /// A gcc of one major version; `{major}` stands for it. None where only the default one is packaged.
    #[serde(default)]
    pub gcc_package: Option<String>,
    /// The C++ compiler of one major version, likewise.
    #[serde(default)]
    pub gxx_package: Option<String>,
    /// The major versions that these two are there for, oldest first; empty where no source says.
    #[serde(default)]
    pub gccs: Vec<u16>,
    /// Of a record that stands for releases the database does not know: the release whose names of packages it has.
    #[serde(default)]
    pub named_as: Option<String>,
    /// NVIDIA driver packages that its repositories offer, preferred first.
    #[serde(default)]
    #[serde(serialize_with = "export::offers")]
    pub drivers: Vec<DriverOffer>,
    /// What a reader should know.
    #[serde(default)]
    pub note: Option<String>,
    /// Where this is published.
    pub sources: Vec<SourceId>,
}

impl Distribution {
    /// The packages with the headers of a kernel, `uname -r`.
    pub fn headers_of(&self, release: &str, arch: &str) -> impl Iterator<Item = String> {
        let own = self.header_meta(release, arch).map(|meta| &meta.headers).filter(|own| !own.is_empty());
        own.unwrap_or(&self.headers).iter().map(|name| of_kernel(name, release))
    }

    /// The packages with modules of a kernel that a driver's modules load with, `uname -r`.
    pub fn modules_of(&self, release: &str, arch: &str) -> impl Iterator<Item = String> {
        let own = self.header_meta(release, arch).map(|meta| &meta.kernel_modules).filter(|own| !own.is_empty());
        own.unwrap_or(&self.kernel_modules).iter().map(|name| of_kernel(name, release))
    }

    /// What follows the headers of kernels such as this one.
    pub fn following(&self, release: &str, arch: &str) -> Option<String> {
        self.header_meta(release, arch).map(|meta| of_kernel(&meta.package, release))
    }

    /// The meta-package for the headers of kernels such as this one. The longest ending wins: -cloud-amd64 before -amd64 before
    /// none; then the one for the kernel's series.
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

/// A repository that somebody must enable.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExtraRepository {
    /// Its name for a person, `EPEL`.
    pub name: String,
    /// The packages that only it has.
    pub packages: Vec<String>,
    /// Marks of which any means that it is enabled, as in [`Repository::seen_as`].
    pub seen_as: Vec<String>,
    /// The command that enables it; `{version}` and `{arch}` stand for those of the host.
    pub enable: String,
    /// Where this is published.
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
    /// tdnf and rpm. It has dnf's commands, and not all of its options: it ignores `--setopt=tsflags=test`, and installs.
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
    /// How the kernel's release ends.
    pub kernel: String,
    /// The only series that it follows, `"6.8"`; none is any that no other one follows.
    #[serde(default)]
    pub series: Option<String>,
    /// The machine architecture (`x86_64`, `aarch64`, `ppc64le`); none is any.
    #[serde(default)]
    pub arch: Option<String>,
    /// The package; named as the headers are where only that of the kernel's own version leaves the kernel as it is.
    pub package: String,
    /// The headers of one such kernel, where they are not called as those of the distribution's other kernels.
    #[serde(default)]
    pub headers: Vec<String>,
    /// Likewise what [`Distribution::kernel_modules`] names.
    #[serde(default)]
    pub kernel_modules: Vec<String>,
}

/// A driver in a repository.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DriverOffer {
    /// The branch.
    pub branch: u16,
    /// The version last seen there; none where no source says it.
    #[serde(default)]
    pub version: Option<DriverVersion>,
    /// The flavour.
    pub modules: ModuleFlavour,
    /// The machine architectures.
    pub archs: Vec<String>,
    /// The repository it is in.
    pub repository: Repository,
    /// The packages of a host that only computes: the kernel modules, then libcuda, then the rest. The first two are of
    /// one version.
    pub packages: Vec<String>,
    /// What a host with a desktop needs instead, which also draws. Empty if `packages` does.
    #[serde(default)]
    pub desktop_packages: Vec<String>,
    /// The packages in the same repository of companions whose version follows the driver's. A host that needs another one of
    /// these does not get the driver from here.
    #[serde(default)]
    pub companions: BTreeMap<CompanionId, String>,
    /// The newest kernel series that the packages build on, `"7.0"`. None if they follow the distribution's kernels.
    #[serde(default)]
    pub newest_kernel: Option<String>,
    /// What its kernel module is called, where that is not `nvidia`: Debian's is `nvidia-current`.
    #[serde(default)]
    pub kernel_module: Option<String>,
    /// Module streams to enable first (dnf), `nvidia-driver:580-dkms`.
    #[serde(default)]
    pub module_stream: Option<String>,
    /// Where this is published.
    pub sources: Vec<SourceId>,
}

impl DriverOffer {
    /// The packages for a host with a desktop, or without one.
    pub fn packages_for(&self, desktop: bool) -> &[String] {
        if desktop && !self.desktop_packages.is_empty() { &self.desktop_packages } else { &self.packages }
    }

    /// Of these, the ones that have the driver's version: its kernel modules and its libraries.
    pub fn versioned_packages(&self, desktop: bool) -> &[String] {
        let all = self.packages_for(desktop);
        &all[..all.len().min(2)]
    }
}

/// Where a repository's packages come from, and how to see that a host has it enabled.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Repository {
    /// For a person: `Debian non-free`, `NVIDIA's network repository`.
    pub name: String,
    /// Marks of which one must mean a repository that the host has enabled: for apt a component of the distribution's own
    /// archive, `non-free`, or a suite and a component; else part of its name; or part of its address. Empty: always enabled.
    #[serde(default)]
    pub seen_as: Vec<String>,
}
