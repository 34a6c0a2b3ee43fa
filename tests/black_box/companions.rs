//! Companions of the driver that the user asks for: `--with dcgm`, `--with gds`, `--with peermem`.
//! What apt makes of it is tested in `tests/as_root/companions.rs`.

use crate::common::{Ran, run, run_with_input};
use crate::schema;
use serde_json::{Value, json};

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

fn wish<'a>(os: &'a str, gpu: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [
        &[
            "plan",
            "--os",
            os,
            "--gpu",
            gpu,
            "--profile",
            "driver",
            "--with",
            "dcgm",
        ],
        more,
    ]
    .concat()
}

/// The packages of DCGM that a plan installs.
fn packages(plan: &Value) -> Vec<&str> {
    let steps = ["install-driver", "companions"]
        .into_iter()
        .flat_map(|step| operations(plan, step));
    let names = steps
        .filter_map(|act| act["install"].as_array())
        .flatten()
        .filter_map(Value::as_str);
    names
        .filter(|name| name.starts_with("datacenter-gpu-manager"))
        .collect()
}

fn of_cuda(major: u8) -> Vec<String> {
    let name = |of: &str| format!("datacenter-gpu-manager-4-{of}");
    vec![
        name(&format!("cuda{major}")),
        name("proprietary"),
        name(&format!("proprietary-cuda{major}")),
    ]
}

#[test]
fn dcgm_comes_from_nvidias_repository_and_is_started() {
    for (os, driver) in [
        ("ubuntu-22.04", ["--method", "packages"]),
        ("ubuntu-24.04", ["--method", "runfile"]),
        ("debian-12", ["--method", "runfile"]),
        ("debian-12", ["--method", "repository"]),
        ("rocky-9", ["--method", "repository"]),
        ("rhel-8", ["--method", "runfile"]),
        ("amzn-2023", ["--method", "repository"]),
        ("sles-15", ["--method", "repository"]),
    ] {
        let plan = run(&wish(os, "a100", &[&driver[..], &["--json"]].concat())).json();
        assert_eq!(schema::mistakes("plan.json", &plan), [""; 0], "{os}");
        let [added, ..] = operations(&plan, "add-repository")[..] else {
            panic!("{os}: {plan}")
        };
        assert!(
            added["any_version"]
                .to_string()
                .contains("datacenter-gpu-manager-4-*"),
            "{os}: {added}"
        );
        let branch: u16 = plan["selection"]["driver"]["branch"]
            .as_str()
            .expect("a branch")
            .parse()
            .expect("a number");
        let major = if branch < 525 {
            11
        } else if branch < 580 {
            12
        } else {
            13
        };
        assert_eq!(packages(&plan), of_cuda(major), "{os}: driver {branch}");
        let started = operations(&plan, "companions")
            .into_iter()
            .find(|act| act["op"] == "service")
            .expect("a unit");
        assert_eq!(
            (&started["unit"], &started["enabled"]),
            (&json!("nvidia-dcgm.service"), &json!(true)),
            "{os}"
        );
        // Its version is not the driver's: neither is held.
        assert!(
            operations(&plan, "companions")
                .iter()
                .all(|act| act["op"] != "hold"),
            "{os}: {plan}"
        );
    }
    // Volta cannot run what is built with CUDA 13.
    let volta = run(&wish(
        "ubuntu-24.04",
        "v100",
        &["--driver", "580", "--json"],
    ))
    .json();
    assert_eq!(packages(&volta), of_cuda(12));
    // Beside NVSwitches, Fabric Manager keeps the driver's version; DCGM does not.
    let joined = run(&wish("ubuntu-22.04", "10de:20b2x8", &["--json"])).json();
    let held = operations(&joined, "companions")
        .into_iter()
        .find(|act| act["op"] == "hold")
        .expect("a hold");
    let units = operations(&joined, "companions")
        .into_iter()
        .filter_map(|act| act["unit"].as_str());
    assert_eq!(
        units.collect::<Vec<_>>(),
        ["nvidia-fabricmanager.service", "nvidia-dcgm.service"]
    );
    assert!(!held.to_string().contains("datacenter"), "{held}");
}

