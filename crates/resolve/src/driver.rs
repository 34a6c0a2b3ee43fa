//! Chooses the driver: each candidate from the database and the host's repositories either fits the
//! GPUs or is refused by a rule. Those that fit are in order of preference.

use super::another_system::of_another_system;
use super::fabric::{fits, has_only_others, is_offered};
use super::refusal::{Explanation, Refusal, Subject};
use super::signed_modules::signed_modules;
use super::{Conflict, DriverFile, KnownHost, Method, Prefer, Request, TargetGpu};
use gpusetup_database::compat::{
    BranchKind, Companion, CompanionId, CudaArtifact, Database, Distribution, DriverArtifact,
    DriverBranch, DriverOffer, DriverRelease, Maturity, ModuleFlavour, PackageRepository,
    Published, VersionRule,
};
use gpusetup_database::version::{DriverVersion, Want, dotted};
use gpusetup_host::{Facts, MachineKind, Origin, SecureBoot};
use gpusetup_system::Node;
use gpusetup_text::ids::RuleId;
use std::cmp::Reverse;
use std::mem::discriminant;
use std::rc::Rc;

/// A driver that might be chosen, and how it would be installed.
#[derive(Debug, Clone)]
pub struct Candidate<'a> {
    /// The version that would be installed.
    pub version: DriverVersion,
    /// The branch that the version belongs to.
    pub branch: &'a DriverBranch,
    /// The flavour of its kernel modules.
    pub modules: ModuleFlavour,
    /// How it would be installed.
    pub install: Install<'a>,
    /// The newer driver that also fits, and lacks fixes of security bulletins that this one has.
    pub(crate) instead_of: Option<DriverVersion>,
}

impl Candidate<'_> {
    /// Whether it is already installed and kept.
    pub fn is_kept(&self) -> bool {
        matches!(self.install, Install::Kept(..))
    }
}

/// How a driver is installed.
#[derive(Debug, Clone, Copy)]
pub enum Install<'a> {
    /// Already installed, with modules of this flavour, if known.
    Kept(Method, Option<ModuleFlavour>),
    Packages(&'a DriverOffer),
    /// From packages of a repository that is added first.
    Repository(&'a DriverOffer, &'a PackageRepository),
    /// From NVIDIA's driver runfile.
    Runfile(&'a DriverArtifact),
    /// From the CUDA runfile that bundles it (the only source for ppc64le).
    CudaRunfile(&'a CudaArtifact),
    /// From the runfile that the user named.
    File,
}

impl<'a> Install<'a> {
    /// The repository that is added for it, if one is.
    pub fn added(&self) -> Option<&'a PackageRepository> {
        if let Self::Repository(_, repository) = self {
            Some(repository)
        } else {
            None
        }
    }
}

impl Install<'_> {
    /// The packages that it is installed from, if it is.
    pub fn offer(&self) -> Option<&'_ DriverOffer> {
        match self {
            Self::Packages(offer) | Self::Repository(offer, _) => Some(offer),
            Self::Kept(..) | Self::Runfile(_) | Self::CudaRunfile(_) | Self::File => None,
        }
    }

    /// Whether its packages are made for servers, and a desktop prefers others of the same branch.
    pub(crate) fn is_for_servers(&self) -> bool {
        self.offer().is_some_and(|offer| offer.for_servers)
    }

    /// Whether the distribution signs its modules for Secure Boot.
    pub fn is_signed(&self) -> bool {
        self.offer().is_some_and(DriverOffer::is_signed)
    }

    /// `packages`, `repository` or `runfile`.
    pub fn method(&self) -> Method {
        match self {
            Self::Kept(method, _) => *method,
            Self::Packages(_) => Method::Packages,
            Self::Repository(..) => Method::Repository,
            Self::Runfile(_) | Self::CudaRunfile(_) | Self::File => Method::Runfile,
        }
    }
}

/// Whether a driver of this origin and a new installation break each other (GS401).
pub fn breaks(installed: Origin, install: &Install) -> bool {
    let is_new = !matches!(install, Install::Kept(..));
    let is_runfile = install.method() == Method::Runfile;
    match installed {
        Origin::Dpkg | Origin::Rpm => is_new && is_runfile,
        Origin::Runfile => is_new && !is_runfile,
        _ => false,
    }
}

/// Whether two requests have the same candidates.
pub(crate) fn asks_for_same_driver<'r>(one: &'r Request, other: &'r Request) -> bool {
    driver_key(one) == driver_key(other)
}

/// What decides on the candidates.
fn driver_key<'r>(request: &'r Request) -> impl PartialEq + use<'r> {
    (
        (&request.driver, request.method, &request.driver_file),
        (request.modules, request.prefer, request.upgrade),
        // Whether the user named the key for modules that are built on the host.
        request.settings.module_key.is_some(),
        (&request.leave_out, &request.today),
    )
}

/// Whether an installed driver that fits is preferred to a newer one.
fn keeps_driver(request: &Request) -> bool {
    !request.upgrade && !matches!(request.driver, Want::Latest)
}

/// The drivers that fit.
#[derive(Default)]
pub(crate) struct Candidates<'a> {
    /// Preferred first. Of releases that differ only in age, only the newest is a candidate.
    pub(crate) fit: Vec<Candidate<'a>>,
    /// Those that also fit, but belong to a branch past its end of life.
    over: Vec<(DriverVersion, Refusal)>,
}

