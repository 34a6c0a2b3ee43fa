//! A command line as a POSIX shell divides it into words. What the shell would replace (`$PWD`, `$(id -u)`) is kept as it is written:
//! gpusetup replaces nothing, and runs nothing.

use super::unreadable::Unreadable;
use crate::text::{is_hidden, quoted};

/// A word of a command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Word {
    /// As it is written, quotes included; it means the same when it is written again.
    pub written: String,
    /// What the shell passes on, but for what it would replace first.
    pub text: String,
    /// Whether the shell replaces a part of it.
    pub is_replaced: bool,
}

impl Word {
    /// A word with exactly this text.
    pub fn of(text: impl Into<String>) -> Self {
        let text = text.into();
        Self { written: quoted(&text), text, is_replaced: false }
    }

    /// The variable and the value in `NAME=VALUE`, if it is that.
    pub fn assigned(&self) -> Option<(&str, &str)> {
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        self.text.split_once('=').filter(|(name, _)| {
            name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') && name.chars().all(is_name)
        })
    }
}

/// The words of a command line.
///
/// # Errors
///
/// If it is more than one command, or no command at all.
pub fn split(line: &str) -> Result<Vec<Word>, Unreadable> {
    if let Some(hidden) = line.chars().find(|c| is_hidden(*c) && !matches!(c, '\n' | '\r' | '\t')) {
        let sentence = format!("the command line has a hidden character, U+{:04X}", u32::from(hidden));
        return Err(Unreadable::new(sentence).hint("type the command instead of copying it"));
    }
    let mut reader = Reader { rest: line, word: None, has_begun: false, is_over: false };
    let mut words = Vec::new();
    while let Some(word) = reader.next()? {
        words.push(word);
    }
    Ok(words)
}

struct Reader<'a> {
    rest: &'a str,
    word: Option<Word>,
    /// A word of the command was read.
    has_begun: bool,
    /// The line of the command has ended.
    is_over: bool,
}

impl Reader<'_> {
    fn next(&mut self) -> Result<Option<Word>, Unreadable> {
        while let Some(c) = self.rest.chars().next() {
            match c {
                ' ' | '\t' | '\n' | '\r' => {
                    self.is_over |= c == '\n' && self.has_begun;
                    self.take(1);
                    if self.word.is_some() {
                        break;
                    }
                }
                // A line that goes on.
                '\\' if self.rest[1..].starts_with("\r\n") => drop(self.take(3)),
                '\\' if self.rest[1..].starts_with(['\n', '\r']) => drop(self.take(2)),
                '#' if self.word.is_none() => drop(self.take(self.rest.find('\n').unwrap_or(self.rest.len()))),
                '\\' if is_blank_at_end_of_line(&self.rest[1..]) => return Err(blank_behind_backslash()),
                ';' | '&' | '|' | '<' | '>' | '(' | ')' => return Err(several(c)),
                // The next line of a script is another command.
                _ if self.is_over => return Err(several('\n')),
                _ => self.piece(c)?,
            }
        }
        Ok(self.word.take())
    }

    /// One character of a word, a quoted part of it, or something that the shell replaces.
    fn piece(&mut self, first: char) -> Result<(), Unreadable> {
        self.has_begun = true;
        match first {
            '\'' => {
                let inner = self.rest[1..].find('\'').ok_or_else(|| unfinished("'"))?;
                let written = self.take(inner + 2);
                self.add(&written, &written[1..=inner], false);
            }
            '"' => self.double_quoted()?,
            '\\' => {
                let next = self.rest[1..].chars().next().ok_or_else(|| unfinished("\\"))?;
                let written = self.take(1 + next.len_utf8());
                self.add(&written, &written[1..], false);
            }
            '$' | '`' => {
                let written = self.replaced()?;
                let is_replaced = written.len() > 1;
                self.add(&written.clone(), &written, is_replaced);
            }
            other => {
                // The shell looks for files of these names, or for a home directory.
                let is_replaced = matches!(other, '*' | '?' | '[') || other == '~' && self.word.is_none();
                let written = self.take(other.len_utf8());
                self.add(&written, &written, is_replaced);
            }
        }
        Ok(())
    }

    fn double_quoted(&mut self) -> Result<(), Unreadable> {
        let mut written = self.take(1);
        let (mut text, mut is_replaced) = (String::new(), false);
        loop {
            let c = self.rest.chars().next().ok_or_else(|| unfinished("\""))?;
            let (piece, meant) = match c {
                '"' => {
                    written += &self.take(1);
                    self.add(&written, &text, is_replaced);
                    return Ok(());
                }
                '\\' => {
                    let next = self.rest[1..].chars().next().ok_or_else(|| unfinished("\""))?;
                    let piece = self.take(1 + next.len_utf8());
                    let meant = match next {
                        '$' | '`' | '"' | '\\' => next.to_string(),
                        '\n' => String::new(),
                        _ => piece.clone(),
                    };
                    (piece, meant)
                }
                '$' | '`' => {
                    let piece = self.replaced()?;
                    is_replaced |= piece.len() > 1;
                    (piece.clone(), piece)
                }
                c => {
                    let piece = self.take(c.len_utf8());
                    (piece.clone(), piece)
                }
            };
            written += &piece;
            text += &meant;
        }
    }

    /// `$NAME`, `${…}`, `$(…)`, `` `…` ``, or a dollar sign alone.
    fn replaced(&mut self) -> Result<String, Unreadable> {
        let (open, close) = match self.rest.as_bytes() {
            [b'`', ..] => {
                let inner = self.rest[1..].find('`').ok_or_else(|| unfinished("`"))?;
                return Ok(self.take(inner + 2));
            }
            [b'$', b'(', ..] => ('(', ')'),
            [b'$', b'{', ..] => ('{', '}'),
            _ => {
                let name = |c: char| c.is_ascii_alphanumeric() || c == '_';
                let length = self.rest[1..].find(|c| !name(c)).unwrap_or(self.rest.len() - 1);
                // $1, $@, $$ and the like.
                let special =
                    usize::from(length == 0 && self.rest[1..].starts_with(['@', '*', '#', '?', '$', '!', '-']));
                return Ok(self.take(1 + length + special));
            }
        };
        let mut depth = 0_usize;
        for (at, c) in self.rest.char_indices() {
            depth = if c == open { depth + 1 } else { depth - usize::from(c == close && depth > 0) };
            if c == close && depth == 0 {
                return Ok(self.take(at + 1));
            }
        }
        Err(unfinished(&format!("${open}")))
    }

    fn take(&mut self, length: usize) -> String {
        let (taken, rest) = self.rest.split_at(length);
        self.rest = rest;
        taken.to_owned()
    }

    fn add(&mut self, written: &str, text: &str, is_replaced: bool) {
        let word =
            self.word.get_or_insert_with(|| Word { written: String::new(), text: String::new(), is_replaced: false });
        word.written += written;
        word.text += text;
        word.is_replaced |= is_replaced;
    }
}

