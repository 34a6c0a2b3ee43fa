//! Which GPU, driver and CUDA fit each other: each rule once, for whoever asks.

use super::{
    Architecture, CudaRelease, Database, DriverBranch, FrameworkBuild, ModuleFlavour, SourceId,
};
use crate::version::{ComputeCapability, CudaVersion, DriverVersion};
use std::rc::Rc;

/// A GPU as the rules see it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TargetGpu {
    /// Its name, for messages: `Tesla V100-SXM2-16GB`.
    pub name: String,
    /// None if no source gives it; then no toolkit can be chosen for this GPU.
    pub capability: Option<ComputeCapability>,
    /// The kernel module flavours that support it.
    pub modules: Vec<ModuleFlavour>,
    /// The oldest driver branch that may support it, if known.
    pub first_branch: Option<u16>,
    /// The oldest branch whose list contains it: an older branch is chosen only if it is named.
    pub sure_branch: Option<u16>,
    /// The first release of each branch that lists it, as [`super::Gpu::listed_from`]: an older
    /// release is chosen only if it is named.
    pub listed_from: Vec<DriverVersion>,
    /// The last driver branch that supports it; none if the newest does.
    pub last_branch: Option<u16>,
    /// Whether a driver's list of supported GPUs contains it, or it cannot be listed because only
    /// its capability is known.
    pub is_listed: bool,
    /// NVIDIA's line that it belongs to, `GeForce`, if known.
    pub line: Option<String>,
    /// Whether it belongs to NVIDIA's data-centre line.
    pub data_center: bool,
    /// Whether it is a virtual GPU (vGPU), which only NVIDIA's guest drivers support.
    pub is_virtual: bool,
    /// The only machine architecture that it exists for.
    pub only_on: Option<String>,
    /// The embedded platform that it is part of; the board's own software includes its driver.
    pub embedded: Option<String>,
    /// Where these facts are published; empty for a GPU known only from the request.
    pub sources: Vec<SourceId>,
}

impl TargetGpu {
    /// One of which only the capability is known.
    pub fn from_architecture(name: String, architecture: &Architecture) -> Self {
        Self {
            name,
            capability: Some(architecture.compute_capability),
            modules: architecture.modules.clone(),
            first_branch: architecture.first_driver_branch,
            last_branch: architecture.last_driver_branch,
            is_listed: true,
            only_on: architecture.only_on.clone(),
            embedded: architecture.embedded.clone(),
            sources: architecture.sources.clone(),
            ..Self::default()
        }
    }

    /// Whether a framework's build is known to have no kernels for it.
    pub fn lacks_kernels_in(&self, build: &FrameworkBuild) -> bool {
        self.capability
            .is_some_and(|have| !build.has_kernels_for(have))
    }

    /// The distinct GPUs, each with its index: a rule treats equal GPUs alike.
    pub fn kinds(gpus: &[Rc<Self>]) -> impl Iterator<Item = (usize, &Self)> {
        let all = gpus
            .iter()
            .enumerate()
            .filter(|(n, card)| !gpus[..*n].contains(card));
        all.map(|(n, card)| (n, card.as_ref()))
    }

    /// Whether a driver branch is neither too old nor too new for it.
    pub fn is_served_by(&self, branch: u16) -> bool {
        is_within(branch, self.first_branch, self.last_branch)
    }

    /// If this driver does not list the GPU yet: the next release that does, in the same branch or
    /// a newer one.
    pub fn listed_later(&self, driver: DriverVersion) -> Option<DriverVersion> {
        self.listed_from
            .iter()
            .find(|first| first.branch >= driver.branch)
            .copied()
            .filter(|first| driver < *first)
    }
}

/// Why a CUDA has no code for a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotTargeted {
    /// The lowest compute capability that it targets.
    BelowLowest(ComputeCapability),
    AboveHighest(ComputeCapability),
    /// The first CUDA for the GPU.
    BeforeFirst(CudaVersion),
    AfterLast(CudaVersion),
}

