//! What a file asks for beside the GPUs and no other form gets, each by its name in the file.

use super::request::cdi_name;
use serde_json::Value;

/// The keys of a service that have a place in other forms.
const OF_SERVICE: [&str; 6] = ["image", "entrypoint", "command", "environment", "deploy", "gpus"];

/// The keys of a container of a pod that have a place in other forms.
const OF_CONTAINER: [&str; 6] = ["name", "image", "args", "env", "resources", "command"];

/// What a service of a Compose file has beside its request.
pub fn of_service(service: &Value) -> Vec<String> {
    let mut names = Vec::new();
    for (key, value) in service.as_object().into_iter().flatten().filter(|(_, value)| !is_empty(value)) {
        match key.as_str() {
            "devices" if devices(Some(value)).iter().all(|device| cdi_name(device).is_some()) => {}
            "runtime" if value == "nvidia" => {}
            key if OF_SERVICE.contains(&key) => {}
            key => names.push(key.to_owned()),
        }
    }
    names.extend(keys(service, "/deploy", "deploy.", &["resources"]));
    names.extend(keys(service, "/deploy/resources", "deploy.resources.", &["limits", "reservations"]));
    names.extend(keys(service, "/deploy/resources/limits", "deploy.resources.limits.", &[]));
    names.extend(keys(service, "/deploy/resources/reservations", "deploy.resources.reservations.", &["devices"]));
    names
}

/// The devices of a service by their paths or CDI names, in the short form or the long one of `docker compose config`.
pub fn devices(value: Option<&Value>) -> Vec<&str> {
    let entries = value.and_then(Value::as_array).into_iter().flatten();
    entries.filter_map(|entry| entry.as_str().or_else(|| entry.get("source")?.as_str())).collect()
}

/// What a container of a pod has beside its request, other limits included.
pub fn of_container(container: &Value) -> Vec<String> {
    let mut names = keys(container, "", "", &OF_CONTAINER);
    names.extend(keys(container, "/resources", "resources.", &["limits", "requests"]));
    for kind in ["limits", "requests"] {
        let all = keys(container, &format!("/resources/{kind}"), &format!("{kind}."), &[]);
        let is_read = |name: &String| name.split_once(".nvidia.com/").is_some_and(|(_, kind)| is_of_gpus(kind));
        names.extend(all.into_iter().filter(|name| !is_read(name)));
    }
    names
}

/// Whether a limit of `nvidia.com/` with this name is a number of GPUs. HAMi's `gpumem` is memory in MB, and its `gpucores` a share in
/// percent (<https://github.com/Project-HAMi/HAMi>).
pub fn is_of_gpus(kind: &str) -> bool {
    kind == "gpu" || kind == "gpu.shared" || kind.starts_with("mig-")
}

/// What a document of Kubernetes has around the containers of its pod, whose spec is at `place`. The node selector is first, with
/// its labels: it may choose the model of the GPU.
pub fn around_containers(document: &Value, place: &str) -> Vec<String> {
    let spec = document.pointer(place);
    let mut names: Vec<_> = spec.and_then(|spec| node_selector(spec.get("nodeSelector")?)).into_iter().collect();
    for (key, value) in spec.and_then(Value::as_object).into_iter().flatten() {
        match key.as_str() {
            "containers" | "initContainers" | "nodeSelector" => {}
            // The runtime that gives GPUs, and how a translated pod restarts.
            "runtimeClassName" if value == "nvidia" => {}
            "restartPolicy" if value == "Never" => {}
            _ if is_empty(value) => {}
            key => names.push(key.to_owned()),
        }
    }
    for owner in ["/spec", "/spec/jobTemplate/spec"].into_iter().filter(|owner| *owner != place) {
        names.extend(keys(document, owner, "", &["template", "jobTemplate", "selector"]));
    }
    names.extend(document.pointer("/metadata/namespace").map(|_| "namespace".to_owned()));
    names
}

/// `nodeSelector (nvidia.com/gpu.product: NVIDIA-A100-SXM4-40GB)`.
fn node_selector(labels: &Value) -> Option<String> {
    let label = |(name, value): (&String, &Value)| format!("{name}: {}", value.as_str().unwrap_or_default());
    let labels: Vec<_> = labels.as_object()?.iter().map(label).collect();
    (!labels.is_empty()).then(|| format!("nodeSelector ({})", labels.join(", ")))
}

/// The keys at a place of a file that are not among `read` and not empty, with a prefix.
fn keys(file: &Value, place: &str, prefix: &str, read: &[&str]) -> Vec<String> {
    let entries = file.pointer(place).and_then(Value::as_object).into_iter().flatten();
    let others = entries.filter(|(key, value)| !read.contains(&key.as_str()) && !is_empty(value));
    others.map(|(key, _)| format!("{prefix}{key}")).collect()
}

/// Whether a value says nothing, such as `networks: {}`.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(all) => all.is_empty(),
        Value::Object(map) => map.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_a_service_has_beside_its_gpus_is_named() {
        let service = json!({
            "image": "x", "container_name": "y", "runtime": "runc", "networks": {}, "devices": ["nvidia.com/gpu=all"],
            "deploy": {"replicas": "3", "resources": {"limits": {"memory": "8g"}, "reservations": {"cpus": "1", "devices": []}}},
        });
        assert_eq!(
            of_service(&service),
            [
                "container_name",
                "runtime",
                "deploy.replicas",
                "deploy.resources.limits.memory",
                "deploy.resources.reservations.cpus"
            ]
        );
        assert_eq!(of_service(&json!({"devices": ["/dev/fuse", "nvidia.com/gpu=0"]})), ["devices"]);
        let long = json!([{"source": "nvidia.com/gpu=all", "target": "nvidia.com/gpu=all"}]);
        assert_eq!(devices(Some(&long)), ["nvidia.com/gpu=all"]);
    }

    #[test]
    fn what_is_around_a_container_is_named() {
        let job = json!({
            "kind": "Job",
            "metadata": {"name": "a", "namespace": "ml"},
            "spec": {"parallelism": "4", "template": {"spec": {
                "nodeSelector": {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB"},
                "runtimeClassName": "nvidia", "restartPolicy": "Never", "hostIPC": "true", "securityContext": {},
                "tolerations": [{"key": "nvidia.com/gpu"}],
                "containers": [],
            }}},
        });
        assert_eq!(
            around_containers(&job, "/spec/template/spec"),
            [
                "nodeSelector (nvidia.com/gpu.product: NVIDIA-A100-SXM4-40GB)",
                "hostIPC",
                "tolerations",
                "parallelism",
                "namespace"
            ]
        );
        let container = json!({
            "image": "x", "volumeMounts": [{"name": "d"}],
            "resources": {"limits": {"nvidia.com/gpu": "2", "nvidia.com/mig-1g.5gb": "1", "memory": "8Gi"}},
        });
        assert_eq!(of_container(&container), ["volumeMounts", "limits.memory"]);
        assert_eq!(around_containers(&json!({"spec": {"containers": []}}), "/spec"), [""; 0]);
    }
}
