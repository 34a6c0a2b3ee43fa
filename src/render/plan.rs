//! A plan as text.

use super::{Paint, python};
use crate::database::age;
use crate::ids::{CheckId, Recorded, Rule, RuleId};
use crate::operation::{Download, Operation, Run};
use crate::plan::estimate::{CORES, DOWNLOAD};
use crate::plan::{Act, Plan, State, Step, StepId, Warning};
use crate::resolve::{PythonPackage, Request, summary};
use crate::text::{about, bytes, count, one_line, visible, wrapped};
use similar::TextDiff;
use std::borrow::Cow;
use std::collections::BTreeSet;

/// The plan for a person: the host, the choice and its reasons, a line for each step, warnings,
/// totals. With `verbose` also every operation, the steps that are left out and the candidates that
/// were rejected. `host` has the options that name the same host in commands: `--os ubuntu-24.04`.
pub(crate) fn text(
    plan: &Plan,
    host: &str,
    with_toolkit: Option<&Request>,
    paint: Paint,
    verbose: bool,
    width: usize,
) -> String {
    let mut out = head(plan, paint, width);
    out += &choice(plan, paint, verbose, width);
    let (doubtful, others): (Vec<_>, Vec<_>) = plan
        .warnings
        .iter()
        .partition(|w| w.check == CheckId::GS103);
    if !doubtful.is_empty() {
        // Whether the driver builds at all comes before what is done with it.
        out += "\n";
        out.extend(
            doubtful
                .into_iter()
                .map(|warning| in_lines(warning, paint, width)),
        );
    }
    if !plan.steps.is_empty() {
        out += &format!("\n{}\n", paint.bold("Steps"));
    }
    for step in &plan.steps {
        out += &if verbose {
            in_full(step, paint, width)
        } else {
            in_a_line(plan, step, paint, width)
        };
    }
    out += &changed_files(plan, paint);
    if plan.python.iter().any(PythonPackage::is_known) {
        out += &format!("\n{}\n", paint.bold("Python"));
        out += &python::of_plan(plan, host, with_toolkit, paint, verbose, width);
    }
    if verbose && !plan.rejected.is_empty() {
        out += &format!("\n{}\n", paint.bold("Not chosen"));
        for r in &plan.rejected {
            out += &wrapped("  ", &format!("{}: {}", r.candidate, r.because), width);
        }
    }
    out += "\n";
    out.extend(
        others
            .into_iter()
            .map(|warning| in_lines(warning, paint, width)),
    );
    out + &sums(plan, paint, width)
}

fn in_lines(warning: &Warning, paint: Paint, width: usize) -> String {
    // The whole text in yellow would be hard to read on white.
    let head = format!(
        "{} {}",
        paint.yellow("!"),
        paint.bold(&format!("{}:", warning.check))
    );
    let text = wrapped("! ", &format!("{}: {}", warning.check, warning.text), width);
    text.replacen(&format!("! {}:", warning.check), &head, 1)
}

fn head(plan: &Plan, paint: Paint, width: usize) -> String {
    let host = &plan.host;
    let age = match age(&plan.database.version, &plan.request.today) {
        0 => String::new(),
        days => format!(", {} old", count(days, "day")),
    };
    let title = format!(
        "gpusetup plan {} (database {}{age})",
        plan.tool, plan.database.version
    );
    let mut out = paint.bold(&title) + "\n\n";
    let kernel = match host.kernel() {
        Some(kernel) => format!("kernel {kernel}"),
        None => "no kernel installed".to_owned(),
    };
    let text = format!("{}, {kernel}, {}", host.os.name, host.machine.arch);
    out += &labelled(&format!("{:<7}", "Host"), &text, paint, width);
    let mut shown: Vec<(usize, usize, String)> = Vec::new();
    for (n, gpu) in host.gpus.iter().enumerate() {
        let name = gpu.name.as_deref().unwrap_or("unknown");
        let capability = gpu
            .compute_capability
            .map(|c| format!(", compute capability {c}"))
            .unwrap_or_default();
        let state = match (&gpu.bound_to, gpu.assumed) {
            _ if plan.request.leaves_out(gpu) => ", left out (--leave-out)".to_owned(),
            (_, true) => ", assumed (--gpu)".to_owned(),
            (Some(driver), false) => format!(", driven by {driver} now"),
            (None, false) => String::new(),
        };
        let id = if gpu.pci_id.is_empty() {
            String::new()
        } else {
            format!(" [{}]", gpu.pci_id)
        };
        let text = format!("{name}{id}{capability}{state}");
        match shown.last_mut() {
            Some((_, last, same)) if *same == text => *last = n,
            _ => shown.push((n, n, text)),
        }
    }
    // Eight of a kind, as in every HGX, are one line.
    for (first, last, text) in shown {
        let (label, times) = match last - first {
            0 => (format!("GPU {first}"), String::new()),
            more => (format!("GPU {first}-{last}"), format!("{} x ", more + 1)),
        };
        out += &labelled(
            &format!("{label:<7}"),
            &format!("{times}{text}"),
            paint,
            width,
        );
    }
    out
}

