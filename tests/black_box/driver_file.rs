//! `--driver-file`: a virtual GPU gets the guest driver that the user has, and nothing else is run
//! in its place.

use crate::common::{Ran, Tree, run_with_input, text};
use gpusetup::plan::{Plan, StepId};
use serde_json::{Value, json};
use std::fs;
use std::path::PathBuf;

/// A guest driver: a script that leaves a mark.
const GUEST: &str = "NVIDIA-Linux-x86_64-570.211.01-grid-azure.run";

/// A guest with a part of an A10.
fn guest(tree: &Tree) -> Value {
    let mut facts = tree.run(&["facts", "--json", "--gpu", "10de:2236"]).json();
    facts["gpus"][0]["address"] = json!("0002:00:00.0");
    facts["gpus"][0]["assumed"] = json!(false);
    facts["gpus"][0]["subsystem"] = json!("10de:14be");
    facts
}

fn file(tree: &Tree, name: &str) -> PathBuf {
    let path = tree.path().join(name);
    fs::write(&path, "touch \"$0.ran\"\n").expect("written");
    path
}

fn plan(facts: &Value, arguments: &[&str]) -> Ran {
    let common = ["plan", "--facts", "-", "--json"];
    run_with_input(
        &common.iter().chain(arguments).copied().collect::<Vec<_>>(),
        &facts.to_string(),
    )
}

#[test]
fn a_virtual_gpu_gets_the_guest_driver_and_the_toolkit_that_fits_it() {
    let tree = Tree::ubuntu_24_04();
    let facts = guest(&tree);
    let shown = tree.run(&["facts", "--gpu", "10de:2236:10de:14be"]).out;
    assert!(
        shown.contains("NVIDIA A10 [10de:2236], a virtual GPU (vGPU)"),
        "{shown}"
    );
    let path = file(&tree, GUEST);
    let given = plan(&facts, &["--driver-file", &path.display().to_string()]).json();
    assert_eq!(text(&given["selection"], "/driver/version"), "570.211.01");
    assert_eq!(text(&given["selection"], "/driver/method"), "runfile");
    assert!(
        text(&given["selection"], "/cuda/version").starts_with("12.8."),
        "{}",
        given["selection"]
    );
    let steps = given["steps"].as_array().expect("steps");
    let driver = steps
        .iter()
        .find(|step| step["id"] == "install-driver")
        .expect("a step");
    let operations = driver["operations"].as_array().expect("operations");
    assert_eq!(
        text(&operations[0], "/url"),
        format!("file://{}", path.display())
    );
    assert_eq!(operations[1]["argv"][2], "--silent");
    assert!(text(&given, "/request/driver_file/file") == GUEST);

    // The content is part of the plan.
    fs::write(&path, "other").expect("written");
    let other = plan(&facts, &["--driver-file", &path.display().to_string()]).json();
    assert_ne!(given["fingerprint"], other["fingerprint"]);
    // It is installed already: nothing to do for it.
    let mut installed = facts.clone();
    installed["driver"] = json!({"version": "570.211.01", "origin": "runfile", "evidence": "nvidia-installer", "modules": "open"});
    let kept = plan(&installed, &["--driver-file", &path.display().to_string()]).json();
    let driver = kept["steps"]
        .as_array()
        .expect("steps")
        .iter()
        .find(|step| step["id"] == "install-driver")
        .cloned();
    assert_eq!(driver.expect("a step")["state"], "satisfied");
}

#[test]
fn what_does_not_fit_a_virtual_gpu_or_the_host_is_refused() {
    let tree = Tree::ubuntu_24_04();
    let facts = guest(&tree);
    let refused = |name: &str, more: &[&str]| {
        let path = file(&tree, name).display().to_string();
        let ran = plan(&facts, &[&["--driver-file", path.as_str()], more].concat());
        (ran.code, format!("{}{}", ran.out, ran.err))
    };
    for (name, more, code, says) in [
        (
            "NVIDIA-Linux-x86_64-570.211.01.run",
            &[][..],
            4,
            "ends in -grid.run",
        ),
        (
            "NVIDIA-Linux-aarch64-570.211.01-grid.run",
            &[],
            4,
            "is a driver for aarch64",
        ),
        (
            "NVIDIA-Linux-x86_64-999.10.01-grid.run",
            &[],
            4,
            "does not know",
        ),
        (GUEST, &["--driver", "580"], 4, "--driver 580 was requested"),
        (GUEST, &["--method", "packages"], 4, "packages"),
        (GUEST, &["--profile", "toolkit"], 2, "leaves the driver out"),
        (
            "NVIDIA-Linux-x86_64-570.211.01-vgpu-kvm.run",
            &[],
            2,
            "hypervisor",
        ),
        ("driver.run", &[], 2, "name"),
    ] {
        let (found, ran) = refused(name, more);
        assert_eq!(found, code, "{name} {more:?}: {ran}");
        assert!(ran.contains(says), "{name} {more:?}: {ran}");
    }
    let without = plan(&facts, &[]);
    assert!(
        without.out.contains("--driver-file"),
        "{}{}",
        without.out,
        without.err
    );
    // Another GPU takes a guest driver, too: clouds give it to guests with whole GPUs.
    let mut whole = facts;
    whole["gpus"][0]["subsystem"] = json!("10de:1482");
    let path = file(&tree, GUEST).display().to_string();
    assert_eq!(plan(&whole, &["--driver-file", &path]).code, 0);
}

