//! `hold`: packages stay at their version until they are released: no update by hand or by a timer
//! moves one of them without the others. gpusetup keeps a list of what it holds, so that an
//! administrator's own holds are left alone.

use super::packages::installed;
use super::program::{ProgramError, judge};
use super::undo::Undo;
use super::valid::Valid;
use super::{Action, Completion, Counts, Notify, OperationError, Standing, Work, valid};
use gpusetup_database::compat::PackageManager;
use gpusetup_database::version::DriverVersion;
use gpusetup_packages::{Holds, Versions, held_by_gpusetup, of, pattern_matches, upstream, words};
use gpusetup_system::{Program, System};
use gpusetup_text::paths::HELD;
use gpusetup_text::text::quoted;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

/// Holds packages at their version, or releases them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
#[serde(deny_unknown_fields)]
pub struct Hold {
    /// The package manager.
    pub manager: PackageManager,
    /// The packages: names, or patterns such as `linux-image-*`. A release of none and of no driver
    /// is of all that gpusetup holds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub packages: Vec<String>,
    /// The driver. Every installed package of its version is meant with the others: its libraries
    /// and modules.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver: Option<DriverVersion>,
    /// Whether they are held or released.
    pub held: bool,
}

impl Hold {
    /// Holds these packages and all of a driver.
    pub fn new(manager: PackageManager, packages: Vec<String>, driver: DriverVersion) -> Self {
        Self {
            manager,
            packages,
            driver: Some(driver),
            held: true,
        }
    }

    /// Releases what gpusetup holds.
    pub fn release(manager: PackageManager) -> Self {
        Self {
            manager,
            packages: Vec::new(),
            driver: None,
            held: false,
        }
    }

    /// Whether it releases all that gpusetup holds.
    fn is_of_all(&self) -> bool {
        !self.held && self.packages.is_empty() && self.driver.is_none()
    }

    /// The packages that are yet to be held or released. Holds count, by whomever they are.
    fn changes(&self, on: &System) -> io::Result<BTreeSet<String>> {
        if self.is_of_all() {
            return held_by_gpusetup(on);
        }
        let Some(holds) = &of(self.manager).holds else {
            return Ok(BTreeSet::new());
        };
        let held = (holds.held)(on)?;
        let meant = self.meant(&installed(on, self.manager)?);
        Ok(meant
            .into_iter()
            .filter(|name| held.contains(name) != self.held)
            .collect())
    }

    /// The installed packages that it is about.
    fn meant(&self, here: &Versions) -> BTreeSet<String> {
        // The repositories may have had a newer driver than the plan knew. A pattern is not one of
        // its packages.
        let drivers: BTreeSet<_> = self
            .packages
            .iter()
            .filter_map(|name| driver_version(here.get(name)?))
            .chain(self.driver)
            .collect();
        let meant = here.iter().filter(|(name, version)| {
            self.packages
                .iter()
                .any(|p| pattern_matches(p.as_bytes(), name.as_bytes()))
                || driver_version(version).is_some_and(|version| drivers.contains(&version))
        });
        meant.map(|(name, _)| name.clone()).collect()
    }
}

impl Action for Hold {
    fn completion(&self) -> Completion {
        Completion::Sync
    }

    fn stands(&self, on: &System, _: bool) -> io::Result<Standing> {
        Ok(Standing::satisfied_if(self.changes(on)?.is_empty()))
    }

    fn intend(&self, on: &System, _: &mut Work) -> Result<Vec<Undo>, OperationError> {
        let packages = self.changes(on)?.into_iter().collect();
        Ok(vec![Undo::Hold {
            manager: self.manager,
            packages,
            held: !self.held,
        }])
    }

    fn perform(&self, on: &System, _: &mut Work, _: Notify) -> Result<(), OperationError> {
        let changes = self.changes(on).map_err(ProgramError::ask)?;
        Ok(set(on, self.manager, &changes, self.held)?)
    }

    fn describe(&self) -> String {
        let driver = self
            .driver
            .map(|driver| format!("the packages of driver {driver}"));
        let patterns = self.packages.iter().any(|name| name.contains('*'));
        let kernel = patterns.then(|| "of the kernel".to_owned());
        let what = match (driver, kernel) {
            (Some(driver), Some(kernel)) => format!("{driver} and {kernel}"),
            (Some(driver), None) => driver,
            (None, Some(kernel)) => format!("the packages {kernel}"),
            (None, None) => self.packages.join(", "),
        };
        match self.held {
            true => format!("hold {what} at their version"),
            false if self.is_of_all() => "release the packages that gpusetup holds".to_owned(),
            false => format!("let {what} be updated with the system"),
        }
    }