/// A heading, and a text behind it.
fn labelled(label: &str, text: &str, paint: Paint, width: usize) -> String {
    wrapped(&format!("{} ", paint.bold(label)), text, width)
}

/// The columns that subjects of reasons have at least.
const LEAST_SUBJECT: usize = 8;

fn choice(plan: &Plan, paint: Paint, verbose: bool, width: usize) -> String {
    let chosen = summary(&plan.selection);
    if chosen.is_empty() {
        return String::new();
    }
    let in_bold: Vec<_> = chosen.split(' ').map(|word| paint.bold(word)).collect();
    let mut out = labelled(
        &format!("{:<7}", "Choice"),
        &in_bold.join(" "),
        paint,
        width,
    );
    let longest = plan
        .reasons
        .iter()
        .map(|reason| reason.subject.len())
        .max()
        .unwrap_or(0)
        .max(LEAST_SUBJECT);
    for reason in &plan.reasons {
        let is_assumed = reason.rule == Recorded::Known(Rule::Of(RuleId::AssumedFact));
        let text = if is_assumed && !verbose {
            assumption(&reason.text)
        } else {
            Cow::Borrowed(&*reason.text)
        };
        out += &paint
            .dim(wrapped(&format!("  {:<longest$}  ", reason.subject), &text, width).trim_end());
        out += "\n";
    }
    out
}

/// What is assumed, without the reasons: they follow a colon in each part.
fn assumption(text: &str) -> Cow<'_, str> {
    let Some((start, parts)) = text.split_once(": ") else {
        return Cow::Borrowed(text);
    };
    if !parts.contains(": ") {
        return Cow::Borrowed(text);
    }
    let named: Vec<_> = parts
        .split("; ")
        .filter_map(|part| part.split(": ").next())
        .collect();
    Cow::Owned(format!("{start}: {} (-v says why)", named.join("; ")))
}

/// How the files change that are merged with what they hold, a diff each.
fn changed_files(plan: &Plan, paint: Paint) -> String {
    let host = plan.host.containers();
    let of_containers = plan
        .steps
        .iter()
        .filter(|step| step.id == StepId::ContainerToolkit);
    let files = of_containers
        .flat_map(|step| &step.operations)
        .filter(|act| !act.satisfied);
    let diffs = files.filter_map(|act| {
        let Operation::WriteFile(file) = &act.operation else {
            return None;
        };
        let before = host
            .file(&file.path)
            .ok()
            .flatten()
            .map_or("", |before| &before.text);
        Some(diff(
            &file.path.display().to_string(),
            before,
            &file.content,
            paint,
        ))
    });
    let diffs: String = diffs.collect();
    if diffs.is_empty() {
        diffs
    } else {
        format!("\n{}\n{diffs}", paint.bold("Files"))
    }
}

fn diff(path: &str, before: &str, after: &str, paint: Paint) -> String {
    let diff = TextDiff::from_lines(before, after);
    let text = diff
        .unified_diff()
        .missing_newline_hint(false)
        .header(path, path)
        .to_string();
    text.lines()
        .map(|line| {
            let shown = visible(&line.replace('\t', "    ")).into_owned();
            let shown = match line.chars().next() {
                Some('+') => paint.green(&shown),
                Some('-') => paint.red(&shown),
                _ => shown,
            };
            format!("  {shown}").trim_end().to_owned() + "\n"
        })
        .collect()
}

