//! Chooses the version that apt would install: the candidate in `apt-cache policy`.

use super::origin::ReleaseOrigin;
use super::pins::{Condition, NEVER, Pin};
use super::stanza;
use super::version::compare;
use std::cmp::Ordering;

/// The relevant fields of a package in a list.
#[derive(Debug, Clone)]
pub(crate) struct Record {
    pub(crate) version: String,
    source: String,
    source_version: String,
    /// Distinguishes two builds of one version.
    build: String,
    size: String,
    sha256: String,
    /// Its dependencies, as the list writes them.
    pub(crate) depends: String,
    /// The index of its [`ReleaseOrigin`].
    pub(crate) origin: usize,
    /// Whether this version is installed.
    pub(crate) is_installed: bool,
}

impl Record {
    pub(crate) fn read(package: &str, stanza: &[u8], origin: usize, is_installed: bool) -> Self {
        let text = |name: &str| stanza::text(stanza, name).into_owned();
        let (version, source) = (text("Version"), text("Source"));
        let (source, source_version) = match source.split_once(' ') {
            Some((name, rest)) => (
                name.to_owned(),
                rest.trim().trim_matches(['(', ')']).to_owned(),
            ),
            None if source.is_empty() => (package.to_owned(), version.clone()),
            None => (source, version.clone()),
        };
        Self {
            version,
            source,
            source_version,
            build: build(stanza),
            size: text("Size"),
            sha256: text("SHA256"),
            depends: text("Depends"),
            origin,
            is_installed,
        }
    }

    /// Whether apt considers both the same package, and not two builds with the same version.
    fn is_same_as(&self, other: &Self) -> bool {
        let mut sums = [(&self.size, &other.size), (&self.sha256, &other.sha256)].into_iter();
        compare(&self.version, &other.version) == Ordering::Equal
            && self.build == other.build
            && sums.all(|(a, b)| a.is_empty() || b.is_empty() || a == b)
    }
}

/// The fields that apt compares, normalised because dpkg writes them differently than repositories.
fn build(stanza: &[u8]) -> String {
    let mut build = String::new();
    for name in [
        "Installed-Size",
        "Depends",
        "Pre-Depends",
        "Conflicts",
        "Breaks",
        "Replaces",
    ] {
        let text = stanza::text(stanza, name);
        let mut chars = text.chars().peekable();
        while let Some(c) = chars.next() {
            if c == '0' && chars.next_if_eq(&':').is_some() || c.is_whitespace() || c == '=' {
                continue;
            }
            build.push(c.to_ascii_lowercase());
        }
    }
    let multi_arch = stanza::text(stanza, "Multi-Arch");
    build
        + "\n"
        + Some(&*multi_arch)
            .filter(|text| *text != "no")
            .unwrap_or_default()
}

/// A version, and where it is available.
struct Version<'a> {
    record: &'a Record,
    origins: Vec<usize>,
    is_installed: bool,
}

/// The version that apt would install; none if it would install none.
pub(crate) fn candidate<'a>(
    package: &str,
    records: &'a [Record],
    origins: &[ReleaseOrigin],
    pins: &[Pin],
) -> Option<&'a str> {
    let versions = versions(records);
    let installed = versions
        .iter()
        .find(|v| v.is_installed)
        .map(|v| v.record.version.as_str());
    let mut best: (i32, Option<&str>) = (-1, None);
    for version in &versions {
        let priority = priority(package, version, origins, pins);
        let text = version.record.version.as_str();
        let is_older =
            || installed.is_some_and(|installed| compare(text, installed) == Ordering::Less);
        if priority == 0 || priority <= best.0 || priority < 1000 && is_older() {
            continue;
        }
        best = (priority, Some(text));
    }
    best.1
}

/// The versions, newest first.
fn versions(records: &[Record]) -> Vec<Version<'_>> {
    let mut versions: Vec<Version> = Vec::new();
    for record in records {
        let known = versions.iter_mut().find(|v| v.record.is_same_as(record));
        match known {
            Some(version) => {
                version.origins.push(record.origin);
                version.is_installed |= record.is_installed;
            }
            None => {
                let origins = vec![record.origin];
                versions.push(Version {
                    record,
                    origins,
                    is_installed: record.is_installed,
                });
            }
        }
    }
    versions.sort_by(|a, b| compare(&b.record.version, &a.record.version));
    versions
}

fn priority(package: &str, version: &Version, origins: &[ReleaseOrigin], pins: &[Pin]) -> i32 {
    let own = pins
        .iter()
        .find(|pin| pin.package.is_some() && pin_matches(pin, package, version, origins));
    let of_version = version.origins.iter().map(|at| &origins[*at]);
    if let Some(pin) = own
        && of_version
            .clone()
            .any(|origin| origin_priority(origin, pins) != NEVER)
    {
        return pin.priority;
    }
    of_version
        .map(|origin| match origin.is_status && !version.is_installed {
            true => -1,
            false => origin_priority(origin, pins),
        })
        .max()
        .unwrap_or(0)
}

fn pin_matches(pin: &Pin, package: &str, version: &Version, origins: &[ReleaseOrigin]) -> bool {
    let record = version.record;
    pin.package
        .as_ref()
        .is_some_and(|name| name.matches(package, &record.source))
        && match &pin.condition {
            Condition::Version(pattern) => pattern.matches(&record.version),
            Condition::SourceVersion(pattern) => pattern.matches(&record.source_version),
            condition => version
                .origins
                .iter()
                .any(|at| condition.matches_origin(&origins[*at])),
        }
}

/// The priority of a repository: that of the first general pin that matches it, otherwise its
/// default.
fn origin_priority(origin: &ReleaseOrigin, pins: &[Pin]) -> i32 {
    let mut general = pins
        .iter()
        .filter(|pin| pin.package.is_none() && pin.condition.matches_origin(origin));
    let first = general.next().map(|pin| pin.priority);
    if general.any(|pin| pin.priority == NEVER) {
        NEVER
    } else {
        first.unwrap_or(origin.priority)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_is_told_by_its_dependencies_and_not_by_how_dpkg_writes_them() {
        let record = |text: &str| Record::read("a", text.as_bytes(), 0, false);
        let archive =
            record("Package: a\nVersion: 1-1\nSize: 5\nDepends: b (>= 0:2), c\nSHA256: x\n");
        assert!(archive.is_same_as(&record("Package: a\nVersion: 1-1\nDepends: b (>=2),c\n")));
        assert!(archive.is_same_as(&record(
            "Package: a\nVersion: 0:1-1\nMulti-Arch: no\nDepends: B (>= 2), c\n"
        )));
        assert!(!archive.is_same_as(&record("Package: a\nVersion: 1-1\nDepends: b (>= 3), c\n")));
        assert!(!archive.is_same_as(&record(
            "Package: a\nVersion: 1-1\nSize: 6\nDepends: b (>= 2), c\n"
        )));
        assert!(!archive.is_same_as(&record("Package: a\nVersion: 1-2\nDepends: b (>= 2), c\n")));
        let of = |text: &str| (record(text).source, record(text).source_version);
        assert_eq!(
            of("Version: 1+b1\nSource: s (1)\n"),
            ("s".to_owned(), "1".to_owned())
        );
        assert_eq!(of("Version: 1\n"), ("a".to_owned(), "1".to_owned()));
    }
}
