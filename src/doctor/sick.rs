//! One sound host, and what may be wrong with it: each illness is a small change of the same evidence, so that whatever
//! else is found is a false alarm.

mod cluster;
mod companions;
mod device;
mod exits;
mod machines;
mod python;
mod senses;

use super::{
    Answer, Apt, Asked, Bus, Cached, CdiSpec, Coherent, Containers, Denial, DockerDaemon, Evidence, EvidenceSources,
    FabricManager, FailedBuild, Given, Image, OldCdiReader, Report, Repository, RepositoryKey, Shells, SignedModules,
    Status, examine,
};
use crate::compat::{CompanionId, VersionRule};
use crate::database::embedded;
use crate::host::{
    AddOnFiles, Block, BrokenConfig, Facts, Firmware, InstalledDriver, LibraryFile, LoadedModule, MachineKind, Origin,
    SecureBoot, SigningKey,
};
use crate::ids::CheckId;
use crate::nvidia::Convolution;
use crate::resolve::known_card;
use crate::system::Node;
use serde_json::json;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const LIB: &str = "/usr/local/cuda-12.8/lib64";
const KERNEL: &str = "6.8.0-71-generic";
const NEW_KEY: &str = "EB693B3035CD5710E231E123A4B469963BF863CC";
const OLD_KEY: &str = "AE09FE4BBD223A84B2CCFCE3F60F4B3D7FA2AF80";
const OLD_KERNEL: &str = "6.8.0-64-generic";

/// A live Ubuntu 24.04 with an A100, driver 580.95.05 built by DKMS for two kernels, CUDA 12.8 and cuDNN 9.10.2.
pub fn sound() -> Evidence {
    let kernel = |release: &str| {
        json!({"release": release, "headers": true, "compiler": "x86_64-linux-gnu-gcc-13 (Ubuntu 13.3.0-6ubuntu2) 13.3.0",
               "nvidia_module": "580.95.05",
               "initramfs": {"path": format!("/boot/initrd.img-{release}"), "size": 1, "modified": 100}})
    };
    let file = |name: &str, link: Option<&str>| json!({"name": name, "link": link, "soname": "libcudnn.so.9", "size": 9, "sha256": null});
    let facts: Facts = serde_json::from_value(json!({
        "schema": "gpusetup.facts/1", "tool": "0", "gcc": "13.3.0", "glibc": "2.39", "secure_boot": "disabled",
        "machine": {"arch": "x86_64", "kind": "physical", "inside": null, "is_tree": false, "boot_id": "b"},
        "os": {"id": "ubuntu", "version": "24.04", "like": ["debian"], "name": "Ubuntu 24.04.3 LTS",
               "package_manager": "apt", "initramfs": "update-initramfs", "immutable": false},
        "gpus": [{"address": "0000:17:00.0", "pci_id": "10de:20b0", "subsystem": null, "class": "0302",
                  "bound_to": "nvidia", "name": "NVIDIA A100-SXM4-40GB", "compute_capability": "8.0", "assumed": false}],
        "nvswitches": [],
        "kernels": {"running": KERNEL, "next_boot": KERNEL, "installed": [kernel(OLD_KERNEL), kernel(KERNEL)]},
        "loaded_modules": [{"name": "nvidia", "version": "580.95.05"}],
        "driver": {"version": "580.95.05", "origin": "dpkg", "modules": "open",
                   "evidence": "package libnvidia-compute-580 580.95.05"},
        "other_drivers": [],
        "toolkits": [{"version": "12.8.1", "path": "/usr/local/cuda-12.8", "origin": "runfile", "has_nvcc": true}],
        "cudnn": [{"version": "9.10.2", "directory": LIB, "origin": "unknown", "header": null,
                   "files": [file("libcudnn.so.9", Some("libcudnn.so.9.10.2")), file("libcudnn.so.9.10.2", None)]}],
        "nvcc": null,
        "loader_cache": {"modified": 100, "entries": []},
        "repositories": [], "space": [],
        "paths": {"/usr/local/cuda": {"kind": "link", "target": "cuda-12.8", "modified": 1}},
        "unreadable": []
    }))
    .expect("facts");
    let database = embedded();
    let cached = |soname: &str, directory: &str| Cached {
        soname: soname.into(),
        path: Path::new(directory).join(soname),
        directory: directory.into(),
        exists: true,
        libcuda: None,
    };
    let denial = Denial { module: "nouveau".into(), by: "/lib/modprobe.d/nvidia.conf".into(), modified: Some(1) };
    Evidence {
        only_facts: false,
        accepts_no_gpu: false,
        distribution: crate::resolve::distribution(&database, &facts).cloned(),
        prefix: "/usr/local".into(),
        default_toolkit: Some("/usr/local/cuda-12.8".into()),
        cards: facts.gpus.iter().map(|g| known_card(&database, g).map_err(|m| m.to_string())).collect(),
        kernel_log: Answer::Is(Vec::new()),
        xids: Vec::new(),
        sxids: Vec::new(),
        has_smi: true,
        missing_packages: Vec::new(),
        has_modprobe: true,
        newest_gcc: [(PathBuf::from("/usr/local/cuda-12.8"), 14)].into(),
        host_compiler: None,
        devices: Some(["nvidia0", "nvidiactl", "nvidia-uvm"].map(str::to_owned).to_vec()),
        fabric_manager: Answer::NotAsked("there is no NVSwitch".into()),
        companions: Answer::Is(Vec::new()),
        requested_companions: database.companions.iter().filter(|of| of.on_request).cloned().collect(),
        dkms: [("nvidia".to_owned(), vec!["580.95.05".to_owned()])].into(),
        failed_builds: Default::default(),
        unlinked_headers: Default::default(),
        compilers: vec![13],
        denied: vec![denial],
        images: [OLD_KERNEL, KERNEL].map(|k| (k.to_owned(), Answer::Is(Image::default()))).into(),
        signer: Answer::NotAsked("the firmware does not require signatures".into()),
        key_is_enrolled: None,
        signed_modules: None,
        module_before_boot: None,
        nvcc: [(PathBuf::from("/usr/local/cuda-12.8"), Answer::Is("12.8".parse().expect("a version")))].into(),
        compiled: [(PathBuf::from("/usr/local/cuda-12.8"), Answer::Is("the program started".into()))].into(),
        shells: Answer::Is(Shells { login: Some("/usr/local/cuda/bin/nvcc".into()), plain: None, image: None }),
        loader_directories: [PathBuf::from(LIB), "/usr/lib/x86_64-linux-gnu".into()].into(),
        cached: vec![cached("libcudnn.so.9", LIB), cached("libcuda.so.1", "/usr/lib/x86_64-linux-gnu")],
        forward_compatible: Default::default(),
        fabric_companion: database.companion(CompanionId::FABRIC_MANAGER).cloned(),
        needed_companions: Vec::new(),
        companion_remedies: Vec::new(),
        library_paths: Vec::new(),
        add_ons: BTreeMap::new(),
        known_add_ons: database.add_ons.clone(),
        cudnn: [("libcudnn.so.9".to_owned(), Answer::Is("9.10.2".parse().expect("a version")))].into(),
        apt: cuda_repository("ubuntu2404", "/usr/share/keyrings/cuda-archive-keyring.gpg", &[(NEW_KEY, false)]),
        bus: Bus::default(),
        containers: Containers::default(),
        cluster: None,
        given: None,
        python: Answer::Is(vec![python::environment()]),
        known_frameworks: database.frameworks.clone(),
        oldest_driver_of_series: python::oldest_drivers(&database),
        coherent: None,
        machine: None,
        platform: None,
        jetpack: None,
        blocked: Some(Vec::new()),
        broken: Default::default(),
        nvml: Answer::Is(device::nvml()),
        cuda: Answer::Is(device::cuda()),
        convolution: [("libcudnn.so.9".to_owned(), Answer::Is(Convolution::Right))].into(),
        holders: Vec::new(),
        persistenced: Some(true),
        boot_layouts: None,
        has_persistence_unit: true,
        settings: None,
        hmm_disabled: Some(false),
        // Otherwise each new bulletin would make this host ill.
        bulletins: Vec::new(),
        branch_cuda: "13.0".parse().ok(),
        oldest_driver: [(PathBuf::from("/usr/local/cuda-12.8"), "525.60.13".parse().expect("a version"))].into(),
        facts,
    }
}

/// apt with NVIDIA's repository for a release, and the keys that it takes for it.
fn cuda_repository(of: &str, signed_by: &str, keys: &[(&str, bool)]) -> Apt {
    let key = |(print, is_weak): &(&str, bool)| RepositoryKey { fingerprint: (*print).to_owned(), is_weak: *is_weak };
    let repository = Repository {
        file: format!("/etc/apt/sources.list.d/cuda-{of}-x86_64.list").into(),
        uri: format!("https://developer.download.nvidia.com/compute/cuda/repos/{of}/x86_64"),
        suite: "/".into(),
        signed_by: signed_by.into(),
        keys: Answer::Is(keys.iter().map(key).collect()),
    };
    Apt { repositories: vec![repository], refuses_sha1: None }
}

