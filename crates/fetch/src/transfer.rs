//! One attempt to bring a file over the network: from where the last one stopped, by one
//! connection, and by several where that brings more. Each has a thread. The caller's thread
//! watches them, so that an interrupt is heard while all of them wait.

use super::client::{Client, ServerAnswer, silence};
use super::pace::Pace;
use super::part::{DownloadOrigin, Length, Part, Shared, lock};
use super::transfer_error::TransferError;
use gpusetup_system::interrupt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// What one of several connections fetches at a time: so little that whoever reads the file while
/// it arrives is not held up by the slowest of them, and so much that asking for it is nothing
/// beside.
const PIECE: u64 = 8 << 20;

/// The least that one connection takes.
const LAST: u64 = 1 << 20;

/// How often it is told how far it is, and asked whether to stop.
const TICK: Duration = Duration::from_millis(100);

/// Bytes a second that a download must bring at least, on average over [`window`]: a tenth of what
/// a modem brought. A server that sends less holds up whoever waits for it, for years if it likes.
const MIN_RATE: u64 = 512;

/// How long a download may be slower, in times of a server's longest silence: two minutes.
fn window() -> Duration {
    2 * silence()
}

/// What the connections of one attempt share.
struct PartRequest {
    client: Client,
    part: Shared,
    size: Option<u64>,
    /// It has no more bytes than this.
    most: u64,
    validator: Option<String>,
    shares: Mutex<Shares>,
    /// Nothing is written any more. Changes only while the part is locked.
    is_over: AtomicBool,
}

/// Who fetches what.
#[derive(Debug, Default)]
struct Shares {
    /// Up to here the first connection fetches; none is to the end.
    first_to: Option<u64>,
    /// Pieces that somebody has begun and left.
    left: Vec<(u64, u64)>,
    /// From here on nobody fetches yet; none is nothing.
    free_from: Option<u64>,
}

impl Shares {
    /// The next piece for whoever has none.
    fn claim(&mut self, size: u64) -> Option<(u64, u64)> {
        if let Some(first) = (0..self.left.len()).min_by_key(|n| self.left[*n]) {
            return Some(self.left.swap_remove(first));
        }
        let from = self.free_from.filter(|from| *from < size)?;
        // Smaller ones towards the end, so that no connection is waited for long when the others
        // have nothing left.
        let to = size.min(from + PIECE.min((size - from) / 8).max(LAST));
        self.free_from = Some(to);
        Some((from, to))
    }

    /// From now on others fetch too: the first connection, which is at `at`, has one piece more.
    fn divide(&mut self, at: u64, size: u64) {
        let to = size.min(at + PIECE);
        (self.first_to, self.free_from) = (Some(to), Some(to));
    }

    /// The first connection is at its end: one piece more for it, where nobody else has that.
    fn go_on(&mut self, size: u64) -> bool {
        let is_free = self.first_to.is_some()
            && self.free_from == self.first_to
            && self.first_to < Some(size);
        if is_free {
            let to = self.first_to.map(|to| size.min(to + PIECE));
            (self.first_to, self.free_from) = (to, to);
        }
        is_free
    }
}

/// Makes one attempt. It is told how many bytes there are.
pub(super) fn transfer(
    client: &Client,
    part: &Shared,
    length: Length,
    alone: bool,
    progress: &mut dyn FnMut(u64),
) -> Result<(), TransferError> {
    let (have, known) = {
        let part = lock(part);
        (
            part.have(),
            Some(part.origin.clone()).filter(|origin| origin.url == client.url()),
        )
    };
    if length.size == Some(have) {
        return Ok(());
    }
    let validator = known.and_then(|origin| origin.validator);
    let answer = {
        let (client, validator) = (client.clone(), validator.clone());
        wait(
            move || client.ask(have, None, validator.as_deref()),
            &mut || progress(have),
        )
    };
    answer.and_then(|answer| {
        receive(
            client,
            part,
            answer,
            validator.as_deref(),
            length,
            alone,
            progress,
        )
    })
}

/// Receives what a server has begun to send.
fn receive(
    client: &Client,
    part: &Shared,
    answer: ServerAnswer,
    known: Option<&str>,
    Length { size, most }: Length,
    alone: bool,
    progress: &mut dyn FnMut(u64),
) -> Result<(), TransferError> {
    if let (Some(total), Some(size)) = (answer.total, size)
        && total != size
    {
        let why = format!(
            "the server's file has {total} bytes, not {size}: the mirror is out of step, or it is another"
        );
        return Err(TransferError::Final(why));
    }
    if answer.total.is_some_and(|total| total > most) {
        return Err(TransferError::TooLong);
    }
    if answer.from > 0
        && known.is_some()
        && answer.validator.is_some()
        && known != answer.validator.as_deref()
    {
        return Err(TransferError::Changed);
    }
    let size = size.or(answer.total);
    prepare(part, &answer, client, size).map_err(TransferError::Disk)?;
    let in_parts = answer.in_parts && !alone;
    let validator = answer.validator.clone();
    let (client, part, shares) = (client.clone(), Arc::clone(part), Mutex::default());
    let most = size.unwrap_or(most);
    let is_over = AtomicBool::new(false);
    let job = Arc::new(PartRequest {
        client,
        part,
        size,
        most,
        validator,
        shares,
        is_over,
    });
    let ended = supervise(&job, answer, in_parts, progress);
    let have = job.ends();
    ended?;
    match size {
        Some(size) if have < size => Err(TransferError::Passing(format!(
            "the connection was cut after {have} bytes"
        ))),
        _ => Ok(()),
    }
}

