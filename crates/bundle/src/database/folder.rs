//! A database in a folder named by the caller. Anyone who can write to the folder controls what is
//! installed.

use gpusetup_database::compat::{Database, LoadError, parse};
use gpusetup_system::input::{self, Entry, InputError};
use gpusetup_system::trust::Trust;
use std::io;
use std::path::{Path, PathBuf};

/// The size limit of a file, in bytes.
const MAX_FILE_BYTES: u64 = 4 << 20;
/// The limits of all files together: their total size, and their number.
const MAX_TOTAL_BYTES: usize = 16 << 20;
const MAX_FILES: usize = 10_000;
/// The deepest nesting of folders in a database.
const MAX_DEPTH: usize = 8;

/// Why the database in a folder is not used.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// One of its files is refused.
    #[error(transparent)]
    Input(#[from] InputError),
    /// One of its folders cannot be listed.
    #[error("cannot list {}: {source}", path.display())]
    List {
        /// The file or directory.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// Links to folders could form a cycle.
    #[error("{} is a link to a folder; a database must contain real folders", .0.display())]
    Link(PathBuf),
    /// It exceeds the limits.
    #[error("{} is not a database: it has too many files, or too large ones", .0.display())]
    TooLarge(PathBuf),
    /// Its facts are invalid.
    #[error(transparent)]
    Facts(#[from] LoadError),
}

/// Loads the database from a folder with `compat/` and `manifests/`, if every file belongs to a
/// trusted user.
///
/// # Errors
///
/// If it cannot be read, if others may write to it, or if a fact in it is wrong.
pub fn load(folder: &Path, trust: &Trust) -> Result<Database, FolderError> {
    let mut files = Vec::new();
    for kind in ["compat", "manifests"] {
        let path = folder.join(kind);
        if !is_directory(&path) {
            return Err(LoadError::NoDatabase {
                path: folder.to_owned(),
                folder: kind,
            }
            .into());
        }
        read(&path, folder, trust, MAX_DEPTH, &mut files)?;
    }
    files.sort();
    Ok(parse(
        files
            .iter()
            .map(|(name, text)| (name.as_str(), text.as_str())),
    )?)
}

fn is_directory(path: &Path) -> bool {
    input::metadata(path).is_some_and(|meta| meta.is_dir())
}

fn read(
    folder: &Path,
    top: &Path,
    trust: &Trust,
    deepest: usize,
    files: &mut Vec<(String, String)>,
) -> Result<(), FolderError> {
    // Checked before it is listed: from then on nobody else can add anything to it.
    input::open_any(folder, trust)?;
    let entries = input::entries(folder).map_err(|source| FolderError::List {
        path: folder.to_owned(),
        source,
    })?;
    for Entry {
        path,
        is_directory: deeper,
    } in entries
    {
        if deeper {
            if deepest > 0 {
                read(&path, top, trust, deepest - 1, files)?;
            }
        } else if is_directory(&path) {
            return Err(FolderError::Link(path));
        } else if path.extension().is_some_and(|e| e == "yaml") {
            let name = path
                .strip_prefix(top)
                .unwrap_or(&path)
                .display()
                .to_string();
            files.push((name, input::text(&path, MAX_FILE_BYTES, trust)?));
            let bytes: usize = files.iter().map(|(_, text)| text.len()).sum();
            if files.len() > MAX_FILES || bytes > MAX_TOTAL_BYTES {
                return Err(FolderError::TooLarge(top.to_owned()));
            }
        }
    }
    Ok(())
}
