//! cuDNN: whether it computes a small convolution correctly. Uses only functions that releases 7, 8
//! and 9 have in common.

use super::Refused;
use super::calling::calling;
use super::cuda::{Driver, functions};
use gpusetup_system::chain;
use serde::{Deserialize, Serialize};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::null_mut;

/// The result of a convolution.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
#[serde(rename_all = "kebab-case")]
pub enum Convolution {
    /// Correct numbers.
    Right,
    /// Wrong numbers.
    Wrong(String),
    /// The convolution did not run.
    Refused(Refused),
}

/// cuDNN's handles and descriptors are opaque pointers.
type Handle = *mut c_void;

functions! {
    Cudnn:
    create = "cudnnCreate" (handle: *mut Handle);
    create_tensor = "cudnnCreateTensorDescriptor" (tensor: *mut Handle);
    create_filter = "cudnnCreateFilterDescriptor" (filter: *mut Handle);
    create_convolution = "cudnnCreateConvolutionDescriptor" (convolution: *mut Handle);
    set_tensor = "cudnnSetTensor4dDescriptor" (
        tensor: Handle, format: c_int, kind: c_int, n: c_int, c: c_int, h: c_int, w: c_int
    );
    set_filter = "cudnnSetFilter4dDescriptor" (
        filter: Handle, kind: c_int, format: c_int, k: c_int, c: c_int, h: c_int, w: c_int
    );
    set_convolution = "cudnnSetConvolution2dDescriptor" (
        convolution: Handle, pad_h: c_int, pad_w: c_int, stride_h: c_int, stride_w: c_int,
        dilation_h: c_int, dilation_w: c_int, mode: c_int, kind: c_int
    );
    workspace = "cudnnGetConvolutionForwardWorkspaceSize" (
        handle: Handle, input: Handle, filter: Handle, convolution: Handle, output: Handle,
        algorithm: c_int, bytes: *mut usize
    );
    forward = "cudnnConvolutionForward" (
        handle: Handle, alpha: *const c_void, input_descriptor: Handle, input: *const c_void,
        filter_descriptor: Handle, filter: *const c_void, convolution: Handle, algorithm: c_int,
        workspace: *mut c_void, bytes: usize, beta: *const c_void, output_descriptor: Handle, output: *mut c_void
    );
}

impl Cudnn {
    /// The library's name for an error code.
    fn word_for(&self, code: c_int) -> String {
        // SAFETY: the type is the documented one, and the result is a constant of the library.
        unsafe {
            match self
                .library
                .get::<unsafe extern "C" fn(c_int) -> *const c_char>(b"cudnnGetErrorString\0")
            {
                Ok(function) => match function(code) {
                    text if text.is_null() => "an error".to_owned(),
                    text => CStr::from_ptr(text).to_string_lossy().into_owned(),
                },
                Err(_) => "an error".to_owned(),
            }
        }
    }
}

/// `CUDNN_DATA_FLOAT`, `CUDNN_TENSOR_NCHW`, `CUDNN_CROSS_CORRELATION`,
/// `CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM`.
const FLOAT: c_int = 0;
const NCHW: c_int = 0;
const CROSS_CORRELATION: c_int = 1;
const IMPLICIT_GEMM: c_int = 0;

/// An image of 3 by 3, a filter of 2 by 2, and the filtered image: whole numbers, exact in every
/// number format of GPUs.
const IMAGE: [f32; 9] = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0];
const FILTER: [f32; 4] = [1.0, 2.0, 3.0, 4.0];
const FILTERED: [f32; 4] = [37.0, 47.0, 67.0, 77.0];

/// Runs a convolution on the first GPU with the cuDNN of this path or name. Never fails: a refused
/// call is part of the answer.
pub(crate) fn convolution(cudnn: &str, cuda: &str) -> Convolution {
    match filtered(cudnn, cuda) {
        Ok(result) if result == FILTERED => Convolution::Right,
        Ok(result) => {
            Convolution::Wrong(format!("the result is {result:?} instead of {FILTERED:?}"))
        }
        Err(refused) => Convolution::Refused(refused),
    }
}

fn filtered(cudnn: &str, cuda: &str) -> Result<[f32; 4], Refused> {
    let driver = Driver::load(cuda)?;
    let cudnn = Cudnn::load(cudnn)?;
    let (mut device, mut context, mut handle) = (0, null_mut(), null_mut());
    let (mut input, mut filter, mut output, mut convolution) =
        (null_mut(), null_mut(), null_mut(), null_mut());
    let (one, zero, mut bytes, mut result) = (1.0f32, 0.0f32, 0, [0.0f32; 4]);
    // SAFETY: every pointer is to something that outlives the call; the memory on the GPU is as
    // long as the descriptors say. cuDNN computes in the primary context, as CUDA's runtime does.
    unsafe {
        driver.init(0)?;
        driver.device_get(&mut device, 0)?;
        driver.primary_context_retain(&mut context, device)?;
        driver.context_set_current(context)?;
        cudnn.create(&mut handle)?;
        cudnn.create_tensor(&mut input)?;
        cudnn.set_tensor(input, NCHW, FLOAT, 1, 1, 3, 3)?;
        cudnn.create_filter(&mut filter)?;
        cudnn.set_filter(filter, FLOAT, NCHW, 1, 1, 2, 2)?;
        cudnn.create_tensor(&mut output)?;
        cudnn.set_tensor(output, NCHW, FLOAT, 1, 1, 2, 2)?;
        cudnn.create_convolution(&mut convolution)?;
        cudnn.set_convolution(convolution, 0, 0, 1, 1, 1, 1, CROSS_CORRELATION, FLOAT)?;
        cudnn.workspace(
            handle,
            input,
            filter,
            convolution,
            output,
            IMPLICIT_GEMM,
            &mut bytes,
        )?;
        let image = on_device(&driver, &IMAGE)?;
        let weights = on_device(&driver, &FILTER)?;
        let results = on_device(&driver, &result)?;
        let mut workspace = 0;
        if bytes > 0 {
            driver.memory_allocate(&mut workspace, bytes)?;
        }
        cudnn.forward(
            handle,
            (&raw const one).cast(),
            input,
            image as *const c_void,
            filter,
            weights as *const c_void,
            convolution,
            IMPLICIT_GEMM,
            workspace as *mut c_void,
            bytes,
            (&raw const zero).cast(),
            output,
            results as *mut c_void,
        )?;
        driver.context_synchronize()?;
        driver.copy_from_device(result.as_mut_ptr().cast(), results, size_of_val(&result))?;
    }
    Ok(result)
}

/// A copy of these numbers on the GPU.
fn on_device(driver: &Driver, numbers: &[f32]) -> Result<u64, Refused> {
    let mut pointer = 0;
    // SAFETY: the memory on the GPU is as long as the numbers, which outlive the call.
    unsafe {
        driver.memory_allocate(&mut pointer, size_of_val(numbers))?;
        driver.copy_to_device(pointer, numbers.as_ptr().cast(), size_of_val(numbers))?;
    }
    Ok(pointer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_right_numbers_are_right() {
        let at = |row: usize, column: usize| IMAGE[3 * row + column];
        let filtered = |row, column| {
            (0..4)
                .map(|i| FILTER[i] * at(row + i / 2, column + i % 2))
                .sum::<f32>()
        };
        assert_eq!(
            [
                filtered(0, 0),
                filtered(0, 1),
                filtered(1, 0),
                filtered(1, 1)
            ],
            FILTERED
        );
    }
}
