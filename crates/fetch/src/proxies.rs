//! Proxies by the variables that curl reads: `https_proxy`, `http_proxy`, `all_proxy` and
//! `no_proxy`, in capitals or not.

use gpusetup_system::environment;
use reqwest::{NoProxy, Proxy, Url};

/// A variable for a proxy that has no address of one. Its value may have a password in it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0} in the environment is not the address of a proxy, such as http://PROXY:3128")]
pub struct InvalidProxy(String);

const SCHEMES: [&str; 6] = ["http", "https", "socks4", "socks4a", "socks5", "socks5h"];

/// Those of this process. None in a CGI program, where the header `Proxy` of a request becomes the
/// variable `HTTP_PROXY`.
///
/// # Errors
///
/// If one is no address: who names a proxy does not want to go without. reqwest itself would.
pub(super) fn proxies() -> Result<Vec<Proxy>, InvalidProxy> {
    if environment::raw("REQUEST_METHOD").is_some() {
        return Ok(Vec::new());
    }
    let all = named("all_proxy")?;
    let http = named("http_proxy")?.or_else(|| all.clone());
    let https = named("https_proxy")?.or(all);
    let by_scheme = [
        http.map(|(name, address)| (name, Proxy::http(address))),
        https.map(|(name, address)| (name, Proxy::https(address))),
    ];
    let exceptions = NoProxy::from_env();
    by_scheme
        .into_iter()
        .flatten()
        .map(|(name, proxy)| match proxy {
            Ok(proxy) => Ok(proxy.no_proxy(exceptions.clone())),
            Err(_) => Err(InvalidProxy(name)),
        })
        .collect()
}

/// The name and the address of a variable, where one is set.
fn named(lower: &str) -> Result<Option<(String, Url)>, InvalidProxy> {
    for name in [lower.to_ascii_uppercase(), lower.to_owned()] {
        match environment::variable(&name) {
            None => {}
            Some(value) if value.trim().is_empty() => return Ok(None),
            Some(value) => {
                let url = parse(value.trim()).ok_or_else(|| InvalidProxy(name.clone()))?;
                return Ok(Some((name, url)));
            }
        }
    }
    Ok(None)
}

/// The address of a proxy: of HTTP where it names no scheme.
fn parse(address: &str) -> Option<Url> {
    let url = match address.contains("://") {
        true => Url::parse(address),
        false => Url::parse(&format!("http://{address}")),
    };
    url.ok()
        .filter(|url| SCHEMES.contains(&url.scheme()) && url.has_host())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_the_address_of_a_proxy_is_refused() {
        for proxy in [
            "one:3128",
            "one",
            "10.0.0.1:3128",
            "http://me:p%40ss@one:3128/",
            "https://one",
            "socks5h://me@[::1]:1080",
            "socks4://one",
        ] {
            assert!(parse(proxy).is_some(), "{proxy}");
        }
        for none in [
            "no address",
            "gopher://x",
            "one:99999",
            "http://one:99999",
            "http://",
            "socks5:///one",
            "://one",
        ] {
            assert_eq!(parse(none), None, "{none}");
        }
    }
}
