//! What a run has come to so far, and the result that it leaves behind.

use super::events::Events;
use super::result::{Ending, KILLED, RunResult, SCHEMA, StepResult, StepState, UNFINISHED, now};
use gpusetup_plan::{Plan, State, StepId};
use gpusetup_system::System;
use gpusetup_text::paths::RESULT;
use serde::Serialize;
use std::io;
use std::path::Path;

/// A run, while it lasts: what the result will tell.
#[derive(Debug)]
pub struct Account {
    fingerprint: Option<String>,
    started: String,
    steps: Vec<StepResult>,
    reboot_required: bool,
    changes: bool,
}

impl Account {
    /// Of a run that begins now.
    pub fn open() -> Self {
        Self {
            fingerprint: None,
            started: now(),
            steps: Vec::new(),
            reboot_required: false,
            changes: false,
        }
    }

    /// The host is about to be changed, or was changed by the run that this one resumes: what comes
    /// of it is worth a record.
    pub fn changes(&mut self) {
        self.changes = true;
    }

    /// Whether that was so. A run that ends before is refused: it did nothing.
    pub fn has_changes(&self) -> bool {
        self.changes
    }

    /// Everything is done, and the driver only works after a reboot.
    pub fn requires_reboot(&mut self) {
        self.reboot_required = true;
    }

    /// It carries out this plan.
    pub fn plan(&mut self, plan: &Plan) {
        self.fingerprint = Some(plan.fingerprint());
        self.steps = plan
            .steps
            .iter()
            .map(|s| StepResult {
                id: s.id,
                state: match s.state {
                    State::Skipped => StepState::Skipped,
                    _ => StepState::Pending,
                },
            })
            .collect();
    }

    /// A step begins, so the ones before it are done: if nothing more is heard, it failed.
    pub fn begins(&mut self, id: StepId) {
        let Some(at) = self
            .steps
            .iter()
            .position(|s| s.id == id && s.state == StepState::Pending)
        else {
            return;
        };
        self.done_before(at);
        self.steps[at].state = StepState::Failed;
    }

    fn done_before(&mut self, at: usize) {
        let before = self.steps[..at]
            .iter_mut()
            .filter(|s| s.state != StepState::Skipped);
        before.for_each(|s| s.state = StepState::Done);
    }

    /// Writes the result.
    pub fn close(self, on: &System, state: Ending, error: Option<(u8, String)>) -> io::Result<()> {
        Events::of(on).end(state, error.as_ref());
        self.write(on, state, error)
    }

    fn write(mut self, on: &System, state: Ending, error: Option<(u8, String)>) -> io::Result<()> {
        match state {
            Ending::Done => self.done_before(self.steps.len()),
            // The step that stands as failed is the reboot, which is yet to come.
            Ending::RebootRequired | Ending::NeedsConsole => {
                let waiting = self
                    .steps
                    .iter_mut()
                    .filter(|s| s.state == StepState::Failed);
                waiting.for_each(|s| s.state = StepState::Pending);
            }
            Ending::Failed | Ending::Refused | Ending::Interrupted | Ending::RolledBack => {}
        }
        let (exit_code, error) = error.map_or((0, None), |(code, text)| (code, Some(text)));
        let result = RunResult {
            schema: SCHEMA.to_owned(),
            tool: env!("CARGO_PKG_VERSION").to_owned(),
            fingerprint: self.fingerprint,
            state,
            exit_code,
            reboot_required: self.reboot_required || state.needs_reboot(),
            started: self.started,
            ended: now(),
            steps: self.steps,
            error,
        };
        save(on, RESULT, &result)
    }
}

/// Leaves the result of a run that has only begun, until it writes its own: one that is killed
/// cannot, and what the last one came to would be read for its end.
pub(crate) fn provisional(on: &System, plan: Option<&Plan>) -> io::Result<()> {
    let mut account = Account::open();
    if let Some(plan) = plan {
        account.plan(plan);
    }
    account.write(
        on,
        Ending::Interrupted,
        Some((KILLED, UNFINISHED.to_owned())),
    )
}

/// Writes an object to the state folder.
pub(crate) fn save(on: &System, path: &str, value: &impl Serialize) -> io::Result<()> {
    if let Some(folder) = Path::new(path).parent() {
        on.make_directories(folder, 0o700)?;
    }
    on.write(
        path,
        (serde_json::to_string_pretty(value)? + "\n").as_bytes(),
        0o600,
    )
}
