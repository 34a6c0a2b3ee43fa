//! Facts as text.

use crate::compat::Database;
use crate::host::{Facts, Firmware, Gpu, MachineKind, Origin, SecureBoot, SigningKey};
use crate::text::{bytes, wrapped};

/// Whether a hypervisor gives this machine a part of a GPU.
fn is_virtual(gpu: &Gpu, database: &Database) -> bool {
    let subsystem = gpu.device().zip(gpu.subsystem.as_deref());
    subsystem.is_some_and(|(device, id)| database.is_virtual_gpu(device, id))
}

/// The facts for a person, a line a thing; what is missing is said.
pub(crate) fn text(facts: &Facts, database: &Database, width: usize) -> String {
    let mut out = String::new();
    let mut line =
        |label: &str, text: String| out += &wrapped(&format!("{label:<12} "), &text, width);
    let machine = &facts.machine;
    let kind = match machine.kind {
        MachineKind::Physical => "physical machine",
        MachineKind::Virtual => "virtual machine",
        MachineKind::Container => "container",
        MachineKind::Wsl2 => "WSL2",
        MachineKind::Jetson => "Jetson",
    };
    let inside = machine
        .inside
        .as_ref()
        .map(|i| format!(" ({i})"))
        .unwrap_or_default();
    let tree = if machine.is_tree {
        ", a tree that is not running"
    } else {
        ""
    };
    let laptop = if machine.portable { ", a laptop" } else { "" };
    line(
        "System",
        format!(
            "{}, {}, {kind}{inside}{laptop}{tree}",
            facts.os.name, machine.arch
        ),
    );
    if let Some(board) = &machine.board {
        let l4t = board.l4t.as_ref().map(|l4t| format!("Jetson Linux {l4t}"));
        let known: Vec<_> = board.model.iter().cloned().chain(l4t).collect();
        line(
            "Board",
            if known.is_empty() {
                "not known".to_owned()
            } else {
                known.join(", ")
            },
        );
    }
    if facts.gpus.is_empty() {
        let unseen = facts.unreadable.iter().any(|u| u.missing.is_some());
        line(
            "GPUs",
            if unseen {
                "not seen, see below"
            } else {
                "no NVIDIA GPU"
            }
            .to_owned(),
        );
    }
    for (n, gpu) in facts.gpus.iter().enumerate() {
        let name = gpu.name.as_deref().unwrap_or("not in the database");
        let capability = gpu
            .compute_capability
            .map(|c| format!(", compute capability {c}"))
            .unwrap_or_default();
        let bound = match &gpu.bound_to {
            _ if gpu.assumed => "assumed".to_owned(),
            Some(driver) => format!("driven by {driver}"),
            None if gpu.driver_unseen => "driver unknown (lspci shows it with -k)".to_owned(),
            None => "no driver bound".to_owned(),
        };
        let part = if is_virtual(gpu, database) {
            ", a virtual GPU (vGPU)"
        } else {
            ""
        };
        let outside = if facts.external_gpus.contains(&gpu.address) {
            ", outside the case"
        } else {
            ""
        };
        line(
            &format!("GPU {n}"),
            format!(
                "{} {name} [{}]{part}{capability}, {bound}{outside}",
                gpu.address, gpu.pci_id
            ),
        );
    }
    for other in &facts.other_gpus {
        let bound = other
            .bound_to
            .as_ref()
            .map(|driver| format!(", driven by {driver}"))
            .unwrap_or_default();
        line(
            "Other GPU",
            format!("{} [{}]{bound}", other.address, other.pci_id),
        );
    }
    for device in &facts.thunderbolt {
        let authorized = if device.authorized {
            ""
        } else {
            ", not authorised"
        };
        line("Thunderbolt", format!("{}{authorized}", device.name));
    }
    if let Some(first) = facts.nvswitches.first() {
        let name = first.name.as_deref().unwrap_or("NVSwitch");
        line("NVSwitches", format!("{} ({name})", facts.nvswitches.len()));
    }
    if let Some(rdma) = &facts.rdma {
        let peermem = match rdma.has_peer_memory {
            Some(true) => ", with the interface for nvidia-peermem",
            Some(false) => ", without the interface for nvidia-peermem",
            None => "",
        };
        line("RDMA", format!("{}{peermem}", rdma.adapters.join(", ")));
    }
    let kernels = &facts.kernels;
    if let Some(running) = &kernels.running {
        line("Kernel", format!("{running} runs now"));
    }
    if kernels.installed.is_empty() {
        line("", "no kernel below /lib/modules".to_owned());
    }
    for kernel in &kernels.installed {
        let next = if kernels.next_boot.as_ref() == Some(&kernel.release) {
            ", boots next"
        } else {
            ""
        };
        let headers = if kernel.headers {
            "headers"
        } else {
            "no headers"
        };
        let compiler = kernel
            .compiler
            .as_ref()
            .map(|c| format!(", built with {c}"))
            .unwrap_or_default();
        let module = kernel
            .nvidia_module
            .map_or("no nvidia module".to_owned(), |v| {
                format!("nvidia module {v}")
            });
        line(
            "Installed",
            format!("{}{next}: {headers}, {module}{compiler}", kernel.release),
        );
    }
    line(
        "Compiler",
        facts
            .gcc
            .as_ref()
            .map_or("no gcc".to_owned(), |v| format!("gcc {v}")),
    );
    line(
        "C library",
        facts
            .glibc
            .as_ref()
            .map_or("not seen".to_owned(), |v| format!("glibc {v}")),
    );
    if let Some(sign) = &facts.desktop {
        line("Desktop", format!("yes ({})", sign.display()));
    }
    line(
        "Secure Boot",
        match facts.secure_boot {
            SecureBoot::Enabled => "on: modules must be signed",
            SecureBoot::Disabled => "off",
            SecureBoot::Absent => "no UEFI",
            SecureBoot::Unknown => "could not be read",
        }
        .to_owned(),
    );
    if let Some(firmware) = facts
        .firmware
        .as_ref()
        .filter(|_| facts.secure_boot == SecureBoot::Enabled)
    {
        secure_boot(firmware, &facts.signing_keys)
            .into_iter()
            .for_each(|text| line("", text));
    }
    match &facts.driver {
        None => line("Driver", "none installed".to_owned()),
        Some(d) => line(
            "Driver",
            format!("{}, {} ({})", d.version, by(d.origin), d.evidence),
        ),
    }
    for other in &facts.other_drivers {
        line(
            "",
            format!(
                "and {}, {} ({})",
                other.version,
                by(other.origin),
                other.evidence
            ),
        );
    }
    if let Some(modules) = facts.loaded_modules.as_ref().filter(|m| !m.is_empty()) {
        let shown = modules.iter().map(|m| match &m.version {
            Some(version) => format!("{} {version}", m.name),
            None => m.name.clone(),
        });
        line("Loaded", shown.collect::<Vec<_>>().join(", "));
    }
    if facts.toolkits.is_empty() {
        line("Toolkits", "none installed".to_owned());
    }
    for toolkit in &facts.toolkits {
        line(
            "Toolkit",
            format!(
                "CUDA {}, {} ({})",
                toolkit.version,
                by(toolkit.origin),
                toolkit.path.display()
            ),
        );
    }
    if let Some(nvcc) = &facts.nvcc {
        line("nvcc on PATH", nvcc.display().to_string());
    }
    for cudnn in &facts.cudnn {
        let version = cudnn
            .version
            .map_or("of unknown version".to_owned(), |v| v.to_string());
        line(
            "cuDNN",
            format!("{version} in {}", cudnn.directory.display()),
        );
    }
    for found in &facts.add_ons {
        let version = found
            .version
            .map_or("of unknown version".to_owned(), |v| v.to_string());
        line(
            "Add-on",
            format!(
                "{} {version} in {}",
                found.add_on,
                found.directory.display()
            ),
        );
    }
    let mut seen = Vec::new();
    for space in &facts.space {
        // A file system is named once, by the first path that is on it.
        if !seen.contains(&space.file_system) {
            seen.push(space.file_system);
            let manners = [
                (space.read_only, ", read-only"),
                (space.no_exec, ", noexec"),
            ];
            let manners: String = manners
                .iter()
                .filter(|(is, _)| *is)
                .map(|(_, text)| *text)
                .collect();
            line(
                "Room",
                format!(
                    "{} free at {}{manners}",
                    bytes(space.free_bytes),
                    space.path.display()
                ),
            );
        }
    }
    for u in &facts.unreadable {
        line("Not read", format!("{}: {}", u.what, u.why));
    }
    out
}

