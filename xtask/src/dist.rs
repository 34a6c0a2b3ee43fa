//! A release: the program with its manual pages and completions, as archives and as packages; the
//! database, the install script, what the program is made of, notes, and the checksums of all of it
//! with their signature. The same commit gives the same bytes, whoever builds it, where and when:
//! paths are left out of the program, times are the commit's, files are sorted and belong to root.

mod archive;
mod debian;
mod homebrew;
mod install_script;
mod materials;
mod notes;
mod program;
mod repository;
mod rpm;
mod signature;
mod valid;

use crate::open_kernel_modules::git;
use crate::{Result, project};
use flate2::{Compression, GzBuilder};
use gpusetup_database::signed::{KEYS, KeyList};
use gpusetup_database::sum::sha256;
use program::{Pinned, Program};
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What is made, and of what.
#[derive(clap::Args)]
pub struct Options {
    /// The folder for the release; it is made
    #[arg(long, default_value = "target/release-files")]
    out: PathBuf,
    /// Package this program, which runs here, instead of building one
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// Build for this glibc and newer ones with `cargo zigbuild` (pip install ziglang==0.13.0
    /// cargo-zigbuild==0.24.1)
    #[arg(long, value_name = "VERSION", conflicts_with = "program")]
    glibc: Option<String>,
    /// Build for these platforms, such as `aarch64-unknown-linux-gnu`; rustc must have their
    /// standard libraries
    #[arg(long, value_name = "TRIPLE", conflicts_with = "program")]
    target: Vec<String>,
    /// Compress little, for trying things
    #[arg(long)]
    fast: bool,
    /// Who answers for the packages: NAME
    #[arg(long, env = "DEBFULLNAME", required_unless_present = "repository")]
    name: Option<String>,
    /// Who answers for the packages: address
    #[arg(long, env = "DEBEMAIL", required_unless_present = "repository")]
    email: Option<String>,
    /// The project's page; releases are at URL/releases/latest/download and
    /// URL/releases/download/vVERSION
    #[arg(long, value_name = "URL", env = "GPUSETUP_HOME")]
    home: Option<String>,
    /// The lists of the minisign keys that sign releases: the install script and the program trust
    /// the newest [default: compat/release-keys]
    #[arg(long, value_name = "FILE", env = "GPUSETUP_RELEASE_KEYS")]
    release_keys: Option<PathBuf>,
    /// Sign the checksums and the database with this minisign secret key; repeat it for a second
    /// signature
    #[arg(long, value_name = "FILE")]
    sign: Vec<PathBuf>,
    /// Build nothing: add the packages in the release's folder to the apt and rpm repositories in
    /// DIR, and sign these
    #[arg(long, value_name = "DIR", requires = "openpgp_key", conflicts_with_all = ["program", "glibc", "sign"])]
    repository: Option<PathBuf>,
    /// The key in gpg's keyring that signs repositories, by its fingerprint
    #[arg(long, value_name = "FINGERPRINT", requires = "repository")]
    openpgp_key: Option<String>,
}

/// A file that packages install, at its place below `/`.
#[derive(Clone)]
struct Installed {
    path: String,
    mode: u32,
    bytes: Vec<u8>,
}

impl Installed {
    fn new(path: impl Into<String>, mode: u32, bytes: impl Into<Vec<u8>>) -> Self {
        Self {
            path: path.into(),
            mode,
            bytes: bytes.into(),
        }
    }
}

/// What is released, and when.
struct Release {
    /// `0.1.0`.
    version: String,
    /// Seconds since 1970 at the commit, or `SOURCE_DATE_EPOCH`.
    time: u64,
    /// The project's page.
    home: Option<String>,
    /// `NAME <ADDRESS>`.
    packager: String,
    /// Compress little.
    fast: bool,
    program: Program,
    files: Vec<Installed>,
}