    fn shell(&self) -> String {
        let Some(holds) = &of(self.manager).holds else {
            return String::new();
        };
        let (hold, release) = (in_shell(holds.hold), in_shell(holds.release));
        if self.is_of_all() {
            // One that was removed since cannot be released.
            let here = format!("{} | cut -d ' ' -f 1 | LC_ALL=C sort -u", holds.list);
            let ours = format!("{here} | LC_ALL=C comm -12 - {HELD}");
            return format!("test ! -s {HELD} || {{ {ours} | xargs -r {release}; rm {HELD}; }}\n");
        }
        let lines: Vec<_> = self
            .driver
            .map(|driver| {
                let version = driver.to_string().replace('.', "[.]");
                format!("[^ ]+ ([0-9]+:)?{version}([^0-9.].*)?")
            })
            .into_iter()
            .chain(self.packages.iter().map(|name| {
                format!(
                    "{} .*",
                    name.replace('.', "[.]")
                        .replace('+', "[+]")
                        .replace('*', "[^ ]*")
                )
            }))
            .collect();
        let list = format!(
            "held=$({} | grep -E {} | cut -d ' ' -f 1 | LC_ALL=C sort -u)\n",
            holds.list,
            quoted(&format!("^({})$", lines.join("|")))
        );
        let (command, noted) = match self.held {
            true => (
                hold,
                format!("printf '%s\\n' $held | grep . | LC_ALL=C sort -u -o {HELD} - {HELD}\n"),
            ),
            false => (
                release,
                format!(
                    "printf '%s\\n' $held | LC_ALL=C comm -13 - {HELD} >{HELD}.new\nmv {HELD}.new {HELD}\n"
                ),
            ),
        };
        format!("{list}touch {HELD}\nprintf '%s\\n' $held | xargs -r {command}\n{noted}")
    }

    fn counts(&self) -> Counts {
        Counts {
            change: 1,
            ..Counts::default()
        }
    }

    fn touched(&self) -> Vec<PathBuf> {
        vec![HELD.into()]
    }

    fn locks(&self) -> Option<PackageManager> {
        Some(self.manager)
    }

    fn valid(&self, _: &Path) -> Valid {
        let Self {
            manager: _,
            packages,
            driver: _,
            held: _,
        } = self;
        packages
            .iter()
            .try_for_each(|name| valid::packages_named(name))
    }
}

/// A command whose words a shell takes as they are.
fn in_shell(command: &str) -> String {
    words(command)
        .iter()
        .map(|word| quoted(word))
        .collect::<Vec<_>>()
        .join(" ")
}

fn note(on: &System, names: &BTreeSet<String>) -> io::Result<()> {
    if names.is_empty() {
        return on.remove(HELD);
    }
    let text: String = names.iter().map(|name| format!("{name}\n")).collect();
    on.write(HELD, text.as_bytes(), 0o644)
}

/// Holds or releases packages, and notes it. What is noted and not held does no harm: releasing it
/// again changes nothing.
pub(crate) fn set(
    on: &System,
    manager: PackageManager,
    packages: &BTreeSet<String>,
    held: bool,
) -> Result<(), ProgramError> {
    let Some(Holds {
        hold,
        release,
        held: known,
        ..
    }) = &of(manager).holds
    else {
        return Ok(());
    };
    let command = if held { hold } else { release };
    let before = held_by_gpusetup(on).map_err(ProgramError::start(command))?;
    if held {
        note(on, &before.union(packages).cloned().collect())
            .map_err(ProgramError::start(command))?;
    }
    // One that was purged since, or released by hand, cannot be released.
    let mut names = packages.clone();
    if !held {
        names = names
            .intersection(&known(on).map_err(ProgramError::start(command))?)
            .cloned()
            .collect();
    }
    if !names.is_empty() {
        let argv = words(command).into_iter().chain(names);
        judge(
            command,
            &on.run(&Program::new(argv).undisturbed())
                .map_err(ProgramError::start(command))?,
            None,
        )?;
    }
    if !held {
        note(on, &before.difference(packages).cloned().collect())
            .map_err(ProgramError::start(command))?;
    }
    Ok(())
}

