//! Companions that the user asks for although they do not work with the driver, or have no use on
//! the host: they are refused, with the reason.

use super::companions::is_packaged;
use super::context::StepContext;
use super::requested::without;
use gpusetup_database::compat::{Companion, ModuleFlavour, Substitute};
use gpusetup_host::MachineKind;
use gpusetup_resolve::{ChosenDriver, Conflict, GpuDirect, Hint, Method, Request, gpudirect};
use gpusetup_text::ids::CheckId;

/// Refuses a requested companion that does not work with the driver, or that the host does not
/// need.
pub(crate) fn not_unsuited(context: &StepContext) -> Result<(), Conflict> {
    let is_host = context.facts.machine.kind != MachineKind::Container;
    let all = context
        .companions
        .iter()
        .filter(|_| is_host)
        .flat_map(|all| all.requested());
    let Some(driver) = &context.chosen.driver else {
        return Ok(());
    };
    for of in all {
        not_with_another_driver(context, of, driver)?;
        if of.instead_of == Some(Substitute::DmaBuf) {
            not_beside_dma_buf(context, of, driver)?;
        }
    }
    Ok(())
}

/// Refuses a companion that needs other kernel modules of the driver, or a driver from packages.
fn not_with_another_driver(
    context: &StepContext,
    of: &Companion,
    driver: &ChosenDriver,
) -> Result<(), Conflict> {
    let (title, id) = (&of.title, of.id);
    if let Some(modules) = of
        .driver
        .modules
        .filter(|modules| *modules != driver.modules)
    {
        let sentence = format!(
            "{title} needs the {modules} kernel modules (--with {id}), but driver {} has the {} ones here",
            driver.version, driver.modules
        );
        let upgrade = context.request.upgrade || driver.is_kept();
        let instead = Request {
            modules: Some(modules),
            upgrade,
            ..context.request.clone()
        };
        let can = context
            .chosen
            .gpus
            .iter()
            .all(|card| card.modules.contains(&modules));
        let conflict = Conflict::request(sentence).hint(without(context, of));
        return Err(if can {
            conflict.hint(Hint::asking("with those kernel modules", instead))
        } else {
            conflict
        });
    }
    if of.driver.packaged && !is_packaged(driver) {
        let sentence = format!(
            "{title} cannot be installed (--with {id}): its packages depend on packages of the driver, but driver {} is not from \
             packages",
            driver.version
        );
        let method = if context.request.method == Method::Runfile {
            Method::Auto
        } else {
            Method::Repository
        };
        let packaged = Hint::asking(
            "with a driver from packages",
            Request {
                method,
                ..context.request.clone()
            },
        );
        return Err(Conflict::request(sentence)
            .hint(packaged)
            .hint(without(context, of)));
    }
    Ok(())
}

/// Refuses a companion that only adapters need which DMA-BUF does not serve.
fn not_beside_dma_buf(
    context: &StepContext,
    of: &Companion,
    driver: &ChosenDriver,
) -> Result<(), Conflict> {
    let (facts, title, id) = (context.facts, &of.title, of.id);
    // What is loaded may be of the driver that is replaced.
    let way = gpudirect(
        facts,
        facts.kernel(),
        (driver.version, Some(driver.modules)),
        driver.is_kept(),
    );
    let has_none = match &facts.rdma {
        Some(rdma) => rdma.adapters.is_empty(),
        // Of a host that is not here, the adapters are not known.
        None => facts.loaded_modules.is_some(),
    };
    let conflict = match way {
        _ if has_none => Conflict::request(format!(
            "this host has no RDMA adapter, so nothing needs {title} (--with {id})"
        )),
        GpuDirect::DmaBuf => Conflict::request(format!(
            "{title} is not needed (--with {id}): with the open kernel modules of driver {} and this kernel, DMA-BUF lets RDMA \
             adapters reach the memory of GPUs",
            driver.version
        )),
        GpuDirect::None(lacks) => {
            let sentence = format!(
                "{title} would not load (--with {id}): {}",
                gpusetup_causes::no_way_for_rdma(lacks)
            );
            let conflict =
                Conflict::blocked(CheckId::GS804, sentence).hint(gpusetup_causes::INSTALL_DOCA);
            by_dma_buf(context, of, driver)
                .into_iter()
                .fold(conflict, Conflict::hint)
        }
        GpuDirect::Peermem | GpuDirect::Unloaded(_) | GpuDirect::Unknown => return Ok(()),
    };
    Err(conflict.hint(without(context, of)))
}

/// The plan that lets RDMA adapters reach the GPUs by DMA-BUF, without the companion; none if the
/// open kernel modules do not make that possible.
fn by_dma_buf(context: &StepContext, of: &Companion, driver: &ChosenDriver) -> Option<Hint> {
    let is_served = context
        .chosen
        .gpus
        .iter()
        .all(|card| card.modules.contains(&ModuleFlavour::Open));
    let open = (driver.version, Some(ModuleFlavour::Open));
    let way = gpudirect(context.facts, context.facts.kernel(), open, false);
    let upgrade = context.request.upgrade || driver.is_kept();
    let mut asked = Request {
        modules: Some(ModuleFlavour::Open),
        upgrade,
        ..context.request.clone()
    };
    asked.companions.remove(&of.id);
    (is_served && way == GpuDirect::DmaBuf)
        .then(|| Hint::asking("by DMA-BUF, with the open kernel modules", asked))
}

/// Warnings of requested companions whose documentation does not name the line of a GPU (GS805).
pub(crate) fn on_other_gpus(context: &StepContext) -> Vec<String> {
    let is_host = context.facts.machine.kind != MachineKind::Container;
    let all = context
        .companions
        .iter()
        .filter(|_| is_host)
        .flat_map(|all| all.requested());
    let unnamed = all.filter(|of| !of.gpu_lines.is_empty()).filter_map(|of| {
        let card = context.chosen.gpus.iter().find(|card| {
            card.line
                .as_ref()
                .is_some_and(|line| !of.gpu_lines.contains(line))
        })?;
        Some(gpusetup_causes::other_gpu_line(of, &card.name))
    });
    unnamed.collect()
}
