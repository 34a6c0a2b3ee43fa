//! The lock file, as teams use it: `plan --lock` on one host, `--locked` on the others.

use crate::common::Tree;
use crate::schema;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

/// A host with a GPU and a compiler: a toolkit needs no package there.
fn tree() -> Tree {
    Tree::ubuntu_24_04().gpu("0000:17:00.0", "20b2", None).gxx(13)
}

/// The lock file of a toolkit that is not the newest.
fn locked(folder: &Path) -> PathBuf {
    let file = folder.join("lock.json");
    let ran = tree().run(&["plan", "--profile", "toolkit", "--cuda", "12.8.1", "--lock", text(&file)]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    file
}

fn text(path: &Path) -> &str {
    path.to_str().expect("paths of the tests are UTF-8")
}

fn changed(file: &Path, change: impl FnOnce(&mut Value)) -> PathBuf {
    let mut lock: Value = serde_json::from_slice(&fs::read(file).expect("there")).expect("JSON");
    change(&mut lock);
    let path = file.with_file_name("changed.json");
    fs::write(&path, lock.to_string()).expect("written");
    path
}

#[test]
fn a_plan_that_is_held_to_a_lock_file_is_the_same_plan() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = locked(folder.path());
    let lock: Value = serde_json::from_slice(&fs::read(&file).expect("there")).expect("JSON");
    assert_eq!(schema::mistakes("lock.json", &lock), [""; 0]);
    assert_eq!((&lock["selection"]["cuda"]["version"], &lock["selection"]["driver"]), (&"12.8.1".into(), &Value::Null));
    assert_eq!(lock["artifacts"].as_array().map(Vec::len), Some(2), "a runfile and an archive: {lock}");
    let free = tree().run(&["plan", "--profile", "toolkit", "--json"]).json();
    assert_ne!(free["selection"], lock["selection"], "without it something newer is chosen");
    let held = tree().run(&["plan", "--locked", text(&file), "--json"]).json();
    assert_eq!(held["selection"], lock["selection"]);
    // Written again from that it is the same, byte for byte.
    let again = folder.path().join("again.json");
    tree().run(&["plan", "--locked", text(&file), "--lock", text(&again)]);
    assert_eq!(fs::read(&file).expect("there"), fs::read(&again).expect("there"));
}

#[test]
fn components_are_locked_with_what_they_need() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (file, again) = (folder.path().join("lock.json"), folder.path().join("again.json"));
    let ask = ["plan", "--profile", "toolkit", "--cuda", "13.0.2", "--cudnn", "none", "--lock"];
    let ran = tree().run(&[&ask[..], &[text(&file), "--components", "nvcc"]].concat());
    assert_eq!(ran.code, 0, "{}", ran.err);
    let lock: Value = serde_json::from_slice(&fs::read(&file).expect("there")).expect("JSON");
    assert_eq!(schema::mistakes("lock.json", &lock), [""; 0]);
    assert_eq!(lock["artifacts"].as_array().map(Vec::len), Some(5), "{lock}");
    let held = tree().run(&["plan", "--locked", text(&file), "--lock", text(&again), "--json"]).json();
    assert_eq!(held["selection"], lock["selection"]);
    assert_eq!(fs::read(&file).expect("there"), fs::read(&again).expect("there"));
}

#[test]
fn a_lock_file_comes_before_the_configuration() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = locked(folder.path());
    let config = folder.path().join("config.yaml");
    fs::write(&config, "toolkit-method: repository\n").expect("written");
    let plan = |more: &[&str]| tree().run(&[&["plan", "--config", text(&config), "--json"], more].concat());
    assert_eq!(plan(&["--profile", "toolkit"]).json()["selection"]["cuda"]["method"], "repository");
    let held = plan(&["--locked", text(&file)]).json();
    assert_eq!(held["selection"]["cuda"], serde_json::json!({"version": "12.8.1"}));
}

/// What is changed in a lock file.
type Change<'a> = &'a dyn Fn(&mut Value);

#[test]
fn what_is_not_as_it_was_locked_is_said() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = locked(folder.path());
    let plan = |file: &Path, more: &[&str]| {
        let arguments = [&["plan", "--locked", text(file)], more].concat();
        tree().run(&arguments)
    };
    let cases: [(Change, u8, &str); 7] = [
        (&|l| l["artifacts"][0]["sha256"] = "0".repeat(64).into(), 10, "has the SHA-256 000"),
        (&|l| l["artifacts"] = Value::Array(Vec::new()), 4, "is not in the lock file"),
        (&|l| l["selection"]["cuda"]["version"] = "12.8.9".into(), 4, "12.8.9"),
        (&|l| l["system"]["arch"] = "aarch64".into(), 4, "on aarch64, but this host is ubuntu 24.04 on x86_64"),
        (&|l| l["packages"]["gcc"] = "1".into(), 0, ""),
        (&|l| l["packages"]["gcc"] = "1\nPin-Priority: 1001".into(), 2, "is not a valid package"),
        (&|l| l["schema"] = "gpusetup.lock/9".into(), 2, "gpusetup.lock/9"),
    ];
    for (change, code, sentence) in cases {
        let ran = plan(&changed(&file, change), &[]);
        assert!(
            ran.code == i32::from(code) && ran.err.contains(sentence),
            "{code} {sentence}: {} {}",
            ran.code,
            ran.err
        );
    }
    let elsewhere = changed(&file, |l| {
        l["packages"]["gcc"] = "1".into();
        l["system"]["version"] = "22.04".into();
    });
    assert_eq!(plan(&elsewhere, &[]).code, 4, "packages are of a release");
    let twice = plan(&file, &["--cuda", "13"]);
    assert!(twice.code == 2 && twice.err.contains("--cuda"), "{}", twice.err);
    fs::write(&file, "{").expect("written");
    assert_eq!(plan(&file, &[]).code, 2);
}
