//! `gpusetup doctor`: whether the install is sound.

use super::Problem;
use super::facts::{look, read_text};
use super::options::{HostOptions, LookOptions};
use crate::doctor::{CHECKS, Check, ELSEWHERE, Sources, cudnn_answer, examine, gather};
use crate::render;
use crate::render::doctor::Look;
use crate::system::System;
use clap::ValueEnum;
use std::path::PathBuf;

/// Flags of `doctor`.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Only these checks, by id: GS201
    #[arg(value_name = "CHECK")]
    checks: Vec<String>,
    #[command(flatten)]
    host: HostOptions,
    #[command(flatten)]
    look: LookOptions,
    /// How the findings are printed
    #[arg(long, value_enum, default_value = "text", conflicts_with = "json")]
    format: Format,
    /// Which checks: what an install leaves on the disk, what changes while the host runs, or all
    #[arg(long, value_enum, default_value = "all")]
    profile: Profile,
    /// Exit 20 on warnings too
    #[arg(long, env = "GPUSETUP_STRICT")]
    strict: bool,
    /// Write the findings there too, as a web page
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// The kernel's log is this file (- is standard input): the output of dmesg or `journalctl -k`
    #[arg(long, value_name = "FILE", env = "GPUSETUP_KERNEL_LOG")]
    kernel_log: Option<PathBuf>,
    /// Print the checks and what each reads, and look at nothing
    #[arg(long)]
    list_checks: bool,
}

/// Forms of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For reading
    Text,
    /// One object
    Json,
    /// Gauges for the node exporter's textfile collector
    Prometheus,
}

/// Which checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Profile {
    /// What an install leaves on the disk
    Install,
    /// What changes while the host runs
    Runtime,
    /// Both
    All,
}

/// Flags of the child that asks a library.
#[derive(Debug, clap::Args)]
pub struct AskOptions {
    library: String,
    #[arg(long)]
    root: Option<PathBuf>,
}

/// What `doctor` exits with when something failed.
const FAILURES: u8 = 20;

/// Examines the host.
pub fn run(options: &Options) -> Result<u8, Problem> {
    let mut only = options.checks.iter().map(|id| known(id)).collect::<Result<Vec<_>, _>>()?;
    if only.is_empty() && options.profile != Profile::All {
        let of = |c: &&Check| c.runtime == (options.profile == Profile::Runtime);
        only.extend(CHECKS.iter().filter(of).map(|c| c.id));
    }
    if options.list_checks {
        super::print(&list(&only))?;
        return Ok(0);
    }
    let database = options.host.database()?;
    let (facts, _) = look(&options.host, &database, false)?;
    let system = options.host.root.as_ref().map_or_else(System::live, System::at);
    let sources = Sources { kernel_log: options.kernel_log.as_deref().map(read_text).transpose()? };
    let evidence = gather(&system, &database, facts, &options.host.prefix, &sources);
    let report = examine(evidence, &database, &only);
    if let Some(path) = &options.html {
        let failed = |e| Problem::unexpected(format!("cannot write {}: {e}", path.display()));
        std::fs::write(path, render::report::html(&report)).map_err(failed)?;
    }
    match (options.look.json, options.format) {
        (true, _) | (false, Format::Json) => super::print_json(&report)?,
        (false, Format::Prometheus) => super::print(&render::doctor::prometheus(&report))?,
        (false, Format::Text) => {
            let look = Look {
                paint: super::paint(options.look.color),
                unicode: speaks_unicode(),
                verbose: options.look.verbose,
                width: super::width(),
            };
            super::print(&render::doctor::text(&report, look))?;
        }
    }
    Ok(if report.has_failed(options.strict) { FAILURES } else { 0 })
}

/// Answers the parent about a library; not for people.
pub fn ask(options: &AskOptions) -> u8 {
    cudnn_answer(&options.library, options.root.as_deref())
}

fn known(id: &str) -> Result<&'static str, Problem> {
    let found = CHECKS.iter().find(|c| c.id.eq_ignore_ascii_case(id));
    found.map(|c| c.id).ok_or_else(|| {
        Problem::usage(format!("there is no check {id}")).hint("see them all with: gpusetup doctor --list-checks")
    })
}

fn list(only: &[&str]) -> String {
    let wanted = |id: &str| only.is_empty() || only.contains(&id);
    let mut out = String::new();
    for check in CHECKS.iter().filter(|c| wanted(c.id)) {
        out += &render::wrapped(&format!("{}  ", check.id), check.title, super::width());
        out += &render::wrapped("         reads ", check.reads, super::width());
    }
    for (id, title, place) in ELSEWHERE.iter().filter(|(id, ..)| wanted(id)) {
        out += &render::wrapped(&format!("{id}  "), title, super::width());
        out += &render::wrapped("         no check: ", place, super::width());
    }
    out
}

/// Whether the locale's character set can show more than ASCII.
fn speaks_unicode() -> bool {
    let set = |name| std::env::var(name).ok().filter(|v| !v.is_empty());
    let locale = set("LC_ALL").or_else(|| set("LC_CTYPE")).or_else(|| set("LANG")).unwrap_or_default().to_lowercase();
    locale.contains("utf-8") || locale.contains("utf8")
}
