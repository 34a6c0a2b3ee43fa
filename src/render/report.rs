//! What doctor found, as one page: no file beside it, nothing fetched, no script. For those who
//! would rather look than read, and for tickets.

use super::doctor::looked_at;
use super::escaped;
use crate::doctor::{Finding, Report, Status};
use std::fmt::Write;

/// The page; `origin` says whose host it is, where it is another's.
pub(crate) fn html(report: &Report, origin: Option<&str>) -> String {
    let host = &report.host;
    let s = report.summary;
    let mut out = String::new();
    let _ = write!(
        out,
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <title>gpusetup doctor: {fail} failures, {warn} warnings</title><style>\n{css}</style></head>\n<body>\n\
         <h1>What gpusetup doctor found</h1>\n<p>{system}, {kernel}. {pass} checks passed, {fail} failed, {warn} warned, \
         {skip} do not apply. gpusetup {tool}, database {database}.</p>\n",
        css = include_str!("report.css"),
        system = escaped(&host.os.name),
        kernel = escaped(
            &host
                .kernel()
                .map_or("no kernel".to_owned(), |k| format!("kernel {k}"))
        ),
        pass = s.pass,
        fail = s.fail + s.error,
        warn = s.warn,
        skip = s.skip,
        tool = escaped(report.tool),
        database = escaped(&report.database.version),
    );
    if let Some(origin) = origin {
        let _ = writeln!(out, "<p>From {}.</p>", escaped(origin));
    }
    out += "<ul class=\"gpus\">";
    for gpu in &host.gpus {
        let name = gpu.name.as_deref().unwrap_or(&gpu.pci_id);
        let driver = gpu.bound_to.as_deref().unwrap_or(if gpu.driver_unseen {
            "driver unknown"
        } else {
            "no driver"
        });
        let _ = write!(
            out,
            "<li>{}, {}: {}</li>",
            escaped(&gpu.address),
            escaped(name),
            escaped(driver)
        );
    }
    out += "</ul>\n<table class=\"areas\">";
    for (area, worst, text) in looked_at(report) {
        let (class, word) = of_status(worst);
        let text = if text == word { "" } else { &text };
        let (title, text) = (escaped(area.title()), escaped(text));
        let _ = write!(
            out,
            "<tr class=\"{class}\"><th>{title}</th><td><i>{word}</i></td><td>{text}</td></tr>"
        );
    }
    out += "</table>\n";
    if let Some(first) = report.first() {
        let cause = first.cause.as_deref().unwrap_or(first.title);
        let _ = write!(
            out,
            "<section class=\"first\"><h2>First</h2><p>{}: {}</p>",
            first.id,
            escaped(cause)
        );
        out += &remedy(first);
        out += "</section>\n";
    }
    for status in [
        Status::Fail,
        Status::Error,
        Status::Warn,
        Status::Pass,
        Status::Skip,
    ] {
        for finding in report
            .checks
            .iter()
            .filter(|f| f.consequence_of.is_none())
            .filter(|f| f.status == status)
        {
            out += &one(finding, report);
        }
    }
    out + "</body></html>\n"
}

/// The class of a status in the style sheet, and its word.
fn of_status(status: Status) -> (&'static str, &'static str) {
    match status {
        Status::Pass => ("pass", "sound"),
        Status::Warn => ("warn", "warning"),
        Status::Fail => ("fail", "failure"),
        Status::Skip => ("skip", "not checked"),
        Status::Error => ("fail", "did not end"),
    }
}

fn one(finding: &Finding, report: &Report) -> String {
    let (class, word) = of_status(finding.status);
    let is_ill = matches!(finding.status, Status::Warn | Status::Fail | Status::Error);
    let open = if is_ill { " open" } else { "" };
    let mut out = format!(
        "<details class=\"{class}\"{open}><summary><b>{}</b> <i>{word}</i> {}</summary>\n",
        finding.id,
        escaped(finding.title)
    );
    if let Some(cause) = &finding.cause {
        let _ = writeln!(out, "<p>{}</p>", escaped(cause));
    }
    if !finding.evidence.is_empty() {
        out += "<ul>";
        for evidence in &finding.evidence {
            let _ = write!(out, "<li>{}</li>", escaped(evidence));
        }
        out += "</ul>\n";
    }
    if finding.consequence_of.is_none() {
        out += &remedy(finding);
    }
    for consequence in report
        .checks
        .iter()
        .filter(|f| f.consequence_of == Some(finding.id))
    {
        out += &one(consequence, report);
    }
    out + "</details>\n"
}

fn remedy(finding: &Finding) -> String {
    let Some(remediation) = &finding.remediation else {
        return String::new();
    };
    let mut out = format!("<p class=\"fix\">{}</p>\n", escaped(&remediation.text));
    if !remediation.commands.is_empty() {
        let _ = writeln!(
            out,
            "<pre>{}</pre>",
            escaped(&remediation.commands.join("\n"))
        );
    }
    out
}
