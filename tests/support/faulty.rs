//! A server of one file that does to every answer what it is told to. It is a web server, with TLS
//! or without, a proxy where that is what goes wrong, and it keeps what it was asked.
#![allow(dead_code)] // each test program uses its part

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use std::fs;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// What goes wrong.
#[derive(Debug, Clone, PartialEq)]
pub enum Fault {
    /// Nothing.
    Nothing,
    /// The connection is closed after so many bytes of the file.
    Cut(usize),
    /// The same, of the first answer only.
    CutOnce(usize),
    /// After so many bytes nothing more is said, and the connection stays.
    Stall(usize),
    /// So many bytes come, ten times a second, over each connection.
    Slow(usize),
    /// This status, and no file.
    Status(&'static str),
    /// The same, with a header.
    StatusWith(&'static str, String),
    /// The file ends so many bytes too early, and the server says that it is whole.
    Short(usize),
    /// So many bytes are behind its end.
    Long(usize),
    /// A byte of it is another.
    Flipped(usize),
    /// It is another state of the file, and the server says so.
    Tagged(&'static str),
    /// The same, but the server resumes it for a client that has the beginning of another.
    TaggedBlindly(&'static str),
    /// The server says that it is compressed.
    Encoded,
    /// The server knows no ranges.
    Whole,
    /// Nobody says how long it is, and it has no end.
    Endless,
    /// It is elsewhere.
    Redirect(String),
    /// It is elsewhere for whoever asks for anything but this path.
    RedirectTo(String),
    /// Only who logs in so gets it: the header's name and value.
    Login(&'static str, String),
    /// It is a proxy, with a login where there is one.
    Proxy(Option<String>),
}

/// The server, for as long as the process lives.
pub struct Faulty {
    /// The file's address.
    pub url: String,
    faults: Arc<Mutex<Vec<Fault>>>,
    asked: Arc<Mutex<Vec<String>>>,
}

/// With which certificate a server seals what it says: the chain and the key, PEM.
pub struct Seal<'a> {
    pub certificate: &'a Path,
    pub key: &'a Path,
}

impl Faulty {
    /// Serves a file.
    pub fn of(file: &Path, fault: Fault) -> Self {
        Self::serve(fs::read(file).expect("a file"), vec![fault], None)
    }

    /// Serves these bytes: the first answer with the first fault, and so on; the last fault stays.
    pub fn serve(body: Vec<u8>, faults: Vec<Fault>, seal: Option<Seal>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let scheme = if seal.is_some() { "https" } else { "http" };
        let url = format!("{scheme}://{}/file", listener.local_addr().expect("bound"));
        let sealed = seal.map(|seal| {
            let chain = CertificateDer::pem_file_iter(seal.certificate).expect("a certificate");
            let chain = chain.collect::<Result<Vec<_>, _>>().expect("PEM");
            let key = PrivateKeyDer::from_pem_file(seal.key).expect("a key");
            let provider = Arc::new(rustls::crypto::ring::default_provider());
            let config =
                ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
            let config = config
                .expect("versions")
                .with_no_client_auth()
                .with_single_cert(chain, key);
            Arc::new(config.expect("they belong together"))
        });
        let (faults, asked) = (
            Arc::new(Mutex::new(faults)),
            Arc::new(Mutex::new(Vec::new())),
        );
        let server = Self {
            url,
            faults: Arc::clone(&faults),
            asked: Arc::clone(&asked),
        };
        let body = Arc::new(body);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (body, faults, asked) =
                    (Arc::clone(&body), Arc::clone(&faults), Arc::clone(&asked));
                let sealed = sealed.clone();
                std::thread::spawn(move || {
                    let next = || {
                        let mut faults = faults.lock().expect("no panic beside");
                        match &faults[..] {
                            [Fault::CutOnce(at)] => {
                                let cut = Fault::Cut(*at);
                                faults[0] = Fault::Nothing;
                                cut
                            }
                            [only] => only.clone(),
                            _ => faults.remove(0),
                        }
                    };
                    // Whoever asked may have gone away.
                    let _ = match sealed {
                        None => talk(stream, &body, &next, &asked),
                        Some(config) => ServerConnection::new(config)
                            .map_err(io::Error::other)
                            .and_then(|tls| {
                                talk(StreamOwned::new(tls, stream), &body, &next, &asked)
                            }),
                    };
                });
            }
        });
        server
    }

    /// From now on this goes wrong.
    pub fn set(&self, fault: Fault) {
        *self.faults.lock().expect("no panic beside") = vec![fault];
    }

    /// What it was asked, each time: the request's line and its headers, in small letters.
    pub fn asked(&self) -> Vec<String> {
        self.asked.lock().expect("no panic beside").clone()
    }

    /// The parts that it was asked for.
    pub fn ranges(&self) -> Vec<String> {
        let range = |head: &String| {
            head.lines()
                .find_map(|l| l.strip_prefix("range: bytes=").map(str::to_owned))
        };
        self.asked()
            .iter()
            .map(|head| range(head).unwrap_or_default())
            .collect()
    }
}

/// A SOCKS 5 proxy that takes whoever logs in so; its address, and how many it has led through.
pub fn socks(user: &'static str, password: &'static str) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound").to_string();
    let led = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&led);
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let count = Arc::clone(&count);
            std::thread::spawn(move || lead(stream, user, password, &count));
        }
    });
    (address, led)
}