/// Whether blanks at the end of a line are next, and more lines behind them.
fn is_blank_at_end_of_line(rest: &str) -> bool {
    let behind = rest.trim_start_matches([' ', '\t']);
    behind.len() < rest.len() && behind.starts_with(['\n', '\r']) && !behind.trim().is_empty()
}

fn blank_behind_backslash() -> Unreadable {
    Unreadable::new("a line ends with a space after its backslash, so the shell ends the command there")
        .hint("remove the space: the backslash must be the last character of the line")
}

fn several(operator: char) -> Unreadable {
    Unreadable::new(format!("the command line has a {operator:?} of the shell: it is more than one command"))
        .hint("give the docker run command alone, and quote the characters that are meant for it")
}

fn unfinished(what: &str) -> Unreadable {
    Unreadable::new(format!("the command line has a {what} without its end"))
        .hint("put the whole command line in single quotes, or write it after --")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(line: &str) -> Vec<String> {
        split(line).expect("words").into_iter().map(|word| word.text).collect()
    }

    #[test]
    fn words_are_divided_as_the_shell_divides_them() {
        assert_eq!(texts(r#"docker run --gpus '"device=0,3"' x"#), ["docker", "run", "--gpus", "\"device=0,3\"", "x"]);
        assert_eq!(texts(r#"a "b c"'d'\ e \"f"#), ["a", "b cd e", "\"f"]);
        assert_eq!(texts("docker run \\\n  --rm \\\r\n x # and no more"), ["docker", "run", "--rm", "x"]);
        assert_eq!(
            texts(r#"-u "$(id -u):$(id -g)" `whoami` ${A:-b c} $"#),
            ["-u", "$(id -u):$(id -g)", "`whoami`", "${A:-b c}", "$"]
        );
        assert_eq!(texts("''"), [""]);
    }

    #[test]
    fn words_are_written_as_they_were() {
        for line in [r#"-v "$PWD":/x"#, "-v $(pwd)/a:/b 'c d' \"e f\"", "~/x a\\ b `x y`"] {
            let written: Vec<_> = split(line).expect("words").into_iter().map(|word| word.written).collect();
            assert_eq!(written.join(" "), line);
        }
        let replaced: Vec<_> = split("$A '$A' \\$A \"$A\" *.c ~/x x~ $").expect("words");
        let replaced: Vec<_> = replaced.iter().map(|word| word.is_replaced).collect();
        assert_eq!(replaced, [true, false, false, true, true, true, false, false]);
    }

    #[test]
    fn several_commands_and_unfinished_ones_are_refused() {
        for line in
            ["a; b", "a && b", "a | b", "a > b", "(a)", "a &", "'a", "\"a", "a \\", "$(a", "`a", "\"$(a\"", "a\u{200b}"]
        {
            assert!(split(line).is_err(), "{line:?}");
        }
        // The next line of a script, whose words would be the container's.
        for script in ["docker run a\nrm -rf /data\n", "docker run a \nreboot\n"] {
            assert!(split(script).is_err(), "{script:?}");
        }
        assert_eq!(texts("\n# asks\na \\\n b\n\n# end\n"), ["a", "b"]);
    }

    #[test]
    fn a_line_goes_on_behind_a_backslash_that_ends_it() {
        assert_eq!(texts("a \\\r\n b c \\\r\n d\r\n"), ["a", "b", "c", "d"]);
        let e = split("docker run \\ \n --rm x").expect_err("a space behind the backslash");
        assert!(e.says.contains("space after its backslash"), "{e:?}");
        assert_eq!(texts("a \\ \n"), ["a", " "]);
    }
}
