//! Whether a program did what it was run for, and how that is told.

use gpusetup_system::{Output, Program, System};
use gpusetup_text::text::one_line;
use std::io;
use std::path::PathBuf;

/// Why a program did not do what it was run for.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// It could not be started, or what it needs not be read.
    #[error("cannot run {program}: {source}")]
    Start {
        /// The program, as it was called.
        program: String,
        /// What the system says about it.
        source: io::Error,
    },
    /// A file that it executes is not what it should be.
    #[error("{} is not the file that was verified: its SHA-256 is {found}, not {wanted}", path.display())]
    Altered {
        /// The file or directory.
        path: PathBuf,
        /// The SHA-256 that the file has, in hexadecimal digits.
        found: String,
        /// What it should be.
        wanted: String,
    },
    /// It failed.
    #[error("{program} failed ({ended}); the last it said:\n{last}")]
    Failed {
        /// The program, as it was called.
        program: String,
        /// How it ended.
        ended: String,
        /// Its last lines.
        last: String,
    },
    /// It ended well, and did not say what it had to.
    #[error("{program} did not answer `{wanted}`; it said:\n{last}")]
    Unexpected {
        /// The program, as it was called.
        program: String,
        /// What its output had to hold.
        wanted: String,
        /// Its last lines.
        last: String,
    },
}

/// A command in one line for a person. A script of several lines is only named as one: its text is
/// in the plan.
pub(crate) fn described(argv: &[String]) -> String {
    let words = argv.iter().map(|word| match word.contains('\n') {
        true => "(a script)".to_owned(),
        false => one_line(word),
    });
    words.collect::<Vec<_>>().join(" ")
}

/// Whether it did what it had to.
pub(crate) fn judge(
    program: &str,
    output: &Output,
    expects: Option<&str>,
) -> Result<(), ProgramError> {
    const LINES: usize = 12;
    let (program, last) = (program.to_owned(), output.last_lines(LINES));
    if !output.succeeded() {
        return Err(ProgramError::Failed {
            program,
            ended: output.ended.to_string(),
            last,
        });
    }
    match expects.filter(|text| !output.text.contains(text)) {
        Some(wanted) => Err(ProgramError::Unexpected {
            program,
            wanted: wanted.to_owned(),
            last,
        }),
        None => Ok(()),
    }
}

/// Runs a program that asks nothing, and judges it by its exit status.
pub(crate) fn run(
    on: &System,
    argv: impl IntoIterator<Item = impl Into<String>>,
) -> Result<(), ProgramError> {
    let argv: Vec<String> = argv.into_iter().map(Into::into).collect();
    let name = argv.join(" ");
    judge(
        &name,
        &on.run(&Program::new(argv).undisturbed())
            .map_err(ProgramError::start(&name))?,
        None,
    )
}

impl ProgramError {
    /// The error of this program, which could not be started.
    pub(crate) fn start(program: &str) -> impl Fn(io::Error) -> Self {
        move |source| Self::Start {
            program: program.to_owned(),
            source,
        }
    }

    /// The error of the package manager, which could not be asked.
    pub(crate) fn ask(source: io::Error) -> Self {
        Self::start("the package manager")(source)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_of_several_lines_is_named_as_one() {
        let words = |words: &[&str]| words.iter().map(|w| (*w).to_owned()).collect::<Vec<_>>();
        assert_eq!(
            described(&words(&[
                "/bin/sh",
                "-c",
                "set -eu\nnvcc\n",
                "compile-check",
                "nvcc"
            ])),
            "/bin/sh -c (a script) compile-check nvcc"
        );
        assert_eq!(
            described(&words(&["sh", "/x.run", "--silent"])),
            "sh /x.run --silent"
        );
        assert_eq!(described(&[]), "");
    }
}
