//! The library directories of a host, each listed once: they have thousands of names, and several
//! probes use them.

use super::reader::Reader;
use gpusetup_database::compat::AddOn;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The system library directories of the distributions and architectures with NVIDIA drivers.
pub fn directories() -> [&'static Path; 8] {
    [
        "/usr/lib/x86_64-linux-gnu",
        "/usr/lib/aarch64-linux-gnu",
        "/usr/lib/powerpc64le-linux-gnu",
        "/usr/lib64",
        "/usr/lib",
        "/lib64",
        "/usr/local/lib",
        "/usr/local/lib64",
    ]
    .map(Path::new)
}

/// Where a driver's libraries are that no package of this system installed: those that Google's
/// images and Kubernetes' nodes mount into containers and machines, those of Container-Optimized OS
/// itself, and those of NixOS.
const DRIVER_DIRECTORIES: [&str; 4] = [
    "/usr/local/nvidia/lib64",
    "/usr/local/nvidia/lib",
    "/var/lib/nvidia/lib64",
    "/run/opengl-driver/lib",
];

/// A library directory, and the names in it that matter to the probes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Listing {
    /// The path, links resolved.
    pub(crate) directory: PathBuf,
    /// The names of NVIDIA's libraries, sorted.
    pub(crate) names: Vec<String>,
    /// Whether Debian's alternatives select it from several such directories.
    pub(crate) alternative: bool,
}

/// Every system library directory with NVIDIA libraries, the directories of Debian's alternatives
/// below it, and then those of drivers alone.
pub(crate) fn listings(reader: &mut Reader, add_ons: &[AddOn]) -> Vec<Listing> {
    let (mut seen, mut found) = (BTreeSet::new(), Vec::new());
    for directory in directories() {
        list(reader, add_ons, directory, false, &mut seen, &mut found);
        // Debian keeps each driver in a separate directory: nvidia/current, nvidia/tesla-470.
        let alternatives = directory.join("nvidia");
        if reader.system.is_directory(&alternatives) {
            for name in reader.names("libraries", &alternatives) {
                list(
                    reader,
                    add_ons,
                    &alternatives.join(name),
                    true,
                    &mut seen,
                    &mut found,
                );
            }
        }
    }
    for directory in DRIVER_DIRECTORIES.map(Path::new) {
        list(reader, &[], directory, false, &mut seen, &mut found);
    }
    found
}

fn list(
    reader: &mut Reader,
    add_ons: &[AddOn],
    directory: &Path,
    alternative: bool,
    seen: &mut BTreeSet<PathBuf>,
    found: &mut Vec<Listing>,
) {
    let resolved = reader.resolved(directory);
    if !reader.system.is_directory(&resolved) || !seen.insert(resolved.clone()) {
        return;
    }
    let mut names = reader.names("libraries", &resolved);
    names.retain(|name| {
        name.starts_with("libcuda.so")
            || name.starts_with("libnvidia-ml.so")
            || add_ons.iter().any(|a| a.has_library(name))
    });
    if !names.is_empty() {
        found.push(Listing {
            directory: resolved,
            names,
            alternative,
        });
    }
}
