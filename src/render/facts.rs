//! Facts as text.

use crate::compat::Database;
use crate::host::{Facts, Firmware, Gpu, Kernels, MachineKind, Origin, SecureBoot, SigningKey};
use crate::text::{bytes, wrapped};

/// Whether a hypervisor gives this machine a part of a GPU.
fn is_virtual(gpu: &Gpu, database: &Database) -> bool {
    let subsystem = gpu.device().zip(gpu.subsystem.as_deref());
    subsystem.is_some_and(|(device, id)| database.is_virtual_gpu(device, id))
}

/// The facts for a person, a line a thing; what is missing is said.
pub(crate) fn text(facts: &Facts, database: &Database, width: usize) -> String {
    let mut lines = Lines {
        out: String::new(),
        width,
    };
    lines.machine(facts);
    lines.gpus(facts, database);
    lines.other_devices(facts);
    lines.kernels(&facts.kernels);
    lines.system(facts);
    lines.drivers(facts);
    lines.toolkits(facts);
    lines.room(facts);
    for u in &facts.unreadable {
        lines.add("Not read", format!("{}: {}", u.what, u.why));
    }
    lines.out
}

struct Lines {
    out: String,
    width: usize,
}

impl Lines {
    fn add(&mut self, label: &str, text: String) {
        self.out += &wrapped(&format!("{label:<12} "), &text, self.width);
    }

    fn machine(&mut self, facts: &Facts) {
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
        let tree = if machine.is_offline_root {
            ", a tree that is not running"
        } else {
            ""
        };
        let laptop = if machine.portable { ", a laptop" } else { "" };
        self.add(
            "System",
            format!(
                "{}, {}, {kind}{inside}{laptop}{tree}",
                facts.os.name, machine.arch
            ),
        );
        if let Some(board) = &machine.board {
            let l4t = board.l4t.as_ref().map(|l4t| format!("Jetson Linux {l4t}"));
            let known: Vec<_> = board.model.iter().cloned().chain(l4t).collect();
            self.add(
                "Board",
                if known.is_empty() {
                    "not known".to_owned()
                } else {
                    known.join(", ")
                },
            );
        }
    }

    fn gpus(&mut self, facts: &Facts, database: &Database) {
        if facts.gpus.is_empty() {
            let unseen = facts.unreadable.iter().any(|u| u.missing.is_some());
            self.add(
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
            self.add(
                &format!("GPU {n}"),
                format!(
                    "{} {name} [{}]{part}{capability}, {bound}{outside}",
                    gpu.address, gpu.pci_id
                ),
            );
        }
    }

    fn other_devices(&mut self, facts: &Facts) {
        for other in &facts.other_gpus {
            let bound = other
                .bound_to
                .as_ref()
                .map(|driver| format!(", driven by {driver}"))
                .unwrap_or_default();
            self.add(
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
            self.add("Thunderbolt", format!("{}{authorized}", device.name));
        }
        if let Some(first) = facts.nvswitches.first() {
            let name = first.name.as_deref().unwrap_or("NVSwitch");
            self.add("NVSwitches", format!("{} ({name})", facts.nvswitches.len()));
        }
        if let Some(rdma) = &facts.rdma {
            let peermem = match rdma.has_peer_memory {
                Some(true) => ", with the interface for nvidia-peermem",
                Some(false) => ", without the interface for nvidia-peermem",
                None => "",
            };
            self.add("RDMA", format!("{}{peermem}", rdma.adapters.join(", ")));
        }
    }

    fn kernels(&mut self, kernels: &Kernels) {
        if let Some(running) = &kernels.running {
            self.add("Kernel", format!("{running} runs now"));
        }
        if kernels.installed.is_empty() {
            self.add("", "no kernel below /lib/modules".to_owned());
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
            self.add(
                "Installed",
                format!("{}{next}: {headers}, {module}{compiler}", kernel.release),
            );
        }
    }

    fn system(&mut self, facts: &Facts) {
        self.add(
            "Compiler",
            facts
                .gcc
                .as_ref()
                .map_or("no gcc".to_owned(), |v| format!("gcc {v}")),
        );
        self.add(
            "C library",
            facts
                .glibc
                .as_ref()
                .map_or("not seen".to_owned(), |v| format!("glibc {v}")),
        );
        if let Some(sign) = &facts.desktop {
            self.add("Desktop", format!("yes ({})", sign.display()));
        }
        self.add(
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
                .for_each(|text| self.add("", text));
        }
    }

    fn drivers(&mut self, facts: &Facts) {
        match &facts.driver {
            None => self.add("Driver", "none installed".to_owned()),
            Some(d) => self.add(
                "Driver",
                format!("{}, {} ({})", d.version, by(d.origin), d.evidence),
            ),
        }
        for other in &facts.other_drivers {
            self.add(
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
            self.add("Loaded", shown.collect::<Vec<_>>().join(", "));
        }
    }

    fn toolkits(&mut self, facts: &Facts) {
        if facts.toolkits.is_empty() {
            self.add("Toolkits", "none installed".to_owned());
        }
        for toolkit in &facts.toolkits {
            self.add(
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
            self.add("nvcc on PATH", nvcc.display().to_string());
        }
        for cudnn in &facts.cudnn {
            let version = cudnn
                .version
                .map_or("of unknown version".to_owned(), |v| v.to_string());
            self.add(
                "cuDNN",
                format!("{version} in {}", cudnn.directory.display()),
            );
        }
        for found in &facts.add_ons {
            let version = found
                .version
                .map_or("of unknown version".to_owned(), |v| v.to_string());
            self.add(
                "Add-on",
                format!(
                    "{} {version} in {}",
                    found.add_on,
                    found.directory.display()
                ),
            );
        }
    }

    fn room(&mut self, facts: &Facts) {
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
                self.add(
                    "Room",
                    format!(
                        "{} free at {}{manners}",
                        bytes(space.free_bytes),
                        space.path.display()
                    ),
                );
            }
        }
    }
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
