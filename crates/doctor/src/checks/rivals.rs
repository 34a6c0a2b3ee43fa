//! Other kernel drivers that bind to an NVIDIA GPU first.

use super::log::{of_idle_gpus, of_module};
use super::no_driver_of_its_own;
use crate::{Answer, Case, FORCED, KernelEvent, NOT_IN_FACTS, Verdict};
use gpusetup_host::Gpu;
use gpusetup_operation::Operation;
use gpusetup_recipes::{blacklist, rebuild_image, rebuild_images};
use gpusetup_text::text::quoted;

pub(crate) fn nouveau(case: &Case) -> Verdict {
    rival(case, "nouveau", &["nouveau"])
}

pub(crate) fn nova(case: &Case) -> Verdict {
    rival(case, "nova", &["nova_core", "nova_drm"])
}

pub(crate) fn vfio(case: &Case) -> Verdict {
    let held: Vec<_> = case
        .seen
        .facts
        .gpus
        .iter()
        .filter(|g| g.bound_to.as_deref() == Some("vfio-pci"))
        .collect();
    if held.is_empty() {
        return if case.seen.facts.gpus.is_empty() {
            Verdict::skip("there is no NVIDIA GPU")
        } else {
            held_before(case)
        };
    }
    let cause = "{gpus} {is|are} bound to vfio-pci, for a virtual machine: programs on this host cannot use {it|them}";
    let remedies: Vec<_> = held
        .iter()
        .map(|gpu| gpusetup_causes::give_back(&gpu.address))
        .collect();
    let text = remedies.first().map_or("", |remedy| remedy.text.as_str());
    let verdict = Verdict::warn(cause).advise(
        text,
        remedies.iter().flat_map(|remedy| remedy.commands.clone()),
    );
    of_all(verdict, &held).and_run(["sudo modprobe nvidia"])
}

/// By the log only. On a running host the GPU has been released since; for a tree nothing newer is
/// known.
fn held_before(case: &Case) -> Verdict {
    let told = held_in_log(case, |by| by == "vfio-pci");
    if told.is_empty() || !case.seen.facts.machine.is_offline_root {
        return told.iter().fold(Verdict::pass(), |v, gpu| {
            v.evidence(format!("{gpu} was bound to vfio-pci when the host booted"))
        });
    }
    let cause =
        "{gpus} {was|were} bound to vfio-pci, for a virtual machine, when the host last ran";
    told.iter()
        .fold(Verdict::warn(cause), |v, gpu| v.of_gpu(gpu))
        .evidence("the kernel's log")
        .advise(
            "if no virtual machine needs {it|them}, remove {it|them} from vfio-pci's options",
            ["grep -rn vfio /etc/modprobe.d"],
        )
}

/// GPUs that were bound to another driver according to the kernel's log, and are not bound to
/// NVIDIA's now.
fn held_in_log(case: &Case, is_rival: impl Fn(&str) -> bool) -> Vec<String> {
    of_idle_gpus(case, |said| match said {
        KernelEvent::Held { gpu, by } if is_rival(by) => Some((Some(gpu), gpu.clone())),
        _ => None,
    })
}

/// About all these GPUs, with the driver of each as evidence.
fn of_all(verdict: Verdict, gpus: &[&Gpu]) -> Verdict {
    gpus.iter().fold(verdict, |verdict, gpu| {
        verdict.of_gpu(&gpu.address).evidence(held_by(gpu))
    })
}

/// The driver that a GPU is bound to, for the evidence.
pub(crate) fn held_by(gpu: &Gpu) -> String {
    let name = gpu.name.as_deref().unwrap_or(&gpu.pci_id);
    let driver = gpu.bound_to.as_deref().unwrap_or(if gpu.driver_unseen {
        "an unknown driver"
    } else {
        "no driver"
    });
    format!("{} ({name}) is bound to {driver}", gpu.address)
}

fn rival(case: &Case, name: &str, modules: &[&str]) -> Verdict {
    let held: Vec<_> = case
        .seen
        .facts
        .gpus
        .iter()
        .filter(|g| g.bound_to.as_deref().is_some_and(|m| is_among(m, modules)))
        .collect();
    if let Some(skip) = no_driver_of_its_own(case) {
        return held
            .first()
            .map_or(skip.clone(), |g| skip.evidence(held_by(g)));
    }
    // The facts show which driver it is, but not why it was loaded.
    if case.seen.only_facts {
        if held.is_empty() {
            return Verdict::skip(NOT_IN_FACTS);
        }
        let verdict = Verdict::fail(format!("{name} is bound to {{gpus}}")).advise(
            "run doctor on the host itself to find out why it is not blacklisted",
            ["gpusetup doctor"],
        );
        return of_all(verdict, &held);
    }
    let images = images(case, name, modules);
    if !held.is_empty() {
        let verdict = match &images {
            // The image is the deeper cause: a reboot alone would not help.
            Some(image) if image.status == super::super::Status::Fail => image.clone(),
            _ => Verdict::fail(format!("{name} bound to {{gpus}} at the last boot"))
                .root_cause()
                .advise(
                    "reboot: the blacklist takes effect at the next boot",
                    ["sudo reboot"],
                ),
        };
        let verdict = if is_denied(case, modules) {
            verdict
        } else {
            not_denied(case, name)
        };
        let verdict = if verdict.is_repairable() {
            verdict.and_run(["sudo reboot"])
        } else {
            verdict
        };
        let verdict = of_all(verdict, &held);
        return of_module(case).into_iter().fold(verdict, Verdict::evidence);
    }
    // No driver is bound to the GPU now, but the other driver will bind to it again at the next
    // boot.
    let told = held_in_log(case, |by| is_among(by, modules));
    if !told.is_empty() && !is_denied(case, modules) {
        let told = told.join(", ");
        return not_denied(case, name).evidence(format!(
            "the kernel's log: {name} was bound to the GPU at {told}"
        ));
    }
    let bound = case
        .seen
        .facts
        .gpus
        .iter()
        .any(|g| g.bound_to.as_deref() == Some("nvidia"));
    let here = if bound {
        "the GPUs are bound to nvidia"
    } else {
        "no GPU is bound to it"
    };
    let own = Verdict::pass().evidence(format!("{name}: {here}"));
    Verdict::worst([own].into_iter().chain(images)).unwrap_or_else(Verdict::pass)
}

