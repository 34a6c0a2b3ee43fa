//! The summary for the reviewer, as Markdown.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{Display, Write};

/// The most characters of a text from an input that the summary shows.
const SHOWN: usize = 120;

/// The most names of one kind that the summary shows; the rest is counted.
const NAMES: usize = 200;

/// What a refresh found. Each line is Markdown; texts from inputs are in it as [`shown`] gives
/// them.
#[derive(Default)]
pub struct Report {
    /// Checksums and sizes that differ for the same file.
    pub alarms: Vec<String>,
    /// Inputs that are damaged or hostile, by name.
    pub refused: Vec<String>,
    /// Facts that were added.
    pub new: Vec<String>,
    /// Facts that differ from the database, which is left as it is.
    pub differ: Vec<String>,
    /// Facts that the inputs alone do not give.
    pub manual: Vec<String>,
    /// Inputs, or parts of them, that were not understood, by reason.
    pub unknown: BTreeMap<String, BTreeSet<String>>,
    /// What the database leaves out, by reason.
    pub left_out: BTreeMap<String, BTreeSet<String>>,
    /// What the golden hosts get after the change.
    pub hosts: Vec<String>,
    /// The results of the checks after the change.
    pub checks: Vec<String>,
    /// What the reviewer does next.
    pub commands: Vec<String>,
    /// The number of archives whose checksum and size are those of the database.
    pub same: usize,
}

/// A text from an input on one line of Markdown: control characters are escaped, and long texts are
/// cut.
pub fn shown(text: impl Display) -> String {
    let text = text.to_string();
    let mut plain: String = text
        .chars()
        .take(SHOWN)
        .flat_map(char::escape_debug)
        .collect();
    if text.chars().count() > SHOWN {
        plain.push('…');
    }
    format!(
        "`{}`",
        plain
            .replace("\\'", "'")
            .replace("\\\"", "\"")
            .replace('`', "'")
    )
}

impl Report {
    /// Notes something that was not understood.
    pub fn unknown(&mut self, reason: impl Into<String>, name: impl Display) {
        self.unknown
            .entry(reason.into())
            .or_default()
            .insert(shown(name));
    }

    /// Notes something that the database leaves out on purpose.
    pub fn leave_out(&mut self, reason: impl Into<String>, name: impl Display) {
        self.left_out
            .entry(reason.into())
            .or_default()
            .insert(shown(name));
    }

    /// Whether nothing may be written.
    pub fn forbids_writing(&self) -> bool {
        !self.alarms.is_empty() || !self.refused.is_empty()
    }

    /// The whole summary; `outcome` says what was written.
    pub fn markdown(&self, from: &str, outcome: &str) -> String {
        let mut out = format!("# Facts from {}\n\n{outcome}\n", shown(from));
        let new = if self.forbids_writing() {
            "New, and not written"
        } else {
            "New"
        };
        let lists: [(&str, &[String]); 4] = [
            (
                "ALARM: published checksums or sizes differ from the database",
                &self.alarms,
            ),
            ("Refused inputs", &self.refused),
            (new, &self.new),
            (
                "Facts that differ; the database was left as it is",
                &self.differ,
            ),
        ];
        for (title, lines) in lists {
            if !lines.is_empty() {
                section(&mut out, title, lines);
            }
        }
        if self.new.is_empty() {
            section(&mut out, "New", &["nothing".to_owned()]);
        }
        section(&mut out, "What changes for the golden hosts", &self.hosts);
        if !self.manual.is_empty() {
            section(&mut out, "Requires manual action", &self.manual);
        }
        let nothing = BTreeMap::from([("nothing".to_owned(), BTreeSet::new())]);
        let unknown = if self.unknown.is_empty() {
            &nothing
        } else {
            &self.unknown
        };
        section(&mut out, "Not understood", &grouped(unknown));
        if !self.left_out.is_empty() {
            section(&mut out, "Left out on purpose", &grouped(&self.left_out));
        }
        let same = format!(
            "{} listed archives have the checksum and the size of the database",
            self.same
        );
        section(&mut out, "Checks", &[&self.checks[..], &[same]].concat());
        if !self.commands.is_empty() {
            let _ = write!(
                out,
                "\n## Next\n\n```sh\n{}\n```\n",
                self.commands.join("\n")
            );
        }
        out
    }
}

fn section(out: &mut String, title: &str, lines: &[String]) {
    let _ = write!(out, "\n## {title}\n\n");
    for line in lines {
        let _ = writeln!(out, "- {line}");
    }
}

fn grouped(all: &BTreeMap<String, BTreeSet<String>>) -> Vec<String> {
    let line = |(reason, names): (&String, &BTreeSet<String>)| {
        let mut line = reason.clone();
        let listed: Vec<_> = names.iter().take(NAMES).map(String::as_str).collect();
        if !names.is_empty() {
            let _ = write!(line, ": {}", listed.join(", "));
        }
        if names.len() > NAMES {
            let _ = write!(line, " and {} more", names.len() - NAMES);
        }
        line
    };
    all.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_inputs_stay_on_one_line() {
        assert_eq!(shown("a\n## b`c\u{1b}[0m"), "`a\\n## b'c\\u{1b}[0m`");
        assert_eq!(shown("it's \"x\""), "`it's \"x\"`");
        assert!(shown("x".repeat(100_000)).len() < 200);
    }
}
