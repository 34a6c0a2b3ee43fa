//! Finds known error messages in any text: what a person would paste into a search engine.
//!
//! One pass over the text looks for the longest literal piece of every pattern; only where one is found the whole pattern is
//! compared. It never guesses: what matches no pattern is not recognised.

use crate::error_code::{Api, ErrorCode};
use crate::message::{Message, longest_piece, pieces};
use crate::subject::Subject;
use crate::text::without_escapes;
use aho_corasick::{AhoCorasick, BuildError, MatchKind};
use std::collections::BTreeSet;
use std::ops::Range;

/// The messages that this gpusetup knows.
pub fn known() -> Vec<Message> {
    const BYTES: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/messages.bin"));
    #[allow(clippy::expect_used)]
    postcard::from_bytes(BYTES).expect("the build made these bytes from the same types")
}

/// The terms, codes and names that this gpusetup explains.
pub fn subjects() -> Vec<Subject> {
    const BYTES: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/subjects.bin"));
    #[allow(clippy::expect_used)]
    postcard::from_bytes(BYTES).expect("the build made these bytes from the same types")
}

/// The error numbers of CUDA and of NVIDIA's libraries.
pub fn error_codes() -> Vec<ErrorCode> {
    const BYTES: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/errors.bin"));
    #[allow(clippy::expect_used)]
    postcard::from_bytes(BYTES).expect("the build made these bytes from the same types")
}

/// What stands before the number of a CUDA error: in the toolkit's samples, in TensorFlow's log, in other programs. All in lower
/// case, the number next to it.
const BEFORE_NUMBERS: [&str; 6] = [
    "cudagetdevicecount returned ",
    "failed call to cuinit: unknown error (",
    "cuda error ",
    "cuda error code ",
    "cuda driver error ",
    "cuda runtime error (",
];

/// How much of a line is read before and after a sign of an error, in bytes.
const MOST_OF_LINE: usize = 2048;

/// How a piece of text tells an error.
enum Sign<'a> {
    /// It is the error's name.
    Name(&'a ErrorCode),
    /// It stands before a CUDA error's number.
    BeforeNumber,
    /// It is the error's own message.
    Message(&'a ErrorCode),
}

/// Known error numbers, ready to be looked for by name, number and message.
struct ErrorFinder<'a> {
    errors: &'a [ErrorCode],
    signs: Vec<Sign<'a>>,
    /// The text of each sign.
    texts: Vec<String>,
}

impl<'a> ErrorFinder<'a> {
    fn new(errors: &'a [ErrorCode]) -> Self {
        let failures = || errors.iter().filter(|error| !error.is_success());
        let names = failures().flat_map(|error| error.spellings().map(move |name| (Sign::Name(error), name)));
        let numbers = BEFORE_NUMBERS.into_iter().map(|before| (Sign::BeforeNumber, before.to_owned()));
        let messages = failures()
            .filter_map(|error| Some((Sign::Message(error), error.text.as_deref()?.trim_end_matches('.').to_owned())));
        let (signs, texts) = names.chain(numbers).chain(messages).unzip();
        Self { errors, signs, texts }
    }

    /// The error that sign `n` tells, which is at `at` of the text.
    fn told(&self, n: usize, text: &str, at: Range<usize>) -> Option<&'a ErrorCode> {
        let is_boundary = |at: &usize| text.is_char_boundary(*at);
        let from = (at.start.saturating_sub(MOST_OF_LINE)..at.start).find(is_boundary).unwrap_or(at.start);
        let to = (at.end..text.len().min(at.end + MOST_OF_LINE) + 1).rev().find(is_boundary).unwrap_or(at.end);
        let before = text[from..at.start].rsplit('\n').next().unwrap_or_default();
        let after = text[at.end..to].split('\n').next().unwrap_or_default();
        let is_of_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        match self.signs[n] {
            Sign::Name(error) => {
                let is_word = !before.ends_with(is_of_word) && !after.starts_with(is_of_word);
                (is_word && text[at] == self.texts[n]).then_some(error)
            }
            Sign::BeforeNumber => {
                let digits = after.find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len());
                let number: u32 = after[..digits].parse().ok()?;
                self.errors.iter().find(|e| e.api == Api::Cuda && e.code == number && !e.is_success())
            }
            // A message is taken for CUDA's behind a colon, an arrow or a bracket, on a line about CUDA.
            Sign::Message(error) => {
                let is_quoted = before.trim_end().ends_with([':', '>', '(', '"', '\'', '=']);
                let about_cuda = [before, after].iter().any(|part| part.to_ascii_lowercase().contains("cuda"));
                (is_quoted && !after.starts_with(char::is_alphanumeric) && about_cuda).then_some(error)
            }
        }
    }
}

