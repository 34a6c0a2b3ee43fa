//! The network client: whom it trusts, which proxy it takes, where it lets itself be sent, and what
//! each answer means: whether it may pass, and when to come again.

use super::proxies::proxies;
use super::sources::Sources;
use super::transfer_error::TransferError;
use gpusetup_system::hooks;
use gpusetup_system::input;
use gpusetup_system::limits::MAX_KEY;
use reqwest::blocking::{Client as HttpClient, Response};
use reqwest::header::{
    ACCEPT_ENCODING, ACCEPT_RANGES, CONTENT_ENCODING, CONTENT_RANGE, DATE, ETAG, HeaderMap,
    HeaderName, IF_RANGE, LAST_MODIFIED, LOCATION, RANGE, RETRY_AFTER,
};
use reqwest::redirect::Policy;
use reqwest::{Error, StatusCode};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use std::error::Error as _;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use url::Url;

/// How long a connection may take: looking the name up, every address of the server, and TLS.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

/// How often a server may send us elsewhere.
const MAX_REDIRECTS: usize = 10;

/// How much is read from a connection at once.
const BLOCK: usize = 256 << 10;

/// How long a server may say nothing. A build for tests can be told another (`GPUSETUP_SILENCE`).
pub(super) fn silence() -> Duration {
    hooks::seconds("GPUSETUP_SILENCE").unwrap_or(Duration::from_secs(60))
}

/// A client for one address. Clones share its connections.
#[derive(Debug, Clone)]
pub(super) struct Client {
    url: Url,
    sources: Sources,
    http: HttpClient,
}

/// A server's answer that has the bytes.
pub(super) struct ServerAnswer {
    /// The bytes, as they come.
    pub(crate) body: Bytes,
    /// Where in the file they begin.
    pub(crate) from: u64,
    /// How many the whole file has, where the server says so.
    pub(crate) total: Option<u64>,
    /// What tells this state of the file from every other.
    pub(crate) validator: Option<String>,
    /// The server can be asked for other parts of the very same file.
    pub(crate) in_parts: bool,
}

pub(super) struct Bytes {
    response: Response,
    block: Vec<u8>,
}

impl Bytes {
    /// The next block; empty at the end.
    pub(crate) fn next(&mut self) -> Result<&[u8], TransferError> {
        let n = self.response.read(&mut self.block).map_err(cut)?;
        Ok(&self.block[..n])
    }
}

impl Client {
    /// For what is at this address.
    pub(crate) fn new(url: &str, sources: &Sources) -> Result<Self, TransferError> {
        let last = |why: String| TransferError::Final(why);
        let url = Url::parse(url).map_err(|e| last(format!("that is no address: {e}")))?;
        let mut certificates_here = rustls_native_certs::load_native_certs().certs;
        if let Some(path) = &sources.ca_cert {
            certificates_here.extend(certificates(path).map_err(last)?);
        }
        // Plain HTTP needs no certificates.
        if certificates_here.is_empty() && url.scheme() != "http" {
            let help =
                "install ca-certificates, or name the authorities to trust with --ca-cert FILE";
            return Err(last(format!("this host has no CA certificates: {help}")));
        }
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(certificates_here);
        let http = http_client(roots).map_err(last)?;
        Ok(Self {
            url,
            sources: sources.clone(),
            http,
        })
    }

    /// The address.
    pub(crate) fn url(&self) -> &str {
        self.url.as_str()
    }

    /// Asks for the bytes from one place on, up to another that is not among them; of the file that
    /// `validator` tells, or whatever is there now.
    pub(crate) fn ask(
        &self,
        from: u64,
        to: Option<u64>,
        validator: Option<&str>,
    ) -> Result<ServerAnswer, TransferError> {
        let mut url = self.url.clone();
        for _ in 0..=MAX_REDIRECTS {
            let response = self.send(&url, from, to, validator).map_err(failed)?;
            match sent_on(&response, &url)? {
                None => return understood(response, from),
                Some(next) => url = next,
            }
        }
        Err(TransferError::Final(format!(
            "it was sent on more than {MAX_REDIRECTS} times"
        )))
    }

    fn send(
        &self,
        url: &Url,
        from: u64,
        to: Option<u64>,
        validator: Option<&str>,
    ) -> Result<Response, Error> {
        let mut request = self
            .http
            .get(url.clone())
            .header(ACCEPT_ENCODING, "identity");
        // Chosen for each address: a redirect to another server takes no login along.
        if let Some(login) = self.sources.mirrors.login(url) {
            request = request.basic_auth(&login.user, login.password.as_deref());
        }
        if from > 0 || to.is_some() {
            let to = to.map_or_else(String::new, |to| (to - 1).to_string());
            request = request.header(RANGE, format!("bytes={from}-{to}"));
            if let Some(validator) = validator {
                request = request.header(IF_RANGE, validator);
            }
        }
        request.send()
    }
}

