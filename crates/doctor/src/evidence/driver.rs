//! Evidence about the driver that is read from other programs' files and output.

use super::{Answer, OF_A_TREE, ask, module, names, text};
use gpusetup_database::compat::{Companion, CompanionId, Database, Distribution, PackageManager};
use gpusetup_database::version::DriverVersion;
use gpusetup_host::{Facts, SecureBoot, signed_drivers};
use gpusetup_operation::packages;
use gpusetup_packages::{Versions, offered_versions, upstream};
use gpusetup_resolve::NvSwitchHost;
use gpusetup_system::System;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Fabric Manager on the host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct FabricManager {
    /// The version of Fabric Manager.
    pub(crate) version: DriverVersion,
    /// Its unit is active. None if systemd does not run.
    pub(crate) active: Option<bool>,
    /// The end of its unit's log since the last boot, if it is not active.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) log: Vec<String>,
}

/// The signer of the nvidia module of the kernel that boots next, if Secure Boot is on.
pub(crate) fn signer(system: &System, facts: &Facts) -> Answer<Option<String>> {
    if facts.secure_boot != SecureBoot::Enabled {
        return Answer::NotAsked("the firmware does not require signatures".to_owned());
    }
    let Some(kernel) = facts.kernel() else {
        return Answer::NotAsked("no kernel is known".to_owned());
    };
    let Some(path) = module::file(system, kernel) else {
        return Answer::NotAsked("there is no nvidia module".to_owned());
    };
    match module::signer(system, &path) {
        Ok(signer) => Answer::Is(signer),
        Err(e) => Answer::NotAsked(format!("{} could not be read: {e}", path.display())),
    }
}

/// Whether the driver's module for this kernel was installed before the last boot. Read only if
/// another module is loaded.
pub(crate) fn module_before_boot(system: &System, facts: &Facts) -> Option<bool> {
    let (kernel, driver) = (facts.kernels.running.as_deref()?, facts.driver.as_ref()?);
    let loaded = facts
        .loaded_modules
        .as_ref()?
        .iter()
        .find(|m| m.name == "nvidia")?
        .version
        .as_deref()?;
    if loaded == driver.version.to_string() {
        return None;
    }
    let statistics = text(system, "/proc/stat");
    let booted: i64 = statistics
        .lines()
        .find_map(|l| l.strip_prefix("btime "))?
        .trim()
        .parse()
        .ok()?;
    let path = module::file(system, kernel)?;
    Some(system.changed(path)? < booted)
}

/// Whether the key that signed the module is enrolled: one of this host's own keys, whose
/// certificate contains the signer's name, or one in the firmware's lists. None if it is neither:
/// the kernel has keys of its distribution, too.
pub(crate) fn key_is_enrolled(
    system: &System,
    facts: &Facts,
    signer: &Answer<Option<String>>,
) -> Option<bool> {
    let Answer::Is(Some(signer)) = signer else {
        return None;
    };
    let own: Vec<_> = facts
        .signing_keys
        .iter()
        .filter(|key| {
            let certificate = system.read(&key.path).unwrap_or_default();
            certificate
                .windows(signer.len().max(1))
                .any(|part| part == signer.as_bytes())
        })
        .collect();
    let is_trusted = facts
        .firmware
        .iter()
        .flat_map(|firmware| &firmware.trusted)
        .any(|one| one.name == *signer);
    match own.is_empty() {
        true => is_trusted.then_some(true),
        false => Some(own.iter().any(|key| key.enrolled)),
    }
}

/// Whether heterogeneous memory (HMM) is disabled in nvidia-uvm. None if the module is not loaded.
pub(crate) fn hmm_disabled(system: &System) -> Option<bool> {
    let path = "/sys/module/nvidia_uvm/parameters/uvm_disable_hmm";
    // The kernel writes Y for true.
    system
        .read_text(path)
        .ok()
        .flatten()
        .map(|value| matches!(value.trim(), "Y" | "1"))
}