/// The errors that a text names, or has by a number or a message, each once with the number of its first line.
///
/// # Errors
///
/// If there are more names than the automaton can hold.
pub fn named_errors<'a>(text: &str, errors: &'a [ErrorCode]) -> Result<Vec<(&'a ErrorCode, usize)>, BuildError> {
    // The letter that ends a colour is no part of a name.
    let text = &*without_escapes(text);
    let finder = ErrorFinder::new(errors);
    let automaton = AhoCorasick::builder()
        .ascii_case_insensitive(true)
        .match_kind(MatchKind::LeftmostLongest)
        .build(&finder.texts)?;
    let mut found: Vec<(&ErrorCode, usize)> = Vec::new();
    let (mut line, mut counted) = (1, 0);
    for hit in automaton.find_iter(text) {
        line += text[counted..hit.start()].matches('\n').count();
        counted = hit.start();
        if let Some(error) = finder.told(hit.pattern().as_usize(), text, hit.range())
            && !found.iter().any(|(known, _)| *known == error)
        {
            found.push((error, line));
        }
    }
    Ok(found)
}

/// A message that a text has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recognised<'a> {
    /// The message.
    pub message: &'a Message,
    /// The line of its first occurrence; the first line is 1.
    pub line: usize,
    /// Whether the text also has a message that explains this one.
    pub is_symptom: bool,
}

/// Known messages, ready to be looked for.
#[derive(Debug)]
pub struct Recogniser<'a> {
    messages: &'a [Message],
    /// Each pattern with the number of its message, in the order of the automaton.
    patterns: Vec<(usize, String)>,
    automaton: AhoCorasick,
}

impl<'a> Recogniser<'a> {
    /// For these messages.
    ///
    /// # Errors
    ///
    /// If there are more patterns than the automaton can hold.
    pub fn new(messages: &'a [Message]) -> Result<Self, BuildError> {
        let numbered = messages.iter().enumerate();
        let patterns: Vec<_> = numbered
            .flat_map(|(n, m)| m.patterns.iter().map(move |p| (n, Flat::of(p).text.to_ascii_lowercase())))
            .collect();
        let searched = patterns.iter().map(|(_, pattern)| longest_piece(pattern));
        let automaton = AhoCorasick::builder().ascii_case_insensitive(true).build(searched)?;
        Ok(Self { messages, patterns, automaton })
    }

    /// The messages in a text, each once, in the order of their first lines. Symptoms come last.
    pub fn find(&self, text: &str) -> Vec<Recognised<'a>> {
        let flat = Flat::of(text);
        let mut lines: Vec<Option<usize>> = vec![None; self.messages.len()];
        for hit in self.automaton.find_overlapping_iter(&flat.text) {
            let (message, pattern) = &self.patterns[hit.pattern().as_usize()];
            if lines[*message].is_none() && flat.has(pattern, hit.start()) {
                lines[*message] = Some(flat.line(hit.start()));
            }
        }
        let found: BTreeSet<&str> =
            lines.iter().zip(self.messages).filter(|(l, _)| l.is_some()).map(|(_, m)| m.id.as_str()).collect();
        let mut all: Vec<_> = lines
            .iter()
            .zip(self.messages)
            .filter_map(|(line, message)| {
                let is_symptom = message.explained_by.iter().any(|other| found.contains(other.as_str()));
                Some(Recognised { message, line: (*line)?, is_symptom })
            })
            .collect();
        all.sort_by_key(|r| (r.is_symptom, r.line));
        all
    }
}

/// A text in which words are separated by one space, line breaks included, so that a terminal's or a mail's wrapping hides
/// nothing. Colours are left out, and typographic quotes are plain ones.
struct Flat {
    text: String,
    /// Where each line begins in it.
    lines: Vec<usize>,
}

impl Flat {
    fn of(text: &str) -> Self {
        let mut flat = Self { text: String::with_capacity(text.len()), lines: Vec::new() };
        for line in text.split(['\n', '\r']) {
            flat.lines.push(flat.text.len());
            flat.push(line);
        }
        flat.text.truncate(flat.text.trim_end().len());
        flat
    }

    fn push(&mut self, line: &str) {
        for c in without_escapes(line).chars() {
            match c {
                '\u{2018}' | '\u{2019}' | '\u{201a}' => self.text.push('\''),
                '\u{201c}' | '\u{201d}' | '\u{201e}' => self.text.push('"'),
                c if c.is_whitespace() || c.is_control() => self.space(),
                c => self.text.push(c),
            }
        }
        self.space();
    }

    fn space(&mut self) {
        if !self.text.is_empty() && !self.text.ends_with(' ') {
            self.text.push(' ');
        }
    }

    /// The number of the line with this byte.
    fn line(&self, at: usize) -> usize {
        self.lines.partition_point(|start| *start <= at)
    }

