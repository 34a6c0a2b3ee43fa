//! Branches and releases of the driver.

use super::{Artifact, CompanionId, ModuleFlavour, SourceId};
use crate::version::{CudaVersion, DriverVersion};
use serde::{Deserialize, Serialize};

/// A package with the user-space driver of a newer branch, for kernel modules of an older one
/// (forward compatibility).
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
    pub(crate) sources: Vec<SourceId>,
}

/// The role of a package or a module.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// The open kernel modules, under the name that DKMS uses.
    OpenDkmsModule,
}

/// The support class of a driver branch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BranchKind {
    /// Long-term support branch.
    LongTerm,
    Production,
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
    /// The newest kernel series on which its last release was seen to build without patches,
    /// `"6.9"`.
    #[serde(default)]
    pub newest_kernel: Option<String>,
    /// Distribution kernels whose backports break its build although the kernel series did not
    /// change.
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
    pub(crate) note: Option<String>,
    /// How sources differ, and which value was used.
    #[serde(default)]
    pub(crate) disagreement: Option<String>,
    /// The assumed parts, and why they could not be measured.
    #[serde(default)]
    pub assumed: Option<String>,
    /// The sources.
    pub sources: Vec<SourceId>,
}

/// The first kernel of a distribution on which the modules of a branch's last release do not build
/// without patches.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KernelLimit {
    /// The distribution's part of the kernel release, without its minor release: `el9`.
    pub distribution: String,
    /// The first kernel on which the build fails, `"5.14.0-570"`.
    pub from: String,
    pub(crate) sources: Vec<SourceId>,
}

/// The first kernel series on which the modules of a branch's older releases do not build without
/// patches.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReleaseLimit {
    /// The last affected release.
    pub up_to: DriverVersion,
    /// The affected flavour of its modules.
    pub modules: ModuleFlavour,
    /// The first kernel series on which the build fails, `"7.2"`.
    pub from: String,
    pub(crate) sources: Vec<SourceId>,
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
