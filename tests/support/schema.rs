//! Holds JSON to the schemas in `schemas/`: the part of JSON Schema 2020-12 that these use, and a panic on any other
//! keyword, so that nothing is skipped silently.

use serde_json::Value;

/// Every place where `value` is not as the schema of this file name says.
pub fn mistakes(schema: &str, value: &Value) -> Vec<String> {
    let (schema, mut found) = (read(schema), Vec::new());
    check(&schema, &schema, value, "$", &mut found);
    found
}

/// The schema of this file name in `schemas/`.
fn read(name: &str) -> Value {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("schemas").join(name);
    let text = std::fs::read_to_string(path).expect("the schema is there");
    serde_json::from_str(&text).expect("a schema is JSON")
}

fn check(root: &Value, schema: &Value, value: &Value, at: &str, found: &mut Vec<String>) {
    for (keyword, rule) in schema.as_object().expect("a schema is an object") {
        let right = match keyword.as_str() {
            "$schema" | "$defs" | "title" | "description" => true,
            "$ref" => {
                let name = rule.as_str().expect("a reference");
                match name.strip_prefix("#/$defs/") {
                    Some(name) => check(root, &root["$defs"][name], value, at, found),
                    // Another file, whole.
                    None => {
                        let other = read(name);
                        check(&other, &other, value, at, found);
                    }
                }
                true
            }
            "type" => {
                let one = std::slice::from_ref(rule);
                let types = rule.as_array().map_or(one, Vec::as_slice);
                types.iter().any(|of| match of.as_str().expect("a type") {
                    "object" => value.is_object(),
                    "array" => value.is_array(),
                    "string" => value.is_string(),
                    "integer" => value.is_i64() || value.is_u64(),
                    "boolean" => value.is_boolean(),
                    "null" => value.is_null(),
                    other => panic!("the type {other} is not known here"),
                })
            }
            "const" => value == rule,
            "enum" => rule.as_array().expect("a list").contains(value),
            "minimum" => value.as_i64().zip(rule.as_i64()).is_none_or(|(v, least)| v >= least),
            "pattern" => value.as_str().is_none_or(|text| matches(rule.as_str().expect("a text"), text)),
            "anyOf" => rule.as_array().expect("a list").iter().any(|one| {
                let mut inner = Vec::new();
                check(root, one, value, at, &mut inner);
                inner.is_empty()
            }),
            "items" => {
                for (i, item) in value.as_array().into_iter().flatten().enumerate() {
                    check(root, rule, item, &format!("{at}[{i}]"), found);
                }
                true
            }
            "required" => {
                let keys = rule.as_array().expect("a list").iter().filter_map(Value::as_str);
                let missing: Vec<_> = keys.filter(|k| value.get(k).is_none()).collect();
                found.extend(missing.iter().map(|k| format!("{at}: {k} is missing")));
                true
            }
            "properties" | "additionalProperties" => {
                let named = schema.get("properties").and_then(Value::as_object);
                for (key, inner) in value.as_object().into_iter().flatten() {
                    let at = format!("{at}.{key}");
                    match (named.and_then(|n| n.get(key)), keyword == "properties") {
                        (Some(own), true) => check(root, own, inner, &at, found),
                        (None, false) if rule == &Value::Bool(false) => found.push(format!("{at} is not named")),
                        (None, false) => check(root, rule, inner, &at, found),
                        _ => {}
                    }
                }
                true
            }
            other => panic!("the keyword {other} is not known here"),
        };
        if !right {
            found.push(format!("{at}: {value} is against {keyword} {rule}"));
        }
    }
}

/// Patterns by grep, whose extended expressions are the same for what the schemas use.
fn matches(pattern: &str, text: &str) -> bool {
    let mut grep = std::process::Command::new("grep")
        .args(["-Eqx", "-e", pattern.trim_start_matches('^').trim_end_matches('$')])
        .stdin(std::process::Stdio::piped())
        .spawn()
        .expect("grep is there");
    std::io::Write::write_all(&mut grep.stdin.take().expect("piped"), format!("{text}\n").as_bytes()).expect("read");
    grep.wait().expect("ends").success()
}
