//! `gpusetup apply`, `rollback` and `status`.

use super::facts::look;
use super::options::{HostOptions, LookOptions, RequestOptions};
use super::{Problem, say};
use crate::apply::result::{self, Account, Ending};
use crate::apply::{self, Failure, Lock, News};
use crate::plan::{Plan, plan};
use crate::render;
use crate::render::progress::Teller;
use crate::system::{System, interrupt};
use std::io::IsTerminal;
use std::os::unix::fs::MetadataExt;
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
    look: LookOptions,
    /// Do not ask
    #[arg(short, long, env = "GPUSETUP_YES")]
    yes: bool,
}

/// Flags of `rollback`.
#[derive(Debug, clap::Args)]
pub struct RollbackOptions {
    #[command(flatten)]
    host: HostOptions,
    /// Do not ask
    #[arg(short, long, env = "GPUSETUP_YES")]
    yes: bool,
}

/// Flags of `status`.
#[derive(Debug, clap::Args)]
pub struct StatusOptions {
    #[command(flatten)]
    host: HostOptions,
    /// Print result.json and nothing else
    #[arg(long, env = "GPUSETUP_JSON")]
    json: bool,
}

impl From<Failure> for Problem {
    fn from(failure: Failure) -> Self {
        let problem = Self::new(failure.exit_code(), failure.to_string());
        match failure {
            Failure::Step(_) | Failure::Verification(_) | Failure::Interrupted(_) => problem
                .hint("run the same command again to go on; what was done so far can be taken back: gpusetup rollback"),
            Failure::Blocked(_) | Failure::Later(_) | Failure::Integrity(_) => problem,
        }
    }
}

/// How a run ended, when nothing went wrong.
enum Ended {
    /// As the result says.
    With(Ending),
    /// The user said no: nothing began.
    Declined,
}

/// Carries a plan out.
pub fn run(options: &Options) -> Result<u8, Problem> {
    writing(&options.host, |system, account| carry_out(options, system, account))
}

/// Takes the last apply back.
pub fn rollback(options: &RollbackOptions) -> Result<u8, Problem> {
    writing(&options.host, |system, _| {
        if !options.yes && !agreed("Take the last apply back?")? {
            return Ok(Ended::Declined);
        }
        let mut teller = Teller::new(true);
        let left = apply::rollback(system, &mut |news| teller.tell(news))?;
        for path in &left {
            say(&format!("left, because it was changed since: {}", path.display()));
        }
        super::print("Done: the last apply is taken back.\n")?;
        Ok(Ended::With(Ending::RolledBack))
    })
}

/// Tells how the last run ended.
pub fn status(options: &StatusOptions) -> Result<u8, Problem> {
    let ended = result::status(&system(&options.host)).map_err(|e| match e.kind() {
        std::io::ErrorKind::PermissionDenied => {
            Problem::unexpected(format!("only root may read {}", result::PATH)).hint("run it with sudo")
        }
        _ => Problem::integrity(format!("cannot read {}: {e}", result::PATH)),
    })?;
    match (ended, options.json) {
        (Some(ended), true) => super::print_json(&ended)?,
        (Some(ended), false) => {
            super::print(&format!("{}\n", ended.sentence()))?;
            for step in &ended.steps {
                super::print(&format!("  {:<18} {}\n", step.id.as_str(), step.state.as_str()))?;
            }
        }
        (None, true) => super::print_json(&serde_json::Value::Null)?,
        (None, false) => super::print("nothing was applied here by gpusetup\n")?,
    }
    Ok(0)
}

/// Does something as the host's only writer, and leaves a result however it ends.
fn writing(
    host: &HostOptions,
    work: impl FnOnce(&System, &mut Account) -> Result<Ended, Problem>,
) -> Result<u8, Problem> {
    let system = system(host);
    // A directory that is no host gets no lock.
    if !system.exists("/etc/os-release") {
        let what = format!("{} is no Linux host: it has no etc/os-release", system.root().display());
        return Err(Problem::usage(what));
    }
    only_root(&system)?;
    let _lock = Lock::take(&system)?;
    interrupt::listen().map_err(|e| Problem::unexpected(format!("cannot listen for signals: {e}")))?;
    let mut account = Account::open();
    let ended = work(&system, &mut account);
    let (state, error) = match &ended {
        Ok(Ended::Declined) => {
            say("nothing was changed");
            return Ok(0);
        }
        Ok(Ended::With(state)) => (*state, None),
        // A request that cannot be is no run: what the last one came to stays to be read.
        Err(problem) if problem.code == 2 => return ended.map(|_| 0),
        Err(problem) if problem.code > 128 => (Ending::Interrupted, Some((problem.code, problem.message.clone()))),
        Err(problem) => (Ending::Failed, Some((problem.code, problem.message.clone()))),
    };
    if let Err(e) = account.close(&system, state, error) {
        say(&format!("cannot write {}: {e}", result::PATH));
    }
    ended.map(|_| 0)
}

