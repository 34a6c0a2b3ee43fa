//! The step that installs the driver: from packages, or from NVIDIA's runfile.

use super::companions::{
    former_packages, module_packages, rebuild_modules, release_holds_and_stop_units, tool,
    unload_modules,
};
use super::context::{StepContext, skipped, step};
use super::{Act, Step, StepId, sign_modules};
use gpusetup_database::compat::{Artifact, DriverOffer, ModuleFlavour, PackageManager};
use gpusetup_database::version::DriverVersion;
use gpusetup_operation::{Hold, Operation, Packages, Run};
use gpusetup_resolve::{ChosenDriver, DriverFile, Install, signed_modules};
use std::collections::BTreeSet;

const TITLE: &str = "Install the NVIDIA driver";

/// The first driver whose installer has `--kernel-module-type`.
const MODULE_TYPE_OPTION: DriverVersion = DriverVersion {
    branch: 555,
    minor: 42,
    patch: Some(2),
};

/// The first driver whose installer has `--skip-module-load`.
const SKIP_LOAD_OPTION: DriverVersion = DriverVersion {
    branch: 550,
    minor: 40,
    patch: Some(7),
};

/// The command that uninstalls a driver from NVIDIA's runfile.
pub(crate) const UNINSTALL: [&str; 2] = ["/usr/bin/nvidia-uninstall", "--silent"];

pub(crate) fn install_driver(context: &StepContext) -> Step {
    let Some(driver) = &context.chosen.driver else {
        return skipped(StepId::InstallDriver, TITLE, "no driver was requested");
    };
    let (version, modules) = (driver.version, driver.modules);
    let title = format!("Install the NVIDIA driver {version} with the {modules} kernel modules");
    match driver.install {
        Install::Kept(..) => {
            let why = format!("driver {version} is installed and fits");
            step(StepId::InstallDriver, title, why, Vec::new())
        }
        Install::Packages(offer) | Install::Repository(offer, _) => {
            packaged(context, driver, offer, title)
        }
        Install::Runfile(a) => {
            let why =
                "from NVIDIA's runfile, with DKMS, which rebuilds the modules for every new kernel";
            runfile(context, title, why, &a.artifact, &options(context, driver))
        }
        Install::File => {
            let Some(file) = &context.request.driver_file else {
                return skipped(
                    StepId::InstallDriver,
                    TITLE,
                    "no file of a driver was named",
                );
            };
            let why = "from the runfile that you named, with DKMS, which rebuilds the modules for every new kernel";
            runfile(
                context,
                title,
                why,
                &artifact(file),
                &options(context, driver),
            )
        }
        Install::CudaRunfile(a) => {
            let why = format!(
                "from the CUDA {} runfile, the only one that contains this driver",
                a.version
            );
            runfile(
                context,
                title,
                &why,
                &a.artifact,
                &[
                    "--silent".to_owned(),
                    "--driver".to_owned(),
                    context.temporary(),
                ],
            )
        }
    }
}

/// The step that installs packages of a driver.
fn packaged(
    context: &StepContext,
    driver: &ChosenDriver,
    offer: &DriverOffer,
    title: String,
) -> Step {
    let manager = context
        .distribution
        .map_or(gpusetup_packages::ASSUMED, |d| d.package_manager);
    let signed = signed_modules(context.distribution, offer, context.facts, driver.version);
    let why = why_packages(context, driver, offer, signed.as_deref());
    let mut acts = release_holds_and_stop_units(context.facts, manager, context.known_companions);
    let packages = packages(context, driver, offer, manager, signed);
    acts.push(Act::needed(Operation::Packages(packages)));
    acts.extend(rebuild_modules(context));
    if offer.signed_for.is_some()
        && !context.holds_driver()
        && gpusetup_packages::of(manager).holds.is_some()
    {
        let held = offer.packages_for(context.facts.desktop.is_some()).to_vec();
        acts.push(Act::needed(Hold::new(manager, held, driver.version)));
    }
    step(StepId::InstallDriver, title, why, acts)
}

