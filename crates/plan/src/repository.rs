//! The step that adds the repositories of the driver, its companions and the toolkit, and the
//! removal of them.

use super::context::{StepContext, skipped, step};
use super::prerequisites::added_for_tools;
use super::{Act, Step, StepId};
use gpusetup_database::compat::{Database, PackageRepository};
use gpusetup_host::{Facts, MachineKind, RepositoryFiles, RepositoryUse, repository_files};
use gpusetup_operation::{AddRepository, Operation, Remove, RepositoryKey, Run};
use gpusetup_packages::Note;
use gpusetup_resolve::{ChosenDriver, Install};
use gpusetup_system::Node;
use gpusetup_text::text::all_of;
use std::collections::BTreeSet;
use std::path::Path;

/// The folder of keys in the cache.
const KEYS: &str = "keys";

/// The step that adds repositories that are not enabled: of the driver or, if its repository lacks
/// them, of companions, of the toolkit, and of what builds kernel modules.
pub(crate) fn add_repository(context: &StepContext, database: &Database) -> Option<Step> {
    let of_driver = context
        .chosen
        .driver
        .as_ref()
        .and_then(|driver| of_driver(context, database, driver));
    let all = of_driver
        .into_iter()
        .chain(of_toolkit(context, database))
        .chain(of_containers(context))
        .chain(of_build_tools(context, database));
    let all: Vec<_> = all.collect();
    let mut titles: Vec<_> = all.iter().map(|new| new.title).collect();
    titles.dedup();
    if titles.is_empty() {
        return None;
    }
    let title = format!("Add {}", all_of(&titles));
    let why = all
        .iter()
        .map(|new| new.why.as_str())
        .collect::<Vec<_>>()
        .join("; ");
    let (facts, cache) = (context.facts, &context.request.cache);
    let acts: Option<Vec<_>> = all
        .into_iter()
        .map(|new| Some(Act::needed(new.operation(database, facts, cache)?)))
        .collect();
    Some(match acts {
        Some(acts) => step(StepId::AddRepository, title, why, acts),
        None => skipped(
            StepId::AddRepository,
            title,
            "it has no packages for this machine",
        ),
    })
}

/// A repository to add, and what may come from it.
struct Source<'a> {
    repository: &'a PackageRepository,
    of: RepositoryUse,
    title: &'a str,
    why: String,
    packages: &'a [String],
    any_version: Vec<String>,
    except: Vec<String>,
    branch: u16,
}

fn of_driver<'a>(
    context: &'a StepContext,
    database: &'a Database,
    driver: &ChosenDriver<'a>,
) -> Option<Source<'a>> {
    let branch = driver.version.branch;
    let Install::Repository(offer, repository) = driver.install else {
        return for_companions(context, database, branch);
    };
    let why = format!(
        "it has driver branch {branch}; the driver comes from it in this branch only, and only if it is signed by its key"
    );
    Some(Source {
        repository,
        of: RepositoryUse::Driver,
        title: &offer.repository.name,
        why,
        packages: &repository.packages,
        any_version: repository.any_version.clone(),
        except: repository.except.clone(),
        branch,
    })
}

/// The repository of companions, if they come from another one than the driver's.
fn for_companions<'a>(
    context: &'a StepContext,
    database: &'a Database,
    branch: u16,
) -> Option<Source<'a>> {
    let (repository, companions) = context.companions.as_ref()?.added_repository()?;
    let companion = companions.first()?;
    let titles: Vec<_> = companions.iter().map(|of| of.title.as_str()).collect();
    let come = if titles.len() == 1 { "comes" } else { "come" };
    let why = format!(
        "{} {come} from there; only companions of the driver do, and only what its key has signed",
        all_of(&titles)
    );
    let any_version = repository.companions(database);
    let title = &companion.repository.as_ref()?.name;
    let except = repository.except.clone();
    Some(Source {
        repository,
        of: RepositoryUse::Driver,
        title,
        why,
        packages: &[],
        any_version,
        except,
        branch,
    })
}

/// The repository of the toolkit's packages. One that somebody else enabled is used as it is.
fn of_toolkit<'a>(context: &'a StepContext, database: &Database) -> Option<Source<'a>> {
    let packaged = context
        .chosen
        .toolkits()
        .filter_map(|cuda| Some((cuda.release.version, cuda.packages?)));
    let packaged: Vec<_> = packaged.collect();
    let (_, repository) = *packaged.first()?;
    if is_enabled_by_others(database, context.facts, repository) {
        return None;
    }
    let series: Vec<_> = packaged
        .iter()
        .map(|(release, _)| release.series().to_string())
        .collect();
    let why = format!(
        "it has the packages of CUDA {}; of its other packages, none comes from it for the toolkit, and none that its key has not \
         signed",
        all_of(&series)
    );
    let toolkit = repository.toolkit.as_ref()?;
    let mut any_version: Vec<_> = packaged
        .iter()
        .flat_map(|(release, _)| toolkit.patterns_for(*release))
        .collect();
    let mut seen = BTreeSet::new();
    any_version.retain(|pattern| seen.insert(pattern.clone()));
    // zypper can only be told which packages do not come from it.
    let except = [
        &repository.packages,
        &repository.any_version,
        &repository.except,
    ]
    .into_iter()
    .flatten();
    Some(Source {
        repository,
        of: RepositoryUse::Toolkit,
        title: "NVIDIA's network repository",
        why,
        packages: &[],
        any_version,
        except: except.cloned().collect(),
        branch: context
            .chosen
            .driver
            .as_ref()
            .map_or(0, |driver| driver.version.branch),
    })
}

