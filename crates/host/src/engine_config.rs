//! The configuration files of container engines, read as the documents that they are: which
//! runtimes they define, and which one containers get that name none.

use gpusetup_database::compat::EngineForm;
use gpusetup_database::yaml;
use gpusetup_system::limits::is_light_config;
use gpusetup_text::text::line_and_column;
use serde::Deserialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use toml_edit::{DocumentMut, Item, TableLike};

/// The name of NVIDIA's runtime in every engine.
pub const NVIDIA_RUNTIME: &str = "nvidia";

/// The byte-order mark that Windows' editors write.
pub const BYTE_ORDER_MARK: &str = "\u{feff}";

/// The names of containerd's plugin that serves Kubernetes and has the runtimes, in the versions of
/// its format.
const CRI_PLUGINS: [&str; 3] = [
    "cri",
    "io.containerd.grpc.v1.cri",
    "io.containerd.cri.v1.runtime",
];

/// Why a configuration file cannot be read or changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    /// The line and the column of the error, from 1.
    place: Option<(usize, usize)>,
    why: String,
}

impl ConfigError {
    /// Something about the whole file.
    pub fn new(why: impl Into<String>) -> Self {
        Self {
            place: None,
            why: why.into(),
        }
    }

    /// An error at a place.
    pub fn at(line: usize, column: usize, why: impl Into<String>) -> Self {
        let why = why.into();
        // The parser says the place too.
        let why = why
            .split_once(" at line ")
            .map_or(why.as_str(), |(why, _)| why)
            .to_owned();
        Self {
            place: Some((line, column)),
            why,
        }
    }

    /// The line of the error, from 1.
    pub fn line(&self) -> Option<usize> {
        self.place.map(|(line, _)| line)
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((line, column)) = self.place {
            write!(f, "line {line}, column {column}: ")?;
        }
        f.write_str(&self.why)
    }
}

/// Refuses a configuration that would take too much memory once it is parsed.
pub fn must_be_light(text: &str) -> Result<(), ConfigError> {
    let why = "it has too many values for a configuration";
    if is_light_config(text) {
        Ok(())
    } else {
        Err(ConfigError::new(why))
    }
}

/// A TOML file, as containerd and CRI-O read it.
///
/// # Errors
///
/// If it is none.
pub fn toml_document(text: &str) -> Result<DocumentMut, ConfigError> {
    must_be_light(text)?;
    text.parse::<DocumentMut>().map_err(|e| {
        let why = e
            .message()
            .lines()
            .next()
            .unwrap_or("it is not TOML")
            .to_owned();
        let Some(span) = e.span() else {
            return ConfigError::new(why);
        };
        let (line, column) = line_and_column(text, span.start);
        ConfigError::at(line, column, why)
    })
}

/// The object in a JSON file, as Docker reads it.
///
/// # Errors
///
/// If it is none.
pub fn json_object(text: &str) -> Result<Map<String, Value>, ConfigError> {
    must_be_light(text)?;
    match serde_json::from_str(without_mark(text)) {
        Ok(Value::Object(all)) => Ok(all),
        Ok(_) => Err(ConfigError::new("it is no JSON object")),
        Err(e) => Err(ConfigError::at(e.line(), e.column(), e.to_string())),
    }
}

/// Whether `daemon.json` says that CDI is not to be used.
pub fn refuses_cdi(text: &str) -> bool {
    json_object(text).is_ok_and(|all| {
        all.get("features").and_then(|f| f.get("cdi")) == Some(&Value::Bool(false))
    })
}

fn without_mark(text: &str) -> &str {
    text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text)
}

/// What a configuration file of an engine says of runtimes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Runtimes {
    /// The program of each runtime, by the runtime's name; none if the file does not name it.
    pub programs: BTreeMap<String, Option<String>>,
    /// The type of each runtime, by the runtime's name, if the file says it:
    /// `io.containerd.runc.v2`.
    pub types: BTreeMap<String, String>,
    /// The runtime of containers that name none, if the file says so.
    pub default: Option<String>,
    /// Whether it turns CDI on, as `enable_cdi` of containerd does.
    pub enables_cdi: bool,
    /// The files that it imports, as containerd names them: `/etc/containerd/conf.d/*.toml`. None
    /// if it does not say so.
    pub imports: Option<Vec<String>>,
    /// Whether it has a section of containerd's plugin that serves Kubernetes.
    pub has_cri_section: bool,
    /// The folder of the engine's state, if the file names it, as K3s' and RKE2's options do.
    pub data_dir: Option<String>,
}

