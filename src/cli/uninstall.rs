//! `gpusetup uninstall`: undoes what gpusetup did here, by its journal, or removes a toolkit or the
//! driver, even if gpusetup did not install it.

use super::host::{look, must_be_a_host, system};
use super::options::{HostOptions, LookOptions, RebootOption, RunOptions, toolkit_name};
use super::run::{RunEnd, agreed, begin, propose, show, take_back, tell_result, writing};
use super::{Problem, say};
use crate::apply::result::Ending;
use crate::apply::{self, Account, Failure, RollbackScope};
use crate::compat::{Database, PackageManager};
use crate::exit::Exit;
use crate::host::{
    Facts, Original, PathFile, PathFiles, RepositoryUse, container_host, repository_notes,
};
use crate::operation::packages;
use crate::packages::{Manager, of, owners};
use crate::plan::{Inventory, Plan, Unwanted};
use crate::planning::Planner;
use crate::render::progress::ProgressPrinter;
use crate::resolve::Request;
use crate::system::System;
use crate::version::{CudaVersion, Requirement};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Flags of `uninstall`.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Remove this toolkit, even if gpusetup did not install it: 11.2, 11.2.1
    #[arg(long, value_name = "VERSION", value_delimiter = ',', value_parser = toolkit_name)]
    cuda: Vec<Requirement<CudaVersion>>,
    /// Remove the driver, even if gpusetup did not install it
    #[arg(long)]
    driver: bool,
    /// Remove the driver, every toolkit and every cuDNN, even if gpusetup did not install them
    #[arg(long, conflicts_with_all = ["cuda", "driver"])]
    all: bool,
    /// Remove NVIDIA Container Toolkit, even if gpusetup did not install it; the driver stays
    #[arg(long)]
    container_toolkit: bool,
    /// Only show what would be removed
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    host: HostOptions,
    #[command(flatten)]
    look: LookOptions,
    #[command(flatten)]
    run: RunOptions,
}

impl Options {
    fn unwanted(&self) -> Unwanted {
        Unwanted {
            driver: self.driver || self.all,
            cuda: self.cuda.clone(),
            all_cuda: self.all,
            container_toolkit: self.container_toolkit,
        }
    }
}

/// Removes.
pub(crate) fn run(options: &Options) -> Result<Exit, Problem> {
    let by_journal = options.unwanted() == Unwanted::default();
    if options.dry_run {
        let system = system(&options.host);
        must_be_a_host(&system)?;
        return if by_journal {
            show_journal(options, &system)
        } else {
            show(&plan(options, &system)?, &options.look, &options.host)
        };
    }
    let boots = options.run.reboot == RebootOption::IfNeeded;
    let ended = writing(&options.host, &options.run, boots, |system, account| {
        if by_journal {
            return undo_all(options, system, account);
        }
        let mut teller = ProgressPrinter::new(options.run.bars(), !options.look.json);
        apply::recover(system, &mut |news| teller.tell(news))?;
        let (plan, unwanted) = (plan(options, system)?, options.unwanted());
        if plan.is_converged() {
            plan.warnings.iter().for_each(|warning| say(&warning.text));
            teller.end("Nothing to remove: it is not installed.");
            return Ok(RunEnd::Untouched);
        }
        if !options.run.asks_nothing() {
            propose(&plan, &options.look)?;
            let question = if unwanted.removes_toolkits() {
                "Remove it? A rollback cannot bring a toolkit back."
            } else {
                "Remove it?"
            };
            if !agreed(question)? {
                say("nothing was changed");
                return Ok(RunEnd::Untouched);
            }
        }
        account.plan(&plan);
        let ended = begin(
            options.host.database()?,
            &plan,
            &options.run,
            options.run.config(Default::default()),
            system,
            account,
            &mut teller,
        )?;
        if matches!(ended, RunEnd::With(Ending::Done)) {
            is_gone(options, system)?;
        }
        Ok(ended)
    });
    if options.look.json {
        tell_result(&options.host, &ended)?;
    }
    ended
}

const NOTHING: &str = "Nothing to remove: gpusetup did nothing here that still stands.";