fn examined(evidence: Evidence) -> Report {
    senses::are_named(&evidence);
    examine(evidence, &embedded(), &[])
}

/// What was found beside what is well, with a mark for what only follows: `GS104 fail`, `GS501 fail < GS104`.
fn found(change: impl FnOnce(&mut Evidence)) -> Vec<String> {
    let mut evidence = sound();
    change(&mut evidence);
    illnesses(&examined(evidence))
}

fn illnesses(report: &Report) -> Vec<String> {
    let ill = report.checks.iter().filter(|f| !matches!(f.status, Status::Pass | Status::Skip));
    ill.map(|f| {
        assert!(f.cause.is_some() && f.remediation.is_some(), "{}: neither cause nor cure", f.id);
        let status = if f.status == Status::Fail { "fail" } else { "warn" };
        f.consequence_of.map_or(format!("{} {status}", f.id), |cause| format!("{} {status} < {cause}", f.id))
    })
    .collect()
}

fn rival(modules: &[&str]) -> Answer<Image> {
    let rivals = modules.iter().map(|m| format!("usr/lib/modules/x/kernel/drivers/gpu/{m}.ko.zst")).collect();
    Answer::Is(Image { rivals, ..Image::default() })
}

fn other(version: &str, origin: Origin, evidence: &str) -> InstalledDriver {
    let version = version.parse().expect("a version");
    InstalledDriver { version, origin, modules: None, evidence: evidence.into(), alternative: Some(false) }
}

#[test]
fn nothing_is_wrong_with_a_sound_host() {
    let report = examined(sound());
    assert_eq!(found(|_| ()), [""; 0]);
    assert!(!report.has_failed(true) && report.first().is_none());
    // It has no settings, no NVSwitch, no second GPU, no containers, no scheduler, no superchip, and that is all that does not apply.
    let others: Vec<_> = report.checks.iter().filter(|f| f.status != Status::Pass).map(|f| f.id).collect();
    assert_eq!(
        others,
        [
            CheckId::GS906,
            CheckId::GS907,
            CheckId::GS908,
            CheckId::GS914,
            CheckId::GS913,
            CheckId::GS521,
            CheckId::GS801,
            CheckId::GS804,
            CheckId::GS805,
            CheckId::GS902,
            CheckId::GS803,
            CheckId::GS810,
            CheckId::GS811,
            CheckId::GS812,
            CheckId::GS813,
            CheckId::GS909,
            CheckId::GS912
        ]
    );
}

#[test]
fn gpus_and_drivers() {
    let old_card = |e: &mut Evidence| {
        e.facts.gpus[0].pci_id = "10de:15f9".into();
        e.cards = vec![known_card(&embedded(), &e.facts.gpus[0]).map_err(|m| m.to_string())];
    };
    assert_eq!(found(old_card), ["GS504 fail"], "a P100 has no GSP for the open modules");
    let dropped = |e: &mut Evidence| {
        old_card(e);
        e.facts.driver.as_mut().expect("a driver").version = "595.58.03".parse().expect("a version");
        e.facts.loaded_modules = Some(Vec::new());
        e.facts.kernels.installed.iter_mut().for_each(|k| k.nvidia_module = "595.58.03".parse().ok());
    };
    assert_eq!(found(dropped), ["GS503 fail", "GS504 fail < GS503", "GS501 fail < GS503"]);
    assert_eq!(found(|e| e.cards = vec![Err("the GPU 10de:ffff is not in the database".into())]), ["GS503 warn"]);
    let passed_through = |e: &mut Evidence| {
        e.facts.gpus[0].bound_to = Some("vfio-pci".into());
        e.facts.loaded_modules = Some(Vec::new());
    };
    assert_eq!(found(passed_through), ["GS203 warn"], "nobody misses the driver");
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
        move |e: &mut Evidence| {
            e.bulletins = embedded().bulletins;
            e.facts.driver.as_mut().expect("a driver").version = driver.parse().expect("a version");
            e.facts.toolkits[0].version = toolkit.parse().expect("a version");
        }
    };
    let cause = |change: &dyn Fn(&mut Evidence)| {
        let mut evidence = sound();
        change(&mut evidence);
        let check = examined(evidence).checks.into_iter().find(|check| check.id == CheckId::GS513).expect("a check");
        (check.status, check.cause.unwrap_or_default())
    };
    let (status, of_driver) = cause(&floor("580.95.05", "12.8.1"));
    assert_eq!(status, Status::Warn);
    assert!(of_driver.starts_with("driver 580.95.05 is vulnerable (CVE-"), "{of_driver}");
    assert_eq!(cause(&floor("580.999.01", "99.0")), (Status::Pass, String::new()));
    let (status, of_toolkit) = cause(&floor("580.999.01", "12.8.1"));
    assert_eq!(status, Status::Warn);
    assert!(of_toolkit.starts_with("CUDA toolkit 12.8.1 is vulnerable (CVE-"), "{of_toolkit}");
    let in_container = |e: &mut Evidence| {
        floor("580.95.05", "99.0")(e);
        e.facts.machine.kind = MachineKind::Container;
    };
    assert_eq!(cause(&in_container).0, Status::Pass, "the driver is its host's");
    let with_containers = |e: &mut Evidence| {
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

#[test]
fn two_drivers_over_each_other() {
    let runfile = other("550.54.15", Origin::Runfile, "/var/log/nvidia-installer.log");
    assert_eq!(found(|e| e.facts.other_drivers.push(runfile.clone())), ["GS401 fail"]);
    let half = other("570.1.1", Origin::Unknown, "/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.570.1.1");
    assert_eq!(found(|e| e.facts.other_drivers.push(half.clone())), ["GS401 fail"]);
    // An interrupted update explains the files of packages, and not those of a runfile.
    let cut_off = |e: &mut Evidence, second: &InstalledDriver| {
        e.facts.unfinished_packages = vec!["libcuda1".to_owned()];
        e.facts.other_drivers.push(second.clone());
    };
    assert_eq!(found(|e| cut_off(e, &half)), ["GS603 fail", "GS401 fail < GS603"]);
    assert_eq!(found(|e| cut_off(e, &runfile)), ["GS603 fail", "GS401 fail"]);
    // Debian's alternatives are several drivers side by side, and meant to be.
    let beside = |version| InstalledDriver { alternative: Some(true), ..other(version, Origin::Unknown, "a file") };
    let of_debian = |e: &mut Evidence| e.facts.driver.as_mut().expect("a driver").alternative = Some(true);
    let both = |e: &mut Evidence, second: InstalledDriver| {
        of_debian(e);
        e.facts.other_drivers.push(second);
    };
    assert_eq!(found(|e| both(e, beside("470.1.1"))), [""; 0]);
    // The same words as of a file below nvidia/current, and another meaning.
    let log = other("550.54.15", Origin::Runfile, "/var/lib/nvidia/log and /usr/bin/nvidia-uninstall");
    assert_eq!(found(|e| both(e, log.clone())), ["GS401 fail"]);
    let shadowing = other("550.54.15", Origin::Unknown, "/usr/lib/x86_64-linux-gnu/libcuda.so.550.54.15");
    assert_eq!(found(|e| both(e, shadowing.clone())), ["GS401 fail"], "it is before all alternatives");
    // Facts of an older gpusetup do not say it; a runfile's driver is never an alternative.
    let older = |driver: InstalledDriver| InstalledDriver { alternative: None, ..driver };
    let old = |e: &mut Evidence, second: InstalledDriver| e.facts.other_drivers.push(second);
    assert_eq!(found(|e| old(e, older(beside("470.1.1")))), [""; 0]);
    assert_eq!(found(|e| old(e, older(log.clone()))), ["GS401 fail"]);
}

#[test]
fn kernels_and_their_modules() {
    let next = |e: &mut Evidence| e.facts.kernels.installed.remove(1);
    let without = |e: &mut Evidence, headers, module| {
        let mut kernel = next(e);
        kernel.headers = headers;
        kernel.nvidia_module = module;
        e.facts.kernels.installed.push(kernel);
    };
    let module = || "580.95.05".parse().ok();
    assert_eq!(found(|e| without(e, false, module())), ["GS101 warn"], "the next update will fail");
    assert_eq!(found(|e| without(e, false, None)), ["GS101 fail", "GS104 fail < GS101"]);
    assert_eq!(found(|e| without(e, true, None)), ["GS104 fail"]);
    assert_eq!(found(|e| without(e, true, "570.1.1".parse().ok())), ["GS104 fail"]);
    assert_eq!(found(|e| e.facts.kernels.installed[0].nvidia_module = None), ["GS104 warn"], "only the old kernel");
    let too_new = |e: &mut Evidence| {
        without(e, true, None);
        let failed = FailedBuild { why: "nv.c:1:1: error: no such function".into(), is_final: true };
        e.failed_builds.insert(KERNEL.into(), failed);
    };
    assert_eq!(found(too_new), ["GS104 fail"]);
    let mut evidence = sound();
    too_new(&mut evidence);
    let report = examined(evidence);
    let cure = report.first().and_then(|f| f.remediation.as_ref()).expect("a cure");
    assert_eq!(cure.commands, ["gpusetup plan"], "another try would end the same");
    let other_gcc = |e: &mut Evidence| {
        e.compilers = vec![11];
        e.facts.gcc = Some("11.4.0".into());
    };
    assert_eq!(found(other_gcc), ["GS102 warn"]);
    let neither = |e: &mut Evidence| {
        other_gcc(e);
        without(e, true, None);
    };
    assert_eq!(found(neither), ["GS102 fail", "GS104 fail < GS102"]);
    // Modules that come built need neither.
    let prebuilt = |e: &mut Evidence| {
        e.dkms.clear();
        without(e, false, module());
    };
    assert_eq!(found(prebuilt), [""; 0]);
}

#[test]
fn rivals_in_the_initramfs_and_on_the_gpu() {
    let image = |kernel: &'static str, image: Answer<Image>| {
        move |e: &mut Evidence| {
            e.images.insert(kernel.to_owned(), image);
        }
    };
    assert_eq!(found(image(KERNEL, rival(&["nouveau"]))), ["GS201 fail"]);
    assert_eq!(found(image(OLD_KERNEL, rival(&["nouveau"]))), ["GS201 warn"], "only the old kernel");
    assert_eq!(found(image(KERNEL, rival(&["nova_core"]))), ["GS202 fail"]);
    // A splash screen brings all graphics modules; the blacklist comes with them.
    let kept_out = Image { rivals: vec!["x/nouveau.ko".into()], denied: vec!["nouveau".into()], forced: Vec::new() };
    let forced = Answer::Is(Image { forced: vec!["nouveau".into()], ..kept_out.clone() });
    assert_eq!(found(image(KERNEL, forced)), ["GS201 fail"], "a blacklist holds for no name");
    let splash = Answer::Is(kept_out);
    assert_eq!(found(image(KERNEL, splash)), [""; 0]);
    assert_eq!(found(image(KERNEL, Answer::NotAsked("it is root's".into()))), [""; 0]);
    let on_command_line = |e: &mut Evidence| {
        image(KERNEL, rival(&["nouveau"]))(e);
        e.denied.push(Denial { module: "nouveau".into(), by: "/proc/cmdline".into(), modified: None });
    };
    assert_eq!(found(on_command_line), [""; 0]);
    let held = |by: &'static str| {
        move |e: &mut Evidence| {
            e.facts.gpus[0].bound_to = Some(by.into());
            e.facts.loaded_modules = Some(Vec::new());
        }
    };
    assert_eq!(found(held("nouveau")), ["GS201 fail", "GS501 fail < GS201"], "a reboot is all it takes");
    assert_eq!(found(held("nova-core")), ["GS202 fail", "GS501 fail < GS202"]);
    let mut named = sound();
    held("vfio-pci")(&mut named);
    named.facts.gpus[0].address = "0000:17:00.0; id #".into();
    let report = examined(named);
    let cures = report.checks.iter().filter_map(|check| check.remediation.as_ref());
    let commands: Vec<_> = cures.flat_map(|cure| &cure.commands).filter(|command| command.contains("id #")).collect();
    assert!(!commands.is_empty() && commands.iter().all(|c| c.contains("'0000:17:00.0; id #'")), "{commands:?}");
    let before_install = |e: &mut Evidence| {
        held("nouveau")(e);
        e.facts.driver = None;
    };
    assert_eq!(found(before_install), ["GS501 fail"], "nouveau is right where no other driver is");
}

