//! MIG by NVML: what a driver's GPUs can be partitioned into and how they are, and the calls that
//! change it.

mod calls;
pub mod smi;

use super::codes::{NOT_SUPPORTED, RESET_REQUIRED};
use super::library::{Device, Library, NvmlError};
use super::{Refused, asked, opened, refused};
use nvml_wrapper_sys::bindings::{nvmlGpuInstance_t, nvmlGpuInstancePlacement_t};
use serde::{Deserialize, Serialize};

/// NVML's report on the partitions of all GPUs.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct MigHost {
    /// Why NVML cannot report on the GPUs.
    pub refused: Option<Refused>,
    /// The GPUs, in NVML's order, which is nvidia-smi's.
    pub gpus: Vec<MigGpu>,
}

/// NVML's report on the partitions of a GPU.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct MigGpu {
    /// Bus address, `0000:17:00.0`.
    pub address: Option<String>,
    /// `GPU-` and a UUID.
    pub uuid: Option<String>,
    /// The product name.
    pub name: Option<String>,
    /// PCI device id.
    pub device: Option<u16>,
    /// Subsystem, `10de:1450`.
    pub subsystem: Option<String>,
    /// The first call that failed and not because of a missing feature or permission.
    pub refused: Option<Refused>,
    /// Its mode. None if it cannot be partitioned.
    pub mode: Option<MigMode>,
    /// The profiles that its driver offers. Empty if the driver does not list them, as while MIG is
    /// off.
    pub profiles: Vec<MigProfileInfo>,
    /// Its GPU instances.
    pub instances: Vec<MigInstance>,
    /// The processes that use it.
    pub processes: Vec<u32>,
}

/// The MIG mode of a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct MigMode {
    /// MIG is on.
    pub enabled: bool,
    /// MIG will be on after the next reset.
    pub pending: bool,
}

/// A profile that a driver offers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct MigProfileInfo {
    /// The id of nvidia-smi.
    pub id: u32,
    /// `1g.5gb`. None from a driver that does not report names.
    pub name: Option<String>,
    /// The number of compute slices.
    pub slices: u32,
    /// The most instances on one GPU.
    pub instances: u32,
    /// Media engines: decoders, encoders, JPEG, OFA.
    pub engines: [u32; 4],
    /// Memory in MiB.
    pub(crate) memory_mb: u64,
    /// Where it can be placed: start and size. Empty if only root may know.
    pub placements: Vec<(u32, u32)>,
}

/// A GPU instance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct MigInstance {
    /// Its id.
    pub id: u32,
    /// The id of its profile.
    pub profile: u32,
    /// Its first placement slot.
    pub start: u32,
    /// The number of its slots.
    pub size: u32,
    /// The numbers of compute slices of its compute instances.
    pub compute: Vec<u32>,
}

/// A GPU instance in its place.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
#[serde(deny_unknown_fields)]
pub struct MigPlace {
    /// The first placement slot.
    pub start: u32,
    /// The number of placement slots.
    pub size: u32,
    /// The name of its profile: `1g.5gb`.
    pub profile: String,
    /// The id of its profile. It counts for drivers that do not report names.
    pub id: Option<u32>,
    /// The profiles of its compute instances, by the driver's ids. None if it has exactly one, of
    /// its size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compute: Option<Vec<u32>>,
}

/// A GPU instance with its handle.
struct Found {
    handle: nvmlGpuInstance_t,
    instance: MigInstance,
    /// The profiles of its compute instances, in ascending order.
    compute: Vec<u32>,
}

/// Asks the library with this path or name how the GPUs are partitioned.
pub(crate) fn read(library: &str) -> MigHost {
    let opened = opened(library).and_then(|nvml| {
        let count = asked("nvmlDeviceGetCount_v2", || nvml.count())?;
        Ok((0..count).map(|index| gpu(&nvml, index)).collect())
    });
    match opened {
        Ok(gpus) => MigHost {
            refused: None,
            gpus,
        },
        Err(refused) => MigHost {
            refused: Some(refused),
            gpus: Vec::new(),
        },
    }
}

