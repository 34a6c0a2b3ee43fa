//! Lines that put the programs of a toolkit first on the PATH of shells.

use super::{is_comment, references, without_export};
use crate::host::PathFile;
use std::path::Path;

/// The first line that puts the programs of a toolkit before the PATH that there is.
pub fn first_on_path(file: &PathFile, toolkit: &Path) -> Option<usize> {
    let lines = || (1..).zip(file.text.lines());
    // `/etc/profile` runs the files of its folder in the middle.
    let is_profile = file.path == Path::new("/etc/profile");
    let runs_folder = |(_, line): &(usize, &str)| is_profile && line.contains("/etc/profile.d");
    let first = lines().filter(runs_folder).last().map_or(0, |(number, _)| number);
    let mut names = vec![toolkit.display().to_string()];
    for (number, line) in lines().filter(|(_, line)| !is_comment(line)) {
        if number > first && puts_first(line, &names) {
            return Some(number);
        }
        let Some((variable, value)) = without_export(line).split_once('=') else { continue };
        let uses = references(variable);
        names.retain(|name| !uses.contains(name));
        if names.iter().any(|name| name.as_str() == value.trim_end().trim_matches(['"', '\''])) {
            names.extend(uses);
        }
    }
    None
}

/// Whether a line of a shell puts the programs of a directory with one of these names first:
/// `PATH=/usr/local/cuda-12.4/bin:$PATH`, `pathmunge /usr/local/cuda-12.4/bin`.
fn puts_first(line: &str, names: &[String]) -> bool {
    let is_first = |before: &str, after: &str| {
        let is_whole = !after.starts_with(|c: char| c.is_ascii_alphanumeric() || "._-/".contains(c));
        let is_assigned = before.rsplit_once("PATH=").is_some_and(|(start, value)| {
            let is_at_start = value.is_empty() || value.ends_with([':', '"', '\'']);
            let is_other_list = start.ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
            is_at_start && !is_other_list && !value.contains([' ', ';']) && !value.contains("PATH")
        });
        is_whole && (is_assigned || before.trim_start() == "pathmunge " && !after.contains("after"))
    };
    names
        .iter()
        .map(|name| format!("{name}/bin"))
        .any(|bin| line.match_indices(bin.as_str()).any(|(at, _)| is_first(&line[..at], &line[at + bin.len()..])))
}
