//! The functions of NVML that gpusetup calls, looked up by name. The bindings' own table looks up
//! four hundred.

use libloading::{Error, Library};
use nvml_wrapper_sys::bindings::{
    NvmlLib, nvmlComputeInstance_t, nvmlComputeInstanceProfileInfo_t, nvmlDevice_t,
    nvmlDeviceAttributes_t, nvmlFieldValue_t, nvmlGpuFabricInfo_t, nvmlGpuInstance_t,
    nvmlGpuInstanceInfo_t, nvmlGpuInstancePlacement_t, nvmlGpuInstanceProfileInfo_t,
    nvmlGpuInstanceProfileInfo_v2_t, nvmlGridLicensableFeatures_t, nvmlMarginTemperature_t,
    nvmlMemory_t, nvmlMemory_v2_t, nvmlPciInfo_t, nvmlProcessInfo_t, nvmlReturn_t,
    nvmlSystemConfComputeSettings_t, nvmlUtilization_t,
};
use std::ffi::{c_char, c_int, c_uint, c_ulonglong};

macro_rules! functions {
    ($($name:ident($($argument:ty),*);)+) => {
        /// Each function, or why the library does not have it.
        #[allow(non_snake_case)]
        pub(super) struct Functions {
            $(pub $name: Result<unsafe extern "C" fn($($argument),*) -> nvmlReturn_t, Error>,)+
        }

        impl Functions {
            /// The functions of this library, which must stay loaded as long as one of them is
            /// called.
            pub fn of(library: &Library) -> Self {
                // SAFETY: the types are those of NVIDIA's header, as the check below says.
                Self { $($name: unsafe { library.get(concat!(stringify!($name), "\0").as_bytes()) }.map(|found| *found),)+ }
            }
        }

        // The bindings are generated from NVIDIA's header: a type that differs from theirs does not
        // compile.
        const _: fn(&NvmlLib) = |bindings| {
            $(let _: &Result<unsafe extern "C" fn($($argument),*) -> nvmlReturn_t, Error> = &bindings.$name;)+
        };
    };
}

