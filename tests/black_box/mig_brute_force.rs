//! Every layout of every board that the database has MIG profiles of, placed by trying all sets of
//! placements. Nothing here is shared with gpusetup's planner, which must agree.

use gpusetup::compat::{Database, MigProfile, PciDevice};
use gpusetup::database::embedded;
use gpusetup::mig::{Geometry, Layout, fit, fitting, nearest};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

static SHIPPED: LazyLock<Database> = LazyLock::new(embedded);

/// The boards: profiles, and one device id and subsystem that has them.
fn boards() -> Vec<(PciDevice, Option<String>, Vec<&'static MigProfile>)> {
    let mut all: Vec<(PciDevice, Option<String>, Vec<&MigProfile>)> = Vec::new();
    for profile in &SHIPPED.mig_profiles {
        let (device, board) = (profile.gpus[0], profile.subsystems.first());
        let subsystem = board.map(|board| format!("10de:{board}"));
        match all
            .iter_mut()
            .find(|(of, on, _)| (of, on) == (&device, &subsystem))
        {
            Some((.., profiles)) => profiles.push(profile),
            None => all.push((device, subsystem, vec![profile])),
        }
    }
    all
}

/// The multisets of profiles for which some set of placements has no overlap, and enough slices and
/// engines.
fn possible(profiles: &[&MigProfile]) -> BTreeSet<Vec<u8>> {
    let places: Vec<(usize, BTreeSet<u8>)> = { profiles.iter().enumerate() }
        .flat_map(|(n, p)| {
            let placement = p.placement.as_ref().expect("every profile has a placement");
            placement
                .starts
                .iter()
                .map(move |start| (n, (*start..start + placement.size).collect()))
        })
        .collect();
    let mut all = BTreeSet::new();
    let mut waiting = vec![(0, BTreeSet::new(), vec![0; profiles.len()])];
    while let Some((at, taken, counts)) = waiting.pop() {
        let Some((profile, slots)) = places.get(at) else {
            if is_enough(profiles, &counts) {
                all.insert(counts);
            }
            continue;
        };
        if taken.is_disjoint(slots) {
            let mut more = counts.clone();
            more[*profile] += 1;
            waiting.push((at + 1, taken.union(slots).copied().collect(), more));
        }
        waiting.push((at + 1, taken, counts));
    }
    all
}

/// Whether the board has enough compute slices and media engines, and no profile occurs more often
/// than it may.
fn is_enough(profiles: &[&MigProfile], counts: &[u8]) -> bool {
    let total = |of: &dyn Fn(&MigProfile) -> u32| -> u32 {
        profiles
            .iter()
            .zip(counts)
            .map(|(p, count)| of(p) * u32::from(*count))
            .sum()
    };
    let whole = profiles
        .iter()
        .max_by_key(|p| (p.memory_slices, p.compute_slices))
        .expect("a profile");
    if total(&|p| p.compute_slices.into()) > whole.compute_slices.into() {
        return false;
    }
    if profiles
        .iter()
        .zip(counts)
        .any(|(p, count)| *count > p.instances)
    {
        return false;
    }
    if profiles.iter().any(|p| p.engines.is_none()) {
        return true;
    }
    let engines: [fn(&MigProfile) -> u32; 4] = [
        |p| p.engines.expect("known").decoders.into(),
        |p| p.engines.expect("known").encoders.into(),
        |p| p.engines.expect("known").jpeg.into(),
        |p| p.engines.expect("known").ofa.into(),
    ];
    engines.iter().all(|of| {
        let believable = profiles
            .iter()
            .all(|p| of(p) * u32::from(p.instances) <= of(whole));
        !believable || total(of) <= of(whole)
    })
}

/// All multisets of so many profiles with at most so many members.
fn multisets(profiles: usize, most: usize) -> Vec<Vec<u8>> {
    let mut all = vec![vec![0; profiles]];
    let mut at = 0;
    while at < all.len() {
        let last = all[at].iter().rposition(|count| *count > 0).unwrap_or(0);
        if all[at]
            .iter()
            .map(|count| usize::from(*count))
            .sum::<usize>()
            < most
        {
            for profile in last..profiles {
                let mut more = all[at].clone();
                more[profile] += 1;
                all.push(more);
            }
        }
        at += 1;
    }
    all
}

