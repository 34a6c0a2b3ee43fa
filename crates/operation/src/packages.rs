//! `packages`: one transaction of the package manager, simulated before it is carried out. How each
//! manager is spoken to stands in one table.

pub(crate) mod pins;

use super::program::{ProgramError, judge};
use super::undo::{Transaction, Undo, Versions};
use super::valid::Valid;
use super::{
    Action, Completion, Counts, Notice, Notify, Operation, OperationError, Run, Standing, Work,
    valid,
};
use gpusetup_database::compat::PackageManager;
use gpusetup_database::version::DriverVersion;
use gpusetup_packages::messages::{LACKING, NOT_THERE, UNREACHABLE, says};
use gpusetup_packages::package_source::PackageSource;
use gpusetup_packages::{
    Interruption, Simulated, behind_program, held_by_gpusetup, is_asked_for, locks, of,
    pattern_matches, upstream, words,
};
use gpusetup_system::limits::MAX_RECORD;
use gpusetup_system::{Log, Node, Output, Program, Progress, System, hooks};
use gpusetup_text::ids::CheckId;
use gpusetup_text::text::quoted;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Half an hour: a driver's packages build its kernel modules while they are installed.
const LIMIT: Duration = Duration::from_secs(1800);

/// That, or what a build for tests is told (`GPUSETUP_PACKAGES_LIMIT`).
fn limit() -> Duration {
    hooks::seconds("GPUSETUP_PACKAGES_LIMIT").unwrap_or(LIMIT)
}

/// As long as apt waits for its locks here (`DPkg::Lock::Timeout`).
const LOCKED: Duration = Duration::from_secs(900);

/// Installs and removes packages in one transaction.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
#[serde(deny_unknown_fields)]
pub struct Packages {
    /// The package manager.
    pub manager: PackageManager,
    /// Packages to install.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub install: Vec<String>,
    /// Packages to remove.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remove: Vec<String>,
    /// Patterns of the names of a driver's packages that the new ones do not replace, `*-G06*`.
    /// Those that are installed go first, with every package of their version.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remove_like: Vec<String>,
    /// A module stream to enable first (dnf).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream: Option<String>,
    /// Planned versions, such as those of a lock file, by name: none of these packages is installed
    /// in another.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub versions: BTreeMap<String, String>,
    /// The driver that the plan is for, by the packages that carry its version. A manager whose
    /// simulation can be read installs them in no other.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub drivers: BTreeMap<String, DriverVersion>,
    /// The branch of the driver that replaces another one, by the packages that carry its version:
    /// packages of another branch are not those that are to come, although they have the same
    /// names.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub branches: BTreeMap<String, u16>,
    /// Packages that work together only in one version: the driver and its companions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub alike: Vec<String>,
}

impl Packages {
    fn nothing(manager: PackageManager) -> Self {
        let (install, remove, stream, alike) = (Vec::new(), Vec::new(), None, Vec::new());
        let (versions, drivers, branches, remove_like) = (
            BTreeMap::new(),
            BTreeMap::new(),
            BTreeMap::new(),
            Vec::new(),
        );
        Self {
            manager,
            install,
            remove,
            remove_like,
            stream,
            versions,
            drivers,
            branches,
            alike,
        }
    }

    /// These are to come.
    pub fn to_install(manager: PackageManager, names: Vec<String>) -> Self {
        Self {
            install: names,
            ..Self::nothing(manager)
        }
    }

    /// What is to come, with the versions of a lock file as the manager takes them on its command
    /// line.
    pub fn with_versions(&self) -> Vec<String> {
        let manager = of(self.manager);
        self.install
            .iter()
            .map(|name| match self.versions.get(name) {
                Some(version) => manager.exactly(name, version),
                None => name.clone(),
            })
            .collect()
    }

    /// These are to go.
    pub fn to_remove(manager: PackageManager, names: Vec<String>) -> Self {
        Self {
            remove: names,
            ..Self::nothing(manager)
        }
    }

    /// The commands that do it, in order, if nothing goes wrong.
    pub fn argv(&self) -> Vec<Vec<String>> {
        let mut all = Vec::new();
        if let (Some(stream), Some(enable)) = (&self.stream, of(self.manager).enable_stream) {
            all.push(words(enable).into_iter().chain([stream.clone()]).collect());
        }
        if !self.remove.is_empty() {
            all.push(remove_argv(self.manager, &self.remove, false));
        }
        if !self.install.is_empty() {
            all.extend(refresh_argv(self.manager));
            all.push(install_argv(self, false));
        }
        all
    }

    /// The lines of a script that remove what matches the patterns and what has the same version,
    /// if anything is installed that does.
    fn removal_by_pattern(&self) -> Option<String> {
        let manager = of(self.manager);
        let list = manager
            .holds
            .as_ref()
            .filter(|_| !self.remove_like.is_empty())?
            .list;
        let (patterns, remove) = (self.remove_like.join("|"), manager.remove);
        Some(format!(
            "{list} | while read -r name version; do case $name in {patterns}) echo \"$version\" ;; esac; done | sort -u |\n\
             while read -r old; do {list} | while read -r name version; do [ \"$version\" != \"$old\" ] || echo \"$name\"; done; done |\n\
             sort -u | xargs -r {remove}\n"
        ))
    }

    fn removes_like(&self, name: &str) -> bool {
        self.remove_like
            .iter()
            .any(|pattern| pattern_matches(pattern.as_bytes(), name.as_bytes()))
    }

    /// The packages to remove, of these that are installed.
    fn to_go(&self, now: &BTreeMap<String, String>) -> Vec<String> {
        let drivers: BTreeSet<_> = now
            .iter()
            .filter(|(name, _)| self.removes_like(name))
            .map(|(_, has)| upstream(has))
            .collect();
        let others = now
            .iter()
            .filter(|(name, has)| {
                self.removes_like(name)
                    || (upstream(has).parse::<DriverVersion>().is_ok()
                        && drivers.contains(upstream(has)))
            })
            .map(|(name, _)| name);
        self.remove
            .iter()
            .chain(others.filter(|name| !self.remove.contains(name)))
            .cloned()
            .collect()
    }
}

