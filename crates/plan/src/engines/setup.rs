//! What a host needs for containers with GPUs: the engines, the version of the toolkit, and the
//! files that change.

use super::{containerd, crio, daemon_json, low_level};
use crate::Act;
use gpusetup_database::compat::{
    ContainerToolkit, Engine, EngineForm, EngineId, EnginePackages, PackageRepository,
};
use gpusetup_database::version::AddOnVersion;
use gpusetup_host::{
    BYTE_ORDER_MARK, ConfigError, ContainerHost, Facts, InstalledEngine, has_nvidia_runtime,
    low_level_runtimes, packaged_version,
};
use gpusetup_operation::Run;
use gpusetup_resolve::{ContainerRequest, KnownHost, Request};
use gpusetup_text::text::{hidden_in_lines, line_and_column, quoted_path};
use std::borrow::Cow;
use std::path::{Path, PathBuf};

/// What a plan sets up for containers.
pub struct Containers<'a> {
    /// The toolkit.
    pub toolkit: &'a ContainerToolkit,
    /// What was asked for.
    pub request: &'a ContainerRequest,
    /// What the host has.
    pub host: Cow<'a, ContainerHost>,
    /// The engines that the host has, and the one that is installed.
    pub engines: Vec<EngineSetup<'a>>,
    /// The repository to add; none if one that has the toolkit is enabled, or the toolkit is there.
    pub added: Option<&'a PackageRepository>,
    /// The version of the toolkit.
    pub version: AddOnVersion,
    /// The version of its packages.
    pub package_version: String,
    /// Whether an installed toolkit stays as it is.
    pub is_kept: bool,
}

/// An engine that the plan sets up.
pub struct EngineSetup<'a> {
    /// The engine.
    pub engine: &'a Engine,
    /// The installed one; none if the plan installs it.
    pub found: Option<InstalledEngine>,
    /// Its version under this plan, if known.
    pub version: Option<AddOnVersion>,
    /// The distribution's packages that install it.
    pub packages: Option<&'a EnginePackages>,
    /// Whether the installed package gives way to the one of a lock file.
    pub is_replaced: bool,
}

/// A file that is written, and what it is made from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileEdit {
    /// The file.
    pub path: PathBuf,
    /// Its text now; none if it does not exist.
    pub before: Option<String>,
    /// Its permission bits.
    pub mode: u32,
    /// Its text afterwards.
    pub content: String,
}

/// A file that cannot be merged, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokenFile {
    /// The file.
    pub path: PathBuf,
    /// The reason.
    pub why: String,
    /// The line with the reason, from 1.
    pub line: Option<usize>,
}

impl BrokenFile {
    fn new(path: impl Into<PathBuf>, e: &ConfigError) -> Self {
        Self {
            path: path.into(),
            why: e.to_string(),
            line: e.line(),
        }
    }
}

