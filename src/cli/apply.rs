//! `gpusetup apply`, `resume`, `rollback`, `status` and `reboot-required`.

use super::bundle::{self, Chosen};
use super::facts::{add_offers, look};
use super::locked::Locked;
use super::options::{
    BundleOptions, HostOptions, LookOptions, RebootOption, RequestOptions, RunOptions, SourceOptions, TrustOptions,
    or_trust_owner,
};
use super::{Problem, say};
use crate::apply::result::{self, Account, Ending, RunResult};
use crate::apply::{self, Failure, Lock, News, Reach, Unfinished, boot};
use crate::fetch::Sources;
use crate::host::offered_by;
use crate::plan::{Plan, plan};
use crate::private::{self, Extent};
use crate::render;
use crate::render::progress::Teller;
use crate::system::input::{self, InputError};
use crate::system::trust::Trust;
use crate::system::{System, interrupt};
use crate::text;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};

/// Flags of `apply`.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// The plan to carry out; without it one is made now
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
pub struct ResumeOptions {
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
}

/// Flags of `rollback`.
#[derive(Debug, clap::Args)]
pub struct RollbackOptions {
    #[command(flatten)]
    host: HostOptions,
    #[command(flatten)]
    run: RunOptions,
}

/// Flags of `reboot-required`.
#[derive(Debug, clap::Args)]
pub struct RebootRequiredOptions {
    #[command(flatten)]
    host: HostOptions,
}

/// Flags of `status`.
#[derive(Debug, clap::Args)]
pub struct StatusOptions {
    #[command(flatten)]
    host: HostOptions,
    /// Print result.json and nothing else
    #[arg(long, env = "GPUSETUP_JSON")]
    json: bool,
    /// Wait until the last apply has come to its end, over reboots too; then exit as it did
    #[arg(long)]
    wait: bool,
    /// How long --wait waits
    #[arg(long, value_name = "SECONDS", default_value = "3600")]
    timeout: u64,
}

impl From<Failure> for Problem {
    fn from(failure: Failure) -> Self {
        let problem = Self::new(failure.exit_code(), failure.to_string());
        match failure {
            Failure::Step(_) | Failure::Verification(_) | Failure::Interrupted(_) => problem
                .hint("gpusetup resume goes on; gpusetup rollback takes back what was done so far")
                .hint("everything that programs said is in /var/log/gpusetup"),
            Failure::Blocked(_) | Failure::Gone(_) | Failure::Later(_) | Failure::Integrity(_) => problem,
        }
    }
}

/// How a run ended, when nothing went wrong.
pub enum Ended {
    /// As the result says.
    With(Ending),
    /// The user said no, or there was nothing to do: what the last run came to stays to be read.
    Untouched,
}

/// Carries a plan out.
pub fn run(options: &Options) -> Result<u8, Problem> {
    let ended =
        writing(&options.host, &options.run, options.run.reboot == RebootOption::IfNeeded, |system, account| {
            carry_out(options, system, account)
        });
    if options.look.json {
        tell_result(&options.host)?;
    }
    ended
}

/// Prints what the last run came to, as `result.json` has it.
pub fn tell_result(host: &HostOptions) -> Result<(), Problem> {
    // Whoever may not run it may not read it either, and is told why it did not run.
    match ended(&system(host)) {
        Ok(Some(result)) => super::print_json(&result),
        Ok(None) | Err(_) => Ok(()),
    }
}

/// Shows a plan before a question about it: beside the result, where that is to be an object alone.
pub fn propose(plan: &Plan, look: &LookOptions) -> Result<(), Problem> {
    let text = render::plan::text(plan, super::paint(look.color), look.verbose, super::width());
    if look.json {
        say(&text);
        return Ok(());
    }
    super::print(&text)
}

