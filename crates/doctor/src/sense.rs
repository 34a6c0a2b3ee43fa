//! The parts of a host that doctor reads, each independent of the others. If reading one fails, the
//! checks that need it end in an error; none of them passes.

use gpusetup_system::bug;
use gpusetup_text::ids::CheckId;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

/// One part of the host that doctor reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sense {
    /// The kernel's log.
    KernelLog,
    /// modprobe's configuration: whether nouveau and nova are blacklisted, and NVIDIA's modules are
    /// not.
    Denials,
    /// The signer of the driver's module.
    Signer,
    /// NVML, CUDA and cuDNN, each in a child process.
    Libraries,
    /// The contents of the initramfs images.
    Images,
    /// The versions that cuDNN's libraries report.
    AddOnVersions,
    /// The output of `nvcc --version`.
    Nvcc,
    /// A small program that each nvcc compiles.
    Compiled,
    /// DKMS's record of modules.
    Dkms,
    /// Packages of the driver that are missing.
    DriverPackages,
    /// The host compiler that is set for every user.
    HostCompiler,
    /// Fabric Manager and its unit.
    FabricManager,
    /// The services and kernel modules of companions that users ask for.
    Companions,
    /// DKMS's logs of failed builds.
    DkmsLogs,
    /// The links to the kernel headers.
    Headers,
    /// Whether the key that signs modules is enrolled.
    SigningKey,
    /// Whether the module was installed before the last boot.
    ModuleAge,
    /// The nvcc that shells find.
    Shells,
    /// The directories that the loader searches.
    LoaderDirectories,
    /// The libraries in the loader's cache.
    LoaderCache,
    /// LD_LIBRARY_PATH, as set for every user.
    LibraryPaths,
    /// apt's repositories and their keys.
    Apt,
    /// IOMMU and ACS between the GPUs.
    Bus,
    /// Container engines and NVIDIA's container toolkit.
    Containers,
    /// The scheduler that the host is to be ready for.
    Cluster,
    /// The GPUs that were passed to this container.
    Given,
    /// Whether the kernel counts GPU memory as host memory.
    Coherent,
    /// What only WSL2 and laptops with two GPUs have.
    Machine,
    /// Python environments.
    Python,
    /// The settings of the GPUs.
    Settings,
}

impl Sense {
    /// All of them.
    pub const ALL: [Self; 30] = [
        Self::KernelLog,
        Self::Denials,
        Self::Signer,
        Self::Libraries,
        Self::Images,
        Self::AddOnVersions,
        Self::Nvcc,
        Self::Compiled,
        Self::Dkms,
        Self::DriverPackages,
        Self::HostCompiler,
        Self::FabricManager,
        Self::Companions,
        Self::DkmsLogs,
        Self::Headers,
        Self::SigningKey,
        Self::ModuleAge,
        Self::Shells,
        Self::LoaderDirectories,
        Self::LoaderCache,
        Self::LibraryPaths,
        Self::Apt,
        Self::Bus,
        Self::Containers,
        Self::Cluster,
        Self::Given,
        Self::Coherent,
        Self::Machine,
        Self::Python,
        Self::Settings,
    ];

