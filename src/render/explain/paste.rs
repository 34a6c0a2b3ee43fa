//! What a pasted text says, its causes and what helps.

use super::ExplainStyle;
use super::article::Article;
use crate::causes::Remedy;
use crate::causes::{offline_root, xid};
use crate::compat::{Database, XidAction};
use crate::doctor::{Finding, LoggedSxid, LoggedXid, Status};
use crate::error_code::ErrorCode;
use crate::ids::CheckId;
use crate::language;
use crate::message::MessageCause;
use crate::recognise::{NamedError, Recognised};
use crate::text::{one_line, padded, without_escapes, wrapped};
use crate::translation::Translation;
use crate::translation::words;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;

/// The most characters of the text that are quoted for a message.
const MAX_QUOTED: usize = 200;

/// The most error numbers of the driver, and of NVSwitches, that a report has: a log can have
/// thousands.
const MAX_LOGGED: usize = 100;

/// The most GPUs that a line names.
const MAX_NAMED: usize = 8;

/// The most different Xids, and SXids, that a person is shown.
const MAX_KINDS: usize = 20;

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
    /// What tables of nvidia-smi say.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tables: Vec<Article>,
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
    pub(crate) fn of(named: &NamedError<'_>, quoted: &str) -> Self {
        let ErrorCode {
            api,
            code,
            names,
            means,
            remedy,
            run,
            ..
        } = named.error.clone();
        let (interface, source) = (api.title(), api.source());
        let (line, quoted) = (named.line, quoted_or(quoted, &named.near));
        Self {
            interface,
            code,
            names,
            line,
            quoted,
            means,
            remedy,
            run,
            source,
        }
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
    pub fn of(
        recognised: &Recognised<'_>,
        quoted: &str,
        findings: &[Finding],
        language: &Translation,
    ) -> Self {
        let message = recognised.message;
        let mut causes: Vec<_> = message
            .causes
            .iter()
            .map(|cause| ExplainedCause::of(cause, findings, language))
            .collect();
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
    fn of(cause: &MessageCause, findings: &[Finding], language: &Translation) -> Self {
        let own: Vec<_> = findings
            .iter()
            .filter(|f| cause.checks.iter().any(|id| id == f.id.as_str()))
            .collect();
        let ill = own
            .iter()
            .find(|f| matches!(f.status, Status::Fail | Status::Warn));
        let here = match ill {
            Some(finding) => Some(Here {
                verdict: Verdict::Supported,
                text: format!(
                    "{}: {}",
                    finding.id,
                    finding
                        .cause
                        .as_deref()
                        .unwrap_or(language.text(&title_of(finding.id), finding.title))
                ),
            }),
            None if !own.is_empty() && own.iter().all(|f| f.status == Status::Pass) => {
                let ids: Vec<_> = own.iter().map(|f| f.id.as_str()).collect();
                let sentence = if ids.len() == 1 {
                    words::PASSES
                } else {
                    words::PASS
                };
                let text = language.filled(sentence, &[("ids", &ids.join(", "))]);
                Some(Here {
                    verdict: Verdict::Contradicted,
                    text,
                })
            }
            None => None,
        };
        let MessageCause {
            because,
            tell,
            look,
            remedy,
            run,
            ..
        } = cause.clone();
        Self {
            because,
            tell,
            look,
            remedy,
            run,
            here,
        }
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
        language: &Translation,
    ) -> Self {
        let worst = worst_of_gpus(&logged.xids, database);
        let left_out = logged.xids.len().saturating_sub(MAX_LOGGED)
            + logged.sxids.len().saturating_sub(MAX_LOGGED);
        let xids: Vec<_> = logged
            .xids
            .into_iter()
            .take(MAX_LOGGED)
            .map(|logged| {
                let row = database.xid(logged.number);
                let action = row.map_or(XidAction::AskNvidia, |row| row.action);
                let remedy = match worst.get(&logged.gpu) {
                    Some(number) if is_covered(action) => {
                        let text =
                            language.filled(words::AS_FOR_XID, &[("number", &number.to_string())]);
                        Some(Remedy::new::<&str>(text, []))
                    }
                    _ => remedy_of(logged.number, action, &logged.gpu, language),
                };
                let (remedy, run) = remedy
                    .map(|r| (Some(r.text), r.commands))
                    .unwrap_or_default();
                ExplainedXid {
                    xid: logged.number,
                    name: row.map(|row| row.name.clone()),
                    gpu: one_line(&logged.gpu),
                    quoted: shortened(&logged.text),
                    means: match row {
                        Some(row) => language
                            .text(&language::of_xid(row.xid), &row.means)
                            .to_owned(),
                        None => language.word(words::UNKNOWN_XID).to_owned(),
                    },
                    remedy,
                    run,
                }
            })
            .collect();
        let sxids: Vec<_> = logged
            .sxids
            .into_iter()
            .take(MAX_LOGGED)
            .map(|logged| {
                let remedy = logged.is_fatal.then(xid::of_switch);
                let (remedy, run) = remedy
                    .map(|r| (Some(language.word(&r.text).to_owned()), r.commands))
                    .unwrap_or_default();
                ExplainedSxid {
                    sxid: logged.number,
                    name: database.sxid(logged.number).map(|row| row.name.clone()),
                    switch: one_line(&logged.switch),
                    fatal: logged.is_fatal,
                    quoted: shortened(&logged.text),
                    remedy,
                    run,
                }
            })
            .collect();
        Self {
            schema: "gpusetup.explanation/1",
            recognised: !messages.is_empty()
                || !errors.is_empty()
                || !xids.is_empty()
                || !sxids.is_empty(),
            messages,
            errors,
            xids,
            sxids,
            tables: Vec::new(),
            left_out,
            known,
        }
    }
}

/// The Xid of each GPU that needs the most, if that is a reset or a reboot.
fn worst_of_gpus(xids: &[LoggedXid], database: &Database) -> BTreeMap<String, u16> {
    let mut worst = BTreeMap::new();
    for needed in [XidAction::ResetGpu, XidAction::Reboot] {
        worst.extend(
            xids.iter()
                .filter(|logged| {
                    database
                        .xid(logged.number)
                        .is_some_and(|row| row.action == needed)
                })
                .map(|logged| (logged.gpu.clone(), logged.number)),
        );
    }
    worst
}

/// Whether a reset or a reboot does all that an Xid needs.
fn is_covered(action: XidAction) -> bool {
    matches!(action, XidAction::Nothing | XidAction::RestartApplication)
}

/// A line of somebody else's text; of a long one, the part that was recognised.
fn quoted_or(line: &str, near: &str) -> String {
    let is_long = line.chars().nth(MAX_QUOTED).is_some();
    if is_long && !near.is_empty() {
        format!("…{}…", shortened(near))
    } else {
        shortened(line)
    }
}

impl PasteReport {
    /// With what tables of nvidia-smi in the text say.
    pub(crate) fn with_tables(mut self, tables: Vec<Article>) -> Self {
        self.recognised |= !tables.is_empty();
        self.tables = tables;
        self
    }

    /// With commands for the host in a tree instead of this one.
    pub(crate) fn for_root(mut self, root: &Path) -> Self {
        for cause in self
            .messages
            .iter_mut()
            .flat_map(|message| &mut message.causes)
        {
            if let Some(tell) = &cause.tell {
                cause.tell = offline_root::command(tell, root);
            }
            if cause.tell.is_none() {
                cause.look = None;
            }
        }
        let causes = self.messages.iter_mut().flat_map(|m| &mut m.causes);
        let runs = causes
            .map(|cause| &mut cause.run)
            .chain(self.errors.iter_mut().map(|error| &mut error.run))
            .chain(self.xids.iter_mut().map(|xid| &mut xid.run))
            .chain(self.sxids.iter_mut().map(|sxid| &mut sxid.run));
        for run in runs {
            *run = run
                .iter()
                .filter_map(|c| offline_root::command(c, root))
                .collect();
        }
        let tables = self.tables.into_iter();
        self.tables = tables.map(|table| table.for_root(root)).collect();
        self
    }
}

/// What helps against an Xid, in this language.
pub(crate) fn remedy_of(
    number: u16,
    action: XidAction,
    gpu: &str,
    language: &Translation,
) -> Option<Remedy> {
    let remedy = xid::remedy(number, action, gpu)?;
    let text = match xid::name(action) {
        Some(name) => language
            .text(&format!("xid-actions.{name}"), &remedy.text)
            .to_owned(),
        None => language.filled(
            words::FOLLOW,
            &[("number", &number.to_string()), ("list", xid::CATALOG)],
        ),
    };
    Some(Remedy { text, ..remedy })
}

/// The place of a check's title.
fn title_of(id: CheckId) -> String {
    format!("checks.{id}.title")
}

/// A line of somebody else's text, safe for a terminal and not longer than is useful.
fn shortened(line: &str) -> String {
    // A line may have the whole text.
    let start: String = line.trim_start().chars().take(4 * MAX_QUOTED).collect();
    let line = one_line(without_escapes(&start).trim());
    if line.chars().count() <= MAX_QUOTED {
        return line;
    }
    line.chars().take(MAX_QUOTED).chain(['…']).collect()
}

/// The report for a person: root messages first, symptoms in a line each.
pub fn text(report: &PasteReport, look: ExplainStyle<'_>) -> String {
    if !report.recognised {
        return not_recognised(report.known, look);
    }
    let mut out = of_the_log(report, look);
    let (symptoms, roots): (Vec<_>, Vec<_>) = report
        .messages
        .iter()
        .partition(|m| m.symptom && !look.verbose);
    for message in roots {
        out += &of_message(message, look);
    }
    for error in &report.errors {
        out += &of_error(error, look);
    }
    for table in &report.tables {
        out += &table.text_in(look.language, look.paint, look.verbose, look.width);
        out.push('\n');
    }
    for message in symptoms {
        out += &wrapped(
            &format!("{} ", look.language.word(words::FOLLOWS_FROM)),
            &message.title,
            look.width,
        );
    }
    out.truncate(out.trim_end().len());
    out.push('\n');
    out
}

fn not_recognised(known: usize, look: ExplainStyle<'_>) -> String {
    let ExplainStyle {
        paint,
        width,
        language,
        ..
    } = look;
    let sentence = language.filled(words::NONE_KNOWN, &[("count", &known.to_string())]);
    let doctor = language.filled(
        words::EXAMINES,
        &[("command", &paint.bold("gpusetup doctor"))],
    );
    wrapped(
        &format!("{}  ", language.word(words::NOT_RECOGNISED)),
        &sentence,
        width,
    ) + &wrapped(
        &format!("{} ", padded(language.word("Try"), 7)),
        &doctor,
        width,
    ) + &wrapped(
        &format!("{} ", language.word("Missing?")),
        language.word(words::OPEN_ISSUE),
        width,
    )
}

/// The Xids and SXids, each kind once.
fn of_the_log(report: &PasteReport, look: ExplainStyle<'_>) -> String {
    let language = look.language;
    let mut out = String::new();
    let xids = groups(&report.xids, |xid| xid.xid);
    let xids: Vec<_> = xids
        .iter()
        .map(|same| LoggedError::of_xids(same, language))
        .collect();
    let sxids = groups(&report.sxids, |sxid| (sxid.sxid, sxid.fatal));
    let sxids: Vec<_> = sxids
        .iter()
        .map(|same| LoggedError::of_sxids(same, language))
        .collect();
    let mut left_out = report.left_out;
    for kind in [xids, sxids] {
        kind.iter()
            .take(MAX_KINDS)
            .for_each(|error| out += &error.text(look));
        left_out += kind
            .iter()
            .skip(MAX_KINDS)
            .map(|error| error.count)
            .sum::<usize>();
    }
    if left_out > 0 {
        out += &wrapped(
            "",
            &language.filled(words::MORE_XIDS, &[("count", &left_out.to_string())]),
            look.width,
        );
        out.push('\n');
    }
    out
}

fn of_message(message: &Explained, look: ExplainStyle<'_>) -> String {
    let (language, width) = (look.language, look.width);
    let mut out = wrapped("", &look.paint.bold(&message.title), width);
    out += &quote(&message.quoted, look);
    out += &wrapped(&first(language.word("says")), &message.says, width);
    let several = message.causes.len() > 1;
    for (n, cause) in message.causes.iter().enumerate() {
        let mut label = language.word("cause").to_owned();
        if several {
            label += &format!(" {}", n + 1);
        }
        out += &wrapped(&first(&label), &cause.because, width);
        out += &on_this_host(cause, several, look);
        out += &remedy(&cause.remedy, &cause.run, look);
    }
    if message.causes.is_empty() {
        let label = first(language.word("cause"));
        out += &wrapped(&label, language.word(words::NOT_ESTABLISHED), width);
    }
    if look.verbose {
        let label = first(language.word("source"));
        let sources = message.sources.iter();
        out.extend(sources.map(|source| format!("{label}{source}\n")));
    }
    out + "\n"
}

/// What this host says for or against a cause, and how to tell.
fn on_this_host(cause: &ExplainedCause, several: bool, look: ExplainStyle<'_>) -> String {
    let ExplainStyle {
        paint,
        width,
        language,
        ..
    } = look;
    let mut out = String::new();
    if let Some(here) = &cause.here {
        let label = first(language.word("here"));
        let (word, text) = match here.verdict {
            Verdict::Supported => (paint.red(&label), here.text.clone()),
            Verdict::Contradicted => (
                paint.green(&label),
                language.filled(words::SPEAKS_AGAINST, &[("check", &here.text)]),
            ),
        };
        out += &wrapped("          ", &text, width).replacen("          ", &word, 1);
    }
    if let Some(tell) = cause
        .tell
        .as_ref()
        .filter(|_| several || cause.here.is_none())
    {
        out += &format!("{}{}\n", first(language.word("check")), paint.bold(tell));
        out += &cause
            .look
            .as_ref()
            .map(|seen| wrapped("          ", seen, width))
            .unwrap_or_default();
    }
    out
}

fn of_error(error: &ExplainedError, look: ExplainStyle<'_>) -> String {
    let (language, width) = (look.language, look.width);
    let (number, names) = (error.code.to_string(), error.names.join(", "));
    let values = [
        ("interface", error.interface),
        ("number", &number),
        ("names", &names),
    ];
    let title = language.filled(words::ERROR_OF, &values);
    let mut out = wrapped("", &look.paint.bold(&title), width);
    out += &quote(&error.quoted, look);
    out += &wrapped(&first(language.word("says")), &error.means, width);
    match &error.remedy {
        Some(text) => out += &remedy(text, &error.run, look),
        None => {
            let label = first(language.word("look"));
            let commands = error.run.iter();
            out.extend(commands.map(|command| format!("{label}{}\n", look.paint.bold(command))));
        }
    }
    if look.verbose {
        out += &format!("{}{}\n", first(language.word("source")), error.source);
    }
    out + "\n"
}

/// An error of the kernel log, of one GPU or NVSwitch or of several.
struct LoggedError<'a> {
    /// How many GPUs or NVSwitches have it.
    count: usize,
    head: String,
    quoted: &'a str,
    says: &'a str,
    remedy: Option<&'a str>,
    run: Vec<String>,
}

