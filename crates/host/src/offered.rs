//! Which of the packages that a plan may install are offered by the host's repositories, according
//! to the lists that its package manager has downloaded. If that is not known, the database
//! decides.

use super::{Facts, SecureBoot, Unreadable};
use gpusetup_database::compat::{Database, Distribution, PackageManager, VersionRule};
use gpusetup_database::version::DriverVersion;
use gpusetup_packages::{KernelHeaders, Unknown, Versions};
use gpusetup_system::System;
use std::collections::{BTreeMap, BTreeSet};

/// Adds the packages that the host's repositories offer to its facts, or the reason why they are
/// not known.
pub fn add_offers(system: &System, facts: &mut Facts, database: &Database, locked: &Versions) {
    match offered(system, facts, database, locked) {
        Ok(versions) => facts.offered = versions,
        Err(why) => facts.unreadable.push(why),
    }
    facts.signed_drivers = offered_signed_drivers(system, facts, database);
}

fn offered_signed_drivers(
    system: &System,
    facts: &Facts,
    database: &Database,
) -> BTreeMap<String, DriverVersion> {
    let distribution = database.distribution(&facts.os.id, &facts.os.version, &facts.os.like);
    let (Some(distribution), Some(offered)) = (distribution, &facts.offered) else {
        return BTreeMap::new();
    };
    let listed = offered.iter().filter(|(name, _)| {
        let mut offers = distribution.drivers.iter();
        offers.any(|offer| offer.has_signed_modules(name))
    });
    let listed = listed
        .map(|(name, version)| (name.clone(), version.clone()))
        .collect();
    signed_drivers(system, distribution.package_manager, &listed)
}

/// The drivers that packages with signed modules are for, by package, as far as their dependencies
/// show them.
pub fn signed_drivers(
    system: &System,
    manager: PackageManager,
    modules: &Versions,
) -> BTreeMap<String, DriverVersion> {
    if modules.is_empty() {
        return BTreeMap::new();
    }
    // The same lists were read just now.
    let dependencies =
        gpusetup_packages::dependencies(system, manager, modules).unwrap_or_default();
    dependencies
        .into_iter()
        .filter_map(|(name, depends)| Some((name, driver_in(&depends)?)))
        .collect()
}

/// What a driver's packages share with its modules: packages of modules depend on it in the
/// driver's version or a newer one.
const SHARED_FILES: &str = "nvidia-kernel-common-";

/// The driver in the dependencies of its modules: 580.142 in `nvidia-kernel-common-580 (>=
/// 580.142)`. The dependency alone would allow newer drivers, but modules work only with the
/// libcuda of the same version.
fn driver_in(depends: &str) -> Option<DriverVersion> {
    let bounds = depends
        .split(',')
        .filter_map(|one| one.trim().strip_prefix(SHARED_FILES)?.split_once("(>= "));
    bounds
        .filter_map(|(_, version)| {
            gpusetup_packages::upstream(version.trim_end_matches(')'))
                .parse()
                .ok()
        })
        .max()
}

/// Packages by name, each with the version that would be installed: the locked one, if it is still
/// available. None if the database knows no packages for the host's distribution, or if the
/// contents of its repositories are not known.
pub(crate) fn offered(
    system: &System,
    facts: &Facts,
    database: &Database,
    locked: &Versions,
) -> Result<Option<Versions>, Unreadable> {
    let names = packages_of_interest(facts, database);
    let Some(manager) = facts.os.package_manager.filter(|_| !names.is_empty()) else {
        return Ok(None);
    };
    let names = names.iter().map(String::as_str).collect();
    match gpusetup_packages::offered_versions(system, manager, &names, locked) {
        Ok(versions) => Ok(Some(versions)),
        Err(Unknown::NotFetched | Unknown::Outdated) => Ok(None),
        Err(why) => Err(Unreadable {
            what: "the packages that the repositories offer".to_owned(),
            why: why.to_string(),
            missing: None,
            limit: None,
        }),
    }
}

/// The same for local packages, given by names and versions; none if there are none for this
/// system.
pub fn offered_by(
    offers: Option<&Versions>,
    facts: &Facts,
    database: &Database,
) -> Option<Versions> {
    database.distribution(&facts.os.id, &facts.os.version, &facts.os.like)?;
    let names = packages_of_interest(facts, database);
    let known = offers?
        .iter()
        .filter(|(name, _)| names.contains(name.as_str()));
    Some(
        known
            .map(|(name, version)| (name.clone(), version.clone()))
            .collect(),
    )
}

