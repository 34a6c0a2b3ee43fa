//! Errors of GPUs in the kernel's log.

use crate::{Answer, Case, KernelEvent, Verdict, concerned};
use gpusetup_causes::xid;
use gpusetup_database::compat::XidAction;
use gpusetup_host::MachineKind;

/// GPU errors in the kernel's log, and GPUs that NVML cannot read.
pub(crate) fn faults(case: &Case) -> Verdict {
    let mut all = match said(case) {
        Ok(said) => [Verdict::pass()]
            .into_iter()
            .chain(said.iter().filter_map(|said| fault(case, said)))
            .collect(),
        Err(skip) => vec![skip],
    };
    all.extend(super::nvml::faults(case));
    let verdict = Verdict::worst(all).unwrap_or_else(Verdict::pass);
    // Only a driver logs such errors: this one was removed since, and without a driver no GPU works
    // anyway.
    if is_driver_gone(case) {
        verdict.at_most_a_warning()
    } else {
        verdict
    }
}

/// Whether this host's driver was removed after it logged messages.
fn is_driver_gone(case: &Case) -> bool {
    let facts = &case.seen.facts;
    let own_kernel = matches!(
        facts.machine.kind,
        MachineKind::Physical | MachineKind::Virtual
    );
    let is_loaded = facts.driver_is_loaded() == Some(true);
    let drives = facts
        .gpus
        .iter()
        .any(|g| g.bound_to.as_deref() == Some("nvidia"));
    own_kernel && facts.driver.is_none() && !is_loaded && !drives && !facts.gpus.is_empty()
}

pub(crate) fn room(case: &Case) -> Verdict {
    let said = match said(case) {
        Ok(said) => said,
        Err(skip) => return skip,
    };
    let without = said.iter().filter_map(|s| {
        if let KernelEvent::NoRoom(gpu) = s {
            Some(gpu)
        } else {
            None
        }
    });
    let each = without.map(|gpu| {
        Verdict::fail("the firmware assigned no address space to the memory of {gpus}")
            .of_gpu(gpu)
            .evidence(format!("{gpu}: a BAR of 0M"))
            .advise(
                "enable \"Above 4G Decoding\" and Resizable BAR in the firmware's setup; give a virtual machine more PCI \
                 address space",
                [format!("lspci -vv -s {gpu}")],
            )
    });
    Verdict::worst([Verdict::pass()].into_iter().chain(each)).unwrap_or_else(Verdict::pass)
}

/// Messages of the kernel about GPUs that are not bound to NVIDIA's driver now. Messages about
/// other GPUs are out of date.
pub(crate) fn of_idle_gpus<'a>(
    case: &'a Case,
    means: impl Fn(&'a KernelEvent) -> Option<(Option<&'a str>, String)>,
) -> Vec<String> {
    let Answer::Is(said) = &case.seen.kernel_log else {
        return Vec::new();
    };
    let gpus: Vec<_> = case
        .seen
        .facts
        .gpus
        .iter()
        .filter(|gpu| gpu.bound_to.as_deref() != Some("nvidia"))
        .collect();
    said.iter()
        .filter_map(means)
        .filter(|(of, _)| {
            let mut all = case.seen.facts.gpus.iter();
            match all.find(|g| Some(&*g.address) == *of) {
                Some(named) => gpus.iter().any(|g| g.address == named.address),
                None => !gpus.is_empty(),
            }
        })
        .map(|(_, sentence)| sentence)
        .collect()
}

/// Messages of the kernel about loading the nvidia module.
pub(crate) fn of_module(case: &Case) -> Vec<String> {
    let Answer::Is(said) = &case.seen.kernel_log else {
        return Vec::new();
    };
    said.iter()
        .filter_map(|said| match said {
            KernelEvent::NotProbed(n) => Some(format!(
                "the kernel's log: {n} GPUs were bound to another driver when the module was loaded"
            )),
            KernelEvent::ProbeFailed(n) => Some(format!(
                "the kernel's log: the module could not initialise {n} GPUs"
            )),
            KernelEvent::Held { gpu, by } => Some(format!(
                "the kernel's log: {gpu} was bound to {by} when the module was loaded"
            )),
            KernelEvent::Unfit(line) | KernelEvent::Refused(line) => {
                Some(format!("the kernel's log: {line}"))
            }
            _ => None,
        })
        .collect()
}

