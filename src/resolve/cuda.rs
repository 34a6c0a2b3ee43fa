//! The toolkit that fits a driver, the GPUs and the host's compiler and C library.

use super::component::{Part, parts, published};
use super::driver::Candidate;
use super::known_host::KnownHost;
use super::refusal::Refusal;
use super::{Card, Request};
use crate::compat::{
    AddOnId, Architecture, Component, ComponentRelease, CudaArtifact, CudaRelease, Database, Distribution,
};
use crate::host::{Facts, Toolkit as InstalledToolkit};
use crate::version::{CudaVersion, dotted};

/// What the search for layers looks at, worked out once.
pub struct SearchContext<'a, 'f> {
    /// The facts of the field.
    pub database: &'a Database,
    /// The facts of the host.
    pub facts: &'f Facts,
    /// What was asked for.
    pub request: &'f Request,
    /// The GPUs, one of each kind: its place among all of them, and its architecture.
    pub kinds: Vec<(usize, &'f Card, Option<&'a Architecture>)>,
    /// The architecture, as CUDA's files have it.
    pub arch: &'f str,
    distribution: Option<&'a Distribution>,
    /// The default gcc, or the one that the prerequisites would bring as such.
    gcc: Option<u16>,
    /// The host's C library.
    pub glibc: Option<(u32, u32)>,
    /// The components that were named; none is the whole toolkit.
    pub named: Vec<&'a Component>,
    /// Whether the installer in CUDA's runfiles finds the library that it loads, or a package brings it.
    runfiles_run: bool,
    /// The toolkits that stand where one would go, and that have what is asked for.
    installed: Vec<&'f InstalledToolkit>,
}

impl<'a, 'f> SearchContext<'a, 'f> {
    /// For a host and a request.
    pub fn new(host: &KnownHost<'a, 'f>, request: &'f Request, cards: &'f [Card]) -> Self {
        let KnownHost { database, facts, distribution, .. } = *host;
        // Names that mean none were refused before.
        let named = super::component::named(database, request).unwrap_or_default();
        let of_use = |t: &&InstalledToolkit| t.has_nvcc || !named.is_empty() && t.components.is_some();
        let here = |t: &&InstalledToolkit| t.path.parent() == Some(&request.prefix);
        Self {
            installed: facts.toolkits.iter().filter(of_use).filter(here).collect(),
            kinds: Card::kinds(cards).map(|(n, card)| (n, card, architecture(database, card))).collect(),
            arch: super::cuda_arch(&facts.machine.arch),
            gcc: facts.gcc_major().or_else(|| distributions_gcc(distribution, facts)),
            glibc: facts.glibc.as_deref().map(dotted),
            runfiles_run: facts.libxml2 == Some(true)
                || distribution.map_or(facts.libxml2 != Some(false), |d| d.libxml2.is_some()),
            named,
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

    /// The toolkit of this release that stands where it would go.
    pub fn installed(&self, release: CudaVersion) -> Option<&'f InstalledToolkit> {
        self.installed
            .iter()
            .copied()
            .find(|t| t.version.series() == release.series() && (t.version == release || t.version.patch.is_none()))
    }

    /// What a toolkit is put together of, where archives of its release are known: the components that were named, or, where its
    /// runfile does not run, all of them, or those that are there.
    pub fn parts(&self, toolkit: &Toolkit<'a>, add_ons: &[AddOnId]) -> Vec<Part<'a>> {
        let Some(release) = toolkit.archives else { return Vec::new() };
        let installed = self.installed(toolkit.release.version);
        if !self.named.is_empty() {
            return parts(self.database, release, &self.named, add_ons, self.arch, installed);
        }
        let all = || published(self.database, release, self.arch).into_iter();
        let named: Vec<_> = match installed.map(|toolkit| &toolkit.components) {
            _ if self.runfiles_run => return Vec::new(),
            None => all().collect(),
            Some(None) => return Vec::new(),
            Some(Some(there)) => all().filter(|c| there.iter().any(|name| c.is_called(name))).collect(),
        };
        parts(self.database, release, &named, &[], self.arch, installed)
    }
}

/// A toolkit that fits.
#[derive(Debug, Clone, Copy)]
pub struct Toolkit<'a> {
    /// The release.
    pub release: &'a CudaRelease,
    /// Its runfile; none for one that is installed and of which no runfile is known here.
    pub artifact: Option<&'a CudaArtifact>,
    /// The archives of its components, where they are known.
    pub archives: Option<&'a ComponentRelease>,
    /// Of one that is there, its version: the series alone if its files do not tell the release.
    pub installed: Option<CudaVersion>,
    /// The gcc, by major version, that it needs beside the default one.
    pub side_gcc: Option<u16>,
}

impl Toolkit<'_> {
    /// It is there.
    pub fn is_kept(&self) -> bool {
        self.installed.is_some()
    }