impl Runtimes {
    /// The runtimes in a file of an engine.
    ///
    /// # Errors
    ///
    /// If the engine could not read it.
    pub fn of(form: EngineForm, text: &str) -> Result<Self, ConfigError> {
        match form {
            EngineForm::DaemonJson => Self::of_docker(text),
            EngineForm::Containerd | EngineForm::Crio | EngineForm::Detects => Self::of_toml(text),
            EngineForm::Cdi => Self::of_podman(text),
        }
    }

    /// The same for a file that is read to find out which runtime is the default. K3s and RKE2 have
    /// that among their options, in `config.yaml`.
    ///
    /// # Errors
    ///
    /// If the engine could not read it.
    pub fn of_read_file(form: EngineForm, text: &str) -> Result<Self, ConfigError> {
        match form {
            EngineForm::Detects => Self::of_options(text),
            form => Self::of(form, text),
        }
    }

    /// Adds what a later part of the same file says: it counts more.
    pub fn add(&mut self, later: Self) {
        later
            .programs
            .into_iter()
            .for_each(|(name, program)| self.add_program(&name, program));
        self.types.extend(later.types);
        self.default = later.default.or(self.default.take());
    }

    fn of_docker(text: &str) -> Result<Self, ConfigError> {
        // Docker takes an empty file for an empty object.
        if without_mark(text).trim().is_empty() {
            return Ok(Self::default());
        }
        let daemon = json_object(text)?;
        let runtimes = daemon
            .get("runtimes")
            .and_then(Value::as_object)
            .into_iter()
            .flatten();
        let program = |runtime: &Value| {
            let of_shim = runtime
                .get("options")
                .and_then(|options| options.get("BinaryName"));
            runtime
                .get("path")
                .or(of_shim)
                .and_then(Value::as_str)
                .map(str::to_owned)
        };
        Ok(Self {
            programs: runtimes
                .map(|(name, runtime)| (name.clone(), program(runtime)))
                .collect(),
            default: daemon
                .get("default-runtime")
                .and_then(Value::as_str)
                .map(str::to_owned),
            ..Self::default()
        })
    }

    fn of_toml(text: &str) -> Result<Self, ConfigError> {
        let doc = toml_document(text)?;
        let imports = doc.get("imports").and_then(Item::as_array);
        let imports = imports.map(|all| {
            all.iter()
                .filter_map(|file| file.as_str())
                .map(str::to_owned)
                .collect()
        });
        let plugins = doc.get("plugins").and_then(Item::as_table_like);
        let has_cri_section =
            plugins.is_some_and(|all| CRI_PLUGINS.iter().any(|name| all.contains_key(name)));
        let mut found = Self {
            imports,
            has_cri_section,
            ..Self::default()
        };
        found.add_table(doc.as_table());
        Ok(found)
    }

    /// Podman's `containers.conf`. A runtime has several paths, of which the first that exists
    /// counts.
    fn of_podman(text: &str) -> Result<Self, ConfigError> {
        let doc = toml_document(text)?;
        let Some(engine) = doc.get("engine").and_then(Item::as_table_like) else {
            return Ok(Self::default());
        };
        let first = |paths: &Item| paths.as_array()?.iter().next()?.as_str().map(str::to_owned);
        let mut found = Self {
            default: text_of(engine, "runtime").map(str::to_owned),
            ..Self::default()
        };
        if let Some(runtimes) = engine.get("runtimes").and_then(Item::as_table_like) {
            found.programs.extend(
                runtimes
                    .iter()
                    .map(|(name, paths)| (name.to_owned(), first(paths))),
            );
        }
        Ok(found)
    }

