//! A text translated into every form.

use super::asked::Asked;
use super::command_line;
use super::file;
use super::form::{Form, Written};
use super::request::Request;
use super::shell_words::{Word, split};
use super::unreadable::Unreadable;
use super::write::write;
use serde::Serialize;

/// The schema's name.
pub const SCHEMA: &str = "gpusetup.container/1";

/// The requests of a text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct Translated {
    /// `gpusetup.container/1`.
    #[cfg_attr(feature = "schemas", schemars(extend("const" = SCHEMA)))]
    pub schema: &'static str,
    /// One, or one for each container of a file that asks for GPUs.
    pub requests: Vec<TranslatedRequest>,
}

/// A request and its forms.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct TranslatedRequest {
    /// The service of a Compose file, or the container of a pod. Null for a command line.
    pub name: Option<String>,
    /// The form that was read, `nvidia-docker` or the name of one of the forms.
    pub from: String,
    /// The request.
    pub request: Request,
    /// What the form that was read does that may surprise.
    pub notes: Vec<String>,
    /// The other forms.
    pub forms: Vec<Written>,
}

/// A request that was found in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    name: Option<String>,
    asked: Asked,
}

impl Found {
    /// The request.
    pub fn request(&self) -> &Request {
        &self.asked.request
    }

    /// Writes it.
    pub fn written(&self, form: Form) -> Written {
        write(&self.asked.line, &self.asked.request, form)
    }
}

/// Reads a command line, or the text of a file.
///
/// # Errors
///
/// If it is neither, or asks for no GPU.
pub fn read(text: &str) -> Result<Vec<Found>, Unreadable> {
    if file::is_one(text) {
        let named = |(name, asked)| Found { name: Some(name), asked };
        return Ok(file::read(text)?.into_iter().map(named).collect());
    }
    // What a terminal shows before a command.
    let text = text.trim();
    let line = text.strip_prefix("$ ").or_else(|| text.strip_prefix("# ")).unwrap_or(text);
    Ok(vec![Found { name: None, asked: command_line::read(&split(line)?)? }])
}

/// Reads the words of a command line, which a shell has divided already.
///
/// # Errors
///
/// If they ask for no GPU.
pub fn read_words(words: &[String]) -> Result<Vec<Found>, Unreadable> {
    let words: Vec<_> = words.iter().map(Word::of).collect();
    if words.iter().any(|word| word.text.contains(crate::text::is_hidden)) {
        return Err(Unreadable::new("the command line has a hidden character"));
    }
    Ok(vec![Found { name: None, asked: command_line::read(&words)? }])
}

/// Requests in all forms but their own; in that, too, if it is not written as the engine reads it.
pub fn translated(found: &[Found]) -> Translated {
    let one = |found: &Found| {
        let is_other = |form: &Form| form.as_str() != found.asked.from || found.asked.is_mistaken;
        TranslatedRequest {
            name: found.name.clone(),
            from: found.asked.from.to_owned(),
            request: found.asked.request.clone(),
            notes: found.asked.notes.clone(),
            forms: Form::ALL.into_iter().filter(is_other).map(|form| found.written(form)).collect(),
        }
    };
    Translated { schema: SCHEMA, requests: found.iter().map(one).collect() }
}
