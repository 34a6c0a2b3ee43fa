//! CUDA's driver library: whether it starts, and whether a test kernel computes correct results on
//! every GPU. The kernel is PTX, which the driver itself compiles: no toolkit is needed.

use super::calling::calling;
use super::{Refused, cuda_version, loaded_from};
use gpusetup_database::version::{ComputeCapability, CudaVersion};
use gpusetup_system::chain;
use serde::{Deserialize, Serialize};
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::path::PathBuf;
use std::ptr::null_mut;

/// The answer of CUDA's driver library.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct Cuda {
    /// The path of the library that was loaded.
    pub library: Option<PathBuf>,
    /// The newest CUDA that it supports natively; known without starting CUDA.
    pub version: Option<CudaVersion>,
    /// Why CUDA does not start.
    pub refused: Option<Refused>,
    /// The GPUs, and the result of the test kernel on each.
    pub gpus: Vec<CudaGpu>,
}

/// A GPU or a MIG instance, as CUDA sees it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct CudaGpu {
    /// Bus address, `0000:17:00.0`.
    #[cfg_attr(
        feature = "schemas",
        schemars(regex(pattern = r"^[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}[.][0-9a-f]$"))
    )]
    pub address: Option<String>,
    /// The name of the GPU.
    pub name: Option<String>,
    /// The compute capability that CUDA reports.
    pub compute_capability: Option<ComputeCapability>,
    /// The result of the test kernel.
    pub kernel: Kernel,
}

/// The result of the test kernel.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
#[serde(rename_all = "kebab-case")]
pub enum Kernel {
    /// Correct numbers.
    #[default]
    Right,
    /// Wrong numbers: how many, and the first.
    Wrong(String),
    /// The kernel did not run.
    Refused(Refused),
}

impl Cuda {
    /// Whether it computes correctly on every GPU that it sees.
    pub fn computes(&self) -> bool {
        self.refused.is_none()
            && !self.gpus.is_empty()
            && self.gpus.iter().all(|g| g.kernel == Kernel::Right)
    }
}

/// Writes a number for each thread. PTX 3.2 (CUDA 5.5) and sm_30 (Kepler) suit the oldest driver
/// branches still in use. Every driver compiles PTX that is older than itself, for every GPU that
/// is newer than the PTX's target: <https://docs.nvidia.com/cuda/parallel-thread-execution/>,
/// "Release Notes".
pub const KERNEL: &str = "\
.version 3.2
.target sm_30
.address_size 64

.visible .entry numbers(.param .u64 results, .param .u32 seed)
{
    .reg .u32 %index, %seed, %block, %size, %value, %mixed;
    .reg .u64 %results, %offset;

    ld.param.u64 %results, [results];
    ld.param.u32 %seed, [seed];
    cvta.to.global.u64 %results, %results;
    mov.u32 %block, %ctaid.x;
    mov.u32 %size, %ntid.x;
    mov.u32 %index, %tid.x;
    mad.lo.u32 %index, %block, %size, %index;
    xor.b32 %mixed, %index, %seed;
    mad.lo.u32 %value, %index, %seed, %mixed;
    mul.wide.u32 %offset, %index, 4;
    add.u64 %results, %results, %offset;
    st.global.u32 [%results], %value;
    ret;
}
";

const BLOCKS: u32 = 8;
const THREADS: u32 = 128;
const SEED: u32 = 0x9e37_79b9;

/// The number that a thread of the kernel computes.
fn right(index: u32) -> u32 {
    index.wrapping_mul(SEED).wrapping_add(index ^ SEED)
}

/// CUDA's handles are opaque pointers.
type Handle = *mut c_void;
type DevicePointer = u64;

/// The functions of a library, each announced before it is called, with its refusal as an error.
macro_rules! functions {
    ($name:ident: $($function:ident = $symbol:literal ($($argument:ident: $type:ty),*);)*) => {
        pub struct $name {
            library: libloading::Library,
            $($function: unsafe extern "C" fn($($type),*) -> c_int,)*
        }

        impl $name {
            /// Loading runs the library's own code, which is why this is done in a separate
            /// process, with nothing to lose.
            pub fn load(path: &str) -> Result<Self, Refused> {
                calling(concat!("the loader for ", stringify!($name)));
                let refused = |e: libloading::Error| Refused { call: path.to_owned(), code: None, says: chain(&e) };
                // SAFETY: the types are those of the library's documented interface, which no
                // release has changed.
                unsafe {
                    let library = libloading::Library::new(path).map_err(refused)?;
                    Ok(Self {
                        $($function: *library.get(concat!($symbol, "\0").as_bytes()).map_err(refused)?,)*
                        library,
                    })
                }
            }

            $(#[allow(clippy::too_many_arguments)]
            pub unsafe fn $function(&self, $($argument: $type),*) -> Result<(), Refused> {
                calling($symbol);
                // SAFETY: the caller guarantees valid arguments.
                match unsafe { (self.$function)($($argument),*) } {
                    0 => Ok(()),
                    code => Err(Refused { call: $symbol.to_owned(), code: Some(code), says: self.word_for(code) }),
                }
            })*
        }
    };
}
pub(super) use functions;

