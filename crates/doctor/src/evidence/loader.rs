//! The dynamic loader's directories and its cache.

use super::{Answer, names, text};
use gpusetup_database::compat::Database;
use gpusetup_database::version::{AddOnVersion, DriverVersion};
use gpusetup_host::{Facts, InstalledDriver};
use gpusetup_resolve::TargetGpu;
use gpusetup_system::System;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// An entry of the loader's cache.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct LoaderCacheEntry {
    /// The SONAME that programs request.
    pub(crate) soname: String,
    /// The library that they load.
    pub(crate) path: PathBuf,
    /// The directory of the library, with links resolved.
    pub(crate) directory: PathBuf,
    /// Whether that file exists.
    pub(crate) exists: bool,
    /// The driver version of a libcuda.
    #[serde(default)]
    pub(crate) libcuda: Option<DriverVersion>,
}

/// Lines of the loader's configuration that are read; hosts have some ten.
const MAX_LINES: usize = 10_000;

/// The directories of ld.so.conf and the built-in ones.
pub(crate) fn loader_directories(system: &System) -> BTreeSet<PathBuf> {
    let mut directories: BTreeSet<PathBuf> = ["/lib", "/usr/lib", "/lib64", "/usr/lib64"]
        .iter()
        .map(|d| resolved(system, Path::new(d)))
        .collect();
    let mut files = vec![PathBuf::from("/etc/ld.so.conf")];
    let (mut read, mut lines) = (BTreeSet::new(), 0);
    while let Some(file) = files.pop() {
        if !read.insert(file.clone()) {
            continue;
        }
        for line in text(system, &file).lines() {
            let line = line.split('#').next().unwrap_or_default().trim();
            lines += 1;
            if lines > MAX_LINES {
                system.leave_out(
                    &file,
                    &format!("the loader's configuration has more than {MAX_LINES} lines"),
                );
                return directories;
            }
            match line.strip_prefix("include") {
                Some(pattern) => files.extend(matching(system, Path::new(pattern.trim()))),
                None if line.starts_with('/') => {
                    directories.insert(resolved(system, Path::new(line)));
                }
                None => {}
            }
        }
    }
    directories
}

/// The files of an `include DIRECTORY/*.conf`; in every distribution the name begins with the star.
fn matching(system: &System, pattern: &Path) -> Vec<PathBuf> {
    let pattern = Path::new("/etc").join(pattern);
    let (Some(directory), Some(name)) = (pattern.parent(), pattern.file_name()) else {
        return Vec::new();
    };
    let name = name.to_string_lossy();
    match name.strip_prefix('*') {
        Some(end) => names(system, directory)
            .filter(|n| n.ends_with(end))
            .map(|n| directory.join(n))
            .collect(),
        None => vec![pattern.clone()],
    }
}

/// `path` with links resolved, as seen on the host itself.
pub(crate) fn resolved(system: &System, path: &Path) -> PathBuf {
    system.canonical(path).unwrap_or_else(|_| path.to_owned())
}

pub(crate) fn cached(system: &System, facts: &Facts) -> Vec<LoaderCacheEntry> {
    let entries = facts.loader_cache.iter().flat_map(|c| &c.entries);
    entries
        .map(|(soname, path)| LoaderCacheEntry {
            soname: soname.clone(),
            directory: resolved(system, path.parent().unwrap_or(Path::new("/"))),
            exists: system.exists(path),
            libcuda: libcuda(system, path),
            path: path.clone(),
        })
        .collect()
}

/// The version in the name of the file that a libcuda link leads to.
fn libcuda(system: &System, path: &Path) -> Option<DriverVersion> {
    resolved(system, path)
        .file_name()?
        .to_str()?
        .strip_prefix("libcuda.so.")?
        .parse()
        .ok()
}

/// The version of the add-on that a program of a tree would load, by the loader's cache and the
/// name of the file. No library of a tree is loaded.
pub(crate) fn add_on_version(system: &System, facts: &Facts, soname: &str) -> Answer<AddOnVersion> {
    let entries = facts.loader_cache.iter().flat_map(|c| &c.entries);
    let cached = entries
        .filter(|(name, _)| name == soname)
        .map(|(_, path)| path.clone());
    let built_in = ["/lib", "/usr/lib", "/lib64", "/usr/lib64"].map(|d| Path::new(d).join(soname));
    let Some(path) = cached.chain(built_in).find(|path| system.exists(path)) else {
        return Answer::Failed(format!(
            "{soname} is neither in /etc/ld.so.cache nor in the loader's built-in directories"
        ));
    };
    let file = resolved(system, &path);
    let by_name = file.file_name().and_then(|n| {
        n.to_str()?
            .split_once(".so.")?
            .1
            .parse::<AddOnVersion>()
            .ok()
    });
    // A file without a version in its name may have a header with a version.
    by_name
        .or_else(|| {
            facts
                .add_on_files()
                .find(|c| {
                    Some(c.directory.as_path()) == file.parent()
                        && c.files.iter().any(|f| f.soname.as_deref() == Some(soname))
                })?
                .version
        })
        .map_or_else(|| Answer::NotAsked(super::OF_A_TREE.to_owned()), Answer::Is)
}

/// Whether a libcuda belongs to a compatibility package for this driver and these GPUs.
pub(crate) fn forward_compatible(
    database: &Database,
    driver: &InstalledDriver,
    cards: &[Result<TargetGpu, String>],
    entry: &LoaderCacheEntry,
) -> bool {
    // NVIDIA supports it only on data-centre GPUs.
    let for_all = !cards.is_empty()
        && cards
            .iter()
            .all(|c| c.as_ref().is_ok_and(|c| c.data_center));
    let branch = entry.libcuda.map(|version| version.branch);
    let mut packages = database
        .forward_compatibility
        .iter()
        .filter(|f| branch.is_some() && f.driver_branch == branch);
    for_all
        && entry.directory.ends_with("compat")
        && packages.any(|f| f.base_branches.contains(&driver.version.branch))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loaders_directories_are_those_of_all_its_files() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let system = System::at(dir.path());
        system
            .make_directories("/etc/ld.so.conf.d", 0o755)
            .expect("made");
        system
            .make_directories("/usr/local/cuda-12.8/lib64", 0o755)
            .expect("made");
        system
            .link("/usr/local/cuda", Path::new("cuda-12.8"))
            .expect("linked");
        system
            .write(
                "/etc/ld.so.conf",
                b"include /etc/ld.so.conf.d/*.conf\n",
                0o644,
            )
            .expect("written");
        system
            .write(
                "/etc/ld.so.conf.d/cuda.conf",
                b"# toolkit\n/usr/local/cuda/lib64\n",
                0o644,
            )
            .expect("written");
        let found = loader_directories(&system);
        assert!(
            found.contains(Path::new("/usr/local/cuda-12.8/lib64")),
            "{found:?}"
        );
    }
}
