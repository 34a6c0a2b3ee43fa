//! `gpusetup mig apply`: carries out a plan that partitions GPUs.

use super::super::options::{ColorOption, LookOptions, RunOptions};
use super::super::run::{RunEnd, agreed, begin, propose, tell_result_of, writing_on};
use super::super::{Problem, say};
use super::boards::{HereOptions, facts};
use super::clients;
use super::wanted::{Task, Tasks, WantedOptions};
use crate::apply::{self, RollbackScope};
use crate::compat::Database;
use crate::exit::Exit;
use crate::mig::at_boot;
use crate::paths::MIG_LAYOUT;
use crate::plan::{GpuPartition, MigAtBoot, MigUnits, Plan, partition, partition_of};
use crate::planning::boot_program;
use crate::render::progress::ProgressPrinter;
use crate::resolve::Request;
use crate::system::System;

/// Flags of `mig apply`.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    wanted: WantedOptions,
    #[command(flatten)]
    here: HereOptions,
    /// Stop the services that use the GPUs, and start them again afterwards
    ///
    /// A GPU that is in use does not change its mode, and does not remove instances. Other programs
    /// are named and never stopped.
    #[arg(long, help_heading = "Run")]
    stop_services: bool,
    /// Restore this layout at every boot, too
    ///
    /// GPU instances do not survive a reboot, and from Hopper on neither does the MIG mode. The
    /// layout of all GPUs is written to /etc/gpusetup/mig.yaml, which the unit gpusetup-mig.service
    /// restores.
    #[arg(long, help_heading = "Run")]
    at_boot: bool,
    #[command(flatten)]
    run: RunOptions,
    /// Print one JSON object and nothing else on standard output
    #[arg(long, env = "GPUSETUP_JSON", help_heading = "Output")]
    json: bool,
}

/// Partitions the GPUs.
pub(crate) fn run(options: &Options) -> Result<Exit, Problem> {
    let database = options.here.database.open()?;
    let look = LookOptions {
        json: options.json,
        color: ColorOption::Auto,
        verbose: false,
    };
    let ended = writing_on(
        options.here.system(),
        &options.run,
        false,
        |system, account| {
            let mut teller = ProgressPrinter::new(options.run.bars(), !options.json);
            apply::recover(system, &mut |news| teller.tell(news))?;
            let unfinished = apply::unfinished(system)?;
            if unfinished.is_some_and(|unfinished| !unfinished.only_partitions()) {
                let sentence =
                    "an earlier apply is not finished, and partitioning the GPUs would end it";
                return Err(Problem::new(Exit::Blocked, sentence).attempt("sudo gpusetup resume"));
            }
            let tasks = options
                .wanted
                .tasks(options.here.reported(database)?, &[])?;
            tasks.left_out.iter().for_each(|text| say(text));
            let (plan, units) = plan(options, system, database, &tasks)?;
            if !options.at_boot && system.exists(MIG_LAYOUT) {
                say(&format!(
                    "boots restore the layouts of {MIG_LAYOUT}; --at-boot replaces them by this one"
                ));
            }
            if plan.steps.is_empty() {
                teller.end("Nothing to do: the GPUs have this layout.");
                return Ok(RunEnd::Untouched);
            }
            if !options.run.asks_nothing() {
                propose(&plan, &look)?;
                if !agreed("Partition the GPUs?")? {
                    say("nothing was changed");
                    return Ok(RunEnd::Untouched);
                }
            }
            account.plan(&plan);
            let config = options.run.config(Default::default());
            begin(
                database,
                &plan,
                &options.run,
                config,
                system,
                account,
                &mut teller,
            )
            .map_err(|problem| undone(options, system, database, &units, problem, &mut teller))
        },
    );
    if options.json && ended.is_ok() {
        tell_result_of(&options.here.system())?;
    }
    ended
}

/// Gives the GPUs back what they had before a run that failed. A mode that waits for a reset of the
/// GPU is left: the run is resumed after it, as is one that was interrupted.
fn undone(
    options: &Options,
    system: &System,
    database: &Database,
    units: &MigUnits,
    problem: Problem,
    teller: &mut ProgressPrinter,
) -> Problem {
    // One that was refused before its first change is no run: the last one is another.
    if !apply::unfinished(system).is_ok_and(|open| open.is_some_and(|open| open.only_partitions()))
    {
        return problem;
    }
    let boards = options.here.every(database).unwrap_or_default();
    let waits = boards.iter().any(|board| {
        board
            .state
            .as_ref()
            .is_some_and(|s| s.mode.enabled != s.mode.pending)
    });
    if waits || matches!(problem.exit, Exit::Signal(_)) {
        // Who repeats it would find them stopped, and leave them so.
        clients::start(system, &units.paused);
        let problem = if waits {
            problem.hint("reboot, then continue")
        } else {
            problem
        };
        return problem
            .attempt("sudo gpusetup resume")
            .attempt("sudo gpusetup rollback");
    }
    match apply::rollback(system, RollbackScope::Last, &mut |news| teller.tell(news)) {
        Ok(left) if left.is_empty() => {
            problem.hint("the GPUs have their previous modes and instances again")
        }
        Ok(left) => problem.hint(format!(
            "the run was undone, except for: {}",
            left.join(", ")
        )),
        Err(e) => {
            clients::start(system, &units.paused);
            problem
                .hint(format!("what was changed could not be undone: {e}"))
                .attempt("sudo gpusetup rollback")
        }
    }
}

/// What is to be done, and what happens to units meanwhile. Without a change it has no steps.
fn plan(
    options: &Options,
    system: &System,
    database: &Database,
    tasks: &Tasks,
) -> Result<(Plan, MigUnits), Problem> {
    let gpus = tasks
        .all
        .iter()
        .map(|task| of_task(task, database))
        .collect::<Result<Vec<_>, _>>()?;
    let gpus: Vec<_> = gpus.into_iter().flatten().collect();
    let units = match gpus.as_slice() {
        [] => MigUnits::default(),
        _ => clients::units(system, database, tasks, options.stop_services)?,
    };
    let at_boot = if options.at_boot {
        Some(layouts(options, system, database, tasks)?)
    } else {
        None
    };
    let today = crate::system::today();
    let request = Request::default_on(today);
    Ok((
        partition(
            database,
            facts(system, database)?,
            request,
            &gpus,
            &units,
            at_boot.as_ref(),
        ),
        units,
    ))
}

/// The layouts of all GPUs, as they will be, and the program that restores them.
fn layouts(
    options: &Options,
    system: &System,
    database: &Database,
    tasks: &Tasks,
) -> Result<MigAtBoot, Problem> {
    let all = options.here.every(database)?;
    let wanted = tasks
        .all
        .iter()
        .map(|task| (task.board.index, &task.wanted))
        .collect();
    let layouts = at_boot(&all, &wanted).map_err(|e| Problem::unexpected(e.to_string()))?;
    let layouts = format!("# Written by gpusetup mig apply --at-boot.\n{layouts}");
    Ok(MigAtBoot {
        layouts,
        program: boot_program::installed(system)?,
    })
}

/// What is to become of a GPU. None if nothing changes.
pub(crate) fn of_task(task: &Task, database: &Database) -> Result<Option<GpuPartition>, Problem> {
    let Task {
        board,
        geometry,
        wanted,
    } = task;
    match (&board.address, &board.state) {
        (Some(_), Some(_)) => Ok(partition_of(database, board, geometry, wanted)),
        _ => {
            let sentence = format!("the driver does not report the state of {}", board.shown());
            Err(Problem::new(Exit::Blocked, sentence))
        }
    }
}
