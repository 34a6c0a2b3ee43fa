//! Diagnoses an installation. The evidence is gathered once. Each check is a small pure function
//! from the evidence to a finding that names the cause and the fix. A finding that follows from
//! another one says so. Nothing is changed.

// clippy.toml lists what only `gpusetup-system` may call.
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod area;
mod case;
mod checks;
mod concerned;
mod device;
mod evidence;
pub mod kernel_log;
mod probe;
#[cfg(test)]
pub mod sick;

pub use area::Area;
pub(crate) use case::Case;
pub use checks::{CHECKS, Check};
pub(crate) use evidence::{
    Asked, BootLayouts, Cluster, Containers, DockerDaemon, FORCED, Kubernetes, NOT_IN_FACTS,
    OldCdiReader, RepositoryKey, Shells, SignedModules, Slurm, StartedAgent,
};
pub use evidence::{
    BuiltFor, EvidenceSources, PythonEnvironment, Repository, Scheduler, Seen, gather,
};
pub use gpusetup_nvidia::{Answer, Cuda, GpuTable};
pub(crate) use kernel_log::{KernelEvent, LoggedGpu};
pub use kernel_log::{LoggedSxid, LoggedXid, sxids, xids};
pub use probe::Probe;

use gpusetup_causes::{Remedy, gpus, offline_root};
use gpusetup_database::compat::{Database, DatabaseId};
use gpusetup_host::Facts;
use gpusetup_operation::Operation;
use gpusetup_system::bug;
use gpusetup_text::exit::Exit;
use gpusetup_text::ids::CheckId;
use gpusetup_text::text::{made_visible, one_line};
use serde::Serialize;
use std::path::Path;
use std::sync::{Arc, mpsc};
use std::time::Duration;

/// The schema that [`Report`] is printed in.
pub(crate) const SCHEMA: &str = "gpusetup.doctor/1";

/// The result of all checks.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct Report {
    /// The name and version of this format.
    #[cfg_attr(feature = "schemas", schemars(extend("const" = SCHEMA)))]
    pub(crate) schema: &'static str,
    /// The version of gpusetup that ran the checks.
    pub tool: &'static str,
    /// The database that the checks used.
    pub database: DatabaseId,
    /// The facts of the host that was examined.
    pub host: Facts,
    /// What NVML reported. None if it was not asked or did not answer.
    pub nvml: Option<GpuTable>,
    /// What CUDA's driver library reported. None if it was not asked or did not answer.
    pub(crate) cuda: Option<Cuda>,
    /// Python environments with a framework or libraries of NVIDIA. None if they were not read.
    pub python: Option<Vec<PythonEnvironment>>,
    /// The number of checks by status.
    pub summary: Summary,
    /// Every check, from the bottom of the stack to the top.
    pub checks: Vec<Finding>,
}

/// The number of checks by status.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct Summary {
    /// Checks that passed.
    pub pass: usize,
    /// Checks that found a problem that does not stop the host from working now.
    pub warn: usize,
    /// Checks that found something broken.
    pub fail: usize,
    /// Checks that do not apply here, or that could not read the host's state.
    pub skip: usize,
    /// Checks that failed because of an error in gpusetup.
    pub error: usize,
}

/// How a check ended, from best to worst.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// Does not apply here, or could not be checked.
    Skip,
    /// No problem.
    Pass,
    /// A problem that does not stop the host from working now.
    Warn,
    /// The check itself failed.
    Error,
    /// Something is broken.
    Fail,
}

/// The result of one check.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct Finding {
    /// The id of the check, `GS501`.
    pub id: CheckId,
    /// The part of the stack that it checks.
    pub area: Area,
    /// The thing that is checked.
    pub title: &'static str,
    /// How the check ended.
    pub status: Status,
    /// What was read on the host.
    pub evidence: Vec<String>,
    /// The cause, in a sentence; for a skipped check the reason. None if the check passed.
    pub cause: Option<String>,
    /// The fix.
    pub remediation: Option<Remediation>,
    /// Whether `doctor --fix` can fix it.
    pub fixable: bool,
    /// The check with the root cause of this finding: fix that first.
    pub consequence_of: Option<CheckId>,
}

