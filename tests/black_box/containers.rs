//! `gpusetup container translate`: what it prints. The command lines and files that it reads are in the files below.

mod command_lines;
mod compose;
mod files;
mod kubernetes;
mod published;

use crate::common::{run, run_with_input};
use gpusetup::container::{Form, Found, read};

/// The command line in one form.
fn to(form: Form, text: &str) -> gpusetup::container::Written {
    read(text).unwrap_or_else(|e| panic!("{e:?}\n{text}"))[0].written(form)
}

#[test]
fn one_form_is_printed_alone() {
    let line = "NV_GPU=0,3 nvidia-docker run --rm nvidia/cuda nvidia-smi";
    let ran = run(&["container", "translate", "--to", "docker", line]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "docker run --gpus '\"device=0,3\"' --rm nvidia/cuda nvidia-smi\n"));
    // The words of a line, divided by the shell.
    let words =
        ["container", "translate", "--to", "cdi", "--", "docker", "run", "--gpus", "device=0", "x", "a b", "$HOME"];
    assert_eq!(run(&words).out, "docker run --device nvidia.com/gpu=0 x 'a b' '$HOME'\n");
    let ran = run_with_input(
        &["container", "translate", "--to", "runtime", "-"],
        "services:\n  a:\n    image: x\n    gpus: all\n",
    );
    assert_eq!((ran.code, ran.out.as_str()), (0, "docker run --runtime=nvidia -e NVIDIA_VISIBLE_DEVICES=all x\n"));
    let ran = run(&["container", "translate", "--to", "kubernetes", "docker run --gpus all x"]);
    assert_eq!((ran.code, ran.out.as_str()), (4, ""));
    let ran_for_json = run(&["container", "translate", "--json", "--to", "kubernetes", "docker run --gpus all x"]);
    assert!(ran_for_json.code == 4 && ran_for_json.out.contains("\"text\": null"), "{}", ran_for_json.out);
    assert!(ran.err.contains("nvidia.com/gpu: NUMBER"), "{}", ran.err);
    // srun would take the options of the container's program for its own.
    let ran = run(&["container", "translate", "--to", "slurm", "docker run --gpus 1 x --uid=0 y"]);
    assert_eq!((ran.code, ran.out.as_str()), (4, ""));
    // What the form cannot say is said beside it.
    let ran = run(&["container", "translate", "--to", "kubernetes", line]);
    assert!(ran.code == 0 && ran.err.contains("cannot be asked for GPUs 0, 3"), "{}{}", ran.out, ran.err);
    let file = tempfile::tempdir().expect("a folder");
    let path = file.path().join("compose.yaml");
    std::fs::write(
        &path,
        "services:\n  a:\n    image: x\n    gpus: all\n  b:\n    image: y\n    gpus: [{device_ids: ['1']}]\n",
    )
    .expect("written");
    let ran = run(&["container", "translate", "--to", "podman", path.to_str().expect("UTF-8")]);
    assert_eq!(
        ran.out,
        "# a\npodman run --device nvidia.com/gpu=all docker.io/library/x\n\n# b\npodman run --device nvidia.com/gpu=1 docker.io/library/y\n"
    );
    // What is said names the service that it is about.
    assert!(
        ran.err.contains("a: on a host with SELinux") && ran.err.contains("b: on a host with SELinux"),
        "{}",
        ran.err
    );
}

/// Compose does not read several documents, and Kubernetes keeps one pod of one name.
#[test]
fn several_services_are_one_file_with_their_names() {
    let file =
        "services:\n  web:\n    image: x/web\n    gpus: all\n  worker:\n    image: y/worker\n    gpus: [{count: 2}]\n";
    let ran = run_with_input(&["container", "translate", "--to", "compose-gpus", "-"], file);
    assert_eq!(
        (ran.code, ran.out.as_str()),
        (
            0,
            "services:\n  web:\n    image: x/web\n    gpus: all\n  worker:\n    image: y/worker\n    gpus:\n      - driver: nvidia\n        count: 2\n"
        )
    );
    let back = read(&ran.out).expect("a file");
    assert_eq!(
        back.iter().map(Found::request).collect::<Vec<_>>(),
        read(file).expect("a file").iter().map(Found::request).collect::<Vec<_>>()
    );
    let pod = |image: &str| {
        format!(
            "kind: Pod\nspec:\n  containers:\n    - {{name: main, image: {image}, resources: {{limits: {{nvidia.com/gpu: 1}}}}}}\n"
        )
    };
    let ran = run_with_input(
        &["container", "translate", "--to", "kubernetes", "-"],
        &format!("{}---\n{}", pod("x/web"), pod("y/worker")),
    );
    assert!(ran.out.starts_with("# main\napiVersion: v1\n"), "{}", ran.out);
    assert!(
        ran.out.contains("\n---\n# main-2\napiVersion: v1\n") && ran.out.contains("  name: main-2\n"),
        "{}",
        ran.out
    );
    // Kubernetes takes a number of GPUs alone.
    let ran = run_with_input(&["container", "translate", "--to", "kubernetes", "-"], file);
    assert_eq!(ran.code, 4);
    assert!(ran.err.contains("web: kubernetes cannot express"), "{}", ran.err);
    assert!(ran.out.contains("name: worker\n") && !ran.out.contains("x/web"), "the other one is printed: {}", ran.out);
}

#[test]
fn everything_that_is_printed_can_be_pasted() {
    let ran = run(&["container", "translate", "docker run --gpus device=0,1 -v \"$PWD\":/x x python 'a b.py'"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    insta::with_settings!({snapshot_path => "containers", prepend_module_to_snapshot => false, omit_expression => true}, {
        insta::assert_snapshot!("translated", ran.out);
    });
}
