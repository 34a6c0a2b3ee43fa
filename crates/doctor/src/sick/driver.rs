//! Drivers, and what belongs to them: several at once, none, a wrong one, and the GPUs that they
//! miss.

use super::*;
use crate::evidence::FabricManager;
use gpusetup_database::compat::{CompanionId, VersionRule};
use gpusetup_host::{Missing, Unreadable};

#[test]
fn gpus_and_drivers() {
    let old_card = |e: &mut Seen| {
        e.facts.gpus[0].pci_id = "10de:15f9".into();
    };
    assert_eq!(
        found(old_card),
        ["GS504 fail"],
        "a P100 has no GSP for the open modules"
    );
    let dropped = |e: &mut Seen| {
        old_card(e);
        e.facts.driver.as_mut().expect("a driver").version =
            "595.58.03".parse().expect("a version");
        e.facts.loaded_modules = Some(Vec::new());
        e.facts
            .kernels
            .installed
            .iter_mut()
            .for_each(|k| k.nvidia_module = "595.58.03".parse().ok());
    };
    assert_eq!(
        found(dropped),
        ["GS503 fail", "GS504 fail < GS503", "GS501 fail < GS503"]
    );
    assert_eq!(
        found(|e| {
            e.facts.gpus[0].pci_id = "10de:ffff".into();
            e.facts.gpus[0].compute_capability = None;
        }),
        ["GS503 warn"]
    );
    let passed_through = |e: &mut Seen| {
        e.facts.gpus[0].bound_to = Some("vfio-pci".into());
        e.facts.loaded_modules = Some(Vec::new());
    };
    assert_eq!(
        found(passed_through),
        ["GS203 warn"],
        "nobody misses the driver"
    );
    assert_eq!(
        found(|e| {
            e.facts.driver = None;
            e.facts.loaded_modules = Some(Vec::new());
        }),
        ["GS501 fail"]
    );
}

#[test]
fn fixes_of_security_bulletins() {
    let floor = |driver: &'static str, toolkit: &'static str| {
        move |e: &mut Seen| {
            e.facts.driver.as_mut().expect("a driver").version = driver.parse().expect("a version");
            e.facts.toolkits[0].version = toolkit.parse().expect("a version");
        }
    };
    let cause = |change: &dyn Fn(&mut Seen)| {
        let database = gpusetup_data::shared();
        let (status, cause, _) = super::verdict_by(database, CheckId::GS513, change);
        (status, cause)
    };
    let (status, of_driver) = cause(&floor("580.95.05", "12.8.1"));
    assert_eq!(status, Status::Warn);
    assert!(
        of_driver.starts_with("driver 580.95.05 is vulnerable (CVE-"),
        "{of_driver}"
    );
    assert_eq!(
        cause(&floor("580.999.01", "99.0")),
        (Status::Pass, String::new())
    );
    let (status, of_toolkit) = cause(&floor("580.999.01", "12.8.1"));
    assert_eq!(status, Status::Warn);
    assert!(
        of_toolkit.starts_with("CUDA toolkit 12.8.1 is vulnerable (CVE-"),
        "{of_toolkit}"
    );
    let in_container = |e: &mut Seen| {
        floor("580.95.05", "99.0")(e);
        e.facts.machine.kind = MachineKind::Container;
    };
    assert_eq!(
        cause(&in_container).0,
        Status::Pass,
        "the driver is its host's"
    );
    let with_containers = |e: &mut Seen| {
        floor("580.999.01", "99.0")(e);
        e.containers.toolkit_version = "1.17.7".parse().ok();
    };
    let (status, of_container_toolkit) = cause(&with_containers);
    assert_eq!(status, Status::Warn);
    assert!(
        of_container_toolkit.starts_with("NVIDIA Container Toolkit 1.17.7 is vulnerable"),
        "{of_container_toolkit}"
    );
}

