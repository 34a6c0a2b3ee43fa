//! Container engines of a host, their configuration files, and the toolkit that gives their containers GPUs. Read only for a plan
//! that sets them up, because the files may have passwords.

use super::Facts;
use super::engine_config::{NVIDIA_RUNTIME, Runtimes, has_nvidia_runtime, is_nvidia_runtime};
use crate::compat::{ContainerToolkit, Database, Engine, EngineForm, EngineId};
use crate::packages;
use crate::paths::UNIT_FOLDERS;
use crate::system::{Node, Program, System, input};
use crate::version::AddOnVersion;
use crate::yaml;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// No configuration file is longer, in bytes.
const MOST: u64 = 1 << 20;

/// What a host has for containers with GPUs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct ContainerHost {
    /// The container toolkit; none if it is not installed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub toolkit: Option<InstalledToolkit>,
    /// The engines that are installed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub engines: Vec<InstalledEngine>,
    /// The configuration files of all engines that the database knows, and other files that the plan writes. Files that do not
    /// exist are left out.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub files: BTreeMap<PathBuf, Seen<ConfigFile>>,
    /// The runtimes of NVIDIA's programs in the configuration of the engines that are installed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub runtimes: Vec<NvidiaRuntime>,
    /// Configuration files that their engine cannot read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub broken: Vec<BrokenConfig>,
    /// The CDI specifications of NVIDIA's devices, each with the version of CDI that it is written in.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub specifications: BTreeMap<PathBuf, AddOnVersion>,
    /// Engines that are snaps, which gpusetup does not set up.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub snaps: Vec<EngineId>,
    /// Programs that use an engine that another one runs, such as kubelet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub users: Vec<PathBuf>,
    /// Files of older generations of the toolkit that get in its way.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_over: Vec<PathBuf>,
    /// Package sources of older generations.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub old_sources: Vec<PathBuf>,
    /// Whether SELinux enforces its rules.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub selinux: bool,
    /// The members of engines' groups, by group. A group that does not exist is left out.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub groups: BTreeMap<String, Vec<String>>,
    /// Whether every boot starts the units that refresh the CDI specification.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub refreshes_cdi: bool,
    /// Whether the user who is to use the engine exists; none if that is not known, or not asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_exists: Option<bool>,
    /// Whether that user is root, by its number: 0.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub user_is_root: bool,
}

/// The container toolkit of a host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct InstalledToolkit {
    /// Its version; none if it could not be read.
    pub version: Option<AddOnVersion>,
}

/// An engine of a host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct InstalledEngine {
    /// Its short name, `docker`.
    pub id: EngineId,
    /// The program that shows it.
    pub program: PathBuf,
    /// Its version; none if it could not be read.
    pub version: Option<AddOnVersion>,
    /// Those of its units that the host has.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub units: Vec<String>,
    /// An option in a file of its units with which it does not accept, or does not read, its configuration file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conflict: Option<(PathBuf, String)>,
    /// Another file that it reads and that has the runtime `nvidia`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime_in: Option<PathBuf>,
}

/// A runtime of an engine whose program is NVIDIA's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct NvidiaRuntime {
    /// The engine, `docker`.
    pub engine: EngineId,
    /// The runtime's name, which need not be `nvidia`.
    pub name: String,
    /// The file that defines it.
    pub path: PathBuf,
    /// The file that makes it the runtime of containers that name none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_in: Option<PathBuf>,
}

/// A configuration file that its engine cannot read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct BrokenConfig {
    /// The engine, `docker`.
    pub engine: EngineId,
    /// The file.
    pub path: PathBuf,
    /// The error, with its place.
    pub why: String,
    /// The line of the error, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
}

/// Something that a host may have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Seen<T> {
    /// This.
    Is(T),
    /// It does not exist.
    Absent,
    /// It exists and could not be read, for this reason.
    Unreadable(String),
}

/// The content of a configuration file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct ConfigFile {
    /// The text, in base64: unlike other texts in facts, it has line ends that must stay as they are.
    #[serde(rename = "base64", serialize_with = "to_base64", deserialize_with = "from_base64")]
    #[cfg_attr(feature = "schemas", schemars(with = "String"))]
    pub text: String,
    /// The permission bits, as a number: 420 is 0644.
    pub mode: u32,
}