/// Read only on hosts with NVSwitches.
pub(crate) fn fabric_manager(
    system: &System,
    facts: &Facts,
    database: &Database,
) -> Answer<FabricManager> {
    const PROGRAM: &str = "/usr/bin/nv-fabricmanager";
    if !NvSwitchHost::of(database, facts)
        .as_ref()
        .is_some_and(|joined| joined.fabric.needs.contains(&CompanionId::FABRIC_MANAGER))
    {
        return Answer::NotAsked("there is no NVSwitch".to_owned());
    }
    if !system.exists(PROGRAM) {
        return Answer::Failed("it is not installed".to_owned());
    }
    let Some(companion) = database.companion(CompanionId::FABRIC_MANAGER) else {
        return Answer::NotAsked("Fabric Manager is not in the database".to_owned());
    };
    if !system.is_live() {
        return fabric_package(system, facts, companion);
    }
    let version = match ask(system, [PROGRAM, "--version"], Duration::from_secs(10)) {
        // "Fabric Manager version is : 535.183.01"
        Answer::Is(text) => text
            .split_whitespace()
            .find_map(|word| word.parse::<DriverVersion>().ok()),
        Answer::Failed(why) => return Answer::Failed(why),
        Answer::NotAsked(why) => return Answer::NotAsked(why),
    };
    let Some(version) = version else {
        return Answer::Failed("it does not report its version".to_owned());
    };
    let active = companion.units.iter().all(|unit| {
        matches!(
            ask(
                system,
                ["systemctl", "is-active", unit.as_str()],
                Duration::from_secs(10)
            ),
            Answer::Is(_)
        )
    });
    let log = if active {
        Vec::new()
    } else {
        companion
            .units
            .iter()
            .flat_map(|unit| end_of_log(system, unit))
            .collect()
    };
    Answer::Is(FabricManager {
        version,
        active: Some(active),
        log,
    })
}

/// The last lines that a unit logged since the last boot, without times and host names.
pub(crate) fn end_of_log(system: &System, unit: &str) -> Vec<String> {
    let argv = [
        "journalctl",
        "--boot",
        "--lines=20",
        "--output=cat",
        "--no-pager",
        "--unit",
        unit,
    ];
    match ask(system, argv, Duration::from_secs(10)) {
        Answer::Is(text) => text
            .lines()
            .map(|line| line.trim().to_owned())
            .filter(|line| !line.is_empty())
            .collect(),
        Answer::Failed(_) | Answer::NotAsked(_) => Vec::new(),
    }
}

/// Fabric Manager in a tree, by dpkg's record: `nvidia-fabricmanager-535`, or a name without the
/// branch.
fn fabric_package(system: &System, facts: &Facts, companion: &Companion) -> Answer<FabricManager> {
    let installed = installed(system, facts.os.package_manager);
    installed
        .iter()
        .find_map(|(name, version)| {
            let version = companion
                .is_package(name)
                .then(|| upstream(version).parse().ok())?;
            version.map(|version| FabricManager {
                version,
                active: None,
                log: Vec::new(),
            })
        })
        .map_or_else(|| Answer::NotAsked(OF_A_TREE.to_owned()), Answer::Is)
}

/// The source trees of the driver's modules in DKMS, with their versions.
pub(crate) fn dkms(system: &System) -> BTreeMap<String, Vec<String>> {
    // GPUDirect's modules, for storage and networks, are separate from the driver's.
    let trees = names(system, "/var/lib/dkms").filter(|tree| {
        tree.starts_with("nvidia") && !["nvidia-fs", "nvidia-peer-memory"].contains(&&**tree)
    });
    // Next to the versions are links to their builds, `kernel-6.1.0-25-amd64-x86_64`.
    trees
        .map(|tree| {
            let versions = names(system, Path::new("/var/lib/dkms").join(&tree))
                .filter(|n| n.starts_with(|c: char| c.is_ascii_digit()))
                .collect();
            (tree, versions)
        })
        .collect()
}

