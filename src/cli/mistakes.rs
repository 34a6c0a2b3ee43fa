//! Common wrong command lines, and the right ones: what clap alone would answer with "unexpected
//! argument".

use super::Problem;
use super::config::{Config, OptionOrigin, is_option};
use crate::database::shared;
use crate::host::assumed_gpus;
use crate::system::input;
use crate::system::trust::Trust;
use crate::text::{MAX_EDITS, nearest, quoted, quoted_path};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use std::ffi::OsString;
use std::path::Path;

/// Commands of other tools, and what does the same here.
const ELSEWHERE: [(&[&str], &[&str]); 14] = [
    (
        &["install", "add", "setup", "get"],
        &[
            "gpusetup plan  # shows what would be installed",
            "sudo gpusetup apply  # installs it",
        ],
    ),
    (&["remove", "purge", "delete"], &["sudo gpusetup uninstall"]),
    (&["autoremove", "clean", "gc"], &["sudo gpusetup prune"]),
    (
        &["upgrade", "update"],
        &[
            "sudo gpusetup apply --upgrade  # newer versions",
            "sudo gpusetup db update  # a newer database",
            "sudo gpusetup self update  # a newer gpusetup",
        ],
    ),
    (
        &["search", "find", "show", "query"],
        &["gpusetup db show {}", "gpusetup db list gpus"],
    ),
    (
        &["ls", "devices", "toolkits"],
        &[
            "gpusetup list  # what is installed here",
            "gpusetup db list cuda  # what gpusetup knows",
        ],
    ),
    (
        &["info", "detect", "inspect", "hardware"],
        &["gpusetup facts"],
    ),
    (
        &["check", "verify", "test", "diagnose", "validate"],
        &["gpusetup doctor"],
    ),
    (&["fix", "repair"], &["sudo gpusetup doctor --fix"]),
    (&["undo", "revert", "restore"], &["sudo gpusetup rollback"]),
    (&["continue"], &["sudo gpusetup resume"]),
    (
        &["switch", "select", "default", "alternatives"],
        &["sudo gpusetup use cuda 12.8"],
    ),
    (&["why", "describe"], &["gpusetup explain {}"]),
    (&["version"], &["gpusetup --version"]),
];

/// The problem with a command line that clap refused, if it is a mistake with a known answer.
pub(crate) fn known(
    error: &clap::Error,
    arguments: &[OsString],
    commands: &[String],
    config: &Config,
) -> Option<Problem> {
    let words: Vec<_> = arguments
        .iter()
        .skip(1)
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let context = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    match error.kind() {
        ErrorKind::InvalidSubcommand => {
            let typed = context(ContextKind::InvalidSubcommand)?;
            // `gpusetup db lst`: clap knows the commands of db.
            (words.first().is_some_and(|first| first == typed))
                .then(|| no_command(typed, &words, commands))
        }
        ErrorKind::UnknownArgument => {
            let typed = context(ContextKind::InvalidArg)?;
            let meant = context(ContextKind::SuggestedArg)
                .filter(|meant| strsim::damerau_levenshtein(typed, meant) <= MAX_EDITS)
                .map(|meant| misspelled(typed, meant, &words));
            no_argument(typed, &words, commands).or(meant)
        }
        ErrorKind::ArgumentConflict
            if context(ContextKind::PriorArg) == context(ContextKind::InvalidArg) =>
        {
            given_twice(context(ContextKind::InvalidArg)?, &words)
        }
        ErrorKind::ValueValidation | ErrorKind::InvalidValue => {
            let valid = match error.get(ContextKind::ValidValue) {
                Some(ContextValue::Strings(all)) => all.as_slice(),
                _ => &[],
            };
            let (option, value) = (
                context(ContextKind::InvalidArg)?,
                context(ContextKind::InvalidValue)?,
            );
            let flag = flag(option);
            let why =
                std::error::Error::source(error).map(|source| match source.to_string().as_str() {
                    "value was not a boolean" => "it can be true or false".to_owned(),
                    why => why.to_owned(),
                });
            Some(set_elsewhere(
                &config.origin(flag, arguments)?,
                flag,
                value,
                valid,
                why,
            ))
        }
        _ => None,
    }
}

