//! Container engines of a host, their configuration files, and the toolkit that gives their
//! containers GPUs. Read only for a plan that sets them up, because the files may have passwords.
//!
//! All differences between engines are in `compat/engines.yaml`, and in a [`EngineBehaviour`] value for each
//! form, returned by [`form_of`]; no code outside depends on the form of an engine.

mod cdi;
mod configuration;
mod containerd;
mod crio;
mod docker;
mod documents;
mod edit;
mod files;
mod form;
mod k3s;
mod low_level;
mod merge;
mod places;
mod podman;
mod units;

pub use cdi::{CdiSpec, CdiSpecification, cdi_specs, misnamed_cdi_specs};
pub use configuration::{program_exists, runtimes_by_file, undefined_default};
pub(crate) use documents::ConfigError;
pub use documents::{NVIDIA_RUNTIME, is_nvidia_runtime, toml_document};
pub use edit::{FileEdit, Original, Restored, Target, config_restored, restored};
pub(crate) use form::EngineBehaviour;
pub use form::GpuAccess;
pub use low_level::lines_with_first;

use self::configuration::{Configuration, configuration};
use self::documents::must_be_light;
use super::Facts;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use gpusetup_database::compat::{ContainerToolkit, Database, Engine, EngineForm, EngineId};
use gpusetup_database::version::AddOnVersion;
use gpusetup_packages::Versions;
use gpusetup_system::limits::MAX_RECORD;
use gpusetup_system::{Node, Program, System};
use gpusetup_text::paths::{STARTED_AT_BOOT, UNIT_FOLDERS};
use gpusetup_text::text::quoted_path;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The properties of an engine's form.
pub fn form_of(engine: &Engine) -> &'static EngineBehaviour {
    match engine.form {
        EngineForm::DaemonJson => &docker::FORM,
        EngineForm::Cdi => &podman::FORM,
        EngineForm::Containerd => &containerd::FORM,
        EngineForm::Crio => &crio::FORM,
        EngineForm::Detects => &k3s::FORM,
    }
}

/// What a host has for containers with GPUs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct ContainerHost {
    /// The container toolkit; none if it is not installed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub toolkit: Option<InstalledToolkit>,
    /// The engines that are installed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub engines: Vec<InstalledEngine>,
    /// The configuration files of all engines that the database knows, all files that CRI-O reads,
    /// and other files that the plan writes. Files that do not exist are left out.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub files: BTreeMap<PathBuf, Seen<ConfigFile>>,
    /// The runtimes of NVIDIA's programs in the configuration of the engines that are installed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub runtimes: Vec<NvidiaRuntime>,
    /// Configuration files that their engine cannot read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub broken: Vec<BrokenConfig>,
    /// The CDI specifications of NVIDIA's devices.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub specifications: BTreeMap<PathBuf, CdiSpecification>,
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
    /// What runs pods with its own containerd, which gpusetup does not set up: `k0s`, `MicroK8s`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub own_containerds: Vec<String>,
    /// Whether SELinux enforces its rules.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub selinux: bool,
    /// The members of engines' groups, by group. A group that does not exist is left out.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub groups: BTreeMap<String, Vec<String>>,
    /// The runc or crun of CRI-O, `/usr/libexec/crio/crun`, if NVIDIA's runtime finds none to hand
    /// containers to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime_outside_path: Option<PathBuf>,
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
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct InstalledToolkit {
    /// Its version; none if it could not be read.
    pub version: Option<AddOnVersion>,
}

