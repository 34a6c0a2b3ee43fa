//! Docker. Everything else in its `daemon.json` stays as it is, to the byte.

use super::documents::{
    BYTE_ORDER_MARK, ConfigError, NVIDIA_RUNTIME, Runtimes, json_object, without_mark,
};
use super::edit::Target;
use super::form::{EngineBehaviour, GpuAccess};
use super::places;
use super::units::Start;
use super::{BrokenConfig, InstalledEngine};
use gpusetup_database::version::AddOnVersion;
use gpusetup_system::{Program, System};
use gpusetup_text::text::line_and_column;
use jsonc_parser::ast::{self, Object};
use jsonc_parser::cst::{CstInputValue, CstObject, CstRootNode};
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How Docker is configured.
pub(crate) static FORM: EngineBehaviour = EngineBehaviour {
    daemon_info: Some(&["info", "--format", "{{json .Runtimes}} {{.CgroupDriver}}"]),
    note: Some(
        "for rootless Docker, each user runs nvidia-ctk runtime configure with --config ~/.config/docker/daemon.json, and root \
         sets nvidia-container-cli.no-cgroups in nvidia-ctk's configuration",
    ),
    keeps_containers,
    refuses_cdi,
    joins_options: true,
    stock_runtimes: Some(&["runc"]),
    refused: Some(refused),
    merge: Some(merge),
    unmerge: Some(without_ours),
    ..EngineBehaviour::new(GpuAccess::Flag, places::with_parts, read)
};

/// The first version with `--validate`.
const VALIDATES_SINCE: AddOnVersion = AddOnVersion {
    major: 23,
    minor: 0,
    patch: Some(0),
    build: None,
};

/// What dockerd prints before the reason, and the path of its file:
/// <https://github.com/moby/moby/blob/v23.0.0/cmd/dockerd/daemon.go>.
const REFUSAL: &str = "unable to configure the Docker daemon with file ";

fn read(text: &str, _: &str, _: Option<AddOnVersion>) -> Result<Runtimes, ConfigError> {
    // Docker takes an empty file for an empty object.
    if without_mark(text).trim().is_empty() {
        return Ok(Runtimes::default());
    }
    let daemon = json_object(text)?;
    let runtimes = daemon
        .get("runtimes")
        .and_then(Value::as_object)
        .into_iter()
        .flatten();
    Ok(Runtimes {
        programs: runtimes
            .map(|(name, runtime)| (name.clone(), program(runtime)))
            .collect(),
        default: daemon
            .get("default-runtime")
            .and_then(Value::as_str)
            .map(str::to_owned),
        ..Runtimes::default()
    })
}

/// The program of a runtime: its own, or that of a shim.
fn program(runtime: &Value) -> Option<String> {
    let program = runtime
        .get("path")
        .or_else(|| runtime.pointer("/options/BinaryName"))?;
    program.as_str().map(str::to_owned)
}

/// Why this dockerd does not start with its file and the options of its unit, in its own words.
fn refused(
    system: &System,
    found: &InstalledEngine,
    path: &Path,
    starts: &[Start],
) -> Option<String> {
    if !system.is_live() || found.version < Some(VALIDATES_SINCE) || !system.exists(path) {
        return None;
    }
    let program = found.program.to_str()?;
    let options = starts.iter().find_map(|start| start.options(program));
    let validate = ["--validate", "--config-file", path.to_str()?].map(str::to_owned);
    let argv = [program.to_owned()]
        .into_iter()
        .chain(options.unwrap_or_default())
        .chain(validate);
    let output = system
        .run(&Program::new(argv).limit(Duration::from_secs(10)))
        .ok()?;
    let why = reason(&output.text, path).filter(|_| !output.succeeded())?;
    Some(why.to_owned())
}

/// Why dockerd refuses a file, from its output.
fn reason<'o>(output: &'o str, path: &Path) -> Option<&'o str> {
    let (_, rest) = output.split_once(REFUSAL)?;
    let why = rest.strip_prefix(path.to_str()?)?.strip_prefix(": ")?;
    why.lines().next()
}

