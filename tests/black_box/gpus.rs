//! `facts --gpus`: the table of GPUs, by a library that stands in for NVML
//! (`tests/support/nvidia/`).

use crate::common::{Tree, program};
use crate::nvidia;
use crate::schema;
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::symlink;

/// A DGX A100's GPUs: all links to switches.
const EIGHT: &str = "count=8\nlinks=12 12\nlink_speed=25781\nfabric=0 0\n";

struct Host {
    tree: Tree,
    libraries: tempfile::TempDir,
}

impl Host {
    fn saying(answers: &str) -> Self {
        Self::with(answers.as_bytes())
    }

    fn with(answers: &[u8]) -> Self {
        let tree = Tree::ubuntu_24_04().gpu("0000:17:00.0", "20b0", Some("nvidia"));
        let libraries = tempfile::tempdir().expect("a temporary directory");
        nvidia::put(libraries.path(), "");
        fs::write(libraries.path().join("answers"), answers).expect("written");
        Self { tree, libraries }
    }

    fn run(&self, columns: usize, arguments: &[&str]) -> (i32, String, String) {
        let stand_ins = nvidia::stand_ins(self.libraries.path());
        let (variable, libraries) = stand_ins.split_once('=').expect("NAME=VALUE");
        let output = program()
            .env(variable, libraries)
            .env("GPUSETUP_PATIENCE", "5")
            .env("COLUMNS", columns.to_string())
            .args(["facts", "--gpus", "--root"])
            .arg(self.tree.path())
            .args(arguments)
            .output()
            .expect("gpusetup runs");
        let text = |bytes| String::from_utf8(bytes).expect("gpusetup writes UTF-8");
        (
            output.status.code().expect("no signal"),
            text(output.stdout),
            text(output.stderr),
        )
    }

    fn table(&self, columns: usize, arguments: &[&str]) -> String {
        let (code, text, err) = self.run(columns, arguments);
        assert_eq!((code, err.as_str()), (0, ""), "{text}");
        text
    }

    fn json(&self) -> Value {
        let report: Value =
            serde_json::from_str(&self.table(80, &["--json"])).expect("one JSON object");
        assert_eq!(schema::mistakes("gpus.json", &report), [""; 0]);
        report
    }
}

/// The judgement and the sentence of a field of the first GPU.
fn judged(report: &Value, field: &str) -> (String, String) {
    let all = report["gpus"][0]["judgements"].as_array().expect("a list");
    let one = all
        .iter()
        .find(|one| one["field"] == field)
        .unwrap_or_else(|| panic!("{field}: {report}"));
    let text = |key: &str| one[key].as_str().unwrap_or_default().to_owned();
    assert!(
        text("source").starts_with("https://docs.nvidia.com/"),
        "{one}"
    );
    (text("judgement"), text("says"))
}

#[test]
fn two_sound_gpus_are_ok() {
    let host = Host::saying(
        "count=2\nlinks=4 4\nlinks_to=gpu\n1.utilization=97 41\n1.processes=2\n1.drawing=1\n1.fan=30\n",
    );
    let report = host.json();
    assert_eq!(
        (&report["judgement"], &report["findings"]),
        (&json!("ok"), &json!([])),
        "{report}"
    );
    let second = &report["gpus"][1]["reading"];
    assert_eq!(
        second["utilization"],
        json!({"gpu_percent": 97, "memory_percent": 41})
    );
    assert_eq!(second["memory"]["total_bytes"], 40960_u64 << 20);
    assert_eq!(second["processes"][0]["kind"], "compute-and-graphics");
    assert_eq!(second["processes"][1]["name"], "/usr/bin/python3.1");
    assert_eq!(second["nvlinks"][3]["leads_to"], "gpu");
    assert_eq!(
        report["connections"],
        json!([{"from": 0, "to": 1, "nvlinks": 4, "pci": "PHB"}])
    );
    let fan = report["gpus"][0]["reading"]["absent"]
        .as_array()
        .expect("a list");
    assert!(
        fan.iter()
            .any(|absent| absent["field"] == "fan" && absent["refused"]["code"] == 3),
        "{fan:?}"
    );
    for width in [60, 80, 120] {
        let text = host.table(width, &[]);
        assert!(
            text.lines().all(|line| line.len() <= width),
            "{width}:\n{text}"
        );
        insta::with_settings!({snapshot_path => "gpus", prepend_module_to_snapshot => false, omit_expression => true}, {
            insta::assert_snapshot!(format!("two-{width}"), text);
        });
    }
}

