//! What doctor found, for a person.

use super::Paint;
use super::prometheus::label;
use crate::doctor::{Area, BuiltFor, Finding, GpuTable, PythonEnvironment, Report, Status};
use crate::host::Facts;
use crate::nvidia::GpuReading;
use crate::text::{count, quoted_path, wrapped};
use std::path::Path;

/// How it is shown.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DoctorStyle<'a> {
    /// Whose host it is, where it is not this one.
    pub(crate) from: Option<&'a str>,
    /// The tree that was examined instead of the running host.
    pub(crate) root: Option<&'a Path>,
    /// Colours.
    pub(crate) paint: Paint,
    /// The terminal shows more than ASCII.
    pub(crate) unicode: bool,
    /// With what was read for each check, and a line of its own for each that was skipped.
    pub(crate) verbose: bool,
    /// Columns.
    pub(crate) width: usize,
}

/// A line for each area; then the findings by root cause, each with what follows from it; then the
/// one thing to do first and the number of findings. Passed and skipped checks are listed with
/// `verbose` only.
pub(crate) fn text(report: &Report, look: DoctorStyle<'_>) -> String {
    let mut out = look
        .from
        .map(|origin| wrapped("From    ", origin, look.width))
        .unwrap_or_default();
    out += &host(&report.host, look.width);
    out += &report
        .nvml
        .iter()
        .filter(|_| look.verbose)
        .map(|nvml| gpus(nvml, look.width))
        .collect::<String>();
    out += &areas(report, look);
    out.push('\n');
    let is_ill = |f: &Finding| matches!(f.status, Status::Warn | Status::Fail | Status::Error);
    let roots = report
        .checks
        .iter()
        .filter(|f| f.consequence_of.is_none() && (look.verbose || is_ill(f)));
    let before = out.len();
    for finding in roots {
        out += &one(finding, look, "");
        for consequence in report
            .checks
            .iter()
            .filter(|f| f.consequence_of == Some(finding.id))
        {
            out += &one(consequence, look, "    ");
        }
    }
    if out.len() > before {
        out.push('\n');
    }
    let ill = report.checks.iter().filter(|f| is_ill(f)).count();
    if let Some(first) = report.first().filter(|_| ill > 1) {
        let commands = first
            .remediation
            .as_ref()
            .map(|r| r.commands.as_slice())
            .unwrap_or_default();
        out += &wrapped(
            "First   ",
            &format!(
                "{}: {}",
                first.id,
                first.cause.as_deref().unwrap_or(first.title)
            ),
            look.width,
        );
        for command in commands {
            out += &format!("          {}\n", look.paint.bold(command));
        }
    }
    let fixable: Vec<_> = report
        .checks
        .iter()
        .filter(|f| f.fixable)
        .map(|f| f.id.as_str())
        .collect();
    if !fixable.is_empty() {
        let root = look
            .root
            .map(|root| format!(" --root {}", quoted_path(root)))
            .unwrap_or_default();
        let command = format!("sudo gpusetup doctor{root} --fix");
        let place = if look.from.is_some() {
            "on that host "
        } else {
            ""
        };
        let how = format!(
            "{place}{} repairs {}",
            look.paint.bold(&command),
            fixable.join(", ")
        );
        out += &wrapped("Fix     ", &how, look.width);
    }
    let mut commands = report
        .checks
        .iter()
        .filter_map(|f| f.remediation.as_ref())
        .flat_map(|r| &r.commands);
    if commands.any(|command| command.contains("chroot ")) {
        let says =
            "chroot runs a program of the tree, as root: only for a tree whose programs you trust";
        out += &wrapped("Note    ", says, look.width);
    }
    out + &counts(report, look.width)
}

fn counts(report: &Report, width: usize) -> String {
    let s = report.summary;
    if s.fail + s.warn + s.error == 0 {
        let text = format!(
            "No problems found: {} passed, {} not applicable (-v lists them).",
            count(s.pass as u64, "check"),
            s.skip
        );
        return wrapped("", &text, width);
    }
    let mut parts = vec![
        count(s.fail as u64, "problem"),
        count(s.warn as u64, "warning"),
    ];
    parts.extend(
        (s.error > 0).then(|| format!("{} that did not end", count(s.error as u64, "check"))),
    );
    parts.push(format!("{} passed", s.pass));
    parts.push(format!("{} not applicable (-v lists them)", s.skip));
    wrapped("", &format!("{}.", parts.join(", ")), width)
}

/// A line for each area that was looked at: the worst of its findings, and what is there.
fn areas(report: &Report, look: DoctorStyle<'_>) -> String {
    looked_at(report)
        .map(|(area, worst, text)| {
            marked(worst, look, "", &format!("{:<11} ", area.title()), &text)
        })
        .collect()
}

