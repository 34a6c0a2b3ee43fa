//! MIG: how a GPU can be partitioned into instances. Pure: a board's profiles come from the
//! database or from its driver, and a layout of instances is placed on it, or refused with proof.
//!
//! A GPU has compute slices and placement slots. An instance occupies a row of slots, which its
//! profile allows to start at a few places only, and a number of compute slices and media engines.

// clippy.toml lists what only `gpusetup-system` may call.
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod board;
mod change;
mod commands;
mod file;
mod geometry;
mod layout;
mod place;
mod plan;
mod refusal;
mod report;

pub use board::Board;

pub use file::{Entry, LayoutFile, NamedGpu};

pub use geometry::Geometry;

pub use layout::{Layout, LayoutError};

pub use plan::{
    Amount, PlacedInstance, PlannedGpu, PlannedHost, ProfilesFrom, Wanted, described, needed,
    planned, removed,
};
pub use refusal::{Shortage, fit, fitting, nearest};
pub use report::{
    AssertedGpu, AssertedHost, ExportedHost, ListedGpu, ListedHost, RestoredGpu, RestoredHost,
    asserted, at_boot, at_boot_for_all, exported, listed,
};
