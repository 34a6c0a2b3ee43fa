//! How GPUs are partitioned, for `mig list`, `mig assert` and `mig export`.

use super::board::{Board, State};
use super::file::{self, GpuLayout, export};
use super::geometry::{ENGINES, Geometry, engines_of};
use super::layout::Layout;
use super::plan::{ProfilesFrom, Wanted, needed, removed};
use serde::Serialize;
use std::collections::BTreeMap;

/// What `mig list --json` prints.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct ListedHost {
    /// `gpusetup.mig-list/1`.
    #[cfg_attr(feature = "schemas", schemars(extend("const" = "gpusetup.mig-list/1")))]
    pub(crate) schema: &'static str,
    /// The GPUs, in nvidia-smi's order.
    pub gpus: Vec<ListedGpu>,
}

/// A GPU with its profiles and instances.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct ListedGpu {
    /// Its index, as nvidia-smi counts.
    pub index: usize,
    /// Bus address. None if the GPU is assumed.
    pub address: Option<String>,
    /// The product name.
    pub name: String,
    /// Whether it can be partitioned.
    pub capable: bool,
    /// The boards that it may be, each with PCI id and subsystem and its name, if its profiles
    /// depend on that.
    pub variants: Vec<String>,
    /// Whether MIG is on. None if the driver was not asked.
    pub enabled: Option<bool>,
    /// Whether MIG will be on after the next reset. None if the driver was not asked.
    pub pending: Option<bool>,
    /// Its layout, as `mig plan` reads it. None if MIG is off or unknown, or if an instance has an
    /// unknown profile.
    pub layout: Option<String>,
    /// The processes that use it.
    pub(crate) processes: Vec<u32>,
    /// Where the profiles come from. None without profiles.
    pub profiles_from: Option<ProfilesFrom>,
    /// What was concluded instead of read.
    pub assumed: Vec<String>,
    /// The number of compute slices.
    pub compute_slices: Option<u8>,
    /// The number of placement slots of memory.
    pub slots: Option<u8>,
    /// Its profiles.
    pub profiles: Vec<ListedProfile>,
    /// Its instances, by id.
    pub instances: Vec<ListedInstance>,
}

/// A profile.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct ListedProfile {
    /// Its name: `1g.10gb+me`.
    pub name: String,
    /// The id that nvidia-smi takes, if known.
    pub id: Option<u32>,
    /// The most instances of it on one GPU.
    pub instances: u8,
    /// The number of compute slices.
    pub compute_slices: u8,
    /// The number of placement slots.
    pub size: u8,
    /// The slots that an instance can start at.
    pub starts: Vec<u8>,
    /// The number of media engines by name. None if unknown.
    pub(crate) engines: Option<BTreeMap<&'static str, u8>>,
    /// The first driver branch that offers it, if that is not the board's first.
    pub(crate) first_driver_branch: Option<u16>,
}

/// An instance that is there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct ListedInstance {
    /// The driver's number for it.
    pub id: u32,
    /// Its profile. None if that is unknown.
    pub profile: Option<String>,
    /// Its first slot. None if its profile is unknown.
    pub start: Option<u8>,
    /// Whether it has one compute instance of its size.
    pub whole: bool,
}

/// What `mig assert --json` prints.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct AssertedHost {
    /// `gpusetup.mig-assert/1`.
    #[cfg_attr(feature = "schemas", schemars(extend("const" = "gpusetup.mig-assert/1")))]
    pub(crate) schema: &'static str,
    /// Whether every GPU has its layout.
    pub holds: bool,
    /// The GPUs that a layout is for.
    pub gpus: Vec<AssertedGpu>,
}

/// Whether a GPU has a layout.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct AssertedGpu {
    /// Its index, as nvidia-smi counts.
    pub index: usize,
    /// The product name.
    pub name: String,
    /// Whether it has the layout.
    pub holds: bool,
    /// The layout that it is to have.
    pub wanted: String,
    /// The layout that it has.
    pub found: String,
}

