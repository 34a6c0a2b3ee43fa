//! Finds the packages that own certain paths, and that must be removed with them.

use gpusetup_database::compat::PackageManager;
use gpusetup_system::System;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

/// For each of `paths`, the packages that own it or a file below it.
pub fn owners(
    system: &System,
    manager: PackageManager,
    paths: &BTreeSet<PathBuf>,
) -> io::Result<BTreeMap<PathBuf, BTreeSet<String>>> {
    let mut owners = BTreeMap::new();
    let shortest = paths
        .iter()
        .map(|path| path.as_os_str().len())
        .min()
        .unwrap_or(usize::MAX);
    (super::of(manager).each_file)(system, &mut |package, file| {
        // Without its /usr it is shorter.
        if file.len() + "/usr".len() < shortest {
            return;
        }
        for path in paths.iter().filter(|path| lies_in(Path::new(file), path)) {
            owners
                .entry(path.clone())
                .or_insert_with(BTreeSet::new)
                .insert(package.to_owned());
        }
    })?;
    Ok(owners)
}

/// Whether a package's file is `path` or below it. Packages from before the /usr merge have /lib
/// instead of /usr/lib.
fn lies_in(file: &Path, path: &Path) -> bool {
    file.starts_with(path)
        || path
            .strip_prefix("/usr")
            .is_ok_and(|rest| file.starts_with(Path::new("/").join(rest)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LISTS: &str = "/var/lib/dpkg/info";

    #[test]
    fn dpkgs_lists_tell_who_owns_what() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let system = System::at(dir.path());
        system.make_directories(LISTS, 0o755).expect("made");
        for (name, text) in [
            (
                "cuda-nvcc-12-8.list",
                "/.\n/usr\n/usr/local\n/usr/local/cuda-12.8\n/usr/local/cuda-12.8/bin/nvcc\n",
            ),
            (
                "libcudnn9.list",
                "/.\n/lib\n/lib/x86_64-linux-gnu\n/lib/x86_64-linux-gnu/libcudnn.so.9\n",
            ),
            (
                "cuda-nvcc-12-80:amd64.list",
                "/usr/local/cuda-12.80/bin/nvcc\n",
            ),
            ("base.list", "/.\n/usr\n/usr/local\n"),
            ("base.md5sums", "x /usr/local/cuda-12.8/no-list\n"),
        ] {
            system
                .write(Path::new(LISTS).join(name), text.as_bytes(), 0o644)
                .expect("written");
        }
        let paths = [
            "/usr/local/cuda-12.8",
            "/usr/lib/x86_64-linux-gnu/libcudnn.so.9",
            "/opt/none",
        ];
        let found = owners(
            &system,
            PackageManager::Apt,
            &paths.map(PathBuf::from).into(),
        )
        .expect("readable");
        let found_owners: Vec<_> = found
            .into_iter()
            .map(|(p, o)| (p, o.into_iter().collect::<Vec<_>>().join(" ")))
            .collect();
        let want = [(paths[1], "libcudnn9"), (paths[0], "cuda-nvcc-12-8")];
        assert_eq!(
            found_owners,
            want.map(|(p, o)| (PathBuf::from(p), o.to_owned()))
        );
    }
}
