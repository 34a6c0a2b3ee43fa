//! K3s and RKE2, which find NVIDIA's runtime when they start, and then fill in the templates of
//! their containerd's configuration.

use super::documents::{ConfigError, Runtimes};
use super::files::matching;
use super::form::{EngineBehaviour, GpuAccess};
use super::places;
use gpusetup_database::version::AddOnVersion;
use gpusetup_database::yaml;
use gpusetup_system::System;
use serde::Deserialize;
use std::path::{Path, PathBuf};

/// How K3s and RKE2 are configured.
pub(crate) static FORM: EngineBehaviour = EngineBehaviour {
    runs_pods: true,
    finds_runtimes: true,
    read_options: Some(read_options),
    ..EngineBehaviour::new(GpuAccess::Runtime, places::by_pattern, |text, _, _| {
        Runtimes::from_toml(text)
    })
};

/// The options of the command line, in YAML.
fn read_options(text: &str, _: &str, _: Option<AddOnVersion>) -> Result<Runtimes, ConfigError> {
    #[derive(Default, Deserialize)]
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
    let read = read.unwrap_or_default();
    Ok(Runtimes {
        default: read.default_runtime,
        data_dir: read.data_dir,
        ..Runtimes::default()
    })
}

/// What the template of an engine and the files that it imports say of runtimes, in the order in
/// which they count. It reads the first of `templates` that exists.
pub(super) fn templates(
    system: &System,
    templates: &[String],
) -> Vec<(PathBuf, Result<Runtimes, ConfigError>)> {
    let first_there = templates.iter().find(|path| system.exists(path));
    // Without one, the engine has its own, of the same generation as the first.
    let Some(template) = first_there.or(templates.first()) else {
        return Vec::new();
    };
    let text = system.read_text(template).ok().flatten();
    let folder = format!("{}.d", template.strip_suffix(".tmpl").unwrap_or(template));
    let is_imported = text
        .as_deref()
        .is_none_or(|text| imports(text, Path::new(&folder)));
    let parts = matching(system, &Path::new(&folder).join("*.toml"))
        .into_iter()
        .filter(|_| is_imported);
    let parts = parts.filter_map(|path| {
        let text = system.read_text(&path).ok().flatten()?;
        Some((path, Runtimes::from_toml(&text)))
    });
    let of_template = text
        .as_deref()
        .map(|text| (PathBuf::from(template), Ok(runtimes(text))));
    of_template.into_iter().chain(parts).collect()
}

/// The first of `templates` that exists, if the runtimes that the engine finds are not in it: it
/// neither has the engine's own template in it nor names their list.
pub(super) fn without_found_runtimes(system: &System, templates: &[String]) -> Option<PathBuf> {
    let template = templates.iter().find(|path| system.exists(path))?;
    let text = system.read_text(template).ok().flatten()?;
    let has_them = text.contains("\"base\"") || text.contains(".ExtraRuntimes");
    (!has_them).then(|| PathBuf::from(template))
}

/// Whether a template imports the files of a folder: it names the folder, or has the engine's own
/// template in it.
fn imports(template: &str, folder: &Path) -> bool {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    template.contains("\"base\"") || template.contains(&*name)
}

/// What a template says of runtimes. It is no TOML file, so each line is read alone, below the
/// header of its table.
fn runtimes(template: &str) -> Runtimes {
    let (mut found, mut header) = (Runtimes::default(), String::new());
    for line in without_actions(template).lines().map(str::trim) {
        let text = if line.starts_with('[') {
            line.to_owned()
        } else {
            format!("{header}\n{line}")
        };
        if let Ok(of_line) = Runtimes::from_toml(&text) {
            found.add(of_line);
        }
        if line.starts_with('[') {
            header = line.to_owned();
        }
    }
    found
}

/// A Go template without its actions: `{{ .Program }}`.
fn without_actions(template: &str) -> String {
    let mut parts = template.split("{{");
    let before = parts.next().unwrap_or_default();
    let after = parts.filter_map(|part| Some(part.split_once("}}")?.1));
    std::iter::once(before).chain(after).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLUGIN: &str = "plugins.'io.containerd.cri.v1.runtime'.containerd";

    /// The default runtime of a template, and the program of this runtime.
    fn of(template: &str, name: &str) -> (Option<String>, Option<String>) {
        let mut found = runtimes(template);
        (found.default, found.programs.remove(name).flatten())
    }

    #[test]
    fn a_template_is_read_without_its_actions() {
        let nvidia = Some("nvidia".to_owned());
        let program = Some("/usr/bin/nvidia-container-runtime".to_owned());
        let own = format!(
            "version = 3\n[{PLUGIN}]\n  default_runtime_name = \"nvidia\"\n{{{{ range $k, $v := .ExtraRuntimes }}}}\n\
             [{PLUGIN}.runtimes.\"{{{{$k}}}}\".options]\n  BinaryName = \"{{{{$v.BinaryName}}}}\"\n{{{{end}}}}\n\
             [{PLUGIN}.runtimes.nvidia.options]\n  BinaryName = \"/usr/bin/nvidia-container-runtime\"\n\
             [{PLUGIN}.runtimes.nvidia.options]\n  SystemdCgroup = {{{{ .SystemdCgroup }}}}\n"
        );
        assert_eq!(of(&own, "nvidia"), (nvidia.clone(), program));
        assert_eq!(
            of(
                "{{ template \"base\" . }}\n\n  default_runtime_name = \"nvidia\"\n",
                "nvidia"
            ),
            (nvidia, None)
        );
        let none = "{{ with .NodeConfig.DefaultRuntime }}default_runtime_name = \"{{ . }}\"{{ end }}\n\
                    # default_runtime_name = \"nvidia\"\n{{/* default_runtime_name = \"nvidia\" */}}\n";
        assert_eq!(of(none, "nvidia"), (None, None));
    }
}
