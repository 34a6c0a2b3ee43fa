//! A plan that partitions GPUs (MIG): units that use the GPUs stop, modes and instances are set,
//! the units start again. Like any plan, it is shown and journalled, and a rollback gives the GPUs
//! their previous state.

use super::context::step;
use super::gpu_services::{starting_afterwards, units_of};
use super::{Act, Plan, StepId};
use gpusetup_database::compat::{Database, MigRole};
use gpusetup_database::version::Want;
use gpusetup_host::Facts;
use gpusetup_mig::{Board, Geometry, Layout, Wanted, described, needed, removed};
use gpusetup_nvidia::{DeviceState, MigPlace};
use gpusetup_operation::{Device, Link, Operation, Run, WriteFile};
use gpusetup_resolve::Request;
use gpusetup_text::paths::{MIG_LAYOUT, MIG_UNIT, MIG_WANTED, UNIT_FOLDERS};
use std::path::Path;

/// What is to become of a GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GpuPartition {
    /// Its bus address.
    pub(crate) gpu: String,
    pub(crate) name: String,
    /// The mode to set. None if it has that mode.
    pub(crate) mode: Option<bool>,
    /// Whether a change of its mode needs a reset.
    pub(crate) resets: bool,
    /// The instances that it gets. None leaves those that are there.
    pub(crate) instances: Option<Vec<MigPlace>>,
}

/// What happens to units while GPUs are partitioned.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Units {
    /// They are stopped before, and started afterwards.
    pub paused: Vec<String>,
    /// The same, where the driver's packages bring them: they are not there yet.
    pub expected: Vec<String>,
    /// They are started again afterwards: they list instances for others.
    pub listers: Vec<String>,
}

/// What every boot restores.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AtBoot {
    /// The file of layouts.
    pub layouts: String,
    /// gpusetup, by its absolute path.
    pub program: String,
}

/// What the unit has gpusetup do.
const RESTORE: &str = " mig restore";

/// Seconds that a unit may take to stop or start.
const UNIT_LIMIT: u64 = 180;

/// The plan that gives GPUs these partitions. Instances do not survive a reboot: `at_boot` has
/// every boot restore them.
pub fn partition(
    database: &Database,
    facts: Facts,
    request: Request,
    gpus: &[GpuPartition],
    units: &Units,
    at_boot: Option<&AtBoot>,
) -> Plan {
    let mut acts = beside_units(gpus, units);
    acts.extend(
        at_boot
            .into_iter()
            .flat_map(|at_boot| restored(database, at_boot))
            .map(Act::needed),
    );
    let each: Vec<_> = gpus
        .iter()
        .map(|gpu| format!("{} at {}", gpu.name, gpu.gpu))
        .collect();
    let (title, why) = if gpus.is_empty() {
        (
            "Restore the layout of the GPUs at every boot".to_owned(),
            "instances do not survive a reboot",
        )
    } else {
        (
            format!("Partition {}", each.join(", ")),
            "instances that the layout has, too, stay as they are",
        )
    };
    let steps = if acts.is_empty() {
        Vec::new()
    } else {
        vec![step(StepId::Mig, title, why, acts)]
    };
    let request = Request {
        driver: Want::Nothing,
        cuda: Want::Nothing,
        cudnn: Want::Nothing,
        ..request
    };
    Plan::of(database, facts, request, steps, Vec::new()).summed()
}

/// What is set on GPUs, and the units that stop before it and start again afterwards.
pub(crate) fn beside_units(gpus: &[GpuPartition], units: &Units) -> Vec<Act> {
    let mut acts: Vec<_> = units
        .paused
        .iter()
        .map(|unit| unit_act(stop(unit), start(unit)))
        .collect();
    acts.extend(
        units
            .expected
            .iter()
            .map(|unit| act_where_there(unit, stop(unit), start(unit))),
    );
    // Undo runs backwards: a lister is started again after the instances are restored.
    acts.extend(
        units
            .listers
            .iter()
            .map(|unit| unit_act(stop(unit), start(unit))),
    );
    acts.extend(of_gpus(gpus).into_iter().map(Act::needed));
    acts.extend(
        units
            .listers
            .iter()
            .map(|unit| Act::needed(Run::new(start(unit), UNIT_LIMIT))),
    );
    acts.extend(
        units
            .expected
            .iter()
            .rev()
            .map(|unit| act_where_there(unit, start(unit), stop(unit))),
    );
    acts.extend(
        units
            .paused
            .iter()
            .rev()
            .map(|unit| unit_act(start(unit), stop(unit))),
    );
    acts
}

fn act_where_there(unit: &str, argv: Vec<String>, undo: Vec<String>) -> Act {
    let files = UNIT_FOLDERS
        .iter()
        .map(|folder| Path::new(folder).join(unit));
    Act::needed(
        Run {
            undo,
            ..Run::new(argv, UNIT_LIMIT)
        }
        .where_there(files),
    )
}

