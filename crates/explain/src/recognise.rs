//! Finds known error messages in any text: what a person would paste into a search engine.
//!
//! One pass over the text looks for the longest literal piece of every pattern; only where one is
//! found the whole pattern is compared. It never guesses: what matches no pattern is not
//! recognised.

use aho_corasick::{AhoCorasick, BuildError, MatchKind};
use gpusetup_database::error_code::{Api, ErrorCode};
use gpusetup_database::message::{Message, anchors, longest_piece, pieces};
use gpusetup_text::text::without_escapes;
use std::collections::BTreeSet;
use std::ops::Range;

/// What stands before the number of a CUDA error: in the toolkit's samples, in TensorFlow's log, in
/// other programs. All in lower case, the number next to it.
const BEFORE_NUMBERS: [&str; 6] = [
    "cudagetdevicecount returned ",
    "failed call to cuinit: unknown error (",
    "cuda error ",
    "cuda error code ",
    "cuda driver error ",
    "cuda runtime error (",
];

/// How much of a line is read before and after a sign of an error or a piece of a pattern, in
/// bytes.
const MAX_OF_LINE: usize = 1024;

/// How far from an error's own message the word `cuda` may be, in bytes.
const NEAR: usize = 96;

/// The most characters around what was found that are kept to be shown.
const MAX_SHOWN: usize = 160;

/// How a piece of text tells an error.
enum Sign<'a> {
    /// It is the error's name.
    Name(&'a ErrorCode),
    /// It stands before a CUDA error's number.
    BeforeNumber,
    /// It is the error's own message.
    Message(&'a ErrorCode),
}

impl<'a> Sign<'a> {
    /// The error that it tells, if it can only be one.
    fn error(&self) -> Option<&'a ErrorCode> {
        match self {
            Self::Name(error) | Self::Message(error) => Some(error),
            Self::BeforeNumber => None,
        }
    }
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
        let names = failures()
            .flat_map(|error| error.spellings().map(move |name| (Sign::Name(error), name)));
        let numbers = BEFORE_NUMBERS
            .into_iter()
            .map(|before| (Sign::BeforeNumber, before.to_owned()));
        let messages = failures().filter_map(|error| {
            Some((
                Sign::Message(error),
                error.text.as_deref()?.trim_end_matches('.').to_owned(),
            ))
        });
        let (signs, texts) = names.chain(numbers).chain(messages).unzip();
        Self {
            errors,
            signs,
            texts,
        }
    }

    /// The error that sign `n` tells, which is at `at` of the text.
    fn error_at(&self, n: usize, text: &str, at: Range<usize>) -> Option<&'a ErrorCode> {
        let (before, after) = rest_of_line(text, &at, MAX_OF_LINE);
        let is_of_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        match self.signs[n] {
            Sign::Name(error) => {
                let is_word = !before.ends_with(is_of_word) && !after.starts_with(is_of_word);
                (is_word && text[at] == self.texts[n]).then_some(error)
            }
            Sign::BeforeNumber => {
                let digits = after
                    .find(|c: char| !c.is_ascii_digit())
                    .unwrap_or(after.len());
                let rest = &after[digits..];
                // `CUDA error 13.0`, `CUDA error 2nd` and `CUDA error 35-36` have no error's
                // number.
                let is_version = rest
                    .strip_prefix(['.', '-'])
                    .is_some_and(|rest| rest.starts_with(is_of_word));
                if is_version || rest.starts_with(is_of_word) {
                    return None;
                }
                let number: u32 = after[..digits].parse().ok()?;
                self.errors
                    .iter()
                    .find(|e| e.api == Api::Cuda && e.code == number && !e.is_success())
            }
            // A message is taken for CUDA's behind a colon, an arrow or a bracket, near the word
            // CUDA. The container toolkit has messages of the same words.
            Sign::Message(error) => {
                let is_quoted = before.trim_end().ends_with([':', '>', '(', '"', '\'', '=']);
                if !is_quoted || after.starts_with(char::is_alphanumeric) {
                    return None;
                }
                let (before, after) = rest_of_line(text, &at, NEAR);
                let near = format!("{before}\n{after}").to_ascii_lowercase();
                (near.contains("cuda") && !near.contains("container-cli: ")).then_some(error)
            }
        }
    }
}

