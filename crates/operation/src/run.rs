//! `run`: a program, with what it may change saved before it starts, and the trees that it makes
//! told from those that were there.

use super::program::{ProgramError, described, judge};
use super::undo::Undo;
use super::valid::Valid;
use super::{
    Action, Completion, Counts, Notice, Notify, OperationError, Standing, Work, runfile, valid,
};
use gpusetup_database::compat::PackageManager;
use gpusetup_system::{Log, Program, Progress, System};
use gpusetup_text::text::{quoted, quoted_path};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Runs a program: argv and never a shell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
#[serde(deny_unknown_fields)]
pub struct Run {
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// Variables beside the fixed environment that every child gets.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub environment: BTreeMap<String, String>,
    /// Files of the cache that it executes, with their checksums: they are verified right before,
    /// and run from a separate folder.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub verified: Vec<Verified>,
    /// Trees that it makes. Those that were not there before are removed again by undo; one that
    /// was is not ours.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub creates: Vec<PathBuf>,
    /// Files and links that it may change: they are saved before, and put back by undo.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<PathBuf>,
    /// Trees that it removes, for good: undo can only name them. Once they are gone there is
    /// nothing left to run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub removes: Vec<PathBuf>,
    /// The program and arguments that undo it, run before `creates` and `changes` are put right.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub undo: Vec<String>,
    /// It only asks, and changes nothing: there is nothing to undo.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub asks: bool,
    /// A text that its output must hold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expects: Option<String>,
    /// Files of which one must be there; otherwise there is nothing to do. Empty for a program that
    /// is always run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub if_there: Vec<PathBuf>,
    /// The package manager that must not be at work meanwhile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub locks: Option<PackageManager>,
    /// Seconds after which the program is stopped.
    pub limit: u64,
}

/// A file of the cache and what it must be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
#[serde(deny_unknown_fields)]
pub struct Verified {
    /// The file in the cache.
    pub path: PathBuf,
    /// The SHA-256 that the file must have.
    #[cfg_attr(
        feature = "schemas",
        schemars(with = "gpusetup_database::sum::Sha256Text")
    )]
    pub sha256: String,
}

impl Run {
    /// A program that changes the host, for `limit` seconds at most. The methods below say what it
    /// makes, changes and removes.
    pub fn new<S: Into<String>>(argv: impl IntoIterator<Item = S>, limit: u64) -> Self {
        Self {
            argv: argv.into_iter().map(Into::into).collect(),
            environment: BTreeMap::new(),
            verified: Vec::new(),
            creates: Vec::new(),
            changes: Vec::new(),
            removes: Vec::new(),
            undo: Vec::new(),
            asks: false,
            expects: None,
            if_there: Vec::new(),
            locks: None,
            limit,
        }
    }

    /// A program that changes nothing: it asks the host, and its output must hold `answer`.
    pub fn ask<S: Into<String>>(argv: impl IntoIterator<Item = S>, answer: Option<String>) -> Self {
        Self {
            asks: true,
            expects: answer,
            ..Self::new(argv, 60)
        }
    }

    /// It executes this file of the cache.
    pub fn executing(mut self, path: PathBuf, sha256: String) -> Self {
        self.verified.push(Verified { path, sha256 });
        self
    }

    /// It makes these trees.
    pub fn creating(mut self, trees: impl IntoIterator<Item = PathBuf>) -> Self {
        self.creates.extend(trees);
        self
    }

    /// It may change these files and links.
    pub fn changing(mut self, paths: impl IntoIterator<Item = PathBuf>) -> Self {
        self.changes.extend(paths);
        self
    }

    /// It removes these trees, for good.
    pub fn removing(mut self, trees: impl IntoIterator<Item = PathBuf>) -> Self {
        self.removes.extend(trees);
        self
    }

    /// This program undoes it.
    pub fn undone_by<S: Into<String>>(mut self, argv: impl IntoIterator<Item = S>) -> Self {
        self.undo.extend(argv.into_iter().map(Into::into));
        self
    }

    /// It is run only where one of these files is.
    pub fn where_there(mut self, paths: impl IntoIterator<Item = PathBuf>) -> Self {
        self.if_there.extend(paths);
        self
    }

    /// It waits for this package manager's locks.
    pub(crate) fn locking(self, manager: PackageManager) -> Self {
        Self {
            locks: Some(manager),
            ..self
        }
    }

    /// Whether what it removes is gone, or at least the program itself, as NVIDIA's uninstallers
    /// are that lie in the tree they remove: then there is nothing left to run.
    fn is_through(&self, on: &System) -> bool {
        let program = self.argv.first();
        !self.removes.is_empty()
            && (!self.removes.iter().any(|path| on.exists(path))
                || program.is_some_and(|program| !on.exists(program)))
    }

    /// Runs it. What it says goes to `log` too.
    pub fn execute(
        &self,
        on: &System,
        log: Option<Log>,
        progress: Progress,
    ) -> Result<(), ProgramError> {
        let name = self.argv.first().cloned().unwrap_or_default();
        let ready = runfile::ready(on, &self.verified)?;
        let here = ready
            .as_ref()
            .map_or_else(|| self.argv.clone(), |ready| ready.argv(&self.argv));
        let mut program = Program::new(here).limit(Duration::from_secs(self.limit));
        if self.locks.is_some() {
            program = program.undisturbed();
        }
        for (variable, value) in ready.iter().flat_map(runfile::Ready::environment) {
            program = program.env(variable, value);
        }
        for (variable, value) in &self.environment {
            program = program.env(variable, value);
        }
        let output = on
            .run_telling(&program.log(log), progress)
            .map_err(ProgramError::start(&name))?;
        drop(ready);
        judge(&described(&self.argv), &output, self.expects.as_deref())
    }
}

