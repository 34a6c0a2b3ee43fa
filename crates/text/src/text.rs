//! Text from elsewhere: facts, plans, archives, programs and servers may say anything. What could
//! move a terminal's cursor, begin a new line or hide letters is made visible before it is shown or
//! stored.

pub mod link;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::borrow::Cow;
use std::path::Path;
use unicode_width::UnicodeWidthStr;

/// Whether a character does something else than stand where it is written: control characters, line
/// and paragraph separators, bidirectional controls, and letters without a width or a shape.
pub fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}'
            | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// The text in one line, each hidden character replaced by U+FFFD.
pub fn visible(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_hidden) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(
        text.chars()
            .map(|c| {
                if is_hidden(c) {
                    char::REPLACEMENT_CHARACTER
                } else {
                    c
                }
            })
            .collect(),
    )
}

/// The same with a blank for what only separates words: tabs and the ends of lines.
pub fn one_line(text: &str) -> String {
    visible(&text.replace(['\n', '\r', '\t'], " ")).into_owned()
}

/// The text without a terminal's escape sequences: colours and the cursor (CSI), titles and links
/// (OSC). None reaches beyond its line.
pub fn without_escapes(text: &str) -> Cow<'_, str> {
    if !text.contains('\x1b') {
        return Cow::Borrowed(text);
    }
    let mut pieces = text.split('\x1b');
    let first = pieces.next().unwrap_or_default();
    let visible = pieces.map(|piece| {
        let (line_end, mut chars) = (piece.find('\n').unwrap_or(piece.len()), piece.chars());
        let end = match chars.next() {
            Some('[') => chars
                .as_str()
                .find(|c| matches!(c, '\x40'..='\x7e'))
                .map(|at| at + 2),
            // The other end is a bell, or an escape of its own with a backslash.
            Some(']') => piece.find('\x07').map(|at| at + 1).or(Some(piece.len())),
            Some(c) => Some(c.len_utf8()),
            None => Some(0),
        };
        &piece[end.unwrap_or(line_end).min(line_end)..]
    });
    Cow::Owned([first].into_iter().chain(visible).collect())
}

/// The text with ASCII in place of our own typographic signs; names of others stay.
pub fn ascii(text: &str) -> Cow<'_, str> {
    if text.is_ascii() {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '×' => out.push('x'),
            '–' | '—' => out.push('-'),
            '…' => out += "...",
            '→' => out += "->",
            '≥' => out += ">=",
            '≤' => out += "<=",
            c => out.push(c),
        }
    }
    Cow::Owned(out)
}

/// A message of one line or several: the second and later ones are indented, so that none of them
/// passes for a message of its own.
pub fn message(text: &str) -> String {
    text.trim_end()
        .lines()
        .map(one_line)
        .collect::<Vec<_>>()
        .join("\n    ")
}

/// A path as a shell reads it back unchanged.
pub fn quoted_path(path: &Path) -> String {
    quoted(&path.display().to_string())
}

/// A word as a shell reads it back unchanged. zsh puts the path of a command in place of
/// `=command`.
pub fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=+,@%".contains(c);
    if !word.is_empty() && !word.starts_with('=') && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

/// Bytes of the word that [`quoted`] put between quotes at the start of a text, with the quotes.
pub fn length_of_quoted(text: &str) -> Option<usize> {
    let mut end = text.starts_with('\'').then_some(0)?;
    loop {
        end += 1 + text[end + 1..].find('\'')? + 1;
        match text[end..].starts_with("\\''") {
            true => end += 2,
            false => return Some(end),
        }
    }
}

/// The word that [`quoted`] put between quotes at the start of a text.
pub fn quoted_at_start(text: &str) -> Option<String> {
    let word = &text[..length_of_quoted(text)?];
    Some(word[1..word.len() - 1].replace("'\\''", "'"))
}

/// A JSON value whose texts and keys are all [`visible`].
pub fn visible_json(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(visible(&text).into_owned()),
        Value::Array(values) => Value::Array(values.into_iter().map(visible_json).collect()),
        Value::Object(map) => map
            .into_iter()
            .map(|(key, value)| (visible(&key).into_owned(), visible_json(value)))
            .collect(),
        other => other,
    }
}

