//! The programs and services that use the GPUs: those that keep a change from being made are named,
//! and services can be stopped.

use super::super::{Problem, say};
use super::wanted::{Task, Tasks};
use crate::compat::{Database, MigRole};
use crate::exit::Exit;
use crate::host::{Holder, holders_and_displays, kernel_drives_displays};
use crate::mig::Wanted;
use crate::plan::{MigUnits, start_unit};
use crate::planning::services::{listers, running, succeeds};
use crate::system::System;
use std::collections::BTreeSet;

/// What happens to units while these GPUs are partitioned. A GPU whose mode changes must not be in
/// use.
pub(crate) fn units(
    system: &System,
    database: &Database,
    tasks: &Tasks,
    may_stop: bool,
) -> Result<MigUnits, Problem> {
    let running = running(system, database, MigRole::holds_gpus);
    let others: Vec<Holder> = { holders_and_displays(system).into_iter() }
        .filter(|holder| {
            holder
                .unit
                .as_ref()
                .is_none_or(|unit| !running.contains(unit))
        })
        .collect();
    let changing: Vec<_> = tasks
        .all
        .iter()
        .filter(|task| {
            !task
                .board
                .has_mode(matches!(task.wanted, Wanted::Layout(_)))
        })
        .collect();
    let must_be_idle = changing
        .iter()
        .any(|task| task.board.must_be_idle(database));
    let all: Vec<_> = tasks.all.iter().collect();
    let blocking = if must_be_idle {
        others.iter().map(shown).collect()
    } else {
        among(&others, &changing)
    };
    if !changing.is_empty() && !blocking.is_empty() {
        return Err(in_use(system, must_be_idle, &blocking));
    }
    let computing = among(&others, &all);
    if !computing.is_empty() {
        let names = computing.join(", ");
        say(&format!(
            "these programs compute on the GPUs; instances that they use cannot be removed: {names}"
        ));
    }
    if must_be_idle && !running.is_empty() && !may_stop {
        return Err(Problem::new(
            Exit::Blocked,
            format!("services use the GPUs: {}", running.join(", ")),
        )
        .hint("a GPU that is in use does not change its MIG mode")
        .hint("add --stop-services: gpusetup stops them, and starts them again afterwards"));
    }
    if must_be_idle && kernel_drives_displays(system) {
        say(DISPLAYS);
    }
    let paused = if may_stop { running } else { Vec::new() };
    Ok(MigUnits {
        paused,
        listers: listers(system, database),
        ..MigUnits::default()
    })
}

/// Starts units again that were stopped, or that list instances.
pub(crate) fn start(system: &System, units: &[String]) {
    for unit in units {
        let argv = start_unit(unit);
        if !succeeds(system, &argv.iter().map(String::as_str).collect::<Vec<_>>()) {
            say(&format!(
                "{unit} could not be started: sudo systemctl start {unit}"
            ));
        }
    }
}

const DISPLAYS: &str = "nvidia_drm is loaded with modeset=1 and keeps the GPUs open; if their mode does not change for that reason, stop \
                        the display manager and unload it: sudo modprobe -r nvidia_drm";

fn in_use(system: &System, must_be_idle: bool, blocking: &[String]) -> Problem {
    let problem = Problem::new(
        Exit::Blocked,
        format!("programs use the GPUs: {}", blocking.join(", ")),
    )
    .hint("a GPU that is in use does not change its MIG mode; end them first");
    if must_be_idle && kernel_drives_displays(system) {
        problem.hint(DISPLAYS)
    } else {
        problem
    }
}

/// Those that compute on these GPUs.
fn among(holders: &[Holder], tasks: &[&Task]) -> Vec<String> {
    let states = tasks.iter().filter_map(|task| task.board.state.as_ref());
    let processes: BTreeSet<u32> = states.flat_map(|state| state.processes.clone()).collect();
    holders
        .iter()
        .filter(|holder| processes.contains(&holder.process))
        .map(shown)
        .collect()
}

fn shown(holder: &Holder) -> String {
    match &holder.unit {
        Some(unit) => format!("{} (process {}, {unit})", holder.name, holder.process),
        None => holder.to_string(),
    }
}
