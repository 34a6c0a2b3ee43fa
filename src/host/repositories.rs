//! Package repositories that a host has enabled, by its configuration files. For apt one line a component,
//! `ADDRESS SUITE COMPONENT`; for dnf and zypper `ADDRESS ID`, with the variables in the address left as they are.

use super::reader::Reader;
use crate::compat::PackageManager;
use crate::packages::ini::sections;
use crate::packages::stanza::{self, stanzas};
use std::path::Path;

/// The enabled repositories.
pub fn repositories(reader: &mut Reader, manager: Option<PackageManager>) -> Vec<String> {
    let what = "package repositories";
    let mut lines = Vec::new();
    match manager {
        Some(PackageManager::Apt) => {
            let mut add = |sources: Vec<AptSource>| lines.extend(sources.iter().flat_map(AptSource::lines));
            reader.text(what, "/etc/apt/sources.list").iter().for_each(|text| add(one_line_style(text)));
            files(reader, "/etc/apt/sources.list.d", ".list", |text| add(one_line_style(text)));
            files(reader, "/etc/apt/sources.list.d", ".sources", |text| add(deb822(text)));
        }
        Some(PackageManager::Dnf | PackageManager::Tdnf) => {
            files(reader, "/etc/yum.repos.d", ".repo", |text| lines.extend(ini(text)))
        }
        Some(PackageManager::Zypper) => files(reader, "/etc/zypp/repos.d", ".repo", |text| lines.extend(ini(text))),
        None => {}
    }
    let mut seen = std::collections::BTreeSet::new();
    lines.retain(|l| seen.insert(l.clone()));
    lines
}

/// Whether a line of the enabled repositories is one that a mark means: a part of its address; for apt also the whole names of a
/// component, or of a suite and a component (non-free is not non-free-firmware); for dnf and zypper a part of its name, in
/// whatever case (Oracle's EPEL is `ol9_developer_EPEL`).
pub fn is_meant(line: &str, mark: &str, manager: Option<PackageManager>) -> bool {
    if mark.contains('/') {
        return line.contains(mark);
    }
    if manager == Some(PackageManager::Apt) {
        return mark.split_whitespace().all(|wanted| line.split_whitespace().any(|word| word == wanted));
    }
    line.to_ascii_lowercase().contains(&mark.to_ascii_lowercase())
}

fn files(reader: &mut Reader, directory: &str, ending: &str, mut each: impl FnMut(&str)) {
    let what = "package repositories";
    for name in reader.names(what, directory).into_iter().filter(|n| n.ends_with(ending)) {
        if let Some(text) = reader.text(what, Path::new(directory).join(name)) {
            each(&text);
        }
    }
}

/// An entry of apt's: one address and suite.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AptSource {
    /// The address.
    pub uri: String,
    /// The suite; a flat repository, as NVIDIA's is, has a path, `/`.
    pub suite: String,
    /// The components; none in a flat repository.
    pub components: Vec<String>,
    /// `Signed-By`, as it is written: key files, fingerprints, or a key itself; empty where it is not said.
    pub signed_by: String,
}

impl AptSource {
    fn lines(&self) -> Vec<String> {
        let Self { uri, suite, components, .. } = self;
        if components.is_empty() {
            return vec![format!("{uri} {suite}")];
        }
        components.iter().map(|component| format!("{uri} {suite} {component}")).collect()
    }
}

/// The entries in a file of apt's, by the ending of its name.
pub fn apt_sources(name: &str, text: &str) -> Vec<AptSource> {
    if name.ends_with(".sources") { deb822(text) } else { one_line_style(text) }
}

/// `deb [options] URI SUITE COMPONENT…`.
fn one_line_style(text: &str) -> Vec<AptSource> {
    let mut sources = Vec::new();
    for line in text.lines().map(|l| l.split('#').next().unwrap_or_default().trim()) {
        let Some(rest) = line.strip_prefix("deb").filter(|r| r.starts_with([' ', '\t', '['])) else { continue };
        let rest = rest.trim_start();
        let (options, rest) = rest.strip_prefix('[').map_or(("", rest), |r| r.split_once(']').unwrap_or(("", "")));
        let signed_by = options.split_whitespace().find_map(|o| o.strip_prefix("signed-by=")).unwrap_or_default();
        let words: Vec<_> = rest.split_whitespace().collect();
        if let [uri, suite, components @ ..] = &words[..] {
            sources.push(AptSource {
                uri: (*uri).to_owned(),
                suite: (*suite).to_owned(),
                components: components.iter().map(|c| (*c).to_owned()).collect(),
                signed_by: signed_by.to_owned(),
            });
        }
    }
    sources
}

/// Stanzas of fields.
fn deb822(text: &str) -> Vec<AptSource> {
    stanzas(text).iter().flat_map(|stanza| sources_of(stanza)).collect()
}

