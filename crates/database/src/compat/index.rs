//! The database arranged for searches: what is published for one machine architecture, in the order
//! in which it is tried, each archive beside its requirements, and texts that are compared as
//! numbers parsed. Planning for many hosts would otherwise scan and compare the whole database for
//! each of them.
//!
//! An index holds positions in the database's lists. Each part is made when it is first asked for,
//! because a single plan needs few of them.

use super::{
    AddOnArtifact, AddOnId, AddOnRange, CompanionId, CudaArtifact, CudaRelease, Database,
    DriverArtifact, DriverBranch, DriverRelease, DriverVariant, Maturity,
};
use super::{Component, ComponentNeed, ComponentRelease, ReleasedComponent, Source};
use crate::version::{DriverVersion, dotted};
use std::fmt;
use std::ops::Range;
use std::sync::OnceLock;

/// The machine architectures that CUDA exists for, as `uname -m` prints them.
pub const MACHINES: [&str; 3] = ["x86_64", "aarch64", "ppc64le"];

/// The name of a machine architecture in the file names of CUDA and of add-ons: `sbsa` for
/// `aarch64`.
pub fn cuda_arch(machine: &str) -> &str {
    if machine == "aarch64" {
        "sbsa"
    } else {
        machine
    }
}

/// The index of a database, made when it is first used. A copy of a database starts without one,
/// because copies are made to be changed; a database must not be changed after its first search.
#[derive(Default)]
pub(super) struct Indexed(Index);

impl Clone for Indexed {
    fn clone(&self) -> Self {
        Self::default()
    }
}

/// It follows from the rest of the database.
impl PartialEq for Indexed {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl fmt::Debug for Indexed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Indexed")
    }
}

#[derive(Default)]
struct Index {
    /// Parallel to [`MACHINES`].
    machines: [OnceLock<Rows>; MACHINES.len()],
    /// Positions in [`Database::sources`], by id.
    sources: OnceLock<Vec<u32>>,
    /// By component release: the position of its entry for each of the database's components.
    entries: OnceLock<Vec<OnceLock<Entries>>>,
    /// By component: its needs.
    needs: OnceLock<Vec<Vec<NeedRow>>>,
}

/// The position of a release's entry for each of the database's components.
type Entries = Vec<Option<u32>>;

/// The position of a component's need, and that of the component needed, if it is known.
type NeedRow = (u32, Option<u32>);

/// What is published for a machine architecture, as positions in the database's lists.
struct Rows {
    /// The release and the file of each driver runfile, newest first.
    runfiles: Vec<(u32, u32)>,
    /// Which of [`Self::runfiles`] belong to the same branch, which is known to the database.
    branches: Vec<(u32, Range<usize>)>,
    /// CUDA runfiles with a driver that has no runfile of its own.
    bundles: Vec<u32>,
    /// The newest driver for everybody of each branch, newest branch first.
    newest: Vec<DriverVersion>,
    /// The releases that companions are published for, newest first.
    companions: Vec<(CompanionId, Vec<DriverVersion>)>,
    /// Parallel to [`Database::cuda`].
    toolkits: Vec<ToolkitRow>,
    /// The archives of each add-on, newest first.
    add_ons: Vec<(AddOnId, Vec<ArchiveRow>)>,
}

struct ToolkitRow {
    runfile: Option<u32>,
    glibc_min: Option<(u32, u32)>,
    glibc_breaks_from: Option<(u32, u32)>,
}

/// An archive of an add-on, for [`Published::archive`].
#[derive(Debug, Clone, Copy)]
pub struct ArchiveRow {
    artifact: u32,
    range: Option<u32>,
    glibc_min: Option<(u32, u32)>,
}

/// What is published for one machine architecture.
#[derive(Clone, Copy)]
pub struct Published<'a> {
    database: &'a Database,
    rows: &'a Rows,
}

/// A CUDA release, and what is published of it for a machine architecture.
#[derive(Debug, Clone, Copy)]
pub struct PublishedToolkit<'a> {
    /// The release.
    pub release: &'a CudaRelease,
    /// Its runfile, preferably one that can be verified.
    pub runfile: Option<&'a CudaArtifact>,
    /// The oldest C library that its programs run on.
    pub glibc_min: Option<(u32, u32)>,
    /// The first C library that its headers do not compile with.
    pub glibc_breaks_from: Option<(u32, u32)>,
}

