//! How the last run ended, for programs: `result.json`, one object, rewritten at every end.

use gpusetup_plan::StepId;
use gpusetup_system::System;
use gpusetup_text::paths::RESULT;
use serde::{Deserialize, Serialize};
use std::io;

/// The name of the result's format, with its number.
pub(crate) const SCHEMA: &str = "gpusetup.result/1";

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct RunResult {
    /// The name and version of this format.
    #[cfg_attr(feature = "schemas", schemars(extend("const" = SCHEMA)))]
    pub(crate) schema: String,
    /// The version of gpusetup that ran.
    pub(crate) tool: String,
    /// The plan's fingerprint; none where it did not come to a plan.
    #[cfg_attr(
        feature = "schemas",
        schemars(with = "Option<gpusetup_database::sum::Sha256Text>")
    )]
    pub(crate) fingerprint: Option<String>,
    /// How the run ended.
    pub state: Ending,
    /// The exit code of gpusetup.
    pub exit_code: u8,
    /// The host must reboot: before the rest can follow or, if all is done, before the driver
    /// works.
    pub reboot_required: bool,
    /// When the run began, in UTC.
    #[cfg_attr(
        feature = "schemas",
        schemars(regex(pattern = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z$"))
    )]
    pub(crate) started: String,
    /// When the run ended, in UTC.
    #[cfg_attr(
        feature = "schemas",
        schemars(regex(pattern = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z$"))
    )]
    pub(crate) ended: String,
    /// The steps of the plan, and how far each came.
    pub steps: Vec<StepResult>,
    /// Why the run did not finish; null if it did.
    pub(crate) error: Option<String>,
}

impl RunResult {
    /// A sentence for a person.
    pub fn sentence(&self) -> String {
        let when = &self.ended;
        match (self.state, &self.error) {
            (Ending::Done, _) if self.reboot_required => {
                format!(
                    "the last apply finished ({when}); the driver works after a reboot: sudo reboot"
                )
            }
            (Ending::Done, _) => format!("the last apply finished ({when})"),
            (Ending::RebootRequired, _) => format!("the last apply waits for a reboot ({when})"),
            (Ending::NeedsConsole, _) => format!(
                "the last apply needs someone at the console, during a reboot, to enrol the key that signs the driver's \
                 modules ({when})"
            ),
            (Ending::RolledBack, _) => format!("the last apply was rolled back ({when})"),
            (Ending::Interrupted, _) => format!("the last apply was interrupted ({when})"),
            (Ending::Failed, why) => {
                format!(
                    "the last apply failed ({when}): {}",
                    why.as_deref().unwrap_or("no reason is known")
                )
            }
            (Ending::Refused, why) => {
                let why = why.as_deref().unwrap_or("no reason is known");
                format!(
                    "nothing was applied here yet; an apply was refused before its first change ({when}): {why}"
                )
            }
        }
    }

    /// Whether the run left this when it began, and never wrote its own.
    pub(super) fn is_provisional(&self) -> bool {
        self.state == Ending::Interrupted && self.exit_code == KILLED
    }

    /// What the journal knows of a run whose result is missing or out of date; the steps are left
    /// to the caller.
    pub(super) fn of_journal(
        state: Ending,
        why: Option<String>,
        fingerprint: Option<String>,
        started: Option<String>,
        ended: String,
    ) -> Self {
        let (exit_code, error) = match state {
            Ending::Done | Ending::RebootRequired | Ending::RolledBack => (0, None),
            Ending::NeedsConsole => (BLOCKED, Some(CONSOLE.to_owned())),
            Ending::Failed | Ending::Refused => (OPERATION_FAILED, why),
            Ending::Interrupted => (KILLED, Some(UNFINISHED.to_owned())),
        };
        Self {
            schema: SCHEMA.to_owned(),
            tool: env!("CARGO_PKG_VERSION").to_owned(),
            fingerprint,
            state,
            exit_code,
            reboot_required: state.needs_reboot(),
            started: started.unwrap_or_else(|| ended.clone()),
            ended,
            steps: Vec::new(),
            error,
        }
    }
}

/// What a shell reports for a process that SIGKILL ended.
pub(super) const KILLED: u8 = 137;
/// The contract's code for what a person must do first.
const BLOCKED: u8 = 5;
/// Why such a run did not finish.
pub const CONSOLE: &str =
    "it needs someone at the console, who enrolls a key during a reboot (Secure Boot)";
/// The contract's code for an operation that failed.
const OPERATION_FAILED: u8 = 7;
pub(super) const UNFINISHED: &str =
    "it has not finished: it is still running, or it was killed, or the power failed";

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Ending {
    /// All steps are done.
    Done,
    /// An operation failed, or something was in the way.
    Failed,
    /// The run ended before its first change, on a host where nothing was applied before.
    Refused,
    /// A signal stopped the run.
    Interrupted,
    /// The rest follows after a reboot.
    RebootRequired,
    /// The rest follows after a reboot during which somebody at the console enrolls a key.
    NeedsConsole,
    /// The apply was rolled back.
    RolledBack,
}

impl Ending {
    /// Whether the rest follows after a reboot.
    pub fn needs_reboot(self) -> bool {
        matches!(self, Self::RebootRequired | Self::NeedsConsole)
    }

    /// Whether nothing comes after it by itself.
    pub fn is_last(self) -> bool {
        match self {
            // Nobody may ever come to the console.
            Self::Done | Self::Failed | Self::Refused | Self::RolledBack | Self::NeedsConsole => {
                true
            }
            Self::Interrupted | Self::RebootRequired => false,
        }
    }
}

/// A step, and how far it came.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct StepResult {
    /// The name of the step.
    pub id: StepId,
    /// How far the step came.
    pub state: StepState,
}

/// How far a step came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum StepState {
    /// The step was not begun.
    Pending,
    /// The plan had nothing to do there.
    Skipped,
    /// All its operations are done.
    Done,
    /// The step did not finish.
    Failed,
}

impl StepState {
    /// For a person.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "to come",
            Self::Skipped => "skipped",
            Self::Done => "done",
            Self::Failed => "failed",
        }
    }
}

/// How the last run ended; none where there was none.
pub fn status(on: &System) -> io::Result<Option<RunResult>> {
    match on.read_text(RESULT)? {
        None => Ok(None),
        Some(text) => Ok(Some(serde_json::from_str(&text).map_err(io::Error::other)?)),
    }
}

/// This moment, as [`utc`] writes it.
pub(super) fn now() -> String {
    utc(jiff::Timestamp::now())
}

/// A moment in UTC: `2026-11-22T09:38:42Z`.
pub(super) fn utc(time: jiff::Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
