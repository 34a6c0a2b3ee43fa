//! The step that sets up what comes besides the driver: what NVSwitches need, such as Fabric
//! Manager, in the driver's version and held together with it, and what the user asks for, such as
//! DCGM.

use super::context::{StepContext, skipped, step};
use super::needed::Companions;
use super::requested;
use super::{Act, Step, StepId};
use gpusetup_database::compat::{Artifact, Companion, PackageManager};
use gpusetup_host::{Facts, MachineKind};
use gpusetup_operation::{Hold, Operation, Packages, Placement, Run, Service, Unpack, WriteFile};
use gpusetup_recipes::{fabric_modules, module_at_boot};
use gpusetup_resolve::{ChosenDriver, Method};
use gpusetup_system::Node;
use gpusetup_text::paths::HELD;
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::Path;

/// The step; none for a host without NVSwitches, unless something is requested.
pub(crate) fn set_up_companions(context: &StepContext) -> Option<Step> {
    let Some(companions) = context.companions.as_ref() else {
        return requested::without_driver(context);
    };
    let title = format!("Set up {}", companions.titles());
    if context.facts.machine.kind == MachineKind::Container {
        return Some(skipped(
            StepId::InstallCompanions,
            title,
            "they run on the host of this container",
        ));
    }
    let installed = missing_packages(context, companions);
    let stopped: Vec<_> = installed
        .iter()
        .flat_map(|_| stop_former(companions))
        .collect();
    let unpacked = companions
        .archives()
        .flat_map(|(of, archive)| unpack(context, of, archive));
    let mut acts: Vec<_> = stopped
        .into_iter()
        .chain(installed)
        .chain(modules(context, companions))
        .chain(unpacked)
        .collect();
    acts.extend(packages_for_driver(context, companions));
    acts.extend(hold(
        context,
        companions,
        acts.iter().any(|act| !act.satisfied),
    ));
    acts.extend(
        companions
            .peer_files()
            .flat_map(|(file, running)| name_peers(context, file, running)),
    );
    let mut units = companions.units().peekable();
    if units.peek().is_some() {
        acts.extend(load_driver(context));
    }
    acts.extend(
        companions
            .own_modules()
            .flat_map(|(of, module)| load_module(context, of, module)),
    );
    let is_kept = companions.driver_is_kept;
    acts.extend(units.map(|(unit, is_enabled)| Act {
        operation: Operation::Service(Service {
            unit: unit.to_owned(),
            enabled: true,
            restart: false,
        }),
        satisfied: is_kept && is_enabled,
    }));
    if acts.is_empty() {
        return Some(skipped(
            StepId::InstallCompanions,
            title,
            "they are not installed with this driver: see the warning",
        ));
    }
    let mut out = step(
        StepId::InstallCompanions,
        companions.title(),
        companions.reason(),
        acts,
    );
    if companions.archives().next().is_some() {
        out.disk_bytes = companions
            .archives()
            .map(|(_, archive)| archive.size.map(|size| size * 3))
            .sum();
    }
    Some(out)
}

/// The step for hosts that the user named although nothing here connects hosts; none if none are
/// named.
pub(crate) fn without_peers(context: &StepContext) -> Option<Step> {
    let connects = context
        .companions
        .as_ref()
        .is_some_and(|companions| companions.peer_files().next().is_some());
    if context.request.imex_peers.is_empty() || connects {
        return None;
    }
    let title = format!(
        "Set up {}",
        context
            .known_companions
            .iter()
            .find(|of| of.peers.is_some())?
            .title
    );
    let why = match context.chosen.driver {
        Some(_) => "the GPUs here share no NVLink domain with other hosts, as far as known",
        None => requested::no_driver(context),
    };
    Some(skipped(StepId::InstallCompanions, title, why))
}

/// Names the hosts of the domain, one address per line, the same on all of them. What runs already
/// reads the file again.
fn name_peers(context: &StepContext, file: &str, running: &[String]) -> Vec<Act> {
    let addresses: BTreeSet<_> = context
        .request
        .imex_peers
        .iter()
        .map(IpAddr::to_canonical)
        .collect();
    let content = addresses
        .iter()
        .map(|address| format!("{address}\n"))
        .collect();
    let write = context.file(
        WriteFile {
            path: file.into(),
            content,
            mode: 0o644,
            merged_from: None,
        }
        .into(),
    );
    let is_stale = !write.satisfied && !context.facts.machine.is_offline_root;
    let restarts = running
        .iter()
        .filter(|_| is_stale)
        .map(|unit| Act::needed(Run::new(["systemctl", "restart", unit], 120)));
    [write].into_iter().chain(restarts).collect()
}

