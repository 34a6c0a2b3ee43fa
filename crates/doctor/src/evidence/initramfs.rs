//! Reads an initramfs without starting a program. An initramfs is a sequence of cpio archives
//! (format "newc"), each plain or compressed. The file may be from another host and malicious: only
//! what the caller takes is kept, and sizes, counts and time are limited.
//!
//! The format: <https://docs.kernel.org/driver-api/early-userspace/buffer-format.html>.

use flate2::bufread::GzDecoder;
use gpusetup_system::System;
use gpusetup_system::limits::DECODER_MEMORY;
use gpusetup_system::zst;
use liblzma::bufread::XzDecoder;
use liblzma::stream::Stream;
use std::io::{self, BufRead, BufReader, ErrorKind, Read};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Bytes that are read of the images of a host.
const MAX_READ: u64 = 4 << 30;
/// Bytes that may come out of the images of a host before it counts how many went in. The largest
/// images of distributions have half a gigabyte.
const MAX_UNPACKED: u64 = 1 << 30;
/// Bytes that may come out of each packed byte beyond that. Images have three to five for one.
const MAX_RATIO: u64 = 32;
/// Packed archives in an image, each of which takes a decoder and its memory, however short it is.
/// Images have one, after some that are not packed.
const MAX_PACKED: usize = 64;
/// The time limit for reading one image.
const MAX_READING_TIME: Duration = Duration::from_secs(60);
/// The kernel's limit.
const MAX_NAME: u64 = 4096;
/// The largest file whose text is passed to the visitor.
const MAX_TEXT: u64 = 64 << 10;
/// The largest window of zstd, as a power of two: that of `zstd --long`.
const ZSTD_WINDOW: u32 = 27;

const HEADER: usize = 110;
const REGULAR: u32 = 0o100_000;
const KIND: u32 = 0o170_000;

/// Receives the files of an image.
pub(crate) trait Visitor {
    /// Receives a file's name. If it returns true and the file is small and regular,
    /// [`Visitor::text`] is called with its text.
    fn file(&mut self, name: &str) -> bool;
    /// Receives the text of a file.
    fn text(&mut self, name: &str, text: &str);
}

/// Reads the image at `path` to its end.
pub(crate) fn read(
    system: &System,
    path: &Path,
    image: impl Read,
    budget: &Budget,
    visitor: &mut dyn Visitor,
) -> io::Result<()> {
    let began = Instant::now();
    let meter = system.meter(path);
    let image = Limited {
        input: meter.of(image),
        count: &budget.read,
        most: || MAX_READ,
        began,
    };
    let mut input = BufReader::with_capacity(1 << 17, image);
    let mut packed_before = 0;
    while let Some(kind) = next_archive(&mut input)? {
        match kind {
            Kind::Plain => archive(&mut input, visitor)?,
            _ if packed_before == MAX_PACKED => {
                return Err(invalid("more packed archives than any initramfs has"));
            }
            packed => {
                packed_before += 1;
                let unpacked = unpacked(packed, &mut input)?;
                let unpacked = Limited {
                    input: meter.of(unpacked),
                    count: &budget.unpacked,
                    most: || {
                        MAX_UNPACKED + MAX_RATIO.saturating_mul(budget.read.load(Ordering::Relaxed))
                    },
                    began,
                };
                let mut inner = BufReader::with_capacity(1 << 17, unpacked);
                // A compressed archive contains a sequence of plain archives.
                while let Some(kind) = next_archive(&mut inner)? {
                    match kind {
                        Kind::Plain => archive(&mut inner, visitor)?,
                        _ => return Err(invalid("a compressed archive inside another one")),
                    }
                }
            }
        }
    }
    Ok(())
}

/// The compression of an archive, by its first bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Plain,
    Gzip,
    Xz,
    /// The older format of LZMA, without a checksum.
    Lzma,
    Zstd,
    /// The format that `lz4 -l` writes, the only one that the kernel reads.
    Lz4,
}