impl Action for Packages {
    fn stands(&self, on: &System, _: bool) -> io::Result<Standing> {
        stand(on, self)
    }

    fn intend(&self, on: &System, work: &mut Work) -> Result<Vec<Undo>, OperationError> {
        let mut undo = vec![Undo::Packages(intend(on, self)?)];
        // It is put back first: the packages of the other stream are hidden.
        if let Some(state) = stream_state(self) {
            undo.push(work.backups.save(on, &state, None)?);
        }
        Ok(undo)
    }

    fn perform(&self, on: &System, work: &mut Work, notify: Notify) -> Result<(), OperationError> {
        let log = work.log.clone();
        let progress = &mut |since| notify(Notice::Working(since, None));
        Ok(perform(on, self, &work.package_source, log, progress)?)
    }

    fn completion(&self) -> Completion {
        Completion::Observe
    }

    fn describe(&self) -> String {
        let drivers = self
            .remove_like
            .iter()
            .map(|pattern| format!("the driver of {pattern}"));
        let remove = self
            .remove
            .iter()
            .cloned()
            .chain(drivers)
            .collect::<Vec<_>>()
            .join(", ");
        match (self.install.is_empty(), remove.is_empty()) {
            (_, true) => format!("install {}", self.install.join(", ")),
            (true, false) => format!("remove {remove}"),
            (false, false) => format!("install {}; remove {remove}", self.install.join(", ")),
        }
    }

    fn shell(&self) -> String {
        // Locked versions are in preferences that only gpusetup writes: a script names them
        // instead.
        let named = Self {
            install: self.with_versions(),
            versions: BTreeMap::new(),
            ..self.clone()
        };
        self.removal_by_pattern()
            .into_iter()
            .chain(named.argv().into_iter().map(|argv| {
                let words: Vec<_> = argv.iter().map(|word| quoted(word)).collect();
                words.join(" ") + "\n"
            }))
            .collect()
    }

    fn counts(&self) -> Counts {
        let remove = self.remove.len() + self.remove_like.len();
        Counts {
            add: self.install.len() as u32,
            remove: remove as u32,
            ..Counts::default()
        }
    }

    fn by_hand(&self) -> Option<String> {
        if !self.remove.is_empty() || !self.remove_like.is_empty() {
            return None;
        }
        // Files that were lost are installed again too.
        let names: Vec<_> = self.install.iter().map(|name| quoted(name)).collect();
        Some(format!(
            "sudo {} {}",
            of(self.manager).by_hand.reinstall,
            names.join(" ")
        ))
    }

    fn touched(&self) -> Vec<PathBuf> {
        vec!["/usr".into()]
    }

    fn locks(&self) -> Option<PackageManager> {
        Some(self.manager)
    }

    fn valid(&self, _: &Path) -> Valid {
        let versions = self
            .versions
            .iter()
            .flat_map(|(name, version)| [name, version]);
        let names = self
            .install
            .iter()
            .chain(&self.remove)
            .chain(self.drivers.keys())
            .chain(self.branches.keys())
            .chain(&self.alike);
        names
            .chain(versions)
            .chain(&self.stream)
            .try_for_each(|text| valid::package(text))?;
        self.remove_like
            .iter()
            .try_for_each(|pattern| valid::package(&pattern.replace('*', "x")))?;
        // Its name is that of a file, too.
        match self.stream.as_ref().filter(|stream| stream.contains('/')) {
            Some(stream) => Err(format!(
                "{:?} is not the name of a module stream",
                valid::short(stream)
            )),
            None => Ok(()),
        }
    }
}

/// Why a transaction is not carried out.
#[derive(Debug, thiserror::Error)]
pub enum PackagesError {
    /// It would remove what nobody asked to be removed.
    #[error("{wanted} would also remove {} ({others})", removed.join(", "), others = CheckId::GS402)]
    WouldRemove {
        /// What was to be done: `installing nvidia-driver`.
        wanted: String,
        /// What would go.
        removed: Vec<String>,
    },
    /// It would change what an administrator holds as it is.
    #[error("{wanted} would change {}, which the package manager holds", held.join(", "))]
    Held {
        /// What was to be done.
        wanted: String,
        /// What is held.
        held: Vec<String>,
    },
    /// It would not bring the versions that the plan or its lock file names.
    #[error("not in the planned versions: {}", strangers.join(", "))]
    Strangers {
        /// Each package with its version in the lock file, and the other one.
        strangers: Vec<String>,
    },
    /// The repositories have another driver than the plan is for.
    #[error(
        "the plan is for driver {planned}, and the repositories would install {offered} ({package}): the driver was not \
         installed; make the plan again with `gpusetup plan`"
    )]
    OtherDriver {
        /// The plan's.
        planned: DriverVersion,
        /// The repositories'.
        offered: DriverVersion,
        /// The package that shows it.
        package: String,
    },
    /// The repositories have a driver and a companion of different versions.
    #[error(
        "{} and {} are of different versions and do not work together ({check}): the repositories are being updated, or a mirror is \
         behind; try again later",
        packages[0], packages[1], check = CheckId::GS801
    )]
    Unequal {
        /// Two packages with their versions.
        packages: [String; 2],
    },
    /// Packages cannot be fetched.
    #[error("the package manager cannot fetch what it needs; the last it said:\n{last}")]
    Network {
        /// Nobody can be reached; else the mirror does not have what its lists name.
        unreachable: bool,
        /// Its last lines.
        last: String,
    },
    /// A bundle's packages do not install on this host.
    #[error("the bundle's packages do not install on this host ({offline}); the last the package manager said:\n{0}", offline = CheckId::GS601)]
    Lacking(String),
    /// The package manager ended well, and the packages are not as they were to be.
    #[error("the package manager ended well, but {0}")]
    Unchanged(String),
    /// The package manager failed.
    #[error(transparent)]
    Program(#[from] ProgramError),
}

