//! `gpusetup container check`: images as `docker save`, `podman save` and OCI layouts have them, on drivers of several branches; and
//! archives that nobody should trust.

use crate::common::{Ran, run};
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Of an image with CUDA 11.2, <https://github.com/triton-inference-server/server> 21.03.
const CUDA_11_2: &str = "cuda>=11.2 brand=tesla,driver>=418,driver<419 brand=tesla,driver>=440,driver<441 driver>=450";

/// The first and last alternatives of an image with CUDA 12.9, as a report of vLLM's environment prints them.
const CUDA_12_9: &str = "cuda>=12.9 brand=unknown,driver>=535,driver<536 brand=tesla,driver>=535,driver<536 brand=nvidia,driver>=535,driver<536 brand=nvidiartx,driver>=570,driver<571";

fn config(variables: &[(&str, &str)]) -> Value {
    let variables: Vec<_> = variables.iter().map(|(name, value)| format!("{name}={value}")).collect();
    json!({"architecture": "amd64", "os": "linux", "config": {"Env": variables}, "rootfs": {"type": "layers", "diff_ids": []}})
}

fn sum(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// An archive of these files.
fn tar(files: &[(&str, &[u8])]) -> Vec<u8> {
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

/// What `docker save` wrote until Docker 24: the configuration by its checksum, and the manifest behind it.
fn docker_archive(config: &Value) -> Vec<u8> {
    let config = config.to_string().into_bytes();
    let name = format!("{}.json", sum(&config));
    let manifest = json!([{"Config": name, "RepoTags": ["x:1"], "Layers": ["layer.tar"]}]).to_string();
    tar(&[(&name, &config), ("layer.tar", &[0; 2048]), ("manifest.json", manifest.as_bytes())])
}

struct Place(TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a folder"))
    }

    fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.path().join(name);
        fs::write(&path, bytes).expect("written");
        path
    }
}

fn check(path: &Path, driver: &str, gpu: &str) -> Ran {
    run(&["container", "check", path.to_str().expect("UTF-8"), "--driver", driver, "--gpu", gpu, "--json"])
}

/// The answer for a host.
fn answer(path: &Path, driver: &str, gpu: &str) -> String {
    let ran = check(path, driver, gpu);
    let value: Value = serde_json::from_str(&ran.out).unwrap_or_else(|e| panic!("{e}: {}{}", ran.out, ran.err));
    let answer = value["answer"].as_str().unwrap_or_else(|| panic!("{value}")).to_owned();
    assert_eq!(ran.code, if answer == "does-not-run" { 4 } else { 0 }, "{value}");
    answer
}

#[test]
fn an_image_runs_on_drivers_that_its_demands_and_its_cuda_accept() {
    let place = Place::new();
    let old = docker_archive(&config(&[("CUDA_VERSION", "11.2.1"), ("NVIDIA_REQUIRE_CUDA", CUDA_11_2)]));
    let old = place.file("old.tar", &old);
    // Natively; by minor-version compatibility (11.x from 450.80.02 on); with an older series.
    assert_eq!(answer(&old, "550.54.15", "rtx 3090"), "runs");
    assert_eq!(answer(&old, "450.80.02", "v100-sxm2-16gb"), "runs");
    assert_eq!(answer(&old, "418.226.00", "v100-sxm2-16gb"), "does-not-run");
    let with_compat = [
        ("CUDA_VERSION", "12.9.1"),
        ("NVIDIA_REQUIRE_CUDA", CUDA_12_9),
        ("NV_CUDA_COMPAT_PACKAGE", "cuda-compat-12-9"),
    ];
    let new = place.file("new.tar", &docker_archive(&config(&with_compat)));
    assert_eq!(answer(&new, "580.95.05", "rtx 3090"), "runs");
    // CUDA 12 runs from 525 on; the demands accept 535 for data-centre cards only.
    assert_eq!(answer(&new, "535.261.03", "a100-sxm4-40gb"), "runs");
    assert_eq!(answer(&new, "535.261.03", "rtx 3090"), "does-not-run");
    // CUDA 13.0 on 535 needs the libraries that the image has, and a data-centre card.
    let newest = [
        ("CUDA_VERSION", "13.0.1"),
        ("NVIDIA_REQUIRE_CUDA", "cuda>=13.0 brand=tesla,driver>=535,driver<536 brand=nvidia,driver>=535,driver<536"),
        ("NV_CUDA_COMPAT_PACKAGE", "cuda-compat-13-0"),
    ];
    let newest_image = place.file("newest.tar", &docker_archive(&config(&newest)));
    assert_eq!(answer(&newest_image, "535.261.03", "a100-sxm4-40gb"), "runs-with-forward-compatibility");
    assert_eq!(answer(&newest_image, "550.54.15", "a100-sxm4-40gb"), "does-not-run");
    let without = place.file("without.tar", &docker_archive(&config(&newest[..2])));
    assert_eq!(answer(&without, "535.261.03", "a100-sxm4-40gb"), "does-not-run");
    // NVIDIA's images of frameworks add the number of a build, and demand less than they need.
    let build = [("CUDA_VERSION", "13.0.1.012"), ("NVIDIA_REQUIRE_CUDA", "cuda>=9.0")];
    let build = place.file("build.tar", &docker_archive(&config(&build)));
    assert_eq!(answer(&build, "535.261.03", "a100-sxm4-40gb"), "does-not-run");
    assert_eq!(answer(&build, "580.95.05", "a100-sxm4-40gb"), "runs");
}

