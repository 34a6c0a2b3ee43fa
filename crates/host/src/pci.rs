//! PCI functions, from whichever source they were read, and which of them are GPUs and NVSwitch
//! bridges. Their names and capabilities come from the database alone.

use super::{Gpu, NvSwitch};
use gpusetup_database::compat::{Database, PciDevice};

/// NVIDIA's vendor id.
pub(crate) const NVIDIA: u16 = 0x10de;

/// One function of a PCI device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Function {
    /// Bus address with its domain, `0000:17:00.0`.
    pub(crate) address: String,
    /// Vendor id.
    pub(crate) vendor: u16,
    /// Device id.
    pub(crate) device: u16,
    /// Class and subclass, `0x0302`.
    pub(crate) class: u16,
    /// `10de:1463`.
    pub(crate) subsystem: Option<String>,
    /// The kernel driver bound to it.
    pub(crate) driver: Option<String>,
}

/// Selects the GPUs and the NVSwitch bridges among `functions`, each by bus address.
pub(crate) fn identify(
    mut functions: Vec<Function>,
    database: &Database,
) -> (Vec<Gpu>, Vec<NvSwitch>) {
    functions.sort_by(|a, b| a.address.cmp(&b.address));
    let (mut gpus, mut nvswitches) = (Vec::new(), Vec::new());
    for function in functions.into_iter().filter(|f| f.vendor == NVIDIA) {
        match function.class {
            // Display controllers: VGA, 3D, other.
            class if class >> 8 == 0x03 => gpus.push(gpu(function, database)),
            // Other bridges. NVIDIA's old chipsets have such bridges too, so only known ids count.
            0x0680 => {
                if let Some(known) = database.nvswitch(PciDevice(function.device)) {
                    let pci_id = pci_id(function.device);
                    nvswitches.push(NvSwitch {
                        address: function.address,
                        pci_id,
                        name: Some(known.name.clone()),
                    });
                }
            }
            _ => {}
        }
    }
    (gpus, nvswitches)
}

/// The usual form of an NVIDIA device id, `10de:20b2`.
pub(crate) fn pci_id(device: u16) -> String {
    format!("{NVIDIA:04x}:{device:04x}")
}

fn gpu(function: Function, database: &Database) -> Gpu {
    let known = database.gpu(PciDevice(function.device), function.subsystem.as_deref());
    Gpu {
        address: function.address,
        pci_id: pci_id(function.device),
        subsystem: function.subsystem,
        class: format!("{:04x}", function.class),
        bound_to: function.driver,
        driver_unseen: false,
        name: known.map(|g| g.name).map(String::from),
        compute_capability: known.and_then(|g| g.compute_capability),
        assumed: false,
    }
}