impl<'a> LoggedError<'a> {
    /// An Xid of these GPUs.
    fn of_xids(same: &[&'a ExplainedXid], language: &Translation) -> Self {
        let xid = same[0];
        let gpus: Vec<_> = same.iter().map(|xid| xid.gpu.as_str()).collect();
        let words = if gpus.len() == 1 {
            words::XID_OF
        } else {
            words::XIDS_OF
        };
        let (number, name) = (xid.xid.to_string(), in_brackets(xid.name.as_deref()));
        let values = [
            ("number", &*number),
            ("gpu", &places(&gpus, language)),
            ("name", &name),
        ];
        Self {
            count: same.len(),
            head: language.filled(words, &values),
            quoted: &xid.quoted,
            says: &xid.means,
            remedy: xid.remedy.as_deref(),
            run: commands(same.iter().flat_map(|xid| &xid.run)),
        }
    }

    /// An SXid of these NVSwitches.
    fn of_sxids(same: &[&'a ExplainedSxid], language: &'a Translation) -> Self {
        let sxid = same[0];
        let switches: Vec<_> = same.iter().map(|sxid| sxid.switch.as_str()).collect();
        let words = if switches.len() == 1 {
            words::SXID_OF
        } else {
            words::SXIDS_OF
        };
        let (number, name) = (sxid.sxid.to_string(), in_brackets(sxid.name.as_deref()));
        let values = [
            ("number", &*number),
            ("switch", &places(&switches, language)),
            ("name", &name),
        ];
        Self {
            count: same.len(),
            head: language.filled(words, &values),
            quoted: &sxid.quoted,
            says: language.word(if sxid.fatal {
                words::FATAL
            } else {
                words::NOT_FATAL
            }),
            remedy: sxid.remedy.as_deref(),
            run: commands(same.iter().flat_map(|sxid| &sxid.run)),
        }
    }

    fn text(&self, look: ExplainStyle<'_>) -> String {
        let ExplainStyle {
            paint,
            width,
            language,
            ..
        } = look;
        let mut out = wrapped("", &paint.bold(&self.head), width);
        // A line may have the number alone.
        if !self.quoted.is_empty() {
            out += &quote(self.quoted, look);
        }
        out += &wrapped(&first(language.word("says")), self.says, width);
        out += &remedy(
            self.remedy.unwrap_or(language.word(words::NOTHING)),
            &self.run,
            look,
        );
        out + "\n"
    }
}

fn in_brackets(name: Option<&str>) -> String {
    name.map(|name| format!(" ({name})")).unwrap_or_default()
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

/// `0000:17:00.0`, `0000:17:00.0, 0000:65:00.0 and 6 more`.
fn places(all: &[&str], language: &Translation) -> String {
    let named = all[..all.len().min(MAX_NAMED)].join(", ");
    match all.len().saturating_sub(MAX_NAMED) {
        0 => named,
        more => language.filled(
            words::PLACES_AND_MORE,
            &[("places", &named), ("count", &more.to_string())],
        ),
    }
}

/// Commands, each once, and not more than a person would run.
fn commands<'a>(all: impl Iterator<Item = &'a String>) -> Vec<String> {
    let mut commands: Vec<String> = Vec::new();
    for command in all {
        if !commands.contains(command) && commands.len() < MAX_NAMED {
            commands.push(command.clone());
        }
    }
    commands
}

/// A label before its text.
fn first(label: &str) -> String {
    format!("  {} ", padded(label, 7))
}

fn quote(line: &str, look: ExplainStyle<'_>) -> String {
    let quoted = wrapped("  > ", line, look.width);
    quoted
        .lines()
        .map(|line| look.paint.dim(line) + "\n")
        .collect()
}

fn remedy(text: &str, commands: &[String], look: ExplainStyle<'_>) -> String {
    let mut out = wrapped(&first(look.language.word("do")), text, look.width);
    out.extend(
        commands
            .iter()
            .map(|command| format!("            {}\n", look.paint.bold(command))),
    );
    out
}