/// The entries that a stanza stands for.
fn sources_of(stanza: &str) -> Vec<AptSource> {
    let field = |name: &str| stanza::text(stanza.as_bytes(), name);
    let words = |name: &str| field(name).split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    if stanza::switch(&field("Enabled")) == Some(false) || !words("Types").iter().any(|t| t == "deb") {
        return Vec::new();
    }
    let components = words("Components");
    // A key may stand here itself, line for line.
    let signed_by = field("Signed-By").lines().map(str::trim).collect::<Vec<_>>().join("\n");
    let (uris, suites) = (words("URIs"), words("Suites"));
    let each = uris.iter().flat_map(|uri| suites.iter().map(move |suite| (uri.clone(), suite.clone())));
    each.map(|(uri, suite)| AptSource { uri, suite, components: components.clone(), signed_by: signed_by.clone() })
        .collect()
}

/// dnf's and zypper's files; a repository is enabled unless it says otherwise.
fn ini(text: &str) -> Vec<String> {
    let sections = sections(text).into_iter();
    let enabled = sections.filter(|s| s.name != "main" && s.switch("enabled") != Some(false));
    enabled
        .map(|section| {
            let address = ["baseurl", "metalink", "mirrorlist"].iter().find_map(|key| section.value(key));
            let first = address.and_then(|address| address.lines().next()).unwrap_or_default();
            format!("{first} {}", section.name).trim_start().to_owned()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repository_is_known_by_its_components_its_name_or_its_address() {
        let (apt, dnf) = (Some(PackageManager::Apt), Some(PackageManager::Dnf));
        for (line, mark, manager, want) in [
            ("http://deb.debian.org/debian bookworm non-free", "non-free", apt, true),
            ("http://deb.debian.org/debian bookworm non-free-firmware", "non-free", apt, false),
            ("http://security.debian.org bullseye-security non-free", "bullseye-security non-free", apt, true),
            ("http://deb.debian.org/debian bullseye non-free", "bullseye-security non-free", apt, false),
            ("https://mirrors.example/metalink?repo=epel-9&arch=$basearch epel", "epel", dnf, true),
            (
                "https://yum.example/repo/OracleLinux/OL9/developer/EPEL/$basearch/ ol9_developer_EPEL",
                "epel",
                dnf,
                true,
            ),
            ("https://dl.example/pub/rocky/9/BaseOS/x86_64/os baseos", "epel", dnf, false),
            ("https://cuda.example/compute/cuda/repos/rhel9/x86_64/ cuda", "example/compute/cuda/repos", dnf, true),
        ] {
            assert_eq!(is_meant(line, mark, manager), want, "{line}: {mark}");
        }
    }

    #[test]
    fn apt_has_two_styles() {
        let list = "# deb http://off.example/ x main\ndeb [arch=amd64 signed-by=/k] https://archive.example/debian bookworm main non-free # no\n\
                    deb-src https://archive.example/debian bookworm main\ndeb https://cuda.example/repos/debian12/x86_64/ /\n";
        let want = [
            "https://archive.example/debian bookworm main",
            "https://archive.example/debian bookworm non-free",
            "https://cuda.example/repos/debian12/x86_64/ /",
        ];
        let lines = |sources: Vec<AptSource>| sources.iter().flat_map(AptSource::lines).collect::<Vec<_>>();
        assert_eq!(lines(one_line_style(list)), want);
        let signed: Vec<_> = one_line_style(list).into_iter().map(|s| s.signed_by).collect();
        assert_eq!(signed, ["/k", ""]);
        let sources = "# comment\nTypes: deb deb-src\nURIs: https://archive.example/debian\nSuites: bookworm\n bookworm-updates\n\
                       Components: main\n\nTypes: deb\nURIs: https://off.example\nSuites: x\nComponents: y\nEnabled: no\n";
        let want =
            ["https://archive.example/debian bookworm main", "https://archive.example/debian bookworm-updates main"];
        assert_eq!(lines(deb822(sources)), want);
        let key = "Types: deb\nURIs: https://x.example\nSuites: y\nSigned-By:\n -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n mDME\n";
        assert_eq!(deb822(key)[0].signed_by, "-----BEGIN PGP PUBLIC KEY BLOCK-----\n.\nmDME");
    }

    #[test]
    fn rpm_repositories_are_enabled_unless_they_say_no() {
        let text = "[main]\nkeepcache=1\n[baseos]\nname=x\nmirrorlist=https://m.example/?arch=$basearch\ngpgcheck=1\n\
                    [crb]\nbaseurl=https://b.example\nenabled=0\n[cuda]\nenabled = 1\nbaseurl=https://c.example/rhel9\n";
        assert_eq!(ini(text), ["https://m.example/?arch=$basearch baseos", "https://c.example/rhel9 cuda"]);
    }
}
