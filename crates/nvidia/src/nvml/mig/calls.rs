//! NVML's functions for MIG, with Rust types.

use super::super::codes::{INVALID_ARGUMENT, NOT_FOUND};
use super::super::library::{Device, Numbers, NvmlError, asked as call, zeroed};
use super::super::{Refused, asked};
use super::MigProfileInfo;
use nvml_wrapper_sys::bindings::{
    NVML_DEVICE_NAME_V2_BUFFER_SIZE, nvmlComputeInstance_t, nvmlComputeInstanceProfileInfo_t,
    nvmlGpuInstance_t, nvmlGpuInstanceInfo_t, nvmlGpuInstancePlacement_t,
    nvmlGpuInstanceProfileInfo_t, nvmlGpuInstanceProfileInfo_v2_t, nvmlPciInfo_t,
};
use std::ffi::CStr;
use std::ptr;

/// The most instances that one call returns.
const MAX_INSTANCES_OF_CALL: usize = 64;
/// NVML's numbers of profiles end where it answers that the argument is invalid; no known version
/// has as many.
const MAX_PROFILES: u32 = 64;

pub(super) struct ComputeInstance {
    handle: nvmlComputeInstance_t,
    /// The id of its profile.
    pub(crate) profile: u32,
    /// The number of its compute slices.
    pub(crate) slices: u32,
}

