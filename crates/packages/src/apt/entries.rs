//! The repositories in apt's files, as far as they are understood: entries that apt would refuse
//! are omitted.

use super::stanza::{self, stanzas};
use crate::repositories::Repositories;

/// The file, and the folder of files in both formats.
pub(crate) const REPOSITORIES: &[Repositories] = &[
    Repositories {
        path: "/etc/apt/sources.list",
        ending: None,
        read: |text| lines(&one_line_style(text)),
    },
    Repositories {
        path: FOLDER,
        ending: Some(".list"),
        read: |text| lines(&one_line_style(text)),
    },
    Repositories {
        path: FOLDER,
        ending: Some(".sources"),
        read: |text| lines(&deb822(text)),
    },
];

/// Repositories that one entry may stand for: it names all of its suites and components on each of
/// its servers.
const MAX_LINES: usize = 4096;

const FOLDER: &str = "/etc/apt/sources.list.d";

/// Whether a line contains all words of a mark as whole words: non-free does not match
/// non-free-firmware.
pub(crate) fn is_meant(line: &str, mark: &str) -> bool {
    mark.split_whitespace()
        .all(|wanted| line.split_whitespace().any(|word| word == wanted))
}

/// One line for each component: `URL SUITE COMPONENT`.
fn lines(sources: &[AptSource]) -> Vec<String> {
    sources.iter().flat_map(AptSource::lines).collect()
}

/// An entry in apt's sources with one URL and one suite.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AptSource {
    /// The URL.
    pub uri: String,
    /// The suite; a path, `/`, in a flat repository such as NVIDIA's.
    pub suite: String,
    /// The components; empty in a flat repository.
    pub(crate) components: Vec<String>,
    /// The value of `Signed-By`: key files, fingerprints, or a key itself; empty if missing.
    pub signed_by: String,
}

impl AptSource {
    fn lines(&self) -> Vec<String> {
        let Self {
            uri,
            suite,
            components,
            ..
        } = self;
        if components.is_empty() {
            return vec![format!("{uri} {suite}")];
        }
        components
            .iter()
            .map(|component| format!("{uri} {suite} {component}"))
            .collect()
    }
}

/// The entries in one of apt's files; the suffix of its name determines the format.
pub fn apt_sources(name: &str, text: &str) -> Vec<AptSource> {
    if name.ends_with(".sources") {
        deb822(text)
    } else {
        one_line_style(text)
    }
}

/// `deb [options] URI SUITE COMPONENT…`.
fn one_line_style(text: &str) -> Vec<AptSource> {
    let mut sources = Vec::new();
    for line in text
        .lines()
        .map(|l| l.split('#').next().unwrap_or_default().trim())
    {
        let Some(rest) = line
            .strip_prefix("deb")
            .filter(|r| r.starts_with([' ', '\t', '[']))
        else {
            continue;
        };
        let rest = rest.trim_start();
        let (options, rest) = rest
            .strip_prefix('[')
            .map_or(("", rest), |r| r.split_once(']').unwrap_or(("", "")));
        let signed_by = options
            .split_whitespace()
            .find_map(|o| o.strip_prefix("signed-by="))
            .unwrap_or_default();
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

/// The format of `.sources` files.
fn deb822(text: &str) -> Vec<AptSource> {
    stanzas(text)
        .iter()
        .flat_map(|stanza| sources_of(stanza))
        .collect()
}

/// The entries of a stanza.
fn sources_of(stanza: &str) -> Vec<AptSource> {
    let stanza = stanza.as_bytes();
    if stanza::switch(&stanza::text(stanza, "Enabled")) == Some(false)
        || !stanza::words(stanza, "Types").iter().any(|t| t == "deb")
    {
        return Vec::new();
    }
    let components = stanza::words(stanza, "Components");
    // The value may be a key itself, over several lines.
    let signed_by = stanza::text(stanza, "Signed-By")
        .lines()
        .map(str::trim)
        .collect::<Vec<_>>()
        .join("\n");
    let [uris, suites] = ["URIs", "Suites"].map(|name| stanza::words(stanza, name));
    let components: Vec<_> = components.into_iter().take(MAX_LINES).collect();
    let each = uris
        .iter()
        .flat_map(|uri| suites.iter().map(move |suite| (uri.clone(), suite.clone())));
    each.take(MAX_LINES / components.len().max(1))
        .map(|(uri, suite)| AptSource {
            uri,
            suite,
            components: components.clone(),
            signed_by: signed_by.clone(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn apt_has_two_styles() {
        let list = "# deb http://off.example/ x main\ndeb [arch=amd64 signed-by=/k] https://archive.example/debian bookworm main non-free # no\n\
                    deb-src https://archive.example/debian bookworm main\ndeb https://cuda.example/repos/debian12/x86_64/ /\n";
        let want = [
            "https://archive.example/debian bookworm main",
            "https://archive.example/debian bookworm non-free",
            "https://cuda.example/repos/debian12/x86_64/ /",
        ];
        assert_eq!(lines(&one_line_style(list)), want);
        let signed: Vec<_> = one_line_style(list)
            .into_iter()
            .map(|s| s.signed_by)
            .collect();
        assert_eq!(signed, ["/k", ""]);
        let sources = "# comment\nTypes: deb deb-src\nURIs: https://archive.example/debian\nSuites: bookworm\n bookworm-updates\n\
                       Components: main\n\nTypes: deb\nURIs: https://off.example\nSuites: x\nComponents: y\nEnabled: no\n";
        let want = [
            "https://archive.example/debian bookworm main",
            "https://archive.example/debian bookworm-updates main",
        ];
        assert_eq!(lines(&deb822(sources)), want);
        let key = "Types: deb\nURIs: https://x.example\nSuites: y\nSigned-By:\n -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n mDME\n";
        assert_eq!(
            deb822(key)[0].signed_by,
            "-----BEGIN PGP PUBLIC KEY BLOCK-----\n.\nmDME"
        );
    }
}
