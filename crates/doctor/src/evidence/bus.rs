//! How the GPUs are connected on the PCI bus: the ports above them, and the IOMMU's translation of
//! their traffic.

use super::{Answer, text};
use gpusetup_database::compat::Database;
use gpusetup_host::{Facts, MachineKind};
use gpusetup_system::System;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Component, Path};

/// The bus between GPUs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct Bus {
    /// Ports of PCI switches above GPUs, by address: whether they redirect traffic between devices
    /// through the CPU (ACS).
    pub(crate) detours: BTreeMap<String, Answer<bool>>,
    /// The IOMMU's domain of each GPU on a board in a slot, by address: `DMA`, `DMA-FQ`,
    /// `identity`. Without an entry there is none. GPUs on a base board use NVLink instead.
    pub(crate) iommu: BTreeMap<String, String>,
}

const DEVICES: &str = "/sys/bus/pci/devices";

/// Read only on physical machines with several GPUs.
pub(crate) fn bus(system: &System, facts: &Facts, database: &Database) -> Bus {
    let mut bus = Bus::default();
    if facts.machine.kind != MachineKind::Physical || facts.gpus.len() < 2 {
        return bus;
    }
    for gpu in &facts.gpus {
        let device = Path::new(DEVICES).join(&gpu.address);
        let known = gpu
            .device()
            .and_then(|id| database.gpu(id, gpu.subsystem.as_deref()));
        let kind = text(system, device.join("iommu_group/type"))
            .trim()
            .to_owned();
        if !kind.is_empty() && known.is_some_and(|g| g.form.as_deref() == Some("PCIe")) {
            bus.iommu.insert(gpu.address.clone(), kind);
        }
        let Ok(path) = system.canonical(&device) else {
            continue;
        };
        // "/sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0": the ports above the GPU, then the
        // GPU itself.
        let names = path.components().filter_map(|c| {
            if let Component::Normal(n) = c {
                n.to_str()
            } else {
                None
            }
        });
        for port in names.filter(|n| n.len() == 12 && n.contains('.') && *n != gpu.address) {
            if bus.detours.contains_key(port) {
                continue;
            }
            let found = match system.read(Path::new(DEVICES).join(port).join("config")) {
                Ok(config) => detours(&config),
                Err(e) => Some(Answer::NotAsked(e.to_string())),
            };
            if let Some(found) = found {
                bus.detours.insert(port.to_owned(), found);
            }
        }
    }
    bus
}

/// Whether a port redirects traffic, by its configuration space. None if it is not a downstream
/// port of a switch. Root ports are left out: traffic between them passes the CPU anyway.
fn detours(config: &[u8]) -> Option<Answer<bool>> {
    const BRIDGE: u8 = 1;
    const DOWNSTREAM_PORT: u16 = 6;
    if config.get(0x0e)? & 0x7f != BRIDGE {
        return None;
    }
    if config.len() <= 64 {
        return Some(Answer::NotAsked(
            "only root can read the ACS settings of PCI switches".to_owned(),
        ));
    }
    let kind = word(config, capability(config)? + 2)? >> 4 & 0xf;
    if kind != DOWNSTREAM_PORT {
        return None;
    }
    // P2P request redirect and P2P completion redirect, in ACS' control register.
    let redirects = access_control(config)
        .and_then(|at| word(config, at + 6))
        .is_some_and(|set| set & 0b1100 != 0);
    Some(Answer::Is(redirects))
}

fn word(config: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes([*config.get(at)?, *config.get(at + 1)?]))
}

/// The offset of the PCI Express capability. The list may be circular, so the number of entries is
/// limited.
fn capability(config: &[u8]) -> Option<usize> {
    const PCI_EXPRESS: u8 = 0x10;
    let mut at = usize::from(*config.get(0x34)? & 0xfc);
    for _ in 0..48 {
        match *config.get(at).filter(|_| at >= 0x40)? {
            PCI_EXPRESS => return Some(at),
            _ => at = usize::from(*config.get(at + 1)? & 0xfc),
        }
    }
    None
}

