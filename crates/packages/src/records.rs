//! Reads long lists record by record, plain or compressed, in bounded memory, because the lists of
//! a tree are untrusted.

use super::Unknown;
use gpusetup_system::limits::DECODER_MEMORY;
use gpusetup_system::zst;
use gpusetup_system::{Metered, System};
use memchr::memmem::Finder;
use std::fs::File;
use std::io::{self, BufRead, BufReader, ErrorKind, Read};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of a block. It fits in a core's cache, so that it can be searched right after it was read.
const BLOCK: usize = 256 << 10;
/// The maximum length of a record in bytes. Records of real lists have a few kilobytes.
const MAX_RECORD: usize = 8 << 20;
/// The maximum window of zstd, as a power of two: enough for `zstd --ultra`.
const ZSTD_WINDOW: u32 = 26;

/// The remaining number of bytes that may be decompressed, shared by all lists of a host.
pub(crate) struct Budget(AtomicU64);

impl Default for Budget {
    /// Several times the size of the lists of all Debian releases together.
    fn default() -> Self {
        Self(AtomicU64::new(1 << 30))
    }
}

struct Counted<'a, R> {
    from: R,
    left: &'a Budget,
}

impl<R: Read> Read for Counted<'_, R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.from.read(into)?;
        let (left, order) = (&self.left.0, Ordering::Relaxed);
        match left.fetch_update(order, order, |left| left.checked_sub(read as u64)) {
            Ok(_) => Ok(read),
            Err(_) => Err(invalid("the lists are larger than 1 GiB")),
        }
    }
}

fn invalid(why: impl Into<String>) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, why.into())
}

/// Opens a list and decompresses it while reading. The first bytes determine the format.
pub(crate) fn open<'a>(
    system: &System,
    path: &Path,
    budget: &'a Budget,
) -> io::Result<Box<dyn Read + 'a>> {
    let file = system.open(path)?;
    if !file.metadata()?.is_file() {
        return Err(invalid("it is not a regular file"));
    }
    let meter = system.meter(path);
    // What comes out is searched, too.
    Ok(Box::new(meter.of(Counted {
        from: decoder(meter.of(file))?,
        left: budget,
    })))
}

fn decoder(file: Metered<File>) -> io::Result<Box<dyn Read>> {
    let mut from = BufReader::with_capacity(BLOCK, file);
    let start = from.fill_buf()?;
    Ok(if start.starts_with(b"\x04\x22\x4d\x18") {
        Box::new(Frames::new(from))
    } else if start.starts_with(b"\x1f\x8b") {
        Box::new(flate2::bufread::MultiGzDecoder::new(from))
    } else if start.starts_with(b"\xfd7zXZ\0") {
        let stream = liblzma::stream::Stream::new_stream_decoder(
            DECODER_MEMORY,
            liblzma::stream::CONCATENATED,
        )?;
        Box::new(liblzma::bufread::XzDecoder::new_stream(from, stream))
    } else if start.starts_with(b"\x28\xb5\x2f\xfd") {
        Box::new(zst::Decoder::with_buffer(from)?.window(ZSTD_WINDOW)?)
    } else if start.starts_with(b"BZh") || start.starts_with(b"\x5d\0\0") {
        return Err(invalid("this kind of compression is not supported"));
    } else {
        Box::new(from)
    })
}

/// Consecutive LZ4 frames. The decoder stops at the end of each frame and does not detect a file
/// truncated between two blocks; the last bytes show it.
struct Frames {
    decoder: lz4_flex::frame::FrameDecoder<Tail>,
}

/// A file, with the last bytes read from it.
struct Tail {
    from: BufReader<Metered<File>>,
    /// At the end of a frame: the end mark and the checksum after it.
    last: [u8; 8],
    has_checksum: bool,
}

impl Frames {
    fn new(from: BufReader<Metered<File>>) -> Self {
        // In the byte after the magic number.
        let has_checksum = from.buffer().get(4).is_some_and(|flags| flags & 4 != 0);
        Self {
            decoder: lz4_flex::frame::FrameDecoder::new(Tail {
                from,
                last: [1; 8],
                has_checksum,
            }),
        }
    }
}

impl Tail {
    fn is_complete(&self) -> bool {
        let mark = if self.has_checksum {
            &self.last[..4]
        } else {
            &self.last[4..]
        };
        mark == [0; 4]
    }
}

impl Read for Tail {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.from.read(into)?;
        let new = &into[read.saturating_sub(8)..read];
        self.last.rotate_left(new.len());
        self.last[8 - new.len()..].copy_from_slice(new);
        Ok(read)
    }
}

