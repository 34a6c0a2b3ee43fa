//! What NVML, the driver's management library, reports about the driver and each GPU. Nothing is
//! changed.

use super::containers::without_library;
use super::no_driver_of_its_own;
use crate::{Answer, BootLayouts, Case, Verdict, concerned};
use gpusetup_database::gpu_guide::GpuRule;
use gpusetup_gpus::guide;
use gpusetup_host::MachineKind;
use gpusetup_nvidia::{
    ClockLimit, Fabric, FabricState, GpuReading, GpuTable, Recovery, Refused, codes,
};
use gpusetup_operation::{Operation, Service};
use gpusetup_resolve::is_power9;
use gpusetup_text::ids::CheckId;
use gpusetup_text::paths::MIG_LAYOUT;
use gpusetup_text::text::counted;

/// NVML can read every GPU. Other checks report GPU errors (GS903) and version mismatches (GS501).
pub(crate) fn answers(case: &Case) -> Verdict {
    let nvml = match &case.seen.nvml {
        Answer::Is(nvml) => nvml,
        Answer::NotAsked(why) => return Verdict::skip(why.clone()),
        Answer::Failed(why) => {
            return Verdict::fail(format!("NVML does not respond: {why}")).evidence(why.clone()).advise(
                "see what the kernel reports, then reboot: a process that hangs in the driver cannot be killed",
                ["sudo dmesg | grep -E 'NVRM|nvidia'", "sudo reboot"],
            );
        }
    };
    if let Some(refused) = &nvml.refused {
        return unanswered(case, refused);
    }
    let driver = nvml.driver.as_deref().unwrap_or("of unknown version");
    let mut verdicts = vec![Verdict::pass().evidence(format!(
        "NVML: driver {driver}, {}",
        counted(
            answering(nvml).count() as u64,
            "GPU responds",
            "GPUs respond"
        )
    ))];
    let silent = nvml
        .gpus
        .iter()
        .filter_map(|gpu| Some((gpu, gpu.refused.as_ref()?)));
    verdicts.extend(
        silent
            .filter(|(_, refused)| !refused.is_of_faulty_gpu())
            .map(|(gpu, refused)| {
                Verdict::fail(format!(
                    "{{gpus}} {{does|do}} not respond: {}",
                    refused.says
                ))
                .of_gpu(gpu.shown())
                .evidence(format!("{}: {refused}", gpu.shown()))
                .advise("see what the kernel reports", ["sudo dmesg | grep NVRM"])
            }),
    );
    // In a container the bus shows all GPUs of the host; the container may have only some of them.
    let bound = case
        .seen
        .facts
        .gpus
        .iter()
        .filter(|g| g.bound_to.as_deref() == Some("nvidia"))
        .count();
    if case.seen.facts.machine.kind != MachineKind::Container
        && nvml.gpus.len() + (nvml.excluded as usize) < bound
    {
        verdicts.push(
            Verdict::fail(format!(
                "the driver has {bound} GPUs, but NVML lists only {}",
                nvml.gpus.len()
            ))
            .evidence(format!("nvmlDeviceGetCount_v2: {}", nvml.gpus.len()))
            .advise(
                "see why the other GPUs failed to initialise",
                ["sudo dmesg | grep NVRM"],
            ),
        );
    }
    Verdict::worst(verdicts).unwrap_or_else(Verdict::pass)
}

