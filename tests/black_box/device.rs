//! What doctor makes of NVIDIA's libraries, by libraries that stand in for them:
//! `tests/support/nvidia/`, built by gcc. They answer from a file, with any code, or hang, or end
//! their caller, as those of a sick driver do.

use crate::common;
use crate::common::{Tree, program};
use crate::nvidia;
use crate::schema;
use serde_json::Value;
use std::fs;
use std::path::PathBuf;

/// A host with an A100 and a driver, whose libraries say `answers`.
struct Host {
    tree: Tree,
    libraries: tempfile::TempDir,
}

impl Host {
    fn saying(answers: &str) -> Self {
        let tree = Tree::ubuntu_24_04().gpu("0000:17:00.0", "20b0", Some("nvidia"));
        let directory = "usr/lib/x86_64-linux-gnu";
        tree.write(&format!("{directory}/libcuda.so.580.95.05"), "");
        let libraries = tempfile::tempdir().expect("a temporary directory");
        nvidia::put(libraries.path(), answers);
        let cudnn = tree.path().join(directory).join("libcudnn.so.9.10.2");
        fs::copy(libraries.path().join("libcudnn.so.9"), cudnn).expect("copied");
        tree.link(&format!("{directory}/libcudnn.so.9"), "libcudnn.so.9.10.2");
        Self { tree, libraries }
    }

    /// Without this library.
    fn without(self, library: &str) -> Self {
        fs::remove_file(self.library(library)).expect("removed");
        self
    }

    fn library(&self, name: &str) -> PathBuf {
        self.libraries.path().join(name)
    }

    /// What doctor says, with its exit code.
    fn doctor(&self, arguments: &[&str]) -> (i32, String) {
        let stand_ins = nvidia::stand_ins(self.libraries.path());
        let (variable, libraries) = stand_ins.split_once('=').expect("NAME=VALUE");
        let output = program()
            .env(variable, libraries)
            .env("GPUSETUP_PATIENCE", "2")
            .args(["doctor", "--root"])
            .arg(self.tree.path())
            .args(arguments)
            .output()
            .expect("gpusetup runs");
        let text = String::from_utf8(output.stdout).expect("gpusetup writes UTF-8");
        (output.status.code().expect("no signal"), text)
    }

    fn report(&self) -> Report {
        let (_, text) = self.doctor(&["--json"]);
        let report: Value = serde_json::from_str(&text).expect("one JSON object and nothing else");
        assert_eq!(schema::mistakes("doctor.json", &report), [""; 0]);
        Report(report)
    }
}

/// What doctor printed as JSON.
struct Report(Value);

impl Report {
    fn check(&self, id: &str) -> &Value {
        let all = self.0["checks"].as_array().expect("a list");
        all.iter().find(|c| c["id"] == id).expect("a check")
    }

    /// `fail: the cause`.
    fn finding(&self, id: &str) -> String {
        let check = self.check(id);
        format!(
            "{}: {}",
            check["status"].as_str().expect("a status"),
            check["cause"].as_str().unwrap_or_default()
        )
    }

    fn evidence(&self, id: &str) -> String {
        let lines = self.check(id)["evidence"]
            .as_array()
            .expect("a list")
            .iter();
        lines
            .map(|l| l.as_str().expect("a text"))
            .collect::<Vec<_>>()
            .join("\n")
    }

    #[track_caller]
    fn says(&self, id: &str, start: &str, part: &str) {
        let finding = self.finding(id);
        assert!(
            finding.starts_with(start) && finding.contains(part),
            "{id} {finding}\n{}",
            self.evidence(id)
        );
    }
}

