//! The enabled package repositories of a host, from the files of its package manager.

use super::reader::Reader;
use gpusetup_database::compat::{OF_TOOLKIT, PackageManager};
use gpusetup_packages::Repositories;
use gpusetup_text::text::without_logins;
use std::collections::BTreeSet;
use std::path::Path;

const WHAT: &str = "package repositories";

/// How many repositories are read. Red Hat's list for a subscription has some hundred.
const MAX_LINES: usize = 10_000;

/// The enabled repositories, one line each in the package manager's format ([`Repositories`]),
/// without the logins of their addresses: facts are for others to read.
pub(crate) fn repositories(reader: &mut Reader, manager: Option<PackageManager>) -> Vec<String> {
    let files = manager.map_or(&[][..], |manager| {
        gpusetup_packages::of(manager).repositories
    });
    let mut lines = Vec::new();
    for files in files {
        lines.extend(read(reader, files).into_iter().take(MAX_LINES));
        if lines.len() >= MAX_LINES {
            reader.system.leave_out(
                files.path,
                &format!("it has more than {MAX_LINES} repositories"),
            );
            break;
        }
    }
    let mut seen = BTreeSet::new();
    lines.retain(|line| seen.insert(line.clone()));
    lines
        .iter()
        .map(|line| without_logins(line).into_owned())
        .collect()
}

fn read(reader: &mut Reader, files: &Repositories) -> Vec<String> {
    let Some(ending) = files.ending else {
        return reader
            .text(WHAT, files.path)
            .map(|text| (files.read)(&text))
            .unwrap_or_default();
    };
    // gpusetup's source of toolkits has nothing else, so it is no repository of drivers.
    let of_toolkits = format!("{OF_TOOLKIT}{ending}");
    let names = reader.names(WHAT, files.path).into_iter().filter(|name| {
        let is_of_toolkits = name.starts_with("gpusetup-") && name.ends_with(&of_toolkits);
        name.ends_with(ending) && !is_of_toolkits
    });
    let texts = names.filter_map(|name| reader.text(WHAT, Path::new(files.path).join(name)));
    texts
        .flat_map(|text| (files.read)(&text))
        .take(MAX_LINES)
        .collect()
}