/// The client that sends requests: a timeout is how long a server may say nothing, and redirects
/// are followed by [`Client::ask`].
fn http_client(roots: RootCertStore) -> Result<HttpClient, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|e| e.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let mut builder = HttpClient::builder()
        .tls_backend_preconfigured(tls)
        .user_agent(concat!("gpusetup/", env!("CARGO_PKG_VERSION")))
        .redirect(Policy::none())
        .referer(false)
        .connect_timeout(CONNECT_TIMEOUT)
        .timeout(silence())
        .no_proxy();
    for proxy in proxies().map_err(|e| e.to_string())? {
        builder = builder.proxy(proxy);
    }
    builder.build().map_err(|e| cause(&e))
}

/// Certificates in a file, PEM.
pub fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let pem = input::open(path)
        .and_then(|file| input::bytes(file, path, MAX_KEY))
        .map_err(|e| e.to_string())?;
    let refused = |e: &dyn std::fmt::Display| format!("{}: {e}", path.display());
    let all = CertificateDer::pem_slice_iter(&pem)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|e| refused(&e))?;
    for certificate in &all {
        RootCertStore::empty()
            .add(certificate.clone())
            .map_err(|e| refused(&e))?;
    }
    if all.is_empty() {
        Err(format!("{} has no certificate in it (PEM)", path.display()))
    } else {
        Ok(all)
    }
}

/// Where a server redirects to, if it may: never from HTTPS to anything else.
fn sent_on(response: &Response, url: &Url) -> Result<Option<Url>, TransferError> {
    let is_elsewhere = matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308);
    let Some(to) = text(response.headers(), LOCATION).filter(|_| is_elsewhere) else {
        return Ok(None);
    };
    let mut to = url
        .join(to)
        .map_err(|e| TransferError::Final(format!("the server sends on to no address: {e}")))?;
    match (url.scheme(), to.scheme()) {
        (_, "https") | ("http", "http") => {
            // A login in the redirect is not ours to use.
            let _ = to.set_username("").and_then(|()| to.set_password(None));
            Ok(Some(to))
        }
        (from, to) => Err(TransferError::Final(format!(
            "the server sends on from {from} to {to}, which is refused"
        ))),
    }
}

/// What an answer is good for.
fn understood(response: Response, asked: u64) -> Result<ServerAnswer, TransferError> {
    let (status, headers) = (response.status(), response.headers());
    if !status.is_success() {
        return Err(refused(status, headers));
    }
    if let Some(encoding) = text(headers, CONTENT_ENCODING).filter(|e| *e != "identity") {
        let why = format!(
            "the server, or a proxy before it, sends it encoded ({encoding}), which nobody asked for"
        );
        return Err(TransferError::Final(why));
    }
    let etag = text(headers, ETAG).filter(|etag| etag.starts_with('"'));
    let validator = etag
        .or_else(|| text(headers, LAST_MODIFIED))
        .map(str::to_owned);
    let ranges = text(headers, ACCEPT_RANGES).is_some_and(|units| units.contains("bytes"));
    let partial = status == StatusCode::PARTIAL_CONTENT;
    let in_parts = etag.is_some() && (ranges || partial);
    let (from, total) = if partial {
        let range = text(headers, CONTENT_RANGE).and_then(content_range);
        range.ok_or_else(|| {
            TransferError::Passing("the server sends a part and does not say which".to_owned())
        })?
    } else {
        (0, response.content_length())
    };
    if partial && from != asked {
        return Err(TransferError::Passing(format!(
            "the server was asked for byte {asked} and sends byte {from}"
        )));
    }
    let body = Bytes {
        response,
        block: vec![0; BLOCK],
    };
    Ok(ServerAnswer {
        from,
        total,
        validator,
        in_parts,
        body,
    })
}

/// Why there are no bytes.
fn refused(status: StatusCode, headers: &HeaderMap) -> TransferError {
    let answers = format!("the server answers {status}");
    match status {
        StatusCode::RANGE_NOT_SATISFIABLE => TransferError::NoSuchPart,
        StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS => later(answers, headers),
        StatusCode::NOT_FOUND | StatusCode::GONE => TransferError::NotThere(answers),
        s if s.is_server_error() => later(answers, headers),
        StatusCode::PROXY_AUTHENTICATION_REQUIRED => proxy_login(),
        StatusCode::UNAUTHORIZED => TransferError::Final(format!(
            "{answers}: a mirror's login belongs into its address in the config file"
        )),
        _ => TransferError::Final(answers),
    }
}