functions! {
    Driver:
    driver_get_version = "cuDriverGetVersion" (version: *mut c_int);
    init = "cuInit" (flags: c_uint);
    device_get_count = "cuDeviceGetCount" (count: *mut c_int);
    device_get = "cuDeviceGet" (device: *mut c_int, ordinal: c_int);
    device_get_name = "cuDeviceGetName" (name: *mut c_char, length: c_int, device: c_int);
    device_get_pci_bus_id = "cuDeviceGetPCIBusId" (address: *mut c_char, length: c_int, device: c_int);
    device_get_attribute = "cuDeviceGetAttribute" (value: *mut c_int, attribute: c_int, device: c_int);
    primary_context_retain = "cuDevicePrimaryCtxRetain" (context: *mut Handle, device: c_int);
    primary_context_release = "cuDevicePrimaryCtxRelease_v2" (device: c_int);
    context_set_current = "cuCtxSetCurrent" (context: Handle);
    context_synchronize = "cuCtxSynchronize" ();
    module_load_data = "cuModuleLoadData" (module: *mut Handle, image: *const c_void);
    module_get_function = "cuModuleGetFunction" (function: *mut Handle, module: Handle, name: *const c_char);
    memory_allocate = "cuMemAlloc_v2" (pointer: *mut DevicePointer, bytes: usize);
    memory_free = "cuMemFree_v2" (pointer: DevicePointer);
    memory_set = "cuMemsetD32_v2" (pointer: DevicePointer, value: c_uint, count: usize);
    copy_to_device = "cuMemcpyHtoD_v2" (to: DevicePointer, from: *const c_void, bytes: usize);
    copy_from_device = "cuMemcpyDtoH_v2" (to: *mut c_void, from: DevicePointer, bytes: usize);
    launch_kernel = "cuLaunchKernel" (
        function: Handle,
        blocks_x: c_uint, blocks_y: c_uint, blocks_z: c_uint,
        threads_x: c_uint, threads_y: c_uint, threads_z: c_uint,
        shared: c_uint, stream: Handle, arguments: *mut *mut c_void, extra: *mut *mut c_void
    );
}

impl Driver {
    /// The library's message for an error code; stubs have none.
    fn word_for(&self, code: c_int) -> String {
        type ErrorString = unsafe extern "C" fn(c_int, *mut *const c_char) -> c_int;
        let mut text: *const c_char = std::ptr::null();
        // SAFETY: the type is the documented one; the library sets `text` to a constant of its own,
        // or leaves it null.
        unsafe {
            match self.library.get::<ErrorString>(b"cuGetErrorString\0") {
                Ok(function) if function(code, &mut text) == 0 && !text.is_null() => {
                    CStr::from_ptr(text).to_string_lossy().into_owned()
                }
                _ => "an error".to_owned(),
            }
        }
    }
}

/// Asks the library with this path or name. Never fails: a refused call is part of the answer.
pub(crate) fn answer(library: &str) -> Cuda {
    let mut told = Cuda::default();
    let driver = match Driver::load(library) {
        Ok(driver) => driver,
        Err(refused) => {
            return Cuda {
                refused: Some(refused),
                ..told
            };
        }
    };
    told.library = loaded_from("libcuda.so");
    let mut version = 0;
    // SAFETY: the number outlives the call.
    if unsafe { driver.driver_get_version(&mut version) }.is_ok() {
        told.version = cuda_version(version);
    }
    match start(&driver) {
        Ok(count) => told.gpus = (0..count).map(|ordinal| gpu(&driver, ordinal)).collect(),
        Err(refused) => told.refused = Some(refused),
    }
    told
}

/// Initialises the driver and returns the number of GPUs.
fn start(driver: &Driver) -> Result<c_int, Refused> {
    let mut count = 0;
    // SAFETY: the number outlives the call.
    unsafe {
        driver.init(0)?;
        driver.device_get_count(&mut count)?;
    }
    Ok(count)
}

