//! Pods, and what only Kubernetes asks for.

use super::to;
use gpusetup::container::{Form, Gpus, read};

/// A command of a pod has no shell: Kubernetes itself replaces `$(NAME)`.
#[test]
fn variables_in_the_command_of_a_pod_are_replaced() {
    let pod = |env: &str| {
        format!(
            "kind: Pod\nspec:\n  containers:\n    - name: a\n      image: x\n      args: ['--port=$(PORT)', '$(NONE)', '$$(PORT)', '$HOME']\n      env: [{env}]\n      resources: {{limits: {{nvidia.com/gpu: 1}}}}\n"
        )
    };
    let written = to(Form::Docker, &pod("{name: PORT, value: '80'}"));
    assert_eq!(written.text.as_deref(), Some("docker run --gpus 1 -e PORT=80 x --port=80 '$(NONE)' '$(PORT)' '$HOME'"),);
    let again = to(Form::Kubernetes, written.text.as_deref().expect("a command line")).text.expect("a pod");
    assert!(again.contains("args: [\"--port=80\", \"$$(NONE)\", \"$$(PORT)\", \"$HOME\"]"), "{again}");
    let secret = "{name: PORT, valueFrom: {secretKeyRef: {name: s, key: k}}}";
    let e = read(&pod(secret)).expect_err("a value that is not in the file");
    assert!(e.says.contains("$(PORT)"), "{e:?}");
}

#[test]
fn a_share_of_a_gpu_is_no_whole_one() {
    let pod =
        "kind: Pod\nspec:\n  containers:\n    - {name: a, image: x, resources: {limits: {nvidia.com/gpu.shared: 2}}}\n";
    let kubernetes = to(Form::Kubernetes, pod);
    assert!(kubernetes.text.expect("itself").ends_with("nvidia.com/gpu.shared: 2\n"));
    let docker = to(Form::Docker, pod);
    assert_eq!(docker.text.as_deref(), Some("docker run --gpus 1 x"));
    assert!(docker.differences[0].contains("a whole one"), "{docker:?}");
}

/// HAMi's first example: its memory is in MB, which is no number of GPUs.
#[test]
fn the_memory_of_a_shared_gpu_is_left_out_and_named() {
    let pod = "kind: Pod\nspec:\n  containers:\n    - {name: a, image: x, resources: {limits: {nvidia.com/gpu: 1, nvidia.com/gpumem: 3000, nvidia.com/gpucores: 30}}}\n";
    let docker = to(Form::Docker, pod);
    assert_eq!(docker.text.as_deref(), Some("docker run --gpus 1 x"));
    assert_eq!(
        docker.differences,
        ["left out, carry them over yourself: limits.nvidia.com/gpucores, limits.nvidia.com/gpumem"]
    );
    assert!(read(&pod.replace("gpu: 1", "gpu: 3000")).is_err(), "more GPUs than any host has");
}

/// A profile of MIG is asked for by Kubernetes only.
#[test]
fn a_mig_profile_stays_in_kubernetes() {
    let pod = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: mig-pod\nspec:\n  containers:\n    - name: mig-test\n      image: nvidia/cuda:12.2.0-base-ubuntu22.04\n      resources:\n        limits:\n          nvidia.com/mig-1g.5gb: 1\n";
    let found = read(pod).expect("a pod");
    assert_eq!(found[0].request().gpus, Gpus::Profiles([("1g.5gb".to_owned(), 1)].into()));
    for form in Form::ALL.into_iter().filter(|form| *form != Form::Kubernetes) {
        let written = found[0].written(form);
        assert!(written.text.is_none() && written.differences[0].contains("nvidia-smi -L"), "{form}");
    }
    let again = found[0].written(Form::Kubernetes).text.expect("itself");
    assert_eq!(read(&again).expect("a pod")[0].request(), found[0].request());
}

/// The runtime class adds devices only where `NVIDIA_VISIBLE_DEVICES` names them.
#[test]
fn a_runtime_class_gives_no_gpus_by_itself() {
    let pod = "kind: Pod\nspec:\n  runtimeClassName: nvidia\n  initContainers:\n    - {name: wait, image: busybox}\n  containers:\n    - {name: a, image: x, resources: {limits: {nvidia.com/gpu: 1}}}\n    - {name: b, image: y, env: [{name: NVIDIA_VISIBLE_DEVICES, value: all}]}\n    - {name: c, image: z}\n";
    let found = read(pod).expect("two of the four");
    let gpus: Vec<_> = found.iter().map(|found| found.request().gpus.clone()).collect();
    assert_eq!(gpus, [Gpus::Count(1), Gpus::All]);
}

/// Names of services that are different may have one name as a pod.
#[test]
fn pods_of_one_file_have_different_names() {
    let file = "services:\n  My_Svc.1: {image: x, gpus: [{count: 1}]}\n  my-svc-1: {image: y, gpus: [{count: 1}]}\n";
    let found = read(file).expect("two services");
    for (form, names) in [
        (Form::Kubernetes, ["  name: my-svc-1\n", "  name: my-svc-1-2\n"]),
        (Form::ComposeGpus, ["  My_Svc.1:\n", "  my-svc-1:\n"]),
    ] {
        for (found, name) in found.iter().zip(names) {
            let text = found.written(form).text.expect("a file");
            assert!(text.contains(name), "{text}");
        }
    }
}