fn to_base64<S: Serializer>(text: &str, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&STANDARD.encode(text))
}

fn from_base64<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    let bytes = STANDARD.decode(String::deserialize(from)?).map_err(de::Error::custom)?;
    String::from_utf8(bytes).map_err(de::Error::custom)
}

/// Where `systemctl enable` links the units that the host starts.
const STARTED_AT_BOOT: &str = "/etc/systemd/system/multi-user.target.wants";

/// What the host has for containers with GPUs, and whether this user exists.
pub fn container_host(system: &System, database: &Database, user: Option<&str>) -> ContainerHost {
    let exists = |path: &&String| system.exists(path);
    let paths = |all: &[String]| all.iter().filter(exists).map(PathBuf::from).collect::<Vec<_>>();
    let user_id = user.map(|name| user_id(system, name));
    let mut host = ContainerHost {
        engines: database.engines.iter().filter_map(|engine| installed(system, engine)).collect(),
        snaps: database.engines.iter().filter(|engine| is_snap(system, engine)).map(|engine| engine.id).collect(),
        users: database.engines.iter().flat_map(|engine| paths(&engine.used_by)).collect(),
        selinux: is_enforcing(system),
        groups: groups(system, database),
        user_exists: user_id.as_ref().and_then(|id| id.as_ref().map(Option::is_some)),
        user_is_root: user_id.flatten().flatten().is_some_and(|id| id == "0"),
        specifications: specifications(system),
        ..ContainerHost::default()
    };
    for found in &host.engines {
        let Some(engine) = database.engine(found.id) else { continue };
        let read = configuration(system, engine);
        host.runtimes.extend(read.nvidia_runtimes(engine));
        host.broken.extend(read.broken);
    }
    let configs = database.engines.iter().flat_map(|engine| engine.config.iter().chain(&engine.drop_in));
    let rules = database.container_toolkit().map(|toolkit| &toolkit.dev_char.file);
    for path in configs.chain(rules) {
        match config_file(system, Path::new(path)) {
            Seen::Absent => {}
            seen => drop(host.files.insert(path.into(), seen)),
        }
    }
    if let Some(toolkit) = database.container_toolkit() {
        host.toolkit = installed_toolkit(system, toolkit);
        let is_wanted = |unit: &String| system.link_target(Path::new(STARTED_AT_BOOT).join(unit)).is_some();
        host.refreshes_cdi = toolkit.cdi_units.iter().all(is_wanted);
        host.left_over = paths(&toolkit.left_over);
        host.old_sources = paths(&toolkit.old_sources);
    }
    host
}

fn installed(system: &System, engine: &Engine) -> Option<InstalledEngine> {
    let program = engine.programs.iter().find(|path| system.exists(path))?;
    let has_unit = |unit: &&String| UNIT_FOLDERS.iter().any(|folder| system.exists(Path::new(folder).join(unit)));
    let names = engine.packages.iter().flat_map(|p| &p.names).chain(&engine.other_packages);
    Some(InstalledEngine {
        id: engine.id,
        program: program.into(),
        version: version_of(system, program, &names.collect::<Vec<_>>()),
        units: engine.units.iter().filter(has_unit).cloned().collect(),
        conflict: conflict(system, engine),
        runtime_in: runtime_in(system, engine),
    })
}

/// The folders of CDI specifications, in ascending priority.
pub const CDI_FOLDERS: [&str; 2] = ["/etc/cdi", "/var/run/cdi"];

/// Whether a CDI specification names devices of NVIDIA's.
pub fn has_cdi_specification(system: &System) -> bool {
    of_nvidia(system).next().is_some()
}

/// The files in the folders of CDI specifications that name devices of NVIDIA's, with their texts.
fn of_nvidia(system: &System) -> impl Iterator<Item = (PathBuf, String)> {
    let names = |folder: &str| system.list(folder).unwrap_or_default();
    let files = CDI_FOLDERS
        .into_iter()
        .flat_map(move |folder| names(folder).into_iter().map(move |name| Path::new(folder).join(name)));
    files.filter_map(|path| {
        let text = system.read_text(&path).ok().flatten().filter(|text| text.contains("nvidia.com/"))?;
        Some((path, text))
    })
}

