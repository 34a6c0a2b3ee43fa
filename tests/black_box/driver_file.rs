//! `--driver-file`: a virtual GPU gets the guest driver that the user has, and nothing else is run in its place.

use crate::common::{Ran, Tree, run_with_input, text};
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
    run_with_input(&common.iter().chain(arguments).copied().collect::<Vec<_>>(), &facts.to_string())
}

#[test]
fn a_virtual_gpu_gets_the_guest_driver_and_the_toolkit_that_fits_it() {
    let tree = Tree::ubuntu_24_04();
    let facts = guest(&tree);
    let path = file(&tree, GUEST);
    let given = plan(&facts, &["--driver-file", &path.display().to_string()]).json();
    assert_eq!(text(&given["selection"], "/driver/version"), "570.211.01");
    assert_eq!(text(&given["selection"], "/driver/method"), "runfile");
    assert!(text(&given["selection"], "/cuda/version").starts_with("12.8."), "{}", given["selection"]);
    let steps = given["steps"].as_array().expect("steps");
    let driver = steps.iter().find(|step| step["id"] == "install-driver").expect("a step");
    let operations = driver["operations"].as_array().expect("operations");
    assert_eq!(text(&operations[0], "/url"), format!("file://{}", path.display()));
    assert_eq!(operations[1]["argv"][2], "--silent");
    assert!(text(&given, "/request/driver_file/file") == GUEST);

    // The content is part of the plan.
    fs::write(&path, "other").expect("written");
    let other = plan(&facts, &["--driver-file", &path.display().to_string()]).json();
    assert_ne!(given["fingerprint"], other["fingerprint"]);
    // It is installed already: nothing to do for it.
    let mut installed = facts.clone();
    installed["driver"] =
        json!({"version": "570.211.01", "origin": "runfile", "evidence": "nvidia-installer", "modules": "open"});
    let kept = plan(&installed, &["--driver-file", &path.display().to_string()]).json();
    let driver = kept["steps"].as_array().expect("steps").iter().find(|step| step["id"] == "install-driver").cloned();
    assert_eq!(driver.expect("a step")["state"], "satisfied");
}

#[test]
fn what_does_not_fit_a_virtual_gpu_or_the_host_is_refused() {
    let tree = Tree::ubuntu_24_04();
    let facts = guest(&tree);
    let refused = |name: &str, more: &[&str]| {
        let path = file(&tree, name).display().to_string();
        let said = plan(&facts, &[&["--driver-file", path.as_str()], more].concat());
        (said.code, format!("{}{}", said.out, said.err))
    };
    for (name, more, code, says) in [
        ("NVIDIA-Linux-x86_64-570.211.01.run", &[][..], 4, "ends in -grid.run"),
        ("NVIDIA-Linux-aarch64-570.211.01-grid.run", &[], 4, "is a driver for aarch64"),
        ("NVIDIA-Linux-x86_64-999.10.01-grid.run", &[], 4, "does not know"),
        (GUEST, &["--driver", "580"], 4, "--driver 580 was requested"),
        (GUEST, &["--method", "packages"], 4, "packages"),
        (GUEST, &["--profile", "toolkit"], 2, "leaves the driver out"),
        ("NVIDIA-Linux-x86_64-570.211.01-vgpu-kvm.run", &[], 2, "hypervisor"),
        ("driver.run", &[], 2, "name"),
    ] {
        let (found, said) = refused(name, more);
        assert_eq!(found, code, "{name} {more:?}: {said}");
        assert!(said.contains(says), "{name} {more:?}: {said}");
    }
    let without = plan(&facts, &[]);
    assert!(without.out.contains("--driver-file"), "{}{}", without.out, without.err);
    // Another GPU takes a guest driver, too: clouds give it to guests with whole GPUs.
    let mut whole = facts;
    whole["gpus"][0]["subsystem"] = json!("10de:1482");
    let path = file(&tree, GUEST).display().to_string();
    assert_eq!(plan(&whole, &["--driver-file", &path]).code, 0);
}
