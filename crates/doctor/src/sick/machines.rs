//! WSL2, Jetson, image-based systems, laptops with two GPUs, external GPUs, DGX OS: each ill, and
//! its healthy twin.

use super::*;
use crate::evidence::{Hybrid, MachineState, Wsl};
use gpusetup_database::compat::ModuleFlavour;
use gpusetup_host::Board;

/// Makes it a host on the platform with this id.
fn is_on(e: &mut Seen, id: &str) {
    let mut platforms = DATABASE.platforms.iter();
    let platform = platforms
        .find(|platform| platform.id == id)
        .expect("a platform");
    e.facts.os.id = platform.os[0].clone();
    e.facts.os.variant = platform.variants.first().cloned();
    e.facts.os.signs = platform.files.clone();
}

/// WSL2 as it should be: Windows' device and library, no driver for Linux.
fn wsl(e: &mut Seen) {
    e.facts.machine.kind = MachineKind::Wsl2;
    e.facts.driver = None;
    e.facts.gpus.clear();
    e.facts.loaded_modules = None;
    e.cached.retain(|c| c.soname != "libcuda.so.1");
    e.cached.push(LoaderCacheEntry {
        soname: "libcuda.so.1".into(),
        path: "/usr/lib/wsl/lib/libcuda.so.1".into(),
        directory: "/usr/lib/wsl/lib".into(),
        exists: true,
        libcuda: None,
    });
    e.machine = Some(MachineState {
        wsl: Some(Wsl {
            device: Some(true),
            library: true,
        }),
        hybrid: None,
    });
}

#[test]
fn wsl2_loads_the_library_of_windows() {
    let wsl2 = |change: &dyn Fn(&mut Seen)| {
        verdict(CheckId::GS906, |e| {
            wsl(e);
            change(e);
        })
    };
    assert_eq!(wsl2(&|_| ()).0, Status::Pass);
    assert_eq!(verdict(CheckId::GS906, |_| ()).0, Status::Skip);
    let driver = sound().facts.driver;
    let (status, cause, commands) = wsl2(&|e| e.facts.driver = driver.clone());
    assert!(
        status == Status::Fail && cause.contains("580.95.05 for Linux is installed in WSL2"),
        "{cause}"
    );
    assert_eq!(
        commands,
        ["sudo apt-get remove libnvidia-compute-580", "sudo ldconfig"]
    );
    let by_runfile = |e: &mut Seen| {
        e.facts.driver = driver.clone().map(|driver| InstalledDriver {
            origin: Origin::Runfile,
            ..driver
        });
    };
    assert_eq!(wsl2(&by_runfile).2[0], "sudo nvidia-uninstall --silent");
    let stubs = |e: &mut Seen| {
        let last = e.cached.last_mut().expect("libcuda");
        (last.path, last.directory) = ("/opt/x/libcuda.so.1".into(), "/opt/x".into());
    };
    let (status, cause, _) = wsl2(&stubs);
    assert!(
        status == Status::Fail && cause.contains("from /opt/x"),
        "{cause}"
    );
    for (device, library, says) in [
        (Some(false), true, "/dev/dxg is missing"),
        (Some(true), false, "no libcuda"),
    ] {
        let given = |e: &mut Seen| {
            e.machine = Some(MachineState {
                wsl: Some(Wsl { device, library }),
                hybrid: None,
            });
        };
        let (status, cause, commands) = wsl2(&given);
        assert!(status == Status::Fail && cause.contains(says), "{cause}");
        assert_eq!(commands[0], "wsl.exe --update");
    }
}

/// An Orin with JetPack 6.2, as it should be.
fn jetson(e: &mut Seen) {
    e.facts.machine.kind = MachineKind::Jetson;
    e.facts.driver = None;
    e.facts.machine.board = Some(Board {
        model: None,
        l4t: Some("36.4.3".into()),
    });
}