    /// The options of K3s' and RKE2's command line, in YAML.
    fn of_options(text: &str) -> Result<Self, ConfigError> {
        #[derive(Deserialize)]
        struct Options {
            #[serde(rename = "default-runtime")]
            default_runtime: Option<String>,
            #[serde(rename = "data-dir")]
            data_dir: Option<String>,
        }
        let read: Option<Options> = yaml::read_texts(text).map_err(|e| match e.line {
            0 => ConfigError::new(e.problem),
            line => ConfigError::at(line as usize, e.column as usize, e.problem),
        })?;
        let of_options = |read: Options| Self {
            default: read.default_runtime,
            data_dir: read.data_dir,
            ..Self::default()
        };
        Ok(read.map(of_options).unwrap_or_default())
    }

    /// What a table says at any depth: where it stands differs between the versions of containerd's
    /// format.
    fn add_table(&mut self, table: &dyn TableLike) {
        for (key, item) in table.iter() {
            match (key, item.as_table_like()) {
                ("runtimes", Some(all)) => all
                    .iter()
                    .for_each(|(name, runtime)| self.add_runtime(name, runtime)),
                ("default_runtime", Some(runtime)) => self.add_default(runtime, item),
                (_, Some(inner)) => self.add_table(inner),
                ("default_runtime" | "default_runtime_name", None) if self.default.is_none() => {
                    self.default = item
                        .as_str()
                        .filter(|name| !name.is_empty())
                        .map(str::to_owned);
                }
                ("enable_cdi", None) => self.enables_cdi |= item.as_bool() == Some(true),
                _ => {}
            }
        }
    }

    fn add_runtime(&mut self, name: &str, runtime: &Item) {
        let table = runtime.as_table_like();
        if let Some(kind) = table.and_then(|table| text_of(table, "runtime_type")) {
            self.types.insert(name.to_owned(), kind.to_owned());
        }
        self.add_program(name, table.and_then(program_of));
    }

    fn add_program(&mut self, name: &str, program: Option<String>) {
        if program.is_some() || !self.programs.contains_key(name) {
            self.programs.insert(name.to_owned(), program);
        }
    }

    /// The table `default_runtime` of older versions of containerd's format: a runtime called
    /// `default`, which takes precedence over `default_runtime_name`. In a file with every setting
    /// the table is there, and empty.
    fn add_default(&mut self, runtime: &dyn TableLike, item: &Item) {
        const NAME: &str = "default";
        if text_of(runtime, "runtime_type").is_some() {
            self.add_runtime(NAME, item);
            self.default = Some(NAME.to_owned());
        }
    }
}

/// The program of a runtime in containerd's or CRI-O's TOML.
fn program_of(runtime: &dyn TableLike) -> Option<String> {
    let options = runtime.get("options").and_then(Item::as_table_like);
    let of_options = ["BinaryName", "Runtime"]
        .into_iter()
        .find_map(|key| text_of(options?, key));
    let own = || {
        ["runtime_engine", "runtime_path"]
            .into_iter()
            .find_map(|key| text_of(runtime, key))
    };
    of_options.or_else(own).map(str::to_owned)
}

/// A text that is not empty.
fn text_of<'t>(table: &'t dyn TableLike, key: &str) -> Option<&'t str> {
    table.get(key)?.as_str().filter(|text| !text.is_empty())
}

/// Whether a file of an engine defines the runtime `nvidia`.
pub fn has_nvidia_runtime(form: EngineForm, text: &str) -> bool {
    Runtimes::of(form, text).is_ok_and(|found| found.programs.contains_key(NVIDIA_RUNTIME))
}