#[test]
fn eight_gpus_and_three_that_are_sick() {
    let sick = "2.rows=1 2 0 1\n2.nvmlDeviceGetUtilizationRates=3\n4.temperature=90\n6.nvmlDeviceGetUUID=15\n";
    let host = Host::saying(&format!("{EIGHT}{sick}"));
    let report = host.json();
    assert_eq!(report["judgement"], "replace");
    let judgements: Vec<_> = report["gpus"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|gpu| &gpu["judgement"])
        .collect();
    assert_eq!(
        judgements,
        ["ok", "ok", "replace", "ok", "check", "ok", "check", "ok"]
    );
    let of_lost = report["gpus"][6]["reading"].as_object().expect("an object");
    assert!(
        of_lost["temperature"].is_null(),
        "nothing more is asked of a GPU that is lost"
    );
    assert_eq!(
        report["connections"].as_array().map(Vec::len),
        Some(21),
        "seven answer"
    );
    for width in [60, 120] {
        let text = host.table(width, &[]);
        assert!(
            text.lines()
                .all(|line| line.len() <= width || line.contains("nvidia-smi")),
            "{width}:\n{text}"
        );
        insta::with_settings!({snapshot_path => "gpus", prepend_module_to_snapshot => false, omit_expression => true}, {
            insta::assert_snapshot!(format!("eight-{width}"), text);
        });
    }
}

#[test]
fn the_words_are_explained() {
    let host = Host::saying(
        "count=1\nmig=1 1 2\n0.name=NVIDIA A100-SXM4-40GB\nfabric=3 0\nvirtualization=2\n",
    );
    let text = host.table(80, &["-v"]);
    insta::with_settings!({snapshot_path => "gpus", prepend_module_to_snapshot => false, omit_expression => true}, {
        insta::assert_snapshot!("words-80", text);
    });
    let korean = host.table(80, &["-v", "--lang", "ko"]);
    assert!(
        korean.contains("P0") && korean.chars().any(|c| ('가'..='힣').contains(&c)),
        "{korean}"
    );
}

#[test]
fn each_condition_is_judged_with_its_source() {
    for (answers, field, judgement, says) in [
        (
            "rows=0 0 0 1\n",
            "remapped-rows",
            "replace",
            "could not be remapped",
        ),
        (
            "rows=0 1 1 0\n",
            "remapped-rows",
            "check",
            "at the next reset",
        ),
        ("rows=0 3 0 0\n", "remapped-rows", "ok", ""),
        (
            "pages=1 59 0\n",
            "retired-pages",
            "replace",
            "60 retired memory pages",
        ),
        ("pages=1 58 0\n", "retired-pages", "ok", ""),
        ("pages=1 0 1\n", "retired-pages", "check", "still in use"),
        ("uncorrected=3 4\n", "ecc", "check", "3 uncorrected"),
        ("uncorrected=0 4\ncorrected=9 9\n", "ecc", "ok", ""),
        ("ecc=1 0\n", "ecc", "check", "waits for a reboot"),
        ("ecc=0 0\n", "ecc", "ok", ""),
        ("mig=0 1 0\n", "mig", "check", "waits for a reset"),
        (
            "temperature=89\n",
            "temperature",
            "check",
            "slows down from 89 C",
        ),
        (
            "temperature=88\n",
            "temperature",
            "check",
            "operation (85 C)",
        ),
        ("temperature=85\n", "temperature", "ok", ""),
        (
            "memory_temperature=96\n",
            "temperature",
            "check",
            "memory at 96 C",
        ),
        (
            "nvmlDeviceGetTemperatureThreshold=3\nmargin=-1\ntemperature=88\n",
            "temperature",
            "check",
            "(87 C)",
        ),
        (
            "nvmlDeviceGetTemperatureThreshold=3\nmargin=0\ntemperature=88\n",
            "temperature",
            "ok",
            "",
        ),
        ("slowdown=0x80\n", "clock-limits", "check", "power supply"),
        ("slowdown=0x40\n", "clock-limits", "check", "too hot"),
        ("slowdown=0x20\n", "clock-limits", "check", "by the driver"),
        ("slowdown=0x10f\n", "clock-limits", "ok", ""),
        ("compute_mode=2\n", "compute-mode", "check", "prohibited"),
        ("compute_mode=3\n", "compute-mode", "ok", ""),
        ("pcie=1 8 4 16\n", "pcie", "ok", ""),
        (
            "pcie=4 8 4 16\nutilization=5 0\n",
            "pcie",
            "check",
            "8 of 16 PCIe lanes",
        ),
        (
            "pcie=3 16 4 16\nutilization=5 0\n",
            "pcie",
            "check",
            "generation 3 instead of 4",
        ),
        (
            "links=11 12\n",
            "nv-links",
            "check",
            "1 of 12 NVLinks are down",
        ),
        ("links=2 4\nlinks_to=gpu\n", "nv-links", "ok", ""),
        ("links=0 12\n", "nv-links", "ok", ""),
        ("fabric=1 0\n", "fabric", "check", "error 802"),
        ("fabric=3 999\n", "fabric", "check", "NVML error 999"),
        ("fabric=3 0\n", "fabric", "ok", ""),
        ("recovery=1\n", "recovery", "check", "requests an action"),
        (
            "virtualization=2\nlicensed=0\n",
            "licence",
            "check",
            "no vGPU licence",
        ),
        ("virtualization=2\n", "licence", "ok", ""),
        (
            "confidential=1\nready=0\n",
            "confidential-computing",
            "check",
            "no work is accepted",
        ),
        (
            "nvmlDeviceGetHandleByIndex_v2=15\n",
            "response",
            "check",
            "no answer on the bus",
        ),
        ("nvmlDeviceGetName=14\n", "response", "replace", "infoROM"),
        (
            "nvmlDeviceGetPowerUsage=16\n",
            "response",
            "check",
            "next reset",
        ),
    ] {
        let (found, text) = judged(&Host::saying(answers).json(), field);
        assert!(
            found == judgement && text.contains(says) && (says.is_empty() == text.is_empty()),
            "{answers}{found} {text}"
        );
    }
}

