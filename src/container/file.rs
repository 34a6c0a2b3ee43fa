//! Compose files, and files with Kubernetes' pods.

use super::compose_file;
use super::file_part::Named;
use super::left_out;
use super::pod_file;
use super::unreadable::Unreadable;
use crate::yaml;
use serde_json::Value;

/// Whether a text is a file of these, in YAML or JSON, and not a command line.
pub fn is_one(text: &str) -> bool {
    let is_key = |line: &str| {
        ["services:", "include:", "apiVersion:", "kind:", "version:"].iter().any(|key| line.starts_with(key))
    };
    is_json(text) || text.lines().any(is_key)
}

fn is_json(text: &str) -> bool {
    text.trim_start().starts_with('{')
}

/// The containers that ask for GPUs, and what is said of requests that are not read.
///
/// # Errors
///
/// If it is no such file, or if no container asks for GPUs.
pub fn read(text: &str) -> Result<(Vec<Named>, Vec<String>), Unreadable> {
    let (mut found, mut unread) = (Vec::new(), Vec::new());
    for Document { texts, typed } in read_documents(text)? {
        read_document(&texts, typed.as_ref(), &mut found, &mut unread)?;
    }
    if found.is_empty() {
        return Err(unread.into_iter().next().unwrap_or_else(|| asks_for_none(text)));
    }
    Ok((found, unread.into_iter().map(|unreadable| unreadable.says).collect()))
}

/// A document of a file.
struct Document {
    /// Each number and truth value is a text, as the file has it.
    texts: Value,
    /// The same with numbers and truth values. None if some of them are keys.
    typed: Option<Value>,
}

fn read_documents(text: &str) -> Result<Vec<Document>, Unreadable> {
    let cannot = |e: &dyn std::fmt::Display| Unreadable::new(format!("the file cannot be read: {e}"));
    if is_json(text) {
        let typed: Value = serde_json::from_str(text).map_err(|e| cannot(&e))?;
        return Ok(vec![Document { texts: with_texts(typed.clone()), typed: Some(typed) }]);
    }
    let document = |document: &String| -> Result<Document, Unreadable> {
        let texts = yaml::read_texts(document).map_err(|e| cannot(&e))?;
        Ok(Document { texts, typed: yaml::read(document).ok() })
    };
    documents(text).iter().map(document).collect()
}

fn with_texts(value: Value) -> Value {
    match value {
        Value::Bool(_) | Value::Number(_) => Value::String(value.to_string()),
        Value::Array(values) => Value::Array(values.into_iter().map(with_texts).collect()),
        Value::Object(map) => Value::Object(map.into_iter().map(|(key, value)| (key, with_texts(value))).collect()),
        Value::Null | Value::String(_) => value,
    }
}

/// The containers of a document that ask for GPUs, and requests in ways that gpusetup does not read. `typed` is the same document
/// with numbers and truth values.
fn read_document(
    value: &Value,
    typed: Option<&Value>,
    found: &mut Vec<Named>,
    unread: &mut Vec<Unreadable>,
) -> Result<(), Unreadable> {
    if let Some(items) = value.get("items").and_then(Value::as_array) {
        let typed = |index: usize| typed?.get("items")?.get(index);
        return items.iter().enumerate().try_for_each(|(i, item)| read_document(item, typed(i), found, unread));
    }
    unread.extend(compose_file::included(value));
    if let Some(services) = value.get("services").and_then(Value::as_object) {
        found.extend(compose_file::services(services, typed.and_then(|typed| typed.get("services")), unread)?);
    } else if let Some(place) = pod_file::place_of_pod(value) {
        let around = left_out::around_containers(value, place);
        let typed = typed.and_then(|typed| typed.pointer(place));
        found.extend(pod_file::containers(value.pointer(place), typed, &around, unread)?);
    } else if ["\"nvidia.com/gpu", "\"nvidia.com/mig-"].iter().any(|name| value.to_string().contains(name)) {
        let kind = value.get("kind").and_then(Value::as_str).unwrap_or("of this file");
        let says = format!(
            "the kind {kind} has GPUs in it, but gpusetup reads only pods and Kubernetes' own kinds with a pod"
        );
        unread.push(Unreadable::new(says).hint("give the pod alone, as kind: Pod with the containers of the template"));
    }
    Ok(())
}

fn asks_for_none(text: &str) -> Unreadable {
    let none = Unreadable::new("the file asks for no GPU")
        .hint("Compose asks with deploy.resources.reservations.devices, gpus or runtime: nvidia; Kubernetes with nvidia.com/gpu among a container's limits");
    if !text.contains("runtimeClassName") {
        return none;
    }
    none.hint("a runtime class gives GPUs only to a container whose NVIDIA_VISIBLE_DEVICES names them, and the file does not have that of the image")
}

/// The documents of a file.
fn documents(text: &str) -> Vec<String> {
    let mut all = vec![String::new()];
    for line in text.lines() {
        match (line.trim_end() == "---" || line.starts_with("--- "), all.last_mut()) {
            (false, Some(last)) => {
                last.push_str(line);
                last.push('\n');
            }
            _ => all.push(String::new()),
        }
    }
    let is_there = |text: &String| text.lines().any(|line| !line.trim().is_empty() && !line.starts_with('#'));
    all.into_iter().filter(is_there).collect()
}
