//! Plans for removal, regardless of who installed the software: a driver and toolkits by their own
//! uninstallers or packages, and gpusetup's settings for them. Like any plan, a removal is shown
//! and journalled.

use super::companions::release_holds_and_stop_units;
use super::containers::ContainerRemoval;
use super::context::{exists, step};
use super::driver::UNINSTALL;
use super::repository::Added;
use super::switch::installed;
use super::untouched_driver::{default_not_run, too_old};
use super::{Act, Plan, Step, StepId, Warning, toolkit_packages};
use gpusetup_database::compat::{Companion, Database, PackageManager};
use gpusetup_database::version::{CudaVersion, Requirement, Want};
use gpusetup_host::{
    AddOnFiles, Facts, InstalledDriver, Origin, Original, PathFile, PathFiles, RepositoryUse,
    Syntax, Toolkit,
};
use gpusetup_operation::{Link, Operation, Packages, Remove, Run, Service};
use gpusetup_packages::{Note, pattern_matches};
use gpusetup_recipes::{path_lines, rebuild_cache, rebuild_images};
use gpusetup_resolve::{Conflict, Hint, Request, distribution, toolkit_repository};
use gpusetup_system::Node;
use gpusetup_text::ids::CheckId;
use gpusetup_text::paths::{
    BLACKLIST, FABRIC_MODULES, LOADER_PATH, MIG_LAYOUT, MIG_UNIT, MIG_WANTED, MODULE_OPTIONS,
    PREFIX, PROFILE, SETTINGS_SERVICE, SETTINGS_UNIT,
};
use gpusetup_text::text::{all_of, quoted_path};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// What to remove.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Unwanted {
    /// The driver.
    pub driver: bool,
    /// Toolkits, by their names: 12.8, 12.8.1, or 12 where one alone has that.
    pub cuda: Vec<Requirement<CudaVersion>>,
    /// Every toolkit and every add-on.
    pub all_cuda: bool,
    /// The toolkit that gives containers GPUs.
    pub container_toolkit: bool,
}

/// The packages of a host.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Inventory {
    /// The installed packages, with their versions as the package manager writes them.
    pub installed: BTreeMap<String, String>,
    /// For each path that may be removed, the packages that own files there.
    pub owners: BTreeMap<PathBuf, BTreeSet<String>>,
    /// What the package manager has noted about the repositories that gpusetup may have added, by
    /// their use.
    pub notes: BTreeMap<RepositoryUse, Vec<Note>>,
    /// The files of search paths that may name a toolkit.
    pub path_files: PathFiles,
    /// The configuration files of container engines that gpusetup changed.
    pub originals: BTreeMap<PathBuf, Original>,
    /// The CDI specifications that the container toolkit wrote.
    pub specifications: Vec<PathBuf>,
}

impl Unwanted {
    /// Whether toolkits are removed, which no rollback brings back.
    pub fn removes_toolkits(&self) -> bool {
        self.all_cuda || !self.cuda.is_empty()
    }

    /// Whether it may be to remove: a name can mean another one of several.
    fn has(&self, toolkit: &Toolkit) -> bool {
        self.all_cuda
            || self
                .cuda
                .iter()
                .any(|wanted| wanted.matches(toolkit.version))
    }

    /// The paths whose owners [`removal`] must know.
    pub fn places(&self, facts: &Facts) -> BTreeSet<PathBuf> {
        let toolkits = facts
            .toolkits
            .iter()
            .filter(|t| self.has(t))
            .map(|t| t.path.clone());
        let libraries = facts
            .add_on_files()
            .filter(|_| self.all_cuda)
            .flat_map(files);
        toolkits.chain(libraries).collect()
    }
}

fn files(found: &AddOnFiles) -> impl Iterator<Item = PathBuf> {
    found
        .files
        .iter()
        .map(|f| found.directory.join(&f.name))
        .chain(found.header.clone())
}

/// The plan that removes it.
///
/// # Errors
///
/// If a named toolkit is not installed, a name is that of several, or it is not known which files
/// belong to it.
pub fn removal(
    database: &Database,
    facts: Facts,
    inventory: &Inventory,
    unwanted: &Unwanted,
    request: Request,
) -> Result<Plan, Conflict> {
    let named = unwanted
        .cuda
        .iter()
        .map(|wanted| Ok(named(&facts, wanted)?.path.clone()));
    let named = named.collect::<Result<BTreeSet<_>, _>>()?;
    let off = RemovalPlanner {
        database,
        facts: &facts,
        inventory,
        unwanted,
        named,
        prefix: &request.prefix,
    };
    let mut warnings = Vec::new();
    let of_containers = if unwanted.container_toolkit {
        off.container_toolkit(&mut warnings)?
    } else {
        Vec::new()
    };
    let mut steps = Vec::new();
    if unwanted.driver {
        steps.extend(off.driver(&mut warnings)?);
    }
    for toolkit in facts.toolkits.iter().filter(|t| off.goes(t)) {
        steps.push(off.toolkit(toolkit)?);
    }
    steps.extend(off.toolkit_repository());
    if unwanted.all_cuda {
        steps.extend(off.add_ons());
    }
    if !steps.is_empty() {
        let (of_loader, of_shells) = off.path_lines(&mut warnings);
        steps.extend(off.settings(of_loader, &mut warnings));
        const TITLE: &str = "Remove the toolkit from the startup files of shells";
        const WHY: &str =
            "they name a directory that is gone; a copy of each file is kept for rollback";
        steps.extend(
            (!of_shells.is_empty()).then(|| step(StepId::Environment, TITLE, WHY, of_shells)),
        );
        steps.extend(off.module_files());
    }
    let steps = [of_containers, steps].concat();
    let request = Request {
        driver: Want::Nothing,
        cuda: Want::Nothing,
        cudnn: Want::Nothing,
        ..request
    };
    Ok(Plan::of(database, facts, request, steps, warnings).summed())
}