    /// Whether a pattern is there with its longest piece at `at`: its pieces in their order, from the line before `at` to the
    /// end of the line after it, since a line may have been wrapped.
    fn has(&self, pattern: &str, at: usize) -> bool {
        let line = self.line(at);
        let start = self.lines[line.saturating_sub(2)];
        // A line that begins after the last character has no text.
        let end = self.lines.get(line + 1).map_or(self.text.len(), |end| (*end).min(self.text.len()));
        let longest = longest_piece(pattern);
        let mut before: Vec<_> = Vec::new();
        let mut after = pieces(pattern);
        before.extend(after.by_ref().take_while(|piece| *piece != longest));
        let text = self.text.as_bytes();
        let mut to = at;
        for piece in before.iter().rev() {
            let Some(found) = last_in(&text[start..to], piece.as_bytes()) else { return false };
            to = start + found;
        }
        let mut from = at + longest.len();
        for piece in after {
            let Some(found) = first_in(&text[from.min(end)..end], piece.as_bytes()) else { return false };
            from = from + found + piece.len();
        }
        true
    }
}

fn first_in(text: &[u8], piece: &[u8]) -> Option<usize> {
    text.windows(piece.len()).position(|window| window.eq_ignore_ascii_case(piece))
}

fn last_in(text: &[u8], piece: &[u8]) -> Option<usize> {
    text.windows(piece.len()).rposition(|window| window.eq_ignore_ascii_case(piece))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(id: &str, patterns: &[&str], explained_by: &[&str]) -> Message {
        let texts = |all: &[&str]| all.iter().map(|text| (*text).to_owned()).collect();
        Message {
            id: id.to_owned(),
            title: id.to_owned(),
            patterns: texts(patterns),
            says: String::new(),
            causes: Vec::new(),
            explained_by: texts(explained_by),
            sources: Vec::new(),
        }
    }

    fn found(messages: &[Message], text: &str) -> Vec<(String, usize, bool)> {
        let all = Recogniser::new(messages).expect("it is sound").find(text);
        all.into_iter().map(|r| (r.message.id.clone(), r.line, r.is_symptom)).collect()
    }

    #[test]
    fn a_pattern_is_found_whatever_its_form() {
        let messages = [message("a", &["couldn't communicate with the NVIDIA driver"], &[])];
        for text in [
            "x\nNVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure",
            "x\nit COULDN\u{2019}T   communicate\twith the nvidia driver",
            "x\nit couldn't communicate with the\nNVIDIA driver",
            "x\r\n\x1b[31mcouldn't\x1b[0m communicate with the NVIDIA driver",
        ] {
            assert!(
                matches!(&*found(&messages, text), [(id, 2 | 3, false)] if id == "a"),
                "{text}: {:?}",
                found(&messages, text)
            );
        }
        assert_eq!(found(&messages, "could not communicate with the NVIDIA driver"), []);
        assert_eq!(found(&messages, ""), []);
    }

    #[test]
    fn a_star_stands_for_what_is_between() {
        let messages = [message("a", &["module version * for the running kernel * not found"], &[])];
        assert_eq!(found(&messages, "module version 5 for the running kernel 6.1 not found").len(), 1);
        assert_eq!(found(&messages, "module version 5 for the running kernel 6.1\nwas not found").len(), 1);
        assert_eq!(found(&messages, "not found: module version 5 for the running kernel").len(), 0);
        assert_eq!(found(&messages, "module version 5 for the running kernel\n\n\n\nnot found").len(), 0);
        assert_eq!(found(&messages, "for the running kernel 6.1 not found").len(), 0);
    }

    #[test]
    fn what_is_explained_comes_last() {
        let messages = [
            message("general", &["Bad return status for module build"], &["special"]),
            message("special", &["uses GPL-only symbol"], &[]),
        ];
        let text =
            "Error! Bad return status for module build on kernel: 6.1\nmodpost: nvidia.ko uses GPL-only symbol 'x'";
        assert_eq!(found(&messages, text), [("special".to_owned(), 2, false), ("general".to_owned(), 1, true)]);
        assert_eq!(found(&messages, "Bad return status for module build"), [("general".to_owned(), 1, false)]);
    }

    #[test]
    fn any_text_can_be_looked_through() {
        let messages = [message("a", &["ééééé *ö* x"], &[]), message("b", &["* abcdefgh *"], &[])];
        let texts =
            ["\u{1b}", "\u{1b}[", "\u{1b}[31", "ééééé", "é\u{0}é\nabcdefgh", "abcdefgh", " \n\n ", "ééééé\nö\nx"];
        let hits: usize = texts.iter().map(|text| found(&messages, text).len()).sum();
        assert_eq!(hits, 2);
    }
}
