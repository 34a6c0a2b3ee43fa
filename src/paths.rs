//! Every fixed path of gpusetup's own, on every host.

use std::path::{Path, PathBuf};

/// The settings of a host's administrator.
pub const CONFIG: &str = "/etc/gpusetup/config.yaml";

/// The state of runs: private to root.
pub const STATE: &str = "/var/lib/gpusetup";
/// What was done, and how to undo it.
pub const JOURNAL: &str = "/var/lib/gpusetup/journal";
/// Files that operations changed, as they were before.
pub const BACKUPS: &str = "/var/lib/gpusetup/backup";
/// Disk space kept for the journal and for undo.
pub const RESERVE: &str = "/var/lib/gpusetup/reserve";
/// Versions of packages that a lock file names, as apt reads them.
pub const PINS: &str = "/var/lib/gpusetup/pins";
/// How the last run ended.
pub const RESULT: &str = "/var/lib/gpusetup/result.json";
/// The plan of the last run.
pub const PLAN: &str = "/var/lib/gpusetup/plan.json";
/// The program that resumes after a reboot: a copy of the one that began.
pub const PROGRAM: &str = "/var/lib/gpusetup/gpusetup";
/// Updated databases.
pub const DATABASE: &str = "/var/lib/gpusetup-database";

/// The logs of runs, and of the programs that they start.
pub const LOGS: &str = "/var/log/gpusetup";
/// The log of events, a JSON object per line.
pub const EVENTS: &str = "/var/log/gpusetup/events.jsonl";

/// Where toolkits are installed, unless a flag says otherwise.
pub const PREFIX: &str = "/usr/local";
/// Downloads, unless the user names another directory.
pub const CACHE: &str = "/var/cache/gpusetup";

/// What is needed only until the next boot.
pub const RUN: &str = "/run/gpusetup";
/// Locked by the run that changes the host.
pub const LOCK: &str = "/run/gpusetup.lock";

/// Keeps nouveau and nova from loading.
pub const BLACKLIST: &str = "/etc/modprobe.d/gpusetup-nouveau.conf";
/// Tells the loader where the toolkit's libraries are.
pub const LOADER_PATH: &str = "/etc/ld.so.conf.d/gpusetup-cuda.conf";
/// Tells login shells where the toolkit's programs are.
pub const PROFILE: &str = "/etc/profile.d/gpusetup-cuda.sh";

/// Where the nvcc of a toolkit finds `gcc` and `g++` before it looks on PATH: beside its own cicc. Every release does,
/// whoever starts it, and no other program looks there (tried, see compat/compilers.yaml). NVCC_CCBIN is unknown to nvcc
/// 12.4 and older, and what a profile sets reaches login shells only.
pub fn host_compilers(toolkit: &Path) -> [PathBuf; 2] {
    ["gcc", "g++"].map(|name| toolkit.join("nvvm/bin").join(name))
}