/// The fix for a problem.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct Remediation {
    /// What to do, in a sentence.
    pub text: String,
    /// The commands that do it, in order.
    pub commands: Vec<String>,
    /// The operations that `doctor --fix` performs.
    #[serde(skip)]
    pub repair: Vec<Operation>,
}

/// The verdict of a check, before it becomes a [`Finding`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Verdict {
    status: Status,
    evidence: Vec<String>,
    cause: Option<String>,
    remediation: Option<Box<Remediation>>,
    causes: Option<&'static [CheckId]>,
    /// The GPUs that it concerns, if its sentences are about GPUs (see `concerned`).
    gpus: Vec<String>,
    /// The area that it is about, if that is not the one of its check.
    area: Option<Area>,
}

impl Verdict {
    fn new(status: Status, cause: Option<String>) -> Self {
        Self {
            status,
            evidence: Vec::new(),
            cause,
            remediation: None,
            causes: None,
            gpus: Vec::new(),
            area: None,
        }
    }

    /// The same without its repair and its commands, which would fail again; with advice alone.
    pub(crate) fn without_repair(mut self, text: &str) -> Self {
        self.remediation = None;
        self.advise(text, [""; 0])
    }

    /// This verdict is about another area than its check.
    pub(crate) fn of_area(mut self, area: Area) -> Self {
        self.area = Some(area);
        self
    }

    /// This verdict is a root cause, even if other verdicts of this check may follow from other
    /// checks.
    pub(crate) fn root_cause(self) -> Self {
        self.caused_only_by(&[])
    }

    /// Restricts the possible root causes to these checks.
    pub(crate) fn caused_only_by(mut self, causes: &'static [CheckId]) -> Self {
        self.causes = Some(causes);
        self
    }

    /// No problem.
    pub(crate) fn pass() -> Self {
        Self::new(Status::Pass, None)
    }

    /// Does not apply here, or could not be checked, for this reason.
    pub(crate) fn skip(why: impl Into<String>) -> Self {
        Self::new(Status::Skip, Some(why.into()))
    }

    /// A problem that does not stop the host from working now.
    pub(crate) fn warn(cause: impl Into<String>) -> Self {
        Self::new(Status::Warn, Some(cause.into()))
    }

    /// Something is broken.
    pub(crate) fn fail(cause: impl Into<String>) -> Self {
        Self::new(Status::Fail, Some(cause.into()))
    }

    /// Lowers a failure to a warning.
    pub(crate) fn at_most_a_warning(mut self) -> Self {
        if self.status == Status::Fail {
            self.status = Status::Warn;
        }
        self
    }

    /// Adds a line of evidence.
    pub(crate) fn evidence(mut self, evidence: impl Into<String>) -> Self {
        self.evidence.push(evidence.into());
        self
    }

    /// Adds a fix that the user must apply.
    pub(crate) fn advise<S: Into<String>>(
        mut self,
        text: impl Into<String>,
        commands: impl IntoIterator<Item = S>,
    ) -> Self {
        let commands = commands.into_iter().map(Into::into).collect();
        self.remediation = Some(Box::new(Remediation {
            text: text.into(),
            commands,
            repair: Vec::new(),
        }));
        self
    }

    /// Adds the remedy that [`gpusetup_causes`] has for this problem.
    pub(crate) fn remedy(self, remedy: Remedy) -> Self {
        self.advise(remedy.text, remedy.commands)
    }

    /// Marks it as about this GPU, by its bus address: for sentences and commands with `{gpus}`.
    pub(crate) fn of_gpu(mut self, address: &str) -> Self {
        self.gpus.push(address.to_owned());
        self
    }

