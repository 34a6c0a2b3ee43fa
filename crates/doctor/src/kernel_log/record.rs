//! Which lines of a log are one message. The kernel names programs, files and options in its
//! messages, which any user chooses and which may have line breaks: what follows one looks like
//! another message.

use super::line::{Line, Origin};
use super::says::{error_in, is_drivers, is_of_program};

/// The longest message, in bytes: the kernel writes no more than a KiB, of which dmesg may write
/// each byte as `\x1b`.
const MAX_MESSAGE: usize = 4096;

/// The longest name of a file, in bytes.
const MAX_NAME: usize = 255;

/// What a line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// A message, or its first line.
    Message,
    /// A further line of a message that names what a user chose.
    Further,
    /// Either of the two: nothing tells which.
    Doubtful,
}

/// Tells which lines begin a message.
#[derive(Default)]
pub(crate) struct Records<'a> {
    first: Option<First<'a>>,
}

/// The first line of a message.
struct First<'a> {
    line: Line<'a>,
    /// Whether it names something that a user chose; none if nobody asked yet.
    names: Option<bool>,
    /// Whether the name of a file has no end yet.
    is_open: Option<bool>,
    /// How many bytes the further lines have.
    length: usize,
}

impl<'a> Records<'a> {
    /// What the next line is.
    pub(crate) fn place(&mut self, line: Line<'a>) -> Part {
        if let Some(part) = self.first.as_mut().and_then(|first| first.goes_on(&line)) {
            return part;
        }
        self.first = Some(First {
            line,
            names: None,
            is_open: None,
            length: 0,
        });
        Part::Message
    }
}

impl First<'_> {
    fn goes_on(&mut self, line: &Line) -> Option<Part> {
        let is_indented = line.indent > self.line.indent;
        let is_without_stamp = line.origin == Origin::Bare && self.line.origin != Origin::Bare;
        if !self.may_go_on(line, is_indented || is_without_stamp) {
            return None;
        }
        if self.line.message.contains("the client has the version ") {
            // A program chose the version in it. The driver's own further lines name no error.
            return Some(match error_in(line.message) {
                Some(_) => Part::Doubtful,
                None => Part::Message,
            });
        }
        if !*self
            .names
            .get_or_insert_with(|| names_what_users_choose(self.line.message))
        {
            return None;
        }
        self.length += line.message.len() + 1;
        if self.is_open() && has_mapping(line.message) {
            self.is_open = Some(false);
        }
        Some(if is_indented && is_without_stamp {
            Part::Further
        } else {
            Part::Doubtful
        })
    }

    /// dmesg and journalctl indent further lines, and programs that read /proc/kmsg begin all with
    /// the same time. Without such a time, the name that a report of a crash ends with may be seen
    /// to have no end.
    fn may_go_on(&mut self, line: &Line, is_set_off: bool) -> bool {
        let is_of_same_time = line.uptime.is_some() && line.uptime == self.line.uptime;
        (is_set_off || is_of_same_time && line.is_exact) && self.length < MAX_MESSAGE
            || (line.uptime.is_none() || is_of_same_time) && self.is_open()
    }

    fn is_open(&mut self) -> bool {
        let message = self.line.message;
        self.length <= MAX_NAME && *self.is_open.get_or_insert_with(|| is_of_open_name(message))
    }
}

/// Whether a message names a program, a file, an option or something else that a user chose:
/// `python3[4242]: segfault at …`, `process '/home/…' started with executable stack`. The driver
/// names programs, too, but these names are too short for a message.
pub(crate) fn names_what_users_choose(message: &str) -> bool {
    !is_drivers(message)
        && (is_of_program(message)
            || message.contains(['\'', '"', '`'])
            || message.contains("segfault at ")
            || message.contains(" /")
            || message.starts_with('/')
            || has_mapping(message))
}

/// Whether a report of a crash ends within the name of a file: `a[1]: segfault at 0 ip … error 4 in
/// x`.
fn is_of_open_name(message: &str) -> bool {
    message.split_once(" in ").is_some_and(|(_, name)| {
        (is_of_program(message) || message.contains("segfault at ")) && !has_mapping(name)
    })
}

/// Whether a text has the addresses that follow the name of a file in a report of a crash:
/// `[55d000+1000]`.
fn has_mapping(text: &str) -> bool {
    text.match_indices('[').any(|(at, _)| {
        let inside = &text[at + 1..];
        let start = hexadecimal_digits(inside);
        let Some(size) = inside[start..].strip_prefix('+') else {
            return false;
        };
        start > 0
            && hexadecimal_digits(size) > 0
            && size[hexadecimal_digits(size)..].starts_with(']')
    })
}

fn hexadecimal_digits(text: &str) -> usize {
    text.bytes().take_while(u8::is_ascii_hexdigit).count()
}
