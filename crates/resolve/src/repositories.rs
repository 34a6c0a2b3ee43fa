//! Repositories that a host could enable: what a refusal of `--method packages` suggests.

use super::driver::{Install, examine};
use super::known_host::KnownHost;
use super::{Request, TargetGpu};
use gpusetup_database::compat::VersionRule;
use std::rc::Rc;

/// The repositories of this distribution that are not enabled here and have a driver that fits:
/// `Debian non-free has branch 535 and is not enabled`. None if there is none.
pub(crate) fn not_enabled(
    host: &KnownHost,
    request: &Request,
    gpus: &[Rc<TargetGpu>],
) -> Option<String> {
    let kinds = &TargetGpu::kinds(gpus).collect::<Vec<_>>();
    let arch = &host.facts.machine.arch;
    let needed = host
        .joined()
        .into_iter()
        .flat_map(|joined| joined.needs(host.database));
    let needed: Vec<_> = needed
        .filter(|companion| companion.version != VersionRule::Own)
        .collect();
    let mut found: Vec<(&str, u16)> = Vec::new();
    for offer in &host.distribution?.drivers {
        let seen_as = &offer.repository.seen_as;
        // The lists of the distribution's own repositories tell of those.
        let is_signed = offer.is_signed();
        if is_signed
            || !offer.archs.contains(arch)
            || seen_as.is_empty()
            || host.facts.has_enabled(seen_as)
        {
            continue;
        }
        if !needed
            .iter()
            .all(|companion| offer.companions.contains_key(&companion.id))
        {
            continue;
        }
        let Some(branch) = host.database.branch(offer.branch) else {
            continue;
        };
        let Some(version) = offer
            .version
            .or_else(|| host.published.newest_driver(offer.branch))
        else {
            continue;
        };
        if examine(version, branch, &Install::Packages(offer), request, kinds).is_err() {
            continue;
        }
        match found
            .iter_mut()
            .find(|(name, _)| *name == offer.repository.name)
        {
            Some((_, newest)) => *newest = offer.branch.max(*newest),
            None => found.push((&offer.repository.name, offer.branch)),
        }
    }
    let each = found
        .iter()
        .map(|(name, branch)| format!("{name} has branch {branch} and is not enabled"));
    (!found.is_empty()).then(|| each.collect::<Vec<_>>().join("; "))
}
