//! The version that an add-on's library reports, by the function that the database names.

use super::Refused;
use super::calling::calling;
use gpusetup_database::compat::CallForm;
use gpusetup_system::chain;
use libloading::{Library, Symbol};
use std::ffi::c_int;

/// Asks the library with this path or name for the numbers that its function returns. The error is
/// the loader's, or the function's return value.
pub(crate) fn version(library: &str, function: &str, form: CallForm) -> Result<Vec<u32>, Refused> {
    calling(function);
    let refused = |e: libloading::Error| Refused {
        call: library.to_owned(),
        code: None,
        says: chain(&e),
    };
    // SAFETY: loading runs the library's own code, which is why this is a separate process, with
    // nothing to lose. The database names functions that have had this form in every release.
    unsafe {
        let library = Library::new(library).map_err(refused)?;
        let name = function.as_bytes();
        match form {
            CallForm::Returned => {
                let call: Symbol<unsafe extern "C" fn() -> usize> =
                    library.get(name).map_err(refused)?;
                // If the function returns an `int`, the upper half is undefined.
                Ok(vec![call() as u32])
            }
            CallForm::Written => {
                let call: Symbol<unsafe extern "C" fn(*mut c_int) -> c_int> =
                    library.get(name).map_err(refused)?;
                Ok(vec![written(function, |number| call(number))?])
            }
            CallForm::WrittenApart => {
                type Call = unsafe extern "C" fn(*mut c_int, *mut c_int, *mut c_int);
                let call: Symbol<Call> = library.get(name).map_err(refused)?;
                let (mut major, mut minor, mut patch) = (0, 0, 0);
                call(&mut major, &mut minor, &mut patch);
                Ok([major, minor, patch]
                    .map(|n| u32::try_from(n).unwrap_or_default())
                    .to_vec())
            }
            CallForm::Property => {
                type Call = unsafe extern "C" fn(c_int, *mut c_int) -> c_int;
                let call: Symbol<Call> = library.get(name).map_err(refused)?;
                (0..3)
                    .map(|which| written(function, |number| call(which, number)))
                    .collect()
            }
        }
    }
}

/// The number that a function writes, if it returns 0.
fn written(function: &str, call: impl FnOnce(*mut c_int) -> c_int) -> Result<u32, Refused> {
    let mut number = 0;
    match call(&mut number) {
        0 => Ok(u32::try_from(number).unwrap_or_default()),
        code => Err(Refused {
            call: function.to_owned(),
            code: Some(code),
            says: format!("{function} returned {code}"),
        }),
    }
}
