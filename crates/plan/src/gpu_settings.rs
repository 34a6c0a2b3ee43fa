//! The step that sets pieces of the GPUs' state: at once, and at each boot by a unit, since the
//! driver forgets most of them. The unit runs only `nvidia-smi`, so it works without gpusetup.

use super::context::{StepContext, exists, skipped, step};
use super::gpu_services::starting_afterwards;
use super::{Act, Step, StepId, Warning};
use gpusetup_database::compat::Database;
use gpusetup_host::{Facts, Gpu, MachineKind, STATES_KEY};
use gpusetup_nvidia::{DeviceReadings, DeviceState, StateReading};
use gpusetup_operation::{Device, Operation, Service, WriteFile};
use gpusetup_resolve::{Conflict, Request, Settings};
use gpusetup_system::Node;
use gpusetup_text::ids::CheckId;
use gpusetup_text::paths::{
    PERSISTENCE_UNITS, PERSISTENCE_WANTED, SETTINGS_SERVICE, SETTINGS_UNIT, SETTINGS_WANTED,
};
use std::collections::BTreeSet;
use std::path::Path;

const TITLE: &str = "Set the GPUs";
/// The unit of the persistence daemon.
const DAEMON: &str = "nvidia-persistenced.service";

/// The step that sets the GPUs.
pub(crate) fn gpu_settings(context: &StepContext, database: &Database) -> Step {
    let states = &context.request.settings.states;
    if let Some(why) = not_here(context) {
        return skipped(StepId::GpuSettings, TITLE, why);
    }
    let unit = context.file(unit(database, context.facts, context.request, states));
    let enabled = matches!(
        context.facts.node(Path::new(SETTINGS_WANTED)),
        Some(Node::Link { .. })
    );
    let mut acts = daemon(context).into_iter().collect::<Vec<_>>();
    acts.extend(devices(context, unit.satisfied));
    let service = Service {
        unit: SETTINGS_SERVICE.to_owned(),
        enabled: true,
        restart: false,
    };
    acts.extend([
        unit,
        Act {
            operation: service.into(),
            satisfied: enabled,
        },
    ]);
    let all: Vec<_> = states
        .iter()
        .map(|state| format!("{}: {}", state.option(), state.value()))
        .collect();
    let mut why = match context.facts.machine.is_offline_root && context.facts.gpu_states.is_empty()
    {
        true => format!("{}; a unit sets them when the tree boots", all.join(", ")),
        false => format!("{}; a unit sets them again at each boot", all.join(", ")),
    };
    // What a driver has that does not run yet is not known; where it is, a step reboots.
    if context.facts.gpu_states.is_empty()
        && states
            .iter()
            .any(|state| matches!(state, DeviceState::Ecc(_)))
    {
        why += "; if that changes error correction (ECC), it does so at the reboot after that";
    }
    step(StepId::GpuSettings, TITLE, why, acts)
}

/// Why nothing is set, if so.
fn not_here(context: &StepContext) -> Option<&'static str> {
    if context.request.settings.states.is_empty() {
        return Some("no settings were requested");
    }
    if context.facts.machine.kind == MachineKind::Container {
        return Some("the host of a container sets its GPUs");
    }
    context
        .chosen
        .driver
        .is_none()
        .then_some("this plan installs no driver")
}

/// Enables the persistence daemon, where its unit is.
fn daemon(context: &StepContext) -> Option<Act> {
    let wants = context
        .request
        .settings
        .states
        .contains(&DeviceState::Persistence(true));
    let facts = context.facts;
    if !wants || !PERSISTENCE_UNITS.iter().any(|path| exists(facts, path)) {
        return None;
    }
    let readings = &facts.gpu_states;
    let satisfied = exists(facts, PERSISTENCE_WANTED)
        || !readings.is_empty()
            && readings.iter().all(|of| {
                of.states
                    .iter()
                    .any(|s| s.of == DeviceState::Persistence(true) && s.holds() == Some(true))
            });
    Some(Act {
        operation: Service {
            unit: DAEMON.to_owned(),
            enabled: true,
            restart: false,
        }
        .into(),
        satisfied,
    })
}

