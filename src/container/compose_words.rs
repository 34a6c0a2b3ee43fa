//! The words of an entrypoint or a command that a Compose file has as one text. Compose divides it with go-shellwords 1.0.12,
//! which is no shell: it replaces nothing, and ends the command at the first operator of a shell.
//! <https://github.com/compose-spec/compose-go/blob/main/types/command.go>,
//! <https://github.com/mattn/go-shellwords/blob/v1.0.12/shellwords.go>

use super::shell_words::Word;
use super::unreadable::Unreadable;

/// The words of a text.
#[derive(Debug, PartialEq, Eq)]
pub struct ComposeWords {
    /// Each with exactly the text that the container gets.
    pub words: Vec<Word>,
    /// What Compose drops: the text from the first `;`, `&`, `|`, `<` or `>` outside quotes on.
    pub dropped: Option<String>,
}

/// The words of a text, in which Compose has replaced its variables already.
///
/// # Errors
///
/// If Compose refuses the text: a quote without its end, or a parenthesis outside quotes.
pub fn divide(text: &str) -> Result<ComposeWords, Unreadable> {
    let (mut words, mut word, mut dropped) = (Vec::new(), None::<String>, None);
    // The quote that is open; backticks and `$(` keep white space together and stay in the word.
    let (mut quote, mut in_backticks, mut in_parentheses) = (None::<char>, false, false);
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        let is_open = quote.is_some() || in_backticks || in_parentheses;
        let mut kept = Some(c);
        match c {
            '\\' if quote != Some('\'') => {
                let (_, next) = chars.next().ok_or_else(|| refused("\\ without a character behind it"))?;
                kept = Some(next);
            }
            ' ' | '\t' | '\r' | '\n' if !is_open => {
                words.extend(word.take().map(Word::of));
                continue;
            }
            '"' | '\'' if quote == Some(c) => {
                quote = None;
                kept = None;
            }
            '"' | '\'' if quote.is_none() && !in_parentheses => {
                quote = Some(c);
                continue;
            }
            '`' if quote.is_none() && !in_parentheses => in_backticks = !in_backticks,
            '(' | ')' if quote.is_some() || in_backticks => {}
            '(' if !in_parentheses && word.as_ref().is_some_and(|word| word.ends_with('$')) => in_parentheses = true,
            ')' if in_parentheses => in_parentheses = false,
            '(' | ')' => return Err(refused(&format!("{c} outside quotes"))),
            ';' | '&' | '|' | '<' | '>' if !is_open => {
                // The number of a file descriptor.
                if c == '>' && word.as_ref().is_some_and(|word| word.starts_with(|c: char| c.is_ascii_digit())) {
                    word = None;
                }
                dropped = Some(text[at..].trim_end().to_owned());
                break;
            }
            _ => {}
        }
        word.get_or_insert_with(String::new).extend(kept);
    }
    if quote.is_some() || in_backticks || in_parentheses {
        return Err(refused("quote without its end"));
    }
    words.extend(word.map(Word::of));
    Ok(ComposeWords { words, dropped })
}

fn refused(what: &str) -> Unreadable {
    Unreadable::new(format!("Compose refuses a command with a {what}")).hint("write the command as a list of words")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(text: &str) -> Vec<String> {
        divide(text).expect("words").words.into_iter().map(|word| word.text).collect()
    }

    #[test]
    fn texts_are_divided_as_compose_divides_them() {
        assert_eq!(
            texts("vllm serve\n  --model a/b\n  --port 80\n"),
            ["vllm", "serve", "--model", "a/b", "--port", "80"]
        );
        assert_eq!(texts(r#"sh -c "echo $HOME `id` && ls > x; (a)""#), ["sh", "-c", "echo $HOME `id` && ls > x; (a)"]);
        assert_eq!(
            texts("~/a {1,2} [a]*.txt $X # no comment"),
            ["~/a", "{1,2}", "[a]*.txt", "$X", "#", "no", "comment"]
        );
        assert_eq!(texts("$(id -u) `a b` a\"b\"'c'"), ["$(id -u)", "`a b`", "abc"]);
        assert_eq!(texts(r#"'' "" a '\'"#), ["", "", "a", "\\"]);
        // A backslash stands for the next character: also in double quotes, and before the end of a line.
        assert_eq!(texts(r#"a\ b "\n\"" \;"#), ["a b", "n\"", ";"]);
        assert_eq!(texts("a \\\n  b"), ["a", "\n", "b"]);
        assert_eq!(texts("  "), [""; 0]);
    }

    #[test]
    fn words_are_quoted_for_the_shell() {
        let words = divide("echo ~/a {1,2} *.txt $X `id`x").expect("words").words;
        let written: Vec<_> = words.iter().map(|word| word.written.as_str()).collect();
        assert_eq!(written, ["echo", "'~/a'", "'{1,2}'", "'*.txt'", "'$X'", "'`id`x'"]);
        assert!(words.iter().all(|word| !word.is_replaced));
    }

    #[test]
    fn an_operator_of_a_shell_ends_the_command() {
        let cut = |text: &str| divide(text).map(|all| (all.words.len(), all.dropped));
        assert_eq!(cut("echo a;b"), Ok((2, Some(";b".to_owned()))));
        assert_eq!(cut("a && b | c"), Ok((1, Some("&& b | c".to_owned()))));
        assert_eq!(cut("a 2>/dev/null"), Ok((1, Some(">/dev/null".to_owned()))));
        for text in ["f()", "a (b)", "a)", "'a", "\"a", "`a", "$(a", "a\\"] {
            assert!(cut(text).is_err(), "{text}");
        }
    }
}