/// Switches MIG on or off. A mode that waits for a reset that the driver may not do itself, as in a
/// virtual machine, is set; one that is not active for another reason, as in a GPU that is in use,
/// is an error.
pub(crate) fn set_mode(device: &Device, on: bool) -> Result<(), Refused> {
    let status = asked("nvmlDeviceSetMigMode", || device.set_mig_mode(on))?;
    match status.cast_signed() {
        0 | NOT_SUPPORTED | RESET_REQUIRED => Ok(()),
        _ => Err(refused("nvmlDeviceSetMigMode", &NvmlError::Refused(status))),
    }
}

/// Gives a GPU these instances and no others: those that are there already stay. If that fails, it
/// gets those back that it had, each with the compute instances that it had.
pub(crate) fn set_instances(device: &Device, wanted: &[MigPlace]) -> Result<(), Refused> {
    let before = instances(device, wanted)?;
    change_instances(device, wanted).inspect_err(|_| {
        // The first error is the one to report.
        let _ = change_instances(device, &before);
    })
}

fn change_instances(device: &Device, wanted: &[MigPlace]) -> Result<(), Refused> {
    let (enabled, _) = asked("nvmlDeviceGetMigMode", || device.mig())?;
    if !enabled && !wanted.is_empty() {
        let says = "MIG is not on: the GPU must be reset, or the host rebooted".to_owned();
        return Err(Refused {
            call: "nvmlDeviceGetMigMode".to_owned(),
            code: None,
            says,
        });
    }
    if !enabled {
        return Ok(());
    }
    let profiles = device.profiles();
    let mut missing: Vec<&MigPlace> = wanted.iter().collect();
    let there = found(device, &profiles)?;
    for found in &there {
        let same = missing.iter().position(|place| {
            is_at(place, &found.instance, &profiles) && has_compute(place, found, &profiles)
        });
        match same {
            Some(at) => drop(missing.swap_remove(at)),
            None => device.destroy(found.handle)?,
        }
    }
    // The largest first: a known issue of some drivers.
    missing.sort_by_key(|place| (std::cmp::Reverse(place.size), place.start));
    for place in missing {
        let profile = profiles.iter().find(|profile| is_of(place, profile));
        let placement = nvmlGpuInstancePlacement_t {
            start: place.start,
            size: place.size,
        };
        let profile = profile.ok_or_else(|| Refused {
            call: "nvmlDeviceGetGpuInstanceProfileInfo".to_owned(),
            code: None,
            says: format!("the driver has no profile {}", place.profile),
        })?;
        device.create(profile.id, placement, place.compute.as_deref())?;
    }
    Ok(())
}

/// The instances of a GPU; none while MIG is off. Those that `like` has are spelled as there.
pub(crate) fn instances(device: &Device, like: &[MigPlace]) -> Result<Vec<MigPlace>, Refused> {
    let (enabled, _) = asked("nvmlDeviceGetMigMode", || device.mig())?;
    if !enabled {
        return Ok(Vec::new());
    }
    let profiles = device.profiles();
    let there = found(device, &profiles)?;
    let places = there.iter().map(|found| {
        let instance = &found.instance;
        let compute = (!is_complete(instance, &profiles)).then(|| found.compute.clone());
        if let Some(place) = like.iter().find(|place| is_at(place, instance, &profiles)) {
            return MigPlace {
                compute,
                ..place.clone()
            };
        }
        let name = profiles
            .iter()
            .find(|p| p.id == instance.profile)
            .and_then(|p| p.name.clone());
        MigPlace {
            start: instance.start,
            size: instance.size,
            profile: name.unwrap_or_else(|| format!("profile-{}", instance.profile)),
            id: Some(instance.profile),
            compute,
        }
    });
    let mut all: Vec<_> = places.collect();
    all.sort_unstable();
    Ok(all)
}

fn is_of(place: &MigPlace, profile: &MigProfileInfo) -> bool {
    match &profile.name {
        Some(name) => *name == place.profile,
        None => place.id == Some(profile.id),
    }
}

