//! The formats that archives are packed in, told by their first bytes: a name may say anything.
//! However an archive was packed, its decoder takes no more memory than is said here.

use super::blocks::{self, Blocks};
use super::wheel;
use gpusetup_system::cores;
use gpusetup_system::zst;
use liblzma::bufread::XzDecoder;
use liblzma::stream::{Error as XzError, Stream};
use std::io::{self, BufRead, Chain, Cursor, Read};

/// Bytes that a decoder may need. `xz -9` looks back over 64 MiB and packs a little beside it; no
/// preset needs more.
const MAX_MEMORY: u64 = 66 << 20;
/// zstd may look back so far, as a power of two in bytes: 64 MiB.
const WINDOW: u32 = 26;

const XZ: &[u8] = b"\xfd7zXZ\0";
const GZIP: &[u8] = b"\x1f\x8b";
const ZSTD: &[u8] = b"\x28\xb5\x2f\xfd";

/// What is in a tar archive, unpacked while it is read; a wheel as it is. All of an archive is
/// checked against the sums in it, and nothing may stand behind its end.
pub(crate) fn decoder<'a>(mut from: impl BufRead + 'a) -> io::Result<Box<dyn Read + 'a>> {
    let start = from.fill_buf()?;
    if start.starts_with(XZ) {
        Ok(Box::new(Streams {
            now: Some(Xz::new(from)?),
            is_first: true,
        }))
    } else if start.starts_with(GZIP) {
        Ok(Box::new(flate2::bufread::MultiGzDecoder::new(from)))
    } else if start.starts_with(ZSTD) {
        Ok(Box::new(zst::Decoder::with_buffer(from)?.window(WINDOW)?))
    } else if start.starts_with(wheel::MAGIC) {
        // Each of its files is packed alone.
        Ok(Box::new(from))
    } else {
        Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "it is none of .tar.xz, .tar.gz, .tar.zst and .whl",
        ))
    }
}

/// A stream at work.
enum Xz<R> {
    One(XzDecoder<Chain<Cursor<Vec<u8>>, R>>),
    Many(Blocks<R>),
}

impl<R: BufRead> Xz<R> {
    fn new(mut from: R) -> io::Result<Self> {
        let (read, division) = blocks::look(&mut from, cores())?;
        if let Some(division) = division {
            return Ok(Self::Many(Blocks::new(from, read, division)));
        }
        let stream = Stream::new_stream_decoder(MAX_MEMORY, 0)?;
        Ok(Self::One(XzDecoder::new_stream(
            Cursor::new(read).chain(from),
            stream,
        )))
    }

    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::One(decoder) => decoder.read(buffer),
            Self::Many(blocks) => blocks.read(buffer),
        }
    }

    fn into_inner(self) -> R {
        match self {
            Self::One(decoder) => decoder.into_inner().into_inner().1,
            Self::Many(blocks) => blocks.into_inner(),
        }
    }
}

/// One xz stream or several, one behind the other, as some packers of several threads make them.
struct Streams<R> {
    now: Option<Xz<R>>,
    is_first: bool,
}

impl<R: BufRead> Read for Streams<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while let Some(stream) = &mut self.now {
            match stream.read(buffer) {
                Ok(0) if !buffer.is_empty() => {}
                read => return read.map_err(|e| explained(e, self.is_first)),
            }
            let next = self
                .now
                .take()
                .map(Xz::into_inner)
                .map(behind_padding)
                .transpose()?
                .flatten();
            (self.now, self.is_first) = (next.map(Xz::new).transpose()?, false);
        }
        Ok(0)
    }
}

/// What is behind the padding of a stream, which is zeroes, four at a time; none at the end.
fn behind_padding<R: BufRead>(mut from: R) -> io::Result<Option<R>> {
    let mut padding = 0;
    loop {
        let block = from.fill_buf()?;
        let (zeroes, length) = (block.iter().take_while(|b| **b == 0).count(), block.len());
        from.consume(zeroes);
        padding += zeroes;
        match (length, zeroes == length) {
            (0, _) if padding % 4 == 0 => return Ok(None),
            (0, _) => return Err(garbage()),
            (_, false) if padding % 4 == 0 => return Ok(Some(from)),
            (_, false) => return Err(garbage()),
            (_, true) => {}
        }
    }
}

fn garbage() -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        "something stands behind its end",
    )
}