/// What stands before and after a range on its line, at most so many bytes of each.
fn rest_of_line<'t>(text: &'t str, at: &Range<usize>, most: usize) -> (&'t str, &'t str) {
    let before = &text[ceil(text, at.start.saturating_sub(most))..at.start];
    let after = &text[at.end..floor(text, at.end.saturating_add(most))];
    (
        before.rsplit('\n').next().unwrap_or_default(),
        after.split('\n').next().unwrap_or_default(),
    )
}

/// The next place at or after a byte where a character begins.
fn ceil(text: &str, at: usize) -> usize {
    (at..text.len())
        .find(|at| text.is_char_boundary(*at))
        .unwrap_or(text.len())
}

/// The last place at or before a byte where a character begins.
fn floor(text: &str, at: usize) -> usize {
    (0..=at.min(text.len()))
        .rev()
        .find(|at| text.is_char_boundary(*at))
        .unwrap_or(0)
}

/// A range with what is beside it on its line, to be shown where the line is too long for that.
fn around(text: &str, at: &Range<usize>) -> String {
    let (before, after) = rest_of_line(text, at, MAX_SHOWN);
    let lead = before
        .char_indices()
        .rev()
        .nth(MAX_SHOWN / 4)
        .map_or(0, |(from, _)| from);
    let shown = before[lead..]
        .chars()
        .chain(text[at.clone()].chars())
        .chain(after.chars());
    shown.take(MAX_SHOWN).collect::<String>().trim().to_owned()
}

/// An error that a text has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedError<'a> {
    /// The error.
    pub error: &'a ErrorCode,
    /// The line of its first occurrence; the first line is 1.
    pub line: usize,
    /// The part of that line that has it.
    pub near: String,
}

/// The errors that a text names, or has by a number or a message, each once.
///
/// # Errors
///
/// If there are more names than the automaton can hold.
pub fn named_errors<'a>(
    text: &str,
    errors: &'a [ErrorCode],
) -> Result<Vec<NamedError<'a>>, BuildError> {
    // The letter that ends a colour is no part of a name.
    let text = &*without_escapes(text);
    let finder = ErrorFinder::new(errors);
    let automaton = AhoCorasick::builder()
        .ascii_case_insensitive(true)
        .match_kind(MatchKind::LeftmostLongest)
        .build(&finder.texts)?;
    let mut found: Vec<NamedError> = Vec::new();
    let (mut line, mut counted) = (1, 0);
    for hit in automaton.find_iter(text) {
        let sign = hit.pattern().as_usize();
        let is_new = |error: &ErrorCode| !found.iter().any(|known| known.error == error);
        if !finder.signs[sign].error().is_none_or(is_new) {
            continue;
        }
        if let Some(error) = finder
            .error_at(sign, text, hit.range())
            .filter(|error| is_new(error))
        {
            line += text[counted..hit.start()].matches('\n').count();
            counted = hit.start();
            found.push(NamedError {
                error,
                line,
                near: around(text, &hit.range()),
            });
        }
    }
    Ok(found)
}

/// A message that a text has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recognised<'a> {
    /// The message.
    pub message: &'a Message,
    /// The line of its first occurrence; the first line is 1.
    pub line: usize,
    /// The part of that line that has it.
    pub near: String,
    /// Whether the text also has a message that explains this one.
    pub is_symptom: bool,
}

/// Known messages, ready to be looked for.
#[derive(Debug)]
pub struct Recogniser<'a> {
    messages: &'a [Message],
    /// Each pattern with the number of its message, in the order of the automaton.
    patterns: Vec<(usize, String)>,
    /// The texts that rule a message out, by its number.
    unless: Vec<Vec<String>>,
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
            .flat_map(|(n, m)| m.patterns.iter().map(move |p| (n, Flat::of(p).small)))
            .collect();
        let unless = messages
            .iter()
            .map(|m| m.unless.iter().map(|text| Flat::of(text).small).collect())
            .collect();
        let automaton =
            AhoCorasick::new(patterns.iter().map(|(_, pattern)| longest_piece(pattern)))?;
        Ok(Self {
            messages,
            patterns,
            unless,
            automaton,
        })
    }

    /// The messages in a text, each once, in the order of their first lines. Symptoms come last.
    pub fn find(&self, text: &str) -> Vec<Recognised<'a>> {
        let flat = Flat::of(text);
        let mut places: Vec<Option<Range<usize>>> = vec![None; self.messages.len()];
        for hit in self.automaton.find_overlapping_iter(&flat.small) {
            let (message, pattern) = &self.patterns[hit.pattern().as_usize()];
            if places[*message].is_none()
                && let Some(lines) = flat.has(pattern, hit.start())
                && !self.unless[*message]
                    .iter()
                    .any(|other| lines.contains(other))
            {
                places[*message] = Some(hit.range());
            }
        }
        let found: BTreeSet<&str> = places
            .iter()
            .zip(self.messages)
            .filter(|(place, _)| place.is_some())
            .map(|(_, m)| m.id.as_str())
            .collect();
        let mut all: Vec<_> = places
            .iter()
            .zip(self.messages)
            .filter_map(|(place, message)| {
                let at = place.as_ref()?;
                let is_symptom = message
                    .explained_by
                    .iter()
                    .any(|other| found.contains(other.as_str()));
                let line = flat.line(at.start);
                let (start, end) = (
                    flat.lines[line - 1],
                    flat.lines
                        .get(line)
                        .map_or(flat.text.len(), |end| (*end).max(at.end)),
                );
                let near = around(
                    &flat.text[start..end.min(flat.text.len())],
                    &(at.start - start..at.end - start),
                );
                Some(Recognised {
                    message,
                    line,
                    near,
                    is_symptom,
                })
            })
            .collect();
        all.sort_by_key(|r| (r.is_symptom, r.line));
        all
    }
}