    /// Whether it says the same as another one about other GPUs.
    fn is_about_more_gpus_than(&self, other: &Self) -> bool {
        let [own, others] =
            [self, other].map(|verdict| verdict.remediation.as_ref().map(|r| &r.text));
        let is_alike =
            (self.status, &self.cause, self.causes) == (other.status, &other.cause, other.causes);
        is_alike && !self.gpus.is_empty() && !other.gpus.is_empty() && own == others
    }

    /// Adds a safe repair. `--fix` performs it, and the user can run the same commands.
    pub(crate) fn repair(
        mut self,
        text: impl Into<String>,
        operations: impl IntoIterator<Item = Operation>,
    ) -> Self {
        let repair: Vec<_> = operations.into_iter().collect();
        let commands = repair.iter().map(Operation::by_hand).collect();
        self.remediation = Some(Box::new(Remediation {
            text: text.into(),
            commands,
            repair,
        }));
        self
    }

    /// Whether `--fix` can repair it.
    pub(crate) fn is_repairable(&self) -> bool {
        self.remediation
            .as_ref()
            .is_some_and(|r| !r.repair.is_empty())
    }

    /// Adds commands that the user must run afterwards.
    pub(crate) fn and_run<S: Into<String>>(
        mut self,
        commands: impl IntoIterator<Item = S>,
    ) -> Self {
        if let Some(remediation) = &mut self.remediation {
            remediation
                .commands
                .extend(commands.into_iter().map(Into::into));
        }
        self
    }

    /// Merges verdicts on parts of the same thing: the first of the worst ones, with the evidence
    /// of all, and with the GPUs of those that say the same. If it is repairable, the repairs of
    /// the others are added.
    pub(crate) fn worst(verdicts: impl IntoIterator<Item = Self>) -> Option<Self> {
        verdicts.into_iter().reduce(|mut all, mut one| {
            if one.is_about_more_gpus_than(&all) {
                one.gpus.retain(|gpu| !all.gpus.contains(gpu));
                all.gpus.append(&mut one.gpus);
                if let (Some(own), Some(more)) = (all.remediation.as_mut(), &one.remediation) {
                    let new: Vec<_> = more
                        .commands
                        .iter()
                        .filter(|c| !own.commands.contains(c))
                        .cloned()
                        .collect();
                    own.commands.extend(new);
                }
            }
            if one.status > all.status {
                std::mem::swap(&mut all, &mut one);
                all.evidence.splice(0..0, one.evidence);
            } else {
                all.evidence.append(&mut one.evidence);
            }
            let more = one.remediation.filter(|r| !r.repair.is_empty());
            if let (Some(remediation), Some(more)) = (
                all.remediation.as_mut().filter(|r| !r.repair.is_empty()),
                more,
            ) {
                if remediation.text != more.text {
                    remediation.text += &format!("; {}", more.text);
                }
                add(&mut remediation.repair, more.repair);
                add(&mut remediation.commands, more.commands);
            }
            all
        })
    }
}

/// Appends `more`, without duplicates. What both have moves to the end: the loader's cache is
/// rebuilt after all other changes.
fn add<T: PartialEq>(to: &mut Vec<T>, more: Vec<T>) {
    to.retain(|one| !more.contains(one));
    to.extend(more);
}

