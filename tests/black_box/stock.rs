//! `--os`: plans, proofs, user-data and bundles for new installations of systems that are not here.

use crate::common::run;
use gpusetup::database::embedded;
use gpusetup::plan::Plan;
use serde_json::Value;

fn packages(plan: &Value) -> Vec<String> {
    let plan: Plan = serde_json::from_value(plan.clone()).expect("a plan");
    plan.packages().flat_map(|p| p.install.clone()).collect()
}

#[test]
fn a_new_installation_gets_everything_that_it_lacks() {
    let ran = run(&["plan", "--os", "ubuntu-24.04", "--gpu", "h100x8", "--json"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(
        ran.err
            .contains("for a new installation of Ubuntu 24.04 LTS on x86_64: kernel 6.8.0-"),
        "{}",
        ran.err
    );
    let plan = ran.json();
    let kernel = plan["host"]["kernels"]["next_boot"]
        .as_str()
        .expect("a kernel")
        .to_owned();
    for name in ["dkms", "g++", "libxml2", &format!("linux-headers-{kernel}")] {
        assert!(
            packages(&plan).iter().any(|p| p == name),
            "{name}: {:?}",
            packages(&plan)
        );
    }
    assert_eq!(plan["selection"]["driver"]["method"], "packages");
    assert_eq!(plan["host"]["gpus"].as_array().map(Vec::len), Some(8));

    let arm = run(&["plan", "--os", "rocky-9:arm64", "--gpu", "gh200", "--json"]).json();
    assert_eq!(arm["host"]["machine"]["arch"], "aarch64");
    let is_devel = |p: &String| p.starts_with("kernel-devel") && p.ends_with(".aarch64");
    assert!(packages(&arm).iter().any(is_devel), "{:?}", packages(&arm));
}

#[test]
fn a_script_has_the_warnings_of_its_plan() {
    for format in ["sh", "cloud-init"] {
        let ran = run(&[
            "plan",
            "--os",
            "rocky-9",
            "--gpu",
            "h100x8",
            "--no-epel",
            "--format",
            format,
        ]);
        for check in ["GS411", "GS101"] {
            assert!(
                ran.out.contains(&format!("\n# {check}: ")),
                "{format}: {}",
                ran.out
            );
            assert!(
                ran.err.contains(&format!("warning: {check}: ")),
                "{format}: {}",
                ran.err
            );
        }
    }
}

#[test]
fn a_kernel_of_another_minor_release_is_said_to_be_one() {
    let stderr = |os: &str| run(&["plan", "--os", os, "--gpu", "h100"]).err;
    assert!(
        stderr("rhel-9.4").contains("(that of 9.6; no other is known)"),
        "{}",
        stderr("rhel-9.4")
    );
    assert!(!stderr("rhel-9.6").contains("that of") && !stderr("rhel-9").contains("that of"));
}

#[test]
fn its_facts_lead_to_the_same_plan() {
    let plan = run(&["plan", "--os", "debian-12", "--gpu", "a100", "--json"]).json();
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), plan["host"].to_string()).expect("written");
    let again = run(&[
        "plan",
        "--facts",
        file.path().to_str().expect("UTF-8"),
        "--json",
    ])
    .json();
    assert_eq!(again["selection"], plan["selection"]);
    assert_eq!(again["steps"], plan["steps"]);
}

#[test]
fn every_known_installation_is_planned_for() {
    for d in &embedded().distributions {
        for arch in d.stock.iter().flat_map(|stock| stock.kernels.keys()) {
            let os = format!("{}-{}:{arch}", d.id, d.version);
            let ran = run(&["plan", "--os", &os, "--gpu", "h100", "--json"]);
            assert_eq!(ran.code, 0, "{os}: {}", ran.err);
            let plan = ran.json();
            assert_eq!(plan["host"]["os"]["name"], d.name, "{os}");
            assert!(
                !plan["selection"]["driver"].is_null() && !plan["selection"]["cuda"].is_null(),
                "{os}"
            );
        }
    }
}

