//! Which proxy leads to an address, by the variables that curl reads: `https_proxy`, `http_proxy`,
//! `all_proxy` and `no_proxy`, in capitals or not.

use gpusetup_system::environment;
use std::net::IpAddr;
use ureq::Proxy;
use url::{Host, Url};

/// The proxies of an environment.
#[derive(Debug, Clone, Default)]
pub(super) struct Proxies {
    http: Option<Proxy>,
    https: Option<Proxy>,
    exceptions: Vec<Exception>,
}

/// A variable for a proxy that has no address of one. Its value may have a password in it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0} in the environment is not the address of a proxy, such as http://PROXY:3128")]
pub struct InvalidProxy(String);

/// What is reached without a proxy.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Exception {
    /// `*`
    Everything,
    /// `10.0.0.0/8`, or a single address: addresses that share these first bits.
    Network(IpAddr, u32),
    /// `example.org` or `.example.org`: this domain, and all below it.
    Domain(String),
}

impl Proxies {
    /// Those of this process. None in a CGI program, where the header `Proxy` of a request becomes
    /// the variable `HTTP_PROXY`.
    ///
    /// # Errors
    ///
    /// If one is no address: who names a proxy does not want to go without.
    pub fn of_environment() -> Result<Self, InvalidProxy> {
        if environment::raw("REQUEST_METHOD").is_some() {
            return Ok(Self::default());
        }
        Self::of(environment::variable)
    }

    fn of(variable: impl Fn(&str) -> Option<String>) -> Result<Self, InvalidProxy> {
        let either = |name: &str| {
            let names = [name.to_ascii_uppercase(), name.to_owned()];
            names
                .into_iter()
                .find_map(|name| Some((variable(&name)?, name)))
        };
        let proxy = |name: &str| match either(name) {
            Some((address, name)) if !address.trim().is_empty() => {
                proxy_at(address.trim()).map(Some).ok_or(InvalidProxy(name))
            }
            _ => Ok(None),
        };
        let all = proxy("all_proxy")?;
        let exceptions = either("no_proxy")
            .map(|(value, _)| value)
            .unwrap_or_default();
        Ok(Self {
            http: proxy("http_proxy")?.or_else(|| all.clone()),
            https: proxy("https_proxy")?.or(all),
            exceptions: exceptions.split(',').filter_map(Exception::parse).collect(),
        })
    }

    /// The one for an address.
    pub fn to(&self, url: &Url) -> Option<&Proxy> {
        let proxy = if url.scheme() == "https" {
            &self.https
        } else {
            &self.http
        };
        let host = url.host()?;
        proxy.as_ref().filter(|_| {
            !self
                .exceptions
                .iter()
                .any(|exception| exception.covers(&host))
        })
    }
}

/// The proxy at an address. ureq takes a port that is none for the usual one.
fn proxy_at(address: &str) -> Option<Proxy> {
    let has_scheme = address.contains("://");
    let whole = if has_scheme {
        address.to_owned()
    } else {
        format!("http://{address}")
    };
    Url::parse(&whole).ok()?;
    Proxy::new(address).ok()
}

impl Exception {
    fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let (address, bits) = text
            .split_once('/')
            .map_or((text, None), |(address, bits)| (address, Some(bits)));
        if let Ok(address) = address.trim_matches(['[', ']']).parse::<IpAddr>() {
            let all = if address.is_ipv4() { 32 } else { 128 };
            let bits = bits.map_or(Some(all), |bits| {
                bits.parse().ok().filter(|bits| *bits <= all)
            });
            return bits.map(|bits| Self::Network(address, bits));
        }
        match text.trim_start_matches('.') {
            "" => None,
            "*" => Some(Self::Everything),
            domain => Some(Self::Domain(domain.to_ascii_lowercase())),
        }
    }

    fn covers(&self, host: &Host<&str>) -> bool {
        match (self, host) {
            (Self::Everything, _) => true,
            (Self::Network(IpAddr::V4(network), bits), Host::Ipv4(address)) => {
                let differs = u32::from(*network) ^ u32::from(*address);
                differs.checked_shr(32 - bits).unwrap_or(0) == 0
            }
            (Self::Network(IpAddr::V6(network), bits), Host::Ipv6(address)) => {
                let differs = u128::from(*network) ^ u128::from(*address);
                differs.checked_shr(128 - bits).unwrap_or(0) == 0
            }
            (Self::Domain(domain), Host::Domain(name)) => name
                .strip_suffix(domain.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.ends_with('.')),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxies(variables: &[(&str, &str)]) -> Proxies {
        of(variables).expect("addresses")
    }

    fn of(variables: &[(&str, &str)]) -> Result<Proxies, InvalidProxy> {
        Proxies::of(|name| Some(variables.iter().find(|(n, _)| *n == name)?.1.to_owned()))
    }

    fn host_to(proxies: &Proxies, url: &str) -> Option<String> {
        Some(
            proxies
                .to(&Url::parse(url).expect("an address"))?
                .host()
                .to_owned(),
        )
    }

    #[test]
    fn each_scheme_has_its_own_proxy() {
        let both = proxies(&[
            ("http_proxy", "http://me:p%40ss@one:3128/"),
            ("HTTPS_PROXY", "two:3128"),
        ]);
        assert_eq!(host_to(&both, "http://x/").as_deref(), Some("one"));
        assert_eq!(host_to(&both, "https://x/").as_deref(), Some("two"));
        assert_eq!(both.http.as_ref().and_then(Proxy::password), Some("p@ss"));
        assert!(!format!("{both:?}").contains("ss@"), "{both:?}");
        let all = proxies(&[
            ("all_proxy", "socks5h://three"),
            ("http_proxy", "http://one"),
        ]);
        assert_eq!(host_to(&all, "https://x/").as_deref(), Some("three"));
        assert_eq!(host_to(&all, "http://x/").as_deref(), Some("one"));
        assert_eq!(
            host_to(&proxies(&[("https_proxy", "")]), "https://x/"),
            None
        );
        for none in ["no address", "gopher://x", "one:99999", "http://one:99999"] {
            let refused = of(&[("HTTPS_PROXY", none)])
                .map(|_| ())
                .expect_err(none)
                .to_string();
            assert!(
                refused.starts_with("HTTPS_PROXY in the environment") && !refused.contains(none),
                "{refused}"
            );
        }
    }

    #[test]
    fn exceptions_are_domains_addresses_and_networks() {
        let direct = |exceptions: &str, host: &str| {
            let proxies = proxies(&[("https_proxy", "http://one"), ("no_proxy", exceptions)]);
            host_to(&proxies, &format!("https://{host}/")).is_none()
        };
        for (exceptions, host, is_direct) in [
            ("example.org", "example.org", true),
            ("example.org", "a.EXAMPLE.org", true),
            (".example.org, x", "example.org", true),
            ("example.org", "notexample.org", false),
            ("example.org", "example.org.evil", false),
            ("localhost,127.0.0.1", "127.0.0.1:8443", true),
            ("10.0.0.0/8", "10.9.8.7", true),
            ("10.0.0.0/8", "11.0.0.0", false),
            ("0.0.0.0/0", "11.0.0.0", true),
            ("10.0.0.0/33", "10.0.0.0", false),
            ("fe80::/10", "[fe80::1]", true),
            ("[::1]", "[::1]", true),
            ("*", "10.0.0.1", true),
            ("", "localhost", false),
        ] {
            assert_eq!(direct(exceptions, host), is_direct, "{exceptions}: {host}");
        }
    }
}
