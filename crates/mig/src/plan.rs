//! What would become of a GPU: the instances of a layout in their places, and the commands that
//! make them.

use super::board::Board;
use super::change::{Change, change};
use super::commands::{enable, from_scratch, of_change};
use super::geometry::{Geometry, Origin};
use super::layout::Layout;
use super::place::Instance;
use super::refusal::{Shortage, fit};
use serde::Serialize;

/// What a GPU is to become.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wanted {
    /// MIG off.
    Off,
    /// MIG on, with these instances.
    Layout(Layout),
}

/// What `mig plan --json` prints.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct PlannedHost {
    /// `gpusetup.mig-plan/1`.
    #[cfg_attr(feature = "schemas", schemars(extend("const" = "gpusetup.mig-plan/1")))]
    pub schema: &'static str,
    /// The GPUs that a layout is for.
    pub gpus: Vec<PlannedGpu>,
}

/// What would become of a GPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct PlannedGpu {
    /// Its index, as nvidia-smi counts.
    pub index: usize,
    /// Bus address. None if the GPU is assumed.
    pub(crate) address: Option<String>,
    /// The product name.
    pub name: String,
    /// Where its profiles come from.
    pub profiles_from: ProfilesFrom,
    /// What was concluded instead of read, if profiles come from the database.
    pub assumed: Vec<String>,
    /// Whether MIG is on.
    pub mig: bool,
    /// The layout, as gpusetup reads it: `4g.20gb,2g.10gb,1g.5gb`; `none` without instances, `off`
    /// without MIG.
    pub layout: String,
    /// The instances, in the order of slots.
    pub instances: Vec<PlacedInstance>,
    /// Compute slices.
    pub compute_slices: Amount,
    /// Placement slots of memory.
    pub slots: Amount,
    /// The number of instances that are there and stay.
    pub kept: usize,
    /// The number of instances that are removed.
    pub destroyed: usize,
    /// The number of instances that are created.
    pub created: usize,
    /// The commands that a person would type; empty if nothing changes.
    pub commands: Vec<String>,
}

/// Where profiles come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum ProfilesFrom {
    /// The database.
    Database,
    /// The GPU's driver.
    Driver,
}

/// A number of something, and how many of them are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct Amount {
    /// Used by instances.
    pub used: u8,
    /// All of them.
    pub total: u8,
}

/// An instance in its place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct PlacedInstance {
    /// The name of its profile: `1g.10gb`.
    pub profile: String,
    /// The id that nvidia-smi takes, if known.
    pub id: Option<u32>,
    /// The first slot.
    pub start: u8,
    /// The number of slots.
    pub size: u8,
    /// The number of compute slices.
    pub compute_slices: u8,
}

impl From<Origin> for ProfilesFrom {
    fn from(origin: Origin) -> Self {
        match origin {
            Origin::Database => Self::Database,
            Origin::Driver => Self::Driver,
        }
    }
}

/// Instances in their places, for readers.
pub fn described(geometry: &Geometry, placed: &[Instance]) -> Vec<PlacedInstance> {
    let mut placed = placed.to_vec();
    placed.sort_unstable();
    let each = placed.into_iter().map(|instance| {
        let profile = &geometry.profiles[instance.profile];
        PlacedInstance {
            profile: profile.name.clone(),
            id: profile.id,
            start: instance.start,
            size: profile.placement.size,
            compute_slices: profile.compute_slices,
        }
    });
    each.collect()
}

/// The change that a GPU needs for a layout: from its own instances, if its driver was asked and
/// MIG is on.
///
/// # Errors
///
/// What is short, if the layout does not fit.
pub fn needed(
    board: &Board,
    geometry: &Geometry,
    layout: &Layout,
) -> Result<Change, Vec<Shortage>> {
    let placed = fit(geometry, layout)?;
    let existing = board
        .state
        .as_ref()
        .filter(|state| state.mode.enabled)
        .map(|state| &state.instances);
    let whole = existing
        .into_iter()
        .flatten()
        .filter(|i| i.is_whole)
        .filter_map(|i| i.instance);
    let whole: Vec<_> = whole.collect();
    Ok(change(geometry, &whole, layout).unwrap_or(Change {
        create: placed,
        ..Change::default()
    }))
}

/// The ids of the instances that a change removes: those that it names, and those that have no or
/// several compute instances.
pub fn removed(board: &Board, change: &Change) -> Vec<u32> {
    let existing = board.state.iter().flat_map(|state| &state.instances);
    existing
        .filter(|i| !i.is_whole || i.instance.is_none_or(|at| !change.keep.contains(&at)))
        .map(|i| i.id)
        .collect()
}

/// What would become of a GPU that can be partitioned.
///
/// # Errors
///
/// What is short, if the layout does not fit.
pub fn planned(
    board: &Board,
    geometry: &Geometry,
    wanted: &Wanted,
) -> Result<PlannedGpu, Vec<Shortage>> {
    let is_on = board.state.as_ref().map(|state| state.mode.enabled);
    let (mig, layout, change) = match wanted {
        Wanted::Off => (false, "off".to_owned(), Change::default()),
        Wanted::Layout(layout) => (
            true,
            layout.text(geometry),
            needed(board, geometry, layout)?,
        ),
    };
    let placed: Vec<_> = change.keep.iter().chain(&change.create).copied().collect();
    let instances = described(geometry, &placed);
    let destroyed = removed(board, &change);
    let commands = match (wanted, is_on) {
        (Wanted::Off, Some(false)) => Vec::new(),
        (Wanted::Off, _) => {
            let mut all = super::commands::remove(board.index, &destroyed);
            all.push(enable(board.index, false));
            all
        }
        (Wanted::Layout(_), Some(true)) => of_change(geometry, board.index, &change, &destroyed),
        (Wanted::Layout(_), _) => from_scratch(geometry, board.index, &placed),
    };
    let sum = |of: fn(&PlacedInstance) -> u8| instances.iter().map(of).sum();
    Ok(PlannedGpu {
        index: board.index,
        address: board.address.clone(),
        name: board.name.clone(),
        profiles_from: geometry.origin.into(),
        assumed: geometry.assumed.iter().cloned().collect(),
        mig,
        layout,
        compute_slices: Amount {
            used: sum(|i| i.compute_slices),
            total: geometry.compute_slices,
        },
        slots: Amount {
            used: sum(|i| i.size),
            total: geometry.slots,
        },
        instances,
        kept: change.keep.len(),
        destroyed: destroyed.len(),
        created: change.create.len(),
        commands,
    })
}
