//! An xz stream of many blocks, as `xz -T0` packs them, decoded on several cores. liblzma can do
//! that too, but holds each block whole, packed and unpacked: two that hardly compress are 115 MiB.
//! Here what is packed is held until it was decoded, and what was decoded until its turn comes, and
//! that together is bounded, however large the blocks are.
//!
//! Each block is given to liblzma as a stream of its own, made of what the file says and an index
//! of one block: it verifies the block as it would in the file. The file's own index must be, byte
//! for byte, the one that such blocks have.

mod headers;

use headers::{Block, HEADER, block_header, tail};
use liblzma::stream::{Action, Status, Stream};
use std::collections::VecDeque;
use std::io::{self, BufRead, Read};
use std::mem;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// Pieces that are held packed, and as many decoded: 26 MiB each. A block of `xz -T0` has 24, and
/// all of one must be read before the next can be begun.
const HELD: usize = 104;
/// Bytes that all decoders may look back over together: two of `xz -T0` do.
const DICTIONARIES: u64 = 16 << 20;
/// The most threads: each holds pieces of its own, and small blocks would be given to every core of
/// a large machine.
const MAX_WORKERS: usize = 8;
/// What a decoder needs beside what it looks back over, at most, in bytes.
const BESIDE: u64 = 1 << 20;
/// Bytes that are handed over at a time, at most.
const PIECE: usize = 1 << 18;
/// Pieces of the block whose turn it is that may be held whatever else is: with none it would never
/// end.
const AT_LEAST: usize = 4;

/// How a stream is to be decoded, told by its first two headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Division {
    /// So many blocks at the same time.
    workers: usize,
    /// How far one may look back, in bytes.
    dictionary: u64,
}

/// Reads the headers of a stream and of its first block; what was read, and how that is divided
/// among so many cores. None is a stream for one of them.
pub(crate) fn look(
    from: &mut impl BufRead,
    cores: usize,
) -> io::Result<(Vec<u8>, Option<Division>)> {
    let mut read = Vec::new();
    from.take(HEADER as u64).read_to_end(&mut read)?;
    if read.len() == HEADER {
        read.extend(block_header(from)?);
    }
    let division = Block::parse(read.get(HEADER..).unwrap_or_default(), &read).and_then(|block| {
        let within = usize::try_from(DICTIONARIES / block.dictionary.max(1)).unwrap_or(usize::MAX);
        let workers = cores.min(within).min(MAX_WORKERS);
        (workers > 1).then_some(Division {
            workers,
            dictionary: block.dictionary,
        })
    });
    Ok((read, division))
}

/// A stream that is decoded while it is read. Whoever reads it also hands out the work.
pub(crate) struct Blocks<R> {
    from: R,
    stream: Vec<u8>,
    /// What has yet to be handed out, and what is known of the blocks so far.
    next: Next,
    index: Vec<(u64, u64)>,
    team: Team,
    piece: Vec<u8>,
    read: usize,
}

/// The threads that decode; they end with this.
struct Team {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
}

/// What comes next in the file.
enum Next {
    /// A block's header, which was read.
    Header(Vec<u8>),
    /// So many bytes of a block.
    Packed(u64),
    /// Nothing: the stream has ended, or its reading has.
    Nothing(io::Result<()>),
}

/// What all threads share.
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    most: usize,
}

#[derive(Default)]
struct State {
    /// Room for pieces that nobody uses: each thread would keep what it had for itself, and others
    /// need it next.
    free: Vec<Vec<u8>>,
    /// Blocks that are not read to their end yet, in the file's order.
    jobs: VecDeque<Job>,
    /// How many came before those.
    gone: u64,
    /// Nobody wants more.
    over: bool,
}

/// A block at work.
#[derive(Default)]
struct Job {
    packed: VecDeque<Vec<u8>>,
    /// No more will come of that.
    handed_out: bool,
    taken: bool,
    plain: VecDeque<Vec<u8>>,
    ended: Option<io::Result<()>>,
    /// What ends the stream that it is decoded as.
    tail: Vec<u8>,
}

impl<R: BufRead> Blocks<R> {
    /// Of a stream whose first headers were looked at.
    pub(crate) fn new(from: R, read: Vec<u8>, division: Division) -> Self {
        Self::within(from, read, division, HELD)
    }

