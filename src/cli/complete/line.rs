//! A command line as far as the cursor, as bash has it in `COMP_LINE`: its words, and what readline
//! will replace.

/// A command line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Line {
    /// The words before the current one, the program first.
    pub(crate) words: Vec<String>,
    current: Word,
}

/// The word at the cursor.
#[derive(Debug, Default, PartialEq, Eq)]
struct Word {
    /// Without quotes and backslashes.
    text: String,
    /// The quote that is open at the cursor.
    quote: Option<char>,
    /// Where in `text` the part begins that readline replaces: after an opening quote, or after a
    /// character like `=` that breaks words.
    replaced: usize,
}

impl Line {
    /// Reads a line of bash. `breaks` are the characters of `COMP_WORDBREAKS`.
    pub(crate) fn read(line: &str, breaks: &str) -> Self {
        let mut words = Vec::new();
        let mut word: Option<Word> = None;
        let mut quote = None;
        let mut letters = line.chars();
        while let Some(letter) = letters.next() {
            if quote.is_none() && letter.is_whitespace() {
                words.extend(word.take().map(|word| word.text));
                continue;
            }
            let current = word.get_or_insert_default();
            match (quote, letter) {
                (Some(open), _) if letter == open => quote = None,
                (None, '\'' | '"') => {
                    quote = Some(letter);
                    current.replaced = current.text.len();
                }
                (None | Some('"'), '\\') => current.text.extend(letters.next()),
                (None, _) if breaks.contains(letter) => {
                    current.text.push(letter);
                    current.replaced = current.text.len();
                }
                _ => current.text.push(letter),
            }
        }
        let current = Word {
            quote,
            ..word.unwrap_or_default()
        };
        // `NAME=value gpusetup …`, and what sudo leaves of its line.
        let at = words
            .iter()
            .position(|word| word.rsplit('/').next() == Some("gpusetup"))
            .unwrap_or(0);
        words.drain(..at);
        Self { words, current }
    }

    /// A line of another shell, which replaces whole words.
    pub(crate) fn of_words(words: Vec<String>, current: String) -> Self {
        Self {
            words,
            current: Word {
                text: current,
                ..Word::default()
            },
        }
    }

    /// What was typed of the current word.
    pub(crate) fn current(&self) -> &str {
        &self.current.text
    }

    /// What bash is to put in place of the part that it replaces, quoted, for a word that completes
    /// the current one. None if the word does not.
    pub(crate) fn completed(&self, word: &str) -> Option<String> {
        let Word {
            text,
            quote,
            replaced,
        } = &self.current;
        let rest = word.strip_prefix(&text[..*replaced])?;
        let mut out = String::new();
        for c in rest.chars() {
            let is_special = match quote {
                None => !c.is_alphanumeric() && !"-_./:=@,+%".contains(c),
                Some('"') => "\"\\$`".contains(c),
                // Nothing can be quoted there.
                Some(_) if c == '\'' => return None,
                Some(_) => false,
            };
            out.extend(is_special.then_some('\\'));
            out.push(c);
        }
        Some(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Line {
        Line::read(line, " \t\n\"'@><=;|&(:")
    }

    #[test]
    fn words_are_those_of_the_shell() {
        let line = read("gpusetup plan --gpu \"rtx 3090\" --cuda '>=12' a\\ b x");
        assert_eq!(
            line.words,
            [
                "gpusetup", "plan", "--gpu", "rtx 3090", "--cuda", ">=12", "a b"
            ]
        );
        assert_eq!(line.current(), "x");
        assert_eq!(read("gpusetup plan ").words, ["gpusetup", "plan"]);
        assert_eq!(read("gpusetup plan ").current(), "");
        assert_eq!(
            read("A=1 B=2 ./gpusetup plan x").words,
            ["./gpusetup", "plan"]
        );
        assert_eq!(read("").words, Vec::<String>::new());
        assert_eq!(read("gpusetup \\").current(), "");
    }

    #[test]
    fn what_readline_replaces_begins_after_a_break_or_a_quote() {
        for (typed, candidate, replacement) in [
            ("gpusetup plan --gpu=h1", "--gpu=h100", "h100"),
            ("gpusetup plan --for torch==2", "torch==2.9", "2.9"),
            ("gpusetup plan --for \"torch==2", "torch==2.9", "torch==2.9"),
            ("gpusetup plan --gpu 10de:2", "10de:2330", "2330"),
            ("gpusetup plan --cuda \">=12", ">=12.8", ">=12.8"),
            ("gpusetup plan --gpu h", "h100 pcie", "h100\\ pcie"),
            ("gpusetup plan --gpu 'h", "h100 pcie", "h100 pcie"),
            ("gpusetup plan --gpu \"", "$x`\"", "\\$x\\`\\\""),
        ] {
            assert_eq!(
                read(typed).completed(candidate).as_deref(),
                Some(replacement),
                "{typed}"
            );
        }
        assert_eq!(read("gpusetup plan --gpu=h").completed("h100"), None);
        assert_eq!(read("gpusetup plan --gpu 'h").completed("it's"), None);
        // A break that the user took out of COMP_WORDBREAKS breaks nothing.
        assert_eq!(
            Line::read("gpusetup --gpu=h", " ")
                .completed("--gpu=h100")
                .as_deref(),
            Some("--gpu=h100")
        );
    }
}
