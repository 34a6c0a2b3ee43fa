//! Lookups in the database.

use super::{
    Architecture, Artifact, CudaGuide, CudaRelease, Database, Distribution, DriverBranch,
    DriverRelease, DriverVariant, ForwardCompatibility, Framework, FrameworkRelease, Gpu,
    KernelLimit, MigProfile, ModuleFlavour, NvSwitch, PackageManager, PciDevice, Role, SourceId,
    SourceQuality, Sxid, Xid,
};
use crate::text::Text;
use crate::version::{
    ComputeCapability, CudaVersion, DriverVersion, FrameworkVersion, Requirement,
};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::fmt;

impl Database {
    /// Every file that can be downloaded.
    pub fn artifacts(&self) -> impl Iterator<Item = &Artifact> {
        let drivers = self
            .drivers
            .iter()
            .flat_map(|d| &d.artifacts)
            .map(|a| &a.artifact);
        let cuda = self.cuda_artifacts.iter().map(|a| &a.artifact);
        drivers
            .chain(cuda)
            .chain(self.add_on_artifacts.iter().map(|a| &a.artifact))
    }

    /// The URL of the file with this checksum.
    pub fn published(&self, sha256: &str) -> Option<Text> {
        let whole = self
            .artifacts()
            .find(|a| a.sha256.as_deref() == Some(sha256))
            .and_then(|a| a.url);
        whole.or_else(|| self.component_archive(sha256)?.url)
    }

    /// The GPU for a device and board: the entry for that board, or else the one for all other
    /// boards of the device.
    pub fn gpu(&self, device: PciDevice, subsystem: Option<&str>) -> Option<&Gpu> {
        let start = self.gpus.partition_point(|g| g.device < device);
        let mut of_device = self.gpus[start..].iter().take_while(|g| g.device == device);
        of_device
            .clone()
            .find(|g| g.subsystem.is_some() && g.subsystem.as_deref() == subsystem)
            .or_else(|| of_device.find(|g| g.subsystem.is_none()))
    }

    /// The framework with this name or alias.
    pub fn framework(&self, name: &str) -> Option<&Framework> {
        self.frameworks
            .iter()
            .find(|f| {
                f.name.eq_ignore_ascii_case(name)
                    || f.aliases.iter().any(|a| a.eq_ignore_ascii_case(name))
            })
            .or_else(|| self.framework(without_cuda(name)?))
    }

    /// The framework that the package with this name is released with: PyTorch for `torchvision`.
    pub fn framework_released_with(&self, name: &str) -> Option<&Framework> {
        let name = name.to_lowercase();
        let plain = without_cuda(&name).unwrap_or(&name);
        self.frameworks
            .iter()
            .find(|framework| framework.siblings.iter().any(|sibling| sibling == plain))
    }

    /// The release selected by `torch==2.9.1` or `torch`: the newest of
    /// [`Self::framework_releases`].
    pub fn framework_release(&self, wish: &str) -> Option<&FrameworkRelease> {
        self.framework_releases(wish).next()
    }