/// The operation that lets a manager finish what it was cut off from; none for those that leave
/// nothing behind.
pub fn finish(manager: PackageManager) -> Option<Operation> {
    let interruption = of(manager).interruption.as_ref()?;
    Some(
        Run::new(words(interruption.finish), LIMIT.as_secs())
            .locking(manager)
            .into(),
    )
}

/// The command that installs, or the one that only says what it would do.
fn install_argv(wanted: &Packages, simulate: bool) -> Vec<String> {
    let manager = of(wanted.manager);
    let mut argv = words(if simulate {
        manager.simulate_install
    } else {
        manager.install
    });
    // Where preferences have the versions, what cannot be had in them is named, and not only
    // refused.
    argv.extend(if manager.preferences.is_some() {
        wanted.install.clone()
    } else {
        wanted.with_versions()
    });
    behind_program(argv, pins::options(wanted))
}

fn remove_argv(manager: PackageManager, names: &[String], simulate: bool) -> Vec<String> {
    let manager = of(manager);
    let mut argv = words(if simulate {
        manager.simulate_remove
    } else {
        manager.remove
    });
    argv.extend(names.iter().cloned());
    argv
}

/// The command that fetches the lists of packages, if the manager needs one.
fn refresh_argv(manager: PackageManager) -> Option<Vec<String>> {
    of(manager).refresh.map(words)
}

fn program(argv: Vec<String>) -> Program {
    // A package manager that is ended halfway leaves packages half configured.
    Program::new(argv).limit(limit()).undisturbed().networked()
}

/// A package that the manager's database names.
struct ListedPackage {
    state: String,
    name: String,
    version: String,
}

impl ListedPackage {
    fn is(&self, asked: &str) -> bool {
        is_asked_for(asked, &self.name, &self.version)
    }
}

/// All of them. A list that was cut short would make the rest look new, and a rollback would remove
/// it: no list is better.
fn known(on: &System, manager: PackageManager) -> io::Result<Vec<ListedPackage>> {
    let argv = of(manager).list;
    let output = on.run(&Program::new(argv.iter().copied()).undisturbed())?;
    judge(argv[0], &output, None).map_err(io::Error::other)?;
    Ok(output
        .text
        .lines()
        .filter_map(|line| {
            let mut words = line.splitn(3, ' ').map(str::to_owned);
            Some(ListedPackage {
                state: words.next()?,
                name: words.next()?,
                version: words.next()?,
            })
        })
        .collect())
}

/// Those that are installed. A kernel's packages can be there in several versions.
fn known_installed(on: &System, manager: PackageManager) -> io::Result<Vec<ListedPackage>> {
    let mut known = known(on, manager)?;
    known.retain(|package| package.state == "installed");
    Ok(known)
}

fn versions(known: &[ListedPackage]) -> BTreeMap<String, String> {
    known
        .iter()
        .map(|package| (package.name.clone(), package.version.clone()))
        .collect()
}

/// All packages installed, with their versions.
pub fn installed(on: &System, manager: PackageManager) -> io::Result<BTreeMap<String, String>> {
    Ok(versions(&known_installed(on, manager)?))
}

/// The names of all packages of which more is there than their configuration: those that failed
/// halfway too.
fn present(on: &System, manager: PackageManager) -> io::Result<BTreeSet<String>> {
    let known = known(on, manager)?.into_iter();
    Ok(known
        .filter(|k| k.state != "not-installed" && k.state != "config-files")
        .map(|k| k.name)
        .collect())
}

/// Whether they are all there, and those to go are not.
pub fn stand(on: &System, wanted: &Packages) -> io::Result<Standing> {
    let now = known_installed(on, wanted.manager)?;
    let here = versions(&now);
    let strange = !pins::strangers(&wanted.versions, &BTreeMap::new(), &here).is_empty();
    let other = of_the_plan(wanted, &here).is_err() || are_alike(wanted, &here).is_err();
    let gone = wanted.to_go(&here);
    let so = wanted.install.iter().all(|name| is_among(&now, name))
        && !gone.iter().any(|name| is_among(&now, name));
    let so = so && !strange && !other && are_of_branch(wanted, &here);
    Ok(if so {
        Standing::Satisfied
    } else {
        Standing::Needed
    })
}

/// The undo as it is known before: whatever is there beyond the packages of now goes.
pub(crate) fn intend(on: &System, wanted: &Packages) -> io::Result<Transaction> {
    let manager = wanted.manager;
    let now = installed(on, manager)?;
    let to_go = wanted.to_go(&now);
    let removed = to_go
        .iter()
        .filter_map(|name| Some((name.clone(), now.get(name)?.clone())))
        .collect();
    let mut automatic = automatic(on, manager)?;
    automatic.retain(|name| {
        now.contains_key(name) && wanted.install.iter().chain(&to_go).any(|n| n == name)
    });
    let before = present(on, manager)?.into_iter().collect();
    let unowned = if now.contains_key(DKMS) {
        Vec::new()
    } else {
        absent(on, &SIGNING_KEY)?
    };
    let driver = driver_of(wanted, &to_go, &now);
    let automatic = automatic.into_iter().collect();
    Ok(Transaction {
        manager,
        before,
        added: None,
        automatic,
        unowned,
        removed,
        driver,
    })
}

/// The packages of the driver that a transaction may replace: all that have its version.
fn driver_of(
    wanted: &Packages,
    to_go: &[String],
    now: &BTreeMap<String, String>,
) -> BTreeMap<String, Versions> {
    let named = wanted
        .drivers
        .keys()
        .chain(wanted.branches.keys())
        .chain(&wanted.alike)
        .chain(to_go)
        .filter_map(|name| now.get(name));
    let drivers: BTreeSet<&str> = named
        .filter(|version| upstream(version).parse::<DriverVersion>().is_ok())
        .map(|version| upstream(version))
        .collect();
    let of_driver = now
        .iter()
        .filter(|(_, version)| drivers.contains(upstream(version)));
    of_driver
        .map(|(name, version)| {
            (
                name.clone(),
                Versions {
                    before: version.clone(),
                    after: None,
                },
            )
        })
        .collect()
}

