//! Chooses the toolkit that fits a driver, the GPUs, and the host's compiler and C library.

use super::component::{Part, parts, published};
use super::driver::Candidate;
use super::known_host::KnownHost;
use super::refusal::Refusal;
use super::wanted::{WantedAddOn, wanted};
use super::{JetsonBoard, Request, TargetGpu, ToolkitMethod, toolkit_repository};
use gpusetup_database::compat::{
    AddOnId, Architecture, Component, ComponentRelease, CudaArtifact, CudaRelease, Database,
    Distribution, NotTargeted, PackageRepository, Published, PublishedToolkit, ToolkitPackages,
    targets as targets_capability,
};
use gpusetup_database::version::{CudaVersion, Want, dotted};
use gpusetup_host::{Facts, Toolkit as InstalledToolkit};
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// The input of the search for toolkit and add-ons, computed once.
pub(crate) struct SearchContext<'a, 'f> {
    /// The compatibility database.
    pub(crate) database: &'a Database,
    /// The facts about the host.
    pub(crate) facts: &'f Facts,
    pub(crate) request: &'f Request,
    /// The distinct GPUs, each with its index and its architecture.
    pub(crate) kinds: Vec<(usize, &'f TargetGpu, Option<&'a Architecture>)>,
    /// The machine architecture as in the names of CUDA's files.
    pub(crate) arch: &'f str,
    /// What is published for the machine architecture.
    pub(crate) published: Published<'a>,
    distribution: Option<&'a Distribution>,
    /// The major version of the default gcc, or of the one that the prerequisites would install.
    gcc: Option<u16>,
    /// The version of the host's C library.
    pub(crate) glibc: Option<(u32, u32)>,
    /// The requested components; empty for the whole toolkit.
    pub(crate) named: Rc<[&'a Component]>,
    /// Whether the library that the installers in CUDA's newer runfiles load is installed, or a
    /// package provides it.
    has_libxml2: bool,
    /// The repository that the toolkit is requested from.
    packages: Option<(&'a PackageRepository, &'a ToolkitPackages)>,
    /// The toolkits already installed in the prefix that can satisfy the request.
    installed: Vec<&'f InstalledToolkit>,
    /// The series of the one that is the default.
    default: Option<CudaVersion>,
    /// The requested add-ons, in the database's order.
    pub(crate) add_ons: Vec<WantedAddOn<'a>>,
}

impl<'a, 'f> SearchContext<'a, 'f> {
    /// For a host and a request.
    pub(crate) fn new(
        host: &KnownHost<'a, 'f>,
        request: &'f Request,
        gpus: &'f [Rc<TargetGpu>],
    ) -> Self {
        let KnownHost {
            database,
            facts,
            distribution,
            ..
        } = *host;
        // Unknown names were refused earlier.
        let named = host.named(request).unwrap_or_default();
        Self {
            installed: facts
                .toolkits
                .iter()
                .filter(|t| t.has_nvcc || !named.is_empty() && t.components.is_some())
                .filter(|t| t.path.parent() == Some(&request.prefix))
                .collect(),
            default: facts
                .default_toolkit(&request.prefix)
                .map(|toolkit| toolkit.version.series()),
            kinds: TargetGpu::kinds(gpus)
                .map(|(n, card)| (n, card, architecture(database, card)))
                .collect(),
            arch: super::cuda_arch(&facts.machine.arch),
            gcc: facts
                .gcc_major()
                .or_else(|| distributions_gcc(distribution, facts)),
            glibc: facts.glibc.as_deref().map(dotted),
            has_libxml2: facts.libxml2 == Some(true)
                || distribution.map_or(facts.libxml2 != Some(false), |d| d.libxml2.is_some()),
            packages: (request.toolkit_method == ToolkitMethod::Repository)
                .then(|| toolkit_repository(database, distribution, facts))
                .flatten(),
            add_ons: wanted(database, host.published, facts, request),
            named,
            published: host.published,
            database,
            facts,
            request,
            distribution,
        }
    }

    /// Whether an installed toolkit is preferred to a newer one.
    fn keeps_toolkits(&self) -> bool {
        self.request.keeps(&self.request.cuda)
    }

    /// Whether the whole toolkit of a release comes from its runfile.
    fn runs_runfile(&self, release: &CudaRelease) -> bool {
        (self.has_libxml2 || !release.installer_loads_libxml2())
            && self.request.toolkit_method != ToolkitMethod::Components
    }

    /// The installed toolkit of this release in the prefix.
    pub(crate) fn installed(&self, release: CudaVersion) -> Option<&'f InstalledToolkit> {
        self.installed.iter().copied().find(|t| {
            t.version.series() == release.series()
                && (t.version == release || t.version.patch.is_none())
        })
    }

