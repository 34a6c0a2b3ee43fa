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
mod table;
mod tables;
mod tally;
mod xid;

pub use add_on::{
    AddOn, AddOnArtifact, AddOnId, AddOnIdError, AddOnRange, CallForm, Layout, VersionCall,
};

pub use bulletin::Bulletin;

pub use check::check;
pub use companion::{Companion, CompanionId, CompanionIdError, Substitute, VersionRule};

pub use component::{
    Component, ComponentArchive, ComponentNeed, ComponentRelease, ReleasedComponent, short,
};
pub(crate) use cuda::{CompilerLimit, CudaGuide};
pub use cuda::{CudaArtifact, CudaRelease};
pub(crate) use distribution::Repository;
pub use distribution::{
    Distribution, DriverOffer, ExtraRepository, InitramfsTool, KernelToolset, KeyByHand,
    ModuleSigning, OnlySigner, PackageManager, is_version_of,
};
pub use driver::{
    BranchKind, DriverArtifact, DriverBranch, DriverRelease, DriverVariant, Maturity, ReleaseLimit,
    Role,
};
pub(crate) use driver::{ForwardCompatibility, KernelLimit};
pub use engine::{
    ContainerToolkit, Engine, EngineForm, EngineId, EngineIdError, EnginePackages, RestartEffect,
};

pub use fits::{NotTargeted, TargetGpu, targets};
pub(crate) use framework::Rename;
pub use framework::{Framework, FrameworkBuild, FrameworkNeeds, FrameworkRelease};
pub(crate) use gpu::VirtualGpus;
pub use gpu::{Architecture, Gpu, ModuleFlavour, PciDevice};
pub use gpu_name::{Ambiguous, is_brand};
pub use id::DatabaseId;
pub use index::{ArchiveRow, MACHINES, Published, PublishedAddOn, PublishedToolkit, cuda_arch};

pub use load::{LoadError, files, load, parse};

pub use machine::{Instance, System};
pub(crate) use mig::MigClient;
pub use mig::{MediaEngines, MigPlacement, MigProfile, MigRole};
pub(crate) use nvlink::NvSwitch;
pub use nvlink::{Fabric, NvLinks};
pub(crate) use platform::Wsl2Gpus;
pub use platform::{HotplugRule, JetPack, Platform, PlatformDriver, PlatformWay};
pub(crate) use problem::DataProblem;
pub use python::{BundledComponent, PythonInstall, PythonRange};
pub(crate) use python::{CondaPackage, PythonPackage};
pub use query::{
    build_label, framework_and_version, meets_requirement, named_cuda, package_of, without_label,
};

pub use repository::{OF_TOOLKIT, PackageRepository, SigningKey, ToolkitPackages};
pub use source::Artifact;
pub(crate) use source::{Disagreement, Source, SourceQuality};
pub use tally::Tally;
pub(crate) use xid::Sxid;
pub use xid::{Xid, XidAction};

use crate::text::Text;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use table::Table;
use tables::tables;

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
pub type SourceId = Text;

