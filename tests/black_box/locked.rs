//! The lock file, as teams use it: `plan --lock` on one host, `--locked` on the others.

use crate::common::{Ran, Tree, run};
use crate::schema;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

/// A host with a GPU and a compiler: a toolkit needs no package there.
fn tree() -> Tree {
    Tree::ubuntu_24_04()
        .gpu("0000:17:00.0", "20b2", None)
        .gxx(13)
}

/// The lock file of a toolkit that is not the newest.
fn locked(folder: &Path) -> PathBuf {
    let file = folder.join("lock.json");
    let ran = tree().run(&[
        "plan",
        "--profile",
        "toolkit",
        "--cuda",
        "12.8.1",
        "--lock",
        text(&file),
    ]);
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
    assert_eq!(
        (
            &lock["selection"]["cuda"]["version"],
            &lock["selection"]["driver"]
        ),
        (&"12.8.1".into(), &Value::Null)
    );
    assert_eq!(
        lock["artifacts"].as_array().map(Vec::len),
        Some(2),
        "a runfile and an archive: {lock}"
    );
    let free = tree()
        .run(&["plan", "--profile", "toolkit", "--json"])
        .json();
    assert_ne!(
        free["selection"], lock["selection"],
        "without it something newer is chosen"
    );
    let held = tree()
        .run(&["plan", "--locked", text(&file), "--json"])
        .json();
    assert_eq!(held["selection"], lock["selection"]);
    // Written again from that it is the same, byte for byte.
    let again = folder.path().join("again.json");
    tree().run(&["plan", "--locked", text(&file), "--lock", text(&again)]);
    assert_eq!(
        fs::read(&file).expect("there"),
        fs::read(&again).expect("there")
    );
}

#[test]
fn components_are_locked_with_what_they_need() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (file, again) = (
        folder.path().join("lock.json"),
        folder.path().join("again.json"),
    );
    let ask = [
        "plan",
        "--profile",
        "toolkit",
        "--cuda",
        "13.0.2",
        "--cudnn",
        "none",
        "--lock",
    ];
    let ran = tree().run(&[&ask[..], &[text(&file), "--components", "nvcc"]].concat());
    assert_eq!(ran.code, 0, "{}", ran.err);
    let lock: Value = serde_json::from_slice(&fs::read(&file).expect("there")).expect("JSON");
    assert_eq!(schema::mistakes("lock.json", &lock), [""; 0]);
    assert_eq!(
        lock["artifacts"].as_array().map(Vec::len),
        Some(5),
        "{lock}"
    );
    let held = tree()
        .run(&[
            "plan",
            "--locked",
            text(&file),
            "--lock",
            text(&again),
            "--json",
        ])
        .json();
    assert_eq!(held["selection"], lock["selection"]);
    assert_eq!(
        fs::read(&file).expect("there"),
        fs::read(&again).expect("there")
    );
}

#[test]
fn a_lock_file_comes_before_the_configuration() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = locked(folder.path());
    let config = folder.path().join("config.yaml");
    fs::write(&config, "toolkit-method: repository\n").expect("written");
    let plan = |more: &[&str]| {
        tree().run(&[&["plan", "--config", text(&config), "--json"], more].concat())
    };
    assert_eq!(
        plan(&["--profile", "toolkit"]).json()["selection"]["cuda"]["method"],
        "repository"
    );
    let held = plan(&["--locked", text(&file)]).json();
    assert_eq!(
        held["selection"]["cuda"],
        serde_json::json!({"version": "12.8.1"})
    );
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
        (
            &|l| l["artifacts"][0]["sha256"] = "0".repeat(64).into(),
            10,
            "has the SHA-256 000",
        ),
        (
            &|l| l["artifacts"] = Value::Array(Vec::new()),
            4,
            "is not in the lock file",
        ),
        (
            &|l| l["selection"]["cuda"]["version"] = "12.8.9".into(),
            4,
            "12.8.9",
        ),
        (
            &|l| l["system"]["arch"] = "aarch64".into(),
            5,
            "made for ubuntu 24.04 on aarch64; this host is Ubuntu 24.04 on x86_64",
        ),
        (&|l| l["packages"]["gcc"] = "1".into(), 0, ""),
        (
            &|l| l["packages"]["gcc"] = "1\nPin-Priority: 1001".into(),
            2,
            "is not a valid package",
        ),
        (
            &|l| l["schema"] = "gpusetup.lock/9".into(),
            2,
            "gpusetup.lock/9",
        ),
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
    let refused = plan(&elsewhere, &[]);
    assert!(
        refused.code == 5 && refused.err.contains("made for ubuntu 22.04"),
        "of a release: {}",
        refused.err
    );
    let twice = plan(&file, &["--cuda", "13"]);
    assert!(
        twice.code == 2 && twice.err.contains("--cuda"),
        "{}",
        twice.err
    );
    fs::write(&file, "{").expect("written");
    assert_eq!(plan(&file, &[]).code, 2);
}

