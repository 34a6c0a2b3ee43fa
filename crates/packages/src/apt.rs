//! apt's lists of packages, its sources and its preferences.

mod added;
mod dpkg;
mod entries;
mod expression;
mod fetcher;
mod origin;
mod pins;
mod policy;
mod preferences;
mod settings;
mod simulation;
mod sources;
mod stanza;
mod version;

use super::manager::{ByHand, KernelHeaders, Manager, edit_grub};
use super::records::{self, Budget, each_record_of};
use super::{Unknown, Versions, behind_program, configuration};
use dpkg::STATUS;
pub use entries::{AptSource, apt_sources};
use gpusetup_system::{System, on_all_cores};
use origin::ReleaseOrigin;
use pins::Condition;
use policy::Record;
use sources::ListFile;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

const LISTS: &str = "/var/lib/apt/lists";
/// The file with the architectures of a host that has several; its own comes first.
const ARCHITECTURES: &str = "/var/lib/dpkg/arch";
/// The package whose architecture is the host's.
const DPKG: &str = "dpkg";
const APT: &str = "apt";
/// The first apt that knows `Pin: source-version` (its changelog); an older one warns of it and
/// goes on without.
const FIRST_WITH_SOURCE_PINS: &str = "2.9.9";

/// The suffixes of a list, by compression; apt uses the first file that exists.
const ENDINGS: [&str; 7] = ["", ".xz", ".zst", ".gz", ".lz4", ".bz2", ".lzma"];

/// How apt is called. Its refresh succeeds even if some lists cannot be downloaded, as intended:
/// broken third-party repositories do not concern gpusetup.
pub(crate) static MANAGER: Manager = Manager {
    programs: &["/usr/bin/apt-get"],
    initramfs: "initrd.img-{release}",
    record: DPKG,
    record_file: Some(dpkg::RECORD),
    each_file: dpkg::each_file,
    repositories: entries::REPOSITORIES,
    is_meant: entries::is_meant,
    added: Some(added::FORMAT),
    refresh: Some("apt-get -q -o DPkg::Lock::Timeout=900 update"),
    simulate_install: "apt-get -s -q --no-install-recommends install",
    install: "apt-get -y -q --no-install-recommends -o Dpkg::Options::=--force-confdef -o Dpkg::Options::=--force-confold \
              -o DPkg::Lock::Timeout=900 install",
    downgrade: "apt-get -y -q --no-install-recommends --no-remove --allow-downgrades -o Dpkg::Options::=--force-confdef \
                -o Dpkg::Options::=--force-confold -o DPkg::Lock::Timeout=900 install",
    simulate_remove: "apt-get -s -q purge",
    remove: "apt-get -y -q -o DPkg::Lock::Timeout=900 purge",
    list: &[
        "dpkg-query",
        "-W",
        "-f",
        "${db:Status-Status} ${Package} ${Version}\\n",
    ],
    separator: "=",
    enable_stream: None,
    stream_state: None,
    locks: &[
        "/var/lib/dpkg/lock-frontend",
        "/var/lib/dpkg/lock",
        "/var/lib/apt/lists/lock",
        "/var/cache/apt/archives/lock",
    ],
    process: None,
    from_folder: fetcher::from_folder,
    folder_files: Some(fetcher::FOLDER_FILES),
    fetcher: fetcher::FETCHER,
    without_cache,
    simulation: Some(simulation::SIMULATION),
    automatic: Some(simulation::AUTOMATIC),
    holds: Some(simulation::HOLDS),
    preferences: Some(preferences::PREFERENCES),
    interruption: Some(dpkg::INTERRUPTION),
    scripts: Some("/var/lib/dpkg"),
    headers: Some(KernelHeaders::ByName),
    offered_versions,
    dependencies: Some(dependencies),
    by_hand: ByHand {
        install: "apt-get install",
        upgrade: "apt-get install --only-upgrade",
        remove: "apt-get remove",
        reinstall: "apt-get install --reinstall",
        cxx: "g++",
        containerd: Some("containerd"),
        slurmd: Some("slurmd"),
        venv: Some("python3-venv"),
        python_headers: "python3-dev",
        globs_versions: true,
        refresh: "apt-get update",
        owner: "dpkg -S",
        remove_old_kernels: "apt-get autoremove --purge",
        add_kernel_parameter: |parameter| edit_grub(parameter, "update-grub"),
    },
};

