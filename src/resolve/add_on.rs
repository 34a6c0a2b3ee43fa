//! Chooses the add-ons, such as cuDNN, that fit a toolkit, its driver, the GPUs and the host's C library.

use super::cuda::{SearchContext, Toolkit};
use super::driver::Candidate;
use super::refusal::Refusal;
use super::{Conflict, Hint, Request};
use crate::compat::{AddOn, AddOnArtifact, AddOnId, AddOnRange, Artifact, Database};
use crate::host::AddOnFiles;
use crate::version::{AddOnVersion, CudaVersion, Want, dotted};

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

/// The result of the search for one add-on.
pub struct Searched<'a> {
    /// The add-on.
    pub of: &'a AddOn,
    /// The newest requested release that fits.
    pub chosen: Option<ChosenAddOn<'a>>,
    /// The newer releases that were refused; all releases if none fits.
    pub refused: Vec<(&'a AddOnArtifact, Refusal)>,
}

impl<'a> Searched<'a> {
    /// The newest release that fits as well as the chosen one, and is newer, but cannot be downloaded and verified.
    pub fn newer_unpublished(&self) -> Option<&'a AddOnArtifact> {
        self.chosen.as_ref()?;
        let unpublished = self.refused.iter().filter(|(_, refusal)| matches!(refusal, Refusal::NoSum(_)));
        unpublished.map(|(artifact, _)| *artifact).max_by_key(|artifact| artifact.version)
    }
}

impl Request {
    /// The requested version of an add-on.
    pub fn add_on(&self, id: AddOnId) -> &Want<AddOnVersion> {
        if id == AddOnId::CUDNN { &self.cudnn } else { self.add_ons.get(&id).unwrap_or(&Want::Nothing) }
    }

    /// Whether the add-on was requested by name, so that a selection without it is no answer.
    pub fn requires(&self, id: AddOnId) -> bool {
        if id == AddOnId::CUDNN { self.cudnn.is_required() } else { self.add_on(id).is_wanted() }
    }
}

/// Refuses requested add-ons that are unknown, or that need a toolkit when none is requested.
pub fn none_is_impossible(database: &Database, request: &Request) -> Result<(), Conflict> {
    if let Some(id) = request.add_ons.keys().find(|id| database.add_on(**id).is_none()) {
        let others = database.add_ons.iter().filter(|a| a.id != AddOnId::CUDNN);
        let known: Vec<_> = others.map(|a| a.id.to_string()).collect();
        return Err(Conflict::request(format!("no add-on is called `{id}` (--with)"))
            .hint(format!("known add-ons: {}", known.join(", "))));
    }
    let required = database.add_ons.iter().find(|a| request.requires(a.id));
    if let Some(of) = required.filter(|_| !request.cuda.is_wanted()) {
        let sentence = format!("{} needs a CUDA toolkit, which --profile driver and --cuda none leave out", of.title);
        let with_toolkit = Request { cuda: Want::Best, cudnn: Want::Best, ..request.clone() };
        return Err(Conflict::request(sentence).hint(Hint::plan("with a toolkit", with_toolkit.options())));
    }
    Ok(())
}

/// Searches all requested add-ons, in the database's order.
pub fn search<'a>(on: &SearchContext<'a, '_>, driver: Option<&Candidate>, toolkit: &Toolkit) -> Vec<Searched<'a>> {
    let wanted = on.database.add_ons.iter().filter(|of| on.request.add_on(of.id).is_wanted());
    wanted.map(|of| newest(on, driver, toolkit, of)).collect()
}

