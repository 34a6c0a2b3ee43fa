//! What the NVSwitches of a host need besides the driver, and how each companion comes to the host.

use crate::compat::{Artifact, Companion, PackageRepository, VersionRule};
use crate::host::InstalledCompanion;
use crate::resolve::{ChosenDriver, Install, Joined, KnownHost, Method, Resolution, Supply, fits, package_beside};

/// What the NVSwitches of a host need besides the driver that was chosen.
pub struct Companions<'a> {
    /// The NVSwitches.
    pub joined: Joined<'a>,
    parts: Vec<Part<'a>>,
    /// Whether the user named the hosts that a companion connects.
    has_peers: bool,
    /// Whether the plan leaves the driver as it is.
    pub driver_is_kept: bool,
}

/// A companion, and how it comes to the host.
struct Part<'a> {
    companion: &'a Companion,
    source: Source<'a>,
    /// Whether systemd starts it at boot already.
    is_enabled: bool,
}

/// How a companion comes to the host.
#[derive(Clone, PartialEq)]
enum Source<'a> {
    /// It is installed, and fits the driver.
    Installed,
    /// This package is installed, from a repository that is enabled or added for the driver.
    Package(&'a str),
    /// This package is installed, from a repository that is added for it.
    Added(&'a str, &'a PackageRepository),
    /// This archive is unpacked.
    Archive(&'a Artifact),
    /// gpusetup cannot install it.
    Unavailable,
}

impl<'a> Companions<'a> {
    /// None for a host without NVSwitches, or without a driver. `has_peers`: the user named the hosts that a companion connects.
    pub fn of(host: &KnownHost<'a, '_>, chosen: &Resolution<'a>, has_peers: bool) -> Option<Self> {
        let (joined, driver) = (host.joined()?, chosen.driver.as_ref()?);
        let part = |companion: &'a Companion| {
            let installed = host.facts.companions.iter().find(|found| found.id == companion.id);
            let source = source(host, driver, companion, installed);
            Part { companion, source, is_enabled: installed.is_some_and(|found| found.enabled) }
        };
        let parts = joined.needs(host.database).map(part).collect();
        Some(Self { joined, parts, has_peers, driver_is_kept: driver.is_kept() })
    }

    /// The packages that are installed, with whether their version follows the driver's.
    pub fn packages(&self) -> impl Iterator<Item = (&'a str, bool)> {
        self.parts.iter().filter_map(|part| match part.source {
            Source::Package(name) | Source::Added(name, _) => {
                Some((name, part.companion.version == VersionRule::Driver))
            }
            Source::Installed | Source::Archive(_) | Source::Unavailable => None,
        })
    }

    /// Those that come from archives.
    pub fn archives(&self) -> impl Iterator<Item = (&'a Companion, &'a Artifact)> {
        self.parts.iter().filter_map(|part| match part.source {
            Source::Archive(archive) => Some((part.companion, archive)),
            _ => None,
        })
    }

    /// The repository that is added for some of them, and the packages that come from it.
    pub fn added_repository(&self) -> Option<(&'a PackageRepository, Vec<&'a str>)> {
        let added = || {
            self.parts.iter().filter_map(|part| match part.source {
                Source::Added(name, repository) => Some((name, repository)),
                _ => None,
            })
        };
        let (_, repository) = added().next()?;
        Some((repository, added().map(|(name, _)| name).collect()))
    }

    /// Those that the user has to install.
    pub fn unavailable(&self) -> impl Iterator<Item = &'a Companion> {
        self.parts.iter().filter(|part| part.source == Source::Unavailable).map(|part| part.companion)
    }

    /// Those that start only after the user has named the hosts of their domain, with the file that names them.
    pub fn unconfigured(&self) -> impl Iterator<Item = (&'a Companion, &'a str)> {
        self.connecting()
            .filter(|(part, _)| !self.has_peers && !part.is_enabled)
            .map(|(part, file)| (part.companion, file))
    }

    /// The files that name the hosts of the domain, each with the units that read it and run already.
    pub fn peer_files(&self) -> impl Iterator<Item = (&'a str, &'a [String])> {
        let running = |part: &Part<'a>| if part.is_enabled { part.companion.units.as_slice() } else { &[] };
        self.connecting().filter(|_| self.has_peers).map(move |(part, file)| (file, running(part)))
    }

    /// Those that connect hosts, with the file that names them.
    fn connecting(&self) -> impl Iterator<Item = (&Part<'a>, &'a str)> {
        let here = self.parts.iter().filter(|part| part.source != Source::Unavailable);
        here.filter_map(|part| Some((part, part.companion.peers.as_deref()?)))
    }

    /// The units that the plan starts: none as long as something is missing that they depend on.
    pub fn units(&self) -> impl Iterator<Item = (&'a str, bool)> {
        let complete = self.unavailable().next().is_none();
        let started =
            self.parts.iter().filter(move |part| complete && (self.has_peers || part.companion.peers.is_none()));
        started.flat_map(|part| part.companion.units.iter().map(|unit| (unit.as_str(), part.is_enabled)))
    }

    /// Their titles, for a sentence: of those that the plan sets up, if there are any.
    pub fn titles(&self) -> String {
        let none = self.parts.iter().all(|part| part.source == Source::Unavailable);
        let told = self.parts.iter().filter(|part| none || part.source != Source::Unavailable);
        told.map(|part| part.companion.title.as_str()).collect::<Vec<_>>().join(" and ")
    }
}