/// The messages in the log, or why there are none. A GPU that fell off the bus is no longer
/// visible, but still reported.
fn said<'a>(case: &'a Case) -> Result<&'a [KernelEvent], Verdict> {
    match &case.seen.kernel_log {
        Answer::Is(said) if said.is_empty() && case.seen.facts.gpus.is_empty() => {
            Err(Verdict::skip("there is no NVIDIA GPU"))
        }
        Answer::Is(said) => Ok(said),
        Answer::Failed(why) | Answer::NotAsked(why) => Err(Verdict::skip(why.clone())),
    }
}

fn fault(case: &Case, said: &KernelEvent) -> Option<Verdict> {
    Some(match said {
        KernelEvent::Xid { gpu, number, text } => {
            let evidence = format!("{gpu}: Xid {number}: {text}");
            let Some(row) = case.database.xid(*number) else {
                let cause = format!("the kernel's log has Xid {number}, which is not in the database");
                return Some(Verdict::warn(cause).evidence(evidence).remedy(xid::unknown(*number)));
            };
            let cause = format!("Xid {number} of {{gpus}}: {}", row.means);
            let verdict = match row.action {
                XidAction::Nothing => Verdict::pass(),
                XidAction::RestartApplication => Verdict::warn(cause),
                _ => Verdict::fail(cause),
            };
            let verdict = verdict.of_gpu(gpu).evidence(evidence);
            match xid::remedy(*number, row.action, "{gpus}") {
                Some(remedy) => verdict.remedy(remedy),
                None => verdict,
            }
        }
        KernelEvent::OffTheBus(gpu) => about(gpu, "{gpus} no longer {responds|respond} on the PCI bus")
            .evidence(format!("{}: fallen off the bus", the_gpu(gpu)))
            .advise("reboot; if the error returns, check power, cooling and the slot", ["sudo reboot"]),
        KernelEvent::InitFailed(gpu) => about(gpu, "the driver could not initialise {gpus}")
            .evidence(format!("{}: RmInitAdapter failed", the_gpu(gpu)))
            .advise(
                "power the host off and on again; if the error returns, try the board in another slot or host",
                ["sudo poweroff"],
            ),
        KernelEvent::FirmwareHangs(gpu) => {
            about(gpu, "the GSP firmware of {gpus} does not respond: {it needs|they need} a reset")
                .evidence(format!("{}: the GSP timed out, or was still running from before", the_gpu(gpu)))
                .advise("power the host off and on again; if the error returns, update the driver", ["sudo poweroff"])
        }
        KernelEvent::SwitchFault { switch, number, text } => {
            let name = case.database.sxid(*number).map(|x| format!(" ({})", x.name));
            let name = name.unwrap_or_default();
            Verdict::fail(format!(
                "the NVSwitch at {switch} had a fatal error: programs that used its links were aborted"
            ))
            .evidence(format!("{switch}: SXid {number}{name}: {text}"))
            .remedy(xid::of_switch())
        }
        KernelEvent::Unread { first, lines } => {
            Verdict::warn(unread(*lines)).evidence(format!("line {first} of the kernel's log")).advise(
                "look at these lines; gpusetup reads the forms of dmesg, journalctl and syslog",
                ["gpusetup explain FILE"],
            )
        }
        KernelEvent::NeedsOpen(_)
        | KernelEvent::NotForOpen(_)
        | KernelEvent::Legacy { .. }
        | KernelEvent::Unknown(_)
        | KernelEvent::Mismatch { .. }
        | KernelEvent::NotProbed(_)
        | KernelEvent::Held { .. }
        | KernelEvent::ProbeFailed(_)
        | KernelEvent::Refused(_)
        | KernelEvent::Unfit(_)
        | KernelEvent::NoHmm(_)
        | KernelEvent::NoRoom(_) => return None,
    })
}

/// That there are lines of which nobody knows whether the kernel wrote them.
fn unread(lines: usize) -> String {
    match lines {
        1 => "a line of the kernel's log looks like the error of a GPU, but is not known to be the kernel's".to_owned(),
        _ => {
            format!("{lines} lines of the kernel's log look like errors of GPUs, but are not known to be the kernel's")
        }
    }
}

/// A failure of a GPU.
fn about(gpu: &str, cause: &str) -> Verdict {
    if gpu.is_empty() {
        return Verdict::fail(concerned::sentence(
            &cause.replace("{gpus}", "a GPU"),
            &[String::new()],
            1,
        ));
    }
    Verdict::fail(cause).of_gpu(gpu)
}

/// The log does not always name the GPU.
fn the_gpu(address: &str) -> String {
    if address.is_empty() {
        "a GPU".to_owned()
    } else {
        format!("the GPU at {address}")
    }
}
