//! The senses of doctor: what it looks at on a host, each apart from the others. If one fails, the checks that need it end in an
//! error; none of them passes.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};

/// One look at the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sense {
    /// The kernel's log.
    KernelLog,
    /// modprobe's configuration: what keeps nouveau and nova out.
    Denials,
    /// Who signed the driver's module.
    Signer,
    /// NVML, CUDA and cuDNN, each in a child process.
    Libraries,
    /// What the initramfs images hold.
    Images,
    /// The versions that cuDNN's libraries report.
    AddOnVersions,
    /// What `nvcc --version` says.
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
    /// The logs of builds that failed.
    DkmsLogs,
    /// The links to kernels' headers.
    Headers,
    /// Whether the firmware has the key that signs modules.
    SigningKey,
    /// Whether the module was installed before the last boot.
    ModuleAge,
    /// Which nvcc shells find.
    Shells,
    /// The directories that the loader looks in.
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
    /// The GPUs that this container was given.
    Given,
    /// Whether the kernel counts the GPUs' memory as its own.
    Coherent,
}

impl Sense {
    /// Every one.
    pub const ALL: [Self; 25] = [
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
        Self::Given,
        Self::Coherent,
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
            Self::DkmsLogs => "dkms-logs",
            Self::Headers => "headers",
            Self::SigningKey => "signing-key",
            Self::ModuleAge => "module-age",
            Self::Shells => "shells",
            Self::LoaderDirectories => "loader-directories",
            Self::LoaderCache => "loader-cache",
            Self::LibraryPaths => "library-paths",
            Self::Apt => "apt",
            Self::Bus => "bus",
            Self::Containers => "containers",
            Self::Given => "given",
            Self::Coherent => "coherent",
        }
    }

    /// What it looks at, in a sentence.
    pub fn object(self) -> &'static str {
        match self {
            Self::KernelLog => "the kernel's log",
            Self::Denials => "what keeps other drivers out",
            Self::Signer => "who signed the module",
            Self::Libraries => "NVIDIA's libraries",
            Self::Images => "the initramfs images",
            Self::AddOnVersions => "the versions that cuDNN and other add-ons report",
            Self::Nvcc => "the toolkits' compilers",
            Self::Compiled => "what the toolkits compile",
            Self::Dkms => "DKMS's record",
            Self::DriverPackages => "the driver's packages",
            Self::HostCompiler => "what is set for everybody",
            Self::FabricManager => "Fabric Manager",
            Self::DkmsLogs => "DKMS's logs",
            Self::Headers => "the kernels' headers",
            Self::SigningKey => "the signing key",
            Self::ModuleAge => "the module's age",
            Self::Shells => "shells",
            Self::LoaderDirectories => "the loader's directories",
            Self::LoaderCache => "the loader's cache",
            Self::LibraryPaths => "what is set for everybody",
            Self::Apt => "apt's repositories",
            Self::Bus => "the bus between the GPUs",
            Self::Containers => "what starts containers",
            Self::Given => "what this container was given",
            Self::Coherent => "the GPUs' memory",
        }
    }
}

/// Looks, and remembers which looks failed because of a mistake in gpusetup: one must cost neither the others nor the truth.
#[derive(Default)]
pub struct Senses(Mutex<BTreeMap<String, String>>);

impl Senses {
    /// What `look` sees; nothing if gpusetup itself panics.
    pub fn at<T: Default>(&self, sense: Sense, look: impl FnOnce() -> T) -> T {
        catch_unwind(AssertUnwindSafe(look)).unwrap_or_else(|_| {
            let mut failed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            failed.insert(sense.name().to_owned(), sense.object().to_owned());
            T::default()
        })
    }

    /// Those that failed, by name, with what they looked at.
    pub fn failed(self) -> BTreeMap<String, String> {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_that_fails_is_remembered_and_costs_nothing_else() {
        let senses = Senses::default();
        let seen: Vec<u8> = senses.at(Sense::Denials, || panic!("as the test wants it"));
        let beside: u8 = senses.at(Sense::Images, || 7);
        assert_eq!((seen, beside), (Vec::new(), 7));
        assert_eq!(senses.failed(), [("denials".to_owned(), "what keeps other drivers out".to_owned())].into());
    }
}
