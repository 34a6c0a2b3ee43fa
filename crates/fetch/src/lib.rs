//! Downloads: into the cache, verified while the bytes arrive. Under its name in the cache there is
//! never anything that was not verified.

// clippy.toml lists what only `gpusetup-system` may call.
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod arriving;
pub mod cache;
mod client;
mod local;
mod pace;
mod part;
mod proxies;
mod sources;
mod transfer;
mod transfer_error;

pub use arriving::Arriving;
pub(crate) use arriving::Stopped;
pub use client::certificates;
pub(crate) use proxies::InvalidProxy;
pub use sources::Sources;

use crate::cache::{PART, REJECTED, with_ending};
use client::Client;
use gpusetup_database::sum::hex;
use gpusetup_system::{System, interrupt};
use gpusetup_text::text::{bytes, public_address};
use part::{Length, Part, Shared, lock};
use sha2::{Digest, Sha256};
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};
use transfer_error::TransferError;

/// How often in a row a transfer is taken up again that brings nothing new.
const MAX_ATTEMPTS: u32 = 4;

/// So many bytes are something new.
const PROGRESS: u64 = 1 << 20;

/// The longest that a server may have us wait. Nobody is to wait an hour for what was said to take
/// minutes.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(120);

/// How long a small file may take, in times of a server's longest silence: five minutes.
const MAX_SILENCES: u32 = 5;

/// Refuses proxies in the environment that are none, before anything goes without them.
///
/// # Errors
///
/// If there is one.
pub fn check_proxies() -> Result<(), InvalidProxy> {
    proxies::proxies().map(|_| ())
}

/// Why a file is not there.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// The server or the network; it may work later.
    #[error("cannot download {url}: {why}")]
    Network {
        /// From where.
        url: String,
        /// What went wrong, as the end of a sentence.
        why: String,
    },
    /// Nobody can be reached there, or nobody at all: the network of a machine that has just
    /// booted.
    #[error("cannot reach {url}: {why}")]
    Unreachable {
        /// From where.
        url: String,
        /// What went wrong, as the end of a sentence.
        why: String,
    },
    /// What came is not what was published.
    #[error("{url} is not what it should be: {why}; what came is kept in {}", kept.display())]
    Rejected {
        /// From where.
        url: String,
        /// What is wrong with it.
        why: String,
        /// Where it is kept for a look.
        kept: PathBuf,
    },
    /// A file whose size was not published goes on and on.
    #[error("{url} is refused: it is longer than {}, the most that such a file may have; nothing of it was kept", bytes(*most))]
    TooLong {
        /// From where.
        url: String,
        /// How many bytes it may have.
        most: u64,
    },
    /// The cache cannot be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The file or directory.
        path: PathBuf,
        /// What the system says about it.
        source: io::Error,
    },
}

/// What to fetch.
#[derive(Debug, Clone, Copy)]
pub struct FetchRequest<'a> {
    /// From where.
    pub url: &'a str,
    /// Its sum, in lower-case hexadecimal.
    pub sha256: &'a str,
    /// Its size in bytes, where known.
    pub size: Option<u64>,
    /// Where it goes on the host.
    pub to: &'a Path,
}

impl FetchRequest<'_> {
    /// How long it may be.
    fn length(&self) -> Length {
        Length {
            size: self.size,
            most: self.size.unwrap_or_else(|| longest(self.to)),
        }
    }
}

/// The most bytes that a file may have whose size NVIDIA does not publish: several times as many as
/// the largest of its kind so far.
fn longest(file: &Path) -> u64 {
    const GIB: u64 = 1 << 30;
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    match () {
        // Driver installers have up to 0.5 GB.
        () if name.starts_with("NVIDIA-Linux-") => 2 * GIB,
        // Toolkit installers have up to 7 GB.
        () if name.starts_with("cuda_") => 20 * GIB,
        // cuDNN's archives have up to 2 GB.
        () => 6 * GIB,
    }
}

/// Whether the verified file is there already.
pub fn is_cached(on: &System, wanted: &FetchRequest) -> bool {
    cache::sum(on, wanted.to, wanted.sha256).is_ok_and(|sum| sum == wanted.sha256)
}