fn unanswered(case: &Case, refused: &Refused) -> Verdict {
    let in_container = case.seen.facts.machine.kind == MachineKind::Container;
    let verdict = match refused.code {
        Some(codes::OTHER_VERSION) if no_driver_of_its_own(case).is_none() => {
            return Verdict::skip(format!(
                "{} reports that the library and the kernel module differ in version",
                CheckId::GS501
            ));
        }
        Some(_) if refused.is_of_faulty_gpu() => {
            return Verdict::skip(format!("{} reports the GPU's error", CheckId::GS903));
        }
        Some(codes::OTHER_VERSION) => {
            Verdict::fail("the driver's libraries in this container do not match the host's driver")
                .advise(
                    "restart the container: it then gets the libraries of the host's driver",
                    [""; 0],
                )
        }
        _ if case.seen.facts.machine.kind == MachineKind::Jetson => {
            Verdict::skip("a Jetson's driver need not support NVML")
        }
        None => without_library(case, "libnvidia-ml.so.1", "utility").unwrap_or_else(|| {
            Verdict::fail("programs cannot find NVML, libnvidia-ml.so.1").advise(
                "install the driver's libraries",
                ["sudo ldconfig", "gpusetup plan"],
            )
        }),
        Some(codes::NO_PERMISSION) => {
            Verdict::warn("this user has no access to the driver: the GPUs were not checked")
                .advise(
                    "check the permissions of the devices, or run doctor as root",
                    ["ls -l /dev/nvidia*", "sudo gpusetup doctor"],
                )
        }
        Some(codes::NOT_LOADED) => Verdict::fail("NVML reports that the driver is not loaded")
            .advise(
                "load the module; the kernel's log then shows the cause",
                ["sudo modprobe nvidia", "sudo dmesg | tail"],
            ),
        // A systemd reload removes containers' access to the devices: nvidia-container-toolkit's
        // issues 48 and 251.
        Some(codes::UNKNOWN | codes::BLOCKED_BY_SYSTEM) if in_container => Verdict::fail(
            "the container has lost access to the GPUs' devices: its cgroup was reset",
        )
        .advise(
            "restart the container; on the host, pass the devices by CDI",
            ["ls -l /dev/nvidia*"],
        ),
        Some(_) => Verdict::fail(format!("NVML does not start: {}", refused.says)).advise(
            "see what the kernel reports; reboot if the driver hangs",
            ["sudo dmesg | grep NVRM", "sudo reboot"],
        ),
    };
    verdict.evidence(refused.to_string())
}

fn answering(nvml: &GpuTable) -> impl Iterator<Item = &GpuReading> {
    nvml.gpus.iter().filter(|g| g.refused.is_none())
}

/// NVML's message if its library does not match the loaded module.
pub(crate) fn mismatch(case: &Case) -> Option<String> {
    let Answer::Is(nvml) = &case.seen.nvml else {
        return None;
    };
    nvml.refused
        .as_ref()
        .filter(|r| r.code == Some(codes::OTHER_VERSION))
        .map(Refused::to_string)
}

/// Faults of GPUs that NVML reports.
pub(crate) fn faults(case: &Case) -> Vec<Verdict> {
    let Answer::Is(nvml) = &case.seen.nvml else {
        return Vec::new();
    };
    let whole = nvml.refused.iter().map(|refused| (None, refused));
    let each = nvml
        .gpus
        .iter()
        .filter_map(|g| Some((Some(g.shown()), g.refused.as_ref()?)));
    let sick = whole
        .chain(each)
        .filter(|(_, refused)| refused.is_of_faulty_gpu());
    sick.map(|(gpu, refused)| {
        let reset = if gpu.is_some() {
            "sudo nvidia-smi --gpu-reset -i {gpus}"
        } else {
            "sudo nvidia-smi --gpu-reset"
        };
        let (cause, text, command) = match refused.code {
            Some(codes::NO_POWER) => (
                "{lacks|lack} power cables",
                "connect all power cables",
                "sudo poweroff",
            ),
            Some(codes::NO_INTERRUPTS) => (
                "cannot deliver interrupts to the driver",
                "try another PCI slot or firmware version",
                "sudo dmesg | grep NVRM",
            ),
            Some(codes::BAD_INFOROM) => (
                "{has|have} a damaged infoROM",
                "ask the vendor for a replacement",
                "nvidia-smi -q",
            ),
            Some(codes::RESET_REQUIRED) => (
                "must be reset before {it|they} can be used",
                "stop the programs that use the GPU, then reset it",
                reset,
            ),
            _ => (
                "{is|are} lost: {it|they} no longer {responds|respond} on the PCI bus",
                "reboot; if the error returns, check power, cooling and the slot",
                "sudo reboot",
            ),
        };
        match gpu {
            Some(gpu) => Verdict::fail(format!("{{gpus}} {cause}"))
                .of_gpu(gpu)
                .evidence(format!("{gpu}: {refused}")),
            None => Verdict::fail(concerned::sentence(
                &format!("a GPU {cause}"),
                &[String::new()],
                1,
            ))
            .evidence(refused.to_string()),
        }
        .advise(text, [command])
    })
    .collect()
}

