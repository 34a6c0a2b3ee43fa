//! Downloads: into the cache, verified while the bytes arrive. Under its name in the cache there is never anything that
//! was not verified.

mod arriving;
mod sources;

pub use arriving::{Arrived, Arriving};
pub use sources::{Login, Mirrors, NoMirror, Sources};

use crate::cache::{self, PART, REJECTED, with_ending};
use crate::sum::hex;
use crate::system::{System, chain, interrupt};
use reqwest::StatusCode;
use reqwest::blocking::{Client, Response};
use reqwest::header::{CONTENT_RANGE, RANGE};
use sha2::{Digest, Sha256};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

/// How often a transfer that broke is taken up again.
const ATTEMPTS: u32 = 4;

/// How long a server may say nothing.
const SILENCE: Duration = Duration::from_secs(60);

/// Why a file is not there.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// The server or the network; it may work later.
    #[error("cannot download {url}: {why}")]
    Network {
        /// From where.
        url: String,
        /// Why.
        why: String,
    },
    /// Nobody can be reached there, or nobody at all: the network of a machine that has just booted.
    #[error("cannot reach {url}: {why}")]
    Unreachable {
        /// From where.
        url: String,
        /// Why.
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
    /// The cache cannot be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// What to fetch.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'a> {
    /// From where.
    pub url: &'a str,
    /// Its sum, in lower-case hexadecimal.
    pub sha256: &'a str,
    /// Its size in bytes, where known.
    pub size: Option<u64>,
    /// Where it goes on the host.
    pub to: &'a Path,
}

/// Whether the verified file is there already.
pub fn is_cached(on: &System, wanted: &Wanted) -> bool {
    cache::sum(on, wanted.to, wanted.sha256).is_ok_and(|sum| sum == wanted.sha256)
}

/// The bytes of something small whose sum nobody knows beforehand, at most `limit` of them: its signature is checked
/// instead. None where the server has no such thing.
pub fn fetch_small(url: &str, limit: u64) -> Result<Option<Vec<u8>>, FetchError> {
    let network = |why: String| FetchError::Network { url: url.to_owned(), why };
    let response = client().and_then(|c| c.get(url).send()).map_err(|e| network(chain(&e)))?;
    match response.status() {
        StatusCode::NOT_FOUND | StatusCode::GONE => return Ok(None),
        s if !s.is_success() => return Err(network(format!("the server answers {s}"))),
        _ => {}
    }
    let mut bytes = Vec::new();
    response.take(limit + 1).read_to_end(&mut bytes).map_err(|e| network(chain(&e)))?;
    if bytes.len() as u64 > limit {
        return Err(network(format!("it is longer than {limit} bytes")));
    }
    Ok(Some(bytes))
}

fn client() -> reqwest::Result<Client> {
    Client::builder()
        .connect_timeout(Duration::from_secs(30))
        // For each read, not for the whole: a server that has fallen silent is asked again.
        .timeout(SILENCE)
        .build()
}

/// Fetches it; `progress` is told the bytes that are there.
pub fn fetch(on: &System, wanted: &Wanted, progress: &mut dyn FnMut(u64)) -> Result<(), FetchError> {
    let folder = wanted.to.parent().unwrap_or(Path::new("/"));
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| FetchError::Write { path, source }
    };
    // Private: what is run from there must not be anybody else's to change.
    on.make_directories(folder, 0o700).map_err(failed(folder))?;
    let target = on.locate(wanted.to).map_err(failed(wanted.to))?;
    let part = with_ending(&target, PART);
    let network = |why: String| FetchError::Network { url: wanted.url.to_owned(), why };
    let client = client().map_err(|e| network(chain(&e)))?;
    let unreachable = |why: String| FetchError::Unreachable { url: wanted.url.to_owned(), why };
    let (mut last, mut resumed) = (network(String::new()), part.exists());
    for attempt in 0..ATTEMPTS {
        if attempt > 0 {
            std::thread::sleep(Duration::from_secs(1 << attempt));
            if interrupt::heard().is_some() {
                return Err(network("interrupted".to_owned()));
            }
        }
        match watched(&client, wanted, &part, progress) {
            Ok(sum) if sum == wanted.sha256 => {
                fs::rename(&part, &target).map_err(failed(wanted.to))?;
                // A disk that has no room for the note costs a reading of the file, and no more.
                let _ = cache::verified(on, wanted.to, &sum);
                return Ok(());
            }
            // The beginning may be of another day's file, or another server's: that says nothing of this one.
            Ok(_) | Err(Broken::TooLong) if resumed => {
                resumed = false;
                fs::remove_file(&part).map_err(failed(&part))?;
                last = network("what an earlier run had left of it did not fit".to_owned());
            }
            Ok(sum) => {
                let why = format!("its SHA-256 is {sum}, not {}", wanted.sha256);
                return Err(reject(wanted, &part, &target, why));
            }
            Err(Broken::TooLong) => {
                let why = format!("it is longer than {} bytes", wanted.size.unwrap_or_default());
                return Err(reject(wanted, &part, &target, why));
            }
            Err(Broken::Final(why)) => return Err(network(why)),
            Err(Broken::Passing(why)) => last = network(why),
            Err(Broken::Unreachable(why)) => last = unreachable(why),
            Err(Broken::Disk(source)) => return Err(FetchError::Write { path: wanted.to.to_owned(), source }),
        }
    }
    Err(last)
}

