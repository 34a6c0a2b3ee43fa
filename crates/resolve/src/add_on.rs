//! Chooses the add-ons, such as cuDNN, that fit a toolkit, its driver, the GPUs and the host's C
//! library.

use super::cuda::{SearchContext, Toolkit};
use super::driver::Candidate;
use super::refusal::Refusal;
use super::wanted::WantedAddOn;
use super::{Conflict, Hint, Request};
use gpusetup_database::compat::{
    AddOn, AddOnArtifact, AddOnId, AddOnRange, Artifact, Database, PublishedAddOn,
};
use gpusetup_database::version::{CudaVersion, Want};
use std::path::Path;

/// A release of an add-on that fits.
#[derive(Debug, Clone, Copy)]
pub struct ChosenAddOn<'a> {
    /// Which add-on.
    pub of: &'a AddOn,
    /// The archive.
    pub artifact: &'a AddOnArtifact,
    /// The requirements of its release line.
    pub range: &'a AddOnRange,
}

/// Refuses requested add-ons that are unknown, or that need a toolkit when none is requested.
pub(crate) fn none_is_impossible(database: &Database, request: &Request) -> Result<(), Conflict> {
    if let Some(id) = request
        .add_ons
        .keys()
        .find(|id| database.add_on(**id).is_none())
    {
        let others = database.add_ons.iter().filter(|a| a.id != AddOnId::CUDNN);
        let companions = database
            .companions
            .iter()
            .filter(|of| of.on_request)
            .map(|of| of.id.to_string());
        let known: Vec<_> = others.map(|a| a.id.to_string()).chain(companions).collect();
        return Err(
            Conflict::request(format!("no add-on is called `{id}` (--with)"))
                .hint(format!("known add-ons: {}", known.join(", ")))
                .hint(Hint::Command("gpusetup db list add-ons".to_owned())),
        );
    }
    let required = database.add_ons.iter().find(|a| request.requires(a.id));
    if let Some(of) = required.filter(|_| !request.cuda.is_wanted()) {
        let sentence = format!(
            "{} needs a CUDA toolkit, which --profile driver and --cuda none leave out",
            of.title
        );
        let with_toolkit = Request {
            cuda: Want::Best,
            cudnn: Want::Best,
            ..request.clone()
        };
        return Err(Conflict::request(sentence).hint(Hint::asking("with a toolkit", with_toolkit)));
    }
    Ok(())
}

/// The newest requested release that fits, or the installed one if it is kept.
pub(crate) fn newest<'a>(
    on: &SearchContext<'a, '_>,
    driver: Option<&Candidate>,
    toolkit: &Toolkit,
    wanted: &WantedAddOn<'a>,
) -> Option<ChosenAddOn<'a>> {
    let archives = wanted.accepted.iter().map(|row| on.published.archive(row));
    let directory = toolkit.directory(&on.request.prefix);
    let kept = (!wanted.kept.is_empty()).then(|| {
        let archives = archives.clone();
        archives.filter(|archive| wanted.keeps(archive.artifact, &directory))
    });
    kept.into_iter()
        .flatten()
        .chain(archives)
        .find_map(|archive| {
            Some(ChosenAddOn {
                of: wanted.of,
                artifact: archive.artifact,
                range: fits(on, driver, toolkit, &archive).ok()?,
            })
        })
}

/// The archives, those of releases that are kept before all others.
fn kept_first<'a>(
    archives: impl Iterator<Item = PublishedAddOn<'a>>,
    wanted: &WantedAddOn,
    toolkit: &Path,
) -> impl Iterator<Item = PublishedAddOn<'a>> {
    let (kept, others): (Vec<_>, Vec<_>) =
        archives.partition(|a| wanted.keeps(a.artifact, toolkit));
    kept.into_iter().chain(others)
}

/// Why the releases newer than the chosen one were not chosen.
pub(crate) fn rejected<'a>(
    on: &SearchContext<'a, '_>,
    driver: Option<&Candidate>,
    toolkit: &Toolkit,
    wanted: &WantedAddOn<'a>,
    chosen: &ChosenAddOn<'a>,
) -> Vec<(&'a AddOnArtifact, Refusal)> {
    let rows = on.published.archives(wanted.of.id).iter();
    let all = rows.map(|row| on.published.archive(row));
    let newer = all
        .clone()
        .filter(|a| a.artifact.version > chosen.artifact.version);
    let directory = toolkit.directory(&on.request.prefix);
    let tried = kept_first(all, wanted, &directory)
        .take_while(|a| !std::ptr::eq(a.artifact, chosen.artifact))
        .filter(|a| a.artifact.version > chosen.artifact.version);
    let mut rejected: Vec<_> = tried
        .filter_map(|a| Some((a.artifact, fits(on, driver, toolkit, &a).err()?)))
        .collect();
    if wanted.keeps(chosen.artifact, &directory) {
        let others = newer
            .filter(|a| !rejected.iter().any(|(r, _)| std::ptr::eq(*r, a.artifact)))
            .map(|a| (a.artifact, fits(on, driver, toolkit, &a).err()));
        let others: Vec<_> = others
            .map(|(a, refusal)| (a, refusal.unwrap_or(Refusal::Installed)))
            .collect();
        rejected.extend(others);
    }
    rejected
}

