//! What a person gets instead of a result: one sentence, the exit code of the contract, what would help.

use crate::exit::Exit;
use crate::resolve::{Conflict, Premise};
use crate::system::input::InputError;
use crate::system::trust::{Distrust, NoUser};
use crate::text::message;
use crate::text::quoted_path;

/// A failure on its way to the screen.
#[derive(Debug)]
pub struct Problem {
    /// How gpusetup ends.
    pub exit: Exit,
    /// What happened, to what, and why.
    pub message: String,
    /// The facts that it stands on.
    pub because: Vec<String>,
    /// What would help.
    pub hints: Vec<String>,
}

impl Problem {
    /// Of this exit code.
    pub fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, message: message.into(), because: Vec::new(), hints: Vec::new() }
    }

    /// An I/O error or a mistake of ours: exit 1.
    pub fn unexpected(message: impl Into<String>) -> Self {
        Self::new(Exit::Unexpected, message)
    }

    /// A request that cannot be: exit 2.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, message)
    }

    /// Something that is not what it should be: exit 10.
    pub fn integrity(message: impl Into<String>) -> Self {
        Self::new(Exit::Integrity, message)
    }

    /// With something that would help.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// Tells it on standard error; returns the exit code.
    #[allow(clippy::print_stderr)]
    pub fn report(&self) -> Exit {
        // What is quoted in it may come from anybody: it neither moves the cursor nor passes for a line of ours.
        eprintln!("error: {}", message(&self.message));
        for fact in &self.because {
            eprintln!("because: {}", message(fact));
        }
        for hint in &self.hints {
            eprintln!("hint: {}", message(hint));
        }
        self.exit
    }
}

impl From<InputError> for Problem {
    fn from(e: InputError) -> Self {
        let problem = |exit| Self::new(exit, e.to_string());
        match &e {
            InputError::Io { .. } | InputError::TooLong { .. } | InputError::NotText(_) => problem(Exit::Usage),
            InputError::Kind { kind: "a pipe", .. } => {
                problem(Exit::Usage).hint("write it to a file first: <(COMMAND) of a shell is a pipe, too")
            }
            InputError::Kind { .. } => problem(Exit::Usage),
            InputError::Link(path) => {
                problem(Exit::Blocked).hint(format!("name the file itself: $(readlink -f {})", quoted_path(path)))
            }
            InputError::Untrusted { path, why } => problem(Exit::Blocked).hint(how_to_trust(&quoted_path(path), why)),
            InputError::Interrupted(signal) => problem(Exit::Signal(*signal)),
        }
    }
}

/// What makes a file trusted, once somebody has read it.
fn how_to_trust(path: &str, why: &Distrust) -> String {
    match why {
        Distrust::Owner { .. } => format!("read it, then make it root's: sudo chown root: {path}"),
        Distrust::Group(_) | Distrust::Everybody => format!("read it, then: sudo chmod go-w {path}"),
        Distrust::AccessList => format!("read it, then: sudo setfacl --remove-all {path}"),
    }
}

impl From<NoUser> for Problem {
    fn from(e: NoUser) -> Self {
        Self::usage(format!("--trust-owner: {e}"))
    }
}

impl From<Conflict> for Problem {
    fn from(conflict: Conflict) -> Self {
        let because = |p: &Premise| {
            if p.source.is_empty() { p.text.clone() } else { format!("{} ({})", p.text, p.source) }
        };
        let because = conflict.derivation.iter().map(because).collect();
        let hints = conflict.hints.iter().map(ToString::to_string).collect();
        Self { because, hints, ..Self::new(conflict.exit(), conflict.to_string()) }
    }
}