/// Makes the part ready for an answer.
fn prepare(
    part: &Shared,
    answer: &ServerAnswer,
    client: &Client,
    size: Option<u64>,
) -> std::io::Result<()> {
    let mut part = lock(part);
    if answer.from != part.have() {
        part.begin_anew()?;
    }
    if let Some(size) = size {
        part.reserve(size)?;
    }
    part.comes_from(DownloadOrigin {
        url: client.url().to_owned(),
        validator: answer.validator.clone(),
    })
}

/// Waits for something, as long as nobody tells us to stop.
fn wait<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, TransferError> + Send + 'static,
    tick: &mut dyn FnMut(),
) -> Result<T, TransferError> {
    let (tell, done) = mpsc::channel();
    spawn(work, tell);
    loop {
        match done.recv_timeout(TICK) {
            Ok(done) => return done,
            Err(_) if interrupt::heard().is_some() => return Err(TransferError::Interrupted),
            Err(_) => tick(),
        }
    }
}

/// Does it in a thread, which sends the result. A panic ends the program (`system::bug`), which
/// resumes the transfer later.
fn spawn<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, TransferError> + Send + 'static,
    tell: Sender<Result<T, TransferError>>,
) {
    thread::spawn(move || {
        // The receiver is gone if the attempt is over.
        let _ = tell.send(work());
    });
}

/// The threads of an attempt.
struct Connections {
    running: usize,
    tell: Sender<Result<(), TransferError>>,
    ended: Receiver<Result<(), TransferError>>,
}

impl Connections {
    fn new() -> Self {
        let (tell, ended) = mpsc::channel();
        Self {
            running: 0,
            tell,
            ended,
        }
    }

    fn start(&mut self, work: impl FnOnce() -> Result<(), TransferError> + Send + 'static) {
        self.running += 1;
        spawn(work, self.tell.clone());
    }

    /// How one of them ended, if one does within a tick.
    fn next(&mut self) -> Option<Result<(), TransferError>> {
        let ended = self.ended.recv_timeout(TICK).ok()?;
        self.running -= 1;
        Some(ended)
    }
}

/// Sees to it that there are as many connections as help, until the last has ended.
fn supervise(
    job: &Arc<PartRequest>,
    answer: ServerAnswer,
    in_parts: bool,
    progress: &mut dyn FnMut(u64),
) -> Result<(), TransferError> {
    let mut connections = Connections::new();
    let of_first = Arc::clone(job);
    connections.start(move || first(&of_first, answer));
    let (began, mut last_report) = (Instant::now(), Instant::now());
    let mut pace = Pace::of_one(lock(&job.part).amount());
    let (mut last, mut window_began, mut was) = (Ok(()), Instant::now(), lock(&job.part).amount());
    while connections.running > 0 {
        match connections.next() {
            None | Some(Ok(())) => {}
            Some(Err(trouble)) if trouble.is_everybodys() => return Err(trouble),
            Some(Err(trouble)) => {
                // Too many for this server, perhaps: the others take over what it left.
                last = Err(trouble);
                pace.settles();
            }
        }
        if interrupt::heard().is_some() {
            return Err(TransferError::Interrupted);
        }
        if last_report.elapsed() >= TICK {
            last_report = Instant::now();
            let amount = lock(&job.part).amount();
            progress(amount);
            if window_began.elapsed() >= window() {
                if amount.saturating_sub(was) < MIN_RATE * window().as_secs() {
                    let why = format!("the server sends less than {MIN_RATE} bytes a second");
                    return Err(TransferError::Passing(why));
                }
                (window_began, was) = (Instant::now(), amount);
            }
            if in_parts
                && job
                    .size
                    .is_some_and(|size| size.saturating_sub(amount) > 4 * PIECE)
            {
                for _ in 0..pace.more(began.elapsed(), amount) {
                    let job = Arc::clone(job);
                    connections.start(move || another(&job));
                }
            }
        }
    }
    last
}

