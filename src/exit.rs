//! The exit codes: one table for the program, `gpusetup explain exit` and the README.

use std::fmt;

/// How gpusetup ends. A child's exit status is never passed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// It worked, or there was nothing to do.
    Done,
    /// An error that nobody expected.
    Unexpected,
    /// A request that cannot be read, or a question that could not be asked.
    Usage,
    /// There is something to do.
    Pending,
    /// No combination fits.
    NothingFits,
    /// Requires manual action first.
    Blocked,
    /// May work later.
    Later,
    /// A step failed.
    StepFailed,
    /// Everything was installed and does not work.
    NotWorking,
    /// There is no NVIDIA GPU.
    NoGpu,
    /// A file that is not what it should be.
    Integrity,
    /// doctor found failures.
    Findings,
    /// This signal ended the run.
    Signal(u8),
}

/// Every exit code with its meaning, as scripts rely on it.
pub const EXITS: [(Exit, &str); 14] = [
    (Exit::Done, "done; nothing to do; healthy; or the user said no"),
    (Exit::Unexpected, "an unexpected error, of gpusetup's own or of reading and writing"),
    (
        Exit::Usage,
        "the request cannot be read, or a question could not be asked because there is no terminal (use --yes)",
    ),
    (Exit::Pending, "plan --exit-code: there is something to do"),
    (
        Exit::NothingFits,
        "nothing fits, or the GPU, system, architecture or kernel is not supported: the message names the facts that exclude each other",
    ),
    (Exit::Blocked, "a person must do something first: Secure Boot, a mixed install, a busy device, room on a disk"),
    (Exit::Later, "try again later: somebody else is at work, or the network is away"),
    (
        Exit::StepFailed,
        "a step failed; what was done is in the journal: mend it and gpusetup resume, or gpusetup rollback",
    ),
    (Exit::NotWorking, "installed, and the host says that it does not work: gpusetup doctor"),
    (Exit::NoGpu, "there is no NVIDIA GPU, for doctor too (--if-no-gpu skip accepts that)"),
    (Exit::Integrity, "something is not what it should be: a checksum, a signature, a plan, a database"),
    (Exit::Findings, "doctor found failures (with --strict: or warnings)"),
    (Exit::Signal(2), "interrupted from the keyboard; the journal is whole"),
    (Exit::Signal(15), "ended by SIGTERM; the journal is whole"),
];

impl Exit {
    /// The one with this number. One that gpusetup does not have is an unexpected one.
    pub fn of(code: u8) -> Self {
        let known = EXITS.iter().map(|(exit, _)| *exit).find(|exit| exit.code() == code);
        known.unwrap_or(if code > 128 { Self::Signal(code - 128) } else { Self::Unexpected })
    }

    /// The number that the process ends with.
    pub fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Unexpected => 1,
            Self::Usage => 2,
            Self::Pending => 3,
            Self::NothingFits => 4,
            Self::Blocked => 5,
            Self::Later => 6,
            Self::StepFailed => 7,
            Self::NotWorking => 8,
            Self::NoGpu => 9,
            Self::Integrity => 10,
            Self::Findings => 20,
            Self::Signal(signal) => 128 + signal,
        }
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.code().fmt(f)
    }
}