#[test]
fn what_keeps_the_drivers_modules_out() {
    let block = |text: &str, always| Block {
        module: "nvidia".into(),
        by: "/etc/modprobe.d/own settings.conf".into(),
        line: Some(3),
        text: text.into(),
        always,
    };
    let off = || vec![block("alias nvidia off", true)];
    let blacklist = || vec![block("blacklist nvidia", false)];
    let with = |blocks: Vec<Block>, is_loaded: Option<bool>| {
        move |e: &mut Evidence| {
            e.blocked = Some(blocks.clone());
            match is_loaded {
                Some(true) => {}
                Some(false) => {
                    e.facts.loaded_modules = Some(Vec::new());
                    e.facts.gpus[0].bound_to = None;
                }
                None => e.facts.loaded_modules = None,
            }
        }
    };
    assert_eq!(found(with(off(), Some(false))), ["GS204 fail", "GS501 fail < GS204"]);
    assert_eq!(
        found(with(blacklist(), Some(false))),
        ["GS204 fail", "GS501 fail < GS204"],
        "it is why nothing was loaded"
    );
    assert_eq!(found(with(off(), Some(true))), ["GS204 warn"], "the next attempt fails");
    assert_eq!(found(with(blacklist(), Some(true))), [""; 0], "it was loaded by its name");
    assert_eq!(found(with(off(), None)), ["GS204 fail"], "a tree");
    assert_eq!(found(with(blacklist(), None)), ["GS204 warn"], "a tree, in which programs load it by its name");
    let mut evidence = sound();
    with(off(), Some(false))(&mut evidence);
    let report = examined(evidence);
    let check = report.checks.iter().find(|check| check.id == CheckId::GS204).expect("it was run");
    assert!(
        check.cause.as_deref().is_some_and(|cause| cause.contains("own settings.conf:3 keeps")),
        "{:?}",
        check.cause
    );
    let commands = &check.remediation.as_ref().expect("a remedy").commands;
    assert_eq!(commands[0], "sudo sed -i 3d '/etc/modprobe.d/own settings.conf'");
    assert_eq!(commands.last().map(String::as_str), Some("sudo modprobe nvidia"));
}

#[test]
fn what_is_loaded() {
    assert_eq!(found(|e| e.facts.gpus[0].bound_to = None), ["GS501 fail"], "loaded, and without the GPU");
    let loaded = |version: &'static str| {
        move |e: &mut Evidence| {
            e.facts.loaded_modules = Some(vec![LoadedModule { name: "nvidia".into(), version: Some(version.into()) }]);
        }
    };
    assert_eq!(found(loaded("570.1.1")), ["GS501 fail"], "updated, and not booted since");
    assert_eq!(found(|e| e.facts.loaded_modules = Some(Vec::new())), ["GS501 fail"]);
    let secure = |signer: Answer<Option<String>>, is_loaded: bool| {
        move |e: &mut Evidence| {
            e.facts.secure_boot = SecureBoot::Enabled;
            e.signer = signer;
            if !is_loaded {
                e.facts.loaded_modules = Some(Vec::new());
            }
        }
    };
    assert_eq!(found(secure(Answer::Is(None), false)), ["GS301 fail", "GS501 fail < GS301"]);
    assert_eq!(found(secure(Answer::Is(Some("DKMS".into())), true)), [""; 0]);
    secure_boot_keys();
    let from_image = |e: &mut Evidence| {
        loaded("570.1.1")(e);
        e.module_before_boot = Some(true);
    };
    assert_eq!(found(from_image), ["GS501 fail"]);
    let mut evidence = sound();
    from_image(&mut evidence);
    let report = examined(evidence);
    let cure = report.first().and_then(|f| f.remediation.as_ref()).expect("a cure");
    let rebuild = format!("sudo update-initramfs -u -k {KERNEL}");
    assert_eq!(cure.commands, [&*rebuild, "sudo reboot"], "a reboot since then did not help");
    let ours = |enrolled: bool| {
        move |e: &mut Evidence| {
            secure(Answer::Is(Some("DKMS".into())), false)(e);
            e.key_is_enrolled = Some(enrolled);
        }
    };
    assert_eq!(found(ours(false)), ["GS301 fail", "GS501 fail < GS301"]);
    assert_eq!(found(ours(true)), ["GS501 fail"]);
    let unsure = found(secure(Answer::Is(Some("DKMS".into())), false));
    assert_eq!(unsure, ["GS301 warn", "GS501 fail"], "the log does not say why it is not loaded");
}

