//! Files of Compose and Kubernetes alike.

use super::to;
use crate::common::run_with_input;
use gpusetup::container::{Form, read};

#[test]
fn an_entrypoint_has_its_place_in_files() {
    let line = "docker run --gpus 1 --entrypoint python x -m y";
    let compose = to(Form::Compose, line);
    let text = compose.text.expect("a file");
    assert!(text.contains("    entrypoint: [python]\n    command: [\"-m\", \"y\"]\n"), "{text}");
    assert_eq!(compose.differences, [""; 0]);
    let pod = to(Form::Kubernetes, line);
    let text = pod.text.expect("a file");
    assert!(text.contains("      command: [python]\n      args: [\"-m\", \"y\"]\n"), "{text}");
    assert_eq!(pod.differences, [""; 0]);
    // Without an entrypoint the first argument is the program. An empty list would leave that of the image to Kubernetes.
    let none = "docker run --gpus 1 --entrypoint '' x ls /";
    let text = to(Form::Compose, none).text.expect("a file");
    assert!(
        text.contains("entrypoint: []\n    command: [ls, /]")
            || text.contains("entrypoint: []\n    command: [ls, \"/\"]"),
        "{text}"
    );
    assert!(to(Form::Kubernetes, none).text.expect("a file").contains("      command: [ls, "));
    // Docker's option has one word.
    for (file, docker) in [
        (
            "services:\n  a:\n    image: x\n    gpus: all\n    entrypoint: [python, -m]\n    command: y\n",
            "docker run --gpus all --entrypoint python x -m y",
        ),
        (
            "services:\n  a:\n    image: x\n    gpus: all\n    entrypoint: ''\n",
            "docker run --gpus all --entrypoint '' x",
        ),
        (
            "kind: Pod\nspec:\n  containers:\n    - {name: a, image: x, command: [python, -m], args: [y], resources: {limits: {nvidia.com/gpu: 1}}}\n",
            "docker run --gpus 1 --entrypoint python x -m y",
        ),
    ] {
        let written = to(Form::Docker, file);
        assert_eq!((written.text.as_deref(), written.differences.as_slice()), (Some(docker), [].as_slice()), "{file}");
    }
}