/// An engine of a host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct InstalledEngine {
    /// Its short name, `docker`.
    pub id: EngineId,
    /// The program that shows it.
    pub(crate) program: PathBuf,
    /// Its version; none if it could not be read.
    pub version: Option<AddOnVersion>,
    /// The version of its package, as the package manager writes it: `26.1.5+dfsg1-9+b1`. None if
    /// it is not the distribution's package, or that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub package_version: Option<String>,
    /// Those of its units that the host has.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub units: Vec<String>,
    /// A file of its units, and an option or a place of its configuration there, with which it does
    /// not accept, or does not read, the file that gpusetup writes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) conflict: Option<(PathBuf, String)>,
    /// Another file that it reads and that has the runtime `nvidia`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime_in: Option<PathBuf>,
    /// The last file that containerd reads with a section of its plugin for Kubernetes, if gpusetup
    /// does not write that file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) cri_section_in: Option<PathBuf>,
    /// The template of its configuration, if nothing in it or beside it has the runtime `nvidia`,
    /// not even those that it finds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incomplete_template: Option<PathBuf>,
    /// The files that CRI-O reads, in its order. Empty for other engines.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) files: Vec<PathBuf>,
}

/// A runtime of an engine whose program is NVIDIA's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
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
    /// The path of its program, if that does not exist.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing_program: Option<PathBuf>,
    /// Why it gives pods no GPUs, and what to change, if containerd has it without a program or
    /// with a type that is gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
}

/// A configuration file that its engine cannot read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
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

impl BrokenConfig {
    fn new(engine: &Engine, path: &Path, e: &ConfigError) -> Self {
        Self {
            engine: engine.id,
            path: path.to_owned(),
            why: e.to_string(),
            line: e.line(),
        }
    }
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
#[cfg_attr(
    feature = "schemas",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct ConfigFile {
    /// The text, in base64: unlike other texts in facts, it has line ends that must stay as they
    /// are.
    #[serde(
        rename = "base64",
        serialize_with = "to_base64",
        deserialize_with = "from_base64"
    )]
    #[cfg_attr(feature = "schemas", schemars(with = "String"))]
    pub text: String,
    /// The permission bits, as a number: 420 is 0644.
    pub mode: u32,
}

fn to_base64<S: Serializer>(text: &str, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&STANDARD.encode(text))
}

fn from_base64<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    let bytes = STANDARD
        .decode(String::deserialize(from)?)
        .map_err(de::Error::custom)?;
    String::from_utf8(bytes).map_err(de::Error::custom)
}

fn existing(system: &System, paths: &[String]) -> impl Iterator<Item = PathBuf> {
    paths
        .iter()
        .filter(|path| system.exists(path))
        .map(PathBuf::from)
}

/// What the host has for containers with GPUs, and whether this user exists.
pub fn container_host(system: &System, database: &Database, user: Option<&str>) -> ContainerHost {
    let system = &system.looked_at();
    let user_id = user.map(|name| user_id(system, name));
    let mut host = ContainerHost {
        snaps: database
            .engines
            .iter()
            .filter(|engine| is_snap(system, engine))
            .map(|engine| engine.id)
            .collect(),
        users: database
            .engines
            .iter()
            .flat_map(|engine| existing(system, &engine.used_by))
            .collect(),
        selinux: is_enforcing(system),
        groups: groups(system, database),
        user_exists: user_id
            .as_ref()
            .and_then(|id| id.as_ref().map(Option::is_some)),
        user_is_root: user_id.flatten().flatten().is_some_and(|id| id == "0"),
        specifications: cdi::specifications(system, database),
        ..ContainerHost::default()
    };
    for engine in &database.engines {
        let Some(program) = engine.programs.iter().find(|path| system.exists(path)) else {
            continue;
        };
        let (mut found, read) = installed(system, engine, program);
        if form_of(engine).inherits_default {
            let files = files_of_crio(system, &read);
            found.files = files.iter().map(|(path, _)| path.clone()).collect();
            host.files.extend(files);
            let toolkit = database.container_toolkit();
            host.runtime_outside_path =
                toolkit.and_then(|known| crio::runtime_outside_path(system, known, engine, &read));
        }
        host.runtimes
            .extend(read.nvidia_runtimes(system, engine, found.version));
        // The plan defines this one.
        host.broken.extend(
            read.undefined_default(engine)
                .filter(|_| !read.defaults_to(NVIDIA_RUNTIME)),
        );
        host.broken.extend(refused(system, engine, &found, &read));
        host.engines.push(found);
        host.broken.extend(read.broken);
    }
    let configs = database
        .engines
        .iter()
        .flat_map(|engine| engine.config.iter().chain(&engine.drop_in));
    let of_toolkit = database
        .container_toolkit()
        .into_iter()
        .flat_map(|toolkit| {
            let config = toolkit.low_level.iter().map(|known| &known.config);
            config.chain([&toolkit.dev_char.file])
        });
    for path in configs.chain(of_toolkit) {
        match config_file(system, Path::new(path)) {
            Seen::Absent => {}
            seen => drop(host.files.insert(path.into(), seen)),
        }
    }
    if let Some(toolkit) = database.container_toolkit() {
        host.toolkit = installed_toolkit(system, toolkit);
        host.refreshes_cdi = toolkit.cdi_units.iter().all(|unit| {
            system
                .link_target(Path::new(STARTED_AT_BOOT).join(unit))
                .is_some()
        });
        host.left_over = existing(system, &toolkit.left_over).collect();
        host.old_sources = existing(system, &toolkit.old_sources).collect();
        let own = toolkit
            .own_containerds
            .iter()
            .filter(|own| own.seen_as.iter().any(|path| system.exists(path)));
        host.own_containerds = own.map(|own| own.title.clone()).collect();
    }
    host
}

