//! `gpusetup apply`, `resume` and `rollback`.

use super::files::read_plan;
use super::host::{database, look, tell_left_out};
use super::locked::Locked;
use super::options::{
    BundleOptions, HostOptions, IfNoGpu, LookOptions, RebootOption, RequestOptions, RunOptions,
    SourceOptions, StockOptions, TrustOptions,
};
use super::run::{
    RunEnd, agreed, begin, consents, ended, forget, perform, propose, take_back, tell_result,
    writing,
};
use super::{Problem, say};
use crate::apply::result::Ending;
use crate::apply::{self, Account, Failure, RollbackScope, RunConfig, Unfinished};
use crate::bundle::Bundle;
use crate::causes;
use crate::exit::Exit;
use crate::host::Facts;
use crate::ids::CheckId;
use crate::paths::LOGS;
use crate::plan::{Plan, why_reboot};
use crate::planning::Planner;
use crate::render::progress::ProgressPrinter;
use crate::system::{System, input};
use std::path::{Path, PathBuf};

/// Flags of `apply`.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Plan to apply, from `plan --out` [default: a new plan]
    plan: Option<PathBuf>,
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
    #[command(flatten)]
    run: RunOptions,
}

/// Flags of `resume`.
#[derive(Debug, clap::Args)]
pub(crate) struct ResumeOptions {
    #[command(flatten)]
    host: HostOptions,
    #[command(flatten)]
    source: SourceOptions,
    #[command(flatten)]
    bundle: BundleOptions,
    #[command(flatten)]
    trust: TrustOptions,
    #[command(flatten)]
    run: RunOptions,
    /// Print the result as one JSON object, and nothing else on standard output
    #[arg(long, env = "GPUSETUP_JSON")]
    json: bool,
}

/// Flags of `rollback`.
#[derive(Debug, clap::Args)]
pub(crate) struct RollbackOptions {
    #[command(flatten)]
    host: HostOptions,
    #[command(flatten)]
    run: RunOptions,
    /// Print the result as one JSON object, and nothing else on standard output
    #[arg(long, env = "GPUSETUP_JSON")]
    json: bool,
}

impl From<Failure> for Problem {
    fn from(failure: Failure) -> Self {
        let problem = Self::new(failure.exit(), failure.to_string());
        match failure {
            Failure::Step(_) | Failure::Verification(_) | Failure::Interrupted(_) => problem
                .hint("sudo gpusetup resume continues; sudo gpusetup rollback undoes what was done so far")
                .hint(format!("the output of every program is in {LOGS}")),
            Failure::Blocked(_) | Failure::Gone(_) | Failure::Later(_) | Failure::Integrity(_) => problem,
        }
    }
}

/// Applies a plan.
pub(crate) fn run(options: &Options) -> Result<Exit, Problem> {
    let ended = writing(
        &options.host,
        &options.run,
        options.run.reboot == RebootOption::IfNeeded,
        |system, account| carry_out(options, system, account),
    );
    if options.look.json {
        tell_result(&options.host, &ended)?;
    }
    ended
}

/// Says that nothing was done: beside the result, where that is to be an object alone.
fn idle(json: bool, text: &str) -> Result<RunEnd, Problem> {
    if json {
        say(text);
    } else {
        super::print(&format!("{text}\n"))?;
    }
    Ok(RunEnd::Untouched)
}

/// Resumes what was interrupted.
pub(crate) fn resume(options: &ResumeOptions) -> Result<Exit, Problem> {
    let ended = go_on(options);
    if options.json {
        tell_result(&options.host, &ended)?;
    }
    ended
}

fn go_on(options: &ResumeOptions) -> Result<Exit, Problem> {
    let mut config = options.run.config(options.source.sources()?);
    config.bundle = options
        .bundle
        .open(&options.trust, &options.host.database.store())?;
    writing(
        &options.host,
        &options.run,
        options.run.reboot == RebootOption::IfNeeded,
        |system, account| {
            let goes_on = match apply::unfinished(system)? {
                None => idle(options.json, "Nothing to resume."),
                Some(Unfinished::Rollback) => take_back(
                    &options.run,
                    options.json,
                    system,
                    account,
                    RollbackScope::Last,
                ),
                Some(Unfinished::Apply { .. }) if apply::waits_for_boot(system)? => {
                    return idle(options.json, "The host must boot first; nothing was done.");
                }
                Some(Unfinished::Apply { plan, packages }) => {
                    // What came from a bundle goes on without a network.
                    config.sources.offline |= packages.is_some();
                    config.brought = packages;
                    account.changes();
                    account.plan(&plan);
                    go_on_with(*plan, options, config, system, account)
                }
            };
            // Whatever came of it, nothing of this waits for the next boot; but what the network or
            // a lock kept from it does.
            let later =
                matches!(&goes_on, Err(p) if matches!(p.exit, Exit::Later | Exit::Signal(_)));
            let reboots = matches!(&goes_on, Ok(RunEnd::With(state)) if state.needs_reboot());
            if !later && !reboots {
                forget(system)?;
            }
            goes_on
        },
    )
}

