//! Whether an install is sound. The evidence is gathered once for all; each check is a small pure function from it to a
//! finding that names the cause and what mends it; what only follows from another finding is said to. Nothing is changed.

pub mod anonymise;
pub mod archive;
mod area;
mod checks;
mod collect;
mod device;
mod evidence;
mod fix;
mod kernel_log;
mod sense;
#[cfg(test)]
pub mod sick;

pub use crate::nvidia::{Answer, Cuda, Nvml};
pub use archive::Collected;
pub use area::Area;
pub use checks::{CHECKS, Check};
pub use collect::collect;
pub use evidence::{
    Apt, Asked, Bus, Cached, CdiSpec, Coherent, Containers, Denial, Evidence, EvidenceSources, FORCED, FabricManager,
    FailedBuild, Given, Image, NOT_IN_FACTS, Repository, RepositoryKey, Shells, gather,
};
pub use fix::repairs;
pub use kernel_log::{LoggedGpu, LoggedXid, Said, xids};
pub use sense::Sense;

use crate::causes::Remedy;
use crate::compat::Database;
use crate::host::Facts;
use crate::ids::CheckId;
use crate::operation::Operation;
use crate::plan::DatabaseId;
use crate::text::{made_visible, one_line};
use serde::Serialize;
use std::sync::{Arc, mpsc};
use std::time::Duration;

/// The schema that [`Report`] is printed in.
pub const SCHEMA: &str = "gpusetup.doctor/1";

/// All that was found.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct Report {
    /// The name and version of this format.
    #[cfg_attr(feature = "schemas", schemars(extend("const" = SCHEMA)))]
    pub schema: &'static str,
    /// The version of gpusetup that looked.
    pub tool: &'static str,
    /// The database that the checks used.
    pub database: DatabaseId,
    /// The facts of the host that was examined.
    pub host: Facts,
    /// What the driver's management library said; none where it was not asked, or did not answer.
    pub nvml: Option<Nvml>,
    /// What CUDA's driver library said; none where it was not asked, or did not answer.
    pub cuda: Option<Cuda>,
    /// How many checks ended in each way.
    pub summary: Summary,
    /// Every check, in the order in which a GPU meets what they look at.
    pub checks: Vec<Finding>,
}

/// How many checks ended how.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct Summary {
    /// Checks that passed.
    pub pass: usize,
    /// Checks that found something that works, but not for long or not for everybody.
    pub warn: usize,
    /// Checks that found something that does not work.
    pub fail: usize,
    /// Checks that do not apply here, or that could not look.
    pub skip: usize,
    /// Checks that failed themselves.
    pub error: usize,
}

/// How a check ended, the worse the greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// It means nothing here, or could not be seen.
    Skip,
    /// What the check looks at is sound.
    Pass,
    /// Works, but not for long or not for everybody.
    Warn,
    /// The check itself did not come to an end.
    Error,
    /// Does not work.
    Fail,
}

/// What a check found.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct Finding {
    /// The id of the check, `GS501`.
    pub id: CheckId,
    /// The part of the stack that it looks at.
    pub area: Area,
    /// What is sound when it passes.
    pub title: &'static str,
    /// How the check ended.
    pub status: Status,
    /// What was read on the host.
    pub evidence: Vec<String>,
    /// Why it is so, in a sentence; for a skipped check why it was skipped. None where all is well.
    pub cause: Option<String>,
    /// What fixes it.
    pub remediation: Option<Remediation>,
    /// Whether `doctor --fix` can fix it.
    pub fixable: bool,
    /// The check whose finding this one follows from: fix that first.
    pub consequence_of: Option<CheckId>,
}

/// What fixes a problem.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct Remediation {
    /// What to do, in a sentence.
    pub text: String,
    /// The commands that do it, in their order.
    pub commands: Vec<String>,
    /// What of it `doctor --fix` does.
    #[serde(skip)]
    pub repair: Vec<Operation>,
}

/// What a check comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    status: Status,
    evidence: Vec<String>,
    cause: Option<String>,
    remediation: Option<Box<Remediation>>,
    causes: Option<&'static [CheckId]>,
}

