//! A text translated into every form.

use super::asked::Asked;
use super::command_line;
use super::file;
use super::form::{Form, Written};
use super::request::Request;
use super::shell_words::{Word, split};
use super::unreadable::Unreadable;
use super::write::write;
use super::write_file::{SERVICES, pod_name};
use crate::text::one_line;
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
    /// What is said of other parts of a file, whose requests are not read.
    pub notes: Vec<String>,
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
    /// The name of its pod, which no other request of the file has.
    pod: Option<String>,
    asked: Asked,
    /// What is said of other parts of the file. The first request has it.
    about_others: Vec<String>,
}

impl Found {
    /// The request.
    pub fn request(&self) -> &Request {
        &self.asked.request
    }

    /// Writes it.
    pub fn written(&self, form: Form) -> Written {
        let name = if form == Form::Kubernetes { &self.pod } else { &self.name };
        write(&self.asked.line, &self.asked.request, form, name.as_deref())
    }

    /// The request of a command line.
    fn of_line(asked: Asked) -> Self {
        Self { name: None, pod: None, asked, about_others: Vec::new() }
    }
}

/// Reads a command line, or the text of a file.
///
/// # Errors
///
/// If it is neither, or asks for no GPU.
pub fn read(text: &str) -> Result<Vec<Found>, Unreadable> {
    // Editors of Windows begin a file with a byte-order mark.
    let unmarked = text.strip_prefix('\u{feff}').unwrap_or(text);
    if file::is_one(unmarked) {
        let (named, mut about_others) = file::read(unmarked)?;
        let mut found: Vec<Found> = Vec::new();
        for (name, asked) in named {
            let pod = pod_name(&name, |name| found.iter().any(|found| found.pod.as_deref() == Some(name)));
            let name = unique(&name, &found);
            let about_others = std::mem::take(&mut about_others);
            found.push(Found { name: Some(name), pod: Some(pod), asked, about_others });
        }
        return Ok(found);
    }
    // What a terminal shows before a command.
    let text = text.trim();
    let line = text.strip_prefix("$ ").or_else(|| text.strip_prefix("# ")).unwrap_or(text);
    Ok(vec![Found::of_line(command_line::read(&split(line)?)?)])
}

/// A name that none of these has: pods of one file may have containers of the same name.
fn unique(name: &str, found: &[Found]) -> String {
    let is_taken = |name: &str| found.iter().any(|found| found.name.as_deref() == Some(name));
    let mut names = std::iter::once(name.to_owned()).chain((2..).map(|n: u32| format!("{name}-{n}")));
    names.find(|name| !is_taken(name)).unwrap_or_else(|| name.to_owned())
}

/// Requests in one form, as one file or one script. Where there are several, each has its name before it; a Compose file has them all.
pub fn joined(form: Form, texts: &[(Option<&str>, &str)]) -> String {
    let ended = |text: &str| format!("{}\n", text.trim_end());
    if let [(_, text)] = texts {
        return ended(text);
    }
    let headed = |(name, text): &(Option<&str>, &str)| {
        let name = name.map(|name| format!("# {}\n", one_line(name))).unwrap_or_default();
        name + &ended(text)
    };
    match form {
        Form::Compose | Form::ComposeGpus | Form::ComposeRuntime => {
            let services = texts.iter().map(|(_, text)| ended(text.strip_prefix(SERVICES).unwrap_or(text)));
            format!("{SERVICES}{}", services.collect::<String>())
        }
        Form::Kubernetes => texts.iter().map(headed).collect::<Vec<_>>().join("---\n"),
        _ => texts.iter().map(headed).collect::<Vec<_>>().join("\n"),
    }
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
    Ok(vec![Found::of_line(command_line::read(&words)?)])
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
    let notes = found.iter().flat_map(|found| found.about_others.clone()).collect();
    Translated { schema: SCHEMA, requests: found.iter().map(one).collect(), notes }
}
