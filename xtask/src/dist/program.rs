//! The program of a release: how it is built, and what it needs.

use super::output;
use crate::libraries::newest_symbol;
use crate::{Result, project};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A program for Linux.
pub struct Program {
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
        let machine =
            bytes.get(18..20).filter(|_| bytes.starts_with(b"\x7fELF")).map(|at| u16::from_le_bytes([at[0], at[1]]));
        let architecture = match machine {
            Some(62) => "x86_64",
            Some(183) => "aarch64",
            Some(21) => "ppc64le",
            _ => return Err(format!("{} is no program for x86_64, aarch64 or ppc64le", path.display())),
        };
        let [major, minor] = newest_symbol(&bytes).0.unwrap_or([2, 0]);
        Ok(Self { bytes, architecture, glibc: format!("{major}.{minor}") })
    }
}

/// Builds the program for this machine, without the names of its folders. `pinned` are variables that become part of it.
pub fn build(glibc: Option<&str>, time: u64, pinned: &[(&str, Option<&str>)]) -> Result<PathBuf> {
    let root = project().canonicalize().map_err(|e| e.to_string())?;
    let triple = triple()?;
    let mut command = Command::new("cargo");
    command.args([
        if glibc.is_some() { "zigbuild" } else { "build" },
        "--locked",
        "--profile",
        "dist",
        "--package",
        "gpusetup",
    ]);
    command.args(["--target", &glibc.map_or_else(|| triple.clone(), |version| format!("{triple}.{version}"))]);
    let folders = [(root.clone(), "/gpusetup"), (cargo_home()?, "/cargo")];
    let flags = |option: &str| -> Vec<String> {
        folders.iter().map(|(folder, name)| format!("{option}={}={name}", folder.display())).collect()
    };
    command.env("CARGO_ENCODED_RUSTFLAGS", flags("--remap-path-prefix").join("\u{1f}"));
    command.env("CFLAGS", flags("-ffile-prefix-map").join(" "));
    for (name, value) in pinned {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.env("SOURCE_DATE_EPOCH", time.to_string()).env("CARGO_INCREMENTAL", "0").current_dir(&root);
    let status = command.status().map_err(|e| format!("cargo: {e}"))?;
    if !status.success() {
        return Err(format!("cargo: {status}"));
    }
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    Ok(target.join(triple).join("dist/gpusetup"))
}

/// The platform of this machine's compiler.
fn triple() -> Result<String> {
    let told = output(Command::new("rustc").arg("-vV"))?;
    let told = String::from_utf8_lossy(&told).into_owned();
    let host = told.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).ok_or_else(|| "rustc names no host".to_owned())
}

/// Where cargo keeps the sources of dependencies.
fn cargo_home() -> Result<PathBuf> {
    let told = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let usual = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cargo"));
    told.or_else(usual).ok_or_else(|| "neither CARGO_HOME nor HOME is set".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_program_is_for_this_machine() {
        let own = Program::read(&std::env::current_exe().expect("it runs")).expect("it is a program");
        assert_eq!(own.architecture, std::env::consts::ARCH);
        assert!(own.glibc.starts_with("2."), "{}", own.glibc);
        assert!(Program::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml").as_path()).is_err());
    }
}
