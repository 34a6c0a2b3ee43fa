//! `gpusetup mig apply`: carries out a plan that partitions GPUs.

use super::super::Problem;
use super::super::options::{ColorOption, LookOptions, RunOptions};
use super::super::run::{Ended, agreed, begin, propose, tell_result_of, writing_on};
use super::super::say;
use super::boards::{HereOptions, facts};
use super::wanted::{Task, Tasks, WantedOptions};
use crate::apply;
use crate::compat::Database;
use crate::exit::Exit;
use crate::host::{Holder, holders};
use crate::mig::{Wanted, described, exported, needed, removed};
use crate::nvidia::MigPlace;
use crate::plan::{GpuPartition, Plan, partition};
use crate::render::progress::ProgressPrinter;
use crate::resolve::Request;
use crate::system::{Program, System};
use std::collections::BTreeSet;

/// Flags of `mig apply`.
#[derive(Debug, clap::Args)]
pub struct Options {
    #[command(flatten)]
    wanted: WantedOptions,
    #[command(flatten)]
    here: HereOptions,
    /// Stop the services that use the GPUs, and start them again afterwards
    ///
    /// A GPU that is in use does not change its mode, and does not remove instances. Other programs are named and never stopped.
    #[arg(long, help_heading = "Run")]
    stop_services: bool,
    /// Restore this layout at every boot, too
    ///
    /// GPU instances do not survive a reboot, and from Hopper on neither does the MIG mode. The layout of all GPUs is written to
    /// /etc/gpusetup/mig.yaml, which the unit gpusetup-mig.service applies.
    #[arg(long, help_heading = "Run")]
    at_boot: bool,
    #[command(flatten)]
    run: RunOptions,
    /// Print one JSON object and nothing else on standard output
    #[arg(long, env = "GPUSETUP_JSON", help_heading = "Output")]
    json: bool,
}

/// Partitions the GPUs.
pub fn run(options: &Options) -> Result<Exit, Problem> {
    let database = options.here.database.open()?;
    let look = LookOptions { json: options.json, color: ColorOption::Auto, verbose: false };
    let ended = writing_on(options.here.system(), &options.run, false, |system, account| {
        let mut teller = ProgressPrinter::new(options.run.bars(), !options.json);
        apply::recover(system, &mut |news| teller.tell(news))?;
        let unfinished = apply::unfinished(system)?;
        if unfinished.is_some_and(|unfinished| !unfinished.only_partitions()) {
            let sentence = "an earlier apply is not finished, and partitioning the GPUs would end it";
            return Err(Problem::new(Exit::Blocked, sentence).attempt("sudo gpusetup resume"));
        }
        let tasks = options.wanted.tasks(options.here.reported(database)?, &[])?;
        tasks.left_out.iter().for_each(|text| say(text));
        let (plan, units) = plan(options, system, database, &tasks)?;
        if plan.steps.is_empty() {
            teller.end("Nothing to do: the GPUs have this layout.");
            return Ok(Ended::Untouched);
        }
        if !options.run.asks_nothing() {
            propose(&plan, &look)?;
            if !agreed("Partition the GPUs?")? {
                say("nothing was changed");
                return Ok(Ended::Untouched);
            }
        }
        account.plan(&plan);
        let ended = begin(&plan, &options.run, options.run.config(Default::default()), system, account, &mut teller);
        if ended.is_err() {
            // Who repeats it would find them stopped, and leave them so.
            units.iter().for_each(|unit| start(system, unit));
        }
        ended
    });
    if options.json && ended.is_ok() {
        tell_result_of(&options.here.system())?;
    }
    ended
}

/// Starts a unit that was stopped.
fn start(system: &System, unit: &str) {
    let started = system.run(&Program::new(["systemctl", "start", unit]).undisturbed());
    if !started.is_ok_and(|output| output.succeeded()) {
        say(&format!("{unit} could not be started again: sudo systemctl start {unit}"));
    }
}

/// What is to be done, and the units that stop meanwhile. Without a change it has no steps.
fn plan(
    options: &Options,
    system: &System,
    database: &Database,
    tasks: &Tasks,
) -> Result<(Plan, Vec<String>), Problem> {
    let gpus = tasks.all.iter().map(of_task).collect::<Result<Vec<_>, _>>()?;
    let gpus: Vec<_> = gpus.into_iter().flatten().collect();
    let units = if gpus.is_empty() { Vec::new() } else { units_to_stop(options, system, database, tasks)? };
    let at_boot = if options.at_boot { Some(layouts(options, database, tasks)?) } else { None };
    let today = jiff::Timestamp::now().strftime("%Y-%m-%d").to_string();
    let plan = partition(database, facts(system, database)?, Request::no_wishes(today), &gpus, &units, at_boot);
    Ok((plan, units))
}

