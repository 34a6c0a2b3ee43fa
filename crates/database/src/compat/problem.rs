//! A wrong fact, and its line in the YAML files. `check` decides what is wrong.

use super::tables::Row;
use std::fmt;

/// A wrong fact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataProblem {
    /// The file and the line, counted from 1, if known.
    pub(crate) place: Option<(String, usize)>,
    /// The record: `gpus 20b2`, `cuda 12.8.1`.
    pub(crate) record: String,
    pub(crate) key: &'static str,
    pub(crate) wrong: String,
    list: &'static str,
    marks: Vec<String>,
}

impl fmt::Display for DataProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((file, line)) = &self.place {
            write!(f, "{file}:{line}: ")?;
        }
        write!(f, "{}: {}: {}", self.record, self.key, self.wrong)
    }
}

/// The record of a list that a problem is about, and how its line can be recognised.
pub(crate) struct Record {
    list: &'static str,
    name: String,
    marks: Vec<String>,
}

impl Record {
    /// The record of `list` whose `key` is `value`; a value of two words is a key and a second key
    /// that distinguishes records with the same first one.
    pub(crate) fn of(list: &'static str, key: &str, value: impl fmt::Display) -> Self {
        let name = value.to_string();
        let mut words = name.split(' ');
        let mut marks = vec![format!("{key}: {}", words.next().unwrap_or_default())];
        marks.extend(words.map(|w| format!(": {w}")));
        Self {
            list,
            marks,
            name: format!("{list} {name}").trim_end().to_owned(),
        }
    }
}

impl<R: Row> From<&R> for Record {
    fn from(row: &R) -> Self {
        Self::of(R::TABLE, R::KEY, row.name())
    }
}

impl DataProblem {
    pub(crate) fn new(record: &Record, key: &'static str, wrong: String) -> Self {
        let (list, marks) = (record.list, record.marks.clone());
        Self {
            place: None,
            record: record.name.clone(),
            key,
            wrong,
            list,
            marks,
        }
    }

    /// Finds the place in the files: the last record with the marks (the second of two equal ones),
    /// and in it the line of the key.
    pub(crate) fn locate<'a>(&mut self, files: impl IntoIterator<Item = (&'a str, &'a str)>) {
        for (file, text) in files {
            let mut list = "";
            let mut records: Vec<(usize, Vec<String>)> = Vec::new();
            for (number, line) in (1..).zip(text.lines()) {
                let plain = line.replace(['"', '\''], "");
                if let Some(key) = plain
                    .strip_suffix(':')
                    .filter(|k| !k.starts_with([' ', '#', '-']))
                {
                    list = if key == self.list { self.list } else { "" };
                } else if !list.is_empty() && plain.starts_with("  - ") {
                    records.push((number, vec![plain]));
                } else if let Some((_, lines)) = records.last_mut().filter(|_| !list.is_empty()) {
                    lines.push(plain);
                }
            }
            let found = records
                .iter()
                .rev()
                .find(|(_, lines)| self.marks.iter().all(|m| line_with(lines, m).is_some()));
            if let Some((start, lines)) = found {
                // If a record has several artifacts, the key's line in the artifact with that file
                // name counts, not the first one.
                let own = line_with(lines, &self.marks[0]).unwrap_or(0);
                let line = lines[own..]
                    .iter()
                    .position(|l| l.contains(&format!("{}:", self.key)))
                    .map_or(own, |n| own + n);
                self.place = Some((file.to_owned(), start + line));
            }
        }
    }
}

fn line_with(lines: &[String], mark: &str) -> Option<usize> {
    lines.iter().position(|line| holds(line, mark))
}

/// Whether a line contains `mark` as a whole: `version: 12.8` does not match `version: 12.8.1`.
fn holds(line: &str, mark: &str) -> bool {
    let Some(start) = line.find(mark) else {
        return false;
    };
    !line[start + mark.len()..].starts_with(|c: char| c.is_alphanumeric() || ".-_:".contains(c))
}
