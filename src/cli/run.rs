//! What the subcommands that change a host share: the lock, the question, the run and what is left
//! to say afterwards.

use super::host::{must_be_a_host, only_root, system, to_be_changed};
use super::options::{HostOptions, LookOptions, RebootOption, RunOptions};
use super::{Problem, say};
use crate::apply::result::{self, Ending, RunResult};
use crate::apply::{self, Account, Failure, Lock, News, RollbackScope, RunConfig, boot};
use crate::causes;
use crate::compat::Database;
use crate::exit::Exit;
use crate::paths::RESULT;
use crate::plan::{Plan, waiting_for};
use crate::private;
use crate::render;
use crate::render::progress::ProgressPrinter;
use crate::system::input::{self, InputError};
use crate::system::{System, interrupt};
use crate::text::quoted;
use std::io::IsTerminal;

/// How a run ended, when nothing went wrong.
pub(crate) enum RunEnd {
    With(Ending),
    /// The user said no, or there was nothing to do: what the last run came to stays to be read.
    Untouched,
}

/// What `status --json` and others print if nothing was ever applied.
#[derive(serde::Serialize)]
pub(crate) struct NothingApplied {
    schema: &'static str,
    state: &'static str,
}

impl NothingApplied {
    pub(crate) const ANSWER: Self = Self {
        schema: "gpusetup.status/1",
        state: "nothing-applied",
    };
}

/// Prints the result of a run that succeeded, as `result.json` has it, or that nothing was ever
/// applied. A run that failed is answered by its error alone (`gpusetup.error/1`): the result in
/// the file may be an earlier run's.
pub(crate) fn tell_result(
    host: &HostOptions,
    ended: &Result<Exit, Problem>,
) -> Result<(), Problem> {
    if ended.is_err() {
        return Ok(());
    }
    tell_result_of(&system(host))
}

/// Prints the result of the last run on a host.
pub(crate) fn tell_result_of(system: &System) -> Result<(), Problem> {
    // Whoever may not run it may not read it either, and is told why it did not run.
    match self::ended(system) {
        Ok(Some(result)) => super::print_json(&result),
        Ok(None) => super::print_json(&NothingApplied::ANSWER),
        Err(_) => Ok(()),
    }
}

/// Prints a plan that is only shown.
pub(crate) fn show(plan: &Plan, look: &LookOptions, host: &HostOptions) -> Result<Exit, Problem> {
    if look.json {
        super::print_json(plan)?;
    } else {
        let text = render::plan::text(
            plan,
            "",
            None,
            super::paint(look.color),
            look.verbose,
            super::width(),
        );
        super::print_text(text, look.color, host.root.is_none())?;
    }
    Ok(Exit::Done)
}

/// Shows a plan before a question about it: beside the result, where that is to be an object alone.
pub(crate) fn propose(plan: &Plan, look: &LookOptions) -> Result<(), Problem> {
    let text = render::plan::text(
        plan,
        "",
        None,
        super::paint(look.color),
        look.verbose,
        super::width(),
    );
    if look.json {
        say(&text);
        return Ok(());
    }
    super::print_text(text, look.color, false)
}

pub(crate) fn take_back(
    options: &RunOptions,
    json: bool,
    system: &System,
    account: &mut Account,
    reach: RollbackScope,
) -> Result<RunEnd, Problem> {
    account.changes();
    let mut teller = ProgressPrinter::new(options.bars(), !json);
    let left = apply::rollback(system, reach, &mut |news| teller.tell(news))?;
    for path in &left {
        let is_gone = path.starts_with('/') && !system.exists(path);
        say(&if is_gone {
            format!("not brought back: {path}")
        } else {
            format!("kept: {path}")
        });
    }
    forget(system)?;
    teller.end(match reach {
        RollbackScope::Last => "Done: the last apply was rolled back.",
        RollbackScope::All => "Done: everything that gpusetup did here was undone.",
    });
    Ok(RunEnd::With(Ending::RolledBack))
}

pub(crate) fn ended(system: &System) -> Result<Option<RunResult>, Problem> {
    let written = result::status(system).map_err(|e| match e.kind() {
        std::io::ErrorKind::PermissionDenied => {
            Problem::unexpected(format!("only root may read {}", RESULT)).hint("run it with sudo")
        }
        _ => Problem::integrity(format!("cannot read {}: {e}", RESULT)),
    })?;
    Ok(apply::status(system, written)?)
}

