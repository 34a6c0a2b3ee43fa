//! What a release costs those who run it: its size, and the work of a plan. Instructions are counted
//! by valgrind: they hardly depend on the machine, and not at all on what else it does.

use crate::Result;
use serde::Deserialize;
use std::fs;
use std::path::Path;
use std::process::Command;

/// The numbers of a program that `cargo build --release` built.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Release {
    /// Bytes of the program.
    pub(super) bytes: usize,
    /// Instructions of `gpusetup plan --os ubuntu-24.04 --gpu h100`.
    pub(super) plan_instructions: usize,
    /// Instructions of `gpusetup --version`: of each start.
    pub(super) start_instructions: usize,
}

impl Release {
    pub(super) fn measured(program: &Path) -> Result<Self> {
        let metadata = fs::metadata(program)
            .map_err(|e| format!("{} (`cargo build --release`): {e}", program.display()))?;
        Ok(Self {
            bytes: usize::try_from(metadata.len()).map_err(|e| e.to_string())?,
            plan_instructions: instructions(
                program,
                &["plan", "--os", "ubuntu-24.04", "--gpu", "h100"],
            )?,
            start_instructions: instructions(program, &["--version"])?,
        })
    }

    pub(super) fn named(self) -> [(&'static str, usize); 3] {
        [
            ("bytes", self.bytes),
            ("plan_instructions", self.plan_instructions),
            ("start_instructions", self.start_instructions),
        ]
    }
}

/// How many instructions the program executes with these arguments, in an empty environment.
fn instructions(program: &Path, arguments: &[&str]) -> Result<usize> {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(program)
        .args(arguments)
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .output()
        .map_err(|e| format!("valgrind: {e}"))?;
    let text = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        return Err(format!("valgrind {}: {text}", program.display()));
    }
    collected(&text).ok_or_else(|| format!("valgrind counted nothing: {text}"))
}

/// The sum that callgrind prints: `==12== Collected : 45092113`.
fn collected(text: &str) -> Option<usize> {
    let line = text.lines().find(|line| line.contains("Collected :"))?;
    line.rsplit(' ').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callgrinds_sum_is_found() {
        let text = "==7== Callgrind, a call-graph generating cache profiler\n==7== \n==7== Collected : 45092113\n==7== \n==7== I   refs:      45,092,113\n";
        assert_eq!(collected(text), Some(45_092_113));
        assert_eq!(collected("valgrind: no such file"), None);
    }
}
