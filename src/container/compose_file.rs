//! Services of Compose files.

use super::asked::{Asked, is_requirement};
use super::compose_words;
use super::file_part::{Named, Variable, asked, of_part, of_variables, texts};
use super::left_out;
use super::request::{Gpus, MOST_GPUS, Request, cdi_name};
use super::shell_words::Word;
use super::unreadable::Unreadable;
use serde_json::{Map, Value};

/// The services that ask for GPUs, and those that ask in a way that is not read.
pub fn services(all: &Map<String, Value>, unread: &mut Vec<Unreadable>) -> Result<Vec<Named>, Unreadable> {
    let mut found = Vec::new();
    for (name, service) in all {
        let asked = self::service(service).map_err(|e| of_part("service", name, e))?;
        if asked.is_none() && service.pointer("/deploy/resources/reservations/generic_resources").is_some() {
            let says = format!("service {name} has generic_resources, which only Docker Swarm reads");
            unread.push(Unreadable::new(says).hint("for Compose, use deploy.resources.reservations.devices or gpus"));
        }
        found.extend(asked.map(|asked| (name.clone(), asked)));
    }
    Ok(found)
}

/// What a service asks for; none if it asks for no GPU.
fn service(service: &Value) -> Result<Option<Asked>, Unreadable> {
    let Some(keys) = service.as_object() else { return Ok(None) };
    if keys.contains_key("extends") {
        return Err(written_out("it extends another service, so its own keys do not say what it asks for".to_owned()));
    }
    let variables = environment(keys.get("environment"));
    let reservations = service.pointer("/deploy/resources/reservations/devices").and_then(Value::as_array);
    let (mut all, mut left_out) = (Vec::new(), left_out::of_service(service));
    for entry in reservations.into_iter().flatten() {
        if is_nvidias(entry) {
            all.push(reservation(entry)?);
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
            for entry in entries {
                all.push(reservation(entry)?);
            }
        }
        Some(other) => return Err(no_list(other)),
    }
    if keys.contains_key("gpus") {
        from = "compose-gpus";
    }
    let devices: Vec<_> = left_out::devices(keys.get("devices")).into_iter().filter_map(cdi_name).collect();
    if !devices.is_empty() {
        all.push((if devices.contains(&"all") { Gpus::All } else { Gpus::of_names(&devices)? }, None));
    }
    let mut notes = Vec::new();
    if all.is_empty() {
        let has_runtime = keys.get("runtime").is_some_and(|runtime| runtime == "nvidia");
        let visible = variables.iter().find(|(name, _)| *name == "NVIDIA_VISIBLE_DEVICES").map(|(_, value)| *value);
        let gpus = match visible {
            Some(value) => Gpus::of_variable(&literal(value.ok_or_else(|| of_shell("NVIDIA_VISIBLE_DEVICES"))?)?)?,
            None if has_runtime => {
                notes.push(
                    "the file names no GPUs, so the image does: NVIDIA's CUDA images ask for all of them".to_owned(),
                );
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
    Ok(Some(Asked { request: Request { gpus, capabilities: named, ..asked.request }, from, notes, ..asked }))
}

/// The refusal of `gpus: 2`: Compose takes the word `all` or a list (<https://docs.docker.com/reference/compose-file/services/#gpus>).
fn no_list(value: &Value) -> Unreadable {
    let written = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let unreadable = Unreadable::new(format!("gpus: {written} is not valid in Compose, which takes all or a list"));
    match written.trim().parse::<u32>() {
        Ok(count @ 1..=MOST_GPUS) => {
            unreadable.hint(format!("for a number of GPUs: gpus: [{{driver: nvidia, count: {count}}}]"))
        }
        _ => unreadable.hint("for all GPUs: gpus: all"),
    }
}

/// Whether a reservation is of NVIDIA's devices.
fn is_nvidias(entry: &Value) -> bool {
    match entry.get("driver").and_then(Value::as_str) {
        Some("nvidia") => true,
        Some("cdi") => texts(entry.get("device_ids")).iter().any(|id| cdi_name(id).is_some()),
        Some(_) => false,
        None => texts(entry.get("capabilities")).iter().any(|name| ["gpu", "nvidia"].contains(name)),
    }
}

fn reservation(entry: &Value) -> Result<(Gpus, Option<Vec<String>>), Unreadable> {
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
fn environment(value: Option<&Value>) -> Vec<(&str, Option<&str>)> {
    match value {
        Some(Value::Object(map)) => map.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect(),
        list => {
            let variables = texts(list).into_iter();
            let divided = variables.map(|text| (text, text.split_once('=')));
            divided.map(|(text, both)| both.map_or((text, None), |(name, value)| (name, Some(value)))).collect()
        }
    }
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
fn known<'a>(variables: &[(&'a str, Option<&str>)]) -> Result<Vec<Variable<'a>>, Unreadable> {
    let is_request = |name: &str| name == "NVIDIA_DRIVER_CAPABILITIES" || is_requirement(name);
    let variable = |(name, value): &(&'a str, Option<&str>)| match value {
        None if is_request(name) => Err(of_shell(name)),
        value => Ok((*name, value.map(literal).transpose()?)),
    };
    variables.iter().map(variable).collect()
}

fn of_shell(name: &str) -> Unreadable {
    Unreadable::new(format!("the value of {name} is not known: Compose takes it from the shell"))
        .hint("write its value into the file")
}