/// Goes on with what was interrupted.
pub fn resume(options: &ResumeOptions) -> Result<u8, Problem> {
    let mut sources = options.source.sources_with(&options.bundle, &options.trust, &options.host.database)?;
    writing(&options.host, &options.run, options.run.reboot == RebootOption::IfNeeded, |system, account| {
        let goes_on = match apply::unfinished(system)? {
            None => {
                super::print("Nothing to go on with: the last apply came to its end.\n")?;
                Ok(Ended::Untouched)
            }
            Some(Unfinished::Rollback) => take_back(&options.run, false, system, Reach::Last),
            Some(Unfinished::Apply { .. }) if apply::waits_for_boot(system)? => {
                super::print("The host must boot first; nothing was done.\n")?;
                return Ok(Ended::Untouched);
            }
            Some(Unfinished::Apply { plan, packages }) => {
                // What came from a bundle goes on without a network.
                sources.offline |= packages.is_some();
                sources.brought = packages;
                let mut teller = Teller::new(options.run.bars(), true);
                apply::recover(system, &mut |news| teller.tell(news))?;
                account.plan(&plan);
                let plan = match sources.mirrors.is_empty() {
                    true => *plan,
                    false => plan.fetched_from(&sources.mirrors, options.host.database()?),
                };
                perform(&plan, &options.run, sources, system, account, &mut teller)
            }
        };
        // Whatever came of it, nothing of this waits for the next boot; but what the network or a lock kept from it does.
        let later = matches!(&goes_on, Err(p) if p.code == 6 || p.code > 128);
        if !later && !matches!(goes_on, Ok(Ended::With(Ending::RebootRequired))) {
            forget(system)?;
        }
        goes_on
    })
}

/// Takes the last apply back.
pub fn rollback(options: &RollbackOptions) -> Result<u8, Problem> {
    writing(&options.host, &options.run, false, |system, _| {
        if !apply::anything_to_take_back(system, Reach::Last)? {
            forget(system)?;
            super::print("Nothing to roll back: gpusetup has applied nothing here, or it was all rolled back.\n")?;
            return Ok(Ended::Untouched);
        }
        if !options.run.asks_nothing() && !agreed("Take the last apply back?")? {
            return Ok(Ended::Untouched);
        }
        take_back(&options.run, false, system, Reach::Last)
    })
}

pub fn take_back(options: &RunOptions, json: bool, system: &System, reach: Reach) -> Result<Ended, Problem> {
    let mut teller = Teller::new(options.bars(), !json);
    let left = apply::rollback(system, reach, &mut |news| teller.tell(news))?;
    for path in &left {
        say(&format!("left as it is (changed since, or gone for good): {path}"));
    }
    forget(system)?;
    teller.end(match reach {
        Reach::Last => "Done: the last apply is taken back.",
        Reach::All => "Done: everything that gpusetup did here is taken back.",
    });
    Ok(Ended::With(Ending::RolledBack))
}

/// 0 when the host must reboot, 1 when not: what cloud-init's `power_state.condition` asks.
pub fn reboot_required(options: &RebootRequiredOptions) -> Result<u8, Problem> {
    let system = system(&options.host);
    must_be_a_host(&system)?;
    let waits = apply::waits_for_boot(&system)?;
    let is_due = || Ok::<_, Problem>(ended(&system)?.is_some_and(|e| e.state == Ending::Done && e.reboot_required));
    Ok(u8::from(!(waits || is_due()?)))
}

/// Tells how the last run ended.
pub fn status(options: &StatusOptions) -> Result<u8, Problem> {
    let system = system(&options.host);
    must_be_a_host(&system)?;
    let began = std::time::Instant::now();
    // Between two runs of one apply nobody holds the lock: what it waits for then is a boot, or `resume`. While one is at work,
    // its journal is not read: it is long, and says what is known.
    let ended = loop {
        let is_at_work = Lock::holder(&system).is_some();
        if !options.wait || !is_at_work {
            let ended = ended(&system)?;
            if !options.wait || ended.as_ref().is_some_and(|e| e.state.is_last()) {
                break ended;
            }
        }
        if began.elapsed().as_secs() >= options.timeout {
            let sentence = format!("the last apply has not come to its end in {} s", options.timeout);
            return Err(Problem::new(6, sentence).hint("gpusetup status tells where it stands"));
        }
        std::thread::sleep(std::time::Duration::from_millis(500));
    };
    let exit_code = ended.as_ref().filter(|_| options.wait).map_or(0, |e| e.exit_code);
    let at_work = Lock::holder(&system);
    match (ended, options.json) {
        (Some(ended), true) => super::print_json(&ended)?,
        (None, true) => super::print_json(&serde_json::Value::Null)?,
        (ended, false) => {
            if let Some(holder) = at_work {
                super::print(&format!("gpusetup is at work: {holder}\n"))?;
                // What it comes to is not known yet.
                return Ok(exit_code);
            }
            let sentence = ended.as_ref().map_or("nothing was applied here by gpusetup".to_owned(), |e| e.sentence());
            super::print(&format!("{}\n", text::message(&sentence)))?;
            for step in ended.iter().flat_map(|e| &e.steps) {
                super::print(&format!("  {:<18} {}\n", step.id.as_str(), step.state.as_str()))?;
            }
        }
    }
    Ok(exit_code)
}