#[test]
fn user_data_names_the_flags_that_it_lacks() {
    let ask = [
        "plan",
        "--os",
        "ubuntu-24.04",
        "--gpu",
        "h100x8",
        "--format",
        "cloud-init",
    ];
    let ran = run(&ask);
    assert!(
        ran.err.contains("add --accept-eula\n") && ran.err.contains("--binary-url URL"),
        "{}",
        ran.err
    );
    let sum = "0".repeat(64);
    let more = [
        "--accept-eula",
        "--binary-url",
        "https://e.org/gpusetup",
        "--binary-sha256",
        &sum,
    ];
    let whole = run(&[&ask[..], &more].concat());
    assert!(
        !whole.err.contains("--accept-eula") && !whole.err.contains("--binary-url"),
        "{}",
        whole.err
    );
    assert!(
        whole.out.contains("\n      accept-eula: true\n"),
        "{}",
        whole.out
    );
    assert!(
        whole.out.contains("gpusetup apply --unattended"),
        "{}",
        whole.out
    );
}

#[test]
fn gpus_of_a_listing_may_be_there() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(
        file.path(),
        "01:00.0 3D controller [0302]: NVIDIA [10de:20b2]\n",
    )
    .expect("written");
    let listed = ["--lspci", file.path().to_str().expect("UTF-8")];
    let plan = run(&[&["plan", "--os", "debian-13", "--json"], &listed[..]].concat()).json();
    assert_eq!(plan["host"]["gpus"][0]["pci_id"], "10de:20b2");
    let replaced = run(&[
        &["plan", "--os", "debian-13", "--json", "--gpu", "t4"],
        &listed[..],
    ]
    .concat())
    .json();
    assert_eq!(replaced["host"]["gpus"].as_array().map(Vec::len), Some(1));
    assert_eq!(replaced["host"]["gpus"][0]["pci_id"], "10de:1eb8");
}

#[test]
fn a_proof_is_for_that_system_and_so_is_the_way_out() {
    let ran = run(&[
        "explain",
        "cuda",
        "13.0",
        "--os",
        "ubuntu-22.04",
        "--gpu",
        "v100",
    ]);
    assert_eq!(ran.code, 4, "{}", ran.err);
    assert!(
        ran.out
            .contains("gpusetup plan --os ubuntu-22.04 --gpu v100 --cuda 12.9"),
        "{}",
        ran.out
    );
    let refused = run(&[
        "plan",
        "--os",
        "ubuntu-22.04",
        "--gpu",
        "v100",
        "--cuda",
        "13.0",
    ]);
    assert_eq!(refused.code, 4, "{}", refused.out);
    assert!(
        refused
            .err
            .contains("try: gpusetup plan --os ubuntu-22.04 --gpu v100"),
        "{}",
        refused.err
    );
}

#[test]
fn what_is_missing_or_contradicts_itself_is_said() {
    let none = run(&["plan", "--os", "ubuntu-24.04"]);
    assert_eq!(none.code, 9);
    assert!(
        none.err
            .contains("try: gpusetup plan --os ubuntu-24.04 --gpu h100"),
        "{}",
        none.err
    );
    let toolkit = run(&["plan", "--os", "ubuntu-24.04", "--profile", "toolkit"]);
    assert_eq!(toolkit.code, 0, "{}", toolkit.err);
    for (wrong, part) in [
        (
            &["plan", "--os", "gentoo-1", "--gpu", "h100"][..],
            "known are almalinux",
        ),
        (
            &["plan", "--os", "ubuntu-25.10", "--gpu", "h100"],
            "ubuntu-24.04",
        ),
        (
            &["plan", "--os", "ubuntu-24.04", "--root", "/"],
            "each name a host",
        ),
        (
            &["plan", "--os", "ubuntu-24.04", "--facts", "-"],
            "cannot be used with",
        ),
        (
            &[
                "explain",
                "cuda",
                "12.8",
                "--os",
                "ubuntu-24.04:riscv64",
                "--gpu",
                "h100",
            ],
            "aarch64, x86_64",
        ),
    ] {
        let ran = run(wrong);
        assert_eq!(ran.code, 2, "{wrong:?}: {}", ran.err);
        assert!(ran.err.contains(part), "{wrong:?}: {}", ran.err);
    }
}

