//! `--method repository`: which repository a plan adds for which system, and what it refuses. What
//! apt and dnf make of the files, and the undo, are tested in `tests/as_root/repository.rs`.

use crate::common::{Tree, run, run_with_input};
use serde_json::{Value, json};

const KEYS: [(&str, &str); 5] = [
    ("debian-12", "EB693B3035CD5710E231E123A4B469963BF863CC"),
    ("debian-13", "02182E60104FCDC26EAE1B8597A5D4CB8793F200"),
    ("rhel-9", "610C7B14E068A878070DA4E99CD0A493D42D0685"),
    ("sles-15", "610C7B14E068A878070DA4E99CD0A493D42D0685"),
    (
        "opensuse-leap-16",
        "CF65941A859D4B4E6870F188736A284B3A8B5622",
    ),
];

fn wish<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&["plan", "--gpu", "a100", "--profile", "driver"], more].concat()
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

#[test]
fn each_system_has_its_repository_and_key() {
    for (os, fingerprint) in KEYS {
        let wanted = ["--os", os, "--method", "repository", "--no-epel", "--json"];
        let plan = run(&wish(&wanted)).json();
        assert_eq!(plan["selection"]["driver"]["method"], "repository", "{os}");
        let [added] = operations(&plan, "add-repository")[..] else {
            panic!("{os}: {plan}")
        };
        assert_eq!(
            (&added["op"], &added["keys"][0]["fingerprint"]),
            (&json!("add-repository"), &json!(fingerprint))
        );
        // It comes before the packages; a mirror takes the place of NVIDIA's server, and the host's
        // source names it.
        let ids: Vec<_> = plan["steps"]
            .as_array()
            .expect("steps")
            .iter()
            .map(|s| s["id"].as_str())
            .collect();
        let at = |id: &str| ids.iter().position(|i| *i == Some(id));
        assert!(at("add-repository") < at("install-driver"), "{ids:?}");
        let mirrored = [
            "--os",
            os,
            "--method",
            "repository",
            "--json",
            "--mirror",
            "https://mirror.example/nvidia",
        ];
        let mirrored = run(&wish(&mirrored)).json();
        let url = operations(&mirrored, "add-repository")[0]["url"]
            .as_str()
            .expect("an address")
            .to_owned();
        assert!(
            url.starts_with("https://mirror.example/nvidia/compute/cuda/repos/"),
            "{url}"
        );
        assert_ne!(mirrored["fingerprint"], plan["fingerprint"], "{os}");
    }
    let script = run(&wish(&[
        "--os",
        "debian-12",
        "--method",
        "repository",
        "--format",
        "sh",
    ]))
    .out;
    for part in [
        "Signed-By: /usr/share/keyrings/gpusetup-",
        "Pin: version 595.*",
        "gpg --no-options",
        KEYS[0].1,
        "command -v gpg",
    ] {
        assert!(script.contains(part), "{part}: {script}");
    }
}

