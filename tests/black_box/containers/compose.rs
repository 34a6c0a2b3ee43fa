//! Files of Compose, as Compose reads them.

use super::to;
use crate::common::run_with_input;
use gpusetup::container::{Form, read};

/// Nothing of a Compose command is for a shell of the host: Compose divides it into words, and the container gets these.
#[test]
fn the_commands_of_a_compose_file_are_quoted_for_the_shell() {
    let service =
        |command: &str| format!("services:\n  a:\n    image: x\n    gpus: [{{count: 1}}]\n    command: {command}\n");
    for (command, words) in [
        (
            r#"sh -c "echo $$HOSTNAME `id` && nvidia-smi -L > /out.txt; ls *""#,
            "sh -c 'echo $HOSTNAME `id` && nvidia-smi -L > /out.txt; ls *'",
        ),
        ("python x.py $$HOME ~/a {1,2} [a]*.txt", "python x.py '$HOME' '~/a' '{1,2}' '[a]*.txt'"),
        ("|\n      vllm serve\n      --model a/b\n      --port 80", "vllm serve --model a/b --port 80"),
    ] {
        let file = service(command);
        for (form, start) in [
            (Form::Docker, "docker run --gpus 1 x "),
            (Form::Podman, "podman run --device nvidia.com/gpu=0 docker.io/library/x "),
            (Form::Slurm, "srun --gpus=1 --container-image=x "),
        ] {
            assert_eq!(to(form, &file).text, Some(format!("{start}{words}")), "{form}");
        }
        let compose = to(Form::Compose, &file);
        assert_eq!(compose.differences, [""; 0], "{command}");
    }
    // Compose ends the command there.
    let ran = run_with_input(&["container", "translate", "--to", "docker", "-"], &service("echo a;b"));
    assert_eq!((ran.code, ran.out.as_str()), (0, "docker run --gpus 1 x echo a\n"));
    assert!(ran.err.contains("the container does not get this: ;b"), "{}", ran.err);
    let e = read(&service("foo(a)")).expect_err("Compose refuses it");
    assert!(e.says.contains("service a: Compose refuses a command with a ( outside quotes"), "{e:?}");
}

/// In a map, Compose reads what is not in quotes, and prints it in its own way. In a list, it is text.
#[test]
fn numbers_of_a_compose_file_are_those_that_the_container_gets() {
    let file = |environment: &str| format!("services:\n  a: {{image: x, gpus: all, environment: {environment}}}\n");
    let docker = |environment: &str| to(Form::Docker, &file(environment)).text.expect("a command line");
    assert_eq!(
        docker("{B: 1_000, H: 0x1F, T: True, U: 022, V: 1.10, W: 1e3}"),
        "docker run --gpus all -e B=1000 -e H=31 -e T=true -e U=18 -e V=1.1 -e W=1000 x"
    );
    assert_eq!(docker("{U: '022', V: \"1.10\"}"), "docker run --gpus all -e U=022 -e V=1.10 x");
    assert_eq!(docker("[U=022]"), "docker run --gpus all -e U=022 x");
    let json =
        r#"{"services": {"a": {"image": "x", "gpus": "all", "environment": {"V": 1.50, "W": 1e3, "U": "022"}}}}"#;
    let text = to(Form::Docker, json).text;
    assert_eq!(text.as_deref(), Some("docker run --gpus all -e U=022 -e V=1.5 -e W=1000 x"));
    assert!(to(Form::Compose, &file("{U: 022}")).text.is_some_and(|text| text.contains(": \"18\"")));
    let ran = run_with_input(&["container", "translate", "--to", "docker", "-"], &file("{U: 022}"));
    assert!(ran.err.contains("U is 18: Compose reads 022 without quotes"), "{}", ran.err);
    // Whether it is in quotes is not known.
    let e = read(&format!("{}x-more: {{1: a}}\n", file("{U: 022}"))).expect_err("a number as a key");
    assert!(e.says.contains("U: 022") && e.tries[0].starts_with("docker compose config | "), "{e:?}");
}

/// Compose takes a variable without a value from the shell, as `docker run -e NAME` does.
#[test]
fn variables_without_a_value_are_those_of_the_shell() {
    for environment in ["[HF_TOKEN, A=1]", "{HF_TOKEN: , A: 1}"] {
        let file = format!("services:\n  a:\n    image: x\n    gpus: [{{count: 1}}]\n    environment: {environment}\n");
        let docker = to(Form::Docker, &file).text.expect("a command line");
        assert!(docker.contains("-e HF_TOKEN") && docker.contains("-e A=1"), "{docker}");
        for file in [&file, &docker] {
            let compose = to(Form::Compose, file);
            assert!(compose.text.as_ref().is_some_and(|text| text.contains("      HF_TOKEN:\n")), "{compose:?}");
            assert_eq!(compose.differences, [""; 0]);
        }
        let pod = to(Form::Kubernetes, &file);
        assert_eq!(pod.differences, ["left out, because the shell knows its value: the variable HF_TOKEN"]);
    }
    let e = read("services:\n  a:\n    image: x\n    runtime: nvidia\n    environment: [NVIDIA_VISIBLE_DEVICES]\n");
    assert!(e.expect_err("which GPUs?").says.contains("NVIDIA_VISIBLE_DEVICES is not known"));
}

