//! How well the database's facts are founded: how many there are, how many sources stand behind each, and on what the
//! sources differ. Only counted here; `check` decides what is wrong.

use super::{Artifact, Database, SourceId};
use serde::Serialize;

/// The count of everything.
#[derive(Debug, Serialize)]
pub struct Tally {
    schema: &'static str,
    version: String,
    sha256: String,
    /// Facts of each kind.
    pub kinds: Vec<KindTally>,
    /// The sums of what can be downloaded.
    pub checksums: ChecksumTally,
    /// On what sources differ.
    pub disagreements: Vec<Difference>,
}

/// Facts of a kind, and the sources behind them.
#[derive(Debug, Serialize)]
pub struct KindTally {
    /// `gpus`, `cuda`.
    pub kind: &'static str,
    /// How many.
    pub count: usize,
    /// With one source.
    pub one_source: usize,
    /// With two or more.
    pub two_or_more: usize,
}

/// The sums of what can be downloaded. One without a sum is listed and never chosen.
#[derive(Debug, Default, Serialize)]
pub struct ChecksumTally {
    /// Not known.
    pub unknown: usize,
    /// Given by one source.
    pub one_source: usize,
    /// Given alike by two or more independent ones.
    pub two_or_more: usize,
}

/// Something on which sources differ.
#[derive(Debug, Serialize)]
pub struct Difference {
    /// `gpus 20b2`, or a subject of its own.
    pub record: String,
    /// What they say, and what was taken.
    pub text: String,
}

impl Database {
    /// Counts it.
    pub fn tally(&self) -> Tally {
        let mut checksums = ChecksumTally::default();
        for artifact in self.artifacts() {
            match (&artifact.sha256, artifact.agree) {
                (None, _) => checksums.unknown += 1,
                (Some(_), 0 | 1) => checksums.one_source += 1,
                (Some(_), _) => checksums.two_or_more += 1,
            }
        }
        for release in &self.component_releases {
            let archives = release.components.iter().map(|part| part.archives.len()).sum::<usize>();
            *(if release.agree > 1 { &mut checksums.two_or_more } else { &mut checksums.one_source }) += archives;
        }
        Tally {
            schema: "gpusetup.db-check/1",
            version: self.version.clone(),
            sha256: self.sha256.clone(),
            kinds: vec![
                kind("gpus", self.gpus.iter().map(|g| &g.sources)),
                kind("architectures", self.architectures.iter().map(|a| &a.sources)),
                kind("nvswitches", self.nvswitches.iter().map(|s| &s.sources)),
                kind("xids", self.xids.iter().map(|x| &x.sources)),
                kind("driver branches", self.driver_branches.iter().map(|b| &b.sources)),
                kind("driver files", self.drivers.iter().flat_map(|d| &d.artifacts).map(|a| &a.artifact.sources)),
                kind("cuda", self.cuda.iter().map(|c| &c.sources)),
                kind("cuda files", self.cuda_artifacts.iter().map(|a| &a.artifact.sources)),
                kind("cuda component releases", self.component_releases.iter().map(|r| &r.sources)),
                kind("component needs", self.component_needs.iter().map(|n| &n.sources)),
                kind("cudnn", self.cudnn.iter().map(|c| &c.sources)),
                kind("cudnn files", self.cudnn_artifacts.iter().map(|a| &a.artifact.sources)),
                kind("compiler limits", self.compiler_limits.iter().map(|l| &l.sources)),
                kind("distributions", self.distributions.iter().map(|d| &d.sources)),
                kind("driver packages", self.distributions.iter().flat_map(|d| &d.drivers).map(|o| &o.sources)),
                kind("mig profiles", self.mig_profiles.iter().map(|p| &p.sources)),
                kind("cuda guides", self.cuda_guides.iter().map(|g| &g.sources)),
                kind("forward compatibility", self.forward_compatibility.iter().map(|f| &f.sources)),
                kind("renames", self.renames.iter().map(|r| &r.sources)),
                kind("frameworks", self.frameworks.iter().flat_map(|f| &f.releases).map(|r| &r.sources)),
            ],
            checksums,
            disagreements: self.differences(self.artifacts().collect()),
        }
    }

    fn differences(&self, artifacts: Vec<&Artifact>) -> Vec<Difference> {
        let mut all = Vec::new();
        let mut say = |record: String, text: Option<&str>| {
            all.extend(text.map(|text| Difference { record, text: text.to_owned() }));
        };
        for d in &self.disagreements {
            say(d.about.clone(), Some(&format!("{}; taken: {}", d.differ, d.taken)));
        }
        for a in &self.architectures {
            say(format!("compute capability {}", a.compute_capability), a.disagreement.as_deref());
        }
        for b in &self.driver_branches {
            say(format!("driver branch {}", b.branch), b.disagreement.as_deref());
        }
        for p in &self.mig_profiles {
            say(format!("MIG profile {}", p.name), p.disagreement.as_deref());
        }
        for a in artifacts {
            say(a.file.clone(), a.disagreement.as_deref());
        }
        for g in &self.gpus {
            say(format!("gpu 10de:{} {}", g.device, g.name), g.disagreement.as_deref());
        }
        all
    }
}

fn kind<'a>(kind: &'static str, sources: impl Iterator<Item = &'a Vec<SourceId>>) -> KindTally {
    let mut tally = KindTally { kind, count: 0, one_source: 0, two_or_more: 0 };
    for sources in sources {
        tally.count += 1;
        tally.one_source += usize::from(sources.len() == 1);
        tally.two_or_more += usize::from(sources.len() > 1);
    }
    tally
}
