//! `gpusetup apply` and `rollback`.

use super::facts::look;
use super::options::{HostOptions, LookOptions, RequestOptions};
use super::{Problem, say};
use crate::apply::{self, Failure, News};
use crate::plan::{Plan, plan};
use crate::render;
use crate::system::System;
use std::io::IsTerminal;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

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

impl From<Failure> for Problem {
    fn from(failure: Failure) -> Self {
        let problem = Self { code: failure.exit_code(), message: failure.to_string(), hints: Vec::new() };
        match failure {
            Failure::Step(_) | Failure::Verification(_) => {
                problem.hint("what was done so far can be taken back: gpusetup rollback")
            }
            Failure::Blocked(_) | Failure::Later(_) | Failure::Integrity(_) => problem,
        }
    }
}

/// Carries a plan out.
pub fn run(options: &Options) -> Result<u8, Problem> {
    let database = options.host.database()?;
    let (facts, assumed) = look(&options.host, &database)?;
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
    if plan.is_converged() {
        super::print("Nothing to do: the host is as the plan wants it.\n")?;
        return Ok(0);
    }
    if !options.yes {
        let paint = super::paint(options.look.color);
        super::print(&render::plan::text(&plan, paint, options.look.verbose, super::width()))?;
        if !agreed("Proceed?")? {
            say("nothing was changed");
            return Ok(0);
        }
    }
    let system = system(&options.host);
    only_root(&system)?;
    let outcome = apply::apply(&system, &plan, &mut teller())?;
    if outcome.reboot_required {
        super::print("Reboot now, then run the same command again: it goes on with what is left.\n")?;
    } else {
        super::print(&format!("Done: {}.\n", crate::resolve::summary(&plan.selection)))?;
    }
    Ok(0)
}

/// Takes the last run back.
pub fn rollback(options: &RollbackOptions) -> Result<u8, Problem> {
    let system = system(&options.host);
    only_root(&system)?;
    if !options.yes && !agreed("Take the last apply back?")? {
        say("nothing was changed");
        return Ok(0);
    }
    let left = apply::rollback(&system, &mut teller())?;
    for path in &left {
        say(&format!("left, because it was changed since: {}", path.display()));
    }
    super::print("Done: the last apply is taken back.\n")?;
    Ok(0)
}

fn system(host: &HostOptions) -> System {
    host.root.as_ref().map_or_else(System::live, System::at)
}

fn only_root(system: &System) -> Result<(), Problem> {
    if rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let what = if system.is_live() { "this host" } else { "the tree" };
    Err(Problem {
        code: 5,
        message: format!("only root may change {what}"),
        hints: vec!["run it with sudo".to_owned()],
    })
}

/// A plan file that nobody but its owner could have written.
fn read_plan(path: &Path) -> Result<Plan, Problem> {
    let failed = |e: std::io::Error| Problem::usage(format!("cannot read {}: {e}", path.display()));
    let meta = path.metadata().map_err(failed)?;
    let me = rustix::process::geteuid().as_raw();
    if meta.mode() & 0o022 != 0 || ![0, me].contains(&meta.uid()) {
        let sentence = format!("{} can be written by others, and root would do what it says", path.display());
        let hint = format!("if it is yours: chmod go-w {}", path.display());
        return Err(Problem { code: 5, message: sentence, hints: vec![hint] });
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

/// A line for each step and each thing done; for what takes long, one every ten seconds.
fn teller() -> impl FnMut(&News) {
    const PATIENCE: Duration = Duration::from_secs(10);
    let mut last = Instant::now();
    move |news| match news {
        News::Step(step) => say(&format!("{}: {}", step.id.as_str(), step.title)),
        News::Done(operation) => say(&format!("  done: {}", operation.describe())),
        News::Kept(operation) => say(&format!("  is so already: {}", operation.describe())),
        News::Undone(operation) => say(&format!("  taken back: {}", operation.describe())),
        News::Working { operation, since, bytes } => {
            if last.elapsed() < PATIENCE {
                return;
            }
            last = Instant::now();
            let so_far = match bytes {
                Some((have, Some(all))) => format!("{} of {}", render::bytes(*have), render::bytes(*all)),
                Some((have, None)) => render::bytes(*have),
                None => format!("{} s", since.as_secs()),
            };
            say(&format!("  {so_far}: {}", operation.describe()));
        }
    }
}
