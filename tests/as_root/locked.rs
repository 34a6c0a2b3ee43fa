//! One host's lock file applied to another, with packages made for it: `plan --lock` there,
//! `--locked` here. The rest of the lock file's tests is in `tests/black_box/locked.rs`.

use crate::host::{Host, gpusetup, text};
use crate::schema;
use crate::short::{self, Deb, deb};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

fn changed(file: &Path, change: impl FnOnce(&mut Value)) -> PathBuf {
    let mut lock: Value = serde_json::from_slice(&fs::read(file).expect("there")).expect("JSON");
    change(&mut lock);
    let path = file.with_file_name("changed.json");
    fs::write(&path, lock.to_string()).expect("written");
    path
}

/// The driver's packages as a repository has them in these versions, the oldest first; one is a
/// dependency. Others are there as the host has them, where it has.
pub fn offer(host: &Host, names: &[String], versions: &[&str]) {
    let together: Vec<_> = versions
        .iter()
        .map(|v| format!("nvidia-part (= {v})"))
        .collect();
    let mut debs = Vec::new();
    let installed: Vec<_> = names
        .iter()
        .map(|name| host.ask(&format!("dpkg-query -W -f '${{Version}}' {name} || true")))
        .collect();
    for (name, installed) in names.iter().zip(&installed) {
        if !name.contains("nvidia") {
            debs.push(if installed.is_empty() {
                deb(name, ":")
            } else {
                Deb {
                    version: installed,
                    ..deb(name, ":")
                }
            });
            continue;
        }
        debs.extend(versions.iter().zip(&together).map(|(v, d)| Deb {
            version: v,
            depends: d,
            ..deb(name, ":")
        }));
    }
    debs.extend(versions.iter().map(|v| Deb {
        version: v,
        ..deb("nvidia-part", ":")
    }));
    short::offer(host, &debs);
}

/// The packages that a plan would install.
pub fn wanted(plan: &Value) -> Vec<String> {
    let steps = plan["steps"].as_array().expect("steps");
    let operations = steps
        .iter()
        .flat_map(|s| s["operations"].as_array().expect("operations"));
    let names = operations
        .filter(|o| o["op"] == "packages")
        .flat_map(|o| o["install"].as_array().expect("names"));
    names
        .map(|n| n.as_str().expect("a name").to_owned())
        .collect()
}

