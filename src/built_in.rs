//! Values that the build script put into the program: in postcard's form, compressed with LZ4.

use serde::de::DeserializeOwned;

/// Decodes such a value. LZ4 is undone in half a millisecond for the whole database, zlib would take some three.
///
/// # Panics
///
/// If the bytes are not from this program's own build.
#[allow(clippy::expect_used)]
pub fn value<T: DeserializeOwned>(packed: &[u8]) -> T {
    let bytes = lz4_flex::block::decompress_size_prepended(packed).expect("the build compressed these bytes");
    postcard::from_bytes(&bytes).expect("the build made these bytes from the same types")
}
