//! The oldest glibc that NVIDIA's libraries and programs work with: the newest glibc symbol version
//! that any of them requires. It is at the start of each file, so only that part is downloaded.

use crate::pypi::{self, File, Member, directory, glibc_of, numbers, page};
use crate::{Comparison, Result, table};
use gpusetup_database::compat::{AddOnId, Database};
use std::collections::BTreeMap;

const TABLE: &str = "libraries.tsv";

const COLUMNS: &[&str] = &[
    "package",
    "version",
    "architecture",
    "glibc of the name",
    "glibc",
    "file that needs it",
];

/// The components of a toolkit that every program needs, and cuDNN.
const PACKAGES: &[&str] = &[
    "nvidia-cuda-nvcc-cu11",
    "nvidia-cuda-nvcc-cu12",
    "nvidia-cuda-nvcc",
    "nvidia-cuda-runtime-cu11",
    "nvidia-cuda-runtime-cu12",
    "nvidia-cuda-runtime",
    "nvidia-cublas-cu11",
    "nvidia-cublas-cu12",
    "nvidia-cublas",
    CUDNN_11,
    CUDNN_12,
    CUDNN_13,
];

const CUDNN_11: &str = "nvidia-cudnn-cu11";
const CUDNN_12: &str = "nvidia-cudnn-cu12";
const CUDNN_13: &str = "nvidia-cudnn-cu13";

/// The size of the first download of a file.
const BEGINNING: u64 = 256 * 1024;

/// The architecture of the minimum versions in the database.
const COMPARED: &str = "x86_64";

struct Job {
    package: &'static str,
    version: String,
    architecture: &'static str,
    file: File,
}

