//! The network client: whom it trusts, which proxy it takes, where it lets itself be sent, and what each answer means: whether
//! it may pass, and when to come again.

use super::sources::Sources;
use super::transfer_error::TransferError;
use crate::system::input;
use crate::system::{chain, hooks};
use reqwest::header::{
    ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_RANGE, DATE, ETAG, HeaderMap, IF_RANGE, LAST_MODIFIED, RANGE,
    RETRY_AFTER,
};
use reqwest::redirect::{Action, Attempt, Policy};
use reqwest::{Certificate, Response, StatusCode, Url};
use std::path::Path;
use std::time::Duration;

/// How long it may take until somebody answers the call.
const CONNECT: Duration = Duration::from_secs(30);

/// How often a server may send us elsewhere.
const REDIRECTS: usize = 10;

/// How long a server may say nothing. A build for tests can be told another (`GPUSETUP_SILENCE`).
fn silence() -> Duration {
    hooks::seconds("GPUSETUP_SILENCE").unwrap_or(Duration::from_secs(60))
}

/// A client for one address.
#[derive(Debug, Clone)]
pub(super) struct Client {
    inner: reqwest::Client,
    url: Url,
    sources: Sources,
}

/// A server's answer that has the bytes.
#[derive(Debug)]
pub(super) struct ServerAnswer {
    /// The bytes, as they come.
    pub body: Response,
    /// Where in the file they begin.
    pub from: u64,
    /// How many the whole file has, where the server says so.
    pub total: Option<u64>,
    /// What tells this state of the file from every other.
    pub validator: Option<String>,
    /// The server can be asked for other parts of the very same file.
    pub in_parts: bool,
}

impl Client {
    /// For what is at this address.
    pub fn new(url: &str, sources: &Sources) -> Result<Self, TransferError> {
        let last = |why: String| TransferError::Final(why);
        let url = Url::parse(url).map_err(|e| last(format!("that is no address: {e}")))?;
        let mut more = Vec::new();
        if let Some(path) = &sources.ca_cert {
            more = certificates(path).map_err(last)?;
        }
        let builder = || {
            reqwest::Client::builder()
                .user_agent(concat!("gpusetup/", env!("CARGO_PKG_VERSION")))
                .connect_timeout(CONNECT)
                // For each read, not for the whole.
                .read_timeout(silence())
                .referer(false)
                .redirect(Policy::custom(follows))
        };
        let built = match builder().tls_certs_merge(more.clone()).build() {
            // A host without certificates can be served without them.
            Err(_) if url.scheme() == "http" => builder().tls_certs_only(more).build(),
            built => built,
        };
        let inner = built.map_err(|e| {
            let why = chain(&e);
            let help = "install ca-certificates, or name the authorities to trust with --ca-cert FILE";
            last(if why.contains("CA certificates") { format!("{why}: {help}") } else { why })
        })?;
        Ok(Self { inner, url, sources: sources.clone() })
    }

    /// The address.
    pub fn url(&self) -> &str {
        self.url.as_str()
    }

    /// Asks for the bytes from one place on, up to another that is not among them; of the file that `validator` tells, or
    /// whatever is there now.
    pub async fn ask(
        &self,
        from: u64,
        to: Option<u64>,
        validator: Option<&str>,
    ) -> Result<ServerAnswer, TransferError> {
        let mut request = self.inner.get(self.url.clone()).header(ACCEPT_ENCODING, "identity");
        if let Some(login) = self.sources.mirrors.login(&self.url) {
            request = request.basic_auth(&login.user, login.password.as_ref());
        }
        if from > 0 || to.is_some() {
            let to = to.map_or_else(String::new, |to| (to - 1).to_string());
            request = request.header(RANGE, format!("bytes={from}-{to}"));
            if let Some(validator) = validator {
                request = request.header(IF_RANGE, validator);
            }
        }
        let response = request.send().await.map_err(failed)?;
        understood(response, from)
    }
}

/// Certificates in a file, PEM.
pub fn certificates(path: &Path) -> Result<Vec<Certificate>, String> {
    let pem =
        input::open(path).and_then(|file| input::bytes(file, path, input::MOST_KEY)).map_err(|e| e.to_string())?;
    let all = Certificate::from_pem_bundle(&pem).map_err(|e| format!("{}: {}", path.display(), chain(&e)))?;
    if all.is_empty() { Err(format!("{} has no certificate in it (PEM)", path.display())) } else { Ok(all) }
}

