//! `gpusetup mig restore`: gives the GPUs the layouts that `mig apply --at-boot` wrote. Every boot
//! runs it. Instances do not survive a reboot, so there is nothing to undo, and it is not noted in
//! the journal.

use super::super::host::{must_be_a_host, only_root};
use super::super::options::JsonOption;
use super::super::{Problem, print, print_json, say};
use super::apply::of_task;
use super::boards::{HereOptions, every_of};
use super::clients::start;
use super::wanted::{LayoutSource, Task, Tasks, read};
use crate::apply::{Failure, Lock};
use crate::compat::Database;
use crate::exit::Exit;
use crate::mig::{RestoredGpu, RestoredHost};
use crate::operation::{Operation, Standing};
use crate::paths::MIG_LAYOUT;
use crate::plan::of_gpus;
use crate::planning::services::listers;
use crate::private;
use crate::system::{System, interrupt};
use std::path::Path;
use std::time::Duration;

/// How long another gpusetup is waited for.
const PATIENCE: Duration = Duration::from_secs(300);

/// Flags of `mig restore`.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    here: HereOptions,
    #[command(flatten)]
    form: JsonOption,
}

/// Restores the layouts. A GPU that is missing, or whose layout fails, does not keep the others
/// from theirs.
pub(crate) fn run(options: &Options) -> Result<Exit, Problem> {
    let database = options.here.database.open()?;
    let system = options.here.system();
    must_be_a_host(&system)?;
    only_root(&system)?;
    let text = system
        .read_text(MIG_LAYOUT)
        .map_err(|e| Problem::unexpected(format!("cannot read {MIG_LAYOUT}: {e}")))?;
    let Some(text) = text else {
        let sentence = format!("{MIG_LAYOUT} does not exist: no layout is restored at boot");
        return Err(Problem::new(Exit::Blocked, sentence)
            .attempt("sudo gpusetup mig apply --at-boot 7x1g.5gb"));
    };
    let _lock = Lock::take(&system, PATIENCE, &mut |_| {})?;
    private::own_directories(&system).map_err(Failure::from)?;
    interrupt::listen()
        .map_err(|e| Problem::unexpected(format!("cannot listen for signals: {e}")))?;
    let path = Path::new(MIG_LAYOUT);
    let file = read(path, &text)?;
    let (name, entries) = file
        .named(None)
        .map_err(|e| Problem::usage(format!("{MIG_LAYOUT}: {e}")))?;
    let source = LayoutSource {
        path,
        name,
        entries,
    };
    let every = every_of(&system, database)?;
    let mut failures = source.missing(&every);
    let mut gpus = Vec::new();
    for board in options.here.chosen(every)? {
        // One whose layout is not valid must not keep the others from theirs.
        let tasks = source.tasks(vec![board], &[]).unwrap_or_else(|problem| {
            failures.push(problem.message);
            Tasks::default()
        });
        tasks.left_out.iter().for_each(|text| say(text));
        for task in &tasks.all {
            let (index, name) = (task.board.index, task.board.name.clone());
            match restore(&system, task, database) {
                Ok(changed) => gpus.push(RestoredGpu {
                    index,
                    name,
                    changed,
                }),
                Err(why) => failures.push(format!("{}: {why}", task.board.shown())),
            }
        }
    }
    if gpus.iter().any(|gpu| gpu.changed) {
        start(&system, &listers(&system, database));
    }
    if let Some((first, more)) = failures.split_first() {
        let mut problem = Problem::new(Exit::StepFailed, first.clone())
            .hint(HELPS)
            .attempt("sudo gpusetup mig list");
        problem.because = more.to_vec();
        return Err(problem);
    }
    if options.form.json {
        print_json(&RestoredHost {
            schema: "gpusetup.mig-restore/1",
            gpus,
        })?;
    } else {
        print(&summary(gpus.iter().filter(|gpu| gpu.changed).count()))?;
    }
    Ok(Exit::Done)
}

fn summary(changed: usize) -> String {
    match changed {
        0 => "Nothing to do: the GPUs have these layouts.\n".to_owned(),
        1 => "1 GPU got its layout.\n".to_owned(),
        count => format!("{count} GPUs got their layouts.\n"),
    }
}

const HELPS: &str =
    "to give the GPUs other layouts at boot: sudo gpusetup mig apply --at-boot LAYOUT";

/// Gives a GPU its layout; false if it has it.
fn restore(system: &System, task: &Task, database: &Database) -> Result<bool, String> {
    task.fits(&[]).map_err(|problem| problem.message)?;
    let Some(gpu) = of_task(task, database).map_err(|problem| problem.message)? else {
        return Ok(false);
    };
    for operation in of_gpus(&[gpu]) {
        let Operation::Device(device) = &operation else {
            continue;
        };
        match operation.stands(system, false).map_err(|e| e.to_string())? {
            Standing::Satisfied => {}
            Standing::Needed => device.set(system).map_err(|e| e.to_string())?,
            Standing::Conflict(why) => return Err(why),
        }
    }
    Ok(true)
}
