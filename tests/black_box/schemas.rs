//! The schemas in `schemas/` are those of the types that gpusetup prints, whose doc comments are
//! their descriptions. `UPDATE_SCHEMAS=1 cargo test --test black_box schemas::` writes them again.

use crate::common::Tree;
use crate::schema::{FILES, mistakes};
use gpusetup::apply::Pruned;
use gpusetup::apply::result::RunResult;
use gpusetup::bundle::Manifest;
use gpusetup::container::{Checked, Translated};
use gpusetup::doctor::Report;
use gpusetup::gpus::GpuReport;
use gpusetup::host::Facts;
use gpusetup::listing::Listing;
use gpusetup::mig::{AssertedHost, ExportedHost, ListedHost, PlannedHost, RestoredHost};
use gpusetup::nvidia::{Cuda, GpuTable};
use gpusetup::plan::{LockFile, Plan};
use gpusetup::report::Collected;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Schemas that others refer to by their file: the type's name, and the file.
const SHARED: [(&str, &str); 3] = [
    ("Facts", "facts.json"),
    ("GpuTable", "nvml.json"),
    ("Cuda", "cuda.json"),
];

/// Every schema, by its file's name.
fn generated() -> BTreeMap<String, Value> {
    let all = [
        (
            "bundle",
            schema::<Manifest>(
                "bundle.json: what a bundle that `gpusetup bundle create` made holds",
            ),
        ),
        (
            "container",
            schema::<Translated>("What `gpusetup container translate --json` prints"),
        ),
        (
            "container-check",
            schema::<Checked>("What `gpusetup container check --json` prints"),
        ),
        ("cuda", schema::<Cuda>("What CUDA's driver library says")),
        (
            "doctor",
            schema::<Report>("What `gpusetup doctor --json` prints"),
        ),
        (
            "evidence",
            schema::<Collected>(
                "What doctor saw of a host: evidence.json in a report (`gpusetup doctor --report`)",
            ),
        ),
        (
            "facts",
            schema::<Facts>("What `gpusetup facts --json` prints, and `--facts` reads"),
        ),
        (
            "gpus",
            schema::<GpuReport>("What `gpusetup facts --gpus --json` prints"),
        ),
        (
            "list",
            schema::<Listing>("What `gpusetup list --json` prints"),
        ),
        (
            "lock",
            schema::<LockFile>(
                "The lock file: what `gpusetup plan --lock` writes, and `--locked` reads",
            ),
        ),
        (
            "mig-restore",
            schema::<RestoredHost>("What `gpusetup mig restore --json` prints"),
        ),
        (
            "mig-assert",
            schema::<AssertedHost>("What `gpusetup mig assert --json` prints"),
        ),
        (
            "mig-export",
            schema::<ExportedHost>("What `gpusetup mig export --json` prints"),
        ),
        (
            "mig-list",
            schema::<ListedHost>("What `gpusetup mig list --json` prints"),
        ),
        (
            "mig-plan",
            schema::<PlannedHost>("What `gpusetup mig plan --json` prints"),
        ),
        (
            "nvml",
            schema::<GpuTable>("What NVML, the driver's management library, says"),
        ),
        (
            "prune",
            schema::<Pruned>("What `gpusetup prune --json` prints"),
        ),
        (
            "plan",
            schema::<Plan>("What `gpusetup plan --json` prints, and `gpusetup apply` reads"),
        ),
        (
            "result",
            schema::<RunResult>(
                "How the last run ended: /var/lib/gpusetup/result.json, and `gpusetup status --json`",
            ),
        ),
    ];
    all.into_iter()
        .map(|(name, schema)| (format!("{name}.json"), schema))
        .collect()
}

/// The schema of what a type is printed as.
fn schema<T: JsonSchema>(title: &str) -> Value {
    let generator = SchemaSettings::draft2020_12()
        .for_serialize()
        .into_generator();
    let mut schema = generator.into_root_schema_for::<T>().to_value();
    let root = schema.as_object_mut().expect("an object");
    root.insert("title".to_owned(), title.into());
    // It is the type's, for readers of the code.
    root.remove("description");
    let own = T::schema_name();
    each(&mut schema, &mut |object| {
        refer_to_files(object, &own);
        without_defaults_and_formats(object);
        in_one_line(object);
        not_null_if_left_out(object);
    });
    keep_what_is_used(&mut schema);
    schema
}

