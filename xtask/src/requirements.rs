//! What comes with a framework when pip installs it: whether the package's requirements, and those
//! of the packages that it pins, lead to the CUDA runtime and to cuDNN. Only the metadata of the
//! wheels is downloaded.

use crate::metadata::requirements;
use crate::pypi::{self, File, Index, Page, numbers};
use crate::{Comparison, Result, table};
use gpusetup_database::compat::{BundledComponent, Database, Framework, FrameworkRelease};
use gpusetup_database::version::meets_specifier;
use std::collections::{BTreeMap, BTreeSet};

const TABLE: &str = "requirements.tsv";

const COLUMNS: &[&str] = &[
    "framework",
    "release",
    "package",
    "version",
    "extras",
    "CUDA",
    "cuDNN",
];

/// Packages of frameworks whose own requirements are followed. Others (numpy) lead to no CUDA.
const FOLLOWED: &[&str] = &[
    "torch",
    "jax-cuda12-plugin",
    "jax-cuda13-plugin",
    "jax-cuda12-pjrt",
    "jax-cuda13-pjrt",
    "libcudf-cu12",
    "libcudf-cu13",
    "pylibcudf-cu12",
    "pylibcudf-cu13",
    "rmm-cu12",
    "rmm-cu13",
    "numba-cuda",
];

/// How deep requirements are followed: jax, its plugin.
const DEPTH: usize = 3;

/// A package of a release, as pip is asked for it.
struct Job {
    framework: String,
    release: String,
    /// With extras.
    package: String,
}

/// The packages of each release with their extras, once each.
fn jobs(database: &Database) -> Vec<Job> {
    let mut jobs = Vec::new();
    for framework in &database.frameworks {
        let told = |r: &&FrameworkRelease| is_from_requirements(framework, r);
        for release in framework.releases.iter().filter(told) {
            let Some(way) = framework.python_package(release) else {
                continue;
            };
            let packages: BTreeSet<_> = release
                .builds
                .iter()
                .map(|build| way.package_for(build))
                .collect();
            let (framework, release) = (framework.name.clone(), release.version.clone());
            let job = |package| Job {
                framework: framework.clone(),
                release: release.clone(),
                package,
            };
            jobs.extend(packages.into_iter().map(job));
        }
    }
    jobs
}

/// The wheels of a page for x86-64.
fn wheels(page: &Page) -> impl Iterator<Item = &File> {
    let is_here = |file: &&File| {
        file.wheel()
            .is_some_and(|w| w.platform == "any" || w.platform.ends_with("x86_64"))
    };
    page.files.iter().filter(is_here)
}

/// Adds the requirements on CUDA's packages, with their specifiers.
fn follow(
    index: &Index,
    file: &File,
    extra: &str,
    depth: usize,
    found: &mut BTreeMap<String, String>,
) -> Result<()> {
    for (name, specifier) in requirements(&index.metadata(file)?, extra, "x86_64") {
        if name.starts_with("nvidia-") || name == "cuda-toolkit" {
            found.entry(name).or_insert(specifier);
        } else if depth > 0 && FOLLOWED.contains(&name.as_str()) {
            let page = index.page(&name)?;
            let matching = wheels(&page).filter(|w| {
                w.wheel()
                    .is_some_and(|w| meets_specifier(w.version, &specifier))
            });
            let newest = matching.max_by_key(|w| w.wheel().map(|w| numbers(w.version)));
            // A plugin names the CUDA that it needs in an extra.
            let extra = if name.starts_with("jax-cuda") {
                "with-cuda"
            } else {
                ""
            };
            if let Some(newest) = newest {
                follow(index, newest, extra, depth - 1, found)?;
            }
        }
    }
    Ok(())
}

/// Records what comes with each package.
pub fn record(database: &Database, address: &str) -> Result<()> {
    let index = Index::new(address);
    let read = |job: &Job| {
        read(&index, database, job).map_err(|e| format!("{} {}: {e}", job.package, job.release))
    };
    let rows = pypi::for_each(&jobs(database), pypi::READERS, read)?;
    let rows: Vec<_> = rows.into_iter().flatten().collect();
    table::write(
        TABLE,
        "What comes with the packages that pip installs: the newest wheel of each release",
        COLUMNS,
        &rows,
    )
}

