//! `plan --lock` writes a lock file, and `--locked` names the one that `plan` and `apply` keep to.

use super::Problem;
use super::files::{or_trust_owner, unread};
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
use crate::resolve::{Method, Selection, ToolkitMethod};
use crate::system::System;
use crate::system::input;
use crate::system::output;
use crate::text::all_of;
use std::collections::BTreeSet;
use std::fmt::Display;
use std::path::{Path, PathBuf};

/// The lock file that was named, if any.
pub(crate) struct Locked(Option<(PathBuf, LockFile)>);

impl Locked {
    pub(crate) fn read(path: Option<&PathBuf>, trust: &TrustOptions) -> Result<Self, Problem> {
        path.map(|path| {
            let text = match path.as_os_str() == input::STANDARD_INPUT {
                true => input::json_or_standard_input(path).map_err(unread)?,
                false => input::json(path, &trust.where_root_acts()?).map_err(or_trust_owner)?,
            };
            let lock = LockFile::read(&text).map_err(|e| refused(path, &e))?;
            Ok((path.clone(), lock))
        })
        .transpose()
        .map(Self)
    }

    pub(crate) fn file(&self) -> Option<&LockFile> {
        self.0.as_ref().map(|(_, lock)| lock)
    }

    pub(crate) fn line(&self) -> Result<Option<String>, Problem> {
        let text = self.file().map(serde_json::to_string).transpose();
        text.map_err(|e| Problem::unexpected(e.to_string()))
    }

    /// Refuses a plan that installs packages if the package lists have only other versions of some
    /// than the locked ones. `apply` needs no such check: it fetches the lists, and looks the
    /// packages up before the first change.
    pub(crate) fn check_lists(&self, system: &System, plan: &Plan) -> Result<(), Problem> {
        let has_packages = plan.steps.iter().any(installs_packages);
        // Lists of managers without preferences do not have the packages that are installed.
        let manager = plan
            .host
            .os
            .package_manager
            .filter(|manager| has_packages && of(*manager).preferences.is_some());
        let (Some((path, lock)), Some(manager)) = (&self.0, manager) else {
            return Ok(());
        };
        let names = lock.packages.keys().map(String::as_str).collect();
        // Lists that are missing or older than the repositories say nothing.
        let Ok(offered) = offered_versions(system, manager, &names, &lock.packages) else {
            return Ok(());
        };
        // A repository that is yet to be added may have any other package, such as a dependency of
        // the driver.
        let is_complete = added_repositories(plan).next().is_none();
        let listed: BTreeSet<_> = plan
            .steps
            .iter()
            .filter(|step| is_listed(plan, step))
            .flat_map(names_in)
            .collect();
        let gone = lock.packages.iter().filter(|(name, version)| {
            (is_complete || listed.contains(*name))
                && offered.get(*name).is_some_and(|other| other != *version)
        });
        let gone: Vec<_> = gone
            .map(|(name, version)| format!("{name} {version} (not in the package lists)"))
            .collect();
        if gone.is_empty() {
            return Ok(());
        }
        Err(refused(path, &LockError::Gone(gone))
            .hint(causes::fetch_lists(Some(manager)).to_string()))
    }

    /// Why there is no plan for a host, with the flags that name this host in the commands that are
    /// suggested.
    pub(crate) fn not_planned(&self, e: PlanningError, host: &str) -> Problem {
        match e {
            PlanningError::Conflict(conflict) => conflict.on_host(host).into(),
            PlanningError::Lock(e) => match &self.0 {
                Some((path, _)) => refused(path, &e),
                None => Problem::unexpected(e.to_string()),
            },
            PlanningError::Bundle(e) => e.into(),
            PlanningError::SeveralPlans(ref plans) => Problem::usage(e.to_string()).hint(format!(
                "name one: gpusetup apply --bundle PATH PLAN, {}",
                plans.join(", ")
            )),
        }
    }
}

fn refused(path: &Path, e: &LockError) -> Problem {
    let exit = match e {
        LockError::Malformed(_) | LockError::Schema(_) => Exit::Usage,
        LockError::OtherHost(_) => Exit::Blocked,
        LockError::Gone(_) => Exit::NothingFits,
        LockError::Altered(_) => Exit::Integrity,
    };
    let name = format!("the lock file {}", path.display());
    let problem = Problem::new(exit, format!("{name}: {e}"));
    match e {
        LockError::OtherHost(other) => Problem::of_other_host(&name, other)
            .attempt("gpusetup plan --lock FILE  # makes one on this host"),
        LockError::Schema(_) => {
            problem.hint("write one with this gpusetup: gpusetup plan --lock FILE")
        }
        _ => problem,
    }
}

/// Writes what the plan comes to. The package manager of the live host is asked for the versions of
/// what would come, and of what is there; for a tree, where no program is run, its lists and its
/// record of packages are read.
pub(crate) fn write(
    path: &Path,
    system: &System,
    database: &Database,
    plan: &Plan,
) -> Result<(), Problem> {
    let packages = if system.is_live() {
        package_versions(system, plan)?
    } else {
        versions_at_root(system, plan)?
    };
    let lock = LockFile::of(database, plan, packages);
    let text =
        serde_json::to_string_pretty(&lock).map_err(|e| Problem::unexpected(e.to_string()))?;
    output::write(path, (text + "\n").as_bytes())
        .map_err(|e| Problem::unexpected(format!("cannot write {}: {e}", path.display())))
}