/// An archive of an add-on, and its requirements.
#[derive(Debug, Clone, Copy)]
pub struct PublishedAddOn<'a> {
    /// The archive.
    pub artifact: &'a AddOnArtifact,
    /// What its release needs, if known.
    pub range: Option<&'a AddOnRange>,
    /// The oldest C library that it works with.
    pub glibc_min: Option<(u32, u32)>,
}

impl Database {
    fn index(&self) -> &Index {
        &self.index.0
    }

    /// What is published for a machine architecture, `aarch64`; nothing for one that CUDA does not
    /// exist for.
    pub fn published_for(&self, machine: &str) -> Published<'_> {
        static NOTHING: Rows = Rows::NOTHING;
        let at = MACHINES.iter().position(|name| *name == machine);
        let rows = at.map_or(&NOTHING, |at| {
            self.index().machines[at].get_or_init(|| Rows::of(self, machine))
        });
        Published {
            database: self,
            rows,
        }
    }

    /// The source with this id.
    pub fn source(&self, id: &str) -> Option<&Source> {
        let sorted = self.index().sources.get_or_init(|| {
            let mut all: Vec<_> = (0..self.sources.len() as u32).collect();
            all.sort_by_key(|at| self.sources[*at as usize].id);
            all
        });
        let at = sorted
            .binary_search_by(|at| self.sources[*at as usize].id.as_str().cmp(id))
            .ok()?;
        Some(&self.sources[sorted[at] as usize])
    }

    /// The entries of a component release, for each of the database's components in order.
    pub fn released<'a>(
        &'a self,
        release: &'a ComponentRelease,
    ) -> impl ExactSizeIterator<Item = Option<&'a ReleasedComponent>> + Clone {
        let at = self
            .component_releases
            .binary_search_by(|r| release.version.cmp(&r.version))
            .unwrap_or_default();
        let entries = self.index().entries.get_or_init(|| {
            let releases = self.component_releases.iter();
            releases.map(|_| OnceLock::new()).collect()
        });
        entries[at]
            .get_or_init(|| {
                self.components
                    .iter()
                    .map(|c| {
                        release
                            .components
                            .iter()
                            .position(|released| c.is_called(&released.name))
                            .map(|at| at as u32)
                    })
                    .collect()
            })
            .iter()
            .map(|at| at.map(|at| &release.components[at as usize]))
    }

    /// What a component, given by its position, needs: each need with the position of the component
    /// needed.
    pub fn needs_of(
        &self,
        component: usize,
    ) -> impl Iterator<Item = (&ComponentNeed, Option<usize>)> {
        let needs = self
            .index()
            .needs
            .get_or_init(|| self.components.iter().map(|c| self.find_needs(c)).collect());
        needs[component].iter().map(|(at, needed)| {
            (
                &self.component_needs[*at as usize],
                needed.map(|n| n as usize),
            )
        })
    }

    fn find_needs(&self, component: &Component) -> Vec<(u32, Option<u32>)> {
        self.component_needs
            .iter()
            .enumerate()
            .filter(|(_, need)| need.of == component.name)
            .map(|(at, need)| {
                let needed = self.component_position(&need.needs);
                (at as u32, needed.map(|at| at as u32))
            })
            .collect()
    }
}

impl<'a> Published<'a> {
    /// The driver runfiles, newest first: one for each release, preferably one that can be
    /// verified.
    pub fn runfiles(
        self,
    ) -> impl DoubleEndedIterator<Item = (&'a DriverRelease, &'a DriverArtifact)> {
        self.rows.runfiles.iter().map(move |row| self.runfile(row))
    }

    /// The same by branch.
    pub fn runfiles_by_branch(
        self,
    ) -> impl Iterator<
        Item = (
            &'a DriverBranch,
            impl Iterator<Item = (&'a DriverRelease, &'a DriverArtifact)>,
        ),
    > {
        self.rows.branches.iter().map(move |(branch, of_branch)| {
            let runfiles = self.rows.runfiles[of_branch.clone()].iter();
            (
                &self.database.driver_branches[*branch as usize],
                runfiles.map(move |row| self.runfile(row)),
            )
        })
    }

    fn runfile(self, (release, file): &(u32, u32)) -> (&'a DriverRelease, &'a DriverArtifact) {
        let release = &self.database.drivers[*release as usize];
        (release, &release.artifacts[*file as usize])
    }