/// The areas that were looked at: the worst of their findings, and what is there.
pub(crate) fn looked_at(report: &Report) -> impl Iterator<Item = (Area, Status, String)> {
    Area::ALL.into_iter().filter_map(|area| {
        let own: Vec<_> = report.checks.iter().filter(|f| f.area == area).collect();
        let mut worst = own.iter().map(|f| f.status).max()?;
        // A sound host without a toolkit has no toolkit that is sound.
        if area == Area::Toolkit && worst == Status::Pass && report.host.toolkits.is_empty() {
            worst = Status::Skip;
        }
        let mut parts = vec![present(area, report)];
        for (status, what) in [
            (Status::Fail, "problem"),
            (Status::Error, "check that did not end"),
            (Status::Warn, "warning"),
        ] {
            let ill = own.iter().filter(|f| f.status == status).count() as u64;
            parts.extend((ill > 0).then(|| count(ill, what)));
        }
        parts.retain(|part| !part.is_empty());
        if worst == Status::Skip && parts.is_empty() {
            parts.push("not checked".to_owned());
        }
        Some((area, worst, parts.join("; ")))
    })
}

/// What a host has of an area.
fn present(area: Area, report: &Report) -> String {
    let host = &report.host;
    match area {
        Area::Gpu => names_of_gpus(host),
        Area::Kernel => host.kernel().map(str::to_owned).unwrap_or_default(),
        Area::Driver => match &host.driver {
            Some(driver) => driver.version.to_string(),
            None => match host.loaded_driver() {
                Some(version) => {
                    format!("module {version} is loaded, but no libraries of it were found")
                }
                None => "no NVIDIA driver".to_owned(),
            },
        },
        Area::Toolkit => {
            let all: Vec<_> = host
                .toolkits
                .iter()
                .map(|toolkit| toolkit.version.to_string())
                .collect();
            if all.is_empty() {
                "no toolkit".to_owned()
            } else {
                format!("CUDA {}", all.join(", "))
            }
        }
        Area::AddOns => {
            let mut all: Vec<_> = host
                .cudnn
                .iter()
                .filter_map(|found| found.version)
                .collect();
            all.sort_unstable();
            all.dedup();
            let all: Vec<_> = all.iter().map(ToString::to_string).collect();
            if all.is_empty() {
                "no cuDNN".to_owned()
            } else {
                all.join(", ")
            }
        }
        Area::Packages => host
            .os
            .package_manager
            .map(|manager| manager.to_string())
            .unwrap_or_default(),
        Area::Containers => String::new(),
        Area::Python => report
            .python
            .as_deref()
            .map(environments)
            .unwrap_or_default(),
    }
}

/// The frameworks of Python environments, and where they are: `torch 2.9.1+cu128 in /opt/venv`.
fn environments(all: &[PythonEnvironment]) -> String {
    const MAX_SHOWN_ENVIRONMENTS: usize = 3;
    if all.is_empty() {
        return "no environment with CUDA".to_owned();
    }
    let more = all.len().saturating_sub(MAX_SHOWN_ENVIRONMENTS);
    let named = all.iter().take(MAX_SHOWN_ENVIRONMENTS).map(|environment| {
        let built = environment
            .packages
            .iter()
            .filter(|package| package.build != BuiltFor::Unknown);
        let names: Vec<_> = built
            .map(|package| format!("{} {}", package.name, package.version))
            .collect();
        let names = if names.is_empty() {
            "NVIDIA's libraries".to_owned()
        } else {
            names.join(", ")
        };
        format!("{names} in {}", environment.path.display())
    });
    let named: Vec<_> = named
        .chain((more > 0).then(|| format!("{more} more (-v)")))
        .collect();
    named.join("; ")
}

/// A gauge for each check that means something here, and one with the versions as labels, as the
/// textfile collector of Prometheus' node exporter reads them.
pub(crate) fn prometheus(report: &Report) -> String {
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
        let follows = finding
            .consequence_of
            .map(|id| format!(",follows_from=\"{id}\""))
            .unwrap_or_default();
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
        text(
            host.cudnn
                .iter()
                .filter_map(|c| c.version)
                .max()
                .map(|v| v.to_string())
        ),
    )
}

fn host(facts: &Facts, width: usize) -> String {
    let kernel = facts
        .kernel()
        .map(|k| format!(", kernel {k}"))
        .unwrap_or_default();
    wrapped("Host    ", &format!("{}{kernel}", facts.os.name), width) + "\n"
}

fn names_of_gpus(facts: &Facts) -> String {
    let mut names: Vec<(&str, usize)> = Vec::new();
    for gpu in &facts.gpus {
        let name = gpu.name.as_deref().unwrap_or(&gpu.pci_id);
        match names.iter_mut().find(|(n, _)| *n == name) {
            Some((_, count)) => *count += 1,
            None => names.push((name, 1)),
        }
    }
    if names.is_empty() {
        return if facts.has_no_gpu() {
            "no NVIDIA GPU"
        } else {
            "not known here"
        }
        .to_owned();
    }
    names
        .iter()
        .map(|(name, n)| {
            if *n == 1 {
                (*name).to_owned()
            } else {
                format!("{n} × {name}")
            }
        })
        .collect::<Vec<_>>()
        .join(", ")
}

