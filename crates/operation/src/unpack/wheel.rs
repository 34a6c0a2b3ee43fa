//! Wheels, as Python's packages are published: zip archives whose files are read one behind the
//! other, while they arrive. The list at a zip's end, which says what may be executed, is not
//! waited for: libraries and headers need not be. No crate reads a zip in this way without six
//! more.

use flate2::CrcReader;
use flate2::read::DeflateDecoder;
use std::io::{self, Read, Take};

/// What their names end with.
pub(crate) const ENDING: &str = "whl";
/// The first bytes of each file's header, and so of a wheel.
pub(crate) const MAGIC: &[u8; 4] = b"PK\x03\x04";
/// The first bytes of the list at its end, and of the end of an empty one.
const LIST: [&[u8; 4]; 2] = [b"PK\x01\x02", b"PK\x05\x06"];

/// Bytes of a header between its first four and the name.
const HEADER: usize = 26;
/// Flags of files that are encrypted, or whose length stands behind them.
const NOT_PLAIN: u16 = 0x0001 | 0x0008;
/// A length that stands elsewhere, since it does not fit here.
const LONGER: u32 = u32::MAX;
const STORED: u16 = 0;
const DEFLATED: u16 = 8;
const DAMAGED: &str = "a file that is damaged";

/// Why a wheel is not read further.
#[derive(Debug)]
pub(crate) enum WheelError {
    /// Its bytes do not come, or end too early.
    Io(io::Error),
    /// A file in it is not one of a wheel.
    File {
        /// The path in the wheel, as far as it is text.
        name: String,
        /// What is wrong with it.
        what: &'static str,
    },
}

impl From<io::Error> for WheelError {
    fn from(e: io::Error) -> Self {
        Self::Io(e)
    }
}

/// A file in a wheel. It reads as many bytes as it says, or not without an error.
pub(crate) struct File<'a, R> {
    /// The path in the wheel.
    pub(crate) name: String,
    /// Its bytes, unpacked.
    pub(crate) size: u64,
    bytes: CrcReader<Bytes<'a, R>>,
    crc: u32,
    read: u64,
}

enum Bytes<'a, R> {
    Stored(Take<&'a mut R>),
    Deflated(DeflateDecoder<Take<&'a mut R>>),
}

impl<R: Read> Read for Bytes<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Stored(bytes) => bytes.read(buffer),
            Self::Deflated(bytes) => bytes.read(buffer),
        }
    }
}

/// The next file of a wheel that was read up to its header; none behind the last.
pub(crate) fn next_file<R: Read>(from: &mut R) -> Result<Option<File<'_, R>>, WheelError> {
    let (mut magic, mut header) = ([0; 4], [0; HEADER]);
    from.read_exact(&mut magic)?;
    if LIST.contains(&&magic) {
        return Ok(None);
    }
    if magic != *MAGIC {
        return Err(WheelError::File {
            name: String::new(),
            what: "something stands where a file should begin",
        });
    }
    from.read_exact(&mut header)?;
    let (flags, method) = (u16_at(&header, 2), u16_at(&header, 4));
    let [crc, packed, size] = [10, 14, 18].map(|at| u32_at(&header, at));
    let [mut name, mut extra] = [22, 24].map(|at| vec![0; u16_at(&header, at).into()]);
    from.read_exact(&mut name)?;
    from.read_exact(&mut extra)?;
    let is_text = std::str::from_utf8(&name).is_ok_and(|name| !name.contains('\0'));
    let name = String::from_utf8_lossy(&name).into_owned();
    if !is_text {
        return Err(WheelError::File {
            name,
            what: "a name that is no text",
        });
    }
    if flags & NOT_PLAIN != 0 || packed == LONGER || size == LONGER {
        return Err(WheelError::File {
            name,
            what: "a file that is encrypted, longer than 4 GB, or without a length",
        });
    }
    let packed = from.take(packed.into());
    let bytes = match method {
        STORED => Bytes::Stored(packed),
        DEFLATED => Bytes::Deflated(DeflateDecoder::new(packed)),
        _ => {
            return Err(WheelError::File {
                name,
                what: "a file that is packed in an unknown way",
            });
        }
    };
    Ok(Some(File {
        name,
        size: size.into(),
        bytes: CrcReader::new(bytes),
        crc,
        read: 0,
    }))
}

impl<R> File<'_, R> {
    pub(crate) fn is_folder(&self) -> bool {
        self.name.ends_with('/')
    }

    /// Bytes that are packed and were not read.
    fn left(&self) -> u64 {
        match self.bytes.get_ref() {
            Bytes::Stored(bytes) => bytes.limit(),
            Bytes::Deflated(bytes) => bytes.get_ref().limit(),
        }
    }
}

impl<R: Read> Read for File<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.bytes.read(buffer).map_err(|e| match e.kind() {
            // Of deflate: what is packed means nothing, or it asks for more bytes than the file
            // has.
            io::ErrorKind::InvalidInput => wrong(DAMAGED),
            io::ErrorKind::UnexpectedEof if self.left() == 0 => wrong(DAMAGED),
            _ => e,
        })?;
        self.read += read as u64;
        if self.read > self.size {
            return Err(wrong("a file that is longer than it says"));
        }
        if read == 0 && !buffer.is_empty() {
            if self.read < self.size {
                return Err(wrong("a file that is shorter than it says"));
            }
            if self.left() > 0 || self.bytes.crc().sum() != self.crc {
                return Err(wrong(DAMAGED));
            }
        }
        Ok(read)
    }
}

/// Of a file that is being read: whoever reads it knows which.
fn wrong(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

fn u16_at(header: &[u8; HEADER], at: usize) -> u16 {
    u16::from_le_bytes([header[at], header[at + 1]])
}

fn u32_at(header: &[u8; HEADER], at: usize) -> u32 {
    u32::from(u16_at(header, at)) | u32::from(u16_at(header, at + 2)) << 16
}