/// The transaction that installs a driver's packages, and of its companions those that come with
/// it.
fn packages(
    context: &StepContext,
    driver: &ChosenDriver,
    offer: &DriverOffer,
    manager: PackageManager,
    signed: Option<String>,
) -> Packages {
    let version = driver.version;
    let desktop = context.facts.desktop.is_some();
    let mut names = offer.packages_for(desktop).to_vec();
    names.extend(signed);
    names.extend(beside_another_gpu(context).cloned());
    let versioned = offer.versioned_packages(desktop);
    let mut versioned: Vec<_> = versioned.iter().map(String::as_str).collect();
    let is_held = context.holds_driver() || offer.signed_for.is_some();
    if let Some(companions) = &context.companions {
        let tool = tool(context).filter(|_| is_held);
        let all = companions.packages().map(|(name, _)| name);
        names.extend(all.chain(tool).map(str::to_owned));
        names.extend(module_packages(context));
        let following = companions.packages().filter(|(_, follows)| *follows);
        versioned.extend(following.map(|(name, _)| name));
    }
    if offer.signed_for.is_some() {
        names = names
            .into_iter()
            .map(|name| exactly(context, offer, name, version))
            .collect();
    }
    // Of a repository that is added, the branch is all that is known.
    let is_exact = matches!(driver.install, Install::Packages(_));
    let is_replaced = !is_exact && context.facts.driver.is_some();
    let versioned = versioned.into_iter().map(str::to_owned);
    Packages {
        stream: offer.module_stream.clone(),
        drivers: { versioned.clone().filter(|_| is_exact) }
            .map(|name| (name, version))
            .collect(),
        branches: { versioned.clone().filter(|_| is_replaced) }
            .map(|name| (name, version.branch))
            .collect(),
        alike: versioned.filter(|_| is_held).collect(),
        remove: former_packages(context),
        remove_like: other_generations(context, offer),
        ..Packages::to_install(manager, names)
    }
}

fn why_packages(
    context: &StepContext,
    driver: &ChosenDriver,
    offer: &DriverOffer,
    signed: Option<&str>,
) -> String {
    let which = match (&offer.signed_for, signed, &driver.install) {
        (Some(_), ..) => ", with modules that the distribution has signed".to_owned(),
        (None, Some(signed), _) => format!(" and {signed}, which the distribution has signed"),
        (None, None, Install::Repository(..)) => {
            format!(", the newest of branch {} there", driver.version.branch)
        }
        (None, None, _) => String::new(),
    };
    let follows = match (context.holds_driver(), &offer.signed_for, signed) {
        (true, ..) => "held at its version, because what NVSwitches need must have the same",
        (false, Some(_), _) => {
            "held at its version, because its modules and its libraries must have the same"
        }
        (false, None, Some(_)) => {
            "both are updated with the system, and the modules with the kernel"
        }
        (false, None, None) => "it is updated with the system",
    };
    format!("from {}{which}; {follows}", offer.repository.name)
}

/// What the desktop of a laptop with two GPUs needs to choose between them.
fn beside_another_gpu<'a>(context: &StepContext<'a>) -> impl Iterator<Item = &'a String> {
    let is_needed = context.facts.is_hybrid() && context.facts.desktop.is_some();
    context
        .distribution
        .into_iter()
        .filter(move |_| is_needed)
        .flat_map(|known| &known.hybrid_packages)
}