/// What is to become of a GPU, for a layout that fits. None if nothing changes, or if the GPU is
/// assumed. A GPU whose state is not known has no instances yet.
pub fn partition_of(
    database: &Database,
    board: &Board,
    geometry: &Geometry,
    wanted: &Wanted,
) -> Option<GpuPartition> {
    let (on, instances) = match wanted {
        Wanted::Layout(layout) => (true, Some(places(board, geometry, layout)?)),
        Wanted::Off if board.has_mode(false) => return None,
        Wanted::Off => {
            let state = board.state.as_ref();
            let has_instances = state.is_some_and(|state| !state.instances.is_empty());
            (false, has_instances.then(Vec::new))
        }
    };
    Some(GpuPartition {
        gpu: board.address.clone()?,
        name: board.name.clone(),
        mode: (!board.has_mode(on)).then_some(on),
        resets: board.must_be_idle(database),
        instances,
    })
}

/// The instances of a layout; none if the GPU has exactly these.
fn places(board: &Board, geometry: &Geometry, layout: &Layout) -> Option<Vec<MigPlace>> {
    let change = needed(board, geometry, layout).ok()?;
    if board.has_mode(true) && change.is_empty() && removed(board, &change).is_empty() {
        return None;
    }
    let placed: Vec<_> = change.keep.iter().chain(&change.create).copied().collect();
    let mut places: Vec<_> = described(geometry, &placed)
        .into_iter()
        .map(|i| MigPlace {
            start: i.start.into(),
            size: i.size.into(),
            profile: i.profile,
            id: i.id,
            compute: None,
        })
        .collect();
    places.sort_unstable();
    Some(places)
}

fn unit_act(argv: Vec<String>, undo: Vec<String>) -> Act {
    Act::needed(Run {
        undo,
        ..Run::new(argv, UNIT_LIMIT)
    })
}

fn stop(unit: &str) -> Vec<String> {
    ["systemctl", "stop", unit].map(str::to_owned).into()
}

/// The command that starts a unit, also one that runs, and does not wait: it may be ordered after
/// the unit that gpusetup runs in, and would wait for its end.
pub fn start(unit: &str) -> Vec<String> {
    ["systemctl", "--no-block", "restart", unit]
        .map(str::to_owned)
        .into()
}

/// What is set on GPUs, in this order: MIG must be on before instances are created, and have none
/// before it goes off; GPUs whose mode waits for a reset are reset together.
pub fn of_gpus(gpus: &[GpuPartition]) -> Vec<Operation> {
    let (off, others): (Vec<_>, Vec<_>) = gpus.iter().partition(|gpu| gpu.mode == Some(false));
    let mut all: Vec<_> = off.into_iter().filter_map(instances).collect();
    all.extend(
        gpus.iter()
            .filter_map(|gpu| Some(set(gpu, DeviceState::MigMode(gpu.mode?)))),
    );
    let reset: Vec<_> = gpus
        .iter()
        .filter(|gpu| gpu.resets && gpu.mode.is_some())
        .collect();
    all.extend(reset.iter().filter_map(|gpu| {
        let others = reset
            .iter()
            .filter(|other| other.gpu != gpu.gpu)
            .map(|other| other.gpu.clone())
            .collect();
        Some(set(
            gpu,
            DeviceState::MigActive {
                on: gpu.mode?,
                others,
            },
        ))
    }));
    all.extend(others.into_iter().filter_map(instances));
    all
}

fn instances(gpu: &GpuPartition) -> Option<Operation> {
    Some(set(gpu, DeviceState::MigInstances(gpu.instances.clone()?)))
}

fn set(gpu: &GpuPartition, state: DeviceState) -> Operation {
    Device {
        gpu: gpu.gpu.clone(),
        state,
        if_supported: false,
    }
    .into()
}

/// The file of layouts, and the unit that restores them at every boot.
pub(crate) fn restored(database: &Database, at_boot: &AtBoot) -> Vec<Operation> {
    let files = [
        (MIG_LAYOUT, at_boot.layouts.clone()),
        (MIG_UNIT, unit(database, &at_boot.program)),
    ];
    let files = files.map(|(path, content)| WriteFile {
        path: path.into(),
        content,
        mode: 0o644,
        merged_from: None,
    });
    let target = "../gpusetup-mig.service".into();
    let wanted = Link {
        path: MIG_WANTED.into(),
        target,
        soname: None,
    };
    let files = files.into_iter().map(Operation::from);
    files.chain([wanted.into()]).collect()
}

/// The unit that restores layouts: after the services that keep GPUs ready, and before those that
/// use instances. So it has none to stop.
fn unit(database: &Database, program: &str) -> String {
    let first = Vec::from_iter(units_of(database, MigRole::starts_first)).join(" ");
    let then = starting_afterwards(database);
    format!(
        "# Written by gpusetup.\n\
         [Unit]\n\
         Description=Restore the MIG instances of the GPUs\n\
         ConditionPathExists={MIG_LAYOUT}\n\
                  After=gpusetup-resume.service {first}\n\
         Before={then}\n\
         \n\
         [Service]\n\
         Type=oneshot\n\
         ExecStartPre=-/sbin/modprobe nvidia\n\
         ExecStart={program}{RESTORE}\n\
         TimeoutStartSec=1h\n\
         \n\
         [Install]\n\
                  WantedBy=multi-user.target\n"
    )
}

/// The program that restores layouts at boot, if the operation writes the unit that does.
pub fn mig_program(operation: &Operation) -> Option<&str> {
    let Operation::WriteFile(file) = operation else {
        return None;
    };
    let command = file
        .content
        .lines()
        .find_map(|line| line.strip_prefix("ExecStart="))?;
    command
        .strip_suffix(RESTORE)
        .filter(|_| file.path == Path::new(MIG_UNIT))
}
