//! Services of Compose files.

use super::asked::{Asked, is_requirement};
use super::compose_values::unquoted;
use super::compose_words;
use super::file_part::{Named, Variable, asked, of_part, of_variables, texts, unread_variables};
use super::gpus_value;
use super::left_out;
use super::request::{Gpus, MOST_GPUS, Request, cdi_name};
use super::shell_words::Word;
use super::unreadable::Unreadable;
use serde_json::{Map, Value};

/// The refusal of other files that a Compose file includes. Their services are not read.
pub fn included(file: &Value) -> Option<Unreadable> {
    let paths: Vec<_> = file.get("include")?.as_array()?.iter().flat_map(paths).collect();
    let says = || format!("the services of included files are not read: {}", paths.join(", "));
    (!paths.is_empty()).then(|| written_out(says()))
}

/// The paths of other files: `a`, `[a, b]`, and `{path: a}` in a list.
fn paths(value: &Value) -> Vec<&str> {
    match value {
        Value::Array(entries) => entries.iter().flat_map(paths).collect(),
        Value::Object(entry) => texts(entry.get("path")),
        _ => value.as_str().into_iter().collect(),
    }
}

/// The services that ask for GPUs, and those that ask in a way that is not read. `typed` are the same services with numbers
/// and truth values.
pub fn services(
    all: &Map<String, Value>,
    typed: Option<&Value>,
    unread: &mut Vec<Unreadable>,
) -> Result<Vec<Named>, Unreadable> {
    let mut found = Vec::new();
    for (name, service) in all {
        let typed = typed.and_then(|all| all.get(name));
        let asked = self::service(service, typed).map_err(|e| of_part("service", name, e))?;
        if asked.is_none() {
            unread.extend(without_effect(service).map(|what| {
                Unreadable::new(format!("service {name} has {what}"))
                    .hint("for Compose, use deploy.resources.reservations.devices or gpus")
            }));
        }
        found.extend(asked.map(|asked| (name.clone(), asked)));
    }
    Ok(found)
}

/// What a service has that looks like a request for GPUs, and gives it none.
fn without_effect(service: &Value) -> Option<&'static str> {
    let entries = |place| service.pointer(place).and_then(Value::as_array).into_iter().flatten();
    let has_gpus = |place| entries(place).any(|entry| is_nvidias(entry).unwrap_or(true));
    let of_swarm = service.pointer("/deploy/resources/reservations/generic_resources");
    let files = left_out::devices(service.get("devices"));
    match () {
        () if of_swarm.is_some() => Some("generic_resources, which only Docker Swarm reads"),
        () if has_gpus("/resources/reservations/devices") => {
            Some("resources outside of deploy, which Compose does not know")
        }
        () if has_gpus("/deploy/resources/limits/devices") => {
            Some("devices among its limits, which Compose does not know")
        }
        () if has_gpus("/device_requests") => Some("device_requests, which Compose does not know"),
        () if files.iter().any(|path| path.starts_with("/dev/nvidia")) => {
            Some("device files of NVIDIA's, without the driver's libraries")
        }
        () => None,
    }
}

