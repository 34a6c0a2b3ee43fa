//! The configuration files of container engines, read as the documents that they are: which
//! runtimes they define, and which one containers get that name none.

use gpusetup_system::limits::is_light_config;
use gpusetup_text::text::line_and_column;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use toml_edit::{DocumentMut, Item, TableLike};

/// The name of NVIDIA's runtime in every engine.
pub const NVIDIA_RUNTIME: &str = "nvidia";

/// The byte-order mark that Windows' editors write.
pub(super) const BYTE_ORDER_MARK: &str = "\u{feff}";

/// Why a configuration file cannot be read or changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    /// The line and the column of the error, from 1.
    place: Option<(usize, usize)>,
    why: String,
}

impl ConfigError {
    /// Something about the whole file.
    pub(super) fn new(why: impl Into<String>) -> Self {
        Self {
            place: None,
            why: why.into(),
        }
    }

    /// An error at a place.
    pub(super) fn at(line: usize, column: usize, why: impl Into<String>) -> Self {
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
    pub(super) fn line(&self) -> Option<usize> {
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
pub(super) fn must_be_light(text: &str) -> Result<(), ConfigError> {
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
pub(super) fn json_object(text: &str) -> Result<Map<String, Value>, ConfigError> {
    must_be_light(text)?;
    match serde_json::from_str(without_mark(text)) {
        Ok(Value::Object(all)) => Ok(all),
        Ok(_) => Err(ConfigError::new("it is no JSON object")),
        Err(e) => Err(ConfigError::at(e.line(), e.column(), e.to_string())),
    }
}

pub(super) fn without_mark(text: &str) -> &str {
    text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text)
}

/// What a configuration file of an engine says of runtimes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Runtimes {
    /// The program of each runtime, by the runtime's name; none if the file does not name it.
    pub(crate) programs: BTreeMap<String, Option<String>>,
    /// The type of each runtime, by the runtime's name, if the file says it:
    /// `io.containerd.runc.v2`.
    pub(crate) types: BTreeMap<String, String>,
    /// The runtime of containers that name none, if the file says so.
    pub(crate) default: Option<String>,
    /// Whether it turns CDI on, as `enable_cdi` of containerd does.
    pub enables_cdi: bool,
    /// The files that it imports, as containerd names them: `/etc/containerd/conf.d/*.toml`.
    pub(crate) imports: Vec<String>,
    /// Whether it has a section of containerd's plugin that serves Kubernetes.
    pub(crate) has_cri_section: bool,
    /// The folder of the engine's state, if the file names it, as K3s' and RKE2's options do.
    pub(crate) data_dir: Option<String>,
}

impl Runtimes {
    /// The runtimes in a file of TOML.
    ///
    /// # Errors
    ///
    /// If it is none.
    pub(super) fn from_toml(text: &str) -> Result<Self, ConfigError> {
        Ok(Self::in_document(&toml_document(text)?))
    }

    /// The same of a file that is read already.
    pub(super) fn in_document(doc: &DocumentMut) -> Self {
        let mut found = Self::default();
        found.add_table(doc.as_table());
        found
    }

    /// The programs of NVIDIA's runtimes.
    pub fn nvidias(&self) -> impl Iterator<Item = &str> {
        let programs = self.programs.values().flatten().map(String::as_str);
        programs.filter(|program| is_nvidia_runtime(program))
    }

    /// Adds what a later part of the same file says: it counts more.
    pub(super) fn add(&mut self, later: Self) {
        later
            .programs
            .into_iter()
            .for_each(|(name, program)| self.add_program(&name, program));
        self.types.extend(later.types);
        self.default = later.default.or(self.default.take());
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
    of_options
        .or_else(|| {
            ["runtime_engine", "runtime_path"]
                .into_iter()
                .find_map(|key| text_of(runtime, key))
        })
        .map(str::to_owned)
}

/// A text that is not empty.
pub(super) fn text_of<'t>(table: &'t dyn TableLike, key: &str) -> Option<&'t str> {
    table.get(key)?.as_str().filter(|text| !text.is_empty())
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