/// The keys of a host with Secure Boot, and what helps.
fn secure_boot_keys() {
    let (ours, other) = ("/var/lib/dkms/mok.pub", "/root/keys/new.der");
    let key = |path: &str, enrolled, requested| SigningKey { path: path.into(), enrolled, requested };
    let host = move |keys: Vec<SigningKey>, configured: Option<&'static str>, is_loaded: bool| {
        move |e: &mut Evidence| {
            e.facts.secure_boot = SecureBoot::Enabled;
            e.signer = Answer::Is(Some("DKMS".into()));
            e.key_is_enrolled = Some(keys[0].enrolled);
            e.facts.signing_key = keys.first().cloned();
            e.facts.signing_keys = keys.clone();
            e.facts.firmware = Some(Firmware { dkms_certificate: configured.map(Into::into), ..Firmware::default() });
            if !is_loaded {
                e.facts.loaded_modules = Some(Vec::new());
            }
        }
    };
    let cure = |change: &dyn Fn(&mut Evidence)| {
        let mut evidence = sound();
        change(&mut evidence);
        let finding = examined(evidence).checks.into_iter().find(|f| f.id == CheckId::GS301).expect("it is looked at");
        finding.remediation.map(|cure| cure.commands).unwrap_or_default()
    };
    // Modules that the distribution signs need nobody at the console; the key that signed them is in its kernels.
    let could_have = |e: &mut Evidence| {
        host(vec![key(ours, false, false)], None, false)(e);
        let package = "linux-modules-nvidia-580-open-generic".to_owned();
        e.signed_modules = Some(SignedModules { package, replaces: Some("nvidia-dkms-580-open".to_owned()) });
    };
    assert_eq!(
        cure(&could_have),
        [
            "sudo apt-get install linux-modules-nvidia-580-open-generic",
            "sudo apt-get remove nvidia-dkms-580-open",
            "sudo reboot"
        ]
    );
    let has = |signer: &'static str| {
        move |e: &mut Evidence| {
            e.facts.secure_boot = SecureBoot::Enabled;
            e.facts.loaded_modules = Some(Vec::new());
            e.signer = Answer::Is(Some(signer.into()));
        }
    };
    assert_eq!(found(has("Canonical Ltd. Kernel Module Signing")), ["GS501 fail"]);
    assert_eq!(found(has("somebody")), ["GS301 warn", "GS501 fail"]);
    let waits = host(vec![key(ours, false, true)], None, false);
    assert_eq!(found(&waits), ["GS301 fail", "GS501 fail < GS301"]);
    assert_eq!(cure(&waits), ["sudo reboot"], "the request is there already");
    let absent = host(vec![key(ours, false, false)], None, false);
    assert_eq!(cure(&absent)[0], format!("sudo mokutil --import {ours}"));
    // The next kernel's modules would not load.
    let next = |enrolled| host(vec![key(ours, true, false), key(other, enrolled, false)], Some(other), true);
    assert_eq!(found(next(false)), ["GS301 warn"]);
    assert_eq!(cure(&next(false))[0], format!("sudo mokutil --import {other}"));
    assert_eq!(found(next(true)), [""; 0]);
    // Ubuntu's DKMS has its key elsewhere.
    let ubuntu = |e: &mut Evidence| {
        e.facts.secure_boot = SecureBoot::Enabled;
        e.signer = Answer::Is(None);
        e.facts.loaded_modules = Some(Vec::new());
        e.distribution = embedded().distributions.iter().find(|d| d.id == "ubuntu" && d.version == "24.04").cloned();
    };
    assert_eq!(cure(&ubuntu)[0], "sudo mokutil --import /var/lib/shim-signed/mok/MOK.der");
}

#[test]
fn what_the_kernel_said() {
    let log = |text: &'static str| {
        move |e: &mut Evidence| {
            e.kernel_log = Answer::Is(super::kernel_log::parse(text));
            e.xids = embedded().xids;
        }
    };
    let idle = |text: &'static str| {
        move |e: &mut Evidence| {
            log(text)(e);
            e.facts.gpus[0].bound_to = None;
            e.facts.loaded_modules = Some(Vec::new());
        }
    };
    for (number, want) in [
        ("79", &["GS903 fail"][..]),
        ("119", &["GS903 fail"]),
        ("31", &["GS903 warn"]),
        ("63", &[]),
        ("48", &["GS903 fail"]),
        ("9999", &["GS903 warn"]),
    ] {
        let text: &'static str = format!("NVRM: Xid (PCI:0000:17:00): {number}, pid=1, x").leak();
        assert_eq!(found(log(text)), want, "Xid {number}");
    }
    assert_eq!(found(log("NVRM: GPU 0000:17:00.0: RmInitAdapter failed! (0x24:0x72:1568)")), ["GS903 fail"]);
    let open = "NVRM: The NVIDIA GPU 0000:17:00.0 (PCI ID: 10de:20b0)\nNVRM: installed in this system requires use of the NVIDIA open kernel modules";
    assert_eq!(found(log(open)), [""; 0], "it has the GPU since");
    assert_eq!(found(idle(open)), ["GS504 fail", "GS501 fail < GS504"]);
    let legacy = "NVRM: The NVIDIA Tesla M2070 GPU installed in this system is\nNVRM:  supported through the NVIDIA 390.xx Legacy drivers. Please";
    assert_eq!(found(idle(legacy)), ["GS503 fail", "GS501 fail < GS503"]);
    let refused = |e: &mut Evidence| {
        idle("[ 10.0] Loading of module with unavailable key is rejected")(e);
        e.facts.secure_boot = SecureBoot::Enabled;
        e.signer = Answer::Is(Some("DKMS".into()));
    };
    assert_eq!(found(refused), ["GS301 fail", "GS501 fail < GS301"]);
    let room = "NVRM: BAR1 is 0M @ 0x0 (PCI:0000:17:00.0)\nNVRM: GPU 0000:17:00.0: RmInitAdapter failed! (0x24)";
    assert_eq!(found(log(room)), ["GS901 fail", "GS903 fail < GS901"]);
    assert_eq!(found(|e| e.kernel_log = Answer::NotAsked("only root may".into())), [""; 0]);
    for text in ["NVRM: GPU0 x: unexpected WPR2 already up, y", "x: SXid (PCI:0000:c3:00.0): 24007, Fatal, Link 27"] {
        assert_eq!(found(log(text)), ["GS903 fail"], "{text}");
    }
}

#[test]
fn what_the_kernel_said_before_it_changed() {
    let log = |e: &mut Evidence, text: &str| e.kernel_log = Answer::Is(super::kernel_log::parse(text));
    let idle = |e: &mut Evidence, text: &str| {
        log(e, text);
        e.facts.gpus[0].bound_to = None;
        e.facts.loaded_modules = Some(Vec::new());
    };
    let cause = |change: &dyn Fn(&mut Evidence), id: CheckId| {
        let mut evidence = sound();
        change(&mut evidence);
        let report = examined(evidence);
        report.checks.into_iter().find(|f| f.id == id).and_then(|f| f.cause).unwrap_or_default()
    };
    // Some program brings other libraries along; what met a module that is gone is over.
    let mismatch = |client, module| {
        format!(
            "NVRM: API mismatch: the client has the version {client}, but\nNVRM: this kernel module has the version {module}."
        )
    };
    assert_eq!(found(|e| log(e, &mismatch("570.1.1", "580.95.05"))), ["GS501 warn"]);
    assert_eq!(found(|e| log(e, &mismatch("580.95.05", "570.1.1"))), [""; 0]);
    let nova = "NVRM: GPU 0000:17:00.0 is already bound to NovaCore.\nNVRM: No NVIDIA devices probed.";
    assert_eq!(found(|e| log(e, nova)), [""; 0], "it has the GPU since");
    assert_eq!(found(|e| idle(e, nova)), ["GS202 fail", "GS501 fail < GS202"], "nothing keeps nova out");
    let denied = |e: &mut Evidence| {
        idle(e, nova);
        e.denied.push(Denial { module: "nova_core".into(), by: "/etc/modprobe.d/x.conf".into(), modified: Some(1) });
    };
    assert_eq!(found(denied), ["GS501 fail"]);
    assert!(cause(&denied, CheckId::GS501).contains("another driver had the GPU"));
    let vfio = "NVRM: GPU 0000:17:00.0 is already bound to vfio-pci.";
    assert_eq!(found(|e| idle(e, vfio)), ["GS501 fail"], "vfio-pci gave the GPU back");
    let tree = |e: &mut Evidence| {
        idle(e, vfio);
        e.facts.machine.is_tree = true;
        e.facts.loaded_modules = None;
    };
    assert_eq!(found(tree), ["GS203 warn"], "of a tree nothing newer is known");
    let unfit = "nvidia: version magic '6.8.0-64-generic SMP' should be '6.8.0-71-generic SMP'";
    assert!(cause(&|e| idle(e, unfit), CheckId::GS501).contains("built for another kernel"));
    assert!(
        cause(&|e| idle(e, "NVRM: The NVIDIA probe routine failed for 1 device(s)."), CheckId::GS501)
            .contains("could initialise no GPU")
    );
    let unknown = "NVRM: The NVIDIA GPU 0000:17:00.0 (PCI ID: 10de:20b0)\nNVRM: installed in this system is not supported by the\nNVRM: NVIDIA 580.95.05 driver release.";
    assert!(cause(&|e| idle(e, unknown), CheckId::GS503).contains("but its branch does"));
    let open = "NVRM: The NVIDIA GPU 0000:17:00.0 (PCI ID: 10de:20b0)\nNVRM: installed in this system is not supported by open\nNVRM: nvidia.ko because it does not include the required GPU";
    assert!(cause(&|e| idle(e, open), CheckId::GS504).contains("but they do"));
    let enforced = "[ 10.0] Loading of unsigned module is rejected";
    assert_eq!(found(|e| log(e, enforced)), [""; 0], "it is loaded since");
    assert_eq!(found(|e| idle(e, enforced)), ["GS301 fail", "GS501 fail < GS301"], "without Secure Boot");
}

