//! What an xz stream says of its blocks: the header of each, and the index behind them.

use std::io::{self, Read};

/// The length of a stream's header, in bytes.
pub(crate) const HEADER: usize = 12;
/// LZMA2's number among the filters.
const LZMA2: u64 = 0x21;

/// A block's header, whose first byte tells its length; of an index only that byte, of what has
/// ended nothing.
pub(crate) fn block_header(from: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut header = Vec::new();
    from.take(1).read_to_end(&mut header)?;
    if let Some(length @ 1..) = header.first().map(|n| u64::from(*n)) {
        from.take(length * 4 + 3).read_to_end(&mut header)?;
    }
    Ok(header)
}

/// What a block's header says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Block {
    /// Its length without padding, in bytes.
    pub(crate) unpadded: u64,
    /// Its length unpacked, in bytes.
    pub(crate) plain: u64,
    /// How far it looks back, in bytes.
    pub(crate) dictionary: u64,
}

impl Block {
    /// None where it does not say how long it is, or is packed by more than LZMA2. Sums are looked
    /// at by who decodes it.
    pub(crate) fn parse(header: &[u8], stream: &[u8]) -> Option<Self> {
        const HAS_BOTH_SIZES: u8 = 0xc0;
        let (flags, mut rest) = (*header.get(1)?, header.get(2..)?);
        if flags != HAS_BOTH_SIZES {
            return None;
        }
        let (packed, plain) = (number(&mut rest)?, number(&mut rest)?);
        let (filter, properties) = (number(&mut rest)?, number(&mut rest)?);
        let bits = u32::from(*rest.first()?);
        // Larger ones are no sizes.
        if (filter, properties) != (LZMA2, 1) || bits > 39 {
            return None;
        }
        let unpadded = packed.checked_add(header.len() as u64 + check(stream)?)?;
        Some(Self {
            unpadded,
            plain,
            dictionary: u64::from(2 | bits & 1) << (bits / 2 + 11),
        })
    }

    /// Its length in the file.
    pub(crate) fn padded(&self) -> Option<u64> {
        self.unpadded.checked_next_multiple_of(4)
    }
}

/// The length of each block's check, in bytes, by the stream's header.
fn check(stream: &[u8]) -> Option<u64> {
    match stream.get(7)? {
        0 => Some(0),
        n @ 1..16 => Some(4 << ((n - 1) / 3)),
        _ => None,
    }
}

/// A number as xz writes it: seven bits a byte, the lowest first.
fn number(from: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for n in 0..9 {
        let (byte, rest) = from.split_first()?;
        *from = rest;
        number |= u64::from(byte & 0x7f) << (7 * n);
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

fn push_number(to: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        to.push(number as u8 | 0x80);
        number >>= 7;
    }
    to.push(number as u8);
}

/// The index of these blocks, and the footer: all that is behind them in a stream.
pub(crate) fn tail(blocks: &[(u64, u64)], stream: &[u8]) -> Vec<u8> {
    let mut index = vec![0];
    push_number(&mut index, blocks.len() as u64);
    for (unpadded, plain) in blocks {
        push_number(&mut index, *unpadded);
        push_number(&mut index, *plain);
    }
    index.resize(index.len().next_multiple_of(4), 0);
    index.extend(crc(&index));
    // Both are counted in fours; more than four gigabytes of index would belong to more blocks than
    // fit on a disk.
    let mut end = ((index.len() / 4 - 1) as u32).to_le_bytes().to_vec();
    end.extend(&stream[6..8]);
    index.extend(crc(&end));
    index.extend(end);
    index.extend(b"YZ");
    index
}

fn crc(bytes: &[u8]) -> [u8; 4] {
    let mut sum = flate2::Crc::new();
    sum.update(bytes);
    sum.sum().to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_they_are_read() {
        for n in [0, 1, 127, 128, 300, 1 << 21, (1 << 63) - 1] {
            let mut bytes = Vec::new();
            push_number(&mut bytes, n);
            let mut rest = &bytes[..];
            assert_eq!((number(&mut rest), rest.len()), (Some(n), 0));
        }
        assert_eq!(number(&mut &[0x80; 12][..]), None);
        assert_eq!(number(&mut &[0x80][..]), None);
    }
}