/// Makes a release, or repositories of one.
pub fn make(options: &Options) -> Result<()> {
    match (&options.repository, &options.openpgp_key) {
        (Some(folder), Some(key)) => repository::add(&options.out, folder, key),
        _ => {
            let made = release(options);
            let _ = fs::remove_dir_all(workplaces()?);
            made
        }
    }
}

/// Where this run works: several can at once.
fn workplaces() -> Result<PathBuf> {
    let project = project().canonicalize().map_err(|e| e.to_string())?;
    Ok(project
        .join("target/release-work")
        .join(std::process::id().to_string()))
}

/// Makes the release, and prints the checksum and size of each file. Other architectures are added
/// to a folder that has one.
fn release(options: &Options) -> Result<()> {
    valid::check(options)?;
    let time = time_of_commit()?;
    let home = options
        .home
        .as_deref()
        .map(|home| home.trim_end_matches('/'));
    let keys = keys(options.release_keys.as_deref())?;
    let programs = match &options.program {
        Some(path) => vec![
            path.canonicalize()
                .map_err(|e| format!("{}: {e}", path.display()))?,
        ],
        None => {
            let variables = [
                ("GPUSETUP_HOME", home),
                (
                    "GPUSETUP_RELEASE_KEYS",
                    keys.as_ref().map(|keys| keys.path.as_str()),
                ),
            ];
            program::build(
                &options.target,
                options.glibc.as_deref(),
                &Pinned {
                    variables: &variables,
                    time,
                },
            )?
        }
    };
    let out = &options.out;
    fs::create_dir_all(out).map_err(|e| format!("{}: {e}", out.display()))?;
    let version = version()?;
    has_nothing_else(out, &version)?;
    for path in &programs {
        let program = Program::read(path)?;
        let Program {
            bytes,
            architecture,
            glibc,
            ..
        } = &program;
        println!(
            "{:>10} bytes  the program for {architecture}, glibc {glibc} and newer",
            bytes.len()
        );
        let release = Release {
            version: version.clone(),
            time,
            home: home.map(str::to_owned),
            packager: options
                .name
                .iter()
                .zip(&options.email)
                .map(|(name, email)| format!("{name} <{email}>"))
                .collect(),
            fast: options.fast,
            files: files(&program)?,
            program,
        };
        archive::write(&release, out)?;
        debian::write(&release, out)?;
        rpm::write(&release, out)?;
        materials::write(&release, out)?;
        // The same bytes, whichever program packs it.
        output(
            release
                .program
                .command()
                .arg("db")
                .arg("pack")
                .arg(project())
                .arg("--out")
                .arg(out.join(DATABASE)),
        )?;
    }
    notes::write(&version, out)?;
    install_script::write(home, keys.as_ref().map(|keys| keys.newest.line()), out)?;
    if let Some(keys) = &keys {
        write(&out.join(KEYS), keys.lists.as_bytes())?;
    }
    homebrew::write_formula(&version, home, out)?;
    let mut sums = String::new();
    for name in names(out)? {
        let path = out.join(&name);
        let bytes = fs::read(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        println!("{:>10} bytes  {name}", bytes.len());
        sums += &format!("{}  {name}\n", sha256(&bytes));
    }
    write(&out.join(SUMS), sums.as_bytes())?;
    if options.sign.is_empty() {
        Ok(())
    } else {
        signature::write(&version, &options.sign, out, &[SUMS, DATABASE])
    }
}

/// The lists of the keys that sign releases.
struct Keys {
    /// The file, from the root on: it is read from another folder.
    path: String,
    /// Its text.
    lists: String,
    newest: KeyList,
}

/// Those of a file, which is refused unless signatures lead from its first list to its last.
fn keys(file: Option<&Path>) -> Result<Option<Keys>> {
    let usual = project().join("compat").join(KEYS);
    let Some(path) = file.or_else(|| usual.exists().then_some(&usual)) else {
        return Ok(None);
    };
    let failed = |e: &dyn std::fmt::Display| format!("{}: {e}", path.display());
    let lists = fs::read_to_string(path).map_err(|e| failed(&e))?;
    let newest = KeyList::newest(&lists).map_err(|e| failed(&e))?;
    let path = path
        .canonicalize()
        .map_err(|e| failed(&e))?
        .to_string_lossy()
        .into_owned();
    Ok(Some(Keys {
        path,
        lists,
        newest,
    }))
}

/// The checksums, in the form of `sha256sum`.
const SUMS: &str = "SHA256SUMS";
/// What `gpusetup db update` takes.
const DATABASE: &str = "database.tar.xz";

/// Refuses a folder with files of another release: they would be listed and signed as part of this
/// one.
fn has_nothing_else(out: &Path, version: &str) -> Result<()> {
    let ours = ["NOTES.md", "gpusetup.rb", "install.sh"];
    let is_ours = |name: &str| {
        let rest = ["gpusetup-", "gpusetup_"]
            .iter()
            .find_map(|start| name.strip_prefix(start));
        let is_versioned = rest
            .and_then(|rest| rest.strip_prefix(version))
            .is_some_and(|rest| rest.starts_with('-'));
        is_versioned || ours.contains(&name)
    };
    match names(out)?.iter().find(|name| !is_ours(name)) {
        Some(other) => Err(format!(
            "{} has {other}, which is not of release {version}: choose another --out",
            out.display()
        )),
        None => Ok(()),
    }
}

/// The files of a release that its checksums list, sorted. The database and the lists of keys are
/// signed separately, so that newer ones can replace them between releases.
fn names(out: &Path) -> Result<Vec<String>> {
    let is_listed = |name: &String| {
        ![SUMS, DATABASE, KEYS].contains(&name.as_str()) && !name.ends_with(".minisig")
    };
    Ok(names_in(out)?.into_iter().filter(is_listed).collect())
}

/// The names in a folder, sorted.
fn names_in(folder: &Path) -> Result<Vec<String>> {
    let names = fs::read_dir(folder).and_then(|entries| {
        entries
            .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
            .collect()
    });
    let mut names: Vec<_> =
        names.map_err(|e: std::io::Error| format!("{}: {e}", folder.display()))?;
    names.sort();
    Ok(names)
}

/// Writes files to their places below a folder that is made for them. Modes do not depend on the
/// umask.
fn lay_out<'a>(tree: &Path, files: impl IntoIterator<Item = &'a Installed>) -> Result<()> {
    for file in files {
        let path = tree.join(&file.path);
        let written = path
            .parent()
            .map_or(Ok(()), fs::create_dir_all)
            .and_then(|()| fs::write(&path, &file.bytes));
        let done =
            written.and_then(|()| fs::set_permissions(&path, PermissionsExt::from_mode(file.mode)));
        let mut folders = path
            .ancestors()
            .skip(1)
            .take_while(|folder| folder.starts_with(tree));
        let done = done.and_then(|()| {
            folders.try_for_each(|one| fs::set_permissions(one, PermissionsExt::from_mode(0o755)))
        });
        done.map_err(|e| format!("{}: {e}", path.display()))?;
    }
    Ok(())
}