/// What `mig export --json` prints.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct ExportedHost {
    /// `gpusetup.mig-export/1`.
    #[cfg_attr(feature = "schemas", schemars(extend("const" = "gpusetup.mig-export/1")))]
    pub(crate) schema: &'static str,
    /// The name of the configuration.
    pub(crate) name: String,
    /// The file, in the format of nvidia-mig-parted.
    pub file: String,
}

/// What `mig restore --json` prints.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct RestoredHost {
    /// `gpusetup.mig-restore/1`.
    #[cfg_attr(feature = "schemas", schemars(extend("const" = "gpusetup.mig-restore/1")))]
    pub schema: &'static str,
    /// The GPUs that boots restore a layout of.
    pub gpus: Vec<RestoredGpu>,
}

/// A GPU that has the layout that boots restore.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct RestoredGpu {
    /// Its index, as nvidia-smi counts.
    pub index: usize,
    /// The product name.
    pub name: String,
    /// Whether it got the layout now. It had it already if not.
    pub changed: bool,
}

/// The profiles and instances of GPUs.
pub fn listed(boards: &[Board]) -> ListedHost {
    ListedHost {
        schema: "gpusetup.mig-list/1",
        gpus: boards.iter().map(listed_gpu).collect(),
    }
}

fn listed_gpu(board: &Board) -> ListedGpu {
    let geometry = board.geometry.as_ref();
    let state = board.state.as_ref();
    let instances = state
        .iter()
        .flat_map(|state| &state.instances)
        .map(|i| ListedInstance {
            id: i.id,
            profile: i
                .instance
                .and_then(|at| Some(geometry?.profiles[at.profile].name.clone())),
            start: i.instance.map(|at| at.start),
            whole: i.is_whole,
        });
    let mut instances: Vec<_> = instances.collect();
    instances.sort_by_key(|i| i.id);
    ListedGpu {
        index: board.index,
        address: board.address.clone(),
        name: board.name.clone(),
        capable: board.is_capable,
        variants: if geometry.is_none() {
            board.variants.clone()
        } else {
            Vec::new()
        },
        enabled: state.map(|state| state.mode.enabled),
        pending: state.map(|state| state.mode.pending),
        layout: board
            .layout()
            .and_then(|layout| Some(layout.text(geometry?))),
        processes: state
            .map(|state| state.processes.clone())
            .unwrap_or_default(),
        profiles_from: geometry.map(|g| g.origin.into()),
        assumed: geometry
            .iter()
            .flat_map(|g| g.assumed.iter().cloned())
            .collect(),
        compute_slices: geometry.map(|g| g.compute_slices),
        slots: geometry.map(|g| g.slots),
        profiles: geometry.map(listed_profiles).unwrap_or_default(),
        instances,
    }
}

fn listed_profiles(geometry: &Geometry) -> Vec<ListedProfile> {
    let each = geometry.profiles.iter().map(|p| ListedProfile {
        name: p.name.clone(),
        id: p.id,
        instances: p.instances,
        compute_slices: p.compute_slices,
        size: p.placement.size,
        starts: p.placement.starts.clone(),
        engines: p
            .engines
            .map(|engines| ENGINES.into_iter().zip(engines_of(engines)).collect()),
        first_driver_branch: p.first_driver_branch,
    });
    each.collect()
}

/// Whether GPUs have these layouts.
pub fn asserted<'a>(
    tasks: impl Iterator<Item = (&'a Board, &'a Geometry, &'a Wanted)>,
) -> AssertedHost {
    let gpus: Vec<_> = tasks
        .map(|(board, geometry, wanted)| asserted_gpu(board, geometry, wanted))
        .collect();
    AssertedHost {
        schema: "gpusetup.mig-assert/1",
        holds: gpus.iter().all(|gpu| gpu.holds),
        gpus,
    }
}

fn asserted_gpu(board: &Board, geometry: &Geometry, wanted: &Wanted) -> AssertedGpu {
    let (text, holds) = match wanted {
        Wanted::Off => ("off".to_owned(), board.has_mode(false)),
        Wanted::Layout(layout) => (layout.text(geometry), has(board, geometry, layout)),
    };
    let found = match (&board.state, board.layout()) {
        (_, Some(layout)) => layout.text(geometry),
        (Some(State { mode, .. }), None) if !mode.enabled => "off".to_owned(),
        _ => "unknown".to_owned(),
    };
    AssertedGpu {
        index: board.index,
        name: board.name.clone(),
        holds,
        wanted: text,
        found,
    }
}

