//! containerd, with the versions 1 to 4 of its format. Comments and everything else stay.

use super::BrokenConfig;
use super::documents::{ConfigError, NVIDIA_RUNTIME, Runtimes, toml_document};
use super::edit::Target;
use super::form::{EngineBehaviour, GpuAccess};
use super::merge::{comments_first, copy, has, remove, table, table_mut};
use super::places;
use gpusetup_database::compat::Engine;
use gpusetup_database::version::AddOnVersion;
use gpusetup_text::text::quoted_path;
use std::path::{Path, PathBuf};
use toml_edit::{DocumentMut, Item, Table, TableLike, Value, value};

/// How containerd is configured.
pub(crate) static FORM: EngineBehaviour = EngineBehaviour {
    runs_pods: true,
    serves_no_pods,
    place,
    joins_files: true,
    without_program: Some(
        "it names no program, so it is plain runc: add BinaryName, with the path of \
         nvidia-container-runtime, to its options",
    ),
    merge: Some(merge),
    unmerge: Some(without_ours),
    ..EngineBehaviour::new(GpuAccess::Runtime, places::main, read)
};

/// What becomes of containerd's files.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Containerd {
    /// The main file has this text.
    Main(String),
    /// A file beside it has this text, and the main file stays as it is.
    DropIn(String),
    /// containerd does not serve Kubernetes here, so it has no runtimes to choose from.
    Disabled,
}

/// The plugin whose runtimes Kubernetes uses, by the version of the format, oldest first.
const PLUGINS: [(i64, &str); 4] = [
    (1, "cri"),
    (2, "io.containerd.grpc.v1.cri"),
    (3, "io.containerd.cri.v1.runtime"),
    (4, "io.containerd.cri.v1.runtime"),
];

/// The first containerd that reads version 3. Up to 2.2 it ignores runtimes in a file of version 1.
const SECOND: AddOnVersion = AddOnVersion {
    major: 2,
    minor: 0,
    patch: Some(0),
    build: None,
};

/// The first containerd that reads version 4, and that translates the names of plugins in a file of
/// version 1.
/// <https://github.com/containerd/containerd/blob/v2.3.0/cmd/containerd/server/config/config.go>
const TRANSLATING: AddOnVersion = AddOnVersion {
    major: 2,
    minor: 3,
    patch: Some(0),
    build: None,
};

fn place(engine: &Engine) -> Option<(&[String], &Path)> {
    let file = engine.config.as_ref()?;
    Some((&engine.start_options.config, Path::new(file)))
}

fn merge(
    target: &Target,
    path: &Path,
    text: Option<&str>,
) -> Result<Option<(PathBuf, String)>, BrokenConfig> {
    let merged = merged(text, target.engine, target.version, target.runtime);
    match merged.map_err(|e| target.broken(path, &e))? {
        Containerd::Main(text) => match target.replaced_by() {
            None => Ok(Some((path.to_owned(), text))),
            Some(other) => must_be_read(target, other, path).map(|()| None),
        },
        Containerd::DropIn(text) => drop_in_file(target, text),
        Containerd::Disabled => Ok(None),
    }
}

/// A file beside the main one, which is written as a whole; nothing if another file there has the
/// runtime already.
fn drop_in_file(
    target: &Target,
    content: String,
) -> Result<Option<(PathBuf, String)>, BrokenConfig> {
    let path = target.engine.drop_in.as_ref().map(PathBuf::from);
    let Some(path) = path.filter(|_| target.runtime_in().is_none()) else {
        return Ok(None);
    };
    let there = target.text(&path)?;
    let kept = there.filter(|text| FORM.has_nvidia_runtime(text));
    let content = kept.map_or(content, str::to_owned);
    Ok(Some((path, content)))
}

/// Refuses a runtime in the main file that would have no effect, unless the file that counts in its
/// place has it already.
fn must_be_read(target: &Target, path: &Path, main: &Path) -> Result<(), BrokenConfig> {
    let (title, since) = (&target.engine.title, target.engine.drop_in_since);
    let Some(since) = since.filter(|_| target.runtime_in() != Some(path)) else {
        return Ok(());
    };
    let why = format!(
        "{title} before {since} takes the whole section of its plugin cri from it, and ignores that of {}: move the section there",
        quoted_path(main)
    );
    Err(target.broken(path, &ConfigError::new(why)))
}

