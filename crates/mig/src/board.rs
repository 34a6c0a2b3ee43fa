//! A GPU: what it can be partitioned into and how it is. A driver's answer comes before the
//! database.

use super::geometry::{Geometry, Origin, Profile};
use super::layout::Layout;
use super::place::Instance;
use gpusetup_database::compat::{Database, MediaEngines, MigPlacement, PciDevice};
use gpusetup_database::version::ComputeCapability;
use gpusetup_nvidia::{MigGpu, MigInstance, MigMode, MigProfileInfo};
use std::collections::BTreeSet;

/// Hopper's compute capability: from then on, the mode changes without a reset.
const FIRST_WITHOUT_RESET: ComputeCapability = ComputeCapability { major: 9, minor: 0 };

/// A GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Board {
    /// Its index, as nvidia-smi counts.
    pub index: usize,
    /// Bus address, `0000:17:00.0`. None if it is assumed.
    pub address: Option<String>,
    /// `GPU-` and a UUID, if its driver reports it.
    pub uuid: Option<String>,
    /// The product name.
    pub name: String,
    /// PCI device id, if known.
    pub device: Option<PciDevice>,
    /// Subsystem, `10de:1450`.
    pub subsystem: Option<String>,
    /// What it can be partitioned into. None if it cannot be, or if nothing is known of it.
    pub geometry: Option<Geometry>,
    /// Whether it can be partitioned.
    pub is_capable: bool,
    /// The boards that it may be, each with PCI id and subsystem and its name, if what it can be
    /// partitioned into depends on that.
    pub variants: Vec<String>,
    /// How it is, if its driver was asked and answered.
    pub state: Option<State>,
    /// Why its driver does not report how it is.
    pub unread: Option<String>,
}

/// How a GPU is partitioned now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct State {
    /// Its mode.
    pub mode: MigMode,
    /// Its instances.
    pub instances: Vec<Existing>,
    /// The processes that use it.
    pub processes: Vec<u32>,
}

/// A GPU instance that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Existing {
    /// The driver's number for it.
    pub(crate) id: u32,
    /// Its place. None if its profile is unknown.
    pub(crate) instance: Option<Instance>,
    /// Whether it has one compute instance of its size.
    pub(crate) is_whole: bool,
}

impl Board {
    /// A GPU that the database describes, with a name for one that it does not know.
    pub fn known(
        database: &Database,
        index: usize,
        device: Option<PciDevice>,
        subsystem: Option<&str>,
        name: &str,
    ) -> Self {
        let known = device.and_then(|device| database.gpu(device, subsystem));
        let geometry = device.and_then(|device| Geometry::known(database, device, subsystem));
        Self {
            index,
            address: None,
            uuid: None,
            name: known.map_or(name, |gpu| gpu.name.as_str()).to_owned(),
            device,
            subsystem: subsystem.map(str::to_owned),
            is_capable: geometry.is_some() || known.is_some_and(|gpu| gpu.mig),
            variants: device
                .filter(|_| subsystem.is_none())
                .map(|id| variants(database, id))
                .unwrap_or_default(),
            geometry,
            state: None,
            unread: None,
        }
    }

    /// A GPU as its driver reports it.
    pub fn reported(database: &Database, index: usize, gpu: &MigGpu) -> Self {
        let device = gpu.device.map(PciDevice);
        let mut board = Self::known(database, index, device, gpu.subsystem.as_deref(), "a GPU");
        board.address.clone_from(&gpu.address);
        board.uuid.clone_from(&gpu.uuid);
        if let Some(name) = &gpu.name {
            board.name.clone_from(name);
        }
        board.unread = gpu.refused.as_ref().map(ToString::to_string);
        board.is_capable = gpu.mode.is_some();
        let Some(mode) = gpu.mode else {
            board.geometry = None;
            return board;
        };
        if let Some(geometry) = of_driver(&gpu.profiles, board.geometry.as_ref()) {
            board.geometry = Some(geometry);
        }
        // Without its instances, a GPU would seem to have none.
        if board.unread.is_some() {
            return board;
        }
        let geometry = board.geometry.as_ref();
        let instances = gpu.instances.iter().map(|i| existing(geometry, i));
        board.state = Some(State {
            mode,
            instances: instances.collect(),
            processes: gpu.processes.clone(),
        });
        board
    }

    /// The layout of its instances. None if MIG is off or the state or the profile of an instance
    /// is unknown.
    pub(crate) fn layout(&self) -> Option<Layout> {
        let (geometry, state) = (
            self.geometry.as_ref()?,
            self.state.as_ref().filter(|state| state.mode.enabled)?,
        );
        let mut layout = Layout::empty(geometry);
        for existing in &state.instances {
            layout.0[existing.instance?.profile] += 1;
        }
        Some(layout)
    }