/// Resumes an apply, if this is still the host that its plan was made for.
fn go_on_with(
    plan: Plan,
    options: &ResumeOptions,
    config: RunConfig,
    system: &System,
    account: &mut Account,
) -> Result<RunEnd, Problem> {
    let database = options.host.database()?;
    let (facts, _) = look(&options.host, database)?;
    plan.is_for(&facts, database, apply::begun(system)?.as_ref())
        .map_err(|other| {
            Problem::of_other_host("the plan of the interrupted apply", &other)
                .attempt("sudo gpusetup rollback  # undoes what was done so far")
                .attempt(format!("sudo gpusetup apply {}", on_this_host(&plan, &facts)).trim_end())
        })?;
    let mut teller = ProgressPrinter::new(options.run.bars(), !options.json);
    apply::recover(system, &mut |news| teller.tell(news))?;
    let plan = match config.sources.mirrors.is_empty() {
        true => plan,
        false => plan.fetched_from(&config.sources.mirrors, database),
    };
    perform(
        database,
        &plan,
        &options.run,
        config,
        system,
        account,
        &mut teller,
    )
}

/// The options that request the same on this host.
fn on_this_host(plan: &Plan, facts: &Facts) -> String {
    let mut request = plan.request.clone();
    if !facts.gpus.is_empty() {
        request.assumed_gpus.clear();
    }
    request
        .leave_out
        .retain(|address| facts.gpus.iter().any(|gpu| gpu.address == *address));
    request.options()
}

/// Undoes the last apply.
pub(crate) fn rollback(options: &RollbackOptions) -> Result<Exit, Problem> {
    let ended = writing(&options.host, &options.run, false, |system, account| {
        if !apply::anything_to_take_back(system, RollbackScope::Last)? {
            forget(system)?;
            let nothing = "Nothing to roll back: gpusetup has applied nothing here, or it was all rolled back.";
            return idle(options.json, nothing);
        }
        if !options.run.asks_nothing() && !agreed("Take the last apply back?")? {
            return Ok(RunEnd::Untouched);
        }
        take_back(
            &options.run,
            options.json,
            system,
            account,
            RollbackScope::Last,
        )
    });
    if options.json {
        tell_result(&options.host, &ended)?;
    }
    ended
}

fn carry_out(options: &Options, system: &System, account: &mut Account) -> Result<RunEnd, Problem> {
    let mut config = options.run.config(options.source.sources()?);
    config.bundle = options
        .bundle
        .open(&options.trust, &options.host.database.store())?;
    let mut teller = ProgressPrinter::new(options.run.bars(), !options.look.json);
    apply::recover(system, &mut |news| teller.tell(news))?;
    let database = database(&options.host, config.bundle.as_deref())?;
    options.request.accepts(database)?;
    let (facts, assumed) = look(&options.host, database)?;
    let begun = apply::begun(system)?;
    let planner = Planner {
        repositories: Some(system),
        bundle: config.bundle.as_deref(),
        mirrors: Some(&config.sources.mirrors),
        begun: begun.as_ref(),
        ..Planner::new(database)
    };
    let plan = match &options.plan {
        Some(path) => plan_in_file(path, options, planner, &facts)?
            .fetched_from(&config.sources.mirrors, database),
        None => match new_plan(options, system, planner, &facts, assumed)? {
            Some(plan) => plan,
            None => {
                teller.end(super::NO_GPU_TO_PLAN_FOR);
                return Ok(done_without_changes(system, false));
            }
        },
    };
    account.plan(&plan);
    if plan.is_converged() {
        return Ok(nothing_to_do(
            options,
            system,
            &plan,
            &facts,
            account,
            &mut teller,
        ));
    }
    if !options.run.asks_nothing() {
        propose(&plan, &options.look)?;
    }
    if !consents(&plan, &options.run)? {
        say("nothing was changed");
        return Ok(RunEnd::Untouched);
    }
    may_begin(options, &config, &plan)?;
    let ended = begin(
        database,
        &plan,
        &options.run,
        config,
        system,
        account,
        &mut teller,
    )?;
    if matches!(ended, RunEnd::With(Ending::Done))
        && has_live_driver(options, &plan)
        && let Ok((facts, _)) = look(&options.host, database)
        && let Some(why) = why_reboot(&facts)
    {
        account.requires_reboot();
        teller.end(&format!("A reboot is required: {why}. Run: sudo reboot"));
    }
    Ok(ended)
}