/// The columns of step ids at least.
const LEAST_STEP_ID: usize = 17;

/// Steps that are left out have a line only if somebody asked for them.
fn in_a_line(plan: &Plan, step: &Step, paint: Paint, width: usize) -> String {
    let note = match step.state {
        State::Needed => Cow::Borrowed(""),
        State::Satisfied => Cow::Borrowed(" (already done)"),
        State::Skipped if step.id.kind().is_requested(&plan.request) => {
            format!(" (left out: {})", step.why).into()
        }
        State::Skipped => return String::new(),
    };
    let ids = plan.steps.iter().map(|step| step.id.to_string().len());
    let longest = ids.max().unwrap_or(0).max(LEAST_STEP_ID);
    let first = format!("{} {:<longest$} ", mark(step, paint), step.id.to_string());
    let mut out = wrapped(
        &first,
        &format!("{}{}{note}", step.title, cost(step)),
        width,
    );
    // Files of people are not changed unseen.
    step.operations
        .iter()
        .for_each(|act| out += &edited_lines(act, paint));
    out
}

/// The lines that an operation takes out of a file of somebody else's, or changes there.
fn edited_lines(act: &Act, paint: Paint) -> String {
    let Operation::EditFile(edit) = &act.operation else {
        return String::new();
    };
    let lines: String = edit
        .diff()
        .iter()
        .map(|line| match line.starts_with('-') {
            true => format!("      {}\n", paint.red(line)),
            false => format!("      {}\n", paint.green(line)),
        })
        .collect();
    format!("    {}\n{lines}", one_line(&edit.path.to_string_lossy()))
}

fn in_full(step: &Step, paint: Paint, width: usize) -> String {
    let note = match step.state {
        State::Needed => "",
        State::Satisfied => " (already done)",
        State::Skipped => " (left out)",
    };
    let head = format!(
        "{}: {}{}{note}",
        paint.bold(&step.id.to_string()),
        step.title,
        cost(step)
    );
    let mut out = wrapped(&format!("{} ", mark(step, paint)), &head, width);
    out += &paint.dim(wrapped("    ", &step.why, width).trim_end());
    out += "\n";
    out.extend(
        step.operations
            .iter()
            .map(|act| operation(act, paint, width) + &edited_lines(act, paint)),
    );
    out
}

/// What a step does to the host, as `terraform plan` marks it.
fn mark(step: &Step, paint: Paint) -> String {
    let mark = match step.state {
        State::Satisfied => "=",
        State::Skipped => " ",
        State::Needed => step.id.kind().mark,
    };
    coloured(mark, paint)
}

/// A mark in its colour. Basic colours only, and never bold: bold yellow is a light yellow on many
/// terminals.
fn coloured(mark: &str, paint: Paint) -> String {
    match mark {
        "+" => paint.green(mark),
        "~" | "!" => paint.yellow(mark),
        "-" => paint.red(mark),
        " " => mark.to_owned(),
        _ => paint.dim(mark),
    }
}

/// What a step downloads and how long it takes: ` [4.3 GB, about 8 min]`.
fn cost(step: &Step) -> String {
    let size = match step.download_bytes {
        Some(0) => None,
        Some(size) => Some(bytes(size)),
        None => unsized_files(step)
            .next()
            .map(|_| "size not known".to_owned()),
    };
    let time = step
        .estimate_seconds
        .flatten()
        .filter(|seconds| *seconds > 30)
        .map(about);
    let parts: Vec<_> = size.into_iter().chain(time).collect();
    if parts.is_empty() {
        String::new()
    } else {
        format!(" [{}]", parts.join(", "))
    }
}

/// The time of the whole plan in a sentence, and what it rests on; nothing if it is less than a
/// minute.
fn time(plan: &Plan) -> String {
    let known = plan
        .steps
        .iter()
        .filter_map(|step| step.estimate_seconds.flatten())
        .sum::<u64>();
    if known < 60 {
        return String::new();
    }
    let in_all = match plan.totals.estimate_seconds {
        Some(_) => about(known),
        None => about(known).replace("about", "at least"),
    };
    let reboots = if plan.totals.reboots > 0 {
        ", and the reboot"
    } else {
        ""
    };
    let cores = plan.host.machine.cores.unwrap_or(CORES as u32);
    let mbit = DOWNLOAD * 8.0 / 1e6;
    format!(
        " Time {in_all} at {mbit} Mbit/s with {}{reboots}.",
        count(cores.into(), "core")
    )
}

