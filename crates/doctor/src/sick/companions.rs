//! Companions that users ask for: what makes them ill, and what only looks so.

use super::*;
use crate::evidence::CompanionState;
use gpusetup_database::compat::ModuleFlavour;

/// DCGM, its service in this state, with this line in its log.
fn dcgm(enabled: bool, unit: &'static str, line: &'static str) -> impl Fn(&mut Seen) {
    installed("dcgm", enabled, move |state| {
        state.unit = Some(unit.to_owned());
        state.log = vec!["Starting".to_owned(), line.to_owned()];
    })
}

fn installed(
    id: &'static str,
    enabled: bool,
    change: impl Fn(&mut CompanionState),
) -> impl Fn(&mut Seen) {
    move |e| {
        let found = json!({ "id": id, "version": "2.28.4", "enabled": enabled });
        e.facts.companions = vec![serde_json::from_value(found).expect("a companion")];
        let mut state = serde_json::from_value(json!({ "id": id })).expect("a state");
        change(&mut state);
        e.companions = Answer::Is(vec![state]);
    }
}

/// The modules that are loaded besides the driver's.
fn loaded(e: &mut Seen, name: &str) {
    let module = json!({ "name": name, "version": null });
    let module = serde_json::from_value(module).expect("a module");
    e.facts.loaded_modules.get_or_insert_default().push(module);
}

fn verdict(change: impl Fn(&mut Seen)) -> (Status, String, Vec<String>) {
    super::verdict(CheckId::GS805, change)
}

#[test]
fn dcgm_runs_if_boots_start_it() {
    assert_eq!(verdict(dcgm(true, "active", "")).0, Status::Pass);
    assert_eq!(
        verdict(dcgm(false, "inactive", "")).0,
        Status::Pass,
        "exporters have it built in"
    );
    let (status, cause, commands) = verdict(dcgm(
        true,
        "inactive",
        "Host engine already running with pid 4",
    ));
    assert!(
        status == Status::Warn && cause.contains("another host engine"),
        "{cause}"
    );
    assert_eq!(
        commands,
        ["sudo systemctl enable --now nvidia-dcgm.service"]
    );
    let (status, cause, _) = verdict(dcgm(
        false,
        "failed",
        "Err: Failed to start DCGM Server: -7",
    ));
    assert!(
        status == Status::Warn && cause.contains("failed: its port (5555)"),
        "{cause}"
    );
}

#[test]
fn dcgm_has_the_fixes_of_bulletins() {
    let fixes = |version: &'static str, package: &'static str| {
        let found =
            json!({ "id": "dcgm", "version": version, "package": package, "enabled": true });
        super::verdict_by(gpusetup_data::shared(), CheckId::GS513, |seen| {
            seen.facts.companions =
                vec![serde_json::from_value(found.clone()).expect("a companion")];
            seen.facts.driver.as_mut().expect("a driver").version =
                "580.999.01".parse().expect("a version");
            seen.facts.toolkits[0].version = "99.0".parse().expect("a version");
        })
    };
    assert_eq!(
        fixes("4.5.3", "datacenter-gpu-manager-4-cuda13").0,
        Status::Pass
    );
    let (status, cause, commands) = fixes("4.5.2", "datacenter-gpu-manager-4-cuda13");
    assert!(
        status == Status::Warn && cause.contains("CVE-2026-47483") && cause.contains("4.5.3"),
        "{cause}"
    );
    assert!(
        commands[0].ends_with("install datacenter-gpu-manager-4-cuda13"),
        "{commands:?}"
    );
    let (_, _, commands) = fixes("3.3.9", "datacenter-gpu-manager");
    assert_eq!(
        commands,
        ["sudo gpusetup apply --profile driver --with dcgm"]
    );
    assert_eq!(
        fixes("odd", "datacenter-gpu-manager").0,
        Status::Pass,
        "a version that cannot be compared"
    );
}

#[test]
fn nvidia_fs_is_loaded_and_built_for_the_driver() {
    let built = |version: &'static str| {
        move |e: &mut Seen| {
            installed("gds", true, |state| state.built_for = version.parse().ok())(e);
            loaded(e, "nvidia_fs");
        }
    };
    assert_eq!(verdict(built("580.95.05")).0, Status::Pass);
    assert_eq!(verdict(built("no log")).0, Status::Pass);
    let (status, cause, commands) = verdict(built("570.211.01"));
    assert!(
        status == Status::Fail && cause.contains("570.211.01") && cause.contains("580.95.05"),
        "{cause}"
    );
    assert_eq!(
        commands[0],
        format!("sudo dkms build nvidia-fs/2.28.4 -k {KERNEL} --force")
    );
    let (status, cause, commands) = verdict(installed("gds", true, |_| ()));
    assert!(
        status == Status::Warn && cause.contains("not loaded"),
        "{cause}"
    );
    assert_eq!(commands, ["sudo modprobe nvidia-fs"]);
    let (_, cause, _) = verdict(|e| {
        installed("gds", true, |_| ())(e);
        e.facts.driver.as_mut().expect("a driver").modules = Some(ModuleFlavour::Proprietary);
    });
    assert!(cause.contains("needs the open kernel modules"), "{cause}");
    assert_eq!(
        verdict(installed("gds", false, |_| ())).0,
        Status::Pass,
        "nobody has boots load it"
    );
    assert_eq!(
        verdict(|e| e.companions = Default::default()).0,
        Status::Skip
    );
}
