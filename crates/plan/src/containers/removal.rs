//! The removal of NVIDIA's container toolkit: its packages, what engines were told of it, and the
//! CDI specifications that it wrote.

use super::refusals::unreadable;
use super::warnings::ends_containers;
use crate::context::step;
use crate::{Act, Step, StepId, Warning};
use gpusetup_database::compat::{ContainerToolkit, Database, Engine};
use gpusetup_database::sum::sha256;
use gpusetup_host::{
    ConfigFile, ContainerHost, Facts, NVIDIA_RUNTIME, NvidiaRuntime, Original, Restored,
    config_restored, form_of, restored,
};
use gpusetup_operation::{Packages, Remove, Service, WriteFile};
use gpusetup_resolve::{Conflict, Hint};
use gpusetup_text::ids::CheckId;
use gpusetup_text::text::quoted_path;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// What is known of a host whose container toolkit is removed.
pub(crate) struct ContainerRemoval<'a> {
    /// The facts about engines.
    pub(crate) database: &'a Database,
    /// The host.
    pub(crate) facts: &'a Facts,
    /// The installed packages.
    pub(crate) installed: &'a BTreeMap<String, String>,
    /// The engines' files that gpusetup changed.
    pub(crate) originals: &'a BTreeMap<PathBuf, Original>,
    /// The CDI specifications that the toolkit wrote.
    pub(crate) specifications: &'a [PathBuf],
}

impl ContainerRemoval<'_> {
    /// The step; none if nothing is there.
    ///
    /// # Errors
    ///
    /// If an engine would start no containers without the toolkit, or a file cannot be read.
    pub(crate) fn step(&self, warnings: &mut Vec<Warning>) -> Result<Option<Step>, Conflict> {
        let Some(toolkit) = self.database.container_toolkit() else {
            return Ok(None);
        };
        let host = self.facts.containers();
        let packages = self.packages(toolkit);
        if packages.is_none() && host.toolkit.is_some() {
            warnings.push(warning(format!(
                "no package of {} was found, so its programs stay ({})",
                toolkit.title, toolkit.program
            )));
        }
        let (mut edits, mut restarts) = (Vec::new(), Vec::new());
        for engine in &self.database.engines {
            starts_without(engine, &host)?;
            let of_engine = self.edits(engine, &host, warnings)?;
            let found = host.engines.iter().find(|found| found.id == engine.id);
            let detects = form_of(engine).finds_runtimes && packages.is_some();
            if detects || !of_engine.is_empty() {
                let units = found.into_iter().flat_map(|found| &found.units);
                restarts.extend(units.map(|unit| Act::needed(Service::restart(unit))));
            }
            edits.extend(of_engine);
        }
        edits.extend(self.config_edit(toolkit, &host));
        let rule = Path::new(&toolkit.dev_char.file);
        let rule = host.file(rule).ok().flatten().map(|_| rule.to_owned());
        let files = rule.into_iter().chain(self.specifications.iter().cloned());
        let acts = toolkit
            .cdi_units
            .iter()
            .filter(|_| host.refreshes_cdi)
            .map(|unit| {
                Act::needed(Service {
                    unit: unit.clone(),
                    enabled: false,
                    restart: false,
                })
            });
        let acts = acts
            .chain(edits)
            .chain(packages)
            .chain(files.map(|path| Act::needed(Remove { path })));
        let acts: Vec<_> = acts.chain(restarts).collect();
        const WHY: &str = "its packages, what gpusetup told the engines of it, and the CDI specification that it wrote";
        let title = format!("Remove {}", toolkit.title);
        Ok((!acts.is_empty()).then(|| step(StepId::ContainerToolkit, title, WHY, acts)))
    }

    fn packages(&self, toolkit: &ContainerToolkit) -> Option<Act> {
        let names = toolkit
            .packages
            .iter()
            .filter(|name| self.installed.contains_key(*name))
            .cloned();
        let names: Vec<_> = names.collect();
        let manager = self
            .facts
            .os
            .package_manager
            .filter(|_| !names.is_empty())?;
        Some(Act::needed(Packages::to_remove(manager, names)))
    }

    /// The files of an engine as they were before.
    fn edits(
        &self,
        engine: &Engine,
        host: &ContainerHost,
        warnings: &mut Vec<Warning>,
    ) -> Result<Vec<Act>, Conflict> {
        let mut acts = Vec::new();
        for path in engine.config.iter().chain(&engine.drop_in).map(Path::new) {
            let file = match host.file(path) {
                Ok(Some(file)) => file,
                Ok(None) => continue,
                Err(why) => {
                    let path = quoted_path(path);
                    warnings.push(warning(format!(
                        "{path} was not looked at for the runtime nvidia: {why}"
                    )));
                    continue;
                }
            };
            let Some(operation) = self.edit(engine, path, file, warnings)? else {
                continue;
            };
            let found = host.engines.iter().find(|found| found.id == engine.id);
            let text =
                found.and_then(|found| ends_containers(engine, &found.units, path, &file.text));
            warnings.extend(text.map(warning));
            acts.push(operation);
        }
        let of_others = runtimes_of_others(engine, host).into_iter();
        warnings.extend(of_others.map(|(path, name)| warning(stays(engine, path, name))));
        Ok(acts)
    }

    fn edit(
        &self,
        engine: &Engine,
        path: &Path,
        file: &ConfigFile,
        warnings: &mut Vec<Warning>,
    ) -> Result<Option<Act>, Conflict> {
        let after = restored(engine, &file.text, self.originals.get(path)).map_err(|e| {
            let sentence = format!(
                "NVIDIA's runtime cannot be taken out of {}: {e}",
                quoted_path(path)
            );
            Conflict::blocked(CheckId::GS803, sentence)
                .hint(format!("correct the file of {}", engine.title))
        })?;
        if after == Restored::Theirs {
            warnings.push(warning(stays(engine, path, NVIDIA_RUNTIME)));
        }
        Ok(put_back(path, file, after))
    }

    /// The toolkit's configuration as it was before gpusetup named CRI-O's runc or crun there. The
    /// packages leave it behind.
    fn config_edit(&self, toolkit: &ContainerToolkit, host: &ContainerHost) -> Option<Act> {
        let path = Path::new(&toolkit.low_level.as_ref()?.config);
        let (file, original) = (host.file(path).ok()??, self.originals.get(path)?);
        put_back(path, file, config_restored(&file.text, original))
    }
}

