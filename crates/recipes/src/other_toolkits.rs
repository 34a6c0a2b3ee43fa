//! What puts another toolkit before the default one: lines of the files that shells read, and of
//! those of the loader.

use super::path_lines::preferred;
use gpusetup_host::{Facts, PathFile, PathFiles, Syntax, Toolkit};
use gpusetup_text::paths::LOADER_PATH;
use gpusetup_text::text::{all_of, quoted_path};
use std::path::{Path, PathBuf};

/// The files, each with what it does as a clause. `link` leads to the default toolkit, or will.
pub fn before_default(
    facts: &Facts,
    files: &PathFiles,
    default: &Toolkit,
    link: &Path,
) -> Vec<(PathBuf, String)> {
    let others = facts.toolkits.iter().filter(|other| {
        other.has_own_directory() && other.path != default.path && other.path != link
    });
    let others: Vec<_> = others.collect();
    let pairs = files
        .read
        .iter()
        .flat_map(|file| others.iter().map(move |other| (file, *other)));
    let of_shells = pairs.flat_map(|(file, other)| in_shells(file, other, default, link));
    of_shells
        .chain(in_loader(facts, files, default, link))
        .collect()
}

/// What to do about such a file.
pub fn default_first(file: &Path, link: &Path) -> String {
    match file.starts_with("/etc/ld.so.conf") || file.starts_with("/etc/ld.so.conf.d") {
        true => "remove the line, and run `sudo ldconfig`".to_owned(),
        false => format!("change it to {}, or remove it", quoted_path(link)),
    }
}

/// What a file makes shells find of another toolkit: its programs first, and what variables name.
fn in_shells(
    file: &PathFile,
    other: &Toolkit,
    default: &Toolkit,
    link: &Path,
) -> Vec<(PathBuf, String)> {
    let mut found = preferred(file, &other.path, &[default.path.as_path(), link]);
    let (shown, version) = (quoted_path(&file.path), other.version);
    let on_path = found.remove("PATH").map(|line| {
        format!(
            "{shown} (line {line}) puts CUDA {version} before the default toolkit: shells that read it find that nvcc"
        )
    });
    let variables: Vec<_> = found
        .iter()
        .map(|(name, line)| format!("{name} (line {line})"))
        .collect();
    let in_variables = (!variables.is_empty()).then(|| {
        let variables = all_of(&variables);
        format!(
            "{shown} sets {variables} to CUDA {version}: in shells that read it, builds and programs use that toolkit"
        )
    });
    on_path
        .into_iter()
        .chain(in_variables)
        .map(|clause| (file.path.clone(), clause))
        .collect()
}

/// A directory that the loader searches, and the line that says so.
struct Searched<'f> {
    file: &'f Path,
    line: usize,
    directory: &'f Path,
}

/// The lines that have the loader search the libraries of another toolkit first.
fn in_loader(
    facts: &Facts,
    files: &PathFiles,
    default: &Toolkit,
    link: &Path,
) -> Vec<(PathBuf, String)> {
    let searched = searched_first(files).into_iter();
    let known =
        searched.filter_map(|at| Some((toolkit_of(at.directory, facts, default, link)?, at)));
    let others = known.take_while(|(toolkit, _)| toolkit.path != default.path);
    let clauses = others.map(|(other, at)| {
        let clause = format!(
            "{} (line {}) puts the libraries of CUDA {} before those of the default toolkit: of two with the same name, programs \
             load these",
            quoted_path(at.file),
            at.line,
            other.version
        );
                (at.file.to_owned(), clause)
    });
    clauses.collect()
}

/// The directories that the loader searches before that in gpusetup's file, in its order. It reads
/// the files of a folder in the order of their names.
fn searched_first(files: &PathFiles) -> Vec<Searched<'_>> {
    const MAIN: &str = "/etc/ld.so.conf";
    let ours = Path::new(LOADER_PATH);
    let before_ours = files.read.iter().filter(|file| {
        file.syntax == Some(Syntax::Loader)
            && file.path.parent() == ours.parent()
            && file.path.as_path() < ours
    });
    let mut before_ours: Vec<_> = before_ours.collect();
    before_ours.sort_by_key(|file| &file.path);
    let mut all = Vec::new();
    let Some(main) = files.read.iter().find(|file| file.path == Path::new(MAIN)) else {
        return all;
    };
    let end = main.text.lines().position(includes_folder);
    all.extend(directories(main).filter(|at| end.is_none_or(|end| at.line <= end)));
    if end.is_some() {
        all.extend(before_ours.into_iter().flat_map(directories));
    }
    all
}

/// Whether a line of `/etc/ld.so.conf` reads gpusetup's file. RHEL writes the pattern without
/// `/etc/`.
fn includes_folder(line: &str) -> bool {
    let mut words = line
        .split('#')
        .next()
        .unwrap_or_default()
        .split_whitespace();
    words.next() == Some("include")
        && words
            .any(|pattern| Path::new("/etc").join(pattern) == Path::new("/etc/ld.so.conf.d/*.conf"))
}

fn directories(file: &PathFile) -> impl Iterator<Item = Searched<'_>> {
    let lines = (1..).zip(file.text.lines());
    lines.filter_map(|(line, text)| {
        let directory = text.split('#').next().unwrap_or_default().trim();
        directory.starts_with('/').then(|| Searched {
            file: &file.path,
            line,
            directory: Path::new(directory),
        })
    })
}

/// The toolkit whose libraries are in a directory.
fn toolkit_of<'t>(
    directory: &Path,
    facts: &'t Facts,
    default: &'t Toolkit,
    link: &Path,
) -> Option<&'t Toolkit> {
    directory.ancestors().skip(1).find_map(|home| {
        let inner = directory.strip_prefix(home).ok()?;
        let has_libraries = ["lib64", "lib"].iter().any(|name| inner == Path::new(name))
            || inner.starts_with("targets") && inner.ends_with("lib");
        if !has_libraries {
            return None;
        }
        if home == link {
            return Some(default);
        }
        let by_path = facts.toolkits.iter().find(|toolkit| toolkit.path == home);
        by_path
            .or_else(|| facts.toolkit_behind(home))
            .filter(|toolkit| toolkit.has_own_directory())
    })
}