/// What a service asks for; none if it asks for no GPU.
fn service(service: &Value, typed: Option<&Value>) -> Result<Option<Asked>, Unreadable> {
    let Some(keys) = service.as_object() else { return Ok(None) };
    if keys.contains_key("extends") {
        return Err(written_out("it extends another service, so its own keys do not say what it asks for".to_owned()));
    }
    let mut notes = Vec::new();
    let typed_variables = typed.and_then(|typed| typed.get("environment"));
    let variables = environment(keys.get("environment"), typed_variables, &mut notes)?;
    let reservations = service.pointer("/deploy/resources/reservations/devices").and_then(Value::as_array);
    let (mut all, mut left_out, mut mistakes) = (Vec::new(), left_out::of_service(service), Vec::new());
    for (index, entry) in reservations.into_iter().flatten().enumerate() {
        if is_nvidias(entry)? {
            all.push(reservation(entry)?);
            let typed = typed.and_then(|typed| typed.pointer("/deploy/resources/reservations/devices")?.get(index));
            mistakes.extend(mistaken_ids(entry, typed));
            mistakes.extend(without_capabilities(entry));
            notes.extend(left_out_driver(entry));
        } else {
            let ids = texts(entry.get("device_ids")).join(", ");
            let driver = entry.get("driver").and_then(Value::as_str).unwrap_or("no driver");
            left_out.push(format!("deploy.resources.reservations.devices ({driver} {ids})").replace(" )", ")"));
        }
    }
    let mut from = "compose";
    match keys.get("gpus") {
        None | Some(Value::Null) => {}
        Some(Value::String(word)) if word == "all" => all.push((Gpus::All, None)),
        Some(Value::Array(entries)) => {
            for (index, entry) in entries.iter().enumerate() {
                all.push(reservation(entry)?);
                mistakes.extend(mistaken_ids(entry, typed.and_then(|typed| typed.get("gpus")?.get(index))));
                notes.extend(left_out_driver(entry));
            }
        }
        Some(other) => return Err(no_list(other)),
    }
    if keys.contains_key("gpus") {
        from = "compose-gpus";
    }
    let devices = left_out::devices(keys.get("devices"));
    devices.iter().filter(|name| name.contains("nvidia.com/gpu")).try_for_each(|name| literal(name).map(drop))?;
    let devices: Vec<_> = devices.into_iter().filter_map(cdi_name).collect();
    if !devices.is_empty() {
        all.push((if devices.contains(&"all") { Gpus::All } else { Gpus::of_names(&devices)? }, None));
    }
    let visible =
        variables.iter().find(|(name, _)| *name == "NVIDIA_VISIBLE_DEVICES").map(|(_, value)| value.as_deref());
    if let (Some(value), false) = (visible, all.is_empty()) {
        let value = value.map(|value| format!("={value}")).unwrap_or_default();
        notes.push(format!(
            "NVIDIA_VISIBLE_DEVICES{value} has no effect beside gpus, a reservation or CDI devices, and is left out"
        ));
    }
    if all.is_empty() {
        let runtime = keys.get("runtime").and_then(Value::as_str).map(literal).transpose()?;
        let has_runtime = runtime.is_some_and(|runtime| runtime == "nvidia");
        let gpus = match visible {
            Some(value) => Gpus::of_variable(&literal(value.ok_or_else(|| of_shell("NVIDIA_VISIBLE_DEVICES"))?)?)?,
            None if has_runtime => {
                notes.push(
                    "the file names no GPUs, so the image does: NVIDIA's CUDA images ask for all of them".to_owned(),
                );
                let files = keys.get("env_file").map(paths).unwrap_or_default();
                notes.extend(unread_variables(files.into_iter()));
                Some(Gpus::All)
            }
            None => None,
        };
        if visible.is_some() && !has_runtime {
            notes.push(
                "without runtime: nvidia the variable has an effect only if nvidia is the engine's default runtime"
                    .to_owned(),
            );
        }
        let Some(gpus) = gpus else { return Ok(None) };
        from = "compose-runtime";
        all.push((gpus, None));
    }
    if all.len() > 1 {
        return Err(Unreadable::new("a service asks for GPUs in several places, and Docker decides which counts"));
    }
    let Some((gpus, named)) = all.pop() else { return Ok(None) };
    let program = match keys.get("entrypoint") {
        None | Some(Value::Null) => None,
        entrypoint => Some(words(entrypoint, &mut notes)?),
    };
    let command = words(keys.get("command"), &mut notes)?;
    let image = keys.get("image").and_then(Value::as_str).map(literal).transpose()?;
    let values = known(&variables)?;
    let asked = asked(image, (program, command), &values, left_out)?;
    let named = named.or_else(|| of_variables(&values));
    let request = Request { gpus, capabilities: named, ..asked.request };
    let is_mistaken = !mistakes.is_empty();
    notes.append(&mut mistakes);
    Ok(Some(Asked { request, from, notes, is_mistaken, ..asked }))
}

