//! `gpusetup doctor`: whether the install is sound.

use super::files::{read_facts, read_kernel_log};
use super::host::{look, system, tell_left_out};
use super::options::{HostOptions, IfNoGpu, LookOptions, RunOptions};
use super::run::{RunEnd, agreed, begin, propose, writing};
use super::{Problem, locale, report, say};
use crate::apply;
use crate::causes;
use crate::compat::Database;
use crate::doctor::{
    CHECKS, EvidenceSources, Finding, Remediation, Report, Scheduler, Seen, examine, gather,
};
use crate::exit::Exit;
use crate::ids::CheckId;
use crate::nvidia;
use crate::plan::{Plan, Repair};
use crate::planning::Planner;
use crate::render;
use crate::render::doctor::DoctorStyle;
use crate::render::progress::ProgressPrinter;
use crate::report::collect;
use crate::system::{System, bug, output};
use crate::text::wrapped;
use clap::ValueEnum;
use std::path::{Path, PathBuf};

/// Flags of `doctor`.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Run only these checks (GS201), or diagnose another host's report (host.tar.zst)
    #[arg(value_name = "CHECK|REPORT")]
    checks: Vec<String>,
    #[command(flatten)]
    host: HostOptions,
    #[command(flatten)]
    look: LookOptions,
    /// Output format
    #[arg(long, value_enum, default_value = "text", conflicts_with = "json")]
    format: Format,
    /// Checks to run: install (files on disk), runtime (state of the running host), or all
    #[arg(long, value_enum, env = "GPUSETUP_CHECKS", default_value = "all")]
    profile: Profile,
    /// Exit 20 for warnings too
    #[arg(long, env = "GPUSETUP_STRICT")]
    strict: bool,
    /// Also write the findings to FILE as a web page
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Read the kernel log from FILE: output of `dmesg` or `journalctl -k` (- for standard input)
    #[arg(long, value_name = "FILE", env = "GPUSETUP_KERNEL_LOG")]
    kernel_log: Option<PathBuf>,
    /// Diagnose the host described by this `facts --json` file, as far as facts allow (- for
    /// standard input)
    #[arg(long, value_name = "FILE", env = "GPUSETUP_FACTS", conflicts_with_all = ["root", "lspci", "gpu", "fix"])]
    facts: Option<PathBuf>,
    /// Save what was seen to FILE (.tar.zst), for `gpusetup doctor FILE` elsewhere
    ///
    /// Host names, users, addresses and serial numbers are removed.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["facts", "fix", "list_checks"])]
    report: Option<PathBuf>,
    /// Repair what can be repaired safely, after showing it
    ///
    /// That is: links, caches, initramfs, kernel modules, headers and services. `gpusetup rollback`
    /// undoes it.
    #[arg(long, conflicts_with = "list_checks")]
    fix: bool,
    /// With --fix: only show what would be done
    #[arg(long, requires = "fix")]
    dry_run: bool,
    /// Also check whether this host is ready to be a node of Kubernetes or Slurm
    #[arg(
        long,
        value_enum,
        env = "GPUSETUP_READY",
        value_name = "SCHEDULER",
        conflicts_with = "facts"
    )]
    ready: Option<Scheduler>,
    /// What to do when no NVIDIA GPU is found
    #[arg(long, value_enum, env = "GPUSETUP_IF_NO_GPU", default_value = "fail")]
    if_no_gpu: IfNoGpu,
    /// List the checks and what each one reads
    #[arg(long)]
    list_checks: bool,
    #[command(flatten)]
    run: RunOptions,
}

/// Forms of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Text
    Text,
    /// One JSON object
    Json,
    /// Gauges for the node exporter's textfile collector
    Prometheus,
}

/// The checks to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Profile {
    /// Files on disk
    Install,
    /// State of the running host
    Runtime,
    /// Both
    All,
}

/// Flags of the child process that queries a library.
#[derive(Debug, clap::Args)]
pub(crate) struct AskOptions {
    #[arg(value_enum)]
    about: nvidia::Query,
    #[arg(required = true)]
    libraries: Vec<String>,
}