/// The toolkit that a name means. Beside a copy such as `cuda-12.4-old`, 12.4 is the one in
/// `cuda-12.4`.
fn named<'f>(facts: &'f Facts, wanted: &Requirement<CudaVersion>) -> Result<&'f Toolkit, Conflict> {
    let all: Vec<_> = facts
        .toolkits
        .iter()
        .filter(|toolkit| wanted.matches(toolkit.version))
        .collect();
    let usual: Vec<_> = all
        .iter()
        .filter(|toolkit| {
            toolkit
                .path
                .file_name()
                .is_some_and(|name| name == toolkit.version.directory().as_str())
        })
        .copied()
        .collect();
    match (all.as_slice(), usual.as_slice()) {
        ([], _) => {
            let conflict = Conflict::request(format!("CUDA {wanted} is not installed (--cuda)"));
            Err(conflict.hint(installed(facts.toolkits.iter())))
        }
        ([one], _) | (_, [one]) => Ok(one),
        _ => {
            let names: BTreeSet<_> = all.iter().map(|toolkit| toolkit.version).collect();
            let names: Vec<_> = names.iter().map(ToString::to_string).collect();
            let places: Vec<_> = all.iter().map(|toolkit| shown(&toolkit.path)).collect();
            let sentence = format!(
                "--cuda {wanted} names several toolkits: {}",
                all_of(&places)
            );
            Err(Conflict::request(sentence).hint(format!(
                "name one of them, or all: --cuda {}",
                names.join(",")
            )))
        }
    }
}

struct RemovalPlanner<'a> {
    database: &'a Database,
    facts: &'a Facts,
    inventory: &'a Inventory,
    unwanted: &'a Unwanted,
    /// The directories of the toolkits that are named.
    named: BTreeSet<PathBuf>,
    prefix: &'a Path,
}

