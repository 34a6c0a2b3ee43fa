//! Compose files, and files with Kubernetes' pods.

use super::asked::{Asked, CommandLine, ENTRYPOINT, Engine, capabilities, is_requirement};
use super::compose_words;
use super::flags::Flag;
use super::left_out;
use super::pod_file;
use super::request::{Gpus, Request, cdi_name};
use super::shell_words::Word;
use super::unreadable::Unreadable;
use crate::text::is_hidden;
use crate::yaml;
use serde_json::Value;

/// A container of a file.
pub type Named = (String, Asked);

/// Whether a text is a file of these, in YAML or JSON, and not a command line.
pub fn is_one(text: &str) -> bool {
    let is_key = |line: &str| ["services:", "apiVersion:", "kind:", "version:"].iter().any(|key| line.starts_with(key));
    is_json(text) || text.lines().any(is_key)
}

fn is_json(text: &str) -> bool {
    text.trim_start().starts_with('{')
}

/// The containers that ask for GPUs.
///
/// # Errors
///
/// If it is no such file, or if no container asks for GPUs.
pub fn read(text: &str) -> Result<Vec<Named>, Unreadable> {
    let (mut found, mut unread) = (Vec::new(), Vec::new());
    for document in values(text)? {
        read_document(&document, &mut found, &mut unread)?;
    }
    let Some((_, first)) = found.first_mut() else {
        return Err(unread.into_iter().next().unwrap_or_else(|| asks_for_none(text)));
    };
    first.notes.extend(unread.into_iter().map(|unreadable| unreadable.says));
    Ok(found)
}

/// The documents of a file, in which each number and truth value is a text.
fn values(text: &str) -> Result<Vec<Value>, Unreadable> {
    let cannot = |e: &dyn std::fmt::Display| Unreadable::new(format!("the file cannot be read: {e}"));
    if is_json(text) {
        return Ok(vec![serde_json::from_str(text).map(with_texts).map_err(|e| cannot(&e))?]);
    }
    documents(text).iter().map(|document| yaml::read_texts(document).map_err(|e| cannot(&e))).collect()
}

fn with_texts(value: Value) -> Value {
    match value {
        Value::Bool(_) | Value::Number(_) => Value::String(value.to_string()),
        Value::Array(values) => Value::Array(values.into_iter().map(with_texts).collect()),
        Value::Object(map) => Value::Object(map.into_iter().map(|(key, value)| (key, with_texts(value))).collect()),
        Value::Null | Value::String(_) => value,
    }
}

/// The containers of a document that ask for GPUs, and requests in ways that gpusetup does not read.
fn read_document(value: &Value, found: &mut Vec<Named>, unread: &mut Vec<Unreadable>) -> Result<(), Unreadable> {
    if let Some(items) = value.get("items").and_then(Value::as_array) {
        return items.iter().try_for_each(|item| read_document(item, found, unread));
    }
    if let Some(services) = value.get("services").and_then(Value::as_object) {
        for (name, service) in services {
            let asked = self::service(service).map_err(|e| of_part("service", name, e))?;
            if asked.is_none() && service.pointer("/deploy/resources/reservations/generic_resources").is_some() {
                let says = format!("service {name} has generic_resources, which only Docker Swarm reads");
                unread
                    .push(Unreadable::new(says).hint("for Compose, use deploy.resources.reservations.devices or gpus"));
            }
            found.extend(asked.map(|asked| (name.clone(), asked)));
        }
    } else if let Some(place) = pod_file::place_of_pod(value) {
        let around = left_out::around_containers(value, place);
        found.extend(pod_file::containers(value.pointer(place), &around, unread)?);
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

/// A failure in a part of the file, which it names.
pub fn of_part(kind: &str, name: &str, e: Unreadable) -> Unreadable {
    Unreadable { says: format!("{kind} {name}: {}", e.says), ..e }
}

/// Refuses what Compose has to write out first.
fn written_out(says: String) -> Unreadable {
    let mut unreadable = Unreadable::new(says).hint("let Compose write the file out, with all values");
    unreadable.tries.push("docker compose config | gpusetup container translate -".to_owned());
    unreadable
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

/// A text, whose `$$` is a dollar sign. What Compose replaces is unknown.
fn literal(text: &str) -> Result<String, Unreadable> {
    let without = text.replace("$$", "");
    if without.contains('$') {
        return Err(written_out(format!("Compose replaces a part of {text:?}")));
    }
    Ok(text.replace("$$", "$"))
}

/// The texts of a list, or the only one.
pub fn texts(value: Option<&Value>) -> Vec<&str> {
    match value {
        Some(Value::String(text)) => vec![text.as_str()],
        Some(Value::Array(all)) => all.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
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
        Ok(count @ 1..=super::request::MOST_GPUS) => {
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
            Ok(count @ 1..=super::request::MOST_GPUS) => Gpus::Count(count),
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

/// A variable's name, and its value unless that is the shell's.
pub type Variable<'a> = (&'a str, Option<String>);

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

/// The parts of the driver that the variables ask for.
pub fn of_variables(variables: &[Variable]) -> Option<Vec<String>> {
    let (_, value) = variables.iter().find(|(name, _)| *name == "NVIDIA_DRIVER_CAPABILITIES")?;
    capabilities(value.as_deref()?)
}

/// A container of a file, whose GPUs are not known yet.
pub fn asked(
    image: Option<String>,
    (program, arguments): (Option<Vec<Word>>, Vec<Word>),
    variables: &[Variable],
    left_out: Vec<String>,
) -> Result<Asked, Unreadable> {
    // Docker's option has one word: the others come before the arguments.
    let (entrypoint, before) = match program {
        None => (None, Vec::new()),
        Some(program) => {
            let mut words = program.into_iter();
            (Some(words.next().unwrap_or_else(|| Word::of(""))), words.collect())
        }
    };
    let arguments = [before, arguments].concat();
    // Texts of several lines are common, and keep to their quotes.
    let is_strange = |text: &str| text.contains(|c| is_hidden(c) && !matches!(c, '\n' | '\t'));
    let texts = image.iter().chain(entrypoint.iter().chain(&arguments).map(|word| &word.text));
    if texts.chain(variables.iter().filter_map(|(_, value)| value.as_ref())).any(|text| is_strange(text))
        || variables.iter().any(|(name, _)| name.contains(is_hidden))
    {
        return Err(Unreadable::new("the file has a hidden character in an image, a command or a variable"));
    }
    let is_request = |name: &str| ["NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES"].contains(&name);
    let flags = variables.iter().filter(|(name, _)| !is_request(name)).map(|(name, value)| match value {
        Some(value) => Flag::of_variable(name, value),
        None => Flag::of_shell_variable(name),
    });
    let requirements = variables.iter().filter(|(name, _)| is_requirement(name));
    let line = CommandLine {
        before: Vec::new(),
        engine: Engine::File,
        global: Vec::new(),
        verb: vec![Word::of("run")],
        flags: flags.chain(entrypoint.map(|program| Flag::of(ENTRYPOINT, program))).collect(),
        at: 0,
        image: image.map(Word::of),
        apptainers_image: None,
        arguments,
        left_out,
    };
    let requirements = requirements.filter_map(|(name, value)| Some(((*name).to_owned(), value.clone()?))).collect();
    let request = Request { requirements, ..Request::of(Gpus::All) };
    Ok(Asked { line, request, from: "compose", notes: Vec::new(), is_mistaken: false })
}