/// A failed DKMS build.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
#[serde(deny_unknown_fields)]
pub struct FailedBuild {
    /// The line of its log that names the error.
    pub(crate) why: String,
    /// The source does not compile or link for this kernel: another attempt would fail too.
    pub(crate) is_final: bool,
}

/// The last failed DKMS build, by kernel. DKMS keeps the log of a failed build in the build
/// directory, and that of a successful one next to the modules.
pub(crate) fn failed_builds(
    system: &System,
    trees: &BTreeMap<String, Vec<String>>,
) -> BTreeMap<String, FailedBuild> {
    let all = trees
        .iter()
        .flat_map(|(tree, versions)| versions.iter().map(move |version| (tree, version)));
    all.filter_map(|(tree, version)| {
        failed_build(&text(
            system,
            format!("/var/lib/dkms/{tree}/{version}/build/make.log"),
        ))
    })
    .collect()
}

/// `DKMS make.log for nvidia-535.309.01 for kernel 6.1.0-25-amd64 (x86_64)` stands first.
fn failed_build(log: &str) -> Option<(String, FailedBuild)> {
    let kernel = log
        .lines()
        .next()?
        .split_once(" for kernel ")?
        .1
        .split(' ')
        .next()?;
    // Errors of the compiler are "nv.c:12:3: error: ..."; an error without a place in a file comes
    // from the tools.
    let is_final = log.lines().find(|l| {
        let place = l.split_once(": error: ").map(|(place, _)| place);
        let numbers = place.map(|p| {
            p.rsplit(':')
                .take_while(|n| n.parse::<u32>().is_ok())
                .count()
        });
        numbers.is_some_and(|n| n > 0) || l.starts_with("ERROR: modpost:")
    });
    let why = is_final
        .or_else(|| {
            log.lines().find(|l| {
                l.contains("*** Failed") || l.contains(": not found") || l.contains(" error: ")
            })
        })?
        .trim()
        .to_owned();
    Some((
        kernel.to_owned(),
        FailedBuild {
            why,
            is_final: is_final.is_some(),
        },
    ))
}

/// All installed packages, if the record can be read without running a program of a tree (rpm's
/// cannot).
fn installed(system: &System, manager: Option<PackageManager>) -> BTreeMap<String, String> {
    let Some(manager) = manager else {
        return BTreeMap::new();
    };
    match &gpusetup_packages::of(manager).record_file {
        Some(record) => record.installed(system).unwrap_or_default(),
        None if system.is_live() => packages::installed(system, manager).unwrap_or_default(),
        None => BTreeMap::new(),
    }
}

/// The distribution's packages of the installed driver that are not installed. Only if the driver
/// is from those packages: packages of different repositories would overwrite each other.
pub(crate) fn missing_packages(
    system: &System,
    facts: &Facts,
    distribution: Option<&Distribution>,
) -> Vec<String> {
    let (Some(driver), Some(distribution)) = (&facts.driver, distribution) else {
        return Vec::new();
    };
    let installed = installed(system, Some(distribution.package_manager));

    // Offers may share packages: with modules that DKMS builds, and with signed ones.
    distribution
        .drivers
        .iter()
        .filter(|offer| {
            offer.branch == driver.version.branch
                && driver.modules.is_none_or(|m| m == offer.modules)
                && offer.packages.iter().any(|p| installed.contains_key(p))
        })
        .map(|offer| -> Vec<String> {
            // A host with a package for desktops only has those instead of the others.
            let mut for_desktops = offer.desktop_packages.iter();
            let draws =
                for_desktops.any(|p| !offer.packages.contains(p) && installed.contains_key(p));
            offer
                .packages_for(draws)
                .iter()
                .filter(|p| !installed.contains_key(*p))
                .cloned()
                .collect()
        })
        .min_by_key(Vec::len)
        .unwrap_or_default()
}