/// Whether a server may send us there. What was asked for under a seal is not taken without one.
fn follows(attempt: Attempt) -> Action {
    let from = attempt.previous().last().map_or("", Url::scheme).to_owned();
    let to = attempt.url().scheme().to_owned();
    if attempt.previous().len() > REDIRECTS {
        return attempt.error(format!("it was sent on more than {REDIRECTS} times"));
    }
    match (from.as_str(), to.as_str()) {
        (_, "https") | ("http", "http") => attempt.follow(),
        _ => attempt.error(format!("the server sends on from {from} to {to}, which is refused")),
    }
}

/// What an answer is good for.
fn understood(response: Response, asked: u64) -> Result<ServerAnswer, TransferError> {
    let (status, headers) = (response.status(), response.headers());
    if !status.is_success() {
        return Err(refused(status, headers));
    }
    if let Some(encoding) = text(headers, CONTENT_ENCODING.as_str()).filter(|e| *e != "identity") {
        let why = format!("the server, or a proxy before it, sends it encoded ({encoding}), which nobody asked for");
        return Err(TransferError::Final(why));
    }
    let etag = text(headers, ETAG.as_str()).filter(|etag| etag.starts_with('"'));
    let validator = etag.or_else(|| text(headers, LAST_MODIFIED.as_str())).map(str::to_owned);
    let ranges = text(headers, "accept-ranges").is_some_and(|units| units.contains("bytes"));
    let partial = status == StatusCode::PARTIAL_CONTENT;
    let in_parts = etag.is_some() && (ranges || partial);
    let (from, total) = if partial {
        let range = text(headers, CONTENT_RANGE.as_str()).and_then(content_range);
        range.ok_or_else(|| TransferError::Passing("the server sends a part and does not say which".to_owned()))?
    } else {
        (0, response.content_length())
    };
    if partial && from != asked {
        return Err(TransferError::Passing(format!("the server was asked for byte {asked} and sends byte {from}")));
    }
    Ok(ServerAnswer { from, total, validator, in_parts, body: response })
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
        StatusCode::UNAUTHORIZED => {
            TransferError::Final(format!("{answers}: a mirror's login belongs into its address in the config file"))
        }
        _ => TransferError::Final(answers),
    }
}

fn proxy_login() -> TransferError {
    let help = "it belongs into the proxy's address, http://USER:PASSWORD@PROXY:PORT, in https_proxy or http_proxy";
    TransferError::Final(format!("the proxy demands a login: {help}"))
}

fn later(why: String, headers: &HeaderMap) -> TransferError {
    let now = text(headers, DATE.as_str()).and_then(seconds_of);
    match text(headers, RETRY_AFTER.as_str()).and_then(|wait| waits(wait, now)) {
        Some(wait) => TransferError::Later(why, wait),
        None => TransferError::Passing(why),
    }
}

/// How long `Retry-After` would have us wait: seconds, or until a date, by the server's own clock where it tells that.
fn waits(text: &str, now: Option<i64>) -> Option<Duration> {
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let now = now.unwrap_or_else(|| jiff::Timestamp::now().as_second());
    Some(Duration::from_secs(u64::try_from(seconds_of(text)? - now).unwrap_or(0)))
}

/// The seconds since 1970 of a date as HTTP has it.
fn seconds_of(date: &str) -> Option<i64> {
    jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(date).ok().map(|t| t.as_second())
}

/// Where a part begins, and how long the whole is: `bytes 9-20/21`.
fn content_range(text: &str) -> Option<(u64, Option<u64>)> {
    let (range, total) = text.strip_prefix("bytes ")?.split_once('/')?;
    Some((range.split_once('-')?.0.parse().ok()?, total.parse().ok()))
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok().map(str::trim)
}

/// Why there is no answer, or no more of it.
pub(super) fn failed(e: reqwest::Error) -> TransferError {
    // The last cause tells what happened, those before it who noticed. None has the address: where it was sent on to may have a
    // ticket in it.
    let e = e.without_url();
    let why = last_cause(&e);
    if let Some(why) = why.strip_prefix("invalid peer certificate: ") {
        return TransferError::Final(certificate(why));
    }
    match () {
        () if why.contains("proxy authorization required") => proxy_login(),
        () if e.is_redirect() || e.is_builder() => TransferError::Final(why),
        () if e.is_connect() => TransferError::Unreachable(why),
        () if e.is_timeout() => TransferError::Passing("the server says nothing any more".to_owned()),
        () if e.is_body() || e.is_decode() => TransferError::Passing(format!("the connection was cut ({why})")),
        () => TransferError::Passing(why),
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
        assert_eq!(waits("Sun, 06 Nov 1994 08:50:00 GMT", now), Some(Duration::from_secs(23)));
        assert_eq!(waits("Sun, 06 Nov 1994 08:00:00 GMT", now), Some(Duration::ZERO));
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