#[test]
fn a_licence_token_is_placed_and_shown_nowhere() {
    const TOKEN: &str = "eyJhbGciOiJSUzI1NiJ9.eyJqdGkiOiJ0ZXN0In0.c2VjcmV0";
    let tree = Tree::ubuntu_24_04();
    let facts = guest(&tree);
    let driver = file(&tree, GUEST).display().to_string();
    let token = tree.path().join("my token.tok");
    fs::write(&token, TOKEN).expect("written");
    let given = token.display().to_string();
    let asked = ["--driver-file", &driver, "--vgpu-token", &given];
    let planned = plan(&facts, &asked).json();
    let steps = planned["steps"].as_array().expect("steps");
    let step = steps
        .iter()
        .find(|step| step["id"] == "vgpu-licence")
        .expect("a step")
        .clone();
    let operations: Vec<_> = step["operations"]
        .as_array()
        .expect("operations")
        .iter()
        .map(|o| text(o, "/op"))
        .collect();
    assert_eq!(operations[..2], ["copy-file", "service"], "{step}");
    let shown = run_with_input(
        &[
            "plan",
            "--facts",
            "-",
            "--verbose",
            "--driver-file",
            &driver,
            "--vgpu-token",
            &given,
        ],
        &facts.to_string(),
    );
    let script = run_with_input(
        &[
            "plan",
            "--facts",
            "-",
            "--format",
            "sh",
            "--driver-file",
            &driver,
            "--vgpu-token",
            &given,
        ],
        &facts.to_string(),
    );
    assert!(
        script.out.contains("install -m 0744 ") && shown.code == 0,
        "{}",
        script.out
    );
    for text in [planned.to_string(), shown.out, shown.err, script.out] {
        assert!(!text.contains("c2VjcmV0"), "{text}");
    }

    // Only the copy: the daemon is the driver's.
    let mut only: Plan = serde_json::from_value(planned).expect("a plan");
    only.host = serde_json::from_value(tree.run(&["facts", "--json"]).json()).expect("facts");
    only.steps.retain(|step| step.id == StepId::VgpuLicence);
    only.steps[0].operations.truncate(1);
    let saved = tree.path().join("plan.json");
    fs::write(&saved, serde_json::to_string(&only).expect("JSON")).expect("written");
    let apply = || {
        tree.run(&[
            "apply",
            &saved.display().to_string(),
            "--yes",
            "--accept-eula",
        ])
    };
    fs::write(&token, "eyJ.changed.since").expect("written");
    let refused = apply();
    assert!(
        refused.code != 0 && refused.err.contains("changed since the plan was made"),
        "{}",
        refused.err
    );
    fs::write(&token, TOKEN).expect("written");
    let applied = apply();
    assert_eq!(applied.code, 0, "{}{}", applied.out, applied.err);
    let copy = tree
        .path()
        .join("etc/nvidia/ClientConfigToken/client_configuration_token.tok");
    assert_eq!(fs::read_to_string(&copy).expect("a copy"), TOKEN);
    let journal =
        fs::read_to_string(tree.path().join("var/lib/gpusetup/journal")).expect("a journal");
    assert!(!journal.contains("c2VjcmV0"));
    assert_eq!(tree.run(&["rollback", "--yes"]).code, 0);
    assert!(!copy.exists());

    fs::write(&token, "not a token").expect("written");
    let refused = plan(&facts, &asked);
    assert!(
        refused.code == 2 && refused.err.contains("is no client configuration token"),
        "{}",
        refused.err
    );
    fs::write(&token, TOKEN).expect("written");
    let whole = tree.run(&["facts", "--json", "--gpu", "a10"]).json();
    let refused = plan(&whole, &["--vgpu-token", &given]);
    assert!(
        refused.code == 5 && refused.err.contains("no guest driver"),
        "{}{}",
        refused.out,
        refused.err
    );
}
