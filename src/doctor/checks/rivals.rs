//! Other drivers of the kernel that take an NVIDIA GPU first.

use super::log::{of_idle_gpus, of_module};
use super::no_driver_of_its_own;
use crate::causes;
use crate::doctor::{Answer, Evidence, FORCED, NOT_IN_FACTS, Said, Verdict};
use crate::host::Gpu;
use crate::operation::Operation;
use crate::plan::{blacklist, rebuild_image, rebuild_images};
use crate::text::quoted;

pub fn nouveau(seen: &Evidence) -> Verdict {
    rival(seen, "nouveau", &["nouveau"])
}

pub fn nova(seen: &Evidence) -> Verdict {
    rival(seen, "nova", &["nova_core", "nova_drm"])
}

pub fn vfio(seen: &Evidence) -> Verdict {
    let held: Vec<_> = seen.facts.gpus.iter().filter(|g| g.bound_to.as_deref() == Some("vfio-pci")).collect();
    let Some(first) = held.first() else {
        return if seen.facts.gpus.is_empty() { Verdict::skip("there is no NVIDIA GPU") } else { held_before(seen) };
    };
    let cause = format!("{}: this host's programs do not see it", causes::held_for_vm(&first.address));
    held.iter()
        .fold(Verdict::warn(cause), |v, g| v.saw(held_by(g)))
        .helped(causes::give_back(&first.address))
        .then(["sudo modprobe nvidia"])
}

/// By the log alone. On the running host the GPU was given back since; of a tree nothing newer is known.
fn held_before(seen: &Evidence) -> Verdict {
    let told = held_in_log(seen, &|by| by == "vfio-pci");
    let Some(gpu) = told.first().filter(|_| seen.facts.machine.is_tree) else {
        return told.iter().fold(Verdict::pass(), |v, gpu| v.saw(format!("vfio-pci had {gpu} when the host booted")));
    };
    let cause = format!("when the host last ran, vfio-pci held the GPU at {gpu} for a virtual machine");
    Verdict::warn(cause).saw("the kernel's log").advise(
        "leave it there if that is wanted; else take it out of vfio-pci's options",
        ["grep -rn vfio /etc/modprobe.d"],
    )
}

/// GPUs that the kernel's log says another driver had, and NVIDIA's does not have now.
fn held_in_log(seen: &Evidence, is_rival: &dyn Fn(&str) -> bool) -> Vec<String> {
    of_idle_gpus(seen, |said| match said {
        Said::Held { gpu, by } if is_rival(by) => Some((Some(gpu), gpu.clone())),
        _ => None,
    })
}

/// Who drives a GPU, for the evidence.
pub fn held_by(gpu: &Gpu) -> String {
    let name = gpu.name.as_deref().unwrap_or(&gpu.pci_id);
    let driver = gpu.bound_to.as_deref().unwrap_or(if gpu.driver_unseen { "an unknown driver" } else { "nobody" });
    format!("{} ({name}) is driven by {driver}", gpu.address)
}

fn rival(seen: &Evidence, name: &str, modules: &[&str]) -> Verdict {
    // `nova_core`, `nova-core`; the driver itself says `NovaCore`.
    let plain = |name: &str| name.to_lowercase().replace(['-', '_'], "");
    let is_rival = |module: &str| modules.iter().any(|m| plain(m) == plain(module));
    let holds = |g: &&Gpu| g.bound_to.as_deref().is_some_and(is_rival);
    let held: Vec<_> = seen.facts.gpus.iter().filter(holds).collect();
    if let Some(skip) = no_driver_of_its_own(seen) {
        return held.first().map_or(skip.clone(), |g| skip.saw(held_by(g)));
    }
    // Which it is shows; why it was not kept out does not.
    if seen.only_facts {
        let Some(first) = held.first() else { return Verdict::skip(NOT_IN_FACTS) };
        let verdict = Verdict::fail(format!("{name} has the GPU at {}", first.address))
            .advise("let doctor look on the host itself why nothing keeps it out", ["gpusetup doctor"]);
        return held.iter().fold(verdict, |v, g| v.saw(held_by(g)));
    }
    let images = images(seen, name, &is_rival);
    if let Some(first) = held.first() {
        let verdict = match &images {
            // The image is the deeper cause: a reboot alone would not help.
            Some(image) if image.status == super::super::Status::Fail => image.clone(),
            _ => Verdict::fail(format!("{name} took the GPU at {} when this host booted", first.address))
                .alone()
                .advise("boot again: from then on it is kept out", ["sudo reboot"]),
        };
        let verdict = if is_denied(seen, &is_rival) { verdict } else { not_denied(seen, name) };
        let verdict = if verdict.is_repairable() { verdict.then(["sudo reboot"]) } else { verdict };
        let verdict = held.iter().fold(verdict, |v, g| v.saw(held_by(g)));
        return of_module(seen).into_iter().fold(verdict, Verdict::saw);
    }
    // The GPU is nobody's now, and will be the rival's again behind the next boot.
    let told = held_in_log(seen, &is_rival);
    if let Some(gpu) = told.first().filter(|_| !is_denied(seen, &is_rival)) {
        return not_denied(seen, name).saw(format!("the kernel's log: {name} had the GPU at {gpu}"));
    }
    let bound = seen.facts.gpus.iter().any(|g| g.bound_to.as_deref() == Some("nvidia"));
    let here = if bound { "nvidia has the GPUs" } else { "no GPU is bound to it" };
    let own = Verdict::pass().saw(format!("{name}: {here}"));
    Verdict::worst([own].into_iter().chain(images)).unwrap_or_else(Verdict::pass)
}

