//! `gpusetup facts`: what this host is.

use super::Problem;
use super::options::{HostOptions, LookOptions};
use crate::compat::Database;
use crate::host::{Facts, GpuSource, Look, SpecError, assumed_gpus, offered, probe};
use crate::packages::Versions;
use crate::render;
use crate::system::System;
use crate::system::input::{self, InputError};
use std::path::Path;

/// Flags of `facts`.
#[derive(Debug, clap::Args)]
pub struct Options {
    #[command(flatten)]
    host: HostOptions,
    #[command(flatten)]
    look: LookOptions,
}

/// Prints the facts.
pub fn run(options: &Options) -> Result<u8, Problem> {
    let database = options.host.database()?;
    let (facts, _) = look(&options.host, database, Some(&Versions::new()))?;
    if options.look.json {
        super::print_json(&facts)?;
    } else {
        super::print(&render::facts::text(&facts))?;
    }
    Ok(0)
}

/// The facts of the host that the flags name, and the GPUs assumed by `--gpu`, by what was said for each. With `ask`, they say
/// what the repositories offer: the versions in it first, which are those of a lock file.
pub fn look(
    options: &HostOptions,
    database: &Database,
    ask: Option<&Versions>,
) -> Result<(Facts, Vec<String>), Problem> {
    let system = options.root.as_ref().map_or_else(System::live, System::at);
    let gpus = match &options.lspci {
        Some(path) => GpuSource::Lspci(read_text(path)?),
        None => GpuSource::Bus,
    };
    let look = Look { prefix: options.prefix.clone(), cache: options.cache.clone(), gpus };
    let mut facts = probe(&system, database, &look).map_err(|e| Problem::usage(e.to_string()))?;
    if let Some(locked) = ask {
        add_offers(&system, &mut facts, database, locked);
    }
    // A tree or a listing is a description: its GPUs are replaced. On this host they are there, whatever else is assumed.
    if options.root.is_some() || options.lspci.is_some() {
        replace_gpus(&mut facts, options);
    }
    assume_gpus(&mut facts, options, database)?;
    Ok((facts.visible(), options.gpu.clone()))
}

/// The facts in a file, with the GPUs that `--gpu` names instead of those in it.
pub fn described(path: &Path, options: &HostOptions, database: &Database) -> Result<(Facts, Vec<String>), Problem> {
    let mut facts = super::plan::read_facts(path)?;
    replace_gpus(&mut facts, options);
    assume_gpus(&mut facts, options, database)?;
    Ok((facts, options.gpu.clone()))
}

/// Removes the host's own GPUs, and what was seen of them, if `--gpu` names others.
fn replace_gpus(facts: &mut Facts, options: &HostOptions) {
    if !options.gpu.is_empty() {
        facts.gpus.clear();
        facts.nvswitches.clear();
        facts.unreadable.retain(|u| u.missing.is_none());
    }
}

fn assume_gpus(facts: &mut Facts, options: &HostOptions, database: &Database) -> Result<(), Problem> {
    for spec in &options.gpu {
        let more = assumed_gpus(database, spec).map_err(|e| no_such_gpu(spec, &e))?;
        for mut gpu in more {
            let count = facts.gpus.iter().filter(|g| g.assumed).count();
            gpu.address = format!("assumed:{count}");
            facts.gpus.push(gpu);
        }
    }
    Ok(())
}

/// Adds what the host's repositories offer to its facts, or why that is not known.
pub fn add_offers(system: &System, facts: &mut Facts, database: &Database, locked: &Versions) {
    match offered(system, facts, database, locked) {
        Ok(versions) => facts.offered = versions,
        Err(why) => facts.unreadable.push(why),
    }
}

/// What a GPU that cannot be told from others, or is not known, comes to.
pub fn no_such_gpu(spec: &str, e: &SpecError) -> Problem {
    let problem = Problem::usage(format!("--gpu {spec}: {e}"));
    match e {
        SpecError::Unknown { .. } => Problem { code: 4, ..problem },
        SpecError::Malformed { .. } | SpecError::Ambiguous { .. } => problem,
    }
}

/// A file's text, or that of standard input for `-`.
pub fn read_text(path: &Path) -> Result<String, Problem> {
    input::text_or_standard_input(path, input::MOST_TEXT).map_err(|e| match e {
        InputError::Kind { kind: "a pipe", .. } => {
            Problem::usage(e.to_string()).hint("COMMAND | gpusetup …, with - in place of the file")
        }
        e => e.into(),
    })
}
