//! The Debian package, made by dpkg-deb from a folder with its files.

use super::{Installed, Release, date, gzip, lay_out, output, packaging, workplace};
use crate::{Result, project};
use std::fs;
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

/// Makes the package.
pub fn write(release: &Release, out: &Path) -> Result<()> {
    let tree = workplace("debian-package")?;
    let changelog = gzip(changelog(release)?.as_bytes())?;
    let own = [
        Installed::new(
            "usr/share/doc/gpusetup/changelog.Debian.gz",
            0o644,
            changelog,
        ),
        Installed::new("usr/share/doc/gpusetup/copyright", 0o644, copyright()?),
        Installed::new(
            "usr/share/lintian/overrides/gpusetup",
            0o644,
            packaging("debian/lintian-overrides")?,
        ),
    ];
    let licence = |path: &str| path.starts_with("usr/share/licenses/");
    let mut files: Vec<_> = release
        .files
        .iter()
        .filter(|file| !licence(&file.path))
        .cloned()
        .chain(own)
        .collect();
    for file in &mut files {
        file.path = file
            .path
            .replace("/zsh/site-functions/", "/zsh/vendor-completions/");
    }
    let settings = files
        .iter()
        .filter(|file| file.path.starts_with("etc/"))
        .map(|file| format!("/{}\n", file.path));
    let size: usize = files.iter().map(|file| file.bytes.len()).sum();
    let architecture = architecture(release.program.architecture);
    let version = format!("{}-1", release.version);
    let homepage = release
        .home
        .as_ref()
        .map_or_else(String::new, |home| format!("Homepage: {home}\n"));
    let description: String = packaging("description")?
        .lines()
        .map(|line| format!(" {line}\n"))
        .collect();
    // Programs for some architectures have its functions in them.
    let needs_libgcc = memchr::memmem::find(&release.program.bytes, b"libgcc_s.so.1").is_some();
    let libgcc = if needs_libgcc {
        ", libgcc-s1 (>= 3.0) | libgcc1"
    } else {
        ""
    };
    let control = format!(
        "Package: gpusetup\nVersion: {version}\nArchitecture: {architecture}\nMaintainer: {}\n\
         Installed-Size: {}\nDepends: libc6 (>= {}){libgcc}\nRecommends: ca-certificates\nSuggests: minisign\nSection: admin\nPriority: optional\n\
         {homepage}Description: installer for NVIDIA drivers, CUDA and cuDNN\n{description}",
        release.packager,
        size.div_ceil(1024),
        release.program.glibc,
    );
    lay_out(&tree, &files)?;
    let sums = output(
        Command::new("md5sum")
            .args(files.iter().map(|file| &file.path))
            .current_dir(&tree),
    )?;
    let about = [
        Installed::new("DEBIAN/control", 0o644, control),
        Installed::new("DEBIAN/md5sums", 0o644, sums),
        Installed::new("DEBIAN/conffiles", 0o644, settings.collect::<String>()),
        Installed::new("DEBIAN/postrm", 0o755, packaging("debian/postrm")?),
    ];
    lay_out(&tree, &about)?;
    output(
        Command::new("dpkg-deb")
            .args([
                "--root-owner-group",
                "-Zxz",
                if release.fast { "-z0" } else { "-z9" },
                "--build",
            ])
            .args([
                &tree,
                &out.join(format!("gpusetup_{version}_{architecture}.deb")),
            ])
            .env("SOURCE_DATE_EPOCH", release.time.to_string()),
    )
    .map(drop)
}

/// The licences, in the form that Debian's tools read.
fn copyright() -> Result<String> {
    let mit = fs::read_to_string(project().join("LICENSE-MIT"))
        .map_err(|e| format!("LICENSE-MIT: {e}"))?;
    // The holder has a field above.
    let terms = mit
        .split_once("\n\nPermission")
        .map(|(_, terms)| format!("Permission{terms}"));
    let terms = terms.ok_or("LICENSE-MIT does not begin as expected")?;
    let line = |line: &str| {
        if line.trim().is_empty() {
            " .\n".to_owned()
        } else {
            format!(" {line}\n")
        }
    };
    Ok(format!(
        "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\nUpstream-Name: gpusetup\n\n\
         Files: *\nCopyright: 2026 The gpusetup authors\nLicense: Expat or Apache-2.0\n\nLicense: Expat\n{}\n\
         License: Apache-2.0\n On Debian systems the text is in /usr/share/common-licenses/Apache-2.0.\n",
        terms.lines().map(line).collect::<String>()
    ))
}

/// The record of the package's versions that Debian asks for: what is new is in NEWS.md.
fn changelog(release: &Release) -> Result<String> {
    let date = date(release.time, "--rfc-email")?;
    let Release {
        version, packager, ..
    } = release;
    Ok(format!(
        "gpusetup ({version}-1) unstable; urgency=medium\n\n  * Release {version}; see NEWS.md.\n\n -- {packager}  {date}\n"
    ))
}
