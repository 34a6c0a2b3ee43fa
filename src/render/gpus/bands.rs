//! A table that is wider than the terminal: its columns in several bands below each other, each
//! with the first column.

use crate::text::{columns, padded};

/// The spaces between two columns.
const GAP: usize = 2;

/// Rows under headings. No cell is broken into lines; one that is wider than the terminal is cut.
pub(crate) fn bands(headings: &[String], rows: &[Vec<String>], width: usize) -> String {
    let lines = std::iter::once(headings).chain(rows.iter().map(Vec::as_slice));
    let mut widths: Vec<_> = (0..headings.len())
        .map(|n| {
            let cells = lines.clone().filter_map(|line| line.get(n));
            cells.map(|cell| columns(cell)).max().unwrap_or(0)
        })
        .collect();
    let first = widths.first().copied().unwrap_or(0);
    let room = width.saturating_sub(first + GAP).max(1);
    widths.iter_mut().for_each(|own| *own = (*own).min(room));
    let mut all: Vec<Vec<usize>> = Vec::new();
    let mut used = 0;
    for (n, own) in widths.iter().enumerate().skip(1) {
        match all.last_mut().filter(|_| used + GAP + own <= room) {
            Some(band) => {
                band.push(n);
                used += GAP + own;
            }
            None => {
                all.push(vec![n]);
                used = *own;
            }
        }
    }
    all.iter()
        .map(|band| -> String {
            lines
                .clone()
                .map(|line| {
                    let cells = std::iter::once(&0).chain(band).map(|n| {
                        let own = if *n == 0 { first } else { widths[*n] };
                        padded(
                            &cut(line.get(*n).map_or("", String::as_str), own),
                            own + GAP,
                        )
                    });
                    cells.collect::<String>().trim_end().to_owned() + "\n"
                })
                .collect()
        })
        .collect::<Vec<_>>()
        .join("\n")
}

/// A text of at most `width` columns; the end of one that was cut says so.
fn cut(text: &str, width: usize) -> String {
    if columns(text) <= width {
        return text.to_owned();
    }
    let mut out = String::new();
    for c in text.chars() {
        out.push(c);
        if columns(&out) + 3 > width {
            out.pop();
            break;
        }
    }
    out + &"..."[..width.min(3)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(cells: &[&str]) -> Vec<String> {
        cells.iter().map(|cell| (*cell).to_owned()).collect()
    }

    #[test]
    fn columns_without_room_begin_a_band() {
        let table = |width| {
            bands(
                &row(&["GPU", "NAME", "TEMP"]),
                &[row(&["0", "A100-SXM4", "31 C"])],
                width,
            )
        };
        assert_eq!(table(40), "GPU  NAME       TEMP\n0    A100-SXM4  31 C\n");
        assert_eq!(
            table(15),
            "GPU  NAME\n0    A100-SXM4\n\nGPU  TEMP\n0    31 C\n"
        );
        assert_eq!(
            table(12),
            "GPU  NAME\n0    A100...\n\nGPU  TEMP\n0    31 C\n"
        );
        assert!(!table(1).is_empty());
    }
}
