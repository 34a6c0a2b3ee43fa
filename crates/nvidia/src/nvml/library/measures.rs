//! The functions that the table of GPUs needs beside those that doctor asks: readings, limits,
//! processes, links.

use super::{Device, Library, Numbers, NvmlError, SUCCESS, asked, counted, text, zeroed};
use libloading::Error as LoadingError;
use nvml_wrapper_sys::bindings::{
    NVML_DEVICE_INFOROM_VERSION_BUFFER_SIZE, NVML_DEVICE_SERIAL_BUFFER_SIZE,
    NVML_DEVICE_UUID_V2_BUFFER_SIZE, NVML_DEVICE_VBIOS_VERSION_BUFFER_SIZE,
    NVML_GRID_LICENSE_EXPIRY_VALID, nvmlDevice_t, nvmlDeviceAttributes_t, nvmlFieldValue_t,
    nvmlGpuFabricInfo_t, nvmlGridLicensableFeatures_t, nvmlMarginTemperature_t, nvmlMemory_t,
    nvmlMemory_v2_t, nvmlPciInfo_t, nvmlProcessInfo_t, nvmlReturn_t, nvmlUtilization_t,
};
use std::ffi::{CStr, c_char, c_uint};
use std::ptr;

/// A temperature of the board's own at which something happens, as NVML numbers them.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Threshold {
    /// The GPU switches itself off.
    Shutdown = 0,
    /// The hardware lowers the clocks.
    Slowdown = 1,
    /// The driver lowers the memory's clocks.
    Memory = 2,
    /// The highest temperature for normal operation: above it the driver lowers the clocks.
    Operating = 3,
}

/// A value that `nvmlDeviceGetFieldValues` returns.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Field {
    /// NVML's number of the field.
    pub(crate) id: u32,
    /// The NVLink that is asked about, of fields for one link.
    pub(crate) scope: u32,
}

/// A process on a GPU: NVML's numbers, in which all bits set means that the number is not known.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ProcessEntry {
    pub(crate) pid: u32,
    pub(crate) bytes: u64,
    pub(crate) gpu_instance: u32,
    pub(crate) compute_instance: u32,
}

/// The licence of a vGPU guest.
#[derive(Debug)]
pub(crate) struct Licence {
    pub(crate) product: String,
    pub(crate) is_licensed: bool,
    /// Year, month and day on which it ends. None if it does not end or is not known.
    pub(crate) ends: Option<(u32, u16, u16)>,
}

/// A function of a GPU that writes a text into a buffer.
type TextGetter =
    Result<unsafe extern "C" fn(nvmlDevice_t, *mut c_char, c_uint) -> nvmlReturn_t, LoadingError>;

/// A function of a GPU that writes a number for one of several kinds.
type KindGetter =
    Result<unsafe extern "C" fn(nvmlDevice_t, c_uint, *mut c_uint) -> nvmlReturn_t, LoadingError>;

/// A function of a GPU that lists processes.
type ProcessGetter = Result<
    unsafe extern "C" fn(nvmlDevice_t, *mut c_uint, *mut nvmlProcessInfo_t) -> nvmlReturn_t,
    LoadingError,
>;

/// The first version of a structure, as `NVML_STRUCT_VERSION` encodes it.
fn version<T>(number: u32) -> u32 {
    size_of::<T>() as u32 | number << 24
}

impl Library {
    /// The name of a process, as its command line begins.
    pub(crate) fn process_name(&self, pid: u32) -> Result<String, NvmlError> {
        const LENGTH: u32 = 256;
        // SAFETY: the buffer has the length that is passed.
        text(&self.0.nvmlSystemGetProcessName, LENGTH, |f, text| unsafe {
            f(pid, text, LENGTH)
        })
    }
}

