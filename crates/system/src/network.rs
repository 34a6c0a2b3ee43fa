//! The variables of the caller's environment that concern the network: proxies and trusted
//! certificates. Children get no other variables of the caller.

/// curl's names. curl and programs modelled on it also accept most of them in upper case.
const NAMES: [&str; 6] = [
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
];

/// The variables that are set, sorted by name. A proxy's address may contain credentials.
pub fn environment() -> Vec<(String, String)> {
    of(super::environment::variables())
}

/// The proxies alone. Certificate paths on this machine are meaningless in a tree that a child runs
/// in.
pub(crate) fn proxies() -> Vec<(String, String)> {
    let mut all = environment();
    all.retain(|(name, _)| name.to_ascii_lowercase().ends_with("_proxy"));
    all
}

fn of(all: impl Iterator<Item = (String, String)>) -> Vec<(String, String)> {
    let ours = |(name, value): &(String, String)| {
        NAMES.iter().any(|n| n.eq_ignore_ascii_case(name))
            && !value.is_empty()
            && !value.contains('\n')
    };
    let mut ours: Vec<_> = all.filter(ours).collect();
    ours.sort();
    ours
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proxies_and_certificates_are_handed_on_and_nothing_else() {
        let all = [
            ("PATH", "/evil"),
            ("no_proxy", ""),
            ("HTTPS_PROXY", "http://p:1"),
            ("http_proxy", "http://me:pw@p:1"),
        ];
        let found = of(all.into_iter().map(|(n, v)| (n.to_owned(), v.to_owned())));
        assert_eq!(
            found.iter().map(|(n, _)| n.as_str()).collect::<Vec<_>>(),
            ["HTTPS_PROXY", "http_proxy"]
        );
    }
}
