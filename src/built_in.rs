//! Values that the build script put into the program: in postcard's form, compressed with zlib.

use flate2::read::ZlibDecoder;
use serde::de::DeserializeOwned;
use std::io::Read;

/// Decodes such a value. The whole database, 1.2 MB, takes some 4 ms in a release build.
///
/// # Panics
///
/// If the bytes are not from this program's own build.
#[allow(clippy::expect_used)]
pub fn value<T: DeserializeOwned>(packed: &[u8]) -> T {
    let mut bytes = Vec::with_capacity(packed.len() * 5);
    ZlibDecoder::new(packed).read_to_end(&mut bytes).expect("the build compressed these bytes");
    postcard::from_bytes(&bytes).expect("the build made these bytes from the same types")
}
