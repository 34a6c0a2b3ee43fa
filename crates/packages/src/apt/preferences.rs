//! A preferences file that makes apt install certain versions in one transaction.

use crate::Versions;
use crate::abilities::Preferences;
use std::collections::BTreeSet;

/// Preferences of apt.
pub(crate) const PREFERENCES: Preferences = Preferences {
    own: "/etc/apt/preferences",
    options: |file| vec!["-o".to_owned(), format!("Dir::Etc::preferences={file}")],
    text,
    show: "apt-cache show",
    shown,
};

/// Above the default priority of any repository, and below the priority that allows downgrades.
const PRIORITY: u16 = 990;

/// The host's own file comes last, because the first matching entry counts.
fn text(versions: &Versions, own: &str) -> String {
    versions
        .iter()
        .map(|(name, version)| {
            format!("Package: {name}\nPin: version {version}\nPin-Priority: {PRIORITY}\n\n")
        })
        .chain([own.to_owned()])
        .collect()
}

fn shown(text: &str) -> BTreeSet<(&str, &str)> {
    let (mut found, mut package) = (BTreeSet::new(), "");
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("Package: ") {
            package = name;
        } else if let Some(version) = line.strip_prefix("Version: ") {
            found.insert((package, version));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_read() {
        let text = "Package: a\nVersion: 1\nDescription: x\n Version: 9\n\nPackage: b\nArchitecture: all\nVersion: 2\n";
        assert_eq!(shown(text), BTreeSet::from([("a", "1"), ("b", "2")]));
    }

    #[test]
    fn the_hosts_own_preferences_stay() {
        let own = "Package: *\nPin: release n=sid\nPin-Priority: 1\n";
        let text = text(&Versions::from([("a".to_owned(), "1".to_owned())]), own);
        assert!(
            text.starts_with("Package: a\nPin: version 1\nPin-Priority: 990\n\nPackage: *\n"),
            "{text}"
        );
    }
}
