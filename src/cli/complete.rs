//! Completion in shells: `gpusetup completions bash` prints a small script, which asks this program
//! for each tab what fits.
//!
//! The script calls `_GPUSETUP_COMPLETE=SHELL gpusetup -- WORD...`. Only both together are such a
//! question: the variable alone, in somebody's environment, changes nothing. The answer comes from
//! the command line's definition and the built-in database; of the host it only lists the toolkits,
//! and no command is run. Files are left to the shell.

mod line;
mod names;
mod subjects;
mod values;
mod walk;

use super::{Problem, print_bytes};
use crate::exit::Exit;
use crate::system::environment;
use clap_complete::Shell;
use line::Line;
use std::ffi::OsString;
use values::Candidate;

/// Tells which shell asks.
const VARIABLE: &str = "_GPUSETUP_COMPLETE";

/// A shell that asks, by how it reads the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asking {
    /// `-- LINE WORDBREAKS`, the line up to the cursor; a candidate a line, quoted as the word that
    /// it completes.
    Bash,
    /// `-- WORD...`; `VALUE:DESCRIPTION`, with colons of the value escaped.
    Zsh,
    /// `-- WORD...`; `VALUE<TAB>DESCRIPTION`.
    Fish,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Shell to generate for
    pub(crate) shell: Shell,
}

/// Prints the script that a shell reads once.
pub(crate) fn script(shell: Shell) -> Result<Exit, Problem> {
    let script = match shell {
        Shell::Bash => include_bytes!("complete/gpusetup.bash").to_vec(),
        Shell::Zsh => include_bytes!("complete/gpusetup.zsh").to_vec(),
        Shell::Fish => include_bytes!("complete/gpusetup.fish").to_vec(),
        // Commands and options only: these scripts are complete in themselves.
        other => {
            let mut script = Vec::new();
            clap_complete::generate(other, &mut super::command(), "gpusetup", &mut script);
            script
        }
    };
    print_bytes(&script).map(|()| Exit::Done)
}

/// The answer to a shell; none if no shell asks.
pub(crate) fn answer(arguments: &[OsString]) -> Option<Vec<u8>> {
    let [_, dashes, asked @ ..] = arguments else {
        return None;
    };
    let asking = match environment::variable(VARIABLE)?.as_str() {
        "bash" => Asking::Bash,
        "zsh" => Asking::Zsh,
        "fish" => Asking::Fish,
        _ => return None,
    };
    (dashes == "--" && !asked.is_empty()).then(|| answered(asking, asked).into_bytes())
}

fn answered(asking: Asking, asked: &[OsString]) -> String {
    let mut words: Vec<_> = asked
        .iter()
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let line = match asking {
        Asking::Bash => {
            let breaks = if words.len() > 1 {
                words.swap_remove(1)
            } else {
                String::new()
            };
            Line::read(&words[0], &breaks)
        }
        Asking::Zsh | Asking::Fish => {
            let current = words.pop().unwrap_or_default();
            Line::of_words(words, current)
        }
    };
    let mut out = String::new();
    for candidate in candidates(&line) {
        let Candidate { value, about } = candidate;
        // What was typed stays in the value; a line of the answer is one candidate.
        if value.chars().any(char::is_control) {
            continue;
        }
        let about = about.lines().next().unwrap_or_default();
        match asking {
            Asking::Bash => match line.completed(&value) {
                Some(word) => out += &word,
                None => continue,
            },
            Asking::Zsh => {
                out += &value.replace('\\', "\\\\").replace(':', "\\:");
                out += &format!(":{}", about.replace('\\', "\\\\"));
            }
            Asking::Fish => out += &format!("{value}\t{about}"),
        }
        out.push('\n');
    }
    out
}

/// What fits in place of the current word, the likeliest first.
fn candidates(line: &Line) -> Vec<Candidate> {
    // The program's own name is the shell's.
    if line.words.is_empty() {
        return Vec::new();
    }
    let mut command = super::command();
    command.build();
    walk::candidates(
        &command,
        &line.words,
        line.current(),
        &|command, arg, typed| {
            of_argument(command, arg.get_id().as_str(), &line.words).map(|values| values(typed))
        },
    )
}

type Values<'a> = Box<dyn Fn(&str) -> Vec<Candidate> + 'a>;

