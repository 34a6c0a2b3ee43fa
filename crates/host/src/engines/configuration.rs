//! What the configuration files of engines, and the command lines that start them, say of runtimes.

use super::documents::{ConfigError, NVIDIA_RUNTIME, Runtimes, is_nvidia_runtime};
use super::files::matching;
use super::places::{instead, named_path};
use super::units::{Start, starts};
use super::{BrokenConfig, NvidiaRuntime, form_of, k3s};
use gpusetup_database::compat::Engine;
use gpusetup_database::version::AddOnVersion;
use gpusetup_system::System;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::{Path, PathBuf};

/// The folders of the usual `PATH`.
const PROGRAM_FOLDERS: [&str; 6] = [
    "/usr/local/sbin",
    "/usr/local/bin",
    "/usr/sbin",
    "/usr/bin",
    "/sbin",
    "/bin",
];

/// What a file says of runtimes. The error is why the engine does not start with it.
pub(crate) type RuntimesOfFile = (PathBuf, Result<Runtimes, ConfigError>);

/// What the files and the units of an engine say of its runtimes.
#[derive(Default)]
pub(super) struct Configuration {
    /// The file and the program of each runtime, by the runtime's name.
    runtimes: BTreeMap<String, (PathBuf, Option<String>)>,
    /// The type of each runtime, by the runtime's name, if a file says it.
    types: BTreeMap<String, String>,
    /// The runtime of containers that name none, and the file that says so.
    default: Option<(String, PathBuf)>,
    /// The folder of the engine's state, if something names it.
    data_dir: Option<String>,
    /// The files that the engine reads, in its order, without those that they import.
    pub(super) files: Vec<PathBuf>,
    /// Those of them that exist, and the files that they import.
    read: Vec<RuntimesOfFile>,
    /// The files that the engine cannot read.
    pub(super) broken: Vec<BrokenConfig>,
    /// The last of the files beside those that gpusetup writes that has the runtime `nvidia`.
    pub(super) runtime_in: Option<PathBuf>,
    /// An option of the command line, or the place of the configuration there, with which the
    /// engine does not accept, or does not read, the file that gpusetup writes.
    pub(super) conflict: Option<(PathBuf, String)>,
    /// The last file of containerd's with a section of its plugin that serves Kubernetes, if
    /// gpusetup does not write that file.
    pub(super) cri_section_in: Option<PathBuf>,
    /// The template that K3s and RKE2 fill in, if nothing in it or beside it has the runtime
    /// `nvidia`.
    pub(super) incomplete_template: Option<PathBuf>,
    /// How its units start the engine.
    pub(super) starts: Vec<Start>,
}

/// Reads the files of an engine in its order, and then how its units start it: what comes later
/// counts.
pub(super) fn configuration(
    system: &System,
    engine: &Engine,
    version: Option<AddOnVersion>,
) -> Configuration {
    let starts = starts(system, engine);
    let conflict = starts
        .iter()
        .find_map(|start| start.first_of(&engine.conflicting_options));
    let files = (form_of(engine).files)(system, engine, &starts);
    let read = read_files(system, engine, version, &files);
    let mut all = Configuration {
        conflict: conflict.or_else(|| other_place(system, engine, &starts, &read)),
        files,
        ..Configuration::default()
    };
    all.add_files(engine, &read);
    starts.iter().for_each(|start| all.add_start(engine, start));
    all.add_templates(system, engine);
    Configuration {
        starts,
        read,
        ..all
    }
}

/// What each file that an engine reads says of runtimes. An engine that writes its configuration
/// when it starts reads that.
pub fn runtimes_by_file(
    system: &System,
    engine: &Engine,
    version: Option<AddOnVersion>,
) -> Vec<RuntimesOfFile> {
    if !form_of(engine).finds_runtimes {
        return configuration(system, engine, version).read;
    }
    let files = engine.configs();
    files
        .map(|path| {
            let text = system.read_text(path).ok().flatten().unwrap_or_default();
            (path.to_owned(), (form_of(engine).read)(&text, "", version))
        })
        .collect()
}

/// The file with a default runtime that nothing defines, with which the engine does not start.
pub fn undefined_default(system: &System, engine: &Engine) -> Option<BrokenConfig> {
    configuration(system, engine, None).undefined_default(engine)
}

/// Reads these files, and those that they import, each once.
fn read_files(
    system: &System,
    engine: &Engine,
    version: Option<AddOnVersion>,
    files: &[PathBuf],
) -> Vec<RuntimesOfFile> {
    let form = form_of(engine);
    let read = form.read_options.unwrap_or(form.read);
    let (mut left, mut seen) = (VecDeque::from(files.to_vec()), BTreeSet::new());
    let (mut main, mut all) = (None, Vec::new());
    while let Some(path) = left.pop_front() {
        if !seen.insert(path.clone()) {
            continue;
        }
        let Some(text) = system.read_text(&path).ok().flatten() else {
            continue;
        };
        let main = main.get_or_insert_with(|| text.clone());
        let found = read(&text, main, version);
        if let Ok(found) = &found {
            left.extend(imports(system, &path, &found.imports));
        }
        all.push((path, found));
    }
    if engine
        .drop_in_since
        .zip(version)
        .is_some_and(|(since, version)| version < since)
    {
        forget_replaced(&mut all);
    }
    all
}

/// Takes the runtimes out of the files whose section of containerd's plugin a later file replaces
/// as a whole.
fn forget_replaced(all: &mut [RuntimesOfFile]) {
    let last = all
        .iter()
        .rposition(|(_, read)| read.as_ref().is_ok_and(|found| found.has_cri_section))
        .unwrap_or_default();
    for found in all[..last]
        .iter_mut()
        .filter_map(|(_, read)| read.as_mut().ok())
    {
        *found = Runtimes::default();
    }
}

