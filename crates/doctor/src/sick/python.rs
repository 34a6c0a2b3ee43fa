//! Python environments that are sound, and those that are not.

use super::{found, sound};
use crate::evidence::{
    BuiltFor, EnvironmentKind, EnvironmentPackage, FoundBy, LoadedLibrary, PythonEnvironment,
    RequiredPackage, Seen,
};
use crate::{Answer, Status};
use gpusetup_text::ids::CheckId;

const NVIDIA: &str = "/opt/venv/lib/python3.12/site-packages/nvidia";

/// torch 2.9.1 in a virtual environment, built for CUDA 12.6, which has kernels for GPUs from
/// Maxwell to Hopper.
pub(crate) fn environment() -> PythonEnvironment {
    let package = |name: &str, version: &str, build: BuiltFor, requires: &[(&str, &str)]| {
        EnvironmentPackage {
            name: name.into(),
            version: version.into(),
            by_conda: false,
            build,
            requires: requires
                .iter()
                .map(|(n, v)| RequiredPackage {
                    name: (*n).into(),
                    versions: (*v).into(),
                })
                .collect(),
            missing: Vec::new(),
        }
    };
    let requires = [
        ("nvidia-cuda-runtime-cu12", "==12.8.90"),
        ("nvidia-cudnn-cu12", "==9.10.2.21"),
    ];
    PythonEnvironment {
        path: "/opt/venv".into(),
        kind: EnvironmentKind::Venv,
        active: false,
        has_pip: true,
        packages: vec![
            package(
                "nvidia-cuda-runtime-cu12",
                "12.8.90",
                BuiltFor::Unknown,
                &[],
            ),
            package("nvidia-cudnn-cu12", "9.10.2.21", BuiltFor::Unknown, &[]),
            package(
                "torch",
                "2.9.1+cu126",
                BuiltFor::Cuda("12.6".parse().expect("a version")),
                &requires,
            ),
        ],
        loads: vec![
            loads("libc10_cuda.so", "libcudart.so.12", "cuda_runtime"),
            loads("libcudnn.so.9", "libcudnn_graph.so.9", "cudnn"),
        ],
        unread: Vec::new(),
    }
}

fn loads(by: &str, soname: &str, folder: &str) -> LoadedLibrary {
    let path = Some(format!("{NVIDIA}/{folder}/lib/{soname}").into());
    LoadedLibrary {
        by: by.into(),
        soname: soname.into(),
        own: path.clone(),
        path,
        found_by: FoundBy::Library,
    }
}

/// What is found with this change of the environment, and the first command of what helps.
fn with(change: impl FnOnce(&mut Seen, &mut PythonEnvironment)) -> (Vec<String>, String) {
    let mut seen = sound();
    let mut environment = environment();
    change(&mut seen, &mut environment);
    seen.python = Answer::Is(vec![environment]);
    let report = super::examined(seen);
    let first = report
        .checks
        .iter()
        .find(|f| matches!(f.status, Status::Warn | Status::Fail));
    let command = first
        .and_then(|f| f.remediation.as_ref()?.commands.first().cloned())
        .unwrap_or_default();
    (super::illnesses(&report), command)
}

fn torch(environment: &mut PythonEnvironment) -> &mut EnvironmentPackage {
    environment.packages.last_mut().expect("torch is the last")
}

#[test]
fn builds() {
    let (found, command) = with(|_, environment| {
        torch(environment).version = "2.9.1+cpu".into();
        torch(environment).build = BuiltFor::Cpu;
        torch(environment).requires.clear();
    });
    assert_eq!(found, ["GS716 warn"]);
    let cu128 = "/opt/venv/bin/pip install --force-reinstall torch==2.9.1 --index-url https://download.pytorch.org/whl/cu128";
    assert_eq!(command, cu128);
    // The driver of the sound host runs CUDA 13; one of branch 570 does not.
    let cuda_13 = |environment: &mut PythonEnvironment| {
        torch(environment).version = "2.9.1+cu130".into();
        torch(environment).build = BuiltFor::Cuda("13.0".parse().expect("a version"));
    };
    assert_eq!(with(|_, environment| cuda_13(environment)).0, [""; 0]);
    let old_driver = |seen: &mut Seen| {
        let version = "570.133.20";
        seen.facts.driver.as_mut().expect("a driver").version = version.parse().expect("a version");
        for module in seen.facts.loaded_modules.iter_mut().flatten() {
            module.version = version.parse().ok();
        }
        seen.facts
            .kernels
            .installed
            .iter_mut()
            .for_each(|k| k.nvidia_module = version.parse().ok());
    };
    let (found, command) = with(|seen, environment| {
        old_driver(seen);
        cuda_13(environment);
    });
    assert!(found.contains(&"GS717 fail".to_owned()), "{found:?}");
    assert!(
        found[0] != "GS717 fail" || command.contains("whl/cu128"),
        "{command}"
    );
    // The build for CUDA 12.8 has no kernels for a P100.
    let (found, _) = with(|seen, environment| {
        torch(environment).build = BuiltFor::Cuda("12.8".parse().expect("a version"));
        seen.facts.gpus[0].pci_id = "10de:15f9".into();
    });
    assert!(found.contains(&"GS718 fail".to_owned()), "{found:?}");
}

#[test]
fn packages() {
    let (found, command) = with(|_, environment| drop(environment.packages.remove(1)));
    assert_eq!(found, ["GS719 fail"]);
    assert_eq!(
        command,
        "/opt/venv/bin/pip install nvidia-cudnn-cu12==9.10.2.21"
    );
    let (found, _) = with(|_, environment| environment.packages[1].version = "9.1.0.70".into());
    assert_eq!(found, ["GS719 warn"]);
    let (found, command) = with(|_, environment| {
        environment.has_pip = false;
        environment.packages[1].missing = vec![format!("{NVIDIA}/cudnn/lib/libcudnn.so.9").into()];
    });
    assert_eq!(found, ["GS719 fail"]);
    assert_eq!(
        command,
        "uv pip install --python /opt/venv --force-reinstall --no-deps nvidia-cudnn-cu12==9.10.2.21"
    );
    let (found, _) = with(|_, environment| {
        (environment.loads[0].path, environment.loads[0].own) = (None, None);
        environment.loads[0].found_by = FoundBy::Nothing;
    });
    assert_eq!(found, ["GS719 fail"]);
}

#[test]
fn libraries_of_other_places() {
    let (found, command) = with(|_, environment| {
        environment.loads[1].path = Some("/usr/local/cuda-12.8/lib64/libcudnn_graph.so.9".into());
        environment.loads[1].found_by = FoundBy::LibraryPath;
    });
    assert_eq!(
        (found, command.as_str()),
        (vec!["GS720 warn".to_owned()], "unset LD_LIBRARY_PATH")
    );
}

#[test]
fn without_environments_nothing_is_said() {
    let mut seen = sound();
    seen.python = Answer::Is(Vec::new());
    let report = super::examined(seen);
    let skipped = report
        .checks
        .iter()
        .filter(|f| f.id >= CheckId::GS716 && f.id <= CheckId::GS720);
    assert!(skipped.clone().count() == 5 && skipped.clone().all(|f| f.status == Status::Skip));
    assert_eq!(found(|seen| seen.python = Answer::Is(Vec::new())), [""; 0]);
}
