//! `use cuda --module-files`: a module file for each toolkit.

use crate::host::{MODULE_MARK, Toolkit};
use crate::render::toolkit_shell::module_file;
use crate::system::trust::Trust;
use crate::system::{Node, System, input, output};
use std::io;
use std::path::{Path, PathBuf};

const MAX_MODULE_FILE_BYTES: u64 = 1 << 20;

/// Why no module files were written.
pub(crate) enum Failure {
    /// Something with the name of one is not gpusetup's.
    OfOthers(PathBuf),
    /// A file or a folder cannot be written.
    Unwritten(PathBuf, io::Error),
}

/// Where module files are.
trait Place {
    /// Creates a folder and its missing parents.
    fn make_directories(&self, folder: &Path) -> io::Result<()>;
    /// Replaces a file.
    fn write(&self, path: &Path, bytes: &[u8]) -> io::Result<()>;
    /// What stands at a path.
    fn standing(&self, path: &Path) -> Standing;
}

/// What stands where a module file goes.
enum Standing {
    Nothing,
    Text(String),
    /// A link, and what cannot be read as a text.
    Other,
}

/// A folder of this host that the caller names, who need not be root.
struct Here;

impl Place for Here {
    fn make_directories(&self, folder: &Path) -> io::Result<()> {
        output::make_directories(folder)
    }

    fn write(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        output::write(path, bytes)
    }

    fn standing(&self, path: &Path) -> Standing {
        if !output::is_taken(path) {
            return Standing::Nothing;
        }
        let text = (!input::is_link(path))
            .then(|| input::text(path, MAX_MODULE_FILE_BYTES, &Trust::Anybody).ok());
        text.flatten().map_or(Standing::Other, Standing::Text)
    }
}

/// A folder of a tree.
impl Place for System {
    fn make_directories(&self, folder: &Path) -> io::Result<()> {
        Self::make_directories(self, folder, 0o755).map(drop)
    }

    fn write(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        Self::write(self, path, bytes, 0o644)
    }

    fn standing(&self, path: &Path) -> Standing {
        match self.node(path) {
            Ok(Node::Absent) => Standing::Nothing,
            Ok(Node::File { .. }) => self
                .read_text(path)
                .ok()
                .flatten()
                .map_or(Standing::Other, Standing::Text),
            _ => Standing::Other,
        }
    }
}

/// Writes the module files of these toolkits as `cuda/12.8` in the folder, and returns their paths.
/// None is written if something that is not gpusetup's has the name of one.
pub(crate) fn write(
    system: &System,
    toolkits: &[&Toolkit],
    folder: &Path,
) -> Result<Vec<PathBuf>, Failure> {
    let place: &dyn Place = if system.is_live() { &Here } else { system };
    let folder = folder.join("cuda");
    let paths: Vec<_> = toolkits
        .iter()
        .map(|toolkit| folder.join(toolkit.version.series().to_string()))
        .collect();
    if let Some(path) = paths
        .iter()
        .find(|path| is_of_others(&place.standing(path)))
    {
        return Err(Failure::OfOthers(path.clone()));
    }
    place
        .make_directories(&folder)
        .map_err(|e| Failure::Unwritten(folder.clone(), e))?;
    for (toolkit, path) in toolkits.iter().zip(&paths) {
        let has_manuals = system.is_directory(toolkit.path.join("share/man"));
        let written = place.write(path, module_file(toolkit, has_manuals).as_bytes());
        written.map_err(|e| Failure::Unwritten(path.clone(), e))?;
    }
    Ok(paths)
}

/// Whether it is something that gpusetup did not write: a link, or a file without its mark.
fn is_of_others(standing: &Standing) -> bool {
    match standing {
        Standing::Nothing => false,
        Standing::Text(text) => !text.lines().any(|line| line == MODULE_MARK),
        Standing::Other => true,
    }
}
