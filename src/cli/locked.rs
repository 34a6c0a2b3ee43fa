//! `plan --lock` writes a lock file; `--locked` holds `plan` and `apply` to one.

use super::Problem;
use super::facts::read_text;
use super::options::{TrustOptions, or_trust_owner};
use crate::compat::{Database, PackageManager};
use crate::host::Facts;
use crate::operation::packages;
use crate::packages::{Versions, offered_versions};
use crate::plan::{LockError, LockFile, Plan};
use crate::resolve::{Method, Request};
use crate::system::System;
use crate::system::input;
use std::path::{Path, PathBuf};

/// The lock file that was named, if any.
pub struct Locked(Option<(PathBuf, LockFile)>);

impl Locked {
    /// Reads it.
    pub fn read(path: Option<&PathBuf>, trust: &TrustOptions) -> Result<Self, Problem> {
        let read = |path: &PathBuf| {
            let text = match path.as_os_str() == input::STANDARD_INPUT {
                true => read_text(path)?,
                false => input::text(path, input::MOST_JSON, &trust.where_root_acts()?).map_err(or_trust_owner)?,
            };
            let lock = LockFile::read(&text).map_err(|e| refused(path, &e))?;
            Ok((path.clone(), lock))
        };
        path.map(read).transpose().map(Self)
    }

    /// The packages' versions in it.
    pub fn versions(&self) -> Versions {
        self.0.as_ref().map_or_else(Versions::new, |(_, lock)| lock.packages.clone())
    }

    /// The request that it makes of the one that was asked on this host.
    pub fn request(&self, asked: Request, host: &Facts) -> Result<Request, Problem> {
        let Some((path, lock)) = &self.0 else { return Ok(asked) };
        lock.is_for(host).and_then(|()| lock.request(asked)).map_err(|e| refused(path, &e))
    }

    /// The plan, held to it.
    pub fn hold(&self, plan: Plan) -> Result<Plan, Problem> {
        let Some((path, lock)) = &self.0 else { return Ok(plan) };
        lock.hold(plan).map_err(|e| refused(path, &e))
    }
}

fn refused(path: &Path, e: &LockError) -> Problem {
    let code = match e {
        LockError::Malformed(_) => 2,
        LockError::OtherSystem { .. } | LockError::Gone(_) => 4,
        LockError::Altered(_) => 10,
    };
    Problem::new(code, format!("the lock file {}: {e}", path.display()))
}

/// Writes what the plan comes to. The package manager is asked for the versions of what would come, and of what is there.
pub fn write(path: &Path, system: &System, database: &Database, plan: &Plan) -> Result<(), Problem> {
    let lock = LockFile::of(database, plan, package_versions(system, plan)?);
    let text = serde_json::to_string_pretty(&lock).map_err(|e| Problem::unexpected(e.to_string()))?;
    std::fs::write(path, text + "\n").map_err(|e| Problem::unexpected(format!("cannot write {}: {e}", path.display())))
}

fn package_versions(system: &System, plan: &Plan) -> Result<Versions, Problem> {
    let unknown = |why: String| {
        Problem::new(6, format!("the versions of packages cannot be locked: {why}"))
            .hint("fetch the lists of packages first: sudo apt-get update")
    };
    let mut all = Versions::new();
    let Some(manager) = plan.host.os.package_manager else { return Ok(all) };
    if let Some(driver) = plan.selection.driver.as_ref().filter(|d| d.method == Method::Packages) {
        // Those that carry the driver's version are the driver's.
        let version = driver.version.to_string();
        let here = packages::installed(system, manager).map_err(|e| unknown(e.to_string()))?;
        all.extend(here.into_iter().filter(|(_, v)| v.contains(&version)));
    }
    for wanted in plan.packages() {
        all.extend(match manager {
            PackageManager::Apt => packages::transaction(system, wanted).map_err(|e| unknown(e.to_string()))?,
            PackageManager::Dnf | PackageManager::Zypper => {
                let names = wanted.install.iter().map(String::as_str).collect();
                offered_versions(system, manager, &names, &Versions::new()).map_err(|e| unknown(e.to_string()))?
            }
        });
    }
    Ok(all)
}
