//! The add-ons that a request includes, each with its archives of the requested releases.

use super::Request;
use gpusetup_database::compat::{AddOn, AddOnArtifact, AddOnId, ArchiveRow, Database, Published};
use gpusetup_database::version::{AddOnVersion, Want};
use gpusetup_host::{AddOnFiles, Facts, Origin};
use std::borrow::Cow;

/// A requested add-on, and its archives for the host's machine architecture.
pub(crate) struct WantedAddOn<'a> {
    pub(crate) of: &'a AddOn,
    /// Those of the requested releases, newest first.
    pub(crate) accepted: Cow<'a, [ArchiveRow]>,
    /// The installed releases that are kept if they fit, each with the CUDA major version that it
    /// is for, if that is known.
    pub(crate) kept: Vec<(AddOnVersion, Option<u16>)>,
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
            let found = facts.files_of(of.id);
            let found = found.filter(|found| is_in_use(found, request));
            kept.extend(found.filter_map(|found| Some((found.version?, found.cuda_major))));
        }
        Self { of, accepted, kept }
    }
}

/// Whether programs find these files of an add-on: packages are in the system's directories,
/// whichever toolkit programs use.
pub(crate) fn is_in_use(found: &AddOnFiles, request: &Request) -> bool {
    found.directory.starts_with(&request.prefix) || found.origin == Origin::Dpkg
}

impl WantedAddOn<'_> {
    /// Whether a release is installed, and kept if it fits.
    pub(crate) fn keeps(&self, artifact: &AddOnArtifact) -> bool {
        let line = artifact
            .cuda_line
            .split('.')
            .next()
            .and_then(|major| major.parse::<u16>().ok());
        self.kept.iter().any(|(version, major)| {
            *version == artifact.version && (major.is_none() || line.is_none() || *major == line)
        })
    }
}
