//! Reads a saved plan. Its fingerprint shows that it was not modified; nevertheless all of its
//! content is validated before anything is shown or carried out.

use super::{Plan, SCHEMA};
use gpusetup_operation::valid;
use gpusetup_text::text::{hidden_in, visible};

/// The maximum number of steps.
const MAX_STEPS: usize = 1000;
/// The maximum number of operations.
const MAX_OPERATIONS: usize = 100_000;
/// Keys whose values may have several lines: file contents, and command arguments, one of which may
/// be a script.
const SEVERAL_LINES: [&str; 2] = ["content", "argv"];

/// Why a plan is refused.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// It is not a plan, or has another version.
    #[error("not a plan of this version: {0}")]
    Form(String),
    /// Its content does not match its fingerprint.
    #[error("it was modified after it was made")]
    Altered,
    /// It has content that no valid plan has.
    #[error("invalid plan: {0}")]
    Senseless(String),
}

impl Plan {
    /// Parses and validates a plan.
    ///
    /// # Errors
    ///
    /// If it does not have this schema, its fingerprint does not match, or its content is invalid.
    pub fn read(bytes: &[u8]) -> Result<Self, PlanError> {
        let value: serde_json::Value = serde_json::from_slice(bytes).map_err(malformed)?;
        match value.get("schema").and_then(|s| s.as_str()) {
            Some(SCHEMA) => {}
            Some(other) => {
                return Err(PlanError::Form(format!(
                    "its schema is {other:?}, not {SCHEMA}"
                )));
            }
            None => return Err(PlanError::Form("it has no schema".to_owned())),
        }
        if let Some(text) = hidden_in(&value, &SEVERAL_LINES) {
            let text: String = text.chars().take(100).collect();
            return Err(PlanError::Senseless(format!(
                "{text:?} contains control characters"
            )));
        }
        let written = value
            .get("fingerprint")
            .and_then(|f| f.as_str())
            .unwrap_or_default()
            .to_owned();
        let plan: Self = serde_json::from_value(value).map_err(malformed)?;
        if plan.fingerprint() != written {
            return Err(PlanError::Altered);
        }
        plan.valid().map_err(PlanError::Senseless)?;
        Ok(plan.with_needs())
    }

    /// Whether all of its operations are valid; the error names the invalid one.
    pub fn valid(&self) -> Result<(), String> {
        if self.steps.len() > MAX_STEPS || self.acts().count() > MAX_OPERATIONS {
            return Err("it has too many steps".to_owned());
        }
        valid::prefix(&self.request.prefix)?;
        valid::cache(&self.request.cache)?;
        for step in &self.steps {
            let cache = &self.request.cache;
            let checked = step
                .operations
                .iter()
                .try_for_each(|act| act.operation.valid(cache));
            checked
                .and_then(|()| {
                    step.room
                        .iter()
                        .try_for_each(|room| valid::path(&room.path))
                })
                .map_err(|why| format!("step {}: {why}", step.id))?;
        }
        Ok(())
    }
}

fn malformed(e: serde_json::Error) -> PlanError {
    PlanError::Form(visible(&e.to_string()).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::plan_of;
    use gpusetup_operation::Operation;
    use gpusetup_operation::Remove;
    use gpusetup_operation::Run;
    use gpusetup_operation::WriteFile;

    fn read(plan: &Plan) -> Result<Plan, PlanError> {
        Plan::read(&serde_json::to_vec(plan).expect("a plan"))
    }

    #[test]
    fn a_plan_is_read_as_it_was_written() {
        let content = "several\n\tlines\n".to_owned();
        let plan = plan_of(vec![Operation::WriteFile(WriteFile {
            path: "/etc/f".into(),
            content,
            mode: 0o644,
            merged_from: None,
        })]);
        assert_eq!(read(&plan).expect("a valid plan"), plan.with_needs());
    }

    #[test]
    fn a_right_fingerprint_does_not_make_sense_of_a_plan() {
        for operation in [
            Run::new([""; 0], 60).into(),
            Operation::Remove(Remove { path: "/..".into() }),
        ] {
            let refused = read(&plan_of(vec![operation])).expect_err("an invalid plan");
            assert!(matches!(refused, PlanError::Senseless(_)), "{refused}");
        }
    }

    #[test]
    fn no_text_of_a_plan_has_control_characters() {
        let plan = plan_of(vec![Operation::Remove(Remove { path: "/f".into() })]);
        let mut titled = plan.clone();
        titled.steps[0].title = "a\nhint: b".to_owned();
        let mut named = plan.clone();
        named.host.os.name = "\u{1b}[2J".to_owned();
        let mut reasoned = plan;
        reasoned.request.leave_out = vec!["\u{202e}".to_owned()];
        for plan in [titled, named, reasoned] {
            let refused = read(&plan).expect_err("a control character");
            let message = refused.to_string();
            assert!(
                matches!(refused, PlanError::Senseless(_))
                    && !message.contains(gpusetup_text::text::is_hidden),
                "{message:?}"
            );
        }
    }

    #[test]
    fn what_is_no_plan_is_told_from_an_altered_one() {
        let plan = plan_of(vec![Operation::Remove(Remove { path: "/f".into() })]);
        let altered = serde_json::to_string(&plan)
            .expect("a plan")
            .replace("\"/f\"", "\"/g\"");
        assert!(matches!(
            Plan::read(altered.as_bytes()),
            Err(PlanError::Altered)
        ));
        for text in ["", "{}", "{\"schema\":\"gpusetup.plan/9\"}", "[1]"] {
            assert!(
                matches!(Plan::read(text.as_bytes()), Err(PlanError::Form(_))),
                "{text}"
            );
        }
    }
}
