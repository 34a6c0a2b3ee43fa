//! Hosts of containers, and a container.

use super::*;
use crate::evidence::{Coherent, DockerDaemon, OldCdiReader};
use gpusetup_host::CdiSpec;

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
    let old = || {
        Answer::Is(vec![PathBuf::from(
            "/usr/lib/x86_64-linux-gnu/libcuda.so.570.1.1",
        )])
    };
    assert_eq!(
        with(&|_| ()),
        [""; 0],
        "docker finds the toolkit's hook by itself"
    );
    assert_eq!(
        with(&|c| c.has_toolkit = false),
        [""; 0],
        "docker may be here for other ends"
    );
    let daemon_json = || {
        vec![BrokenConfig {
            engine: "docker".parse().expect("an id"),
            path: "/etc/docker/daemon.json".into(),
            why: "it ends in the middle".into(),
            line: None,
        }]
    };
    let useless = |c: &mut Containers| {
        c.has_toolkit = false;
        c.broken = daemon_json();
    };
    assert_eq!(with(&useless), [""; 0], "that is docker's own business");
    assert_eq!(with(&|c| c.broken = daemon_json()), ["GS803 fail"]);
    let lost = |c: &mut Containers| {
        c.has_toolkit = false;
        c.lost_runtimes = vec![(
            "/etc/docker/daemon.json".into(),
            "nvidia-container-runtime".into(),
        )];
    };
    assert_eq!(with(&lost), ["GS803 fail"]);
    assert_eq!(with(&|c| c.bare_snap = true), ["GS803 warn"]);
    assert_eq!(
        with(&|c| c.specs = vec![spec("/etc/cdi/nvidia.yaml", Answer::Is(Vec::new()))]),
        [""; 0]
    );
    assert_eq!(
        with(&|c| c.specs = vec![spec("/etc/cdi/nvidia.yaml", old())]),
        ["GS803 fail"]
    );
    let newer = |c: &mut Containers| {
        c.specs = vec![
            spec("/etc/cdi/nvidia.yaml", old()),
            spec("/var/run/cdi/nvidia.yaml", Answer::Is(Vec::new())),
        ];
    };
    assert_eq!(with(&newer), [""; 0], "the one in /var/run stands for it");
    let of_other = |path: &str| {
        let spec = spec(path, Answer::Is(Vec::new()));
        CdiSpec {
            driver: "535.247.01".parse().ok(),
            ..spec
        }
    };
    assert_eq!(
        with(&|c| c.specs = vec![of_other("/etc/cdi/nvidia.yaml")]),
        ["GS803 warn"],
        "its files are still there"
    );
    let both = |c: &mut Containers| {
        c.specs = vec![
            of_other("/etc/cdi/nvidia.yaml"),
            spec("/var/run/cdi/nvidia.yaml", Answer::Is(Vec::new())),
        ];
    };
    assert_eq!(with(&both), [""; 0]);
    assert_eq!(
        with(&|c| c.specs = vec![spec("/etc/cdi/x.yaml", Answer::Failed("torn".into()))]),
        ["GS803 warn"]
    );
    let podman = |version: &'static str, is_old: bool| {
        with(&|c| {
            let sound = spec("/etc/cdi/nvidia.yaml", Answer::Is(Vec::new()));
            c.specs = vec![CdiSpec {
                version: Some(version.to_owned()),
                ..sound
            }];
            let [version, first, cdi] =
                ["4.9.3", "5.1.0", "0.7.0"].map(|text| text.parse().expect("a version"));
            let first = Some(first);
            c.old_cdi_readers = vec![OldCdiReader {
                engine: "Podman".to_owned(),
                version,
                first,
                cdi,
            }];
            c.old_cdi_readers.retain(|_| is_old);
        })
    };
    assert_eq!(
        podman("0.7.0", true),
        ["GS803 warn"],
        "it does not know this version"
    );
    assert_eq!(podman("1.0.0", true), ["GS803 warn"]);
    assert_eq!(podman("0.5.0", true), [""; 0]);
    assert_eq!(podman("0.7.0", false), [""; 0], "a newer one reads it");
    let beside = |missing: Answer<Vec<PathBuf>>, devices: &'static [&'static str]| {
        with(&|c| {
            let newer = spec("/var/run/cdi/nvidia.yaml", Answer::Is(Vec::new()));
            let devices = devices.iter().map(|name| (*name).to_owned()).collect();
            c.specs = vec![
                CdiSpec {
                    devices,
                    ..spec("/etc/cdi/nvidia.yaml", missing.clone())
                },
                CdiSpec {
                    version: Some("0.7.0".to_owned()),
                    ..newer
                },
            ];
            let [version, first, cdi] =
                ["4.9.3", "5.1.0", "0.7.0"].map(|text| text.parse().expect("a version"));
            c.old_cdi_readers = vec![OldCdiReader {
                engine: "Podman".to_owned(),
                version,
                first: Some(first),
                cdi,
            }];
        })
    };
    let twice = |other: &'static str| {
        with(&|c| {
            c.specs = ["/etc/cdi/nvidia.yaml", other]
                .map(|path| spec(path, Answer::Is(Vec::new())))
                .into();
        })
    };
    assert_eq!(
        twice("/etc/cdi/nvidia2.yaml"),
        ["GS803 warn"],
        "engines use neither"
    );
    assert_eq!(
        twice("/var/run/cdi/nvidia.yaml"),
        [""; 0],
        "the one in /var/run takes precedence"
    );
    let gpus: &[&str] = &["nvidia.com/gpu=all", "nvidia.com/gpu=0"];
    assert_eq!(
        beside(Answer::Is(Vec::new()), gpus),
        [""; 0],
        "another one gives it the same devices"
    );
    assert_eq!(
        beside(Answer::Is(Vec::new()), &["nvidia.com/gds=all"]),
        ["GS803 warn"]
    );
    assert_eq!(
        beside(old(), &gpus[..1]),
        ["GS803 fail"],
        "it does not read the one that stands for the stale one"
    );
    let alone = |c: &mut Containers| c.engines = vec!["podman".into()];
    assert_eq!(with(&alone), ["GS803 warn"], "no specification is there");
    let crio = |crio_lacks_runtime: bool| {
        with(&move |c| {
            c.engines = vec!["podman".into(), "crio".into()];
            c.crio_lacks_runtime = crio_lacks_runtime;
        })
    };
    assert_eq!(
        crio(true),
        ["GS803 warn"],
        "it has no other way to the GPUs"
    );
    assert_eq!(crio(false), [""; 0]);
    let broken = |c: &mut Containers| {
        let engine = "cri-o".parse().expect("an id");
        let why = "unclosed table".to_owned();
        c.broken = vec![BrokenConfig {
            engine,
            path: "/etc/crio/crio.conf".into(),
            why,
            line: None,
        }];
    };
    assert_eq!(with(&broken), ["GS803 fail"], "CRI-O does not start");
    let in_tree = |writes_spec_at_boot: bool| {
        found(move |e| {
            e.facts.machine.is_offline_root = true;
            e.containers = Containers {
                engines: vec!["podman".into()],
                has_toolkit: true,
                writes_spec_at_boot,
                ..Containers::default()
            };
        })
    };
    let of_containers = |all: Vec<String>| {
        all.into_iter()
            .filter(|of| of.starts_with("GS803"))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        of_containers(in_tree(false)),
        ["GS803 warn"],
        "nothing writes one at boot"
    );
    assert_eq!(of_containers(in_tree(true)), [""; 0]);
    let mut misnamed = sound();
    misnamed.containers.engines = vec!["podman".into()];
    misnamed.containers.has_toolkit = true;
    misnamed.containers.misnamed_specs = vec!["/etc/cdi/nvidia.yml".into()];
    let report = examined(misnamed);
    let advice = report
        .checks
        .iter()
        .find(|f| f.id == CheckId::GS803)
        .and_then(|f| f.remediation.as_ref());
    assert_eq!(
        advice.expect("a warning").commands,
        ["sudo mv /etc/cdi/nvidia.yml /etc/cdi/nvidia.yaml"]
    );
    let unread = |c: &mut Containers| {
        c.specs = vec![CdiSpec {
            version: Some("1.1.0".to_owned()),
            ..spec("/etc/cdi/nvidia.yaml", Answer::Is(Vec::new()))
        }];
        let [version, cdi] = ["5.8.2", "1.1.0"].map(|text| text.parse().expect("a version"));
        c.old_cdi_readers = vec![OldCdiReader {
            engine: "Podman".to_owned(),
            version,
            first: None,
            cdi,
        }];
    };
    assert_eq!(with(&unread), ["GS803 warn"], "no version reads it");
    let running =
        |unknown: &'static [&'static str], cgroup_driver: &'static str, has_char_links| {
            with(&|c| {
                let unknown_runtimes = unknown.iter().map(|name| (*name).to_owned()).collect();
                c.daemon = Some(DockerDaemon {
                    unknown_runtimes,
                    cgroup_driver: cgroup_driver.into(),
                    has_char_links,
                });
            })
        };
    assert_eq!(
        running(&["nvidia"], "systemd", true),
        ["GS803 fail"],
        "it was not restarted"
    );
    assert_eq!(running(&[], "systemd", true), [""; 0]);
    assert_eq!(
        running(&[], "systemd", false),
        ["GS803 warn"],
        "a reload of systemd takes the GPUs away"
    );
    assert_eq!(
        running(&[], "cgroupfs", false),
        [""; 0],
        "it sets the rules itself"
    );
    let coherent = |version: &'static str, mode: &'static str, has_kubelet| {
        found(move |e| {
            let version = version.parse().expect("a version");
            e.facts.driver.as_mut().expect("a driver").version = version;
            e.facts.loaded_modules = Some(vec![LoadedModule {
                name: "nvidia".into(),
                version: Some(version.to_string()),
            }]);
            e.facts
                .kernels
                .installed
                .iter_mut()
                .for_each(|k| k.nvidia_module = Some(version));
            e.coherent = Some(Coherent {
                has_kubelet,
                mode: mode.into(),
            });
        })
    };
    assert_eq!(
        coherent("580.95.05", "", true),
        ["GS909 warn"],
        "NUMA is its default"
    );
    assert_eq!(coherent("580.95.05", "", false), [""; 0]);
    assert_eq!(coherent("580.95.05", "driver", true), [""; 0]);
    assert_eq!(coherent("570.86.15", "", true), ["GS909 warn"]);
    assert_eq!(
        coherent("615.71.09", "", true),
        [""; 0],
        "it has another default"
    );
    assert_eq!(coherent("615.71.09", "numa", true), ["GS909 warn"]);
}