functions! {
    nvmlComputeInstanceDestroy(nvmlComputeInstance_t);
    nvmlDeviceCreateGpuInstanceWithPlacement(nvmlDevice_t, c_uint, *const nvmlGpuInstancePlacement_t, *mut nvmlGpuInstance_t);
    nvmlDeviceGetAccountingMode(nvmlDevice_t, *mut c_uint);
    nvmlDeviceGetAttributes_v2(nvmlDevice_t, *mut nvmlDeviceAttributes_t);
    nvmlDeviceGetClockInfo(nvmlDevice_t, c_uint, *mut c_uint);
    nvmlDeviceGetComputeInstanceId(nvmlDevice_t, *mut c_uint);
    nvmlDeviceGetComputeMode(nvmlDevice_t, *mut c_uint);
    nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t, *mut c_uint, *mut nvmlProcessInfo_t);
    nvmlDeviceGetCount_v2(*mut c_uint);
    nvmlDeviceGetCudaComputeCapability(nvmlDevice_t, *mut c_int, *mut c_int);
    nvmlDeviceGetCurrPcieLinkGeneration(nvmlDevice_t, *mut c_uint);
    nvmlDeviceGetCurrPcieLinkWidth(nvmlDevice_t, *mut c_uint);
    nvmlDeviceGetCurrentClocksThrottleReasons(nvmlDevice_t, *mut c_ulonglong);
    nvmlDeviceGetDisplayActive(nvmlDevice_t, *mut c_uint);
    nvmlDeviceGetDisplayMode(nvmlDevice_t, *mut c_uint);
    nvmlDeviceGetEccMode(nvmlDevice_t, *mut c_uint, *mut c_uint);
    nvmlDeviceGetEnforcedPowerLimit(nvmlDevice_t, *mut c_uint);
    nvmlDeviceGetFanSpeed(nvmlDevice_t, *mut c_uint);
    nvmlDeviceGetFieldValues(nvmlDevice_t, c_int, *mut nvmlFieldValue_t);
    nvmlDeviceGetGpuFabricInfo(nvmlDevice_t, *mut nvmlGpuFabricInfo_t);
    nvmlDeviceGetGpuInstanceId(nvmlDevice_t, *mut c_uint);
    nvmlDeviceGetGpuInstancePossiblePlacements_v2(nvmlDevice_t, c_uint, *mut nvmlGpuInstancePlacement_t, *mut c_uint);
    nvmlDeviceGetGpuInstanceProfileInfo(nvmlDevice_t, c_uint, *mut nvmlGpuInstanceProfileInfo_t);
    nvmlDeviceGetGpuInstanceProfileInfoV(nvmlDevice_t, c_uint, *mut nvmlGpuInstanceProfileInfo_v2_t);
    nvmlDeviceGetGpuInstances(nvmlDevice_t, c_uint, *mut nvmlGpuInstance_t, *mut c_uint);
    nvmlDeviceGetGraphicsRunningProcesses_v3(nvmlDevice_t, *mut c_uint, *mut nvmlProcessInfo_t);
    nvmlDeviceGetGridLicensableFeatures_v4(nvmlDevice_t, *mut nvmlGridLicensableFeatures_t);
    nvmlDeviceGetHandleByIndex_v2(c_uint, *mut nvmlDevice_t);
    nvmlDeviceGetHandleByPciBusId_v2(*const c_char, *mut nvmlDevice_t);
    nvmlDeviceGetHandleByUUID(*const c_char, *mut nvmlDevice_t);
    nvmlDeviceGetInforomImageVersion(nvmlDevice_t, *mut c_char, c_uint);
    nvmlDeviceGetMarginTemperature(nvmlDevice_t, *mut nvmlMarginTemperature_t);
    nvmlDeviceGetMaxClockInfo(nvmlDevice_t, c_uint, *mut c_uint);
    nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t, *mut c_uint);
    nvmlDeviceGetMaxPcieLinkGeneration(nvmlDevice_t, *mut c_uint);
    nvmlDeviceGetMaxPcieLinkWidth(nvmlDevice_t, *mut c_uint);
    nvmlDeviceGetMemoryInfo(nvmlDevice_t, *mut nvmlMemory_t);
    nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t, *mut nvmlMemory_v2_t);
    nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t, c_uint, *mut nvmlDevice_t);
    nvmlDeviceGetMigMode(nvmlDevice_t, *mut c_uint, *mut c_uint);
    nvmlDeviceGetMinorNumber(nvmlDevice_t, *mut c_uint);
    nvmlDeviceGetName(nvmlDevice_t, *mut c_char, c_uint);
    nvmlDeviceGetNvLinkRemoteDeviceType(nvmlDevice_t, c_uint, *mut c_uint);
    nvmlDeviceGetNvLinkRemotePciInfo_v2(nvmlDevice_t, c_uint, *mut nvmlPciInfo_t);
    nvmlDeviceGetNvLinkState(nvmlDevice_t, c_uint, *mut c_uint);
    nvmlDeviceGetPciInfo_v3(nvmlDevice_t, *mut nvmlPciInfo_t);
    nvmlDeviceGetPcieReplayCounter(nvmlDevice_t, *mut c_uint);
    nvmlDeviceGetPerformanceState(nvmlDevice_t, *mut c_uint);
    nvmlDeviceGetPersistenceMode(nvmlDevice_t, *mut c_uint);
    nvmlDeviceGetPowerManagementDefaultLimit(nvmlDevice_t, *mut c_uint);
    nvmlDeviceGetPowerManagementLimit(nvmlDevice_t, *mut c_uint);
    nvmlDeviceGetPowerManagementLimitConstraints(nvmlDevice_t, *mut c_uint, *mut c_uint);
    nvmlDeviceGetPowerUsage(nvmlDevice_t, *mut c_uint);
    nvmlDeviceGetRemappedRows(nvmlDevice_t, *mut c_uint, *mut c_uint, *mut c_uint, *mut c_uint);
    nvmlDeviceGetRetiredPagesPendingStatus(nvmlDevice_t, *mut c_uint);
    nvmlDeviceGetRetiredPages_v2(nvmlDevice_t, c_uint, *mut c_uint, *mut c_ulonglong, *mut c_ulonglong);
    nvmlDeviceGetSerial(nvmlDevice_t, *mut c_char, c_uint);
    nvmlDeviceGetSupportedGraphicsClocks(nvmlDevice_t, c_uint, *mut c_uint, *mut c_uint);
    nvmlDeviceGetSupportedMemoryClocks(nvmlDevice_t, *mut c_uint, *mut c_uint);
    nvmlDeviceGetTemperature(nvmlDevice_t, c_uint, *mut c_uint);
    nvmlDeviceGetTemperatureThreshold(nvmlDevice_t, c_uint, *mut c_uint);
    nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t, nvmlDevice_t, *mut c_uint);
    nvmlDeviceGetTotalEccErrors(nvmlDevice_t, c_uint, c_uint, *mut c_ulonglong);
    nvmlDeviceGetUUID(nvmlDevice_t, *mut c_char, c_uint);
    nvmlDeviceGetUtilizationRates(nvmlDevice_t, *mut nvmlUtilization_t);
    nvmlDeviceGetVbiosVersion(nvmlDevice_t, *mut c_char, c_uint);
    nvmlDeviceGetVirtualizationMode(nvmlDevice_t, *mut c_uint);
    nvmlDeviceResetGpuLockedClocks(nvmlDevice_t);
    nvmlDeviceResetMemoryLockedClocks(nvmlDevice_t);
    nvmlDeviceSetAccountingMode(nvmlDevice_t, c_uint);
    nvmlDeviceSetComputeMode(nvmlDevice_t, c_uint);
    nvmlDeviceSetEccMode(nvmlDevice_t, c_uint);
    nvmlDeviceSetGpuLockedClocks(nvmlDevice_t, c_uint, c_uint);
    nvmlDeviceSetMemoryLockedClocks(nvmlDevice_t, c_uint, c_uint);
    nvmlDeviceSetMigMode(nvmlDevice_t, c_uint, *mut nvmlReturn_t);
    nvmlDeviceSetPersistenceMode(nvmlDevice_t, c_uint);
    nvmlDeviceSetPowerManagementLimit(nvmlDevice_t, c_uint);
    nvmlGetExcludedDeviceCount(*mut c_uint);
    nvmlGpuInstanceCreateComputeInstance(nvmlGpuInstance_t, c_uint, *mut nvmlComputeInstance_t);
    nvmlGpuInstanceDestroy(nvmlGpuInstance_t);
    nvmlGpuInstanceGetComputeInstanceProfileInfo(nvmlGpuInstance_t, c_uint, c_uint, *mut nvmlComputeInstanceProfileInfo_t);
    nvmlGpuInstanceGetComputeInstances(nvmlGpuInstance_t, c_uint, *mut nvmlComputeInstance_t, *mut c_uint);
    nvmlGpuInstanceGetInfo(nvmlGpuInstance_t, *mut nvmlGpuInstanceInfo_t);
    nvmlInit_v2();
    nvmlSystemGetConfComputeGpusReadyState(*mut c_uint);
    nvmlSystemGetConfComputeSettings(*mut nvmlSystemConfComputeSettings_t);
    nvmlSystemGetCudaDriverVersion_v2(*mut c_int);
    nvmlSystemGetDriverVersion(*mut c_char, c_uint);
    nvmlSystemGetProcessName(c_uint, *mut c_char, c_uint);
}
