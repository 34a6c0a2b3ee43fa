//! The gpusetup that a boot runs: by its absolute path, at a place that only root can write to.

use crate::private::{Extent, private_directory};
use crate::system::trust::is_ours_alone;
use crate::system::{System, input};
use crate::text::quoted_path;
use std::path::{Path, PathBuf};

/// Where packages and administrators put it.
const PLACES: [&str; 2] = ["/usr/local/bin/gpusetup", "/usr/bin/gpusetup"];

/// There is no such gpusetup.
#[derive(Debug, thiserror::Error)]
#[error("no gpusetup is installed where only root can write, and a boot must not run another")]
pub(crate) struct NoBootProgram {
    /// The command that installs it.
    pub(crate) remedy: String,
}

/// The path of the gpusetup that boots of this host can run: of this program, or else where it is
/// usually installed.
pub(crate) fn installed(system: &System) -> Result<String, NoBootProgram> {
    let own = input::canonical(Path::new("/proc/self/exe"));
    let own = Some(own).filter(|_| system.is_live());
    let all = own.iter().cloned().chain(PLACES.map(PathBuf::from));
    match all.filter_map(|path| fit(system, &path)).next() {
        Some(path) => Ok(path),
        None => {
            let from = own.unwrap_or_else(|| "gpusetup".into());
            // In a tree the copy is made from here: a command with sudo would run in the tree.
            let to = system.root().join(PLACES[0].trim_start_matches('/'));
            let command = format!(
                "install -D -m 755 {} {}",
                quoted_path(&from),
                quoted_path(&to)
            );
            let sudo = if system.is_live() { "sudo " } else { "" };
            Err(NoBootProgram {
                remedy: format!("{sudo}{command}"),
            })
        }
    }
}

/// The path as text, if it is a file that only root can replace or change, and that a unit can name
/// without quotes.
fn fit(system: &System, path: &Path) -> Option<String> {
    let text = path.to_str().filter(|text| {
        text.chars()
            .all(|c| c.is_ascii_alphanumeric() || "/._+-".contains(c))
    })?;
    let folder = path.parent()?;
    let meta = system.open(path).and_then(|file| file.metadata()).ok()?;
    let only_root = meta.is_file()
        && is_ours_alone(&meta)
        && private_directory(system, folder, Extent::Path).is_ok();
    only_root.then(|| text.to_owned())
}
