//! `gpusetup container translate`: a command line in, its request for GPUs in other forms out.

use super::super::options::JsonOption;
use super::super::{Problem, print, print_json, say};
use crate::container::{
    Form, MAX_LINE, Unreadable, Written, not_a_file, translate, translate_words,
};
use crate::exit::Exit;
use crate::render::container as rendered;
use crate::system::input;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use std::path::Path;

/// Flags of `container translate`.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// One docker, nvidia-docker or podman command line, in quotes or after --, or - for standard
    /// input
    #[arg(value_name = "COMMAND", required = true)]
    words: Vec<String>,
    /// Print only this form
    #[arg(long, value_name = "FORM", help_heading = "Output", value_parser = form())]
    to: Option<Form>,
    #[command(flatten)]
    form: JsonOption,
}

fn form() -> impl TypedValueParser<Value = Form> {
    PossibleValuesParser::new(Form::ALL.map(|(_, name, ..)| name)).try_map(|text| {
        Form::ALL
            .into_iter()
            .find(|(_, name, ..)| *name == text)
            .map(|(form, ..)| form)
            .ok_or("this is not a form")
    })
}

/// Runs `gpusetup container translate`.
pub(crate) fn run(options: &Options) -> Result<Exit, Problem> {
    let forms = options.to.map_or_else(
        || Form::ALL.map(|(form, ..)| form).to_vec(),
        |form| vec![form],
    );
    let translated = match options.words.as_slice() {
        [word] if word == "-" => {
            let line = input::text_or_standard_input(Path::new(word), MAX_LINE as u64)?;
            translate(&line, &forms)
        }
        [word] if is_file(word) => Err(not_a_file()),
        [line] => translate(line, &forms),
        words => translate_words(words, &forms),
    };
    let translated = translated.map_err(problem)?;
    let alone = options.to.and_then(|_| translated.forms.first());
    if options.form.json {
        print_json(&translated)?;
        let is_expressed = alone.is_none_or(|written| written.text.is_some());
        return Ok(if is_expressed {
            Exit::Done
        } else {
            Exit::NothingFits
        });
    }
    let Some(Written {
        form,
        text,
        differences,
        notes,
    }) = alone
    else {
        // What terminals without Unicode get in place of other characters would change the
        // commands.
        print(&rendered::translated(&translated))?;
        return Ok(Exit::Done);
    };
    let Some(text) = text else {
        let gpus = translated.request.gpus.described();
        let says = format!("{} cannot express this request: {gpus}", form.name());
        return Err(differences
            .iter()
            .cloned()
            .fold(Problem::new(Exit::NothingFits, says), Problem::hint));
    };
    translated
        .request_only
        .iter()
        .for_each(|why| say(&rendered::request_only(why)));
    translated.notes.iter().for_each(|note| say(note));
    differences.iter().chain(notes).for_each(|note| say(note));
    print(&format!("{}\n", text.trim_end()))?;
    Ok(Exit::Done)
}

fn is_file(word: &str) -> bool {
    let ends = [".yaml", ".yml", ".json"]
        .iter()
        .any(|end| word.ends_with(end));
    ends && !word.contains(char::is_whitespace)
}

fn problem(e: Unreadable) -> Problem {
    let problem = e
        .hint
        .into_iter()
        .fold(Problem::usage(e.says), Problem::hint);
    e.attempt.into_iter().fold(problem, Problem::attempt)
}