/// The files with the runtime at this path. `text` is the main file, if there is one; `version`
/// that of containerd, if known.
///
/// # Errors
///
/// If the file is no TOML, or of a version in which this containerd reads no runtimes.
fn merged(
    text: Option<&str>,
    engine: &Engine,
    version: Option<AddOnVersion>,
    runtime: &str,
) -> Result<Containerd, ConfigError> {
    let is_second = version.is_some_and(|version| version >= SECOND);
    let (comments, rest) = comments_first(text.unwrap_or_default())?;
    let mut doc = toml_document(rest)?;
    if doc.as_table().is_empty() {
        doc.insert("version", value(if is_second { 3 } else { 2 }));
    }
    // Every version reads this in every format: containerd 2 translates the names of version 1.
    if is_disabled(&doc) {
        return Ok(Containerd::Disabled);
    }
    let format = format(&doc, version)?;
    let plugin = PLUGINS
        .iter()
        .find(|(of, _)| *of == format)
        .map_or("", |(_, plugin)| plugin);
    let runtimes = ["plugins", plugin, "containerd", "runtimes"];
    let mut ours = runtime_like_runc(
        table(&doc, &[&runtimes[..], &["runc"]].concat()),
        runtime,
        format,
    );
    if let Some(instead) = instead_of_removed(engine, version, &ours) {
        ours.insert("runtime_type", value(instead));
    }
    let is_there = table(&doc, &runtimes).is_some_and(|all| all.contains_key(NVIDIA_RUNTIME));
    let merges_files = engine
        .drop_in_since
        .zip(version)
        .is_some_and(|(since, version)| version >= since);
    if !is_there && merges_files && imports(&doc, engine) {
        return drop_in(format, &runtimes, ours).map(Containerd::DropIn);
    }
    if !is_there {
        let all = table_mut(&mut doc, &runtimes)?;
        if all.is_empty() {
            // A table of runtimes replaces the built-in one, which has runc.
            all.insert("runc", Item::Table(runc()));
        }
        all.insert(NVIDIA_RUNTIME, Item::Table(ours));
    }
    if needs_cdi_setting(engine, version, format) {
        let plugin = table_mut(&mut doc, &runtimes[..2])?;
        if !plugin.contains_key("enable_cdi") {
            plugin.set_implicit(false);
            plugin.insert("enable_cdi", value(true));
        }
    }
    Ok(Containerd::Main(format!("{comments}{doc}")))
}

/// Whether a configuration of containerd keeps it from serving Kubernetes, as that of the package
/// containerd.io does.
fn serves_no_pods(text: &str) -> bool {
    text.parse().is_ok_and(|doc: DocumentMut| is_disabled(&doc))
}

/// The runtimes that this containerd reads in one of its files, and the files that it imports. An
/// imported file without a version has that of the main file. A containerd whose version is not
/// known reads every format.
///
/// # Errors
///
/// If containerd does not start with the file: it is no TOML, or of a version that this containerd
/// does not read.
fn read(text: &str, main: &str, version: Option<AddOnVersion>) -> Result<Runtimes, ConfigError> {
    let mut doc = toml_document(text)?;
    let format = match declared(&doc)? {
        None => toml_document(main)
            .and_then(|doc| declared(&doc))
            .unwrap_or_default(),
        own => own,
    };
    let read = plugins_read(format, version)?;
    if let Some(all) = doc.get_mut("plugins").and_then(Item::as_table_like_mut) {
        for (_, plugin) in PLUGINS.iter().filter(|(_, plugin)| !read.contains(plugin)) {
            all.remove(plugin);
        }
    }
    Ok(Runtimes {
        has_cri_section: PLUGINS
            .iter()
            .any(|(_, plugin)| has(&doc, &["plugins", plugin])),
        imports: imported(&doc).map(str::to_owned).collect(),
        ..Runtimes::in_document(&doc)
    })
}

