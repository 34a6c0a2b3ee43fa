//! The versions of a lock file, as the package managers take them. apt would refuse to bring the dependencies of a package
//! that is not its candidate: it is told of all of them at once, in a file of preferences that holds for one transaction.

use super::{Packages, PackagesError};
use crate::compat::PackageManager;
use crate::operation::program::ProgramError;
use crate::packages::supply::Supply;
use crate::paths::{PINS, STATE};
use crate::system::{Program, System};
use std::collections::{BTreeMap, BTreeSet};
use std::io;

/// The host's own file.
pub const OWN: &str = "/etc/apt/preferences";

/// Above what any repository has by itself, and below what would put an older version over a newer one.
const PRIORITY: u16 = 990;

/// The options that have apt keep to them; none where nothing is locked.
pub fn options(wanted: &Packages) -> Vec<String> {
    if wanted.manager != PackageManager::Apt || wanted.versions.is_empty() {
        return Vec::new();
    }
    vec!["-o".to_owned(), format!("Dir::Etc::preferences={PINS}")]
}

/// Writes apt's file, with what the host's own file says behind it: the first word counts.
pub fn put(on: &System, wanted: &Packages) -> io::Result<()> {
    if options(wanted).is_empty() {
        return Ok(());
    }
    let own = on.read_text(OWN)?.unwrap_or_default();
    on.make_directories(STATE, 0o700)?;
    on.write(PINS, text(&wanted.versions, &own).as_bytes(), 0o600)
}

/// Removes it.
pub fn remove(on: &System, wanted: &Packages) -> io::Result<()> {
    if options(wanted).is_empty() { Ok(()) } else { on.remove(PINS) }
}

/// The text of such a file, with what the host's own file says behind it.
pub fn text(versions: &BTreeMap<String, String>, own: &str) -> String {
    let pin = |(name, version): (&String, &String)| {
        format!("Package: {name}\nPin: version {version}\nPin-Priority: {PRIORITY}\n\n")
    };
    versions.iter().map(pin).chain([own.to_owned()]).collect()
}

/// Locked packages of apt's that are neither here in their version nor to be had in it, by the lists that were fetched.
pub fn gone(on: &System, wanted: &Packages, supply: &Supply) -> Result<Vec<String>, PackagesError> {
    if options(wanted).is_empty() {
        return Ok(Vec::new());
    }
    let start = |source| ProgramError::Start { program: "apt-cache".to_owned(), source };
    let here = super::installed(on, wanted.manager).map_err(start)?;
    let rest = || wanted.versions.iter().filter(|(name, version)| here.get(*name) != Some(*version));
    let argv = ["apt-cache", "show"].map(str::to_owned).into_iter().chain(rest().map(|(n, v)| format!("{n}={v}")));
    // It ends with an error where it knows no more than some of them.
    let argv = supply.applied_to(wanted.manager, argv.collect());
    let shown = on.run(&Program::new(super::unwritten(argv))).map_err(start)?;
    let known = records(&shown.text);
    Ok(rest()
        .filter(|(n, v)| !known.contains(&(n.as_str(), v.as_str())))
        .map(|(n, v)| format!("{n} {v} (no repository has it)"))
        .collect())
}

/// The packages of apt's records, with their versions.
fn records(text: &str) -> BTreeSet<(&str, &str)> {
    let (mut found, mut package) = (BTreeSet::new(), "");
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("Package: ") {
            package = name;
        } else if let Some(version) = line.strip_prefix("Version: ") {
            found.insert((package, version));
        }
    }
    found
}

/// Packages that would come, or are there, in another version than the locked one: each with the two.
pub fn strangers(
    versions: &BTreeMap<String, String>,
    coming: &BTreeMap<String, String>,
    here: &BTreeMap<String, String>,
) -> Vec<String> {
    let stranger = |(name, locked): (&String, &String)| {
        let (version, place) = match (coming.get(name), here.get(name)) {
            (Some(version), _) => (version, "the repositories have"),
            (None, Some(version)) => (version, "there is"),
            (None, None) => return None,
        };
        // dnf's and zypper's may carry an epoch that rpm's own list leaves out.
        let same = version == locked || locked.split_once(':').is_some_and(|(_, rest)| rest == version);
        (!same).then(|| format!("{name} {locked} ({place} {version})"))
    };
    versions.iter().filter_map(stranger).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn versions(all: &[(&str, &str)]) -> BTreeMap<String, String> {
        all.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect()
    }

    #[test]
    fn what_differs_from_the_lock_is_named() {
        let locked = versions(&[("a", "1"), ("b", "2"), ("c", "3"), ("d", "1:4-1")]);
        let found = strangers(&locked, &versions(&[("a", "1"), ("b", "9")]), &versions(&[("b", "2"), ("d", "4-1")]));
        assert_eq!(found, ["b 2 (the repositories have 9)"]);
        assert_eq!(strangers(&locked, &versions(&[]), &versions(&[("c", "0")])), ["c 3 (there is 0)"]);
    }

    #[test]
    fn records_are_read() {
        let text = "Package: a\nVersion: 1\nDescription: x\n Version: 9\n\nPackage: b\nArchitecture: all\nVersion: 2\n";
        assert_eq!(records(text), BTreeSet::from([("a", "1"), ("b", "2")]));
    }

    #[test]
    fn each_manager_is_told_in_its_own_way() {
        let wanted = |manager| Packages {
            versions: versions(&[("a", "1")]),
            ..Packages::to_install(manager, vec!["a".to_owned(), "b".to_owned()])
        };
        assert_eq!(wanted(PackageManager::Dnf).with_versions(), ["a-1", "b"]);
        assert_eq!(wanted(PackageManager::Tdnf).with_versions(), ["a-1", "b"]);
        assert_eq!(wanted(PackageManager::Zypper).with_versions(), ["a=1", "b"]);
        assert_eq!(wanted(PackageManager::Apt).with_versions(), ["a=1", "b"]);
        assert_eq!(options(&wanted(PackageManager::Apt)).len(), 2);
        assert!(options(&wanted(PackageManager::Dnf)).is_empty());
        let text = text(&versions(&[("a", "1")]), "Package: *\nPin: release n=sid\nPin-Priority: 1\n");
        assert!(text.starts_with("Package: a\nPin: version 1\nPin-Priority: 990\n\nPackage: *\n"), "{text}");
    }
}