/// Visits all objects that are schemas or hold some, the innermost first.
fn each(value: &mut Value, visit: &mut dyn FnMut(&mut Map<String, Value>)) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| each(item, visit)),
        Value::Object(map) => {
            map.values_mut().for_each(|inner| each(inner, visit));
            visit(map);
        }
        _ => {}
    }
}

/// A schema that has a file is not repeated in others.
fn refer_to_files(object: &mut Map<String, Value>, own: &str) {
    for (name, file) in SHARED.iter().filter(|(name, _)| *name != own) {
        if object
            .get("$ref")
            .is_some_and(|to| to == &format!("#/$defs/{name}"))
        {
            object.insert("$ref".to_owned(), (*file).into());
        }
    }
}

/// What an older file means that lacks a key is no part of what is printed; widths of integers are
/// Rust's.
fn without_defaults_and_formats(object: &mut Map<String, Value>) {
    // Where it names a property it is an object.
    for key in ["default", "format"] {
        if object
            .get(key)
            .is_some_and(|value| !value.is_object() || !value["type"].is_string())
        {
            object.remove(key);
        }
    }
}

/// A doc comment has the lines of its file.
fn in_one_line(object: &mut Map<String, Value>) {
    if let Some(Value::String(text)) = object.get_mut("description") {
        *text = text.replace('\n', " ");
    }
}

/// A key that is left out when there is nothing to say is never null.
fn not_null_if_left_out(object: &mut Map<String, Value>) {
    let required: BTreeSet<String> = match object.get("required") {
        Some(Value::Array(names)) => names
            .iter()
            .filter_map(|n| Some(n.as_str()?.to_owned()))
            .collect(),
        _ => BTreeSet::new(),
    };
    let Some(Value::Object(properties)) = object.get_mut("properties") else {
        return;
    };
    for (_, property) in properties
        .iter_mut()
        .filter(|(name, _)| !required.contains(*name))
    {
        if let Some(Value::Array(types)) = property.get_mut("type") {
            types.retain(|t| t != "null");
            if let [only] = types.as_slice() {
                property["type"] = only.clone();
            }
        }
        if let Some(Value::Array(choices)) = property.get_mut("anyOf") {
            choices.retain(|choice| choice != &json!({"type": "null"}));
            let choices = choices.clone();
            if let (Some(property), [Value::Object(only)]) =
                (property.as_object_mut(), choices.as_slice())
            {
                property.remove("anyOf");
                property.extend(only.clone());
            }
        }
    }
}

/// Definitions that only other files need are left out.
fn keep_what_is_used(schema: &mut Value) {
    let Some(Value::Object(all)) = schema.as_object_mut().and_then(|s| s.remove("$defs")) else {
        return;
    };
    let (mut used, mut open) = (Map::new(), references(schema));
    while let Some(name) = open.pop() {
        if !used.contains_key(&name) {
            let definition = all
                .get(&name)
                .unwrap_or_else(|| panic!("{name} is not defined"))
                .clone();
            open.extend(references(&definition));
            used.insert(name, definition);
        }
    }
    if !used.is_empty() {
        schema["$defs"] = Value::Object(used);
    }
}

/// The definitions that a schema refers to.
fn references(schema: &Value) -> Vec<String> {
    let mut found = Vec::new();
    each(&mut schema.clone(), &mut |object| {
        let name = object
            .get("$ref")
            .and_then(|to| to.as_str()?.strip_prefix("#/$defs/"));
        found.extend(name.map(str::to_owned));
    });
    found
}

#[test]
fn the_files_are_the_schemas_of_the_types() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("schemas");
    let generated = generated();
    if std::env::var_os("UPDATE_SCHEMAS").is_some() {
        for (name, schema) in &generated {
            let text = serde_json::to_string_pretty(schema).expect("JSON");
            std::fs::write(folder.join(name), text + "\n").expect("written");
        }
        return;
    }
    assert_eq!(
        generated.keys().collect::<Vec<_>>(),
        FILES.keys().collect::<Vec<_>>()
    );
    for (name, schema) in &generated {
        let differs = schema != &FILES[name];
        assert!(
            !differs,
            "schemas/{name} is not that of its type: UPDATE_SCHEMAS=1 cargo test --test black_box schemas::"
        );
    }
}

