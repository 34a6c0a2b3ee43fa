//! The functions of NVML, `libnvidia-ml.so.1`, that gpusetup calls, with Rust types and errors.

mod measures;

pub(super) use measures::{Field, ProcessEntry, Threshold};

use super::functions::Functions;
use libloading::Error as LoadingError;
use nvml_wrapper_sys::bindings::{
    NVML_CC_ACCEPTING_CLIENT_REQUESTS_TRUE, NVML_CC_SYSTEM_FEATURE_ENABLED,
    NVML_DEVICE_NAME_V2_BUFFER_SIZE, NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE, nvmlDevice_t,
    nvmlDeviceAttributes_t, nvmlFieldValue_t, nvmlGpuFabricInfo_t, nvmlPciInfo_t, nvmlReturn_t,
    nvmlSystemConfComputeSettings_t, nvmlSystemConfComputeSettings_v1_t,
};
use std::ffi::{CStr, c_char};
use std::mem::{MaybeUninit, forget};
use std::ptr;

const SUCCESS: u32 = 0;
const INSUFFICIENT_SIZE: u32 = 7;

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum NvmlError {
    /// The library is missing or invalid.
    #[error("a libloading error occurred: {0}")]
    NoLibrary(#[from] LoadingError),
    /// The library lacks the function.
    #[error("function symbol failed to load: {0}")]
    NoFunction(String),
    /// The function returned this error code.
    #[error("{}", meaning(*.0))]
    Refused(nvmlReturn_t),
    /// The returned text is not UTF-8.
    #[error("could not interpret string as utf-8")]
    NoText(#[from] std::str::Utf8Error),
}

/// Of the codes from 1 on: <https://docs.nvidia.com/deploy/nvml-api/group__nvmlDeviceEnumvs.html>.
const MEANINGS: [&str; 23] = [
    "NVML was not first initialized with `Nvml::init()`",
    "a supplied argument was invalid",
    "the requested operation is not available on the target device",
    "the current user does not have permission to perform this operation",
    "NVML was already initialized",
    "a query to find an object was unsuccessful",
    "an input argument is not large enough",
    "device's external power cables are not properly attached",
    "NVIDIA driver is not loaded",
    "the provided timeout was reached",
    "NVIDIA kernel detected an interrupt issue with a device",
    "a shared library couldn't be found or loaded",
    "a function couldn't be found in a shared library",
    "the infoROM is corrupted",
    "device fell off the bus or has otherwise become inacessible",
    "device requires a reset before it can be used again",
    "device control has been blocked by the operating system/cgroups",
    "RM detects a driver/library version mismatch",
    "operation cannot be performed because the GPU is currently in use",
    "insufficient memory",
    "no data",
    "the requested vgpu operation is not available on the target device because ECC is enabled",
    "there are not enough resources for the request",
];

fn meaning(code: nvmlReturn_t) -> String {
    let mut known = (1..)
        .zip(MEANINGS)
        .chain([(999, "an internal driver error occurred")]);
    match known.find(|(known, _)| *known == code) {
        Some((_, meaning)) => meaning.to_owned(),
        None => format!("unexpected enum variant value: {code}"),
    }
}

impl NvmlError {
    /// The error code that the library returned. None if it was not called.
    pub(crate) fn code(&self) -> Option<u32> {
        match self {
            Self::NoLibrary(_) | Self::NoFunction(_) => None,
            Self::Refused(code) => Some(*code),
            Self::NoText(_) => Some(999),
        }
    }
}

/// Calls a function with an output value, and returns that value.
pub(super) fn asked<F: Copy, T>(
    function: &Result<F, LoadingError>,
    mut answer: T,
    ask: impl FnOnce(F, &mut T) -> nvmlReturn_t,
) -> Result<T, NvmlError> {
    let function = *function
        .as_ref()
        .map_err(|e| NvmlError::NoFunction(e.to_string()))?;
    match ask(function, &mut answer) {
        SUCCESS => Ok(answer),
        code => Err(NvmlError::Refused(code)),
    }
}

/// A count, from a call with an empty buffer: NVML then reports that the buffer is too small, and
/// the count.
pub(super) fn counted<F: Copy>(
    function: &Result<F, LoadingError>,
    ask: impl FnOnce(F, &mut u32) -> nvmlReturn_t,
) -> Result<usize, NvmlError> {
    let count = asked(function, 0, |function, count| match ask(function, count) {
        INSUFFICIENT_SIZE => SUCCESS,
        code => code,
    });
    Ok(count? as usize)
}

/// The text that a function writes into a buffer of this length.
fn text<F: Copy>(
    function: &Result<F, LoadingError>,
    length: u32,
    ask: impl FnOnce(F, *mut c_char) -> nvmlReturn_t,
) -> Result<String, NvmlError> {
    let text = vec![0_u8; length as usize + 1];
    let text = asked(function, text, |function, text| {
        ask(function, text.as_mut_ptr().cast())
    })?;
    Ok(CStr::from_bytes_until_nul(&text)
        .unwrap_or_default()
        .to_str()?
        .to_owned())
}

/// The library. It stays loaded until the process ends: shutting it down is not needed and might
/// hang.
pub(super) struct Library(pub(super) Functions);

impl Library {
    /// Loads and initialises the library with this path or name.
    pub(crate) fn open(path: &str) -> Result<Self, NvmlError> {
        // SAFETY: the caller, who names the library, vouches for its behaviour when it is loaded.
        let library = unsafe { libloading::Library::new(path) }?;
        let functions = Functions::of(&library);
        forget(library);
        // SAFETY: the function takes no arguments.
        asked(&functions.nvmlInit_v2, (), |init, ()| unsafe { init() })?;
        Ok(Self(functions))
    }

    /// The version of the loaded driver.
    pub(crate) fn driver(&self) -> Result<String, NvmlError> {
        const LENGTH: u32 = NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE;
        // SAFETY: the buffer has the length that is passed.
        text(
            &self.0.nvmlSystemGetDriverVersion,
            LENGTH,
            |f, text| unsafe { f(text, LENGTH) },
        )
    }

    /// The newest CUDA that the driver supports natively: 12040 is 12.4.
    pub(crate) fn cuda(&self) -> Result<i32, NvmlError> {
        // SAFETY: the number outlives the call.
        asked(
            &self.0.nvmlSystemGetCudaDriverVersion_v2,
            0,
            |f, version| unsafe { f(version) },
        )
    }

    /// The number of GPUs that the driver is configured to exclude.
    pub(crate) fn excluded(&self) -> Result<u32, NvmlError> {
        // SAFETY: the number outlives the call.
        asked(&self.0.nvmlGetExcludedDeviceCount, 0, |f, count| unsafe {
            f(count)
        })
    }

    /// Confidential computing is on.
    pub(crate) fn is_confidential(&self) -> Result<bool, NvmlError> {
        let size = size_of::<nvmlSystemConfComputeSettings_v1_t>() as u32;
        // Version 1 of the structure, as `NVML_STRUCT_VERSION` encodes it.
        let settings = nvmlSystemConfComputeSettings_t {
            version: size | 1 << 24,
            ..zeroed()
        };
        // SAFETY: the structure matches its version field, and outlives the call.
        let settings = asked(
            &self.0.nvmlSystemGetConfComputeSettings,
            settings,
            |f, to| unsafe { f(to) },
        )?;
        Ok(settings.ccFeature == NVML_CC_SYSTEM_FEATURE_ENABLED)
    }

    /// GPUs in confidential-computing mode accept work.
    pub(crate) fn accepts_work(&self) -> Result<bool, NvmlError> {
        // SAFETY: the number outlives the call.
        let state = asked(
            &self.0.nvmlSystemGetConfComputeGpusReadyState,
            0,
            |f, state| unsafe { f(state) },
        )?;
        Ok(state == NVML_CC_ACCEPTING_CLIENT_REQUESTS_TRUE)
    }

    /// The number of GPUs.
    pub(crate) fn count(&self) -> Result<u32, NvmlError> {
        // SAFETY: the number outlives the call.
        asked(&self.0.nvmlDeviceGetCount_v2, 0, |f, count| unsafe {
            f(count)
        })
    }

    /// A GPU by its index.
    pub(crate) fn device(&self, index: u32) -> Result<Device<'_>, NvmlError> {
        // SAFETY: the place for the handle outlives the call.
        let handle = asked(
            &self.0.nvmlDeviceGetHandleByIndex_v2,
            ptr::null_mut(),
            |f, to| unsafe { f(index, to) },
        )?;
        Ok(Device {
            library: self,
            handle,
        })
    }
}

/// A GPU. Its handle belongs to the library, and is valid as long as that is loaded.
pub(super) struct Device<'a> {
    pub(super) library: &'a Library,
    pub(super) handle: nvmlDevice_t,
}