/// The offset of the extended capability for access control services (ACS).
fn access_control(config: &[u8]) -> Option<usize> {
    const ACS: u16 = 0x000d;
    let mut at = 0x100;
    for _ in 0..960 {
        if word(config, at).filter(|_| at >= 0x100)? == ACS {
            return Some(at);
        }
        at = usize::from(word(config, at + 2)? >> 4 & 0xffc);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The configuration space of a bridge: a PCI Express capability of this kind behind another
    /// one, and ACS with this control register behind another one.
    fn bridge(kind: u16, acs: Option<u16>) -> Vec<u8> {
        let mut config = vec![0; 4096];
        let mut put = |at: usize, bytes: &[u8]| config[at..at + bytes.len()].copy_from_slice(bytes);
        put(0x0e, &[1]);
        put(0x34, &[0x40]);
        put(0x40, &[0x01, 0x68]);
        put(0x68, &[0x10, 0]);
        put(0x6a, &(kind << 4 | 2).to_le_bytes());
        put(0x100, &[0x01, 0, 0x01, 0x22]);
        if let Some(control) = acs {
            put(0x220, &[0x0d, 0, 0x01, 0]);
            put(0x226, &control.to_le_bytes());
        }
        config
    }

    #[test]
    fn ports_of_switches_say_whether_they_redirect() {
        assert_eq!(detours(&bridge(6, Some(0b1_1101))), Some(Answer::Is(true)));
        assert_eq!(
            detours(&bridge(6, Some(0b1))),
            Some(Answer::Is(false)),
            "source validation alone redirects nothing"
        );
        assert_eq!(detours(&bridge(6, None)), Some(Answer::Is(false)));
        assert_eq!(detours(&bridge(4, Some(0b1_1101))), None, "a root port");
        assert_eq!(detours(&vec![0; 4096]), None, "not a bridge");
        assert!(matches!(
            detours(&bridge(6, Some(0))[..64]),
            Some(Answer::NotAsked(_))
        ));
    }

    #[test]
    fn what_is_above_the_gpus_is_found() {
        let tree = tempfile::tempdir().expect("a temporary directory");
        let system = System::at(tree.path());
        let root = "/sys/devices/pci0000:00/0000:00:01.0";
        let switch = format!("{root}/0000:01:00.0/0000:02:08.0");
        system.make_directories(DEVICES, 0o755).expect("made");
        system
            .make_directories(format!("{switch}/0000:03:00.0"), 0o755)
            .expect("made");
        system
            .make_directories(format!("{switch}/0000:04:00.0/iommu_group"), 0o755)
            .expect("made");
        system
            .write(
                format!("{switch}/0000:04:00.0/iommu_group/type"),
                b"DMA-FQ\n",
                0o644,
            )
            .expect("written");
        system
            .write(format!("{root}/config"), &bridge(4, Some(0b1100)), 0o644)
            .expect("written");
        system
            .write(
                format!("{root}/0000:01:00.0/config"),
                &bridge(5, None),
                0o644,
            )
            .expect("written");
        system
            .write(format!("{switch}/config"), &bridge(6, Some(0b1100)), 0o644)
            .expect("written");
        for path in [
            root.to_owned(),
            format!("{root}/0000:01:00.0"),
            switch.clone(),
        ]
        .into_iter()
        .chain(["03", "04"].map(|n| format!("{switch}/0000:{n}:00.0")))
        {
            let name = Path::new(&path).file_name().expect("a name").to_owned();
            system
                .link(Path::new(DEVICES).join(name), Path::new(&path))
                .expect("linked");
        }
        let mut facts = crate::sick::sound().facts;
        facts.gpus.push(facts.gpus[0].clone());
        // A100s as PCI Express boards.
        for (gpu, address) in facts.gpus.iter_mut().zip(["0000:03:00.0", "0000:04:00.0"]) {
            (gpu.address, gpu.pci_id) = (address.to_owned(), "10de:20f1".to_owned());
        }
        let bus = bus(&system, &facts, &gpusetup_data::embedded());
        assert_eq!(
            bus.detours,
            [("0000:02:08.0".to_owned(), Answer::Is(true))].into()
        );
        assert_eq!(
            bus.iommu,
            [("0000:04:00.0".to_owned(), "DMA-FQ".to_owned())].into()
        );
    }

    #[test]
    fn lists_that_lead_back_to_themselves_end() {
        let mut config = bridge(6, None);
        config[0x41] = 0x40;
        assert_eq!(detours(&config), None);
        let mut config = bridge(6, None);
        config[0x102..0x104].copy_from_slice(&[0x01, 0x10]);
        assert_eq!(detours(&config), Some(Answer::Is(false)));
        for length in 0..300 {
            detours(&bridge(6, Some(4))[..length]);
            detours(&vec![0xff; length]);
        }
    }
}
