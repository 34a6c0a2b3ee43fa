//! Rows under headings, for a terminal and for programs.

use crate::text::{columns, wrapped};
use serde_json::{Map, Value};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Table {
    headings: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

/// The spaces between two columns, if there is room.
const GAP: usize = 2;

/// What a cell shows if there is nothing to tell.
const NOTHING: &str = "-";

impl Table {
    /// A table; every row has a cell for each heading.
    pub(crate) fn new(headings: &[&'static str], rows: Vec<Vec<String>>) -> Self {
        debug_assert!(rows.iter().all(|row| row.len() == headings.len()));
        Self {
            headings: headings.to_vec(),
            rows,
        }
    }

    /// Whether it has no row.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// For a terminal, each column as wide as its widest cell. Where that is wider than `width`,
    /// the cells of the widest columns have several lines, broken between words.
    pub(crate) fn text(&self, width: Option<usize>) -> String {
        let headings: Vec<_> = self
            .headings
            .iter()
            .map(|name| (*name).to_owned())
            .collect();
        let lines = std::iter::once(&headings).chain(&self.rows);
        let mut widths: Vec<_> = (0..headings.len())
            .map(|n| lines.clone().map(|row| columns(&row[n])).max().unwrap_or(0))
            .collect();
        let least: Vec<_> = (0..headings.len())
            .map(|n| {
                let words = lines.clone().flat_map(|row| row[n].split_whitespace());
                words.map(columns).max().unwrap_or(0)
            })
            .collect();
        let limit = width.unwrap_or(usize::MAX);
        let gaps = widths.len().saturating_sub(1);
        let gap = if least.iter().sum::<usize>() + GAP * gaps > limit {
            1
        } else {
            GAP
        };
        while widths.iter().sum::<usize>() + gap * gaps > limit {
            let Some(widest) = (0..widths.len())
                .filter(|n| widths[*n] > least[*n])
                .max_by_key(|n| widths[*n])
            else {
                break;
            };
            widths[widest] -= 1;
        }
        lines.map(|row| in_lines(row, &widths, gap)).collect()
    }

    /// For programs: an object for each row, with the headings as keys (`LIFE ENDS` is
    /// `life_ends`). A cell with nothing in it is null.
    pub(crate) fn json(&self) -> Vec<Value> {
        self.rows
            .iter()
            .map(|row| {
                let pairs = self.headings.iter().zip(row).map(|(heading, cell)| {
                    let value = match cell.as_str() {
                        "" | NOTHING => Value::Null,
                        text => Value::from(text),
                    };
                    (heading.to_lowercase().replace([' ', '\''], "_"), value)
                });
                Value::Object(pairs.collect::<Map<_, _>>())
            })
            .collect()
    }
}

/// A row, each cell in its column, with so many spaces between columns.
fn in_lines(row: &[String], widths: &[usize], gap: usize) -> String {
    let cells: Vec<String> = row
        .iter()
        .zip(widths)
        .map(|(cell, width)| wrapped("", cell, *width))
        .collect();
    let mut cells: Vec<_> = cells.iter().map(|cell| cell.lines()).collect();
    let height = cells
        .iter()
        .map(|lines| lines.clone().count())
        .max()
        .unwrap_or(0);
    let mut out = String::new();
    for _ in 0..height {
        let mut line = String::new();
        for (lines, width) in cells.iter_mut().zip(widths) {
            let text = lines.next().unwrap_or_default();
            line += text;
            line.extend(std::iter::repeat_n(
                ' ',
                width.saturating_sub(columns(text)) + gap,
            ));
        }
        out += line.trim_end();
        out.push('\n');
    }
    out
}

/// The text of something that may be missing.
pub(crate) fn cell(value: Option<impl ToString>) -> String {
    value.map_or_else(|| NOTHING.to_owned(), |value| value.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_a_line_or_an_object() {
        let table = Table::new(
            &["A", "LIFE ENDS"],
            vec![vec!["long".into(), cell(None::<u8>)]],
        );
        assert_eq!(table.text(None), "A     LIFE ENDS\nlong  -\n");
        assert_eq!(
            table.json(),
            [serde_json::json!({"a": "long", "life_ends": null})]
        );
    }

    #[test]
    fn wide_cells_are_broken_between_words() {
        let table = Table::new(
            &["A", "NAME"],
            vec![
                vec!["1".into(), "four long words here".into()],
                vec!["2".into(), "x".into()],
            ],
        );
        assert_eq!(
            table.text(Some(12)),
            "A  NAME\n1  four long\n   words\n   here\n2  x\n"
        );
        assert_eq!(
            table.text(Some(3)),
            "A NAME\n1 four\n  long\n  words\n  here\n2 x\n",
            "no word is broken"
        );
    }
}
