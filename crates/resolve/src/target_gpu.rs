//! The GPUs of a host as the rules see them: what each one can run, and which drivers support it.

use super::driver::oldest_branch;
use super::{Change, Conflict, DriverFile, Hint, JetsonBoard, KnownHost, Request};
use gpusetup_database::compat::{BranchKind, Database, TargetGpu};
use gpusetup_database::version::Want;
use gpusetup_host::{Facts, Gpu, of_capability};
use gpusetup_text::ids::RuleId;
use gpusetup_text::text::quoted;
use std::rc::Rc;

/// The GPUs that the plan must support, without those left out.
pub(crate) fn target_gpus(
    host: &KnownHost,
    request: &Request,
) -> Result<Vec<Rc<TargetGpu>>, Conflict> {
    let facts = host.facts;
    for address in &request.leave_out {
        if !facts.gpus.iter().any(|g| g.address == *address) {
            let there: Vec<_> = facts.gpus.iter().map(|g| g.address.as_str()).collect();
            return Err(Conflict::request(format!(
                "no GPU has the bus address {address} (--leave-out)"
            ))
            .hint(format!(
                "the GPUs of this host are at: {}",
                there.join(", ")
            ))
            .hint(Hint::Command("gpusetup facts".to_owned())));
        }
    }
    let mut all = Vec::with_capacity(facts.gpus.len());
    // Equal GPUs are mostly neighbours.
    let mut last: Option<(&Gpu, Rc<TargetGpu>)> = None;
    for gpu in served(facts, request) {
        let card = match last.take().filter(|(before, _)| is_alike(before, gpu)) {
            Some((_, card)) => card,
            None => Rc::new(target_gpu(host, gpu, request)?),
        };
        all.push(Rc::clone(&card));
        last = Some((gpu, card));
    }
    // The GPUs of most boards do not show on the PCI bus.
    let board =
        JetsonBoard::of(host.database, facts).filter(|board| all.is_empty() && board.uses_sbsa());
    if let Some(gpu) = board.and_then(|board| of_capability(host.database, board.capability()?)) {
        all.push(Rc::new(target_gpu(host, &gpu, request)?));
    }
    Ok(all)
}

/// Whether two GPUs differ at most in their place.
fn is_alike(a: &Gpu, b: &Gpu) -> bool {
    (&a.pci_id, &a.subsystem, &a.name, a.compute_capability)
        == (&b.pci_id, &b.subsystem, &b.name, b.compute_capability)
}

/// The GPUs to leave out, including those that no driver supports here. None if that adds no GPU,
/// or would leave none.
pub(crate) fn without_hopeless(host: &KnownHost, request: &Request) -> Option<Vec<String>> {
    let (hopeless, others): (Vec<_>, Vec<_>) =
        served(host.facts, request).partition(|gpu| target_gpu(host, gpu, request).is_err());
    let more = hopeless.iter().map(|gpu| gpu.address.clone());
    let leave_out = request.leave_out.iter().cloned().chain(more).collect();
    (!hopeless.is_empty() && !others.is_empty()).then_some(leave_out)
}

fn served<'a>(facts: &'a Facts, request: &'a Request) -> impl Iterator<Item = &'a Gpu> {
    facts
        .gpus
        .iter()
        .filter(|g| !request.leave_out.contains(&g.address))
}

fn target_gpu(host: &KnownHost, gpu: &Gpu, request: &Request) -> Result<TargetGpu, Conflict> {
    let arch = host.facts.machine.arch.as_str();
    match (
        known_gpu(host.database, gpu),
        request.modules,
        &request.driver,
    ) {
        (Err(conflict), Some(modules), Want::Meeting(_)) if conflict.rule == RuleId::GpuKnown => {
            Ok(TargetGpu {
                name: format!("the unknown GPU {}", gpu.pci_id),
                modules: vec![modules],
                ..TargetGpu::default()
            })
        }
        (Ok(card), ..) if request.driver.is_wanted() => {
            no_driver(host.database, request, &card, gpu, arch)
                .or_else(|| outlived(host, &card))
                .map_or(Ok(card), Err)
        }
        (known, ..) => known,
    }
}

