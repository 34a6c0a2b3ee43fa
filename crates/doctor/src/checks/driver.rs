//! The driver as a whole: whether it supports the GPUs, how it was installed, whether it may load
//! and is loaded.

use super::log::{of_idle_gpus, of_module};
use super::rivals::held_by;
use super::{next_kernel, no_driver_of_its_own};
use crate::{Answer, Asked, Case, KernelEvent, LoggedGpu, Status, Verdict};
use gpusetup_database::compat::ModuleFlavour;
use gpusetup_host::{InstalledDriver, MachineKind, ModuleBlock, Origin, RIVALS};
use gpusetup_recipes::{
    describe_block, has_runfile, keep_one_driver, rebuild_image, unblock_remedy, worst_block,
};
use gpusetup_resolve::TargetGpu;
use gpusetup_text::ids::CheckId;
use gpusetup_text::text::{count, quoted};

/// After the only GPU has fallen off the bus, the host looks healthy: the driver is installed and
/// no GPU has a problem.
pub(crate) fn on_the_bus(case: &Case) -> Verdict {
    let facts = &case.seen.facts;
    if !facts.gpus.is_empty() {
        return Verdict::pass().evidence(count(facts.gpus.len() as u64, "NVIDIA GPU"));
    }
    if !facts.has_no_gpu() {
        return Verdict::skip("the PCI bus does not show here whether there is a GPU");
    }
    const COMMANDS: [&str; 2] = ["lspci -d 10de:", "sudo poweroff"];
    let said = if let Answer::Is(said) = &case.seen.kernel_log {
        said.as_slice()
    } else {
        &[]
    };
    // Xid 79 means the same.
    let mut lost = said.iter().filter(|said| {
        matches!(
            said,
            KernelEvent::OffTheBus(_) | KernelEvent::Xid { number: 79, .. }
        )
    });
    if let Some(lost) = lost.next() {
        return Verdict::fail("a GPU has fallen off the PCI bus, and no NVIDIA GPU is left")
            .evidence(format!("the kernel's log: {lost:?}"))
            .advise(
                "power the host off and on again; if this happens again, check power, cooling and the slot",
                COMMANDS,
            );
    }
    let loaded = facts.driver_is_loaded() == Some(true);
    let state = match (&facts.driver, loaded) {
        (_, true) => "loaded",
        (Some(_), false) => "installed",
        (None, false) => {
            // For a container that requests GPUs, GS505 checks whether it got them.
            let has_said = case
                .seen
                .given
                .as_ref()
                .is_some_and(|given| given.asked != Asked::Unsaid);
            return if case.seen.accepts_no_gpu || has_said {
                Verdict::skip("there is no NVIDIA GPU")
            } else {
                no_gpu(facts.machine.kind)
            };
        }
    };
    Verdict::warn(format!(
        "the driver is {state}, but no NVIDIA GPU is on the PCI bus: one may have fallen off it"
    ))
    .evidence("/sys/bus/pci/devices has no device of vendor 10de".to_owned())
    .advise(
        "if the host has a GPU, power the host off and on again",
        COMMANDS,
    )
}

/// A host without any sign of a GPU: the usual causes on a machine of this kind.
fn no_gpu(kind: MachineKind) -> Verdict {
    let (cause, remedy, commands): (_, _, &[&str]) = match kind {
        MachineKind::Container => (
            "no NVIDIA GPU is visible in this container: it was started without GPUs, or its host has none",
            "start the container with GPUs (the host needs the NVIDIA Container Toolkit), and run doctor on the host",
            &["docker run --gpus all IMAGE"],
        ),
        MachineKind::Virtual => (
            "no NVIDIA GPU is visible in this virtual machine: none is passed through, or the instance type has none",
            "attach a GPU to the virtual machine, or choose an instance type with GPUs",
            &["lspci -d 10de:"],
        ),
        _ => (
            "no NVIDIA GPU is visible on the PCI bus: there is none, it is not seated or powered, or the firmware disabled it",
            "check the slot, the power cables and the firmware's PCI settings",
            &["lspci -d 10de:"],
        ),
    };
    Verdict::warn(cause)
        .evidence("/sys/bus/pci/devices has no device of vendor 10de")
        .advise(remedy, commands.iter().copied())
}

