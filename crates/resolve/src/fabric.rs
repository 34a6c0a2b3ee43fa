//! NVSwitches, which connect the GPUs of a host beyond the PCI bus, and the companions that they
//! need.

use gpusetup_database::compat::{
    Companion, Database, Distribution, DriverOffer, Fabric, PciDevice, VersionRule,
};
use gpusetup_database::version::DriverVersion;
use gpusetup_host::{Facts, Gpu, InstalledCompanion, MachineKind};
use gpusetup_packages::upstream;

/// The NVSwitches of a host, as seen on the bus or inferred from its GPUs.
#[derive(Debug, Clone, Copy)]
pub struct NvSwitchHost<'a> {
    /// The database's facts about them.
    pub fabric: &'a Fabric,
    /// How many NVSwitches were seen; 0 if they are inferred from the GPUs.
    pub(crate) seen: usize,
}

impl<'a> NvSwitchHost<'a> {
    /// None for a host without NVSwitches, as far as known.
    pub fn of(database: &'a Database, facts: &Facts) -> Option<Self> {
        let mut fabrics = database.fabrics.iter();
        if let Some(first) = facts.nvswitches.first() {
            let bridge = device(&first.pci_id).and_then(|id| database.nvswitch(id));
            let fabric = match bridge {
                Some(bridge) => fabrics.find(|f| f.generation == bridge.generation),
                None => fabrics.find(|f| f.vital_product_data.is_some()),
            };
            return fabric.map(|fabric| Self {
                fabric,
                seen: facts.nvswitches.len(),
            });
        }
        fabrics
            .find(|f| shows(database, f, facts))
            .map(|fabric| Self { fabric, seen: 0 })
    }

    /// How the host shows them, for a sentence: `this host has 6 NVSwitches`.
    pub fn sentence(self) -> String {
        match self.seen {
            0 => format!(
                "GPUs like these are connected by NVSwitches ({})",
                self.fabric.name
            ),
            1 => "this host has an NVSwitch".to_owned(),
            count => format!("this host has {count} NVSwitches"),
        }
    }

    /// The companions that this host needs in addition to the driver.
    pub fn needs(self, database: &'a Database) -> impl Iterator<Item = &'a Companion> {
        self.fabric
            .needs
            .iter()
            .filter_map(|id| database.companion(*id))
    }
}

/// Whether the GPUs imply switches although none was seen. On a real host, switches on the PCI bus
/// would have been seen.
fn shows(database: &Database, fabric: &Fabric, facts: &Facts) -> bool {
    let of_boards: Vec<_> = facts
        .gpus
        .iter()
        .filter(|gpu| is_one_of(&fabric.gpus, gpu))
        .collect();
    if matches!(of_boards[..], [only] if is_one_of(&fabric.unjoined_if_single, only)) {
        return false;
    }
    let on_bus = database
        .nvswitches
        .iter()
        .any(|bridge| bridge.generation == fabric.generation);
    let assumed = of_boards.iter().filter(|gpu| gpu.assumed).count();
    // A virtual machine with a part of a board has its NVLinks set up by its host.
    let least = if facts.machine.kind == MachineKind::Virtual {
        fabric.gpus_per_board
    } else {
        1
    };
    if on_bus {
        assumed >= fabric.gpus_per_board
    } else {
        of_boards.len() >= least
    }
}

fn device(pci_id: &str) -> Option<PciDevice> {
    u16::from_str_radix(pci_id.strip_prefix("10de:")?, 16)
        .ok()
        .map(PciDevice)
}

/// Whether an installed companion fits a driver. One whose version only the package manager knows
/// is taken to fit; doctor compares it.
pub fn fits(installed: &InstalledCompanion, companion: &Companion, driver: DriverVersion) -> bool {
    companion.version == VersionRule::Own
        || installed.version.as_ref().is_none_or(|version| {
            version
                .parse()
                .is_ok_and(|version| companion.version.accepts(version, driver))
        })
}

/// The package of a companion that a repository of the host has for an installed driver; none if no
/// repository is known to have it, or only in a version for another driver.
pub fn package_beside<'a>(
    distribution: Option<&'a Distribution>,
    facts: &Facts,
    companion: &Companion,
    driver: DriverVersion,
) -> Option<&'a str> {
    let mut offers = companion_offers(distribution, facts, companion, driver);
    offers
        .find(|(offer, name)| is_offered(facts, offer, name, companion.version, driver))
        .map(|(_, name)| name)
}

/// Whether the host's repositories have a companion of an installed driver only in versions for
/// other drivers.
pub(crate) fn has_only_others(
    distribution: Option<&Distribution>,
    facts: &Facts,
    companion: &Companion,
    driver: DriverVersion,
) -> bool {
    let mut offers = companion_offers(distribution, facts, companion, driver).peekable();
    offers.peek().is_some()
        && offers.all(|(offer, name)| !is_offered(facts, offer, name, companion.version, driver))
}

/// The offers of a driver's branch that have a companion, and its package in each.
fn companion_offers<'a>(
    distribution: Option<&'a Distribution>,
    facts: &Facts,
    companion: &Companion,
    driver: DriverVersion,
) -> impl Iterator<Item = (&'a DriverOffer, &'a str)> {
    let offers = distribution
        .into_iter()
        .flat_map(|of| &of.drivers)
        .filter(move |offer| {
            let marks = &offer.repository.seen_as;
            offer.branch == driver.branch
                && offer.archs.contains(&facts.machine.arch)
                && (marks.is_empty() || facts.has_enabled(marks))
        });
    offers.filter_map(|offer| Some((offer, offer.companions.get(&companion.id)?.as_str())))
}

/// Whether a package of a companion fits a driver, as far as the host's package lists tell.
pub(crate) fn is_offered(
    facts: &Facts,
    offer: &DriverOffer,
    name: &str,
    rule: VersionRule,
    driver: DriverVersion,
) -> bool {
    match &facts.offered {
        Some(all) if offer.module_stream.is_none() => all
            .get(name)
            .and_then(|v| upstream(v).parse().ok())
            .is_some_and(|has| rule.accepts(has, driver)),
        _ => true,
    }
}

fn is_one_of(ids: &[PciDevice], gpu: &Gpu) -> bool {
    device(&gpu.pci_id).is_some_and(|id| ids.contains(&id))
}