/// liblzma's own words are few.
fn explained(error: io::Error, is_first: bool) -> io::Error {
    let limit = format!(
        "unpacking it takes more than {} MiB of memory",
        MAX_MEMORY >> 20
    );
    match error.get_ref().and_then(|e| e.downcast_ref::<XzError>()) {
        Some(XzError::Format) if !is_first => garbage(),
        Some(XzError::MemLimit) => io::Error::new(io::ErrorKind::InvalidData, limit),
        Some(XzError::Data) => io::Error::new(io::ErrorKind::InvalidData, "it is damaged"),
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use liblzma::stream::{Check, Filters, LzmaOptions, Stream};
    use liblzma::write::XzEncoder;
    use std::io::Write;

    fn text() -> Vec<u8> {
        (0..200_000_u32)
            .flat_map(|n| n.wrapping_mul(n).to_le_bytes())
            .collect()
    }

    fn xz(bytes: &[u8]) -> Vec<u8> {
        written(XzEncoder::new(Vec::new(), 1), bytes)
    }

    fn written(mut xz: XzEncoder<Vec<u8>>, bytes: &[u8]) -> Vec<u8> {
        xz.write_all(bytes)
            .and_then(|()| xz.finish())
            .expect("packed")
    }

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(bytes)
            .and_then(|()| gzip.finish())
            .expect("packed")
    }

    fn zstd(bytes: &[u8]) -> Vec<u8> {
        let mut zstd = zstd::Encoder::new(Vec::new(), 1).expect("an encoder");
        zstd.include_checksum(true).expect("it can");
        zstd.write_all(bytes)
            .and_then(|()| zstd.finish())
            .expect("packed")
    }

    fn unpacked(bytes: &[u8]) -> io::Result<Vec<u8>> {
        let mut all = Vec::new();
        decoder(bytes)?.read_to_end(&mut all).map(|_| all)
    }

    #[test]
    fn a_format_is_told_by_its_first_bytes() {
        let text = text();
        for packed in [xz(&text), gzip(&text), zstd(&text)] {
            assert!(unpacked(&packed).expect("unpacked") == text);
        }
        for other in [&b""[..], b"BZh9", &text] {
            let error = unpacked(other).expect_err("refused").to_string();
            assert!(error.contains("none of"), "{error}");
        }
    }

    #[test]
    fn several_streams_one_behind_the_other_are_one() {
        let text = text();
        let padded = [&xz(&text)[..], &[0; 8], &xz(b"and more")].concat();
        for packed in [
            padded,
            [gzip(&text), gzip(b"and more")].concat(),
            [zstd(&text), zstd(b"and more")].concat(),
        ] {
            assert!(unpacked(&packed).expect("unpacked") == [&text[..], b"and more"].concat());
        }
    }

    #[test]
    fn every_cut_and_what_stands_behind_the_end_are_refused() {
        let text: Vec<u8> = text().into_iter().take(2000).collect();
        for packed in [xz(&text), gzip(&text), zstd(&text)] {
            for length in 0..packed.len() {
                assert!(
                    unpacked(&packed[..length]).is_err(),
                    "{length} of {} bytes",
                    packed.len()
                );
            }
            for trailer in [
                &b"x"[..],
                b"garbage that is longer than a header",
                &[0, 0, 0],
            ] {
                assert!(
                    unpacked(&[&packed, trailer].concat()).is_err(),
                    "{trailer:?}"
                );
            }
        }
    }

    #[test]
    fn altered_bytes_are_refused() {
        let text = text();
        for packed in [xz(&text), gzip(&text), zstd(&text)] {
            for at in (12..packed.len() - 12).step_by(packed.len() / 50) {
                let mut altered = packed.clone();
                altered[at] ^= 0x10;
                assert!(unpacked(&altered).is_err(), "byte {at}");
            }
        }
    }

    #[test]
    fn what_needs_more_memory_is_refused_and_what_presets_need_is_not() {
        let with = |dictionary: u32| {
            let mut options = LzmaOptions::new_preset(1).expect("a preset");
            let stream = Stream::new_stream_encoder(
                Filters::new().lzma2(options.dict_size(dictionary)),
                Check::Crc64,
            );
            written(
                XzEncoder::new_stream(Vec::new(), stream.expect("an encoder")),
                b"text",
            )
        };
        assert_eq!(unpacked(&with(64 << 20)).expect("as xz -9"), b"text");
        let error = unpacked(&with(128 << 20)).expect_err("refused").to_string();
        assert!(error.contains("66 MiB"), "{error}");
        let mut zstd = zstd::Encoder::new(Vec::new(), 1).expect("an encoder");
        zstd.window_log(WINDOW + 1).expect("it can");
        zstd.write_all(b"text").expect("packed");
        assert!(unpacked(&zstd.finish().expect("packed")).is_err());
    }
}
