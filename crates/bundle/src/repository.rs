//! The distribution's packages that plans install, with everything that they depend on, made into a
//! repository.
//!
//! Dependencies are resolved against a system on which nothing is installed, not even what every
//! host has: a host may have an older version than a package asks for (`libc6-dev` wants its own
//! `libc6` exactly), and then takes it from here. Leaving out what is essential or required would
//! save 5 MB of 183 (Debian 12: headers, DKMS and driver), and fail on such hosts. The package
//! manager works in separate folders: this host's lists, caches, locks and packages stay as they
//! are. What it fetches it verifies by its own chain, from the repository's signature to each
//! package's sum.

use super::BundleError;
use gpusetup_host::SystemId;
use gpusetup_operation::packages::{Packages, checked_output};
use gpusetup_operation::program::ProgramError;
use gpusetup_operation::{AddRepository, Operation};
use gpusetup_packages::{
    Fetcher, LocalPackages, MadeIndex, Manager, PackageIndex, WrittenIndex, behind_program,
    is_among, of, words,
};
use gpusetup_plan::Plan;
use gpusetup_system::{Program, System, digest, limits};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// An hour: packages come over a network that may be slow.
const LIMIT: Duration = Duration::from_secs(3600);

/// A repository in the making: its files, by their names, and what it offers.
#[derive(Debug, Default)]
pub struct Closure {
    /// Packages, as paths of the host that they were fetched on.
    pub packages: BTreeMap<String, PathBuf>,
    /// What is made beside them.
    pub(crate) indices: BTreeMap<String, Vec<u8>>,
    /// Names and versions.
    pub(crate) offers: BTreeMap<String, String>,
}

impl Closure {
    /// Itself, where it has what is to be installed. What else that needs, the package manager
    /// knew.
    fn with_all_of(self, transactions: &[&Packages]) -> Result<Self, BundleError> {
        let names: BTreeSet<_> = transactions.iter().flat_map(|t| &t.install).collect();
        let missing: Vec<_> = names
            .into_iter()
            .filter(|asked| !is_among(asked, &self.offers))
            .cloned()
            .collect();
        if missing.is_empty() {
            Ok(self)
        } else {
            Err(BundleError::NotBrought(missing))
        }
    }
}

/// The transactions of a plan that install something which the host does not have yet. What it has
/// may be in no repository: an offline host got it as local files. Should the host lose it, apply
/// names what the bundle lacks (GS601).
pub fn needed_packages(plan: &Plan) -> Vec<&Packages> {
    let needed = plan.acts().filter(|act| !act.satisfied);
    let packages = needed.filter_map(|act| match &act.operation {
        Operation::Packages(wanted) => Some(wanted),
        _ => None,
    });
    packages
        .filter(|wanted| !wanted.install.is_empty())
        .collect()
}

/// The repositories that a plan adds.
pub fn added_repositories(plan: &Plan) -> impl Iterator<Item = &AddRepository> {
    plan.acts().filter_map(|act| match &act.operation {
        Operation::AddRepository(repository) => Some(repository),
        _ => None,
    })
}

/// Fetches what these transactions need into `work`, an empty folder of the host's that is private.
/// Each is resolved by itself, as it will be on the host, so that a choice between packages that
/// one makes does not hide what the other needs.
pub fn closure(
    on: &System,
    system: &SystemId,
    work: &Path,
    transactions: &[&Packages],
    added: &[&AddRepository],
    created: &str,
) -> Result<Closure, BundleError> {
    let mut managers: Vec<_> = transactions.iter().map(|t| t.manager).collect();
    managers.dedup();
    match managers.as_slice() {
        [] => Ok(Closure::default()),
        [manager] => {
            let mut host = Workshop {
                on,
                work,
                system,
                manager: of(*manager),
                options: Vec::new(),
            };
            host.read_own_repositories();
            let mut asked = BTreeSet::new();
            let mut new = transactions
                .iter()
                .filter(|t| asked.insert((&t.install, &t.stream, &t.versions)));
            host.add(added)?;
            host.prepare()?;
            host.note(added)?;
            new.try_for_each(|t| host.fetch(t))?;
            host.index(created)?.with_all_of(transactions)
        }
        _ => Err(BundleError::Elsewhere(
            "the plans are for package managers of two kinds".to_owned(),
        )),
    }
}