/// JSON text in which hidden characters are written by their numbers: it says the same. Line ends
/// are JSON's own.
pub fn json(text: &str) -> Cow<'_, str> {
    let hidden = |c: char| c != '\n' && is_hidden(c);
    if !text.contains(hidden) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match hidden(c) {
            true => c
                .encode_utf16(&mut [0; 2])
                .iter()
                .for_each(|unit| out += &format!("\\u{unit:04x}")),
            false => out.push(c),
        }
    }
    Cow::Owned(out)
}

/// A value whose texts are all [`visible`]; the value as it is where it has no form in JSON.
pub fn made_visible<T: Serialize + DeserializeOwned>(value: T) -> T {
    let Ok(text) = serde_json::to_string(&value) else {
        return value;
    };
    // JSON escapes what is below U+0020. Nearly always there is nothing to do.
    if !text.contains(|c| c == '\\' || is_hidden(c)) {
        return value;
    }
    serde_json::from_str(&text)
        .map(visible_json)
        .and_then(serde_json::from_value)
        .unwrap_or(value)
}

/// The first hidden character of a text of several lines, and where it begins. Tabs are none, nor
/// ends of lines, those of Windows included, nor the byte-order mark at the beginning.
pub fn hidden_in_lines(text: &str) -> Option<(usize, char)> {
    let is_plain = |(at, c): (usize, char)| match c {
        '\n' | '\t' => true,
        '\r' => text[at..].starts_with("\r\n"),
        '\u{feff}' => at == 0,
        c => !is_hidden(c),
    };
    text.char_indices().find(|found| !is_plain(*found))
}

/// The line and the column of a place in a text, given in bytes. Both count from 1, the column in
/// characters.
pub fn line_and_column(text: &str, at: usize) -> (usize, usize) {
    let before = text.get(..at).unwrap_or_default();
    let column = before
        .rsplit('\n')
        .next()
        .unwrap_or_default()
        .chars()
        .count();
    (before.matches('\n').count() + 1, column + 1)
}

/// The first text or key of a JSON value that holds a hidden character. The text below a key in
/// `except`, or each text of a list there, may have several lines, and tabs.
pub fn hidden_in<'a>(value: &'a Value, except: &[&str]) -> Option<&'a str> {
    let in_lines = |text: &&str| hidden_in_lines(text).is_some();
    match value {
        Value::String(text) => text.contains(is_hidden).then_some(text),
        Value::Array(values) => values.iter().find_map(|value| hidden_in(value, except)),
        Value::Object(map) => map.iter().find_map(|(key, value)| match value {
            _ if key.contains(is_hidden) => Some(key.as_str()),
            Value::String(text) if except.contains(&key.as_str()) => {
                Some(text.as_str()).filter(in_lines)
            }
            Value::Array(texts)
                if except.contains(&key.as_str()) && texts.iter().all(Value::is_string) =>
            {
                texts.iter().filter_map(Value::as_str).find(in_lines)
            }
            value => hidden_in(value, except),
        }),
        _ => None,
    }
}

/// A number of bytes as people say it: `4.3 GB`, by thousands, as NVIDIA counts.
pub fn bytes(count: u64) -> String {
    const UNITS: [&str; 4] = ["kB", "MB", "GB", "TB"];
    if count < 1000 {
        return format!("{count} B");
    }
    let (mut value, mut unit) = (count as f64 / 1000.0, 0);
    while value >= 999.5 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    if value < 9.95 {
        format!("{value:.1} {}", UNITS[unit])
    } else {
        format!("{value:.0} {}", UNITS[unit])
    }
}

/// An estimated time as people say it: `about 12 min`, no more exact than it can be known.
pub fn about(seconds: u64) -> String {
    match seconds.div_ceil(30) / 2 {
        0 => "less than a minute".to_owned(),
        minutes @ 1..=20 => format!("about {minutes} min"),
        minutes => match (minutes + 2) / 5 * 5 {
            minutes @ ..60 => format!("about {minutes} min"),
            minutes if minutes % 60 == 0 => format!("about {} h", minutes / 60),
            minutes => format!("about {} h {} min", minutes / 60, minutes % 60),
        },
    }
}

