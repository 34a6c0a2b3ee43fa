//! The contents of the Debian archive: compilers, the C library, kernels and NVIDIA's drivers, from
//! the `Packages` indexes of its suites.

use crate::indexes::indexes;
use crate::{Comparison, Result, table};
use gpusetup_database::compat::{Database, Distribution, DriverOffer};
use gpusetup_database::version::DriverVersion;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

const TABLE: &str = "debian.tsv";

/// The suites of each release in the database. Testing and unstable have no version.
const RELEASES: [(&str, &[&str]); 4] = [
    ("11", &["bullseye"]),
    ("12", &["bookworm"]),
    ("13", &["trixie"]),
    ("*", &["forky", "sid"]),
];

/// Debian's architecture names, and the kernel's.
const ARCHITECTURES: [(&str, &str); 3] = [
    ("amd64", "x86_64"),
    ("arm64", "aarch64"),
    ("ppc64el", "ppc64le"),
];

/// A package in a suite.
struct Package {
    suite: String,
    name: String,
    version: String,
    architectures: Vec<String>,
}

/// Records the packages that the database has facts about, from the indexes in apt's folder.
pub fn record(lists: &Path, day: &str) -> Result<()> {
    let mut found: BTreeMap<[String; 4], BTreeSet<String>> = BTreeMap::new();
    let indexes = indexes(lists)?;
    for index in &indexes {
        for (package, version) in packages(&index.text()?) {
            let row = [&index.suite, package, version, &index.component].map(str::to_owned);
            found
                .entry(row)
                .or_default()
                .insert(index.architecture.clone());
        }
    }
    let rows: Vec<_> = found
        .into_iter()
        .map(|(row, architectures)| {
            let architectures = architectures.into_iter().collect::<Vec<_>>().join(" ");
            row.into_iter().chain([architectures]).collect()
        })
        .collect();
    let origin = format!(
        "{} Packages indexes of the Debian archive and its security archive, {day}",
        indexes.len()
    );
    table::write(
        TABLE,
        &origin,
        &["suite", "package", "version", "component", "architectures"],
        &rows,
    )
}

/// The names and versions of the relevant packages in an index.
fn packages(index: &str) -> impl Iterator<Item = (&str, &str)> {
    let mut name = "";
    index.lines().filter_map(move |line| {
        if let Some(package) = line.strip_prefix("Package: ") {
            name = package;
        }
        if KERNELS.contains(&name) && line.starts_with("Depends: ") {
            return kernel(line);
        }
        line.strip_prefix("Version: ")
            .filter(|_| is_of_interest(name))
            .map(|version| (name, version))
    })
}

/// The packages that always depend on the newest kernel.
const KERNELS: [&str; 3] = [
    "linux-image-amd64",
    "linux-image-arm64",
    "linux-image-powerpc64le",
];

/// The kernel's package and its version in `Depends: linux-image-6.1.0-56-amd64 (= 6.1.192-2)`.
fn kernel(depends: &str) -> Option<(&str, &str)> {
    let (package, version) = depends.strip_prefix("Depends: ")?.split_once(" (= ")?;
    package
        .starts_with(KERNEL)
        .then_some((package, version.split(')').next()?))
}

const KERNEL: &str = "linux-image-";

fn is_of_interest(package: &str) -> bool {
    let starts = |prefixes: &[&str]| prefixes.iter().any(|prefix| package.starts_with(prefix));
    let ends = |suffixes: &[&str]| suffixes.iter().any(|suffix| package.ends_with(suffix));
    [
        "libc6",
        "libxml2",
        "gcc",
        "nvidia-driver-full",
        "nvidia-modprobe",
    ]
    .contains(&package)
        || compiler(package).is_some()
        || starts(&["nvidia-"])
            && ends(&["-kernel-dkms", "-driver", "-smi"])
            && !package.contains("vdpau")
        || starts(&["libcuda", "libnvidia-"]) && ends(&["cuda1", "-ml1"])
        || package.contains("fabricmanager")
}

/// Splits `gcc-12` into `gcc` and 12.
fn compiler(package: &str) -> Option<(&str, u16)> {
    let (name, major) = package.split_once('-')?;
    Some((
        name,
        major
            .parse()
            .ok()
            .filter(|_| ["gcc", "g++"].contains(&name))?,
    ))
}