fn read(index: &Index, database: &Database, job: &Job) -> Result<Option<Vec<String>>> {
    let (name, extra) = job.package.split_once('[').unwrap_or((&job.package, ""));
    let extra = extra.trim_end_matches(']').replace('_', "-");
    let of_release = |version: &str| {
        let wish = format!("{}=={version}", job.framework);
        database
            .framework_release(&wish)
            .is_some_and(|release| release.version == job.release)
    };
    let page = index.page(name)?;
    let wheels = wheels(&page).filter(|file| file.wheel().is_some_and(|w| of_release(w.version)));
    let Some(newest) = wheels.max_by_key(|file| file.wheel().map(|w| numbers(w.version))) else {
        return Ok(None);
    };
    let version = newest
        .wheel()
        .map(|w| w.version.to_owned())
        .unwrap_or_default();
    let provided: BTreeSet<_> = index
        .metadata(newest)?
        .lines()
        .filter_map(|line| {
            Some(
                line.strip_prefix("Provides-Extra: ")?
                    .trim()
                    .replace('_', "-")
                    .to_lowercase(),
            )
        })
        .collect();
    let extras = extra.split(',').filter(|e| !e.is_empty());
    let extras: Vec<_> = extras
        .map(|e| {
            if provided.contains(e) {
                e.to_owned()
            } else {
                format!("no {e}")
            }
        })
        .collect();
    let mut found = BTreeMap::new();
    follow(index, newest, &extra, DEPTH, &mut found)?;
    let of = |is: &dyn Fn(&str) -> bool| {
        found
            .iter()
            .find(|(name, _)| is(name))
            .map(|(name, specifier)| format!("{name} {specifier}").trim().to_owned())
    };
    let cuda = of(&|name| name == "cuda-toolkit" || name.starts_with("nvidia-cuda-runtime"))
        .or_else(|| of(&|name| name.starts_with("nvidia-cuda-nvrtc")));
    let cudnn = of(&|name| name.starts_with("nvidia-cudnn"));
    let (framework, release) = (job.framework.clone(), job.release.clone());
    let (cuda, cudnn) = (cuda.unwrap_or_default(), cudnn.unwrap_or_default());
    Ok(Some(vec![
        framework,
        release,
        job.package.clone(),
        version,
        extras.join(", "),
        cuda,
        cudnn,
    ]))
}

/// Compares what the packages bring, and whether their extras exist.
pub fn check(database: &Database) -> Result<Comparison> {
    let rows = table::read(TABLE)?;
    let (mut differences, mut seen) = (Vec::new(), BTreeSet::new());
    for row in &rows {
        let [framework, release, package, version, extras, cuda, cudnn] = row.as_slice() else {
            return Err(format!("{TABLE}: {row:?}"));
        };
        let mut differ = |what: String| {
            differences.push(format!("{framework} {release}: {package} {version} {what}"))
        };
        let known = database.framework(framework);
        let known = known.zip(database.framework_release(&format!("{framework}=={version}")));
        let Some((known, of_release)) = known.filter(|(_, r)| r.version == *release) else {
            differ("is of another release in the database".to_owned());
            continue;
        };
        if !packages(known, of_release).contains(package) {
            differ("is not how the database installs it".to_owned());
            continue;
        }
        seen.insert((framework.clone(), release.clone(), package.clone()));
        if extras.contains("no ") {
            differ(format!("lacks an extra: {extras}"));
        }
        let brings = known
            .python_package(of_release)
            .map(|way| way.brings.as_slice())
            .unwrap_or_default();
        for (part, what) in [
            (BundledComponent::Cuda, cuda),
            (BundledComponent::Cudnn, cudnn),
        ] {
            if brings.contains(&part) == what.is_empty() {
                differ(format!(
                    "requires {part:?} `{what}`; the database says {brings:?}"
                ));
            }
        }
    }
    // PyPI has no wheels of what comes from the project's own index alone.
    let elsewhere = |release: &FrameworkRelease| {
        let mut architectures = release
            .builds
            .iter()
            .flat_map(|build| &build.architectures)
            .peekable();
        architectures.peek().is_some() && architectures.all(|a| release.cpu_only.contains(a))
    };
    for framework in &database.frameworks {
        for release in framework
            .releases
            .iter()
            .filter(|r| !elsewhere(r) && is_from_requirements(framework, r))
        {
            for package in packages(framework, release) {
                let key = (framework.name.clone(), release.version.clone(), package);
                if !seen.contains(&key) {
                    differences.push(format!(
                        "{} {}: no wheel of {} was read",
                        key.0, key.1, key.2
                    ));
                }
            }
        }
    }
    Ok(Comparison {
        what: "what comes with Python packages",
        facts: rows.len() * 2,
        differences,
    })
}

fn packages(framework: &Framework, release: &FrameworkRelease) -> BTreeSet<String> {
    let way = framework.python_package(release);
    way.map(|way| {
        release
            .builds
            .iter()
            .map(|build| way.package_for(build))
            .collect()
    })
    .unwrap_or_default()
}

/// Whether what an installation brings is told by the requirements of its packages: older wheels
/// have the libraries in themselves.
fn is_from_requirements(framework: &Framework, release: &FrameworkRelease) -> bool {
    let installs = release
        .builds
        .iter()
        .filter_map(|build| framework.python_install(release, build, "x86_64"));
    let mut sources = installs.flat_map(|install| install.sources).peekable();
    sources.peek().is_none() || sources.any(|source| *source == "requirements")
}
