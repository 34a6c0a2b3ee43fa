//! What a host gets besides the driver, and how each companion comes to the host: what its
//! NVSwitches need, and what the user asks for.

use gpusetup_database::compat::{Artifact, Companion, PackageRepository, VersionRule};
use gpusetup_database::version::ComputeCapability;
use gpusetup_host::InstalledCompanion;
use gpusetup_resolve::{
    ChosenDriver, CompanionSource, Install, KnownHost, Method, NvSwitchHost, Request, Resolution,
    fits, package_beside,
};
use gpusetup_text::text::all_of;

/// What a host gets besides the driver that was chosen.
pub(crate) struct Companions<'a> {
    /// The NVSwitches, if the host has some. The driver is held at its version, because they need
    /// companions of the same.
    pub(crate) joined: Option<NvSwitchHost<'a>>,
    parts: Vec<Part<'a>>,
    /// Whether the user named the hosts that a companion connects.
    has_peers: bool,
    /// Whether the plan leaves the driver as it is.
    pub(crate) driver_is_kept: bool,
}

/// A companion, and how it comes to the host.
struct Part<'a> {
    companion: &'a Companion,
    source: Source<'a>,
    /// The package of its older generation, which is replaced.
    former: Option<String>,
    /// Whether the user asks for it.
    is_requested: bool,
    /// Whether systemd starts it at boot already.
    is_enabled: bool,
}

impl<'a> Part<'a> {
    fn new(
        companion: &'a Companion,
        host: &KnownHost<'a, '_>,
        chosen: &Resolution<'a>,
        driver: &ChosenDriver<'a>,
        request: &Request,
    ) -> Self {
        let mut installed = host.facts.companions.iter();
        let installed = installed.find(|found| found.id == companion.id);
        let is_requested = request.companions.contains(&companion.id);
        let former = installed.filter(|found| is_requested && is_former(companion, found));
        Self {
            companion,
            source: match companion.on_request && !is_requested {
                true => Source::Installed,
                false => source(host, driver, chosen.oldest_gpu(), companion, installed),
            },
            former: former.and_then(|found| found.package.clone()),
            is_requested,
            is_enabled: installed.is_some_and(|found| found.enabled),
        }
    }

    /// The repository that is added for it.
    fn added_repository(&self) -> Option<&'a PackageRepository> {
        match self.source {
            Source::Added(_, repository) => Some(repository),
            _ => None,
        }
    }
}

