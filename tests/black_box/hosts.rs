//! What plans say of hosts, boards and limits that are easily overlooked.

use crate::common::{Ran, Tree, run, warnings};
use gpusetup::compat::files;
use serde_json::{Value, json};
use std::path::Path;

/// Plans for the facts of a tree after a change.
fn plan_for(tree: &Tree, change: impl FnOnce(&mut Value), arguments: &[&str]) -> Ran {
    let mut facts = tree.run(&["facts", "--json"]).json();
    change(&mut facts);
    let file = tree.path().join("facts.json");
    std::fs::write(&file, facts.to_string()).expect("written");
    let file = file.to_str().expect("UTF-8");
    let all: Vec<&str> = ["plan", "--json", "--facts", file]
        .into_iter()
        .chain(arguments.iter().copied())
        .collect();
    run(&all)
}

fn gpus(plan: &Value) -> Vec<&str> {
    plan["host"]["gpus"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|g| g["pci_id"].as_str())
        .collect()
}

#[test]
fn a_plan_in_a_container_says_which_wishes_are_the_hosts() {
    let tree = Tree::ubuntu_24_04().gpu("0000:00:06.0", "2335", Some("nvidia"));
    tree.write("usr/local/nvidia/lib64/libcuda.so.580.159.04", "");
    let in_container = |facts: &mut Value| facts["machine"]["kind"] = json!("container");
    plan_for(&tree, in_container, &[]);
    let file = tree.path().join("facts.json");
    let wishes = [
        "--power-limit",
        "500",
        "--mig",
        "7x1g.18gb",
        "--profile",
        "driver",
    ];
    let ran = run(&[
        &["plan", "--facts", file.to_str().expect("UTF-8")],
        &wishes[..],
    ]
    .concat());
    let steps = ran.out.find("\nSteps").expect("steps");
    insta::assert_snapshot!(&ran.out[steps..], @r#"
    Steps
    = prerequisites     Install the build tools (already done)
    + blacklist-nouveau Block the nouveau and nova drivers
    = install-driver    Install the NVIDIA driver 580.159.04 with the open kernel
                        modules (already done)
      mig               Partition the GPUs (MIG) (left out: the host of a container
                        partitions its GPUs)
      gpu-settings      Set the GPUs (left out: the host of a container sets its
                        GPUs)
    + verify            Verify the installation

    ! GS911: a container shares the host's kernel: install the kernel modules on the
      host
    ! GS513: driver 580.159.04 is vulnerable (CVE-2026-47595 and others): NVIDIA's
      security bulletin "GPU Display Driver, September 2026" (5861) names 580.178.04
      as the first release of branch 580 with the fixes; --upgrade gets 595.91.07,
      which has them
    Plan: 1 to add, 1 to change, 0 to remove, no reboot. Download 0 B, disk about 18
          B.
    Next: sudo gpusetup apply --profile driver --power-limit 500 --mig 7x1g.18gb  # on that host
    "#);
    let bare = run(&[
        "plan",
        "--facts",
        file.to_str().expect("UTF-8"),
        "--profile",
        "driver",
    ]);
    assert!(!bare.out.contains("left out"), "{}", bare.out);
}

#[test]
fn the_driver_of_a_container_is_its_hosts() {
    let tree = Tree::ubuntu_24_04().gpu("0000:00:06.0", "2335", Some("nvidia"));
    let kind = |kind: &'static str| move |facts: &mut Value| facts["machine"]["kind"] = json!(kind);
    let layers = |kind_of: &'static str, arguments: &[&str]| {
        let ran = plan_for(&tree, kind(kind_of), arguments);
        let chosen = ran.json()["selection"].clone();
        (
            chosen["driver"].is_object(),
            chosen["cuda"].is_object(),
            ran.err.contains("its driver is its host's"),
        )
    };
    assert_eq!(layers("physical", &[]), (true, true, false));
    assert_eq!(layers("container", &[]), (false, true, true));
    assert_eq!(layers("container", &["--upgrade"]), (false, true, true));
    // Who names the driver gets it.
    assert_eq!(
        layers("container", &["--profile", "compute"]),
        (true, true, false)
    );
    assert_eq!(
        layers("container", &["--profile", "driver"]),
        (true, false, false)
    );
    assert_eq!(
        layers("container", &["--driver", "580"]),
        (true, true, false)
    );
    let facts = tree.path().join("facts.json");
    let next = |arguments: &[&str]| {
        let ran = run(&[
            &["plan", "--facts", facts.to_str().expect("UTF-8")],
            arguments,
        ]
        .concat());
        ran.out.lines().last().expect("a line").to_owned()
    };
    assert_eq!(
        next(&["--profile", "compute"]),
        "Next: sudo gpusetup apply --profile compute  # on that host"
    );
    assert_eq!(
        next(&[]),
        "Next: sudo gpusetup apply --profile toolkit  # on that host"
    );
}

#[test]
fn a_toolkit_beside_a_driver_that_stays_is_one_that_it_runs() {
    let tree = Tree::ubuntu_24_04().gpu("0000:00:06.0", "20b2", Some("nvidia"));
    let loaded = |kind: &'static str| {
        move |facts: &mut Value| {
            facts["machine"]["kind"] = json!(kind);
            facts["loaded_modules"] = json!([{"name": "nvidia", "version": "535.104.05"}]);
        }
    };
    let chosen = |kind: &'static str, arguments: &[&str]| {
        let plan = plan_for(
            &tree,
            loaded(kind),
            &[&["--profile", "toolkit"], arguments].concat(),
        )
        .json();
        (
            plan["selection"]["cuda"]["version"]
                .as_str()
                .expect("a version")
                .to_owned(),
            warnings(&plan, "GS707"),
        )
    };
    for kind in ["container", "physical"] {
        let (version, warned) = chosen(kind, &[]);
        assert!(
            version.starts_with("12.2.") && warned.is_empty(),
            "{version} {warned:?}"
        );
        assert!(
            chosen(kind, &["--cuda", "12.8"]).1.is_empty(),
            "through minor-version compatibility"
        );
        let (version, warned) = chosen(kind, &["--cuda", "13.0"]);
        assert!(
            version.starts_with("13.0"),
            "it was named, and compiles: {version}"
        );
        insta::allow_duplicates! {
            insta::assert_snapshot!(warned.join("\n"), @"the driver 535.104.05 stays, and programs of CUDA 13.0.3 do not run on it: they need driver 580.65.06 or newer; --cuda 12.2.2 gets one that it runs; or they run with NVIDIA's package cuda-compat-13-0");
        }
    }
    // The installed libraries are those of the next boot.
    tree.write("usr/lib/x86_64-linux-gnu/libcuda.so.580.95.05", "");
    let version = chosen("physical", &[]).0;
    assert!(version.starts_with("13.0."), "{version}");
    assert!(
        chosen("container", &[]).0.starts_with("12.2."),
        "the module is its host's"
    );
}

#[test]
fn a_plan_warns_of_a_file_system_without_room() {
    let tree = Tree::ubuntu_24_04().gpu("0000:17:00.0", "20b0", None);
    let space = |path: &str, free: u64, of: u64| json!({"path": path, "free_bytes": free, "read_only": false, "no_exec": false, "file_system": of});
    let small = |facts: &mut Value| {
        facts["space"] = json!([space("/", 100_000_000, 1), space("/usr/local", 1 << 40, 2)])
    };
    let plan = plan_for(&tree, small, &["--cuda", "12.8"]).json();
    insta::assert_snapshot!(warnings(&plan, "GS602").join("\n"), @"/ has too little room: at least 17 GB are needed, 100 MB are free");
    let both = |facts: &mut Value| {
        facts["space"] = json!([space("/", 1_000_000, 1), space("/usr/local", 1_000_000, 2)])
    };
    let packages = ["--cuda", "12.8", "--toolkit-method", "repository"];
    assert_eq!(
        warnings(&plan_for(&tree, both, &packages).json(), "GS602").len(),
        2,
        "packages need room, too"
    );
    let large = |facts: &mut Value| facts["space"] = json!([space("/", 1 << 40, 1)]);
    assert_eq!(
        warnings(&plan_for(&tree, large, &["--cuda", "12.8"]).json(), "GS602"),
        [""; 0]
    );
}

