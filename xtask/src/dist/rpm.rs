//! The package for systems with rpm, made by rpmbuild.

use super::{Release, date, lay_out, output, packaging, workplace};
use crate::{Result, project};
use std::fs;
use std::path::Path;
use std::process::Command;

/// Makes the package.
pub fn write(release: &Release, out: &Path) -> Result<()> {
    let place = workplace("rpm-package")?;
    let tree = place.join("files");
    lay_out(&tree, &release.files)?;
    let description = packaging("description")?;
    let defined = |name: &str, value: &str| format!("{name} {value}");
    let mut macros = vec![
        defined("_topdir", &place.display().to_string()),
        defined("release_version", &release.version),
        defined("release_level", if release.fast { "0" } else { "9" }),
        defined("release_files", &tree.display().to_string()),
        defined("release_packager", &release.packager),
        defined("release_day", &date(release.time, "+%a %b %d %Y")?),
        defined("release_description", description.trim_end()),
    ];
    macros.extend(
        release
            .home
            .as_ref()
            .map(|home| defined("release_home", home)),
    );
    let architecture = release.program.architecture;
    let mut command = Command::new("rpmbuild");
    command.args([
        "-bb",
        "--quiet",
        "--target",
        &format!("{architecture}-linux"),
    ]);
    for value in &macros {
        command.args(["--define", value]);
    }
    command.arg(project().join("packaging/rpm/gpusetup.spec"));
    // Debian's rpm keeps a record of packages in the home of whoever builds some.
    output(
        command
            .env("HOME", &place)
            .env("SOURCE_DATE_EPOCH", release.time.to_string()),
    )?;
    let name = format!("gpusetup-{}-1.{architecture}.rpm", release.version);
    let made = place.join("RPMS").join(architecture).join(&name);
    fs::copy(&made, out.join(name))
        .map(drop)
        .map_err(|e| format!("{}: {e}", made.display()))
}