    fn within(from: R, mut stream: Vec<u8>, division: Division, most: usize) -> Self {
        let header = stream.split_off(HEADER);
        let shared = Arc::new(Shared {
            state: Mutex::default(),
            changed: Condvar::new(),
            most,
        });
        let workers = (0..division.workers).map(|_| {
            let (shared, stream) = (Arc::clone(&shared), stream.clone());
            let limit = division.dictionary + BESIDE;
            std::thread::spawn(move || shared.work(&stream, limit))
        });
        let workers = workers.collect();
        let (next, index, team) = (Next::Header(header), Vec::new(), Team { shared, workers });
        Self {
            from,
            stream,
            next,
            index,
            team,
            piece: Vec::new(),
            read: 0,
        }
    }

    /// What is behind the stream, which was read to its end.
    pub(crate) fn into_inner(self) -> R {
        self.from
    }

    /// The next bytes that were decoded; none at the end.
    fn take(&mut self) -> io::Result<Option<Vec<u8>>> {
        let Team { shared, workers } = &self.team;
        let mut state = shared.state();
        state.give_back(mem::take(&mut self.piece));
        self.read = 0;
        loop {
            if let Some(head) = state.jobs.front_mut() {
                if let Some(piece) = head.plain.pop_front() {
                    shared.changed.notify_all();
                    return Ok(Some(piece));
                }
                if let Some(ended) = head.ended.take() {
                    state.jobs.pop_front();
                    state.gone += 1;
                    shared.changed.notify_all();
                    ended?;
                    continue;
                }
            }
            let waits = match &mut self.next {
                Next::Nothing(ended) if state.jobs.is_empty() => {
                    return mem::replace(ended, Ok(())).map(|()| None);
                }
                Next::Nothing(_) => true,
                Next::Packed(_) => !state.has_room_for_packed(shared.most),
                // One more than are at work, so that nobody waits for it to be read.
                Next::Header(_) => state.jobs.len() > workers.len(),
            };
            if waits {
                state = shared.wait(state);
                continue;
            }
            drop(state);
            if let Err(e) = hand_out(
                &mut self.from,
                &self.stream,
                &mut self.next,
                &mut self.index,
                shared,
            ) {
                // What was handed out of the last block is all that there is.
                shared
                    .state()
                    .jobs
                    .back_mut()
                    .iter_mut()
                    .for_each(|job| job.handed_out = true);
                shared.changed.notify_all();
                self.next = Next::Nothing(Err(e));
            }
            state = shared.state();
        }
    }
}

/// Reads a little, and gives it to whom it concerns.
fn hand_out(
    from: &mut impl BufRead,
    stream: &[u8],
    next: &mut Next,
    index: &mut Vec<(u64, u64)>,
    shared: &Shared,
) -> io::Result<()> {
    match next {
        Next::Header(header) if header[..] == [0] => {
            let wanted = tail(index, stream);
            let mut end = mem::take(header);
            from.take(wanted.len() as u64 - 1).read_to_end(&mut end)?;
            if end != wanted {
                return Err(invalid("it is damaged"));
            }
            *next = Next::Nothing(Ok(()));
        }
        Next::Header(header) => {
            let header = mem::take(header);
            if header
                .first()
                .is_none_or(|n| header.len() != (usize::from(*n) + 1) * 4)
            {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let sizes = Block::parse(&header, stream)
                .and_then(|block| Some((block, block.padded()?.checked_sub(header.len() as u64)?)));
            let (block, rest) =
                sizes.ok_or_else(|| invalid("one of its blocks does not say how long it is"))?;
            index.push((block.unpadded, block.plain));
            let tail = tail(&[(block.unpadded, block.plain)], stream);
            shared.state().jobs.push_back(Job {
                packed: [header].into(),
                tail,
                ..Job::default()
            });
            *next = Next::Packed(rest);
        }
        Next::Packed(left) => {
            let block = from.fill_buf()?;
            let n = usize::try_from(*left)
                .unwrap_or(usize::MAX)
                .min(block.len())
                .min(PIECE);
            if n == 0 && *left > 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let mut piece = shared.state().piece();
            piece.extend_from_slice(&block[..n]);
            from.consume(n);
            *left -= n as u64;
            let over = *left == 0;
            // One whose decoder has failed wants no more.
            if let Some(job) = shared
                .state()
                .jobs
                .back_mut()
                .filter(|job| job.ended.is_none())
            {
                job.packed.push_back(piece);
                job.handed_out = over;
            }
            if over {
                *next = Next::Header(block_header(from)?);
            }
        }
        Next::Nothing(_) => {}
    }
    shared.changed.notify_all();
    Ok(())
}

impl<R: BufRead> Read for Blocks<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.read == self.piece.len() {
            let Some(piece) = self.take()? else {
                return Ok(0);
            };
            self.piece = piece;
        }
        let n = (&self.piece[self.read..]).read(buffer)?;
        self.read += n;
        Ok(n)
    }
}

