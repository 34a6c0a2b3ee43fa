//! Companions of the driver that the user asks for: `--with dcgm`. What apt makes of it is tested in `tests/as_root/companions.rs`.

use crate::common::{run, run_with_input};
use crate::schema;
use serde_json::{Value, json};

/// The operations of a step.
fn operations<'a>(plan: &'a Value, step: &str) -> Vec<&'a Value> {
    let steps = plan["steps"].as_array().expect("steps").iter().filter(|s| s["id"] == step);
    steps.flat_map(|s| s["operations"].as_array().expect("operations")).collect()
}

fn wish<'a>(os: &'a str, gpu: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&["plan", "--os", os, "--gpu", gpu, "--profile", "driver", "--with", "dcgm"], more].concat()
}

/// The packages of DCGM that a plan installs.
fn packages(plan: &Value) -> Vec<&str> {
    let steps = ["install-driver", "companions"].into_iter().flat_map(|step| operations(plan, step));
    let names = steps.filter_map(|act| act["install"].as_array()).flatten().filter_map(Value::as_str);
    names.filter(|name| name.starts_with("datacenter-gpu-manager")).collect()
}

fn of_cuda(major: u8) -> Vec<String> {
    let name = |of: &str| format!("datacenter-gpu-manager-4-{of}");
    vec![name(&format!("cuda{major}")), name("proprietary"), name(&format!("proprietary-cuda{major}"))]
}

#[test]
fn dcgm_comes_from_nvidias_repository_and_is_started() {
    for (os, driver) in [
        ("ubuntu-22.04", ["--method", "packages"]),
        ("ubuntu-24.04", ["--method", "runfile"]),
        ("debian-12", ["--method", "runfile"]),
        ("debian-12", ["--method", "repository"]),
        ("rocky-9", ["--method", "repository"]),
        ("rhel-8", ["--method", "runfile"]),
        ("amzn-2023", ["--method", "repository"]),
        ("sles-15", ["--method", "repository"]),
    ] {
        let plan = run(&wish(os, "a100", &[&driver[..], &["--json"]].concat())).json();
        assert_eq!(schema::mistakes("plan.json", &plan), [""; 0], "{os}");
        let [added] = operations(&plan, "add-repository")[..] else { panic!("{os}: {plan}") };
        assert!(added["any_version"].to_string().contains("datacenter-gpu-manager-4-*"), "{os}: {added}");
        let branch: u16 = plan["selection"]["driver"]["branch"].as_str().expect("a branch").parse().expect("a number");
        let major = if branch < 525 {
            11
        } else if branch < 580 {
            12
        } else {
            13
        };
        assert_eq!(packages(&plan), of_cuda(major), "{os}: driver {branch}");
        let started = operations(&plan, "companions").into_iter().find(|act| act["op"] == "service").expect("a unit");
        assert_eq!((&started["unit"], &started["enabled"]), (&json!("nvidia-dcgm.service"), &json!(true)), "{os}");
        // Its version is not the driver's: neither is held.
        assert!(operations(&plan, "companions").iter().all(|act| act["op"] != "hold"), "{os}: {plan}");
    }
    // Volta cannot run what is built with CUDA 13.
    let volta = run(&wish("ubuntu-24.04", "v100", &["--driver", "580", "--json"])).json();
    assert_eq!(packages(&volta), of_cuda(12));
    // Beside NVSwitches, Fabric Manager keeps the driver's version; DCGM does not.
    let joined = run(&wish("ubuntu-22.04", "10de:20b2x8", &["--json"])).json();
    let held = operations(&joined, "companions").into_iter().find(|act| act["op"] == "hold").expect("a hold");
    let units = operations(&joined, "companions").into_iter().filter_map(|act| act["unit"].as_str());
    assert_eq!(units.collect::<Vec<_>>(), ["nvidia-fabricmanager.service", "nvidia-dcgm.service"]);
    assert!(!held.to_string().contains("datacenter"), "{held}");
}

#[test]
fn dcgm_that_cannot_be_had_is_refused_with_the_reason() {
    for (os, gpu, more, parts) in [
        ("ubuntu-26.04", "a100", vec![], vec!["ubuntu2404", "Ubuntu 26.04"]),
        ("debian-13", "a100", vec!["--method", "repository"], vec!["debian12", "Debian"]),
        ("ubuntu-22.04", "gtx 780", vec!["--driver", "390"], vec!["450"]),
    ] {
        let said = run(&wish(os, gpu, &more));
        assert_eq!(said.code, 2, "{os}: {}", said.err);
        for part in [&["DCGM", "--with dcgm"], &parts[..]].concat() {
            assert!(said.err.contains(part), "{part}: {}", said.err);
        }
    }
    let versioned = run(&["plan", "--os", "ubuntu-24.04", "--gpu", "a100", "--with", "dcgm==4.5"]);
    assert_eq!(versioned.code, 2, "{}", versioned.err);
    assert!(versioned.err.contains("DCGM") && versioned.err.contains("--with dcgm"), "{}", versioned.err);
    let unknown = run(&["plan", "--os", "ubuntu-24.04", "--gpu", "a100", "--with", "dcgmi"]);
    assert!(unknown.err.contains("known add-ons: ") && unknown.err.contains("dcgm"), "{}", unknown.err);
}

#[test]
fn what_runs_already_starts_again_with_another_driver() {
    let mut facts = run(&wish("ubuntu-24.04", "a100", &["--json"])).json()["host"].take();
    facts["companions"] = json!([{ "id": "dcgm", "version": "4.4.1", "enabled": true }]);
    let plan = |more: &[&str]| {
        let own = ["plan", "--facts", "-", "--profile", "driver", "--json"];
        run_with_input(&[&own[..], more].concat(), &facts.to_string()).json()
    };
    let new = plan(&[]);
    let stopped = |plan: &Value| {
        let acts = operations(plan, "install-driver").into_iter().filter(|act| act["unit"] == "nvidia-dcgm.service");
        acts.map(|act| act["enabled"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(stopped(&new), [json!(false)]);
    let [started] =
        operations(&new, "companions").into_iter().filter(|act| act["op"] == "service").collect::<Vec<_>>()[..]
    else {
        panic!("{new}")
    };
    assert_eq!((&started["unit"], started.get("satisfied")), (&json!("nvidia-dcgm.service"), None));
    assert_eq!((packages(&new), packages(&plan(&["--with", "dcgm"]))), (vec![], vec![]));
}

#[test]
fn a_plan_without_a_driver_leaves_dcgm_out_with_a_line() {
    let said = run(&["plan", "--os", "ubuntu-24.04", "--gpu", "a100", "--profile", "toolkit", "--with", "dcgm"]);
    assert_eq!(said.code, 0, "{}", said.err);
    assert!(said.out.contains("Set up DCGM (left out: this plan chooses no driver)"), "{}", said.out);
}

#[test]
fn cloud_init_and_lock_files_keep_the_request() {
    let cloud = run(&wish("ubuntu-24.04", "a100", &["--format", "cloud-init"]));
    assert!(cloud.out.contains("with: \"dcgm\"") || cloud.out.contains("with: dcgm"), "{}", cloud.out);
}
