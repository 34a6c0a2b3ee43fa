//! The database's files as text. Facts are added by inserting lines and fields, so that comments,
//! order and everything else that people typed stay as they are.

use crate::Result;
use gpusetup_database::compat::{self, Database};
use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::path::Path;

/// The database's files.
#[derive(Clone)]
pub struct Tree {
    /// The contents by name, `compat/cuda.yaml`.
    files: BTreeMap<String, String>,
}

impl Tree {
    /// Reads the files of a database's folder.
    pub fn load(folder: &Path) -> Result<Self> {
        let files = compat::files(folder).map_err(|e| e.to_string())?;
        Ok(Self {
            files: files.into_iter().collect(),
        })
    }

    /// Parses and checks the files.
    pub fn database(&self) -> Result<Database> {
        compat::parse(
            self.files
                .iter()
                .map(|(name, text)| (name.as_str(), text.as_str())),
        )
        .map_err(|e| e.to_string())
    }

    /// The text of a file.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.files.get(name).map(String::as_str)
    }

    /// The names of the files in a folder.
    pub fn names<'t>(&'t self, folder: &'t str) -> impl Iterator<Item = &'t str> {
        self.files
            .keys()
            .map(String::as_str)
            .filter(move |name| name.starts_with(folder))
    }

    /// Replaces the text of a file, or adds the file.
    pub fn set(&mut self, name: &str, text: String) {
        self.files.insert(name.to_owned(), text);
    }

    /// Changes the lines of a file. Nothing happens to a file that is missing.
    pub fn edit<T>(&mut self, name: &str, change: impl FnOnce(&mut Lines) -> T) -> Option<T> {
        let text = self.files.get_mut(name)?;
        let mut lines = Lines(text.lines().map(str::to_owned).collect());
        let result = change(&mut lines);
        *text = lines.0.iter().map(|line| format!("{line}\n")).collect();
        Some(result)
    }

    /// The files that differ from those of another tree.
    pub fn changed<'t>(&'t self, before: &'t Self) -> impl Iterator<Item = (&'t str, &'t str)> {
        let all = self
            .files
            .iter()
            .map(|(name, text)| (name.as_str(), text.as_str()));
        all.filter(move |(name, text)| before.text(name) != Some(text))
    }

    /// Writes the files that differ from those of another tree below a folder. A file is replaced
    /// as a whole.
    pub fn write(&self, folder: &Path, before: &Self) -> Result<()> {
        for (name, text) in self.changed(before) {
            let path = folder.join(name);
            let failed = |e: std::io::Error| format!("{}: {e}", path.display());
            let part = path.with_extension("yaml.part");
            fs::write(&part, text).map_err(failed)?;
            fs::rename(&part, &path).map_err(failed)?;
        }
        Ok(())
    }

    /// Writes all files to a new folder.
    pub fn copy_to(&self, folder: &Path) -> Result<()> {
        for (name, text) in &self.files {
            let path = folder.join(name);
            let failed = |e: std::io::Error| format!("{}: {e}", path.display());
            fs::create_dir_all(path.parent().unwrap_or(folder)).map_err(failed)?;
            fs::write(&path, text).map_err(failed)?;
        }
        Ok(())
    }
}

/// The lines of a file.
pub struct Lines(pub Vec<String>);

impl Lines {
    /// The lines of the record that begins with this line, with what belongs to it: everything that
    /// is indented deeper than its dash.
    pub fn record(&self, first: &str) -> Option<Range<usize>> {
        let start = self.0.iter().position(|line| line == first)?;
        let belongs = |line: &&String| line.starts_with("    ") || line.is_empty();
        let length = self.0[start + 1..].iter().take_while(belongs).count();
        let blank = self.0[start + 1..start + 1 + length]
            .iter()
            .rev()
            .take_while(|line| line.is_empty())
            .count();
        Some(start..start + 1 + length - blank)
    }

    /// Inserts lines before the first one for which `is_after` holds; comments directly above that
    /// line stay with it. If there is none, they are inserted behind the last line for which
    /// `is_before` holds, or at the end.
    pub fn insert_in_order(
        &mut self,
        new: Vec<String>,
        is_after: impl Fn(&str) -> bool,
        is_before: impl Fn(&str) -> bool,
    ) {
        let at = match self.0.iter().position(|line| is_after(line)) {
            Some(at) => {
                at - self.0[..at]
                    .iter()
                    .rev()
                    .take_while(|line| line.trim_start().starts_with('#'))
                    .count()
            }
            None => self
                .0
                .iter()
                .rposition(|line| is_before(line))
                .map_or(self.0.len(), |at| at + 1),
        };
        self.0.splice(at..at, new);
    }

    /// Adds a source to the line of a record that names its sources.
    pub fn add_source(&mut self, record: Range<usize>, source: &str) {
        if let Some(line) = self.0[record]
            .iter_mut()
            .find(|line| line.contains("sources: ["))
        {
            *line = with_source(line, source);
        }
    }
}

/// A line whose `sources` end with one more, unless it names that already.
pub fn with_source(line: &str, source: &str) -> String {
    let Some((before, rest)) = line.rsplit_once("sources: [") else {
        return line.to_owned();
    };
    let Some((sources, after)) = rest.split_once(']') else {
        return line.to_owned();
    };
    if sources.split(", ").any(|known| known == source) {
        return line.to_owned();
    }
    format!("{before}sources: [{sources}, {source}]{after}")
}

/// The value of a field in a line such as `{device: "2331", name: "NVIDIA H100 PCIe"}`, without
/// quotes.
pub fn field<'l>(line: &'l str, name: &str) -> Option<&'l str> {
    let begin = [
        format!("{{{name}: "),
        format!(", {name}: "),
        format!("- {name}: "),
    ];
    let at = begin
        .iter()
        .find_map(|begin| line.find(begin.as_str()).map(|at| at + begin.len()))?;
    let rest = &line[at..];
    match rest.strip_prefix('"') {
        Some(quoted) => quoted.split('"').next(),
        None => rest.split([',', '}', ']']).next(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_stay_with_the_line_below_them() {
        let mut lines = Lines(
            ["a:", "  - 3", "  # about 1", "  - 1"]
                .map(str::to_owned)
                .to_vec(),
        );
        lines.insert_in_order(vec!["  - 2".to_owned()], |line| line == "  - 1", |_| false);
        assert_eq!(lines.0, ["a:", "  - 3", "  - 2", "  # about 1", "  - 1"]);
    }

    #[test]
    fn fields_and_sources_of_a_line() {
        let line = r#"  - {device: "2331", subsystem: "10de:1626", mig: true, sources: [a, b]}"#;
        assert_eq!(field(line, "subsystem"), Some("10de:1626"));
        assert_eq!(field(line, "mig"), Some("true"));
        assert_eq!(field(line, "system"), None);
        assert_eq!(with_source(line, "b"), line);
        assert!(with_source(line, "c").ends_with("sources: [a, b, c]}"));
    }

    #[test]
    fn a_record_ends_before_the_next() {
        let lines = [
            "cuda:",
            "  - version: \"2\"",
            "    a: 1",
            "  - version: \"1\"",
            "    a: 2",
            "",
            "x:",
        ];
        let lines = Lines(lines.map(str::to_owned).to_vec());
        assert_eq!(lines.record("  - version: \"2\""), Some(1..3));
        assert_eq!(lines.record("  - version: \"1\""), Some(3..5));
        assert_eq!(lines.record("  - version: \"3\""), None);
    }
}