    /// Whether MIG is on, or off, and stays so after the next reset.
    pub fn has_mode(&self, on: bool) -> bool {
        self.state.as_ref().is_some_and(|state| {
            state.mode
                == MigMode {
                    enabled: on,
                    pending: on,
                }
        })
    }

    /// Whether a GPU that is in use cannot change its mode: before Hopper the change needs a reset.
    pub fn must_be_idle(&self, database: &Database) -> bool {
        let known = self
            .device
            .and_then(|device| database.gpu(device, self.subsystem.as_deref()));
        known
            .and_then(|gpu| gpu.compute_capability)
            .is_none_or(|capability| capability < FIRST_WITHOUT_RESET)
    }

    /// Its name in a sentence: `GPU 0 (NVIDIA A100-SXM4-40GB)`.
    pub fn shown(&self) -> String {
        format!("GPU {} ({})", self.index, self.name)
    }
}

/// NVIDIA's boards with this device id whose profiles depend on the subsystem.
fn variants(database: &Database, device: PciDevice) -> Vec<String> {
    let boards: BTreeSet<_> = database
        .mig_profiles
        .iter()
        .filter(|p| p.gpus.contains(&device))
        .flat_map(|p| &p.subsystems)
        .map(|board| board.0)
        .collect();
    let each = boards.into_iter().map(|board| {
        let subsystem = format!("10de:{board:04x}");
        let name = database
            .gpu(device, Some(&subsystem))
            .map_or("", |gpu| gpu.name.as_str());
        format!("10de:{:04x}:{subsystem} ({name})", device.0)
    });
    each.collect()
}

fn existing(geometry: Option<&Geometry>, found: &MigInstance) -> Existing {
    let profile =
        geometry.and_then(|g| g.profiles.iter().position(|p| p.id == Some(found.profile)));
    Existing {
        id: found.id,
        instance: profile.and_then(|profile| {
            let placement = &geometry?.profiles[profile].placement;
            let start = u8::try_from(found.start).ok()?;
            let fits = placement.starts.contains(&start) && u32::from(placement.size) == found.size;
            fits.then_some(Instance { start, profile })
        }),
        is_whole: profile.is_some_and(|at| {
            let slices = geometry.map(|g| u32::from(g.profiles[at].compute_slices));
            matches!(found.compute.as_slice(), [one] if Some(*one) == slices)
        }),
    }
}

/// The geometry that a driver reports. What it does not say (names before R530, placements to
/// users) is the database's.
fn of_driver(reported: &[MigProfileInfo], known: Option<&Geometry>) -> Option<Geometry> {
    let mut from_database = false;
    let mut profiles: Vec<Profile> = Vec::new();
    for info in reported {
        let same = known.and_then(|g| g.profiles.iter().find(|p| p.id == Some(info.id)));
        let placement = placement(&info.placements).or_else(|| {
            from_database = true;
            same.map(|p| p.placement.clone())
        });
        let Some(placement) = placement else { continue };
        let small = |number: u32| u8::try_from(number).ok();
        let engines = info.engines.map(small);
        profiles.push(Profile {
            name: info
                .name
                .clone()
                .or(same.map(|p| p.name.clone()))
                .unwrap_or_else(|| format!("profile-{}", info.id)),
            id: Some(info.id),
            compute_slices: small(info.slices)?,
            placement,
            instances: small(info.instances)?,
            engines: match engines {
                [Some(decoders), Some(encoders), Some(jpeg), Some(ofa)] => Some(MediaEngines {
                    decoders,
                    encoders,
                    jpeg,
                    ofa,
                }),
                _ => None,
            },
            first_driver_branch: None,
        });
    }
    profiles.sort_by_key(|p| (p.compute_slices, p.placement.size));
    let assumed = known
        .filter(|_| from_database)
        .map(|g| g.assumed.clone())
        .unwrap_or_default();
    Geometry::of(profiles, assumed, Origin::Driver)
}

/// Placements that all have the same size.
fn placement(places: &[(u32, u32)]) -> Option<MigPlacement> {
    let size = places.first()?.1;
    let starts: BTreeSet<u8> = places
        .iter()
        .map(|(start, _)| u8::try_from(*start).ok())
        .collect::<Option<_>>()?;
    let alike = places.iter().all(|(_, other)| *other == size);
    alike.then_some(MigPlacement {
        starts: starts.into_iter().collect(),
        size: u8::try_from(size).ok()?,
    })
}