    /// The CUDA runfiles with a driver that is published only inside them, newest first.
    pub fn bundles(self) -> impl Iterator<Item = (DriverVersion, &'a CudaArtifact)> {
        let all = self
            .rows
            .bundles
            .iter()
            .map(move |at| &self.database.cuda_artifacts[*at as usize]);
        all.filter_map(|artifact| Some((artifact.bundled_driver?, artifact)))
    }

    /// The newest driver of a branch that is for everybody.
    pub fn newest_driver(self, branch: u16) -> Option<DriverVersion> {
        let at = self
            .rows
            .newest
            .binary_search_by(|version| branch.cmp(&version.branch))
            .ok()?;
        Some(self.rows.newest[at])
    }

    /// The driver releases that a companion is published for, newest first.
    pub fn companions(self, companion: CompanionId) -> &'a [DriverVersion] {
        let found = self.rows.companions.iter().find(|(id, _)| *id == companion);
        found.map_or(&[], |(_, versions)| versions.as_slice())
    }

    /// All CUDA releases, newest first, also those of which nothing is published for the
    /// architecture.
    pub fn toolkits(self) -> impl DoubleEndedIterator<Item = PublishedToolkit<'a>> + Clone {
        self.rows
            .toolkits
            .iter()
            .zip(&self.database.cuda)
            .map(move |(row, release)| PublishedToolkit {
                release,
                runfile: row
                    .runfile
                    .map(|at| &self.database.cuda_artifacts[at as usize]),
                glibc_min: row.glibc_min,
                glibc_breaks_from: row.glibc_breaks_from,
            })
    }

    /// The archives of an add-on, newest first, for [`Self::archive`].
    pub fn archives(self, add_on: AddOnId) -> &'a [ArchiveRow] {
        let found = self.rows.add_ons.iter().find(|(id, _)| *id == add_on);
        found.map_or(&[], |(_, rows)| rows.as_slice())
    }

    /// One of these archives.
    pub fn archive(self, row: &ArchiveRow) -> PublishedAddOn<'a> {
        PublishedAddOn {
            artifact: &self.database.add_on_artifacts[row.artifact as usize],
            range: row
                .range
                .map(|at| &self.database.add_on_ranges[at as usize]),
            glibc_min: row.glibc_min,
        }
    }
}

impl Rows {
    const NOTHING: Self = Self {
        runfiles: Vec::new(),
        branches: Vec::new(),
        bundles: Vec::new(),
        newest: Vec::new(),
        companions: Vec::new(),
        toolkits: Vec::new(),
        add_ons: Vec::new(),
    };

    fn of(database: &Database, machine: &str) -> Self {
        let (mut rows, arch) = (Self::NOTHING, cuda_arch(machine));
        rows.add_drivers(database, machine);
        let of_arch = database
            .cuda_artifacts
            .iter()
            .enumerate()
            .filter(|(_, a)| a.artifact.arch == arch);
        let bundles = of_arch.filter(|(_, a)| {
            a.bundled_driver
                .is_some_and(|version| !rows.has_runfile(database, version))
        });
        rows.bundles = bundles.map(|(at, _)| at as u32).collect();
        rows.toolkits = database
            .cuda
            .iter()
            .map(|release| ToolkitRow::of(database, release, arch))
            .collect();
        for (at, archive) in database
            .add_on_artifacts
            .iter()
            .enumerate()
            .filter(|(_, a)| a.artifact.arch == arch)
        {
            let id = archive.add_on;
            let range = database.range_position(id, archive.version, &archive.cuda_line);
            let glibc_min = range
                .and_then(|at| database.add_on_ranges[at].glibc_min.as_deref())
                .map(dotted);
            let row = ArchiveRow {
                artifact: at as u32,
                range: range.map(|at| at as u32),
                glibc_min,
            };
            match rows.add_ons.last_mut() {
                Some((last, archives)) if *last == id => archives.push(row),
                _ => rows.add_ons.push((id, vec![row])),
            }
        }
        rows
    }

    fn has_runfile(&self, database: &Database, version: DriverVersion) -> bool {
        let at = database
            .drivers
            .binary_search_by(|r| version.cmp(&r.version));
        at.is_ok_and(|at| {
            self.runfiles
                .binary_search_by_key(&(at as u32), |(release, _)| *release)
                .is_ok()
        })
    }

