//! A lint of the project's language: phrases that are never right (`xtask/prose.txt`), in every
//! text file, and sentences that are too long, in the messages of the program.

use crate::{Result, project};
use proc_macro2::{Delimiter, TokenStream, TokenTree};
use std::fs;
use std::path::Path;
use std::process::Command;

/// The most words of a sentence in a message.
const MAX_WORDS: usize = 30;

/// Files that hold the texts of others, or of an earlier gpusetup.
const FOREIGN: [&str; 9] = [
    "xtask/prose.txt",
    "xtask/recorded/",
    "tests/frozen/",
    "tests/hosts/",
    "tests/messages/",
    "compat/sources",
    "manifests/",
    "Cargo.lock",
    "fuzz/Cargo.lock",
];

/// A phrase, in lower case, and what to write instead.
struct Phrase {
    text: String,
    instead: String,
}

/// What is wrong with the project's language, as `FILE:LINE: PROBLEM`.
pub fn check() -> Result<Vec<String>> {
    let root = project();
    let phrases = phrases(&read(&root.join("xtask/prose.txt"))?)?;
    let listed = Command::new("git")
        .args(["ls-files", "-z"])
        .current_dir(&root)
        .output();
    let listed = listed.map_err(|e| format!("git ls-files: {e}"))?;
    if !listed.status.success() {
        return Err(format!(
            "git ls-files: {}",
            String::from_utf8_lossy(&listed.stderr).trim()
        ));
    }
    let names = String::from_utf8(listed.stdout).map_err(|e| format!("git ls-files: {e}"))?;
    let mut problems = Vec::new();
    for name in names
        .split('\0')
        .filter(|name| !name.is_empty() && !FOREIGN.iter().any(|foreign| name.starts_with(foreign)))
    {
        let path = root.join(name);
        if path.is_symlink() || !path.is_file() {
            continue;
        }
        // What is no text has no language.
        let Ok(text) = fs::read_to_string(&path) else {
            continue;
        };
        let mut found = never_right(&text, &phrases);
        if (name.starts_with("src/") || name.starts_with("crates/")) && name.ends_with(".rs") {
            found.extend(too_long(&text).map_err(|e| format!("{name}: {e}"))?);
        }
        found.sort();
        problems.extend(
            found
                .into_iter()
                .map(|(line, problem)| format!("{name}:{line}: {problem}")),
        );
    }
    Ok(problems)
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))
}

fn phrases(list: &str) -> Result<Vec<Phrase>> {
    let mut all = Vec::new();
    for line in list
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
    {
        let (phrases, instead) = line
            .split_once(" -> ")
            .ok_or_else(|| format!("xtask/prose.txt: no ` -> ` in `{line}`"))?;
        all.extend(phrases.split(", ").map(|text| Phrase {
            text: text.to_lowercase(),
            instead: instead.to_owned(),
        }));
    }
    Ok(all)
}

/// The lines with phrases of the list. A phrase may go over the end of a line, also in comments and
/// string literals.
fn never_right(text: &str, phrases: &[Phrase]) -> Vec<(usize, String)> {
    let (flat, lines) = flattened(text);
    let mut found = Vec::new();
    for Phrase {
        text: phrase,
        instead,
    } in phrases
    {
        for (at, _) in flat.match_indices(phrase.as_str()) {
            let joined = |c: char| c.is_alphanumeric() || c == '_';
            let before = flat[..at].chars().next_back().is_some_and(joined);
            let after = flat[at + phrase.len()..].chars().next().is_some_and(joined);
            if !before && !after {
                found.push((lines[at], format!("\"{phrase}\": write {instead}")));
            }
        }
    }
    found
}

/// The text in lower case with one space between words, and the line of each of its bytes.
fn flattened(text: &str) -> (String, Vec<usize>) {
    let (mut flat, mut lines) = (
        String::with_capacity(text.len()),
        Vec::with_capacity(text.len()),
    );
    for (n, line) in text.lines().enumerate() {
        let line = line
            .trim()
            .trim_start_matches(['/', '!', '#', '*'])
            .trim_end_matches('\\');
        for word in line.split_whitespace() {
            flat += &word.to_lowercase();
            flat.push(' ');
            lines.resize(flat.len(), n + 1);
        }
    }
    (flat, lines)
}

/// The lines of string literals with a sentence of too many words, but for those of tests.
fn too_long(source: &str) -> Result<Vec<(usize, String)>> {
    let tokens: TokenStream = source
        .parse()
        .map_err(|e| format!("cannot be read as Rust: {e}"))?;
    let mut found = Vec::new();
    literals(tokens, &mut |line, text| {
        let words = text
            .split(". ")
            .flat_map(|part| part.split('\n'))
            .map(|sentence| sentence.split_whitespace().count())
            .max();
        if let Some(words) = words.filter(|words| *words > MAX_WORDS) {
            found.push((
                line,
                format!("a sentence of {words} words; {MAX_WORDS} are the most"),
            ));
        }
    });
    Ok(found)
}

/// Calls `each` with the string literals outside of tests and of doc comments, and their lines.
fn literals(tokens: TokenStream, each: &mut impl FnMut(usize, &str)) {
    let mut of_tests = false;
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Punct(punct) if punct.as_char() == '#' => {
                let Some(TokenTree::Group(attribute)) =
                    tokens.next_if(|t| matches!(t, TokenTree::Group(_)))
                else {
                    continue;
                };
                let text = attribute.stream().to_string();
                of_tests |=
                    text.starts_with("cfg") && text.contains("test") && !text.contains("not");
                if !text.starts_with("doc") {
                    literals(attribute.stream(), each);
                }
            }
            TokenTree::Group(group) => {
                let skip = of_tests && group.delimiter() == Delimiter::Brace;
                if skip {
                    of_tests = false;
                } else {
                    literals(group.stream(), each);
                }
            }
            TokenTree::Punct(punct) if punct.as_char() == ';' => of_tests = false,
            TokenTree::Literal(literal) => {
                let text = literal.to_string();
                if let Some(inside) = text.strip_prefix('"').and_then(|t| t.strip_suffix('"')) {
                    each(
                        literal.span().start().line,
                        &inside.replace("\\n", "\n").replace("\\\n", " "),
                    );
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phrase_is_found_as_words() {
        let list = phrases("# a comment\n\nfoo bar, baz -> qux\n").expect("it is sound");
        let found = |text| {
            never_right(text, &list)
                .into_iter()
                .map(|(line, _)| line)
                .collect::<Vec<_>>()
        };
        assert_eq!(found("Foo bar\nfoobar foo_bar baz2\nBAZ."), [1, 3]);
        assert_eq!(found("one\n    /// two foo\n    /// bar three"), [2]);
        assert_eq!(found("let a = \"foo \\\n    bar\";"), [1]);
    }

    #[test]
    fn long_sentences_are_found_in_messages() {
        let long = "word ".repeat(31);
        let source = format!(
            "/// {long}\n#[error(\"{long}\")]\nfn f() {{ say(\"{long}\"); say(\"short. {}\") }}\n#[cfg(test)]\nmod t {{ fn g() {{ say(\"{long}\") }} }}",
            "word ".repeat(30)
        );
        let lines: Vec<_> = too_long(&source)
            .expect("it is sound")
            .into_iter()
            .map(|(line, _)| line)
            .collect();
        assert_eq!(lines, [2, 3]);
    }
}
