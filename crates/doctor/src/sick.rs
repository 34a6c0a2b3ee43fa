//! One sound host, and what may be wrong with it: each illness is a small change of the same
//! evidence, so that whatever else is found is a false alarm.

mod cluster;
mod companions;
mod containers;
mod device;
mod driver;
mod exits;
mod facts;
mod kernel;
mod log;
mod machines;
mod packages;
mod python;
mod toolkit;

use super::evidence::{
    Apt, Asked, BlacklistEntry, Containers, Given, InitramfsContents, LoaderCacheEntry, Repository,
    RepositoryKey, Seen, Shells,
};
use super::{Answer, CHECKS, Case, Probe, Report, Status, examine};
use gpusetup_data::embedded;
use gpusetup_database::compat::Database;
use gpusetup_host::sample::{KERNEL, LIB, OLD_KERNEL, facts as facts_of_sound};
use gpusetup_host::{
    BrokenConfig, Facts, InstalledDriver, LoadedModule, MachineKind, Origin, PathState, SecureBoot,
};
use gpusetup_nvidia::Convolution;
use gpusetup_system::Node;
use gpusetup_text::ids::CheckId;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

/// The database without bulletins: each new one would make the sound host ill.
static DATABASE: LazyLock<Database> = LazyLock::new(|| {
    let mut database = embedded();
    database.bulletins.clear();
    database
});

const NEW_KEY: &str = "EB693B3035CD5710E231E123A4B469963BF863CC";

/// What a check says of the sound host after this change: its status, its cause, and its commands.
fn verdict(id: CheckId, change: impl Fn(&mut Seen)) -> (Status, String, Vec<String>) {
    verdict_by(&DATABASE, id, change)
}

/// The same with the facts of another database.
fn verdict_by(
    database: &'static Database,
    id: CheckId,
    change: impl Fn(&mut Seen),
) -> (Status, String, Vec<String>) {
    let mut seen = sound();
    change(&mut seen);
    let check = examine(seen, database, &[id])
        .checks
        .into_iter()
        .next()
        .expect("a check");
    (
        check.status,
        check.cause.unwrap_or_default(),
        check
            .remediation
            .map(|cure| cure.commands)
            .unwrap_or_default(),
    )
}

/// A live Ubuntu 24.04 with an A100, driver 580.95.05 built by DKMS for two kernels, CUDA 12.8 and
/// cuDNN 9.10.2.
pub(crate) fn sound() -> Seen {
    let facts = facts_of_sound();
    let cached = |soname: &str, directory: &str| LoaderCacheEntry {
        soname: soname.into(),
        path: Path::new(directory).join(soname),
        directory: directory.into(),
        exists: true,
        libcuda: None,
    };
    let denial = BlacklistEntry {
        module: "nouveau".into(),
        by: "/lib/modprobe.d/nvidia.conf".into(),
        modified: Some(1),
    };
    Seen {
        prefix: "/usr/local".into(),
        default_toolkit: Some("/usr/local/cuda-12.8".into()),
        kernel_log: Answer::Is(Vec::new()),
        has_smi: true,
        has_modprobe: true,
        devices: Some(
            ["nvidia0", "nvidiactl", "nvidia-uvm"]
                .map(str::to_owned)
                .to_vec(),
        ),
        fabric_manager: Answer::NotAsked("there is no NVSwitch".into()),
        companions: Answer::Is(Vec::new()),
        dkms: [("nvidia".to_owned(), vec!["580.95.05".to_owned()])].into(),
        compilers: vec![13],
        denied: vec![denial],
        images: [OLD_KERNEL, KERNEL]
            .map(|k| (k.to_owned(), Answer::Is(InitramfsContents::default())))
            .into(),
        signer: Answer::NotAsked("the firmware does not require signatures".into()),
        nvcc: [(
            PathBuf::from("/usr/local/cuda-12.8"),
            Answer::Is("12.8".parse().expect("a version")),
        )]
        .into(),
        compiled: [(
            PathBuf::from("/usr/local/cuda-12.8"),
            Answer::Is("the program started".into()),
        )]
        .into(),
        shells: Answer::Is(Shells {
            login: Some("/usr/local/cuda/bin/nvcc".into()),
            plain: None,
            image: None,
        }),
        loader_directories: [PathBuf::from(LIB), "/usr/lib/x86_64-linux-gnu".into()].into(),
        cached: vec![
            cached("libcudnn.so.9", LIB),
            cached("libcuda.so.1", "/usr/lib/x86_64-linux-gnu"),
        ],
        cudnn: [(
            "libcudnn.so.9".to_owned(),
            Answer::Is("9.10.2".parse().expect("a version")),
        )]
        .into(),
        apt: cuda_repository(
            "ubuntu2404",
            "/usr/share/keyrings/cuda-archive-keyring.gpg",
            &[(NEW_KEY, false)],
        ),
        python: Answer::Is(vec![python::environment()]),
        blocked: Some(Vec::new()),
        nvml: Answer::Is(device::nvml()),
        cuda: Answer::Is(device::cuda()),
        convolution: [("libcudnn.so.9".to_owned(), Answer::Is(Convolution::Right))].into(),
        persistenced: Some(true),
        has_persistence_unit: true,
        hmm_disabled: Some(false),
        facts,
        ..Seen::default()
    }
}

