//! A command line as `sh` and `bash` divide it into words, and words written so that every shell
//! reads them back. Nothing is expanded or run: a word that a shell would change is marked, and a
//! line whose words are not certain is refused.

use super::request::{Unreadable, refused};
use gpusetup_text::text::{is_hidden, quoted};

/// The longest command line, in bytes.
pub const MAX_LINE: usize = 64 << 10;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Word {
    /// What the program gets; what the shell would expand is as it is written.
    pub(crate) text: String,
    /// Whether no shell expands a part of it.
    pub(crate) is_literal: bool,
    /// How many bytes of the text come before the first quote.
    unquoted: usize,
}

impl Word {
    /// A word that a shell has read already.
    pub(crate) fn literal(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            is_literal: true,
            unquoted: usize::MAX,
        }
    }

    /// The variable and its value, if the shell takes the word for an assignment.
    pub(crate) fn assignment(&self) -> Option<(&str, &str)> {
        self.text
            .split_once('=')
            .filter(|(name, _)| is_variable(name) && name.len() < self.unquoted)
    }
}

/// Whether shells take this for the name of a variable.
pub(crate) fn is_variable(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// Words as a line for a shell. Nothing else writes one: every word is quoted, whatever is in it.
pub(crate) fn written(words: &[String]) -> String {
    words
        .iter()
        .map(|word| quoted(word))
        .collect::<Vec<_>>()
        .join(" ")
}

/// The words of a command line, and whether it has a comment. An error if it is more than one
/// command, or its words are not certain.
pub(crate) fn split(line: &str) -> Result<(Vec<Word>, bool), Unreadable> {
    if line.len() > MAX_LINE {
        return Err(Unreadable::new(format!(
            "the command line is longer than {MAX_LINE} bytes"
        )));
    }
    if line.contains('\r') {
        let says = "the command line has a carriage return, which shells take for a part of a word";
        return refused(
            says,
            "remove the line ends of Windows: tr -d '\\r' < FILE | gpusetup container translate -",
        );
    }
    if let Some(hidden) = line
        .chars()
        .find(|c| is_hidden(*c) && !matches!(c, '\n' | '\t'))
    {
        let says = format!(
            "the command line has a hidden character, U+{:04X}",
            u32::from(hidden)
        );
        return refused(says, "type the command instead of copying it");
    }
    let mut reader = Reader {
        rest: line,
        word: None,
    };
    let (mut words, mut has_comment, mut has_ended) = (Vec::new(), false, false);
    while let Some(c) = reader.rest.chars().next() {
        match c {
            ' ' | '\t' | '\n' => {
                reader.take(1);
                words.extend(reader.word.take());
                has_ended |= c == '\n' && !words.is_empty();
            }
            '\\' if reader.rest.starts_with("\\\n") => drop(reader.take(2)),
            '#' if reader.word.is_none() => {
                has_comment = true;
                reader.take(reader.rest.find('\n').unwrap_or(reader.rest.len()));
            }
            ';' | '&' | '|' | '<' | '>' | '(' | ')' => {
                let says =
                    format!("the command line has a {c} of the shell: it is more than one command");
                let hint = "give the docker or podman command alone, and quote the characters that are meant for it";
                return refused(says, hint);
            }
            _ if has_ended => {
                let hint = "a line continues only after a backslash that is its last character, without a space after it";
                return refused(
                    "the command line has a second line, which is another command",
                    hint,
                );
            }
            _ => reader.piece(c, false)?,
        }
    }
    words.extend(reader.word.take());
    Ok((words, has_comment))
}

struct Reader<'a> {
    rest: &'a str,
    word: Option<Word>,
}

impl<'a> Reader<'a> {
    /// A character of a word, a quoted part of it, or something that the shell expands; perhaps in
    /// double quotes.
    fn piece(&mut self, first: char, in_quotes: bool) -> Result<(), Unreadable> {
        match first {
            '\'' if !in_quotes => {
                let end = self.rest[1..].find('\'').ok_or_else(|| unfinished("'"))?;
                let text = self.take(end + 2);
                self.push_quoted(&text[1..=end]);
            }
            '"' if !in_quotes => {
                self.take(1);
                self.push_quoted("");
                while !self.rest.starts_with('"') {
                    let next = self.rest.chars().next().ok_or_else(|| unfinished("\""))?;
                    self.piece(next, true)?;
                }
                self.take(1);
            }
            '\\' => {
                let text = self.escaped(if in_quotes { "\"" } else { "\\" })?;
                match &text[1..] {
                    next if !in_quotes => self.push_quoted(next),
                    "\n" => {}
                    next @ ("$" | "`" | "\"" | "\\") => self.push(next, true),
                    // An interactive bash looks for it in its history, and keeps the backslash.
                    next => self.push(text, next != "!"),
                }
            }
            '$' | '`' => self.expansion(in_quotes)?,
            c => {
                let text = self.take(c.len_utf8());
                self.push(text, !(if in_quotes { "!" } else { "*?[{~!" }).contains(c));
            }
        }
        Ok(())
    }

    /// `$NAME`, `${NAME:-word}`, `$(command)` or `` `command` ``, if where it ends is certain. A
    /// dollar sign alone is a character.
    fn expansion(&mut self, in_quotes: bool) -> Result<(), Unreadable> {
        let next = self.rest[1..].chars().next();
        let (begin, end) = match (self.rest.starts_with('`'), next) {
            (true, _) => (1, '`'),
            (false, Some('(')) => (2, ')'),
            (false, Some('{')) => (2, '}'),
            (false, Some('\'' | '"')) if !in_quotes => return Err(uncertain()),
            (false, Some('[' | '\\')) => return Err(uncertain()),
            (false, next) => {
                let is_name =
                    next.is_some_and(|c| c.is_ascii_alphanumeric() || "_@*#?$!-".contains(c));
                let text = self.take(if is_name { 2 } else { 1 });
                self.push(text, !is_name);
                return Ok(());
            }
        };
        let length = self.rest[begin..]
            .find(|c: char| !c.is_ascii_alphanumeric() && !" _./:=+,@%-".contains(c))
            .filter(|at| self.rest[begin + at..].starts_with(end));
        let text = self.take(begin + length.ok_or_else(uncertain)? + 1);
        self.push(text, false);
        Ok(())
    }

    /// A backslash and what it quotes, within something of this kind.
    fn escaped(&mut self, within: &str) -> Result<&'a str, Unreadable> {
        let next = self.rest[1..]
            .chars()
            .next()
            .ok_or_else(|| unfinished(within))?;
        Ok(self.take(1 + next.len_utf8()))
    }

    fn take(&mut self, length: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at(length);
        self.rest = rest;
        taken
    }

    fn push(&mut self, text: &str, is_literal: bool) {
        let word = self.word.get_or_insert_with(|| Word::literal(""));
        word.text += text;
        word.is_literal &= is_literal;
    }

    fn push_quoted(&mut self, text: &str) {
        let word = self.word.get_or_insert_with(|| Word::literal(""));
        word.unquoted = word.unquoted.min(word.text.len());
        word.text += text;
    }
}

fn uncertain() -> Unreadable {
    Unreadable::new(
        "the command line has a nested expansion or quotes after a $: which words the shell makes of it is not certain",
    )
    .hint("write the words themselves in place of what the shell would expand")
}

fn unfinished(what: &str) -> Unreadable {
    Unreadable::new(format!("the command line has a {what} without its end"))
        .hint("put the whole command line in single quotes, or write it after --")
}