#[test]
fn what_would_run_it_is_said() {
    let place = Place::new();
    let image = place
        .file("x.tar", &docker_archive(&config(&[("CUDA_VERSION", "12.9.1"), ("NVIDIA_REQUIRE_CUDA", "cuda>=12.9")])));
    let ran = check(&image, "535.261.03", "rtx 3090");
    let value: Value = serde_json::from_str(&ran.out).expect("JSON");
    assert_eq!(value["commands"], json!(["gpusetup plan --profile driver --driver '>=575'"]), "{value}");
    assert!(value["reasons"].to_string().contains("NVIDIA_DISABLE_REQUIRE=1"), "{value}");
    let off = [("CUDA_VERSION", "12.9.1"), ("NVIDIA_REQUIRE_CUDA", "cuda>=12.9"), ("NVIDIA_DISABLE_REQUIRE", "1")];
    assert_eq!(answer(&place.file("off.tar", &docker_archive(&config(&off))), "535.261.03", "rtx 3090"), "runs");
    // Before there were demands: the toolkit makes one of the version.
    let old = place.file("legacy.tar", &docker_archive(&config(&[("CUDA_VERSION", "12.9.1")])));
    assert_eq!(answer(&old, "535.261.03", "rtx 3090"), "does-not-run");
    let broken = [("NVIDIA_REQUIRE_CUDA", "cuda>=12.9 driver=>470")];
    let ran = check(&place.file("broken.tar", &docker_archive(&config(&broken))), "580.95.05", "rtx 3090");
    assert!(ran.code == 4 && ran.out.contains("invalid expression"), "{}", ran.out);
    let jetson = [("NVIDIA_REQUIRE_JETPACK", "csv-mounts=all"), ("CUDA_VERSION", "11.4")];
    let ran = check(&place.file("jetson.tar", &docker_archive(&config(&jetson))), "580.95.05", "rtx 3090");
    assert!(ran.out.contains("Jetson"), "{}", ran.out);
    assert_eq!(
        answer(&place.file("none.tar", &docker_archive(&config(&[("PATH", "/bin")]))), "580.95.05", "a100-sxm4-40gb"),
        "needs-no-cuda"
    );
}

#[test]
fn every_form_of_an_image_is_read() {
    let place = Place::new();
    let config = config(&[("CUDA_VERSION", "11.2.1"), ("NVIDIA_REQUIRE_CUDA", CUDA_11_2)]);
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
    let files = [
        place.file("docker.tar", &docker),
        place.file("docker.tar.gz", &gzip.finish().expect("packed")),
        place.file("docker.tar.zst", &zstd),
        place.file("oci.tar", &oci),
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/images/cuda-11.2"),
    ];
    for file in files {
        assert_eq!(answer(&file, "550.54.15", "rtx 3090"), "runs", "{}", file.display());
        assert_eq!(answer(&file, "418.226.00", "rtx 3090"), "does-not-run", "{}", file.display());
    }
}

#[test]
fn what_is_no_image_is_refused() {
    let place = Place::new();
    let config = config(&[("CUDA_VERSION", "11.2.1")]).to_string().into_bytes();
    let outside = json!([{"Config": "../../etc/passwd.json"}]).to_string();
    let other_sum = format!("{}.json", "0".repeat(64));
    let damaged = json!([{"Config": other_sum}]).to_string();
    let missing = json!([{"Config": "gone.json"}]).to_string();
    let round = json!({"manifests": [{"digest": "sha256:../../../etc/passwd"}]}).to_string();
    let files: [(&str, Vec<u8>, i32, &str); 8] = [
        (
            "text.tar",
            b"this is no archive, whatever its name says, and long enough to be asked".repeat(20),
            2,
            "is no image",
        ),
        ("empty.tar", Vec::new(), 2, "neither manifest.json nor index.json"),
        ("outside.tar", tar(&[("manifest.json", outside.as_bytes())]), 2, "outside of it"),
        ("damaged.tar", tar(&[(&other_sum, &config), ("manifest.json", damaged.as_bytes())]), 10, "another checksum"),
        ("missing.tar", tar(&[("manifest.json", missing.as_bytes())]), 2, "lacks the configuration"),
        ("round.tar", tar(&[("index.json", round.as_bytes())]), 2, "not SHA-256"),
        ("json.tar", tar(&[("manifest.json", b"{")]), 2, "is no image"),
        ("cut.tar", docker_archive(&json!({}))[..700].to_vec(), 2, "cut.tar"),
    ];
    for (name, bytes, code, says) in files {
        let ran = check(&place.file(name, &bytes), "550.54.15", "rtx 3090");
        assert_eq!(ran.code, code, "{name}: {}", ran.out);
        assert!(ran.out.contains(says), "{name}: {}", ran.out);
    }
    let ran = run(&["container", "check", "--driver", "550", "--gpu", "a100", "--", "-no-image"]);
    assert!(ran.code == 2 && ran.err.contains("neither a file nor"), "{}", ran.err);
    let ran = run(&["container", "check", "--driver", "new", "--gpu", "a100", "x"]);
    assert!(ran.code == 2 && ran.err.contains("neither a driver version nor a branch"), "{}", ran.err);
}

/// 2 GiB of zeroes that are 2 MB, and JSON without an end: neither is held in memory, and no file appears.
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
    let output = std::process::Command::new("sh").args(["-c", &limited]).output().expect("sh runs");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.code() == Some(2) && text.contains("neither manifest.json"), "{text}");
    assert_eq!(fs::read_dir(place.0.path()).expect("read").count(), before.len());
}