const TOOLKIT: [&str; 4] = [
    "nvidia-container-toolkit",
    "nvidia-container-toolkit-base",
    "libnvidia-container-tools",
    "libnvidia-container1",
];
const CONTAINERS: [&str; 5] = ["plan", "--profile", "container-host", "--engine", "docker"];

/// dpkg's record of an installed package.
fn package(name: &str, version: &str) -> String {
    format!(
        "Package: {name}\nStatus: install ok installed\nArchitecture: amd64\nVersion: {version}\n\n"
    )
}

/// A host whose package lists have Docker, with this version of the container toolkit if there is
/// one.
fn for_containers(toolkit: Option<&str>) -> Tree {
    let tree = Tree::debian_12().gpu("0000:17:00.0", "20b2", None);
    let installed = toolkit.map(|version| TOOLKIT.map(|name| package(name, version)).concat());
    if installed.is_some() {
        tree.write("usr/bin/nvidia-ctk", "");
    }
    tree.write(
        "var/lib/dpkg/status",
        &(package("dpkg", "1.21.22") + &installed.unwrap_or_default()),
    );
    tree.write(
        "var/lib/apt/lists/archive_debian_dists_bookworm_main_binary-amd64_Packages",
        "Package: docker.io\nArchitecture: amd64\nVersion: 20.10.24+dfsg1-1\n\n",
    );
    tree
}

/// The lock file of a host for containers with this version of the toolkit.
fn locked_with(folder: &Path, toolkit: Option<&str>) -> PathBuf {
    let file = folder.join("lock.json");
    let ran = for_containers(toolkit).run(&[&CONTAINERS[..], &["--lock", text(&file)]].concat());
    assert_eq!(ran.code, 0, "{}", ran.err);
    file
}

fn containers_with(tree: &Tree, lock: &Path, more: &[&str]) -> Ran {
    tree.run(&[&CONTAINERS[..], &["--locked", text(lock)], more].concat())
}

fn step<'a>(plan: &'a Value, id: &str) -> &'a Value {
    plan["steps"]
        .as_array()
        .expect("steps")
        .iter()
        .find(|step| step["id"] == id)
        .expect("the step")
}

#[test]
fn the_container_toolkit_is_the_one_of_the_lock_file() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let older = locked_with(folder.path(), Some("1.17.8-1"));
    let plan = containers_with(&for_containers(None), &older, &["--json"]).json();
    assert_eq!(schema::mistakes("plan.json", &plan), [""; 0]);
    let toolkit = step(&plan, "container-toolkit");
    assert_eq!(
        toolkit["title"],
        "Set up NVIDIA Container Toolkit 1.17.8 for Docker"
    );
    let all = toolkit["operations"].as_array().expect("operations");
    assert!(
        all.iter().all(|o| o["unit"] != "nvidia-cdi-refresh.path"),
        "1.17.8 has no such unit: {toolkit}"
    );
    let packages = all
        .iter()
        .find(|o| o["op"] == "packages")
        .expect("packages");
    assert!(
        TOOLKIT
            .iter()
            .all(|name| packages["versions"][name] == "1.17.8-1"),
        "{packages}"
    );
    // The locked one stays, and an older one does not. A newer one is not replaced unasked.
    let kept = containers_with(&for_containers(Some("1.17.8-1")), &older, &["--json"]).json();
    assert_eq!(
        step(&kept, "container-toolkit")["title"],
        "Set up NVIDIA Container Toolkit 1.17.8 for Docker"
    );
    let on_older = containers_with(&for_containers(Some("1.16.2-1")), &older, &["--json"]).json();
    assert_eq!(
        step(&on_older, "container-toolkit")["title"],
        "Set up NVIDIA Container Toolkit 1.17.8 for Docker"
    );
    let refused = containers_with(&for_containers(Some("1.18.0-1")), &older, &[]);
    assert!(
        refused.code == 5
            && refused
                .err
                .contains("1.18.0 is installed, and 1.17.8 of the lock file is older"),
        "{}",
        refused.err
    );
}

#[test]
fn the_engine_is_the_one_of_the_lock_file() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let lock = locked_with(folder.path(), None);
    let on = |name: &str, version: &str, more: &[&str]| {
        let tree = for_containers(None);
        tree.write("usr/bin/dockerd", "");
        tree.write(
            "var/lib/dpkg/status",
            &(package("dpkg", "1.21.22") + &package(name, version)),
        );
        containers_with(&tree, &lock, more)
    };
    for (name, version, title, is_kept) in [
        (
            "docker.io",
            "20.10.20+dfsg1-1",
            "Install Docker 20.10.24+dfsg1-1, the version in the lock file",
            false,
        ),
        (
            "docker.io",
            "20.10.24+dfsg1-1",
            "Use the installed Docker",
            true,
        ),
        // The package of another repository is not the one that is locked.
        ("docker-ce", "5:29.2.0-1", "Use the installed Docker", true),
    ] {
        let plan = on(name, version, &["--json"]).json();
        assert_eq!(schema::mistakes("plan.json", &plan), [""; 0]);
        let engine = step(&plan, "container-engine");
        assert_eq!(
            (engine["title"].as_str(), engine["state"] == "satisfied"),
            (Some(title), is_kept),
            "{name} {version}"
        );
        assert_eq!(
            engine["operations"][0]["versions"]["docker.io"], "20.10.24+dfsg1-1",
            "{name} {version}"
        );
    }
    let refused = on("docker.io", "20.10.25+dfsg1-1", &[]);
    let sentence = "Docker 20.10.25 is installed, and 20.10.24 of the lock file is older";
    assert!(
        refused.code == 5 && refused.err.contains(sentence),
        "{}",
        refused.err
    );
}

