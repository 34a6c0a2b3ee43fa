//! The database in a folder that the caller names. Whoever can write there says what is installed.

use crate::compat::{Database, LoadError, parse};
use crate::system::input::{self, Entry, InputError};
use crate::system::trust::Trust;
use std::io;
use std::path::{Path, PathBuf};

/// No file of a database is longer, in bytes.
const MOST_BYTES: u64 = 16 << 20;
/// Nor are all its files together, nor are there more of them.
const MOST_IN_ALL: usize = 64 << 20;
const MOST_FILES: usize = 10_000;
/// Folders within folders; there are no deeper ones in any database.
const DEEPEST: usize = 8;

/// Why a folder's database is not used.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// A file of it is not read.
    #[error(transparent)]
    Input(#[from] InputError),
    /// A folder of it cannot be listed.
    #[error("cannot list {}: {source}", path.display())]
    List {
        /// The file or directory.
        path: PathBuf,
        /// What the system says about it.
        source: io::Error,
    },
    /// It could lead around in a circle.
    #[error("{} is a link to a folder, where a folder is to be", .0.display())]
    Link(PathBuf),
    /// It is larger than any.
    #[error("{} is no database: it has too many files, or too large ones", .0.display())]
    TooLarge(PathBuf),
    /// What it says cannot be.
    #[error(transparent)]
    Facts(#[from] LoadError),
}

/// The database in a folder that has `compat/` and `manifests/`, if every file of it belongs to somebody who is trusted.
///
/// # Errors
///
/// If it cannot be read, others may write to it, or a fact in it is wrong.
pub fn load(folder: &Path, trust: &Trust) -> Result<Database, FolderError> {
    let mut files = Vec::new();
    for kind in ["compat", "manifests"] {
        let path = folder.join(kind);
        if !is_directory(&path) {
            return Err(LoadError::NoDatabase { path: folder.to_owned(), folder: kind }.into());
        }
        read(&path, folder, trust, DEEPEST, &mut files)?;
    }
    files.sort();
    Ok(parse(files.iter().map(|(name, text)| (name.as_str(), text.as_str())))?)
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
    // Judged before it is listed: from then on nobody else can put anything into it.
    input::open_any(folder, trust)?;
    let failed = |source| FolderError::List { path: folder.to_owned(), source };
    for Entry { path, is_directory: deeper } in input::entries(folder).map_err(failed)? {
        if deeper {
            if deepest > 0 {
                read(&path, top, trust, deepest - 1, files)?;
            }
        } else if is_directory(&path) {
            return Err(FolderError::Link(path));
        } else if path.extension().is_some_and(|e| e == "yaml") {
            let name = path.strip_prefix(top).unwrap_or(&path).display().to_string();
            files.push((name, input::text(&path, MOST_BYTES, trust)?));
            let bytes: usize = files.iter().map(|(_, text)| text.len()).sum();
            if files.len() > MOST_FILES || bytes > MOST_IN_ALL {
                return Err(FolderError::TooLarge(top.to_owned()));
            }
        }
    }
    Ok(())
}
