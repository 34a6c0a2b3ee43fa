//! Modules that a distribution builds and signs for its own kernels, in packages that have a
//! kernel's version: nothing is compiled on the host, and with Secure Boot on they need no key of
//! its own. Only the host's lists tell which kernels they are for.

use gpusetup_database::compat::{Distribution, DriverOffer, is_version_of};
use gpusetup_database::version::DriverVersion;
use gpusetup_host::Facts;

/// The package with an offer's signed modules of a driver for the kernel that will run; none where
/// the lists have no such package.
pub fn signed_modules(
    distribution: Option<&Distribution>,
    offer: &DriverOffer,
    facts: &Facts,
    driver: DriverVersion,
) -> Option<String> {
    let release = facts
        .kernel()
        .filter(|_| !facts.has_enabled(&offer.not_beside))?;
    let mut listed = listed_modules(distribution?, offer, facts).into_iter();
    listed
        .find(|(name, version)| {
            is_version_of(version, release)
                && (facts
                    .signed_drivers
                    .get(name)
                    .is_none_or(|of| *of == driver))
        })
        .map(|(name, _)| name)
}

/// The packages with an offer's signed modules that the lists have, for this kernel or another one,
/// with their versions.
pub fn listed_modules<'f>(
    distribution: &Distribution,
    offer: &DriverOffer,
    facts: &'f Facts,
) -> Vec<(String, &'f String)> {
    let Some((release, offered)) = facts.kernel().zip(facts.offered.as_ref()) else {
        return Vec::new();
    };
    let names = distribution
        .signed_modules_of(offer, release, &facts.machine.arch)
        .into_iter();
    names
        .filter_map(|name| Some((offered.get(&name)?, name)))
        .map(|(version, name)| (name, version))
        .collect()
}