    /// Whether a release that cannot be had in the preferred way may come from archives.
    pub(crate) fn may_take_archives(&self) -> bool {
        self.request.toolkit_method.is_auto() && self.named.is_empty() && self.packages.is_none()
    }

    /// The archives of a release's components, if it has a compiler for this machine: that of a
    /// newer release may have some for others alone.
    fn whole_archives(&self, release: &CudaRelease) -> Option<&'a ComponentRelease> {
        let compiler = self.database.component_named("nvcc")?;
        let archives = self.archives(release)?;
        let found = archives.component(compiler)?.archive(self.arch);
        found.map(|_| archives)
    }

    /// The archives of a release's components, for all architectures.
    fn archives(&self, release: &CudaRelease) -> Option<&'a ComponentRelease> {
        self.database.component_release(release.version)
    }

    /// The components that a toolkit is assembled from, if archives of its release are known: the
    /// requested ones or, if its runfile does not run, all of them, or those of the installed
    /// toolkit.
    pub(crate) fn parts(&self, toolkit: &Toolkit<'a>, add_ons: &[AddOnId]) -> Vec<Part<'a>> {
        let is_whole = self.named.is_empty();
        let installed = self.installed(toolkit.release.version);
        let otherwise = self.runs_runfile(toolkit.release) || toolkit.packages.is_some();
        if is_whole && otherwise && !toolkit.by_archives {
            return Vec::new();
        }
        let Some(release) = self.archives(toolkit.release) else {
            return Vec::new();
        };
        if !is_whole {
            return parts(
                self.database,
                release,
                &self.named,
                add_ons,
                self.arch,
                installed,
            );
        }
        let there = match installed.map(|toolkit| &toolkit.components) {
            None => None,
            Some(None) => return Vec::new(),
            Some(Some(there)) => Some(there),
        };
        let mut named: Vec<_> = published(self.database, release, self.arch);
        if let Some(there) = there {
            named.retain(|c| there.iter().any(|name| c.is_called(name)));
        }
        parts(self.database, release, &named, &[], self.arch, installed)
    }
}

/// A toolkit that fits.
#[derive(Debug, Clone, Copy)]
pub struct Toolkit<'a> {
    /// The release.
    pub release: &'a CudaRelease,
    /// Its runfile; none for an installed toolkit without a known runfile.
    pub artifact: Option<&'a CudaArtifact>,
    /// The repository whose packages install it, if it is not installed yet.
    pub packages: Option<&'a PackageRepository>,
    /// The version if it is already installed; only the series if its files do not name the
    /// release.
    pub(crate) installed: Option<CudaVersion>,
    /// The major version of the gcc that it needs in addition to the default one.
    pub side_gcc: Option<u16>,
    /// It comes from archives, because its runfile cannot be had.
    pub(crate) by_archives: bool,
}

impl Toolkit<'_> {
    /// Whether it is already installed.
    pub fn is_kept(&self) -> bool {
        self.installed.is_some()
    }

    /// Its version, as far as it is known.
    pub fn version(&self) -> CudaVersion {
        self.installed.unwrap_or(self.release.version)
    }

    /// Its directory below the prefix.
    pub(crate) fn directory(&self, prefix: &Path) -> PathBuf {
        prefix.join(self.release.version.directory())
    }
}

/// All releases in order of preference: installed ones (unless an upgrade is requested), those
/// native to the driver's branch, then those that run through minor-version compatibility; in each
/// group the newest first. `driver` is none if no driver is chosen.
pub(crate) fn preferred<'a, 's>(
    on: &'s SearchContext<'a, '_>,
    driver: Option<&'s Candidate>,
) -> impl Iterator<Item = PublishedToolkit<'a>> + use<'a, 's> {
    // Newest first, so that those native to the branch come last.
    let later = on
        .published
        .toolkits()
        .position(|t| driver.is_none_or(|d| is_native(t.release, d)));
    let later = later.unwrap_or_else(|| on.published.toolkits().count());
    let natives_first = move || {
        on.published
            .toolkits()
            .skip(later)
            .chain(on.published.toolkits().take(later))
    };
    let keeps = on.keeps_toolkits() && !on.installed.is_empty();
    let is_kept = move |t: &PublishedToolkit| keeps && on.installed(t.release.version).is_some();
    let kept = move || {
        keeps
            .then(natives_first)
            .into_iter()
            .flatten()
            .filter(is_kept)
    };
    // The default one, which somebody may have chosen, stays the default.
    let is_default = move |t: &PublishedToolkit| on.default == Some(t.release.version.series());
    let kept = kept()
        .filter(is_default)
        .chain(kept().filter(move |t| !is_default(t)));
    kept.chain(natives_first().filter(move |t| !is_kept(t)))
}