impl RemovalPlanner<'_> {
    /// Whether to remove this toolkit.
    fn goes(&self, toolkit: &Toolkit) -> bool {
        self.unwanted.all_cuda || self.named.contains(&toolkit.path)
    }

    /// Removes all drivers found: a mixed installation is removed as a whole.
    fn driver(&self, warnings: &mut Vec<Warning>) -> Result<Vec<Step>, Conflict> {
        let found: Vec<_> = self
            .facts
            .driver
            .iter()
            .chain(&self.facts.other_drivers)
            .collect();
        let mut acts = Vec::new();
        if found.iter().any(|d| d.origin == Origin::Runfile) {
            acts.extend(self.archived_companions());
            // It removes itself last.
            acts.push(uninstaller(UNINSTALL, vec![UNINSTALL[0].into()]));
        }
        let mut packages: BTreeSet<_> = found.iter().flat_map(|d| self.packages_of(d)).collect();
        if !packages.is_empty() || !acts.is_empty() {
            packages.extend(self.companions());
        }
        acts.extend(self.packages(packages));
        if acts.is_empty() {
            return match found.first() {
                None => Ok(Vec::new()),
                Some(driver) => {
                    let sentence =
                        gpusetup_causes::unknown_origin(driver.version, &driver.evidence);
                    Err(Conflict::blocked(CheckId::GS409, sentence)
                        .hint(gpusetup_causes::REMOVE_UNKNOWN))
                }
            };
        }
        if self.facts.driver_is_loaded() == Some(true) {
            warnings.push(Warning::new(
                CheckId::GS501,
                "the driver's modules stay loaded until the next reboot",
            ));
        }
        if let Some(manager) = self.facts.os.package_manager {
            acts.splice(
                0..0,
                release_holds_and_stop_units(self.facts, manager, &self.database.companions),
            );
        }
        if self.is_file(FABRIC_MODULES) {
            acts.push(Act::needed(Operation::Remove(Remove {
                path: FABRIC_MODULES.into(),
            })));
        }
        let of_modules = self
            .database
            .companions
            .iter()
            .filter_map(Companion::module_file);
        let loading = of_modules.filter(|path| self.is_file(path));
        acts.extend(loading.map(remove));
        // Without the driver, the unit would fail at every boot.
        let restores = [MIG_WANTED, MIG_UNIT, MIG_LAYOUT].map(Path::new);
        acts.extend(
            restores
                .into_iter()
                .filter(|path| exists(self.facts, path))
                .map(remove),
        );
        let versions: Vec<_> = found.iter().map(|d| d.version.to_string()).collect();
        let title = format!("Remove the NVIDIA driver {}", all_of(&versions));
        let mut steps = vec![step(
            StepId::RemoveDriver,
            title,
            "with the tool that installed it",
            acts,
        )];
        steps.extend(self.gpu_settings());
        if self.is_file(BLACKLIST) {
            let mut acts = vec![remove(BLACKLIST)];
            acts.extend(rebuild_images(self.facts).map(Act::needed));
            const WHY: &str = "without NVIDIA's driver, nouveau provides the display";
            steps.push(step(
                StepId::BlacklistNouveau,
                "Allow nouveau to use the GPUs again",
                WHY,
                acts,
            ));
        }
        let (driver, toolkit) = self.repositories();
        let stays =
            toolkit.is_there(self.database, self.facts) && !self.removes_packaged_toolkits();
        steps.extend(driver.removal(self.database, self.facts, stays.then_some(&toolkit)));
        let of_tools = self.repository(RepositoryUse::BuildTools);
        steps.extend(of_tools.removal(self.database, self.facts, None));
        Ok(steps)
    }

    /// Removes the toolkit for containers, what engines have of it, and its repository.
    fn container_toolkit(&self, warnings: &mut Vec<Warning>) -> Result<Vec<Step>, Conflict> {
        let Inventory {
            installed,
            originals,
            specifications,
            ..
        } = self.inventory;
        let removal = ContainerRemoval {
            database: self.database,
            facts: self.facts,
            installed,
            originals,
            specifications,
        };
        let repository = self.repository(RepositoryUse::Containers);
        let steps = removal.step(warnings)?.into_iter();
        Ok(steps
            .chain(repository.removal(self.database, self.facts, None))
            .collect())
    }

    /// A repository that gpusetup may have added.
    fn repository(&self, of: RepositoryUse) -> Added<'_> {
        let notes = self.inventory.notes.get(&of).map_or(&[][..], Vec::as_slice);
        Added { of, notes }
    }

    /// Those of the driver, and of the toolkit, which share keys.
    fn repositories(&self) -> (Added<'_>, Added<'_>) {
        (
            self.repository(RepositoryUse::Driver),
            self.repository(RepositoryUse::Toolkit),
        )
    }

    /// Whether no toolkit of packages stays below the prefix.
    fn removes_packaged_toolkits(&self) -> bool {
        let mut packaged = self
            .facts
            .toolkits
            .iter()
            .filter(|t| t.origin == Origin::Dpkg && t.path.parent() == Some(self.prefix))
            .peekable();
        packaged.peek().is_some() && packaged.all(|t| self.goes(t))
    }

    /// Removes the toolkit's repository with the last toolkit from there. The driver's repository
    /// has the same keys.
    fn toolkit_repository(&self) -> Option<Step> {
        let (driver, toolkit) = self.repositories();
        let shares = driver.is_there(self.database, self.facts);
        if self.removes_packaged_toolkits() {
            toolkit.removal(self.database, self.facts, shares.then_some(&driver))
        } else {
            None
        }
    }

    /// The installed packages of a toolkit that own no file in its directory, and, with the last
    /// toolkit from gpusetup's repository, those that all its toolkits share.
    fn packages_of_toolkit(&self, toolkit: &Toolkit) -> BTreeSet<String> {
        let known = toolkit_repository(
            self.database,
            distribution(self.database, self.facts),
            self.facts,
        );
        let Some((_, packages)) = known.filter(|_| toolkit.origin == Origin::Dpkg) else {
            return BTreeSet::new();
        };
        let is_ours = self.repositories().1.is_there(self.database, self.facts);
        let is_last = is_ours && self.removes_packaged_toolkits();
        let series = format!("-{}-{}", toolkit.version.major, toolkit.version.minor);
        let patterns = packages.patterns_for(toolkit.version).into_iter();
        let patterns: Vec<_> = patterns
            .filter(|p| is_last || p.starts_with("cuda-") && p.contains(&series))
            .collect();
        self.inventory
            .installed
            .keys()
            .filter(|name| {
                patterns
                    .iter()
                    .any(|p| pattern_matches(p.as_bytes(), name.as_bytes()))
            })
            .cloned()
            .collect()
    }

    /// Removes what sets GPUs and modules of a driver that is no longer there.
    fn gpu_settings(&self) -> Vec<Step> {
        let mut steps = Vec::new();
        const WHY: &str = "they are of the driver that is removed";
        if self.is_file(SETTINGS_UNIT) {
            let disable = Act::needed(Service {
                unit: SETTINGS_SERVICE.to_owned(),
                enabled: false,
                restart: false,
            });
            let acts = vec![disable, remove(SETTINGS_UNIT)];
            steps.push(step(
                StepId::GpuSettings,
                "Remove the settings of the GPUs",
                WHY,
                acts,
            ));
        }
        for (id, path, title) in StepId::own_files().filter(|(_, path, _)| self.is_file(path)) {
            steps.push(step(id, title, WHY, vec![remove(path)]));
        }
        if self.is_file(MODULE_OPTIONS) {
            // The removal of the blacklist makes them again, too.
            let images = rebuild_images(self.facts)
                .filter(|_| !self.is_file(BLACKLIST))
                .map(Act::needed);
            let acts = [remove(MODULE_OPTIONS)].into_iter().chain(images).collect();
            steps.push(step(
                StepId::ModuleOptions,
                "Remove the options of the kernel modules",
                WHY,
                acts,
            ));
        }
        steps
    }

    /// The packages with the driver's version, and those that gpusetup would install with them.
    fn packages_of(&self, driver: &InstalledDriver) -> Vec<String> {
        let version = driver.version.to_string();
        let offers = distribution(self.database, self.facts)
            .map(|d| d.drivers.as_slice())
            .unwrap_or_default();
        let all = self.inventory.installed.iter();
        all.filter(|(name, has)| {
            gpusetup_packages::upstream(has) == version
                || offers
                    .iter()
                    .any(|offer| offer.packages.contains(name) || offer.has_signed_modules(name))
        })
        .map(|(name, _)| name.clone())
        .collect()
    }

    /// The installed packages of companions, which are useless without a driver.
    fn companions(&self) -> impl Iterator<Item = String> {
        self.inventory
            .installed
            .keys()
            .filter(|name| self.database.companions.iter().any(|of| of.has_part(name)))
            .cloned()
    }

    /// Removes the files of companions that came from archives, for a driver without packages.
    fn archived_companions(&self) -> Vec<Act> {
        let unpacked = self
            .database
            .companions
            .iter()
            .filter(|of| {
                !self
                    .inventory
                    .installed
                    .keys()
                    .any(|name| of.is_package(name))
            })
            .flat_map(|of| &of.archive);
        // A folder takes what is in it along.
        let paths: Vec<_> = unpacked
            .map(|file| &file.to)
            .filter(|to| exists(self.facts, to))
            .collect();
        let outermost = paths.iter().filter(|to| {
            let mut others = paths.iter().filter(|other| other != to);
            !others.any(|other| Path::new(to).starts_with(other))
        });
        outermost.map(remove).collect()
    }

    fn toolkit(&self, toolkit: &Toolkit) -> Result<Step, Conflict> {
        let (version, path) = (toolkit.version, &toolkit.path);
        let below = path.parent() == Some(self.prefix);
        if !below && toolkit.origin != Origin::Dpkg {
            let sentence = gpusetup_causes::outside_prefix(version, path, self.prefix);
            let conflict =
                self.with_another_default(toolkit, Conflict::blocked(CheckId::GS715, sentence));
            // By any other name of its directory, gpusetup would not find it there.
            let is_usual = path
                .file_name()
                .is_some_and(|name| name == version.directory().as_str());
            return Err(match path.parent().filter(|_| is_usual) {
                Some(other) => conflict.hint(Hint::Command(format!(
                    "gpusetup uninstall --cuda {version} --prefix {} --dry-run",
                    quoted_path(other)
                ))),
                None => conflict,
            });
        }
        let owners = self.inventory.owners.get(path).cloned().unwrap_or_default();
        let mut acts: Vec<_> = self
            .packages(&owners | &self.packages_of_toolkit(toolkit))
            .into_iter()
            .collect();
        let mut why = "with the package manager that installed it";
        if toolkit.origin == Origin::Runfile {
            why = "with its own uninstaller; other files in its directory are removed, too";
            let new = path.join("bin/cuda-uninstaller");
            let old = path.join(format!(
                "bin/uninstall_cuda_{}.{}.pl",
                version.major, version.minor
            ));
            // The older one is a script without options.
            let is_new = version
                >= CudaVersion {
                    major: 10,
                    minor: 1,
                    patch: None,
                };
            let argv = if is_new {
                vec![shown(&new), "--silent".to_owned()]
            } else {
                vec![shown(&old)]
            };
            acts.push(uninstaller(argv, vec![path.clone()]));
        } else if toolkit.origin == Origin::Archives {
            why = "unpacked from NVIDIA's component archives; other files in its directory are removed, too";
        } else if acts.is_empty() {
            why = "it is not known what installed it, so its directory is deleted";
        }
        if below {
            acts.push(Act::needed(Operation::Remove(Remove {
                path: path.clone(),
            })));
        }
        Ok(step(
            StepId::RemoveCuda,
            format!("Remove CUDA {version} from {}", quoted_path(path)),
            why,
            acts,
        ))
    }

    /// A refusal to remove a toolkit outside of the prefix, with the command that first makes
    /// another one the default.
    fn with_another_default(&self, toolkit: &Toolkit, conflict: Conflict) -> Conflict {
        let is_default = self
            .facts
            .default_toolkit(self.prefix)
            .is_some_and(|default| default.path == toolkit.path);
        let stays: Vec<_> = self
            .facts
            .toolkits
            .iter()
            .filter(|t| !self.goes(t))
            .collect();
        match self.next_default(&stays).filter(|_| is_default) {
            Some((next, _)) => conflict
                .hint("it is the default toolkit: first make another one the default")
                .hint(Hint::Command(format!(
                    "sudo gpusetup use cuda {}",
                    next.version
                ))),
            None => conflict,
        }
    }

    /// Removes cuDNN and other add-ons outside of toolkits; those in a toolkit are removed with it.
    fn add_ons(&self) -> Vec<Step> {
        let mut steps = Vec::new();
        let toolkits = &self.facts.toolkits;
        for found in self.facts.add_on_files() {
            if toolkits
                .iter()
                .any(|t| found.directory.starts_with(&t.path))
            {
                continue;
            }
            let owners: BTreeSet<_> = files(found)
                .filter_map(|f| self.inventory.owners.get(&f))
                .flatten()
                .cloned()
                .collect();
            let unowned = files(found).filter(|f| !self.inventory.owners.contains_key(f));
            let acts = self.packages(owners).into_iter();
            let acts = acts
                .chain(unowned.map(|path| Act::needed(Operation::Remove(Remove { path }))))
                .collect();
            let version = found.version.map(|v| format!(" {v}")).unwrap_or_default();
            let name = self.database.add_on_title(found.add_on);
            let title = format!(
                "Remove {name}{version} from {}",
                quoted_path(&found.directory)
            );
            steps.push(step(
                StepId::RemoveAddOn(found.add_on),
                title,
                "it is outside of any toolkit",
                acts,
            ));
        }
        steps
    }

    /// Updates settings that point to removed software: the default toolkit, the loader's path
    /// (with edits of files that others wrote), the shells' PATH.
    fn settings(&self, of_loader: Vec<Act>, warnings: &mut Vec<Warning>) -> Vec<Step> {
        let mut steps = Vec::new();
        let (gone, stays): (Vec<_>, Vec<_>) =
            self.facts.toolkits.iter().partition(|t| self.goes(t));
        let was_default = self
            .facts
            .default_toolkit(self.prefix)
            .is_some_and(|t| gone.iter().any(|gone| gone.path == t.path));
        let next = if was_default {
            self.next_default(&stays)
        } else {
            None
        };
        let not_run =
            next.and_then(|(toolkit, _)| default_not_run(self.database, self.facts, toolkit));
        warnings.extend(not_run.filter(|_| !self.unwanted.driver));
        if toolkit_packages::is_alternative(self.facts, self.prefix) {
            steps.extend(self.alternatives(&gone, &stays, next));
        } else if was_default {
            steps.push(self.default_link(next));
        }
        steps.extend(self.other_links(warnings));
        let last = !gone.is_empty() && stays.is_empty() && !self.is_default_elsewhere();
        let mut loader = Vec::new();
        if last && self.is_file(LOADER_PATH) {
            loader.push(remove(LOADER_PATH));
        }
        loader.extend(of_loader);
        loader.push(Act::needed(rebuild_cache()));
        const WHY: &str = "programs must not find removed libraries";
        steps.push(step(
            StepId::Ldconfig,
            "Update the loader's configuration",
            WHY,
            loader,
        ));
        if last && self.is_file(PROFILE) {
            const WHY: &str = "no toolkit remains";
            steps.push(step(
                StepId::Environment,
                "Remove the toolkit from PATH",
                WHY,
                vec![remove(PROFILE)],
            ));
        }
        steps
    }

    /// Whether gpusetup's settings may be those of a default toolkit below the usual prefix, and
    /// this is another prefix.
    fn is_default_elsewhere(&self) -> bool {
        let usual = Path::new(PREFIX);
        self.prefix != usual && self.facts.node(&usual.join("cuda")).is_some()
    }

    /// Removes other links to the removed toolkits below the prefix, such as `cuda-12`. Those below
    /// the usual prefix are named.
    fn other_links(&self, warnings: &mut Vec<Warning>) -> Option<Step> {
        let default = self.prefix.join("cuda");
        let folders = [Some(self.prefix), Some(Path::new(PREFIX))];
        let links = self.facts.paths.keys().filter(|path| {
            let toolkit = self.facts.toolkit_behind(path);
            **path != default
                && folders.contains(&path.parent())
                && toolkit.is_some_and(|toolkit| self.goes(toolkit))
        });
        let (below, elsewhere): (Vec<_>, Vec<_>) =
            links.partition(|path| path.parent() == Some(self.prefix));
        warnings.extend(elsewhere.into_iter().map(|path| left_link(path)));
        let acts: Vec<_> = below.into_iter().map(remove).collect();
        const WHY: &str = "they would lead to a directory that is gone";
        (!acts.is_empty()).then(|| {
            step(
                StepId::FixSymlinks,
                "Remove other links to the toolkit",
                WHY,
                acts,
            )
        })
    }

    /// The link to the toolkit that becomes the default; without one, its removal.
    fn default_link(&self, next: Option<(&Toolkit, &'static str)>) -> Step {
        let path = self.prefix.join("cuda");
        let (title, operation, why) =
            match next.and_then(|(t, why)| Some((t, t.path.file_name()?, why))) {
                Some((toolkit, name, why)) => {
                    let link = Link {
                        path,
                        target: name.into(),
                        soname: None,
                    };
                    (becomes_default(toolkit), Operation::Link(link), why)
                }
                None => {
                    let title = format!("Remove the link {}", shown(&path));
                    (
                        title,
                        Operation::Remove(Remove { path }),
                        "no toolkit remains",
                    )
                }
            };
        step(
            StepId::FixSymlinks,
            title,
            why,
            vec![Act::needed(operation)],
        )
    }

    /// Takes the removed toolkits out of the system's alternatives, and chooses the one that
    /// becomes the default.
    fn alternatives(
        &self,
        gone: &[&Toolkit],
        stays: &[&Toolkit],
        next: Option<(&Toolkit, &'static str)>,
    ) -> Option<Step> {
        // Packages take their own out.
        let mut acts: Vec<_> = gone
            .iter()
            .filter(|toolkit| {
                toolkit.origin != Origin::Dpkg
                    && self.facts.toolkit_alternatives.contains(&toolkit.path)
            })
            .map(|t| toolkit_packages::deregister(&t.path))
            .collect();
        let (title, why) = match next {
            Some((toolkit, why)) => {
                acts.extend(toolkit_packages::choose_next(
                    self.facts,
                    self.prefix,
                    toolkit,
                    stays,
                ));
                (becomes_default(toolkit), why)
            }
            None => (
                "Remove the toolkit from the alternatives".to_owned(),
                "its directory is removed",
            ),
        };
        let acts: Vec<_> = acts.into_iter().map(Act::needed).collect();
        (!acts.is_empty()).then(|| step(StepId::FixSymlinks, title, why, acts))
    }

    /// The toolkit that becomes the default, and why: the newest that remains, of those whose
    /// programs the driver runs if there is one.
    fn next_default<'t>(&self, stays: &[&'t Toolkit]) -> Option<(&'t Toolkit, &'static str)> {
        let below: Vec<_> = stays
            .iter()
            .copied()
            .filter(|t| t.path.parent() == Some(self.prefix))
            .collect();
        let newest = *below.last()?;
        let run = below.iter().rfind(|toolkit| {
            self.unwanted.driver || too_old(self.database, self.facts, toolkit).is_none()
        });
        match run {
            Some(toolkit) if toolkit.path != newest.path => Some((
                toolkit,
                "it is the newest remaining toolkit whose programs the driver runs",
            )),
            _ => Some((newest, "it is the newest remaining toolkit")),
        }
    }

    /// Takes lines that name the removed toolkits out of the loader's files, and out of those that
    /// shells read at their start.
    fn path_lines(&self, warnings: &mut Vec<Warning>) -> (Vec<Act>, Vec<Act>) {
        let (gone, stays): (Vec<_>, Vec<_>) =
            self.facts.toolkits.iter().partition(|t| self.goes(t));
        let gone = gone
            .into_iter()
            .filter(|toolkit| toolkit.has_own_directory());
        let mut gone: Vec<_> = gone.map(|toolkit| toolkit.path.clone()).collect();
        let (mut of_loader, mut of_shells) = (Vec::new(), Vec::new());
        if gone.is_empty() {
            return (of_loader, of_shells);
        }
        // Without a toolkit, the link goes too.
        gone.extend(stays.is_empty().then(|| self.prefix.join("cuda")));
        let files = &self.inventory.path_files.read;
        let inherited = path_lines::inherited(files, &gone);
        for file in files.iter().filter(|file| !is_module_of(file, &gone)) {
            let (operation, left) = path_lines::edit(file, &gone, &inherited);
            if file.syntax == Some(Syntax::Loader) {
                &mut of_loader
            } else {
                &mut of_shells
            }
            .extend(operation.map(Act::needed));
            warnings.extend(
                left.into_iter()
                    .map(|text| Warning::new(CheckId::GS701, text)),
            );
        }
        let unread = &self.inventory.path_files.left;
        if !unread.is_empty() {
            let unread = unread.join("; ");
            let text = format!("not looked at for lines that name the toolkit: {unread}");
            warnings.push(Warning::new(CheckId::GS701, text));
        }
        (of_loader, of_shells)
    }

    /// Removes the module files that gpusetup wrote for the removed toolkits.
    fn module_files(&self) -> Option<Step> {
        let gone = self
            .facts
            .toolkits
            .iter()
            .filter(|toolkit| self.goes(toolkit));
        let gone: Vec<_> = gone.map(|toolkit| toolkit.path.clone()).collect();
        let modules = self
            .inventory
            .path_files
            .read
            .iter()
            .filter(|file| is_module_of(file, &gone));
        let acts: Vec<_> = modules
            .map(|file| {
                Act::needed(Operation::Remove(Remove {
                    path: file.path.clone(),
                }))
            })
            .collect();
        const WHY: &str =
            "gpusetup wrote them (use cuda --module-files), and they name a directory that is gone";
        (!acts.is_empty()).then(|| {
            step(
                StepId::Environment,
                "Remove the module files of the toolkit",
                WHY,
                acts,
            )
        })
    }

    fn packages(&self, names: BTreeSet<String>) -> Option<Act> {
        let manager = self
            .facts
            .os
            .package_manager
            .filter(|_| !names.is_empty())?;
        let remove = names.into_iter().collect();
        Some(Act::needed(Operation::Packages(Packages::to_remove(
            manager, remove,
        ))))
    }

    fn is_file(&self, path: &str) -> bool {
        matches!(self.facts.node(Path::new(path)), Some(Node::File { .. }))
    }
}

