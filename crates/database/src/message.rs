//! Messages that people see when an NVIDIA stack is broken, and their causes: the rows of
//! `explain/messages.yaml`.
//!
//! They are no part of the compatibility database: only `explain` reads them, and a plan must not
//! pay for them.

use crate::yaml;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt::Write;

/// The fewest characters of a pattern's longest piece: shorter ones are in ordinary logs as well.
pub(crate) const SHORTEST_PIECE: usize = 8;

/// A message that a driver, a program or a package manager prints.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Message {
    /// Its name: `smi-no-driver`.
    pub id: String,
    /// A title of at most 60 characters.
    pub title: String,
    /// Any one of them tells the message: literal text of one line, compared without regard to
    /// ASCII case and to the width of white space; `*` stands for anything in between. A leading
    /// `^` and a final `$` stand for the two ends of a line.
    pub patterns: Vec<String>,
    /// Text that says, on the same lines, that the message is another program's: `HIP error:`
    /// before a message that CUDA has, too.
    #[serde(default)]
    pub unless: Vec<String>,
    /// What the message itself means.
    pub says: String,
    /// Its causes, the most frequent first. None if none is established.
    #[serde(default)]
    pub causes: Vec<MessageCause>,
    /// More specific messages: in a text that has one of these too, this one is only a symptom.
    #[serde(default)]
    pub explained_by: Vec<String>,
    /// The addresses of threads and documents in which the causes were confirmed.
    pub sources: Vec<String>,
}

/// A cause of a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MessageCause {
    /// The cause, in a sentence.
    pub because: String,
    /// The command that tells this cause from the others.
    #[serde(default)]
    pub tell: Option<String>,
    /// What that command shows if this is the cause.
    #[serde(default)]
    pub look: Option<String>,
    /// Checks of doctor that find this cause, such as `GS203`.
    #[serde(default)]
    pub checks: Vec<String>,
    /// What to do, in a sentence.
    #[serde(rename = "do")]
    pub remedy: String,
    /// Commands to paste.
    #[serde(default)]
    pub run: Vec<String>,
}

/// The shape of the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    messages: Vec<Message>,
}

/// The messages of the file's text.
///
/// # Errors
///
/// If it does not have the shape of messages, or one of them cannot be looked for; every such line
/// is in the text.
pub fn parse(text: &str) -> Result<Vec<Message>, String> {
    let File { messages } = yaml::read(text).map_err(|e| e.to_string())?;
    let ids: BTreeSet<_> = messages.iter().map(|m| m.id.as_str()).collect();
    let mut wrong = String::new();
    let mut seen = BTreeSet::new();
    for message in &messages {
        let problem = |problem: &str| format!("message {}: {problem}\n", message.id);
        if !seen.insert(&message.id) {
            wrong += &problem("its id is there twice");
        }
        if message.title.chars().count() > 60 {
            wrong += &problem("its title has more than 60 characters");
        }
        if message.patterns.is_empty() {
            wrong += &problem("it has no pattern");
        }
        if message.sources.is_empty() {
            wrong += &problem("it has no source");
        }
        for pattern in &message.patterns {
            if longest_piece(pattern).len() < SHORTEST_PIECE {
                let _ = writeln!(
                    wrong,
                    "message {}: no piece of `{pattern}` has {SHORTEST_PIECE} characters",
                    message.id
                );
            }
        }
        for other in message
            .explained_by
            .iter()
            .filter(|other| !ids.contains(other.as_str()) || **other == message.id)
        {
            wrong += &problem(&format!("it cannot be explained by `{other}`"));
        }
    }
    if wrong.is_empty() {
        Ok(messages)
    } else {
        Err(wrong)
    }
}

/// Whether a pattern begins where a line begins, and ends where a line ends.
pub fn anchors(pattern: &str) -> (bool, bool) {
    (pattern.starts_with('^'), pattern.ends_with('$'))
}

/// The literal pieces of a pattern, in their order.
pub fn pieces(pattern: &str) -> impl Iterator<Item = &str> {
    let pattern = pattern.strip_prefix('^').unwrap_or(pattern);
    let pattern = pattern.strip_suffix('$').unwrap_or(pattern);
    pattern
        .split('*')
        .map(str::trim)
        .filter(|piece| !piece.is_empty())
}

/// The piece that a text is searched for; the first of the longest ones.
pub fn longest_piece(pattern: &str) -> &str {
    pieces(pattern).fold("", |longest, piece| {
        if piece.len() > longest.len() {
            piece
        } else {
            longest
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROW: &str = "messages:\n  - {id: a, title: A, patterns: [\"one two three\"], says: It., sources: [\"https://x\"]}\n";

    #[test]
    fn a_row_needs_no_more_than_its_text() {
        let rows = parse(ROW).expect("it is sound");
        assert_eq!(
            (rows.len(), rows[0].id.as_str(), rows[0].causes.len()),
            (1, "a", 0)
        );
    }

    #[test]
    fn rows_that_cannot_be_used_are_faults() {
        for (from, to, problem) in [
            (
                "one two three",
                "one * two",
                "no piece of `one * two` has 8",
            ),
            (
                "says: It.",
                "says: It., explained_by: [b]",
                "explained by `b`",
            ),
            (
                "says: It.",
                "says: It., explained_by: [a]",
                "explained by `a`",
            ),
            ("\"https://x\"", "", "no source"),
            ("says: It.", "says: It., pattern: x", "no key `pattern`"),
        ] {
            let e = parse(&ROW.replace(from, to)).expect_err("it is wrong");
            assert!(e.contains(problem), "{to}: {e}");
        }
        let twice = format!("{ROW}{}", ROW.trim_start_matches("messages:\n"));
        assert!(parse(&twice).expect_err("it is wrong").contains("twice"));
    }

    #[test]
    fn the_longest_piece_is_what_is_searched_for() {
        assert_eq!(longest_piece("a * bcd*ef"), "bcd");
        assert_eq!(pieces("* a *b ").collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(pieces("^a * b$").collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(
            (anchors("^a * b$"), anchors("a")),
            ((true, true), (false, false))
        );
    }
}