#[test]
fn dcgm_that_cannot_be_had_is_refused_with_the_reason() {
    let refused = [
        ("ubuntu-26.04", "a100", &[][..]),
        ("debian-13", "a100", &["--method", "repository"]),
        ("ubuntu-22.04", "gtx 780", &["--driver", "390"]),
    ]
    .map(|(os, gpu, more)| run(&wish(os, gpu, more)).refusal(2).to_owned());
    insta::assert_snapshot!(refused.join("\n"), @"
    error: DCGM cannot be installed (--with dcgm): gpusetup knows packages of it for amzn2023, debian12, opensuse15, rhel8, rhel9, sles15, ubuntu2204, ubuntu2404, and none of these repositories is for Ubuntu 26.04 LTS
    try: gpusetup plan --os ubuntu-26.04 --gpu a100 --profile driver  # without it

    error: DCGM cannot be installed (--with dcgm): gpusetup knows packages of it for amzn2023, debian12, opensuse15, rhel8, rhel9, sles15, ubuntu2204, ubuntu2404, and none of these repositories is for Debian 13 (trixie)
    try: gpusetup plan --os debian-13 --gpu a100 --profile driver --method repository  # without it

    error: DCGM cannot be installed (--with dcgm): it needs driver branch 450 or newer, not 390.157
    try: gpusetup plan --os ubuntu-22.04 --gpu 'gtx 780' --driver 390 --profile driver  # without it
    ");
    let versioned = run(&[
        "plan",
        "--os",
        "ubuntu-24.04",
        "--gpu",
        "a100",
        "--with",
        "dcgm==4.5",
    ]);
    insta::assert_snapshot!(versioned.refusal(2), @"
    error: DCGM 4.5 was requested (--with), but gpusetup installs the version that the repository has
    try: gpusetup plan --os ubuntu-24.04 --gpu a100 --with dcgm  # in the version of the repository
    ");
    let unknown = run(&[
        "plan",
        "--os",
        "ubuntu-24.04",
        "--gpu",
        "a100",
        "--with",
        "dcgmi",
    ]);
    insta::assert_snapshot!(unknown.refusal(2), @"
    error: no add-on is called `dcgmi` (--with)
    hint: known add-ons: cudss, cusparselt, cutensor, nccl, nvshmem, tensorrt, dcgm, gds, peermem
    try: gpusetup db list add-ons
    ");
}

#[test]
fn what_runs_already_starts_again_with_another_driver() {
    let mut facts = run(&wish("ubuntu-24.04", "a100", &["--json"])).json()["host"].take();
    facts["companions"] = json!([{ "id": "dcgm", "version": "4.4.1", "enabled": true }]);
    let plan = |more: &[&str]| {
        let own = ["plan", "--facts", "-", "--profile", "driver", "--json"];
        run_with_input(&[&own[..], more].concat(), &facts.to_string()).json()
    };
    let new = plan(&[]);
    let stopped = |plan: &Value| {
        let acts = operations(plan, "install-driver")
            .into_iter()
            .filter(|act| act["unit"] == "nvidia-dcgm.service");
        acts.map(|act| act["enabled"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(stopped(&new), [json!(false)]);
    let [started] = operations(&new, "companions")
        .into_iter()
        .filter(|act| act["op"] == "service")
        .collect::<Vec<_>>()[..]
    else {
        panic!("{new}")
    };
    assert_eq!(
        (&started["unit"], started.get("satisfied")),
        (&json!("nvidia-dcgm.service"), None)
    );
    assert_eq!(
        (packages(&new), packages(&plan(&["--with", "dcgm"]))),
        (vec![], vec![])
    );
}

#[test]
fn a_plan_without_a_driver_leaves_dcgm_out_with_a_line() {
    let ran = run(&[
        "plan",
        "--os",
        "ubuntu-24.04",
        "--gpu",
        "a100",
        "--profile",
        "toolkit",
        "--with",
        "dcgm",
    ]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let mut lines: Vec<_> = ran.out.lines().collect();
    lines.retain(|line| line.contains("DCGM"));
    insta::assert_snapshot!(lines.join("\n").trim(), @"companions        Set up DCGM (left out: this plan chooses no driver)");
}

#[test]
fn sentences_about_requested_companions_fit_the_host_and_their_number() {
    let mut facts = new_host("ubuntu-24.04", "a100");
    facts["machine"]["kind"] = json!("container");
    let why = |plan: &Value| {
        let step = plan["steps"]
            .as_array()
            .expect("steps")
            .iter()
            .find(|step| step["id"] == "companions");
        step.expect("a step")["why"].clone()
    };
    let inside = run_with_input(
        &["plan", "--facts", "-", "--with", "dcgm", "--json"],
        &facts.to_string(),
    )
    .json();
    assert_eq!(
        why(&inside),
        "this plan chooses no driver: that of a container is its host's"
    );
    for (with, sentence) in [
        ("dcgm", "DCGM was requested"),
        ("dcgm,gds", "DCGM and GPUDirect Storage were requested"),
    ] {
        let request = [
            "plan",
            "--os",
            "ubuntu-24.04",
            "--gpu",
            "a100",
            "--profile",
            "driver",
            "--with",
            with,
            "--json",
        ];
        assert_eq!(why(&run(&request).json()), sentence);
    }
}

#[test]
fn cloud_init_and_lock_files_keep_the_request() {
    let cloud = run(&wish("ubuntu-24.04", "a100", &["--format", "cloud-init"]));
    assert!(
        cloud.out.contains("with: \"dcgm\"") || cloud.out.contains("with: dcgm"),
        "{}",
        cloud.out
    );
}

/// What a step loads and has loaded at every boot: the lines of its files that are no comments, and
/// the arguments of modprobe.
fn modules(plan: &Value) -> (Vec<&str>, Vec<&str>) {
    let acts = operations(plan, "companions");
    let files = acts.iter().filter(|act| {
        act["path"]
            .as_str()
            .is_some_and(|path| path.contains("modules-load.d"))
    });
    let lines = files
        .filter_map(|act| act["content"].as_str())
        .flat_map(str::lines)
        .filter(|line| !line.starts_with('#'));
    let loads = acts
        .iter()
        .filter(|act| act["argv"][0] == "modprobe")
        .filter_map(|act| act["argv"][1].as_str());
    (lines.collect(), loads.collect())
}

/// The facts of a new system.
fn new_host(os: &str, gpu: &str) -> Value {
    run(&[
        "plan",
        "--os",
        os,
        "--gpu",
        gpu,
        "--profile",
        "driver",
        "--json",
    ])
    .json()["host"]
        .take()
}

/// A plan for them, changed.
fn changed(os: &str, gpu: &str, request: &[&str], change: impl FnOnce(&mut Value)) -> Ran {
    let mut facts = new_host(os, gpu);
    change(&mut facts);
    run_with_input(
        &[&["plan", "--facts", "-", "--profile", "driver"], request].concat(),
        &facts.to_string(),
    )
}

/// One RDMA adapter on a host that runs.
fn with_adapter(facts: &mut Value, has_interface: bool) {
    facts["rdma"] = json!({ "adapters": ["mlx5_0"], "has_peer_memory": has_interface });
    facts["loaded_modules"] = json!([]);
}

#[test]
fn gpudirect_storage_is_installed_after_a_driver_with_open_modules() {
    for (os, more) in [
        ("ubuntu-22.04", vec![]),
        ("ubuntu-24.04", vec!["--with", "dcgm"]),
        ("rocky-9", vec![]),
        ("amzn-2023", vec![]),
    ] {
        let own = [
            "plan",
            "--os",
            os,
            "--gpu",
            "a100",
            "--profile",
            "driver",
            "--with",
            "gds",
            "--json",
        ];
        let plan = run(&[&own[..], &more].concat()).json();
        assert_eq!(schema::mistakes("plan.json", &plan), [""; 0], "{os}");
        let [added, ..] = operations(&plan, "add-repository")[..] else {
            panic!("{os}: {plan}")
        };
        assert!(
            added["any_version"].to_string().contains("nvidia-fs*"),
            "{os}: {added}"
        );
        // Its module uses the driver's, so it is not in the transaction with the driver.
        let installs = |step: &str| {
            let names = operations(&plan, step)
                .into_iter()
                .filter_map(|act| act["install"].as_array())
                .flatten();
            names.filter(|name| *name == "nvidia-fs").count()
        };
        assert_eq!(
            (installs("install-driver"), installs("companions")),
            (0, 1),
            "{os}: {plan}"
        );
        let (at_boot, now) = modules(&plan);
        assert_eq!(
            (at_boot, now.last()),
            (vec!["nvidia-fs"], Some(&"nvidia-fs")),
            "{os}"
        );
    }
}

#[test]
fn gpudirect_storage_on_a_geforce_is_warned_of() {
    for (gpu, is_warned) in [("rtx 4090", true), ("a100", false), ("rtx a6000", false)] {
        let request = [
            "plan",
            "--os",
            "ubuntu-24.04",
            "--gpu",
            gpu,
            "--profile",
            "driver",
            "--with",
            "gds",
            "--json",
        ];
        let warnings = run(&request).json()["warnings"].to_string();
        assert_eq!(
            warnings.contains("GPUDirect Storage: whether it works on"),
            is_warned,
            "{gpu}: {warnings}"
        );
    }
}

#[test]
fn gpudirect_storage_that_cannot_work_is_refused_with_the_reason() {
    let refused = [
        ("ubuntu-22.04", "v100", &[][..]),
        ("ubuntu-22.04", "a100", &["--modules", "proprietary"]),
        ("ubuntu-22.04", "a100", &["--method", "runfile"]),
        ("ubuntu-22.04", "a100", &["--driver", "470"]),
        ("sles-15", "a100", &[]),
        ("debian-12", "a100", &["--method", "repository"]),
    ]
    .map(|(os, gpu, more)| {
        let wish = ["--profile", "driver", "--with", "gds"];
        let said = run(&[&["plan", "--os", os, "--gpu", gpu], &wish[..], more].concat());
        said.refusal(2).to_owned()
    });
    insta::assert_snapshot!(refused.join("\n"), @"
    error: GPUDirect Storage needs the open kernel modules (--with gds), but driver 580.178.04 has the proprietary ones here
    try: gpusetup plan --os ubuntu-22.04 --gpu v100 --profile driver  # without it

    error: GPUDirect Storage needs the open kernel modules (--with gds), but driver 595.91.07 has the proprietary ones here
    try: gpusetup plan --os ubuntu-22.04 --gpu a100 --profile driver --modules proprietary  # without it
    try: gpusetup plan --os ubuntu-22.04 --gpu a100 --profile driver --with gds --modules open  # with those kernel modules

    error: GPUDirect Storage cannot be installed (--with gds): its packages depend on packages of the driver, but driver 595.99.02 is not from packages
    try: gpusetup plan --os ubuntu-22.04 --gpu a100 --profile driver --with gds  # with a driver from packages
    try: gpusetup plan --os ubuntu-22.04 --gpu a100 --profile driver --method runfile  # without it

    error: GPUDirect Storage cannot be installed (--with gds): it needs driver branch 535 or newer, not 470.256.02
    try: gpusetup plan --os ubuntu-22.04 --gpu a100 --driver 470 --profile driver  # without it

    error: GPUDirect Storage cannot be installed (--with gds): gpusetup knows packages of it for amzn2023, rhel8, rhel9, ubuntu2204, ubuntu2404, and none of these repositories is for SUSE Linux Enterprise Server 15
    try: gpusetup plan --os sles-15 --gpu a100 --profile driver  # without it

    error: GPUDirect Storage cannot be installed (--with gds): gpusetup knows packages of it for amzn2023, rhel8, rhel9, ubuntu2204, ubuntu2404, and none of these repositories is for Debian 12 (bookworm)
    try: gpusetup plan --os debian-12 --gpu a100 --profile driver --method repository  # without it
    ");
}

#[test]
fn nvidia_peermem_is_loaded_where_dma_buf_cannot_be_used() {
    let plan = |interface| {
        let request = ["--driver", "580", "--with", "peermem", "--json"];
        changed("ubuntu-22.04", "v100", &request, |facts| {
            with_adapter(facts, interface)
        })
    };
    let loaded = plan(true).json();
    assert_eq!(schema::mistakes("plan.json", &loaded), [""; 0]);
    assert_eq!(
        modules(&loaded),
        (vec!["nvidia-peermem"], vec!["nvidia-peermem"])
    );
    // It comes with the driver.
    assert!(
        operations(&loaded, "companions")
            .iter()
            .all(|act| act["op"] != "packages"),
        "{loaded}"
    );
    let undo = operations(&loaded, "companions")
        .into_iter()
        .find(|act| act["op"] == "run")
        .expect("modprobe");
    assert_eq!(
        undo["undo"],
        json!(["modprobe", "--remove", "nvidia-peermem"])
    );
    let refused = plan(false);
    // There are no open modules for Volta.
    insta::assert_snapshot!(refused.refusal(5), @"
    error: nvidia-peermem would not load (--with peermem): DMA-BUF needs the open kernel modules, and the RDMA modules of this kernel have no interface for nvidia-peermem (GS804)
    hint: install NVIDIA's DOCA-OFED, then the driver again
    try: gpusetup plan --facts - --driver 580 --profile driver  # without it
    ");
    let ampere = changed(
        "ubuntu-22.04",
        "a100",
        &["--modules", "proprietary", "--with", "peermem"],
        |facts| {
            with_adapter(facts, false);
        },
    );
    insta::assert_snapshot!(ampere.refusal(5), @"
    error: nvidia-peermem would not load (--with peermem): DMA-BUF needs the open kernel modules, and the RDMA modules of this kernel have no interface for nvidia-peermem (GS804)
    hint: install NVIDIA's DOCA-OFED, then the driver again
    try: gpusetup plan --facts - --profile driver --modules open  # by DMA-BUF, with the open kernel modules
    try: gpusetup plan --facts - --profile driver --modules proprietary  # without it
    ");
    // The adapters of a host that is not here are not known.
    let elsewhere = run(&[
        "plan",
        "--os",
        "ubuntu-22.04",
        "--gpu",
        "v100",
        "--profile",
        "driver",
        "--with",
        "peermem",
        "--json",
    ]);
    assert_eq!(modules(&elsewhere.json()).0, ["nvidia-peermem"]);
}

#[test]
fn nvidia_peermem_is_refused_where_nothing_needs_it() {
    for (gpu, request, adapter, parts) in [
        ("a100", vec![], true, vec!["not needed", "DMA-BUF"]),
        ("v100", vec![], false, vec!["no RDMA adapter"]),
        (
            "gtx 780",
            vec!["--driver", "390"],
            true,
            vec!["needs driver branch 470"],
        ),
    ] {
        for listed in [true, false] {
            let ran = changed(
                "ubuntu-22.04",
                gpu,
                &[&["--with", "peermem"], &request[..]].concat(),
                |facts| {
                    with_adapter(facts, true);
                    match (adapter, listed) {
                        (true, _) => {}
                        (false, true) => facts["rdma"]["adapters"] = json!([]),
                        (false, false) => drop(facts["rdma"].take()),
                    }
                },
            );
            assert_eq!(ran.code, 2, "{gpu}: {}", ran.err);
            for part in [&["nvidia-peermem", "--with peermem"], &parts[..]].concat() {
                assert!(ran.err.contains(part), "{gpu}: {part}: {}", ran.err);
            }
        }
    }
    // What is suggested leaves out that one only.
    let ran = run(&[
        "plan",
        "--os",
        "ubuntu-22.04",
        "--gpu",
        "a100",
        "--profile",
        "driver",
        "--with",
        "gds,peermem",
    ]);
    insta::assert_snapshot!(ran.refusal(2), @"
    error: nvidia-peermem is not needed (--with peermem): with the open kernel modules of driver 595.91.07 and this kernel, DMA-BUF lets RDMA adapters reach the memory of GPUs
    try: gpusetup plan --os ubuntu-22.04 --gpu a100 --profile driver --with gds  # without it
    ");
}

#[test]
fn a_runfile_replaces_no_driver_that_these_modules_use() {
    let loaded = |names: &[&str]| {
        let plan = changed(
            "ubuntu-22.04",
            "v100",
            &["--upgrade", "--method", "runfile", "--json"],
            |facts| {
                with_adapter(facts, true);
                facts["loaded_modules"] = names
                    .iter()
                    .map(|name| json!({ "name": name, "version": null }))
                    .collect();
                let driver = json!({ "version": "570.133.20", "origin": "runfile", "modules": "proprietary", "evidence": "libcuda" });
                facts["driver"] = driver;
            },
        );
        let plan = plan.json();
        let argv = operations(&plan, "install-driver")
            .into_iter()
            .filter_map(|act| act.get("argv").cloned());
        argv.filter(|argv| argv[0] == "modprobe")
            .collect::<Vec<_>>()
    };
    let unload = json!(["modprobe", "--remove", "nvidia-peermem"]);
    assert_eq!(loaded(&["nvidia", "nvidia_peermem"]), [unload]);
    assert_eq!(loaded(&["nvidia", "nvidia_uvm"]), [Value::Null; 0]);
}

#[test]
fn doctor_and_the_plan_agree_on_nvidia_peermem() {
    for (modules, kernel, interface, status, planned) in [
        ("open", "5.15.0-185-generic", true, "pass", 2),
        ("open", "5.4.0-216-generic", true, "warn", 0),
        ("open", "5.4.0-216-generic", false, "warn", 5),
        ("proprietary", "5.15.0-185-generic", true, "warn", 0),
        ("proprietary", "5.15.0-185-generic", false, "warn", 5),
    ] {
        let mut facts = new_host("ubuntu-22.04", "a100");
        with_adapter(&mut facts, interface);
        facts["kernels"]["running"] = json!(kernel);
        facts["kernels"]["next_boot"] = json!(kernel);
        facts["driver"] = json!({ "version": "580.178.04", "origin": "dpkg", "modules": modules, "evidence": "libcuda" });
        let facts = facts.to_string();
        let case = format!("{modules} {kernel} {interface}");
        let doctor = run_with_input(&["doctor", "GS804", "--facts", "-", "--json"], &facts).json();
        assert_eq!(doctor["checks"][0]["status"], status, "{case}: {doctor}");
        let request = [
            "plan",
            "--facts",
            "-",
            "--profile",
            "driver",
            "--driver",
            "580.178.04",
            "--with",
            "peermem",
        ];
        let ran = run_with_input(&request, &facts);
        assert_eq!(ran.code, planned, "{case}: {}{}", ran.out, ran.err);
    }
}

#[test]
fn dcgm_3_is_replaced_if_dcgm_is_requested() {
    let former = json!([{ "id": "dcgm", "version": "3.3.9", "package": "datacenter-gpu-manager", "enabled": true }]);
    for driver in [None, Some("580.178.04")] {
        let more = match driver {
            None => vec!["--with", "dcgm", "--json"],
            Some(version) => vec!["--with", "dcgm", "--json", "--driver", version],
        };
        let plan = changed("ubuntu-24.04", "a100", &more, |facts| {
            facts["companions"] = former.clone();
            if let Some(version) = driver {
                let modules = "open";
                facts["driver"] = json!({ "version": version, "origin": "dpkg", "modules": modules, "evidence": "libcuda" });
            }
        });
        let plan = plan.json();
        let steps = ["install-driver", "companions"]
            .into_iter()
            .flat_map(|step| operations(&plan, step));
        let acts: Vec<_> = steps.collect();
        let at = |is: &dyn Fn(&Value) -> bool| acts.iter().position(|act| is(act));
        let stopped = at(&|act| act["unit"] == "nvidia-dcgm.service" && act["enabled"] == false);
        let removed = at(&|act| act["remove"] == json!(["datacenter-gpu-manager"]));
        let installed = at(&|act| {
            act["install"]
                .to_string()
                .contains("datacenter-gpu-manager-4-cuda13")
        });
        let started = at(&|act| act["unit"] == "nvidia-dcgm.service" && act["enabled"] == true);
        let order = [stopped, removed, installed, started];
        assert_eq!(removed, installed, "in one operation");
        assert!(
            order.iter().all(Option::is_some) && order.is_sorted(),
            "{driver:?}: {order:?} {acts:?}"
        );
    }
    // Nobody asked for another one: it stays.
    let plan = changed("ubuntu-24.04", "a100", &["--json"], |facts| {
        facts["companions"] = former.clone()
    })
    .json();
    assert!(
        operations(&plan, "install-driver")
            .iter()
            .all(|act| act.get("remove").is_none()),
        "{plan}"
    );
}

#[test]
fn nvidia_fs_is_built_again_for_another_driver() {
    let plan = |enabled: bool, kept: bool| {
        let driver = if kept { "595.99.02" } else { "580.178.04" };
        let plan = changed("ubuntu-24.04", "a100", &["--upgrade", "--json"], |facts| {
            facts["companions"] = json!([{ "id": "gds", "version": "2.28.4", "package": "nvidia-fs", "enabled": enabled }]);
            facts["driver"] = json!({ "version": driver, "origin": "dpkg", "modules": "open", "evidence": "libcuda" });
        });
        plan.json()
    };
    let acts = |plan: &Value| {
        let acts = operations(plan, "install-driver").into_iter();
        acts.filter_map(|act| Some(act.get("argv")?.clone()))
            .map(|argv| argv.to_string())
            .collect::<Vec<_>>()
    };
    let upgraded = plan(true, false);
    let kernel = upgraded["host"]["kernels"]["next_boot"]
        .as_str()
        .or(upgraded["host"]["kernels"]["running"].as_str());
    let dkms =
        |what| json!(["dkms", what, "--force", "nvidia-fs/2.28.4", "-k", kernel]).to_string();
    assert_eq!(acts(&upgraded), [dkms("build"), dkms("install")]);
    assert_eq!(modules(&upgraded), (vec!["nvidia-fs"], vec!["nvidia-fs"]));
    assert_eq!(acts(&plan(true, true)), [""; 0]);
}

#[test]
fn a_repository_that_comes_only_with_a_driver_is_named() {
    let said = run(&wish("opensuse-leap-15", "8xh100", &[]));
    // That driver has no Fabric Manager.
    insta::assert_snapshot!(said.refusal(2), @"
    error: DCGM cannot be installed (--with dcgm): NVIDIA's repository for openSUSE Leap 15 has it, but gpusetup adds that only for a driver from it, and driver 580.178.04 comes from the runfile
    hint: enable NVIDIA's repository for this system, which has DCGM (https://developer.download.nvidia.com/compute/cuda/repos/opensuse15/x86_64), then plan again
    try: gpusetup plan --os opensuse-leap-15 --gpu 8xh100 --profile driver  # without it
    ");
    // Once the repository is enabled, DCGM comes from it.
    let mut facts = new_host("opensuse-leap-15", "8xh100");
    let address = "https://developer.download.nvidia.com/compute/cuda/repos/opensuse15/x86_64";
    facts["repositories"]
        .as_array_mut()
        .expect("repositories")
        .push(json!(address));
    let request = [
        "plan",
        "--facts",
        "-",
        "--profile",
        "driver",
        "--with",
        "dcgm",
        "--json",
    ];
    assert_eq!(
        packages(&run_with_input(&request, &facts.to_string()).json()),
        of_cuda(13)
    );
    // One GPU has no NVSwitch.
    let runfile = run(&wish("opensuse-leap-15", "h100", &["--method", "runfile"]));
    insta::assert_snapshot!(runfile.refusal(2), @"
    error: DCGM cannot be installed (--with dcgm): NVIDIA's repository for openSUSE Leap 15 has it, but gpusetup adds that only for a driver from it, and driver 595.99.02 comes from the runfile
    hint: enable NVIDIA's repository for this system, which has DCGM (https://developer.download.nvidia.com/compute/cuda/repos/opensuse15/x86_64), then plan again
    try: gpusetup plan --os opensuse-leap-15 --gpu h100 --profile driver --with dcgm --method repository  # with a driver from that repository
    try: gpusetup plan --os opensuse-leap-15 --gpu h100 --profile driver --method runfile  # without it
    ");
}