    fn add_drivers(&mut self, database: &Database, machine: &str) {
        for (at, release) in database.drivers.iter().enumerate() {
            let (at, version) = (at as u32, release.version);
            let mut here = release
                .artifacts
                .iter()
                .enumerate()
                .filter(|(_, a)| a.artifact.arch == machine);
            let mut runfiles = here
                .clone()
                .filter(|(_, a)| a.variant == DriverVariant::Full);
            let verifiable = runfiles.clone().find(|(_, a)| a.artifact.is_verifiable());
            if let Some((file, _)) = verifiable.or_else(|| runfiles.next()) {
                let row = self.runfiles.len();
                self.runfiles.push((at, file as u32));
                let branch = database
                    .driver_branches
                    .binary_search_by(|b| version.branch.cmp(&b.branch));
                if let Ok(branch) = branch.map(|at| at as u32) {
                    match self.branches.last_mut() {
                        Some((last, rows)) if *last == branch => rows.end = row + 1,
                        _ => self.branches.push((branch, row..row + 1)),
                    }
                }
            }
            let is_newest = self
                .newest
                .last()
                .is_none_or(|newest| newest.branch != version.branch);
            if is_newest && release.maturity.is_for_everybody() && here.next().is_some() {
                self.newest.push(version);
            }
            for artifact in release
                .artifacts
                .iter()
                .filter(|a| a.artifact.arch == cuda_arch(machine))
            {
                let DriverVariant::Companion(id) = artifact.variant else {
                    continue;
                };
                match self.companions.iter_mut().find(|(known, _)| *known == id) {
                    Some((_, versions)) => versions.push(version),
                    None => self.companions.push((id, vec![version])),
                }
            }
        }
    }
}

impl ToolkitRow {
    fn of(database: &Database, release: &CudaRelease, arch: &str) -> Self {
        let all = &database.cuda_artifacts;
        let start = all.partition_point(|a| a.version > release.version);
        let of_release = all[start..]
            .iter()
            .take_while(|a| a.version == release.version);
        let mut here = (start..)
            .zip(of_release)
            .filter(|(_, a)| a.artifact.arch == arch);
        // CUDA 10.2 has a second runfile for RHEL 6, whose checksum is not known.
        let runfile = here
            .clone()
            .find(|(_, a)| a.artifact.is_verifiable())
            .or_else(|| here.next());
        Self {
            runfile: runfile.map(|(at, _)| at as u32),
            glibc_min: release.glibc_min.as_deref().map(dotted),
            glibc_breaks_from: release.first_breaking_glibc(arch).map(dotted),
        }
    }
}