/// What drivers are examined for.
struct Examination<'a, 'h> {
    published: Published<'a>,
    facts: &'h Facts,
    request: &'h Request,
    kinds: Vec<(usize, &'h TargetGpu)>,
    /// The companions that the host needs in a version that follows the driver's.
    needed: Vec<&'a Companion>,
    /// Those of them that are no longer offered for the packaged driver that is installed, while
    /// another one can replace it.
    gone: Vec<CompanionId>,
}

impl<'a, 'h> Examination<'a, 'h> {
    fn new(host: &KnownHost<'a, 'h>, request: &'h Request, gpus: &'h [Rc<TargetGpu>]) -> Self {
        let needed = host
            .joined()
            .into_iter()
            .flat_map(|joined| joined.needs(host.database));
        let on = Self {
            published: host.published,
            facts: host.facts,
            request,
            kinds: TargetGpu::kinds(gpus).collect(),
            needed: needed
                .filter(|companion| companion.version != VersionRule::Own)
                .collect(),
            gone: Vec::new(),
        };
        Self {
            gone: on.gone_from(host),
            ..on
        }
    }

    fn gone_from(&self, host: &KnownHost<'a, 'h>) -> Vec<CompanionId> {
        let Some(installed) = host
            .own_drivers
            .iter()
            .find(|driver| matches!(driver.2, Install::Kept(Method::Packages, _)))
        else {
            return Vec::new();
        };
        let gone = self.needed.iter().filter(|of| {
            let mut companions = self.facts.companions.iter();
            !companions.any(|found| found.id == of.id && fits(found, of, installed.0))
                && has_only_others(host.distribution, self.facts, of, installed.0)
        });
        let gone: Vec<_> = gone.map(|companion| companion.id).collect();
        if gone.is_empty() || self.request.driver.is_exactly(installed.0) {
            return Vec::new();
        }
        let is_replaced = host.own_drivers.iter().any(|driver| {
            let branch = host.database.branch(driver.0.branch);
            matches!(driver.2, Install::Packages(_))
                && self.accepts(driver)
                && branch.is_some_and(|branch| self.verdict(driver, branch).is_ok())
        });
        if is_replaced { gone } else { Vec::new() }
    }

    fn accepts(&self, driver: &Known) -> bool {
        self.request.driver.accepts(driver.0)
    }

    fn candidate_on(&self, host: &KnownHost<'a, '_>, driver: &Known<'a>) -> Option<Candidate<'a>> {
        let branch = host.database.branch(driver.0.branch)?;
        self.candidate(driver, branch).ok()
    }

    /// Adds the newest runfile of each branch.
    fn add_runfiles(&self, host: &KnownHost<'a, '_>, fit: &mut Vec<Candidate<'a>>) {
        let branches = host.published.runfiles_by_branch().filter(|(branch, _)| {
            let mut gpus = self.kinds.iter();
            self.request.driver.may_accept(branch.branch)
                && gpus.all(|(_, card)| card.is_served_by(branch.branch))
        });
        for (branch, runfiles) in branches {
            let runfiles = runfiles.map(by_runfile);
            for driver in runfiles.filter(|driver| self.accepts(driver)) {
                match self.candidate(&driver, branch) {
                    Ok(newest) => {
                        fit.push(newest);
                        break;
                    }
                    Err(refusal) if refusal.is_of_branch() => break,
                    Err(_) => {}
                }
            }
        }
    }

    /// The flavour to install, or why the driver is refused.
    fn verdict(&self, driver: &Known, branch: &DriverBranch) -> Result<ModuleFlavour, Refusal> {
        let (version, maturity, install) = driver;
        let modules = examine(*version, branch, install, self.request, &self.kinds)?;
        is_complete(install, self)?;
        has_companions(self, *version, install)?;
        if !matches!(install, Install::Kept(..)) {
            runs_kernel(branch, self.facts)?;
        }
        is_ripe(*version, *maturity, self.request)?;
        Ok(modules)
    }

    fn candidate(
        &self,
        driver: &Known<'a>,
        branch: &'a DriverBranch,
    ) -> Result<Candidate<'a>, Refusal> {
        let modules = self.verdict(driver, branch)?;
        Ok(Candidate {
            version: driver.0,
            branch,
            modules,
            install: driver.2,
            instead_of: None,
        })
    }
}

/// The candidates, preferred first.
pub(crate) fn candidates<'a>(
    host: &KnownHost<'a, '_>,
    request: &Request,
    gpus: &[Rc<TargetGpu>],
) -> Candidates<'a> {
    let on = Examination::new(host, request, gpus);
    if let Some(file) = &request.driver_file {
        let named = of_file(host, file);
        let fit = named.iter().filter_map(|d| on.candidate_on(host, d));
        return Candidates {
            fit: fit.collect(),
            over: Vec::new(),
        };
    }
    let mut fit = Vec::with_capacity(16);
    let own = host.own_drivers.iter().filter(|driver| on.accepts(driver));
    fit.extend(own.filter_map(|driver| on.candidate_on(host, driver)));
    on.add_runfiles(host, &mut fit);
    let bundles = host.published.bundles().map(in_bundle);
    let bundles = bundles.filter(|driver| on.accepts(driver));
    for candidate in bundles.filter_map(|driver| on.candidate_on(host, &driver)) {
        match fit.iter_mut().find(|c| differ_in_age_only(c, &candidate)) {
            Some(newest) if newest.version < candidate.version => *newest = candidate,
            Some(_) => {}
            None => fit.push(candidate),
        }
    }
    // What replaces packages is packages: two kinds of installation break each other.
    if !on.gone.is_empty() {
        fit.retain(|c| c.install.method() == Method::Packages);
    }
    let mut over = Vec::new();
    // A branch past its end of life is chosen only if no other fits, or if it is named.
    let asked = matches!(request.driver, Want::Meeting(_));
    if !asked && fit.iter().any(|c| !c.branch.is_over(&request.today)) {
        fit.retain(|c| {
            let is_over = !c.is_kept() && c.branch.is_over(&request.today);
            if is_over {
                over.push((c.version, Refusal::BranchOver(c.branch.branch)));
            }
            !is_over
        });
    }
    let secure =
        host.facts.secure_boot == SecureBoot::Enabled && request.settings.module_key.is_none();
    let installed = host.facts.driver.as_ref();
    let on = RankedOn {
        has_secure_boot: secure,
        place: Place::of(host.facts, gpus),
        installed: installed.map(|driver| (driver.version, driver.origin)),
    };
    fit.sort_by(|a, b| rank(a, request, on).cmp(&rank(b, request, on)));
    if !asked {
        prefer_fixed(host.database, &mut fit, request, on);
    }
    Candidates { fit, over }
}