impl NotTargeted {
    /// Whether it had code for it before.
    pub fn is_dropped(self) -> bool {
        matches!(self, Self::BelowLowest(_) | Self::AfterLast(_))
    }
}

/// Whether a CUDA targets a compute capability, by the record of its release and that of the
/// architecture, as far as there are any.
///
/// # Errors
///
/// If it does not.
pub fn targets(
    cuda: CudaVersion,
    release: Option<&CudaRelease>,
    capability: ComputeCapability,
    architecture: Option<&Architecture>,
) -> Result<(), NotTargeted> {
    let first = architecture
        .and_then(|a| a.first_cuda)
        .filter(|first| cuda.series() < first.series());
    let last = architecture
        .and_then(|a| a.last_cuda)
        .filter(|last| cuda.series() > last.series());
    match (release, first, last) {
        (Some(release), ..) if capability < release.lowest_capability => {
            Err(NotTargeted::BelowLowest(release.lowest_capability))
        }
        (Some(release), ..) if capability > release.highest_capability => {
            Err(NotTargeted::AboveHighest(release.highest_capability))
        }
        (_, Some(first), _) => Err(NotTargeted::BeforeFirst(first)),
        (.., Some(last)) => Err(NotTargeted::AfterLast(last)),
        _ => Ok(()),
    }
}

/// Whether a branch is neither too old nor too new.
fn is_within(branch: u16, first: Option<u16>, last: Option<u16>) -> bool {
    first.is_none_or(|first| branch >= first) && last.is_none_or(|last| branch <= last)
}

impl Architecture {
    /// Whether a driver branch supports its GPUs. Embedded boards bring their own driver.
    pub fn is_served_by(&self, branch: u16) -> bool {
        self.embedded.is_none()
            && is_within(branch, self.first_driver_branch, self.last_driver_branch)
    }
}

impl DriverBranch {
    /// Whether NVIDIA no longer supports it on a day, `2026-11-20`: by the published end of life,
    /// otherwise after a year without a release.
    pub fn is_over(&self, today: &str) -> bool {
        if let Some(end) = &self.end_of_life {
            // Compared as text: `2026-06` is over on `2026-11-20`.
            return end.as_str() < &today[..end.len().min(today.len())];
        }
        // Until the same day of the next year.
        let last = self.latest_release.as_deref().and_then(year_and_day);
        match (last, year_and_day(today)) {
            (Some((year, day)), Some(today)) => (year + 1, day) < today,
            _ => true,
        }
    }

    /// Whether it was released with this CUDA or a newer one, if that is known. Newer ones run
    /// through CUDA's minor-version compatibility, which does not load PTX.
    pub fn is_native(&self, cuda: CudaVersion) -> Option<bool> {
        self.max_cuda.map(|native| cuda.series() <= native.series())
    }
}

impl CudaRelease {
    /// Whether a driver runs programs of this release, possibly only through minor-version
    /// compatibility.
    pub fn runs_on(&self, driver: DriverVersion) -> bool {
        driver >= self.minimum_driver
    }
}

impl Database {
    /// The newest release of the series of a CUDA.
    pub fn newest_of_series(&self, cuda: CudaVersion) -> Option<&CudaRelease> {
        self.cuda
            .iter()
            .find(|release| release.version.series() == cuda.series())
    }

    /// Whether a release of a driver branch is known: one may be announced only.
    pub fn has_drivers_of(&self, branch: u16) -> bool {
        self.drivers
            .iter()
            .any(|release| release.version.branch == branch)
    }

    /// Whether one is known for machines of this architecture.
    pub fn has_drivers_for(&self, branch: u16, arch: &str) -> bool {
        self.drivers
            .iter()
            .filter(|release| release.version.branch == branch)
            .flat_map(|release| &release.artifacts)
            .any(|file| *file.artifact.arch == *arch)
    }
}

fn year_and_day(date: &str) -> Option<(u16, &str)> {
    let (year, day) = date.split_at_checked(4)?;
    Some((year.parse().ok()?, day))
}