fn gpu(driver: &Driver, ordinal: c_int) -> CudaGpu {
    let mut device = 0;
    // SAFETY: the number outlives the call.
    if let Err(refused) = unsafe { driver.device_get(&mut device, ordinal) } {
        return CudaGpu {
            kernel: Kernel::Refused(refused),
            ..CudaGpu::default()
        };
    }
    CudaGpu {
        address: text(|to, length| unsafe { driver.device_get_pci_bus_id(to, length, device) })
            .map(|address| address.to_lowercase()),
        name: text(|to, length| unsafe { driver.device_get_name(to, length, device) }),
        compute_capability: capability(driver, device),
        kernel: match numbers(driver, device) {
            Ok(numbers) => judged(&numbers),
            Err(refused) => Kernel::Refused(refused),
        },
    }
}

/// A text that a function writes into a buffer of a given length.
fn text(write: impl FnOnce(*mut c_char, c_int) -> Result<(), Refused>) -> Option<String> {
    let mut buffer = [0u8; 256];
    write(buffer.as_mut_ptr().cast(), 255).ok()?;
    CStr::from_bytes_until_nul(&buffer)
        .ok()?
        .to_str()
        .ok()
        .map(str::to_owned)
}

fn capability(driver: &Driver, device: c_int) -> Option<ComputeCapability> {
    /// `CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR`; the next one is the minor version.
    const MAJOR: c_int = 75;
    let [major, minor] = [MAJOR, MAJOR + 1].map(|attribute| {
        let mut value = 0;
        // SAFETY: the number outlives the call.
        unsafe { driver.device_get_attribute(&mut value, attribute, device) }.ok()?;
        u8::try_from(value).ok()
    });
    Some(ComputeCapability {
        major: major?,
        minor: minor?,
    })
}

/// Runs the test kernel on a GPU.
fn numbers(driver: &Driver, device: c_int) -> Result<Vec<u32>, Refused> {
    let mut results = vec![0u32; (BLOCKS * THREADS) as usize];
    let bytes = size_of_val(results.as_slice());
    let source = format!("{KERNEL}\0");
    let (mut context, mut module, mut function, mut pointer, mut seed) =
        (null_mut(), null_mut(), null_mut(), 0, SEED);
    let mut arguments: [*mut c_void; 2] = [(&raw mut pointer).cast(), (&raw mut seed).cast()];
    // SAFETY: every pointer is to something that outlives the call; texts end with a zero; the
    // memory on the GPU is as long as the results, and as what the threads write.
    unsafe {
        driver.primary_context_retain(&mut context, device)?;
        driver.context_set_current(context)?;
        driver.module_load_data(&mut module, source.as_ptr().cast())?;
        driver.module_get_function(&mut function, module, c"numbers".as_ptr())?;
        driver.memory_allocate(&mut pointer, bytes)?;
        // The memory may still contain the correct numbers of another process.
        driver.memory_set(pointer, 0, results.len())?;
        let (stream, extra, shared) = (null_mut(), null_mut(), 0);
        let arguments = arguments.as_mut_ptr();
        driver.launch_kernel(
            function, BLOCKS, 1, 1, THREADS, 1, 1, shared, stream, arguments, extra,
        )?;
        driver.context_synchronize()?;
        driver.copy_from_device(results.as_mut_ptr().cast(), pointer, bytes)?;
        driver.memory_free(pointer)?;
        driver.primary_context_release(device)?;
    }
    Ok(results)
}

fn judged(numbers: &[u32]) -> Kernel {
    let wrong: Vec<_> = (0..)
        .zip(numbers)
        .filter(|(index, number)| **number != right(*index))
        .collect();
    match wrong.first() {
        None => Kernel::Right,
        Some((index, number)) => Kernel::Wrong(format!(
            "{} of {} numbers are wrong; the first is {number}, and should be {}",
            wrong.len(),
            numbers.len(),
            right(*index)
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_held_to_what_they_should_be() {
        let mut numbers: Vec<u32> = (0..BLOCKS * THREADS).map(right).collect();
        assert_eq!(judged(&numbers), Kernel::Right);
        numbers[7] ^= 1;
        let Kernel::Wrong(how) = judged(&numbers) else {
            panic!("a bit was turned")
        };
        assert!(how.starts_with("1 of 1024 numbers are wrong"), "{how}");
        assert_ne!(
            judged(&vec![0; numbers.len()]),
            Kernel::Right,
            "memory that nobody wrote to"
        );
    }
}
