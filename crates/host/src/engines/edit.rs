//! The configuration files of engines with NVIDIA's runtime, merged, never overwritten, and without
//! it.

use super::documents::ConfigError;
use super::low_level::{low_level_runtimes, with_first, without_first};
use super::{BrokenConfig, ContainerHost, InstalledEngine, form_of};
use gpusetup_database::compat::{ContainerToolkit, Engine};
use gpusetup_database::version::AddOnVersion;
use gpusetup_text::text::{hidden_in_lines, line_and_column, quoted_path};
use std::path::{Path, PathBuf};

/// An engine whose configuration gets NVIDIA's runtime.
#[derive(Clone, Copy)]
pub struct Target<'a> {
    /// The engine.
    pub engine: &'a Engine,
    /// The installed one; none if it is still to be installed.
    pub found: Option<&'a InstalledEngine>,
    /// Its version, if known.
    pub version: Option<AddOnVersion>,
    /// The host, with the files.
    pub host: &'a ContainerHost,
    /// The path of NVIDIA's runtime.
    pub runtime: &'a str,
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

impl<'a> Target<'a> {
    /// The file that gets the runtime; none if there is nothing to write.
    ///
    /// # Errors
    ///
    /// If a file cannot be merged, or the engine would not read it: which one, and why.
    pub fn edit(&self) -> Result<Option<FileEdit>, BrokenConfig> {
        let file = self.engine.config.as_ref().or(self.engine.drop_in.as_ref());
        let (Some(merge), Some(path)) = (form_of(self.engine).merge, file.map(Path::new)) else {
            return Ok(None);
        };
        if let Some((at, option)) = self.conflict() {
            // Another file that it reads has the runtime already.
            if self.runtime_in().is_some() {
                return Ok(None);
            }
            let why = format!(
                "it starts {} with {option}, beside which settings in {} are refused or not read",
                self.engine.title,
                quoted_path(path)
            );
            return Err(self.broken(at, &ConfigError::new(why)));
        }
        let merged = merge(self, path, self.text(path)?)?;
        let Some((path, content)) = merged else {
            return Ok(None);
        };
        let edit = self.host.edited(path.clone(), content);
        edit.map(Some).map_err(|e| self.broken(&path, &e))
    }

    /// The file that keeps the engine from serving Kubernetes.
    pub fn serves_no_pods(&self) -> Option<&'a str> {
        let path = self.engine.config.as_deref()?;
        let text = self.text(Path::new(path)).ok()??;
        (self.conflict().is_none() && (form_of(self.engine).serves_no_pods)(text)).then_some(path)
    }

    /// Another file that it reads and that has NVIDIA's runtime, which therefore stays as it is.
    pub fn runtime_in(&self) -> Option<&'a Path> {
        self.found?.runtime_in.as_deref()
    }

    /// What its unit says, and in which file, if it does not accept, or does not read, the file
    /// that gpusetup writes.
    pub fn conflict(&self) -> Option<&'a (PathBuf, String)> {
        self.found?.conflict.as_ref()
    }

    /// The file whose section of containerd's plugin this version takes in place of that in the
    /// main file.
    pub fn replaced_by(&self) -> Option<&'a Path> {
        let merges = self.version? >= self.engine.drop_in_since?;
        let section = self.found?.cri_section_in.as_deref();
        section.filter(|_| !merges)
    }

    /// Whether its version reads CDI specifications, and only if it is told to.
    pub(super) fn needs_cdi_setting(&self) -> bool {
        let reached = |bound: Option<AddOnVersion>| bound.is_some() && self.version >= bound;
        reached(self.engine.cdi) && !reached(self.engine.cdi_by_default)
    }

    /// The text of a file; none if it does not exist.
    pub(super) fn text(&self, path: &Path) -> Result<Option<&'a str>, BrokenConfig> {
        let file = self.host.file(path);
        let file = file.map_err(|why| self.broken(path, &ConfigError::new(why)))?;
        Ok(file.map(|file| file.text.as_str()))
    }

    /// The texts of the files of the installed engine, in its order.
    pub(super) fn texts(&self) -> Vec<&'a str> {
        let paths = self.found.into_iter().flat_map(|found| &found.files);
        paths
            .filter_map(|path| Some(self.host.file(path).ok()??.text.as_str()))
            .collect()
    }

    pub(super) fn broken(&self, path: &Path, e: &ConfigError) -> BrokenConfig {
        BrokenConfig::new(self.engine, path, e)
    }
}

impl ContainerHost {
    /// The toolkit's configuration with this program as the first low-level runtime; none if the
    /// file cannot be merged.
    pub fn config_with(&self, toolkit: &ContainerToolkit, program: &str) -> Option<FileEdit> {
        let known = toolkit.low_level.as_ref()?;
        let text = self.text_or_empty(&known.config)?;
        let content = with_first(text, program, &known.names)?;
        self.edited(PathBuf::from(&known.config), content).ok()
    }

    /// The list of low-level runtimes in the toolkit's configuration; none if the file cannot be
    /// read.
    pub fn low_level_names(&self, toolkit: &ContainerToolkit) -> Option<Vec<String>> {
        let known = toolkit.low_level.as_ref()?;
        let names = low_level_runtimes(self.text_or_empty(&known.config)?).ok()?;
        Some(names.unwrap_or_else(|| known.names.clone()))
    }

    fn text_or_empty(&self, path: &str) -> Option<&str> {
        let file = self.file(Path::new(path)).ok()?;
        Some(file.map_or("", |file| &file.text))
    }

