//! Stanzas of `Field: value`, the format of all files of apt and dpkg.

use std::borrow::Cow;

/// The value of a field in a stanza, including continuation lines, without surrounding space.
pub(crate) fn field<'a>(stanza: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let mut start = 0;
    while start < stanza.len() {
        let end = memchr::memchr(b'\n', &stanza[start..]).map_or(stanza.len(), |at| start + at);
        let line = &stanza[start..end];
        if line.get(name.len()) == Some(&b':')
            && line[..name.len()].eq_ignore_ascii_case(name.as_bytes())
        {
            return Some(stanza[start + name.len() + 1..value_end(stanza, end)].trim_ascii());
        }
        start = end + 1;
    }
    None
}

/// The end of a value whose first line ends at `end`: lines that begin with white space continue
/// it.
fn value_end(stanza: &[u8], mut end: usize) -> usize {
    while matches!(stanza.get(end + 1), Some(b' ' | b'\t')) {
        end = memchr::memchr(b'\n', &stanza[end + 1..]).map_or(stanza.len(), |at| end + 1 + at);
    }
    end
}

/// The value of a field as text; empty if the field is missing.
pub(crate) fn text<'a>(stanza: &'a [u8], name: &str) -> Cow<'a, str> {
    String::from_utf8_lossy(field(stanza, name).unwrap_or_default())
}

/// The words of a field's value.
pub(crate) fn words(stanza: &[u8], name: &str) -> Vec<String> {
    let text = text(stanza, name);
    text.split_whitespace().map(str::to_owned).collect()
}

/// The name of a stanza's package in apt's lower-case spelling; none if it has no name.
pub(crate) fn package(stanza: &[u8]) -> Option<Cow<'_, [u8]>> {
    let name = match stanza.strip_prefix(b"Package: ") {
        Some(rest) => rest[..memchr::memchr(b'\n', rest).unwrap_or(rest.len())].trim_ascii(),
        None => field(stanza, "Package")?,
    };
    Some(match name.iter().any(u8::is_ascii_uppercase) {
        true => Cow::Owned(name.to_ascii_lowercase()),
        false => Cow::Borrowed(name),
    })
}

/// The stanzas of a file, without comments: lines that begin with `#`.
pub(crate) fn stanzas(text: &str) -> Vec<String> {
    let mut stanzas = vec![String::new()];
    for line in text
        .lines()
        .map(|line| line.trim_end_matches('\r'))
        .filter(|line| !line.starts_with('#'))
    {
        match (line.trim().is_empty(), stanzas.last_mut()) {
            (false, Some(stanza)) => {
                stanza.push_str(line);
                stanza.push('\n');
            }
            _ => stanzas.push(String::new()),
        }
    }
    stanzas.retain(|stanza| !stanza.is_empty());
    stanzas
}

/// The value of a switch as apt parses it; none for anything else.
pub(crate) fn switch(value: &str) -> Option<bool> {
    match &*value.to_ascii_lowercase() {
        "yes" | "true" | "with" | "on" | "enable" | "1" => Some(true),
        "no" | "false" | "without" | "off" | "disable" | "0" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_in_any_case_and_with_their_further_lines() {
        let stanza = b"Package: a\nDepends: b,\n c\n\t d\nversion:1\nSize:";
        assert_eq!(text(stanza, "Depends"), "b,\n c\n\t d");
        assert_eq!(
            (
                text(stanza, "Version"),
                text(stanza, "Size"),
                field(stanza, "Sizes")
            ),
            ("1".into(), "".into(), None)
        );
        assert_eq!(package(stanza).as_deref(), Some(&b"a"[..]));
        assert_eq!(
            package(b"Version: 1\npackage:Abc\n").as_deref(),
            Some(&b"abc"[..])
        );
        assert_eq!(package(b"Version: 1\n"), None);
        assert_eq!(field(b"X: a\n ", "X"), Some(&b"a"[..]));
        assert_eq!(
            stanzas("# x\n\nA: 1\n# y\nB: 2\r\n  \n\nC: 3"),
            ["A: 1\nB: 2\n", "C: 3\n"]
        );
    }
}
