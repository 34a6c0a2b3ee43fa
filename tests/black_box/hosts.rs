//! What plans say of hosts, boards and limits that are easily overlooked.

use crate::common::{Ran, Tree, run};
use serde_json::{Value, json};

/// Plans for the facts of a tree after a change.
fn plan_for(tree: &Tree, change: impl FnOnce(&mut Value), arguments: &[&str]) -> Ran {
    let mut facts = tree.run(&["facts", "--json"]).json();
    change(&mut facts);
    let file = tree.path().join("facts.json");
    std::fs::write(&file, facts.to_string()).expect("written");
    let file = file.to_str().expect("UTF-8");
    let all: Vec<&str> = ["plan", "--json", "--facts", file].into_iter().chain(arguments.iter().copied()).collect();
    run(&all)
}

fn gpus(plan: &Value) -> Vec<&str> {
    plan["host"]["gpus"].as_array().expect("a list").iter().filter_map(|g| g["pci_id"].as_str()).collect()
}

fn warnings(plan: &Value, check: &str) -> Vec<String> {
    let all = plan["warnings"].as_array().expect("a list").iter();
    all.filter(|w| w["check"] == check).filter_map(|w| w["text"].as_str()).map(str::to_owned).collect()
}

#[test]
fn assumed_gpus_replace_those_of_a_description() {
    let tree = Tree::ubuntu_24_04().gpu("0000:17:00.0", "1eb8", None);
    assert_eq!(gpus(&tree.run(&["plan", "--json"]).json()), ["10de:1eb8"]);
    assert_eq!(gpus(&tree.run(&["plan", "--json", "--gpu", "10de:2b85"]).json()), ["10de:2b85"]);
    let plan = plan_for(&tree, |_| {}, &["--gpu", "10de:2b85x2"]).json();
    assert_eq!(gpus(&plan), ["10de:2b85", "10de:2b85"]);
    assert_eq!(plan["request"]["assumed_gpus"], json!(["10de:2b85x2"]));
    let none = Tree::ubuntu_24_04();
    assert_eq!(gpus(&plan_for(&none, |_| {}, &["--gpu", "h100"]).json()), ["10de:2330"]);
    let listed = tree.path().join("lspci.txt");
    std::fs::write(&listed, "01:00.0 3D controller [0302]: NVIDIA [10de:20b2]\n02:00.0 VGA: NVIDIA GP106\n")
        .expect("written");
    let listed = listed.to_str().expect("UTF-8");
    let plan = tree.run(&["plan", "--json", "--lspci", listed, "--gpu", "10de:2b85"]).json();
    assert_eq!((gpus(&plan), warnings(&plan, "GS503").len()), (vec!["10de:2b85"], 0));
}

#[test]
fn packages_that_no_repository_has_are_named() {
    let driver = ["--gpu", "h100", "--profile", "driver"];
    let of = |tree: &Tree, change: &dyn Fn(&mut Value)| warnings(&plan_for(tree, change, &driver).json(), "GS402");
    // DKMS comes from EPEL, which the host must have.
    let rocky = Tree::rocky_9();
    let said = of(&rocky, &|_| {});
    assert!(
        said.iter().any(|s| s.starts_with("dkms comes from EPEL") && s.contains("epel-release-latest-9")),
        "{said:?}"
    );
    let enabled =
        |facts: &mut Value| facts["repositories"] = json!(["https://mirrors.fedoraproject.org/metalink?repo=epel-9"]);
    assert_eq!(of(&rocky, &enabled), [""; 0]);
    let offered = |facts: &mut Value| facts["offered"] = json!({"dkms": "3.3.0-1.el9"});
    assert_eq!(of(&rocky, &offered), [""; 0]);

    // Debian's archive drops the headers of older kernels.
    let debian = Tree::debian_12();
    let headers =
        |facts: &Value| format!("linux-headers-{}", facts["kernels"]["next_boot"].as_str().expect("a kernel"));
    let without = |facts: &mut Value| facts["kernels"]["installed"][0]["headers"] = json!(false);
    let unknown = of(&debian, &|facts| {
        without(facts);
        facts["offered"] = Value::Null;
    });
    assert!(unknown.len() == 1 && unknown[0].contains("keeps the headers of its newest kernels only"), "{unknown:?}");
    let dropped = of(&debian, &|facts| {
        without(facts);
        facts["offered"] = json!({});
    });
    assert!(
        dropped.len() == 1 && dropped[0].starts_with("no repository of this host has linux-headers-"),
        "{dropped:?}"
    );
    let there = of(&debian, &|facts| {
        without(facts);
        facts["offered"] = json!({headers(facts): "6.1.0-1"});
    });
    assert_eq!(there, [""; 0]);
}

