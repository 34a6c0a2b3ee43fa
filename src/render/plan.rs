//! A plan as text.

use super::{Paint, python};
use crate::operation::{Download, Operation, Reboot, Run};
use crate::plan::{Act, Plan, State, Step};
use crate::resolve::{PythonPackage, summary};
use crate::text::{bytes, count, wrapped};

/// The plan for a person: the host, the choice and its reasons, a line for each step, warnings, totals. With `verbose` also every
/// operation, the steps that are left out and the candidates that were rejected. `host` has the options that name the same host in
/// commands: `--os ubuntu-24.04`.
pub fn text(plan: &Plan, host: &str, paint: Paint, verbose: bool, width: usize) -> String {
    let mut out = head(plan, paint, width);
    out += &choice(plan, paint, width);
    out += &format!("\n{}\n", paint.bold("Steps"));
    for step in &plan.steps {
        out += &if verbose { in_full(step, paint, width) } else { in_a_line(step, paint, width) };
    }
    if plan.python.iter().any(PythonPackage::is_known) {
        out += &format!("\n{}\n", paint.bold("Python"));
        out += &python::of_plan(plan, host, paint, verbose, width);
    }
    if verbose && !plan.rejected.is_empty() {
        out += &format!("\n{}\n", paint.bold("Not chosen"));
        for r in &plan.rejected {
            out += &wrapped("  ", &format!("{}: {}", r.candidate, r.because), width);
        }
    }
    out += "\n";
    for warning in &plan.warnings {
        out += &paint.yellow(wrapped("! ", &format!("{}: {}", warning.check, warning.text), width).trim_end());
        out += "\n";
    }
    out + &sums(plan, width)
}

fn head(plan: &Plan, paint: Paint, width: usize) -> String {
    let host = &plan.host;
    let mut out = paint.bold(&format!("gpusetup plan {} (database {})", plan.tool, plan.database.version)) + "\n\n";
    let kernel = match host.kernel() {
        Some(kernel) => format!("kernel {kernel}"),
        None => "no kernel installed".to_owned(),
    };
    out += &wrapped("Host    ", &format!("{}, {kernel}, {}", host.os.name, host.machine.arch), width);
    let mut shown: Vec<(usize, usize, String)> = Vec::new();
    for (n, gpu) in host.gpus.iter().enumerate() {
        let name = gpu.name.as_deref().unwrap_or("unknown");
        let capability = gpu.compute_capability.map(|c| format!(", compute capability {c}")).unwrap_or_default();
        let state = match (&gpu.bound_to, gpu.assumed) {
            (_, true) => ", assumed (--gpu)".to_owned(),
            (Some(driver), false) => format!(", driven by {driver} now"),
            (None, false) => String::new(),
        };
        let id = if gpu.pci_id.is_empty() { String::new() } else { format!(" [{}]", gpu.pci_id) };
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
        out += &wrapped(&format!("{label:<7} "), &format!("{times}{text}"), width);
    }
    out
}

/// The columns that subjects of reasons have at least.
const LEAST_SUBJECT: usize = 8;

fn choice(plan: &Plan, paint: Paint, width: usize) -> String {
    let chosen = summary(&plan.selection);
    if chosen.is_empty() {
        return String::new();
    }
    let mut out = wrapped("Choice  ", &chosen, width).replacen(&chosen, &paint.bold(&chosen), 1);
    let longest = plan.reasons.iter().map(|reason| reason.subject.len()).max().unwrap_or(0).max(LEAST_SUBJECT);
    for reason in &plan.reasons {
        out += &paint.dim(wrapped(&format!("  {:<longest$}  ", reason.subject), &reason.text, width).trim_end());
        out += "\n";
    }
    out
}

/// The columns of the longest step id.
const STEP_ID: usize = 17;

fn in_a_line(step: &Step, paint: Paint, width: usize) -> String {
    let (mark, note) = match step.state {
        State::Needed => (paint.bold("+"), ""),
        State::Satisfied => (paint.green("="), " (already done)"),
        State::Skipped => return String::new(),
    };
    let first = format!("  {:<STEP_ID$} ", step.id.to_string());
    wrapped(&first, &format!("{}{}{note}", step.title, size(step)), width).replacen("  ", &format!("{mark} "), 1)
}