/// The GPUs that respond to NVML, or why there are none.
fn gpus<'a>(case: &'a Case) -> Result<Vec<&'a GpuReading>, Verdict> {
    match &case.seen.nvml {
        Answer::NotAsked(why) => Err(Verdict::skip(why.clone())),
        Answer::Failed(_) => Err(Verdict::skip("NVML does not respond")),
        Answer::Is(nvml) if nvml.refused.is_some() => Err(Verdict::skip("NVML does not respond")),
        Answer::Is(nvml) => Ok(answering(nvml).collect()),
    }
}

/// For all GPUs that a verdict concerns.
fn reset(gpu: &GpuReading) -> String {
    let which = if gpu.address.is_some() {
        " -i {gpus}"
    } else {
        ""
    };
    format!("sudo nvidia-smi --gpu-reset{which}")
}

/// Memory, power and temperature. The remedies are NVIDIA's:
/// <https://docs.nvidia.com/deploy/a100-gpu-mem-error-mgmt/index.html>,
/// <https://docs.nvidia.com/deploy/dynamic-page-retirement/index.html>.
pub(crate) fn health(case: &Case) -> Verdict {
    let gpus = match gpus(case) {
        Ok(gpus) => gpus,
        Err(skip) => return skip,
    };
    let each = gpus.into_iter().flat_map(|gpu| {
        [
            Some(well(gpu)),
            rows(gpu),
            pages(gpu),
            errors(gpu),
            switched(gpu),
            recovery(gpu),
            slowed(gpu),
        ]
    });
    Verdict::worst(each.flatten()).unwrap_or_else(|| Verdict::skip("no GPU responds"))
}

fn well(gpu: &GpuReading) -> Verdict {
    let heat = gpu.temperature.map(|t| format!("{} C", t.gpu_celsius));
    let power = gpu.power.and_then(|p| {
        let limit = p.limit_milliwatts?;
        Some(format!(
            "{} of {} W",
            p.draw_milliwatts / 1000,
            limit / 1000
        ))
    });
    let ecc = gpu
        .ecc
        .map(|ecc| match (ecc.enabled, ecc.aggregate.uncorrected) {
            (false, _) => "no error correction".to_owned(),
            (true, Some(count)) => format!("{count} uncorrected memory errors in its lifetime"),
            (true, None) => "error correction".to_owned(),
        });
    let rows = gpu
        .remapped_rows
        .map(|r| format!("{} rows remapped", r.corrected + r.uncorrected));
    let pages = gpu
        .retired_pages
        .map(|p| format!("{} pages retired", p.single_bit + p.double_bit));
    let all: Vec<_> = [heat, power, ecc, rows, pages]
        .into_iter()
        .flatten()
        .collect();
    Verdict::pass().evidence(format!("{}: {}", gpu.shown(), all.join(", ")))
}

fn rows(gpu: &GpuReading) -> Option<Verdict> {
    let rows = gpu.remapped_rows?;
    let at = gpu.shown();
    let evidence = format!(
        "{at}: {} rows remapped, {} of them for uncorrected errors",
        rows.corrected + rows.uncorrected,
        rows.uncorrected
    );
    if rows.failed {
        return Some(
            Verdict::fail("the memory of {gpus} has no spare rows left to replace bad ones")
                .of_gpu(at)
                .evidence(evidence)
                .advise(
                    "confirm it with NVIDIA's field diagnostic, then have the board replaced",
                    ["nvidia-smi -q -d ROW_REMAPPER", "dcgmi diag -r 3"],
                ),
        );
    }
    rows.pending.then(|| {
        Verdict::warn(
            "the memory of {gpus} has bad rows, which spare rows replace at the next reset",
        )
        .of_gpu(at)
        .evidence(evidence)
        .advise(
            "let running programs finish, then reset the GPU",
            [reset(gpu)],
        )
    })
}