impl Verdict {
    fn new(status: Status, cause: Option<String>) -> Self {
        Self { status, evidence: Vec::new(), cause, remediation: None, causes: None }
    }

    /// It follows from no other check's finding, though others of this check may.
    pub fn alone(self) -> Self {
        self.only_from(&[])
    }

    /// Of the checks that this one follows from it may follow only from these.
    pub fn only_from(mut self, causes: &'static [CheckId]) -> Self {
        self.causes = Some(causes);
        self
    }

    /// All is well.
    pub fn pass() -> Self {
        Self::new(Status::Pass, None)
    }

    /// It means nothing here, or could not be seen, for this reason.
    pub fn skip(why: impl Into<String>) -> Self {
        Self::new(Status::Skip, Some(why.into()))
    }

    /// It works, but not for long or not for everybody.
    pub fn warn(cause: impl Into<String>) -> Self {
        Self::new(Status::Warn, Some(cause.into()))
    }

    /// It does not work.
    pub fn fail(cause: impl Into<String>) -> Self {
        Self::new(Status::Fail, Some(cause.into()))
    }

    /// The same, and no failure.
    pub fn at_most_a_warning(mut self) -> Self {
        if self.status == Status::Fail {
            self.status = Status::Warn;
        }
        self
    }

    /// With one more thing that was read.
    pub fn saw(mut self, evidence: impl Into<String>) -> Self {
        self.evidence.push(evidence.into());
        self
    }

    /// With what mends it.
    pub fn advise<S: Into<String>>(mut self, text: impl Into<String>, commands: impl IntoIterator<Item = S>) -> Self {
        let commands = commands.into_iter().map(Into::into).collect();
        self.remediation = Some(Box::new(Remediation { text: text.into(), commands, repair: Vec::new() }));
        self
    }

    /// With what helps against this cause, in the words of whoever else speaks of it.
    pub fn helped(self, remedy: Remedy) -> Self {
        self.advise(remedy.text, remedy.commands)
    }

    /// With what repairs it safely: `--fix` does that, and a person may by the same commands.
    pub fn repair(mut self, text: impl Into<String>, operations: impl IntoIterator<Item = Operation>) -> Self {
        let repair: Vec<_> = operations.into_iter().collect();
        let commands = repair.iter().map(Operation::by_hand).collect();
        self.remediation = Some(Box::new(Remediation { text: text.into(), commands, repair }));
        self
    }

    /// Whether it can be mended safely.
    pub fn is_repairable(&self) -> bool {
        self.remediation.as_ref().is_some_and(|r| !r.repair.is_empty())
    }

    /// With what a person must do behind that.
    pub fn then<S: Into<String>>(mut self, commands: impl IntoIterator<Item = S>) -> Self {
        if let Some(remediation) = &mut self.remediation {
            remediation.commands.extend(commands.into_iter().map(Into::into));
        }
        self
    }

    /// One verdict from several about parts of the same: the first of the worst, with the evidence of all. Where it can be
    /// mended safely, so is what else can be.
    pub fn worst(verdicts: impl IntoIterator<Item = Self>) -> Option<Self> {
        verdicts.into_iter().reduce(|mut all, mut one| {
            if one.status > all.status {
                std::mem::swap(&mut all, &mut one);
                all.evidence.splice(0..0, one.evidence);
            } else {
                all.evidence.append(&mut one.evidence);
            }
            let more = one.remediation.filter(|r| !r.repair.is_empty());
            if let (Some(remediation), Some(more)) = (all.remediation.as_mut().filter(|r| !r.repair.is_empty()), more) {
                add(&mut remediation.repair, more.repair);
                add(&mut remediation.commands, more.commands);
            }
            all
        })
    }
}

/// Puts what is new behind what is there, and what both have behind that: a cache is made when all it is to know is there.
fn add<T: PartialEq>(to: &mut Vec<T>, more: Vec<T>) {
    to.retain(|one| !more.contains(one));
    to.extend(more);
}