fn no_command(typed: &str, words: &[String], commands: &[String]) -> Problem {
    let problem = Problem::usage(format!("there is no command `{typed}`"));
    let lower = typed.to_lowercase();
    if let Some((_, instead)) = ELSEWHERE
        .iter()
        .find(|(names, _)| names.contains(&lower.as_str()))
    {
        let object = words[1..]
            .iter()
            .find(|word| !word.starts_with('-'))
            .map_or("h100", String::as_str);
        return instead.iter().fold(problem, |problem, command| {
            problem.attempt(command.replace("{}", object))
        });
    }
    match nearest(&lower, commands.iter().map(String::as_str), MAX_EDITS) {
        Some(meant) => problem.attempt(again(words, typed, meant)),
        None if assumed_gpus(shared(), &words.join(" ")).is_ok() => {
            problem.attempt(format!("gpusetup plan --gpu {}", quoted(&words.join(" "))))
        }
        None => problem.attempt("gpusetup --help"),
    }
}

/// An option that clap found to be like another.
fn misspelled(typed: &str, meant: &str, words: &[String]) -> Problem {
    Problem::usage(format!("there is no option {typed}; did you mean {meant}?"))
        .attempt(again(words, typed, meant))
}

/// `plan` shows what `apply` would do; a plan that was made before is shown by `apply` itself,
/// which then asks.
fn dry_apply(typed: &str, words: &[String]) -> Problem {
    if !words.iter().any(|word| is_plan(word)) {
        let plan = again(words, typed, "").replacen("apply", "plan", 1);
        return Problem::usage("`gpusetup plan` is the dry run of apply").attempt(plan);
    }
    let asking: Vec<_> = words
        .iter()
        .filter(|word| !matches!(word.as_str(), "--yes" | "-y"))
        .cloned()
        .collect();
    Problem::usage("apply shows the plan in a file and asks before it changes anything")
        .attempt(again(&asking, typed, ""))
}

/// Whether a word of a command line names a file with a plan, as `plan --out` writes it.
fn is_plan(word: &str) -> bool {
    let text = input::json(Path::new(word), &Trust::Anybody);
    let plan = text
        .ok()
        .and_then(|text| serde_json::from_str::<serde_json::Value>(&text).ok());
    plan.is_some_and(|plan| {
        plan["schema"]
            .as_str()
            .is_some_and(|schema| schema.starts_with("gpusetup.plan/"))
    })
}

fn no_argument(typed: &str, words: &[String], commands: &[String]) -> Option<Problem> {
    let command = words
        .iter()
        .find(|word| commands.contains(word))
        .map(String::as_str);
    let problem = |sentence: String| Some(Problem::usage(sentence));
    match (command, typed) {
        (Some("plan"), "--dry-run" | "-n") => Some(
            problem("plan changes nothing: it is a dry run already".to_owned())?
                .attempt(again(words, typed, "")),
        ),
        (Some("apply"), "--dry-run" | "-n") => Some(dry_apply(typed, words)),
        (Some("facts" | "plan" | "apply"), _) if input::is_directory(Path::new(typed)) => Some(
            problem(format!(
                "{typed} is a directory: a tree of a host is named with --root"
            ))?
            .attempt(again(words, typed, &format!("--root {}", quoted(typed)))),
        ),
        (Some("plan" | "apply"), _) if !typed.starts_with('-') => {
            let sentence =
                format!("unexpected `{typed}`: GPUs are named with --gpu, frameworks with --for");
            Some(problem(sentence)?.attempt(again(
                words,
                typed,
                &format!("--gpu {}", quoted(typed)),
            )))
        }
        (Some("explain"), _) if typed.starts_with("--") => Some(
            problem(format!("explain has no option {typed}"))?.attempt(format!(
                "gpusetup explain option {}",
                crate::text::quoted(typed.trim_start_matches('-'))
            )),
        ),
        // An option before its command.
        (Some(command), _)
            if typed.starts_with('-') && words.first().is_some_and(|first| first == typed) =>
        {
            let rest: Vec<_> = words
                .iter()
                .filter(|word| *word != typed && *word != command)
                .map(String::as_str)
                .collect();
            let right: Vec<_> = ["gpusetup", command, typed]
                .into_iter()
                .chain(rest)
                .collect();
            Some(problem(format!("{typed} belongs after the command"))?.attempt(right.join(" ")))
        }
        (None, "--dry-run" | "-n") => {
            let sentence = "`gpusetup plan` is the dry run: it changes nothing".to_owned();
            Some(problem(sentence)?.attempt(again(words, typed, "plan")))
        }
        (None, "-v" | "--verbose") => Some(
            problem(format!("{typed} needs a command"))?
                .attempt("gpusetup --version")
                .attempt("gpusetup plan -v"),
        ),
        _ => None,
    }
}

