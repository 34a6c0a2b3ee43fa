//! dnf's cache: a folder for each repository, named after the repository and a hash of its URL.

use super::super::{Unknown, configuration};
use gpusetup_system::System;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The caches of dnf 5 and dnf 4.
const FOLDERS: [&str; 2] = ["/var/cache/libdnf5", "/var/cache/dnf"];
const DNF5: &str = "/usr/bin/dnf5";
const VARIABLES: [&str; 2] = ["/etc/yum/vars", "/etc/dnf/vars"];

/// The values of variables in URLs, such as `$releasever`.
pub(crate) struct Variables {
    known: BTreeMap<String, String>,
    /// The possible values of the release: `9.4` or `9`, unless a file defines it.
    releases: Vec<String>,
}

impl Variables {
    /// The variables of a host.
    pub(crate) fn read(system: &System, architecture: &str) -> Result<Self, Unknown> {
        let mut known =
            BTreeMap::from(["basearch", "arch"].map(|n| (n.to_owned(), architecture.to_owned())));
        for folder in VARIABLES {
            for name in system.list(folder).map_err(|e| Unknown::at(folder, e))? {
                let text = configuration(system, &Path::new(folder).join(&name))?;
                known.insert(
                    name,
                    text.lines().next().unwrap_or_default().trim().to_owned(),
                );
            }
        }
        let version = os_release(system, "VERSION_ID").unwrap_or_default();
        let major = version.split('.').next().unwrap_or_default().to_owned();
        let releases = known
            .get("releasever")
            .cloned()
            .map_or_else(|| vec![version, major], |release| vec![release]);
        Ok(Self { known, releases })
    }

    /// A URL with its variables replaced; none if it has an unknown variable.
    fn substituted(&self, address: &str, release: &str) -> Option<String> {
        let (mut text, mut rest) = (String::new(), address);
        while let Some((before, after)) = rest.split_once('$') {
            text.push_str(before);
            let braced = after.strip_prefix('{').and_then(|a| a.split_once('}'));
            let (name, remainder) = braced.unwrap_or_else(|| {
                let end = after.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
                after.split_at(end.unwrap_or(after.len()))
            });
            text.push_str(match name {
                "releasever" => release,
                "releasever_major" => release.split('.').next().unwrap_or_default(),
                "releasever_minor" => release.split_once('.').map_or("", |(_, minor)| minor),
                name => self.known.get(name)?,
            });
            rest = remainder;
        }
        Some(text + rest)
    }
}

/// Whether anything was downloaded.
pub(crate) fn is_there(system: &System) -> bool {
    FOLDERS
        .iter()
        .any(|folder| system.list(folder).is_ok_and(|names| !names.is_empty()))
}

/// The folder with a repository's lists; none if they were not downloaded.
pub(crate) fn folder(
    system: &System,
    id: &str,
    address: &str,
    variables: &Variables,
) -> Result<Option<PathBuf>, Unknown> {
    let [new, old] = FOLDERS;
    let of_dnf5 = system.exists(DNF5) && system.list(new).is_ok_and(|names| !names.is_empty());
    let folder = if of_dnf5 { new } else { old };
    let names = system.list(folder).map_err(|e| Unknown::at(folder, e))?;
    let addresses: Vec<_> = variables
        .releases
        .iter()
        .map(|r| variables.substituted(address, r))
        .collect();
    let named = addresses.iter().flatten().map(|address| {
        let sum: String = Sha256::digest(address)
            .iter()
            .take(8)
            .map(|b| format!("{b:02x}"))
            .collect();
        format!("{id}-{sum}")
    });
    let mut found: Vec<_> = named.filter(|name| names.contains(name)).collect();
    found.dedup();
    if found.is_empty() && address.contains('$') {
        // The release may have yet another name.
        let id = format!("{id}-");
        let its = names.iter().filter(|name| {
            name.strip_prefix(&id)
                .is_some_and(|sum| sum.len() == 16 && sum.bytes().all(|b| b.is_ascii_hexdigit()))
        });
        found = its.cloned().collect();
    }
    match &found[..] {
        [] => Ok(None),
        [name] => Ok(Some(Path::new(folder).join(name))),
        _ => Err(Unknown::at(
            folder,
            format!("it is not known which of {} is in use", found.join(", ")),
        )),
    }
}

pub(crate) fn os_release(system: &System, key: &str) -> Option<String> {
    let text = ["/etc/os-release", "/usr/lib/os-release"]
        .iter()
        .find_map(|path| {
            configuration(system, Path::new(path))
                .ok()
                .filter(|text| !text.is_empty())
        })?;
    let value = text
        .lines()
        .find_map(|line| line.trim().strip_prefix(key)?.strip_prefix('='))?;
    Some(value.trim_matches(['"', '\'']).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_replaced() {
        let known = [("basearch", "x86_64"), ("stream", "9-stream")]
            .map(|(k, v)| (k.to_owned(), v.to_owned()));
        let variables = Variables {
            known: BTreeMap::from(known),
            releases: Vec::new(),
        };
        let of = |address: &str| variables.substituted(address, "9.4");
        assert_eq!(
            of("https://a/$releasever/${basearch}/os").as_deref(),
            Some("https://a/9.4/x86_64/os")
        );
        assert_eq!(
            of("$stream-$releasever_major.$releasever_minor").as_deref(),
            Some("9-stream-9.4")
        );
        assert_eq!(of("https://a/$contentdir"), None);
        assert_eq!(of("a${"), None);
        assert_eq!(of("").as_deref(), Some(""));
    }

    #[test]
    fn a_folder_is_found_by_the_sum_of_its_address() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let make = |name: &str| {
            std::fs::create_dir_all(dir.path().join("var/cache/dnf").join(name)).expect("made")
        };
        let system = System::at(dir.path());
        let variables = Variables {
            known: BTreeMap::new(),
            releases: vec!["9.4".to_owned(), "9".to_owned()],
        };
        let of = |address: &str| folder(&system, "r", address, &variables);
        assert_eq!(of("file:///srv/rpms").expect("known"), None);
        // `printf file:///srv/rpms | sha256sum | cut -c -16`
        make("r-83388d6e81404440");
        make("r-0123456789abcdef");
        make("rr-0123456789abcdef");
        assert_eq!(
            of("file:///srv/rpms").expect("known").as_deref(),
            Some(Path::new("/var/cache/dnf/r-83388d6e81404440"))
        );
        assert_eq!(
            of("https://elsewhere").expect("known"),
            None,
            "the address was changed"
        );
        let other = of("https://elsewhere/$odd").map(|f| f.map(|f| f.display().to_string()));
        assert!(other.is_err(), "{other:?}");
    }
}
