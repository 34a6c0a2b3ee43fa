//! What the names of an image's files say about the CUDA and the driver libraries in it.

use super::layer::Layer;
use crate::version::{CudaVersion, DriverVersion};
use std::collections::BTreeSet;

/// A CUDA runtime, as far as its name says which one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Runtime {
    /// Of this major version; the library's SONAME has no more.
    Major(u16),
    /// Of this series.
    Series(CudaVersion),
}

/// The files of an image that matter here.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Contents {
    /// Each CUDA runtime, with the file that shows it.
    pub runtimes: Vec<(Runtime, String)>,
    /// The newest driver library of `cuda-compat`, with its file.
    pub compat: Option<(DriverVersion, String)>,
    /// The newest driver library in another folder, with its file: conda's `cuda-compat`, or one that somebody copied. Programs
    /// load it only if something such as `LD_LIBRARY_PATH` puts it before the host's.
    pub other_driver: Option<(DriverVersion, String)>,
}

impl Contents {
    /// Of these layers, the lowest one first.
    pub fn of(layers: &[Layer]) -> Self {
        let mut files: BTreeSet<&str> = BTreeSet::new();
        for layer in layers {
            files.retain(|file| !layer.removes(file));
            files.extend(layer.files.iter().map(String::as_str));
        }
        let runtimes = files.iter().filter_map(|file| Some((runtime(file)?, (*file).to_owned())));
        let newest = |version: fn(&str) -> Option<DriverVersion>| {
            files.iter().filter_map(|file| Some((version(file)?, (*file).to_owned()))).max()
        };
        Self { runtimes: runtimes.collect(), compat: newest(compat_driver), other_driver: newest(other_driver) }
    }
}

/// Whether a file of this name is looked for.
pub fn is_wanted(path: &str) -> bool {
    runtime(path).is_some() || driver_library(path).is_some()
}

/// The CUDA runtime that a file shows: `usr/local/cuda-12.4/lib64/libcudart.so.12.4.127`, or the record of a wheel, of a conda
/// package or of a Debian package.
fn runtime(path: &str) -> Option<Runtime> {
    let (folder, file) = path.rsplit_once('/').unwrap_or(("", path));
    if let Some((name, version)) = file.split_once(".so.").filter(|(name, _)| name.starts_with("libcudart")) {
        // Bundled libraries of wheels have a checksum in their name: libcudart-d0da41ae.so.11.0.
        return (name == "libcudart" || name.starts_with("libcudart-")).then(|| of_library(version)).flatten();
    }
    if file == "METADATA" {
        let package = folder.rsplit('/').next()?.strip_suffix(".dist-info")?;
        let (name, version) = package.split_once('-')?;
        return if is_wheel(name) { series(version).map(Runtime::Series) } else { made_for(name).map(Runtime::Major) };
    }
    if folder.ends_with("conda-meta") {
        let rest = ["cuda-cudart-", "cudatoolkit-"].iter().find_map(|name| file.strip_prefix(name))?;
        return series(rest.split('-').next()?).map(Runtime::Series);
    }
    let package = file.strip_suffix(".list").filter(|_| folder == "var/lib/dpkg/info")?;
    series(&package.strip_prefix("cuda-cudart-")?.replace('-', ".")).map(Runtime::Series)
}

/// `nvidia_cuda_runtime_cu12`; from CUDA 13 on `nvidia_cuda_runtime`.
fn is_wheel(name: &str) -> bool {
    let line = name.strip_prefix("nvidia_cuda_runtime");
    line.is_some_and(|line| line.is_empty() || line.strip_prefix("_cu").is_some_and(|n| n.parse::<u16>().is_ok()))
}

/// The CUDA that a package names that is made for it: `cupy_cuda12x`, `jax_cuda13_plugin`.
fn made_for(package: &str) -> Option<u16> {
    let major = |part: &str| part.strip_prefix("cuda").map(|rest| rest.strip_suffix('x').unwrap_or(rest))?.parse().ok();
    package.split('_').find_map(major)
}

/// Of the numbers after `libcudart.so.`: all of the version, or those of the SONAME, which is 12 for all of 12.x and 11.0 for all of
/// 11.x. Up to CUDA 10 it has the series.
fn of_library(version: &str) -> Option<Runtime> {
    let numbers = version.split('.').map(|n| n.parse().ok()).collect::<Option<Vec<u16>>>()?;
    match *numbers.as_slice() {
        [major, minor] if major < 11 => Some(Runtime::Series(CudaVersion { major, minor, patch: None })),
        [major, minor, _] => Some(Runtime::Series(CudaVersion { major, minor, patch: None })),
        [major, ..] => Some(Runtime::Major(major)),
        [] => None,
    }
}

/// The series of a version with two or more numbers.
fn series(version: &str) -> Option<CudaVersion> {
    let mut numbers = version.split('.');
    let (major, minor) = (numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?);
    Some(CudaVersion { major, minor, patch: None })
}

/// The driver of a library of `cuda-compat`: `usr/local/cuda-12.4/compat/libcuda.so.550.54.15`. NVIDIA's images of frameworks have it
/// in a folder `lib.real` below.
fn compat_driver(path: &str) -> Option<DriverVersion> {
    driver_library(path).filter(|_| is_in_compat(path))
}