#[test]
fn compilers_and_libraries_that_nvcc_cannot_use_are_found() {
    // On aarch64 glibc 2.38 has types in its headers that nvcc before 12.5 does not know.
    let tree = Tree::ubuntu_24_04().arch(183).glibc("2.39-0ubuntu8");
    let ask = |cuda: &str| plan_for(&tree, |_| {}, &["--gpu", "10de:2342", "--cuda", cuda]);
    let refused = ask("12.4");
    assert!(refused.code == 4 && refused.err.contains("glibc 2.38 and newer"), "{}", refused.err);
    assert_eq!(ask("12.6").code, 0);
    assert_eq!(
        plan_for(&Tree::ubuntu_24_04().glibc("2.39-0ubuntu8"), |_| {}, &["--gpu", "h100", "--cuda", "12.4"]).code,
        0
    );

    let tree = Tree::ubuntu_24_04();
    let old = |facts: &mut Value| facts["gcc"] = json!("4.8.5");
    let said = warnings(&plan_for(&tree, old, &["--gpu", "h100", "--cuda", "12.4"]).json(), "GS705");
    assert_eq!(said, ["nvcc of CUDA 12.4.1 needs gcc 6 or newer, and this host has gcc 4"]);
}

#[test]
fn joined_gpus_need_what_starts_their_switches() {
    let tree = Tree::ubuntu_24_04();
    for (gpu, needs) in [
        ("10de:2901x8", &["nvidia-fabricmanager-595", "nvlsm", "mlx5_ib and ib_umad", "802"][..]),
        ("10de:3182", &["nvlsm"]),
        ("10de:2330x8", &["Fabric Manager of exactly driver"]),
        ("10de:2330x4", &[]),
        ("10de:2331x8", &[]),
    ] {
        let said = warnings(&tree.run(&["plan", "--json", "--gpu", gpu]).json(), "GS801");
        assert_eq!(said.len(), usize::from(!needs.is_empty()), "{gpu}: {said:?}");
        assert!(needs.iter().all(|part| said[0].contains(part)), "{gpu}: {said:?}");
    }
    let grace = Tree::ubuntu_24_04().arch(183).run(&["plan", "--json", "--gpu", "gb200x4"]).json();
    let said = warnings(&grace, "GS801");
    assert!(said[0].contains("nvidia-imex") && !said[0].contains("nvlsm"), "{said:?}");
    // The data of a network function shows the switches; of other hosts it is not read.
    for (device, seen) in [("2901", 1), ("20b2", 0)] {
        let tree = Tree::ubuntu_24_04().gpu("0000:1b:00.0", device, None);
        let function = "sys/bus/pci/devices/0000:05:00.0";
        for (file, text) in
            [("vendor", "0x15b3"), ("device", "0x1021"), ("class", "0x020700"), ("vpd", "x SMDL=SW_MNG")]
        {
            tree.write(&format!("{function}/{file}"), text);
        }
        tree.link("sys/class/infiniband/mlx5_0/device", "/sys/bus/pci/devices/0000:05:00.0");
        let facts = tree.run(&["facts", "--json"]).json();
        assert_eq!(crate::schema::mistakes("facts.json", &facts), [""; 0]);
        assert_eq!(facts["nvswitches"].as_array().map(Vec::len), Some(seen), "{facts}");
    }
}

#[test]
fn gpus_that_a_machine_cannot_have_get_no_driver() {
    let (server, arm) = (Tree::ubuntu_24_04(), Tree::ubuntu_24_04().arch(183));
    for (gpu, says) in [
        ("gh200", "only in machines with aarch64"),
        ("gb300", "only in machines with aarch64"),
        ("12.1", "only in machines with aarch64"),
        ("sm_87", "comes with the board"),
        ("10de:2b00", "comes with the board"),
    ] {
        let ran = server.run(&["plan", "--gpu", gpu]);
        assert!(ran.code == 4 && ran.err.contains(says) && ran.err.contains("--profile toolkit"), "{gpu}: {}", ran.err);
        let plan = server.run(&["plan", "--json", "--gpu", gpu, "--profile", "toolkit", "--cuda", "13"]).json();
        assert!(warnings(&plan, "GS503")[0].contains("compiles for it on x86_64, no more"), "{gpu}");
    }
    for (gpu, profile, code) in [
        ("gh200", "compute", 0),
        ("gb10", "compute", 0),
        ("sm_110", "compute", 4),
        ("sm_110", "toolkit", 0),
        ("sm_87", "toolkit", 4),
    ] {
        let ran = arm.run(&["plan", "--gpu", gpu, "--profile", profile]);
        assert_eq!(ran.code, code, "{gpu} {profile}: {}", ran.err);
    }
    let ran = arm.run(&["plan", "--gpu", "sm_87", "--profile", "toolkit"]);
    assert!(ran.err.contains("no toolkit for servers (sbsa) serves Jetson AGX Orin"), "{}", ran.err);
    let jetson = ["plan", "--root", "tests/hosts/jetson-orin", "--profile", "toolkit"];
    assert!(run(&jetson).code == 4 && run(&jetson).err.contains("--gpu sm_110"), "{}", run(&jetson).err);
}

