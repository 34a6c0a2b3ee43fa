//! What a person gets instead of a result: one sentence, the exit code of the contract, what would help.

use crate::resolve::Misfit;

/// A failure on its way to the screen.
#[derive(Debug)]
pub struct Problem {
    /// The exit code.
    pub code: u8,
    /// What happened, to what, and why.
    pub message: String,
    /// What would help.
    pub hints: Vec<String>,
}

impl Problem {
    /// An I/O error or a mistake of ours: exit 1.
    pub fn unexpected(message: impl Into<String>) -> Self {
        Self { code: 1, message: message.into(), hints: Vec::new() }
    }

    /// A request that cannot be: exit 2.
    pub fn usage(message: impl Into<String>) -> Self {
        Self { code: 2, message: message.into(), hints: Vec::new() }
    }

    /// Something that is not what it should be: exit 10.
    pub fn integrity(message: impl Into<String>) -> Self {
        Self { code: 10, message: message.into(), hints: Vec::new() }
    }

    /// With something that would help.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// Tells it on standard error; returns the exit code.
    #[allow(clippy::print_stderr)]
    pub fn report(&self) -> u8 {
        eprintln!("error: {}", self.message);
        for hint in &self.hints {
            eprintln!("hint: {hint}");
        }
        self.code
    }
}

impl From<Misfit> for Problem {
    fn from(misfit: Misfit) -> Self {
        Self { code: misfit.exit_code(), message: misfit.to_string(), hints: misfit.hints }
    }
}
