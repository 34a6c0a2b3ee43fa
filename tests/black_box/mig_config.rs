//! `mig:` in the config file: the GPUs are partitioned by plan and apply, doctor compares them, and
//! undo gives back what they had.

use crate::common::Ran;
use crate::settings::{Host, step};
use serde_json::Value;
use std::fs;
use std::process::Command;

const LAYOUT: &str = "4g.20gb,2g.10gb,1g.5gb";
const UNIT: &str = "etc/systemd/system/gpusetup-mig.service";

/// Runs a command with a config file.
fn run(host: &Host, layout: &str, arguments: &[&str]) -> Ran {
    let config = host.libraries.path().join("config.yaml");
    fs::write(&config, format!("profile: driver\nmig: {layout}\n")).expect("written");
    host.run(&[arguments, &["--config", config.to_str().expect("UTF-8")]].concat())
}

fn host() -> Host {
    let host = Host::saying("");
    host.tree.write("usr/bin/gpusetup", "");
    host
}

#[test]
fn the_config_file_partitions_all_gpus_and_has_boots_restore_that() {
    let host = host();
    let plan = run(&host, LAYOUT, &["plan", "--json"]).json();
    assert_eq!(crate::schema::mistakes("plan.json", &plan), [""; 0]);
    let described = |act: &Value| act["op"].as_str().expect("a kind").to_owned();
    let mig = step(&plan, "mig").expect("a step");
    let operations: Vec<_> = mig["operations"]
        .as_array()
        .expect("a list")
        .iter()
        .map(described)
        .collect();
    // The mode of both GPUs, that it is active, and their instances; the layouts, the unit, and its
    // link.
    assert_eq!(
        operations,
        [&["device"; 6][..], &["write-file", "write-file", "link"]].concat()
    );

    let text = run(&host, LAYOUT, &["plan", "-v"]).out;
    assert!(
        text.contains("reset GPU 0000:17:00.0 if its MIG mode waits for that"),
        "{text}"
    );
    // The driver of this tree is no real one: only the partition is carried out.
    let path = host.libraries.path().join("plan.json");
    let mut only: gpusetup::plan::Plan = serde_json::from_value(plan).expect("a plan");
    only.steps
        .retain(|step| step.id == gpusetup::plan::StepId::Mig);
    fs::write(&path, serde_json::to_string(&only).expect("JSON")).expect("written");
    let applied = host.run(&["apply", path.to_str().expect("UTF-8"), "--yes"]);
    assert_eq!(applied.code, 0, "{}{}", applied.out, applied.err);
    for gpu in [0, 1] {
        assert_eq!(host.state(&format!("{gpu}.mig")).as_deref(), Some("1 1 0"));
        assert_eq!(
            host.state(&format!("{gpu}.instances")).as_deref(),
            Some("1 5 0 4,2 14 4 2,3 19 6 1")
        );
    }
    assert!(
        host.read("etc/gpusetup/mig.yaml")
            .expect("written")
            .contains("devices: all")
    );
    assert!(
        host.read(UNIT)
            .expect("written")
            .contains("ExecStart=/usr/bin/gpusetup mig restore\n")
    );
    let again = run(&host, LAYOUT, &["plan", "--json"]).json();
    assert_eq!(step(&again, "mig").expect("a step")["state"], "satisfied");

    // After a reboot, instances are gone.
    let doctor = || host.run(&["doctor", "GS802"]);
    assert_eq!(doctor().code, 0, "{}", doctor().out);
    fs::write(
        host.libraries.path().join("state"),
        "0.mig=1 1 0\n1.mig=1 1 0\n",
    )
    .expect("written");
    let output = doctor()
        .out
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    let cause = format!("have the MIG layout none, and boots restore {LAYOUT}");
    assert!(
        output.contains(&cause) && output.contains("sudo gpusetup mig restore"),
        "{output}"
    );
    let restored = host.run(&["mig", "restore"]);
    assert_eq!(restored.code, 0, "{}{}", restored.out, restored.err);
    assert_eq!(doctor().code, 0, "{}", doctor().out);

    let undone = host.run(&["rollback", "--yes"]);
    assert_eq!(undone.code, 0, "{}{}", undone.out, undone.err);
    assert_eq!(
        (
            host.state("0.mig").as_deref(),
            host.state("1.instances").as_deref()
        ),
        (Some("0 0 0"), Some(""))
    );
    assert_eq!(
        (host.read(UNIT), host.read("etc/gpusetup/mig.yaml")),
        (None, None)
    );
}

#[test]
fn a_layout_that_a_gpu_cannot_have_is_refused_before_anything_changes() {
    let host = host();
    for (layout, part) in [
        (
            "4g.20gb,4g.20gb",
            "2x4g.20gb does not fit GPU 0 (NVIDIA A100-SXM4-40GB): 8 compute slices are needed",
        ),
        ("1g.10gbb", "it has no profile \"1g.10gbb\""),
    ] {
        let ran = run(&host, layout, &["apply", "--yes"]);
        assert_eq!(ran.code, 2, "{}{}", ran.out, ran.err);
        assert!(
            ran.err.contains(part) && ran.err.contains("(--mig)"),
            "{part}\n{}",
            ran.err
        );
        assert!(
            ran.err.contains("these fit: --mig 4g.20gb,3g.20gb, or")
                || ran.err.contains("its profiles are: 1g.5gb")
        );
    }
    assert_eq!(host.state("0.mig"), None);
    // YAML reads an unquoted off as false.
    let ran = run(&host, "off", &["plan", "--json"]).json();
    let mig = step(&ran, "mig").expect("a step");
    assert_eq!(
        mig["operations"].as_array().map(Vec::len),
        Some(3),
        "the GPUs are not partitioned: {mig}"
    );
}

