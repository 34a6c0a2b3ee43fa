//! zstd streams, read. The decoder is built without its error texts, so that its errors get words
//! here.

use std::io::{self, BufRead, BufReader, Read};

/// What the decoder says instead of any of its errors.
const STRIPPED: &str = "Error strings stripped";

/// A decoder of one or more frames.
pub struct Decoder<R: BufRead>(zstd::Decoder<'static, R>);

impl<R: Read> Decoder<BufReader<R>> {
    /// For a stream without a buffer.
    ///
    /// # Errors
    ///
    /// If there is no memory for it.
    pub fn new(from: R) -> io::Result<Self> {
        zstd::Decoder::new(from).map(Self).map_err(worded)
    }
}

impl<R: BufRead> Decoder<R> {
    /// For a stream that has a buffer.
    ///
    /// # Errors
    ///
    /// If there is no memory for it.
    pub fn with_buffer(from: R) -> io::Result<Self> {
        zstd::Decoder::with_buffer(from).map(Self).map_err(worded)
    }

    /// With a window of at most so many bytes, as a power of two.
    ///
    /// # Errors
    ///
    /// If it is larger than zstd allows.
    pub fn window(mut self, power: u32) -> io::Result<Self> {
        self.0.window_log_max(power).map_err(worded)?;
        Ok(self)
    }

    /// Ends after the first frame.
    pub fn single_frame(self) -> Self {
        Self(self.0.single_frame())
    }
}

impl<R: BufRead> Read for Decoder<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer).map_err(worded)
    }
}

fn worded(e: io::Error) -> io::Error {
    match e
        .get_ref()
        .is_some_and(|inner| inner.to_string() == STRIPPED)
    {
        true => io::Error::new(
            io::ErrorKind::InvalidData,
            "the zstd data in it is not valid",
        ),
        false => e,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> io::Result<Vec<u8>> {
        let mut all = Vec::new();
        Decoder::with_buffer(bytes)?
            .window(20)?
            .read_to_end(&mut all)?;
        Ok(all)
    }

    #[test]
    fn errors_have_words() {
        let packed = zstd::encode_all(&b"some bytes, some bytes"[..], 1).expect("packed");
        assert_eq!(
            read(&packed).expect("it is sound"),
            b"some bytes, some bytes"
        );
        let mut damaged = packed.clone();
        damaged[5] ^= 0xff;
        for bytes in [&b"\x7fELF is a program"[..], &damaged] {
            let e = read(bytes).expect_err("it is not sound");
            assert_eq!(
                (e.kind(), e.to_string().as_str()),
                (
                    io::ErrorKind::InvalidData,
                    "the zstd data in it is not valid"
                )
            );
        }
        let cut = read(&packed[..packed.len() - 3]).expect_err("it is cut off");
        assert_eq!(cut.kind(), io::ErrorKind::UnexpectedEof);
    }
}
