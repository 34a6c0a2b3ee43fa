//! A plan that fixes findings: the repair of each finding, in the order of the findings.

use super::context::step;
use super::{Act, Plan, Step, StepId};
use gpusetup_database::compat::Database;
use gpusetup_host::Facts;
use gpusetup_operation::Operation;
use gpusetup_resolve::Request;

/// The repair of one finding.
#[derive(Debug, Clone, PartialEq)]
pub struct Repair {
    /// What the repair does, in one line.
    pub title: String,
    /// The problem.
    pub why: String,
    /// The operations that fix it.
    pub operations: Vec<Operation>,
}

/// The plan, made at this time (UTC). The time makes a later identical repair a different plan: it
/// fixes a new occurrence.
pub fn repair(database: &Database, facts: Facts, repairs: Vec<Repair>, moment: String) -> Plan {
    let all: Vec<_> = repairs.iter().flat_map(|r| r.operations.clone()).collect();
    let mut at = 0;
    // An operation that several findings need is done once, at its last position: a cache is
    // rebuilt after all links.
    let steps: Vec<Step> = repairs
        .into_iter()
        .filter_map(|repair| {
            let acts: Vec<_> = repair
                .operations
                .into_iter()
                .filter(|operation| {
                    at += 1;
                    !all[at..].contains(operation)
                })
                .map(Act::needed)
                .collect();
            (!acts.is_empty()).then(|| step(StepId::Repair, repair.title, repair.why, acts))
        })
        .collect();
    Plan::of(
        database,
        facts,
        Request::default_on(moment),
        steps,
        Vec::new(),
    )
    .summed()
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpusetup_data::embedded;
    use gpusetup_host::sample;
    use gpusetup_operation::Link;
    use gpusetup_recipes::rebuild_cache;

    #[test]
    fn what_several_take_is_done_once_and_last() {
        let link = |path: &str| {
            Operation::Link(Link {
                path: path.into(),
                target: "t".into(),
                soname: None,
            })
        };
        let one = |title: &str, operations| Repair {
            title: title.into(),
            why: "x".into(),
            operations,
        };
        let repairs = vec![
            one("a", vec![link("/a"), rebuild_cache()]),
            one("b", vec![rebuild_cache()]),
            one("c", vec![link("/a")]),
        ];
        let plan = repair(
            &embedded(),
            sample::facts(),
            repairs,
            "2026-11-21T12:00:00Z".to_owned(),
        );
        let shown = |s: &Step| format!("{}: {}", s.title, s.operations[0].operation.describe());
        assert_eq!(
            plan.steps.iter().map(shown).collect::<Vec<_>>(),
            ["b: run ldconfig", "c: link /a -> t"]
        );
        assert!(!plan.is_converged());
    }
}
