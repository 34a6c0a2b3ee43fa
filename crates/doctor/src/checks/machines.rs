//! Machines that get their driver another way, laptops with two GPUs, and GPUs outside the case.

use super::{NOTHING, no_driver_of_its_own};
use crate::{Case, Verdict};
use gpusetup_database::compat::PlatformDriver;
use gpusetup_host::{MachineKind, Origin};
use gpusetup_resolve::{
    NO_KNOWN_WAY, TargetGpu, WSL_LIBRARIES, installed_by_hand, linux_driver_in_wsl2,
    removal_by_hand, vendor_driver,
};
use gpusetup_text::text::quoted;

pub(crate) fn wsl(case: &Case) -> Verdict {
    if case.seen.facts.machine.kind != MachineKind::Wsl2 {
        return Verdict::skip("this is not WSL2");
    }
    if let Some(driver) = installed_by_hand(&case.seen.facts) {
        return Verdict::fail(linux_driver_in_wsl2(driver))
            .evidence(driver.evidence.clone())
            .advise(
                "remove it, then refresh the loader's cache",
                [
                    removal_by_hand(&case.seen.facts, driver),
                    "sudo ldconfig".to_owned(),
                ],
            );
    }

    if let Some(other) = case
        .seen
        .cached
        .iter()
        .find(|c| c.soname == "libcuda.so.1" && !c.directory.starts_with(WSL_LIBRARIES))
    {
        let directory = other.directory.display();
        return Verdict::fail(format!(
            "programs load libcuda from {directory}, not that of Windows in {WSL_LIBRARIES}"
        ))
        .evidence(format!("{} => {}", other.soname, other.path.display()))
        .advise(
            format!("remove {directory} from the loader's path"),
            [
                format!(
                    "grep -rn {} /etc/ld.so.conf /etc/ld.so.conf.d",
                    quoted(&directory.to_string())
                ),
                "sudo ldconfig".to_owned(),
            ],
        );
    }
    let Some(wsl) = case
        .seen
        .machine
        .as_ref()
        .and_then(|machine| machine.wsl.as_ref())
    else {
        return Verdict::skip("what Windows gives WSL2 is not in the facts");
    };
    let update = "update WSL, and NVIDIA's driver in Windows, from there; then start WSL again";
    let commands = ["wsl.exe --update", "wsl.exe --shutdown"];
    match wsl.device {
        Some(false) => Verdict::fail("Windows gives this WSL2 no GPU: /dev/dxg is missing")
            .advise(update, commands),
        _ if !wsl.library => Verdict::fail(format!(
            "NVIDIA's driver in Windows has put no libcuda into {WSL_LIBRARIES}"
        ))
        .advise(update, commands),
        _ => Verdict::pass().evidence(format!("{WSL_LIBRARIES}/libcuda.so.1")),
    }
}

pub(crate) fn jetson(case: &Case) -> Verdict {
    if case.seen.facts.machine.kind != MachineKind::Jetson {
        return Verdict::skip("this is no Jetson");
    }
    if let Some(driver) = installed_by_hand(&case.seen.facts) {
        let cause = format!(
            "driver {} for graphics cards is installed over that of the board support package: the board's GPU does not work with it",
            driver.version
        );
        return Verdict::fail(cause)
            .evidence(driver.evidence.clone())
            .advise(
                "remove it, then install the board's own packages again",
                [
                    removal_by_hand(&case.seen.facts, driver),
                    "sudo apt-get install --reinstall nvidia-l4t-core nvidia-l4t-cuda".to_owned(),
                ],
            );
    }
    let Some(jetpack) = case.jetpack() else {
        return Verdict::skip("the release of Jetson Linux is not known, or not in the database");
    };
    let newest = jetpack.compatible.unwrap_or(jetpack.cuda);
    let evidence = format!(
        "JetPack {}: CUDA {}, up to {newest}",
        jetpack.jetpack, jetpack.cuda
    );
    let too_new = case
        .seen
        .facts
        .toolkits
        .iter()
        .find(|toolkit| toolkit.version.series() > newest.series());
    match too_new {
        None => Verdict::pass().evidence(evidence),
        Some(toolkit) => {
            let cause = format!(
                "CUDA {} in {} is newer than the driver of JetPack {} can run: {newest} is the newest",
                toolkit.version,
                toolkit.path.display(),
                jetpack.jetpack
            );
            Verdict::warn(cause).evidence(evidence).advise(
                "use the toolkit of JetPack, or install a newer JetPack",
                ["sudo apt-get install nvidia-jetpack"],
            )
        }
    }
}