impl Maturity {
    /// Whether it is meant for everybody, or for every data centre.
    pub(crate) fn is_for_everybody(self) -> bool {
        matches!(
            self,
            Self::Production | Self::Legacy | Self::Datacenter | Self::NewFeature
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compat::known;
    use std::cmp::Reverse;
    use std::collections::{BTreeMap, BTreeSet};

    #[test]
    fn drivers_are_those_that_a_scan_finds() {
        let database = known();
        for machine in MACHINES {
            let published = database.published_for(machine);
            let full = |a: &&DriverArtifact| {
                a.variant == DriverVariant::Full && a.artifact.arch == machine
            };
            let has = |r: &&DriverRelease| r.artifacts.iter().any(|a| full(&a));
            let mut expected: Vec<_> = database
                .drivers
                .iter()
                .filter(has)
                .map(|r| r.version)
                .collect();
            expected.sort_by_key(|version| Reverse(*version));
            let found: Vec<_> = published
                .runfiles()
                .map(|(release, _)| release.version)
                .collect();
            assert_eq!(found, expected, "{machine}");
            for (release, artifact) in published.runfiles() {
                assert!(full(&artifact));
                let can_be_verified = release
                    .artifacts
                    .iter()
                    .filter(full)
                    .any(|a| a.artifact.is_verifiable());
                assert_eq!(
                    artifact.artifact.is_verifiable(),
                    can_be_verified,
                    "{}",
                    release.version
                );
            }
            let by_branch: Vec<_> = published
                .runfiles_by_branch()
                .flat_map(|(branch, all)| {
                    all.map(move |(release, _)| (branch.branch, release.version))
                })
                .collect();
            assert!(
                by_branch
                    .iter()
                    .all(|(branch, version)| *branch == version.branch)
            );
            let known_branch = |v: &&DriverVersion| database.branch(v.branch).is_some();
            assert_eq!(
                by_branch.len(),
                expected.iter().filter(known_branch).count(),
                "{machine}"
            );
            for (version, _) in published.bundles() {
                assert!(
                    !expected.contains(&version),
                    "{version} has a runfile for {machine}"
                );
            }
            let branches: BTreeSet<_> = database.drivers.iter().map(|r| r.version.branch).collect();
            for branch in branches {
                let of_branch = database
                    .drivers
                    .iter()
                    .filter(|r| r.version.branch == branch);
                let here =
                    of_branch.filter(|r| r.artifacts.iter().any(|a| a.artifact.arch == machine));
                let newest = here
                    .filter(|r| r.maturity.is_for_everybody())
                    .map(|r| r.version)
                    .max();
                assert_eq!(
                    published.newest_driver(branch),
                    newest,
                    "{branch} for {machine}"
                );
            }
        }
        assert!(
            database
                .published_for("riscv64")
                .runfiles()
                .next()
                .is_none()
        );
    }

    #[test]
    fn archives_stand_beside_their_requirements() {
        let database = known();
        for (machine, arch) in [
            ("x86_64", "x86_64"),
            ("aarch64", "sbsa"),
            ("ppc64le", "ppc64le"),
        ] {
            let published = database.published_for(machine);
            let mut expected: BTreeMap<AddOnId, Vec<&AddOnArtifact>> = BTreeMap::new();
            for artifact in database
                .add_on_artifacts
                .iter()
                .filter(|a| a.artifact.arch == arch)
            {
                expected.entry(artifact.add_on).or_default().push(artifact);
            }
            for add_on in &database.add_ons {
                let rows = published
                    .archives(add_on.id)
                    .iter()
                    .map(|row| published.archive(row));
                let artifacts: Vec<_> = rows.clone().map(|archive| archive.artifact).collect();
                assert_eq!(
                    artifacts,
                    expected.remove(&add_on.id).unwrap_or_default(),
                    "{} for {machine}",
                    add_on.id
                );
                for archive in rows {
                    assert_eq!(
                        archive.range,
                        database.range_of(archive.artifact),
                        "{}",
                        archive.artifact.artifact.file
                    );
                    let glibc = archive
                        .range
                        .and_then(|range| range.glibc_min.as_deref())
                        .map(dotted);
                    assert_eq!(archive.glibc_min, glibc);
                }
            }
            assert_eq!(expected, BTreeMap::new());
            assert_eq!(published.toolkits().count(), database.cuda.len());
            for (toolkit, release) in published.toolkits().zip(&database.cuda) {
                assert_eq!(toolkit.release, release);
                let is_its =
                    |a: &&CudaArtifact| a.version == release.version && a.artifact.arch == arch;
                assert_eq!(
                    toolkit.runfile.is_some(),
                    database.cuda_artifacts.iter().any(|a| is_its(&a))
                );
                assert!(toolkit.runfile.as_ref().is_none_or(is_its));
                assert_eq!(
                    toolkit.glibc_breaks_from,
                    release.first_breaking_glibc(arch).map(dotted)
                );
            }
        }
    }

    #[test]
    fn components_have_the_entries_and_needs_that_their_names_say() {
        let database = known();
        for release in &database.component_releases {
            let found: Vec<_> = database.released(release).collect();
            let expected: Vec<_> = database
                .components
                .iter()
                .map(|c| release.component(c))
                .collect();
            assert_eq!(found, expected, "{}", release.version);
        }
        for (at, component) in database.components.iter().enumerate() {
            let found: Vec<_> = database
                .needs_of(at)
                .map(|(need, at)| (need, at.map(|at| &database.components[at])))
                .collect();
            let needs = database
                .component_needs
                .iter()
                .filter(|need| need.of == component.name);
            assert_eq!(
                found,
                needs
                    .map(|need| (need, database.component(&need.needs)))
                    .collect::<Vec<_>>()
            );
        }
        assert!(
            database
                .sources
                .iter()
                .all(|source| database.source(&source.id) == Some(source))
        );
        assert_eq!(database.source("nobody"), None);
    }

    #[test]
    fn a_changed_copy_has_an_index_of_its_own() {
        let first = known();
        let newest = first
            .published_for("x86_64")
            .runfiles()
            .next()
            .map(|(release, _)| release.version);
        let mut copy = first.clone();
        copy.drivers
            .retain(|release| Some(release.version) != newest);
        let next = copy
            .published_for("x86_64")
            .runfiles()
            .next()
            .map(|(release, _)| release.version);
        assert!(next < newest, "{next:?} {newest:?}");
    }
}
