//! `--with`: which release of an add-on a plan takes, and what becomes of it.
//! `tests/as_root/add_ons.rs` installs them.

use crate::common::{Ran, Tree};
use serde_json::Value;

fn plan(gpu: &str, cuda: &str, with: &str) -> Ran {
    let wanted = [
        "--profile",
        "toolkit",
        "--cuda",
        cuda,
        "--cudnn",
        "none",
        "--with",
        with,
    ];
    Tree::debian_12().run(&[&["plan", "--json", "--gpu", gpu], &wanted[..]].concat())
}

fn steps(plan: &Value, id: &str) -> Vec<Value> {
    let steps = plan["steps"].as_array().expect("steps");
    let step = steps
        .iter()
        .find(|step| step["id"] == id)
        .unwrap_or_else(|| panic!("no step {id}"));
    step["operations"].as_array().expect("operations").clone()
}

#[test]
fn the_newest_that_was_asked_for_and_runs_on_the_gpu_is_taken() {
    for (gpu, cuda, with, version) in [
        ("h100", "12.8", "nccl>=2.27, <2.28", "2.27.7"),
        ("v100", "12.8", "nccl==2.27", "2.27.7"),
        ("v100", "12.8", "nccl=2.27", "2.27.7"),
        // Their kernels for 10.0 are of 10.0a, and 12.0 has its own.
        ("rtx 5090", "12.8", "cusparselt==0.7", "0.7.1.0"),
        ("b200", "12.8", "cusparselt==0.7", "0.7.1.0"),
        ("rtx 5090", "12.8", "cudss==0.6", "0.6.0.5"),
        ("rtx 5090", "12.8", "cutensor==2.2", "2.2.0.0"),
        ("rtx 5090", "12.8", "tensorrt==10.8", "10.8.0.43"),
    ] {
        let ran = plan(gpu, cuda, with);
        assert_eq!(ran.code, 0, "{gpu}, {with}: {}", ran.err);
        let (id, _) = with.split_at(with.find(['=', '>']).unwrap_or(with.len()));
        assert_eq!(
            ran.json()["selection"]["add_ons"][id]["version"],
            version,
            "{gpu}, {with}"
        );
    }
}

#[test]
fn the_reason_names_all_capabilities_and_those_that_are_left_out() {
    let ran = plan("rtx 5090", "12.8", "cudss==0.5").json();
    let reasons = ran["reasons"].as_array().expect("reasons");
    let of = reasons
        .iter()
        .find(|r| r["subject"] == "cudss")
        .expect("one of cuDSS");
    let text = of["text"].as_str().expect("a text");
    assert!(
        text.ends_with("runs on compute capability 5.0 to 12.0 without 10.3, 10.7, 11.0"),
        "{text}"
    );
}

#[test]
fn a_gpu_that_it_has_no_kernels_for_is_refused_with_its_capability() {
    for (gpu, with, why) in [
        (
            "b300",
            "cusparselt==0.7",
            "cuSPARSELt 0.7.1.0 does not fit: it has no kernels for 10.3; NVIDIA B300",
        ),
        (
            "b300",
            "tensorrt==10.8",
            "it has no kernels for 10.3; NVIDIA B300",
        ),
        (
            "v100",
            "cusparselt",
            "it needs compute capability 8.0 or higher; Tesla V100",
        ),
        (
            "rtx 5090",
            "cusparselt==0.6",
            "it supports 9.0 at most; NVIDIA GeForce RTX 5090",
        ),
    ] {
        let ran = plan(gpu, "12.9", with);
        assert!(
            ran.code == 4 && ran.err.contains(why),
            "{gpu}, {with}: {} {}",
            ran.code,
            ran.err
        );
    }
}

#[test]
fn each_is_verified_unpacked_into_the_toolkit_and_linked() {
    for (id, library) in [
        ("nccl", "libnccl"),
        ("tensorrt", "libnvinfer"),
        ("cutensor", "libcutensor"),
        ("cusparselt", "libcusparseLt"),
        ("nvshmem", "libnvshmem_host"),
        ("cudss", "libcudss"),
    ] {
        let plan = plan("h100", "12.8", id).json();
        let operations = steps(&plan, &format!("install-{id}"));
        let [download, unpack] = operations.as_slice() else {
            panic!("{id}: {operations:?}")
        };
        assert_eq!(
            (&download["op"], &unpack["op"]),
            (&"download".into(), &"unpack".into())
        );
        assert_eq!(
            (&download["sha256"], &download["to"]),
            (&unpack["sha256"], &unpack["archive"])
        );
        let into = unpack["into"].as_array().expect("places");
        assert!(
            into.iter().all(|p| p["to"]
                .as_str()
                .is_some_and(|to| to.starts_with("/usr/local/cuda-12.8/"))),
            "{id}"
        );
        // By its SONAME, and by the name that compilers ask for.
        let links = steps(&plan, "fix-symlinks");
        let link = format!("/usr/local/cuda-12.8/lib64/{library}.so");
        let target = links
            .iter()
            .find(|o| o["path"] == link.as_str())
            .map(|o| o["target"].as_str().unwrap_or_default());
        assert!(
            target.is_some_and(|soname| soname.starts_with(&format!("{library}.so."))),
            "{id}: {links:?}"
        );
    }
}

#[test]
fn what_is_no_add_on_is_refused_with_those_there_are() {
    for with in ["nccx", "nccl>=", "nccl==2..27"] {
        let ran = plan("h100", "12.8", with);
        assert!(
            ran.code == 2 && ran.err.contains("--with"),
            "{with}: {} {}",
            ran.code,
            ran.err
        );
    }
    assert!(
        plan("h100", "12.8", "nccx")
            .err
            .contains("cudss, cusparselt, cutensor, nccl, nvshmem, tensorrt")
    );
}