#[test]
fn packages_come_before_it_and_the_runfile_after() {
    let method = |os: &str, more: &[&str]| {
        let plan = run(&wish(&[&["--os", os, "--json"], more].concat())).json();
        plan["selection"]["driver"]["method"]
            .as_str()
            .map(str::to_owned)
    };
    assert_eq!(method("ubuntu-24.04", &[]).as_deref(), Some("packages"));
    assert_eq!(method("rocky-9", &[]).as_deref(), Some("repository"));
    assert_eq!(
        method("debian-12", &[]).as_deref(),
        Some("runfile"),
        "contrib may be needed, and is not enabled"
    );
    assert_eq!(
        method("debian-12", &["--method", "repository"]).as_deref(),
        Some("repository")
    );
    assert_eq!(
        method("debian-12", &["--method", "runfile"]).as_deref(),
        Some("runfile")
    );
    assert_eq!(
        method("debian-11", &[]).as_deref(),
        Some("runfile"),
        "no repository of a supported system"
    );
    // Enabled already, it is the host's own, and nothing is added.
    let facts = |repositories: Value| {
        let mut facts = run(&wish(&["--os", "rhel-9", "--json"])).json()["host"].take();
        facts["repositories"] = repositories;
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), facts.to_string()).expect("written");
        file
    };
    let file = facts(json!([
        "https://developer.download.nvidia.com/compute/cuda/repos/rhel9/x86_64 cuda"
    ]));
    let path = file.path().to_str().expect("UTF-8");
    let plan = run(&[
        "plan",
        "--facts",
        path,
        "--profile",
        "driver",
        "--method",
        "repository",
        "--no-epel",
        "--json",
    ])
    .json();
    assert_eq!(plan["selection"]["driver"]["method"], "packages");
    assert!(operations(&plan, "add-repository").is_empty());
    // That of another system is refused, with both.
    let file = facts(json!([
        "https://developer.download.nvidia.com/compute/cuda/repos/rhel8/x86_64 cuda"
    ]));
    let path = file.path().to_str().expect("UTF-8");
    let ran = run(&[
        "plan",
        "--facts",
        path,
        "--profile",
        "driver",
        "--method",
        "repository",
    ]);
    assert!(
        ran.code == 5 && ran.err.contains("/rhel8/") && ran.err.contains("/rhel9"),
        "{}",
        ran.err
    );
}

#[test]
fn it_is_refused_where_there_is_none_or_another_vendors_driver() {
    let ran = run(&wish(&["--os", "ubuntu-24.04", "--method", "repository"]));
    assert!(
        ran.code == 4
            && ran
                .err
                .contains("the database knows none with a driver for Ubuntu 24.04"),
        "{}",
        ran.err
    );
    assert!(
        !ran.err.contains("driver 6"),
        "no driver in particular was asked for: {}",
        ran.err
    );
    let plan = run(&wish(&["--os", "debian-12", "--json"])).json();
    let method = plan["reasons"]
        .as_array()
        .expect("reasons")
        .iter()
        .find(|reason| reason["subject"] == "method");
    assert!(
        method.expect("a reason")["text"]
            .to_string()
            .contains("--method repository adds NVIDIA's"),
        "{method:?}"
    );
    let ran = run(&wish(&["--os", "debian-12", "--method", "packages"]));
    assert!(
        ran.code == 4 && ran.err.contains("--method repository"),
        "{}",
        ran.err
    );
    let tree = Tree::debian_12();
    tree.write(
        "var/lib/dpkg/status",
        "Package: libcuda1\nStatus: install ok installed\nArchitecture: amd64\nVersion: 535.261.03-1\n",
    );
    let ran = tree.run(&wish(&["--method", "repository", "--upgrade"]));
    assert!(
        ran.code == 5 && ran.err.contains("GS402") && ran.err.contains("sudo gpusetup uninstall"),
        "{}",
        ran.err
    );
}

/// The words of a plan's warnings about NVSwitches.
fn fabric_warnings(plan: &Value) -> Vec<&str> {
    let warnings = plan["warnings"]
        .as_array()
        .expect("warnings")
        .iter()
        .filter(|w| w["check"] == "GS801");
    warnings
        .map(|w| w["text"].as_str().expect("a text"))
        .collect()
}

