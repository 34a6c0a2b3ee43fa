//! `--mig` of `plan` and `apply`: what their planner must know of the host for it.

use super::super::Problem;
use super::{clients, program};
use crate::compat::{Database, MigRole};
use crate::gpus::{partitions, why_silent};
use crate::host::{Facts, MachineKind};
use crate::nvidia::Answer;
use crate::resolve::Request;
use crate::system::System;

/// Adds how the GPUs are partitioned to the facts, and to the request the gpusetup that boots can
/// run and the units that stop or start again meanwhile, if it partitions GPUs. A plan that is
/// carried out (`is_applied`) needs that gpusetup.
pub fn prepare(
    system: &System,
    database: &Database,
    facts: &mut Facts,
    request: &mut Request,
    is_applied: bool,
) -> Result<(), Problem> {
    let is_container = facts.machine.kind == MachineKind::Container;
    let Some(wish) = request.settings.mig.as_mut().filter(|_| !is_container) else {
        return Ok(());
    };
    match program::installed(system) {
        Ok(path) => wish.program = Some(path),
        Err(problem) if is_applied => return Err(problem),
        Err(_) => {}
    }
    let is_silent = why_silent(system, facts).is_some();
    if !is_silent && let Answer::Is(host) = partitions() {
        facts.mig = Some(host);
    }
    if system.is_live() || facts.mig.is_some() {
        let stops_users = wish.stops_users;
        wish.keepers = clients::running(system, database, |role| {
            role == MigRole::Keeper || stops_users && role.holds_gpus()
        });
        wish.users = clients::running(system, database, |role| {
            role == MigRole::User && !stops_users
        });
        wish.listers = clients::listers(system, database);
    }
    Ok(())
}
