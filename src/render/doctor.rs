//! What doctor found, for a person.

use super::Paint;
use crate::doctor::{Finding, Nvml, Report, Status};
use crate::host::Facts;
use crate::nvidia::NvmlGpu;
use crate::text::{count, visible, wrapped};

/// How it is shown.
#[derive(Debug, Clone, Copy)]
pub struct Look<'a> {
    /// Whose host it is, where it is not this one.
    pub from: Option<&'a str>,
    /// Colours.
    pub paint: Paint,
    /// The terminal shows more than ASCII.
    pub unicode: bool,
    /// With what was read for each check, and a line of its own for each that was skipped.
    pub verbose: bool,
    /// Columns.
    pub width: usize,
}

/// The findings, each with its cause and what mends it, what follows from another under that one; then the one thing to
/// do first, and how many of each.
pub fn text(report: &Report, look: Look<'_>) -> String {
    let mut out = look.from.map(|origin| wrapped("From    ", origin, look.width)).unwrap_or_default();
    out += &host(&report.host, look.width);
    out += &report.nvml.iter().filter(|_| look.verbose).map(|nvml| gpus(nvml, look.width)).collect::<String>();
    let shown = |f: &&Finding| f.consequence_of.is_none() && (look.verbose || f.status != Status::Skip);
    for finding in report.checks.iter().filter(shown) {
        out += &one(finding, look, "");
        for consequence in report.checks.iter().filter(|f| f.consequence_of == Some(finding.id)) {
            out += &one(consequence, look, "    ");
        }
    }
    if !look.verbose {
        out += &skipped(report, look);
    }
    out.push('\n');
    if let Some(first) = report.first() {
        let commands = first.remediation.as_ref().map(|r| r.commands.as_slice()).unwrap_or_default();
        out += &wrapped(
            "First   ",
            &format!("{}: {}", first.id, first.cause.as_deref().unwrap_or(first.title)),
            look.width,
        );
        for command in commands {
            out += &format!("          {}\n", look.paint.bold(command));
        }
    }
    let fixable: Vec<_> = report.checks.iter().filter(|f| f.fixable).map(|f| f.id.as_str()).collect();
    if !fixable.is_empty() {
        let how = format!("{} mends {}", look.paint.bold("sudo gpusetup doctor --fix"), fixable.join(", "));
        let place = if look.from.is_some() { "on that host " } else { "" };
        out += &wrapped("Fix     ", &format!("{place}{how}"), look.width);
    }
    let s = report.summary;
    let mut parts = vec![count(s.fail as u64, "problem"), count(s.warn as u64, "warning")];
    parts.extend((s.error > 0).then(|| format!("{} that did not end", count(s.error as u64, "check"))));
    parts.push(format!("{} passed", s.pass));
    parts.push(format!("{} not applicable", s.skip));
    out += &format!("{}.\n", parts.join(", "));
    out
}

/// A gauge for each check that means something here, and one with the versions as labels, as the textfile collector of
/// Prometheus' node exporter reads them.
pub fn prometheus(report: &Report) -> String {
    let mut out = "# HELP gpusetup_check What doctor found: 0 sound, 1 warning, 2 failure, 3 the check did not end.\n\
                   # TYPE gpusetup_check gauge\n"
        .to_owned();
    for finding in &report.checks {
        let value = match finding.status {
            Status::Skip => continue,
            Status::Pass => 0,
            Status::Warn => 1,
            Status::Fail => 2,
            Status::Error => 3,
        };
        let follows = finding.consequence_of.map(|id| format!(",follows_from=\"{id}\"")).unwrap_or_default();
        out += &format!("gpusetup_check{{id=\"{}\"{follows}}} {value}\n", finding.id);
    }
    let host = &report.host;
    let text = |version: Option<String>| version.unwrap_or_default();
    out + &format!(
        "# HELP gpusetup_info Versions on the host; a label is empty where there is none.\n\
         # TYPE gpusetup_info gauge\n\
         gpusetup_info{{tool=\"{}\",database=\"{}\",driver=\"{}\",cuda=\"{}\",cudnn=\"{}\"}} 1\n",
        label(report.tool),
        label(&report.database.version),
        text(host.driver.as_ref().map(|d| d.version.to_string())),
        text(host.toolkits.last().map(|t| t.version.to_string())),
        text(host.cudnn.iter().filter_map(|c| c.version).max().map(|v| v.to_string())),
    )
}

/// A label's value as Prometheus reads it back.
fn label(text: &str) -> String {
    visible(text).replace('\\', "\\\\").replace('"', "\\\"")
}

/// The skipped checks, a line for each reason.
fn skipped(report: &Report, look: Look<'_>) -> String {
    let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
    for finding in report.checks.iter().filter(|f| f.status == Status::Skip) {
        let why = finding.cause.as_deref().unwrap_or_default();
        match reasons.iter_mut().find(|(reason, _)| *reason == why) {
            Some((_, ids)) => ids.push(finding.id.as_str()),
            None => reasons.push((why, vec![finding.id.as_str()])),
        }
    }
    let mark = if look.unicode { "[-] " } else { "[--] " };
    reasons
        .iter()
        .map(|(why, ids)| wrapped(mark, &format!("{}: not checked, {why}", ids.join(" ")), look.width))
        .collect()
}