/// Runs the checks named by `only`, or all, on what was seen.
pub fn examine(evidence: Evidence, database: &Database, only: &[CheckId]) -> Report {
    let wanted: Vec<_> = CHECKS.iter().filter(|c| only.is_empty() || only.contains(&c.id)).copied().collect();
    let evidence = Arc::new(evidence);
    let verdicts = verdicts(&wanted, &evidence, LONGEST);
    let found: Vec<_> = wanted.iter().zip(verdicts).collect();
    let failed: Vec<_> = found.iter().filter(|(_, v)| v.status == Status::Fail).map(|(c, _)| c.id).collect();
    let findings: Vec<_> = found.into_iter().map(|(check, verdict)| finding(check, verdict, &failed)).collect();
    let count = |status| findings.iter().filter(|f| f.status == status).count();
    let summary = Summary {
        pass: count(Status::Pass),
        warn: count(Status::Warn),
        fail: count(Status::Fail),
        skip: count(Status::Skip),
        error: count(Status::Error),
    };
    fn said<T>(answer: Answer<T>) -> Option<T> {
        if let Answer::Is(said) = answer { Some(said) } else { None }
    }
    // A check that never ended still holds the evidence.
    let Evidence { facts: host, nvml, cuda, .. } = Arc::unwrap_or_clone(evidence);
    Report {
        schema: SCHEMA,
        tool: env!("CARGO_PKG_VERSION"),
        database: DatabaseId::of(database),
        host,
        nvml: said(nvml).map(made_visible),
        cuda: said(cuda).map(made_visible),
        summary,
        checks: findings,
    }
}

/// What a check may take. All of them together take less than a millisecond.
const LONGEST: Duration = Duration::from_secs(2);

/// What each check comes to. A mistake in one must not cost the others: the host may be of a kind that nobody has seen. One
/// thread runs them all; another goes on behind a check that does not end, and the first ends with the process.
fn verdicts(checks: &[Check], evidence: &Arc<Evidence>, longest: Duration) -> Vec<Verdict> {
    let mut verdicts = Vec::with_capacity(checks.len());
    while verdicts.len() < checks.len() {
        let (told, hear) = mpsc::channel();
        let (rest, evidence) = (checks[verdicts.len()..].to_vec(), Arc::clone(evidence));
        let worker = std::thread::spawn(move || {
            for check in rest {
                if told.send(ended(&check, &evidence)).is_err() {
                    return;
                }
            }
        });
        verdicts.extend(std::iter::from_fn(|| hear.recv_timeout(longest).ok()));
        if verdicts.len() < checks.len() {
            verdicts.push(error(&format!("the check itself did not end within {longest:?}: please report it")));
        } else {
            // It has told all that it had to, and breaks off nowhere else.
            let _ = worker.join();
        }
    }
    verdicts
}

fn ended(check: &Check, evidence: &Evidence) -> Verdict {
    let mut broken = check.needs.iter().map(|sense| sense.name()).chain([check.id.as_str()]);
    if let Some(what) = broken.find_map(|name| evidence.broken.get(name)) {
        return error(&format!("gpusetup itself broke off while it looked at {what}: please report it"));
    }
    if evidence.only_facts && !check.facts_suffice {
        return Verdict::skip(NOT_IN_FACTS);
    }
    let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| (check.run)(evidence)));
    ended.unwrap_or_else(|_| error("the check itself broke off: please report it"))
}

fn error(cause: &str) -> Verdict {
    Verdict::new(Status::Error, Some(cause.to_owned()))
}