impl Read for Frames {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let mut read = self.decoder.read(into)?;
        if read == 0 && !into.is_empty() {
            // Read the next frame, if there is one.
            read = self.decoder.read(into)?;
            if read == 0 && !self.decoder.get_ref().is_complete() {
                return Err(ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(read)
    }
}

/// Calls `each` with every record of a list. Records are separated by `separator`; the last one
/// needs none.
pub(crate) fn each_record<E: From<io::Error>>(
    mut from: impl Read,
    separator: &[u8],
    mut each: impl FnMut(&[u8]) -> Result<(), E>,
) -> Result<(), E> {
    let finder = Finder::new(separator);
    let (mut block, mut filled, mut searched) = (vec![0; BLOCK], 0, 0);
    loop {
        if filled == block.len() {
            if block.len() >= MAX_RECORD {
                return Err(invalid("a record is longer than 8 MiB").into());
            }
            block.resize(block.len() * 2, 0);
        }
        let read = match from.read(&mut block[filled..]) {
            Err(e) if e.kind() == ErrorKind::Interrupted => continue,
            read => read?,
        };
        filled += read;
        let mut start = 0;
        while let Some(at) = finder.find(&block[searched..filled]) {
            let end = searched + at;
            each(&block[start..end])?;
            (start, searched) = (end + separator.len(), end + separator.len());
        }
        if read == 0 {
            return each(&block[start..filled]);
        }
        block.copy_within(start..filled, 0);
        filled -= start;
        // A separator may be split across two reads.
        searched = filled.saturating_sub(separator.len() - 1);
    }
}

/// Calls `each` with every record of a file.
pub(crate) fn each_record_of(
    system: &System,
    path: &Path,
    separator: &[u8],
    budget: &Budget,
    mut each: impl FnMut(&[u8]) -> Result<(), String>,
) -> Result<(), Unknown> {
    let list = open(system, path, budget).map_err(|e| Unknown::at(path, e))?;
    each_record(list, separator, |record| each(record).map_err(invalid))
        .map_err(|e: io::Error| Unknown::at(path, e))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::io::Write;

    /// Returns a few bytes at a time.
    pub(crate) struct Slow<'a>(pub &'a [u8], pub usize);

    impl Read for Slow<'_> {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            let n = self.1.min(self.0.len()).min(into.len());
            into[..n].copy_from_slice(&self.0[..n]);
            self.0 = &self.0[n..];
            Ok(n)
        }
    }

    fn records(from: impl Read) -> io::Result<Vec<String>> {
        let mut all = Vec::new();
        each_record(from, b"\n\n", |record| {
            all.push(String::from_utf8_lossy(record).into_owned());
            Ok::<_, io::Error>(())
        })?;
        Ok(all)
    }

    fn temporary(bytes: &[u8]) -> (tempfile::TempDir, System) {
        let dir = tempfile::tempdir().expect("a temporary directory");
        std::fs::write(dir.path().join("list"), bytes).expect("written");
        let system = System::at(dir.path());
        (dir, system)
    }

    fn unpacked(bytes: &[u8]) -> io::Result<Vec<u8>> {
        let (_dir, system) = temporary(bytes);
        let mut all = Vec::new();
        open(&system, Path::new("/list"), &Budget::default())?
            .read_to_end(&mut all)
            .map(|_| all)
    }

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(bytes)
            .and_then(|()| gzip.finish())
            .expect("packed")
    }

    #[test]
    fn records_do_not_depend_on_how_the_reads_fall() {
        for step in [1, 2, 3, 5, 100] {
            assert_eq!(
                records(Slow(b"a\nb\n\nc\n\n\nd", step)).expect("read"),
                ["a\nb", "c", "\nd"],
                "{step}"
            );
        }
        let long = vec![b'x'; 3 * BLOCK];
        assert_eq!(records(&long[..]).expect("read")[0].len(), 3 * BLOCK);
        let endless = io::repeat(b'x');
        assert!(
            records(endless)
                .expect_err("refused")
                .to_string()
                .contains("8 MiB")
        );
    }

    #[test]
    fn every_compression_is_read() {
        let text: Vec<u8> = (0..300_000_u32)
            .flat_map(|n| (n / 7).to_le_bytes())
            .collect();
        assert!(unpacked(&text).expect("plain") == text);
        assert!(unpacked(&gzip(&text)).expect("gzip") == text);
        assert!(
            unpacked(&[gzip(&text), gzip(b"more")].concat()).expect("gzip")
                == [&text[..], b"more"].concat()
        );
        let mut xz = liblzma::write::XzEncoder::new(Vec::new(), 1);
        xz.write_all(&text).expect("packed");
        assert!(unpacked(&xz.finish().expect("packed")).expect("xz") == text);
        assert!(unpacked(&zstd::encode_all(&text[..], 1).expect("packed")).expect("zstd") == text);
        assert_eq!(unpacked(b"").expect("empty"), b"");
        assert!(unpacked(b"BZh91AY").is_err());
    }

    #[test]
    fn lz4_is_read_as_apt_writes_it() {
        // `yes 'Package: a' | head -4 | lz4 -c`
        let packed = b"\x04\x22\x4d\x18\x64\x40\xa7\x15\x00\x00\x00\xbf\x50\x61\x63\x6b\x61\x67\x65\x3a\x20\x61\x0a\x0b\x00\x09\x50\x65\x3a\x20\x61\x0a\x00\x00\x00\x00\x41\x32\x2b\x5f";
        let text = "Package: a\n".repeat(4);
        assert_eq!(unpacked(packed).expect("lz4"), text.as_bytes());
        assert_eq!(
            unpacked(&[&packed[..], packed].concat()).expect("lz4"),
            text.repeat(2).as_bytes()
        );
        for length in 5..packed.len() {
            assert!(unpacked(&packed[..length]).is_err(), "{length}");
        }
    }

    #[test]
    fn what_is_cut_off_or_too_large_is_refused() {
        let packed = gzip(b"Package: a\n");
        assert!(unpacked(&packed[..packed.len() - 3]).is_err());
        let (_dir, system) = temporary(&gzip(&[0; 5000]));
        let budget = Budget(AtomicU64::new(4000));
        let mut all = Vec::new();
        let error =
            open(&system, Path::new("/list"), &budget).and_then(|mut l| l.read_to_end(&mut all));
        assert!(error.expect_err("refused").to_string().contains("larger"));
        assert!(open(&system, Path::new("/"), &budget).is_err());
    }
}