/// Whether a program is one of NVIDIA's runtimes: `nvidia-container-runtime`,
/// `/usr/bin/nvidia-container-runtime.cdi`.
pub fn is_nvidia_runtime(program: &str) -> bool {
    let name = Path::new(program).file_name().unwrap_or_default();
    name.to_string_lossy()
        .starts_with("nvidia-container-runtime")
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATH: &str = "/usr/bin/nvidia-container-runtime";

    fn of(form: EngineForm, text: &str) -> Runtimes {
        Runtimes::of(form, text).expect("readable")
    }

    fn program<'r>(runtimes: &'r Runtimes, name: &str) -> Option<&'r str> {
        runtimes.programs.get(name)?.as_deref()
    }

    #[test]
    fn dockers_runtimes_are_read() {
        let text = r#"{"default-runtime": "gpu", "runtimes": {"gpu": {"path": "/usr/bin/nvidia-container-runtime"},
            "shim": {"runtimeType": "io.containerd.runc.v2", "options": {"BinaryName": "/opt/x"}}, "kata": {}}}"#;
        let found = of(EngineForm::DaemonJson, text);
        assert_eq!(
            (program(&found, "gpu"), program(&found, "shim")),
            (Some(PATH), Some("/opt/x"))
        );
        assert_eq!(
            (found.programs.get("kata"), found.default.as_deref()),
            (Some(&None), Some("gpu"))
        );
        for empty in ["", " \n", "\u{feff}", "{}", "\u{feff}{}"] {
            assert_eq!(
                of(EngineForm::DaemonJson, empty),
                Runtimes::default(),
                "{empty:?}"
            );
        }
        let why = |text: &str| {
            Runtimes::of(EngineForm::DaemonJson, text)
                .expect_err("refused")
                .to_string()
        };
        assert!(
            why("{\n  // a\n}").starts_with("line 2, column 3: "),
            "{}",
            why("{\n  // a\n}")
        );
        assert_eq!(why("[]"), "it is no JSON object");
    }

    #[test]
    fn containerds_runtimes_are_read_in_each_format() {
        for plugin in [
            "cri",
            "\"io.containerd.grpc.v1.cri\"",
            "\"io.containerd.cri.v1.runtime\"",
        ] {
            let text = format!(
                "imports = [\"conf.d/*.toml\"]\n[plugins.{plugin}]\nenable_cdi = true\n[plugins.{plugin}.containerd]\n\
                 default_runtime_name = \"nvidia\"\n[plugins.{plugin}.containerd.runtimes.nvidia.options]\nBinaryName = \"{PATH}\"\n"
            );
            let found = of(EngineForm::Containerd, &text);
            assert_eq!(
                (program(&found, "nvidia"), found.default.as_deref()),
                (Some(PATH), Some("nvidia")),
                "{plugin}"
            );
            assert_eq!(
                (found.enables_cdi, found.imports),
                (true, Some(vec!["conf.d/*.toml".to_owned()]))
            );
            assert!(found.has_cri_section);
        }
        let of_first = |kind: &str| {
            format!(
                "[plugins.cri.containerd]\ndefault_runtime_name = \"runc\"\n[plugins.cri.containerd.default_runtime]\n\
                 runtime_type = \"{kind}\"\nruntime_engine = \"{PATH}\"\n"
            )
        };
        let found = of(
            EngineForm::Containerd,
            &of_first("io.containerd.runtime.v1.linux"),
        );
        assert_eq!(
            (program(&found, "default"), found.default.as_deref()),
            (Some(PATH), Some("default"))
        );
        assert_eq!(
            of(EngineForm::Containerd, &of_first("")).default.as_deref(),
            Some("runc")
        );
        assert!(Runtimes::of(EngineForm::Containerd, "version = 2\n[plugins\n").is_err());
    }

    #[test]
    fn crios_runtimes_are_read() {
        let text = format!(
            "[crio.runtime]\ndefault_runtime = \"nvidia\"\n[crio.runtime.runtimes.nvidia]\nruntime_path = \"{PATH}\" # NVIDIA's\n"
        );
        let found = of(EngineForm::Crio, &text);
        assert_eq!(
            (program(&found, "nvidia"), found.default.as_deref()),
            (Some(PATH), Some("nvidia"))
        );
        assert!(
            has_nvidia_runtime(EngineForm::Crio, &text)
                && !has_nvidia_runtime(EngineForm::Crio, "[crio")
        );
        assert_eq!(
            of(EngineForm::Crio, "# runtime_path = \"x\"\n[crio]\n"),
            Runtimes::default()
        );
    }

    #[test]
    fn nvidias_programs_are_known_by_their_name() {
        for program in [
            PATH,
            "nvidia-container-runtime.cdi",
            "/usr/local/nvidia/toolkit/nvidia-container-runtime",
        ] {
            assert!(is_nvidia_runtime(program), "{program}");
        }
        assert!(
            !is_nvidia_runtime("/usr/bin/crun")
                && !is_nvidia_runtime("")
                && !is_nvidia_runtime("/opt/nvidia-container-runtime/x")
        );
    }
}
