//! What would stop a run halfway, found before its first change: a file system without room, one
//! that cannot be written, one that lets nothing be executed, something in the way, a cache that
//! others may write.

use super::config::RunConfig;
use super::keys::keys;
use super::{Failure, reserve};
use gpusetup_fetch::{FetchRequest, is_cached};
use gpusetup_host::holders;
use gpusetup_operation::{Download, Operation, Packages, Run, Standing, Unpack, packages};
use gpusetup_packages::of;
use gpusetup_packages::package_source::PackageSource;
use gpusetup_plan::{Demand, Plan, Room, State};
use gpusetup_system::System;
use gpusetup_system::private::{Extent, private_directory};
use gpusetup_text::ids::CheckId;
use gpusetup_text::paths::RESERVE;
use std::collections::BTreeSet;
use std::path::Path;

/// Refuses a plan that this host has no room for.
pub(crate) fn check(on: &System, plan: &Plan, source: &PackageSource) -> Result<(), Failure> {
    let changes = plan.steps.iter().any(|s| s.state == State::Needed);
    let kept = changes.then(|| Room {
        path: RESERVE.into(),
        bytes: Some(reserve::size(on, plan)),
    });
    let demands = Demand::sum(plan.rooms().cloned().chain(kept), |path| {
        let space = on
            .space(path)
            .map_err(|e| Failure::Blocked(format!("cannot look at {}: {e}", path.display())))?;
        match space.read_only {
            true => Err(Failure::Blocked(format!(
                "{} cannot be written: its file system is read-only",
                path.display()
            ))),
            false => Ok(space),
        }
    })?;
    if let Some(sentence) = demands.iter().find_map(Demand::shortage) {
        return Err(Failure::Blocked(format!(
            "{} ({})",
            sentence,
            CheckId::GS602
        )));
    }
    let executes = plan.acts().any(|a| {
        !a.satisfied
            && matches!(&a.operation, Operation::Run(Run { verified, .. }) if !verified.is_empty())
    });
    let cache = &plan.request.cache;
    if executes && on.space(cache).is_ok_and(|s| s.no_exec) {
        let sentence = format!(
            "nothing can be executed in {} ({}), where installers unpack themselves: its file system is mounted noexec; {}",
            cache.display(),
            CheckId::GS602,
            gpusetup_causes::NO_EXEC
        );
        return Err(Failure::Blocked(sentence));
    }
    not_in_use(on, plan)?;
    let needed = plan
        .steps
        .iter()
        .filter(|s| s.state == State::Needed)
        .flat_map(|s| &s.operations);
    for act in needed.filter(|a| !a.satisfied) {
        not_in_the_way(on, &act.operation)?;
        if let Operation::Packages(packages) = &act.operation {
            packages_can_change(on, packages, source)?;
        }
    }
    for directory in trusted(plan, source) {
        private_directory(on, directory, Extent::Path)?;
    }
    Ok(())
}

/// The directories of the cache whose files root runs, unpacks or installs.
fn trusted<'a>(plan: &'a Plan, source: &'a PackageSource) -> BTreeSet<&'a Path> {
    let files = plan
        .acts()
        .filter(|act| !act.satisfied)
        .flat_map(|act| match &act.operation {
            Operation::Download(Download { to: file, .. })
            | Operation::Unpack(Unpack { archive: file, .. }) => {
                vec![file.as_path()]
            }
            Operation::Run(Run { verified, .. }) => {
                verified.iter().map(|v| v.path.as_path()).collect()
            }
            Operation::AddRepository(repository) => {
                repository.keys.iter().map(|key| key.to.as_path()).collect()
            }
            _ => Vec::new(),
        });
    files
        .filter_map(Path::parent)
        .chain(source.folder())
        .collect()
}

/// Whether everything that is to be fetched can be had without a network, where none is to be
/// asked.
pub(crate) fn can_be_had(on: &System, plan: &Plan, config: &RunConfig) -> Result<(), Failure> {
    if !config.sources.offline || config.bundle.is_some() {
        return Ok(());
    }
    not_in_cache(on, plan).map_or(Ok(()), |sentence| Err(Failure::Blocked(sentence)))
}