/// The place of an engine's configuration, if an option names another one than that of the file
/// that gpusetup writes, and the engine does not read that file: the file with the option, and the
/// place.
fn other_place(
    system: &System,
    engine: &Engine,
    starts: &[Start],
    read: &[RuntimesOfFile],
) -> Option<(PathBuf, String)> {
    let (names, written) = (form_of(engine).place)(engine)?;
    let (file, place) = named_path(starts, names)?;
    let is_usual = written.starts_with(place)
        || system
            .canonical(place)
            .is_ok_and(|real| written.starts_with(real));
    let is_read = read.iter().any(|(path, _)| is_written(engine, path));
    (!is_usual && !is_read).then(|| (file.to_owned(), format!("its configuration in {place}")))
}

/// Whether gpusetup writes this file for an engine.
fn is_written(engine: &Engine, path: &Path) -> bool {
    [&engine.config, &engine.drop_in]
        .into_iter()
        .flatten()
        .any(|file| Path::new(file) == path)
}

/// The files that one of containerd imports. They are relative to its folder.
fn imports(system: &System, path: &Path, patterns: &[String]) -> Vec<PathBuf> {
    let folder = path.parent().unwrap_or(path);
    patterns
        .iter()
        .flat_map(|pattern| matching(system, &folder.join(pattern)))
        .collect()
}

/// The name and the program of a runtime: `nvidia=/usr/bin/x` for Docker,
/// `nvidia:/usr/bin/x:/run/x` for CRI-O.
fn named_program(runtime: &str) -> Option<(&str, &str)> {
    let (name, rest) = runtime.split_once(['=', ':'])?;
    Some((name, rest.split(':').next().unwrap_or(rest)))
}

impl Configuration {
    fn add_files(&mut self, engine: &Engine, read: &[RuntimesOfFile]) {
        for (path, found) in read {
            match found {
                Ok(found) => self.add(engine, path, found.clone()),
                Err(e) => self.broken.push(BrokenConfig::new(engine, path, e)),
            }
        }
    }

    /// Adds the template that K3s and RKE2 fill in. It counts more than their options, but if one
    /// of these names a runtime of NVIDIA's, they do not start without it.
    fn add_templates(&mut self, system: &System, engine: &Engine) {
        let by_option = self.default.clone();
        let folder = self
            .data_dir
            .as_deref()
            .filter(|folder| folder.starts_with('/'));
        let folder = folder.map(|folder| folder.trim_end_matches('/'));
        let paths = engine
            .templates
            .iter()
            .map(|path| instead(path, engine.data_dir.as_ref(), folder));
        let paths: Vec<_> = paths.collect();
        self.add_files(engine, &k3s::templates(system, &paths));
        let incomplete = k3s::without_found_runtimes(system, &paths);
        self.incomplete_template =
            incomplete.filter(|_| !self.runtimes.contains_key(NVIDIA_RUNTIME));
        let needed = by_option.filter(|(name, _)| self.is_nvidias(system, engine, name));
        self.default = needed.or(self.default.take());
    }

    fn add(&mut self, engine: &Engine, path: &Path, found: Runtimes) {
        if engine.drop_in.is_some()
            && !is_written(engine, path)
            && found.programs.contains_key(NVIDIA_RUNTIME)
        {
            self.runtime_in = Some(path.to_owned());
        }
        if found.has_cri_section {
            self.cri_section_in = (!is_written(engine, path)).then(|| path.to_owned());
        }
        let joins_files = form_of(engine).joins_files;
        let programs: Vec<_> = found
            .programs
            .into_iter()
            .filter(|(name, program)| {
                !joins_files || program.is_some() || !self.runtimes.contains_key(name)
            })
            .collect();
        self.runtimes.extend(
            programs
                .into_iter()
                .map(|(name, program)| (name, (path.to_owned(), program))),
        );
        self.types.extend(found.types);
        self.default = found
            .default
            .map(|name| (name, path.to_owned()))
            .or(self.default.take());
        self.data_dir = found.data_dir.or(self.data_dir.take());
    }

    /// The default runtime as an error of the file that names it, if nothing defines it and it is
    /// no shim, whose name has a dot.
    pub(super) fn undefined_default(&self, engine: &Engine) -> Option<BrokenConfig> {
        let stock = form_of(engine).stock_runtimes?;
        let (name, path) = self.default.as_ref()?;
        let is_defined = name.is_empty()
            || name.contains('.')
            || stock.contains(&name.as_str())
            || self.runtimes.contains_key(name);
        let why = format!("it makes {name} the default runtime, and defines none of this name");
        (!is_defined).then(|| BrokenConfig::new(engine, path, &ConfigError::new(why)))
    }

    /// Whether this runtime is that of containers that name none.
    pub(super) fn defaults_to(&self, name: &str) -> bool {
        self.default
            .as_ref()
            .is_some_and(|(default, _)| default == name)
    }

    fn add_start(&mut self, engine: &Engine, start: &Start) {
        let options = &engine.start_options;
        for (file, list) in start.values(&options.runtimes) {
            for (name, program) in list.split(',').filter_map(named_program) {
                if form_of(engine).joins_options && name == NVIDIA_RUNTIME {
                    self.runtime_in = Some(file.to_owned());
                }
                self.runtimes
                    .insert(name.to_owned(), (file.to_owned(), Some(program.to_owned())));
            }
        }
        if let Some((file, name)) = start.values(&options.default_runtime).pop() {
            self.default = Some((name.to_owned(), file.to_owned()));
        }
        // K3s takes what its files say for options, which count more than a variable.
        let (flags, variables): (Vec<String>, Vec<String>) = options
            .data_dir
            .iter()
            .cloned()
            .partition(|name| name.starts_with('-'));
        let [by_flag, by_variable] = [flags, variables].map(|names| {
            let (_, folder) = start.values(&names).pop()?;
            Some(folder.to_owned())
        });
        self.data_dir = by_flag.or(self.data_dir.take()).or(by_variable);
    }

