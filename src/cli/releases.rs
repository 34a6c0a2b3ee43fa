//! Releases that the user names, and what is said of those that the database does not have.

use super::Problem;
use crate::compat::{AddOn, CudaRelease, Database, DriverBranch};
use crate::host::system_named;
use crate::render::db::show as pages;
use crate::render::explain::article::Article;
use crate::version::{AddOnVersion, CudaVersion, DriverVersion, Version, VersionError, Want};
use std::fmt::Display;
use std::str::FromStr;

/// A wish for a version of what a flag or a layer is called.
pub(crate) fn want<V: Version>(name: &str, text: &str) -> Result<Want<V>, Problem>
where
    Want<V>: FromStr<Err = VersionError>,
{
    text.parse()
        .map_err(|e| Problem::usage(format!("{name}: {e}")))
}

/// The newest CUDA release that is wanted and can be chosen, else the newest: `13.0`, `>=12.4,
/// <13`.
pub(crate) fn cuda<'a>(database: &'a Database, text: &str) -> Result<&'a CudaRelease, Problem> {
    let want: Want<CudaVersion> = want("cuda", text)?;
    let newest = database.cuda.iter().map(|release| release.version).max();
    let mut wanted = database
        .cuda
        .iter()
        .filter(|release| want.accepts(release.version));
    let found = wanted
        .clone()
        .find(|release| pages::can_be_chosen(database, release))
        .or_else(|| wanted.next());
    found.ok_or_else(|| unknown("CUDA", text, newest, "gpusetup db list cuda"))
}

/// The branch of the newest driver that is wanted: `580`, `580.95.05`.
pub(crate) fn branch<'a>(database: &'a Database, text: &str) -> Result<&'a DriverBranch, Problem> {
    let want: Want<DriverVersion> = want("driver", text)?;
    let released = database
        .drivers
        .iter()
        .find(|driver| want.accepts(driver.version));
    let exactly: Option<DriverVersion> = text.parse().ok();
    let number = text
        .parse()
        .ok()
        .or(released.map(|driver| driver.version.branch))
        .or(exactly.map(|version| version.branch));
    let newest = database.drivers.iter().map(|driver| driver.version).max();
    let found = number.and_then(|number| database.branch(number));
    found.ok_or_else(|| unknown("driver", text, newest, "gpusetup db list drivers"))
}

/// The page about the releases of this add-on that are wanted: `9.10`, `latest`.
fn add_on(database: &Database, of: &AddOn, text: &str) -> Result<Article, Problem> {
    let want: Want<AddOnVersion> = want(&of.id.to_string(), text)?;
    let known: Vec<_> = database
        .add_on_archives(of.id)
        .map(|archive| archive.version)
        .collect();
    match known.iter().any(|version| want.accepts(*version)) {
        true => Ok(pages::add_on(database, of, &want)),
        false => Err(unknown(
            &of.title,
            text,
            known.into_iter().max(),
            "gpusetup db list add-ons",
        )),
    }
}

/// The page about a release of the driver, of CUDA or of an add-on.
pub(crate) fn page(database: &Database, layer: &str, text: &str) -> Result<Article, Problem> {
    match (layer, database.add_on_named(layer)) {
        ("driver", _) => Ok(of_driver(database, branch(database, text)?, text)),
        (_, Some(of)) => add_on(database, of, text),
        (_, None) => Ok(pages::cuda(database, cuda(database, text)?)),
    }
}

/// The page about a branch, for a release that the database may not have.
fn of_driver(database: &Database, branch: &DriverBranch, text: &str) -> Article {
    let page = pages::branch(database, branch);
    match text.parse() {
        Ok(release) if database.driver(release).is_none() => page.with(
            "note",
            format!("the database does not have the release {release} of this branch"),
        ),
        _ => page,
    }
}

/// The page about the driver branch with this number, or of this release: `580`, `580.65.06`.
pub(crate) fn of_branch(database: &Database, text: &str) -> Option<Article> {
    let number = text.parse().ok().or_else(|| {
        database
            .driver(text.parse().ok()?)
            .map(|release| release.version.branch)
    })?;
    Some(pages::branch(database, database.branch(number)?))
}

/// The page about a system, a CUDA series or a driver branch that a word names alone:
/// `ubuntu-24.04`, `12.8`, `cuda-12.8`, `cu128`, and names of packages, `cuda-toolkit-12-8` and
/// `nvidia-driver-580-open`.
pub(crate) fn of_system_or_release(database: &Database, name: &str) -> Option<Article> {
    if let Ok((system, _)) = system_named(database, name.split(':').next().unwrap_or_default()) {
        return Some(pages::system(database, system));
    }
    if let Some(number) = cuda_named(name) {
        return cuda(database, &number)
            .ok()
            .map(|release| pages::cuda(database, release));
    }
    let of_driver = ["nvidia-", "libnvidia-", "cuda-drivers-"]
        .iter()
        .any(|start| name.starts_with(start));
    name.split('-')
        .filter(|_| of_driver)
        .find_map(|part| of_branch(database, part))
}

/// The CUDA release in a word: `12.8`, `cuda-12.8`, `cu128`, `cuda-toolkit-12-8`. A whole number
/// alone may be an error or an Xid.
fn cuda_named(name: &str) -> Option<String> {
    let number = ["cuda-", "cuda", ""].iter().find_map(|start| {
        name.strip_prefix(start)
            .filter(|text| text.starts_with(|c: char| c.is_ascii_digit()) && text.contains('.'))
    });
    if let Some(number) = number.or_else(|| Some(name).filter(|name| name.starts_with("cu1"))) {
        return Some(number.to_owned());
    }
    let mut parts = name.strip_prefix("cuda-")?.rsplit('-');
    let (minor, major) = (parts.next()?, parts.next()?);
    [major, minor]
        .iter()
        .all(|part| part.parse::<u16>().is_ok())
        .then(|| format!("{major}.{minor}"))
}

fn unknown(title: &str, text: &str, newest: Option<impl Display>, list: &str) -> Problem {
    let newest = newest
        .map(|newest| format!("; the newest is {newest}"))
        .unwrap_or_default();
    Problem::usage(format!("the database has no {title} {text}{newest}")).attempt(list)
}
