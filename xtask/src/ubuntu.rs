//! NVIDIA's drivers in the Ubuntu archive, from the `Packages` indexes of its suites. Packages of an
//! old branch can be empty ones that depend on a newer branch: they are recorded as what they lead
//! to.

use crate::indexes::indexes;
use crate::{Comparison, Result, table};
use gpusetup_database::compat::{Database, Distribution, DriverOffer, ModuleFlavour};
use std::collections::BTreeMap;
use std::path::Path;

const TABLE: &str = "ubuntu.tsv";

/// The suites of each release in the database.
const RELEASES: [(&str, &str); 5] = [
    ("18.04", "bionic"),
    ("20.04", "focal"),
    ("22.04", "jammy"),
    ("24.04", "noble"),
    ("26.04", "resolute"),
];

/// The package of a branch without a desktop, as its indexes have it.
struct Package<'i> {
    name: &'i str,
    version: &'i str,
    depends: &'i str,
}

/// Records the drivers in the amd64 indexes of a folder.
pub fn record(lists: &Path, day: &str) -> Result<()> {
    let mut found: BTreeMap<[String; 2], [String; 3]> = BTreeMap::new();
    let indexes = indexes(lists)?;
    for index in indexes.iter().filter(|index| index.architecture == "amd64") {
        let release = index.suite.split('-').next().unwrap_or(&index.suite);
        for package in packages(&index.text()?) {
            let row = [package.version, &index.component, leads_to(&package)].map(str::to_owned);
            let place = [release, package.name].map(str::to_owned);
            // Updates come after what they update.
            let newest = found.entry(place).or_insert_with(|| row.clone());
            if numbers(&newest[0]) < numbers(&row[0]) {
                *newest = row;
            }
        }
    }
    let rows: Vec<_> = found
        .into_iter()
        .map(|(place, row)| place.into_iter().chain(row).collect())
        .collect();
    let origin = format!(
        "Packages indexes (restricted and multiverse, with updates and security fixes, amd64) of the Ubuntu archive, {day}"
    );
    let columns = ["suite", "package", "version", "component", "leads to"];
    table::write(TABLE, &origin, &columns, &rows)
}

/// The driver packages in an index.
fn packages(index: &str) -> impl Iterator<Item = Package<'_>> {
    index.split("\n\n").filter_map(|record| {
        let field = |name: &str| {
            record
                .lines()
                .find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
        };
        let name = field("Package").filter(|name| variant(name).is_some())?;
        Some(Package {
            name,
            version: field("Version")?,
            depends: field("Depends").unwrap_or_default(),
        })
    })
}

/// The branch, whether it is for servers, and the flavour of `nvidia-headless-580-server-open`.
fn variant(package: &str) -> Option<(u16, bool, ModuleFlavour)> {
    let rest = package.strip_prefix("nvidia-headless-")?;
    let (rest, modules) = match rest.strip_suffix("-open") {
        Some(rest) => (rest, ModuleFlavour::Open),
        None => (rest, ModuleFlavour::Proprietary),
    };
    let (branch, for_servers) = match rest.strip_suffix("-server") {
        Some(branch) => (branch, true),
        None => (rest, false),
    };
    Some((branch.parse().ok()?, for_servers, modules))
}

/// The package that an empty package depends on; `-` for a package with a driver.
fn leads_to<'i>(package: &Package<'i>) -> &'i str {
    package
        .depends
        .split(", ")
        .map(|dependency| dependency.split(' ').next().unwrap_or(dependency))
        .find(|other| *other != package.name && variant(other).is_some())
        .unwrap_or("-")
}

/// The numbers of a version, in order.
fn numbers(version: &str) -> Vec<u32> {
    version
        .split(|c: char| !c.is_ascii_digit())
        .filter_map(|number| number.parse().ok())
        .collect()
}

/// Compares the branches, versions and components of each release.
pub fn check(database: &Database) -> Result<Comparison> {
    let rows = table::read(TABLE)?;
    let (mut facts, mut differences) = (0, Vec::new());
    for (version, suite) in RELEASES {
        let mut releases = database.distributions.iter();
        let Some(release) = releases.find(|d| d.id == "ubuntu" && d.version == version) else {
            differences.push(format!("the database has no Ubuntu {version}"));
            continue;
        };
        for row in rows.iter().filter(|row| row[0] == suite) {
            let [_, package, version, component, leads_to] = row.as_slice() else {
                return Err(format!("{TABLE}: {row:?}"));
            };
            facts += 1;
            let offer = offer_of(release, package);
            let is_driver = leads_to == "-";
            if offer.is_some() != is_driver {
                differences.push(format!("{suite}: {package} {version} leads to {leads_to}"));
            }
            differences.extend(
                offer
                    .and_then(|offer| differs(offer, version, component))
                    .map(|what| format!("{suite}: {package}: {what}")),
            );
        }
    }
    Ok(Comparison {
        what: "Drivers of Ubuntu",
        facts,
        differences,
    })
}

/// What the database has of a package.
fn offer_of<'d>(release: &'d Distribution, package: &str) -> Option<&'d DriverOffer> {
    let mut own = release
        .drivers
        .iter()
        .filter(|offer| offer.repository.name.starts_with("Ubuntu"));
    own.find(|offer| offer.packages.iter().any(|name| name == package))
}

fn differs(offer: &DriverOffer, version: &str, component: &str) -> Option<String> {
    let upstream = version.split('-').next().unwrap_or(version);
    let expected = offer.version.map(|version| version.to_string());
    if expected
        .as_deref()
        .is_some_and(|expected| expected != upstream)
    {
        return Some(format!(
            "{} here, {upstream} there",
            expected.unwrap_or_default()
        ));
    }
    let here = offer
        .repository
        .name
        .split(' ')
        .next_back()
        .unwrap_or_default();
    (here != component).then(|| format!("{here} here, {component} there"))
}
