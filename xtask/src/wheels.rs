//! The wheels of frameworks on PyPI. Their metadata gives the CUDA and cuDNN versions they run
//! with, their names the oldest glibc, and files in some of them the versions they are built with.
//! Only these parts of a wheel are downloaded.

use crate::metadata::{
    cuda_major, described, range, requirements, series_of_libraries, version_after,
};
use crate::pypi::{self, File, directory, glibc_of, numbers};
use crate::{Comparison, Result, table};
use gpusetup_database::compat::{
    Database, FrameworkBuild, FrameworkNeeds, FrameworkRelease, PythonRange,
};
use gpusetup_database::version::{AddOnVersion, ComputeCapability, CudaVersion};
use std::collections::{BTreeMap, BTreeSet};

const TABLE: &str = "wheels.tsv";

const COLUMNS: &[&str] = &[
    "framework",
    "release",
    "package",
    "version",
    "architecture",
    "glibc",
    "python",
    "made with CUDA",
    "made with cuDNN",
    "requires CUDA",
    "requires cuDNN",
    "requires frameworks",
    "requires nvcc",
];

/// The Pythons of each framework's release.
pub type Pythons = BTreeMap<(String, String), Vec<PythonRange>>;

/// Every system that CUDA supports has it, so the database omits it.
pub const GLIBC_EVERYWHERE: [u32; 2] = [2, 17];