fn merge(
    target: &Target,
    path: &Path,
    text: Option<&str>,
) -> Result<Option<(PathBuf, String)>, BrokenConfig> {
    if target.runtime_in().is_some() {
        return Ok(None);
    }
    let text = text.unwrap_or_default();
    let merged = not_marked(target, text)
        .and_then(|()| merged(text, target.runtime, target.needs_cdi_setting()));
    match merged {
        Ok(content) => Ok(Some((path.to_owned(), content))),
        Err(e) => Err(target.broken(path, &e)),
    }
}

/// Refuses a byte-order mark that this version does not read.
fn not_marked(target: &Target, text: &str) -> Result<(), ConfigError> {
    let title = &target.engine.title;
    match (target.engine.reads_mark, target.version) {
        (Some(since), Some(version)) if version < since && text.starts_with(BYTE_ORDER_MARK) => {
            let why = format!(
                "it begins with a byte-order mark, which {title} reads since {since}, and this is {version}"
            );
            Err(ConfigError::at(1, 1, why))
        }
        _ => Ok(()),
    }
}

/// Whether the file says that CDI is not to be used.
fn refuses_cdi(text: &str) -> bool {
    json_object(text).is_ok_and(|all| {
        all.get("features").and_then(|f| f.get("cdi")) == Some(&Value::Bool(false))
    })
}

/// Whether containers keep running while the daemon restarts.
fn keeps_containers(text: &str) -> bool {
    json_object(text).is_ok_and(|all| all.get("live-restore") == Some(&Value::Bool(true)))
}

/// What dockerd itself reads: comments and commas too many are errors.
const STRICT: ParseOptions = ParseOptions {
    allow_comments: false,
    allow_loose_object_property_names: false,
    allow_trailing_commas: false,
    allow_missing_commas: false,
    allow_single_quoted_strings: false,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
    allow_bare_decimal_point_numbers: false,
    allow_non_finite_numbers: false,
    allow_extended_string_escapes: false,
};

/// The text with the runtime at this path and, if `cdi`, with CDI enabled. A runtime or a setting
/// that is there already stays.
///
/// # Errors
///
/// If Docker could not read the text, or a key has another kind of value than Docker expects, or is
/// there twice.
fn merged(text: &str, runtime: &str, cdi: bool) -> Result<String, ConfigError> {
    match text.strip_prefix(BYTE_ORDER_MARK) {
        Some(rest) => {
            merged_without_mark(rest, runtime, cdi).map(|after| format!("{BYTE_ORDER_MARK}{after}"))
        }
        None => merged_without_mark(text, runtime, cdi),
    }
}

fn merged_without_mark(text: &str, runtime: &str, cdi: bool) -> Result<String, ConfigError> {
    // Docker takes an empty file for an empty object.
    let (text, is_empty) = if text.trim().is_empty() {
        ("{\n}\n", true)
    } else {
        (text, false)
    };
    let before = json_object(text)?;
    if let Some((name, e)) = twice(text)
        && ["runtimes", "features"].contains(&name.as_str())
    {
        return Err(e);
    }
    let ours = Value::Object(additions(&before, runtime, cdi)?);
    let Value::Object(ours) = ours else {
        return Ok(text.to_owned());
    };
    if ours.is_empty() {
        return Ok(if is_empty {
            String::new()
        } else {
            text.to_owned()
        });
    }
    let root = CstRootNode::parse(text, &STRICT).map_err(|e| ConfigError::new(e.to_string()))?;
    let top = root
        .object_value()
        .ok_or_else(|| ConfigError::new("it is no JSON object"))?;
    for (key, value) in &ours {
        match (top.object_value(key), value) {
            (Some(there), Value::Object(entries)) => add(&there, entries),
            _ => drop(top.append(key, input(value))),
        }
    }
    let after = root.to_string();
    let expected = with(before, ours);
    if json_object(&after)? != expected {
        return Err(twice(text).map_or_else(|| ConfigError::new("it has a key twice"), |(_, e)| e));
    }
    Ok(after)
}

