//! What a release is told, before any program sees it: rpm's macros and the install script would
//! run what they are given.

use super::Options;
use crate::Result;

/// Refuses what is not a name or an address.
pub fn check(options: &Options) -> Result<()> {
    let plain = |c: char| c.is_alphanumeric() || " .,'-@+_".contains(c);
    for (what, value) in [("--name", &options.name), ("--email", &options.email)] {
        if value
            .as_ref()
            .is_some_and(|value| !value.chars().all(plain))
        {
            return Err(format!(
                "{what} has other characters than letters, digits and .,'-@+_"
            ));
        }
    }
    let of_address = |c: char| c.is_ascii_alphanumeric() || "/:._~-".contains(c);
    if let Some(home) = &options.home
        && !(home.starts_with("https://") && home.chars().all(of_address))
    {
        return Err(format!(
            "--home: `{home}` is not an https address without special characters"
        ));
    }
    Ok(())
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
        let checked = |name: &str, email: &str, more: &[&str]| {
            let who = ["dist", "--name", name, "--email", email];
            check(&Line::parse_from(who.iter().chain(more)).options)
        };
        checked("A. Packager", "a@b.org", &["--home", "https://e.org/g"]).expect("it is sound");
        assert!(checked("A %(touch x)", "a@b.org", &[]).is_err());
        assert!(checked("A", "a@b.org>\nDepends: x", &[]).is_err());
        for wrong in [
            &["--home", "https://e.org/%{lua:1}"][..],
            &["--home", "http://e.org"],
        ] {
            assert!(
                checked("A. Packager", "a@b.org", wrong).is_err(),
                "{wrong:?}"
            );
        }
    }
}