/// Those that have another version now.
fn changed(
    on: &System,
    manager: PackageManager,
    driver: BTreeMap<String, Versions>,
) -> io::Result<BTreeMap<String, Versions>> {
    if driver.is_empty() {
        return Ok(driver);
    }
    let now = installed(on, manager)?;
    let changed = driver.into_iter().filter_map(|(name, versions)| {
        let after = now.get(&name).cloned();
        let after = after.filter(|after| *after != versions.before)?;
        Some((
            name,
            Versions {
                after: Some(after),
                ..versions
            },
        ))
    });
    Ok(changed.collect())
}

/// Gives the driver's packages the version that they had, all or none; names those that no
/// repository has in that version. Packages that somebody changed since stay.
fn restore_driver(on: &System, done: &Transaction) -> io::Result<Vec<String>> {
    let ours = driver_before(on, done)?;
    if ours.is_empty() {
        return Ok(Vec::new());
    }
    let manager = of(done.manager);
    let exactly = ours
        .iter()
        .map(|(name, version)| manager.exactly(name, version));
    let argv = words(manager.downgrade).into_iter().chain(exactly);
    if on.run(&program(argv.collect()))?.succeeded() {
        return Ok(Vec::new());
    }
    Ok(ours
        .iter()
        .map(|(name, version)| format!("the package {name} {version}"))
        .collect())
}

/// The driver's packages that have another version now, each with the one that it had. Those that
/// somebody changed since are left out.
fn driver_before(on: &System, done: &Transaction) -> io::Result<BTreeMap<String, String>> {
    let now = changed(on, done.manager, done.driver.clone())?;
    Ok(now
        .into_iter()
        .filter(|(name, versions)| {
            done.driver[name]
                .after
                .as_ref()
                .is_none_or(|after| Some(after) == versions.after.as_ref())
        })
        .map(|(name, versions)| (name, versions.before))
        .collect())
}

/// Does something while no lock keeps packages of repositories that gpusetup added away: those of
/// another branch of the driver.
fn without_locks<T>(
    on: &System,
    manager: PackageManager,
    work: impl FnOnce() -> T,
) -> io::Result<T> {
    let known = of(manager)
        .added
        .as_ref()
        .and_then(|format| format.locks.as_ref());
    let locks = known.map_or_else(|| Ok(Vec::new()), |known| (known.all)(on))?;
    for lock in &locks {
        run_and_judge(on, &lock.remove)?;
    }
    let done = work();
    for lock in &locks {
        run_and_judge(on, &lock.make)?;
    }
    Ok(done)
}

fn run_and_judge(on: &System, argv: &[String]) -> io::Result<()> {
    judge(&argv.join(" "), &on.run(&program(argv.to_vec()))?, None).map_err(io::Error::other)
}

/// The file in which the manager notes the stream that a transaction enables.
pub(crate) fn stream_state(wanted: &Packages) -> Option<PathBuf> {
    let (module, _) = wanted.stream.as_ref()?.split_once(':')?;
    Some(
        of(wanted.manager)
            .stream_state?
            .replace("{module}", module)
            .into(),
    )
}

/// The package that builds kernel modules, and the key that it makes to sign them with. Removing
/// the package leaves the key.
const DKMS: &str = "dkms";
const SIGNING_KEY: [&str; 2] = ["/var/lib/dkms/mok.key", "/var/lib/dkms/mok.pub"];

fn absent(on: &System, paths: &[&str]) -> io::Result<Vec<PathBuf>> {
    let mut absent = Vec::new();
    for path in paths {
        if on.node(path)? == Node::Absent {
            absent.push(PathBuf::from(path));
        }
    }
    Ok(absent)
}

/// Removes what the packages left behind, unless DKMS is still there: then other modules may be
/// signed with its key.
fn remove_unowned(on: &System, done: &Transaction, now: &BTreeSet<String>) -> io::Result<()> {
    if now.contains(DKMS) {
        return Ok(());
    }
    for path in &done.unowned {
        on.remove(path)?;
        match path.parent().map(|folder| on.remove(folder)) {
            Some(Err(e)) if e.kind() != io::ErrorKind::DirectoryNotEmpty => return Err(e),
            _ => {}
        }
    }
    Ok(())
}

/// The packages that the manager notes as installed automatically.
fn automatic(on: &System, manager: PackageManager) -> io::Result<BTreeSet<String>> {
    let Some(marks) = &of(manager).automatic else {
        return Ok(BTreeSet::new());
    };
    Ok((marks.read)(
        &on.read_text_up_to(marks.file, MAX_RECORD)?
            .unwrap_or_default(),
    ))
}

/// Marks packages as installed automatically again, as far as they are there.
fn mark_automatic(on: &System, done: &Transaction) -> io::Result<()> {
    let Some(marks) = of(done.manager)
        .automatic
        .as_ref()
        .filter(|_| !done.automatic.is_empty())
    else {
        return Ok(());
    };
    let now = installed(on, done.manager)?;
    let names: Vec<_> = done
        .automatic
        .iter()
        .filter(|name| now.contains_key(*name))
        .cloned()
        .collect();
    if names.is_empty() {
        return Ok(());
    }
    let argv: Vec<_> = words(marks.mark).into_iter().chain(names).collect();
    judge(marks.mark, &on.run(&program(argv))?, None).map_err(io::Error::other)
}

/// The undo as it is known afterwards: packages that were added are removed, those that others
/// installed later are kept.
pub(crate) fn learned(on: &System, intended: Transaction) -> io::Result<Transaction> {
    let before: BTreeSet<_> = intended.before.into_iter().collect();
    let now = present(on, intended.manager)?;
    let added = now
        .into_iter()
        .filter(|name| !before.contains(name))
        .collect();
    let driver = changed(on, intended.manager, intended.driver)?;
    Ok(Transaction {
        before: Vec::new(),
        added: Some(added),
        driver,
        ..intended
    })
}

/// What a transaction would do beside what it is for, by the manager's simulation if it can be
/// read. A simulation that fails is no answer: lists may have to be fetched first.
pub fn check(on: &System, wanted: &Packages, source: &PackageSource) -> Result<(), PackagesError> {
    pinned(on, wanted, || judged(on, wanted, source))
}