/// The first connection: it has what was asked for to the end, and lets others have of it.
fn first(job: &PartRequest, mut answer: ServerAnswer) -> Result<(), TransferError> {
    let mut at = answer.from;
    loop {
        let mut bytes = answer.body.next()?;
        if bytes.is_empty() {
            break;
        }
        while !bytes.is_empty() {
            let to = job.shares().first_to;
            let most = to.map_or(bytes.len(), |to| {
                usize::try_from(to.saturating_sub(at)).unwrap_or(usize::MAX)
            });
            let (now, rest) = bytes.split_at(most.min(bytes.len()));
            job.write(now, at)?;
            (at, bytes) = (at + now.len() as u64, rest);
            if to.is_some_and(|to| at >= to) && !job.shares().go_on(job.size.unwrap_or(u64::MAX)) {
                // Somebody else has what comes next.
                drop(answer);
                job.remember()?;
                return pieces(job);
            }
        }
    }
    if job.size.is_some_and(|size| at < size) {
        let mut shares = job.shares();
        // Alone, it leaves that to the next attempt.
        if let Some(to) = shares.first_to {
            shares.left.push((at, to));
        }
        return Err(TransferError::Passing(format!(
            "the connection was cut after {at} bytes"
        )));
    }
    Ok(())
}

fn another(job: &PartRequest) -> Result<(), TransferError> {
    {
        let at = lock(&job.part).have();
        let mut shares = job.shares();
        if shares.first_to.is_none() {
            shares.divide(at, job.size.unwrap_or(at));
        }
    }
    pieces(job)
}

/// Fetches pieces as long as there are any.
fn pieces(job: &PartRequest) -> Result<(), TransferError> {
    loop {
        job.part().map(drop)?;
        let claimed = job.shares().claim(job.size.unwrap_or_default());
        let Some((from, to)) = claimed else {
            return Ok(());
        };
        let mut at = from;
        let fetched = piece(job, &mut at, to);
        if fetched.is_err() && at < to {
            job.shares().left.push((at, to));
        }
        fetched?;
        job.remember()?;
    }
}

/// Fetches what lies between `at`, which goes along, and `to`.
fn piece(job: &PartRequest, at: &mut u64, to: u64) -> Result<(), TransferError> {
    let mut answer = job.client.ask(*at, Some(to), job.validator.as_deref())?;
    if answer.from != *at || answer.total != job.size {
        return Err(TransferError::Changed);
    }
    loop {
        let bytes = answer.body.next()?;
        if bytes.is_empty() {
            break;
        }
        let most = usize::try_from(to - *at)
            .unwrap_or(usize::MAX)
            .min(bytes.len());
        job.write(&bytes[..most], *at)?;
        *at += most as u64;
    }
    if *at < to {
        Err(TransferError::Passing(format!(
            "the connection was cut at byte {at}"
        )))
    } else {
        Ok(())
    }
}

impl PartRequest {
    fn shares(&self) -> MutexGuard<'_, Shares> {
        self.shares.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, bytes: &[u8], at: u64) -> Result<(), TransferError> {
        if at + bytes.len() as u64 > self.most {
            return Err(TransferError::TooLong);
        }
        self.part()?.write(bytes, at).map_err(TransferError::Disk)
    }

    fn remember(&self) -> Result<(), TransferError> {
        self.part()?.remember().map_err(TransferError::Disk)
    }

    /// The part, as long as there is something to write to it.
    fn part(&self) -> Result<MutexGuard<'_, Part>, TransferError> {
        let part = lock(&self.part);
        if self.is_over.load(Ordering::Relaxed) {
            Err(TransferError::Interrupted)
        } else {
            Ok(part)
        }
    }

    /// Stops all writing; returns how many bytes of the beginning are there.
    fn ends(&self) -> u64 {
        let part = lock(&self.part);
        self.is_over.store(true, Ordering::Relaxed);
        part.have()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_somebodys_and_nobody_elses() {
        let size = 50 * PIECE + 7;
        let mut shares = Shares::default();
        assert_eq!(shares.claim(size), None, "one connection has all of it");
        shares.divide(100, size);
        assert!(shares.go_on(size), "nobody has what comes next");
        assert_eq!(shares.first_to, Some(100 + 2 * PIECE));
        assert_eq!(shares.claim(size), Some((100 + 2 * PIECE, 100 + 3 * PIECE)));
        assert!(!shares.go_on(size), "somebody has");
        shares.left.push((100 + 3 * PIECE - 5, 100 + 3 * PIECE));
        assert_eq!(
            shares.claim(size),
            Some((100 + 3 * PIECE - 5, 100 + 3 * PIECE)),
            "what was left comes first"
        );
        assert_eq!(shares.claim(size), Some((100 + 3 * PIECE, 100 + 4 * PIECE)));
        let (mut at, mut last) = (100 + 4 * PIECE, PIECE);
        while let Some((from, to)) = shares.claim(size) {
            assert!(from == at && to - from <= last, "{from} to {to}");
            (at, last) = (to, to - from);
        }
        assert!(at == size && last <= LAST, "{at}: {last}");
    }
}
