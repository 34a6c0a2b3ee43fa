//! The GPUs that the wheels of frameworks have kernels for, from the fat binaries in their
//! libraries. NVIDIA's own libraries, which some wheels include, do not count.

use crate::fatbin::{self, Counts, Target};
use crate::pypi::{self, directory, numbers};
use crate::wheels::{self, Job, PACKAGES, Package, package};
use crate::{Comparison, Result, table};
use gpusetup_database::compat::{Database, FrameworkBuild, FrameworkRelease};
use gpusetup_database::version::ComputeCapability;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

const TABLE: &str = "kernels.tsv";

const COLUMNS: &[&str] = &[
    "framework",
    "release",
    "package",
    "version",
    "CUDA",
    "fat binaries",
    "targets",
];

/// Packages with kernels whose metadata does not mention CUDA.
const OTHERS: &[Package] = &[
    package("mxnet", "mxnet-cu117", ""),
    package("mxnet", "mxnet-cu112", ""),
    package("mxnet", "mxnet-cu110", ""),
    package("mxnet", "mxnet-cu102", ""),
    package("mxnet", "mxnet-cu101", ""),
];

/// The prefixes of NVIDIA's libraries.
const NVIDIAS: &[&str] = &[
    "libcublas",
    "libcudart",
    "libcudnn",
    "libcufft",
    "libcurand",
    "libcusolver",
    "libcusparse",
    "libcupti",
    "libnccl",
    "libnpp",
    "libnvinfer",
    "libnvJitLink",
    "libnvrtc",
    "libnvshmem",
    "libnvjpeg",
];

/// Most of their kernels are faster variants for newer GPUs, next to some for all.
const MOSTLY_FOR_NEWER: &[&str] = &["xformers", "vllm"];

/// They run on fewer GPUs than they have kernels for: JAX compiles most of its kernels itself, for
/// the GPUs in its guide, and the others need a torch that supports fewer.
const NARROWER: &[&str] = &["jax", "xformers", "vllm"];

/// Half of them download while the others unpack.
const READERS: usize = 4;

/// Smaller files of a wheel, in bytes, have no kernels: Python bindings, of which TensorFlow has
/// hundreds.
const SMALLEST: u64 = 64 * 1024;

/// Records the x86_64 wheels of each release. If names are given (`torch` or `torch==2.9`), the
/// rows of all others are kept.
pub fn record(database: &Database, index: &str, names: &[String]) -> Result<()> {
    let framework_of = |name: &String| name.split("==").next().unwrap_or_default().to_owned();
    let is_read = |framework: &str| {
        names.is_empty() || names.iter().any(|name| framework_of(name) == framework)
    };
    let is_named = |framework: &str, release: &str| {
        names.is_empty()
            || names
                .iter()
                .any(|name| name == framework || *name == format!("{framework}=={release}"))
    };
    let mut jobs = Vec::new();
    for package in PACKAGES
        .iter()
        .chain(OTHERS)
        .filter(|package| is_read(package.framework))
    {
        let of_package = wheels::wheels(database, index, package)?.into_iter();
        jobs.extend(of_package.filter(|job| {
            job.architecture == "x86_64" && is_named(package.framework, &job.release)
        }));
    }
    let read = |job: &Job| read(job).map_err(|e| format!("{}: {e}", job.file.filename));
    let mut rows = pypi::for_each(&jobs, READERS, read)?.concat();
    if !names.is_empty() {
        rows.extend(
            table::read(TABLE)?
                .into_iter()
                .filter(|row| !is_named(&row[0], &row[1])),
        );
    }
    let place = |row: &Vec<String>| {
        PACKAGES
            .iter()
            .chain(OTHERS)
            .position(|p| p.framework == row[0] && p.title() == row[2])
    };
    rows.sort_by_key(|row| {
        (
            place(row),
            Reverse(numbers(&row[3])),
            row[4].clone(),
            Reverse(row[5].parse::<usize>().ok()),
        )
    });
    table::write(
        TABLE,
        "Targets of the fat binaries in wheels for x86_64 on PyPI",
        COLUMNS,
        &rows,
    )
}

/// The rows of a wheel: one for each set of targets.
fn read(job: &Job) -> Result<Vec<Vec<String>>> {
    let mut of_series: BTreeMap<String, Counts> = BTreeMap::new();
    for member in directory(&job.file)?
        .iter()
        .filter(|member| is_library(&member.path) && member.packed > SMALLEST)
    {
        let counts = of_series
            .entry(series(job.package, &member.path))
            .or_default();
        let contents = member.stream(&job.file)?;
        fatbin::add(counts, contents).map_err(|e| format!("{}: {e}", member.path))?;
    }
    let first = [
        job.package.framework.to_owned(),
        job.release.clone(),
        job.package.title(),
        job.version.clone(),
    ];
    let row = |series: &str, targets: &BTreeSet<Target>, count: &usize| {
        let targets: Vec<_> = targets.iter().map(Target::to_string).collect();
        let last = [series.to_owned(), count.to_string(), targets.join(" ")];
        first.iter().cloned().chain(last).collect()
    };
    let rows = of_series.iter().flat_map(|(series, counts)| {
        counts
            .iter()
            .map(move |(targets, count)| (series, targets, count))
    });
    Ok(rows
        .map(|(series, targets, count)| row(series, targets, count))
        .collect())
}

fn is_library(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    (name.ends_with(".so") || name.contains(".so."))
        && !NVIDIAS.iter().any(|nvidias| name.starts_with(nvidias))
}

