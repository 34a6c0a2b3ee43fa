//! Places the instances of a layout on a GPU: a search through all placements, the largest
//! instances first.

use super::geometry::Geometry;
use super::layout::Layout;
use std::collections::HashSet;

/// A GPU instance on a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instance {
    /// Its first slot.
    pub start: u8,
    /// Its profile, by the index in the geometry.
    pub profile: usize,
}

impl Instance {
    /// The slots that it occupies, as bits.
    pub(crate) fn mask(self, geometry: &Geometry) -> u64 {
        let size = geometry.profiles[self.profile].placement.size;
        ((1_u64 << size) - 1) << self.start
    }
}

/// Places a layout, in the order of slots. None if there is no placement without overlaps: every
/// one was tried.
///
/// Only overlaps are looked at; [`super::fit`] also compares what the layout needs with what the
/// GPU has.
pub(crate) fn place(geometry: &Geometry, layout: &Layout) -> Option<Vec<Instance>> {
    place_around(geometry, layout, &[])
}

/// The same around instances that are there and stay; the layout counts them.
pub(crate) fn place_around(
    geometry: &Geometry,
    layout: &Layout,
    kept: &[Instance],
) -> Option<Vec<Instance>> {
    let mut left = layout.0.clone();
    let mut used = 0;
    for instance in kept {
        left[instance.profile] = left[instance.profile].checked_sub(1)?;
        let mask = instance.mask(geometry);
        if used & mask != 0 {
            return None;
        }
        used |= mask;
    }
    let mut waiting: Vec<usize> = left
        .iter()
        .enumerate()
        .flat_map(|(p, n)| vec![p; usize::from(*n)])
        .collect();
    // Those with the fewest places first.
    waiting.sort_by_key(|p| {
        let placement = &geometry.profiles[*p].placement;
        (
            std::cmp::Reverse(placement.size),
            placement.starts.len(),
            *p,
        )
    });
    let mut search = Search {
        geometry,
        waiting: &waiting,
        dead_ends: HashSet::new(),
        placed: Vec::new(),
    };
    if !search.place_from(0, 0, used) {
        return None;
    }
    let mut placed: Vec<_> = kept.iter().copied().chain(search.placed).collect();
    placed.sort_unstable();
    Some(placed)
}

struct Search<'a> {
    geometry: &'a Geometry,
    waiting: &'a [usize],
    /// Numbers of placed instances, their slots and the next start from which nothing came.
    dead_ends: HashSet<(usize, u8, u64)>,
    placed: Vec<Instance>,
}

impl Search<'_> {
    /// Places the instances from this one on, of one profile in ascending order.
    fn place_from(&mut self, at: usize, from: u8, used: u64) -> bool {
        let Some(&profile) = self.waiting.get(at) else {
            return true;
        };
        if self.dead_ends.contains(&(at, from, used)) {
            return false;
        }
        for &start in self.geometry.profiles[profile]
            .placement
            .starts
            .iter()
            .filter(|start| **start >= from)
        {
            let instance = Instance { start, profile };
            let mask = instance.mask(self.geometry);
            if used & mask != 0 {
                continue;
            }
            self.placed.push(instance);
            let next = if self.waiting.get(at + 1) == Some(&profile) {
                start + 1
            } else {
                0
            };
            if self.place_from(at + 1, next, used | mask) {
                return true;
            }
            self.placed.pop();
        }
        self.dead_ends.insert((at, from, used));
        false
    }
}
