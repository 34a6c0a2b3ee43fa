//! Operations that set a piece of a GPU's state, carried out and undone with a library that stands
//! in for NVML.

use crate::common::{self, Ran, Tree};
use crate::nvidia;
use crate::step::step;
use gpusetup::nvidia::{Clocks, ComputeMode, DeviceState};
use gpusetup::operation::{Device, Operation};
use gpusetup::plan::{Plan, StepId};
use std::fs;
use std::path::PathBuf;
use std::process::{Output, Stdio};

const FIRST: &str = "0000:17:00.0";
const SECOND: &str = "GPU-00000000-0000-0000-0000-000000000001";

/// A host with two A100 and a running driver.
struct Host {
    tree: Tree,
    libraries: tempfile::TempDir,
}

impl Host {
    fn saying(answers: &str) -> Self {
        let libraries = tempfile::tempdir().expect("a temporary directory");
        nvidia::put(libraries.path(), &format!("count=2\n{answers}"));
        Self {
            tree: Tree::debian_12(),
            libraries,
        }
    }

    fn plan(&self, states: &[(&str, DeviceState)]) -> PathBuf {
        let all = states
            .iter()
            .map(|(gpu, state)| device(gpu, state.clone(), false))
            .collect();
        self.plan_of(all)
    }

    fn plan_of(&self, operations: Vec<Operation>) -> PathBuf {
        let ran = self.tree.run(&["plan", "--profile", "toolkit", "--json"]);
        let mut plan: Plan =
            serde_json::from_str(&ran.out).unwrap_or_else(|e| panic!("{e}: {}", ran.err));
        plan.steps = vec![step(StepId::Repair, operations)];
        let path = self.libraries.path().join("plan.json");
        fs::write(&path, serde_json::to_string(&plan).expect("JSON")).expect("written");
        path
    }

    fn run(&self, arguments: &[&str], environment: &[(&str, String)]) -> Ran {
        Ran::of(self.output(arguments, environment))
    }

    fn output(&self, arguments: &[&str], environment: &[(&str, String)]) -> Output {
        let mut command = common::program_as_root();
        let stand_ins = nvidia::stand_ins(self.libraries.path());
        let (variable, libraries) = stand_ins.split_once('=').expect("NAME=VALUE");
        command
            .args(arguments)
            .arg("--root")
            .arg(self.tree.path())
            .stdin(Stdio::null());
        command
            .env(variable, libraries)
            .envs(environment.iter().map(|(name, value)| (*name, value)));
        command.output().expect("gpusetup runs")
    }

    fn apply(&self, plan: &std::path::Path) -> Ran {
        self.run(&["apply", plan.to_str().expect("UTF-8"), "--yes"], &[])
    }

    fn rollback(&self) -> Ran {
        self.run(&["rollback", "--yes"], &[])
    }

    /// What a GPU was given last, by the stand-in's key: `0.power_limit`.
    fn state(&self, key: &str) -> Option<String> {
        let text = fs::read_to_string(self.libraries.path().join("state")).unwrap_or_default();
        let value = text
            .lines()
            .rev()
            .find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
        value.map(str::to_owned)
    }

    fn changes(&self) -> usize {
        fs::read_to_string(self.libraries.path().join("state"))
            .unwrap_or_default()
            .lines()
            .count()
    }
}

fn device(gpu: &str, state: DeviceState, if_supported: bool) -> Operation {
    Operation::Device(Device {
        gpu: gpu.to_owned(),
        state,
        if_supported,
    })
}

/// One value of each kind of state.
fn every_kind() -> Vec<(&'static str, DeviceState)> {
    vec![
        (FIRST, DeviceState::Persistence(false)),
        (FIRST, DeviceState::Ecc(false)),
        (FIRST, DeviceState::PowerLimit(250_000)),
        (
            FIRST,
            DeviceState::GpuClocks(Some(Clocks {
                least: 210,
                most: 1200,
            })),
        ),
        (
            SECOND,
            DeviceState::MemoryClocks(Some(Clocks {
                least: 1215,
                most: 1215,
            })),
        ),
        (SECOND, DeviceState::ComputeMode(ComputeMode::Exclusive)),
        (SECOND, DeviceState::Accounting(true)),
    ]
}

/// What the stand-in has after all of them, and after their undo.
const EVERY_KEY: [(&str, &str, &str); 7] = [
    ("0.persistence", "0", "1"),
    ("0.ecc", "1 0", "1 1"),
    ("0.power_limit", "250000", "400000"),
    ("0.gpu_clocks", "210 1200", "none"),
    ("1.memory_clocks", "1215 1215", "none"),
    ("1.compute_mode", "3", "0"),
    ("1.accounting", "1", "0"),
];

#[test]
fn each_kind_of_state_is_set_and_given_back() {
    let host = Host::saying("");
    let plan = host.plan(&every_kind());
    let applied = host.apply(&plan);
    assert_eq!(applied.code, 0, "{}{}", applied.out, applied.err);
    for (key, after, _) in EVERY_KEY {
        assert_eq!(host.state(key).as_deref(), Some(after), "{key}");
    }
    assert_eq!(host.changes(), EVERY_KEY.len());
    assert_eq!(host.apply(&plan).code, 0);
    assert_eq!(
        host.changes(),
        EVERY_KEY.len(),
        "the same plan again changes nothing"
    );
    let undone = host.rollback();
    assert_eq!(undone.code, 0, "{}{}", undone.out, undone.err);
    for (key, _, before) in EVERY_KEY {
        assert_eq!(host.state(key).as_deref(), Some(before), "{key}");
    }
}