#[test]
fn what_belongs_to_the_driver() {
    assert_eq!(found(|e| e.has_smi = false), ["GS407 fail"]);
    let mut by_runfile = sound();
    by_runfile.has_smi = false;
    by_runfile.facts.driver.as_mut().expect("one").origin = Origin::Runfile;
    let finding = examined(by_runfile).checks.into_iter().find(|f| f.id == CheckId::GS407).expect("there");
    let cure = finding.remediation.expect("advice");
    assert!(cure.commands.is_empty() && cure.text.contains("NVIDIA's runfile contains nvidia-smi"), "{cure:?}");
    let mut headless = sound();
    (headless.has_smi, headless.missing_packages) = (false, vec!["nvidia-utils-580-server".into()]);
    let finding = examined(headless).checks.into_iter().find(|f| f.id == CheckId::GS407).expect("there");
    let commands = finding.remediation.expect("a cure").commands;
    assert!(
        finding.fixable && commands == ["sudo apt-get install --reinstall nvidia-utils-580-server"],
        "{commands:?}"
    );
    assert_eq!(found(|e| _ = e.dkms.insert("nvidia-open".into(), Vec::new())), ["GS106 warn"]);
    let other_won = |e: &mut Evidence| {
        e.dkms.insert("nvidia-open".into(), Vec::new());
        e.facts.kernels.installed[1].nvidia_module = "570.1.1".parse().ok();
    };
    assert_eq!(found(other_won), ["GS106 fail", "GS104 fail < GS106"]);
    let without_uvm = |e: &mut Evidence| e.devices = Some(vec!["nvidia0".into()]);
    assert_eq!(found(without_uvm), [""; 0], "nvidia-modprobe makes it when it is asked for");
    let alone = |e: &mut Evidence| {
        without_uvm(e);
        e.has_modprobe = false;
    };
    assert_eq!(found(alone), ["GS506 fail"]);
    let switches = |manager: Answer<FabricManager>| {
        move |e: &mut Evidence| {
            let switch = json!({"address": "0000:20:00.0", "pci_id": "10de:1af1", "name": "NVSwitch"});
            e.facts.nvswitches = vec![serde_json::from_value(switch).expect("a switch")];
            e.fabric_manager = manager;
        }
    };
    let manager = |version: &str, active| {
        let version = version.parse().expect("a version");
        Answer::Is(FabricManager { version, active: Some(active), log: Vec::new() })
    };
    assert_eq!(found(switches(manager("580.95.05", true))), [""; 0]);
    assert_eq!(found(switches(manager("580.95.05", false))), ["GS801 fail"]);
    let unloaded = |e: &mut Evidence| {
        switches(manager("580.95.05", false))(e);
        e.facts.loaded_modules = Some(Vec::new());
    };
    assert_eq!(found(unloaded), ["GS501 fail", "GS801 fail < GS501"]);
    assert_eq!(found(switches(manager("580.82.07", true))), ["GS801 fail"]);
    assert_eq!(found(switches(Answer::Failed("it is not installed".into()))), ["GS801 fail"]);
    let told = |line: &'static str| {
        let mut seen = sound();
        switches(Answer::Is(FabricManager {
            version: "580.95.05".parse().expect("a version"),
            active: Some(false),
            log: vec!["Starting NVIDIA fabric manager service...".into(), line.into()],
        }))(&mut seen);
        let report = examine(seen, &embedded(), &[CheckId::GS801]);
        report.first().expect("a finding").cause.clone().unwrap_or_default()
    };
    let other =
        "fabric manager NVIDIA GPU driver interface version 580.95.05 don't match with driver version 580.82.07.";
    assert!(told(other).contains("the loaded driver has another version"), "{}", told(other));
    let nothing = "request to query NVSwitch device information from NVSwitch driver failed with error:WARNING Nothing to do \
                   [NV_WARN_NOTHING_TO_DO]";
    assert!(told(nothing).contains("it found no NVSwitch"), "{}", told(nothing));
    assert!(told("a line").ends_with("(802)"), "{}", told("a line"));
    // What the companion's row asks for.
    let of_branch = |version: &'static str| {
        move |e: &mut Evidence| {
            switches(manager(version, true))(e);
            e.fabric_companion.as_mut().expect("a row").version = VersionRule::Branch;
        }
    };
    assert_eq!(found(of_branch("580.82.07")), [""; 0]);
    assert_eq!(found(of_branch("575.57.08")), ["GS801 fail"]);
}

#[test]
fn what_is_half_done_or_in_the_way() {
    assert_eq!(found(|e| e.facts.unfinished_packages = vec!["man-db".into()]), ["GS603 fail"]);
    let full = |e: &mut Evidence| {
        e.facts.kernels.installed.iter_mut().flat_map(|k| &mut k.initramfs).for_each(|i| i.size = 80 << 20);
        let space =
            json!({"path": "/boot", "free_bytes": 60 << 20, "read_only": false, "no_exec": false, "file_system": 1});
        e.facts.space = vec![serde_json::from_value(space).expect("a space")];
    };
    assert_eq!(found(full), ["GS603 warn"]);
    let full_and_stale = |e: &mut Evidence| {
        full(e);
        e.images.insert(KERNEL.into(), rival(&["nouveau"]));
    };
    assert_eq!(found(full_and_stale), ["GS603 fail", "GS201 fail < GS603"], "there is no space to rebuild it");
    let paths = |e: &mut Evidence| {
        e.library_paths.push(("/etc/profile.d/x.sh".into(), "LD_LIBRARY_PATH=/usr/local/cuda/lib64".into()));
    };
    assert_eq!(found(paths), ["GS704 warn"]);
    let new = |e: &mut Evidence| {
        e.facts.gcc = Some("15.2.0".into());
        e.compiled.clear();
    };
    assert_eq!(
        found(|e| {
            new(e);
            e.dkms.clear()
        }),
        ["GS705 fail"]
    );
    let beside = |e: &mut Evidence| {
        new(e);
        e.dkms.clear();
        e.host_compiler = Some(("/etc/profile.d/cuda.sh".into(), "NVCC_PREPEND_FLAGS='-ccbin g++-14'".into()));
    };
    assert_eq!(found(beside), [""; 0]);
    let unheard = |e: &mut Evidence| {
        beside(e);
        e.host_compiler = Some(("/etc/profile.d/cuda.sh".into(), "NVCC_CCBIN=/usr/bin/g++-14".into()));
    };
    assert_eq!(found(unheard), ["GS705 fail"], "CUDA 12.8 does not know the variable");
    let linked = |e: &mut Evidence| {
        new(e);
        e.dkms.clear();
        let node = Node::Link { target: "/usr/bin/gcc-14".into() };
        e.facts
            .paths
            .insert("/usr/local/cuda-12.8/nvvm/bin/gcc".into(), crate::host::PathState { node, modified: None });
    };
    assert_eq!(found(linked), [""; 0]);
}

#[test]
fn repositories_and_their_keys() {
    let with = |of: &'static str, signed_by: &'static str, keys: &'static [(&'static str, bool)]| {
        move |e: &mut Evidence| e.apt = cuda_repository(of, signed_by, keys)
    };
    const KEYRING: &str = "/usr/share/keyrings/cuda-archive-keyring.gpg";
    let old = &[(OLD_KEY, true)];
    let refusing = |e: &mut Evidence| {
        e.apt.refuses_sha1 = Some(("/usr/share/apt/default-sequoia.config".into(), "2026-02-01".into()));
    };
    assert_eq!(found(with("ubuntu2404", KEYRING, old)), ["GS404 fail"], "NO_PUBKEY");
    assert_eq!(found(with("ubuntu2404", "", old)), ["GS404 warn"], "another trusted key may do");
    assert_eq!(found(with("ubuntu2404", KEYRING, &[(OLD_KEY, true), (NEW_KEY, true)])), [""; 0], "gpgv takes SHA-1");
    let refused = |e: &mut Evidence| {
        with("ubuntu2404", KEYRING, &[(NEW_KEY, true)])(e);
        refusing(e);
    };
    assert_eq!(found(refused), ["GS404 fail"]);
    assert_eq!(found(refusing), [""; 0], "its key has a new self-signature");
    assert_eq!(found(with("debian12", KEYRING, &[(NEW_KEY, false)])), ["GS404 warn"], "of another system");
    assert_eq!(found(with("ubuntu2404", KEYRING, &[("00", false)])), [""; 0], "a key that is not known is no fault");
    let missing = |e: &mut Evidence| e.apt.repositories[0].keys = Answer::Failed("the file is not there".into());
    assert_eq!(found(missing), ["GS404 fail"]);
    let unread = |e: &mut Evidence| e.apt.repositories[0].keys = Answer::NotAsked("it is root's".into());
    assert_eq!(found(unread), [""; 0]);
    let twice = |signed_by: &'static str| {
        move |e: &mut Evidence| {
            let mut twin = e.apt.repositories[0].clone();
            (twin.file, twin.signed_by) = ("/etc/apt/sources.list.d/archive.list".into(), signed_by.into());
            e.apt.repositories.push(twin);
        }
    };
    assert_eq!(found(twice("")), ["GS404 fail"], "apt refuses to read any list");
    assert_eq!(found(twice(KEYRING)), [""; 0], "apt only warns of an identical duplicate");
    assert_eq!(found(|e| e.apt = Apt::default()), [""; 0]);
}