/// A function of a GPU that writes one value to a pointer.
pub(super) type Getter<T> =
    Result<unsafe extern "C" fn(nvmlDevice_t, *mut T) -> nvmlReturn_t, LoadingError>;

impl Device<'_> {
    pub(super) fn get<T>(&self, function: &Getter<T>, start: T) -> Result<T, NvmlError> {
        // SAFETY: the handle is the library's own, and the value outlives the call.
        asked(function, start, |f, to| unsafe { f(self.handle, to) })
    }

    pub(super) fn is(&self, function: &Getter<u32>) -> Result<bool, NvmlError> {
        self.get(function, 0).map(|state| state != 0)
    }

    /// Bus address, `0000:17:00.0`.
    pub(crate) fn address(&self) -> Result<String, NvmlError> {
        self.get(&self.library.0.nvmlDeviceGetPciInfo_v3, zeroed())
            .map(|pci| bus_address(&pci))
    }

    /// The product name, as nvidia-smi prints it.
    pub(crate) fn name(&self) -> Result<String, NvmlError> {
        const LENGTH: u32 = NVML_DEVICE_NAME_V2_BUFFER_SIZE;
        // SAFETY: the handle is the library's own, and the buffer has the length that is passed.
        text(
            &self.library.0.nvmlDeviceGetName,
            LENGTH,
            |f, text| unsafe { f(self.handle, text, LENGTH) },
        )
    }

    /// Persistence mode: the driver keeps it initialised when it is not in use.
    pub(crate) fn is_persistent(&self) -> Result<bool, NvmlError> {
        self.is(&self.library.0.nvmlDeviceGetPersistenceMode)
    }

    /// A display is active.
    pub(crate) fn is_shown(&self) -> Result<bool, NvmlError> {
        self.is(&self.library.0.nvmlDeviceGetDisplayActive)
    }

    /// A display is attached.
    pub(crate) fn has_screen(&self) -> Result<bool, NvmlError> {
        self.is(&self.library.0.nvmlDeviceGetDisplayMode)
    }

    /// The compute mode, as NVML's number.
    pub(crate) fn compute_mode(&self) -> Result<u32, NvmlError> {
        self.get(&self.library.0.nvmlDeviceGetComputeMode, 0)
    }

    /// Whether MIG is on, and whether it will be after the next reset.
    pub(crate) fn mig(&self) -> Result<(bool, bool), NvmlError> {
        // SAFETY: the handle is the library's own, and the numbers outlive the call.
        let (now, then) = asked(
            &self.library.0.nvmlDeviceGetMigMode,
            (0, 0),
            |f, (now, then)| unsafe { f(self.handle, now, then) },
        )?;
        Ok((now == 1, then == 1))
    }

    /// The maximum number of MIG instances.
    pub(crate) fn most_instances(&self) -> Result<u32, NvmlError> {
        self.get(&self.library.0.nvmlDeviceGetMaxMigDeviceCount, 0)
    }

    /// Whether error correction is on, and whether it will be after the next reset.
    pub(crate) fn ecc(&self) -> Result<(bool, bool), NvmlError> {
        // SAFETY: the handle is the library's own, and the numbers outlive the call.
        let (now, then) = asked(
            &self.library.0.nvmlDeviceGetEccMode,
            (0, 0),
            |f, (now, then)| unsafe { f(self.handle, now, then) },
        )?;
        Ok((now != 0, then != 0))
    }

    /// Remapped rows of memory: for correctable errors, for uncorrectable errors, whether more
    /// follow after the next reset, and whether spare rows ran out.
    pub(crate) fn remapped_rows(&self) -> Result<[u32; 4], NvmlError> {
        // SAFETY: the handle is the library's own, and the numbers outlive the call.
        asked(
            &self.library.0.nvmlDeviceGetRemappedRows,
            [0; 4],
            |f, [corrected, uncorrected, pending, failed]| unsafe {
                f(self.handle, corrected, uncorrected, pending, failed)
            },
        )
    }

    /// Whether pages of memory will be retired when the driver is loaded again.
    pub(crate) fn awaits_retirement(&self) -> Result<bool, NvmlError> {
        self.is(&self.library.0.nvmlDeviceGetRetiredPagesPendingStatus)
    }

    /// Retired pages of memory, for a double-bit error or for several single-bit errors.
    pub(crate) fn retired_pages(&self, double_bit: bool) -> Result<usize, NvmlError> {
        let (mut addresses, mut times) = ([0], [0]);
        // SAFETY: the handle is the library's own, and nothing is written to an empty buffer; its
        // pointer must not be null.
        counted(
            &self.library.0.nvmlDeviceGetRetiredPages_v2,
            |f, count| unsafe {
                f(
                    self.handle,
                    u32::from(double_bit),
                    count,
                    addresses.as_mut_ptr(),
                    times.as_mut_ptr(),
                )
            },
        )
    }

    /// The reasons for throttling, as bits.
    pub(crate) fn slowdown(&self) -> Result<u64, NvmlError> {
        self.get(&self.library.0.nvmlDeviceGetCurrentClocksThrottleReasons, 0)
    }

    /// The temperature of the chip, in degrees Celsius.
    pub(crate) fn temperature(&self) -> Result<u32, NvmlError> {
        const CHIP: u32 = 0;
        // SAFETY: the handle is the library's own, and the number outlives the call.
        asked(
            &self.library.0.nvmlDeviceGetTemperature,
            0,
            |f, to| unsafe { f(self.handle, CHIP, to) },
        )
    }

    /// Its power draw, in milliwatts.
    pub(crate) fn power(&self) -> Result<u32, NvmlError> {
        self.get(&self.library.0.nvmlDeviceGetPowerUsage, 0)
    }

    /// Its power limit, in milliwatts.
    pub(crate) fn most_power(&self) -> Result<u32, NvmlError> {
        self.get(&self.library.0.nvmlDeviceGetEnforcedPowerLimit, 0)
    }

    /// Its state in an NVLink fabric and the error code, as NVML's numbers.
    pub(crate) fn fabric(&self) -> Result<(u32, u32), NvmlError> {
        let fabric: nvmlGpuFabricInfo_t =
            self.get(&self.library.0.nvmlDeviceGetGpuFabricInfo, zeroed())?;
        Ok((fabric.state.into(), fabric.status))
    }

    /// Whether an NVLink is up.
    pub(crate) fn is_linked(&self, link: u32) -> Result<bool, NvmlError> {
        // SAFETY: the handle is the library's own, and the number outlives the call.
        let state = asked(
            &self.library.0.nvmlDeviceGetNvLinkState,
            0,
            |f, state| unsafe { f(self.handle, link, state) },
        )?;
        Ok(state != 0)
    }

    /// What it and another GPU have in common, as NVML's number.
    pub(crate) fn common_ancestor(&self, other: &Self) -> Result<u32, NvmlError> {
        // SAFETY: the handles are the library's own, and the number outlives the call.
        asked(
            &self.library.0.nvmlDeviceGetTopologyCommonAncestor,
            0,
            |f, level| unsafe { f(self.handle, other.handle, level) },
        )
    }
}

/// `0000:17:00.0`.
fn bus_address(pci: &nvmlPciInfo_t) -> String {
    format!("{:04x}:{:02x}:{:02x}.0", pci.domain, pci.bus, pci.device)
}

/// A C structure that contains only numbers.
pub(super) fn zeroed<T: Numbers>() -> T {
    // SAFETY: zero is a value of every number.
    unsafe { MaybeUninit::zeroed().assume_init() }
}

/// # Safety
///
/// Only for structures, unions and arrays of numbers.
pub(super) unsafe trait Numbers {}

// SAFETY: `nvml.h` defines it with numbers only.
unsafe impl Numbers for nvmlPciInfo_t {}
// SAFETY: the same.
unsafe impl Numbers for nvmlFieldValue_t {}
// SAFETY: the same.
unsafe impl Numbers for nvmlGpuFabricInfo_t {}
// SAFETY: the same.
unsafe impl Numbers for nvmlDeviceAttributes_t {}
// SAFETY: the same.
unsafe impl Numbers for nvmlSystemConfComputeSettings_t {}