/// The next archive, after the zeros that pad the previous one.
fn next_archive(input: &mut impl BufRead) -> io::Result<Option<Kind>> {
    loop {
        let block = input.fill_buf()?;
        if block.is_empty() {
            return Ok(None);
        }
        let zeros = block.iter().take_while(|b| **b == 0).count();
        let all = zeros == block.len();
        input.consume(zeros);
        if !all {
            break;
        }
    }
    // A magic number may span two blocks, but all of them differ in their first byte.
    let kind = match input.fill_buf()?.first() {
        Some(b'0') => Kind::Plain,
        Some(0x1f) => Kind::Gzip,
        Some(0xfd) => Kind::Xz,
        Some(0x5d) => Kind::Lzma,
        Some(0x28) => Kind::Zstd,
        Some(0x02) => Kind::Lz4,
        Some(b'B') => return Err(invalid("compressed with bzip2, which is not supported")),
        Some(0x89) => return Err(invalid("compressed with lzop, which is not supported")),
        _ => {
            return Err(invalid(
                "neither a cpio archive nor in a known compression format",
            ));
        }
    };
    Ok(Some(kind))
}

fn unpacked<'a>(kind: Kind, input: &'a mut impl BufRead) -> io::Result<Box<dyn Read + 'a>> {
    Ok(match kind {
        Kind::Gzip => Box::new(GzDecoder::new(input)),
        Kind::Xz => Box::new(XzDecoder::new_stream(
            input,
            Stream::new_stream_decoder(DECODER_MEMORY, 0)?,
        )),
        Kind::Lzma => Box::new(XzDecoder::new_stream(
            input,
            Stream::new_lzma_decoder(DECODER_MEMORY)?,
        )),
        Kind::Zstd => Box::new(
            zst::Decoder::with_buffer(input)?
                .window(ZSTD_WINDOW)?
                .single_frame(),
        ),
        Kind::Lz4 => Box::new(Lz4::new(input)),
        Kind::Plain => Box::new(input),
    })
}

/// How much of a host's images was read, and how much came out of it.
#[derive(Debug, Default)]
pub(crate) struct Budget {
    read: AtomicU64,
    unpacked: AtomicU64,
}

/// A reader that fails when the budget is used up.
struct Limited<'a, R, M> {
    input: R,
    count: &'a AtomicU64,
    most: M,
    began: Instant,
}

impl<R: Read, M: Fn() -> u64> Read for Limited<'_, R, M> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.input.read(into)?;
        let all = self.count.fetch_add(read as u64, Ordering::Relaxed) + read as u64;
        if all > (self.most)() {
            return Err(invalid("larger than any initramfs"));
        }
        if self.began.elapsed() > MAX_READING_TIME {
            return Err(io::Error::new(
                ErrorKind::TimedOut,
                format!("reading it took more than {} s", MAX_READING_TIME.as_secs()),
            ));
        }
        Ok(read)
    }
}