/// Examines the host.
pub(crate) fn run(options: &Options) -> Result<Exit, Problem> {
    let (reports, ids): (Vec<_>, Vec<_>) = options
        .checks
        .iter()
        .partition(|argument| report::is_report(argument));
    let mut only = ids
        .into_iter()
        .map(|id| known(id))
        .collect::<Result<Vec<_>, _>>()?;
    if only.is_empty() && options.profile != Profile::All {
        only.extend(
            CHECKS
                .iter()
                .filter(|c| c.runtime == (options.profile == Profile::Runtime))
                .map(|c| c.id),
        );
    }
    if options.list_checks {
        match options.is_json() {
            true => super::print_json(&listed(&only))?,
            false => super::print(&list(&only))?,
        }
        return Ok(Exit::Done);
    }
    if options.can_start_again() {
        bug::starts_the_program_again();
    }
    let with = With {
        options,
        only: &only,
        database: options.host.database()?,
        sources: options.sources()?,
    };
    let (report, origin) = match reports.as_slice() {
        [] if options.fix => (with.fix()?, None),
        [] => match &options.facts {
            Some(path) => with.facts(path)?,
            None => (with.host()?, None),
        },
        [path] => with.report(Path::new(path))?,
        [..] => return Err(Problem::usage("only one report at a time can be diagnosed")),
    };
    if let Some(path) = &options.html {
        output::write(
            path,
            render::report::html(&report, origin.as_deref()).as_bytes(),
        )
        .map_err(|e| Problem::unexpected(format!("cannot write {}: {e}", path.display())))?;
    }
    if let Some(origin) = origin.as_ref().filter(|_| !options.is_text()) {
        say(&format!("from {origin}"));
    }
    show(options, &report, origin.as_deref())?;
    let exit = report.exit(options.strict, options.if_no_gpu == IfNoGpu::Skip);
    if exit == Exit::NoGpu {
        say("no NVIDIA GPU was found; --if-no-gpu skip accepts that");
    }
    Ok(exit)
}

/// The inputs of every kind of examination, read once: standard input may be the kernel log.
struct With<'a> {
    options: &'a Options,
    only: &'a [CheckId],
    database: &'static Database,
    sources: EvidenceSources,
}

impl With<'_> {
    /// The findings on the host now.
    fn host(&self) -> Result<Report, Problem> {
        let options = self.options;
        let (facts, _) = look(&options.host, self.database)?;
        let system = system(&options.host).looked_at();
        let evidence = gather(
            &system,
            self.database,
            facts,
            &options.host.prefix,
            &self.sources,
        );
        tell_left_out(system.left_out());
        if let Some(path) = &options.report {
            self.hand_on(path, &system, &evidence)?;
        }
        let report = examine(evidence, self.database, self.only).assuming(&options.host.gpu);
        Ok(match &options.host.root {
            Some(root) => report.in_tree(root),
            None => report,
        })
    }

    /// Writes the evidence as a report.
    fn hand_on(&self, path: &Path, on: &System, seen: &Seen) -> Result<(), Problem> {
        let now = jiff::Timestamp::now()
            .strftime("%Y-%m-%dT%H:%M:%SZ")
            .to_string();
        let texts = collect(on, self.database, seen, &self.sources, now);
        report::write(
            path,
            &texts.map_err(|e| Problem::unexpected(format!("cannot make a report: {e}")))?,
        )
    }

    /// The findings in a file of facts, and where the file is from.
    fn facts(&self, path: &Path) -> Result<(Report, Option<String>), Problem> {
        let facts = read_facts(path)?;
        let origin = format!("another host's facts, collected by gpusetup {}", facts.tool);
        let evidence = Seen::from_facts(facts, &self.options.host.prefix, &self.sources);
        Ok((examine(evidence, self.database, self.only), Some(origin)))
    }

    /// The findings in a report, and where the report is from.
    fn report(&self, path: &Path) -> Result<(Report, Option<String>), Problem> {
        let options = self.options;
        let others = [
            ("--root", options.host.root.is_some()),
            ("--facts", options.facts.is_some()),
            ("--lspci", options.host.lspci.is_some()),
            ("--gpu", !options.host.gpu.is_empty()),
            ("--report", options.report.is_some()),
            ("--ready", options.ready.is_some()),
            ("--fix", options.fix),
        ];
        if let Some((flag, _)) = others.iter().find(|(_, given)| *given) {
            let sentence = format!(
                "{flag} cannot be used with the report {}: it is of another host",
                path.display()
            );
            return Err(Problem::usage(sentence));
        }
        let collected = report::read(path)?;
        let origin = format!(
            "another host, collected {} by gpusetup {}",
            collected.collected, collected.tool
        );
        let mut evidence = match &self.sources.kernel_log {
            Some(log) => collected.evidence.with_kernel_log(log),
            None => collected.evidence,
        };
        evidence.accepts_no_gpu = self.sources.accepts_no_gpu;
        Ok((examine(evidence, self.database, self.only), Some(origin)))
    }

    /// Repairs what can be repaired safely. The report is that of the host afterwards.
    fn fix(&self) -> Result<Report, Problem> {
        let options = self.options;
        let is_text = options.is_text();
        if options.dry_run {
            let report = self.host()?;
            let plan = self.plan(&report);
            if is_text && !plan.is_converged() {
                propose(&plan, &options.look)?;
            }
            return Ok(report);
        }
        let mut left = None;
        writing(&options.host, &options.run, false, |system, account| {
            let mut teller = ProgressPrinter::new(options.run.bars(), is_text);
            apply::recover(system, &mut |news| teller.tell(news))?;
            let report = self.host()?;
            let plan = self.plan(&report);
            if plan.is_converged() {
                left = Some(report);
                return Ok(RunEnd::Untouched);
            }
            if !options.run.asks_nothing() {
                if is_text {
                    show(options, &report, None)?;
                }
                propose(&plan, &options.look)?;
                if !agreed("Repair it?")? {
                    say("nothing was changed");
                    left = Some(report);
                    return Ok(RunEnd::Untouched);
                }
            }
            account.plan(&plan);
            let ended = begin(
                self.database,
                &plan,
                &options.run,
                options.run.config(Default::default()),
                system,
                account,
                &mut teller,
            )?;
            // The result is read from the host, as after every apply.
            left = Some(self.host()?);
            Ok(ended)
        })?;
        left.ok_or_else(|| Problem::unexpected("no report was made"))
    }

    fn plan(&self, report: &Report) -> Plan {
        let now = jiff::Timestamp::now().to_string();
        let findings = report.checks.iter().filter(|finding| finding.fixable);
        let repairs = findings.filter_map(repair).collect();
        Planner::new(self.database).repair(report.host.clone(), repairs, now)
    }
}