    /// Its name in a report.
    pub fn name(self) -> &'static str {
        match self {
            Self::KernelLog => "kernel-log",
            Self::Denials => "denials",
            Self::Signer => "signer",
            Self::Libraries => "libraries",
            Self::Images => "images",
            Self::AddOnVersions => "add-on-versions",
            Self::Nvcc => "nvcc",
            Self::Compiled => "compiled",
            Self::Dkms => "dkms",
            Self::DriverPackages => "driver-packages",
            Self::HostCompiler => "host-compiler",
            Self::FabricManager => "fabric-manager",
            Self::Companions => "companions",
            Self::DkmsLogs => "dkms-logs",
            Self::Headers => "headers",
            Self::SigningKey => "signing-key",
            Self::ModuleAge => "module-age",
            Self::Shells => "the PATH of shells",
            Self::LoaderDirectories => "loader-directories",
            Self::LoaderCache => "loader-cache",
            Self::LibraryPaths => "library-paths",
            Self::Apt => "apt",
            Self::Bus => "bus",
            Self::Containers => "containers",
            Self::Cluster => "cluster",
            Self::Given => "given",
            Self::Coherent => "coherent",
            Self::Machine => "machine",
            Self::Python => "python",
            Self::Settings => "settings",
        }
    }

    /// The thing that is read, as in "failed while reading ...".
    pub fn object(self) -> &'static str {
        match self {
            Self::KernelLog => "the kernel's log",
            Self::Denials => "the blacklists of kernel modules",
            Self::Signer => "the module's signer",
            Self::Libraries => "NVIDIA's libraries",
            Self::Images => "the initramfs images",
            Self::AddOnVersions => "the versions that cuDNN and other add-ons report",
            Self::Nvcc => "the toolkits' compilers",
            Self::Compiled => "the toolkits' test programs",
            Self::Dkms => "DKMS's record",
            Self::DriverPackages => "the driver's packages",
            Self::HostCompiler => "the host compiler that is set for all users",
            Self::FabricManager => "Fabric Manager",
            Self::Companions => "DCGM and other companions",
            Self::DkmsLogs => "DKMS's logs",
            Self::Headers => "the kernel headers",
            Self::SigningKey => "the signing key",
            Self::ModuleAge => "the module's age",
            Self::Shells => "the PATH of shells",
            Self::LoaderDirectories => "the loader's directories",
            Self::LoaderCache => "the loader's cache",
            Self::LibraryPaths => "LD_LIBRARY_PATH for all users",
            Self::Apt => "apt's repositories",
            Self::Bus => "the bus between the GPUs",
            Self::Containers => "the container engines",
            Self::Cluster => "the configuration of the scheduler",
            Self::Given => "the GPUs of this container",
            Self::Coherent => "the GPUs' memory",
            Self::Machine => "the machine's own parts",
            Self::Python => "the Python environments",
            Self::Settings => "the settings of the GPUs",
        }
    }
}

/// Reads each part, and notes which ones were left out because of a bug in gpusetup.
pub struct Senses {
    left_out: BTreeSet<String>,
    failed: Mutex<BTreeMap<String, String>>,
}

impl Senses {
    /// Leaves out the parts with these names.
    pub fn without(left_out: &BTreeSet<String>) -> Self {
        Self {
            left_out: left_out.clone(),
            failed: Mutex::default(),
        }
    }

    /// The result of `look`; the default if the part is left out.
    pub fn at<T: Default>(&self, sense: Sense, look: impl FnOnce() -> T) -> T {
        if self.left_out.contains(sense.name()) {
            let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
            failed.insert(sense.name().to_owned(), sense.object().to_owned());
            return T::default();
        }
        bug::in_part(sense.name(), look)
    }

    /// The ones that were left out: name and [`Sense::object`]. A check that was left out has its
    /// id as the name.
    pub fn failed(self) -> BTreeMap<String, String> {
        let mut failed = self
            .failed
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        for id in self
            .left_out
            .into_iter()
            .filter(|name| name.parse::<CheckId>().is_ok())
        {
            let object = format!("the evidence of {id}");
            failed.insert(id, object);
        }
        failed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_that_is_left_out_is_noted_and_costs_nothing_else() {
        let senses = Senses::without(&["denials".to_owned(), "GS201".to_owned()].into());
        let seen: Vec<u8> = senses.at(Sense::Denials, || panic!("it is left out"));
        let beside: u8 = senses.at(Sense::Images, || 7);
        assert_eq!((seen, beside), (Vec::new(), 7));
        let failed = [
            ("GS201", "the evidence of GS201"),
            ("denials", "the blacklists of kernel modules"),
        ];
        assert_eq!(
            senses.failed(),
            failed
                .map(|(name, object)| (name.to_owned(), object.to_owned()))
                .into()
        );
    }
}
