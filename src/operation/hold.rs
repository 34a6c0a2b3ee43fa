//! `hold`: the package manager keeps the versions of the installed kernel and driver, or updates them again. Which packages these are is
//! known only once they are installed.

use super::program::{ProgramError, judge};
use super::undo::Undo;
use super::{Counts, Standing};
use crate::compat::PackageManager;
use crate::operation::packages::installed;
use crate::packages::{self, DRIVER_NAMES, Holding};
use crate::system::{Program, System};
use crate::text::quoted;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::time::Duration;

/// Holds the installed packages of the kernel and the driver, or releases them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
#[serde(deny_unknown_fields)]
pub struct Hold {
    /// The package manager.
    pub manager: PackageManager,
    /// The driver's branch, `580`: its packages have versions that begin with it.
    pub branch: String,
    /// Whether they are held. Otherwise they are updated with the system.
    pub held: bool,
}

impl Hold {
    /// Whether every package of the kernel and the driver is held, or none is.
    pub fn stands(&self, on: &System) -> io::Result<Standing> {
        Ok(match self.holding() {
            None => Standing::Conflict("this package manager cannot hold packages".to_owned()),
            Some(holding) => Standing::satisfied_if(self.changes(on, holding)?.is_empty()),
        })
    }

    /// How to undo it, to be kept before it is done.
    pub fn intend(&self, on: &System) -> io::Result<Vec<Undo>> {
        let Some(holding) = self.holding() else { return Ok(Vec::new()) };
        let packages = self.changes(on, holding)?;
        Ok(vec![Undo::Hold { manager: self.manager, packages, held: !self.held }])
    }

    /// Holds or releases them.
    pub fn perform(&self, on: &System) -> Result<(), ProgramError> {
        let Some(holding) = self.holding() else { return Ok(()) };
        let failed = |source| ProgramError::Start { program: self.describe(), source };
        set(on, self.manager, &self.changes(on, holding).map_err(failed)?, self.held)
    }

    fn holding(&self) -> Option<&'static Holding> {
        packages::of(self.manager).holding.as_ref()
    }

    /// The installed packages that are not yet as they should be.
    fn changes(&self, on: &System, holding: &Holding) -> io::Result<Vec<String>> {
        let held = (holding.held)(on)?;
        let all = self.chosen(holding, &installed(on, self.manager)?);
        Ok(all.into_iter().filter(|name| held.contains(name) != self.held).collect())
    }

    fn chosen(&self, holding: &Holding, installed: &BTreeMap<String, String>) -> BTreeSet<String> {
        let all = installed.iter().filter(|(name, version)| holding.concerns(name, version, &self.branch));
        all.map(|(name, _)| name.clone()).collect()
    }

    /// What it does, in a line.
    pub fn describe(&self) -> String {
        match self.held {
            true => format!("hold the installed packages of the kernel and of driver {}", self.branch),
            false => format!("update the kernel and driver {} with the system again", self.branch),
        }
    }

    /// The lines of a script that do it.
    pub fn shell(&self) -> String {
        let Some(holding) = self.holding() else { return "false\n".to_owned() };
        let command = if self.held { holding.hold } else { holding.release };
        let kernels = holding.kernels.iter().map(|start| format!("^{start}"));
        let drivers = DRIVER_NAMES.iter().map(|part| format!("{part}.* ([0-9]+:)?{}[.]", self.branch));
        let pattern = kernels.chain(drivers).collect::<Vec<_>>().join("|");
        format!("{} | grep -E {} | cut -d ' ' -f 1 | xargs -r {command}\n", holding.list, quoted(&pattern))
    }

    /// What it changes.
    pub fn counts(&self) -> Counts {
        Counts { change: 1, ..Counts::default() }
    }
}

/// Holds packages, or releases them.
pub fn set(on: &System, manager: PackageManager, packages: &[String], held: bool) -> Result<(), ProgramError> {
    let Some(holding) = packages::of(manager).holding.as_ref().filter(|_| !packages.is_empty()) else { return Ok(()) };
    let command = if held { holding.hold } else { holding.release };
    let argv = packages::words(command).into_iter().chain(packages.iter().cloned()).collect::<Vec<_>>();
    let output = on
        .run(&Program::new(argv).limit(Duration::from_secs(300)).undisturbed())
        .map_err(|source| ProgramError::Start { program: command.to_owned(), source })?;
    judge(command, &output, None)
}

/// Gives packages their previous state back. A package that was removed since, or that somebody held or released since, is left.
pub fn give_back(on: &System, manager: PackageManager, packages: &[String], held: bool) -> io::Result<()> {
    let Some(holding) = packages::of(manager).holding.as_ref() else { return Ok(()) };
    let (now, there) = ((holding.held)(on)?, installed(on, manager)?);
    let differs = |name: &&String| there.contains_key(*name) && now.contains(*name) != held;
    let packages: Vec<_> = packages.iter().filter(differs).cloned().collect();
    set(on, manager, &packages, held).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_and_the_drivers_packages_are_chosen() {
        let hold = Hold { manager: packages::ASSUMED, branch: "580".to_owned(), held: true };
        let installed = [
            ("linux-image-6.8.0-64-generic", "6.8.0-64.67"),
            ("linux-headers-generic", "6.8.0-64.67"),
            ("linux-libc-dev", "6.8.0-64.67"),
            ("nvidia-driver-580", "580.95.05-0ubuntu0.24.04.1"),
            ("libnvidia-compute-580", "580.95.05-0ubuntu0.24.04.1"),
            ("libnvidia-compute-570", "570.86.15-1"),
            ("nvidia-container-toolkit", "1.17.4-1"),
            ("less", "590-2"),
            ("xterm", "580.1-2"),
        ];
        let installed = installed.map(|(name, version)| (name.to_owned(), version.to_owned())).into();
        let holding = hold.holding().expect("apt can");
        let chosen = hold.chosen(holding, &installed).into_iter().collect::<Vec<_>>();
        assert_eq!(
            chosen,
            ["libnvidia-compute-580", "linux-headers-generic", "linux-image-6.8.0-64-generic", "nvidia-driver-580"]
        );
    }
}
