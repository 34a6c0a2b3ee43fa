//! The step that sets up what NVSwitches need besides the driver: Fabric Manager and other companions, in the driver's version,
//! held together with it, and started.

use super::context::{StepContext, skipped, step};
use super::settings::fabric_modules;
use super::{Act, Step, StepId};
use crate::compat::{Companion, PackageManager, VersionRule};
use crate::host::{Facts, InstalledCompanion, MachineKind};
use crate::operation::{Hold, Operation, Packages, Run, Service};
use crate::packages;
use crate::paths::HELD;
use crate::resolve::{ChosenDriver, Install, Joined, KnownHost, Method, Resolution, fits, package_beside};
use crate::system::Node;
use std::path::Path;

/// What the NVSwitches of a host need besides the driver that was chosen.
pub struct Companions<'a> {
    /// The NVSwitches.
    pub joined: Joined<'a>,
    parts: Vec<Part<'a>>,
    /// Whether the plan leaves the driver as it is.
    driver_is_kept: bool,
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

    fn titles(&self) -> String {
        self.parts.iter().map(|part| part.companion.title.as_str()).collect::<Vec<_>>().join(" and ")
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
        (true, Install::Packages(offer)) => {
            return offer.companions.get(&companion.id).map_or(Source::Unavailable, |name| Source::Package(name));
        }
        _ if installed.is_some_and(|found| fits(found, companion, driver.version)) => return Source::Installed,
        (true, Install::Kept(Method::Packages, _)) => {
            package_beside(host.distribution, host.facts, companion, driver.version)
        }
        (true, Install::Kept(..) | Install::Runfile(_) | Install::CudaRunfile(_)) => None,
        (false, _) => package_of_repository(host, companion),
    };
    package.map_or(Source::Unavailable, Source::Package)
}

/// The package of a companion in its own repository, if that is enabled.
fn package_of_repository<'a>(host: &KnownHost<'a, '_>, companion: &'a Companion) -> Option<&'a str> {
    let manager = host.distribution?.package_manager;
    let is_enabled = companion.repository.as_ref().is_some_and(|of| host.facts.has_enabled(&of.seen_as));
    let mut names = companion.packages.iter().filter(|of| of.package_manager.is_none_or(|of| of == manager));
    names.next().filter(|_| is_enabled).map(|of| of.name.as_str())
}

/// The step; none for a host without NVSwitches.
pub fn set_up_companions(context: &StepContext) -> Option<Step> {
    let companions = context.companions.as_ref()?;
    let title = format!("Set up {}", companions.titles());
    if context.facts.machine.kind == MachineKind::Container {
        return Some(skipped(StepId::InstallCompanions, title, "they run on the host of this container"));
    }
    let installed = missing_packages(context, companions);
    let mut acts: Vec<_> = modules(context, companions).into_iter().chain(installed).collect();
    acts.extend(hold(context, companions, acts.iter().any(|act| !act.satisfied)));
    let mut units = companions.units().peekable();
    if units.peek().is_some() {
        acts.extend(load_driver(context));
    }
    let start = |unit: &str| Operation::Service(Service { unit: unit.to_owned(), enabled: true });
    let is_kept = companions.driver_is_kept;
    acts.extend(units.map(|(unit, is_enabled)| Act { operation: start(unit), satisfied: is_kept && is_enabled }));
    if acts.is_empty() {
        return Some(skipped(
            StepId::InstallCompanions,
            title,
            "they are not installed with this driver: see the warning",
        ));
    }
    Some(step(StepId::InstallCompanions, title, companions.joined.sentence(), acts))
}

/// The packages that are added to an installed driver. With a new driver, they are part of its transaction.
fn missing_packages(context: &StepContext, companions: &Companions) -> Option<Act> {
    let driver = context.chosen.driver.as_ref().filter(|driver| driver.is_kept())?;
    let manager = context.distribution?.package_manager;
    let tool = tool(context).filter(|_| holds_nothing(context.facts) && is_packaged(driver));
    let names: Vec<_> = companions.packages().map(|(name, _)| name).chain(tool).map(str::to_owned).collect();
    let following = companions.packages().filter(|(_, follows)| *follows);
    let drivers = following.map(|(name, _)| (name.to_owned(), driver.version)).collect();
    let wanted = Packages { drivers, ..Packages::to_install(manager, names) };
    (!wanted.install.is_empty()).then(|| Act::needed(wanted))
}

/// Loads the modules that reach the NVSwitches, now and at every boot.
fn modules(context: &StepContext, companions: &Companions) -> Vec<Act> {
    let names = &companions.joined.fabric.kernel_modules;
    if names.is_empty() {
        return Vec::new();
    }
    let file = context.file(fabric_modules(names));
    let satisfied = file.satisfied;
    let argv = ["modprobe", "-a"].into_iter().map(str::to_owned).chain(names.iter().cloned());
    let load = (!context.facts.machine.is_tree).then(|| Act { operation: Run::new(argv, 60).into(), satisfied });
    [file].into_iter().chain(load).collect()
}

/// Holds the driver and its companions together. `changed`: packages are added to an installed driver.
fn hold(context: &StepContext, companions: &Companions, changed: bool) -> Option<Act> {
    let driver = context.chosen.driver.as_ref().filter(|driver| is_packaged(driver))?;
    let manager = context.distribution?.package_manager;
    packages::of(manager).holds.as_ref()?;
    let of_driver = match driver.install {
        Install::Packages(offer) => offer.packages_for(context.facts.desktop.is_some()),
        Install::Kept(..) | Install::Runfile(_) | Install::CudaRunfile(_) => &[],
    };
    let following = companions.packages().filter(|(_, follows)| *follows).map(|(name, _)| name.to_owned());
    let names = of_driver.iter().cloned().chain(following).collect();
    let satisfied = driver.is_kept() && !changed && !holds_nothing(context.facts);
    Some(Act { operation: Hold::new(manager, names, driver.version).into(), satisfied })
}

/// The modules of a driver that was just installed are not loaded yet, and without them nothing can be started.
fn load_driver(context: &StepContext) -> Option<Act> {
    let loaded = context.facts.loaded_modules.as_ref()?;
    let is_loaded = loaded.iter().any(|module| module.name == "nvidia");
    (!is_loaded).then(|| Act::needed(Run::new(["modprobe", "nvidia"], 300)))
}

/// Whether the driver is from packages, or will be.
fn is_packaged(driver: &ChosenDriver) -> bool {
    driver.install.method() == Method::Packages
}

/// The package with which the package manager can hold others, if its own lacks the commands.
pub fn tool(context: &StepContext) -> Option<&'static str> {
    packages::of(context.distribution?.package_manager).holds.as_ref()?.tool
}

/// Whether gpusetup holds no package yet.
fn holds_nothing(facts: &Facts) -> bool {
    !matches!(facts.node(Path::new(HELD)), Some(Node::File { .. }))
}

/// What comes before a packaged driver is replaced or removed: what gpusetup holds is released, and the units that use the
/// driver are stopped. They are told by the database.
pub fn let_go<'a>(facts: &Facts, manager: PackageManager, known: impl IntoIterator<Item = &'a Companion>) -> Vec<Act> {
    let release = (!holds_nothing(facts)).then(|| Act::needed(Hold::release(manager)));
    let is_enabled = |of: &&Companion| facts.companions.iter().any(|found| found.id == of.id && found.enabled);
    let units = known.into_iter().filter(is_enabled).flat_map(|of| &of.units);
    let stop = units.map(|unit| Act::needed(Service { unit: unit.clone(), enabled: false }));
    release.into_iter().chain(stop).collect()
}
