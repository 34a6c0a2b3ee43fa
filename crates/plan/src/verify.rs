//! The step that verifies the installation on the host itself. An exit status alone proves nothing.

use super::context::{StepContext, skipped, step};
use super::{Act, Step, StepId};
use gpusetup_host::Origin;
use gpusetup_operation::Run;
use gpusetup_recipes::compile;
use gpusetup_resolve::{ChosenDriver, Install};
use std::path::Path;

const TITLE: &str = "Verify the installation";

/// The step that verifies the installation. Every apply runs it again; it changes nothing.
pub(crate) fn verify(context: &StepContext, converged: bool) -> Step {
    let mut asks = Vec::new();
    if let Some(driver) = &context.chosen.driver {
        asks.extend(check_driver(context, driver));
    }
    let units = context
        .companions
        .iter()
        .flat_map(|companions| companions.units());
    for (unit, _) in units.filter(|_| !context.facts.machine.is_offline_root) {
        asks.push(Run::ask(["systemctl", "is-active", unit], None));
    }
    if let Some(toolkit) = context.toolkit() {
        asks.extend(check_toolkit(context, toolkit));
    }
    asks.extend(context.additional.iter().flat_map(check_additional_toolkit));
    if asks.is_empty() {
        return skipped(
            StepId::Verify,
            TITLE,
            "nothing can be asked before the host has booted: then run gpusetup doctor",
        );
    }
    let acts = asks
        .into_iter()
        .map(|ask| Act {
            operation: ask.into(),
            satisfied: converged,
        })
        .collect();
    step(
        StepId::Verify,
        TITLE,
        "the exit status of an installer is no proof",
        acts,
    )
}

fn check_driver(context: &StepContext, driver: &ChosenDriver) -> Vec<Run> {
    let mut asks = Vec::new();
    // With packages, the repository decides the patch level; only the branch was chosen.
    let (expects, module) = match driver.install {
        Install::Packages(offer) | Install::Repository(offer, _) => (
            format!("{}.", driver.version.branch),
            offer.kernel_module.as_deref().unwrap_or("nvidia"),
        ),
        Install::Kept(..) => (driver.version.to_string(), kept_module(context)),
        Install::Runfile(_) | Install::CudaRunfile(_) | Install::File => {
            (driver.version.to_string(), "nvidia")
        }
    };
    let kernels = &context.facts.kernels.installed;
    let kernel = context.facts.kernel();
    if let Some(kernel) = kernel.filter(|k| kernels.iter().any(|i| i.release == **k)) {
        asks.push(Run::ask(
            ["modinfo", "-k", kernel, "-F", "version", module],
            Some(expects.clone()),
        ));
    }
    // nvidia-smi fails without a GPU, for example in an image built for other hosts.
    if !context.facts.machine.is_offline_root && context.facts.gpus.iter().any(|g| !g.assumed) {
        asks.push(Run::ask(
            [
                "nvidia-smi",
                "--query-gpu=driver_version",
                "--format=csv,noheader",
            ],
            Some(expects),
        ));
    }
    asks
}

fn check_toolkit(context: &StepContext, toolkit: &Path) -> Vec<Run> {
    let mut asks = Vec::new();
    if context.has_component("cuda_nvcc") {
        let nvcc = toolkit.join("bin/nvcc").display().to_string();
        let cuda = context.chosen.cuda.as_ref();
        let series = cuda.map(|c| format!("release {}", c.release.version.series()));
        asks.push(Run::ask([nvcc, "--version".to_owned()], series));
        if context.has_component("cuda_cudart") {
            // By name: a login shell must find it.
            asks.push(compile::operation("nvcc", context.facts));
        }
    } else if context.has_component("cuda_cudart") {
        asks.push(in_loader_cache("libcudart.so."));
    }
    for add_on in &context.chosen.add_ons {
        let soname = add_on.of.soname(add_on.artifact.version);
        asks.push(in_loader_cache(&format!("{soname} ")));
    }
    asks
}

fn in_loader_cache(library: &str) -> Run {
    Run::ask(["ldconfig", "-p"], Some(library.to_owned()))
}

fn check_additional_toolkit(additional: &StepContext) -> Vec<Run> {
    let Some((toolkit, series)) = additional.toolkit().zip(additional.series()) else {
        return Vec::new();
    };
    if !additional.has_component("cuda_nvcc") {
        return Vec::new();
    }
    let nvcc = toolkit.join("bin/nvcc").display().to_string();
    let mut asks = vec![Run::ask(
        [nvcc.as_str(), "--version"],
        Some(format!("release {series}")),
    )];
    if additional.has_component("cuda_cudart") {
        asks.push(compile::operation(&nvcc, additional.facts));
    }
    asks
}

/// The distribution's name for the kernel module of an installed packaged driver.
pub(crate) fn kept_module<'a>(context: &'a StepContext) -> &'a str {
    let installed = context.facts.driver.as_ref();
    let offers = context
        .distribution
        .map(|d| d.drivers.as_slice())
        .unwrap_or_default();
    let same = offers.iter().find(|o| {
        installed.is_some_and(|d| {
            d.origin == Origin::Dpkg && d.version.branch == o.branch && d.modules == Some(o.modules)
        })
    });
    same.and_then(|o| o.kernel_module.as_deref())
        .unwrap_or("nvidia")
}