/// A package of a framework. If it is for one major version of CUDA, its name or extra contains
/// that.
pub struct Package {
    /// The framework's name in the database.
    pub framework: &'static str,
    /// The package's name in the index.
    pub name: &'static str,
    /// The extras to include, in pip's notation: `cuda,cudnn`.
    pub extra: &'static str,
    /// The end of the path of a file with the build versions, and the texts that precede the
    /// versions of CUDA and cuDNN in it.
    pub made_with: Option<(&'static str, &'static str, &'static str)>,
    /// The text before the CUDA series in the names of its libraries, if it has one per series:
    /// `libbitsandbytes_cuda124.so`.
    pub libraries: Option<&'static str>,
    /// Only its Pythons and its systems are read: what it runs with comes with another package.
    pub is_bindings: bool,
}

pub const fn package(framework: &'static str, name: &'static str, extra: &'static str) -> Package {
    Package {
        framework,
        name,
        extra,
        made_with: None,
        libraries: None,
        is_bindings: false,
    }
}

const fn bindings(framework: &'static str, name: &'static str) -> Package {
    Package {
        is_bindings: true,
        ..package(framework, name, "")
    }
}

pub const PACKAGES: &[Package] = &[
    Package {
        made_with: Some(("torch/version.py", "\ncuda", "")),
        ..package("torch", "torch", "")
    },
    Package {
        made_with: Some(("python/platform/build_info.py", "cuda_version", "")),
        ..package("tensorflow", "tensorflow", "and-cuda")
    },
    Package {
        made_with: Some(("python/platform/build_info.py", "cuda_version", "")),
        ..package("tensorflow", "tensorflow-gpu", "")
    },
    package("jax", "jax-cuda12-plugin", "with-cuda"),
    package("jax", "jax-cuda13-plugin", "with-cuda"),
    Package {
        made_with: Some(("build_and_package_info.py", "cuda_version", "")),
        ..package("onnxruntime", "onnxruntime-gpu", "cuda,cudnn")
    },
    package("vllm", "vllm", ""),
    package("cupy", "cupy-cuda11x", "ctk"),
    package("cupy", "cupy-cuda12x", "ctk"),
    package("cupy", "cupy-cuda13x", "ctk"),
    // The libraries are in NVIDIA's own index.
    bindings("tensorrt", "tensorrt-cu11-bindings"),
    bindings("tensorrt", "tensorrt-cu12-bindings"),
    bindings("tensorrt", "tensorrt-cu13-bindings"),
    package("sglang", "sglang", "srt"),
    Package {
        made_with: Some(("cpp_lib.json", "\"cuda\"", "")),
        ..package("xformers", "xformers", "")
    },
    package("numba-cuda", "numba-cuda", "cu12"),
    package("numba-cuda", "numba-cuda", "cu13"),
    package("cudf", "cudf-cu12", ""),
    package("cudf", "cudf-cu13", ""),
    package("cudf", "libcudf-cu12", ""),
    package("cudf", "libcudf-cu13", ""),
    package("faiss-gpu", "faiss-gpu-cu12", ""),
    Package {
        made_with: Some((
            "paddle/version/__init__.py",
            "\ncuda_version",
            "\ncudnn_version",
        )),
        ..package("paddlepaddle-gpu", "paddlepaddle-gpu", "")
    },
    Package {
        made_with: Some(("bin/ptxas", "Cuda compilation tools, release ", "")),
        ..package("triton", "triton", "")
    },
    package("xgboost", "xgboost", ""),
    Package {
        libraries: Some("libbitsandbytes_cuda"),
        ..package("bitsandbytes", "bitsandbytes", "")
    },
    package("transformer-engine", "transformer-engine-cu12", ""),
    package("transformer-engine", "transformer-engine-cu13", ""),
];

/// Those of which pip installs more than these wheels: its other parts may be for fewer Pythons.
const OTHER_PARTS: &[&str] = &["transformer-engine"];

impl Package {
    /// In pip's notation: `jax-cuda12-plugin[with-cuda]`.
    pub fn title(&self) -> String {
        if self.extra.is_empty() {
            self.name.to_owned()
        } else {
            format!("{}[{}]", self.name, self.extra)
        }
    }
}

/// One wheel to read.
#[derive(Clone)]
pub struct Job {
    /// The package it belongs to.
    pub package: &'static Package,
    /// The release in the database: `2.9`.
    pub release: String,
    /// The wheel's version: `2.9.1`.
    pub version: String,
    /// The machine architecture, or `any`.
    pub architecture: &'static str,
    python: String,
    /// Its URL.
    pub file: File,
}

/// Records the newest wheels of each release in the database, and of all newer ones. If names are
/// given, the rows of all other frameworks are kept.
pub fn record(database: &Database, index: &str, frameworks: &[String]) -> Result<()> {
    let is_named =
        |framework: &str| frameworks.is_empty() || frameworks.iter().any(|name| name == framework);
    let mut jobs = Vec::new();
    for package in PACKAGES
        .iter()
        .filter(|package| is_named(package.framework))
    {
        jobs.extend(wheels(database, index, package)?);
    }
    let read = |job: &Job| read(database, job).map_err(|e| format!("{}: {e}", job.file.filename));
    let mut rows = pypi::for_each(&jobs, pypi::READERS, read)?;
    if !frameworks.is_empty() {
        rows.extend(
            table::read(TABLE)?
                .into_iter()
                .filter(|row| !is_named(&row[0])),
        );
    }
    let place = |row: &Vec<String>| {
        PACKAGES
            .iter()
            .position(|p| p.framework == row[0] && p.title() == row[2])
    };
    rows.sort_by_key(|row| {
        (
            place(row),
            std::cmp::Reverse(numbers(&row[3])),
            std::cmp::Reverse(row[4].clone()),
        )
    });
    table::write(
        TABLE,
        "Wheels on PyPI: the newest of each release",
        COLUMNS,
        &rows,
    )
}

/// The relevant wheels of a package.
pub fn wheels(database: &Database, index: &str, package: &'static Package) -> Result<Vec<Job>> {
    let page = pypi::page(index, package.name)?;
    let known = database.framework(package.framework);
    let newest_known = known
        .and_then(|f| f.releases.first())
        .map(|r| numbers(&r.version));
    let mut newest: BTreeMap<String, &str> = BTreeMap::new();
    for version in page
        .files
        .iter()
        .filter_map(File::wheel)
        .map(|wheel| wheel.version)
    {
        let release = match database.framework_release(&format!("{}=={version}", package.framework))
        {
            Some(release) => release.version.clone(),
            None if newest_known
                .as_ref()
                .is_none_or(|known| numbers(version) > *known) =>
            {
                version.to_owned()
            }
            None => continue,
        };
        let newest = newest.entry(release).or_insert(version);
        if numbers(version) > numbers(newest) {
            *newest = version;
        }
    }
    let mut jobs = Vec::new();
    for (release, version) in newest {
        for architecture in ["x86_64", "aarch64", "any"] {
            let of = |file: &&File| {
                file.wheel()
                    .is_some_and(|w| w.version == version && w.platform.ends_with(architecture))
            };
            let Some(file) = page.files.iter().rfind(of) else {
                continue;
            };
            let python = pythons(&page.files.iter().filter(of).collect::<Vec<_>>());
            let (release, version) = (release.clone(), version.to_owned());
            jobs.push(Job {
                package,
                release,
                version,
                architecture,
                python,
                file: file.clone(),
            });
        }
    }
    Ok(jobs)
}

/// The Python versions that the wheels of a release support: `3.10 to 3.14`.
pub fn pythons(files: &[&File]) -> String {
    let exact = |file: &&File| {
        let wheel = file.wheel()?;
        let minor = wheel.python.strip_prefix("cp3")?.parse::<u32>().ok()?;
        (wheel.abi != "abi3").then_some(minor)
    };
    let usual = files
        .iter()
        .filter(|file| !file.wheel().is_some_and(|wheel| wheel.is_free_threaded()));
    match usual.map(exact).collect::<Option<BTreeSet<_>>>() {
        Some(minors) if !minors.is_empty() => {
            format!(
                "3.{} to 3.{}",
                minors.first().unwrap_or(&0),
                minors.last().unwrap_or(&0)
            )
        }
        _ => files
            .last()
            .and_then(|file| file.requires_python.clone())
            .unwrap_or_default(),
    }
}

/// The row of a wheel.
fn read(database: &Database, job: &Job) -> Result<Vec<String>> {
    let Job {
        package,
        release,
        version,
        architecture,
        python,
        file,
    } = job;
    let members = directory(file)?;
    let text_of = |end: &str| {
        members
            .iter()
            .find(|m| m.path.ends_with(end))
            .map(|m| m.text(file))
            .transpose()
    };
    let metadata = text_of(".dist-info/METADATA")?.unwrap_or_default();
    let (mut made_cuda, mut made_cudnn) = (String::new(), String::new());
    if let Some((path, cuda, cudnn)) = package.made_with
        && let Some(text) = text_of(path)?
    {
        made_cuda = version_after(&text, cuda);
        made_cudnn = version_after(&text, cudnn);
    }
    if let Some(prefix) = package.libraries {
        made_cuda = series_of_libraries(members.iter().map(|m| m.path.as_str()), prefix);
    }
    let requirements = requirements(&metadata, package.extra, architecture);
    let major = cuda_major(package.name).or_else(|| cuda_major(package.extra));
    let of = |is: &dyn Fn(&str) -> bool| requirements.iter().find(|(name, _)| is(name));
    let runtime = of(&|name| name == "cuda-toolkit" || name.starts_with("nvidia-cuda-runtime"));
    // A wheel with a built-in runtime may still load a library for one major version.
    let nccl = of(&|name| name.starts_with("nvidia-nccl-cu")).filter(|_| package.name == "xgboost");
    let nvcc = of(&|name| name.starts_with("nvidia-cuda-nvcc"))
        .map(|(_, specifier)| range(specifier, None));
    let cuda = match runtime.or(nccl) {
        _ if package.is_bindings => String::new(),
        Some((name, specifier)) => range(specifier, cuda_major(name).or(major)),
        None => range(&described(&metadata), major),
    };
    let cudnn = of(&|name| name.starts_with("nvidia-cudnn-cu"))
        .map(|(_, specifier)| range(specifier, None));
    let frameworks: BTreeSet<_> = requirements
        .iter()
        .filter(|(_, specifier)| !specifier.is_empty())
        .filter_map(|(name, specifier)| Some((&database.framework(name)?.name, specifier)))
        .filter(|(name, _)| *name != package.framework)
        .map(|(name, specifier)| format!("{name}{}", in_order(specifier)))
        .collect();
    let glibc = file
        .wheel()
        .and_then(|wheel| glibc_of(wheel.platform))
        .map(|[major, minor]| format!("{major}.{minor}"));
    Ok(vec![
        package.framework.to_owned(),
        release.clone(),
        package.title(),
        version.clone(),
        (*architecture).to_owned(),
        glibc.unwrap_or_default(),
        python.clone(),
        made_cuda,
        made_cudnn,
        cuda,
        cudnn.unwrap_or_default(),
        frameworks.into_iter().collect::<Vec<_>>().join("; "),
        nvcc.unwrap_or_default(),
    ])
}

/// The requirements in a field of the table.
fn each_of(requires: &str) -> impl Iterator<Item = &str> {
    requires.split("; ").filter(|one| !one.is_empty())
}

/// A specifier with the oldest version first, `>=2.4,<3`. No pre-release is ever planned, so `<3.0a0`
/// is `<3.0`.
fn in_order(specifier: &str) -> String {
    let mut clauses: Vec<_> = { specifier.split(',') }
        .map(|clause| clause.trim().trim_end_matches("a0"))
        .collect();
    clauses.sort_by_key(|clause| clause.starts_with('<'));
    clauses.join(",")
}

/// A row of the table.
struct Wheel<'a> {
    framework: &'a str,
    release: &'a str,
    package: &'a str,
    architecture: &'a str,
    glibc: Option<Vec<u32>>,
    made_cuda: &'a str,
    made_cudnn: &'a str,
    cuda: Range,
    cudnn: Range,
    /// The PyTorch that it pins.
    torch: Option<&'a str>,
    nvcc: Range,
}

