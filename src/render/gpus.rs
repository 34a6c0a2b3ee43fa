//! The table of GPUs for a person.

mod bands;
mod values;

use super::Paint;
use crate::gpu_guide::{GpuField, GpuGuide};
use crate::gpus::topology::{Connection, PciWay};
use crate::gpus::{Finding, GpuReport, JudgedGpu};
use crate::nvidia::ProcessKind;
use crate::subject::{self, Subject};
use crate::text::{count, gpus_at, padded, wrapped};
use bands::bands;
use std::collections::BTreeSet;
use std::fmt::Write;

/// How it is shown.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GpuStyle<'a> {
    /// Columns.
    pub(crate) width: usize,
    /// Colours.
    pub(crate) paint: Paint,
    /// The field's texts.
    pub(crate) guide: &'a GpuGuide,
    /// With everything that each GPU reports and what the words mean: the terms, in the caller's
    /// language.
    pub(crate) terms: Option<&'a [Subject]>,
}

/// The table, the way between GPUs, their processes, and what is not ok.
pub(crate) fn text(report: &GpuReport, look: GpuStyle<'_>) -> String {
    let mut out = head(report, look.width);
    out += &format!("\n{}", overview(report, look.width));
    if let Some(terms) = look.terms {
        report
            .gpus
            .iter()
            .for_each(|gpu| out += &details(gpu, look));
        out += &topology(report, look.width);
        out += &processes(report, look.width);
        out += &findings(report, look);
        return out + &words(report, terms, look);
    }
    out + &topology(report, look.width) + &processes(report, look.width) + &findings(report, look)
}

fn head(report: &GpuReport, width: usize) -> String {
    let line = |label: &str, text: String| wrapped(&format!("{label:<12} "), &text, width);
    let cuda = report
        .cuda
        .map(|cuda| format!(", runs CUDA {cuda} and older"))
        .unwrap_or_default();
    let driver = report.driver.as_deref().unwrap_or("of unknown version");
    let mut out = line("Driver", format!("{driver}{cuda}"));
    if report.excluded > 0 {
        out += &line(
            "Excluded",
            count(report.excluded.into(), "GPU") + ", by the driver's configuration",
        );
    }
    if report.confidential_computing == Some(true) {
        let ready = match report.accepts_work {
            Some(true) => ", the GPUs accept work",
            Some(false) => ", the GPUs do not accept work yet",
            None => "",
        };
        out += &line("Confidential", format!("computing is on{ready}"));
    }
    out
}

