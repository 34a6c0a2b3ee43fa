//! The configuration format of dnf, zypper and dnf's modules: sections of `key = value`. Indented
//! lines continue a value.

use super::Unknown;
use std::path::Path;

/// A section with its keys in order. The last of several equal keys counts.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Section {
    /// The name in brackets.
    pub(crate) name: String,
    keys: Vec<(String, String)>,
}

impl Section {
    pub(crate) fn value(&self, key: &str) -> Option<&str> {
        self.keys
            .iter()
            .rev()
            .find(|(k, _)| k == key)
            .map(|(_, value)| value.as_str())
    }

    /// The words of a value, separated by commas or white space.
    pub(crate) fn words(&self, key: &str) -> Vec<&str> {
        self.value(key)
            .unwrap_or_default()
            .split(|c: char| c == ',' || c.is_whitespace())
            .filter(|word| !word.is_empty())
            .collect()
    }

    /// Whether a switch is on; none if it is missing or has another value.
    pub(crate) fn switch(&self, key: &str) -> Option<bool> {
        match &*self.value(key)?.to_ascii_lowercase() {
            "1" | "yes" | "true" | "on" => Some(true),
            "0" | "no" | "false" | "off" => Some(false),
            _ => None,
        }
    }

    /// A whole number; `or` if it is missing.
    pub(crate) fn number(&self, key: &str, or: i64, path: &Path) -> Result<i64, Unknown> {
        let Some(value) = self.value(key) else {
            return Ok(or);
        };
        value
            .parse()
            .map_err(|_| Unknown::at(path, format!("{key}={value} is not a number")))
    }
}

pub(crate) fn sections(text: &str) -> Vec<Section> {
    let mut sections: Vec<Section> = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with(['#', ';'])) {
        let trimmed = line.trim();
        if let Some(name) = trimmed
            .strip_prefix('[')
            .and_then(|rest| rest.split_once(']'))
            .map(|(name, _)| name)
            && !line.starts_with([' ', '\t'])
        {
            sections.push(Section {
                name: name.to_owned(),
                keys: Vec::new(),
            });
        } else if let Some(section) = sections.last_mut() {
            section.line(line, trimmed);
        }
    }
    sections
}

impl Section {
    fn line(&mut self, line: &str, trimmed: &str) {
        if line.starts_with([' ', '\t']) && !trimmed.is_empty() {
            if let Some((_, value)) = self.keys.last_mut() {
                value.push('\n');
                value.push_str(trimmed);
            }
        } else if let Some((key, value)) = trimmed.split_once('=') {
            self.keys
                .push((key.trim().to_owned(), value.trim().to_owned()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_have_keys_with_values_over_several_lines() {
        let text = "# no\nlost = 1\n[main]\nexcludepkgs = a, b\n  c\n# [x]\nenabled= False\npriority=7\npriority=8\n[r]\nx\n";
        let read = sections(text);
        assert_eq!(
            read.iter().map(|s| s.name.as_str()).collect::<Vec<_>>(),
            ["main", "r"]
        );
        assert_eq!(read[0].words("excludepkgs"), ["a", "b", "c"]);
        assert_eq!(
            (read[0].switch("enabled"), read[1].switch("enabled")),
            (Some(false), None)
        );
        assert_eq!(
            read[0]
                .number("priority", 99, Path::new("/x"))
                .expect("a number"),
            8
        );
        assert_eq!(
            read[1]
                .number("priority", 99, Path::new("/x"))
                .expect("a number"),
            99
        );
    }
}