/// Downloads a companion's archive, and puts its files where its packages have them.
fn unpack(context: &StepContext, of: &Companion, archive: &Artifact) -> Vec<Act> {
    let Some(download) = context.download(archive) else {
        return Vec::new();
    };
    let into = of
        .archive
        .iter()
        .map(|file| Placement {
            from: (&file.from).into(),
            to: (&file.to).into(),
        })
        .collect();
    let (archive, sha256) = (context.cached(archive), archive.sha256.unwrap_or_default());
    vec![
        Act::needed(download),
        Act::needed(Unpack {
            archive,
            sha256: sha256.to_string(),
            into,
            limit: None,
        }),
    ]
}

/// The packages that are added to an installed driver, or to one without packages. With a new
/// packaged driver, they are part of its transaction.
fn missing_packages(context: &StepContext, companions: &Companions) -> Option<Act> {
    let driver = context
        .chosen
        .driver
        .as_ref()
        .filter(|driver| driver.is_kept() || !is_packaged(driver))?;
    let manager = context.distribution?.package_manager;
    let tool =
        tool(context).filter(|_| is_held(companions, driver) && holds_nothing(context.facts));
    let names = companions
        .packages()
        .map(|(name, _)| name)
        .chain(tool)
        .map(str::to_owned);
    let names: Vec<_> = names.chain(module_packages(context)).collect();
    let following = companions.packages().filter(|(_, follows)| *follows);
    let drivers = following
        .map(|(name, _)| (name.to_owned(), driver.version))
        .collect();
    let remove = former_packages(context);
    let wanted = Packages {
        drivers,
        remove,
        ..Packages::to_install(manager, names)
    };
    (!wanted.install.is_empty()).then(|| Act::needed(wanted))
}

/// Stops what runs of an older generation that is replaced.
fn stop_former(companions: &Companions) -> impl Iterator<Item = Act> {
    let units = companions.former_packages().flat_map(|(_, units)| units);
    units.map(|unit| {
        Act::needed(Service {
            unit: unit.clone(),
            enabled: false,
            restart: false,
        })
    })
}

/// The packages of an older generation, with which the new ones conflict: they go in the same
/// operation.
pub(crate) fn former_packages(context: &StepContext) -> Vec<String> {
    let former = context
        .companions
        .iter()
        .flat_map(|all| all.former_packages());
    former.map(|(name, _)| name.to_owned()).collect()
}

/// The packages that build a kernel module for the driver.
fn packages_for_driver(context: &StepContext, companions: &Companions) -> Option<Act> {
    let names: Vec<_> = companions
        .packages_for_driver()
        .map(str::to_owned)
        .collect();
    let manager = context.distribution?.package_manager;
    (!names.is_empty()).then(|| Act::needed(Packages::to_install(manager, names)))
}

/// Builds the installed kernel modules of companions again for the driver that was just installed:
/// DKMS takes them for built. With the next boot, one of another driver can crash the kernel.
pub(crate) fn rebuild_modules(context: &StepContext) -> Vec<Act> {
    let Some(kernel) = context.facts.kernel() else {
        return Vec::new();
    };
    let built = context
        .companions
        .iter()
        .flat_map(|all| all.built_modules());
    let trees = built.filter_map(|(of, module)| {
        let found = context
            .facts
            .companions
            .iter()
            .find(|found| found.id == of.id)?;
        Some(format!("{module}/{}", found.version.as_ref()?))
    });
    trees
        .flat_map(|tree| {
            ["build", "install"].map(|what| {
                Act::needed(Run::new(
                    ["dkms", what, "--force", &tree, "-k", kernel],
                    1800,
                ))
            })
        })
        .collect()
}

/// Loads the kernel module of a companion, now and at every boot.
fn load_module(context: &StepContext, of: &Companion, module: &str) -> Vec<Act> {
    let Some(path) = of.module_file() else {
        return Vec::new();
    };
    let file = context.file(module_at_boot(&path, of, module));
    let is_loaded = is_loaded(context.facts, module);
    let is_kept = context
        .chosen
        .driver
        .as_ref()
        .is_some_and(ChosenDriver::is_kept);
    let run = Run::new(["modprobe", module], 60).undone_by(["modprobe", "--remove", module]);
    let load = Act {
        operation: run.into(),
        satisfied: is_loaded && is_kept,
    };
    [file]
        .into_iter()
        .chain((!context.facts.machine.is_offline_root).then_some(load))
        .collect()
}

/// Unloads the kernel modules of companions, which use the driver that is replaced.
pub(crate) fn unload_modules(context: &StepContext) -> impl Iterator<Item = Act> {
    let modules = context
        .known_companions
        .iter()
        .filter_map(|of| of.kernel_module.as_deref());
    let loaded = modules.filter(|module| is_loaded(context.facts, module));
    loaded.map(|module| {
        Act::needed(Run::new(["modprobe", "--remove", module], 60).undone_by(["modprobe", module]))
    })
}

/// Whether the running kernel has this module. It writes dashes as underscores.
fn is_loaded(facts: &Facts, module: &str) -> bool {
    facts
        .loaded_modules
        .iter()
        .flatten()
        .any(|loaded| loaded.name == module.replace('-', "_"))
}

