//! How connections are made: to the first address of a server that answers, directly or through a
//! proxy. Errors on the way there are told apart from later ones.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use std::fmt;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};
use ureq::config::Config;
use ureq::http::Uri;
use ureq::unversioned::resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::{
    Buffers, ConnectProxyConnector, ConnectionDetails, Connector, Either, LazyBuffers, NextTimeout,
    RustlsConnector, SocksConnector, Transport,
};
use ureq::{Agent, Error, Proxy};

/// How long it may take to look a name up, and then to connect.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

/// How long one address of a server may take before the next is tried as well: on some hosts IPv6
/// leads nowhere.
const HEAD_START: Duration = Duration::from_millis(250);

/// An agent with this configuration.
pub(super) fn agent(config: Config, without_proxy: Config) -> Agent {
    let chain = ().chain(SocksConnector::default());
    let chain = chain
        .chain(ForwardConnector { without_proxy })
        .chain(ConnectProxyConnector::default());
    let chain = chain.chain(RaceConnector).chain(RustlsConnector::default());
    Agent::with_parts(
        config,
        Reaching(chain),
        Reaching(DefaultResolver::default()),
    )
}

/// An error before there was a connection.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub(super) struct NotReached(pub Error);

/// A resolver or connector whose errors are [`NotReached`].
#[derive(Debug)]
struct Reaching<T>(T);

fn not_reached(e: Error) -> Error {
    match e {
        // Of the connection to a proxy.
        Error::Other(why) if why.is::<NotReached>() => Error::Other(why),
        e => Error::Other(Box::new(NotReached(e))),
    }
}

impl<C: Connector> Connector for Reaching<C> {
    type Out = C::Out;

    fn connect(
        &self,
        details: &ConnectionDetails,
        chained: Option<()>,
    ) -> Result<Option<Self::Out>, Error> {
        self.0.connect(details, chained).map_err(not_reached)
    }
}

impl<R: Resolver> Resolver for Reaching<R> {
    fn resolve(
        &self,
        uri: &Uri,
        config: &Config,
        timeout: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, Error> {
        self.0.resolve(uri, config, timeout).map_err(not_reached)
    }
}

/// Connects to the first address that answers.
#[derive(Debug)]
struct RaceConnector;

impl<In: Transport> Connector<In> for RaceConnector {
    type Out = Either<In, Socket>;

    fn connect(
        &self,
        details: &ConnectionDetails,
        chained: Option<In>,
    ) -> Result<Option<Self::Out>, Error> {
        if let Some(there) = chained {
            return Ok(Some(Either::A(there)));
        }
        let limit = details
            .timeout
            .not_zero()
            .map_or(CONNECT_TIMEOUT, |limit| *limit);
        let stream = first_of(&details.addrs, limit)?;
        stream.set_nodelay(true)?;
        let buffers = LazyBuffers::new(
            details.config.input_buffer_size(),
            details.config.output_buffer_size(),
        );
        let stream = Arc::new(stream);
        let handle: Weak<TcpStream> = Arc::downgrade(&stream);
        (details.register_shutdown)(handle)?;
        Ok(Some(Either::B(Socket {
            stream,
            buffers,
            patience: None,
        })))
    }
}

/// The first connection of those that are tried.
fn first_of(addresses: &[SocketAddr], limit: Duration) -> io::Result<TcpStream> {
    if let [only] = addresses {
        return TcpStream::connect_timeout(only, limit);
    }
    let began = Instant::now();
    let (tell, told) = mpsc::channel();
    let (mut left, mut trying) = (addresses.iter(), 0);
    let mut failed = io::Error::from(io::ErrorKind::AddrNotAvailable);
    loop {
        let next = left.next().copied();
        if let Some(address) = next {
            let tell = tell.clone();
            // The receiver is gone if another address was faster.
            thread::spawn(move || tell.send(TcpStream::connect_timeout(&address, limit)).ok());
            trying += 1;
        } else if trying == 0 {
            return Err(failed);
        }
        let patience = if left.len() > 0 {
            HEAD_START
        } else {
            limit.saturating_sub(began.elapsed())
        };
        match told.recv_timeout(patience) {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(e)) => (failed, trying) = (e, trying - 1),
            Err(RecvTimeoutError::Timeout) if left.len() > 0 => {}
            Err(_) => return Err(io::ErrorKind::TimedOut.into()),
        }
    }
}