/// The command line once more, with another word in place of one; nothing in place of it leaves it
/// out.
fn again(words: &[String], wrong: &str, right: &str) -> String {
    let mut all = vec!["gpusetup".to_owned()];
    for word in words {
        match word.as_str() {
            word if word != wrong => all.push(crate::text::quoted(word)),
            _ if right.is_empty() => {}
            _ => all.push(right.to_owned()),
        }
    }
    all.join(" ")
}

/// An option without the name of its value: `--cuda` of `--cuda <REQ>`.
fn flag(option: &str) -> &str {
    option.split(' ').next().unwrap_or(option)
}

/// An option that takes one value, given twice: the last one is kept.
fn given_twice(option: &str, words: &[String]) -> Option<Problem> {
    let flag = flag(option);
    let at = words.iter().position(|word| is_option(word, flag))?;
    let count = if words[at] == flag && option.contains(' ') {
        2
    } else {
        1
    };
    let kept = words[..at]
        .iter()
        .chain(words.get(at + count..)?)
        .map(|word| quoted(word));
    let right: Vec<_> = std::iter::once("gpusetup".to_owned()).chain(kept).collect();
    Some(Problem::usage(format!("{flag} can be given only once")).attempt(right.join(" ")))
}

/// A value that an option cannot have and that is not on the command line.
fn set_elsewhere(
    origin: &OptionOrigin,
    flag: &str,
    value: &str,
    valid: &[String],
    why: Option<String>,
) -> Problem {
    let can_be = if valid.is_empty() {
        why
    } else {
        Some(format!("it can be {}", valid.join(", ")))
    };
    let sentence = format!("{origin} sets {flag} to `{value}`, which it cannot be");
    let command = match origin {
        OptionOrigin::Variable(name) => format!("unset {name}"),
        OptionOrigin::File(path) => format!("sudoedit {}", quoted_path(path)),
    };
    can_be
        .into_iter()
        .fold(Problem::usage(sentence), Problem::hint)
        .attempt(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(line: &str) -> Option<Vec<String>> {
        let words: Vec<_> = std::iter::once("gpusetup")
            .chain(line.split(' '))
            .map(OsString::from)
            .collect();
        let error = super::super::command()
            .try_get_matches_from(&words)
            .expect_err("it is wrong");
        known(
            &error,
            &words,
            &super::super::commands(),
            &Config::default(),
        )
        .map(|problem| problem.tries)
    }

    #[test]
    fn commands_of_other_tools_have_an_answer() {
        for (names, _) in ELSEWHERE {
            for name in names {
                let tries = answer(name).unwrap_or_else(|| panic!("{name}"));
                assert!(!tries.is_empty(), "{name}");
            }
        }
        assert_eq!(
            answer("search a100").expect("it is sound")[0],
            "gpusetup db show a100"
        );
    }

    #[test]
    fn the_right_command_line_is_shown() {
        for (line, right) in [
            ("plann --gpu h100", "gpusetup plan --gpu h100"),
            ("plan h100", "gpusetup plan --gpu h100"),
            ("apply --dry-run --cuda 12", "gpusetup plan --cuda 12"),
            ("plan --dry-run", "gpusetup plan"),
            ("--json plan --gpu h100", "gpusetup plan --json --gpu h100"),
            ("--dry-run", "gpusetup plan"),
            ("--dry-run --gpu h100", "gpusetup plan --gpu h100"),
            (
                "plan --cudnn 8 --gpu h100 --cudnn 9",
                "gpusetup plan --gpu h100 --cudnn 9",
            ),
            ("plan --cudnn=8 --cudnn=9", "gpusetup plan --cudnn=9"),
            ("-v", "gpusetup --version"),
            ("plan --gpus h100", "gpusetup plan --gpu h100"),
            ("h100", "gpusetup plan --gpu h100"),
            ("rtx 4090", "gpusetup plan --gpu 'rtx 4090'"),
            ("nothingofthekind", "gpusetup --help"),
        ] {
            assert_eq!(answer(line).unwrap_or_else(|| panic!("{line}"))[0], right);
        }
        let folder = tempfile::tempdir().expect("a temporary directory");
        let (plan, other) = (folder.path().join("a.plan"), folder.path().join("h100"));
        std::fs::write(&plan, "{\"schema\": \"gpusetup.plan/1\"}").expect("written");
        std::fs::write(&other, "no plan").expect("written");
        let (plan, other) = (plan.display(), other.display());
        let shown = answer(&format!("apply --dry-run --yes {plan}")).expect("an answer");
        assert_eq!(shown, [format!("gpusetup apply {plan}")]);
        let shown = answer(&format!("apply --dry-run {other}")).expect("an answer");
        assert_eq!(shown, [format!("gpusetup plan {other}")]);
        assert_eq!(answer("plan --nosuch"), None);
    }
}
