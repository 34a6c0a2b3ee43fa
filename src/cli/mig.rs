//! `gpusetup mig`: how GPUs are partitioned into instances.

mod apply;
mod boards;
mod clients;
mod restore;
mod wanted;

use super::locale::speaks_unicode;
use super::options::{ColorOption, JsonOption};
use super::{Problem, print, print_text, say, width};
use crate::exit::Exit;
use crate::mig::{PlannedHost, asserted, exported, listed, planned};
use crate::render::mig::{self as rendered, Canvas};
use crate::system::output;
use boards::{BoardOptions, HereOptions};
use std::path::PathBuf;
use wanted::{Tasks, WantedOptions};

/// What `mig` does.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// List the profiles and instances of the GPUs
    List(ListOptions),
    /// Show where the instances of a layout go and the commands that make them; change nothing
    Plan(PlanOptions),
    /// Give the GPUs a layout: keep instances that it has too, remove and create the others
    Apply(apply::Options),
    /// Give the GPUs the layouts that `mig apply --at-boot` wrote, as every boot does
    Restore(restore::Options),
    /// Exit 0 if the GPUs have a layout, 3 if not
    Assert(AssertOptions),
    /// Print the layout of the GPUs as a file that `mig plan` and nvidia-mig-parted read
    Export(ExportOptions),
}

/// Flags of `mig list`.
#[derive(Debug, clap::Args)]
pub(crate) struct ListOptions {
    #[command(flatten)]
    which: BoardOptions,
    #[command(flatten)]
    form: JsonOption,
}

/// Flags of `mig plan`.
#[derive(Debug, clap::Args)]
pub(crate) struct PlanOptions {
    #[command(flatten)]
    wanted: WantedOptions,
    #[command(flatten)]
    which: BoardOptions,
    /// Also write the picture to FILE, as SVG
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    svg: Option<PathBuf>,
    #[command(flatten)]
    form: JsonOption,
}

/// Flags of `mig assert`.
#[derive(Debug, clap::Args)]
pub(crate) struct AssertOptions {
    #[command(flatten)]
    wanted: WantedOptions,
    #[command(flatten)]
    which: HereOptions,
    #[command(flatten)]
    form: JsonOption,
}

/// Flags of `mig export`.
#[derive(Debug, clap::Args)]
pub(crate) struct ExportOptions {
    /// The name of the configuration
    #[arg(short = 'c', long, value_name = "NAME", default_value = "current")]
    name: String,
    #[command(flatten)]
    which: HereOptions,
    #[command(flatten)]
    form: JsonOption,
}

/// Runs `gpusetup mig`.
pub(crate) fn run(command: &Command) -> Result<Exit, Problem> {
    match command {
        Command::List(options) => list(options),
        Command::Plan(options) => plan(options),
        Command::Apply(options) => apply::run(options),
        Command::Restore(options) => restore::run(options),
        Command::Assert(options) => assert(options),
        Command::Export(options) => export(options),
    }
}

fn canvas() -> Canvas {
    Canvas {
        width: width(),
        unicode: speaks_unicode(),
    }
}

fn print_for_people(text: String) -> Result<(), Problem> {
    print_text(text, ColorOption::Auto, false)
}

fn list(options: &ListOptions) -> Result<Exit, Problem> {
    let database = options.which.here.database.open()?;
    let boards = options.which.boards(database)?;
    boards.tell();
    let host = listed(&boards.all);
    if options.form.json {
        super::print_json(&host)?
    } else {
        print_for_people(rendered::list(&host, canvas()))?
    }
    Ok(Exit::Done)
}

fn plan(options: &PlanOptions) -> Result<Exit, Problem> {
    let database = options.which.here.database.open()?;
    let boards = options.which.boards(database)?;
    boards.tell();
    let tasks = options.wanted.tasks(boards.all, &options.which.gpu)?;
    let host = planned_host(&tasks)?;
    if let Some(path) = &options.svg {
        output::write(path, rendered::svg(&host).as_bytes())
            .map_err(|e| Problem::unexpected(format!("cannot write {}: {e}", path.display())))?;
    }
    if options.form.json {
        super::print_json(&host)?
    } else {
        print_for_people(rendered::plan(&host, canvas()))?
    }
    Ok(Exit::Done)
}

/// What would become of the GPUs; those that are left out are named.
fn planned_host(tasks: &Tasks) -> Result<PlannedHost, Problem> {
    tasks.left_out.iter().for_each(|text| say(text));
    let gpus = tasks.all.iter().map(|task| {
        planned(&task.board, &task.geometry, &task.wanted)
            .map_err(|_| Problem::unexpected("a layout that fits could not be placed"))
    });
    Ok(PlannedHost {
        schema: "gpusetup.mig-plan/1",
        gpus: gpus.collect::<Result<_, _>>()?,
    })
}

fn assert(options: &AssertOptions) -> Result<Exit, Problem> {
    let database = options.which.database.open()?;
    let tasks = options
        .wanted
        .tasks(options.which.reported(database)?, &[])?;
    tasks.left_out.iter().for_each(|text| say(text));
    let host = asserted(
        tasks
            .all
            .iter()
            .map(|task| (&task.board, &task.geometry, &task.wanted)),
    );
    if options.form.json {
        super::print_json(&host)?
    } else {
        print_for_people(rendered::assertion(&host, canvas()))?
    }
    Ok(if host.holds {
        Exit::Done
    } else {
        Exit::Pending
    })
}

fn export(options: &ExportOptions) -> Result<Exit, Problem> {
    let database = options.which.database.open()?;
    let host = exported(&options.name, &options.which.reported(database)?)
        .map_err(|e| Problem::unexpected(e.to_string()))?;
    if options.form.json {
        super::print_json(&host)?
    } else {
        print(&host.file)?
    }
    Ok(Exit::Done)
}