/// The driver packages that the database knows for the host's distribution, companions of
/// independent versions, the headers of its kernel, packages that only extra repositories have, and
/// container engines.
fn packages_of_interest(facts: &Facts, database: &Database) -> BTreeSet<String> {
    let Some(distribution) = database.distribution(&facts.os.id, &facts.os.version, &facts.os.like)
    else {
        return BTreeSet::new();
    };
    let of_driver = distribution.drivers.iter().flat_map(|o| {
        o.packages
            .iter()
            .chain(&o.desktop_packages)
            .chain(o.companions.values())
    });
    let manager = distribution.package_manager;
    let independent = database
        .companions
        .iter()
        .filter(|of| of.version == VersionRule::Own);
    let independent = independent.flat_map(|of| &of.packages);
    let independent = independent
        .filter(|p| p.package_manager.is_none_or(|of| of == manager))
        .map(|p| &p.name);
    // They are known by their versions only for a plan about containers.
    let is_for_containers = facts.container_host.is_some();
    let toolkits = database
        .container_toolkits
        .iter()
        .flat_map(|toolkit| &toolkit.packages);
    let engines = database
        .engines
        .iter()
        .filter_map(|engine| engine.packages_on(distribution))
        .flat_map(|p| &p.names);
    let containers = toolkits.chain(engines).filter(|_| is_for_containers);
    let extra = distribution
        .extra_repositories
        .iter()
        .flat_map(|r| &r.packages);
    let release = facts.kernel().unwrap_or_default();
    let headers = kernel_headers(facts, distribution).into_iter();
    let headers =
        headers.map(
            |name| match gpusetup_packages::of(distribution.package_manager).headers {
                Some(KernelHeaders::ByVersion) => listed_as(&name, release).to_owned(),
                Some(KernelHeaders::ByName) | None => name,
            },
        );
    let modules = distribution.fabric_modules_of(release);
    let signed = distribution
        .drivers
        .iter()
        .filter(|_| facts.secure_boot == SecureBoot::Enabled);
    let signed = signed
        .flat_map(|offer| distribution.signed_modules_of(offer, release, &facts.machine.arch));
    let modules = modules.chain(signed);
    of_driver
        .chain(independent)
        .chain(extra)
        .chain(containers)
        .cloned()
        .chain(headers)
        .chain(modules)
        .collect()
}

/// The packages with the headers of the kernel that will run, by the names that select them, if the
/// manager's lists show which kernel they are for.
pub fn kernel_headers(facts: &Facts, distribution: &Distribution) -> Vec<String> {
    let are_told_apart = gpusetup_packages::of(distribution.package_manager)
        .headers
        .is_some();
    let Some(release) = facts.kernel().filter(|_| are_told_apart) else {
        return Vec::new();
    };
    let arch = facts.machine.arch.as_str();
    let all = distribution
        .headers_of(release, arch)
        .chain(distribution.following(release, arch));
    all.filter(|name| name.contains(release)).collect()
}

/// Whether the repositories have the headers of the kernel that will run, under this name. If the
/// version identifies the kernel, only the version that would be installed is known; another
/// version proves nothing about this kernel.
pub fn offers_headers(facts: &Facts, manager: PackageManager, name: &str) -> Option<bool> {
    let (offered, release) = (facts.offered.as_ref()?, facts.kernel()?);
    if gpusetup_packages::of(manager).headers? == KernelHeaders::ByName {
        return Some(offered.contains_key(name));
    }
    let rest = release.strip_prefix(offered.get(listed_as(name, release))?.as_str())?;
    (rest.is_empty() || rest.starts_with('.')).then_some(true)
}

/// The name that lists use for the headers of a kernel whose version identifies it: the name
/// without the version.
fn listed_as<'a>(name: &'a str, release: &str) -> &'a str {
    name.strip_suffix(release)
        .and_then(|name| name.strip_suffix('-'))
        .unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependencies_show_the_driver_of_the_modules() {
        for (depends, driver) in [
            (
                "linux-modules-nvidia-580-7.0.0-27-generic, nvidia-kernel-common-580 (>= 580.159.03)",
                "580.159.03",
            ),
            (
                "nvidia-kernel-common-580-server (<= 580.126.20-1), nvidia-kernel-common-580-server (>= 580.126.20)",
                "580.126.20",
            ),
            ("a, nvidia-kernel-common-580 (>= 580.142)", "580.142"),
        ] {
            assert_eq!(driver_in(depends), driver.parse().ok(), "{depends}");
        }
        for depends in [
            "",
            "nvidia-kernel-common-580",
            "nvidia-kernel-common-580 (<= 580.142-1)",
            "b (>= 580.142)",
        ] {
            assert_eq!(driver_in(depends), None, "{depends}");
        }
    }
}