fn other(version: &str, origin: Origin, evidence: &str) -> InstalledDriver {
    let version = version.parse().expect("a version");
    InstalledDriver {
        version,
        origin,
        modules: None,
        evidence: evidence.into(),
        alternative: Some(false),
    }
}

#[test]
fn two_drivers_over_each_other() {
    let runfile = other(
        "550.54.15",
        Origin::Runfile,
        "/var/log/nvidia-installer.log",
    );
    assert_eq!(
        found(|e| e.facts.other_drivers.push(runfile.clone())),
        ["GS401 fail"]
    );
    let half = other(
        "570.1.1",
        Origin::Unknown,
        "/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.570.1.1",
    );
    assert_eq!(
        found(|e| e.facts.other_drivers.push(half.clone())),
        ["GS401 fail"]
    );
    // An interrupted update explains the files of packages, and not those of a runfile.
    let cut_off = |e: &mut Seen, second: &InstalledDriver| {
        e.facts.unfinished_packages = vec!["libcuda1".to_owned()];
        e.facts.other_drivers.push(second.clone());
    };
    assert_eq!(
        found(|e| cut_off(e, &half)),
        ["GS603 fail", "GS401 fail < GS603"]
    );
    assert_eq!(
        found(|e| cut_off(e, &runfile)),
        ["GS603 fail", "GS401 fail"]
    );
    // Debian's alternatives are several drivers side by side, and meant to be.
    let beside = |version| InstalledDriver {
        alternative: Some(true),
        ..other(version, Origin::Unknown, "a file")
    };
    let of_debian =
        |e: &mut Seen| e.facts.driver.as_mut().expect("a driver").alternative = Some(true);
    let both = |e: &mut Seen, second: InstalledDriver| {
        of_debian(e);
        e.facts.other_drivers.push(second);
    };
    assert_eq!(found(|e| both(e, beside("470.1.1"))), [""; 0]);
    // The same words as of a file below nvidia/current, and another meaning.
    let log = other(
        "550.54.15",
        Origin::Runfile,
        "/var/lib/nvidia/log and /usr/bin/nvidia-uninstall",
    );
    assert_eq!(found(|e| both(e, log.clone())), ["GS401 fail"]);
    let shadowing = other(
        "550.54.15",
        Origin::Unknown,
        "/usr/lib/x86_64-linux-gnu/libcuda.so.550.54.15",
    );
    assert_eq!(
        found(|e| both(e, shadowing.clone())),
        ["GS401 fail"],
        "it is before all alternatives"
    );
    // Facts of an older gpusetup do not say it; a runfile's driver is never an alternative.
    let older = |driver: InstalledDriver| InstalledDriver {
        alternative: None,
        ..driver
    };
    let old = |e: &mut Seen, second: InstalledDriver| e.facts.other_drivers.push(second);
    assert_eq!(found(|e| old(e, older(beside("470.1.1")))), [""; 0]);
    assert_eq!(found(|e| old(e, older(log.clone()))), ["GS401 fail"]);
}

/// Fabric Manager only has to be of the driver's branch.
static OF_BRANCH: LazyLock<Database> = LazyLock::new(|| {
    let mut database = DATABASE.clone();
    let mut companions = database.companions.iter_mut();
    companions
        .find(|of| of.id == CompanionId::FABRIC_MANAGER)
        .expect("a row")
        .version = VersionRule::Branch;
    database
});