enum Broken {
    /// Nobody answers there.
    Unreachable(String),
    /// It may pass.
    Passing(String),
    /// It will not.
    Final(String),
    /// More came than was published.
    TooLong,
    /// The disk.
    Disk(io::Error),
}

/// What is heard of an attempt.
enum Heard {
    Bytes(u64),
    Ended(Result<String, Broken>),
}

/// One attempt, given up as soon as gpusetup is told to stop: a server that says nothing would have us wait for a minute.
fn watched(client: &Client, wanted: &Wanted, part: &Path, progress: &mut dyn FnMut(u64)) -> Result<String, Broken> {
    let (tell, told) = mpsc::channel();
    let (client, url, size, part) = (client.clone(), wanted.url.to_owned(), wanted.size, part.to_owned());
    std::thread::spawn(move || {
        // Nobody listens any more once it was given up.
        let ended = transfer(&client, &url, size, &part, &mut |have| drop(tell.send(Heard::Bytes(have))));
        drop(tell.send(Heard::Ended(ended)));
    });
    loop {
        match told.recv_timeout(Duration::from_millis(200)) {
            Ok(Heard::Bytes(have)) => progress(have),
            Ok(Heard::Ended(ended)) => return ended,
            Err(RecvTimeoutError::Timeout) if interrupt::heard().is_none() => {}
            Err(_) => return Err(Broken::Final("interrupted".to_owned())),
        }
    }
}

/// One attempt, from where the last one stopped; the sum of all bytes.
fn transfer(
    client: &Client,
    url: &str,
    size: Option<u64>,
    part: &Path,
    progress: &mut dyn FnMut(u64),
) -> Result<String, Broken> {
    let mut sum = Sha256::new();
    let mut have = 0;
    if let Ok(mut old) = File::open(part) {
        let mut block = vec![0; 1 << 17];
        loop {
            match old.read(&mut block).map_err(Broken::Disk)? {
                0 => break,
                n => sum.update(&block[..n]),
            }
            have = io::Seek::stream_position(&mut old).map_err(Broken::Disk)?;
        }
    }
    let mut request = client.get(url);
    if have > 0 {
        request = request.header(RANGE, format!("bytes={have}-"));
    }
    let response = request.send().map_err(|e| {
        let why = chain(&e);
        if e.is_connect() { Broken::Unreachable(why) } else { Broken::Passing(why) }
    })?;
    let continues = response.status() == StatusCode::PARTIAL_CONTENT && starts_at(&response, have);
    if !continues {
        (have, sum) = (0, Sha256::new());
    }
    match response.status() {
        s if s.is_success() => {}
        StatusCode::RANGE_NOT_SATISFIABLE => {
            // What is there is no beginning of it.
            fs::remove_file(part).map_err(Broken::Disk)?;
            return Err(Broken::Passing("the server has no such part".to_owned()));
        }
        s if s.is_server_error() || s == StatusCode::TOO_MANY_REQUESTS || s == StatusCode::REQUEST_TIMEOUT => {
            return Err(Broken::Passing(format!("the server answers {s}")));
        }
        s => return Err(Broken::Final(format!("the server answers {s}"))),
    }
    let mut out = OpenOptions::new()
        .create(true)
        .write(true)
        .truncate(!continues)
        .mode(0o600)
        .open(part)
        .map_err(Broken::Disk)?;
    if continues {
        io::Seek::seek(&mut out, io::SeekFrom::End(0)).map_err(Broken::Disk)?;
    }
    copy(response, &mut out, &mut sum, have, size, progress)?;
    out.sync_all().map_err(Broken::Disk)?;
    Ok(hex(&sum.finalize()))
}