/// The newest release that is newer than the chosen one and fits as well, but cannot be downloaded
/// and verified.
pub(crate) fn newer_unpublished<'a>(
    on: &SearchContext<'a, '_>,
    driver: Option<&Candidate>,
    toolkit: &Toolkit,
    chosen: &ChosenAddOn<'a>,
) -> Option<&'a AddOnArtifact> {
    let all = on
        .published
        .archives(chosen.of.id)
        .iter()
        .map(|row| on.published.archive(row));
    let newer = all.take_while(|archive| archive.artifact.version > chosen.artifact.version);
    let unpublished =
        newer.filter(|a| matches!(fits(on, driver, toolkit, a), Err(Refusal::NoSum(_))));
    unpublished
        .map(|archive| archive.artifact)
        .max_by_key(|artifact| artifact.version)
}

/// Why none of the requested releases fits, the kept ones first.
pub(crate) fn refused<'a>(
    on: &SearchContext<'a, '_>,
    driver: Option<&Candidate>,
    toolkit: &Toolkit,
    wanted: &WantedAddOn<'a>,
) -> Vec<(&'a AddOnArtifact, Refusal)> {
    let all = wanted.accepted.iter().map(|row| on.published.archive(row));
    kept_first(all, wanted, &toolkit.directory(&on.request.prefix))
        .filter_map(|a| Some((a.artifact, fits(on, driver, toolkit, &a).err()?)))
        .collect()
}

fn fits<'a>(
    on: &SearchContext<'a, '_>,
    driver: Option<&Candidate>,
    toolkit: &Toolkit,
    archive: &PublishedAddOn<'a>,
) -> Result<&'a AddOnRange, Refusal> {
    let PublishedAddOn {
        artifact,
        range,
        glibc_min,
    } = *archive;
    let Some(range) = range else {
        return Err(Refusal::Unknown);
    };
    let series = toolkit.release.version.series();
    if !range.is_for(series) {
        return Err(Refusal::OtherLine(series));
    }
    for (n, card, _) in on.kinds.iter().copied() {
        let Some(capability) = card.capability else {
            continue;
        };
        if !range.runs_on(capability) {
            return Err(match range.highest_capability {
                _ if capability < range.lowest_capability => {
                    Refusal::BelowLowest(n, range.lowest_capability)
                }
                Some(highest) if capability > highest => Refusal::AboveHighest(n, highest),
                _ => Refusal::NoKernels(n, capability),
            });
        }
    }
    if on
        .glibc
        .zip(glibc_min)
        .is_some_and(|(have, min)| have < min)
    {
        return Err(Refusal::OldLibrary);
    }
    if let (Some(driver), Some(min)) = (driver, range.minimum_driver)
        && driver.version < min
    {
        return Err(Refusal::OldDriver(min, driver.version));
    }
    if !on.request.add_on(artifact.add_on).accepts(artifact.version) {
        return Err(Refusal::NotWanted);
    }
    if let Some(missing) = unpublished(&artifact.artifact) {
        return Err(Refusal::NoSum(missing));
    }
    Ok(range)
}

/// If a requested release is built only for refused toolkits: the refusal of the toolkit that came
/// nearest. `refused` are toolkits that the request accepts.
pub(crate) fn refused_for<'a>(
    on: &SearchContext<'a, '_>,
    of: &AddOn,
    refused: &[(CudaVersion, Refusal)],
) -> Option<(&'a AddOnArtifact, CudaVersion, Refusal)> {
    let wanted = on.add_ons.iter().find(|wanted| wanted.of.id == of.id)?;
    let other = refused
        .iter()
        .filter(|(_, r)| !matches!(r, Refusal::NotWanted | Refusal::NoAddOn(_)));
    let both = other.flat_map(|(v, r)| {
        let builds = wanted.accepted.iter().map(|row| on.published.archive(row));
        let its = builds.filter(|a| a.range.is_some_and(|range| range.is_for(v.series())));
        its.map(|a| (a.artifact, *v, *r))
    });
    both.max_by_key(|(a, v, r)| (r.came_far(), a.version, *v))
}

/// Why an archive cannot be downloaded or verified.
fn unpublished(archive: &Artifact) -> Option<&'static str> {
    match (&archive.url, &archive.sha256) {
        (Some(_), Some(_)) => None,
        (None, Some(_)) => Some("the URL of its archive is not known, so it cannot be downloaded"),
        (Some(_), None) => {
            Some("the checksum of its archive is not known, so it cannot be verified")
        }
        (None, None) => Some("neither the URL nor the checksum of its archive is known"),
    }
}