fn installed(system: &System, engine: &Engine, program: &str) -> (InstalledEngine, Configuration) {
    let of_distribution: Vec<_> = engine
        .packages
        .iter()
        .filter_map(|packages| packages.names.first())
        .collect();
    let names: Vec<_> = engine
        .packages
        .iter()
        .flat_map(|p| &p.names)
        .chain(&engine.other_packages)
        .collect();
    let recorded = record_of(system, &names).unwrap_or_default();
    let version = version_of(system, program, || version_of_first(&recorded, &names));
    let read = configuration(system, engine, version);
    let found = InstalledEngine {
        id: engine.id,
        program: program.into(),
        version,
        package_version: of_distribution
            .iter()
            .find_map(|name| recorded.get(*name).cloned()),
        units: engine
            .units
            .iter()
            .filter(|unit| {
                UNIT_FOLDERS
                    .iter()
                    .any(|folder| system.exists(Path::new(folder).join(unit)))
            })
            .cloned()
            .collect(),
        conflict: read.conflict.clone(),
        runtime_in: read.runtime_in.clone(),
        cri_section_in: read.cri_section_in.clone(),
        incomplete_template: read.incomplete_template.clone(),
        files: Vec::new(),
    };
    (found, read)
}

/// What the engine itself has against its file, if that is all that is wrong with it.
fn refused(
    system: &System,
    engine: &Engine,
    found: &InstalledEngine,
    read: &Configuration,
) -> Option<BrokenConfig> {
    let ask = form_of(engine).refused.filter(|_| read.broken.is_empty())?;
    let path = read.files.first()?;
    let why = ask(system, found, path, &read.starts)?;
    Some(BrokenConfig::new(engine, path, &ConfigError::new(why)))
}

fn is_snap(system: &System, engine: &Engine) -> bool {
    engine
        .snap
        .as_ref()
        .is_some_and(|snap| system.exists(&snap.program))
}

fn installed_toolkit(system: &System, toolkit: &ContainerToolkit) -> Option<InstalledToolkit> {
    if !system.exists(&toolkit.program) {
        return None;
    }
    let names: Vec<_> = toolkit.packages.iter().collect();
    Some(InstalledToolkit {
        version: version_of(system, &toolkit.program, || {
            version_of_first(&record_of(system, &names)?, &names)
        }),
    })
}

/// The version that a program reports; in a tree, where no program is run, the recorded one of its
/// package.
fn version_of(
    system: &System,
    program: &str,
    recorded: impl FnOnce() -> Option<AddOnVersion>,
) -> Option<AddOnVersion> {
    if !system.is_live() {
        return recorded();
    }
    let asked = Program::new([program, "--version"]).limit(Duration::from_secs(10));
    let output = system
        .run(&asked)
        .ok()
        .filter(|output| output.succeeded())?;
    version_in(output.text.lines().next()?)
}

