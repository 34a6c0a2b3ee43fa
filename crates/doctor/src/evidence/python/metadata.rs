//! Installed packages: `*.dist-info` of pip and uv, `conda-meta/*.json` of conda.

use super::{BuiltFor, EnvironmentPackage, RequiredPackage};
use gpusetup_database::compat::Database;
use gpusetup_database::version::CudaVersion;
use gpusetup_system::System;
use serde::Deserialize;
use std::cell::Cell;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// The most names of one directory that are looked at.
const MAX_NAMES: usize = 4000;
/// The most packages of one directory that are read: an environment has some thirty that matter.
const MAX_PACKAGES: usize = 128;
/// The most libraries of one package that are looked for.
const MAX_LIBRARIES: usize = 256;
/// The most bytes of METADATA. The fields come first, then a description of any length.
const MAX_METADATA: u64 = 256 << 10;
/// The most bytes of a list of files, or of conda's record of a package.
const MAX_LIST_BYTES: u64 = 2 << 20;
/// The most bytes of all environments together.
const MAX_TOTAL_BYTES: u64 = 128 << 20;
/// The most requirements, and missing files, of one package.
const MAX_REQUIREMENTS: usize = 64;
/// The longest name or version that is taken for one.
const MAX_NAME_LENGTH: usize = 100;

/// Frameworks that are no framework of the database's by name.
const FRAMEWORKS: [&str; 14] = [
    "jaxlib",
    "jax-cuda12-plugin",
    "jax-cuda13-plugin",
    "tensorflow-cpu",
    "onnxruntime-gpu",
    "cupy-cuda11x",
    "cupy-cuda12x",
    "cupy-cuda13x",
    "cudf-cu12",
    "cudf-cu13",
    "faiss-gpu-cu12",
    "torchvision",
    "torchaudio",
    "tensorflow-gpu",
];

/// The packages in which conda has CUDA's and cuDNN's libraries.
const CONDA_LIBRARIES: [&str; 10] = [
    "cudatoolkit",
    "cudnn",
    "libcudnn",
    "nccl",
    "libcublas",
    "libcufft",
    "libcurand",
    "libcusolver",
    "libcusparse",
    "libnvjitlink",
];

/// Whether a package is one of NVIDIA's libraries, or says which they are.
fn is_library(name: &str, by_conda: bool) -> bool {
    match name {
        "cuda-toolkit" => true,
        _ if by_conda && CONDA_LIBRARIES.contains(&name) => true,
        _ => {
            name.len() <= MAX_NAME_LENGTH
                && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
                && (name.starts_with("nvidia-") || by_conda && name.starts_with("cuda-"))
        }
    }
}

fn is_framework(name: &str, database: &Database) -> bool {
    FRAMEWORKS.contains(&name) || database.framework(name).is_some()
}

/// Reads files until there are too many: other users may have written them.
pub(crate) struct Files<'a> {
    system: &'a System,
    left: Cell<u64>,
}

impl<'a> Files<'a> {
    /// Of a host.
    pub(crate) fn of(system: &'a System) -> Self {
        Self {
            system,
            left: Cell::new(MAX_TOTAL_BYTES),
        }
    }

