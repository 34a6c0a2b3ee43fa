//! Frameworks of Python and what their wheels need.

use super::{
    CondaPackage, PackageManager, PythonPackage, PythonRange, Role, SourceId, meets_requirement,
};
use crate::version::{AddOnVersion, ComputeCapability, CudaVersion, DriverVersion};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A change of a package name in NVIDIA's own repositories.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rename {
    /// The role of the package.
    pub(crate) role: Role,
    /// The package manager, if names differ by package manager.
    #[serde(default)]
    pub(crate) package_manager: Option<PackageManager>,
    /// The old name; `{branch}` stands for the driver's branch.
    pub(crate) before: String,
    /// The first driver release with the new name.
    pub(crate) from: DriverVersion,
    /// The new name.
    pub(crate) after: String,
    pub(crate) sources: Vec<SourceId>,
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
    /// The framework whose CUDA version it must match, as `torch` is for its extensions. A request
    /// has to name both.
    #[serde(default, rename = "beside")]
    pub extends: Option<String>,
    /// Packages that are released with it and need the same: `torchvision` for `torch`.
    #[serde(default)]
    pub(crate) siblings: Vec<String>,
    /// Who says that it compiles with Python's headers at its first start, as Triton does. Empty if
    /// it does not.
    #[serde(default)]
    pub python_headers: Vec<SourceId>,
    /// The releases that compile kernels with nvcc whenever they start, and stop without it.
    #[serde(default)]
    pub(crate) starts_with_nvcc: Option<StartsWithNvcc>,
    /// How pip installs it; releases before every `from` have none.
    #[serde(default)]
    pub(crate) install: Vec<PythonPackage>,
    /// Its conda packages, if the project publishes some.
    #[serde(default)]
    pub(crate) conda: Vec<CondaPackage>,
    /// Its releases, newest first.
    pub releases: Vec<FrameworkRelease>,
}

/// Which releases of a framework need nvcc when they start, though their packages bring CUDA.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StartsWithNvcc {
    /// In pip's notation: `>=0.21,<0.31`.
    pub(crate) releases: String,
    pub(crate) sources: Vec<SourceId>,
}

impl Framework {
    /// Whether a release compiles kernels with nvcc whenever it starts, and stops without it.
    pub fn needs_nvcc_at_start(&self, release: &FrameworkRelease) -> bool {
        let starts = self.starts_with_nvcc.as_ref();
        starts.is_some_and(|starts| meets_requirement(&release.version, &starts.releases))
    }
}

/// A release of a framework, or a whole series.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FrameworkRelease {
    /// The version; `2.9` is every 2.9.x.
    pub version: String,
    /// The builds: first the one that a plain `pip install` gets, or that the project's guide shows
    /// first.
    pub builds: Vec<FrameworkBuild>,
    /// The versions of Python that every wheel of it on PyPI is for, and those of the PyTorch that
    /// it pins.
    #[serde(default)]
    pub python: Option<PythonRange>,
    /// The oldest glibc that its wheels on PyPI support, by machine architecture. Omitted up to
    /// 2.17, which every system has.
    #[serde(default)]
    pub glibc_min: BTreeMap<String, String>,
    /// The same of the wheels of packages that it pins, where they need a newer one.
    #[serde(default)]
    pub pinned_glibc_min: BTreeMap<String, String>,
    /// The machine architectures for which PyPI has no wheels with CUDA. Builds for them come from
    /// the project's own index.
    #[serde(default)]
    pub cpu_only: Vec<String>,
    /// What it requires of other frameworks, in pip's notation: `torch>=2.4,<3`.
    #[serde(default)]
    pub requires: Vec<String>,
    /// The part of PyTorch's index, `cu129`, that has the PyTorch it pins, for the machine
    /// architectures for which PyPI has that without CUDA alone.
    #[serde(default)]
    pub torch_backend: BTreeMap<String, String>,
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
    /// Nothing: it uses the CUDA of the PyTorch that is installed, whichever it was made with.
    Torch,
}

/// A build of a framework.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FrameworkBuild {
    /// The CUDA series it is built with; if no source names one, the first it runs with.
    pub cuda: CudaVersion,
    /// The first CUDA series it runs with. It then runs with every newer one of the same major
    /// version. Without this value, it runs only with the one it is built with.
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
    /// The first cuDNN it runs with, with the same rule as for CUDA. Without this value, it gets
    /// the minor version it is built with.
    #[serde(default)]
    pub cudnn_min: Option<AddOnVersion>,
    /// The lowest compute capability that it has kernels for.
    #[serde(default)]
    pub lowest_capability: Option<ComputeCapability>,
    /// The compute capability of its newest kernels, if it has no PTX: it does not run on GPUs of
    /// later major versions.
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
    pub(crate) note: Option<String>,
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
        self.nvcc_min
            .unwrap_or(self.first_cuda())
            .max(self.first_cuda())
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
            && self
                .highest_capability
                .is_none_or(|highest| gpu.major <= highest.major)
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