/// The bytes of something small whose sum nobody knows beforehand, at most `limit` of them: its
/// signature is checked instead. None where the server has no such thing.
///
/// # Errors
///
/// If it cannot be had, or has more bytes than the limit.
pub fn fetch_small(
    url: &str,
    limit: u64,
    sources: &Sources,
) -> Result<Option<Vec<u8>>, FetchError> {
    let network = |trouble| fetch_error(url, trouble);
    if url.starts_with("file:") {
        return local::small(url, limit).map_err(network);
    }
    if sources.offline {
        return Err(network(TransferError::Final(
            "--offline forbids downloads".to_owned(),
        )));
    }
    let client = Client::new(url, sources).map_err(network)?;
    let mut answer = match client.ask(0, None, None) {
        Err(TransferError::NotThere(_)) => return Ok(None),
        answer => answer.map_err(network)?,
    };
    let (mut bytes, began) = (Vec::new(), Instant::now());
    loop {
        if began.elapsed() > MAX_SILENCES * client::silence() {
            return Err(network(TransferError::Passing(format!(
                "after {} bytes it took too long",
                bytes.len()
            ))));
        }
        let more = answer.body.next().map_err(network)?;
        if more.is_empty() {
            return Ok(Some(bytes));
        }
        bytes.extend(more);
        if bytes.len() as u64 > limit {
            return Err(network(TransferError::Final(format!(
                "it is longer than {limit} bytes"
            ))));
        }
    }
}

/// Fetches it; `progress` is told the bytes that are there, and whoever reads `arriving` has them
/// while they come.
pub fn fetch(
    on: &System,
    wanted: &FetchRequest,
    sources: &Sources,
    progress: &mut dyn FnMut(u64),
    arriving: Option<&Arriving>,
) -> Result<(), FetchError> {
    fetch_of_length(on, wanted, wanted.length(), sources, progress, arriving)
}

fn fetch_of_length(
    on: &System,
    wanted: &FetchRequest,
    length: Length,
    sources: &Sources,
    progress: &mut dyn FnMut(u64),
    arriving: Option<&Arriving>,
) -> Result<(), FetchError> {
    let nobodys = Arriving::default();
    let arriving = arriving.unwrap_or(&nobodys);
    let fetched = thread::scope(|scope| {
        let (tell, sums) = mpsc::channel();
        scope.spawn(move || sum_up(arriving, &tell));
        let fetched = Fetching::new(on, wanted, length, sources, arriving, sums)
            .and_then(|mut it| it.run(progress));
        // Nobody waits for more of it; what was verified stays so.
        arriving.abandon();
        fetched
    });
    fetched.map_err(|failed| match failed {
        Failed::Is(e) => e,
        Failed::By(TransferError::Disk(source)) => FetchError::Write {
            path: wanted.to.to_owned(),
            source,
        },
        Failed::By(trouble) => fetch_error(wanted.url, trouble),
    })
}

/// Sums up what arrives, each time that it begins.
fn sum_up(arriving: &Arriving, tell: &Sender<io::Result<String>>) {
    let mut block = vec![0; 1 << 18];
    loop {
        let (mut reader, mut sum) = (arriving.unverified(), Sha256::new());
        let ended = loop {
            match reader.read(&mut block) {
                Ok(0) => break Ok(hex(&sum.finalize())),
                Ok(n) => sum.update(&block[..n]),
                Err(e) => break Err(e),
            }
        };
        let stopped = ended
            .as_ref()
            .err()
            .and_then(|e| e.get_ref()?.downcast_ref::<Stopped>().copied());
        match stopped {
            Some(Stopped::Restarted) => {}
            Some(Stopped::Abandoned) => return,
            None => {
                if tell.send(ended).is_err() || !reader.begins_anew() {
                    return;
                }
            }
        }
    }
}

/// Why it was not fetched.
enum Failed {
    /// As it is told.
    Is(FetchError),
    /// For this reason.
    By(TransferError),
}