impl<'a> Containers<'a> {
    /// What the request needs on a host; none if it is not about containers.
    pub fn of<'d: 'a, 'f: 'a>(host: &KnownHost<'d, 'f>, request: &'a Request) -> Option<Self> {
        let asked = request.settings.containers.as_ref()?;
        let toolkit = host.database.container_toolkit()?;
        let seen = host.facts.containers();
        let engine_of = |engine: &'d Engine, found: Option<InstalledEngine>| {
            let packages = host
                .distribution
                .and_then(|distribution| engine.packages_on(distribution));
            let locked = asked
                .locked_engine
                .as_deref()
                .filter(|_| packages.is_some() && asked.engine == Some(engine.id));
            let installed = found
                .as_ref()
                .and_then(|found| found.package_version.as_deref());
            let is_replaced = installed
                .zip(locked)
                .is_some_and(|(installed, locked)| installed != locked);
            let of_packages = || {
                let packages = packages?;
                let of_release = || packages.version_on(host.distribution?);
                offered(host.facts, &packages.names).or_else(of_release)
            };
            let version = match &found {
                Some(found) if !is_replaced => found.version,
                _ => locked.and_then(packaged_version).or_else(of_packages),
            };
            EngineSetup {
                engine,
                found,
                version,
                packages,
                is_replaced,
            }
        };
        let has = |id: EngineId| {
            seen.engines.iter().any(|found| found.id == id) || asked.engine == Some(id)
        };
        // What Docker runs for itself needs nothing, unless Kubernetes uses it too.
        let counts = |engine: &Engine| {
            !engine.part_of.is_some_and(has)
                || engine
                    .used_by
                    .iter()
                    .any(|user| seen.users.contains(&user.into()))
        };
        let known = host.database.engines.iter().filter(|engine| counts(engine));
        let engines = known.filter_map(|engine| {
            let found = seen
                .engines
                .iter()
                .find(|found| found.id == engine.id)
                .cloned();
            (found.is_some() || asked.engine == Some(engine.id)).then(|| engine_of(engine, found))
        });
        let engines = engines.collect();
        let installed = seen.toolkit.as_ref().map(|toolkit| toolkit.version);
        let locked = asked.locked_toolkit.as_ref();
        // Whatever the repositories have, a lock file decides, and one of another version does not
        // stay.
        let is_locked = locked.is_none_or(|locked| installed.flatten() == packaged_version(locked));
        let is_enabled = host.facts.has_enabled(&toolkit.seen_as);
        let offered = toolkit
            .packages
            .first()
            .and_then(|name| host.facts.offered.as_ref()?.get(name));
        // The lists name what is installed, too. Without the repository, that is no offer.
        let offered = offered
            .filter(|offered| is_enabled || packaged_version(offered) != installed.flatten());
        let planned = locked.or(offered);
        let newest = planned
            .and_then(|planned| packaged_version(planned))
            .unwrap_or(toolkit.newest);
        let is_newest = installed.flatten() >= Some(newest);
        let is_kept = installed.is_some() && is_locked && (!request.upgrade || is_newest);
        let version = installed.flatten().filter(|_| is_kept).unwrap_or(newest);
        let package_version = planned
            .cloned()
            .unwrap_or_else(|| toolkit.package_version(version));
        let manager = host
            .facts
            .os
            .package_manager
            .filter(|_| !is_kept && !is_enabled);
        let added = manager.and_then(|manager| host.database.container_repository(manager));
        Some(Self {
            toolkit,
            request: asked,
            host: seen,
            engines,
            added,
            version,
            package_version,
            is_kept,
        })
    }

    /// The engine that the request names, with `--engine` or as that of a user.
    pub fn asked(&self) -> Option<&EngineSetup<'a>> {
        let is_asked = |setup: &&EngineSetup| match self.request.engine {
            Some(id) => setup.engine.id == id,
            None => self.request.docker_user.is_some() && setup.engine.group.is_some(),
        };
        self.engines.iter().find(is_asked)
    }

    /// The engine whose group the user joins.
    pub fn with_group(&self) -> Option<&EngineSetup<'a>> {
        self.engines
            .iter()
            .find(|setup| setup.engine.group.is_some())
    }

    /// The operation by which the user joins the group of an engine; none if no user is named.
    pub fn membership(&self) -> Option<Act> {
        let user = self.request.docker_user.as_ref()?;
        let group = self.with_group()?.engine.group.as_ref()?;
        let satisfied = self
            .host
            .groups
            .get(group)
            .is_some_and(|members| members.contains(user));
        let join = Run::new(["gpasswd", "--add", user, group], 60)
            .undone_by(["gpasswd", "--delete", user, group]);
        Some(Act {
            operation: join.into(),
            satisfied,
        })
    }

    /// The files of an engine that the plan writes, each with its text, or why it cannot be merged.
    pub fn edits(&self, setup: &EngineSetup) -> Vec<Result<FileEdit, BrokenFile>> {
        self.edit(setup).into_iter().collect()
    }

    fn edit(&self, setup: &EngineSetup) -> Option<Result<FileEdit, BrokenFile>> {
        let Engine {
            form,
            config,
            drop_in,
            ..
        } = setup.engine;
        let runtime = &self.toolkit.runtime;
        let main = PathBuf::from(config.as_ref().or(drop_in.as_ref())?);
        if let Some((path, option)) = setup.conflict().cloned() {
            // Another file that it reads has the runtime already.
            if setup.runtime_in().is_some() {
                return None;
            }
            let why = format!(
                "it starts {} with {option}, beside which settings in {} are refused or not read",
                setup.engine.title,
                quoted_path(&main)
            );
            return Some(Err(BrokenFile {
                path,
                why,
                line: None,
            }));
        }
        let text = match self.text(&main) {
            Ok(text) => text,
            Err(broken) => return Some(Err(broken)),
        };
        let content = match form {
            EngineForm::DaemonJson | EngineForm::Crio if setup.runtime_in().is_some() => {
                return None;
            }
            EngineForm::DaemonJson => setup
                .not_marked(text.unwrap_or_default())
                .and_then(|text| daemon_json::merged(text, runtime, setup.needs_cdi_setting())),
            EngineForm::Crio => {
                let own = setup.engine.own_default_runtimes(setup.version);
                crio::merged(text, runtime, &self.texts_read_by(setup), &own)
            }
            EngineForm::Containerd => {
                match containerd::merged(text, setup.engine, setup.version, runtime) {
                    Ok(containerd::Containerd::Main(_)) if setup.replaced_by().is_some() => {
                        return not_read(setup, &main);
                    }
                    Ok(containerd::Containerd::Main(text)) => Ok(text),
                    Ok(containerd::Containerd::DropIn(text)) => {
                        return self.beside(setup, drop_in.as_ref()?, text);
                    }
                    Ok(containerd::Containerd::Disabled) => return None,
                    Err(e) => Err(e),
                }
            }
            EngineForm::Detects | EngineForm::Cdi => return None,
        };
        Some(
            content
                .map_err(|e| BrokenFile::new(&main, &e))
                .and_then(|content| self.edited(main, content)),
        )
    }

    /// A file beside the main one, which is written as a whole; nothing if a file there has the
    /// runtime already.
    fn beside(
        &self,
        setup: &EngineSetup,
        path: &str,
        content: String,
    ) -> Option<Result<FileEdit, BrokenFile>> {
        if setup.runtime_in().is_some() {
            return None;
        }
        let there = match self.text(Path::new(path)) {
            Ok(there) => there,
            Err(broken) => return Some(Err(broken)),
        };
        let has_runtime = there.is_some_and(|text| has_nvidia_runtime(setup.engine.form, text));
        let content = if has_runtime {
            there.unwrap_or_default().to_owned()
        } else {
            content
        };
        Some(self.edited(PathBuf::from(path), content))
    }

    /// The file that keeps an engine from serving Kubernetes.
    pub fn serves_no_pods<'s>(&self, setup: &EngineSetup<'s>) -> Option<&'s str> {
        let is_read = setup.engine.form == EngineForm::Containerd && setup.conflict().is_none();
        let path = setup.engine.config.as_deref().filter(|_| is_read)?;
        self.text(Path::new(path))
            .ok()?
            .is_some_and(containerd::serves_no_pods)
            .then_some(path)
    }

    fn edited(&self, path: PathBuf, content: String) -> Result<FileEdit, BrokenFile> {
        let before = self.text(&path)?.map(str::to_owned);
        let mode = self
            .host
            .file(&path)
            .ok()
            .flatten()
            .map_or(0o644, |file| file.mode & 0o755);
        // A plan in a file may have no hidden characters.
        if before.as_ref() != Some(&content)
            && let Some(e) = before.as_deref().and_then(hidden)
        {
            return Err(BrokenFile::new(path, &e));
        }
        Ok(FileEdit {
            path,
            before,
            mode,
            content,
        })
    }

    /// The texts of the files that CRI-O reads, in its order.
    fn texts_read_by(&self, setup: &EngineSetup) -> Vec<&str> {
        let paths = setup.found.iter().flat_map(|found| &found.files);
        paths
            .filter_map(|path| Some(self.host.file(path).ok()??.text.as_str()))
            .collect()
    }

    /// The toolkit's configuration with this program as the first low-level runtime; none if the
    /// file cannot be merged.
    pub fn config_with(&self, program: &str) -> Option<FileEdit> {
        let known = self.toolkit.low_level.as_ref()?;
        let path = Path::new(&known.config);
        let text = self.text(path).ok()?.unwrap_or_default();
        self.edited(
            path.to_owned(),
            low_level::with_first(text, program, &known.names)?,
        )
        .ok()
    }

    /// The list of low-level runtimes in the toolkit's configuration; none if the file cannot be
    /// read.
    pub fn low_level_names(&self) -> Option<Vec<String>> {
        let known = self.toolkit.low_level.as_ref()?;
        let text = self
            .text(Path::new(&known.config))
            .ok()?
            .unwrap_or_default();
        Some(
            low_level_runtimes(text)
                .ok()?
                .unwrap_or_else(|| known.names.clone()),
        )
    }

    fn text(&self, path: &Path) -> Result<Option<&str>, BrokenFile> {
        let file = self.host.file(path);
        let file = file.map_err(|why| BrokenFile {
            path: path.to_owned(),
            why: why.to_owned(),
            line: None,
        })?;
        Ok(file.map(|file| file.text.as_str()))
    }

    /// The files that cannot be merged.
    pub fn broken(&self) -> impl Iterator<Item = (&EngineSetup<'a>, BrokenFile)> {
        let of = |setup| {
            self.edits(setup)
                .into_iter()
                .filter_map(move |edit| Some((setup, edit.err()?)))
        };
        self.engines.iter().flat_map(of)
    }
}

