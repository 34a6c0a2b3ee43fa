//! The command line: a file per subcommand, from arguments to calls to what is printed. Flags have
//! twins in the environment (`GPUSETUP_*`) and in the config file; a flag comes before the
//! environment, that before the file.

mod apply;
mod bundle;
mod cache;
mod complete;
mod config;
mod container;
mod db;
mod doctor;
mod driver_file;
mod explain;
mod facts;
mod files;
mod help;
mod host;
mod itself;
mod list;
mod locale;
mod locked;
mod manual;
mod mig;
mod mistakes;
mod module_key;
mod options;
mod plan;
mod problem;
mod prune;
#[cfg(test)]
mod reference;
mod releases;
mod report;
mod run;
mod settings;
mod status;
mod terminal;
mod uninstall;
mod upstream;
mod use_toolkit;

pub use locale::languages;
use locale::legible;
pub use problem::Problem;
use terminal::{paint, width};

use crate::exit::Exit;
use crate::nvidia;
use crate::system::{bug, environment};
use crate::text;
use crate::text::without_logins;
use clap::builder::TypedValueParser as _;
use clap::{ArgAction, ArgMatches, Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use config::Config;
use options::{
    BundleOptions, ColorOption, HostOptions, LanguageOptions, LookOptions, RequestOptions,
    RunOptions, SourceOptions, TrustOptions,
};
use std::borrow::Cow;
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

/// Puts a working NVIDIA driver, CUDA toolkit and cuDNN on a Linux host, and says why.
#[derive(Debug, Parser)]
#[command(
    name = "gpusetup",
    version,
    max_term_width = 100,
    propagate_version = true
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    /// Read default options from FILE [default: /etc/gpusetup/config.yaml, if it exists]
    #[arg(
        long,
        global = true,
        hide_short_help = true,
        value_name = "FILE",
        env = "GPUSETUP_CONFIG"
    )]
    config: Option<PathBuf>,
}

/// A subcommand with subcommands.
#[derive(Debug, Args)]
struct Group<C: Subcommand> {
    #[command(subcommand)]
    command: C,
}