impl Drop for Team {
    fn drop(&mut self) {
        self.shared.state().over = true;
        self.shared.changed.notify_all();
        for worker in self.workers.drain(..) {
            // One that broke off has said so by the end of its block.
            let _ = worker.join();
        }
    }
}

impl State {
    /// Room for a piece.
    fn piece(&mut self) -> Vec<u8> {
        self.free.pop().unwrap_or_else(|| Vec::with_capacity(PIECE))
    }

    /// Takes it back.
    fn give_back(&mut self, mut piece: Vec<u8>) {
        if piece.capacity() >= PIECE {
            piece.clear();
            self.free.push(piece);
        }
    }

    fn job(&mut self, number: u64) -> Option<&mut Job> {
        let at = usize::try_from(number.checked_sub(self.gone)?).ok()?;
        self.jobs.get_mut(at)
    }

    /// Whether more may be read. The block whose turn it is gets a little in any case.
    fn has_room_for_packed(&self, most: usize) -> bool {
        let is_turn = self.jobs.len() == 1 && self.jobs[0].packed.len() < AT_LEAST;
        is_turn || self.jobs.iter().map(|job| job.packed.len()).sum::<usize>() < most
    }

    /// Whether more may be decoded of a block.
    fn has_room_for_plain(&self, number: u64, most: usize) -> bool {
        let is_turn = number == self.gone
            && self
                .jobs
                .front()
                .is_some_and(|job| job.plain.len() < AT_LEAST);
        is_turn || self.jobs.iter().map(|job| job.plain.len()).sum::<usize>() < most
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.changed
            .wait(state)
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Decodes blocks, as long as somebody wants them.
    fn work(&self, stream: &[u8], limit: u64) {
        while let Some(number) = self.begin() {
            let mut end = End {
                shared: self,
                number,
                ended: Some(Err(io::Error::other("a decoder broke off"))),
            };
            end.ended = Some(self.decode(number, stream, limit));
        }
    }

    /// The next block that nobody decodes.
    fn begin(&self) -> Option<u64> {
        let mut state = self.state();
        loop {
            if state.over {
                return None;
            }
            if let Some(at) = state.jobs.iter().position(|job| !job.taken) {
                state.jobs[at].taken = true;
                return Some(state.gone + at as u64);
            }
            state = self.wait(state);
        }
    }

    fn decode(&self, number: u64, stream: &[u8], limit: u64) -> io::Result<()> {
        let plain = self.state().piece();
        let mut decoder = Decoder {
            stream: Stream::new_stream_decoder(limit, 0)?,
            plain,
            ended: false,
        };
        let mut give = |plain| self.give(number, plain);
        decoder.feed(stream, &mut give)?;
        while let Some(packed) = self.packed(number)? {
            decoder.feed(&packed, &mut give)?;
            self.state().give_back(packed);
        }
        let tail = self
            .state()
            .job(number)
            .map(|job| mem::take(&mut job.tail))
            .unwrap_or_default();
        decoder.feed(&tail, &mut give)?;
        if !decoder.ended {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        give(decoder.plain).map(drop)
    }

    /// The next bytes of a block; none behind them.
    fn packed(&self, number: u64) -> io::Result<Option<Vec<u8>>> {
        let mut state = self.state();
        loop {
            let over = state.over;
            let Some(job) = state.job(number).filter(|_| !over) else {
                return Err(io::ErrorKind::BrokenPipe.into());
            };
            if let Some(packed) = job.packed.pop_front() {
                self.changed.notify_all();
                return Ok(Some(packed));
            }
            if job.handed_out {
                return Ok(None);
            }
            state = self.wait(state);
        }
    }

    /// Gives what was decoded of a block to who reads it, for room for more.
    fn give(&self, number: u64, plain: Vec<u8>) -> io::Result<Vec<u8>> {
        // Nothing would be taken for the end.
        if plain.is_empty() {
            return Ok(plain);
        }
        let mut state = self.state();
        while !state.over && !state.has_room_for_plain(number, self.most) {
            state = self.wait(state);
        }
        if state.over {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        state
            .job(number)
            .ok_or(io::ErrorKind::BrokenPipe)?
            .plain
            .push_back(plain);
        self.changed.notify_all();
        Ok(state.piece())
    }
}

/// Says how a block's decoding ended, however that was.
struct End<'a> {
    shared: &'a Shared,
    number: u64,
    ended: Option<io::Result<()>>,
}

impl Drop for End<'_> {
    fn drop(&mut self) {
        if let Some(job) = self.shared.state().job(self.number) {
            job.packed.clear();
            job.ended = self.ended.take();
        }
        self.shared.changed.notify_all();
    }
}

struct Decoder {
    stream: Stream,
    plain: Vec<u8>,
    ended: bool,
}

impl Decoder {
    fn feed(
        &mut self,
        mut packed: &[u8],
        give: &mut impl FnMut(Vec<u8>) -> io::Result<Vec<u8>>,
    ) -> io::Result<()> {
        while !packed.is_empty() {
            if self.ended {
                return Err(invalid("it is damaged"));
            }
            if self.plain.len() == self.plain.capacity() {
                self.plain = give(mem::take(&mut self.plain))?;
            }
            let (read, written) = (self.stream.total_in(), self.plain.len());
            let status = self
                .stream
                .process_vec(packed, &mut self.plain, Action::Run)?;
            let read = (self.stream.total_in() - read) as usize;
            self.ended = status == Status::StreamEnd;
            if read == 0 && self.plain.len() == written && !self.ended {
                return Err(invalid("it is damaged"));
            }
            packed = &packed[read..];
        }
        Ok(())
    }
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use liblzma::stream::{Check, MtStreamBuilder};
    use liblzma::write::XzEncoder;
    use std::io::Write;

