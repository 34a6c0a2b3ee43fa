//! The smallest change from the instances that are there to a layout.

use super::geometry::Geometry;
use super::layout::Layout;
use super::place::{Instance, place_around};

/// What becomes of the instances of a GPU.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Change {
    /// Those that stay.
    pub keep: Vec<Instance>,
    /// Those that are removed.
    pub(crate) destroy: Vec<Instance>,
    /// Those that are created.
    pub create: Vec<Instance>,
}

/// With more instances than this, subsets are not searched. No known GPU can have as many.
const MAX_SEARCHED: usize = 16;

impl Change {
    /// Whether everything stays as it is.
    pub fn is_empty(&self) -> bool {
        self.destroy.is_empty() && self.create.is_empty()
    }
}

/// The change that keeps the most instances; of several, the one that keeps the most slots. None if
/// the layout cannot be placed.
pub(crate) fn change(geometry: &Geometry, have: &[Instance], layout: &Layout) -> Option<Change> {
    let count = if have.len() <= MAX_SEARCHED {
        have.len()
    } else {
        0
    };
    let mut subsets: Vec<Vec<Instance>> = (0_u32..1 << count)
        .map(|bits| {
            have.iter()
                .enumerate()
                .filter(|(n, _)| bits >> n & 1 == 1)
                .map(|(_, i)| *i)
                .collect()
        })
        .collect();
    subsets.sort_by_cached_key(|kept| {
        let slots: u32 = kept.iter().map(|i| i.mask(geometry).count_ones()).sum();
        std::cmp::Reverse((kept.len(), slots))
    });
    let (keep, placed) = subsets.into_iter().find_map(|kept| {
        let placed = place_around(geometry, layout, &kept)?;
        Some((kept, placed))
    })?;
    let destroy = have.iter().copied().filter(|i| !keep.contains(i)).collect();
    let create = placed.into_iter().filter(|i| !keep.contains(i)).collect();
    Some(Change {
        keep,
        destroy,
        create,
    })
}