pub(crate) fn image(case: &Case) -> Verdict {
    let platform = case
        .platform()
        .filter(|platform| platform.driver != PlatformDriver::Vendor);
    let os = &case.seen.facts.os;
    if platform.is_none() && !os.immutable {
        return Verdict::skip("packages can change this system");
    }
    if case.seen.facts.machine.kind == MachineKind::Container {
        return Verdict::skip(gpusetup_causes::CONTAINER);
    }
    if case.seen.facts.gpus.is_empty() {
        return Verdict::skip("there is no NVIDIA GPU");
    }
    if let Some(driver) = &case.seen.facts.driver {
        let name = platform.map_or(&os.name, |platform| &platform.name);
        return Verdict::pass().evidence(format!("driver {} on {name}", driver.version));
    }
    let Some(platform) = platform else {
        return Verdict::fail(format!(
            "no driver is installed, and {}",
            gpusetup_causes::IMMUTABLE
        ))
        .advise(NO_KNOWN_WAY, NOTHING);
    };
    Verdict::fail(format!(
        "no driver is installed; on {} it comes another way: {}",
        platform.name, platform.why
    ))
    .remedy(vendor_driver(
        platform,
        case.seen.facts.os.variant.as_deref(),
        cards(case),
    ))
}

/// The GPUs that the database knows.
fn cards<'a>(case: &'a Case) -> impl Iterator<Item = &'a TargetGpu> + Clone {
    case.cards.iter().flatten()
}

pub(crate) fn two_gpus(case: &Case) -> Verdict {
    if let Some(skip) = no_driver_of_its_own(case) {
        return skip;
    }
    let Some(hybrid) = case
        .seen
        .machine
        .as_ref()
        .and_then(|machine| machine.hybrid.as_ref())
    else {
        return Verdict::skip("this is no laptop with a desktop and two GPUs");
    };
    let others: Vec<_> = case
        .seen
        .facts
        .other_gpus
        .iter()
        .map(|gpu| format!("{} [{}]", gpu.address, gpu.pci_id))
        .collect();
    let evidence = format!("beside NVIDIA's: {}", others.join(", "));
    if !hybrid.graphics {
        let cause = "the driver is installed without its graphics libraries: programs of the desktop cannot use NVIDIA's GPU, \
                     and displays on it stay dark";
        let verdict = Verdict::warn(cause).evidence(evidence);
        return match for_desktops(case) {
            Some(command) => verdict.advise(
                "install the packages of the same driver for desktops",
                [command],
            ),
            None => verdict.advise(
                "install the same driver again, with its graphics libraries",
                NOTHING,
            ),
        };
    }
    if hybrid.mode_setting == Some(false) {
        return Verdict::warn(
            "mode setting is off in nvidia-drm: Wayland does not use displays on NVIDIA's GPU",
        )
        .evidence(evidence)
        .advise(
            "switch it on, then reboot",
            [
                "sudo gpusetup apply --profile driver --module-option nvidia_drm.modeset=1",
                "sudo reboot",
            ],
        );
    }
    Verdict::pass().evidence(evidence)
}

/// The command that installs the distribution's packages of the installed driver for desktops.
fn for_desktops(case: &Case) -> Option<String> {
    let (driver, distribution) = (case.seen.facts.driver.as_ref()?, case.distribution()?);

    let offers = distribution
        .drivers
        .iter()
        .filter(|offer| offer.branch == driver.version.branch);
    let offer = offers.into_iter().find(|offer| {
        driver.modules.is_none_or(|own| own == offer.modules)
            && case.seen.facts.has_enabled(&offer.repository.seen_as)
    })?;
    let names = offer
        .packages_for(true)
        .iter()
        .chain(&distribution.hybrid_packages);
    let names: Vec<_> = names.map(|name| quoted(name)).collect();
    Some(format!(
        "sudo {} {}",
        gpusetup_packages::of(distribution.package_manager)
            .by_hand
            .install,
        names.join(" ")
    ))
}

pub(crate) fn outside(case: &Case) -> Verdict {
    let facts = &case.seen.facts;
    let waiting: Vec<_> = facts
        .thunderbolt
        .iter()
        .filter(|d| !d.authorized)
        .map(|d| d.name.as_str())
        .collect();
    if !waiting.is_empty() {
        let cause = format!(
            "{} on Thunderbolt or USB4 is not authorised: a GPU in it is not on the PCI bus until then",
            waiting.join(", ")
        );
        let gpusetup_causes::Remedy { text, commands } =
            gpusetup_causes::authorise(&waiting.join(", "));
        return Verdict::warn(cause).advise(text, commands);
    }
    if facts.external_gpus.is_empty() {
        return Verdict::skip("no GPU is outside the case");
    }
    Verdict::pass().evidence(format!(
        "on Thunderbolt or USB4: {}",
        facts.external_gpus.join(", ")
    ))
}

pub(crate) fn vendors(case: &Case) -> Verdict {
    let platform = case
        .platform()
        .filter(|platform| platform.driver == PlatformDriver::Vendor);
    let (Some(platform), Some(driver)) = (platform, &case.seen.facts.driver) else {
        return Verdict::skip("no system of a vendor with its own driver");
    };
    let evidence = format!(
        "{}: driver {}, {}",
        platform.name, driver.version, driver.evidence
    );
    if driver.origin == Origin::Dpkg {
        return Verdict::pass().evidence(evidence);
    }
    Verdict::warn(format!(
        "driver {} did not come with {}: {}",
        driver.version, platform.name, platform.why
    ))
    .evidence(evidence)
    .remedy(vendor_driver(
        platform,
        case.seen.facts.os.variant.as_deref(),
        cards(case),
    ))
}
