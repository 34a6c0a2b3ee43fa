//! Sums over what is read.

use crate::sum::hex;
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;

/// SHA-256 of everything that `from` yields, in lower-case hexadecimal.
pub fn digest(from: impl Read) -> io::Result<String> {
    digest_on(Sha256::new(), from)
}

/// The same of a file whose length is somebody else's to choose: one of holes is refused, since it could be of any length.
pub fn digest_of_file(file: File) -> io::Result<String> {
    // Unlike a hole, what a file system compresses keeps a part of its size.
    const LEAST: u64 = 64 << 20;
    const PART: u64 = 64;
    let meta = file.metadata()?;
    if meta.len() > LEAST && meta.blocks().saturating_mul(512) < meta.len() / PART {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "it consists of holes"));
    }
    digest(file)
}

/// The same behind what is in `sum` already.
pub fn digest_on(mut sum: Sha256, from: impl Read) -> io::Result<String> {
    each_block(from, |block| {
        sum.update(block);
        Ok(())
    })?;
    Ok(hex(&sum.finalize()))
}

/// Copies everything, and sums it up on the way.
pub fn copy_summed(from: impl Read, mut to: impl Write) -> io::Result<String> {
    let mut sum = Sha256::new();
    each_block(from, |block| {
        sum.update(block);
        to.write_all(block)
    })?;
    Ok(hex(&sum.finalize()))
}

fn each_block(mut from: impl Read, mut then: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
    let mut block = vec![0; 1 << 17];
    loop {
        match from.read(&mut block) {
            Ok(0) => return Ok(()),
            Ok(n) => then(&block[..n])?,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
}