/// One operation for each GPU and state. A driver that does not run yet was not asked which GPUs
/// support what. `planned`: the unit for the next boots is already there.
fn devices(context: &StepContext, planned: bool) -> Vec<Act> {
    let (facts, request) = (context.facts, context.request);
    if !facts.gpu_states.is_empty() {
        let supported = included(facts, request).filter(|(_, state)| !state.is_unsupported());
        return supported
            .map(|(of, state)| Act {
                operation: set(&of.gpu, &state.of, false),
                satisfied: state.holds().unwrap_or(planned),
            })
            .collect();
    }
    if facts.machine.is_offline_root {
        return Vec::new();
    }
    let gpus = facts
        .gpus
        .iter()
        .filter(|gpu| !gpu.assumed && is_included(request, gpu));
    let states = &request.settings.states;
    gpus.flat_map(|gpu| states.iter().map(|state| set(&gpu.address, state, true)))
        .map(Act::needed)
        .collect()
}

fn set(gpu: &str, state: &DeviceState, if_supported: bool) -> Operation {
    Operation::Device(Device {
        gpu: gpu.to_owned(),
        state: state.clone(),
        if_supported,
    })
}

fn is_included(request: &Request, gpu: &Gpu) -> bool {
    !request.leaves_out(gpu) && gpu.bound_to.as_deref() != Some("vfio-pci")
}

/// The readings of the GPUs that are set.
fn included<'a>(
    facts: &'a Facts,
    request: &'a Request,
) -> impl Iterator<Item = (&'a DeviceReadings, &'a StateReading)> {
    let all = facts
        .gpu_states
        .iter()
        .filter(|of| !request.leave_out.contains(&of.gpu));
    all.flat_map(|of| of.states.iter().map(move |state| (of, state)))
}

/// The unit that sets the states at each boot.
fn unit(
    database: &Database,
    facts: &Facts,
    request: &Request,
    states: &[DeviceState],
) -> Operation {
    // Without a GPU's name the settings follow the GPUs, whatever slot they are moved to.
    let left_out = facts
        .gpus
        .iter()
        .any(|gpu| !gpu.assumed && !is_included(request, gpu));
    let named = facts
        .gpus
        .iter()
        .filter(|gpu| left_out && !gpu.assumed && is_included(request, gpu));
    let mut chosen: Vec<_> = named.map(|gpu| format!("-i {} ", gpu.address)).collect();
    if chosen.is_empty() {
        chosen.push(String::new());
    }
    let commands = chosen.iter().flat_map(|gpu| {
        // A GPU that does not support one setting must not keep the others from being set.
        states.iter().map(move |state| {
            format!(
                "ExecStart=-/usr/bin/nvidia-smi {gpu}{}\n",
                state.smi().join(" ")
            )
        })
    });
    // States are enums, numbers and lists: they can always be written.
    let json = serde_json::to_string(states).unwrap_or_default();
    let content = format!(
        "# Written by gpusetup: the driver forgets these settings when the host reboots.\n\
         [Unit]\n\
         Description=Settings of the NVIDIA GPUs\n\
         ConditionPathExists=/usr/bin/nvidia-smi\n\
         After={DAEMON} gpusetup-mig.service\n\
         Before={}\n\
         \n\
         [Service]\n\
         Type=oneshot\n\
         RemainAfterExit=yes\n\
         {}\
         \n\
         [Install]\n\
         WantedBy=multi-user.target\n\
         \n\
         [X-gpusetup]\n\
         {STATES_KEY}{json}\n",
        starting_afterwards(database),
        commands.collect::<String>()
    );
    Operation::WriteFile(WriteFile {
        path: SETTINGS_UNIT.into(),
        content,
        mode: 0o644,
        merged_from: None,
    })
}

/// Refuses a setting that no GPU supports, or whose value a GPU does not accept.
pub(crate) fn not_refused(facts: &Facts, request: &Request) -> Result<(), Conflict> {
    if facts.machine.kind == MachineKind::Container {
        return Ok(());
    }
    for (of, state) in included(facts, request) {
        let range = state.reading.as_ref().and_then(|reading| reading.range);
        let Some(range) = range.filter(|range| !state.of.is_within(*range)) else {
            continue;
        };
        let (name, value) = (state.of.name(), state.of.value());
        let sentence = format!(
            "{} accepts {} as {name}, not {value} (--{})",
            shown(of),
            state.of.shown_range(range),
            state.of.option()
        );
        let query = if matches!(state.of, DeviceState::PowerLimit(_)) {
            "POWER"
        } else {
            "SUPPORTED_CLOCKS"
        };
        return Err(Conflict::blocked(CheckId::GS521, sentence).hint(format!(
            "nvidia-smi -i {} -q -d {query} shows what it accepts",
            of.gpu
        )));
    }
    for wanted in &request.settings.states {
        let mut all = included(facts, request)
            .filter(|(_, state)| state.of == *wanted)
            .peekable();
        let Some((first, _)) = all.peek().copied() else {
            continue;
        };
        if all.all(|(_, state)| state.is_unsupported()) {
            let sentence = format!(
                "{} does not support {} (--{})",
                shown(first),
                wanted.name(),
                wanted.option()
            );
            return Err(Conflict::blocked(CheckId::GS521, sentence).hint(format!(
                "leave --{} out; nvidia-smi -q shows N/A for what a GPU lacks",
                wanted.option()
            )));
        }
    }
    Ok(())
}

