//! Links for terminals (OSC 8): added to a text that is already broken into lines, so that no line
//! becomes shorter.

use std::fmt::Write;

/// The longest address that becomes a link; terminals ignore longer ones.
const MAX_LINK: usize = 2000;

/// The text with every address as a link to itself, and every path for which `of_path` has an
/// address as a link to that.
pub fn linked(text: &str, of_path: &dyn Fn(&str) -> Option<String>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find(|c: char| !is_between(c)) {
        let (between, after) = rest.split_at(start);
        out += between;
        let (word, after) = after.split_at(after.find(is_between).unwrap_or(after.len()));
        rest = after;
        // The letters of a colour belong to the escape before them.
        if let Some(colour) = between.ends_with('\x1b').then(|| word.find('m')).flatten() {
            let (colour, word) = word.split_at(colour + 1);
            out += colour;
            one(&mut out, word, of_path);
        } else {
            one(&mut out, word, of_path);
        }
    }
    out + rest
}

fn is_between(c: char) -> bool {
    c.is_whitespace() || c.is_control() || matches!(c, '"' | '\'' | '(' | ')' | '<' | '>' | '`')
}

fn one(out: &mut String, word: &str, of_path: &dyn Fn(&str) -> Option<String>) {
    let name = word.trim_end_matches([',', ';', ':', '.', '!', '?']);
    let is_address = ["https://", "http://"]
        .iter()
        .any(|scheme| name.starts_with(scheme) && name.len() > scheme.len());
    let address = match name {
        _ if is_address => Some(name.to_owned()),
        _ if name.starts_with('/') => of_path(name),
        _ => None,
    };
    match address.filter(|address| address.len() <= MAX_LINK && address.is_ascii()) {
        Some(address) => {
            let _ = write!(
                out,
                "\x1b]8;;{address}\x1b\\{name}\x1b]8;;\x1b\\{}",
                &word[name.len()..]
            );
        }
        None => *out += word,
    }
}

/// The address of a file on a machine of this name.
pub fn of_file(host: &str, path: &str) -> String {
    let mut out = String::from("file://");
    for byte in host.bytes().chain(path.bytes()) {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' | b'~' | b'+' => {
                out.push(byte.into())
            }
            byte => {
                let _ = write!(out, "%{byte:02X}");
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::without_escapes;

    fn opened(address: &str, name: &str) -> String {
        format!("\x1b]8;;{address}\x1b\\{name}\x1b]8;;\x1b\\")
    }

    #[test]
    fn addresses_and_known_files_become_links_and_nothing_else_changes() {
        let of_path =
            |path: &str| (path == "/etc/f g" || path == "/etc/f").then(|| of_file("h", path));
        let a = opened("https://a.example/x", "https://a.example/x");
        let f = opened("file://h/etc/f", "/etc/f");
        for (text, want) in [
            ("see https://a.example/x.", format!("see {a}.")),
            (
                "(https://a.example/x),\n  \x1b[2m/etc/f\x1b[0m: x",
                format!("({a}),\n  \x1b[2m{f}\x1b[0m: x"),
            ),
            (
                "\x1b[1mhttps://a.example/x\x1b[0m",
                format!("\x1b[1m{a}\x1b[0m"),
            ),
            ("/etc/g https:// http", "/etc/g https:// http".to_owned()),
            ("sudo sh -c 'cat /etc/f'", format!("sudo sh -c 'cat {f}'")),
            ("", String::new()),
        ] {
            let out = linked(text, &of_path);
            assert_eq!(out, want, "{text}");
            assert_eq!(without_escapes(&out), without_escapes(text), "{text}");
        }
    }

    #[test]
    fn an_address_has_nothing_that_ends_it() {
        let text = format!("https://a/{}", "x".repeat(MAX_LINK));
        assert_eq!(linked(&text, &|_| None), text);
        assert_eq!(
            linked("https://a/é https://a\u{7}b", &|_| None),
            format!("https://a/é {}\u{7}b", opened("https://a", "https://a"))
        );
        assert_eq!(of_file("h\x1b", "/a b\\"), "file://h%1B/a%20b%5C");
    }
}
