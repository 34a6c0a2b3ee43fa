//! Rows under headings, for a terminal and for programs.

use serde_json::{Map, Value};

/// A table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    headings: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

/// What a cell shows if there is nothing to tell.
const NOTHING: &str = "-";

impl Table {
    /// A table; every row has a cell for each heading.
    pub fn new(headings: &[&'static str], rows: Vec<Vec<String>>) -> Self {
        debug_assert!(rows.iter().all(|row| row.len() == headings.len()));
        Self { headings: headings.to_vec(), rows }
    }

    /// Whether it has no row.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// For a terminal, each column as wide as its widest cell.
    pub fn text(&self) -> String {
        let widest = |n: usize| self.rows.iter().map(|row| row[n].chars().count()).max().unwrap_or(0);
        let widths: Vec<_> = self.headings.iter().enumerate().map(|(n, name)| widest(n).max(name.len())).collect();
        let line = |cells: Vec<&str>| {
            let padded: Vec<_> = cells.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
            padded.join("  ").trim_end().to_owned() + "\n"
        };
        let mut out = line(self.headings.clone());
        out.extend(self.rows.iter().map(|row| line(row.iter().map(String::as_str).collect())));
        out
    }

    /// For programs: an object for each row, with the headings as keys (`LIFE ENDS` is `life_ends`). A cell with nothing in it
    /// is null.
    pub fn json(&self) -> Vec<Value> {
        let key = |heading: &str| heading.to_lowercase().replace([' ', '\''], "_");
        let value = |cell: &String| match cell.as_str() {
            "" | NOTHING => Value::Null,
            text => Value::from(text),
        };
        let object = |row: &Vec<String>| {
            let pairs = self.headings.iter().zip(row).map(|(heading, cell)| (key(heading), value(cell)));
            Value::Object(pairs.collect::<Map<_, _>>())
        };
        self.rows.iter().map(object).collect()
    }
}

/// The text of something that may be missing.
pub fn cell(value: Option<impl ToString>) -> String {
    value.map_or_else(|| NOTHING.to_owned(), |value| value.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_a_line_or_an_object() {
        let table = Table::new(&["A", "LIFE ENDS"], vec![vec!["long".into(), cell(None::<u8>)]]);
        assert_eq!(table.text(), "A     LIFE ENDS\nlong  -\n");
        assert_eq!(table.json(), [serde_json::json!({"a": "long", "life_ends": null})]);
    }
}