#[test]
fn a_jetson_keeps_its_driver_and_a_toolkit_that_it_runs() {
    let board = |change: &dyn Fn(&mut Seen)| {
        verdict(CheckId::GS907, |e| {
            jetson(e);
            change(e);
        })
    };
    assert_eq!(board(&|_| ()).0, Status::Pass, "CUDA 12.8 runs there");
    assert_eq!(verdict(CheckId::GS907, |_| ()).0, Status::Skip);
    let driver = sound().facts.driver;
    let (status, cause, commands) = board(&|e| e.facts.driver = driver.clone());
    assert!(
        status == Status::Fail && cause.contains("for graphics cards"),
        "{cause}"
    );
    assert!(
        commands[0].contains("libnvidia-compute-580") && commands[1].contains("nvidia-l4t-core"),
        "{commands:?}"
    );
    let newer = |e: &mut Seen| e.facts.toolkits[0].version = "13.0.2".parse().expect("a version");
    let (status, cause, _) = board(&newer);
    assert!(
        status == Status::Warn && cause.contains("JetPack 6.2") && cause.contains("12.9"),
        "{cause}"
    );
    assert_eq!(board(&|e| e.facts.machine.board = None).0, Status::Skip);
}

#[test]
fn an_image_based_system_is_told_its_own_way() {
    let of = |id: &'static str, has_driver: bool| {
        verdict(CheckId::GS908, |e| {
            is_on(e, id);
            e.facts.os.immutable = true;
            if !has_driver {
                e.facts.driver = None;
            }
        })
    };
    let (status, cause, commands) = of("fedora-atomic", false);
    assert!(
        status == Status::Fail && cause.contains("Silverblue"),
        "{cause}"
    );
    // The repository is there only after the reboot.
    assert_eq!(
        commands[1..3],
        [
            "sudo reboot",
            "sudo rpm-ostree install akmod-nvidia xorg-x11-drv-nvidia-cuda"
        ]
    );
    assert_eq!(of("fedora-atomic", true).0, Status::Pass);
    let volta = |id: &'static str| {
        verdict(CheckId::GS908, |e| {
            is_on(e, id);
            e.facts.driver = None;
            e.facts.gpus[0].pci_id = "10de:1db4".to_owned();
        })
    };
    assert!(of("flatcar", false).2[0].starts_with("echo nvidia-drivers-570-open |"));
    assert!(
        volta("flatcar").2[0].starts_with("echo nvidia-drivers-570 |"),
        "open modules do not run it"
    );
    assert!(
        volta("sle-micro").2[0].starts_with("gpusetup explain"),
        "none is known"
    );
    let on_image = |id: &'static str, variant: &'static str| {
        verdict(CheckId::GS908, |e| {
            is_on(e, id);
            (e.facts.driver, e.facts.os.variant) = (None, Some(variant.to_owned()));
        })
    };
    for (id, without, with) in [
        ("universal-blue", "bazzite", "bazzite-nvidia-open"),
        ("bottlerocket", "aws-k8s-1.33", "aws-k8s-1.33-nvidia"),
    ] {
        assert!(
            on_image(id, without).2[0].contains("-nvidia"),
            "{id}: the image with the driver"
        );
        assert!(
            on_image(id, with).2[0].starts_with("sudo dmesg"),
            "{id}: it is on that image"
        );
    }
    let in_container = |e: &mut Seen| {
        is_on(e, "universal-blue");
        (e.facts.machine.kind, e.facts.driver) = (MachineKind::Container, None);
    };
    assert_eq!(
        verdict(CheckId::GS908, in_container).0,
        Status::Skip,
        "the driver is the host's"
    );
    assert_eq!(
        verdict(CheckId::GS908, |e| e.facts.driver = None).0,
        Status::Skip,
        "packages can change this host"
    );
}

#[test]
fn a_laptops_desktop_can_use_both_gpus() {
    let laptop = |graphics: bool, mode_setting: Option<bool>| {
        verdict(CheckId::GS912, |e| {
            e.facts.machine.portable = true;
            let other =
                json!([{"address": "0000:00:02.0", "pci_id": "8086:a7a0", "bound_to": "i915"}]);
            e.facts.other_gpus = serde_json::from_value(other).expect("a GPU");
            e.facts.repositories = vec!["http://archive/ubuntu noble main restricted".to_owned()];
            e.machine = Some(MachineState {
                wsl: None,
                hybrid: Some(Hybrid {
                    graphics,
                    mode_setting,
                }),
            });
        })
    };
    assert_eq!(laptop(true, Some(true)).0, Status::Pass);
    assert_eq!(
        laptop(true, None).0,
        Status::Pass,
        "a module that is not loaded is not known"
    );
    let (status, cause, commands) = laptop(false, Some(true));
    assert!(
        status == Status::Warn && cause.contains("without its graphics libraries"),
        "{cause}"
    );
    assert!(
        commands[0].contains("nvidia-driver-580") && commands[0].ends_with("nvidia-prime"),
        "{commands:?}"
    );
    let (status, _, commands) = laptop(true, Some(false));
    assert_eq!(
        (status, commands[0].ends_with("nvidia_drm.modeset=1")),
        (Status::Warn, true)
    );
    assert_eq!(verdict(CheckId::GS912, |_| ()).0, Status::Skip);
}

