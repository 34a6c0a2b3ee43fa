//! `plan --lock` writes a lock file, and `--locked` names the one that `plan` and `apply` keep to.

use super::Problem;
use super::files::{or_trust_owner, read_text};
use super::options::TrustOptions;
use crate::bundle::added_repositories;
use crate::causes;
use crate::compat::{Database, PackageManager};
use crate::exit::Exit;
use crate::operation::packages;
use crate::operation::{Operation, Packages};
use crate::packages::{Versions, of, offered_versions};
use crate::plan::{LockError, LockFile, Plan, Step, StepId};
use crate::planning::PlanningError;
use crate::resolve::{Method, SelectedCuda, Selection, ToolkitMethod};
use crate::system::System;
use crate::system::input;
use crate::system::output;
use std::fmt::Display;
use std::path::{Path, PathBuf};

/// The lock file that was named, if any.
pub struct Locked(Option<(PathBuf, LockFile)>);

impl Locked {
    /// Reads it.
    pub fn read(path: Option<&PathBuf>, trust: &TrustOptions) -> Result<Self, Problem> {
        let read = |path: &PathBuf| {
            let text = match path.as_os_str() == input::STANDARD_INPUT {
                true => read_text(path)?,
                false => input::text(path, input::MOST_JSON, &trust.where_root_acts()?).map_err(or_trust_owner)?,
            };
            let lock = LockFile::read(&text).map_err(|e| refused(path, &e))?;
            Ok((path.clone(), lock))
        };
        path.map(read).transpose().map(Self)
    }

    /// What it says.
    pub fn file(&self) -> Option<&LockFile> {
        self.0.as_ref().map(|(_, lock)| lock)
    }

    /// Why there is no plan for a host, with the flags that name this host in the commands that are suggested.
    pub fn not_planned(&self, e: PlanningError, host: &str) -> Problem {
        match e {
            PlanningError::Conflict(conflict) => conflict.on_host(host).into(),
            PlanningError::Lock(e) => match &self.0 {
                Some((path, _)) => refused(path, &e),
                None => Problem::unexpected(e.to_string()),
            },
            PlanningError::Bundle(e) => e.into(),
            PlanningError::SeveralPlans(ref plans) => Problem::usage(e.to_string())
                .hint(format!("name one: gpusetup apply --bundle PATH PLAN, {}", plans.join(", "))),
        }
    }
}

fn refused(path: &Path, e: &LockError) -> Problem {
    let exit = match e {
        LockError::Malformed(_) | LockError::Schema(_) => Exit::Usage,
        LockError::OtherSystem { .. } | LockError::Gone(_) => Exit::NothingFits,
        LockError::Altered(_) => Exit::Integrity,
    };
    let problem = Problem::new(exit, format!("the lock file {}: {e}", path.display()));
    match e {
        LockError::Schema(_) => problem.hint("write one with this gpusetup: gpusetup plan --lock FILE"),
        _ => problem,
    }
}

/// Writes what the plan comes to. The package manager of the live host is asked for the versions of what would come, and of what
/// is there; for a tree, where no program is run, its lists and its record of packages are read.
pub fn write(path: &Path, system: &System, database: &Database, plan: &Plan) -> Result<(), Problem> {
    let packages = if system.is_live() { package_versions(system, plan)? } else { versions_in_tree(system, plan)? };
    let lock = LockFile::of(database, plan, packages);
    let text = serde_json::to_string_pretty(&lock).map_err(|e| Problem::unexpected(e.to_string()))?;
    output::write(path, (text + "\n").as_bytes())
        .map_err(|e| Problem::unexpected(format!("cannot write {}: {e}", path.display())))
}