impl Action for Run {
    fn perform(&self, on: &System, work: &mut Work, notify: Notify) -> Result<(), OperationError> {
        let log = work.log.clone();
        Ok(self.execute(on, log, &mut |since| notify(Notice::Working(since, None)))?)
    }

    fn asks(&self) -> bool {
        self.asks
    }

    fn completion(&self) -> Completion {
        Completion::Observe
    }

    fn stands(&self, on: &System, planned: bool) -> io::Result<Standing> {
        if !self.if_there.is_empty() && !self.if_there.iter().any(|path| on.exists(path)) {
            return Ok(Standing::Satisfied);
        }
        if self.asks {
            return Ok(Standing::Needed);
        }
        Ok(Standing::satisfied_if(
            self.is_through(on) || planned && self.creates.iter().all(|tree| on.is_directory(tree)),
        ))
    }

    fn intend(&self, on: &System, work: &mut Work) -> Result<Vec<Undo>, OperationError> {
        if self.asks {
            return Ok(Vec::new());
        }
        // What an installer that was killed left there is as large as what it installs.
        let unpacked = self.verified.first().map(|v| Undo::Tree {
            path: runfile::folder(&v.path),
        });
        let mut undo: Vec<_> = unpacked.into_iter().collect();
        for path in &self.changes {
            undo.push(work.backups.save(on, path, None)?);
        }
        undo.extend(
            self.creates
                .iter()
                .filter(|p| !on.exists(p))
                .map(|p| Undo::Tree { path: p.clone() }),
        );
        undo.extend(
            self.removes
                .iter()
                .filter(|p| on.exists(p))
                .map(|p| Undo::Gone { path: p.clone() }),
        );
        // Undone in reverse: the program's own undo comes first.
        undo.extend((!self.undo.is_empty()).then(|| Undo::Program {
            argv: self.undo.clone(),
        }));
        Ok(undo)
    }

    fn describe(&self) -> String {
        let run = format!("run {}", described(&self.argv));
        if self.if_there.is_empty() {
            run
        } else {
            format!("{run}, if it is installed then")
        }
    }

    fn shell(&self) -> String {
        let folder = self
            .verified
            .first()
            .map(|v| quoted_path(&runfile::folder(&v.path)));
        let (made, removed) = folder.map_or_else(Default::default, |folder| {
            (
                format!("install -d -m 0700 {folder}\n"),
                format!("rm -rf {folder}\n"),
            )
        });
        let variables: String = self
            .environment
            .iter()
            .map(|(k, v)| format!("{k}={} ", quoted(v)))
            .collect();
        let command = self
            .argv
            .iter()
            .map(|a| quoted(a))
            .collect::<Vec<_>>()
            .join(" ");
        let line = match &self.expects {
            Some(text) => format!(
                "{variables}{command} | grep -F -- {} >/dev/null\n",
                quoted(text)
            ),
            None => format!("{variables}{command}\n"),
        };
        let is_there: Vec<_> = self
            .if_there
            .iter()
            .map(|path| format!("[ -e {} ]", quoted_path(path)))
            .collect();
        let line = match is_there.as_slice() {
            [] => line,
            tests => format!("if {}; then {}; fi\n", tests.join(" || "), line.trim_end()),
        };
        made + &line + &removed
    }

    fn counts(&self) -> Counts {
        match self {
            Self { asks: true, .. } => Counts::default(),
            Self { removes, .. } if !removes.is_empty() => Counts {
                remove: 1,
                ..Counts::default()
            },
            Self { creates, .. } if !creates.is_empty() => Counts {
                add: 1,
                ..Counts::default()
            },
            _ => Counts {
                change: 1,
                ..Counts::default()
            },
        }
    }

    fn touched(&self) -> Vec<PathBuf> {
        self.creates.iter().chain(&self.changes).cloned().collect()
    }

    fn locks(&self) -> Option<PackageManager> {
        self.locks
    }

    fn by_hand(&self) -> Option<String> {
        Some(format!("sudo {}", self.shell().trim_end()))
    }

    fn valid(&self, cache: &Path) -> Valid {
        let Self {
            argv: command,
            environment,
            verified,
            creates,
            changes,
            removes,
            undo,
            limit,
            expects,
            if_there,
            asks: _,
            locks: _,
        } = self;
        valid::argv(command)?;
        if !undo.is_empty() {
            valid::argv(undo)?;
        }
        environment.iter().try_for_each(|(name, value)| {
            valid::variable(name).and_then(|()| valid::no_nul(value))
        })?;
        verified.iter().try_for_each(|v| {
            valid::within(&v.path, cache).and_then(|()| valid::checksum(&v.sha256))
        })?;
        valid::paths(creates.iter().chain(changes).chain(removes).chain(if_there))?;
        expects.iter().try_for_each(|text| valid::no_nul(text))?;
        if *limit <= valid::MAX_SECONDS {
            Ok(())
        } else {
            Err(format!("a limit of {limit} seconds"))
        }
    }
}
