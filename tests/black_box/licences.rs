//! Checks the licences of the dependencies against the list in deny.toml. `cargo deny` does that
//! too, and more, but takes longer to build than all of gpusetup; its configuration is read here so
//! that there is one list.

use std::process::Command;

/// The words of a licence expression, `(MIT OR Apache-2.0) AND Unicode-3.0`. Old crates write `/`
/// for `OR`.
fn words(expression: &str) -> Vec<String> {
    let spaced = expression
        .replace('/', " OR ")
        .replace('(', " ( ")
        .replace(')', " ) ");
    spaced.split_whitespace().map(str::to_owned).collect()
}

/// Whether one may use what is under this licence, when one may use what is under the `allowed`
/// ones.
fn is_allowed(
    words: &mut std::iter::Peekable<std::vec::IntoIter<String>>,
    allowed: &[String],
) -> bool {
    let mut any = false;
    loop {
        let mut all = true;
        loop {
            let word = words.next().expect("a licence");
            all &= if word == "(" {
                let inner = is_allowed(words, allowed);
                assert_eq!(words.next().as_deref(), Some(")"));
                inner
            } else if words.next_if(|next| next == "WITH").is_some() {
                let exception = words.next().expect("an exception");
                allowed.contains(&format!("{word} WITH {exception}"))
            } else {
                allowed.contains(&word)
            };
            if words.next_if(|next| next == "AND").is_none() {
                break;
            }
        }
        any |= all;
        if words.next_if(|next| next == "OR").is_none() {
            return any;
        }
    }
}

fn allows(expression: &str, allowed: &[String]) -> bool {
    let mut words = words(expression).into_iter().peekable();
    let answer = is_allowed(&mut words, allowed);
    assert_eq!(words.next(), None, "{expression}");
    answer
}

#[test]
fn expressions() {
    let allowed = ["MIT", "ISC"].map(str::to_owned);
    for (expression, answer) in [
        ("MIT", true),
        ("GPL-3.0-only", false),
        ("GPL-3.0-only OR MIT", true),
        ("GPL-3.0-only/MIT", true),
        ("GPL-3.0-only AND MIT", false),
        ("(GPL-3.0-only OR MIT) AND ISC", true),
        ("(GPL-3.0-only OR MIT) AND Zlib", false),
        ("MIT WITH some-exception", false),
    ] {
        assert_eq!(allows(expression, &allowed), answer, "{expression}");
    }
}

#[test]
fn dependencies_have_licences_that_we_allow() {
    let root = env!("CARGO_MANIFEST_DIR");
    let configuration = std::fs::read_to_string(format!("{root}/deny.toml")).expect("deny.toml");
    let list = configuration
        .split("[licenses]")
        .nth(1)
        .and_then(|section| section.split("allow = [").nth(1));
    let list = list
        .and_then(|rest| rest.split(']').next())
        .expect("the allow list of deny.toml");
    let allowed: Vec<_> = list
        .split('"')
        .skip(1)
        .step_by(2)
        .map(str::to_owned)
        .collect();

    let metadata = Command::new(env!("CARGO"))
        .args([
            "metadata",
            "--format-version=1",
            "--locked",
            "--filter-platform=x86_64-unknown-linux-gnu",
        ])
        .current_dir(root)
        .output()
        .expect("cargo starts");
    assert!(
        metadata.status.success(),
        "{}",
        String::from_utf8_lossy(&metadata.stderr)
    );
    let metadata: serde_json::Value =
        serde_json::from_slice(&metadata.stdout).expect("cargo prints JSON");
    let packages = metadata["packages"].as_array().expect("packages");
    assert!(packages.len() > 1);
    for package in packages {
        let licence = package["license"].as_str().unwrap_or("no licence");
        assert!(
            allows(licence, &allowed),
            "{} is under {licence}",
            package["name"]
        );
    }
}