/// The toolkit of a release as it is preferred, or why it is refused.
pub(crate) fn toolkit<'a>(
    on: &SearchContext<'a, '_>,
    driver: Option<&Candidate>,
    published: PublishedToolkit<'a>,
) -> Result<Toolkit<'a>, Refusal> {
    toolkit_by(on, driver, published, false)
}

/// The toolkit of a release, in the preferred way or from archives, or why it is refused.
pub(crate) fn toolkit_by<'a>(
    on: &SearchContext<'a, '_>,
    driver: Option<&Candidate>,
    published: PublishedToolkit<'a>,
    by_archives: bool,
) -> Result<Toolkit<'a>, Refusal> {
    let PublishedToolkit {
        release,
        runfile: artifact,
        ..
    } = published;
    let installed = on.installed(release.version).map(|toolkit| toolkit.version);
    let side_gcc = examine(on, driver, published, installed.is_some(), by_archives)?;
    let packages = on
        .packages
        .filter(|_| installed.is_none())
        .map(|(repository, _)| repository);
    Ok(Toolkit {
        release,
        artifact,
        packages,
        installed,
        side_gcc,
        by_archives: by_archives && installed.is_none(),
    })
}

/// The additional gcc that the release needs, or why the release is refused.
fn examine(
    on: &SearchContext,
    driver: Option<&Candidate>,
    published: PublishedToolkit,
    kept: bool,
    by_archives: bool,
) -> Result<Option<u16>, Refusal> {
    let PublishedToolkit {
        release,
        runfile: artifact,
        ..
    } = published;
    fits_gpus_and_driver(on, driver, release)?;
    if !on.request.cuda.accepts(release.version) {
        return Err(Refusal::NotWanted);
    }
    if let Some(have) = on.glibc {
        works_with_glibc(on, &published, have)?;
    }
    let by_runfile = is_by_runfile(on, &published, kept, by_archives)?;
    let side_gcc = match host_compiler(on, release) {
        // Its owner compiles with another one, or not at all; a warning says so.
        Err(Refusal::OldCompiler(..)) if kept => None,
        side_gcc => side_gcc?,
    };
    // Last: a release refused for its checksum fits in every other way.
    match artifact.filter(|a| by_runfile && !a.artifact.is_verifiable()) {
        Some(_) => Err(Refusal::NoSum(
            "the checksum of its runfile is not known, so it cannot be verified",
        )),
        None => Ok(side_gcc),
    }
}

/// Whether the release comes from its runfile, or why it cannot be had as it is wanted.
fn is_by_runfile(
    on: &SearchContext,
    published: &PublishedToolkit,
    kept: bool,
    by_archives: bool,
) -> Result<bool, Refusal> {
    let release = published.release;
    let has_whole = on
        .installed(release.version)
        .is_some_and(|t| t.components.is_none());
    if !on.named.is_empty() && !has_whole {
        has_all(on.archives(release), &on.named, on.arch)?;
    }
    if kept || !on.named.is_empty() {
        return Ok(false);
    }
    if let Some((_, packages)) = on.packages {
        are_packaged(on, packages, release)?;
        return Ok(false);
    }
    if by_archives || !on.runs_runfile(release) {
        has_archives(on.request.toolkit_method, on.whole_archives(release))?;
        return Ok(false);
    }
    match published.runfile {
        Some(_) => Ok(true),
        None => Err(Refusal::NoRunfile),
    }
}

fn fits_gpus_and_driver(
    on: &SearchContext,
    driver: Option<&Candidate>,
    release: &CudaRelease,
) -> Result<(), Refusal> {
    for (n, card, architecture) in &on.kinds {
        targets(release, *n, card, *architecture)?;
        serves_board(on, release, *n, *architecture)?;
    }
    driver.map_or(Ok(()), |driver| runs_on(release, driver))
}

fn works_with_glibc(
    on: &SearchContext,
    published: &PublishedToolkit,
    have: (u32, u32),
) -> Result<(), Refusal> {
    if published.glibc_min.is_some_and(|min| have < min) {
        return Err(Refusal::OldLibrary);
    }
    let from = if on.gcc.is_some_and(|gcc| gcc < VECTOR_TYPES_GCC) {
        published.release.glibc_breaks_from.as_deref().map(dotted)
    } else {
        published.glibc_breaks_from
    };
    match from.filter(|from| have >= *from) {
        Some(_) => Err(Refusal::NewLibrary),
        None => Ok(()),
    }
}