fn package_versions(system: &System, plan: &Plan) -> Result<Versions, Problem> {
    let mut all = Versions::new();
    let Some(manager) = plan.host.os.package_manager else {
        return Ok(all);
    };
    if has_packaged_driver(plan) {
        all.extend(of_driver(
            plan,
            packages::installed(system, manager).map_err(unknown(manager))?,
        ));
    }
    let added: Vec<_> = added_repositories(plan)
        .map(|repository| repository.url.as_str())
        .collect();
    if !added.is_empty() {
        let (sources, are) = (all_of(&added), if added.len() == 1 { "is" } else { "are" });
        super::say(&format!(
            "note: of {sources}, which {are} not enabled yet, the lock file has only packages whose version the plan has. \
             To lock all, run gpusetup plan --lock again after apply"
        ));
    }
    let acts = plan
        .steps
        .iter()
        .filter(|step| is_listed(plan, step))
        .flat_map(|step| &step.operations);
    for wanted in acts.filter_map(|act| {
        if let Operation::Packages(wanted) = &act.operation {
            Some(wanted)
        } else {
            None
        }
    }) {
        all.extend(
            match packages::transaction(system, wanted).map_err(unknown(manager))? {
                Some(versions) => versions,
                None => offered_to(system, manager, wanted)?,
            },
        );
    }
    all.extend(planned_versions(plan));
    Ok(all)
}

/// Whether the package lists have the packages of a step. They lack those of a repository that is
/// yet to be added.
fn is_listed(plan: &Plan, step: &Step) -> bool {
    let chosen = &plan.selection;
    match step.id {
        _ if added_repositories(plan).next().is_none() => true,
        StepId::InstallDriver => chosen
            .driver
            .as_ref()
            .is_none_or(|driver| driver.method != Method::Repository),
        StepId::InstallCuda | StepId::InstallAdditionalCuda(_) => !from_repository(chosen, step.id),
        StepId::InstallCompanions => false,
        StepId::ContainerToolkit => !installs_packages(step),
        _ => true,
    }
}

/// The names of the packages that a step installs.
fn names_in(step: &Step) -> impl Iterator<Item = &String> {
    step.operations.iter().flat_map(|act| match &act.operation {
        Operation::Packages(wanted) => wanted.install.as_slice(),
        _ => &[],
    })
}

fn installs_packages(step: &Step) -> bool {
    step.operations
        .iter()
        .any(|act| !act.satisfied && matches!(act.operation, Operation::Packages(_)))
}

/// The packages that the plan installs in one version, whatever the repositories have.
fn planned_versions(plan: &Plan) -> impl Iterator<Item = (String, String)> {
    plan.packages().flat_map(|wanted| {
        wanted
            .install
            .iter()
            .filter_map(|name| Some((name.clone(), wanted.versions.get(name)?.clone())))
    })
}

/// Whether the toolkit that a step installs comes from packages of NVIDIA's repository.
fn from_repository(chosen: &Selection, id: StepId) -> bool {
    let mut all = chosen
        .cuda
        .iter()
        .chain(chosen.toolkits.iter().map(|toolkit| &toolkit.cuda))
        .filter(|cuda| match id {
            StepId::InstallAdditionalCuda(series) => cuda.version.series() == series,
            _ => true,
        });
    all.next()
        .is_some_and(|cuda| cuda.method == Some(ToolkitMethod::Repository))
}

/// The versions that can be known without the tree's package manager: of the packages that the plan
/// names.
fn versions_at_root(system: &System, plan: &Plan) -> Result<Versions, Problem> {
    let mut all = Versions::new();
    let Some(manager) = plan.host.os.package_manager else {
        return Ok(all);
    };
    if plan.packages().next().is_none() && !has_packaged_driver(plan) {
        return Ok(all);
    }
    let record = of(manager).record_file.as_ref();
    let here = record
        .map(|record| record.installed(system))
        .transpose()
        .map_err(unknown(manager))?
        .unwrap_or_default();
    for wanted in plan.packages() {
        all.extend(offered_to(system, manager, wanted)?);
        all.extend(
            here.iter()
                .filter(|(name, _)| wanted.install.contains(name))
                .map(|(n, v)| (n.clone(), v.clone())),
        );
    }
    all.extend(planned_versions(plan));
    if !all.is_empty() {
        super::say(
            "note: the lock file has the packages that the plan names, as far as their versions are known, but not what they \
             depend on. To lock that too, run gpusetup plan --lock on the host itself, or in the tree with chroot",
        );
    }
    if has_packaged_driver(plan) {
        all.extend(of_driver(plan, here));
    }
    Ok(all)
}

fn has_packaged_driver(plan: &Plan) -> bool {
    plan.selection
        .driver
        .as_ref()
        .is_some_and(|driver| driver.method != Method::Runfile)
}

/// Those that carry the driver's version are the driver's.
fn of_driver(plan: &Plan, installed: Versions) -> Versions {
    let version = plan
        .selection
        .driver
        .as_ref()
        .map(|driver| driver.version.to_string());
    installed
        .into_iter()
        .filter(|(_, v)| version.as_ref().is_some_and(|version| v.contains(version)))
        .collect()
}

fn offered_to(
    system: &System,
    manager: PackageManager,
    wanted: &Packages,
) -> Result<Versions, Problem> {
    let names = wanted.install.iter().map(String::as_str).collect();
    offered_versions(system, manager, &names, &wanted.versions).map_err(unknown(manager))
}

fn unknown<E: Display>(manager: PackageManager) -> impl Fn(E) -> Problem {
    move |why| {
        Problem::new(
            Exit::Later,
            format!("the versions of packages cannot be locked: {why}"),
        )
        .hint(causes::fetch_lists(Some(manager)).to_string())
    }
}
