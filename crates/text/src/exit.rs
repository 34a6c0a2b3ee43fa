//! The exit codes: one table for the program, `gpusetup explain exit` and the documentation.

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
    (
        Exit::Done,
        "done; nothing to do; healthy; or the user said no",
    ),
    (Exit::Unexpected, "unexpected internal or I/O error"),
    (
        Exit::Usage,
        "usage error (unknown names and typos included), or a question that needs a terminal (use --yes, and --accept-eula for NVIDIA's licences)",
    ),
    (Exit::Pending, "plan --exit-code: changes are pending"),
    (
        Exit::NothingFits,
        "no compatible combination, or an unsupported GPU, system, architecture or kernel: the message names the facts that conflict",
    ),
    (
        Exit::Blocked,
        "manual action is required first: Secure Boot, mixed installs, a busy device, disk space; or a plan or lock file was made for another host",
    ),
    (
        Exit::Later,
        "try again later: a lock is held, or the network is unavailable",
    ),
    (
        Exit::StepFailed,
        "a step failed; the journal is kept: fix the cause and run gpusetup resume, or gpusetup rollback",
    ),
    (
        Exit::NotWorking,
        "installed, but verification failed: run gpusetup doctor",
    ),
    (
        Exit::NoGpu,
        "no NVIDIA GPU found, doctor included (--if-no-gpu skip accepts that)",
    ),
    (
        Exit::Integrity,
        "integrity error: a checksum, a signature, a plan, a bundle or a database is wrong",
    ),
    (
        Exit::Findings,
        "doctor found failures (with --strict: or warnings)",
    ),
    (
        Exit::Signal(2),
        "interrupted from the keyboard; the journal is complete",
    ),
    (
        Exit::Signal(15),
        "ended by SIGTERM; the journal is complete",
    ),
];

impl Exit {
    /// The one with this number. One that gpusetup does not have is an unexpected one.
    pub fn of(code: u8) -> Self {
        let known = EXITS
            .iter()
            .map(|(exit, _)| *exit)
            .find(|exit| exit.code() == code);
        known.unwrap_or(if code > 128 {
            Self::Signal(code - 128)
        } else {
            Self::Unexpected
        })
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