    /// Its version, as far as it is known.
    pub fn version(&self) -> CudaVersion {
        self.installed.unwrap_or(self.release.version)
    }
}

/// Every release, in the one order of preference: those that are installed (unless newer ones were asked for), those native to the
/// driver's branch, those that run through minor-version compatibility; the newest of each first. `driver` is none when no
/// driver is to be chosen.
pub fn preferred<'a>(on: &SearchContext<'a, '_>, driver: Option<&Candidate>) -> Vec<&'a CudaRelease> {
    let is_kept = |r: &CudaRelease| on.keeps_toolkits() && on.installed(r.version).is_some();
    let mut releases: Vec<_> = on.database.cuda.iter().collect();
    // The database has the newest first, and the sort is stable.
    releases.sort_by_key(|r| (!is_kept(r), driver.is_some_and(|d| !is_native(r, d))));
    releases
}

/// The toolkit of a release, or the rule that refuses it.
pub fn toolkit<'a>(
    on: &SearchContext<'a, '_>,
    driver: Option<&Candidate>,
    release: &'a CudaRelease,
) -> Result<Toolkit<'a>, Refusal> {
    let artifact = artifact(on, release.version);
    let installed = on.installed(release.version).map(|toolkit| toolkit.version);
    let archives = on.database.component_release(release.version);
    let side_gcc = examine(on, driver, release, artifact, installed.is_some())?;
    Ok(Toolkit { release, artifact, archives, installed, side_gcc })
}

/// The release's runfile for the machine.
fn artifact<'a>(on: &SearchContext<'a, '_>, version: CudaVersion) -> Option<&'a CudaArtifact> {
    let all = &on.database.cuda_artifacts;
    let start = all.partition_point(|a| a.version > version);
    let here = || all[start..].iter().take_while(|a| a.version == version).filter(|a| a.artifact.arch == on.arch);
    // 10.2 has one for RHEL 6 besides, whose sum nobody knows.
    here().find(|a| a.artifact.is_verifiable()).or_else(|| here().next())
}

/// The side compiler it needs, or the rule that refuses it.
fn examine(
    on: &SearchContext,
    driver: Option<&Candidate>,
    release: &CudaRelease,
    artifact: Option<&CudaArtifact>,
    kept: bool,
) -> Result<Option<u16>, Refusal> {
    for (n, card, architecture) in &on.kinds {
        targets(release, *n, card, *architecture)?;
        serves_board(on, release, *n, *architecture)?;
    }
    if let Some(driver) = driver {
        runs_on(release, driver)?;
    }
    if !on.request.cuda.accepts(release.version) {
        return Err(Refusal::NotWanted);
    }
    if let Some(have) = on.glibc {
        if release.glibc_min.as_deref().is_some_and(|min| have < dotted(min)) {
            return Err(Refusal::OldLibrary);
        }
        if release.first_breaking_glibc(on.arch).is_some_and(|from| have >= dotted(from)) {
            return Err(Refusal::NewLibrary);
        }
    }
    let whole = on.installed(release.version).is_some_and(|t| t.components.is_none());
    if !on.named.is_empty() && !whole {
        has_all(on.database.component_release(release.version), &on.named, on.arch)?;
    }
    let whole = !kept && on.named.is_empty();
    let by_runfile = whole && on.runfiles_run;
    if whole && !by_runfile && on.database.component_release(release.version).is_none() {
        return Err(Refusal::NoInstallerLibrary);
    }
    if by_runfile && artifact.is_none() {
        return Err(Refusal::NoRunfile);
    }
    let side_gcc = host_compiler(on, release)?;
    // Last, so that a release refused for its checksum is one that fits in every other way.
    match artifact.filter(|a| by_runfile && !a.artifact.is_verifiable()) {
        Some(_) => Err(Refusal::NoSum("no checksum of its runfile is known, so it could not be verified")),
        None => Ok(side_gcc),
    }
}

/// Whether the release has all that was named, or the rule that refuses it.
fn has_all(release: Option<&ComponentRelease>, named: &[&Component], arch: &str) -> Result<(), Refusal> {
    let Some(release) = release else { return Err(Refusal::NoArchives) };
    let missing = |c: &&Component| release.component(c).and_then(|part| part.archive(arch)).is_none();
    named.iter().position(missing).map_or(Ok(()), |n| Err(Refusal::NoComponent(n)))
}

/// Whether the release targets the card.
pub fn serves(database: &Database, release: &CudaRelease, card: &Card) -> bool {
    targets(release, 0, card, architecture(database, card)).is_ok()
}