/// A plan for what is requested; none if there is no GPU, and that is no error.
fn new_plan(
    options: &Options,
    system: &System,
    planner: Planner,
    facts: &Facts,
    assumed: Vec<String>,
) -> Result<Option<Plan>, Problem> {
    let locked = Locked::read(options.request.locked.as_ref(), &options.trust)?;
    let planner = Planner {
        lock: locked.file(),
        ..planner
    };
    let machine = facts.machine.kind;
    let mut request = options
        .request
        .request_on(&options.host, assumed, machine)?;
    options
        .request
        .left_out_layers(machine)
        .into_iter()
        .for_each(super::say);
    let mut facts = facts.clone();
    tell_left_out(planner.observe(system, &mut facts, &mut request, true)?);
    match planner.plan(facts, request) {
        Err(e) if options.request.if_no_gpu == IfNoGpu::Skip && e.is_without_gpu() => Ok(None),
        Err(e) => Err(locked.not_planned(e, &options.host.again(&StockOptions::default(), None))),
        Ok(planned) => {
            planned.notes.iter().for_each(|note| say(note));
            Ok(Some(planned.plan.for_root(options.host.root.as_deref())))
        }
    }
}

/// The end of an apply whose plan has nothing to do.
fn nothing_to_do(
    options: &Options,
    system: &System,
    plan: &Plan,
    facts: &Facts,
    account: &mut Account,
    teller: &mut ProgressPrinter,
) -> RunEnd {
    let reboot = has_live_driver(options, plan)
        .then(|| why_reboot(facts))
        .flatten();
    match &reboot {
        None => teller.end("Nothing to do: everything is already installed."),
        Some(why) => teller.end(&format!(
            "Nothing to install, but a reboot is required: {why}. Run: sudo reboot"
        )),
    }
    reboot.iter().for_each(|_| account.requires_reboot());
    done_without_changes(system, reboot.is_some())
}

/// Records that the bundle's database is accepted, and refuses a plan that needs somebody at the
/// console if nobody is there.
fn may_begin(options: &Options, config: &RunConfig, plan: &Plan) -> Result<(), Problem> {
    if let (Some(bundle), Some(_)) = (&config.bundle, &options.bundle.bundle_key) {
        let accepted = options
            .host
            .database
            .store()
            .accept(&bundle.manifest.database.version);
        accepted.map_err(|e| {
            Problem::unexpected(format!("cannot record the bundle's database: {e}"))
        })?;
    }
    if plan.enrolls_key() && !options.run.is_attended() {
        return Err(Problem::new(
            Exit::Blocked,
            format!("{} ({})", causes::nobody_to_enrol(), CheckId::GS301),
        )
        .hint("run it at a terminal, without --unattended, when you can reach the console")
        .attempt("sudo gpusetup apply"));
    }
    Ok(())
}

/// The end of an apply with nothing to do. It is recorded for those who wait for it, unless the
/// record says so already.
fn done_without_changes(system: &System, reboot_required: bool) -> RunEnd {
    let is_recorded = ended(system)
        .ok()
        .flatten()
        .is_some_and(|last| last.state == Ending::Done && last.reboot_required == reboot_required);
    if is_recorded {
        RunEnd::Untouched
    } else {
        RunEnd::With(Ending::Done)
    }
}

/// Whether the plan installs a driver on the live host, which may need a reboot to work.
fn has_live_driver(options: &Options, plan: &Plan) -> bool {
    plan.selection.driver.is_some() && options.host.root.is_none()
}

/// The plan that the user names: a file, or one in the bundle.
fn plan_in_file(
    path: &Path,
    options: &Options,
    planner: Planner,
    facts: &Facts,
) -> Result<Plan, Problem> {
    let Planner {
        bundle,
        database,
        begun,
        ..
    } = planner;
    let in_bundle = bundle.filter(|_| input::metadata(path).is_none());
    let plan = match in_bundle
        .map(|bundle| named(bundle, path))
        .transpose()?
        .flatten()
    {
        Some(plan) => plan,
        None => read_plan(path, &options.trust.trust()?)?,
    };
    let name = path.display().to_string();
    plan.is_for(facts, database, begun).map_err(|other| {
        let host = options.host.again(&StockOptions::default(), None);
        let parts = [
            "gpusetup plan".to_owned(),
            host,
            on_this_host(&plan, facts),
            "--out FILE".to_owned(),
        ];
        let command: Vec<_> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        Problem::of_other_host(&name, &other).attempt(command.join(" "))
    })?;
    if plan.database.sha256 != database.sha256 {
        let (made, ours) = (&plan.database.version, &database.version);
        let sentence = format!(
            "{name} was made with another database ({made}, by gpusetup {}); this one is {ours}",
            plan.tool
        );
        return Err(
            Problem::integrity(sentence).hint("make a new one here: gpusetup plan --out FILE")
        );
    }
    if plan.assumes_gpus() && facts.gpus.is_empty() {
        say(&format!(
            "note: this host has no NVIDIA GPU; {name} was made for one that was assumed: {}",
            plan.gpu_names()
        ));
    }
    Ok(plan)
}

/// A bundle's plan by its name in it.
fn named(bundle: &Bundle, name: &Path) -> Result<Option<Plan>, Problem> {
    Ok(bundle
        .plans()?
        .into_iter()
        .find(|(file, _)| {
            let file = Path::new(file);
            file == name || file.file_name() == Some(name.as_os_str())
        })
        .map(|(_, plan)| plan))
}