fn proxy_login() -> TransferError {
    let help = "it belongs into the proxy's address, http://USER:PASSWORD@PROXY:PORT, in https_proxy or http_proxy";
    TransferError::Final(format!("the proxy demands a login: {help}"))
}

fn later(why: String, headers: &HeaderMap) -> TransferError {
    let now = text(headers, DATE).and_then(seconds_of);
    match text(headers, RETRY_AFTER).and_then(|wait| waits(wait, now)) {
        Some(wait) => TransferError::Later(why, wait),
        None => TransferError::Passing(why),
    }
}

/// How long `Retry-After` would have us wait: seconds, or until a date, by the server's own clock
/// where it tells that.
fn waits(text: &str, now: Option<i64>) -> Option<Duration> {
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let now = now.unwrap_or_else(|| jiff::Timestamp::now().as_second());
    Some(Duration::from_secs(
        u64::try_from(seconds_of(text)? - now).unwrap_or(0),
    ))
}

/// The seconds since 1970 of a date as HTTP has it.
fn seconds_of(date: &str) -> Option<i64> {
    jiff::fmt::rfc2822::DateTimeParser::new()
        .parse_timestamp(date)
        .ok()
        .map(|t| t.as_second())
}

/// Where a part begins, and how long the whole is: `bytes 9-20/21`.
fn content_range(text: &str) -> Option<(u64, Option<u64>)> {
    let (range, total) = text.strip_prefix("bytes ")?.split_once('/')?;
    Some((range.split_once('-')?.0.parse().ok()?, total.parse().ok()))
}

fn text(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    headers.get(name)?.to_str().ok().map(str::trim)
}

/// Why there is no answer.
fn failed(e: Error) -> TransferError {
    let why = cause(&e);
    if let Some(why) = why.strip_prefix("invalid peer certificate: ") {
        return TransferError::Final(certificate(why));
    }
    match e {
        _ if why.contains("proxy authorization required") => proxy_login(),
        e if e.is_builder() => TransferError::Final(why),
        e if e.is_connect() => TransferError::Unreachable(why),
        e if e.is_timeout() => says_nothing(),
        _ => TransferError::Passing(why),
    }
}

/// Why there is no more of an answer.
fn cut(e: io::Error) -> TransferError {
    match e.get_ref().and_then(|e| e.downcast_ref::<Error>()) {
        Some(e) if e.is_timeout() => says_nothing(),
        Some(e) => TransferError::Passing(format!("the connection was cut ({})", cause(e))),
        None => TransferError::Passing(format!("the connection was cut ({e})")),
    }
}

fn says_nothing() -> TransferError {
    TransferError::Passing("the server says nothing any more".to_owned())
}

/// What happened, without the address: that of a redirect may contain a ticket.
fn cause(e: &Error) -> String {
    match e.source() {
        _ if e.is_connect() && e.is_timeout() => "the connection timed out".to_owned(),
        Some(source) => last_cause(source),
        None => e.to_string(),
    }
}

/// What is wrong with a certificate, and what helps.
fn certificate(why: &str) -> String {
    match why {
        _ if why.contains("UnknownIssuer") => {
            "nobody who is trusted here vouches for the server's certificate; --ca-cert FILE trusts an authority of your own"
                .to_owned()
        }
        _ if why.to_ascii_lowercase().contains("expired") => {
            "the server's certificate has expired, or this machine's clock is wrong".to_owned()
        }
        _ => format!("the server's certificate is refused: {why}"),
    }
}

fn last_cause(e: &dyn std::error::Error) -> String {
    e.source().map_or_else(|| e.to_string(), last_cause)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_says_when_to_come_again() {
        let now = seconds_of("Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(now, Some(784_111_777));
        assert_eq!(waits("120", now), Some(Duration::from_secs(120)));
        assert_eq!(
            waits("Sun, 06 Nov 1994 08:50:00 GMT", now),
            Some(Duration::from_secs(23))
        );
        assert_eq!(
            waits("Sun, 06 Nov 1994 08:00:00 GMT", now),
            Some(Duration::ZERO)
        );
        assert_eq!(waits("soon", now), None);
    }

    #[test]
    fn a_part_says_where_it_begins() {
        assert_eq!(content_range("bytes 9-20/21"), Some((9, Some(21))));
        assert_eq!(content_range("bytes 9-20/*"), Some((9, None)));
        assert_eq!(content_range("bytes */21"), None);
        assert_eq!(content_range("lines 9-20/21"), None);
    }
}