/// A requirement on another package: one version, or a minimum.
enum Range {
    Unknown,
    Exactly(String),
    From(String),
}

impl Range {
    fn new(text: &str) -> Self {
        match (text.strip_prefix('='), text.strip_prefix(">=")) {
            (Some(version), _) => Self::Exactly(version.to_owned()),
            (_, Some(range)) => Self::From(range.split(',').next().unwrap_or_default().to_owned()),
            _ => Self::Unknown,
        }
    }
}

/// The GPUs of computers; embedded boards have separate builds.
pub(crate) fn gpus(database: &Database) -> impl Iterator<Item = ComputeCapability> {
    database
        .architectures
        .iter()
        .filter(|a| a.embedded.is_none() && a.only_on.is_none())
        .map(|a| a.compute_capability)
}

/// The GPUs that builds are said to run on, though the PyTorch that they pin does not.
fn beyond<'a>(
    database: &'a Database,
    known: &'a FrameworkRelease,
    torch: &'a FrameworkRelease,
) -> impl Iterator<Item = String> + 'a {
    let pairs = known.builds.iter().filter_map(|build| {
        let of_torch = |other: &&FrameworkBuild| other.cuda.series() == build.cuda.series();
        Some((build, torch.builds.iter().find(of_torch)?))
    });
    pairs.flat_map(|(build, of_torch)| {
        let runs = gpus(database)
            .filter(|gpu| build.has_kernels_for(*gpu) && !of_torch.has_kernels_for(*gpu));
        runs.map(|gpu| format!("CUDA {} on {gpu}, where its torch does not run", build.cuda))
    })
}