impl From<TransferError> for Failed {
    fn from(trouble: TransferError) -> Self {
        Self::By(trouble)
    }
}

/// A download at work.
struct Fetching<'a> {
    on: &'a System,
    wanted: &'a FetchRequest<'a>,
    length: Length,
    sources: &'a Sources,
    arriving: &'a Arriving,
    sums: Receiver<io::Result<String>>,
    /// Where the file is until it is verified.
    path: PathBuf,
    part: Shared,
    /// Some of it is of an earlier run.
    resumed: bool,
    /// The server did not keep to one state of the file: its parts are not asked for at once.
    alone: bool,
}

impl<'a> Fetching<'a> {
    fn new(
        on: &'a System,
        wanted: &'a FetchRequest<'a>,
        length: Length,
        sources: &'a Sources,
        arriving: &'a Arriving,
        sums: Receiver<io::Result<String>>,
    ) -> Result<Self, Failed> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| Failed::Is(FetchError::Write { path, source })
        };
        let folder = wanted.to.parent().unwrap_or(Path::new("/"));
        // Private: what is run from there must not be anybody else's to change.
        on.make_directories(folder, 0o700).map_err(failed(folder))?;
        let path = with_ending(wanted.to, PART);
        let part = Part::open(on, &path, length, arriving).map_err(failed(&path))?;
        let resumed = part.have() > 0;
        let part = Arc::new(Mutex::new(part));
        Ok(Self {
            on,
            wanted,
            length,
            sources,
            arriving,
            sums,
            path,
            part,
            resumed,
            alone: false,
        })
    }

    /// Attempts until it is there, or will not be.
    fn run(&mut self, progress: &mut dyn FnMut(u64)) -> Result<(), Failed> {
        let local = self.wanted.url.starts_with("file:");
        if self.sources.offline && !local {
            return Err(TransferError::Final("--offline forbids downloads".to_owned()).into());
        }
        let network = match local {
            true => None,
            false => Some(Client::new(self.wanted.url, self.sources)?),
        };
        let ended = self.attempts(network.as_ref(), progress);
        if let Err(failed) = &ended
            && (lock(&self.part).have() == 0 || self.is_refused(failed))
        {
            // Nothing of it is worth keeping.
            let _ = lock(&self.part).forget();
            let _ = self.on.remove(&self.path);
        }
        ended
    }

    /// Whether a file of unpublished size turned out to be too long: what came of it would only
    /// fill the disk.
    fn is_refused(&self, failed: &Failed) -> bool {
        match failed {
            Failed::Is(e) => matches!(e, FetchError::TooLong { .. }),
            Failed::By(TransferError::Disk(e)) => {
                self.length.size.is_none() && e.kind() == io::ErrorKind::StorageFull
            }
            Failed::By(_) => false,
        }
    }

    fn attempts(
        &mut self,
        network: Option<&Client>,
        progress: &mut dyn FnMut(u64),
    ) -> Result<(), Failed> {
        let (mut failures, mut best) = (0, lock(&self.part).have());
        loop {
            let ended = match network {
                None => local::copy(self.wanted.url, &self.part, self.length, progress),
                Some(client) => {
                    transfer::transfer(client, &self.part, self.length, self.alone, progress)
                }
            };
            let ended = lock(&self.part)
                .keep_beginning()
                .map_err(TransferError::Disk)
                .and(ended);
            let trouble = match ended {
                Ok(()) => match self.verify()? {
                    None => return Ok(()),
                    Some(trouble) => trouble,
                },
                Err(TransferError::TooLong) if self.length.size.is_none() => {
                    let (url, most) = (self.wanted.url.to_owned(), self.length.most);
                    return Err(Failed::Is(FetchError::TooLong { url, most }));
                }
                Err(TransferError::TooLong) => {
                    self.not_it(format!("it is longer than {} bytes", self.length.most))?
                }
                Err(trouble) => trouble,
            };
            let have = lock(&self.part).have();
            if have > best + PROGRESS {
                (failures, best) = (0, have);
            }
            failures += 1;
            let pause = match &trouble {
                TransferError::NoSuchPart | TransferError::Changed if failures < MAX_ATTEMPTS => {
                    self.alone = true;
                    self.begin_anew()?;
                    continue;
                }
                TransferError::Unreachable(_) | TransferError::Passing(_)
                    if failures < MAX_ATTEMPTS =>
                {
                    pause(failures)
                }
                TransferError::Later(_, wait)
                    if failures < MAX_ATTEMPTS && *wait <= MAX_RETRY_AFTER =>
                {
                    pause(failures).max(*wait)
                }
                _ => return Err(trouble.into()),
            };
            sleep(pause)?;
        }
    }

    /// All of it is there: puts it in its place, where it is what it should be; else tells what is
    /// to be done.
    fn verify(&mut self) -> Result<Option<TransferError>, Failed> {
        self.arriving.is_complete();
        let sum = self.sum().map_err(Failed::By)?;
        if sum != self.wanted.sha256 {
            return self
                .not_it(format!("its SHA-256 is {sum}, not {}", self.wanted.sha256))
                .map(Some);
        }
        let failed = |source| {
            Failed::Is(FetchError::Write {
                path: self.wanted.to.to_owned(),
                source,
            })
        };
        self.on.rename(&self.path, self.wanted.to).map_err(failed)?;
        let part = lock(&self.part);
        // A disk that has no room for the note costs a reading of the file, and no more.
        let _ = part.forget();
        // Of the file that was verified: another that came to its name in the meantime is none.
        let _ = part
            .identity()
            .and_then(|file| cache::arrived(self.on, self.wanted.to, &sum, file));
        drop(part);
        self.arriving.is_verified();
        Ok(None)
    }

    /// The sum of what is there. Of what an earlier run left there may be much to read still.
    fn sum(&self) -> Result<String, TransferError> {
        loop {
            match self.sums.recv_timeout(Duration::from_millis(200)) {
                Ok(sum) => return sum.map_err(TransferError::Disk),
                Err(RecvTimeoutError::Timeout) if interrupt::heard().is_none() => {}
                Err(RecvTimeoutError::Timeout) => return Err(TransferError::Interrupted),
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(TransferError::Disk(io::Error::other(
                        "nobody sums it up any more",
                    )));
                }
            }
        }
    }

    /// What is there is not what it should be. The beginning may be of another day's file, or
    /// another server's: that says nothing of this one.
    fn not_it(&mut self, why: String) -> Result<TransferError, Failed> {
        if std::mem::take(&mut self.resumed) {
            self.begin_anew()?;
            return Ok(TransferError::Passing(
                "what an earlier run had left of it did not fit".to_owned(),
            ));
        }
        let kept = with_ending(self.wanted.to, REJECTED);
        let _ = lock(&self.part).forget();
        Err(Failed::Is(match self.on.rename(&self.path, &kept) {
            Ok(()) => FetchError::Rejected {
                url: public_address(self.wanted.url).into_owned(),
                why,
                kept,
            },
            Err(source) => FetchError::Write { path: kept, source },
        }))
    }

    fn begin_anew(&mut self) -> Result<(), Failed> {
        self.resumed = false;
        lock(&self.part)
            .begin_anew()
            .map_err(|e| Failed::By(TransferError::Disk(e)))
    }
}

