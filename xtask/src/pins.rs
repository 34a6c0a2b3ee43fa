//! What the packages that a framework pins need of the host: pip installs such a version or none, so
//! a framework is for the Pythons and the glibc that the wheels of all of them are for.

use crate::metadata::requirements;
use crate::pypi::{self, File, Index, glibc_of, numbers, once};
use crate::wheels::{self, GLIBC_EVERYWHERE, Job, PACKAGES, Pythons, python_range, pythons};
use crate::{Comparison, Result, table};
use gpusetup_database::compat::{Database, PythonRange};
use gpusetup_database::version::meets_specifier;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

const TABLE: &str = "pins.tsv";
const COLUMNS: [&str; 7] = [
    "framework",
    "release",
    "architecture",
    "glibc",
    "glibc of",
    "python",
    "python of",
];

/// Those that pin more than their PyTorch.
const FRAMEWORKS: [&str; 2] = ["vllm", "sglang"];

/// How deep pins of pins are followed.
const MAX_DEPTH: usize = 3;

/// What was read for each requirement and architecture.
type Known = Mutex<BTreeMap<[String; 3], Arc<Option<Pinned>>>>;

/// What the wheels of one version need.
struct Pinned {
    glibc: Option<[u32; 2]>,
    python: Option<PythonRange>,
    requires: Vec<(String, String)>,
}

/// What was found so far for one release and architecture.
#[derive(Default)]
struct Found {
    glibc: Option<([u32; 2], String)>,
    python: Option<(PythonRange, String)>,
}

/// Records what the pins of the newest wheels of each release need.
pub fn record(database: &Database, address: &str) -> Result<()> {
    let (index, known) = (Index::new(address), Known::default());
    let mut jobs = Vec::new();
    for package in PACKAGES
        .iter()
        .filter(|p| FRAMEWORKS.contains(&p.framework))
    {
        jobs.extend(wheels::wheels(database, address, package)?);
    }
    let jobs: Vec<(Job, &str)> = jobs
        .into_iter()
        .flat_map(|job| match job.architecture {
            "any" => vec![(job.clone(), "x86_64"), (job, "aarch64")],
            architecture => vec![(job, architecture)],
        })
        .collect();
    let mut rows = pypi::for_each(&jobs, pypi::READERS, |(job, architecture)| {
        read(&index, &known, job, architecture).map_err(|e| format!("{}: {e}", job.file.filename))
    })?;
    rows.retain(|row| row[3..].iter().any(|field| !field.is_empty()));
    rows.sort_by_key(|row| {
        (
            row[0].clone(),
            Reverse(numbers(&row[1])),
            Reverse(row[2].clone()),
        )
    });
    rows.dedup();
    let origin = "What the wheels need that frameworks on PyPI pin, with PyTorch and CUDA left out";
    table::write(TABLE, origin, &COLUMNS, &rows)
}

fn read(index: &Index, known: &Known, job: &Job, architecture: &str) -> Result<Vec<String>> {
    let mut found = Found::default();
    let mut seen = BTreeSet::new();
    let mut level = of_wheel(index, &job.file, job.package.extra, architecture)?;
    for _ in 0..MAX_DEPTH {
        let mut next = Vec::new();
        for (name, specifier) in level {
            if !seen.insert(name.clone()) {
                continue;
            }
            let key = [name.as_str(), &specifier, architecture].map(str::to_owned);
            let pinned = once(known, key, || {
                pinned(index, &name, &specifier, architecture).map(Arc::new)
            })?;
            let Some(pinned) = pinned.as_ref() else {
                continue;
            };
            let title = || format!("{name}{specifier}");
            if pinned.glibc > found.glibc.as_ref().map(|(glibc, _)| *glibc) {
                found.glibc = pinned.glibc.map(|glibc| (glibc, title()));
            }
            if let Some(range) = pinned.python {
                let before = found.python.as_ref().map(|(range, _)| *range);
                let narrower = before.map_or(range, |before| before.with(range));
                if before != Some(narrower) {
                    found.python = Some((narrower, title()));
                }
            }
            next.extend(pinned.requires.iter().cloned());
        }
        level = next;
    }
    let (glibc, glibc_of) = found
        .glibc
        .map(|([major, minor], of)| (format!("{major}.{minor}"), of))
        .unwrap_or_default();
    let (python, python_of) = found
        .python
        .and_then(|(range, of)| Some((format!("{} to {}", range.min, range.max?), of)))
        .unwrap_or_default();
    Ok([
        job.package.framework,
        &job.release,
        architecture,
        &glibc,
        &glibc_of,
        &python,
        &python_of,
    ]
    .map(str::to_owned)
    .to_vec())
}

