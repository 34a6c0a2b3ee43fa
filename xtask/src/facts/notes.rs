//! CUDA's release notes: the tables of the drivers that toolkits need, "CUDA 12.8 Update 1:
//! >=570.124.06" and "CUDA 12.x:
//! >=525.60.13", as HTML or Markdown.

use super::report::{Report, shown};
use gpusetup_database::version::{CudaVersion, DriverVersion};
use std::collections::BTreeMap;

/// The drivers of the tables.
#[derive(Default)]
pub struct Notes {
    /// The driver of each release, for all its features.
    pub native: BTreeMap<CudaVersion, DriverVersion>,
    /// The oldest driver of each major version, as written: `525.60.13`, or only its branch, `580`.
    pub minimum: BTreeMap<u16, String>,
}

/// Whether a path is that of release notes.
pub fn named(path: &str) -> bool {
    let is_page = [".html", ".htm", ".md"]
        .iter()
        .any(|end| path.ends_with(end));
    is_page && path.to_lowercase().contains("release-notes")
}

impl Notes {
    /// Adds the rows of a page. Rows that contradict those before are facts that differ.
    pub fn read(&mut self, path: &str, text: &str, report: &mut Report) {
        let mut understood = 0;
        for cells in rows(text) {
            // The first driver is Linux's, the second one Windows'.
            let [label, linux, others @ ..] = cells.as_slice() else {
                continue;
            };
            let Some(label) = label.strip_prefix("CUDA ") else {
                continue;
            };
            let place = format!("{path}, CUDA {label}");
            let Some(driver) = least(linux) else {
                if others.iter().any(|cell| least(cell).is_some()) {
                    report.unknown("rows of release notes", format!("{place}: {linux}"));
                }
                continue;
            };
            if let Some(major) = label
                .strip_suffix(".x")
                .and_then(|major| major.parse().ok())
            {
                understood += 1;
                let known = self.minimum.entry(major).or_insert_with(|| driver.clone());
                if *known != driver {
                    report.differ.push(format!(
                        "{}: {} and {}",
                        shown(place),
                        shown(known),
                        shown(driver)
                    ));
                }
                continue;
            }
            match (release(label), driver.parse::<DriverVersion>()) {
                (Some(release), Ok(driver)) => {
                    understood += 1;
                    let known = *self.native.entry(release).or_insert(driver);
                    if known != driver {
                        report
                            .differ
                            .push(format!("{}: {known} and {driver}", shown(place)));
                    }
                }
                _ => report.unknown("rows of release notes", format!("{place}: {driver}")),
            }
        }
        if understood == 0 {
            report.unknown("release notes without a table of drivers", path);
        }
    }
}

/// The release in `12.8 Update 1`, `13.0 GA`, `11.0.3 Update 1` and `10.2.89`.
fn release(label: &str) -> Option<CudaVersion> {
    let mut words = label.split_whitespace();
    let numbers = words.next()?.trim_matches(['(', ')', ',']);
    let rest: Vec<_> = words.collect();
    let series: CudaVersion = numbers
        .parse()
        .ok()
        .filter(|version: &CudaVersion| version.to_string() == numbers)?;
    let patch = match (series.patch, rest.as_slice()) {
        // The names of 11.0.1 to 11.0.3 have the patch, and say "RC", "GA" and "Update 1".
        (Some(patch), _) => patch,
        (None, [] | ["GA", ..]) => 0,
        (None, ["Update", number, ..]) => number.trim_end_matches(['*', ':']).parse().ok()?,
        _ => return None,
    };
    Some(CudaVersion {
        patch: Some(patch),
        ..series
    })
}

/// The driver in `>=570.124.06` or `≥ 525.60.13*`; none if a cell has another text.
fn least(cell: &str) -> Option<String> {
    let rest = cell.replace(' ', "");
    let rest = rest.strip_prefix(">=").or_else(|| rest.strip_prefix('≥'))?;
    let version: String = rest
        .chars()
        .take_while(|c| c.is_ascii_digit() || *c == '.')
        .collect();
    super::lists::is_version(&version).then_some(version)
}

