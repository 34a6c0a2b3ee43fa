//! The add-ons that a request includes, each with its archives of the requested releases.

use super::Request;
use gpusetup_database::compat::{AddOn, AddOnArtifact, AddOnId, ArchiveRow, Database, Published};
use gpusetup_database::version::{AddOnVersion, Want};
use gpusetup_host::{AddOnFiles, Facts, Origin};
use std::borrow::Cow;
use std::path::Path;

/// A requested add-on, and its archives for the host's machine architecture.
pub(crate) struct WantedAddOn<'a> {
    pub(crate) of: &'a AddOn,
    /// Those of the requested releases, newest first.
    pub(crate) accepted: Cow<'a, [ArchiveRow]>,
    /// The installed files that are kept if they fit.
    pub(crate) kept: Vec<AddOnFiles>,
}

/// Any version of what is wanted.
pub(crate) fn relaxed<V>(want: &Want<V>) -> Want<V> {
    if want.is_wanted() {
        Want::Best
    } else {
        Want::Nothing
    }
}

impl Request {
    /// The requested version of an add-on.
    pub(crate) fn add_on(&self, id: AddOnId) -> &Want<AddOnVersion> {
        if id == AddOnId::CUDNN {
            &self.cudnn
        } else {
            self.add_ons.get(&id).unwrap_or(&Want::Nothing)
        }
    }

    /// Whether the user asked for a toolkit, or for something that is part of one.
    pub(crate) fn asks_for_toolkit(&self) -> bool {
        self.with_toolkit
            || self.cuda.is_required()
            || !self.additional_toolkits.is_empty()
            || self.cudnn.is_required()
            || !self.add_ons.is_empty()
            || !self.components.is_empty()
    }

    /// Whether a plan without a toolkit is an answer, if none fits.
    pub(crate) fn may_lack_toolkit(&self) -> bool {
        self.driver.is_wanted() && self.cuda.is_wanted() && !self.asks_for_toolkit()
    }

    /// Whether the add-on was requested by name, so that a selection without it is no answer.
    pub(crate) fn requires(&self, id: AddOnId) -> bool {
        if id == AddOnId::CUDNN {
            self.cudnn.is_required()
        } else {
            self.add_on(id).is_wanted()
        }
    }
}

/// All requested add-ons, in the database's order.
pub(crate) fn wanted<'a>(
    database: &'a Database,
    published: Published<'a>,
    facts: &Facts,
    request: &Request,
) -> Vec<WantedAddOn<'a>> {
    database
        .add_ons
        .iter()
        .filter(|of| request.cuda.is_wanted() && request.add_on(of.id).is_wanted())
        .map(|of| WantedAddOn::new(of, published, facts, request))
        .collect()
}

impl<'a> WantedAddOn<'a> {
    fn new(of: &'a AddOn, published: Published<'a>, facts: &Facts, request: &Request) -> Self {
        let (want, all) = (request.add_on(of.id), published.archives(of.id));
        let accepted = match want {
            Want::Meeting(_) => all
                .iter()
                .filter(|row| want.accepts(published.archive(row).artifact.version))
                .copied()
                .collect(),
            Want::Best | Want::Latest | Want::Nothing => Cow::Borrowed(all),
        };
        let mut kept = Vec::new();
        if request.keeps(want) {
            kept.extend(facts.files_of(of.id).cloned());
        }
        Self { of, accepted, kept }
    }
}

/// Whether programs that use a toolkit find this release among the installed files: those of
/// packages are in the system's directories, whichever toolkit programs use.
pub(crate) fn is_installed(found: &AddOnFiles, artifact: &AddOnArtifact, toolkit: &Path) -> bool {
    let line = artifact.cuda_major();
    let is_of_line = found.cuda_major.is_none() || line.is_none() || found.cuda_major == line;
    let is_here = found.directory.starts_with(toolkit) || found.origin == Origin::Dpkg;
    let is_release = found
        .version
        .is_some_and(|version| version.agrees_with(artifact.version));
    is_release && is_of_line && is_here
}

impl WantedAddOn<'_> {
    /// Whether a release is installed for a toolkit, and kept if it fits.
    pub(crate) fn keeps(&self, artifact: &AddOnArtifact, toolkit: &Path) -> bool {
        self.kept
            .iter()
            .any(|found| is_installed(found, artifact, toolkit))
    }
}
