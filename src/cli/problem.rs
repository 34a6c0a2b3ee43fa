//! What a person gets instead of a result: one sentence, the exit code of the contract, what would
//! help.

use super::complain;
use super::locale::legible;
use super::terminal::filled;
use crate::causes::offline_root;
use crate::exit::Exit;
use crate::plan::OtherHost;
use crate::resolve::Conflict;
use crate::system::input::InputError;
use crate::system::trust::{Distrust, NoUser};
use crate::text::{message, quoted, quoted_path, without_logins};
use serde::Serialize;
use std::borrow::Cow;
use std::path::Path;

/// A failure on its way to the screen.
#[derive(Debug)]
pub struct Problem {
    /// How gpusetup ends.
    pub(crate) exit: Exit,
    /// What happened, to what, and why.
    pub(crate) message: String,
    /// The facts that it stands on.
    pub(crate) because: Vec<String>,
    /// What would help, in words.
    pub(crate) hints: Vec<String>,
    /// Commands that would help, the best first; what follows `  # ` is a comment.
    pub(crate) tries: Vec<String>,
}

/// A failure as JSON, on standard output for `--json`.
#[derive(Debug, Serialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub(crate) struct ErrorReport<'a> {
    /// `gpusetup.error/1`.
    pub(crate) schema: &'static str,
    /// The exit code.
    pub(crate) exit_code: u8,
    /// What happened, to what, and why.
    pub(crate) error: Cow<'a, str>,
    /// The facts that the error rests on.
    pub(crate) because: Vec<Cow<'a, str>>,
    /// What would help, in words.
    pub(crate) hints: Vec<Cow<'a, str>>,
    /// Commands that would help, the best first.
    pub r#try: Vec<Cow<'a, str>>,
}

impl Problem {
    /// A problem that ends gpusetup with this exit code, without hints so far.
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self {
            exit,
            message: message.into(),
            because: Vec::new(),
            hints: Vec::new(),
            tries: Vec::new(),
        }
    }

    /// An I/O error or a mistake of ours: exit 1.
    pub(crate) fn unexpected(message: impl Into<String>) -> Self {
        Self::new(Exit::Unexpected, message)
    }

    /// A request that cannot be: exit 2.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, message)
    }

    /// Something that is not what it should be: exit 10.
    pub(crate) fn integrity(message: impl Into<String>) -> Self {
        Self::new(Exit::Integrity, message)
    }

    /// What was made for another host: exit 5.
    pub(crate) fn of_other_host(name: &str, other: &OtherHost) -> Self {
        Self {
            because: other.others().collect(),
            ..Self::new(Exit::Blocked, format!("{name} {other}"))
        }
    }

    /// With something that would help.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// With a command that would help.
    pub(crate) fn attempt(mut self, command: impl Into<String>) -> Self {
        self.tries.push(command.into());
        self
    }

    /// With plans for the system that `--os` names, if it names one and they do not name it
    /// already.
    pub(crate) fn on_system(mut self, os: Option<&str>) -> Self {
        if let Some(os) = os {
            let plan = format!("gpusetup plan --os {} ", quoted(os));
            let without = self.tries.iter_mut().filter(|text| !text.contains(" --os"));
            without.for_each(|text| *text = text.replacen("gpusetup plan ", &plan, 1));
        }
        self
    }

    /// With hints and commands for the host in a tree.
    pub(crate) fn for_root(mut self, root: &Path) -> Self {
        for text in self.hints.iter_mut().chain(&mut self.tries) {
            *text = offline_root::sentence(text, root);
        }
        for text in self.because.iter_mut().chain([&mut self.message]) {
            *text = offline_root::in_chroot(text, root);
        }
        self
    }

    /// The failure as JSON, without the logins of addresses.
    pub(crate) fn json(&self) -> ErrorReport<'_> {
        ErrorReport {
            schema: "gpusetup.error/1",
            exit_code: self.exit.code(),
            error: without_logins(&self.message),
            because: self
                .because
                .iter()
                .map(|fact| without_logins(fact))
                .collect(),
            hints: self.hints.iter().map(|hint| without_logins(hint)).collect(),
            r#try: self
                .tries
                .iter()
                .map(|text| without_logins(text.split("  # ").next().unwrap_or(text)))
                .collect(),
        }
    }

    /// Prints the failure on standard error.
    pub(crate) fn report(&self) {
        // What is quoted in it may come from anybody: it neither moves the cursor nor passes for a
        // line of ours.
        let line = |label: &str, text: &str| {
            complain(&filled(&legible(&format!("{label}: {}", message(text)))))
        };
        line("error", &self.message);
        self.because.iter().for_each(|fact| line("because", fact));
        // Commands are to be copied.
        for hint in &self.hints {
            complain(&format!("hint: {}", legible(&message(hint))));
        }
        for command in &self.tries {
            complain(&format!("try: {}", legible(&message(command))));
        }
    }
}

impl From<InputError> for Problem {
    fn from(e: InputError) -> Self {
        let problem = |exit| Self::new(exit, e.to_string());
        match &e {
            InputError::Io { .. }
            | InputError::TooLong { .. }
            | InputError::TooManyValues(_)
            | InputError::NotText(_) => problem(Exit::Usage),
            InputError::Kind { kind: "a pipe", .. } => problem(Exit::Usage)
                .hint("write it to a file first: <(COMMAND) of a shell is a pipe, too"),
            InputError::Kind { .. } => problem(Exit::Usage),
            InputError::Link(path) => problem(Exit::Blocked).hint(format!(
                "name the file itself: $(readlink -f {})",
                quoted_path(path)
            )),
            InputError::Untrusted { path, why } => {
                problem(Exit::Blocked).hint(how_to_trust(&quoted_path(path), why))
            }
            InputError::Interrupted(signal) => problem(Exit::Signal(*signal)),
        }
    }
}

/// What makes a file trusted, once somebody has read it.
fn how_to_trust(path: &str, why: &Distrust) -> String {
    match why {
        Distrust::Owner { .. } => format!("read it, then make it root's: sudo chown root: {path}"),
        Distrust::Group(_) | Distrust::Everybody => {
            format!("read it, then: sudo chmod go-w {path}")
        }
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
        let premises = conflict.derivation.iter();
        let because = premises
            .map(|p| match p.source.as_str() {
                "" => p.text.clone(),
                source => format!("{} ({source})", p.text),
            })
            .collect();
        let (tries, hints): (Vec<_>, Vec<_>) = conflict
            .hints
            .iter()
            .partition(|hint| hint.command().is_some());
        let [tries, hints] =
            [tries, hints].map(|hints| hints.into_iter().map(ToString::to_string).collect());
        Self {
            because,
            hints,
            tries,
            ..Self::new(conflict.exit(), conflict.to_string())
        }
    }
}

impl From<crate::planning::boot_program::NoBootProgram> for Problem {
    fn from(missing: crate::planning::boot_program::NoBootProgram) -> Self {
        Self::new(Exit::Blocked, missing.to_string()).attempt(missing.remedy)
    }
}