/// Runs the checks in `only`, or all checks if it is empty.
pub fn examine(mut seen: Seen, database: &'static Database, only: &[CheckId]) -> Report {
    seen.complete(database);
    let wanted: Vec<_> = CHECKS
        .iter()
        .filter(|c| only.is_empty() || only.contains(&c.id))
        .copied()
        .collect();
    let seen = Arc::new(seen);
    let verdicts = verdicts(&wanted, &seen, database, MAX_CHECK_TIME);
    let found: Vec<_> = wanted.iter().zip(verdicts).collect();
    let listed = if let Answer::Is(nvml) = &seen.nvml {
        nvml.gpus.len()
    } else {
        0
    };
    let gpu_count = seen.facts.gpus.len().max(listed);
    let failed: Vec<_> = found
        .iter()
        .filter(|(_, v)| v.status == Status::Fail)
        .map(|(c, _)| c.id)
        .collect();
    let findings: Vec<_> = found
        .into_iter()
        .map(|(check, verdict)| {
            let verdict = in_its_layers(named(verdict, gpu_count), &seen.facts);
            finding(check, verdict, &failed)
        })
        .collect();
    let count = |status| findings.iter().filter(|f| f.status == status).count();
    let summary = Summary {
        pass: count(Status::Pass),
        warn: count(Status::Warn),
        fail: count(Status::Fail),
        skip: count(Status::Skip),
        error: count(Status::Error),
    };
    fn said<T>(answer: Answer<T>) -> Option<T> {
        if let Answer::Is(said) = answer {
            Some(said)
        } else {
            None
        }
    }
    // A check that never ended still owns a reference.
    let Seen {
        facts: host,
        nvml,
        cuda,
        python,
        ..
    } = Arc::unwrap_or_clone(seen);
    Report {
        schema: SCHEMA,
        tool: env!("CARGO_PKG_VERSION"),
        database: DatabaseId::of(database),
        host,
        nvml: said(nvml).map(made_visible),
        cuda: said(cuda).map(made_visible),
        python: said(python).map(made_visible),
        summary,
        checks: findings,
    }
}

/// The time limit of a check. All of them together take less than a millisecond.
const MAX_CHECK_TIME: Duration = Duration::from_secs(2);

/// The verdict of each check. A bug in one check must not affect the others. One thread runs them
/// all. If a check does not end, a new thread runs the remaining ones, and the old thread ends with
/// the process.
fn verdicts(
    checks: &[Check],
    seen: &Arc<Seen>,
    database: &'static Database,
    longest: Duration,
) -> Vec<Verdict> {
    let mut verdicts = Vec::with_capacity(checks.len());
    while verdicts.len() < checks.len() {
        let (told, hear) = mpsc::channel();
        let left = &checks[verdicts.len()..];
        let (rest, shared) = (left.to_vec(), Arc::clone(seen));
        let worker = std::thread::Builder::new().spawn(move || {
            let case = Case::new(&shared, database);
            for check in rest {
                if told.send(ended(&check, &case)).is_err() {
                    return;
                }
            }
        });
        // The system has no thread left, so this one runs them, without a limit.
        let Ok(worker) = worker else {
            let case = Case::new(seen, database);
            verdicts.extend(left.iter().map(|check| ended(check, &case)));
            break;
        };
        verdicts.extend(std::iter::from_fn(|| hear.recv_timeout(longest).ok()));
        if verdicts.len() < checks.len() {
            verdicts.push(error(&format!(
                "the check did not end within {longest:?}: please report this bug"
            )));
        } else {
            // The worker has sent every verdict and cannot panic elsewhere.
            let _ = worker.join();
        }
    }
    verdicts
}

fn ended(check: &Check, case: &Case) -> Verdict {
    let mut broken = check
        .needs
        .iter()
        .map(|probe| probe.name())
        .chain([check.id.as_str()]);
    if let Some(what) = broken.find_map(|name| case.seen.broken.get(name)) {
        return error(&format!(
            "gpusetup failed while reading {what}: please report this bug"
        ));
    }
    if case.seen.only_facts && !check.facts_suffice {
        return Verdict::skip(NOT_IN_FACTS);
    }
    bug::run_part(check.id.as_str(), || (check.run)(case))
}

fn error(cause: &str) -> Verdict {
    Verdict::new(Status::Error, Some(cause.to_owned()))
}