/// A package manager that works in a separate folder.
struct Workshop<'a> {
    on: &'a System,
    work: &'a Path,
    system: &'a SystemId,
    manager: &'static Manager,
    /// The options that say which repositories it reads.
    options: Vec<String>,
}

impl Workshop<'_> {
    fn at(&self, name: &str) -> String {
        self.work.join(name).display().to_string()
    }

    /// The program, and what keeps it to the folder.
    fn argv(&self) -> Vec<String> {
        let argv = (self.manager.fetcher.argv)(self.work, &self.system.version);
        argv.into_iter()
            .chain(self.options.iter().cloned())
            .collect()
    }

    fn run(&self, more: impl IntoIterator<Item = String>) -> Result<(), BundleError> {
        self.ask(self.argv().into_iter().chain(more)).map(|_| ())
    }

    fn ask(&self, argv: impl IntoIterator<Item = String>) -> Result<String, BundleError> {
        let argv: Vec<_> = argv.into_iter().collect();
        let name = argv[0].clone();
        let program = Program::new(argv)
            .env("HOME", "/nonexistent")
            .limit(LIMIT)
            .networked();
        let output = self.on.run(&program).map_err(|source| {
            let program = name.clone();
            BundleError::Packages(ProgramError::Start { program, source }.into())
        })?;
        if gpusetup_system::interrupt::heard().is_some() {
            return Err(BundleError::Interrupted);
        }
        Ok(checked_output(&name, output)?)
    }

    fn read_own_repositories(&mut self) {
        let folders = self.manager.added.iter().flat_map(|format| format.folders);
        self.options = folders
            .flat_map(|(folder, options)| options(folder))
            .collect();
    }

    /// Has the manager read repositories that plans add: copies of the host's folders of such
    /// files, with theirs.
    fn add(&mut self, added: &[&AddRepository]) -> Result<(), BundleError> {
        let Some(format) = self.manager.added.as_ref().filter(|_| !added.is_empty()) else {
            return Ok(());
        };
        self.options.clear();
        for (n, (folder, options)) in format.folders.iter().enumerate() {
            let copy = self.work.join(format!("repositories-{n}"));
            self.on
                .make_directories(&copy, 0o700)
                .map_err(BundleError::io(&copy))?;
            for name in self
                .on
                .list(folder)
                .map_err(BundleError::io(Path::new(folder)))?
            {
                let path = Path::new(folder).join(&name);
                if let Some(text) = self.on.read_text(&path).map_err(BundleError::io(&path))? {
                    let to = copy.join(&name);
                    self.on
                        .write(&to, text.as_bytes(), 0o600)
                        .map_err(BundleError::io(&to))?;
                }
            }
            for repository in added {
                let keys = self.keys(repository)?;
                let here = repository
                    .files_with(&keys)
                    .into_iter()
                    .filter(|file| file.path.parent() == Some(Path::new(folder)));
                for file in here {
                    let to = copy.join(file.path.file_name().unwrap_or_default());
                    self.on
                        .write(&to, file.content.as_bytes(), 0o600)
                        .map_err(BundleError::io(&to))?;
                }
            }
            self.options.extend(options(&copy.display().to_string()));
        }
        Ok(())
    }

    /// Has the manager make its notes about these repositories in the work folder: it trusts no key
    /// otherwise.
    fn note(&self, added: &[&AddRepository]) -> Result<(), BundleError> {
        for repository in added {
            for argv in repository.notes_with(&self.keys(repository)?) {
                let inside = if argv
                    .first()
                    .is_some_and(|program| program == self.manager.record)
                {
                    vec!["--root".to_owned(), self.at("root")]
                } else {
                    self.argv().split_off(1)
                };
                self.ask(behind_program(argv, inside))?;
            }
        }
        Ok(())
    }

    /// The keys of a repository, written to the work folder.
    fn keys(&self, repository: &AddRepository) -> Result<Vec<PathBuf>, BundleError> {
        let mut paths = Vec::new();
        for key in &repository.keys {
            let content = key.cached(self.on)?.unwrap_or_default();
            let path = self.work.join(format!("{}.asc", key.fingerprint));
            self.on
                .write(&path, content.as_bytes(), 0o600)
                .map_err(BundleError::io(&path))?;
            paths.push(path);
        }
        Ok(paths)
    }

    fn prepare(&self) -> Result<(), BundleError> {
        let Fetcher {
            folders,
            record,
            refresh,
            ..
        } = &self.manager.fetcher;
        for folder in *folders {
            self.on
                .make_directories(self.work.join(folder), 0o700)
                .map_err(BundleError::io(self.work))?;
        }
        if let Some(record) = record {
            let path = self.work.join(record);
            self.on
                .write(&path, b"", 0o600)
                .map_err(BundleError::io(&path))?;
        }
        refresh.map_or(Ok(()), |refresh| self.run(words(refresh)))
    }

    fn fetch(&self, transaction: &Packages) -> Result<(), BundleError> {
        let fetcher = &self.manager.fetcher;
        if let (Some(stream), Some(enable)) = (&transaction.stream, fetcher.enable_stream) {
            self.run(words(enable).into_iter().chain([stream.clone()]))?;
        }
        let mut argv = words(fetcher.install);
        argv.extend(self.preferences(transaction)?);
        argv.extend(transaction.with_versions());
        if let Some(local) = &fetcher.local {
            self.copy_local(local, &argv)?;
        }
        self.run(argv)
    }

    /// The options that have the manager keep to locked versions, if it takes them in a file.
    fn preferences(&self, transaction: &Packages) -> Result<Vec<String>, BundleError> {
        let preferences = self
            .manager
            .preferences
            .as_ref()
            .filter(|_| !transaction.versions.is_empty());
        let Some(preferences) = preferences else {
            return Ok(Vec::new());
        };
        let own = self
            .on
            .read_text(preferences.own)
            .map_err(BundleError::io(Path::new(preferences.own)))?;
        let path = self.work.join("pins");
        let text = (preferences.text)(&transaction.versions, &own.unwrap_or_default());
        self.on
            .write(&path, text.as_bytes(), 0o600)
            .map_err(BundleError::io(&path))?;
        Ok((preferences.options)(&self.at("pins")))
    }

    /// Copies the packages of repositories that are folders of this host: the manager would install
    /// those from where they are, and brings only others to its archives. It verifies what it finds
    /// there.
    fn copy_local(&self, local: &LocalPackages, install: &[String]) -> Result<(), BundleError> {
        let argv = self
            .argv()
            .into_iter()
            .chain(words(local.list))
            .chain(install.iter().cloned());
        for (path, name) in self.ask(argv)?.lines().filter_map(local.find) {
            let from = self.on.open(&path).map_err(BundleError::io(&path))?;
            let to = self.work.join("archives").join(name);
            let copied = self
                .on
                .create_new(&to, 0o600)
                .and_then(|mut to| io::copy(&mut &from, &mut to));
            copied.map_err(BundleError::io(&to))?;
        }
        Ok(())
    }

    fn index(&self, created: &str) -> Result<Closure, BundleError> {
        let mut found = Vec::new();
        let folder = self.work.join("archives");
        let fetcher = &self.manager.fetcher;
        files_below(self.on, &folder, fetcher.ending, &mut found)
            .map_err(BundleError::io(&folder))?;
        match &fetcher.index {
            PackageIndex::Written(index) => self.write_index(index, &found, created),
            PackageIndex::Made(index) => self.make_index(index, &found),
        }
    }

    fn write_index(
        &self,
        index: &WrittenIndex,
        found: &[PathBuf],
        created: &str,
    ) -> Result<Closure, BundleError> {
        let mut closure = Closure::default();
        let mut entries = BTreeMap::new();
        for path in found {
            let description = self.ask(
                words(index.describe)
                    .into_iter()
                    .chain([path.display().to_string()]),
            )?;
            let file = (index.file_name)(&path.file_name().unwrap_or_default().to_string_lossy());
            let (name, version) = (index.name_and_version)(&description);
            let open = self.on.open(path).map_err(BundleError::io(path))?;
            let size = open.metadata().map_err(BundleError::io(path))?.len();
            let sum = digest(open).map_err(BundleError::io(path))?;
            entries.insert(file.clone(), (index.entry)(&description, &file, size, &sum));
            closure.offers.insert(name.to_owned(), version.to_owned());
            closure.packages.insert(file, path.clone());
        }
        let files = (index.files)(entries.into_values().collect(), created);
        closure.indices = files
            .map(|(name, text)| (name.to_owned(), text.into_bytes()))
            .into();
        Ok(closure)
    }

    fn make_index(&self, index: &MadeIndex, found: &[PathBuf]) -> Result<Closure, BundleError> {
        let mut closure = Closure::default();
        self.on
            .make_directories(self.work.join("repository"), 0o700)
            .map_err(BundleError::io(self.work))?;
        for path in found {
            let name = path
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            let to = self.work.join("repository").join(&name);
            self.on.rename(path, &to).map_err(BundleError::io(&to))?;
            closure.packages.insert(name, to);
        }
        if closure.packages.is_empty() {
            return Ok(closure);
        }
        let inside = closure
            .packages
            .keys()
            .map(|name| self.at(&format!("repository/{name}")));
        let names = self.ask(
            index
                .names
                .iter()
                .map(|word| (*word).to_owned())
                .chain(inside),
        )?;
        closure.offers = names
            .lines()
            .filter_map(|line| {
                line.split_once(' ')
                    .map(|(name, version)| (name.to_owned(), version.to_owned()))
            })
            .collect();
        if let Some(make) = index.make {
            self.ask(words(make).into_iter().chain([self.at("repository")]))?;
            let folder = self.work.join("repository");
            let mut made = Vec::new();
            files_below(self.on, &folder.join(index.lists), "", &mut made)
                .map_err(BundleError::io(&folder))?;
            for path in made {
                let name = path
                    .strip_prefix(&folder)
                    .unwrap_or(&path)
                    .display()
                    .to_string();
                closure.indices.insert(
                    name,
                    self.on
                        .read_up_to(&path, limits::MAX_LIST)
                        .map_err(BundleError::io(&path))?,
                );
            }
        }
        Ok(closure)
    }
}

