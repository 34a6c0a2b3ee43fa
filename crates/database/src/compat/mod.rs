//! The compatibility database: what works with what (`compat/`), and what can be downloaded
//! (`manifests/`). These types define both the YAML files and the compact form in the binary. Only
//! [`load`] opens files, and nothing here makes decisions; `resolve` does.

mod add_on;
mod bulletin;
mod check;
mod companion;
mod component;
mod cuda;
mod distribution;
mod driver;
mod engine;
mod export;
mod fits;
mod framework;
mod gpu;
mod gpu_name;
mod id;
mod index;
mod load;
mod machine;
mod mig;
mod nvlink;
mod platform;
mod problem;
mod python;
mod query;
mod repository;
mod short_name;
mod source;
mod tally;
mod xid;

pub use add_on::{
    AddOn, AddOnArtifact, AddOnId, AddOnIdError, AddOnRange, CallForm, Layout, Place, VersionCall,
    VersionCode,
};
pub use bulletin::{Bulletin, FixedCompanion};
pub use check::check;
pub use companion::{
    Companion, CompanionId, CompanionIdError, CompanionPackage, DriverNeeds, Substitute,
    VersionRule,
};
pub use component::{
    Component, ComponentArchive, ComponentNeed, ComponentRelease, ReleasedComponent, short,
};
pub use cuda::{CompilerLimit, CudaArtifact, CudaGuide, CudaRelease, GuideSystem};
pub use distribution::{
    Distribution, DriverOffer, ExtraRepository, HeaderMeta, InitramfsTool, KeyByHand,
    ModuleSigning, OnlySigner, PackageManager, Repository, SignedAs, SignedNames, StockSystem,
    is_version_of,
};
pub use driver::{
    BranchKind, DriverArtifact, DriverBranch, DriverRelease, DriverVariant, ForwardCompatibility,
    KernelLimit, Maturity, ReleaseLimit, Role,
};
pub use engine::{
    ContainerToolkit, DevChar, Engine, EngineForm, EngineId, EngineIdError, EnginePackages,
    OwnContainerd, RemovedTypes, RestartEffect, Snap,
};
pub use export::Export;
pub use fits::{Card, NotTargeted, targets};
pub use framework::{Caution, Framework, FrameworkBuild, FrameworkNeeds, FrameworkRelease, Rename};
pub use gpu::{Architecture, Gpu, ModuleFlavour, PciDevice, VirtualGpus};
pub use gpu_name::{Ambiguous, is_brand};
pub use id::DatabaseId;
pub use index::{ArchiveRow, MACHINES, Published, PublishedAddOn, PublishedToolkit, cuda_arch};
pub use load::{LoadError, Misshapen, files, load, parse};
pub use machine::{Instance, Provider, System};
pub use mig::{MediaEngines, MigClient, MigPlacement, MigProfile, MigRole};
pub use nvlink::{Fabric, JoinedBy, NvLinks, NvSwitch};
pub use platform::{HotplugRule, JetPack, Platform, PlatformDriver, PlatformWay, Wsl2Gpus};
pub use problem::Problem;
pub use python::{Brought, CondaPackage, PythonInstall, PythonPackage};
pub use query::{build_label, framework_and_version, named_cuda, package_of, without_label};
pub use repository::{
    NeededRepository, OF_TOOLKIT, PackageRepository, SigningKey, ToolkitPackages,
};
pub use source::{Artifact, Disagreement, Known, Source};
pub use tally::Tally;
pub use xid::{Sxid, Xid, XidAction};

use serde::{Deserialize, Serialize};

/// The database of this project, for tests.
#[cfg(test)]
fn known() -> &'static Database {
    static KNOWN: std::sync::LazyLock<Database> = std::sync::LazyLock::new(|| {
        load(std::path::Path::new(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../.."
        )))
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
    /// The day after which `gpusetup db update` refuses it, `2027-03-01`: a signature never
    /// expires. Only a packed database has one.
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
    /// The NVLinks of boards.
    pub nvlinks: Vec<NvLinks>,
    /// Instance types of cloud providers.
    pub instances: Vec<Instance>,
    /// NVIDIA's systems and boards.
    pub systems: Vec<System>,
    /// Systems whose driver comes from their own tools. The first that fits a host counts.
    pub platforms: Vec<Platform>,
    /// Releases of Jetson Linux and their JetPack.
    pub jetpacks: Vec<JetPack>,
    /// The udev rules that put hot-plugged memory online.
    pub hotplug_rules: Vec<HotplugRule>,
    /// The GPUs that WSL2 has: one record.
    pub wsl2_gpus: Vec<Wsl2Gpus>,
    /// The boards on which NVSwitches connect GPUs, and what their hosts need.
    pub fabrics: Vec<Fabric>,
    /// Packages tied to the driver (companions).
    pub companions: Vec<Companion>,
    /// Container engines.
    pub engines: Vec<Engine>,
    /// The toolkit that gives their containers GPUs.
    pub container_toolkits: Vec<ContainerToolkit>,
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