#[test]
fn a_sound_driver_computes() {
    let host = Host::saying("count=2\nlinks=12 12\n");
    let report = host.report();
    for id in ["GS508", "GS505", "GS802", "GS904", "GS905", "GS710"] {
        assert_eq!(
            report.finding(id),
            "pass: ",
            "{id}: {}",
            report.evidence(id)
        );
    }
    assert_eq!(
        report
            .evidence("GS505")
            .matches("a test kernel computed correct results")
            .count(),
        2
    );
    assert!(
        report
            .evidence("GS710")
            .contains("libcudnn.so.9: a convolution computed correct results")
    );
    let nvml = &report.0["nvml"];
    assert_eq!(
        (&nvml["driver"], &nvml["cuda"]),
        (&"580.95.05".into(), &"13.0".into())
    );
    assert_eq!(nvml["gpus"][1]["address"], "0000:18:00.0");
    let links = nvml["gpus"][0]["nvlinks"].as_array().expect("a list");
    assert_eq!(links.iter().filter(|l| l["active"] == true).count(), 12);
    for hidden in ["uuid", "serial", "clique"] {
        assert_eq!(nvml["gpus"][0][hidden], Value::Null, "{hidden}");
    }
    assert_eq!(
        nvml["ways"],
        serde_json::json!([{"from": 0, "to": 1, "over": "host-bridge"}])
    );
    let cuda = &report.0["cuda"];
    assert_eq!(
        (&cuda["version"], &cuda["gpus"][0]["compute_capability"]),
        (&"13.0".into(), &"8.0".into())
    );
    assert_eq!(
        cuda["library"],
        host.library("libcuda.so.1").display().to_string()
    );
}

#[test]
fn every_refusal_of_nvml_is_told_by_one_check() {
    let of = |answers: &str| Host::saying(answers).report();
    let mismatch = of("nvmlInit_v2=18\ncuInit=803\n");
    mismatch.says("GS501", "fail", "Driver/library version mismatch");
    assert!(
        mismatch
            .evidence("GS501")
            .contains("nvmlInit_v2: RM detects a driver/library version mismatch (18)")
    );
    mismatch.says("GS508", "skip", "GS501");
    assert_eq!(mismatch.check("GS505")["consequence_of"], "GS501");
    let lost = of("nvmlDeviceGetHandleByIndex_v2=15\ncuInit=999\n");
    lost.says("GS903", "fail", "is lost");
    assert_eq!(lost.check("GS505")["consequence_of"], "GS903");
    of("nvmlDeviceGetTemperature=15\n").says("GS903", "fail", "0000:17:00.0 is lost");
    of("count=2\n1.nvmlDeviceGetName=16\n").says("GS903", "fail", "0000:18:00.0 must be reset");
    of("nvmlInit_v2=4\n").says("GS508", "warn", "this user has no access");
    of("nvmlInit_v2=9\n").says("GS508", "fail", "not loaded");
    of("nvmlInit_v2=999\n").says("GS508", "fail", "does not start");
    of("nvmlDeviceGetHandleByIndex_v2=999\n").says("GS508", "fail", "does not respond");
    of("count=0\n").says("GS508", "fail", "has 1 GPUs, but NVML lists only 0");
    assert_eq!(
        of("count=0\nexcluded=1\n").finding("GS508"),
        "pass: ",
        "the driver was told to leave it alone"
    );
    assert_eq!(
        of("nvmlShutdown=crash\n").finding("GS508"),
        "pass: ",
        "it has answered"
    );
    of("nvmlInit_v2=12345\n").says("GS508", "fail", "12345");
    // What a GPU does not have is no fault of it.
    for function in [
        "nvmlDeviceGetPciInfo_v3",
        "nvmlDeviceGetMigMode",
        "nvmlDeviceGetEccMode",
        "nvmlDeviceGetFieldValues",
    ] {
        let report = of(&format!("{function}=3\n"));
        assert_eq!(report.finding("GS508"), "pass: ", "{function}");
        assert_eq!(report.finding("GS904"), "pass: ", "{function}");
    }
}

