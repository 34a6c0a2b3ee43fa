//! What the names of an image's files say about the CUDA and the driver libraries in it.

use super::layer::Layer;
use gpusetup_database::version::DriverVersion;
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::rc::Rc;

/// The CUDA that a file is part of: its major version, and the minor one if the file says it. The
/// SONAMEs of libraries do not.
pub(crate) type NamedCuda = (u16, Option<u16>);

/// The libraries of a newer driver (cuda-compat) in an image.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Compat {
    /// None if only their package is known.
    pub(crate) driver: Option<DriverVersion>,
    /// Whether they are where the container toolkit looks for them. In another folder, such as that
    /// of conda's `cuda-compat`, programs load them only if something such as `LD_LIBRARY_PATH`
    /// puts them before the host's.
    pub(crate) is_found: bool,
    /// Their file, or the package that a variable names where the layers were not read.
    pub(crate) name: String,
}

impl Compat {
    fn of_file(path: &str) -> Option<Self> {
        Some(Self {
            driver: Some(driver_library(path)?),
            is_found: is_in_compat(path),
            name: path.to_owned(),
        })
    }
}

/// The files of an image that matter here.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Contents {
    /// Each CUDA, with the file that shows it.
    pub(crate) cudas: Vec<(NamedCuda, String)>,
    /// A library for CUDA whose name does not say which one: `libcudnn.so.9`.
    pub(crate) unversioned: Option<String>,
    /// The newest ones of a driver that their file names.
    pub(crate) compat: Option<Compat>,
    /// The newest driver library among the system's libraries, with its file, where the container
    /// toolkit puts the host's.
    pub(crate) system_driver: Option<(DriverVersion, String)>,
}

impl Contents {
    /// Of these layers, the lowest one first.
    pub(crate) fn of(layers: &[Rc<Layer>]) -> Self {
        let mut files: BTreeSet<&str> = BTreeSet::new();
        for layer in layers {
            if !layer.removes_nothing() {
                files.retain(|file| !layer.removes(file));
            }
            files.extend(layer.files.iter().map(String::as_str));
        }
        let cudas = files
            .iter()
            .filter_map(|file| Some((cuda(file)?, (*file).to_owned())));
        Self {
            cudas: cudas.collect(),
            unversioned: files
                .iter()
                .find(|file| is_unversioned(file))
                .map(|file| (*file).to_owned()),
            compat: files.iter().filter_map(|file| Compat::of_file(file)).max(),
            system_driver: files
                .iter()
                .filter_map(|file| Some((system_driver(file)?, (*file).to_owned())))
                .max(),
        }
    }

    /// The CUDAs before this major version that programs may choose when they start: Ollama's image
    /// has one folder for CUDA 12 and one for CUDA 13. One for each major version, the newest
    /// first, with its file.
    pub(crate) fn older_choices(&self, major: u16) -> Vec<(NamedCuda, &str)> {
        let all = self
            .cudas
            .iter()
            .filter_map(|(cuda, file)| Some((home(file)?, *cuda, file.as_str())));
        let mut newest: Vec<_> = all.collect();
        newest.sort_by_key(|(home, cuda, _)| (*home, Reverse(*cuda)));
        newest.dedup_by_key(|(home, ..)| *home);
        newest.retain(|(_, cuda, _)| cuda.0 < major);
        newest.sort_by_key(|(_, cuda, _)| Reverse(*cuda));
        newest.dedup_by_key(|(_, cuda, _)| cuda.0);
        newest
            .into_iter()
            .map(|(_, cuda, file)| (cuda, file))
            .collect()
    }
}

/// Whether a file of this name is looked for.
pub(crate) fn is_wanted(path: &str) -> bool {
    cuda(path).is_some()
        || is_unversioned(path)
        || driver_library(path).is_some()
        || system_driver(path).is_some()
}

/// What the numbers behind `.so.` are.
#[derive(Debug, Clone, Copy)]
enum Numbers {
    /// The release of CUDA, or the SONAME, which is 12 for all of 12.x and 11.0 or 11.2 for all of
    /// 11.x. Up to CUDA 10 it has the series.
    Release,
    /// The series, also in the SONAME: `libnvrtc-builtins.so.12.4`.
    Series,
    /// The library's own release, whose major version is CUDA's: `libcublas.so.12.4.5.8`.
    OwnRelease,
}

