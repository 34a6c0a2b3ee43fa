//! A command line translated into every form.

use super::command_line;
use super::form::write;
use super::request::{Form, Translated, Unreadable};
use super::shell_words::{MAX_LINE, Word, split, written};

/// Translates a command line into these forms.
///
/// # Errors
///
/// If it is not one, asks for no GPU, or does not say for certain which.
pub fn translate(line: &str, forms: &[Form]) -> Result<Translated, Unreadable> {
    // Editors of Windows begin a file with a byte-order mark.
    let line = line.strip_prefix('\u{feff}').unwrap_or(line);
    let first = line.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with('#')).unwrap_or_default();
    let word = first.split_whitespace().next().unwrap_or_default();
    if word.ends_with(':') || word.starts_with('{') || word == "---" {
        return Err(not_a_file());
    }
    let (words, has_comment) = split(line)?;
    in_forms(&words, has_comment, forms)
}

/// Translates the words of a command line, which a shell has divided already.
///
/// # Errors
///
/// If they are not one, ask for no GPU, or do not say for certain which.
pub fn translate_words(words: &[String], forms: &[Form]) -> Result<Translated, Unreadable> {
    // What is hidden in a word would be hidden in what is printed, too. Quoted, it is read back as it is.
    let quoted = written(words);
    if quoted.len() > MAX_LINE || quoted.contains(crate::text::is_hidden) {
        split(&quoted)?;
    }
    in_forms(&words.iter().map(Word::literal).collect::<Vec<_>>(), false, forms)
}

/// Why a file is not read.
pub fn not_a_file() -> Unreadable {
    Unreadable {
        attempt: Some("gpusetup container translate 'docker run --gpus all IMAGE'".to_owned()),
        ..Unreadable::new(
            "files of Compose and Kubernetes are not translated: give the docker or podman command line of one container",
        )
    }
}

fn in_forms(words: &[Word], has_comment: bool, forms: &[Form]) -> Result<Translated, Unreadable> {
    let (line, translated) = command_line::read(words, has_comment)?;
    let forms = forms.iter().map(|form| write(&line, &translated, *form)).collect();
    Ok(Translated { forms, ..translated })
}