fn in_full(step: &Step, paint: Paint, width: usize) -> String {
    let (mark, note) = match step.state {
        State::Needed => (paint.bold("+"), ""),
        State::Satisfied => (paint.green("="), " (already done)"),
        State::Skipped => (paint.dim("-"), " (left out)"),
    };
    let head = format!("{}: {}{}{note}", step.id, step.title, size(step));
    let mut out = wrapped("  ", &head, width).replacen("  ", &format!("{mark} "), 1);
    out += &paint.dim(wrapped("    ", &step.why, width).trim_end());
    out += "\n";
    out.extend(step.operations.iter().map(|act| operation(act, width)));
    out
}

fn size(step: &Step) -> String {
    match step.download_bytes {
        Some(0) => String::new(),
        Some(size) => format!(" [{}]", bytes(size)),
        None if unsized_files(step).next().is_some() => " [size not known]".to_owned(),
        None => String::new(),
    }
}

fn operation(act: &Act, width: usize) -> String {
    let mark = match (&act.operation, act.satisfied) {
        (_, true) => "=",
        (Operation::Remove(_), false) => "-",
        (Operation::Packages(p), false) if p.install.is_empty() => "-",
        (Operation::Run(Run { removes, .. }), false) if !removes.is_empty() => "-",
        (Operation::Run(Run { asks: true, .. }), false) => "?",
        (Operation::Run(_) | Operation::Service(_), false) => "~",
        (Operation::Reboot(Reboot {}), false) => "!",
        (_, false) => "+",
    };
    wrapped(&format!("    {mark} "), &act.operation.describe(), width)
}

fn sums(plan: &Plan, width: usize) -> String {
    let t = &plan.totals;
    if plan.is_converged() {
        return "Nothing to do: everything is already installed.\n".to_owned();
    }
    let reboots = if t.reboots == 0 { "no reboot".to_owned() } else { count(t.reboots.into(), "reboot") };
    let text = format!(
        "{} to add, {} to change, {} to remove, {reboots}. Download {}, disk {}.{}",
        t.add,
        t.change,
        t.remove,
        amount(plan, t.download_bytes, "", |step| step.download_bytes),
        amount(plan, t.disk_bytes, "about ", |step| step.disk_bytes),
        not_known(plan)
    );
    wrapped("Plan: ", &text, width)
}

/// A total in words: `at least 5.3 GB` if the size of a part is not known.
fn amount(plan: &Plan, total: Option<u64>, about: &str, of: fn(&Step) -> Option<u64>) -> String {
    let all_known = plan.steps.iter().all(|step| of(step).is_some());
    match total {
        Some(total) if all_known => format!("{about}{}", bytes(total)),
        Some(total) => format!("at least {}", bytes(total)),
        None => "of unknown size".to_owned(),
    }
}

/// Which sizes are missing from the totals.
fn not_known(plan: &Plan) -> String {
    let brings = |step: &Step| step.operations.iter().any(|a| !a.satisfied && a.operation.installs_packages());
    let packages = plan.steps.iter().any(brings).then(|| "packages".to_owned());
    let names: Vec<_> = packages.into_iter().chain(plan.steps.iter().flat_map(unsized_files)).collect();
    match names.as_slice() {
        [] => String::new(),
        [only] if only != "packages" => format!(" The size of {only} is not known."),
        [only] => format!(" The sizes of {only} are not known."),
        [some @ .., last] => format!(" The sizes of {} and {last} are not known.", some.join(", ")),
    }
}

/// Files that a step downloads and whose size nobody published.
fn unsized_files(step: &Step) -> impl Iterator<Item = String> {
    step.operations.iter().filter(|a| !a.satisfied).filter_map(|a| match &a.operation {
        Operation::Download(Download { size: None, to, .. }) => Some(to.file_name()?.to_string_lossy().into_owned()),
        _ => None,
    })
}
