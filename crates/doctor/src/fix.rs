//! The safe repairs for a report's findings. A fix that needs judgement is left to the user.

use super::{Finding, Remediation, Report};
use gpusetup_plan::Repair;

/// The safe repairs, root causes first.
pub fn repairs(report: &Report) -> Vec<Repair> {
    report
        .checks
        .iter()
        .filter(|f| f.fixable)
        .filter_map(of)
        .collect()
}

fn of(finding: &Finding) -> Option<Repair> {
    let Remediation { text, repair, .. } = finding.remediation.as_ref()?;
    let why = finding.cause.clone().unwrap_or_default();
    Some(Repair {
        title: format!("{}: {text}", finding.id),
        why,
        operations: repair.clone(),
    })
}