/// Files from documentation, what they ask for, and how Docker is asked for the same.
#[test]
fn files_are_read() {
    let files = [
        // https://docs.docker.com/compose/how-tos/gpu-support/
        (
            "services:\n  test:\n    image: nvidia/cuda:12.9.0-base-ubuntu22.04\n    command: nvidia-smi\n    deploy:\n      resources:\n        reservations:\n          devices:\n            - driver: nvidia\n              count: 1\n              capabilities: [gpu]\n",
            "docker run --gpus 1 nvidia/cuda:12.9.0-base-ubuntu22.04 nvidia-smi",
        ),
        (
            "services:\n  test:\n    image: tensorflow/tensorflow:latest-gpu\n    command: python -c \"import tensorflow as tf;tf.test.gpu_device_name()\"\n    deploy:\n      resources:\n        reservations:\n          devices:\n          - driver: nvidia\n            device_ids: ['0', '3']\n            capabilities: [gpu]\n",
            "docker run --gpus '\"device=0,3\"' tensorflow/tensorflow:latest-gpu python -c \"import tensorflow as tf;tf.test.gpu_device_name()\"",
        ),
        // https://docs.docker.com/reference/compose-file/services/#gpus
        ("services:\n  model:\n    image: x\n    gpus: all\n", "docker run --gpus all x"),
        (
            "services:\n  model:\n    image: x\n    gpus:\n      - driver: nvidia\n        count: 2\n",
            "docker run --gpus 2 x",
        ),
        (
            "x-gpu: &gpu {driver: nvidia, count: 2, capabilities: [gpu]}\nx-env: &env\n  VER: 12\n  DEBUG: true\nservices:\n  a:\n    image: x\n    environment: *env\n    deploy:\n      resources:\n        reservations:\n          devices: [*gpu]\n",
            "docker run --gpus 2 -e DEBUG=true -e VER=12 x",
        ),
        // https://github.com/NVIDIA/nvidia-container-runtime/issues/190
        (
            "version: '3.8'\nservices:\n  runtime_test:\n    image: ubuntu:20.04\n    runtime: nvidia\n    environment:\n      - NVIDIA_VISIBLE_DEVICES=all\n    tty: true\n    command:\n      - bash\n      - -c\n      - nvidia-smi -L\n",
            "docker run --gpus all ubuntu:20.04 bash -c 'nvidia-smi -L'",
        ),
        // 9340836254
        (
            "services:\n  exam_container:\n    image: 'exam:0.1'\n    environment:\n      - NVIDIA_VISIBLE_DEVICES=MIG-e138a708-679d-5075-ab88-ba8e298ec5d3 # the device\n    command: /bin/bash\n",
            "docker run --gpus device=MIG-e138a708-679d-5075-ab88-ba8e298ec5d3 exam:0.1 /bin/bash",
        ),
        // https://kubernetes.io/docs/tasks/manage-gpus/scheduling-gpus/
        (
            "apiVersion: v1\nkind: Pod\nmetadata:\n  name: example-vector-add\nspec:\n  restartPolicy: OnFailure\n  containers:\n    - name: example-vector-add\n      image: \"registry.example/example-vector-add:v42\"\n      resources:\n        limits:\n          nvidia.com/gpu: 1\n",
            "docker run --gpus 1 registry.example/example-vector-add:v42",
        ),
        (
            "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d}\nspec:\n  template:\n    spec:\n      containers:\n        - {name: a, image: a}\n        - {name: b, image: b, env: [{name: NVIDIA_DRIVER_CAPABILITIES, value: \"compute,utility\"}], resources: {limits: {nvidia.com/gpu: \"2\"}}}\n",
            "docker run --gpus '2,\"capabilities=compute,utility\"' b",
        ),
    ];
    for (file, docker) in files {
        let found = read(file).unwrap_or_else(|e| panic!("{e:?}\n{file}"));
        assert_eq!(found.len(), 1, "{file}");
        assert_eq!(found[0].written(Form::Docker).text.as_deref().map(plain), Some(plain(docker)), "{file}");
    }
}

/// Without the quotes that a word can have or not.
fn plain(line: &str) -> String {
    line.replace(['\'', '"'], "")
}

#[test]
fn what_a_file_has_beside_its_request_is_named() {
    let compose = "services:\n  a:\n    image: x\n    container_name: y\n    devices: [nvidia.com/gpu=all]\n    deploy:\n      replicas: 3\n      resources:\n        limits: {memory: 8g}\n        reservations:\n          devices: [{driver: cdi, device_ids: [vendor.com/x=0]}]\n";
    let written = to(Form::Docker, compose);
    assert_eq!(written.text.as_deref(), Some("docker run --gpus all x"));
    assert_eq!(
        written.differences,
        [
            "left out, carry them over yourself: container_name, deploy.replicas, deploy.resources.limits.memory, deploy.resources.reservations.devices (cdi vendor.com/x=0)"
        ]
    );
    let job = "apiVersion: batch/v1\nkind: Job\nmetadata: {name: train, namespace: ml}\nspec:\n  parallelism: 4\n  template:\n    spec:\n      restartPolicy: Never\n      nodeSelector: {nvidia.com/gpu.product: NVIDIA-A100-SXM4-40GB}\n      hostIPC: true\n      containers:\n      - {name: main, image: x, resources: {limits: {nvidia.com/gpu: 2, memory: 8Gi}}}\n";
    for form in [Form::Docker, Form::Kubernetes] {
        assert_eq!(
            to(form, job).differences,
            [
                "left out, carry them over yourself: nodeSelector (nvidia.com/gpu.product: NVIDIA-A100-SXM4-40GB), hostIPC, parallelism, namespace, limits.memory"
            ]
        );
    }
}

