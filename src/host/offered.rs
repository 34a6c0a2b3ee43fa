//! What the host's repositories offer of the driver packages that the database knows, asked of its package manager, by
//! what it has already fetched: nothing is downloaded. The database's word stands where it cannot say.

use super::Facts;
use crate::compat::{Database, PackageManager};
use crate::system::{Program, System};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(30);

/// In every distribution that rpm serves: where its repositories are known at all, this is.
const ALWAYS_THERE: &str = "glibc";

/// Versions of packages, by their names.
pub type Versions = BTreeMap<String, String>;

/// Driver packages by name, each with the version that would be installed: the locked one, where it can still be had. None
/// where the package manager cannot be asked: a tree that is not ours to enter, lists that were never fetched or are older
/// than the list of repositories.
pub fn offered(system: &System, facts: &Facts, database: &Database, locked: &Versions) -> Option<Versions> {
    let distribution = database.distribution(&facts.os.id, &facts.os.version, &facts.os.like)?;
    let packages: BTreeSet<&str> = distribution.drivers.iter().flat_map(|o| &o.packages).map(String::as_str).collect();
    if packages.is_empty() {
        return None;
    }
    versions(system, facts.os.package_manager?, packages, locked)
}

/// The same of any packages.
pub fn versions(
    system: &System,
    manager: PackageManager,
    packages: BTreeSet<&str>,
    locked: &Versions,
) -> Option<Versions> {
    if !system.is_live() && !rustix::process::geteuid().is_root() {
        return None;
    }
    match manager {
        PackageManager::Apt => apt(system, &packages, locked),
        PackageManager::Dnf => dnf(system, packages, locked),
        PackageManager::Zypper => zypper(system, packages, locked),
    }
}

/// The same of packages that are at hand, by names and versions; none where there are none of this system.
pub fn offered_by(offers: Option<&Versions>, facts: &Facts, database: &Database) -> Option<Versions> {
    let distribution = database.distribution(&facts.os.id, &facts.os.version, &facts.os.like)?;
    let packages: BTreeSet<&str> = distribution.drivers.iter().flat_map(|o| &o.packages).map(String::as_str).collect();
    let known = offers?.iter().filter(|(name, _)| packages.contains(name.as_str()));
    Some(known.map(|(name, version)| (name.clone(), version.clone())).collect())
}

fn asked<'a>(system: &System, argv: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let output = system.run(&Program::new(argv).env("HOME", "/nonexistent").limit(LIMIT)).ok()?;
    output.succeeded().then_some(output.text)
}

fn apt(system: &System, packages: &BTreeSet<&str>, locked: &Versions) -> Option<Versions> {
    const LISTS: &str = "/var/lib/apt/lists";
    const CACHE: &str = "/var/cache/apt/pkgcache.bin";
    let fetched = system.list(LISTS).ok()?.iter().any(|name| name.contains("_Packages"));
    let sources = ["/etc/apt/sources.list", "/etc/apt/sources.list.d"].map(Path::new);
    let in_folder = system.list(sources[1]).unwrap_or_default().into_iter().map(|name| sources[1].join(name));
    let changed = sources.iter().map(|p| p.to_path_buf()).chain(in_folder).filter_map(|p| system.modified(p)).max();
    if !fetched || system.modified(LISTS) < changed {
        return None;
    }
    let mut argv = vec!["apt-cache"];
    if !system.exists(CACHE) {
        // It would write one, and looking changes nothing.
        argv.extend(["-o", "Dir::Cache::pkgcache=", "-o", "Dir::Cache::srcpkgcache="]);
    }
    argv.push("policy");
    argv.extend(packages);
    Some(policy(&asked(system, argv)?, locked))
}

/// `apt-cache policy`: a package's name at the margin, `Candidate:` below it, then all versions, each with its priority.
fn policy(text: &str, locked: &Versions) -> Versions {
    let (mut found, mut package) = (BTreeMap::new(), "");
    for line in text.lines() {
        let mut words = line.split_whitespace().filter(|w| *w != "***");
        if let Some(name) = line.strip_suffix(':').filter(|n| !n.starts_with(' ')) {
            package = name;
        } else if words.next().is_some_and(|w| locked.get(package).is_some_and(|l| l == w))
            && words.next().is_some_and(|w| w.parse::<i32>().is_ok())
        {
            found.insert(package.to_owned(), locked[package].clone());
        } else if let Some(version) = line.trim_start().strip_prefix("Candidate: ").filter(|v| *v != "(none)") {
            found.insert(package.to_owned(), version.to_owned());
        }
    }
    found
}

