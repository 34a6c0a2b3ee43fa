//! What gpusetup keeps and nothing needs any more: downloads, leftovers of runs that were killed,
//! copies of files for an undo that cannot be asked for any more.

use super::Failure;
use super::journal::{Journal, Made};
use gpusetup_fetch::cache::{self, BUNDLES, Cached, State};
use gpusetup_host::Toolkit;
use gpusetup_operation::runfile::RUN_FROM;
use gpusetup_operation::undo::Undo;
use gpusetup_operation::{Download, Operation, is_leftover};
use gpusetup_system::System;
use gpusetup_text::paths::BACKUPS;
use serde::Serialize;
use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

/// Something that can go.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct Unused {
    /// The file or the directory.
    pub path: PathBuf,
    /// What it is.
    pub kind: UnusedKind,
    /// The disk space that it takes, in bytes.
    pub bytes: u64,
}

/// What `prune --json` prints.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct Pruned {
    /// The name and version of this format.
    #[cfg_attr(feature = "schemas", schemars(extend("const" = SCHEMA)))]
    pub(crate) schema: &'static str,
    /// Whether it was removed, not only listed.
    pub(crate) removed: bool,
    /// The disk space of all of it, in bytes.
    pub(crate) bytes: u64,
    /// What nothing needs any more.
    pub(crate) unused: Vec<Unused>,
}

/// The schema that [`Pruned`] is printed in.
const SCHEMA: &str = "gpusetup.prune/1";

impl Pruned {
    /// What was found, and whether it was removed.
    pub fn of(unused: Vec<Unused>, removed: bool) -> Self {
        Self {
            schema: SCHEMA,
            removed,
            bytes: unused.iter().map(|one| one.bytes).sum(),
            unused,
        }
    }
}

/// The kinds of what can go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum UnusedKind {
    /// A download in the cache.
    Download,
    /// A download that was cut off, or that was not what it should be.
    BrokenDownload,
    /// Packages that came from a bundle.
    BundlePackages,
    /// A tree that a run which ended early left beside a toolkit.
    Leftover,
    /// The copy of a file for an undo that cannot be asked for any more.
    Backup,
}

/// Finds what can go. While an apply or a rollback is not finished, that is only what it does not
/// need.
///
/// # Errors
///
/// If the journal or the cache cannot be read.
pub fn unused(
    on: &System,
    cache: &Path,
    prefix: &Path,
    toolkits: &[Toolkit],
) -> Result<Vec<Unused>, Failure> {
    let journal = Journal::open(on)?;
    let failed = |what: &Path, e: &io::Error| {
        Failure::Blocked(format!("cannot read {}: {e}", what.display()))
    };
    let is_open = journal.open_apply().is_some() || journal.rolling_back().is_some();
    let needed = needed_downloads(&journal);
    let mut all = Vec::new();
    for Cached {
        path, size, state, ..
    } in cache::files(on, cache).map_err(|e| failed(cache, &e))?
    {
        let kind = match state {
            State::Part | State::Rejected => UnusedKind::BrokenDownload,
            State::Verified | State::Touched | State::Unknown => UnusedKind::Download,
        };
        // A partial download is resumed there.
        let name = path.to_string_lossy();
        let whole = name.strip_suffix(cache::PART).unwrap_or(&name);
        if !needed.contains(Path::new(whole)) {
            all.push(Unused {
                path,
                kind,
                bytes: size,
            });
        }
    }
    if !is_open {
        let in_cache = [
            (BUNDLES, UnusedKind::BundlePackages),
            (RUN_FROM, UnusedKind::Leftover),
        ];
        let there = in_cache
            .map(|(name, kind)| (cache.join(name), kind))
            .into_iter()
            .filter(|(path, _)| on.exists(path));
        all.extend(there.map(|(path, kind)| Unused::new(on, path, kind)));
        let leftovers = leftovers(on, prefix, toolkits).into_iter();
        all.extend(leftovers.map(|path| Unused::new(on, path, UnusedKind::Leftover)));
    }
    let used: BTreeSet<_> = journal
        .all_made()
        .iter()
        .chain(&journal.torn())
        .flat_map(backups)
        .collect();
    let copies = on
        .list(BACKUPS)
        .map_err(|e| failed(Path::new(BACKUPS), &e))?;
    let copies = copies
        .iter()
        .map(|name| Path::new(BACKUPS).join(name))
        .filter(|path| !used.contains(path));
    all.extend(copies.map(|path| Unused::new(on, path, UnusedKind::Backup)));
    Ok(all)
}

impl Unused {
    fn new(on: &System, path: PathBuf, kind: UnusedKind) -> Self {
        let bytes = on.usage(&path).bytes;
        Self { path, kind, bytes }
    }
}

/// The files that an apply which is not finished downloads, or has downloaded.
fn needed_downloads(journal: &Journal) -> BTreeSet<PathBuf> {
    let open = journal.open_apply();
    let acts = open.iter().flat_map(|open| open.plan.acts());
    acts.filter_map(|act| match &act.operation {
        Operation::Download(Download { to, .. }) => Some(to.clone()),
        _ => None,
    })
    .collect()
}

fn backups(made: &Made<'_>) -> Vec<PathBuf> {
    made.undo
        .iter()
        .filter_map(|undo| {
            if let Undo::Path { backup, .. } = undo {
                backup.clone()
            } else {
                None
            }
        })
        .collect()
}

/// Trees that were unpacked or moved aside below the prefix, and that a run did not live to put in
/// place or to delete.
fn leftovers(on: &System, prefix: &Path, toolkits: &[Toolkit]) -> BTreeSet<PathBuf> {
    let inside = toolkits
        .iter()
        .filter(|toolkit| toolkit.has_own_directory())
        .flat_map(|toolkit| {
            ["", "lib64", "include", "bin"].map(|folder| toolkit.path.join(folder))
        });
    let folders = std::iter::once(prefix.to_owned()).chain(inside);
    let found = folders
        .flat_map(|folder| {
            let names = on.list(&folder).unwrap_or_default();
            names
                .into_iter()
                .filter(|name| is_leftover(name))
                .map(move |name| folder.join(name))
        })
        .filter_map(|path| on.canonical(path).ok());
    found.collect()
}

/// Removes it.
///
/// # Errors
///
/// If it cannot be removed.
pub fn remove_unused(on: &System, unused: &Unused) -> io::Result<()> {
    match unused.kind {
        UnusedKind::Download | UnusedKind::BrokenDownload => cache::remove(on, &unused.path),
        UnusedKind::Backup => on.remove(&unused.path),
        UnusedKind::BundlePackages | UnusedKind::Leftover => {
            gpusetup_operation::remove::nothing_is_mounted_below(on, &unused.path)?;
            on.remove_tree(&unused.path)
        }
    }
}