/// Whether a bundle's packages would install here: its lists are read, and the transaction is
/// simulated. A package manager that was cut off has to finish first, and says nothing yet.
pub fn would_install(
    on: &System,
    wanted: &Packages,
    source: &PackageSource,
) -> Result<(), PackagesError> {
    if wanted.install.is_empty() || source.is_the_hosts() {
        return Ok(());
    }
    let (manager, simulation) = (wanted.manager, install_argv(wanted, true));
    let run = |argv: &[String]| {
        on.run(&program(source.applied_to(manager, argv.to_vec())))
            .map_err(ProgramError::start(&simulation.join(" ")))
    };
    pinned(on, wanted, || {
        if let Some(refresh) = refresh_argv(manager) {
            judge(&refresh.join(" "), &run(&refresh)?, None)?;
        }
        let output = run(&simulation)?;
        if !output.succeeded()
            && says(&output.text, &LACKING)
            && !output.text.contains("fix-broken")
        {
            return Err(PackagesError::Lacking(output.last_lines(4)));
        }
        judged(on, wanted, source)
    })
}

/// Does something of the manager's while it is told of the locked versions.
fn pinned(
    on: &System,
    wanted: &Packages,
    work: impl FnOnce() -> Result<(), PackagesError>,
) -> Result<(), PackagesError> {
    pins::put(on, wanted).map_err(ProgramError::ask)?;
    let done = work();
    // Of no consequence where it stays: it is read by nobody who is not told to.
    let _ = pins::remove(on, wanted);
    done
}

fn judged(on: &System, wanted: &Packages, source: &PackageSource) -> Result<(), PackagesError> {
    let Packages {
        manager,
        install,
        versions,
        ..
    } = wanted;
    let manager = *manager;
    let Some(simulation) = &of(manager).simulation else {
        return Ok(());
    };
    let needs_here =
        !versions.is_empty() || !wanted.alike.is_empty() || !wanted.remove_like.is_empty();
    let here = if needs_here {
        installed(on, manager).map_err(ProgramError::ask)?
    } else {
        BTreeMap::new()
    };
    let remove = &wanted.to_go(&here);
    // The manager refuses by itself to change what is held; this only says so before the first
    // change. A plan releases what gpusetup holds first.
    let mut held = (simulation.held)(on).unwrap_or_default();
    let ours = held_by_gpusetup(on).map_err(ProgramError::ask)?;
    held.retain(|name| !ours.contains(name));
    for (verb, names, argv) in [
        (
            "installing",
            install,
            source.applied_to(manager, install_argv(wanted, true)),
        ),
        ("removing", remove, remove_argv(manager, remove, true)),
    ] {
        if names.is_empty() {
            continue;
        }
        let Ok(output) = on.run(&looking(manager, argv)) else {
            continue;
        };
        if output.succeeded() {
            let simulated = (simulation.read)(&output.text);
            judge_simulation(
                &format!("{verb} {}", names.join(", ")),
                &simulated,
                remove,
                &held,
            )?;
            let strangers = pins::strangers(versions, &simulated.coming, &here);
            if !strangers.is_empty() {
                return Err(PackagesError::Strangers { strangers });
            }
            of_the_plan(wanted, &simulated.coming)?;
            are_alike(wanted, &after(&here, &simulated.coming))?;
        }
    }
    Ok(())
}

/// Refuses a driver that the plan is not for: it was made from other lists, or from none.
fn of_the_plan(wanted: &Packages, coming: &BTreeMap<String, String>) -> Result<(), PackagesError> {
    for (name, planned) in &wanted.drivers {
        let offered = coming
            .get(name)
            .and_then(|version| upstream(version).parse::<DriverVersion>().ok());
        if let Some(offered) = offered.filter(|offered| offered != planned) {
            return Err(PackagesError::OtherDriver {
                planned: *planned,
                offered,
                package: name.clone(),
            });
        }
    }
    Ok(())
}

/// Whether the driver's packages that are there are of the branch that is to come.
fn are_of_branch(wanted: &Packages, here: &BTreeMap<String, String>) -> bool {
    wanted.branches.iter().all(|(name, planned)| {
        let version = here.get(name).map(|version| upstream(version));
        let version = version.and_then(|version| version.parse::<DriverVersion>().ok());
        version.is_none_or(|version| version.branch == *planned)
    })
}

/// The versions after a transaction.
fn after(
    here: &BTreeMap<String, String>,
    coming: &BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    here.iter()
        .chain(coming)
        .map(|(name, version)| (name.clone(), version.clone()))
        .collect()
}

/// Refuses packages in several versions that work together only in one.
fn are_alike(wanted: &Packages, here: &BTreeMap<String, String>) -> Result<(), PackagesError> {
    let mut found = wanted
        .alike
        .iter()
        .filter_map(|name| Some((name, upstream(here.get(name)?))));
    let Some(first) = found.next() else {
        return Ok(());
    };
    match found.find(|(_, version)| *version != first.1) {
        Some(other) => Err(PackagesError::Unequal {
            packages: [first, other].map(|(name, version)| format!("{name} {version}")),
        }),
        None => Ok(()),
    }
}

/// A command that only looks, and writes no cache.
fn looking(manager: PackageManager, argv: Vec<String>) -> Program {
    Program::new((of(manager).without_cache)(argv))
}

/// What removing these takes along: packages that need them.
pub fn taken_along(
    on: &System,
    manager: PackageManager,
    remove: &[String],
) -> io::Result<Vec<String>> {
    let Some(simulation) = of(manager)
        .simulation
        .as_ref()
        .filter(|_| !remove.is_empty())
    else {
        return Ok(Vec::new());
    };
    let output = on.run(&looking(manager, remove_argv(manager, remove, true)))?;
    let all = (simulation.read)(&output.text).removed;
    Ok(all
        .into_iter()
        .filter(|name| !remove.contains(name))
        .collect())
}