/// The patterns of the files that a file imports: `/etc/containerd/conf.d/*.toml`.
fn imported(doc: &DocumentMut) -> impl Iterator<Item = &str> {
    let all = doc.get("imports").and_then(Item::as_array);
    all.into_iter()
        .flat_map(|all| all.iter())
        .filter_map(Value::as_str)
}

/// The plugins whose runtimes count in a file of this format: none stands for a file without a
/// version.
fn plugins_read(
    format: Option<i64>,
    version: Option<AddOnVersion>,
) -> Result<Vec<&'static str>, ConfigError> {
    let of_format = match (format, version) {
        (Some(format @ 2..=4), version) if is_read(format, version) => Some(format),
        (Some(format @ 2..=4), Some(version)) if is_strict(version) => {
            return Err(not_read(format));
        }
        (Some(2..=4), _) => Some(2),
        // A newer one that is not known yet, or a containerd that is not known.
        (Some(5..), _) | (_, None) => None,
        (_, Some(version)) if version >= TRANSLATING => None,
        // It takes names with a dot as they are.
        (_, Some(version)) if version >= SECOND => Some(3),
        (_, Some(_)) => Some(1),
    };
    Ok(PLUGINS
        .iter()
        .filter(|(format, _)| of_format.is_none_or(|wanted| *format == wanted))
        .map(|(_, plugin)| *plugin)
        .collect())
}

/// The text without what a merge added to `before`: NVIDIA's runtime, runc beside it and the
/// setting for CDI. None if nothing but the version stays.
///
/// # Errors
///
/// If one of them is no TOML.
fn without_ours(text: &str, before: &str) -> Result<Option<String>, ConfigError> {
    let (mut doc, before) = (toml_document(text)?, toml_document(before)?);
    for (_, plugin) in PLUGINS {
        let of_plugin = ["plugins", plugin];
        let runtimes = [&of_plugin[..], &["containerd", "runtimes"]].concat();
        // Somebody may have given the runc that a merge added more settings.
        let runc = [&runtimes[..], &["runc"]].concat();
        let runc = table(&doc, &runc)
            .is_some_and(|all| all.len() == 1 && all.contains_key("runtime_type"))
            .then_some(runc);
        let ours = [
            Some([&runtimes[..], &[NVIDIA_RUNTIME]].concat()),
            runc,
            Some([&of_plugin[..], &["enable_cdi"]].concat()),
        ];
        ours.into_iter()
            .flatten()
            .filter(|path| !has(&before, path))
            .for_each(|path| remove(&mut doc, &path));
        let is_left_empty = doc
            .get("plugins")
            .and_then(|all| all.get(plugin))
            .is_some_and(|left| !has_values(left));
        if is_left_empty && !has(&before, &of_plugin) {
            remove(&mut doc, &of_plugin);
        }
    }
    let after = doc.to_string();
    let read = toml_document(&after)?;
    let has_more = read
        .iter()
        .any(|(key, item)| key != "version" && has_values(item));
    Ok(has_more.then_some(after))
}

/// Whether something is more than tables without keys.
fn has_values(item: &Item) -> bool {
    item.as_table_like()
        .is_none_or(|all| all.iter().any(|(_, inner)| has_values(inner)))
}

/// The version that a file says it has.
fn declared(doc: &DocumentMut) -> Result<Option<i64>, ConfigError> {
    doc.get("version")
        .map(|item| {
            item.as_integer()
                .ok_or_else(|| ConfigError::new("its version is no number"))
        })
        .transpose()
}

fn format(doc: &DocumentMut, version: Option<AddOnVersion>) -> Result<i64, ConfigError> {
    let format = declared(doc)?.unwrap_or(1);
    let is_known = PLUGINS.iter().any(|(of, _)| *of == format);
    match (is_known, is_read(format, version)) {
        (true, true) => Ok(format),
        (false, _) => Err(ConfigError::new(format!(
            "gpusetup does not know version {format} of this file"
        ))),
        (true, false) if format == 1 => Err(ConfigError::new(
            "it is of version 1, and containerd 2 may ignore the runtimes in such a file",
        )),
        (true, false) => Err(not_read(format)),
    }
}