/// `text` in lines of at most `width` columns, the first behind `first`, the others behind as many
/// spaces. A word that is longer than a line has a line of its own.
pub fn wrapped(first: &str, text: &str, width: usize) -> String {
    let indent = columns(first);
    let (mut out, mut column) = (first.to_owned(), indent);
    if text.trim().is_empty() {
        return out.trim_end().to_owned() + "\n";
    }
    for word in text.split_whitespace() {
        let length = columns(word);
        if column > indent && column + 1 + length > width {
            out.push('\n');
            out.extend(std::iter::repeat_n(' ', indent));
            column = indent;
        }
        if column > indent {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += length;
    }
    out.push('\n');
    out
}

/// How many columns of a terminal a text takes: Hangul and other East Asian letters take two each,
/// colours and links none.
pub fn columns(text: &str) -> usize {
    without_escapes(text).width()
}

/// The text with blanks after it, so that it takes at least `width` columns.
pub fn padded(text: &str, width: usize) -> String {
    let blanks = width.saturating_sub(columns(text));
    text.chars()
        .chain(std::iter::repeat_n(' ', blanks))
        .collect()
}

/// One of something, or several: `1 reboot`, `2 reboots`.
pub fn count(number: u64, what: &str) -> String {
    counted(number, what, &format!("{what}s"))
}

/// The same with any plural: `2 NVSwitches`, `1 GPU responds`.
pub fn counted(number: u64, one: &str, several: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { several })
}

/// The most edits between a typo and the word that was meant.
pub const MAX_EDITS: usize = 2;

/// The one of these words that takes the fewest edits to get from a typo, if `most` are enough.
pub fn nearest<'a>(
    typo: &str,
    words: impl Iterator<Item = &'a str>,
    most: usize,
) -> Option<&'a str> {
    let with_edits = words.map(|word| (strsim::damerau_levenshtein(typo, word), word));
    with_edits
        .min_by_key(|(edits, _)| *edits)
        .filter(|(edits, _)| *edits <= most)
        .map(|(_, word)| word)
}

/// The words of a line, without quotation marks. What is in quotes is of one word.
pub fn unquoted_words(line: &str, is_between: impl Fn(char) -> bool) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), String::new(), None);
    for c in line.chars() {
        match (c, quote) {
            ('"' | '\'', None) => quote = Some(c),
            (c, Some(open)) if c == open => quote = None,
            (c, None) if is_between(c) => words.push(std::mem::take(&mut word)),
            (c, _) => word.push(c),
        }
    }
    words.push(word);
    words.retain(|word| !word.is_empty());
    words
}

/// Several things in a sentence: `Fabric Manager, nvlsm and DCGM`.
pub fn all_of<S: AsRef<str>>(things: &[S]) -> String {
    let each: Vec<_> = things.iter().map(AsRef::as_ref).collect();
    match each.as_slice() {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// GPUs in a sentence, by their bus addresses, of so many that the host has: `GPU 0000:17:00.0`,
/// `GPUs 0000:17:00.0 and 0000:2a:00.0`, `GPUs 0000:17:00.0, 0000:2a:00.0 and 3 more`, `all 8
/// GPUs`.
pub fn gpus_at<S: AsRef<str>>(addresses: &[S], of: usize) -> String {
    let each: Vec<_> = addresses.iter().map(AsRef::as_ref).collect();
    match each.as_slice() {
        [] => "no GPU".to_owned(),
        [one] => format!("GPU {one}"),
        [one, other] => format!("GPUs {one} and {other}"),
        [one, two, three] => format!("GPUs {one}, {two} and {three}"),
        all if all.len() == of => format!("all {of} GPUs"),
        [one, two, rest @ ..] => format!("GPUs {one}, {two} and {} more", rest.len()),
    }
}

/// A path for people: where a file was expected, somebody may have given an address.
pub fn public_path(path: &Path) -> String {
    public_address(&path.to_string_lossy()).into_owned()
}

/// An address without what lets anyone download the file: its login, and its query, in which signed
/// addresses have it, or fragment.
pub fn public_address(address: &str) -> Cow<'_, str> {
    // The login first: a password may have a question mark.
    let shown = without_logins(address);
    let is_address =
        matches!(shown, Cow::Owned(_)) || address.contains("://") || address.starts_with("http");
    match shown.find(['?', '#']).filter(|_| is_address) {
        Some(end) => Cow::Owned(shown[..end].to_owned()),
        None => shown,
    }
}

/// What ends the host of an address, or stands before an address.
const BESIDE_ADDRESSES: &[char] = &[
    '/', '?', '#', '"', '\'', '`', '<', '>', '|', '\\', '=', '(', '[', '{', ',', ';', ':', '&',
];

/// A text without the logins of the addresses in it: `https://user:password@mirror.example`. Who is
/// told that an address is wrong may have misspelt it, or have a slash in the password: what looks
/// like `user:password@` is a login without an address, too.
pub fn without_logins(text: &str) -> Cow<'_, str> {
    if !text.contains('@') {
        return Cow::Borrowed(text);
    }
    let (mut rest, mut out) = (text, String::new());
    while let Some(word) = rest.split_inclusive(char::is_whitespace).next() {
        rest = &rest[word.len()..];
        match start_of_cut_login(word)
            .zip(end_of_cut_login(rest))
            .filter(|_| !word.ends_with('\n'))
        {
            Some((start, end)) => {
                out += &word[..start];
                rest = &rest[end..];
            }
            None => out += &without_logins_in_word(word),
        }
    }
    if out == text {
        Cow::Borrowed(text)
    } else {
        Cow::Owned(out)
    }
}