#[test]
fn nvlsm_alone_comes_from_nvidias_repository_for_ubuntu() {
    let plan = |os: &str, more: &[&str]| {
        run(&[
            &[
                "plan",
                "--gpu",
                "10de:2901x8",
                "--profile",
                "driver",
                "--os",
                os,
                "--json",
            ],
            more,
        ]
        .concat())
        .json()
    };
    for os in ["ubuntu-22.04", "ubuntu-24.04"] {
        let plan = plan(os, &[]);
        assert_eq!(plan["selection"]["driver"]["method"], "packages", "{os}");
        let [added] = operations(&plan, "add-repository")[..] else {
            panic!("{os}: {plan}")
        };
        let companions = json!(["nvlsm", "datacenter-gpu-manager-4-*", "nvidia-fs*"]);
        assert_eq!(
            (added.get("packages"), &added["any_version"]),
            (None, &companions),
            "{os}"
        );
        assert_eq!(added["keys"][0]["fingerprint"], KEYS[0].1, "{os}");
        let [installed] = operations(&plan, "install-driver")[..] else {
            panic!("{os}: {plan}")
        };
        let names = installed["install"].as_array().expect("names");
        assert!(
            names.contains(&json!("nvlsm")) && names.contains(&json!("nvidia-fabricmanager-595")),
            "{names:?}"
        );
        assert_eq!(fabric_warnings(&plan), [""; 0], "{os}");
    }
    // On Debian it comes with the driver, in whatever version.
    let debian = plan("debian-12", &["--method", "repository"]);
    let any_version = &operations(&debian, "add-repository")[0]["any_version"];
    assert_eq!(*any_version, json!(["nvlsm", "datacenter-gpu-manager-4-*"]));
    // Where no repository of the system is known to have it, nothing is added, and others are
    // named.
    let newest = plan("ubuntu-26.04", &[]);
    assert!(operations(&newest, "add-repository").is_empty());
    let [text] = fabric_warnings(&newest)[..] else {
        panic!("{newest}")
    };
    assert!(
        text.contains("ubuntu2404") && text.contains("package nvlsm"),
        "{text}"
    );
}

#[test]
fn a_runfile_driver_gets_fabric_manager_from_its_archive() {
    let call = |os: &str, gpu: &str| {
        run(&[
            "plan",
            "--gpu",
            gpu,
            "--profile",
            "driver",
            "--method",
            "runfile",
            "--os",
            os,
            "--json",
        ])
    };
    for (os, gpu) in [
        ("ubuntu-22.04", "10de:20b2x8"),
        ("sles-15", "10de:2330x8"),
        ("debian-12", "10de:2330x8"),
    ] {
        let plan = call(os, gpu).json();
        let version = plan["selection"]["driver"]["version"]
            .as_str()
            .expect("a version");
        let steps = operations(&plan, "companions");
        let of = |op: &str| {
            steps
                .iter()
                .find(|o| o["op"] == op)
                .unwrap_or_else(|| panic!("{os}: {op}: {plan}"))
        };
        let archive = of("unpack")["archive"].as_str().expect("a path");
        assert!(
            archive.ends_with(&format!(
                "/fabricmanager-linux-x86_64-{version}-archive.tar.xz"
            )),
            "{os}: {archive}"
        );
        assert_eq!(
            (&of("download")["to"], &of("service")["unit"]),
            (&json!(archive), &json!("nvidia-fabricmanager.service"))
        );
        assert_eq!(fabric_warnings(&plan), [""; 0], "{os}");
    }
    // nvlsm is beside it where its repository can be added; elsewhere the plan is refused, since
    // CUDA would fail.
    let ubuntu = call("ubuntu-24.04", "10de:2901x8").json();
    let installed = operations(&ubuntu, "companions")
        .into_iter()
        .find(|o| o["op"] == "packages")
        .expect("a transaction");
    assert_eq!(installed["install"], json!(["nvlsm"]));
    let ran = run(&[
        "plan",
        "--gpu",
        "10de:2901x8",
        "--profile",
        "driver",
        "--os",
        "azurelinux-3",
    ]);
    assert_eq!(ran.code, 5, "{}", ran.err);
    for part in ["GS801", "nvlsm", "error 802", "ubuntu2404"] {
        assert!(ran.err.contains(part), "{part}: {}", ran.err);
    }
}

