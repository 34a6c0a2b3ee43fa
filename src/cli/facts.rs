//! `gpusetup facts`: what this host is.

use super::Problem;
use super::explain::language::wanted;
use super::host::{look, look_with_offers, system};
use super::options::{HostOptions, IfNoGpu, LanguageOptions, LookOptions};
use crate::cluster::{self, MigStrategy, Node};
use crate::compat::Database;
use crate::exit::Exit;
use crate::gpus::{guide, read, report, why_silent};
use crate::host::{Facts, MachineKind};
use crate::ids::CheckId;
use crate::nvidia::{Answer, GpuTable, Refused, codes};
use crate::render;
use crate::render::gpus::GpuStyle;
use crate::system::System;
use clap::ValueEnum;
use gpusetup_data::subjects;

/// Flags of `facts`.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Ask the driver about the GPUs instead: temperature, power, memory, processes, errors, links,
    /// each judged
    ///
    /// With -v it prints everything that each GPU reports, and what the words mean. It changes
    /// nothing and needs no root.
    #[arg(long, env = "GPUSETUP_GPUS", conflicts_with_all = ["gpu", "lspci"])]
    gpus: bool,
    /// Output format
    #[arg(long, value_enum, default_value = "text", conflicts_with_all = ["json", "gpus"])]
    format: Format,
    /// With --format labels: how MIG devices are offered to pods, as NVIDIA's device plugin is
    /// configured
    #[arg(
        long,
        value_enum,
        env = "GPUSETUP_MIG_STRATEGY",
        default_value = "none"
    )]
    mig_strategy: MigStrategy,
    /// What to do when no NVIDIA GPU is found
    #[arg(long, value_enum, env = "GPUSETUP_IF_NO_GPU", default_value = "fail")]
    if_no_gpu: IfNoGpu,
    #[command(flatten)]
    host: HostOptions,
    #[command(flatten)]
    language: LanguageOptions,
    #[command(flatten)]
    look: LookOptions,
}

/// Forms of the facts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Text
    Text,
    /// One JSON object
    Json,
    /// Labels of a Kubernetes node, as NVIDIA's GPU Feature Discovery sets them
    Labels,
    /// Slurm's gres.conf
    Gres,
    /// Gauges for the node exporter's textfile collector
    NodeExporter,
}

impl Options {
    /// Whether this is only that the host has no GPU, which `--if-no-gpu skip` accepts.
    fn accepts(&self, problem: &Problem) -> bool {
        problem.exit == Exit::NoGpu && self.if_no_gpu == IfNoGpu::Skip
    }
}

/// Prints the facts.
pub(crate) fn run(options: &Options) -> Result<Exit, Problem> {
    match print(options) {
        Err(problem) if options.accepts(&problem) => {
            super::say("this host has no NVIDIA GPU: nothing to print (--if-no-gpu skip)");
            Ok(Exit::Done)
        }
        ended => ended,
    }
}

fn print(options: &Options) -> Result<Exit, Problem> {
    let database = options.host.database()?;
    if options.gpus {
        let (facts, _) = look(&options.host, database)?;
        return gpus(options, &system(&options.host), &facts);
    }
    match options.format {
        Format::Text | Format::Json => {
            let facts = look_with_offers(&options.host, database)?;
            match options.look.json || options.format == Format::Json {
                true => super::print_json(&facts)?,
                false => super::print(&render::facts::text(&facts, database, super::width()))?,
            }
        }
        Format::Labels => labels(options, database)?,
        Format::Gres => gres(options, database)?,
        Format::NodeExporter => {
            let (facts, _) = look(&options.host, database)?;
            super::print(&render::prometheus::facts(&facts))?;
        }
    }
    Ok(Exit::Done)
}

/// Prints the labels of a Kubernetes node. Without an answer of the driver they are those that the
/// database gives.
fn labels(options: &Options, database: &Database) -> Result<(), Problem> {
    let (facts, _) = look(&options.host, database)?;
    let system = system(&options.host);
    if facts.gpus.is_empty()
        && !matches!(facts.machine.kind, MachineKind::Wsl2 | MachineKind::Jetson)
    {
        let problem = Problem::new(
            Exit::NoGpu,
            "a node without an NVIDIA GPU has no labels of one",
        );
        return Err(problem.attempt("gpusetup facts"));
    }
    let is_described = !options.host.gpu.is_empty() || options.host.lspci.is_some();
    let silent = match is_described {
        true => Some("the GPUs are described".to_owned()),
        false => why_silent(&system, &facts),
    };
    let answer = silent.map_or_else(
        || gpu_table(&system, &facts, "--format labels").map_err(|problem| problem.message),
        Err,
    );
    let table = answer
        .map_err(|why| {
            super::say(&format!(
                "the driver was not asked ({why}): names are the database's; memory, MIG devices and the NVLink domain are left out"
            ));
        })
        .ok();
    for gpu in facts
        .gpus
        .iter()
        .filter(|gpu| table.is_none() && gpu.name.is_none())
    {
        let id = &gpu.pci_id;
        super::say(&format!(
            "the database does not know the GPU {id}: its model is not among the labels"
        ));
    }
    let several_products = facts
        .gpus
        .iter()
        .find(|gpu| gpu.name.is_some() && !cluster::is_product(gpu));
    if let (None, Some(gpu)) = (&table, several_products) {
        let name = gpu.name.as_deref().unwrap_or(&gpu.pci_id);
        super::say(&format!(
            "nvidia.com/gpu.product is left out: \"{name}\" is not one product; a PCI id with its subsystem names one: --gpu \
             10de:20b2:10de:1463"
        ));
    }
    let machine = system.read_text(MACHINE).ok().flatten();
    let node = Node {
        facts: &facts,
        table: table.as_ref(),
        machine: machine.as_deref().map(str::trim),
    };
    if let Some(model) = node.model_of_several() {
        super::say(&format!(
            "the GPUs are of several models: the labels nvidia.com/gpu.* describe those of one, {model}"
        ));
    }
    let labels = cluster::labels(&node, database, options.mig_strategy);
    super::print(
        &labels
            .iter()
            .map(|(name, value)| format!("{name}={value}\n"))
            .collect::<String>(),
    )
}