/// The refusal of `gpus: 2`: Compose takes the word `all` or a list (<https://docs.docker.com/reference/compose-file/services/#gpus>).
fn no_list(value: &Value) -> Unreadable {
    let written = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    if let Err(replaced) = literal(&written) {
        return replaced;
    }
    let unreadable = Unreadable::new(format!("gpus: {written} is not valid in Compose, which takes all or a list"));
    match written.trim().parse::<u32>() {
        Ok(count @ 1..=MOST_GPUS) => {
            unreadable.hint(format!("for a number of GPUs: gpus: [{{driver: nvidia, count: {count}}}]"))
        }
        _ => unreadable.hint("for all GPUs: gpus: all"),
    }
}

/// Whether a reservation is of NVIDIA's devices.
///
/// # Errors
///
/// If Compose replaces a part of what decides: Open WebUI's file has `driver: ${OLLAMA_GPU_DRIVER-nvidia}`.
fn is_nvidias(entry: &Value) -> Result<bool, Unreadable> {
    Ok(match entry.get("driver").and_then(Value::as_str) {
        Some("nvidia" | "nvidia.cdi" | "nvidia.runtime-hook") => true,
        Some("cdi") => texts(entry.get("device_ids")).iter().any(|id| cdi_name(id).is_some()),
        Some(other) => literal(other).map(|_| false)?,
        None => {
            let names = texts(entry.get("capabilities"));
            names.iter().try_for_each(|name| literal(name).map(drop))?;
            names.iter().any(|name| ["gpu", "nvidia"].contains(name))
        }
    })
}

/// What is said of the driver of a reservation.
fn left_out_driver(entry: &Value) -> Option<String> {
    gpus_value::said_of_driver(entry.get("driver")?.as_str()?)
}

fn reservation(entry: &Value) -> Result<(Gpus, Option<Vec<String>>), Unreadable> {
    let keys = ["driver", "count", "device_ids", "capabilities"].into_iter();
    keys.flat_map(|key| texts(entry.get(key))).try_for_each(|text| literal(text).map(drop))?;
    let ids = texts(entry.get("device_ids"));
    let count = entry.get("count").and_then(Value::as_str);
    let names: Vec<_> = ids.iter().map(|id| cdi_name(id).unwrap_or(id)).collect();
    let gpus = match (names.as_slice(), count) {
        ([], None | Some("all" | "-1")) => Gpus::All,
        (["all"], None) => Gpus::All,
        ([], Some(count)) => match count.parse() {
            Ok(count @ 1..=MOST_GPUS) => Gpus::Count(count),
            _ => return Err(Unreadable::new(format!("count: {count} is no number of GPUs"))),
        },
        (names, None) => Gpus::of_names(names)?,
        (_, Some(_)) => return Err(Unreadable::new("count and device_ids are both there, which Compose refuses")),
    };
    let named = texts(entry.get("capabilities")).into_iter().filter(|name| !["gpu", "nvidia"].contains(name));
    let named: Vec<_> = named.map(str::to_owned).collect();
    Ok((gpus, (!named.is_empty()).then_some(named)))
}

/// The mistake of a reservation that lacks a list of capabilities. The schema of Compose files requires it, and some versions of
/// Compose do not (<https://github.com/compose-spec/compose-spec/blob/main/schema/compose-spec.json>, `devices`).
fn without_capabilities(entry: &Value) -> Option<String> {
    let says = "most versions of Compose refuse a reservation without capabilities: [gpu]".to_owned();
    (!entry.get("capabilities").is_some_and(Value::is_array)).then_some(says)
}

