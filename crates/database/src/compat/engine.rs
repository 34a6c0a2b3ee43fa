//! Container engines, and the toolkit that gives their containers GPUs. Each engine is a row of
//! data: how it is found, how it is configured, which packages install it.

use super::short_name::short_name;
use super::{Database, Distribution, PackageManager, PackageRepository, SourceId};
use crate::version::AddOnVersion;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

short_name! {
    /// The short name of a container engine: `docker`.
    EngineId: most 16, also b"-", pattern "^[a-z0-9-]{1,16}$", described "A container engine, `docker`.";
    /// A text that is not an engine's name.
    EngineIdError: "`{0}` is not the name of a container engine: use 1 to 16 lower-case letters, digits and dashes"
}

/// A container engine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Engine {
    /// The name for `--engine`: `podman`.
    pub id: EngineId,
    /// The usual name: `Podman`.
    pub title: String,
    /// The programs, of which one shows that it is installed.
    pub programs: Vec<String>,
    /// How it learns of GPUs.
    pub form: EngineForm,
    /// Its configuration file.
    #[serde(default)]
    pub config: Option<String>,
    /// A configuration file that gpusetup may add.
    #[serde(default)]
    pub drop_in: Option<String>,
    /// Other configuration files with runtimes: those that it reads, too, or writes itself when it
    /// starts.
    #[serde(default)]
    pub(crate) other_configs: Vec<String>,
    /// Folders of files that systems have it read, too.
    #[serde(default)]
    pub(crate) other_parts: Vec<String>,
    /// Whether it reads folders in the folder of the added file, too.
    #[serde(default)]
    pub nested_parts: bool,
    /// The first version that merges the added file with the main one, key by key.
    #[serde(default)]
    pub drop_in_since: Option<AddOnVersion>,
    /// The program of a snap of it, which reads other files and does not see the host's toolkit.
    #[serde(default)]
    pub snap: Option<Snap>,
    /// The first version that reads a configuration file with a byte-order mark.
    #[serde(default)]
    pub reads_mark: Option<AddOnVersion>,
    /// Files that it reads and gpusetup never changes: those with its options, as K3s has them, or
    /// Podman's. A `*` stands for any text. Later ones count more.
    #[serde(default)]
    pub option_files: Vec<String>,
    /// Templates of containerd's configuration, as K3s has them. It fills in the first that exists,
    /// or its own, at each start. Its own imports the files of a folder, `config-v3.toml.d` for
    /// `config-v3.toml.tmpl`.
    #[serde(default)]
    pub templates: Vec<String>,
    /// The folder of its state, which has the templates, unless one of its options names another.
    #[serde(default)]
    pub data_dir: Option<String>,
    /// What its command line and its environment say in place of its files.
    #[serde(default)]
    pub start_options: StartOptions,
    /// Its own choices of the runtime of containers that name none, oldest first.
    #[serde(default)]
    pub(crate) default_runtimes: Vec<DefaultRuntime>,
    /// Or runtimes of which it takes the first that is installed, as Podman does.
    #[serde(default)]
    pub default_order: Vec<String>,
    /// The types of runtimes that it no longer has.
    #[serde(default)]
    pub removed_types: Option<RemovedTypes>,
    /// The names that it gives the programs of NVIDIA's that it finds itself.
    #[serde(default)]
    pub found_runtimes: Vec<String>,
    /// Its systemd units; a host has one of them.
    #[serde(default)]
    pub units: Vec<String>,
    /// What a restart does to containers that run. None for an engine without a daemon.
    #[serde(default)]
    pub restart: Option<RestartEffect>,
    /// Options in the command line of its units with which it refuses the configuration that is
    /// written, or does not read it.
    #[serde(default)]
    pub conflicting_options: Vec<String>,
    /// The group whose members may use it.
    #[serde(default)]
    pub group: Option<String>,
    /// The engine that runs this one for itself.
    #[serde(default)]
    pub part_of: Option<EngineId>,
    /// Programs that use this engine where another one runs it too.
    #[serde(default)]
    pub used_by: Vec<String>,
    /// The first version that reads CDI specifications; none if no source states it.
    #[serde(default)]
    pub cdi: Option<AddOnVersion>,
    /// The first version that reads them without a setting.
    #[serde(default)]
    pub cdi_by_default: Option<AddOnVersion>,
    /// The versions of CDI whose specifications it reads, each with the first version that does,
    /// oldest first.
    #[serde(default)]
    pub(crate) reads_cdi: Vec<CdiSince>,
    /// The newest version whose code was read for that: a newer one may read more.
    #[serde(default)]
    pub(crate) cdi_known_until: Option<AddOnVersion>,
    /// The first version whose option `--gpus` uses a CDI specification, if the host has one, and
    /// not the toolkit's hook.
    #[serde(default)]
    pub gpus_by_cdi: Option<AddOnVersion>,
    /// The distributions' packages that install it; empty if gpusetup does not install it.
    #[serde(default)]
    pub packages: Vec<EnginePackages>,
    /// Its packages in other repositories.
    #[serde(default)]
    pub other_packages: Vec<String>,
    pub(crate) sources: Vec<SourceId>,
}

