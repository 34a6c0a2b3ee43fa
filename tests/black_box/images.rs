//! `gpusetup container check`: images as `docker save`, `podman save` and OCI layouts have them, on
//! drivers of several branches; and archives that nobody should trust.

use crate::common::{Ran, Tree, run};
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Of an image with CUDA 11.2, <https://github.com/triton-inference-server/server> 21.03.
const CUDA_11_2: &str =
    "cuda>=11.2 brand=tesla,driver>=418,driver<419 brand=tesla,driver>=440,driver<441 driver>=450";

/// The first and last alternatives of an image with CUDA 12.9, as a report of vLLM's environment
/// prints them.
const CUDA_12_9: &str = "cuda>=12.9 brand=unknown,driver>=535,driver<536 brand=tesla,driver>=535,driver<536 brand=nvidia,driver>=535,driver<536 brand=nvidiartx,driver>=570,driver<571";

fn config(variables: &[(&str, &str)]) -> Value {
    let variables: Vec<_> = variables
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    json!({"architecture": "amd64", "os": "linux", "config": {"Env": variables}, "rootfs": {"type": "layers", "diff_ids": []}})
}

fn sum(bytes: &[u8]) -> String {
    Sha256::digest(bytes)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// An archive of these files.
pub fn tar(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut tar = tar::Builder::new(Vec::new());
    for (name, bytes) in files {
        let mut header = tar::Header::new_ustar();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        header.set_path(name).expect("a name");
        header.set_cksum();
        tar.append(&header, *bytes).expect("written");
    }
    tar.into_inner().expect("ended")
}

/// What `docker save` wrote until Docker 24: the configuration by its checksum, and the manifest
/// behind it.
fn docker_archive(config: &Value) -> Vec<u8> {
    with_layer(config, &[0; 2048])
}

/// The same with this layer.
fn with_layer(config: &Value, layer: &[u8]) -> Vec<u8> {
    let config = config.to_string().into_bytes();
    let name = format!("{}.json", sum(&config));
    let manifest =
        json!([{"Config": name, "RepoTags": ["x:1"], "Layers": ["layer.tar"]}]).to_string();
    tar(&[
        (&name, &config),
        ("layer.tar", layer),
        ("manifest.json", manifest.as_bytes()),
    ])
}

/// The same with several layers, the lowest one first.
fn with_layers(config: &Value, layers: &[Vec<u8>]) -> Vec<u8> {
    let config = config.to_string().into_bytes();
    let names: Vec<_> = (0..layers.len()).map(|n| format!("{n}.tar")).collect();
    let manifest = json!([{"Config": "c.json", "RepoTags": ["x:1"], "Layers": names}]).to_string();
    let files = names
        .iter()
        .zip(layers)
        .map(|(name, layer)| (name.as_str(), layer.as_slice()));
    tar(&files
        .chain([("c.json", &*config), ("manifest.json", manifest.as_bytes())])
        .collect::<Vec<_>>())
}

/// A layer with something of this name, which may be written in any way.
fn layer_of(name: &str, kind: tar::EntryType) -> Vec<u8> {
    let mut header = tar::Header::new_ustar();
    header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
    header.set_entry_type(kind);
    header.set_size(0);
    header.set_cksum();
    let mut tar = tar::Builder::new(Vec::new());
    tar.append(&header, &b""[..]).expect("written");
    tar.into_inner().expect("ended")
}

/// A layer with these files, which are empty.
fn layer(files: &[&str]) -> Vec<u8> {
    tar(&files
        .iter()
        .map(|file| (*file, &b""[..]))
        .collect::<Vec<_>>())
}

/// The library that cuda-compat installs, of this driver.
fn compat(driver: &str) -> String {
    format!("usr/local/cuda-13.0/compat/libcuda.so.{driver}")
}

/// A folder for images, and a host with Docker and the container toolkit.
struct Place(TempDir, Tree);

impl Place {
    fn new() -> Self {
        let host = Tree::ubuntu_24_04();
        host.write("usr/bin/dockerd", "");
        host.write("usr/bin/nvidia-ctk", "");
        Self(tempfile::tempdir().expect("a folder"), host)
    }

    fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.path().join(name);
        fs::write(&path, bytes).expect("written");
        path
    }

    fn image(&self, name: &str, variables: &[(&str, &str)]) -> PathBuf {
        self.file(name, &docker_archive(&config(variables)))
    }

    /// An image of which nothing but this file says that it has CUDA.
    fn with_file(&self, name: &str) -> PathBuf {
        self.file("files.tar", &with_layer(&config(&[]), &layer(&[name])))
    }

    fn check(&self, path: &Path, driver: &str, gpu: &str) -> Ran {
        check_on(&self.1, path, driver, gpu)
    }

    /// The answer for a host.
    fn answer(&self, path: &Path, driver: &str, gpu: &str) -> String {
        answer(&self.check(path, driver, gpu))
    }

    /// The reasons and commands for a host.
    fn says(&self, path: &Path, driver: &str, gpu: &str) -> String {
        said(&self.1, &self.check(path, driver, gpu))
    }

    /// A refusal, with the names of images alone.
    fn refusal(&self, ran: &Ran, code: i32) -> String {
        let folder = format!("{}/", self.0.path().display());
        named(&self.1, ran.refusal(code)).replace(&folder, "")
    }
}

fn check_on(host: &Tree, path: &Path, driver: &str, gpu: &str) -> Ran {
    host.run(&[
        "container",
        "check",
        path.to_str().expect("UTF-8"),
        "--driver",
        driver,
        "--gpu",
        gpu,
        "--json",
    ])
}

/// The reasons and commands of an answer, a line each.
fn said(host: &Tree, ran: &Ran) -> String {
    let image = &value(ran)["images"][0];
    let all: Vec<_> = ["reasons", "commands"]
        .iter()
        .flat_map(|key| image[key].as_array().expect("a list"))
        .map(|line| line.as_str().expect("a text"))
        .collect();
    named(host, &all.join("\n"))
}

/// A text with a name in place of the tree's folder.
fn named(host: &Tree, text: &str) -> String {
    text.replace(&host.path().display().to_string(), "TREE")
}

fn value(ran: &Ran) -> Value {
    serde_json::from_str(&ran.out).unwrap_or_else(|e| panic!("{e}: {}{}", ran.out, ran.err))
}

fn answer(ran: &Ran) -> String {
    let value = value(ran);
    let answer = value["answer"]
        .as_str()
        .unwrap_or_else(|| panic!("{value}"))
        .to_owned();
    let code = match answer.as_str() {
        "does-not-run" => 4,
        "unknown" => 5,
        _ => 0,
    };
    assert_eq!(ran.code, code, "{value}");
    answer
}