impl EngineSetup<'_> {
    /// Whether its version reads CDI specifications, and only if it is told to.
    pub fn needs_cdi_setting(&self) -> bool {
        let since = |bound: Option<AddOnVersion>| {
            bound
                .zip(self.version)
                .is_some_and(|(bound, is)| is >= bound)
        };
        since(self.engine.cdi) && !since(self.engine.cdi_by_default)
    }

    /// Another file that it reads and that has NVIDIA's runtime, which therefore stays as it is.
    pub fn runtime_in(&self) -> Option<&Path> {
        self.found.as_ref()?.runtime_in.as_deref()
    }

    /// The file whose section of containerd's plugin this version takes in place of that in the
    /// main file.
    pub fn replaced_by(&self) -> Option<&Path> {
        let merges = self.version? >= self.engine.drop_in_since?;
        self.found
            .as_ref()?
            .cri_section_in
            .as_deref()
            .filter(|_| !merges)
    }

    /// What its unit says, and in which file, if it does not accept, or does not read, the file
    /// that gpusetup writes.
    pub fn conflict(&self) -> Option<&(PathBuf, String)> {
        self.found.as_ref()?.conflict.as_ref()
    }

    /// The text, which its version reads although it may begin with a byte-order mark.
    fn not_marked<'t>(&self, text: &'t str) -> Result<&'t str, ConfigError> {
        let title = &self.engine.title;
        match (self.engine.reads_mark, self.version) {
            (Some(since), Some(version))
                if version < since && text.starts_with(BYTE_ORDER_MARK) =>
            {
                Err(ConfigError::at(
                    1,
                    1,
                    format!(
                        "it begins with a byte-order mark, which {title} reads since {since}, and this is {version}"
                    ),
                ))
            }
            _ => Ok(text),
        }
    }

    /// The units that restart: those that the host has, or the first one of an engine that the plan
    /// installs.
    pub fn units(&self) -> Vec<&str> {
        match &self.found {
            Some(found) => found.units.iter().map(String::as_str).collect(),
            None => self
                .engine
                .units
                .iter()
                .take(1)
                .map(String::as_str)
                .collect(),
        }
    }
}

/// Why a runtime in the main file would have no effect; none if the file that counts has it
/// already.
fn not_read(setup: &EngineSetup, main: &Path) -> Option<Result<FileEdit, BrokenFile>> {
    let path = setup.replaced_by()?;
    if setup.runtime_in() == Some(path) {
        return None;
    }
    let (title, since) = (&setup.engine.title, setup.engine.drop_in_since?);
    let why = format!(
        "{title} before {since} takes the whole section of its plugin cri from it, and ignores that of {}: move the section there",
        quoted_path(main)
    );
    Some(Err(BrokenFile {
        path: path.to_owned(),
        why,
        line: None,
    }))
}

/// The first hidden character of a file.
fn hidden(text: &str) -> Option<ConfigError> {
    let (at, c) = hidden_in_lines(text)?;
    let (line, column) = line_and_column(text, at);
    Some(ConfigError::at(
        line,
        column,
        format!("it has a hidden character (U+{:04X})", u32::from(c)),
    ))
}

/// The version of the first of these packages that the repositories offer.
fn offered(facts: &Facts, names: &[String]) -> Option<AddOnVersion> {
    let all = facts.offered.as_ref()?;
    packaged_version(names.iter().find_map(|name| all.get(name))?)
}
