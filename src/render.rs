//! How results look: text for people, scripts, progress. Made from the values that JSON is made from, so that the two
//! cannot disagree; nothing is decided here.

pub mod cloud_init;
pub mod db;
pub mod doctor;
pub mod explain;
pub mod facts;
pub mod matrix;
pub mod plan;
pub mod progress;
pub mod report;
pub mod script;

/// Colours, or none.
#[derive(Debug, Clone, Copy)]
pub struct Paint {
    on: bool,
}

impl Paint {
    /// With colours, or without.
    pub fn new(on: bool) -> Self {
        Self { on }
    }

    fn with(self, code: &str, text: &str) -> String {
        if self.on { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }

    /// A heading.
    pub fn bold(self, text: &str) -> String {
        self.with("1", text)
    }

    /// What matters less.
    pub fn dim(self, text: &str) -> String {
        self.with("2", text)
    }

    /// What is well.
    pub fn green(self, text: &str) -> String {
        self.with("32", text)
    }

    /// What needs an eye.
    pub fn yellow(self, text: &str) -> String {
        self.with("33", text)
    }

    /// What is wrong.
    pub fn red(self, text: &str) -> String {
        self.with("31", text)
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
    if value < 9.95 { format!("{value:.1} {}", UNITS[unit]) } else { format!("{value:.0} {}", UNITS[unit]) }
}

/// `text` in lines of at most `width` columns, the first behind `first`, the others behind as many spaces. A word that is
/// longer than a line has a line of its own.
pub fn wrapped(first: &str, text: &str, width: usize) -> String {
    let indent = first.chars().count();
    let (mut out, mut column) = (first.to_owned(), indent);
    for word in text.split_whitespace() {
        let length = word.chars().count();
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

/// One of something, or several: `1 reboot`, `2 reboots`.
pub fn count(number: u64, what: &str) -> String {
    if number == 1 { format!("1 {what}") } else { format!("{number} {what}s") }
}

/// Text as it may stand in an element of HTML or an attribute.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn lines_are_filled_and_no_wider() {
        let text = wrapped("why  ", "one two three four five six seven", 16);
        assert_eq!(text, "why  one two\n     three four\n     five six\n     seven\n");
        assert_eq!(wrapped("- ", "a-word-that-is-longer-than-that b", 10), "- a-word-that-is-longer-than-that\n  b\n");
    }
}