/// The operation that makes a file what it becomes; none if it stays.
fn put_back(path: &Path, ConfigFile { text, mode }: &ConfigFile, after: Restored) -> Option<Act> {
    match after {
        Restored::Same | Restored::Theirs => None,
        Restored::Gone => Some(Act::needed(Remove {
            path: path.to_owned(),
        })),
        Restored::Text(content) => {
            let merged_from = Some(sha256(text));
            Some(Act::needed(WriteFile {
                path: path.to_owned(),
                content,
                mode: *mode,
                merged_from,
            }))
        }
    }
}

/// Refuses if an engine would start no containers without NVIDIA's runtime, or if its files do not
/// say so.
fn starts_without(engine: &Engine, host: &ContainerHost) -> Result<(), Conflict> {
    if let Some(broken) = host.broken.iter().find(|broken| broken.engine == engine.id) {
        return Err(unreadable(engine, broken, "try again"));
    }
    let mut runtimes = host
        .runtimes
        .iter()
        .filter(|runtime| runtime.engine == engine.id);
    match runtimes.find_map(|runtime| Some((runtime, runtime.default_in.as_deref()?))) {
        Some((runtime, path)) => Err(is_needed(engine, runtime, path)),
        None => Ok(()),
    }
}

/// Without its default runtime, an engine starts no containers.
fn is_needed(engine: &Engine, runtime: &NvidiaRuntime, path: &Path) -> Conflict {
    let (title, shown, name) = (&engine.title, quoted_path(path), &runtime.name);
    let is_named = name != NVIDIA_RUNTIME && !name.starts_with('/');
    let of_name = if is_named {
        format!(", here called {name}")
    } else {
        String::new()
    };
    let sentence = format!(
        "{title} starts every container with NVIDIA's runtime{of_name}: {shown} makes it the default"
    );
    // A file of variables beside units is read at every start.
    let is_unit = path
        .extension()
        .is_some_and(|end| end == "service" || end == "conf")
        && path.display().to_string().contains("/systemd/system/");
    let reload = if is_unit {
        "run systemctl daemon-reload, "
    } else {
        ""
    };
    let restart = if engine.units.is_empty() {
        String::new()
    } else {
        format!("{reload}restart {title}, ")
    };
    let hint =
        format!("give {title} another default runtime in this file, {restart}then try again");
    let find = format!(
        "sudo grep -niE 'default.runtime|^ *runtime *=|nvidia' {}",
        quoted_path(path)
    );
    Conflict::blocked(CheckId::GS803, sentence)
        .hint(hint)
        .hint(Hint::Command(find))
}

