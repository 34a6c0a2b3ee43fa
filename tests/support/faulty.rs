//! A server of one file that does to every answer what it is told to.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What goes wrong.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Fault {
    /// Nothing.
    Nothing,
    /// The connection is closed after so many bytes of the file.
    Cut(usize),
    /// The same, of the first answer only.
    CutOnce(usize),
    /// After so many bytes nothing more is said, and the connection stays.
    Stall(usize),
    /// So many bytes come, ten times a second.
    Slow(usize),
    /// This status, and no file.
    Status(&'static str),
    /// The file ends so many bytes too early, and the server says that it is whole.
    Short(usize),
    /// So many bytes are behind its end.
    Long(usize),
    /// A byte of it is another.
    Flipped(usize),
}

/// The server, for as long as the process lives.
pub struct Faulty {
    /// The file's address.
    pub url: String,
    fault: Arc<Mutex<Fault>>,
}

impl Faulty {
    /// Serves a file.
    pub fn of(file: &Path, fault: Fault) -> Self {
        let (body, listener) = (fs::read(file).expect("a file"), TcpListener::bind("127.0.0.1:0").expect("a port"));
        let url = format!("http://{}/file", listener.local_addr().expect("bound"));
        let fault = Arc::new(Mutex::new(fault));
        let shared = Arc::clone(&fault);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (mut body, shared) = (body.clone(), Arc::clone(&shared));
                std::thread::spawn(move || {
                    let mut fault = shared.lock().expect("no panic beside");
                    let now = *fault;
                    if matches!(now, Fault::CutOnce(_)) {
                        *fault = Fault::Nothing;
                    }
                    drop(fault);
                    // Whoever asked may have gone away.
                    let _ = answer(stream, &mut body, now);
                });
            }
        });
        Self { url, fault }
    }

    /// From now on this goes wrong.
    pub fn set(&self, fault: Fault) {
        *self.fault.lock().expect("no panic beside") = fault;
    }
}

fn answer(mut stream: TcpStream, body: &mut Vec<u8>, fault: Fault) -> std::io::Result<()> {
    let lines = BufReader::new(stream.try_clone()?).lines();
    let head: Vec<String> = lines.map_while(Result::ok).take_while(|l| !l.is_empty()).collect();
    match fault {
        Fault::Status(status) => return write!(stream, "HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n"),
        Fault::Short(missing) => body.truncate(body.len() - missing),
        Fault::Long(more) => body.extend(vec![b'x'; more]),
        Fault::Flipped(at) => body[at] ^= 1,
        _ => {}
    }
    let all = body.len();
    let range = head.iter().find_map(|l| l.to_ascii_lowercase().strip_prefix("range: bytes=").map(str::to_owned));
    let from: usize = range.and_then(|r| r.strip_suffix('-')?.parse().ok()).unwrap_or(0);
    if from >= all {
        return write!(stream, "HTTP/1.1 416 Range Not Satisfiable\r\nContent-Length: 0\r\n\r\n");
    }
    let status = if from == 0 { "200 OK" } else { "206 Partial Content" };
    let part = &body[from..];
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Range: bytes {from}-{}/{all}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        all - 1,
        part.len()
    )?;
    match fault {
        Fault::Cut(at) | Fault::CutOnce(at) => stream.write_all(&part[..at.min(part.len())]),
        Fault::Stall(at) => {
            stream.write_all(&part[..at.min(part.len())])?;
            std::thread::sleep(Duration::from_secs(600));
            Ok(())
        }
        Fault::Slow(bytes) => part.chunks(bytes).try_for_each(|chunk| {
            std::thread::sleep(Duration::from_millis(100));
            stream.write_all(chunk)
        }),
        _ => stream.write_all(part),
    }
}
