//! SHA-256 of bytes at hand, in lower-case hexadecimal, as the manifests write it.

use sha2::{Digest, Sha256};

/// The sum of `bytes`.
pub fn sha256(bytes: impl AsRef<[u8]>) -> String {
    hex(&Sha256::digest(bytes.as_ref()))
}

/// As much of a sum as names a folder: enough to tell everything from everything else that a machine has.
pub fn short(sha256: &str) -> &str {
    sha256.get(..16).unwrap_or(sha256)
}

/// Bytes in lower-case hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}
