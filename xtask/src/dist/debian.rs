//! The Debian package, made by dpkg-deb from a folder with its files.

use super::{Installed, Release, gzip, output};
use crate::{Result, project};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

/// Debian's name of an architecture.
fn architecture(machine: &str) -> &str {
    match machine {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "ppc64le" => "ppc64el",
        other => other,
    }
}

/// The first line, and the others as a control file has them.
const DESCRIPTION: &str = "installer for NVIDIA drivers, CUDA and cuDNN
 gpusetup detects the GPUs of a host, picks a driver, a CUDA toolkit and a
 cuDNN that fit them and each other, shows every step of the installation,
 carries it out and checks the result. It resumes after a reboot, undoes what
 it did, and finds out why an installation does not work.";

/// Makes the package, and returns its name.
pub fn write(release: &Release, maintainer: &str, out: &Path) -> Result<String> {
    let tree = project().join("target/debian-package");
    let _ = fs::remove_dir_all(&tree);
    let changelog = gzip(changelog(release, maintainer)?.as_bytes())?;
    let own = [
        Installed::new("usr/share/doc/gpusetup/changelog.Debian.gz", 0o644, changelog),
        Installed::new("usr/share/doc/gpusetup/copyright", 0o644, copyright()?),
        Installed::new("usr/share/lintian/overrides/gpusetup", 0o644, OVERRIDES),
    ];
    let files = || release.files.iter().filter(|file| !file.path.contains("/LICENSE-")).chain(&own);
    for file in files() {
        put(&tree, file)?;
    }
    let bytes: usize = files().map(|file| file.bytes.len()).sum();
    let architecture = architecture(release.program.architecture);
    let version = format!("{}-1", release.version);
    let control = format!(
        "Package: gpusetup\nVersion: {version}\nArchitecture: {architecture}\nMaintainer: {maintainer}\n\
         Installed-Size: {}\nDepends: libc6 (>= {}), libgcc-s1 (>= 3.0) | libgcc1\nSuggests: minisign\nSection: admin\nPriority: optional\n\
         Description: {}\n",
        bytes.div_ceil(1024),
        release.program.glibc,
        DESCRIPTION
    );
    put(&tree, &Installed::new("DEBIAN/control", 0o644, control))?;
    let sums = output(Command::new("md5sum").args(files().map(|file| &file.path)).current_dir(&tree))?;
    put(&tree, &Installed::new("DEBIAN/md5sums", 0o644, sums))?;
    let name = format!("gpusetup_{version}_{architecture}.deb");
    let time = release.time.to_string();
    output(
        Command::new("dpkg-deb")
            .args(["--root-owner-group", "-Zxz", "--build"])
            .args([&tree, &out.join(&name)])
            .env("SOURCE_DATE_EPOCH", time),
    )?;
    Ok(name)
}

/// The licences, in the form that Debian's tools read.
fn copyright() -> Result<String> {
    let mit = fs::read_to_string(project().join("LICENSE-MIT")).map_err(|e| format!("LICENSE-MIT: {e}"))?;
    // The holder has a field above.
    let terms = mit.split_once("\n\nPermission").map(|(_, terms)| format!("Permission{terms}"));
    let terms = terms.ok_or("LICENSE-MIT does not begin as expected")?;
    let line = |line: &str| if line.trim().is_empty() { " .\n".to_owned() } else { format!(" {line}\n") };
    Ok(format!(
        "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\nUpstream-Name: gpusetup\n\n\
         Files: *\nCopyright: 2026 The gpusetup authors\nLicense: Expat or Apache-2.0\n\nLicense: Expat\n{}\n\
         License: Apache-2.0\n On Debian systems the text is in /usr/share/common-licenses/Apache-2.0.\n",
        terms.lines().map(line).collect::<String>()
    ))
}

/// What lintian must not complain about, and why.
const OVERRIDES: &str =
    "# It reads the records of trees whose own dpkg cannot run here (--root), and never writes them.
gpusetup: uses-dpkg-database-directly [usr/bin/gpusetup]
# The package is not uploaded to Debian.
gpusetup: initial-upload-closes-no-bugs [usr/share/doc/gpusetup/changelog.Debian.gz:1]
";

/// The record of the package's versions that Debian asks for: what is new is in NEWS.md.
fn changelog(release: &Release, maintainer: &str) -> Result<String> {
    let date = output(Command::new("date").args(["--utc", "--rfc-email", "--date"]).arg(format!("@{}", release.time)))?;
    let date = String::from_utf8_lossy(&date).trim().to_owned();
    let version = &release.version;
    Ok(format!(
        "gpusetup ({version}-1) unstable; urgency=medium\n\n  * Release {version}; see NEWS.md.\n\n -- {maintainer}  {date}\n"
    ))
}

/// Writes a file of the package into its folder, as dpkg-deb will find it: its modes do not depend on the umask.
fn put(tree: &Path, file: &Installed) -> Result<()> {
    let path = tree.join(&file.path);
    let written = path.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(&path, &file.bytes));
    let done = written.and_then(|()| fs::set_permissions(&path, PermissionsExt::from_mode(file.mode)));
    let folders = path.ancestors().skip(1).take_while(|folder| folder.starts_with(tree));
    let done = done
        .and_then(|()| folders.map(|folder| fs::set_permissions(folder, PermissionsExt::from_mode(0o755))).collect());
    done.map_err(|e: std::io::Error| format!("{}: {e}", path.display()))
}
