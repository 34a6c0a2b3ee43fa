//! Compose files, and Kubernetes' pods and what has a pod in it.

use super::asked::{Asked, CommandLine, ENTRYPOINT, Engine, capabilities, is_requirement};
use super::flags::Flag;
use super::pod_text::PodVariables;
use super::request::{Gpus, Request, cdi_name};
use super::shell_words::{Word, split};
use super::unreadable::Unreadable;
use crate::text::is_hidden;
use crate::yaml;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// A container of a file.
pub type Named = (String, Asked);

/// Whether a text is a file of these, not a command line.
pub fn is_one(text: &str) -> bool {
    let is_key = |line: &str| ["services:", "apiVersion:", "kind:", "version:"].iter().any(|key| line.starts_with(key));
    text.lines().any(is_key)
}

/// The containers that ask for GPUs.
///
/// # Errors
///
/// If it is no such file, or if no container asks for GPUs.
pub fn read(text: &str) -> Result<Vec<Named>, Unreadable> {
    let mut found = Vec::new();
    for document in documents(text) {
        let value: Value =
            yaml::read_texts(&document).map_err(|e| Unreadable::new(format!("the file cannot be read: {e}")))?;
        if let Some(services) = value.get("services").and_then(Value::as_object) {
            for (name, service) in services {
                let asked = self::service(service).map_err(|e| of_part("service", name, e))?;
                found.extend(asked.map(|asked| (name.clone(), asked)));
            }
        } else if let Some(pod) = pod(&value) {
            found.extend(containers(pod)?);
        }
    }
    if found.is_empty() { Err(asks_for_none(text)) } else { Ok(found) }
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
fn of_part(kind: &str, name: &str, e: Unreadable) -> Unreadable {
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

fn texts(value: Option<&Value>) -> Vec<&str> {
    match value {
        Some(Value::String(text)) => vec![text.as_str()],
        Some(Value::Array(all)) => all.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

/// The keys of a service that have a place in other forms.
const KEYS: [&str; 8] =
    ["image", "entrypoint", "command", "environment", "deploy", "gpus", "runtime", "container_name"];

/// What a service asks for; none if it asks for no GPU.
fn service(service: &Value) -> Result<Option<Asked>, Unreadable> {
    let Some(keys) = service.as_object() else { return Ok(None) };
    if keys.contains_key("extends") {
        return Err(written_out("it extends another service, so its own keys do not say what it asks for".to_owned()));
    }
    let variables = environment(keys.get("environment"));
    let reservations = service.pointer("/deploy/resources/reservations/devices").and_then(Value::as_array);
    let mut all = Vec::new();
    for entry in reservations.into_iter().flatten() {
        if is_nvidias(entry) {
            all.push(reservation(entry)?);
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
    let devices: Vec<_> = texts(keys.get("devices")).into_iter().filter_map(cdi_name).collect();
    if !devices.is_empty() {
        all.push((if devices.contains(&"all") { Gpus::All } else { Gpus::of_names(&devices)? }, None));
    }
    let mut notes = Vec::new();
    if all.is_empty() {
        let has_runtime = keys.get("runtime").is_some_and(|runtime| runtime == "nvidia");
        let visible = variables.iter().find(|(name, _)| *name == "NVIDIA_VISIBLE_DEVICES").map(|(_, value)| value);
        let gpus = match visible {
            Some(value) => Gpus::of_variable(&literal(value)?)?,
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
    let words = |key: &str| match keys.get(key) {
        Some(Value::String(text)) if text.trim().is_empty() => Ok(Vec::new()),
        Some(Value::String(text)) => split(&literal(text)?),
        list => texts(list).into_iter().map(|text| literal(text).map(Word::of)).collect(),
    };
    let program = match keys.get("entrypoint") {
        None | Some(Value::Null) => None,
        Some(_) => Some(words("entrypoint")?),
    };
    let command = words("command")?;
    let image = keys.get("image").and_then(Value::as_str).map(literal).transpose()?;
    let left_out = keys.keys().filter(|key| !KEYS.contains(&key.as_str())).cloned().collect();
    let values =
        variables.iter().map(|(name, value)| Ok((*name, literal(value)?))).collect::<Result<Vec<_>, Unreadable>>()?;
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

/// The variables of a service: a list of NAME=VALUE, or a map.
fn environment(value: Option<&Value>) -> Vec<(&str, &str)> {
    match value {
        Some(Value::Object(map)) => {
            map.iter().filter_map(|(name, value)| Some((name.as_str(), value.as_str()?))).collect()
        }
        list => texts(list).into_iter().filter_map(|text| text.split_once('=')).collect(),
    }
}

fn of_variables(variables: &[(&str, String)]) -> Option<Vec<String>> {
    let (_, value) = variables.iter().find(|(name, _)| *name == "NVIDIA_DRIVER_CAPABILITIES")?;
    capabilities(value)
}

/// A container of a file, whose GPUs are not known yet.
fn asked(
    image: Option<String>,
    (program, arguments): (Option<Vec<Word>>, Vec<Word>),
    variables: &[(&str, String)],
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
    if texts.chain(variables.iter().map(|(_, value)| value)).any(|text| is_strange(text))
        || variables.iter().any(|(name, _)| name.contains(is_hidden))
    {
        return Err(Unreadable::new("the file has a hidden character in an image, a command or a variable"));
    }
    let is_request = |name: &str| ["NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES"].contains(&name);
    let flags =
        variables.iter().filter(|(name, _)| !is_request(name)).map(|(name, value)| Flag::of_variable(name, value));
    let requirements = variables.iter().filter(|(name, _)| is_requirement(name));
    let line = CommandLine {
        before: Vec::new(),
        engine: Engine::File,
        global: Vec::new(),
        verb: vec![Word::of("run")],
        flags: flags.chain(entrypoint.map(|program| Flag::of(ENTRYPOINT, program))).collect(),
        at: 0,
        image: image.map(Word::of),
        arguments,
        left_out,
    };
    let requirements = requirements.map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    let request = Request { requirements, ..Request::of(Gpus::All) };
    Ok(Asked { line, request, from: "compose", notes: Vec::new(), is_mistaken: false })
}

/// The spec of a pod, alone or in a Deployment, Job, CronJob and the like.
fn pod(value: &Value) -> Option<&Map<String, Value>> {
    let places =
        ["/spec/containers", "/spec/template/spec/containers", "/spec/jobTemplate/spec/template/spec/containers"];
    let place = places.iter().find(|place| value.pointer(place).is_some())?;
    value.pointer(place.strip_suffix("/containers")?)?.as_object()
}

/// The containers of a pod that ask for GPUs. `runtimeClassName: nvidia` alone gives none: NVIDIA's runtime adds devices only where
/// `NVIDIA_VISIBLE_DEVICES` names them.
fn containers(pod: &Map<String, Value>) -> Result<Vec<Named>, Unreadable> {
    let mut found = Vec::new();
    let lists = ["containers", "initContainers"].into_iter().filter_map(|key| pod.get(key)?.as_array());
    for container in lists.flatten() {
        let name = container.get("name").and_then(Value::as_str).unwrap_or("container").to_owned();
        let asked = self::container(container).map_err(|e| of_part("container", &name, e))?;
        found.extend(asked.map(|asked| (name, asked)));
    }
    Ok(found)
}

/// What a container of a pod asks for; none if it asks for no GPU.
fn container(container: &Value) -> Result<Option<Asked>, Unreadable> {
    const KEYS: [&str; 6] = ["name", "image", "args", "env", "resources", "command"];
    let Some((gpus, of_variable)) = limits(container)? else { return Ok(None) };
    let variables = PodVariables::of(container)?;
    let keys = container.as_object().into_iter().flat_map(Map::keys).cloned();
    let left_out = keys.filter(|key| !KEYS.contains(&key.as_str()));
    let left_out = left_out.chain(variables.unknown.iter().map(|name| format!("the variable {name}"))).collect();
    let words = |key: &str| -> Result<Vec<_>, Unreadable> {
        let texts = texts(container.get(key)).into_iter();
        texts.map(|text| Ok(Word::of(variables.expanded(text)?))).collect()
    };
    // An empty list is none.
    let program = Some(words("command")?).filter(|words| !words.is_empty());
    let args = words("args")?;
    let image = container.get("image").and_then(Value::as_str).map(str::to_owned);
    let asked = asked(image, (program, args), &variables.known, left_out)?;
    let mut notes = Vec::new();
    if of_variable {
        notes.push(
            "without a limit the scheduler does not know of the GPUs: other pods may get the same ones".to_owned(),
        );
    }
    let request = Request { gpus, capabilities: of_variables(&variables.known), ..asked.request };
    Ok(Some(Asked { request, from: "kubernetes", notes, ..asked }))
}

/// The GPUs among the limits of a container, and whether only its variable names them.
fn limits(container: &Value) -> Result<Option<(Gpus, bool)>, Unreadable> {
    let limits = container.pointer("/resources/limits").or_else(|| container.pointer("/resources/requests"));
    let (mut count, mut shares, mut profiles) = (0, 0, BTreeMap::new());
    for (name, value) in limits.and_then(Value::as_object).into_iter().flatten() {
        let Some(kind) = name.strip_prefix("nvidia.com/") else { continue };
        let number = value.as_str().and_then(|text| text.parse().ok()).filter(|n| *n <= super::request::MOST_GPUS);
        let number = number.ok_or_else(|| Unreadable::new(format!("{name}: {value} is no number of GPUs")))?;
        match kind.strip_prefix("mig-") {
            _ if number == 0 => {}
            Some(profile) => drop(profiles.insert(profile.to_owned(), number)),
            None if kind == "gpu" => count += number,
            None if kind == "gpu.shared" => shares += number,
            None => {}
        }
    }
    let kinds = [
        (count > 0).then_some(Gpus::Count(count)),
        (shares > 0).then_some(Gpus::Shares(shares)),
        (!profiles.is_empty()).then_some(Gpus::Profiles(profiles)),
    ];
    let mut kinds = kinds.into_iter().flatten();
    match (kinds.next(), kinds.next()) {
        (Some(_), Some(_)) => {
            return Err(Unreadable::new(
                "a container asks for more than one of whole GPUs, shares of GPUs and MIG devices, and gets only one kind",
            ));
        }
        (Some(gpus), None) => return Ok(Some((gpus, false))),
        (None, _) => {}
    }
    let variables = container.get("env").and_then(Value::as_array).into_iter().flatten();
    let visible = variables.filter(|entry| entry.get("name").is_some_and(|name| name == "NVIDIA_VISIBLE_DEVICES"));
    let visible = visible.filter_map(|entry| entry.get("value")?.as_str()).next();
    let gpus = visible.map(Gpus::of_variable).transpose()?.flatten();
    Ok(gpus.map(|gpus| (gpus, true)))
}
