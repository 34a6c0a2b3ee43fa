//! `hold`: packages stay at their version until they are released: no update by hand or by a timer moves one of them without
//! the others. gpusetup keeps a list of what it holds, so that an administrator's own holds are left alone.

use super::packages::installed;
use super::program::{ProgramError, judge};
use super::undo::Undo;
use super::{Counts, Standing};
use crate::compat::PackageManager;
use crate::packages::{Holds, held_by_gpusetup, of, upstream, words};
use crate::paths::HELD;
use crate::system::{Program, System};
use crate::text::quoted;
use crate::version::DriverVersion;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::io;

/// Holds packages at their version, or releases those that gpusetup holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
#[serde(deny_unknown_fields)]
pub struct Hold {
    /// The package manager.
    pub manager: PackageManager,
    /// The packages to hold. Empty for a release, which is of all that gpusetup holds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub packages: Vec<String>,
    /// The driver. Every installed package of its version is held with the others: its libraries and modules.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver: Option<DriverVersion>,
    /// Whether they are held or released.
    pub held: bool,
}

impl Hold {
    /// Holds these packages and all of a driver.
    pub fn new(manager: PackageManager, packages: Vec<String>, driver: DriverVersion) -> Self {
        Self { manager, packages, driver: Some(driver), held: true }
    }

    /// Releases what gpusetup holds.
    pub fn release(manager: PackageManager) -> Self {
        Self { manager, packages: Vec::new(), driver: None, held: false }
    }

    /// Whether nothing is left to hold or to release.
    pub fn stands(&self, on: &System) -> io::Result<Standing> {
        Ok(Standing::satisfied_if(self.changes(on)?.is_empty()))
    }

    /// How to undo it, to be kept before it is done.
    pub fn intend(&self, on: &System) -> io::Result<Vec<Undo>> {
        let packages = self.changes(on)?.into_iter().collect();
        Ok(vec![Undo::Hold { manager: self.manager, packages, held: !self.held }])
    }

    /// Holds or releases them.
    pub fn perform(&self, on: &System) -> Result<(), ProgramError> {
        let start = |source| ProgramError::Start { program: "the package manager".to_owned(), source };
        set(on, self.manager, &self.changes(on).map_err(start)?, self.held)
    }

    /// The packages that are yet to be held or released.
    fn changes(&self, on: &System) -> io::Result<BTreeSet<String>> {
        if self.held { self.left_to_hold(on) } else { held_by_gpusetup(on) }
    }

    /// The packages that are not held yet, by whomever.
    fn left_to_hold(&self, on: &System) -> io::Result<BTreeSet<String>> {
        let Some(holds) = &of(self.manager).holds else { return Ok(BTreeSet::new()) };
        let here = installed(on, self.manager)?;
        let version =
            |name: &String| here.get(name).and_then(|version| upstream(version).parse::<DriverVersion>().ok());
        // The repositories may have had a newer driver than the plan knew.
        let drivers: BTreeSet<_> = self.packages.iter().filter_map(version).chain(self.driver).collect();
        let wanted = here.keys().filter(|name| {
            self.packages.contains(name) || version(name).is_some_and(|version| drivers.contains(&version))
        });
        let held = (holds.held)(on)?;
        Ok(wanted.filter(|name| !held.contains(*name)).cloned().collect())
    }

    /// What it does, in a line.
    pub fn describe(&self) -> String {
        match (self.held, self.driver) {
            (true, Some(driver)) => format!("hold the packages of driver {driver} at their version"),
            (true, None) => format!("hold {} at their version", self.packages.join(", ")),
            (false, _) => "release the packages that gpusetup holds".to_owned(),
        }
    }