fn operation(act: &Act, paint: Paint, width: usize) -> String {
    let mark = match (&act.operation, act.satisfied) {
        (_, true) => "=",
        (Operation::Remove(_), false) => "-",
        (Operation::Packages(p), false) if p.install.is_empty() => "-",
        (Operation::Run(Run { removes, .. }), false) if !removes.is_empty() => "-",
        (Operation::Run(Run { asks: true, .. }), false) => "?",
        (
            Operation::Run(_)
            | Operation::Hold(_)
            | Operation::Service(_)
            | Operation::Device(_)
            | Operation::EnrollKey(_),
            false,
        ) => "~",
        (Operation::Reboot(_), false) => "!",
        (_, false) => "+",
    };
    wrapped(
        &format!("    {} ", coloured(mark, paint)),
        &act.operation.describe(),
        width,
    )
}

fn sums(plan: &Plan, paint: Paint, width: usize) -> String {
    let t = &plan.totals;
    // Only a removal can have no steps.
    if plan.steps.is_empty() {
        return "Nothing to remove: it is not installed.\n".to_owned();
    }
    if plan.is_converged() {
        return "Nothing to do: everything is already installed.\n".to_owned();
    }
    let reboots = match t.reboots {
        0 => "no reboot".to_owned(),
        // It must not be missed. Each word alone, since the line may end between them.
        some => count(some.into(), "reboot")
            .split(' ')
            .map(|word| paint.bold(word))
            .collect::<Vec<_>>()
            .join(" "),
    };
    let text = format!(
        "{} to add, {} to change, {} to remove, {reboots}. Download {}, disk {}.{}{}",
        t.add,
        t.change,
        t.remove,
        amount(plan, t.download_bytes, "", |step| step.download_bytes),
        amount(plan, t.disk_bytes, "about ", |step| step.disk_bytes),
        not_known(plan),
        time(plan)
    );
    labelled("Plan:", &text, paint, width)
}

/// A total in words: `at least 5.3 GB` if the size of a part is not known.
fn amount(plan: &Plan, total: Option<u64>, about: &str, of: fn(&Step) -> Option<u64>) -> String {
    let all_known = plan.steps.iter().all(|step| of(step).is_some());
    match total {
        Some(total) if all_known => format!("{about}{}", bytes(total)),
        Some(total) if total >= MIN_TOLD => format!("at least {}", bytes(total)),
        _ => "of unknown size".to_owned(),
    }
}

/// A few bytes of settings say nothing of packages whose size is not known.
const MIN_TOLD: u64 = 1_000_000;

/// Which sizes are missing from the totals.
fn not_known(plan: &Plan) -> String {
    let packages = plan
        .steps
        .iter()
        .any(|step| {
            step.operations
                .iter()
                .any(|a| !a.satisfied && a.operation.installs_packages())
        })
        .then(|| "packages".to_owned());
    let mut names: Vec<_> = packages
        .into_iter()
        .chain(plan.steps.iter().flat_map(unsized_files))
        .collect();
    // The driver and the toolkit may come from one file.
    let mut named = BTreeSet::new();
    names.retain(|name| named.insert(name.clone()));
    match names.as_slice() {
        [] => String::new(),
        [only] if only != "packages" => format!(" The size of {only} is not known."),
        [only] => format!(" The sizes of {only} are not known."),
        [some @ .., last] => format!(
            " The sizes of {} and {last} are not known.",
            some.join(", ")
        ),
    }
}

/// Files that a step downloads and whose size nobody published.
fn unsized_files(step: &Step) -> impl Iterator<Item = String> {
    step.operations
        .iter()
        .filter(|a| !a.satisfied)
        .filter_map(|a| match &a.operation {
            Operation::Download(Download { size: None, to, .. }) => {
                Some(to.file_name()?.to_string_lossy().into_owned())
            }
            _ => None,
        })
}