    /// The runtimes that start NVIDIA's programs. An engine of unknown version may use any of its
    /// built-in defaults, so each counts.
    pub(super) fn nvidia_runtimes(
        &self,
        system: &System,
        engine: &Engine,
        version: Option<AddOnVersion>,
    ) -> Vec<NvidiaRuntime> {
        let own = self.own_defaults(system, engine, version);
        let undefined = self
            .default
            .iter()
            .filter(|(name, _)| !self.runtimes.contains_key(name));
        let undefined = undefined.map(|(name, path)| (name, path));
        let defined = self.runtimes.iter().map(|(name, (path, _))| (name, path));
        let all = defined
            .chain(undefined)
            .filter(|(name, _)| self.is_nvidias(system, engine, name.as_str()));
        all.map(|(name, path)| {
            let program = self
                .runtimes
                .get(name)
                .and_then(|(_, program)| program.as_deref());
            NvidiaRuntime {
                engine: engine.id,
                name: name.clone(),
                path: path.clone(),
                default_in: match &self.default {
                    Some((default, file)) => (default == name).then(|| file.clone()),
                    None => own.contains(&name.as_str()).then(|| path.clone()),
                },
                missing_program: program
                    .filter(|program| program.starts_with('/') && !system.exists(program))
                    .map(PathBuf::from),
                fault: self.fault(engine, name, version),
            }
        })
        .collect()
    }

    /// Why a runtime of containerd's gives pods no GPUs, and what to change.
    fn fault(&self, engine: &Engine, name: &str, version: Option<AddOnVersion>) -> Option<String> {
        let removed = engine
            .removed_types
            .as_ref()
            .filter(|removed| version >= Some(removed.since));
        let kind = self.types.get(name);
        if let Some((removed, kind)) = removed
            .zip(kind)
            .filter(|(removed, kind)| removed.names.contains(kind))
        {
            let (title, since, instead) = (&engine.title, removed.since, &removed.instead);
            return Some(format!(
                "{title} has no runtime_type {kind} since {since}, so no pod of it starts: make it {instead}"
            ));
        }
        let has_program = self
            .runtimes
            .get(name)
            .is_none_or(|(_, program)| program.is_some());
        let why = form_of(engine).without_program.filter(|_| !has_program);
        why.map(str::to_owned)
    }

    /// The runtimes that the engine chooses itself for containers that name none.
    fn own_defaults<'e>(
        &self,
        system: &System,
        engine: &'e Engine,
        version: Option<AddOnVersion>,
    ) -> Vec<&'e str> {
        let first = engine
            .default_order
            .iter()
            .find(|name| self.runtimes.contains_key(name.as_str()) || program_exists(system, name))
            .map(String::as_str);
        engine
            .own_default_runtimes(version)
            .into_iter()
            .chain(first)
            .collect()
    }

    /// The path of a program with one of these names, `/usr/libexec/crio/crun`: that of the default
    /// runtime, or else another.
    pub(super) fn program_named(&self, engine: &Engine, names: &[String]) -> Option<&Path> {
        let default = self.default.iter().map(|(name, _)| name.as_str());
        let all = default
            .chain(engine.own_default_runtimes(None))
            .chain(self.runtimes.keys().map(String::as_str));
        let mut programs = all
            .filter_map(|name| self.runtimes.get(name)?.1.as_deref())
            .map(Path::new);
        programs.find(|program| {
            let file_name = program.file_name().unwrap_or_default();
            program.is_absolute() && names.iter().any(|name| file_name == name.as_str())
        })
    }

    /// Whether a runtime is one of NVIDIA's, and not of the toolkit with this program: the GPU
    /// Operator has a separate one.
    pub(super) fn has_other_toolkit(&self, runtime: &str) -> bool {
        let mut programs = self
            .runtimes
            .values()
            .filter_map(|(_, program)| program.as_deref());
        programs.any(|program| {
            program.starts_with('/') && is_nvidia_runtime(program) && !program.starts_with(runtime)
        })
    }

    /// Whether a runtime is one of NVIDIA's: by its program, or by its name if no file has the
    /// program.
    fn is_nvidias(&self, system: &System, engine: &Engine, name: &str) -> bool {
        match self.runtimes.get(name) {
            Some((_, Some(program))) => leads_to_nvidias(system, program),
            Some((_, None)) => name == NVIDIA_RUNTIME,
            // Podman's may be a path.
            None => {
                name == NVIDIA_RUNTIME || leads_to_nvidias(system, name) || is_found(engine, name)
            }
        }
    }
}

/// Whether a program is one of NVIDIA's runtimes, or a link to one.
fn leads_to_nvidias(system: &System, program: &str) -> bool {
    is_nvidia_runtime(program)
        || paths_of(program).iter().any(|path| {
            system
                .canonical(path)
                .is_ok_and(|real| is_nvidia_runtime(&real.to_string_lossy()))
        })
}

/// Where a program may be: its path, or each folder of `PATH` for a name alone.
fn paths_of(program: &str) -> Vec<PathBuf> {
    match program.contains('/') {
        true => vec![program.into()],
        false => PROGRAM_FOLDERS
            .iter()
            .map(|folder| Path::new(folder).join(program))
            .collect(),
    }
}

/// Whether a program is installed: its path, or its name in a folder of the usual `PATH`.
pub fn program_exists(system: &System, program: &str) -> bool {
    paths_of(program).iter().any(|path| system.exists(path))
}