/// Whether a GPU has a layout, with MIG on and a compute instance in each instance.
fn has(board: &Board, geometry: &Geometry, layout: &Layout) -> bool {
    board.has_mode(true)
        && needed(board, geometry, layout)
            .is_ok_and(|change| change.is_empty() && removed(board, &change).is_empty())
}

/// Why layouts cannot be written to a file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExportError {
    /// An instance has an unknown profile.
    #[error("{0} has an instance of an unknown profile")]
    Profile(String),
    /// The driver does not report a UUID.
    #[error("the driver reports no UUID of {0}")]
    NoUuid(String),
}

/// The layouts of GPUs as a file that mig-parted reads, too.
///
/// # Errors
///
/// If a GPU has an instance of an unknown profile.
pub fn exported(name: &str, boards: &[Board]) -> Result<ExportedHost, ExportError> {
    let file = layouts(name, boards, &BTreeMap::new(), &|board| {
        Ok(file::NamedGpu::Index(board.index as u64))
    })?;
    Ok(ExportedHost {
        schema: "gpusetup.mig-export/1",
        name: name.to_owned(),
        file,
    })
}

/// The layouts that every boot restores: by index those that GPUs are to have, and of the others
/// those that they have. GPUs are named by UUID: indexes change.
///
/// # Errors
///
/// If a GPU has an instance of an unknown profile, or if the driver does not report its UUID.
pub fn at_boot(boards: &[Board], wanted: &BTreeMap<usize, &Wanted>) -> Result<String, ExportError> {
    layouts("boot", boards, wanted, &|board| match &board.uuid {
        Some(uuid) => Ok(file::NamedGpu::Uuid(uuid.clone())),
        None => Err(ExportError::NoUuid(board.shown())),
    })
}

/// The same for layouts that are for all GPUs of their kind, whatever their number.
pub fn at_boot_for_all<'a>(
    wanted: impl Iterator<Item = (&'a Board, &'a Geometry, &'a Wanted)>,
) -> String {
    let mut gpus: Vec<GpuLayout> = Vec::new();
    for (board, geometry, wanted) in wanted {
        if gpus.iter().any(|gpu| gpu.device == board.device) {
            continue;
        }
        let mut instances = BTreeMap::new();
        if let Wanted::Layout(layout) = wanted {
            let each = layout.profiles(geometry).into_iter();
            instances
                .extend(each.map(|(_, profile, count)| (profile.name.clone(), u32::from(count))));
        }
        gpus.push(GpuLayout {
            gpu: None,
            device: board.device,
            enabled: *wanted != Wanted::Off,
            instances,
        });
    }
    export("boot", &gpus)
}

fn layouts(
    name: &str,
    boards: &[Board],
    wanted: &BTreeMap<usize, &Wanted>,
    listed: &dyn Fn(&Board) -> Result<file::NamedGpu, ExportError>,
) -> Result<String, ExportError> {
    let mut gpus = Vec::new();
    for board in boards.iter().filter(|board| board.is_capable) {
        let wanted = wanted.get(&board.index);
        let enabled = match wanted {
            Some(wanted) => **wanted != Wanted::Off,
            None => board.state.as_ref().is_some_and(|state| state.mode.enabled),
        };
        let mut instances = BTreeMap::new();
        if enabled {
            let layout = match wanted {
                Some(Wanted::Layout(layout)) => Some(layout.clone()),
                _ => board.layout(),
            };
            let (layout, geometry) = layout
                .zip(board.geometry.as_ref())
                .ok_or_else(|| ExportError::Profile(board.shown()))?;
            for (_, profile, count) in layout.profiles(geometry) {
                instances.insert(profile.name.clone(), u32::from(count));
            }
        }
        gpus.push(GpuLayout {
            gpu: Some(listed(board)?),
            device: board.device,
            enabled,
            instances,
        });
    }
    Ok(export(name, &gpus))
}
