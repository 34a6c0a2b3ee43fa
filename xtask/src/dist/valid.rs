//! What a release is told, before any program sees it: rpm's macros and the install script would run what they are given.

use super::Options;
use crate::Result;

/// Refuses what is not a name, an address or a key.
pub fn check(options: &Options) -> Result<()> {
    let plain = |c: char| c.is_alphanumeric() || " .,'-@+_".contains(c);
    for (what, value) in [("--name", &options.name), ("--email", &options.email)] {
        if value.as_ref().is_some_and(|value| !value.chars().all(plain)) {
            return Err(format!("{what} has other characters than letters, digits and .,'-@+_"));
        }
    }
    let of_address = |c: char| c.is_ascii_alphanumeric() || "/:._~-".contains(c);
    if let Some(home) = &options.home
        && !(home.starts_with("https://") && home.chars().all(of_address))
    {
        return Err(format!("--home: `{home}` is not an https address without special characters"));
    }
    if let Some(keys) = &options.release_key {
        let keys: Vec<_> = keys.split(',').collect();
        if let Some(wrong) = keys.iter().find(|key| !is_key(key)) {
            return Err(format!("--release-key: `{wrong}` is not the last line of a minisign public key"));
        }
        if options.signatures == 0 || usize::from(options.signatures) > keys.len() {
            return Err(format!(
                "--signatures: {} signatures by {} keys are not possible",
                options.signatures,
                keys.len()
            ));
        }
    }
    Ok(())
}

/// Whether a text looks like a minisign public key: 42 bytes in base64, of which the first two are `Ed`.
fn is_key(text: &str) -> bool {
    let is_base64 = text.chars().all(|c| c.is_ascii_alphanumeric() || "+/".contains(c));
    text.len() == 56 && text.starts_with("RW") && is_base64
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: Options,
    }

    #[test]
    fn what_would_run_is_refused() {
        let key = include_str!("../../../tests/common/signed/one.pub").lines().last().expect("two lines");
        let checked = |name: &str, email: &str, more: &[&str]| {
            let who = ["dist", "--name", name, "--email", email];
            check(&Line::parse_from(who.iter().chain(more)).options)
        };
        checked("A. Packager", "a@b.org", &["--home", "https://e.org/g", "--release-key", key]).expect("it is sound");
        assert!(checked("A %(touch x)", "a@b.org", &[]).is_err());
        assert!(checked("A", "a@b.org>\nDepends: x", &[]).is_err());
        for wrong in [
            &["--home", "https://e.org/%{lua:1}"][..],
            &["--home", "http://e.org"],
            &["--release-key", "no key"],
            &["--release-key", ""],
            &["--release-key", key, "--signatures", "2"],
            &["--release-key", key, "--signatures", "0"],
        ] {
            assert!(checked("A. Packager", "a@b.org", wrong).is_err(), "{wrong:?}");
        }
    }
}
