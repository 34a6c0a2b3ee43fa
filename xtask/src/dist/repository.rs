//! Repositories for apt and for dnf and zypper: folders that any web server can offer. What is
//! signed: apt's `InRelease`, rpm's `repomd.xml`, and each rpm package. Packages of earlier
//! releases stay.
//!
//! ```text
//! gpusetup.asc                                  the public key
//! apt/pool/gpusetup_0.1.0-1_amd64.deb
//! apt/dists/stable/InRelease                    and Release with Release.gpg
//! apt/dists/stable/main/binary-amd64/Packages.xz, by-hash/SHA256/…
//! rpm/x86_64/gpusetup-0.1.0-1.x86_64.rpm
//! rpm/x86_64/repodata/repomd.xml                with repomd.xml.asc
//! ```

use super::{names_in, output, write};
use crate::Result;
use gpusetup_database::sum::sha256;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Adds the packages in a release's folder.
pub fn add(release: &Path, folder: &Path, key: &str) -> Result<()> {
    let packages = files(release)?;
    let of = |end: &'static str| {
        packages
            .iter()
            .filter(move |path| path.extension().is_some_and(|e| e == end))
    };
    if of("deb").next().is_none() || of("rpm").next().is_none() {
        return Err(format!(
            "{} has no packages; `cargo xtask dist` makes them",
            release.display()
        ));
    }
    let pool = made(folder.join("apt/pool"))?;
    for package in of("deb") {
        copy_once(package, &pool)?;
    }
    apt(&folder.join("apt"), key)?;
    for package in of("rpm") {
        let name = package
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let architecture = name.rsplit('.').next().unwrap_or_default();
        let to = made(folder.join("rpm").join(architecture))?;
        let place = to.join(package.file_name().unwrap_or_default());
        // It was signed when it came: other bytes of the same version would break what hosts know
        // of it.
        if place.exists() {
            println!("{} is there already", place.display());
            continue;
        }
        let unsigned = to.join(".unsigned.rpm");
        fs::copy(package, &unsigned).map_err(|e| format!("{}: {e}", unsigned.display()))?;
        // Debian's rpm looks for gpg nowhere.
        let macros = [&format!("_gpg_name {key}"), "__gpg /usr/bin/gpg"];
        let mut sign = Command::new("rpmsign");
        sign.args(macros.iter().flat_map(|value| ["--define", value]));
        output(sign.arg("--addsign").arg(&unsigned))?;
        fs::rename(&unsigned, &place).map_err(|e| format!("{}: {e}", place.display()))?;
        rpm(&to, key)?;
    }
    write(
        &folder.join("gpusetup.asc"),
        &output(gpg(key).args(["--armor", "--export", key]))?,
    )?;
    println!("repositories: {}", folder.display());
    Ok(())
}

/// Writes apt's lists of the packages in `pool/`, and signs them.
fn apt(root: &Path, key: &str) -> Result<()> {
    let mut architectures = BTreeSet::new();
    for package in files(&root.join("pool"))? {
        let name = package
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        architectures.extend(name.rsplit('_').next().map(str::to_owned));
    }
    let suite = root.join("dists/stable");
    for architecture in &architectures {
        let folder = made(suite.join("main").join(format!("binary-{architecture}")))?;
        let list = output(
            Command::new("apt-ftparchive")
                .args(["--arch", architecture, "packages", "pool"])
                .current_dir(root),
        )?;
        write(&folder.join("Packages"), &list)?;
        output(
            Command::new("xz")
                .args(["--keep", "--force"])
                .arg(folder.join("Packages")),
        )?;
        // A host that has the Release of a minute ago still gets the lists that belong to it.
        let by_hash = made(folder.join("by-hash/SHA256"))?;
        for name in ["Packages", "Packages.xz"] {
            let bytes = fs::read(folder.join(name)).map_err(|e| format!("{name}: {e}"))?;
            write(&by_hash.join(sha256(&bytes)), &bytes)?;
        }
    }
    let architectures: Vec<_> = architectures.into_iter().collect();
    let mut command = Command::new("apt-ftparchive");
    for (field, value) in [
        ("Origin", "gpusetup"),
        ("Label", "gpusetup"),
        ("Suite", "stable"),
        ("Codename", "stable"),
        ("Components", "main"),
        ("Architectures", &architectures.join(" ")),
        ("Acquire-By-Hash", "yes"),
    ] {
        command.args(["-o", &format!("APT::FTPArchive::Release::{field}={value}")]);
    }
    // apt takes the strongest for its by-hash.
    for other in ["MD5", "SHA1", "SHA512"] {
        command.args(["-o", &format!("APT::FTPArchive::Release::{other}=false")]);
    }
    let signed = suite.join("InRelease");
    let unsigned = suite.join("Release");
    let _ = fs::remove_file(&unsigned);
    let release = output(command.arg("release").arg("dists/stable").current_dir(root))?;
    write(&unsigned, &release)?;
    output(
        gpg(key)
            .arg("--clearsign")
            .arg("--output")
            .arg(signed)
            .arg(&unsigned),
    )?;
    output(
        gpg(key)
            .args(["--armor", "--detach-sign", "--output"])
            .arg(suite.join("Release.gpg"))
            .arg(unsigned),
    )
    .map(drop)
}

/// Writes rpm's lists of the packages in a folder, and signs them.
fn rpm(folder: &Path, key: &str) -> Result<()> {
    output(
        Command::new("createrepo_c")
            .args(["--quiet", "--update", "--no-database"])
            .arg(folder),
    )?;
    let lists = folder.join("repodata/repomd.xml");
    let signature = folder.join("repodata/repomd.xml.asc");
    output(
        gpg(key)
            .args(["--armor", "--detach-sign", "--output"])
            .arg(signature)
            .arg(lists),
    )
    .map(drop)
}

/// gpg, signing with this key. It asks for the key's password itself.
fn gpg(key: &str) -> Command {
    let mut command = Command::new("gpg");
    command.args(["--batch", "--yes", "--local-user", key]);
    command
}

fn made(folder: PathBuf) -> Result<PathBuf> {
    fs::create_dir_all(&folder)
        .map(|()| folder.clone())
        .map_err(|e| format!("{}: {e}", folder.display()))
}

/// Copies a file into a folder, unless it is there.
fn copy_once(file: &Path, folder: &Path) -> Result<()> {
    let to = folder.join(file.file_name().unwrap_or_default());
    let failed = |e: std::io::Error| format!("{}: {e}", to.display());
    if !to.exists() {
        return fs::copy(file, &to).map(drop).map_err(failed);
    }
    if fs::read(&to).map_err(failed)? == fs::read(file).map_err(failed)? {
        return Ok(());
    }
    Err(format!(
        "{} is another package of the same version",
        to.display()
    ))
}

/// The files of a folder, sorted.
fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let paths = names_in(folder)?.into_iter().map(|name| folder.join(name));
    Ok(paths.filter(|path| path.is_file()).collect())
}