    /// Bytes of which some pack well and some do not at all.
    fn text(length: usize) -> Vec<u8> {
        let noise = |n: usize| {
            (n as u32)
                .wrapping_mul(2_654_435_761)
                .rotate_left(7)
                .to_le_bytes()[n % 4]
        };
        (0..length)
            .map(|n| if n / 5000 % 3 == 0 { b'x' } else { noise(n) })
            .collect()
    }

    /// As `xz -T2 --block-size` packs it.
    fn packed(text: &[u8], block: u64, preset: u32) -> Vec<u8> {
        checked(text, block, preset, Check::Crc64)
    }

    fn checked(text: &[u8], block: u64, preset: u32, check: Check) -> Vec<u8> {
        let mut stream = MtStreamBuilder::new();
        stream
            .threads(2)
            .block_size(block)
            .preset(preset)
            .check(check);
        let mut xz = XzEncoder::new_stream(Vec::new(), stream.encoder().expect("an encoder"));
        xz.write_all(text)
            .and_then(|()| xz.finish())
            .expect("packed")
    }

    fn division(packed: &[u8], cores: usize) -> Option<Division> {
        look(&mut &packed[..], cores).expect("read").1
    }

    /// Unpacks it by so many threads that hold so many pieces packed, and as many unpacked; what is
    /// behind it.
    fn unpacked(mut packed: &[u8], workers: usize, most: usize) -> (io::Result<Vec<u8>>, usize) {
        let (read, division) = match look(&mut packed, 2) {
            Ok((read, Some(division))) => (
                read,
                Division {
                    workers,
                    ..division
                },
            ),
            other => return (Err(io::Error::other(format!("{other:?}"))), 0),
        };
        let (mut blocks, mut all) = (Blocks::within(packed, read, division, most), Vec::new());
        let read = blocks.read_to_end(&mut all).map(|_| all);
        (read, blocks.into_inner().len())
    }

