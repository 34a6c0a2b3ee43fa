//! The installed NVIDIA driver and its origin: packages from dpkg's record, a runfile from its log
//! and uninstaller, and in any case the versions in library names. Several results are a mixed
//! install, and all of them are reported.

use super::installed::Packages;
use super::libraries::Listing;
use super::reader::Reader;
use super::{InstalledDriver, Origin};
use gpusetup_database::compat::{ModuleFlavour, PackageManager};
use gpusetup_database::version::DriverVersion;
use gpusetup_packages::upstream;
use std::path::PathBuf;

/// Driver packages of Debian and Ubuntu; those whose version is the driver's own come first. `*` is
/// a branch.
const PACKAGES: [&str; 8] = [
    "libcuda1",
    "libnvidia-compute-",
    "libnvidia-ml1",
    "libnvidia-tesla-",
    "nvidia-kernel-dkms",
    "nvidia-kernel-open-dkms",
    "nvidia-open-kernel-dkms",
    "nvidia-dkms-",
];

/// Files left by NVIDIA's installer.
const UNINSTALLERS: [&str; 2] = ["/usr/bin/nvidia-uninstall", "/usr/bin/nvidia-installer"];
const LOGS: [&str; 2] = ["/var/lib/nvidia/log", "/var/log/nvidia-installer.log"];

/// All drivers found. The first is the one that the loader finds first, as far as that is known.
pub(crate) fn drivers(
    reader: &mut Reader,
    packages: Option<&Packages>,
    manager: Option<PackageManager>,
    libraries: &[Listing],
) -> Vec<InstalledDriver> {
    let mut drivers: Vec<InstalledDriver> = Vec::new();
    // What a directory's libcuda.so.1 leads to is what programs load.
    let led_to: Vec<_> = libraries
        .iter()
        .filter_map(|listing| Some((listing, led_to(reader, listing)?)))
        .collect();
    let on_disk = library_versions(libraries, &led_to);
    let packaged = packages.and_then(package).map(|d| InstalledDriver {
        alternative: Some({
            let mut found = on_disk.iter();
            found.any(|found| found.version == d.version && found.alternative)
        }),
        ..d
    });
    let runfile = runfile(reader);
    for Library {
        version,
        file,
        alternative,
    } in &on_disk
    {
        let version = *version;
        let mut known = packaged.iter().chain(&runfile).chain(&drivers);
        if known.any(|d| d.version == version) {
            continue;
        }
        // rpm's own database can only be read by rpm, so the packages' licence files serve as
        // evidence.
        let rpm = manager.is_some_and(|m| gpusetup_packages::of(m).record_file.is_none())
            && rpm_trace(reader);
        let unversioned = runfile.is_none() && has_uninstaller(reader);
        let origin = match (unversioned, rpm) {
            (true, _) => Origin::Runfile,
            (false, true) => Origin::Rpm,
            (false, false) => Origin::Unknown,
        };
        let (evidence, alternative) = (file.display().to_string(), Some(*alternative));
        drivers.push(InstalledDriver {
            version,
            origin,
            modules: None,
            evidence,
            alternative,
        });
    }
    // A runfile installed over packages replaces their files, so it is the driver that runs.
    let mut all: Vec<_> = runfile.into_iter().chain(packaged).collect();
    all.append(&mut drivers);
    let loaded = led_to.first().map(|(_, (version, _))| *version);
    // A driver without libraries is a leftover (a log, some of the packages) and comes last.
    all.sort_by_key(|d| {
        (
            Some(d.version) != loaded,
            !on_disk.iter().any(|found| found.version == d.version),
        )
    });
    all
}

fn package(packages: &Packages) -> Option<InstalledDriver> {
    let mut candidates = PACKAGES.iter().flat_map(|start| packages.beginning(start));
    let found = candidates.find_map(|(name, version)| {
        let driver: DriverVersion = upstream(version).parse().ok()?;
        Some((driver, format!("package {name} {version}")))
    });
    let (version, evidence) = found?;
    let modules = package_flavour(packages);
    Some(InstalledDriver {
        version,
        origin: Origin::Dpkg,
        modules,
        evidence,
        alternative: None,
    })
}

fn package_flavour(packages: &Packages) -> Option<ModuleFlavour> {
    let modules = [
        "nvidia-kernel-dkms",
        "nvidia-kernel-open-dkms",
        "nvidia-open-kernel-dkms",
        "nvidia-dkms-",
        "linux-modules-nvidia-",
    ];
    let names = modules.iter().flat_map(|start| packages.beginning(start));
    let (open, others): (Vec<_>, Vec<_>) = names.partition(|(name, _)| name.contains("-open"));
    match (open.is_empty(), others.is_empty()) {
        (false, true) => Some(ModuleFlavour::Open),
        (true, false) => Some(ModuleFlavour::Proprietary),
        _ => None,
    }
}

fn has_uninstaller(reader: &Reader) -> bool {
    UNINSTALLERS.iter().any(|p| reader.is_file(p))
}

fn runfile(reader: &mut Reader) -> Option<InstalledDriver> {
    if !has_uninstaller(reader) {
        return None;
    }
    for log in LOGS {
        let text = reader
            .head("the NVIDIA installer's log", log, 1 << 14)
            .unwrap_or_default();
        if let Some(version) = logged_version(&text) {
            let evidence = format!("{log} and {}", UNINSTALLERS[0]);
            let (origin, alternative) = (Origin::Runfile, Some(false));
            return Some(InstalledDriver {
                version,
                origin,
                modules: None,
                evidence,
                alternative,
            });
        }
    }
    None
}

