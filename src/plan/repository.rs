//! The step that adds the repository of the driver or of its companions, and the removal of it.

use super::context::{StepContext, skipped, step};
use super::{Act, Step, StepId};
use crate::compat::{Companion, Database, PackageRepository, SigningKey};
use crate::host::{Facts, repository_files};
use crate::operation::{AddRepository, Operation, Remove, RepositoryKey, Run};
use crate::packages::Note;
use crate::resolve::Install;
use crate::system::Node;
use std::path::{Path, PathBuf};

/// The folder of keys in the cache.
const KEYS: &str = "keys";

/// The step that adds the repository of the driver, or of companions that the driver's repository lacks, if it is not enabled.
pub fn add_repository(context: &StepContext, database: &Database) -> Option<Step> {
    let driver = context.chosen.driver.as_ref()?;
    let branch = driver.version.branch;
    let (from, title, why) = match driver.install {
        Install::Repository(offer, repository) => {
            let why = format!(
                "it has driver branch {branch}; the driver comes from it in this branch only, and only if it is signed by its key"
            );
            let from = From { repository, packages: &repository.packages, any_version: repository.any_version.clone() };
            (from, &offer.repository.name, why)
        }
        _ => for_companions(context, database)?,
    };
    let title = format!("Add {title}");
    let cache = &context.request.cache;
    let Some(operation) = added(database, from, context.facts, cache, branch) else {
        return Some(skipped(StepId::AddRepository, title, "it has no packages for this machine"));
    };
    Some(step(StepId::AddRepository, title, why, vec![Act::needed(operation)]))
}

/// A repository, and what comes from it.
struct From<'a> {
    repository: &'a PackageRepository,
    packages: &'a [String],
    any_version: Vec<String>,
}

/// The repository of companions, its name, and why it is added.
fn for_companions<'a>(context: &'a StepContext, database: &'a Database) -> Option<(From<'a>, &'a String, String)> {
    let (repository, names) = context.companions.as_ref()?.added_repository()?;
    let is_one = |of: &&Companion| names.iter().any(|name| of.is_package(name));
    let companion = database.companions.iter().find(is_one)?;
    let why = format!("{} comes from there; nothing else does, and only what its key has signed", names.join(" and "));
    let any_version = names.iter().map(|name| (*name).to_owned()).collect();
    Some((From { repository, packages: &[], any_version }, &companion.repository.as_ref()?.name, why))
}

fn added(database: &Database, from: From, facts: &Facts, cache: &Path, branch: u16) -> Option<AddRepository> {
    let From { repository, packages, any_version } = from;
    let arch = facts.machine.arch.as_str();
    let key = |key: &SigningKey| RepositoryKey {
        file: key.file.clone(),
        fingerprint: key.fingerprint.clone(),
        to: cache.join(KEYS).join(format!("{}.asc", key.fingerprint)),
        content: None,
    };
    Some(AddRepository {
        manager: repository.package_manager,
        name: repository.name_for(arch)?,
        url: repository.url_for(arch)?,
        keys: database.keys_of(repository).map(key).collect(),
        release: repository.release.clone(),
        packages: packages.to_vec(),
        any_version,
        except: repository.except.clone(),
        branch,
    })
}

/// The step that removes the repository that gpusetup added, and what the package manager noted about it; none if it added none.
pub fn remove_repository(database: &Database, facts: &Facts, notes: &[Note]) -> Option<Step> {
    let is_there = |path: &PathBuf| matches!(facts.node(path), Some(Node::File { .. }));
    let files: Vec<_> =
        repository_files(database, &facts.os, &facts.machine.arch).into_iter().filter(is_there).collect();
    if files.is_empty() {
        return None;
    }
    // The manager finds its notes by the files, so they go first.
    let forget = |note: &Note| Act::needed(Run::new(note.remove.clone(), 300).undone_by(note.make.clone()));
    let remove = files.into_iter().map(|path| Act::needed(Operation::Remove(Remove { path })));
    let acts = notes.iter().map(forget).chain(remove).collect();
    const WHY: &str = "gpusetup added it for the driver or its companions";
    Some(step(StepId::RemoveRepository, "Remove the driver's repository and its key", WHY, acts))
}