#[test]
fn a_container_without_its_gpus_is_told_to_be_started_with_them() {
    let container = |devices, asked| {
        move |e: &mut Seen| {
            e.facts.machine.kind = MachineKind::Container;
            e.facts.driver = None;
            (e.nvml, e.cuda) = Default::default();
            e.given = Some(Given {
                devices,
                asked,
                capabilities: None,
            });
        }
    };
    let on_no_bus = |asked| {
        move |e: &mut Seen| {
            container(false, asked)(e);
            e.facts.loaded_modules = None;
            e.facts.gpus.clear();
        }
    };
    assert_eq!(found(container(false, Asked::Unsaid)), ["GS505 fail"]);
    assert_eq!(found(container(false, Asked::Gpus)), ["GS505 fail"]);
    assert_eq!(
        found(container(false, Asked::Nothing)),
        [""; 0],
        "it was asked for"
    );
    assert_eq!(found(on_no_bus(Asked::Gpus)), ["GS505 warn"]);
    assert_eq!(found(on_no_bus(Asked::Unsaid)), ["GS509 warn"]);
    assert_eq!(
        found(on_no_bus(Asked::Nothing)),
        [""; 0],
        "it was asked for"
    );
    let mut evidence = sound();
    container(false, Asked::Gpus)(&mut evidence);
    let finding = examined(evidence)
        .checks
        .into_iter()
        .find(|f| f.id == CheckId::GS505)
        .expect("a check");
    let commands = finding.remediation.expect("a cure").commands;
    assert!(
        commands[0].contains("--gpus all") && !commands.iter().any(|c| c.contains("plan")),
        "{commands:?}"
    );
}