/// The first gcc for which glibc's bits/math-vector.h declares its vector types on aarch64
/// (`__GNUC_PREREQ (9, 0)`), which an older nvcc does not know (`glibc_breaks_from_sbsa`).
const VECTOR_TYPES_GCC: u16 = 9;

/// Refuses a release that has to come from archives, and has none.
fn has_archives(method: ToolkitMethod, archives: Option<&ComponentRelease>) -> Result<(), Refusal> {
    match (method, archives) {
        (ToolkitMethod::Runfile, _) => Err(Refusal::NoInstallerLibrary),
        (ToolkitMethod::Components, None) => Err(Refusal::NoArchives),
        (_, None) => Err(Refusal::NoInstallerLibrary),
        (_, Some(_)) => Ok(()),
    }
}

/// Refuses a release that a repository does not install: of a series that no source names for it,
/// or with a newer update, whose packages its own package asks for.
fn are_packaged(
    on: &SearchContext,
    packages: &ToolkitPackages,
    release: &CudaRelease,
) -> Result<(), Refusal> {
    let series = release.version.series();
    if series < packages.since.series() {
        return Err(Refusal::NotPackagedBefore(packages.since));
    }
    let updates = on
        .published
        .toolkits()
        .map(|t| t.release.version)
        .filter(|v| v.series() == series);
    match updates.max().filter(|newest| *newest > release.version) {
        Some(newest) => Err(Refusal::OlderUpdate(newest)),
        None => Ok(()),
    }
}

/// Refuses a release that lacks archives of the requested components.
fn has_all(
    release: Option<&ComponentRelease>,
    named: &[&Component],
    arch: &str,
) -> Result<(), Refusal> {
    let Some(release) = release else {
        return Err(Refusal::NoArchives);
    };
    named
        .iter()
        .position(|c| {
            release
                .component(c)
                .and_then(|part| part.archive(arch))
                .is_none()
        })
        .map_or(Ok(()), |n| Err(Refusal::NoComponent(n)))
}

/// Whether the release targets the GPU.
pub fn serves(database: &Database, release: &CudaRelease, card: &TargetGpu) -> bool {
    targets(release, 0, card, architecture(database, card)).is_ok()
}

/// Why the release does not target the GPU; none if it does.
pub fn refused_series(
    database: &Database,
    release: &CudaRelease,
    card: &TargetGpu,
) -> Option<String> {
    Some(
        match targets(release, 0, card, architecture(database, card)).err()? {
            Refusal::BelowLowest(_, lowest) => format!("it targets {lowest} and up"),
            Refusal::AboveHighest(_, highest) => format!("it targets {highest} at most"),
            Refusal::BeforeArchitecture(_, first) => {
                format!("CUDA {first} is the first that targets it")
            }
            Refusal::AfterArchitecture(_, last) => {
                format!("CUDA {last} is the last that targets it")
            }
            _ => "not known from any source".to_owned(),
        },
    )
}

fn architecture<'a>(database: &'a Database, card: &TargetGpu) -> Option<&'a Architecture> {
    card.capability
        .and_then(|capability| database.architecture(capability))
}

fn targets(
    release: &CudaRelease,
    n: usize,
    card: &TargetGpu,
    architecture: Option<&Architecture>,
) -> Result<(), Refusal> {
    let Some(capability) = card.capability else {
        return Err(Refusal::NoCapability(n));
    };
    targets_capability(release.version, Some(release), capability, architecture).map_err(|why| {
        match why {
            NotTargeted::BelowLowest(lowest) => Refusal::BelowLowest(n, lowest),
            NotTargeted::AboveHighest(highest) => Refusal::AboveHighest(n, highest),
            NotTargeted::BeforeFirst(first) => Refusal::BeforeArchitecture(n, first),
            NotTargeted::AfterLast(last) => Refusal::AfterArchitecture(n, last),
        }
    })
}

/// Refuses a release for servers on an embedded platform that it does not support. On other
/// machines a toolkit may compile for any platform.
fn serves_board(
    on: &SearchContext,
    release: &CudaRelease,
    n: usize,
    architecture: Option<&Architecture>,
) -> Result<(), Refusal> {
    let Some(board) = architecture.filter(|a| a.embedded.is_some() && on.arch == "sbsa") else {
        return Ok(());
    };
    let here = JetsonBoard::of(on.database, on.facts).and_then(|here| here.jetpack);
    let of_jetpack = here
        .filter(|jetpack| jetpack.uses_sbsa(board.compute_capability))
        .map(|jetpack| jetpack.cuda);
    let is_named = matches!(on.request.cuda, Want::Meeting(_));
    if let Some(cuda) =
        of_jetpack.filter(|cuda| !is_named && release.version.series() > cuda.series())
    {
        return Err(Refusal::AfterJetPack(cuda));
    }
    match board.sbsa_from.or(of_jetpack) {
        Some(first) if release.version.series() >= first.series() => Ok(()),
        first => Err(Refusal::NotForBoard(n, first)),
    }
}