fn by(origin: Origin) -> &'static str {
    match origin {
        Origin::Dpkg => "by Debian packages",
        Origin::Rpm => "by RPM packages",
        Origin::Runfile => "by NVIDIA's runfile",
        Origin::Archives => "by gpusetup, of NVIDIA's component archives",
        Origin::Unknown => "installed by: unknown",
    }
}

/// What Secure Boot trusts, in lines for a person.
fn secure_boot(firmware: &Firmware, keys: &[SigningKey]) -> Vec<String> {
    let mut lines = Vec::new();
    let started = if firmware.shim {
        "started by shim: keys can be enrolled (MOK)"
    } else {
        "started without shim"
    };
    let lockdown = firmware
        .lockdown
        .iter()
        .map(|mode| format!(", kernel lockdown {mode}"))
        .collect::<String>();
    lines.push(format!("{started}{lockdown}"));
    let authorities: Vec<_> = firmware
        .microsoft_authorities()
        .map(|year| year.to_string())
        .collect();
    if !authorities.is_empty() {
        lines.push(format!(
            "the firmware trusts shims that Microsoft signed with its authority of {}",
            authorities.join(" and ")
        ));
    }
    lines.extend(keys.iter().map(|key| {
        let stands = match (key.enrolled, key.requested) {
            (true, _) => "enrolled",
            (false, true) => "waits to be enrolled at the console",
            (false, false) => "not enrolled",
        };
        format!("key {}: {stands}", key.path.display())
    }));
    lines
}