/// Whether this containerd reads runtimes in a file of this format.
fn is_read(format: i64, version: Option<AddOnVersion>) -> bool {
    version.is_none_or(|version| match format {
        1 => version < SECOND,
        2 => true,
        3 => version >= SECOND,
        _ => version >= TRANSLATING,
    })
}

/// Whether a containerd does not start with a file of a newer format. Others take it for version 2.
/// <https://github.com/containerd/containerd/blob/v1.7.17/services/server/config/config.go>
fn is_strict(version: AddOnVersion) -> bool {
    let release = (version.minor, version.patch);
    version.major > 1
        || version.major == 1
            && (release >= (7, Some(17)) || ((6, Some(32))..(7, Some(0))).contains(&release))
}

fn not_read(format: i64) -> ConfigError {
    ConfigError::new(format!(
        "containerd here does not read version {format} of this file"
    ))
}

/// Whether the plugin that serves Kubernetes is switched off, as in the package containerd.io.
fn is_disabled(doc: &DocumentMut) -> bool {
    let all = doc.get("disabled_plugins").and_then(Item::as_array);
    let mut names = all
        .into_iter()
        .flat_map(|all| all.iter())
        .filter_map(Value::as_str);
    names.any(|name| PLUGINS.iter().any(|(_, plugin)| *plugin == name))
}

/// Whether the main file takes the added one in.
fn imports(doc: &DocumentMut, engine: &Engine) -> bool {
    let (Some(file), Some(main)) = (&engine.drop_in, &engine.config) else {
        return false;
    };
    let (Some(folder), Some(of_main)) = (Path::new(file).parent(), Path::new(main).parent()) else {
        return false;
    };
    imported(doc).any(|pattern| of_main.join(pattern) == folder.join("*.toml"))
}

fn drop_in(format: i64, runtimes: &[&str], ours: Table) -> Result<String, ConfigError> {
    let mut doc = DocumentMut::new();
    doc.insert("version", value(format));
    table_mut(&mut doc, runtimes)?.insert(NVIDIA_RUNTIME, Item::Table(ours));
    Ok(format!("# Written by gpusetup.\n{doc}"))
}

/// The CDI setting is only in versions of containerd that read specifications and do not so by
/// default.
fn needs_cdi_setting(engine: &Engine, version: Option<AddOnVersion>, format: i64) -> bool {
    let since = |bound: Option<AddOnVersion>| {
        bound
            .zip(version)
            .is_some_and(|(bound, version)| version >= bound)
    };
    format > 1 && since(engine.cdi) && !since(engine.cdi_by_default)
}

fn runc() -> Table {
    let mut table = Table::new();
    table.insert("runtime_type", value("io.containerd.runc.v2"));
    table
}

/// NVIDIA's runtime with the settings that runc has here, such as the cgroup driver.
fn runtime_like_runc(there: Option<&dyn TableLike>, runtime: &str, format: i64) -> Table {
    let mut ours = Table::new();
    let mut options = Table::new();
    for (key, item) in there.into_iter().flat_map(|runc| runc.iter()) {
        match (key, item.as_table_like()) {
            ("options", Some(all)) => copy_values(all, &mut options),
            (_, None) => copy(key, item, &mut ours),
            (_, Some(_)) => {}
        }
    }
    if !ours.contains_key("runtime_type") {
        ours.insert("runtime_type", value("io.containerd.runc.v2"));
    }
    options.insert("BinaryName", value(runtime));
    if format == 1 {
        options.insert("Runtime", value(runtime));
    }
    ours.insert("options", Item::Table(options));
    ours
}

/// The type in place of that of a runtime, if this containerd no longer has that one.
fn instead_of_removed<'e>(
    engine: &'e Engine,
    version: Option<AddOnVersion>,
    runtime: &Table,
) -> Option<&'e str> {
    let removed = engine
        .removed_types
        .as_ref()
        .filter(|removed| version >= Some(removed.since))?;
    let kind = runtime.get("runtime_type")?.as_str()?;
    removed
        .names
        .iter()
        .any(|name| name == kind)
        .then_some(removed.instead.as_str())
}