/// A list of `kubectl get`, JSON, and what is not read.
#[test]
fn files_are_read_or_named_for_what_they_are() {
    let pod = r#"{"kind": "Pod", "spec": {"containers": [{"name": "a", "image": "x", "resources": {"limits": {"nvidia.com/gpu": 2}}}]}}"#;
    let list = format!("{{\n\t\"apiVersion\": \"v1\", \"kind\": \"List\", \"items\": [{pod}]}}");
    let compose = r#"{"name": "p", "services": {"a": {"image": "x", "command": null, "deploy": {"resources": {"reservations": {"devices": [{"capabilities": ["gpu"], "driver": "nvidia", "count": 2}]}}}}}}"#;
    let yaml = "kind: List\nitems:\n- kind: Pod\n  spec:\n    containers:\n    - {name: a, image: x, resources: {limits: {nvidia.com/gpu: 2}}}\n";
    for file in [pod, list.as_str(), compose, yaml] {
        assert_eq!(to(Form::Docker, file).text.as_deref(), Some("docker run --gpus 2 x"), "{file}");
    }
    let claim = "kind: Pod\nspec:\n  containers:\n  - {name: a, image: x, resources: {claims: [{name: gpu}]}}\n";
    let training = "kind: PyTorchJob\nspec: {replicas: {Worker: {template: {spec: {containers: [{resources: {limits: {nvidia.com/gpu: 1}}}]}}}}}\n";
    let swarm = "services:\n  e:\n    image: x\n    deploy: {resources: {reservations: {generic_resources: [{discrete_resource_spec: {kind: NVIDIA-GPU, value: 2}}]}}}\n";
    for (file, says) in [
        (claim, "container a gets devices by resource claims"),
        (training, "the kind PyTorchJob"),
        (swarm, "service e has generic_resources"),
    ] {
        let e = read(file).expect_err(file);
        assert!(e.says.contains(says) && !e.hints.is_empty(), "{e:?}");
    }
    // Beside one that is read, it is said.
    let ran = run_with_input(&["container", "translate", "--to", "docker", "-"], &format!("{yaml}---\n{training}"));
    assert!(ran.code == 0 && ran.err.contains("the kind PyTorchJob"), "{}", ran.err);
    let extends = "services:\n  a:\n    extends: {service: b}\n";
    let ran = run_with_input(&["container", "translate", "--to", "podman", "-"], extends);
    assert!(ran.err.contains("docker compose config | gpusetup container translate --to podman -"), "{}", ran.err);
}

#[test]
fn files_that_ask_for_nothing_or_hide_something_are_refused() {
    let files = [
        ("services:\n  a:\n    image: x\n", "asks for no GPU"),
        ("services:\n  a:\n    image: ${IMAGE}\n    gpus: all\n", "Compose replaces"),
        ("services:\n  a:\n    image: \"x\\u001b[2J\"\n    gpus: all\n", "hidden character"),
        ("services: [", "cannot be read"),
        ("services:\n  a:\n    image: x\n    gpus: all\n    devices: [nvidia.com/gpu=all]\n", "several places"),
        (
            "kind: Pod\nspec:\n  containers:\n    - {name: a, resources: {limits: {nvidia.com/gpu: many}}}\n",
            "container a: nvidia.com/gpu",
        ),
        (
            "kind: Pod\nspec:\n  runtimeClassName: nvidia\n  containers:\n    - {name: a, image: busybox}\n",
            "asks for no GPU",
        ),
        ("services:\n  a:\n    image: x\n    gpus: 2\n", "service a: gpus: 2 is not valid"),
        (
            "services:\n  a:\n    image: x\n    gpus: all\n  b:\n    extends: {service: a}\n",
            "service b: it extends another service",
        ),
    ];
    for (file, says) in files {
        let e = read(file).expect_err(file);
        assert!(e.says.contains(says), "{e:?}\n{file}");
    }
    let number = read("services:\n  a:\n    gpus: 2\n").expect_err("a number");
    assert!(number.hints[0].contains("gpus: [{driver: nvidia, count: 2}]"), "{number:?}");
    let extends = read("services:\n  a:\n    extends: {service: b}\n").expect_err("another service");
    assert!(extends.tries[0].starts_with("docker compose config | "), "{extends:?}");
}