    fn edited(&self, path: PathBuf, content: String) -> Result<FileEdit, ConfigError> {
        let file = self.file(&path).map_err(ConfigError::new)?;
        let before = file.map(|file| file.text.clone());
        let mode = file.map_or(0o644, |file| file.mode & 0o755);
        // A plan in a file may have no hidden characters.
        if before.as_ref() != Some(&content)
            && let Some(e) = before.as_deref().and_then(hidden)
        {
            return Err(e);
        }
        Ok(FileEdit {
            path,
            before,
            mode,
            content,
        })
    }
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

/// A file of others that gpusetup changed, as it was before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Original {
    /// Its text; none if it did not exist.
    pub text: Option<String>,
    /// Nobody has changed it since.
    pub unchanged: bool,
}

/// What becomes of a file that has NVIDIA's runtime, or had it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Restored {
    /// It stays as it is.
    Same,
    /// It has the runtime, and gpusetup did not write it.
    Theirs,
    /// It gets this text.
    Text(String),
    /// It is removed: gpusetup made it.
    Gone,
}

/// What becomes of a file: what it was before gpusetup changed it, or, if it has changed since,
/// what others wrote.
///
/// # Errors
///
/// If the file has changed and cannot be read.
pub fn restored(
    engine: &Engine,
    text: &str,
    original: Option<&Original>,
) -> Result<Restored, ConfigError> {
    let form = form_of(engine);
    let has_runtime = form.has_nvidia_runtime(text);
    let Some(Original {
        text: before,
        unchanged,
    }) = original.filter(|_| has_runtime)
    else {
        return Ok(if has_runtime {
            Restored::Theirs
        } else {
            Restored::Same
        });
    };
    let earlier = before.as_deref().unwrap_or_default();
    let after = match form.unmerge {
        _ if *unchanged => before.clone(),
        Some(unmerge) => unmerge(text, earlier)?,
        None => return Ok(Restored::Same),
    };
    Ok(match after.or_else(|| before.clone()) {
        Some(after) if after == text => Restored::Same,
        Some(after) => Restored::Text(after),
        None => Restored::Gone,
    })
}

/// What becomes of the toolkit's configuration, to whose list gpusetup added the first program:
/// what it was before, or, if it has changed since, the same text without that program.
pub fn config_restored(text: &str, original: &Original) -> Restored {
    let before = original.text.as_deref();
    if !original.unchanged {
        return without_first(text, before.unwrap_or_default())
            .map_or(Restored::Same, Restored::Text);
    }
    match before {
        Some(before) if before == text => Restored::Same,
        Some(before) => Restored::Text(before.to_owned()),
        None => Restored::Gone,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpusetup_data::embedded;

    const OURS: &str =
        r#"{"debug": true, "runtimes": {"nvidia": {"path": "/usr/bin/nvidia-container-runtime"}}}"#;

    fn docker(text: &str, before: Option<&str>, unchanged: bool) -> Restored {
        let original = Original {
            text: before.map(str::to_owned),
            unchanged,
        };
        without_runtime(text, Some(&original))
    }

    fn without_runtime(text: &str, original: Option<&Original>) -> Restored {
        let database = embedded();
        let docker = database
            .engine("docker".parse().expect("an id"))
            .expect("known");
        restored(docker, text, original).expect("JSON")
    }

    #[test]
    fn a_file_becomes_what_it_was_or_loses_only_the_runtime() {
        let before = "{\"debug\":   true}";
        assert_eq!(
            docker(OURS, Some(before), true),
            Restored::Text(before.to_owned())
        );
        assert_eq!(
            docker(OURS, Some(before), false),
            Restored::Text("{\"debug\": true}".to_owned())
        );
        assert_eq!(docker(OURS, None, true), Restored::Gone);
        assert_eq!(
            docker(OURS, None, false),
            Restored::Text("{\"debug\": true}".to_owned())
        );
        assert_eq!(
            docker(before, Some(OURS), true),
            Restored::Same,
            "the runtime is gone already"
        );
        assert_eq!(without_runtime(OURS, None), Restored::Theirs);
        assert_eq!(without_runtime(before, None), Restored::Same);
    }

    const BEFORE: &str = "[nvidia-container-runtime]\nruntimes = [\"runc\", \"crun\"]\n";
    const WITH_CRUN: &str =
        "[nvidia-container-runtime]\nruntimes = [\"/usr/libexec/crio/crun\", \"runc\", \"crun\"]\n";

    #[test]
    fn the_list_becomes_what_it_was() {
        let restored = |text: &str, before: Option<&str>, unchanged: bool| {
            config_restored(
                text,
                &Original {
                    text: before.map(str::to_owned),
                    unchanged,
                },
            )
        };
        assert_eq!(
            restored(WITH_CRUN, Some(BEFORE), true),
            Restored::Text(BEFORE.to_owned())
        );
        assert_eq!(restored(WITH_CRUN, None, true), Restored::Gone);
        let changed = format!("{WITH_CRUN}log-level = \"debug\" # theirs\n");
        let expected = format!("{BEFORE}log-level = \"debug\" # theirs\n");
        assert_eq!(
            restored(&changed, Some(BEFORE), false),
            Restored::Text(expected)
        );
        for (text, before) in [
            (BEFORE, BEFORE),
            (WITH_CRUN, WITH_CRUN),
            ("", BEFORE),
            ("[nvidia", BEFORE),
        ] {
            assert_eq!(
                restored(text, Some(before), false),
                Restored::Same,
                "{text} after {before}"
            );
        }
    }
}