/// apt with NVIDIA's repository for a release, and the keys that it takes for it.
fn cuda_repository(of: &str, signed_by: &str, keys: &[(&str, bool)]) -> Apt {
    let key = |(print, is_weak): &(&str, bool)| RepositoryKey {
        fingerprint: (*print).to_owned(),
        is_weak: *is_weak,
    };
    let repository = Repository {
        file: format!("/etc/apt/sources.list.d/cuda-{of}-x86_64.list").into(),
        uri: format!("https://developer.download.nvidia.com/compute/cuda/repos/{of}/x86_64"),
        suite: "/".into(),
        signed_by: signed_by.into(),
        keys: Answer::Is(keys.iter().map(key).collect()),
    };
    Apt {
        repositories: vec![repository],
        refuses_sha1: None,
    }
}

/// Every check whose verdict changes without a probe names it.
fn probes_are_named(seen: &Seen, database: &Database) {
    let case = Case::new(seen, database);
    for probe in Probe::ALL {
        let mut without = seen.clone();
        probe.clear(&mut without);
        let without = Case::new(&without, database);
        for check in CHECKS.iter().filter(|check| !check.needs.contains(probe)) {
            assert_eq!(
                (check.run)(&case),
                (check.run)(&without),
                "{} does not say that it needs {probe:?}",
                check.id
            );
        }
    }
}

fn examined(seen: Seen) -> Report {
    examined_with(seen, &DATABASE)
}

fn examined_with(seen: Seen, database: &'static Database) -> Report {
    probes_are_named(&seen, database);
    examine(seen, database, &[])
}

/// What was found beside what is well, with a mark for what only follows: `GS104 fail`, `GS501 fail
/// < GS104`.
fn found(change: impl FnOnce(&mut Seen)) -> Vec<String> {
    let mut evidence = sound();
    change(&mut evidence);
    illnesses(&examined(evidence))
}

fn illnesses(report: &Report) -> Vec<String> {
    let ill = report
        .checks
        .iter()
        .filter(|f| !matches!(f.status, Status::Pass | Status::Skip));
    ill.map(|f| {
        assert!(
            f.cause.is_some() && f.remediation.is_some(),
            "{}: neither cause nor cure",
            f.id
        );
        let status = if f.status == Status::Fail {
            "fail"
        } else {
            "warn"
        };
        f.consequence_of
            .map_or(format!("{} {status}", f.id), |cause| {
                format!("{} {status} < {cause}", f.id)
            })
    })
    .collect()
}

fn rival(modules: &[&str]) -> Answer<InitramfsContents> {
    let rivals = modules
        .iter()
        .map(|m| format!("usr/lib/modules/x/kernel/drivers/gpu/{m}.ko.zst"))
        .collect();
    Answer::Is(InitramfsContents {
        rivals,
        ..InitramfsContents::default()
    })
}

#[test]
fn nothing_is_wrong_with_a_sound_host() {
    let report = examined(sound());
    assert_eq!(found(|_| ()), [""; 0]);
    assert!(!report.has_failed(true) && report.first().is_none());
}

#[test]
fn a_host_that_is_none_of_ours_is_left_alone() {
    for kind in [
        MachineKind::Container,
        MachineKind::Wsl2,
        MachineKind::Jetson,
    ] {
        let change = |e: &mut Seen| {
            e.facts.machine.kind = kind;
            e.facts.driver = None;
            e.facts.gpus[0].bound_to = Some("nouveau".into());
            e.facts.kernels.installed.clear();
            e.facts.loaded_modules = None;
            e.cached.retain(|c| c.soname != "libcuda.so.1");
        };
        assert_eq!(found(change), [""; 0], "{kind:?}");
    }
    let bare = |e: &mut Seen| {
        e.facts.gpus.clear();
        e.facts.driver = None;
        e.facts.loaded_modules = Some(Vec::new());
        e.facts.toolkits.clear();
        e.facts.cudnn.clear();
        (e.nvcc, e.cudnn, e.cached, e.dkms) = Default::default();
        e.default_toolkit = None;
        e.shells = Answer::Is(Shells::default());
    };
    assert_eq!(
        found(bare),
        ["GS509 warn"],
        "nothing is visible, and that is the finding"
    );
    let accepted = |e: &mut Seen| {
        bare(e);
        e.accepts_no_gpu = true;
    };
    assert_eq!(found(accepted), [""; 0], "no GPU is expected");
}

#[test]
fn the_first_thing_to_do_is_a_cause() {
    let mut evidence = sound();
    evidence.images.insert(KERNEL.into(), rival(&["nouveau"]));
    evidence.facts.gpus[0].bound_to = Some("nouveau".into());
    evidence.facts.loaded_modules = Some(Vec::new());
    evidence.shells = Answer::Is(Shells::default());
    let report = examined(evidence);
    let first = report.first().expect("something is wrong");
    assert_eq!(first.id, CheckId::GS201);
    let commands = &first.remediation.as_ref().expect("a cure").commands;
    assert_eq!(commands[0], format!("sudo update-initramfs -u -k {KERNEL}"));
    assert!(report.has_failed(false));
}

#[test]
fn what_was_seen_is_read_again() {
    let value = serde_json::to_value(sound()).expect("JSON");
    assert_eq!(
        serde_json::from_value::<Seen>(value).expect("the same"),
        sound()
    );
}

#[test]
fn only_the_checks_asked_for_are_run() {
    let report = examine(sound(), &DATABASE, &[CheckId::GS201]);
    assert_eq!(
        report.checks.iter().map(|f| f.id).collect::<Vec<_>>(),
        [CheckId::GS201]
    );
    assert_eq!(report.summary.pass, 1);
}