#[test]
fn what_belongs_to_the_driver() {
    assert_eq!(found(|e| e.has_smi = false), ["GS407 fail"]);
    let mut by_runfile = sound();
    by_runfile.has_smi = false;
    by_runfile.facts.driver.as_mut().expect("one").origin = Origin::Runfile;
    let finding = examined(by_runfile)
        .checks
        .into_iter()
        .find(|f| f.id == CheckId::GS407)
        .expect("there");
    let cure = finding.remediation.expect("advice");
    assert!(
        cure.commands.is_empty() && cure.text.contains("NVIDIA's runfile contains nvidia-smi"),
        "{cure:?}"
    );
    let mut headless = sound();
    (headless.has_smi, headless.missing_packages) = (false, vec!["nvidia-utils-580-server".into()]);
    let finding = examined(headless)
        .checks
        .into_iter()
        .find(|f| f.id == CheckId::GS407)
        .expect("there");
    let commands = finding.remediation.expect("a cure").commands;
    assert!(
        finding.fixable && commands == ["sudo apt-get install --reinstall nvidia-utils-580-server"],
        "{commands:?}"
    );
    assert_eq!(
        found(|e| _ = e.dkms.insert("nvidia-open".into(), Vec::new())),
        ["GS106 warn"]
    );
    let other_won = |e: &mut Seen| {
        e.dkms.insert("nvidia-open".into(), Vec::new());
        e.facts.kernels.installed[1].nvidia_module = "570.1.1".parse().ok();
    };
    assert_eq!(found(other_won), ["GS106 fail", "GS104 fail < GS106"]);
    let without_uvm = |e: &mut Seen| e.devices = Some(vec!["nvidia0".into()]);
    assert_eq!(
        found(without_uvm),
        [""; 0],
        "nvidia-modprobe makes it when it is asked for"
    );
    let alone = |e: &mut Seen| {
        without_uvm(e);
        e.has_modprobe = false;
    };
    assert_eq!(found(alone), ["GS506 fail"]);
    let switches = |manager: Answer<FabricManager>| {
        move |e: &mut Seen| {
            let switch =
                json!({"address": "0000:20:00.0", "pci_id": "10de:1af1", "name": "NVSwitch"});
            e.facts.nvswitches = vec![serde_json::from_value(switch).expect("a switch")];
            e.fabric_manager = manager;
        }
    };
    let manager = |version: &str, active| {
        let version = version.parse().expect("a version");
        Answer::Is(FabricManager {
            version,
            active: Some(active),
            log: Vec::new(),
        })
    };
    assert_eq!(found(switches(manager("580.95.05", true))), [""; 0]);
    assert_eq!(found(switches(manager("580.95.05", false))), ["GS801 fail"]);
    let unloaded = |e: &mut Seen| {
        switches(manager("580.95.05", false))(e);
        e.facts.loaded_modules = Some(Vec::new());
    };
    assert_eq!(found(unloaded), ["GS501 fail", "GS801 fail < GS501"]);
    assert_eq!(found(switches(manager("580.82.07", true))), ["GS801 fail"]);
    assert_eq!(
        found(switches(Answer::Failed("it is not installed".into()))),
        ["GS801 fail"]
    );
    let told = |line: &'static str| {
        let mut seen = sound();
        switches(Answer::Is(FabricManager {
            version: "580.95.05".parse().expect("a version"),
            active: Some(false),
            log: vec![
                "Starting NVIDIA fabric manager service...".into(),
                line.into(),
            ],
        }))(&mut seen);
        let report = examine(seen, &DATABASE, &[CheckId::GS801]);
        report
            .first()
            .expect("a finding")
            .cause
            .clone()
            .unwrap_or_default()
    };
    let other = "fabric manager NVIDIA GPU driver interface version 580.95.05 don't match with driver version 580.82.07.";
    assert!(
        told(other).contains("the loaded driver has another version"),
        "{}",
        told(other)
    );
    let nothing = "request to query NVSwitch device information from NVSwitch driver failed with error:WARNING Nothing to do \
                   [NV_WARN_NOTHING_TO_DO]";
    assert!(
        told(nothing).contains("it found no NVSwitch"),
        "{}",
        told(nothing)
    );
    assert!(told("a line").ends_with("(802)"), "{}", told("a line"));
    // What the companion's row asks for.
    let of_branch = |version: &'static str| {
        let mut seen = sound();
        switches(manager(version, true))(&mut seen);
        illnesses(&examined_with(seen, &OF_BRANCH))
    };
    assert_eq!(of_branch("580.82.07"), [""; 0]);
    assert_eq!(of_branch("575.57.08"), ["GS801 fail"]);
}