/// Modules of the installed driver that the distribution signs for the kernel that boots next.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct SignedModules {
    /// Their package, which the host's repositories have.
    pub(crate) package: String,
    /// The installed package with the modules that DKMS builds.
    pub(crate) replaces: Option<String>,
}

/// The distribution's signed modules that would replace those on the host. Only with Secure Boot
/// on, and while the driver is not loaded.
pub(crate) fn signed_modules(
    system: &System,
    facts: &Facts,
    distribution: Option<&Distribution>,
) -> Option<SignedModules> {
    let (distribution, driver, release) = (distribution?, facts.driver.as_ref()?, facts.kernel()?);
    if facts.secure_boot != SecureBoot::Enabled || facts.driver_is_loaded() == Some(true) {
        return None;
    }
    let manager = distribution.package_manager;
    let installed = installed(system, Some(manager));
    let offer = distribution
        .drivers
        .iter()
        .filter(|offer| !offer.signed_modules.is_empty())
        .find(|offer| {
            (offer.branch, Some(offer.modules)) == (driver.version.branch, driver.modules)
                && offer
                    .packages
                    .iter()
                    .any(|name| installed.contains_key(name))
        })?;
    let names = distribution.signed_modules_of(offer, release, &facts.machine.arch);
    let wanted = names.iter().map(String::as_str).collect();
    let listed = offered_versions(system, manager, &wanted, &Versions::new()).ok()?;
    let drivers = signed_drivers(system, manager, &listed);
    let facts = Facts {
        offered: Some(listed),
        signed_drivers: drivers,
        ..facts.clone()
    };
    let package =
        gpusetup_resolve::signed_modules(Some(distribution), offer, &facts, driver.version)?;
    let package = Some(package).filter(|name| !installed.contains_key(name))?;
    Some(SignedModules {
        package,
        replaces: offer
            .dkms
            .clone()
            .filter(|name| installed.contains_key(name)),
    })
}

/// Headers without a link from their kernel.
pub(crate) fn unlinked_headers(system: &System, facts: &Facts) -> BTreeMap<String, PathBuf> {
    // If the link leads to them, the link is not the problem.
    let without = facts.kernels.installed.iter().filter(|kernel| {
        let linked = Path::new("/lib/modules").join(&kernel.release);
        !kernel.headers && !system.exists(linked.join("build/Makefile"))
    });
    let found = without.filter_map(|kernel| {
        let release = &kernel.release;
        let places = [
            format!("/usr/src/linux-headers-{release}"),
            format!("/usr/src/kernels/{release}"),
        ];
        let place = places
            .into_iter()
            .find(|p| system.exists(Path::new(p).join("Makefile")))?;
        Some((release.clone(), PathBuf::from(place)))
    });
    found.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_build_says_why() {
        let of = |lines: &str| {
            let log = format!(
                "DKMS make.log for nvidia-550.54.15 for kernel 6.17.0-5-generic (x86_64)\nFri 1\n{lines}\n"
            );
            failed_build(&log).map(|(kernel, failed)| (kernel, failed.is_final, failed.why))
        };
        let kernel = || "6.17.0-5-generic".to_owned();
        let source =
            "/var/lib/dkms/nvidia/550.54.15/build/nvidia/nv.c:7:2: error: too few arguments";
        assert_eq!(
            of(&format!("  CC x.o\n{source}\nmake: *** [x] Error 2")),
            Some((kernel(), true, source.into()))
        );
        let linked = "ERROR: modpost: GPL-incompatible module nvidia.ko uses GPL-only symbol 'x'";
        assert_eq!(of(linked), Some((kernel(), true, linked.into())));
        let tools = "/bin/sh: 1: gcc-14: not found";
        assert_eq!(of(tools), Some((kernel(), false, tools.into())));
        let option = "gcc: error: unrecognized command-line option '-fx'";
        assert_eq!(of(option), Some((kernel(), false, option.into())));
        assert_eq!(of("all well"), None);
        assert_eq!(failed_build(""), None);
    }
}