tables! {
    /// The sources of the facts.
    sources: Source, s {
        unique "id" = &s.id;
    }
    /// GPUs by PCI id; the entry for all boards of a device precedes those for single boards.
    gpus: Gpu, g {
        unique "device" = g.key();
        sources g.sources;
        sort (g.device, &g.subsystem);
        count "gpus";
    }
    /// Compute capabilities, oldest first.
    architectures: Architecture, a {
        unique "compute_capability" = a.compute_capability;
        sources a.sources;
        sort a.compute_capability;
        count "architectures";
    }
    /// Virtual GPUs, by PCI id.
    virtual_gpus: VirtualGpus, v {
        unique "device" = v.device;
        sources v.sources;
        sort v.device;
        count "virtual_gpus";
    }
    /// NVSwitch bridges.
    nvswitches: NvSwitch, s {
        unique "device" = s.device;
        sources s.sources;
        count "nvswitches";
    }
    /// The NVLinks of boards.
    nvlinks: NvLinks, n {
        key "gpus" = n.gpus.first().map(ToString::to_string).unwrap_or_default();
        sources n.sources, n.assumed;
        count "nvlinks";
    }
    /// The boards on which NVSwitches connect GPUs, and what their hosts need.
    fabrics: Fabric, f {
        unique "generation" = f.generation;
        sources f.sources;
        count "fabrics";
    }
    /// Packages tied to the driver (companions).
    companions: Companion, c {
        unique "id" = c.id;
        sources c.sources;
        count "companions";
        count "companion packages" in c.packages.iter().map(|p| &p.sources);
    }
    /// Container engines.
    engines: Engine, e {
        unique "id" = e.id;
        sources e.sources;
        count "container engines";
        count "engine packages" in e.packages.iter().map(|p| &p.sources);
    }
    /// The toolkit that gives their containers GPUs.
    container_toolkits: ContainerToolkit, t {
        key "title" = &t.title;
        sources t.sources;
    }
    /// GPU error numbers in the kernel log.
    xids: Xid, x {
        unique "xid" = x.xid;
        sources x.sources, x.assumed;
        count "xids";
    }
    /// NVIDIA's security bulletins, newest first.
    bulletins: Bulletin, b {
        unique "title" = &b.title;
        sources b.sources;
        sort Reverse(&b.published);
        count "bulletins";
    }
    /// The NVSwitch driver's error numbers.
    sxids: Sxid, x {
        unique "sxid" = x.sxid;
        sources x.sources;
        count "sxids";
    }
    /// Driver branches, newest first.
    driver_branches: DriverBranch, b {
        unique "branch" = b.branch;
        sources b.sources, b.assumed;
        sort Reverse(b.branch);
        count "driver branches";
    }
    /// Driver releases, newest first.
    drivers: DriverRelease, d {
        unique "version" = d.version;
        sort Reverse(d.version);
        count "driver files" in d.artifacts.iter().map(|a| &a.artifact.sources);
    }
    /// CUDA releases, newest first.
    cuda: CudaRelease, r {
        unique "version" = r.version;
        sources r.sources, r.assumed;
        sort Reverse(r.version);
        count "cuda";
    }
    /// Artifacts of CUDA releases, newest first.
    cuda_artifacts: CudaArtifact, a {
        key "file" = &a.artifact.file;
        sources a.artifact.sources;
        sort Reverse(a.version);
        count "cuda files";
    }
    /// The toolkit components that can be downloaded separately.
    components: Component, c {
        unique "name" = &c.name;
    }
    /// Component archives of CUDA releases, newest first.
    component_releases: ComponentRelease, r {
        unique "version" = r.version;
        sources r.sources;
        sort Reverse(r.version);
        count "cuda component releases";
    }
    /// Dependencies between components.
    component_needs: ComponentNeed, n {
        key "of" = format!("{} {}", n.of, n.needs);
        sources n.sources;
        count "component needs";
    }
    /// Libraries that are installed into a toolkit; those that plans include by default come first.
    add_ons: AddOn, a {
        unique "id" = a.id;
        sources a.sources;
        sort (!a.by_default, a.id);
    }
    /// The requirements of their releases, by add-on and then newest first.
    add_on_ranges: AddOnRange, r {
        key "from" = r.from;
        sources r.sources, r.assumed;
        sort (r.add_on, Reverse(r.from));
        count "add-ons";
    }
    /// Archives of their releases, by add-on and then newest first.
    add_on_artifacts: AddOnArtifact, a {
        key "file" = &a.artifact.file;
        sources a.artifact.sources;
        sort (a.add_on, Reverse(a.version));
        count "add-on files";
    }
    /// Host compilers that nvcc does not support.
    compiler_limits: CompilerLimit, l {
        key "excluded" = &l.excluded;
        sources l.sources;
        count "compiler limits";
    }
    /// Distributions: package names and the contents of their repositories.
    distributions: Distribution, d {
        unique "id" = d.release();
        sources d.sources;
        count "distributions";
        count "stock systems" in d.stock.iter().map(|s| &s.sources);
        count "driver packages" in d.drivers.iter().map(|o| &o.sources);
    }
    /// Repositories that can be added to a host.
    package_repositories: PackageRepository, r {
        unique "id" = &r.id;
        sources r.sources;
        count "package repositories";
    }
    /// The keys that sign them.
    signing_keys: SigningKey, k {
        unique "id" = &k.id;
        sources k.sources;
        count "signing keys";
    }
    /// Instance types of cloud providers.
    instances: Instance, i {
        key "name" = &i.name;
        sources i.sources, i.assumed;
        count "instances";
    }
    /// NVIDIA's systems and boards.
    systems: System, s {
        key "name" = &s.name;
        sources s.sources, s.assumed;
        count "systems";
    }
    /// Systems whose driver comes from their own tools. The first that fits a host counts.
    platforms: Platform, p {
        unique "id" = &p.id;
        sources p.sources;
        count "platforms";
    }
    /// Releases of Jetson Linux and their JetPack.
    jetpacks: JetPack, j {
        unique "l4t" = &j.l4t;
        sources j.sources;
        count "jetpacks";
    }
    /// The udev rules that put hot-plugged memory online.
    hotplug_rules: HotplugRule, r {
        unique "file" = &r.file;
        sources r.sources;
        count "hotplug rules";
    }
    /// The GPUs that WSL2 has: one record.
    wsl2_gpus: Wsl2Gpus, w {
        key "oldest" = w.oldest;
        sources w.sources;
        count "wsl2 gpus";
    }
    /// Services that use GPUs or their instances.
    mig_clients: MigClient, c {
        unique "unit" = &c.unit;
        sources c.sources;
    }
    /// GPU instances (MIG) that GPUs can be partitioned into.
    mig_profiles: MigProfile, p {
        key "name" = &p.name;
        sources p.sources, p.assumed;
        count "mig profiles";
    }
    /// Systems listed in NVIDIA's installation guides, newest CUDA first.
    cuda_guides: CudaGuide, g {
        key "cuda" = g.cuda;
        sources g.sources;
        sort Reverse(g.cuda);
        count "cuda guides";
    }
    /// User-space drivers for older kernel modules, newest CUDA first.
    forward_compatibility: ForwardCompatibility, f {
        unique "package" = &f.package;
        sources f.sources;
        count "forward compatibility";
    }
    /// Package names before and after a release that changed them.
    renames: Rename, r {
        key "before" = &r.before;
        sources r.sources;
        count "renames";
    }
    /// The CUDA and cuDNN versions that frameworks are built with.
    frameworks: Framework, f {
        unique "name" = &f.name;
        count "frameworks" in f.releases.iter().map(|r| &r.sources);
    }
    /// Subjects on which whole sources differ.
    disagreements: Disagreement, d {
        key "about" = &d.about;
        sources d.sources;
    }
}