#[test]
fn old_libraries_and_kernels_get_what_loads_there() {
    let tree = Tree::rocky_9().gpu("0000:17:00.0", "20b2", None);
    let old = |glibc: &'static str, kernel: &'static str| {
        move |facts: &mut Value| {
            facts["glibc"] = json!(glibc);
            let release = format!("{kernel}.el7.x86_64");
            facts["kernels"]["next_boot"] = json!(release);
            facts["kernels"]["installed"][0]["release"] = json!(release);
        }
    };
    let chosen = |glibc, kernel| {
        let plan = plan_for(&tree, old(glibc, kernel), &[]).json();
        let of = |layer: &str, what: &str| plan["selection"][layer][what].as_str().unwrap_or_default().to_owned();
        (of("driver", "branch"), of("cuda", "version"), of("cudnn", "version"))
    };
    let strings = |a: &str, b: &str, c: &str| (a.to_owned(), b.to_owned(), c.to_owned());
    assert_eq!(chosen("2.17", "3.10.0-1160"), strings("550", "12.4.1", "9.3.0.75"));
    assert_eq!(chosen("2.26", "4.14.355"), strings("550", "12.4.1", "9.3.0.75"));
    assert_eq!(chosen("2.26", "4.15.0"), strings("595", "12.6.3", "9.3.0.75"));
    assert_eq!(chosen("2.27", "4.15.0"), strings("595", "13.2.1", "9.28.0.42"));
    for (asked, says) in [
        (["--cuda", "12.8"], "needs glibc 2.27 or newer, this host has 2.26"),
        (["--cudnn", "9.10.2.21"], "needs glibc 2.27 or newer, this host has 2.26"),
        (["--driver", "595"], "branch 595 needs Linux 4.15 or newer, and kernel 4.14.355"),
    ] {
        let ran = plan_for(&tree, old("2.26", "4.14.355"), &asked);
        assert!(ran.code == 4 && ran.out.is_empty() && ran.err.contains(says), "{asked:?}: {}", ran.err);
    }
}

#[test]
fn systems_that_nobody_described_are_said_to_be_such() {
    let gpu = |tree: Tree| tree.gpu("0000:17:00.0", "1eb8", None);
    let release = |id: &'static str, version: &'static str, like: &'static [&'static str]| {
        move |facts: &mut Value| {
            facts["os"]["id"] = json!(id);
            facts["os"]["version"] = json!(version);
            facts["os"]["like"] = json!(like);
            facts["os"]["name"] = json!(format!("{id} {version}"));
        }
    };
    for (tree, change, named) in [
        (Tree::ubuntu_24_04(), release("linuxmint", "22", &["ubuntu", "debian"]), "Ubuntu 24.04"),
        (Tree::ubuntu_24_04(), release("ubuntu", "27.10", &["debian"]), "Ubuntu 24.04"),
        (Tree::ubuntu_24_04(), release("pop", "22.04", &["ubuntu", "debian"]), "Ubuntu 22.04"),
        (Tree::debian_12(), release("kali", "2026.3", &["debian"]), "Debian 13"),
        (Tree::rocky_9(), release("rhel", "11.0", &["centos", "fedora"]), "Red Hat Enterprise Linux 10"),
    ] {
        let plan = plan_for(&gpu(tree), change, &[]).json();
        let said = warnings(&plan, "GS402");
        assert!(said[0].contains("does not know") && said[0].contains(named), "{said:?}");
    }
    // Without the package manager of the releases that are known, nothing can be installed.
    let old = |facts: &mut Value| {
        release("centos", "6", &["rhel", "fedora"])(facts);
        facts["os"]["package_manager"] = Value::Null;
        facts["kernels"]["installed"][0]["headers"] = json!(false);
    };
    let ran = plan_for(&gpu(Tree::rocky_9()), old, &[]);
    assert!(ran.code == 5 && ran.err.contains("does not know the packages of centos 6"), "{}", ran.err);
}

#[test]
fn a_toolkit_for_no_gpu_says_so() {
    let plan = Tree::ubuntu_24_04().run(&["plan", "--json", "--profile", "toolkit"]).json();
    assert!(warnings(&plan, "GS503")[0].starts_with("no GPU is known here"));
    assert!(plan["reasons"].to_string().contains("since no GPU is known that it must target"));
    let wsl = run(&["plan", "--json", "--profile", "toolkit", "--root", "tests/hosts/wsl2-ubuntu-22.04"]).json();
    assert!(warnings(&wsl, "GS503")[0].starts_with("WSL2 does not show"));
    let known = Tree::ubuntu_24_04().run(&["plan", "--json", "--profile", "toolkit", "--gpu", "h100"]).json();
    assert_eq!(warnings(&known, "GS503"), [""; 0]);
}