/// The repository of the container toolkit, unless it is enabled.
fn of_containers<'a>(context: &'a StepContext) -> Option<Source<'a>> {
    let is_host = context.facts.machine.kind != MachineKind::Container;
    let containers = context.containers.as_ref().filter(|_| is_host)?;
    let repository = containers.added?;
    let packages = all_of(
        &repository
            .any_version
            .iter()
            .map(String::as_str)
            .collect::<Vec<_>>(),
    );
    Some(Source {
        repository,
        of: RepositoryUse::Containers,
        title: "NVIDIA's repository of the container toolkit",
        why: format!("{packages} come from there, and only what its key has signed"),
        packages: &[],
        any_version: repository.any_version.clone(),
        except: repository.except.clone(),
        branch: 0,
    })
}

/// The repositories of what builds kernel modules.
fn of_build_tools<'a>(
    context: &'a StepContext,
    database: &'a Database,
) -> impl Iterator<Item = Source<'a>> {
    let added = added_for_tools(context, database).into_iter();
    added.map(|(extra, repository)| {
        let packages: Vec<_> = extra.packages.iter().map(String::as_str).collect();
        let come = if packages.len() == 1 { "comes" } else { "come" };
        Source {
            repository,
            of: RepositoryUse::BuildTools,
            title: &extra.name,
            why: format!(
                "{} {come} from {}, and of its other packages only what the driver needs; --no-epel leaves that to you",
                all_of(&packages),
                extra.name
            ),
            packages: &[],
            any_version: repository.any_version.clone(),
            except: repository.except.clone(),
            branch: 0,
        }
    })
}

/// Whether such a repository is enabled, and not by gpusetup for the driver: that one gives no
/// toolkit.
fn is_enabled_by_others(
    database: &Database,
    facts: &Facts,
    repository: &PackageRepository,
) -> bool {
    let path = repository
        .url
        .split_once("://")
        .and_then(|(_, rest)| rest.split_once('/'));
    let Some((folder, _)) = path.and_then(|(_, path)| path.rsplit_once('/')) else {
        return false;
    };
    let ours = Added {
        of: RepositoryUse::Driver,
        notes: &[],
    };
    facts.has_enabled(&[folder.to_owned()]) && !ours.is_there(database, facts)
}

fn is_file(facts: &Facts, path: &Path) -> bool {
    matches!(facts.node(path), Some(Node::File { .. }))
}

impl Source<'_> {
    /// The operation that adds it; none if the repository is not for this machine.
    fn operation(self, database: &Database, facts: &Facts, cache: &Path) -> Option<AddRepository> {
        let repository = self.repository;
        let arch = facts.machine.arch.as_str();
        let keys = database.keys_of(repository).map(|key| RepositoryKey {
            file: key.file.clone(),
            url: key.url.clone(),
            fingerprint: key.fingerprint.clone(),
            to: cache.join(KEYS).join(format!("{}.asc", key.fingerprint)),
            content: None,
        });
        Some(AddRepository {
            manager: repository.package_manager,
            name: self.of.name_of(repository, arch)?,
            url: repository.url_for(arch)?,
            keys: keys.collect(),
            unsigned_lists: repository.unsigned_lists,
            release: repository.release.clone(),
            packages: self.packages.to_vec(),
            any_version: self.any_version,
            except: self.except,
            branch: self.branch,
        })
    }
}

/// A repository that gpusetup added, and what the package manager noted about it.
pub(crate) struct Added<'a> {
    pub(crate) of: RepositoryUse,
    /// The notes about it and its keys.
    pub(crate) notes: &'a [Note],
}

impl Added<'_> {
    /// Whether the host has its source.
    pub(crate) fn is_there(&self, database: &Database, facts: &Facts) -> bool {
        let files = repository_files(database, &facts.os, &facts.machine.arch, self.of);
        files.sources.iter().any(|path| is_file(facts, path))
    }

    /// The step that removes it, with its keys unless another source needs them; none if gpusetup
    /// added none.
    pub(crate) fn removal(
        &self,
        database: &Database,
        facts: &Facts,
        other: Option<&Added>,
    ) -> Option<Step> {
        let RepositoryFiles { keys, sources } =
            repository_files(database, &facts.os, &facts.machine.arch, self.of);
        let keys = keys.into_iter().filter(|_| other.is_none());
        let files: Vec<_> = keys
            .chain(sources)
            .filter(|path| is_file(facts, path))
            .collect();
        if files.is_empty() {
            return None;
        }
        let remove = files
            .into_iter()
            .map(|path| Act::needed(Operation::Remove(Remove { path })));
        // The manager finds its notes by the files, so they go first.
        let notes = self.notes.iter();
        let acts = notes
            .filter(|note| !other.is_some_and(|other| other.notes.contains(note)))
            .map(|note| {
                Act::needed(Run::new(note.remove.clone(), 300).undone_by(note.make.clone()))
            })
            .chain(remove)
            .collect();
        let (whose, why) = match self.of {
            RepositoryUse::Driver => (
                "driver's",
                "gpusetup added it for the driver or its companions",
            ),
            RepositoryUse::Toolkit => ("toolkit's", "gpusetup added it for the toolkit"),
            RepositoryUse::Containers => (
                "container toolkit's",
                "gpusetup added it for the container toolkit",
            ),
            RepositoryUse::BuildTools => (
                "build tools'",
                "gpusetup added it for what builds the driver's modules",
            ),
        };
        let and_key = if other.is_none() { " and its key" } else { "" };
        let title = format!("Remove the {whose} repository{and_key}");
        Some(step(StepId::RemoveRepository, title, why, acts))
    }
}
