//! What joins the GPUs of a host to each other beyond the PCI bus, and what of it only a matching manager starts.

use crate::compat::{Companion, Database, Fabric, PciDevice};
use crate::host::Facts;

/// The NVSwitches of a host: those seen, or what its GPUs tell of them.
#[derive(Debug, Clone, Copy)]
pub struct Joined<'a> {
    /// What the database says of them.
    pub fabric: &'a Fabric,
    /// How many NVSwitches were seen; none where only the GPUs tell.
    pub seen: usize,
}

impl<'a> Joined<'a> {
    /// None for a host whose GPUs are not joined, as far as that can be told.
    pub fn of(database: &'a Database, facts: &Facts) -> Option<Self> {
        let fabrics = || database.fabrics.iter();
        if let Some(first) = facts.nvswitches.first() {
            let bridge = device(&first.pci_id).and_then(|id| database.nvswitch(id));
            let fabric = match bridge {
                Some(bridge) => fabrics().find(|f| f.generation == bridge.generation),
                None => fabrics().find(|f| f.vital_product_data.is_some()),
            };
            return fabric.map(|fabric| Self { fabric, seen: facts.nvswitches.len() });
        }
        fabrics().find(|f| shows(database, f, facts)).map(|fabric| Self { fabric, seen: 0 })
    }

    /// What this host itself needs beside the driver.
    pub fn needs(self, database: &'a Database) -> impl Iterator<Item = &'a Companion> {
        self.fabric.needs.iter().filter_map(|id| database.companion(*id))
    }
}

/// Whether the GPUs tell that there are switches, though none was seen. On the PCI bus of a real host they would have been.
fn shows(database: &Database, fabric: &Fabric, facts: &Facts) -> bool {
    let is_joined = |id: &str| device(id).is_some_and(|id| fabric.gpus.contains(&id));
    let of_boards = || facts.gpus.iter().filter(|g| is_joined(&g.pci_id));
    let on_bus = database.nvswitches.iter().any(|bridge| bridge.generation == fabric.generation);
    let assumed = of_boards().filter(|g| g.assumed).count();
    if on_bus { assumed >= fabric.gpus_per_board } else { of_boards().next().is_some() }
}

fn device(pci_id: &str) -> Option<PciDevice> {
    u16::from_str_radix(pci_id.strip_prefix("10de:")?, 16).ok().map(PciDevice)
}