/// Files below a folder whose names end so.
fn files_below(
    on: &System,
    folder: &Path,
    ending: &str,
    found: &mut Vec<PathBuf>,
) -> io::Result<()> {
    for name in on.list(folder)? {
        let path = folder.join(name);
        if on.is_directory(&path) && on.link_target(&path).is_none() {
            files_below(on, &path, ending, found)?;
        } else if path.to_string_lossy().ends_with(ending) {
            found.push(path);
        }
    }
    found.sort();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpusetup_database::compat::PackageManager;

    #[test]
    fn headers_of_one_kernel_are_found_among_what_was_brought() {
        let offers = || {
            let all = [("kernel-devel", "5.14.0-570.el9"), ("dkms", "3.2.1-1.el9")];
            all.map(|(name, version)| (name.to_owned(), version.to_owned()))
                .into()
        };
        let all_of = |names: &[&str]| {
            let names = names.iter().map(|name| (*name).to_owned()).collect();
            let closure = Closure {
                offers: offers(),
                ..Closure::default()
            };
            closure
                .with_all_of(&[&Packages::to_install(PackageManager::Dnf, names)])
                .map(|_| ())
        };
        assert!(all_of(&["dkms", "kernel-devel-5.14.0-570.el9.x86_64"]).is_ok());
        assert!(all_of(&["dkms", "kernel-devel-5.14.0-503.el9.x86_64"]).is_err());
    }

    #[test]
    fn packages_that_the_host_has_are_not_fetched() {
        let install = |name: &str| {
            Operation::Packages(Packages::to_install(
                PackageManager::Apt,
                vec![name.to_owned()],
            ))
        };
        let mut plan = gpusetup_plan::sample::plan_of(vec![
            install("docker.io"),
            install("nvidia-container-toolkit"),
        ]);
        plan.steps[0].operations[1].satisfied = true;
        let names: Vec<_> = needed_packages(&plan)
            .into_iter()
            .flat_map(|wanted| &wanted.install)
            .collect();
        assert_eq!(names, ["docker.io"]);
    }
}