/// The version in the index of backups, whose first line is `1.0-5809505 (580.95.05)`, or in the
/// log, in its header or in the step that installs (nvidia-installer's backup.c and log.c). Other
/// lines of the log may name the previous driver.
fn logged_version(text: &str) -> Option<DriverVersion> {
    let indexed = text.lines().next().and_then(|l| {
        l.strip_prefix("1.0-")?
            .split_once(" (")?
            .1
            .strip_suffix(')')
    });
    let version = indexed.or_else(|| {
        ["installer version:", "-> Installing NVIDIA driver version"]
            .iter()
            .find_map(|start| text.lines().find_map(|line| line.strip_prefix(start)))
    })?;
    version.trim().trim_end_matches('.').parse().ok()
}

fn rpm_trace(reader: &mut Reader) -> bool {
    ["/usr/share/licenses", "/usr/share/doc"]
        .iter()
        .any(|directory| {
            let names = reader.names("licences of packages", directory);
            names
                .iter()
                .any(|n| n.starts_with("nvidia-driver") || n.starts_with("xorg-x11-drv-nvidia"))
        })
}

/// A version of the driver's libraries on disk.
#[derive(Debug, PartialEq)]
struct Library {
    version: DriverVersion,
    /// A library file with that version.
    file: PathBuf,
    /// Whether it is only in directories of alternatives.
    alternative: bool,
}

/// Versions in the names of `libcuda.so.VERSION` and `libnvidia-ml.so.VERSION`, and of files in
/// other directories that links lead to.
fn library_versions(
    libraries: &[Listing],
    led_to: &[(&Listing, (DriverVersion, PathBuf))],
) -> Vec<Library> {
    let mut versions: Vec<Library> = Vec::new();
    for listing in libraries {
        let named = listing.names.iter().filter_map(|name| {
            let suffix = name
                .strip_prefix("libcuda.so.")
                .or_else(|| name.strip_prefix("libnvidia-ml.so."))?;
            Some((suffix.parse().ok()?, listing.directory.join(name)))
        });
        let led_to = led_to
            .iter()
            .filter(|(of, _)| *of == listing)
            .map(|(_, found)| found.clone());
        let elsewhere =
            led_to.filter(|(_, file)| !libraries.iter().any(|of| file.starts_with(&of.directory)));
        for (version, file) in named.chain(elsewhere) {
            let alternative = listing.alternative;
            match versions.iter_mut().find(|known| known.version == version) {
                Some(known) => known.alternative &= alternative,
                None => versions.push(Library {
                    version,
                    file,
                    alternative,
                }),
            }
        }
    }
    versions
}

/// The version that a directory's `libcuda.so.1` leads to, and its file.
fn led_to(reader: &Reader, listing: &Listing) -> Option<(DriverVersion, PathBuf)> {
    let link = listing.names.iter().find(|n| *n == "libcuda.so.1")?;
    let file = reader.resolved(listing.directory.join(link));
    let version = file
        .file_name()?
        .to_str()?
        .strip_prefix("libcuda.so.")?
        .parse()
        .ok()?;
    Some((version, file))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn version(text: &str) -> DriverVersion {
        text.parse().expect("a version")
    }

    #[test]
    fn library_names_carry_the_version() {
        let names = [
            "libcuda.so",
            "libcuda.so.1",
            "libcuda.so.580.95.05",
            "libnvidia-ml.so.580.95.05",
        ];
        let listing = |directory: &str, alternative| Listing {
            directory: directory.into(),
            names: names.map(str::to_owned).to_vec(),
            alternative,
        };
        let found = |directory: &str, alternative| {
            let file = Path::new(directory).join("libcuda.so.580.95.05");
            [Library {
                version: version("580.95.05"),
                file,
                alternative,
            }]
        };
        let current = listing("/usr/lib/x86_64-linux-gnu/nvidia/current", true);
        assert_eq!(
            library_versions(&[listing("/usr/lib64", false)], &[]),
            found("/usr/lib64", false)
        );
        assert_eq!(
            library_versions(std::slice::from_ref(&current), &[]),
            found("/usr/lib/x86_64-linux-gnu/nvidia/current", true)
        );
        assert_eq!(
            library_versions(&[listing("/usr/lib64", false), current], &[]),
            found("/usr/lib64", false)
        );
    }

    #[test]
    fn an_installers_log_names_its_version() {
        let log = "nvidia-installer log file '/var/log/nvidia-installer.log'\ncreation time: Fri Nov 20 10:00:00 2026\n\
                   installer version: 580.95.05\n\n-> There appears to already be a driver installed on your system \
                   (version: 535.104.05).\n";
        assert_eq!(logged_version(log), Some(version("580.95.05")));
        let index = "1.0-53510405 (535.104.05)\nNVIDIA Accelerated Graphics Driver for Linux-x86_64 (535.104.05)\n";
        assert_eq!(logged_version(index), Some(version("535.104.05")));
        assert_eq!(
            logged_version("-> Installing NVIDIA driver version 550.54.15.\n"),
            Some(version("550.54.15"))
        );
        assert_eq!(logged_version("creation time: 10.20\n"), None);
    }
}
