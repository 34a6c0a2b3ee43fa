//! Statistics on the quality of the facts: how many there are, how each is known, how many sources
//! support it, and where sources differ. This module only counts; `check` decides what is wrong.

use super::tables::Origin;
use super::{Artifact, Database, SourceQuality};
use serde::Serialize;

/// All counts.
#[derive(Debug, Serialize)]
pub struct Tally {
    schema: &'static str,
    version: String,
    sha256: String,
    /// Counts by kind of fact.
    pub kinds: Vec<KindTally>,
    /// Counts of the checksums of downloads.
    pub checksums: ChecksumTally,
    /// Assumed values, and why.
    pub assumed: Vec<Remark>,
    /// Subjects on which sources differ.
    pub disagreements: Vec<Remark>,
}

/// Facts of one kind, and their sources.
#[derive(Debug, Serialize)]
pub struct KindTally {
    /// The kind: `gpus`, `cuda`.
    pub kind: &'static str,
    /// The number of entries.
    pub count: usize,
    pub(crate) one_source: usize,
    /// With two or more.
    pub two_or_more: usize,
    /// Read from the artifact itself by at least one source.
    pub measured: usize,
    /// Documented by the maker, but not measured.
    pub published: usize,
    /// Only reported by others.
    pub reported: usize,
    /// Assumed, at least in part.
    pub assumed: usize,
}

/// The checksums of downloads. A file without one is listed but never chosen.
#[derive(Debug, Default, Serialize)]
pub struct ChecksumTally {
    /// Unknown.
    pub unknown: usize,
    /// From one source.
    pub one_source: usize,
    /// From two or more independent sources that agree.
    pub two_or_more: usize,
}

/// A remark on a record: how its sources differ, or what is assumed.
#[derive(Debug, Serialize)]
pub struct Remark {
    /// The record (`gpu 10de:20b2 …`) or another subject.
    pub record: String,
    /// What the sources say, and which value was used.
    pub text: String,
}

impl Database {
    /// Counts everything.
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
            let archives = release
                .components
                .iter()
                .map(|part| part.archives.len())
                .sum::<usize>();
            *(if release.agree > 1 {
                &mut checksums.two_or_more
            } else {
                &mut checksums.one_source
            }) += archives;
        }
        Tally {
            schema: "gpusetup.db-check/1",
            version: self.version.clone(),
            sha256: self.sha256.clone(),
            kinds: self.kinds(),
            checksums,
            assumed: self.assumed(),
            disagreements: self.differences(self.artifacts().collect()),
        }
    }

    pub(super) fn kind<'a>(
        &self,
        kind: &'static str,
        facts: impl Iterator<Item = Origin<'a>>,
    ) -> KindTally {
        let mut tally = KindTally {
            kind,
            count: 0,
            one_source: 0,
            two_or_more: 0,
            measured: 0,
            published: 0,
            reported: 0,
            assumed: 0,
        };
        for (sources, assumed) in facts {
            tally.count += 1;
            *(if sources.len() > 1 {
                &mut tally.two_or_more
            } else {
                &mut tally.one_source
            }) += 1;
            let known = if assumed {
                SourceQuality::Assumed
            } else {
                self.known(sources).unwrap_or(SourceQuality::Assumed)
            };
            *(match known {
                SourceQuality::Measured => &mut tally.measured,
                SourceQuality::Published => &mut tally.published,
                SourceQuality::Reported => &mut tally.reported,
                SourceQuality::Assumed => &mut tally.assumed,
            }) += 1;
        }
        tally
    }

    fn assumed(&self) -> Vec<Remark> {
        let branches = self
            .driver_branches
            .iter()
            .map(|b| (format!("driver branch {}", b.branch), &b.assumed));
        let cuda = self
            .cuda
            .iter()
            .map(|c| (format!("CUDA {}", c.version), &c.assumed));
        let add_ons = self.add_on_ranges.iter().map(|r| {
            (
                format!(
                    "{} from {} for CUDA {}",
                    self.add_on_title(r.add_on),
                    r.from,
                    r.cuda_line
                ),
                &r.assumed,
            )
        });
        let xids = self
            .xids
            .iter()
            .map(|x| (format!("Xid {}", x.xid), &x.assumed));
        let instances = self
            .instances
            .iter()
            .map(|i| (format!("GPU of {}", i.name), &i.assumed));
        let systems = self
            .systems
            .iter()
            .map(|s| (format!("GPU of {}", s.name), &s.assumed));
        let profiles = self.mig_profiles.iter().map(|p| {
            let gpus: Vec<_> = p.gpus.iter().map(ToString::to_string).collect();
            (
                format!("MIG profile {} of 10de:{}", p.name, gpus.join(", 10de:")),
                &p.assumed,
            )
        });
        let all = branches
            .chain(profiles)
            .chain(cuda)
            .chain(add_ons)
            .chain(xids)
            .chain(instances)
            .chain(systems);
        all.filter_map(|(record, text)| {
            Some(Remark {
                record,
                text: text.clone()?,
            })
        })
        .collect()
    }

    fn differences(&self, artifacts: Vec<&Artifact>) -> Vec<Remark> {
        let mut all = Vec::new();
        let mut say = |record: String, text: Option<&str>| {
            all.extend(text.map(|text| Remark {
                record,
                text: text.to_owned(),
            }));
        };
        for d in &self.disagreements {
            say(
                d.about.clone(),
                Some(&format!("{}; taken: {}", d.differ, d.taken)),
            );
        }
        for a in &self.architectures {
            say(
                format!("compute capability {}", a.compute_capability),
                a.disagreement.as_deref(),
            );
        }
        for b in &self.driver_branches {
            say(
                format!("driver branch {}", b.branch),
                b.disagreement.as_deref(),
            );
        }
        for p in &self.mig_profiles {
            say(format!("MIG profile {}", p.name), p.disagreement.as_deref());
        }
        for a in artifacts {
            say(a.file.to_string(), a.disagreement.as_deref());
        }
        for g in &self.gpus {
            say(
                format!("gpu 10de:{} {}", g.device, g.name),
                g.disagreement.as_deref(),
            );
        }
        all
    }
}