pub(crate) fn knows_gpus(case: &Case) -> Verdict {
    let each = case
        .seen
        .facts
        .gpus
        .iter()
        .zip(&case.cards)
        .map(|(gpu, card)| {
            let at = &gpu.address;
            let card = match card {
                Err(why) => {
                    let named = format!("the GPU {} at {at} is", gpu.pci_id);
                    return Verdict::warn(
                        why.replace(&named, &format!("{{gpus}} ({}) {{is|are}}", gpu.pci_id)),
                    )
                    .of_gpu(at)
                    .evidence(format!("{at}: {}", gpu.pci_id))
                    .remedy(gpusetup_causes::report_gpu(&format!("-s {}", quoted(at))))
                    .and_run(["sudo dmesg | grep NVRM"]);
                }
                Ok(card) => card,
            };
            if card.is_virtual {
                return Verdict::pass()
                    .evidence(format!("{at}: a virtual GPU (vGPU) of {}", card.name));
            }
            let range = match (card.first_branch, card.last_branch) {
                (first, Some(last)) => format!(
                    "branches {} to {last}",
                    first.map_or("?".to_owned(), |f| f.to_string())
                ),
                (Some(first), None) => format!("branch {first} and newer"),
                (None, None) => "every current branch".to_owned(),
            };
            let evidence = format!("{at}: {}: {range}", card.name);
            let Some(driver) = &case.seen.facts.driver else {
                return Verdict::pass().evidence(evidence);
            };
            let branch = driver.version.branch;
            let cause = match (card.first_branch, card.last_branch) {
                (_, Some(last)) if branch > last => gpusetup_causes::last_branch(last, &card.name),
                (Some(first), _) if branch < first => {
                    gpusetup_causes::first_branch(first, &card.name)
                }
                _ => return Verdict::pass().evidence(evidence),
            };
            let fits = card
                .last_branch
                .or(card.first_branch)
                .map(|b| format!(" --driver {b}"))
                .unwrap_or_default();
            Verdict::fail(format!(
                "driver {} does not support {{gpus}}: {cause}",
                driver.version
            ))
            .of_gpu(at)
            .evidence(evidence)
            .advise(
                "install a driver branch that supports the GPU",
                [format!("gpusetup plan{fits}")],
            )
        });
    let told = of_idle_gpus(case, |said| match said {
        KernelEvent::Legacy { gpu, branch } => Some((
            gpu.address(),
            format!(
                "the driver reports that {gpu} needs a driver of branch {branch}, and ignores the GPU"
            ),
        )),
        KernelEvent::Unknown(gpu) if !is_known(case, gpu) => Some((
            gpu.address(),
            format!("the driver reports that it does not support {gpu}"),
        )),
        _ => None,
    });
    let told = told.into_iter().map(|cause| {
        Verdict::fail(cause).evidence("the kernel's log").advise(
            "install a driver branch that supports the GPU",
            ["gpusetup plan"],
        )
    });
    let misled = of_idle_gpus(case, |said| match said {
        KernelEvent::Unknown(gpu) if is_known(case, gpu) => Some((
            gpu.address(),
            format!("the driver reports that it does not support {gpu}, but its branch does"),
        )),
        _ => None,
    });
    // Seen of an H100 in a confidential guest: NVIDIA/nvtrust#56.
    let told = told.chain(misled.into_iter().map(unreadable));
    Verdict::worst(each.chain(told)).unwrap_or_else(|| Verdict::skip("there is no NVIDIA GPU"))
}

/// The database's entry for a GPU that the kernel's log names.
fn card_of<'a>(case: &'a Case, logged: &LoggedGpu) -> Option<&'a TargetGpu> {
    let address = logged.address()?;
    let (_, card) = case
        .seen
        .facts
        .gpus
        .iter()
        .zip(&case.cards)
        .find(|(gpu, _)| gpu.address == address)?;
    card.as_ref().ok()
}

/// The driver's message about a GPU is wrong.
fn unreadable(cause: String) -> Verdict {
    Verdict::fail(cause).evidence("the kernel's log").advise(
        "check whether the GPU can be read at all: in a virtual machine it may not be",
        ["sudo dmesg | grep -e NVRM -e nvidia"],
    )
}

fn runs_open(case: &Case, logged: &LoggedGpu) -> bool {
    card_of(case, logged).is_some_and(|card| card.modules.contains(&ModuleFlavour::Open))
}

/// Whether the driver's branch supports a GPU that the kernel's log names.
fn is_known(case: &Case, logged: &LoggedGpu) -> bool {
    let Some((card, driver)) = card_of(case, logged).zip(case.seen.facts.driver.as_ref()) else {
        return false;
    };
    let branch = driver.version.branch;
    card.first_branch.is_some_and(|first| first <= branch)
        && card.last_branch.is_none_or(|last| branch <= last)
}

