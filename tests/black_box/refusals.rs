//! What a refusal suggests can be had, wishes that are left out are named, and a repository for
//! another system does not count.

use crate::common::{Ran, Tree, run, run_with_input};
use serde_json::{Value, json};

/// The facts of a new installation, changed.
fn facts(os: &str, gpu: &str, change: impl FnOnce(&mut Value)) -> String {
    let mut facts = run(&["plan", "--os", os, "--gpu", gpu, "--json"]).json()["host"].take();
    change(&mut facts);
    facts.to_string()
}

fn planned(facts: &str, more: &[&str]) -> Ran {
    run_with_input(&[&["plan", "--facts", "-"], more].concat(), facts)
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
    for (os, method) in [
        ("opensuse-leap-15", "packages"),
        ("rocky-10", "repository"),
        ("fedora-43", "repository"),
    ] {
        let ran = run(&["plan", "--os", os, "--gpu", "8xb200", "--method", method]);
        assert!(
            ran.code == 4 && !ran.err.contains("# fits"),
            "{os}: {}",
            ran.err
        );
        assert!(
            ran.err
                .contains("fits, but is blocked, too: GPUs like these are connected"),
            "{os}: {}",
            ran.err
        );
        assert!(
            suggested(&ran)
                .iter()
                .all(|command| command.starts_with("gpusetup db show")),
            "{os}: {}",
            ran.err
        );
    }
    let ran = run(&[
        "plan",
        "--os",
        "opensuse-leap-15",
        "--gpu",
        "8xb200",
        "--method",
        "packages",
    ]);
    assert!(
        !ran.err.contains("--method repository"),
        "it lacks Fabric Manager: {}",
        ran.err
    );
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
    ])
    .err;
    let because = because.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        because.contains("driver's version (NVIDIA Fabric Manager"),
        "{because}"
    );
    assert!(
        because.contains("none is known for this driver (the database)"),
        "{because}"
    );
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
    for part in [
        "none with toolkits for SUSE Linux Enterprise Server 16 on x86_64",
        "archives instead: fits: driver",
    ] {
        assert!(ran.err.contains(part), "{}", ran.err);
    }
    let ran = run(&[
        "plan",
        "--os",
        "debian-12:aarch64",
        "--gpu",
        "h100",
        "--method",
        "repository",
    ]);
    assert!(
        ran.err
            .contains("none with a driver for Debian 12 (bookworm) on aarch64"),
        "{}",
        ran.err
    );
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
    let all = suggested(&ran);
    assert!(
        ran.code == 2 && ran.err.contains("IMEX cannot be set up (--imex-peers)"),
        "{}",
        ran.err
    );
    assert!(
        all.iter()
            .any(|line| line.contains("--imex-peers") && line.contains("# fits: ")),
        "{all:?}"
    );
    assert!(
        all.iter()
            .any(|line| line.contains("--method runfile") && line.contains("# without it")),
        "{all:?}"
    );
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
    let text = warning(&["--os", "debian-12", "--gpu", "8xh100"]).expect("a warning");
    let helps = text.rsplit("; ").next().expect("a remedy");
    assert!(
        helps.starts_with("--method repository gets 595.") && helps.ends_with(", which has them"),
        "{text}"
    );
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
    let all = planned(&here, &["--profile", "driver", "--json"]).json()["warnings"].to_string();
    assert!(
        all.contains("--driver 580 gets 580.178.04, which has them"),
        "what its switches need is there: {all}"
    );
    // A toolkit that lacks fixes comes with the first release that has them.
    let all = run(&[
        "plan",
        "--os",
        "ubuntu-24.04",
        "--gpu",
        "h100",
        "--cuda",
        "13.0",
        "--json",
    ])
    .json()["warnings"]
        .to_string();
    assert!(all.contains("; --cuda 13.1 gets 13.1."), "{all}");
    let all = run(&[
        "plan",
        "--os",
        "ubuntu-22.04",
        "--gpu",
        "v100",
        "--cuda",
        "12.4",
        "--json",
    ])
    .json()["warnings"]
        .to_string();
    assert!(
        all.contains("GS513") && !all.contains("--cuda 13"),
        "it does not target the GPU: {all}"
    );
    // Here only another branch has the fixes, beside what the switches need.
    let text = warning(&["--os", "debian-11", "--gpu", "8xh100"]).expect("a warning");
    assert!(
        !text.contains("--method repository"),
        "there is none: {text}"
    );
}

