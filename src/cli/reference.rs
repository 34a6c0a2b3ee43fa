//! The reference in `docs/src/reference.md`, made from the command line's definition. Only a test
//! makes it: `UPDATE_BOOK=1 cargo test --lib reference::` writes the file again.

use super::{help, manual, option_names};
use clap::builder::PossibleValue;
use clap::{Arg, ArgAction, Command};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

const HEAD: &str = "# Commands and options

<!-- Made from the program by `UPDATE_BOOK=1 cargo test --lib reference::`. Change src/cli/, not this file. -->

`gpusetup COMMAND -h` shows the usual options of a command with examples, `--help` shows all of them, and `gpusetup man COMMAND` prints its manual page.

";

// Addresses are written out: mdBook and GitHub make different ones of a heading that begins with
// hyphens.
const OPTIONS: &str = "## Options

An option comes from the command line, else from its variable in the environment, else from its key in `/etc/gpusetup/config.yaml`
(see [configuration](configuration.md)). Options without a variable and a key are given on the command line only. Flags take 1, 0, yes,
no, on and off in the environment, true and false in the file.

";

const VARIABLES: &str = "## Other variables

| variable | meaning |
|---|---|
";

/// An option, and the commands that have it.
struct Shared<'a> {
    arg: &'a Arg,
    commands: Vec<String>,
    /// The variables by command: some commands have none.
    variables: Vec<String>,
}

fn page() -> String {
    let mut all = super::command()
        .disable_help_subcommand(true)
        .term_width(80);
    all.build();
    let mut out = HEAD.to_owned();
    out += "| command | what it does |\n|---|---|\n";
    let commands = described(&all);
    for command in &commands[1..] {
        let name = full_name(command);
        let _ = writeln!(
            out,
            "| [`{name}`](#{}) | {} |",
            anchor(&name),
            cell(&about(command))
        );
    }
    out.push('\n');
    let options = options(&commands);
    for command in &commands[1..] {
        out += &of_command(command);
    }
    out += OPTIONS;
    let keys = option_names();
    let mut last = "";
    for ((name, _), shared) in &options {
        // The first of several options with this name has the address.
        if name != last {
            let _ = writeln!(out, "<a id=\"option-{name}\"></a>\n");
        }
        last = name;
        out += &of_option(name, shared, &keys);
    }
    out += VARIABLES;
    for (variable, meaning) in manual::VARIABLES {
        let _ = writeln!(out, "| `{variable}` | {meaning} |");
    }
    out
}

/// A command and those below it, without hidden ones.
fn described(command: &Command) -> Vec<&Command> {
    let below = command.get_subcommands().filter(|sub| !sub.is_hide_set());
    std::iter::once(command)
        .chain(below.flat_map(described))
        .collect()
}

/// `gpusetup db list`.
fn full_name(command: &Command) -> String {
    command
        .get_bin_name()
        .unwrap_or_else(|| command.get_name())
        .to_owned()
}

/// The part of an address that mdBook and GitHub give a heading.
fn anchor(heading: &str) -> String {
    let letters = heading.to_lowercase();
    let kept = letters
        .chars()
        .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

fn about(command: &Command) -> String {
    command
        .get_long_about()
        .or_else(|| command.get_about())
        .map(ToString::to_string)
        .unwrap_or_default()
}

/// A text in a table.
fn cell(text: &str) -> String {
    escaped(text).replace('|', "\\|").replace('\n', " ")
}

/// Text of a help as Markdown: what looks like an element of HTML stays a text.
fn escaped(text: &str) -> String {
    text.replace('<', "&lt;").replace('*', "\\*")
}

fn of_command(command: &Command) -> String {
    let name = full_name(command);
    let mut out = format!(
        "## {name}\n\n{}.\n\n",
        escaped(about(command).trim_end_matches('.'))
    );
    let usage = command.clone().render_usage().to_string();
    let usage: Vec<_> = usage
        .lines()
        .map(|line| line.trim_start_matches("Usage:").trim())
        .collect();
    let _ = writeln!(out, "```text\n{}\n```\n", usage.join("\n"));
    for arg in command.get_positionals().filter(|arg| !arg.is_hide_set()) {
        let value = arg
            .get_value_names()
            .map(|names| names.join(" "))
            .unwrap_or_else(|| arg.get_id().to_string());
        let _ = writeln!(
            out,
            "- `{value}`: {}{}",
            escaped(&help_of(arg)),
            values(arg)
        );
    }
    if command.get_positionals().next().is_some() {
        out.push('\n');
    }
    let mut options: Vec<_> = own_options(command).filter_map(Arg::get_long).collect();
    options.sort_unstable();
    if !options.is_empty() {
        let links: Vec<_> = options
            .iter()
            .map(|long| format!("[`--{long}`](#option-{long})"))
            .collect();
        let _ = writeln!(out, "Options: {}.\n", links.join(", "));
    }
    let examples = help::examples(name.trim_start_matches("gpusetup "));
    if !examples.is_empty() {
        let _ = writeln!(out, "```console\n$ {}\n```\n", examples.join("\n$ "));
    }
    out
}

/// The options that are not the same everywhere.
fn own_options(command: &Command) -> impl Iterator<Item = &Arg> {
    command.get_arguments().filter(|arg| {
        let is_asked = matches!(
            arg.get_action(),
            ArgAction::Help | ArgAction::HelpShort | ArgAction::HelpLong | ArgAction::Version
        );
        arg.get_long().is_some() && !arg.is_hide_set() && !is_asked
    })
}

/// Every option by its name and what it does.
fn options<'a>(commands: &[&'a Command]) -> BTreeMap<(String, String), Shared<'a>> {
    let mut all: BTreeMap<(String, String), Shared> = BTreeMap::new();
    for command in commands {
        for arg in own_options(command) {
            let key = (arg.get_long().unwrap_or_default().to_owned(), help_of(arg));
            let shared = all.entry(key).or_insert(Shared {
                arg,
                commands: Vec::new(),
                variables: Vec::new(),
            });
            shared.commands.push(
                full_name(command)
                    .trim_start_matches("gpusetup ")
                    .to_owned(),
            );
            shared.variables.extend(
                arg.get_env()
                    .map(|name| name.to_string_lossy().into_owned()),
            );
        }
    }
    all
}