/// Whether the initramfs of the kernel that boots next has to be made anew.
pub fn is_image_stale(seen: &Evidence) -> bool {
    [nouveau(seen), nova(seen)].iter().any(|v| v.status == super::super::Status::Fail && v.is_repairable())
}

/// What the images of all kernels come to; none where no image was read.
fn images(seen: &Evidence, name: &str, is_rival: &dyn Fn(&str) -> bool) -> Option<Verdict> {
    let on_command_line = seen.denied.iter().any(|d| d.modified.is_none() && is_rival(&d.module));
    let kernels = &seen.facts.kernels.installed;
    Verdict::worst(kernels.iter().filter_map(|kernel| {
        let release = &kernel.release;
        let image = match seen.images.get(release)? {
            Answer::Is(image) => image,
            Answer::Failed(why) | Answer::NotAsked(why) => {
                return Some(Verdict::skip("no initramfs could be read").saw(format!("initramfs of {release}: {why}")));
            }
        };
        let forced = image.forced.iter().find(|m| is_rival(m));
        if forced.is_none() && image.denied.iter().any(|m| is_rival(m)) {
            return Some(Verdict::pass().saw(format!("the initramfs of {release} keeps {name} out")));
        }
        let stem = |f: &str| f.rsplit('/').next().and_then(|n| n.split_once(".ko")).map(|(s, _)| s.to_owned());
        let Some(file) = image.rivals.iter().find(|f| stem(f).is_some_and(|s| is_rival(&s))) else {
            return Some(Verdict::pass().saw(format!("the initramfs of {release} has no {name}")));
        };
        let is_next = seen.facts.kernel() == Some(release);
        let ill = |cause: String| if is_next { Verdict::fail(cause) } else { Verdict::warn(cause) };
        if let Some(module) = forced {
            let cause = format!("the initramfs of kernel {release} is told to load {module}: nothing keeps that out");
            let verdict = ill(cause).saw(file.clone()).saw(format!("{FORCED} names {module}"));
            let out = format!("sudo sed -i {} {FORCED}", quoted(&format!("/^{}/d", module.replace('_', "[-_]"))));
            let anew = rebuild_image(&seen.facts, kernel).iter().map(Operation::by_hand).collect::<Vec<_>>();
            return Some(verdict.advise("take it out there, and make the initramfs anew", [vec![out], anew].concat()));
        }
        if on_command_line {
            let evidence = format!("the initramfs of {release} has {name}, and the kernel's command line keeps it out");
            return Some(Verdict::pass().saw(evidence));
        }
        let cause = format!("the initramfs of kernel {release} has {name} and nothing that keeps it out");
        let verdict = ill(cause);
        // An image that is made anew without it would be the same.
        let denial = (!is_denied(seen, is_rival)).then(blacklist);
        let operations = denial.into_iter().chain(rebuild_image(&seen.facts, kernel));
        Some(verdict.saw(file.clone()).repair("make the initramfs anew, with what keeps it out", operations))
    }))
}

/// Whether modprobe's configuration or the kernel's command line keeps it out.
fn is_denied(seen: &Evidence, is_rival: &dyn Fn(&str) -> bool) -> bool {
    seen.denied.iter().any(|d| is_rival(&d.module))
}

fn not_denied(seen: &Evidence, name: &str) -> Verdict {
    let operations = [blacklist()].into_iter().chain(rebuild_images(&seen.facts));
    Verdict::fail(format!("nothing keeps {name} out: neither modprobe's configuration nor the kernel's command line"))
        .repair("keep it out, in the initramfs too", operations)
}
