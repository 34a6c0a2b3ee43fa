//! Package repositories that a host has enabled, by its configuration files. For apt one line a component,
//! `ADDRESS SUITE COMPONENT`; for dnf and zypper `ADDRESS ID`, with the variables in the address left as they are.

use super::reader::Reader;
use crate::compat::PackageManager;
use std::path::Path;

/// The enabled repositories.
pub fn repositories(reader: &mut Reader, manager: Option<PackageManager>) -> Vec<String> {
    let what = "package repositories";
    let mut lines = Vec::new();
    match manager {
        Some(PackageManager::Apt) => {
            lines.extend(reader.text(what, "/etc/apt/sources.list").iter().flat_map(|t| one_line_style(t)));
            files(reader, "/etc/apt/sources.list.d", ".list", |text| lines.extend(one_line_style(text)));
            files(reader, "/etc/apt/sources.list.d", ".sources", |text| lines.extend(deb822(text)));
        }
        Some(PackageManager::Dnf) => files(reader, "/etc/yum.repos.d", ".repo", |text| lines.extend(ini(text))),
        Some(PackageManager::Zypper) => files(reader, "/etc/zypp/repos.d", ".repo", |text| lines.extend(ini(text))),
        None => {}
    }
    let mut seen = std::collections::BTreeSet::new();
    lines.retain(|l| seen.insert(l.clone()));
    lines
}

fn files(reader: &mut Reader, directory: &str, ending: &str, mut each: impl FnMut(&str)) {
    let what = "package repositories";
    for name in reader.names(what, directory).into_iter().filter(|n| n.ends_with(ending)) {
        if let Some(text) = reader.text(what, Path::new(directory).join(name)) {
            each(&text);
        }
    }
}

/// `deb [options] URI SUITE COMPONENT…`.
fn one_line_style(text: &str) -> Vec<String> {
    let mut lines = Vec::new();
    for line in text.lines().map(|l| l.split('#').next().unwrap_or_default().trim()) {
        let Some(rest) = line.strip_prefix("deb").filter(|r| r.starts_with([' ', '\t', '['])) else { continue };
        let rest = rest.trim_start();
        let rest = if rest.starts_with('[') { rest.split_once(']').map_or("", |(_, r)| r) } else { rest };
        let words: Vec<_> = rest.split_whitespace().collect();
        if let [uri, suite, components @ ..] = &words[..] {
            lines.extend(one_each(uri, suite, components));
        }
    }
    lines
}

/// Paragraphs of fields; a field's value may go on over indented lines.
fn deb822(text: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let text: String = text.lines().filter(|l| !l.starts_with('#')).map(|l| format!("{}\n", l.trim_end())).collect();
    for paragraph in text.split("\n\n") {
        let mut fields: Vec<(String, String)> = Vec::new();
        for line in paragraph.lines() {
            if line.starts_with([' ', '\t']) {
                if let Some((_, value)) = fields.last_mut() {
                    value.push(' ');
                    value.push_str(line.trim());
                }
            } else if let Some((key, value)) = line.split_once(':') {
                fields.push((key.trim().to_ascii_lowercase(), value.trim().to_owned()));
            }
        }
        let field = |key: &str| fields.iter().find(|(k, _)| k == key).map_or("", |(_, v)| v.as_str());
        let words = |key: &str| field(key).split_whitespace().collect::<Vec<_>>();
        let off = ["no", "false", "0", "off", "without", "disable"].contains(&&*field("enabled").to_ascii_lowercase());
        if off || !words("types").contains(&"deb") {
            continue;
        }
        for uri in words("uris") {
            for suite in words("suites") {
                lines.extend(one_each(uri, suite, &words("components")));
            }
        }
    }
    lines
}

fn one_each(uri: &str, suite: &str, components: &[&str]) -> Vec<String> {
    if components.is_empty() {
        // A flat repository, as NVIDIA's is.
        return vec![format!("{uri} {suite}")];
    }
    components.iter().map(|component| format!("{uri} {suite} {component}")).collect()
}

/// dnf's and zypper's files; a repository is enabled unless it says otherwise.
fn ini(text: &str) -> Vec<String> {
    let (mut lines, mut id, mut address, mut enabled) = (Vec::new(), None::<&str>, None::<&str>, true);
    for line in text.lines().map(str::trim).chain(["[]"]) {
        if let Some(next) = line.strip_prefix('[').and_then(|l| l.strip_suffix(']')) {
            if let (Some(id), true) = (id.filter(|id| *id != "main"), enabled) {
                lines.push(format!("{} {id}", address.unwrap_or_default()).trim_start().to_owned());
            }
            (id, address, enabled) = (Some(next), None, true);
        } else if let Some((key, value)) = line.split_once('=') {
            match (key.trim(), value.trim()) {
                ("enabled", value) => enabled = !["0", "no", "false", "off"].contains(&&*value.to_ascii_lowercase()),
                ("baseurl", value) => address = Some(value),
                ("metalink" | "mirrorlist", value) => address = address.or(Some(value)),
                _ => {}
            }
        }
    }
    lines
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
        assert_eq!(one_line_style(list), want);
        let sources = "# comment\nTypes: deb deb-src\nURIs: https://archive.example/debian\nSuites: bookworm\n bookworm-updates\n\
                       Components: main\n\nTypes: deb\nURIs: https://off.example\nSuites: x\nComponents: y\nEnabled: no\n";
        let want =
            ["https://archive.example/debian bookworm main", "https://archive.example/debian bookworm-updates main"];
        assert_eq!(deb822(sources), want);
    }

    #[test]
    fn rpm_repositories_are_enabled_unless_they_say_no() {
        let text = "[main]\nkeepcache=1\n[baseos]\nname=x\nmirrorlist=https://m.example/?arch=$basearch\ngpgcheck=1\n\
                    [crb]\nbaseurl=https://b.example\nenabled=0\n[cuda]\nenabled = 1\nbaseurl=https://c.example/rhel9\n";
        assert_eq!(ini(text), ["https://m.example/?arch=$basearch baseos", "https://c.example/rhel9 cuda"]);
    }
}
