//! What a person gets when nothing fits: which facts exclude each other, and what would fit instead.

use super::derive::{Premise, premises};
use super::refusal::{Refusal, Subject, Told};
use super::{Reason, Selection};
use std::fmt;

/// Why there is no plan.
#[derive(Debug, Clone, PartialEq)]
pub struct Misfit {
    /// What kind of no it is.
    pub kind: MisfitKind,
    /// The rule that decided.
    pub rule: &'static str,
    /// The id that `doctor` uses for the same thing.
    pub check: Option<&'static str>,
    /// One sentence.
    pub sentence: String,
    /// What would help.
    pub hints: Vec<String>,
    /// The facts that exclude each other.
    pub derivation: Vec<Premise>,
    /// What would fit instead.
    pub alternative: Option<Box<Alternative>>,
}

/// What fits when less is asked.
#[derive(Debug, Clone, PartialEq)]
pub struct Alternative {
    /// The choice.
    pub selection: Selection,
    /// Why that.
    pub reasons: Vec<Reason>,
}

/// Kinds of no, which differ in their exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MisfitKind {
    /// No combination fits, or the GPU, system or architecture is not supported: exit 4.
    NothingFits,
    /// A person must do something first: exit 5.
    Blocked,
    /// There is no NVIDIA GPU: exit 9.
    NoGpu,
    /// The request itself cannot be: exit 2.
    Request,
}

impl Misfit {
    /// Nothing fits, because of `rule`.
    pub fn new(rule: &'static str, sentence: impl Into<String>) -> Self {
        Self {
            kind: MisfitKind::NothingFits,
            rule,
            check: None,
            sentence: sentence.into(),
            hints: Vec::new(),
            derivation: Vec::new(),
            alternative: None,
        }
    }

    /// The candidate that came nearest was refused for this.
    pub fn refused(of: &Subject, refusal: Refusal, told: &Told) -> Self {
        let sentence = format!("{} does not fit: {}", of.named(), refusal.because(of, told));
        Self { derivation: premises(refusal, of, told), ..Self::new(refusal.rule(of.layer()), sentence) }
    }

    /// The request itself cannot be.
    pub fn request(sentence: impl Into<String>) -> Self {
        Self { kind: MisfitKind::Request, ..Self::new("request", sentence) }
    }

    /// A person must do something first.
    pub fn blocked(check: &'static str, sentence: impl Into<String>) -> Self {
        Self { kind: MisfitKind::Blocked, ..Self::new("blocked", sentence) }.check(check)
    }

    /// There is no GPU.
    pub fn no_gpu() -> Self {
        Self { kind: MisfitKind::NoGpu, ..Self::new("gpu-present", "this host has no NVIDIA GPU on its PCI bus") }
            .hint("plan as if one were there with --gpu (gpusetup plan --gpu h100)".to_owned())
    }

    /// With the id of the check that finds the same thing.
    pub fn check(mut self, id: &'static str) -> Self {
        self.check = Some(id);
        self
    }

    /// With something that would help.
    pub fn hint(mut self, hint: String) -> Self {
        self.hints.push(hint);
        self
    }

    /// With the options that name the host in the commands that it suggests: `--root /mnt/image`.
    pub fn on_host(mut self, options: &str) -> Self {
        const COMMAND: &str = "gpusetup plan ";
        for hint in self.hints.iter_mut().filter(|_| !options.is_empty()) {
            *hint = hint.replacen(COMMAND, &format!("{COMMAND}{options} "), 1);
        }
        self
    }

    /// The exit code that the contract gives it.
    pub fn exit_code(&self) -> u8 {
        match self.kind {
            MisfitKind::Request => 2,
            MisfitKind::NothingFits => 4,
            MisfitKind::Blocked => 5,
            MisfitKind::NoGpu => 9,
        }
    }
}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.check {
            Some(check) => write!(f, "{} ({check})", self.sentence),
            None => f.write_str(&self.sentence),
        }
    }
}

impl std::error::Error for Misfit {}