    /// The first bytes of a file, as text.
    fn head(&self, path: &Path, most: u64) -> io::Result<String> {
        let most = most.min(self.left.get());
        if most == 0 {
            return Err(io::Error::other("too much was read already"));
        }
        let mut bytes = Vec::new();
        self.system.open(path)?.take(most).read_to_end(&mut bytes)?;
        self.left.set(self.left.get() - bytes.len() as u64);
        // Of a longer file the last line is cut off.
        if bytes.len() as u64 == most {
            bytes.truncate(bytes.iter().rposition(|byte| *byte == b'\n').unwrap_or(0));
        }
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

/// A name as PEP 503 normalises it: lower case, and runs of `-`, `_` and `.` are one `-`.
fn normalised(name: &str) -> String {
    let mut out = String::new();
    for c in name.chars().take(MAX_NAME_LENGTH) {
        match c {
            '-' | '_' | '.' if out.ends_with('-') => {}
            '-' | '_' | '.' => out.push('-'),
            c => out.extend(c.to_lowercase()),
        }
    }
    out
}

/// Whether a text can be a version; anything else in metadata is not printed.
fn is_version(text: &str) -> bool {
    text.len() <= MAX_NAME_LENGTH
        && text.starts_with(|c: char| c.is_ascii_digit())
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "._+!-".contains(c))
}

/// The packages of a directory that matter.
pub(crate) fn installed(
    files: &Files,
    folder: &Path,
    database: &Database,
    machine: &str,
    fail: &mut impl FnMut(&Path, String),
) -> Vec<EnvironmentPackage> {
    let names = match files.system.list(folder) {
        Ok(names) => names,
        Err(e) => {
            fail(folder, e.to_string());
            return Vec::new();
        }
    };
    let mut found = Vec::new();
    for info in names
        .iter()
        .filter(|name| name.ends_with(".dist-info"))
        .take(MAX_NAMES)
    {
        // `nvidia_cudnn_cu12-9.10.2.21.dist-info`: others are not opened.
        let name = normalised(info.split('-').next().unwrap_or_default());
        let is_framework = is_framework(&name, database);
        if found.len() >= MAX_PACKAGES || !is_library(&name, false) && !is_framework {
            continue;
        }
        let at = folder.join(info);
        match files.head(&at.join("METADATA"), MAX_METADATA) {
            Ok(text) => {
                let requires = if is_framework {
                    requires(&text, machine)
                } else {
                    Vec::new()
                };
                found.extend(package(files, folder, &at, &name, &text, requires, fail));
            }
            Err(e) => fail(&at.join("METADATA"), e.to_string()),
        }
    }
    found
}

fn package(
    files: &Files,
    folder: &Path,
    at: &Path,
    name: &str,
    metadata: &str,
    requires: Vec<RequiredPackage>,
    fail: &mut impl FnMut(&Path, String),
) -> Option<EnvironmentPackage> {
    let version = metadata
        .lines()
        .take_while(|line| !line.is_empty())
        .find_map(|line| line.strip_prefix("Version: "))
        .map(str::trim)
        .filter(|version| is_version(version));
    let Some(version) = version else {
        fail(&at.join("METADATA"), "it names no version".to_owned());
        return None;
    };
    // The list of a framework is long, and its libraries go with it; installers may leave the list
    // out.
    let record = is_library(name, false)
        .then(|| files.head(&at.join("RECORD"), MAX_LIST_BYTES).ok())
        .flatten();
    let missing = record
        .map(|record| missing(files.system, folder, &record))
        .unwrap_or_default();
    // torch's wheels on PyPI have no local version in their metadata; the module has.
    let exact = (name == "torch")
        .then(|| written(files, &folder.join("torch/version.py"), "__version__"))
        .flatten();
    let version = exact
        .filter(|exact| is_version(exact) && exact.starts_with(version))
        .unwrap_or_else(|| version.to_owned());
    let build = build(files, folder, name, &version);
    let requires = if build == BuiltFor::Cpu {
        Vec::new()
    } else {
        requires
    };
    Some(EnvironmentPackage {
        name: name.to_owned(),
        version,
        by_conda: false,
        build,
        requires,
        missing,
    })
}

/// The requirements on NVIDIA's packages that hold on Linux without extras.
fn requires(metadata: &str, machine: &str) -> Vec<RequiredPackage> {
    let fields = metadata.lines().take_while(|line| !line.is_empty());
    let all = fields
        .filter_map(|line| line.strip_prefix("Requires-Dist: "))
        .filter_map(|line| requirement(line, machine));
    all.take(MAX_REQUIREMENTS).collect()
}

fn requirement(line: &str, machine: &str) -> Option<RequiredPackage> {
    let (requirement, marker) = line.split_once(';').unwrap_or((line, ""));
    let marker = marker.replace('\'', "\"");
    // Requirements of extras, and of other systems and machines.
    if marker.contains("extra")
        || excludes(&marker, "platform_machine", machine)
        || excludes(&marker, "platform_system", "Linux")
        || excludes(&marker, "sys_platform", "linux")
    {
        return None;
    }
    let end = requirement
        .find(|c: char| !(c.is_ascii_alphanumeric() || "-_.".contains(c)))
        .unwrap_or(requirement.len());
    let (name, rest) = requirement.split_at(end);
    let name = normalised(name);
    if !is_library(&name, false) {
        return None;
    }
    let versions = rest
        .rsplit_once(']')
        .map_or(rest, |(_, rest)| rest)
        .trim()
        .trim_matches(['(', ')'])
        .trim();
    let is_plain = versions.len() <= MAX_NAME_LENGTH
        && versions
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "=<>~!,.*+ -".contains(c));
    is_plain.then(|| RequiredPackage {
        name,
        versions: versions.to_owned(),
    })
}