fn remove(path: impl Into<PathBuf>) -> Act {
    Act::needed(Remove { path: path.into() })
}

/// Whether gpusetup wrote the file for one of these toolkits.
fn is_module_of(file: &PathFile, toolkits: &[PathBuf]) -> bool {
    toolkits
        .iter()
        .any(|toolkit| file.is_own_module_of(toolkit))
}

fn becomes_default(toolkit: &Toolkit) -> String {
    format!("Make CUDA {} the default toolkit", toolkit.version)
}

/// The warning of a link outside of the prefix that leads to a removed toolkit.
fn left_link(path: &Path) -> Warning {
    let fix = if path.ends_with("cuda") {
        "`sudo gpusetup use cuda VERSION` makes another toolkit the default".to_owned()
    } else {
        format!("`sudo rm {}` removes it", quoted_path(path))
    };
    let text = format!(
        "the link {} leads to the removed toolkit and stays: {fix}",
        quoted_path(path)
    );
    Warning::new(CheckId::GS701, text)
}

fn shown(path: &Path) -> String {
    quoted_path(path)
}

fn uninstaller<S: Into<String>>(argv: impl IntoIterator<Item = S>, removes: Vec<PathBuf>) -> Act {
    Act::needed(Run::new(argv, 3600).removing(removes))
}