/// What an argument of a command can be, by what was typed of it. `before` are the words before the
/// current one.
fn of_argument<'a>(command: &str, argument: &str, before: &'a [String]) -> Option<Values<'a>> {
    Some(match (command, argument) {
        ("use", "toolkit") | ("uninstall", "cuda") => {
            Box::new(|typed| values::installed_toolkits(typed, before))
        }
        // A flag.
        ("uninstall", "driver") => return None,
        (_, "gpu") | ("list", "of") => Box::new(values::gpus),
        (_, "driver") => Box::new(values::drivers),
        (_, "cuda") => Box::new(values::cuda),
        (_, "cudnn") => Box::new(values::cudnn),
        (_, "with") => Box::new(values::add_ons),
        (_, "frameworks") => Box::new(values::frameworks),
        (_, "components") => Box::new(values::components),
        (_, "os") => Box::new(values::systems),
        ("doctor", "checks") => Box::new(values::checks),
        ("explain", "subject") => Box::new(move |typed| subjects::of_explain(typed, before)),
        ("show", "subject") => Box::new(move |typed| subjects::of_database(typed, before)),
        ("man", "command") => Box::new(move |typed| subjects::of_manual(typed, before)),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(line: &str) -> Vec<String> {
        let asked = [line.into(), " \t\n\"'@><=;|&(:".into()];
        answered(Asking::Bash, &asked)
            .lines()
            .map(str::to_owned)
            .collect()
    }

    fn first(line: &str) -> String {
        asked(line).into_iter().next().unwrap_or_default()
    }

    #[test]
    fn commands_options_and_values_are_completed() {
        assert_eq!(asked("gpusetup pl"), ["plan"]);
        assert_eq!(asked("gpusetup plan --gp"), ["--gpu", "--gpu-clocks"]);
        assert_eq!(asked("gpusetup plan --profile t"), ["toolkit"]);
        assert_eq!(asked("gpusetup db list ins"), ["instances"]);
        assert_eq!(asked("gpusetup plan --os ubuntu-24"), ["ubuntu-24.04"]);
        assert_eq!(asked("gpusetup doctor GS20")[0], "GS201");
        assert_eq!(asked("gpusetup completions z"), ["zsh"]);
        assert!(
            asked("gpusetup plan ")
                .iter()
                .all(|word| word.starts_with('-')),
            "plan takes options only"
        );
        assert!(
            asked("gpusetup explain ")
                .iter()
                .all(|word| !word.starts_with('-')),
            "subjects come first"
        );
        assert_eq!(asked("gpusetup "), asked("gpusetup  "));
        assert!(
            !asked("gpusetup ").contains(&crate::nvidia::SUBCOMMAND.to_owned()),
            "it is hidden"
        );
        assert_eq!(asked("gpusetup nosuch --"), asked("gpusetup --"));
        assert!(
            asked("gpusetup bundle create -o ").is_empty()
                && asked("gpusetup plan -v ").contains(&"--gpu".to_owned())
        );
        assert_eq!(
            asked("gpusetup bundle create -o --gpu --os ubuntu-24.0"),
            ["ubuntu-24.04"]
        );
        assert_eq!(asked("gpusetup explain -- cuda 12.8.2"), ["12.8.2"]);
        assert_eq!(asked("gpusetup doctor GS201 GS202 gs203"), ["GS203"]);
    }

    #[test]
    fn bash_gets_what_stands_after_its_break() {
        assert_eq!(asked("gpusetup plan --gpu=h20")[0], "h200");
        assert_eq!(
            asked("gpusetup plan --for torch==2.")[0],
            first("gpusetup plan --for=torch==2.")
        );
        assert!(!first("gpusetup plan --for torch==2.").contains("torch"));
        assert_eq!(
            asked("gpusetup plan --gpu 10de:233"),
            asked("gpusetup db show 10de:233")
        );
        assert!(asked("gpusetup plan --gpu 10de:233").contains(&"2330".to_owned()));
        assert!(first("gpusetup plan --gpu a100,t").starts_with("a100,t"));
        assert!(first("gpusetup plan --cuda '>=12.").starts_with(">=12."));
        assert!(
            first("gpusetup plan --cuda \\>=12.").starts_with("12.")
                || first("gpusetup plan --cuda \\>=12.").is_empty()
        );
        assert!(first("gpusetup plan --gpu 8xh10").starts_with("8xh100"));
    }

    #[test]
    fn files_are_left_to_the_shell() {
        for line in [
            "gpusetup plan --facts ",
            "gpusetup apply ",
            "gpusetup bundle verify ",
            "gpusetup doctor host.tar",
        ] {
            assert!(
                asked(line).iter().all(|word| word.starts_with('-')),
                "{line}: {:?}",
                asked(line)
            );
        }
    }

    #[test]
    fn strange_words_are_completed_by_nothing() {
        for word in [
            "\u{1b}[31m",
            "$(reboot)",
            "`x`",
            "\"",
            "'",
            "\\",
            "é",
            "10de:",
            "8x",
            "==",
            ">=",
            ",",
            "x",
            "-",
            "--gpu=",
        ] {
            for command in [
                "plan --gpu",
                "plan --cuda",
                "plan --for",
                "explain",
                "db show",
                "doctor",
                "plan --with",
            ] {
                for word in asked(&format!("gpusetup {command} {word}")) {
                    assert!(!word.chars().any(char::is_control), "{word:?}");
                    assert!(!word.contains("$(") && !word.contains('`'), "{word:?}");
                }
            }
        }
        assert_eq!(answered(Asking::Bash, &["".into()]), "");
        assert_eq!(answered(Asking::Zsh, &["gpusetup".into()]), "");
    }
}
