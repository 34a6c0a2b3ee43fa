//! What NVML, the driver's management library, tells of the driver and of each GPU. Nothing is changed, whatever it tells.

use super::containers::without_library;
use super::no_driver_of_its_own;
use crate::doctor::{Answer, Evidence, Verdict};
use crate::host::MachineKind;
use crate::ids::CheckId;
use crate::nvidia::{Fabric, FabricState, Nvml, NvmlGpu, Recovery, Refused, Slowdown};
use crate::operation::{Operation, Service};
use crate::text::quoted;

/// The driver answers: what is refused for a fault of a GPU, or for a library of another version, other checks tell of.
pub fn answers(seen: &Evidence) -> Verdict {
    let nvml = match &seen.nvml {
        Answer::Is(nvml) => nvml,
        Answer::NotAsked(why) => return Verdict::skip(why.clone()),
        Answer::Failed(why) => {
            return Verdict::fail(format!("the driver does not answer: {why}")).saw(why.clone()).advise(
                "see what the kernel says of it, then boot: what hangs in the driver cannot be ended",
                ["sudo dmesg | grep -E 'NVRM|nvidia'", "sudo reboot"],
            );
        }
    };
    if let Some(refused) = &nvml.refused {
        return unanswered(seen, refused);
    }
    let driver = nvml.driver.as_deref().unwrap_or("of unknown version");
    let mut verdicts =
        vec![Verdict::pass().saw(format!("NVML: driver {driver}, {} GPUs answer", answering(nvml).count()))];
    let silent = nvml.gpus.iter().filter_map(|gpu| Some((gpu, gpu.refused.as_ref()?)));
    verdicts.extend(silent.filter(|(_, refused)| !is_fault(refused)).map(|(gpu, refused)| {
        Verdict::fail(format!("the GPU {} does not answer: {}", gpu.shown(), refused.says))
            .saw(refused.to_string())
            .advise("see what the kernel says of it", ["sudo dmesg | grep NVRM"])
    }));
    // In a container the bus shows the host's GPUs, of which it may have been given some.
    let bound = seen.facts.gpus.iter().filter(|g| g.bound_to.as_deref() == Some("nvidia")).count();
    if seen.facts.machine.kind != MachineKind::Container && nvml.gpus.len() + (nvml.excluded as usize) < bound {
        verdicts.push(
            Verdict::fail(format!("the driver has {bound} GPUs, and answers for {} of them", nvml.gpus.len()))
                .saw(format!("nvmlDeviceGetCount_v2: {}", nvml.gpus.len()))
                .advise("see why the others did not come up", ["sudo dmesg | grep NVRM"]),
        );
    }
    Verdict::worst(verdicts).unwrap_or_else(Verdict::pass)
}

fn unanswered(seen: &Evidence, refused: &Refused) -> Verdict {
    let in_container = seen.facts.machine.kind == MachineKind::Container;
    let verdict = match refused.code {
        Some(MISMATCH) if no_driver_of_its_own(seen).is_none() => {
            return Verdict::skip(format!("{} tells of a library and a module of different versions", CheckId::GS501));
        }
        Some(_) if is_fault(refused) => return Verdict::skip(format!("{} tells of a GPU's fault", CheckId::GS903)),
        Some(MISMATCH) => Verdict::fail("the host's driver is of another version than the libraries here")
            .advise("start the container anew: it then gets the libraries of the host's driver", [""; 0]),
        _ if seen.facts.machine.kind == MachineKind::Jetson => {
            Verdict::skip("a Jetson's driver need not speak for its GPU by NVML")
        }
        None => without_library(seen, "libnvidia-ml.so.1", "utility").unwrap_or_else(|| {
            Verdict::fail("programs find no libnvidia-ml.so.1, by which everybody asks the driver")
                .advise("install the driver's libraries", ["sudo ldconfig", "gpusetup plan"])
        }),
        Some(NO_PERMISSION) => Verdict::warn("this user may not ask the driver: what it would say was not seen")
            .advise("look who may use the devices, or ask as root", ["ls -l /dev/nvidia*", "sudo gpusetup doctor"]),
        Some(NOT_LOADED) => Verdict::fail("the driver's library says that the driver is not loaded").advise(
            "load it; what the kernel says then names the cause",
            ["sudo modprobe nvidia", "sudo dmesg | tail"],
        ),
        // A reload of systemd takes the devices away from containers: nvidia-container-toolkit's issues 48 and 251.
        Some(UNKNOWN | BY_SYSTEM) if in_container => Verdict::fail(
            "the container may no longer use the GPUs' devices: its cgroup was set anew",
        )
        .advise("start the container anew; on the host, have it given its devices by CDI", ["ls -l /dev/nvidia*"]),
        Some(_) => Verdict::fail(format!("the driver's library does not start: {}", refused.says)).advise(
            "see what the kernel says of it, and boot if it is hung",
            ["sudo dmesg | grep NVRM", "sudo reboot"],
        ),
    };
    verdict.saw(refused.to_string())
}

