//! doctor on trees with Python environments. The metadata is that of real wheels, in
//! `tests/support/python/`: read from torch 2.9.1, tensorflow 2.19.1, nvidia-cuda-runtime-cu12
//! 12.8.90 and nvidia-cudnn-cu12 9.10.2.21 on PyPI, without their descriptions.

use crate::common::{Ran, Tree};
use serde_json::Value;
use std::process::Command;

const TORCH: &str = include_str!("../support/python/torch-2.9.1.METADATA");
const TORCH_VERSION: &str = include_str!("../support/python/torch-2.9.1.version.py");
const TENSORFLOW_BUILD: &str = include_str!("../support/python/tensorflow-2.19.1.build_info.py");
const CUDNN: &str = include_str!("../support/python/nvidia-cudnn-cu12-9.10.2.21.METADATA");
const CUDNN_FILES: &str = include_str!("../support/python/nvidia-cudnn-cu12-9.10.2.21.RECORD");

const CHECKS: [&str; 5] = ["GS716", "GS717", "GS718", "GS719", "GS720"];

/// Debian 12 with an A100, driver 535, and a virtual environment in /opt.
fn host() -> Tree {
    let tree = Tree::debian_12().gpu("0000:17:00.0", "20b0", Some("nvidia"));
    tree.write(
        "var/lib/dpkg/status",
        "Package: libcuda1\nStatus: install ok installed\nVersion: 535.261.03-1\n",
    );
    tree.write(
        "usr/lib/x86_64-linux-gnu/nvidia/current/libcuda.so.535.261.03",
        "",
    );
    tree.link(
        "usr/lib/x86_64-linux-gnu/libcuda.so.1",
        "nvidia/current/libcuda.so.535.261.03",
    );
    tree.write("opt/venv/pyvenv.cfg", "home = /usr/bin\nversion = 3.12.3\n");
    tree.write("opt/venv/bin/pip", "");
    tree
}

const SITE: &str = "opt/venv/lib/python3.12/site-packages";

/// torch as pip installs it, with everything that it requires.
fn with_torch(tree: &Tree) {
    tree.write(&format!("{SITE}/torch-2.9.1.dist-info/METADATA"), TORCH);
    tree.write(&format!("{SITE}/torch/version.py"), TORCH_VERSION);
    for line in TORCH
        .lines()
        .filter_map(|line| line.strip_prefix("Requires-Dist: nvidia-"))
    {
        let (name, version) = line
            .split(';')
            .next()
            .and_then(|r| r.split_once("=="))
            .expect("a pin");
        package(tree, &format!("nvidia-{name}"), version);
    }
    tree.write(
        &format!("{SITE}/nvidia_cudnn_cu12-9.10.2.21.dist-info/METADATA"),
        CUDNN,
    );
}

fn package(tree: &Tree, name: &str, version: &str) {
    let info = format!("{SITE}/{}-{version}.dist-info", name.replace('-', "_"));
    tree.write(
        &format!("{info}/METADATA"),
        &format!("Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"),
    );
}

fn doctor(tree: &Tree) -> Ran {
    tree.run(&[&["doctor", "--json"], &CHECKS[..]].concat())
}

/// What doctor printed, whatever its exit code.
fn json(ran: &Ran) -> Value {
    serde_json::from_str(&ran.out).expect("JSON")
}

/// The findings that are neither passed nor skipped: `GS716 warn`.
fn ill(ran: &Ran) -> Vec<String> {
    let report = json(ran);
    let all = report["checks"].as_array().cloned().unwrap_or_default();
    let ill = all
        .iter()
        .filter(|check| check["status"] != "pass" && check["status"] != "skip");
    ill.map(|c| {
        format!(
            "{} {}",
            c["id"].as_str().unwrap_or(""),
            c["status"].as_str().unwrap_or("")
        )
    })
    .collect()
}

/// The first command that is advised, as it is run in the tree.
fn command(tree: &Tree, ran: &Ran) -> String {
    let report = json(ran);
    let all = report["checks"].as_array().cloned().unwrap_or_default();
    let first = all
        .iter()
        .find_map(|check| check["remediation"]["commands"][0].as_str());
    let in_tree = format!("sudo chroot {} ", tree.path().display());
    first
        .and_then(|command| command.strip_prefix(&in_tree))
        .expect("a command for the tree")
        .to_owned()
}

fn environment(ran: &Ran) -> Value {
    json(ran)["python"][0].clone()
}

#[test]
fn torch_as_pip_installs_it_is_sound() {
    let tree = host();
    with_torch(&tree);
    let ran = doctor(&tree);
    assert_eq!(ill(&ran), [""; 0], "{}", ran.out);
    let found = environment(&ran);
    assert_eq!(
        (&found["path"], &found["kind"]),
        (&Value::from("/opt/venv"), &Value::from("venv"))
    );
    let torch = found["packages"]
        .as_array()
        .and_then(|all| all.iter().find(|p| p["name"] == "torch"))
        .cloned();
    let torch = torch.expect("torch");
    assert_eq!(torch["version"], "2.9.1+cu128");
    assert_eq!(torch["build"]["cuda"], "12.8");
    assert_eq!(crate::schema::mistakes("doctor.json", &json(&ran)), [""; 0]);
    let text = tree.run(&["doctor", "-v"]).out;
    assert!(text.contains("torch 2.9.1+cu128 in /opt/venv"), "{text}");
}