    /// The releases selected by `torch==2.9`, `torch 2.9`, `torch>=2.4, <2.6`, `torch~=2.4` or
    /// `torch`, newest first. Versions match if one is a prefix of the other: `torch==2.9.1`
    /// matches the record for all 2.9.
    pub fn framework_releases<'a>(
        &'a self,
        wish: &str,
    ) -> impl Iterator<Item = &'a FrameworkRelease> {
        let (name, asked) = framework_and_version(wish);
        let clauses = Clause::all(without_label(asked));
        self.framework(name)
            .into_iter()
            .flat_map(|f| &f.releases)
            .filter(move |r| clauses.iter().all(|clause| clause.is_met_by(&r.version)))
    }

    /// The guide that omits this system: the newest of the same major version that was read
    /// completely and is not newer than the toolkit. None if that guide or an older one, read
    /// completely or in part, lists the system under one of its `ids`; or a newer one that is
    /// nearer to the toolkit.
    pub fn guide_without(
        &self,
        cuda: CudaVersion,
        arch: &str,
        ids: &[&str],
        version: &str,
    ) -> Option<&CudaGuide> {
        let of_major = self
            .cuda_guides
            .iter()
            .filter(|g| g.cuda.major == cuda.major);
        let mut guides = of_major.clone().filter(|g| g.cuda <= cuda.series());
        let nearest = guides.find(|g| g.complete)?;
        // Point releases count as equal: Ubuntu 24.04.3 as 24.04, RHEL 9.6 as 9.
        let count = if ids.contains(&"ubuntu") { 2 } else { 1 };
        // A newer guide counts where it is nearer to the toolkit than that one.
        let distance = cuda.minor - nearest.cuda.minor;
        let mut systems = of_major
            .filter(|g| g.cuda.minor < cuda.minor + distance || g.cuda <= cuda.series())
            .flat_map(|g| &g.systems);
        let is_listed = systems.any(|s| {
            ids.contains(&s.id.as_str())
                && s.arch == arch
                && s.version
                    .split('.')
                    .take(count)
                    .eq(version.split('.').take(count))
        });
        (!is_listed).then_some(nearest)
    }

    /// The oldest driver that runs programs of a toolkit: by its release, or by the newest of its
    /// series if the release is unknown.
    pub fn oldest_driver(&self, cuda: CudaVersion) -> Option<DriverVersion> {
        let release = self.cuda.iter().find(|release| release.version == cuda);
        Some(
            release
                .or_else(|| self.newest_of_series(cuda))?
                .minimum_driver,
        )
    }

    /// The package that lets programs of a CUDA series run on kernel modules of this branch.
    pub fn forward_compatibility(
        &self,
        cuda: CudaVersion,
        branch: u16,
    ) -> Option<&ForwardCompatibility> {
        self.forward_compatibility
            .iter()
            .find(|f| f.cuda == cuda.series() && f.base_branches.contains(&branch))
    }

    /// The name of a package or module in NVIDIA's own repositories, for this driver.
    pub fn name_of(
        &self,
        role: Role,
        manager: PackageManager,
        driver: DriverVersion,
    ) -> Option<String> {
        let rename = self
            .renames
            .iter()
            .find(|r| r.role == role && r.package_manager.is_none_or(|m| m == manager))?;
        let name = if driver >= rename.from {
            &rename.after
        } else {
            &rename.before
        };
        Some(name.replace("{branch}", &driver.branch.to_string()))
    }

    /// The MIG profiles of a GPU, smallest first. Without its subsystem (`10de:1450`), those that
    /// all boards with this device id offer.
    pub fn mig_profiles(
        &self,
        device: PciDevice,
        subsystem: Option<&str>,
    ) -> impl Iterator<Item = &MigProfile> {
        let board = subsystem
            .and_then(|id| u16::from_str_radix(id.split(':').nth(1)?, 16).ok())
            .map(PciDevice);
        self.mig_profiles.iter().filter(move |p| {
            p.gpus.contains(&device)
                && (p.subsystems.is_empty() || board.is_some_and(|b| p.subsystems.contains(&b)))
        })
    }

    /// The compute capability's record.
    pub fn architecture(&self, capability: ComputeCapability) -> Option<&Architecture> {
        // Oldest first.
        let at = self
            .architectures
            .binary_search_by_key(&capability, |a| a.compute_capability)
            .ok()?;
        Some(&self.architectures[at])
    }

    /// The driver's name for an NVSwitch error.
    pub fn sxid(&self, number: u32) -> Option<&Sxid> {
        self.sxids.iter().find(|x| x.sxid == number)
    }

    /// The record of an Xid.
    pub fn xid(&self, number: u16) -> Option<&Xid> {
        self.xids.iter().find(|x| x.xid == number)
    }

    /// Whether a GPU's subsystem (`10de:14b6`) is a virtual GPU.
    pub fn is_virtual_gpu(&self, device: PciDevice, subsystem: &str) -> bool {
        let id = subsystem
            .strip_prefix("10de:")
            .and_then(|id| u16::from_str_radix(id, 16).ok())
            .map(PciDevice);
        let of_device = self.virtual_gpus.iter().find(|v| v.device == device);
        of_device
            .zip(id)
            .is_some_and(|(v, id)| v.subsystems.contains(&id))
    }

    /// Whether a published list of the GPUs supported by NVIDIA's drivers contains this one.
    pub fn is_listed(&self, gpu: &Gpu) -> bool {
        gpu.sources
            .iter()
            .any(|id| self.source(id).is_some_and(|source| source.lists_gpus))
    }

    /// How a fact is known: by its best source.
    pub(crate) fn known(&self, sources: &[SourceId]) -> Option<SourceQuality> {
        self.sources
            .iter()
            .filter(|source| sources.contains(&source.id))
            .map(|source| source.known)
            .min()
    }

    /// The NVSwitch with this device id.
    pub fn nvswitch(&self, device: PciDevice) -> Option<&NvSwitch> {
        self.nvswitches.iter().find(|s| s.device == device)
    }

    /// The driver branch with this number.
    pub fn branch(&self, branch: u16) -> Option<&DriverBranch> {
        // Newest first.
        let at = self
            .driver_branches
            .binary_search_by(|b| branch.cmp(&b.branch))
            .ok()?;
        Some(&self.driver_branches[at])
    }

    /// The driver release with this version.
    pub fn driver(&self, version: DriverVersion) -> Option<&DriverRelease> {
        // Newest first.
        let at = self
            .drivers
            .binary_search_by(|r| version.cmp(&r.version))
            .ok()?;
        Some(&self.drivers[at])
    }

    /// The CUDA release.
    pub fn cuda(&self, version: CudaVersion) -> Option<&CudaRelease> {
        // Newest first.
        let at = self
            .cuda
            .binary_search_by(|c| version.cmp(&c.version))
            .ok()?;
        Some(&self.cuda[at])
    }

    /// The distribution for an os-release: by its own id, or else by the nearest relative's.
    pub fn distribution(&self, id: &str, version: &str, like: &[String]) -> Option<&Distribution> {
        let major = version.split('.').next().unwrap_or(version);
        let mut ids = std::iter::once(id).chain(like.iter().map(String::as_str));
        // A relative with a record for this release is better than a record for all releases. Among
        // those, the nearest relative counts: a distant one cannot decide whether it is older or
        // newer.
        ids.clone()
            .flat_map(|id| [(id, version), (id, major)])
            .find_map(|(id, version)| self.distribution_record(id, version))
            .or_else(|| {
                let known = ids.find(|id| self.distributions.iter().any(|d| d.id == *id))?;
                self.distribution_record(known, "*")
            })
    }

    fn distribution_record(&self, id: &str, version: &str) -> Option<&Distribution> {
        self.distributions
            .iter()
            .find(|d| d.id == id && d.version == version)
    }
}

