//! `packages`: one transaction of the package manager, simulated before it is carried out. How each manager is spoken to
//! stands in one table.

use super::Standing;
use super::program::{ProgramError, judge};
use super::undo::Undo;
use crate::compat::PackageManager;
use crate::system::{Program, Progress, System};
use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// Half an hour: a driver's packages build its kernel modules while they are installed.
const LIMIT: Duration = Duration::from_secs(1800);

/// Why a transaction is not carried out.
#[derive(Debug, thiserror::Error)]
pub enum PackagesError {
    /// It would remove what nobody asked to be removed.
    #[error("installing {} would remove {}", wanted.join(", "), removed.join(", "))]
    WouldRemove {
        /// What was to be installed.
        wanted: Vec<String>,
        /// What would go.
        removed: Vec<String>,
    },
    /// The package manager failed.
    #[error(transparent)]
    Program(#[from] ProgramError),
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

fn install_argv(manager: PackageManager, names: &[String], simulate: bool) -> Vec<String> {
    let mut argv = match (manager, simulate) {
        (PackageManager::Apt, true) => words("apt-get -s -q --no-install-recommends install"),
        (PackageManager::Apt, false) => words(
            "apt-get -y -q --no-install-recommends -o Dpkg::Options::=--force-confdef -o Dpkg::Options::=--force-confold \
             -o DPkg::Lock::Timeout=900 install",
        ),
        (PackageManager::Dnf, true) => words("dnf -y -q --setopt=tsflags=test install"),
        (PackageManager::Dnf, false) => words("dnf -y -q install"),
        (PackageManager::Zypper, true) => words("zypper --non-interactive install --dry-run --no-recommends"),
        (PackageManager::Zypper, false) => words("zypper --non-interactive install --no-recommends"),
    };
    argv.extend(names.iter().cloned());
    argv
}

fn remove_argv(manager: PackageManager, names: &[String]) -> Vec<String> {
    let mut argv = match manager {
        PackageManager::Apt => words("apt-get -y -q -o DPkg::Lock::Timeout=900 purge"),
        PackageManager::Dnf => words("dnf -y -q remove"),
        PackageManager::Zypper => words("zypper --non-interactive remove"),
    };
    argv.extend(names.iter().cloned());
    argv
}

fn program(argv: Vec<String>) -> Program {
    // A package manager that is ended halfway leaves packages half configured.
    Program::new(argv).limit(LIMIT).undisturbed()
}

/// The names of all packages installed.
pub fn installed(on: &System, manager: PackageManager) -> io::Result<BTreeSet<String>> {
    let argv: &[&str] = match manager {
        PackageManager::Apt => &["dpkg-query", "-W", "-f", "${db:Status-Status} ${Package}\\n"],
        PackageManager::Dnf | PackageManager::Zypper => &["rpm", "-qa", "--qf", "installed %{NAME}\\n"],
    };
    let output = on.run(&Program::new(argv.iter().copied()))?;
    Ok(output.text.lines().filter_map(|l| l.strip_prefix("installed ")).map(str::to_owned).collect())
}

/// Whether they are all there, and those to go are not.
pub fn stand(on: &System, manager: PackageManager, install: &[String], remove: &[String]) -> io::Result<Standing> {
    let now = installed(on, manager)?;
    let so = install.iter().all(|p| now.contains(p)) && !remove.iter().any(|p| now.contains(p));
    Ok(if so { Standing::Satisfied } else { Standing::Needed })
}

/// The way back: the packages that are there now; what is there beyond them goes.
pub fn intend(on: &System, manager: PackageManager) -> io::Result<Vec<Undo>> {
    Ok(vec![Undo::Packages { manager, before: installed(on, manager)?.into_iter().collect() }])
}

/// dpkg that was cut off in the middle says so until it is let finish.
fn repair(on: &System, manager: PackageManager) -> io::Result<()> {
    let cut_off = || on.list("/var/lib/dpkg/updates").is_ok_and(|names| !names.is_empty());
    if manager != PackageManager::Apt || !cut_off() && on.run(&Program::new(["dpkg", "--audit"]))?.text.is_empty() {
        return Ok(());
    }
    let argv = words("dpkg --force-confdef --force-confold --configure -a");
    let name = argv.join(" ");
    judge(&name, &on.run(&program(argv))?, None).map_err(io::Error::other)
}

/// Carries the transaction out, after a look at what it would remove.
pub fn perform(
    on: &System,
    manager: PackageManager,
    install: &[String],
    remove: &[String],
    stream: Option<&str>,
    log: Option<PathBuf>,
    progress: Progress,
) -> Result<(), PackagesError> {
    let mut run = |argv: Vec<String>| -> Result<String, ProgramError> {
        let name = argv.join(" ");
        let mut asked = program(argv);
        if let Some(log) = &log {
            asked = asked.log(log.clone());
        }
        let start = |source| ProgramError::Start { program: name.clone(), source };
        let output = on.run_telling(&asked, progress).map_err(start)?;
        judge(&name, &output, None).map(|()| output.text)
    };
    repair(on, manager).map_err(|source| ProgramError::Start { program: "dpkg --configure -a".to_owned(), source })?;
    if manager == PackageManager::Apt && run(install_argv(manager, install, true)).is_err() {
        // A fresh image has no lists at all, and old ones name packages that are gone.
        run(words("apt-get -q -o DPkg::Lock::Timeout=900 update"))?;
    }
    if let Some(stream) = stream {
        run(words("dnf -y -q module enable").into_iter().chain([stream.to_owned()]).collect())?;
    }
    if !remove.is_empty() {
        run(remove_argv(manager, remove))?;
    }
    if install.is_empty() {
        return Ok(());
    }
    let simulated = run(install_argv(manager, install, true))?;
    let removed = would_remove(&simulated);
    if !removed.is_empty() {
        return Err(PackagesError::WouldRemove { wanted: install.to_vec(), removed });
    }
    run(install_argv(manager, install, false)).map(|_| ()).map_err(PackagesError::from)
}

/// The packages that apt's simulation would remove: `Remv NAME [VERSION]`.
fn would_remove(simulation: &str) -> Vec<String> {
    let name = |line: &str| line.strip_prefix("Remv ")?.split_whitespace().next().map(str::to_owned);
    simulation.lines().filter_map(name).collect()
}

/// Takes what was added since away again.
pub fn take_back(on: &System, manager: PackageManager, before: &[String]) -> io::Result<()> {
    repair(on, manager)?;
    let before: BTreeSet<_> = before.iter().cloned().collect();
    let added: Vec<_> = installed(on, manager)?.difference(&before).cloned().collect();
    if added.is_empty() {
        return Ok(());
    }
    let argv = remove_argv(manager, &added);
    let name = argv.join(" ");
    let output = on.run(&program(argv))?;
    judge(&name, &output, None).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_simulation_tells_what_would_go() {
        let text = "Inst a [1] (2 Debian:12 [amd64])\nRemv nvidia-driver-535 [535.1-0]\nConf a (2 Debian:12 [amd64])\n";
        assert_eq!(would_remove(text), ["nvidia-driver-535"]);
        assert!(would_remove("Inst Remv (1)\n").is_empty());
    }

    #[test]
    fn no_manager_asks_anything() {
        let names = ["dkms".to_owned()];
        for manager in [PackageManager::Apt, PackageManager::Dnf, PackageManager::Zypper] {
            for argv in [install_argv(manager, &names, false), remove_argv(manager, &names)] {
                assert!(argv.iter().any(|a| a == "-y" || a == "--non-interactive"), "{argv:?}");
                assert_eq!(argv.last().map(String::as_str), Some("dkms"));
            }
        }
    }
}
