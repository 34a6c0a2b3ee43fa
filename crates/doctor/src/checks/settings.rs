//! Whether the settings of the GPUs that gpusetup applied are in force.

use super::super::{Case, Verdict};
use gpusetup_nvidia::{DeviceReadings, StateReading};
use gpusetup_operation::{Device, Operation, Service};
use gpusetup_text::paths::SETTINGS_SERVICE;

/// Compares the settings of the unit with what the GPUs report.
pub(crate) fn settings(case: &Case) -> Verdict {
    let Some(settings) = &case.seen.settings else {
        return Verdict::skip("gpusetup has no settings of GPUs here");
    };
    let all = settings
        .gpus
        .iter()
        .flat_map(|of| of.states.iter().map(move |state| (of, state)));
    let evidence = all.clone().map(|(of, state)| told(of, state));
    if !settings.enabled {
        let unit = Operation::Service(Service {
            unit: SETTINGS_SERVICE.to_owned(),
            enabled: true,
            restart: false,
        });
        let cause = format!(
            "{SETTINGS_SERVICE} is disabled: the GPUs lose their settings when the host reboots"
        );
        return evidence
            .fold(Verdict::warn(cause), Verdict::evidence)
            .repair("enable the unit", [unit]);
    }
    let lost: Vec<_> = all
        .clone()
        .filter(|(_, state)| state.holds() == Some(false))
        .collect();
    if let Some((of, state)) = lost.first() {
        let (name, wanted) = (state.of.name(), state.of.value());
        let others = match lost.len() {
            1 => String::new(),
            count => format!(", and {} other settings differ", count - 1),
        };
        let is = state
            .reading
            .as_ref()
            .and_then(|r| r.chosen())
            .map(|now| now.value())
            .unwrap_or_default();
        let cause = format!(
            "{name} of the GPU {} is {is}, not {wanted} as it was applied{others}",
            of.gpu
        );
        let verdict = evidence.fold(Verdict::warn(cause), Verdict::evidence);
        return verdict.repair(
            "set them again",
            lost.iter().map(|(of, state)| {
                Operation::Device(Device {
                    gpu: of.gpu.clone(),
                    state: state.of.clone(),
                    if_supported: false,
                })
            }),
        );
    }
    if let Some((of, state)) = all.clone().find(|(_, state)| awaits_reset(state)) {
        let cause = format!(
            "{} of the GPU {} will be {} after the next reset",
            state.of.name(),
            of.gpu,
            state.of.value()
        );
        return evidence
            .fold(Verdict::warn(cause), Verdict::evidence)
            .advise("reboot the host", ["sudo reboot"]);
    }
    if settings.gpus.is_empty() {
        return Verdict::skip("the driver does not answer");
    }
    let unsupported = settings.states.iter().find(|wanted| {
        let mut same = all.clone().filter(|(_, state)| state.of == **wanted);
        same.all(|(_, state)| state.is_unsupported())
    });
    match unsupported {
        Some(wanted) => {
            let cause = format!(
                "no GPU of this host supports {} (--{})",
                wanted.name(),
                wanted.option()
            );
            let verdict = evidence.fold(Verdict::warn(cause), Verdict::evidence);
            verdict.advise(
                "apply again without it",
                [format!("gpusetup explain option {}", wanted.option())],
            )
        }
        None => evidence.fold(Verdict::pass(), Verdict::evidence),
    }
}

fn awaits_reset(state: &StateReading) -> bool {
    let reading = state.reading.as_ref();
    reading.is_some_and(|reading| {
        reading.after_reset.is_some() && reading.now.as_ref() != Some(&state.of)
    })
}

fn told(of: &DeviceReadings, state: &StateReading) -> String {
    let name = state.of.name();
    let is = match (
        state
            .reading
            .as_ref()
            .and_then(|reading| reading.now.as_ref()),
        &state.refused,
    ) {
        (Some(now), _) => now.value(),
        (None, Some(_)) if state.is_unsupported() => "not supported".to_owned(),
        (None, Some(refused)) => refused.to_string(),
        (None, None) => "not reported by the driver".to_owned(),
    };
    format!("{}: {name}: {is}", of.gpu)
}
