//! GPUs and NVSwitches on the PCI bus, by sysfs; and GPUs that are only assumed.

use super::probe::Notes;
use super::{Gpu, NvSwitch};
use crate::compat::{Ambiguous, Database, PciDevice};
use crate::system::System;
use crate::version::ComputeCapability;
use std::path::{Path, PathBuf};

const BUS: &str = "/sys/bus/pci/devices";
/// NVIDIA's PCI vendor id.
const VENDOR: u16 = 0x10de;

/// A PCI function, as its files say.
pub struct Function {
    /// Bus address.
    pub address: String,
    /// Vendor id.
    pub vendor: u16,
    /// Device id.
    pub device: PciDevice,
    /// `10de:1463`.
    pub subsystem: Option<String>,
    /// Base class and subclass, 0x0302.
    pub class: u16,
    /// The kernel driver bound to it.
    pub bound_to: Option<String>,
}

/// What is on the bus.
pub fn probe(system: &System, database: &Database, notes: &mut Notes) -> (Vec<Gpu>, Vec<NvSwitch>) {
    let Some(addresses) = notes.take(BUS, system.list(BUS)) else { return (Vec::new(), Vec::new()) };
    let (mut gpus, mut switches) = (Vec::new(), Vec::new());
    for address in addresses {
        let folder = Path::new(BUS).join(&address);
        // A virtual function belongs to the card whose physical function is there too.
        if system.link_target(folder.join("physfn")).is_some() {
            continue;
        }
        if let Some(function) = function(system, &folder, address) {
            sort_in(function, database, &mut gpus, &mut switches);
        }
    }
    (gpus, switches)
}

fn function(system: &System, folder: &Path, address: String) -> Option<Function> {
    let hex = |name: &str| {
        let text = system.read_text(folder.join(name)).ok()??;
        u32::from_str_radix(text.trim().trim_start_matches("0x"), 16).ok()
    };
    let half = |name: &str| hex(name).and_then(|n| u16::try_from(n).ok());
    let vendor = half("vendor").filter(|v| *v == VENDOR)?;
    let subsystem = half("subsystem_vendor").zip(half("subsystem_device")).map(|(v, d)| format!("{v:04x}:{d:04x}"));
    let driver = system.link_target(folder.join("driver")).as_deref().and_then(Path::file_name).map(PathBuf::from);
    Some(Function {
        address,
        vendor,
        device: PciDevice(half("device")?),
        subsystem,
        class: u16::try_from(hex("class")? >> 8).ok()?,
        bound_to: driver.map(|d| d.display().to_string()),
    })
}

/// Puts an NVIDIA function where it belongs; sound and USB controllers of graphics cards belong nowhere.
pub fn sort_in(f: Function, database: &Database, gpus: &mut Vec<Gpu>, switches: &mut Vec<NvSwitch>) {
    const DISPLAY: u16 = 0x03;
    const BRIDGE_OTHER: u16 = 0x0680;
    let pci_id = format!("{:04x}:{}", f.vendor, f.device);
    if f.vendor != VENDOR {
        return;
    }
    if f.class >> 8 == DISPLAY {
        let known = database.gpu(f.device, f.subsystem.as_deref());
        gpus.push(Gpu {
            address: f.address,
            pci_id,
            name: known.map(|g| g.name.clone()),
            compute_capability: known.and_then(|g| g.compute_capability),
            subsystem: f.subsystem,
            class: format!("{:04x}", f.class),
            bound_to: f.bound_to,
            assumed: false,
        });
    } else if f.class == BRIDGE_OTHER
        && let Some(known) = database.nvswitch(f.device)
    {
        switches.push(NvSwitch { address: f.address, pci_id, name: Some(known.name.clone()) });
    }
}

/// Why a `--gpu SPEC` means no GPU.
#[derive(Debug, thiserror::Error)]
pub enum SpecError {
    /// It is none of the forms.
    #[error("{problem}")]
    Malformed {
        /// What is wrong.
        problem: String,
    },
    /// The database does not know it.
    #[error("{problem}")]
    Unknown {
        /// What is not known, and what is near.
        problem: String,
    },
    /// It could be several that differ.
    #[error("{problem}")]
    Ambiguous {
        /// The candidates.
        problem: String,
    },
}

