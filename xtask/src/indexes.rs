//! The `Packages` indexes of Debian's and Ubuntu's archives, in the folder to which apt downloads them,
//! by default /var/lib/apt/lists. apt verifies their signatures.

use crate::Result;
use std::fs;
use std::path::{Path, PathBuf};

/// An index.
pub struct Index {
    pub suite: String,
    pub component: String,
    /// Debian's name of the architecture: `amd64`.
    pub architecture: String,
    path: PathBuf,
}

impl Index {
    pub fn text(&self) -> Result<String> {
        fs::read_to_string(&self.path).map_err(|e| format!("{}: {e}", self.path.display()))
    }
}

/// The indexes in a folder. Their files are named
/// `<archive>_dists_<suite>_<component>_binary-<architecture>_Packages`.
pub fn indexes(folder: &Path) -> Result<Vec<Index>> {
    let failed = |e: std::io::Error| format!("{}: {e}", folder.display());
    let mut all = Vec::new();
    for file in fs::read_dir(folder).map_err(failed)? {
        let path = file.map_err(failed)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let Some((_, index)) = name
            .strip_suffix("_Packages")
            .and_then(|name| name.split_once("_dists_"))
        else {
            continue;
        };
        let [suite, component, architecture] = index.split('_').collect::<Vec<_>>()[..] else {
            return Err(format!("{name} is not the name of an index"));
        };
        all.push(Index {
            suite: suite.to_owned(),
            component: component.to_owned(),
            architecture: architecture.trim_start_matches("binary-").to_owned(),
            path: path.clone(),
        });
    }
    Ok(all)
}
