//! `--profile container-host`: the plans for new systems, and for hosts with engines and files of
//! their administrators. What real engines make of the files is tested in
//! `tests/as_root/container_host.rs`.

use crate::common::{Ran, Tree, run, run_with_input};
use crate::schema;
use serde_json::{Value, json};

const PROFILE: [&str; 2] = ["--profile", "container-host"];
const KEY: &str = "C95B321B61E88C1809C4F759DDCAE044F796ECB0";
const DAEMON: &str = "etc/docker/daemon.json";

/// What a run printed that succeeded.
fn printed(ran: Ran) -> String {
    assert_eq!(ran.code, 0, "{}", ran.err);
    ran.out
}

fn stock(os: &str, more: &[&str]) -> Ran {
    let base = [
        "plan",
        "--os",
        os,
        "--gpu",
        "10de:2330",
        "--today",
        "2026-11-26",
    ];
    run(&[&base[..], &PROFILE, more].concat())
}

/// The operations of a step.
fn operations<'a>(plan: &'a Value, step: &str) -> Vec<&'a Value> {
    let steps = plan["steps"]
        .as_array()
        .expect("steps")
        .iter()
        .filter(|s| s["id"] == step);
    steps
        .flat_map(|s| s["operations"].as_array().expect("operations"))
        .collect()
}

fn texts(plan: &Value) -> Vec<&str> {
    plan["warnings"]
        .as_array()
        .expect("warnings")
        .iter()
        .filter_map(|w| w["text"].as_str())
        .collect()
}

/// The warnings of a plan in which this occurs, a line each.
fn about(plan: &Value, words: &str) -> String {
    let mut texts = texts(plan);
    texts.retain(|text| text.contains(words));
    texts.join("\n")
}

/// What the steps write into files of this name.
fn written<'a>(plan: &'a Value, name: &str) -> &'a str {
    operations(plan, "container-toolkit")
        .into_iter()
        .filter(|o| o["path"].as_str().is_some_and(|path| path.ends_with(name)))
        .find_map(|o| o["content"].as_str())
        .expect("a file")
}

/// A Debian 12 with these programs.
fn debian(programs: &[&str]) -> Tree {
    let tree = Tree::debian_12().gpu("0000:17:00.0", "20b2", Some("nouveau"));
    programs
        .iter()
        .for_each(|name| tree.write(&format!("usr/bin/{name}"), ""));
    tree
}

fn on(tree: &Tree, more: &[&str]) -> Ran {
    let root = tree.path().to_str().expect("UTF-8").to_owned();
    run(&[&["plan", "--root", &root], &PROFILE[..], more].concat())
}

#[test]
fn new_systems_get_the_plans_that_were_reviewed() {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("container_host");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| {
        for (os, engine) in [
            ("ubuntu-24.04", "docker"),
            ("debian-12", "docker"),
            ("rocky-9", "podman"),
        ] {
            let text = printed(stock(os, &["--engine", engine, "-v"]));
            let end = text.find("\nNot chosen").expect("the rejected ones");
            insta::assert_snapshot!(format!("{os}-{engine}"), &text[..end]);
        }
    });
}

#[test]
fn the_module_that_has_the_engine_is_named() {
    let said = |os: &str| {
        let plan = stock(os, &["--engine", "podman", "--driver", "none", "--json"]).json();
        about(&plan, "is in the module")
    };
    insta::assert_snapshot!(said("sles-15"), @"podman is in the module Containers, which is not enabled on this host: sudo SUSEConnect --product sle-module-containers/15.7/x86_64");
    assert_eq!(said("sles-16"), "", "16 has no modules");
}

#[test]
fn the_toolkit_comes_in_one_version_from_its_repository() {
    for (os, url) in [
        ("ubuntu-24.04", "stable/deb/amd64"),
        ("debian-13:aarch64", "stable/deb/arm64"),
        ("rocky-9", "stable/rpm/x86_64"),
        ("sles-15", "stable/rpm/x86_64"),
    ] {
        let plan = stock(os, &["--engine", "podman", "--json"]).json();
        assert_eq!(schema::mistakes("plan.json", &plan), [""; 0], "{os}");
        assert_eq!(plan["selection"]["cuda"], Value::Null, "{os}");
        let added = operations(&plan, "add-repository")
            .into_iter()
            .find(|added| added["keys"][0]["fingerprint"] == KEY);
        let added = added.unwrap_or_else(|| panic!("{os}: {plan}"));
        let address = format!("https://nvidia.github.io/libnvidia-container/{url}");
        assert_eq!(
            (&added["url"], &added["packages"]),
            (&json!(address), &Value::Null),
            "{os}"
        );
        assert_eq!(
            added["keys"][0]["url"],
            "https://nvidia.github.io/libnvidia-container/gpgkey"
        );
        let all = operations(&plan, "container-toolkit");
        let versions = all[0]["versions"].as_object().expect("versions");
        assert_eq!(versions.len(), 4, "{os}");
        assert!(
            versions.values().all(|version| *version == "1.20.0-1"),
            "{os}: {versions:?}"
        );
        // Podman needs no file and no restart.
        assert!(
            all.iter()
                .all(|o| o["op"] != "write-file" && o["restart"] != true),
            "{os}: {all:?}"
        );
    }
    let mirrored = stock(
        "debian-12",
        &["--mirror", "https://mirror.example/nvidia", "--json"],
    )
    .json();
    let added = operations(&mirrored, "add-repository")[0];
    assert_eq!(
        added["url"],
        "https://mirror.example/nvidia/libnvidia-container/stable/deb/amd64"
    );
    assert_eq!(
        added["keys"][0]["url"],
        "https://mirror.example/nvidia/libnvidia-container/gpgkey"
    );
}

