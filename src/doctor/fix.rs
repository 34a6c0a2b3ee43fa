//! The safe repairs of what was found ill, for a plan of them. What needs a person's judgement is left to the person.

use super::{Finding, Remediation, Report};
use crate::plan::Repair;

/// What mends what can be mended safely, causes before what follows from them.
pub fn repairs(report: &Report) -> Vec<Repair> {
    report.checks.iter().filter(|f| f.fixable).filter_map(of).collect()
}

fn of(finding: &Finding) -> Option<Repair> {
    let Remediation { text, repair, .. } = finding.remediation.as_ref()?;
    let why = finding.cause.clone().unwrap_or_default();
    Some(Repair { title: format!("{}: {text}", finding.id), why, operations: repair.clone() })
}