/// The CDI specifications of NVIDIA's devices whose version can be read.
fn specifications(system: &System) -> BTreeMap<PathBuf, AddOnVersion> {
    let is_one = |path: &PathBuf| path.extension().is_some_and(|end| end == "yaml" || end == "json");
    let files = of_nvidia(system).filter(|(path, _)| is_one(path));
    files.filter_map(|(path, text)| Some((path, version_of_specification(&text)?))).collect()
}

/// The version of CDI in a specification: <https://github.com/cncf-tags/container-device-interface/blob/main/SPEC.md>.
fn version_of_specification(text: &str) -> Option<AddOnVersion> {
    #[derive(Deserialize)]
    struct Specification {
        #[serde(rename = "cdiVersion")]
        version: String,
    }
    let read: Specification = yaml::read_texts(text).ok()?;
    cdi_version(&read.version)
}

/// The version in a `cdiVersion`. The library of CDI leaves a leading v out.
pub fn cdi_version(version: &str) -> Option<AddOnVersion> {
    version.strip_prefix('v').unwrap_or(version).parse().ok()
}

fn is_snap(system: &System, engine: &Engine) -> bool {
    engine.snap.as_ref().is_some_and(|snap| system.exists(&snap.program))
}

/// The last of the other files that the engine reads in which it finds the runtime `nvidia`.
fn runtime_in(system: &System, engine: &Engine) -> Option<PathBuf> {
    let folder = Path::new(engine.drop_in.as_deref()?).parent()?;
    let parts = parts(system, engine, folder);
    let files = parts.into_iter().chain(engine.other_configs.iter().map(PathBuf::from));
    let has_runtime = |file: &PathBuf| {
        system.read_text(file).ok().flatten().is_some_and(|text| has_nvidia_runtime(engine.form, &text))
    };
    let mut files: Vec<_> = files.filter(|file| engine.drop_in.as_deref().map(Path::new) != Some(file)).collect();
    files.sort();
    files.into_iter().rfind(has_runtime)
}

/// How deep folders of configuration files are looked into.
const DEEPEST: usize = 8;

/// The files in a folder of an engine's configuration, and in the folders there if the engine reads them, too.
pub fn parts(system: &System, engine: &Engine, folder: &Path) -> Vec<PathBuf> {
    let deepest = if engine.nested_parts { DEEPEST } else { 0 };
    files_in(system, folder, deepest)
}

fn files_in(system: &System, folder: &Path, deepest: usize) -> Vec<PathBuf> {
    let paths = system.list(folder).unwrap_or_default().into_iter().map(|name| folder.join(name));
    let files = paths.flat_map(|path| match system.node(&path) {
        Ok(Node::Directory) if deepest > 0 => files_in(system, &path, deepest - 1),
        Ok(Node::Directory) => Vec::new(),
        _ => vec![path],
    });
    files.collect()
}

/// What the files and the units of an engine say of its runtimes.
#[derive(Default)]
struct Configuration {
    /// The file and the program of each runtime, by the runtime's name.
    runtimes: BTreeMap<String, (PathBuf, Option<String>)>,
    /// The runtime of containers that name none, and the file that says so.
    default: Option<(String, PathBuf)>,
    /// The files that the engine cannot read.
    broken: Vec<BrokenConfig>,
}

/// Reads the files of an engine in its order, and then the command lines that start it: what comes later counts.
fn configuration(system: &System, engine: &Engine) -> Configuration {
    let mut all = Configuration::default();
    // These write their files themselves, or have none.
    if matches!(engine.form, EngineForm::Detects | EngineForm::Cdi) {
        return all;
    }
    let files = engine.configs().map(Path::to_path_buf);
    let parts = engine.parts().flat_map(|folder| parts(system, engine, folder));
    let mut imports: Option<Vec<String>> = None;
    for path in files.chain(parts) {
        let text = system.read_text(&path).ok().flatten();
        let Some(text) = text.filter(|_| is_read(engine, imports.as_deref(), &path)) else { continue };
        match Runtimes::of(engine.form, &text) {
            Ok(found) => {
                imports = imports.or_else(|| found.imports.clone());
                all.add(&path, found);
            }
            Err(e) => {
                all.broken.push(BrokenConfig { engine: engine.id, path, why: e.to_string(), line: e.line() });
            }
        }
    }
    for (path, command) in commands(system, engine) {
        all.add(&path, Runtimes::of_command(&command));
    }
    all
}

