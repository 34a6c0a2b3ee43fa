//! The lock file, as teams use it: `plan --lock` on one host, `--locked` on the others.

#[path = "common/mod.rs"]
mod common;
#[path = "host/mod.rs"]
mod host;
#[path = "support/schema.rs"]
mod schema;
#[path = "support/short.rs"]
mod short;

use common::Tree;
use host::{Host, gpusetup, text};
use serde_json::Value;
use short::{Deb, deb};
use std::fs;
use std::path::{Path, PathBuf};

/// A host with a GPU and a compiler: a toolkit needs no package there.
fn tree() -> Tree {
    Tree::ubuntu_24_04().gpu("0000:17:00.0", "20b2", None)
}

/// The lock file of a toolkit that is not the newest.
fn locked(folder: &Path) -> PathBuf {
    let file = folder.join("lock.json");
    let ran = tree().run(&["plan", "--profile", "toolkit", "--cuda", "12.8.1", "--lock", text(&file)]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    file
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
        (&|l| l["artifacts"][0]["sha256"] = "0".repeat(64).into(), 10, "had the SHA-256 000"),
        (&|l| l["artifacts"] = Value::Array(Vec::new()), 4, "is not in it"),
        (&|l| l["selection"]["cuda"]["version"] = "12.8.9".into(), 4, "12.8.9"),
        (&|l| l["system"]["arch"] = "aarch64".into(), 4, "on aarch64, and this host is ubuntu 24.04 on x86_64"),
        (&|l| l["packages"]["gcc"] = "1".into(), 0, ""),
        (&|l| l["packages"]["gcc"] = "1\nPin-Priority: 1001".into(), 2, "is no package"),
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

/// The driver's packages as a repository has them in these versions, the oldest first; one comes along with them. Others are
/// there as the host has them, where it has.
fn offer(host: &Host, names: &[String], versions: &[&str]) {
    let together: Vec<_> = versions.iter().map(|v| format!("nvidia-part (= {v})")).collect();
    let mut debs = Vec::new();
    let installed: Vec<_> =
        names.iter().map(|name| host.ask(&format!("dpkg-query -W -f '${{Version}}' {name} || true"))).collect();
    for (name, installed) in names.iter().zip(&installed) {
        if !name.contains("nvidia") {
            debs.push(if installed.is_empty() { deb(name, ":") } else { Deb { version: installed, ..deb(name, ":") } });
            continue;
        }
        debs.extend(versions.iter().zip(&together).map(|(v, d)| Deb { version: v, depends: d, ..deb(name, ":") }));
    }
    debs.extend(versions.iter().map(|v| Deb { version: v, ..deb("nvidia-part", ":") }));
    short::offer(host, &debs);
}

/// The packages that a plan would install.
fn wanted(plan: &Value) -> Vec<String> {
    let steps = plan["steps"].as_array().expect("steps");
    let operations = steps.iter().flat_map(|s| s["operations"].as_array().expect("operations"));
    let names = operations.filter(|o| o["op"] == "packages").flat_map(|o| o["install"].as_array().expect("names"));
    names.map(|n| n.as_str().expect("a name").to_owned()).collect()
}

#[test]
#[ignore = "needs root and a throw-away host: tests/run runs it"]
fn packages_come_in_the_locked_versions_or_not_at_all() {
    const OLD: &str = "535.261.03-1~deb12u1";
    const NEW: &str = "535.309.01-1~deb12u1";
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("lock.json");
    let plan = ["plan", "--gpu", "t4", "--profile", "driver", "--json"];
    let by_packages = [&plan[..], &["--method", "packages", "--driver", "535"]].concat();
    let locked = [&plan[..], &["--locked", text(&file)]].concat();
    let apply = ["apply", "--gpu", "t4", "--profile", "driver", "--yes", "--locked", text(&file)];
    let first = Host::new("locked");
    let names = wanted(&first.gpusetup_plain(&by_packages).succeeds().json());
    let version = |host: &Host, name: &str| {
        let query = format!("dpkg-query -W -f '${{db:Status-Status}} ${{Version}}' {name} 2>/dev/null || true");
        host.ask(&query).trim().to_owned()
    };
    let driver = names.iter().find(|n| n.contains("nvidia")).expect("one of the driver's").as_str();

    // The host that the lock file is made on has nothing else.
    offer(&first, &names, &[OLD]);
    first.gpusetup_plain(&[&by_packages[..], &["--lock", text(&file)]].concat()).succeeds();
    let lock: Value = serde_json::from_slice(&fs::read(&file).expect("there")).expect("JSON");
    assert_eq!(schema::mistakes("lock.json", &lock), [""; 0]);
    assert_eq!(lock["packages"]["nvidia-part"], OLD, "what comes along is locked too: {lock}");
    assert!(names.iter().all(|n| lock["packages"][n].is_string()), "{lock}");

    // Another one, to which something newer has come.
    let second = Host::new("locked-later");
    offer(&second, &names, &[OLD, NEW]);
    let free = second.gpusetup_plain(&by_packages).succeeds().json();
    assert_eq!(free["selection"]["driver"]["version"], "535.309.01");
    let held = second.gpusetup_plain(&locked).succeeds().json();
    assert_eq!(held["selection"]["driver"]["version"], "535.261.03");
    // A bundle of a locked plan has what was locked, for a host that has no repository at all.
    let (plan_file, bundle) = (folder.path().join("plan.json"), folder.path().join("bundle"));
    second.gpusetup_plain(&[&locked[..], &["--out", text(&plan_file)]].concat()).succeeds();
    let root = second.root();
    gpusetup(["bundle", "create", "--root", text(&root), "--plan", text(&plan_file), "-o", text(&bundle)]).succeeds();
    let said = second.gpusetup_plain(&apply);
    // These packages have no kernel module in them, and gpusetup asks the host for one at its end.
    assert_eq!(said.code, Some(8), "{said:?}");
    for name in [driver, "nvidia-part"] {
        assert_eq!(version(&second, name), format!("installed {OLD}"));
    }
    assert!(!second.path("/var/lib/gpusetup/pins").exists());
    // As it was locked, and yet something newer is there to be had.
    let again = second
        .gpusetup_plain(&[&plan[..], &["--locked", text(&file), "--lock", text(&folder.path().join("2"))]].concat());
    again.succeeds();
    let second_lock: Value = serde_json::from_slice(&fs::read(folder.path().join("2")).expect("there")).expect("JSON");
    assert_eq!(second_lock["packages"]["nvidia-part"], OLD);
    second.gpusetup_plain(&["rollback", "--yes"]).succeeds();
    assert_eq!(version(&second, driver), "");

    let offline = Host::new("locked-offline");
    offline.ask("rm -r /etc/apt/sources.list* /var/lib/apt/lists; mkdir -p /var/lib/apt/lists/partial");
    let said = offline.gpusetup_under(&["unshare", "--net"], &[&apply[..], &["--bundle", text(&bundle)]].concat());
    assert_eq!(said.code, Some(8), "no kernel module in these either: {said:?}");
    for name in [driver, "nvidia-part"] {
        assert_eq!(version(&offline, name), format!("installed {OLD}"));
    }

    // A third one, where the locked version is gone: of all packages, and of what comes along alone.
    let third = Host::new("locked-gone");
    offer(&third, &names, &[NEW]);
    let said = third.gpusetup_plain(&apply);
    assert!(said.code == Some(4) && said.err.contains("535.261.03"), "{said:?}");
    let fourth = Host::new("locked-half-gone");
    offer(&fourth, &names, &[OLD, NEW]);
    let kept = changed(&file, |l| l["packages"]["nvidia-part"] = "535.261.02-9".into());
    let said = fourth.gpusetup_plain(&[&apply[..apply.len() - 1], &[text(&kept)]].concat());
    assert!(said.code == Some(4) && said.err.contains("nvidia-part 535.261.02-9 (no repository has it)"), "{said:?}");
    for host in [&third, &fourth] {
        assert_eq!(version(host, driver), "", "nothing was changed");
    }
}