/// Does something as the host's only writer, and leaves a result however it ends.
pub(crate) fn writing(
    host: &HostOptions,
    run: &RunOptions,
    boots: bool,
    work: impl FnOnce(&System, &mut Account) -> Result<RunEnd, Problem>,
) -> Result<Exit, Problem> {
    writing_on(system(host), run, boots, work)
}

/// The same on this system.
pub(crate) fn writing_on(
    system: System,
    run: &RunOptions,
    boots: bool,
    work: impl FnOnce(&System, &mut Account) -> Result<RunEnd, Problem>,
) -> Result<Exit, Problem> {
    // A directory that is no host gets no lock.
    must_be_a_host(&system)?;
    only_root(&system)?;
    let system = to_be_changed(&system)?;
    let mut is_announced = false;
    let _lock = Lock::take(&system, run.patience(), &mut |held| {
        if !std::mem::replace(&mut is_announced, true) {
            say(&format!("waiting: {held}"));
        }
    })?;
    private::own_directories(&system).map_err(Failure::from)?;
    // The last result stays: it may show what a damaged journal lacks.
    if let Err(damaged @ Failure::Integrity(_)) = apply::unfinished(&system) {
        return Err(damaged.into());
    }
    interrupt::listen()
        .map_err(|e| Problem::unexpected(format!("cannot listen for signals: {e}")))?;
    let mut account = Account::open();
    let ended = work(&system, &mut account);
    let (state, error) = match &ended {
        Ok(RunEnd::Untouched) => return Ok(Exit::Done),
        Ok(RunEnd::With(Ending::NeedsConsole)) => (
            Ending::NeedsConsole,
            Some((Exit::Blocked.code(), result::CONSOLE.to_owned())),
        ),
        Ok(RunEnd::With(state)) => (*state, None),
        // A refusal is no run: what the last one came to stays to be read. Where there was none,
        // `status --wait` may wait for this.
        Err(_) if !account.has_changes() && has_record(&system) => {
            return ended.map(|_| Exit::Done);
        }
        Err(problem) if !account.has_changes() => (
            Ending::Refused,
            Some((problem.exit.code(), problem.message.clone())),
        ),
        Err(problem) if matches!(problem.exit, Exit::Signal(_)) => (
            Ending::Interrupted,
            Some((problem.exit.code(), problem.message.clone())),
        ),
        Err(problem) => (
            Ending::Failed,
            Some((problem.exit.code(), problem.message.clone())),
        ),
    };
    if let Err(e) = account.close(&system, state, error) {
        say(&format!("cannot write {}: {e}", RESULT));
    }
    if boots && matches!(ended, Ok(RunEnd::With(Ending::RebootRequired))) {
        boot::now(&system).map_err(|e| {
            Problem::new(Exit::StepFailed, format!("cannot reboot the host: {e}"))
                .hint("sudo reboot")
        })?;
    }
    ended.map(|ended| {
        if matches!(ended, RunEnd::With(Ending::NeedsConsole)) {
            Exit::Blocked
        } else {
            Exit::Done
        }
    })
}

/// Whether the record is that of a run that changed the host, or cannot be read.
fn has_record(system: &System) -> bool {
    ended(system).map_or(true, |last| {
        last.is_some_and(|last| last.state != Ending::Refused)
    })
}

/// Says what a plan warns of, where the plan itself is not shown.
pub(crate) fn tell_warnings(plan: &Plan) {
    plan.warnings
        .iter()
        .for_each(|warning| say(&format!("warning: {}: {}", warning.check, warning.text)));
}

/// Applies a plan for the first time. A failed run is not repeated at every boot; a run that a
/// shutdown interrupted is resumed.
pub(crate) fn begin(
    database: &Database,
    plan: &Plan,
    options: &RunOptions,
    config: RunConfig,
    system: &System,
    account: &mut Account,
    teller: &mut ProgressPrinter,
) -> Result<RunEnd, Problem> {
    // What is noted in the journal is checked like this when it is read again, too.
    plan.valid()
        .map_err(|why| Problem::usage(format!("this plan cannot be applied: {why}")))?;
    if options.asks_nothing() {
        tell_warnings(plan);
    }
    let waits = boot::goes_on_after(system);
    let ended = perform(database, plan, options, config, system, account, teller);
    // A refusal does not keep an earlier apply from being resumed.
    let is_over = account.has_changes() || !waits;
    if is_over
        && ended
            .as_ref()
            .is_err_and(|problem| !matches!(problem.exit, Exit::Signal(_)))
    {
        forget(system)?;
    }
    ended
}