fn without_cache(argv: Vec<String>) -> Vec<String> {
    behind_program(
        argv,
        [
            "-o",
            "Dir::Cache::pkgcache=",
            "-o",
            "Dir::Cache::srcpkgcache=",
        ]
        .map(str::to_owned),
    )
}

/// The records of packages by name.
type Records = BTreeMap<String, Vec<Record>>;

/// See [`super::offered_versions`].
pub(crate) fn offered_versions(
    system: &System,
    names: &BTreeSet<&str>,
    locked: &Versions,
) -> Result<Versions, Unknown> {
    let Lists {
        records,
        origins,
        pins,
    } = read_lists(system, names)?;
    Ok(chosen(&records, &origins, &pins, locked))
}

/// See [`super::dependencies`].
fn dependencies(system: &System, versions: &Versions) -> Result<BTreeMap<String, String>, Unknown> {
    let names = versions.keys().map(String::as_str).collect();
    let Lists { records, .. } = read_lists(system, &names)?;
    Ok(versions
        .iter()
        .filter_map(|(name, version)| {
            let record = records
                .get(name)?
                .iter()
                .find(|record| record.version == *version)?;
            Some((name.clone(), record.depends.clone()))
        })
        .collect())
}

/// What the lists and dpkg's record have of some packages, and what decides between their versions.
struct Lists {
    records: Records,
    origins: Vec<ReleaseOrigin>,
    pins: Vec<pins::Pin>,
}

fn read_lists(system: &System, names: &BTreeSet<&str>) -> Result<Lists, Unknown> {
    let lists = system.list(LISTS).map_err(|e| Unknown::at(LISTS, e))?;
    if !lists.iter().any(|name| name.contains("_Packages")) {
        return Err(Unknown::NotFetched);
    }
    if system.modified(LISTS) < sources::changed(system)? {
        return Err(Unknown::Outdated);
    }
    let budget = Budget::default();
    let status = Status::read(system, names, &budget)?;
    let architectures = architectures(system, &status.native)?;
    let indexes = sources::indexes(system, &architectures)?;
    let found = indexes
        .into_iter()
        .filter_map(|index| Some((file_of(&index, &lists)?, index)));
    let found: Vec<(PathBuf, ListFile)> = found.collect();

    let folder = Path::new(LISTS);
    let mut origins = Vec::new();
    for (_, index) in &found {
        origins.push(ReleaseOrigin::of(system, folder, index, &budget)?);
    }
    origins.push(ReleaseOrigin::status());
    let mut pins = Vec::new();
    let default_release = settings::default_release(system)?;
    if !default_release.is_empty() {
        pins.push(
            pins::of_default_release(&default_release, &origins)
                .map_err(|why| Unknown::at(LISTS, why))?,
        );
    }
    pins.extend(pins::read(system, &status.native)?);
    pins.retain(|pin| {
        status.knows_source_pins || !matches!(pin.condition, Condition::SourceVersion(_))
    });

    let mut records = Records::new();
    let all: Vec<usize> = (0..found.len()).collect();
    let lists = on_all_cores(&all, |at| {
        read_list(system, &found[*at].0, *at, names, &status.native, &budget)
    });
    for list in lists {
        list?
            .into_iter()
            .for_each(|(name, record)| records.entry(name).or_default().push(record));
    }
    for (name, mut record) in status.records {
        record.origin = origins.len() - 1;
        records.entry(name).or_default().push(record);
    }
    Ok(Lists {
        records,
        origins,
        pins,
    })
}

fn chosen(
    records: &Records,
    origins: &[ReleaseOrigin],
    pins: &[pins::Pin],
    locked: &Versions,
) -> Versions {
    let chosen = records.iter().filter_map(|(name, records)| {
        let locked = records
            .iter()
            .filter(|r| r.is_installed || !origins[r.origin].is_status)
            .find(|r| locked.get(name) == Some(&r.version));
        let version = locked.map(|r| r.version.as_str());
        let version = version.or_else(|| policy::candidate(name, records, origins, pins))?;
        Some((name.clone(), version.to_owned()))
    });
    chosen.collect()
}