fn ended(system: &System) -> Result<Option<RunResult>, Problem> {
    let written = result::status(system).map_err(|e| match e.kind() {
        std::io::ErrorKind::PermissionDenied => {
            Problem::unexpected(format!("only root may read {}", result::PATH)).hint("run it with sudo")
        }
        _ => Problem::integrity(format!("cannot read {}: {e}", result::PATH)),
    })?;
    Ok(apply::status(system, written)?)
}

/// Does something as the host's only writer, and leaves a result however it ends.
pub fn writing(
    host: &HostOptions,
    run: &RunOptions,
    boots: bool,
    work: impl FnOnce(&System, &mut Account) -> Result<Ended, Problem>,
) -> Result<u8, Problem> {
    let system = system(host);
    // A directory that is no host gets no lock.
    must_be_a_host(&system)?;
    only_root(&system)?;
    let mut told = false;
    let _lock = Lock::take(&system, run.patience(), &mut |held| {
        if !std::mem::replace(&mut told, true) {
            say(&format!("waiting: {held}"));
        }
    })?;
    private::own_directories(&system).map_err(Failure::from)?;
    interrupt::listen().map_err(|e| Problem::unexpected(format!("cannot listen for signals: {e}")))?;
    let mut account = Account::open();
    let ended = work(&system, &mut account);
    let (state, error) = match &ended {
        Ok(Ended::Untouched) => return Ok(0),
        Ok(Ended::With(state)) => (*state, None),
        // A request that cannot be is no run: what the last one came to stays to be read.
        Err(problem) if problem.code == 2 => return ended.map(|_| 0),
        Err(problem) if problem.code > 128 => (Ending::Interrupted, Some((problem.code, problem.message.clone()))),
        Err(problem) => (Ending::Failed, Some((problem.code, problem.message.clone()))),
    };
    if let Err(e) = account.close(&system, state, error) {
        say(&format!("cannot write {}: {e}", result::PATH));
    }
    if boots && matches!(ended, Ok(Ended::With(Ending::RebootRequired))) {
        boot::now(&system).map_err(|e| Problem::new(7, format!("cannot boot the host: {e}")).hint("sudo reboot"))?;
    }
    ended.map(|_| 0)
}

