//! The step that adds the repository of the driver's packages, and the removal of it.

use super::context::{StepContext, skipped, step};
use super::{Act, Step, StepId};
use crate::compat::{Database, PackageRepository, SigningKey};
use crate::host::{Facts, repository_files};
use crate::operation::{AddRepository, Operation, Remove, RepositoryKey, Run};
use crate::packages::Note;
use crate::resolve::Install;
use crate::system::Node;
use std::path::{Path, PathBuf};

/// The folder of keys in the cache.
const KEYS: &str = "keys";

/// The step that adds the repository, if the driver is from one that is not enabled.
pub fn add_repository(context: &StepContext, database: &Database) -> Option<Step> {
    let driver = context.chosen.driver.as_ref()?;
    let Install::Repository(offer, repository) = driver.install else { return None };
    let title = format!("Add {}", offer.repository.name);
    let cache = &context.request.cache;
    let Some(operation) = added(database, repository, context.facts, cache, driver.version.branch) else {
        return Some(skipped(StepId::AddRepository, title, "it has no packages for this machine"));
    };
    let why = format!(
        "it has driver branch {}; the driver comes from it in this branch only, and only if it is signed by its key",
        driver.version.branch
    );
    Some(step(StepId::AddRepository, title, why, vec![Act::needed(operation)]))
}

fn added(
    database: &Database,
    repository: &PackageRepository,
    facts: &Facts,
    cache: &Path,
    branch: u16,
) -> Option<AddRepository> {
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
        packages: repository.packages.clone(),
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
    const WHY: &str = "gpusetup added it for the driver";
    Some(step(StepId::RemoveRepository, "Remove the driver's repository and its key", WHY, acts))
}