#[test]
fn builds_that_the_host_does_not_run_are_found() {
    let tree = host();
    tree.write(
        &format!("{SITE}/torch-2.9.1+cpu.dist-info/METADATA"),
        "Name: torch\nVersion: 2.9.1+cpu\n",
    );
    let ran = doctor(&tree);
    assert_eq!(ill(&ran), ["GS716 warn"]);
    let expected = "/opt/venv/bin/pip install --force-reinstall torch==2.9.1 --index-url https://download.pytorch.org/whl/cu128";
    assert_eq!(command(&tree, &ran), expected);
    // CUDA 13 needs driver 580; this host has 535.
    let tree = host();
    tree.write(
        &format!("{SITE}/torch-2.9.1+cu130.dist-info/METADATA"),
        "Name: torch\nVersion: 2.9.1+cu130\n",
    );
    let ran = doctor(&tree);
    assert_eq!(ill(&ran), ["GS717 fail"]);
    assert_eq!(command(&tree, &ran), expected);
    let text = tree.run(&["doctor", "GS717"]).out;
    assert!(text.contains("driver 580.65.06 or newer"), "{text}");
    // The build for CUDA 10.2 has no kernels for GPUs newer than Turing.
    let tree = host();
    tree.write(
        &format!("{SITE}/torch-1.12.1+cu102.dist-info/METADATA"),
        "Name: torch\nVersion: 1.12.1+cu102\n",
    );
    assert_eq!(ill(&doctor(&tree)), ["GS718 fail"]);
    // tensorflow says in a module what it is built with.
    let tree = host();
    tree.write(
        &format!("{SITE}/tensorflow-2.19.1.dist-info/METADATA"),
        "Name: tensorflow\nVersion: 2.19.1\n",
    );
    tree.write(
        &format!("{SITE}/tensorflow/python/platform/build_info.py"),
        TENSORFLOW_BUILD,
    );
    let ran = doctor(&tree);
    assert_eq!(
        (
            ill(&ran),
            &environment(&ran)["packages"][0]["build"]["cuda"]
        ),
        (Vec::new(), &Value::from("12.5"))
    );
}

#[test]
fn packages_that_are_missing_other_or_incomplete_are_found() {
    let tree = host();
    with_torch(&tree);
    std::fs::remove_dir_all(
        tree.path()
            .join(SITE)
            .join("nvidia_nccl_cu12-2.27.5.dist-info"),
    )
    .expect("removed");
    let ran = doctor(&tree);
    assert_eq!(
        (ill(&ran), command(&tree, &ran)),
        (
            vec!["GS719 fail".into()],
            "/opt/venv/bin/pip install nvidia-nccl-cu12==2.27.5".into()
        )
    );
    assert!(
        !ran.out.contains("has what its packages require"),
        "{}",
        ran.out
    );
    package(&tree, "nvidia-nccl-cu12", "2.20.5");
    assert_eq!(ill(&doctor(&tree)), ["GS719 warn"]);
    package(&tree, "nvidia-nccl-cu12", "2.27.5");
    assert_eq!(
        ill(&doctor(&tree)),
        [""; 0],
        "two records of one package: one of them fits"
    );
    // The list of files of the real wheel, of which none is there.
    tree.write(
        &format!("{SITE}/nvidia_cudnn_cu12-9.10.2.21.dist-info/RECORD"),
        CUDNN_FILES,
    );
    let ran = doctor(&tree);
    assert_eq!(ill(&ran), ["GS719 fail"]);
    assert!(ran.out.contains("nvidia/cudnn/lib/libcudnn"), "{}", ran.out);
}

/// A shared library that needs libcudart.so.12 and searches these directories for it.
fn asking(tree: &Tree, flags: &[&str]) {
    let folder = tree.path().join(SITE);
    for (file, soname) in [
        ("nvidia/cuda_runtime/lib", "libcudart.so.12"),
        ("torch/lib", "libc10_cuda.so"),
    ] {
        std::fs::create_dir_all(folder.join(file)).expect("made");
        let made = Command::new("gcc")
            .args([
                "-shared",
                "-x",
                "c",
                "/dev/null",
                "-Wl,--no-as-needed",
                &format!("-Wl,-soname,{soname}"),
                "-o",
            ])
            .arg(folder.join(file).join(soname))
            .args(if soname == "libc10_cuda.so" {
                flags
            } else {
                &[]
            })
            .arg(if soname == "libc10_cuda.so" {
                format!("-L{0}/nvidia/cuda_runtime/lib", folder.display())
            } else {
                "-lc".into()
            })
            .args(if soname == "libc10_cuda.so" {
                &["-x", "none", "-l:libcudart.so.12"][..]
            } else {
                &[]
            })
            .status();
        assert!(made.expect("gcc is there").success());
    }
}