impl Device<'_> {
    pub(super) fn pci(&self) -> Result<nvmlPciInfo_t, NvmlError> {
        self.get(&self.library.0.nvmlDeviceGetPciInfo_v3, zeroed())
    }

    /// Switches MIG on or off. Returns the status of the activation: 0 if the mode is active.
    pub(super) fn set_mig_mode(&self, on: bool) -> Result<u32, NvmlError> {
        // SAFETY: the handle is the library's own, and the number outlives the call.
        call(
            &self.library.0.nvmlDeviceSetMigMode,
            0,
            |f, status| unsafe { f(self.handle, u32::from(on), status) },
        )
    }

    /// The profiles that the driver offers.
    pub(super) fn profiles(&self) -> Vec<MigProfileInfo> {
        let mut all = Vec::new();
        for number in 0..MAX_PROFILES {
            match asked("nvmlDeviceGetGpuInstanceProfileInfo", || {
                self.profile(number)
            }) {
                Ok(mut profile) => {
                    let places = asked("nvmlDeviceGetGpuInstancePossiblePlacements_v2", || {
                        self.placements(profile.id)
                    });
                    profile.placements = places.unwrap_or_default();
                    all.push(profile);
                }
                Err(refused) if refused.code == Some(INVALID_ARGUMENT) => break,
                Err(_) => {}
            }
        }
        all
    }

    /// A profile by NVML's number, with its name from drivers that report names.
    pub(super) fn profile(&self, number: u32) -> Result<MigProfileInfo, NvmlError> {
        let size = size_of::<nvmlGpuInstanceProfileInfo_v2_t>() as u32;
        // Version 2 of the structure, as `NVML_STRUCT_VERSION` encodes it.
        let named = nvmlGpuInstanceProfileInfo_v2_t {
            version: size | 2 << 24,
            ..zeroed()
        };
        // SAFETY: the handle is the library's own, and the structure matches its version field and
        // outlives the call.
        let named = call(
            &self.library.0.nvmlDeviceGetGpuInstanceProfileInfoV,
            named,
            |f, to| unsafe { f(self.handle, number, to) },
        );
        if let Ok(info) = named {
            let mut name = [0_u8; NVML_DEVICE_NAME_V2_BUFFER_SIZE as usize];
            name.iter_mut()
                .zip(info.name)
                .for_each(|(to, from)| *to = from.cast_unsigned());
            let name = CStr::from_bytes_until_nul(&name)
                .unwrap_or_default()
                .to_str()?;
            return Ok(MigProfileInfo {
                id: info.id,
                name: Some(name.trim_start_matches("MIG ").to_owned())
                    .filter(|name| !name.is_empty()),
                slices: info.sliceCount,
                instances: info.instanceCount,
                engines: [
                    info.decoderCount,
                    info.encoderCount,
                    info.jpegCount,
                    info.ofaCount,
                ],
                memory_mb: info.memorySizeMB,
                placements: Vec::new(),
            });
        }
        let info: nvmlGpuInstanceProfileInfo_t =
            // SAFETY: the handle is the library's own, and the structure outlives the call.
            call(&self.library.0.nvmlDeviceGetGpuInstanceProfileInfo, zeroed(), |f, to| unsafe {
                f(self.handle, number, to)
            })?;
        Ok(MigProfileInfo {
            id: info.id,
            name: None,
            slices: info.sliceCount,
            instances: info.instanceCount,
            engines: [
                info.decoderCount,
                info.encoderCount,
                info.jpegCount,
                info.ofaCount,
            ],
            memory_mb: info.memorySizeMB,
            placements: Vec::new(),
        })
    }

    pub(super) fn placements(&self, profile: u32) -> Result<Vec<(u32, u32)>, NvmlError> {
        let mut places = [nvmlGpuInstancePlacement_t { start: 0, size: 0 }; MAX_INSTANCES_OF_CALL];
        let function = &self.library.0.nvmlDeviceGetGpuInstancePossiblePlacements_v2;
        // SAFETY: the handle is the library's own, and nothing is written to an empty buffer.
        let count = call(function, 0, |f, count| unsafe {
            f(self.handle, profile, ptr::null_mut(), count)
        })?;
        if count as usize > MAX_INSTANCES_OF_CALL {
            return Ok(Vec::new());
        }
        // SAFETY: the handle is the library's own, and the buffer is larger than what it just said
        // to need.
        let count = call(function, count, |f, count| unsafe {
            f(self.handle, profile, places.as_mut_ptr(), count)
        })?;
        Ok(places
            .iter()
            .take(count as usize)
            .map(|place| (place.start, place.size))
            .collect())
    }

    pub(super) fn gpu_instances(
        &self,
        profiles: &[MigProfileInfo],
    ) -> Result<Vec<(nvmlGpuInstance_t, nvmlGpuInstanceInfo_t)>, Refused> {
        let mut all = Vec::new();
        for profile in profiles {
            let mut handles: [nvmlGpuInstance_t; MAX_INSTANCES_OF_CALL] =
                [ptr::null_mut(); MAX_INSTANCES_OF_CALL];
            let count = asked("nvmlDeviceGetGpuInstances", || {
                // SAFETY: the handle is the library's own, and the buffer is larger than any number
                // of instances.
                call(
                    &self.library.0.nvmlDeviceGetGpuInstances,
                    MAX_INSTANCES_OF_CALL as u32,
                    |f, count| unsafe { f(self.handle, profile.id, handles.as_mut_ptr(), count) },
                )
            })?;
            for handle in handles.into_iter().take(count as usize) {
                let info = asked("nvmlGpuInstanceGetInfo", || {
                    let info = nvmlGpuInstanceInfo_t {
                        device: self.handle,
                        id: 0,
                        profileId: 0,
                        placement: zeroed(),
                    };
                    // SAFETY: the handle is the library's own, and the structure outlives the call.
                    call(
                        &self.library.0.nvmlGpuInstanceGetInfo,
                        info,
                        |f, to| unsafe { f(handle, to) },
                    )
                })?;
                all.push((handle, info));
            }
        }
        Ok(all)
    }

    /// The profiles of compute instances in a GPU instance: id and number of compute slices.
    pub(super) fn compute_profiles(&self, instance: nvmlGpuInstance_t) -> Vec<(u32, u32)> {
        const SHARED_ENGINES: u32 = 0;
        let mut all = Vec::new();
        for number in 0..MAX_PROFILES {
            let info = asked("nvmlGpuInstanceGetComputeInstanceProfileInfo", || {
                let info: nvmlComputeInstanceProfileInfo_t = zeroed();
                // SAFETY: the handle is the library's own, and the structure outlives the call.
                call(
                    &self.library.0.nvmlGpuInstanceGetComputeInstanceProfileInfo,
                    info,
                    |f, to| unsafe { f(instance, number, SHARED_ENGINES, to) },
                )
            });
            match info {
                Ok(info) => all.push((info.id, info.sliceCount)),
                Err(refused) if refused.code == Some(INVALID_ARGUMENT) => break,
                Err(_) => {}
            }
        }
        all
    }

    pub(super) fn compute_instances(&self, instance: nvmlGpuInstance_t) -> Vec<ComputeInstance> {
        let mut all = Vec::new();
        for (profile, slices) in self.compute_profiles(instance) {
            let mut handles: [nvmlComputeInstance_t; MAX_INSTANCES_OF_CALL] =
                [ptr::null_mut(); MAX_INSTANCES_OF_CALL];
            let count = asked("nvmlGpuInstanceGetComputeInstances", || {
                // SAFETY: the handle is the library's own, and the buffer is larger than any number
                // of instances.
                call(
                    &self.library.0.nvmlGpuInstanceGetComputeInstances,
                    MAX_INSTANCES_OF_CALL as u32,
                    |f, count| unsafe { f(instance, profile, handles.as_mut_ptr(), count) },
                )
            });
            let there = handles.into_iter().take(count.unwrap_or(0) as usize);
            all.extend(there.map(|handle| ComputeInstance {
                handle,
                profile,
                slices,
            }));
        }
        all
    }

    /// Removes a GPU instance, and its compute instances first.
    pub(super) fn destroy(&self, instance: nvmlGpuInstance_t) -> Result<(), Refused> {
        for compute in self.compute_instances(instance) {
            asked("nvmlComputeInstanceDestroy", || {
                // SAFETY: the library just returned the handle.
                call(
                    &self.library.0.nvmlComputeInstanceDestroy,
                    (),
                    |f, ()| unsafe { f(compute.handle) },
                )
            })?;
        }
        asked("nvmlGpuInstanceDestroy", || {
            // SAFETY: the library just returned the handle.
            call(&self.library.0.nvmlGpuInstanceDestroy, (), |f, ()| unsafe {
                f(instance)
            })
        })
    }

    /// Creates a GPU instance with compute instances of these profiles; without profiles, with one
    /// of its size. If one cannot be created, the GPU instance is removed again.
    pub(super) fn create(
        &self,
        profile: u32,
        place: nvmlGpuInstancePlacement_t,
        compute: Option<&[u32]>,
    ) -> Result<(), Refused> {
        let instance = asked("nvmlDeviceCreateGpuInstanceWithPlacement", || {
            let function = &self.library.0.nvmlDeviceCreateGpuInstanceWithPlacement;
            // SAFETY: the handle is the library's own; the placement and the place for the handle
            // outlive the call.
            call(function, ptr::null_mut(), |f, to| unsafe {
                f(self.handle, profile, &raw const place, to)
            })
        })?;
        let made = match compute {
            Some(profiles) => profiles
                .iter()
                .try_for_each(|profile| self.create_compute(instance, Some(*profile))),
            None => {
                let all = self.compute_profiles(instance).into_iter();
                let largest = all.max_by_key(|(id, slices)| (*slices, !id));
                self.create_compute(instance, largest.map(|(profile, _)| profile))
            }
        };
        made.inspect_err(|_| {
            // The first error is the one to report.
            let _ = self.destroy(instance);
        })
    }

    fn create_compute(
        &self,
        instance: nvmlGpuInstance_t,
        profile: Option<u32>,
    ) -> Result<(), Refused> {
        let made = asked("nvmlGpuInstanceCreateComputeInstance", || {
            let profile = profile.ok_or(NvmlError::Refused(NOT_FOUND.cast_unsigned()))?;
            // SAFETY: the library just returned the handle, and the place for the new one outlives
            // the call.
            call(
                &self.library.0.nvmlGpuInstanceCreateComputeInstance,
                ptr::null_mut(),
                |f, to| unsafe { f(instance, profile, to) },
            )
        });
        made.map(|_| ())
    }
}

// SAFETY: `nvml.h` defines it with numbers only.
unsafe impl Numbers for nvmlGpuInstancePlacement_t {}
// SAFETY: the same.
unsafe impl Numbers for nvmlGpuInstanceProfileInfo_t {}
// SAFETY: the same.
unsafe impl Numbers for nvmlGpuInstanceProfileInfo_v2_t {}
// SAFETY: the same.
unsafe impl Numbers for nvmlComputeInstanceProfileInfo_t {}
