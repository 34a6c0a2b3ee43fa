//! A plan: the chosen versions, the reasons, and every step to install them. It leaves nothing to
//! decide; `apply` carries it out unchanged. Each step is a pure function from facts to operations,
//! in its own file below `plan/`. Nothing here opens a file or starts a program.

// clippy.toml lists what only `gpusetup-system` may call.
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod add_on;
mod build;
mod companions;
mod components;
mod containers;
mod context;
mod driver;
mod engines;
mod environment;
pub mod estimate;
mod fabric;
mod fixes;
mod gpu_services;
pub mod gpu_settings;
mod lockfile;
mod machines;
mod mig;
mod mig_step;
mod module_options;
mod needed;
mod needs;
mod nouveau;
mod other_host;
mod prerequisites;
mod read;
mod reboot;
mod removal;
mod repair;
mod repository;
mod requested;
#[cfg(any(test, feature = "samples"))]
pub mod sample;
mod sign_modules;
mod step_id;
mod switch;
mod toolkit;
mod toolkit_packages;
mod unsuited;
mod untouched_driver;
mod updates;
mod vendors;
mod verify;
mod vgpu_licence;
mod warnings;

pub use build::plan;
pub use gpu_services::{units_of, waiting_for};
pub use lockfile::{LockError, LockFile};

pub use mig::{
    AtBoot as MigAtBoot, GpuPartition, Units as MigUnits, mig_program, of_gpus, partition,
    partition_of, start as start_unit,
};
pub use needs::Demand;
pub use other_host::{Begun, OtherHost};
pub use read::PlanError;
pub use reboot::why_reboot;
pub use removal::{Inventory, Unwanted, removal};
pub use repair::{Repair, repair};
pub use step_id::StepId;
pub use switch::{installed_toolkit, switch};

use gpusetup_causes::offline_root;
use gpusetup_database::compat::{Database, DatabaseId};
use gpusetup_host::Facts;
use gpusetup_operation::{AddRepository, Download, Operation, Packages};
use gpusetup_resolve::{PythonPackage, Reason, Rejection, Request, Selection};
use gpusetup_text::ids::{CheckId, Recorded};
use gpusetup_text::mirrors::Mirrors;
use serde::ser::SerializeStruct;
use serde::{Deserialize, Serialize, Serializer};
use std::path::{Path, PathBuf};

/// The schema that [`Plan`] is printed in.
pub(crate) const SCHEMA: &str = "gpusetup.plan/1";

/// Everything that `apply` needs; it makes no decisions itself.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema), schemars(deny_unknown_fields, transform = with_fingerprint))]
pub struct Plan {
    /// The name and version of this format.
    #[cfg_attr(feature = "schemas", schemars(extend("const" = SCHEMA)))]
    pub schema: String,
    /// The version of gpusetup that made the plan.
    pub tool: String,
    /// The database used for the plan.
    pub database: DatabaseId,
    /// The facts about the host.
    pub host: Facts,
    /// The request.
    pub request: Request,
    /// The chosen versions.
    pub selection: Selection,
    /// Why each layer was chosen.
    pub reasons: Vec<Reason>,
    /// Candidates that were not chosen, and why.
    pub rejected: Vec<Rejection>,
    /// How the requested frameworks are installed with Python's package managers; gpusetup does not
    /// do that.
    #[serde(default)]
    #[cfg_attr(feature = "schemas", schemars(skip_serializing_if = "Vec::is_empty"))]
    pub python: Vec<PythonPackage>,
    /// The steps in order.
    pub steps: Vec<Step>,
    /// How much the plan downloads and changes.
    pub totals: Totals,
    /// What the user should know before applying the plan.
    pub warnings: Vec<Warning>,
}

/// As a plan is printed and saved, with its fingerprint.
impl Serialize for Plan {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let Self {
            schema,
            tool,
            database,
            host,
            request,
            selection,
            reasons,
            rejected,
            python,
            steps,
            totals,
            warnings,
        } = self;
        let mut form = to.serialize_struct("Plan", 13)?;
        form.serialize_field("schema", schema)?;
        form.serialize_field("tool", tool)?;
        form.serialize_field("database", database)?;
        form.serialize_field("fingerprint", &self.fingerprint())?;
        form.serialize_field("host", host)?;
        form.serialize_field("request", request)?;
        form.serialize_field("selection", selection)?;
        form.serialize_field("reasons", reasons)?;
        form.serialize_field("rejected", rejected)?;
        if python.is_empty() {
            form.skip_field("python")?;
        } else {
            form.serialize_field("python", python)?;
        }
        form.serialize_field("steps", steps)?;
        form.serialize_field("totals", totals)?;
        form.serialize_field("warnings", warnings)?;
        form.end()
    }
}

/// The schema of what is printed: the fields, and the fingerprint that is computed of them.
#[cfg(feature = "schemas")]
fn with_fingerprint(schema: &mut schemars::Schema) {
    let described = serde_json::json!({
        "description": "SHA-256 of everything in the plan that defines what is done and on which host; an edited plan has a different one. Download URLs are not included, because the checksums of the files are.",
        "$ref": "#/$defs/Sha256"
    });
    if let Some(serde_json::Value::Object(properties)) = schema.get_mut("properties") {
        properties.insert("fingerprint".to_owned(), described);
    }
    if let Some(serde_json::Value::Array(required)) = schema.get_mut("required") {
        required.insert(3, "fingerprint".into());
    }
}

