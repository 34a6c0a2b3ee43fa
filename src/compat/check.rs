//! What must hold across the files: no fact twice, none that points nowhere, no range upside down, a source on each.

use super::{Artifact, Database, SourceId};
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::hash::Hash;

/// A fact that cannot be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The record: `gpu 20b2`, `cuda 12.8.1`.
    pub record: String,
    /// The key in it.
    pub key: &'static str,
    /// What is wrong with it.
    pub wrong: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.record, self.key, self.wrong)
    }
}

#[derive(Default)]
struct Checker {
    problems: Vec<Problem>,
    sources: HashSet<String>,
    sums: HashMap<String, String>,
}

/// Everything wrong with a database.
pub fn check(database: &Database) -> Vec<Problem> {
    let mut c = Checker { sources: database.sources.iter().map(|s| s.id.clone()).collect(), ..Checker::default() };
    if database.version.is_empty() {
        c.wrong("database", "version", "no file gives it");
    }
    c.unique("source", "id", database.sources.iter().map(|s| s.id.clone()));
    hardware(database, &mut c);
    drivers(database, &mut c);
    toolkits(database, &mut c);
    cudnn(database, &mut c);
    distributions(database, &mut c);
    c.problems
}

fn hardware(database: &Database, c: &mut Checker) {
    c.unique(
        "architecture",
        "compute_capability",
        database.architectures.iter().map(|a| a.compute_capability.to_string()),
    );
    for a in &database.architectures {
        let record = format!("architecture {}", a.compute_capability);
        c.sourced(&record, &a.sources);
        c.ordered(&record, "first_cuda", a.first_cuda, a.last_cuda);
        c.ordered(&record, "first_driver_branch", a.first_driver_branch, a.last_driver_branch);
        if a.modules.is_empty() {
            c.wrong(&record, "modules", "no flavour at all");
        }
        for branch in [a.first_driver_branch, a.last_driver_branch].into_iter().flatten().filter(|b| *b >= 340) {
            if database.branch(branch).is_none() {
                c.wrong(&record, "driver_branch", format!("{branch} is no branch of driver-branches.yaml"));
            }
        }
    }
    let key = |g: &super::Gpu| format!("{} {}", g.device, g.subsystem.as_deref().unwrap_or(""));
    c.unique("gpu", "device", database.gpus.iter().map(key));
    for g in &database.gpus {
        let record = format!("gpu {}", key(g).trim_end());
        c.sourced(&record, &g.sources);
        if g.compute_capability.is_some_and(|cc| database.architecture(cc).is_none() && cc.major > 1) {
            c.wrong(&record, "compute_capability", "is not in architectures.yaml");
        }
        if g.modules.is_empty() {
            c.wrong(&record, "modules", "no flavour at all");
        }
    }
    for s in &database.nvswitches {
        c.sourced(&format!("nvswitch {}", s.device), &s.sources);
    }
    c.unique("nvswitch", "device", database.nvswitches.iter().map(|s| s.device.to_string()));
}

fn drivers(database: &Database, c: &mut Checker) {
    c.unique("driver branch", "branch", database.driver_branches.iter().map(|b| b.branch));
    for b in &database.driver_branches {
        let record = format!("driver branch {}", b.branch);
        c.sourced(&record, &b.sources);
        if !b.modules.contains(&b.default_modules) {
            c.wrong(&record, "default_modules", "is not among its modules");
        }
    }
    c.unique("driver", "version", database.drivers.iter().map(|d| d.version));
    for d in &database.drivers {
        let record = format!("driver {}", d.version);
        if database.branch(d.version.branch).is_none() {
            c.wrong(&record, "version", "its branch is not in driver-branches.yaml");
        }
        for a in &d.artifacts {
            c.artifact(&record, &a.artifact);
        }
    }
}