/// RFC 1928, with the login of RFC 1929.
fn lead(mut stream: TcpStream, user: &str, password: &str, count: &AtomicUsize) -> io::Result<()> {
    fn text(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
        let mut length = [0];
        stream.read_exact(&mut length)?;
        let mut text = vec![0; length[0].into()];
        stream.read_exact(&mut text)?;
        Ok(text)
    }
    let mut version = [0];
    stream.read_exact(&mut version)?;
    let offers_login = text(&mut stream)?.contains(&2);
    stream.write_all(&[5, if offers_login { 2 } else { 0xff }])?;
    stream.read_exact(&mut version)?;
    let is_known =
        text(&mut stream)? == user.as_bytes() && text(&mut stream)? == password.as_bytes();
    stream.write_all(&[1, u8::from(!is_known)])?;
    let mut request = [0; 4];
    stream.read_exact(&mut request)?;
    let host = match request {
        [5, 1, 0, 1] => {
            let mut address = [0; 4];
            stream.read_exact(&mut address)?;
            std::net::Ipv4Addr::from(address).to_string()
        }
        [5, 1, 0, 3] => String::from_utf8_lossy(&text(&mut stream)?).into_owned(),
        _ => return Err(io::ErrorKind::Unsupported.into()),
    };
    let mut port = [0; 2];
    stream.read_exact(&mut port)?;
    let to = TcpStream::connect((host, u16::from_be_bytes(port)))?;
    count.fetch_add(1, Ordering::Relaxed);
    stream.write_all(&[5, 0, 0, 1, 0, 0, 0, 0, 0, 0])?;
    tunnel(stream, to)
}

/// A client's connection.
trait Stream: Read + Write {
    /// The connection itself, where nothing seals it.
    fn plain(&self) -> Option<TcpStream>;
}

impl Stream for TcpStream {
    fn plain(&self) -> Option<TcpStream> {
        self.try_clone().ok()
    }
}

impl Stream for StreamOwned<ServerConnection, TcpStream> {
    fn plain(&self) -> Option<TcpStream> {
        None
    }
}

/// Reads the head of a request: what comes behind it is the next one's.
fn head_of(stream: &mut impl Read) -> io::Result<String> {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte)?;
        head.push(byte[0]);
    }
    Ok(String::from_utf8_lossy(&head).to_ascii_lowercase())
}

/// Answers until the client goes away, or an answer does not leave the connection whole.
fn talk(
    mut stream: impl Stream,
    body: &[u8],
    fault: &dyn Fn() -> Fault,
    asked: &Mutex<Vec<String>>,
) -> io::Result<()> {
    loop {
        let head = head_of(&mut stream)?;
        asked.lock().expect("no panic beside").push(head.clone());
        if !answer(&mut stream, &head, body, fault())? {
            return stream.flush();
        }
        stream.flush()?;
    }
}

const EMPTY: &str = "Content-Length: 0\r\n\r\n";