/// Moves the first driver with all fixes of security bulletins before all others, if the preferred
/// one lacks some. It is installed in the same way or in a preferred one, if one is. It never takes
/// the place of signed modules where Secure Boot loads no others, nor breaks with the installed one.
fn prefer_fixed(database: &Database, fit: &mut [Candidate], request: &Request, on: RankedOn) {
    let Some(first) = fit.first() else { return };
    if stays(first, request) || has_fixes(database, first, request) {
        return;
    }
    let (version, most) = (first.version, effort(first));
    let must_be_signed = on.has_secure_boot && first.install.is_signed();
    let breaks = on.breaks(first);
    let mut fixed = (1..fit.len()).filter(|at| {
        let other = &fit[*at];
        has_fixes(database, other, request)
            && (!must_be_signed || other.install.is_signed())
            && (breaks || !on.breaks(other))
    });
    let easy = fixed.clone().find(|at| effort(&fit[*at]) <= most);
    if let Some(at) = easy.or_else(|| fixed.next()) {
        fit[at].instead_of = Some(version).filter(|version| *version > fit[at].version);
        fit[..=at].rotate_right(1);
    }
}

/// Whether no bulletin names fixes that a driver lacks, and NVIDIA still publishes them for its
/// branch.
fn has_fixes(database: &Database, candidate: &Candidate, request: &Request) -> bool {
    database.has_fixes(candidate.version) && !candidate.branch.is_over(&request.today)
}

/// What of a host decides between drivers that fit.
#[derive(Debug, Clone, Copy)]
struct RankedOn {
    /// Secure Boot is on, and the user named no key.
    has_secure_boot: bool,
    place: Place,
    installed: Option<(DriverVersion, Origin)>,
}

impl RankedOn {
    /// Whether a driver would break with the installed one.
    fn breaks(self, candidate: &Candidate) -> bool {
        let installed = self.installed;
        installed.is_some_and(|(_, origin)| breaks(origin, &candidate.install))
    }
}

/// What kind of host drivers are packaged for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Desktop,
    /// All GPUs are made for data centres.
    Server,
    Other,
}

impl Place {
    fn of(facts: &Facts, gpus: &[Rc<TargetGpu>]) -> Self {
        if facts.desktop.is_some() {
            Self::Desktop
        } else if !gpus.is_empty() && gpus.iter().all(|card| card.data_center) {
            Self::Server
        } else {
            Self::Other
        }
    }
}

/// Why drivers are no candidates: all those that a driver rule refuses and that are newer than
/// `chosen` or, if nothing was chosen, requested.
pub(crate) fn refused<'a>(
    host: &KnownHost<'a, '_>,
    request: &Request,
    gpus: &[Rc<TargetGpu>],
    candidates: &Candidates<'a>,
    chosen: Option<DriverVersion>,
) -> Vec<(DriverVersion, Refusal)> {
    let on = Examination::new(host, request, gpus);
    let mut refused = Vec::with_capacity(64);
    let others: Vec<_> = match &request.driver_file {
        Some(file) => of_file(host, file),
        None => host
            .own_drivers
            .iter()
            .copied()
            .chain(host.published.bundles().map(in_bundle))
            .collect(),
    };
    let others = others.into_iter();
    for driver in others.filter(|driver| is_meant(request, chosen, driver.0)) {
        let branch = host.database.branch(driver.0.branch);
        refused
            .extend(branch.and_then(|branch| Some((driver.0, on.verdict(&driver, branch).err()?))));
    }
    if request.driver_file.is_some() {
        return refused;
    }
    // Newest first.
    let branches = host
        .published
        .runfiles_by_branch()
        .take_while(|(branch, _)| chosen.is_none_or(|chosen| branch.branch >= chosen.branch));
    for (branch, runfiles) in
        branches.filter(|(branch, _)| chosen.is_some() || request.driver.may_accept(branch.branch))
    {
        let mut of_branch = None;
        let runfiles = runfiles.map(by_runfile);
        for driver in runfiles.filter(|driver| is_meant(request, chosen, driver.0)) {
            let refusal = of_branch.or_else(|| on.verdict(&driver, branch).err());
            of_branch = refusal.filter(|refusal| refusal.is_of_branch());
            refused.extend(refusal.map(|refusal| (driver.0, refusal)));
        }
    }
    let over = candidates.over.iter().copied();
    refused.extend(over.filter(|(version, _)| is_meant(request, chosen, *version)));
    refused
}

