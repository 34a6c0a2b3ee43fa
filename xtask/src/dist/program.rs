//! The program of a release: how it is built, and what it needs.

mod elf;

use super::output;
use crate::pypi::numbers;
use crate::{Result, project};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A program for Linux.
pub struct Program {
    /// Where it is.
    path: PathBuf,
    /// The file.
    pub bytes: Vec<u8>,
    /// Its architecture, as printed by `uname -m`.
    pub architecture: &'static str,
    /// The oldest glibc that it runs on: `2.17`.
    pub glibc: String,
}

impl Program {
    /// Reads it.
    pub fn read(path: &Path) -> Result<Self> {
        let bytes = fs::read(path).map_err(|e| format!("{}: {e}", path.display()))?;
        let architecture = elf::architecture(&bytes).ok_or_else(|| {
            format!(
                "{} is no program for x86_64, aarch64 or ppc64le",
                path.display()
            )
        })?;
        let [major, minor] = elf::glibc(&bytes).map_err(|e| format!("{}: {e}", path.display()))?;
        Ok(Self {
            path: path.to_owned(),
            bytes,
            architecture,
            glibc: format!("{major}.{minor}"),
        })
    }

    /// Runs it: on another architecture than its own with QEMU (Debian's package qemu-user),
    /// whether or not the kernel would do that.
    pub fn command(&self) -> Command {
        if self.architecture == this_architecture() {
            return Command::new(&self.path);
        }
        let mut command = Command::new(format!("qemu-{}", self.architecture));
        command.arg(&self.path);
        command
    }
}

/// This machine's architecture, as printed by `uname -m`.
fn this_architecture() -> &'static str {
    match std::env::consts::ARCH {
        "powerpc64" => "ppc64le",
        other => other,
    }
}

/// What becomes part of the program beside its sources: variables, and the time in seconds since
/// 1970.
pub struct Pinned<'a> {
    /// Variables that the compiler sees; none are not set.
    pub variables: &'a [(&'a str, Option<&'a str>)],
    /// The time.
    pub time: u64,
}

/// Builds the program for each of some platforms, such as `aarch64-unknown-linux-gnu`, or for this
/// machine's.
pub fn build(targets: &[String], glibc: Option<&str>, pinned: &Pinned) -> Result<Vec<PathBuf>> {
    if targets.is_empty() {
        return Ok(vec![build_one(&triple()?, glibc, pinned)?]);
    }
    targets
        .iter()
        .map(|target| build_one(target, glibc, pinned))
        .collect()
}

/// Builds the program for a platform. It contains no names of folders.
fn build_one(triple: &str, glibc: Option<&str>, pinned: &Pinned) -> Result<PathBuf> {
    let root = project().canonicalize().map_err(|e| e.to_string())?;
    let mut command = Command::new("cargo");
    command.args([
        if glibc.is_some() { "zigbuild" } else { "build" },
        "--locked",
        "--profile",
        "dist",
        "--package",
        "gpusetup",
    ]);
    let linked = glibc.map(|version| format!("{triple}.{}", linked_with(triple, version)));
    command.args(["--target", linked.as_deref().unwrap_or(triple)]);
    let folders = [(root.clone(), "/gpusetup"), (cargo_home()?, "/cargo")];
    // These join the flags of .cargo/config.toml; the flags of a caller would replace both.
    command.env_remove("RUSTFLAGS");
    command.env_remove("CARGO_ENCODED_RUSTFLAGS");
    let rustflags = format!("CARGO_TARGET_{}_RUSTFLAGS", triple.to_uppercase());
    command.env(
        rustflags.replace('-', "_"),
        renamed("--remap-path-prefix", &folders)?,
    );
    command.env("CFLAGS", renamed("-ffile-prefix-map", &folders)?);
    for (name, value) in pinned.variables {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command
        .env("SOURCE_DATE_EPOCH", pinned.time.to_string())
        .env("CARGO_INCREMENTAL", "0")
        .current_dir(&root);
    let status = command.status().map_err(|e| format!("cargo: {e}"))?;
    if !status.success() {
        return Err(format!("cargo: {status}"));
    }
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let path = target.join(triple).join("dist/gpusetup");
    if let Some(glibc) = glibc {
        mark_optional(&path)?;
        let needed = Program::read(&path)?.glibc;
        if numbers(&needed) > numbers(glibc) {
            return Err(format!(
                "{} needs glibc {needed}, not {glibc}",
                path.display()
            ));
        }
    }
    Ok(path)
}

/// Options of a compiler that give folders other names; spaces separate them.
fn renamed(option: &str, folders: &[(PathBuf, &str)]) -> Result<String> {
    let mut options = Vec::new();
    for (folder, name) in folders {
        let folder = folder.display().to_string();
        if folder.contains(char::is_whitespace) {
            return Err(format!(
                "{folder}: a program cannot be built there, for the spaces in its name"
            ));
        }
        options.push(format!("{option}={folder}={name}"));
    }
    Ok(options.join(" "))
}

/// The glibc that zig links with for another one. It has ppc64le's from 2.19 on, the first with
/// that architecture; Red Hat added it to 2.17 before, and its symbols have that version.
fn linked_with<'a>(triple: &str, glibc: &'a str) -> &'a str {
    let is_too_old = triple.starts_with("powerpc64le") && numbers(glibc) < numbers("2.19");
    if is_too_old { "2.19" } else { glibc }
}

/// Lets the program start where weak symbols are missing.
fn mark_optional(path: &Path) -> Result<()> {
    let failed = |e: &dyn std::fmt::Display| format!("{}: {e}", path.display());
    let mut bytes = fs::read(path).map_err(|e| failed(&e))?;
    elf::mark_optional(&mut bytes).map_err(|e| failed(&e))?;
    fs::write(path, bytes).map_err(|e| failed(&e))
}

/// The platform of this machine's compiler.
fn triple() -> Result<String> {
    let version = output(Command::new("rustc").arg("-vV"))?;
    let version = String::from_utf8_lossy(&version).into_owned();
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned)
        .ok_or_else(|| "rustc names no host".to_owned())
}

/// Where cargo keeps the sources of dependencies.
fn cargo_home() -> Result<PathBuf> {
    let from_environment = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let usual = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cargo"));
    from_environment
        .or_else(usual)
        .ok_or_else(|| "neither CARGO_HOME nor HOME is set".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_program_is_for_this_machine() {
        let own =
            Program::read(&std::env::current_exe().expect("it runs")).expect("it is a program");
        assert_eq!(own.architecture, this_architecture());
        assert!(own.glibc.starts_with("2."), "{}", own.glibc);
        assert!(
            Program::read(
                Path::new(env!("CARGO_MANIFEST_DIR"))
                    .join("Cargo.toml")
                    .as_path()
            )
            .is_err()
        );
    }
}