/// The runtimes of NVIDIA's programs that are in other files than the engine's own, or that have
/// other names than gpusetup gives.
fn runtimes_of_others<'h>(
    engine: &Engine,
    host: &'h ContainerHost,
) -> BTreeSet<(&'h Path, &'h str)> {
    let found = host.engines.iter().find(|found| found.id == engine.id);
    let in_other = found
        .and_then(|found| found.runtime_in.as_deref())
        .map(|path| (path, NVIDIA_RUNTIME));
    let own: Vec<_> = engine
        .config
        .iter()
        .chain(&engine.drop_in)
        .map(Path::new)
        .collect();
    let all = host
        .runtimes
        .iter()
        .filter(|runtime| runtime.engine == engine.id);
    let all = all.map(|runtime| (runtime.path.as_path(), runtime.name.as_str()));
    all.filter(|(path, name)| *name != NVIDIA_RUNTIME || !own.contains(path))
        .chain(in_other)
        .collect()
}

/// A runtime that gpusetup did not write stays.
fn stays(engine: &Engine, path: &Path, name: &str) -> String {
    let restart = engine
        .units
        .first()
        .map(|unit| format!(", then `sudo systemctl restart {unit}`"));
    format!(
        "{} has the runtime {name}, which gpusetup did not write: it stays. Take it out by hand{}",
        quoted_path(path),
        restart.unwrap_or_default()
    )
}

fn warning(text: String) -> Warning {
    Warning::new(CheckId::GS803, text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpusetup_data::embedded;
    use gpusetup_host::Seen;
    use gpusetup_host::sample;
    use gpusetup_operation::Operation;

    const CONFIG: &str = "/etc/nvidia-container-runtime/config.toml";

    #[test]
    fn the_toolkits_configuration_becomes_what_it_was() {
        let list = |names: &str| format!("[nvidia-container-runtime]\nruntimes = [{names}]\n");
        let (before, after) = (
            list("\"runc\""),
            list("\"/usr/libexec/crio/crun\", \"runc\""),
        );
        let file = Seen::Is(ConfigFile {
            text: after,
            mode: 0o644,
        });
        let host = ContainerHost {
            files: [(CONFIG.into(), file)].into(),
            ..ContainerHost::default()
        };
        let facts = Facts {
            container_host: Some(host),
            ..sample::facts()
        };
        let (database, installed) = (embedded(), BTreeMap::new());
        let written = |originals: &BTreeMap<PathBuf, Original>| {
            let removal = ContainerRemoval {
                database: &database,
                facts: &facts,
                installed: &installed,
                originals,
                specifications: &[],
            };
            let step = removal.step(&mut Vec::new()).expect("not refused")?;
            let [
                Act {
                    operation: Operation::WriteFile(file),
                    ..
                },
            ] = step.operations.as_slice()
            else {
                panic!("{:?}", step.operations)
            };
            Some((file.path.clone(), file.content.clone()))
        };
        assert_eq!(written(&BTreeMap::new()), None, "gpusetup did not write it");
        let original = Original {
            text: Some(before.clone()),
            unchanged: true,
        };
        assert_eq!(
            written(&[(CONFIG.into(), original)].into()),
            Some((CONFIG.into(), before))
        );
    }
}
