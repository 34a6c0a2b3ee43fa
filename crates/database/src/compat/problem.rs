//! A fact that cannot be, and the line of the YAML files that says it. Decides nothing about facts; `check` does.

use std::fmt;

/// A fact that cannot be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The file and the line, counted from 1, where they are known.
    pub place: Option<(String, usize)>,
    /// The record: `gpus 20b2`, `cuda 12.8.1`.
    pub record: String,
    /// The key in it.
    pub key: &'static str,
    /// What is wrong with it.
    pub wrong: String,
    list: &'static str,
    marks: Vec<String>,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((file, line)) = &self.place {
            write!(f, "{file}:{line}: ")?;
        }
        write!(f, "{}: {}: {}", self.record, self.key, self.wrong)
    }
}

/// Which record of which list a problem is about, and how its line shows that.
pub struct Record {
    list: &'static str,
    name: String,
    marks: Vec<String>,
}

impl Record {
    /// The record of `list` whose `key` is `value`; a value of two words is a key and a second one that tells records
    /// of the same key apart.
    pub fn of(list: &'static str, key: &str, value: impl fmt::Display) -> Self {
        let name = value.to_string();
        let mut words = name.split(' ');
        let mut marks = vec![format!("{key}: {}", words.next().unwrap_or_default())];
        marks.extend(words.map(|w| format!(": {w}")));
        Self { list, marks, name: format!("{list} {name}").trim_end().to_owned() }
    }
}

impl Problem {
    /// What is wrong with `key` of `record`.
    pub fn new(record: &Record, key: &'static str, wrong: String) -> Self {
        let (list, marks) = (record.list, record.marks.clone());
        Self { place: None, record: record.name.clone(), key, wrong, list, marks }
    }

    /// Finds the place in the files: the last record that bears the marks (of two that are the same, the second), and
    /// in it the line of the key.
    pub fn locate<'a>(&mut self, files: impl IntoIterator<Item = (&'a str, &'a str)>) {
        for (file, text) in files {
            let mut list = "";
            let mut records: Vec<(usize, Vec<String>)> = Vec::new();
            for (number, line) in (1..).zip(text.lines()) {
                let plain = line.replace(['"', '\''], "");
                if let Some(key) = plain.strip_suffix(':').filter(|k| !k.starts_with([' ', '#', '-'])) {
                    list = if key == self.list { self.list } else { "" };
                } else if !list.is_empty() && plain.starts_with("  - ") {
                    records.push((number, vec![plain]));
                } else if let Some((_, lines)) = records.last_mut().filter(|_| !list.is_empty()) {
                    lines.push(plain);
                }
            }
            let bears = |lines: &[String], mark: &str| lines.iter().position(|l| holds(l, mark));
            let found = records.iter().rev().find(|(_, lines)| self.marks.iter().all(|m| bears(lines, m).is_some()));
            if let Some((start, lines)) = found {
                // Of several artifacts in a record the one of the file's name is meant: its line, not the first of that key.
                let own = bears(lines, &self.marks[0]).unwrap_or(0);
                let line =
                    lines[own..].iter().position(|l| l.contains(&format!("{}:", self.key))).map_or(own, |n| own + n);
                self.place = Some((file.to_owned(), start + line));
            }
        }
    }
}

/// Whether a line has `mark` as a whole: `version: 12.8` is no mark of `version: 12.8.1`.
fn holds(line: &str, mark: &str) -> bool {
    let Some(start) = line.find(mark) else { return false };
    !line[start + mark.len()..].starts_with(|c: char| c.is_alphanumeric() || ".-_:".contains(c))
}