/// The versions of Python that a wheel is for: `3.10 to 3.14` by the tags of its files, or its
/// Requires-Python, `<3.15,>=3.10`. None if it names no oldest one.
pub fn python_range(text: &str) -> Result<Option<PythonRange>> {
    let version = |text: &str| -> Result<AddOnVersion> {
        let numbers: Vec<_> = text.split('.').take(2).collect();
        { numbers.join(".").parse() }.map_err(|why| format!("{TABLE}: Python {text}: {why}"))
    };
    if let Some((min, max)) = text.split_once(" to ") {
        let (min, max) = (version(min)?, Some(version(max)?));
        return Ok(Some(PythonRange { min, max }));
    }
    let (mut min, mut max) = (None, None);
    for part in text.split(',').filter(|part| !part.is_empty()) {
        if let Some(first) = part.strip_prefix(">=") {
            min = Some(version(first)?);
        } else if let Some(end) = part.strip_prefix('<') {
            let end = version(end)?;
            let minor = end.minor.saturating_sub(1);
            max = Some(AddOnVersion { minor, ..end });
        } else {
            return Err(format!("{TABLE}: Python {text:?}"));
        }
    }
    Ok(min.map(|min| PythonRange { min, max }))
}

/// Compares the build versions and requirements of each build, and the glibc and Python of each
/// release.
pub fn check(database: &Database, of_pins: &Pythons) -> Result<Comparison> {
    let rows = table::read(TABLE)?;
    let (mut differences, mut floors, mut published, mut facts) =
        (BTreeSet::new(), BTreeMap::new(), BTreeMap::new(), 0);
    let (mut pythons, mut required) = (BTreeMap::new(), BTreeMap::new());
    for row in &rows {
        let [
            framework,
            release,
            package,
            version,
            architecture,
            glibc,
            python,
            made_cuda,
            made_cudnn,
            cuda,
            cudnn,
            requires,
            nvcc,
        ] = row.as_slice()
        else {
            return Err(format!("{TABLE}: {row:?}"));
        };
        let wheel = Wheel {
            framework,
            release,
            package,
            architecture,
            glibc: (!glibc.is_empty()).then(|| numbers(glibc)),
            made_cuda,
            made_cudnn,
            cuda: Range::new(cuda),
            cudnn: Range::new(cudnn),
            torch: each_of(requires).find_map(|one| one.strip_prefix("torch==")),
            nvcc: Range::new(nvcc),
        };
        facts += row[5..].iter().filter(|field| !field.is_empty()).count();
        let Some(known) = database.framework_release(&format!("{framework}=={version}")) else {
            differences.insert(format!(
                "{framework} {release}: on PyPI but not in the database"
            ));
            continue;
        };
        if known.version != *release {
            differences.insert(format!(
                "{framework} {version}: recorded as {release}, the database has {}",
                known.version
            ));
        }
        differences.extend(
            differing(database, &wheel, known)
                .into_iter()
                .map(|what| format!("{framework} {release}: {what}")),
        );
        published
            .entry((wheel.framework, wheel.release))
            .or_insert_with(Vec::new)
            .push(Published {
                package: wheel.package,
                architecture: wheel.architecture,
                is_made: !wheel.made_cuda.is_empty(),
                requires: !matches!(wheel.cuda, Range::Unknown),
            });
        let floor = floors
            .entry((wheel.framework, wheel.release, wheel.architecture))
            .or_insert_with(Vec::new);
        floor.extend(wheel.glibc.clone());
        let range = pythons
            .entry((wheel.framework, wheel.release))
            .or_insert_with(Vec::new);
        range.extend(python_range(python)?);
        let known_requires = required
            .entry((wheel.framework, wheel.release))
            .or_insert_with(BTreeSet::new);
        known_requires.extend(each_of(requires));
        if let Some(torch) = wheel.torch {
            let torch = database.framework_release(&format!("torch=={torch}"));
            range.extend(torch.and_then(|torch| torch.python));
            let beyond = torch
                .into_iter()
                .flat_map(|torch| beyond(database, known, torch));
            differences.extend(beyond.map(|what| format!("{framework} {release}: {what}")));
            floor.extend(
                torch
                    .and_then(|torch| torch.glibc_min.get(wheel.architecture))
                    .map(|glibc| numbers(glibc)),
            );
        }
    }
    for ((framework, release, architecture), glibcs) in floors {
        let floor = glibcs
            .into_iter()
            .max()
            .filter(|floor| floor.as_slice() > &GLIBC_EVERYWHERE[..]);
        let known = database.framework_release(&format!("{framework}=={release}"));
        let ours = known
            .and_then(|known| known.glibc_min.get(architecture))
            .map(|glibc| numbers(glibc));
        if floor != ours && architecture != "any" {
            differences
                .insert(format!("{framework} {release}: glibc {floor:?} on {architecture}; the database has {ours:?}"));
        }
    }
    for ((framework, release), mut ranges) in pythons {
        let pins = of_pins.get(&(framework.to_owned(), release.to_owned()));
        ranges.extend(pins.into_iter().flatten());
        let range = ranges.into_iter().reduce(PythonRange::with);
        let known = database.framework_release(&format!("{framework}=={release}"));
        let ours = known.and_then(|known| known.python);
        let is_narrower = OTHER_PARTS.contains(&framework)
            && ours.is_some_and(|ours| range.is_some_and(|range| range.with(ours) == ours));
        if range != ours && !is_narrower {
            let [range, ours] = [range, ours].map(|range| range.map(|range| range.to_string()));
            differences.insert(format!(
                "{framework} {release}: Python {range:?}; the database has {ours:?}"
            ));
        }
    }
    for ((framework, release), theirs) in required {
        let known = database.framework_release(&format!("{framework}=={release}"));
        let ours = known.into_iter().flat_map(|known| &known.requires);
        let ours = ours.map(String::as_str).collect();
        if theirs != ours {
            differences.insert(format!(
                "{framework} {release}: requires {theirs:?}; the database has {ours:?}"
            ));
        }
    }
    for ((framework, release), wheels) in published {
        if let Some(known) = database.framework_release(&format!("{framework}=={release}")) {
            let what = architectures(&wheels, known).into_iter();
            differences.extend(what.map(|what| format!("{framework} {release}: {what}")));
        }
    }
    let differences = differences.into_iter().collect();
    Ok(Comparison {
        what: "wheels of frameworks",
        facts,
        differences,
    })
}

