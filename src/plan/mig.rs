//! A plan that partitions GPUs (MIG): units that use the GPUs stop, modes and instances are set, the units start again. Like any plan,
//! it is shown and journalled, and a rollback gives the GPUs their previous state.

use super::context::step;
use super::{Act, Plan, StepId};
use crate::compat::Database;
use crate::host::Facts;
use crate::nvidia::{DeviceState, MigPlace};
use crate::operation::{Device, Link, Operation, Run, WriteFile};
use crate::paths::{MIG_LAYOUT, MIG_UNIT, MIG_WANTED};
use crate::resolve::Request;
use crate::version::Want;

/// What is to become of a GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GpuPartition {
    /// Its bus address.
    pub gpu: String,
    /// Its name.
    pub name: String,
    /// The mode to set. None if it has that mode.
    pub mode: Option<bool>,
    /// The instances that it gets. None leaves those that are there.
    pub instances: Option<Vec<MigPlace>>,
}

/// Seconds that a unit may take to stop or start.
const UNIT_LIMIT: u64 = 180;

/// The plan that gives GPUs these partitions, while these units are stopped. `at_boot` is a file of layouts that every boot restores:
/// instances do not survive a reboot.
pub fn partition(
    database: &Database,
    facts: Facts,
    request: Request,
    gpus: &[GpuPartition],
    units: &[String],
    at_boot: Option<String>,
) -> Plan {
    let systemctl = |verb: &str, back: &str, unit: &String| {
        let argv = |verb: &str| vec!["systemctl".to_owned(), verb.to_owned(), unit.clone()];
        Act::needed(Operation::Run(Run { undo: argv(back), ..Run::new(argv(verb), UNIT_LIMIT) }))
    };
    let mut acts: Vec<_> = units.iter().map(|unit| systemctl("stop", "start", unit)).collect();
    acts.extend(gpus.iter().flat_map(of_gpu));
    acts.extend(units.iter().rev().map(|unit| systemctl("start", "stop", unit)));
    acts.extend(at_boot.into_iter().flat_map(restored));
    let each: Vec<_> = gpus.iter().map(|gpu| format!("{} at {}", gpu.name, gpu.gpu)).collect();
    let (title, why) = if gpus.is_empty() {
        ("Restore the layout of the GPUs at every boot".to_owned(), "instances do not survive a reboot")
    } else {
        (format!("Partition {}", each.join(", ")), "instances that the layout has, too, stay as they are")
    };
    let steps = if acts.is_empty() { Vec::new() } else { vec![step(StepId::Mig, title, why, acts)] };
    let request = Request { driver: Want::Nothing, cuda: Want::Nothing, cudnn: Want::Nothing, ..request };
    Plan::of(database, facts, request, steps, Vec::new()).summed()
}

/// The file of layouts, and the unit that restores them at every boot: after the daemons that keep GPUs ready, and before programs
/// that use instances.
fn restored(layouts: String) -> Vec<Act> {
    let unit = format!(
        "# Written by gpusetup mig apply --at-boot.\n\
         [Unit]\n\
         Description=Restore the MIG instances of the GPUs\n\
         ConditionPathExists={MIG_LAYOUT}\n\
         After=nvidia-persistenced.service nvidia-fabricmanager.service gpusetup-resume.service\n\
         Before=docker.service containerd.service kubelet.service\n\
         \n\
         [Service]\n\
         Type=oneshot\n\
         ExecStart=/usr/bin/env gpusetup mig apply --file {MIG_LAYOUT} --stop-services --unattended\n\
         TimeoutStartSec=600\n\
         \n\
         [Install]\n\
         WantedBy=multi-user.target\n"
    );
    let file = |path: &str, content| WriteFile { path: path.into(), content, mode: 0o644 };
    let target = "../gpusetup-mig.service".into();
    let wanted = Link { path: MIG_WANTED.into(), target, soname: None };
    let all = [
        Operation::WriteFile(file(MIG_LAYOUT, layouts)),
        Operation::WriteFile(file(MIG_UNIT, unit)),
        Operation::Link(wanted),
    ];
    all.into_iter().map(Act::needed).collect()
}

/// MIG must be on before instances are created, and have none before it goes off.
fn of_gpu(gpu: &GpuPartition) -> Vec<Act> {
    let set = |state| Act::needed(Operation::Device(Device { gpu: gpu.gpu.clone(), state, if_supported: false }));
    let mode = gpu.mode.map(|on| set(DeviceState::MigMode(on)));
    let instances = gpu.instances.clone().map(|places| set(DeviceState::MigInstances(places)));
    if gpu.mode == Some(false) {
        instances.into_iter().chain(mode).collect()
    } else {
        mode.into_iter().chain(instances).collect()
    }
}