#[test]
fn suggested_plans_keep_what_was_asked_for() {
    let asked = ["--for", "torch==2.7", "--cuda", "12.8", "--upgrade"];
    let with = |more: &[&str]| run(&[&["plan"], more, &asked].concat()).err;
    let all = "--for torch==2.7 --cuda 12.8 --upgrade";
    let none = with(&["--os", "ubuntu-24.04"]);
    assert!(
        none.contains(&format!(
            "try: gpusetup plan --os ubuntu-24.04 --gpu h100 {all}"
        )),
        "{none}"
    );
    let nothing = run(&[
        "plan",
        "--os",
        "ubuntu-24.04",
        "--gpu",
        "h100",
        "--driver",
        "none",
        "--cuda",
        "none",
    ])
    .err;
    let toolkit =
        "try: gpusetup plan --os ubuntu-24.04 --gpu h100 --profile toolkit  # with a toolkit";
    assert!(nothing.contains(toolkit), "{nothing}");
    let left = with(&[
        "--os",
        "ubuntu-24.04",
        "--gpu",
        "h100",
        "--leave-out",
        "assumed:0",
    ]);
    assert!(
        left.contains(&format!(
            "try: gpusetup plan --os ubuntu-24.04 --gpu h100 {all}"
        )),
        "{left}"
    );
}

#[test]
fn a_gpu_of_other_machines_leads_to_such_a_machine() {
    let arch = |arguments: &[&str]| {
        let plan = run(&[&["plan", "--json"], arguments].concat()).json();
        plan["host"]["machine"]["arch"].as_str().map(str::to_owned)
    };
    assert_eq!(
        arch(&["--os", "ubuntu-24.04", "--gpu", "gb200"]).as_deref(),
        Some("aarch64")
    );
    assert_eq!(
        arch(&["--os", "ubuntu-24.04", "--gpu", "g5g.xlarge"]).as_deref(),
        Some("aarch64")
    );
    assert_eq!(
        arch(&["--os", "ubuntu-24.04", "--gpu", "h100"]).as_deref(),
        Some("x86_64")
    );
    for (os, gpu, right) in [
        ("rocky-9:arm64", "p4d.24xlarge", "x86_64"),
        ("ubuntu-24.04:amd64", "gb200", "aarch64"),
    ] {
        let ran = run(&["plan", "--os", os, "--gpu", gpu]);
        let system = os.split(':').next().unwrap_or_default();
        let command = format!("gpusetup plan --os {system}:{right} --gpu {gpu}");
        assert!(
            ran.code == 4 && ran.err.contains(&format!("try: {command}")),
            "{}",
            ran.err
        );
        let words: Vec<_> = command.split(' ').skip(1).collect();
        assert_eq!(run(&words).code, 0, "{command}");
    }
    let here = crate::common::Tree::ubuntu_24_04().run(&["plan", "--gpu", "gb200"]);
    assert!(
        here.err
            .contains("try: gpusetup plan --os ubuntu-24.04:aarch64 --gpu gb200"),
        "{}",
        here.err
    );
}

#[test]
fn a_bundle_needs_the_repositories_of_that_system() {
    let out = tempfile::tempdir().expect("a folder");
    let cache = out.path().join("cache").display().to_string();
    let out = out.path().join("bundle").display().to_string();
    let create = [
        "bundle",
        "create",
        "-o",
        &out,
        "--cache",
        &cache,
        "--offline",
    ];
    let elsewhere = run(&[&create[..], &["--os", "fedora-42", "--gpu", "h100"]].concat());
    assert_eq!(elsewhere.code, 4, "{}", elsewhere.err);
    assert!(
        elsewhere.err.contains("fedora 42 on x86_64") && elsewhere.err.contains("--root DIR"),
        "{}",
        elsewhere.err
    );
    assert_eq!(run(&create).code, 2);
}
