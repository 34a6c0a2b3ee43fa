//! The entries of a tar archive that may come from anybody: their names and what they are. No name
//! in it becomes a path, and a name of any length takes no more than [`MAX_NAME`] of memory, which
//! the crate's own iterator does not promise.

use gpusetup_text::paths::clean;
use std::io::{self, Read};
use tar::{EntryType, Header, PaxExtensions};

/// No record with a long name is longer, in bytes.
const MAX_NAME: u64 = 1 << 20;

const BLOCK: usize = 512;

/// Reads entries one after the other.
pub(crate) struct Entries<R: Read> {
    from: R,
    /// What is left of the entry that was given last.
    content: u64,
    padding: u64,
}

pub struct Entry {
    /// In its shortest form.
    pub(crate) name: String,
    pub(crate) kind: EntryType,
    /// Of its content, in bytes.
    pub(crate) size: u64,
    /// What a symbolic link leads to.
    pub(crate) link: Option<String>,
}

impl<R: Read> Entries<R> {
    pub(crate) fn new(from: R) -> Self {
        Self {
            from,
            content: 0,
            padding: 0,
        }
    }

    /// The next entry. None at the end, after the whole input was read: so packed data that is
    /// damaged there is an error, too.
    pub(crate) fn next_entry(&mut self) -> io::Result<Option<Entry>> {
        // What records before an entry say instead of its header.
        let (mut name, mut link, mut real_size) = (None, None, None);
        loop {
            skip(&mut self.from, self.content + self.padding)?;
            let Some(header) = self.header()? else {
                return Ok(None);
            };
            let size = header.entry_size()?;
            self.follow(size);
            let kind = header.entry_type();
            match kind {
                // A later record of a kind counts. Lines that are no record are skipped.
                EntryType::XHeader => {
                    for record in PaxExtensions::new(&self.record()?).flatten() {
                        let value = text(record.value_bytes());
                        match record.key_bytes() {
                            b"path" => name = Some(value),
                            b"linkpath" => link = Some(value),
                            b"size" => real_size = value.parse().ok(),
                            _ => {}
                        }
                    }
                }
                EntryType::GNULongName => name = Some(until_zero(&self.record()?)),
                EntryType::GNULongLink => link = Some(until_zero(&self.record()?)),
                EntryType::XGlobalHeader => {}
                _ => {
                    let size = real_size.unwrap_or(size);
                    self.follow(size);
                    let name = clean(&name.unwrap_or_else(|| text(&header.path_bytes())));
                    let link = link
                        .or_else(|| Some(text(&header.link_name_bytes()?)))
                        .filter(|_| kind.is_symlink());
                    return Ok(Some(Entry {
                        name,
                        kind,
                        size,
                        link,
                    }));
                }
            }
        }
    }

    /// The content of the next entry has this length, and blocks are filled.
    fn follow(&mut self, size: u64) {
        self.content = size;
        self.padding = size.next_multiple_of(BLOCK as u64) - size;
    }

    /// The next header; none at the end.
    fn header(&mut self) -> io::Result<Option<Header>> {
        let mut block = [0; BLOCK];
        let read = filled(&mut self.from, &mut block)?;
        if read == 0 || block == [0; BLOCK] {
            io::copy(&mut self.from, &mut io::sink())?;
            return Ok(None);
        }
        let header = Header::from_byte_slice(&block).clone();
        let sum: u32 = (0..BLOCK)
            .map(|i| {
                if (148..156).contains(&i) {
                    32
                } else {
                    u32::from(block[i])
                }
            })
            .sum();
        if read < BLOCK || header.cksum().ok() != Some(sum) {
            return Err(invalid("it has no header of tar where one is due"));
        }
        Ok(Some(header))
    }

    fn record(&mut self) -> io::Result<Vec<u8>> {
        if self.content > MAX_NAME {
            return Err(invalid("a name in it is too long"));
        }
        let mut bytes = Vec::new();
        self.read_to_end(&mut bytes)?;
        Ok(bytes)
    }
}

/// What is left of the content of the last entry.
impl<R: Read> Read for Entries<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.content)
            .unwrap_or(usize::MAX)
            .min(buffer.len());
        // Decoders of zstd fail if they are asked for nothing.
        if most == 0 {
            return Ok(0);
        }
        let read = self.from.read(&mut buffer[..most])?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.content -= read as u64;
        Ok(read)
    }
}

fn until_zero(bytes: &[u8]) -> String {
    text(bytes.split(|byte| *byte == 0).next().unwrap_or_default())
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn skip(from: &mut impl Read, count: u64) -> io::Result<()> {
    let skipped = io::copy(&mut from.take(count), &mut io::sink())?;
    if skipped == count {
        Ok(())
    } else {
        Err(io::ErrorKind::UnexpectedEof.into())
    }
}

/// Fills a block as far as the input goes: how many bytes that are.
pub(crate) fn filled(from: &mut impl Read, mut block: &mut [u8]) -> io::Result<usize> {
    let length = block.len() as u64;
    Ok(io::copy(&mut from.take(length), &mut block)? as usize)
}

pub(crate) fn invalid(why: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_may_have_the_name_and_the_size() {
        let mut tar = tar::Builder::new(Vec::new());
        let pairs = [("path", "./usr/lib//other"), ("size", "2")]
            .map(|(key, value)| (key, value.as_bytes()));
        tar.append_pax_extensions(pairs).expect("written");
        let mut header = Header::new_ustar();
        header.set_size(0);
        header.set_cksum();
        tar.append(&header, &b"de"[..]).expect("written");
        let mut entries = Entries::new(io::Cursor::new(tar.into_inner().expect("ended")));
        let entry = entries.next_entry().expect("read").expect("an entry");
        let text = io::read_to_string(&mut entries).expect("read");
        assert_eq!(
            (entry.name.as_str(), text.as_str()),
            ("usr/lib/other", "de")
        );
        assert!(entries.next_entry().expect("read").is_none());
    }

    #[test]
    fn a_name_without_an_end_is_refused() {
        let mut header = Header::new_gnu();
        header.set_path("././@LongLink").expect("a name");
        header.set_entry_type(EntryType::GNULongName);
        header.set_size(1 << 40);
        header.set_cksum();
        let bytes = header.as_bytes().to_vec();
        assert!(
            Entries::new((&bytes[..]).chain(io::repeat(b'x')))
                .next_entry()
                .is_err()
        );
        assert!(Entries::new(&[b'g'; 2000][..]).next_entry().is_err());
        assert!(Entries::new(&b""[..]).next_entry().expect("read").is_none());
    }
}