#[test]
fn a_finding_names_every_gpu_and_its_commands_do() {
    let two = Host::saying("count=4\n1.rows=0 1 1 0\n3.rows=0 1 1 0\n").table(120, &[]);
    assert!(
        two.contains("check   GPUs 0000:18:00.0 and 0000:1a:00.0: bad rows of memory"),
        "{two}"
    );
    assert!(
        two.contains("sudo nvidia-smi --gpu-reset -i 0000:18:00.0,0000:1a:00.0\n"),
        "{two}"
    );
    let all = Host::saying(&format!("{EIGHT}rows=0 1 1 0\n")).table(120, &[]);
    assert!(
        all.contains("check   all 8 GPUs: bad rows of memory"),
        "{all}"
    );
    assert!(
        all.contains("-i 0000:17:00.0,0000:18:00.0,") && all.contains(",0000:1e:00.0\n"),
        "{all}"
    );
    // Different numbers are different sentences.
    let hot = Host::saying("count=2\n0.temperature=90\n1.temperature=91\n").table(120, &[]);
    assert!(
        hot.contains("GPU 0000:17:00.0: 90 C") && hot.contains("GPU 0000:18:00.0: 91 C"),
        "{hot}"
    );
}

#[test]
fn texts_of_a_hostile_library_do_no_harm() {
    let long = "x".repeat(200);
    let answers = format!(
        "count=4\n0.name=\x1b[2J\x1b]0;owned\x07A100\n1.name=unterminated\n2.name={long}\n3.uuid=a\u{202e}b\nprocess=\x1b[31mevil\n0.processes=1\nserial=unterminated\nvirtualization=2\nproduct=unterminated\n"
    );
    let host = Host::saying(&answers);
    for arguments in [&[][..], &["-v"], &["--json"]] {
        let text = host.table(60, arguments);
        assert!(!text.contains(['\x1b', '\x07', '\u{202e}']), "{text}");
    }
    host.json();
    let mut raw = b"count=2\n0.name=\xff\xfe\n1.processes=4000000000\n".to_vec();
    raw.extend(b"0.memory=1 4294967295 0\n0.state=32\n");
    let (code, text, err) = Host::with(&raw).run(80, &[]);
    assert!(code == 0 && text.contains("unknown"), "{text}{err}");
    let endless =
        Host::saying("count=4000000000\nmig=1 1 4000000000\nlinks=4000000000 4000000000\n").json();
    assert_eq!(
        endless["gpus"].as_array().map(Vec::len),
        Some(64),
        "more than any host has"
    );
    let confidential = Host::saying("confidential=1\n").table(80, &[]);
    assert!(
        confidential.contains("Confidential computing is on, the GPUs accept work"),
        "{confidential}"
    );
}

