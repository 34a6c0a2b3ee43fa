//! Traffic between GPUs over PCI.

use crate::{Answer, Case, Verdict};
use gpusetup_host::MachineKind;
use gpusetup_text::text::quoted;

/// Sources: <https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html> for
/// ports that redirect,
/// <https://docs.nvidia.com/nim/maxine/lipsync/latest/advanced-usage/multi-gpu.html> for the IOMMU.
pub(crate) fn speak_freely(case: &Case) -> Verdict {
    let facts = &case.seen.facts;
    if facts.machine.kind != MachineKind::Physical || facts.machine.is_offline_root {
        return Verdict::skip("only a running physical machine shows how its GPUs are connected");
    }
    // Only data-centre GPUs: desktops with two GPUs have good reasons to enable the IOMMU.
    let joined = case
        .cards
        .iter()
        .flatten()
        .filter(|card| card.data_center)
        .count();
    if joined < 2 {
        return Verdict::skip("the host has fewer than two data-centre GPUs");
    }
    if facts
        .gpus
        .iter()
        .any(|g| g.bound_to.as_deref() == Some("vfio-pci"))
    {
        return Verdict::skip(
            "a GPU is reserved for a virtual machine, which needs the IOMMU and ACS",
        );
    }
    let iommu = case
        .seen
        .bus
        .iommu
        .iter()
        .filter(|(_, kind)| kind.starts_with("DMA"));
    let translated = iommu
        .map(|(gpu, kind)| format!("{gpu}: the IOMMU's domain is {kind}"))
        .collect::<Vec<_>>();
    let translates = (!translated.is_empty()).then(|| {
        let cause = "the IOMMU translates traffic between GPUs, which CUDA does not support on bare metal: copies \
                     between GPUs may be slow, wrong or hang";
        let verdict = translated.into_iter().fold(Verdict::warn(cause), Verdict::evidence);
        verdict.advise("add iommu=pt to the kernel's command line, then reboot", untranslated(case))
    });
    let of = |wanted: bool| {
        case.seen
            .bus
            .detours
            .iter()
            .filter(move |(_, d)| **d == Answer::Is(wanted))
            .map(|(port, _)| port)
    };
    let ports: Vec<_> = of(true).collect();
    let detours = (!ports.is_empty()).then(|| {
        let cause = "ports of PCI switches redirect traffic between GPUs through the CPU (ACS)";
        let verdict = ports.iter().fold(Verdict::warn(cause), |v, port| v.evidence(format!("{port} redirects")));
        verdict.advise(
            "disable ACS in the firmware's setup, unless virtual machines use the GPUs; or disable it until the next boot",
            ports.iter().map(|port| format!("sudo setpci -s {} ECAP_ACS+6.w=0000", quoted(port))),
        )
    });
    let unseen = case.seen.bus.detours.values().find_map(|d| {
        if let Answer::NotAsked(why) = d {
            Some(why)
        } else {
            None
        }
    });
    let straight = of(false).fold(Verdict::pass(), |v, port| {
        v.evidence(format!("{port} does not redirect"))
    });
    let straight = unseen.into_iter().fold(straight, |v, why| {
        v.evidence(format!("ACS could not be read: {why}"))
    });
    let all = translates.into_iter().chain(detours).chain([straight]);
    match Verdict::worst(all) {
        Some(verdict) if verdict == Verdict::pass() => {
            verdict.evidence("no IOMMU translates and no port redirects")
        }
        found => found.unwrap_or_else(Verdict::pass),
    }
}

/// Commands that add iommu=pt to the kernel's command line.
fn untranslated(case: &Case) -> Vec<String> {
    let manager = case
        .seen
        .facts
        .os
        .package_manager
        .map(gpusetup_packages::of);
    manager
        .map(|manager| (manager.by_hand.add_kernel_parameter)("iommu=pt"))
        .unwrap_or_default()
}