/// Whether the user may ask why this driver is not the chosen one.
fn is_meant(request: &Request, chosen: Option<DriverVersion>, version: DriverVersion) -> bool {
    match chosen {
        Some(chosen) => version > chosen,
        None => request.driver.accepts(version),
    }
}

/// Whether two candidates differ only in version, within one branch.
fn differ_in_age_only(a: &Candidate, b: &Candidate) -> bool {
    (a.branch.branch, a.modules) == (b.branch.branch, b.modules)
        && discriminant(&a.install) == discriminant(&b.install)
        && matches!(
            a.install,
            Install::Runfile(_) | Install::CudaRunfile(_) | Install::File
        )
}

/// The driver of a runfile that the user named, which is kept where it is installed already.
fn of_file<'a>(host: &KnownHost<'a, '_>, file: &DriverFile) -> Vec<Known<'a>> {
    let version = file.is.version;
    let installed = host
        .own_drivers
        .iter()
        .find(|known| matches!(known.2, Install::Kept(..)) && known.0 == version);
    vec![
        installed
            .copied()
            .unwrap_or((version, Maturity::Production, Install::File)),
    ]
}

/// A driver that the host or the database knows.
pub(crate) type Known<'a> = (DriverVersion, Maturity, Install<'a>);

fn by_runfile<'a>((release, artifact): (&'a DriverRelease, &'a DriverArtifact)) -> Known<'a> {
    (
        release.version,
        release.maturity,
        Install::Runfile(artifact),
    )
}

fn in_bundle((version, artifact): (DriverVersion, &CudaArtifact)) -> Known<'_> {
    (
        version,
        Maturity::CudaRunfileOnly,
        Install::CudaRunfile(artifact),
    )
}

/// The oldest branch of all drivers that could be installed on a host.
pub(crate) fn oldest_branch(host: &KnownHost) -> Option<u16> {
    // Runfiles are in order.
    let runfile = host
        .published
        .runfiles()
        .next_back()
        .map(|(release, _)| release.version.branch);
    let others = host.own_drivers.iter().map(|driver| driver.0.branch);
    others
        .chain(host.published.bundles().map(|(version, _)| version.branch))
        .chain(runfile)
        .min()
}

/// The drivers that depend on the host: the installed one, those in its repositories, and those in
/// repositories that can be added.
pub(crate) fn own_drivers<'a>(
    database: &'a Database,
    published: Published<'a>,
    facts: &Facts,
    distribution: Option<&'a Distribution>,
) -> Vec<Known<'a>> {
    let mut all = Vec::new();
    if let Some(driver) = &facts.driver {
        let method = if driver.origin == gpusetup_host::Origin::Runfile {
            Method::Runfile
        } else {
            Method::Packages
        };
        all.push((
            driver.version,
            Maturity::Production,
            Install::Kept(method, driver.modules),
        ));
    }
    let has_foreign = of_another_system(database, distribution, facts).is_some();
    // For a release that is not in the database, only its repositories tell which drivers exist.
    let known = distribution.filter(|d| d.named_as.is_none() || facts.offered.is_some());
    for offer in known.map(|d| d.drivers.as_slice()).unwrap_or_default() {
        if has_foreign && offer.repository.adds.is_some() {
            continue;
        }
        if !offer.signed_modules.is_empty() {
            let version = offered(published, offer, facts)
                .filter(|driver| signed_modules(distribution, offer, facts, *driver).is_some());
            all.extend(
                version.map(|version| (version, Maturity::Production, Install::Packages(offer))),
            );
        } else if offer.signed_for.is_some() {
            all.extend(signed(database, offer, facts));
        } else if let Some(version) = offered(published, offer, facts) {
            all.push((version, Maturity::Production, Install::Packages(offer)));
        } else if let Some((version, repository)) = addable(database, published, offer, facts) {
            all.push((
                version,
                Maturity::Production,
                Install::Repository(offer, repository),
            ));
        }
    }
    all
}

/// The driver that is there and stays if a request leaves the driver out: toolkits should run on
/// it. The one of a container is its host's, which is loaded. In WSL2 it is that of Windows, whose
/// version is not known; one for Linux has no device there.
pub(crate) fn untouched_driver<'a>(host: &KnownHost<'a, '_>) -> Option<Candidate<'a>> {
    let facts = host.facts;
    let loaded = facts.loaded_driver().and_then(|text| text.parse().ok());
    let installed = facts.driver.as_ref().map(|driver| driver.version);
    let version = match facts.machine.kind {
        MachineKind::Container => loaded.or(installed),
        MachineKind::Wsl2 => None,
        _ => installed.or(loaded),
    }?;
    let flavour = facts.driver.as_ref().and_then(|driver| driver.modules);
    let (modules, install) = (
        flavour.unwrap_or(ModuleFlavour::Proprietary),
        Install::Kept(Method::Auto, flavour),
    );
    Some(Candidate {
        version,
        branch: host.database.branch(version.branch)?,
        modules,
        install,
        instead_of: None,
    })
}

/// The host's distribution in the database.
pub fn distribution<'a>(database: &'a Database, facts: &Facts) -> Option<&'a Distribution> {
    let found = database.distribution(&facts.os.id, &facts.os.version, &facts.os.like)?;
    // A release that is not in the database may have another package manager than the releases that
    // are.
    let is_meant = found.version != "*" || facts.os.package_manager == Some(found.package_manager);
    is_meant.then_some(found)
}