/// Prints gres.conf, with what slurm.conf has to say of the same GPUs as comments.
fn gres(options: &Options, database: &Database) -> Result<(), Problem> {
    let (facts, _) = look(&options.host, database)?;
    let system = system(&options.host);
    let table = gpu_table(&system, &facts, "--format gres")?;
    let lines = cluster::gres(&system, &table).map_err(|why| {
        Problem::new(Exit::Blocked, format!("gres.conf cannot be written: {why}")).attempt(doctor())
    })?;
    super::print(&render::gres::text(&lines))
}

/// The name of the machine in its firmware, which GPU Feature Discovery reads, too.
const MACHINE: &str = "/sys/class/dmi/id/product_name";

/// Prints what the driver reports about the GPUs.
fn gpus(options: &Options, system: &System, facts: &Facts) -> Result<Exit, Problem> {
    let table = match gpu_table(system, facts, "--gpus") {
        // JSON has no GPUs then.
        Err(problem) if options.look.json && options.accepts(&problem) => GpuTable::default(),
        answer => answer?,
    };
    let report = report(system, table);
    if options.look.json {
        super::print_json(&report)?;
        return Ok(Exit::Done);
    }
    let guide = guide();
    let terms = options.look.verbose.then(|| {
        let (language, mut terms) = (wanted(&options.language), subjects());
        terms
            .iter_mut()
            .for_each(|term| language.translate_subject(term));
        terms
    });
    let paint = super::paint(options.look.color);
    let look = GpuStyle {
        width: super::width(),
        paint,
        guide: &guide,
        terms: terms.as_deref(),
    };
    super::print(&render::gpus::text(&report, look))?;
    Ok(Exit::Done)
}

/// NVML's answers, or why there are none and what helps. `option` is what asks for them.
fn gpu_table(system: &System, facts: &Facts, option: &str) -> Result<GpuTable, Problem> {
    if let Some(why) = why_silent(system, facts) {
        return Err(silent(system, facts, &why, option));
    }
    match read(facts) {
        Answer::Is(GpuTable {
            refused: Some(refused),
            ..
        }) => Err(refused_by(&refused)),
        Answer::Is(table) => Ok(table),
        Answer::Failed(why) => Err(Problem::new(
            Exit::Blocked,
            format!("the driver does not answer: {why}"),
        )
        .attempt(doctor())),
        Answer::NotAsked(why) => Err(Problem::unexpected(format!(
            "the driver was not asked: {why}"
        ))),
    }
}

fn silent(system: &System, facts: &Facts, why: &str, option: &str) -> Problem {
    if !system.is_live() {
        let problem = Problem::usage(format!("{option} asks the running driver: {why}"));
        return problem.attempt(format!(
            "gpusetup facts {option}  # on the machine that runs this tree"
        ));
    }
    if facts.gpus.is_empty()
        && !matches!(facts.machine.kind, MachineKind::Wsl2 | MachineKind::Jetson)
    {
        let problem = Problem::new(
            Exit::NoGpu,
            "this host has no NVIDIA GPU whose driver could be asked",
        );
        return Problem {
            because: vec![why.to_owned()],
            ..problem.attempt("lspci -nn -d 10de:")
        };
    }
    let helps = if facts.driver.is_some() {
        "sudo modprobe nvidia"
    } else {
        "gpusetup plan"
    };
    Problem::new(Exit::Blocked, format!("the GPUs cannot be asked: {why}")).attempt(helps)
}

/// Finds out why the driver does not answer.
fn doctor() -> String {
    format!("gpusetup doctor {} {}", CheckId::GS508, CheckId::GS903)
}

fn refused_by(refused: &Refused) -> Problem {
    let (what, helps) = match refused.code {
        None => (
            "the library libnvidia-ml.so.1 is missing or incomplete",
            doctor(),
        ),
        Some(codes::NO_PERMISSION) => (
            "this user has no access to the driver",
            "ls -l /dev/nvidia*".to_owned(),
        ),
        Some(codes::NOT_LOADED) => (
            "the driver is not loaded",
            "sudo modprobe nvidia".to_owned(),
        ),
        Some(codes::OTHER_VERSION) => (
            "the driver was updated, and the old one is still loaded",
            "sudo reboot".to_owned(),
        ),
        Some(_) => ("NVML does not start", doctor()),
    };
    let problem =
        Problem::new(Exit::Blocked, format!("the GPUs cannot be asked: {what}")).attempt(helps);
    Problem {
        because: vec![refused.to_string()],
        ..problem
    }
}