#[test]
fn user_data_has_the_lock_file() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = locked_with(folder.path(), None);
    let ask = [
        "--os",
        "debian-12",
        "--gpu",
        "10de:20b2",
        "--locked",
        text(&file),
        "--format",
        "cloud-init",
    ];
    let ran = run(&[&CONTAINERS[..], &ask].concat());
    assert_eq!(ran.code, 0, "{}", ran.err);
    let user_data: Value = serde_yaml::from_str(&ran.out).expect("YAML");
    let files = &user_data["write_files"];
    let (config, lock) = (
        files[0]["content"].as_str().expect("a text"),
        files[1]["content"].as_str().expect("a text"),
    );
    assert_eq!(files[1]["path"], "/etc/gpusetup/gpu.lock");
    assert!(
        config.contains("locked: \"/etc/gpusetup/gpu.lock\"\n"),
        "{config}"
    );
    assert!(
        config.contains("profile: \"container-host\"\nengine: \"docker\"\n"),
        "{config}"
    );
    assert!(
        !config.contains("driver: ") && !config.contains("cuda: "),
        "the lock file says which: {config}"
    );
    let there: Value = serde_json::from_str(lock).expect("JSON");
    let here: Value = serde_json::from_slice(&fs::read(&file).expect("there")).expect("JSON");
    assert_eq!(there, here);
}

#[test]
fn the_container_toolkit_is_locked_before_its_repository_is_added() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = locked_with(folder.path(), None);
    let lock: Value = serde_json::from_slice(&fs::read(&file).expect("there")).expect("JSON");
    assert_eq!(schema::mistakes("lock.json", &lock), [""; 0]);
    let version = lock["packages"][TOOLKIT[0]]
        .as_str()
        .expect("a version")
        .to_owned();
    assert!(
        TOOLKIT
            .iter()
            .all(|name| lock["packages"][name] == version.as_str()),
        "{lock}"
    );
    let plan = containers_with(&for_containers(Some("1.17.8-1")), &file, &["--json"]).json();
    let title = step(&plan, "container-toolkit")["title"]
        .as_str()
        .expect("a title")
        .to_owned();
    assert!(title.contains(version.trim_end_matches("-1")), "{title}");
}

#[test]
fn what_differs_from_a_lock_file_of_containers_is_said() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = locked_with(folder.path(), None);
    let without = for_containers(None).run(&["plan", "--locked", text(&file)]);
    assert_eq!(without.code, 0, "{}", without.err);
    let note = "sets up no containers, but the lock file was written with --profile container-host --engine docker";
    assert!(without.err.contains(note), "{}", without.err);
    let no_engine = for_containers(None).run(&[
        "plan",
        "--profile",
        "container-host",
        "--locked",
        text(&file),
    ]);
    assert!(
        no_engine
            .err
            .contains("this plan installs no engine, but the lock file"),
        "{}",
        no_engine.err
    );
    let same = containers_with(&for_containers(None), &file, &[]);
    assert!(
        !same.err.contains("sets up no containers") && !same.err.contains("docker.io"),
        "{}",
        same.err
    );
    let other = changed(&file, |lock| {
        lock["packages"]
            .as_object_mut()
            .expect("packages")
            .remove("docker.io");
        lock.as_object_mut()
            .expect("an object")
            .remove("containers");
    });
    let ran = containers_with(&for_containers(None), &other, &[]);
    assert!(
        ran.code == 0 && ran.err.contains("docker.io"),
        "lock files of older versions are read: {}",
        ran.err
    );
    assert!(ran.err.contains("not in the lock file: "), "{}", ran.err);
}

#[test]
fn a_locked_version_that_the_package_lists_lack_has_no_plan() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = locked_with(folder.path(), None);
    let gone = changed(&file, |lock| lock["packages"]["docker.io"] = "1:99".into());
    let refused = containers_with(&for_containers(None), &gone, &[]);
    assert_eq!(refused.code, 4, "{}", refused.err);
    assert!(
        refused
            .err
            .contains("docker.io 1:99 (not in the package lists)"),
        "{}",
        refused.err
    );
    assert!(refused.err.contains("apt-get update"), "{}", refused.err);
}
