//! SHA-256 of bytes at hand, in lower-case hexadecimal, as the manifests write it.

use sha2::{Digest, Sha256};

/// The sum of `bytes`.
pub fn sha256(bytes: impl AsRef<[u8]>) -> String {
    hex(&Sha256::digest(bytes.as_ref()))
}

/// Bytes in lower-case hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}
