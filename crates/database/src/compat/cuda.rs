//! Releases of CUDA, and what they need.

use super::{Artifact, SourceId};
use crate::version::{ComputeCapability, CudaVersion, DriverVersion};
use serde::{Deserialize, Serialize};

/// The systems listed in NVIDIA's installation guide for a CUDA series.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CudaGuide {
    /// The series.
    pub cuda: CudaVersion,
    /// Whether `systems` is the guide's full list; if not, a missing system proves nothing.
    pub(crate) complete: bool,
    /// The listed systems.
    pub(crate) systems: Vec<GuideSystem>,
    pub(crate) sources: Vec<SourceId>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct GuideSystem {
    /// `ID` of os-release.
    pub(crate) id: String,
    /// The version, with the point release that NVIDIA tested.
    pub(crate) version: String,
    /// The machine architecture, as CUDA's artifacts call it.
    pub(crate) arch: String,
    /// The kernel version.
    #[serde(default)]
    pub(crate) kernel: Option<String>,
    /// The default gcc.
    #[serde(default)]
    pub(crate) gcc: Option<String>,
    /// The C library.
    #[serde(default)]
    pub(crate) glibc: Option<String>,
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
    /// The same on aarch64, if it is older there: glibc 2.38 declares vector types that nvcc before
    /// 12.5 does not know.
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
        let of_arch = self
            .glibc_breaks_from_sbsa
            .as_deref()
            .filter(|_| arch == "sbsa");
        of_arch.or(self.glibc_breaks_from.as_deref())
    }

    /// Whether the installer in its runfile is a program that loads libxml2.so.2. It came with
    /// 10.1; older ones are Perl programs (`cuda-installer-libxml2`).
    pub fn installer_loads_libxml2(&self) -> bool {
        (self.version.major, self.version.minor) >= (10, 1)
    }

    /// Whether that installer is a Perl program that finds its modules in the current directory,
    /// which Perl has not searched since 5.26. Those of CUDA 9 name the directory:
    /// <https://github.com/spack/spack-packages/tree/develop/repos/spack_repo/builtin/packages/cuda>.
    pub fn installer_needs_current_directory(&self) -> bool {
        self.version.major < 9
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
    pub(crate) compiler: String,
    /// The unsupported versions, in the source's notation: `"12:"` is 12 and newer, `":4"` up to 4.
    pub(crate) excluded: String,
    /// The CUDA releases, in the same notation.
    pub(crate) cuda: String,
    /// The only machine architecture affected; none for all.
    #[serde(default)]
    pub(crate) arch: Option<String>,
    pub(crate) sources: Vec<SourceId>,
}
