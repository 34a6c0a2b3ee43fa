//! Where engines have their configuration files: in the usual places, or where their units say.

use super::files::{matching, parts};
use super::units::Start;
use gpusetup_database::compat::Engine;
use gpusetup_system::System;
use std::path::{Path, PathBuf};

/// The main file of an engine, or the one that an option names in its place.
pub(super) fn main(_: &System, engine: &Engine, starts: &[Start]) -> Vec<PathBuf> {
    match named_path(starts, &engine.start_options.config) {
        Some((_, path)) => vec![PathBuf::from(path)],
        None => engine.configs().map(Path::to_path_buf).collect(),
    }
}

/// The main file, and those of the folders beside it.
pub(super) fn with_parts(system: &System, engine: &Engine, starts: &[Start]) -> Vec<PathBuf> {
    let folders: Vec<_> = match named_path(starts, &engine.start_options.parts) {
        Some((_, folder)) => vec![Path::new(folder)],
        None => engine.parts().collect(),
    };
    let parts = folders
        .into_iter()
        .flat_map(|folder| parts(system, engine, folder));
    let main = main(system, engine, starts);
    main.into_iter().chain(parts).collect()
}

/// The files with options of K3s, RKE2 and Podman, which have no main file, or write it themselves.
pub(super) fn by_pattern(system: &System, engine: &Engine, starts: &[Start]) -> Vec<PathBuf> {
    let config = named_path(starts, &engine.start_options.config).map(|(_, path)| path);
    let patterns = engine
        .option_files
        .iter()
        .map(|pattern| instead(pattern, engine.option_files.first(), config));
    let mut files: Vec<_> = patterns
        .flat_map(|pattern| matching(system, Path::new(&pattern)))
        .collect();
    // Those of one folder count in the order of their names, whichever pattern they are of.
    files
        .chunk_by_mut(|a, b| a.parent() == b.parent())
        .for_each(<[PathBuf]>::sort);
    files
}

/// The path that options of the command lines name, with the file that has it.
pub(super) fn named_path<'s>(
    starts: &'s [Start],
    options: &[String],
) -> Option<(&'s Path, &'s str)> {
    let mut values = starts.iter().flat_map(|start| start.values(options));
    values.rfind(|(_, value)| value.starts_with('/'))
}

/// A path that begins with that of the usual file, with another file in its place:
/// `config.yaml.d/*.yaml`.
pub(super) fn instead(path: &str, usual: Option<&String>, file: Option<&str>) -> String {
    let rest = usual.and_then(|usual| path.strip_prefix(usual.as_str()));
    rest.zip(file)
        .map_or_else(|| path.to_owned(), |(rest, file)| format!("{file}{rest}"))
}