#[test]
fn gpus_that_speak_to_each_other() {
    let two = |e: &mut Evidence| {
        let mut second = e.facts.gpus[0].clone();
        second.address = "0000:65:00.0".into();
        e.facts.gpus.push(second);
        e.cards.push(e.cards[0].clone());
        if let Answer::Is(nvml) = &mut e.nvml {
            nvml.gpus.push(nvml.gpus[0].clone());
        }
        e.bus.iommu = [("0000:17:00.0".to_owned(), "identity".to_owned())].into();
        e.bus.detours = [("0000:16:00.0".to_owned(), Answer::Is(false))].into();
    };
    let translated = |e: &mut Evidence| e.bus.iommu = [("0000:17:00.0".to_owned(), "DMA-FQ".to_owned())].into();
    let redirected = |e: &mut Evidence| e.bus.detours = [("0000:16:00.0".to_owned(), Answer::Is(true))].into();
    let with = |changes: &[&dyn Fn(&mut Evidence)]| {
        found(|e| {
            two(e);
            changes.iter().for_each(|change| change(e));
        })
    };
    assert_eq!(with(&[]), [""; 0]);
    assert_eq!(with(&[&translated]), ["GS902 warn"]);
    assert_eq!(with(&[&redirected]), ["GS902 warn"]);
    let unseen = |e: &mut Evidence| e.bus.detours = [("x".to_owned(), Answer::NotAsked("only root may".into()))].into();
    assert_eq!(with(&[&unseen]), [""; 0]);
    let guest = |e: &mut Evidence| e.facts.machine.kind = MachineKind::Virtual;
    assert_eq!(with(&[&translated, &redirected, &guest]), [""; 0], "never in a virtual machine");
    let lent = |e: &mut Evidence| e.facts.gpus[1].bound_to = Some("vfio-pci".into());
    assert_eq!(with(&[&translated, &redirected, &lent]), ["GS203 warn"], "a virtual machine's GPU needs both");
    assert_eq!(found(translated), [""; 0], "one GPU has nobody to speak to");
}

#[test]
fn hosts_of_containers() {
    let with = |change: &dyn Fn(&mut Containers)| {
        found(|e| {
            e.containers.engines = vec!["docker".into()];
            e.containers.has_toolkit = true;
            change(&mut e.containers);
        })
    };
    let spec = |path: &str, missing: Answer<Vec<PathBuf>>| CdiSpec {
        path: path.into(),
        version: Some("0.5.0".to_owned()),
        devices: ["nvidia.com/gpu=all".to_owned()].into(),
        driver: "580.95.05".parse().ok(),
        missing,
    };
    let old = || Answer::Is(vec![PathBuf::from("/usr/lib/x86_64-linux-gnu/libcuda.so.570.1.1")]);
    assert_eq!(with(&|_| ()), [""; 0], "docker finds the toolkit's hook by itself");
    assert_eq!(with(&|c| c.has_toolkit = false), [""; 0], "docker may be here for other ends");
    let useless = |c: &mut Containers| {
        c.has_toolkit = false;
        c.daemon_json = Some("it ends in the middle".into());
    };
    assert_eq!(with(&useless), [""; 0], "that is docker's own business");
    assert_eq!(with(&|c| c.daemon_json = Some("it ends in the middle".into())), ["GS803 fail"]);
    let lost = |c: &mut Containers| {
        c.has_toolkit = false;
        c.lost_runtimes = vec![("/etc/docker/daemon.json".into(), "nvidia-container-runtime".into())];
    };
    assert_eq!(with(&lost), ["GS803 fail"]);
    assert_eq!(with(&|c| c.bare_snap = true), ["GS803 warn"]);
    assert_eq!(with(&|c| c.specs = vec![spec("/etc/cdi/nvidia.yaml", Answer::Is(Vec::new()))]), [""; 0]);
    assert_eq!(with(&|c| c.specs = vec![spec("/etc/cdi/nvidia.yaml", old())]), ["GS803 fail"]);
    let newer = |c: &mut Containers| {
        c.specs = vec![spec("/etc/cdi/nvidia.yaml", old()), spec("/var/run/cdi/nvidia.yaml", Answer::Is(Vec::new()))];
    };
    assert_eq!(with(&newer), [""; 0], "the one in /var/run stands for it");
    let of_other = |path: &str| {
        let spec = spec(path, Answer::Is(Vec::new()));
        CdiSpec { driver: "535.247.01".parse().ok(), ..spec }
    };
    assert_eq!(
        with(&|c| c.specs = vec![of_other("/etc/cdi/nvidia.yaml")]),
        ["GS803 warn"],
        "its files are still there"
    );
    let both = |c: &mut Containers| {
        c.specs = vec![of_other("/etc/cdi/nvidia.yaml"), spec("/var/run/cdi/nvidia.yaml", Answer::Is(Vec::new()))];
    };
    assert_eq!(with(&both), [""; 0]);
    assert_eq!(with(&|c| c.specs = vec![spec("/etc/cdi/x.yaml", Answer::Failed("torn".into()))]), ["GS803 warn"]);
    let podman = |version: &'static str, is_old: bool| {
        with(&|c| {
            let sound = spec("/etc/cdi/nvidia.yaml", Answer::Is(Vec::new()));
            c.specs = vec![CdiSpec { version: Some(version.to_owned()), ..sound }];
            let [version, first, cdi] = ["4.9.3", "5.1.0", "0.7.0"].map(|text| text.parse().expect("a version"));
            let first = Some(first);
            c.old_cdi_readers = vec![OldCdiReader { engine: "Podman".to_owned(), version, first, cdi }];
            c.old_cdi_readers.retain(|_| is_old);
        })
    };
    assert_eq!(podman("0.7.0", true), ["GS803 warn"], "it does not know this version");
    assert_eq!(podman("1.0.0", true), ["GS803 warn"]);
    assert_eq!(podman("0.5.0", true), [""; 0]);
    assert_eq!(podman("0.7.0", false), [""; 0], "a newer one reads it");
    let beside = |missing: Answer<Vec<PathBuf>>, devices: &'static [&'static str]| {
        with(&|c| {
            let newer = spec("/var/run/cdi/nvidia.yaml", Answer::Is(Vec::new()));
            let devices = devices.iter().map(|name| (*name).to_owned()).collect();
            c.specs = vec![
                CdiSpec { devices, ..spec("/etc/cdi/nvidia.yaml", missing.clone()) },
                CdiSpec { version: Some("0.7.0".to_owned()), ..newer },
            ];
            let [version, first, cdi] = ["4.9.3", "5.1.0", "0.7.0"].map(|text| text.parse().expect("a version"));
            c.old_cdi_readers = vec![OldCdiReader { engine: "Podman".to_owned(), version, first: Some(first), cdi }];
        })
    };
    let twice = |other: &'static str| {
        with(&|c| {
            c.specs = ["/etc/cdi/nvidia.yaml", other].map(|path| spec(path, Answer::Is(Vec::new()))).into();
        })
    };
    assert_eq!(twice("/etc/cdi/nvidia2.yaml"), ["GS803 warn"], "engines use neither");
    assert_eq!(twice("/var/run/cdi/nvidia.yaml"), [""; 0], "the one in /var/run takes precedence");
    let gpus: &[&str] = &["nvidia.com/gpu=all", "nvidia.com/gpu=0"];
    assert_eq!(beside(Answer::Is(Vec::new()), gpus), [""; 0], "another one gives it the same devices");
    assert_eq!(beside(Answer::Is(Vec::new()), &["nvidia.com/gds=all"]), ["GS803 warn"]);
    assert_eq!(beside(old(), &gpus[..1]), ["GS803 fail"], "it does not read the one that stands for the stale one");
    let alone = |c: &mut Containers| c.engines = vec!["podman".into()];
    assert_eq!(with(&alone), ["GS803 warn"], "no specification is there");
    let crio = |crio_lacks_runtime: bool| {
        with(&move |c| {
            c.engines = vec!["podman".into(), "crio".into()];
            c.crio_lacks_runtime = crio_lacks_runtime;
        })
    };
    assert_eq!(crio(true), ["GS803 warn"], "it has no other way to the GPUs");
    assert_eq!(crio(false), [""; 0]);
    let broken = |c: &mut Containers| {
        let engine = "cri-o".parse().expect("an id");
        let why = "unclosed table".to_owned();
        c.broken = vec![BrokenConfig { engine, path: "/etc/crio/crio.conf".into(), why, line: None }];
    };
    assert_eq!(with(&broken), ["GS803 fail"], "CRI-O does not start");
    let in_tree = |writes_spec_at_boot: bool| {
        found(move |e| {
            e.facts.machine.is_tree = true;
            e.containers = Containers {
                engines: vec!["podman".into()],
                has_toolkit: true,
                writes_spec_at_boot,
                ..Containers::default()
            };
        })
    };
    let of_containers = |all: Vec<String>| all.into_iter().filter(|of| of.starts_with("GS803")).collect::<Vec<_>>();
    assert_eq!(of_containers(in_tree(false)), ["GS803 warn"], "nothing writes one at boot");
    assert_eq!(of_containers(in_tree(true)), [""; 0]);
    let mut misnamed = sound();
    misnamed.containers.engines = vec!["podman".into()];
    misnamed.containers.has_toolkit = true;
    misnamed.containers.misnamed_specs = vec!["/etc/cdi/nvidia.yml".into()];
    let report = examined(misnamed);
    let advice = report.checks.iter().find(|f| f.id == CheckId::GS803).and_then(|f| f.remediation.as_ref());
    assert_eq!(advice.expect("a warning").commands, ["sudo mv /etc/cdi/nvidia.yml /etc/cdi/nvidia.yaml"]);
    let unread = |c: &mut Containers| {
        c.specs =
            vec![CdiSpec { version: Some("1.1.0".to_owned()), ..spec("/etc/cdi/nvidia.yaml", Answer::Is(Vec::new())) }];
        let [version, cdi] = ["5.8.2", "1.1.0"].map(|text| text.parse().expect("a version"));
        c.old_cdi_readers = vec![OldCdiReader { engine: "Podman".to_owned(), version, first: None, cdi }];
    };
    assert_eq!(with(&unread), ["GS803 warn"], "no version reads it");
    let running = |unknown: &'static [&'static str], cgroup_driver: &'static str, has_char_links| {
        with(&|c| {
            let unknown_runtimes = unknown.iter().map(|name| (*name).to_owned()).collect();
            c.daemon = Some(DockerDaemon { unknown_runtimes, cgroup_driver: cgroup_driver.into(), has_char_links });
        })
    };
    assert_eq!(running(&["nvidia"], "systemd", true), ["GS803 fail"], "it was not restarted");
    assert_eq!(running(&[], "systemd", true), [""; 0]);
    assert_eq!(running(&[], "systemd", false), ["GS803 warn"], "a reload of systemd takes the GPUs away");
    assert_eq!(running(&[], "cgroupfs", false), [""; 0], "it sets the rules itself");
    let coherent = |version: &'static str, mode: &'static str, has_kubelet| {
        found(move |e| {
            let version = version.parse().expect("a version");
            e.facts.driver.as_mut().expect("a driver").version = version;
            e.facts.loaded_modules =
                Some(vec![LoadedModule { name: "nvidia".into(), version: Some(version.to_string()) }]);
            e.facts.kernels.installed.iter_mut().for_each(|k| k.nvidia_module = Some(version));
            e.coherent = Some(Coherent { has_kubelet, mode: mode.into() });
        })
    };
    assert_eq!(coherent("580.95.05", "", true), ["GS909 warn"], "NUMA is its default");
    assert_eq!(coherent("580.95.05", "", false), [""; 0]);
    assert_eq!(coherent("580.95.05", "driver", true), [""; 0]);
    assert_eq!(coherent("570.86.15", "", true), ["GS909 warn"]);
    assert_eq!(coherent("615.71.09", "", true), [""; 0], "it has another default");
    assert_eq!(coherent("615.71.09", "numa", true), ["GS909 warn"]);
}

