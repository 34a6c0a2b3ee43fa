//! Writing an archive's files: what is full of holes keeps them, and large files are brought to the
//! disk while the next ones are unpacked.

use gpusetup_system::Directory;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// Bytes written at once.
const BLOCK: usize = 1 << 18;
/// A file of so many bytes is worth a wait for the disk of its own; smaller ones go together at the
/// end.
const LARGE: u64 = 4 << 20;
/// Holes are as large as a page at least.
const PAGE: usize = 4096;
/// Stretches of a file with holes: each takes memory.
const MAX_STRETCHES: u64 = 1 << 16;

/// Takes files that are written, and brings them to the disk.
pub(crate) struct Flusher(SyncSender<File>);

impl Flusher {
    /// It, and what its thread takes from.
    pub(crate) fn new() -> (Self, Receiver<File>) {
        let (give, take) = sync_channel(8);
        (Self(give), take)
    }

    /// Waits for the disk, file by file, until nobody gives any more; the first error.
    pub(crate) fn flush(files: &Receiver<File>) -> io::Result<()> {
        files.iter().try_for_each(|file| file.sync_data())
    }

    fn take(&self, file: File, size: u64) {
        if size >= LARGE {
            // Gone only when its thread broke off, which is seen at its end.
            let _ = self.0.send(file);
        }
    }
}

/// How a file lies in an archive.
pub(crate) enum Layout {
    /// Byte for byte.
    Plain,
    /// With its holes as zeroes.
    Holes,
    /// As its stretches, each from an offset on and so many bytes long, in a file of this size: its
    /// beginning says where they go.
    Stretches(u64),
}

/// Writes a file that is not there yet.
pub(crate) fn write(
    folder: &Directory,
    (name, mode): (&str, u32),
    size: u64,
    layout: &Layout,
    from: impl Read,
    to: &Flusher,
) -> io::Result<()> {
    let mut file = folder.create_new(name, mode)?;
    match layout {
        Layout::Plain => plain(&mut file, from)?,
        Layout::Holes => holes(&mut file, from)?,
        Layout::Stretches(size) => stretches(&mut file, from, *size)?,
    }
    to.take(file, size);
    Ok(())
}

fn plain(file: &mut File, mut from: impl Read) -> io::Result<()> {
    each_block(&mut from, |block| io::Write::write_all(file, block))
}

fn holes(file: &mut File, mut from: impl Read) -> io::Result<()> {
    each_block(&mut from, |block| {
        for page in block.chunks(PAGE) {
            if page == &[0; PAGE][..page.len()] {
                file.seek(SeekFrom::Current(page.len() as i64))?;
            } else {
                io::Write::write_all(file, page)?;
            }
        }
        Ok(())
    })?;
    let length = file.stream_position()?;
    file.set_len(length)
}

fn each_block(
    from: &mut impl Read,
    mut then: impl FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<()> {
    let mut block = Vec::with_capacity(BLOCK);
    loop {
        block.clear();
        if from.by_ref().take(BLOCK as u64).read_to_end(&mut block)? == 0 {
            return Ok(());
        }
        then(&block)?;
    }
}

/// GNU tar's sparse files in archives of the POSIX form, version 1.0: decimal numbers, a line each,
/// padded to whole blocks of 512 bytes, how many stretches and of each its offset and its length;
/// then their bytes. <https://www.gnu.org/software/tar/manual/html_section/Sparse-Formats.html>
fn stretches(file: &mut File, mut from: impl Read, size: u64) -> io::Result<()> {
    let damaged = || {
        io::Error::new(
            io::ErrorKind::InvalidData,
            "a file with holes is not laid out as it says",
        )
    };
    let mut numbers = Numbers {
        from: &mut from,
        block: [0; 512],
        at: 512,
    };
    let count = numbers
        .next()?
        .filter(|n| *n <= MAX_STRETCHES)
        .ok_or_else(damaged)?;
    let mut all = Vec::new();
    let mut end = 0;
    for _ in 0..count {
        let (offset, length) = numbers.next()?.zip(numbers.next()?).ok_or_else(damaged)?;
        if offset < end {
            return Err(damaged());
        }
        end = offset
            .checked_add(length)
            .filter(|end| *end <= size)
            .ok_or_else(damaged)?;
        all.push((offset, length));
    }
    for (mut offset, length) in all {
        let mut stretch = from.by_ref().take(length);
        each_block(&mut stretch, |block| {
            file.write_all_at(block, offset)?;
            offset += block.len() as u64;
            Ok(())
        })?;
        if stretch.limit() > 0 {
            return Err(damaged());
        }
    }
    file.set_len(size)
}

/// Numbers, a line each, read in whole blocks.
struct Numbers<R> {
    from: R,
    block: [u8; 512],
    at: usize,
}

impl<R: Read> Numbers<R> {
    /// The next one; none where there is something else.
    fn next(&mut self) -> io::Result<Option<u64>> {
        let mut number = None::<u64>;
        loop {
            if self.at == self.block.len() {
                self.from.read_exact(&mut self.block)?;
                self.at = 0;
            }
            let byte = self.block[self.at];
            self.at += 1;
            let digit = match byte {
                b'\n' => return Ok(number),
                b'0'..=b'9' => u64::from(byte - b'0'),
                _ => return Ok(None),
            };
            number = number
                .unwrap_or(0)
                .checked_mul(10)
                .and_then(|n| n.checked_add(digit));
            if number.is_none() {
                return Ok(None);
            }
        }
    }
}