/// The requirements of a wheel that name one version, and those with an end, which pip meets with
/// the newest before it.
fn of_wheel(
    index: &Index,
    file: &File,
    extra: &str,
    architecture: &str,
) -> Result<Vec<(String, String)>> {
    let metadata = index.metadata(file)?;
    // What counts for some Pythons only says nothing of the others.
    let for_all: Vec<_> = metadata
        .lines()
        .filter(|line| !line.contains("python_version") && !line.contains("python_full_version"))
        .collect();
    let mut found = requirements(&for_all.join("\n"), extra, architecture);
    found.retain(|(name, specifier)| has_end(specifier) && !is_known_otherwise(name));
    Ok(found)
}

fn has_end(specifier: &str) -> bool {
    ["==", "~=", "<"].iter().any(|end| specifier.contains(end))
}

/// PyTorch's wheels and those of CUDA have rows of their own.
fn is_known_otherwise(name: &str) -> bool {
    name.starts_with("torch") || name.starts_with("nvidia-") || name.starts_with("cuda-")
}

/// The newest version that meets a specifier, if it has wheels for an architecture.
fn pinned(
    index: &Index,
    name: &str,
    specifier: &str,
    architecture: &str,
) -> Result<Option<Pinned>> {
    let page = index.page(name)?;
    let is_exact = specifier.starts_with("==");
    let mut versions: BTreeSet<&str> = page
        .files
        .iter()
        .filter_map(|file| file.wheel().map(|wheel| wheel.version))
        .collect();
    versions.retain(|version| {
        let is_release = version.chars().all(|c| c.is_ascii_digit() || c == '.');
        (is_release || is_exact) && meets_specifier(version, specifier)
    });
    let Some(version) = versions.into_iter().max_by_key(|version| numbers(version)) else {
        return Ok(None);
    };
    let files: Vec<_> = page
        .files
        .iter()
        .filter(|file| {
            file.wheel().is_some_and(|wheel| {
                wheel.version == version
                    && is_for(wheel.platform, architecture)
                    && !wheel.is_free_threaded()
            })
        })
        .collect();
    let Some(file) = files.last() else {
        return Ok(None);
    };
    let text = pythons(&files);
    Ok(Some(Pinned {
        glibc: files
            .iter()
            .filter_map(|file| glibc_of(file.wheel()?.platform))
            .min(),
        // Only the names of files say for which Pythons there is none; and of a range, pip takes an
        // older version for an older Python.
        python: if is_exact && text.contains(" to ") {
            python_range(&text)?
        } else {
            None
        },
        requires: of_wheel(index, file, "", architecture)?,
    }))
}

fn is_for(platform: &str, architecture: &str) -> bool {
    platform == "any" || platform.contains("manylinux") && platform.ends_with(architecture)
}

/// The Pythons that the pins of each release are for.
pub fn pythons_of_pins() -> Result<Pythons> {
    let mut found = Pythons::new();
    for row in table::read(TABLE)? {
        let ranges = found.entry((row[0].clone(), row[1].clone())).or_default();
        ranges.extend(python_range(&row[5])?);
    }
    Ok(found)
}

/// Compares the glibc that pins need.
pub fn check(database: &Database) -> Result<Comparison> {
    let rows = table::read(TABLE)?;
    let mut differences = Vec::new();
    for row in &rows {
        let [framework, release, architecture, glibc, ..] = row.as_slice() else {
            return Err(format!("{TABLE}: {row:?}"));
        };
        let Some(known) = database.framework_release(&format!("{framework}=={release}")) else {
            differences.push(format!("{framework} {release}: not in the database"));
            continue;
        };
        let of_wheels = known.glibc_min.get(architecture);
        let wanted = (!glibc.is_empty()).then(|| numbers(glibc)).filter(|glibc| {
            *glibc > of_wheels.map_or(GLIBC_EVERYWHERE.to_vec(), |have| numbers(have))
        });
        let ours = known.pinned_glibc_min.get(architecture);
        if wanted != ours.map(|have| numbers(have)) {
            differences.push(format!(
                "{framework} {release}: what it pins needs glibc {wanted:?} on {architecture}; the database has {ours:?}"
            ));
        }
    }
    Ok(Comparison {
        what: "packages that frameworks pin",
        facts: rows.len() * 2,
        differences,
    })
}
