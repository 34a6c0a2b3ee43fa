//! `gpusetup container translate`: a command line or file in, the same request in other forms out.

use super::super::files::read_text;
use super::super::options::{ColorOption, JsonOption};
use super::super::{Problem, print, print_json, print_text, say};
use crate::container::{self, Form, Found, TranslatedRequest, Unreadable};
use crate::exit::Exit;
use crate::render::container as rendered;
use clap::builder::PossibleValuesParser;
use std::path::Path;

/// Flags of `container translate`.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// A command line in quotes or behind --, a Compose or Kubernetes file, or - for standard input
    #[arg(value_name = "COMMAND", required = true)]
    words: Vec<String>,
    /// Print only this form
    #[arg(long, value_name = "FORM", help_heading = "Output",
          value_parser = PossibleValuesParser::new(Form::ALL.map(Form::as_str)))]
    to: Option<String>,
    #[command(flatten)]
    form: JsonOption,
}

/// Does it.
pub fn run(options: &Options) -> Result<Exit, Problem> {
    let found = read(&options.words, options.to.as_deref())?;
    if let Some(to) = &options.to {
        let form: Form = to.parse().map_err(Problem::usage)?;
        return print_form(&found, form, options.form.json);
    }
    let all = container::translated(&found);
    if options.form.json {
        print_json(&all)?
    } else {
        print_text(rendered::translated(&all), ColorOption::Auto, false)?
    }
    Ok(Exit::Done)
}

/// One word is a command line, a file or standard input; several are the words of a command line.
fn read(words: &[String], to: Option<&str>) -> Result<Vec<Found>, Problem> {
    let found = match words {
        [word] if word == "-" || is_file(word) => container::read(&read_text(Path::new(word))?),
        [line] => container::read(line),
        words => container::read_words(words),
    };
    found.map_err(|e| problem(e, to))
}

fn is_file(word: &str) -> bool {
    let ends = [".yaml", ".yml", ".json"].iter().any(|end| word.ends_with(end));
    ends && !word.contains(char::is_whitespace)
}

/// The refusal, whose commands keep the form that was asked for.
fn problem(e: Unreadable, to: Option<&str>) -> Problem {
    const TRANSLATE: &str = "gpusetup container translate";
    let problem = e.hints.into_iter().fold(Problem::usage(e.says), Problem::hint);
    let with_form = |command: String| match to {
        Some(to) => command.replacen(TRANSLATE, &format!("{TRANSLATE} --to {to}"), 1),
        None => command,
    };
    e.tries.into_iter().map(with_form).fold(problem, Problem::attempt)
}

/// Prints one form alone, to be pasted or piped on; what is to be said about it goes to standard error.
fn print_form(found: &[Found], form: Form, json: bool) -> Result<Exit, Problem> {
    let mut all = container::translated(found);
    for (request, found) in all.requests.iter_mut().zip(found) {
        request.forms = vec![found.written(form)];
    }
    if json {
        print_json(&all)?;
        let is_expressed = all.requests.iter().flat_map(|request| &request.forms).all(|form| form.text.is_some());
        return Ok(if is_expressed { Exit::Done } else { Exit::NothingFits });
    }
    // Where there are several, what is said names the one that it is about.
    let name = |request: &TranslatedRequest| match (&request.name, all.requests.len()) {
        (Some(name), 2..) => format!("{name}: "),
        _ => String::new(),
    };
    let (mut texts, mut notes, mut refused) = (Vec::new(), Vec::new(), Vec::new());
    for request in &all.requests {
        let about = name(request);
        for written in &request.forms {
            let Some(text) = &written.text else {
                let gpus = request.request.gpus.described();
                let problem =
                    Problem::new(Exit::NothingFits, format!("{about}{form} cannot express this request: {gpus}"));
                refused.push(written.differences.iter().cloned().fold(problem, Problem::hint));
                continue;
            };
            let said = request.notes.iter().chain(&written.differences).chain(&written.notes);
            notes.extend(said.map(|note| format!("{about}{note}")));
            texts.push((request.name.as_deref(), text.as_str()));
        }
    }
    all.notes.iter().chain(&notes).for_each(|note| say(note));
    if !texts.is_empty() {
        print(&container::joined(form, &texts))?;
    }
    // The first one is the error of the whole call; the others are shown as errors, too.
    let mut refused = refused.into_iter();
    let first = refused.next();
    refused.for_each(|problem| problem.report());
    first.map_or(Ok(Exit::Done), Err)
}
