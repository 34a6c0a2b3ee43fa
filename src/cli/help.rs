//! Help on the command line: the commands in groups, and for `-h` the options that most people
//! need, with examples.

use super::width;
use crate::text::wrapped;
use clap::{ArgAction, Command};
use std::fmt::Write;

/// The commands by what people want.
const GROUPS: [(&str, &[&str]); 5] = [
    (
        "See what is and what would be",
        &[
            "facts",
            "list",
            "plan",
            "explain",
            "doctor",
            "status",
            "reboot-required",
        ],
    ),
    (
        "Change the host (as root)",
        &[
            "apply",
            "resume",
            "rollback",
            "uninstall",
            "use",
            "prune",
            "mig",
        ],
    ),
    ("Run containers", &["container"]),
    ("Work offline, look facts up", &["bundle", "cache", "db"]),
    (
        "Set gpusetup and the shell up",
        &["self", "completions", "man"],
    ),
];

/// What `-h` shows of a command: options (all where none are named), and examples.
struct Short {
    command: &'static str,
    options: &'static [&'static str],
    examples: [&'static str; 3],
}

/// Every command that does something.
const SHORT: [Short; 39] = [
    Short {
        command: "plan",
        options: &[
            "gpu", "os", "for", "driver", "cuda", "cudnn", "with", "profile", "format", "out",
            "verbose",
        ],
        examples: [
            "gpusetup plan",
            "gpusetup plan --os ubuntu-24.04 --gpu 8xh100",
            "gpusetup plan --for torch==2.9 --out plan.json",
        ],
    },
    Short {
        command: "apply",
        options: &[
            "for",
            "driver",
            "cuda",
            "cudnn",
            "profile",
            "bundle",
            "yes",
            "unattended",
            "accept-eula",
            "reboot",
        ],
        examples: [
            "sudo gpusetup apply",
            "sudo gpusetup apply plan.json",
            "sudo gpusetup apply --unattended --accept-eula --reboot if-needed",
        ],
    },
    Short {
        command: "resume",
        options: &[
            "root",
            "bundle",
            "mirror",
            "offline",
            "yes",
            "unattended",
            "accept-eula",
            "reboot",
            "json",
        ],
        examples: [
            "sudo gpusetup resume",
            "sudo gpusetup resume --reboot if-needed",
            "sudo gpusetup resume --root /mnt/image",
        ],
    },
    Short {
        command: "rollback",
        options: &[
            "root",
            "yes",
            "unattended",
            "reboot",
            "lock-timeout",
            "json",
        ],
        examples: [
            "sudo gpusetup rollback",
            "sudo gpusetup rollback --yes",
            "sudo gpusetup rollback --root /mnt/image",
        ],
    },
    Short {
        command: "uninstall",
        options: &[
            "cuda",
            "driver",
            "all",
            "container-toolkit",
            "dry-run",
            "yes",
            "json",
        ],
        examples: [
            "sudo gpusetup uninstall --dry-run",
            "sudo gpusetup uninstall",
            "sudo gpusetup uninstall --cuda 11.2",
        ],
    },
    Short {
        command: "list",
        options: &["root", "prefix", "json"],
        examples: [
            "gpusetup list",
            "sudo gpusetup list --json",
            "gpusetup list --root /mnt/image",
        ],
    },
    Short {
        command: "use",
        options: &[
            "shell",
            "module-files",
            "dry-run",
            "root",
            "prefix",
            "yes",
            "json",
        ],
        examples: [
            "sudo gpusetup use cuda 12.8",
            "eval \"$(gpusetup use cuda 11.8 --shell)\"",
            "gpusetup use cuda --module-files ~/modulefiles",
        ],
    },
    Short {
        command: "prune",
        options: &["dry-run", "yes", "cache", "root", "json"],
        examples: [
            "sudo gpusetup prune --dry-run",
            "sudo gpusetup prune",
            "sudo gpusetup prune --yes --json",
        ],
    },
    Short {
        command: "status",
        options: &["root", "json", "wait", "timeout"],
        examples: [
            "sudo gpusetup status",
            "sudo gpusetup status --wait --timeout 7200",
            "sudo gpusetup status --json",
        ],
    },
    Short {
        command: "reboot-required",
        options: &["root"],
        examples: [
            "gpusetup reboot-required && sudo reboot",
            "gpusetup reboot-required; echo $?",
            "gpusetup reboot-required --root /mnt/image",
        ],
    },
    Short {
        command: "doctor",
        options: &[
            "fix",
            "root",
            "report",
            "html",
            "kernel-log",
            "ready",
            "strict",
            "list-checks",
            "json",
            "verbose",
        ],
        examples: [
            "gpusetup doctor",
            "sudo gpusetup doctor --fix",
            "gpusetup doctor --report host.tar.zst",
        ],
    },
    Short {
        command: "explain",
        options: &["gpu", "root", "lang", "json", "verbose"],
        examples: [
            "gpusetup explain cuda 13.0 --gpu v100",
            "gpusetup explain xid 79",
            "dmesg | gpusetup explain -",
        ],
    },
    Short {
        command: "facts",
        options: &["gpus", "format", "root", "lspci", "json", "verbose"],
        examples: [
            "gpusetup facts --gpus",
            "gpusetup facts --format labels",
            "gpusetup facts --json > host.json",
        ],
    },
    Short {
        command: "db list",
        options: &[],
        examples: [
            "gpusetup db list drivers --cuda 12.8 --kernel 6.18",
            "gpusetup db list gpus --driver 470",
            "gpusetup db list cuda --os ubuntu-24.04",
        ],
    },
    Short {
        command: "db show",
        options: &[],
        examples: [
            "gpusetup db show h100",
            "gpusetup db show driver 580",
            "gpusetup db show cuda 12.9.1 13.0.3",
        ],
    },
    Short {
        command: "db export",
        options: &[],
        examples: [
            "gpusetup db export > database.json",
            "gpusetup db export --database .",
            "gpusetup db export --json | python3 -m json.tool",
        ],
    },
    Short {
        command: "db matrix",
        options: &[],
        examples: [
            "gpusetup db matrix --html matrix.html",
            "gpusetup db matrix --html matrix.html --database .",
            "gpusetup db matrix --html /dev/stdout",
        ],
    },
    Short {
        command: "db check",
        options: &[],
        examples: [
            "gpusetup db check",
            "gpusetup db check .",
            "gpusetup db check --json",
        ],
    },
    Short {
        command: "db pack",
        options: &[],
        examples: [
            "gpusetup db pack . --out database.tar.xz",
            "gpusetup db pack . --out database.tar.xz && minisign -S -m database.tar.xz",
            "gpusetup db pack . --out database.tar.xz --expires 2027-03-01",
        ],
    },
    Short {
        command: "db update",
        options: &[],
        examples: [
            "sudo gpusetup db update",
            "sudo gpusetup db update --from database.tar.xz --key our.pub",
            "sudo gpusetup db update --built-in",
        ],
    },
    Short {
        command: "self update",
        options: &[],
        examples: [
            "sudo gpusetup self update",
            "sudo gpusetup self update --dry-run",
            "sudo gpusetup self update --from /mnt/release --to 0.1.0",
        ],
    },
    Short {
        command: "self uninstall",
        options: &[],
        examples: [
            "sudo gpusetup uninstall && sudo gpusetup self uninstall",
            "gpusetup self uninstall --dry-run",
            "sudo gpusetup self uninstall --yes",
        ],
    },
    Short {
        command: "self verify",
        options: &[],
        examples: [
            "gpusetup self verify SHA256SUMS",
            "gpusetup self verify SHA256SUMS --key our.pub",
            "gpusetup self verify database.tar.xz",
        ],
    },
    Short {
        command: "cache list",
        options: &[],
        examples: [
            "gpusetup cache list",
            "gpusetup cache list --json",
            "gpusetup cache list --cache /srv/gpusetup",
        ],
    },
    Short {
        command: "cache clean",
        options: &[],
        examples: [
            "sudo gpusetup cache clean",
            "sudo gpusetup cache clean --partial",
            "sudo gpusetup cache clean --cache /srv/gpusetup",
        ],
    },
    Short {
        command: "cache verify",
        options: &[],
        examples: [
            "sudo gpusetup cache verify",
            "sudo gpusetup cache verify --cache /srv/gpusetup",
            "sudo gpusetup cache verify && sudo gpusetup apply --offline",
        ],
    },
    Short {
        command: "mig list",
        options: &[],
        examples: [
            "gpusetup mig list",
            "gpusetup mig list --gpu h100",
            "gpusetup mig list --json",
        ],
    },
    Short {
        command: "mig plan",
        options: &[],
        examples: [
            "gpusetup mig plan 3g.20gb,2g.10gb,1g.5gb",
            "gpusetup mig plan --gpu a100-sxm4-40gb 7x1g.5gb --svg layout.svg",
            "gpusetup mig plan --file mig.yaml --name all-balanced",
        ],
    },
    Short {
        command: "mig apply",
        options: &[
            "file",
            "name",
            "device",
            "stop-services",
            "at-boot",
            "yes",
            "unattended",
            "json",
        ],
        examples: [
            "sudo gpusetup mig apply 3g.20gb,2g.10gb,2x1g.5gb",
            "sudo gpusetup mig apply --file mig.yaml --name all-balanced --yes",
            "sudo gpusetup mig apply --stop-services --at-boot 7x1g.5gb",
        ],
    },
    Short {
        command: "mig restore",
        options: &[],
        examples: [
            "sudo gpusetup mig restore",
            "sudo gpusetup mig restore --device 0",
            "sudo systemctl restart gpusetup-mig.service",
        ],
    },
    Short {
        command: "mig assert",
        options: &[],
        examples: [
            "sudo gpusetup mig assert 7x1g.5gb",
            "sudo gpusetup mig assert --file mig.yaml --name all-balanced",
            "sudo gpusetup mig assert --device 0 off",
        ],
    },
    Short {
        command: "mig export",
        options: &[],
        examples: [
            "sudo gpusetup mig export > mig.yaml",
            "sudo gpusetup mig export --name training > mig.yaml",
            "sudo gpusetup mig export --json",
        ],
    },
    Short {
        command: "container translate",
        options: &[],
        examples: [
            "gpusetup container translate 'NV_GPU=0,3 nvidia-docker run nvidia/cuda'",
            "gpusetup container translate --to cdi -- docker run --gpus all IMAGE",
            "gpusetup container translate --to kubernetes 'docker run --gpus 2 IMAGE'",
        ],
    },
    Short {
        command: "container check",
        options: &[],
        examples: [
            "gpusetup container check nvidia/cuda:12.4.1-base-ubuntu22.04",
            "gpusetup container check image.tar",
            "gpusetup container check --driver 535 --gpu a100 image.tar",
        ],
    },
    Short {
        command: "bundle create",
        options: &[
            "plan", "os", "gpu", "for", "driver", "cuda", "cudnn", "profile", "out", "root",
            "mirror", "offline",
        ],
        examples: [
            "sudo gpusetup bundle create --plan plan.json -o gpu.tar.zst",
            "sudo gpusetup bundle create --os ubuntu-24.04 --gpu h100 -o gpu",
            "sudo gpusetup bundle create --plan plan.json --root /srv/tree -o gpu.tar.zst",
        ],
    },
    Short {
        command: "bundle pack",
        options: &[],
        examples: [
            "gpusetup bundle pack gpu -o gpu.tar.zst",
            "minisign -S -m gpu/bundle.json && gpusetup bundle pack gpu -o gpu.tar.zst",
            "gpusetup bundle pack /srv/gpu -o /srv/www/gpu.tar.zst",
        ],
    },
    Short {
        command: "bundle verify",
        options: &[],
        examples: [
            "gpusetup bundle verify gpu.tar.zst",
            "gpusetup bundle verify gpu --key our.pub",
            "gpusetup bundle verify gpu.tar.zst --json",
        ],
    },
    Short {
        command: "completions",
        options: &[],
        examples: [
            "gpusetup completions bash | sudo tee /etc/bash_completion.d/gpusetup",
            "source <(gpusetup completions zsh)",
            "gpusetup completions fish > ~/.config/fish/completions/gpusetup.fish",
        ],
    },
    Short {
        command: "man",
        options: &[],
        examples: [
            "gpusetup man | man -l -",
            "gpusetup man db list | man -l -",
            "sudo gpusetup man --directory /usr/local/share/man/man1",
        ],
    },
];