/// Where a login begins whose password has a blank: `https://user:pass word@host`. What follows the
/// colon is no port.
fn start_of_cut_login(word: &str) -> Option<usize> {
    let start = word.rfind("://")? + 3;
    let (user, password) = word[start..].trim_end().split_once(':')?;
    let after_digits = password.trim_start_matches(|c: char| c.is_ascii_digit());
    let is_port =
        after_digits.len() < password.len() && !after_digits.starts_with(char::is_alphanumeric);
    let is_cut =
        !password.is_empty() && !password.starts_with(BESIDE_ADDRESSES) && !word.contains('@');
    (is_cut && !is_port && !user.contains(BESIDE_ADDRESSES)).then_some(start)
}

/// Where such a login ends: behind the last @ of the next word on the line that has one, unless
/// that is far away.
fn end_of_cut_login(rest: &str) -> Option<usize> {
    let mut near = rest
        .bytes()
        .take(MAX_PASSWORD)
        .take_while(|byte| *byte != b'\n');
    let at = near.position(|byte| byte == b'@')?;
    let word = rest[at..].split(char::is_whitespace).next()?;
    Some(at + word.rfind('@')? + 1)
}

/// Bytes of a password with blanks.
const MAX_PASSWORD: usize = 200;

/// Bytes of a word that may have addresses in it.
const MAX_ADDRESS: usize = 4096;

fn without_logins_in_word(word: &str) -> String {
    if word.len() > MAX_ADDRESS {
        return word.rsplit('@').next().unwrap_or_default().to_owned();
    }
    // From the end: the last @ of a login is the one before the host.
    let (mut before, mut out) = (word, String::new());
    while let Some(at) = before.rfind('@') {
        let after = &before[at + 1..];
        before = &before[..at];
        match start_of_login(before, after) {
            Some(start) => {
                out.insert_str(0, after);
                before = &before[..start];
            }
            None => out.insert_str(0, &format!("@{after}")),
        }
    }
    before.to_owned() + &out
}