/// The finding, with the cause among the checks that failed: the first in the check's own list.
fn finding(check: &Check, verdict: Verdict, failed: &[CheckId]) -> Finding {
    let Verdict { status, evidence, cause, remediation, causes } = verdict;
    let is_ill = matches!(status, Status::Warn | Status::Fail);
    let may_follow = |c: &&CheckId| causes.is_none_or(|causes| causes.contains(c)) && failed.contains(c);
    let consequence_of = check.follows_from.iter().find(|c| is_ill && may_follow(c)).copied();
    let fixable = is_ill && remediation.as_ref().is_some_and(|r| !r.repair.is_empty());
    // What was read may be anybody's words; it is shown on terminals.
    let lines = |texts: Vec<String>| texts.iter().map(|text| one_line(text)).collect();
    let (evidence, cause) = (lines(evidence), cause.map(|text| one_line(&text)));
    let remediation = remediation.map(|r| {
        let Remediation { text, commands, repair } = *r;
        Remediation { text: one_line(&text), commands: lines(commands), repair }
    });
    Finding {
        id: check.id,
        area: Area::of(check.id),
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
    /// The one finding to mend first: a failure that follows from no other, else a warning.
    pub fn first(&self) -> Option<&Finding> {
        let of = |status| self.checks.iter().find(|f| f.status == status && f.consequence_of.is_none());
        of(Status::Fail).or_else(|| of(Status::Error)).or_else(|| of(Status::Warn))
    }

    /// Whether anything failed; with `strict` also whether anything was warned of.
    pub fn has_failed(&self, strict: bool) -> bool {
        let Summary { warn, fail, error, .. } = self.summary;
        fail + error > 0 || strict && warn > 0
    }
}

/// Reads a text as each program's whose answers are read here.
#[cfg(fuzzing)]
pub fn read_anything(text: &str) {
    evidence::read_anything(text);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::causes;

    #[test]
    fn the_worst_of_several_counts_and_no_evidence_is_lost() {
        let parts = [Verdict::pass().saw("a"), Verdict::fail("x").saw("b"), Verdict::fail("y").saw("c")];
        let all = Verdict::worst(parts).expect("three");
        assert_eq!((all.status, all.cause.as_deref()), (Status::Fail, Some("x")));
        assert_eq!(all.evidence, ["a", "b", "c"]);
        assert_eq!(Verdict::worst([]), None);
    }

    #[test]
    fn a_check_that_breaks_off_is_an_error_and_no_more() {
        let check = Check { run: |_| panic!("as the test wants it"), ..CHECKS[0] };
        assert_eq!(ended(&check, &sick::sound()).status, Status::Error);
    }

    #[test]
    fn a_check_that_does_not_end_holds_up_no_other() {
        let endless = Check {
            run: |_| loop {
                std::thread::sleep(Duration::from_millis(5));
            },
            ..CHECKS[0]
        };
        let sound = Check { run: |_| Verdict::pass(), ..CHECKS[0] };
        let checks = [sound, endless, sound, endless];
        let found = verdicts(&checks, &Arc::new(sick::sound()), Duration::from_millis(50));
        let statuses: Vec<_> = found.iter().map(|v| v.status).collect();
        assert_eq!(statuses, [Status::Pass, Status::Error, Status::Pass, Status::Error]);
        assert!(found[1].cause.as_ref().is_some_and(|c| c.contains("50ms")), "{found:?}");
    }

    #[test]
    fn what_could_not_be_looked_at_is_no_pass() {
        let mut evidence = sick::sound();
        evidence.broken.insert(CheckId::GS201.to_string(), "the initramfs images".to_owned());
        let report = examine(evidence, &crate::database::embedded(), &[]);
        assert_eq!(report.summary.error, 1);
        let found = report.checks.iter().find(|f| f.status == Status::Error).expect("an error");
        assert!(
            found.id == CheckId::GS201 && found.cause.as_ref().is_some_and(|c| c.contains("initramfs")),
            "{found:?}"
        );
        assert!(report.has_failed(false));
    }

    #[test]
    fn every_check_has_an_id_of_its_own_and_knows_its_causes() {
        for id in CheckId::ALL {
            let has_check = CHECKS.iter().any(|c| c.id == *id);
            assert_ne!(has_check, causes::of(*id).elsewhere.is_some(), "{id}: a check, or where else it is seen to");
        }
        for (n, check) in CHECKS.iter().enumerate() {
            assert!(CHECKS[..n].iter().all(|c| c.id != check.id), "{} is there twice", check.id);
            for cause in check.follows_from {
                assert!(CHECKS[..n].iter().any(|c| c.id == *cause), "{}: {cause} must stand before it", check.id);
            }
        }
    }
}