/// The verdict with the names of its GPUs, of so many that the host has.
fn named(mut verdict: Verdict, of: usize) -> Verdict {
    let gpus = std::mem::take(&mut verdict.gpus);
    if gpus.is_empty() {
        return verdict;
    }
    verdict.cause = verdict
        .cause
        .map(|cause| concerned::sentence(&cause, &gpus, of));
    if let Some(remediation) = &mut verdict.remediation {
        remediation.text = concerned::sentence(&remediation.text, &gpus, of);
        remediation
            .commands
            .iter_mut()
            .for_each(|command| *command = concerned::command(command, &gpus));
    }
    verdict
}

/// The verdict whose plans keep the layers of the host: where a driver is installed and no toolkit,
/// a plan that names no layer would add one.
fn in_its_layers(mut verdict: Verdict, facts: &Facts) -> Verdict {
    if facts.driver.is_none() || !facts.toolkits.is_empty() {
        return verdict;
    }
    for command in verdict.remediation.iter_mut().flat_map(|r| &mut r.commands) {
        let start = ["gpusetup plan", "sudo gpusetup apply"]
            .into_iter()
            .find(|start| command.starts_with(start));
        let options = start.map(|start| command.split_at(start.len()).1);
        let is_open = options.is_some_and(|options| {
            (options.is_empty() || options.starts_with(' '))
                && !NAMES_LAYERS.iter().any(|name| options.contains(name))
        });
        if let Some(start) = start.filter(|_| is_open) {
            command.insert_str(start.len(), " --profile driver");
        }
    }
    verdict
}

/// Options with which a plan is about other layers, or about another host.
const NAMES_LAYERS: [&str; 8] = [
    "--profile",
    "--cuda",
    "--cudnn",
    "--with",
    "--for",
    "--facts",
    "--lspci",
    "--os",
];

/// The finding, with its root cause: the first check in `follows_from` that failed.
fn finding(check: &Check, verdict: Verdict, failed: &[CheckId]) -> Finding {
    let Verdict {
        status,
        evidence,
        cause,
        remediation,
        causes,
        gpus: _,
        area,
    } = verdict;
    let is_ill = matches!(status, Status::Warn | Status::Fail);
    let mut may_cause = check.follows_from.iter().filter(|_| is_ill);
    let consequence_of = may_cause
        .find(|c| causes.is_none_or(|causes| causes.contains(c)) && failed.contains(c))
        .copied();
    let fixable = is_ill && remediation.as_ref().is_some_and(|r| !r.repair.is_empty());
    // The texts may come from untrusted files, and are shown on terminals.
    let evidence = evidence.iter().map(|text| one_line(text)).collect();
    let cause = cause.map(|text| one_line(&text));
    let remediation = remediation.map(|r| {
        let Remediation {
            text,
            commands,
            repair,
        } = *r;
        Remediation {
            text: one_line(&text),
            commands: commands.iter().map(|text| one_line(text)).collect(),
            repair,
        }
    });
    Finding {
        id: check.id,
        area: area.unwrap_or(check.area),
        title: check.title(),
        status,
        evidence,
        cause,
        remediation,
        fixable,
        consequence_of,
    }
}

impl Report {
    /// The finding to fix first: a failure that follows from no other, else a warning.
    pub fn first(&self) -> Option<&Finding> {
        let causes = self.checks.iter().filter(|f| f.consequence_of.is_none());
        [Status::Fail, Status::Error, Status::Warn]
            .into_iter()
            .find_map(|status| causes.clone().find(|f| f.status == status))
    }

    /// The report on a host with GPUs that are assumed, if there are any: what it suggests to plan
    /// assumes them, too.
    pub fn assuming(mut self, specs: &[String]) -> Self {
        let commands = self
            .checks
            .iter_mut()
            .filter_map(|finding| finding.remediation.as_mut())
            .flat_map(|r| &mut r.commands);
        for command in commands {
            *command = gpus::command(command, specs);
        }
        self
    }

