//! Which driver packages the host's repositories offer, by the lists that its package manager has downloaded. Where that is
//! not known, the database's word stands.

use super::{Facts, Unreadable};
use crate::compat::Database;
use crate::packages::{self, Unknown, Versions};
use crate::system::System;
use std::collections::BTreeSet;

/// Driver packages by name, each with the version that would be installed: the locked one, if it can still be had. None if the
/// host's repositories have no drivers that the database knows, or if it is not known what they have.
pub fn offered(
    system: &System,
    facts: &Facts,
    database: &Database,
    locked: &Versions,
) -> Result<Option<Versions>, Unreadable> {
    let names = driver_packages(facts, database);
    let Some(manager) = facts.os.package_manager.filter(|_| !names.is_empty()) else { return Ok(None) };
    match packages::offered_versions(system, manager, &names, locked) {
        Ok(versions) => Ok(Some(versions)),
        Err(Unknown::NotFetched | Unknown::Outdated) => Ok(None),
        Err(why) => {
            Err(Unreadable { what: "what the repositories offer".to_owned(), why: why.to_string(), missing: None })
        }
    }
}

/// The same of packages that are at hand, by names and versions; none where there are none of this system.
pub fn offered_by(offers: Option<&Versions>, facts: &Facts, database: &Database) -> Option<Versions> {
    database.distribution(&facts.os.id, &facts.os.version, &facts.os.like)?;
    let names = driver_packages(facts, database);
    let known = offers?.iter().filter(|(name, _)| names.contains(name.as_str()));
    Some(known.map(|(name, version)| (name.clone(), version.clone())).collect())
}

/// The driver packages that the database knows of the host's distribution.
fn driver_packages<'a>(facts: &Facts, database: &'a Database) -> BTreeSet<&'a str> {
    let distribution = database.distribution(&facts.os.id, &facts.os.version, &facts.os.like);
    let drivers = distribution.into_iter().flat_map(|d| &d.drivers);
    let names = drivers.flat_map(|o| o.packages.iter().chain(&o.desktop_packages).chain(&o.fabric_manager));
    names.map(String::as_str).collect()
}