fn pages(gpu: &GpuReading) -> Option<Verdict> {
    let pages = gpu.retired_pages?;
    let at = gpu.shown();
    let all = pages.single_bit + pages.double_bit;
    let evidence = format!(
        "{at}: {all} pages retired, {} of them for errors of two bits",
        pages.double_bit
    );
    // From this count on NVIDIA considers replacing a board; at most 64 pages can be retired.
    if guide()
        .rule(GpuRule::ManyRetired)
        .limit
        .is_some_and(|limit| all as u64 >= limit)
    {
        return Some(
            Verdict::fail(
                "so many memory pages of {gpus} are retired that the limit of 64 is near",
            )
            .of_gpu(at)
            .evidence(evidence)
            .advise(
                "ask the vendor for a replacement board",
                ["nvidia-smi -q -d PAGE_RETIREMENT"],
            ),
        );
    }
    pages.pending.then(|| {
        Verdict::warn("{gpus} still {uses|use} bad memory pages")
            .of_gpu(at)
            .evidence(evidence)
            .advise(
                "reset the GPU or reboot to retire the pages",
                [reset(gpu), "sudo reboot".to_owned()],
            )
    })
}

fn errors(gpu: &GpuReading) -> Option<Verdict> {
    let count = gpu.ecc?.volatile.uncorrected.filter(|n| *n > 0)?;
    let at = gpu.shown();
    let cause = "the memory of {gpus} had uncorrectable errors since the driver was loaded";
    Some(
        Verdict::warn(cause)
            .of_gpu(at)
            .evidence(format!("{at}: {count} uncorrected, volatile"))
            .advise(
                "reset the GPU when it is idle; if the errors return, test its memory",
                [reset(gpu), "dcgmi diag -r 3".to_owned()],
            ),
    )
}

/// Whether the ECC mode was changed: <https://docs.nvidia.com/deploy/nvidia-smi/> says that this
/// takes a reboot.
fn switched(gpu: &GpuReading) -> Option<Verdict> {
    let ecc = gpu.ecc.filter(|ecc| ecc.enabled != ecc.pending)?;
    let at = gpu.shown();
    let cause = format!(
        "the ECC mode of {{gpus}} was changed and is {} only after a reboot",
        on_or_off(ecc.pending)
    );
    let evidence = format!(
        "{at}: ECC {}, pending {}",
        on_or_off(ecc.enabled),
        on_or_off(ecc.pending)
    );
    Some(Verdict::warn(cause).of_gpu(at).evidence(evidence).advise(
        "reboot when running programs have finished",
        ["sudo reboot"],
    ))
}

fn recovery(gpu: &GpuReading) -> Option<Verdict> {
    let at = gpu.shown();
    let (what, commands) = match gpu.recovery? {
        Recovery::None => return None,
        Recovery::Reset => ("a reset", vec![reset(gpu)]),
        Recovery::Reboot => ("a reboot", vec!["sudo reboot".to_owned()]),
        Recovery::DrainP2p => (
            "all peer-to-peer work on {it|them} to stop",
            vec!["nvidia-smi".to_owned()],
        ),
        Recovery::DrainAndReset => (
            "no new work, and a reset when {it is|they are} idle",
            vec![reset(gpu)],
        ),
    };
    Some(
        Verdict::fail(format!(
            "{{gpus}} had an error, and the driver requests {what}"
        ))
        .of_gpu(at)
        .evidence(format!("{at}: recovery action: {:?}", gpu.recovery?))
        .advise("stop the programs that use the GPU, then do that", commands),
    )
}

/// The reasons for lower clocks that indicate a problem, worst first. The hardware's general
/// slowdown is none: it is also reported while clocks change.
const SICK_LIMITS: [ClockLimit; 3] = [
    ClockLimit::PowerBrake,
    ClockLimit::HardwareThermal,
    ClockLimit::SoftwareThermal,
];

