//! dnf's version locks. dnf 4 needs a plugin for them, dnf 5 does not; their files differ.

use crate::abilities::Holds;
use crate::{Unknown, configuration, held_by_gpusetup, rpm};
use gpusetup_system::System;
use std::collections::BTreeSet;
use std::io;
use std::path::Path;

/// dnf 4's list: a line `NAME-EPOCH:VERSION-RELEASE.*` for each package.
const LIST: &str = "/etc/dnf/plugins/versionlock.list";
/// dnf 5's tables: each with a line `name = "NAME"`.
const TABLES: &str = "/etc/dnf/versionlock.toml";

/// Without repositories, dnf locks the installed version and downloads nothing.
pub(crate) const HOLDS: Holds = Holds {
    hold: "dnf -y -q --disablerepo=* versionlock add",
    release: "dnf -y -q --disablerepo=* versionlock delete",
    held: |system| locked(system).map_err(io::Error::other),
    tool: Some("python3-dnf-plugin-versionlock"),
    kernels: &[
        "kernel",
        "kernel-core",
        "kernel-modules*",
        "kernel-devel*",
        "kernel-headers",
        "kernel-uek*",
        "kernel-rt*",
        "kernel-uki*",
        "kernel6.*",
        "kernel-64k*",
    ],
    list: rpm::NAMES,
};

/// Refuses locks that are not gpusetup's own. Those are released before a change, so they hide no
/// offer.
pub(crate) fn only_our_own(system: &System) -> Result<(), Unknown> {
    let ours = held_by_gpusetup(system).map_err(|e| Unknown::at(LIST, e))?;
    match locked(system)?.iter().find(|name| !ours.contains(*name)) {
        Some(_) => Err(Unknown::at(LIST, "locked versions are not supported")),
        None => Ok(()),
    }
}

/// The names of the locked packages.
fn locked(system: &System) -> Result<BTreeSet<String>, Unknown> {
    let (list, tables) = (
        configuration(system, Path::new(LIST))?,
        configuration(system, Path::new(TABLES))?,
    );
    let entries = list
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with('#'));
    let in_tables = tables.lines().filter_map(|line| {
        let (key, value) = line.split_once('=')?;
        (key.trim() == "name").then(|| value.trim().trim_matches('"').to_owned())
    });
    Ok(entries.map(name).chain(in_tables).collect())
}

/// The package's name in a line of the list.
fn name(entry: &str) -> String {
    entry.rsplitn(3, '-').nth(2).unwrap_or(entry).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpusetup_text::paths::HELD;

    #[test]
    fn locks_of_both_dnfs_are_read() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let on = System::at(dir.path());
        assert_eq!(locked(&on).expect("none"), BTreeSet::new());
        on.make_directories("/etc/dnf/plugins", 0o755)
            .expect("made");
        let list = "# added\nnvidia-driver-cuda-3:580.95.05-1.el9.*\n\n!kernel-0:5.14.0-1.*\nodd\n";
        on.write(LIST, list.as_bytes(), 0o644).expect("written");
        let tables = "version = \"1.0\"\n\n[[packages]]\nname = \"nvidia-imex\"\n[[packages.conditions]]\nkey = \"evr\"\n";
        on.write(TABLES, tables.as_bytes(), 0o644).expect("written");
        let names: Vec<_> = locked(&on).expect("read").into_iter().collect();
        assert_eq!(
            names,
            ["!kernel", "nvidia-driver-cuda", "nvidia-imex", "odd"]
        );
        assert!(only_our_own(&on).is_err());
        on.make_directories("/var/lib", 0o755).expect("made");
        on.write(HELD, names.join("\n").as_bytes(), 0o644)
            .expect("written");
        assert!(only_our_own(&on).is_ok());
    }
}