#[test]
fn a_driver_that_is_gone_is_missed_before_what_it_once_said() {
    let gone = |e: &mut Seen| {
        e.facts.driver = None;
        e.facts.loaded_modules = Some(Vec::new());
        e.facts.gpus[0].bound_to = None;
        (e.nvml, e.cuda) = Default::default();
        let log = "NVRM: Xid (PCI:0000:65:00): 79, pid=1, GPU has fallen off the bus.";
        *e = e.clone().with_kernel_log(log);
    };
    let mut evidence = sound();
    gone(&mut evidence);
    let report = examined(evidence);
    let ill = illnesses(&report);
    assert!(
        ill.contains(&"GS501 fail".to_owned()) && ill.contains(&"GS903 warn".to_owned()),
        "{ill:?}"
    );
    let first = report.first().expect("a finding");
    assert_eq!(
        (first.id, first.consequence_of),
        (CheckId::GS501, None),
        "a reboot installs no driver"
    );
}

#[test]
fn a_gpu_that_is_gone_is_missed() {
    let gone = |e: &mut Seen| {
        e.facts.gpus.clear();
        (e.nvml, e.cuda) = Default::default();
    };
    assert_eq!(found(gone), ["GS509 warn"], "the driver is installed");
    let log = "NVRM: Xid (PCI:0000:17:00): 79, pid=1, GPU has fallen off the bus.";
    let told = |e: &mut Seen| {
        gone(e);
        *e = e.clone().with_kernel_log(log);
    };
    assert_eq!(found(told), ["GS903 fail", "GS509 fail < GS903"]);
    let unseen = |e: &mut Seen| {
        gone(e);
        let why = "there is no /sys/bus/pci/devices".to_owned();
        e.facts
            .unreadable
            .push(Unreadable::gpus(Missing::Gpus, why));
    };
    assert_eq!(
        found(unseen),
        [""; 0],
        "a tree of a machine that is elsewhere"
    );
}

#[test]
fn gpus_that_speak_to_each_other() {
    let two = |e: &mut Seen| {
        let mut second = e.facts.gpus[0].clone();
        second.address = "0000:65:00.0".into();
        e.facts.gpus.push(second);
        if let Answer::Is(nvml) = &mut e.nvml {
            nvml.gpus.push(nvml.gpus[0].clone());
        }
        e.bus.iommu = [("0000:17:00.0".to_owned(), "identity".to_owned())].into();
        e.bus.detours = [("0000:16:00.0".to_owned(), Answer::Is(false))].into();
    };
    let translated =
        |e: &mut Seen| e.bus.iommu = [("0000:17:00.0".to_owned(), "DMA-FQ".to_owned())].into();
    let redirected =
        |e: &mut Seen| e.bus.detours = [("0000:16:00.0".to_owned(), Answer::Is(true))].into();
    let with = |changes: &[&dyn Fn(&mut Seen)]| {
        found(|e| {
            two(e);
            changes.iter().for_each(|change| change(e));
        })
    };
    assert_eq!(with(&[]), [""; 0]);
    assert_eq!(with(&[&translated]), ["GS902 warn"]);
    assert_eq!(with(&[&redirected]), ["GS902 warn"]);
    let unseen = |e: &mut Seen| {
        e.bus.detours = [("x".to_owned(), Answer::NotAsked("only root may".into()))].into()
    };
    assert_eq!(with(&[&unseen]), [""; 0]);
    let guest = |e: &mut Seen| e.facts.machine.kind = MachineKind::Virtual;
    assert_eq!(
        with(&[&translated, &redirected, &guest]),
        [""; 0],
        "never in a virtual machine"
    );
    let lent = |e: &mut Seen| e.facts.gpus[1].bound_to = Some("vfio-pci".into());
    assert_eq!(
        with(&[&translated, &redirected, &lent]),
        ["GS203 warn"],
        "a virtual machine's GPU needs both"
    );
    assert_eq!(found(translated), [""; 0], "one GPU has nobody to speak to");
}