fn package_versions(system: &System, plan: &Plan) -> Result<Versions, Problem> {
    let mut all = Versions::new();
    let Some(manager) = plan.host.os.package_manager else { return Ok(all) };
    if has_packaged_driver(plan) {
        all.extend(of_driver(plan, packages::installed(system, manager).map_err(unknown(manager))?));
    }
    let added = added_repositories(plan).next();
    if let Some(repository) = added {
        super::say(&format!(
            "note: the lock file has no packages of {}, which is not enabled yet. To lock them too, run gpusetup plan --lock \
             again after apply",
            repository.url
        ));
    }
    // The packages of a repository that is yet to be added cannot be asked for.
    let chosen = &plan.selection;
    let is_known = |step: &&Step| match step.id {
        _ if added.is_none() => true,
        StepId::InstallDriver => chosen.driver.as_ref().is_none_or(|driver| driver.method != Method::Repository),
        StepId::InstallCuda | StepId::InstallFurtherCuda(_) => !from_repository(chosen, step.id),
        StepId::InstallCompanions => false,
        _ => true,
    };
    let acts = plan.steps.iter().filter(is_known).flat_map(|step| &step.operations);
    for wanted in
        acts.filter_map(|act| if let Operation::Packages(wanted) = &act.operation { Some(wanted) } else { None })
    {
        all.extend(match packages::transaction(system, wanted).map_err(unknown(manager))? {
            Some(versions) => versions,
            None => offered_to(system, manager, wanted)?,
        });
    }
    Ok(all)
}

/// Whether the toolkit that a step installs comes from packages of NVIDIA's repository.
fn from_repository(chosen: &Selection, id: StepId) -> bool {
    let of_step = |cuda: &&SelectedCuda| match id {
        StepId::InstallFurtherCuda(series) => cuda.version.series() == series,
        _ => true,
    };
    let mut all = chosen.cuda.iter().chain(chosen.toolkits.iter().map(|toolkit| &toolkit.cuda)).filter(of_step);
    all.next().is_some_and(|cuda| cuda.method == Some(ToolkitMethod::Repository))
}

/// The versions that can be known without the tree's package manager: of the packages that the plan names.
fn versions_in_tree(system: &System, plan: &Plan) -> Result<Versions, Problem> {
    let mut all = Versions::new();
    let Some(manager) = plan.host.os.package_manager else { return Ok(all) };
    if plan.packages().next().is_none() && !has_packaged_driver(plan) {
        return Ok(all);
    }
    let record = of(manager).record_file.as_ref();
    let here = record.map(|record| record.installed(system)).transpose().map_err(unknown(manager))?.unwrap_or_default();
    for wanted in plan.packages() {
        all.extend(offered_to(system, manager, wanted)?);
        all.extend(here.iter().filter(|(name, _)| wanted.install.contains(name)).map(|(n, v)| (n.clone(), v.clone())));
    }
    if !all.is_empty() {
        super::say(
            "note: the lock file has the packages that the plan names, but not what they depend on. \
             To lock that too, run gpusetup plan --lock on the host itself, or in the tree with chroot",
        );
    }
    if has_packaged_driver(plan) {
        all.extend(of_driver(plan, here));
    }
    Ok(all)
}

fn has_packaged_driver(plan: &Plan) -> bool {
    plan.selection.driver.as_ref().is_some_and(|driver| driver.method != Method::Runfile)
}

/// Those that carry the driver's version are the driver's.
fn of_driver(plan: &Plan, installed: Versions) -> Versions {
    let version = plan.selection.driver.as_ref().map(|driver| driver.version.to_string());
    installed.into_iter().filter(|(_, v)| version.as_ref().is_some_and(|version| v.contains(version))).collect()
}

fn offered_to(system: &System, manager: PackageManager, wanted: &Packages) -> Result<Versions, Problem> {
    let names = wanted.install.iter().map(String::as_str).collect();
    offered_versions(system, manager, &names, &wanted.versions).map_err(unknown(manager))
}

fn unknown<E: Display>(manager: PackageManager) -> impl Fn(E) -> Problem {
    move |why| {
        Problem::new(Exit::Later, format!("the versions of packages cannot be locked: {why}"))
            .hint(causes::fetch_lists(Some(manager)).to_string())
    }
}
