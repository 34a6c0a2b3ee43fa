//! Enabled package repositories, one line each: `ADDRESS SUITE COMPONENT`, or an address alone.

use super::probe::Notes;
use crate::compat::PackageManager;
use crate::system::System;
use std::path::Path;

/// Those enabled.
pub fn probe(system: &System, manager: Option<PackageManager>, notes: &mut Notes) -> Vec<String> {
    let (files, folders): (&[&str], &[&str]) = match manager {
        Some(PackageManager::Apt) => (&["/etc/apt/sources.list"], &["/etc/apt/sources.list.d"]),
        Some(PackageManager::Dnf) => (&[], &["/etc/yum.repos.d"]),
        Some(PackageManager::Zypper) => (&[], &["/etc/zypp/repos.d"]),
        None => return Vec::new(),
    };
    let mut paths: Vec<String> = files.iter().map(|f| (*f).to_owned()).collect();
    for folder in folders {
        let names = notes.take(folder, system.list(folder)).unwrap_or_default();
        paths.extend(names.into_iter().map(|name| format!("{folder}/{name}")));
    }
    let mut out = Vec::new();
    for path in paths {
        let Some(text) = notes.take(&path, system.read_text(&path)).flatten() else { continue };
        match Path::new(&path).extension().and_then(|e| e.to_str()) {
            Some("list") => out.extend(one_line(&text)),
            Some("sources") => out.extend(deb822(&text)),
            Some("repo") => out.extend(ini(&text)),
            _ => {}
        }
    }
    out
}

/// `deb [signed-by=…] ADDRESS SUITE COMPONENT…`
fn one_line(text: &str) -> Vec<String> {
    let mut out = Vec::new();
    for line in text.lines().map(str::trim).filter(|l| l.starts_with("deb ") || l.starts_with("deb\t")) {
        let rest = line[3..].trim_start();
        let rest = if rest.starts_with('[') { rest.split_once(']').map_or("", |(_, r)| r) } else { rest };
        let mut words = rest.split('#').next().unwrap_or_default().split_whitespace();
        if let (Some(address), Some(suite)) = (words.next(), words.next()) {
            out.extend(each(&[address], &[suite], &words.collect::<Vec<_>>()));
        }
    }
    out
}

/// Stanzas of `Key: value`, continued by lines that begin with a space.
fn deb822(text: &str) -> Vec<String> {
    let mut out = Vec::new();
    for stanza in text.split("\n\n") {
        let mut fields: Vec<(String, String)> = Vec::new();
        for line in stanza.lines().filter(|l| !l.starts_with('#')) {
            match (line.starts_with([' ', '\t']), line.split_once(':')) {
                (true, _) => {
                    if let Some((_, value)) = fields.last_mut() {
                        *value += " ";
                        *value += line.trim();
                    }
                }
                (false, Some((key, value))) => fields.push((key.trim().to_lowercase(), value.trim().to_owned())),
                (false, None) => {}
            }
        }
        let get =
            |key: &str| fields.iter().find(|(k, _)| k == key).map(|(_, v)| v.split_whitespace().collect::<Vec<_>>());
        if get("enabled").is_some_and(|v| v == ["no"]) || !get("types").unwrap_or_default().contains(&"deb") {
            continue;
        }
        let all = |key| get(key).unwrap_or_default();
        out.extend(each(&all("uris"), &all("suites"), &all("components")));
    }
    out
}

fn each(addresses: &[&str], suites: &[&str], components: &[&str]) -> Vec<String> {
    let mut out = Vec::new();
    for address in addresses {
        for suite in suites {
            if components.is_empty() {
                out.push(format!("{address} {suite}"));
            }
            out.extend(components.iter().map(|component| format!("{address} {suite} {component}")));
        }
    }
    out
}

/// Sections of `key=value`; a repository is enabled unless it says otherwise.
fn ini(text: &str) -> Vec<String> {
    let mut out = Vec::new();
    for section in text.split("\n[") {
        let get = |key: &str| {
            section.lines().find_map(|l| l.trim().strip_prefix(key)?.trim_start().strip_prefix('=').map(str::trim))
        };
        if get("enabled").is_some_and(|v| v == "0" || v.eq_ignore_ascii_case("false")) {
            continue;
        }
        let address = ["baseurl", "mirrorlist", "metalink"].iter().find_map(|key| get(key));
        out.extend(address.map(str::to_owned));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_form_is_read() {
        let list = "# deb http://x y main\ndeb [arch=amd64 signed-by=/k] http://a/debian bookworm main non-free # c\ndeb-src http://a s m\n";
        assert_eq!(one_line(list), ["http://a/debian bookworm main", "http://a/debian bookworm non-free"]);
        let sources = "Types: deb deb-src\nURIs: http://a/\nSuites: s s-updates\nComponents: main\n contrib\nSigned-By: /k\n\nTypes: deb\nEnabled: no\nURIs: http://b/\nSuites: s\n";
        assert_eq!(
            deb822(sources),
            ["http://a/ s main", "http://a/ s contrib", "http://a/ s-updates main", "http://a/ s-updates contrib"]
        );
        let repo = "[baseos]\nname=x\nmirrorlist=https://m/?a=$b\nenabled=1\n\n[extra]\nbaseurl = https://e/\nenabled=0\n[on]\nbaseurl=https://o/\n";
        assert_eq!(ini(repo), ["https://m/?a=$b", "https://o/"]);
    }
}
