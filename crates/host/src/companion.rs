//! Companions of the driver that are installed: by the package manager's record if that is a file,
//! otherwise by a program.

use super::InstalledCompanion;
use super::installed::Packages;
use super::reader::Reader;
use gpusetup_database::compat::Companion;
use gpusetup_packages::upstream;
use gpusetup_text::paths::STARTED_AT_BOOT;
use std::path::{Path, PathBuf};

/// Where packages and administrators name the kernel modules that every boot loads.
const LOADED_AT_BOOT: [&str; 2] = ["/etc/modules-load.d", "/usr/lib/modules-load.d"];

/// The installed ones of those that the database knows.
pub(crate) fn companions(
    reader: &Reader,
    packages: Option<&Packages>,
    known: &[Companion],
) -> Vec<InstalledCompanion> {
    known
        .iter()
        .filter_map(|companion| installed(reader, packages, companion))
        .collect()
}

fn installed(
    reader: &Reader,
    packages: Option<&Packages>,
    companion: &Companion,
) -> Option<InstalledCompanion> {
    let of_package = packages.and_then(|all| {
        let mut found = all
            .all()
            .filter(|(name, _)| companion.is_package(name) || companion.is_former(name));
        found
            .next_back()
            .map(|(name, version)| (name.to_owned(), upstream(version).to_owned()))
    });
    let mut program = companion.program.iter();
    let is_loaded = module_files(companion)
        .iter()
        .any(|file| reader.is_file(file));
    // A module of the driver is there with the driver: what counts is that it is loaded.
    let is_part_of_driver = companion.is_part_of_driver() && is_loaded;
    if of_package.is_none() && !program.any(|program| reader.is_file(program)) && !is_part_of_driver
    {
        return None;
    }
    let enabled = companion.units.iter().all(|unit| {
        reader
            .system
            .link_target(Path::new(STARTED_AT_BOOT).join(unit))
            .is_some()
    }) && (is_loaded || companion.kernel_module.is_none());
    let (package, version) = of_package.unzip();
    Some(InstalledCompanion {
        id: companion.id,
        version,
        package,
        enabled,
    })
}

/// The files that have every boot load its kernel module: gpusetup's, and those with the module's
/// name.
fn module_files(companion: &Companion) -> Vec<PathBuf> {
    let by_name = companion.kernel_module.iter().flat_map(|module| {
        let file = format!("{module}.conf");
        LOADED_AT_BOOT.map(|folder| Path::new(folder).join(&file))
    });
    companion
        .module_file()
        .map(PathBuf::from)
        .into_iter()
        .chain(by_name)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpusetup_data::embedded;
    use gpusetup_database::compat::CompanionId;
    use gpusetup_system::System;

    fn found(record: Option<&str>, files: &[&str], enabled: bool) -> Vec<InstalledCompanion> {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let on = System::at(dir.path());
        let file = |path: &str, text: &str| {
            on.make_directories(Path::new(path).parent().expect("absolute"), 0o755)
                .expect("made");
            on.write(path, text.as_bytes(), 0o755).expect("written");
        };
        record
            .into_iter()
            .for_each(|text| file("/var/lib/dpkg/status", text));
        files.iter().for_each(|path| file(path, ""));
        if enabled {
            on.make_directories(STARTED_AT_BOOT, 0o755).expect("made");
            let target = Path::new("/usr/lib/systemd/system/nvidia-fabricmanager.service");
            on.link(
                Path::new(STARTED_AT_BOOT).join("nvidia-fabricmanager.service"),
                target,
            )
            .expect("linked");
        }
        let database = embedded();
        let packages = Packages::read(
            &mut Reader::new(&on),
            &database.add_ons,
            &database.companions,
        );
        companions(&Reader::new(&on), packages.as_ref(), &database.companions)
    }

    #[test]
    fn a_companion_is_known_by_its_package_or_its_program() {
        let record = "Package: nvidia-fabricmanager-580\nStatus: install ok installed\nVersion: 580.95.05-0ubuntu0.24.04.2\n\n\
            Package: nvlsm\nStatus: hold ok installed\nVersion: 2025.06.11-1\n\n\
            Package: nvidia-imex-580\nStatus: deinstall ok config-files\nVersion: 580.95.05-1\n";
        let manager = |version: Option<&str>, enabled| InstalledCompanion {
            id: CompanionId::FABRIC_MANAGER,
            version: version.map(str::to_owned),
            package: version.map(|_| "nvidia-fabricmanager-580".to_owned()),
            enabled,
        };
        let nvlsm = InstalledCompanion {
            id: "nvlsm".parse().expect("an id"),
            version: Some("2025.06.11".into()),
            package: Some("nvlsm".into()),
            enabled: true,
        };
        assert_eq!(
            found(Some(record), &[], true),
            [manager(Some("580.95.05"), true), nvlsm.clone()]
        );
        assert_eq!(
            found(Some(record), &[], false),
            [manager(Some("580.95.05"), false), nvlsm]
        );
        assert_eq!(
            found(None, &["/usr/bin/nv-fabricmanager"], true),
            [manager(None, true)]
        );
        assert_eq!(found(None, &[], false), []);
    }

    #[test]
    fn a_kernel_module_is_known_by_the_file_that_loads_it() {
        let states = |record: Option<&str>, files: &[&str]| {
            let found = found(record, files, false).into_iter();
            found
                .map(|found| (found.id.to_string(), found.enabled))
                .collect::<Vec<_>>()
        };
        let gds = "Package: nvidia-fs\nStatus: install ok installed\nVersion: 2.28.4-1\n\n";
        let (ours, of_package) = (
            "/etc/modules-load.d/gpusetup-gds.conf",
            "/etc/modules-load.d/nvidia-fs.conf",
        );
        assert_eq!(states(Some(gds), &[]), [("gds".to_owned(), false)]);
        for file in [ours, of_package, "/usr/lib/modules-load.d/nvidia-fs.conf"] {
            assert_eq!(
                states(Some(gds), &[file]),
                [("gds".to_owned(), true)],
                "{file}"
            );
            assert_eq!(states(None, &[file]), [], "the module of a package: {file}");
        }
        for file in [
            "/etc/modules-load.d/gpusetup-peermem.conf",
            "/etc/modules-load.d/nvidia-peermem.conf",
        ] {
            assert_eq!(
                states(None, &[file]),
                [("peermem".to_owned(), true)],
                "{file}"
            );
        }
    }
}
