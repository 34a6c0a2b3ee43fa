//! The database as tables, and a page for each of its subjects.

pub mod list;
pub mod show;
mod table;

pub(crate) use table::Table;

use crate::compat::{Database, Tally};
use crate::text::{count, wrapped};

/// What `db check` found, when nothing is wrong.
pub(crate) fn check(database: &Database, tally: &Tally, width: usize) -> String {
    let rows: Vec<_> = tally
        .kinds
        .iter()
        .map(|k| {
            let counts = [
                k.count,
                k.measured,
                k.published,
                k.reported,
                k.assumed,
                k.two_or_more,
            ];
            std::iter::once(k.kind.to_owned())
                .chain(counts.map(|n| n.to_string()))
                .collect()
        })
        .collect();
    let sums = &tally.checksums;
    let mut out = format!("Database {}: 0 errors\n\n", database.version);
    out += &Table::new(
        &[
            "FACTS",
            "COUNT",
            "MEASURED",
            "PUBLISHED",
            "REPORTED",
            "ASSUMED",
            "2+ SOURCES",
        ],
        rows,
    )
    .text(Some(width));
    let text = format!(
        "of {}: {} given alike by two or more independent sources, {} by one, {} not known (listed, never chosen)",
        count(
            (sums.unknown + sums.one_source + sums.two_or_more) as u64,
            "file"
        ),
        sums.two_or_more,
        sums.one_source,
        sums.unknown
    );
    out += &wrapped("\nChecksums  ", &text, width);
    for (title, remarks) in [
        ("Assumed in part,", &tally.assumed),
        ("Sources differ on", &tally.disagreements),
    ] {
        out += &format!("\n{title} {}:\n", count(remarks.len() as u64, "record"));
        for remark in remarks {
            out += &wrapped("  ", &format!("{}: {}", remark.record, remark.text), width);
        }
    }
    out
}
