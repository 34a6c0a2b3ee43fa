//! The answer when nothing fits: which facts conflict, and what would work instead.

use super::derive::Premise;
use super::refusal::{Explanation, Refusal, Subject};
use super::{Method, Reason, Request, Selection};
use gpusetup_database::compat::ModuleFlavour;
use gpusetup_database::version::Want;
use gpusetup_text::exit::Exit;
use gpusetup_text::ids::{CheckId, Rule, RuleId};
use serde::{Serialize, Serializer};
use std::fmt;

/// Why there is no plan.
#[derive(Debug, Clone, PartialEq)]
pub struct Conflict {
    /// The kind of refusal.
    pub kind: ConflictKind,
    /// The rule that decided.
    pub rule: Rule,
    /// The id of the `doctor` check that finds the same problem.
    pub check: Option<CheckId>,
    /// The message, in one sentence.
    pub sentence: String,
    /// What would help.
    pub hints: Vec<Hint>,
    /// The facts that conflict.
    pub derivation: Vec<Premise>,
    /// A selection that fits.
    pub alternative: Option<Box<Alternative>>,
}

/// What would help.
#[derive(Debug, Clone, PartialEq)]
pub enum Hint {
    /// Advice as text.
    Words(String),
    /// Another command, such as one that lists what is known.
    Command(String),
    /// Another plan for the same host.
    Plan {
        /// Its purpose, if not obvious: `leave the driver out`.
        why: &'static str,
        /// The options that name the host: `--root /mnt/image`.
        host: String,
        /// The options of the request: `--profile toolkit`.
        request: String,
        /// How it differs from what was asked for, until that is known (`Conflict::for_request`).
        change: Option<Change>,
        /// The same as a request; none if it was not tried.
        asks: Option<Box<Request>>,
        /// Its result, if known: `driver 580.159.04, CUDA 13.0.3`.
        gives: Option<String>,
    },
}

impl Hint {
    /// Another plan for the same host, which was not tried: its purpose, and how it differs from
    /// what was asked for.
    pub fn plan(why: &'static str, change: Change) -> Self {
        let request = change.of(&Request::default_on(String::new())).options();
        Self::Plan {
            why,
            host: String::new(),
            request,
            change: Some(change),
            asks: None,
            gives: None,
        }
    }

    /// A plan that must be tried before it is suggested.
    pub fn asking(why: &'static str, request: Request) -> Self {
        let options = request.options();
        let asks = Some(Box::new(request));
        Self::Plan {
            why,
            host: String::new(),
            request: options,
            change: None,
            asks,
            gives: None,
        }
    }

    /// The same hint with its result.
    pub fn giving(self, result: String) -> Self {
        match self {
            Self::Plan {
                why,
                host,
                request,
                change,
                asks,
                gives: _,
            } => Self::Plan {
                why,
                host,
                request,
                change,
                asks,
                gives: Some(result),
            },
            Self::Words(_) | Self::Command(_) => self,
        }
    }

    /// The request, if known.
    pub fn asks(&self) -> Option<&Request> {
        if let Self::Plan {
            asks: Some(request),
            ..
        } = self
        {
            Some(request)
        } else {
            None
        }
    }

    /// The command that plans it.
    pub fn command(&self) -> Option<String> {
        let (host, request) = match self {
            Self::Words(_) => return None,
            Self::Command(command) => return Some(command.clone()),
            Self::Plan { host, request, .. } => (host, request),
        };
        let parts = ["gpusetup plan", host.as_str(), request.as_str()]
            .into_iter()
            .filter(|part| !part.is_empty());
        Some(parts.collect::<Vec<_>>().join(" "))
    }
}

/// A difference between what was asked for and what is suggested instead. Everything else stays as
/// it was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// The toolkit without a driver.
    Toolkit,
    /// The newest toolkit that fits, without a driver, for this GPU.
    ToolkitFor(String),
    /// The driver without a toolkit.
    Driver,
    /// The driver of this branch with open modules, without a toolkit.
    OpenDriver(u16),
    /// This GPU, as if it were there.
    Gpu(&'static str),
    /// With the GPUs that were left out.
    AllGpus,
}

impl Change {
    /// The changed request.
    fn of(&self, request: &Request) -> Request {
        match self {
            Self::Toolkit => {
                let asked = request.clone();
                // Without a toolkit nobody said anything of cuDNN.
                let cudnn = if asked.cuda.is_wanted() {
                    asked.cudnn
                } else {
                    Want::Best
                };
                // A host of containers keeps its toolkits in them.
                let cuda = if asked.settings.containers.is_some() {
                    asked.cuda
                } else {
                    or_best(asked.cuda)
                };
                Request {
                    driver: Want::Nothing,
                    driver_file: None,
                    modules: None,
                    method: Method::Auto,
                    cuda,
                    cudnn,
                    ..asked
                }
            }
            Self::ToolkitFor(gpu) => Request {
                assumed_gpus: vec![gpu.clone()],
                cuda: Want::Best,
                ..Self::Toolkit.of(request)
            },
            Self::Driver => {
                let alone = request.driver_alone();
                Request {
                    driver: or_best(alone.driver),
                    ..alone
                }
            }
            Self::OpenDriver(branch) => Request {
                driver: branch.to_string().parse().unwrap_or(Want::Best),
                modules: Some(ModuleFlavour::Open),
                ..request.driver_alone()
            },
            Self::AllGpus => Request {
                leave_out: Vec::new(),
                ..request.clone()
            },
            Self::Gpu(gpu) => Request {
                assumed_gpus: vec![(*gpu).to_owned()],
                ..request.clone()
            },
        }
    }
}