/// What is meant is clear, and Compose or Kubernetes refuses it.
#[test]
fn mistakes_of_files_are_named_and_corrected() {
    let compose = |devices: &str| {
        format!(
            "services:\n  a:\n    image: x\n    deploy: {{resources: {{reservations: {{devices: [{devices}]}}}}}}\n"
        )
    };
    let pod = |rest: &str| format!("kind: Pod\nspec:\n  containers:\n  - {{name: a, image: x, {rest}}}\n");
    for (file, docker, says, corrected) in [
        (
            compose("{driver: nvidia, count: 2}"),
            "docker run --gpus 2 x\n",
            "a reservation without capabilities: [gpu]",
            "capabilities: [gpu]",
        ),
        (
            compose("{driver: nvidia, device_ids: [0, 2], capabilities: [gpu]}"),
            "docker run --gpus '\"device=0,2\"' x\n",
            "device_ids only as a list of strings: ['0', '2']",
            "device_ids: ['0', '2']",
        ),
        (
            compose("{driver: nvidia, device_ids: all, capabilities: [gpu]}"),
            "docker run --gpus all x\n",
            "device_ids only as a list of strings: ['all']",
            "count: all",
        ),
        (
            pod("resources: {limits: {cpu: 1}, requests: {nvidia.com/gpu: 2}}"),
            "docker run --gpus 2 x\n",
            "a request of nvidia.com/gpu without a limit",
            "nvidia.com/gpu: 2",
        ),
        (
            pod("env: [{name: N, value: 1}, {name: B, value: '2'}], resources: {limits: {nvidia.com/gpu: 1}}"),
            "docker run --gpus 1 -e N=1 -e B=2 x\n",
            "the value of N if it is not in quotes",
            "value: \"1\"",
        ),
    ] {
        let ran = run_with_input(&["container", "translate", "--to", "docker", "-"], &file);
        assert_eq!((ran.code, ran.out.as_str()), (0, docker), "{file}{}", ran.err);
        assert!(ran.err.contains(says) && !ran.err.contains("value of B"), "{file}{}", ran.err);
        let ran = run_with_input(&["container", "translate", "-"], &file);
        assert!(ran.out.contains(corrected), "{file}{}", ran.out);
    }
    let differs = read(&pod("resources: {limits: {nvidia.com/gpu: 1}, requests: {nvidia.com/gpu: 2}}"));
    assert!(differs.expect_err("two numbers").says.contains("another request than its limit"));
    let both = pod("resources: {limits: {nvidia.com/gpu: 2}, requests: {nvidia.com/gpu: 2}}");
    let ran = run_with_input(&["container", "translate", "--to", "docker", "-"], &both);
    assert!(ran.code == 0 && !ran.err.contains("refuses"), "{}", ran.err);
}

/// What is said of a request that is not read names no other request, and is there if no request can be written.
#[test]
fn what_is_said_of_other_parts_of_a_file_names_no_service() {
    let swarm = "{resources: {reservations: {generic_resources: [{discrete_resource_spec: {kind: gpu, value: 2}}]}}}";
    let file = format!(
        "services:\n  a: {{image: x, gpus: all}}\n  b: {{image: y, gpus: all}}\n  sw: {{image: z, deploy: {swarm}}}\n"
    );
    for (form, code) in [("docker", 0), ("slurm", 4)] {
        let ran = run_with_input(&["container", "translate", "--to", form, "-"], &file);
        assert_eq!(ran.code, code, "{}", ran.err);
        assert!(
            ran.err.contains("service sw has generic_resources") && !ran.err.contains("a: service sw"),
            "{}",
            ran.err
        );
    }
    let ran = run_with_input(&["container", "translate", "-"], &file);
    assert!(ran.out.starts_with("#   service sw has generic_resources"), "{}", ran.out);
}

#[test]
fn a_file_may_begin_with_a_byte_order_mark() {
    let file = "\u{feff}services:\n  a: {image: x, gpus: all}\n";
    assert_eq!(to(Form::Docker, file).text.as_deref(), Some("docker run --gpus all x"));
}
