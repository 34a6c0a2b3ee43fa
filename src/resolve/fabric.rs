//! NVSwitches, which connect the GPUs of a host beyond the PCI bus, and the companions that they need.

use crate::compat::{Companion, Database, Fabric, PciDevice};
use crate::host::Facts;

/// The NVSwitches of a host, as seen on the bus or inferred from its GPUs.
#[derive(Debug, Clone, Copy)]
pub struct Joined<'a> {
    /// The database's facts about them.
    pub fabric: &'a Fabric,
    /// How many NVSwitches were seen; 0 if they are inferred from the GPUs.
    pub seen: usize,
}

impl<'a> Joined<'a> {
    /// None for a host without NVSwitches, as far as known.
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

    /// The companions that this host needs in addition to the driver.
    pub fn needs(self, database: &'a Database) -> impl Iterator<Item = &'a Companion> {
        self.fabric.needs.iter().filter_map(|id| database.companion(*id))
    }
}

/// Whether the GPUs imply switches although none was seen. On a real host, switches on the PCI bus would have been seen.
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
