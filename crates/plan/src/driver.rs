//! The step that installs the driver: from packages, or from NVIDIA's runfile.

use super::companions::{
    former_packages, let_go, module_packages, rebuild_modules, tool, unload_modules,
};
use super::context::{StepContext, skipped, step};
use super::{Act, Step, StepId, sign_modules};
use gpusetup_database::compat::{Artifact, DriverOffer, ModuleFlavour};
use gpusetup_database::version::DriverVersion;
use gpusetup_operation::{Hold, Operation, Packages, Run};
use gpusetup_resolve::{ChosenDriver, DriverFile, Install, signed_modules};
use std::collections::BTreeSet;

const TITLE: &str = "Install the NVIDIA driver";

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
            let manager = context
                .distribution
                .map_or(gpusetup_packages::ASSUMED, |d| d.package_manager);
            let desktop = context.facts.desktop.is_some();
            let mut names = offer.packages_for(desktop).to_vec();
            let signed = signed_modules(context.distribution, offer, context.facts, version);
            names.extend(signed.clone());
            names.extend(beside_another_gpu(context).cloned());
            let mut versioned: Vec<_> = offer
                .versioned_packages(desktop)
                .iter()
                .map(String::as_str)
                .collect();
            let is_held = context.holds_driver() || offer.signed_for.is_some();
            if let Some(companions) = &context.companions {
                let tool = tool(context).filter(|_| is_held);
                names.extend(
                    companions
                        .packages()
                        .map(|(name, _)| name)
                        .chain(tool)
                        .map(str::to_owned),
                );
                names.extend(module_packages(context));
                versioned.extend(
                    companions
                        .packages()
                        .filter(|(_, follows)| *follows)
                        .map(|(name, _)| name),
                );
            }
            // Of a repository that is added, the branch is all that is known.
            let drivers = if matches!(driver.install, Install::Packages(_)) {
                versioned.as_slice()
            } else {
                &[]
            };
            let replaced = if drivers.is_empty() && context.facts.driver.is_some() {
                versioned.as_slice()
            } else {
                &[]
            };
            let alike = if is_held { versioned.as_slice() } else { &[] };
            let held = offer.packages_for(desktop).to_vec();
            if offer.signed_for.is_some() {
                names = names
                    .into_iter()
                    .map(|name| exactly(context, offer, name, version))
                    .collect();
            }
            let operation = Operation::Packages(Packages {
                stream: offer.module_stream.clone(),
                drivers: drivers
                    .iter()
                    .map(|name| ((*name).to_owned(), version))
                    .collect(),
                branches: replaced
                    .iter()
                    .map(|name| ((*name).to_owned(), version.branch))
                    .collect(),
                alike: alike.iter().map(|name| (*name).to_owned()).collect(),
                remove: former_packages(context),
                remove_like: other_generations(context, offer),
                ..Packages::to_install(manager, names)
            });
            let follows_kernel = signed.is_some();
            let which = match driver.install {
                _ if offer.signed_for.is_some() => {
                    ", with modules that the distribution has signed".to_owned()
                }
                _ if signed.is_some() => {
                    format!(
                        " and {}, which the distribution has signed",
                        signed.unwrap_or_default()
                    )
                }
                Install::Repository(..) => {
                    format!(", the newest of branch {} there", version.branch)
                }
                _ => String::new(),
            };
            let follows = match (context.holds_driver(), &offer.signed_for) {
                (true, _) => "held at its version, because what NVSwitches need must have the same",
                (false, Some(_)) => {
                    "held at its version, because its modules and its libraries must have the same"
                }
                (false, None) if follows_kernel => {
                    "both are updated with the system, and the modules with the kernel"
                }
                (false, None) => "it is updated with the system",
            };
            let why = format!("from {}{which}; {follows}", offer.repository.name);
            let mut acts = let_go(context.facts, manager, context.known_companions);
            acts.push(Act::needed(operation));
            acts.extend(rebuild_modules(context));
            if offer.signed_for.is_some()
                && !context.holds_driver()
                && gpusetup_packages::of(manager).holds.is_some()
            {
                acts.push(Act::needed(Hold::new(manager, held, version)));
            }
            step(StepId::InstallDriver, title, why, acts)
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
    let stopped = let_go(context.facts, manager, context.known_companions);
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
    let version = driver.version;
    let since = |branch, minor, patch| {
        version
            >= DriverVersion {
                branch,
                minor,
                patch: Some(patch),
            }
    };
    let mut options = vec![
        "--silent".to_owned(),
        "--dkms".to_owned(),
        context.temporary(),
    ];
    if since(555, 42, 2) {
        options.push(format!("--kernel-module-type={}", driver.modules));
    } else if driver.modules == ModuleFlavour::Open {
        options.push("-m=kernel-open".to_owned());
    }
    options.extend(sign_modules::installer_options(context));
    if context.facts.machine.is_tree {
        // The running kernel is not the tree's: build for the tree's kernel, and check nothing that
        // runs.
        options.extend(context.facts.kernel().map(|k| format!("--kernel-name={k}")));
        options.extend(["--no-nouveau-check".to_owned(), "--no-x-check".to_owned()]);
        options.extend(since(550, 40, 7).then(|| "--skip-module-load".to_owned()));
    }
    options
}