/// The safe repair of a finding. A fix that needs judgement is left to the user.
fn repair(finding: &Finding) -> Option<Repair> {
    let Remediation { text, repair, .. } = finding.remediation.as_ref()?;
    Some(Repair {
        title: format!("{}: {text}", finding.id),
        why: finding.cause.clone().unwrap_or_default(),
        operations: repair.clone(),
    })
}

impl Options {
    fn sources(&self) -> Result<EvidenceSources, Problem> {
        Ok(EvidenceSources {
            kernel_log: self
                .kernel_log
                .as_deref()
                .map(read_kernel_log)
                .transpose()?,
            today: None,
            ready: self.ready,
            accepts_no_gpu: self.if_no_gpu == IfNoGpu::Skip,
            left_out: bug::left_out(),
        })
    }

    /// Nothing is changed, and standard input is not read.
    fn can_start_again(&self) -> bool {
        !self.fix
            && ![&self.kernel_log, &self.facts, &self.host.lspci]
                .into_iter()
                .flatten()
                .any(|path| path == Path::new("-"))
    }

    fn is_json(&self) -> bool {
        self.look.json || self.format == Format::Json
    }

    fn is_text(&self) -> bool {
        !self.look.json && self.format == Format::Text
    }
}

fn show(options: &Options, findings: &Report, from: Option<&str>) -> Result<(), Problem> {
    match (options.look.json, options.format) {
        (true, _) | (false, Format::Json) => super::print_json(findings),
        (false, Format::Prometheus) => super::print(&render::doctor::prometheus(findings)),
        (false, Format::Text) => {
            let look = DoctorStyle {
                from,
                root: options.host.root.as_deref(),
                paint: super::paint(options.look.color),
                unicode: locale::speaks_unicode(),
                // Somebody who names checks wants their answers.
                verbose: options.look.verbose
                    || options.checks.iter().any(|check| !report::is_report(check)),
                width: super::width(),
            };
            let is_here = from.is_none() && options.host.root.is_none();
            super::print_text(
                render::doctor::text(findings, look),
                options.look.color,
                is_here,
            )
        }
    }
}

/// Answers the parent process about a library; not for people.
pub(crate) fn ask(options: &AskOptions) -> u8 {
    nvidia::answer(options.about, &options.libraries)
}

fn known(id: &str) -> Result<CheckId, Problem> {
    let found = id
        .parse()
        .ok()
        .filter(|id| CHECKS.iter().any(|c| c.id == *id));
    found.ok_or_else(|| {
        Problem::usage(format!("there is no check {id}")).attempt("gpusetup doctor --list-checks")
    })
}

/// What `doctor --list-checks --json` prints.
#[derive(serde::Serialize)]
struct Checks {
    schema: &'static str,
    checks: Vec<ListedCheck>,
}

#[derive(serde::Serialize)]
struct ListedCheck {
    id: CheckId,
    title: &'static str,
    /// What the check reads; null if it is none of doctor's.
    reads: Option<&'static str>,
    /// What finds it, if it is none of doctor's checks.
    elsewhere: Option<String>,
}

fn listed(only: &[CheckId]) -> Checks {
    let own = CHECKS.iter().map(|c| ListedCheck {
        id: c.id,
        title: c.title(),
        reads: Some(c.reads),
        elsewhere: None,
    });
    let others = causes::elsewhere(gpusetup_data::causes()).map(|(id, place)| ListedCheck {
        id,
        title: id.title(),
        reads: None,
        elsewhere: Some(place),
    });
    Checks {
        schema: "gpusetup.checks/1",
        checks: own
            .chain(others)
            .filter(|check| only.is_empty() || only.contains(&check.id))
            .collect(),
    }
}

fn list(only: &[CheckId]) -> String {
    let wanted = |id: &CheckId| only.is_empty() || only.contains(id);
    let mut out = String::new();
    for check in CHECKS.iter().filter(|c| wanted(&c.id)) {
        out += &wrapped(&format!("{}  ", check.id), check.title(), super::width());
        out += &wrapped("         reads ", check.reads, super::width());
    }
    for (id, place) in causes::elsewhere(gpusetup_data::causes()).filter(|(id, _)| wanted(id)) {
        out += &wrapped(&format!("{id}  "), id.title(), super::width());
        out += &wrapped("         no check: ", &place, super::width());
    }
    out
}
