//! What a person gets instead of a result: one sentence, the exit code of the contract, what would help.

use crate::resolve::{Misfit, Premise};

/// A failure on its way to the screen.
#[derive(Debug)]
pub struct Problem {
    /// The exit code.
    pub code: u8,
    /// What happened, to what, and why.
    pub message: String,
    /// The facts that it stands on.
    pub because: Vec<String>,
    /// What would help.
    pub hints: Vec<String>,
}

impl Problem {
    /// Of this exit code.
    pub fn new(code: u8, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), because: Vec::new(), hints: Vec::new() }
    }

    /// An I/O error or a mistake of ours: exit 1.
    pub fn unexpected(message: impl Into<String>) -> Self {
        Self::new(1, message)
    }

    /// A request that cannot be: exit 2.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(2, message)
    }

    /// Something that is not what it should be: exit 10.
    pub fn integrity(message: impl Into<String>) -> Self {
        Self::new(10, message)
    }

    /// With something that would help.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    fn hints(mut self, hints: Vec<String>) -> Self {
        self.hints = hints;
        self
    }

    /// Tells it on standard error; returns the exit code.
    #[allow(clippy::print_stderr)]
    pub fn report(&self) -> u8 {
        eprintln!("error: {}", self.message);
        for fact in &self.because {
            eprintln!("because: {fact}");
        }
        for hint in &self.hints {
            eprintln!("hint: {hint}");
        }
        self.code
    }
}

impl From<Misfit> for Problem {
    fn from(misfit: Misfit) -> Self {
        let because = |p: &Premise| {
            if p.source.is_empty() { p.text.clone() } else { format!("{} ({})", p.text, p.source) }
        };
        let because = misfit.derivation.iter().map(because).collect();
        Self { because, ..Self::new(misfit.exit_code(), misfit.to_string()).hints(misfit.hints) }
    }
}
