//! The services that use GPUs, and when they start at a boot.

use super::Plan;
use gpusetup_database::compat::{Database, MigRole};
use gpusetup_operation::Operation;
use std::collections::BTreeSet;

/// The units that start at boot when GPUs are set and their instances are there.
pub(crate) fn starting_afterwards(database: &Database) -> String {
    Vec::from_iter(units_of(database, |role| !role.starts_first())).join(" ")
}

/// The units that wait at boot until this plan has come to its end: what uses GPUs would fail
/// before. What the plan itself starts, or a package of it, cannot wait: who starts a unit waits
/// for it. What lists instances does not use GPUs.
pub fn waiting_for(database: &Database, plan: &Plan) -> Vec<String> {
    let mut started = BTreeSet::from_iter(plan.acts().filter_map(|act| match &act.operation {
        Operation::Service(service) if !service.restart => Some(service.unit.as_str()),
        _ => None,
    }));
    for engine in &database.engines {
        let runs_it = database
            .engines
            .iter()
            .find(|other| Some(&other.id) == engine.part_of.as_ref());
        if runs_it.is_some_and(|other| other.units.iter().any(|u| started.contains(u.as_str()))) {
            started.extend(engine.units.iter().map(String::as_str));
        }
    }
    units_of(database, |role| {
        matches!(role, MigRole::User | MigRole::Runtime)
    })
    .filter(|unit| !started.contains(unit))
    .map(str::to_owned)
    .collect()
}

/// The units of the database that have one of these roles.
pub fn units_of(
    database: &Database,
    has_role: impl Fn(MigRole) -> bool,
) -> impl Iterator<Item = &str> {
    database
        .gpu_services()
        .filter(move |(_, role)| has_role(*role))
        .map(|(unit, _)| unit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::plan_of;
    use gpusetup_operation::Service;

    #[test]
    fn no_unit_waits_for_a_plan_that_waits_for_it() {
        let database = gpusetup_data::embedded();
        let waiting = |service: Service| waiting_for(&database, &plan_of(vec![service.into()]));
        let others = waiting(Service::restart("docker.service"));
        for unit in [
            "docker.service",
            "containerd.service",
            "crio.service",
            "k3s.service",
            "rke2-agent.service",
            "kubelet.service",
            "slurmd.service",
            "nvidia-dcgm.service",
        ] {
            assert!(others.iter().any(|other| other == unit), "{unit}");
        }
        // It keeps GPUs ready; the other one lists instances.
        for unit in ["nvidia-persistenced.service", "nvidia-cdi-refresh.service"] {
            assert!(others.iter().all(|other| other != unit), "{unit}");
        }
        // Docker's package starts containerd, too.
        for (started, freed) in [
            ("docker.service", "docker.service containerd.service"),
            ("nvidia-dcgm.service", "nvidia-dcgm.service"),
        ] {
            let freed = Vec::from_iter(freed.split(' '));
            let waiting = waiting(Service::start(started));
            let gone = others.iter().filter(|unit| !waiting.contains(unit));
            let gone = BTreeSet::from_iter(gone.map(String::as_str));
            assert_eq!(gone, BTreeSet::from_iter(freed), "{started}");
        }
    }
}