fn judge_simulation(
    wanted: &str,
    simulated: &Simulated,
    remove: &[String],
    held: &BTreeSet<String>,
) -> Result<(), PackagesError> {
    let removed: Vec<_> = simulated
        .removed
        .iter()
        .filter(|name| !remove.contains(name))
        .cloned()
        .collect();
    if !removed.is_empty() {
        return Err(PackagesError::WouldRemove {
            wanted: wanted.to_owned(),
            removed,
        });
    }
    let held: Vec<_> = simulated
        .changed
        .iter()
        .filter(|name| held.contains(*name))
        .cloned()
        .collect();
    if held.is_empty() {
        Ok(())
    } else {
        Err(PackagesError::Held {
            wanted: wanted.to_owned(),
            held,
        })
    }
}

/// What would come to install these, with the versions, and what of them is there already; none if
/// the manager's simulation cannot be read.
pub fn transaction(
    on: &System,
    wanted: &Packages,
) -> Result<Option<BTreeMap<String, String>>, PackagesError> {
    let manager = of(wanted.manager);
    let Some(simulation) = &manager.simulation else {
        return Ok(None);
    };
    let here =
        installed(on, wanted.manager).map_err(ProgramError::start(manager.simulate_install))?;
    let output = on
        .run(&looking(wanted.manager, install_argv(wanted, true)))
        .map_err(ProgramError::start(manager.simulate_install))?;
    judge(manager.simulate_install, &output, None)?;
    let named = wanted
        .install
        .iter()
        .filter_map(|name| Some((name.clone(), here.get(name)?.clone())));
    Ok(Some(
        named
            .chain((simulation.read)(&output.text).coming)
            .collect(),
    ))
}

/// A manager that was cut off in the middle says so until it is let finish.
fn repair(on: &System, manager: PackageManager, interruption: &Interruption) -> io::Result<()> {
    if !(interruption.is_left)(on)? {
        return Ok(());
    }
    // Of a gpusetup that was killed, the package manager may still be at work.
    locks::wait(on, manager, LOCKED, &mut |_, _| {}).map_err(io::Error::other)?;
    let finish = interruption.finish;
    judge(finish, &on.run(&program(words(finish)))?, None).map_err(io::Error::other)
}

/// What a package manager said that ended well; else why it did not.
pub fn checked_output(name: &str, output: Output) -> Result<String, PackagesError> {
    let unreachable = says(&output.text, &UNREACHABLE);
    if !output.succeeded() && (unreachable || says(&output.text, &NOT_THERE)) {
        return Err(PackagesError::Network {
            unreachable,
            last: output.last_lines(4),
        });
    }
    judge(name, &output, None)?;
    Ok(output.text)
}

/// Carries the transaction out, after a look at what it would remove.
pub(crate) fn perform(
    on: &System,
    wanted: &Packages,
    source: &PackageSource,
    log: Option<Log>,
    progress: Progress,
) -> Result<(), PackagesError> {
    pinned(on, wanted, || performed(on, wanted, source, log, progress))
}

fn performed(
    on: &System,
    wanted: &Packages,
    source: &PackageSource,
    log: Option<Log>,
    progress: Progress,
) -> Result<(), PackagesError> {
    let Packages {
        manager,
        install,
        stream,
        ..
    } = wanted;
    let manager = *manager;
    let mut run = |argv: Vec<String>| -> Result<String, PackagesError> {
        let name = argv.join(" ");
        let asked = program(source.applied_to(manager, argv)).log(log.clone());
        let output = on.run_telling(&asked, progress);
        checked_output(&name, output.map_err(ProgramError::start(&name))?)
    };
    if let Some(interruption) = &of(manager).interruption {
        repair(on, manager, interruption).map_err(ProgramError::start(interruption.finish))?;
    }
    if let Some(refresh) = refresh_argv(manager)
        && (!pins::gone(on, wanted, source)?.is_empty() || run(install_argv(wanted, true)).is_err())
    {
        // A fresh image has no lists at all, and old ones name packages that are gone.
        let unreachable = says(&run(refresh)?, &UNREACHABLE);
        let strangers = pins::gone(on, wanted, source)?;
        match run(install_argv(wanted, true)) {
            Err(PackagesError::Program(e)) if unreachable => {
                return Err(PackagesError::Network {
                    unreachable,
                    last: e.to_string(),
                });
            }
            _ if strangers.is_empty() => {}
            _ => return Err(PackagesError::Strangers { strangers }),
        }
    }
    // A folder has the packages of one stream, and no list of streams.
    if let (Some(stream), Some(enable), true) =
        (stream, of(manager).enable_stream, source.is_the_hosts())
    {
        run(words(enable).into_iter().chain([stream.clone()]).collect())?;
    }
    // The lists may be newer than those that were asked before the first change.
    judged(on, wanted, source)?;
    let here = if wanted.remove_like.is_empty() {
        BTreeMap::new()
    } else {
        installed(on, manager).map_err(ProgramError::ask)?
    };
    let remove = wanted.to_go(&here);
    if !remove.is_empty() {
        run(remove_argv(manager, &remove, false))?;
    }
    if !install.is_empty() {
        run(install_argv(wanted, true))?;
        match (run(install_argv(wanted, false)), refresh_argv(manager)) {
            // A mirror drops a version on the day that a newer one comes.
            (
                Err(PackagesError::Network {
                    unreachable: false, ..
                }),
                Some(refresh),
            ) if source.is_the_hosts() => {
                run(refresh)?;
                run(install_argv(wanted, false))?
            }
            (installed, _) => installed?,
        };
    }
    as_wanted(on, wanted)
}

/// An exit status is no proof.
fn as_wanted(on: &System, wanted: &Packages) -> Result<(), PackagesError> {
    let now = known_installed(on, wanted.manager).map_err(ProgramError::ask)?;
    let mut missing = wanted.install.clone();
    missing.retain(|asked| !is_among(&now, asked));
    let here = versions(&now);
    let mut there = wanted.to_go(&here);
    there.retain(|name| is_among(&now, name));
    let strangers = pins::strangers(&wanted.versions, &BTreeMap::new(), &here);
    if !strangers.is_empty() {
        return Err(PackagesError::Strangers { strangers });
    }
    are_alike(wanted, &here)?;
    match (missing.is_empty(), there.is_empty()) {
        (true, true) => Ok(()),
        (false, _) => Err(PackagesError::Unchanged(format!(
            "{} are not installed",
            missing.join(", ")
        ))),
        (true, false) => Err(PackagesError::Unchanged(format!(
            "{} are still installed",
            there.join(", ")
        ))),
    }
}

