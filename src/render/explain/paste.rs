//! What a pasted text says, its causes and what helps.

use crate::causes::xid;
use crate::compat::Database;
use crate::doctor::{Finding, LoggedSxid, LoggedXid, Status};
use crate::error_code::ErrorCode;
use crate::message::MessageCause;
use crate::recognise::{NamedError, Recognised};
use crate::render::Paint;
use crate::text::{one_line, without_escapes, wrapped};
use serde::Serialize;

/// The most characters of the text that are quoted for a message.
const MOST_QUOTED: usize = 200;

/// The most error numbers of the driver, and of NVSwitches, that a report has: a log can have thousands.
const MOST_LOGGED: usize = 100;

/// The most GPUs that a line names.
const MOST_NAMED: usize = 8;

/// The most different Xids, and SXids, that a person is shown.
const MOST_KINDS: usize = 20;

/// How the report looks.
#[derive(Debug, Clone, Copy)]
pub struct Look {
    /// Colours.
    pub paint: Paint,
    /// With sources, and with symptoms in full.
    pub verbose: bool,
    /// Columns.
    pub width: usize,
}

/// What was recognised in a text.
#[derive(Debug, Serialize)]
pub struct PasteReport {
    schema: &'static str,
    /// Whether anything was.
    recognised: bool,
    messages: Vec<Explained>,
    errors: Vec<ExplainedError>,
    xids: Vec<ExplainedXid>,
    sxids: Vec<ExplainedSxid>,
    /// How many more Xids and SXids the text has; a report has at most a hundred of each.
    left_out: usize,
    /// How many messages gpusetup knows.
    #[serde(skip)]
    known: usize,
}

/// A message of the text.
#[derive(Debug, Serialize)]
pub struct Explained {
    id: String,
    title: String,
    /// The first line that has it; the text's first line is 1.
    line: usize,
    quoted: String,
    says: String,
    /// Whether another message of the text explains this one.
    symptom: bool,
    causes: Vec<ExplainedCause>,
    sources: Vec<String>,
}

