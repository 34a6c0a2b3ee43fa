//! Mirrors: what stands in for NVIDIA's own servers, over the network or on a disk. A mirror's
//! login is removed from its address when that is read, and only the client that logs in gets it.

use std::fmt;
use url::Url;

/// Mirrors, and how to log in to them.
#[derive(Debug, Clone, Default)]
pub struct Mirrors {
    /// Stands in for every server.
    whole: Option<String>,
    /// Prefixes of addresses, and what stands in for each; the longest first.
    by_prefix: Vec<(String, String)>,
    logins: Vec<Login>,
}

/// How to log in to a server.
#[derive(Clone, PartialEq, Eq)]
pub struct Login {
    origin: Url,
    /// The name to log in with.
    pub user: String,
    /// With which password, where there is one.
    pub password: Option<String>,
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login")
            .field("at", &self.origin.host_str())
            .finish_non_exhaustive()
    }
}

/// An address that is none of a mirror. It is not repeated: there may be a password in it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a mirror's address begins with https://, http:// or file:///, and has no ? or #")]
pub struct NoMirror;

impl Mirrors {
    /// With one that stands in for every server: scheme and host are replaced by its address, the
    /// path is kept.
    pub fn whole(mut self, address: &str) -> Result<Self, NoMirror> {
        self.whole = Some(self.learn(address)?);
        Ok(self)
    }

    /// With one that stands in for every address that begins so.
    pub fn instead_of(mut self, prefix: &str, address: &str) -> Result<Self, NoMirror> {
        let mut url = Url::parse(prefix).map_err(|_| NoMirror)?;
        // Nothing is published at an address with a login, and plans and user-data name the prefix.
        // Where it fails there is none.
        let _ = url.set_username("").and_then(|()| url.set_password(None));
        let prefix = url.as_str().trim_end_matches('/').to_owned();
        let address = self.learn(address)?;
        self.by_prefix.retain(|(other, _)| *other != prefix);
        self.by_prefix.push((prefix, address));
        self.by_prefix
            .sort_by_key(|(prefix, _)| std::cmp::Reverse(prefix.len()));
        Ok(self)
    }

    /// Takes the login off an address, and remembers it.
    fn learn(&mut self, address: &str) -> Result<String, NoMirror> {
        let mut url = Url::parse(address).map_err(|_| NoMirror)?;
        let complete = match url.scheme() {
            "http" | "https" => url.has_host(),
            "file" => url.host().is_none() && address.starts_with("file:///"),
            _ => false,
        };
        if !complete || url.query().is_some() || url.fragment().is_some() {
            return Err(NoMirror);
        }
        let (user, password) = (decoded(url.username()), url.password().map(decoded));
        url.set_username("")
            .and_then(|()| url.set_password(None))
            .or_else(|()| {
                // A file's address has no place for them.
                if user.is_empty() && password.is_none() {
                    Ok(())
                } else {
                    Err(NoMirror)
                }
            })?;
        if !user.is_empty() || password.is_some() {
            self.logins.push(Login {
                origin: url.clone(),
                user,
                password,
            });
        }
        Ok(url.as_str().trim_end_matches('/').to_owned())
    }

    /// The one that stands in for every server.
    pub fn of_all(&self) -> Option<&str> {
        self.whole.as_deref()
    }

    /// Those that stand in for what is below an address.
    pub fn below(&self) -> impl Iterator<Item = (&str, &str)> {
        self.by_prefix
            .iter()
            .map(|(prefix, mirror)| (prefix.as_str(), mirror.as_str()))
    }

    /// Whether one of them has a login.
    pub fn has_logins(&self) -> bool {
        !self.logins.is_empty()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.whole.is_none() && self.by_prefix.is_empty()
    }

