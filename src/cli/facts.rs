//! `gpusetup facts`: what this host is.

use super::Problem;
use super::explain::language::wanted;
use super::host::{look, look_with_offers, system};
use super::options::{HostOptions, LanguageOptions, LookOptions};
use crate::exit::Exit;
use crate::gpus::{guide, read, report, why_silent};
use crate::host::{Facts, MachineKind};
use crate::ids::CheckId;
use crate::nvidia::{Answer, GpuTable, Refused, codes};
use crate::recognise::subjects;
use crate::render;
use crate::render::gpus::Look;
use crate::system::System;

/// Flags of `facts`.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Ask the driver about the GPUs instead: temperature, power, memory, processes, errors, links, each judged
    ///
    /// With -v it prints everything that each GPU reports, and what the words mean. It changes nothing and needs no root.
    #[arg(long, env = "GPUSETUP_GPUS", conflicts_with_all = ["gpu", "lspci"])]
    gpus: bool,
    #[command(flatten)]
    host: HostOptions,
    #[command(flatten)]
    language: LanguageOptions,
    #[command(flatten)]
    look: LookOptions,
}

/// Prints the facts.
pub fn run(options: &Options) -> Result<Exit, Problem> {
    let database = options.host.database()?;
    if options.gpus {
        let (facts, _) = look(&options.host, database)?;
        return gpus(options, &system(&options.host), &facts);
    }
    let facts = look_with_offers(&options.host, database)?;
    if options.look.json {
        super::print_json(&facts)?;
    } else {
        super::print(&render::facts::text(&facts, database, super::width()))?;
    }
    Ok(Exit::Done)
}

/// Prints what the driver reports about the GPUs.
fn gpus(options: &Options, system: &System, facts: &Facts) -> Result<Exit, Problem> {
    let table = told(system, facts)?;
    let report = report(system, table);
    if options.look.json {
        super::print_json(&report)?;
        return Ok(Exit::Done);
    }
    let guide = guide();
    let terms = options.look.verbose.then(|| {
        let (language, mut terms) = (wanted(&options.language), subjects());
        terms.iter_mut().for_each(|term| language.translate_subject(term));
        terms
    });
    let paint = super::paint(options.look.color);
    let look = Look { width: super::width(), paint, guide: &guide, terms: terms.as_deref() };
    super::print(&render::gpus::text(&report, look))?;
    Ok(Exit::Done)
}

/// NVML's answers, or why there are none and what helps.
fn told(system: &System, facts: &Facts) -> Result<GpuTable, Problem> {
    if let Some(why) = why_silent(system, facts) {
        return Err(silent(system, facts, &why));
    }
    match read(facts) {
        Answer::Is(GpuTable { refused: Some(refused), .. }) => Err(refused_by(&refused)),
        Answer::Is(table) => Ok(table),
        Answer::Failed(why) => {
            Err(Problem::new(Exit::Blocked, format!("the driver does not answer: {why}")).attempt(doctor()))
        }
        Answer::NotAsked(why) => Err(Problem::unexpected(format!("the driver was not asked: {why}"))),
    }
}

fn silent(system: &System, facts: &Facts, why: &str) -> Problem {
    if !system.is_live() {
        return Problem::usage(format!("--gpus asks the running driver: {why}")).attempt("gpusetup facts --gpus");
    }
    if facts.gpus.is_empty() && !matches!(facts.machine.kind, MachineKind::Wsl2 | MachineKind::Jetson) {
        let problem = Problem::new(Exit::NoGpu, "this host has no NVIDIA GPU whose driver could be asked");
        return Problem { because: vec![why.to_owned()], ..problem.attempt("lspci -nn -d 10de:") };
    }
    let helps = if facts.driver.is_some() { "sudo modprobe nvidia" } else { "gpusetup plan" };
    Problem::new(Exit::Blocked, format!("the GPUs cannot be asked: {why}")).attempt(helps)
}

/// Finds out why the driver does not answer.
fn doctor() -> String {
    format!("gpusetup doctor {} {}", CheckId::GS508, CheckId::GS903)
}

fn refused_by(refused: &Refused) -> Problem {
    let (what, helps) = match refused.code {
        None => ("the library libnvidia-ml.so.1 is missing or incomplete", doctor()),
        Some(codes::NO_PERMISSION) => ("this user has no access to the driver", "ls -l /dev/nvidia*".to_owned()),
        Some(codes::NOT_LOADED) => ("the driver is not loaded", "sudo modprobe nvidia".to_owned()),
        Some(codes::OTHER_VERSION) => {
            ("the driver was updated, and the old one is still loaded", "sudo reboot".to_owned())
        }
        Some(_) => ("NVML does not start", doctor()),
    };
    let problem = Problem::new(Exit::Blocked, format!("the GPUs cannot be asked: {what}")).attempt(helps);
    Problem { because: vec![refused.to_string()], ..problem }
}
