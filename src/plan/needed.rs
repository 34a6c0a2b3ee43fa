//! What the NVSwitches of a host need besides the driver, and how each companion comes to the host.

use crate::compat::{Companion, VersionRule};
use crate::host::InstalledCompanion;
use crate::resolve::{ChosenDriver, Install, Joined, KnownHost, Method, Resolution, fits, package_beside};

/// What the NVSwitches of a host need besides the driver that was chosen.
pub struct Companions<'a> {
    /// The NVSwitches.
    pub joined: Joined<'a>,
    parts: Vec<Part<'a>>,
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
#[derive(Clone, PartialEq, Eq)]
enum Source<'a> {
    /// It is installed, and fits the driver.
    Installed,
    /// This package is installed.
    Package(&'a str),
    /// gpusetup cannot install it.
    Unavailable,
}

impl<'a> Companions<'a> {
    /// None for a host without NVSwitches, or without a driver.
    pub fn of(host: &KnownHost<'a, '_>, chosen: &Resolution<'a>) -> Option<Self> {
        let (joined, driver) = (host.joined()?, chosen.driver.as_ref()?);
        let part = |companion: &'a Companion| {
            let installed = host.facts.companions.iter().find(|found| found.id == companion.id);
            let source = source(host, driver, companion, installed);
            Part { companion, source, is_enabled: installed.is_some_and(|found| found.enabled) }
        };
        let parts = joined.needs(host.database).map(part).collect();
        Some(Self { joined, parts, driver_is_kept: driver.is_kept() })
    }

    /// The packages that are installed, with whether their version follows the driver's.
    pub fn packages(&self) -> impl Iterator<Item = (&'a str, bool)> {
        self.parts.iter().filter_map(|part| match part.source {
            Source::Package(name) => Some((name, part.companion.version == VersionRule::Driver)),
            Source::Installed | Source::Unavailable => None,
        })
    }

    /// Those that the user has to install.
    pub fn unavailable(&self) -> impl Iterator<Item = &'a Companion> {
        self.parts.iter().filter(|part| part.source == Source::Unavailable).map(|part| part.companion)
    }

    /// Those that start only after the user has named the hosts of their domain.
    pub fn unconfigured(&self) -> impl Iterator<Item = (&'a Companion, &'a str)> {
        let here = self.parts.iter().filter(|part| part.source != Source::Unavailable && !part.is_enabled);
        here.filter_map(|part| Some((part.companion, part.companion.peers.as_deref()?)))
    }

    /// The units that the plan starts: none as long as something is missing that they depend on.
    pub fn units(&self) -> impl Iterator<Item = (&'a str, bool)> {
        let complete = self.unavailable().next().is_none();
        let started = self.parts.iter().filter(move |part| complete && part.companion.peers.is_none());
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
        _ if installed.is_some_and(|found| fits(found, companion, driver.version)) => return Source::Installed,
        (true, Install::Kept(Method::Packages, _)) => {
            package_beside(host.distribution, host.facts, companion, driver.version)
        }
        (true, Install::Kept(..) | Install::Runfile(_) | Install::CudaRunfile(_) | Install::File) => None,
        (false, _) => package_of_repository(host, driver, companion),
    };
    package.map_or(Source::Unavailable, Source::Package)
}

/// The package of a companion in its own repository, if that is enabled or the plan adds it.
fn package_of_repository<'a>(
    host: &KnownHost<'a, '_>,
    driver: &ChosenDriver<'a>,
    companion: &'a Companion,
) -> Option<&'a str> {
    let manager = host.distribution?.package_manager;
    let is_enabled = companion.repository.as_ref().is_some_and(|of| host.facts.has_enabled(&of.seen_as));
    let is_added = |name: &String| match driver.install {
        Install::Repository(_, repository) => repository.packages.contains(name),
        _ => false,
    };
    let mut names = companion.packages.iter().filter(|of| of.package_manager.is_none_or(|of| of == manager));
    names.next().map(|of| &of.name).filter(|name| is_enabled || is_added(name)).map(String::as_str)
}
