//! The machine: its architecture, and whether its kernel and its driver are its own.

use super::probe::Notes;
use super::{Machine, MachineKind};
use crate::system::System;

/// What kind of machine it is.
pub fn probe(system: &System, notes: &mut Notes) -> Machine {
    let is_tree = !system.is_live();
    let text = |path: &str| system.read_text(path).ok().flatten();
    let (kind, inside) = kind(system, is_tree);
    let arch = if is_tree {
        tree_arch(system)
    } else {
        Some(rustix::system::uname().machine().to_string_lossy().into_owned())
    };
    if arch.is_none() {
        notes.note("machine architecture", "no program of the tree is a known ELF file");
    }
    let boot_id = if is_tree { None } else { text("/proc/sys/kernel/random/boot_id").map(|t| t.trim().to_owned()) };
    Machine { arch: arch.unwrap_or_default(), kind, inside, is_tree, boot_id }
}

fn kind(system: &System, is_tree: bool) -> (MachineKind, Option<String>) {
    let text = |path: &str| system.read_text(path).ok().flatten().map(|t| t.trim_matches(['\0', '\n', ' ']).to_owned());
    if system.exists("/etc/nv_tegra_release")
        || text("/proc/device-tree/compatible").is_some_and(|c| c.contains("nvidia,tegra"))
    {
        return (MachineKind::Jetson, None);
    }
    let release = text("/proc/sys/kernel/osrelease").unwrap_or_default();
    if release.to_lowercase().contains("microsoft") {
        return (MachineKind::Wsl2, Some("wsl".to_owned()));
    }
    let markers = [("/.dockerenv", "docker"), ("/run/.containerenv", "podman")];
    let marked = markers.iter().find(|(path, _)| system.exists(path)).map(|(_, name)| (*name).to_owned());
    if let Some(manager) = text("/run/systemd/container").or(marked) {
        return (MachineKind::Container, Some(manager));
    }
    let maker = text("/sys/class/dmi/id/sys_vendor").unwrap_or_default();
    let product = text("/sys/class/dmi/id/product_name").unwrap_or_default();
    const HYPERVISORS: [(&str, &str); 7] = [
        ("QEMU", "kvm"),
        ("Amazon EC2", "amazon"),
        ("Google", "google"),
        ("Microsoft Corporation", "hyper-v"),
        ("VMware", "vmware"),
        ("Xen", "xen"),
        ("innotek", "virtualbox"),
    ];
    // Amazon's bare-metal machines say Amazon EC2 too, with a product that ends in .metal.
    let known = HYPERVISORS.iter().find(|(vendor, _)| maker.starts_with(vendor) && !product.contains(".metal"));
    // Microsoft makes laptops as well.
    let known = known.filter(|(_, name)| *name != "hyper-v" || product == "Virtual Machine");
    let flagged = || {
        text("/proc/cpuinfo").is_some_and(|t| t.lines().any(|l| l.starts_with("flags") && l.contains(" hypervisor")))
    };
    match known {
        Some((_, name)) => (MachineKind::Virtual, Some((*name).to_owned())),
        None if !is_tree && flagged() => (MachineKind::Virtual, None),
        None => (MachineKind::Physical, None),
    }
}

/// By the ELF header of a program that every system has.
fn tree_arch(system: &System) -> Option<String> {
    use std::io::Read;
    ["/bin/sh", "/usr/bin/env", "/sbin/ldconfig", "/sbin/ldconfig.real"].iter().find_map(|program| {
        let mut header = [0u8; 20];
        system.open(program).ok()?.read_exact(&mut header).ok()?;
        // e_machine, little-endian on all three.
        match (&header[..4], header[18], header[19]) {
            (b"\x7fELF", 62, 0) => Some("x86_64".to_owned()),
            (b"\x7fELF", 183, 0) => Some("aarch64".to_owned()),
            (b"\x7fELF", 21, 0) => Some("ppc64le".to_owned()),
            _ => None,
        }
    })
}