pub(crate) fn one_origin(case: &Case) -> Verdict {
    let Some(driver) = &case.seen.facts.driver else {
        return no_driver_of_its_own(case).unwrap_or_else(Verdict::pass);
    };
    let Some(drivers @ [one, two]) = case.seen.facts.two_drivers() else {
        return Verdict::pass().evidence(described(driver));
    };
    let fail = Verdict::fail(gpusetup_causes::two_drivers(one.version, two.version));
    // Files of another version of the packages are there until an interrupted update is finished
    // (GS603); a runfile's stay.
    let fail = if has_runfile(drivers) {
        fail.root_cause()
    } else {
        fail
    };
    let fail = fail
        .remedy(keep_one_driver(drivers, &case.seen.facts))
        .and_run(["gpusetup plan"]);
    drivers
        .into_iter()
        .fold(fail, |v, d| v.evidence(described(d)))
}

fn described(driver: &InstalledDriver) -> String {
    let (version, origin) = (driver.version, origin(driver.origin));
    format!("{version} by {origin}: {}", driver.evidence)
}

fn origin(origin: Origin) -> &'static str {
    match origin {
        Origin::Dpkg => "Debian packages",
        Origin::Rpm => "RPM packages",
        Origin::Runfile => "NVIDIA's runfile",
        Origin::Archives => "NVIDIA's archives",
        Origin::Unknown => "an unknown installer",
    }
}

pub(crate) fn flavour(case: &Case) -> Verdict {
    if let Some(skip) = no_driver_of_its_own(case) {
        return skip;
    }
    let told = of_idle_gpus(case, |said| match said {
        KernelEvent::NeedsOpen(gpu) => Some((
            gpu.address(),
            format!("the driver reports that {gpu} needs the open kernel modules"),
        )),
        KernelEvent::NotForOpen(gpu) if !runs_open(case, gpu) => Some((
            gpu.address(),
            format!("the driver reports that the open kernel modules do not support {gpu}"),
        )),
        _ => None,
    });
    let told = told.into_iter().map(|cause| {
        Verdict::fail(cause)
            .evidence("the kernel's log")
            .advise("install the other kernel modules", ["gpusetup plan"])
    });
    let misled = of_idle_gpus(case, |said| match said {
        KernelEvent::NotForOpen(gpu) if runs_open(case, gpu) => Some((
            gpu.address(),
            format!(
                "the driver reports that the open kernel modules do not support {gpu}, but they do"
            ),
        )),
        _ => None,
    });
    // Seen of an H100 in a confidential guest: NVIDIA/open-gpu-kernel-modules#587.
    let told = told.chain(misled.into_iter().map(unreadable));
    let Some((driver, flavour)) = case
        .seen
        .facts
        .driver
        .as_ref()
        .and_then(|d| Some((d, d.modules?)))
    else {
        return Verdict::worst(told).unwrap_or_else(|| {
            Verdict::skip("it is unknown whether the kernel modules are open or proprietary")
        });
    };
    let cards = case.cards.iter().flatten();
    let each = cards.map(|card| {
        let evidence = format!("{}: the {flavour} modules of {}", card.name, driver.version);
        if card.modules.contains(&flavour) {
            return Verdict::pass().evidence(evidence);
        }
        let needed = flavour.other();
        Verdict::fail(format!(
            "{}, but the {flavour} ones are installed",
            gpusetup_causes::needs_modules(&card.name, needed)
        ))
        .evidence(evidence)
        .advise(
            "install the other kernel modules",
            [format!("gpusetup plan --modules {needed}")],
        )
    });
    let each = each.chain(told);
    Verdict::worst(each).unwrap_or_else(|| Verdict::skip("no GPU of this host is in the database"))
}

/// Whether nothing keeps the driver's modules from being loaded.
pub(crate) fn may_load(case: &Case) -> Verdict {
    if let Some(skip) = no_driver_of_its_own(case) {
        return skip;
    }
    let Some(blocks) = &case.seen.blocked else {
        return Verdict::skip("modprobe's configuration was not read");
    };
    let is_loaded = case.seen.facts.driver_is_loaded();
    let Some(worst) = worst_block(blocks, is_loaded) else {
        return blocks
            .iter()
            .fold(Verdict::pass(), |v, block| v.evidence(shown(block)));
    };
    let cause = describe_block(worst);
    let verdict = match (is_loaded, worst.always) {
        (Some(true), _) | (None, false) => Verdict::warn(cause),
        (Some(false), _) | (None, true) => Verdict::fail(cause),
    };
    let verdict = blocks
        .iter()
        .fold(verdict, |v, block| v.evidence(shown(block)));
    verdict.remedy(unblock_remedy(
        blocks,
        &case.seen.facts,
        is_loaded == Some(false),
    ))
}