fn source<'a>(
    host: &KnownHost<'a, '_>,
    driver: &ChosenDriver<'a>,
    companion: &'a Companion,
    installed: Option<&InstalledCompanion>,
) -> Source<'a> {
    let follows = companion.version != VersionRule::Own;
    let package = match (follows, driver.install) {
        // In one transaction with the driver, so that both have one version.
        (true, Install::Packages(offer) | Install::Repository(offer, _)) => {
            return offer.companions.get(&companion.id).map_or(Source::Unavailable, |name| Source::Package(name));
        }
        (_, install) if is_current(install, installed, companion, driver) => return Source::Installed,
        (true, Install::Kept(Method::Packages, _)) => {
            package_beside(host.distribution, host.facts, companion, driver.version)
        }
        (true, Install::Kept(..) | Install::Runfile(_) | Install::CudaRunfile(_) | Install::File) => {
            return archive(host, driver, companion, installed);
        }
        (false, _) => return independent(host, driver, companion),
    };
    package.map_or(Source::Unavailable, Source::Package)
}

/// Whether an installed companion stays. One from an archive has no version that the package manager knows, so with a new driver
/// it comes again.
fn is_current(
    install: Install,
    installed: Option<&InstalledCompanion>,
    companion: &Companion,
    driver: &ChosenDriver,
) -> bool {
    let is_known = matches!(install, Install::Kept(..)) || companion.version == VersionRule::Own;
    installed.is_some_and(|found| fits(found, companion, driver.version) && (is_known || found.version.is_some()))
}

/// The archive of a companion, for a driver that is not from packages. It would overwrite the files of a package.
fn archive<'a>(
    host: &KnownHost<'a, '_>,
    driver: &ChosenDriver<'a>,
    companion: &'a Companion,
    installed: Option<&InstalledCompanion>,
) -> Source<'a> {
    let arch = &host.facts.machine.arch;
    let is_packaged = installed.is_some_and(|found| found.version.is_some());
    let archive = (!companion.archive.is_empty() && !is_packaged)
        .then(|| host.database.companion_archive(companion.id, driver.version, arch))
        .flatten();
    archive.map_or(Source::Unavailable, Source::Archive)
}

/// How a companion comes to the host whose version does not depend on the driver's.
fn independent<'a>(host: &KnownHost<'a, '_>, driver: &ChosenDriver<'a>, companion: &'a Companion) -> Source<'a> {
    if let (Install::Repository(_, repository), Some(name)) =
        (driver.install, Supply::package(companion, host.distribution))
        && repository.names(name)
    {
        return Source::Package(name);
    }
    match Supply::of(companion, host.database, host.distribution, host.facts) {
        Some(Supply::Enabled(name)) => Source::Package(name),
        Some(Supply::Addable(name, repository)) => Source::Added(name, repository),
        Some(Supply::NotOffered(_) | Supply::NotAddable(_)) | None => Source::Unavailable,
    }
}