#[test]
fn packages_without_their_fabric_manager_are_refused_by_its_name() {
    let stock = [
        "plan",
        "--os",
        "debian-12",
        "--gpu",
        "10de:20b0x8",
        "--profile",
        "driver",
        "--json",
    ];
    let mut facts = run(&stock).json()["host"].take();
    for list in facts["repositories"].as_array_mut().expect("lists") {
        *list = json!(format!(
            "{} contrib non-free",
            list.as_str().expect("a text")
        ));
    }
    facts["nvswitches"] = json!([{"address": "0000:c4:00.0", "pci_id": "10de:1af1"}]);
    let asked = |more: &[&str]| {
        let common = ["plan", "--facts", "-", "--profile", "driver"];
        run_with_input(&[&common[..], more].concat(), &facts.to_string())
    };
    for driver in [&["--driver", "535"][..], &["--driver", "535.309.01"], &[]] {
        let ran = asked(&[&["--method", "packages"], driver].concat());
        assert_eq!(ran.code, 4, "{}", ran.err);
        let lacking = "need Fabric Manager of exactly the driver's version, but gpusetup knows no enabled repository with it";
        assert!(
            ran.err.contains(lacking) && ran.err.contains("driver 535.309.01"),
            "{}",
            ran.err
        );
        assert!(
            ran.err.contains("try: gpusetup plan --facts - ")
                && ran.err.contains("  # fits: driver"),
            "{}",
            ran.err
        );
    }
    // What is suggested has it.
    let suggested = asked(&["--json"]).json();
    assert!(
        suggested.to_string().contains("nvidia-fabricmanager"),
        "{suggested}"
    );
}

#[test]
fn a_rack_host_with_ubuntu_gets_imex_with_its_driver() {
    let plan = run(&[
        "plan",
        "--gpu",
        "10de:2941x4",
        "--profile",
        "driver",
        "--os",
        "ubuntu-24.04:aarch64",
        "--json",
    ])
    .json();
    let [installed] = operations(&plan, "install-driver")[..] else {
        panic!("{plan}")
    };
    let names = installed["install"].as_array().expect("names");
    assert!(names.contains(&json!("nvidia-imex-595")), "{names:?}");
    assert!(
        names.contains(&json!("nvidia-headless-595-server-open")),
        "{names:?}"
    );
}

#[test]
fn the_hosts_of_a_domain_are_named_once_and_imex_starts() {
    let plan = |gpu: &str, os: &str, peers: &[&str]| {
        run(&[
            &[
                "plan",
                "--gpu",
                gpu,
                "--profile",
                "driver",
                "--os",
                os,
                "--json",
            ],
            peers,
        ]
        .concat())
    };
    let rack = |peers: &[&str]| plan("10de:2941x4", "ubuntu-24.04:aarch64", peers);
    // On every host the file is the same, in whatever order the addresses are given.
    let orders = [
        ["--imex-peers", "10.0.0.10,10.0.0.9,fd00::2"],
        ["--imex-peers", "fd00::2,::ffff:10.0.0.9,10.0.0.10,10.0.0.9"],
    ];
    for peers in orders {
        let plan = rack(&peers).json();
        let steps = operations(&plan, "companions");
        let written = steps
            .iter()
            .find(|o| o["op"] == "write-file")
            .unwrap_or_else(|| panic!("{plan}"));
        assert_eq!(written["path"], "/etc/nvidia-imex/nodes_config.cfg");
        assert_eq!(
            written["content"], "10.0.0.9\n10.0.0.10\nfd00::2\n",
            "{peers:?}"
        );
        assert!(
            steps.iter().any(|o| o["unit"] == "nvidia-imex.service"),
            "{plan}"
        );
        assert_eq!(fabric_warnings(&plan), [""; 0]);
    }
    // The key of the config file says the same.
    let config = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(config.path(), "imex-peers: [\"10.0.0.1\", \"10.0.0.2\"]\n").expect("written");
    let by_config = rack(&["--config", config.path().to_str().expect("UTF-8")]).json();
    assert!(
        by_config["steps"]
            .to_string()
            .contains("10.0.0.1\\n10.0.0.2\\n"),
        "{by_config}"
    );
    for wrong in [
        "node1",
        "10.0.0.1/24",
        "127.0.0.1",
        "0.0.0.0",
        "ff02::1",
        "10.0.0.1;reboot",
        "fe80::1",
        "::ffff:127.0.0.1",
    ] {
        let ran = rack(&["--imex-peers", wrong]);
        assert_eq!(ran.code, 2, "{wrong}");
        assert!(ran.err.contains("--imex-peers"), "{wrong}: {}", ran.err);
    }
    let other = plan("a100", "ubuntu-24.04", &orders[0]).json();
    assert!(!other["steps"].to_string().contains("imex"), "{other}");
}