fn copy(
    mut from: Response,
    out: &mut File,
    sum: &mut Sha256,
    mut have: u64,
    size: Option<u64>,
    progress: &mut dyn FnMut(u64),
) -> Result<(), Broken> {
    let mut block = vec![0; 1 << 17];
    loop {
        let n = match from.read(&mut block) {
            Ok(0) if size.is_some_and(|size| have < size) => {
                return Err(Broken::Passing("the connection was cut".to_owned()));
            }
            Ok(0) => return Ok(()),
            Ok(n) => n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(e) => return Err(Broken::Passing(chain(&e))),
        };
        have += n as u64;
        if interrupt::heard().is_some() {
            return Err(Broken::Final("interrupted".to_owned()));
        }
        if size.is_some_and(|size| have > size) {
            return Err(Broken::TooLong);
        }
        out.write_all(&block[..n]).map_err(Broken::Disk)?;
        sum.update(&block[..n]);
        progress(have);
    }
}

fn starts_at(response: &Response, at: u64) -> bool {
    let range = response.headers().get(CONTENT_RANGE).and_then(|v| v.to_str().ok());
    range.is_some_and(|r| r.starts_with(&format!("bytes {at}-")))
}

fn reject(wanted: &Wanted, part: &Path, target: &Path, why: String) -> FetchError {
    let kept = with_ending(target, REJECTED);
    match fs::rename(part, &kept) {
        Ok(()) => FetchError::Rejected { url: wanted.url.to_owned(), why, kept },
        Err(source) => FetchError::Write { path: kept, source },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sum::sha256;
    use std::io::{BufRead, BufReader};
    use std::net::TcpListener;

    const BODY: &[u8] = b"the whole of the file";

    /// A server that answers one request after the other; the address, and the ranges that were asked for.
    fn server(answers: Vec<Vec<u8>>) -> (String, std::thread::JoinHandle<Vec<String>>) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}/file", listener.local_addr().expect("bound"));
        let asked = std::thread::spawn(move || {
            let mut ranges = Vec::new();
            for answer in answers {
                let (mut stream, _) = listener.accept().expect("a client");
                let lines = BufReader::new(stream.try_clone().expect("cloned")).lines();
                let head: Vec<String> = lines.map_while(Result::ok).take_while(|l| !l.is_empty()).collect();
                let range = head.iter().find_map(|l| l.strip_prefix("range: ").map(str::to_owned));
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

    fn get(url: &str, sum: &str, size: Option<u64>) -> (Result<(), FetchError>, System, tempfile::TempDir) {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let on = System::at(dir.path());
        let to = Path::new("/cache/ab/file");
        let done = fetch(&on, &Wanted { url, sha256: sum, size, to }, &mut |_| {});
        (done, on, dir)
    }

    #[test]
    fn a_broken_transfer_goes_on_where_it_broke() {
        let rest = answer("206 Partial Content", "Content-Range: bytes 9-20/21\r\nContent-Length: 12\r\n", &BODY[9..]);
        let (url, asked) = server(vec![whole(21, &BODY[..9]), rest]);
        let (done, on, _dir) = get(&url, &sha256(BODY), Some(21));
        done.expect("it came");
        assert_eq!(on.read("/cache/ab/file").expect("there"), BODY);
        assert_eq!(asked.join().expect("no panic"), ["", "bytes=9-"]);
        assert_eq!(on.list("/cache/ab").expect("listed"), ["file", "file.verified"]);
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
        let (url, _asked) = server(vec![whole(99, &[b'x'; 99])]);
        let (done, _on, _dir) = get(&url, &sha256(BODY), Some(21));
        assert!(matches!(done, Err(FetchError::Rejected { .. })), "an endless body: {done:?}");
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
        let rest = answer("206 Partial Content", "Content-Range: bytes 9-20/21\r\nContent-Length: 12\r\n", &BODY[9..]);
        let (url, asked) = server(vec![rest, whole(21, BODY)]);
        let dir = tempfile::tempdir().expect("a temporary directory");
        let on = System::at(dir.path());
        on.make_directories("/cache/ab", 0o700).expect("made");
        on.write("/cache/ab/file.part", b"yesterday", 0o600).expect("written");
        let wanted = Wanted { url: &url, sha256: &sha256(BODY), size: Some(21), to: Path::new("/cache/ab/file") };
        fetch(&on, &wanted, &mut |_| {}).expect("it came");
        assert_eq!(asked.join().expect("no panic"), ["bytes=9-", ""]);
        assert_eq!(on.list("/cache/ab").expect("listed"), ["file", "file.verified"]);
    }
}