/// How a companion comes to the host.
#[derive(Clone, PartialEq)]
enum Source<'a> {
    /// It is installed and fits the driver, or is a part of the driver.
    Installed,
    /// These packages are installed, from a repository that is enabled or added for the driver.
    Packages(Vec<String>),
    /// These packages are installed, from a repository that is added for them.
    Added(Vec<String>, &'a PackageRepository),
    /// This archive is unpacked.
    Archive(&'a Artifact),
    /// gpusetup cannot install it.
    Unavailable,
}

impl<'a> Companions<'a> {
    /// None without a driver, or if nothing is needed or requested. What runs already starts again
    /// with another driver.
    pub(crate) fn of(
        host: &KnownHost<'a, '_>,
        chosen: &Resolution<'a>,
        request: &Request,
    ) -> Option<Self> {
        let (joined, driver) = (host.joined(), chosen.driver.as_ref()?);
        let driver_is_kept = driver.is_kept();
        let needed = joined
            .into_iter()
            .flat_map(|joined| joined.needs(host.database));
        let mut parts: Vec<_> = needed
            .map(|companion| Part::new(companion, host, chosen, driver, request))
            .collect();
        let on_request = host
            .database
            .companions
            .iter()
            .filter(|companion| companion.on_request)
            .map(|companion| Part::new(companion, host, chosen, driver, request));
        parts.extend(
            on_request.filter(|part| part.is_requested || part.is_enabled && !driver_is_kept),
        );
        (!parts.is_empty()).then_some(Self {
            joined,
            parts,
            has_peers: !request.imex_peers.is_empty(),
            driver_is_kept,
        })
    }

    /// Why the host gets them, for a sentence: `this host has 6 NVSwitches`.
    pub(crate) fn reason(&self) -> String {
        let mut reasons = Vec::from_iter(self.joined.map(NvSwitchHost::sentence));
        for (is_requested, one, several) in [
            (true, "was requested", "were requested"),
            (
                false,
                "is installed and uses the driver",
                "are installed and use the driver",
            ),
        ] {
            let parts = self.parts.iter();
            let titles: Vec<_> = parts
                .filter(|part| part.companion.on_request && part.is_requested == is_requested)
                .map(|part| part.companion.title.as_str())
                .collect();
            match titles.as_slice() {
                [] => {}
                [title] => reasons.push(format!("{title} {one}")),
                titles => reasons.push(format!("{} {several}", all_of(titles))),
            }
        }
        reasons.join("; ")
    }

    /// The kernel modules through which the NVSwitches are reached.
    pub(crate) fn kernel_modules(&self) -> &'a [String] {
        self.joined
            .map(|joined| joined.fabric.kernel_modules.as_slice())
            .unwrap_or_default()
    }

    /// The packages that are installed in one transaction with the driver, or added to it, with
    /// whether their version follows the driver's.
    pub(crate) fn packages(&self) -> impl Iterator<Item = (&str, bool)> {
        self.parts
            .iter()
            .filter(|part| !part.is_built_for_driver())
            .flat_map(|part| {
                let follows = part.companion.version == VersionRule::Driver;
                part.source.names().map(move |name| (name, follows))
            })
    }

    /// The packages that are installed once the driver is there, because they build a kernel module
    /// that uses the driver's.
    pub(crate) fn packages_for_driver(&self) -> impl Iterator<Item = &str> {
        self.parts
            .iter()
            .filter(|part| part.is_built_for_driver())
            .flat_map(|part| part.source.names())
    }

    /// The packages of an older generation that are replaced, each with the units that run.
    pub(crate) fn former_packages(&self) -> impl Iterator<Item = (&str, &'a [String])> {
        self.parts
            .iter()
            .filter(|part| part.source != Source::Unavailable)
            .filter_map(|part| {
                let units = if part.is_enabled {
                    part.companion.units.as_slice()
                } else {
                    &[]
                };
                Some((part.former.as_deref()?, units))
            })
    }

    /// The kernel modules of companions that every boot loads.
    pub(crate) fn own_modules(&self) -> impl Iterator<Item = (&'a Companion, &'a str)> {
        let here = self
            .parts
            .iter()
            .filter(|part| part.source != Source::Unavailable);
        here.filter_map(|part| Some((part.companion, part.companion.kernel_module.as_deref()?)))
    }

    /// Those of the kernel modules that are installed, and were built for the driver before.
    pub(crate) fn built_modules(&self) -> impl Iterator<Item = (&'a Companion, &'a str)> {
        let here = self
            .parts
            .iter()
            .filter(|part| part.source == Source::Installed);
        let built = here
            .map(|part| part.companion)
            .filter(|of| !of.is_part_of_driver());
        built.filter_map(|of| Some((of, of.kernel_module.as_deref()?)))
    }

    /// Those that the user asks for.
    pub(crate) fn requested(&self) -> impl Iterator<Item = &'a Companion> {
        self.parts
            .iter()
            .filter(|part| part.is_requested)
            .map(|part| part.companion)
    }

    /// Those that come from archives.
    pub(crate) fn archives(&self) -> impl Iterator<Item = (&'a Companion, &'a Artifact)> {
        self.parts.iter().filter_map(|part| match part.source {
            Source::Archive(archive) => Some((part.companion, archive)),
            _ => None,
        })
    }

    /// The repository that is added for some of them, and those that come from it.
    pub(crate) fn added_repository(&self) -> Option<(&'a PackageRepository, Vec<&'a Companion>)> {
        let repository = self.parts.iter().find_map(Part::added_repository)?;
        let parts = self.parts.iter();
        let parts = parts.filter(|part| part.added_repository().is_some());
        Some((repository, parts.map(|part| part.companion).collect()))
    }

    /// Those that NVSwitches need and the user has to install.
    pub(crate) fn unavailable(&self) -> impl Iterator<Item = &'a Companion> {
        self.missing().filter(|of| !of.on_request)
    }

    /// Those that the user asks for and that gpusetup cannot install.
    pub(crate) fn refused(&self) -> impl Iterator<Item = &'a Companion> {
        self.missing().filter(|of| of.on_request)
    }

    /// The one that would connect the hosts that the user named, if gpusetup cannot install it.
    pub(crate) fn unconnected(&self) -> Option<&'a Companion> {
        self.missing()
            .find(|of| self.has_peers && of.peers.is_some())
    }

    fn missing(&self) -> impl Iterator<Item = &'a Companion> {
        self.parts
            .iter()
            .filter(|part| part.source == Source::Unavailable)
            .map(|part| part.companion)
    }

    /// Those that start only after the user has named the hosts of their domain, with the file that
    /// names them.
    pub(crate) fn unconfigured(&self) -> impl Iterator<Item = (&'a Companion, &'a str)> {
        self.connecting()
            .filter(|(part, _)| !self.has_peers && !part.is_enabled)
            .map(|(part, file)| (part.companion, file))
    }

    /// The files that name the hosts of the domain, each with the units that read it and run
    /// already.
    pub(crate) fn peer_files(&self) -> impl Iterator<Item = (&'a str, &'a [String])> {
        self.connecting()
            .filter(|_| self.has_peers)
            .map(move |(part, file)| match part.is_enabled {
                true => (file, part.companion.units.as_slice()),
                false => (file, &[][..]),
            })
    }

    /// Those that connect hosts, with the file that names them.
    fn connecting(&self) -> impl Iterator<Item = (&Part<'a>, &'a str)> {
        let here = self
            .parts
            .iter()
            .filter(|part| part.source != Source::Unavailable);
        here.filter_map(|part| Some((part, part.companion.peers.as_deref()?)))
    }

    /// The units that the plan starts: none as long as something is missing that they depend on.
    pub(crate) fn units(&self) -> impl Iterator<Item = (&'a str, bool)> {
        let complete = self.unavailable().next().is_none();
        let started = self
            .parts
            .iter()
            .filter(move |part| match part.companion.on_request {
                true => part.is_requested || part.is_enabled,
                false => complete && (self.has_peers || part.companion.peers.is_none()),
            });
        started.flat_map(|part| {
            part.companion
                .units
                .iter()
                .map(|unit| (unit.as_str(), part.is_enabled))
        })
    }

    /// What the plan does with them, for the title of the step. What is incomplete is not started.
    pub(crate) fn title(&self) -> String {
        if self
            .parts
            .iter()
            .all(|part| part.source == Source::Unavailable)
        {
            return "Load the kernel modules for the NVSwitches".to_owned();
        }
        let is_complete = self.unavailable().next().is_none() || self.units().next().is_some();
        let verb = if is_complete { "Set up" } else { "Install" };
        format!("{verb} {}", self.titles())
    }

    /// Their titles, for a sentence: of those that the plan sets up, if there are any.
    pub(crate) fn titles(&self) -> String {
        let none = self
            .parts
            .iter()
            .all(|part| part.source == Source::Unavailable);
        let shown = self
            .parts
            .iter()
            .filter(|part| none || part.source != Source::Unavailable);
        all_of(
            &shown
                .map(|part| part.companion.title.as_str())
                .collect::<Vec<_>>(),
        )
    }
}