/// The text without what a merge added to `before`: the runtime, and CDI if that was not set.
/// Everything else stays. None if nothing stays.
///
/// # Errors
///
/// If Docker could not read one of them.
fn without_ours(text: &str, before: &str) -> Result<Option<String>, ConfigError> {
    let before = if before.trim().is_empty() {
        Map::new()
    } else {
        json_object(before)?
    };
    let (mark, rest) = text
        .strip_prefix(BYTE_ORDER_MARK)
        .map_or(("", text), |rest| (BYTE_ORDER_MARK, rest));
    let root = CstRootNode::parse(rest, &STRICT).map_err(|e| ConfigError::new(e.to_string()))?;
    let top = root
        .object_value()
        .ok_or_else(|| ConfigError::new("it is no JSON object"))?;
    for (section, key) in [("runtimes", NVIDIA_RUNTIME), ("features", "cdi")] {
        let had = before.get(section);
        let Some(entries) = top
            .object_value(section)
            .filter(|_| had.is_none_or(|had| had.get(key).is_none()))
        else {
            continue;
        };
        entries
            .get(key)
            .into_iter()
            .for_each(|entry| entry.remove());
        let section = top
            .get(section)
            .filter(|_| had.is_none() && entries.properties().is_empty());
        section.into_iter().for_each(|section| section.remove());
    }
    let after = format!("{mark}{root}");
    Ok((!json_object(&after)?.is_empty()).then_some(after))
}

/// The key that is there a second time, in the file or in an object of it, and where. Docker reads
/// both; whoever reads the file may not.
fn twice(text: &str) -> Option<(String, ConfigError)> {
    let parsed = parse_to_ast(text, &CollectOptions::default(), &STRICT).ok()?;
    let Some(ast::Value::Object(top)) = parsed.value else {
        return None;
    };
    let inner = top
        .properties
        .iter()
        .filter_map(|property| property.value.as_object());
    let (name, at) = [&top].into_iter().chain(inner).find_map(repeated)?;
    let (line, column) = line_and_column(text, at);
    let e = ConfigError::at(
        line,
        column,
        format!("it has the key {name:?} a second time: join the two"),
    );
    Some((name.to_owned(), e))
}

/// The first key that an object has had before, and where it is.
fn repeated<'a>(object: &'a Object<'_>) -> Option<(&'a str, usize)> {
    let all = &object.properties;
    let at = (0..all.len()).find(|at| {
        all[..*at]
            .iter()
            .any(|before| before.name.as_str() == all[*at].name.as_str())
    })?;
    Some((all[at].name.as_str(), all[at].range.start))
}

/// What is missing, in the form of the file.
fn additions(
    before: &Map<String, Value>,
    runtime: &str,
    cdi: bool,
) -> Result<Map<String, Value>, ConfigError> {
    let there = |key: &str| match before.get(key) {
        None => Ok(None),
        Some(Value::Object(entries)) => Ok(Some(entries)),
        Some(_) => Err(ConfigError::new(format!("its key {key} is no object"))),
    };
    let mut ours = Map::new();
    if there("runtimes")?.is_none_or(|all| !all.contains_key(NVIDIA_RUNTIME)) {
        ours.insert(
            "runtimes".to_owned(),
            json!({ NVIDIA_RUNTIME: { "args": [], "path": runtime } }),
        );
    }
    if cdi && there("features")?.is_none_or(|all| !all.contains_key("cdi")) {
        ours.insert("features".to_owned(), json!({ "cdi": true }));
    }
    Ok(ours)
}

/// An object with more entries, in those of its keys that are objects too.
fn with(mut all: Map<String, Value>, more: Map<String, Value>) -> Map<String, Value> {
    for (key, value) in more {
        match (all.get_mut(&key), value) {
            (Some(Value::Object(there)), Value::Object(entries)) => there.extend(entries),
            (_, value) => drop(all.insert(key, value)),
        }
    }
    all
}

fn add(to: &CstObject, entries: &Map<String, Value>) {
    for (key, value) in entries {
        to.append(key, input(value));
    }
}