/// Whether a marker such as `sys_platform == "win32"` excludes this value.
fn excludes(marker: &str, key: &str, own: &str) -> bool {
    let Some((_, rest)) = marker.split_once(key) else {
        return false;
    };
    let rest = rest.trim_start();
    if let Some(value) = rest.strip_prefix("==") {
        return unquoted(value) != Some(own);
    }
    rest.strip_prefix("!=").and_then(unquoted) == Some(own)
}

fn unquoted(value: &str) -> Option<&str> {
    value.trim_start().trim_start_matches('"').split('"').next()
}

/// The libraries of a RECORD that do not exist.
fn missing(system: &System, folder: &Path, record: &str) -> Vec<PathBuf> {
    let files = record.lines().filter_map(|line| line.split(',').next());
    let libraries = files
        .filter(|file| {
            let name = file.rsplit('/').next().unwrap_or_default();
            name.starts_with("lib") && name.contains(".so") && is_inside(file)
        })
        .take(MAX_LIBRARIES)
        .map(|file| folder.join(file));
    libraries
        .filter(|file| !system.exists(file))
        .take(MAX_REQUIREMENTS)
        .collect()
}

/// Whether a path of a list stays in the directory that the list is for.
fn is_inside(file: &str) -> bool {
    !file.starts_with('/') && file.split('/').all(|part| part != "..")
}

/// The value of a Python variable that is a text: `cuda: Optional[str] = '12.8'`. None if it is
/// None, or not there.
fn written(files: &Files, file: &Path, variable: &str) -> Option<String> {
    const MAX_VERSION_FILE_BYTES: u64 = 64 << 10;
    value(&files.head(file, MAX_VERSION_FILE_BYTES).ok()?, variable)
}

fn value(text: &str, variable: &str) -> Option<String> {
    let line = text.lines().find(|line| {
        line.strip_prefix(variable)
            .is_some_and(|rest| rest.trim_start().starts_with([':', '=']))
    })?;
    let value = line.split_once('=')?.1.trim();
    Some(
        value
            .strip_prefix(['\'', '"'])?
            .split(['\'', '"'])
            .next()?
            .to_owned(),
    )
}

/// What a framework is built for, by its local version and by the files that say it.
fn build(files: &Files, folder: &Path, name: &str, version: &str) -> BuiltFor {
    let local = version.split_once('+').map_or("", |(_, local)| local);
    if local == "cpu" || local.starts_with("cpu.") || name == "tensorflow-cpu" {
        return BuiltFor::Cpu;
    }
    if let Some(series) = local.strip_prefix("cu").and_then(series_of_digits) {
        return BuiltFor::Cuda(series);
    }
    match name {
        "torch" => {
            let file = folder.join("torch/version.py");
            if !files.system.exists(&file) {
                return BuiltFor::Unknown;
            }
            match written(files, &file, "cuda") {
                Some(version) => version.parse().map_or(BuiltFor::Unknown, |v: CudaVersion| {
                    BuiltFor::Cuda(v.series())
                }),
                // ROCm and XPU builds have no CUDA either.
                None if written(files, &file, "hip").is_some()
                    || written(files, &file, "xpu").is_some() =>
                {
                    BuiltFor::Unknown
                }
                None => BuiltFor::Cpu,
            }
        }
        "tensorflow" => {
            const MAX_VERSION_FILE_BYTES: u64 = 64 << 10;
            let file = folder.join("tensorflow/python/platform/build_info.py");
            let Ok(text) = files.head(&file, MAX_VERSION_FILE_BYTES) else {
                return BuiltFor::Unknown;
            };
            let after = |key: &str| {
                Some(
                    text.split_once(key)?
                        .1
                        .trim_start_matches(['\'', '"', ',', ' ', ':']),
                )
            };
            let cuda = after("cuda_version").and_then(|rest| rest.split(['\'', '"', ')']).next());
            match cuda.and_then(|cuda| cuda.parse::<CudaVersion>().ok()) {
                Some(cuda) => BuiltFor::Cuda(cuda.series()),
                None if after("is_cuda_build").is_some_and(|rest| rest.starts_with("False")) => {
                    BuiltFor::Cpu
                }
                None => BuiltFor::Unknown,
            }
        }
        _ => BuiltFor::Unknown,
    }
}

