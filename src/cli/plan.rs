//! `gpusetup plan`: what would be done, and why.

use super::Problem;
use super::facts::{look, read_text};
use super::options::{HostOptions, IfNoGpu, LookOptions, RequestOptions};
use crate::host::Facts;
use crate::plan::{Plan, plan};
use crate::render;
use crate::resolve::MisfitKind;
use clap::ValueEnum;
use std::path::{Path, PathBuf};

/// Flags of `plan`.
#[derive(Debug, clap::Args)]
pub struct Options {
    #[command(flatten)]
    host: HostOptions,
    #[command(flatten)]
    request: RequestOptions,
    #[command(flatten)]
    look: LookOptions,
    /// Plan for the host of this `facts --json` file (- is standard input)
    #[arg(long, value_name = "FILE", env = "GPUSETUP_FACTS", conflicts_with_all = ["root", "lspci"])]
    facts: Option<PathBuf>,
    /// How the plan is printed
    #[arg(long, value_enum, default_value = "text", conflicts_with = "json")]
    format: Format,
    /// Write the plan there too, for `gpusetup apply FILE`
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Exit 3 when there is something to do
    #[arg(long)]
    exit_code: bool,
}

/// Forms of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For reading
    Text,
    /// One object
    Json,
    /// A script that does the same when run by hand
    Sh,
}

/// Prints the plan.
pub fn run(options: &Options) -> Result<u8, Problem> {
    let database = options.host.database()?;
    let (facts, assumed) = match &options.facts {
        Some(path) => (read_facts(path)?, Vec::new()),
        None => look(&options.host, &database, options.host.is_meant())?,
    };
    let request = options.request.request(&options.host, assumed)?;
    let plan = match plan(&database, facts, request) {
        Err(misfit) if misfit.kind == MisfitKind::NoGpu && options.request.if_no_gpu == IfNoGpu::Skip => {
            super::say("this host has no NVIDIA GPU: nothing to do (--if-no-gpu skip)");
            return Ok(0);
        }
        planned => planned?,
    };
    if let Some(path) = &options.out {
        save(&plan, path)?;
    }
    match (options.look.json, options.format) {
        (true, _) | (false, Format::Json) => super::print_json(&plan)?,
        (false, Format::Sh) => super::print(&render::script::sh(&plan))?,
        (false, Format::Text) => {
            let paint = super::paint(options.look.color);
            super::print(&render::plan::text(&plan, paint, options.look.verbose, super::width()))?;
        }
    }
    Ok(if options.exit_code && !plan.is_converged() { 3 } else { 0 })
}

fn read_facts(path: &Path) -> Result<Facts, Problem> {
    let text = read_text(path)?;
    let name = path.display();
    let value: serde_json::Value =
        serde_json::from_str(&text).map_err(|e| Problem::usage(format!("{name} is no facts file: {e}")))?;
    match value.get("schema").and_then(|s| s.as_str()) {
        Some(crate::host::SCHEMA) => {}
        Some(other) => {
            let sentence = format!("{name} has the schema {other}; this gpusetup reads {}", crate::host::SCHEMA);
            return Err(Problem::usage(sentence));
        }
        None => return Err(Problem::usage(format!("{name} is no facts file: it has no schema"))),
    }
    serde_json::from_value(value).map_err(|e| Problem::usage(format!("{name} is no facts file: {e}")))
}

fn save(plan: &Plan, path: &Path) -> Result<(), Problem> {
    let text = serde_json::to_string_pretty(plan).map_err(|e| Problem::unexpected(e.to_string()))?;
    std::fs::write(path, text + "\n").map_err(|e| Problem::unexpected(format!("cannot write {}: {e}", path.display())))
}
