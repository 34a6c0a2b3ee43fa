//! The driver: by packages, or by NVIDIA's runfile.

use super::context::{StepContext, skipped, step};
use super::{Act, Step, StepId};
use crate::compat::{Artifact, ModuleFlavour};
use crate::operation::{Operation, Packages, Run};
use crate::packages;
use crate::resolve::{ChosenDriver, Install};
use crate::version::DriverVersion;

const TITLE: &str = "Install the NVIDIA driver";

/// What takes a driver of NVIDIA's runfile away again.
pub const UNINSTALL: [&str; 2] = ["/usr/bin/nvidia-uninstall", "--silent"];

/// The step.
pub fn install_driver(context: &StepContext) -> Step {
    let Some(driver) = &context.chosen.driver else {
        return skipped(StepId::InstallDriver, TITLE, "no driver was asked for");
    };
    let (version, modules) = (driver.version, driver.modules);
    let title = format!("Install the NVIDIA driver {version} with the {modules} kernel modules");
    match driver.install {
        Install::Kept(..) => {
            let why = format!("driver {version} is installed and fits");
            step(StepId::InstallDriver, title, why, Vec::new())
        }
        Install::Packages(offer) => {
            let manager = context.distribution.map_or(packages::ASSUMED, |d| d.package_manager);
            let desktop = context.facts.desktop.is_some();
            let wanted = Packages::to_install(manager, offer.packages_for(desktop).to_vec());
            // Their versions are looked at before they are installed, where a simulation tells them.
            let is_told = packages::of(manager).simulation.is_some();
            let drivers = if is_told { offer.versioned_packages(desktop) } else { &[] };
            let operation = Operation::Packages(Packages {
                stream: offer.module_stream.clone(),
                drivers: drivers.iter().map(|name| (name.clone(), version)).collect(),
                ..wanted
            });
            let why = format!("{}, whose updates then come with the system's", offer.repository.name);
            step(StepId::InstallDriver, title, why, vec![Act::needed(operation)])
        }
        Install::Runfile(a) => {
            let why = "NVIDIA's runfile, with DKMS so that the modules are rebuilt for every new kernel";
            runfile(context, title, why, &a.artifact, &options(context, driver))
        }
        Install::CudaRunfile(a) => {
            let why = format!("the driver part of the CUDA {} runfile, which alone carries it", a.version);
            runfile(
                context,
                title,
                &why,
                &a.artifact,
                &["--silent".to_owned(), "--driver".to_owned(), context.temporary()],
            )
        }
    }
}

fn runfile(context: &StepContext, title: String, why: &str, artifact: &Artifact, options: &[String]) -> Step {
    let Some(download) = context.download(artifact) else {
        return skipped(StepId::InstallDriver, title, "its runfile cannot be verified");
    };
    let file = context.cached(artifact);
    let argv = ["sh".to_owned(), file.display().to_string()].into_iter().chain(options.iter().cloned());
    // DKMS builds the modules once a kernel: two to four minutes each on two cores.
    let run = Run::new(argv, 3600).executing(file, artifact.sha256.clone().unwrap_or_default()).undone_by(UNINSTALL);
    let mut out = step(StepId::InstallDriver, title, why, vec![Act::needed(download), Act::needed(run)]);
    // Unpacked in the temporary directory and then installed; the compressed file is not much smaller than either.
    out.disk_bytes = artifact.size.map(|size| size * 4);
    out
}

/// The flags of nvidia-installer, each only from the version on that knows it.
fn options(context: &StepContext, driver: &ChosenDriver) -> Vec<String> {
    let version = driver.version;
    let since = |branch, minor, patch| version >= DriverVersion { branch, minor, patch: Some(patch) };
    let mut options = vec!["--silent".to_owned(), "--dkms".to_owned(), context.temporary()];
    if since(555, 42, 2) {
        options.push(format!("--kernel-module-type={}", driver.modules));
    } else if driver.modules == ModuleFlavour::Open {
        options.push("-m=kernel-open".to_owned());
    }
    if context.facts.machine.is_tree {
        // The kernel that runs is the builder's: build for the tree's, and look at nothing that runs.
        options.extend(context.facts.kernel().map(|k| format!("--kernel-name={k}")));
        options.extend(["--no-nouveau-check".to_owned(), "--no-x-check".to_owned()]);
        options.extend(since(550, 40, 7).then(|| "--skip-module-load".to_owned()));
    }
    options
}