impl Gpu {
    /// The PCI id and what distinguishes it from others with its name: `GeForce GT 730 (10de:0f02,
    /// 2.1, driver up to 390)`.
    pub(super) fn described(&self) -> String {
        let mut parts = vec![format!("10de:{}", self.device)];
        parts.extend(self.subsystem.as_ref().map(|id| format!("board {id}")));
        parts.extend(
            self.compute_capability
                .map(|c| format!("compute capability {c}")),
        );
        parts.extend(
            self.last_driver_branch
                .as_ref()
                .map(|b| format!("driver branch {b} at most")),
        );
        parts.extend(
            self.only_on
                .as_ref()
                .map(|machine| format!("on {machine} only")),
        );
        format!("{} ({})", self.name, parts.join(", "))
    }
}

impl Distribution {
    /// The packages of gcc and g++ in this major version, `gcc-12` and `g++-12`; none if they are
    /// known not to exist.
    pub fn compiler_packages(&self, major: u16) -> Option<[String; 2]> {
        let exist = self.gccs.is_empty() || self.gccs.contains(&major);
        let [gcc, gxx] = [self.gcc_package.as_ref()?, self.gxx_package.as_ref()?];
        exist.then(|| [gcc, gxx].map(|pattern| pattern.replace("{major}", &major.to_string())))
    }
}

impl KernelLimit {
    /// Whether the modules do not build on this kernel release, `5.14.0-570.12.1.el9_6.x86_64`.
    pub fn excludes(&self, release: &str) -> bool {
        let is_of_distribution = release.split('.').any(|part| {
            part.strip_prefix(&self.distribution)
                .is_some_and(|minor| minor.is_empty() || minor.starts_with('_'))
        });
        is_of_distribution && first_numbers(release).ge(first_numbers(&self.from))
    }
}

fn first_numbers(text: &str) -> impl Iterator<Item = u32> {
    text.split(|c: char| !c.is_ascii_digit())
        .map_while(|number| number.parse().ok())
}

/// A part of what is asked of a framework's version.
enum Clause {
    /// `==2.9`, `2.9.*`, `2.9`, or nothing: the versions that begin so.
    Is(String),
    /// `!=2.9`
    IsNot(String),
    /// `>=2.9`, `~=2.9`, and the version that such a range begins with; none if it cannot be read.
    Within(Option<Requirement<FrameworkVersion>>, String),
}