/// The version that the host's repositories offer: according to its package manager, otherwise to
/// the database.
fn offered(published: Published, offer: &DriverOffer, facts: &Facts) -> Option<DriverVersion> {
    let arch = facts.machine.arch.as_str();
    if !offer.archs.iter().any(|a| a == arch) {
        return None;
    }
    match &facts.offered {
        // Packages of a module stream are hidden until it is enabled, so their absence says
        // nothing.
        Some(all) if offer.module_stream.is_none() => {
            let desktop = facts.desktop.is_some();
            if offer
                .packages_for(desktop)
                .iter()
                .any(|package| !all.contains_key(package))
            {
                return None;
            }
            // Kernel modules work only with the libcuda of the same version.
            let mut parts = offer
                .versioned_packages(desktop)
                .iter()
                .filter_map(|package| upstream(&all[package]));
            let first = parts.next();
            let version = if parts.all(|other| Some(other) == first) {
                first.or_else(|| expected(published, offer))
            } else {
                None
            };
            // A repository that has all branches under the same names gives the one that its
            // preferences say.
            version
                .filter(|version| offer.repository.adds.is_none() || version.branch == offer.branch)
        }
        _ => expected(published, offer).filter(|_| {
            offer.repository.seen_as.is_empty() || facts.has_enabled(&offer.repository.seen_as)
        }),
    }
}

/// The version if no source names it: the one expected in a repository that follows the branch.
fn expected(published: Published, offer: &DriverOffer) -> Option<DriverVersion> {
    offer
        .version
        .or_else(|| published.newest_driver(offer.branch))
}

/// The repository that an offer's packages come from once it is added, and the version that is
/// expected there. One that is enabled already is not added: whoever enabled it may have had
/// reasons for how.
fn addable<'a>(
    database: &'a Database,
    published: Published,
    offer: &DriverOffer,
    facts: &Facts,
) -> Option<(DriverVersion, &'a PackageRepository)> {
    let arch = facts.machine.arch.as_str();
    let repository = database.package_repository(offer.repository.adds.as_deref()?)?;
    let is_here = offer.archs.iter().any(|a| a == arch) && repository.archs.contains_key(arch);
    let is_read = facts
        .os
        .package_manager
        .is_none_or(|manager| manager == repository.package_manager);
    let is_enabled = facts.has_enabled(&offer.repository.seen_as);
    if !is_here
        || !is_read
        || is_enabled && (!changes_branch(facts, repository) || has_branch(database, offer, facts))
    {
        return None;
    }
    Some((
        offer
            .version
            .or_else(|| published.newest_driver(offer.branch))?,
        repository,
    ))
}

/// Whether the lists have packages of the branch from the repository of this offer: then it is
/// there, and what they lack is not.
fn has_branch(database: &Database, offer: &DriverOffer, facts: &Facts) -> bool {
    let Some(all) = &facts.offered else {
        return false;
    };
    let desktop = facts.desktop.is_some();
    let offers = distribution(database, facts)
        .into_iter()
        .flat_map(|d| &d.drivers);
    let of_branch = offers.filter(|other| {
        other.repository.adds == offer.repository.adds && other.branch == offer.branch
    });
    of_branch
        .flat_map(|other| other.versioned_packages(desktop))
        .filter_map(|package| upstream(all.get(package)?))
        .any(|version| version.branch == offer.branch)
}

/// A driver with the modules that the distribution signs, in their version: the repository of the
/// other packages has those of every version.
fn signed<'a>(database: &'a Database, offer: &'a DriverOffer, facts: &Facts) -> Option<Known<'a>> {
    let is_for_kernel = facts
        .kernel()
        .is_some_and(|kernel| offer.is_signed_for(kernel));
    let is_here = is_for_kernel && offer.archs.contains(&facts.machine.arch);
    let modules = offer.packages.first().filter(|_| is_here)?;
    let version = upstream(facts.offered.as_ref()?.get(modules)?)
        .filter(|version| version.branch == offer.branch)?;
    let repository = database.package_repository(offer.repository.adds.as_deref()?)?;
    let is_enabled =
        facts.has_enabled(&offer.repository.seen_as) && !changes_branch(facts, repository);
    let is_addable = repository.archs.contains_key(&facts.machine.arch);
    let install = match is_enabled {
        true => Install::Packages(offer),
        false => Install::Repository(offer, repository),
    };
    (is_enabled || is_addable).then_some((version, Maturity::Production, install))
}

/// Whether gpusetup added the repository to the host, and adds it again for another branch.
pub fn changes_branch(facts: &Facts, repository: &PackageRepository) -> bool {
    let format = gpusetup_packages::of(repository.package_manager)
        .added
        .as_ref()
        .filter(|format| format.has_branch);
    let name = repository.name_for(&facts.machine.arch);
    let files = format
        .zip(name)
        .map(|(format, name)| (format.paths)(&name))
        .unwrap_or_default();
    files
        .iter()
        .any(|path| matches!(facts.node(path), Some(Node::File { .. })))
}

/// Refuses a repository whose packages may need another one that is not enabled, unless it was
/// requested: apply could fail where the runfile would not.
fn is_complete(install: &Install, on: &Examination) -> Result<(), Refusal> {
    let Install::Repository(_, repository) = install else {
        return Ok(());
    };
    let is_enabled = repository
        .needs
        .as_ref()
        .is_none_or(|other| on.facts.has_enabled(&other.seen_as));
    if is_enabled || on.request.method == Method::Repository {
        Ok(())
    } else {
        Err(Refusal::RepositoryNeedsAnother)
    }
}

