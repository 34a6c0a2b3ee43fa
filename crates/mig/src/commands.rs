//! The commands that a person would type.

use super::change::Change;
use super::geometry::Geometry;
use super::place::Instance;
use gpusetup_nvidia::smi;
use std::collections::HashMap;

/// The command that switches MIG on or off on a GPU, which is named by its index.
pub(crate) fn enable(gpu: usize, on: bool) -> String {
    format!("sudo nvidia-smi -i {gpu} -mig {}", u8::from(on))
}

/// The commands that give a GPU these instances, if it has none.
pub(crate) fn from_scratch(geometry: &Geometry, gpu: usize, placed: &[Instance]) -> Vec<String> {
    let create = create(geometry, gpu, &[], placed);
    std::iter::once(enable(gpu, true)).chain(create).collect()
}

/// The command that creates instances beside those that stay. None if there is nothing to create.
///
/// The driver chooses the placements, and can choose so that a later instance has none: then each
/// is named.
pub(crate) fn create(
    geometry: &Geometry,
    gpu: usize,
    kept: &[Instance],
    placed: &[Instance],
) -> Option<String> {
    let mut placed = placed.to_vec();
    // A known issue of NVIDIA's interface: 3g must come before smaller ones.
    placed.sort_by_key(|i| {
        let p = &geometry.profiles[i.profile];
        (
            std::cmp::Reverse((p.compute_slices, p.placement.size)),
            i.profile,
            i.start,
        )
    });
    let used = kept.iter().fold(0, |used, i| used | i.mask(geometry));
    let order: Vec<usize> = placed.iter().map(|i| i.profile).collect();
    let mut known = HashMap::new();
    let needs_places = !always_works(geometry, &order, used, &mut known);
    let each = placed.iter().map(|i| {
        let profile = &geometry.profiles[i.profile];
        smi::instance(
            profile.id,
            &profile.name,
            needs_places.then(|| i.start.into()),
        )
    });
    smi::create(&gpu, &each.collect::<Vec<_>>()).map(|command| format!("sudo {command}"))
}

/// Whether each instance finds a place wherever those before it are placed.
fn always_works(
    geometry: &Geometry,
    order: &[usize],
    used: u64,
    known: &mut HashMap<(usize, u64), bool>,
) -> bool {
    let Some((&profile, rest)) = order.split_first() else {
        return true;
    };
    if let Some(works) = known.get(&(order.len(), used)) {
        return *works;
    }
    let starts = geometry.profiles[profile].placement.starts.iter();
    let masks: Vec<u64> = starts
        .map(|start| {
            Instance {
                start: *start,
                profile,
            }
            .mask(geometry)
        })
        .collect();
    let free: Vec<u64> = masks.into_iter().filter(|mask| used & mask == 0).collect();
    let works = !free.is_empty()
        && free
            .iter()
            .all(|mask| always_works(geometry, rest, used | mask, known));
    known.insert((order.len(), used), works);
    works
}

/// The commands that remove the instances with these ids, and create what a change names.
pub(crate) fn of_change(
    geometry: &Geometry,
    gpu: usize,
    change: &Change,
    destroyed: &[u32],
) -> Vec<String> {
    let mut all = remove(gpu, destroyed);
    all.extend(create(geometry, gpu, &change.keep, &change.create));
    all
}

/// The commands that remove GPU instances, and the compute instances in them first.
pub(crate) fn remove(gpu: usize, ids: &[u32]) -> Vec<String> {
    if ids.is_empty() {
        return Vec::new();
    }
    smi::remove(&gpu, ids)
        .map(|command| format!("sudo {command}"))
        .into()
}