/// The commands whose every option can be set in the environment: they change nothing.
const WITH_ENVIRONMENT: [&str; 4] = ["facts", "plan", "explain", "doctor"];
/// Options of theirs that do change something.
const NEVER_FROM_THE_ENVIRONMENT: [&str; 2] = ["fix", "dry-run"];

/// The command line with grouped commands.
pub(crate) fn arranged(command: Command) -> Command {
    let groups = grouped(&command);
    let template = "{about}\n\n{usage-heading} {usage}{after-help}\n\nOptions:\n{options}";
    command.help_template(template).after_help(groups)
}

/// A subcommand, and those below it, with short help and names in the environment.
pub(crate) fn with_short_helps(command: Command) -> Command {
    let name = command.get_name().to_owned();
    let command = with_short_help(with_environment(command), &name);
    command.mut_subcommands(|below| {
        let name = format!("{name} {}", below.get_name());
        with_short_help(with_environment(below), &name)
    })
}

fn with_short_help(command: Command, name: &str) -> Command {
    match SHORT.iter().find(|short| short.command == name) {
        Some(of_command) => short(command, of_command),
        None => command,
    }
}

/// The examples of a command: `plan`, `db list`.
pub(crate) fn examples(name: &str) -> &'static [&'static str] {
    SHORT
        .iter()
        .find(|short| short.command == name)
        .map_or(&[], |short| &short.examples)
}

