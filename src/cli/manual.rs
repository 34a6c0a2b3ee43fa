//! The manual: a page for gpusetup and one for each command, made from the command line's
//! definition, the exit codes and the paths.

use super::help;
use super::{Problem, print_bytes};
use crate::exit::{EXITS, Exit};
use crate::paths;
use clap::Command;
use clap_mangen::Man;
use roff::{Roff, bold, roman};
use std::io;
use std::path::PathBuf;

/// The commands that leave files on the host.
const CHANGING: [&str; 4] = ["apply", "resume", "rollback", "uninstall"];

/// Variables that are no options.
pub(crate) const VARIABLES: [(&str, &str); 6] = [
    (
        "NO_COLOR",
        "If it is set and not empty, no colours and no links are used.",
    ),
    (
        "COLUMNS",
        "The width of texts, 40 to 200 columns; otherwise that of the terminal, or 80.",
    ),
    (
        "FORCE_HYPERLINK",
        "1 shows links on any terminal, 0 on none; otherwise on those that are known to show them.",
    ),
    (
        "LC_ALL, LC_MESSAGES, LANG",
        "The language of explain, if nothing else sets it. All other output is in English.",
    ),
    (
        "SSL_CERT_FILE",
        "Certificates to trust instead of the system's.",
    ),
    (
        "https_proxy, no_proxy",
        "The proxy for downloads, and the hosts that need none.",
    ),
];

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// The command, such as `plan` or `db list` [default: gpusetup itself]
    command: Vec<String>,
    /// Write gpusetup.1 and one page per subcommand to DIR
    #[arg(long, value_name = "DIR")]
    directory: Option<PathBuf>,
}

/// Prints the page of a command (`plan`, `db list`; gpusetup's own for no word), or writes all
/// pages to a folder.
pub(crate) fn run(options: &Options) -> Result<Exit, Problem> {
    let (words, folder) = (&options.command, options.directory.as_deref());
    let mut all = super::command().disable_help_subcommand(true);
    all.build();
    let failed = |e: io::Error| Problem::unexpected(format!("cannot write the manual: {e}"));
    if let Some(folder) = folder {
        for command in with_subcommands(&all) {
            let page = page(command).map_err(failed)?;
            let file = folder.join(format!("{}.1", name(command)));
            crate::system::output::write(&file, &page).map_err(failed)?;
        }
        return Ok(Exit::Done);
    }
    let mut command = &all;
    for word in words {
        command = command
            .get_subcommands()
            .find(|sub| sub.get_name() == word.as_str())
            .ok_or_else(|| {
                let known: Vec<_> = command
                    .get_subcommands()
                    .filter(|c| !c.is_hide_set())
                    .map(Command::get_name)
                    .collect();
                Problem::usage(format!("there is no manual page for `{}`", words.join(" ")))
                    .hint(format!("{} has {}", name(command), known.join(", ")))
            })?;
    }
    print_bytes(&page(command).map_err(failed)?)?;
    Ok(Exit::Done)
}

fn with_subcommands(command: &Command) -> Vec<&Command> {
    let below = command.get_subcommands().filter(|sub| !sub.is_hide_set());
    std::iter::once(command)
        .chain(below.flat_map(with_subcommands))
        .collect()
}

/// `gpusetup-db-list`.
fn name(command: &Command) -> String {
    command
        .get_display_name()
        .unwrap_or_else(|| command.get_name())
        .to_owned()
}

fn page(command: &Command) -> io::Result<Vec<u8>> {
    let man = Man::new(command.clone())
        .title(name(command).to_uppercase())
        .source(concat!("gpusetup ", env!("CARGO_PKG_VERSION")))
        .manual("gpusetup");
    let mut out = Vec::new();
    man.render_title(&mut out)?;
    man.render_name_section(&mut out)?;
    man.render_synopsis_section(&mut out)?;
    man.render_description_section(&mut out)?;
    man.render_options_section(&mut out)?;
    if command.get_subcommands().any(|sub| !sub.is_hide_set()) {
        man.render_subcommands_section(&mut out)?;
    }
    let mut roff = Roff::new();
    exit_status(&mut roff);
    environment(&mut roff, command);
    files(&mut roff, command);
    examples(&mut roff, command);
    roff.to_writer(&mut out)?;
    man.render_version_section(&mut out)?;
    Ok(out)
}

fn exit_status(roff: &mut Roff) {
    roff.control("SH", ["EXIT STATUS"]);
    for (exit, meaning) in EXITS {
        roff.control("TP", []);
        roff.text([bold(exit.to_string())]);
        roff.text([roman(meaning)]);
    }
}

fn environment(roff: &mut Roff, command: &Command) {
    roff.control("SH", ["ENVIRONMENT"]);
    roff.text([roman(
        "A flag comes before the variable, the variable before the configuration file. Variables of flags take 1, 0, yes, no, on and off.",
    )]);
    let options = command.get_arguments().filter(|arg| !arg.is_hide_set());
    for (option, variable) in options.filter_map(|arg| Some((arg.get_long()?, arg.get_env()?))) {
        roff.control("TP", []);
        roff.text([bold(variable.to_string_lossy())]);
        roff.text([roman("as "), bold(format!("--{option}"))]);
    }
    for (variable, meaning) in VARIABLES {
        roff.control("TP", []);
        roff.text([bold(variable)]);
        roff.text([roman(meaning)]);
    }
}

fn files(roff: &mut Roff, command: &Command) {
    let all =
        command.get_name() == env!("CARGO_PKG_NAME") || CHANGING.contains(&command.get_name());
    roff.control("SH", ["FILES"]);
    for (path, text) in paths::ALL
        .iter()
        .filter(|(path, _)| all || *path == paths::CONFIG || *path == paths::CACHE)
    {
        roff.control("TP", []);
        roff.text([bold(*path)]);
        roff.text([roman(text.trim())]);
    }
}

fn examples(roff: &mut Roff, command: &Command) {
    let examples = help::examples(
        command
            .get_bin_name()
            .unwrap_or_default()
            .trim_start_matches("gpusetup "),
    );
    if examples.is_empty() {
        return;
    }
    roff.control("SH", ["EXAMPLES"]);
    for example in examples {
        roff.control("PP", []);
        roff.text([bold(*example)]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Arg, ArgAction};

    fn is_documented(arg: &Arg) -> bool {
        arg.get_help().is_some() || matches!(arg.get_action(), ArgAction::Help | ArgAction::Version)
    }

    #[test]
    fn every_command_has_a_page_with_every_section() {
        let mut all = super::super::command().disable_help_subcommand(true);
        all.build();
        let commands = with_subcommands(&all);
        assert!(commands.len() > 20, "{}", commands.len());
        for command in commands {
            let page = String::from_utf8(page(command).expect("written")).expect("UTF-8");
            for section in [
                "NAME",
                "SYNOPSIS",
                "OPTIONS",
                "EXIT STATUS",
                "ENVIRONMENT",
                "FILES",
            ] {
                let heading = format!("\n.SH \"{section}\"\n");
                let bare = format!("\n.SH {section}\n");
                assert!(
                    page.contains(&heading) || page.contains(&bare),
                    "{}: no {section}\n{page}",
                    name(command)
                );
            }
            for arg in command.get_arguments().filter(|arg| !arg.is_hide_set()) {
                assert!(is_documented(arg), "{}: {}", name(command), arg.get_id());
            }
        }
    }
}