/// A version of CDI, and the first version of a program that knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CdiSince {
    /// The version of CDI.
    pub cdi: AddOnVersion,
    /// The version of the program.
    pub since: AddOnVersion,
}

/// What an engine takes from its command line and its environment. A name with a dash is an option,
/// `--config`, and one without is a variable, `CONTAINER_CONFIG`, which counts less.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StartOptions {
    /// The configuration file.
    #[serde(default)]
    pub config: Vec<String>,
    /// The folder of files that add to it.
    #[serde(default)]
    pub parts: Vec<String>,
    /// The runtime of containers that name none.
    #[serde(default)]
    pub default_runtime: Vec<String>,
    /// Runtimes with their programs: `name=program`, or `name:program:folder`, several with commas
    /// between them.
    #[serde(default)]
    pub runtimes: Vec<String>,
    /// The folder of its state.
    #[serde(default)]
    pub data_dir: Vec<String>,
}

/// The types of runtimes that an engine no longer has, as its configuration names them:
/// `io.containerd.runc.v1`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RemovedTypes {
    /// The first version without them.
    pub since: AddOnVersion,
    /// The types.
    pub names: Vec<String>,
    /// The type that replaces them.
    pub instead: String,
    pub(crate) sources: Vec<SourceId>,
}

/// The runtime of containers that name none, if nothing else says so.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DefaultRuntime {
    /// Its name: `runc`.
    pub(crate) name: String,
    /// The first version with this choice; none for all versions before the next one.
    #[serde(default)]
    pub(crate) since: Option<AddOnVersion>,
}

/// An engine in a snap, which gpusetup does not set up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Snap {
    /// Its name.
    pub name: String,
    /// The program that shows it.
    pub program: String,
    /// The configuration file that it reads.
    pub config: String,
    /// The program of the container toolkit that newer ones bring.
    pub toolkit: String,
}

/// How an engine learns of GPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EngineForm {
    /// A JSON file with runtimes and features.
    DaemonJson,
    /// containerd's TOML, with a table of runtimes.
    Containerd,
    /// CRI-O's TOML.
    Crio,
    /// It finds the toolkit's runtime when it starts.
    Detects,
    /// It reads CDI specifications and needs nothing else.
    Cdi,
}

impl EngineForm {
    /// What is wrong with the keys of an engine of this form: the key, and what is said of it.
    pub(super) fn wrong_key(self, engine: &Engine) -> Option<(&'static str, &'static str)> {
        let file = match self {
            Self::DaemonJson | Self::Containerd => &engine.config,
            Self::Crio => &engine.drop_in,
            Self::Detects | Self::Cdi => return None,
        };
        if file.is_none() {
            return Some(("form", "needs a file that is not named"));
        }
        (!engine.option_files.is_empty()).then_some((
            "option_files",
            "goes with the forms detects and cdi: others have config or other_configs",
        ))
    }
}

/// What a restart of an engine does to containers that run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RestartEffect {
    /// They end, unless the engine is told to keep them.
    EndsContainers,
    /// They keep running.
    KeepsContainers,
}

/// Packages that install an engine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EnginePackages {
    /// The package manager of all systems that have them.
    #[serde(default)]
    pub(crate) package_manager: Option<PackageManager>,
    /// Or the distributions, by their ids, or by ids and versions: `fedora`, `debian 13`.
    #[serde(default)]
    pub(crate) distributions: Vec<String>,
    /// The names.
    pub names: Vec<String>,
    /// The versions in the archives of releases, by ids and versions of distributions, `debian 12`,
    /// if a source states them.
    #[serde(default)]
    pub(crate) versions: BTreeMap<String, AddOnVersion>,
    pub(crate) sources: Vec<SourceId>,
}