    #[test]
    fn blocks_come_in_their_order_however_many_work_at_them() {
        let text = text(3_000_000);
        for (block, preset) in [(100_000, 0), (1 << 20, 1), (2_999_999, 6), (4_000_000, 6)] {
            let packed = [&packed(&text, block, preset)[..], b"behind"].concat();
            for (workers, most) in [(1, 0), (2, 0), (2, 3), (2, HELD), (7, 0), (7, HELD)] {
                let (read, left) = unpacked(&packed, workers, most);
                assert!(
                    read.expect("unpacked") == text,
                    "{block} bytes a block, {workers} threads, {most} pieces"
                );
                assert_eq!(left, 6);
            }
        }
    }

    #[test]
    fn every_kind_of_check_is_known() {
        let text = text(50_000);
        for check in [Check::None, Check::Crc32, Check::Crc64, Check::Sha256] {
            let (read, _) = unpacked(&checked(&text, 10_001, 0, check), 2, HELD);
            assert!(read.expect("unpacked") == text, "{check:?}");
        }
    }

    #[test]
    fn what_has_no_blocks_that_say_how_long_they_are_is_for_one_thread() {
        let text = text(300_000);
        let many = packed(&text, 100_000, 6);
        assert_eq!(
            division(&many, 16),
            Some(Division {
                workers: 2,
                dictionary: 8 << 20
            })
        );
        let small = packed(&text, 100_000, 0);
        for (cores, workers) in [(3, 3), (256, MAX_WORKERS)] {
            assert_eq!(
                division(&small, cores),
                Some(Division {
                    workers,
                    dictionary: 256 << 10
                })
            );
        }
        let mut one = XzEncoder::new(Vec::new(), 6);
        one.write_all(&text).expect("packed");
        let one = one.finish().expect("packed");
        let empty = XzEncoder::new(Vec::new(), 6).finish().expect("packed");
        for (what, packed, cores) in [
            ("one core", &many, 1),
            ("tar cJ", &one, 2),
            ("nothing in it", &empty, 2),
        ] {
            assert_eq!(division(packed, cores), None, "{what}");
        }
        let large = packed(&text, 100_000, 9);
        assert_eq!(division(&large, 2), None, "each looks back over 64 MiB");
        assert_eq!(
            look(&mut &many[..], 1).expect("read").0,
            many[..many.len().min(12 + many[12] as usize * 4 + 4)]
        );
    }

    #[test]
    fn cut_and_altered_bytes_are_refused() {
        let text = text(40_000);
        let packed = packed(&text, 10_000, 0);
        let is_refused = |bytes: &[u8]| unpacked(bytes, 2, HELD).0.is_err();
        assert!(
            (0..packed.len())
                .step_by(7)
                .chain([packed.len() - 1])
                .all(|length| is_refused(&packed[..length]))
        );
        // The reserved bits of the stream's flags included, and every byte of the index and of the
        // footer.
        let last = packed.len() - 60..packed.len();
        for at in (0..packed.len() - 60).step_by(31).chain(0..40).chain(last) {
            let mut altered = packed.clone();
            altered[at] ^= 0x10;
            assert!(is_refused(&altered), "byte {at} of {}", packed.len());
        }
    }

    #[test]
    fn a_block_that_needs_more_than_the_first_is_refused() {
        let (small, large) = (
            packed(&text(20_000), 10_000, 0),
            packed(&text(20_000), 10_000, 6),
        );
        // The footer tells the index's length in fours, less one.
        let index = u32::from_le_bytes(
            small[small.len() - 8..small.len() - 4]
                .try_into()
                .expect("four"),
        ) as usize;
        let mixed = [
            &small[..small.len() - HEADER - (index + 1) * 4],
            &large[HEADER..],
        ]
        .concat();
        let error = unpacked(&mixed, 2, HELD).0.expect_err("refused");
        let is_limit = |e: &io::Error| {
            e.get_ref()
                .is_some_and(|e| e.to_string().contains("memory"))
        };
        assert!(is_limit(&error), "{error}");
    }

    #[test]
    fn whoever_reads_no_more_waits_for_nobody() {
        let packed = packed(&text(3_000_000), 100_000, 0);
        for read in [0, 1, 500_000] {
            let (mut from, mut buffer) = (&packed[..], vec![0; read]);
            let (head, division) = look(&mut from, 4).expect("read");
            let mut blocks = Blocks::within(from, head, division.expect("many"), 1);
            blocks.read_exact(&mut buffer).expect("read");
        }
    }
}