fn input(value: &Value) -> CstInputValue {
    match value {
        Value::Null => CstInputValue::Null,
        Value::Bool(is) => CstInputValue::Bool(*is),
        Value::Number(number) => CstInputValue::Number(number.to_string()),
        Value::String(text) => CstInputValue::String(text.clone()),
        Value::Array(all) => CstInputValue::Array(all.iter().map(input).collect()),
        Value::Object(all) => {
            CstInputValue::Object(all.iter().map(|(k, v)| (k.clone(), input(v))).collect())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PATH: &str = "/usr/bin/nvidia-container-runtime";

    #[test]
    fn what_is_there_stays_to_the_byte() {
        let text = "{\n\t\"log-driver\": \"json-file\",\n\t\"runtimes\": {\"crun\": {\"path\": \"/usr/bin/crun\"}},\n\t\"data-root\":   \"/data/docker\"\n}\n";
        let after = merged(text, PATH, true).expect("mergeable");
        let expected = [
            "{",
            "\t\"log-driver\": \"json-file\",",
            "\t\"runtimes\": {",
            "\t\t\"crun\": {\"path\": \"/usr/bin/crun\"},",
            "\t\t\"nvidia\": {",
            "\t\t\t\"args\": [],",
            "\t\t\t\"path\": \"/usr/bin/nvidia-container-runtime\"",
            "\t\t}",
            "\t},",
            "\t\"data-root\":   \"/data/docker\",",
            "\t\"features\": {",
            "\t\t\"cdi\": true",
            "\t}",
            "}",
        ];
        assert_eq!(after.lines().collect::<Vec<_>>(), expected);
        assert_eq!(
            merged(&after, PATH, true),
            Ok(after.clone()),
            "a second time"
        );
    }

    #[test]
    fn what_a_merge_added_is_removed_and_later_changes_stay() {
        let text =
            "{\n\t\"runtimes\": {\"crun\": {\"path\": \"/usr/bin/crun\"}},\n\t\"debug\": true\n}\n";
        let later = merged(text, PATH, true)
            .expect("mergeable")
            .replace("true\n}", "false\n}");
        let left = without_ours(&later, text)
            .expect("JSON")
            .expect("theirs stays");
        let read: Value = serde_json::from_str(&left).expect("JSON");
        assert_eq!(
            read,
            json!({"runtimes": {"crun": {"path": "/usr/bin/crun"}}, "debug": true}),
            "{left}"
        );
        assert!(
            left.contains("\"crun\": {\"path\": \"/usr/bin/crun\"}"),
            "{left}"
        );
        let whole = merged("", PATH, true).expect("mergeable");
        assert_eq!(without_ours(&whole, ""), Ok(None));
    }

    #[test]
    fn an_empty_file_is_written_as_a_whole() {
        for empty in ["", "\n", "  \n"] {
            let after = merged(empty, PATH, false).expect("mergeable");
            let read: Value = serde_json::from_str(&after).expect("JSON");
            assert_eq!(
                read,
                json!({"runtimes": {"nvidia": {"args": [], "path": PATH}}}),
                "{after}"
            );
        }
    }

    #[test]
    fn a_setting_of_the_administrator_stays() {
        let text = r#"{"features": {"cdi": false}, "runtimes": {"nvidia": {"path": "/opt/nvidia-container-runtime"}}}"#;
        assert_eq!(merged(text, PATH, true).as_deref(), Ok(text));
        assert!(refuses_cdi(text) && !refuses_cdi("{}") && !keeps_containers(text));
        assert!(keeps_containers("{\"live-restore\": true}"));
    }

    #[test]
    fn what_docker_cannot_read_is_refused_with_its_place() {
        let place = |text: &str| merged(text, PATH, false).expect_err("refused").to_string();
        assert!(
            place("{\n  // the mirror\n  \"debug\": true\n}\n").starts_with("line 2, column 3: ")
        );
        assert!(place("{\n  \"debug\": true,\n}\n").starts_with("line 3, column 1: "));
        assert!(place("{\"debug\": true").starts_with("line 1, column 14: "));
        assert_eq!(place("[]"), "it is no JSON object");
        assert_eq!(place("{\"runtimes\": []}"), "its key runtimes is no object");
        let twice = "{\"runtimes\": {\"a\": {}},\n \"runtimes\": {}}";
        assert_eq!(
            place(twice),
            "line 2, column 2: it has the key \"runtimes\" a second time: join the two"
        );
    }

    #[test]
    fn a_file_of_windows_stays_one() {
        let text = "\u{feff}{\r\n  \"debug\": true\r\n}\r\n";
        let after = merged(text, PATH, true).expect("mergeable");
        assert!(
            after.starts_with("\u{feff}{\r\n  \"debug\": true,\r\n  \"features\": {\r\n"),
            "{after:?}"
        );
        assert_eq!(
            after.matches('\n').count(),
            after.matches("\r\n").count(),
            "{after:?}"
        );
        assert_eq!(
            merged(&after, PATH, true),
            Ok(after.clone()),
            "a second time"
        );
        assert!(refuses_cdi("\u{feff}{\"features\": {\"cdi\": false}}"));
        let nothing_to_add = r#"{"runtimes": {}, "runtimes": {"nvidia": {"path": "x"}}}"#;
        assert!(
            merged(nothing_to_add, PATH, false).is_err(),
            "which one counts?"
        );
        // A key that Docker reads twice is no obstacle if nothing is added to it.
        assert!(merged("{\"debug\": true, \"debug\": false}", PATH, false).is_ok());
    }

    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::Bool),
            any::<i32>().prop_map(Value::from),
            "[a-z\\\\\"\u{e9} ]{0,8}".prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 12, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("[a-z-]{1,6}", inner, 0..4)
                    .prop_map(|all| Value::Object(all.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn a_merge_adds_its_keys_and_changes_no_other(
            all in prop::collection::btree_map("[a-z-]{1,6}", values(), 0..5),
            others in prop::collection::btree_map("[a-z]{1,5}", values(), 0..3),
            pretty: bool, cdi: bool, has_runtimes: bool,
        ) {
            let mut before: Map<String, Value> = all.into_iter().collect();
            if has_runtimes {
                before.insert("runtimes".to_owned(), Value::Object(others.into_iter().collect()));
            }
            let value = Value::Object(before.clone());
            let text = if pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) }.expect("text");
            let once = merged(&text, PATH, cdi).expect("mergeable");
            prop_assert_eq!(merged(&once, PATH, cdi).expect("mergeable"), once.clone(), "twice is once");
            let Value::Object(mut after) = serde_json::from_str(&once).expect("JSON") else { panic!("an object") };
            let back = without_ours(&once, &text).expect("mergeable").unwrap_or_else(|| "{}".to_owned());
            let Value::Object(back) = serde_json::from_str(&back).expect("JSON") else { panic!("an object") };
            prop_assert_eq!(&back, &before);
            let runtimes = after.get_mut("runtimes").and_then(Value::as_object_mut).expect("runtimes");
            prop_assert_eq!(&runtimes.remove(NVIDIA_RUNTIME).expect("ours")["path"], PATH);
            if !has_runtimes {
                prop_assert!(after.remove("runtimes").expect("ours").as_object().expect("an object").is_empty());
            }
            if cdi {
                prop_assert_eq!(after.remove("features"), Some(json!({"cdi": true})));
            }
            prop_assert_eq!(after, before);
        }
    }

    fn runtimes(text: &str) -> Runtimes {
        read(text, "", None).expect("readable")
    }

    #[test]
    fn dockers_runtimes_are_read() {
        let text = r#"{"default-runtime": "gpu", "runtimes": {"gpu": {"path": "/usr/bin/nvidia-container-runtime"},
            "shim": {"runtimeType": "io.containerd.runc.v2", "options": {"BinaryName": "/opt/x"}}, "kata": {}}}"#;
        let found = runtimes(text);
        assert_eq!(
            (&found.programs["gpu"], &found.programs["shim"]),
            (&Some(PATH.to_owned()), &Some("/opt/x".to_owned()))
        );
        assert_eq!(
            (found.programs.get("kata"), found.default.as_deref()),
            (Some(&None), Some("gpu"))
        );
        for empty in ["", " \n", "\u{feff}", "{}", "\u{feff}{}"] {
            assert_eq!(runtimes(empty), Runtimes::default(), "{empty:?}");
        }
        let why = |text: &str| read(text, "", None).expect_err("refused").to_string();
        assert!(
            why("{\n  // a\n}").starts_with("line 2, column 3: "),
            "{}",
            why("{\n  // a\n}")
        );
        assert_eq!(why("[]"), "it is no JSON object");
    }

    #[test]
    fn the_reason_is_in_dockerds_own_words() {
        let path = Path::new("/etc/docker/daemon.json");
        let text = "time=\"2026-11-29T10:00:00Z\" level=warning msg=\"a warning\"\nunable to configure the Docker daemon with file \
                    /etc/docker/daemon.json: the following directives don't match any configuration option: graph\n";
        let why = "the following directives don't match any configuration option: graph";
        assert_eq!(reason(text, path), Some(why));
        for other in ["", "configuration OK\n", "unknown flag: --validate\n"] {
            assert_eq!(reason(other, path), None, "{other}");
        }
    }
}
