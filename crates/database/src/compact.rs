//! The compact form of the facts, as the program carries them: postcard, compressed with LZ4.
//! Decoding it takes a thirtieth of the time that reading YAML takes. What one build wrote, only a
//! build from the same sources reads.

use crate::compat::Database;
use crate::text;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A hash over the sources of the types: SHA-256, in lower-case hexadecimal. Each gpusetup reads
/// only its own compact form.
pub const SHAPE: &str = env!("GPUSETUP_SHAPE");

/// Why bytes are not a value in compact form.
#[derive(Debug, thiserror::Error)]
pub enum CompactError {
    /// LZ4 refused them.
    #[error("not compressed as expected: {0}")]
    Compression(#[from] lz4_flex::block::DecompressError),
    /// postcard refused them.
    #[error("of another form: {0}")]
    Form(#[from] postcard::Error),
}

/// The compact form of a value.
///
/// # Errors
///
/// If the value has no such form: a list of unknown length.
pub fn pack(value: &impl Serialize) -> Result<Vec<u8>, CompactError> {
    let (value, texts) = text::gathered(|| postcard::to_stdvec(value));
    let mut all = postcard::to_stdvec(&texts)?;
    all.extend(value?);
    Ok(lz4_flex::block::compress_prepend_size(&all))
}

/// The value in compact form. The texts in it stay in memory.
///
/// # Errors
///
/// If the bytes are not from [`pack`], or from a value of another type.
pub(crate) fn unpack<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, CompactError> {
    let all = lz4_flex::block::decompress_size_prepended(bytes)?;
    let (texts, value) = postcard::take_from_bytes::<text::Joined>(&all)?;
    Ok(text::with(texts, || postcard::from_bytes(value))?)
}

/// The compact form of a database: each of its tables is packed by itself.
///
/// # Errors
///
/// As for [`pack`].
pub fn pack_database(database: &Database) -> Result<Vec<u8>, CompactError> {
    Ok(postcard::to_stdvec(database)?)
}

/// A database in compact form. Its tables are decoded when they are first read.
///
/// # Errors
///
/// If the bytes are not from [`pack_database`].
pub fn unpack_database(bytes: &'static [u8]) -> Result<Database, CompactError> {
    Ok(postcard::from_bytes(bytes)?)
}

/// Decodes a value that the build put into the program.
///
/// # Panics
///
/// If the bytes are not from the same build.
#[allow(clippy::expect_used)]
pub fn built_in<T: DeserializeOwned>(packed: &[u8]) -> T {
    unpack(packed).expect("the build made these bytes from the same types")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_back_and_other_bytes_are_refused() {
        let value = vec!["a".to_owned(), "b".repeat(1000)];
        let packed = pack(&value).expect("it has a form");
        assert!(packed.len() < 100, "{}", packed.len());
        assert_eq!(unpack::<Vec<String>>(&packed).expect("the same"), value);
        assert!(unpack::<Vec<String>>(&packed[..packed.len() - 1]).is_err());
        assert!(unpack_database(packed.leak()).is_err());
    }
}
