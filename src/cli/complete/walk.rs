//! Where on the command line the cursor is, by the definition that clap has: after an option that
//! takes a value, on an option, or on a command or an argument.

use super::values::Candidate;
use clap::{Arg, Command};

/// What an argument of a command can be, by what was typed of it. Without an answer it has the
/// values of its definition.
pub(crate) type ValuesOf<'a> = dyn Fn(&str, &Arg, &str) -> Option<Vec<Candidate>> + 'a;

/// What fits there.
pub(crate) fn candidates(
    all: &Command,
    words: &[String],
    current: &str,
    values: &ValuesOf<'_>,
) -> Vec<Candidate> {
    let Position {
        command,
        waiting,
        arguments,
        options_ended,
    } = Position::after(all, words);
    let of = |arg: &Arg, typed: &str| of_value(command, arg, typed, values);
    if let Some(arg) = waiting {
        return of(arg, current);
    }
    if !options_ended && current.starts_with('-') {
        return match current
            .strip_prefix("--")
            .and_then(|rest| rest.split_once('='))
        {
            Some((name, typed)) => {
                let arg = command
                    .get_arguments()
                    .find(|arg| arg.get_long() == Some(name))
                    .filter(takes_value);
                let found = arg.map(|arg| of(arg, typed)).unwrap_or_default();
                found
                    .into_iter()
                    .map(|candidate| candidate.after(&format!("--{name}=")))
                    .collect()
            }
            None => options(command, current),
        };
    }
    let mut found = Vec::new();
    if arguments == 0 {
        let shown = command.get_subcommands().filter(|sub| !sub.is_hide_set());
        found = begun(
            current,
            shown.map(|sub| {
                let about = sub.get_about().map(ToString::to_string);
                Candidate::new(sub.get_name(), about.unwrap_or_default())
            }),
        );
    }
    let positional = command.get_positionals().nth(arguments);
    // The last one may take several.
    let positional = positional.or_else(|| {
        command.get_positionals().last().filter(|arg| {
            arg.get_num_args()
                .is_some_and(|count| count.max_values() > 1)
        })
    });
    found.extend(positional.map(|arg| of(arg, current)).unwrap_or_default());
    if found.is_empty() && current.is_empty() && positional.is_none() && !options_ended {
        found = options(command, "--");
    }
    found
}

/// What the words before the cursor lead to.
struct Position<'a> {
    command: &'a Command,
    /// The option whose value comes next.
    waiting: Option<&'a Arg>,
    arguments: usize,
    options_ended: bool,
}

impl<'a> Position<'a> {
    fn after(all: &'a Command, words: &[String]) -> Self {
        let mut at = Self {
            command: all,
            waiting: None,
            arguments: 0,
            options_ended: false,
        };
        for word in words.iter().skip(1) {
            if at.waiting.take().is_some() {
            } else if at.options_ended {
                at.arguments += 1;
            } else if word == "--" {
                at.options_ended = true;
            } else if let Some(name) = word.strip_prefix("--") {
                at.waiting = at
                    .command
                    .get_arguments()
                    .find(|arg| arg.get_long() == Some(name))
                    .filter(takes_value);
            } else if let Some(letters) = word.strip_prefix('-').filter(|all| !all.is_empty()) {
                at.waiting = last_letter(at.command, letters);
            } else if at.arguments == 0
                && let Some(below) = at.command.find_subcommand(word)
            {
                at.command = below;
            } else {
                at.arguments += 1;
            }
        }
        at
    }
}

fn takes_value(arg: &&Arg) -> bool {
    arg.get_action().takes_values()
}

/// The option of the last letter of `-vo`, if its value is the next word.
fn last_letter<'a>(command: &'a Command, letters: &str) -> Option<&'a Arg> {
    let (end, arg) = letters.char_indices().find_map(|(at, letter)| {
        let arg = command
            .get_arguments()
            .find(|arg| arg.get_short() == Some(letter))
            .filter(takes_value)?;
        Some((at + letter.len_utf8(), arg))
    })?;
    // `-oFILE`: the value is there.
    (end == letters.len()).then_some(arg)
}

fn options(command: &Command, typed: &str) -> Vec<Candidate> {
    let shown = command.get_arguments().filter(|arg| !arg.is_hide_set());
    let all = shown.filter_map(|arg| {
        let about = arg.get_help().map(ToString::to_string).unwrap_or_default();
        Some(Candidate::new(format!("--{}", arg.get_long()?), about))
    });
    begun(typed, all)
}

/// Those that begin with what was typed, to the letter.
fn begun(typed: &str, all: impl Iterator<Item = Candidate>) -> Vec<Candidate> {
    all.filter(|candidate| candidate.value.starts_with(typed))
        .collect()
}

fn of_value(command: &Command, arg: &Arg, typed: &str, values: &ValuesOf<'_>) -> Vec<Candidate> {
    // `a100,t4`: the last of a list. `--cuda` has lists, too, but divides them itself, because
    // ranges have commas.
    let delimiter = arg
        .get_value_delimiter()
        .or((arg.get_id() == "cuda").then_some(','));
    let begins = delimiter
        .and_then(|delimiter| typed.rfind(delimiter))
        .map_or(0, |at| at + 1);
    let (before, typed) = typed.split_at(begins);
    let found = values(command.get_name(), arg, typed).unwrap_or_else(|| {
        let shown = arg
            .get_possible_values()
            .into_iter()
            .filter(|value| !value.is_hide_set());
        begun(
            typed,
            shown.map(|value| {
                let about = value.get_help().map(ToString::to_string);
                Candidate::new(value.get_name(), about.unwrap_or_default())
            }),
        )
    });
    found
        .into_iter()
        .map(|candidate| candidate.after(before))
        .collect()
}