/// Refuses a driver without the companions that NVSwitches need, in a version that matches the
/// driver's. Packaged companions must be in the driver's repository. For runfiles, NVIDIA publishes
/// companions with data-centre drivers; not all of them are known, so a version that is named with
/// all of its numbers is not refused.
fn has_companions(
    on: &Examination,
    version: DriverVersion,
    install: &Install,
) -> Result<(), Refusal> {
    match on
        .needed
        .iter()
        .find(|companion| !has_companion(on, version, install, companion))
    {
        None => Ok(()),
        Some(missing) => Err(Refusal::NoCompanion(missing.id)),
    }
}

fn has_companion(
    on: &Examination,
    version: DriverVersion,
    install: &Install,
    companion: &Companion,
) -> bool {
    match install {
        Install::Packages(offer) => {
            // Of a repository that has every version, lists show the newest.
            offer.companions.get(&companion.id).is_some_and(|name| {
                offer.signed_for.is_some()
                    || is_offered(on.facts, offer, name, companion.version, version)
            })
        }
        // Its lists are not known yet.
        Install::Repository(offer, _) => offer.companions.contains_key(&companion.id),
        // A runfile comes without IMEX, whose packages are left to the user: only hosts that are to
        // share memory need the version to be there.
        Install::Runfile(_) | Install::CudaRunfile(_)
            if companion.published_with.is_some() && on.request.imex_peers.is_empty() =>
        {
            true
        }
        Install::Runfile(_) | Install::CudaRunfile(_) if !on.request.driver.is_exactly(version) => {
            is_published(on.published, companion, version)
        }
        Install::Kept(Method::Packages, _) => !on.gone.contains(&companion.id),
        Install::Runfile(_) | Install::CudaRunfile(_) | Install::File | Install::Kept(..) => true,
    }
}

/// Whether an archive of a companion that matches the driver is known, or of the companion that
/// NVIDIA publishes it with.
fn is_published(published: Published, companion: &Companion, version: DriverVersion) -> bool {
    let all = published.companions(companion.published_with.unwrap_or(companion.id));
    // Newest first.
    let first = all.partition_point(|release| release.branch > version.branch);
    let of_branch = all[first..]
        .iter()
        .take_while(|release| release.branch == version.branch);
    of_branch
        .copied()
        .any(|release| companion.version.accepts(release, version))
}

/// Refuses a branch that does not support a kernel as old as the one that will run.
fn runs_kernel(branch: &DriverBranch, facts: &Facts) -> Result<(), Refusal> {
    let (Some(oldest), Some(have)) = (branch.oldest_kernel.as_deref(), facts.kernel()) else {
        return Ok(());
    };
    if dotted(have) < dotted(oldest) {
        Err(Refusal::OldKernel(branch.branch))
    } else {
        Ok(())
    }
}

/// The driver version in a package version, without epoch and distribution suffix: `580.105.08` of
/// `3:580.105.08-2.el9`.
fn upstream(version: &str) -> Option<DriverVersion> {
    let version = version.split_once(':').map_or(version, |(_, v)| v);
    let end = version
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(version.len());
    version[..end].parse().ok()
}

/// The flavour to install, or why the driver is refused.
pub(crate) fn examine(
    version: DriverVersion,
    branch: &DriverBranch,
    install: &Install,
    request: &Request,
    gpus: &[(usize, &TargetGpu)],
) -> Result<ModuleFlavour, Refusal> {
    let number = branch.branch;
    let named = matches!(request.driver, Want::Meeting(_)) || matches!(install, Install::Kept(..));
    for (n, card) in gpus.iter().copied() {
        match (card.first_branch, card.last_branch) {
            (_, Some(last)) if number > last => return Err(Refusal::AfterLastBranch(n, last)),
            (Some(first), _) if number < first => return Err(Refusal::BeforeFirstBranch(n, first)),
            _ if named => {}
            _ if card.sure_branch.is_some_and(|sure| number < sure) => {
                return Err(Refusal::NotListed(n, card.sure_branch.unwrap_or(number)));
            }
            _ => {
                if let Some(first) = card.listed_later(version) {
                    return Err(Refusal::NotYetListed(n, first));
                }
            }
        }
    }
    let modules = flavour(branch, install, request, gpus)?;
    if !request.driver.accepts(version) {
        return Err(Refusal::NotWanted);
    }
    match (request.method, install.method()) {
        (Method::Packages, Method::Runfile | Method::Repository) => {
            return Err(Refusal::NotPackaged);
        }
        (Method::Runfile, Method::Packages | Method::Repository) => return Err(Refusal::Packaged),
        (Method::Repository, Method::Runfile) => return Err(Refusal::NotInRepository),
        (Method::Repository, Method::Packages) if is_of_another_repository(install) => {
            return Err(Refusal::NotInRepository);
        }
        _ => {}
    }
    match install {
        Install::Runfile(artifact) if !artifact.artifact.is_verifiable() => Err(Refusal::NoSum(
            "the checksum of its runfile is not known, so it cannot be verified",
        )),
        Install::CudaRunfile(artifact) if !artifact.artifact.is_verifiable() => Err(
            Refusal::NoSum("the checksum of the CUDA runfile that contains it is not known"),
        ),
        _ => Ok(modules),
    }
}