#[test]
fn without_nvml_one_command_helps() {
    for (answers, exit, says, helps) in [
        (
            "nvmlInit_v2=9\n",
            5,
            "the driver is not loaded",
            "sudo modprobe nvidia",
        ),
        (
            "nvmlInit_v2=18\n",
            5,
            "the old one is still loaded",
            "sudo reboot",
        ),
        ("nvmlInit_v2=4\n", 5, "no access", "ls -l"),
        (
            "nvmlInit_v2=999\n",
            5,
            "NVML does not start",
            "gpusetup doctor",
        ),
        (
            "nvmlDeviceGetCount_v2=999\n",
            5,
            "NVML does not start",
            "gpusetup doctor",
        ),
        (
            "nvmlDeviceGetName=crash\n",
            5,
            "crashed in nvmlDeviceGetName",
            "gpusetup doctor",
        ),
        (
            "nvmlInit_v2=exit\n",
            5,
            "does not answer",
            "gpusetup doctor",
        ),
    ] {
        let host = Host::saying(answers);
        let (code, out, err) = host.run(200, &[]);
        assert!(
            code == exit
                && out.is_empty()
                && err.contains(says)
                && err.contains(&format!("try: {helps}")),
            "{answers}{code} {err}"
        );
        assert_eq!(err.matches("try: ").count(), 1, "{err}");
        let (code, out, _) = host.run(80, &["--json"]);
        let error: Value = serde_json::from_str(&out).expect("one JSON object");
        assert_eq!(
            (code, &error["schema"], &error["exit_code"]),
            (exit, &json!("gpusetup.error/1"), &json!(exit))
        );
    }
    let host = Host::saying("");
    fs::remove_file(host.libraries.path().join("libnvidia-ml.so.1")).expect("removed");
    let (code, _, err) = host.run(200, &[]);
    assert!(
        code == 5 && err.contains("libnvidia-ml.so.1 is missing"),
        "{err}"
    );
    // A tree without stand-ins has no driver that could be asked.
    let ran = crate::common::run(&[
        "facts",
        "--gpus",
        "--root",
        host.tree.path().to_str().expect("UTF-8"),
    ]);
    assert!(
        ran.code == 2 && ran.err.contains("a tree has no running driver"),
        "{}",
        ran.err
    );
    let text = Host::saying("count=0\nexcluded=2\n").table(80, &[]);
    assert!(
        text.contains("The driver lists no GPU")
            && text.contains("2 GPUs, by the driver's configuration"),
        "{text}"
    );
}

#[test]
fn the_way_to_network_adapters_is_read_from_the_bus() {
    let host = Host::saying("count=2\n");
    let root = host.tree.path();
    let device = |path: &str, node: &str| {
        let folder = root.join("sys/devices").join(path);
        fs::create_dir_all(&folder).expect("made");
        fs::write(folder.join("numa_node"), node).expect("written");
        fs::write(folder.join("local_cpulist"), "0-31\n").expect("written");
        folder
    };
    let bus = root.join("sys/bus/pci/devices");
    fs::remove_dir_all(&bus).expect("removed");
    fs::create_dir_all(&bus).expect("made");
    let switch = "pci0000:15/0000:15:01.0/0000:16:00.0";
    for (address, path, node) in [
        (
            "0000:17:00.0",
            format!("{switch}/0000:16:08.0/0000:17:00.0"),
            "0\n",
        ),
        (
            "0000:18:00.0",
            "pci0000:80/0000:80:01.0/0000:18:00.0".to_owned(),
            "-1\n",
        ),
    ] {
        device(&path, node);
        symlink(format!("../../../devices/{path}"), bus.join(address)).expect("linked");
    }
    let nic = device(&format!("{switch}/0000:16:0c.0/0000:19:00.0"), "0\n");
    let adapter = nic.join("infiniband/mlx5_0");
    fs::create_dir_all(&adapter).expect("made");
    symlink("../../../0000:19:00.0", adapter.join("device")).expect("linked");
    let class = root.join("sys/class/infiniband");
    fs::create_dir_all(&class).expect("made");
    symlink(
        format!("../../devices/{switch}/0000:16:0c.0/0000:19:00.0/infiniband/mlx5_0"),
        class.join("mlx5_0"),
    )
    .expect("linked");
    let report = host.json();
    assert_eq!(
        report["nics"],
        json!([{"name": "mlx5_0", "ways": ["PIX", "SYS"]}])
    );
    assert_eq!(
        report["gpus"][0]["locality"],
        json!({"cpus": "0-31", "numa_node": 0})
    );
    assert_eq!(report["gpus"][1]["locality"]["numa_node"], Value::Null);
    assert!(
        host.table(80, &[])
            .contains("WAY   GPU0  GPU1  mlx5_0  CPUS  NUMA")
    );
}