/// The libraries of a toolkit whose numbers are CUDA's, each as PyTorch's wheels have it
/// (<https://github.com/pytorch/pytorch/blob/main/.ci/manywheel/build_cuda.sh>). `nvcc` links the
/// first statically by default, so programs may come with the others alone
/// (<https://docs.nvidia.com/cuda/cuda-compiler-driver-nvcc/#cudart-none-shared-static-cudart>).
const LIBRARIES: [(&str, Numbers); 6] = [
    ("libcudart", Numbers::Release),
    ("libnvrtc-builtins", Numbers::Series),
    ("libnvrtc", Numbers::Release),
    ("libnvJitLink", Numbers::Release),
    ("libcublas", Numbers::OwnRelease),
    ("libcublasLt", Numbers::OwnRelease),
];

/// Beginnings of the names of libraries for CUDA whose numbers are their own.
const UNVERSIONED: &str =
    "libcudnn libcufft libcurand libcusolver libcusparse libnccl. libnpp libnvinfer libnvjpeg";

/// The CUDA that a file shows: `usr/local/cuda-12.4/lib64/libcudart.so.12.4.127`, the record of a
/// wheel, of a conda package or of a Debian package, or a file of a toolkit in its folder.
fn cuda(path: &str) -> Option<NamedCuda> {
    let (folder, file) = path.rsplit_once('/').unwrap_or(("", path));
    if let Some((name, version)) = file.split_once(".so.") {
        let (_, numbers) = LIBRARIES
            .iter()
            .find(|(library, _)| is_library(name, library))?;
        return of_library(version, *numbers);
    }
    if file == "METADATA" {
        let package = folder.rsplit('/').next()?.strip_suffix(".dist-info")?;
        let (name, version) = package.split_once('-')?;
        return if is_wheel(name) {
            series(version)
        } else {
            made_for(name)
        };
    }
    if folder.ends_with("conda-meta") {
        let rest = ["cuda-cudart-", "cudatoolkit-"]
            .iter()
            .find_map(|name| file.strip_prefix(name))?;
        return series(rest.split('-').next()?);
    }
    if let Some(toolkit) = path.strip_prefix("usr/local/cuda-") {
        let (version, file) = toolkit.split_once('/')?;
        let is_toolkits = ["version.json", "version.txt", "bin/nvcc"].contains(&file);
        return series(version).filter(|_| is_toolkits);
    }
    let package = file
        .strip_suffix(".list")
        .filter(|_| folder == "var/lib/dpkg/info")?;
    series(&package.strip_prefix("cuda-cudart-")?.replace('-', "."))
}

/// Whether a file has the name of a library. Bundled libraries of wheels have a checksum in it:
/// `libcudart-d0da41ae.so.11.0`.
fn is_library(name: &str, library: &str) -> bool {
    name.strip_prefix(library)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}

/// Whether a file is a library for CUDA that does not say for which one.
fn is_unversioned(path: &str) -> bool {
    let file = path.rsplit('/').next().unwrap_or(path);
    file.contains(".so.") && UNVERSIONED.split(' ').any(|name| file.starts_with(name))
}

/// `nvidia_cuda_runtime_cu12`; from CUDA 13 on `nvidia_cuda_runtime`.
fn is_wheel(name: &str) -> bool {
    let line = name.strip_prefix("nvidia_cuda_runtime");
    line.is_some_and(|line| {
        line.is_empty()
            || line
                .strip_prefix("_cu")
                .is_some_and(|n| n.parse::<u16>().is_ok())
    })
}

/// The CUDA that a package names that is made for it: `cupy_cuda12x`, `jax_cuda13_plugin`.
fn made_for(package: &str) -> Option<NamedCuda> {
    Some((
        package.split('_').find_map(|part| {
            part.strip_prefix("cuda")
                .map(|rest| rest.strip_suffix('x').unwrap_or(rest))?
                .parse()
                .ok()
        })?,
        None,
    ))
}

/// Of the numbers behind the `.so.` of a library.
fn of_library(version: &str, numbers: Numbers) -> Option<NamedCuda> {
    let all = version
        .split('.')
        .map(|n| n.parse().ok())
        .collect::<Option<Vec<u16>>>()?;
    let (major, others) = all.split_first()?;
    let has_minor = match numbers {
        Numbers::Series => true,
        Numbers::Release => others.len() == 2 || (others.len() == 1 && *major < 11),
        Numbers::OwnRelease => false,
    };
    Some((*major, others.first().copied().filter(|_| has_minor)))
}

/// The series of a version with two or more numbers.
fn series(version: &str) -> Option<NamedCuda> {
    let mut numbers = version.split('.').map(|number| number.parse().ok());
    Some((numbers.next()??, Some(numbers.next()??)))
}