/// Whether an engine gives this name to a program of NVIDIA's that it finds itself.
fn is_found(engine: &Engine, name: &str) -> bool {
    engine.found_runtimes.iter().any(|found| found == name)
}

#[cfg(test)]
mod tests {
    use super::super::container_host;
    use super::super::tests::{tree, write};
    use super::*;
    use gpusetup_data::embedded;

    /// The runtimes of a host with these programs and files: the engine's, the name, and the file
    /// that makes it the default.
    fn runtimes(
        programs: &[&str],
        files: &[(&str, &str)],
    ) -> Vec<(String, String, Option<String>)> {
        let (_dir, system) = tree();
        programs
            .iter()
            .for_each(|program| write(&system, program, b"", 0o755));
        files
            .iter()
            .for_each(|(path, text)| write(&system, path, text.as_bytes(), 0o644));
        let shown = |path: PathBuf| path.display().to_string();
        let all = container_host(&system, &embedded(), None)
            .runtimes
            .into_iter();
        all.map(|found| {
            (
                found.engine.to_string(),
                found.name,
                found.default_in.map(shown),
            )
        })
        .collect()
    }

    const CRIO: &str = "/etc/crio/crio.conf";
    const CRIO_PART: &str = "/etc/crio/crio.conf.d/99-nvidia.toml";
    const OF_CRIO: &str =
        "[crio.runtime.runtimes.nvidia]\nruntime_path = \"/usr/bin/nvidia-container-runtime\"\n";

    fn found(
        engine: &str,
        name: &str,
        default_in: Option<&str>,
    ) -> Vec<(String, String, Option<String>)> {
        vec![(
            engine.to_owned(),
            name.to_owned(),
            default_in.map(str::to_owned),
        )]
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
        assert_eq!(
            runtimes(&program, &[(CRIO, whole)]),
            found("cri-o", "nvidia", Some(CRIO))
        );
        let later = default.replace("nvidia", "crun");
        assert_eq!(
            runtimes(&program, &[(CRIO, whole), (early, later.as_str())]),
            found("cri-o", "nvidia", None)
        );
        assert_eq!(
            runtimes(&program, &[(CRIO_PART, OF_CRIO)]),
            found("cri-o", "nvidia", None)
        );
        assert_eq!(
            runtimes(&program, &[(CRIO, default)]),
            found("cri-o", "nvidia", Some(CRIO)),
            "without its table"
        );
        assert_eq!(
            runtimes(&[], &[(CRIO, whole)]),
            [],
            "CRI-O is not installed"
        );
    }

    #[test]
    fn a_default_counts_by_its_program() {
        let daemon = "/etc/docker/daemon.json";
        let docker = |text: &str| runtimes(&["/usr/bin/dockerd"], &[(daemon, text)]);
        let cdi = r#"{"default-runtime": "x", "runtimes": {"x": {"path": "nvidia-container-runtime.cdi"}}}"#;
        assert_eq!(docker(cdi), found("docker", "x", Some(daemon)));
        assert_eq!(
            docker(&cdi.replace("nvidia-container-runtime.cdi", "crun")),
            []
        );
        let other =
            r#"{"default-runtime": "nvidia", "runtimes": {"nvidia": {"path": "/usr/bin/crun"}}}"#;
        assert_eq!(docker(other), [], "it is NVIDIA's by its name alone");
        let unit = "/etc/systemd/system/docker.service.d/override.conf";
        let command = "[Service]\nExecStart=\nExecStart=/usr/bin/dockerd --add-runtime=gpu=/usr/bin/nvidia-container-runtime \\\n  --default-runtime=gpu\n";
        assert_eq!(
            runtimes(&["/usr/bin/dockerd"], &[(unit, command)]),
            found("docker", "gpu", Some(unit))
        );
        let again = format!("{command}ExecStart=\nExecStart=/usr/bin/dockerd\n");
        assert_eq!(
            runtimes(&["/usr/bin/dockerd"], &[(unit, again.as_str())]),
            [],
            "the empty one takes it back"
        );
    }

    #[test]
    fn a_default_counts_in_the_variables_of_a_unit() {
        let docker = |files: &[(&str, &str)]| runtimes(&["/usr/bin/dockerd"], files);
        let unit = "[Service]\nEnvironmentFile=-/etc/default/docker\nExecStart=/usr/sbin/dockerd -H fd:// $DOCKER_OPTS\n";
        let unit = ("/lib/systemd/system/docker.service", unit);
        let daemon = r#"{"runtimes": {"nvidia": {"path": "/usr/bin/nvidia-container-runtime"}}}"#;
        let daemon = ("/etc/docker/daemon.json", daemon);
        let set = (
            "/etc/default/docker",
            "DOCKER_OPTS=\"--default-runtime=nvidia\"\n",
        );
        assert_eq!(docker(&[unit, daemon]), found("docker", "nvidia", None));
        assert_eq!(
            docker(&[unit, daemon, set]),
            found("docker", "nvidia", Some("/etc/default/docker"))
        );
        let crio = |files: &[(&str, &str)]| runtimes(&["/usr/bin/crio"], files);
        let unit = "[Service]\nEnvironmentFile=-/etc/sysconfig/crio\nExecStart=/usr/bin/crio $CRIO_CONFIG_OPTIONS\n";
        let unit = ("/usr/lib/systemd/system/crio.service", unit);
        let set = ("/etc/sysconfig/crio", "CONTAINER_DEFAULT_RUNTIME=nvidia\n");
        let table = (CRIO_PART, OF_CRIO);
        assert_eq!(
            crio(&[unit, table, set]),
            found("cri-o", "nvidia", Some("/etc/sysconfig/crio"))
        );
        let both = (
            "/etc/sysconfig/crio",
            "CONTAINER_DEFAULT_RUNTIME=nvidia\nCRIO_CONFIG_OPTIONS=--default-runtime=crun\n",
        );
        assert_eq!(
            crio(&[unit, table, both]),
            found("cri-o", "nvidia", None),
            "the option counts more"
        );
    }