#[test]
fn services_that_use_the_gpus_are_stopped_only_if_that_is_permitted() {
    let host = host();
    host.tree
        .write("run/active/nvidia-persistenced.service", "");
    host.tree.write("run/active/nvidia-dcgm.service", "");
    let refused = run(&host, LAYOUT, &["plan"]);
    assert_eq!(refused.code, 5, "{}{}", refused.out, refused.err);
    assert!(
        refused
            .err
            .contains("services use the GPUs: nvidia-dcgm.service; --mig changes"),
        "{}",
        refused.err
    );
    assert!(
        refused.err.contains("add --mig-services stop"),
        "{}",
        refused.err
    );

    let units = |arguments: &[&str]| -> Vec<String> {
        let plan = run(&host, LAYOUT, &[&["plan", "--json"], arguments].concat()).json();
        let mig = step(&plan, "mig").expect("a step")["operations"].clone();
        let all = mig
            .as_array()
            .expect("a list")
            .iter()
            .filter(|act| act["op"] == "run");
        let argv = |act: &Value| {
            let words = act["argv"]
                .as_array()
                .expect("a list")
                .iter()
                .filter_map(Value::as_str);
            words
                .filter(|word| *word != "systemctl" && *word != "--no-block")
                .collect::<Vec<_>>()
                .join(" ")
        };
        all.map(argv).collect()
    };
    let stopped = [
        "stop nvidia-dcgm.service",
        "stop nvidia-persistenced.service",
    ];
    let started = [
        "restart nvidia-persistenced.service",
        "restart nvidia-dcgm.service",
    ];
    let all = units(&["--mig-services", "stop"]);
    assert_eq!(all[..2], stopped, "{all:?}");
    assert_eq!(all[all.len() - 2..], started, "{all:?}");

    // Instances alone need no reset: nothing stops.
    fs::write(
        host.libraries.path().join("state"),
        "0.mig=1 1 0\n1.mig=1 1 0\n",
    )
    .expect("written");
    assert!(
        units(&[])
            .iter()
            .all(|unit| !unit.contains("dcgm") && !unit.contains("persistenced"))
    );
}

#[test]
fn a_driver_that_is_yet_to_come_brings_a_daemon_that_stops_meanwhile() {
    let host = host();
    for library in ["libcuda.so", "libnvidia-ml.so"] {
        let path = host
            .tree
            .path()
            .join(format!("usr/lib/x86_64-linux-gnu/{library}.580.95.05"));
        fs::remove_file(path).expect("it was there");
    }
    // In a tree no GPU is partitioned.
    let mut facts = host.run(&["facts", "--json"]).json();
    facts["machine"]["is_tree"] = false.into();
    let file = host.libraries.path().join("facts.json");
    fs::write(&file, facts.to_string()).expect("written");
    let plan = |format: &str| {
        let file = file.to_str().expect("UTF-8");
        crate::common::run(&[
            "plan",
            "--profile",
            "driver",
            "--mig",
            LAYOUT,
            "--format",
            format,
            "--facts",
            file,
        ])
    };
    let plan_json = plan("json").json();
    let mig = step(&plan_json, "mig").expect("a step")["operations"].clone();
    let runs: Vec<_> = mig
        .as_array()
        .expect("a list")
        .iter()
        .filter(|act| act["op"] == "run")
        .collect();
    let daemon = |act: &&&Value| {
        act["argv"]
            .to_string()
            .contains("nvidia-persistenced.service")
    };
    assert_eq!(runs.iter().filter(daemon).count(), 2, "{runs:?}");
    let folders = runs[0]["if_there"].as_array().expect("its files");
    for folder in ["/usr/local/lib/systemd/system", "/usr/lib/systemd/system"] {
        assert!(
            folders
                .iter()
                .any(|path| *path == format!("{folder}/nvidia-persistenced.service")),
            "{folders:?}"
        );
    }
    let script = plan("sh").out;
    let line = script
        .lines()
        .find(|line| line.contains("stop nvidia-persistenced"))
        .expect("a line");
    assert!(
        line.starts_with("if [ -e /etc/systemd/system/nvidia-persistenced.service ] || "),
        "{line}"
    );
}

#[test]
fn a_script_stops_where_boots_would_lack_gpusetup() {
    let host = host();
    let script = run(&host, LAYOUT, &["plan", "--format", "sh"]).out;
    let check = script
        .lines()
        .find(|line| line.starts_with("test -x "))
        .expect("a check");
    let stops = |program: &str| {
        let check = check.replace("/usr/bin/gpusetup ||", &format!("{program} ||"));
        Command::new("sh")
            .args(["-euc", &check])
            .output()
            .expect("sh runs")
    };
    assert!(stops("/bin/sh").status.success(), "{check}");
    let lacking = stops("/nowhere/gpusetup");
    assert_eq!(lacking.status.code(), Some(2), "{check}");
    let stderr = String::from_utf8_lossy(&lacking.stderr);
    assert!(
        stderr.starts_with(
            "/usr/bin/gpusetup is missing, and boots restore the MIG instances with it"
        ),
        "{stderr}"
    );
    let without = host
        .run(&["plan", "--profile", "driver", "--format", "sh"])
        .out;
    assert!(!without.contains("test -x"), "{without}");
}