/// A connection that its agent can shut down while another thread reads from it.
#[derive(Debug)]
struct Socket {
    stream: Arc<TcpStream>,
    buffers: LazyBuffers,
    /// The read timeout that is set.
    patience: Option<Duration>,
}

impl Transport for Socket {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        let timeout = timeout.for_write();
        self.stream
            .set_write_timeout(timeout.not_zero().map(|t| *t))?;
        (&*self.stream)
            .write_all(&self.buffers.output()[..amount])
            .map_err(|e| in_time(e, timeout))
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        let timeout = timeout.for_read();
        let patience = timeout.not_zero().map(|t| *t);
        if patience != self.patience {
            self.stream.set_read_timeout(patience)?;
            self.patience = patience;
        }
        let into = self.buffers.input_append_buf();
        let n = loop {
            match (&*self.stream).read(into) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                read => break read.map_err(|e| in_time(e, timeout))?,
            }
        };
        self.buffers.input_appended(n);
        Ok(n > 0)
    }

    fn is_open(&mut self) -> bool {
        // A server that sends more before the next request is not at its beginning.
        let nothing =
            |read: io::Result<usize>| read.is_err_and(|e| e.kind() == io::ErrorKind::WouldBlock);
        let is_idle =
            self.stream.set_nonblocking(true).is_ok() && nothing(self.stream.peek(&mut [0]));
        self.stream.set_nonblocking(false).is_ok() && is_idle
    }
}

/// The error of a read or a write.
fn in_time(e: io::Error, timeout: NextTimeout) -> Error {
    match e.kind() {
        // Linux reports an expired timeout as the former.
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Error::Timeout(timeout.reason),
        _ => Error::Io(e),
    }
}

/// Has HTTP proxies forward requests without TLS, as other clients do. ureq would ask for a tunnel,
/// which most proxies allow to port 443 only.
#[derive(Debug)]
struct ForwardConnector {
    without_proxy: Config,
}

impl<In: Transport> Connector<In> for ForwardConnector {
    type Out = Either<In, Forwarded>;

    fn connect(
        &self,
        details: &ConnectionDetails,
        chained: Option<In>,
    ) -> Result<Option<Self::Out>, Error> {
        if let Some(there) = chained {
            return Ok(Some(Either::A(there)));
        }
        let is_http = |uri: &Uri| matches!(uri.scheme_str(), Some("http" | "https"));
        let Some(proxy) = details
            .config
            .proxy()
            .filter(|p| !details.needs_tls() && is_http(p.uri()))
        else {
            return Ok(None);
        };
        let addresses =
            details
                .resolver
                .resolve(proxy.uri(), &self.without_proxy, details.timeout)?;
        let to_proxy = ConnectionDetails {
            uri: proxy.uri(),
            addrs: addresses,
            resolver: details.resolver,
            config: &self.without_proxy,
            request_level: details.request_level,
            now: details.now,
            timeout: details.timeout,
            current_time: Arc::clone(&details.current_time),
            run_connector: Arc::clone(&details.run_connector),
            register_shutdown: Arc::clone(&details.register_shutdown),
        };
        let wire = (details.run_connector)(&to_proxy)?;
        let authority = details
            .uri
            .authority()
            .map(|a| a.as_str())
            .unwrap_or_default();
        Ok(Some(Either::B(Forwarded {
            wire,
            before: format!("http://{authority}"),
            login: login(proxy),
        })))
    }
}