/// Whether an instance has exactly one compute instance of its size.
fn is_complete(instance: &MigInstance, profiles: &[MigProfileInfo]) -> bool {
    let profile = profiles
        .iter()
        .find(|profile| profile.id == instance.profile);
    profile.is_some_and(|profile| instance.compute == [profile.slices])
}

/// Whether an instance has the compute instances that a place has.
fn has_compute(place: &MigPlace, found: &Found, profiles: &[MigProfileInfo]) -> bool {
    match &place.compute {
        None => is_complete(&found.instance, profiles),
        Some(wanted) => {
            let mut wanted = wanted.clone();
            wanted.sort_unstable();
            wanted == found.compute
        }
    }
}

/// Whether an instance is this one.
fn is_at(place: &MigPlace, instance: &MigInstance, profiles: &[MigProfileInfo]) -> bool {
    let profile = profiles
        .iter()
        .find(|profile| profile.id == instance.profile);
    (place.start, place.size) == (instance.start, instance.size)
        && profile.is_some_and(|profile| is_of(place, profile))
}

/// The instances of a GPU, with their handles.
fn found(device: &Device, profiles: &[MigProfileInfo]) -> Result<Vec<Found>, Refused> {
    let all = device
        .gpu_instances(profiles)?
        .into_iter()
        .map(|(handle, info)| {
            let there = device.compute_instances(handle);
            let slices = there.iter().map(|compute| compute.slices).collect();
            let mut compute: Vec<_> = there.iter().map(|compute| compute.profile).collect();
            compute.sort_unstable();
            let nvmlGpuInstancePlacement_t { start, size } = info.placement;
            let instance = MigInstance {
                id: info.id,
                profile: info.profileId,
                start,
                size,
                compute: slices,
            };
            Found {
                handle,
                instance,
                compute,
            }
        });
    Ok(all.collect())
}

/// Whether a change from some instances to others, cut off at any moment, can leave these: each is
/// one of either, with whatever compute instances.
pub(crate) fn is_between(now: &[MigPlace], before: &[MigPlace], after: &[MigPlace]) -> bool {
    now.iter().all(|here| {
        before.iter().chain(after).any(|other| {
            (other.start, other.size, &other.profile) == (here.start, here.size, &here.profile)
        })
    })
}

fn gpu(nvml: &Library, index: u32) -> MigGpu {
    let device = match asked("nvmlDeviceGetHandleByIndex_v2", || nvml.device(index)) {
        Ok(device) => device,
        Err(refused) => {
            return MigGpu {
                refused: Some(refused),
                ..MigGpu::default()
            };
        }
    };
    let pci = asked("nvmlDeviceGetPciInfo_v3", || device.pci()).ok();
    let mode = asked("nvmlDeviceGetMigMode", || device.mig()).ok();
    let mut told = MigGpu {
        address: asked("nvmlDeviceGetPciInfo_v3", || device.address()).ok(),
        uuid: asked("nvmlDeviceGetUUID", || device.uuid()).ok(),
        name: asked("nvmlDeviceGetName", || device.name()).ok(),
        device: pci.and_then(|pci| u16::try_from(pci.pciDeviceId >> 16).ok()),
        subsystem: pci.map(|pci| {
            format!(
                "{:04x}:{:04x}",
                pci.pciSubSystemId & 0xffff,
                pci.pciSubSystemId >> 16
            )
        }),
        mode: mode.map(|(enabled, pending)| MigMode { enabled, pending }),
        ..MigGpu::default()
    };
    if mode.is_none() {
        return told;
    }
    told.profiles = device.profiles();
    if mode.is_some_and(|(enabled, _)| enabled) {
        match found(&device, &told.profiles) {
            Ok(all) => told.instances = all.into_iter().map(|found| found.instance).collect(),
            Err(refused) => told.refused = Some(refused),
        }
    }
    let processes = asked("nvmlDeviceGetComputeRunningProcesses_v3", || {
        device.compute_processes()
    });
    told.processes = processes
        .unwrap_or_default()
        .iter()
        .map(|process| process.pid)
        .collect();
    told
}