/// The cells of the tables' rows, in HTML or Markdown.
fn rows(text: &str) -> Vec<Vec<String>> {
    let trimmed = |cell: &str| cell.split_whitespace().collect::<Vec<_>>().join(" ");
    let in_markdown = text
        .lines()
        .map(str::trim)
        .filter(|line| line.starts_with('|'));
    let mut all: Vec<Vec<_>> = in_markdown
        .map(|line| {
            line.trim_matches('|')
                .split('|')
                .map(|cell| trimmed(&plain(cell)))
                .collect()
        })
        .collect();
    // `<tr>` and `<tr class=…>`, but not `<track>`.
    let is_tag = |rest: &str| rest.starts_with(|c: char| c == '>' || c.is_whitespace());
    for row in text.split("<tr").skip(1).filter(|rest| is_tag(rest)) {
        let row = row.split("</tr").next().unwrap_or(row);
        let cells = row
            .split("<t")
            .skip(1)
            .filter_map(|rest| rest.strip_prefix(['d', 'h']).filter(|rest| is_tag(rest)));
        all.push(
            cells
                .map(|cell| trimmed(&plain(&format!("<{cell}"))))
                .collect(),
        );
    }
    all
}

/// A text without tags, and with the characters that entities stand for.
fn plain(html: &str) -> String {
    let (mut text, mut in_tag) = (String::new(), false);
    for c in html.chars() {
        match c {
            // In Markdown `<` may also be a sign.
            '<' if html.contains('>') => in_tag = true,
            '>' if in_tag => in_tag = false,
            _ if in_tag => {}
            c => text.push(c),
        }
    }
    for (entity, sign) in [
        ("&nbsp;", " "),
        ("&#160;", " "),
        ("&gt;", ">"),
        ("&lt;", "<"),
        ("&ge;", "≥"),
        ("&amp;", "&"),
    ] {
        text = text.replace(entity, sign);
    }
    text.replace('\u{a0}', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (Notes, Report) {
        let (mut notes, mut report) = (Notes::default(), Report::default());
        notes.read("release-notes.html", text, &mut report);
        (notes, report)
    }

    #[test]
    fn tables_are_read_from_html_and_markdown() {
        let html = r#"<table><tr class="row-odd"><th><p>CUDA Toolkit</p></th><th>Linux</th></tr>
            <tr class="row-even"><td style="x"><p>CUDA 12.8 Update 1</p></td>
            <td><p>&gt;=570.124.06</p></td><td><p>&gt;=572.61</p></td></tr>
            <tr><td>CUDA 13.0 GA</td><td>>=580.65.06</td><td>N/A</td></tr>
            <tr><td>CUDA 11.0.3 Update 1</td><td>&gt;= 450.51.06</td></tr>
            <tr><td>CUDA 12.x</td><td>&gt;=525.60.13*</td></tr><tr><td>CUDA 13.x</td><td>&gt;=580</td></tr></table>"#;
        let markdown = "| CUDA Toolkit | Linux |\n|---|---|\n| CUDA 12.8 Update 1 | >=570.124.06 | >=572.61 |\n\
            | CUDA 13.0 GA | >=580.65.06 | N/A |\n| CUDA 11.0.3 Update 1 | >= 450.51.06 |\n\
            | CUDA 12.x | >=525.60.13* |\n| CUDA 13.x | >=580 | |\n";
        for text in [html, markdown] {
            let (notes, report) = read(text);
            let native: Vec<_> = notes
                .native
                .iter()
                .map(|(cuda, driver)| format!("{cuda} {driver}"))
                .collect();
            assert_eq!(
                native,
                ["11.0.3 450.51.06", "12.8.1 570.124.06", "13.0.0 580.65.06"]
            );
            let minimum: Vec<_> = notes
                .minimum
                .iter()
                .map(|(major, driver)| format!("{major} {driver}"))
                .collect();
            assert_eq!(minimum, ["12 525.60.13", "13 580"]);
            assert!(report.unknown.is_empty(), "{:?}", report.unknown);
        }
    }

    #[test]
    fn strange_rows_are_named() {
        let (notes, report) = read(
            "| CUDA 12.8\"\n | >=570.124.06 |\n| CUDA x.y.z | >=570.1 |\n| CUDA 12.8 Update 1 | >=570 |\n",
        );
        assert!(
            notes.native.is_empty() && !report.unknown.is_empty(),
            "{:?}",
            report.unknown
        );
        // The driver of Windows is not that of Linux.
        let (notes, report) = read("| CUDA 12.8 GA | N/A | >=570.65 |\n");
        assert!(
            notes.native.is_empty() && !report.unknown.is_empty(),
            "{:?}",
            report.unknown
        );
        let (_, report) = read("| CUDA 12.8 GA | >=570.26 |\n| CUDA 12.8 GA | >=570.86.10 |\n");
        assert_eq!(report.differ.len(), 1);
    }
}