#[test]
fn an_image_runs_on_drivers_that_its_demands_and_its_cuda_accept() {
    let place = Place::new();
    let old = place.image(
        "old.tar",
        &[
            ("CUDA_VERSION", "11.2.1"),
            ("NVIDIA_REQUIRE_CUDA", CUDA_11_2),
        ],
    );
    // Natively; by minor-version compatibility (11.x from 450.80.02 on); with an older series.
    assert_eq!(place.answer(&old, "550.54.15", "rtx 3090"), "runs");
    assert_eq!(place.answer(&old, "450.80.02", "v100-sxm2-16gb"), "runs");
    assert_eq!(
        place.answer(&old, "418.226.00", "v100-sxm2-16gb"),
        "does-not-run"
    );
    let new = place.image(
        "new.tar",
        &[
            ("CUDA_VERSION", "12.9.1"),
            ("NVIDIA_REQUIRE_CUDA", CUDA_12_9),
        ],
    );
    assert_eq!(place.answer(&new, "580.95.05", "rtx 3090"), "runs");
    // CUDA 12 runs from 525 on; the demands accept 535 for data-centre cards only.
    assert_eq!(place.answer(&new, "535.261.03", "a100-sxm4-40gb"), "runs");
    assert_eq!(place.answer(&new, "535.261.03", "rtx 3090"), "does-not-run");
    // NVIDIA's images of frameworks add the number of a build, and demand less than they need.
    let build = place.image(
        "build.tar",
        &[
            ("CUDA_VERSION", "13.0.1.012"),
            ("NVIDIA_REQUIRE_CUDA", "cuda>=9.0"),
        ],
    );
    assert_eq!(
        place.answer(&build, "535.261.03", "a100-sxm4-40gb"),
        "does-not-run"
    );
    assert_eq!(place.answer(&build, "580.95.05", "a100-sxm4-40gb"), "runs");
}