impl Device<'_> {
    fn words(&self, function: &TextGetter, length: u32) -> Result<String, NvmlError> {
        // SAFETY: the handle is the library's own, and the buffer has the length that is passed.
        text(function, length, |f, text| unsafe {
            f(self.handle, text, length)
        })
    }

    fn of_kind(&self, function: &KindGetter, kind: u32) -> Result<u32, NvmlError> {
        // SAFETY: the handle is the library's own, and the number outlives the call.
        asked(function, 0, |f, to| unsafe { f(self.handle, kind, to) })
    }

    /// The identifier that stays with the GPU: `GPU-…`, of a MIG device `MIG-…`.
    pub(crate) fn uuid(&self) -> Result<String, NvmlError> {
        self.words(
            &self.library.0.nvmlDeviceGetUUID,
            NVML_DEVICE_UUID_V2_BUFFER_SIZE,
        )
    }

    /// The number of its device file: N of `/dev/nvidiaN`. It need not be its index.
    pub(crate) fn minor(&self) -> Result<u32, NvmlError> {
        self.get(&self.library.0.nvmlDeviceGetMinorNumber, 0)
    }

    /// Major and minor number of its compute capability.
    pub(crate) fn capability(&self) -> Result<(i32, i32), NvmlError> {
        let function = &self.library.0.nvmlDeviceGetCudaComputeCapability;
        // SAFETY: the handle is the library's own, and the numbers outlive the call.
        asked(function, (0, 0), |f, (major, minor)| unsafe {
            f(self.handle, major, minor)
        })
    }

    /// What a MIG device has of its GPU.
    pub(crate) fn attributes(&self) -> Result<nvmlDeviceAttributes_t, NvmlError> {
        self.get(&self.library.0.nvmlDeviceGetAttributes_v2, zeroed())
    }

    /// The UUID of its cluster and the number of its clique, once it is registered in an NVLink
    /// fabric of several hosts.
    pub(crate) fn clique(&self) -> Result<Option<([u8; 16], u32)>, NvmlError> {
        const COMPLETED: u32 = 3;
        let fabric: nvmlGpuFabricInfo_t =
            self.get(&self.library.0.nvmlDeviceGetGpuFabricInfo, zeroed())?;
        // The cluster of a single host has no UUID.
        let is_member = u32::from(fabric.state) == COMPLETED
            && fabric.status == SUCCESS
            && fabric.clusterUuid != [0; 16];
        Ok(is_member.then_some((fabric.clusterUuid, fabric.cliqueId)))
    }

    /// The number on the board's label.
    pub(crate) fn serial(&self) -> Result<String, NvmlError> {
        self.words(
            &self.library.0.nvmlDeviceGetSerial,
            NVML_DEVICE_SERIAL_BUFFER_SIZE,
        )
    }

    /// The version of the board's firmware.
    pub(crate) fn vbios(&self) -> Result<String, NvmlError> {
        self.words(
            &self.library.0.nvmlDeviceGetVbiosVersion,
            NVML_DEVICE_VBIOS_VERSION_BUFFER_SIZE,
        )
    }

    /// The version of the infoROM, the board's memory for settings and counters.
    pub(crate) fn inforom(&self) -> Result<String, NvmlError> {
        self.words(
            &self.library.0.nvmlDeviceGetInforomImageVersion,
            NVML_DEVICE_INFOROM_VERSION_BUFFER_SIZE,
        )
    }

    /// A threshold of the board, in degrees Celsius.
    pub(crate) fn threshold(&self, of: Threshold) -> Result<u32, NvmlError> {
        self.of_kind(&self.library.0.nvmlDeviceGetTemperatureThreshold, of as u32)
    }

    /// How many degrees Celsius it is below its highest temperature for normal operation.
    pub(crate) fn margin(&self) -> Result<i32, NvmlError> {
        let start = nvmlMarginTemperature_t {
            version: version::<nvmlMarginTemperature_t>(1),
            marginTemperature: 0,
        };
        self.get(&self.library.0.nvmlDeviceGetMarginTemperature, start)
            .map(|margin| margin.marginTemperature)
    }

    /// The intended speed of its fan, in percent.
    pub(crate) fn fan(&self) -> Result<u32, NvmlError> {
        self.get(&self.library.0.nvmlDeviceGetFanSpeed, 0)
    }

    /// The power limit that the board has if nobody sets another, in milliwatts.
    pub(crate) fn usual_power(&self) -> Result<u32, NvmlError> {
        self.get(&self.library.0.nvmlDeviceGetPowerManagementDefaultLimit, 0)
    }

    /// The lowest and the highest power limit that can be set, in milliwatts.
    pub(crate) fn power_range(&self) -> Result<(u32, u32), NvmlError> {
        let function = &self.library.0.nvmlDeviceGetPowerManagementLimitConstraints;
        // SAFETY: the handle is the library's own, and the numbers outlive the call.
        asked(function, (0, 0), |f, (least, most)| unsafe {
            f(self.handle, least, most)
        })
    }

    /// Total, used and reserved bytes of memory. Drivers before 510 do not report the reserved ones
    /// apart.
    pub(crate) fn memory(&self) -> Result<(u64, u64, Option<u64>), NvmlError> {
        let start = nvmlMemory_v2_t {
            version: version::<nvmlMemory_v2_t>(2),
            ..zeroed()
        };
        match self.get(&self.library.0.nvmlDeviceGetMemoryInfo_v2, start) {
            Ok(memory) => Ok((memory.total, memory.used, Some(memory.reserved))),
            Err(NvmlError::NoFunction(_)) => {
                let memory: nvmlMemory_t =
                    self.get(&self.library.0.nvmlDeviceGetMemoryInfo, zeroed())?;
                Ok((memory.total, memory.used, None))
            }
            Err(e) => Err(e),
        }
    }

    /// How busy the GPU and its memory are, in percent.
    pub(crate) fn utilization(&self) -> Result<(u32, u32), NvmlError> {
        let busy: nvmlUtilization_t =
            self.get(&self.library.0.nvmlDeviceGetUtilizationRates, zeroed())?;
        Ok((busy.gpu, busy.memory))
    }

    /// The performance state: 0 is the fastest.
    pub(crate) fn performance(&self) -> Result<u32, NvmlError> {
        self.get(&self.library.0.nvmlDeviceGetPerformanceState, 0)
    }

    /// A clock in megahertz, now: 0 graphics, 1 SM, 2 memory, 3 video.
    pub(crate) fn clock(&self, kind: u32) -> Result<u32, NvmlError> {
        self.of_kind(&self.library.0.nvmlDeviceGetClockInfo, kind)
    }

    pub(crate) fn highest_clock(&self, kind: u32) -> Result<u32, NvmlError> {
        self.of_kind(&self.library.0.nvmlDeviceGetMaxClockInfo, kind)
    }

    /// Generation and width of its PCIe link, now.
    pub(crate) fn pcie(&self) -> Result<(u32, u32), NvmlError> {
        let functions = &self.library.0;
        let generation = self.get(&functions.nvmlDeviceGetCurrPcieLinkGeneration, 0)?;
        Ok((
            generation,
            self.get(&functions.nvmlDeviceGetCurrPcieLinkWidth, 0)?,
        ))
    }

    /// The highest generation and width of the link that this GPU has in this system.
    pub(crate) fn highest_pcie(&self) -> Result<(u32, u32), NvmlError> {
        let functions = &self.library.0;
        let generation = self.get(&functions.nvmlDeviceGetMaxPcieLinkGeneration, 0)?;
        Ok((
            generation,
            self.get(&functions.nvmlDeviceGetMaxPcieLinkWidth, 0)?,
        ))
    }

    /// How often packets were sent again on its PCIe link since the last reset.
    pub(crate) fn pcie_replays(&self) -> Result<u32, NvmlError> {
        self.get(&self.library.0.nvmlDeviceGetPcieReplayCounter, 0)
    }

    /// How it is virtualised, as NVML's number.
    pub(crate) fn virtualization(&self) -> Result<u32, NvmlError> {
        self.get(&self.library.0.nvmlDeviceGetVirtualizationMode, 0)
    }

    /// The licence of a vGPU guest. None if this GPU needs none.
    pub(crate) fn licence(&self) -> Result<Option<Licence>, NvmlError> {
        /// The date is known.
        const VALID: u8 = NVML_GRID_LICENSE_EXPIRY_VALID as u8;
        let features: nvmlGridLicensableFeatures_t = self.get(
            &self.library.0.nvmlDeviceGetGridLicensableFeatures_v4,
            zeroed(),
        )?;
        if features.isGridLicenseSupported == 0 {
            return Ok(None);
        }
        let all = features
            .gridLicensableFeatures
            .iter()
            .take(features.licensableFeaturesCount as usize);
        let Some(feature) = all
            .clone()
            .find(|f| f.featureEnabled != 0)
            .or(all.clone().next())
        else {
            return Ok(None);
        };
        let expiry = feature.licenseExpiry;
        let ends = (expiry.status == VALID).then_some((expiry.year, expiry.month, expiry.day));
        let is_licensed = feature.featureState != 0;
        Ok(Some(Licence {
            product: of_chars(&feature.productName),
            is_licensed,
            ends,
        }))
    }

    pub(crate) fn compute_processes(&self) -> Result<Vec<ProcessEntry>, NvmlError> {
        self.processes_of(&self.library.0.nvmlDeviceGetComputeRunningProcesses_v3)
    }

    /// The processes that draw on it.
    pub(crate) fn graphics_processes(&self) -> Result<Vec<ProcessEntry>, NvmlError> {
        self.processes_of(&self.library.0.nvmlDeviceGetGraphicsRunningProcesses_v3)
    }

    fn processes_of(&self, function: &ProcessGetter) -> Result<Vec<ProcessEntry>, NvmlError> {
        /// More than a GPU serves, in case the library's count is wrong.
        const MAX_PROCESSES: usize = 4096;
        // SAFETY: the handle is the library's own, and nothing is written to an empty buffer.
        let count = counted(function, |f, count| unsafe {
            f(self.handle, count, ptr::null_mut())
        })?;
        if count == 0 {
            return Ok(Vec::new());
        }
        // Room for those that start meanwhile.
        let mut room = vec![zeroed::<nvmlProcessInfo_t>(); count.min(MAX_PROCESSES) + 16];
        let length = room.len() as u32;
        // SAFETY: the handle is the library's own, and the buffer has the length that is passed.
        let found = asked(function, length, |f, count| unsafe {
            f(self.handle, count, room.as_mut_ptr())
        })?;
        room.truncate(found as usize);
        let entries = room.iter().map(|p| ProcessEntry {
            pid: p.pid,
            bytes: p.usedGpuMemory,
            gpu_instance: p.gpuInstanceId,
            compute_instance: p.computeInstanceId,
        });
        Ok(entries.collect())
    }

    /// Errors of its memory: corrected or uncorrected ones, since the driver was loaded or in its
    /// lifetime.
    pub(crate) fn memory_errors(&self, corrected: bool, ever: bool) -> Result<u64, NvmlError> {
        // SAFETY: the handle is the library's own, and the number outlives the call.
        asked(
            &self.library.0.nvmlDeviceGetTotalEccErrors,
            0,
            |f, count| unsafe { f(self.handle, u32::from(!corrected), u32::from(ever), count) },
        )
    }

    /// The MIG device with this index: it has a handle like a GPU.
    pub(crate) fn mig_device(&self, index: u32) -> Result<Self, NvmlError> {
        // SAFETY: the handle is the library's own, and the output handle outlives the call.
        let handle = asked(
            &self.library.0.nvmlDeviceGetMigDeviceHandleByIndex,
            ptr::null_mut(),
            |f, to| unsafe { f(self.handle, index, to) },
        )?;
        Ok(Device {
            library: self.library,
            handle,
        })
    }

    /// The numbers of a MIG device's GPU instance and compute instance.
    pub(crate) fn instance_ids(&self) -> Result<(u32, u32), NvmlError> {
        let functions = &self.library.0;
        Ok((
            self.get(&functions.nvmlDeviceGetGpuInstanceId, 0)?,
            self.get(&functions.nvmlDeviceGetComputeInstanceId, 0)?,
        ))
    }

    /// What an NVLink leads to, as NVML's number, and its bus address.
    pub(crate) fn link_end(
        &self,
        link: u32,
    ) -> (Result<u32, NvmlError>, Result<String, NvmlError>) {
        let kind = self.of_kind(&self.library.0.nvmlDeviceGetNvLinkRemoteDeviceType, link);
        // SAFETY: the handle is the library's own, and the structure outlives the call.
        let pci = asked(
            &self.library.0.nvmlDeviceGetNvLinkRemotePciInfo_v2,
            zeroed::<nvmlPciInfo_t>(),
            |f, to| unsafe { f(self.handle, link, to) },
        );
        (kind, pci.map(|pci| super::bus_address(&pci)))
    }

    /// Several values in one call, each a whole number or None.
    pub(crate) fn fields(&self, wanted: &[Field]) -> Result<Vec<Option<u64>>, NvmlError> {
        let all = wanted.iter().map(|f| nvmlFieldValue_t {
            fieldId: f.id,
            scopeId: f.scope,
            ..zeroed()
        });
        let all: Vec<_> = all.collect();
        let count = i32::try_from(all.len()).unwrap_or(i32::MAX);
        // SAFETY: the handle is the library's own, and there are as many values as the call is
        // told.
        let all = asked(
            &self.library.0.nvmlDeviceGetFieldValues,
            all,
            |f, all| unsafe { f(self.handle, count, all.as_mut_ptr()) },
        )?;
        Ok(all.iter().map(whole).collect())
    }
}

