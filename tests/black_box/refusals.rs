//! What a refusal suggests can be had, wishes that are left out are named, and a repository for
//! another system does not count.

use crate::common::{Ran, Tree, run, run_with_input, warnings};
use serde_json::{Value, json};

/// The facts of a new installation, changed.
fn facts(os: &str, gpu: &str, change: impl FnOnce(&mut Value)) -> String {
    let mut facts = run(&["plan", "--os", os, "--gpu", gpu, "--json"]).json()["host"].take();
    change(&mut facts);
    facts.to_string()
}

/// A host with a T4 and this driver, whose modules are the proprietary ones, and with the kernel's
/// driver of the GPU, if that matters.
fn with_driver(os: &str, version: &str, origin: &str, bound_to: Option<&str>) -> String {
    facts(os, "t4", |facts| {
        facts["driver"] = json!({"version": version, "origin": origin, "modules": "proprietary", "evidence": "nvidia-smi"});
        if let Some(bound_to) = bound_to {
            facts["gpus"][0]["bound_to"] = json!(bound_to);
        }
    })
}

fn planned(facts: &str, more: &[&str]) -> Ran {
    run_with_input(&[&["plan", "--facts", "-"], more].concat(), facts)
}

/// Why a plan chose this.
fn reason(plan: &Value, subject: &str) -> String {
    let mut all = plan["reasons"].as_array().expect("reasons").iter();
    let reason = all.find(|reason| reason["subject"] == subject);
    let text = reason.and_then(|reason| reason["text"].as_str());
    text.expect("a reason").to_owned()
}

/// The lines that suggest a command, each with what follows it.
fn suggested(ran: &Ran) -> Vec<&str> {
    ran.err
        .lines()
        .filter_map(|line| line.strip_prefix("try: "))
        .collect()
}

