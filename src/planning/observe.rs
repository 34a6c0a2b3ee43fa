//! What a planner must know of a host for a request, beyond its facts.

use super::Planner;
use super::boot_program::{NoBootProgram, installed};
use super::services::{listers, running};
use crate::compat::{Database, MigRole};
use crate::gpus::{partitions, why_silent};
use crate::host::{ContainerHost, Facts, MachineKind, add_left_out, container_host, gpu_states};
use crate::nvidia::Answer;
use crate::resolve::Request;
use crate::system::System;
use crate::system::limits::LeftOut;

impl Planner<'_> {
    /// Adds what a request needs to be known of the host to the facts and to the request: the
    /// GPUs' present state, the container engines, the partitions. Returns what was not read
    /// because of its limits.
    ///
    /// # Errors
    ///
    /// If the plan is to be carried out (`is_applied`), partitions GPUs at every boot, and no
    /// gpusetup is installed for that.
    pub(crate) fn observe(
        &self,
        system: &System,
        facts: &mut Facts,
        request: &mut Request,
        is_applied: bool,
    ) -> Result<Vec<LeftOut>, NoBootProgram> {
        facts.gpu_states = gpu_states(system, facts, &request.settings.states);
        let mut left_out = Vec::new();
        if let Some(asked) = &request.settings.containers {
            let looked_at = &system.looked_at();
            let user = asked.docker_user.as_deref();
            facts.container_host = Some(container_host(looked_at, self.database, user));
            add_left_out(&mut facts.unreadable, looked_at);
            left_out = looked_at.left_out();
        }
        observe_mig(system, self.database, facts, request, is_applied)?;
        Ok(left_out)
    }

    /// The same for a new installation of a system, which has no container engine.
    pub(crate) fn observe_new(&self, facts: &mut Facts, request: &Request) {
        let containers = request.settings.containers.as_ref();
        facts.container_host = containers.map(|_| ContainerHost::default());
    }
}

/// Adds how the GPUs are partitioned to the facts, and to the request the gpusetup that boots can
/// run and the units that stop or start again meanwhile, if it partitions GPUs. A plan that is
/// carried out (`is_applied`) needs that gpusetup.
fn observe_mig(
    system: &System,
    database: &Database,
    facts: &mut Facts,
    request: &mut Request,
    is_applied: bool,
) -> Result<(), NoBootProgram> {
    let is_container = facts.machine.kind == MachineKind::Container;
    let Some(wish) = request.settings.mig.as_mut().filter(|_| !is_container) else {
        return Ok(());
    };
    match installed(system) {
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
        wish.keepers = running(system, database, |role| {
            role == MigRole::Keeper || stops_users && role.holds_gpus()
        });
        wish.users = running(system, database, |role| {
            role == MigRole::User && !stops_users
        });
        wish.listers = listers(system, database);
    }
    Ok(())
}