/// Whether packages come from a repository other than those that can be added. Installed ones are
/// kept, wherever they are from.
fn is_of_another_repository(install: &Install) -> bool {
    install
        .offer()
        .is_some_and(|offer| offer.repository.adds.is_none())
}

/// Refuses test releases unless the exact version is requested, or `--prefer latest`.
fn is_ripe(version: DriverVersion, maturity: Maturity, request: &Request) -> Result<(), Refusal> {
    match maturity {
        Maturity::Production
        | Maturity::Legacy
        | Maturity::Datacenter
        | Maturity::NewFeature
        | Maturity::CudaRunfileOnly => Ok(()),
        Maturity::Beta | Maturity::VulkanBeta | Maturity::Unknown => {
            let exactly =
                matches!(&request.driver, Want::Meeting(r) if r.to_string() == version.to_string());
            if exactly || request.prefer == Prefer::Latest {
                Ok(())
            } else {
                Err(Refusal::PreRelease(maturity))
            }
        }
    }
}

/// The flavour that all GPUs support, the branch offers, and the request allows.
fn flavour(
    branch: &DriverBranch,
    install: &Install,
    request: &Request,
    gpus: &[(usize, &TargetGpu)],
) -> Result<ModuleFlavour, Refusal> {
    let offered = match install {
        Install::Packages(offer) | Install::Repository(offer, _) => {
            std::slice::from_ref(&offer.modules)
        }
        Install::Kept(_, Some(modules)) => std::slice::from_ref(modules),
        _ => branch.modules.as_slice(),
    };
    let asked = request.modules;
    let (open, proprietary) = (ModuleFlavour::Open, ModuleFlavour::Proprietary);
    // NVIDIA develops the open modules: since branch 560 they are the default for every GPU that
    // supports them.
    let order = match branch.default_modules {
        ModuleFlavour::Open => [open, proprietary],
        ModuleFlavour::Proprietary => [proprietary, open],
    };
    if let Some(chosen) = order.into_iter().find(|f| {
        offered.contains(f)
            && asked.is_none_or(|asked| asked == *f)
            && gpus.iter().all(|(_, c)| c.modules.contains(f))
    }) {
        return Ok(chosen);
    }
    if let (Some(open_only), Some(old)) =
        (first_without(gpus, proprietary), first_without(gpus, open))
    {
        return Err(Refusal::FlavoursExclude(open_only, old));
    }
    let unfit = gpus.iter().find(|(_, c)| match asked {
        Some(asked) => !offered.contains(&asked) || !c.modules.contains(&asked),
        None => !offered.iter().any(|f| c.modules.contains(f)),
    });
    let card = unfit.map(|(n, _)| *n);
    Err(match (asked, card) {
        (Some(asked), _) if !offered.contains(&asked) => first_without(gpus, asked)
            .map_or(Refusal::FlavourNotOffered(asked), |card| {
                Refusal::FlavourUnfit(card, asked)
            }),
        (Some(asked), Some(card)) => Refusal::FlavourUnfit(card, asked),
        (None, Some(card)) => Refusal::NoFlavour(card, branch.branch),
        (asked, None) => Refusal::FlavourNotOffered(asked.unwrap_or(branch.default_modules)),
    })
}

/// The first GPU that does not run with such modules.
fn first_without(gpus: &[(usize, &TargetGpu)], flavour: ModuleFlavour) -> Option<usize> {
    let card = gpus.iter().find(|(_, c)| !c.modules.contains(&flavour));
    card.map(|(n, _)| *n)
}

/// Which of the ways to install a branch is preferred: packages come before the runfile, because
/// they follow kernel updates automatically; those of repositories that are enabled come first.
fn effort(candidate: &Candidate) -> u8 {
    match candidate.install.method() {
        Method::Auto | Method::Packages => 0,
        Method::Repository => 1,
        Method::Runfile => 2,
    }
}

/// The order of preference: the smallest value first. A kind of installation that would break with
/// the installed driver comes last. With Secure Boot on and no key of the user's,
/// modules that the distribution signs come before all that are built on the host; otherwise before
/// those of the same version. On a desktop, a branch's packages for servers come after its others;
/// on a server with data-centre GPUs they come first, as Ubuntu's guide has it. Nothing replaces an
/// installed driver by an older one of its branch.
fn rank<'c>(c: &'c Candidate, request: &Request, on: RankedOn) -> impl Ord + use<'c> {
    let kept = stays(c, request);
    let is_built = !c.install.is_signed();
    let tier = match request.prefer {
        Prefer::Latest => 0,
        Prefer::Stable | Prefer::LongestSupport => u8::from(!is_steady(c)),
    };
    let life = match request.prefer {
        Prefer::LongestSupport => Reverse(c.branch.end_of_life.as_deref()),
        Prefer::Stable | Prefer::Latest => Reverse(None),
    };
    // Of two offers of one version, the branch's default flavour comes first.
    let unusual = c.modules != c.branch.default_modules;
    let is_older = on.installed.is_some_and(|(installed, _)| {
        c.version.branch == installed.branch && c.version < installed
    });
    let misplaced = match on.place {
        Place::Desktop => c.install.is_for_servers(),
        Place::Server => !c.install.is_for_servers(),
        Place::Other => false,
    };
    (
        (!kept, on.breaks(c)),
        on.has_secure_boot && is_built,
        tier,
        life,
        Reverse(c.version.branch),
        is_older,
        effort(c),
        unusual,
        misplaced,
        Reverse(c.version),
        is_built,
        // Nobody but data centres needs the line for servers.
        on.place == Place::Other && c.install.is_for_servers(),
    )
}