fn carry_out(options: &Options, system: &System, account: &mut Account) -> Result<Ended, Problem> {
    let sources = options.source.sources_with(&options.bundle, &options.trust, &options.host.database)?;
    let mut teller = Teller::new(options.run.bars(), !options.look.json);
    apply::recover(system, &mut |news| teller.tell(news))?;
    let database = bundle::database(&options.host, &sources)?;
    let (mut facts, assumed) = look(&options.host, database, None)?;
    let chosen = match &sources.bundle {
        Some(bundle) if options.plan.is_none() => bundle::chosen(bundle, &facts, database)?,
        _ => Chosen::Nothing,
    };
    let plan = match (&options.plan, chosen) {
        (None, Chosen::Plan(plan)) => Locked::read(options.request.locked.as_ref(), &options.trust)?.hold(*plan)?,
        (None, chosen) => {
            let locked = Locked::read(options.request.locked.as_ref(), &options.trust)?;
            let asked = match chosen {
                Chosen::Request(request) => *request,
                Chosen::Plan(_) | Chosen::Nothing => options.request.request(&options.host, assumed)?,
            };
            let request = locked.request(asked, &facts)?;
            // What stands and fits is kept whatever the repositories have: then nobody needs to be asked.
            let kept = plan(database, facts.clone(), request.clone()).ok();
            let planned = match kept.filter(|plan| plan.is_converged() && !request.upgrade) {
                Some(kept) => kept,
                None => {
                    match &sources.bundle {
                        Some(bundle) => facts.offered = offered_by(bundle.offers(&facts), &facts, database),
                        None => add_offers(system, &mut facts, database, &locked.versions()),
                    }
                    plan(database, facts.clone(), request)
                        .map_err(|misfit| misfit.on_host(&options.host.again(None)))?
                }
            };
            locked.hold(planned)?
        }
        (Some(path), _) => {
            let in_bundle = sources.bundle.as_ref().filter(|_| !path.exists());
            let read = match in_bundle.map(|bundle| bundle::named(bundle, path)).transpose()?.flatten() {
                Some(plan) => plan,
                None => read_plan(path, &options.trust.trust()?)?,
            };
            // A plan for assumed GPUs says nothing of the host's own.
            let is_for_host = !read.request.assumed_gpus.is_empty() || read.is_for(&facts);
            if read.database.sha256 != database.sha256 || !is_for_host {
                let sentence = format!("{} was made for another host or with another database", path.display());
                return Err(Problem::integrity(sentence).hint("make a new one here: gpusetup plan --out FILE"));
            }
            read
        }
    };
    let plan = plan.fetched_from(&sources.mirrors, database);
    account.plan(&plan);
    if plan.is_converged() {
        let reboot = has_live_driver(options, &plan).then(|| crate::plan::why_reboot(&facts)).flatten();
        match &reboot {
            None => teller.end("Nothing to do: the host is as the plan wants it."),
            Some(why) => teller.end(&format!("Nothing to install, but a reboot is required: {why}. Run: sudo reboot")),
        }
        reboot.iter().for_each(|_| account.requires_reboot());
        // Nothing is written where nothing has changed.
        let is_said = |last: RunResult| last.state == Ending::Done && last.reboot_required == reboot.is_some();
        let said = ended(system).ok().flatten().is_some_and(is_said);
        return Ok(if said { Ended::Untouched } else { Ended::With(Ending::Done) });
    }
    if !options.run.asks_nothing() {
        propose(&plan, &options.look)?;
        let licences = if plan.brings_nvidias() && !options.run.accept_eula { LICENCES } else { "" };
        if !agreed(&format!("{licences}Proceed?"))? {
            say("nothing was changed");
            return Ok(Ended::Untouched);
        }
    } else if options.run.unattended && plan.brings_nvidias() && !options.run.accept_eula {
        return Err(Problem::usage("NVIDIA's licences are not accepted, and there is nobody to ask")
            .hint("if you accept them: --accept-eula (https://docs.nvidia.com/cuda/eula)"));
    }
    if let (Some(bundle), Some(_)) = (&sources.bundle, &options.bundle.bundle_key) {
        let accepted = options.host.database.store().accept(&bundle.manifest.database.version);
        accepted.map_err(|e| Problem::unexpected(format!("cannot note the bundle's database: {e}")))?;
    }
    let ended = begin(&plan, &options.run, sources, system, account, &mut teller)?;
    if matches!(ended, Ended::With(Ending::Done))
        && has_live_driver(options, &plan)
        && let Ok((facts, _)) = look(&options.host, database, None)
        && let Some(why) = crate::plan::why_reboot(&facts)
    {
        account.requires_reboot();
        teller.end(&format!("A reboot is required: {why}. Run: sudo reboot"));
    }
    Ok(ended)
}

/// Whether the plan has a driver for the live host, which may only work after a reboot.
fn has_live_driver(options: &Options, plan: &Plan) -> bool {
    plan.selection.driver.is_some() && options.host.root.is_none()
}

const LICENCES: &str = "To proceed is to accept NVIDIA's licences (https://docs.nvidia.com/cuda/eula). ";

/// Carries out a plan that is new here. What failed is not tried again at every boot; what was told to stop, by a machine
/// that goes down, is gone on with.
pub fn begin(
    plan: &Plan,
    options: &RunOptions,
    sources: Sources,
    system: &System,
    account: &mut Account,
    teller: &mut Teller,
) -> Result<Ended, Problem> {
    // What is noted in the journal is checked like this when it is read again, too.
    plan.valid().map_err(|why| Problem::usage(format!("this plan cannot be carried out: {why}")))?;
    let ended = perform(plan, options, sources, system, account, teller);
    if ended.as_ref().is_err_and(|problem| problem.code <= 128) {
        forget(system)?;
    }
    ended
}

