//! A layer of an image: the names of its files that matter here, and of those that it removes from the layers below.

use super::tar_entries::{Entries, filled};
use crate::sum::hex;
use crate::system::interrupt;
use crate::zst;
use sha2::{Digest, Sha256};
use std::io::{self, BufRead, BufReader, Read};

/// zstd may look back so far, as a power of two in bytes.
const WINDOW: u32 = 27;
/// What is read of an archive, unpacked, before its description must have come.
pub const MOST_READ: u64 = 1 << 40;
/// Before the name of a file that a layer removes.
const REMOVED: &str = ".wh.";
/// The name of a file that says that a folder has nothing of the layers below.
const EMPTIED: &str = ".wh..wh..opq";

/// What a layer has and removes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Layer {
    /// Its wanted files.
    pub files: Vec<String>,
    /// The files and folders of lower layers that it removes.
    pub removed: Vec<String>,
    /// The folders that have nothing of lower layers.
    pub emptied: Vec<String>,
    /// The SHA-256 of its tar archive, by which the image's configuration names it (`diff_ids`).
    pub sum: String,
}

/// Hashes what is read.
struct Hashed<R> {
    from: R,
    sum: Sha256,
}

impl<R: Read> Read for Hashed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.from.read(buffer)?;
        self.sum.update(&buffer[..read]);
        Ok(read)
    }
}

impl Layer {
    /// Reads a layer: a tar archive, which may be packed with gzip or zstd.
    ///
    /// # Errors
    ///
    /// If it is something else or damaged, or its wanted names have more than `most` bytes.
    pub fn read(from: impl Read, most: u64, is_wanted: fn(&str) -> bool) -> io::Result<Self> {
        let mut content = Hashed { from: unpacked(BufReader::new(from))?.take(MOST_READ), sum: Sha256::new() };
        let mut entries = Entries::new(&mut content);
        let (mut layer, mut total) = (Self::default(), 0);
        while let Some(entry) = entries.next_entry()? {
            if interrupt::heard().is_some() {
                return Err(io::Error::other("interrupted"));
            }
            let before = layer.count();
            layer.add(&entry.name, entry.is_file() && is_wanted(&entry.name));
            total += if layer.count() == before { 0 } else { entry.name.len() as u64 };
            if total > most {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "it has more names than an image"));
            }
        }
        layer.sum = hex(&content.sum.finalize());
        Ok(layer)
    }

    fn count(&self) -> usize {
        self.files.len() + self.removed.len() + self.emptied.len()
    }

    fn add(&mut self, name: &str, is_wanted: bool) {
        let (folder, file) = name.rsplit_once('/').unwrap_or(("", name));
        if file == EMPTIED {
            self.emptied.push(folder.to_owned());
        } else if let Some(file) = file.strip_prefix(REMOVED) {
            self.removed.push(if folder.is_empty() { file.to_owned() } else { format!("{folder}/{file}") });
        } else if is_wanted {
            self.files.push(name.to_owned());
        }
    }

    /// Whether it removes this file of a lower layer.
    pub fn removes(&self, file: &str) -> bool {
        let is_below = |folder: &String| {
            folder.is_empty() || file.strip_prefix(folder.as_str()).is_some_and(|rest| rest.starts_with('/'))
        };
        self.emptied.iter().any(is_below) || self.removed.iter().any(|path| path == file || is_below(path))
    }

    /// The bytes of its names.
    pub fn bytes(&self) -> u64 {
        [&self.files, &self.removed, &self.emptied].into_iter().flatten().map(|name| name.len() as u64).sum()
    }
}

/// What is in a file, which may be packed.
pub fn unpacked<'a>(mut from: impl BufRead + 'a) -> io::Result<Box<dyn Read + 'a>> {
    // A buffer may hold less than this at first.
    let mut start = [0; 4];
    let read = filled(&mut from, &mut start)?;
    let all = io::Cursor::new(start).take(read as u64).chain(from);
    Ok(match start {
        [0x1f, 0x8b, ..] => Box::new(flate2::bufread::MultiGzDecoder::new(all)),
        [0x28, 0xb5, 0x2f, 0xfd] => Box::new(zst::Decoder::with_buffer(all)?.window(WINDOW)?),
        _ => Box::new(all),
    })
}
