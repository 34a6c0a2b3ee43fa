//! A release: the program with its manual pages and completions, as an archive and as a Debian package, and their checksums. The
//! same commit gives the same bytes, whoever builds it, where and when: paths are left out of the program, times are the
//! commit's, files are sorted and belong to root.

mod archive;
mod debian;
mod program;

use crate::open_kernel_modules::git;
use crate::{Result, project};
use flate2::{Compression, GzBuilder};
use gpusetup_database::sum::sha256;
use program::Program;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What is made, and of what.
#[derive(clap::Args)]
pub struct Options {
    /// The folder for the release; it is made
    #[arg(long, default_value = "target/release-files")]
    out: PathBuf,
    /// Package this program instead of building one
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// Build for this glibc and newer ones with `cargo zigbuild` (pip install ziglang==0.13.0 cargo-zigbuild==0.24.1)
    #[arg(long, value_name = "VERSION", conflicts_with = "program")]
    glibc: Option<String>,
    /// Build for these platforms, such as `aarch64-unknown-linux-gnu`; rustc must have their standard libraries
    #[arg(long, value_name = "TRIPLE", conflicts_with = "program")]
    target: Vec<String>,
    /// Who answers for the Debian package: NAME
    #[arg(long, env = "DEBFULLNAME")]
    name: String,
    /// Who answers for the Debian package: address
    #[arg(long, env = "DEBEMAIL")]
    email: String,
}

/// A file of the release, at its place below `/`.
struct Installed {
    path: String,
    mode: u32,
    bytes: Vec<u8>,
}

impl Installed {
    fn new(path: impl Into<String>, mode: u32, bytes: impl Into<Vec<u8>>) -> Self {
        Self { path: path.into(), mode, bytes: bytes.into() }
    }
}

/// What is released, and when.
struct Release {
    /// `0.1.0`.
    version: String,
    /// Seconds since 1970 at the commit, or `SOURCE_DATE_EPOCH`.
    time: u64,
    program: Program,
    files: Vec<Installed>,
}

/// Makes the release, and prints the sum and size of each file.
pub fn make(options: &Options) -> Result<()> {
    let time = time_of_commit()?;
    let programs = match &options.program {
        Some(path) => vec![path.clone()],
        None => program::build(&options.target, options.glibc.as_deref(), time)?,
    };
    fs::create_dir_all(&options.out).map_err(|e| format!("{}: {e}", options.out.display()))?;
    let mut made = Vec::new();
    for path in &programs {
        let program = Program::read(path)?;
        println!(
            "{:>10} bytes  the program for {}, glibc {} and newer",
            program.bytes.len(),
            program.architecture,
            program.glibc
        );
        let release = Release { version: version()?, time, files: files(&program)?, program };
        made.push(archive::write(&release, &options.out)?);
        made.push(debian::write(&release, &format!("{} <{}>", options.name, options.email), &options.out)?);
    }
    let mut sums = String::new();
    for name in made {
        let path = options.out.join(&name);
        let bytes = fs::read(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        println!("{:>10} bytes  {name}", bytes.len());
        sums += &format!("{}  {name}\n", sha256(&bytes));
    }
    write(&options.out.join("SHA256SUMS"), sums.as_bytes())
}

/// What is installed: the program, its manual pages, completions and texts.
fn files(program: &Program) -> Result<Vec<Installed>> {
    let pages = project().join("target/manual-pages");
    let _ = fs::remove_dir_all(&pages);
    fs::create_dir_all(&pages).map_err(|e| format!("{}: {e}", pages.display()))?;
    output(program.command().args(["man", "--directory"]).arg(&pages))?;
    let mut files = vec![Installed::new("usr/bin/gpusetup", 0o755, program.bytes.clone())];
    let entries = fs::read_dir(&pages).map_err(|e| format!("{}: {e}", pages.display()))?;
    for entry in entries {
        let entry = entry.map_err(|e| e.to_string())?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let page = fs::read(entry.path()).map_err(|e| format!("{name}: {e}"))?;
        files.push(Installed::new(format!("usr/share/man/man1/{name}.gz"), 0o644, gzip(&page)?));
    }
    for (shell, place) in [
        ("bash", "usr/share/bash-completion/completions/gpusetup"),
        ("zsh", "usr/share/zsh/vendor-completions/_gpusetup"),
        ("fish", "usr/share/fish/vendor_completions.d/gpusetup.fish"),
    ] {
        files.push(Installed::new(place, 0o644, output(program.command().args(["completions", shell]))?));
    }
    let text = |name: &str| fs::read(project().join(name)).map_err(|e| format!("{name}: {e}"));
    for name in ["LICENSE-APACHE", "LICENSE-MIT", "README.md"] {
        files.push(Installed::new(format!("usr/share/doc/gpusetup/{name}"), 0o644, text(name)?));
    }
    files.push(Installed::new("usr/share/doc/gpusetup/NEWS.md.gz", 0o644, gzip(&text("CHANGELOG.md")?)?));
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}

/// Compressed as Debian's tools do: as well as possible, without name and time.
fn gzip(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut to = GzBuilder::new().mtime(0).write(Vec::new(), Compression::best());
    to.write_all(bytes).and_then(|()| to.finish()).map_err(|e| e.to_string())
}

/// The version of gpusetup's package.
fn version() -> Result<String> {
    let id =
        output(Command::new("cargo").args(["pkgid", "--offline", "--package", "gpusetup"]).current_dir(project()))?;
    let id = String::from_utf8_lossy(&id).trim().to_owned();
    let version = id.rsplit(['#', '@']).next().unwrap_or_default();
    if version.starts_with(|c: char| c.is_ascii_digit()) {
        Ok(version.to_owned())
    } else {
        Err(format!("no version in {id}"))
    }
}

fn time_of_commit() -> Result<u64> {
    let said = match std::env::var("SOURCE_DATE_EPOCH") {
        Ok(said) => said,
        Err(_) => git(&project(), &["log", "-1", "--format=%ct"])?,
    };
    said.trim().parse().map_err(|_| format!("`{}` is no time in seconds", said.trim()))
}

/// What a program prints; an error if it fails.
fn output(command: &mut Command) -> Result<Vec<u8>> {
    let name = command.get_program().to_string_lossy().into_owned();
    let done = command.output().map_err(|e| format!("{name}: {e}"))?;
    if done.status.success() {
        return Ok(done.stdout);
    }
    Err(format!("{name}: {}\n{}", done.status, String::from_utf8_lossy(&done.stderr)))
}

fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    fs::write(path, bytes).map_err(|e| format!("{}: {e}", path.display()))
}