impl Configuration {
    fn add(&mut self, path: &Path, found: Runtimes) {
        let of_file = |(name, program)| (name, (path.to_owned(), program));
        self.runtimes.extend(found.programs.into_iter().map(of_file));
        self.default = found.default.map(|name| (name, path.to_owned())).or(self.default.take());
    }

    /// The runtimes of NVIDIA's programs. One named `nvidia` without a known program counts, too.
    fn nvidia_runtimes(&self, engine: &Engine) -> Vec<NvidiaRuntime> {
        // containerd's default has a name, and a file may give it another program.
        const OF_CONTAINERD: &str = "runc";
        let unnamed = self.runtimes.get(OF_CONTAINERD).filter(|_| engine.form == EngineForm::Containerd);
        let unnamed = unnamed.map(|(path, _)| (OF_CONTAINERD.to_owned(), path.clone()));
        let default = self.default.clone().or(unnamed);
        let runtime = |name: &str, path: &Path| NvidiaRuntime {
            engine: engine.id,
            name: name.to_owned(),
            path: path.to_owned(),
            default_in: default.as_ref().filter(|(of, _)| of == name).map(|(_, path)| path.clone()),
        };
        let is_nvidias = |name: &str, program: Option<&str>| program.map_or(name == NVIDIA_RUNTIME, is_nvidia_runtime);
        let defined = self.runtimes.iter().filter(|(name, (_, program))| is_nvidias(name.as_str(), program.as_deref()));
        let mut all: Vec<_> = defined.map(|(name, (path, _))| runtime(name, path)).collect();
        if let Some((name, path)) = &default
            && name == NVIDIA_RUNTIME
            && !self.runtimes.contains_key(name)
        {
            all.push(runtime(name, path));
        }
        all
    }
}

/// Whether an engine reads a file beside its main one. containerd reads those that the main file imports, if that is known.
fn is_read(engine: &Engine, imports: Option<&[String]>, path: &Path) -> bool {
    let Some(main) = engine.config.as_deref().map(Path::new).filter(|_| engine.form == EngineForm::Containerd) else {
        return true;
    };
    let folder = main.parent().unwrap_or(main);
    let is_named = |pattern: &String| {
        let pattern = folder.join(pattern);
        let is_any = pattern.file_stem().is_some_and(|name| name == "*");
        let has_end = pattern.extension().is_none_or(|end| path.extension() == Some(end));
        pattern.parent() == path.parent() && (pattern.file_name() == path.file_name() || is_any && has_end)
    };
    path == main || imports.map_or(path.extension().is_some_and(|end| end == "toml"), |all| all.iter().any(is_named))
}

/// The command lines that start an engine's units, each with the file that has it. As in systemd, a file replaces one of the
/// same name in a later folder, and an empty `ExecStart=` clears what came before.
fn commands(system: &System, engine: &Engine) -> Vec<(PathBuf, String)> {
    engine.units.iter().flat_map(|unit| commands_of(system, unit)).collect()
}

fn commands_of(system: &System, unit: &str) -> Vec<(PathBuf, String)> {
    let own = UNIT_FOLDERS.iter().map(|folder| Path::new(folder).join(unit)).find(|path| system.exists(path));
    let mut parts = BTreeMap::new();
    for folder in UNIT_FOLDERS {
        let folder = Path::new(folder).join(format!("{unit}.d"));
        let names = system.list(&folder).unwrap_or_default().into_iter().filter(|name| name.ends_with(".conf"));
        for name in names {
            let path = folder.join(&name);
            parts.entry(name).or_insert(path);
        }
    }
    let mut commands = Vec::new();
    for path in own.into_iter().chain(parts.into_values()) {
        let text = system.read_text(&path).ok().flatten().unwrap_or_default().replace("\\\n", " ");
        let settings = text.lines().filter_map(|line| line.split_once('='));
        for (_, command) in settings.filter(|(key, _)| key.trim() == "ExecStart") {
            match command.trim() {
                "" => commands.clear(),
                command => commands.push((path.clone(), command.to_owned())),
            }
        }
    }
    commands
}

