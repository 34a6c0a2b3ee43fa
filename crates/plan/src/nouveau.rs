//! The step that blocks nouveau and nova: in the running system by modprobe's configuration, and
//! from the next boot on by the initramfs of every installed kernel, which contains a copy of it.

use super::context::{StepContext, skipped, step};
use super::{Act, Step, StepId};
use gpusetup_host::{Origin, RIVALS};
use gpusetup_recipes::{blacklist, rebuild_images};
use gpusetup_text::paths::BLACKLIST;
use std::collections::BTreeMap;

const TITLE: &str = "Block the nouveau and nova drivers";

/// The step that blocks nouveau and nova.
pub(crate) fn blacklist_nouveau(context: &StepContext) -> Step {
    if context.chosen.driver.is_none() {
        return skipped(
            StepId::BlacklistNouveau,
            TITLE,
            "this plan installs no driver",
        );
    }
    let mut acts = vec![context.file(blacklist())];
    let images: Vec<_> = context
        .facts
        .kernels
        .installed
        .iter()
        .filter_map(|k| k.initramfs.as_ref())
        .collect();
    if let Some(operation) = rebuild_images(context.facts) {
        let since = context.written(BLACKLIST);
        let fresh = acts[0].satisfied
            && images
                .iter()
                .all(|i| since.is_some_and(|written| i.modified >= written));
        acts.push(Act {
            operation,
            satisfied: fresh,
        });
    }
    if acts.iter().any(|act| !act.satisfied) && is_kept_away(context) {
        return skipped(
            StepId::BlacklistNouveau,
            TITLE,
            "the packages of the driver that stays block them",
        );
    }
    let why = match holders(context) {
        holders if holders.is_empty() => {
            "otherwise they claim the GPU at the next boot, from the initramfs".to_owned()
        }
        holders => format!(
            "{} now, and would do so again at the next boot, from the initramfs",
            holders.join(", ")
        ),
    };
    let mut out = step(StepId::BlacklistNouveau, TITLE, why, acts);
    // The old images are kept for undo, so there are two copies.
    let satisfied = out.operations.iter().all(|a| a.satisfied);
    out.disk_bytes = Some(if satisfied {
        0
    } else {
        images.iter().map(|i| 2 * i.size).sum()
    });
    out
}

/// Whether an installed driver stays that has the GPUs: its packages bring a blacklist of their own.
fn is_kept_away(context: &StepContext) -> bool {
    let installed = context.facts.driver.as_ref();
    let is_packaged = installed.is_some_and(|d| matches!(d.origin, Origin::Dpkg | Origin::Rpm));
    let stays = { context.chosen.driver.as_ref() }.is_some_and(|driver| driver.is_kept());
    let mut gpus = context.facts.gpus.iter();
    let has_all = gpus.all(|gpu| gpu.bound_to.as_deref() == Some("nvidia"));
    is_packaged && stays && has_all && !rival_is_loaded(context)
}

/// "nouveau uses 0000:17:00.0", for each other kernel driver that is bound to GPUs.
fn holders(context: &StepContext) -> Vec<String> {
    let mut held: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for gpu in &context.facts.gpus {
        if let Some(driver) = gpu.bound_to.as_deref().filter(|d| is_rival(d)) {
            held.entry(driver).or_default().push(&gpu.address);
        }
    }
    held.into_iter()
        .map(|(driver, addresses)| match addresses.as_slice() {
            [first, .., last] => {
                format!("{driver} uses {} GPUs ({first} to {last})", addresses.len())
            }
            all => format!("{driver} uses {}", all.concat()),
        })
        .collect()
}

/// Whether a rival driver is loaded, so that only a reboot frees the GPU.
pub(crate) fn rival_is_loaded(context: &StepContext) -> bool {
    let loaded = context.facts.loaded_modules.as_deref().unwrap_or_default();
    !holders(context).is_empty() || loaded.iter().any(|m| is_rival(&m.name))
}

fn is_rival(driver: &str) -> bool {
    // sysfs has nova-core or nova_core.
    RIVALS.contains(&driver.replace('-', "_").as_str())
}