fn help_of(arg: &Arg) -> String {
    arg.get_long_help()
        .or_else(|| arg.get_help())
        .map(ToString::to_string)
        .unwrap_or_default()
}

fn of_option(name: &str, shared: &Shared, keys: &[String]) -> String {
    let Shared {
        arg,
        commands,
        variables,
    } = shared;
    let mut out = format!("### `--{name}`\n\n");
    let value = arg
        .get_value_names()
        .filter(|_| arg.get_action().takes_values())
        .map(|names| names.join(" "));
    let short = arg
        .get_short()
        .map(|short| format!("`-{short}`, "))
        .unwrap_or_default();
    let value = value.map(|value| format!(" {value}")).unwrap_or_default();
    let _ = writeln!(
        out,
        "{short}`--{name}{value}`\n\n{}{}\n",
        escaped(&help_of(arg)),
        values(arg)
    );
    let listed: Vec<_> = commands
        .iter()
        .map(|command| format!("`{command}`"))
        .collect();
    let _ = writeln!(
        out,
        "- commands: {}",
        if name == "config" {
            "all".to_owned()
        } else {
            listed.join(", ")
        }
    );
    let defaults: Vec<_> = arg
        .get_default_values()
        .iter()
        .map(|value| value.to_string_lossy())
        .collect();
    if arg.get_action().takes_values() && !defaults.is_empty() {
        let _ = writeln!(out, "- default: `{}`", defaults.join(","));
    }
    if let Some(variable) = variables.first() {
        let some = if variables.len() < commands.len() {
            " (of `facts`, `plan`, `explain` and `doctor`)"
        } else {
            ""
        };
        let some = if variables.len() == 1 && commands.len() > 1 {
            ""
        } else {
            some
        };
        let _ = writeln!(out, "- environment: `{variable}`{some}");
        if keys.iter().any(|key| key == name) {
            let _ = writeln!(out, "- configuration: `{name}`");
        }
    }
    out.push('\n');
    out
}

/// The values that an option takes, if they are a few.
fn values(arg: &Arg) -> String {
    let possible: Vec<PossibleValue> = arg.get_possible_values();
    if !arg.get_action().takes_values() || possible.is_empty() {
        return String::new();
    }
    let mut out = "\n".to_owned();
    for value in possible.iter().filter(|value| !value.is_hide_set()) {
        let about = value
            .get_help()
            .map(|help| format!(": {}", escaped(&help.to_string())))
            .unwrap_or_default();
        let _ = write!(out, "\n- `{}`{about}", value.get_name());
    }
    out
}

#[test]
fn the_reference_is_what_the_program_has() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/src/reference.md");
    let made = page();
    if std::env::var_os("UPDATE_BOOK").is_some() {
        std::fs::write(&path, &made).expect("written");
    }
    let written = std::fs::read_to_string(&path).expect("docs/src/reference.md");
    let differs = made
        .lines()
        .zip(written.lines())
        .find(|(made, written)| made != written);
    assert!(
        made == written,
        "docs/src/reference.md is not what the program has, first at {differs:?}; UPDATE_BOOK=1 cargo test --lib reference:: writes it"
    );
}

#[test]
fn every_option_and_command_is_in_the_reference() {
    let page = page();
    let mut all = super::command().disable_help_subcommand(true);
    all.build();
    for command in described(&all).into_iter().skip(1) {
        assert!(
            page.contains(&format!("\n## {}\n", full_name(command))),
            "{}",
            full_name(command)
        );
        for arg in own_options(command) {
            let long = arg.get_long().unwrap_or_default();
            assert!(page.contains(&format!("\n### `--{long}`\n")), "--{long}");
        }
    }
}
