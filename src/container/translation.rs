//! A command line translated into every form.

use super::command_line::{self, CommandLine};
use super::form::{Form, Written, write};
use super::request::{Request, Unreadable};
use super::shell_words::{MAX_LINE, Word, split};
use serde::Serialize;

/// A request for GPUs and its forms.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct Translated {
    /// `gpusetup.container/1`.
    #[cfg_attr(feature = "schemas", schemars(extend("const" = "gpusetup.container/1")))]
    pub schema: &'static str,
    /// The form that was read: `nvidia-docker`, or the name of one of the forms.
    pub from: &'static str,
    /// The request.
    pub request: Request,
    /// Why the forms have only the options for GPUs, and not the whole command line. Null if they have it.
    pub request_only: Option<&'static str>,
    /// What the form that was read does that may surprise.
    pub notes: Vec<&'static str>,
    /// The forms.
    pub forms: Vec<Written>,
}

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
    command_line::read(&words, has_comment).map(|line| in_forms(&line, forms))
}

/// Translates the words of a command line, which a shell has divided already.
///
/// # Errors
///
/// If they are not one, ask for no GPU, or do not say for certain which.
pub fn translate_words(words: &[String], forms: &[Form]) -> Result<Translated, Unreadable> {
    // What is hidden in a word would be hidden in what is printed, too. Quoted, it is read back as it is.
    let quoted = super::shell_words::written(words);
    if quoted.len() > MAX_LINE || quoted.contains(crate::text::is_hidden) {
        split(&quoted)?;
    }
    let words: Vec<_> = words.iter().map(Word::literal).collect();
    command_line::read(&words, false).map(|line| in_forms(&line, forms))
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

fn in_forms(line: &CommandLine, forms: &[Form]) -> Translated {
    Translated {
        schema: "gpusetup.container/1",
        from: line.from,
        request: line.request.clone(),
        request_only: line.request_only,
        notes: line.notes.clone(),
        forms: forms.iter().map(|form| write(line, *form)).collect(),
    }
}
