//! SHA-256 of bytes in memory, in lower-case hexadecimal, as written in the manifests.

use sha2::{Digest, Sha256};

/// The SHA-256 of `bytes`.
pub fn sha256(bytes: impl AsRef<[u8]>) -> String {
    hex(&Sha256::digest(bytes.as_ref()))
}

/// A SHA-256 checksum in lower-case hexadecimal, for the schemas.
#[cfg(feature = "schemas")]
#[derive(schemars::JsonSchema)]
#[schemars(rename = "Sha256", transparent)]
pub struct Sha256Text(#[schemars(regex(pattern = "^[0-9a-f]{64}$"))] pub String);

/// The number of digits used as a folder name.
const SHORT: usize = 16;

/// The first digits of a checksum, used as a folder name: enough to be unique on one machine.
pub fn short(sha256: &str) -> &str {
    sha256.get(..SHORT).unwrap_or(sha256)
}

/// Whether a folder name can be such a prefix.
pub fn is_short(name: &str) -> bool {
    name.len() == SHORT && is_hex(name)
}

/// Whether a text is lower-case hexadecimal.
pub fn is_hex(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}

/// Bytes in lower-case hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}
