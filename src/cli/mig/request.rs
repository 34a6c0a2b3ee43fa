//! `--mig` of `plan` and `apply`: what their planner must know of the host for it.

use super::super::Problem;
use super::program;
use crate::gpus::{partitions, why_silent};
use crate::host::{Facts, MachineKind};
use crate::nvidia::Answer;
use crate::resolve::Request;
use crate::system::System;

/// Adds how the GPUs are partitioned to the facts, and the gpusetup that boots can run to the request, if it partitions GPUs. A plan that
/// is carried out (`is_applied`) needs the latter.
pub fn prepare(system: &System, facts: &mut Facts, request: &mut Request, is_applied: bool) -> Result<(), Problem> {
    let is_container = facts.machine.kind == MachineKind::Container;
    let Some(wish) = request.settings.mig.as_mut().filter(|_| !is_container) else { return Ok(()) };
    match program::installed(system) {
        Ok(path) => wish.program = Some(path),
        Err(problem) if is_applied => return Err(problem),
        Err(_) => {}
    }
    if why_silent(system, facts).is_none()
        && let Answer::Is(host) = partitions()
    {
        facts.mig = Some(host);
    }
    Ok(())
}