fn grouped(command: &Command) -> String {
    let mut out = String::new();
    for (title, names) in GROUPS {
        let _ = writeln!(out, "{title}:");
        for name in names {
            let about = command
                .find_subcommand(name)
                .and_then(|sub| sub.get_about())
                .map(ToString::to_string);
            let about = about.unwrap_or_default();
            out += &wrapped(
                &format!("  {name:<16} "),
                about.lines().next().unwrap_or_default(),
                width(),
            );
        }
        out.push('\n');
    }
    out + wrapped(
        "",
        "Start with `gpusetup plan`: it changes nothing. `gpusetup COMMAND -h` has examples.",
        width(),
    )
    .trim_end()
}

/// Which variables there are is said once, in the manual, and not with each option.
fn with_environment(command: Command) -> Command {
    let every = WITH_ENVIRONMENT.contains(&command.get_name());
    command.mut_args(|arg| {
        let Some(long) = arg.get_long().map(str::to_owned) else {
            return arg;
        };
        // It is the program's own, and says itself what sets it.
        if arg.is_global_set() {
            return arg;
        }
        let is_asked = matches!(arg.get_action(), ArgAction::Help | ArgAction::Version);
        let arg = arg.hide_env(true);
        if !every
            || is_asked
            || arg.get_env().is_some()
            || NEVER_FROM_THE_ENVIRONMENT.contains(&long.as_str())
        {
            return arg;
        }
        arg.env(variable(&long))
    })
}

