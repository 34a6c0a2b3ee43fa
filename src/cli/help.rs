//! Help on the command line: the commands in groups, and for `-h` the options that most people need, with examples.

use super::width;
use crate::text::wrapped;
use clap::{ArgAction, Command};
use std::fmt::Write;

/// The commands by what people want.
const GROUPS: [(&str, &[&str]); 4] = [
    ("See what is and what would be", &["facts", "plan", "explain", "doctor", "status", "reboot-required"]),
    ("Change the host (as root)", &["apply", "resume", "rollback", "uninstall"]),
    ("Work offline, look facts up", &["bundle", "cache", "db"]),
    ("Set the shell up", &["completions", "man"]),
];

/// The options that `-h` shows, and examples. A command that is not here shows all.
const SHORT: [(&str, &[&str], &[&str]); 6] = [
    (
        "plan",
        &["gpu", "os", "for", "driver", "cuda", "cudnn", "with", "profile", "format", "out", "verbose"],
        &[
            "gpusetup plan",
            "gpusetup plan --os ubuntu-24.04 --gpu 8xh100",
            "gpusetup plan --for torch==2.9 --out plan.json",
        ],
    ),
    (
        "apply",
        &["for", "driver", "cuda", "cudnn", "profile", "bundle", "yes", "unattended", "accept-eula", "reboot"],
        &[
            "sudo gpusetup apply",
            "sudo gpusetup apply plan.json",
            "sudo gpusetup apply --unattended --accept-eula --reboot if-needed",
        ],
    ),
    (
        "explain",
        &["gpu", "root", "lang", "json", "verbose"],
        &["gpusetup explain cuda 13.0 --gpu v100", "gpusetup explain xid 79", "dmesg | gpusetup explain -"],
    ),
    (
        "doctor",
        &["fix", "root", "report", "html", "kernel-log", "strict", "list-checks", "json", "verbose"],
        &["gpusetup doctor", "sudo gpusetup doctor --fix", "gpusetup doctor --report host.tar.zst"],
    ),
    (
        "facts",
        &["root", "lspci", "json"],
        &["gpusetup facts", "lspci -nn | gpusetup facts --lspci -", "gpusetup facts --json > host.json"],
    ),
    (
        "uninstall",
        &["cuda", "driver", "all", "dry-run", "yes", "json"],
        &["sudo gpusetup uninstall --dry-run", "sudo gpusetup uninstall", "sudo gpusetup uninstall --cuda 11.2"],
    ),
];

/// The commands whose every option can be set in the environment: they change nothing.
const WITH_ENVIRONMENT: [&str; 4] = ["facts", "plan", "explain", "doctor"];
/// Options of theirs that do change something.
const NEVER_FROM_THE_ENVIRONMENT: [&str; 2] = ["fix", "dry-run"];

/// The command line with grouped commands, short help and names in the environment.
pub fn arranged(command: Command) -> Command {
    let groups = grouped(&command);
    let template = "{about}\n\n{usage-heading} {usage}{after-help}\n\nOptions:\n{options}";
    let command = command.help_template(template).after_help(groups);
    command.mut_subcommands(|sub| {
        let sub = with_environment(sub);
        match SHORT.iter().find(|(name, ..)| *name == sub.get_name()) {
            Some((_, shown, examples)) => short(sub, shown, examples),
            None => sub,
        }
    })
}

/// The examples of a command.
pub fn examples(name: &str) -> &'static [&'static str] {
    SHORT.iter().find(|(command, ..)| *command == name).map_or(&[], |(_, _, examples)| examples)
}

fn grouped(command: &Command) -> String {
    let mut out = String::new();
    for (title, names) in GROUPS {
        let _ = writeln!(out, "{title}:");
        for name in names {
            let about = command.find_subcommand(name).and_then(|sub| sub.get_about()).map(ToString::to_string);
            let about = about.unwrap_or_default();
            out += &wrapped(&format!("  {name:<16} "), about.lines().next().unwrap_or_default(), width());
        }
        out.push('\n');
    }
    out + wrapped("", "Start with `gpusetup plan`: it changes nothing. `gpusetup COMMAND -h` has examples.", width())
        .trim_end()
}

/// Which variables there are is said once, in the manual, and not with each option.
fn with_environment(command: Command) -> Command {
    let every = WITH_ENVIRONMENT.contains(&command.get_name());
    command.mut_args(|arg| {
        let Some(long) = arg.get_long().map(str::to_owned) else { return arg };
        let is_asked = matches!(arg.get_action(), ArgAction::Help | ArgAction::Version);
        let arg = arg.hide_env(true);
        if !every || is_asked || arg.get_env().is_some() || NEVER_FROM_THE_ENVIRONMENT.contains(&long.as_str()) {
            return arg;
        }
        arg.env(format!("GPUSETUP_{}", long.replace('-', "_").to_uppercase()))
    })
}

fn short(command: Command, shown: &'static [&str], examples: &[&str]) -> Command {
    let mut text = "Examples:\n".to_owned();
    text.extend(examples.iter().map(|example| format!("  {example}\n")));
    let long = format!(
        "{text}\nEvery option --NAME can be set as GPUSETUP_NAME in the environment and as NAME in /etc/gpusetup/config.yaml."
    );
    let text = format!("{text}\nAll options: gpusetup {} --help", command.get_name());
    let command = command.mut_args(|arg| {
        let hidden = arg.get_long().is_some_and(|long| !shown.contains(&long) && long != "help");
        arg.hide_short_help(hidden)
    });
    command.after_help(text).after_long_help(long)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_help_fits_a_screen() {
        for (name, shown, examples) in SHORT {
            let mut all = crate::cli::command().term_width(80);
            all.build();
            let sub = all.find_subcommand_mut(name).expect("it is sound");
            for long in shown {
                assert!(sub.get_arguments().any(|arg| arg.get_long() == Some(long)), "{name} has no --{long}");
            }
            let help = sub.render_help().to_string();
            assert!(help.lines().count() <= 45, "{name}: {} lines\n{help}", help.lines().count());
            assert!(examples.iter().all(|example| help.contains(example)), "{help}");
        }
    }

    #[test]
    fn every_command_is_in_a_group() {
        let listed: Vec<_> = GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        for name in crate::cli::commands() {
            assert!(listed.contains(&name.as_str()), "{name}");
        }
    }
}