#[test]
fn assumed_gpus_replace_those_of_a_description() {
    let tree = Tree::ubuntu_24_04().gpu("0000:17:00.0", "1eb8", None);
    assert_eq!(gpus(&tree.run(&["plan", "--json"]).json()), ["10de:1eb8"]);
    assert_eq!(
        gpus(&tree.run(&["plan", "--json", "--gpu", "10de:2b85"]).json()),
        ["10de:2b85"]
    );
    let plan = plan_for(&tree, |_| {}, &["--gpu", "10de:2b85x2"]).json();
    assert_eq!(gpus(&plan), ["10de:2b85", "10de:2b85"]);
    assert_eq!(plan["request"]["assumed_gpus"], json!(["10de:2b85x2"]));
    let none = Tree::ubuntu_24_04();
    assert_eq!(
        gpus(&plan_for(&none, |_| {}, &["--gpu", "h100"]).json()),
        ["10de:2330"]
    );
    let listed = tree.path().join("lspci.txt");
    std::fs::write(
        &listed,
        "01:00.0 3D controller [0302]: NVIDIA [10de:20b2]\n02:00.0 VGA: NVIDIA GP106\n",
    )
    .expect("written");
    let listed = listed.to_str().expect("UTF-8");
    let plan = tree
        .run(&["plan", "--json", "--lspci", listed, "--gpu", "10de:2b85"])
        .json();
    assert_eq!(
        (gpus(&plan), warnings(&plan, "GS503").len()),
        (vec!["10de:2b85"], 0)
    );
}