/// A named part of a plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct Step {
    /// The name of the step.
    pub id: StepId,
    /// What the step does, in one line.
    pub title: String,
    /// Why the step is in the plan, or why it has nothing to do.
    pub why: String,
    /// Whether the step has something to do.
    pub state: State,
    /// The operations of the step in order.
    pub operations: Vec<Act>,
    /// Download size in bytes; none if the size of one download is not known, as for packages.
    pub download_bytes: Option<u64>,
    /// Disk space needed in bytes, without the downloads; none if not known.
    pub disk_bytes: Option<u64>,
    /// About how many seconds it takes, downloads at 100 Mbit/s included; none if that is not
    /// known, as for a reboot. A host whose cores are not known is taken to have four.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schemas", schemars(schema_with = "estimate::schema"))]
    pub estimate_seconds: Option<Option<u64>>,
    /// The disk space that it needs by directory. The cache may be listed twice: for downloads and
    /// for unpacking.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub room: Vec<Room>,
    /// It installs files under an NVIDIA licence.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub licensed: bool,
    /// No program may use the driver during the step: programs started later would find another
    /// version than the kernel has loaded.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub idle_driver: bool,
}

/// Disk space that a step needs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct Room {
    /// A directory on the file system that needs it.
    pub path: PathBuf,
    /// Bytes needed there; none if not known.
    pub bytes: Option<u64>,
}

/// Whether a step has something to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// The step has something to do.
    Needed,
    /// Already done.
    Satisfied,
    /// The step was not requested or does not apply here.
    Skipped,
}

/// An operation, and whether it is already done.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct Act {
    /// The operation.
    #[serde(flatten)]
    pub operation: Operation,
    /// Already done: `apply` checks again, then skips it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub satisfied: bool,
}

/// How much a plan downloads and changes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct Totals {
    /// Bytes to download, as far as known; none if there are downloads but no size is known.
    pub download_bytes: Option<u64>,
    /// Disk space needed in bytes, without the downloads, as far as known; none if no size is
    /// known.
    pub disk_bytes: Option<u64>,
    /// One of the two is a lower bound, because a size is not known.
    #[serde(default)]
    pub(crate) at_least: bool,
    /// About how many seconds all steps take, without reboots; none if that of one is not known.
    #[serde(default)]
    pub estimate_seconds: Option<u64>,
    /// The number of reboots.
    pub reboots: u32,
    /// Files, links, packages and directory trees added.
    pub add: u32,
    /// Files, links, packages and directory trees changed.
    pub change: u32,
    /// Files, links, packages and directory trees removed.
    pub remove: u32,
}

/// What the user should know before applying a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct Warning {
    /// The id of the `doctor` check that finds the same problem.
    pub check: Recorded<CheckId>,
    /// The warning, in a sentence.
    pub text: String,
}

impl Warning {
    fn new(check: CheckId, text: impl Into<String>) -> Self {
        Self {
            check: check.into(),
            text: text.into(),
        }
    }

    fn each(check: CheckId, texts: impl IntoIterator<Item = String>) -> impl Iterator<Item = Self> {
        texts.into_iter().map(move |text| Self::new(check, text))
    }
}

impl Plan {
    /// Whether the operation at this place is a reboot that needs somebody at the console.
    pub fn needs_console(&self, (step, operation): (usize, usize)) -> bool {
        let act = self
            .steps
            .get(step)
            .and_then(|step| step.operations.get(operation));
        act.is_some_and(
            |act| matches!(&act.operation, Operation::Reboot(reboot) if reboot.enrolls.is_some()),
        )
    }

    /// Whether it has a key enrolled, which needs somebody at the console.
    pub fn enrolls_key(&self) -> bool {
        self.acts().any(
            |act| matches!(&act.operation, Operation::Reboot(reboot) if reboot.enrolls.is_some()),
        )
    }

    /// The operations of all steps in order.
    pub fn acts(&self) -> impl Iterator<Item = &Act> {
        self.steps.iter().flat_map(|step| &step.operations)
    }

    /// The package-manager transactions in the plan.
    pub fn packages(&self) -> impl Iterator<Item = &Packages> {
        self.acts().filter_map(|act| {
            if let Operation::Packages(wanted) = &act.operation {
                Some(wanted)
            } else {
                None
            }
        })
    }

    /// The plan for the host in a tree, if it is one: what its warnings advise is for that tree,
    /// not for the machine that it is typed on.
    pub fn for_root(mut self, root: Option<&Path>) -> Self {
        for warning in &mut self.warnings {
            warning.text = offline_root::sentence_on(&warning.text, root);
        }
        self
    }

    /// The plan with downloads from mirrors, if there are any.
    pub fn fetched_from(self, mirrors: &Mirrors, database: &Database) -> Self {
        if mirrors.is_empty() {
            return self;
        }
        self.with_addresses(database, |url| mirrors.of(url))
    }

    /// The plan with downloads from where they are published: one in a file may name a mirror.
    pub fn as_published(self, database: &Database) -> Self {
        self.with_addresses(database, str::to_owned)
    }

    /// The plan with other addresses in place of the published ones, as far as those are known: its
    /// own may already be those of a mirror.
    fn with_addresses(mut self, database: &Database, of: impl Fn(&str) -> String) -> Self {
        for act in self.steps.iter_mut().flat_map(|s| &mut s.operations) {
            if let Operation::Download(Download { url, sha256, .. }) = &mut act.operation {
                *url = of(database.published(sha256).as_deref().unwrap_or(url));
            }
            if let Operation::AddRepository(AddRepository {
                name, url, keys, ..
            }) = &mut act.operation
            {
                *url = of(database
                    .repository_published_as(name)
                    .as_deref()
                    .unwrap_or(url));
                for key in keys {
                    let published = database.key_published_as(&key.fingerprint);
                    key.url = published.or(key.url.as_deref()).map(&of);
                }
            }
        }
        self
    }
}