/// The header that logs in to a proxy.
fn login(proxy: &Proxy) -> Option<String> {
    let (user, password) = (proxy.username(), proxy.password());
    user.or(password)?;
    Some(format!(
        "Proxy-Authorization: {}\r\n",
        basic(user.unwrap_or_default(), password)
    ))
}

/// A login as a header has it.
pub(super) fn basic(user: &str, password: Option<&str>) -> String {
    format!(
        "Basic {}",
        BASE64_STANDARD.encode(format!("{user}:{}", password.unwrap_or_default()))
    )
}

/// A connection to a proxy that forwards requests.
struct Forwarded {
    wire: Box<dyn Transport>,
    before: String,
    login: Option<String>,
}

impl fmt::Debug for Forwarded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the login.
        f.debug_tuple("Forwarded").field(&self.wire).finish()
    }
}

impl Forwarded {
    /// The head of a request as a proxy takes it, with the whole address. Requests here have no
    /// body and small heads, so that each transmission is one head.
    fn head(&self, head: &[u8]) -> Option<Vec<u8>> {
        let space = head.iter().position(|b| *b == b' ')? + 1;
        let line = head.windows(2).position(|two| two == b"\r\n")? + 2;
        let login = self.login.as_deref().unwrap_or_default().as_bytes();
        Some(
            [
                &head[..space],
                self.before.as_bytes(),
                &head[space..line],
                login,
                &head[line..],
            ]
            .concat(),
        )
    }
}

impl Transport for Forwarded {
    fn buffers(&mut self) -> &mut dyn Buffers {
        self.wire.buffers()
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        let head = self.wire.buffers().output()[..amount].to_vec();
        let head = self.head(&head);
        let output = self.wire.buffers().output();
        let Some(head) = head.filter(|head| head.len() <= output.len()) else {
            return Err(io::Error::from(io::ErrorKind::InvalidInput).into());
        };
        output[..head.len()].copy_from_slice(&head);
        self.wire.transmit_output(head.len(), timeout)
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        self.wire.await_input(timeout)
    }

    fn is_open(&mut self) -> bool {
        self.wire.is_open()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn the_first_address_that_answers_is_taken() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let answers = listener.local_addr().expect("bound");
        let silent = {
            let closed = TcpListener::bind("127.0.0.1:0").expect("a port");
            closed.local_addr().expect("bound")
        };
        let limit = Duration::from_secs(5);
        for addresses in [
            &[answers][..],
            &[silent, answers],
            &[silent, silent, answers, silent],
        ] {
            let stream = first_of(addresses, limit).expect("one answers");
            assert_eq!(stream.peer_addr().expect("connected"), answers);
        }
        for addresses in [&[silent][..], &[silent, silent]] {
            let refused = first_of(addresses, limit).expect_err("nobody answers");
            assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
        }
        assert!(first_of(&[], limit).is_err());
    }

    #[test]
    fn a_proxy_is_told_the_whole_address() {
        let head = b"GET /a?b HTTP/1.1\r\nhost: x:81\r\n\r\n";
        let proxy = Proxy::new("http://me:p%3Aw@proxy:3128").expect("a proxy");
        let mut connection = Forwarded {
            wire: Box::new(()),
            before: "http://x:81".to_owned(),
            login: login(&proxy),
        };
        let told = String::from_utf8(connection.head(head).expect("a head")).expect("text");
        assert_eq!(
            told,
            "GET http://x:81/a?b HTTP/1.1\r\nProxy-Authorization: Basic bWU6cDp3\r\nhost: x:81\r\n\r\n"
        );
        assert!(!format!("{connection:?}").contains("bWU6cDp3"));
        connection.login = None;
        assert!(
            !String::from_utf8_lossy(&connection.head(head).expect("a head"))
                .contains("Authorization")
        );
        assert_eq!(connection.head(b"none"), None);
    }
}