    #[test]
    fn crios_own_default_goes_by_its_version() {
        let of = |name: &str, version: &str| {
            let record =
                format!("Package: cri-o\nStatus: install ok installed\nVersion: {version}\n\n");
            let table = OF_CRIO.replace("runtimes.nvidia", &format!("runtimes.{name}"));
            let files = [
                ("/var/lib/dpkg/status", record.as_str()),
                (CRIO_PART, table.as_str()),
            ];
            runtimes(&["/usr/bin/crio"], &files)
        };
        assert_eq!(
            of("crun", "1.33.0-1.1"),
            found("cri-o", "crun", Some(CRIO_PART))
        );
        assert_eq!(of("runc", "1.33.0-1.1"), found("cri-o", "runc", None));
        assert_eq!(
            of("runc", "1.30.14-1.1"),
            found("cri-o", "runc", Some(CRIO_PART))
        );
    }

    #[test]
    fn crios_command_line_has_runtimes_and_other_files() {
        let unit = "/etc/systemd/system/crio.service";
        let crio = |options: &str, files: &[(&str, &str)]| {
            let command = format!("[Service]\nExecStart=/usr/bin/crio {options}\n");
            runtimes(
                &["/usr/bin/crio"],
                &[&[(unit, command.as_str())][..], files].concat(),
            )
        };
        let options = "--default-runtime gpu --runtimes gpu:/usr/bin/nvidia-container-runtime:/run/x,x:/usr/bin/crun:/run/y";
        assert_eq!(crio(options, &[]), found("cri-o", "gpu", Some(unit)));
        let default = format!("[crio.runtime]\ndefault_runtime = \"nvidia\"\n{OF_CRIO}");
        let [file, part] = [
            ("/opt/crio.conf", default.as_str()),
            ("/opt/crio.d/a/1.conf", default.as_str()),
        ];
        assert_eq!(
            crio("--config /opt/crio.conf", &[file]),
            found("cri-o", "nvidia", Some(file.0))
        );
        assert_eq!(
            crio("--config-dir=/opt/crio.d", &[part]),
            found("cri-o", "nvidia", Some(part.0))
        );
        assert_eq!(
            crio(
                "--config /opt/other --config-dir /opt/other.d",
                &[(CRIO, default.as_str()), part]
            ),
            []
        );
    }

    #[test]
    fn containerd_reads_what_its_file_imports() {
        let main = "/etc/containerd/config.toml";
        let part = "/etc/containerd/conf.d/99-nvidia.toml";
        let runc = "[plugins.\"io.containerd.cri.v1.runtime\".containerd.runtimes.runc.options]\nBinaryName = \"nvidia-container-runtime\"\n";
        let with = |files: &[(&str, &str)]| runtimes(&["/usr/bin/containerd"], files);
        assert_eq!(
            with(&[(main, runc)]),
            found("containerd", "runc", Some(main))
        );
        let imports = "version = 3\nimports = [\"/etc/containerd/conf.d/*.toml\"]\n";
        assert_eq!(
            with(&[(main, imports), (part, runc)]),
            found("containerd", "runc", Some(part))
        );
        assert_eq!(
            with(&[
                (main, "version = 3\nimports = [\"other/*.toml\"]\n"),
                (part, runc)
            ]),
            []
        );
        assert_eq!(
            with(&[
                (main, "version = 3\nimports = [\"conf.d/99-nvidia.toml\"]\n"),
                (part, runc)
            ])
            .len(),
            1
        );
        assert_eq!(
            with(&[(main, "version = 2\n"), (part, runc)]),
            [],
            "it imports nothing"
        );
        assert_eq!(with(&[(part, runc)]), [], "nothing imports it");
        let [other, next] = ["/etc/cd.d/a.toml", "/etc/cd.d/more/b.toml"];
        let [to_other, to_next] = [
            "imports = [\"/etc/cd.d/*.toml\"]\n",
            "imports = [\"more/b.toml\", \"a.toml\"]\n",
        ];
        assert_eq!(
            with(&[(main, to_other), (other, to_next), (next, runc)]),
            found("containerd", "runc", Some(next))
        );
        let unit = (
            "/etc/systemd/system/containerd.service",
            "[Service]\nExecStart=/usr/bin/containerd -c /etc/cd.d/a.toml\n",
        );
        assert_eq!(
            with(&[unit, (other, runc)]),
            found("containerd", "runc", Some(other))
        );
        assert_eq!(
            with(&[unit, (main, runc)]),
            [],
            "the unit names another file"
        );
    }