#[test]
fn what_is_said_to_fit_is_not_refused() {
    // What these boards need cannot be had beside the runfile here.
    let mut all = Vec::new();
    for (os, method) in [
        ("opensuse-leap-15", "packages"),
        ("rocky-10", "repository"),
        ("fedora-43", "repository"),
    ] {
        let said = run(&["plan", "--os", os, "--gpu", "8xb200", "--method", method]);
        all.push(said.refusal(4).to_owned());
    }
    insta::assert_snapshot!(all.join("\n"), @"
    error: packages were requested, but gpusetup knows no enabled repository with a driver that fits
    because: packages were requested (the request)
    because: gpusetup knows no enabled repository with a driver that fits (facts of the host)
    hint: driver 580.178.04 (open modules) + CUDA 13.0.3 + cuDNN 9.28.0.42 fits, but is blocked, too: GPUs like these are connected by NVSwitches (DGX and HGX B100, B200, B300): Fabric Manager needs nvlsm. Driver 580.178.04 comes from the runfile, and gpusetup cannot install that beside it: CUDA would fail with error 802 (system not yet initialized) (GS801)
    try: gpusetup db show 8xb200

    error: NVIDIA's repository was requested, but the database knows none with a driver for Rocky Linux 10 on x86_64
    because: NVIDIA's repository was requested (the request)
    because: the database knows none with a driver for Rocky Linux 10 on x86_64 (facts of the host)
    hint: driver 580.178.04 (open modules) + CUDA 13.0.3 + cuDNN 9.28.0.42 fits, but is blocked, too: GPUs like these are connected by NVSwitches (DGX and HGX B100, B200, B300): Fabric Manager needs nvlsm. Driver 580.178.04 comes from the runfile, and gpusetup cannot install that beside it: CUDA would fail with error 802 (system not yet initialized) (GS801)
    try: gpusetup db show 8xb200

    error: NVIDIA's repository was requested, but the database knows none with a driver for Fedora 43 on x86_64
    because: NVIDIA's repository was requested (the request)
    because: the database knows none with a driver for Fedora 43 on x86_64 (facts of the host)
    hint: driver 580.178.04 (open modules) + CUDA 13.3.0 + cuDNN 9.28.0.42 fits, but is blocked, too: GPUs like these are connected by NVSwitches (DGX and HGX B100, B200, B300): Fabric Manager needs nvlsm. Driver 580.178.04 comes from the runfile, and gpusetup cannot install that beside it: CUDA would fail with error 802 (system not yet initialized) (GS801)
    try: gpusetup db show 8xb200
    ");
    for os in ["sles-15", "sles-16"] {
        let ran = run(&["plan", "--os", os, "--gpu", "8xb200", "--method", "runfile"]);
        let [first, by_hand] = suggested(&ran)[..] else {
            panic!("{os}: {}", ran.err)
        };
        let (command, gives) = first.split_once("  # ").expect("a comment");
        assert!(
            ran.code == 5 && gives.starts_with("fits: driver ") && !command.contains("--method"),
            "{first}"
        );
        assert!(
            by_hand.ends_with("# and install the rest by hand"),
            "{by_hand}"
        );
    }
}

#[test]
fn every_command_of_a_refusal_is_planned() {
    let peers = ["--imex-peers", "10.0.0.1,10.0.0.2"];
    let hosts: [(&str, &str, &[&str]); 4] = [
        ("debian-12:aarch64", "gb200", &peers),
        (
            "opensuse-leap-15",
            "8xh100",
            &["--profile", "driver", "--with", "dcgm"],
        ),
        ("opensuse-leap-15", "8xb200", &["--profile", "driver"]),
        ("rocky-10", "8xb200", &["--profile", "driver"]),
    ];
    for (os, gpu, more) in hosts {
        let ran = run(&[
            &["plan", "--os", os, "--gpu", gpu, "--method", "repository"],
            more,
        ]
        .concat());
        assert_eq!(ran.code, 4, "{os}: {}", ran.err);
        for command in suggested(&ran) {
            let words = command.split("  # ").next().unwrap_or_default();
            let words: Vec<_> = words.split(' ').skip(1).collect();
            assert_eq!(run(&words).code, 0, "{os}: {command}");
        }
    }
    let because = run(&[
        "plan",
        "--os",
        "opensuse-leap-15",
        "--gpu",
        "8xb200",
        "--method",
        "repository",
    ]);
    insta::assert_snapshot!(because.refusal(4), @"
    error: driver 595.99.02 does not fit: the NVSwitches of this host need Fabric Manager of exactly the driver's version, but none is known for this driver (GS801)
    because: the NVSwitches of this host need Fabric Manager of exactly the driver's version (NVIDIA Fabric Manager User Guide; NVIDIA's driver container: packages and units that go with the driver, at commit 06a208ca9747; 3 more)
    because: driver 595.99.02: none is known for this driver (the database)
    hint: driver 580.178.04 (open modules) + CUDA 13.0.3 + cuDNN 9.28.0.42 fits, but is blocked, too: GPUs like these are connected by NVSwitches (DGX and HGX B100, B200, B300): Fabric Manager needs nvlsm. Driver 580.178.04 comes from the runfile, and gpusetup cannot install that beside it: CUDA would fail with error 802 (system not yet initialized) (GS801)
    try: gpusetup db show 8xb200
    ");
}

#[test]
fn a_command_is_suggested_once_and_a_repository_by_what_it_lacks() {
    let ran = run(&[
        "plan",
        "--os",
        "sles-16",
        "--gpu",
        "h100",
        "--toolkit-method",
        "repository",
    ]);
    let commands: Vec<_> = suggested(&ran)
        .iter()
        .filter_map(|line| line.split("  # ").next())
        .collect();
    assert_eq!(
        commands
            .iter()
            .filter(|line| line.ends_with("--gpu h100"))
            .count(),
        1,
        "{commands:?}"
    );
    insta::assert_snapshot!(ran.refusal(4), @"
    error: NVIDIA's repository was requested for the toolkit (--toolkit-method repository), but the database knows none with toolkits for SUSE Linux Enterprise Server 16 on x86_64
    try: gpusetup plan --os sles-16 --gpu h100 --components nvcc,cudart  # fits: driver 595.99.02 (open modules) + CUDA 13.2.2 (nvcc, cudart, cublas, crt, nvvm, cccl, nvrtc) + cuDNN 9.28.0.42
    try: gpusetup plan --os sles-16 --gpu h100  # from NVIDIA's archives instead: fits: driver 595.99.02 (open modules) + CUDA 13.2.2 (37 components) + cuDNN 9.28.0.42
    ");
    let said = run(&[
        "plan",
        "--os",
        "debian-12:aarch64",
        "--gpu",
        "h100",
        "--method",
        "repository",
    ]);
    insta::assert_snapshot!(said.refusal(4), @"
    error: NVIDIA's repository was requested, but the database knows none with a driver for Debian 12 (bookworm) on aarch64
    because: NVIDIA's repository was requested (the request)
    because: the database knows none with a driver for Debian 12 (bookworm) on aarch64 (facts of the host)
    try: gpusetup plan --os debian-12:aarch64 --gpu h100  # fits: driver 595.99.02 (open modules) + CUDA 13.2.1 + cuDNN 9.27.0.42
    ");
}

#[test]
fn hosts_of_a_domain_are_not_left_out_in_silence() {
    let peers = ["--imex-peers", "10.0.0.1,10.0.0.2"];
    let ran = run(&[
        &[
            "plan",
            "--os",
            "ubuntu-24.04",
            "--gpu",
            "4xgb200",
            "--method",
            "runfile",
        ],
        &peers[..],
    ]
    .concat());
    insta::assert_snapshot!(ran.refusal(2), @"
    error: IMEX cannot be set up (--imex-peers): gpusetup knows no IMEX that it can install with driver 595.71.05 from the runfile (GS801)
    try: gpusetup plan --os ubuntu-24.04 --gpu 4xgb200 --imex-peers 10.0.0.1,10.0.0.2  # fits: driver 595.91.07 (open modules) + CUDA 13.2.1 + cuDNN 9.27.0.42
    try: gpusetup plan --os ubuntu-24.04 --gpu 4xgb200 --method runfile  # without it
    ");
    for gpu in ["h100", "8xh100"] {
        let ran = run(&[&["plan", "--os", "ubuntu-24.04", "--gpu", gpu], &peers[..]].concat());
        let flat = ran.out.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            flat.contains("Set up IMEX (left out: the GPUs here share no NVLink domain"),
            "{gpu}: {}",
            ran.out
        );
    }
}

#[test]
fn a_driver_without_fixes_comes_with_what_helps() {
    let warning = |arguments: &[&str]| {
        let plan = run(&[&["plan", "--profile", "driver", "--json"], arguments].concat()).json();
        let all = plan["warnings"].as_array().expect("warnings").clone();
        all.into_iter()
            .find(|w| w["check"] == "GS513")
            .map(|w| w["text"].as_str().expect("a text").to_owned())
    };
    // A plan that nobody asked for a driver gets one with the fixes.
    assert_eq!(warning(&["--os", "debian-12", "--gpu", "8xh100"]), None);
    let asked = ["--os", "debian-12", "--gpu", "8xh100", "--driver", "595"];
    let text = warning(&asked).expect("a warning");
    insta::assert_snapshot!(text, @r#"driver 595.71.05 is vulnerable (CVE-2026-47595 and others): NVIDIA's security bulletin "GPU Display Driver, September 2026" (5861) names 595.91.07 as the first release of branch 595 with the fixes; --method repository gets 595.99.02, which has them"#);
    assert_eq!(
        warning(&[
            "--os",
            "debian-12",
            "--gpu",
            "8xh100",
            "--method",
            "repository"
        ]),
        None
    );
    let here = facts("fedora-42", "4xh100", |facts| {
        facts["driver"] = json!({"version": "570.133.20", "origin": "runfile", "modules": "open", "evidence": "its uninstaller"});
        facts["nvswitches"] = json!(
            [
                "0000:c4:00.0",
                "0000:c5:00.0",
                "0000:c6:00.0",
                "0000:c7:00.0"
            ]
            .map(|address| json!({
                "address": address, "pci_id": "10de:22a3"
            }))
        );
    });
    // What its switches need is there.
    let plan = planned(&here, &["--profile", "driver", "--json"]).json();
    insta::assert_snapshot!(warnings(&plan, "GS513").join("\n"), @r#"driver 570.133.20 is vulnerable (CVE-2025-33219): NVIDIA's security bulletin "NVIDIA GPU Display Drivers, January 2026" (5747) names 570.211.01 as the first release of branch 570 with the fixes; --upgrade gets 580.178.04, which has them"#);
    // A toolkit that lacks fixes comes with the first release that has them.
    let plan = run(&[
        "plan",
        "--os",
        "ubuntu-24.04",
        "--gpu",
        "h100",
        "--cuda",
        "13.0",
        "--json",
    ])
    .json();
    insta::assert_snapshot!(warnings(&plan, "GS513").join("\n"), @r#"CUDA toolkit 13.0.3 is vulnerable (CVE-2025-33228 and others): NVIDIA's security bulletin "CUDA Toolkit, January 2026" (5755) names CUDA 13.1 as the first release with the fixes; --cuda 13.1 gets 13.1.2, which has them"#);
    let plan = run(&[
        "plan",
        "--os",
        "ubuntu-22.04",
        "--gpu",
        "v100",
        "--cuda",
        "12.4",
        "--json",
    ])
    .json();
    // CUDA 13 does not target the GPU.
    insta::assert_snapshot!(warnings(&plan, "GS513").join("\n"), @r#"CUDA toolkit 12.4.1 is vulnerable (CVE-2025-33228 and others): NVIDIA's security bulletin "CUDA Toolkit, January 2026" (5755) names CUDA 13.1 as the first release with the fixes"#);
    // Here only another branch has the fixes, beside what the switches need.
    let asked = ["--os", "debian-11", "--gpu", "8xh100", "--driver", "595"];
    let text = warning(&asked).expect("a warning");
    insta::assert_snapshot!(text, @r#"driver 595.71.05 is vulnerable (CVE-2026-47595 and others): NVIDIA's security bulletin "GPU Display Driver, September 2026" (5861) names 595.91.07 as the first release of branch 595 with the fixes; without --driver, the plan gets 580.178.04, which has them"#);
}

#[test]
fn a_release_that_is_not_known_is_not_said_to_be_the_requested_one() {
    let here = facts("debian-12", "a100", |facts| {
        facts["toolkits"] = json!([{"version": "13.0", "path": "/usr/local/cuda-13.0", "origin": "unknown", "has_nvcc": true}]);
    });
    let said = planned(&here, &["--cuda", "13.0.2", "--json"]);
    insta::assert_snapshot!(reason(&said.json(), "cuda"), @"the installed CUDA 13.0 is kept; its files do not name the exact release, so whether it is 13.0.2, as requested, is not known");
    let said = planned(&here, &["--cuda", "13.0", "--json"]);
    insta::assert_snapshot!(reason(&said.json(), "cuda"), @"the installed CUDA 13.0 fits; its files do not name the exact release");
}

#[test]
fn a_repository_for_another_system_does_not_count() {
    let of = |folder: &str| {
        json!([format!(
            "https://developer.download.nvidia.com/compute/cuda/repos/{folder}/x86_64 /"
        )])
    };
    let with =
        |os: &str, folder: &str| facts(os, "a100", |facts| facts["repositories"] = of(folder));
    let warned = |ran: &Ran| {
        let plan = ran.json();
        plan["warnings"]
            .as_array()
            .expect("warnings")
            .iter()
            .any(|warning| warning["check"] == "GS404")
    };
    let right = with("ubuntu-24.04", "ubuntu2404");
    assert!(!warned(&planned(&right, &["--with", "dcgm", "--json"])));
    let wrong = with("ubuntu-24.04", "ubuntu2204");
    assert!(warned(&planned(&wrong, &["--json"])));
    let said = planned(&wrong, &["--with", "dcgm"]);
    insta::assert_snapshot!(said.refused(2), @"error: DCGM cannot be installed (--with dcgm): the enabled repository https://developer.download.nvidia.com/compute/cuda/repos/ubuntu2204/x86_64 is not NVIDIA's for Ubuntu 24.04 LTS on x86_64 (https://developer.download.nvidia.com/compute/cuda/repos/ubuntu2404/x86_64): its packages may not fit, and nothing is chosen from it; disable its file and plan again (gpusetup can add the right one): grep -rlF https://developer.download.nvidia.com/compute/cuda/repos/ubuntu2204/x86_64 /etc/apt/sources.list.d | sudo xargs -r -I{} mv {} {}.disabled && sudo apt-get update");
    let said = planned(&wrong, &["--toolkit-method", "repository"]);
    insta::assert_snapshot!(said.refusal(5), @"
    error: the enabled repository https://developer.download.nvidia.com/compute/cuda/repos/ubuntu2204/x86_64 is not NVIDIA's for Ubuntu 24.04 LTS on x86_64 (https://developer.download.nvidia.com/compute/cuda/repos/ubuntu2404/x86_64): its packages may not fit, and nothing is chosen from it (GS404)
    hint: disable its file and plan again (gpusetup can add the right one): grep -rlF https://developer.download.nvidia.com/compute/cuda/repos/ubuntu2204/x86_64 /etc/apt/sources.list.d | sudo xargs -r -I{} mv {} {}.disabled && sudo apt-get update
    ");
    // Nor does the right system's for another architecture count.
    let sbsa = facts("rocky-9", "a100", |facts| {
        let url =
            "https://developer.download.nvidia.com/compute/cuda/repos/rhel9/sbsa cuda-rhel9-sbsa";
        facts["repositories"] = json!([url]);
    });
    let ran = planned(&sbsa, &["--json"]);
    assert!(
        warned(&ran) && ran.json()["selection"]["driver"]["method"] == "runfile",
        "{}",
        ran.out
    );
    insta::assert_snapshot!(warnings(&ran.json(), "GS404").join("\n"), @"the enabled repository https://developer.download.nvidia.com/compute/cuda/repos/rhel9/sbsa is not NVIDIA's for Rocky Linux 9 on x86_64 (https://developer.download.nvidia.com/compute/cuda/repos/rhel9/x86_64): its packages may not fit, and nothing is chosen from it; disable its file and plan again (gpusetup can add the right one): grep -rlF https://developer.download.nvidia.com/compute/cuda/repos/rhel9/sbsa /etc/yum.repos.d | sudo xargs -r -I{} mv {} {}.disabled && sudo dnf makecache");
    // A driver is not taken from there either, and a mirror that dnf completes is right.
    let method = |ran: &Ran| ran.json()["selection"]["driver"]["method"].clone();
    assert_eq!(
        method(&planned(&with("rocky-9", "rhel9"), &["--json"])),
        "packages"
    );
    let ran = planned(&with("rocky-9", "rhel8"), &["--json"]);
    assert!(method(&ran) == "runfile" && warned(&ran));
    assert!(!warned(&planned(
        &with("rocky-9", "rhel$releasever"),
        &["--json"]
    )));
}

#[test]
fn add_ons_of_packages_are_kept() {
    let with = |cuda: &str| {
        let packages = [
            (
                "libcudnn9-cuda-",
                "9.17.0.29-1".to_owned(),
                format!("libcudnn9-cuda-{cuda}"),
            ),
            (
                "libnccl2",
                format!("2.27.7-1+cuda{cuda}.0"),
                "libnccl2".to_owned(),
            ),
        ];
        let stanza = |(_, version, name): &(&str, String, String)| {
            format!(
                "Package: {name}\nStatus: install ok installed\nArchitecture: amd64\nVersion: {version}\n\n"
            )
        };
        let tree = Tree::debian_12().gpu("0000:17:00.0", "20b2", None).gxx(12);
        tree.write(
            "var/lib/dpkg/status",
            &packages.iter().map(stanza).collect::<String>(),
        );
        tree.write("usr/lib/x86_64-linux-gnu/libcudnn.so.9.17.0", "no library");
        tree.write("usr/lib/x86_64-linux-gnu/libnccl.so.2.27.7", "no library");
        tree.run(&["plan", "--cuda", "13.0", "--with", "nccl", "--json"])
            .json()
    };
    let step = |plan: &Value, id: &str| {
        let steps = plan["steps"]
            .as_array()
            .expect("steps")
            .iter()
            .filter(|step| step["id"] == id);
        steps
            .map(|step| (step["title"].to_string(), step["state"].to_string()))
            .next()
            .expect("a step")
    };
    let kept = with("13");
    assert_eq!(kept["selection"]["cudnn"]["version"], "9.17.0.29");
    assert_eq!(kept["selection"]["add_ons"]["nccl"]["version"], "2.27.7");
    for id in ["install-cudnn", "install-nccl"] {
        let (title, state) = step(&kept, id);
        assert!(
            title.contains("of the system's packages") && state.contains("satisfied"),
            "{title} {state}"
        );
    }
    let reasons = kept["reasons"].as_array().expect("reasons").iter();
    let why = reasons
        .filter(|reason| reason["subject"] == "cudnn")
        .map(|reason| reason["text"].to_string());
    let why: Vec<_> = why.collect();
    assert!(
        why[0].starts_with("\"9.17.0.29 is installed and fits; it is for CUDA 13.0"),
        "{why:?}"
    );
    let links = kept["steps"]
        .as_array()
        .expect("steps")
        .iter()
        .find(|step| step["id"] == "fix-symlinks");
    assert!(
        !links.expect("a step").to_string().contains("libcudnn"),
        "they are not in the toolkit: {links:?}"
    );
    // Those for another CUDA are no help.
    let (title, state) = step(&with("12"), "install-cudnn");
    assert!(
        title.contains("into /usr/local/cuda-13.0") && state.contains("needed"),
        "{title} {state}"
    );
}

#[test]
fn newer_toolkits_without_files_are_named_and_come_from_the_repository() {
    let asked = |more: &[&str]| {
        run(&[
            &[
                "plan",
                "--os",
                "ubuntu-24.04",
                "--gpu",
                "h100",
                "--profile",
                "toolkit",
            ],
            more,
        ]
        .concat())
    };
    let reason = |more: &[&str]| {
        let plan = asked(&[&["--json"], more].concat()).json();
        reason(&plan, "cuda")
    };
    let text = reason(&[]);
    assert!(
        text.starts_with(
            "the newest with a verified runfile (13.5.0 has none) that fits; it needs"
        ),
        "{text}"
    );
    let text = reason(&["--cuda", "12.4"]);
    assert!(
        text.starts_with("the newest 12.4 that fits"),
        "no newer one of 12.4 is known: {text}"
    );
    let text = reason(&["--toolkit-method", "repository"]);
    assert!(
        text.starts_with("the newest that fits"),
        "packages need no runfile: {text}"
    );
    for (more, command) in [
        (
            &["--cuda", "13.5"][..],
            "--cuda 13.5 --toolkit-method repository",
        ),
        (
            &["--cuda", "13.0.1", "--toolkit-method", "repository"],
            "--cuda 13.0.1  # fits",
        ),
    ] {
        let ran = asked(more);
        let all = suggested(&ran);
        assert!(
            ran.code == 4 && all.iter().any(|line| line.contains(command)),
            "{}",
            ran.err
        );
    }
}

#[test]
fn an_upgrade_over_another_vendors_packages_comes_with_a_plan_that_works() {
    let here = facts("rocky-9", "a100", |facts| {
        facts["driver"] = json!({"version": "570.133.20", "origin": "rpm", "modules": "open", "evidence": "the record of packages"});
    });
    let said = planned(&here, &["--profile", "driver", "--upgrade"]);
    insta::assert_snapshot!(said.refusal(5), @"
    error: driver 570.133.20 is installed from packages, and NVIDIA's network repository, which has driver 595.99.02, is not enabled. Packages of elsewhere have the same names in part, and upgrades would mix them (GS402)
    hint: enable NVIDIA's network repository again if they came from there, or remove them first: sudo gpusetup uninstall --driver
    try: gpusetup plan --facts - --profile driver  # keep the installed driver: fits: driver 570.133.20 (open modules)
    ");
    assert_eq!(planned(&here, &["--profile", "driver"]).code, 0);
}

/// Two kinds of installation break each other: what replaces the installed driver is installed as it
/// was, where that serves. Otherwise it is refused, with the plans that work.
#[test]
fn a_driver_is_replaced_by_one_that_is_installed_as_it_was() {
    let amazon = with_driver("amzn-2023", "535.261.03", "runfile", None);
    let plan = planned(&amazon, &["--for", "cudf", "--json"]).json();
    assert_eq!(plan["selection"]["driver"]["method"], "runfile");
    let said = planned(&amazon, &["--for", "cudf", "--method", "repository"]);
    insta::assert_snapshot!(said.refusal(5), @"
    error: driver 535.261.03 was installed from NVIDIA's runfile, but 595.99.02 would be installed differently; two installations break each other (GS401)
    hint: remove the driver that the runfile installed: sudo nvidia-uninstall --silent; or use the runfile (--method runfile)
    try: gpusetup plan --facts - --for cudf --driver 535  # keep the installed driver: fits: driver 535.261.03 (proprietary modules)
    try: gpusetup plan --facts - --for cudf --method runfile  # with the runfile: fits: driver 595.99.02 (open modules)
    ");
    // The enabled repositories have a branch that is past its end of life.
    let ubuntu = with_driver("ubuntu-20.04", "470.256.02", "dpkg", None);
    let said = planned(&ubuntu, &["--for", "torch==2.6"]);
    insta::assert_snapshot!(said.refusal(5), @"
    error: driver 470.256.02 was installed from packages, but 595.99.02 would be installed differently; two installations break each other (GS401)
    hint: use packages (--method packages), or remove the driver's packages first
    try: gpusetup plan --facts - --for torch==2.6 --driver 470  # keep the installed driver: fits: driver 470.256.02 (proprietary modules)
    try: gpusetup plan --facts - --for torch==2.6 --method packages  # from the enabled repositories: fits: driver 570.133.20 (open modules)
    ");
}

/// xFormers takes PyTorch with it, which nobody named, and whose newest is not for this GPU either.
#[test]
fn a_refusal_is_about_the_framework_that_was_named() {
    let said = run(&[
        "plan",
        "--os",
        "ubuntu-20.04",
        "--gpu",
        "m40",
        "--for",
        "xformers",
    ]);
    insta::assert_snapshot!(said.refusal(4), @"
    error: no build of xFormers 0.0.35 supports Tesla M40 (compute capability 5.2). Supported: 7.5 to newest (CUDA 12.8)
    try: gpusetup plan --os ubuntu-20.04 --gpu m40  # fits: driver 580.178.04 (proprietary modules) + CUDA 12.9.1 + cuDNN 9.10.2.21
    ");
}

/// A version that can be had in several ways is refused for the one that came nearest.
#[test]
fn a_newer_driver_is_passed_over_for_what_really_keeps_it_out() {
    for (arguments, rule) in [
        (
            ["ubuntu-24.04", "--gpu", "h100", "--modules", "open"],
            "driver-preference",
        ),
        (
            ["almalinux-9", "--gpu", "8xh100", "--method", "runfile"],
            "driver-has-fabric-manager",
        ),
    ] {
        let plan = run(&[&["plan", "--json", "--os"], &arguments[..]].concat()).json();
        let mut rejected = plan["rejected"].as_array().expect("a list").iter();
        let driver = rejected.find(|other| other["candidate"] == "driver 595.99.02");
        assert_eq!(driver.map(|driver| &driver["rule"]), Some(&json!(rule)));
    }
}

/// The packages of a driver bring their own blacklist, which keeps nouveau away on this host.
#[test]
fn a_packaged_driver_that_has_the_gpu_and_stays_needs_no_blacklist() {
    for (bound_to, state) in [("nvidia", "skipped"), ("nouveau", "needed")] {
        let host = with_driver("ubuntu-24.04", "595.91.07", "dpkg", Some(bound_to));
        let plan = planned(&host, &["--profile", "driver", "--json"]).json();
        let mut steps = plan["steps"].as_array().expect("steps").iter();
        let step = steps.find(|step| step["id"] == "blacklist-nouveau");
        assert_eq!(step.map(|step| &step["state"]), Some(&json!(state)));
    }
}

#[test]
fn a_file_that_is_no_lock_file_and_a_guide_of_another_release_are_named() {
    let ran = run(&[
        "plan",
        "--os",
        "ubuntu-24.04",
        "--gpu",
        "h100",
        "--locked",
        "/etc/passwd",
    ]);
    insta::assert_snapshot!(ran.refusal(2), @"error: the lock file /etc/passwd: gpusetup plan --lock did not write it: it is not JSON (expected value at line 1 column 1)");
    let said = run(&["plan", "--os", "debian-12", "--gpu", "k80", "--json"]);
    insta::assert_snapshot!(warnings(&said.json(), "GS711").join("\n"), @"CUDA 11.4.4 may not support Debian 12 (bookworm) on x86_64: NVIDIA's installation guide for CUDA 11.2, the nearest that gpusetup knows, does not list it");
}

#[test]
fn a_directory_is_a_tree_of_a_host() {
    let tree = Tree::debian_12();
    let folder = tree.path().to_str().expect("text");
    for command in ["facts", "plan", "doctor"] {
        let refused = run(&[command, folder]);
        let right = format!("gpusetup {command} --root {folder}");
        assert!(
            refused.code == 2 && refused.err.contains(&right),
            "{command}: {}: {}",
            refused.code,
            refused.err
        );
    }
}