/// The folder of a program or an environment that has its own CUDA, by one of its files:
/// `usr/lib/ollama/cuda_v12`, `opt/conda/envs/old`. None if the file is the system's, on which
/// images are built: a toolkit in `/usr/local`, or a package.
fn home(path: &str) -> Option<&str> {
    let folder = path.rsplit_once('/')?.0;
    if folder.starts_with("usr/local/cuda")
        || folder == "var/lib/dpkg/info"
        || is_system_folder(folder)
    {
        return None;
    }
    if let Some(at) = ["/lib/python", "/lib64/python"]
        .into_iter()
        .find_map(|packages| folder.find(packages))
    {
        return folder.get(..at);
    }
    let ends = ["/conda-meta", "/lib", "/lib64"];
    Some(
        ends.into_iter()
            .find_map(|end| folder.strip_suffix(end))
            .unwrap_or(folder),
    )
}

/// The driver of a `libcuda.so.550.54.15`.
fn driver_library(path: &str) -> Option<DriverVersion> {
    path.rsplit('/')
        .next()?
        .strip_prefix("libcuda.so.")?
        .parse()
        .ok()
}

/// The driver of a library among the system's, such as `usr/lib64/libnvidia-ml.so.550.54.15`: a
/// package of the driver installs it, and `docker commit` keeps it.
fn system_driver(path: &str) -> Option<DriverVersion> {
    let (folder, file) = path.rsplit_once('/')?;
    let version = ["libcuda.so.", "libnvidia-ml.so."]
        .iter()
        .find_map(|name| file.strip_prefix(name))?;
    version.parse().ok().filter(|_| is_system_folder(folder))
}

/// Whether a folder is one of the system's libraries: `usr/lib64`, `lib/aarch64-linux-gnu`.
fn is_system_folder(folder: &str) -> bool {
    let folder = folder.strip_prefix("usr/").unwrap_or(folder);
    let is_multiarch = folder
        .strip_prefix("lib/")
        .is_some_and(|name| name.ends_with("-linux-gnu"));
    is_multiarch || ["lib", "lib64"].contains(&folder)
}