/// The mistake of device IDs that are no list of strings.
fn mistaken_ids(entry: &Value, typed: Option<&Value>) -> Option<String> {
    let ids = entry.get("device_ids").filter(|ids| !ids.is_null())?;
    let typed = typed.and_then(|entry| entry.get("device_ids")?.as_array());
    let has_number = typed.is_some_and(|ids| ids.iter().any(|id| !id.is_string()));
    let says = || format!("Compose takes device_ids only as a list of strings: ['{}']", texts(Some(ids)).join("', '"));
    (has_number || !ids.is_array()).then(says)
}

/// The words of an entrypoint or a command: a list, or one text.
fn words(value: Option<&Value>, notes: &mut Vec<String>) -> Result<Vec<Word>, Unreadable> {
    let Some(Value::String(text)) = value else {
        return texts(value).into_iter().map(|text| literal(text).map(Word::of)).collect();
    };
    let divided = compose_words::divide(&literal(text)?)?;
    let note = |dropped| {
        format!(
            "Compose ends a command at the first of ; & | < > outside quotes, so the container does not get this: {dropped}"
        )
    };
    notes.extend(divided.dropped.map(note));
    Ok(divided.words)
}

/// The variables of a service: a list of NAME=VALUE, or a map. Compose takes one without a value from the shell.
fn environment<'a>(
    value: Option<&'a Value>,
    typed: Option<&Value>,
    notes: &mut Vec<String>,
) -> Result<Vec<Variable<'a>>, Unreadable> {
    let mut variables = Vec::new();
    if let Some(Value::Object(map)) = value {
        for (name, value) in map {
            let typed = typed.and_then(|typed| typed.get(name));
            let value = value.as_str().map(|text| value_in_map(name, text, typed, notes)).transpose()?;
            variables.push((name.as_str(), value));
        }
        return Ok(variables);
    }
    for text in texts(value) {
        let (name, value) = text.split_once('=').map_or((text, None), |(name, value)| (name, Some(value)));
        variables.push((name, value.map(str::to_owned)));
    }
    Ok(variables)
}

/// The value of a variable in a map. What Compose reads as a number or a truth value, it writes in its own way.
fn value_in_map(name: &str, text: &str, typed: Option<&Value>, notes: &mut Vec<String>) -> Result<String, Unreadable> {
    let unquoted = unquoted(text);
    if unquoted == text || typed.is_some_and(Value::is_string) {
        return Ok(text.to_owned());
    }
    if typed.is_none() {
        return Err(written_out(format!("Compose changes {name}: {text} if it is not in quotes")));
    }
    notes.push(format!("{name} is {unquoted}: Compose reads {text} without quotes as a number or a truth value"));
    Ok(unquoted)
}

/// Refuses what Compose has to write out first.
fn written_out(says: String) -> Unreadable {
    let mut unreadable = Unreadable::new(says).hint("let Compose write the file out, with all values");
    unreadable.tries.push("docker compose config | gpusetup container translate -".to_owned());
    unreadable
}

/// A text, whose `$$` is a dollar sign. What Compose replaces is unknown.
fn literal(text: &str) -> Result<String, Unreadable> {
    let without = text.replace("$$", "");
    if without.contains('$') {
        return Err(written_out(format!("Compose replaces a part of {text:?}")));
    }
    Ok(text.replace("$$", "$"))
}

/// The variables as the container gets them.
///
/// # Errors
///
/// If a part of the request is not in the file.
fn known<'a>(variables: &[Variable<'a>]) -> Result<Vec<Variable<'a>>, Unreadable> {
    let is_request = |name: &str| name == "NVIDIA_DRIVER_CAPABILITIES" || is_requirement(name);
    let variable = |(name, value): &Variable<'a>| match value {
        None if is_request(name) => Err(of_shell(name)),
        value => Ok((*name, value.as_deref().map(literal).transpose()?)),
    };
    variables.iter().map(variable).collect()
}

fn of_shell(name: &str) -> Unreadable {
    Unreadable::new(format!("the value of {name} is not known: Compose takes it from the shell"))
        .hint("write its value into the file")
}