    #[test]
    fn a_runtime_of_containerds_that_gives_no_gpus_is_named() {
        let table = "[plugins.'io.containerd.grpc.v1.cri'.containerd.runtimes.nvidia]\n";
        let fault = |version: &str, main: &str, part: &str| {
            let (_dir, system) = tree();
            let record = format!(
                "Package: containerd.io\nStatus: install ok installed\nVersion: {version}-1\n\n"
            );
            let main = format!("version = 2\nimports = [\"conf.d/*.toml\"]\n{table}{main}");
            for (path, text) in [
                ("/usr/bin/containerd", ""),
                ("/var/lib/dpkg/status", record.as_str()),
                ("/etc/containerd/config.toml", main.as_str()),
                ("/etc/containerd/conf.d/a.toml", part),
            ] {
                write(&system, path, text.as_bytes(), 0o644);
            }
            let runtimes = container_host(&system, &embedded(), None).runtimes;
            let [runtime] = runtimes.as_slice() else {
                panic!("{runtimes:?}")
            };
            runtime.fault.clone().unwrap_or_default()
        };
        let program = "options.BinaryName = \"/usr/bin/nvidia-container-runtime\"\n";
        for kind in ["io.containerd.runc.v1", "io.containerd.runtime.v1.linux"] {
            let main = format!("runtime_type = \"{kind}\"\n{program}");
            let why = format!(
                "containerd has no runtime_type {kind} since 2.0.0, so no pod of it starts: make it "
            );
            assert_eq!(
                fault("2.1.4", &main, ""),
                format!("{why}io.containerd.runc.v2")
            );
            assert_eq!(fault("1.7.27", &main, ""), "");
        }
        let plain = "runtime_type = \"io.containerd.runc.v2\"\n";
        assert!(
            fault("1.7.27", plain, "")
                .starts_with("it names no program, so it is plain runc: add BinaryName")
        );
        assert_eq!(fault("2.1.4", plain, &format!("{table}{program}")), "");
        assert_eq!(
            fault(
                "2.1.4",
                &format!("{plain}{program}"),
                &format!("{table}{plain}")
            ),
            "",
            "both are joined"
        );
    }

    #[test]
    fn another_place_of_the_configuration_is_named() {
        let place = |program: &str, options: &str, files: &[(&str, &str)]| {
            let (_dir, system) = tree();
            write(&system, program, b"", 0o755);
            let name = Path::new(program)
                .file_name()
                .expect("a name")
                .to_string_lossy();
            let unit = format!("/etc/systemd/system/{name}.service");
            write(
                &system,
                &unit,
                format!("[Service]\nExecStart={program} {options}\n").as_bytes(),
                0o644,
            );
            files
                .iter()
                .for_each(|(path, text)| write(&system, path, text.as_bytes(), 0o644));
            system
                .make_directories("/etc/crio/crio.conf.d", 0o755)
                .expect("made");
            system
                .link("/opt", Path::new("/etc/crio/crio.conf.d"))
                .expect("linked");
            let conflict = container_host(&system, &embedded(), None).engines[0]
                .conflict
                .clone();
            conflict.map(|(file, place)| (file == Path::new(&unit), place))
        };
        let containerd =
            |options: &str, files: &[(&str, &str)]| place("/usr/bin/containerd", options, files);
        let crio = |options: &str| place("/usr/bin/crio", options, &[]);
        let named = |place: &str| Some((true, format!("its configuration in {place}")));
        assert_eq!(containerd("", &[]), None);
        assert_eq!(containerd("-c /srv/c.toml", &[]), named("/srv/c.toml"));
        assert_eq!(
            containerd("--config=/etc/containerd/config.toml", &[]),
            None
        );
        let main = "/etc/containerd/config.toml";
        let imports = format!("imports = [\"{main}\"]\n");
        let files = [("/srv/c.toml", imports.as_str()), (main, "version = 2\n")];
        assert_eq!(
            containerd("--config /srv/c.toml", &files),
            None,
            "it imports the usual one"
        );
        assert_eq!(crio("--config-dir /srv/crio.d"), named("/srv/crio.d"));
        for usual in [
            "",
            "--config /srv/crio.conf",
            "-d /etc/crio/crio.conf.d/",
            "-d /etc/crio",
            "-d /opt",
        ] {
            assert_eq!(crio(usual), None, "{usual}");
        }
    }

    #[test]
    fn the_default_of_k3s_and_rke2_is_an_option() {
        let unit = "/etc/systemd/system/k3s.service";
        let k3s = |options: &str, files: &[(&str, &str)]| {
            let command =
                format!("[Service]\nExecStart=/usr/local/bin/k3s \\\n    server \\\n{options}\n");
            runtimes(
                &["/usr/local/bin/k3s"],
                &[&[(unit, command.as_str())][..], files].concat(),
            )
        };
        let option = "\t'--default-runtime' \\\n\t'nvidia' \\\n";
        assert_eq!(k3s("", &[]), []);
        assert_eq!(k3s(option, &[]), found("k3s", "nvidia", Some(unit)));
        let [config, part] = [
            "/etc/rancher/k3s/config.yaml",
            "/etc/rancher/k3s/config.yaml.d/1.yaml",
        ];
        let default =
            "token: secret\ntls-san:\n  - a.example\ndefault-runtime: nvidia-experimental\n";
        for file in [config, part] {
            assert_eq!(
                k3s("", &[(file, default)]),
                found("k3s", "nvidia-experimental", Some(file))
            );
        }
        assert_eq!(
            k3s("", &[(config, default), (part, "default-runtime: crun\n")]),
            [],
            "the later file counts"
        );
        for file in [
            "/etc/rancher/k3s/config.yaml.d/0.yml",
            "/etc/rancher/k3s/config.yaml.d/x.YAML",
        ] {
            assert_eq!(
                k3s("", &[(file, default)]),
                found("k3s", "nvidia-experimental", Some(file))
            );
        }
        let earlier = ("/etc/rancher/k3s/config.yaml.d/0.yml", default);
        assert_eq!(
            k3s("", &[earlier, (part, "default-runtime: crun\n")]),
            [],
            "the order is that of the names"
        );
        assert_eq!(
            k3s("--default-runtime=crun", &[(config, default)]),
            [],
            "the option counts more"
        );
        assert_eq!(k3s("", &[(config, "# nothing\n"), (part, "")]), []);
        let other = "/opt/k3s.yaml";
        assert_eq!(k3s("--config /opt/k3s.yaml", &[(config, default)]), []);
        assert_eq!(
            k3s("-c /opt/k3s.yaml", &[(other, default)]),
            found("k3s", "nvidia-experimental", Some(other))
        );
        let drop_in = "/opt/k3s.yaml.d/x.yaml";
        assert_eq!(
            k3s("-c /opt/k3s.yaml", &[(drop_in, default)]),
            found("k3s", "nvidia-experimental", Some(drop_in))
        );
        let config = "/etc/rancher/rke2/config.yaml";
        let all = runtimes(
            &["/usr/local/bin/rke2"],
            &[(config, "default-runtime: \"nvidia\"\n")],
        );
        assert_eq!(all, found("rke2", "nvidia", Some(config)));
        let unit =
            "[Service]\nEnvironmentFile=-/etc/default/%N\nExecStart=/usr/local/bin/rke2 server\n";
        let unit = ("/usr/local/lib/systemd/system/rke2-server.service", unit);
        let variable = (
            "/etc/default/rke2-server",
            "RKE2_CONFIG_FILE=/opt/rke2.yaml\n",
        );
        let files = [
            unit,
            variable,
            ("/opt/rke2.yaml", "default-runtime: nvidia\n"),
        ];
        assert_eq!(
            runtimes(&["/usr/local/bin/rke2"], &files),
            found("rke2", "nvidia", Some("/opt/rke2.yaml"))
        );
    }