/// The driver of a library in any other folder: conda-forge's package has it in `opt/conda/cuda-compat` (cuda-compat-feedstock).
fn other_driver(path: &str) -> Option<DriverVersion> {
    driver_library(path).filter(|_| !is_in_compat(path))
}

/// The driver of a `libcuda.so.550.54.15`.
fn driver_library(path: &str) -> Option<DriverVersion> {
    path.rsplit('/').next()?.strip_prefix("libcuda.so.")?.parse().ok()
}

fn is_in_compat(path: &str) -> bool {
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    folder.split('/').any(|part| part == "compat") && folder.contains("cuda")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cuda(major: u16, minor: u16) -> Option<Runtime> {
        Some(Runtime::Series(CudaVersion { major, minor, patch: None }))
    }

    #[test]
    fn names_tell_the_series_or_only_the_major_version() {
        let cases = [
            ("usr/local/cuda-12.4/targets/x86_64-linux/lib/libcudart.so.12.4.127", cuda(12, 4)),
            ("usr/lib/python3/dist-packages/nvidia/cuda_runtime/lib/libcudart.so.12", Some(Runtime::Major(12))),
            ("opt/venv/lib/python3.10/site-packages/torch/lib/libcudart-d0da41ae.so.11.0", Some(Runtime::Major(11))),
            ("usr/local/cuda-10.2/lib64/libcudart.so.10.2", cuda(10, 2)),
            ("opt/venv/lib/python3.10/site-packages/nvidia_cuda_runtime_cu12-12.6.77.dist-info/METADATA", cuda(12, 6)),
            ("opt/venv/lib/python3.12/site-packages/nvidia_cuda_runtime-13.0.96.dist-info/METADATA", cuda(13, 0)),
            ("opt/venv/lib/python3.12/site-packages/nvidia_cuda_runtime_api-13.0.96.dist-info/METADATA", None),
            ("opt/venv/lib/python3.12/site-packages/cupy_cuda12x-13.3.0.dist-info/METADATA", Some(Runtime::Major(12))),
            (
                "opt/venv/lib/python3.12/site-packages/jax_cuda13_plugin-0.8.0.dist-info/METADATA",
                Some(Runtime::Major(13)),
            ),
            ("opt/venv/lib/python3.12/site-packages/cuda_python-13.0.0.dist-info/METADATA", None),
            ("opt/conda/conda-meta/cuda-cudart-12.4.127-0.json", cuda(12, 4)),
            ("opt/conda/conda-meta/cudatoolkit-11.3.1-h2bc3f7f_2.json", cuda(11, 3)),
            ("opt/conda/conda-meta/cuda-cudart-dev-12.4.127-0.json", None),
            ("var/lib/dpkg/info/cuda-cudart-12-4.list", cuda(12, 4)),
            ("var/lib/dpkg/info/cuda-cudart-dev-12-4.list", None),
            ("usr/lib/libcudartx.so.12", None),
            ("usr/lib/libcudart.so", None),
            ("usr/lib/libcudart.so.12.abi", None),
        ];
        for (path, expected) in cases {
            assert_eq!(runtime(path), expected, "{path}");
        }
    }

    #[test]
    fn driver_libraries_count_in_folders_of_cuda_compat() {
        let version = |path| compat_driver(path).map(|version| version.to_string());
        assert_eq!(version("usr/local/cuda-12.4/compat/libcuda.so.550.54.15").as_deref(), Some("550.54.15"));
        assert_eq!(version("usr/local/cuda/compat/lib.real/libcuda.so.580.82.07").as_deref(), Some("580.82.07"));
        assert_eq!(version("usr/local/cuda-12.4/compat/libcuda.so.1"), None);
        assert_eq!(version("usr/lib/x86_64-linux-gnu/libcuda.so.550.54.15"), None);
        let elsewhere = |path| other_driver(path).map(|version| version.to_string());
        assert_eq!(elsewhere("opt/conda/cuda-compat/libcuda.so.580.82.07").as_deref(), Some("580.82.07"));
        assert_eq!(elsewhere("usr/local/cuda-12.4/compat/libcuda.so.550.54.15"), None);
        assert_eq!(elsewhere("usr/lib/x86_64-linux-gnu/libcuda.so.1"), None);
    }

    #[test]
    fn a_higher_layer_removes_what_a_lower_one_has() {
        let layer = |files: &[&str], removed: &[&str]| Layer {
            files: files.iter().map(|f| (*f).to_owned()).collect(),
            removed: removed.iter().map(|f| (*f).to_owned()).collect(),
            ..Layer::default()
        };
        let compat = "usr/local/cuda-12.4/compat/libcuda.so.550.54.15";
        let has = |layers: &[Layer]| Contents::of(layers).compat.is_some();
        assert!(has(&[layer(&[compat], &[]), layer(&[], &["usr/local/cuda-12.4/compat-old"])]));
        assert!(!has(&[layer(&[compat], &[]), layer(&[], &["usr/local/cuda-12.4/compat"])]));
        assert!(has(&[layer(&[], &[compat]), layer(&[compat], &[])]));
        let emptied = Layer { emptied: vec!["usr/local".to_owned()], ..Layer::default() };
        assert!(!has(&[layer(&[compat], &[]), emptied]));
    }
}