/// 12.8 for `128`, 11.8 for `118`: the last digit is the minor version.
fn series_of_digits(text: &str) -> Option<CudaVersion> {
    let digits = text
        .split('.')
        .next()
        .filter(|d| d.len() == 3 && d.bytes().all(|b| b.is_ascii_digit()))?;
    format!("{}.{}", &digits[..2], &digits[2..]).parse().ok()
}

/// conda's record of a package.
#[derive(Deserialize)]
struct CondaRecord {
    name: String,
    version: String,
    #[serde(default)]
    build: String,
    #[serde(default)]
    depends: Vec<String>,
    #[serde(default)]
    files: Vec<String>,
}

/// The packages that conda installed in an environment and that matter.
pub(crate) fn of_conda(
    files: &Files,
    root: &Path,
    fail: &mut impl FnMut(&Path, String),
) -> Vec<EnvironmentPackage> {
    let meta = root.join("conda-meta");
    let names = match files.system.list(&meta) {
        Ok(names) => names,
        Err(e) => {
            fail(&meta, e.to_string());
            return Vec::new();
        }
    };

    let mut found = Vec::new();
    for file in names
        .iter()
        .filter(|name| name.ends_with(".json"))
        .take(MAX_NAMES)
    {
        // `pytorch-2.5.1-py3.12_cuda12.4_cudnn9.1.0_0.json`.
        let name = file.rsplitn(3, '-').nth(2).unwrap_or_default();
        let matters = is_library(name, true) || FRAMEWORKS_OF_CONDA.contains(&name);
        if found.len() >= MAX_PACKAGES || !matters {
            continue;
        }
        let path = meta.join(file);
        let text = match files.head(&path, MAX_LIST_BYTES) {
            Ok(text) => text,
            Err(e) => {
                fail(&path, e.to_string());
                continue;
            }
        };
        match serde_json::from_str::<CondaRecord>(&text) {
            Ok(record) if is_version(&record.version) && record.name == name => {
                found.push(conda_package(files.system, root, record))
            }
            Ok(_) => fail(&path, "its name or version is not one".to_owned()),
            Err(_) => fail(&path, "it is not a record of conda's".to_owned()),
        }
    }
    found
}

/// The frameworks' names in conda's channels.
const FRAMEWORKS_OF_CONDA: [&str; 9] = [
    "pytorch",
    "libtorch",
    "tensorflow",
    "tensorflow-base",
    "jaxlib",
    "cupy",
    "cupy-core",
    "cudf",
    "onnxruntime",
];

fn conda_package(system: &System, root: &Path, record: CondaRecord) -> EnvironmentPackage {
    let CondaRecord {
        name,
        version,
        build,
        depends,
        files,
    } = record;
    let requires = depends.iter().filter_map(|text| {
        let (name, versions) = text.split_once(' ').unwrap_or((text, ""));
        // A third word is the build of the package.
        let versions = versions.split(' ').next().unwrap_or_default();
        let fits = is_library(name, true)
            && versions.len() <= MAX_NAME_LENGTH
            && versions
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "=<>~!,.*+|_-".contains(c));
        fits.then(|| RequiredPackage {
            name: name.to_owned(),
            versions: versions.to_owned(),
        })
    });
    let requires: Vec<_> = requires.take(MAX_REQUIREMENTS).collect();
    let missing = files
        .iter()
        .filter(|file| {
            let name = file.rsplit('/').next().unwrap_or_default();
            name.starts_with("lib") && name.contains(".so") && is_inside(file)
        })
        .take(MAX_LIBRARIES)
        .map(|file| root.join(file));
    let missing: Vec<_> = missing
        .filter(|file| !system.exists(file))
        .take(MAX_REQUIREMENTS)
        .collect();
    let built = if FRAMEWORKS_OF_CONDA.contains(&name.as_str()) {
        conda_build(&build)
    } else {
        BuiltFor::Unknown
    };
    EnvironmentPackage {
        name,
        version,
        by_conda: true,
        build: built,
        requires,
        missing,
    }
}