#[test]
fn the_planner_agrees_with_every_set_of_placements_on_every_board() {
    let mut slowest = (Duration::ZERO, String::new());
    let mut compared = 0;
    for (device, subsystem, profiles) in boards() {
        let geometry = Geometry::known(&SHIPPED, device, subsystem.as_deref()).expect("a geometry");
        let possible = possible(&profiles);
        // One more than fits: every larger multiset has a part of this size, and fits even less.
        let most = possible
            .iter()
            .map(|counts| counts.iter().map(|n| usize::from(*n)).sum())
            .max()
            .unwrap_or(0)
            + 1;
        let all = multisets(profiles.len(), most);
        for counts in &all {
            let layout = Layout(counts.clone());
            let placed = fit(&geometry, &layout);
            // Of three runs the fastest: the others may have waited for a processor.
            let timed = |_| {
                let started = Instant::now();
                let _ = fit(&geometry, &layout);
                started.elapsed()
            };
            let took = (0..3).map(timed).min().unwrap_or_default();
            if took > slowest.0 {
                slowest = (took, format!("{} on {device}", layout.text(&geometry)));
            }
            assert_eq!(
                placed.is_ok(),
                possible.contains(counts),
                "{device}: {}",
                layout.text(&geometry)
            );
            let Ok(placed) = placed else { continue };
            let mut found = vec![0; profiles.len()];
            let mut taken = BTreeSet::new();
            for instance in placed {
                let placement = profiles[instance.profile]
                    .placement
                    .as_ref()
                    .expect("a placement");
                assert!(
                    placement.starts.contains(&instance.start),
                    "{device}: {instance:?}"
                );
                for slot in instance.start..instance.start + placement.size {
                    assert!(taken.insert(slot), "{device}: {instance:?} overlaps");
                }
                found[instance.profile] += 1;
            }
            assert_eq!(found, *counts, "{device}");
        }
        let listed: BTreeSet<_> = fitting(&geometry)
            .expect("not too many")
            .into_iter()
            .map(|l| l.0)
            .collect();
        assert_eq!(listed, possible, "{device}");
        compared += all.len();
        println!(
            "10de:{device}: {} multisets compared, {} fit, 0 differences",
            all.len(),
            possible.len()
        );
    }
    println!(
        "{compared} multisets in all; the slowest took {:?}: {}",
        slowest.0, slowest.1
    );
    assert!(compared > 50_000, "{compared}");
}

#[test]
fn what_is_suggested_fits_and_is_no_larger() {
    for (device, subsystem, profiles) in boards() {
        let geometry = Geometry::known(&SHIPPED, device, subsystem.as_deref()).expect("a geometry");
        let possible = possible(&profiles);
        let refused = multisets(profiles.len(), 3)
            .into_iter()
            .filter(|counts| !possible.contains(counts));
        for counts in refused.step_by(17) {
            let wanted = Layout(counts);
            let similar = nearest(&geometry, &wanted);
            assert!(!similar.is_empty(), "{device}: {}", wanted.text(&geometry));
            for layout in similar {
                assert!(
                    possible.contains(&layout.0),
                    "{device}: {}",
                    layout.text(&geometry)
                );
                assert!(layout.instances() <= wanted.instances());
            }
        }
    }
}

/// The number of boards by the names of their profiles: a board without any would be compared with
/// nothing.
#[test]
fn every_family_of_boards_is_there() {
    let mut slots: BTreeMap<u8, usize> = BTreeMap::new();
    for (device, subsystem, _) in boards() {
        let geometry = Geometry::known(&SHIPPED, device, subsystem.as_deref()).expect("a geometry");
        *slots.entry(geometry.slots).or_default() += 1;
    }
    assert_eq!(slots, BTreeMap::from([(2, 2), (4, 1), (8, 13), (12, 1)]));
}