/// Takes a transaction back; names the packages that no repository has any more. Whatever of it
/// failed, or was cut off, is not let finish first: it would fail again.
pub(crate) fn take_back(on: &System, done: &Transaction) -> io::Result<Vec<String>> {
    let mut gone = take_packages_back(on, done)?;
    gone.extend(restore_driver(on, done)?);
    mark_automatic(on, done)?;
    if !done.unowned.is_empty() {
        remove_unowned(on, done, &present(on, done.manager)?)?;
    }
    Ok(gone)
}

fn take_packages_back(on: &System, done: &Transaction) -> io::Result<Vec<String>> {
    let manager = done.manager;
    locks::wait(on, manager, LOCKED, &mut |_, _| {}).map_err(io::Error::other)?;
    let now = present(on, manager)?;
    let before: BTreeSet<_> = done.before.iter().collect();
    let added: Vec<String> = match &done.added {
        Some(added) => added
            .iter()
            .filter(|name| now.contains(*name))
            .cloned()
            .collect(),
        None => now
            .iter()
            .filter(|name| !before.contains(name))
            .cloned()
            .collect(),
    };
    let interruption = of(manager).interruption.as_ref();
    if !added.is_empty()
        && let Err(e) = run_and_judge(on, &remove_argv(manager, &added, false))
    {
        let Some(interruption) = interruption else {
            return Err(e);
        };
        let argv: Vec<_> = words(interruption.remove)
            .into_iter()
            .chain(added)
            .collect();
        run_and_judge(on, &argv)?;
    }
    interruption.map_or(Ok(()), |interruption| repair(on, manager, interruption))?;
    let gone: Vec<_> = done
        .removed
        .iter()
        .filter(|(name, _)| !now.contains(*name))
        .collect();
    if gone.is_empty() {
        return Ok(Vec::new());
    }
    let exactly: Vec<_> = gone
        .iter()
        .map(|(name, version)| of(manager).exactly(name, version))
        .collect();
    if install_again(on, manager, exactly.clone()).is_ok() {
        return Ok(Vec::new());
    }
    // They may need the driver's other packages in the version that those had.
    let others = driver_before(on, done)?
        .into_iter()
        .map(|(name, version)| of(manager).exactly(&name, &version));
    let together: Vec<_> = words(of(manager).downgrade)
        .into_iter()
        .chain(exactly)
        .chain(others)
        .collect();
    if without_locks(on, manager, || run_and_judge(on, &together))?.is_ok() {
        return Ok(Vec::new());
    }
    // One that is no longer to be had must not keep the others away.
    let mut left = Vec::new();
    for (name, version) in gone {
        let exactly = of(manager).exactly(name, version);
        if install_again(on, manager, vec![exactly]).is_err()
            && install_again(on, manager, vec![name.clone()]).is_err()
        {
            left.push(format!("the package {name} {version}"));
        }
    }
    Ok(left)
}

fn install_again(on: &System, manager: PackageManager, names: Vec<String>) -> io::Result<()> {
    let packages = Packages::to_install(manager, names);
    run_and_judge(on, &install_argv(&packages, false))
}

/// For fuzzing.
#[cfg(fuzzing)]
pub fn read_anything(text: &str) {
    for simulation in gpusetup_packages::ALL
        .iter()
        .filter_map(|manager| of(*manager).simulation.as_ref())
    {
        let _ = judge_simulation("x", &(simulation.read)(text), &[], &BTreeSet::new());
    }
}