/// An empty folder of this run, below `target/`.
fn workplace(name: &str) -> Result<PathBuf> {
    let folder = workplaces()?.join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    Ok(folder)
}

/// What packages install: the program, its manual pages, completions and texts, and what rotates
/// its logs and clears its cache.
fn files(program: &Program) -> Result<Vec<Installed>> {
    let pages = workplace("manual-pages")?;
    output(program.command().args(["man", "--directory"]).arg(&pages))?;
    let mut files = vec![Installed::new(
        "usr/bin/gpusetup",
        0o755,
        program.bytes.clone(),
    )];
    for name in names_in(&pages)? {
        let page = fs::read(pages.join(&name)).map_err(|e| format!("{name}: {e}"))?;
        files.push(Installed::new(
            format!("usr/share/man/man1/{name}.gz"),
            0o644,
            gzip(&page)?,
        ));
    }
    for (shell, place) in [
        ("bash", "usr/share/bash-completion/completions/gpusetup"),
        ("zsh", "usr/share/zsh/site-functions/_gpusetup"),
        ("fish", "usr/share/fish/vendor_completions.d/gpusetup.fish"),
    ] {
        files.push(Installed::new(
            place,
            0o644,
            output(program.command().args(["completions", shell]))?,
        ));
    }
    let text = |name: &str| fs::read(project().join(name)).map_err(|e| format!("{name}: {e}"));
    for (name, place) in [
        (
            "LICENSE-APACHE",
            "usr/share/licenses/gpusetup/LICENSE-APACHE",
        ),
        ("LICENSE-MIT", "usr/share/licenses/gpusetup/LICENSE-MIT"),
        ("README.md", "usr/share/doc/gpusetup/README.md"),
        (
            "packaging/config.yaml",
            "usr/share/doc/gpusetup/examples/config.yaml",
        ),
        ("packaging/logrotate", "etc/logrotate.d/gpusetup"),
        (
            "packaging/tmpfiles.conf",
            "usr/lib/tmpfiles.d/gpusetup.conf",
        ),
    ] {
        files.push(Installed::new(place, 0o644, text(name)?));
    }
    files.push(Installed::new(
        "usr/share/doc/gpusetup/NEWS.md.gz",
        0o644,
        gzip(&text("CHANGELOG.md")?)?,
    ));
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}