/// The newest requested release that fits, or the installed one if it is kept.
fn newest<'a>(
    on: &SearchContext<'a, '_>,
    driver: Option<&Candidate>,
    toolkit: &Toolkit,
    of: &'a AddOn,
) -> Searched<'a> {
    let mut refused: Vec<(&AddOnArtifact, Refusal)> = Vec::new();
    let here = |found: &&AddOnFiles| found.directory.starts_with(&on.request.prefix);
    let installed = || on.facts.files_of(of.id).filter(here).filter_map(|found| found.version);
    let to_keep: Vec<_> = if on.request.keeps(on.request.add_on(of.id)) { installed().collect() } else { Vec::new() };
    let kept = |a: &AddOnArtifact| to_keep.contains(&a.version);
    let all = || on.database.add_on_archives(of.id).filter(|a| a.artifact.arch == on.arch);
    for artifact in all().filter(|a| kept(a)).chain(all().filter(|a| !kept(a))) {
        let range = match fits(on, driver, toolkit, artifact) {
            Ok(range) => range,
            Err(refusal) => {
                refused.push((artifact, refusal));
                continue;
            }
        };
        if kept(artifact) {
            let newer = all().filter(|a| a.version > artifact.version && !refused.iter().any(|(r, _)| r == a));
            let newer: Vec<_> =
                newer.map(|a| (a, fits(on, driver, toolkit, a).err().unwrap_or(Refusal::Installed))).collect();
            refused.extend(newer);
        }
        refused.retain(|(a, _)| a.version > artifact.version);
        return Searched { of, chosen: Some(ChosenAddOn { of, artifact, range }), refused };
    }
    Searched { of, chosen: None, refused }
}

fn fits<'a>(
    on: &SearchContext<'a, '_>,
    driver: Option<&Candidate>,
    toolkit: &Toolkit,
    artifact: &AddOnArtifact,
) -> Result<&'a AddOnRange, Refusal> {
    let Some(range) = on.database.range_of(artifact) else { return Err(Refusal::Unknown) };
    let series = toolkit.release.version.series();
    if !range.is_for(series) {
        return Err(Refusal::OtherLine(series));
    }
    for (n, card, _) in on.kinds.iter().copied() {
        let Some(capability) = card.capability else { continue };
        if !range.runs_on(capability) {
            return Err(match range.highest_capability {
                _ if capability < range.lowest_capability => Refusal::BelowLowest(n, range.lowest_capability),
                Some(highest) if capability > highest => Refusal::AboveHighest(n, highest),
                _ => Refusal::NoKernels(n, capability),
            });
        }
    }
    if on.glibc.zip(range.glibc_min.as_deref()).is_some_and(|(have, min)| have < dotted(min)) {
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

/// If a requested release is built only for refused toolkits: the refusal of the toolkit that came nearest.
pub fn refused_for<'a>(
    on: &SearchContext<'a, '_>,
    of: &AddOn,
    refused: &[(CudaVersion, Refusal)],
) -> Option<(&'a AddOnArtifact, CudaVersion, Refusal)> {
    let accepted = |a: &&AddOnArtifact| a.artifact.arch == on.arch && on.request.add_on(of.id).accepts(a.version);
    let is_for =
        |a: &AddOnArtifact, v: CudaVersion| on.database.range_of(a).is_some_and(|range| range.is_for(v.series()));
    let other = refused.iter().filter(|(_, r)| !matches!(r, Refusal::NotWanted | Refusal::NoAddOn(_)));
    let other = other.filter(|(v, _)| on.request.cuda.accepts(*v));
    let both = other.flat_map(|(v, r)| {
        let builds = on.database.add_on_archives(of.id).filter(accepted);
        builds.filter(|a| is_for(a, *v)).map(|a| (a, *v, *r))
    });
    both.max_by_key(|(a, v, r)| (r.came_far(), a.version, *v))
}

/// Why an archive cannot be downloaded or verified.
fn unpublished(archive: &Artifact) -> Option<&'static str> {
    match (&archive.url, &archive.sha256) {
        (Some(_), Some(_)) => None,
        (None, Some(_)) => Some("the URL of its archive is not known, so it cannot be downloaded"),
        (Some(_), None) => Some("the checksum of its archive is not known, so it cannot be verified"),
        (None, None) => Some("neither the URL nor the checksum of its archive is known"),
    }
}
