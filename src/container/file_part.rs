//! What Compose files and Kubernetes' pods have in common: a container with an image, words and variables.

use super::asked::{Asked, CommandLine, ENTRYPOINT, Engine, capabilities, is_requirement};
use super::flags::Flag;
use super::request::{Gpus, Request};
use super::shell_words::Word;
use super::unreadable::Unreadable;
use crate::text::is_hidden;
use serde_json::Value;

/// A container of a file.
pub type Named = (String, Asked);

/// A variable's name, and its value unless that is the shell's.
pub type Variable<'a> = (&'a str, Option<String>);

/// The texts of a list, or the only one.
pub fn texts(value: Option<&Value>) -> Vec<&str> {
    match value {
        Some(Value::String(text)) => vec![text.as_str()],
        Some(Value::Array(all)) => all.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

/// A failure in a part of the file, which it names.
pub fn of_part(kind: &str, name: &str, e: Unreadable) -> Unreadable {
    Unreadable { says: format!("{kind} {name}: {}", e.says), ..e }
}

/// The parts of the driver that the variables ask for.
pub fn of_variables(variables: &[Variable]) -> Option<Vec<String>> {
    let (_, value) = variables.iter().find(|(name, _)| *name == "NVIDIA_DRIVER_CAPABILITIES")?;
    capabilities(value.as_deref()?)
}

/// What is said of files with variables: they may choose the GPUs of a container that has NVIDIA's runtime.
pub fn unread_variables<'a>(files: impl Iterator<Item = &'a str>) -> Option<String> {
    let files: Vec<_> = files.collect();
    let says = || {
        format!(
            "gpusetup does not read {}. If NVIDIA_VISIBLE_DEVICES is set there, it chooses the GPUs: name it outside of the \
             file, too",
            files.join(", ")
        )
    };
    (!files.is_empty()).then(says)
}

/// A container of a file, whose GPUs are not known yet.
pub fn asked(
    image: Option<String>,
    (program, arguments): (Option<Vec<Word>>, Vec<Word>),
    variables: &[Variable],
    left_out: Vec<String>,
) -> Result<Asked, Unreadable> {
    // Docker's option has one word: the others come before the arguments.
    let (entrypoint, before) = match program {
        None => (None, Vec::new()),
        Some(program) => {
            let mut words = program.into_iter();
            (Some(words.next().unwrap_or_else(|| Word::of(""))), words.collect())
        }
    };
    let arguments = [before, arguments].concat();
    // Texts of several lines are common, and keep to their quotes.
    let is_strange = |text: &str| text.contains(|c| is_hidden(c) && !matches!(c, '\n' | '\t'));
    let texts = image.iter().chain(entrypoint.iter().chain(&arguments).map(|word| &word.text));
    if texts.chain(variables.iter().filter_map(|(_, value)| value.as_ref())).any(|text| is_strange(text))
        || variables.iter().any(|(name, _)| name.contains(is_hidden))
    {
        return Err(Unreadable::new("the file has a hidden character in an image, a command or a variable"));
    }
    let is_request = |name: &str| ["NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES"].contains(&name);
    let flags = variables.iter().filter(|(name, _)| !is_request(name)).map(|(name, value)| match value {
        Some(value) => Flag::of_variable(name, value),
        None => Flag::of_shell_variable(name),
    });
    let requirements = variables.iter().filter(|(name, _)| is_requirement(name));
    let line = CommandLine {
        before: Vec::new(),
        engine: Engine::File,
        global: Vec::new(),
        verb: vec![Word::of("run")],
        flags: flags.chain(entrypoint.map(|program| Flag::of(ENTRYPOINT, program))).collect(),
        at: 0,
        image: image.map(Word::of),
        apptainers_image: None,
        arguments,
        left_out,
    };
    let requirements = requirements.filter_map(|(name, value)| Some(((*name).to_owned(), value.clone()?))).collect();
    let request = Request { requirements, ..Request::of(Gpus::All) };
    Ok(Asked { line, request, from: "compose", notes: Vec::new(), is_mistaken: false })
}