fn slowed(gpu: &GpuReading) -> Option<Verdict> {
    let at = gpu.shown();
    let limits = gpu.clock_limits.as_deref()?;
    let (cause, text) = match SICK_LIMITS.iter().find(|limit| limits.contains(limit))? {
        ClockLimit::PowerBrake => (
            "the power supply throttles {gpus}",
            "check the host's power supplies and cables",
        ),
        ClockLimit::HardwareThermal => (
            "{gpus} {is|are} too hot and {runs|run} at half speed or less",
            "check fans and airflow",
        ),
        _ => (
            "{gpus} {is|are} above the target temperature and throttled",
            "check fans and airflow",
        ),
    };
    let heat = gpu
        .temperature
        .map(|t| format!(", {} C", t.gpu_celsius))
        .unwrap_or_default();
    Some(
        Verdict::warn(cause)
            .of_gpu(at)
            .evidence(format!("{at}: clocks limited by {limits:?}{heat}"))
            .advise(text, ["nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER"]),
    )
}

fn on_or_off(on: bool) -> &'static str {
    if on { "on" } else { "off" }
}

fn is_of_data_center(case: &Case, gpu: &GpuReading) -> bool {
    let mut known = case.seen.facts.gpus.iter().zip(&case.cards);
    let card = known.find(|(g, _)| Some(&g.address) == gpu.address.as_ref());
    card.is_some_and(|(_, card)| card.as_ref().is_ok_and(|c| c.data_center))
}

/// Only for data-centre GPUs: elsewhere a display keeps the driver loaded, or a battery needs the
/// GPU to power down. <https://docs.nvidia.com/deploy/driver-persistence/persistence-daemon.html>
pub(crate) fn persistence(case: &Case) -> Verdict {
    let gpus = match gpus(case) {
        Ok(gpus) => gpus,
        Err(skip) => return skip,
    };
    if no_driver_of_its_own(case).is_some() {
        return Verdict::skip("this system does not manage the driver");
    }
    if gpus.iter().any(|g| g.has_display()) {
        return Verdict::skip("a display is attached, which keeps the GPU initialised");
    }
    let each = gpus.into_iter().filter(|gpu| is_of_data_center(case, gpu)).filter_map(|gpu| {
        let at = gpu.shown();
        let on = gpu.persistence?;
        let evidence = format!("{at}: persistence {}", on_or_off(on));
        if on {
            return Some(Verdict::pass().evidence(evidence));
        }
        if is_power9(&case.seen.facts) {
            let cause = "nvidia-persistenced does not keep {gpus} initialised: on POWER9, CUDA does not start without it";
            let text = "set it up, and the rule of udev, as the plan's warning says";
            return Some(Verdict::fail(cause).of_gpu(at).evidence(evidence).advise(text, ["gpusetup plan"]));
        }
        let cause = "the driver shuts down {gpus} when {it is|they are} not in use, and needs seconds to initialise {it|them} again";
        let verdict = Verdict::warn(cause).of_gpu(at).evidence(evidence);
        Some(if case.seen.persistenced == Some(true) {
            verdict.evidence("nvidia-persistenced runs, with --no-persistence-mode").advise(
                "remove that option from its unit, or enable persistence mode until the next boot",
                ["sudo systemctl edit --full nvidia-persistenced", "sudo nvidia-smi -pm 1"],
            )
        } else if case.seen.has_persistence_unit {
            let daemon = Operation::Service(Service { unit: "nvidia-persistenced.service".to_owned(), enabled: true, restart: false });
            verdict.repair("enable the persistence daemon", [daemon])
        } else {
            let text = "install the package nvidia-persistenced, or enable persistence mode until the next boot";
            verdict.advise(text, ["sudo nvidia-smi -pm 1"])
        })
    });
    Verdict::worst(each).unwrap_or_else(|| Verdict::skip("the host has no data-centre GPU"))
}