impl Engine {
    /// Its configuration files with runtimes, without those in [`Self::parts`].
    pub fn configs(&self) -> impl Iterator<Item = &Path> {
        self.config.iter().chain(&self.other_configs).map(Path::new)
    }

    /// The folders of files that add to its configuration.
    pub fn parts(&self) -> impl Iterator<Item = &Path> {
        let own = self
            .drop_in
            .iter()
            .filter_map(|file| Path::new(file).parent());
        own.chain(self.other_parts.iter().map(Path::new))
    }

    /// The runtime that a version of it chooses for containers that name none. If the version is
    /// not known, these are all.
    pub fn own_default_runtimes(&self, version: Option<AddOnVersion>) -> Vec<&str> {
        let mut all: Vec<_> = self
            .default_runtimes
            .iter()
            .filter(|of| {
                of.since
                    .zip(version)
                    .is_none_or(|(since, version)| version >= since)
            })
            .map(|of| of.name.as_str())
            .collect();
        match version {
            Some(_) => all.split_off(all.len().saturating_sub(1)),
            None => all,
        }
    }

    /// The first version that reads specifications of this version of CDI; none if no known one
    /// does.
    pub fn reads(&self, cdi: AddOnVersion) -> Option<AddOnVersion> {
        self.reads_cdi
            .iter()
            .find(|known| known.cdi >= cdi)
            .map(|known| known.since)
    }

    /// Whether a version of it is known not to read specifications of this version of CDI.
    pub fn refuses(&self, version: AddOnVersion, cdi: AddOnVersion) -> bool {
        match self.reads(cdi) {
            Some(first) => version < first,
            None => self.cdi_known_until.is_some_and(|newest| version <= newest),
        }
    }

    /// Whether containers of a version of it get GPUs by a CDI specification alone if the host has
    /// one, and not by the toolkit's runtime or hook.
    pub fn needs_cdi(&self, version: AddOnVersion) -> bool {
        self.form == EngineForm::Cdi || self.gpus_by_cdi.is_some_and(|since| version >= since)
    }

    /// The packages that install it on a distribution; none if no source states any.
    pub fn packages_on(&self, distribution: &Distribution) -> Option<&EnginePackages> {
        let release = distribution.release();
        let named = self.packages.iter().find(|p| {
            p.distributions
                .iter()
                .any(|d| *d == distribution.id || *d == release)
        });
        named.or_else(|| {
            self.packages
                .iter()
                .find(|p| p.package_manager == Some(distribution.package_manager))
        })
    }
}

impl EnginePackages {
    /// The version of the engine in the archive of a release; none if no source states it.
    pub fn version_on(&self, distribution: &Distribution) -> Option<AddOnVersion> {
        self.versions.get(&distribution.release()).copied()
    }
}

/// The toolkit that gives containers GPUs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ContainerToolkit {
    /// The usual name.
    pub title: String,
    /// Its packages, which work together only in one version. The first one depends on the others.
    pub packages: Vec<String>,
    /// The newest known version.
    pub newest: AddOnVersion,
    /// The version of its packages: `{version}-1`.
    pub(crate) package_version: String,
    /// The repositories that have it, one for each package manager.
    pub(crate) repositories: Vec<String>,
    /// Marks of such a repository that is enabled, as in
    /// [`Repository::seen_as`](super::Repository::seen_as).
    pub seen_as: Vec<String>,
    /// Its program.
    pub program: String,
    /// The runtime that engines are told of.
    pub runtime: String,
    /// The first version whose runtime uses CDI, and not the hook, unless its configuration says
    /// otherwise.
    pub runtime_by_cdi: AddOnVersion,
    /// The units that refresh the CDI specification.
    pub cdi_units: Vec<String>,
    /// The first version with these units.
    pub cdi_units_since: AddOnVersion,
    /// The CDI specifications that it writes: of its units, and of the command in NVIDIA's guide.
    pub specifications: Vec<String>,
    /// The newest version of CDI that its specifications can have, and since when.
    pub newer_specification: CdiSince,
    /// The released versions of CDI, oldest first.
    #[serde(default)]
    pub(crate) cdi_versions: Vec<AddOnVersion>,
    /// The links below `/dev/char`.
    pub dev_char: DevChar,
    /// The programs to which its runtime hands containers; none in a database of an older gpusetup.
    #[serde(default)]
    pub low_level: Option<LowLevelRuntimes>,
    /// Files of older generations that get in its way.
    #[serde(default)]
    pub left_over: Vec<String>,
    /// Package sources of older generations.
    #[serde(default)]
    pub old_sources: Vec<String>,
    /// What runs pods with its own containerd, which gpusetup does not set up.
    #[serde(default)]
    pub own_containerds: Vec<OwnContainerd>,
    pub(crate) sources: Vec<SourceId>,
}