fn shown(of: &DeviceReadings) -> String {
    match &of.name {
        Some(name) => format!("the GPU {} ({name})", of.gpu),
        None => format!("the GPU {}", of.gpu),
    }
}

/// Names the GPUs that lack a setting that others have.
pub(crate) fn warnings(context: &StepContext) -> Vec<Warning> {
    if not_here(context).is_some() {
        return Vec::new();
    }
    let mut warnings: Vec<_> = forgotten(context)
        .into_iter()
        .chain(dropped(context))
        .collect();
    let lacking =
        included(context.facts, context.request).filter(|(_, state)| state.is_unsupported());
    let lacking: BTreeSet<_> = lacking
        .map(|(of, state)| (state.of.name(), shown(of)))
        .collect();
    let texts = lacking
        .into_iter()
        .map(|(name, gpu)| format!("{gpu} does not support {name}, and is left as it is"));
    warnings.extend(Warning::each(CheckId::GS521, texts));
    warnings
}

/// The warning if the unit for boots had settings that this request does not name: they are no
/// longer set.
fn dropped(context: &StepContext) -> Option<Warning> {
    let states = &context.request.settings.states;
    let earlier = context.facts.states_at_boot.iter().flatten();
    let dropped = Settings {
        states: earlier
            .filter(|old| !states.iter().any(|state| state.option() == old.option()))
            .cloned()
            .collect(),
        ..Settings::default()
    };
    if dropped.states.is_empty() {
        return None;
    }
    let names: Vec<_> = dropped.states.iter().map(|state| state.name()).collect();
    let text = format!(
        "boots no longer set {}, which an earlier apply requested: add {} to keep that",
        names.join(", "),
        dropped.options().join(" ")
    );
    Some(Warning::new(CheckId::GS521, text))
}

/// The warning if the driver forgets settings as soon as no program uses a GPU.
/// <https://docs.nvidia.com/deploy/nvml-api/group__nvmlDeviceCommands.html>
fn forgotten(context: &StepContext) -> Option<Warning> {
    let states = &context.request.settings.states;
    let volatile = states
        .iter()
        .find(|state| !matches!(state, DeviceState::Ecc(_) | DeviceState::Persistence(_)))?;
    let has_daemon = matches!(
        context.facts.node(Path::new(PERSISTENCE_WANTED)),
        Some(Node::Link { .. })
    );
    if has_daemon || states.contains(&DeviceState::Persistence(true)) {
        return None;
    }
    let name = volatile.name();
    let text = format!(
        "without persistence mode the driver forgets {name} when no program uses the GPU; add --persistence on"
    );
    Some(Warning::new(CheckId::GS521, text))
}

/// Why a setting needs a reboot: error correction changes when a GPU is reset.
pub(crate) fn why_reboot(context: &StepContext) -> Option<String> {
    if not_here(context).is_some() {
        return None;
    }
    let waiting = included(context.facts, context.request).filter(|(_, state)| {
        let reading = state.reading.as_ref();
        let now = reading.and_then(|reading| reading.now.as_ref());
        matches!(state.of, DeviceState::Ecc(_)) && now.is_some_and(|now| *now != state.of)
    });
    let mut gpus: Vec<_> = waiting.map(|(of, _)| of.gpu.as_str()).collect();
    gpus.dedup();
    let gpus = match gpus.as_slice() {
        [] => return None,
        [gpu] => format!("the GPU {gpu}"),
        several => format!("{} GPUs", several.len()),
    };
    Some(format!(
        "error correction (ECC) of {gpus} changes when the host reboots"
    ))
}