/// `/etc/modprobe.d/x.conf:3: blacklist nvidia`.
fn shown(block: &ModuleBlock) -> String {
    format!("{}: {}", block.place(), block.text)
}

/// CUDA needs /dev/nvidia-uvm; nvidia-smi does not.
pub(crate) fn devices(case: &Case) -> Verdict {
    let Some(devices) = case
        .seen
        .devices
        .as_ref()
        .filter(|_| case.seen.facts.driver_is_loaded() == Some(true))
    else {
        return Verdict::skip("the driver is not loaded here");
    };
    if devices.iter().any(|device| device == "nvidia-uvm") {
        return Verdict::pass().evidence("/dev/nvidia-uvm");
    }
    if case.seen.has_modprobe {
        return Verdict::pass().evidence(
            "nvidia-modprobe creates /dev/nvidia-uvm for the first program that needs it",
        );
    }
    Verdict::fail("/dev/nvidia-uvm is missing, and nothing creates it: nvidia-smi works, but CUDA fails (error 999)")
        .advise("load the module, and install nvidia-modprobe", ["sudo modprobe nvidia-uvm", "gpusetup plan"])
}

/// Whether every GPU is bound to the loaded driver, except those that are reserved for another
/// driver on purpose.
fn has_all_gpus(case: &Case) -> Verdict {
    let left: Vec<_> = case
        .seen
        .facts
        .gpus
        .iter()
        .filter(|gpu| match gpu.bound_to.as_deref() {
            None => !gpu.driver_unseen,
            Some(driver) => RIVALS.contains(&driver.replace('-', "_").as_str()),
        })
        .collect();
    if left.is_empty() {
        return Verdict::pass();
    }
    let cause = "the nvidia module is loaded, but {gpus} {is|are} not bound to it";
    left.iter()
        .fold(Verdict::fail(cause), |v, gpu| {
            v.of_gpu(&gpu.address).evidence(held_by(gpu))
        })
        .advise(
            "probe the GPU again; the kernel's log then shows the cause",
            left.iter()
                .map(|gpu| {
                    format!(
                        "echo {} | sudo tee /sys/bus/pci/drivers_probe",
                        quoted(&gpu.address)
                    )
                })
                .chain(["sudo dmesg | tail".to_owned()]),
        )
}

/// Compares the versions of the files. NVML, which compares its own version with the module's,
/// takes precedence.
pub(crate) fn loaded(case: &Case) -> Verdict {
    let verdict = loaded_by_files(case);
    let Some(said) = super::nvml::mismatch(case).filter(|_| no_driver_of_its_own(case).is_none())
    else {
        return verdict;
    };
    if verdict.status == Status::Fail {
        return verdict.evidence(said);
    }
    let cause = "the loaded kernel module does not match the driver's libraries: programs fail with \
                 \"Driver/library version mismatch\"";
    let mismatch = Verdict::fail(cause).evidence(said).advise(
        "reboot; if the mismatch remains, two drivers are installed over each other",
        [
            "sudo reboot".to_owned(),
            format!("gpusetup doctor {}", CheckId::GS401),
        ],
    );
    verdict
        .evidence
        .into_iter()
        .fold(mismatch, Verdict::evidence)
}

