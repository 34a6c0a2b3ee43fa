//! Releases as `cargo xtask dist` makes them, for the tests that install them.

use crate::host::{Ran, machine, text};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// A release in a folder, signed with a key that its install script trusts.
pub struct Release {
    folder: tempfile::TempDir,
}

impl Release {
    /// Of the program of this build, without debug information, as packages have it.
    pub fn real() -> &'static Self {
        static RELEASE: OnceLock<Release> = OnceLock::new();
        RELEASE.get_or_init(|| {
            let folder = tempfile::tempdir().expect("a folder");
            let program = folder.path().join("program");
            machine(
                "strip",
                &["-o", text(&program), env!("CARGO_BIN_EXE_gpusetup")],
            )
            .succeeds();
            Self::of(folder, &program)
        })
    }

    /// Of a small program, which is made at once.
    pub fn small() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let program = folder.path().join("program");
        stand_in(&program, "0.1.0");
        Self::of(folder, &program)
    }

    fn of(folder: tempfile::TempDir, program: &Path) -> Self {
        let release = Self { folder };
        for name in ["release", "stranger"] {
            let (public, secret) = (
                release.path(&format!("{name}.pub")),
                release.path(&format!("{name}.key")),
            );
            machine(
                "minisign",
                &["-G", "-W", "-p", text(&public), "-s", text(&secret)],
            )
            .succeeds();
        }
        let (list, secret) = (release.path("release-keys"), release.path("release.key"));
        fs::write(
            &list,
            format!("gpusetup.keys/1 1 1 {}\n", release.key("release")),
        )
        .expect("written");
        let home = "https://gpusetup.example";
        let options = [
            "--release-keys",
            text(&list),
            "--sign",
            text(&secret),
            "--home",
            home,
        ];
        dist(program, &release.files(), &options, &[]).succeeds();
        release
    }

    /// The public key of this name.
    pub fn key(&self, name: &str) -> String {
        let text = fs::read_to_string(self.path(&format!("{name}.pub"))).expect("made");
        text.lines().last().expect("a key").to_owned()
    }

    /// The folder with its files.
    pub fn files(&self) -> PathBuf {
        self.path("files")
    }

    /// A path beside that folder: `release.pub`, `stranger.key`.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The file with this ending.
    pub fn file(&self, ending: &str) -> PathBuf {
        let mut files = fs::read_dir(self.files())
            .expect("a folder")
            .map(|entry| entry.expect("an entry").path());
        files
            .find(|path| text(path).ends_with(ending))
            .unwrap_or_else(|| panic!("no {ending}"))
    }
}

/// Makes a release of a program; more options, and variables of the environment.
pub fn dist(program: &Path, out: &Path, options: &[&str], environment: &[(&str, &str)]) -> Ran {
    let mut command = xtask();
    command
        .args([
            "dist",
            "--fast",
            "--program",
            text(program),
            "--out",
            text(out),
        ])
        .args(options);
    command
        .env("DEBFULLNAME", "A Packager")
        .env("DEBEMAIL", "packager@debian.org")
        .env("SOURCE_DATE_EPOCH", "1764000000");
    command.envs(environment.iter().copied());
    Ran::of(command.output().expect("it runs"))
}

/// xtask, which `cargo test` alone does not build.
pub fn xtask() -> Command {
    let xtask = Path::new(env!("CARGO_BIN_EXE_gpusetup")).with_file_name("xtask");
    assert!(
        xtask.exists(),
        "{} is missing: cargo build --package xtask",
        xtask.display()
    );
    Command::new(xtask)
}

/// Compiles the small program.
pub fn stand_in(program: &Path, version: &str) {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/host/stand-in.c");
    machine(
        "gcc",
        &[
            "-s",
            &format!("-DVERSION=\"{version}\""),
            "-o",
            text(program),
            source,
        ],
    )
    .succeeds();
}
