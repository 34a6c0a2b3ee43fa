//! `gpusetup plan` and `facts`, as a user runs them.

use crate::common;
use crate::common::{Tree, run, run_with_input, text, warnings};
use crate::schema;
use gpusetup::causes::{self, Cause};
use serde_json::{Value, json};

const STEPS: [&str; 9] = [
    "prerequisites",
    "blacklist-nouveau",
    "install-driver",
    "install-cuda",
    "install-cudnn",
    "fix-symlinks",
    "ldconfig",
    "environment",
    "verify",
];

/// The GPUs that the project grew from: PCI id, driver branch, modules, CUDA series, cuDNN line on
/// a host with gcc 11 to 13.
const GPUS: [(&str, &str, &str, &str, &str); 11] = [
    ("10de:1c02", "580", "proprietary", "12.9", "9.10"),
    ("10de:1db1", "580", "proprietary", "12.9", "9.10"),
    ("10de:15f9", "580", "proprietary", "12.9", "9.10"),
    ("10de:1eb8", "595", "open", "13.2", "9.28"),
    ("10de:1e04", "595", "open", "13.2", "9.28"),
    ("10de:20b2", "595", "open", "13.2", "9.28"),
    ("10de:2203", "595", "open", "13.2", "9.28"),
    ("10de:2330", "595", "open", "13.2", "9.28"),
    ("10de:2335", "595", "open", "13.2", "9.28"),
    ("10de:2901", "595", "open", "13.2", "9.28"),
    ("10de:2b85", "595", "open", "13.2", "9.28"),
];

#[test]
fn every_gpu_gets_a_complete_plan_on_every_system() {
    let hosts = [
        (Tree::ubuntu_24_04(), "packages"),
        (Tree::debian_12(), "runfile"),
        (Tree::rocky_9(), "repository"),
    ];
    for (host, method) in hosts {
        for (gpu, branch, modules, cuda, cudnn) in GPUS {
            let plan = host.run(&["plan", "--json", "--gpu", gpu]).json();
            assert_eq!(schema::mistakes("plan.json", &plan), [""; 0]);
            let (shown, selection) = (
                format!("{gpu} on {}", text(&plan, "/host/os/name")),
                &plan["selection"],
            );
            assert_eq!(text(selection, "/driver/branch"), branch, "{shown}");
            assert_eq!(text(selection, "/driver/modules"), modules, "{shown}");
            assert_eq!(text(selection, "/driver/method"), method, "{shown}");
            assert!(
                text(selection, "/cuda/version").starts_with(&format!("{cuda}.")),
                "{shown}: {selection}"
            );
            assert!(
                text(selection, "/cudnn/version").starts_with(&format!("{cudnn}.")),
                "{shown}: {selection}"
            );
            let all = plan["steps"].as_array().expect("steps").iter();
            let (companions, steps): (Vec<_>, Vec<_>) = all.partition(|s| s["id"] == "companions");
            assert_eq!(
                companions.len(),
                0,
                "{shown}: a single GPU has no NVSwitches"
            );
            let mut expected = STEPS.to_vec();
            if method == "repository" {
                expected.insert(0, "add-repository");
            }
            assert_eq!(
                steps.iter().map(|s| text(s, "/id")).collect::<Vec<_>>(),
                expected,
                "{shown}"
            );
            for step in steps {
                assert_eq!(text(step, "/state"), "needed", "{shown}: {step:#}");
                assert!(
                    !step["operations"]
                        .as_array()
                        .expect("operations")
                        .is_empty(),
                    "{shown}: {step:#}"
                );
            }
            assert!(
                plan["totals"]["download_bytes"].as_u64().expect("bytes") > 3_000_000_000,
                "{shown}"
            );
        }
    }
}

#[test]
fn a_p100_of_a_power_host_gets_the_last_cuda_for_it() {
    let host = Tree::rocky_9()
        .arch(21)
        .gpu("0002:01:00.0", "15f9", Some("nouveau"));
    let plan = host.run(&["plan", "--json"]).json();
    assert_eq!(text(&plan, "/selection/driver/modules"), "proprietary");
    assert_eq!(text(&plan, "/selection/cuda/version"), "12.4.1");
    assert_eq!(text(&plan, "/selection/cudnn/version"), "9.0.0.312");
    // No driver runfile is published for ppc64le: the one inside the CUDA runfile is.
    let driver = &plan["steps"][2]["operations"];
    assert!(
        text(driver, "/0/url").ends_with("_linux_ppc64le.run"),
        "{driver:#}"
    );
    assert!(
        driver[1]["argv"]
            .as_array()
            .expect("argv")
            .iter()
            .any(|a| a == "--driver"),
        "{driver:#}"
    );
    // The toolkit's step names the same file.
    let totals = host
        .run(&["plan"])
        .out
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    let sizes = totals
        .split_once("The sizes of ")
        .expect("sizes that nobody published")
        .1;
    assert_eq!(sizes.matches("_linux_ppc64le.run").count(), 1, "{sizes}");
}

#[test]
fn lspci_lines_are_read_from_standard_input() {
    let line = "0004:04:00.0 3D controller [0302]: NVIDIA Corporation GP100GL [Tesla P100 SXM2 16GB] [10de:15f9] (rev a1)\n";
    let facts = run_with_input(&["facts", "--json", "--lspci", "-"], line).json();
    assert_eq!(text(&facts, "/schema"), "gpusetup.facts/1");
    assert_eq!(text(&facts, "/gpus/0/name"), "Tesla P100-SXM2-16GB");
    assert_eq!(text(&facts, "/gpus/0/compute_capability"), "6.0");
}