/// The variable that sets a long option.
pub(crate) fn variable(long: &str) -> String {
    format!("GPUSETUP_{}", long.replace('-', "_").to_uppercase())
}

fn short(
    command: Command,
    Short {
        command: name,
        options,
        examples,
    }: &Short,
) -> Command {
    let mut text = "Examples:\n".to_owned();
    text.extend(examples.iter().map(|example| format!("  {example}\n")));
    if options.is_empty() {
        return command.after_help(text.trim_end().to_owned());
    }
    // The variables of a request reach the commands that take one.
    let takes_all = WITH_ENVIRONMENT.contains(name) || *name == "apply";
    let settings = "Every option --NAME can be set as GPUSETUP_NAME in the environment and as NAME in /etc/gpusetup/config.yaml.";
    let long = if takes_all {
        format!("{text}\n{settings}")
    } else {
        text.trim_end().to_owned()
    };
    let text = format!("{text}\nAll options: gpusetup {name} --help");
    let shown = options.to_vec();
    let command = command.mut_args(|arg| {
        let hidden = arg
            .get_long()
            .is_some_and(|long| !shown.contains(&long) && long != "help");
        arg.hide_short_help(hidden)
    });
    command.after_help(text).after_long_help(long)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_help_fits_a_screen_with_examples() {
        let mut all = crate::cli::command()
            .term_width(80)
            .disable_help_subcommand(true);
        all.build();
        let mut asked = 0;
        let mut waiting: Vec<_> = all
            .get_subcommands()
            .filter(|sub| !sub.is_hide_set())
            .cloned()
            .collect();
        while let Some(mut command) = waiting.pop() {
            let name = command
                .get_bin_name()
                .unwrap_or_default()
                .trim_start_matches("gpusetup ")
                .to_owned();
            let below: Vec<_> = command.get_subcommands().cloned().collect();
            let help = command.render_help().to_string();
            assert!(
                help.lines().count() <= 50,
                "{name}: {} lines\n{help}",
                help.lines().count()
            );
            if !below.is_empty() {
                waiting.extend(below);
            } else {
                asked += 1;
                assert_eq!(examples(&name).len(), 3, "{name} has no examples");
                assert!(
                    examples(&name).iter().all(|example| help.contains(example)),
                    "{help}"
                );
            }
        }
        assert_eq!(asked, SHORT.len(), "an entry for a command that is none");
    }

    #[test]
    fn options_of_the_short_help_exist() {
        let mut all = crate::cli::command();
        all.build();
        for Short {
            command, options, ..
        } in SHORT
        {
            let found = command
                .split(' ')
                .try_fold(&all, |above, name| above.find_subcommand(name))
                .expect(command);
            for long in options {
                assert!(
                    found
                        .get_arguments()
                        .any(|arg| arg.get_long() == Some(long)),
                    "{command} has no --{long}"
                );
            }
        }
    }

    #[test]
    fn every_command_is_in_a_group() {
        let listed: Vec<_> = GROUPS
            .iter()
            .flat_map(|(_, names)| names.iter().copied())
            .collect();
        for name in crate::cli::commands() {
            assert!(listed.contains(&name.as_str()), "{name}");
        }
    }
}