/// Why the release does not target the card, if so.
pub fn refused_series(database: &Database, release: &CudaRelease, card: &Card) -> Option<String> {
    Some(match targets(release, 0, card, architecture(database, card)).err()? {
        Refusal::BelowLowest(_, lowest) => format!("it targets {lowest} and up"),
        Refusal::AboveHighest(_, highest) => format!("it targets {highest} at most"),
        Refusal::BeforeArchitecture(_, first) => format!("CUDA {first} is the first that targets it"),
        Refusal::AfterArchitecture(_, last) => format!("CUDA {last} is the last that targets it"),
        _ => "no source says".to_owned(),
    })
}

fn architecture<'a>(database: &'a Database, card: &Card) -> Option<&'a Architecture> {
    card.capability.and_then(|capability| database.architecture(capability))
}

fn targets(release: &CudaRelease, n: usize, card: &Card, architecture: Option<&Architecture>) -> Result<(), Refusal> {
    let Some(capability) = card.capability else { return Err(Refusal::NoCapability(n)) };
    if capability < release.lowest_capability {
        return Err(Refusal::BelowLowest(n, release.lowest_capability));
    }
    if capability > release.highest_capability {
        return Err(Refusal::AboveHighest(n, release.highest_capability));
    }
    let Some(architecture) = architecture else { return Ok(()) };
    let Architecture { first_cuda, last_cuda, .. } = architecture;
    if let Some(first) = first_cuda.filter(|first| release.version.series() < first.series()) {
        return Err(Refusal::BeforeArchitecture(n, first));
    }
    if let Some(last) = last_cuda.filter(|last| release.version.series() > last.series()) {
        return Err(Refusal::AfterArchitecture(n, last));
    }
    Ok(())
}

/// Of the embedded platforms only some run what toolkits for servers compile and link. Elsewhere a toolkit may compile for any.
fn serves_board(
    on: &SearchContext,
    release: &CudaRelease,
    n: usize,
    architecture: Option<&Architecture>,
) -> Result<(), Refusal> {
    let Some(board) = architecture.filter(|a| a.embedded.is_some() && on.arch == "sbsa") else { return Ok(()) };
    match board.sbsa_from {
        Some(first) if release.version.series() >= first.series() => Ok(()),
        first => Err(Refusal::NotForBoard(n, first)),
    }
}

/// Whether the driver runs the programs of this release, if only through minor-version compatibility.
pub fn runs_on(release: &CudaRelease, driver: &Candidate) -> Result<(), Refusal> {
    if driver.version < release.minimum_driver {
        return Err(Refusal::OldDriver(release.minimum_driver, driver.version));
    }
    Ok(())
}

/// Whether the driver's branch came with this toolkit or a newer one. A toolkit newer than that runs through CUDA's
/// minor-version compatibility, which does not load PTX.
pub fn is_native(release: &CudaRelease, driver: &Candidate) -> bool {
    driver.branch.max_cuda.is_none_or(|native| release.version.series() <= native.series())
}

/// Why a newer toolkit that fits was not chosen.
pub fn passed_over(on: &SearchContext, driver: Option<&Candidate>, chosen: &Toolkit) -> Refusal {
    match driver.and_then(|d| Some((d.branch.branch, d.branch.max_cuda?))) {
        Some((branch, native)) if !(chosen.is_kept() && on.keeps_toolkits()) => Refusal::NotNative(branch, native),
        _ => Refusal::Installed,
    }
}

/// The gcc that a distribution calls just that, where it can be known.
pub fn distributions_gcc(distribution: Option<&Distribution>, facts: &Facts) -> Option<u16> {
    distribution.and_then(|d| d.gcc).or_else(|| facts.kernels_gcc())
}

/// The side gcc that is needed because the default one is too new: the newest that fits of those that are there with
/// their C++ compiler, else of those that can be installed.
fn host_compiler(on: &SearchContext, release: &CudaRelease) -> Result<Option<u16>, Refusal> {
    let Some(have) = on.gcc else { return Ok(None) };
    let Some(max) = release.gcc_max.filter(|max| have > *max) else { return Ok(None) };
    let fits = |major: &u16| *major <= max && release.gcc_min.is_none_or(|min| *major >= min);
    let there = on.facts.compilers.iter().filter(|c| on.facts.side_compiler(c.major) == Some(c)).map(|c| c.major);
    let side = there.filter(fits).max().or_else(|| packaged(on, max).into_iter().filter(fits).max());
    side.map(Some).ok_or(Refusal::NewCompiler(max, have))
}

/// The side compilers that the distribution has packages of; where no source lists them, `max` if it is not much older
/// than the default one.
fn packaged(on: &SearchContext, max: u16) -> Vec<u16> {
    let Some(distribution) = on.distribution.filter(|d| d.gcc_package.is_some()) else { return Vec::new() };
    if !distribution.gccs.is_empty() {
        return distribution.gccs.clone();
    }
    let recent = distributions_gcc(on.distribution, on.facts).is_none_or(|default| max + 2 >= default);
    Vec::from_iter(recent.then_some(max))
}