/// The whole number of a field that was answered.
fn whole(field: &nvmlFieldValue_t) -> Option<u64> {
    const UNSIGNED_INT: u32 = 1;
    const UNSIGNED_LONG: u32 = 2;
    const UNSIGNED_LONG_LONG: u32 = 3;
    const SIGNED_LONG_LONG: u32 = 4;
    const SIGNED_INT: u32 = 5;
    if field.nvmlReturn != SUCCESS {
        return None;
    }
    // SAFETY: the type field says which member of the union is valid.
    unsafe {
        match field.valueType {
            UNSIGNED_INT => Some(field.value.uiVal.into()),
            UNSIGNED_LONG | UNSIGNED_LONG_LONG => Some(field.value.ullVal),
            SIGNED_LONG_LONG => u64::try_from(field.value.sllVal).ok(),
            SIGNED_INT => u64::try_from(field.value.siVal).ok(),
            _ => None,
        }
    }
}

/// The text before the first NUL of an array, or all of it.
fn of_chars(chars: &[c_char]) -> String {
    let bytes: Vec<u8> = chars.iter().map(|c| c.cast_unsigned()).chain([0]).collect();
    CStr::from_bytes_until_nul(&bytes)
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

// SAFETY: `nvml.h` defines it with numbers only.
unsafe impl Numbers for nvmlMemory_t {}
// SAFETY: the same.
unsafe impl Numbers for nvmlMemory_v2_t {}
// SAFETY: the same.
unsafe impl Numbers for nvmlUtilization_t {}
// SAFETY: the same.
unsafe impl Numbers for nvmlProcessInfo_t {}
// SAFETY: the same: arrays of characters are numbers.
unsafe impl Numbers for nvmlGridLicensableFeatures_t {}