#[test]
fn toolkits_and_shells() {
    assert_eq!(
        found(|e| {
            e.facts.paths.clear();
            e.facts
                .paths
                .insert("/usr/local/cuda".into(), crate::host::PathState { node: Node::Absent, modified: None });
            e.default_toolkit = None;
        }),
        ["GS701 fail"]
    );
    assert_eq!(found(|e| e.default_toolkit = None), ["GS701 fail"], "the link leads to what is gone");
    assert_eq!(found(|e| e.shells = Answer::Is(Shells::default())), ["GS701 fail"]);
    let libraries_alone = |e: &mut Evidence| {
        e.shells = Answer::Is(Shells::default());
        e.nvcc.clear();
        let toolkit = &mut e.facts.toolkits[0];
        (toolkit.has_nvcc, toolkit.components) = (false, Some(vec!["libcublas".into()]));
    };
    assert_eq!(found(libraries_alone), [""; 0], "no compiler was wanted");
    let two =
        Shells { login: Some("/usr/local/cuda/bin/nvcc".into()), plain: Some("/usr/bin/nvcc".into()), image: None };
    assert_eq!(found(|e| e.shells = Answer::Is(two)), ["GS701 warn"]);
    let of_an_image = Shells { image: Some("/usr/local/cuda/bin/nvcc".into()), ..Shells::default() };
    assert_eq!(found(|e| e.shells = Answer::Is(of_an_image)), [""; 0], "no login shell in a container");
    let nvcc = |answer| {
        move |e: &mut Evidence| {
            e.nvcc.insert("/usr/local/cuda-12.8".into(), answer);
        }
    };
    let compile = |said: &'static str| {
        move |e: &mut Evidence| {
            e.compiled.insert("/usr/local/cuda-12.8".into(), Answer::Failed(said.into()));
        }
    };
    assert_eq!(found(compile("gcc: fatal error: cannot execute 'cc1plus'")), ["GS705 fail"]);
    assert_eq!(found(compile("#error -- unsupported GNU version! gcc versions later than 14")), ["GS705 fail"]);
    assert_eq!(found(compile("error: exception specification is incompatible with that of")), ["GS705 fail"]);
    assert_eq!(found(compile("nvcc fatal   : Unsupported gpu architecture 'compute_20'")), ["GS709 fail"]);
    assert_eq!(found(compile("Segmentation fault")), ["GS709 fail"]);
    assert_eq!(found(nvcc(Answer::Failed("exit status 127".into()))), ["GS709 fail"]);
    assert_eq!(found(nvcc(Answer::Is("12.4".parse().expect("a version")))), ["GS709 fail"]);
    let stubs = |e: &mut Evidence| {
        e.cached[1].directory = "/usr/local/cuda-12.8/targets/x86_64-linux/lib/stubs".into();
    };
    assert_eq!(found(stubs), ["GS507 fail"]);
    let compat = |e: &mut Evidence| {
        e.cached[1].directory = "/usr/local/cuda-13.0/compat".into();
        e.cached[1].path = "/usr/local/cuda-13.0/compat/libcuda.so.1".into();
    };
    assert_eq!(found(compat), ["GS507 fail"]);
    let fitting = |e: &mut Evidence| {
        compat(e);
        e.forward_compatible = [e.cached[1].path.clone()].into();
    };
    assert_eq!(found(fitting), [""; 0], "as NVIDIA means it for data centres");
    let profile = ("/etc/profile.d/x.sh".into(), "export LD_LIBRARY_PATH=/usr/local/cuda/lib64/stubs".to_owned());
    assert_eq!(found(|e| e.library_paths.push(profile)), ["GS507 fail"]);
}

#[test]
fn cudnn_links_cache_and_winner() {
    let files = |e: &mut Evidence| std::mem::take(&mut e.facts.cudnn[0].files);
    assert_eq!(
        found(|e| e.facts.cudnn[0].files.retain(|f| f.link.is_none())),
        ["GS702 fail"],
        "no link of the library's SONAME"
    );
    let broken = |e: &mut Evidence| e.facts.cudnn[0].files[0].soname = None;
    let chain = |e: &mut Evidence| {
        e.facts.cudnn[0].files.remove(0);
        let dev = json!({"name": "libcudnn.so", "link": "libcudnn.so.9", "soname": null, "size": 0, "sha256": null});
        e.facts.cudnn[0].files.push(serde_json::from_value(dev).expect("a link"));
    };
    let mut evidence = sound();
    chain(&mut evidence);
    let report = examined(evidence);
    let cure = report.first().and_then(|f| f.remediation.as_ref()).expect("a cure");
    assert_eq!(cure.commands[0], format!("sudo ln -sfn libcudnn.so.9.10.2 {LIB}/libcudnn.so.9"), "one link fixes both");
    assert_eq!(found(broken), ["GS702 fail"]);
    let copy = |e: &mut Evidence| {
        let copies = files(e).into_iter().map(|f| LibraryFile { link: None, sha256: Some("00".into()), ..f });
        e.facts.cudnn[0].files = copies.collect();
    };
    assert_eq!(found(copy), ["GS702 fail"]);
    assert_eq!(found(|e| e.cached.retain(|c| c.soname != "libcudnn.so.9")), ["GS708 fail"]);
    assert_eq!(found(|e| e.loader_directories.retain(|d| d != Path::new(LIB))), ["GS708 fail"]);
    assert_eq!(found(|e| e.facts.loader_cache = None), ["GS708 fail"]);
    let gone = |e: &mut Evidence| {
        e.cached[0].exists = false;
        e.facts.cudnn[0].files.remove(0);
        e.cudnn.insert("libcudnn.so.9".into(), Answer::Failed("cannot open shared object file".into()));
    };
    assert_eq!(found(gone), ["GS702 fail", "GS708 fail < GS702", "GS703 fail < GS702"]);
    let loaded = |version: &'static str| {
        move |e: &mut Evidence| {
            e.cudnn.insert("libcudnn.so.9".into(), Answer::Is(version.parse().expect("a version")));
        }
    };
    assert_eq!(found(loaded("9.1.0")), ["GS703 fail"], "older than what is compiled against");
    assert_eq!(found(loaded("9.20.0")), ["GS703 warn"]);
    let copies_and_older = |e: &mut Evidence| {
        copy(e);
        loaded("9.1.0")(e);
    };
    assert_eq!(found(copies_and_older), ["GS702 fail", "GS703 fail"], "whole links would not change which is found");
    let no_shell_and_no_cache = |e: &mut Evidence| {
        e.shells = Answer::Is(Shells::default());
        e.facts.loader_cache = None;
    };
    assert_eq!(found(no_shell_and_no_cache), ["GS701 fail", "GS708 fail"]);
    // A second toolkit has a cuDNN of its own, and nobody's path leads there.
    let beside = |e: &mut Evidence| {
        let mut other: AddOnFiles = e.facts.cudnn[0].clone();
        other.directory = "/usr/local/cuda-12.4/lib64".into();
        e.facts.cudnn.push(other);
    };
    assert_eq!(found(beside), [""; 0]);
}