/// What every subcommand is: its name, what it does, and its options. Telling clap all options of all
/// subcommands takes half as long as a plan.
macro_rules! commands {
    ($($(#[doc = $about:literal])+ $variant:ident($options:ty) = $name:expr,)+) => {
        #[derive(Debug)]
        enum Command {
            $($(#[doc = $about])+ $variant($options),)+
        }

        impl FromArgMatches for Command {
            fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
                match matches.subcommand() {
                    $(Some((name, matches)) if name == $name => {
                        <$options>::from_arg_matches(matches).map(Self::$variant)
                    })+
                    _ => Err(clap::Error::new(clap::error::ErrorKind::MissingSubcommand)),
                }
            }

            fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
                *self = Self::from_arg_matches(matches)?;
                Ok(())
            }
        }

        impl Subcommand for Command {
            fn augment_subcommands(all: clap::Command) -> clap::Command {
                all$(.subcommand(
                    clap::Command::new($name)
                        .about(concat!($($about),+).trim_start())
                        .hide($name == nvidia::SUBCOMMAND)
                        .defer(with_options::<$options>),
                ))+
            }

            fn augment_subcommands_for_update(all: clap::Command) -> clap::Command {
                Self::augment_subcommands(all)
            }

            fn has_subcommand(name: &str) -> bool {
                [$($name),+].contains(&name)
            }
        }

        /// The command line as clap knows it, with all options of all subcommands.
        pub fn command() -> clap::Command {
            let all = short_command();
            $(let all = all.mut_subcommand($name, |sub| with_options::<$options>(sub.defer(|sub| sub)));)+
            all
        }
    };
}

commands! {
    /// Show this host: GPUs, system, kernels, what is installed and by whom
    Facts(facts::Options) = "facts",
    /// Show what would be done and why; change nothing
    Plan(plan::Options) = "plan",
    /// Install: apply a new plan, or one saved by `plan --out`
    Apply(apply::Options) = "apply",
    /// Resume an interrupted apply, for example after a reboot
    Resume(apply::ResumeOptions) = "resume",
    /// Undo the last apply
    Rollback(apply::RollbackOptions) = "rollback",
    /// Remove what gpusetup installed, or other toolkits and drivers
    Uninstall(uninstall::Options) = "uninstall",
    /// List what is installed: driver, toolkits, add-ons; by whom, which is the default
    List(list::Options) = "list",
    /// Make another installed toolkit the default one
    Use(use_toolkit::Options) = "use",
    /// Show how the last apply or rollback ended
    Status(status::Options) = "status",
    /// Exit 0 if a reboot is required, 1 if not
    RebootRequired(status::RebootRequiredOptions) = "reboot-required",
    /// Verify the installation; find root causes and repair them
    Doctor(doctor::Options) = "doctor",
    /// Explain a choice, a check, an error code, or any error message
    Explain(explain::Options) = "explain",
    /// Browse, check and update the compatibility database
    Db(Group<db::Command>) = "db",
    /// List, verify or remove cached downloads
    Cache(Group<cache::Command>) = "cache",
    /// Remove downloads, leftovers and copies that nothing needs any more
    Prune(prune::Options) = "prune",
    /// Partition GPUs into instances (MIG)
    Mig(Group<mig::Command>) = "mig",
    /// Translate requests for GPUs, and check images
    Container(Group<container::Command>) = "container",
    /// Collect everything a plan needs, for hosts without a network
    Bundle(Group<bundle::Command>) = "bundle",
    /// Update or remove gpusetup itself
    Itself(Group<itself::Command>) = "self",
    /// Query one of NVIDIA's libraries; doctor runs this in a separate process
    Ask(doctor::AskOptions) = nvidia::SUBCOMMAND,
    /// Print a completion script for a shell
    Completions(complete::Options) = "completions",
    /// Print a manual page, or write all pages into a folder
    Man(manual::Options) = "man",
}

/// Whether this process printed a JSON object: an error adds no second one.
static PRINTED_JSON: AtomicBool = AtomicBool::new(false);

/// Runs what `arguments` ask for; the number is the exit code of the contract.
pub fn run(arguments: Vec<OsString>) -> u8 {
    if let Some(answer) = complete::answer(&arguments) {
        return print_bytes(&answer)
            .map_or_else(|problem| problem.exit.code(), |()| Exit::Done.code());
    }
    let wants_json = wants_json(&arguments);
    let answers_with_1 = answers_with_1(&arguments);
    let apart = move |problem: Problem| match problem.exit {
        Exit::Unexpected if answers_with_1 => Problem {
            exit: Exit::Blocked,
            ..problem
        },
        _ => problem,
    };
    bug::ends_the_program(move |what| {
        let problem = apart(Problem::unexpected(format!("gpusetup has a bug: {what}")));
        tell(
            &problem.hint("please report it, with the command that you ran"),
            wants_json,
        )
    });
    let done = Config::read(&arguments).and_then(|config| {
        configured(&arguments, &config, wants_json).map_err(|problem| {
            let problem = config.traced(problem, &arguments);
            match root_of(&arguments, &config) {
                Some(root) => problem.for_root(&root),
                None => problem,
            }
        })
    });
    done.unwrap_or_else(|problem| tell(&apart(problem), wants_json))
}

/// Whether a failure is not to end with 1, which is the answer "no" of this command.
fn answers_with_1(arguments: &[OsString]) -> bool {
    const NAME: &str = "reboot-required";
    // Reading the command line a second time takes a while.
    arguments.iter().any(|word| word == NAME) && subcommand(arguments).as_deref() == Some(NAME)
}

/// The subcommand that is meant: where clap refuses the command line, the first word that is one.
fn subcommand(arguments: &[OsString]) -> Option<String> {
    let all = short_command();
    let first = arguments
        .iter()
        .skip(1)
        .find_map(|word| all.find_subcommand(word))
        .map(|sub| sub.get_name().to_owned());
    match all.ignore_errors(true).try_get_matches_from(arguments) {
        Ok(matches) => matches.subcommand_name().map(str::to_owned).or(first),
        Err(_) => first,
    }
}

/// Says what the problem is, and returns the exit code.
fn tell(problem: &Problem, wants_json: bool) -> u8 {
    problem.report();
    if wants_json && !PRINTED_JSON.load(Ordering::Relaxed) {
        // Whoever reads it is gone if this fails; the exit code says the rest.
        let _ = print_json(&problem.json());
    }
    problem.exit.code()
}

/// Runs what `arguments` ask for, with the defaults of the config file; the number is the exit
/// code.
fn configured(arguments: &[OsString], config: &Config, wants_json: bool) -> Result<u8, Problem> {
    let e = match parse(arguments, config) {
        Ok(cli) => return dispatch(cli.command),
        Err(e) => e,
    };
    match mistakes::known(&e, arguments, &commands(), config) {
        Some(problem) => Err(problem),
        None if e.use_stderr() && wants_json => Err(Problem::usage(first_line(&e))),
        None if e.use_stderr()
            && matches!(without_logins(&e.render().to_string()), Cow::Owned(_)) =>
        {
            complain(e.render().to_string().trim_end());
            Ok(Exit::Usage.code())
        }
        // Help and version are answers; anything else is exit 2, which is clap's own code too.
        None => match e.print().and_then(|()| io::stdout().flush()) {
            Err(why) if !e.use_stderr() && why.kind() != io::ErrorKind::BrokenPipe => {
                Err(unwritten(&why))
            }
            _ => Ok(u8::try_from(e.exit_code()).unwrap_or(2)),
        },
    }
}

/// Whether a failure is to be an object on standard output: found before clap reads the rest, which
/// it may refuse.
fn wants_json(arguments: &[OsString]) -> bool {
    let mut words = arguments
        .iter()
        .skip(1)
        .take_while(|word| *word != "--")
        .peekable();
    let of_format = |word: &OsString| word == "json";
    while let Some(word) = words.next() {
        if word == "--json"
            || word == "--format=json"
            || word == "--format" && words.peek().is_some_and(|w| of_format(w))
        {
            return true;
        }
    }
    environment::raw("GPUSETUP_JSON").is_some_and(|value| {
        clap::builder::BoolishValueParser::new()
            .parse_ref(&clap::Command::new("gpusetup"), None, &value)
            .unwrap_or(false)
    })
}

/// The tree that `--root` names, as far as the command line can be read.
fn root_of(arguments: &[OsString], config: &Config) -> Option<PathBuf> {
    let matches = configured_command(config)
        .ignore_errors(true)
        .try_get_matches_from(arguments)
        .ok()?;
    let mut matches = &matches;
    while let Some((_, below)) = matches.subcommand() {
        matches = below;
    }
    matches
        .try_get_one::<PathBuf>("root")
        .ok()
        .flatten()
        .cloned()
}

/// A refusal of clap's in one line, without its usage.
fn first_line(e: &clap::Error) -> String {
    let text = e.render().to_string();
    text.lines()
        .next()
        .unwrap_or_default()
        .trim_start_matches("error: ")
        .to_owned()
}

/// Runs a command; the number is its exit code.
fn dispatch(command: Command) -> Result<u8, Problem> {
    let done = match command {
        Command::Facts(options) => facts::run(&options),
        Command::Plan(options) => plan::run(&options),
        Command::Apply(options) => apply::run(&options),
        Command::Resume(options) => apply::resume(&options),
        Command::RebootRequired(options) => status::reboot_required(&options),
        Command::Rollback(options) => apply::rollback(&options),
        Command::Uninstall(options) => uninstall::run(&options),
        Command::List(options) => list::run(&options),
        Command::Use(options) => use_toolkit::run(&options),
        Command::Status(options) => status::run(&options),
        Command::Doctor(options) => doctor::run(&options),
        Command::Explain(options) => explain::run(&options),
        Command::Db(options) => db::run(&options.command),
        Command::Cache(options) => cache::run(&options.command),
        Command::Prune(options) => prune::run(&options),
        Command::Mig(options) => mig::run(&options.command),
        Command::Container(options) => container::run(&options.command),
        Command::Bundle(options) => bundle::run(&options.command),
        Command::Itself(options) => itself::run(&options.command),
        Command::Ask(options) => return Ok(doctor::ask(&options)),
        Command::Completions(options) => complete::script(options.shell),
        Command::Man(options) => manual::run(&options),
    };
    done.map(Exit::code)
}

/// The command line, where clap hears of a subcommand's options only when it comes to them.
fn short_command() -> clap::Command {
    help::arranged(Cli::command())
}

/// A subcommand with these options and what is below it.
fn with_options<T: Args>(command: clap::Command) -> clap::Command {
    let about = command.get_about().cloned();
    let command = with_tolerant_flags(T::augment_args(command)).about(about.unwrap_or_default());
    help::with_short_helps(command)
}

/// Flags take 1, 0, yes, no, on and off from the environment.
fn with_tolerant_flags(command: clap::Command) -> clap::Command {
    let flags = command.mut_args(|arg| match arg.get_action() {
        ArgAction::SetTrue => arg.value_parser(clap::builder::BoolishValueParser::new()),
        _ => arg,
    });
    flags.mut_subcommands(with_tolerant_flags)
}

/// The names of the commands that people type.
fn commands() -> Vec<String> {
    Cli::command()
        .get_subcommands()
        .filter(|c| !c.is_hide_set())
        .map(|c| c.get_name().to_owned())
        .collect()
}

/// The command line with the defaults of the config file.
fn configured_command(config: &Config) -> clap::Command {
    if config.has_defaults() {
        config.with_defaults(command())
    } else {
        short_command()
    }
}

fn parse(arguments: &[OsString], config: &Config) -> Result<Cli, clap::Error> {
    let matches = configured_command(config).try_get_matches_from(arguments)?;
    Cli::from_arg_matches(&matches)
}

/// The names of all long options that a config file may set.
fn option_names() -> Vec<String> {
    shared_options()
        .get_arguments()
        .filter_map(|a| a.get_long())
        .map(str::to_owned)
        .collect()
}

/// Options for which `off` is meant where a config file says false, though they have no list of
/// values.
const WITH_OFF: [&str; 4] = ["gpu-clocks", "memory-clocks", "mig", "power-limit"];

/// The names of those of these options whose own parser judges `false`, as which YAML reads an
/// unquoted off. For flags it means that they are not given.
fn judges_off(all: &clap::Command) -> Vec<&str> {
    let has_values =
        |a: &clap::Arg| a.get_action().takes_values() && !a.get_possible_values().is_empty();
    let judges =
        |a: &&clap::Arg| has_values(a) || a.get_long().is_some_and(|name| WITH_OFF.contains(&name));
    all.get_arguments()
        .filter(judges)
        .filter_map(|a| a.get_long())
        .collect()
}

/// The names of those that take no value.
fn flags(all: &clap::Command) -> Vec<&str> {
    let is_flag = |a: &&clap::Arg| !a.get_action().takes_values();
    all.get_arguments()
        .filter(is_flag)
        .filter_map(|a| a.get_long())
        .collect()
}

/// The names of those that take several values.
fn lists(all: &clap::Command) -> Vec<&str> {
    let takes_several = |a: &&clap::Arg| matches!(a.get_action(), clap::ArgAction::Append);
    all.get_arguments()
        .filter(takes_several)
        .filter_map(|a| a.get_long())
        .collect()
}

/// The options that several commands share.
fn shared_options() -> clap::Command {
    let groups = [
        HostOptions::augment_args,
        RequestOptions::augment_args,
        SourceOptions::augment_args,
        BundleOptions::augment_args,
        TrustOptions::augment_args,
        RunOptions::augment_args,
        LookOptions::augment_args,
        LanguageOptions::augment_args,
    ];
    groups
        .into_iter()
        .fold(clap::Command::new("all"), |command, add| add(command))
}

/// Writes a result to standard output. A reader that has gone away (`| head`) is no failure.
fn print(text: &str) -> Result<(), Problem> {
    print_bytes(text.as_bytes())
}

/// Writes a text for people to standard output: its addresses are links where the terminal knows
/// links, and so are the files that it names, if it is about this host.
fn print_text(text: String, color: ColorOption, is_about_this_host: bool) -> Result<(), Problem> {
    print(&legible(&terminal::with_links(
        text,
        color,
        is_about_this_host,
    )))
}

fn print_bytes(bytes: &[u8]) -> Result<(), Problem> {
    let mut out = std::io::stdout().lock();
    // What stays in the buffer would be lost without a word.
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(e) if e.kind() != std::io::ErrorKind::BrokenPipe => Err(unwritten(&e)),
        _ => Ok(()),
    }
}

fn unwritten(e: &std::io::Error) -> Problem {
    Problem::unexpected(format!("cannot write to standard output: {e}"))
}

/// Writes one JSON object to standard output.
fn print_json(value: &impl serde::Serialize) -> Result<(), Problem> {
    let text =
        serde_json::to_string_pretty(value).map_err(|e| Problem::unexpected(e.to_string()))?;
    PRINTED_JSON.store(true, Ordering::Relaxed);
    print(&(text::json(&text) + "\n"))
}

/// What `plan` and `apply` say where `--if-no-gpu skip` accepts a host without a GPU.
const NO_GPU_TO_PLAN_FOR: &str = "this host has no NVIDIA GPU: nothing to do (--if-no-gpu skip)";

/// Says something beside the result, on standard error.
fn say(text: &str) {
    complain(&terminal::filled(&legible(text)));
}

/// Writes a line to standard error, without the logins of addresses: logs keep it. Where that is
/// closed or full, the exit code is what is left to say.
fn complain(line: &str) {
    let _ = writeln!(io::stderr(), "{}", without_logins(line));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        command().debug_assert();
    }

    #[test]
    fn help_fits_a_narrow_terminal() {
        let mut command = command().term_width(80);
        command.build();
        for sub in command.get_subcommands_mut() {
            let help = sub.render_long_help().to_string();
            assert!(
                help.lines().all(|l| l.chars().count() <= 80),
                "{}:\n{help}",
                sub.get_name()
            );
        }
    }
}
