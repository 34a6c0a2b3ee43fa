//! The step that verifies the installation on the host itself. An exit status alone proves nothing.

use super::context::{StepContext, step};
use super::{Act, Step, StepId};
use gpusetup_host::Origin;
use gpusetup_operation::Run;
use gpusetup_recipes::compile;
use gpusetup_resolve::Install;

/// The step that verifies the installation. Every apply runs it again; it changes nothing.
pub(crate) fn verify(context: &StepContext, converged: bool) -> Step {
    let mut asks = Vec::new();
    if let Some(driver) = &context.chosen.driver {
        // With packages, the repository decides the patch level; only the branch was chosen.
        let expects = match driver.install {
            Install::Packages(_) | Install::Repository(..) => format!("{}.", driver.version.branch),
            Install::Kept(..) | Install::Runfile(_) | Install::CudaRunfile(_) | Install::File => {
                driver.version.to_string()
            }
        };
        if let Some(kernel) = context.facts.kernel().filter(|k| {
            context
                .facts
                .kernels
                .installed
                .iter()
                .any(|i| i.release == **k)
        }) {
            let module = match driver.install {
                Install::Packages(offer) | Install::Repository(offer, _) => {
                    offer.kernel_module.as_deref().unwrap_or("nvidia")
                }
                Install::Kept(..) => kept_module(context),
                Install::Runfile(_) | Install::CudaRunfile(_) | Install::File => "nvidia",
            };
            asks.push(Run::ask(
                ["modinfo", "-k", kernel, "-F", "version", module],
                Some(expects.clone()),
            ));
        }
        // nvidia-smi fails without a GPU, for example in an image built for other hosts.
        if !context.facts.machine.is_tree && context.facts.gpus.iter().any(|g| !g.assumed) {
            asks.push(Run::ask(
                [
                    "nvidia-smi",
                    "--query-gpu=driver_version",
                    "--format=csv,noheader",
                ],
                Some(expects),
            ));
        }
    }
    let units = context
        .companions
        .iter()
        .flat_map(|companions| companions.units());
    for (unit, _) in units.filter(|_| !context.facts.machine.is_tree) {
        asks.push(Run::ask(["systemctl", "is-active", unit], None));
    }
    if let Some(toolkit) = context.toolkit() {
        let nvcc = toolkit.join("bin/nvcc").display().to_string();
        let series = context
            .chosen
            .cuda
            .as_ref()
            .map(|c| format!("release {}", c.release.version.series()));
        if context.has_component("cuda_nvcc") {
            asks.push(Run::ask([nvcc, "--version".to_owned()], series));
            if context.has_component("cuda_cudart") {
                // By name: a login shell must find it.
                asks.push(compile::operation("nvcc", context.facts));
            }
        } else if context.has_component("cuda_cudart") {
            asks.push(Run::ask(
                ["ldconfig", "-p"],
                Some("libcudart.so.".to_owned()),
            ));
        }
        for add_on in &context.chosen.add_ons {
            let soname = format!("{} ", add_on.of.soname(add_on.artifact.version));
            asks.push(Run::ask(["ldconfig", "-p"], Some(soname)));
        }
    }
    for further in context
        .further
        .iter()
        .filter(|further| further.has_component("cuda_nvcc"))
    {
        let Some((toolkit, series)) = further.toolkit().zip(further.series()) else {
            continue;
        };
        let nvcc = toolkit.join("bin/nvcc").display().to_string();
        asks.push(Run::ask(
            [nvcc.as_str(), "--version"],
            Some(format!("release {series}")),
        ));
        if further.has_component("cuda_cudart") {
            asks.push(compile::operation(&nvcc, context.facts));
        }
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
        "Verify the installation",
        "the exit status of an installer is no proof",
        acts,
    )
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