/// `py3.12_cuda12.4_cudnn9.1.0_0`, `cuda126_mkl_py312_h0`, `cpu_generic_py312_h0`.
fn conda_build(build: &str) -> BuiltFor {
    let mut parts = build.split(['_', '-']);
    let cuda = parts.clone().find_map(|part| {
        let digits = part.strip_prefix("cuda")?;
        series_of_digits(digits).or_else(|| digits.parse().ok().map(|v: CudaVersion| v.series()))
    });
    match cuda {
        Some(cuda) => BuiltFor::Cuda(cuda),
        None if parts.any(|part| part == "cpu") => BuiltFor::Cpu,
        None => BuiltFor::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requirements_of_the_real_torch_are_those_of_the_machine() {
        let metadata = include_str!("../../../../../tests/support/python/torch-2.9.1.METADATA");
        let all = requires(metadata, "x86_64");
        assert_eq!(all.len(), 15, "{all:?}");
        let cudnn = all
            .iter()
            .find(|r| r.name == "nvidia-cudnn-cu12")
            .expect("cuDNN");
        assert_eq!(cudnn.versions, "==9.10.2.21");
        assert_eq!(requires(metadata, "aarch64"), []);
    }

    #[test]
    fn requirements_are_read_in_every_notation() {
        let read =
            |line: &str| requirement(line, "x86_64").map(|r| format!("{} {}", r.name, r.versions));
        for (line, expected) in [
            (
                "nvidia-cuda-runtime-cu12 (==12.4.127) ; platform_system == \"Linux\"",
                Some("nvidia-cuda-runtime-cu12 ==12.4.127"),
            ),
            (
                "cuda_toolkit[cudart,nvrtc]==13.0.3; platform_system == 'Linux'",
                Some("cuda-toolkit ==13.0.3"),
            ),
            (
                "nvidia_cudnn.cu12<10.0,>=9.3; sys_platform == 'linux'",
                Some("nvidia-cudnn-cu12 <10.0,>=9.3"),
            ),
            ("nvidia-cudnn-cu12==9.3; extra == 'and-cuda'", None),
            (
                "nvidia-cudnn-cu12==9.3; platform_machine == 'aarch64'",
                None,
            ),
            ("nvidia-cudnn-cu12==9.3; platform_system == 'Windows'", None),
            (
                "nvidia-cudnn-cu12==9.3; platform_machine != 'aarch64'",
                Some("nvidia-cudnn-cu12 ==9.3"),
            ),
            ("nvidia-cudnn-cu12==\u{1b}[31m9", None),
            ("numpy>=1", None),
            ("", None),
        ] {
            assert_eq!(read(line).as_deref(), expected, "{line}");
        }
    }

    #[test]
    fn builds_are_named_by_local_versions_and_conda_builds() {
        assert_eq!(series_of_digits("128"), "12.8".parse().ok());
        assert_eq!(series_of_digits("92"), None);
        let cuda = |version: &str| BuiltFor::Cuda(version.parse().expect("a version"));
        assert_eq!(conda_build("py3.12_cuda12.4_cudnn9.1.0_0"), cuda("12.4"));
        assert_eq!(conda_build("cuda126_mkl_py312_h4c2d0c0_300"), cuda("12.6"));
        assert_eq!(conda_build("cpu_generic_py312_h0"), BuiltFor::Cpu);
        assert_eq!(conda_build("h5f2c1c2_0"), BuiltFor::Unknown);
        let torch = include_str!("../../../../../tests/support/python/torch-2.9.1.version.py");
        assert_eq!(
            (value(torch, "cuda"), value(torch, "hip")),
            (Some("12.8".to_owned()), None)
        );
        assert_eq!(value(torch, "__version__").as_deref(), Some("2.9.1+cu128"));
        assert_eq!(value("cuda = None", "cuda"), None);
    }

    #[test]
    fn names_are_compared_as_pip_does() {
        assert_eq!(normalised("Nvidia_CuDNN.cu12"), "nvidia-cudnn-cu12");
        assert_eq!(normalised("a__b"), "a-b");
        assert!(
            is_version("2.9.1+cu128")
                && !is_version("2.9\u{1b}[2J")
                && !is_version("")
                && !is_version(&"9".repeat(200))
        );
    }
}