/// The GPUs that a `--gpu SPEC` means: `10de:20b2`, a marketing name, `sm_80` or `8.0`, each with `xN` behind it.
pub fn assumed_gpus(database: &Database, spec: &str) -> Result<Vec<Gpu>, SpecError> {
    let (what, count) = repeated(spec)?;
    let (pci_id, name, compute_capability) = if let Some(id) = pci_id(what) {
        match id {
            Some(device) if database.gpu(device, None).is_some() => {
                let known = database.gpu(device, None);
                (format!("10de:{device}"), known.map(|g| g.name.clone()), known.and_then(|g| g.compute_capability))
            }
            // An unknown card can still be planned for when driver and flavour are named: the resolver says so.
            Some(device) => (format!("10de:{device}"), None, None),
            None => {
                return Err(SpecError::Malformed { problem: format!("`{what}` is no PCI id of NVIDIA's (10de:20b2)") });
            }
        }
    } else if let Some(capability) = capability(what) {
        let capability = capability.map_err(|problem| SpecError::Malformed { problem })?;
        let Some(known) = database.architecture(capability) else {
            return Err(SpecError::Unknown { problem: format!("no GPU has compute capability {capability}") });
        };
        (String::new(), Some(format!("any {} GPU", known.name)), Some(capability))
    } else {
        let found = database.gpu_named(what).map_err(|e| match e {
            Ambiguous::Unknown { .. } => SpecError::Unknown { problem: e.to_string() },
            Ambiguous::Several { .. } => SpecError::Ambiguous { problem: e.to_string() },
        })?;
        (format!("10de:{}", found.device), Some(found.name.clone()), found.compute_capability)
    };
    let gpu = |n: usize| Gpu {
        address: format!("assumed:{n}"),
        pci_id: pci_id.clone(),
        subsystem: None,
        class: "0300".to_owned(),
        bound_to: None,
        name: name.clone(),
        compute_capability,
        assumed: true,
    };
    Ok((0..count).map(gpu).collect())
}

/// `h100x8` and `h100 x8` are eight; `rtx 3090` is one.
fn repeated(spec: &str) -> Result<(&str, usize), SpecError> {
    const MOST: usize = 64;
    let spec = spec.trim();
    let (what, digits) = match spec.rsplit_once('x') {
        Some((what, digits))
            if !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()) && !what.trim().is_empty() =>
        {
            (what.trim_end(), digits)
        }
        _ => return Ok((spec, 1)),
    };
    match digits.parse() {
        Ok(count @ 1..=MOST) => Ok((what, count)),
        _ => Err(SpecError::Malformed { problem: format!("x{digits}: a host has 1 to {MOST} GPUs") }),
    }
}

/// The device of `10de:20b2`; the inner none is for something else with a colon in it.
fn pci_id(text: &str) -> Option<Option<PciDevice>> {
    let (vendor, device) = text.split_once(':')?;
    let device =
        u16::from_str_radix(device, 16).ok().filter(|_| device.len() == 4 && vendor.eq_ignore_ascii_case("10de"));
    Some(device.map(PciDevice))
}

/// `sm_80` and `8.0`; anything else that is digits and dots only is a mistake in one.
fn capability(text: &str) -> Option<Result<ComputeCapability, String>> {
    let meant =
        text.starts_with("sm_") || (text.contains('.') && text.bytes().all(|b| b.is_ascii_digit() || b == b'.'));
    meant.then(|| text.parse::<ComputeCapability>().map_err(|e| e.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::embedded::database;

    fn spec(text: &str) -> Result<Vec<String>, SpecError> {
        let shown =
            |g: &Gpu| format!("{} {}", g.pci_id, g.compute_capability.map(|c| c.to_string()).unwrap_or_default());
        assumed_gpus(&database(), text).map(|gpus| gpus.iter().map(shown).collect())
    }

    #[test]
    fn a_gpu_can_be_said_in_four_ways() {
        assert_eq!(spec("10de:20b2").expect("known"), ["10de:20b2 8.0"]);
        assert_eq!(spec("10DE:2330x8").expect("known").len(), 8);
        assert_eq!(spec("rtx 3090 ti").expect("known"), ["10de:2203 8.6"]);
        assert_eq!(spec("h100 x4").expect("known").len(), 4);
        assert_eq!(spec("sm_120").expect("known"), [" 12.0"]);
        assert_eq!(spec("8.0x2").expect("known").len(), 2);
    }

    #[test]
    fn what_is_no_gpu_is_said() {
        for text in ["1002:744c", "10de:xyz1", "h100x0", "h100x65", "9.0.1", "sm_9"] {
            assert!(matches!(spec(text), Err(SpecError::Malformed { .. })), "{text}: {:?}", spec(text));
        }
        assert!(matches!(spec("titan"), Err(SpecError::Ambiguous { .. })));
        for text in ["voodoo 2", "6.9", ""] {
            assert!(matches!(spec(text), Err(SpecError::Unknown { .. })), "{text}");
        }
    }
}