/// Whether a version, or one of a series, meets a requirement in pip's notation, `>=2.4,<3`.
pub fn meets_requirement(version: &str, requirement: &str) -> bool {
    let mut clauses = Clause::all(requirement).into_iter();
    clauses.all(|clause| clause.is_met_by(version))
}

impl Clause {
    fn all(requirement: &str) -> Vec<Self> {
        requirement.split(',').map(Self::of).collect()
    }

    fn of(text: &str) -> Self {
        let text = text.trim();
        match text.strip_prefix("!=") {
            Some(rest) => Self::IsNot(without_star(rest)),
            None if text.starts_with(['<', '>', '~', '^']) => {
                let lowest = text
                    .strip_prefix(">=")
                    .or_else(|| text.strip_prefix("~="))
                    .unwrap_or_default();
                Self::Within(text.parse().ok(), lowest.trim().to_owned())
            }
            None => Self::Is(without_star(text.trim_start_matches('='))),
        }
    }

    fn is_met_by(&self, version: &str) -> bool {
        match self {
            Self::Is(asked) => has_start(version, asked),
            // A record stands for all versions of a series; one of them is not the series.
            Self::IsNot(asked) => {
                !(has_start(version, asked)
                    && asked.split('.').count() <= version.split('.').count())
            }
            Self::Within(None, _) => false,
            Self::Within(Some(range), lowest) => {
                // `>=2.5.1` is met by the newest version of the series 2.5.
                let has_lowest = lowest
                    .strip_prefix(version)
                    .is_some_and(|rest| rest.starts_with('.'));
                has_lowest || version.parse().is_ok_and(|version| range.matches(version))
            }
        }
    }
}

fn without_star(version: &str) -> String {
    version.trim().trim_end_matches(".*").to_owned()
}

/// Whether two versions have the same numbers, as far as both have any.
fn has_start(version: &str, asked: &str) -> bool {
    version
        .split('.')
        .zip(asked.split('.').filter(|number| !number.is_empty()))
        .all(|(a, b)| a == b)
}

/// Splits `torch==2.9`, `torch>=2.4, <2.6`, `torch 2.9` and `jax[cuda13]==0.7` into the name and
/// the version requirement. Extras in brackets are pip's: they select among builds, and so does a
/// plan.
pub fn framework_and_version(wish: &str) -> (&str, &str) {
    let (name, _, version) = parts(wish);
    (name, version)
}

/// The name in a wish, the name with pip's extras, and the version requirement.
fn parts(wish: &str) -> (&str, &str, &str) {
    // `; python_version >= '3.10'` is a condition of pip's.
    let wish = wish.split(';').next().unwrap_or_default().trim();
    let end = wish
        .find(|c: char| c.is_whitespace() || "=<>~^![".contains(c))
        .unwrap_or(wish.len());
    let (name, rest) = wish.split_at(end);
    if !rest.trim_start().starts_with('[') {
        return (name, name, rest.trim());
    }
    let Some(extras) = rest.find(']') else {
        return (name, name, "");
    };
    (name, &wish[..=end + extras], rest[extras + 1..].trim())
}

/// A package's name without the CUDA that it is for: `cudf` for `cudf-cu12`.
fn without_cuda(name: &str) -> Option<&str> {
    name.rsplit_once("-cu").map(|(start, _)| start)
}

/// A wish without its version: the name and pip's extras, `jax[cuda13]`.
pub fn package_of(wish: &str) -> &str {
    parts(wish).1
}

/// The CUDA that the name of a package or its extras have: 12 for `cudf-cu12`, `cupy-cuda12x` and
/// `jax[cuda12]`, 118 for `x-cu118`.
pub fn named_cuda(wish: &str) -> Option<u16> {
    let package = package_of(wish).to_lowercase();
    let (_, rest) = package.rsplit_once(['[', '-'])?;
    let digits = rest
        .strip_prefix("cuda")
        .or_else(|| rest.strip_prefix("cu"))?;
    let end = digits
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(digits.len());
    digits[..end].parse().ok()
}

/// A wish or its version without the build that it names.
pub fn without_label(wish: &str) -> &str {
    wish.split_once('+').map_or(wish, |(before, _)| before)
}

/// The build that a wish names after its version, as PyTorch's wheels do: `cu128` of
/// `torch==2.9+cu128`.
pub fn build_label(wish: &str) -> Option<&str> {
    framework_and_version(wish)
        .1
        .split_once('+')
        .map(|(_, label)| label.trim())
}