#[test]
fn what_is_loaded_follows_the_rules_of_the_loader() {
    let own = "/opt/venv/lib/python3.12/site-packages/nvidia/cuda_runtime/lib/libcudart.so.12";
    let tree = host();
    with_torch(&tree);
    asking(
        &tree,
        &[
            "-Wl,-rpath,$ORIGIN/../../nvidia/cuda_runtime/lib",
            "-Wl,--disable-new-dtags",
        ],
    );
    let ran = doctor(&tree);
    let loads = environment(&ran)["loads"][0].clone();
    assert_eq!(
        (&loads["soname"], &loads["path"]),
        (&Value::from("libcudart.so.12"), &Value::from(own)),
        "{}",
        ran.out
    );
    assert_eq!(ill(&ran), [""; 0]);
    // Without RPATH nothing leads to the environment's own library.
    asking(&tree, &[]);
    let ran = doctor(&tree);
    assert_eq!(ill(&ran), ["GS719 warn"], "{}", ran.out);
    assert!(
        ran.out
            .contains("needs libcudart.so.12, which the loader does not find"),
        "{}",
        ran.out
    );
}

#[test]
fn conda_environments_are_read() {
    let tree = host();
    tree.write("opt/conda/conda-meta/history", "");
    let meta = "opt/conda/envs/ml/conda-meta";
    tree.write(
        &format!("{meta}/pytorch-2.5.1-py3.12_cuda12.4_cudnn9.1.0_0.json"),
        r#"{"build": "py3.12_cuda12.4_cudnn9.1.0_0", "build_number": 0, "channel": "https://conda.anaconda.org/pytorch/linux-64",
            "constrains": ["cpuonly <0"], "depends": ["blas * mkl", "cuda-cudart >=12.4,<13", "python >=3.12,<3.13.0a0", "pytorch-cuda >=12.4,<12.5"],
            "files": ["lib/python3.12/site-packages/torch/__init__.py"], "name": "pytorch", "subdir": "linux-64", "version": "2.5.1"}"#,
    );
    let runtime = |version: &str| {
        format!(
            r#"{{"build": "0", "depends": [], "files": [], "name": "cuda-cudart", "version": "{version}"}}"#
        )
    };
    tree.write(
        &format!("{meta}/cuda-cudart-12.4.127-0.json"),
        &runtime("12.4.127"),
    );
    let ran = doctor(&tree);
    assert_eq!(
        (ill(&ran), &environment(&ran)["path"]),
        (Vec::new(), &Value::from("/opt/conda/envs/ml")),
        "{}",
        ran.out
    );
    assert_eq!(environment(&ran)["packages"][1]["build"]["cuda"], "12.4");
    std::fs::remove_file(tree.path().join(meta).join("cuda-cudart-12.4.127-0.json"))
        .expect("removed");
    tree.write(
        &format!("{meta}/cuda-cudart-11.8.89-0.json"),
        &runtime("11.8.89"),
    );
    let ran = doctor(&tree);
    assert_eq!(ill(&ran), ["GS719 warn"]);
    assert_eq!(
        command(&tree, &ran),
        "conda install -p /opt/conda/envs/ml 'cuda-cudart>=12.4,<13'"
    );
}

/// What other users may write: terminal controls, no text at all, far too much, links out of the
/// tree.
#[test]
fn hostile_metadata_is_not_printed_and_costs_nothing() {
    let tree = host();
    let info = format!("{SITE}/torch-2.9.1.dist-info");
    tree.write(
        &format!("{info}/METADATA"),
        "Name: torch\nVersion: 2.9.1\u{1b}[2J\n",
    );
    let ran = doctor(&tree);
    assert!(ran.code == 0 && !ran.out.contains('\u{1b}'), "{}", ran.out);
    for bytes in [&b""[..], &[0xff; 4096], &[b'x'; 10 << 20]] {
        std::fs::write(tree.path().join(&info).join("METADATA"), bytes).expect("written");
        let ran = doctor(&tree);
        assert!(
            ran.code == 0 && ran.out.len() < 100_000,
            "{}",
            &ran.out[..ran.out.len().min(2000)]
        );
    }
    tree.link("opt/conda", "../../../../../../../../../../opt");
    tree.link(&format!("{SITE}/nvidia_x-1.dist-info"), ".");
    tree.write("opt/ugly\u{1b}[31m/pyvenv.cfg", "");
    tree.write(
        "opt/ugly\u{1b}[31m/lib/python3.12/site-packages/torch-2.9.1+cpu.dist-info/METADATA",
        "Version: 2.9.1+cpu\n",
    );
    for arguments in [&["doctor"][..], &["doctor", "-v"], &["doctor", "--json"]] {
        let ran = tree.run(arguments);
        assert!(
            !ran.out.contains('\u{1b}') && !ran.err.contains('\u{1b}'),
            "{}",
            ran.out
        );
    }
}