fn carry_out(options: &Options, system: &System, account: &mut Account) -> Result<Ended, Problem> {
    let mut teller = Teller::new(true);
    apply::recover(system, &mut |news| teller.tell(news))?;
    let database = options.host.database()?;
    let (facts, assumed) = look(&options.host, &database, options.plan.is_none())?;
    let plan = match &options.plan {
        None => plan(&database, facts, options.request.request(&options.host, assumed)?)?,
        Some(path) => {
            let read = read_plan(path)?;
            let here = |g: &&crate::host::Gpu| !g.assumed;
            let same = (&read.database.sha256, read.host.gpus.iter().filter(here).count())
                == (&database.sha256, facts.gpus.iter().filter(here).count());
            if !same || !read.is_for(&facts) && read.request.assumed_gpus.is_empty() {
                let sentence = format!("{} was made for another host or with another database", path.display());
                return Err(Problem::integrity(sentence).hint("make a new one here: gpusetup plan --out FILE"));
            }
            read
        }
    };
    account.plan(&plan);
    if plan.is_converged() {
        super::print("Nothing to do: the host is as the plan wants it.\n")?;
        return Ok(Ended::With(Ending::Done));
    }
    if !options.yes {
        let paint = super::paint(options.look.color);
        super::print(&render::plan::text(&plan, paint, options.look.verbose, super::width()))?;
        if !agreed("Proceed?")? {
            return Ok(Ended::Declined);
        }
    }
    let outcome = apply::apply(system, &plan, &mut |news| {
        if let News::Step(step) = news {
            account.begins(step.id);
        }
        teller.tell(news);
    })?;
    if outcome.reboot_required {
        super::print("Reboot now, then run the same command again: it goes on with what is left.\n")?;
        return Ok(Ended::With(Ending::RebootRequired));
    }
    super::print(&format!("Done: {}.\n", crate::resolve::summary(&plan.selection)))?;
    Ok(Ended::With(Ending::Done))
}

fn system(host: &HostOptions) -> System {
    host.root.as_ref().map_or_else(System::live, System::at)
}

fn only_root(system: &System) -> Result<(), Problem> {
    if rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let what = if system.is_live() { "this host" } else { "the tree" };
    Err(Problem::new(5, format!("only root may change {what}")).hint("run it with sudo"))
}

/// A plan file that nobody but its owner could have written.
fn read_plan(path: &Path) -> Result<Plan, Problem> {
    let failed = |e: std::io::Error| Problem::usage(format!("cannot read {}: {e}", path.display()));
    let meta = path.metadata().map_err(failed)?;
    let me = rustix::process::geteuid().as_raw();
    if meta.mode() & 0o022 != 0 || ![0, me].contains(&meta.uid()) {
        let sentence = format!("{} can be written by others, and root would do what it says", path.display());
        let hint = format!("if it is yours: chmod go-w {}", path.display());
        return Err(Problem::new(5, sentence).hint(hint));
    }
    let text = std::fs::read_to_string(path).map_err(failed)?;
    let plan: Plan = serde_json::from_str(&text)
        .map_err(|e| Problem::integrity(format!("{} is no plan of this version: {e}", path.display())))?;
    if plan.fingerprint != plan.expected_fingerprint() {
        return Err(Problem::integrity(format!("{} was altered since it was made", path.display())));
    }
    Ok(plan)
}

/// Asks at the terminal; without one the question cannot be asked.
fn agreed(question: &str) -> Result<bool, Problem> {
    if !std::io::stdin().is_terminal() {
        return Err(Problem::usage("there is no terminal to ask at").hint("run it with --yes"));
    }
    say(&format!("{question} [y/N]"));
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer).map_err(|e| Problem::usage(format!("no answer: {e}")))?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}