    /// The lines of a script that do it. It knows the packages only by name.
    pub fn shell(&self) -> String {
        let Some(holds) = &of(self.manager).holds else { return String::new() };
        if !self.held {
            return format!("test ! -s {HELD} || {{ xargs {} <{HELD}; rm {HELD}; }}\n", in_shell(holds.release));
        }
        if self.packages.is_empty() {
            return String::new();
        }
        let names: Vec<_> = self.packages.iter().map(|name| quoted(name)).collect();
        let names = names.join(" ");
        format!("{} {names}\nprintf '%s\\n' {names} >>{HELD}\n", in_shell(holds.hold))
    }

    /// What it adds and changes.
    pub fn counts(&self) -> Counts {
        Counts { change: 1, ..Counts::default() }
    }
}

/// A command whose words a shell takes as they are.
fn in_shell(command: &str) -> String {
    words(command).iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
}

fn note(on: &System, names: &BTreeSet<String>) -> io::Result<()> {
    if names.is_empty() {
        return on.remove(HELD);
    }
    let text: String = names.iter().map(|name| format!("{name}\n")).collect();
    on.write(HELD, text.as_bytes(), 0o644)
}

/// Holds or releases packages, and notes it. What is noted and not held does no harm: releasing it again changes nothing.
pub fn set(on: &System, manager: PackageManager, packages: &BTreeSet<String>, held: bool) -> Result<(), ProgramError> {
    let Some(Holds { hold, release, held: known, .. }) = &of(manager).holds else { return Ok(()) };
    let command = if held { hold } else { release };
    let start = |source| ProgramError::Start { program: (*command).to_owned(), source };
    let before = held_by_gpusetup(on).map_err(start)?;
    if held {
        note(on, &before.union(packages).cloned().collect()).map_err(start)?;
    }
    // One that was purged since, or released by hand, cannot be released.
    let mut names = packages.clone();
    if !held {
        names = names.intersection(&known(on).map_err(start)?).cloned().collect();
    }
    if !names.is_empty() {
        let argv = words(command).into_iter().chain(names);
        judge(command, &on.run(&Program::new(argv).undisturbed()).map_err(start)?, None)?;
    }
    if !held {
        note(on, &before.difference(packages).cloned().collect()).map_err(start)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_holds_and_releases_as_each_manager_does() {
        let driver = "580.95.05".parse().expect("a version");
        let scripts = |manager| {
            let hold = Hold::new(manager, vec!["nvidia-imex".to_owned()], driver);
            [hold.shell(), Hold::release(manager).shell()]
        };
        let [hold, release] = scripts(PackageManager::Apt);
        assert_eq!(hold, "apt-mark -q hold nvidia-imex\nprintf '%s\\n' nvidia-imex >>/var/lib/gpusetup-held\n");
        assert!(release.contains("xargs apt-mark -q unhold </var/lib/gpusetup-held"), "{release}");
        let [hold, release] = scripts(PackageManager::Dnf);
        assert!(hold.starts_with("dnf -y -q '--disablerepo=*' versionlock add nvidia-imex\n"), "{hold}");
        assert!(release.contains("xargs dnf -y -q '--disablerepo=*' versionlock delete <"), "{release}");
        assert!(scripts(PackageManager::Zypper)[0].starts_with("zypper --non-interactive addlock nvidia-imex\n"));
        assert_eq!(scripts(PackageManager::Tdnf), [String::new(), String::new()], "it cannot");
    }

    #[test]
    fn nothing_is_left_to_release_where_nothing_is_noted() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let on = System::at(dir.path());
        let release = Hold::release(PackageManager::Apt);
        assert_eq!(release.stands(&on).expect("seen"), Standing::Satisfied);
        on.make_directories("/var/lib", 0o755).expect("made");
        on.write(HELD, b"nvidia-imex\n", 0o644).expect("written");
        assert_eq!(release.stands(&on).expect("seen"), Standing::Needed);
        let undo = release.intend(&on).expect("known");
        let packages = vec!["nvidia-imex".to_owned()];
        assert_eq!(undo, [Undo::Hold { manager: PackageManager::Apt, packages, held: true }]);
    }
}