/// A Kubernetes distribution with its own containerd, which gpusetup does not set up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OwnContainerd {
    /// The usual name.
    pub title: String,
    /// Paths that show it; one is enough.
    pub seen_as: Vec<String>,
    /// How its pods get the GPUs, in a sentence.
    pub instead: String,
    pub(crate) sources: Vec<SourceId>,
}

/// The udev rule that makes the links of NVIDIA's devices below `/dev/char`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DevChar {
    /// The first version of the toolkit with the command in the rule.
    pub since: AddOnVersion,
    /// The file.
    pub file: String,
    /// The rule.
    pub rule: String,
}

/// Where the toolkit's runtime looks for a low-level runtime, which starts its containers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LowLevelRuntimes {
    /// The toolkit's configuration. Its list `runtimes` has names and paths, of which the first
    /// that exists counts.
    pub config: String,
    /// The names in the list of a new configuration, in one line: `runtimes = ["runc", "crun"]`.
    pub names: Vec<String>,
    /// The folders in which names are looked for.
    pub folders: Vec<String>,
}

impl ContainerToolkit {
    /// Whether this is a released version of CDI.
    pub fn knows_cdi(&self, version: AddOnVersion) -> bool {
        self.cdi_versions.is_empty() || self.cdi_versions.contains(&version)
    }

    /// The version of its packages.
    pub fn package_version(&self, version: AddOnVersion) -> String {
        self.package_version
            .replace("{version}", &version.to_string())
    }
}

impl Database {
    /// The engine with this id.
    pub fn engine(&self, id: EngineId) -> Option<&Engine> {
        self.engines.iter().find(|engine| engine.id == id)
    }

    /// The toolkit that gives containers GPUs; none in a database of an older gpusetup.
    pub fn container_toolkit(&self) -> Option<&ContainerToolkit> {
        self.container_toolkits.first()
    }

    /// The repository that has the container toolkit for a package manager.
    pub fn container_repository(&self, manager: PackageManager) -> Option<&PackageRepository> {
        let ids = self.container_toolkit()?.repositories.iter();
        ids.filter_map(|id| self.package_repository(id))
            .find(|r| r.package_manager == manager)
    }
}

#[cfg(test)]
mod tests {
    use crate::compat::known;

    #[test]
    fn an_engine_reads_a_specification_of_a_version_that_it_knows() {
        let database = known();
        let first = |engine: &str, cdi: &str| {
            let engine = database
                .engine(engine.parse().expect("an id"))
                .expect("known");
            engine
                .reads(cdi.parse().expect("a version"))
                .map(|first| first.to_string())
        };
        for (engine, cdi, version) in [
            ("docker", "0.5.0", Some("25.0.0")),
            ("docker", "1.0.0", Some("28.1.0")),
            ("podman", "0.4.0", Some("4.1.0")),
            ("podman", "0.7.0", Some("5.1.0")),
            ("podman", "1.1.0", None),
            ("containerd", "0.8.0", Some("1.7.27")),
            ("cri-o", "1.1.0", Some("1.35.0")),
        ] {
            assert_eq!(
                first(engine, cdi).as_deref(),
                version,
                "{engine} and CDI {cdi}"
            );
        }
    }

    #[test]
    fn the_own_default_runtime_goes_by_the_version() {
        let database = known();
        let of = |engine: &str, version: Option<&str>| {
            let engine = database
                .engine(engine.parse().expect("an id"))
                .expect("known");
            engine
                .own_default_runtimes(version.map(|version| version.parse().expect("a version")))
                .join(" ")
        };
        assert_eq!(of("cri-o", Some("1.30.14")), "runc");
        assert_eq!(of("cri-o", Some("1.31.0")), "crun");
        assert_eq!(of("cri-o", None), "runc crun");
        assert_eq!(
            (of("containerd", None), of("docker", None)),
            ("runc".to_owned(), String::new())
        );
    }