/// A package of a driver whose modules are signed, as the manager takes it in one version: the
/// modules' as lists have it, the others' of the driver, if they have its version.
fn exactly(
    context: &StepContext,
    offer: &DriverOffer,
    name: String,
    version: DriverVersion,
) -> String {
    let manager = gpusetup_packages::of(
        context
            .distribution
            .map_or(gpusetup_packages::ASSUMED, |d| d.package_manager),
    );
    let modules = context
        .facts
        .offered
        .as_ref()
        .filter(|_| offer.packages.first() == Some(&name));
    let follows = context
        .companions
        .as_ref()
        .is_some_and(|all| all.packages().any(|(of, follows)| follows && of == name));
    match modules.and_then(|all| all.get(&name)) {
        Some(listed) => manager.exactly(&name, listed),
        None if follows || offer.packages_for(true).contains(&name) => {
            manager.exactly(&name, &version.to_string())
        }
        None => name,
    }
}

/// Patterns of the packages of an installed driver that those of the offer do not replace.
fn other_generations(context: &StepContext, offer: &DriverOffer) -> Vec<String> {
    let installed = context
        .facts
        .driver
        .as_ref()
        .and(context.distribution)
        .into_iter();
    let all = installed
        .flat_map(|of| &of.drivers)
        .filter_map(|other| other.generation.as_ref());
    let others: BTreeSet<_> = all
        .filter(|generation| offer.generation.as_ref() != Some(generation))
        .collect();
    others
        .into_iter()
        .map(|generation| format!("*-{generation}*"))
        .collect()
}

/// The file as others of the database are described.
fn artifact(file: &DriverFile) -> Artifact {
    Artifact {
        arch: file.is.arch.clone().into(),
        file: file.file.clone().into(),
        url: Some(file.url.clone().into()),
        sha256: Some(file.sha256.clone().into()),
        size: file.size,
        agree: 0,
        note: None,
        disagreement: None,
        sources: Vec::new(),
    }
}

fn runfile(
    context: &StepContext,
    title: String,
    why: &str,
    artifact: &Artifact,
    options: &[String],
) -> Step {
    let Some(download) = context.download(artifact) else {
        return skipped(
            StepId::InstallDriver,
            title,
            "the checksum of its runfile is not known",
        );
    };
    let file = context.cached(artifact);
    let argv = ["sh".to_owned(), file.display().to_string()]
        .into_iter()
        .chain(options.iter().cloned());
    // DKMS builds the modules for each kernel: two to four minutes each on two cores.
    let run = Run::new(argv, 3600)
        .executing(file, artifact.sha256.unwrap_or_default().to_string())
        .undone_by(UNINSTALL);
    // NVIDIA's installer replaces no driver that something uses.
    let manager = context
        .distribution
        .map_or(gpusetup_packages::ASSUMED, |d| d.package_manager);
    let stopped = release_holds_and_stop_units(context.facts, manager, context.known_companions);
    let stopped = stopped.into_iter().chain(unload_modules(context));
    let acts = [Act::needed(download)]
        .into_iter()
        .chain(stopped)
        .chain([Act::needed(run)])
        .collect();
    let mut out = step(StepId::InstallDriver, title, why, acts);
    // It is unpacked in the temporary directory and then installed; the compressed file is not much
    // smaller than either copy.
    out.disk_bytes = artifact.size.map(|size| size * 4);
    out
}

/// The options of nvidia-installer, each only since the version that supports it.
fn options(context: &StepContext, driver: &ChosenDriver) -> Vec<String> {
    let mut options = vec![
        "--silent".to_owned(),
        "--dkms".to_owned(),
        context.temporary(),
    ];
    if driver.version >= MODULE_TYPE_OPTION {
        options.push(format!("--kernel-module-type={}", driver.modules));
    } else if driver.modules == ModuleFlavour::Open {
        options.push("-m=kernel-open".to_owned());
    }
    options.extend(sign_modules::installer_options(context));
    if context.facts.machine.is_offline_root {
        // The running kernel is not the tree's: build for the tree's kernel, and check nothing that
        // runs.
        options.extend(context.facts.kernel().map(|k| format!("--kernel-name={k}")));
        options.extend(["--no-nouveau-check".to_owned(), "--no-x-check".to_owned()]);
        if driver.version >= SKIP_LOAD_OPTION {
            options.push("--skip-module-load".to_owned());
        }
    }
    options
}