fn host(facts: &Facts, width: usize) -> String {
    let kernel = facts.kernel().map(|k| format!(", kernel {k}")).unwrap_or_default();
    let mut names: Vec<(&str, usize)> = Vec::new();
    for gpu in &facts.gpus {
        let name = gpu.name.as_deref().unwrap_or(&gpu.pci_id);
        match names.iter_mut().find(|(n, _)| *n == name) {
            Some((_, count)) => *count += 1,
            None => names.push((name, 1)),
        }
    }
    let times = |(name, n): &(&str, usize)| if *n == 1 { (*name).to_owned() } else { format!("{n} × {name}") };
    let gpus = if names.is_empty() {
        "no NVIDIA GPU".to_owned()
    } else {
        names.iter().map(times).collect::<Vec<_>>().join(", ")
    };
    wrapped("Host    ", &format!("{}{kernel}, {gpus}", facts.os.name), width) + "\n"
}

/// What the driver says of itself, and a line for each GPU.
fn gpus(nvml: &Nvml, width: usize) -> String {
    let Some(driver) = nvml.driver.as_deref().filter(|_| !nvml.gpus.is_empty()) else { return String::new() };
    let cuda = nvml.cuda.map(|c| format!(", which runs CUDA {c} and older")).unwrap_or_default();
    let word = |on: Option<bool>| on.map_or("-", |on| if on { "on" } else { "off" }).to_owned();
    let mig = |gpu: &NvmlGpu| match gpu.mig {
        Some(mig) if mig.enabled => count(u64::from(mig.instances), "instance"),
        mig => word(mig.map(|m| m.enabled)),
    };
    let row = |gpu: &NvmlGpu| {
        let [address, name] = [&gpu.address, &gpu.name].map(|text| text.clone().unwrap_or_else(|| "-".to_owned()));
        [address, name, mig(gpu), word(gpu.ecc.map(|e| e.enabled)), word(gpu.persistence)]
    };
    let head = ["address", "name", "MIG", "ECC", "persistence"].map(str::to_owned);
    let rows: Vec<_> = [head].into_iter().chain(nvml.gpus.iter().map(row)).collect();
    let mut widths = [0usize; 5];
    for (n, column) in widths.iter_mut().enumerate() {
        *column = rows.iter().map(|r| r[n].chars().count()).max().unwrap_or(0);
    }
    // Names may be long, and are what can be cut.
    let beside: usize = widths.iter().sum::<usize>() - widths[1] + 16;
    widths[1] = widths[1].min(width.saturating_sub(beside)).max(8);
    let mut out = wrapped("Driver  ", &format!("{driver}{cuda}"), width);
    for row in &rows {
        let cells = row.iter().zip(widths).map(|(cell, column)| {
            let cell: String = cell.chars().take(column).collect();
            format!("{cell:column$}")
        });
        out += &format!("        {}\n", cells.collect::<Vec<_>>().join("  ").trim_end());
    }
    out + "\n"
}

fn one(finding: &Finding, look: Look<'_>, indent: &str) -> String {
    let Look { paint, unicode, verbose, width, .. } = look;
    let (mark, plain) = match finding.status {
        Status::Pass => ("✓", "ok"),
        Status::Warn => ("!", "!!"),
        Status::Fail => ("✗", "XX"),
        Status::Skip => ("-", "--"),
        Status::Error => ("☠", "??"),
    };
    let mark = format!("[{}]", if unicode { mark } else { plain });
    let mark_width = mark.chars().count();
    let mark = match finding.status {
        Status::Pass => paint.green(&mark),
        Status::Warn => paint.yellow(&mark),
        Status::Fail | Status::Error => paint.red(&mark),
        Status::Skip => paint.dim(&mark),
    };
    let is_well = matches!(finding.status, Status::Pass | Status::Skip);
    let title = match (finding.status, &finding.cause) {
        (Status::Skip, Some(why)) => format!("not checked, {why}"),
        (Status::Warn | Status::Fail | Status::Error, Some(cause)) => cause.clone(),
        _ => finding.title.to_owned(),
    };
    // Filled as if the mark had no colours, then given them.
    let head = format!("{indent}{} {} ", "m".repeat(mark_width), finding.id);
    let filled = wrapped(&head, &title, width);
    let mut out = format!("{indent}{mark}{}", &filled[indent.len() + mark_width..]);
    let inner = format!("{indent}{} ", " ".repeat(mark_width));
    if let Some(cause) = finding.consequence_of {
        out += &wrapped(&format!("{inner}why   "), &format!("it follows from {cause}: mend that first"), width);
    }
    if verbose || !is_well {
        for evidence in &finding.evidence {
            out += &wrapped(&format!("{inner}saw   "), evidence, width);
        }
    }
    if let Some(remediation) = finding.remediation.as_ref().filter(|_| finding.consequence_of.is_none()) {
        out += &wrapped(&format!("{inner}fix   "), &remediation.text, width);
        for command in &remediation.commands {
            // A command is not broken into lines: it is to be copied.
            out += &format!("{inner}        {}\n", paint.bold(command));
        }
    }
    out
}