    #[test]
    fn the_default_of_k3s_and_rke2_may_be_in_a_template() {
        for engine in ["k3s", "rke2"] {
            let folder = format!("/var/lib/rancher/{engine}/agent/etc/containerd");
            let paths = [
                "config-v3.toml.tmpl",
                "config.toml.tmpl",
                "config-v3.toml.d/a.toml",
                "config.toml.d/a.toml",
            ]
            .map(|name| format!("{folder}/{name}"));
            let [newer, older, part, drop_in] = paths.each_ref().map(String::as_str);
            let program = format!("/usr/local/bin/{engine}");
            let of = |files: &[(&str, &str)]| runtimes(&[program.as_str()], files);
            let expected = |file: &str| found(engine, "nvidia", Some(file));
            let default = "[plugins.cri.containerd]\ndefault_runtime_name = \"nvidia\"\n";
            let base = "{{ template \"base\" . }}\n";
            for file in [newer, older, part] {
                assert_eq!(of(&[(file, default)]), expected(file));
            }
            assert_eq!(of(&[(drop_in, default)]), [], "it is of the older template");
            assert_eq!(of(&[(older, base), (drop_in, default)]), expected(drop_in));
            assert_eq!(
                of(&[(newer, base), (older, default)]),
                [],
                "only the first counts"
            );
            assert_eq!(
                of(&[(newer, "version = 3\n"), (part, default)]),
                [],
                "nothing imports it"
            );
            let config = format!("/etc/rancher/{engine}/config.yaml");
            let option = (config.as_str(), "default-runtime: nvidia\n");
            let crun = default.replace("nvidia", "crun");
            assert_eq!(
                of(&[option, (newer, crun.as_str())]),
                expected(config.as_str()),
                "the option needs it, too"
            );
            assert_eq!(
                of(&[
                    (config.as_str(), "default-runtime: crun\n"),
                    (newer, default)
                ]),
                expected(newer)
            );
            let runc = "[plugins.cri.containerd.runtimes.runc.options]\nBinaryName = \"/usr/bin/nvidia-container-runtime\"\n";
            assert_eq!(of(&[(newer, runc)]), found(engine, "runc", Some(newer)));
        }
    }

    #[test]
    fn the_templates_of_k3s_and_rke2_are_in_the_folder_of_their_state() {
        let default = "[plugins.cri.containerd]\ndefault_runtime_name = \"nvidia\"\n";
        for (engine, variable) in [("k3s", "K3S_DATA_DIR"), ("rke2", "RKE2_DATA_DIR")] {
            let program = format!("/usr/local/bin/{engine}");
            let name = if engine == "k3s" {
                "k3s.service"
            } else {
                "rke2-server.service"
            };
            let unit_file = format!("/etc/systemd/system/{name}");
            let config = format!("/etc/rancher/{engine}/config.yaml");
            let template =
                |folder: &str| format!("{folder}/agent/etc/containerd/config-v3.toml.tmpl");
            let (usual, there) = (
                template(&format!("/var/lib/rancher/{engine}")),
                template("/data/x"),
            );
            let of = |options: &str, setting: &str, yaml: &str, file: &str| {
                let unit = format!("[Service]\n{setting}\nExecStart={program} server {options}\n");
                let files = [
                    (unit_file.as_str(), unit.as_str()),
                    (config.as_str(), yaml),
                    (file, default),
                ];
                runtimes(&[program.as_str()], &files)
            };
            let expected = found(engine, "nvidia", Some(&there));
            assert_eq!(of("--data-dir /data/x/", "", "", &there), expected);
            assert_eq!(
                of("-d /data/x", "", "data-dir: /data/y\n", &there),
                expected,
                "the option counts more"
            );
            assert_eq!(of("", "", "data-dir: /data/x\n", &there), expected);
            assert_eq!(
                of("", &format!("Environment={variable}=/data/x"), "", &there),
                expected
            );
            assert_eq!(
                of(
                    "",
                    &format!("Environment={variable}=/data/y"),
                    "data-dir: /data/x\n",
                    &there
                ),
                expected
            );
            assert_eq!(
                of("", "", "data-dir: /data/x\n", &usual),
                [],
                "nothing reads it"
            );
            assert_eq!(of("", "", "", &there), []);
        }
    }

