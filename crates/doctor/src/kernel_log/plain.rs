//! A log as lines of text: without the colours of a terminal, and read from the JSON of journalctl
//! and dmesg.

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, SeqAccess, Visitor};
use std::borrow::Cow;
use std::fmt;

/// The log as lines of text; a log that is plain already is not copied.
pub(crate) fn plain(log: &str) -> Cow<'_, str> {
    let log = log.trim_start_matches('\u{feff}');
    if log.trim_start().starts_with('{') {
        return Cow::Owned(of_json(log));
    }
    without_colours(log)
}

/// Without what `dmesg --color` writes. Other escapes stay: one of them, as the end of a program's
/// name, would take the process's number with it, by which the line is known to be a program's.
fn without_colours(log: &str) -> Cow<'_, str> {
    if !log.contains('\x1b') {
        return Cow::Borrowed(log);
    }
    let mut pieces = log.split('\x1b');
    let mut out = String::with_capacity(log.len());
    out += pieces.next().unwrap_or_default();
    for piece in pieces {
        match piece
            .strip_prefix('[')
            .map(|rest| rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == ';'))
        {
            Some(rest) if rest.starts_with('m') => out += &rest[1..],
            _ => {
                out.push('\x1b');
                out += piece;
            }
        }
    }
    Cow::Owned(out)
}

/// An entry of journalctl's, or all of dmesg's.
#[derive(Deserialize)]
struct Entry {
    #[serde(rename = "_TRANSPORT")]
    transport: Option<String>,
    #[serde(rename = "SYSLOG_IDENTIFIER")]
    identifier: Option<Text>,
    #[serde(rename = "_SOURCE_MONOTONIC_TIMESTAMP")]
    kernels_time: Option<String>,
    #[serde(rename = "MESSAGE")]
    message: Option<Text>,
    dmesg: Option<Records>,
}

/// A record of `dmesg --json`.
#[derive(Deserialize)]
struct Record {
    pri: Option<u32>,
    time: Option<f64>,
    msg: Option<String>,
}

/// A text that journalctl writes as the numbers of its bytes, if it is not all printable; of a
/// field with several values nothing is read.
#[derive(Deserialize)]
#[serde(untagged)]
enum Text {
    Printable(String),
    Bytes(Vec<u8>),
    Several(IgnoredAny),
}

impl Text {
    fn text(&self) -> Option<Cow<'_, str>> {
        match self {
            Self::Printable(text) => Some(Cow::Borrowed(text)),
            Self::Bytes(bytes) => Some(String::from_utf8_lossy(bytes)),
            Self::Several(_) => None,
        }
    }
}

/// The records of `dmesg --json` as lines. They are written as they are read: as values, millions
/// of empty ones would take much memory.
struct Records(String);

impl<'de> Deserialize<'de> for Records {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_seq(IntoLines)
    }
}

struct IntoLines;

impl<'de> Visitor<'de> for IntoLines {
    type Value = Records;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the records of dmesg")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut all: A) -> Result<Records, A::Error> {
        let mut lines = String::new();
        while let Some(record) = all.next_element::<Record>()? {
            let Some(message) = record.msg else { continue };
            // The facilities behind the first eight numbers are those of programs.
            match record.pri.is_none_or(|priority| priority < 8) {
                true => write(&mut lines, record.time, &message),
                false => lines += NOT_THE_KERNELS,
            }
        }
        Ok(Records(lines))
    }
}

/// A line that is known to be of another program.
const NOT_THE_KERNELS: &str = "<14>\n";

/// The texts of JSON as lines, an entry of journalctl's on each; from the first mistake on, the log
/// stays as it is.
fn of_json(log: &str) -> String {
    let mut lines = String::new();
    let mut entries = serde_json::Deserializer::from_str(log).into_iter::<Entry>();
    let mut read = 0;
    while let Some(Ok(entry)) = entries.next() {
        let end = entries.byte_offset();
        match entry {
            Entry {
                dmesg: Some(Records(records)),
                ..
            } => lines += &records,
            entry if entry.message.is_none() => lines += log[read..end].trim_start(),
            entry if !entry.is_kernels() => lines += NOT_THE_KERNELS,
            entry => {
                let microseconds = entry
                    .kernels_time
                    .as_ref()
                    .and_then(|time| time.parse::<u64>().ok());
                let message = entry
                    .message
                    .as_ref()
                    .and_then(Text::text)
                    .unwrap_or_default();
                write(
                    &mut lines,
                    microseconds.map(|time| time as f64 / 1e6),
                    &message,
                );
            }
        }
        read = end;
    }
    lines + &log[read..]
}

impl Entry {
    /// Whether the kernel wrote it. The journal itself knows who wrote an entry, where that was not
    /// left out.
    fn is_kernels(&self) -> bool {
        match &self.transport {
            Some(transport) => transport == "kernel",
            None => self
                .identifier
                .as_ref()
                .and_then(Text::text)
                .is_some_and(|name| name == "kernel"),
        }
    }
}

/// Writes a message as dmesg does: its further lines are indented.
fn write(lines: &mut String, time: Option<f64>, message: &str) {
    *lines += &time.map_or_else(|| "kernel: ".to_owned(), |time| format!("[{time:12.6}] "));
    *lines += &message.replace('\n', "\n               ");
    lines.push('\n');
}