    /// The address that something has here which is published at `url`.
    pub fn of(&self, url: &str) -> String {
        let below = |prefix: &str| {
            url.strip_prefix(prefix)
                .filter(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        if let Some((rest, mirror)) = self
            .by_prefix
            .iter()
            .find_map(|(p, mirror)| Some((below(p)?, mirror)))
        {
            return format!("{mirror}{rest}");
        }
        let Some(mirror) = &self.whole else {
            return url.to_owned();
        };
        let behind_scheme = url.split_once("://").map_or(url, |(_, rest)| rest);
        let path = behind_scheme
            .find('/')
            .map_or("", |at| &behind_scheme[at..]);
        format!("{mirror}{path}")
    }

    /// How to log in where `url` is: at a mirror's own server, and nowhere else.
    pub fn login(&self, url: &Url) -> Option<&Login> {
        self.logins
            .iter()
            .rev()
            .find(|login| login.origin.origin() == url.origin())
    }
}

/// What a text says whose odd characters are written as `%40`.
fn decoded(text: &str) -> String {
    let hex = |two: &[u8]| {
        std::str::from_utf8(two)
            .ok()
            .and_then(|two| u8::from_str_radix(two, 16).ok())
    };
    let (mut bytes, mut rest) = (Vec::new(), text.as_bytes());
    while let [first, more @ ..] = rest {
        let escaped = if *first == b'%' {
            more.get(..2).and_then(hex)
        } else {
            None
        };
        bytes.push(escaped.unwrap_or(*first));
        rest = if escaped.is_some() { &more[2..] } else { more };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const CUDNN: &str = "https://developer.download.nvidia.com/compute/cudnn/redist/a.tar.xz";

    fn whole(address: &str) -> Mirrors {
        Mirrors::default().whole(address).expect("a mirror")
    }

    #[test]
    fn a_mirror_stands_in_for_every_server() {
        assert_eq!(Mirrors::default().of(CUDNN), CUDNN);
        assert_eq!(
            whole("http://mirror.lan:8080").of(CUDNN),
            "http://mirror.lan:8080/compute/cudnn/redist/a.tar.xz"
        );
        assert_eq!(
            whole("http://m/nvidia/").of(CUDNN),
            "http://m/nvidia/compute/cudnn/redist/a.tar.xz"
        );
        assert_eq!(
            whole("file:///mnt/a b").of(CUDNN),
            "file:///mnt/a%20b/compute/cudnn/redist/a.tar.xz"
        );
    }

    #[test]
    fn the_longest_prefix_comes_first_and_ends_where_a_name_does() {
        let mirrors = whole("http://all")
            .instead_of(
                "https://me:pw@developer.download.nvidia.com/",
                "http://few/",
            )
            .and_then(|m| {
                m.instead_of(
                    "https://developer.download.nvidia.com/compute/cudnn",
                    "file:///srv/cudnn",
                )
            })
            .expect("mirrors");
        assert_eq!(mirrors.of(CUDNN), "file:///srv/cudnn/redist/a.tar.xz");
        assert_eq!(
            mirrors.of("https://developer.download.nvidia.com/x"),
            "http://few/x"
        );
        assert_eq!(
            mirrors.of("https://developer.download.nvidia.com.evil.org/x"),
            "http://all/x"
        );
        assert_eq!(
            mirrors.of("https://us.download.nvidia.com/x"),
            "http://all/x"
        );
    }

    #[test]
    fn a_login_is_known_to_its_own_server_alone() {
        let mirrors = whole("https://me:p%40ss@mirror.lan:8443/n");
        assert_eq!(
            mirrors.of(CUDNN),
            "https://mirror.lan:8443/n/compute/cudnn/redist/a.tar.xz"
        );
        let login = |url: &str| {
            mirrors
                .login(&Url::parse(url).expect("an address"))
                .map(|l| l.password.as_deref())
        };
        assert_eq!(login(&mirrors.of(CUDNN)), Some(Some("p@ss")));
        for other in [
            "http://mirror.lan:8443/n",
            "https://mirror.lan/n",
            "https://other.lan:8443/n",
            CUDNN,
        ] {
            assert_eq!(login(other), None, "{other}");
        }
        assert!(
            !format!("{mirrors:?}").contains("p@ss") && !format!("{mirrors:?}").contains("p%40ss")
        );
    }

    #[test]
    fn what_is_no_mirror_is_refused_and_not_repeated() {
        for no in [
            "mirror.lan",
            "ftp://m/",
            "https://",
            "file://host/x",
            "http://m/?a=b",
            "http://me:pass@/",
            "file:x",
        ] {
            let refused = Mirrors::default().whole(no).expect_err(no);
            assert!(!refused.to_string().contains("pass"), "{refused}");
            assert!(
                Mirrors::default()
                    .instead_of("no address", "http://m")
                    .is_err()
            );
        }
    }
}