/// Cut off at each point, then rolled back: the state is as it was, whether the change had happened
/// or not.
#[test]
fn an_apply_that_was_killed_gives_the_state_back() {
    let limit = |host: &Host| {
        host.state("0.power_limit")
            .unwrap_or_else(|| "400000".to_owned())
    };
    let (mut unset, mut set) = (0, 0);
    for point in 1.. {
        let host = Host::saying("");
        let plan = host.plan(&[(FIRST, DeviceState::PowerLimit(250_000))]);
        let arguments = ["apply", plan.to_str().expect("UTF-8"), "--yes"];
        if host
            .output(&arguments, &[("GPUSETUP_DIE_AT", point.to_string())])
            .status
            .success()
        {
            break;
        }
        if !host.tree.path().join("var/lib/gpusetup/journal").exists() {
            continue;
        }
        if limit(&host) == "400000" {
            unset += 1
        } else {
            set += 1
        }
        assert_eq!(host.rollback().code, 0, "point {point}");
        assert_eq!(limit(&host), "400000", "point {point}");
    }
    assert!(unset > 0 && set > 0, "{unset} {set}");
}

#[test]
fn what_a_gpu_does_not_accept_is_refused_before_the_first_change() {
    let host = Host::saying("nvmlDeviceGetEccMode=3\n");
    let compute = (FIRST, DeviceState::ComputeMode(ComputeMode::Exclusive));
    let refused =
        host.apply(&host.plan(&[compute.clone(), (FIRST, DeviceState::PowerLimit(900_000))]));
    assert_eq!(refused.code, 5, "{}", refused.err);
    let expected = "GPU 0000:17:00.0 accepts 100 to 400 W as the power limit, not 900 W; nvidia-smi -i 0000:17:00.0 -q -d POWER";
    assert!(refused.err.contains(expected), "{}", refused.err);
    let clocks = DeviceState::GpuClocks(Some(Clocks {
        least: 210,
        most: 2000,
    }));
    let refused = host.apply(&host.plan(&[compute.clone(), (FIRST, clocks)]));
    assert!(
        refused.code == 5 && refused.err.contains("210 to 1410 MHz"),
        "{}",
        refused.err
    );
    let refused = host.apply(&host.plan(&[compute.clone(), (FIRST, DeviceState::Ecc(true))]));
    let expected = "GPU 0000:17:00.0 does not support error correction (ECC)";
    assert!(
        refused.code == 5 && refused.err.contains(expected),
        "{}",
        refused.err
    );
    assert_eq!(host.changes(), 0);
    let plan = host.plan_of(vec![
        device(FIRST, DeviceState::Ecc(true), true),
        device(compute.0, compute.1, true),
    ]);
    assert_eq!(host.apply(&plan).code, 0, "a GPU without it is left");
    assert_eq!(
        (host.changes(), host.state("0.compute_mode").as_deref()),
        (1, Some("3"))
    );
}

#[test]
fn a_state_that_somebody_changed_since_is_left_and_named() {
    let host = Host::saying("");
    assert_eq!(
        host.apply(&host.plan(&[(FIRST, DeviceState::PowerLimit(250_000))]))
            .code,
        0
    );
    fs::write(
        host.libraries.path().join("state"),
        "0.power_limit=300000\n",
    )
    .expect("written");
    let undone = host.rollback();
    assert_eq!((undone.code, host.changes()), (0, 1), "{}", undone.err);
    let stderr = undone.out + &undone.err;
    assert!(
        stderr.contains("the power limit of GPU 0000:17:00.0"),
        "{stderr}"
    );
}

#[test]
fn a_driver_that_does_not_answer_does_not_keep_the_rest_from_being_undone() {
    // The library is of another driver than the loaded module; the module is not loaded, so that
    // only the board keeps anything.
    for (code, accounting_is_left) in [(18, true), (9, false)] {
        let host = Host::saying("");
        let plan = host.plan(&[
            (FIRST, DeviceState::Ecc(false)),
            (FIRST, DeviceState::Accounting(true)),
        ]);
        assert_eq!(host.apply(&plan).code, 0);
        fs::write(
            host.libraries.path().join("answers"),
            format!("nvmlInit_v2={code}\n"),
        )
        .expect("written");
        let undone = host.rollback();
        let stderr = undone.out + &undone.err;
        assert!(
            undone.code == 0 && stderr.contains("error correction (ECC) of GPU 0000:17:00.0"),
            "{stderr}"
        );
        assert_eq!(
            stderr.contains("kept: accounting of GPU 0000:17:00.0"),
            accounting_is_left,
            "{stderr}"
        );
        assert_eq!(
            stderr.contains("undone: set accounting"),
            !accounting_is_left,
            "{stderr}"
        );
        assert_eq!(host.changes(), 2);
    }
}

#[test]
fn a_driver_that_fails_is_named_with_its_call() {
    let host = Host::saying("nvmlDeviceSetPowerManagementLimit=4\n");
    let failed = host.apply(&host.plan(&[(FIRST, DeviceState::PowerLimit(250_000))]));
    assert!(
        failed.code == 7 && failed.err.contains("nvmlDeviceSetPowerManagementLimit"),
        "{} {}",
        failed.code,
        failed.err
    );
    let host = Host::saying("nvmlDeviceSetPowerManagementLimit=hang\n");
    let plan = host.plan(&[(FIRST, DeviceState::PowerLimit(250_000))]);
    let arguments = ["apply", plan.to_str().expect("UTF-8"), "--yes"];
    let hung = host.run(&arguments, &[("GPUSETUP_PATIENCE", "1".to_owned())]);
    assert!(
        hung.code == 7 && hung.err.contains("did not return from nvmlDeviceSet"),
        "{} {}",
        hung.code,
        hung.err
    );
}
