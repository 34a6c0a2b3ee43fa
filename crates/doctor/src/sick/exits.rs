//! The exit code agrees with what the report says, as text and as JSON.

use super::device::{refused, told, unstarted};
use super::*;
use gpusetup_nvidia::{Cuda, Refused};
use gpusetup_text::exit::Exit;

fn without_gpu(e: &mut Seen) {
    e.facts.gpus.clear();
    e.facts.driver = None;
    e.facts.loaded_modules = Some(Vec::new());
    e.nvml = Answer::NotAsked("no NVIDIA driver is installed".into());
    e.cuda = Answer::NotAsked("no NVIDIA driver is installed".into());
    e.convolution.clear();
    e.facts
        .kernels
        .installed
        .iter_mut()
        .for_each(|kernel| kernel.nvidia_module = None);
    e.dkms.clear();
}

fn without_driver(e: &mut Seen) {
    e.facts.driver = None;
    e.facts.loaded_modules = Some(Vec::new());
    e.nvml = Answer::NotAsked("no NVIDIA driver is installed".into());
    e.cuda = Answer::NotAsked("no NVIDIA driver is installed".into());
}

fn missing(library: &str) -> Refused {
    Refused {
        call: library.into(),
        code: None,
        says: "cannot open shared object file".into(),
    }
}

fn without_libcuda(e: &mut Seen) {
    e.cuda = Answer::Is(Cuda {
        refused: Some(missing("libcuda.so.1")),
        ..Cuda::default()
    });
}

fn without_nvml(e: &mut Seen) {
    told(|nvml| nvml.refused = Some(missing("libnvidia-ml.so.1")))(e);
}

fn in_container(e: &mut Seen) {
    e.facts.machine.kind = MachineKind::Container;
    without_libcuda(e);
    without_nvml(e);
}

fn hangs(e: &mut Seen) {
    e.nvml = Answer::Failed("it did not answer within 10 s".into());
    e.cuda = Answer::Failed("it did not answer within 10 s".into());
}

/// The exit code that follows from the statuses in the JSON alone.
fn by_json(report: &Report, strict: bool) -> u8 {
    let report = serde_json::to_value(report).expect("JSON");
    let has = |status: &str| {
        report["checks"]
            .as_array()
            .expect("checks")
            .iter()
            .any(|check| check["status"] == status)
    };
    let has_gpu = !report["host"]["gpus"].as_array().expect("GPUs").is_empty();
    let is_hidden = report["host"]["machine"]["kind"] == "jetson";
    match () {
        () if !has_gpu && !is_hidden => 9,
        () if has("fail") || has("error") || strict && has("warn") => 20,
        () => 0,
    }
}

type Change = fn(&mut Seen);

#[test]
fn the_exit_code_is_that_of_the_findings() {
    let cases: [(&str, Change, u8, u8); 12] = [
        ("sound", |_| (), 0, 0),
        ("no GPU and no driver", without_gpu, 9, 9),
        (
            "no GPU, and the driver is there",
            |e| {
                e.facts.gpus.clear();
            },
            9,
            9,
        ),
        (
            "a Jetson shows no GPU on the bus",
            |e| {
                without_gpu(e);
                e.facts.machine.kind = MachineKind::Jetson;
            },
            0,
            0,
        ),
        ("no driver", without_driver, 20, 20),
        ("no NVML", without_nvml, 20, 20),
        ("no libcuda", without_libcuda, 20, 20),
        ("neither, in a container", in_container, 20, 20),
        ("libraries that hang", hangs, 20, 20),
        (
            "libraries of another version",
            |e| {
                unstarted(803)(e);
                told(|nvml| nvml.refused = Some(refused("nvmlInit_v2", 18)))(e);
            },
            20,
            20,
        ),
        (
            "a check that failed",
            |e| {
                e.broken.insert("GS201".into(), "the images".into());
            },
            20,
            20,
        ),
        (
            "a GPU of a virtual machine",
            |e| {
                e.facts.gpus[0].bound_to = Some("vfio-pci".into());
                e.facts.loaded_modules = Some(Vec::new());
            },
            0,
            20,
        ),
    ];
    for (name, change, usual, strict) in cases {
        let mut evidence = sound();
        change(&mut evidence);
        let report = examined(evidence);
        for (is_strict, want) in [(false, usual), (true, strict)] {
            assert_eq!(
                report.exit(is_strict, false).code(),
                want,
                "{name}: {:?}",
                illnesses_of_any_kind(&report)
            );
            assert_eq!(by_json(&report, is_strict), want, "{name}");
        }
    }
}

fn illnesses_of_any_kind(report: &Report) -> Vec<String> {
    let ill = report
        .checks
        .iter()
        .filter(|f| !matches!(f.status, Status::Pass | Status::Skip));
    ill.map(|f| format!("{} {:?}", f.id, f.status)).collect()
}

#[test]
fn a_host_may_have_no_gpu_if_that_is_accepted() {
    let mut evidence = sound();
    without_gpu(&mut evidence);
    evidence.accepts_no_gpu = true;
    assert_eq!(examined(evidence).exit(false, true), Exit::Done);
}