fn cells(gpu: &GpuReading) -> [String; 5] {
    let [address, name] =
        [&gpu.address, &gpu.name].map(|text| text.clone().unwrap_or_else(|| "-".to_owned()));
    let mig = match &gpu.mig {
        Some(mig) if mig.enabled => count(mig.devices.len() as u64, "instance"),
        mig => on_or_off(mig.as_ref().map(|mig| mig.enabled)),
    };
    let ecc = on_or_off(gpu.ecc.map(|e| e.enabled));
    [address, name, mig, ecc, on_or_off(gpu.persistence)]
}

fn on_or_off(on: Option<bool>) -> String {
    on.map_or("-", |on| if on { "on" } else { "off" })
        .to_owned()
}

/// What the driver says of itself, and a line for each GPU.
fn gpus(nvml: &GpuTable, width: usize) -> String {
    let Some(driver) = nvml.driver.as_deref().filter(|_| !nvml.gpus.is_empty()) else {
        return String::new();
    };
    let cuda = nvml
        .cuda
        .map(|c| format!(", which runs CUDA {c} and older"))
        .unwrap_or_default();
    let head = ["address", "name", "MIG", "ECC", "persistence"].map(str::to_owned);
    let rows: Vec<_> = [head]
        .into_iter()
        .chain(nvml.gpus.iter().map(cells))
        .collect();
    let mut widths = [0usize; 5];
    for (n, column) in widths.iter_mut().enumerate() {
        *column = rows.iter().map(|r| r[n].chars().count()).max().unwrap_or(0);
    }
    // Names may be long, and are what can be cut.
    let other_columns: usize = widths.iter().sum::<usize>() - widths[1] + 16;
    widths[1] = widths[1].min(width.saturating_sub(other_columns)).max(8);
    let mut out = wrapped("Driver  ", &format!("{driver}{cuda}"), width);
    for row in &rows {
        let cells = row.iter().zip(widths).map(|(cell, column)| {
            let cell: String = cell.chars().take(column).collect();
            format!("{cell:column$}")
        });
        out += &format!(
            "        {}\n",
            cells.collect::<Vec<_>>().join("  ").trim_end()
        );
    }
    out + "\n"
}

/// A mark, and a text behind it that is wrapped as if the mark had no colours.
fn marked(status: Status, look: DoctorStyle<'_>, indent: &str, head: &str, text: &str) -> String {
    let mark = mark(status, look.unicode);
    let columns = mark.chars().count();
    let filled = wrapped(
        &format!("{indent}{} {head}", "m".repeat(columns)),
        text,
        look.width,
    );
    let painted = match status {
        Status::Pass => look.paint.green(&mark),
        Status::Warn => look.paint.yellow(&mark),
        Status::Fail | Status::Error => look.paint.red(&mark),
        Status::Skip => look.paint.dim(&mark),
    };
    format!("{indent}{painted}{}", &filled[indent.len() + columns..])
}

fn mark(status: Status, unicode: bool) -> String {
    let (mark, plain) = match status {
        Status::Pass => ("✓", "ok"),
        Status::Warn => ("!", "!!"),
        Status::Fail => ("✗", "XX"),
        Status::Skip => ("-", "--"),
        Status::Error => ("☠", "??"),
    };
    format!("[{}]", if unicode { mark } else { plain })
}

fn one(finding: &Finding, look: DoctorStyle<'_>, indent: &str) -> String {
    let DoctorStyle {
        paint,
        unicode,
        verbose,
        width,
        ..
    } = look;
    let is_well = matches!(finding.status, Status::Pass | Status::Skip);
    let title = match (finding.status, &finding.cause) {
        (Status::Skip, Some(why)) => format!("not checked, {why}"),
        (Status::Warn | Status::Fail | Status::Error, Some(cause)) => cause.clone(),
        _ => finding.title.to_owned(),
    };
    let mut out = marked(
        finding.status,
        look,
        indent,
        &format!("{} ", finding.id),
        &title,
    );
    let mark_width = mark(finding.status, unicode).chars().count();
    let inner = format!("{indent}{} ", " ".repeat(mark_width));
    if let Some(cause) = finding.consequence_of {
        out += &wrapped(
            &format!("{inner}why   "),
            &format!("it follows from {cause}: fix that first"),
            width,
        );
    }
    if verbose || !is_well {
        for evidence in &finding.evidence {
            out += &wrapped(&format!("{inner}saw   "), evidence, width);
        }
    }
    if let Some(remediation) = finding
        .remediation
        .as_ref()
        .filter(|_| finding.consequence_of.is_none())
    {
        out += &wrapped(&format!("{inner}fix   "), &remediation.text, width);
        for command in &remediation.commands {
            // A command is not broken into lines: it is to be copied.
            out += &format!("{inner}        {}\n", paint.bold(command));
        }
    }
    out
}