/// Compares the compilers, C libraries and drivers of each release.
pub fn check(database: &Database) -> Result<Comparison> {
    let mut packages = Vec::new();
    for row in table::read(TABLE)? {
        let [suite, name, version, _, architectures] = row.as_slice() else {
            return Err(format!("{TABLE}: {row:?}"));
        };
        packages.push(Package {
            suite: suite.clone(),
            name: name.clone(),
            version: version.clone(),
            architectures: architectures.split(' ').map(str::to_owned).collect(),
        });
    }
    let (mut facts, mut differences) = (0, Vec::new());
    for (version, suites) in RELEASES {
        let Some(release) = database
            .distributions
            .iter()
            .find(|d| d.id == "debian" && d.version == version)
        else {
            differences.push(format!("the database has no Debian {version}"));
            continue;
        };
        // A suite includes its updates and security fixes.
        let is_part = |p: &&Package, suite: &str| {
            p.suite
                .strip_prefix(suite)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
        };
        for suite in suites {
            let here: Vec<_> = packages.iter().filter(|p| is_part(p, suite)).collect();
            facts += tools(release, suite, &here, &mut differences);
        }
        let here: Vec<_> = packages
            .iter()
            .filter(|p| suites.iter().any(|suite| is_part(p, suite)))
            .collect();
        facts += drivers(release, &here, &mut differences);
        facts += kernels(release, &here, &mut differences);
    }
    Ok(Comparison {
        what: "Packages of Debian",
        facts,
        differences,
    })
}

/// Compares the C library, the default gcc and the other versions; returns the number of facts. The
/// record for unknown releases lists the compilers common to all of them.
fn tools(
    release: &Distribution,
    suite: &str,
    packages: &[&Package],
    differences: &mut Vec<String>,
) -> usize {
    let mut differs = |what: &str, archive: String, database: String| {
        if archive != database {
            differences.push(format!(
                "{suite}: {what} {archive}; the database has {database}"
            ));
        }
    };
    let version = |name: &str| {
        packages
            .iter()
            .find(|p| p.name == name)
            .map_or("", |p| p.version.as_str())
    };
    let mut facts = 0;
    if let Some(glibc) = &release.glibc {
        facts += 1;
        differs(
            "glibc",
            version("libc6")
                .split('-')
                .next()
                .unwrap_or_default()
                .to_owned(),
            glibc.clone(),
        );
    }
    if let Some(gcc) = release.gcc {
        facts += 1;
        differs(
            "gcc",
            upstream(version("gcc"))
                .split('.')
                .next()
                .unwrap_or_default()
                .to_owned(),
            gcc.to_string(),
        );
    }
    // For unknown releases the database states what all of them have in common.
    let has_libxml2 = packages.iter().any(|p| p.name == "libxml2");
    if release.named_as.is_none() || !has_libxml2 {
        facts += 1;
        let libxml2 = |has: bool| if has { "libxml2" } else { "no libxml2.so.2" }.to_owned();
        differs("", libxml2(has_libxml2), libxml2(release.libxml2.is_some()));
    }
    let majors = |kind: &str| -> BTreeSet<u16> {
        packages
            .iter()
            .filter_map(|p| compiler(&p.name))
            .filter(|(name, _)| *name == kind)
            .map(|(_, n)| n)
            .collect()
    };
    let both: Vec<_> = majors("gcc")
        .intersection(&majors("g++"))
        .copied()
        .collect();
    let theirs: Vec<_> = match release.named_as {
        None => both,
        Some(_) => release
            .gccs
            .iter()
            .copied()
            .filter(|major| both.contains(major))
            .collect(),
    };
    differs(
        "gcc with g++",
        format!("{theirs:?}"),
        format!("{:?}", release.gccs),
    );
    facts + theirs.len()
}

/// Compares the kernels of a new installation, which has the security archive's; returns the number
/// of facts.
fn kernels(release: &Distribution, packages: &[&Package], differences: &mut Vec<String>) -> usize {
    let Some(stock) = &release.stock else {
        return 0;
    };
    for (arch, ours) in &stock.kernels {
        let debians = ARCHITECTURES
            .iter()
            .find(|(_, kernels)| kernels == arch)
            .map_or(arch.as_str(), |(d, _)| d);
        let is_its = |p: &&&Package| {
            p.suite.ends_with("-security") && p.architectures.iter().any(|a| a == debians)
        };
        let theirs = packages
            .iter()
            .filter(is_its)
            .find_map(|p| p.name.strip_prefix(KERNEL));
        if theirs != Some(ours) {
            let theirs = theirs.unwrap_or("no kernel");
            differences.push(format!(
                "{}: {theirs} for {debians}; the database has {ours}",
                release.name
            ));
        }
    }
    stock.kernels.len()
}

