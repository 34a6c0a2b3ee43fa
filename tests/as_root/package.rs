//! gpusetup's own Debian package: the same bytes wherever it is made, nothing that lintian objects to, and a host on which it was
//! installed, installed again and purged is as before.

use crate::host::tree::differences;
use crate::host::{Host, RECORDS, Said, machine, script, text};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What dpkg itself rewrites.
const DPKGS: &[&str] = &["var/lib/dpkg", "var/log/dpkg.log", "var/cache"];

/// The package made from the program of this build.
fn made(out: &Path) -> PathBuf {
    let program = Path::new(env!("CARGO_BIN_EXE_gpusetup"));
    let xtask = program.with_file_name("xtask");
    assert!(xtask.exists(), "{} is missing: cargo build --package xtask", xtask.display());
    // As packages have it.
    let stripped = out.with_extension("program");
    machine("strip", &["-o", text(&stripped), text(program)]).succeeds();
    let mut command = Command::new(xtask);
    command.args(["dist", "--program", text(&stripped), "--out", text(out)]);
    command
        .env("DEBFULLNAME", "A Packager")
        .env("DEBEMAIL", "packager@debian.org")
        .env("SOURCE_DATE_EPOCH", "1764000000");
    Said::of(command.output().expect("it runs")).succeeds();
    let files = fs::read_dir(out).expect("made").map(|entry| entry.expect("an entry").path());
    files.into_iter().find(|path| path.extension().is_some_and(|end| end == "deb")).expect("a package")
}

#[test]
#[ignore = "needs root and a throw-away host: tests/run runs it"]
fn a_package_comes_and_goes_without_a_trace() {
    let folder = tempfile::tempdir().expect("a folder");
    let package = made(&folder.path().join("one"));
    let again = made(&folder.path().join("two"));
    for name in ["SHA256SUMS", text(Path::new(package.file_name().expect("a name")))] {
        let of = |made: &Path| fs::read(made.with_file_name(name)).expect("made");
        assert!(of(&package) == of(&again), "{name} differs");
    }
    machine("lintian", &["--allow-root", "--fail-on", "error,warning", text(&package)]).succeeds();

    let base = PathBuf::from(script("base", &["trixie"]));
    let host = Host::of("packaged", &base);
    let before = host.clone_as("not-packaged");
    fs::copy(&package, host.path("/root/gpusetup.deb")).expect("copied");
    host.ask("dpkg --install /root/gpusetup.deb");
    let plan = host.ask("gpusetup plan --gpu h100");
    assert!(plan.contains("Choice") && plan.contains("CUDA"), "{plan}");
    // These roots leave manual pages out.
    host.ask("dpkg --listfiles gpusetup | grep man1/gpusetup-apply.1.gz");
    host.ask("bash -c '. /usr/share/bash-completion/completions/gpusetup'");
    host.ask("dpkg --install /root/gpusetup.deb && gpusetup --version");
    assert_eq!(host.ask("dpkg --audit"), "");
    host.ask("dpkg --purge gpusetup && rm /root/gpusetup.deb");
    assert_eq!(differences(&before.root(), &host.root(), &[RECORDS, DPKGS].concat()), [""; 0]);
}