/// The CUDA information in a wheel of a release for its architecture.
struct Published<'a> {
    package: &'a str,
    architecture: &'a str,
    /// Whether it shows what it is built with.
    is_made: bool,
    /// Whether it requires CUDA.
    requires: bool,
}

/// How the architectures of a release's wheels differ from the database.
fn architectures(wheels: &[Published], known: &FrameworkRelease) -> Vec<String> {
    let mut differences = Vec::new();
    if wheels.iter().any(|wheel| wheel.architecture == "any") {
        return differences;
    }
    // The build version is better evidence than the requirements: TensorFlow's are the same on
    // architectures without CUDA.
    let has_cuda = |wheel: &Published| {
        let of = |other: &&Published| other.package == wheel.package;
        if wheels.iter().filter(of).any(|other| other.is_made) {
            wheel.is_made
        } else {
            wheel.requires
        }
    };
    let mentioned = wheels.iter().any(has_cuda);
    for architecture in ["x86_64", "aarch64"] {
        let of: Vec<_> = wheels
            .iter()
            .filter(|wheel| wheel.architecture == architecture)
            .collect();
        let for_it = known.builds.iter().any(|build| build.is_for(architecture));
        let cpu_only = known.cpu_only.iter().any(|a| a == architecture);
        if of.is_empty() && for_it {
            differences.push(format!("there are no wheels for {architecture}"));
        }
        // A project's own index may have builds that PyPI lacks.
        let has = of.iter().any(|wheel| has_cuda(wheel));
        if mentioned && !of.is_empty() && (has == cpu_only || has && !for_it) {
            let what = if has { "have" } else { "do not have" };
            differences.push(format!("the wheels for {architecture} {what} CUDA"));
        }
    }
    differences
}

