//! Bytes from one thread to the next: a few blocks that go round and round, so that the faster end
//! waits for the slower one, and memory stays what it is however long the archive.

use std::io::{self, BufRead, Read};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};

/// Bytes in a block: few enough to stay in a core's cache, enough to make handing over cheap.
const BLOCK: usize = 1 << 18;
/// Blocks between two threads.
const BLOCKS: usize = 4;

/// The end that bytes go in at.
pub(crate) struct Inlet {
    full: SyncSender<io::Result<Vec<u8>>>,
    empty: Receiver<Vec<u8>>,
}

/// The end that they come out of.
pub(crate) struct Outlet {
    full: Receiver<io::Result<Vec<u8>>>,
    empty: Sender<Vec<u8>>,
    block: Vec<u8>,
    read: usize,
    ended: bool,
}

/// Both ends.
pub(crate) fn pipe() -> (Inlet, Outlet) {
    let (full, filled) = sync_channel(BLOCKS);
    let (empty, emptied) = channel();
    for _ in 0..BLOCKS {
        // Taken by its own other end, which is still here.
        let _ = empty.send(Vec::new());
    }
    let outlet = Outlet {
        full: filled,
        empty,
        block: Vec::new(),
        read: 0,
        ended: false,
    };
    (
        Inlet {
            full,
            empty: emptied,
        },
        outlet,
    )
}

impl Inlet {
    /// Sends all that `from` yields, or its error; what was sent is shown to `seen` first. Ends
    /// when nobody listens any more.
    pub(crate) fn send(&self, mut from: impl Read, mut seen: impl FnMut(&[u8])) {
        while let Ok(mut block) = self.empty.recv() {
            let filled = fill(&mut from, &mut block);
            seen(&block);
            let (over, failed) = (block.len() < BLOCK, filled.is_err());
            if self.full.send(Ok(block)).is_err()
                || filled.is_err_and(|e| self.full.send(Err(e)).is_err())
                || failed
            {
                return;
            }
            if over {
                // An empty block is the end: a thread that broke off sends none.
                drop(self.full.send(Ok(Vec::new())));
                return;
            }
        }
    }

    /// Sends an error instead.
    pub(crate) fn fail(&self, error: io::Error) {
        drop(self.full.send(Err(error)));
    }
}

/// Fills a block as far as the source goes.
fn fill(from: &mut impl Read, block: &mut Vec<u8>) -> io::Result<()> {
    block.resize(BLOCK, 0);
    let mut length = 0;
    let ended = loop {
        match from.read(&mut block[length..]) {
            Ok(0) => break Ok(()),
            Ok(n) => length += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => break Err(e),
        }
        if length == BLOCK {
            break Ok(());
        }
    };
    block.truncate(length);
    ended
}

impl BufRead for Outlet {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        while self.read == self.block.len() && !self.ended {
            // Nobody takes it when all was sent.
            let _ = self.empty.send(std::mem::take(&mut self.block));
            self.read = 0;
            self.block = self
                .full
                .recv()
                .unwrap_or_else(|_| Err(io::Error::other("its reading broke off")))?;
            self.ended = self.block.is_empty();
        }
        Ok(&self.block[self.read..])
    }

    fn consume(&mut self, amount: usize) {
        self.read = (self.read + amount).min(self.block.len());
    }
}

impl Read for Outlet {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.fill_buf()?.read(buffer)?;
        self.consume(n);
        Ok(n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What comes through, and what was seen of it.
    fn through(from: impl Read + Send) -> (io::Result<Vec<u8>>, usize) {
        let (inlet, mut outlet) = pipe();
        std::thread::scope(|scope| {
            let sent = scope.spawn(move || {
                let mut seen = 0;
                inlet.send(from, |block| seen += block.len());
                seen
            });
            let mut all = Vec::new();
            let read = outlet.read_to_end(&mut all).map(|_| all);
            (read, sent.join().expect("no panic"))
        })
    }

    #[test]
    fn what_goes_in_comes_out() {
        for length in [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 20 * BLOCK + 7] {
            let bytes: Vec<u8> = (0..length).map(|n| (n % 251) as u8).collect();
            let (read, seen) = through(bytes.as_slice());
            assert!(read.expect("whole") == bytes, "{length}");
            assert_eq!(seen, length);
        }
    }

    /// Fails behind its bytes.
    struct Cut<'a>(&'a [u8]);

    impl Read for Cut<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            match self.0.read(buffer)? {
                0 => Err(io::Error::other("cut")),
                n => Ok(n),
            }
        }
    }

    #[test]
    fn an_error_comes_behind_what_was_before_it() {
        let (inlet, mut outlet) = pipe();
        std::thread::scope(|scope| {
            scope.spawn(move || inlet.send(Cut(b"before"), |_| {}));
            let mut block = [0; 6];
            outlet.read_exact(&mut block).expect("what was before it");
            assert_eq!(outlet.read(&mut block).expect_err("cut").to_string(), "cut");
        });
    }

    #[test]
    fn a_thread_that_broke_off_is_no_end() {
        let (inlet, mut outlet) = pipe();
        drop(inlet);
        assert!(outlet.read(&mut [0; 1]).is_err());
    }

    #[test]
    fn whoever_is_not_listened_to_stops() {
        let (inlet, outlet) = pipe();
        drop(outlet);
        inlet.send(io::repeat(0), |_| {});
    }
}