impl Part<'_> {
    /// Whether its package builds a kernel module.
    fn is_built_for_driver(&self) -> bool {
        self.companion.kernel_module.is_some()
    }
}

impl Source<'_> {
    /// The packages that are installed.
    fn names(&self) -> impl Iterator<Item = &str> {
        let names = match self {
            Self::Packages(names) | Self::Added(names, _) => names.as_slice(),
            Self::Installed | Self::Archive(_) | Self::Unavailable => &[],
        };
        names.iter().map(String::as_str)
    }
}

fn source<'a>(
    host: &KnownHost<'a, '_>,
    driver: &ChosenDriver<'a>,
    oldest: Option<ComputeCapability>,
    companion: &'a Companion,
    installed: Option<&InstalledCompanion>,
) -> Source<'a> {
    if companion.is_part_of_driver() {
        let has_it = companion
            .driver
            .from
            .is_none_or(|from| driver.version >= from);
        return if has_it {
            Source::Installed
        } else {
            Source::Unavailable
        };
    }
    let follows = companion.version != VersionRule::Own;
    let package = match (follows, driver.install) {
        // In one transaction with the driver, so that both have one version.
        (true, Install::Packages(offer) | Install::Repository(offer, _)) => {
            let name = offer.companions.get(&companion.id);
            return name.map_or(Source::Unavailable, |name| {
                Source::Packages(vec![name.clone()])
            });
        }
        (_, install) if is_current(install, installed, companion, driver) => {
            return Source::Installed;
        }
        (true, Install::Kept(Method::Packages, _)) => {
            package_beside(host.distribution, host.facts, companion, driver.version)
        }
        (
            true,
            Install::Kept(..) | Install::Runfile(_) | Install::CudaRunfile(_) | Install::File,
        ) => {
            return archive(host, driver, companion, installed);
        }
        (false, _) => return independent(host, driver, oldest, companion),
    };
    package.map_or(Source::Unavailable, |name| {
        Source::Packages(vec![name.to_owned()])
    })
}