/// The CUDA series of a library, for packages with one library per series:
/// `libbitsandbytes_cuda124.so`.
fn series(package: &Package, path: &str) -> String {
    let series = || {
        let name = path.rsplit('/').next()?.strip_prefix(package.libraries?)?;
        let (series, _) = name.split_once(|c: char| !c.is_ascii_digit())?;
        let number: u32 = series.parse().ok()?;
        Some(format!("{}.{}", number / 10, number % 10))
    };
    series().unwrap_or_default()
}

/// The fat binaries of a build: their number for each set of targets.
type Build = Vec<(usize, Vec<Target>)>;

/// Compares the GPUs of each build in the database with those that its fat binaries run on.
pub fn check(database: &Database) -> Result<Comparison> {
    let mut wheels: BTreeMap<[String; 5], Build> = BTreeMap::new();
    for row in table::read(TABLE)? {
        let [framework, release, package, version, series, count, targets] = row.as_slice() else {
            return Err(format!("{TABLE}: {row:?}"));
        };
        let key = [framework, release, package, version, series].map(String::clone);
        let targets = targets
            .split_whitespace()
            .map(str::parse)
            .collect::<Result<_>>()?;
        wheels
            .entry(key)
            .or_default()
            .push((count.parse().map_err(|e| format!("{row:?}: {e}"))?, targets));
    }
    let (mut facts, mut differences) = (0, Vec::new());
    for ([framework, release, package, version, series], fat_binaries) in &wheels {
        let name = format!(
            "{framework} {release}{}",
            if series.is_empty() { "" } else { " for CUDA " }
        ) + series;
        let known = database.framework_release(&format!("{framework}=={version}"));
        let Some(build) = known.and_then(|known| build(known, package, series)) else {
            differences.push(format!("{name}: no build for {package}"));
            continue;
        };
        for gpu in wheels::gpus(database) {
            let (share, ours) = (share(fat_binaries, gpu), build.has_kernels_for(gpu));
            let Some(theirs) = verdict(framework, share).filter(|theirs| *theirs || ours) else {
                continue;
            };
            facts += 1;
            if ours != theirs && !(theirs && NARROWER.contains(&framework.as_str())) {
                let says = if ours { "lists it" } else { "does not" };
                differences.push(format!(
                    "{name}: {share} % of the kernels run on {gpu}; the database {says}"
                ));
            }
        }
    }
    Ok(Comparison {
        what: "kernels in the wheels of frameworks",
        facts,
        differences,
    })
}

/// The build that a wheel, or one of its libraries, is for.
fn build<'a>(
    release: &'a FrameworkRelease,
    package: &str,
    series: &str,
) -> Option<&'a FrameworkBuild> {
    if !series.is_empty() {
        return release
            .builds
            .iter()
            .find(|build| build.cuda.series().to_string() == series);
    }
    wheels::build(release, package)
}

/// The percentage of fat binaries with code that a GPU runs. Those for single architectures do not
/// count: they are faster variants of other kernels.
fn share(fat_binaries: &Build, gpu: ComputeCapability) -> usize {
    let sum = |counts: &dyn Fn(&[Target]) -> bool| -> usize {
        fat_binaries
            .iter()
            .filter(|(_, targets)| counts(targets))
            .map(|(count, _)| count)
            .sum()
    };
    let is_general = |targets: &[Target]| !targets.iter().all(Target::is_exact);
    let runs = |targets: &[Target]| {
        is_general(targets) && targets.iter().any(|target| target.runs_on(gpu))
    };
    sum(&runs) * 100 / sum(&is_general).max(1)
}

/// Whether a percentage proves that a build does or does not run on a GPU. In between it depends on
/// the kernels, and other sources decide: some kernels are for newer GPUs only, and statically
/// linked libraries support more GPUs than the framework itself.
fn verdict(framework: &str, share: usize) -> Option<bool> {
    match share {
        0 => Some(false),
        1..50 if !MOSTLY_FOR_NEWER.contains(&framework) => Some(false),
        95.. => Some(true),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_of_nvidia_do_not_count() {
        assert!(
            is_library("torch/lib/libtorch_cuda.so")
                && is_library("tensorflow/libtensorflow_cc.so.2")
        );
        assert!(!is_library("torch/lib/libcublas.so.10") && !is_library("torch/version.py"));
    }

    #[test]
    fn a_library_for_one_series_is_told_by_its_name() {
        let package = Package {
            libraries: Some("libb_cuda"),
            ..package("b", "b", "")
        };
        assert_eq!(series(&package, "b/libb_cuda124.so"), "12.4");
        assert_eq!(series(&package, "b/libb_cuda118_nocublaslt.so"), "11.8");
        assert_eq!(series(&package, "b/libb_cpu.so"), "");
    }

    #[test]
    fn the_share_of_fat_binaries_decides() {
        let targets = |text: &str| {
            text.split(' ')
                .map(|t| t.parse().expect("a target"))
                .collect::<Vec<Target>>()
        };
        // TensorFlow 2.20, with kernels for 9.0 only, in the form of ONNX Runtime 1.31.
        let build = vec![
            (1149, targets("sm_89 compute_90a")),
            (451, targets("sm_89 sm_90 compute_90")),
            (5000, targets("sm_90a")),
        ];
        let share = |gpu: &str| share(&build, gpu.parse().expect("a capability"));
        assert_eq!(
            [share("8.6"), share("8.9"), share("9.0"), share("12.0")],
            [0, 100, 100, 28]
        );
        assert_eq!(
            [0, 28, 80, 100].map(|share| verdict("tensorflow", share)),
            [Some(false), Some(false), None, Some(true)]
        );
        assert_eq!(verdict("xformers", 10), None);
    }
}