/// The packages with the modules that reach the NVSwitches, if the kernel's own package may lack
/// them and a repository has them. Once the modules are loaded at every boot, they are there.
pub(crate) fn module_packages(context: &StepContext) -> Vec<String> {
    let needs = context
        .companions
        .as_ref()
        .map(Companions::kernel_modules)
        .unwrap_or_default();
    let (Some(distribution), Some(kernel), Some(offered)) = (
        context.distribution,
        context.facts.kernel(),
        &context.facts.offered,
    ) else {
        return Vec::new();
    };
    if needs.is_empty() || context.file(fabric_modules(needs)).satisfied {
        return Vec::new();
    }
    distribution
        .fabric_modules_of(kernel)
        .filter(|name| offered.contains_key(name))
        .collect()
}

/// Loads the modules that reach the NVSwitches, now and at every boot.
fn modules(context: &StepContext, companions: &Companions) -> Vec<Act> {
    let names = companions.kernel_modules();
    if names.is_empty() {
        return Vec::new();
    }
    let file = context.file(fabric_modules(names));
    let satisfied = file.satisfied;
    let argv = ["modprobe", "-a"]
        .into_iter()
        .map(str::to_owned)
        .chain(names.iter().cloned());
    let load = (!context.facts.machine.is_offline_root).then(|| Act {
        operation: Run::new(argv, 60).into(),
        satisfied,
    });
    [file].into_iter().chain(load).collect()
}

/// Holds the driver and the companions of its version together. `changed`: packages are added to an
/// installed driver.
fn hold(context: &StepContext, companions: &Companions, changed: bool) -> Option<Act> {
    let driver = context
        .chosen
        .driver
        .as_ref()
        .filter(|driver| is_held(companions, driver))?;
    let manager = context.distribution?.package_manager;
    gpusetup_packages::of(manager).holds.as_ref()?;
    let following = companions
        .packages()
        .filter(|(_, follows)| *follows)
        .map(|(name, _)| name.to_owned());
    let names = driver_packages(context, driver)
        .iter()
        .cloned()
        .chain(following)
        .collect();
    let satisfied = driver.is_kept() && !changed && !holds_nothing(context.facts);
    Some(Act {
        operation: Hold::new(manager, names, driver.version).into(),
        satisfied,
    })
}

/// Whether the driver keeps its version together with what NVSwitches need. Without that, it waits
/// for an upgrade.
fn is_held(companions: &Companions, driver: &ChosenDriver) -> bool {
    companions.joined.is_some() && is_packaged(driver) && companions.unavailable().next().is_none()
}

/// The modules of a driver that was just installed are not loaded yet, and without them nothing can
/// be started.
pub(crate) fn load_driver(context: &StepContext) -> Option<Act> {
    let is_loaded = context.facts.driver_is_loaded() == Some(true);
    (!is_loaded && !context.facts.machine.is_offline_root)
        .then(|| Act::needed(Run::new(["modprobe", "nvidia"], 300)))
}

/// The names of a packaged driver's packages, without their dependencies.
pub(crate) fn driver_packages<'a>(context: &StepContext, driver: &'a ChosenDriver) -> &'a [String] {
    let offer = driver.install.offer();
    offer
        .map(|offer| offer.packages_for(context.facts.desktop.is_some()))
        .unwrap_or_default()
}

/// Whether the driver is from packages, or will be.
pub(crate) fn is_packaged(driver: &ChosenDriver) -> bool {
    matches!(
        driver.install.method(),
        Method::Packages | Method::Repository
    )
}

/// The package with which the package manager can hold others, if its own lacks the commands.
pub(crate) fn tool(context: &StepContext) -> Option<&'static str> {
    gpusetup_packages::of(context.distribution?.package_manager)
        .holds
        .as_ref()?
        .tool
}

/// Whether gpusetup holds no package yet.
pub(crate) fn holds_nothing(facts: &Facts) -> bool {
    !matches!(facts.node(Path::new(HELD)), Some(Node::File { .. }))
}

/// What comes before a packaged driver is replaced or removed: what gpusetup holds is released, and
/// the units that use the driver are stopped. They are told by the database.
pub(crate) fn release_holds_and_stop_units<'a>(
    facts: &Facts,
    manager: PackageManager,
    known: impl IntoIterator<Item = &'a Companion>,
) -> Vec<Act> {
    let release = (!holds_nothing(facts)).then(|| Act::needed(Hold::release(manager)));
    let units = known
        .into_iter()
        .filter(|of| {
            facts
                .companions
                .iter()
                .any(|found| found.id == of.id && found.enabled)
        })
        .flat_map(|of| &of.units);
    let stop = units.map(|unit| {
        Act::needed(Service {
            unit: unit.clone(),
            enabled: false,
            restart: false,
        })
    });
    release.into_iter().chain(stop).collect()
}