/// The module files that gpusetup wrote in folders of the host's module system. They are not in the
/// journal.
fn own_modules(system: &System) -> Vec<PathBuf> {
    PathFiles::of(system)
        .read
        .into_iter()
        .filter(PathFile::is_own_module)
        .map(|file| file.path)
        .collect()
}

/// What gpusetup did here, in the order in which it is undone.
fn to_undo(system: &System) -> Result<Vec<String>, Problem> {
    let by_journal = apply::to_take_back(system, RollbackScope::All)?;
    let modules = own_modules(system)
        .into_iter()
        .map(|path| format!("remove {}", path.display()));
    Ok(by_journal.into_iter().chain(modules).collect())
}

/// Removes the module files that gpusetup wrote.
fn remove_modules(system: &System) -> Result<(), Problem> {
    for path in own_modules(system) {
        system
            .remove(&path)
            .map_err(|e| Problem::unexpected(format!("cannot remove {}: {e}", path.display())))?;
    }
    Ok(())
}

fn undo_all(options: &Options, system: &System, account: &mut Account) -> Result<RunEnd, Problem> {
    if to_undo(system)?.is_empty() {
        ProgressPrinter::new(false, !options.look.json).end(NOTHING);
        return Ok(RunEnd::Untouched);
    }
    if !options.run.asks_nothing() {
        show_journal(options, system)?;
        if !agreed("Take it back?")? {
            say("nothing was changed");
            return Ok(RunEnd::Untouched);
        }
    }
    if apply::to_take_back(system, RollbackScope::All)?.is_empty() {
        remove_modules(system)?;
        ProgressPrinter::new(false, !options.look.json)
            .end("Done: the module files that gpusetup wrote were removed.");
        return Ok(RunEnd::Untouched);
    }
    let ended = take_back(
        &options.run,
        options.look.json,
        system,
        account,
        RollbackScope::All,
    )?;
    remove_modules(system)?;
    say(&format!(
        "downloads stay in {}",
        options.host.cache.display()
    ));
    Ok(ended)
}

/// What `uninstall --dry-run --json` prints, if the journal says what to remove.
#[derive(serde::Serialize)]
struct ToUndo<'a> {
    schema: &'static str,
    /// What gpusetup did here, in the order in which it is undone.
    undo: &'a [String],
}

fn show_journal(options: &Options, system: &System) -> Result<Exit, Problem> {
    let all = to_undo(system)?;
    if options.look.json && options.dry_run {
        super::print_json(&ToUndo {
            schema: "gpusetup.uninstall/1",
            undo: &all,
        })?;
        return Ok(Exit::Done);
    }
    if all.is_empty() {
        super::print(&format!("{NOTHING}\n"))?;
        return Ok(Exit::Done);
    }
    let lines: String = all.iter().map(|line| format!("  - {line}\n")).collect();
    let text = format!("What gpusetup did here, to be undone in this order:\n{lines}");
    if options.look.json {
        say(text.trim_end());
    } else {
        super::print(&text)?;
    }
    Ok(Exit::Done)
}

fn plan(options: &Options, system: &System) -> Result<Plan, Problem> {
    let database = options.host.database()?;
    let (mut facts, _) = look(&options.host, database)?;
    let unwanted = options.unwanted();
    if unwanted.container_toolkit {
        facts.container_host = Some(container_host(system, database, None));
    }
    let inventory = inventory(options, system, database, &facts, &unwanted)?;
    let today = crate::system::today();
    let request = Request {
        prefix: options.host.prefix.clone(),
        cache: options.host.cache.clone(),
        ..Request::default_on(today)
    };
    let plan = Planner::new(database).removal(facts, &inventory, &unwanted, request)?;
    let plan = plan.for_root(options.host.root.as_deref());
    if !system.runs_programs() {
        return Ok(plan.not_knowing_what_goes_along());
    }
    // The simulation says what cannot be without them; where it fails, `apply` will say why.
    Ok(plan.taking_along(|manager, remove| {
        packages::taken_along(system, manager, remove).unwrap_or_default()
    }))
}

