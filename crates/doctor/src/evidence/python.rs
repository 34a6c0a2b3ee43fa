//! Python environments: virtual environments, conda environments and the packages that pip
//! installed for the system's Python. No Python is run: only the metadata of packages is read,
//! which other users may have written, so that every size is bounded.

mod find;
mod libraries;
mod metadata;

use find::{Place, places};
use gpusetup_database::compat::Database;
use gpusetup_database::version::CudaVersion;
use gpusetup_host::Facts;
use gpusetup_system::{System, environment};
use metadata::Files;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// The most environments that are read.
pub(crate) const MAX_ENVIRONMENTS: usize = 40;

/// The most files of an environment that are named because they could not be read.
const MAX_UNREAD: usize = 8;

/// An environment that has a framework or libraries of NVIDIA.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct PythonEnvironment {
    /// Its directory: `/opt/venv`.
    pub path: PathBuf,
    /// What it was made with.
    pub(crate) kind: EnvironmentKind,
    /// It is the caller's: VIRTUAL_ENV or CONDA_PREFIX names it.
    pub(crate) active: bool,
    /// It has pip in its bin directory.
    pub(crate) has_pip: bool,
    /// Its frameworks, and its packages of NVIDIA's libraries.
    pub packages: Vec<EnvironmentPackage>,
    /// The CUDA libraries that its frameworks load.
    pub(crate) loads: Vec<LoadedLibrary>,
    /// Why something could not be read.
    pub(crate) unread: Vec<String>,
}

/// What an environment was made with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub(crate) enum EnvironmentKind {
    /// venv, virtualenv or uv.
    Venv,
    /// conda, mamba or micromamba.
    Conda,
    /// No environment: the packages that pip installed for the system's Python.
    System,
}

/// A package in an environment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct EnvironmentPackage {
    /// The normalised name: `nvidia-cudnn-cu12`.
    pub name: String,
    /// The version with its local part: `2.9.1+cu128`.
    pub version: String,
    /// Whether conda installed it, not pip.
    pub(crate) by_conda: bool,
    /// The CUDA that it is built for, if it is a framework.
    pub build: BuiltFor,
    /// Its requirements on NVIDIA's packages.
    pub requires: Vec<RequiredPackage>,
    /// Libraries that its list of files names and that do not exist.
    pub(crate) missing: Vec<PathBuf>,
}

/// What a framework is built for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum BuiltFor {
    /// Not a framework, or its files do not say.
    #[default]
    Unknown,
    /// The CPU alone.
    Cpu,
    /// This CUDA series.
    Cuda(CudaVersion),
}

/// A requirement on a package.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct RequiredPackage {
    /// The normalised name.
    pub(crate) name: String,
    /// The versions: `==9.10.2.21`, `>=12.4,<13`; empty for all.
    pub versions: String,
}

/// A CUDA library that a framework loads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub(crate) struct LoadedLibrary {
    /// The library that asks for it, in the environment: `libc10_cuda.so`.
    pub(crate) by: String,
    /// The name that it asks for: `libcudart.so.12`.
    pub(crate) soname: String,
    /// The file that the loader finds. None if there is none.
    pub(crate) path: Option<PathBuf>,
    /// The environment's own file of this name.
    pub(crate) own: Option<PathBuf>,
    /// How the loader found it.
    pub(crate) found_by: FoundBy,
}

/// How the loader finds a library.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub(crate) enum FoundBy {
    /// By the directories in the library that asks (RPATH or RUNPATH).
    Library,
    /// By LD_LIBRARY_PATH.
    LibraryPath,
    /// By the loader's cache.
    Cache,
    /// Not at all.
    Nothing,
}

/// The environments of the caller and of the usual places that have a framework or libraries of
/// NVIDIA.
pub(crate) fn environments(
    system: &System,
    facts: &Facts,
    database: &Database,
) -> Vec<PythonEnvironment> {
    let (loader, files) = (
        libraries::Loader::of(system, facts, library_path(system)),
        Files::of(system),
    );
    let mut found = Vec::new();
    for place in places(system).into_iter().take(MAX_ENVIRONMENTS) {
        let mut environment = read(system, &files, &place, database, &facts.machine.arch);
        if environment.packages.is_empty() {
            continue;
        }
        environment.loads = libraries::loaded(&loader, &place);
        found.push(environment);
    }
    found
}

fn read(
    system: &System,
    files: &Files,
    place: &Place,
    database: &Database,
    machine: &str,
) -> PythonEnvironment {
    let Place {
        path, kind, active, ..
    } = place;
    let (path, kind, active) = (path.clone(), *kind, *active);
    let has_pip = system.exists(path.join("bin/pip"));
    let mut environment = PythonEnvironment {
        path,
        kind,
        active,
        has_pip,
        packages: Vec::new(),
        loads: Vec::new(),
        unread: Vec::new(),
    };
    let mut fail = |what: &Path, why: String| {
        if environment.unread.len() < MAX_UNREAD {
            environment
                .unread
                .push(format!("{}: {why}", what.display()));
        }
    };
    let mut packages = Vec::new();
    for folder in &place.packages {
        packages.extend(metadata::installed(
            files, folder, database, machine, &mut fail,
        ));
    }
    if kind == EnvironmentKind::Conda {
        packages.extend(metadata::of_conda(files, &place.path, &mut fail));
    }
    packages.sort_by(|a, b| (&a.name, a.by_conda).cmp(&(&b.name, b.by_conda)));
    packages
        .dedup_by(|a, b| a.name == b.name && a.version == b.version && a.by_conda == b.by_conda);
    let unread = environment.unread;
    PythonEnvironment {
        packages,
        unread,
        ..environment
    }
}

/// The directories of the caller's LD_LIBRARY_PATH; none for a tree.
fn library_path(system: &System) -> Vec<PathBuf> {
    let value = system
        .is_live()
        .then(|| environment::variable("LD_LIBRARY_PATH"))
        .flatten()
        .unwrap_or_default();
    value
        .split(':')
        .filter(|folder| folder.starts_with('/'))
        .map(PathBuf::from)
        .collect()
}