/// What is wanted, or any version of what was left out.
fn or_best<V>(want: Want<V>) -> Want<V> {
    if want.is_wanted() { want } else { Want::Best }
}

impl From<String> for Hint {
    fn from(words: String) -> Self {
        Self::Words(words)
    }
}

impl From<&str> for Hint {
    fn from(words: &str) -> Self {
        Self::Words(words.to_owned())
    }
}

impl fmt::Display for Hint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Words(words) | Self::Command(words) => f.write_str(words),
            Self::Plan { why, gives, .. } => {
                f.write_str(&self.command().unwrap_or_default())?;
                let comment = [Some(*why).filter(|why| !why.is_empty()), gives.as_deref()];
                let comment = comment.into_iter().flatten().collect::<Vec<_>>().join(": ");
                if comment.is_empty() {
                    Ok(())
                } else {
                    write!(f, "  # {comment}")
                }
            }
        }
    }
}

impl Serialize for Hint {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

/// A selection for a smaller request.
#[derive(Debug, Clone, PartialEq)]
pub struct Alternative {
    /// The choice.
    pub selection: Selection,
    /// Why each part of the choice was made.
    pub reasons: Vec<Reason>,
}

/// Kinds of refusal, each with its own exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConflictKind {
    /// No combination fits, or the GPU, system or architecture is not supported: exit 4.
    NothingFits,
    /// The host requires manual action first: exit 5.
    Blocked,
    /// There is no NVIDIA GPU: exit 9.
    NoGpu,
    /// The request itself is invalid: exit 2.
    Request,
}

impl Conflict {
    /// Nothing fits because of `rule`; includes the id of the doctor check that finds the same, if
    /// there is one.
    pub(crate) fn new(rule: impl Into<Rule>, sentence: impl Into<String>) -> Self {
        let rule = rule.into();
        Self {
            kind: ConflictKind::NothingFits,
            rule,
            check: gpusetup_causes::of_rule(rule),
            sentence: sentence.into(),
            hints: Vec::new(),
            derivation: Vec::new(),
            alternative: None,
        }
    }

    /// Nothing fits, and nobody asks why.
    pub(crate) fn unexplained() -> Self {
        Self::new(RuleId::Request, "")
    }

    /// Nothing fits: the refusal of the candidate that came nearest.
    pub(crate) fn refused(of: &Subject, refusal: Refusal, context: &Explanation) -> Self {
        let explained = refusal.explain(of, context);
        let sentence = format!("{} does not fit: {}", of.named(), explained.sentence);
        Self {
            derivation: explained.premises,
            ..Self::new(explained.rule, sentence)
        }
    }

    /// The request itself is invalid.
    pub fn request(sentence: impl Into<String>) -> Self {
        Self {
            kind: ConflictKind::Request,
            ..Self::new(RuleId::Request, sentence)
        }
    }

    /// The host requires manual action first.
    pub fn blocked(check: CheckId, sentence: impl Into<String>) -> Self {
        Self {
            kind: ConflictKind::Blocked,
            ..Self::new(RuleId::Blocked, sentence)
        }
        .check(check)
    }

    pub(crate) fn no_gpu() -> Self {
        Self {
            kind: ConflictKind::NoGpu,
            ..Self::new(
                RuleId::GpuPresent,
                "this host has no NVIDIA GPU on its PCI bus",
            )
        }
        .hint(Hint::plan("plan as if there were one", Change::Gpu("h100")))
    }

    /// There are GPUs, and the request leaves all of them out.
    pub(crate) fn all_left_out() -> Self {
        Self {
            kind: ConflictKind::NoGpu,
            ..Self::new(RuleId::GpuPresent, "--leave-out leaves no GPU to plan for")
        }
        .hint(Hint::plan("with all GPUs", Change::AllGpus))
    }

    /// Sets the id of the doctor check that finds the same problem.
    pub fn check(mut self, id: CheckId) -> Self {
        self.check = Some(id);
        self
    }

    /// Adds a hint.
    pub fn hint(mut self, hint: impl Into<Hint>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// Adds the options that name the host to the suggested plans: `--root /mnt/image`.
    pub fn on_host(mut self, options: &str) -> Self {
        for hint in &mut self.hints {
            if let Hint::Plan { host, .. } = hint {
                options.clone_into(host);
            }
        }
        self
    }

    /// Makes the suggested plans that were not tried into changes of this request.
    pub fn for_request(mut self, asked: &Request) -> Self {
        for hint in &mut self.hints {
            if let Hint::Plan {
                request,
                change: Some(change),
                ..
            } = hint
            {
                *request = change.of(asked).options();
            }
        }
        self
    }

    /// The exit code for this refusal.
    pub fn exit(&self) -> Exit {
        match self.kind {
            ConflictKind::Request => Exit::Usage,
            ConflictKind::NothingFits => Exit::NothingFits,
            ConflictKind::Blocked => Exit::Blocked,
            ConflictKind::NoGpu => Exit::NoGpu,
        }
    }
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.check {
            Some(check) => write!(f, "{} ({check})", self.sentence),
            None => f.write_str(&self.sentence),
        }
    }
}

impl std::error::Error for Conflict {}
