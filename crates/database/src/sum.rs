//! SHA-256 of bytes in memory, in lower-case hexadecimal, as written in the manifests.

use sha2::{Digest, Sha256};
use std::io;

/// The SHA-256 of `bytes`.
pub fn sha256(bytes: impl AsRef<[u8]>) -> String {
    hex(&Sha256::digest(bytes.as_ref()))
}

/// The SHA-256 of what is written to it. A writer of text gives a few bytes at a time, so they are
/// gathered.
pub struct Sum {
    hash: Sha256,
    gathered: [u8; 1024],
    length: usize,
}

impl Default for Sum {
    fn default() -> Self {
        Self {
            hash: Sha256::new(),
            gathered: [0; 1024],
            length: 0,
        }
    }
}

impl Sum {
    /// In lower-case hexadecimal.
    pub fn finish(mut self) -> String {
        self.hash.update(&self.gathered[..self.length]);
        hex(&self.hash.finalize())
    }
}

impl io::Write for Sum {
    #[inline]
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Some(room) = self.gathered[self.length..].get_mut(..bytes.len()) {
            room.copy_from_slice(bytes);
            self.length += bytes.len();
        } else {
            self.hash.update(&self.gathered[..self.length]);
            self.hash.update(bytes);
            self.length = 0;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
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
    text.bytes()
        .all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}

/// Bytes in lower-case hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    bytes
        .iter()
        .flat_map(|byte| [byte >> 4, byte & 15])
        .map(|digit| char::from(b"0123456789abcdef"[usize::from(digit)]))
        .collect()
}