/// Whether an installed companion stays. One from an archive has no version that the package
/// manager knows, so with a new driver it comes again.
fn is_current(
    install: Install,
    installed: Option<&InstalledCompanion>,
    companion: &Companion,
    driver: &ChosenDriver,
) -> bool {
    let is_known = matches!(install, Install::Kept(..)) || companion.version == VersionRule::Own;
    installed
        .filter(|found| !is_former(companion, found))
        .is_some_and(|found| {
            fits(found, companion, driver.version) && (is_known || found.version.is_some())
        })
}

/// Whether packages of its older generation are installed.
fn is_former(companion: &Companion, installed: &InstalledCompanion) -> bool {
    installed
        .package
        .as_ref()
        .is_some_and(|name| companion.is_former(name))
}

/// The archive of a companion, for a driver that is not from packages. It would overwrite the files
/// of a package.
fn archive<'a>(
    host: &KnownHost<'a, '_>,
    driver: &ChosenDriver<'a>,
    companion: &'a Companion,
    installed: Option<&InstalledCompanion>,
) -> Source<'a> {
    let arch = &host.facts.machine.arch;
    let is_packaged = installed.is_some_and(|found| found.version.is_some());
    let archive = (!companion.archive.is_empty() && !is_packaged)
        .then(|| {
            host.database
                .companion_archive(companion.id, driver.version, arch)
        })
        .flatten();
    archive.map_or(Source::Unavailable, Source::Archive)
}

/// How a companion comes to the host whose version does not depend on the driver's.
fn independent<'a>(
    host: &KnownHost<'a, '_>,
    driver: &ChosenDriver<'a>,
    oldest: Option<ComputeCapability>,
    companion: &'a Companion,
) -> Source<'a> {
    if let Install::Repository(_, repository) = driver.install {
        let names =
            companion.packages_for(Some(repository.package_manager), driver.version, oldest);
        if names.first().is_some_and(|name| repository.names(name)) {
            return Source::Packages(names);
        }
    }
    match CompanionSource::of(
        companion,
        host.database,
        host.distribution,
        host.facts,
        (driver.version, oldest),
    ) {
        Some(CompanionSource::Enabled(names)) => Source::Packages(names),
        Some(CompanionSource::Addable(names, repository)) => Source::Added(names, repository),
        Some(
            CompanionSource::NotOffered(_)
            | CompanionSource::OfAnotherSystem(..)
            | CompanionSource::WithDriver(_)
            | CompanionSource::NotAddable(_),
        )
        | None => Source::Unavailable,
    }
}
