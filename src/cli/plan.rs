//! `gpusetup plan`: what would be done, and why.

use super::Problem;
use super::bundle::{self, Chosen};
use super::facts::{described, look, read_text};
use super::locked::{self, Locked};
use super::options::{
    BundleOptions, HostOptions, IfNoGpu, LookOptions, RebootOption, RequestOptions, SourceOptions, TrustOptions,
};
use crate::host::{Facts, offered_by};
use crate::plan::{Plan, plan};
use crate::render;
use crate::render::cloud_init::{Wishes, user_data};
use crate::resolve::{Misfit, MisfitKind};
use crate::system::output;
use crate::text::visible_json;
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
    source: SourceOptions,
    #[command(flatten)]
    bundle: BundleOptions,
    #[command(flatten)]
    trust: TrustOptions,
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
    /// Write the exact set there, for `--locked`: versions, files with their sums, packages with what comes along
    #[arg(long, value_name = "FILE", conflicts_with = "facts")]
    lock: Option<PathBuf>,
    /// In user-data: NVIDIA's licences are accepted
    #[arg(long, env = "GPUSETUP_ACCEPT_EULA")]
    accept_eula: bool,
    /// In user-data: who boots the machine, gpusetup (if-needed) or cloud-init (external)
    #[arg(long, value_enum, env = "GPUSETUP_REBOOT", default_value = "if-needed")]
    reboot: RebootOption,
    /// In user-data: where the machine gets gpusetup from, where its image does not have it
    #[arg(long, value_name = "URL", requires = "binary_sha256", value_parser = address)]
    binary_url: Option<String>,
    /// In user-data: the SHA-256 of that
    #[arg(long, value_name = "SUM", requires = "binary_url", value_parser = sum)]
    binary_sha256: Option<String>,
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
    /// User-data that has it done on a machine's first boot
    CloudInit,
}

/// Prints the plan.
pub fn run(options: &Options) -> Result<u8, Problem> {
    let sources = options.source.sources_with(&options.bundle, &options.trust, &options.host.database)?;
    let database = bundle::database(&options.host, &sources)?;
    let locked = Locked::read(options.request.locked.as_ref(), &options.trust)?;
    let asked = (options.host.is_meant() || options.lock.is_some()).then(|| locked.versions());
    let (mut facts, assumed) = match &options.facts {
        Some(path) => described(path, &options.host, database)?,
        None => look(&options.host, database, asked.as_ref())?,
    };
    let chosen = match &sources.bundle {
        Some(bundle) => {
            facts.offered = offered_by(bundle.offers(&facts), &facts, database);
            bundle::chosen(bundle, &facts, database)?
        }
        None => Chosen::Nothing,
    };
    let planned = match chosen {
        Chosen::Plan(plan) => Ok(*plan),
        Chosen::Request(request) => plan(database, facts.clone(), locked.request(*request, &facts)?),
        Chosen::Nothing => {
            let request = options.request.request(&options.host, assumed)?;
            plan(database, facts.clone(), locked.request(request, &facts)?)
        }
    };
    let plan = match planned {
        Err(misfit) if misfit.kind == MisfitKind::NoGpu && options.request.if_no_gpu == IfNoGpu::Skip => {
            super::say("this host has no NVIDIA GPU: nothing to do (--if-no-gpu skip)");
            return Ok(0);
        }
        planned => {
            let on_host = |misfit: Misfit| misfit.on_host(&options.host.again(options.facts.as_deref()));
            locked.hold(planned.map_err(on_host)?)?
        }
    };
    if let Some(path) = &options.lock {
        locked::write(path, &super::apply::system_of(options.host.root.as_ref()), database, &plan)?;
    }
    let plan = plan.fetched_from(&sources.mirrors, database);
    if let Some(path) = &options.out {
        save(&plan, path)?;
    }
    match (options.look.json, options.format) {
        (true, _) | (false, Format::Json) => super::print_json(&plan)?,
        (false, Format::Sh) => super::print(&render::script::sh(&plan))?,
        (false, Format::CloudInit) => {
            let wishes = Wishes {
                accept_eula: options.accept_eula,
                reboot: options.reboot.as_str(),
                mirrors: &sources.mirrors,
                binary: options.binary_url.as_deref().zip(options.binary_sha256.as_deref()),
            };
            super::print(&user_data(&plan, wishes))?;
        }
        (false, Format::Text) => {
            let paint = super::paint(options.look.color);
            super::print(&render::plan::text(&plan, paint, options.look.verbose, super::width()))?;
        }
    }
    Ok(if options.exit_code && !plan.is_converged() { 3 } else { 0 })
}

/// An address that can stand in a shell's single quotes and a YAML text.
fn address(text: &str) -> Result<String, String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-._~:/?#@!&=+,;%".contains(c);
    if text.starts_with("https://") && text.chars().all(plain) {
        return Ok(text.to_owned());
    }
    Err("an https:// address without blanks and quotes is expected".to_owned())
}

fn sum(text: &str) -> Result<String, String> {
    let hexadecimal = text.len() == 64 && text.bytes().all(|b| b.is_ascii_hexdigit());
    if hexadecimal { Ok(text.to_lowercase()) } else { Err("64 hexadecimal digits are expected".to_owned()) }
}

/// The facts in a file.
pub fn read_facts(path: &Path) -> Result<Facts, Problem> {
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
    let facts: Facts = serde_json::from_value(visible_json(value))
        .map_err(|e| Problem::usage(format!("{name} is no facts file: {e}")))?;
    match facts.unlikely_kernel() {
        Some(kernel) => Err(Problem::usage(format!("{name} names a kernel {kernel:?}, which no kernel is called"))),
        None => Ok(facts),
    }
}

fn save(plan: &Plan, path: &Path) -> Result<(), Problem> {
    let text = serde_json::to_string_pretty(plan).map_err(|e| Problem::unexpected(e.to_string()))?;
    output::write(path, (text + "\n").as_bytes())
        .map_err(|e| Problem::unexpected(format!("cannot write {}: {e}", path.display())))
}