/// Reads every release's wheels.
pub fn record(index: &str) -> Result<()> {
    let mut jobs = Vec::new();
    for package in PACKAGES.iter().copied() {
        let mut newest: BTreeMap<(Vec<u32>, &'static str), File> = BTreeMap::new();
        for file in page(index, package)?.files {
            let Some(wheel) = file.wheel() else { continue };
            let architecture = ["x86_64", "aarch64"]
                .into_iter()
                .find(|a| wheel.platform.ends_with(a));
            let Some(architecture) = architecture else {
                continue;
            };
            newest.insert((numbers(wheel.version), architecture), file.clone());
        }
        jobs.extend(newest.into_iter().map(|((_, architecture), file)| {
            let version = file
                .wheel()
                .map(|wheel| wheel.version.to_owned())
                .unwrap_or_default();
            Job {
                package,
                version,
                architecture,
                file,
            }
        }));
    }
    let read = |job: &Job| read(job).map_err(|e| format!("{}: {e}", job.file.filename));
    let rows = pypi::for_each(&jobs, pypi::READERS, read)?;
    table::write(
        TABLE,
        "The newest version of a glibc symbol that the files of PyPI's wheels need",
        COLUMNS,
        &rows,
    )
}

fn read(job: &Job) -> Result<Vec<String>> {
    let mut needs = None;
    for member in directory(&job.file)?
        .iter()
        .filter(|member| is_binary(&member.path))
    {
        let name = member
            .path
            .rsplit('/')
            .next()
            .unwrap_or_default()
            .to_owned();
        needs = needs.max(needed(member, &job.file)?.map(|glibc| (glibc, name)));
    }
    let (glibc, name) = needs.ok_or("none of its files needs glibc")?;
    let tag = job.file.wheel().and_then(|wheel| glibc_of(wheel.platform));
    let text = |[major, minor]: [u32; 2]| format!("{major}.{minor}");
    let tag = tag.map(text).unwrap_or_default();
    Ok(vec![
        job.package.to_owned(),
        job.version.clone(),
        job.architecture.to_owned(),
        tag,
        text(glibc),
        name,
    ])
}

/// Shared libraries, and the programs of nvcc.
fn is_binary(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    let program = ["nvcc", "ptxas", "cicc", "fatbinary", "nvlink", "cudafe++"].contains(&name);
    program || name.ends_with(".so") || name.contains(".so.")
}

/// The newest glibc symbol version that a file requires. The version names are close together, near
/// its start.
fn needed(member: &Member, file: &File) -> Result<Option<[u32; 2]>> {
    let mut most = BEGINNING;
    loop {
        let contents = member.read(file, most)?;
        let (newest, last) = newest_symbol(&contents);
        // All were found if much was read after the last one.
        let seen = newest.is_some() && contents.len() > last + 64 * 1024;
        if seen || most >= member.packed {
            return Ok(newest);
        }
        most *= 4;
    }
}

/// The newest `GLIBC_2.17` in a string table, and the offset of the last one.
pub fn newest_symbol(contents: &[u8]) -> (Option<[u32; 2]>, usize) {
    const PREFIX: &[u8] = b"\0GLIBC_";
    let (mut newest, mut last) = (None, 0);
    for at in (0..contents.len().saturating_sub(PREFIX.len()))
        .filter(|at| contents[*at..].starts_with(PREFIX))
    {
        let version = contents[at + PREFIX.len()..]
            .split(|byte| *byte == 0)
            .next()
            .unwrap_or_default();
        let numbers = numbers(std::str::from_utf8(version).unwrap_or_default());
        if let [major, minor, ..] = numbers[..] {
            newest = newest.max(Some([major, minor]));
            last = at;
        }
    }
    (newest, last)
}

/// Compares the minimum of every cuDNN, and of the CUDA releases whose components were read.
pub fn check(database: &Database) -> Result<Comparison> {
    let rows = table::read(TABLE)?;
    let (mut facts, mut differences, mut floors) = (0, Vec::new(), BTreeMap::new());
    for row in &rows {
        let [package, version, architecture, _, glibc, _] = row.as_slice() else {
            return Err(format!("{TABLE}: {row:?}"));
        };
        if architecture != COMPARED {
            continue;
        }
        let floor = numbers(glibc);
        let Some(line) = package.strip_prefix("nvidia-cudnn-cu") else {
            let known: &mut Vec<u32> = floors.entry(series(&numbers(version))).or_default();
            *known = floor.max(std::mem::take(known));
            continue;
        };
        facts += 1;
        let release = version
            .parse()
            .map_err(|e| format!("{package} {version}: {e}"))?;
        let range = database.add_on_range(AddOnId::CUDNN, release, line);
        let ours = range.and_then(|range| range.glibc_min.as_deref());
        if ours.map(numbers) != Some(floor) {
            differences.push(format!(
                "cuDNN {version} for CUDA {line} needs glibc {glibc}; the database has {ours:?}"
            ));
        }
    }
    for release in &database.cuda {
        let version = [release.version.major, release.version.minor].map(u32::from);
        let Some(floor) = floors.get(&series(&version)) else {
            continue;
        };
        facts += 1;
        if release.glibc_min.as_deref().map(numbers).as_ref() != Some(floor) {
            let ours = &release.glibc_min;
            differences.push(format!(
                "CUDA {} needs glibc {floor:?}; the database has {ours:?}",
                release.version
            ));
        }
    }
    Ok(Comparison {
        what: "glibc of CUDA's and cuDNN's libraries",
        facts,
        differences,
    })
}

/// The series of a wheel. Since CUDA 13 libraries have their own minor versions and share only the
/// major one.
fn series(version: &[u32]) -> Vec<u32> {
    let shared = if version.first().is_some_and(|major| *major >= 13) {
        1
    } else {
        2
    };
    version.iter().take(shared).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_symbol_counts_and_not_the_last() {
        let table = b"\0GLIBC_2.2.5\0GLIBC_2.27\0GLIBC_2.14\0GLIBCXX_3.4.29\0GLIBC_PRIVATE\0";
        assert_eq!(newest_symbol(table).0, Some([2, 27]));
        assert_eq!(newest_symbol(b"GLIBC_2.99 in a text\0").0, None);
    }
}