/// The first option of this kind in a command line of the engine's units.
fn conflict(system: &System, engine: &Engine) -> Option<(PathBuf, String)> {
    let is_option = |word: &str, option: &str| {
        word.strip_prefix(option).is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
    };
    let option_of = |word: &str| engine.conflicting_options.iter().find(|option| is_option(word, option)).cloned();
    let mut commands = commands(system, engine).into_iter();
    commands.find_map(|(file, command)| Some((file, command.split_whitespace().find_map(option_of)?)))
}

fn installed_toolkit(system: &System, toolkit: &ContainerToolkit) -> Option<InstalledToolkit> {
    if !system.exists(&toolkit.program) {
        return None;
    }
    let names: Vec<_> = toolkit.packages.iter().collect();
    Some(InstalledToolkit { version: version_of(system, &toolkit.program, &names) })
}

/// The version that a program reports; in a tree, where no program is run, that of its package.
fn version_of(system: &System, program: &str, packages: &[&String]) -> Option<AddOnVersion> {
    if !system.is_live() {
        return recorded(system, packages);
    }
    let asked = Program::new([program, "--version"]).limit(Duration::from_secs(10));
    let output = system.run(&asked).ok().filter(|output| output.succeeded())?;
    version_in(output.text.lines().next()?)
}

/// The version of the first of these packages that is installed, if the package manager's record is a file.
fn recorded(system: &System, names: &[&String]) -> Option<AddOnVersion> {
    let mut records = packages::ALL.iter().filter_map(|manager| packages::of(*manager).record_file.as_ref());
    let wanted = |name: &str| names.iter().any(|wanted| *wanted == name);
    let installed = records.find_map(|record| (record.scan)(&mut system.open(record.path).ok()?, &wanted).ok())?;
    names.iter().find_map(|name| version_in(packages::upstream(installed.versions.get(*name)?)))
}

/// The version in a line: `Docker version 26.1.5+dfsg1, build a72d7cd`, `containerd github.com/containerd/containerd v1.7.24 …`.
fn version_in(line: &str) -> Option<AddOnVersion> {
    let number = |word: &str| {
        let word = word.strip_prefix('v').unwrap_or(word);
        let end = word.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(word.len());
        let number = word[..end].trim_end_matches('.');
        number.contains('.').then(|| number.parse().ok()).flatten()
    };
    line.split_whitespace().find_map(number)
}

/// The version of a package that repositories offer: `26.1.5+dfsg1-9`.
pub fn packaged_version(version: &str) -> Option<AddOnVersion> {
    version_in(packages::upstream(version))
}

/// A configuration file. A link is not followed: what it leads to may belong to something that writes it again.
fn config_file(system: &System, path: &Path) -> Seen<ConfigFile> {
    let mode = match system.node(path) {
        Ok(Node::Absent) => return Seen::Absent,
        Ok(Node::File { mode, .. }) => mode,
        Ok(Node::Link { target }) => return Seen::Unreadable(format!("it is a link to {}", target.display())),
        Ok(Node::Directory | Node::Other) => return Seen::Unreadable("it is no file".to_owned()),
        Err(e) => return Seen::Unreadable(e.to_string()),
    };
    let bytes = match system.open(path).and_then(|file| input::limited(file, MOST)) {
        Ok(Some(bytes)) => bytes,
        Ok(None) => return Seen::Unreadable("it is larger than 1 MiB".to_owned()),
        Err(e) => return Seen::Unreadable(e.to_string()),
    };
    match String::from_utf8(bytes) {
        Ok(text) => Seen::Is(ConfigFile { text, mode }),
        Err(_) => Seen::Unreadable("it is not UTF-8".to_owned()),
    }
}

/// Whether SELinux enforces its rules: as the kernel says, or in a tree as its configuration does.
fn is_enforcing(system: &System) -> bool {
    let text = |path: &str| system.read_text(path).ok().flatten().unwrap_or_default();
    match system.is_live() {
        true => text("/sys/fs/selinux/enforce").trim() == "1",
        false => text("/etc/selinux/config").lines().any(|line| line.trim() == "SELINUX=enforcing"),
    }
}