#[test]
fn every_key_is_described() {
    for (name, schema) in generated() {
        each(&mut schema.clone(), &mut |object| {
            let text = object
                .get("description")
                .and_then(Value::as_str)
                .unwrap_or_default();
            assert!(!text.contains("[`"), "{name} links to Rust: {text}");
            let Some(Value::Object(properties)) = object.get("properties") else {
                return;
            };
            // Variants are described where they stand, as one of several.
            let is_variant = |p: &Value| properties.len() == 1 || p.get("const").is_some();
            for (key, property) in properties.iter().filter(|(_, p)| !is_variant(p)) {
                let text = property["description"].as_str().unwrap_or_default();
                assert!(
                    text.split_whitespace().count() > 1,
                    "{name}: {key} is described as {text:?}"
                );
            }
        });
    }
}

/// A plan of a host with all that a plan has.
fn plan() -> Value {
    Tree::ubuntu_24_04()
        .gpu("0000:17:00.0", "20b2", Some("nouveau"))
        .run(&["plan", "--json"])
        .json()
}

/// Sets what a pointer leads to.
fn with(value: &Value, pointer: &str, to: Value) -> Value {
    let mut changed = value.clone();
    *changed
        .pointer_mut(pointer)
        .unwrap_or_else(|| panic!("{pointer}")) = to;
    changed
}

/// Takes away a key of what a pointer leads to.
fn without(value: &Value, pointer: &str, key: &str) -> Value {
    let mut changed = value.clone();
    let object = changed
        .pointer_mut(pointer)
        .and_then(Value::as_object_mut)
        .expect("an object");
    assert!(object.remove(key).is_some(), "{pointer} has {key}");
    changed
}

#[test]
fn what_is_not_printed_is_refused() {
    let plan = plan();
    assert_eq!(mistakes("plan.json", &plan), [""; 0]);
    let operation = plan["steps"]
        .as_array()
        .expect("steps")
        .iter()
        .enumerate()
        .find_map(|(n, step)| {
            let m = step["operations"]
                .as_array()?
                .iter()
                .position(|o| o["op"] == "download")?;
            Some(format!("/steps/{n}/operations/{m}"))
        });
    let operation = operation.expect("a download");
    let added = |pointer: &str, key: &str, value: Value| {
        let mut changed = plan.clone();
        changed.pointer_mut(pointer).expect("there")[key] = value;
        changed
    };
    let wrong = [
        without(&plan, "", "fingerprint"),
        without(&plan, "/host", "gpus"),
        without(&plan, "/host/machine", "boot_id"),
        without(&plan, &operation, "sha256"),
        without(&plan, &operation, "op"),
        with(&plan, "/schema", "gpusetup.plan/2".into()),
        with(&plan, "/host/schema", "gpusetup.facts/2".into()),
        with(&plan, "/fingerprint", "0123".into()),
        with(&plan, &format!("{operation}/sha256"), "A".repeat(64).into()),
        with(&plan, &format!("{operation}/op"), "upload".into()),
        with(&plan, "/selection/driver/version", "595".into()),
        with(&plan, "/selection/driver/method", "auto".into()),
        with(&plan, "/request/prefer", "newest".into()),
        with(&plan, "/request/cuda", "twelve".into()),
        with(&plan, "/host/gpus/0/pci_id", "1002:20b2".into()),
        with(&plan, "/host/gpus/0/compute_capability", "sm_80".into()),
        with(&plan, "/host/os/package_manager", "pacman".into()),
        with(&plan, "/steps/0/id", "prepare".into()),
        with(&plan, "/steps/0/state", Value::Null),
        with(&plan, "/totals/reboots", (-1).into()),
        added("", "other", 1.into()),
        added("/host/gpus/0", "other", 1.into()),
        added("/selection", "other", Value::Null),
        added(&operation, "other", 1.into()),
        added(&operation, "argv", json!([])),
        added(&operation, "size", Value::Null),
    ];
    for (n, value) in wrong.iter().enumerate() {
        assert!(
            !mistakes("plan.json", value).is_empty(),
            "the {n}th is taken"
        );
    }
}
