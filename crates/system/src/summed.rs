//! Checksums of streams.

use gpusetup_database::sum::hex;
use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;

/// The SHA-256 of everything in `from`, in lower-case hexadecimal.
pub fn digest(from: impl Read) -> io::Result<String> {
    digest_on(Sha256::new(), from)
}

/// The same for a file whose length others control. A sparse file is refused, because it could have
/// any length.
pub fn digest_of_file(file: File) -> io::Result<String> {
    refuse_holes(&file)?;
    digest(file)
}

/// Refuses a sparse file.
pub(crate) fn refuse_holes(file: &File) -> io::Result<()> {
    match consists_of_holes(file)? {
        true => Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "it is a sparse file",
        )),
        false => Ok(()),
    }
}

/// Files of no more bytes are read, whatever is in them.
pub const LEAST_OF_HOLES: u64 = 64 << 20;
/// A file with less data than this part of it is one of holes.
pub const PART_OF_DATA: u64 = 64;

/// Whether a large file has almost no data, according to its file system. The number of blocks is
/// only a hint: some file systems count those of a new file later (ZFS), or never.
pub fn consists_of_holes(file: &File) -> io::Result<bool> {
    let meta = file.metadata()?;
    let enough = meta.len() / PART_OF_DATA;
    if meta.len() <= LEAST_OF_HOLES || meta.blocks().saturating_mul(512) >= enough {
        return Ok(false);
    }
    let (mut data, mut at) = (0, 0);
    while data < enough {
        let start = match seek(file, SeekFrom::Data(at)) {
            Ok(start) => start,
            // Only a hole is left.
            Err(Errno::NXIO) => break,
            // The file system does not report holes.
            Err(Errno::INVAL) => return Ok(false),
            Err(e) => return Err(e.into()),
        };
        at = seek(file, SeekFrom::Hole(start))?;
        data += at - start;
    }
    seek(file, SeekFrom::Start(0))?;
    Ok(data < enough)
}

/// The same, continuing the hash in `sum`.
pub fn digest_on(mut sum: Sha256, from: impl Read) -> io::Result<String> {
    each_block(from, |block| {
        sum.update(block);
        Ok(())
    })?;
    Ok(hex(&sum.finalize()))
}

/// Copies everything and hashes it on the way.
pub fn copy_summed(from: impl Read, mut to: impl Write) -> io::Result<String> {
    let mut sum = Sha256::new();
    each_block(from, |block| {
        sum.update(block);
        to.write_all(block)
    })?;
    Ok(hex(&sum.finalize()))
}

fn each_block(
    mut from: impl Read,
    mut then: impl FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<()> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_holes_is_refused_and_one_of_data_is_not() {
        let file = || tempfile::tempfile().expect("a temporary file");
        let (holes, data) = (file(), file());
        holes.set_len(1 << 41).expect("sparse");
        assert_eq!(
            digest_of_file(holes).expect_err("holes").kind(),
            io::ErrorKind::InvalidData
        );
        // Not on disk yet, and with a hole.
        data.set_len(65 << 20).expect("sparse");
        let mut writer = &data;
        writer.write_all(&vec![1; 2 << 20]).expect("written");
        let mut whole = vec![0; 65 << 20];
        whole[..2 << 20].fill(1);
        seek(&data, SeekFrom::Start(0)).expect("a file");
        assert_eq!(
            digest_of_file(data).expect("data"),
            digest(&whole[..]).expect("read")
        );
    }
}