/// Whether a file is in a folder of `cuda-compat`:
/// `usr/local/cuda-12.4/compat/libcuda.so.550.54.15`. NVIDIA's images of frameworks have a folder
/// `lib.real` in it, and conda-forge's package is elsewhere, in `opt/conda/cuda-compat`
/// (cuda-compat-feedstock).
fn is_in_compat(path: &str) -> bool {
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    folder.split('/').any(|part| part == "compat") && folder.contains("cuda")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Other libraries for CUDA do not say which one.
    #[test]
    fn names_tell_the_series_or_only_the_major_version() {
        let cases = [
            (
                "usr/local/cuda-12.4/targets/x86_64-linux/lib/libcudart.so.12.4.127",
                "12.4",
            ),
            (
                "usr/lib/python3/dist-packages/nvidia/cuda_runtime/lib/libcudart.so.12",
                "12",
            ),
            (
                "opt/venv/lib/python3.10/site-packages/torch/lib/libcudart-d0da41ae.so.11.0",
                "11",
            ),
            ("usr/local/cuda-10.2/lib64/libcudart.so.10.2", "10.2"),
            (
                "opt/venv/lib/python3.10/site-packages/nvidia_cuda_runtime_cu12-12.6.77.dist-info/METADATA",
                "12.6",
            ),
            (
                "opt/venv/lib/python3.12/site-packages/nvidia_cuda_runtime-13.0.96.dist-info/METADATA",
                "13.0",
            ),
            (
                "opt/venv/lib/python3.12/site-packages/nvidia_cuda_runtime_api-13.0.96.dist-info/METADATA",
                "",
            ),
            (
                "opt/venv/lib/python3.12/site-packages/cupy_cuda12x-13.3.0.dist-info/METADATA",
                "12",
            ),
            (
                "opt/venv/lib/python3.12/site-packages/jax_cuda13_plugin-0.8.0.dist-info/METADATA",
                "13",
            ),
            (
                "opt/venv/lib/python3.12/site-packages/cuda_python-13.0.0.dist-info/METADATA",
                "",
            ),
            ("opt/conda/conda-meta/cuda-cudart-12.4.127-0.json", "12.4"),
            (
                "opt/conda/conda-meta/cudatoolkit-11.3.1-h2bc3f7f_2.json",
                "11.3",
            ),
            ("opt/conda/conda-meta/cuda-cudart-dev-12.4.127-0.json", ""),
            ("var/lib/dpkg/info/cuda-cudart-12-4.list", "12.4"),
            ("var/lib/dpkg/info/cuda-cudart-dev-12-4.list", ""),
            ("usr/local/cuda-12.4/lib64/libcublas.so.12.4.5.8", "12"),
            ("opt/app/libcublasLt-1a2b3c4d.so.11", "11"),
            ("usr/lib/x86_64-linux-gnu/libnvrtc-builtins.so.12.4", "12.4"),
            ("opt/app/libnvrtc-builtins-6c5639ce.so.11.8", "11.8"),
            ("opt/app/libnvrtc-672ee683.so.11.2", "11"),
            ("usr/local/cuda-12.4/lib64/libnvrtc.so.12.4.127", "12.4"),
            ("opt/app/libnvJitLink.so.13", "13"),
            ("usr/local/cuda-12.4/version.json", "12.4"),
            ("usr/local/cuda-12.4/bin/nvcc", "12.4"),
            ("usr/local/cuda-12/bin/nvcc", ""),
            ("usr/local/cuda-12.4/README", ""),
            ("usr/local/cuda/bin/nvcc", ""),
            ("usr/lib/libcublasXt.so.12", ""),
            ("usr/lib/libcudartx.so.12", ""),
            ("usr/lib/libcudart.so", ""),
            ("usr/lib/libcudart.so.12.abi", ""),
            ("opt/app/lib/libcudnn.so.9", "?"),
            ("opt/app/lib/libcudnn_ops.so.9.1.0", "?"),
            ("opt/app/lib/libnccl.so.2.21.5", "?"),
            ("opt/app/lib/libcufft.so.11", "?"),
            ("opt/app/lib/libnppc.so.12", "?"),
            ("opt/app/lib/libnccl-net.so.0", ""),
            ("opt/app/lib/libcudnn.so", ""),
            ("opt/app/lib/libcudnn.txt", ""),
            ("opt/app/lib/libz.so.1", ""),
        ];
        for (path, expected) in cases {
            let other = if is_wanted(path) { "?" } else { "" };
            let text = |(major, minor): NamedCuda| {
                minor.map_or(major.to_string(), |minor| format!("{major}.{minor}"))
            };
            assert_eq!(
                cuda(path).map_or(other.to_owned(), text),
                expected,
                "{path}"
            );
        }
    }

    #[test]
    fn driver_libraries_are_told_by_their_folders() {
        let drivers = |file: &str| {
            let layer = Rc::new(Layer {
                files: vec![file.to_owned()],
                ..Layer::default()
            });
            let Contents {
                compat,
                system_driver,
                ..
            } = Contents::of(&[layer]);
            let compat = |is_found| {
                compat
                    .as_ref()
                    .filter(|compat| compat.is_found == is_found)?
                    .driver
            };
            let drivers = [
                compat(true),
                compat(false),
                system_driver.map(|(version, _)| version),
            ];
            drivers.map(|driver| {
                driver
                    .map(|version| version.to_string())
                    .unwrap_or_default()
            })
        };
        let (old, new) = ("550.54.15", "580.82.07");
        for (file, expected) in [
            (
                "usr/local/cuda-12.4/compat/libcuda.so.550.54.15",
                [old, "", ""],
            ),
            (
                "usr/local/cuda/compat/lib.real/libcuda.so.580.82.07",
                [new, "", ""],
            ),
            ("usr/local/cuda-12.4/compat/libcuda.so.1", [""; 3]),
            ("opt/conda/cuda-compat/libcuda.so.580.82.07", ["", new, ""]),
            ("opt/driver/libcuda.so.550.54.15", ["", old, ""]),
            (
                "usr/lib/x86_64-linux-gnu/libcuda.so.550.54.15",
                ["", old, old],
            ),
            ("lib/aarch64-linux-gnu/libcuda.so.550.54.15", ["", old, old]),
            ("usr/lib/x86_64-linux-gnu/libcuda.so.1", [""; 3]),
            ("usr/lib64/libcuda.so.1", [""; 3]),
            ("usr/lib64/libnvidia-ml.so.550.54.15", ["", "", old]),
            ("usr/lib64/libnvidia-mlx.so.550.54.15", [""; 3]),
        ] {
            assert_eq!(drivers(file), expected, "{file}");
            assert_eq!(is_wanted(file), expected != [""; 3], "{file}");
        }
    }
}