#[test]
fn a_host_without_an_engine_is_told_what_to_type() {
    let plan = stock("ubuntu-24.04", &["--json"]).json();
    insta::assert_snapshot!(about(&plan, "no container engine"), @"no container engine is known here. --engine docker or --engine podman installs one in the same run. Podman can be installed later without another plan; other engines need this one again after they are installed");
    assert!(operations(&plan, "container-engine").is_empty());
    let said = stock("rocky-9", &["--engine", "docker"]);
    insta::assert_snapshot!(said.refusal(5), @"
    error: gpusetup knows no package of Docker for Rocky Linux 9 (--engine docker) (GS803)
    hint: or install Docker as its documentation says, then plan again without --engine
    try: gpusetup plan --os rocky-9 --gpu 10de:2330 --profile container-host --engine podman  # with another engine
    ");
    let said = stock("debian-12", &["--engine", "lxc"]);
    insta::assert_snapshot!(said.refusal(2), @"
    error: gpusetup installs docker and podman, but not lxc (--engine)
    try: gpusetup plan --os debian-12 --gpu 10de:2330 --profile container-host  # without it
    ");
    let said = run(&[
        "plan",
        "--os",
        "debian-12",
        "--gpu",
        "h100",
        "--engine",
        "docker",
    ]);
    insta::assert_snapshot!(said.refusal(2), @"
    error: --engine is for --profile container-host
    try: gpusetup plan --os debian-12 --profile container-host --engine docker --gpu h100
    ");
}

/// Facts have nothing about engines, whose files may have passwords.
#[test]
fn a_plan_for_facts_says_that_engines_are_not_known() {
    let tree = debian(&["dockerd"]);
    let facts = printed(run(&[
        "facts",
        "--root",
        tree.path().to_str().expect("UTF-8"),
        "--json",
    ]));
    let plan = |more: &[&str]| {
        run_with_input(
            &[&["plan", "--facts", "-"], &PROFILE[..], more].concat(),
            &facts,
        )
    };
    for more in [&["--json"][..], &["--engine", "docker", "--json"]] {
        let plan = plan(more).json();
        insta::allow_duplicates! {
            insta::assert_snapshot!(about(&plan, "container engine"), @"it is not known here which container engines the host has: `gpusetup facts` does not read their files, which may have passwords. This plan is for a host without engines and container toolkit. For a host that has some, plan there: `gpusetup plan --profile container-host --out plan.json`");
        }
    }
    let refused = plan(&["--docker-user", "alice"]);
    insta::assert_snapshot!(refused.refusal(2), @"
    error: it is not known here whether the host has Docker, so alice cannot be let use it (--docker-user)
    hint: plan on the host itself, which shows its engines
    try: gpusetup plan --facts - --profile container-host  # without it
    ");
}

/// A Debian 12 with Podman, and with this version of the container toolkit from local files: no
/// repository has it.
fn debian_with_toolkit(version: &str) -> Tree {
    let tree = debian(&["nvidia-ctk", "podman"]);
    let package = |name: &str, version: &str| {
        format!(
            "Package: {name}\nStatus: install ok installed\nArchitecture: amd64\nVersion: {version}\n\n"
        )
    };
    let names = ["toolkit", "toolkit-base"]
        .map(|name| package(&format!("nvidia-container-{name}"), version))
        .concat();
    let libraries = ["-tools", "1"]
        .map(|name| package(&format!("libnvidia-container{name}"), version))
        .concat();
    tree.write(
        "var/lib/dpkg/status",
        &[package("dpkg", "1.21.22"), names, libraries].concat(),
    );
    tree.write(
        "var/lib/apt/lists/archive_debian_dists_bookworm_main_binary-amd64_Packages",
        "Package: podman\nArchitecture: amd64\nVersion: 4.3.1+ds1-8\n\n",
    );
    tree
}

#[test]
fn the_toolkit_is_upgraded_before_its_repository_is_added() {
    for (installed, planned, is_kept) in [
        ("1.17.8-1", "1.20.0", false),
        ("1.20.0-1", "1.20.0", true),
        ("1.99.0-1", "1.99.0", true),
    ] {
        let plan = on(&debian_with_toolkit(installed), &["--upgrade", "--json"]).json();
        let steps = plan["steps"].as_array().expect("steps");
        let toolkit = steps
            .iter()
            .find(|step| step["id"] == "container-toolkit")
            .expect("the step");
        let title = format!("Set up NVIDIA Container Toolkit {planned} for Podman");
        assert_eq!(toolkit["title"], title, "{installed}");
        let packages = operations(&plan, "container-toolkit")[0];
        assert_eq!(
            packages["satisfied"] == true,
            is_kept,
            "{installed}: {packages}"
        );
        if !is_kept {
            assert_eq!(
                packages["versions"]["libnvidia-container1"], "1.20.0-1",
                "{packages}"
            );
        }
    }
}

/// Only a running host can have its GPUs described.
#[test]
fn a_tree_that_will_have_no_specification_is_named() {
    let tree = debian_with_toolkit("1.17.8-1");
    let is_named = |more: &[&str]| {
        let plan = on(&tree, &[more, &["--json"]].concat()).json();
        texts(&plan).iter().any(|text| {
            text.contains("1.17.8 writes no CDI specification when the host of this tree boots")
        })
    };
    assert!(is_named(&[]));
    assert!(!is_named(&["--upgrade"]), "1.18.0 and newer write it");
    tree.write(
        "etc/cdi/nvidia.yaml",
        "cdiVersion: 0.5.0\nkind: nvidia.com/gpu\ndevices:\n- name: all\n",
    );
    assert!(!is_named(&[]));
}

#[test]
fn files_are_merged_and_shown_as_a_diff() {
    let tree = debian(&["dockerd", "podman"]);
    tree.write("usr/lib/systemd/system/docker.service", "");
    let theirs = "{\n\t\"log-driver\": \"journald\",\n\t\"runtimes\": {\"crun\": {\"path\": \"/usr/bin/crun\"}}\n}\n";
    tree.write(DAEMON, theirs);
    let plan = on(&tree, &["--json"]).json();
    assert_eq!(schema::mistakes("plan.json", &plan), [""; 0]);
    let all = operations(&plan, "container-toolkit");
    let file = all
        .iter()
        .find(|o| o["path"] == "/etc/docker/daemon.json")
        .expect("the file");
    assert_eq!(file["merged_from"], gpusetup::sum::sha256(theirs));
    let merged: Value =
        serde_json::from_str(file["content"].as_str().expect("a text")).expect("JSON");
    assert_eq!(merged["log-driver"], "journald");
    assert_eq!(merged["runtimes"]["crun"]["path"], "/usr/bin/crun");
    assert_eq!(
        merged["runtimes"]["nvidia"]["path"],
        "/usr/bin/nvidia-container-runtime"
    );
    let restart = all
        .iter()
        .find(|o| o["op"] == "service" && o["restart"] == true)
        .expect("a restart");
    assert_eq!(restart["unit"], "docker.service");
    insta::assert_snapshot!(about(&plan, "live-restore"), @r#"Docker restarts (docker.service), and its running containers end: those without a restart policy stay down. `"live-restore": true` in /etc/docker/daemon.json keeps them running"#);
    let text = printed(on(&tree, &[]));
    for line in [
        "+        \"nvidia\": {",
        "-    \"runtimes\": {\"crun\": {\"path\": \"/usr/bin/crun\"}}",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    // The texts of the files come back from a file of the plan as they were.
    let saved = tree.path().join("plan.json");
    printed(on(&tree, &["--out", saved.to_str().expect("UTF-8")]));
    let read: gpusetup::plan::Plan =
        serde_json::from_slice(&std::fs::read(&saved).expect("saved")).expect("a plan");
    let host = read.host.container_host.expect("looked for");
    let file = host
        .file(std::path::Path::new("/etc/docker/daemon.json"))
        .expect("readable")
        .expect("there");
    assert_eq!(file.text, theirs);

    // Containers that are kept need no warning, and a file that has everything already no restart.
    tree.write(DAEMON, "{\"live-restore\": true}");
    assert_eq!(about(&on(&tree, &["--json"]).json(), "live-restore"), "");
    tree.write(
        DAEMON,
        "{\"runtimes\": {\"nvidia\": {\"path\": \"nvidia-container-runtime\"}}}",
    );
    let plan = on(&tree, &["--json"]).json();
    let all = operations(&plan, "container-toolkit");
    assert!(all.iter().all(|o| o["restart"] != true), "{all:?}");
}

#[test]
fn a_file_that_cannot_be_read_is_refused_before_anything() {
    let tree = debian(&["dockerd", "containerd"]);
    tree.write(DAEMON, "{\n  // a mirror\n  \"debug\": true\n}\n");
    let said = on(&tree, &[]);
    insta::assert_snapshot!(tree.typed_in_it(said.refusal(5)), @"
    error: /etc/docker/daemon.json cannot be merged, so it is left as it is: line 2, column 3: key must be a string (GS803)
    hint: correct the file of Docker, then plan again
    try: sudo sed -n 2l /etc/docker/daemon.json
    ");
    std::fs::remove_file(tree.path().join(DAEMON)).expect("removed");
    tree.link(DAEMON, "/srv/daemon.json");
    let said = on(&tree, &[]);
    insta::assert_snapshot!(said.refused(5), @"error: /etc/docker/daemon.json cannot be merged, so it is left as it is: it is a link to /srv/daemon.json (GS803)");
}

/// Docker reads line ends of Windows, and the mark at the beginning since version 23.
#[test]
fn a_file_of_windows_is_merged_as_one() {
    let tree = debian(&["dockerd"]);
    let theirs = "\u{feff}{\r\n  \"debug\": true\r\n}\r\n";
    tree.write(DAEMON, theirs);
    let saved = tree.path().join("plan.json");
    printed(on(&tree, &["--out", saved.to_str().expect("UTF-8")]));
    let plan = gpusetup::plan::Plan::read(&std::fs::read(&saved).expect("saved")).expect("a plan");
    let plan = serde_json::to_value(plan).expect("JSON");
    let all = operations(&plan, "container-toolkit");
    let file = all
        .iter()
        .find(|o| o["path"] == "/etc/docker/daemon.json")
        .expect("the file");
    let content = file["content"].as_str().expect("a text");
    assert!(
        content.starts_with("\u{feff}{\r\n  \"debug\": true,\r\n"),
        "{content:?}"
    );
    assert_eq!(
        content.matches('\n').count(),
        content.matches("\r\n").count(),
        "{content:?}"
    );
    tree.write(
        "var/lib/dpkg/status",
        "Package: docker.io\nStatus: install ok installed\nVersion: 20.10.24+dfsg1-1\n\n",
    );
    let said = on(&tree, &[]);
    insta::assert_snapshot!(said.refused(5), @"error: /etc/docker/daemon.json cannot be merged, so it is left as it is: line 1, column 1: it begins with a byte-order mark, which Docker reads since 23.0.0, and this is 20.10.24 (GS803)");
    for (text, place, command) in [
        (
            "{\"runtimes\": {},\n\"runtimes\": {\"a\": {}}}",
            "line 2, column 1: it has the key",
            "sed -n 2l",
        ),
        (
            "{\n\"data-root\": \"/x\u{200b}\"}",
            "line 2, column 17: it has a hidden character (U+200B)",
            "sed -n 2l",
        ),
    ] {
        tree.write(DAEMON, text);
        let ran = on(&tree, &[]);
        assert!(
            ran.code == 5 && ran.err.contains(place) && ran.err.contains(command),
            "{}",
            ran.err
        );
    }
}

#[test]
fn containerd_that_serves_no_pods_is_named() {
    let tree = debian(&["dockerd", "containerd", "kubelet"]);
    tree.write(
        "etc/containerd/config.toml",
        "disabled_plugins = [\"cri\"]\n",
    );
    let named = |tree: &Tree| {
        let plan = on(tree, &["--json"]).json();
        texts(&plan)
            .iter()
            .any(|text| text.contains("containerd serves no pods: /etc/containerd/config.toml"))
    };
    assert!(named(&tree));
    tree.write(
        "etc/containerd/config.toml",
        "version = 2\ndisabled_plugins = []\n",
    );
    assert!(!named(&tree));
    // Without a kubelet nothing asks containerd for pods.
    let docker = debian(&["dockerd", "containerd"]);
    docker.write(
        "etc/containerd/config.toml",
        "disabled_plugins = [\"cri\"]\n",
    );
    assert!(!named(&docker));
}

/// containerd 2 reads `disabled_plugins` in a file without a version, too: the package
/// containerd.io ships such a file.
#[test]
fn containerd_2_that_serves_no_pods_does_not_stop_the_plan() {
    let tree = debian(&["dockerd", "containerd", "kubelet"]);
    let installed = "Package: containerd.io\nStatus: install ok installed\nVersion: 2.1.4-1~debian.12~bookworm\n\n";
    tree.write("var/lib/dpkg/status", installed);
    tree.write(
        "etc/containerd/config.toml",
        "disabled_plugins = [\"cri\"]\n",
    );
    let plan = on(&tree, &["--json"]).json();
    insta::assert_snapshot!(tree.typed_in_it(&about(&plan, "containerd serves no pods")), @"containerd serves no pods: /etc/containerd/config.toml disables its plugin cri, so a kubelet cannot use it, and the runtime nvidia is not added. Take cri out of disabled_plugins in this file, run `sudo systemctl restart containerd.service`, then plan again");
    // Runtimes in such a file are another matter.
    tree.write(
        "etc/containerd/config.toml",
        "[plugins.cri.containerd]\nsnapshotter = \"overlayfs\"\n",
    );
    let refused = on(&tree, &[]);
    insta::assert_snapshot!(refused.refused(5), @"error: /etc/containerd/config.toml cannot be merged, so it is left as it is: it is of version 1, and containerd 2 may ignore the runtimes in such a file (GS803)");
}

/// The packages of CRI-O have conmon outside of PATH.
#[test]
fn the_runtime_of_crio_has_the_monitor_of_the_default_one() {
    let tree = debian(&["crio"]);
    let monitored =
        "runtime_path = \"/usr/libexec/crio/crun\"\nmonitor_path = \"/usr/libexec/crio/conmon\"\n";
    tree.write(
        "etc/crio/crio.conf.d/10-crio.conf",
        &format!("[crio.runtime]\ndefault_runtime = \"crun\"\n\n[crio.runtime.runtimes.crun]\n{monitored}"),
    );
    let plan = on(&tree, &["--json"]).json();
    insta::assert_snapshot!(written(&plan, "99-nvidia.toml"), @r#"
    # Written by gpusetup.
    [crio.runtime.runtimes.nvidia]
    runtime_path = "/usr/bin/nvidia-container-runtime"
    runtime_type = "oci"
    monitor_path = "/usr/libexec/crio/conmon"
    "#);
}

#[test]
fn the_default_runtime_of_crio_may_be_in_a_file_that_its_unit_names() {
    let tree = debian(&["crio"]);
    tree.write(
        "opt/crio.conf",
        "[crio.runtime.runtimes.crun]\nmonitor_path = \"/opt/conmon\"\n",
    );
    tree.write(
        "usr/lib/systemd/system/crio.service",
        "[Service]\nExecStart=/usr/bin/crio --config /opt/crio.conf $CRIO_CONFIG_OPTIONS\n",
    );
    let plan = on(&tree, &["--json"]).json();
    insta::assert_snapshot!(written(&plan, "99-nvidia.toml"), @r#"
    # Written by gpusetup.
    [crio.runtime.runtimes.nvidia]
    runtime_path = "/usr/bin/nvidia-container-runtime"
    runtime_type = "oci"
    monitor_path = "/opt/conmon"
    "#);
}

/// The packages of CRI-O have runc and crun where NVIDIA's runtime does not look for them.
#[test]
fn nvidias_runtime_gets_the_path_of_crios_own() {
    const CONFIG: &str = "/etc/nvidia-container-runtime/config.toml";
    let tree = debian(&["crio"]);
    tree.write(
        "etc/crio/crio.conf.d/10-crio.conf",
        "[crio.runtime]\ndefault_runtime = \"crun\"\n\
         [crio.runtime.runtimes.crun]\nruntime_path = \"/usr/libexec/crio/crun\"\n",
    );
    let plan = on(&tree, &["--json"]).json();
    let all = operations(&plan, "container-toolkit");
    let at = |what: &str| {
        all.iter()
            .position(|o| o["op"] == what)
            .expect("an operation")
    };
    let edit = all[at("edit-file")];
    assert!(
        edit["path"] == CONFIG && at("packages") < at("edit-file"),
        "the packages write it: {all:?}"
    );
    let change = json!({
        "old": "runtimes = [\"runc\", \"crun\"]",
        "new": "runtimes = [\"/usr/libexec/crio/crun\", \"runc\", \"crun\"]",
    });
    assert_eq!(edit["edits"], json!([change]));
    // A toolkit that is there has its configuration.
    tree.write("usr/bin/nvidia-ctk", "");
    let merged = |list: &str| {
        let text = format!("[nvidia-container-runtime]\nruntimes = [{list}] # theirs\n");
        tree.write(CONFIG.trim_start_matches('/'), &text);
        let plan = on(&tree, &["--json"]).json();
        let mut all = operations(&plan, "container-toolkit")
            .into_iter()
            .filter(|o| o["path"] == CONFIG);
        all.next()
            .and_then(|o| o["content"].as_str())
            .map(str::to_owned)
    };
    let expected =
        "[nvidia-container-runtime]\nruntimes = [\"/usr/libexec/crio/crun\", \"runc\"] # theirs\n";
    assert_eq!(merged("\"runc\"").as_deref(), Some(expected));
    tree.write("opt/runc", "");
    assert_eq!(merged("\"/opt/runc\""), None, "it is found");
    tree.write("usr/sbin/runc", "");
    assert_eq!(merged("\"runc\""), None, "it is in PATH");
}

/// A file of CRI-O's that comes later replaces the runtime of an earlier one.
#[test]
fn a_runtime_in_another_file_stays() {
    let tree = debian(&["crio"]);
    tree.write("usr/lib/systemd/system/crio.service", "");
    tree.write(
        "etc/crio/crio.conf.d/10-runtimes.toml",
        "[crio.runtime.runtimes.crun]\nruntime_path = \"/usr/bin/crun\"\n",
    );
    let files = |tree: &Tree| -> Vec<Value> {
        let plan = on(tree, &["--json"]).json();
        let all = operations(&plan, "container-toolkit").into_iter();
        all.filter(|o| {
            o["path"].as_str().is_some_and(|path| path.contains("crio")) || o["restart"] == true
        })
        .cloned()
        .collect()
    };
    assert_eq!(files(&tree).len(), 2, "the file and a restart");
    tree.write(
        "etc/crio/crio.conf.d/20-gpu.toml",
        "[crio.runtime.runtimes.nvidia]\nruntime_path = \"/opt/nvidia/nvidia-container-runtime\"\n",
    );
    assert_eq!(files(&tree), [Value::Null; 0]);
    let plan = on(&tree, &["--json"]).json();
    let stays = |text: &&str| {
        text.contains("/etc/crio/crio.conf.d/20-gpu.toml already, which stays as it is")
    };
    assert!(texts(&plan).iter().any(stays), "{:?}", texts(&plan));
    // The same beside containerd, and in a file that another tool wrote in the place of ours.
    let tree = debian(&["containerd"]);
    tree.write(
        "var/lib/dpkg/status",
        "Package: containerd\nStatus: install ok installed\nVersion: 2.1.4-1\n\n",
    );
    tree.write(
        "etc/containerd/config.toml",
        "version = 3\nimports = [\"/etc/containerd/conf.d/*.toml\"]\n",
    );
    let theirs = "version = 3\n[plugins.\"io.containerd.cri.v1.runtime\".containerd]\ndefault_runtime_name = \"nvidia\"\n[plugins.\"io.containerd.cri.v1.runtime\".containerd.runtimes.nvidia]\nruntime_type = \"io.containerd.runc.v2\"\n";
    let written = |tree: &Tree| {
        let plan = on(tree, &["--json"]).json();
        let all = operations(&plan, "container-toolkit").into_iter();
        let mut files = all.filter(|o| {
            o["path"]
                .as_str()
                .is_some_and(|path| path.contains("conf.d"))
        });
        files.any(|o| o["satisfied"] != true)
    };
    assert!(written(&tree));
    tree.write("etc/containerd/conf.d/99-nvidia.toml", theirs);
    assert!(!written(&tree), "default_runtime_name is theirs");
    std::fs::rename(
        tree.path().join("etc/containerd/conf.d/99-nvidia.toml"),
        tree.path().join("etc/containerd/conf.d/gpu.toml"),
    )
    .expect("renamed");
    assert!(!written(&tree));
}

#[test]
fn a_snap_of_docker_is_seen() {
    let tree = debian(&[]);
    tree.write("snap/bin/docker", "");
    let plan = on(&tree, &["--json"]).json();
    insta::assert_snapshot!(about(&plan, "snap"), @"Docker is a snap here (/snap/bin/docker), which gpusetup does not set up: it reads /var/snap/docker/current/config/daemon.json and brings its own container toolkit. After this, `sudo snap restart docker` lets it find the driver, and --runtime nvidia gives containers the GPUs. For packages in its place, move containers and images, run `sudo snap remove docker`, and plan again with --engine docker (on the machine that runs this tree, and not here)");
    assert_eq!(about(&plan, "no container engine is known"), "");
}

#[test]
fn containerd_counts_where_kubernetes_uses_it() {
    let tree = debian(&["dockerd", "containerd"]);
    let config =
        "version = 2\n[plugins.\"io.containerd.grpc.v1.cri\"]\nsandbox_image = \"pause\" # ours\n";
    tree.write("etc/containerd/config.toml", config);
    let writes = |tree: &Tree| -> Vec<String> {
        let plan = on(tree, &["--json"]).json();
        let all = operations(&plan, "container-toolkit")
            .into_iter()
            .filter(|o| o["op"] == "write-file");
        all.map(|o| o["path"].as_str().expect("a path").to_owned())
            .filter(|path| !path.contains("udev"))
            .collect()
    };
    assert_eq!(
        writes(&tree),
        ["/etc/docker/daemon.json"],
        "it is a part of Docker"
    );
    tree.write("usr/bin/kubelet", "");
    assert_eq!(
        writes(&tree),
        ["/etc/docker/daemon.json", "/etc/containerd/config.toml"]
    );
    let text = printed(on(&tree, &[]));
    assert!(
        text.contains("   sandbox_image = \"pause\" # ours"),
        "{text}"
    );
    let crio = debian(&["crio"]);
    assert_eq!(writes(&crio), ["/etc/crio/crio.conf.d/99-nvidia.toml"]);
    // K3s finds the runtime when it starts.
    let k3s = debian(&[]);
    k3s.write("usr/local/bin/k3s", "");
    k3s.write("etc/systemd/system/k3s-agent.service", "");
    assert_eq!(writes(&k3s), [""; 0]);
    let plan = on(&k3s, &["--json"]).json();
    let restarts = operations(&plan, "container-toolkit")
        .into_iter()
        .filter(|o| o["restart"] == true);
    assert_eq!(
        restarts.map(|o| o["unit"].clone()).collect::<Vec<_>>(),
        ["k3s-agent.service"]
    );
}

#[test]
fn a_user_of_docker_is_warned_of_what_it_means() {
    let tree = debian(&["dockerd"]);
    tree.write("etc/group", "docker:x:999:bob\n");
    tree.write(
        "etc/passwd",
        "alice:x:1000:1000::/home/alice:/bin/sh\nbob:x:1001:1001::/home/bob:/bin/sh\n",
    );
    let plan = on(&tree, &["--docker-user", "alice", "--json"]).json();
    let join = operations(&plan, "container-engine")
        .into_iter()
        .find(|o| o["op"] == "run")
        .expect("a command")
        .clone();
    assert_eq!(join["argv"], json!(["gpasswd", "--add", "alice", "docker"]));
    assert_eq!(
        join["undo"],
        json!(["gpasswd", "--delete", "alice", "docker"])
    );
    assert!(
        texts(&plan)
            .iter()
            .any(|text| text.starts_with("alice becomes root in effect")),
        "{:?}",
        texts(&plan)
    );
    // A member already: nothing to undo.
    let plan = on(&tree, &["--docker-user", "bob", "--json"]).json();
    let join = operations(&plan, "container-engine")
        .into_iter()
        .find(|o| o["op"] == "run")
        .expect("a command")
        .clone();
    assert_eq!(join["satisfied"], true);
    let said = on(&tree, &["--docker-user", "carol"]);
    insta::assert_snapshot!(said.refusal(2), @"
    error: this host has no user carol (--docker-user)
    hint: its /etc/passwd lists the users
    ");
    let wrong = ["", "Alice", "-x", "a b", "a:b", "$(id)"].map(|wrong| {
        let said = on(&tree, &[&format!("--docker-user={wrong}")]);
        said.refused(2).to_owned()
    });
    insta::assert_snapshot!(wrong.join("\n"), @"
    error: invalid value '' for '--docker-user <NAME>': a name of a user begins with a lower-case letter or an underscore; digits, dashes and dots may follow
    error: invalid value 'Alice' for '--docker-user <NAME>': a name of a user begins with a lower-case letter or an underscore; digits, dashes and dots may follow
    error: invalid value '-x' for '--docker-user <NAME>': a name of a user begins with a lower-case letter or an underscore; digits, dashes and dots may follow
    error: invalid value 'a b' for '--docker-user <NAME>': a name of a user begins with a lower-case letter or an underscore; digits, dashes and dots may follow
    error: invalid value 'a:b' for '--docker-user <NAME>': a name of a user begins with a lower-case letter or an underscore; digits, dashes and dots may follow
    error: invalid value '$(id)' for '--docker-user <NAME>': a name of a user begins with a lower-case letter or an underscore; digits, dashes and dots may follow
    ");
    let said = on(&tree, &["--docker-user", "root"]);
    insta::assert_snapshot!(tree.typed_in_it(said.refusal(2)), @"
    error: root can use every engine already (--docker-user)
    try: gpusetup plan --profile container-host  # without it
    ");
    let said = stock("rocky-9", &["--engine", "podman", "--docker-user", "alice"]);
    insta::assert_snapshot!(said.refusal(2), @"
    error: Podman has no group that lets users use it: alice can run it without one (--docker-user)
    try: gpusetup plan --os rocky-9 --gpu 10de:2330 --profile container-host --engine podman  # without it
    ");
    let tree = debian(&["podman"]);
    let said = on(&tree, &["--docker-user", "alice"]);
    insta::assert_snapshot!(tree.typed_in_it(said.refusal(2)), @"
    error: Docker is not installed, so alice cannot be let use it (--docker-user)
    try: gpusetup plan --profile container-host  # without it
    try: gpusetup plan --profile container-host --engine docker --docker-user alice  # with Docker
    ");
}

#[test]
fn what_older_versions_left_is_moved_or_named() {
    let tree = debian(&["podman"]);
    tree.write(
        "usr/share/containers/oci/hooks.d/oci-nvidia-hook.json",
        "{}",
    );
    tree.write("etc/apt/sources.list.d/nvidia-docker.list", "");
    tree.write(
        "var/lib/dpkg/status",
        "Package: podman\nStatus: install ok installed\nVersion: 4.3.1+ds1-8+deb12u1\n\n",
    );
    let plan = on(&tree, &["--json"]).json();
    let first = operations(&plan, "container-toolkit")[0];
    assert_eq!(
        (first["op"].as_str(), first["path"].as_str()),
        (
            Some("remove"),
            Some("/usr/share/containers/oci/hooks.d/oci-nvidia-hook.json")
        )
    );
    insta::assert_snapshot!(about(&plan, "nvidia-docker.list"), @r#"/etc/apt/sources.list.d/nvidia-docker.list: a source of an older generation of the toolkit. If apt says "Conflicting values set for option Signed-By", remove it"#);
    insta::assert_snapshot!(about(&plan, "Podman 4.3.1"), @"Podman 4.3.1 does not read version 0.7.0 of CDI, in which NVIDIA Container Toolkit 1.20.0 may write the specification. If it does, containers of Podman get no GPUs. Podman 5.1.0 is the first version that reads it");
}

/// No list of packages is known for a release that is named.
#[test]
fn the_engine_of_a_release_may_be_too_old() {
    for (os, engine, text) in [
        (
            "rhel-8",
            "podman",
            "Podman 4.9.4 of Red Hat Enterprise Linux 8 does not read version 0.7.0 of CDI",
        ),
        (
            "rocky-8",
            "podman",
            "Podman 4.9.4 of Rocky Linux 8 does not read version 0.7.0 of CDI",
        ),
        (
            "almalinux-8",
            "podman",
            "Podman 4.9.4 of AlmaLinux 8 does not read version 0.7.0 of CDI",
        ),
        (
            "ol-8",
            "podman",
            "Podman 4.9.4 of Oracle Linux 8 does not read version 0.7.0 of CDI",
        ),
        (
            "opensuse-leap-15",
            "podman",
            "Podman 4.9.5 of openSUSE Leap 15 does not read version 0.7.0 of CDI",
        ),
        (
            "amzn-2023",
            "docker",
            "Docker 25.0.16 of Amazon Linux 2023 does not read version 0.7.0 of CDI",
        ),
    ] {
        let plan = stock(os, &["--engine", engine, "--json"]).json();
        assert!(
            texts(&plan).iter().any(|warning| warning.starts_with(text)),
            "{os}: {:?}",
            texts(&plan)
        );
    }
    let plan = stock("amzn-2023", &["--engine", "docker", "--json"]).json();
    // Docker 25 reads specifications only if told to.
    insta::assert_snapshot!(written(&plan, "daemon.json"), @r#"
    {
      "features": {
        "cdi": true
      },
      "runtimes": {
        "nvidia": {
          "args": [],
          "path": "/usr/bin/nvidia-container-runtime"
        }
      }
    }
    "#);
}

/// An engine skips a specification that it does not read, and takes the devices of the others.
#[test]
fn a_specification_of_an_older_version_beside_the_new_one_is_enough() {
    let tree = debian(&["podman"]);
    tree.write(
        "var/lib/dpkg/status",
        "Package: podman\nStatus: install ok installed\nVersion: 4.3.1+ds1-8\n\n",
    );
    let spec = |cdi: &str, device: &str| {
        format!("cdiVersion: {cdi}\nkind: nvidia.com/gpu\ndevices:\n- name: {device}\n")
    };
    let warned = |device: &str| {
        tree.write("etc/cdi/nvidia.yaml", &spec("0.5.0", device));
        let plan = on(&tree, &["--json"]).json();
        texts(&plan)
            .iter()
            .any(|text| text.contains("does not read"))
    };
    assert!(!warned("all"));
    tree.write("var/run/cdi/nvidia.yaml", &spec("0.7.0", "all"));
    assert!(!warned("all"));
    assert!(warned("none-of-these"));
}

#[test]
fn the_request_is_kept_in_user_data_and_in_the_config_file() {
    let text = printed(stock(
        "debian-12",
        &[
            "--engine",
            "docker",
            "--docker-user",
            "admin",
            "--format",
            "cloud-init",
        ],
    ));
    for line in [
        "profile: \"container-host\"",
        "engine: \"docker\"",
        "docker-user: \"admin\"",
        "cuda: \"none\"",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    let config = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(config.path(), "profile: container-host\nengine: podman\n").expect("written");
    let path = config.path().to_str().expect("UTF-8");
    let plan = run(&[
        "plan",
        "--config",
        path,
        "--os",
        "debian-13",
        "--gpu",
        "h100",
        "--json",
    ])
    .json();
    assert_eq!(
        plan["request"]["settings"]["containers"],
        json!({"engine": "podman"})
    );
}

/// An older guide of NVIDIA's registers the runtime in the unit, beside which it is not written
/// into the file.
#[test]
fn options_of_the_unit_are_not_contradicted() {
    let unit = "etc/systemd/system/docker.service.d/override.conf";
    let tree = debian(&["dockerd"]);
    let starts = |options: &str| {
        let command =
            format!("ExecStart=\nExecStart=/usr/bin/dockerd --host=fd:// \\\n  {options}\n");
        tree.write(unit, &format!("[Service]\n{command}"));
        on(&tree, &[])
    };
    let text = printed(starts(
        "--add-runtime=nvidia=/usr/bin/nvidia-container-runtime",
    ));
    assert!(!text.contains("daemon.json"), "{text}");
    let plan = on(&tree, &["--json"]).json();
    insta::assert_snapshot!(about(&plan, "override.conf"), @"Docker has a runtime nvidia in /etc/systemd/system/docker.service.d/override.conf already, which stays as it is");
    let ran = starts("--config-file=/opt/docker.json");
    insta::assert_snapshot!(tree.typed_in_it(ran.refusal(5)), @"
    error: /etc/systemd/system/docker.service.d/override.conf cannot be merged, so it is left as it is: it starts Docker with --config-file, beside which settings in /etc/docker/daemon.json are refused or not read (GS803)
    hint: correct the file of Docker, then plan again
    try: sudo cat /etc/systemd/system/docker.service.d/override.conf
    ");
    tree.write(
        unit,
        "[Service]\n# ExecStart=/usr/bin/dockerd --add-runtime=a=b\nExecStart=/usr/bin/dockerd --add-runtimes\n",
    );
    printed(on(&tree, &[]));
}

fn without_apt(tree: &Tree) {
    std::fs::remove_file(tree.path().join("usr/bin/apt-get")).expect("removed");
}

#[test]
fn packages_are_not_installed_beside_a_snap() {
    let tree = debian(&[]);
    tree.write("snap/bin/docker", "");
    let ran = on(&tree, &["--engine", "docker"]);
    insta::assert_snapshot!(tree.typed_in_it(ran.refusal(5)), @"
    error: Docker is a snap here (/snap/bin/docker): its packages would be a second Docker beside it, without its containers and images (--engine docker) (GS803)
    hint: for packages in its place, move its containers and images, remove the snap, then plan again
    try: sudo snap remove docker (on the machine that runs this tree, and not here)
    try: gpusetup plan --profile container-host  # with the snap
    ");
    let with_podman = on(&tree, &["--engine", "podman", "--json"]).json();
    insta::assert_snapshot!(about(&with_podman, "Docker is a snap here"), @"Docker is a snap here (/snap/bin/docker), which gpusetup does not set up: it reads /var/snap/docker/current/config/daemon.json and brings its own container toolkit. After this, `sudo snap restart docker` lets it find the driver, and --runtime nvidia gives containers the GPUs. For packages in its place, move containers and images, run `sudo snap remove docker`, and plan again with --engine docker (on the machine that runs this tree, and not here)");
}

#[test]
fn a_refusal_names_what_is_missing() {
    let tree = debian(&["dockerd"]);
    tree.write(
        "etc/passwd",
        "root:x:0:0::/root:/bin/sh\ntoor:x:0:0::/root:/bin/sh\n",
    );
    let root = on(&tree, &["--docker-user", "toor"]);
    insta::assert_snapshot!(root.refused(2), @"error: toor is root by another name (uid 0), and can use every engine already (--docker-user)");
    let number = on(&tree, &["--docker-user", "1000"]);
    insta::assert_snapshot!(number.refused(2), @"error: invalid value '1000' for '--docker-user <NAME>': the name of a user is expected, not its number: getent passwd shows both");
    without_apt(&tree);
    insta::assert_snapshot!(on(&tree, &[]).refusal(5), @"
    error: NVIDIA Container Toolkit comes as packages, and no package manager is installed here (GS803)
    hint: Debian GNU/Linux 12 (bookworm) has apt: its program was not found
    ");
}

#[test]
fn the_toolkit_alone_is_removed() {
    let tree = debian(&["dockerd"]);
    // The records of packages need dpkg's own program.
    without_apt(&tree);
    let root = tree.path().to_str().expect("UTF-8").to_owned();
    let removal = |more: &[&str]| {
        run(&[&["uninstall", "--container-toolkit", "--root", &root], more].concat())
    };
    let nothing = printed(removal(&["--dry-run"]));
    insta::assert_snapshot!(nothing.lines().last().expect("a line"), @"Nothing to remove: it is not installed.");
    tree.write("etc/cdi/nvidia.yaml", "kind: nvidia.com/gpu\n");
    tree.write(
        DAEMON,
        r#"{"runtimes": {"nvidia": {"path": "nvidia-container-runtime"}}}"#,
    );
    let plan = removal(&["--dry-run", "--json"]).json();
    assert_eq!(
        operations(&plan, "container-toolkit"),
        [&json!({"op": "remove", "path": "/etc/cdi/nvidia.yaml"})]
    );
    insta::assert_snapshot!(tree.typed_in_it(&texts(&plan).join("\n")), @"/etc/docker/daemon.json has the runtime nvidia, which gpusetup did not write: it stays. Take it out by hand, then `sudo systemctl restart docker.service`");
    tree.write(
        DAEMON,
        r#"{"default-runtime": "nvidia", "runtimes": {"nvidia": {"path": "nvidia-container-runtime"}}}"#,
    );
    let refused = removal(&["--dry-run"]);
    insta::assert_snapshot!(tree.typed_in_it(refused.refusal(5)), @"
    error: Docker starts every container with NVIDIA's runtime: /etc/docker/daemon.json makes it the default (GS803)
    hint: give Docker another default runtime in this file, restart Docker, then try again
    try: sudo grep -niE 'default.runtime|^ *runtime *=|nvidia' /etc/docker/daemon.json
    ");
}

#[test]
fn an_option_for_containers_is_suggested_for_the_same_host() {
    let ran = run(&[
        "plan",
        "--os",
        "ubuntu-24.04",
        "--gpu",
        "a100-sxm4-40gb",
        "--engine",
        "docker",
        "--docker-user",
        "x",
    ]);
    assert_eq!(ran.code, 2, "{}", ran.err);
    let stderr = ran.err.split_whitespace().collect::<Vec<_>>().join(" ");
    let command = "gpusetup plan --os ubuntu-24.04 --profile container-host --engine docker --docker-user x --gpu a100-sxm4-40gb";
    assert!(stderr.contains(command), "{stderr}");
}
