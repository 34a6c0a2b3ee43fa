//! Kubernetes' pods, alone or in what has a pod in it.

use super::asked::Asked;
use super::file_part::{Named, Variable, asked, of_part, of_variables, texts};
use super::left_out;
use super::pod_text::PodVariables;
use super::request::{Gpus, MOST_GPUS, Request};
use super::shell_words::Word;
use super::unreadable::Unreadable;
use serde_json::Value;
use std::collections::BTreeMap;

/// Where the spec of a pod is, alone or in a Deployment, Job, CronJob and the like.
pub fn place_of_pod(value: &Value) -> Option<&'static str> {
    let places = ["/spec", "/spec/template/spec", "/spec/jobTemplate/spec/template/spec"];
    places.into_iter().find(|place| value.pointer(&format!("{place}/containers")).is_some())
}

/// The containers of a pod that ask for GPUs, each with what is around them, and those that ask in a way that is not read.
/// `typed` is the same pod with numbers and truth values.
/// `runtimeClassName: nvidia` alone gives none: NVIDIA's runtime adds devices only where `NVIDIA_VISIBLE_DEVICES` names them.
pub fn containers(
    pod: Option<&Value>,
    typed: Option<&Value>,
    around: &[String],
    unread: &mut Vec<Unreadable>,
) -> Result<Vec<Named>, Unreadable> {
    let mut found = Vec::new();
    let list = |key: &'static str| Some(pod?.get(key)?.as_array()?.iter().enumerate().map(move |at| (key, at)));
    let lists = ["containers", "initContainers"].into_iter().filter_map(list);
    for (key, (index, container)) in lists.flatten() {
        let typed = typed.and_then(|pod| pod.get(key)?.get(index));
        let name = container.get("name").and_then(Value::as_str).unwrap_or("container").to_owned();
        let asked = self::container(container, typed, around).map_err(|e| of_part("container", &name, e))?;
        if asked.is_none() && container.pointer("/resources/claims").is_some() {
            let says = format!("container {name} gets devices by resource claims, which gpusetup does not read");
            unread.push(Unreadable::new(says).hint("write its GPUs as a limit: nvidia.com/gpu: 1"));
        }
        found.extend(asked.map(|asked| (name, asked)));
    }
    Ok(found)
}

/// What a container of a pod asks for; none if it asks for no GPU.
fn container(container: &Value, typed: Option<&Value>, around: &[String]) -> Result<Option<Asked>, Unreadable> {
    let Some((gpus, of_variable)) = limits(container)? else { return Ok(None) };
    let variables = PodVariables::of(container)?;
    let unknown = variables.unknown.iter().map(|name| format!("the variable {name}"));
    let left_out = around.iter().cloned().chain(left_out::of_container(container)).chain(unknown).collect();
    let words = |key: &str| -> Result<Vec<_>, Unreadable> {
        let texts = texts(container.get(key)).into_iter();
        texts.map(|text| Ok(Word::of(variables.expanded(text)?))).collect()
    };
    // An empty list is none.
    let program = Some(words("command")?).filter(|words| !words.is_empty());
    let args = words("args")?;
    let image = container.get("image").and_then(Value::as_str).map(str::to_owned);
    let known: Vec<Variable> = variables.known.iter().map(|(name, value)| (*name, Some(value.clone()))).collect();
    let asked = asked(image, (program, args), &known, left_out)?;
    let mut notes: Vec<_> = requests_alone(container)?.into_iter().chain(numbers(container, typed)).collect();
    let is_mistaken = !notes.is_empty();
    if of_variable {
        notes.push(
            "without a limit the scheduler does not know of the GPUs: other pods may get the same ones".to_owned(),
        );
    }
    let request = Request { gpus, capabilities: of_variables(&known), ..asked.request };
    Ok(Some(Asked { request, from: "kubernetes", notes, is_mistaken, ..asked }))
}

/// The limits or the requests of a container.
fn resources<'a>(container: &'a Value, kind: &str) -> impl Iterator<Item = (&'a String, &'a Value)> {
    container.pointer(&format!("/resources/{kind}")).and_then(Value::as_object).into_iter().flatten()
}

/// The mistakes of requests for GPUs without a limit
/// (<https://kubernetes.io/docs/tasks/manage-gpus/scheduling-gpus/>).
///
/// # Errors
///
/// If a request differs from its limit.
fn requests_alone(container: &Value) -> Result<Vec<String>, Unreadable> {
    let mut mistakes = Vec::new();
    for (name, request) in resources(container, "requests").filter(|(name, _)| name.starts_with("nvidia.com/")) {
        match resources(container, "limits").find(|(limit, _)| *limit == name) {
            None => {
                mistakes.push(format!("Kubernetes refuses a request of {name} without a limit: write it as a limit"))
            }
            Some((_, limit)) if limit == request => {}
            Some(_) => {
                let says = format!("{name} has another request than its limit, which Kubernetes refuses");
                return Err(Unreadable::new(says).hint("write the limit alone: it is the request, too"));
            }
        }
    }
    Ok(mistakes)
}

/// The mistakes of values of variables that are numbers or truth values.
fn numbers(container: &Value, typed: Option<&Value>) -> Vec<String> {
    let typed = |index: usize| typed?.get("env")?.get(index)?.get("value");
    let is_number = |index: usize| typed(index).is_some_and(|value| value.is_number() || value.is_boolean());
    let variables = container.get("env").and_then(Value::as_array).into_iter().flatten().enumerate();
    let mistaken = variables.filter(|(index, _)| is_number(*index));
    let names = mistaken.filter_map(|(_, variable)| variable.get("name")?.as_str());
    names.map(|name| format!("Kubernetes refuses the value of {name} if it is not in quotes")).collect()
}

/// The GPUs among the limits of a container, and whether only its variable names them.
fn limits(container: &Value) -> Result<Option<(Gpus, bool)>, Unreadable> {
    // A limit is the request, too.
    let limits: BTreeMap<_, _> = resources(container, "requests").chain(resources(container, "limits")).collect();
    let (mut count, mut shares, mut profiles) = (0, 0, BTreeMap::new());
    for (name, value) in limits {
        let kind = name.strip_prefix("nvidia.com/").filter(|kind| left_out::is_of_gpus(kind));
        let Some(kind) = kind else { continue };
        let number = value.as_str().and_then(|text| text.parse().ok()).filter(|n| *n <= MOST_GPUS);
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
