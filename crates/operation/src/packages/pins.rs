//! The versions of a lock file, as the package managers take them: on the command line, or in a
//! file of preferences that holds for one transaction.

use super::{Packages, PackagesError};
use crate::program::ProgramError;
use gpusetup_packages::package_source::PackageSource;
use gpusetup_packages::{Preferences, of, words};
use gpusetup_system::System;
use gpusetup_text::paths::{PINS, STATE};
use std::collections::BTreeMap;
use std::io;

/// The manager's preferences, if versions are locked and it is told of them there.
fn preferences(wanted: &Packages) -> Option<&'static Preferences> {
    of(wanted.manager)
        .preferences
        .as_ref()
        .filter(|_| !wanted.versions.is_empty())
}

/// The options that have the manager keep to its preferences; none where it has none.
pub(crate) fn options(wanted: &Packages) -> Vec<String> {
    preferences(wanted)
        .map(|preferences| (preferences.options)(PINS))
        .unwrap_or_default()
}

/// Writes the file of preferences, with what the host's own file says.
pub(crate) fn put(on: &System, wanted: &Packages) -> io::Result<()> {
    let Some(preferences) = preferences(wanted) else {
        return Ok(());
    };
    let own = on.read_text(preferences.own)?.unwrap_or_default();
    on.make_directories(STATE, 0o700)?;
    on.write(
        PINS,
        (preferences.text)(&wanted.versions, &own).as_bytes(),
        0o600,
    )
}

/// Removes it.
pub(crate) fn remove(on: &System, wanted: &Packages) -> io::Result<()> {
    if preferences(wanted).is_some() {
        on.remove(PINS)
    } else {
        Ok(())
    }
}

/// Locked packages that are neither here in their version nor to be had in it, by the lists that
/// were fetched. It is not known of managers that have no preferences.
pub(crate) fn gone(
    on: &System,
    wanted: &Packages,
    source: &PackageSource,
) -> Result<Vec<String>, PackagesError> {
    let Some(preferences) = preferences(wanted) else {
        return Ok(Vec::new());
    };
    let (manager, here) = (
        of(wanted.manager),
        super::installed(on, wanted.manager).map_err(ProgramError::start(preferences.show))?,
    );
    let rest = wanted.versions.iter();
    let rest = rest.filter(|(name, version)| here.get(*name) != Some(*version));
    let argv = words(preferences.show)
        .into_iter()
        .chain(rest.clone().map(|(n, v)| manager.exactly(n, v)));
    let argv = source.applied_to(wanted.manager, argv.collect());
    let shown = on
        .run(&super::looking(wanted.manager, argv))
        .map_err(ProgramError::start(preferences.show))?;
    let known = (preferences.shown)(&shown.text);
    Ok(rest
        .filter(|(n, v)| !known.contains(&(n.as_str(), v.as_str())))
        .map(|(n, v)| format!("{n} {v} (no repository has it)"))
        .collect())
}

/// Packages that would come, or are there, in another version than the locked one: each with the
/// two.
pub(crate) fn strangers(
    versions: &BTreeMap<String, String>,
    coming: &BTreeMap<String, String>,
    here: &BTreeMap<String, String>,
) -> Vec<String> {
    let strangers = versions.iter().filter_map(|(name, locked)| {
        let (version, place) = match (coming.get(name), here.get(name)) {
            (Some(version), _) => (version, "the repositories have"),
            (None, Some(version)) => (version, "there is"),
            (None, None) => return None,
        };
        // dnf's and zypper's may carry an epoch that rpm's own list leaves out.
        let same = version == locked
            || locked
                .split_once(':')
                .is_some_and(|(_, rest)| rest == version);
        (!same).then(|| format!("{name} {locked} ({place} {version})"))
    });
    strangers.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpusetup_database::compat::PackageManager;

    fn versions(all: &[(&str, &str)]) -> BTreeMap<String, String> {
        all.iter()
            .map(|(n, v)| ((*n).to_owned(), (*v).to_owned()))
            .collect()
    }

    #[test]
    fn what_differs_from_the_lock_is_named() {
        let locked = versions(&[("a", "1"), ("b", "2"), ("c", "3"), ("d", "1:4-1")]);
        let found = strangers(
            &locked,
            &versions(&[("a", "1"), ("b", "9")]),
            &versions(&[("b", "2"), ("d", "4-1")]),
        );
        assert_eq!(found, ["b 2 (the repositories have 9)"]);
        assert_eq!(
            strangers(&locked, &versions(&[]), &versions(&[("c", "0")])),
            ["c 3 (there is 0)"]
        );
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
    }
}