/// Whether a module has one of these names: `nova_core`, `nova-core`; the driver calls itself
/// `NovaCore`.
fn is_among(module: &str, names: &[&str]) -> bool {
    let module = plain(module);
    names.iter().any(|name| plain(name) == module)
}

fn plain(module: &str) -> String {
    module.to_lowercase().replace(['-', '_'], "")
}

/// Whether the initramfs of the kernel that boots next must be rebuilt.
pub(crate) fn is_image_stale(case: &Case) -> bool {
    [nouveau(case), nova(case)]
        .iter()
        .any(|v| v.status == super::super::Status::Fail && v.is_repairable())
}

/// The verdict on the initramfs images of all kernels. None if no image was read.
fn images(case: &Case, name: &str, modules: &[&str]) -> Option<Verdict> {
    let on_command_line = case
        .seen
        .denied
        .iter()
        .any(|d| d.modified.is_none() && is_among(&d.module, modules));
    let kernels = &case.seen.facts.kernels.installed;
    Verdict::worst(kernels.iter().filter_map(|kernel| {
        let release = &kernel.release;
        let image = match case.seen.images.get(release)? {
            Answer::Is(image) => image,
            Answer::Failed(why) | Answer::NotAsked(why) => {
                return Some(Verdict::skip("no initramfs could be read").evidence(format!("initramfs of {release}: {why}")));
            }
        };
        let forced = image.forced.iter().find(|m| is_among(m, modules));
        if forced.is_none() && image.denied.iter().any(|m| is_among(m, modules)) {
            return Some(Verdict::pass().evidence(format!("the initramfs of {release} blacklists {name}")));
        }
        let Some(file) = image.rivals.iter().find(|file| {
            let stem = file.rsplit('/').next().and_then(|name| name.split_once(".ko"));
            stem.is_some_and(|(stem, _)| is_among(stem, modules))
        }) else {
            return Some(Verdict::pass().evidence(format!("the initramfs of {release} has no {name}")));
        };
        let is_next = case.seen.facts.kernel() == Some(release);
        let ill = if is_next { Verdict::fail } else { Verdict::warn };
        if let Some(module) = forced {
            let cause = format!(
                "the initramfs of kernel {release} is configured to load {module}, which no blacklist prevents"
            );
            let verdict = ill(cause).evidence(file.clone()).evidence(format!("{FORCED} names {module}"));
            let out = format!("sudo sed -i {} {FORCED}", quoted(&format!("/^{}/d", module.replace('_', "[-_]"))));
            let rebuild = rebuild_image(&case.seen.facts, kernel).iter().map(Operation::by_hand).collect::<Vec<_>>();
            return Some(
                verdict.advise("remove it from that file, then rebuild the initramfs", [vec![out], rebuild].concat()),
            );
        }
        if on_command_line {
            let evidence =
                format!("the initramfs of {release} contains {name}, but the kernel's command line blacklists it");
            return Some(Verdict::pass().evidence(evidence));
        }
        let cause = format!("the initramfs of kernel {release} contains {name} and does not blacklist it");
        let verdict = ill(cause);
        // Without the blacklist, a rebuilt image would be the same.
        let denial = (!is_denied(case, modules)).then(blacklist);
        let operations = denial.into_iter().chain(rebuild_image(&case.seen.facts, kernel));
        Some(verdict.evidence(file.clone()).repair(format!("rebuild the initramfs with {name} blacklisted"), operations))
    }))
}

/// Whether modprobe's configuration or the kernel's command line blacklists it.
fn is_denied(case: &Case, modules: &[&str]) -> bool {
    let mut denied = case.seen.denied.iter();
    denied.any(|denied| is_among(&denied.module, modules))
}

fn not_denied(case: &Case, name: &str) -> Verdict {
    let operations = [blacklist()]
        .into_iter()
        .chain(rebuild_images(&case.seen.facts));
    Verdict::fail(format!(
        "{name} is not blacklisted in modprobe's configuration or on the kernel's command line"
    ))
    .repair(
        format!("blacklist {name}, also in the initramfs"),
        operations,
    )
}