fn toolkits(database: &Database, c: &mut Checker) {
    c.unique("cuda", "version", database.cuda.iter().map(|r| r.version));
    for r in &database.cuda {
        let record = format!("cuda {}", r.version);
        c.sourced(&record, &r.sources);
        c.ordered(&record, "lowest_capability", Some(r.lowest_capability), Some(r.highest_capability));
        c.ordered(&record, "gcc_min", r.gcc_min, r.gcc_max);
        c.ordered(&record, "minimum_driver", Some(r.minimum_driver), r.native_driver);
    }
    for a in &database.cuda_artifacts {
        let record = format!("cuda artifact {}", a.artifact.file);
        c.artifact(&record, &a.artifact);
        if database.cuda(a.version).is_none() {
            c.wrong(&record, "version", format!("{} is not in compat/cuda.yaml", a.version));
        }
    }
    for l in &database.compiler_limits {
        c.sourced(&format!("compiler limit {} {}", l.compiler, l.excluded), &l.sources);
    }
}

fn cudnn(database: &Database, c: &mut Checker) {
    for r in &database.cudnn {
        let record = format!("cudnn {} for CUDA {}", r.from, r.cuda_line);
        c.sourced(&record, &r.sources);
        c.ordered(&record, "from", Some(r.from), r.to);
        c.ordered(&record, "cuda_min", Some(r.cuda_min), r.cuda_max);
        c.ordered(&record, "lowest_capability", Some(r.lowest_capability), r.highest_capability);
        if r.libraries.is_empty() {
            c.wrong(&record, "libraries", "none are named");
        }
    }
    for a in &database.cudnn_artifacts {
        c.artifact(&format!("cudnn artifact {}", a.artifact.file), &a.artifact);
    }
}

fn distributions(database: &Database, c: &mut Checker) {
    c.unique("distribution", "id", database.distributions.iter().map(|d| format!("{} {}", d.id, d.version)));
    for d in &database.distributions {
        let record = format!("distribution {} {}", d.id, d.version);
        c.sourced(&record, &d.sources);
        for offer in &d.drivers {
            c.sourced(&record, &offer.sources);
            if database.branch(offer.branch).is_none() {
                c.wrong(&record, "drivers", format!("{} is no branch of driver-branches.yaml", offer.branch));
            }
            if offer.version.is_some_and(|v| v.branch != offer.branch) {
                c.wrong(&record, "drivers", format!("the version offered is not of branch {}", offer.branch));
            }
            if offer.packages.is_empty() {
                c.wrong(&record, "drivers", "an offer without packages");
            }
        }
    }
}

impl Checker {
    fn wrong(&mut self, record: &str, key: &'static str, wrong: impl Into<String>) {
        self.problems.push(Problem { record: record.to_owned(), key, wrong: wrong.into() });
    }

    fn sourced(&mut self, record: &str, sources: &[SourceId]) {
        if sources.is_empty() {
            self.wrong(record, "sources", "a fact without a source");
        }
        for source in sources.iter().filter(|s| !self.sources.contains(*s)).cloned().collect::<Vec<_>>() {
            self.wrong(record, "sources", format!("{source} is not in the sources"));
        }
    }

    fn unique<T: Hash + Eq + fmt::Display>(&mut self, kind: &str, key: &'static str, all: impl IntoIterator<Item = T>) {
        let mut seen = HashSet::new();
        for one in all {
            let shown = one.to_string();
            if !seen.insert(one) {
                self.wrong(&format!("{kind} {shown}"), key, "is there twice");
            }
        }
    }

    fn ordered<T: Ord + fmt::Display>(&mut self, record: &str, key: &'static str, low: Option<T>, high: Option<T>) {
        if let (Some(low), Some(high)) = (low, high)
            && low > high
        {
            self.wrong(record, key, format!("{low} is above {high}"));
        }
    }

    fn artifact(&mut self, record: &str, a: &Artifact) {
        self.sourced(record, &a.sources);
        if a.url.as_ref().is_some_and(|url| !url.ends_with(&a.file)) {
            self.wrong(record, "url", format!("does not end in {}", a.file));
        }
        let Some(sum) = &a.sha256 else { return };
        if sum.len() != 64 || !sum.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b)) {
            self.wrong(record, "sha256", format!("{sum} is not 64 lower-case hexadecimal digits"));
        }
        if let Some(other) = self.sums.insert(sum.clone(), a.file.clone()).filter(|other| *other != a.file) {
            self.wrong(record, "sha256", format!("is the sum of {other} too"));
        }
    }
}