/// A text in which words are separated by one space, line breaks included, so that a terminal's or
/// a mail's wrapping hides nothing. Colours are left out, and typographic quotes are plain ones.
struct Flat {
    text: String,
    /// The same with ASCII letters in lower case, byte for byte.
    small: String,
    /// Where each line begins in it.
    lines: Vec<usize>,
}

impl Flat {
    fn of(text: &str) -> Self {
        let mut flat = Self {
            text: String::with_capacity(text.len()),
            small: String::new(),
            lines: Vec::new(),
        };
        for line in text.split('\n') {
            flat.lines.push(flat.text.len());
            flat.push(line);
        }
        flat.text.truncate(flat.text.trim_end().len());
        flat.small = flat.text.to_ascii_lowercase();
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

    /// Whether a line begins at this byte.
    fn begins_line(&self, at: usize) -> bool {
        self.lines.binary_search(&at).is_ok()
    }

    /// Whether a line ends before this byte: at the end of the text, or before the space that
    /// stands for a line break.
    fn ends_line(&self, at: usize) -> bool {
        at == self.small.len() || self.begins_line(at + 1)
    }

    /// The lines with a pattern whose longest piece is at `at`, in lower case, if the pattern is
    /// there: its pieces in their order, from the line before `at` to the end of the line after it,
    /// since a line may have been wrapped. Of long lines, only a part is looked at, so that the
    /// time for a text grows with its length alone.
    fn has(&self, pattern: &str, at: usize) -> Option<&str> {
        let longest = longest_piece(pattern);
        let line = self.line(at);
        let start = self.lines[line.saturating_sub(2)]
            .max(ceil(&self.small, at.saturating_sub(MAX_OF_LINE)));
        // A line that begins after the last character has no text.
        let end = self
            .lines
            .get(line + 1)
            .map_or(self.small.len(), |end| (*end).min(self.small.len()));
        let (mut to, mut from) = (at, at + longest.len());
        let end = end.min(floor(&self.small, from + MAX_OF_LINE)).max(from);
        let mut before: Vec<_> = Vec::new();
        let mut after = pieces(pattern);
        before.extend(after.by_ref().take_while(|piece| *piece != longest));
        for piece in before.iter().rev() {
            to = start + self.small[start..to].rfind(piece)?;
        }
        for piece in after {
            from += self.small[from..end].find(piece)? + piece.len();
        }
        let (at_start, at_end) = anchors(pattern);
        let is_whole = (!at_start || self.begins_line(to)) && (!at_end || self.ends_line(from));
        is_whole.then(|| &self.small[start..end])
    }
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
            unless: Vec::new(),
            says: String::new(),
            causes: Vec::new(),
            explained_by: texts(explained_by),
            sources: Vec::new(),
        }
    }

    fn found(messages: &[Message], text: &str) -> Vec<(String, usize, bool)> {
        let all = Recogniser::new(messages).expect("it is sound").find(text);
        all.into_iter()
            .map(|r| (r.message.id.clone(), r.line, r.is_symptom))
            .collect()
    }

    #[test]
    fn a_pattern_is_found_whatever_its_form() {
        let messages = [message(
            "a",
            &["couldn't communicate with the NVIDIA driver"],
            &[],
        )];
        for text in [
            "x\nNVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure",
            "x\nit COULDN\u{2019}T   communicate\twith the nvidia driver",
            "x\nit couldn't communicate with the\nNVIDIA driver",
            "x\r\n\x1b[31mcouldn't\x1b[0m communicate with the NVIDIA driver",
        ] {
            assert!(
                matches!(&*found(&messages, text), [(id, 2, false)] if id == "a"),
                "{text}: {:?}",
                found(&messages, text)
            );
        }
        assert_eq!(
            found(&messages, "could not communicate with the NVIDIA driver"),
            []
        );
        assert_eq!(found(&messages, ""), []);
    }

    #[test]
    fn a_star_stands_for_what_is_between() {
        let messages = [message(
            "a",
            &["module version * for the running kernel * not found"],
            &[],
        )];
        assert_eq!(
            found(
                &messages,
                "module version 5 for the running kernel 6.1 not found"
            )
            .len(),
            1
        );
        assert_eq!(
            found(
                &messages,
                "module version 5 for the running kernel 6.1\nwas not found"
            )
            .len(),
            1
        );
        assert_eq!(
            found(
                &messages,
                "not found: module version 5 for the running kernel"
            )
            .len(),
            0
        );
        assert_eq!(
            found(
                &messages,
                "module version 5 for the running kernel\n\n\n\nnot found"
            )
            .len(),
            0
        );
        assert_eq!(
            found(&messages, "for the running kernel 6.1 not found").len(),
            0
        );
    }

    #[test]
    fn an_anchor_stands_for_the_end_of_a_line() {
        let messages = [message("a", &["^No devices were found$"], &[])];
        for text in [
            "No devices were found",
            "$ smi\n  No devices were found \r\n\n$ ",
            "adb: No devices were found\nno devices were found",
        ] {
            assert_eq!(found(&messages, text).len(), 1, "{text}");
        }
        for text in [
            "adb: No devices were found",
            "No devices were found on the network",
            "x No devices were found",
            "",
        ] {
            assert_eq!(found(&messages, text).len(), 0, "{text}");
        }
    }

    #[test]
    fn another_programs_message_is_not_taken_for_this_one() {
        let messages = [Message {
            unless: vec!["HIP error:".to_owned()],
            ..message("a", &["no kernel image is available"], &[])
        }];
        assert_eq!(
            found(
                &messages,
                "RuntimeError: hip error: No kernel image is available"
            )
            .len(),
            0
        );
        let both =
            "HIP error: no kernel image is available\n\n\nCUDA error: no kernel image is available";
        assert_eq!(found(&messages, both), [("a".to_owned(), 4, false)]);
    }

    #[test]
    fn a_long_line_is_shown_by_the_part_that_matters() {
        let messages = [message("a", &["one * three"], &[])];
        let text = format!(
            "{}ONE two three{}",
            "é ".repeat(50_000),
            " tail".repeat(50_000)
        );
        let messages = Recogniser::new(&messages)
            .expect("it is sound")
            .find(&text)
            .remove(0);
        assert!(
            messages.near.contains("ONE two three") && messages.near.chars().count() <= MAX_SHOWN
        );
        // What is too far apart belongs to different messages.
        let apart = format!("one{}three", " x".repeat(MAX_OF_LINE));
        assert_eq!(found(&[message("a", &["one * three"], &[])], &apart), []);
    }

    #[test]
    fn what_is_explained_comes_last() {
        let messages = [
            message(
                "general",
                &["Bad return status for module build"],
                &["special"],
            ),
            message("special", &["uses GPL-only symbol"], &[]),
        ];
        let text = "Error! Bad return status for module build on kernel: 6.1\nmodpost: nvidia.ko uses GPL-only symbol 'x'";
        assert_eq!(
            found(&messages, text),
            [
                ("special".to_owned(), 2, false),
                ("general".to_owned(), 1, true)
            ]
        );
        assert_eq!(
            found(&messages, "Bad return status for module build"),
            [("general".to_owned(), 1, false)]
        );
    }

    #[test]
    fn any_text_can_be_looked_through() {
        let messages = [
            message("a", &["ééééé *ö* x"], &[]),
            message("b", &["* abcdefgh *"], &[]),
        ];
        let texts = [
            "\u{1b}",
            "\u{1b}[",
            "\u{1b}[31",
            "ééééé",
            "é\u{0}é\nabcdefgh",
            "abcdefgh",
            " \n\n ",
            "ééééé\nö\nx",
        ];
        let hits: usize = texts.iter().map(|text| found(&messages, text).len()).sum();
        assert_eq!(hits, 2);
    }
}