/// The downloads of a plan that are not in its cache, as a sentence; none if all are.
pub fn not_in_cache(on: &System, plan: &Plan) -> Option<String> {
    let mut missing = Vec::new();
    for act in plan.acts().filter(|act| !act.satisfied) {
        if let Operation::Download(Download {
            url,
            sha256,
            size,
            to,
        }) = &act.operation
        {
            let wanted = FetchRequest {
                url,
                sha256,
                size: *size,
                to,
            };
            if !url.starts_with("file:") && !is_cached(on, &wanted) {
                missing.push(url.clone());
            }
        } else {
            let keys = keys(&act.operation).filter(|(_, key)| !key.is_cached(on));
            let urls = keys.map(|(of, key)| of.url_of(key));
            missing.extend(urls.filter(|url| !url.starts_with("file:")));
        }
    }
    let (is, it, has) = match missing.len() {
        0 => return None,
        1 => ("is", "it", "has it"),
        _ => ("are", "them", "has them"),
    };
    Some(format!(
        "{} {is} not in the cache {}, and --offline forbids downloads: copy {it} there from another host, or name a folder \
         that {has} with --mirror file:///FOLDER",
        missing.join(" and "),
        plan.request.cache.display()
    ))
}

/// Whether the package manager would do what is wanted, and nothing else: its own simulation says
/// so.
fn packages_can_change(
    on: &System,
    wanted: &Packages,
    source: &PackageSource,
) -> Result<(), Failure> {
    let scripts = of(wanted.manager)
        .scripts
        .filter(|folder| on.space(folder).is_ok_and(|space| space.no_exec));
    if let Some(folder) = scripts {
        let sentence = format!(
            "nothing can be executed in {folder} ({}), where the scripts of packages are",
            CheckId::GS602
        );
        return Err(Failure::Blocked(sentence));
    }
    // What a bundle offers is looked at when it is here: the host's own lists say nothing of it.
    if source.is_the_hosts() {
        Ok(packages::check(on, wanted, source)?)
    } else {
        Ok(())
    }
}

/// A driver that programs use is not replaced or removed under them: those that start later would
/// meet another one than the kernel has.
fn not_in_use(on: &System, plan: &Plan) -> Result<(), Failure> {
    let Some(step) = plan
        .steps
        .iter()
        .find(|s| s.state == State::Needed && s.idle_driver)
        .filter(|_| on.is_live())
    else {
        return Ok(());
    };
    // The packages' own scripts stop and start the persistence daemon; NVIDIA's programs do not.
    let by_packages = step
        .operations
        .iter()
        .any(|a| matches!(a.operation, Operation::Packages(_)));
    let mut holders = holders(on);
    holders.retain(|h| !by_packages || h.name != "nvidia-persiste");
    // The step stops these first.
    holders.retain(|holder| {
        !step.operations.iter().any(|act| match &act.operation {
            Operation::Service(s) => !s.enabled && holder.unit.as_ref() == Some(&s.unit),
            _ => false,
        })
    });
    if holders.is_empty() {
        return Ok(());
    }
    let holders: Vec<_> = holders.iter().map(ToString::to_string).collect();
    let (holders, remedy) = (holders.join(", "), gpusetup_causes::stop_users());
    let sentence = format!(
        "the driver is in use ({}) by {holders}; {}",
        CheckId::GS502,
        remedy.text
    );
    Err(Failure::Blocked(sentence))
}

fn not_in_the_way(on: &System, operation: &Operation) -> Result<(), Failure> {
    match operation.preflight(on) {
        Ok(Standing::Conflict(why)) => Err(Failure::Blocked(why)),
        Ok(Standing::Needed | Standing::Satisfied) => Ok(()),
        Err(e) => Err(Failure::Blocked(format!("cannot look at the host: {e}"))),
    }
}
