//! The schemas in `schemas/`: generated from the types that are printed, and what JSON has against
//! them.

use jsonschema::{Registry, Validator};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// Where the files refer to each other; nothing is fetched from there.
const BASE: &str = "https://gpusetup.invalid/schemas/";

/// Every file in `schemas/`.
pub static FILES: LazyLock<BTreeMap<String, Value>> = LazyLock::new(|| {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("schemas");
    let read = |entry: std::io::Result<std::fs::DirEntry>| {
        let entry = entry.expect("an entry");
        let text = std::fs::read_to_string(entry.path()).expect("a schema is text");
        let name = entry.file_name().into_string().expect("a name in UTF-8");
        (name, serde_json::from_str(&text).expect("a schema is JSON"))
    };
    std::fs::read_dir(folder)
        .expect("the schemas are there")
        .map(read)
        .collect()
});

static VALIDATORS: LazyLock<BTreeMap<String, Validator>> = LazyLock::new(|| validators(&FILES));

/// Validators of these schemas, which may refer to each other by their names.
pub fn validators(files: &BTreeMap<String, Value>) -> BTreeMap<String, Validator> {
    let registry = files
        .iter()
        .fold(Registry::new(), |registry, (name, schema)| {
            registry
                .add(format!("{BASE}{name}"), schema.clone())
                .expect("a name that is part of an address")
        });
    let registry = registry
        .prepare()
        .expect("schemas that refer to each other only");
    let made = files.iter().map(|(name, schema)| {
        let options = jsonschema::options()
            .with_registry(&registry)
            .with_base_uri(format!("{BASE}{name}"));
        (
            name.clone(),
            options
                .build(schema)
                .unwrap_or_else(|e| panic!("{name}: {e}")),
        )
    });
    made.collect()
}

/// Every place where `value` is not as the schema of this file name says.
pub fn mistakes(schema: &str, value: &Value) -> Vec<String> {
    VALIDATORS[schema]
        .iter_errors(value)
        .map(|e| format!("{}: {e}", e.instance_path()))
        .collect()
}