/// One cpio archive, up to its last entry.
fn archive(input: &mut impl Read, visitor: &mut dyn Visitor) -> io::Result<()> {
    loop {
        let mut header = [0; HEADER];
        input.read_exact(&mut header)?;
        let entry = Entry::parse(&header)?;
        let name = name(input, entry.name_length)?;
        if name == "TRAILER!!!" {
            return Ok(());
        }
        let is_text = entry.mode & KIND == REGULAR && entry.size <= MAX_TEXT;
        if visitor.file(&name) && is_text {
            let mut bytes = Vec::new();
            input.take(entry.size).read_to_end(&mut bytes)?;
            if (bytes.len() as u64) < entry.size {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            visitor.text(&name, &String::from_utf8_lossy(&bytes));
            skip(input, padding(entry.size))?;
        } else {
            skip(input, entry.size + padding(entry.size))?;
        }
    }
}

/// The fields of an entry's header that matter.
struct Entry {
    mode: u32,
    size: u64,
    name_length: u64,
}

impl Entry {
    /// Eight hexadecimal digits each, after the magic number.
    fn parse(header: &[u8; HEADER]) -> io::Result<Self> {
        if !matches!(&header[..6], b"070701" | b"070702") {
            return Err(invalid("not a cpio archive of the format newc"));
        }
        Ok(Self {
            mode: Self::field(header, 1)?,
            size: Self::field(header, 6)?.into(),
            name_length: Self::field(header, 11)?.into(),
        })
    }

    fn field(header: &[u8; HEADER], n: usize) -> io::Result<u32> {
        let digits = str::from_utf8(&header[6 + 8 * n..14 + 8 * n]).ok();
        digits
            .and_then(|digits| u32::from_str_radix(digits, 16).ok())
            .ok_or_else(|| invalid("an invalid number"))
    }
}

/// The name after a header, with the zeros after it.
fn name(input: &mut impl Read, length: u64) -> io::Result<String> {
    if length == 0 || length > MAX_NAME {
        return Err(invalid("a name that is too long"));
    }
    let mut bytes = vec![0; length as usize];
    input.read_exact(&mut bytes)?;
    skip(input, padding(HEADER as u64 + length))?;
    let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
    Ok(String::from_utf8_lossy(&bytes[..end])
        .trim_start_matches("./")
        .to_owned())
}

/// Zeros up to the next multiple of four.
fn padding(length: u64) -> u64 {
    length.wrapping_neg() % 4
}

fn skip(input: &mut impl Read, length: u64) -> io::Result<()> {
    match io::copy(&mut input.take(length), &mut io::sink())? {
        skipped if skipped == length => Ok(()),
        _ => Err(ErrorKind::UnexpectedEof.into()),
    }
}

fn invalid(why: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, why.to_owned())
}

/// LZ4 as `lz4 -l` writes it: a magic number, then independent blocks of at most 8 MiB, each after
/// its length. <https://github.com/lz4/lz4/blob/dev/doc/lz4_Block_format.md>
struct Lz4<R> {
    input: R,
    block: Vec<u8>,
    at: usize,
    has_begun: bool,
}

impl<R: BufRead> Lz4<R> {
    const MAGIC: u32 = 0x184C_2102;
    const BLOCK: usize = 8 << 20;

    fn new(input: R) -> Self {
        Self {
            input,
            block: Vec::new(),
            at: 0,
            has_begun: false,
        }
    }

    /// Unpacks the next block; false at the end of the stream.
    fn next_block(&mut self) -> io::Result<bool> {
        loop {
            let block = self.input.fill_buf()?;
            // The kernel treats zeros after the last block as padding.
            if block.is_empty()
                || self.has_begun && block[0] == 0 && block.iter().take(4).all(|b| *b == 0)
            {
                return Ok(false);
            }
            let mut length = [0; 4];
            self.input.read_exact(&mut length)?;
            let length = u32::from_le_bytes(length);
            if length == Self::MAGIC {
                self.has_begun = true;
                continue;
            }
            if !self.has_begun {
                return Err(invalid("not the lz4 format that kernels read"));
            }
            // The largest size of a block of incompressible bytes.
            if length as usize > Self::BLOCK + Self::BLOCK / 255 + 16 {
                return Err(invalid("a block of lz4 that is too long"));
            }
            let mut packed = Vec::new();
            (&mut self.input)
                .take(length.into())
                .read_to_end(&mut packed)?;
            if packed.len() < length as usize {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            self.at = 0;
            self.block = lz4_flex::block::decompress(&packed, Self::BLOCK)
                .map_err(|_| invalid("a broken block of lz4"))?;
            return Ok(true);
        }
    }
}

impl<R: BufRead> Read for Lz4<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.at == self.block.len() {
            if !self.next_block()? {
                return Ok(0);
            }
        }
        let n = into.len().min(self.block.len() - self.at);
        into[..n].copy_from_slice(&self.block[self.at..self.at + n]);
        self.at += n;
        Ok(n)
    }
}