/// The version of the first of these packages that is recorded.
fn version_of_first(installed: &Versions, names: &[&String]) -> Option<AddOnVersion> {
    names
        .iter()
        .find_map(|name| version_in(gpusetup_packages::upstream(installed.get(*name)?)))
}

/// Those of these packages that are installed, with their versions, if the package manager's record
/// is a file.
fn record_of(system: &System, names: &[&String]) -> Option<Versions> {
    let mut records = gpusetup_packages::ALL
        .iter()
        .filter_map(|manager| gpusetup_packages::of(*manager).record_file.as_ref());
    let installed = records.find_map(|record| {
        (record.scan)(&mut system.open(record.path).ok()?, &|name| {
            names.iter().any(|wanted| *wanted == name)
        })
        .ok()
    })?;
    Some(installed.versions)
}

/// The version in a line: `Docker version 26.1.5+dfsg1, build a72d7cd`, `containerd
/// github.com/containerd/containerd v1.7.24 …`.
fn version_in(line: &str) -> Option<AddOnVersion> {
    line.split_whitespace().find_map(|word| {
        let word = word.strip_prefix('v').unwrap_or(word);
        let end = word
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(word.len());
        let number = word[..end].trim_end_matches('.');
        number.contains('.').then(|| number.parse().ok()).flatten()
    })
}

/// The version of a package that repositories offer: `26.1.5+dfsg1-9`.
pub fn packaged_version(version: &str) -> Option<AddOnVersion> {
    version_in(gpusetup_packages::upstream(version))
}

/// A configuration file. A link is not followed: what it leads to may belong to something that
/// writes it again.
fn config_file(system: &System, path: &Path) -> Seen<ConfigFile> {
    let mode = match system.node(path) {
        Ok(Node::Absent) => return Seen::Absent,
        Ok(Node::File { mode, .. }) => mode,
        Ok(Node::Link { target }) => {
            return Seen::Unreadable(format!("it is a link to {}", quoted_path(&target)));
        }
        Ok(Node::Directory | Node::Other) => return Seen::Unreadable("it is no file".to_owned()),
        Err(e) => return Seen::Unreadable(e.to_string()),
    };
    let bytes = match system.read(path) {
        Ok(bytes) => bytes,
        Err(e) => return Seen::Unreadable(e.to_string()),
    };
    match String::from_utf8(bytes) {
        Ok(text) => match must_be_light(&text) {
            Ok(()) => Seen::Is(ConfigFile { text, mode }),
            Err(e) => Seen::Unreadable(e.to_string()),
        },
        Err(_) => Seen::Unreadable("it is not UTF-8".to_owned()),
    }
}

/// All files that CRI-O reads: NVIDIA's runtime gets the settings of its default one, which any of
/// them may have.
fn files_of_crio(system: &System, read: &Configuration) -> Vec<(PathBuf, Seen<ConfigFile>)> {
    read.files
        .iter()
        .map(|path| {
            // Links are followed: nothing is written to these.
            let real = system.canonical(path).unwrap_or_else(|_| path.clone());
            (path.clone(), config_file(system, &real))
        })
        .filter(|(_, seen)| *seen != Seen::Absent)
        .collect()
}

/// Whether SELinux enforces its rules: as the kernel says, or in a tree as its configuration does.
fn is_enforcing(system: &System) -> bool {
    let (file, enforcing) = match system.is_live() {
        true => ("/sys/fs/selinux/enforce", "1"),
        false => ("/etc/selinux/config", "SELINUX=enforcing"),
    };
    let text = system.read_text(file).ok().flatten().unwrap_or_default();
    text.lines().any(|line| line.trim() == enforcing)
}