#[test]
fn assumed_gpus_are_not_named_by_an_address() {
    let tree = Tree::ubuntu_24_04();
    let together = tree.run(&["plan", "--gpu", "gt710,h100"]);
    insta::assert_snapshot!(tree.typed_in_it(together.refusal(4)), @"
    error: no driver supports all GPUs: branch 470 is the last that supports GeForce GT 710, but NVIDIA H100 80GB HBM3 needs 525 or newer (GS503)
    because: branch 470 is the last that supports GeForce GT 710 (supported-gpus.json of driver 615.71.09; The PCI ID Repository, 2026-10-24; 2 more)
    because: branch 525 is the first that supports NVIDIA H100 80GB HBM3 (supported-gpus.json of driver 615.71.09; Table of GPUs in the README of NVIDIA's open kernel modules 595.45.04; 6 more)
    because: a host can load only one driver (the modules have the same names)
    try: gpusetup plan --gpu gt710  # GeForce GT 710 alone: driver 470.256.02 (proprietary modules) + CUDA 11.4.4 + cuDNN 8.7.0.84
    try: gpusetup plan --gpu h100  # NVIDIA H100 80GB HBM3 alone: driver 595.91.07 (open modules) + CUDA 13.2.1 + cuDNN 9.28.0.42
    ");
    let left = run(&[
        "plan",
        "--os",
        "ubuntu-24.04",
        "--gpu",
        "gt710,h100",
        "--leave-out",
        "assumed:0",
    ]);
    insta::assert_snapshot!(left.out.lines().last().expect("a line"), @"Next: sudo gpusetup apply --leave-out BUS_ID  # on that host; BUS_ID is the address of GeForce GT 710 there");
    // A GPU that no database has.
    let unknown = run(&[
        "plan",
        "--json",
        "--os",
        "ubuntu-24.04",
        "--gpu",
        "10de:ffff",
    ]);
    let told: Value = serde_json::from_str(&unknown.out).expect("an object");
    let (_, help) = unknown.refusal(4).split_once('\n').expect("help");
    insta::assert_snapshot!(help, @"
    hint: report the line that lspci prints for it, so that it can be added to the database: lspci -nn -d 10de:ffff
    try: gpusetup plan --os ubuntu-24.04 --gpu 10de:ffff --driver 595 --profile driver --modules open  # if this is the driver and the flavour that it needs
    ");
    let command: Vec<_> = told["try"][0]
        .as_str()
        .expect("a command")
        .split(' ')
        .skip(1)
        .collect();
    let planned = run(&command);
    assert_eq!(planned.code, 0, "{command:?}: {}", planned.err);
}

#[test]
fn a_board_without_a_toolkit_for_servers_gets_no_plan_for_other_machines() {
    let orin = run(&["plan", "--os", "ubuntu-24.04", "--gpu", "jetson orin"]);
    insta::assert_snapshot!(orin.refusal(4), @"
    error: any GPU of compute capability 8.7 (Ampere) is part of Jetson AGX Orin / Orin NX / Orin Nano; its driver is included in the board's system software (JetPack) (GS907)
    hint: use the toolkit of JetPack, too, or from JetPack 7.2 on one for servers (sbsa)
    try: gpusetup db show 'jetson orin'
    ");
    let toolkit = run(&[
        "plan",
        "--os",
        "ubuntu-24.04",
        "--gpu",
        "jetson orin",
        "--profile",
        "toolkit",
    ]);
    insta::assert_snapshot!(toolkit.refusal(4), @"
    error: CUDA 13.5.0 does not fit: toolkits for servers (sbsa) support Jetson AGX Orin / Orin NX / Orin Nano from JetPack 7.2 on, which this host is not known to have. There, install one from NVIDIA's CUDA repository, otherwise the toolkit of JetPack
    because: any GPU of compute capability 8.7 (Ampere) has compute capability 8.7 (PTX ISA, release notes; Spack's cuda and cudnn packages; 2 more)
    because: toolkits for servers (sbsa) support Jetson AGX Orin / Orin NX / Orin Nano from JetPack 7.2 on, which this host is not known to have. There, install one from NVIDIA's CUDA repository, otherwise the toolkit of JetPack (PTX ISA, release notes; Spack's cuda and cudnn packages; 2 more)
    try: gpusetup db show 'jetson orin'
    ");
    let thor = run(&[
        "plan",
        "--json",
        "--os",
        "ubuntu-24.04",
        "--gpu",
        "jetson thor",
    ]);
    let error: Value = serde_json::from_str(&thor.out).expect("an object");
    let command = error["try"][0].as_str().expect("a command").to_owned();
    assert_eq!(
        command,
        "gpusetup plan --os ubuntu-24.04 --gpu 'jetson thor' --profile toolkit"
    );
}

#[test]
fn what_lspci_did_not_print_is_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for (text, code) in [
        ("junk\nmore junk\n", 2),
        ("", 0),
        ("00:02.0 VGA compatible controller: Intel\n", 0),
    ] {
        let file = folder.path().join("lspci.txt");
        std::fs::write(&file, text).expect("written");
        let ran = run(&["facts", "--lspci", file.to_str().expect("UTF-8")]);
        assert_eq!(ran.code, code, "{text:?}: {}", ran.err);
    }
}

#[test]
fn a_tree_without_programs_has_the_architecture_of_its_dpkg() {
    let tree = Tree::fresh(
        "ID=debian\nVERSION_ID=\"12\"\nPRETTY_NAME=\"Debian 12\"\n",
        "6.1.0-25-amd64",
        "bin/none",
    );
    std::fs::remove_file(tree.path().join("bin/sh")).expect("a program of the architecture");
    let refused = tree.run(&["plan", "--gpu", "h100"]);
    insta::assert_snapshot!(tree.typed_in_it(refused.refusal(4)), @"
    error: the machine architecture is unknown: the tree has no program, loader or dpkg record that shows it
    hint: plan for a new installation of its system, such as gpusetup plan --os ubuntu-24.04:x86_64 --gpu h100
    try: gpusetup plan --os debian-12:aarch64 --gpu h100  # on such a machine
    ");
    tree.write(
        "var/lib/dpkg/status",
        "Package: dpkg\nStatus: install ok installed\nArchitecture: amd64\nVersion: 1\n",
    );
    assert_eq!(
        tree.run(&["facts", "--json"]).json()["machine"]["arch"],
        "x86_64"
    );
}

#[test]
fn lines_beside_a_result_fit_a_narrow_terminal() {
    let mut command = crate::common::program();
    let ran = command
        .env("COLUMNS", "40")
        .args(["plan", "--os", "ubuntu-24.04", "--gpu", "titan"]);
    let ran = Ran::of(ran.output().expect("it runs"));
    let long = ran.err.lines().find(|line| {
        !line.starts_with("try: ") && !line.starts_with("hint: ") && line.chars().count() > 40
    });
    assert!(long.is_none() && ran.err.lines().count() > 5, "{}", ran.err);
}

/// What the first step installs.
fn prerequisites(plan: &Value) -> Vec<&str> {
    let steps = plan["steps"].as_array().expect("a list").iter();
    let operations = steps
        .filter(|s| s["id"] == "prerequisites")
        .flat_map(|s| s["operations"].as_array())
        .flatten();
    operations
        .flat_map(|o| o["install"].as_array())
        .flatten()
        .filter_map(Value::as_str)
        .collect()
}

#[test]
fn headers_are_those_of_the_kernel_that_will_run() {
    let suse = |id: &str, version: &str| {
        format!("PRETTY_NAME=\"{id}\"\nID=\"{id}\"\nVERSION_ID=\"{version}\"\n")
    };
    let oracle = |version: &str| {
        format!("PRETTY_NAME=\"Oracle Linux\"\nID=\"ol\"\nVERSION_ID=\"{version}\"\n")
    };
    for (release, kernel, program, wanted) in [
        (
            suse("sles", "15.6"),
            "6.4.0-150600.23.65-default",
            "usr/bin/zypper",
            "kernel-default-devel=6.4.0-150600.23.65",
        ),
        (
            suse("sles", "15.6"),
            "6.4.0-150600.8.40-azure",
            "usr/bin/zypper",
            "kernel-azure-devel=6.4.0-150600.8.40",
        ),
        (
            suse("sles", "16.0"),
            "6.12.0-160000.9-default",
            "usr/bin/zypper",
            "kernel-default-devel=6.12.0-160000.9",
        ),
        (
            suse("opensuse-leap", "15.6"),
            "6.4.0-150600.23.65-64kb",
            "usr/bin/zypper",
            "kernel-64kb-devel=6.4.0-150600.23.65",
        ),
        (
            oracle("9.6"),
            "5.14.0-570.el9_6.x86_64",
            "usr/bin/dnf",
            "kernel-devel-5.14.0-570.el9_6.x86_64 kernel-devel-matched-5.14.0-570.el9_6.x86_64",
        ),
        (
            AMAZON.to_owned(),
            "6.1.155-176.282.amzn2023.x86_64",
            "usr/bin/dnf",
            "kernel-devel-6.1.155-176.282.amzn2023.x86_64 kernel-headers-6.1.155-176.282.amzn2023.x86_64 \
             kernel-modules-extra-6.1.155-176.282.amzn2023.x86_64",
        ),
        (
            AMAZON.to_owned(),
            "6.12.55-74.119.amzn2023.x86_64",
            "usr/bin/dnf",
            "kernel6.12-devel-6.12.55-74.119.amzn2023.x86_64 kernel6.12-headers-6.12.55-74.119.amzn2023.x86_64 \
             kernel6.12-modules-extra-6.12.55-74.119.amzn2023.x86_64",
        ),
        (
            oracle("9.6"),
            "5.15.0-302.167.6.el9uek.x86_64",
            "usr/bin/dnf",
            "kernel-uek-devel-5.15.0-302.167.6.el9uek.x86_64",
        ),
        (
            oracle("10.0"),
            "6.12.0-100.28.2.el10uek.x86_64",
            "usr/bin/dnf",
            "kernel-uek-devel-6.12.0-100.28.2.el10uek.x86_64",
        ),
    ] {
        let tree = Tree::fresh(&release, kernel, program).gpu("0000:17:00.0", "2330", None);
        let plan = tree.run(&["plan", "--json"]).json();
        let headers: Vec<_> = prerequisites(&plan)
            .into_iter()
            .filter(|name| name.contains(kernel_version(kernel)))
            .collect();
        assert_eq!(
            headers.join(" "),
            wanted,
            "{kernel}: {:?}",
            prerequisites(&plan)
        );
    }
}

const AMAZON: &str =
    "PRETTY_NAME=\"Amazon Linux 2023\"\nID=\"amzn\"\nID_LIKE=\"fedora\"\nVERSION_ID=\"2023\"\n";

#[test]
fn amazons_kernel_gets_the_modules_that_the_driver_loads_with() {
    let tree =
        Tree::new(AMAZON, "6.1.155-176.282.amzn2023.x86_64", 11).gpu("0000:17:00.0", "2330", None);
    let has = |arguments: &[&str]| {
        let plan = tree.run(&[&["plan", "--json"], arguments].concat()).json();
        prerequisites(&plan).contains(&"kernel-modules-extra-6.1.155-176.282.amzn2023.x86_64")
    };
    // With the headers there, too. A toolkit loads nothing.
    assert!(has(&[]) && !has(&["--profile", "toolkit"]));
}

#[test]
fn no_step_brings_another_kernel_than_the_one_it_builds_for() {
    let release = |id: &str, version: &str| {
        format!("PRETTY_NAME=\"{id} {version}\"\nID=\"{id}\"\nVERSION_ID=\"{version}\"\n")
    };
    for (id, version, kernel) in [
        ("rhel", "9.6", "5.14.0-570.12.1.el9_6.x86_64"),
        ("rocky", "9.6", "5.14.0-570.12.1.el9_6.x86_64"),
        ("almalinux", "10.0", "6.12.0-55.9.1.el10_0.x86_64"),
        ("centos", "9", "5.14.0-570.el9.x86_64"),
        ("ol", "10.0", "6.12.0-55.9.1.el10_0.x86_64"),
        ("fedora", "44", "6.19.8-300.fc44.x86_64"),
    ] {
        let tree = Tree::new(&release(id, version), kernel, 11).gpu("0000:17:00.0", "2330", None);
        let plan = tree.run(&["plan", "--json", "--profile", "driver"]).json();
        let names = prerequisites(&plan);
        let matched: Vec<_> = names
            .iter()
            .filter(|name| name.contains("matched"))
            .collect();
        assert_eq!(
            matched,
            [&format!("kernel-devel-matched-{kernel}")],
            "{id} {version}"
        );
    }
}

fn kernel_version(kernel: &str) -> &str {
    kernel.split('-').next().expect("a version")
}

const SLES: &str =
    "PRETTY_NAME=\"SLES 15 SP6\"\nID=\"sles\"\nID_LIKE=\"suse\"\nVERSION_ID=\"15.6\"\n";

#[test]
fn azure_linux_has_tdnf() {
    let tree = Tree::azure_linux_3().gpu("0000:17:00.0", "2330", Some("nouveau"));
    // dnf is an extra there.
    tree.write("usr/bin/dnf", "");
    assert_eq!(
        tree.run(&["facts", "--json"]).json()["os"]["package_manager"],
        "tdnf"
    );
    let plan = tree.run(&["plan", "--json"]).json();
    let all = "binutils diffutils dkms gcc gcc-c++ glibc-devel kernel-devel-6.6.134.1-2.azl3 kernel-headers libxml2 make";
    assert_eq!(prerequisites(&plan).join(" "), all);
    assert!(warnings(&plan, "GS410").is_empty(), "{plan:#}");
    let script = tree.run(&["plan", "--format", "sh"]);
    let mut lines: Vec<_> = script.out.lines().collect();
    lines.retain(|line| line.contains("dnf"));
    insta::assert_snapshot!(lines.join("\n"), @"tdnf -y install binutils diffutils dkms gcc gcc-c++ glibc-devel kernel-devel-6.6.134.1-2.azl3 kernel-headers libxml2 make");
}

#[test]
fn why_there_are_no_packages_is_said_as_it_is() {
    let why = |tree: &Tree, change: &dyn Fn(&mut Value)| {
        let plan = plan_for(tree, change, &["--gpu", "h100", "--profile", "driver"]).json();
        let reasons = plan["reasons"].as_array().expect("a list").clone();
        let method = reasons
            .iter()
            .find(|r| r["subject"] == "method")
            .expect("a reason");
        method["text"].as_str().expect("a text").to_owned()
    };
    let mint = |facts: &mut Value| {
        facts["os"]["id"] = json!("linuxmint");
        facts["os"]["version"] = json!("22");
        facts["os"]["name"] = json!("Linux Mint 22");
        facts["os"]["like"] = json!(["ubuntu", "debian"]);
    };
    let ubuntu = Tree::ubuntu_24_04();
    assert_eq!(
        why(&ubuntu, &mint),
        "the database lists no driver packages of Linux Mint 22"
    );
    let sles = Tree::new(SLES, "6.4.0-150600.23.65-default", 7);
    insta::assert_snapshot!(why(&Tree::debian_sid(16), &|_| {}), @"the package lists of Debian GNU/Linux forky/sid, which name its drivers, are missing");
    let arch = Tree::new(
        "ID=arch\nPRETTY_NAME=\"Arch Linux\"\n",
        "6.17.1-arch1-1",
        15,
    );
    assert_eq!(
        why(&arch, &|_| {}),
        "the database does not know the packages of Arch Linux"
    );
    // Where they are known and not enabled, that is why.
    let added = [why(&Tree::rocky_9(), &|_| {}), why(&sles, &|_| {})];
    insta::assert_snapshot!(added.join("\n"), @"
    NVIDIA's network repository has branch 595, and no other known repository has it
    NVIDIA's network repository has branch 595, and no other known repository has it
    ");
    let file = ubuntu.path().join("facts.json");
    let refused = run(&[
        "plan",
        "--facts",
        file.to_str().expect("UTF-8"),
        "--gpu",
        "h100",
        "--method",
        "packages",
    ]);
    insta::assert_snapshot!(ubuntu.typed_in_it(refused.refusal(4)), @"
    error: packages were requested, but the database lists no driver packages of Linux Mint 22
    because: packages were requested (the request)
    because: the database lists no driver packages of Linux Mint 22 (facts of the host)
    try: gpusetup plan --facts /facts.json --gpu h100  # fits: driver 595.99.02 (open modules) + CUDA 13.2.1 + cuDNN 9.28.0.42
    ");
}

#[test]
fn packages_that_no_repository_has_are_named() {
    let driver = ["--gpu", "h100", "--profile", "driver"];
    let without_epel = [&driver[..], &["--no-epel"]].concat();
    let of = |tree: &Tree, change: &dyn Fn(&mut Value)| {
        let plan = plan_for(tree, change, &without_epel).json();
        ["GS101", "GS402", "GS410", "GS411"]
            .map(|check| warnings(&plan, check))
            .concat()
    };
    // DKMS comes from EPEL, which the plan adds, or the host must have.
    let rocky = Tree::rocky_9();
    let adding = plan_for(&rocky, |_| {}, &driver).json();
    assert_eq!(warnings(&adding, "GS411"), [""; 0]);
    let steps = adding["steps"].as_array().expect("steps").iter();
    let adds = steps.filter(|step| step["id"] == "add-repository");
    let acts = adds.flat_map(|step| step["operations"].as_array().into_iter().flatten());
    let epel: Vec<_> = acts.filter(|act| act["name"] == "epel-9-x86_64").collect();
    assert_eq!(epel.len(), 1, "{adding:#}");
    assert_eq!(
        (&epel[0]["unsigned_lists"], &epel[0]["any_version"][0]),
        (&json!(true), &json!("dkms"))
    );
    insta::assert_snapshot!(of(&rocky, &|_| {}).join("\n"), @"
    Rocky Linux 9 keeps only the headers of its newest kernels: if dnf does not find kernel-devel-matched-5.14.0-570.el9.x86_64, upgrade the kernel and reboot first, or enable the repository that has it
    dkms is in EPEL, which is not enabled on this host: sudo dnf install https://dl.fedoraproject.org/pub/epel/epel-release-latest-9.noarch.rpm
    ");
    let enabled = |facts: &mut Value| {
        facts["repositories"] = json!(["https://mirrors.fedoraproject.org/metalink?repo=epel-9"])
    };
    let about_dkms = |found: Vec<String>| {
        found
            .into_iter()
            .filter(|s| s.contains("dkms"))
            .collect::<Vec<_>>()
    };
    assert_eq!(about_dkms(of(&rocky, &enabled)), [""; 0]);
    let offered = |facts: &mut Value| facts["offered"] = json!({"dkms": "3.3.0-1.el9"});
    assert_eq!(about_dkms(of(&rocky, &offered)), [""; 0]);
    // Oracle builds EPEL itself.
    for (version, repository) in [
        ("8.10", "ol8_developer_EPEL"),
        ("9.6", "ol9_developer_EPEL"),
        ("10.0", "ol10_*developer_EPEL"),
    ] {
        let oracle = |facts: &mut Value| {
            (facts["os"]["id"], facts["os"]["version"]) = (json!("ol"), json!(version))
        };
        let found = of(&rocky, &oracle);
        let enables = |s: &String| {
            s.contains("oracle-epel-release-el")
                && s.contains(repository)
                && !s.contains("fedoraproject")
        };
        assert!(found.iter().any(enables), "{found:?}");
        let enabled = |facts: &mut Value| {
            oracle(facts);
            facts["repositories"] =
                json!(["https://yum.oracle.com/repo/OracleLinux/x ol10_u1_developer_EPEL"]);
        };
        assert_eq!(of(&rocky, &enabled), [""; 0]);
    }

    // Rocky's mirrors have the newest minor release alone. dnf's lists tell which version they
    // have; an older one is in the vault.
    let kernel = "5.14.0-570.12.1.el9_6.x86_64";
    let mirrors = |id: &str, version: Value| {
        of(&rocky, &|facts: &mut Value| {
            facts["os"]["id"] = json!(id);
            facts["kernels"]["next_boot"] = json!(kernel);
            facts["kernels"]["installed"] = json!([{"release": kernel, "headers": false}]);
            facts["offered"] = version.clone();
        })
    };
    let has = |version: &str| json!({"dkms": "3.3.0-1.el9", "kernel-devel": version, "kernel-devel-matched": version});
    let mut said = Vec::new();
    for id in ["rocky", "almalinux"] {
        let older = mirrors(id, has("5.14.0-570.1"));
        assert_eq!(mirrors(id, has("5.14.0-687.el9_8")), older);
        said.extend(older);
        assert_eq!(mirrors(id, has("5.14.0-570.12.1.el9_6")), [""; 0]);
        said.extend(mirrors(id, Value::Null));
    }
    insta::assert_snapshot!(said.join("\n"), @"
    Rocky Linux 9 keeps only the headers of its newest kernels: if dnf does not find kernel-devel-5.14.0-570.12.1.el9_6.x86_64, kernel-devel-matched-5.14.0-570.12.1.el9_6.x86_64, upgrade the kernel and reboot first, or enable the repository that has it
    Rocky Linux 9 keeps only the headers of its newest kernels: if dnf does not find kernel-devel-5.14.0-570.12.1.el9_6.x86_64, kernel-devel-matched-5.14.0-570.12.1.el9_6.x86_64, upgrade the kernel and reboot first, or enable the repository that has it
    dkms is in EPEL, which is not enabled on this host: sudo dnf install https://dl.fedoraproject.org/pub/epel/epel-release-latest-9.noarch.rpm
    AlmaLinux 9 keeps only the headers of its newest kernels: if dnf does not find kernel-devel-5.14.0-570.12.1.el9_6.x86_64, kernel-devel-matched-5.14.0-570.12.1.el9_6.x86_64, upgrade the kernel and reboot first, or enable the repository that has it
    AlmaLinux 9 keeps only the headers of its newest kernels: if dnf does not find kernel-devel-5.14.0-570.12.1.el9_6.x86_64, kernel-devel-matched-5.14.0-570.12.1.el9_6.x86_64, upgrade the kernel and reboot first, or enable the repository that has it
    dkms is in EPEL, which is not enabled on this host: sudo dnf install https://dl.fedoraproject.org/pub/epel/epel-release-latest-9.noarch.rpm
    ");
    assert_eq!(mirrors("rhel", has("5.14.0-687.el9_8")), [""; 0]);

    // Debian's archive drops the headers of older kernels.
    let debian = Tree::debian_12();
    let headers = |facts: &Value| {
        format!(
            "linux-headers-{}",
            facts["kernels"]["next_boot"].as_str().expect("a kernel")
        )
    };
    let without = |facts: &mut Value| {
        facts["kernels"]["installed"][0]["headers"] = json!(false);
        facts["repositories"] = json!(["http://archive/debian bookworm contrib"]);
    };
    let unknown = of(&debian, &|facts| {
        without(facts);
        facts["offered"] = Value::Null;
    });
    insta::assert_snapshot!(unknown.join("\n"), @"Debian 12 (bookworm) keeps only the headers of its newest kernels: if apt does not find linux-headers-6.1.0-25-amd64, upgrade the kernel and reboot first, or enable the repository that has it");
    let dropped = of(&debian, &|facts| {
        without(facts);
        facts["offered"] = json!({});
    });
    insta::assert_snapshot!(dropped.join("\n"), @"no enabled repository has linux-headers-6.1.0-25-amd64: upgrade the kernel and reboot before apply, or enable the repository that has it");
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
    insta::assert_snapshot!(tree.typed_in_it(refused.refusal(4)), @"
    error: CUDA 12.4.1 does not fit: its headers do not compile with glibc 2.38 and newer; this host has 2.39 (GS705)
    because: the host has glibc 2.39 (facts of the host)
    because: its headers do not compile with glibc 2.38 and newer; this host has 2.39 (The cuda-toolkit action; NVIDIA's download page for CUDA; 11 more)
    hint: compile in a container of an older system, such as Ubuntu 22.04 LTS (glibc 2.35); the host needs only the driver
    try: gpusetup plan --facts /facts.json --gpu 10de:2342 --cuda 12.9.1  # fits: driver 595.91.07 (open modules) + CUDA 12.9.1 + cuDNN 9.28.0.42
    ");
    assert_eq!(ask("12.6").code, 0);
    assert_eq!(
        plan_for(
            &Tree::ubuntu_24_04().glibc("2.39-0ubuntu8"),
            |_| {},
            &["--gpu", "h100", "--cuda", "12.4"]
        )
        .code,
        0
    );

    let tree = Tree::ubuntu_24_04();
    let old = |facts: &mut Value| facts["gcc"] = json!("4.8.5");
    let found = warnings(
        &plan_for(&tree, old, &["--gpu", "h100", "--cuda", "12.4"]).json(),
        "GS705",
    );
    assert_eq!(
        found,
        ["nvcc of CUDA 12.4.1 needs gcc 6 or newer, but the system's gcc is 4"]
    );
}

#[test]
fn the_library_that_the_installer_of_runfiles_loads_is_there_or_archives_are_unpacked() {
    let tree = Tree::ubuntu_24_04().gpu("0000:17:00.0", "2330", None);
    let asked = ["--profile", "toolkit"];
    let with =
        |there: bool| plan_for(&tree, |facts| facts["libxml2"] = json!(there), &asked).json();
    assert!(!prerequisites(&with(true)).contains(&"libxml2"));
    assert!(prerequisites(&with(false)).contains(&"libxml2"));
    let resolute = |facts: &mut Value| {
        facts["os"]["version"] = json!("26.04");
        facts["os"]["name"] = json!("Ubuntu 26.04 LTS");
        facts["glibc"] = json!("2.43");
        facts["libxml2"] = json!(false);
    };
    let plan = plan_for(&tree, resolute, &[]).json();
    let parts = plan["selection"]["cuda"]["components"]
        .as_array()
        .map_or(&[][..], Vec::as_slice);
    assert!(
        parts.len() > 30 && parts.iter().any(|part| part["name"] == "cuda_nvcc"),
        "{plan}"
    );
    assert!(
        !plan["steps"]
            .to_string()
            .contains("cuda_13.2.1_595.58.03_linux.run"),
        "{plan}"
    );
    let why = "libxml2.so.2, but no package of it is known for Ubuntu 26.04";
    assert!(plan["reasons"].to_string().contains(why), "{plan}");
}

/// A folder with the project's facts after a change of some files, each by its path.
fn facts_with(changes: &[(&str, &dyn Fn(String) -> String)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for (name, text) in files(Path::new(env!("CARGO_MANIFEST_DIR"))).expect("the project's facts") {
        let path = folder.path().join(&name);
        let text = match changes.iter().find(|(file, _)| *file == name) {
            Some((_, change)) => change(text),
            None => text,
        };
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        std::fs::write(path, text).expect("written");
    }
    folder
}

#[test]
fn a_companion_is_a_row_and_nothing_else() {
    let rows = |text: String| {
        text + "  - {id: weaver, title: Weaver, purpose: weaves, who_needs: Looms need, version: driver, sources: [deepops], \
                packages: [{name: \"nvidia-weaver-{branch}\", sources: [deepops]}]}\n"
            + "  - {id: spindle, title: Spindle, purpose: spins, who_needs: Wheels need, version: branch, sources: [deepops], \
               packages: [{name: spindle, sources: [deepops]}], published_with: fabric-manager}\n"
    };
    let needed = |text: String| {
        let (before, hopper) = text.split_once("generation: 3").expect("boards of Hopper");
        format!(
            "{before}generation: 3{}",
            hopper.replacen("[fabric-manager]", "[fabric-manager, spindle, weaver]", 1)
        )
    };
    let offered = "imex: \"nvidia-imex-580\" }";
    let with_both = "imex: \"nvidia-imex-580\", spindle: \"spindle-580\", weaver: \"weaver-580\" }";
    let offer = |text: String| {
        assert!(text.contains(offered));
        text.replace(offered, with_both)
    };
    let [manifest, boards, ubuntu] = [
        "compat/companions.yaml",
        "compat/nvswitches.yaml",
        "compat/distros/ubuntu.yaml",
    ];
    let unoffered = facts_with(&[(manifest, &rows), (boards, &needed)]);
    let tree = Tree::ubuntu_24_04();
    let plan = |folder: &tempfile::TempDir, gpu: &str, more: &[&str]| {
        let database = folder.path().to_str().expect("UTF-8");
        tree.run(
            &[
                &["plan", "--json", "--database", database, "--gpu", gpu],
                more,
            ]
            .concat(),
        )
    };
    // Neither a runfile nor a repository is known to have one: what CUDA's runfile has would not be
    // enough.
    let refused = plan(&unoffered, "10de:2330x8", &[]);
    insta::assert_snapshot!(tree.typed_in_it(refused.refused(4)), @"error: driver 615.78.08 does not fit: the NVSwitches of this host need Fabric Manager of exactly the driver's version, but none is known for this driver (GS801)");
    // Named, a driver is taken, and the warning says what is missing, under NVIDIA's name, and how
    // to get it from there.
    let exactly = ["--driver", "580.95.05", "--method", "runfile"];
    let named = plan(&unoffered, "10de:2330x8", &exactly).json();
    insta::assert_snapshot!(tree.typed_in_it(&warnings(&named, "GS801").join("\n")), @"GPUs like these are connected by NVSwitches (DGX and HGX H100, H800, H200, H20): Wheels need Spindle of driver branch 580 (package spindle in NVIDIA's repositories; no enabled one has it). Looms need Weaver of exactly driver 580.95.05 (package nvidia-weaver-580 in NVIDIA's repositories; no enabled one has it)");
    tree.write(
        "etc/apt/sources.list.d/cuda.list",
        "deb https://developer.download.nvidia.com/compute/cuda/repos/ubuntu2404/x86_64 /\n",
    );
    let named = plan(&unoffered, "10de:2330x8", &exactly).json();
    tree.write("etc/apt/sources.list.d/cuda.list", "");
    insta::assert_snapshot!(tree.typed_in_it(&warnings(&named, "GS801").join("\n")), @"GPUs like these are connected by NVSwitches (DGX and HGX H100, H800, H200, H20): Wheels need Spindle of driver branch 580 (package spindle in NVIDIA's repository). Looms need Weaver of exactly driver 580.95.05 (package nvidia-weaver-580 in NVIDIA's repository). After the driver: sudo apt-get install 'spindle=580.*'; sudo apt-get install 'nvidia-weaver-580=580.95.05*'");
    let ampere = plan(&unoffered, "10de:20b0x8", &[]).json();
    assert!(
        !ampere["steps"].to_string().contains("eaver"),
        "other boards do not need it: {ampere}"
    );
    // The repository that has it decides the driver.
    let offering = facts_with(&[(manifest, &rows), (boards, &needed), (ubuntu, &offer)]);
    let packaged = plan(&offering, "10de:2330x8", &["--method", "packages"]).json();
    assert_eq!(
        packaged["selection"]["driver"]["version"], "580.178.04",
        "{packaged}"
    );
    assert_eq!(
        warnings(&packaged, "GS801"),
        [""; 0],
        "the plan installs all of them"
    );
    for package in ["nvidia-fabricmanager-580", "spindle-580", "weaver-580"] {
        assert!(driver_packages(&packaged).contains(&package), "{packaged}");
    }
}

/// The packages that come in one transaction with the driver.
fn driver_packages(plan: &Value) -> Vec<&str> {
    let steps = plan["steps"].as_array().expect("a list").iter();
    let operations = steps
        .filter(|s| s["id"] == "install-driver")
        .flat_map(|s| s["operations"].as_array())
        .flatten();
    operations
        .flat_map(|o| o["install"].as_array())
        .flatten()
        .filter_map(Value::as_str)
        .collect()
}

#[test]
fn joined_gpus_need_what_starts_their_switches() {
    let tree = Tree::ubuntu_24_04();
    for (gpu, manager, subnet) in [
        ("10de:2901x8", true, true),
        ("10de:3182x8", true, true),
        // A single one is a virtual machine's.
        ("10de:3182", false, false),
        ("10de:2330x8", true, false),
        ("10de:2330x4", false, false),
        ("10de:2331x8", false, false),
    ] {
        let plan = tree.run(&["plan", "--json", "--gpu", gpu]).json();
        assert_eq!(warnings(&plan, "GS801"), [""; 0], "{gpu}");
        let packages = driver_packages(&plan);
        assert_eq!(
            packages.contains(&"nvidia-fabricmanager-595"),
            manager,
            "{gpu}"
        );
        assert_eq!(packages.contains(&"nvlsm"), subnet, "{gpu}");
        assert_eq!(
            plan["steps"]
                .to_string()
                .contains("nvidia-fabricmanager.service"),
            manager,
            "{gpu}"
        );
    }
    // A virtual machine with a part of a board.
    let virtual_machine = |facts: &mut Value| facts["machine"]["kind"] = json!("virtual");
    for (gpu, is_joined) in [("10de:2901x2", false), ("10de:2901x8", true)] {
        let plan = plan_for(&tree, virtual_machine, &["--gpu", gpu]).json();
        assert_eq!(
            driver_packages(&plan).contains(&"nvidia-fabricmanager-595"),
            is_joined,
            "{gpu}"
        );
    }
    let tree = Tree::ubuntu_24_04().arch(183);
    for (gpu, is_joined) in [
        ("dgx station gb300", false),
        ("gb300 nvl72", true),
        ("gb200", true),
    ] {
        let plan = tree.run(&["plan", "--json", "--gpu", gpu]).json();
        assert_eq!(
            driver_packages(&plan).contains(&"nvidia-imex-595"),
            is_joined,
            "{gpu}: {plan}"
        );
        assert_eq!(warnings(&plan, "GS801").is_empty(), !is_joined, "{gpu}");
    }
    let grace = tree.run(&["plan", "--json", "--gpu", "gb200x4"]).json();
    assert_eq!(
        grace["selection"]["driver"]["version"], "595.91.07",
        "Ubuntu's 595.99.02 has no IMEX"
    );
    assert!(
        driver_packages(&grace).contains(&"nvidia-imex-595"),
        "{grace}"
    );
    insta::assert_snapshot!(tree.typed_in_it(&warnings(&grace, "GS801").join("\n")), @"IMEX is installed but not started. Name the addresses of all hosts of the NVLink domain, the same on each host and its own included: sudo gpusetup apply --imex-peers ADDRESS,ADDRESS. They are written to /etc/nvidia-imex/nodes_config.cfg");
    assert!(
        !grace["steps"].to_string().contains("nvidia-imex.service"),
        "{grace}"
    );
    // The data of a network function shows the switches; of other hosts it is not read.
    for (device, seen) in [("2901", 1), ("20b2", 0)] {
        let tree = Tree::ubuntu_24_04().gpu("0000:1b:00.0", device, None);
        let function = "sys/bus/pci/devices/0000:05:00.0";
        for (file, text) in [
            ("vendor", "0x15b3"),
            ("device", "0x1021"),
            ("class", "0x020700"),
            ("vpd", "x SMDL=SW_MNG"),
        ] {
            tree.write(&format!("{function}/{file}"), text);
        }
        tree.link(
            "sys/class/infiniband/mlx5_0/device",
            "/sys/bus/pci/devices/0000:05:00.0",
        );
        let facts = tree.run(&["facts", "--json"]).json();
        assert_eq!(crate::schema::mistakes("facts.json", &facts), [""; 0]);
        assert_eq!(
            facts["nvswitches"].as_array().map(Vec::len),
            Some(seen),
            "{facts}"
        );
    }
}

#[test]
fn gpus_that_a_machine_cannot_have_get_no_driver() {
    let (server, arm) = (Tree::ubuntu_24_04(), Tree::ubuntu_24_04().arch(183));
    for (gpu, says) in [
        ("gh200", "only in machines with aarch64"),
        ("gb300", "only in machines with aarch64"),
        ("12.1", "only in machines with aarch64"),
        ("sm_87", "included in the board's system software"),
        ("10de:2b00", "included in the board's system software"),
    ] {
        let ran = server.run(&["plan", "--gpu", gpu]);
        let toolkit = ran.err.contains("--profile toolkit")
            || ran.err.contains("--driver none  # fits: CUDA ");
        assert!(
            ran.code == 4 && ran.err.contains(says) && toolkit,
            "{gpu}: {}",
            ran.err
        );
        let plan = server
            .run(&[
                "plan",
                "--json",
                "--gpu",
                gpu,
                "--profile",
                "toolkit",
                "--cuda",
                "13",
            ])
            .json();
        assert!(
            warnings(&plan, "GS512")[0].contains("on x86_64 this toolkit can only compile for it"),
            "{gpu}"
        );
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
    insta::assert_snapshot!(arm.typed_in_it(ran.refusal(4)), @"
    error: CUDA 13.5.0 does not fit: toolkits for servers (sbsa) support Jetson AGX Orin / Orin NX / Orin Nano from JetPack 7.2 on, which this host is not known to have. There, install one from NVIDIA's CUDA repository, otherwise the toolkit of JetPack
    because: any GPU of compute capability 8.7 (Ampere) has compute capability 8.7 (PTX ISA, release notes; Spack's cuda and cudnn packages; 2 more)
    because: toolkits for servers (sbsa) support Jetson AGX Orin / Orin NX / Orin Nano from JetPack 7.2 on, which this host is not known to have. There, install one from NVIDIA's CUDA repository, otherwise the toolkit of JetPack (PTX ISA, release notes; Spack's cuda and cudnn packages; 2 more)
    try: gpusetup plan --os ubuntu-24.04:x86_64 --gpu sm_87 --profile toolkit  # on such a machine
    ");
    let jetson = run(&[
        "plan",
        "--root",
        "tests/hosts/jetson-orin",
        "--profile",
        "toolkit",
    ]);
    insta::assert_snapshot!(jetson.refusal(4), @"
    error: on a Jetson the board support package provides the driver. NVIDIA's toolkits for servers (sbsa) support only these Jetson boards: Jetson AGX Orin / Orin NX / Orin Nano (from JetPack 7.2 on), Jetson AGX Thor / DRIVE Thor (from CUDA 13.0 on); the model of this board, or its release of Jetson Linux, is not known (GS907)
    hint: install CUDA, cuDNN and TensorRT of this JetPack: sudo chroot tests/hosts/jetson-orin apt-get update && sudo chroot tests/hosts/jetson-orin apt-get install nvidia-jetpack
    try: gpusetup plan --root tests/hosts/jetson-orin --gpu sm_110 --profile toolkit  # on such a board
    ");
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
        let of = |layer: &str, what: &str| {
            plan["selection"][layer][what]
                .as_str()
                .unwrap_or_default()
                .to_owned()
        };
        (
            of("driver", "branch"),
            of("cuda", "version"),
            of("cudnn", "version"),
        )
    };
    let strings = |a: &str, b: &str, c: &str| (a.to_owned(), b.to_owned(), c.to_owned());
    assert_eq!(
        chosen("2.17", "3.10.0-1160"),
        strings("550", "12.4.1", "9.3.0.75")
    );
    assert_eq!(
        chosen("2.26", "4.14.355"),
        strings("550", "12.4.1", "9.3.0.75")
    );
    assert_eq!(
        chosen("2.26", "4.15.0"),
        strings("595", "12.6.3", "9.3.0.75")
    );
    assert_eq!(
        chosen("2.27", "4.15.0"),
        strings("595", "13.2.1", "9.28.0.42")
    );
    for (asked, says) in [
        (
            ["--cuda", "12.8"],
            "needs glibc 2.27 or newer, but the host has 2.26",
        ),
        (
            ["--cudnn", "9.10.2.21"],
            "needs glibc 2.27 or newer, but the host has 2.26",
        ),
        (
            ["--driver", "595"],
            "branch 595 needs Linux 4.15 or newer, but the host boots kernel 4.14.355",
        ),
    ] {
        let ran = plan_for(&tree, old("2.26", "4.14.355"), &asked);
        assert!(
            ran.code == 4 && ran.err.contains(says),
            "{asked:?}: {}",
            ran.err
        );
        let error: Value = serde_json::from_str(&ran.out).expect("an object");
        assert_eq!(error["exit_code"], 4, "{asked:?}");
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
    let mut said = Vec::new();
    for (tree, change) in [
        (
            Tree::ubuntu_24_04(),
            release("linuxmint", "22", &["ubuntu", "debian"]),
        ),
        (
            Tree::ubuntu_24_04(),
            release("ubuntu", "27.10", &["debian"]),
        ),
        (
            Tree::ubuntu_24_04(),
            release("pop", "22.04", &["ubuntu", "debian"]),
        ),
        (Tree::debian_12(), release("kali", "2026.3", &["debian"])),
        (
            Tree::rocky_9(),
            release("rhel", "11.0", &["centos", "fedora"]),
        ),
    ] {
        let plan = plan_for(&gpu(tree), change, &[]).json();
        said.extend(warnings(&plan, "GS410"));
    }
    insta::assert_snapshot!(said.join("\n"), @"
    the database does not know linuxmint 22: the package names of Ubuntu 24.04 LTS are used
    the database does not know ubuntu 27.10: the package names of Ubuntu 24.04 LTS are used
    the database does not know pop 22.04: the package names of Ubuntu 22.04 LTS are used
    the database does not know kali 2026.3: the package names of Debian 13 (trixie) are used
    the database does not know rhel 11.0: the package names of Red Hat Enterprise Linux 10 are used
    ");
    // Without the package manager of the releases that are known, nothing can be installed.
    let old = |facts: &mut Value| {
        release("centos", "6", &["rhel", "fedora"])(facts);
        facts["os"]["package_manager"] = Value::Null;
        facts["kernels"]["installed"][0]["headers"] = json!(false);
    };
    let ran = plan_for(&gpu(Tree::rocky_9()), old, &[]);
    insta::assert_snapshot!(ran.refused(5), @"error: the database does not know the packages of centos 6, and these are missing: g++, the headers of kernel 5.14.0-570.el9.x86_64 (GS410)");
}

#[test]
fn a_toolkit_for_no_gpu_says_so() {
    let plan = Tree::ubuntu_24_04()
        .run(&["plan", "--json", "--profile", "toolkit"])
        .json();
    insta::assert_snapshot!(warnings(&plan, "GS712").join("\n"), @r#"no GPU is known here, so CUDA may be too new or too old for your GPU; name it (--gpu "gtx 1060")"#);
    assert!(
        plan["reasons"]
            .to_string()
            .contains("fits this host; no GPU is known")
    );
    let wsl = run(&[
        "plan",
        "--json",
        "--profile",
        "toolkit",
        "--root",
        "tests/hosts/wsl2-ubuntu-22.04",
    ])
    .json();
    insta::assert_snapshot!(warnings(&wsl, "GS712").join("\n"), @r#"WSL2 does not show the GPU's model, so CUDA may be too new or too old for your GPU; name it (--gpu "gtx 1060")"#);
    let known = Tree::ubuntu_24_04()
        .run(&["plan", "--json", "--profile", "toolkit", "--gpu", "h100"])
        .json();
    assert_eq!(warnings(&known, "GS712"), [""; 0]);
}

#[test]
fn ubuntu_18_04_has_packages_of_drivers() {
    let release = "PRETTY_NAME=\"Ubuntu 18.04.6 LTS\"\nID=ubuntu\nVERSION_ID=\"18.04\"\n";
    let tree = Tree::new(release, "4.15.0-213-generic", 7).gpu("0000:17:00.0", "102d", None);
    let ask = |driver: &str, enabled: &str| {
        let enable = |facts: &mut Value| {
            facts["repositories"] = json!([format!("http://a.b/ubuntu bionic-updates {enabled}")])
        };
        plan_for(
            &tree,
            enable,
            &[
                "--method",
                "packages",
                "--driver",
                driver,
                "--profile",
                "driver",
            ],
        )
    };
    for (driver, packages) in [
        ("470", "nvidia-headless-470-server nvidia-utils-470-server"),
        ("450", "nvidia-headless-450-server nvidia-utils-450-server"),
        ("418", "nvidia-headless-418-server nvidia-utils-418-server"),
        ("390", "nvidia-headless-390 nvidia-utils-390"),
    ] {
        let plan = ask(driver, "main restricted").json();
        let steps = plan["steps"].as_array().expect("a list").iter();
        let operations = steps
            .filter(|s| s["id"] == "install-driver")
            .flat_map(|s| s["operations"].as_array())
            .flatten();
        let names: Vec<_> = operations
            .filter_map(|o| o["install"].as_array())
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        assert_eq!(names.join(" "), packages, "{driver}: {plan:#}");
    }
    let without = ask("470", "main");
    insta::assert_snapshot!(without.refused(4), @"error: packages were requested, but no enabled repository has a driver that fits: Ubuntu restricted has branch 470 and is not enabled");
}

#[test]
fn guides_that_were_read_in_part_say_what_they_list() {
    let release = |id: &str, version: &str| {
        format!("PRETTY_NAME=\"{id} {version}\"\nID={id}\nVERSION_ID=\"{version}\"\n")
    };
    let warned = |id: &str, version: &str, cuda: &str| {
        let tree = Tree::new(&release(id, version), "5.10.0-35-amd64", 10).glibc("2.31-13");
        let asked = [
            "plan",
            "--json",
            "--profile",
            "toolkit",
            "--gpu",
            "a100",
            "--cuda",
            cuda,
        ];
        let about = |w: &String| w.contains("installation guide");
        warnings(&tree.run(&asked).json(), "GS711")
            .iter()
            .filter(|w| about(w))
            .count()
    };
    for (id, version, cuda) in [
        ("debian", "11", "11.8"),
        ("debian", "11", "11.6"),
        ("ubuntu", "22.04", "11.8"),
        ("ubuntu", "22.04", "11.7"),
    ] {
        assert_eq!(warned(id, version, cuda), 0, "{id} {version}, CUDA {cuda}");
    }
    assert_eq!(
        (
            warned("debian", "11", "11.4"),
            warned("debian", "12", "11.8"),
            warned("ubuntu", "24.04", "11.8")
        ),
        (1, 1, 1)
    );
}

#[test]
fn the_oldest_cards_get_no_driver_of_today() {
    let refused = ["10de:0008", "10de:0018"].map(|gpu| {
        let ran = Tree::ubuntu_24_04().run(&["plan", "--profile", "driver", "--gpu", gpu]);
        ran.refused(4).to_owned()
    });
    insta::assert_snapshot!(refused.join("\n"), @"
    error: STG2000X-B Series needs a driver of branch 71.86 or older, which supports no current kernel (GS503)
    error: Riva 128 needs a driver of branch 71.86 or older, which supports no current kernel (GS503)
    ");
}

#[test]
fn gpus_that_no_driver_serves_are_left_out_where_others_are() {
    let ask = |gpus: &[&str], arguments: &[&str]| {
        let tree = gpus
            .iter()
            .enumerate()
            .fold(Tree::debian_12(), |tree, (n, id)| {
                tree.gpu(&format!("0000:{n}1:00.0"), id, None)
            });
        let refused = plan_for(&tree, |_| {}, arguments);
        tree.typed_in_it(refused.refusal(4))
    };
    // GeForce 6600 LE is of branch 304, which is no more in the database than 96.43 of GeForce2 Go.
    insta::assert_snapshot!(ask(&["00f4"], &[]), @"
    error: GeForce 6600 LE needs a driver of branch 304, which supports no current kernel (GS503)
    hint: keep the GPU on nouveau
    ");
    insta::assert_snapshot!(ask(&["0112"], &[]), @"
    error: GeForce2 Go needs a driver of branch 96.43, which supports no current kernel (GS503)
    hint: keep the GPU on nouveau
    ");
    let several = ["00f4", "0112"].map(|id| ask(&[id, "2235", id], &[]));
    insta::assert_snapshot!(several.join("\n"), @"
    error: GeForce 6600 LE needs a driver of branch 304, which supports no current kernel (GS503)
    hint: keep the GPU on nouveau
    try: gpusetup plan --facts /facts.json --leave-out 0000:01:00.0,0000:21:00.0  # fits: driver 595.99.02 (open modules) + CUDA 13.2.1 + cuDNN 9.28.0.42

    error: GeForce2 Go needs a driver of branch 96.43, which supports no current kernel (GS503)
    hint: keep the GPU on nouveau
    try: gpusetup plan --facts /facts.json --leave-out 0000:01:00.0,0000:21:00.0  # fits: driver 595.99.02 (open modules) + CUDA 13.2.1 + cuDNN 9.28.0.42
    ");
    // GB10, which no x86_64 machine has: with what fits the other one, where what was asked for
    // does not.
    insta::assert_snapshot!(ask(&["2e12", "2235"], &["--cuda", "12.8"]), @"
    error: NVIDIA GB10 exists only in machines with aarch64 processors; this host is x86_64 (GS512)
    hint: plan on such a machine, or save its facts there (gpusetup facts --json) and plan here with --facts
    try: gpusetup plan --facts /facts.json --cuda 12.8 --leave-out 0000:01:00.0  # fits: driver 595.99.02 (open modules) + CUDA 12.8.2 + cuDNN 9.28.0.42
    ");
    insta::assert_snapshot!(ask(&["2e12", "2235"], &["--cuda", "8.0"]), @"
    error: NVIDIA GB10 exists only in machines with aarch64 processors; this host is x86_64 (GS512)
    hint: plan on such a machine, or save its facts there (gpusetup facts --json) and plan here with --facts
    try: gpusetup plan --facts /facts.json --cuda 13.2.1 --leave-out 0000:01:00.0  # fits: driver 595.99.02 (open modules) + CUDA 13.2.1 + cuDNN 9.28.0.42
    ");
    insta::assert_snapshot!(ask(&["2e12"], &[]), @"
    error: NVIDIA GB10 exists only in machines with aarch64 processors; this host is x86_64 (GS512)
    hint: plan on such a machine, or save its facts there (gpusetup facts --json) and plan here with --facts
    try: gpusetup plan --facts /facts.json --profile toolkit  # fits: CUDA 13.3.0 + cuDNN 9.28.0.42
    ");
}
