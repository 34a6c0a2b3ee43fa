//! Whether a layout fits, and if not, why and which similar ones do.

use super::geometry::{ENGINES, Geometry, Profile, engines_of};
use super::layout::Layout;
use super::place::{Instance, place};
use gpusetup_text::text::count;

/// Something that a layout needs more of than the GPU has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Shortage {
    /// Instances of one profile.
    Instances {
        /// The profile, by its index in the geometry.
        profile: usize,
        /// The number in the layout.
        wanted: u8,
        /// The most that the GPU can have.
        most: u8,
    },
    /// Compute slices.
    Compute {
        /// The number that the layout needs.
        needed: u32,
        /// The number that the GPU has.
        have: u8,
    },
    /// Placement slots: memory.
    Slots {
        /// The number that the layout needs.
        needed: u32,
        /// The number that the GPU has.
        have: u8,
    },
    /// Media engines of one kind.
    Engines {
        /// The engine: `NVDEC`.
        kind: &'static str,
        /// The number that the layout needs.
        needed: u32,
        /// The number that the GPU has.
        have: u8,
    },
    /// Enough of everything, but no placement without overlaps. All were tried.
    Placement {
        /// The smallest part of the layout that cannot be placed.
        conflict: Layout,
    },
}

/// The number of similar layouts that are suggested.
const SUGGESTIONS: usize = 3;
/// Boards with more layouts than this get no suggestions. The largest known one has some thousands.
const MAX_LAYOUTS: usize = 100_000;

/// Where the instances of a layout go.
///
/// # Errors
///
/// What is short, if it does not fit; never empty.
pub fn fit(geometry: &Geometry, layout: &Layout) -> Result<Vec<Instance>, Vec<Shortage>> {
    let mut shortages = shortages(geometry, layout);
    if shortages.is_empty() {
        match place(geometry, layout) {
            Some(placed) => return Ok(placed),
            None => shortages.push(Shortage::Placement {
                conflict: smallest_conflict(geometry, layout),
            }),
        }
    }
    Err(shortages)
}

/// What a layout needs more of than the GPU has, apart from places.
fn shortages(geometry: &Geometry, layout: &Layout) -> Vec<Shortage> {
    let sum = |of: &dyn Fn(&Profile) -> u8| -> u32 {
        geometry
            .profiles
            .iter()
            .zip(&layout.0)
            .map(|(p, n)| u32::from(of(p)) * u32::from(*n))
            .sum()
    };
    let mut all = Vec::new();
    let compute = sum(&|p| p.compute_slices);
    if compute > u32::from(geometry.compute_slices) {
        all.push(Shortage::Compute {
            needed: compute,
            have: geometry.compute_slices,
        });
    }
    let slots = sum(&|p| p.placement.size);
    if slots > u32::from(geometry.slots) {
        all.push(Shortage::Slots {
            needed: slots,
            have: geometry.slots,
        });
    }
    for (kind, have) in geometry.engines.into_iter().enumerate() {
        let needed = sum(&|p| p.engines.map_or(0, |engines| engines_of(engines)[kind]));
        if let Some(have) = have.filter(|have| needed > u32::from(*have)) {
            all.push(Shortage::Engines {
                kind: ENGINES[kind],
                needed,
                have,
            });
        }
    }
    for (profile, (p, wanted)) in geometry.profiles.iter().zip(&layout.0).enumerate() {
        if *wanted > p.instances {
            all.push(Shortage::Instances {
                profile,
                wanted: *wanted,
                most: p.instances,
            });
        }
    }
    all
}

/// The layout without every instance that it cannot be placed without either.
fn smallest_conflict(geometry: &Geometry, layout: &Layout) -> Layout {
    let mut conflict = layout.clone();
    for profile in 0..conflict.0.len() {
        while conflict.0[profile] > 0 {
            let mut less = conflict.clone();
            less.0[profile] -= 1;
            if place(geometry, &less).is_some() {
                break;
            }
            conflict = less;
        }
    }
    conflict
}

/// Every layout that fits, the empty one included. None if there are too many.
pub fn fitting(geometry: &Geometry) -> Option<Vec<Layout>> {
    let mut all = vec![Layout::empty(geometry)];
    let mut at = 0;
    while let Some(layout) = all.get(at).cloned() {
        // Each layout is reached once: only its last profile and later ones are added to.
        let last = layout.0.iter().rposition(|n| *n > 0).unwrap_or(0);
        for profile in last..layout.0.len() {
            let mut more = layout.clone();
            more.0[profile] += 1;
            if shortages(geometry, &more).is_empty() && place(geometry, &more).is_some() {
                all.push(more);
            }
        }
        if all.len() > MAX_LAYOUTS {
            return None;
        }
        at += 1;
    }
    Some(all)
}

/// The layouts that fit and are most similar to one that does not, the most similar first.
pub fn nearest(geometry: &Geometry, layout: &Layout) -> Vec<Layout> {
    let mut all = fitting(geometry).unwrap_or_default();
    all.retain(|other| other.instances() > 0 && other.instances() <= layout.instances());
    all.sort_by_cached_key(|other| {
        (
            distance(geometry, layout, other),
            std::cmp::Reverse(other.0.clone()),
        )
    });
    all.truncate(SUGGESTIONS);
    all
}

/// How much two layouts differ, instance by instance, each with its largest first.
fn distance(geometry: &Geometry, wanted: &Layout, other: &Layout) -> u32 {
    // The compute slices and the memory slots of each instance.
    let [wanted, other] = [wanted, other].map(|layout| -> Vec<_> {
        let all = layout.profiles(geometry).into_iter();
        all.flat_map(|(at, p, n)| {
            let size = [u32::from(p.compute_slices), u32::from(p.placement.size)];
            vec![(at, size); usize::from(n)]
        })
        .collect()
    });
    let pairs = wanted.iter().enumerate();
    pairs
        .map(|(n, (at, size))| match other.get(n) {
            Some((to, _)) if to == at => 0,
            Some((_, to)) => {
                let changes = size.iter().zip(to).map(|(a, b)| a.abs_diff(*b));
                1 + changes.sum::<u32>()
            }
            None => 2 + size.iter().sum::<u32>(),
        })
        .sum()
}

fn too_few(needed: u32, have: u8, what: &str) -> String {
    let needed = count(u64::from(needed), what);
    format!("{needed} are needed, and the GPU has {have}")
}

impl Shortage {
    /// The shortage in a sentence.
    pub fn text(&self, geometry: &Geometry) -> String {
        match self {
            Self::Instances {
                profile,
                wanted,
                most,
            } => {
                let name = &geometry.profiles[*profile].name;
                format!("{wanted} instances of {name} are wanted, and a GPU has at most {most}")
            }
            Self::Compute { needed, have } => too_few(*needed, *have, "compute slice"),
            Self::Slots { needed, have } => too_few(*needed, *have, "memory slot"),
            Self::Engines { kind, needed, have } => {
                too_few(*needed, *have, &format!("{kind} engine"))
            }
            Self::Placement { conflict } => {
                let each = conflict.profiles(geometry).into_iter().map(|(_, p, _)| {
                    let starts: Vec<_> =
                        p.placement.starts.iter().map(ToString::to_string).collect();
                    format!(
                        "{} takes {} from slot {}",
                        p.name,
                        p.placement.size,
                        starts.join(", ")
                    )
                });
                let each: Vec<_> = each.collect();
                format!(
                    "all placements of {} were tried, and in each some instances overlap: {}",
                    conflict.text(geometry),
                    each.join("; ")
                )
            }
        }
    }
}