fn file_of(index: &ListFile, lists: &[String]) -> Option<PathBuf> {
    let names = ENDINGS
        .iter()
        .map(|ending| format!("{}{ending}", index.list));
    // The lists are sorted.
    names
        .into_iter()
        .find(|name| lists.binary_search(name).is_ok())
        .map(|name| Path::new(LISTS).join(name))
}

/// The host's own architecture, and additional ones from which it accepts packages.
fn architectures(system: &System, native: &str) -> Result<Vec<String>, Unknown> {
    let text = configuration(system, Path::new(ARCHITECTURES))?;
    let others = text
        .lines()
        .map(str::trim)
        .filter(|a| !a.is_empty() && *a != native)
        .map(str::to_owned);
    Ok([native.to_owned()].into_iter().chain(others).collect())
}

/// The records of these packages in a list, for the host's architecture.
fn read_list(
    system: &System,
    path: &Path,
    origin: usize,
    names: &BTreeSet<&str>,
    native: &str,
    budget: &Budget,
) -> Result<Vec<(String, Record)>, Unknown> {
    let wanted: std::collections::HashSet<&[u8]> =
        names.iter().map(|name| name.as_bytes()).collect();
    let mut records = Vec::new();
    each_record_of(system, path, b"\n\n", budget, |stanza| {
        let stanza = stanza.trim_ascii_start();
        if stanza.is_empty() {
            return Ok(());
        }
        let name = stanza::package(stanza).ok_or("a stanza has no Package")?;
        if wanted.contains(&*name)
            && [native, "all"].contains(&&*stanza::text(stanza, "Architecture"))
        {
            let name = String::from_utf8_lossy(&name).into_owned();
            let record = Record::read(&name, stanza, origin, false);
            records.push((name, record));
        }
        Ok(())
    })?;
    records.retain(|(_, record)| !record.version.is_empty());
    Ok(records)
}

/// dpkg's record of installed packages.
struct Status {
    native: String,
    records: Vec<(String, Record)>,
    knows_source_pins: bool,
}

impl Status {
    fn read(system: &System, names: &BTreeSet<&str>, budget: &Budget) -> Result<Self, Unknown> {
        let (mut native, mut records, mut knows_source_pins) = (None, Vec::new(), false);
        let unknown = |e: io::Error| Unknown::at(STATUS, e);
        let file = records::open(system, Path::new(STATUS), budget).map_err(unknown)?;
        dpkg::each_package(file, |name, stanza| {
            let architecture = || stanza::text(stanza, "Architecture").into_owned();
            if name == DPKG {
                native = Some(architecture());
            }
            if name == APT {
                knows_source_pins =
                    version::compare(&stanza::text(stanza, "Version"), FIRST_WITH_SOURCE_PINS)
                        .is_ge();
            }
            if names.contains(name) {
                let record = Record::read(name, stanza, 0, dpkg::is_present(stanza));
                records.push((name.to_owned(), architecture(), record));
            }
            Ok(())
        })
        .map_err(unknown)?;
        let native = native.ok_or_else(|| Unknown::at(STATUS, "it does not list dpkg itself"))?;
        records.retain(|(_, architecture, record)| {
            [&*native, "all"].contains(&&**architecture) && !record.version.is_empty()
        });
        let records = records
            .into_iter()
            .map(|(name, _, record)| (name, record))
            .collect();
        Ok(Self {
            native,
            records,
            knows_source_pins,
        })
    }
}

/// For fuzzing.
#[cfg(fuzzing)]
pub fn read_anything(text: &str) {
    sources::read_anything(text);
    pins::read_anything(text);
    settings::read_anything(text);
    let record = Record::read("a", text.as_bytes(), 0, true);
    let _ = policy::candidate(
        "a",
        &[record.clone(), record],
        &[ReleaseOrigin::status()],
        &[],
    );
}