/// NVML's numbers: <https://docs.nvidia.com/deploy/nvml-api/group__nvmlDeviceEnumvs.html>.
const NO_PERMISSION: i32 = 4;
const NOT_LOADED: i32 = 9;
const BY_SYSTEM: i32 = 17;
const MISMATCH: i32 = 18;
const UNKNOWN: i32 = 999;

/// Numbers that tell of a GPU which is itself sick: power, interrupts, infoROM, lost, to be reset.
fn is_fault(refused: &Refused) -> bool {
    matches!(refused.code, Some(8 | 11 | 14 | 15 | 16))
}

fn answering(nvml: &Nvml) -> impl Iterator<Item = &NvmlGpu> {
    nvml.gpus.iter().filter(|g| g.refused.is_none())
}

/// That NVML's library is of another version than the module which is loaded, in its own words.
pub fn mismatch(seen: &Evidence) -> Option<String> {
    let Answer::Is(nvml) = &seen.nvml else { return None };
    nvml.refused.as_ref().filter(|r| r.code == Some(MISMATCH)).map(Refused::to_string)
}

/// GPUs that say, by NVML, that they are themselves sick.
pub fn faults(seen: &Evidence) -> Vec<Verdict> {
    let Answer::Is(nvml) = &seen.nvml else { return Vec::new() };
    let whole = nvml.refused.iter().map(|refused| ("a GPU".to_owned(), refused));
    let each = nvml.gpus.iter().filter_map(|g| Some((format!("the GPU {}", g.shown()), g.refused.as_ref()?)));
    let sick = whole.chain(each).filter(|(_, refused)| is_fault(refused));
    sick.map(|(gpu, refused)| {
        let (cause, mend, command) = match refused.code {
            Some(8) => ("has not all of its power cables", "connect them", "sudo poweroff"),
            Some(11) => (
                "gets no interrupts through to the driver",
                "boot with another PCI slot or firmware",
                "sudo dmesg | grep NVRM",
            ),
            Some(14) => ("has a damaged infoROM", "ask who sold it for another", "nvidia-smi -q"),
            Some(16) => (
                "must be reset before it can be used",
                "end what uses it, then reset it",
                "sudo nvidia-smi --gpu-reset",
            ),
            _ => (
                "is lost: it no longer answers on the bus",
                "boot the host; look at power, cooling and slot if it comes back",
                "sudo reboot",
            ),
        };
        Verdict::fail(format!("{gpu} {cause}")).saw(refused.to_string()).advise(mend, [command])
    })
    .collect()
}