/// The build that the wheels of a package contain. A package without a major version in its name is
/// what a plain pip install gets, which is the first build.
pub fn build<'a>(release: &'a FrameworkRelease, package: &str) -> Option<&'a FrameworkBuild> {
    let (name, extra) = package.split_once('[').unwrap_or((package, ""));
    let major = cuda_major(name).or_else(|| cuda_major(extra.trim_end_matches(']')));
    // mxnet-cu117 is for a single series.
    let series = |build: &FrameworkBuild| build.cuda.major * 10 + build.cuda.minor;
    release
        .builds
        .iter()
        .find(|build| major.is_none_or(|n| build.cuda.major == n || series(build) == n))
}

/// How a wheel differs from the build it contains.
fn differing(database: &Database, wheel: &Wheel, known: &FrameworkRelease) -> Vec<String> {
    let Some(build) = build(known, wheel.package) else {
        return vec![format!("no build for {}", wheel.package)];
    };
    let mut differences = Vec::new();
    let mut differ = |differs: bool, what: &str, source: &str, ours: String| {
        if differs {
            differences.push(format!(
                "{} {what} {source}; the database has {ours}",
                wheel.package
            ));
        }
    };
    if wheel.made_cuda.contains(", ") {
        let ours: BTreeSet<_> = known
            .builds
            .iter()
            .map(|build| cuda_numbers(build.cuda).to_vec())
            .collect();
        let theirs: BTreeSet<_> = wheel.made_cuda.split(", ").map(numbers).collect();
        differ(
            ours != theirs,
            "has libraries for CUDA",
            wheel.made_cuda,
            format!("{ours:?}"),
        );
    } else {
        // Some only name the major version.
        let made = numbers(wheel.made_cuda);
        let same = made
            .iter()
            .zip(cuda_numbers(build.cuda))
            .all(|(theirs, ours)| *theirs == ours);
        differ(!same, "is made with CUDA", wheel.made_cuda, cuda_of(build));
    }
    let made = wheel.made_cudnn.parse::<AddOnVersion>().ok();
    differ(
        made.is_some() && made.map(release) != build.cudnn.map(release),
        "is made with cuDNN",
        wheel.made_cudnn,
        cudnn_of(build),
    );
    match &wheel.cuda {
        Range::Unknown => {}
        Range::Exactly(version) => {
            let same =
                build.cuda_min.is_none() && numbers(version)[..2] == cuda_numbers(build.cuda);
            differ(!same, "requires CUDA", version, cuda_of(build));
        }
        Range::From(version) => {
            let (first, from) = (cuda_numbers(build.first_cuda()), numbers(version));
            // A major version alone does not determine the first series.
            let same = if from.len() > 1 {
                first == from[..2]
            } else {
                first[0] == from[0]
            };
            let is_open = build.cuda_min.is_some() || build.needs == FrameworkNeeds::Driver;
            differ(
                !same || !is_open,
                "requires CUDA from",
                version,
                cuda_of(build),
            );
        }
    }
    match &wheel.cudnn {
        Range::Unknown => {}
        Range::Exactly(version) => {
            let same = build.cudnn_min.is_none()
                && version.parse().ok().map(release) == build.cudnn.map(release);
            differ(!same, "requires cuDNN", version, cudnn_of(build));
        }
        Range::From(version) => {
            // The database may know that an older one fails although the wheel would accept it.
            let newer = build.cudnn_min.zip(version.parse().ok()).is_some_and(
                |(ours, theirs): (_, AddOnVersion)| {
                    ours.major == theirs.major && release(ours) >= release(theirs)
                },
            );
            differ(!newer, "requires cuDNN from", version, cudnn_of(build));
        }
    }
    // An nvcc counts if its series is newer than the wheel's other requirements.
    if let (Range::From(nvcc), Range::From(_)) = (&wheel.nvcc, &wheel.cuda) {
        let newer = numbers(nvcc)
            .get(..2)
            .map(<[_]>::to_vec)
            .filter(|series| series[..] > cuda_numbers(build.first_cuda())[..]);
        let ours = build.nvcc_min.map(|v| cuda_numbers(v).to_vec());
        differ(
            newer != ours,
            "requires nvcc from",
            nvcc,
            format!("{ours:?}"),
        );
    }
    if let Some(version) = wheel.torch {
        let torch = database
            .framework_release(&format!("torch=={version}"))
            .and_then(|torch| torch.builds.first());
        let cudnn = torch.and_then(|torch| torch.cudnn);
        differ(cudnn != build.cudnn, "pins torch", version, cudnn_of(build));
    }
    differences
}