/// The members of the groups that let users use engines.
fn groups(system: &System, database: &Database) -> BTreeMap<String, Vec<String>> {
    let text = system.read_text("/etc/group").ok().flatten().unwrap_or_default();
    let is_one = |name: &str| database.engines.iter().any(|engine| engine.group.as_deref() == Some(name));
    let entry = |line: &str| {
        let mut fields = line.split(':');
        let name = fields.next().filter(|name| is_one(name))?;
        let members = fields.nth(2)?.split(',').filter(|name| !name.is_empty());
        Some((name.to_owned(), members.map(str::to_owned).collect()))
    };
    text.lines().filter_map(entry).collect()
}

/// The number of a user, in the host's own list or in a directory that the running host asks; `Some(None)` if there is no such user,
/// and none if that is not known.
fn user_id(system: &System, name: &str) -> Option<Option<String>> {
    let text = system.read_text("/etc/passwd").ok().flatten()?;
    let in_line = |line: &str| {
        let mut fields = line.split(':');
        (fields.next() == Some(name)).then(|| fields.nth(1).unwrap_or_default().to_owned())
    };
    let found = text.lines().find_map(in_line);
    if found.is_some() || !system.is_live() {
        return Some(found);
    }
    let output = system.run(&Program::new(["getent", "passwd", name]).limit(Duration::from_secs(30))).ok()?;
    Some(output.text.lines().filter(|_| output.succeeded()).find_map(in_line))
}

impl Facts {
    /// What the host has for containers with GPUs; nothing if that was not looked for.
    pub fn containers(&self) -> std::borrow::Cow<'_, ContainerHost> {
        match &self.container_host {
            Some(host) => std::borrow::Cow::Borrowed(host),
            None => std::borrow::Cow::Owned(ContainerHost::default()),
        }
    }
}