#[test]
fn a_gpu_of_an_lspci_listing_is_read_or_reported_but_not_lost() {
    let nameless = "0004:04:00.0 3D controller: NVIDIA Corporation Device 15f9 (rev a1)\n";
    let plan = Tree::ubuntu_24_04();
    let root = plan.path().display().to_string();
    let with = |command: &str, text: &str| {
        run_with_input(&[command, "--lspci", "-", "--root", &root], text)
    };
    for text in [nameless, "04:00.0 0302: 10de:15f9 (rev a1)\n"] {
        let facts = run_with_input(&["facts", "--json", "--lspci", "-"], text).json();
        assert_eq!(
            self::text(&facts, "/gpus/0/name"),
            "Tesla P100-SXM2-16GB",
            "{text}"
        );
        assert_eq!(with("plan", text).code, 0, "{text}");
    }
    let named =
        "01:00.0 VGA compatible controller: NVIDIA Corporation GP106 [GeForce GTX 1060] (rev a1)\n";
    let facts = with("facts", named);
    assert!(
        !facts.out.contains("no NVIDIA GPU") && facts.out.contains("lspci -nn"),
        "{}",
        facts.out
    );
    let refused = with("plan", named);
    insta::assert_snapshot!(plan.typed_in_it(refused.refusal(5)), @"
    error: the lspci output names an NVIDIA GPU without the numeric ids that identify the model (GS511)
    hint: include the ids: lspci -nn | gpusetup plan --lspci -
    ");
    let partly = with("plan", &(nameless.to_owned() + named));
    assert!(
        partly.code == 0 && partly.out.contains("a GPU is left out of the plan"),
        "{}{}",
        partly.out,
        partly.err
    );
}

#[test]
fn facts_of_another_system_get_no_linux_plan() {
    let mut facts = Tree::ubuntu_24_04()
        .gpu("0000:17:00.0", "20b2", None)
        .run(&["facts", "--json"])
        .json();
    facts["os"]["id"] = "windows".into();
    facts["os"]["name"] = "Windows 11".into();
    let refused = run_with_input(&["plan", "--facts", "-"], &facts.to_string());
    insta::assert_snapshot!(refused.refused(4), @"error: gpusetup supports only Linux; Windows 11 is windows");
}

/// The facts of a host whose next kernel is this one.
fn with_kernel(host: &Tree, kernel: &str) -> Value {
    let mut facts = host.run(&["facts", "--json"]).json();
    facts["kernels"]["next_boot"] = kernel.into();
    facts["kernels"]["installed"][0]["release"] = kernel.into();
    facts
}

#[test]
fn a_kernel_that_a_driver_does_not_build_on_is_warned_of() {
    let rocky = Tree::rocky_9().gpu("0000:17:00.0", "20b2", Some("nouveau"));
    let warned = |facts: &Value, driver: &str| {
        let ask = [
            "plan",
            "--json",
            "--facts",
            "-",
            "--profile",
            "driver",
            "--driver",
            driver,
        ];
        let plan = run_with_input(&ask, &facts.to_string()).json();
        warnings(&plan, "GS103").join("\n")
    };
    let (old, new) = (
        "5.14.0-570.12.1.el9_6.x86_64",
        "5.14.0-687.12.1.el9_8.x86_64",
    );
    insta::assert_snapshot!(warned(&with_kernel(&rocky, new), "575"), @"kernel 5.14.0-687.12.1.el9_8.x86_64 boots next, but the modules of branch 575 do not build on el9 kernels 5.14.0-687 and newer without patches");
    assert_eq!(warned(&with_kernel(&rocky, old), "575"), "");
    // Debian patches its packages for its kernels, and had not yet done so in November 2026.
    let sid = Tree::debian_sid(16).gpu("0000:17:00.0", "20b2", Some("nouveau"));
    let mut facts = with_kernel(&sid, "7.2.13+deb14-amd64");
    let packages = [
        "nvidia-kernel-dkms",
        "libcuda1",
        "libnvidia-ml1",
        "nvidia-smi",
        "nvidia-modprobe",
    ];
    facts["offered"] = packages
        .into_iter()
        .map(|p| (p.to_owned(), Value::from("550.163.01-5.1")))
        .collect();
    insta::assert_snapshot!(warned(&facts, "550"), @"kernel 7.2.13+deb14-amd64 boots next, but the packages of branch 550 are patched only for kernels up to 7.0: its modules may not build without patches");
    facts["kernels"]["next_boot"] = "7.0.2+deb14-amd64".into();
    facts["kernels"]["installed"][0]["release"] = "7.0.2+deb14-amd64".into();
    assert_eq!(warned(&facts, "550"), "");
}

#[test]
fn kernel_modules_and_libcuda_of_two_versions_are_no_driver() {
    let sid = Tree::debian_sid(16).gpu("0000:17:00.0", "20b2", Some("nouveau"));
    let mut facts = with_kernel(&sid, "6.12.107+deb13-amd64");
    let packages = [
        "nvidia-open-kernel-dkms",
        "libcuda1",
        "libnvidia-ml1",
        "nvidia-smi",
        "nvidia-modprobe",
    ];
    facts["offered"] = packages
        .into_iter()
        .map(|p| (p.to_owned(), Value::from("550.163.01-4")))
        .collect();
    let ask = [
        "plan",
        "--json",
        "--facts",
        "-",
        "--profile",
        "driver",
        "--driver",
        "550",
        "--modules",
        "open",
    ];
    let plan = |facts: &Value| run_with_input(&ask, &facts.to_string()).json();
    assert_eq!(text(&plan(&facts), "/selection/driver/method"), "packages");
    facts["offered"]["libcuda1"] = "550.200.01-1".into();
    assert_eq!(text(&plan(&facts), "/selection/driver/method"), "runfile");
}

#[test]
fn packages_are_offered_by_the_suite_and_component_that_have_them() {
    let release = "PRETTY_NAME=\"Debian GNU/Linux 11 (bullseye)\"\nID=debian\nVERSION_ID=\"11\"\n";
    let host = Tree::new(release, "5.10.0-32-amd64", 10);
    host.write("usr/bin/apt-get", "");
    let ask = |gpu: &str| {
        host.run(&[
            "plan",
            "--json",
            "--gpu",
            gpu,
            "--profile",
            "driver",
            "--method",
            "packages",
        ])
    };
    let installs = |gpu: &str| ask(gpu).json()["steps"][2]["operations"][0]["install"][0].clone();
    let archive = "deb http://archive/debian bullseye main contrib non-free\n";
    host.write("etc/apt/sources.list", archive);
    assert_eq!(installs("t4"), "nvidia-tesla-470-kernel-dkms");
    // The security archive replaced 470 under the plain names, and a Kepler GPU needs 470.
    let security = "deb http://archive/debian-security bullseye-security main contrib non-free\n";
    host.write("etc/apt/sources.list", &(archive.to_owned() + security));
    assert_eq!(installs("t4"), "nvidia-kernel-dkms");
    assert_eq!(installs("k80"), "nvidia-tesla-470-kernel-dkms");

    let release = "PRETTY_NAME=\"Ubuntu 22.04.5 LTS\"\nID=ubuntu\nVERSION_ID=\"22.04\"\n";
    let host = Tree::new(release, "5.15.0-130-generic", 11);
    host.write("usr/bin/apt-get", "");
    let ask = |gpu: &str| {
        host.run(&[
            "plan",
            "--json",
            "--gpu",
            gpu,
            "--profile",
            "driver",
            "--method",
            "packages",
        ])
    };
    let branch = || text(&ask("t4").json(), "/selection/driver/branch").to_owned();
    host.write(
        "etc/apt/sources.list",
        "deb http://archive/ubuntu jammy main restricted universe\n",
    );
    assert_eq!(branch(), "580");
    host.write(
        "etc/apt/sources.list",
        "deb http://archive/ubuntu jammy main restricted universe multiverse\n",
    );
    assert_eq!(branch(), "595");
}

#[test]
fn a_desktop_keeps_what_draws_it() {
    let install = |host: &Tree| {
        let plan = host
            .run(&["plan", "--json", "--gpu", "rtx 4090", "--profile", "driver"])
            .json();
        plan["steps"][2]["operations"][0]["install"].clone()
    };
    let host = Tree::ubuntu_24_04();
    assert_eq!(
        install(&host),
        serde_json::json!(["nvidia-headless-595-open", "nvidia-utils-595"])
    );
    host.link(
        "etc/systemd/system/display-manager.service",
        "/usr/lib/systemd/system/gdm3.service",
    );
    assert_eq!(
        install(&host),
        serde_json::json!(["nvidia-driver-595-open"])
    );
}

#[test]
fn a_plan_needs_nothing_but_the_facts() {
    let host = Tree::ubuntu_24_04().gpu("0000:17:00.0", "20b2", Some("nouveau"));
    let facts = host.run(&["facts", "--json"]);
    assert_eq!(text(&facts.json(), "/gpus/0/bound_to"), "nouveau");
    let here = host.run(&["plan", "--json"]).json();
    let elsewhere = run_with_input(&["plan", "--json", "--facts", "-"], &facts.out).json();
    assert_eq!(here["steps"], elsewhere["steps"]);
    assert_eq!(here["fingerprint"], elsewhere["fingerprint"]);
    let other = run_with_input(
        &["plan", "--facts", "-"],
        &facts.out.replace("gpusetup.facts/1", "gpusetup.facts/2"),
    );
    assert_eq!(other.code, 2, "{}", other.err);
}

/// Where nothing can be said, the exit code is not that of a panic.
#[test]
fn a_full_standard_error_does_not_change_the_exit_code() {
    for (arguments, code) in [
        (&["plan", "--os", "debian-12", "--gpu", "v100,b200"][..], 4),
        (&["--bogus"][..], 2),
    ] {
        let full = std::fs::File::options()
            .write(true)
            .open("/dev/full")
            .expect("Linux");
        let status = common::program()
            .args(arguments)
            .stderr(full)
            .status()
            .expect("gpusetup runs");
        assert_eq!(status.code(), Some(code), "{arguments:?}");
    }
}

#[test]
fn what_to_do_next_is_for_the_tree_and_cannot_move_the_cursor() {
    let host = Tree::debian_12();
    let out = host.path().join("a\x1b[31mb.json");
    let ran = host.run(&[
        "plan",
        "--gpu",
        "h100",
        "--out",
        out.to_str().expect("a name"),
    ]);
    let next = ran.out.lines().last().expect("a line");
    let tree = format!("Next: sudo gpusetup apply --root {}", host.path().display());
    assert!(
        next.starts_with(&tree) && next.contains(".json") && !next.contains('\x1b'),
        "{next:?}"
    );
}

/// A group of machines is set up alike: those without a GPU are done, and whoever waits for them
/// hears so.
#[test]
fn a_host_without_a_gpu_is_done_where_that_is_accepted() {
    let host = Tree::debian_12();
    let plan = host.run(&["plan", "--if-no-gpu", "skip", "--json"]).json();
    assert_eq!(
        (&plan["schema"], &plan["steps"]),
        (&json!("gpusetup.plan/1"), &json!([]))
    );
    assert_eq!(host.run(&["apply", "--unattended"]).code, 9);
    let applied = host.run(&["apply", "--unattended", "--if-no-gpu", "skip", "--json"]);
    assert_eq!(applied.code, 0, "{}", applied.err);
    assert_eq!(applied.json()["state"], "done");
    insta::assert_snapshot!(applied.err, @"this host has no NVIDIA GPU: nothing to do (--if-no-gpu skip)");
    assert_eq!(
        host.run(&["status", "--wait", "--json"]).json()["state"],
        "done"
    );
}

#[test]
fn what_cannot_be_is_refused_with_its_code() {
    let host = Tree::debian_12();
    let two = ["plan", "--gpu", "v100", "--gpu", "b200"];
    for (arguments, code, says) in [
        (&["plan"][..], 9, "no NVIDIA GPU"),
        (&["plan", "--if-no-gpu", "skip"], 0, ""),
        (
            &["plan", "--gpu", "v100", "--cuda", "13.0"],
            4,
            "# fits: driver 580.",
        ),
        (
            &["plan", "--gpu", "b200", "--modules", "proprietary"],
            4,
            "NVIDIA B200 needs the open kernel modules, but the proprietary ones were requested (GS504)",
        ),
        // No driver has them for this GPU: that its last branch has none at all is not why.
        (
            &["plan", "--gpu", "tesla k80", "--modules", "open"],
            4,
            "Tesla K80 needs the proprietary kernel modules, but the open ones were requested (GS504)",
        ),
        // The GPU runs with them, and the branch never had them.
        (
            &[
                "plan",
                "--gpu",
                "rtx 3090",
                "--driver",
                "470",
                "--modules",
                "open",
            ],
            4,
            "driver 470.256.02 does not fit: it offers no open kernel modules here\n",
        ),
        (&two, 4, "--gpu v100  # "),
        (&["plan", "--gpu", "10de:ffff"], 4, "10de:ffff"),
        (
            &[
                "plan",
                "--gpu",
                "10de:ffff",
                "--modules",
                "open",
                "--driver",
                "595",
                "--cuda",
                "none",
            ],
            0,
            "",
        ),
        (
            &["plan", "--gpu", "titan"],
            2,
            "NVIDIA TITAN V (10de:1d81, compute capability 7.0, driver branch 580 at most)",
        ),
        (
            &["plan", "--gpu", "h100", "--cuda", "12..8"],
            2,
            "at character 4",
        ),
        (
            &["plan", "--gpu", "h100", "--driver", "580.y"],
            2,
            "at character 5",
        ),
        (
            &["plan", "--gpu", "h100", "--method", "packages"],
            4,
            "packages",
        ),
        (
            &["plan", "--gpu", "h100", "--database", "/nonexistent"],
            10,
            "/nonexistent",
        ),
        (
            &["plan", "--gpu", "h100", "--leave-out", "0000:01:00.0"],
            2,
            "0000:01:00.0",
        ),
        (
            &["plan", "--gpu", "h100", "--components", "cublass"],
            2,
            "similar: cublas",
        ),
        (
            &[
                "plan",
                "--gpu",
                "h100",
                "--components",
                "nvcc",
                "--cuda",
                "none",
            ],
            2,
            "--components needs a CUDA toolkit",
        ),
        (
            &[
                "plan",
                "--gpu",
                "h100",
                "--components",
                "nvcc,cuda_nvcc,nvprof",
                "--cuda",
                "13",
            ],
            4,
            "it has no nvprof for x86_64",
        ),
        (
            &[
                "plan",
                "--gpu",
                "h100",
                "--components",
                "nvcc",
                "--cuda",
                "11.8",
            ],
            4,
            "no component archives of it are known for x86_64",
        ),
    ] {
        let ran = host.run(arguments);
        assert_eq!(ran.code, code, "{arguments:?}: {}{}", ran.out, ran.err);
        assert!(
            ran.err.contains(says),
            "{arguments:?} should say {says:?}: {}",
            ran.err
        );
    }
    let empty = tempfile::tempdir().expect("a temporary directory");
    let ran = run(&["facts", "--root", &empty.path().display().to_string()]);
    let path = empty.path().display().to_string();
    insta::assert_snapshot!(ran.refusal(2).replace(&path, "TREE"), @"
    error: TREE is not a Linux host: it has no etc/os-release
    hint: --root DIR names the root directory of a host, with an image or a disk mounted there
    try: gpusetup explain option root
    ");
}

#[test]
fn a_size_that_is_not_known_is_null_and_never_zero() {
    let host = Tree::debian_12();
    // Nobody published how large the runfile of CUDA 11.7.1 is.
    let ask = [
        "plan",
        "--gpu",
        "a100",
        "--profile",
        "toolkit",
        "--cuda",
        "11.7.1",
        "--cudnn",
    ];
    let plan = |cudnn: &'static str| {
        let plan = host.run(&[&ask[..], &[cudnn, "--json"]].concat()).json();
        assert_eq!(schema::mistakes("plan.json", &plan), [""; 0]);
        plan
    };
    let nothing_known = plan("none");
    let step = nothing_known["steps"]
        .as_array()
        .expect("steps")
        .iter()
        .find(|s| s["id"] == "install-cuda");
    let step = step.expect("a step");
    assert!(
        step["download_bytes"].is_null() && step["disk_bytes"].is_null(),
        "{step:#}"
    );
    let totals = &nothing_known["totals"];
    assert!(
        totals["download_bytes"].is_null() && totals["at_least"] == true,
        "{totals:#}"
    );
    let totals = &plan("8.5")["totals"];
    assert!(
        totals["download_bytes"].as_u64() > Some(500_000_000) && totals["at_least"] == true,
        "{totals:#}"
    );

    let text = host
        .run(&[&ask[..], &["8.5"]].concat())
        .out
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    assert!(
        text.contains("[size not known]") && text.contains("Download at least "),
        "{text}"
    );
    assert!(text.contains("cuda_11.7.1_515.65.01_linux.run"), "{text}");
    let text = host
        .run(&[&ask[..], &["none"]].concat())
        .out
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    assert!(
        text.contains("Download of unknown size, disk of unknown size."),
        "{text}"
    );
}

#[test]
fn a_driver_between_two_lists_is_taken_when_it_is_named() {
    // The list of 470 lacks the RTX 4090 and that of 535 has it; its architecture began with 520.
    let host = Tree::ubuntu_24_04();
    let with =
        |driver: &str| host.run(&["plan", "--json", "--gpu", "rtx 4090", "--driver", driver]);
    assert_eq!(text(&with("525").json(), "/selection/driver/branch"), "525");
    let refused = with("515");
    insta::assert_snapshot!(host.typed_in_it(refused.refusal(4)), @"
    error: driver 515.105.01 does not fit: NVIDIA GeForce RTX 4090 needs branch 520 or newer (GS503)
    because: branch 520 is the first that supports NVIDIA GeForce RTX 4090 (supported-gpus.json of driver 615.71.09; Table of GPUs in the README of NVIDIA's open kernel modules 595.45.04; 4 more)
    because: driver 515.105.01 belongs to branch 515 (endoflife.date on NVIDIA drivers; Azure Kubernetes Service's GPU images; 3 more)
    try: gpusetup plan --gpu 'rtx 4090'  # fits: driver 595.99.02 (open modules) + CUDA 13.2.1 + cuDNN 9.28.0.42
    ");
}

#[test]
fn a_branch_is_taken_that_learned_of_the_card_later() {
    // 570.148.08 is the first release of its branch that lists the RTX 5060 Ti.
    let host = Tree::ubuntu_24_04();
    for (gpu, driver) in [
        ("rtx 5060 ti", "570"),
        ("rtx 5060", "570"),
        ("rtx pro 4500 blackwell", "570"),
        ("l4", "525"),
    ] {
        let plan = host
            .run(&["plan", "--json", "--gpu", gpu, "--driver", driver])
            .json();
        assert_eq!(text(&plan, "/selection/driver/branch"), driver, "{gpu}");
    }
    let early = host.run(&["plan", "--gpu", "rtx 5060 ti", "--driver", "565"]);
    insta::assert_snapshot!(host.typed_in_it(early.refusal(4)), @"
    error: driver 565.77 does not fit: NVIDIA GeForce RTX 5060 Ti needs branch 570 or newer (GS503)
    because: branch 570 is the first that supports NVIDIA GeForce RTX 5060 Ti (supported-gpus.json of driver 615.71.09; Table of GPUs in the README of NVIDIA's open kernel modules 595.45.04; 2 more)
    because: driver 565.77 belongs to branch 565 (endoflife.date on NVIDIA drivers; Azure Kubernetes Service's GPU images; 3 more)
    try: gpusetup plan --gpu 'rtx 5060 ti'  # fits: driver 595.99.02 (open modules) + CUDA 13.2.1 + cuDNN 9.28.0.42
    ");
}

#[test]
fn a_gpu_that_no_driver_lists_is_warned_about() {
    let warns = |gpu: &str| {
        let ran = Tree::ubuntu_24_04().run(&["plan", "--gpu", gpu, "--profile", "driver"]);
        assert_eq!(ran.code, 0, "{gpu}: {}", ran.err);
        ran.out
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ")
            .contains("GS503: no NVIDIA driver lists")
    };
    // Named by the PCI ID Repository alone.
    assert!(warns("10de:31fe"));
    assert!(!warns("10de:2b85") && !warns("sm_103") && !warns("v100"));
}

#[test]
fn one_rule_picks_the_toolkit() {
    let cuda = |facts: &Value, wish: &[&str]| {
        let arguments = [&["plan", "--json", "--facts", "-"][..], wish].concat();
        let plan = run_with_input(&arguments, &facts.to_string()).json();
        let reasons = plan["reasons"].as_array().expect("reasons");
        let reason = reasons
            .iter()
            .find(|r| r["subject"] == "cuda")
            .expect("one of the toolkit");
        (
            text(&plan, "/selection/cuda/version").to_owned(),
            text(reason, "/rule").to_owned(),
            text(reason, "/text").to_owned(),
        )
    };
    let wishes: [&[&str]; 4] = [
        &[],
        &["--cuda", "latest"],
        &["--cuda", "13"],
        &["--cuda", ">=12.4"],
    ];

    // Native to the driver's branch, although a newer release fits.
    let host = Tree::ubuntu_24_04().gpu("0000:17:00.0", "20b2", None);
    let mut facts = host.run(&["facts", "--json"]).json();
    for wish in wishes {
        let (version, rule, _) = cuda(&facts, wish);
        assert_eq!(
            (version.as_str(), rule.as_str()),
            ("13.2.1", "cuda-native-driver"),
            "{wish:?}"
        );
    }
    let (version, _, why) = cuda(&facts, &["--cuda", "13.3"]);
    assert!(
        version == "13.3.0"
            && why.contains("minor-version compatibility (driver 580.65.06 or newer)"),
        "{why}"
    );

    // Where nothing native fits, minor-version compatibility is better than another driver.
    facts["driver"] =
        json!({"version": "525.147.05", "origin": "runfile", "modules": "open", "evidence": "x"});
    for wish in [
        &["--cuda", ">=12.1, <13"][..],
        &["--for", "jax==0.4.30", "--profile", "compute"],
    ] {
        let (version, _, why) = cuda(&facts, wish);
        assert!(
            version == "12.9.1" && why.contains("driver branch 525"),
            "{wish:?}: {version} {why}"
        );
    }

    // Something installed that fits is kept, unless the newest is asked for.
    facts["driver"] = Value::Null;
    facts["toolkits"] = json!([{"version": "12.6.3", "path": "/usr/local/cuda-12.6", "origin": "runfile", "has_nvcc": true}]);
    for (wish, expected) in wishes.iter().zip(["12.6.3", "13.2.1", "13.2.1", "12.6.3"]) {
        assert_eq!(cuda(&facts, wish).0, expected, "{wish:?}");
    }
}

#[test]
fn a_cudnn_of_two_lines_is_told_by_the_newer_one() {
    let host = Tree::ubuntu_24_04();
    let ask = |cuda: &str| {
        host.run(&[
            "plan",
            "--json",
            "--gpu",
            "v100",
            "--cuda",
            cuda,
            "--cudnn",
            "8.1.0",
            "--profile",
            "toolkit",
        ])
    };
    assert_eq!(
        text(&ask("11.2").json(), "/selection/cudnn/version"),
        "8.1.0.77"
    );
    let refused = ask("12.4");
    insta::assert_snapshot!(host.typed_in_it(refused.refusal(4)), @"
    error: cuDNN 8.1.0.77 does not fit: it is built for CUDA 11.2, not for 12.4
    because: cuDNN 8.1.0.77 is not built for CUDA 12.4 (cuDNN support matrix, 8.2.2 and earlier; Nixpkgs)
    try: gpusetup plan --gpu v100 --profile toolkit --cuda 12.4 --cudnn 8  # fits: CUDA 12.4.1 + cuDNN 8.9.7.29
    ");
}

#[test]
fn non_free_packages_are_taken_when_asked_for_and_enabled() {
    let host = Tree::debian_12().gpu("0000:17:00.0", "20b2", Some("nouveau"));
    let ask = [
        "plan", "--json", "--driver", "535", "--method", "packages", "--cuda", "12.4",
    ];
    // non-free-firmware is another component.
    assert_eq!(host.run(&ask).code, 4);
    host.write(
        "etc/apt/sources.list",
        "deb http://archive/debian bookworm main contrib non-free non-free-firmware\n",
    );
    let plan = host.run(&ask).json();
    assert_eq!(text(&plan, "/selection/driver/branch"), "535");
    assert_eq!(text(&plan, "/selection/cuda/version"), "12.4.1");
    let install = &plan["steps"][2]["operations"][0]["install"];
    assert!(
        install
            .as_array()
            .expect("packages")
            .iter()
            .any(|p| p == "nvidia-open-kernel-dkms" || p == "nvidia-kernel-dkms")
    );
    let warned = plan["warnings"]
        .as_array()
        .expect("warnings")
        .iter()
        .any(|w| w["check"] == "GS510");
    assert!(
        warned,
        "branch 535 is past its end of life: {}",
        plan["warnings"]
    );
}

#[test]
fn a_driver_too_old_for_a_toolkit_has_a_way_around_on_data_center_cards() {
    let refused = |gpu: &str| run(&["plan", "--gpu", gpu, "--driver", "535", "--cuda", "13.0"]);
    insta::assert_snapshot!(refused("10de:2330").refusal(4), @"
    error: CUDA 13.0.3 does not fit: it needs driver 580.65.06 or newer, not 535.309.01 (GS707)
    because: CUDA 13.0.3 needs driver 580.65.06 or newer (NVIDIA's download page for CUDA; A public Nix flake that pins CUDA runfiles; 9 more)
    because: driver 535.309.01 is the newest requested driver that fits (the request)
    hint: programs of CUDA 13.0 also run on driver branch 535 with NVIDIA's package cuda-compat-13-0, which gpusetup does not install
    try: gpusetup plan --gpu 10de:2330 --driver 535 --cuda 12.2.2  # fits: driver 535.309.01 (proprietary modules) + CUDA 12.2.2 + cuDNN 9.28.0.42
    ");
    insta::assert_snapshot!(refused("10de:2684").refusal(4), @"
    error: CUDA 13.0.3 does not fit: it needs driver 580.65.06 or newer, not 535.309.01 (GS707)
    because: CUDA 13.0.3 needs driver 580.65.06 or newer (NVIDIA's download page for CUDA; A public Nix flake that pins CUDA runfiles; 9 more)
    because: driver 535.309.01 is the newest requested driver that fits (the request)
    try: gpusetup plan --gpu 10de:2684 --driver 535 --cuda 12.2.2  # fits: driver 535.309.01 (proprietary modules) + CUDA 12.2.2 + cuDNN 9.28.0.42
    ");
}

#[test]
fn what_would_break_a_host_is_refused_before_anything_is_done() {
    let host =
        Tree::ubuntu_24_04()
            .gpu("0000:17:00.0", "20b2", None)
            .gpu("0000:65:00.0", "20b2", None);
    let facts = host.run(&["facts", "--json"]).json();
    let planned = |path: &str, value: Value, more: &[&str]| {
        let mut facts = facts.clone();
        *facts
            .pointer_mut(path)
            .unwrap_or_else(|| panic!("no {path}")) = value;
        run_with_input(
            &[&["plan", "--facts", "-", "--json"], more].concat(),
            &facts.to_string(),
        )
    };
    let key =
        |enrolled: bool| serde_json::json!({"path": "/var/lib/dkms/mok.pub", "enrolled": enrolled});
    for (path, value, check) in [
        ("/secure_boot", Value::from("enabled"), "GS301"),
        ("/gpus/1/bound_to", "vfio-pci".into(), "GS203"),
        ("/machine/kind", "wsl2".into(), "GS906"),
        ("/machine/kind", "jetson".into(), "GS907"),
        ("/os/immutable", true.into(), "GS908"),
    ] {
        let refused = planned(path, value.clone(), &["--profile", "compute"]);
        assert_eq!(refused.code, 5, "{path}: {}", refused.err);
        assert!(
            refused.err.contains(check)
                && (refused.err.contains("hint: ") || refused.err.contains("try: ")),
            "{path}: {}",
            refused.err
        );
        // What explain says of the id is what was said here.
        let id = check.parse().expect("an id");
        let mut causes = causes::all(gpusetup_data::causes()).into_iter();
        let Cause { means, remedy, .. } = causes.find(|c| c.id == id).expect("it is known");
        let remedy = remedy.expect("something helps").text;
        // What follows is for boards that this is none of.
        let words = remedy.split("; ").next().unwrap_or_default();
        // The database does not know this image-based system, so it knows no tools of it.
        let sentence = if check == "GS908" {
            "no way to a driver is known for this system"
        } else {
            words
        };
        assert!(
            refused.err.contains(sentence),
            "{check}: {sentence}: {}",
            refused.err
        );
        assert!(
            ["GS203", "GS301"].contains(&check) || refused.err.contains(&means),
            "{check}: {}",
            refused.err
        );
        let explained = run(&["explain", check])
            .out
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ");
        assert!(
            explained.contains(&means) && explained.contains(words),
            "{check}: {explained}"
        );
        let toolkit = planned(path, value, &["--profile", "toolkit"]);
        // An image takes no toolkit either.
        let code = if check == "GS908" { 5 } else { 0 };
        assert_eq!(toolkit.code, code, "{path}: {}", toolkit.err);
    }
    assert_eq!(
        planned(
            "/gpus/1/bound_to",
            "vfio-pci".into(),
            &["--leave-out", "0000:65:00.0"]
        )
        .code,
        0
    );
    // As lspci prints it.
    assert_eq!(
        planned(
            "/gpus/1/bound_to",
            "vfio-pci".into(),
            &["--leave-out", "65:00.0"]
        )
        .code,
        0
    );
    let mut secure = facts.clone();
    secure["secure_boot"] = "enabled".into();
    for (enrolled, code) in [(false, 5), (true, 0)] {
        secure["signing_key"] = key(enrolled);
        let ran = run_with_input(&["plan", "--facts", "-"], &secure.to_string());
        assert_eq!(ran.code, code, "{}", ran.err);
    }
    // The firmware's own words: shim can enrol a key, or nothing can.
    let trusted = serde_json::json!([{"name": "Debian Secure Boot CA", "sha256": "0".repeat(64), "list": "shim"}]);
    let with = |shim: bool, os: (&str, &str), keys: Value, more: &[&str]| {
        let mut facts = secure.clone();
        facts["signing_key"] = Value::Null;
        facts["signing_keys"] = keys;
        facts["firmware"] = serde_json::json!({"shim": shim, "trusted": trusted, "requested": []});
        (facts["os"]["id"], facts["os"]["version"]) = (os.0.into(), os.1.into());
        run_with_input(
            &[&["plan", "--facts", "-", "--profile", "driver"], more].concat(),
            &facts.to_string(),
        )
    };
    let (debian, ubuntu) = (("debian", "13"), ("ubuntu", "24.04"));
    let none = || Value::Array(Vec::new());
    let refused = with(false, debian, none(), &[]);
    insta::assert_snapshot!(refused.refusal(5), @"
    error: Secure Boot is on, and the host was started without shim, so its keys cannot be enrolled with mokutil (GS301)
    hint: add the certificate of your key to db in the firmware's setup (or to the image, in a cloud), or turn Secure Boot off there
    ");
    let refused = with(true, ("debian", "11"), none(), &[]);
    // No DKMS of its signs.
    insta::assert_snapshot!(refused.refused(5), @"error: Secure Boot is on and there is no key for signing modules: the driver's modules would not load (GS301)");
    let mut said = Vec::new();
    for (os, certificate) in [
        (debian, "/var/lib/dkms/mok.pub"),
        (ubuntu, "/var/lib/shim-signed/mok/MOK.der"),
    ] {
        let plan = with(true, os, none(), &["--json"]).json();
        let steps = plan["steps"].as_array().expect("steps");
        let at = |id: &str| {
            steps
                .iter()
                .position(|step| step["id"] == id)
                .unwrap_or_else(|| panic!("no {id}: {plan:#}"))
        };
        let (sign, reboot, install) = (at("sign-modules"), at("reboot"), at("install-driver"));
        assert!(sign + 1 == reboot && reboot < install, "{steps:#?}");
        let operations: Vec<_> = steps[sign]["operations"]
            .as_array()
            .expect("some")
            .iter()
            .map(|o| o["op"].as_str().expect("a name"))
            .collect();
        assert_eq!(operations, ["packages", "enroll-key"]);
        let enroll = &steps[sign]["operations"][1];
        assert!(
            enroll["certificate"] == certificate && enroll["makes"].is_string(),
            "{enroll}"
        );
        assert_eq!(steps[reboot]["operations"][0]["enrolls"], certificate);
        said.extend(warnings(&plan, "GS301"));
        // A key that is there is not made again, one that waits needs no second password, an
        // enrolled one needs no step.
        let key = |enrolled: bool, requested: bool| serde_json::json!([{"path": certificate, "enrolled": enrolled, "requested": requested}]);
        let found = with(true, os, key(false, false), &["--json"]).json();
        assert_eq!(found["steps"][sign]["operations"][1]["makes"], Value::Null);
        let waits = with(true, os, key(false, true), &["--json"]).json();
        assert_eq!(waits["steps"][sign]["operations"][1]["satisfied"], true);
        let enrolled = with(true, os, key(true, false), &["--json"]).json();
        assert!(
            !enrolled["steps"].to_string().contains("sign-modules"),
            "{enrolled:#}"
        );
    }
    insta::assert_snapshot!(said.join("\n"), @"
    Secure Boot is on, and the key /var/lib/dkms/mok.pub is not enrolled: apply prepares that, shows a one-time password, and needs someone at the console during a reboot. Unattended, it stops before any change
    Secure Boot is on, and the key /var/lib/shim-signed/mok/MOK.der is not enrolled: apply prepares that, shows a one-time password, and needs someone at the console during a reboot. Unattended, it stops before any change. Ubuntu 24.04 LTS may have signed modules for kernel 6.8.0-64-generic, which need no key: fetch the package lists (sudo apt-get update), then plan again
    ");
    let runfile = with(true, debian, none(), &["--method", "runfile", "--json"])
        .json()
        .to_string();
    assert!(
        runfile.contains("--module-signing-secret-key=/var/lib/dkms/mok.key"),
        "{runfile}"
    );
    // Two drivers over each other are no driver that fits, whatever doctor is asked.
    let driver = serde_json::json!({"version": "580.159.04", "origin": "dpkg", "modules": "open",
        "evidence": "package nvidia-dkms-580-open 580.159.04", "alternative": false});
    let by_runfile = serde_json::json!({"version": "580.159.04", "origin": "runfile", "modules": null,
        "evidence": "/var/lib/nvidia/log", "alternative": false});
    let left_over = serde_json::json!({"version": "535.104.05", "origin": "unknown", "modules": null,
        "evidence": "/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.535.104.05", "alternative": false});
    let mut over_each_other = Vec::new();
    for other in [by_runfile, left_over] {
        let mut mixed = facts.clone();
        mixed["driver"] = driver.clone();
        mixed["other_drivers"] = serde_json::json!([other]);
        let refused = run_with_input(
            &["plan", "--facts", "-", "--profile", "driver"],
            &mixed.to_string(),
        );
        over_each_other.push(refused.refusal(5).to_owned());
        let toolkit = run_with_input(
            &["plan", "--facts", "-", "--profile", "toolkit"],
            &mixed.to_string(),
        );
        assert_eq!(toolkit.code, 0, "{}", toolkit.err);
    }
    insta::assert_snapshot!(over_each_other.concat(), @"
    error: two drivers are installed over each other: 580.159.04 and 580.159.04 (GS401)
    hint: remove the driver that the runfile installed: sudo nvidia-uninstall --silent
    error: two drivers are installed over each other: 580.159.04 and 535.104.05 (GS401)
    hint: see which package a file belongs to, and remove the package or the file that is left over: sudo dpkg -S /usr/lib/x86_64-linux-gnu/libnvidia-ml.so.535.104.05
    ");
    // Not a refusal, but the first thing that is done, and nothing is "already installed" before.
    let mut cut_off = facts.clone();
    cut_off["driver"] = driver;
    cut_off["unfinished_packages"] = serde_json::json!(["man-db"]);
    let plan = run_with_input(
        &["plan", "--facts", "-", "--profile", "driver", "--json"],
        &cut_off.to_string(),
    )
    .json();
    assert_eq!(text(&plan, "/steps/0/state"), "needed");
    assert_eq!(text(&plan, "/steps/0/operations/0/argv/0"), "dpkg");
    let plan = planned("/unfinished_packages", serde_json::json!(["man-db"]), &[]).json();
    assert!(text(&plan, "/steps/0/why").contains("man-db"), "{plan:#}");
    assert_eq!(text(&plan, "/steps/0/operations/0/argv/0"), "dpkg");
}

#[test]
fn a_kernel_newer_than_the_branch_was_seen_to_build_on_is_told() {
    let host = Tree::debian_12().gpu("0000:17:00.0", "102d", None);
    let mut facts = host.run(&["facts", "--json"]).json();
    let mut warned = |kernel: &str| {
        facts["kernels"]["next_boot"] = kernel.into();
        let ask = [
            "plan", "--facts", "-", "--json", "--method", "runfile", "--cuda", "11.4",
        ];
        let plan = run_with_input(&ask, &facts.to_string()).json();
        let warning = plan["warnings"]
            .as_array()
            .expect("warnings")
            .iter()
            .any(|w| w["check"] == "GS103");
        (text(&plan, "/selection/driver/branch").to_owned(), warning)
    };
    assert_eq!(warned("6.1.0-26-amd64"), ("470".to_owned(), false));
    assert_eq!(warned("6.12.1-amd64"), ("470".to_owned(), true));
}

#[test]
fn a_driver_that_may_not_build_is_said_before_the_steps() {
    let ran = run(&[
        "plan",
        "--os",
        "ubuntu-24.04",
        "--gpu",
        "gtx 480",
        "--profile",
        "driver",
    ]);
    let (warning, steps) = (ran.out.find("! GS103:"), ran.out.find("\nSteps\n"));
    assert!(warning.is_some() && warning < steps, "{}", ran.out);
    assert_eq!(ran.out.matches("GS103").count(), 1, "{}", ran.out);
}

#[test]
fn a_request_for_nothing_or_for_two_releases_of_one_framework_is_none() {
    let refused = [
        &["--driver", "none", "--cuda", "none"],
        &["--for", "torch==2.9", "--for", "torch==2.4"],
    ]
    .map(|arguments| {
        let base = &["plan", "--os", "ubuntu-24.04", "--gpu", "h100"];
        run(&[&base[..], arguments].concat()).refusal(2).to_owned()
    });
    insta::assert_snapshot!(refused.concat(), @"
    error: nothing was requested: the driver and the toolkit are both left out
    try: gpusetup plan --os ubuntu-24.04 --gpu h100 --profile driver  # with a driver
    try: gpusetup plan --os ubuntu-24.04 --gpu h100 --profile toolkit  # with a toolkit
    error: --for names torch more than once (torch==2.9, torch==2.4); one environment has one release
    hint: plan for each environment separately
    ");
}

#[test]
fn a_requested_toolkit_is_the_one_that_compiles() {
    let asked = [
        "plan",
        "--os",
        "ubuntu-24.04",
        "--gpu",
        "h100",
        "--for",
        "torch==2.9",
        "--cuda",
        "13.2",
        "--json",
    ];
    let plan = run(&asked).json();
    assert_eq!(
        text(&plan, "/selection/cuda/version")
            .rsplit_once('.')
            .map(|(series, _)| series),
        Some("13.2")
    );
    assert_eq!(text(&plan, "/python/0/extensions/nvcc"), "13.2");
    let reason = |plan: &Value, subject: &str| {
        let all = plan["reasons"].as_array().expect("reasons").iter();
        all.filter(|r| r["subject"] == subject)
            .filter_map(|r| r["text"].as_str())
            .collect::<Vec<_>>()
            .join("; ")
    };
    assert!(
        reason(&plan, "cuda").starts_with("the newest 13.2 for torch==2.9"),
        "{}",
        reason(&plan, "cuda")
    );
    let exact = [
        "plan",
        "--os",
        "ubuntu-24.04",
        "--gpu",
        "h100",
        "--cuda",
        "12.9.1",
        "--cudnn",
        "9.10.2.21",
        "--json",
    ];
    let plan = run(&exact).json();
    for (subject, start) in [
        ("cuda", "12.9.1 was requested"),
        ("cudnn", "9.10.2.21 was requested"),
    ] {
        assert!(
            reason(&plan, subject).starts_with(start),
            "{}",
            reason(&plan, subject)
        );
    }
}

#[test]
fn a_kernel_is_too_new_for_an_older_release_and_in_a_container() {
    let host = Tree::debian_12().gpu("0000:17:00.0", "20b0", None);
    let facts = |device: &str, kernels: Value| {
        let mut facts = host.run(&["facts", "--json"]).json();
        facts["kernels"] = kernels;
        facts["gpus"][0]["pci_id"] = format!("10de:{device}").into();
        facts["gpus"][0]["name"] = Value::Null;
        facts
    };
    let warnings_for = |facts: &Value, ask: &[&str]| {
        let plan = run_with_input(
            &[&["plan", "--facts", "-", "--json"], ask].concat(),
            &facts.to_string(),
        )
        .json();
        let all = plan["warnings"].as_array().expect("warnings").clone();
        let warning = all
            .iter()
            .find(|w| w["check"] == "GS103")
            .map(|w| text(w, "/text").to_owned());
        warning.unwrap_or_default()
    };
    let newer = facts(
        "20b0",
        serde_json::json!({"running": null, "next_boot": "7.2.0-1-amd64", "installed": []}),
    );
    let by_runfile = |driver: &str, modules: &str| {
        warnings_for(
            &newer,
            &[
                "--method",
                "runfile",
                "--driver",
                driver,
                "--modules",
                modules,
                "--profile",
                "driver",
            ],
        )
    };
    insta::assert_snapshot!(by_runfile("595.71.05", "open"), @"kernel 7.2.0-1-amd64 boots next, but the open modules of 595.71.05 do not build on kernel 7.2 and newer");
    assert_eq!(
        by_runfile("595.99.02", "open"),
        by_runfile("595.71.05", "proprietary"),
        "the last release, the other flavour"
    );
    let mut container = facts(
        "102d",
        serde_json::json!({"running": "6.18.0-cloud", "next_boot": null, "installed": []}),
    );
    container["machine"]["kind"] = "container".into();
    let warning = warnings_for(
        &container,
        &[
            "--profile",
            "compute",
            "--method",
            "runfile",
            "--cuda",
            "11.4",
        ],
    );
    insta::assert_snapshot!(warning, @"kernel 6.18.0-cloud runs, but branch 470 is known to build only up to kernel 6.9: its modules may not build without patches");
}

#[test]
fn a_toolkit_whose_release_is_unknown_is_called_by_its_series() {
    let host = Tree::debian_12().gpu("0000:17:00.0", "20b0", None).gxx(10);
    host.write("usr/local/cuda-11.2/bin/nvcc", "#!/bin/sh\n");
    let plan = |json: &str| {
        host.write("usr/local/cuda-11.2/version.json", json);
        let file = host.path().join("usr/local/cuda-11.2/bin/nvcc");
        std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .expect("set");
        let plan = host
            .run(&["plan", "--cuda", "11.2", "--profile", "toolkit", "--json"])
            .json();
        let reasons = plan["reasons"].as_array().expect("reasons").clone();
        let reason = reasons
            .iter()
            .find(|r| r["subject"] == "cuda")
            .map(|r| text(r, "/text").to_owned());
        (
            text(&plan, "/selection/cuda/version").to_owned(),
            reason.expect("a reason"),
        )
    };
    let (version, reason) = plan(r#"{"cuda": {"version": "11.2.20210728"}}"#);
    assert_eq!(version, "11.2");
    insta::assert_snapshot!(reason, @"the installed CUDA 11.2 fits; its files do not name the exact release");
    let (version, reason) =
        plan(r#"{"cuda": {"version": "11.2.20210728"}, "cuda_nvcc": {"version": "11.2.67"}}"#);
    assert_eq!(
        (version.as_str(), reason.as_str()),
        ("11.2.0", "CUDA 11.2.0 is installed and fits")
    );
}

#[test]
fn what_the_package_manager_says_comes_before_what_the_database_says() {
    let host = Tree::debian_12().gpu("0000:17:00.0", "20b2", Some("nouveau"));
    let mut facts = host.run(&["facts", "--json"]).json();
    let mut driver = |offered: Value| {
        facts["offered"] = offered;
        let ask = [
            "plan", "--facts", "-", "--json", "--driver", "535", "--cuda", "12.4",
        ];
        let plan = run_with_input(&ask, &facts.to_string()).json();
        let by = plan["reasons"]
            .as_array()
            .expect("reasons")
            .iter()
            .any(|r| text(r, "/text").contains("package manager"));
        let driver = &plan["selection"]["driver"];
        (
            text(driver, "/method").to_owned(),
            text(driver, "/version").to_owned(),
            by,
        )
    };
    // A mirror that no database knows, and a version that came since.
    let mut all = serde_json::json!({"nvidia-kernel-dkms": "535.400.02-1~deb12u1", "libcuda1": "535.400.02-1~deb12u1",
        "libnvidia-ml1": "1", "nvidia-smi": "1", "nvidia-modprobe": "535.161.07-1~deb12u1"});
    assert_eq!(
        driver(all.clone()),
        ("packages".to_owned(), "535.400.02".to_owned(), true)
    );
    all.as_object_mut().expect("an object").remove("libcuda1");
    let (method, ..) = driver(all);
    assert_eq!(method, "runfile", "an offer without libcuda is none");
    assert_eq!(driver(serde_json::json!({})).0, "runfile");
}

#[test]
fn the_script_is_one_that_shellcheck_passes() {
    let host = Tree::ubuntu_24_04().gpu("0000:17:00.0", "2330", Some("nouveau"));
    let ran = host.run(&["plan", "--format", "sh"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let script = host.path().join("plan.sh");
    std::fs::write(&script, &ran.out).expect("written");
    let checked = std::process::Command::new("shellcheck")
        .arg(&script)
        .output()
        .expect("tests/run installs shellcheck");
    assert!(
        checked.status.success(),
        "{}\n{}",
        String::from_utf8_lossy(&checked.stdout),
        ran.out
    );
}

#[test]
fn the_exit_code_tells_of_pending_changes_only_when_asked() {
    let host = Tree::ubuntu_24_04().gpu("0000:17:00.0", "2330", None);
    assert_eq!(host.run(&["plan"]).code, 0);
    assert_eq!(host.run(&["plan", "--exit-code"]).code, 3);
}

#[test]
fn a_plan_as_text_fits_a_narrow_terminal_and_has_no_colours_without_one() {
    let host = Tree::ubuntu_24_04().gpu("0000:17:00.0", "2330", Some("nouveau"));
    let ran = host.run(&["plan"]);
    assert!(!ran.out.contains('\x1b'));
    // Only a word that cannot be broken, an address or a path, may be wider.
    for line in ran.out.lines().filter(|l| l.chars().count() > 80) {
        assert_eq!(line.split_whitespace().count(), 1, "{line}");
    }
    assert!(
        host.run(&["plan", "--color", "always"])
            .out
            .contains('\x1b')
    );
}

#[test]
fn a_name_means_the_gpu_that_drivers_listed_first() {
    let host = Tree::ubuntu_24_04();
    // The later ones, on larger chips, are in the lists from 550 on.
    for (name, id) in [
        ("rtx 4060", "10de:2882"),
        ("rtx 4060 ti", "10de:2803"),
        ("rtx 4070", "10de:2786"),
    ] {
        let ran = host.run(&[
            "plan", "--json", "--gpu", name, "--driver", "535", "--method", "runfile",
        ]);
        assert_eq!(ran.json()["host"]["gpus"][0]["pci_id"], id, "{name}");
    }
    let doubtful = host.run(&[
        "plan",
        "--json",
        "--gpu",
        "a10",
        "--driver",
        "455",
        "--method",
        "runfile",
        "--profile",
        "driver",
    ]);
    insta::assert_snapshot!(warnings(&doubtful.json(), "GS503").join("\n"), @"whether driver 455.45.01 supports NVIDIA A10 is not known: branch 470 is the first that is known to list it");
}

#[test]
fn the_next_command_takes_everything_from_where_the_plan_does() {
    let mirrors = [
        "--mirror",
        "http://me:hunter2@one.example/n",
        "--mirrors",
        "https://a.example/x=http://b.example/y",
    ];
    let others = ["--offline", "--max-database-age", "5000"];
    let ran = run(&[
        &[
            "plan",
            "--os",
            "rocky-9",
            "--gpu",
            "h100",
            "--profile",
            "driver",
        ][..],
        &mirrors,
        &others,
    ]
    .concat());
    let next = ran.out.lines().last().expect("a line");
    let wanted = "Next: sudo gpusetup apply --mirror http://one.example/n --mirrors https://a.example/x=http://b.example/y \
                  --offline --max-database-age 5000 --profile driver  # on that host; with the mirror's login";
    assert_eq!(next, wanted);
}

#[test]
fn what_runs_pods_with_its_own_containerd_is_named() {
    let [k0s, microk8s] = [Tree::ubuntu_24_04(), Tree::ubuntu_24_04()];
    k0s.write("usr/local/bin/k0s", "");
    microk8s.write("snap/microk8s/7180/meta/snap.yaml", "name: microk8s\n");
    microk8s.link("snap/microk8s/current", "7180");
    for (tree, title, instead) in [
        (
            k0s,
            "k0s",
            "https://docs.k0sproject.io/stable/runtime/#using-nvidia-container-runtime",
        ),
        (microk8s, "MicroK8s", "run `sudo microk8s enable nvidia`"),
    ] {
        let plan = tree
            .run(&[
                "plan",
                "--gpu",
                "a100",
                "--profile",
                "container-host",
                "--json",
            ])
            .json();
        let warnings = plan["warnings"]
            .as_array()
            .expect("warnings")
            .iter()
            .filter(|w| w["check"] == "GS803");
        let texts: Vec<_> = warnings
            .map(|w| tree.typed_in_it(w["text"].as_str().expect("a text")))
            .collect();
        let says =
            format!("{title} runs pods with its own containerd, which gpusetup does not set up. ");
        assert!(
            texts
                .iter()
                .any(|text| text.starts_with(&says) && text.contains(instead)),
            "{texts:?}"
        );
        assert!(
            !texts
                .iter()
                .any(|text| text.contains("no container engine is known")),
            "{texts:?}"
        );
        assert_eq!(schema::mistakes("plan.json", &plan), [""; 0], "{title}");
    }
}

#[test]
fn a_template_of_k3s_that_leaves_out_the_runtime_is_named() {
    const TABLE: &str =
        "[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.nvidia.options]\n";
    let program = format!("{TABLE}  BinaryName = \"/usr/bin/nvidia-container-runtime\"\n");
    let found = format!(
        "{{{{range $k, $v := .ExtraRuntimes}}}}\n{}{{{{end}}}}\n",
        TABLE.replace("nvidia", "{{$k}}")
    );
    for (text, is_incomplete) in [
        ("version = 3\n", true),
        ("{{ template \"base\" . }}\n", false),
        (found.as_str(), false),
        (program.as_str(), false),
    ] {
        let tree = Tree::ubuntu_24_04();
        tree.write("usr/local/bin/k3s", "");
        let template = "var/lib/rancher/k3s/agent/etc/containerd/config-v3.toml.tmpl";
        tree.write(template, text);
        let plan = tree
            .run(&[
                "plan",
                "--gpu",
                "a100",
                "--profile",
                "container-host",
                "--json",
            ])
            .json();
        let warnings = plan["warnings"].as_array().expect("warnings").iter();
        let texts: Vec<_> = warnings
            .map(|w| w["text"].as_str().expect("a text"))
            .collect();
        let says = format!("/{template} replaces the template of K3s");
        let has = |text: &&str| {
            text.contains(&says) && text.contains("Put {{ template \"base\" . }} into the file")
        };
        assert_eq!(texts.iter().any(has), is_incomplete, "{text}: {texts:?}");
        assert_eq!(schema::mistakes("plan.json", &plan), [""; 0], "{text}");
    }
}