fn loaded_by_files(case: &Case) -> Verdict {
    let facts = &case.seen.facts;
    if facts.gpus.is_empty() {
        return Verdict::skip("there is no NVIDIA GPU");
    }
    if facts
        .gpus
        .iter()
        .all(|g| g.bound_to.as_deref() == Some("vfio-pci"))
    {
        return Verdict::skip("every GPU is reserved for a virtual machine");
    }
    let driver = match (&facts.driver, no_driver_of_its_own(case)) {
        (Some(driver), None) => driver,
        (None, Some(skip))
            if matches!(
                facts.machine.kind,
                gpusetup_host::MachineKind::Physical | gpusetup_host::MachineKind::Virtual
            ) =>
        {
            let why = "the host has an NVIDIA GPU, but no NVIDIA driver is installed";
            return skip
                .evidence
                .into_iter()
                .fold(Verdict::fail(why), Verdict::evidence)
                .caused_only_by(&[CheckId::GS908])
                .advise("see which driver gpusetup would install", ["gpusetup plan"]);
        }
        (_, Some(skip)) => return skip,
        (None, None) => return Verdict::skip("no NVIDIA driver is installed"),
    };
    let installed = format!("installed: {} ({})", driver.version, driver.evidence);
    let Some(modules) = &facts.loaded_modules else {
        return Verdict::skip("a tree has no running kernel").evidence(installed);
    };
    let Some(module) = modules.iter().find(|m| m.name == "nvidia") else {
        return not_loaded(case).evidence(installed);
    };
    let Some(version) = &module.version else {
        return Verdict::skip("the loaded module does not report its version").evidence(installed);
    };
    let evidence = format!("loaded: {version}");
    let strangers = strangers(case, version);
    if *version == driver.version.to_string() {
        let gpus = has_all_gpus(case);
        let Some(stranger) = strangers
            .iter()
            .find(|client| **client != version && gpus.status == Status::Pass)
        else {
            return gpus.evidence(evidence).evidence(installed);
        };
        let cause = format!(
            "a program used its own copy of the driver's libraries {stranger} since the last boot, but the module is {version}"
        );
        return Verdict::warn(cause).evidence(evidence).evidence(installed).evidence("the kernel's log: API mismatch").advise(
            "find the copy: in containers, in LD_LIBRARY_PATH, or in programs that ship their own libraries",
            [format!("sudo find / -xdev -name {}", quoted(&format!("libcuda.so.{stranger}")))],
        );
    }
    let cause = format!(
        "the kernel still has the nvidia module {version}, but the libraries are {}: programs fail with \"Driver/library \
         version mismatch\"",
        driver.version
    );
    let ready = next_kernel(case).and_then(|k| k.nvidia_module) == Some(driver.version);
    let failed = Verdict::fail(cause).evidence(evidence).evidence(installed);
    // The new module was installed before this boot, so the old one came from the initramfs.
    let in_image = next_kernel(case).filter(|k| {
        ready
            && case.seen.module_before_boot == Some(true)
            && case.seen.facts.kernels.running.as_ref() == Some(&k.release)
    });
    let failed = match in_image.and_then(|k| rebuild_image(&case.seen.facts, k)) {
        Some(rebuild) => failed
            .evidence("the new module was installed before the last boot: the old one is in the initramfs")
            .repair("rebuild the initramfs, then reboot", [rebuild])
            .and_run(["sudo reboot"]),
        None if ready => failed.advise("reboot: the new module is already installed", ["sudo reboot"]),
        None => failed.advise("build the module first, then reboot", ["sudo reboot"]),
    };
    strangers.iter().fold(failed, |v, client| {
        v.evidence(format!(
            "the kernel's log: the module refused a program with libraries {client}"
        ))
    })
}

/// Why the nvidia module is not loaded, by the kernel's log.
fn not_loaded(case: &Case) -> Verdict {
    let said = of_module(case).into_iter();
    let Answer::Is(log) = &case.seen.kernel_log else {
        return never_tried();
    };
    if log.iter().any(|s| matches!(s, KernelEvent::Unfit(_))) {
        let cause =
            "the nvidia module is not loaded: it was built for another kernel than the running one";
        return said.fold(Verdict::fail(cause), Verdict::evidence).advise(
            "build the module for this kernel, then load it",
            ["sudo dkms autoinstall", "sudo modprobe nvidia"],
        );
    }
    if log
        .iter()
        .any(|s| matches!(s, KernelEvent::NotProbed(_) | KernelEvent::Held { .. }))
    {
        let cause = "the nvidia module was unloaded again, because another driver had the GPU";
        return said.fold(Verdict::fail(cause), Verdict::evidence).advise(
            "load the module again",
            ["sudo modprobe nvidia", "sudo dmesg | tail"],
        );
    }
    if log.iter().any(|s| matches!(s, KernelEvent::ProbeFailed(_))) {
        let cause = "the nvidia module was unloaded again, because it could initialise no GPU";
        return said.fold(Verdict::fail(cause), Verdict::evidence).advise(
            "load the module again and read its messages about the GPU",
            ["sudo modprobe nvidia", "sudo dmesg | grep NVRM"],
        );
    }
    said.fold(never_tried(), Verdict::evidence)
}

fn never_tried() -> Verdict {
    Verdict::fail("the nvidia module is not loaded").advise(
        "load the module; the kernel's log then shows the cause",
        ["sudo modprobe nvidia", "sudo dmesg | tail"],
    )
}

/// Versions of the driver's libraries that the currently loaded module refused. What an earlier
/// module refused no longer matters.
fn strangers<'a>(case: &'a Case, loaded: &str) -> Vec<&'a String> {
    let Answer::Is(said) = &case.seen.kernel_log else {
        return Vec::new();
    };
    said.iter()
        .filter_map(|said| match said {
            KernelEvent::Mismatch { client, module } if module == loaded => Some(client),
            _ => None,
        })
        .collect()
}
