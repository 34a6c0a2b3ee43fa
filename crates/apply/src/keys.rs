//! The keys of repositories that a plan adds, fetched and checked before its first change.

use super::Failure;
use super::config::RunConfig;
use super::network::{not_interrupted, with_network};
use super::news::OnNews;
use gpusetup_fetch::{FetchError, fetch_small};
use gpusetup_operation::add_repository::MAX_KEY;
use gpusetup_operation::{AddRepository, Operation, RepositoryKey};
use gpusetup_plan::Plan;
use gpusetup_system::System;

/// Fetches the keys that are not in the cache. None is kept that is not the key that the database
/// names.
pub(crate) fn fetch_keys(
    on: &System,
    plan: &Plan,
    config: &RunConfig,
    tell: OnNews,
) -> Result<(), Failure> {
    for (repository, key) in plan
        .acts()
        .filter(|act| !act.satisfied)
        .flat_map(|act| keys(&act.operation))
    {
        if key.is_cached(on) {
            continue;
        }
        not_interrupted()?;
        let url = repository.url_of(key);
        let mut fetched = None;
        with_network(config, tell, |_| {
            fetched = fetch_small(&url, MAX_KEY, &config.sources).map_err(|e| {
                let unreachable = matches!(e, FetchError::Unreachable { .. });
                (not_interrupted().err().unwrap_or(e.into()), unreachable)
            })?;
            Ok(())
        })?;
        let fetched = fetched.ok_or_else(|| {
            let (from, file) = (&repository.url, &key.file);
            Failure::Later(format!("the repository {from} has no signing key {file}"))
        })?;
        let content = key.checked(&fetched, &url)?;
        let failed = |e| Failure::Blocked(format!("cannot write {}: {e}", key.to.display()));
        if let Some(folder) = key.to.parent() {
            on.make_directories(folder, 0o700).map_err(failed)?;
        }
        on.write(&key.to, content.as_bytes(), 0o600)
            .map_err(failed)?;
    }
    Ok(())
}

/// The keys that an operation needs.
pub(crate) fn keys(
    operation: &Operation,
) -> impl Iterator<Item = (&AddRepository, &RepositoryKey)> {
    let repository = if let Operation::AddRepository(repository) = operation {
        Some(repository)
    } else {
        None
    };
    repository
        .into_iter()
        .flat_map(|repository| repository.keys.iter().map(move |key| (repository, key)))
}