/// Compares the offered drivers; returns the number of facts.
fn drivers(release: &Distribution, packages: &[&Package], differences: &mut Vec<String>) -> usize {
    let mut facts = 0;
    for (debians, kernels) in ARCHITECTURES {
        let here: Vec<_> = packages
            .iter()
            .filter(|p| p.architectures.iter().any(|a| a == debians))
            .collect();
        let newest = |name: &str| {
            here.iter()
                .filter(|p| p.name == name)
                .filter_map(|p| driver(&p.version))
                .max()
        };
        let offers: Vec<_> = of_debian(release)
            .filter(|o| o.archs.iter().any(|a| a == kernels))
            .collect();
        for offer in &offers {
            let DriverOffer {
                packages,
                desktop_packages,
                ..
            } = offer;
            for package in packages.iter().chain(desktop_packages) {
                facts += 1;
                match newest(package) {
                    None => {
                        differences.push(format!("{}: no {package} for {debians}", release.name))
                    }
                    // NVIDIA's tool that creates device files accompanies every driver.
                    Some(_) if package == "nvidia-modprobe" => {}
                    Some(have)
                        if offer.version.is_some_and(|ours| ours != have)
                            || have.branch != offer.branch =>
                    {
                        let ours = offer
                            .version
                            .map_or_else(|| offer.branch.to_string(), |v| v.to_string());
                        let name = &release.name;
                        differences.push(format!(
                            "{name}: {package} {have} for {debians}; the database has {ours}"
                        ));
                    }
                    Some(_) => {}
                }
            }
        }
        let modules: BTreeSet<_> = here
            .iter()
            .map(|p| &p.name)
            .filter(|name| name.ends_with("-kernel-dkms"))
            .collect();
        for package in modules {
            facts += 1;
            if !offers.iter().any(|o| o.packages.contains(package))
                && !IS_OLDER.contains(&package.as_str())
            {
                differences.push(format!(
                    "{}: {package} for {debians} is not offered",
                    release.name
                ));
            }
        }
    }
    facts
}

/// The drivers in Debian's own archive: the table has no others.
fn of_debian(release: &Distribution) -> impl Iterator<Item = &DriverOffer> {
    release
        .drivers
        .iter()
        .filter(|offer| offer.repository.adds.is_none())
}

/// Modules that match no libcuda in the suite, because they did not follow its security fixes.
const IS_OLDER: &[&str] = &["nvidia-open-kernel-dkms"];

fn driver(version: &str) -> Option<DriverVersion> {
    upstream(version).parse().ok()
}

/// A package's version without its epoch and Debian's suffix: 12.2.0 for `4:12.2.0-3`.
fn upstream(version: &str) -> &str {
    let version = version
        .split_once(':')
        .map_or(version, |(_, version)| version);
    version
        .rsplit_once('-')
        .map_or(version, |(upstream, _)| upstream)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_gives_the_packages_of_interest() {
        let index = "Package: gcc-12\nArchitecture: amd64\nVersion: 12.2.0-14\n\nPackage: bash\nVersion: 5.2\n\n\
                     Package: nvidia-tesla-470-kernel-dkms\nVersion: 470.256.02-1~deb12u1\n\n\
                     Package: nvidia-vdpau-driver\nVersion: 535.261.03-1\n\nPackage: linux-image-amd64\n\
                     Version: 6.1.192-2\nDepends: linux-image-6.1.0-56-amd64 (= 6.1.192-2)\n";
        let found: Vec<_> = packages(index).collect();
        let kernel = ("linux-image-6.1.0-56-amd64", "6.1.192-2");
        assert_eq!(
            found,
            [
                ("gcc-12", "12.2.0-14"),
                ("nvidia-tesla-470-kernel-dkms", "470.256.02-1~deb12u1"),
                kernel
            ]
        );
    }

    #[test]
    fn the_upstream_version_is_between_epoch_and_revision() {
        assert_eq!(upstream("4:12.2.0-3"), "12.2.0");
        assert_eq!(upstream("535.309.01-0+deb12u1"), "535.309.01");
        assert_eq!(upstream("2.31"), "2.31");
    }
}
