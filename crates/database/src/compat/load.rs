//! Loads the YAML files: the one loader for the build, for `--database DIR` and for tests.

use super::{DataProblem, Database, Distribution, File, check};
use crate::sum::sha256;
use crate::yaml::{self, Mistake};
use std::path::{Path, PathBuf};

/// Why a database cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// A directory or a file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file or directory.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// A required folder is missing.
    #[error("{} is not a database: it has no folder {folder}/", path.display())]
    NoDatabase {
        /// The file or directory.
        path: PathBuf,
        /// The missing folder.
        folder: &'static str,
    },
    /// Files that do not match the format of their kind, with the first mistake in each.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Shape(Vec<Misshapen>),
    /// Facts that contradict each other or are impossible.
    #[error("{} wrong facts:\n{}", .0.len(), .0.iter().map(|p| format!("  {p}")).collect::<Vec<_>>().join("\n"))]
    Wrong(Vec<DataProblem>),
}

/// A place where a file does not match the format of its kind.
#[derive(Debug, thiserror::Error)]
#[error("{file}:{line}:{column}: {}{problem}", key.as_ref().map(|k| format!("{k}: ")).unwrap_or_default())]
pub struct Misshapen {
    /// The file, relative to the database's folder.
    pub(crate) file: String,
    /// The line, from 1; 0 for the whole file.
    pub(crate) line: u64,
    /// The column, from 1.
    pub(crate) column: u64,
    /// The key at or before that place.
    pub(crate) key: Option<String>,
    /// What is wrong.
    pub(crate) problem: String,
}

/// Loads the database from a folder with `compat/` and `manifests/`, and checks every fact in it.
///
/// # Errors
///
/// If a file cannot be read or does not match its format, or if facts contradict each other.
pub fn load(folder: &Path) -> Result<Database, LoadError> {
    let files = files(folder)?;
    parse(
        files
            .iter()
            .map(|(name, text)| (name.as_str(), text.as_str())),
    )
}

/// The files of a database's folder, by name, with their contents.
pub fn files(folder: &Path) -> Result<Vec<(String, String)>, LoadError> {
    let mut files = Vec::new();
    for kind in ["compat", "manifests"] {
        let path = folder.join(kind);
        if !path.is_dir() {
            return Err(LoadError::NoDatabase {
                path: folder.to_owned(),
                folder: kind,
            });
        }
        read_folder(&path, folder, &mut files)?;
    }
    files.sort();
    Ok(files)
}

fn read_folder(
    folder: &Path,
    top: &Path,
    files: &mut Vec<(String, String)>,
) -> Result<(), LoadError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| LoadError::Read { path, source }
    };
    for entry in std::fs::read_dir(folder).map_err(failed(folder))? {
        let path = entry.map_err(failed(folder))?.path();
        if path.is_dir() {
            read_folder(&path, top, files)?;
        } else if path.extension().is_some_and(|e| e == "yaml") {
            let name = path
                .strip_prefix(top)
                .unwrap_or(&path)
                .display()
                .to_string();
            files.push((name, std::fs::read_to_string(&path).map_err(failed(&path))?));
        }
    }
    Ok(())
}

/// Parses the database from these files, given as names and contents in the order of the names.
///
/// # Errors
///
/// If a file does not match its format, or if facts contradict each other.
pub fn parse<'a>(
    files: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Result<Database, LoadError> {
    let (mut all, mut summed, mut misshapes) = (File::default(), String::new(), Vec::new());
    let files: Vec<_> = files.into_iter().collect();
    for (name, text) in &files {
        summed += &format!("{name} {}\n", sha256(text));
        let file: File = match yaml::read(text) {
            Ok(file) => file,
            Err(e) => {
                misshapes.push(misshapen(name, text, e));
                continue;
            }
        };
        all.extend(file);
    }
    if !misshapes.is_empty() {
        return Err(LoadError::Shape(misshapes));
    }
    all.distributions
        .iter_mut()
        .for_each(Distribution::add_signed_offers);
    let database = all.into_database(sha256(summed));
    let mut problems = check::check(&database);
    problems
        .iter_mut()
        .for_each(|p| p.locate(files.iter().copied()));
    if problems.is_empty() {
        Ok(database)
    } else {
        Err(LoadError::Wrong(problems))
    }
}

fn misshapen(
    file: &str,
    text: &str,
    Mistake {
        line,
        column,
        problem,
    }: Mistake,
) -> Misshapen {
    // A missing key has no place: the text names it.
    let key = if problem.starts_with("missing field") {
        None
    } else {
        key_at(text, line, column)
    };
    Misshapen {
        file: file.to_owned(),
        line,
        column,
        key,
        problem,
    }
}

/// The key at a place: the last `key:` that starts at or before it in its line.
fn key_at(text: &str, line: u64, column: u64) -> Option<String> {
    let line = text
        .lines()
        .nth(usize::try_from(line.checked_sub(1)?).ok()?)?;
    let column = usize::try_from(column).ok()?;
    let mut key = None;
    for (colon, _) in line
        .match_indices(": ")
        .chain(line.ends_with(':').then(|| (line.len() - 1, ":")))
    {
        let start = line[..colon]
            .rfind(|c: char| !c.is_alphanumeric() && c != '_')
            .map_or(0, |n| n + 1);
        if start < colon && line[..start].chars().count() < column {
            key = Some(line[start..colon].to_owned());
        }
    }
    key
}