fn cuda_numbers(version: CudaVersion) -> [u32; 2] {
    [version.major.into(), version.minor.into()]
}

/// Without the build number, which may differ between archives and wheels.
fn release(version: AddOnVersion) -> (u16, u16, u16) {
    (version.major, version.minor, version.patch.unwrap_or(0))
}

fn cuda_of(build: &FrameworkBuild) -> String {
    format!(
        "CUDA {}{}",
        build.cuda,
        build
            .cuda_min
            .map(|v| format!(", from {v} on"))
            .unwrap_or_default()
    )
}

fn cudnn_of(build: &FrameworkBuild) -> String {
    let from = build.cudnn_min.map(|v| format!("from {v} on"));
    let made = build.cudnn.map(|v| v.to_string());
    format!(
        "cuDNN {}",
        [made, from]
            .into_iter()
            .flatten()
            .collect::<Vec<_>>()
            .join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wheels_without_cuda_are_told_from_those_with_it() {
        let builds = |architectures: &str| {
            let text = format!(
                "{{version: \"1\", builds: [{{cuda: \"12.8\"{architectures}}}], sources: []}}"
            );
            serde_yaml::from_str::<FrameworkRelease>(&text).expect("a release")
        };
        let (both, one) = (builds(""), builds(", architectures: [x86_64]"));
        let wheel = |architecture, is_made, requires| Published {
            package: "p",
            architecture,
            is_made,
            requires,
        };
        let (cuda, cpu) = (wheel("x86_64", true, true), wheel("aarch64", false, true));
        assert_eq!(
            architectures(&[wheel("x86_64", true, true)], &one),
            Vec::<String>::new()
        );
        assert_eq!(
            architectures(&[wheel("x86_64", true, true)], &both),
            ["there are no wheels for aarch64"]
        );
        assert_eq!(
            architectures(&[cuda, cpu], &both),
            ["the wheels for aarch64 do not have CUDA"]
        );
        let required = [wheel("x86_64", false, true), wheel("aarch64", false, true)];
        assert_eq!(architectures(&required, &both), Vec::<String>::new());
        assert_eq!(
            architectures(&required, &one),
            ["the wheels for aarch64 have CUDA"]
        );
        let silent = [
            wheel("x86_64", false, false),
            wheel("aarch64", false, false),
        ];
        assert_eq!(architectures(&silent, &one), Vec::<String>::new());
    }
}