#[test]
#[ignore = "needs root and a throw-away host: tests/run runs it"]
fn another_driver_than_the_planned_one_is_not_installed() {
    const OLD: &str = "535.261.03-1~deb12u1";
    const NEW: &str = "535.309.01-1~deb12u1";
    let plan = [
        "plan",
        "--gpu",
        "t4",
        "--profile",
        "driver",
        "--method",
        "packages",
        "--driver",
        "535",
        "--json",
    ];
    let host = Host::new("planned-before");
    let names = wanted(&host.gpusetup_plain(&plan).succeeds().json());
    let driver = names
        .iter()
        .find(|n| n.contains("nvidia"))
        .expect("one of the driver's")
        .as_str();
    let version = || {
        host.ask(&format!(
            "dpkg-query -W -f '${{db:Status-Status}} ${{Version}}' {driver} 2>/dev/null || true"
        ))
    };
    offer(&host, &names, &[OLD]);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("plan.json");
    host.gpusetup_plain(&[&plan[..], &["--out", text(&file)]].concat())
        .succeeds();
    // The lists are as new as the packages, and then there are none: both are seen before the
    // driver comes.
    offer(&host, &names, &[NEW]);
    let before = host.ask("dpkg-query -W");
    let ran = host.gpusetup_plain(&["apply", text(&file), "--yes", "--accept-eula"]);
    assert_eq!(ran.code, Some(5), "{ran:?}");
    for part in ["535.261.03", "535.309.01", "gpusetup plan"] {
        assert!(ran.err.contains(part), "{part}: {ran:?}");
    }
    assert_eq!(host.ask("dpkg-query -W"), before, "nothing was changed");
    host.ask("rm -r /var/lib/apt/lists; mkdir -p /var/lib/apt/lists/partial");
    let ran = host.gpusetup_plain(&["apply", text(&file), "--yes", "--accept-eula"]);
    assert!(
        ran.code == Some(5) && ran.err.contains("535.309.01"),
        "{ran:?}"
    );
    assert_eq!(version().trim(), "");
    // A plan that is made again is for what is there; its packages have no kernel module in them.
    host.gpusetup_plain(&[&plan[..], &["--out", text(&file)]].concat())
        .succeeds();
    assert_eq!(
        host.gpusetup_plain(&["apply", text(&file), "--yes", "--accept-eula"])
            .code,
        Some(8)
    );
    assert_eq!(version().trim(), format!("installed {NEW}"));
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
    let apply = [
        "apply",
        "--gpu",
        "t4",
        "--profile",
        "driver",
        "--yes",
        "--accept-eula",
        "--locked",
        text(&file),
    ];
    let first = Host::new("locked");
    let names = wanted(&first.gpusetup_plain(&by_packages).succeeds().json());
    let version = |host: &Host, name: &str| {
        let query = format!(
            "dpkg-query -W -f '${{db:Status-Status}} ${{Version}}' {name} 2>/dev/null || true"
        );
        host.ask(&query).trim().to_owned()
    };
    let driver = names
        .iter()
        .find(|n| n.contains("nvidia"))
        .expect("one of the driver's")
        .as_str();

    // The host that the lock file is made on has nothing else.
    offer(&first, &names, &[OLD]);
    let lock_inside = |host: &Host, plan: &[&str]| {
        host.gpusetup_inside(&[plan, &["--lock", "/root/lock.json"]].concat())
            .succeeds();
        fs::read(host.path("/root/lock.json")).expect("there")
    };
    fs::write(&file, lock_inside(&first, &by_packages)).expect("written");
    let lock: Value = serde_json::from_slice(&fs::read(&file).expect("there")).expect("JSON");
    assert_eq!(schema::mistakes("lock.json", &lock), [""; 0]);
    assert_eq!(
        lock["packages"]["nvidia-part"], OLD,
        "dependencies are locked too: {lock}"
    );
    assert!(
        names.iter().all(|n| lock["packages"][n].is_string()),
        "{lock}"
    );
    // From outside no program of the host is asked: the packages named are known, and that it is
    // not all of them is said.
    let outside = first
        .gpusetup_plain(&[&by_packages[..], &["--lock", text(&file)]].concat())
        .succeeds();
    assert!(
        outside.err.contains("not what they depend on"),
        "{}",
        outside.err
    );
    let named: Value = serde_json::from_slice(&fs::read(&file).expect("there")).expect("JSON");
    assert_eq!(named["packages"][driver], OLD);
    assert!(named["packages"]["nvidia-part"].is_null(), "{named}");
    fs::write(&file, lock.to_string()).expect("written");

    // Another one, to which something newer has come.
    let second = Host::new("locked-later");
    offer(&second, &names, &[OLD, NEW]);
    let free = second.gpusetup_plain(&by_packages).succeeds().json();
    assert_eq!(free["selection"]["driver"]["version"], "535.309.01");
    let held = second.gpusetup_plain(&locked).succeeds().json();
    assert_eq!(held["selection"]["driver"]["version"], "535.261.03");
    // A bundle of a locked plan has what was locked, for a host that has no repository at all.
    let (plan_file, bundle) = (
        folder.path().join("plan.json"),
        folder.path().join("bundle"),
    );
    second
        .gpusetup_plain(&[&locked[..], &["--out", text(&plan_file)]].concat())
        .succeeds();
    let root = second.root();
    gpusetup([
        "bundle",
        "create",
        "--root",
        text(&root),
        "--plan",
        text(&plan_file),
        "-o",
        text(&bundle),
    ])
    .succeeds();
    let ran = second.gpusetup_plain(&apply);
    // These packages have no kernel module in them, and gpusetup asks the host for one at its end.
    assert_eq!(ran.code, Some(8), "{ran:?}");
    for name in [driver, "nvidia-part"] {
        assert_eq!(version(&second, name), format!("installed {OLD}"));
    }
    assert!(!second.path("/var/lib/gpusetup/pins").exists());
    // As it was locked, and yet something newer is there to be had.
    fs::write(second.path("/root/locked.json"), lock.to_string()).expect("the host takes a file");
    let again = lock_inside(
        &second,
        &[&plan[..], &["--locked", "/root/locked.json"]].concat(),
    );
    let second_lock: Value = serde_json::from_slice(&again).expect("JSON");
    assert_eq!(second_lock["packages"]["nvidia-part"], OLD);
    second.gpusetup_plain(&["rollback", "--yes"]).succeeds();
    assert_eq!(version(&second, driver), "");

    let offline = Host::new("locked-offline");
    offline.ask(
        "rm -r /etc/apt/sources.list* /var/lib/apt/lists; mkdir -p /var/lib/apt/lists/partial",
    );
    let ran = offline.gpusetup_under(
        &["unshare", "--net"],
        &[&apply[..], &["--bundle", text(&bundle)]].concat(),
    );
    assert_eq!(
        ran.code,
        Some(8),
        "no kernel module in these either: {ran:?}"
    );
    for name in [driver, "nvidia-part"] {
        assert_eq!(version(&offline, name), format!("installed {OLD}"));
    }

    // A third one, where the locked version is gone: of all packages, and of a dependency alone.
    let third = Host::new("locked-gone");
    offer(&third, &names, &[NEW]);
    let ran = third.gpusetup_plain(&apply);
    assert!(
        ran.code == Some(4) && ran.err.contains("535.261.03"),
        "{ran:?}"
    );
    let fourth = Host::new("locked-half-gone");
    offer(&fourth, &names, &[OLD, NEW]);
    let kept = changed(&file, |l| {
        l["packages"]["nvidia-part"] = "535.261.02-9".into()
    });
    let ran = fourth.gpusetup_plain(&[&apply[..apply.len() - 1], &[text(&kept)]].concat());
    assert!(
        ran.code == Some(4)
            && ran
                .err
                .contains("nvidia-part 535.261.02-9 (no repository has it)"),
        "{ran:?}"
    );
    for host in [&third, &fourth] {
        assert_eq!(version(host, driver), "", "nothing was changed");
    }
}
