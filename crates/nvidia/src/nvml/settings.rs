//! NVML's functions that set a piece of a GPU's state, and those that read what can be set.

use super::codes::INVALID_ARGUMENT;
use super::library::{Device, Library, NvmlError, asked, counted};
use super::state::Clocks;
use libloading::Error as LoadingError;
use nvml_wrapper_sys::bindings::{nvmlDevice_t, nvmlReturn_t};
use std::ffi::{CString, c_char};
use std::ptr;

/// A function that sets one number of a GPU.
type Setter = Result<unsafe extern "C" fn(nvmlDevice_t, u32) -> nvmlReturn_t, LoadingError>;
/// A function that locks the clocks of a GPU to a range.
type Lock = Result<unsafe extern "C" fn(nvmlDevice_t, u32, u32) -> nvmlReturn_t, LoadingError>;
/// A function that takes only the GPU.
type Reset = Result<unsafe extern "C" fn(nvmlDevice_t) -> nvmlReturn_t, LoadingError>;
/// A function that finds a GPU by a text.
type Finder =
    Result<unsafe extern "C" fn(*const c_char, *mut nvmlDevice_t) -> nvmlReturn_t, LoadingError>;

impl Library {
    /// A GPU by its bus address, `0000:17:00.0`.
    pub(crate) fn device_at(&self, address: &str) -> Result<Device<'_>, NvmlError> {
        self.found(&self.0.nvmlDeviceGetHandleByPciBusId_v2, address)
    }

    /// A GPU by its UUID, `GPU-…`.
    pub(crate) fn device_by_uuid(&self, uuid: &str) -> Result<Device<'_>, NvmlError> {
        self.found(&self.0.nvmlDeviceGetHandleByUUID, uuid)
    }

    fn found(&self, function: &Finder, name: &str) -> Result<Device<'_>, NvmlError> {
        // A text with a NUL in it is no argument.
        let name =
            CString::new(name).map_err(|_| NvmlError::Refused(INVALID_ARGUMENT.cast_unsigned()))?;
        // SAFETY: the text ends with a NUL, and both outlive the call.
        let handle = asked(function, ptr::null_mut(), |f, to| unsafe {
            f(name.as_ptr(), to)
        })?;
        Ok(Device {
            library: self,
            handle,
        })
    }
}

impl Device<'_> {
    fn put(&self, function: &Setter, value: u32) -> Result<(), NvmlError> {
        // SAFETY: the handle is the library's own; the other argument is a number.
        asked(function, (), |f, ()| unsafe { f(self.handle, value) })
    }

    fn lock(&self, function: &Lock, clocks: Clocks) -> Result<(), NvmlError> {
        // SAFETY: the handle is the library's own; the other arguments are numbers.
        asked(function, (), |f, ()| unsafe {
            f(self.handle, clocks.least, clocks.most)
        })
    }

    fn reset(&self, function: &Reset) -> Result<(), NvmlError> {
        // SAFETY: the handle is the library's own.
        asked(function, (), |f, ()| unsafe { f(self.handle) })
    }

    /// Turns persistence mode on or off.
    pub(crate) fn set_persistence(&self, on: bool) -> Result<(), NvmlError> {
        self.put(&self.library.0.nvmlDeviceSetPersistenceMode, on.into())
    }

    /// Turns error correction on or off, from the next reset on.
    pub(crate) fn set_ecc(&self, on: bool) -> Result<(), NvmlError> {
        self.put(&self.library.0.nvmlDeviceSetEccMode, on.into())
    }

    /// The power limit that was set, in milliwatts.
    pub(crate) fn power_limit(&self) -> Result<u32, NvmlError> {
        self.get(&self.library.0.nvmlDeviceGetPowerManagementLimit, 0)
    }

    pub(crate) fn set_power_limit(&self, milliwatts: u32) -> Result<(), NvmlError> {
        self.put(
            &self.library.0.nvmlDeviceSetPowerManagementLimit,
            milliwatts,
        )
    }

    /// The clocks that its memory supports, in MHz.
    pub(crate) fn memory_clocks(&self) -> Result<Vec<u32>, NvmlError> {
        let function = &self.library.0.nvmlDeviceGetSupportedMemoryClocks;
        // SAFETY: the handle is the library's own, and the buffer has the length that is passed.
        listed(function, |f, count, clocks| unsafe {
            f(self.handle, count, clocks)
        })
    }

    /// The clocks that it supports at a clock of its memory, in MHz.
    pub(crate) fn gpu_clocks(&self, memory: u32) -> Result<Vec<u32>, NvmlError> {
        let function = &self.library.0.nvmlDeviceGetSupportedGraphicsClocks;
        // SAFETY: the handle is the library's own, and the buffer has the length that is passed.
        listed(function, |f, count, clocks| unsafe {
            f(self.handle, memory, count, clocks)
        })
    }

    /// Locks its clocks to a range.
    pub(crate) fn lock_gpu_clocks(&self, clocks: Clocks) -> Result<(), NvmlError> {
        self.lock(&self.library.0.nvmlDeviceSetGpuLockedClocks, clocks)
    }

    /// Ends the lock of its clocks.
    pub(crate) fn unlock_gpu_clocks(&self) -> Result<(), NvmlError> {
        self.reset(&self.library.0.nvmlDeviceResetGpuLockedClocks)
    }

    /// Locks its memory's clocks to a range.
    pub(crate) fn lock_memory_clocks(&self, clocks: Clocks) -> Result<(), NvmlError> {
        self.lock(&self.library.0.nvmlDeviceSetMemoryLockedClocks, clocks)
    }

    /// Ends the lock of its memory's clocks.
    pub(crate) fn unlock_memory_clocks(&self) -> Result<(), NvmlError> {
        self.reset(&self.library.0.nvmlDeviceResetMemoryLockedClocks)
    }

    /// Sets the compute mode, by NVML's number.
    pub(crate) fn set_compute_mode(&self, mode: u32) -> Result<(), NvmlError> {
        self.put(&self.library.0.nvmlDeviceSetComputeMode, mode)
    }

    /// Accounting of its processes is on.
    pub(crate) fn is_accounting(&self) -> Result<bool, NvmlError> {
        self.is(&self.library.0.nvmlDeviceGetAccountingMode)
    }

    /// Turns accounting of its processes on or off.
    pub(crate) fn set_accounting(&self, on: bool) -> Result<(), NvmlError> {
        self.put(&self.library.0.nvmlDeviceSetAccountingMode, on.into())
    }
}

/// Numbers of a list, whose length is asked for first.
fn listed<F: Copy>(
    function: &Result<F, LoadingError>,
    ask: impl Fn(F, &mut u32, *mut u32) -> nvmlReturn_t,
) -> Result<Vec<u32>, NvmlError> {
    let length = counted(function, |f, count| ask(f, count, ptr::null_mut()))?;
    let numbers = asked(function, vec![0; length], |f, numbers| {
        let mut count = numbers.len() as u32;
        let code = ask(f, &mut count, numbers.as_mut_ptr());
        numbers.truncate(count as usize);
        code
    })?;
    Ok(numbers)
}