#[test]
fn a_finding_names_every_gpu() {
    let pair = "the GPUs 0000:17:00.0 and 0000:18:00.0";
    for (answers, id, sentence) in [
        (
            "rows=1 2 1 0\n",
            "GS904",
            format!("the memory of {pair} has bad rows"),
        ),
        (
            "rows=1 2 0 1\n",
            "GS904",
            format!("the memory of {pair} has no spare rows"),
        ),
        (
            "pages=1 2 1\n",
            "GS904",
            format!("{pair} still use bad memory pages"),
        ),
        (
            "0.uncorrected=3 4\n1.uncorrected=5 5\n",
            "GS904",
            format!("the memory of {pair} had uncorrectable"),
        ),
        (
            "ecc=1 0\n",
            "GS904",
            format!("the ECC mode of {pair} was changed"),
        ),
        (
            "recovery=1\n",
            "GS904",
            format!("{pair} had an error, and the driver requests a reset"),
        ),
        (
            "slowdown=0x40\n",
            "GS904",
            format!("{pair} are too hot and run at half"),
        ),
        (
            "mig=0 1 0\n",
            "GS802",
            format!("MIG was switched on on {pair}, but they have not been reset"),
        ),
        (
            "nvmlDeviceGetName=16\n",
            "GS903",
            format!("{pair} must be reset before they can be used"),
        ),
        (
            "nvmlDeviceGetName=15\n",
            "GS903",
            format!("{pair} are lost: they no longer respond"),
        ),
        (
            "cuCtxSynchronize=719\n",
            "GS505",
            format!("a test kernel was aborted on {pair} (error 719)"),
        ),
        (
            "wrong=1\n",
            "GS505",
            format!("{pair} compute wrong results"),
        ),
        (
            "cuDevicePrimaryCtxRetain=46\ncompute_mode=2\n",
            "GS505",
            format!("{pair} do not accept programs"),
        ),
    ] {
        let report = Host::saying(&format!("count=2\n{answers}")).report();
        report.says(id, "", &sentence);
        let evidence = report.evidence(id);
        assert!(
            evidence.contains("0000:17:00.0: ") && evidence.contains("0000:18:00.0: "),
            "{answers}{evidence}"
        );
    }
    let all = Host::saying("count=8\nrows=1 2 1 0\n").report();
    assert_eq!(
        all.finding("GS904"),
        "warn: the memory of all 8 GPUs has bad rows, which spare rows replace at the next reset"
    );
    let some = Host::saying("count=8\nrows=1 2 1 0\n0.rows=0 0 0 0\n").report();
    some.says(
        "GS904",
        "warn",
        "the memory of the GPUs 0000:18:00.0, 0000:19:00.0 and 5 more has bad rows",
    );
    // What differs in more than the GPU is not one finding: the worse one comes first.
    let two = Host::saying("count=2\n0.rows=1 2 1 0\n1.rows=0 1 0 1\n").report();
    two.says(
        "GS904",
        "fail",
        "the memory of the GPU 0000:18:00.0 has no spare rows",
    );
}

#[test]
fn every_gpu_of_another_driver_is_named() {
    let tree = Tree::ubuntu_24_04()
        .gpu("0000:17:00.0", "20b0", Some("vfio-pci"))
        .gpu("0000:2a:00.0", "20b0", Some("vfio-pci"));
    let root = tree.path().to_str().expect("UTF-8");
    let report = common::run(&["doctor", "GS203", "--json", "--root", root]).json();
    let check = &report["checks"][0];
    let cause = check["cause"].as_str().expect("a cause");
    assert!(
        cause.starts_with("the GPUs 0000:17:00.0 and 0000:2a:00.0 are bound to vfio-pci"),
        "{cause}"
    );
}