/// What a column of the overview shows of a GPU.
type Column = (&'static str, fn(&JudgedGpu) -> String);

const COLUMNS: [Column; 13] = [
    ("GPU", |gpu| gpu.index.to_string()),
    ("ADDRESS", |gpu| {
        values::or_nothing(gpu.reading.address.clone())
    }),
    ("NAME", |gpu| {
        values::or_nothing(gpu.reading.name.as_deref().map(values::short_name))
    }),
    ("JUDGED", |gpu| gpu.judgement.as_str().to_owned()),
    ("TEMP", |gpu| {
        values::or_nothing(
            gpu.reading
                .temperature
                .map(|t| format!("{} C", t.gpu_celsius)),
        )
    }),
    ("POWER", |gpu| {
        values::or_nothing(gpu.reading.power.map(values::short_power))
    }),
    ("MEMORY", |gpu| {
        values::or_nothing(gpu.reading.memory.map(values::short_memory))
    }),
    ("UTIL", |gpu| {
        values::or_nothing(
            gpu.reading
                .utilization
                .map(|u| format!("{} %", u.gpu_percent)),
        )
    }),
    ("STATE", |gpu| {
        values::or_nothing(gpu.reading.performance_state.map(values::state))
    }),
    ("ECC", |gpu| {
        values::or_nothing(gpu.reading.ecc.map(values::short_ecc))
    }),
    ("MIG", |gpu| {
        values::or_nothing(gpu.reading.mig.as_ref().map(values::short_mig))
    }),
    ("COMPUTE", |gpu| {
        values::or_nothing(
            gpu.reading
                .compute_mode
                .map(|mode| values::compute_mode(mode).to_owned()),
        )
    }),
    ("DISPLAY", |gpu| {
        values::or_nothing(values::display(&gpu.reading))
    }),
];

fn overview(report: &GpuReport, width: usize) -> String {
    if report.gpus.is_empty() {
        return wrapped("", "The driver lists no GPU.", width);
    }
    let headings: Vec<_> = COLUMNS
        .iter()
        .map(|(heading, _)| (*heading).to_owned())
        .collect();
    let rows: Vec<Vec<_>> = report
        .gpus
        .iter()
        .map(|gpu| COLUMNS.iter().map(|(_, cell)| cell(gpu)).collect())
        .collect();
    bands(&headings, &rows, width)
}

/// Everything that a GPU reports, a line each, with the judgement.
fn details(gpu: &JudgedGpu, look: GpuStyle<'_>) -> String {
    let mut out = format!(
        "\n{}\n",
        look.paint
            .bold(&format!("GPU {}  {}", gpu.index, gpu.reading.shown()))
    );
    let widest = look
        .guide
        .fields
        .iter()
        .map(|row| row.label.len())
        .max()
        .unwrap_or(0);
    for row in &look.guide.fields {
        let judged = gpu.judgements.iter().find(|one| one.field == row.field);
        let refused = gpu
            .reading
            .absent
            .iter()
            .find(|absent| absent.field == row.field)
            .map(|absent| &absent.refused);
        let shown = match (values::of(&gpu.reading, row.field), refused) {
            (Some(value), _) => value,
            (None, Some(refused)) => format!("-  ({})", values::why_absent(refused)),
            (None, None) => continue,
        };
        let says = judged
            .and_then(|one| one.says.as_ref())
            .map(|says| format!("; {says}"))
            .unwrap_or_default();
        let verdict = padded(judged.map_or("", |one| one.judgement.as_str()), 8);
        let first = format!("  {:<widest$}  {verdict}", row.label);
        out += &wrapped(&first, &format!("{shown}{says}"), look.width);
    }
    out
}

fn topology(report: &GpuReport, width: usize) -> String {
    let answering: Vec<_> = report
        .gpus
        .iter()
        .filter(|gpu| gpu.reading.refused.is_none())
        .collect();
    if answering.len() < 2 && report.nics.is_empty() {
        return String::new();
    }
    let mut headings = vec!["WAY".to_owned()];
    headings.extend(answering.iter().map(|gpu| format!("GPU{}", gpu.index)));
    headings.extend(report.nics.iter().map(|nic| nic.name.clone()));
    headings.extend(["CPUS".to_owned(), "NUMA".to_owned()]);
    let rows: Vec<_> = answering
        .iter()
        .map(|gpu| {
            let mut row = vec![format!("GPU{}", gpu.index)];
            row.extend(
                answering
                    .iter()
                    .map(|other| way(report, gpu.index, other.index)),
            );
            let nics = report
                .nics
                .iter()
                .map(|nic| nic.ways.get(gpu.index).copied().flatten());
            row.extend(nics.map(|way| values::or_nothing(way.map(|way| way.as_str().to_owned()))));
            row.push(values::or_nothing(gpu.locality.cpus.clone()));
            row.push(values::or_nothing(
                gpu.locality.numa_node.map(|node| node.to_string()),
            ));
            row
        })
        .collect();
    format!("\n{}", bands(&headings, &rows, width))
}

/// The fastest way between two GPUs: `NV12`, `PIX`; `X` to itself.
fn way(report: &GpuReport, one: usize, other: usize) -> String {
    if one == other {
        return "X".to_owned();
    }
    let pair = (one.min(other), one.max(other));
    match report
        .connections
        .iter()
        .find(|connection| (connection.from, connection.to) == pair)
    {
        Some(Connection {
            nvlinks: 0, pci, ..
        }) => values::or_nothing(pci.map(PciWay::as_str).map(str::to_owned)),
        Some(connection) => format!("NV{}", connection.nvlinks),
        None => values::or_nothing(None),
    }
}

fn processes(report: &GpuReport, width: usize) -> String {
    let each = report.gpus.iter().flat_map(|gpu| {
        gpu.reading
            .processes
            .iter()
            .flatten()
            .map(move |p| (gpu.index, p))
    });
    let rows: Vec<_> = each
        .map(|(gpu, process)| {
            let kind = match process.kind {
                ProcessKind::Compute => "compute",
                ProcessKind::Graphics => "graphics",
                ProcessKind::ComputeAndGraphics => "both",
            };
            let instance = match (process.gpu_instance, process.compute_instance) {
                (Some(gpu), Some(compute)) => format!("{gpu}/{compute}"),
                (Some(gpu), None) => gpu.to_string(),
                (None, _) => values::or_nothing(None),
            };
            vec![
                gpu.to_string(),
                process.pid.to_string(),
                kind.to_owned(),
                values::or_nothing(process.memory_bytes.map(values::mebibytes)),
                instance,
                values::or_nothing(process.name.clone()),
            ]
        })
        .collect();
    if rows.is_empty() {
        return "\nNo process uses a GPU, or none is to be seen from here.\n".to_owned();
    }
    let headings = ["GPU", "PROCESS", "KIND", "MEMORY", "MIG", "NAME"].map(str::to_owned);
    format!("\n{}", bands(&headings, &rows, width))
}

fn findings(report: &GpuReport, look: GpuStyle<'_>) -> String {
    if report.findings.is_empty() {
        return if report.gpus.is_empty() {
            String::new()
        } else {
            "\nEvery reading is ok.\n".to_owned()
        };
    }
    let mut out = String::from("\n");
    for finding in &report.findings {
        out += &finding_text(finding, report.gpus.len(), look);
    }
    out
}

fn finding_text(finding: &Finding, of: usize, look: GpuStyle<'_>) -> String {
    let first = padded(finding.judgement.as_str(), 8);
    let indent = " ".repeat(first.len());
    let mut out = wrapped(
        &first,
        &format!("{}: {}", gpus_at(&finding.gpus, of), finding.says),
        look.width,
    );
    out += &wrapped(&indent, &finding.remedy, look.width);
    for command in &finding.commands {
        let _ = writeln!(out, "{indent}  {}", look.paint.bold(command));
    }
    out
}

/// What each word means that is shown, once, and where the limits come from.
fn words(report: &GpuReport, terms: &[Subject], look: GpuStyle<'_>) -> String {
    let shown = look
        .guide
        .fields
        .iter()
        .filter(|row| is_shown(report, row.field));
    let mut seen = BTreeSet::new();
    let mut out = format!("\n{}\n", look.paint.bold("What the words mean"));
    let absent = report.gpus.iter().any(|gpu| !gpu.reading.absent.is_empty());
    let names = shown
        .map(|row| row.term.as_str())
        .chain(absent.then_some("n/a"));
    for subject in names.filter_map(|name| subject::find(terms, name)) {
        if seen.insert(subject.names.first()) {
            out += &wrapped("  ", &subject.title, look.width);
            out += &wrapped("      ", &subject.means, look.width);
        }
    }
    out += &format!(
        "\n{}\n",
        look.paint.bold("Where NVIDIA says what is normal")
    );
    let judged: BTreeSet<_> = report
        .gpus
        .iter()
        .flat_map(|gpu| &gpu.judgements)
        .map(|one| (one.field, one.source.as_str()))
        .collect();
    for (field, source) in judged {
        out += &wrapped(
            &format!("  {:<18} ", look.guide.field(field).label),
            source,
            look.width,
        );
    }
    out
}

fn is_shown(report: &GpuReport, field: GpuField) -> bool {
    match field {
        GpuField::Topology => report.gpus.len() > 1,
        GpuField::ConfidentialComputing => report.confidential_computing == Some(true),
        GpuField::Response => report.gpus.iter().any(|gpu| gpu.reading.refused.is_some()),
        field => report.gpus.iter().any(|gpu| {
            values::of(&gpu.reading, field).is_some()
                || gpu
                    .reading
                    .absent
                    .iter()
                    .any(|absent| absent.field == field)
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu_guide::Judgement;
    use crate::gpus::guide;
    use gpusetup_data::subjects;

    #[test]
    fn each_field_that_can_be_shown_has_a_term_with_a_meaning() {
        let (guide, terms) = (guide(), subjects());
        for field in GpuField::ALL {
            let row = guide.field(field);
            let term = subject::find(&terms, &row.term)
                .unwrap_or_else(|| panic!("{field:?}: no term {}", row.term));
            assert!(
                term.means.len() > 40 && !term.sources.is_empty(),
                "{field:?}: {term:?}"
            );
        }
        let heading = |judgement: Judgement| judgement.as_str();
        assert!(
            [Judgement::Ok, Judgement::Check, Judgement::Replace]
                .map(heading)
                .iter()
                .all(|word| word.len() < 8)
        );
    }

    #[test]
    fn the_words_of_values_are_explained_by_the_terms_of_their_fields() {
        let (guide, terms) = (guide(), subjects());
        for (field, words) in [
            (GpuField::PerformanceState, &["P0"][..]),
            (
                GpuField::Ecc,
                &["Volatile", "aggregate", "Corrected", "uncorrected"],
            ),
            (
                GpuField::Topology,
                &["NV", "PIX", "PXB", "PHB", "NODE", "SYS", "CPUs"],
            ),
            (GpuField::Temperature, &["slowdown", "shutdown", "margin"]),
            (GpuField::Memory, &["Reserved", "Used"]),
            (
                GpuField::ComputeMode,
                &["Default", "Exclusive_Process", "Prohibited"],
            ),
            (GpuField::Pcie, &["x16", "Replays", "generation"]),
            (
                GpuField::Virtualization,
                &["passthrough", "vGPU guest", "vGPU host"],
            ),
            (GpuField::Display, &["attached", "active"]),
        ] {
            let term = subject::find(&terms, &guide.field(field).term).expect("a term");
            for word in words {
                assert!(
                    term.means.contains(word),
                    "{field:?} does not explain {word}: {}",
                    term.means
                );
            }
        }
    }
}