    /// The report on the host in a tree: its commands are for that tree, not for the machine that
    /// they are typed on.
    pub fn in_tree(mut self, root: &Path) -> Self {
        for remediation in self
            .checks
            .iter_mut()
            .filter_map(|finding| finding.remediation.as_mut())
        {
            let mut commands: Vec<_> = remediation
                .commands
                .iter()
                .filter_map(|c| offline_root::command(c, root))
                .collect();
            commands.dedup();
            remediation.commands = commands;
        }
        self
    }

    /// The exit code for the report: with `strict` warnings are failures, and a host without a GPU
    /// may be accepted.
    pub fn exit(&self, strict: bool, accepts_no_gpu: bool) -> Exit {
        match self.host.has_no_gpu() && !accepts_no_gpu {
            true => Exit::NoGpu,
            false if self.has_failed(strict) => Exit::Findings,
            false => Exit::Done,
        }
    }

    /// Whether a check failed; with `strict` also whether one warned.
    pub(crate) fn has_failed(&self, strict: bool) -> bool {
        let Summary {
            warn, fail, error, ..
        } = self.summary;
        fail + error > 0 || strict && warn > 0
    }
}

/// Parses a text as the output of each program that doctor runs. For fuzzing.
#[cfg(fuzzing)]
pub fn read_anything(text: &str) {
    evidence::read_anything(text);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_of_several_counts_and_no_evidence_is_lost() {
        let parts = [
            Verdict::pass().evidence("a"),
            Verdict::fail("x").evidence("b"),
            Verdict::fail("y").evidence("c"),
        ];
        let all = Verdict::worst(parts).expect("three");
        assert_eq!(
            (all.status, all.cause.as_deref()),
            (Status::Fail, Some("x"))
        );
        assert_eq!(all.evidence, ["a", "b", "c"]);
        assert_eq!(Verdict::worst([]), None);
    }

    #[test]
    fn a_check_that_does_not_end_holds_up_no_other() {
        let endless = Check {
            run: |_| loop {
                std::thread::sleep(Duration::from_millis(5));
            },
            ..CHECKS[0]
        };
        let sound = Check {
            run: |_| Verdict::pass(),
            ..CHECKS[0]
        };
        let checks = [sound, endless, sound, endless];
        let found = verdicts(
            &checks,
            &Arc::new(sick::sound()),
            gpusetup_data::shared(),
            Duration::from_millis(50),
        );
        let statuses: Vec<_> = found.iter().map(|v| v.status).collect();
        assert_eq!(
            statuses,
            [Status::Pass, Status::Error, Status::Pass, Status::Error]
        );
        assert!(
            found[1].cause.as_ref().is_some_and(|c| c.contains("50ms")),
            "{found:?}"
        );
    }

    #[test]
    fn what_could_not_be_looked_at_is_no_pass() {
        let mut evidence = sick::sound();
        evidence.broken.insert(
            CheckId::GS201.to_string(),
            "the initramfs images".to_owned(),
        );
        let report = examine(evidence, gpusetup_data::shared(), &[]);
        assert_eq!(report.summary.error, 1);
        let found = report
            .checks
            .iter()
            .find(|f| f.status == Status::Error)
            .expect("an error");
        assert!(
            found.id == CheckId::GS201
                && found
                    .cause
                    .as_ref()
                    .is_some_and(|c| c.contains("initramfs")),
            "{found:?}"
        );
        assert!(report.has_failed(false));
    }

    #[test]
    fn every_check_has_an_id_of_its_own_and_knows_its_causes() {
        for (n, check) in CHECKS.iter().enumerate() {
            assert!(!check.reads.is_empty(), "{}", check.id);
            assert!(
                CHECKS[..n].iter().all(|c| c.id != check.id),
                "{} is listed twice",
                check.id
            );
            for cause in check.follows_from {
                // The one follows from the other only where DKMS's log shows that it does.
                if (check.id, *cause) == (CheckId::GS603, CheckId::GS104) {
                    continue;
                }
                assert!(
                    CHECKS[..n].iter().any(|c| c.id == *cause),
                    "{}: {cause} must come before it",
                    check.id
                );
            }
        }
    }
}