/// Whether the connection can be used again.
fn answer(stream: &mut impl Stream, head: &str, body: &[u8], fault: Fault) -> io::Result<bool> {
    let has = |name: &str, value: &str| {
        head.lines().any(|l| {
            l.strip_prefix(&format!("{name}: "))
                .is_some_and(|v| v.eq_ignore_ascii_case(value))
        })
    };
    let path = head.split(' ').nth(1).unwrap_or_default();
    match &fault {
        Fault::Status(status) => {
            return write!(stream, "HTTP/1.1 {status}\r\n{EMPTY}").map(|()| true);
        }
        Fault::StatusWith(status, header) => {
            return write!(stream, "HTTP/1.1 {status}\r\n{header}\r\n{EMPTY}").map(|()| true);
        }
        Fault::Redirect(to) => {
            return write!(stream, "HTTP/1.1 302 Found\r\nLocation: {to}\r\n{EMPTY}")
                .map(|()| true);
        }
        Fault::RedirectTo(to) if path != *to => {
            return write!(stream, "HTTP/1.1 302 Found\r\nLocation: {to}\r\n{EMPTY}")
                .map(|()| true);
        }
        Fault::Login(name, value) if !has(name, value) => {
            return write!(
                stream,
                "HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic\r\n{EMPTY}"
            )
            .map(|()| true);
        }
        Fault::Proxy(Some(login)) if !has("proxy-authorization", login) => {
            let demands =
                "HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic\r\n";
            return write!(stream, "{demands}{EMPTY}").map(|()| true);
        }
        Fault::Proxy(_) if head.starts_with("connect ") => {
            let to = TcpStream::connect(path)?;
            write!(stream, "HTTP/1.1 200 Connected\r\n\r\n")?;
            return tunnel(stream.plain().expect("proxies speak plainly"), to).map(|()| false);
        }
        Fault::Endless => {
            write!(stream, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")?;
            loop {
                stream.write_all(body)?;
            }
        }
        _ => {}
    }
    // A copy only where it is another: it may be large, and asked for in many parts.
    match &fault {
        Fault::Short(missing) => serve(stream, head, &body[..body.len() - missing], &fault),
        Fault::Long(more) => serve(stream, head, &[body, &vec![b'x'; *more]].concat(), &fault),
        Fault::Flipped(at) => {
            let mut body = body.to_vec();
            body[*at] ^= 1;
            serve(stream, head, &body, &fault)
        }
        _ => serve(stream, head, body, &fault),
    }
}

/// Passes on what comes from either side.
fn tunnel(one: TcpStream, other: TcpStream) -> io::Result<()> {
    let (mut back_from, mut back_to) = (other.try_clone()?, one.try_clone()?);
    std::thread::spawn(move || io::copy(&mut back_from, &mut back_to));
    let (mut from, mut to) = (one, other);
    io::copy(&mut from, &mut to)?;
    to.shutdown(std::net::Shutdown::Write)
}

/// Sends the file, or the part of it that is asked for.
fn serve(stream: &mut impl Stream, head: &str, body: &[u8], fault: &Fault) -> io::Result<bool> {
    let header = |name: &str| {
        head.lines()
            .find_map(|l| l.strip_prefix(&format!("{name}: ")).map(str::to_owned))
    };
    let tag = match fault {
        Fault::Tagged(tag) | Fault::TaggedBlindly(tag) => tag,
        _ => "first",
    };
    let all = body.len();
    let same = header("if-range").is_none_or(|known| known == format!("\"{tag}\""));
    let range = header("range").filter(|_| same || matches!(fault, Fault::TaggedBlindly(_)));
    let range = range.filter(|_| *fault != Fault::Whole);
    let (from, to) = match range
        .as_deref()
        .and_then(|r| r.strip_prefix("bytes=")?.split_once('-'))
    {
        None => (0, all),
        Some((from, to)) => (
            from.parse().unwrap_or(0),
            to.parse().map_or(all, |to: usize| (to + 1).min(all)),
        ),
    };
    if from >= all {
        write!(stream, "HTTP/1.1 416 Range Not Satisfiable\r\n{EMPTY}")?;
        return Ok(true);
    }
    let part = &body[from..to];
    let mut headers = format!("ETag: \"{tag}\"\r\nContent-Length: {}\r\n", part.len());
    if *fault != Fault::Whole {
        headers += "Accept-Ranges: bytes\r\n";
    }
    if *fault == Fault::Encoded {
        headers += "Content-Encoding: gzip\r\n";
    }
    let status = if range.is_some() {
        headers += &format!("Content-Range: bytes {from}-{}/{all}\r\n", to - 1);
        "206 Partial Content"
    } else {
        "200 OK"
    };
    write!(stream, "HTTP/1.1 {status}\r\n{headers}\r\n")?;
    match fault {
        Fault::Cut(at) => stream
            .write_all(&part[..(*at).min(part.len())])
            .map(|()| false),
        Fault::Stall(at) => {
            stream.write_all(&part[..(*at).min(part.len())])?;
            stream.flush()?;
            std::thread::sleep(Duration::from_secs(600));
            Ok(false)
        }
        Fault::Slow(bytes) => {
            let began = Instant::now();
            for (n, chunk) in part.chunks(*bytes).enumerate() {
                // As long as these bytes take, a part of a tenth of a second where they are fewer.
                let sent = n * bytes + chunk.len();
                let due = Duration::from_secs_f64(sent as f64 / (bytes * 10) as f64);
                std::thread::sleep(due.saturating_sub(began.elapsed()));
                stream.write_all(chunk)?;
            }
            Ok(true)
        }
        _ => stream.write_all(part).map(|()| true),
    }
}
