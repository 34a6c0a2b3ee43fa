//! Where Python environments are: the caller's own, and the usual places. Directories of a tree are
//! never left, and links between environments are followed once, since the same environment under
//! two names is read once.

use super::EnvironmentKind;
use gpusetup_system::limits::MAX_RECORD;
use gpusetup_system::trust::caller;
use gpusetup_system::{System, environment};
use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// An environment that exists.
pub struct Place {
    /// Its directory, as it is named.
    pub(crate) path: PathBuf,
    /// What it was made with.
    pub(crate) kind: EnvironmentKind,
    /// The caller has activated it.
    pub(crate) active: bool,
    /// The directories of its packages, `lib/python3.12/site-packages`.
    pub(crate) packages: Vec<PathBuf>,
}

/// The most directories that are looked into in one place.
const MAX_FOLDERS_OF_PLACE: usize = 64;

/// Names of conda's own installation.
const CONDA_ROOTS: [&str; 7] = [
    "conda",
    "miniconda3",
    "anaconda3",
    "miniforge3",
    "mambaforge",
    "micromamba",
    "miniconda",
];

/// Names of virtual environments in a directory that has other things too.
const VENVS: [&str; 4] = [".venv", "venv", "env", ".env"];

/// All of them, the caller's first.
pub(crate) fn places(system: &System) -> Vec<Place> {
    let mut candidates: Vec<(PathBuf, bool)> = Vec::new();
    let mut homes = vec![PathBuf::from("/root")];
    if system.is_live() {
        candidates.extend(
            ["VIRTUAL_ENV", "CONDA_PREFIX"]
                .into_iter()
                .filter_map(absolute_path)
                .map(|path| (path, true)),
        );
        if let Some(here) = environment::current_directory() {
            // Advice names the pip of an environment, which root may run: not that of another user
            // in /tmp.
            let ours = caller();
            candidates.extend(
                VENVS
                    .map(|name| here.join(name))
                    .into_iter()
                    .filter(|path| {
                        system
                            .metadata(path)
                            .is_ok_and(|meta| ours.contains(&meta.uid()))
                    })
                    .map(|path| (path, false)),
            );
        }
        homes.extend(absolute_path("HOME"));
        // sudo names the user, and its policy may set HOME to root's.
        homes.extend(environment::variable("SUDO_USER").and_then(|user| home_of(system, &user)));
    }
    homes.dedup();
    let mut others = Vec::new();
    for home in &homes {
        others.extend(VENVS.map(|name| home.join(name)));
        others.extend(children(system, &home.join(".virtualenvs")));
        others.extend(children(system, &home.join(".conda/envs")));
        for name in CONDA_ROOTS {
            others.extend(conda(system, home.join(name)));
        }
    }
    for name in CONDA_ROOTS {
        others.extend(conda(system, Path::new("/usr/local").join(name)));
    }
    for folder in children(system, Path::new("/opt")).chain([PathBuf::from("/")]) {
        let venvs = VENVS.map(|name| folder.join(name));
        others.extend(conda(system, folder));
        others.extend(venvs);
    }
    candidates.extend(others.into_iter().map(|path| (path, false)));
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    for (path, active) in candidates {
        let Some(kind) = kind(system, &path) else {
            continue;
        };
        let real = system.canonical(&path).unwrap_or_else(|_| path.clone());
        if seen.insert(real) {
            let packages = site_packages(system, &path, &["site-packages"]);
            found.push(Place {
                path,
                kind,
                active,
                packages,
            });
        }
    }
    // Debian's pip installs into dist-packages, others into site-packages.
    let packages = site_packages(
        system,
        Path::new("/usr/local"),
        &["dist-packages", "site-packages"],
    );
    if !packages.is_empty() {
        found.push(Place {
            path: "/usr/local".into(),
            kind: EnvironmentKind::System,
            active: false,
            packages,
        });
    }
    found
}

/// The absolute path in a variable of the environment.
fn absolute_path(name: &str) -> Option<PathBuf> {
    environment::variable(name)
        .filter(|path| path.starts_with('/'))
        .map(PathBuf::from)
}

/// A conda installation: itself, and each of its environments.
fn conda(system: &System, root: PathBuf) -> impl Iterator<Item = PathBuf> {
    let environments = children(system, &root.join("envs"));
    [root].into_iter().chain(environments)
}

/// The directories in one.
fn children(system: &System, folder: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let names = system.list(folder).unwrap_or_default();
    names
        .into_iter()
        .take(MAX_FOLDERS_OF_PLACE)
        .map(|name| folder.join(name))
        .collect::<Vec<_>>()
        .into_iter()
}

fn kind(system: &System, path: &Path) -> Option<EnvironmentKind> {
    if system.is_directory(path.join("conda-meta")) {
        return Some(EnvironmentKind::Conda);
    }
    system
        .exists(path.join("pyvenv.cfg"))
        .then_some(EnvironmentKind::Venv)
}

/// `lib/python3.*/site-packages`.
fn site_packages(system: &System, path: &Path, names: &[&str]) -> Vec<PathBuf> {
    let lib = path.join("lib");
    let versions = system
        .list(&lib)
        .unwrap_or_default()
        .into_iter()
        .filter(|name| name.starts_with("python3"));
    let all = versions.take(MAX_FOLDERS_OF_PLACE).flat_map(|version| {
        names
            .iter()
            .map(|name| lib.join(&version).join(name))
            .collect::<Vec<_>>()
    });
    all.filter(|folder| system.is_directory(folder)).collect()
}

/// A user's home directory, by /etc/passwd.
fn home_of(system: &System, user: &str) -> Option<PathBuf> {
    let text = system.read_text_up_to("/etc/passwd", MAX_RECORD).ok()??;
    let line = text
        .lines()
        .find(|line| line.split(':').next() == Some(user))?;
    line.split(':')
        .nth(5)
        .filter(|home| home.starts_with('/'))
        .map(PathBuf::from)
}