/// What NVML says of the GPUs that answer, or why nothing.
fn gpus(seen: &Evidence) -> Result<Vec<&NvmlGpu>, Verdict> {
    match &seen.nvml {
        Answer::NotAsked(why) => Err(Verdict::skip(why.clone())),
        Answer::Failed(_) => Err(Verdict::skip("the driver does not answer")),
        Answer::Is(nvml) if nvml.refused.is_some() => Err(Verdict::skip("the driver does not answer")),
        Answer::Is(nvml) => Ok(answering(nvml).collect()),
    }
}

fn reset(gpu: &NvmlGpu) -> String {
    match &gpu.address {
        Some(address) => format!("sudo nvidia-smi --gpu-reset -i {}", quoted(address)),
        None => "sudo nvidia-smi --gpu-reset".to_owned(),
    }
}

/// Memory, power and heat. What to do is NVIDIA's word:
/// <https://docs.nvidia.com/deploy/a100-gpu-mem-error-mgmt/index.html>,
/// <https://docs.nvidia.com/deploy/dynamic-page-retirement/index.html>.
pub fn health(seen: &Evidence) -> Verdict {
    let gpus = match gpus(seen) {
        Ok(gpus) => gpus,
        Err(skip) => return skip,
    };
    let each = gpus
        .into_iter()
        .flat_map(|gpu| [Some(well(gpu)), rows(gpu), pages(gpu), errors(gpu), recovery(gpu), slowed(gpu)]);
    Verdict::worst(each.flatten()).unwrap_or_else(|| Verdict::skip("no GPU answers"))
}

fn well(gpu: &NvmlGpu) -> Verdict {
    let heat = gpu.temperature.map(|t| format!("{t} C"));
    let power = gpu.power.map(|p| format!("{} of {} W", p.draw / 1000, p.limit / 1000));
    let ecc = gpu.ecc.map(|ecc| match (ecc.enabled, ecc.uncorrected_ever) {
        (false, _) => "no error correction".to_owned(),
        (true, Some(count)) => format!("{count} uncorrected memory errors in its life"),
        (true, None) => "error correction".to_owned(),
    });
    let rows = gpu.remapped_rows.map(|r| format!("{} rows remapped", r.corrected + r.uncorrected));
    let pages = gpu.retired_pages.map(|p| format!("{} pages retired", p.single_bit + p.double_bit));
    let all: Vec<_> = [heat, power, ecc, rows, pages].into_iter().flatten().collect();
    Verdict::pass().saw(format!("{}: {}", gpu.shown(), all.join(", ")))
}

fn rows(gpu: &NvmlGpu) -> Option<Verdict> {
    let rows = gpu.remapped_rows?;
    let at = gpu.shown();
    let evidence = format!(
        "{at}: {} rows remapped, {} of them for uncorrected errors",
        rows.corrected + rows.uncorrected,
        rows.uncorrected
    );
    if rows.failed {
        return Some(
            Verdict::fail(format!("the memory of the GPU {at} has no rows left that could stand in for bad ones"))
                .saw(evidence)
                .advise(
                    "have it confirmed by NVIDIA's field diagnostic, and the board replaced",
                    ["nvidia-smi -q -d ROW_REMAPPER", "dcgmi diag -r 3"],
                ),
        );
    }
    rows.pending.then(|| {
        Verdict::warn(format!(
            "the memory of the GPU {at} has bad rows, which others stand in for behind its next reset"
        ))
        .saw(evidence)
        .advise("let what runs there come to its end, then reset it", [reset(gpu)])
    })
}

fn pages(gpu: &NvmlGpu) -> Option<Verdict> {
    /// From where NVIDIA looks into replacing a board; 64 is all that there is room to note.
    const MANY: usize = 60;
    let pages = gpu.retired_pages?;
    let at = gpu.shown();
    let all = pages.single_bit + pages.double_bit;
    let evidence = format!("{at}: {all} pages retired, {} of them for errors of two bits", pages.double_bit);
    if all >= MANY {
        return Some(
            Verdict::fail(format!("{all} pages of the memory of the GPU {at} are bad: soon no more can be left out"))
                .saw(evidence)
                .advise("ask who sold the board for another", ["nvidia-smi -q -d PAGE_RETIREMENT"]),
        );
    }
    pages.pending.then(|| {
        Verdict::warn(format!("the GPU {at} still uses pages of its memory that are bad"))
            .saw(evidence)
            .advise("reset it, or boot: they are left out then", [reset(gpu), "sudo reboot".to_owned()])
    })
}

