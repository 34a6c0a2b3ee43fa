//! Recorded tables: tab-separated lines after comment lines with the origin and the column names.

use crate::{Result, project};
use std::fmt::Write;
use std::fs;

/// The rows of a table, without its comment lines.
pub fn read(name: &str) -> Result<Vec<Vec<String>>> {
    let path = project().join("xtask/recorded").join(name);
    let text = fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    let rows = text.lines().filter(|line| !line.starts_with('#'));
    Ok(rows
        .map(|row| row.split('\t').map(str::to_owned).collect())
        .collect())
}

/// Writes a table: its origin, its column names, and the rows.
pub fn write(name: &str, origin: &str, columns: &[&str], rows: &[Vec<String>]) -> Result<()> {
    let mut text = format!("# {origin}\n# {}\n", columns.join("\t"));
    for row in rows {
        let _ = writeln!(text, "{}", row.join("\t"));
    }
    let path = project().join("xtask/recorded").join(name);
    fs::write(&path, text).map_err(|e| format!("{}: {e}", path.display()))
}