fn driver_version(package_version: &str) -> Option<DriverVersion> {
    upstream(package_version).parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::work;
    use std::process::Command;

    fn names(all: &[&str]) -> Vec<String> {
        all.iter().map(|name| (*name).to_owned()).collect()
    }

    fn driver() -> DriverVersion {
        "580.95.05".parse().expect("a version")
    }

    #[test]
    fn a_script_holds_and_releases_as_each_manager_does() {
        let scripts = |manager| {
            [
                Hold::new(manager, names(&["nvidia-imex"]), driver()).shell(),
                Hold::release(manager).shell(),
            ]
        };
        let [hold, release] = scripts(PackageManager::Apt);
        assert!(hold.contains("xargs -r apt-mark -q hold\n"), "{hold}");
        assert!(
            release.contains("xargs -r apt-mark -q unhold; rm /var/lib/gpusetup-held"),
            "{release}"
        );
        let [hold, release] = scripts(PackageManager::Dnf);
        assert!(
            hold.contains("xargs -r dnf -y -q '--disablerepo=*' versionlock add\n"),
            "{hold}"
        );
        assert!(
            release.contains("xargs -r dnf -y -q '--disablerepo=*' versionlock delete;"),
            "{release}"
        );
        assert!(
            scripts(PackageManager::Zypper)[0]
                .contains("xargs -r zypper --non-interactive addlock\n")
        );
        assert_eq!(
            scripts(PackageManager::Tdnf),
            [String::new(), String::new()],
            "it cannot"
        );
    }

    /// Runs a script with other commands in place of dpkg's and apt's, and returns the list of held
    /// packages.
    fn run(script: &str, folder: &std::path::Path) -> String {
        let (list, ran) = (folder.join("held"), folder.join("ran"));
        let packages = "installed linux-image-6.1 6.1.1\ninstalled libnvidia-compute-580 580.95.05-0ubuntu1\n\
                        installed nvidia-imex 2:580.95.05\ninstalled libnvidia-535 535.1\n\
                        config-files libnvidia-gl-580 580.95.05-0ubuntu1\n";
        let text = script
            .replace(
                "dpkg-query -W -f '${db:Status-Status} ${Package} ${Version}\\n'",
                &format!("printf '{packages}'"),
            )
            .replace(
                "apt-mark -q",
                &format!("sh -c 'echo $* >>{}' -- ", ran.display()),
            )
            .replace(HELD, &list.display().to_string());
        let output = Command::new("sh")
            .args(["-euc", &text])
            .output()
            .expect("a shell");
        assert!(output.status.success(), "{text}\n{output:?}");
        std::fs::read_to_string(list)
            .expect("a list")
            .replace('\n', " ")
    }

    #[test]
    fn a_scripts_list_has_each_package_once_and_loses_what_is_released() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let hold = Hold::new(PackageManager::Apt, names(&["linux-image-*"]), driver());
        for _ in 0..2 {
            assert_eq!(
                run(&hold.shell(), dir.path()),
                "libnvidia-compute-580 linux-image-6.1 nvidia-imex "
            );
        }
        let kernels = Hold {
            driver: None,
            held: false,
            ..hold
        };
        assert_eq!(
            run(&kernels.shell(), dir.path()),
            "libnvidia-compute-580 nvidia-imex "
        );
        let none = Hold {
            packages: names(&["absent"]),
            held: false,
            ..kernels
        };
        assert_eq!(
            run(&none.shell(), dir.path()),
            "libnvidia-compute-580 nvidia-imex "
        );
        std::fs::write(dir.path().join("held"), "gone\nnvidia-imex\n").expect("written");
        let release = Hold::release(PackageManager::Apt).shell();
        assert_eq!(run(&format!("{release}touch {HELD}"), dir.path()), "");
        let ran = std::fs::read_to_string(dir.path().join("ran")).expect("commands");
        let all = "hold libnvidia-compute-580 linux-image-6.1 nvidia-imex";
        assert_eq!(
            ran.lines().collect::<Vec<_>>(),
            [all, all, "unhold linux-image-6.1", "unhold nvidia-imex"]
        );
    }

    #[test]
    fn packages_are_meant_by_name_by_pattern_and_by_the_drivers_version() {
        let here: Versions = [
            ("linux-image-6.1.0-30", "580.95.05-1"),
            ("libnvidia-gl", "580.95.05-0ubuntu1"),
            ("nvidia-open", "1:590.44.01-1"),
            ("nvidia-fabricmanager", "590.44.01-1"),
            ("nvidia-container-toolkit", "1.17.4-1"),
        ]
        .map(|(name, version)| (name.to_owned(), version.to_owned()))
        .into();
        let meant = |packages: &[&str], driver| {
            let hold = Hold {
                packages: names(packages),
                driver,
                ..Hold::release(PackageManager::Apt)
            };
            hold.meant(&here).into_iter().collect::<Vec<_>>()
        };
        assert_eq!(
            meant(&["linux-image-*"], None),
            ["linux-image-6.1.0-30"],
            "its version is not a driver's"
        );
        assert_eq!(
            meant(&[], Some(driver())),
            ["libnvidia-gl", "linux-image-6.1.0-30"]
        );
        assert_eq!(
            meant(&["nvidia-open"], None),
            ["nvidia-fabricmanager", "nvidia-open"],
            "the driver that came"
        );
    }

    #[test]
    fn nothing_is_left_to_release_where_nothing_is_noted() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let on = System::at(dir.path());
        let release = Hold::release(PackageManager::Apt);
        assert_eq!(
            release.stands(&on, false).expect("seen"),
            Standing::Satisfied
        );
        on.make_directories("/var/lib", 0o755).expect("made");
        on.write(HELD, b"nvidia-imex\n", 0o644).expect("written");
        assert_eq!(release.stands(&on, false).expect("seen"), Standing::Needed);
        let undo = release.intend(&on, &mut work()).expect("known");
        let packages = names(&["nvidia-imex"]);
        assert_eq!(
            undo,
            [Undo::Hold {
                manager: PackageManager::Apt,
                packages,
                held: true
            }]
        );
    }
}