fn errors(gpu: &NvmlGpu) -> Option<Verdict> {
    let count = gpu.ecc?.uncorrected.filter(|n| *n > 0)?;
    let at = gpu.shown();
    Some(
        Verdict::warn(format!(
            "the memory of the GPU {at} had {count} errors that could not be corrected since the driver was loaded"
        ))
        .saw(format!("{at}: {count} uncorrected, volatile"))
        .advise(
            "reset it when it is idle; if they come back, test its memory",
            [reset(gpu), "dcgmi diag -r 3".to_owned()],
        ),
    )
}

fn recovery(gpu: &NvmlGpu) -> Option<Verdict> {
    let at = gpu.shown();
    let (what, commands) = match gpu.recovery? {
        Recovery::None => return None,
        Recovery::Reset => ("a reset", vec![reset(gpu)]),
        Recovery::Reboot => ("a boot of the host", vec!["sudo reboot".to_owned()]),
        Recovery::DrainP2p => ("an end of all that it does together with other GPUs", vec!["nvidia-smi".to_owned()]),
        Recovery::DrainAndReset => ("nothing new to do, and a reset when it is done", vec![reset(gpu)]),
    };
    Some(
        Verdict::fail(format!("the GPU {at} had a fault, and the driver asks for {what}"))
            .saw(format!("{at}: recovery action: {:?}", gpu.recovery?))
            .advise("end what uses it, then do so", commands),
    )
}

fn slowed(gpu: &NvmlGpu) -> Option<Verdict> {
    let at = gpu.shown();
    let heat = gpu.temperature.map(|t| format!(" ({t} C)")).unwrap_or_default();
    let (cause, mend) = match gpu.slowdown.iter().find(|s| **s == Slowdown::PowerBrake).or(gpu.slowdown.first())? {
        Slowdown::PowerBrake => {
            (format!("the power supply slows the GPU {at} down"), "look at the host's power supplies and cables")
        }
        Slowdown::Heat => {
            (format!("the GPU {at} is too hot, and runs at half its speed or less{heat}"), "look at fans and air")
        }
        Slowdown::Warmth => {
            (format!("the GPU {at} is hotter than the driver wants it, and slowed down{heat}"), "look at fans and air")
        }
    };
    let evidence = format!("{at}: slowdown: {:?}", gpu.slowdown);
    Some(Verdict::warn(cause).saw(evidence).advise(mend, ["nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER"]))
}

