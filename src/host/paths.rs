//! What stands at the paths that gpusetup may write.

use super::PathState;
use super::probe::Notes;
use crate::plan::{BLACKLIST, LOADER_PATH, PROFILE};
use crate::system::System;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Their states.
pub fn probe(system: &System, prefix: &Path, notes: &mut Notes) -> BTreeMap<PathBuf, PathState> {
    let paths = [PathBuf::from(BLACKLIST), PathBuf::from(LOADER_PATH), PathBuf::from(PROFILE), prefix.join("cuda")];
    let state = |path: PathBuf| {
        let node = notes.take(&path.display().to_string(), system.node(&path))?;
        let modified = system.modified(&path);
        Some((path, PathState { node, modified }))
    };
    paths.into_iter().filter_map(state).collect()
}