/// The database's facts about a GPU.
pub fn known_gpu(database: &Database, gpu: &Gpu) -> Result<TargetGpu, Conflict> {
    let known = gpu
        .device()
        .and_then(|device| database.gpu(device, gpu.subsystem.as_deref()));
    if let Some(known) = known {
        let architecture = known
            .compute_capability
            .and_then(|c| database.architecture(c));
        let last_branch = match known.last_driver_branch.as_deref() {
            None => None,
            Some(text) => match text.parse() {
                Ok(branch) => Some(branch),
                Err(_) => return Err(needs_branch(&known.name, text, TOO_OLD)),
            },
        };
        return Ok(TargetGpu {
            name: known.name.to_string(),
            capability: known.compute_capability,
            modules: known.modules.clone(),
            first_branch: architecture
                .and_then(|a| a.first_driver_branch)
                .max(known.absent_from_branch.map(|b| b + 1))
                .max(known.listed_from.first().map(|release| release.branch)),
            sure_branch: known.first_driver_branch,
            listed_from: known.listed_from.clone(),
            last_branch,
            is_listed: database.is_listed(known),
            line: known.line.map(String::from),
            data_center: known.line.as_deref() == Some("Tesla/Data Center"),
            is_virtual: gpu
                .subsystem
                .as_deref()
                .is_some_and(|id| database.is_virtual_gpu(known.device, id)),
            only_on: known.only_on.map(String::from),
            embedded: architecture.and_then(|a| a.embedded.clone()),
            sources: known.sources.clone(),
        });
    }
    // A capability without a model (`--gpu sm_80`), or a GPU newer than the database.
    if let Some(architecture) = gpu
        .compute_capability
        .and_then(|c| database.architecture(c))
    {
        let name = gpu
            .name
            .clone()
            .unwrap_or_else(|| format!("a GPU of {}", architecture.name));
        return Ok(TargetGpu::from_architecture(name, architecture));
    }
    // An assumed GPU has no address.
    let (place, selects) = if gpu.assumed {
        (String::new(), format!("-d {}", gpu.pci_id))
    } else {
        (
            format!(" at {}", gpu.address),
            format!("-s {}", quoted(&gpu.address)),
        )
    };
    let sentence = format!(
        "the GPU {}{place} is not in the database {}",
        gpu.pci_id, database.version
    );
    let conflict = Conflict::new(RuleId::GpuKnown, sentence)
        .hint(gpusetup_causes::report_gpu(&selects).to_string());
    let branches = database
        .driver_branches
        .iter()
        .filter(|branch| branch.kind == BranchKind::Production);
    let Some(newest) = branches.map(|branch| branch.branch).max() else {
        return Err(conflict);
    };
    Err(conflict.hint(Hint::plan(
        "if this is the driver and the flavour that it needs",
        Change::OpenDriver(newest),
    )))
}

/// Why no driver at all can be installed for a GPU on a machine of this architecture.
fn no_driver(
    database: &Database,
    request: &Request,
    card: &TargetGpu,
    gpu: &Gpu,
    arch: &str,
) -> Option<Conflict> {
    if card.is_virtual
        && !request
            .driver_file
            .as_ref()
            .is_some_and(|file| file.is.guest)
    {
        return Some(virtual_gpu(&card.name, gpu, request.driver_file.as_ref()));
    }
    if let Some(board) = &card.embedded {
        let sentence = format!(
            "{} is part of {board}; its driver is included in the board's system software (JetPack)",
            card.name
        );
        let conflict = Conflict::new(RuleId::GpuHasBoardDriver, sentence);
        // Of many boards the toolkit is JetPack's, too.
        let is_served = card
            .capability
            .and_then(|c| database.architecture(c))
            .is_some_and(|a| a.sbsa_from.is_some());
        return Some(if is_served {
            conflict.hint(Hint::plan(
                "the toolkit alone; the driver comes with JetPack",
                Change::Toolkit,
            ))
        } else {
            let first = card
                .capability
                .and_then(|board| database.first_jetpack_with_sbsa(board));
            let later = first.map(|first| {
                format!(
                    ", or from JetPack {} on one for servers (sbsa)",
                    first.jetpack
                )
            });
            conflict.hint(format!(
                "use the toolkit of JetPack, too{}",
                later.unwrap_or_default()
            ))
        });
    }
    let machine = card.only_on.as_deref().filter(|machine| *machine != arch)?;
    let sentence = format!(
        "{} exists only in machines with {machine} processors; this host is {arch}",
        card.name
    );
    let hint = "plan on such a machine, or save its facts there (gpusetup facts --json) and plan here with --facts";
    Some(Conflict::new(RuleId::GpuFitsMachine, sentence).hint(hint))
}

/// Why no driver can be installed: the GPU's last branch is older than every driver known for this
/// architecture.
fn outlived(host: &KnownHost, card: &TargetGpu) -> Option<Conflict> {
    let last = card.last_branch?;
    oldest_branch(host).filter(|oldest| last < *oldest)?;
    let elsewhere = host
        .database
        .branch(last)
        .map(|_| format!("but none is known for {}", host.facts.machine.arch));
    let why = elsewhere.unwrap_or_else(|| TOO_OLD.to_owned());
    Some(needs_branch(&card.name, &last.to_string(), &why))
}

/// Why a virtual GPU gets no driver: only a guest driver supports it, and NVIDIA publishes none.
fn virtual_gpu(name: &str, gpu: &Gpu, file: Option<&DriverFile>) -> Conflict {
    let id = gpu.subsystem.as_deref().unwrap_or_default();
    let place = if gpu.assumed {
        "assumed here"
    } else {
        gpu.address.as_str()
    };
    let need = match file {
        Some(file) => format!(
            "{} is none: the name of a guest driver ends in -grid.run",
            file.file
        ),
        None => "NVIDIA hands it out to its customers and to cloud providers only".to_owned(),
    };
    let sentence = format!(
        "the GPU at {place} is a virtual GPU (vGPU) of {name} (subsystem {id}). It needs NVIDIA's vGPU guest driver (GRID); {need}"
    );
    let toolkit = Hint::plan(
        "the toolkit alone, beside a guest driver that is installed otherwise",
        Change::Toolkit,
    );
    Conflict::new(RuleId::GpuIsPhysical, sentence)
        .hint("name the guest driver's file with --driver-file FILE; it is the one for the host's vGPU release")
        .hint(toolkit)
}

fn needs_branch(name: &str, branch: &str, why: &str) -> Conflict {
    Conflict::new(
        RuleId::DriverKnowsGpu,
        format!("{name} needs a driver of branch {branch}, {why}"),
    )
    .hint("keep the GPU on nouveau")
}

const TOO_OLD: &str = "which supports no current kernel";