/// Removes what would run at the next boot.
pub(crate) fn forget(system: &System) -> Result<(), Problem> {
    boot::forget(system)
        .map_err(|e| Problem::unexpected(format!("cannot remove {}: {e}", boot::UNIT)))
}

/// Applies a plan or resumes it, and arranges the reboot that it may need.
pub(crate) fn perform(
    database: &Database,
    plan: &Plan,
    options: &RunOptions,
    config: RunConfig,
    system: &System,
    account: &mut Account,
    teller: &mut ProgressPrinter,
) -> Result<RunEnd, Problem> {
    let failed = |e: std::io::Error| {
        Problem::new(Exit::StepFailed, format!("cannot prepare the reboot: {e}"))
    };
    // From the beginning on: the power may be cut at any time, and cloud-init runs its scripts
    // once.
    if options.reboot != RebootOption::Never {
        let waiting = waiting_for(database, plan);
        boot::go_on_after(system, options.reboot.as_str(), &config.sources, &waiting)
            .map_err(failed)?;
    }
    teller.expect(plan);
    let outcome = apply::apply(system, plan, config, &mut |news| {
        match news {
            News::Begins => account.changes(),
            News::Step(step) => account.begins(step.id),
            _ => {}
        }
        teller.tell(news);
    })?;
    if !outcome.reboot_required {
        // Left by a run that waited for a reboot and was resumed by hand.
        forget(system)?;
        let chosen = crate::resolve::summary(&plan.selection);
        teller.end(&if chosen.is_empty() {
            "Done.".to_owned()
        } else {
            format!("Done: {chosen}.")
        });
        return Ok(RunEnd::With(Ending::Done));
    }
    if outcome.needs_console {
        if options.reboot == RebootOption::External {
            boot::ask_for(system).map_err(failed)?;
        }
        let then = match options.reboot {
            RebootOption::Never => "Then run: sudo gpusetup resume",
            RebootOption::External | RebootOption::IfNeeded => {
                "gpusetup resumes automatically afterwards."
            }
        };
        teller.end(&format!("{} {then}", causes::AT_THE_CONSOLE));
        return Ok(RunEnd::With(Ending::NeedsConsole));
    }
    match options.reboot {
        RebootOption::Never => teller.end("Reboot now, then run: sudo gpusetup resume"),
        RebootOption::External => {
            boot::ask_for(system).map_err(failed)?;
            teller.end("A reboot is required; gpusetup will resume automatically afterwards.");
        }
        RebootOption::IfNeeded => {
            teller.end("The host reboots now; gpusetup will resume automatically afterwards.")
        }
    }
    Ok(RunEnd::With(Ending::RebootRequired))
}

const LICENCES: &str = "NVIDIA's licences (https://docs.nvidia.com/cuda/eula)";

/// Asks about a plan, licences included. Where nothing is asked, they must have been accepted if
/// the plan installs software under them: `--yes` and `--unattended` alone do not accept them.
pub(crate) fn consents(plan: &Plan, options: &RunOptions) -> Result<bool, Problem> {
    let accepts = options.accept_eula || !plan.brings_nvidias();
    match (options.asks_nothing(), accepts) {
        (true, true) => Ok(true),
        (true, false) => {
            let sentence =
                format!("{LICENCES} are not accepted: --yes and --unattended do not accept them");
            Err(Problem::usage(sentence).attempt(same_command("--accept-eula")))
        }
        (false, true) => asked("Proceed?", "--yes"),
        (false, false) => asked(
            &format!("Continuing accepts {LICENCES}. Proceed?"),
            "--yes --accept-eula",
        ),
    }
}

/// The command line of this process with more options, for root.
fn same_command(more: &str) -> String {
    let words = std::env::args_os()
        .skip(1)
        .map(|word| quoted(&word.to_string_lossy()));
    ["sudo gpusetup".to_owned()]
        .into_iter()
        .chain(words)
        .chain([more.to_owned()])
        .collect::<Vec<_>>()
        .join(" ")
}

/// Asks at the terminal; an error if there is none.
pub(crate) fn agreed(question: &str) -> Result<bool, Problem> {
    asked(question, "--yes")
}

/// The same; `options` answer the question beforehand.
fn asked(question: &str, options: &str) -> Result<bool, Problem> {
    if !std::io::stdin().is_terminal() {
        return Err(Problem::usage("this question needs a terminal").attempt(same_command(options)));
    }
    say(&format!("{question} [y/N]"));
    let answer = input::line().map_err(|e| match interrupt::heard() {
        Some(signal) => InputError::Interrupted(signal).into(),
        None => Problem::usage(format!("no answer: {e}")),
    })?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}