/// The layouts of all GPUs as a file, as they will be.
fn layouts(options: &Options, database: &Database, tasks: &Tasks) -> Result<String, Problem> {
    let all = options.here.every(database)?;
    let wanted = tasks.all.iter().map(|task| (task.board.index, &task.wanted)).collect();
    let host = exported("boot", &all, &wanted)
        .map_err(|board| Problem::unexpected(format!("{board} has an instance of an unknown profile")))?;
    Ok(format!("# Written by gpusetup mig apply --at-boot.\n{}", host.file))
}

/// What is to become of a GPU. None if nothing changes.
fn of_task(task: &Task) -> Result<Option<GpuPartition>, Problem> {
    let Task { board, geometry, wanted } = task;
    let (Some(gpu), Some(state)) = (&board.address, &board.state) else {
        return Err(Problem::new(Exit::Blocked, format!("the driver does not report the state of {}", board.shown())));
    };
    let partition = |mode, instances| GpuPartition { gpu: gpu.clone(), name: board.name.clone(), mode, instances };
    let mode = |on| (!board.has_mode(on)).then_some(on);
    match wanted {
        Wanted::Off if board.has_mode(false) => Ok(None),
        Wanted::Off => Ok(Some(partition(Some(false), (!state.instances.is_empty()).then(Vec::new)))),
        Wanted::Layout(layout) => {
            let change = needed(board, geometry, layout)
                .map_err(|_| Problem::unexpected("a layout that fits could not be placed"))?;
            if board.has_mode(true) && change.is_empty() && removed(board, &change).is_empty() {
                return Ok(None);
            }
            let placed: Vec<_> = change.keep.iter().chain(&change.create).copied().collect();
            let mut places: Vec<_> = { described(geometry, &placed).into_iter() }
                .map(|i| MigPlace {
                    start: i.start.into(),
                    size: i.size.into(),
                    profile: i.profile,
                    id: i.id,
                    incomplete: false,
                })
                .collect();
            places.sort_unstable();
            Ok(Some(partition(mode(true), Some(places))))
        }
    }
}

/// The running services that use the GPUs, if they may be stopped. A GPU whose mode changes must not be in use.
fn units_to_stop(
    options: &Options,
    system: &System,
    database: &Database,
    tasks: &Tasks,
) -> Result<Vec<String>, Problem> {
    let is_active = |unit: &str| {
        let asked = system.run(&Program::new(["systemctl", "is-active", unit]).undisturbed());
        asked.is_ok_and(|output| output.succeeded())
    };
    let units: Vec<_> =
        { database.mig_clients.iter() }.map(|c| c.unit.clone()).filter(|unit| is_active(unit)).collect();
    let changes_mode = |task: &&Task| !task.board.has_mode(matches!(task.wanted, Wanted::Layout(_)));
    let changing: Vec<_> = tasks.all.iter().filter(changes_mode).collect();
    let must_be_idle = changing.iter().any(|task| task.board.must_be_idle(database));
    let of_tasks = |tasks: &[&Task]| -> BTreeSet<u32> {
        tasks.iter().filter_map(|t| t.board.state.as_ref()).flat_map(|state| state.processes.clone()).collect()
    };
    let others: Vec<Holder> = { holders(system).into_iter() }
        .filter(|holder| holder.unit.as_ref().is_none_or(|unit| !units.contains(unit)))
        .collect();
    let among = |processes: &BTreeSet<u32>| -> Vec<String> {
        let chosen = others.iter().filter(|holder| processes.contains(&holder.process));
        chosen.map(ToString::to_string).collect()
    };
    let blocking: Vec<String> = match must_be_idle {
        true => others.iter().map(ToString::to_string).collect(),
        false => among(&of_tasks(&changing)),
    };
    if !changing.is_empty() && !blocking.is_empty() {
        return Err(Problem::new(Exit::Blocked, format!("programs use the GPUs: {}", blocking.join(", ")))
            .hint("a GPU that is in use does not change its MIG mode; end them first"));
    }
    let computing = among(&of_tasks(&tasks.all.iter().collect::<Vec<_>>()));
    if !computing.is_empty() {
        let names = computing.join(", ");
        say(&format!("these programs compute on the GPUs; instances that they use cannot be removed: {names}"));
    }
    if must_be_idle && !units.is_empty() && !options.stop_services {
        return Err(Problem::new(Exit::Blocked, format!("services use the GPUs: {}", units.join(", ")))
            .hint("a GPU that is in use does not change its MIG mode")
            .hint("add --stop-services: gpusetup stops them, and starts them again afterwards"));
    }
    Ok(if options.stop_services { units } else { Vec::new() })
}