/// An archive of these files.
#[cfg(test)]
pub(crate) fn cpio(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, bytes) in files.iter().chain([&("TRAILER!!!", &b""[..])]) {
        let fields = [
            1,
            0o100_644,
            0,
            0,
            1,
            0,
            bytes.len(),
            0,
            0,
            0,
            0,
            name.len() + 1,
            0,
        ];
        out.extend(b"070701");
        out.extend(fields.iter().flat_map(|f| format!("{f:08x}").into_bytes()));
        out.extend(name.as_bytes());
        out.push(0);
        out.resize(out.len().next_multiple_of(4), 0);
        out.extend(*bytes);
        out.resize(out.len().next_multiple_of(4), 0);
    }
    out.resize(out.len().next_multiple_of(512), 0);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::Write;
    use std::process::{Command, Stdio};

    /// Names, and the texts of those below `modprobe.d`.
    #[derive(Debug, Default, PartialEq)]
    struct Seen(Vec<String>, Vec<(String, String)>);

    impl Visitor for Seen {
        fn file(&mut self, name: &str) -> bool {
            self.0.push(name.to_owned());
            name.contains("modprobe.d/")
        }
        fn text(&mut self, name: &str, text: &str) {
            self.1.push((name.to_owned(), text.to_owned()));
        }
    }

    fn main_archive() -> Vec<u8> {
        let noise: Vec<u8> = (0..300_000u32)
            .map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8)
            .collect();
        cpio(&[
            (
                "usr/lib/modules/6.1.0/kernel/drivers/gpu/drm/nouveau/nouveau.ko",
                &noise,
            ),
            ("./etc/modprobe.d/nouveau.conf", b"blacklist nouveau\n"),
            ("zeros", &[0; 100_000]),
        ])
    }

    /// What a program of this machine makes of some bytes.
    fn piped(program: &[&str], bytes: &[u8]) -> Vec<u8> {
        let mut child = Command::new(program[0])
            .args(&program[1..])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|e| panic!("{}: {e}", program[0]));
        let (mut input, bytes) = (child.stdin.take().expect("piped"), bytes.to_owned());
        let writer = std::thread::spawn(move || input.write_all(&bytes).expect("taken"));
        let out = child.wait_with_output().expect("ended").stdout;
        writer.join().expect("written");
        out
    }

    fn seen(image: &[u8]) -> io::Result<Seen> {
        let mut seen = Seen::default();
        read(
            &System::live(),
            Path::new("/"),
            image,
            &Budget::default(),
            &mut seen,
        )
        .map(|()| seen)
    }

    #[test]
    fn every_way_to_pack_an_image_is_read() {
        let early = cpio(&[("kernel/x86/microcode/GenuineIntel.bin", &[7; 1000])]);
        let main = main_archive();
        let lz4 = {
            // One block of literals, as lz4 leaves what it cannot make smaller.
            let mut block = vec![0xf0];
            block.extend(vec![255; (main.len() - 15) / 255]);
            block.push(((main.len() - 15) % 255) as u8);
            block.extend(&main);
            [
                &Lz4::<&[u8]>::MAGIC.to_le_bytes()[..],
                &(block.len() as u32).to_le_bytes(),
                &block,
            ]
            .concat()
        };
        let packed = [
            ("plain", main.clone()),
            ("gzip", piped(&["gzip", "-c"], &main)),
            ("xz", piped(&["xz", "--check=crc32", "-c"], &main)),
            ("lzma", piped(&["xz", "--format=lzma", "-c"], &main)),
            ("zstd", zstd::encode_all(&*main, 3).expect("packed")),
            ("lz4", lz4),
        ];
        let names = [
            "kernel/x86/microcode/GenuineIntel.bin",
            "usr/lib/modules/6.1.0/kernel/drivers/gpu/drm/nouveau/nouveau.ko",
        ];
        for (how, main) in packed {
            let found = seen(&[early.clone(), main.clone(), vec![0; 8]].concat())
                .unwrap_or_else(|e| panic!("{how}: {e}"));
            assert_eq!(found.0[..2], names, "{how}");
            assert_eq!(found.0.len(), 4, "{how}");
            let conf = (
                "etc/modprobe.d/nouveau.conf".to_owned(),
                "blacklist nouveau\n".to_owned(),
            );
            assert_eq!(found.1, [conf], "{how}");
            assert!(
                seen(&[early.clone(), main[..main.len() / 2].to_vec()].concat()).is_err(),
                "{how}, cut off"
            );
        }
    }

    #[test]
    fn lz4_is_unpacked_as_its_own_program_packs_it() {
        let main = main_archive();
        // tests/run does not install it: a machine without it is not told wrong.
        if Command::new("lz4")
            .arg("--version")
            .stdout(Stdio::null())
            .status()
            .is_ok_and(|s| s.success())
        {
            assert_eq!(
                seen(&piped(&["lz4", "-l", "-c"], &main))
                    .expect("read")
                    .0
                    .len(),
                3
            );
        }
        let unpacked = |block: &[u8]| {
            let length = u32::try_from(block.len()).expect("short").to_le_bytes();
            let mut out = Vec::new();
            let stream = [&Lz4::<&[u8]>::MAGIC.to_le_bytes()[..], &length, block].concat();
            Lz4::new(&stream[..]).read_to_end(&mut out).map(|_| out)
        };
        // "abc", then nine bytes from three back, then "x".
        assert_eq!(
            unpacked(&[0x35, b'a', b'b', b'c', 3, 0, 0x10, b'x']).expect("whole"),
            b"abcabcabcabcx"
        );
        assert!(
            unpacked(&[0x10, b'a', 9, 0]).is_err(),
            "from before its beginning"
        );
        let zeros = lz4_flex::block::compress(&vec![0; Lz4::<&[u8]>::BLOCK + 1]);
        assert!(unpacked(&zeros).is_err(), "more than it may be");
    }

    #[test]
    fn an_image_that_is_made_to_hold_us_up_is_given_up() {
        let huge = [
            &b"070701"[..],
            "00000001000081a40000000000000000000000010000000000000000".as_bytes(),
        ]
        .concat();
        assert!(seen(&huge).is_err());
        let mut name = cpio(&[("x", b"")]);
        name[94..102].copy_from_slice(b"ffffffff");
        assert!(seen(&name).is_err_and(|e| e.to_string().contains("name")));
        assert!(seen(b"BZh9").is_err_and(|e| e.to_string().contains("bzip2")));
        assert_eq!(seen(b"").expect("nothing in it"), Seen::default());
        assert_eq!(seen(&[0; 5000]).expect("nothing in it"), Seen::default());
        let empty = zstd::encode_all(&b""[..], 3).expect("packed");
        assert_eq!(
            seen(&empty.repeat(MAX_PACKED)).expect("nothing in it"),
            Seen::default()
        );
        assert!(
            seen(&empty.repeat(MAX_PACKED + 1))
                .is_err_and(|e| e.to_string().contains("packed archives"))
        );
    }

    proptest! {
        #[test]
        fn no_bytes_bring_it_down(at in 0usize..900, with in any::<u8>(), cut in 0usize..2000, pack in any::<bool>()) {
            let mut bytes = cpio(&[("a/modprobe.d/x.conf", b"blacklist x\n"), ("b", b"yy")]);
            if pack {
                bytes = zstd::encode_all(&*bytes, 1).expect("packed");
            }
            let at = at.min(bytes.len() - 1);
            bytes[at] = with;
            bytes.truncate(cut);
            let _ = seen(&bytes);
        }
    }
}