#[test]
fn an_external_gpu_is_authorised() {
    let connected = |authorized: bool| {
        verdict(CheckId::GS913, |e| {
            let device = json!([{"name": "Razer Core X", "authorized": authorized}]);
            e.facts.thunderbolt = serde_json::from_value(device).expect("a device");
            if authorized {
                e.facts.external_gpus = vec!["0000:17:00.0".to_owned()];
            }
        })
    };
    assert_eq!(connected(true).0, Status::Pass);
    let (status, cause, commands) = connected(false);
    assert!(
        status == Status::Warn && cause.starts_with("Razer Core X"),
        "{cause}"
    );
    assert_eq!(commands, ["boltctl list", "sudo boltctl authorize DEVICE"]);
    assert_eq!(verdict(CheckId::GS913, |_| ()).0, Status::Skip);
}

#[test]
fn dgx_os_keeps_its_driver() {
    let spark = |origin: Origin| {
        verdict(CheckId::GS914, |e| {
            is_on(e, "dgx-os");
            e.facts.driver.as_mut().expect("a driver").origin = origin;
        })
    };
    assert_eq!(spark(Origin::Dpkg).0, Status::Pass);
    let (status, cause, commands) = spark(Origin::Runfile);
    assert!(
        status == Status::Warn && cause.contains("DGX OS"),
        "{cause}"
    );
    assert_eq!(commands[0], "sudo apt update && sudo apt full-upgrade");
    assert_eq!(verdict(CheckId::GS914, |_| ()).0, Status::Skip);
}

/// An AC922 (POWER9) with a V100, this driver and CUDA 12.4: the last of both that NVIDIA published
/// for POWER came in one runfile.
fn ac922(e: &mut Seen, driver: &str) {
    let (version, toolkit) = (
        driver.parse().expect("a version"),
        PathBuf::from("/usr/local/cuda-12.4"),
    );
    e.facts.machine.arch = "ppc64le".into();
    let gpu = &mut e.facts.gpus[0];
    (gpu.pci_id, gpu.name) = ("10de:1db1".into(), Some("Tesla V100-SXM2-16GB".into()));
    gpu.compute_capability = Some("7.0".parse().expect("a capability"));
    e.facts.driver = e.facts.driver.take().map(|of| InstalledDriver {
        version,
        origin: Origin::Runfile,
        modules: Some(ModuleFlavour::Proprietary),
        ..of
    });
    e.facts.loaded_modules = Some(vec![LoadedModule {
        name: "nvidia".into(),
        version: Some(driver.into()),
    }]);
    e.facts
        .kernels
        .installed
        .iter_mut()
        .for_each(|kernel| kernel.nvidia_module = Some(version));
    (e.facts.toolkits[0].path, e.facts.toolkits[0].version) =
        (toolkit.clone(), "12.4.1".parse().expect("a version"));
    e.nvcc = [(
        toolkit.clone(),
        Answer::Is("12.4".parse().expect("a version")),
    )]
    .into();
    e.default_toolkit = Some(toolkit);
    // What a driver runs is the database's word.
    let unsaid = "NVML was not asked".to_owned();
    (e.nvml, e.cuda) = (Answer::NotAsked(unsaid.clone()), Answer::NotAsked(unsaid));
}

#[test]
fn a_power_host_has_a_driver_that_its_toolkit_runs_on() {
    let judged = |driver: &str| verdict(CheckId::GS707, |e| ac922(e, driver));
    assert_eq!(judged("550.54.15").0, Status::Pass);
    let (status, cause, commands) = judged("450.80.02");
    assert!(
        status == Status::Fail && cause.contains("525.60.13 or newer, not 450.80.02"),
        "{status:?} {cause}"
    );
    assert!(!commands.is_empty(), "{commands:?}");
    // The newest branch for other machines has no driver for a V100, on POWER neither.
    let (status, cause, _) = verdict(CheckId::GS503, |e| ac922(e, "595.99.02"));
    assert!(
        status == Status::Fail && cause.contains("V100"),
        "{status:?} {cause}"
    );
    assert_eq!(
        verdict(CheckId::GS503, |e| ac922(e, "550.54.15")).0,
        Status::Pass
    );
}