fn dnf(system: &System, mut packages: BTreeSet<&str>, locked: &Versions) -> Option<Versions> {
    const ARGV: [&str; 5] = ["dnf", "-q", "-C", "repoquery", "--available"];
    const FORM: [&str; 2] = ["--qf", "%{name} %{evr}\n"];
    let read = |text: String| -> Versions {
        text.lines().filter_map(|l| l.split_once(' ')).map(|(name, v)| (name.to_owned(), v.to_owned())).collect()
    };
    let kept: Vec<_> = packages.iter().filter_map(|p| Some(format!("{p}-{}", locked.get(*p)?))).collect();
    packages.insert(ALWAYS_THERE);
    let mut found = read(asked(system, ARGV.into_iter().chain(["--latest-limit", "1"]).chain(FORM).chain(packages))?);
    if !kept.is_empty() {
        found.extend(read(asked(system, ARGV.into_iter().chain(FORM).chain(kept.iter().map(String::as_str)))?));
    }
    without_the_known(found)
}

fn zypper(system: &System, mut packages: BTreeSet<&str>, locked: &Versions) -> Option<Versions> {
    packages.insert(ALWAYS_THERE);
    let argv = ["zypper", "--non-interactive", "--no-refresh", "--xmlout", "search", "--match-exact", "--details"];
    let text = asked(system, argv.into_iter().chain(["--type", "package"]).chain(packages))?;
    without_the_known(solvables(&text, locked))
}

/// zypper's answer: an element a package and version, the newest first.
fn solvables(text: &str, locked: &Versions) -> Versions {
    let mut found = BTreeMap::new();
    for line in text.lines().filter(|l| l.trim_start().starts_with("<solvable ")) {
        let attribute = |key: &str| line.split_once(&format!(" {key}=\"")).and_then(|(_, r)| r.split('"').next());
        // What is installed and in no repository cannot be had from one.
        if let (Some(name), Some(version)) = (attribute("name"), attribute("edition"))
            && attribute("repository") != Some("(System Packages)")
        {
            let first = found.entry(name.to_owned()).or_insert_with(|| version.to_owned());
            if locked.get(name).is_some_and(|l| l == version) {
                *first = version.to_owned();
            }
        }
    }
    found
}

/// No answer at all looks like "nothing is offered": what every repository has tells the two apart.
fn without_the_known(mut found: Versions) -> Option<Versions> {
    found.remove(ALWAYS_THERE).map(|_| found)
}

/// For fuzzing.
#[cfg(fuzzing)]
pub fn read_anything(text: &str) {
    let locked = Versions::from([(text.to_owned(), text.to_owned())]);
    let _ = (policy(text, &locked), solvables(text, &locked));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read() {
        // Of apt 2.6, of zypper 1.14 asked for packages made for this.
        let text = "nvidia-smi:\n  Installed: (none)\n  Candidate: 535.309.01-1~deb12u1\n  Version table:\n     \
                    535.309.01-1~deb12u1 500\n        500 http://archive.example/debian bookworm/non-free amd64 Packages\n\
                    libcuda1:\n  Installed: (none)\n  Candidate: (none)\n  Version table:\n";
        let smi = |version: &str| Versions::from([("nvidia-smi".to_owned(), version.to_owned())]);
        assert_eq!(policy(text, &Versions::new()), smi("535.309.01-1~deb12u1"));
        let older = text.replace("Version table:\n", "Version table:\n *** 535.261.03-1 100\n");
        assert_eq!(policy(&older, &smi("535.261.03-1")), smi("535.261.03-1"));
        assert_eq!(policy(&older, &smi("535.216.01-1")), smi("535.309.01-1~deb12u1"), "it can no longer be had");
        let text = "<solvable-list>\n\
             <solvable status=\"not-installed\" name=\"a\" kind=\"package\" edition=\"3:580.105.08-2.el9\" arch=\"noarch\" repository=\"nv\"/>\n\
             <solvable status=\"not-installed\" name=\"a\" kind=\"package\" edition=\"3:580.95.05-1.el9\" arch=\"noarch\" repository=\"nv\"/>\n\
             <solvable status=\"installed\" name=\"b\" kind=\"package\" edition=\"1-1\" arch=\"noarch\" repository=\"(System Packages)\"/>\n";
        let a = |version: &str| Versions::from([("a".to_owned(), version.to_owned())]);
        assert_eq!(solvables(text, &Versions::new()), a("3:580.105.08-2.el9"));
        assert_eq!(solvables(text, &a("3:580.95.05-1.el9")), a("3:580.95.05-1.el9"));
        assert_eq!(without_the_known(BTreeMap::new()), None);
    }
}
