//! Which packages that a plan may install the host's repositories offer, by the lists that its package manager has downloaded. Where that is
//! not known, the database's word stands.

use super::{Facts, Unreadable};
use crate::compat::{Database, Distribution, PackageManager};
use crate::packages::{self, Unknown, Versions};
use crate::system::System;
use std::collections::BTreeSet;

/// Packages by name, each with the version that would be installed: the locked one, if it can still be had. None if the database
/// knows no packages of the host's distribution, or if it is not known what its repositories have.
pub fn offered(
    system: &System,
    facts: &Facts,
    database: &Database,
    locked: &Versions,
) -> Result<Option<Versions>, Unreadable> {
    let names = packages_of_interest(facts, database);
    let Some(manager) = facts.os.package_manager.filter(|_| !names.is_empty()) else { return Ok(None) };
    let names = names.iter().map(String::as_str).collect();
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
    let names = packages_of_interest(facts, database);
    let known = offers?.iter().filter(|(name, _)| names.contains(name.as_str()));
    Some(known.map(|(name, version)| (name.clone(), version.clone())).collect())
}

/// The driver packages that the database knows of the host's distribution, the headers of its kernel, and what only extra
/// repositories have.
fn packages_of_interest(facts: &Facts, database: &Database) -> BTreeSet<String> {
    let Some(distribution) = database.distribution(&facts.os.id, &facts.os.version, &facts.os.like) else {
        return BTreeSet::new();
    };
    let of_driver =
        distribution.drivers.iter().flat_map(|o| o.packages.iter().chain(&o.desktop_packages).chain(&o.fabric_manager));
    let extra = distribution.extra_repositories.iter().flat_map(|r| &r.packages);
    of_driver.chain(extra).cloned().chain(kernel_headers(facts, distribution)).collect()
}

/// The packages with the headers of the kernel that will run. Only apt has a separate name for each kernel.
pub fn kernel_headers(facts: &Facts, distribution: &Distribution) -> Vec<String> {
    let kernel = facts.kernel().filter(|_| distribution.package_manager == PackageManager::Apt);
    kernel.into_iter().flat_map(|release| distribution.headers_of(release)).collect()
}