impl Plan {
    /// Warns that these packages are not known, where it removes any.
    pub fn not_knowing_what_goes_along(mut self) -> Self {
        if self
            .acts()
            .any(|act| matches!(act.operation, Operation::Packages(_)))
        {
            let text = "which other packages need the removed ones, and are also removed, is not known: nothing that only looks \
                        runs a program of a tree";
            self.warnings.push(Warning::new(CheckId::GS402, text));
        }
        self
    }

    /// Adds the packages that must also be removed because they depend on removed ones (`along`
    /// returns them for one transaction), and a warning that names them.
    pub fn taking_along(
        mut self,
        mut along: impl FnMut(PackageManager, &[String]) -> Vec<String>,
    ) -> Self {
        let mut all = BTreeSet::new();
        for act in self.steps.iter_mut().flat_map(|s| &mut s.operations) {
            if let Operation::Packages(packages) = &mut act.operation {
                let more = along(packages.manager, &packages.remove);
                all.extend(more.iter().cloned());
                packages.remove.extend(more);
            }
        }
        if all.is_empty() {
            return self;
        }
        let names: Vec<_> = all.into_iter().collect();
        let text = format!(
            "packages that depend on the removed ones are also removed: {}",
            names.join(", ")
        );
        self.warnings.push(Warning::new(CheckId::GS402, text));
        self.summed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpusetup_data::embedded;
    use gpusetup_host::{GpuSource, ProbeOptions, probe};
    use gpusetup_resolve::ConflictKind;
    use gpusetup_system::System;
    use gpusetup_text::paths::{CUDA_ALTERNATIVE, CUDA_ALTERNATIVES_DPKG};

    /// A host with a packaged driver, a toolkit from a runfile with gpusetup's settings, and a
    /// toolkit of unknown origin.
    fn host() -> (Facts, Inventory) {
        host_with(|on| {
            on.link("/usr/local/cuda", Path::new("cuda-12.8"))
                .expect("linked")
        })
    }

    /// The same with this default toolkit.
    fn host_with(default: impl FnOnce(&System)) -> (Facts, Inventory) {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let on = System::at(dir.path());
        let file = |path: &str, text: &str| {
            on.make_directories(Path::new(path).parent().expect("absolute"), 0o755)
                .expect("made");
            on.write(path, text.as_bytes(), 0o755).expect("written");
        };
        file(
            "/etc/os-release",
            "ID=debian\nVERSION_ID=\"12\"\nPRETTY_NAME=\"Debian 12\"\n",
        );
        file("/usr/bin/apt-get", "");
        file(
            "/var/lib/dpkg/status",
            "Package: libcuda1\nStatus: install ok installed\nVersion: 535.261.03-1\n",
        );
        for version in ["11.2", "12.8"] {
            file(&format!("/usr/local/cuda-{version}/bin/nvcc"), "");
        }
        file("/usr/local/cuda-12.8/bin/cuda-uninstaller", "");
        default(&on);
        for path in [BLACKLIST, LOADER_PATH, PROFILE, MIG_UNIT, MIG_LAYOUT] {
            file(path, "ours\n");
        }
        let look = ProbeOptions {
            prefix: "/usr/local".into(),
            cache: "/c".into(),
            gpus: GpuSource::Bus,
        };
        let facts = probe(&on, &embedded(), &look).expect("a host");
        let installed = [
            ("libcuda1", "535.261.03-1"),
            ("nvidia-smi", "535.261.03-1"),
            ("bash", "5.2-1"),
        ];
        let installed = installed.map(|(n, v)| (n.to_owned(), v.to_owned())).into();
        (
            facts,
            Inventory {
                installed,
                ..Inventory::default()
            },
        )
    }

    fn steps(unwanted: &Unwanted) -> Vec<String> {
        let (facts, inventory) = host();
        let request = Request::default_on("2026-11-21");
        let plan =
            removal(&embedded(), facts, &inventory, unwanted, request).expect("a removal plan");
        let operations = |s: &Step| {
            s.operations
                .iter()
                .map(|a| a.operation.describe())
                .collect::<Vec<_>>()
                .join("; ")
        };
        plan.steps
            .iter()
            .map(|s| format!("{}: {}", s.id, operations(s)))
            .collect()
    }

    #[test]
    fn one_toolkit_goes_and_the_others_stay() {
        let cuda = |version: &str| Unwanted {
            cuda: vec![version.parse().expect("valid")],
            ..Unwanted::default()
        };
        assert_eq!(
            steps(&cuda("11.2")),
            [
                "remove-cuda: remove /usr/local/cuda-11.2",
                "ldconfig: run ldconfig"
            ]
        );
        assert_eq!(
            steps(&cuda("12.8")),
            [
                "remove-cuda: run /usr/local/cuda-12.8/bin/cuda-uninstaller --silent; remove /usr/local/cuda-12.8",
                "fix-symlinks: link /usr/local/cuda -> cuda-11.2",
                "ldconfig: run ldconfig",
            ]
        );
        let (mut facts, inventory) = host();
        facts.toolkits[0].origin = Origin::Archives;
        let plan = removal(
            &embedded(),
            facts,
            &inventory,
            &cuda("11.2"),
            Request::default_on("2026-11-21"),
        );
        assert!(
            plan.expect("a plan").steps[0]
                .why
                .contains("component archives")
        );
        let (facts, inventory) = host();
        // Its driver runs CUDA 12.8, and would not run CUDA 13.
        let newer = Toolkit {
            version: "13.0".parse().expect("valid"),
            path: "/usr/local/cuda-13.0".into(),
            ..facts.toolkits[0].clone()
        };
        let with_newer = Facts {
            toolkits: facts.toolkits.iter().cloned().chain([newer]).collect(),
            ..facts
        };
        let removal_of = |facts: Facts, version: &str| {
            removal(
                &embedded(),
                facts,
                &inventory,
                &cuda(version),
                Request::default_on("2026-11-21"),
            )
        };
        let plan = removal_of(with_newer.clone(), "12.8").expect("a plan");
        let next = plan
            .steps
            .iter()
            .find(|step| step.id == StepId::FixSymlinks)
            .expect("the default goes");
        assert_eq!(
            (next.title.as_str(), plan.warnings.len()),
            ("Make CUDA 11.2 the default toolkit", 0)
        );
        let newest_alone = Facts {
            toolkits: with_newer.toolkits[1..].to_vec(),
            ..with_newer
        };
        let plan = removal_of(newest_alone.clone(), "12").expect("a plan");
        assert!(
            plan.warnings[0]
                .text
                .contains("CUDA 13.0 do not run on driver 535.261.03"),
            "{:?}",
            plan.warnings
        );
        let several = removal_of(
            Facts {
                toolkits: vec![
                    newest_alone.toolkits[0].clone(),
                    Toolkit {
                        version: "12.4".parse().expect("valid"),
                        path: "/usr/local/cuda-12.4".into(),
                        ..newest_alone.toolkits[0].clone()
                    },
                ],
                ..newest_alone
            },
            "12",
        );
        let several = several.expect_err("which one?").to_string();
        assert!(
            several.contains("several toolkits: /usr/local/cuda-12.8 and /usr/local/cuda-12.4"),
            "{several}"
        );
        let (facts, inventory) = host();
        let conflict = removal(
            &embedded(),
            facts,
            &inventory,
            &cuda("12.4"),
            Request::default_on("2026-11-21"),
        );
        let conflict = conflict.expect_err("it is not installed");
        assert_eq!(conflict.kind, ConflictKind::Request);
        assert!(
            conflict.to_string().contains("CUDA 12.4 is not installed"),
            "{conflict}"
        );
    }

    #[test]
    fn a_default_among_alternatives_goes_to_the_newest_that_remains() {
        let (facts, inventory) = host_with(|on| {
            for folder in ["/etc/alternatives", "/var/lib/dpkg/alternatives"] {
                on.make_directories(folder, 0o755).expect("made");
            }
            on.link("/usr/local/cuda", Path::new(CUDA_ALTERNATIVE))
                .expect("linked");
            on.link(CUDA_ALTERNATIVE, Path::new("/usr/local/cuda-12.8"))
                .expect("linked");
            let list = "auto\n/usr/local/cuda\n\n/usr/local/cuda-12.8\n1\n\n";
            on.write(CUDA_ALTERNATIVES_DPKG, list.as_bytes(), 0o644)
                .expect("written");
        });
        let fix = |origin: Origin, version: &str| {
            let mut facts = facts.clone();
            facts.toolkits[0].origin = origin;
            let unwanted = Unwanted {
                cuda: vec![version.parse().expect("valid")],
                ..Unwanted::default()
            };
            let plan = removal(
                &embedded(),
                facts,
                &inventory,
                &unwanted,
                Request::default_on("2026-11-21"),
            );
            let steps = plan.expect("a plan").steps;
            let step = steps
                .into_iter()
                .find(|step| step.id == StepId::FixSymlinks)?;
            let acts: Vec<_> = step
                .operations
                .iter()
                .map(|act| act.operation.describe())
                .collect();
            Some(format!(
                "{}: {}",
                step.title,
                acts.join("; ").replace("run update-alternatives ", "")
            ))
        };
        let chosen = "Make CUDA 11.2 the default toolkit: --remove cuda /usr/local/cuda-12.8; ";
        let by_hand = "--install /usr/local/cuda cuda /usr/local/cuda-11.2 1; --set cuda /usr/local/cuda-11.2";
        assert_eq!(
            fix(Origin::Unknown, "12.8"),
            Some(format!("{chosen}{by_hand}"))
        );
        assert_eq!(
            fix(Origin::Dpkg, "12.8"),
            Some(format!("{chosen}--auto cuda"))
        );
        assert_eq!(fix(Origin::Unknown, "11.2"), None, "it is no alternative");
    }

    #[test]
    fn a_driver_goes_by_its_packages_and_nouveau_may_come_back() {
        assert_eq!(
            steps(&Unwanted {
                driver: true,
                ..Unwanted::default()
            }),
            [
                "remove-driver: remove libcuda1, nvidia-smi; remove /etc/systemd/system/gpusetup-mig.service; \
                 remove /etc/gpusetup/mig.yaml",
                "blacklist-nouveau: remove /etc/modprobe.d/gpusetup-nouveau.conf",
                "ldconfig: run ldconfig",
            ]
        );
    }

    #[test]
    fn what_cannot_be_without_it_is_named() {
        let (facts, inventory) = host();
        let unwanted = Unwanted {
            driver: true,
            ..Unwanted::default()
        };
        let plan = removal(
            &embedded(),
            facts,
            &inventory,
            &unwanted,
            Request::default_on("2026-11-21"),
        )
        .expect("a plan");
        let before = plan.fingerprint();
        let plan = plan.taking_along(|_, remove| {
            assert_eq!(remove, ["libcuda1", "nvidia-smi"]);
            vec!["ffmpeg-cuda".to_owned()]
        });
        assert!(
            plan.steps[0].operations[0]
                .operation
                .describe()
                .ends_with(", ffmpeg-cuda")
        );
        assert!(
            plan.warnings[0].text.contains("ffmpeg-cuda") && plan.totals.remove == 6,
            "{:?}",
            plan.totals
        );
        assert_ne!(plan.fingerprint(), before);
    }

    #[test]
    fn with_everything_go_the_settings() {
        let steps = steps(&Unwanted {
            driver: true,
            all_cuda: true,
            ..Unwanted::default()
        });
        for path in [BLACKLIST, LOADER_PATH, PROFILE, "/usr/local/cuda"] {
            assert!(
                steps.iter().any(|s| s.contains(&format!("remove {path}"))),
                "{path}: {steps:?}"
            );
        }
    }
}