/// The services of other files are not read, and that is said.
#[test]
fn files_that_a_compose_file_includes_are_named() {
    let one = "include: [a.yaml, {path: [b.yaml]}]\nservices:\n  a: {image: x, gpus: all}\n";
    let ran = run_with_input(&["container", "translate", "--to", "docker", "-"], one);
    assert_eq!((ran.code, ran.out.as_str()), (0, "docker run --gpus all x\n"));
    assert!(ran.err.contains("included files are not read: a.yaml, b.yaml"), "{}", ran.err);
    for none in ["include: [a.yaml]\n", "include: [a.yaml]\nservices: {a: {image: x}}\n"] {
        let e = read(none).expect_err(none);
        assert!(e.says.contains("a.yaml") && e.tries[0].starts_with("docker compose config | "), "{e:?}");
    }
}

/// Beside NVIDIA's runtime the variable may be in a file, which is not read.
#[test]
fn files_with_variables_are_named() {
    let file = "services:\n  a: {image: x, runtime: nvidia, env_file: [a.env, {path: b.env}]}\n";
    let ran = run_with_input(&["container", "translate", "--to", "docker", "-"], file);
    assert_eq!((ran.code, ran.out.as_str()), (0, "docker run --gpus all x\n"));
    assert!(ran.err.contains("gpusetup does not read a.env, b.env"), "{}", ran.err);
    let named = file.replace("image: x", "image: x, environment: [NVIDIA_VISIBLE_DEVICES=1]");
    let ran = run_with_input(&["container", "translate", "--to", "docker", "-"], &named);
    assert_eq!((ran.code, ran.out.as_str()), (0, "docker run --gpus device=1 x\n"));
    assert!(!ran.err.contains("does not read"), "{}", ran.err);
}

/// Open WebUI's file has the driver in a variable. What Compose replaces is not known, whatever it is.
#[test]
fn a_request_that_compose_replaces_is_refused() {
    let reservation = |entry: &str| format!("deploy: {{resources: {{reservations: {{devices: [{entry}]}}}}}}");
    for keys in [
        reservation("{driver: '${OLLAMA_GPU_DRIVER-nvidia}', count: 1, capabilities: [gpu]}"),
        reservation("{driver: nvidia, count: '${N:-1}', capabilities: [gpu]}"),
        reservation("{driver: nvidia, device_ids: ['$GPU'], capabilities: [gpu]}"),
        reservation("{count: 1, capabilities: ['${CAP:-gpu}']}"),
        "gpus: ${GPUS:-all}".to_owned(),
        "devices: ['${DEVICE:-nvidia.com/gpu=all}']".to_owned(),
        "runtime: ${RUNTIME:-nvidia}".to_owned(),
    ] {
        let file = format!("services:\n  a:\n    image: x\n    {keys}\n  b: {{image: y, gpus: all}}\n");
        let e = read(&file).expect_err(&keys);
        assert!(e.says.starts_with("service a: Compose replaces a part of "), "{keys}: {e:?}");
        assert!(e.tries[0].starts_with("docker compose config | "), "{keys}: {e:?}");
    }
    // A device of another kind is no request for GPUs.
    let other = reservation("{driver: fpga, count: 1, capabilities: [fpga]}");
    let file = format!("services:\n  a:\n    image: x\n    {other}\n  b: {{image: y, gpus: all}}\n");
    assert_eq!(to(Form::Docker, &file).text.as_deref(), Some("docker run --gpus all y"));
}

/// Forms in places that Compose does not know, beside a service that is right.
#[test]
fn requests_without_effect_are_named() {
    for (keys, says) in [
        ("resources: {reservations: {devices: [{driver: nvidia, count: 1}]}}", "resources outside of deploy"),
        ("deploy: {resources: {limits: {devices: [{capabilities: [gpu]}]}}}", "devices among its limits"),
        ("device_requests: [{driver: nvidia, count: -1, capabilities: [gpu]}]", "device_requests"),
        ("devices: ['/dev/nvidia0:/dev/nvidia0']", "device files of NVIDIA's"),
    ] {
        let file = format!("services:\n  a: {{image: x, gpus: all}}\n  b:\n    image: y\n    {keys}\n");
        let ran = run_with_input(&["container", "translate", "--to", "docker", "-"], &file);
        assert_eq!((ran.code, ran.out.as_str()), (0, "docker run --gpus all x\n"), "{keys}");
        assert!(ran.err.contains(&format!("service b has {says}")), "{keys}: {}", ran.err);
    }
}

#[test]
fn a_variable_without_effect_is_named() {
    let file = "services:\n  a: {image: x, gpus: all, environment: {NVIDIA_VISIBLE_DEVICES: '0'}}\n";
    let ran = run_with_input(&["container", "translate", "--to", "docker", "-"], file);
    assert_eq!((ran.code, ran.out.as_str()), (0, "docker run --gpus all x\n"));
    assert!(ran.err.contains("NVIDIA_VISIBLE_DEVICES=0 has no effect beside gpus"), "{}", ran.err);
}