    #[test]
    fn podmans_default_is_a_name_or_a_path() {
        let podman = |files: &[(&str, &str)]| runtimes(&["/usr/bin/podman"], files);
        let table =
            "[engine.runtimes]\ngpu = [\"/usr/bin/nvidia-container-runtime\", \"/opt/x\"]\n";
        let default = format!("[engine]\nruntime = \"gpu\"\n{table}");
        for file in [
            "/usr/share/containers/containers.conf",
            "/etc/containers/containers.conf",
            "/etc/containers/containers.conf.d/a.conf",
        ] {
            assert_eq!(
                podman(&[(file, default.as_str())]),
                found("podman", "gpu", Some(file))
            );
        }
        let main = "/etc/containers/containers.conf";
        assert_eq!(podman(&[(main, table)]), found("podman", "gpu", None));
        let path = "/usr/bin/nvidia-container-runtime";
        let by_path = format!("[engine]\nruntime = \"{path}\"\n");
        assert_eq!(
            podman(&[(main, by_path.as_str())]),
            found("podman", path, Some(main))
        );
        let crun = (
            "/etc/containers/containers.conf.d/b.conf",
            "[engine]\nruntime = \"crun\"\n",
        );
        assert_eq!(
            podman(&[(main, default.as_str()), crun]),
            found("podman", "gpu", None)
        );
        assert_eq!(
            podman(&[("/etc/containers/containers.conf.d/a.txt", default.as_str())]),
            []
        );
    }

    #[test]
    fn podmans_own_default_is_the_first_that_is_installed() {
        let main = "/etc/containers/containers.conf";
        let podman = |name: &str, programs: &[&str]| {
            let text =
                format!("[engine.runtimes]\n{name} = [\"/usr/bin/nvidia-container-runtime\"]\n");
            runtimes(
                &[&["/usr/bin/podman"][..], programs].concat(),
                &[(main, text.as_str())],
            )
        };
        assert_eq!(
            podman("crun", &["/usr/bin/runc"]),
            found("podman", "crun", Some(main))
        );
        assert_eq!(podman("runc", &[]), found("podman", "runc", Some(main)));
        assert_eq!(
            podman("runc", &["/usr/bin/crun"]),
            found("podman", "runc", None),
            "crun comes first"
        );
    }

    #[test]
    fn a_link_to_a_program_of_nvidias_counts() {
        let docker = |program: &str, target: &str| {
            let (_dir, system) = tree();
            let daemon = format!(
                r#"{{"default-runtime": "nv", "runtimes": {{"nv": {{"path": "{program}"}}}}}}"#
            );
            write(&system, "/usr/bin/dockerd", b"", 0o755);
            write(&system, "/etc/docker/daemon.json", daemon.as_bytes(), 0o644);
            write(&system, "/usr/bin/nvidia-container-runtime", b"", 0o755);
            system
                .make_directories("/usr/local/bin", 0o755)
                .expect("made");
            system
                .link("/usr/local/bin/nv", Path::new(target))
                .expect("linked");
            container_host(&system, &embedded(), None).runtimes.len()
        };
        for program in ["/usr/local/bin/nv", "nv"] {
            assert_eq!(
                docker(program, "/usr/bin/nvidia-container-runtime"),
                1,
                "{program}"
            );
            assert_eq!(
                docker(program, "../../bin/nvidia-container-runtime"),
                1,
                "{program}"
            );
            assert_eq!(docker(program, "/usr/bin/crun"), 0, "{program}");
        }
    }

    #[test]
    fn files_that_an_engine_cannot_read_are_named() {
        let (_dir, system) = tree();
        for program in ["/usr/bin/crio", "/usr/bin/dockerd"] {
            write(&system, program, b"", 0o755);
        }
        write(
            &system,
            "/etc/crio/crio.conf.d/10-x.conf",
            b"[crio\n",
            0o644,
        );
        write(
            &system,
            "/etc/docker/daemon.json",
            b"{\n  \"a\": 1,\n}",
            0o644,
        );
        let broken = container_host(&system, &embedded(), None).broken;
        let named: Vec<_> = broken
            .iter()
            .map(|of| (of.engine.as_str(), of.path.to_str(), of.line))
            .collect();
        let daemon = ("docker", Some("/etc/docker/daemon.json"), Some(3));
        assert_eq!(
            named,
            [
                daemon,
                ("cri-o", Some("/etc/crio/crio.conf.d/10-x.conf"), Some(1))
            ]
        );
    }

    #[test]
    fn the_last_section_of_containerds_plugin_counts_before_it_merges_them() {
        let (_dir, system) = tree();
        let database = embedded();
        let table = |rest: &str| format!("[plugins.\"io.containerd.grpc.v1.cri\".{rest}]\n");
        let runtime = table("containerd.runtimes.nvidia");
        let main = format!("version = 2\nimports = [\"conf.d/*.toml\"]\n{runtime}");
        write(
            &system,
            "/etc/containerd/config.toml",
            main.as_bytes(),
            0o644,
        );
        let containerd = database
            .engine("containerd".parse().expect("an id"))
            .expect("known");
        let names = |part: &str, version: &str| {
            write(
                &system,
                "/etc/containerd/conf.d/a.toml",
                format!("version = 2\n{part}").as_bytes(),
                0o644,
            );
            let all = runtimes_by_file(&system, containerd, version.parse().ok()).into_iter();
            all.map(|(_, read)| read.expect("readable").programs.len())
                .sum::<usize>()
        };
        let registry = table("registry");
        assert_eq!(
            (
                names(&registry, "1.7.27"),
                names(&registry, "2.1.4"),
                names(&registry, "")
            ),
            (0, 1, 1)
        );
        assert_eq!(
            names("[plugins.\"io.containerd.snapshotter.v1.x\"]\n", "1.7.27"),
            1,
            "another plugin"
        );
        assert_eq!(names(&runtime, "1.7.27"), 1);
    }
}