impl DriverVariant {
    /// The kinds that are not a companion.
    const OF_DRIVERS: [Self; 6] = [
        Self::Full,
        Self::NoCompat32,
        Self::Grid,
        Self::GridGcp,
        Self::RedistArchive,
        Self::ExtractedFromCudaRunfile,
    ];

    /// The kind with this name, unless it is a companion.
    pub(super) fn of_driver(name: &str) -> Option<Self> {
        Self::OF_DRIVERS
            .into_iter()
            .find(|variant| variant.as_str() == name)
    }

    /// The name used in files.
    fn as_str(&self) -> &str {
        match self {
            Self::Full => "full",
            Self::NoCompat32 => "no-compat32",
            Self::Grid => "grid",
            Self::GridGcp => "grid-gcp",
            Self::RedistArchive => "redist-archive",
            Self::ExtractedFromCudaRunfile => "extracted-from-cuda-runfile",
            Self::Companion(id) => id.as_str(),
        }
    }
}

impl Serialize for DriverVariant {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for DriverVariant {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = String::deserialize(d)?;
        match Self::of_driver(&text) {
            Some(variant) => Ok(variant),
            None => text.parse().map(Self::Companion).map_err(de::Error::custom),
        }
    }
}

impl Artifact {
    /// Whether it can be downloaded and verified; nothing else is ever chosen.
    pub fn is_verifiable(&self) -> bool {
        self.url.is_some() && self.sha256.is_some()
    }
}

impl fmt::Display for PciDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04x}", self.0)
    }
}

impl fmt::Display for PackageManager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Apt => "apt",
            Self::Dnf => "dnf",
            Self::Tdnf => "tdnf",
            Self::Zypper => "zypper",
        })
    }
}

impl fmt::Display for ModuleFlavour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Open => "open",
            Self::Proprietary => "proprietary",
        })
    }
}

impl Serialize for PciDevice {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        if s.is_human_readable() {
            s.collect_str(self)
        } else {
            self.0.serialize(s)
        }
    }
}

impl<'de> Deserialize<'de> for PciDevice {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        if !d.is_human_readable() {
            return u16::deserialize(d).map(Self);
        }
        let text = String::deserialize(d)?;
        let digits = text.strip_prefix("10de:").unwrap_or(&text);
        match u16::from_str_radix(digits, 16) {
            Ok(id) if digits.len() == 4 => Ok(Self(id)),
            _ => Err(de::Error::custom(format!(
                "`{text}` is not four hexadecimal digits"
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compat::known;

    #[test]
    fn every_kind_of_download_is_known_by_its_sum() {
        let database = known();
        let release = &database.component_releases[0];
        let component = &release.components[0];
        let archive = release.artifact(component, &component.archives[0]);
        let runfile = database
            .cuda_artifacts
            .iter()
            .map(|a| &a.artifact)
            .find(|a| a.is_verifiable())
            .expect("a runfile");
        for artifact in [&archive, runfile] {
            let sum = artifact.sha256.as_deref().expect("a sum");
            assert_eq!(database.published(sum), artifact.url, "{}", artifact.file);
        }
        assert_eq!(database.published(&"0".repeat(64)), None);
    }

    #[test]
    fn a_distributions_kernels_are_compared_by_their_builds() {
        let limit = KernelLimit {
            distribution: "el9".into(),
            from: "5.14.0-570".into(),
            sources: Vec::new(),
        };
        for (kernel, excluded) in [
            ("5.14.0-503.40.1.el9_5.x86_64", false),
            ("5.14.0-570.12.1.el9_6.x86_64", true),
            ("5.14.0-687.el9.x86_64", true),
            ("6.12.0-55.el10_0.x86_64", false),
            ("6.1.0-40-amd64", false),
        ] {
            assert_eq!(limit.excludes(kernel), excluded, "{kernel}");
        }
    }

    #[test]
    fn a_board_comes_before_its_device() {
        let database = known();
        let name = |subsystem| {
            database
                .gpu(PciDevice(0x20b2), subsystem)
                .map(|g| g.name.as_str())
        };
        assert_eq!(name(Some("10de:1463")), Some("NVIDIA A100-SXM4-80GB"));
        assert_eq!(name(Some("10de:1625")), Some("NVIDIA PG509-210"));
        assert_eq!(name(Some("1028:ffff")), name(None));
        assert_eq!(database.gpu(PciDevice(0xffff), None), None);
    }
}