#[test]
fn a_release_that_is_not_known_is_not_said_to_be_the_requested_one() {
    let here = facts("debian-12", "a100", |facts| {
        facts["toolkits"] = json!([{"version": "13.0", "path": "/usr/local/cuda-13.0", "origin": "unknown", "has_nvcc": true}]);
    });
    let ran = planned(&here, &["--cuda", "13.0.2", "--json"]);
    let reasons = ran.json()["reasons"].to_string();
    assert!(
        reasons.contains("whether it is 13.0.2, as requested, is not known"),
        "{reasons}"
    );
    let reasons = planned(&here, &["--cuda", "13.0", "--json"]).json()["reasons"].to_string();
    assert!(
        reasons.contains("fits; its files do not name the exact release"),
        "{reasons}"
    );
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
    for (more, code) in [
        (["--with", "dcgm"], 2),
        (["--toolkit-method", "repository"], 5),
    ] {
        let ran = planned(&wrong, &more);
        assert!(
            ran.code == code
                && ran
                    .err
                    .contains("/ubuntu2204/x86_64 is not NVIDIA's for Ubuntu 24.04 LTS on x86_64"),
            "{}",
            ran.err
        );
    }
    let ran = planned(&wrong, &["--toolkit-method", "repository"]);
    let disable = "grep -rlF https://developer.download.nvidia.com/compute/cuda/repos/ubuntu2204/x86_64 \
                   /etc/apt/sources.list.d | sudo xargs -r -I{} mv {} {}.disabled && sudo apt-get update";
    assert!(
        ran.err.contains(disable) && ran.err.contains("gpusetup can add the right one"),
        "{}",
        ran.err
    );
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
    assert!(
        ran.out.contains("/repos/rhel9/x86_64)") && ran.out.contains("/etc/yum.repos.d"),
        "{}",
        ran.out
    );
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
        let all = plan["reasons"].as_array().expect("reasons").clone();
        let of_cuda = all
            .into_iter()
            .find(|reason| reason["subject"] == "cuda")
            .expect("a reason");
        of_cuda["text"].as_str().expect("a text").to_owned()
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
            "--cuda 13.0.3 --toolkit-method repository",
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
    let ran = planned(&here, &["--profile", "driver", "--upgrade"]);
    assert!(ran.code == 5 && ran.err.contains("(GS402)"), "{}", ran.err);
    assert!(
        !ran.err.contains("--method packages"),
        "it would upgrade nothing: {}",
        ran.err
    );
    let [only] = suggested(&ran)[..] else {
        panic!("{}", ran.err)
    };
    assert!(
        only.starts_with(
            "gpusetup plan --facts - --profile driver  # keep the installed driver: fits: "
        ),
        "{only}"
    );
    assert_eq!(planned(&here, &["--profile", "driver"]).code, 0);
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
    let flat = ran.err.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        ran.code == 2 && flat.contains("gpusetup plan --lock did not write it: it is not JSON ("),
        "{flat}"
    );
    let ran = run(&["plan", "--os", "debian-12", "--gpu", "k80", "--json"]);
    let warnings = ran.json()["warnings"].to_string();
    assert!(
        warnings.contains(
            "may not support Debian 12 (bookworm) on x86_64: NVIDIA's installation guide for CUDA 11.2, the nearest"
        ),
        "{warnings}"
    );
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