/// Where a login begins that would end with this text, in front of an @; none if it is no login.
fn start_of_login(before: &str, after: &str) -> Option<usize> {
    let of_host = |c: char| !"/?#\"'`<>|\\".contains(c);
    if let Some(start) = before
        .rfind("://")
        .map(|at| at + 3)
        .filter(|start| before[*start..].chars().all(of_host))
    {
        return Some(start);
    }
    let is_digest = after.starts_with("sha256:") || after.starts_with("sha512:");
    before.match_indices(':').find_map(|(colon, _)| {
        let start = before[..colon]
            .rfind(BESIDE_ADDRESSES)
            .map_or(0, |at| at + 1);
        let (front, user, password) = (
            &before[..start],
            &before[start..colon],
            &before[colon + 1..],
        );
        // `nas:/data@snapshot` is none, and `https:/me:pw@host` is.
        let is_path =
            password.starts_with('/') && !password.contains(':') && !user.starts_with("http");
        // `3b:00.0@x` and `12:30@x` are none, and `2me:pw@host` is.
        let has_letter = user.contains(|c: char| c.is_ascii_alphabetic() && !c.is_ascii_hexdigit());
        let begins = |c: char| c.is_ascii_alphabetic() || c.is_ascii_digit() && has_letter;
        let is_name = user.starts_with(begins) && user != "mailto";
        let is_alone = is_name
            && !front.ends_with(['/', ':'])
            && !is_digest
            && !is_path
            && !password.starts_with("//");
        // In an address with a slash behind it, a number is rather the beginning of a password than
        // the port of a host that has no domain: `https://me:1234/pw@host`.
        let is_host = !front.ends_with("//") || user.contains('.') || user == "localhost";
        let is_port = |end: usize| {
            password[..end].parse::<u16>().is_ok() && (is_host || !password[end..].starts_with('/'))
        };
        // Where the login has ended before, this @ is of a path.
        let rest = password.trim_start_matches('/');
        let has_login = |end: usize| rest[..end].contains('@');
        ((front.ends_with("//") || is_alone)
            && !password.find(BESIDE_ADDRESSES).is_some_and(is_port)
            && !rest.find(|c| !of_host(c)).is_some_and(has_login))
        .then_some(start)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_word_is_quoted_for_every_shell() {
        for (word, written) in [
            ("a=b", "a=b"),
            ("=id", "'=id'"),
            ("", "''"),
            ("it's", "'it'\\''s'"),
            ("~", "'~'"),
        ] {
            assert_eq!(quoted(word), written);
        }
    }

    #[test]
    fn what_a_signed_address_gives_away_is_left_out() {
        let signed = "https://x.example/a/NVIDIA-grid.run?sig=secret&se=2027#part";
        assert_eq!(
            public_address(signed),
            "https://x.example/a/NVIDIA-grid.run"
        );
        assert_eq!(
            public_address("https://me:pw@x.example/a?sig=secret"),
            "https://x.example/a"
        );
        assert_eq!(
            public_address("https://me:p?w@x.example/a?sig=secret"),
            "https://x.example/a"
        );
        assert_eq!(
            public_address("https:/me:pw@x.example/a?sig=secret"),
            "x.example/a"
        );
        assert_eq!(
            public_address("https:/x.example/a?sig=secret"),
            "https:/x.example/a"
        );
        assert_eq!(public_address("/srv/what?.run#1"), "/srv/what?.run#1");
        assert_eq!(
            public_address("https://x.example/a#secret"),
            "https://x.example/a"
        );
    }

    #[test]
    fn no_login_is_in_a_text_for_people() {
        for (text, shown) in [
            ("https://me:S3CRET@x.example/d", "https://x.example/d"),
            (
                "cannot reach http://me:a@b@x:80: refused; try ftp://token@y",
                "cannot reach http://x:80: refused; try ftp://y",
            ),
            (
                "'https://me:pw@x' and \"https://me:pw@y\"",
                "'https://x' and \"https://y\"",
            ),
            (
                "[\"https://me:pw@x\",\"ftp://me:pw@y\"]",
                "[\"https://x\",\"ftp://y\"]",
            ),
            // Passwords with what ends a host.
            ("https://me:S3/CRET@x/d", "https://x/d"),
            ("https://me:/S3//CRET@x/d", "https://x/d"),
            ("https://me:70000/S3@x", "https://x"),
            ("https://:S3/CRET@x", "https://x"),
            ("a 'https://me:it's@x/d' b", "a 'https://x/d' b"),
            ("https://me:S3#C?R@x", "https://x"),
            ("https://me:pw@x/a@b:c", "https://x/a@b:c"),
            // Addresses that are misspelt, or none.
            ("there is no //me:S3CRET@x", "there is no //x"),
            ("http//me:S3/CRET@x", "http//x"),
            ("http//me@y.example:S3@x", "http//x"),
            ("https:/me:S3@x/d", "x/d"),
            ("https:/token@x/d", "x/d"),
            ("https:///me:S3@x", "https:///x"),
            ("https:me:S3@x", "x"),
            ("--mirror=me:S=3@x:3128", "--mirror=x:3128"),
            ("12:30,me:S3@x", "12:30,x"),
            ("2me:S3@x", "x"),
            ("https://me:1234/S3@x/d", "https://x/d"),
            ("https://me:S3 CRET@x/d", "https://x/d"),
            (
                "'https://me:S3 C R@E@x/d' and mail me@x",
                "'https://x/d' and mail me@x",
            ),
            // What is no login.
            ("https://x.example/a@b?c=d@e", "https://x.example/a@b?c=d@e"),
            (
                "https://x.example, mail me@x.example",
                "https://x.example, mail me@x.example",
            ),
            (
                "https://x.example:8080/@a/b:c@d",
                "https://x.example:8080/@a/b:c@d",
            ),
            ("https://[::1]:8080/a@b", "https://[::1]:8080/a@b"),
            ("file:///srv/a@b", "file:///srv/a@b"),
            ("/srv/a:b@c", "/srv/a:b@c"),
            (
                "root@host user@10.0.0.1:/path",
                "root@host user@10.0.0.1:/path",
            ),
            ("mailto:root@host", "mailto:root@host"),
            ("nas:/data@snapshot", "nas:/data@snapshot"),
            ("at 12:30@x, 0000:17:00.0@x", "at 12:30@x, 0000:17:00.0@x"),
            ("config.yaml:12:3@x", "config.yaml:12:3@x"),
            (
                "3b:00.0@x 10de:2331@x 10:30:00@x",
                "3b:00.0@x 10de:2331@x 10:30:00@x",
            ),
            (
                "http://x:80 and http://y:80/, mail me@x",
                "http://x:80 and http://y:80/, mail me@x",
            ),
            (
                "http://x: refused, mail me@x",
                "http://x: refused, mail me@x",
            ),
            ("http://me:x\nme@x", "http://me:x\nme@x"),
            ("http://localhost:5000/a@b", "http://localhost:5000/a@b"),
            ("ubuntu:24.04@sha256:ab", "ubuntu:24.04@sha256:ab"),
            (
                "nvcr.io/nvidia/cuda:12.4@sha256:ab",
                "nvcr.io/nvidia/cuda:12.4@sha256:ab",
            ),
            (
                "localhost:5000/repo/name@sha256:ab",
                "localhost:5000/repo/name@sha256:ab",
            ),
            (
                "cuda=12.4@x cuda@12.4 getty@tty1.service",
                "cuda=12.4@x cuda@12.4 getty@tty1.service",
            ),
        ] {
            assert_eq!(without_logins(text), shown);
        }
    }

    #[test]
    fn a_quoted_word_is_read_back() {
        for word in ["/a b", "/it's", "/'", "/a: b", "/'\\''"] {
            assert_eq!(
                quoted_at_start(&format!("{}: why, 'so'", quoted(word))).as_deref(),
                Some(word)
            );
        }
        assert_eq!(
            [quoted_at_start("/a: 'b'"), quoted_at_start("'a")],
            [None, None]
        );
    }

    #[test]
    fn several_things_are_one_enumeration() {
        assert_eq!(
            [
                all_of(&["a"]),
                all_of(&["a", "b"]),
                all_of(&["a", "b", "c"])
            ],
            ["a", "a and b", "a, b and c"]
        );
        assert_eq!(all_of::<&str>(&[]), "");
    }

    #[test]
    fn many_gpus_are_named_in_few_words() {
        let all: Vec<_> = (0..8)
            .map(|n| format!("0000:{:02x}:00.0", 0x17 + n))
            .collect();
        for (count, of, text) in [
            (1, 1, "GPU 0000:17:00.0"),
            (2, 2, "GPUs 0000:17:00.0 and 0000:18:00.0"),
            (3, 8, "GPUs 0000:17:00.0, 0000:18:00.0 and 0000:19:00.0"),
            (5, 8, "GPUs 0000:17:00.0, 0000:18:00.0 and 3 more"),
            (8, 8, "all 8 GPUs"),
        ] {
            assert_eq!(gpus_at(&all[..count], of), text);
        }
    }

    #[test]
    fn a_label_without_a_text_ends_without_blanks() {
        assert_eq!(wrapped("[x] Packages  ", "", 80), "[x] Packages\n");
    }

    #[test]
    fn json_says_the_same_without_hidden_characters() {
        let value = serde_json::json!({"a\u{9b}": ["\u{202e}x", "é\n", "\u{e0001}"]});
        let text = serde_json::to_string_pretty(&value).expect("JSON");
        let shown = json(&text);
        assert!(!shown.contains(|c| c != '\n' && is_hidden(c)), "{shown}");
        assert_eq!(serde_json::from_str::<Value>(&shown).expect("JSON"), value);
        assert!(matches!(json("{\n}"), Cow::Borrowed(_)));
    }

    #[test]
    fn a_shell_reads_a_word_back() {
        for word in [
            "", "plain", "a b", "it's", "$(id)", "a;b", "\\", "-n", "a\nb",
        ] {
            let ran = std::process::Command::new("sh")
                .args(["-c", &format!("printf %s. {}", quoted(word))])
                .output();
            assert_eq!(
                String::from_utf8_lossy(&ran.expect("sh runs").stdout),
                format!("{word}.")
            );
        }
    }

    #[test]
    fn what_moves_the_cursor_or_hides_letters_is_replaced() {
        for hidden in [
            "\n", "\r", "\u{1b}", "\0", "\u{7f}", "\u{9b}", "\u{202e}", "\u{2066}", "\u{2028}",
            "\u{200d}",
        ] {
            assert_eq!(visible(&format!("a{hidden}b")), "a\u{fffd}b", "{hidden:?}");
        }
        assert!(matches!(visible("Prüfung, 日本, 🎉"), Cow::Borrowed(_)));
    }

    #[test]
    fn a_later_line_of_a_message_is_indented() {
        assert_eq!(
            message("failed:\nhint: rm -rf /\u{1b}[2J\n"),
            "failed:\n    hint: rm -rf /\u{fffd}[2J"
        );
    }

    #[test]
    fn a_hidden_character_is_found_wherever_it_stands() {
        let found = |value: Value| hidden_in(&value, &["content"]).map(str::to_owned);
        assert_eq!(
            found(json!({"a": ["x", {"b": "y\n"}]})),
            Some("y\n".to_owned())
        );
        assert_eq!(found(json!({"a\u{1b}": 1})), Some("a\u{1b}".to_owned()));
        assert_eq!(found(json!({"content": "two\n\tlines", "mode": 420})), None);
        assert_eq!(
            found(json!({"content": "\u{feff}two\r\nlines\r\n"})),
            None,
            "as Windows writes it"
        );
        assert_eq!(found(json!({"content": "a\rb"})), Some("a\rb".to_owned()));
        assert_eq!(
            (
                hidden_in_lines("a\u{feff}"),
                line_and_column("a\nb\u{200b}", 3)
            ),
            (Some((1, '\u{feff}')), (2, 2))
        );
        assert_eq!(
            found(json!({"content": "\u{1b}[2J"})),
            Some("\u{1b}[2J".to_owned())
        );
        assert_eq!(found(json!({"content": ["two\nlines"]})), None);
        assert_eq!(
            found(json!({"content": ["two\nlines", "\r"]})),
            Some("\r".to_owned())
        );
        assert_eq!(
            found(json!({"content": [["two\nlines"]]})),
            Some("two\nlines".to_owned())
        );
        assert_eq!(found(visible_json(json!({"a\n": ["x\u{1b}"]}))), None);
    }

    #[test]
    fn bytes_are_said_shortly() {
        for (count, want) in [
            (0, "0 B"),
            (999, "999 B"),
            (1000, "1.0 kB"),
            (4_323_954_814, "4.3 GB"),
            (874_732_552, "875 MB"),
            (999_999, "1.0 MB"),
        ] {
            assert_eq!(bytes(count), want);
        }
    }

    #[test]
    fn estimates_are_rounded_to_what_can_be_known() {
        for (seconds, expected) in [
            (0, "less than a minute"),
            (29, "less than a minute"),
            (31, "about 1 min"),
            (100, "about 2 min"),
            (725, "about 12 min"),
            (1290, "about 20 min"),
            (1400, "about 25 min"),
            (3590, "about 1 h"),
            (5000, "about 1 h 25 min"),
        ] {
            assert_eq!(about(seconds), expected, "{seconds}");
        }
    }

    #[test]
    fn lines_are_filled_and_no_wider() {
        let text = wrapped("why  ", "one two three four five six seven", 16);
        assert_eq!(
            text,
            "why  one two\n     three four\n     five six\n     seven\n"
        );
        // Two columns for each letter, and no line ends inside a word.
        assert_eq!(
            wrapped("뜻  ", "커널 모듈이 없습니다", 14),
            "뜻  커널\n    모듈이\n    없습니다\n"
        );
        assert_eq!(
            (padded("뜻", 4), padded("means", 4)),
            ("뜻  ".to_owned(), "means".to_owned())
        );
        assert_eq!(
            wrapped("\x1b[1mwhy\x1b[0m  ", "one \x1b[2mtwo\x1b[0m three", 12),
            "\x1b[1mwhy\x1b[0m  one \x1b[2mtwo\x1b[0m\n     three\n"
        );
        assert_eq!(
            wrapped("- ", "a-word-that-is-longer-than-that b", 10),
            "- a-word-that-is-longer-than-that\n  b\n"
        );
    }
}