/// A text of `packaging/`.
fn packaging(name: &str) -> Result<String> {
    let path = project().join("packaging").join(name);
    fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))
}

/// Compressed as Debian's tools do: as well as possible, without name and time.
fn gzip(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut to = GzBuilder::new()
        .mtime(0)
        .write(Vec::new(), Compression::best());
    to.write_all(bytes)
        .and_then(|()| to.finish())
        .map_err(|e| e.to_string())
}

/// The version of gpusetup's package.
fn version() -> Result<String> {
    let id = output(
        Command::new("cargo")
            .args(["pkgid", "--offline", "--package", "gpusetup"])
            .current_dir(project()),
    )?;
    let id = String::from_utf8_lossy(&id).trim().to_owned();
    let version = id.rsplit(['#', '@']).next().unwrap_or_default();
    // What package managers and `sort -V` order in the same way.
    if version.split('.').count() == 3 && version.chars().all(|c| c.is_ascii_digit() || c == '.') {
        Ok(version.to_owned())
    } else {
        Err(format!("{id} has no version of the form 1.2.3"))
    }
}

fn time_of_commit() -> Result<u64> {
    let text = match std::env::var("SOURCE_DATE_EPOCH") {
        Ok(text) => text,
        Err(_) => git(&project(), &["log", "-1", "--format=%ct"])?,
    };
    text.trim()
        .parse()
        .map_err(|_| format!("`{}` is no time in seconds", text.trim()))
}

/// Seconds since 1970 in a form of date(1), in English.
fn date(time: u64, form: &str) -> Result<String> {
    let formatted = output(
        Command::new("date")
            .args(["--utc", "--date", &format!("@{time}"), form])
            .env("LC_ALL", "C"),
    )?;
    Ok(String::from_utf8_lossy(&formatted).trim().to_owned())
}

/// What a program prints; an error if it fails.
fn output(command: &mut Command) -> Result<Vec<u8>> {
    let name = command.get_program().to_string_lossy().into_owned();
    let done = command.output().map_err(|e| format!("{name}: {e}"))?;
    if done.status.success() {
        return Ok(done.stdout);
    }
    Err(format!(
        "{name}: {}\n{}",
        done.status,
        String::from_utf8_lossy(&done.stderr)
    ))
}

fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    fs::write(path, bytes).map_err(|e| format!("{}: {e}", path.display()))
}