/// For GPUs of data centres: elsewhere a screen keeps the driver up, or a battery wants it down.
/// <https://docs.nvidia.com/deploy/driver-persistence/persistence-daemon.html>
pub fn persistence(seen: &Evidence) -> Verdict {
    let gpus = match gpus(seen) {
        Ok(gpus) => gpus,
        Err(skip) => return skip,
    };
    if no_driver_of_its_own(seen).is_some() {
        return Verdict::skip("the driver is not this system's own");
    }
    if gpus.iter().any(|g| g.display == Some(true)) {
        return Verdict::skip("a screen is attached: it keeps the driver up");
    }
    let is_of_data_center = |gpu: &NvmlGpu| {
        let card = seen.facts.gpus.iter().zip(&seen.cards).find(|(g, _)| Some(&g.address) == gpu.address.as_ref());
        card.is_some_and(|(_, card)| card.as_ref().is_ok_and(|c| c.data_center))
    };
    let each = gpus.into_iter().filter(|g| is_of_data_center(g)).filter_map(|gpu| {
        let at = gpu.shown();
        let on = gpu.persistence?;
        let evidence = format!("{at}: persistence {}", if on { "on" } else { "off" });
        if on {
            return Some(Verdict::pass().saw(evidence));
        }
        let cause =
            format!("the driver drops the GPU {at} when nobody uses it, and takes seconds to bring it up again");
        let verdict = Verdict::warn(cause).saw(evidence);
        Some(if seen.persistenced == Some(true) {
            verdict.saw("nvidia-persistenced runs, with --no-persistence-mode").advise(
                "take that out of its unit, or switch it on until the next boot",
                ["sudo systemctl edit --full nvidia-persistenced", "sudo nvidia-smi -pm 1"],
            )
        } else if seen.has_persistence_unit {
            let daemon = Operation::Service(Service { unit: "nvidia-persistenced.service".to_owned(), enabled: true });
            verdict.repair("have the persistence daemon keep it up", [daemon])
        } else {
            let mend =
                "install the persistence daemon (the package nvidia-persistenced), or switch it on until the next boot";
            verdict.advise(mend, ["sudo nvidia-smi -pm 1"])
        })
    });
    Verdict::worst(each).unwrap_or_else(|| Verdict::skip("there is no GPU made for data centres"))
}

/// Whether GPUs are divided as somebody asked for.
pub fn mig(seen: &Evidence) -> Verdict {
    let gpus = match gpus(seen) {
        Ok(gpus) => gpus,
        Err(skip) => return skip,
    };
    let each = gpus.into_iter().filter_map(|gpu| Some((gpu, gpu.mig?))).map(|(gpu, mig)| {
        let at = gpu.shown();
        let word = |on| if on { "on" } else { "off" };
        let evidence = format!("{at}: MIG {}, {} instances", word(mig.enabled), mig.instances);
        if mig.enabled == mig.pending {
            return Verdict::pass().saw(evidence);
        }
        let cause =
            format!("MIG was switched {} on the GPU {at}, which takes a reset to come about", word(mig.pending));
        let verdict =
            seen.holders.iter().fold(Verdict::warn(cause).saw(evidence), |v, who| v.saw(format!("in use by {who}")));
        let drm = seen.facts.loaded_modules.iter().flatten().any(|m| m.name == "nvidia_drm");
        let verdict = if drm { verdict.saw("nvidia_drm is loaded, which may hold it too") } else { verdict };
        verdict.advise(
            "end what uses the GPU, then reset it; boot where it cannot be reset (in a virtual machine)",
            [reset(gpu), "sudo reboot".to_owned()],
        )
    });
    Verdict::worst(each).unwrap_or_else(|| Verdict::skip("no GPU here can be divided"))
}

/// GPUs that are not in their fabric, by bus address, and how far each came.
pub fn outside_fabric(seen: &Evidence) -> Vec<(String, String)> {
    let told = gpus(seen).unwrap_or_default();
    let fabric = told.into_iter().filter_map(|gpu| Some((gpu.shown().to_owned(), gpu.fabric?)));
    fabric.filter_map(|(at, fabric)| Some((at, outside(fabric)?))).collect()
}

fn outside(fabric: Fabric) -> Option<String> {
    match fabric {
        Fabric { state: FabricState::NotStarted, .. } => Some("not started".to_owned()),
        Fabric { state: FabricState::InProgress, .. } => Some("in progress".to_owned()),
        Fabric { state: FabricState::Completed, status: 0 } => None,
        Fabric { state: FabricState::Completed, status } => Some(format!("failed ({status})")),
    }
}

/// How many GPUs say that they are in a fabric.
pub fn inside_fabric(seen: &Evidence) -> usize {
    let told = gpus(seen).unwrap_or_default();
    told.into_iter().filter_map(|gpu| gpu.fabric).filter(|f| outside(*f).is_none()).count()
}