impl ContainerHost {
    /// The text and the mode of a file; none if it does not exist.
    ///
    /// # Errors
    ///
    /// If it exists and could not be read: why.
    pub fn file(&self, path: &Path) -> Result<Option<&ConfigFile>, &str> {
        match self.files.get(path) {
            Some(Seen::Is(file)) => Ok(Some(file)),
            Some(Seen::Unreadable(why)) => Err(why),
            Some(Seen::Absent) | None => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::database::embedded;

    fn tree() -> (tempfile::TempDir, System) {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let system = System::at(dir.path());
        (dir, system)
    }

    fn write(system: &System, path: &str, text: &[u8], mode: u32) {
        system.make_directories(Path::new(path).parent().expect("a folder"), 0o755).expect("made");
        system.write(path, text, mode).expect("written");
    }

    #[test]
    fn a_version_is_found_in_what_a_program_prints() {
        let read = |line: &str| version_in(line).map(|version| version.to_string());
        for (line, version) in [
            ("Docker version 26.1.5+dfsg1, build a72d7cd", "26.1.5"),
            ("podman version 5.4.2", "5.4.2"),
            ("containerd github.com/containerd/containerd v1.7.24 88bf19b2105c8b17560993bee28a01ddc2f97182", "1.7.24"),
            ("containerd github.com/containerd/containerd 1.6.20~ds1 1.6.20~ds1-1+deb12u1", "1.6.20"),
            ("crio version 1.30.0", "1.30.0"),
            ("NVIDIA Container Toolkit CLI version 1.20.0", "1.20.0"),
            ("k3s version v1.32.2+k3s1 (381620ef)", "1.32.2"),
        ] {
            assert_eq!(read(line).as_deref(), Some(version), "{line}");
        }
        assert_eq!(read("podman: not found"), None);
        assert_eq!(packaged_version("5:27.3.1-1~debian.12~bookworm").map(|v| v.to_string()).as_deref(), Some("27.3.1"));
    }

    #[test]
    fn engines_are_seen_with_their_files() {
        let (_dir, system) = tree();
        assert_eq!(container_host(&system, &embedded(), None), ContainerHost::default());
        write(&system, "/usr/bin/dockerd", b"", 0o755);
        write(&system, "/etc/docker/daemon.json", b"{\n\t\"debug\": true\r\n}\n", 0o600);
        write(&system, "/lib/systemd/system/docker.service", b"", 0o644);
        write(&system, "/etc/group", b"root:x:0:\ndocker:x:999:alice,bob\nempty:x:1:\n", 0o644);
        write(&system, "/etc/passwd", b"alice:x:1000:1000::/home/alice:/bin/sh\n", 0o644);
        let record = "Package: docker.io\nStatus: install ok installed\nVersion: 26.1.5+dfsg1-9+b1\n\n";
        write(&system, "/var/lib/dpkg/status", record.as_bytes(), 0o644);
        system.make_directories("/etc/containerd", 0o755).expect("made");
        system.link("/etc/containerd/config.toml", Path::new("/nix/store/x")).expect("linked");
        let host = container_host(&system, &embedded(), Some("alice"));
        let [docker] = host.engines.as_slice() else { panic!("{host:?}") };
        assert_eq!(docker.version.map(|v| v.to_string()).as_deref(), Some("26.1.5"));
        assert_eq!(docker.units, ["docker.service"]);
        assert_eq!(host.groups["docker"], ["alice", "bob"]);
        assert_eq!(host.user_exists, Some(true));
        let file = host.file(Path::new("/etc/docker/daemon.json")).expect("readable").expect("there");
        assert_eq!((file.text.as_str(), file.mode), ("{\n\t\"debug\": true\r\n}\n", 0o600));
        let refused = host.file(Path::new("/etc/containerd/config.toml")).expect_err("a link");
        assert_eq!(refused, "it is a link to /nix/store/x");
        assert_eq!((host.runtimes.len(), host.broken.len()), (0, 0));
        // Facts that are printed and read again have the same text.
        assert_eq!(crate::text::made_visible(host.clone()), host);
    }

    /// The runtimes of a host with these programs and files: the engine's, the name, and the file that makes it the default.
    fn runtimes(programs: &[&str], files: &[(&str, &str)]) -> Vec<(String, String, Option<String>)> {
        let (_dir, system) = tree();
        programs.iter().for_each(|program| write(&system, program, b"", 0o755));
        files.iter().for_each(|(path, text)| write(&system, path, text.as_bytes(), 0o644));
        let shown = |path: PathBuf| path.display().to_string();
        let all = container_host(&system, &embedded(), None).runtimes.into_iter();
        all.map(|found| (found.engine.to_string(), found.name, found.default_in.map(shown))).collect()
    }

    const CRIO: &str = "/etc/crio/crio.conf";
    const CRIO_PART: &str = "/etc/crio/crio.conf.d/99-nvidia.toml";
    const OF_CRIO: &str = "[crio.runtime.runtimes.nvidia]\nruntime_path = \"/usr/bin/nvidia-container-runtime\"\n";

    fn found(engine: &str, name: &str, default_in: Option<&str>) -> Vec<(String, String, Option<String>)> {
        vec![(engine.to_owned(), name.to_owned(), default_in.map(str::to_owned))]
    }

    #[test]
    fn crios_default_counts_in_whichever_file_it_is() {
        let program = ["/usr/bin/crio"];
        let default = "[crio.runtime]\ndefault_runtime = \"nvidia\"\n";
        let early = "/etc/crio/crio.conf.d/10-crio.conf";
        for file in [CRIO, early] {
            let all = runtimes(&program, &[(file, default), (CRIO_PART, OF_CRIO)]);
            assert_eq!(all, found("cri-o", "nvidia", Some(file)));
        }
        let whole = format!("{default}{OF_CRIO}");
        let whole = whole.as_str();
        assert_eq!(runtimes(&program, &[(CRIO, whole)]), found("cri-o", "nvidia", Some(CRIO)));
        let later = default.replace("nvidia", "crun");
        assert_eq!(runtimes(&program, &[(CRIO, whole), (early, later.as_str())]), found("cri-o", "nvidia", None));
        assert_eq!(runtimes(&program, &[(CRIO_PART, OF_CRIO)]), found("cri-o", "nvidia", None));
        assert_eq!(runtimes(&program, &[(CRIO, default)]), found("cri-o", "nvidia", Some(CRIO)), "without its table");
        assert_eq!(runtimes(&[], &[(CRIO, whole)]), [], "CRI-O is not installed");
    }

    #[test]
    fn a_default_counts_by_its_program() {
        let daemon = "/etc/docker/daemon.json";
        let docker = |text: &str| runtimes(&["/usr/bin/dockerd"], &[(daemon, text)]);
        let cdi = r#"{"default-runtime": "x", "runtimes": {"x": {"path": "nvidia-container-runtime.cdi"}}}"#;
        assert_eq!(docker(cdi), found("docker", "x", Some(daemon)));
        assert_eq!(docker(&cdi.replace("nvidia-container-runtime.cdi", "crun")), []);
        let other = r#"{"default-runtime": "nvidia", "runtimes": {"nvidia": {"path": "/usr/bin/crun"}}}"#;
        assert_eq!(docker(other), [], "it is NVIDIA's by its name alone");
        let unit = "/etc/systemd/system/docker.service.d/override.conf";
        let command = "[Service]\nExecStart=\nExecStart=/usr/bin/dockerd --add-runtime=gpu=/usr/bin/nvidia-container-runtime \\\n  --default-runtime=gpu\n";
        assert_eq!(runtimes(&["/usr/bin/dockerd"], &[(unit, command)]), found("docker", "gpu", Some(unit)));
        let again = format!("{command}ExecStart=\nExecStart=/usr/bin/dockerd\n");
        assert_eq!(runtimes(&["/usr/bin/dockerd"], &[(unit, again.as_str())]), [], "the empty one takes it back");
    }

    #[test]
    fn containerd_reads_what_its_file_imports() {
        let main = "/etc/containerd/config.toml";
        let part = "/etc/containerd/conf.d/99-nvidia.toml";
        let runc = "[plugins.\"io.containerd.cri.v1.runtime\".containerd.runtimes.runc.options]\nBinaryName = \"nvidia-container-runtime\"\n";
        let with = |files: &[(&str, &str)]| runtimes(&["/usr/bin/containerd"], files);
        assert_eq!(with(&[(main, runc)]), found("containerd", "runc", Some(main)));
        let imports = "version = 3\nimports = [\"/etc/containerd/conf.d/*.toml\"]\n";
        assert_eq!(with(&[(main, imports), (part, runc)]), found("containerd", "runc", Some(part)));
        assert_eq!(with(&[(main, "version = 3\nimports = [\"other/*.toml\"]\n"), (part, runc)]), []);
        assert_eq!(with(&[(main, "version = 3\nimports = [\"conf.d/99-nvidia.toml\"]\n"), (part, runc)]).len(), 1);
    }

    #[test]
    fn files_that_an_engine_cannot_read_are_named() {
        let (_dir, system) = tree();
        for program in ["/usr/bin/crio", "/usr/bin/dockerd"] {
            write(&system, program, b"", 0o755);
        }
        write(&system, "/etc/crio/crio.conf.d/10-x.conf", b"[crio\n", 0o644);
        write(&system, "/etc/docker/daemon.json", b"{\n  \"a\": 1,\n}", 0o644);
        let broken = container_host(&system, &embedded(), None).broken;
        let named: Vec<_> = broken.iter().map(|of| (of.engine.as_str(), of.path.to_str(), of.line)).collect();
        let daemon = ("docker", Some("/etc/docker/daemon.json"), Some(3));
        assert_eq!(named, [daemon, ("cri-o", Some("/etc/crio/crio.conf.d/10-x.conf"), Some(1))]);
    }

    #[test]
    fn specifications_are_seen_with_their_version() {
        let (_dir, system) = tree();
        write(&system, "/etc/cdi/nvidia.yaml", b"cdiVersion: 0.7.0\nkind: nvidia.com/gpu\n", 0o644);
        write(&system, "/var/run/cdi/x.json", br#"{"cdiVersion": "v1.1.0", "kind": "nvidia.com/gpu"}"#, 0o644);
        write(&system, "/etc/cdi/other.yaml", b"cdiVersion: 0.5.0\nkind: vendor.example/x\n", 0o644);
        write(&system, "/etc/cdi/torn.yaml", b"cdiVersion: [\nkind: nvidia.com/gpu\n", 0o644);
        let found = container_host(&system, &embedded(), None).specifications;
        let shown: Vec<_> = found.iter().map(|(path, cdi)| format!("{} {cdi}", path.display())).collect();
        assert_eq!(shown, ["/etc/cdi/nvidia.yaml 0.7.0", "/var/run/cdi/x.json 1.1.0"]);
    }
}