#[test]
fn what_nvml_tells_of_a_gpu_is_judged() {
    let of = |answers: &str| Host::saying(answers).report();
    of("rows=1 2 1 0\n").says("GS904", "warn", "bad rows");
    of("rows=1 2 0 1\n").says("GS904", "fail", "no spare rows left");
    of("pages=1 2 1\n").says("GS904", "warn", "still uses bad memory pages");
    of("pages=1 62 0\n").says("GS904", "fail", "so many memory pages");
    of("pages=1 58 0\n").says("GS904", "pass", "");
    of("uncorrected=3 4\n").says("GS904", "warn", "uncorrectable errors");
    of("recovery=2\n").says("GS904", "fail", "a reboot");
    // The bits are those of nvml.h: thermal, power brake.
    of("slowdown=0x40\n").says("GS904", "warn", "too hot");
    of("slowdown=0x80\n").says("GS904", "warn", "the power supply");
    assert_eq!(
        of("slowdown=0x5\n").finding("GS904"),
        "pass: ",
        "idle, and held to its power"
    );
    of("persistence=0\n").says("GS905", "warn", "shuts down the GPU 0000:17:00.0");
    of("persistence=0\ndisplay=1\n").says("GS905", "skip", "a display");
    of("mig=0 1 0\n").says("GS802", "warn", "switched on");
    of("mig=1 1 0\ncuDeviceGetCount=100\n").says("GS505", "fail", "MIG is on");
    let fabric = of("fabric=2 0\ncuInit=802\n");
    fabric.says("GS801", "fail", "not in their fabric");
    assert_eq!(fabric.check("GS505")["consequence_of"], "GS801");
    assert_eq!(of("fabric=3 0\n").finding("GS801"), "pass: ");
    let exclusive = of("compute_mode=3\nprocesses=1\ncuDevicePrimaryCtxRetain=46\n");
    exclusive.says("GS505", "warn", "one process at a time");
    assert!(exclusive.evidence("GS505").contains("1 processes"));
}

#[test]
fn cuda_that_fails_names_its_code_and_cause() {
    let of = |answers: &str| Host::saying(answers).report();
    for (code, part) in [
        (3, "does not start"),
        (34, "a stub"),
        (100, "CUDA finds none"),
        (802, "not connected by NVLink"),
        (803, "does not match"),
        (804, "which this GPU does not support"),
        (999, "error 999"),
        (12345, "error 12345"),
    ] {
        let report = of(&format!("cuInit={code}\n"));
        report.says("GS505", "fail", part);
        assert!(
            report.evidence("GS505").contains(&format!("({code})")),
            "{}",
            report.evidence("GS505")
        );
        report.says("GS710", "skip", "CUDA itself does not compute");
    }
    of("cuDevicePrimaryCtxRetain=46\n").says("GS505", "fail", "error 46");
    of("cuModuleLoadData=221\n").says("GS505", "fail", "libnvidia-ptxjitcompiler.so.1");
    of("cuCtxSynchronize=719\n").says(
        "GS505",
        "fail",
        "a test kernel was aborted on the GPU 0000:17:00.0",
    );
    of("cuMemAlloc_v2=2\n").says("GS505", "skip", "in use");
    let wrong = of("count=2\n1.wrong=1\n");
    wrong.says("GS505", "fail", "0000:18:00.0 computes wrong results");
    assert!(
        wrong
            .evidence("GS505")
            .contains("1 of 1024 numbers are wrong"),
        "{}",
        wrong.evidence("GS505")
    );
}

#[test]
fn cudnn_that_fails_is_told() {
    let of = |answers: &str| Host::saying(answers).report();
    of("blurred=1\n").says("GS710", "fail", "a wrong convolution");
    of("cudnnCreate=1008\n").says("GS710", "fail", "CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED");
    of("cudnnConvolutionForward=4004\n").says("GS710", "skip", "in use");
    of("cudnnConvolutionForward=crash\n").says("GS710", "fail", "in cudnnConvolutionForward");
}

#[test]
fn a_library_that_is_not_there_is_named() {
    Host::saying("").without("libnvidia-ml.so.1").report().says(
        "GS508",
        "fail",
        "cannot find NVML, libnvidia-ml.so.1",
    );
    Host::saying("").without("libcuda.so.1").report().says(
        "GS505",
        "fail",
        "cannot load the driver's CUDA library, libcuda.so.1",
    );
}

#[test]
fn a_driver_that_ends_who_asks_it_ends_only_the_child() {
    let report = Host::saying("nvmlDeviceGetName=crash\ncuCtxSynchronize=crash\n").report();
    report.says("GS508", "fail", "in nvmlDeviceGetName (ended by signal 11)");
    report.says("GS505", "fail", "in cuCtxSynchronize (ended by signal 11)");
    assert_eq!(report.check("GS505")["consequence_of"], "GS508");
    assert_eq!(
        (&report.0["nvml"], &report.0["cuda"]),
        (&Value::Null, &Value::Null)
    );
    let silent = Host::saying("nvmlInit_v2=exit\ncuInit=exit\n").report();
    silent.says("GS508", "fail", "did not answer");
    silent.says("GS505", "fail", "did not answer");
}