#[test]
fn with_secure_boot_suse_has_its_own_signed_modules() {
    let signed =
        |generation: &str| format!("nvidia-open-driver-{generation}-signed-cuda-kmp-default");
    let listed = ["580.126.20", "595.71.05"]
        .map(|version| format!("{version}_k6.4.0_150700.51-150700.3.57.1"));
    let facts = |secure: &str, kernel: &str| {
        let mut facts = run(&wish(&["--os", "sles-15", "--json"])).json()["host"].take();
        facts["secure_boot"] = json!(secure);
        facts["offered"] = json!({ signed("G06"): listed[0], signed("G07"): listed[1] });
        let text = facts.to_string();
        text.replace("150700.51-default", kernel)
    };
    let plan = |facts: &str, more: &[&str]| {
        run_with_input(
            &[
                &["plan", "--facts", "-", "--profile", "driver", "--json"],
                more,
            ]
            .concat(),
            facts,
        )
    };
    let secure = facts("enabled", "150700.51-default");
    for (more, version, generation, listed) in [
        (&[][..], "595.71.05", "G07", &listed[1]),
        (&["--driver", "580"], "580.126.20", "G06", &listed[0]),
    ] {
        let plan = plan(&secure, more).json();
        assert_eq!(plan["selection"]["driver"]["version"], version);
        assert!(
            plan["reasons"]
                .to_string()
                .contains("signed modules of driver"),
            "{}",
            plan["reasons"]
        );
        let acts = operations(&plan, "install-driver");
        let installs = acts
            .iter()
            .find(|act| act["op"] == "packages")
            .expect("packages");
        let wanted = [
            format!("{}={listed}", signed(generation)),
            format!("nvidia-compute-utils-{generation}={version}"),
            format!("nvidia-persistenced={version}"),
        ];
        assert_eq!(installs["install"], json!(wanted));
        assert!(
            acts.iter()
                .any(|act| act["op"] == "hold" && act["held"] == true),
            "{acts:?}"
        );
        assert_eq!(operations(&plan, "add-repository").len(), 1);
        assert!(
            operations(&plan, "prerequisites").is_empty(),
            "nothing is built: {plan}"
        );
    }
    let refused = plan(&secure, &["--method", "runfile"]);
    assert!(
        refused.code == 5 && refused.err.contains("GS301"),
        "{}",
        refused.err
    );
    let instead = "try: gpusetup plan --facts - --profile driver  # fits: driver 595.71.05";
    assert!(refused.err.contains(instead), "{}", refused.err);
    let refused = plan(&secure, &["--driver", "595.99.02"]);
    assert!(
        refused.code == 5 && refused.err.contains(instead),
        "{}",
        refused.err
    );
    // Without Secure Boot, NVIDIA's newest is built; and these are for other kernels.
    let newest = plan(&facts("disabled", "150700.51-default"), &[]).json();
    assert!(
        newest["steps"]
            .to_string()
            .contains("nvidia-open-driver-G07\""),
        "{newest}"
    );
    assert_eq!(plan(&facts("enabled", "150700.51-azure"), &[]).code, 5);
}