/// Why a newer candidate that fits was not chosen: the first preference in which it differs.
pub(crate) fn outranked(
    chosen: &Candidate,
    other: &Candidate,
    request: &Request,
    facts: &Facts,
) -> Refusal {
    let installed = facts.driver.as_ref();
    if stays(chosen, request) && !stays(other, request) {
        Refusal::Installed
    } else if installed.is_some_and(|driver| {
        breaks(driver.origin, &other.install) && !breaks(driver.origin, &chosen.install)
    }) {
        Refusal::BreaksInstalled
    } else if chosen
        .instead_of
        .is_some_and(|newer| other.version <= newer)
    {
        Refusal::LacksFixes
    } else if chosen.install.is_signed() && !other.install.is_signed() {
        Refusal::Unsigned
    } else if request.prefer != Prefer::Latest && is_steady(chosen) && !is_steady(other) {
        Refusal::NotProductionBranch
    } else if chosen.branch.branch != other.branch.branch {
        Refusal::ShorterLife
    } else if chosen.install.method() != other.install.method() {
        if other.install.method() == Method::Repository {
            Refusal::RepositoryLater
        } else {
            Refusal::RunfileLast
        }
    } else if other.modules == chosen.modules {
        of_other_place(chosen, other)
    } else {
        Refusal::NotDefaultFlavour
    }
}

/// Why packages for another kind of machine were not chosen.
fn of_other_place(chosen: &Candidate, other: &Candidate) -> Refusal {
    match (
        chosen.install.is_for_servers(),
        other.install.is_for_servers(),
    ) {
        (false, true) => Refusal::ForServers,
        (true, false) => Refusal::ForDesktops,
        _ => Refusal::NotDefaultFlavour,
    }
}

/// A placeholder for refusals that concern no specific driver.
const NO_DRIVER: DriverVersion = DriverVersion {
    branch: 0,
    minor: 0,
    patch: None,
};

/// Why no driver fits: the refusal of the newest requested candidate that came nearest.
pub(crate) fn none_fits(refused: &[(DriverVersion, Refusal)], context: &Explanation) -> Conflict {
    let gpus = context.gpus;
    let excluded = gpus.iter().enumerate().find_map(|(old, card)| {
        let last = card.last_branch?;
        let new = gpus
            .iter()
            .position(|new| new.first_branch.is_some_and(|f| f > last));
        Some((old, new?))
    });
    if let Some((old, new)) = excluded {
        let explained =
            Refusal::BranchesExclude(old, new).explain(&Subject::Driver(NO_DRIVER), context);
        let sentence = format!("no driver supports all GPUs: {}", explained.sentence);
        return Conflict {
            derivation: explained.premises,
            ..Conflict::new(explained.rule, sentence)
        };
    }
    let wanted = refused
        .iter()
        .filter(|(v, r)| context.request.driver.accepts(*v) && rules_passed(*r) > 0);
    if let Some((version, refusal)) = wanted.max_by_key(|(v, r)| (rules_passed(*r), *v)) {
        let is_named = matches!(context.request.driver, Want::Meeting(_));
        if let Some((asked, lacking)) = refusal.of_method(context).filter(|_| !is_named) {
            let sentence = format!("{asked}, but {lacking}");
            let derivation = super::derive::request_and_host(asked, &lacking);
            return Conflict {
                derivation,
                ..Conflict::new(RuleId::DriverMethod, sentence)
            };
        }
        return Conflict::refused(&Subject::Driver(*version), *refusal, context);
    }
    let mut counts: Vec<(&str, usize)> = Vec::new();
    for card in context.gpus {
        match counts.iter_mut().find(|(name, _)| *name == card.name) {
            Some((_, count)) => *count += 1,
            None => counts.push((&card.name, 1)),
        }
    }
    let who: Vec<_> = counts
        .iter()
        .map(|(name, count)| match count {
            1 => (*name).to_owned(),
            _ => format!("{count} x {name}"),
        })
        .collect();
    Conflict::new(
        RuleId::DriverWanted,
        format!(
            "no driver {} for {} on {} is known",
            context.request.driver,
            who.join(" + "),
            context.arch
        ),
    )
}

/// Whether it is installed, and is not to be replaced.
fn stays(candidate: &Candidate, request: &Request) -> bool {
    candidate.is_kept() && keeps_driver(request)
}

fn is_steady(candidate: &Candidate) -> bool {
    matches!(
        candidate.branch.kind,
        BranchKind::LongTerm | BranchKind::Production | BranchKind::Legacy
    )
}

/// How many rules were passed before: the later a rule is examined, the nearer the candidate.
pub(crate) fn rules_passed(refusal: Refusal) -> u8 {
    match refusal {
        Refusal::PreRelease(_) | Refusal::OldKernel(_) => 6,
        Refusal::NoCompanion(_) => 5,
        Refusal::NoSum(_) => 4,
        Refusal::NotPackaged
        | Refusal::NotInRepository
        | Refusal::RepositoryNeedsAnother
        | Refusal::Packaged => 3,
        Refusal::FlavoursExclude(..)
        | Refusal::FlavourUnfit(..)
        | Refusal::FlavourNotOffered(_)
        | Refusal::NoFlavour(..) => 2,
        Refusal::AfterLastBranch(..)
        | Refusal::BeforeFirstBranch(..)
        | Refusal::NotListed(..)
        | Refusal::NotYetListed(..) => 1,
        _ => 0,
    }
}
