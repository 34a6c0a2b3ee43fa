//! `run`: a program with what it may change saved before, and its trees told from those that were there.

use super::undo::{Backups, Undo};
use super::{Operation, packages, runfile};
use crate::system::{Log, Output, Program, Progress, System};
use crate::text::one_line;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Why a program did not do what it was run for.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// It could not be started, or what it needs not be read.
    #[error("cannot run {program}: {source}")]
    Start {
        /// Which.
        program: String,
        /// Why.
        source: io::Error,
    },
    /// A file that it executes is not what it should be.
    #[error("{} is not the file that was verified: its SHA-256 is {found}, not {wanted}", path.display())]
    Altered {
        /// Which.
        path: PathBuf,
        /// Its sum.
        found: String,
        /// What it should be.
        wanted: String,
    },
    /// It failed.
    #[error("{program} failed ({ended}); the last it said:\n{last}")]
    Failed {
        /// Which.
        program: String,
        /// How it ended.
        ended: String,
        /// Its last lines.
        last: String,
    },
    /// It ended well, and did not say what it had to.
    #[error("{program} did not answer `{wanted}`; it said:\n{last}")]
    Unexpected {
        /// Which.
        program: String,
        /// What its output had to hold.
        wanted: String,
        /// Its last lines.
        last: String,
    },
}

/// The ways back from a program: its trees that are not there yet, the files that it may change.
pub fn intend(on: &System, operation: &Operation, backups: &mut Backups) -> io::Result<Vec<Undo>> {
    let Operation::Run { verified, creates, changes, removes, undo, asks: false, .. } = operation else {
        return Ok(Vec::new());
    };
    // What an installer that was killed left there is as large as what it installs.
    let mut back: Vec<_> =
        verified.first().map(|v| Undo::Tree { path: runfile::folder(&v.path) }).into_iter().collect();
    for path in changes {
        back.push(backups.save(on, path, None)?);
    }
    back.extend(creates.iter().filter(|p| !on.exists(p)).map(|p| Undo::Tree { path: p.clone() }));
    back.extend(removes.iter().filter(|p| on.exists(p)).map(|p| Undo::Gone { path: p.clone() }));
    // Undone in reverse: the program's own way back comes first.
    back.extend((!undo.is_empty()).then(|| Undo::Program { argv: undo.clone() }));
    Ok(back)
}

/// Runs it. What it says goes to `log` too.
pub fn perform(on: &System, operation: &Operation, log: Option<Log>, progress: Progress) -> Result<(), ProgramError> {
    let Operation::Run { argv, environment, verified, expects, limit, .. } = operation else { return Ok(()) };
    let name = argv.first().cloned().unwrap_or_default();
    let start = |source| ProgramError::Start { program: name.clone(), source };
    let ready = runfile::ready(on, verified)?;
    let here = ready.as_ref().map_or_else(|| argv.clone(), |ready| ready.argv(argv));
    let mut program = Program::new(here).limit(Duration::from_secs(*limit));
    if packages::needed_by(operation).is_some() {
        program = program.undisturbed();
    }
    for (variable, value) in ready.iter().flat_map(runfile::Ready::environment) {
        program = program.env(variable, value);
    }
    for (variable, value) in environment {
        program = program.env(variable, value);
    }
    if let Some(log) = log {
        program = program.log(log);
    }
    let output = on.run_telling(&program, progress).map_err(start)?;
    drop(ready);
    judge(&described(argv), &output, expects.as_deref())
}

/// A command in one line for a person. A script of several lines is only named as one: its text is in the plan.
pub fn described(argv: &[String]) -> String {
    let word = |word: &String| if word.contains('\n') { "(a script)".to_owned() } else { one_line(word) };
    argv.iter().map(word).collect::<Vec<_>>().join(" ")
}

/// Whether it did what it had to.
pub fn judge(program: &str, output: &Output, expects: Option<&str>) -> Result<(), ProgramError> {
    const LINES: usize = 12;
    let (program, last) = (program.to_owned(), output.last_lines(LINES));
    if !output.succeeded() {
        return Err(ProgramError::Failed { program, ended: output.ended.to_string(), last });
    }
    match expects.filter(|text| !output.text.contains(text)) {
        Some(wanted) => Err(ProgramError::Unexpected { program, wanted: wanted.to_owned(), last }),
        None => Ok(()),
    }
}

/// Whether what it removes is gone, or at least the program itself, as NVIDIA's uninstallers are that lie in the tree they
/// remove: then there is nothing left to run.
pub fn is_through(on: &System, argv: &[String], removes: &[PathBuf]) -> bool {
    let gone = |path: &Path| !on.exists(path);
    !removes.is_empty() && (removes.iter().all(|p| gone(p)) || argv.first().is_some_and(|p| gone(Path::new(p))))
}

/// Whether all its trees are there: then a program that the planner found to be done need not be run.
pub fn trees_stand(on: &System, creates: &[PathBuf]) -> bool {
    creates.iter().all(|p: &PathBuf| on.is_directory(Path::new(p)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_of_several_lines_is_named_as_one() {
        let words = |words: &[&str]| words.iter().map(|w| (*w).to_owned()).collect::<Vec<_>>();
        assert_eq!(
            described(&words(&["/bin/sh", "-c", "set -eu\nnvcc\n", "compile-check", "nvcc"])),
            "/bin/sh -c (a script) compile-check nvcc"
        );
        assert_eq!(described(&words(&["sh", "/x.run", "--silent"])), "sh /x.run --silent");
        assert_eq!(described(&[]), "");
    }
}