fn is_among(known: &[ListedPackage], asked: &str) -> bool {
    known.iter().any(|package| package.is(asked))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_driver_than_the_plans_is_refused() {
        let planned: DriverVersion = "535.261.03".parse().expect("a version");
        let manager = PackageManager::Apt;
        let drivers = ["libcuda1", "nvidia-kernel-dkms"]
            .map(|name| (name.to_owned(), planned))
            .into();
        let wanted = Packages {
            drivers,
            ..Packages::to_install(manager, vec!["libcuda1".to_owned()])
        };
        let come = |coming: &[(&str, &str)]| {
            of_the_plan(
                &wanted,
                &coming
                    .iter()
                    .map(|(n, v)| ((*n).to_owned(), (*v).to_owned()))
                    .collect(),
            )
        };
        assert!(come(&[("libcuda1", "535.261.03-1~deb12u1"), ("x", "1")]).is_ok());
        assert!(come(&[]).is_ok(), "what is there stays");
        let other = come(&[("libcuda1", "1:535.274.02-1~deb12u1")]);
        let error = other.expect_err("another").to_string();
        for part in ["535.261.03", "535.274.02 (libcuda1)", "gpusetup plan"] {
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn a_driver_and_companions_of_two_versions_are_refused() {
        let manager = PackageManager::Apt;
        let alike = ["libcuda1", "nvidia-fabricmanager-580"]
            .map(str::to_owned)
            .to_vec();
        let wanted = Packages {
            alike,
            ..Packages::to_install(manager, Vec::new())
        };
        let here = |all: &[(&str, &str)]| {
            let all = all
                .iter()
                .map(|(n, v)| ((*n).to_owned(), (*v).to_owned()))
                .collect();
            are_alike(&wanted, &all).map_err(|e| e.to_string())
        };
        assert!(
            here(&[
                ("libcuda1", "580.95.05-1"),
                ("nvidia-fabricmanager-580", "1:580.95.05-0ubuntu1")
            ])
            .is_ok()
        );
        assert!(
            here(&[("libcuda1", "580.95.05-1"), ("x", "1")]).is_ok(),
            "what is not there has no version"
        );
        let error = here(&[
            ("libcuda1", "580.95.05-1"),
            ("nvidia-fabricmanager-580", "580.82.07-1"),
        ])
        .expect_err("two");
        for part in [
            "libcuda1 580.95.05",
            "nvidia-fabricmanager-580 580.82.07",
            "GS801",
        ] {
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn the_drivers_packages_are_those_of_its_version() {
        let alike = vec![
            "nvidia-driver-cuda".to_owned(),
            "nvidia-fabricmanager".to_owned(),
        ];
        let wanted = Packages {
            alike,
            ..Packages::to_install(PackageManager::Dnf, Vec::new())
        };
        let now = [
            ("nvidia-driver-cuda", "580.95.05-1.el9"),
            ("libnvidia-ml", "580.95.05-1.el9"),
            ("bash", "5.1-1"),
        ];
        let now = now.map(|(n, v)| (n.to_owned(), v.to_owned())).into();
        let names: Vec<_> = driver_of(&wanted, &[], &now).into_keys().collect();
        assert_eq!(names, ["libnvidia-ml", "nvidia-driver-cuda"]);
        assert!(
            driver_of(
                &Packages::to_install(PackageManager::Dnf, Vec::new()),
                &[],
                &now
            )
            .is_empty()
        );
    }

    #[test]
    fn another_generation_goes_with_all_of_its_version() {
        let like = vec!["*-G06*".to_owned()];
        let wanted = Packages {
            remove_like: like,
            ..Packages::to_install(PackageManager::Zypper, Vec::new())
        };
        let here = |all: &[(&str, &str)]| {
            all.iter()
                .map(|(n, v)| ((*n).to_owned(), (*v).to_owned()))
                .collect()
        };
        let before = [
            (
                "nvidia-open-driver-G06-signed-kmp-default",
                "580.95.05_k6.4.0_150700.51-150700.3.1",
            ),
            ("nvidia-compute-G06", "580.95.05-1"),
            ("nvidia-modprobe", "580.95.05-1"),
            ("nvidia-settings", "595.45.04-1"),
            ("bash", "5.2-1"),
        ];
        let gone = wanted.to_go(&here(&before));
        assert_eq!(
            gone,
            [
                "nvidia-compute-G06",
                "nvidia-modprobe",
                "nvidia-open-driver-G06-signed-kmp-default"
            ]
        );
        assert_eq!(
            driver_of(&wanted, &gone, &here(&before)).len(),
            2,
            "what has the driver's version"
        );
        assert!(
            wanted
                .to_go(&here(&[
                    ("nvidia-modprobe", "595.45.04-1"),
                    ("nvidia-compute-G07", "1")
                ]))
                .is_empty()
        );
        assert_eq!(wanted.describe(), "remove the driver of *-G06*");
        let script = wanted.shell();
        assert!(
            script.contains("case $name in *-G06*)") && script.contains("xargs -r zypper"),
            "{script}"
        );
    }

    #[test]
    fn what_would_go_or_is_held_is_refused() {
        let both = ["nvidia-driver-535", "b"];
        let simulated = Simulated {
            removed: both.map(str::to_owned).to_vec(),
            changed: ["a", both[0], both[1]].map(str::to_owned).to_vec(),
            ..Simulated::default()
        };
        let names = |all: &[&str]| all.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>();
        let judged = |remove: &[&str], held: &[&str]| {
            judge_simulation(
                "installing a",
                &simulated,
                &names(remove),
                &names(held).into_iter().collect(),
            )
            .map_err(|e| e.to_string())
        };
        assert_eq!(
            judged(&["b"], &[]),
            Err("installing a would also remove nvidia-driver-535 (GS402)".to_owned())
        );
        assert_eq!(judged(&both, &["c"]), Ok(()));
        assert_eq!(
            judged(&both, &["a"]),
            Err("installing a would change a, which the package manager holds".to_owned())
        );
    }

    #[test]
    fn a_list_that_cannot_be_had_is_not_an_empty_one() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        // There is no dpkg-query in it; a rollback would remove every package that is not in the
        // list.
        let nothing = Packages::to_install(PackageManager::Apt, Vec::new());
        assert!(intend(&System::at(dir.path()), &nothing).is_err());
    }

    #[test]
    fn a_signing_key_goes_with_the_package_that_made_it() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let on = System::at(dir.path());
        on.make_directories("/var/lib/dkms", 0o755).expect("made");
        let unowned = absent(&on, &SIGNING_KEY).expect("looked");
        assert_eq!(unowned, SIGNING_KEY.map(PathBuf::from));
        let manager = PackageManager::Apt;
        let (before, automatic, removed, driver) = Default::default();
        let done = Transaction {
            manager,
            before,
            added: None,
            automatic,
            unowned,
            removed,
            driver,
        };
        SIGNING_KEY
            .iter()
            .for_each(|path| on.write(path, b"key", 0o600).expect("written"));
        remove_unowned(&on, &done, &[DKMS.to_owned()].into()).expect("left");
        assert!(
            SIGNING_KEY.iter().all(|path| on.exists(path)),
            "DKMS may sign other modules with it"
        );
        remove_unowned(&on, &done, &BTreeSet::new()).expect("removed");
        assert!(!on.exists("/var/lib/dkms"));
        on.make_directories("/var/lib/dkms", 0o755).expect("made");
        on.write(SIGNING_KEY[0], b"an administrator's", 0o600)
            .expect("written");
        assert_eq!(
            absent(&on, &SIGNING_KEY).expect("looked"),
            [PathBuf::from(SIGNING_KEY[1])]
        );
    }

    #[test]
    fn no_manager_asks_anything() {
        let names = ["dkms".to_owned()];
        for manager in [
            PackageManager::Apt,
            PackageManager::Dnf,
            PackageManager::Tdnf,
            PackageManager::Zypper,
        ] {
            for argv in [
                install_argv(&Packages::to_install(manager, names.to_vec()), false),
                remove_argv(manager, &names, false),
            ] {
                assert!(
                    argv.iter().any(|a| a == "-y" || a == "--non-interactive"),
                    "{argv:?}"
                );
                assert_eq!(argv.last().map(String::as_str), Some("dkms"));
            }
        }
    }
}