#[derive(Debug, Serialize)]
struct ExplainedCause {
    because: String,
    tell: Option<String>,
    look: Option<String>,
    #[serde(rename = "do")]
    remedy: String,
    run: Vec<String>,
    /// What doctor's checks on this host say to this cause.
    here: Option<Here>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Verdict {
    /// A check found this cause.
    Supported,
    /// The checks that would find it passed.
    Contradicted,
}

#[derive(Debug, Serialize)]
struct Here {
    verdict: Verdict,
    /// The check, and what it found.
    text: String,
}

/// An error of CUDA or of a library that the text names.
#[derive(Debug, Serialize)]
pub struct ExplainedError {
    /// `CUDA`, `NVML`, `cuDNN`.
    interface: &'static str,
    code: u32,
    names: Vec<String>,
    line: usize,
    quoted: String,
    means: String,
    #[serde(rename = "do")]
    remedy: Option<String>,
    run: Vec<String>,
    source: &'static str,
}

impl ExplainedError {
    /// An error, and the line that names it.
    pub fn of(named: &NamedError<'_>, quoted: &str) -> Self {
        let ErrorCode { api, code, names, means, remedy, run, .. } = named.error.clone();
        let (interface, source) = (api.title(), api.source());
        let (line, quoted) = (named.line, quoted_or(quoted, &named.near));
        Self { interface, code, names, line, quoted, means, remedy, run, source }
    }
}

/// An error number of the driver.
#[derive(Debug, Serialize)]
struct ExplainedXid {
    xid: u16,
    name: Option<String>,
    gpu: String,
    quoted: String,
    means: String,
    #[serde(rename = "do")]
    remedy: Option<String>,
    run: Vec<String>,
}

/// An error number of an NVSwitch.
#[derive(Debug, Serialize)]
struct ExplainedSxid {
    sxid: u32,
    name: Option<String>,
    switch: String,
    fatal: bool,
    quoted: String,
    #[serde(rename = "do")]
    remedy: Option<String>,
    run: Vec<String>,
}

/// The error numbers that a kernel log has.
#[derive(Debug)]
pub struct Logged {
    /// Of GPUs.
    pub xids: Vec<LoggedXid>,
    /// Of NVSwitches.
    pub sxids: Vec<LoggedSxid>,
}

impl Explained {
    /// A recognised message, its line of the text, and what doctor found on this host.
    pub fn of(recognised: &Recognised<'_>, quoted: &str, findings: &[Finding]) -> Self {
        let message = recognised.message;
        let mut causes: Vec<_> = message.causes.iter().map(|cause| ExplainedCause::of(cause, findings)).collect();
        // What this host supports comes first, what it contradicts last.
        causes.sort_by_key(|cause| match cause.here.as_ref().map(|here| here.verdict) {
            Some(Verdict::Supported) => 0,
            None => 1,
            Some(Verdict::Contradicted) => 2,
        });
        Self {
            id: message.id.clone(),
            title: message.title.clone(),
            line: recognised.line,
            quoted: quoted_or(quoted, &recognised.near),
            says: message.says.clone(),
            symptom: recognised.is_symptom,
            causes,
            sources: message.sources.clone(),
        }
    }
}

impl ExplainedCause {
    fn of(cause: &MessageCause, findings: &[Finding]) -> Self {
        let own: Vec<_> = findings.iter().filter(|f| cause.checks.iter().any(|id| id == f.id.as_str())).collect();
        let ill = own.iter().find(|f| matches!(f.status, Status::Fail | Status::Warn));
        let here = match ill {
            Some(finding) => Some(Here {
                verdict: Verdict::Supported,
                text: format!("{}: {}", finding.id, finding.cause.as_deref().unwrap_or(finding.title)),
            }),
            None if !own.is_empty() && own.iter().all(|f| f.status == Status::Pass) => {
                let ids: Vec<_> = own.iter().map(|f| f.id.as_str()).collect();
                let verb = if ids.len() == 1 { "passes" } else { "pass" };
                Some(Here { verdict: Verdict::Contradicted, text: format!("{} {verb} on this host", ids.join(", ")) })
            }
            None => None,
        };
        let MessageCause { because, tell, look, remedy, run, .. } = cause.clone();
        Self { because, tell, look, remedy, run, here }
    }
}

impl PasteReport {
    /// Of what was found in a text; `known` messages were looked for.
    pub fn new(
        messages: Vec<Explained>,
        errors: Vec<ExplainedError>,
        logged: Logged,
        database: &Database,
        known: usize,
    ) -> Self {
        let of_xid = |logged: LoggedXid| {
            let row = database.xids.iter().find(|row| row.xid == logged.number);
            let remedy = match row {
                Some(row) => xid::remedy(row.xid, row.action, &logged.gpu),
                None => Some(xid::unknown(logged.number)),
            };
            let (remedy, run) = remedy.map(|r| (Some(r.text), r.commands)).unwrap_or_default();
            ExplainedXid {
                xid: logged.number,
                name: row.map(|row| row.name.clone()),
                gpu: one_line(&logged.gpu),
                quoted: shortened(&logged.text),
                means: row.map_or("the database does not know this number", |row| &row.means).to_owned(),
                remedy,
                run,
            }
        };
        let of_sxid = |logged: LoggedSxid| {
            let remedy = logged.is_fatal.then(xid::of_switch);
            let (remedy, run) = remedy.map(|r| (Some(r.text), r.commands)).unwrap_or_default();
            ExplainedSxid {
                sxid: logged.number,
                name: database.sxid(logged.number).map(|row| row.name.clone()),
                switch: one_line(&logged.switch),
                fatal: logged.is_fatal,
                quoted: shortened(&logged.text),
                remedy,
                run,
            }
        };
        let beyond = |all: usize| all.saturating_sub(MOST_LOGGED);
        let left_out = beyond(logged.xids.len()) + beyond(logged.sxids.len());
        let xids: Vec<_> = logged.xids.into_iter().take(MOST_LOGGED).map(of_xid).collect();
        let sxids: Vec<_> = logged.sxids.into_iter().take(MOST_LOGGED).map(of_sxid).collect();
        Self {
            schema: "gpusetup.explanation/1",
            recognised: !messages.is_empty() || !errors.is_empty() || !xids.is_empty() || !sxids.is_empty(),
            messages,
            errors,
            xids,
            sxids,
            left_out,
            known,
        }
    }
}

/// A line of somebody else's text; of a long one, the part that was recognised.
fn quoted_or(line: &str, near: &str) -> String {
    let is_long = line.chars().nth(MOST_QUOTED).is_some();
    if is_long && !near.is_empty() { format!("…{}…", shortened(near)) } else { shortened(line) }
}

/// A line of somebody else's text, safe for a terminal and not longer than is useful.
fn shortened(line: &str) -> String {
    // A line may have the whole text.
    let start: String = line.trim_start().chars().take(4 * MOST_QUOTED).collect();
    let line = one_line(without_escapes(&start).trim());
    if line.chars().count() <= MOST_QUOTED {
        return line;
    }
    line.chars().take(MOST_QUOTED).chain(['…']).collect()
}

/// The report for a person: root messages first, symptoms in a line each.
pub fn text(report: &PasteReport, look: Look) -> String {
    let Look { paint, verbose, width } = look;
    let mut out = String::new();
    if !report.recognised {
        let sentence = format!("None of the {} messages and errors that gpusetup knows is in this text.", report.known);
        out += &wrapped("Not recognised  ", &sentence, width);
        out += &wrapped("Try     ", &format!("{}  # examines this host itself", paint.bold("gpusetup doctor")), width);
        out += &wrapped(
            "Missing? ",
            "Open an issue at the project with the whole text and the cause, once you know it.",
            width,
        );
        return out;
    }
    let mut left_out = report.left_out;
    let mut shown = |count: usize, same: usize| {
        let fits = count < MOST_KINDS;
        left_out += if fits { 0 } else { same };
        fits
    };
    for (count, same) in groups(&report.xids, |xid| xid.xid).into_iter().enumerate() {
        if !shown(count, same.len()) {
            continue;
        }
        let xid = same[0];
        let name = xid.name.as_ref().map(|name| format!(" ({name})")).unwrap_or_default();
        let gpus = places("GPU", &same.iter().map(|xid| xid.gpu.as_str()).collect::<Vec<_>>());
        out += &wrapped("", &paint.bold(&format!("Xid {} of the {gpus}{name}", xid.xid)), width);
        out += &quote(&xid.quoted, look);
        out += &wrapped("  says    ", &xid.means, width);
        let run = commands(same.iter().flat_map(|xid| &xid.run));
        out += &remedy(xid.remedy.as_deref().unwrap_or("nothing needs to be done"), &run, look, "  do      ");
        out.push('\n');
    }
    for (count, same) in groups(&report.sxids, |sxid| (sxid.sxid, sxid.fatal)).into_iter().enumerate() {
        if !shown(count, same.len()) {
            continue;
        }
        let sxid = same[0];
        let name = sxid.name.as_ref().map(|name| format!(" ({name})")).unwrap_or_default();
        let switches = places("NVSwitch", &same.iter().map(|sxid| sxid.switch.as_str()).collect::<Vec<_>>());
        out += &wrapped("", &paint.bold(&format!("SXid {} of the {switches}{name}", sxid.sxid)), width);
        out += &quote(&sxid.quoted, look);
        let says = match sxid.fatal {
            true => "Fatal: programs that used links of this NVSwitch were aborted.",
            false => "Not fatal: programs went on.",
        };
        out += &wrapped("  says    ", says, width);
        let run = commands(same.iter().flat_map(|sxid| &sxid.run));
        out += &remedy(sxid.remedy.as_deref().unwrap_or("nothing needs to be done"), &run, look, "  do      ");
        out.push('\n');
    }
    if left_out > 0 {
        out += &wrapped(
            "",
            &format!("The text has {left_out} more Xids and SXids, each counted once for each GPU."),
            width,
        );
        out.push('\n');
    }
    let (symptoms, roots): (Vec<_>, Vec<_>) = report.messages.iter().partition(|m| m.symptom && !verbose);
    for message in roots {
        out += &wrapped("", &paint.bold(&message.title), width);
        out += &quote(&message.quoted, look);
        out += &wrapped("  says    ", &message.says, width);
        let several = message.causes.len() > 1;
        for (n, cause) in message.causes.iter().enumerate() {
            let first = if several { format!("  cause {} ", n + 1) } else { "  cause   ".to_owned() };
            out += &wrapped(&first, &cause.because, width);
            if let Some(here) = &cause.here {
                let (word, text) = match here.verdict {
                    Verdict::Supported => (paint.red("  here    "), here.text.clone()),
                    Verdict::Contradicted => {
                        (paint.green("  here    "), format!("{}, which speaks against it", here.text))
                    }
                };
                out += &wrapped("          ", &text, width).replacen("          ", &word, 1);
            }
            if let Some(tell) = cause.tell.as_ref().filter(|_| several || cause.here.is_none()) {
                out += &format!("  check   {}\n", paint.bold(tell));
                out += &cause.look.as_ref().map(|seen| wrapped("          ", seen, width)).unwrap_or_default();
            }
            out += &remedy(&cause.remedy, &cause.run, look, "  do      ");
        }
        if message.causes.is_empty() {
            out += &wrapped("  cause   ", "not established: the text alone does not tell", width);
        }
        if verbose {
            out += &message.sources.iter().map(|source| format!("  source  {source}\n")).collect::<String>();
        }
        out.push('\n');
    }
    for error in &report.errors {
        let title = format!("{} error {} ({})", error.interface, error.code, error.names.join(", "));
        out += &wrapped("", &paint.bold(&title), width);
        out += &quote(&error.quoted, look);
        out += &wrapped("  says    ", &error.means, width);
        match &error.remedy {
            Some(text) => out += &remedy(text, &error.run, look, "  do      "),
            None => out.extend(error.run.iter().map(|command| format!("  look    {}\n", paint.bold(command)))),
        }
        if verbose {
            out += &format!("  source  {}\n", error.source);
        }
        out.push('\n');
    }
    for message in symptoms {
        out += &wrapped("Follows from that: ", &message.title, width);
    }
    out.truncate(out.trim_end().len());
    out.push('\n');
    out
}

/// What has the same key, in the order of the first one of each.
fn groups<T, K: PartialEq>(all: &[T], key: impl Fn(&T) -> K) -> Vec<Vec<&T>> {
    let mut groups: Vec<Vec<&T>> = Vec::new();
    for one in all {
        match groups.iter_mut().find(|group| key(group[0]) == key(one)) {
            Some(group) => group.push(one),
            None => groups.push(vec![one]),
        }
    }
    groups
}

/// `GPU at 0000:17:00.0`, `GPUs at 0000:17:00.0, 0000:65:00.0 and 6 more`.
fn places(what: &str, all: &[&str]) -> String {
    let plural = match what {
        _ if all.len() == 1 => "",
        "NVSwitch" => "es",
        _ => "s",
    };
    let more = all.len().saturating_sub(MOST_NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{what}{plural} at {}{more}", all[..all.len().min(MOST_NAMED)].join(", "))
}

/// Commands, each once, and not more than a person would run.
fn commands<'a>(all: impl Iterator<Item = &'a String>) -> Vec<String> {
    let mut commands: Vec<String> = Vec::new();
    for command in all {
        if !commands.contains(command) && commands.len() < MOST_NAMED {
            commands.push(command.clone());
        }
    }
    commands
}

fn quote(line: &str, look: Look) -> String {
    let quoted = wrapped("  > ", line, look.width);
    quoted.lines().map(|line| look.paint.dim(line) + "\n").collect()
}

fn remedy(text: &str, commands: &[String], look: Look, first: &str) -> String {
    let mut out = wrapped(first, text, look.width);
    out.extend(commands.iter().map(|command| format!("            {}\n", look.paint.bold(command))));
    out
}