fn copy_values(from: &dyn TableLike, to: &mut Table) {
    from.iter().for_each(|(key, item)| copy(key, item, to));
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpusetup_data::embedded;

    const PATH: &str = "/usr/bin/nvidia-container-runtime";

    fn merge(text: Option<&str>, version: &str) -> Result<Containerd, ConfigError> {
        let database = embedded();
        let engine = database
            .engine("containerd".parse().expect("an id"))
            .expect("known");
        merged(text, engine, version.parse().ok(), PATH)
    }

    fn main(text: Option<&str>, version: &str) -> String {
        match merge(text, version).expect("mergeable") {
            Containerd::Main(text) => text,
            other => panic!("{other:?}"),
        }
    }

    const SECOND_FORMAT: &str = "# Managed by hand.\nversion = 2\n\n[plugins]\n  [plugins.\"io.containerd.grpc.v1.cri\"]\n    sandbox_image = \"registry.example/pause:3.9\" # a mirror\n    [plugins.\"io.containerd.grpc.v1.cri\".containerd]\n      default_runtime_name = \"runc\"\n      [plugins.\"io.containerd.grpc.v1.cri\".containerd.runtimes]\n        [plugins.\"io.containerd.grpc.v1.cri\".containerd.runtimes.runc]\n          runtime_type = \"io.containerd.runc.v2\"\n          [plugins.\"io.containerd.grpc.v1.cri\".containerd.runtimes.runc.options]\n            # as kubelet has it\n            SystemdCgroup = true\n";

    #[test]
    fn comments_and_settings_stay() {
        let after = main(Some(SECOND_FORMAT), "1.6.20");
        let ours = "runtimes.nvidia]\nruntime_type = \"io.containerd.runc.v2\"";
        assert!(after.contains(ours), "{after}");
        let options = "runtimes.nvidia.options]\nSystemdCgroup = true\nBinaryName = \"/usr/bin/nvidia-container-runtime\"\n";
        assert!(after.contains(options), "{after}");
        assert_eq!(main(Some(&after), "1.6.20"), after, "a second time");
        for line in SECOND_FORMAT.lines() {
            assert!(after.lines().any(|l| l == line), "{line}");
        }
        assert!(main(Some(SECOND_FORMAT), "1.7.24").contains("enable_cdi = true"));
    }

    #[test]
    fn a_type_of_runtime_that_is_gone_is_not_copied() {
        let old = SECOND_FORMAT.replace("io.containerd.runc.v2", "io.containerd.runc.v1");
        let ours = |kind: &str| {
            format!("runtimes.nvidia]\nruntime_type = \"io.containerd.runc.{kind}\"\n")
        };
        assert!(
            main(Some(&old), "2.1.4").contains(&ours("v2")),
            "{}",
            main(Some(&old), "2.1.4")
        );
        assert!(main(Some(&old), "1.7.24").contains(&ours("v1")));
    }

    #[test]
    fn what_a_merge_added_is_removed_and_later_changes_stay() {
        for version in ["1.6.20", "1.7.24"] {
            let after = main(Some(SECOND_FORMAT), version);
            assert_eq!(
                without_ours(&after, SECOND_FORMAT),
                Ok(Some(SECOND_FORMAT.to_owned())),
                "{version}"
            );
            let changed = after.replace("pause:3.9", "pause:3.10");
            let expected = SECOND_FORMAT.replace("pause:3.9", "pause:3.10");
            assert_eq!(without_ours(&changed, SECOND_FORMAT), Ok(Some(expected)));
        }
        let new = main(None, "1.7.24");
        assert_eq!(without_ours(&new, ""), Ok(None));
        let theirs = format!("{new}\n[plugins.x]\na = 1\n");
        let left = without_ours(&theirs, "")
            .expect("TOML")
            .expect("theirs stays");
        assert!(
            left.contains("[plugins.x]\na = 1\n") && !left.contains("cri"),
            "{left}"
        );
    }

    #[test]
    fn a_file_of_version_1_has_the_old_names() {
        let text = "[plugins]\n  [plugins.cri]\n    [plugins.cri.containerd]\n      snapshotter = \"overlayfs\"\n";
        let after = main(Some(text), "1.4.13");
        let options = format!(
            "[plugins.cri.containerd.runtimes.nvidia.options]\nBinaryName = \"{PATH}\"\nRuntime = \"{PATH}\"\n"
        );
        assert!(
            after.starts_with(text) && after.contains(&options),
            "{after}"
        );
        assert!(
            after.contains("[plugins.cri.containerd.runtimes.runc]"),
            "{after}"
        );
        assert_eq!(main(Some(&after), "1.4.13"), after);
    }

    #[test]
    fn a_new_file_has_the_version_that_this_containerd_writes() {
        let new = main(None, "1.7.24");
        for part in [
            "version = 2\n",
            "enable_cdi = true\n",
            ".runtimes.runc]\n",
            ".runtimes.nvidia.options]\n",
        ] {
            assert!(new.contains(part), "{part}: {new}");
        }
        assert!(main(None, "2.1.3").starts_with("version = 3\n"));
        let commented = main(Some("# by hand\n"), "2.1.3");
        assert!(
            commented.starts_with("# by hand\nversion = 3\n"),
            "{commented}"
        );
        assert!(
            commented.contains("io.containerd.cri.v1.runtime"),
            "{commented}"
        );
    }

    #[test]
    fn a_file_beside_the_main_one_is_added_where_both_are_merged() {
        let text = "version = 3\nimports = [\"/etc/containerd/conf.d/*.toml\"]\n[plugins.\"io.containerd.cri.v1.runtime\".containerd.runtimes.runc.options]\nSystemdCgroup = true\n";
        let Containerd::DropIn(drop_in) = merge(Some(text), "2.0.5").expect("mergeable") else {
            panic!("the main file")
        };
        let expected = format!(
            "# Written by gpusetup.\nversion = 3\n\n[plugins.\"io.containerd.cri.v1.runtime\".containerd.runtimes.nvidia]\n\
             runtime_type = \"io.containerd.runc.v2\"\n\n\
             [plugins.\"io.containerd.cri.v1.runtime\".containerd.runtimes.nvidia.options]\nSystemdCgroup = true\n\
             BinaryName = \"{PATH}\"\n"
        );
        assert_eq!(drop_in, expected);
        // Older ones replace the whole section of the plugin by that of the imported file.
        let text = text
            .replace("version = 3", "version = 2")
            .replace("cri.v1.runtime", "grpc.v1.cri");
        assert!(matches!(
            merge(Some(&text), "1.7.24"),
            Ok(Containerd::Main(_))
        ));
    }

    #[test]
    fn docker_has_no_runtimes_for_kubernetes() {
        // The file of the package containerd.io.
        for version in ["1.7.24", "2.1.4"] {
            assert_eq!(
                merge(Some("disabled_plugins = [\"cri\"]\n"), version),
                Ok(Containerd::Disabled),
                "{version}"
            );
        }
    }

    /// The names that containerd finds the runtime `nvidia` under in a file that has it under each
    /// one.
    fn read_under(main: &str, file: &str, version: &str) -> Vec<&'static str> {
        let has = |plugin: &&str| {
            let text = format!("{file}[plugins.\"{plugin}\".containerd.runtimes.nvidia]\n");
            let main = if main.is_empty() { text.as_str() } else { main };
            let read = read(&text, main, version.parse().ok()).expect("readable");
            read.programs.contains_key(NVIDIA_RUNTIME)
        };
        PLUGINS[..3]
            .iter()
            .map(|(_, plugin)| *plugin)
            .filter(has)
            .collect()
    }

    #[test]
    fn runtimes_count_under_the_names_of_the_files_format() {
        let [first, second, third] = [
            "cri",
            "io.containerd.grpc.v1.cri",
            "io.containerd.cri.v1.runtime",
        ];
        for (file, version, names) in [
            ("", "1.7.27", vec![first]),
            ("version = 2\n", "1.7.27", vec![second]),
            ("version = 2\n", "2.1.1", vec![second]),
            ("version = 3\n", "2.1.1", vec![third]),
            ("version = 4\n", "2.3.0", vec![third]),
            ("version = 3\n", "1.6.20", vec![second]),
            ("version = 3\n", "1.7.16", vec![second]),
            ("", "2.1.1", vec![third]),
            ("", "2.3.0", vec![first, second, third]),
            ("", "", vec![first, second, third]),
        ] {
            assert_eq!(read_under("", file, version), names, "{file}{version}");
        }
        assert_eq!(
            read_under("version = 2\n", "", "1.7.27"),
            [second],
            "an imported file has the main one's version"
        );
        for (text, version) in [
            ("version = 3\n", "1.6.32"),
            ("version = 3\n", "1.7.27"),
            ("version = 4\n", "2.1.1"),
            ("[plugins\n", "2.1.1"),
        ] {
            assert!(
                read(text, text, version.parse().ok()).is_err(),
                "{text}{version}"
            );
        }
    }

    #[test]
    fn the_format_of_containerd_2_3_is_merged() {
        let after = main(Some("version = 4\n"), "2.3.0");
        assert!(
            after.contains("[plugins.\"io.containerd.cri.v1.runtime\".containerd.runtimes.nvidia]"),
            "{after}"
        );
        assert_eq!(without_ours(&after, "version = 4\n"), Ok(None));
    }

    #[test]
    fn what_cannot_be_read_is_refused() {
        let error = |text: &str, version: &str| {
            merge(Some(text), version).expect_err("refused").to_string()
        };
        assert!(
            error("version = 2\n[plugins\n", "1.7.24").starts_with("line 2, column "),
            "{}",
            error("[plugins\n", "")
        );
        assert!(error("version = 4\n", "2.1.0").contains("does not read version 4"));
        assert!(error("version = 5\n", "2.3.0").contains("does not know version 5"));
        assert!(error("version = 3\n", "1.7.24").contains("does not read version 3"));
        assert!(error("root = \"/x\"\n", "2.1.0").contains("it is of version 1, and containerd 2"));
        let inline = "version = 2\nplugins = {}\n";
        assert!(
            error(inline, "1.7.24").contains("plugins is no table with a header"),
            "{}",
            error(inline, "1.7.24")
        );
    }

    fn runtimes(text: &str) -> Runtimes {
        read(text, text, None).expect("readable")
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
            let found = runtimes(&text);
            assert_eq!(
                (
                    found.programs["nvidia"].as_deref(),
                    found.default.as_deref()
                ),
                (Some(PATH), Some("nvidia")),
                "{plugin}"
            );
            assert_eq!(
                (found.enables_cdi, found.imports),
                (true, vec!["conf.d/*.toml".to_owned()])
            );
            assert!(found.has_cri_section);
        }
        let of_first = |kind: &str| {
            format!(
                "[plugins.cri.containerd]\ndefault_runtime_name = \"runc\"\n[plugins.cri.containerd.default_runtime]\n\
                 runtime_type = \"{kind}\"\nruntime_engine = \"{PATH}\"\n"
            )
        };
        let found = runtimes(&of_first("io.containerd.runtime.v1.linux"));
        assert_eq!(
            (
                found.programs["default"].as_deref(),
                found.default.as_deref()
            ),
            (Some(PATH), Some("default"))
        );
        assert_eq!(runtimes(&of_first("")).default.as_deref(), Some("runc"));
        assert!(read("version = 2\n[plugins\n", "", None).is_err());
    }

    #[test]
    fn a_configuration_says_whether_it_gives_gpus() {
        let table = "[plugins.cri.containerd.runtimes.nvidia.options]\n";
        let program = "BinaryName = \"/usr/bin/nvidia-container-runtime\" # NVIDIA's\n";
        assert!(runtimes("[plugins.cri]\nenable_cdi = true # for GPUs\n").enables_cdi);
        let without = runtimes(&format!(
            "{table}# {program}[plugins.x]\nenable_cdi = false\n"
        ));
        assert!(!without.enables_cdi && without.nvidias().next().is_none());
        let inline = "[plugins.cri.containerd]\nruntimes = {nvidia = {options = {BinaryName = \"/usr/bin/nvidia-container-runtime\"}}, runc = {}}\n";
        for text in [&format!("{table}{program}"), inline] {
            assert!(runtimes(text).nvidias().eq([PATH]), "{text}");
        }
    }
}
