//! Values that the build script put into the program, in compact form.

use gpusetup_database::compact::{self, CompactError};
use serde::de::DeserializeOwned;

/// Decodes such a value.
///
/// # Panics
///
/// If the bytes are not from this program's own build.
pub fn value<T: DeserializeOwned>(packed: &[u8]) -> T {
    right(compact::unpack(packed))
}

/// A value that was decoded.
///
/// # Panics
///
/// As [`value`] does.
#[allow(clippy::expect_used)]
pub fn right<T>(decoded: Result<T, CompactError>) -> T {
    decoded.expect("the build made these bytes from the same types")
}