#[test]
fn a_driver_that_hangs_is_given_up() {
    for answers in [
        "nvmlInit_v2=hang\ncuInit=hang\n",
        "nvmlDeviceGetMigMode=hang\ncuCtxSynchronize=hang\n",
    ] {
        let host = Host::saying(answers);
        let report = host.report();
        for (id, line) in ["GS508", "GS505"].iter().zip(answers.lines()) {
            let function = line.trim_end_matches("=hang");
            report.says(
                id,
                "fail",
                &format!("did not return from {function} within 2 s"),
            );
        }
        let still = host.libraries.path().display().to_string();
        assert!(!anybody_runs_with(&still), "who hangs is ended");
    }
}

/// Whether a process has this text among its arguments.
fn anybody_runs_with(text: &str) -> bool {
    let processes = fs::read_dir("/proc").expect("processes").flatten();
    let mut lines = processes.filter_map(|p| fs::read(p.path().join("cmdline")).ok());
    lines.any(|line| String::from_utf8_lossy(&line).contains(text))
}

#[test]
fn a_report_tells_elsewhere_what_the_libraries_said_here() {
    let host = Host::saying(
        "count=2\n1.wrong=1\nrows=1 2 1 0\nfabric=2 0\ncompute_mode=2\npages=1 2 0\nlinks=1 2\n",
    );
    let report = host
        .libraries
        .path()
        .join("r.tar.zst")
        .display()
        .to_string();
    let (_, here) = host.doctor(&["--json", "--report", &report]);
    let there = common::run(&["doctor", &report, "--json"]).out;
    let [here, there] =
        [here, there].map(|text| Report(serde_json::from_str(&text).expect("JSON")));
    for id in ["GS508", "GS505", "GS904", "GS801", "GS710"] {
        assert_eq!(here.finding(id), there.finding(id), "{id}");
    }
    assert_eq!(here.0["nvml"], there.0["nvml"]);
    assert_eq!(here.0["cuda"]["gpus"], there.0["cuda"]["gpus"]);
    let mut archive = tar::Archive::new(
        zstd::Decoder::new(fs::File::open(&report).expect("written")).expect("zstd"),
    );
    let mut entries = archive.entries().expect("a tar").map(|e| e.expect("whole"));
    let evidence = entries
        .find(|e| e.path().is_ok_and(|p| p.ends_with("evidence.json")))
        .expect("it is there");
    let evidence: Value = serde_json::from_reader(evidence).expect("JSON");
    assert_eq!(schema::mistakes("evidence.json", &evidence), [""; 0]);
}

#[test]
fn gpus_are_shown_in_a_table() {
    let host = Host::saying("count=2\n1.persistence=0\n1.mig=1 1 2\n");
    let (_, text) = host.doctor(&["-v"]);
    let text = host.tree.typed_in_it(&text);
    let rows: Vec<_> = text
        .lines()
        .filter(|l| l.starts_with("        0000:"))
        .collect();
    assert_eq!(rows.len(), 2, "{text}");
    assert!(
        rows[1].contains("0000:18:00.0") && rows[1].contains("2 instances"),
        "{text}"
    );
    assert!(text.lines().all(|l| l.chars().count() <= 80), "{text}");
}

#[test]
fn nobody_asks_for_a_tree_or_without_a_driver() {
    let host = Host::saying("");
    let ran = host.tree.run(&["doctor", "--json"]);
    let report: Value = serde_json::from_str(&ran.out).expect("JSON");
    let report = Report(report);
    report.says("GS508", "skip", "a tree has no running driver");
    report.says("GS505", "skip", "a tree has no running driver");
    assert_eq!(schema::mistakes("doctor.json", &report.0), [""; 0]);
}
