//! What a board can be partitioned into.

use gpusetup_database::compat::{Database, MediaEngines, MigPlacement, MigProfile, PciDevice};
use std::collections::BTreeSet;

/// The most slots of a GPU that layouts are computed for.
pub(crate) const MAX_SLOTS: u8 = 32;

/// Where a geometry comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    Database,
    /// The GPU's driver.
    Driver,
}

/// What a board can be partitioned into.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Geometry {
    /// Its profiles, in the order of their source.
    pub profiles: Vec<Profile>,
    /// The number of compute slices.
    pub(crate) compute_slices: u8,
    /// The number of placement slots.
    pub slots: u8,
    /// The media engines that instances share out among each other. An engine whose number is
    /// unknown or contradicts the number of instances of a profile is None.
    pub(crate) engines: [Option<u8>; 4],
    /// What was concluded instead of read, each text once.
    pub assumed: BTreeSet<String>,
    /// Where it comes from.
    pub(crate) origin: Origin,
}

/// A kind of GPU instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profile {
    /// `1g.10gb+me`.
    pub name: String,
    /// The id that `nvidia-smi mig -cgi` takes.
    pub(crate) id: Option<u32>,
    /// The number of compute slices.
    pub(crate) compute_slices: u8,
    /// Where an instance can be.
    pub(crate) placement: MigPlacement,
    /// The most instances of it on one GPU.
    pub(crate) instances: u8,
    pub(crate) engines: Option<MediaEngines>,
    /// The first driver branch that offers it, if that is not the board's first.
    pub(crate) first_driver_branch: Option<u16>,
}

/// The names of the media engines, in the order of [`Geometry::engines`].
pub(crate) const ENGINES: [&str; 4] = ["NVDEC", "NVENC", "JPEG", "OFA"];

/// The numbers of media engines, in the order of [`ENGINES`].
pub(crate) fn engines_of(engines: MediaEngines) -> [u8; 4] {
    [
        engines.decoders,
        engines.encoders,
        engines.jpeg,
        engines.ofa,
    ]
}

impl Geometry {
    /// The geometry of profiles. None if there is none, or if they exceed what layouts are computed
    /// for.
    pub(crate) fn of(
        profiles: Vec<Profile>,
        assumed: BTreeSet<String>,
        origin: Origin,
    ) -> Option<Self> {
        let ends = profiles.iter().map(|p| {
            let last = p.placement.starts.iter().max()?;
            last.checked_add(p.placement.size)
                .filter(|end| *end <= MAX_SLOTS && p.placement.size > 0)
        });
        let slots = ends.collect::<Option<Vec<u8>>>()?.into_iter().max()?;
        let compute_slices = profiles.iter().map(|p| p.compute_slices).max()?;
        let engines = shared_engines(&profiles);
        Some(Self {
            profiles,
            compute_slices,
            slots,
            engines,
            assumed,
            origin,
        })
    }

    /// The geometry of a board that the database knows. None if it lacks the board's profiles, or
    /// where one can be placed.
    pub fn known(database: &Database, device: PciDevice, subsystem: Option<&str>) -> Option<Self> {
        let known: Vec<&MigProfile> = database.mig_profiles(device, subsystem).collect();
        let profiles = known.iter().map(|p| {
            Some(Profile {
                name: p.name.clone(),
                id: p.id,
                compute_slices: p.compute_slices,
                placement: p.placement.clone()?,
                instances: p.instances,
                engines: p.engines,
                first_driver_branch: p.first_driver_branch,
            })
        });
        let profiles = profiles.collect::<Option<_>>()?;
        let assumed = known.iter().filter_map(|p| p.assumed.clone()).collect();
        Self::of(profiles, assumed, Origin::Database)
    }

    /// The profile with this name or id, as people and other tools write it: `1g.5gb+me`, `MIG
    /// 1g.5gb`, `mig-1g.5gb.me`, `19`.
    pub(crate) fn profile(&self, word: &str) -> Option<usize> {
        if let Ok(id) = word.parse::<u32>() {
            return self.profiles.iter().position(|p| p.id == Some(id));
        }
        let word = word.to_ascii_lowercase();
        let name = word
            .strip_prefix("mig")
            .map_or(word.as_str(), |rest| rest.trim_start_matches([' ', '-']));
        let name = whole_compute_instance(name);
        // A Kubernetes resource has no `+` in its name.
        let mut profiles = self.profiles.iter();
        let exact = profiles.clone().position(|p| p.name == name);
        exact.or_else(|| profiles.position(|p| p.name.replace('+', ".") == name))
    }
}

/// A compute instance as large as its GPU instance is usually not mentioned: `3c.3g.20gb` is
/// `3g.20gb`.
fn whole_compute_instance(name: &str) -> &str {
    match name.split_once("c.") {
        Some((compute, rest))
            if rest
                .split_once("g.")
                .is_some_and(|(slices, _)| slices == compute) =>
        {
            rest
        }
        _ => name,
    }
}

/// The number of each media engine on the GPU: the largest profile has all of them.
fn shared_engines(profiles: &[Profile]) -> [Option<u8>; 4] {
    let largest = profiles
        .iter()
        .max_by_key(|p| (p.placement.size, p.compute_slices));
    let all = largest.and_then(|p| p.engines).map(engines_of);
    let each: Option<Vec<_>> = profiles
        .iter()
        .map(|p| Some((p.instances, engines_of(p.engines?))))
        .collect();
    let (Some(all), Some(each)) = (all, each) else {
        return [None; 4];
    };
    std::array::from_fn(|kind| {
        let are_enough = each.iter().all(|(instances, of)| {
            u16::from(*instances) * u16::from(of[kind]) <= u16::from(all[kind])
        });
        are_enough.then_some(all[kind])
    })
}