/// The members of the groups that let users use engines.
fn groups(system: &System, database: &Database) -> BTreeMap<String, Vec<String>> {
    let text = system
        .read_text_up_to("/etc/group", MAX_RECORD)
        .ok()
        .flatten()
        .unwrap_or_default();
    let known: BTreeSet<_> = database
        .engines
        .iter()
        .filter_map(|engine| engine.group.as_deref())
        .collect();
    text.lines()
        .filter_map(|line| {
            let mut fields = line.split(':');
            let name = fields.next().filter(|name| known.contains(name))?;
            let members = fields.nth(2)?.split(',').filter(|name| !name.is_empty());
            Some((name.to_owned(), members.map(str::to_owned).collect()))
        })
        .collect()
}

/// The number of a user, in the host's own list or in a directory that the running host asks;
/// `Some(None)` if there is no such user, and none if that is not known.
fn user_id(system: &System, name: &str) -> Option<Option<String>> {
    let text = system
        .read_text_up_to("/etc/passwd", MAX_RECORD)
        .ok()
        .flatten()?;
    let found = text.lines().find_map(|line| id_of(line, name));
    if found.is_some() || !system.is_live() {
        return Some(found);
    }
    let output = system
        .run(&Program::new(["getent", "passwd", name]).limit(Duration::from_secs(30)))
        .ok()?;
    Some(
        output
            .text
            .lines()
            .filter(|_| output.succeeded())
            .find_map(|line| id_of(line, name)),
    )
}