/// Whether the MIG mode that was set is active, and the GPUs have the layouts that boots restore.
pub(crate) fn mig(case: &Case) -> Verdict {
    let gpus = match gpus(case) {
        Ok(gpus) => gpus,
        Err(skip) => return skip,
    };
    let each = gpus.into_iter().filter_map(|gpu| Some((gpu, gpu.mig.as_ref()?))).map(|(gpu, mig)| {
        let at = gpu.shown();
        let evidence = format!("{at}: MIG {}, {} instances", on_or_off(mig.enabled), mig.devices.len());
        if mig.enabled == mig.pending {
            return Verdict::pass().evidence(evidence);
        }
        let cause = format!(
            "MIG was switched {} on {{gpus}}, but {{it has|they have}} not been reset since",
            on_or_off(mig.pending)
        );
        let verdict = case.seen
            .holders
            .iter()
            .fold(Verdict::warn(cause).of_gpu(at).evidence(evidence), |v, who| v.evidence(format!("in use by {who}")));
        let drm = case.seen.facts.loaded_modules.iter().flatten().any(|m| m.name == "nvidia_drm");
        let verdict = if drm { verdict.evidence("nvidia_drm is loaded and may also keep the GPU in use") } else { verdict };
        verdict.advise(
            "stop the programs that use the GPU, then reset it; reboot if it cannot be reset (in a virtual machine)",
            [reset(gpu), "sudo reboot".to_owned()],
        )
    });
    let layouts = case.seen.boot_layouts.iter().flat_map(boot_layouts);
    Verdict::worst(each.chain(layouts))
        .unwrap_or_else(|| Verdict::skip("no GPU of this host supports MIG"))
}

/// The GPUs that do not have the layout that boots restore.
fn boot_layouts(layouts: &BootLayouts) -> Vec<Verdict> {
    const RESTORE: [&str; 2] = [
        "sudo gpusetup mig restore",
        "journalctl -b -u gpusetup-mig.service",
    ];
    let problem = layouts.problem.iter().map(|problem| {
        Verdict::warn(format!(
            "the MIG layouts of {MIG_LAYOUT} cannot be restored: {problem}"
        ))
        .advise(
            "write the layouts of the GPUs again",
            ["sudo gpusetup mig apply --at-boot LAYOUT"],
        )
    });
    let differs = layouts.gpus.iter().filter(|gpu| !gpu.holds).map(|gpu| {
        Verdict::warn(format!(
            "{{gpus}} {{has|have}} the MIG layout {}, and boots restore {}",
            gpu.found, gpu.wanted
        ))
        .of_gpu(gpu.gpu.as_str())
        .evidence(format!(
            "{}: layout {}, {MIG_LAYOUT}: {}",
            gpu.gpu, gpu.found, gpu.wanted
        ))
        .advise(
            "restore it; the log of the unit says why the boot did not",
            RESTORE,
        )
    });
    problem.chain(differs).collect()
}

/// GPUs that are not in their fabric: bus address and state.
pub(crate) fn outside_fabric(case: &Case) -> Vec<(String, String)> {
    let told = gpus(case).unwrap_or_default();
    let fabric = told
        .into_iter()
        .filter_map(|gpu| Some((gpu.shown().to_owned(), gpu.fabric?)));
    fabric
        .filter_map(|(at, fabric)| Some((at, outside(fabric)?)))
        .collect()
}

fn outside(fabric: Fabric) -> Option<String> {
    match fabric {
        Fabric {
            state: FabricState::NotStarted,
            ..
        } => Some("not started".to_owned()),
        Fabric {
            state: FabricState::InProgress,
            ..
        } => Some("in progress".to_owned()),
        Fabric {
            state: FabricState::Completed,
            status: 0,
        } => None,
        Fabric {
            state: FabricState::Completed,
            status,
        } => Some(format!("failed ({status})")),
    }
}

/// How many GPUs are in their fabric.
pub(crate) fn inside_fabric(case: &Case) -> usize {
    let told = gpus(case).unwrap_or_default();
    told.into_iter()
        .filter_map(|gpu| gpu.fabric)
        .filter(|f| outside(*f).is_none())
        .count()
}