/// How long to wait behind so many failures: twice as long each time, and never as long as others
/// who failed together with us.
fn pause(failures: u32) -> Duration {
    let chance = RandomState::new().hash_one(failures) % 500;
    Duration::from_millis(1000 + chance) * (1 << (failures - 1))
}

/// Waits, as long as nobody tells us to stop.
fn sleep(time: Duration) -> Result<(), TransferError> {
    let began = Instant::now();
    while let Some(left) = time.checked_sub(began.elapsed()) {
        if interrupt::heard().is_some() {
            return Err(TransferError::Interrupted);
        }
        thread::sleep(left.min(Duration::from_millis(100)));
    }
    Ok(())
}

fn fetch_error(url: &str, trouble: TransferError) -> FetchError {
    let url = public_address(url).into_owned();
    let why = match trouble {
        TransferError::Unreachable(why) => return FetchError::Unreachable { url, why },
        TransferError::Disk(e) => e.to_string(),
        TransferError::Passing(why) | TransferError::Final(why) | TransferError::NotThere(why) => {
            why
        }
        TransferError::Later(why, wait) => {
            format!("{why}, and asks to come again in {} s", wait.as_secs())
        }
        TransferError::NoSuchPart => "the server has no such part of it".to_owned(),
        TransferError::Changed => "the file changes on the server while it is fetched".to_owned(),
        TransferError::TooLong => "it is longer than it should be".to_owned(),
        TransferError::Interrupted => "interrupted".to_owned(),
    };
    FetchError::Network { url, why }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpusetup_database::sum::sha256;
    use std::io::{BufRead, BufReader, Write};
    use std::net::TcpListener;

    const BODY: &[u8] = b"the whole of the file";

    /// A server that answers one request after the other; the address, and the ranges that were
    /// asked for.
    fn server(answers: Vec<Vec<u8>>) -> (String, std::thread::JoinHandle<Vec<String>>) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}/file", listener.local_addr().expect("bound"));
        let asked = std::thread::spawn(move || {
            let mut ranges = Vec::new();
            for answer in answers {
                let (mut stream, _) = listener.accept().expect("a client");
                let lines = BufReader::new(stream.try_clone().expect("cloned")).lines();
                let head: Vec<String> = lines
                    .map_while(Result::ok)
                    .take_while(|l| !l.is_empty())
                    .collect();
                let range = head
                    .iter()
                    .find_map(|l| l.strip_prefix("range: ").map(str::to_owned));
                ranges.push(range.unwrap_or_default());
                stream.write_all(&answer).expect("sent");
            }
            ranges
        });
        (url, asked)
    }

    fn answer(status: &str, headers: &str, body: &[u8]) -> Vec<u8> {
        let head = format!("HTTP/1.1 {status}\r\nConnection: close\r\n{headers}\r\n");
        [head.as_bytes(), body].concat()
    }

    fn whole(length: usize, body: &[u8]) -> Vec<u8> {
        answer("200 OK", &format!("Content-Length: {length}\r\n"), body)
    }

    fn get(
        url: &str,
        sum: &str,
        size: Option<u64>,
    ) -> (Result<(), FetchError>, System, tempfile::TempDir) {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let on = System::at(dir.path());
        let to = Path::new("/cache/ab/file");
        let done = fetch(
            &on,
            &FetchRequest {
                url,
                sha256: sum,
                size,
                to,
            },
            &Sources::default(),
            &mut |_| {},
            None,
        );
        (done, on, dir)
    }

    #[test]
    fn a_broken_transfer_goes_on_where_it_broke() {
        let rest = answer(
            "206 Partial Content",
            "Content-Range: bytes 9-20/21\r\nContent-Length: 12\r\n",
            &BODY[9..],
        );
        let (url, asked) = server(vec![whole(21, &BODY[..9]), rest]);
        let (done, on, _dir) = get(&url, &sha256(BODY), Some(21));
        done.expect("it came");
        assert_eq!(on.read("/cache/ab/file").expect("there"), BODY);
        assert_eq!(asked.join().expect("no panic"), ["", "bytes=9-"]);
        assert_eq!(
            on.list("/cache/ab").expect("listed"),
            ["file", "file.verified"]
        );
    }

    #[test]
    fn a_server_that_cannot_continue_starts_over() {
        let (url, _asked) = server(vec![whole(21, &BODY[..9]), whole(21, BODY)]);
        let (done, on, _dir) = get(&url, &sha256(BODY), Some(21));
        done.expect("it came");
        assert_eq!(on.read("/cache/ab/file").expect("there"), BODY);
    }

    #[test]
    fn what_is_not_the_file_is_kept_aside() {
        let (url, _asked) = server(vec![whole(21, b"<html>log in</html>..")]);
        let (done, on, _dir) = get(&url, &sha256(BODY), Some(21));
        assert!(matches!(done, Err(FetchError::Rejected { .. })), "{done:?}");
        assert_eq!(on.list("/cache/ab").expect("listed"), ["file.rejected"]);
        let (url, _asked) = server(vec![answer("200 OK", "", &[b'x'; 99])]);
        let (done, _on, _dir) = get(&url, &sha256(BODY), Some(21));
        assert!(
            matches!(done, Err(FetchError::Rejected { .. })),
            "an endless body: {done:?}"
        );
    }

    #[test]
    fn a_file_of_unknown_size_has_a_bound() {
        let bounded = |answers, most| {
            let (url, _asked) = server(answers);
            let dir = tempfile::tempdir().expect("a temporary directory");
            let on = System::at(dir.path());
            let wanted = FetchRequest {
                url: &url,
                sha256: &sha256(BODY),
                size: None,
                to: Path::new("/cache/ab/file"),
            };
            let length = Length { size: None, most };
            let done =
                fetch_of_length(&on, &wanted, length, &Sources::default(), &mut |_| {}, None);
            (
                done.map_err(|e| e.to_string()),
                on.list("/cache/ab").expect("listed"),
            )
        };
        let endless = || answer("200 OK", "", &[b'x'; 9999]);
        let (done, left) = bounded(vec![endless()], 5000);
        assert!(
            done.as_ref().is_err_and(|e| e.contains("longer than")),
            "{done:?}"
        );
        assert_eq!(left, [""; 0], "its part is removed");
        let (done, left) = bounded(vec![whole(9999, BODY)], 5000);
        assert!(
            done.as_ref().is_err_and(|e| e.contains("longer than")),
            "as the server announces: {done:?}"
        );
        assert_eq!(left, [""; 0]);
        bounded(vec![answer("200 OK", "", BODY)], BODY.len() as u64)
            .0
            .expect("as long as it may be");
    }

    #[test]
    fn no_file_is_without_a_bound() {
        let of = |name: &str| {
            FetchRequest {
                url: "",
                sha256: "",
                size: None,
                to: Path::new(name),
            }
            .length()
        };
        assert_eq!(
            of("/c/NVIDIA-Linux-x86_64-580.95.05.run"),
            Length {
                size: None,
                most: 2 << 30
            }
        );
        assert!(
            of("/c/cuda_12.8.1_570.124.06_linux.run").most
                > of("/c/cudnn-linux-x86_64-9.tar.xz").most
        );
        let known = FetchRequest {
            url: "",
            sha256: "",
            size: Some(7),
            to: Path::new("/c/x"),
        }
        .length();
        assert_eq!(
            known,
            Length {
                size: Some(7),
                most: 7
            }
        );
    }

    #[test]
    fn what_will_not_pass_is_not_tried_again() {
        let (url, asked) = server(vec![answer("404 Not Found", "Content-Length: 0\r\n", b"")]);
        let (done, _on, _dir) = get(&url, &sha256(BODY), None);
        assert!(matches!(done, Err(FetchError::Network { .. })), "{done:?}");
        assert_eq!(asked.join().expect("no panic").len(), 1);
    }

    #[test]
    fn a_stale_beginning_does_not_condemn_a_good_file() {
        let rest = answer(
            "206 Partial Content",
            "Content-Range: bytes 9-20/21\r\nContent-Length: 12\r\n",
            &BODY[9..],
        );
        let (url, asked) = server(vec![rest, whole(21, BODY)]);
        let dir = tempfile::tempdir().expect("a temporary directory");
        let on = System::at(dir.path());
        on.make_directories("/cache/ab", 0o700).expect("made");
        on.write("/cache/ab/file.part", b"yesterday", 0o600)
            .expect("written");
        let wanted = FetchRequest {
            url: &url,
            sha256: &sha256(BODY),
            size: Some(21),
            to: Path::new("/cache/ab/file"),
        };
        fetch(&on, &wanted, &Sources::default(), &mut |_| {}, None).expect("it came");
        assert_eq!(asked.join().expect("no panic"), ["bytes=9-", ""]);
        assert_eq!(
            on.list("/cache/ab").expect("listed"),
            ["file", "file.verified"]
        );
    }
}
