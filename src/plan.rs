//! A plan: what was chosen, why, and every step that leads there. It leaves nothing to decide and is carried out as it
//! stands. Steps are pure functions from what is known to operations, a file each below `plan/`; no file is opened and no
//! program started here.

mod add_on;
mod build;
pub mod compile;
mod components;
mod context;
mod driver;
mod environment;
mod lockfile;
mod needs;
mod nouveau;
mod prerequisites;
mod read;
mod reboot;
mod removal;
mod repair;
mod settings;
mod step_id;
mod toolkit;
mod verify;

pub use build::plan;
pub use lockfile::{LOCK_SCHEMA, LockError, LockFile, LockedArtifact};
pub use prerequisites::kernel_packages;
pub use read::PlanError;
pub use reboot::why_reboot;
pub use removal::{Inventory, Unwanted, removal};
pub use repair::{Repair, repair};
pub use settings::{blacklist, loader_path, profile, rebuild_cache, rebuild_image, rebuild_images};

use crate::compat::{AddOnId, Database};
use crate::host::Facts;
use crate::ids::{CheckId, Recorded};
use crate::mirrors::Mirrors;
use crate::operation::{Download, Operation, Packages};
use crate::resolve::{Reason, Rejection, Request, Selection};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The schema that [`Plan`] is printed in.
pub const SCHEMA: &str = "gpusetup.plan/1";

/// Everything `apply` needs: it decides nothing itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct Plan {
    /// The name and version of this format.
    #[cfg_attr(feature = "schemas", schemars(extend("const" = SCHEMA)))]
    pub schema: String,
    /// The version of gpusetup that made the plan.
    pub tool: String,
    /// The database the plan was made with.
    pub database: DatabaseId,
    /// SHA-256 over everything else in the plan that says what will be done, and to which host; from where files are fetched,
    /// whose sums are in it, is no part of that. A plan that was edited has another.
    #[cfg_attr(feature = "schemas", schemars(with = "crate::sum::Sha256Text"))]
    pub fingerprint: String,
    /// The facts the plan was made from.
    pub host: Facts,
    /// What was asked for.
    pub request: Request,
    /// What was chosen.
    pub selection: Selection,
    /// Why each layer was chosen.
    pub reasons: Vec<Reason>,
    /// What was not chosen, and why not.
    pub rejected: Vec<Rejection>,
    /// The steps, in the order in which they are carried out.
    pub steps: Vec<Step>,
    /// How much the plan downloads and changes.
    pub totals: Totals,
    /// What a person should know before the plan is applied.
    pub warnings: Vec<Warning>,
}

/// A database, by its version and its content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct DatabaseId {
    /// Its version, `2026.11.20`.
    pub version: String,
    /// The SHA-256 of its content.
    #[cfg_attr(feature = "schemas", schemars(with = "crate::sum::Sha256Text"))]
    pub sha256: String,
}

impl DatabaseId {
    /// Of a database.
    pub fn of(database: &Database) -> Self {
        Self { version: database.version.clone(), sha256: database.sha256.clone() }
    }
}

/// The steps of the main job, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StepId {
    /// Kernel headers, compiler, DKMS.
    Prerequisites,
    /// Keeps nouveau and nova off the GPUs.
    BlacklistNouveau,
    /// Kernel modules and user-space driver.
    InstallDriver,
    /// The CUDA toolkit.
    InstallCuda,
    /// An add-on, such as cuDNN, into the toolkit.
    InstallAddOn(AddOnId),
    /// Library links, and the default toolkit's.
    FixSymlinks,
    /// The loader's path and cache.
    Ldconfig,
    /// PATH for shells.
    Environment,
    /// Boots the host again.
    Reboot,
    /// Takes a toolkit off the host.
    RemoveCuda,
    /// Takes an add-on off the host that lies outside of toolkits.
    RemoveAddOn(AddOnId),
    /// Takes the driver off the host.
    RemoveDriver,
    /// Mends something that `doctor` found ill.
    Repair,
    /// Asks the host whether it all works.
    Verify,
}

/// A named part of a plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct Step {
    /// The name of the step.
    pub id: StepId,
    /// What the step does, in a line.
    pub title: String,
    /// Why the step is in the plan, or why it has nothing to do.
    pub why: String,
    /// Whether the step has something to do.
    pub state: State,
    /// The operations of the step, in their order.
    pub operations: Vec<Act>,
    /// Bytes it downloads; none if the size of one of its downloads is not known, as those of packages.
    pub download_bytes: Option<u64>,
    /// Bytes it needs on the disk, the downloads not counted; none if that is not known.
    pub disk_bytes: Option<u64>,
    /// The room that it needs, by directory. The cache may be named twice: for downloads, and for what is unpacked there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub room: Vec<Room>,
    /// It installs files that are under a licence of NVIDIA's.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub licensed: bool,
    /// No program may use the driver meanwhile: those that start later would meet another one than the kernel has.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub idle_driver: bool,
}

/// Room that a step needs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct Room {
    /// A directory on the file system that needs it.
    pub path: PathBuf,
    /// Bytes needed there; none if that is not known.
    pub bytes: Option<u64>,
}

/// Whether a step has something to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// The step has something to do.
    Needed,
    /// The host is already so.
    Satisfied,
    /// The step was not asked for, or makes no sense here.
    Skipped,
}

/// An operation, and whether the host is already so.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct Act {
    /// What is done.
    #[serde(flatten)]
    pub operation: Operation,
    /// The host is already so: it will be looked at again, and left out.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub satisfied: bool,
}

/// How much a plan is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct Totals {
    /// Bytes to download, as far as they are known; none if there are downloads and no size of them is known.
    pub download_bytes: Option<u64>,
    /// Bytes needed on the disk beside the downloads, as far as they are known; none if no size is known.
    pub disk_bytes: Option<u64>,
    /// A size that is not known is missing from one of the two.
    #[serde(default)]
    pub at_least: bool,
    /// How many times the host reboots on the way.
    pub reboots: u32,
    /// Files, links, packages and trees added.
    pub add: u32,
    /// Files, links, packages and trees changed.
    pub change: u32,
    /// Files, links, packages and trees removed.
    pub remove: u32,
}

/// What a person should know before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct Warning {
    /// The id of the check of `doctor` that finds the same.
    pub check: Recorded<CheckId>,
    /// The warning, in a sentence.
    pub text: String,
}

impl Plan {
    /// All that will be done, in order, whichever step it is part of.
    pub fn acts(&self) -> impl Iterator<Item = &Act> {
        self.steps.iter().flat_map(|step| &step.operations)
    }

    /// The transactions of package managers in it.
    pub fn packages(&self) -> impl Iterator<Item = &Packages> {
        self.acts().filter_map(|act| if let Operation::Packages(wanted) = &act.operation { Some(wanted) } else { None })
    }

    /// With its downloads from mirrors, where there are any.
    pub fn fetched_from(mut self, mirrors: &Mirrors, database: &Database) -> Self {
        if mirrors.is_empty() {
            return self;
        }
        // It may have come from another mirror before, whose address tells nothing.
        for act in self.steps.iter_mut().flat_map(|s| &mut s.operations) {
            if let Operation::Download(Download { url, sha256, .. }) = &mut act.operation {
                *url = mirrors.of(database.published(sha256).as_deref().unwrap_or(url));
            }
        }
        self
    }
}