#[test]
fn libraries_of_a_newer_driver_are_found_in_the_layers() {
    let place = Place::new();
    let demands =
        "cuda>=13.0 brand=tesla,driver>=535,driver<536 brand=nvidia,driver>=535,driver<536";
    let newest = [
        ("CUDA_VERSION", "13.0.1"),
        ("NVIDIA_REQUIRE_CUDA", demands),
        ("NV_CUDA_COMPAT_PACKAGE", "cuda-compat-13-0"),
    ];
    let has = |driver: &str| {
        place.file(
            "x.tar",
            &with_layer(&config(&newest), &layer(&[&compat(driver)])),
        )
    };
    // CUDA 13.0 on 535 needs these libraries, and a data-centre card.
    let image = has("580.82.07");
    assert_eq!(
        place.answer(&image, "535.261.03", "a100-sxm4-40gb"),
        "runs-with-forward-compatibility"
    );
    assert_eq!(
        place.answer(&image, "550.54.15", "a100-sxm4-40gb"),
        "does-not-run"
    );
    insta::assert_snapshot!(place.says(&image, "535.261.03", "rtx 3090"), @"
    CUDA 13.0 needs driver 580.65.06 or newer, and this one is 535.261.03
    usr/local/cuda-13.0/compat/libcuda.so.580.82.07 in the image is for data-centre GPUs and some of RTX PRO, and NVIDIA GeForce RTX 3090 is none
    NVIDIA GeForce RTX 3090 does not meet NVIDIA_REQUIRE_CUDA, which demands cuda>=13.0 or brand=tesla,driver>=535,driver<536 or brand=nvidia,driver>=535,driver<536
    the container toolkit's hook, which Docker uses here, refuses to start it
    gpusetup plan --profile driver --driver '>=580' --root TREE --gpu 'rtx 3090'
    ");
    // The libraries are for some GPUs of this line.
    assert_eq!(
        place.answer(&image, "535.261.03", "rtx 6000 ada"),
        "unknown"
    );
    // What NVIDIA's images demand names more branches than its table.
    let more = "cuda>=13.0 brand=tesla,driver>=550,driver<551 brand=nvidia,driver>=550,driver<551";
    let newer = config(&[("CUDA_VERSION", "13.0.1"), ("NVIDIA_REQUIRE_CUDA", more)]);
    let newer = place.file(
        "newer.tar",
        &with_layer(&newer, &layer(&[&compat("580.82.07")])),
    );
    assert_eq!(
        place.answer(&newer, "550.54.15", "a100-sxm4-40gb"),
        "unknown"
    );
    // Libraries of CUDA 12.4, whatever the variable says.
    let older = has("550.54.15");
    assert_eq!(
        place.answer(&older, "535.261.03", "a100-sxm4-40gb"),
        "does-not-run"
    );
    insta::assert_snapshot!(place.says(&older, "535.261.03", "a100-sxm4-40gb"), @"
    CUDA 13.0 needs driver 580.65.06 or newer, and this one is 535.261.03
    usr/local/cuda-13.0/compat/libcuda.so.550.54.15 in the image has the driver of CUDA 12.4, which is older than its CUDA
    gpusetup plan --profile driver --driver '>=580' --root TREE --gpu a100-sxm4-40gb
    ");
    // Programs load them only if something puts them before the host's library.
    let image = has("580.82.07");
    insta::assert_snapshot!(place.says(&image, "535.261.03", "a100-sxm4-40gb"), @"
    CUDA 13.0 needs driver 580.65.06 or newer, and this one is 535.261.03
    usr/local/cuda-13.0/compat/libcuda.so.580.82.07 in the image supports driver branch 535
    programs load these libraries if the container toolkit (by CDI since 1.17.5) or LD_LIBRARY_PATH puts them before the host's
    ");
    // Elsewhere, such as where conda-forge's package has them, the toolkit does not look for them.
    for folder in ["opt/conda/cuda-compat", "opt/driver"] {
        let file = format!("{folder}/libcuda.so.580.82.07");
        let other = place.file("other.tar", &with_layer(&config(&newest), &layer(&[&file])));
        assert_eq!(
            place.answer(&other, "535.261.03", "a100-sxm4-40gb"),
            "unknown",
            "{folder}"
        );
        let says = place.says(&other, "535.261.03", "a100-sxm4-40gb");
        assert!(
            says.contains(&file) && says.contains("LD_LIBRARY_PATH"),
            "{says}"
        );
        assert_eq!(
            place.answer(&other, "550.54.15", "a100-sxm4-40gb"),
            "does-not-run",
            "{folder}"
        );
    }
    // A variable without the files, and files that a later layer removes.
    let variable = place.image("variable.tar", &newest);
    assert_eq!(
        place.answer(&variable, "535.261.03", "a100-sxm4-40gb"),
        "does-not-run"
    );
}

#[test]
fn the_gpu_is_judged_by_its_driver_and_by_its_cuda() {
    let place = Place::new();
    let cuda = |version: &str| place.image(&format!("{version}.tar"), &[("CUDA_VERSION", version)]);
    let (old, dropped) = (cuda("11.8.0"), cuda("13.0.1"));
    // Branch 580 is the last for Volta, CUDA 12.9 too.
    assert_eq!(place.answer(&old, "580.95.05", "v100-sxm2-16gb"), "runs");
    assert_eq!(
        place.answer(&old, "590.44.01", "v100-sxm2-16gb"),
        "does-not-run"
    );
    insta::assert_snapshot!(place.says(&old, "590.44.01", "v100-sxm2-16gb"), @"
    driver 590.44.01 does not support Tesla V100-SXM2-16GB: 580 is the last branch that does
    driver 590.44.01 runs CUDA 11.8 natively
    gpusetup plan --profile driver --driver 580 --root TREE --gpu v100-sxm2-16gb
    ");
    assert_eq!(
        place.answer(&dropped, "580.95.05", "v100-sxm2-16gb"),
        "does-not-run"
    );
    insta::assert_snapshot!(place.says(&dropped, "580.95.05", "v100-sxm2-16gb"), @"
    driver 580.95.05 runs CUDA 13.0 natively
    CUDA 13.0 does not support Tesla V100-SXM2-16GB (compute capability 7.0): CUDA 12.9 is the last that does
    no driver changes that: use an image with CUDA 12.9 or older
    ");
    // Blackwell is newer than CUDA 11.8, which may have PTX for it; a 4090 runs code for a 3090.
    assert_eq!(place.answer(&old, "580.95.05", "b200"), "unknown");
    insta::assert_snapshot!(place.says(&old, "580.95.05", "b200"), @"
    driver 580.95.05 runs CUDA 11.8 natively
    CUDA 11.8 has no machine code for NVIDIA B200 (compute capability 10.0), CUDA 12.8 is the first with it: programs run only if all their kernels and libraries have PTX, which is not known
    ");
    assert_eq!(place.answer(&old, "550.54.15", "b200"), "does-not-run");
    assert_eq!(
        place.answer(&cuda("11.4.3"), "580.95.05", "rtx 4090"),
        "runs"
    );
    // Of several GPUs, the one that fails is named.
    let says = place.says(&dropped, "580.95.05", "a100-sxm4-40gb,v100-sxm2-16gb");
    insta::assert_snapshot!(says, @"
    driver 580.95.05 runs CUDA 13.0 natively
    CUDA 13.0 does not support Tesla V100-SXM2-16GB (compute capability 7.0): CUDA 12.9 is the last that does
    no driver changes that: use an image with CUDA 12.9 or older
    ");
    assert_eq!(
        place.answer(&dropped, "580.95.05", "a100-sxm4-40gb"),
        "runs"
    );
}

#[test]
fn an_image_for_other_processors_does_not_run() {
    let place = Place::new();
    let mut arm = config(&[("CUDA_VERSION", "12.4.1")]);
    arm["architecture"] = json!("arm64");
    let arm = place.file("arm.tar", &docker_archive(&arm));
    assert_eq!(
        place.answer(&arm, "580.95.05", "a100-sxm4-40gb"),
        "does-not-run"
    );
    insta::assert_snapshot!(place.says(&arm, "580.95.05", "a100-sxm4-40gb"), @"
    the image is for arm64 processors, and this host has amd64
    docker pull --platform linux/amd64 x:1
    ");
    let host = Tree::ubuntu_24_04().arch(183);
    host.write("usr/bin/dockerd", "");
    assert_eq!(
        answer(&check_on(&host, &arm, "580.95.05", "a100-sxm4-40gb")),
        "runs"
    );
    let mut windows = config(&[("CUDA_VERSION", "12.4.1")]);
    windows["os"] = json!("windows");
    let windows = place.file("windows.tar", &docker_archive(&windows));
    assert_eq!(
        place.answer(&windows, "580.95.05", "a100-sxm4-40gb"),
        "does-not-run"
    );
    // This GPU exists in machines with ARM processors only.
    assert_eq!(place.answer(&arm, "580.95.05", "gh200"), "runs");
}

#[test]
fn files_say_which_cuda_an_image_has() {
    let place = Place::new();
    let answer =
        |file: &str, driver: &str| place.answer(&place.with_file(file), driver, "a100-sxm4-40gb");
    let library = "usr/local/cuda-12.6/targets/x86_64-linux/lib/libcudart.so.12.6.77";
    let wheel =
        "opt/venv/lib/python3.12/site-packages/nvidia_cuda_runtime-13.0.96.dist-info/METADATA";
    assert_eq!(answer(library, "535.261.03"), "runs");
    assert_eq!(answer(library, "470.256.02"), "does-not-run");
    assert_eq!(answer(wheel, "535.261.03"), "does-not-run");
    assert_eq!(answer(wheel, "580.95.05"), "runs");
    // All of CUDA 12 has this name: Volta runs each series of it, Hopper and Blackwell not.
    let major = "usr/lib/python3/dist-packages/nvidia/cuda_runtime/lib/libcudart.so.12";
    assert_eq!(answer(major, "535.261.03"), "runs");
    let image = place.with_file(major);
    assert_eq!(place.answer(&image, "580.95.05", "b200"), "unknown");
    assert_eq!(
        place.answer(&image, "470.256.02", "v100-sxm2-16gb"),
        "does-not-run"
    );
    // A wheel that is newer than the CUDA of the base image.
    let both = with_layer(&config(&[("CUDA_VERSION", "11.8.0")]), &layer(&[wheel]));
    assert_eq!(
        place.answer(
            &place.file("both.tar", &both),
            "535.261.03",
            "a100-sxm4-40gb"
        ),
        "does-not-run"
    );
    for (version, driver, expected) in [
        ("12", "535.261.03", "runs"),
        ("12", "470.256.02", "does-not-run"),
        ("latest", "580.95.05", "unknown"),
    ] {
        let image = place.image("version.tar", &[("CUDA_VERSION", version)]);
        assert_eq!(
            place.answer(&image, driver, "a100-sxm4-40gb"),
            expected,
            "{version}"
        );
    }
    // A variable and a label that differ: the newer one counts.
    for (variable, label) in [
        ("11.0.3", "12.2.0"),
        ("12.2.0", "11.0.3"),
        ("latest", "12.2.0"),
    ] {
        let mut both = config(&[("CUDA_VERSION", variable)]);
        both["config"]["Labels"] = json!({"com.nvidia.cuda.version": label});
        let image = place.file("label.tar", &docker_archive(&both));
        assert_eq!(
            place.answer(&image, "470.256.02", "a100-sxm4-40gb"),
            "does-not-run",
            "{variable}, {label}"
        );
    }
    let none = place.image("none.tar", &[("PATH", "/bin")]);
    assert_eq!(
        place.answer(&none, "580.95.05", "a100-sxm4-40gb"),
        "needs-no-cuda"
    );
}

/// `nvcc` links its runtime statically by default, so programs often come with other libraries of a
/// toolkit alone.
#[test]
fn a_toolkits_other_files_say_which_cuda_an_image_has() {
    let place = Place::new();
    let answer =
        |file: &str, driver: &str| place.answer(&place.with_file(file), driver, "a100-sxm4-40gb");
    for file in [
        "lib64/libcublas.so.12.4.5.8",
        "version.json",
        "bin/nvcc",
        "lib64/libnvrtc-builtins.so.12.4",
    ] {
        let file = format!("usr/local/cuda-12.4/{file}");
        assert_eq!(answer(&file, "535.261.03"), "runs", "{file}");
        assert_eq!(answer(&file, "470.256.02"), "does-not-run", "{file}");
    }
    assert_eq!(answer("opt/app/lib/libcudnn.so.9", "580.95.05"), "unknown");
    let image = place.with_file("opt/app/lib/libcudnn.so.9");
    insta::assert_snapshot!(place.says(&image, "580.95.05", "a100-sxm4-40gb"), @"opt/app/lib/libcudnn.so.9 is a library for CUDA, and nothing in the image says for which version");
}

/// Ollama's image has a folder for each CUDA, and uses the newest that the driver and the GPU run.
#[test]
fn programs_may_choose_an_older_cuda_of_another_folder() {
    let place = Place::new();
    let has = |files: &[&str]| place.file("several.tar", &with_layer(&config(&[]), &layer(files)));
    let ollama = has(&[
        "usr/lib/ollama/cuda_v12/libcublas.so.12.8.4.1",
        "usr/lib/ollama/cuda_v12/libcudart.so.12.8.90",
        "usr/lib/ollama/cuda_v13/libcudart.so.13.0.96",
    ]);
    assert_eq!(place.answer(&ollama, "550", "rtx 4090"), "unknown");
    insta::assert_snapshot!(place.says(&ollama, "550", "rtx 4090"), @"
    the image has CUDA 13.0: usr/lib/ollama/cuda_v13/libcudart.so.13.0.96
    CUDA 13.0 needs driver 580.65.06 or newer, and this one is 550.163.01
    it also has CUDA 12.8: usr/lib/ollama/cuda_v12/libcudart.so.12.8.90
    CUDA 12.8 runs on driver 550 by minor-version compatibility: the minimum is 525.60.13
    whether its programs can use CUDA 12.8 instead is not known
    gpusetup plan --profile driver --driver '>=580' --root TREE --gpu 'rtx 4090'
    ");
    assert_eq!(place.answer(&ollama, "580", "v100-sxm2-16gb"), "unknown");
    insta::assert_snapshot!(place.says(&ollama, "580", "v100-sxm2-16gb"), @"
    the image has CUDA 13.0: usr/lib/ollama/cuda_v13/libcudart.so.13.0.96
    driver 580 runs CUDA 13.0 natively
    CUDA 13.0 does not support Tesla V100-SXM2-16GB (compute capability 7.0): CUDA 12.9 is the last that does
    it also has CUDA 12.8: usr/lib/ollama/cuda_v12/libcudart.so.12.8.90
    driver 580 runs CUDA 12.8 natively
    whether its programs can use CUDA 12.8 instead is not known
    ");
    assert_eq!(place.answer(&ollama, "580", "rtx 4090"), "runs");
    assert_eq!(place.answer(&ollama, "470", "rtx 3090"), "does-not-run");
    // Without a driver, too.
    let path = ollama.to_str().expect("UTF-8");
    let ran = place.1.run(&[
        "container",
        "check",
        path,
        "--gpu",
        "v100-sxm2-16gb",
        "--json",
    ]);
    assert_eq!(answer(&ran), "does-not-run");
    insta::assert_snapshot!(said(&place.1, &ran), @"
    this host has no NVIDIA driver, which containers use
    CUDA 13.0 does not support Tesla V100-SXM2-16GB (compute capability 7.0): CUDA 12.9 is the last that does
    it also has CUDA 12.8: usr/lib/ollama/cuda_v12/libcudart.so.12.8.90
    gpusetup plan --profile driver --root TREE --gpu v100-sxm2-16gb
    ");
    let environments = has(&[
        "opt/conda/envs/old/lib/python3.8/site-packages/nvidia_cuda_runtime_cu11-11.7.99.dist-info/METADATA",
        "opt/conda/envs/new/lib/python3.12/site-packages/nvidia_cuda_runtime-13.0.96.dist-info/METADATA",
    ]);
    assert_eq!(place.answer(&environments, "550", "rtx 4090"), "unknown");
    // Of several, the newest that runs; and one environment, whose packages are used together.
    let older = [
        "11/libcudart.so.11.3.109",
        "12/libcudart.so.12.8.90",
        "13/libcudart.so.13.0.96",
    ];
    let older = has(&older
        .map(|file| format!("usr/lib/ollama/cuda_v{file}"))
        .each_ref()
        .map(String::as_str));
    for (driver, cuda) in [
        ("550", "CUDA 12.8: usr/lib/ollama/cuda_v12/"),
        ("470", "CUDA 11.3: usr/lib/ollama/cuda_v11/"),
    ] {
        let says = place.says(&older, driver, "rtx 3090");
        assert!(
            says.contains(&format!("it also has {cuda}libcudart.so.")),
            "{says}"
        );
    }
    let environment = has(&[
        "opt/env/conda-meta/cudatoolkit-11.8.0-h37601d7_11.json",
        "opt/env/lib/libcudart.so.11.0",
        "opt/env/lib/python3.12/site-packages/nvidia/cu13/lib/libcudart.so.13",
    ]);
    assert_eq!(
        place.answer(&environment, "550", "rtx 4090"),
        "does-not-run"
    );
    // A base image of an older CUDA is no choice.
    let based = has(&[
        "usr/local/cuda-12.4/targets/x86_64-linux/lib/libcudart.so.12.4.127",
        "usr/local/lib/python3.12/dist-packages/nvidia/cu13/lib/libcudart.so.13",
    ]);
    assert_eq!(place.answer(&based, "550", "rtx 4090"), "does-not-run");
}

#[test]
fn an_image_with_another_driver_may_not_run() {
    let place = Place::new();
    let file = "usr/lib/x86_64-linux-gnu/libnvidia-ml.so.550.54.15";
    let mut says = Vec::new();
    for variables in [&[("CUDA_VERSION", "12.4.1")][..], &[]] {
        let image = place.file(
            "driver.tar",
            &with_layer(&config(variables), &layer(&[file])),
        );
        assert_eq!(
            place.answer(&image, "580.95.05", "a100-sxm4-40gb"),
            "unknown",
            "{variables:?}"
        );
        says.push(place.says(&image, "580.95.05", "a100-sxm4-40gb"));
    }
    insta::assert_snapshot!(says.join("\n\n"), @"
    driver 580.95.05 runs CUDA 12.4 natively
    the image has a library of driver 550.54.15, usr/lib/x86_64-linux-gnu/libnvidia-ml.so.550.54.15: the container may not start, or use it instead of the host's. Build the image without the driver's packages

    the image has a library of driver 550.54.15, usr/lib/x86_64-linux-gnu/libnvidia-ml.so.550.54.15: the container may not start, or use it instead of the host's. Build the image without the driver's packages
    ");
    // The host's own version is the same library.
    let image = place.file(
        "same.tar",
        &with_layer(&config(&[("CUDA_VERSION", "12.4.1")]), &layer(&[file])),
    );
    assert_eq!(place.answer(&image, "550.54.15", "a100-sxm4-40gb"), "runs");
}

#[test]
fn each_image_of_an_archive_is_judged() {
    let place = Place::new();
    let configs =
        ["11.8.0", "13.0.1"].map(|cuda| config(&[("CUDA_VERSION", cuda)]).to_string().into_bytes());
    let names = configs
        .each_ref()
        .map(|config| format!("{}.json", sum(config)));
    let manifest = json!([
        {"Config": names[0], "RepoTags": ["registry.example/old:1"], "Layers": []},
        {"Config": names[1], "RepoTags": ["new:1", "new:latest"], "Layers": []},
    ]);
    let manifest = manifest.to_string();
    let all = tar(&[
        (&names[0], &configs[0]),
        (&names[1], &configs[1]),
        ("manifest.json", manifest.as_bytes()),
    ]);
    let all = place.file("all.tar", &all);
    let ran = place.check(&all, "535.261.03", "a100-sxm4-40gb");
    assert_eq!(answer(&ran), "does-not-run");
    let value = value(&ran);
    let each: Vec<_> = (0..2)
        .map(|i| (&value["images"][i]["image"], &value["images"][i]["answer"]))
        .collect();
    assert_eq!(
        json!(each),
        json!([
            ["registry.example/old:1", "runs"],
            ["new:1", "does-not-run"]
        ])
    );
    let one = |name: &str| {
        let path = all.to_str().expect("UTF-8");
        let gpu = "a100-sxm4-40gb";
        place.1.run(&[
            "container",
            "check",
            path,
            "--image",
            name,
            "--driver",
            "535.261.03",
            "--gpu",
            gpu,
            "--json",
        ])
    };
    assert_eq!(answer(&one("old:1")), "runs");
    assert_eq!(answer(&one("new:latest")), "does-not-run");
    // It has the name that was asked for, which Podman writes with Docker's registry.
    assert_eq!(
        self::value(&one("docker.io/library/new:latest"))["images"][0]["image"],
        "new:latest"
    );
    // Without a name, an image goes by its ID, as engines list it.
    let manifest = manifest.replace("[\"new:1\",\"new:latest\"]", "null");
    let untagged = tar(&[
        (&names[0], &configs[0]),
        (&names[1], &configs[1]),
        ("manifest.json", manifest.as_bytes()),
    ]);
    let untagged = place.check(
        &place.file("untagged.tar", &untagged),
        "535.261.03",
        "a100-sxm4-40gb",
    );
    assert_eq!(self::value(&untagged)["images"][1]["image"], names[1][..12]);
    // The command checks all images.
    insta::assert_snapshot!(place.refusal(&one("other:1"), 2), @"
    error: all.tar has no image other:1: it has registry.example/old:1, new:1, new:latest
    try: gpusetup container check all.tar --driver 535.261.03 --root TREE --gpu a100-sxm4-40gb
    ");
}

#[test]
fn a_name_like_a_file_is_a_file() {
    let on = ["--driver", "550.54.15", "--gpu", "a100"];
    let refused = ["nosuch.tar", "images/nosuch.tar.gz"].map(|name| {
        let ran = run(&[&["container", "check", name], &on[..]].concat());
        ran.refusal(2).to_owned()
    });
    insta::assert_snapshot!(refused.concat(), @"
    error: cannot read nosuch.tar: No such file or directory (os error 2)
    error: cannot read images/nosuch.tar.gz: No such file or directory (os error 2)
    ");
    let host = Tree::ubuntu_24_04();
    let ran = host.run(&[&["container", "check", "nosuch"], &on[..]].concat());
    insta::assert_snapshot!(named(&host, ran.refusal(2)), @"
    error: no container engine of this host has the image nosuch
    hint: gpusetup pulls no images
    try: docker pull nosuch
    try: gpusetup container check nosuch --driver 550.54.15 --root TREE --gpu a100
    ");
}

#[test]
fn a_branch_stands_for_all_of_its_releases() {
    let place = Place::new();
    let image = place.image(
        "x.tar",
        &[("CUDA_VERSION", "12.9.1"), ("NVIDIA_DISABLE_REQUIRE", "1")],
    );
    assert_eq!(place.answer(&image, "550", "a100-sxm4-40gb"), "runs");
    assert_eq!(
        place.answer(&image, "470", "a100-sxm4-40gb"),
        "does-not-run"
    );
    // CUDA 12 needs 525.60.13, which not all releases of this branch are.
    assert_eq!(place.answer(&image, "525.60.13", "a100-sxm4-40gb"), "runs");
    assert_eq!(place.answer(&image, "525", "a100-sxm4-40gb"), "unknown");
    insta::assert_snapshot!(place.says(&image, "525", "a100-sxm4-40gb"), @"
    the releases of branch 525 differ: name the whole version with --driver (525.60.11 or 525.60.13)
    525.60.11: CUDA 12.9 needs driver 525.60.13 or newer, and this one is 525.60.11
    525.60.11: the image turns its demands off (NVIDIA_DISABLE_REQUIRE)
    525.60.13: CUDA 12.9 runs on driver 525 by minor-version compatibility: the minimum is 525.60.13
    525.60.13: the image turns its demands off (NVIDIA_DISABLE_REQUIRE)
    gpusetup plan --profile driver --driver '>=575' --root TREE --gpu a100-sxm4-40gb
    ");
    let ran = place.check(&image, "999", "a100-sxm4-40gb");
    insta::assert_snapshot!(ran.refusal(2), @"
    error: no release of driver branch 999 is known: name the whole version, such as 999.10.01
    try: gpusetup db list drivers
    ");
}

#[test]
fn who_checks_what_an_image_demands_depends_on_how_containers_start() {
    let place = Place::new();
    let image = place.image(
        "x.tar",
        &[
            ("CUDA_VERSION", "12.9.1"),
            ("NVIDIA_REQUIRE_CUDA", "cuda>=12.9"),
        ],
    );
    let on = |host: &Tree| check_on(host, &image, "535.261.03", "rtx 3090");
    assert_eq!(answer(&on(&place.1)), "does-not-run");
    let podman = Tree::ubuntu_24_04();
    podman.write("usr/bin/podman", "");
    let ran = on(&podman);
    assert_eq!(answer(&ran), "runs");
    insta::assert_snapshot!(said(&podman, &ran), @"
    CUDA 12.9 runs on driver 535.261.03 by minor-version compatibility: the minimum is 525.60.13
    NVIDIA GeForce RTX 3090 does not meet NVIDIA_REQUIRE_CUDA, which demands cuda>=12.9
    nothing checks that here: Podman starts containers by CDI
    NVIDIA Container Toolkit is not installed on this host: its containers get no GPUs yet
    gpusetup plan --profile container-host --root TREE --gpu 'rtx 3090'
    ");
    // Whether driver 535 calls the GPU `tesla` makes no difference then.
    let by_brand = "cuda>=12.9 brand=tesla,driver>=535,driver<536";
    let by_brand = place.image(
        "brand.tar",
        &[
            ("CUDA_VERSION", "12.9.1"),
            ("NVIDIA_REQUIRE_CUDA", by_brand),
        ],
    );
    let ran = check_on(&podman, &by_brand, "535.261.03", "a100-sxm4-40gb");
    assert_eq!(answer(&ran), "runs");
    insta::assert_snapshot!(said(&podman, &ran), @"
    CUDA 12.9 runs on driver 535.261.03 by minor-version compatibility: the minimum is 525.60.13
    NVIDIA_REQUIRE_CUDA demands cuda>=12.9 or brand=tesla,driver>=535,driver<536, which depends on what is not known of NVIDIA A100-SXM4-40GB
    nothing checks that here: Podman starts containers by CDI
    NVIDIA Container Toolkit is not installed on this host: its containers get no GPUs yet
    gpusetup plan --profile container-host --root TREE --gpu a100-sxm4-40gb
    ");
    assert_eq!(
        place.answer(&by_brand, "535.261.03", "a100-sxm4-40gb"),
        "unknown"
    );
    podman.write("usr/bin/dockerd", "");
    assert_eq!(answer(&on(&podman)), "unknown");
    let ran = on(&Tree::ubuntu_24_04());
    assert_eq!(answer(&ran), "unknown");
    insta::assert_snapshot!(said(&place.1, &ran), @"
    CUDA 12.9 runs on driver 535.261.03 by minor-version compatibility: the minimum is 525.60.13
    NVIDIA GeForce RTX 3090 does not meet NVIDIA_REQUIRE_CUDA, which demands cuda>=12.9
    it depends on how the host starts containers: the container toolkit's hook refuses the image (Docker before 29.2.0 with --gpus, the runtime nvidia of toolkits before 1.18.0), CDI does not check it
    ");
    // Docker by CDI, since that version and with a specification.
    let docker = Tree::ubuntu_24_04();
    docker.write("usr/bin/dockerd", "");
    docker.write("usr/bin/nvidia-ctk", "");
    docker.write(
        "var/lib/dpkg/status",
        "Package: docker-ce\nStatus: install ok installed\nVersion: 5:29.3.0-1\n",
    );
    assert_eq!(answer(&on(&docker)), "does-not-run");
    docker.write(
        "etc/cdi/nvidia.yaml",
        "cdiVersion: 0.5.0\nkind: nvidia.com/gpu\ndevices: [{name: all}]\n",
    );
    assert_eq!(answer(&on(&docker)), "runs");
    docker.write(
        "etc/docker/daemon.json",
        "{\"features\": {\"cdi\": false}}\n",
    );
    assert_eq!(
        answer(&on(&docker)),
        "does-not-run",
        "Docker is told not to use CDI"
    );
    // containerd through the runtime nvidia: by the hook up to toolkit 1.17.
    let containerd = |toolkit: &str| {
        let host = Tree::ubuntu_24_04();
        host.write("usr/bin/containerd", "");
        host.write("usr/bin/kubelet", "");
        host.write("usr/bin/nvidia-ctk", "");
        let record = format!(
            "Package: nvidia-container-toolkit\nStatus: install ok installed\nVersion: {toolkit}\n"
        );
        host.write("var/lib/dpkg/status", &record);
        answer(&on(&host))
    };
    assert_eq!(containerd("1.17.9-1"), "does-not-run");
    assert_eq!(containerd("1.20.0-1"), "runs");
    // The toolkit's configuration can turn the check off.
    let off = Tree::ubuntu_24_04();
    off.write("usr/bin/dockerd", "");
    off.write("usr/bin/nvidia-ctk", "");
    off.write(
        "etc/nvidia-container-runtime/config.toml",
        "#disable-require = true\n",
    );
    assert_eq!(answer(&on(&off)), "does-not-run");
    off.write(
        "etc/nvidia-container-runtime/config.toml",
        "disable-require = true\n",
    );
    let ran = on(&off);
    assert_eq!(answer(&ran), "runs");
    insta::assert_snapshot!(said(&off, &ran), @"
    CUDA 12.9 runs on driver 535.261.03 by minor-version compatibility: the minimum is 525.60.13
    NVIDIA GeForce RTX 3090 does not meet NVIDIA_REQUIRE_CUDA, which demands cuda>=12.9
    nothing checks that here: /etc/nvidia-container-runtime/config.toml has disable-require
    ");
}

#[test]
fn a_host_without_the_container_toolkit_is_told_so() {
    let place = Place::new();
    let image = place.image(
        "x.tar",
        &[
            ("CUDA_VERSION", "12.9.1"),
            ("NVIDIA_REQUIRE_CUDA", "cuda>=12.9"),
        ],
    );
    let bare = Tree::ubuntu_24_04();
    bare.write("usr/bin/dockerd", "");
    let ran = check_on(&bare, &image, "535.261.03", "rtx 3090");
    assert_eq!(answer(&ran), "does-not-run");
    insta::assert_snapshot!(said(&bare, &ran), @"
    CUDA 12.9 runs on driver 535.261.03 by minor-version compatibility: the minimum is 525.60.13
    NVIDIA GeForce RTX 3090 does not meet NVIDIA_REQUIRE_CUDA, which demands cuda>=12.9
    once the container toolkit is installed, its hook refuses to start it in Docker
    its CUDA would run; only the demand is not met, which -e NVIDIA_DISABLE_REQUIRE=1 turns off
    NVIDIA Container Toolkit is not installed on this host: its containers get no GPUs yet
    gpusetup plan --profile driver --driver '>=575' --root TREE --gpu 'rtx 3090'
    gpusetup plan --profile container-host --root TREE --gpu 'rtx 3090'
    ");
    let ran = check_on(&bare, &image, "580.95.05", "rtx 3090");
    assert_eq!(answer(&ran), "runs");
    insta::assert_snapshot!(said(&bare, &ran), @"
    driver 580.95.05 runs CUDA 12.9 natively
    NVIDIA Container Toolkit is not installed on this host: its containers get no GPUs yet
    gpusetup plan --profile container-host --root TREE --gpu 'rtx 3090'
    ");
    insta::assert_snapshot!(place.says(&image, "580.95.05", "rtx 3090"), @"driver 580.95.05 runs CUDA 12.9 natively");
}

#[test]
fn the_driver_of_a_wsl2_tree_is_not_known() {
    let place = Place::new();
    let image = place.image("x.tar", &[("CUDA_VERSION", "12.4.1")]);
    let wsl = Tree::ubuntu_24_04();
    wsl.write("etc/wsl-distribution.conf", "");
    let path = image.to_str().expect("UTF-8");
    let ran = wsl.run(&["container", "check", path, "--gpu", "rtx 3090", "--json"]);
    assert_eq!(answer(&ran), "unknown");
    insta::assert_snapshot!(said(&wsl, &ran), @"a root filesystem of WSL2 does not show the driver, which Windows mounts at every start: name it with --driver, as nvidia-smi shows it in Windows");
    assert_eq!(
        answer(&check_on(&wsl, &image, "550.54.15", "rtx 3090")),
        "runs"
    );
}

#[test]
fn what_would_run_it_is_said() {
    let place = Place::new();
    let image = place.image(
        "x.tar",
        &[
            ("CUDA_VERSION", "12.9.1"),
            ("NVIDIA_REQUIRE_CUDA", "cuda>=12.9"),
        ],
    );
    insta::assert_snapshot!(place.says(&image, "535.261.03", "rtx 3090"), @"
    CUDA 12.9 runs on driver 535.261.03 by minor-version compatibility: the minimum is 525.60.13
    NVIDIA GeForce RTX 3090 does not meet NVIDIA_REQUIRE_CUDA, which demands cuda>=12.9
    the container toolkit's hook, which Docker uses here, refuses to start it
    its CUDA would run; only the demand is not met, which -e NVIDIA_DISABLE_REQUIRE=1 turns off
    gpusetup plan --profile driver --driver '>=575' --root TREE --gpu 'rtx 3090'
    ");
    // Any CUDA 13 would do, and no driver runs all of them natively.
    let major = place.with_file("usr/local/lib/libcudart.so.13");
    insta::assert_snapshot!(place.says(&major, "535.183.01", "a100-sxm4-40gb"), @"
    the image has CUDA 13: usr/local/lib/libcudart.so.13
    CUDA 13.0 needs driver 580.65.06 or newer, and this one is 535.183.01
    gpusetup plan --profile driver --driver '>=580' --root TREE --gpu a100-sxm4-40gb
    ");
    let off = [
        ("CUDA_VERSION", "12.9.1"),
        ("NVIDIA_REQUIRE_CUDA", "cuda>=12.9"),
        ("NVIDIA_DISABLE_REQUIRE", "1"),
    ];
    assert_eq!(
        place.answer(&place.image("off.tar", &off), "535.261.03", "rtx 3090"),
        "runs"
    );
    // Before there were demands: the toolkit makes one of the version.
    let old = place.image("legacy.tar", &[("CUDA_VERSION", "12.9.1")]);
    assert_eq!(place.answer(&old, "535.261.03", "rtx 3090"), "does-not-run");
    let broken = place.image(
        "broken.tar",
        &[("NVIDIA_REQUIRE_CUDA", "cuda>=12.9 driver=>470")],
    );
    let ran = place.check(&broken, "580.95.05", "rtx 3090");
    assert_eq!(answer(&ran), "does-not-run");
    insta::assert_snapshot!(said(&place.1, &ran), @r#"
    driver 580.95.05 runs CUDA 12.9 natively
    NVIDIA_REQUIRE_CUDA: "driver=>470" is no condition: the container toolkit refuses it as an invalid expression
    the container toolkit's hook, which Docker uses here, refuses to start it
    its CUDA would run; only the demand is not met, which -e NVIDIA_DISABLE_REQUIRE=1 turns off
    gpusetup plan --profile driver --upgrade --root TREE --gpu 'rtx 3090'
    "#);
    let jetson = place.image(
        "jetson.tar",
        &[
            ("NVIDIA_REQUIRE_JETPACK", "csv-mounts=all"),
            ("CUDA_VERSION", "11.4"),
        ],
    );
    insta::assert_snapshot!(place.says(&jetson, "580.95.05", "rtx 3090"), @"the image is for a Jetson with a certain JetPack: csv-mounts=all");
}

#[test]
fn no_driver_is_suggested_that_cannot_help() {
    let place = Place::new();
    let image = place.image("x.tar", &[("CUDA_VERSION", "12.9.1")]);
    // The last branch for Kepler is 470, which has CUDA 11.4.
    insta::assert_snapshot!(place.says(&image, "470.256.02", "k80"), @"
    CUDA 12.9 needs driver 525.60.13 or newer, and this one is 470.256.02
    CUDA 12.9 does not support Tesla K80 (compute capability 3.7): CUDA 11.8 is the last that does
    Tesla K80 does not meet CUDA_VERSION, which demands cuda>=12.9
    the container toolkit's hook, which Docker uses here, refuses to start it
    no driver changes that: use an image with CUDA 11.8 or older
    ");
    // Inside WSL2 the driver is that of Windows.
    let wsl = Tree::ubuntu_24_04();
    wsl.write("usr/bin/dockerd", "");
    wsl.write(
        "proc/sys/kernel/osrelease",
        "5.15.167.4-microsoft-standard-WSL2\n",
    );
    // The oldest driver is in the reasons; the other branch is that of native support.
    let ran = check_on(&wsl, &image, "470.256.02", "rtx 3090");
    insta::assert_snapshot!(said(&wsl, &ran), @"
    CUDA 12.9 needs driver 525.60.13 or newer, and this one is 470.256.02
    NVIDIA GeForce RTX 3090 does not meet CUDA_VERSION, which demands cuda>=12.9
    once the container toolkit is installed, its hook refuses to start it in Docker
    a driver of branch 575 or newer runs it natively: under WSL2 Windows provides the driver; do not install one inside WSL2
    NVIDIA Container Toolkit is not installed on this host: its containers get no GPUs yet
    ");
}

#[test]
fn every_form_of_an_image_is_read() {
    let place = Place::new();
    let config = config(&[
        ("CUDA_VERSION", "11.2.1"),
        ("NVIDIA_REQUIRE_CUDA", CUDA_11_2),
    ]);
    let docker = docker_archive(&config);
    let mut gzip = GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&docker).expect("packed");
    let zstd = zstd::encode_all(&docker[..], 1).expect("packed");
    // As Docker 25 and newer write it: the same files in both manners.
    let bytes = config.to_string().into_bytes();
    let of_config = format!("blobs/sha256/{}", sum(&bytes));
    let manifest =
        json!({"schemaVersion": 2, "config": {"digest": format!("sha256:{}", sum(&bytes))}, "layers": []}).to_string();
    let of_manifest = format!("blobs/sha256/{}", sum(manifest.as_bytes()));
    let index = json!({"schemaVersion": 2, "manifests": [
        {"digest": format!("sha256:{}", "0".repeat(64)), "platform": {"architecture": "unknown", "os": "unknown"}},
        {"digest": format!("sha256:{}", sum(manifest.as_bytes())), "platform": {"architecture": "amd64", "os": "linux"}},
    ]});
    let index = index.to_string();
    let oci = tar(&[
        (&of_config, &bytes),
        (&of_manifest, manifest.as_bytes()),
        ("index.json", index.as_bytes()),
        ("oci-layout", b"{}"),
    ]);
    // Layers of a registry are packed, also in an archive.
    let wheel = layer(&["opt/nvidia_cuda_runtime_cu11-11.2.152.dist-info/METADATA"]);
    let mut packed = GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(&wheel).expect("packed");
    let files = [
        place.file(
            "layer.gz.tar",
            &with_layer(&config, &packed.finish().expect("packed")),
        ),
        place.file(
            "layer.zst.tar",
            &with_layer(&config, &zstd::encode_all(&wheel[..], 1).expect("packed")),
        ),
        place.file("docker.tar", &docker),
        place.file("docker.tar.gz", &gzip.finish().expect("packed")),
        place.file("docker.tar.zst", &zstd),
        place.file("oci.tar", &oci),
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/images/cuda-11.2"),
    ];
    for file in files {
        assert_eq!(
            place.answer(&file, "550.54.15", "rtx 3090"),
            "runs",
            "{}",
            file.display()
        );
        assert_eq!(
            place.answer(&file, "418.226.00", "rtx 3090"),
            "does-not-run",
            "{}",
            file.display()
        );
    }
}

#[test]
fn what_is_no_image_is_refused() {
    let place = Place::new();
    let config = config(&[("CUDA_VERSION", "11.2.1")])
        .to_string()
        .into_bytes();
    let outside = json!([{"Config": "../../etc/passwd.json"}]).to_string();
    let other_sum = format!("{}.json", "0".repeat(64));
    let damaged = json!([{"Config": other_sum}]).to_string();
    let missing = json!([{"Config": "gone.json"}]).to_string();
    let lacking = json!([{"Config": "a.json", "Layers": ["b.tar"]}]).to_string();
    let round = json!({"manifests": [{"digest": "sha256:../../../etc/passwd"}]}).to_string();
    let packed = b"\x1f\x8b\x08 and nothing that gzip knows";
    let files: [(&str, Vec<u8>, i32); 13] = [
        (
            "text.tar",
            b"this is no archive, whatever its name says, and long enough to be asked".repeat(20),
            2,
        ),
        ("empty.tar", Vec::new(), 2),
        (
            "outside.tar",
            tar(&[("manifest.json", outside.as_bytes())]),
            2,
        ),
        (
            "damaged.tar",
            tar(&[(&other_sum, &config), ("manifest.json", damaged.as_bytes())]),
            10,
        ),
        (
            "missing.tar",
            tar(&[("manifest.json", missing.as_bytes())]),
            10,
        ),
        ("round.tar", tar(&[("index.json", round.as_bytes())]), 2),
        ("json.tar", tar(&[("manifest.json", b"{")]), 10),
        ("none.tar", tar(&[("manifest.json", b"[]")]), 2),
        (
            "config.tar",
            tar(&[("a.json", b"{no"), ("manifest.json", lacking.as_bytes())]),
            10,
        ),
        ("garbage.tar", with_layer(&json!({}), &[b'g'; 2048]), 10),
        ("packed.tar", with_layer(&json!({}), packed), 10),
        (
            "layer.tar",
            tar(&[("a.json", b"{}"), ("manifest.json", lacking.as_bytes())]),
            10,
        ),
        ("cut.tar", docker_archive(&json!({}))[..700].to_vec(), 10),
    ];
    let refused = files.map(|(name, bytes, code)| {
        let ran = place.check(&place.file(name, &bytes), "550.54.15", "rtx 3090");
        place.refusal(&ran, code)
    });
    insta::assert_snapshot!(refused.concat(), @"
    error: text.tar is no image: it is no tar archive (it has no header of tar where one is due)
    hint: it must be what docker save or podman save writes, or an OCI layout: docker save IMAGE -o image.tar
    error: empty.tar is no image: it has neither manifest.json nor index.json
    hint: it must be what docker save or podman save writes, or an OCI layout: docker save IMAGE -o image.tar
    error: outside.tar is no image: its manifest names a file outside of it
    hint: it must be what docker save or podman save writes, or an OCI layout: docker save IMAGE -o image.tar
    error: damaged.tar is damaged: 0000000000000000000000000000000000000000000000000000000000000000 has another checksum
    error: missing.tar is damaged: it lacks the configuration that its manifest names
    error: round.tar is no image: a digest in it is not SHA-256
    hint: it must be what docker save or podman save writes, or an OCI layout: docker save IMAGE -o image.tar
    error: json.tar is damaged: manifest.json is no JSON: EOF while parsing an object at line 1 column 1
    error: none.tar is no image: its manifest.json names no image
    hint: it must be what docker save or podman save writes, or an OCI layout: docker save IMAGE -o image.tar
    error: config.tar is damaged: a.json is no JSON: key must be a string at line 1 column 2
    error: garbage.tar is damaged: its layer layer.tar cannot be read: it has no header of tar where one is due
    error: packed.tar is damaged: its layer layer.tar cannot be read: invalid gzip header
    error: layer.tar is damaged: its layer b.tar cannot be read: the archive lacks it
    error: cut.tar is damaged: unexpected end of file
    ");
    // As plan reads them.
    for spelled in ["550", "nvidia-driver-550", "R550", "550.x", ">=550, <551"] {
        let ran = run(&[
            "container",
            "check",
            "--driver",
            spelled,
            "--gpu",
            "a100",
            "--",
            "-no-image",
        ]);
        let refused = ran.refused(2);
        insta::allow_duplicates! {
            insta::assert_snapshot!(refused, @r#"error: "-no-image" is neither a file nor the name of an image"#);
        }
    }
    let ran = run(&[
        "container",
        "check",
        "--driver",
        "R999",
        "--gpu",
        "a100",
        "x",
    ]);
    insta::assert_snapshot!(ran.refusal(2), @"
    error: no release of driver branch 999 is known: name the whole version, such as 999.10.01
    try: gpusetup db list drivers
    ");
    let ran = run(&[
        "container",
        "check",
        "--driver",
        "new",
        "--gpu",
        "a100",
        "x",
    ]);
    insta::assert_snapshot!(ran.refusal(2), @r#"
    error: --driver "new" is neither a driver version nor a branch
    try: gpusetup db list drivers
    "#);
}

/// As engines read names, and as what is in the place of a folder hides what was in it.
#[test]
fn a_higher_layer_removes_what_a_lower_one_has() {
    use tar::EntryType::{Directory, Link, Regular, Symlink};
    let place = Place::new();
    let file = "usr/local/cuda-12.6/lib64/libcudart.so.12.6.77";
    let has_cuda = |layers: &[Vec<u8>]| {
        let image = place.file("x.tar", &with_layers(&config(&[("PATH", "/bin")]), layers));
        place
            .says(&image, "535.261.03", "a100-sxm4-40gb")
            .contains("CUDA 12.6")
    };
    for (name, kind, is_left) in [
        ("usr/local/.wh.cuda-12.6", Regular, false),
        ("/usr/local/.wh.cuda-12.6", Regular, false),
        ("././usr/local/.wh.cuda-12.6", Regular, false),
        ("usr//local/x/../.wh.cuda-12.6", Regular, false),
        ("usr/local/.wh.cuda-12.6/", Directory, false),
        ("usr/local/cuda-12.6/.wh..wh..opq", Regular, false),
        ("usr/local/cuda-12.6", Regular, false),
        ("usr/local/cuda-12.6", Symlink, false),
        ("usr/local", Symlink, false),
        ("usr/local/cuda-12.6/lib64", Link, false),
        (file, Symlink, false),
        ("usr/local/cuda-12.6/", Directory, true),
        ("usr/local/cuda-12", Symlink, true),
        ("usr/local/.wh.cuda-12.6-old", Regular, true),
    ] {
        let (lower, upper) = (layer(&[file]), layer_of(name, kind));
        assert_eq!(
            has_cuda(&[lower.clone(), upper.clone()]),
            is_left,
            "{name} {kind:?}"
        );
        assert!(has_cuda(&[upper, lower]), "{name} {kind:?} below it");
    }
    // A name that takes a separate record.
    let mut long = tar::Builder::new(Vec::new());
    let name = format!("opt/{}/libcudart.so.12.6.77", "x".repeat(120));
    let mut header = tar::Header::new_gnu();
    header.set_size(0);
    long.append_data(&mut header, &name, &b""[..])
        .expect("written");
    assert!(has_cuda(&[long.into_inner().expect("ended")]));
}

#[test]
fn a_layer_with_other_content_is_damage() {
    let place = Place::new();
    let own = layer(&["usr/bin/own"]);
    let mut config = config(&[("CUDA_VERSION", "12.4.1")]);
    config["rootfs"]["diff_ids"] = json!([format!("sha256:{}", sum(&own))]);
    let packed = zstd::encode_all(&own[..], 1).expect("packed");
    for bytes in [&own, &packed] {
        let image = place.file("own.tar", &with_layer(&config, bytes));
        assert_eq!(place.answer(&image, "550.54.15", "rtx 3090"), "runs");
    }
    let other = place.file(
        "other.tar",
        &with_layer(&config, &layer(&["usr/bin/other"])),
    );
    let ran = place.check(&other, "550.54.15", "rtx 3090");
    insta::assert_snapshot!(place.refusal(&ran, 10), @"error: other.tar is damaged: layer.tar has another checksum");
}

/// 2 GiB of zeroes that are 2 MB, and JSON without an end: neither is held in memory, and no file
/// appears.
#[test]
fn a_bomb_takes_no_memory_and_writes_nothing() {
    let place = Place::new();
    let mut header = tar::Header::new_ustar();
    header.set_size(2 << 30);
    header.set_mode(0o644);
    header.set_path("blobs/sha256/bomb").expect("a name");
    header.set_cksum();
    let mut zstd = zstd::Encoder::new(Vec::new(), 1).expect("an encoder");
    zstd.write_all(header.as_bytes()).expect("packed");
    let block = vec![b'{'; 1 << 20];
    (0..2048).for_each(|_| zstd.write_all(&block).expect("packed"));
    zstd.write_all(&[0; 1024]).expect("packed");
    let bomb = place.file("bomb.tar.zst", &zstd.finish().expect("packed"));
    let path = bomb.to_str().expect("UTF-8");
    let before: Vec<_> = fs::read_dir(place.0.path()).expect("read").collect();
    let limited = format!(
        "ulimit -v 3000000; exec {} container check --driver 550 --gpu a100 {path} --json",
        env!("CARGO_BIN_EXE_gpusetup")
    );
    let output = std::process::Command::new("sh")
        .args(["-c", &limited])
        .output()
        .expect("sh runs");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.code() == Some(10) && text.contains("it unpacks to more than 1 GiB"),
        "{text}"
    );
    assert_eq!(
        fs::read_dir(place.0.path()).expect("read").count(),
        before.len()
    );
}

/// A file may show a CUDA that no release has: it is named, and not taken for what the
/// configuration says.
#[test]
fn a_cuda_that_is_not_known_is_that_of_its_file() {
    let place = Place::new();
    let file = "usr/lib/libcudart.so.99.9";
    let image = with_layer(&config(&[("CUDA_VERSION", "12.4.1")]), &layer(&[file]));
    let path = place.file("odd.tar", &image);
    assert_eq!(
        place.answer(&path, "550.54.15", "a100-sxm4-40gb"),
        "unknown"
    );
    insta::assert_snapshot!(place.says(&path, "550.54.15", "a100-sxm4-40gb"), @"usr/lib/libcudart.so.99.9 is of CUDA 99, which gpusetup does not know, and its configuration says that it has CUDA 12.4.1");
}