    #[test]
    fn an_engine_refuses_what_no_version_read_so_far() {
        let database = known();
        let refuses = |engine: &str, version: &str, cdi: &str| {
            let engine = database
                .engine(engine.parse().expect("an id"))
                .expect("known");
            engine.refuses(
                version.parse().expect("a version"),
                cdi.parse().expect("a version"),
            )
        };
        assert!(refuses("podman", "5.4.2", "1.1.0") && refuses("podman", "5.4.2", "1.0.0"));
        assert!(!refuses("podman", "5.4.2", "0.8.0"));
        let newest = database
            .engine("podman".parse().expect("an id"))
            .expect("known")
            .cdi_known_until
            .expect("known");
        assert!(refuses("podman", &newest.to_string(), "1.1.0"));
        assert!(!refuses("podman", "99.0.0", "1.1.0"), "nobody has looked");
        assert!(!refuses("k3s", "1.32.2", "1.1.0"), "nothing is known of it");
        let toolkit = database.container_toolkit().expect("known");
        for (version, is_released) in [
            ("0.7.0", true),
            ("1.1.0", true),
            ("1.2.0", false),
            ("9.9.9", false),
        ] {
            assert_eq!(
                toolkit.knows_cdi(version.parse().expect("a version")),
                is_released,
                "{version}"
            );
        }
    }

    #[test]
    fn a_release_has_an_engine_in_a_version() {
        let database = known();
        let version = |engine: &str, id: &str, version: &str| {
            let engine = database
                .engine(engine.parse().expect("an id"))
                .expect("known");
            let distribution = database.distribution(id, version, &[]).expect("known");
            engine
                .packages_on(distribution)?
                .version_on(distribution)
                .map(|version| version.to_string())
        };
        for (engine, id, release, expected) in [
            ("podman", "debian", "12", Some("4.3.1")),
            ("podman", "ubuntu", "24.04", Some("4.9.3")),
            ("docker", "debian", "12", Some("20.10.24")),
            ("docker", "debian", "13", Some("26.1.5")),
            ("podman", "rocky", "9", None),
        ] {
            assert_eq!(
                version(engine, id, release).as_deref(),
                expected,
                "{engine} on {id} {release}"
            );
        }
    }

    #[test]
    fn an_engine_has_packages_by_distribution_and_manager() {
        let database = known();
        let packages = |engine: &str, id: &str, version: &str| {
            let engine = database
                .engine(engine.parse().expect("an id"))
                .expect("known");
            let distribution = database.distribution(id, version, &[]).expect("known");
            engine.packages_on(distribution).map(|p| p.names.join(" "))
        };
        for (engine, id, version, names) in [
            ("docker", "debian", "12", Some("docker.io")),
            ("docker", "debian", "13", Some("docker.io docker-cli")),
            ("docker", "ubuntu", "24.04", Some("docker.io")),
            ("docker", "rocky", "9", None),
            ("docker", "amzn", "2023", Some("docker")),
            ("docker", "fedora", "42", Some("moby-engine")),
            ("docker", "opensuse-leap", "15.6", Some("docker")),
            ("podman", "rocky", "9", Some("podman")),
            ("podman", "amzn", "2023", None),
            ("podman", "debian", "13", Some("podman")),
            ("k3s", "debian", "12", None),
        ] {
            assert_eq!(
                packages(engine, id, version).as_deref(),
                names,
                "{engine} on {id} {version}"
            );
        }
    }

    #[test]
    fn the_toolkit_has_a_repository_for_each_package_manager() {
        let database = known();
        let toolkit = database.container_toolkit().expect("known");
        assert_eq!(
            toolkit.package_version(toolkit.newest),
            format!("{}-1", toolkit.newest)
        );
        let urls = [
            crate::compat::PackageManager::Apt,
            crate::compat::PackageManager::Dnf,
        ]
        .map(|manager| {
            let repository = database.container_repository(manager).expect("known");
            repository.url_for("aarch64").expect("an address")
        });
        let root = "https://nvidia.github.io/libnvidia-container/stable";
        assert_eq!(
            urls,
            [format!("{root}/deb/arm64"), format!("{root}/rpm/aarch64")]
        );
    }
}