#[test]
fn a_host_that_is_none_of_ours_is_left_alone() {
    for kind in [MachineKind::Container, MachineKind::Wsl2, MachineKind::Jetson] {
        let change = |e: &mut Evidence| {
            e.facts.machine.kind = kind;
            e.facts.driver = None;
            e.facts.gpus[0].bound_to = Some("nouveau".into());
            e.facts.kernels.installed.clear();
            e.facts.loaded_modules = None;
            e.cached.retain(|c| c.soname != "libcuda.so.1");
        };
        assert_eq!(found(change), [""; 0], "{kind:?}");
    }
    let bare = |e: &mut Evidence| {
        e.facts.gpus.clear();
        e.cards.clear();
        e.facts.driver = None;
        e.facts.loaded_modules = Some(Vec::new());
        e.facts.toolkits.clear();
        e.facts.cudnn.clear();
        (e.nvcc, e.cudnn, e.cached, e.dkms) = Default::default();
        e.default_toolkit = None;
        e.shells = Answer::Is(Shells::default());
    };
    assert_eq!(found(bare), ["GS509 warn"], "nothing is visible, and that is the finding");
    let accepted = |e: &mut Evidence| {
        bare(e);
        e.accepts_no_gpu = true;
    };
    assert_eq!(found(accepted), [""; 0], "no GPU is expected");
}

#[test]
fn a_driver_that_is_gone_is_missed_before_what_it_once_said() {
    let gone = |e: &mut Evidence| {
        e.facts.driver = None;
        e.facts.loaded_modules = Some(Vec::new());
        e.facts.gpus[0].bound_to = None;
        (e.nvml, e.cuda) = Default::default();
        let log = "NVRM: Xid (PCI:0000:65:00): 79, pid=1, GPU has fallen off the bus.";
        *e = e.clone().with_kernel_log(log, &embedded());
    };
    let mut evidence = sound();
    gone(&mut evidence);
    let report = examined(evidence);
    let ill = illnesses(&report);
    assert!(ill.contains(&"GS501 fail".to_owned()) && ill.contains(&"GS903 warn".to_owned()), "{ill:?}");
    let first = report.first().expect("a finding");
    assert_eq!((first.id, first.consequence_of), (CheckId::GS501, None), "a reboot installs no driver");
}

#[test]
fn a_container_without_its_gpus_is_told_to_be_started_with_them() {
    let container = |devices, asked| {
        move |e: &mut Evidence| {
            e.facts.machine.kind = MachineKind::Container;
            e.facts.driver = None;
            (e.nvml, e.cuda) = Default::default();
            e.given = Some(Given { devices, asked, capabilities: None });
        }
    };
    let on_no_bus = |asked| {
        move |e: &mut Evidence| {
            container(false, asked)(e);
            e.facts.loaded_modules = None;
            e.facts.gpus.clear();
            e.cards.clear();
        }
    };
    assert_eq!(found(container(false, Asked::Unsaid)), ["GS505 fail"]);
    assert_eq!(found(container(false, Asked::Gpus)), ["GS505 fail"]);
    assert_eq!(found(container(false, Asked::Nothing)), [""; 0], "it was asked for");
    assert_eq!(found(on_no_bus(Asked::Gpus)), ["GS505 warn"]);
    assert_eq!(found(on_no_bus(Asked::Unsaid)), ["GS509 warn"]);
    assert_eq!(found(on_no_bus(Asked::Nothing)), [""; 0], "it was asked for");
    let mut evidence = sound();
    container(false, Asked::Gpus)(&mut evidence);
    let finding = examined(evidence).checks.into_iter().find(|f| f.id == CheckId::GS505).expect("a check");
    let commands = finding.remediation.expect("a cure").commands;
    assert!(commands[0].contains("--gpus all") && !commands.iter().any(|c| c.contains("plan")), "{commands:?}");
}

#[test]
fn a_gpu_that_is_gone_is_missed() {
    let gone = |e: &mut Evidence| {
        e.facts.gpus.clear();
        e.cards.clear();
        (e.nvml, e.cuda) = Default::default();
    };
    assert_eq!(found(gone), ["GS509 warn"], "the driver is installed");
    let log = "NVRM: Xid (PCI:0000:17:00): 79, pid=1, GPU has fallen off the bus.";
    let told = |e: &mut Evidence| {
        gone(e);
        *e = Evidence { bulletins: Vec::new(), ..e.clone().with_kernel_log(log, &embedded()) };
    };
    assert_eq!(found(told), ["GS903 fail", "GS509 fail < GS903"]);
    let unseen = |e: &mut Evidence| {
        gone(e);
        let why = "there is no /sys/bus/pci/devices".to_owned();
        e.facts.unreadable.push(crate::host::Unreadable::gpus(crate::host::Missing::Gpus, why));
    };
    assert_eq!(found(unseen), [""; 0], "a tree of a machine that is elsewhere");
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
fn only_the_checks_asked_for_are_run() {
    let report = examine(sound(), &embedded(), &[CheckId::GS201]);
    assert_eq!(report.checks.iter().map(|f| f.id).collect::<Vec<_>>(), [CheckId::GS201]);
    assert_eq!(report.summary.pass, 1);
}

/// The same of the facts alone.
fn found_in_facts(change: impl FnOnce(&mut Facts)) -> Vec<String> {
    let mut facts = sound().facts;
    change(&mut facts);
    let evidence = Evidence::of_facts(facts, &embedded(), Path::new("/usr/local"), &EvidenceSources::default());
    illnesses(&examined(Evidence { bulletins: Vec::new(), ..evidence }))
}

#[test]
fn facts_alone_show_what_they_show_and_nothing_is_concluded_from_the_rest() {
    assert_eq!(found_in_facts(|_| ()), [""; 0]);
    let report =
        examined(Evidence::of_facts(sound().facts, &embedded(), Path::new("/usr/local"), &EvidenceSources::default()));
    for id in [CheckId::GS404, CheckId::GS803, CheckId::GS902, CheckId::GS909] {
        let found = report.checks.iter().find(|f| f.id == id).and_then(|f| f.cause.as_deref());
        assert_eq!(found, Some(super::evidence::NOT_IN_FACTS), "{id} must not say that there is nothing");
    }
    let dropped = |f: &mut Facts| {
        f.gpus[0].pci_id = "10de:15f9".into();
        f.driver.as_mut().expect("a driver").version = "595.58.03".parse().expect("a version");
        f.loaded_modules = Some(Vec::new());
        f.kernels.installed.iter_mut().for_each(|k| k.nvidia_module = "595.58.03".parse().ok());
    };
    assert_eq!(found_in_facts(dropped), ["GS503 fail", "GS504 fail < GS503", "GS501 fail < GS503"]);
    assert_eq!(found_in_facts(|f| f.kernels.installed[1].nvidia_module = None), ["GS104 fail"]);
    let nouveau = |f: &mut Facts| {
        f.gpus[0].bound_to = Some("nouveau".into());
        f.loaded_modules = Some(Vec::new());
    };
    assert_eq!(found_in_facts(nouveau), ["GS201 fail", "GS501 fail < GS201"]);
    assert_eq!(found_in_facts(|f| f.cudnn[0].files.retain(|f| f.link.is_none())), ["GS702 fail"]);
    assert_eq!(found_in_facts(|f| f.secure_boot = SecureBoot::Enabled), [""; 0], "who signed is not in them");
    let switch = |f: &mut Facts| {
        let switch = json!({"address": "0000:20:00.0", "pci_id": "10de:1af1", "name": "NVSwitch"});
        f.nvswitches = vec![serde_json::from_value(switch).expect("a switch")];
    };
    assert_eq!(found_in_facts(switch), [""; 0], "nor whether Fabric Manager runs");
    // What would be a finding on the host itself.
    let much = |f: &mut Facts| {
        f.kernels.installed[1].headers = false;
        f.gcc = Some("15.2.0".into());
        f.loader_cache = None;
        f.nvcc = None;
        f.paths.clear();
    };
    assert_eq!(found_in_facts(much), [""; 0]);
}