/// The id in the line of passwd that is this user's.
fn id_of(line: &str, user: &str) -> Option<String> {
    let mut fields = line.split(':');
    (fields.next() == Some(user)).then(|| fields.nth(1).unwrap_or_default().to_owned())
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
    use gpusetup_data::embedded;

    pub(super) fn tree() -> (tempfile::TempDir, System) {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let system = System::at(dir.path());
        (dir, system)
    }

    pub(super) fn write(system: &System, path: &str, text: &[u8], mode: u32) {
        system
            .make_directories(Path::new(path).parent().expect("a folder"), 0o755)
            .expect("made");
        system.write(path, text, mode).expect("written");
    }

    #[test]
    fn a_version_is_found_in_what_a_program_prints() {
        let read = |line: &str| version_in(line).map(|version| version.to_string());
        for (line, version) in [
            ("Docker version 26.1.5+dfsg1, build a72d7cd", "26.1.5"),
            ("podman version 5.4.2", "5.4.2"),
            (
                "containerd github.com/containerd/containerd v1.7.24 88bf19b2105c8b17560993bee28a01ddc2f97182",
                "1.7.24",
            ),
            (
                "containerd github.com/containerd/containerd 1.6.20~ds1 1.6.20~ds1-1+deb12u1",
                "1.6.20",
            ),
            ("crio version 1.30.0", "1.30.0"),
            ("NVIDIA Container Toolkit CLI version 1.20.0", "1.20.0"),
            ("k3s version v1.32.2+k3s1 (381620ef)", "1.32.2"),
        ] {
            assert_eq!(read(line).as_deref(), Some(version), "{line}");
        }
        assert_eq!(read("podman: not found"), None);
        assert_eq!(
            packaged_version("5:27.3.1-1~debian.12~bookworm")
                .map(|v| v.to_string())
                .as_deref(),
            Some("27.3.1")
        );
    }

    #[test]
    fn all_files_of_crio_are_seen() {
        let (_dir, system) = tree();
        write(
            &system,
            "/etc/crio/crio.conf.d/10-crio.conf",
            b"[crio]\n",
            0o644,
        );
        assert!(
            container_host(&system, &embedded(), None).files.is_empty(),
            "CRI-O is not installed"
        );
        write(&system, "/usr/bin/crio", b"", 0o755);
        write(
            &system,
            "/etc/crio/crio.conf.d/of-pool/a",
            b"[crio]\n",
            0o644,
        );
        system
            .link(
                "/etc/crio/crio.conf",
                Path::new("/etc/crio/crio.conf.d/10-crio.conf"),
            )
            .expect("linked");
        let files = container_host(&system, &embedded(), None).files;
        let expected = [
            "/etc/crio/crio.conf",
            "/etc/crio/crio.conf.d/10-crio.conf",
            "/etc/crio/crio.conf.d/of-pool/a",
        ];
        assert!(
            files.keys().eq(expected.map(PathBuf::from).iter()),
            "{files:?}"
        );
        assert!(
            files.values().all(|seen| matches!(seen, Seen::Is(_))),
            "links are followed: {files:?}"
        );
    }

    #[test]
    fn files_of_crio_are_those_that_its_unit_names() {
        let (_dir, system) = tree();
        write(&system, "/usr/bin/crio", b"", 0o755);
        for path in [
            "/etc/crio/crio.conf.d/10-crio.conf",
            "/opt/b.conf",
            "/opt/a.d/1.conf",
        ] {
            write(&system, path, b"[crio]\n", 0o644);
        }
        let unit =
            b"[Service]\nExecStart=/usr/bin/crio --config /opt/b.conf --config-dir=/opt/a.d\n";
        write(&system, "/usr/lib/systemd/system/crio.service", unit, 0o644);
        let host = container_host(&system, &embedded(), None);
        let [crio] = host.engines.as_slice() else {
            panic!("{host:?}")
        };
        assert_eq!(
            crio.files,
            ["/opt/b.conf", "/opt/a.d/1.conf"].map(PathBuf::from),
            "in CRI-O's order"
        );
        assert!(
            crio.files.iter().eq(host.files.keys().rev()),
            "{:?}",
            host.files.keys()
        );
    }

    #[test]
    fn engines_are_seen_with_their_files() {
        let (_dir, system) = tree();
        assert_eq!(
            container_host(&system, &embedded(), None),
            ContainerHost::default()
        );
        write(&system, "/usr/bin/dockerd", b"", 0o755);
        write(
            &system,
            "/etc/docker/daemon.json",
            b"{\n\t\"debug\": true\r\n}\n",
            0o600,
        );
        write(&system, "/lib/systemd/system/docker.service", b"", 0o644);
        write(
            &system,
            "/etc/group",
            b"root:x:0:\ndocker:x:999:alice,bob\nempty:x:1:\n",
            0o644,
        );
        write(
            &system,
            "/etc/passwd",
            b"alice:x:1000:1000::/home/alice:/bin/sh\n",
            0o644,
        );
        let record =
            "Package: docker.io\nStatus: install ok installed\nVersion: 26.1.5+dfsg1-9+b1\n\n";
        write(&system, "/var/lib/dpkg/status", record.as_bytes(), 0o644);
        system
            .make_directories("/etc/containerd", 0o755)
            .expect("made");
        system
            .link("/etc/containerd/config.toml", Path::new("/nix/store/x"))
            .expect("linked");
        let host = container_host(&system, &embedded(), Some("alice"));
        let [docker] = host.engines.as_slice() else {
            panic!("{host:?}")
        };
        assert_eq!(
            docker.version.map(|v| v.to_string()).as_deref(),
            Some("26.1.5")
        );
        assert_eq!(docker.units, ["docker.service"]);
        assert_eq!(host.groups["docker"], ["alice", "bob"]);
        assert_eq!(host.user_exists, Some(true));
        let file = host
            .file(Path::new("/etc/docker/daemon.json"))
            .expect("readable")
            .expect("there");
        assert_eq!(
            (file.text.as_str(), file.mode),
            ("{\n\t\"debug\": true\r\n}\n", 0o600)
        );
        let refused = host
            .file(Path::new("/etc/containerd/config.toml"))
            .expect_err("a link");
        assert_eq!(refused, "it is a link to /nix/store/x");
        assert_eq!((host.runtimes.len(), host.broken.len()), (0, 0));
        // Facts that are printed and read again have the same text.
        assert_eq!(gpusetup_text::text::made_visible(host.clone()), host);
    }
}
