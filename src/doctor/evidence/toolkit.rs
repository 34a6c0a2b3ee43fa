//! What toolkits and shells say, and what is set for everybody.

use super::{Answer, ask, names, text};
use crate::compat::Database;
use crate::host::Facts;
use crate::system::System;
use crate::version::{CudaVersion, DriverVersion};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Which nvcc shells find, if any.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shells {
    /// A login shell's.
    pub login: Option<PathBuf>,
    /// That of a shell that reads no profile: cron, systemd units, `ssh HOST COMMAND`.
    pub plain: Option<PathBuf>,
}

/// By the release, or the newest of its series where that does not show.
pub fn newest_gcc(database: &Database, version: CudaVersion) -> Option<u16> {
    let of = |same: &dyn Fn(CudaVersion) -> bool| database.cuda.iter().find(|r| same(r.version))?.gcc_max;
    of(&|v| v == version).or_else(|| of(&|v| v.series() == version.series()))
}

/// The oldest driver that runs the programs of each toolkit, by the rule that plans are made by.
pub fn oldest_drivers(database: &Database, facts: &Facts) -> BTreeMap<PathBuf, DriverVersion> {
    let of = |version: CudaVersion| {
        let release = |same: &dyn Fn(CudaVersion) -> bool| database.cuda.iter().find(|r| same(r.version));
        Some(release(&|v| v == version).or_else(|| release(&|v| v.series() == version.series()))?.minimum_driver)
    };
    facts.toolkits.iter().filter_map(|t| Some((t.path.clone(), of(t.version)?))).collect()
}

pub fn nvcc(system: &System, toolkit: &Path) -> Answer<CudaVersion> {
    // The distribution's own has its programs in /usr/bin; the facts' path is its library directory.
    let own = toolkit.join("bin/nvcc");
    let nvcc = if system.exists(&own) { own } else { PathBuf::from("/usr/bin/nvcc") };
    match ask(system, [&nvcc.display().to_string(), "--version"], Duration::from_secs(20)) {
        Answer::Is(text) => match release(&text) {
            Some(version) => Answer::Is(version),
            None => Answer::Failed(format!("{} --version names no release", nvcc.display())),
        },
        Answer::Failed(why) => Answer::Failed(why),
        Answer::NotAsked(why) => Answer::NotAsked(why),
    }
}

/// `Cuda compilation tools, release 12.4, V12.4.131`.
fn release(text: &str) -> Option<CudaVersion> {
    text.split_once("release ")?.1.split(',').next()?.parse().ok()
}

/// Asks real shells, with an environment as a fresh login has it.
pub fn shells(system: &System) -> Answer<Shells> {
    const LIMIT: Duration = Duration::from_secs(10);
    let shell = if system.exists("/bin/bash") { "/bin/bash" } else { "/bin/sh" };
    let found = |answer: Answer<String>| match answer {
        // Profiles may say something too.
        Answer::Is(text) => {
            Ok(text.lines().rev().find(|l| l.starts_with('/') && l.ends_with("/nvcc")).map(PathBuf::from))
        }
        // `command -v` has a status of its own for "none".
        Answer::Failed(_) => Ok(None),
        Answer::NotAsked(why) => Err(why),
    };
    // chroot's statuses for "not run" and the shell's for "not found" are the same number.
    match ask(system, [shell, "-c", "exit 0"], LIMIT) {
        Answer::Is(_) => {}
        Answer::Failed(why) | Answer::NotAsked(why) => return Answer::NotAsked(why),
    }
    let login = found(ask(system, [shell, "-lc", "command -v nvcc || exit 1"], LIMIT));
    let plain = found(ask(system, [shell, "-c", "command -v nvcc || exit 1"], LIMIT));
    match (login, plain) {
        (Ok(login), Ok(plain)) => Answer::Is(Shells { login, plain }),
        (Err(why), _) | (_, Err(why)) => Answer::NotAsked(why),
    }
}

/// Where a variable is set for everybody.
pub fn set_for_everybody(system: &System, assignment: &str) -> Vec<(PathBuf, String)> {
    let scripts = names(system, "/etc/profile.d").map(|n| Path::new("/etc/profile.d").join(n));
    let files = ["/etc/environment", "/etc/profile"].map(PathBuf::from).into_iter().chain(scripts);
    let lines = |file: PathBuf| {
        let text = text(system, &file);
        let sets = |l: &&str| !l.trim_start().starts_with('#') && l.contains(assignment);
        text.lines().filter(sets).map(|l| (file.clone(), l.trim().to_owned())).collect::<Vec<_>>()
    };
    files.flat_map(lines).collect()
}

/// For fuzzing.
#[cfg(fuzzing)]
pub fn read_anything(text: &str) {
    let _ = release(text);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nvcc_names_its_release() {
        let text = "nvcc: NVIDIA (R) Cuda compiler driver\nCuda compilation tools, release 12.4, V12.4.131\n";
        assert_eq!(release(text).map(|v| v.to_string()).as_deref(), Some("12.4"));
        assert_eq!(release("nonsense"), None);
    }
}