/// Whether the driver runs programs built with this release, possibly only through minor-version
/// compatibility.
pub(crate) fn runs_on(release: &CudaRelease, driver: &Candidate) -> Result<(), Refusal> {
    let refusal = Refusal::OldDriver(release.minimum_driver, driver.version);
    if release.runs_on(driver.version) {
        Ok(())
    } else {
        Err(refusal)
    }
}

/// Whether the driver's branch was released with this toolkit or a newer one. Newer toolkits run
/// through CUDA's minor-version compatibility, which does not load PTX.
pub(crate) fn is_native(release: &CudaRelease, driver: &Candidate) -> bool {
    driver.branch.is_native(release.version).unwrap_or(true)
}

/// Why a newer toolkit that fits was not chosen.
pub(crate) fn passed_over(
    on: &SearchContext,
    driver: Option<&Candidate>,
    chosen: &Toolkit,
) -> Refusal {
    match driver.and_then(|d| Some((d.branch.branch, d.branch.max_cuda?))) {
        Some((branch, native)) if !(chosen.is_kept() && on.keeps_toolkits()) => {
            Refusal::NotNative(branch, native)
        }
        _ => Refusal::Installed,
    }
}

/// The newest release that is newer than the chosen one and was passed over only because gpusetup
/// cannot download or verify it, and why; none if there is no such release.
pub(crate) fn newer_without_files(
    on: &SearchContext,
    driver: Option<&Candidate>,
    chosen: &Toolkit,
) -> Option<(CudaVersion, Refusal)> {
    let must_be_native = driver.filter(|d| is_native(chosen.release, d));
    let newer = on
        .published
        .toolkits()
        .take_while(|t| t.release.version > chosen.release.version);
    let mut alike = newer.filter(|t| must_be_native.is_none_or(|d| is_native(t.release, d)));
    alike.find_map(|t| {
        let refusal = toolkit(on, driver, t)
            .err()
            .filter(|refusal| refusal.of_files().is_some())?;
        Some((t.release.version, refusal))
    })
}

/// The major version of the distribution's default gcc, if known.
pub fn distributions_gcc(distribution: Option<&Distribution>, facts: &Facts) -> Option<u16> {
    distribution
        .and_then(|d| d.gcc)
        .or_else(|| facts.kernels_gcc())
}

/// The additional gcc needed because the default one is too new or too old: the newest installed
/// one that fits and has a C++ compiler, otherwise the newest one that can be installed.
fn host_compiler(on: &SearchContext, release: &CudaRelease) -> Result<Option<u16>, Refusal> {
    let Some(have) = on.gcc else { return Ok(None) };
    let (newest, refusal) = match (release.gcc_min, release.gcc_max) {
        (_, Some(max)) if have > max => (Some(max), Refusal::NewCompiler(max, have)),
        (Some(min), max) if have < min => (max, Refusal::OldCompiler(min, have)),
        _ => return Ok(None),
    };
    let fits = |major: &u16| {
        newest.is_none_or(|max| *major <= max) && release.gcc_min.is_none_or(|min| *major >= min)
    };
    let there = on
        .facts
        .compilers
        .iter()
        .filter(|c| on.facts.side_compiler(c.major) == Some(c))
        .map(|c| c.major);
    let side = there
        .filter(fits)
        .max()
        .or_else(|| packaged(on, release.gcc_max).into_iter().filter(fits).max());
    side.map(Some).ok_or(refusal)
}

/// The additional gcc versions that the distribution packages. If no source lists them: `max`,
/// unless it is newer than the default one, or much older.
fn packaged(on: &SearchContext, max: Option<u16>) -> Vec<u16> {
    let Some(distribution) = on.distribution.filter(|d| d.gcc_package.is_some()) else {
        return Vec::new();
    };
    if !distribution.gccs.is_empty() {
        return distribution.gccs.clone();
    }
    let default = distributions_gcc(on.distribution, on.facts);
    let recent = max.filter(|max| {
        default.is_none_or(|default| (default.saturating_sub(2)..=default).contains(max))
    });
    Vec::from_iter(recent)
}