/// The files of search paths, if a toolkit is removed. Those of users change only if somebody
/// agrees, by a question or by `--yes`.
fn path_files(options: &Options, system: &System, unwanted: &Unwanted) -> PathFiles {
    if unwanted.cuda.is_empty() && !unwanted.all_cuda {
        return PathFiles::default();
    }
    let mut found = PathFiles::of(system);
    if options.run.unattended && !options.run.yes {
        found
            .read
            .iter_mut()
            .filter(|file| file.is_private)
            .for_each(|file| file.syntax = None);
    }
    found
}

fn inventory(
    options: &Options,
    system: &System,
    database: &Database,
    facts: &Facts,
    unwanted: &Unwanted,
) -> Result<Inventory, Problem> {
    let path_files = path_files(options, system, unwanted);
    let (originals, specifications) = of_containers(system, database, unwanted)?;
    let without_packages = Inventory {
        path_files,
        originals,
        specifications,
        ..Inventory::default()
    };
    let Some(manager) = facts.os.package_manager else {
        return Ok(without_packages);
    };
    let installed = installed(options, system, manager)?;
    let owners = owners(system, manager, &unwanted.places(facts))
        .map_err(|e| cannot_ask(of(manager).record, &e))?;
    let mut notes = BTreeMap::new();
    for of_use in RepositoryUse::ALL {
        let noted = repository_notes(system, database, &facts.os, &facts.machine.arch, of_use)
            .map_err(|e| cannot_ask(of(manager).record, &e))?;
        notes.insert(of_use, noted);
    }
    Ok(Inventory {
        installed,
        owners,
        notes,
        ..without_packages
    })
}

fn cannot_ask(record: &str, e: &std::io::Error) -> Problem {
    Problem::unexpected(format!(
        "cannot ask {record} which packages are installed: {e}"
    ))
}

/// The installed packages: by the package manager's program, or by its record where no program of a
/// tree is run.
fn installed(
    options: &Options,
    system: &System,
    manager: PackageManager,
) -> Result<BTreeMap<String, String>, Problem> {
    let Manager {
        record,
        record_file,
        ..
    } = of(manager);
    match record_file {
        _ if system.runs_programs() => {
            packages::installed(system, manager).map_err(|e| cannot_ask(record, &e))
        }
        Some(file) => file.installed(system).map_err(|e| cannot_ask(record, &e)),
        None => {
            let says = format!(
                "what is installed in {} is in a database that only {record} reads, and a dry run runs no program of a tree",
                system.root().display()
            );
            let facts = options.host.here("gpusetup facts");
            Err(Problem::new(Exit::Blocked, says)
                .hint("without --dry-run it shows the plan, and asks")
                .attempt(facts))
        }
    }
}

/// The files of the engines and of the container toolkit that gpusetup changed, and the toolkit's
/// CDI specifications.
fn of_containers(
    system: &System,
    database: &Database,
    unwanted: &Unwanted,
) -> Result<(BTreeMap<PathBuf, Original>, Vec<PathBuf>), Problem> {
    let Some(toolkit) = database
        .container_toolkit()
        .filter(|_| unwanted.container_toolkit)
    else {
        return Ok(Default::default());
    };
    let files = database
        .engines
        .iter()
        .flat_map(|engine| engine.config.iter().chain(&engine.drop_in));
    let files = files.chain(toolkit.low_level.iter().map(|known| &known.config));
    let originals = apply::originals(system, files.map(Path::new)).map_err(Failure::from)?;
    let there = toolkit
        .specifications
        .iter()
        .filter(|path| system.exists(path));
    Ok((originals, there.map(PathBuf::from).collect()))
}

/// Checks the host itself: an uninstaller's exit status proves nothing.
fn is_gone(options: &Options, system: &System) -> Result<(), Problem> {
    let left = plan(options, system).map(|plan| plan.steps);
    let titles: Vec<_> = left
        .iter()
        .flatten()
        .map(|step| step.title.as_str())
        .collect();
    // A toolkit that is no longer there cannot be asked for, which is what was wanted.
    match titles.as_slice() {
        [] => Ok(()),
        titles => Err(Problem::new(
            Exit::NotWorking,
            format!(
                "everything was carried out, but is left to do: {}",
                titles.join("; ")
            ),
        )),
    }
}