/// Nothing of this waits for the next boot any more.
fn forget(system: &System) -> Result<(), Problem> {
    boot::forget(system).map_err(|e| Problem::unexpected(format!("cannot remove {}: {e}", boot::UNIT)))
}

/// Carries a plan out, or goes on with it, and sees to the boot that it may need.
fn perform(
    plan: &Plan,
    options: &RunOptions,
    sources: Sources,
    system: &System,
    account: &mut Account,
    teller: &mut Teller,
) -> Result<Ended, Problem> {
    let failed = |e: std::io::Error| Problem::new(7, format!("cannot prepare the reboot: {e}"));
    // From the beginning on: the power may be cut at any time, and cloud-init runs its scripts once.
    if options.reboot != RebootOption::Never {
        boot::go_on_after(system, options.reboot.as_str(), &sources).map_err(failed)?;
    }
    let outcome = apply::apply(system, plan, options.manner(sources), &mut |news| {
        if let News::Step(step) = news {
            account.begins(step.id);
        }
        teller.tell(news);
    })?;
    if !outcome.reboot_required {
        // Left by a run that waited for a boot, and was gone on with by hand.
        forget(system)?;
        let chosen = crate::resolve::summary(&plan.selection);
        teller.end(&if chosen.is_empty() { "Done.".to_owned() } else { format!("Done: {chosen}.") });
        return Ok(Ended::With(Ending::Done));
    }
    match options.reboot {
        RebootOption::Never => teller.end("Reboot now, then: gpusetup resume"),
        RebootOption::External => {
            boot::ask_for(system).map_err(failed)?;
            teller.end("A reboot is needed; gpusetup goes on by itself after it.");
        }
        RebootOption::IfNeeded => teller.end("The host boots now; gpusetup goes on by itself after it."),
    }
    Ok(Ended::With(Ending::RebootRequired))
}

pub fn system(host: &HostOptions) -> System {
    system_of(host.root.as_ref())
}

/// The host whose root directory this is; without one this machine.
pub fn system_of(root: Option<&PathBuf>) -> System {
    root.map_or_else(System::live, System::at)
}

/// Refuses a directory that is no host: `--root` was mistyped, or the image is not mounted.
pub fn must_be_a_host(system: &System) -> Result<(), Problem> {
    if system.exists("/etc/os-release") {
        return Ok(());
    }
    let what = format!("{} is no Linux host: it has no etc/os-release", system.root().display());
    Err(Problem::usage(what)
        .hint("--root DIR names the root directory of a host, with an image or a disk mounted there"))
}

/// Refuses a directory that others may write to, where root is about to write to it and to trust what is in it.
pub fn must_be_private(system: &System, directory: &Path) -> Result<(), Problem> {
    if rustix::process::geteuid().is_root() {
        private::private_directory(system, directory, Extent::Path).map_err(Failure::from)?;
    }
    Ok(())
}

fn only_root(system: &System) -> Result<(), Problem> {
    if rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let what = if system.is_live() { "this host" } else { "the tree" };
    Err(Problem::new(5, format!("only root may change {what}")).hint("run it with sudo"))
}

/// The plan in a file of somebody who is trusted.
pub fn read_plan(path: &Path, trust: &Trust) -> Result<Plan, Problem> {
    let file = input::open_trusted(path, trust).map_err(or_trust_owner)?;
    Plan::read(&input::bytes(file, path, input::MOST_JSON)?)
        .map_err(|e| Problem::integrity(format!("the plan {}: {e}", path.display())))
}

/// Asks at the terminal; without one the question cannot be asked.
pub fn agreed(question: &str) -> Result<bool, Problem> {
    if !std::io::stdin().is_terminal() {
        return Err(Problem::usage("there is no terminal to ask at").hint("run it with --yes"));
    }
    say(&format!("{question} [y/N]"));
    let answer = input::line().map_err(|e| match interrupt::heard() {
        Some(signal) => InputError::Interrupted(signal).into(),
        None => Problem::usage(format!("no answer: {e}")),
    })?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}
